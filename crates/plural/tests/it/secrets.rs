//! No secret in a log, a database, an audit row, an error, a metric or an answer.

use std::path::{Path, PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use plural_testkit::{
    GitRemote, GitServer, TestCluster, TestDatabase, each_database, postgres::find_programs,
};
use plural_wire::{
    CreateAccessToken, CreateGitRepository, GetCluster, GitAttributes, ListClusters, ListGitRepositories,
    ListServiceDeployments, Me, Operation, OperationKind, PAGE_SIZE, Secret, UpdateServiceDeployment,
};
use serde::Serialize;

use crate::{
    program::{AgentProcess, ConsoleProcess, Home},
    world::{PASSWORD, Person, attributes, map, value},
};

each_database!(attack_19_no_secret_leaves_its_place);

const CONFIGURED: &str = "configured-3f9c1d7e";
const GIT_PASSWORD: &str = "gitpassword-91b2ac44";
const WRONG_PASSWORD: &str = "wrongpassword-5d0e6f18";

/// The audit log with all its texts.
#[derive(Debug, Serialize)]
struct Audit {}

impl Operation for Audit {
    type Data = serde_json::Value;
    const NAME: &'static str = "Audits";
    const KIND: OperationKind = OperationKind::Query;
    const FIELD: &'static str = "audits";
    const DOCUMENT: &'static str = "query Audits { audits(first: 100) { edges { node {
          id action noun targetId targetName actorName requestId actor { email }
        } } } }";
}

/// Fails when `text` holds a secret as it is, in hex or in base64.
fn holds_none(place: &str, text: &[u8], secrets: &[(&str, String)]) {
    for (name, secret) in secrets {
        let hex = secret.bytes().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
        // Without its last characters: what follows the secret changes them.
        let base64 = STANDARD.encode(secret);
        let base64 = base64.get(..base64.len() - 4).unwrap().to_owned();
        for form in [secret.clone(), hex, base64] {
            let at = text.windows(form.len()).position(|window| window == form.as_bytes());
            if let Some(at) = at {
                let around = text.get(at.saturating_sub(300)..(at + 100).min(text.len())).unwrap_or_default();
                panic!("{place} holds the {name}: …{}…", String::from_utf8_lossy(around));
            }
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

async fn attack_19_no_secret_leaves_its_place(database: TestDatabase) -> anyhow::Result<()> {
    let home = Home::new()?;
    let cluster = TestCluster::kubesim().await?;
    let url = database.is_postgres().then(|| database.url());
    let mut console = ConsoleProcess::start(&home, url, "debug").await?;
    let person = Person::administrator(&console.url()).await?;
    let registered = person.cluster("blue").await?;
    let access = person.client.send(&CreateAccessToken {}).await?.token.unwrap().expose().to_owned();

    let remote = GitRemote::new()?;
    let server = GitServer::start(remote.root())?;
    server.require("ada", GIT_PASSWORD);
    let sha = remote.push_files([
        (
            "good/secret.yaml.liquid",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: login}\nstringData: {password: \"{{ configuration.password }}\"}\n"
                .to_owned(),
        ),
        // A rendered line that no YAML reader accepts, with the secret on it.
        (
            "malformed/a.yaml.liquid",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: bad}\nstringData: [password: {{ configuration.password }}: {\n"
                .to_owned(),
        ),
        // What the API server refuses, and quotes in its refusal.
        (
            "refused/a.yaml.liquid",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: refused}\nstringData: {password: {deep: \"{{ configuration.password }}\"}}\n"
                .to_owned(),
        ),
        (
            "encoded/a.yaml.liquid",
            "apiVersion: v1\nkind: Secret\nmetadata: {name: encoded}\ndata: {password: \"{{ configuration.password }}\"}\n"
                .to_owned(),
        ),
        // What a template does wrong with it.
        (
            "filtered/a.yaml.liquid",
            "kind: {{ configuration.password | divided_by: 0 }}\n{{ configuration.password | nosuchfilter }}\n".to_owned(),
        ),
        ("elsewhere/a.yaml", map("a", "1")),
    ])?;
    let repository = |password: &str, name: &str| CreateGitRepository {
        attributes: GitAttributes {
            url: format!("{}{name}", server.url(&remote)),
            username: Some("ada".to_owned()),
            password: Some(Secret::new(password)),
            ..GitAttributes::default()
        },
    };
    let right = person.client.send(&repository(GIT_PASSWORD, "")).await?.id;
    // The same repository under another address: addresses are unique.
    let wrong = person.client.send(&repository(WRONG_PASSWORD, "/")).await?.id;
    let namespace = cluster.namespace().await?;
    let mut agent = AgentProcess::start(&home, &console.url(), &registered.token, &cluster, "debug").await?;

    let mut services = Vec::new();
    for folder in ["good", "malformed", "refused", "encoded", "filtered"] {
        let mut given = attributes(folder, &namespace, &right, "main", folder);
        given.configuration = Some(vec![value("password", CONFIGURED)]);
        services.push((folder, person.service_of(&registered, given).await?));
    }
    let unfetched = attributes("unfetched", &namespace, &wrong, "main", "elsewhere");
    let unfetched = person.service_of(&registered, unfetched).await?;
    let mut errors = vec![person.fails_with(&unfetched, &["authentication failed"]).await];
    for (folder, id) in &services {
        if *folder == "good" {
            person.stands_at(id, &sha).await;
        } else {
            errors.push(person.fails_with(id, &[]).await);
        }
    }
    // A change writes an audit row with what was there before and after, if anything does.
    person
        .client
        .send(&UpdateServiceDeployment {
            id: Some(services[0].1.clone()),
            cluster: None,
            name: None,
            attributes: plural_wire::ServiceUpdateAttributes {
                configuration: Some(vec![value("password", CONFIGURED), value("other", "1")]),
                ..plural_wire::ServiceUpdateAttributes::default()
            },
        })
        .await?;
    person.stands_at(&services[0].1, &sha).await;

    let key = std::fs::read_to_string(console.data().join("encryption.key"))?.trim().to_owned();
    let webhook = std::fs::read_to_string(console.data().join("webhook.secret"))?.trim().to_owned();
    let secrets = [
        ("configuration value", CONFIGURED.to_owned()),
        ("password of a repository", GIT_PASSWORD.to_owned()),
        ("wrong password of a repository", WRONG_PASSWORD.to_owned()),
        ("administrator's password", PASSWORD.to_owned()),
        ("deploy token", registered.token.clone()),
        ("access token", access),
        ("encryption key", key),
        ("webhook secret", webhook),
    ];
    holds_none("an error of a service", errors.join("\n").as_bytes(), &secrets);

    let first = PAGE_SIZE;
    let mut answers = vec![
        format!("{:?}", person.client.send(&Me {}).await?),
        format!(
            "{:?}",
            person
                .client
                .send(&ListClusters { after: None, first, project_id: None, tag_query: None })
                .await?
        ),
        format!(
            "{:?}",
            person.client.send(&GetCluster { id: Some(registered.id.clone()), handle: None }).await?
        ),
        format!("{:?}", person.client.send(&ListGitRepositories { after: None, first }).await?),
        format!(
            "{:?}",
            person
                .client
                .send(&ListServiceDeployments { after: None, first, cluster_id: None, cluster: None })
                .await?
        ),
        format!("{:?}", person.client.send(&Audit {}).await?),
        console.metrics().await?,
    ];
    for (_, id) in &services {
        answers.push(format!("{:?}", person.details(id).await?));
    }
    assert!(answers[5].contains("service.create"), "the audit log is not there: {}", answers[5]);
    assert!(answers[6].contains("plural_git_fetch_seconds"), "{}", answers[6]);
    for answer in &answers {
        holds_none("an answer of the API", answer.as_bytes(), &secrets);
    }

    agent.stop();
    console.stop();
    let (console_log, agent_log) = (console.log(), agent.log());
    assert!(console_log.contains("\"DEBUG\"") && agent_log.contains("\"DEBUG\""), "they log at debug level");
    holds_none("the console's log", console_log.as_bytes(), &secrets);
    holds_none("the agent's log", agent_log.as_bytes(), &secrets);

    let mut looked_at = 0;
    for file in files(&console.data()) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        if name != "encryption.key" && name != "webhook.secret" {
            holds_none(&file.display().to_string(), &std::fs::read(&file)?, &secrets);
            looked_at += usize::from(name.starts_with("plural.db"));
        }
    }
    if database.is_postgres() {
        let dump = std::process::Command::new(find_programs()?.join("pg_dump"))
            .arg(format!("--dbname={}", database.url()))
            .output()?;
        anyhow::ensure!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
        anyhow::ensure!(
            String::from_utf8_lossy(&dump.stdout).contains("unfetched"),
            "the dump holds the rows"
        );
        holds_none("the database", &dump.stdout, &secrets);
    } else {
        assert!(looked_at > 0, "the database is among the files");
    }
    Ok(())
}
