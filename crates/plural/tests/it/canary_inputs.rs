//! A canary in every input that takes a secret, well formed and in each way malformed, from everybody who may ask: it comes back in
//! no answer, and is in no log, metric, audit line, row or file.
//!
//! The inputs are the schema's: each argument and each field of an input object that is a text. `canary_inputs/names.txt` says by
//! name which of them are secret; a name that is not in it fails the test. [`secrets`](crate::secrets) plants secrets where they are
//! used, and looks at what clusters, plans, drift and recordings show; the console's `field_sweep` at every field of the schema;
//! [`command_line`] is about what is given to the program.
//!
//! One backend is enough: no cluster is asked.

mod command_line;
mod schema;

use std::collections::{BTreeMap, BTreeSet};

use plural_testkit::{TestDatabase, each_database, postgres::find_programs};
use serde_json::{Value, json};

use self::schema::{Filled, Inputs, Malformed};
use crate::{
    asker::{Asker, holds_none},
    program::{ConsoleProcess, Home},
    secrets::files,
    world::PASSWORD,
};

each_database!(attack_19_what_comes_in_as_a_secret_comes_out_nowhere);

/// What every canary has in it: letters and digits, which no way of escaping changes.
pub(crate) const CORE: &str = "Kanarie7f3e9b2c";

#[test]
fn every_text_that_comes_in_is_named() {
    let inputs = Inputs::read();
    let names = inputs.names();
    let known: BTreeSet<String> = schema::table().into_keys().collect();
    let missing: Vec<_> = names.iter().filter(|name| !schema::is_listed(name, &known)).collect();
    assert!(missing.is_empty(), "say in names.txt whether these inputs are secret: {missing:?}");
    let gone: Vec<_> = known.iter().filter(|name| !schema::is_used(name, &names)).collect();
    assert!(gone.is_empty(), "names.txt has names of inputs that there are not: {gone:?}");
    assert!(names.len() > 180, "the schema was not read: {}", names.len());
}

async fn attack_19_what_comes_in_as_a_secret_comes_out_nowhere(database: TestDatabase) -> anyhow::Result<()> {
    let home = Home::new()?;
    let url = database.is_postgres().then(|| database.url());
    let mut console = ConsoleProcess::start(&home, url, "trace").await?;
    let admin = Asker::administrator(&console.url()).await?;
    let ids = world(&admin).await?;
    let canaries = [("canary", CORE.to_owned())];

    let owner = admin.user("owner@example.com").await?;
    admin
        .bind("projectId", ids["project"].as_str().unwrap(), json!({"adminBindings": [{"userId": owner.id}]}))
        .await?;
    let reader = admin.user("reader@example.com").await?;
    admin
        .bind("projectId", ids["project"].as_str().unwrap(), json!({"readBindings": [{"userId": reader.id}]}))
        .await?;
    let machine = "mutation ($id: ID!) { createServiceAccountToken(id: $id, expiry: \"1h\") { token } }";
    let machine = admin.data(machine, json!({"id": ids["account"]})).await?;
    let machine = machine["createServiceAccountToken"]["token"].as_str().unwrap().to_owned();
    let people = [
        ("admin", admin.clone()),
        ("project's admin", owner),
        ("reader", reader),
        ("stranger", admin.user("stranger@example.com").await?),
        ("service account", admin.with_token(&machine)),
        ("agent", admin.with_token(ids["deployToken"].as_str().unwrap())),
        ("nobody", admin.with_token("")),
    ];

    let inputs = Inputs::read();
    let (mut asked, mut done, mut faults) = (0, BTreeSet::new(), BTreeSet::new());
    let mut refusals = BTreeMap::new();
    let mutations = inputs.with_secrets();
    assert!(mutations.len() > 15, "{mutations:?}");
    // One after the other first: what is refused for one of many secrets plants none, and a wrong password keeps its account out.
    let admin = &people[0].1;
    for mutation in &mutations {
        for (document, variables) in inputs.ask_alone(mutation, &ids) {
            let answer = admin.ask(&document, variables).await?;
            asked += 1;
            if answer["data"][mutation.as_str()].is_null() {
                refusals
                    .entry(mutation.clone())
                    .or_insert_with(Vec::new)
                    .push(answer["errors"][0]["message"].to_string());
            } else {
                done.insert(mutation.clone());
            }
            if answer.to_string().contains(CORE) {
                faults.insert(format!("{mutation} as admin: {answer}"));
            }
        }
    }
    for mutation in &mutations {
        for form in Filled::ALL {
            for (who, person) in &people {
                let (document, variables) = inputs.ask(mutation, form, &ids);
                let answer = person.ask(&document, variables).await?;
                asked += 1;
                if !answer["data"][mutation.as_str()].is_null() {
                    done.insert(mutation.clone());
                }
                if answer.to_string().contains(CORE) {
                    faults.insert(format!("{mutation} {form:?} as {who}: {answer}"));
                }
            }
        }
        for form in Malformed::ALL {
            for (who, person) in [&people[0], &people[6]] {
                let (document, variables) = inputs.malform(mutation, form, &ids);
                let answer = person.ask(&document, variables).await?;
                asked += 1;
                assert!(answer["data"][mutation.as_str()].is_null(), "{form:?} was taken: {answer}");
                if answer.to_string().contains(CORE) {
                    faults.insert(format!("{mutation} {form:?} as {who}: {answer}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.into_iter().collect::<Vec<_>>().join("\n"));
    println!(
        "{} mutations with secrets, {asked} requests, {} of them did something",
        mutations.len(),
        done.len()
    );
    assert!(done.len() >= 5, "few of them reached what they do: {done:?}; why: {refusals:#?}");
    elsewhere(&console.url(), &canaries).await?;

    // What all of it left behind.
    let audit =
        "{ audits(first: 100) { edges { node { action actorName targetName stateBefore stateAfter } } } }";
    let audit = admin.data(audit, json!({})).await?.to_string();
    assert!(audit.len() > 1_000, "{audit}");
    holds_none("the audit log", audit.as_bytes(), &canaries);
    let (status, export) = admin.get("/ext/v1/audit/export").await?;
    assert!(status == 200 && export.lines().count() > 10, "{status} {export}");
    holds_none("the exported audit log", export.as_bytes(), &canaries);
    let metrics = console.metrics().await?;
    assert!(metrics.contains("plural_logins_failed_total"), "{metrics}");
    holds_none("metrics", metrics.as_bytes(), &canaries);
    console.stop();
    let log = console.log();
    // What we link speaks at that level only where the operator names it: ours has nothing to say there.
    assert!(log.contains("\"DEBUG\""), "it logs at debug level and below");
    holds_none("the console's log", log.as_bytes(), &canaries);
    for file in files(&console.data()) {
        holds_none(&file.display().to_string(), &std::fs::read(&file)?, &canaries);
    }
    if database.is_postgres() {
        let dump = std::process::Command::new(find_programs()?.join("pg_dump"))
            .arg(format!("--dbname={}", database.url()))
            .output()?;
        anyhow::ensure!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
        anyhow::ensure!(String::from_utf8_lossy(&dump.stdout).contains("git_repositories"), "no dump");
        holds_none("the database", &dump.stdout, &canaries);
    }
    Ok(())
}

/// Things that the inputs name, by the words that they name them with.
async fn world(admin: &Asker) -> anyhow::Result<Value> {
    let made = async |document: &str, variables: Value| {
        let data = admin.data(document, variables).await?;
        anyhow::Ok(data.as_object().unwrap().values().next().unwrap().clone())
    };
    let id = |thing: &Value| thing["id"].as_str().unwrap().to_owned();
    let cluster =
        made("mutation { createCluster(attributes: {name: \"blue\"}) { id deployToken } }", json!({}))
            .await?;
    let repository =
        "mutation { createGitRepository(attributes: {url: \"https://git.invalid/app.git\"}) { id } }";
    let repository = id(&made(repository, json!({})).await?);
    let create = "mutation ($c: ID, $a: ServiceDeploymentAttributes!) { createServiceDeployment(clusterId: $c, attributes: $a) { id } }";
    let service = json!({"name": "web", "namespace": "shop", "repositoryId": repository, "git": {"ref": "main", "folder": "web"}});
    let service = made(create, json!({"c": cluster["id"], "a": service})).await?;
    let projects = admin.data("{ projects { edges { node { id } } } }", json!({})).await?;
    let project = id(&projects["projects"]["edges"][0]["node"]);
    let account =
        made("mutation { createServiceAccount(attributes: {name: \"deployer\"}) { id } }", json!({}));
    let account = id(&account.await?);
    let group = made("mutation { createGroup(attributes: {name: \"sre\"}) { id } }", json!({})).await?;
    let victim = json!({"a": {"name": "victim", "email": "victim@example.com", "password": PASSWORD}});
    let victim = made("mutation ($a: UserAttributes!) { createUser(attributes: $a) { id } }", victim).await?;
    Ok(json!({
        "cluster": id(&cluster), "deployToken": cluster["deployToken"], "repository": repository,
        "service": id(&service), "project": project, "account": account, "group": id(&group), "user": id(&victim),
    }))
}

/// Routes that are no GraphQL, asked with canaries in each place that takes a credential, and bodies that are none.
async fn elsewhere(url: &str, canaries: &[(&str, String)]) -> anyhow::Result<()> {
    let http = reqwest::Client::builder()
        .tls_certs_only([])
        .redirect(reqwest::redirect::Policy::none())
        .timeout(crate::world::PATIENCE)
        .build()?;
    let get = |path: &str| http.get(format!("{url}{path}"));
    let post = |path: &str| http.post(format!("{url}{path}"));
    let form = "application/x-www-form-urlencoded";
    let exchange = format!(
        "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&subject_token={CORE}.e30.{CORE}\
         &subject_token_type=urn:ietf:params:oauth:token-type:jwt"
    );
    let basic = |user: &str| get("/v1/git/tarballs?id=1").basic_auth(user, Some(CORE));
    let asked = [
        get(&format!("/v1/git/tarballs?id=1&token={CORE}")),
        get("/v1/git/tarballs?id=1").bearer_auth(CORE),
        basic("ada"),
        basic(CORE),
        get(&format!("/auth/callback/acme?code={CORE}&state={CORE}")),
        get(&format!("/auth/callback/acme?error={CORE}&error_description={CORE}&state={CORE}")),
        get("/auth/account").header("cookie", format!("plural_session={CORE}; __Host-plural_session={CORE}")),
        post("/auth/sign-in")
            .header("origin", url)
            .header("content-type", form)
            .body(format!("email=admin%40example.com&password={CORE}&code={CORE}&form={CORE}")),
        post("/auth/sign-in")
            .header("origin", url)
            .header("content-type", form)
            .body(format!("password={CORE}%zz&&=")),
        post("/auth/token").header("content-type", form).body(exchange),
        post("/auth/token")
            .header("content-type", form)
            .body(format!("grant_type=urn:ietf:params:oauth:grant-type:device_code&device_code={CORE}")),
        post("/auth/token").header("content-type", form).body(format!("grant_type={CORE}")),
        post("/auth/token").header("content-type", "application/json").body(format!("{{\"{CORE}\"")),
        post(&format!("/ext/v1/gates/0190c8a0-0000-7000-8000-000000000000/{CORE}/rollback")).body("{}"),
        post(&format!("/ext/v1/gates/{CORE}/{CORE}/rollback")).body(CORE),
        post("/ext/v1/webhooks/github").header("x-hub-signature-256", format!("sha256={CORE}")).body(CORE),
        post("/ext/v1/webhooks/gitlab").header("x-gitlab-token", CORE).body("{}"),
        post("/gql").header("content-type", "application/json").body(format!("{{\"query\": \"{CORE}")),
        post("/gql")
            .bearer_auth(CORE)
            .header("content-type", "application/json")
            .body("{\"query\": \"{ me { id } }\"}"),
        post("/gql").header("content-type", "text/plain").body(CORE),
        post("/gql").header("content-type", "application/json").body(format!("{{\"query\": [\"{CORE}\"]}}")),
        get("/k8s/blue/api/v1/secrets").bearer_auth(CORE),
        get(&format!("/k8s/blue/api/v1/secrets?token={CORE}")).bearer_auth(format!("plrl-{CORE}")),
        get("/metrics").bearer_auth(CORE),
        get("/agent/v1/connect").bearer_auth(CORE),
        post("/plural.agent.v1.AgentService/Join")
            .header("content-type", "application/grpc")
            .bearer_auth(CORE)
            .body(CORE),
    ];
    for request in asked {
        let request = request.build()?;
        let about = format!("{} {}", request.method(), request.url().path());
        let answer = http.execute(request).await?;
        let told = format!("{} {:?}\n", answer.status(), answer.headers());
        // What it does not serve now (503), or over this version of HTTP (505).
        let is_fault = answer.status().is_server_error() && ![503, 505].contains(&answer.status().as_u16());
        assert!(!is_fault, "{about}: {told}");
        let all = told + &answer.text().await?;
        holds_none(&about, all.as_bytes(), canaries);
    }
    Ok(())
}
