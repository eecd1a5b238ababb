//! Stacks beside the tools that write their state: OpenTofu and Terraform themselves, and a console that is killed while it is written to.
//!
//! One backend is enough: no cluster is asked. What the door says to every request is in the console's `stack_state`.

use std::path::{Path, PathBuf};

use plural_testkit::{TestDatabase, each_database, one_database, program_or_report};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::{
    asker::Asker,
    program::{ConsoleProcess, Done, Home, finish},
};

each_database!(
    opentofu_keeps_its_state_here,
    a_state_comes_back_byte_for_byte,
    a_state_with_all_that_one_can_hold_comes_back_byte_for_byte,
    a_console_that_is_killed_loses_no_state
);
one_database!(
    sqlite,
    "it says the same as OpenTofu, whose state is kept on both";
    terraform_keeps_its_state_here
);

const CREATE: &str = "mutation { createStack(attributes: {name: \"infra\", type: TERRAFORM}) { id } }";
const STACK: &str = "query { infrastructureStack(name: \"infra\") {
  lock { id }
  stateVersion { serial resources }
  stateVersions { id serial rejected }
} }";

/// What is known of the stack.
async fn known(admin: &Asker) -> anyhow::Result<Value> {
    Ok(admin.data(STACK, json!({})).await?["infrastructureStack"].take())
}

async fn make(admin: &Asker) -> anyhow::Result<String> {
    let made = admin.data(CREATE, json!({})).await?;
    Ok(made["createStack"]["id"].as_str().unwrap_or_default().to_owned())
}

fn http() -> anyhow::Result<reqwest::Client> {
    Ok(reqwest::Client::builder().tls_certs_only([]).build()?)
}

/// A request as a tool sends it; its status.
async fn ask(
    http: &reqwest::Client,
    method: &str,
    (url, token): (&str, &str),
    body: String,
) -> anyhow::Result<u16> {
    let method = reqwest::Method::from_bytes(method.as_bytes())?;
    let answer = http.request(method, url).basic_auth("plural", Some(token)).body(body).send().await?;
    Ok(answer.status().as_u16())
}

/// A folder with a configuration, and the tool that is run in it.
struct Tofu {
    program: PathBuf,
    folder: PathBuf,
    token: String,
}

struct Ran {
    code: Option<i32>,
    text: String,
}

impl Tofu {
    fn new(program: &Path, folder: PathBuf, address: &str, token: &str) -> anyhow::Result<Self> {
        std::fs::create_dir(&folder)?;
        // As `plural cd stacks gen-backend` writes it.
        let backend = format!(
            "terraform {{\n  backend \"http\" {{\n    address        = \"{address}\"\n    lock_address   = \"{address}\"\n    \
             unlock_address = \"{address}\"\n    lock_method    = \"LOCK\"\n    unlock_method  = \"UNLOCK\"\n    \
             username       = \"plural\"\n  }}\n}}\n"
        );
        std::fs::write(folder.join("plural_backend_override.tf"), backend)?;
        std::fs::write(folder.join("main.tf"), "terraform {\n  backend \"http\" {}\n}\n")?;
        std::fs::write(folder.join("tofurc"), "")?;
        Ok(Self { program: program.to_owned(), folder, token: token.to_owned() })
    }

    /// Resources of the kind that is built in, by name and input.
    fn wants(&self, resources: &[(&str, &str)]) -> anyhow::Result<()> {
        let resource = |(name, input): &(&str, &str)| {
            format!("resource \"terraform_data\" \"{name}\" {{\n  input = \"{input}\"\n}}\n")
        };
        let text: Vec<String> = resources.iter().map(resource).collect();
        Ok(std::fs::write(self.folder.join("resources.tf"), text.concat())?)
    }

    async fn run(&self, arguments: &[&str]) -> anyhow::Result<Ran> {
        let done = Command::new(&self.program)
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .env("HOME", &self.folder)
            .env("PATH", "/usr/bin:/bin")
            .env("TF_CLI_CONFIG_FILE", self.folder.join("tofurc"))
            .env("TF_IN_AUTOMATION", "1")
            .env("TF_INPUT", "0")
            // Terraform would ask elsewhere whether it is the newest.
            .env("CHECKPOINT_DISABLE", "1")
            .env("TF_HTTP_PASSWORD", &self.token)
            .kill_on_drop(true)
            .output()
            .await?;
        let text = [done.stdout, done.stderr].concat();
        Ok(Ran { code: done.status.code(), text: String::from_utf8_lossy(&text).into_owned() })
    }

    /// The same, which has to succeed; what was printed.
    async fn does(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let Ran { code, text } = self.run(arguments).await?;
        let tool = self.program.display();
        anyhow::ensure!(code == Some(0), "{tool} {arguments:?}: {code:?}\n{text}");
        Ok(text)
    }
}

async fn opentofu_keeps_its_state_here(database: TestDatabase) -> anyhow::Result<()> {
    keeps_its_state_here(database, "tofu").await
}

/// The last one that is free.
async fn terraform_keeps_its_state_here(database: TestDatabase) -> anyhow::Result<()> {
    keeps_its_state_here(database, "terraform").await
}

async fn keeps_its_state_here(database: TestDatabase, tool: &str) -> anyhow::Result<()> {
    let Some(program) = program_or_report(tool) else { return Ok(()) };
    let home = Home::new()?;
    let mut console =
        ConsoleProcess::start(&home, database.is_postgres().then(|| database.url()), "info").await?;
    let admin = Asker::administrator(&console.url()).await?;
    let id = make(&admin).await?;
    let address = format!("{}/v1/stacks/{id}/state", console.url());
    let tofu = Tofu::new(&program, home.path().join("one"), &address, &admin.token)?;

    tofu.wants(&[("a", "one")])?;
    tofu.does(&["init", "-no-color"]).await?;
    tofu.does(&["apply", "-auto-approve", "-no-color"]).await?;
    let first = known(&admin).await?;
    assert_eq!(first["stateVersion"]["resources"], 1, "{first}");
    assert_eq!(first["lock"], Value::Null, "{first}");
    assert_eq!(tofu.does(&["state", "list"]).await?.trim(), "terraform_data.a");

    // Nothing to do, and then something.
    let told = tofu.does(&["apply", "-auto-approve", "-no-color"]).await?;
    assert!(told.contains("0 added, 0 changed, 0 destroyed"), "{told}");
    tofu.wants(&[("a", "two"), ("b", "one")])?;
    tofu.does(&["apply", "-auto-approve", "-no-color"]).await?;
    let second = known(&admin).await?;
    assert_eq!(second["stateVersion"]["resources"], 2, "{second}");
    let serial = |known: &Value| known["stateVersion"]["serial"].as_i64().unwrap_or_default();
    assert!(serial(&second) > serial(&first), "{first} {second}");

    // Somebody else holds it, and does not come back.
    let http = http()?;
    let other = json!({
        "ID": "6b0f5c4e-1f0e-7a5e-9b0a-0123456789ab", "Operation": "OperationTypeApply", "Info": "", "Who": "ada@box",
        "Version": "1.12.6", "Created": "2026-11-26T18:00:00.123456789Z", "Path": "",
    });
    let to = (address.as_str(), admin.token.as_str());
    assert_eq!(ask(&http, "LOCK", to, other.to_string()).await?, 200);
    let held = tofu.run(&["plan", "-no-color"]).await?;
    assert!(held.code == Some(1), "{}", held.text);
    assert!(held.text.contains("6b0f5c4e-1f0e-7a5e-9b0a-0123456789ab"), "{}", held.text);
    tofu.does(&["force-unlock", "-force", "6b0f5c4e-1f0e-7a5e-9b0a-0123456789ab"]).await?;
    tofu.does(&["plan", "-no-color"]).await?;

    // Two at once: one waits for the other, and neither's state is lost.
    let beside = Tofu::new(&program, home.path().join("two"), &address, &admin.token)?;
    beside.wants(&[("a", "three"), ("b", "one"), ("c", "one")])?;
    beside.does(&["init", "-no-color"]).await?;
    tofu.wants(&[("a", "four"), ("b", "one"), ("d", "one")])?;
    let apply = ["apply", "-auto-approve", "-no-color", "-lock-timeout=120s"];
    let (one, two) = tokio::join!(tofu.does(&apply), beside.does(&apply));
    one?;
    two?;
    let both = known(&admin).await?;
    assert_eq!(both["stateVersion"]["resources"], 3, "{both}");
    let versions = both["stateVersions"].as_array().cloned().unwrap_or_default();
    assert!(versions.iter().all(|version| version["rejected"].is_null()), "{both}");

    tofu.does(&["destroy", "-auto-approve", "-no-color"]).await?;
    assert_eq!(known(&admin).await?["stateVersion"]["resources"], 0);

    // A credential that may not is told so, and nothing is taken for an empty state.
    let stranger = admin.user("stranger@example.com").await?;
    let refused = Tofu::new(&program, home.path().join("three"), &address, &stranger.token)?;
    refused.wants(&[("a", "one")])?;
    let told = refused.run(&["init", "-no-color"]).await?;
    assert!(told.code == Some(1) && told.text.contains("invalid auth"), "{}", told.text);
    console.stop();
    Ok(())
}

/// What examples are made of: several of a kind, by key and by number, a module, numbers of all sizes, and letters that JSON may write in
/// more than one way.
const EXAMPLE: &str = r#"
variable "regions" {
  type    = map(string)
  default = { "eu-1" = "10.0.0.0/16", "us-1" = "10.1.0.0/16" }
}

resource "terraform_data" "region" {
  for_each         = var.regions
  input            = { name = each.key, cidr = each.value, note = "a < b & \"c\" > d – ü ☃ \t\\" }
  triggers_replace = [1, 2.5, 1e30, 12345678901234567890, true, null]
}

resource "terraform_data" "counted" {
  count = 3
  input = count.index
}

module "network" {
  source = "./network"
  size   = 2
}

output "regions" {
  value = { for name, region in terraform_data.region : name => region.output.cidr }
}

output "secret" {
  value     = "s3cr3t"
  sensitive = true
}
"#;
const MODULE: &str = r#"
variable "size" {}

resource "terraform_data" "network" {
  input = var.size
}
"#;

fn example(tofu: &Tofu) -> anyhow::Result<()> {
    std::fs::write(tofu.folder.join("example.tf"), EXAMPLE)?;
    std::fs::create_dir(tofu.folder.join("network"))?;
    Ok(std::fs::write(tofu.folder.join("network/main.tf"), MODULE)?)
}

/// A state that a tool keeps in a file is taken as it is, and given back as it is: the console writes none of its own.
async fn a_state_comes_back_byte_for_byte(database: TestDatabase) -> anyhow::Result<()> {
    let Some(program) = program_or_report("tofu") else { return Ok(()) };
    let home = Home::new()?;
    let mut console =
        ConsoleProcess::start(&home, database.is_postgres().then(|| database.url()), "info").await?;
    let admin = Asker::administrator(&console.url()).await?;
    let path = format!("/v1/stacks/{}/state", make(&admin).await?);
    let address = format!("{}{path}", console.url());
    let alone = Tofu::new(&program, home.path().join("alone"), &address, &admin.token)?;
    for file in ["plural_backend_override.tf", "main.tf"] {
        std::fs::remove_file(alone.folder.join(file))?;
    }
    example(&alone)?;
    alone.does(&["init", "-no-color"]).await?;
    alone.does(&["apply", "-auto-approve", "-no-color"]).await?;
    let file = std::fs::read_to_string(alone.folder.join("terraform.tfstate"))?;

    let (http, to) = (http()?, (address.as_str(), admin.token.as_str()));
    assert_eq!(ask(&http, "POST", to, file.clone()).await?, 200);
    assert_eq!(admin.get(&path).await?, (200, file.clone()));
    let known = known(&admin).await?;
    assert_eq!(known["stateVersion"]["resources"], 6, "{known}");

    // It is the state of the same code, wherever that is: there is nothing to do.
    let beside = Tofu::new(&program, home.path().join("beside"), &address, &admin.token)?;
    example(&beside)?;
    beside.does(&["init", "-no-color"]).await?;
    let planned = beside.run(&["plan", "-no-color", "-detailed-exitcode"]).await?;
    assert_eq!(planned.code, Some(0), "{}", planned.text);
    let value: Value = serde_json::from_str(&file)?;
    // The tool prints it without the spaces.
    assert_eq!(serde_json::from_str::<Value>(&beside.does(&["state", "pull"]).await?)?, value);

    // Nobody's own hand is put right either.
    let serial = known["stateVersion"]["serial"].as_u64().unwrap_or_default() + 1;
    let written = format!(
        "\r\n {{\t\"serial\" :{serial},\"version\":4, \"lineage\": {},\r\n\"of nobody\": [1.0, 1e2, \"\\u00fc\\/\"], \"outputs\":{{}},\
         \"resources\":[]}}  \n\n",
        value["lineage"]
    );
    assert_eq!(ask(&http, "POST", to, written.clone()).await?, 200);
    assert_eq!(admin.get(&path).await?, (200, written));
    console.stop();
    Ok(())
}

/// A state of code that a test has no providers for: modules in modules, instances by number and by key, one that is tainted and one that is
/// deposed, data, sensitive attributes inside of others, aliases of providers, checks, numbers and letters of all kinds.
const BAKERY: &str = include_str!("stacks/bakery.json");

/// Its addresses, as the tool lists them.
const ADDRESSES: [&str; 7] = [
    "data.aws_ami.newest",
    "module.network.aws_subnet.private[0]",
    "module.network.aws_subnet.private[1]",
    "module.network.aws_vpc.all",
    "module.shop[\"zürich\"].module.till[0].aws_instance.counter[\"left\"]",
    "module.shop[\"zürich\"].module.till[0].aws_instance.counter[\"right\"]",
    "random_password.admin",
];

async fn a_state_with_all_that_one_can_hold_comes_back_byte_for_byte(
    database: TestDatabase,
) -> anyhow::Result<()> {
    let home = Home::new()?;
    let mut console =
        ConsoleProcess::start(&home, database.is_postgres().then(|| database.url()), "info").await?;
    let admin = Asker::administrator(&console.url()).await?;
    let path = format!("/v1/stacks/{}/state", make(&admin).await?);
    let address = format!("{}{path}", console.url());
    let (http, to) = (http()?, (address.as_str(), admin.token.as_str()));
    assert_eq!(ask(&http, "POST", to, BAKERY.to_owned()).await?, 200);
    assert_eq!(admin.get(&path).await?, (200, BAKERY.to_owned()));
    let found = known(&admin).await?;
    // With the one that is deposed, and without what is only read.
    let version = &found["stateVersion"];
    assert_eq!((&version["serial"], &version["resources"]), (&json!(218), &json!(7)), "{found}");

    let plural = async |line: &str| -> anyhow::Result<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = home.plural(&words);
        command.env("PLURAL_CONSOLE_URL", console.url()).env("PLURAL_CONSOLE_TOKEN", &admin.token);
        let Done { code, out, err } = finish(command).await?;
        anyhow::ensure!(code == Some(0), "plural {line}: {code:?}\n{out}\n{err}");
        Ok(out)
    };
    assert_eq!(plural("cd stacks state pull infra").await?, BAKERY);
    plural("cd stacks state export infra 218 --file bakery.tfstate").await?;
    let file = home.path().join("bakery.tfstate");
    assert_eq!(std::fs::read_to_string(&file)?, BAKERY);

    // What is in it is named, and no value is shown.
    let shown = plural("cd stacks state show infra -o json").await?;
    assert!(!shown.contains("s3cr3t"), "{shown}");
    let listed: Vec<Value> = serde_json::from_str(&shown)?;
    let mut names: Vec<&str> = listed.iter().filter_map(|resource| resource["identifier"].as_str()).collect();
    names.sort_unstable();
    let (deposed, names): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| name.ends_with(" (deposed 0f1e2d3c)"));
    assert_eq!((names.as_slice(), deposed.len()), (ADDRESSES.as_slice(), 1), "{shown}");
    // What an instance needs is told by the addresses of resources.
    let left = listed.iter().find(|resource| resource["identifier"] == ADDRESSES[4]);
    let needs = json!(["data.aws_ami.newest", "module.network.aws_subnet.private"]);
    assert_eq!(left.map(|resource| &resource["links"]), Some(&needs), "{shown}");
    let wide = plural("cd stacks state show infra -o wide").await?;
    assert!(wide.contains("data.aws_ami.newest, module.network.aws_subnet.private"), "{wide}");
    if let Some(program) = program_or_report("tofu") {
        let alone = Tofu::new(&program, home.path().join("alone"), &address, &admin.token)?;
        for file in ["plural_backend_override.tf", "main.tf"] {
            std::fs::remove_file(alone.folder.join(file))?;
        }
        let told = alone.does(&["state", "list", &format!("-state={}", file.display())]).await?;
        let mut names: Vec<&str> = told.lines().collect();
        names.sort_unstable();
        assert_eq!(names, ADDRESSES, "{told}");
    }

    // Another one, and back: under the next serial, with every other byte as it was.
    let at = |serial: u32| BAKERY.replace("\"serial\": 218", &format!("\"serial\": {serial}"));
    let second = at(219).replace("i-0right", "i-0after");
    assert_eq!(ask(&http, "POST", to, second.clone()).await?, 200);
    assert_eq!(admin.get(&path).await?, (200, second));
    let differs = plural("cd stacks state diff infra 218 219 -o json").await?;
    assert!(differs.contains("counter[\\\"right\\\"]") && !differs.contains("i-0after"), "{differs}");
    plural("cd stacks state restore infra 218 --yes").await?;
    assert_eq!(admin.get(&path).await?, (200, at(220)));
    console.stop();
    Ok(())
}

fn state(serial: u64) -> String {
    json!({"version": 4, "serial": serial, "lineage": "a", "resources": [], "outputs": {}}).to_string()
}

/// Whenever it is killed, a version is there as a whole or not at all, what was answered is there, and the lock is still held.
async fn a_console_that_is_killed_loses_no_state(database: TestDatabase) -> anyhow::Result<()> {
    let home = Home::new()?;
    let mut console =
        ConsoleProcess::start(&home, database.is_postgres().then(|| database.url()), "info").await?;
    let admin = Asker::administrator(&console.url()).await?;
    let address = format!("{}/v1/stacks/{}/state", console.url(), make(&admin).await?);
    let http = http()?;
    let to = (address.as_str(), admin.token.as_str());
    assert_eq!(ask(&http, "LOCK", to, json!({"ID": "one"}).to_string()).await?, 200);
    let written = format!("{address}?ID=one");
    let to = (written.as_str(), admin.token.as_str());
    let mut serial = 0;
    for round in 0..5 {
        // As many as come before it is killed, while one is on its way.
        for _ in 0..=round {
            serial += 1;
            assert_eq!(ask(&http, "POST", to, state(serial)).await?, 200);
        }
        let answered = serial;
        serial += 1;
        let last = tokio::spawn({
            let (http, url, token) = (http.clone(), written.clone(), admin.token.clone());
            let body = state(serial);
            async move { ask(&http, "POST", (url.as_str(), token.as_str()), body).await.is_ok() }
        });
        tokio::task::yield_now().await;
        console.kill();
        last.await?;
        console.restart().await?;
        let known = known(&admin).await?;
        assert_eq!(known["lock"]["id"], "one", "{known}");
        let there = known["stateVersion"]["serial"].as_u64().unwrap_or_default();
        assert!(there == answered || there == serial, "{answered} was answered: {known}");
        // Whoever got no answer writes once more.
        assert_eq!(ask(&http, "POST", to, state(serial)).await?, 200);
        let (status, body) = admin.get(address.trim_start_matches(&console.url())).await?;
        assert_eq!((status, body), (200, state(serial)));
    }
    let versions = known(&admin).await?["stateVersions"].as_array().cloned().unwrap_or_default();
    assert_eq!(versions.len() as u64, serial, "each once");
    console.stop();
    Ok(())
}
