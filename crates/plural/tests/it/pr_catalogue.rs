//! The automations of the catalogue that the scaffold's tests keep, by `plural pr test` and by a console: title, message, differences and files
//! are the same, and they are what is expected. External templates are in a second repository, and charts at a web server.
//!
//! SQLite alone: what an automation makes is in no database.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use plural_testkit::{
    GitRemote, ScmDialect, ScmServer, TestDatabase, WebFolder, note_compared, one_database,
};
use serde_json::{Value, json};

use crate::{
    asker::Asker,
    program::{ConsoleProcess, Done, Home, finish},
    world::Person,
};

one_database!(
    sqlite,
    "what an automation makes is in no database";
    the_command_line_and_the_console_make_the_same
);

const PREVIEW: &str = "mutation ($id: ID!, $context: Json) {
  previewPullRequest(id: $id, context: $context) { title message skipped files { path change diff } }
}";
const CREATE: &str = "mutation ($id: ID!, $context: Json, $secrets: Json) {
  createPullRequest(id: $id, context: $context, secrets: $secrets) { phase error ref title }
}";
/// Where automations say that charts are.
const CHARTS: &str = "https://charts.example.com";

fn catalogue() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../scaffold/tests/catalogue").canonicalize().unwrap()
}

/// The texts of the files below a folder, by their paths in it.
fn below(folder: &Path) -> BTreeMap<String, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(here) = folders.pop() {
        for entry in fs::read_dir(&here).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// A chart as a registry has it.
fn archive(name: &str, files: &BTreeMap<String, String>) -> Vec<u8> {
    let mut out = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        out.append_data(&mut header, format!("{name}/{path}"), text.as_bytes()).unwrap();
    }
    out.into_inner().unwrap().finish().unwrap()
}

struct World {
    console: ConsoleProcess,
    admin: Asker,
    host: ScmServer,
    home: Home,
    /// Of the repository that all automations change.
    repository: BTreeMap<String, String>,
    /// Has external templates.
    scaffolds: GitRemote,
    scaffolds_id: String,
    /// Has charts.
    web: WebFolder,
}

impl World {
    async fn new() -> anyhow::Result<Self> {
        let home = Home::new()?;
        let console = ConsoleProcess::start(&home, None, "info").await?;
        let admin = Asker::administrator(&console.url()).await?;
        let person = Person::administrator(&console.url()).await?;
        // What answers name.
        for cluster in ["blue", "green"] {
            person.cluster(cluster).await?;
        }
        let project = "mutation ($a: ProjectAttributes!) { createProject(attributes: $a) { id } }";
        admin.data(project, json!({"a": {"name": "shop"}})).await?;
        let group = "mutation ($a: GroupAttributes!) { createGroup(attributes: $a) { id } }";
        admin.data(group, json!({"a": {"name": "platform"}})).await?;
        let scaffolds = GitRemote::new()?;
        let templates = below(&catalogue().join("scaffolds")).into_iter();
        scaffolds.push_files(templates.map(|(path, text)| (format!("scaffolds/{path}"), text)))?;
        let scaffolds_id = person.repository(&scaffolds.path().display().to_string()).await?;
        let repository = below(&catalogue().join("repository"));
        for (path, text) in &repository {
            let path = home.path().join("repository").join(path);
            fs::create_dir_all(path.parent().unwrap())?;
            fs::write(path, text)?;
        }
        let host = ScmServer::start(ScmDialect::Gitea)?;
        fs::write(home.path().join("token.txt"), host.token())?;
        let web = WebFolder::start()?;
        let world = Self { console, admin, host, home, repository, scaffolds, scaffolds_id, web };
        let (api, of) = (world.host.api_url(), world.host.repository());
        world
            .plural(&format!(
                "cd scm-connections create host --type gitea --api-url {api} --repository {of} --token-file token.txt"
            ))
            .await?;
        Ok(world)
    }

    /// Runs `plural` as the administrator, which has to succeed; what it wrote to standard output.
    async fn plural(&self, line: &str) -> anyhow::Result<String> {
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = self.home.plural(&words);
        command.env("PLURAL_CONSOLE_URL", self.console.url()).env("PLURAL_CONSOLE_TOKEN", &self.admin.token);
        let Done { code, out, err } = finish(command).await?;
        anyhow::ensure!(code == Some(0), "plural {line}: {code:?}\n{out}\n{err}");
        Ok(out)
    }

    /// Puts the chart of an automation, where it has one, behind the web server, and beside it the archive for the command line; its file, with
    /// that address in it.
    fn published(&self, name: &str, folder: &Path) -> anyhow::Result<(String, Option<String>)> {
        let file = folder.join("automation.yaml");
        let chart = below(&folder.join("chart"));
        let Some(about) = chart.get("Chart.yaml") else { return Ok((file.display().to_string(), None)) };
        let word = |field: &str| about.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
        let (of, version) = (word("name: "), word("version: "));
        let packed = archive(of, &chart);
        self.web.write(&format!("{name}.tgz"), packed.clone())?;
        let index = format!(
            "apiVersion: v1\nentries:\n  {of}:\n  - {{name: {of}, version: {version}, urls: ['{name}.tgz']}}\n"
        );
        self.web.write("index.yaml", index)?;
        fs::write(self.home.path().join(format!("{name}.tgz")), packed)?;
        let text = fs::read_to_string(file)?;
        anyhow::ensure!(text.contains(CHARTS), "{name} has its chart elsewhere");
        fs::write(self.home.path().join(format!("{name}.yaml")), text.replace(CHARTS, &self.web.url("")))?;
        Ok((format!("{name}.yaml"), Some(format!("{name}.tgz"))))
    }

    /// One automation by both; what differs.
    async fn differs(&self, name: &str) -> anyhow::Result<Vec<String>> {
        let folder = catalogue().join("automations").join(name);
        let at = folder.display();
        let (file, chart) = self.published(name, &folder)?;
        let is_external = fs::read_to_string(folder.join("automation.yaml"))?.contains("external: true");
        let chart = chart.map_or_else(String::new, |chart| format!(" --chart {chart}"));
        let (templates, uses) = if is_external {
            let folder = catalogue().join("scaffolds");
            (format!(" --templates {}", folder.display()), format!(" --repository {}", self.scaffolds_id))
        } else {
            (String::new(), String::new())
        };
        let offline = self
            .plural(&format!(
                "pr test {file} --context {at}/answers.json{chart}{templates} --dir repository --diff -o json"
            ))
            .await?;
        let offline: Value = serde_json::from_str(&offline)?;
        let offline = &offline["automations"][0];

        for (path, text) in &self.repository {
            self.host.push(name, path, text);
        }
        let id = self
            .plural(&format!(
                "pr automations create --file {file} --connection host{uses} -o jsonpath={{.id}}"
            ))
            .await?;
        let answers: Value = serde_json::from_str(&fs::read_to_string(folder.join("answers.json"))?)?;
        let asked = json!({"id": id.trim(), "context": answers});
        let preview = self.admin.data(PREVIEW, asked.clone()).await?["previewPullRequest"].take();
        let mut wrong = Vec::new();
        let mut compare = |what: &str, one: &Value, other: &Value| {
            if one != other {
                wrong.push(format!("{name}, {what}: by the command line {one:#}, by the console {other:#}"));
            }
        };
        for part in ["title", "message", "skipped"] {
            compare(part, &offline[part], &preview[part]);
        }
        compare("files", &lowered(&offline["changes"]), &lowered(&preview["files"]));

        // What is opened is what was expected of both.
        let secrets = match fs::read_to_string(folder.join("secrets.json")) {
            Ok(text) => serde_json::from_str(&text)?,
            Err(_) => Value::Null,
        };
        let asked = json!({"id": asked["id"], "context": asked["context"], "secrets": secrets});
        let made = self.admin.data(CREATE, asked).await?["createPullRequest"].take();
        compare("phase", &json!("OPENED"), &made["phase"]);
        let branch = made["ref"].as_str().unwrap_or_default();
        let told: Value = serde_json::from_str(&fs::read_to_string(folder.join("expected.json"))?)?;
        compare("expected title", &told["title"], &preview["title"]);
        for path in told["removed"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            compare(path, &Value::Null, &json!(self.host.file(branch, path)));
        }
        let expected = below(&folder.join("expected"));
        for (path, text) in self.repository.iter().filter(|(path, _)| !expected.contains_key(*path)) {
            let is_kept = !told["removed"].as_array().is_some_and(|all| all.contains(&json!(path)));
            if is_kept {
                compare(path, &json!(text), &json!(self.host.file(branch, path)));
            }
        }
        for (path, text) in &expected {
            compare(path, &json!(text), &json!(self.host.file(branch, path)));
        }
        Ok(wrong)
    }
}

/// Changes with their words in lower case: an enum of GraphQL has none.
fn lowered(changes: &Value) -> Value {
    let one = |change: &Value| {
        let word = change["change"].as_str().unwrap_or_default().to_lowercase();
        json!({"path": change["path"], "change": word, "diff": change["diff"]})
    };
    changes.as_array().into_iter().flatten().map(one).collect()
}

async fn the_command_line_and_the_console_make_the_same(_: TestDatabase) -> anyhow::Result<()> {
    let mut world = World::new().await?;
    let mut names: Vec<String> = fs::read_dir(catalogue().join("automations"))?
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.len() >= 30, "{names:?}");
    assert!(!world.scaffolds.resolve("main")?.is_empty());
    let (mut wrong, mut agreed) = (Vec::new(), 0);
    for name in &names {
        match world.differs(name).await {
            Ok(found) if found.is_empty() => agreed += 1,
            Ok(found) => wrong.extend(found),
            Err(error) => wrong.push(format!("{name}: {error:#}")),
        }
    }
    note_compared("automations by command line and console", agreed, names.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    world.console.stop();
    Ok(())
}
