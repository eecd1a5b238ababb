//! A database of the release before policies, taken over by this build: everybody reads what they read, and may do what
//! they might.
//!
//! `store/tests/fixtures/before13.BACKEND.sql` is that database, filled through the API of a console of that release.
//! `fixtures/before13.BACKEND.json` is what this console answered to everybody, and what it allowed them, before it stopped.

use std::{collections::BTreeMap, fs, path::Path};

use plural_app::agent_poll::PollAsked;
use plural_console::{ConsoleConfig, Reach, RunningConsole};
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait as _, Statement};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api_server::Person;

each_database!(a_database_of_the_previous_build_is_taken_over);

/// The last migration of that build.
const LAST: &str = "m0040_chart_projects";
/// What everybody signs in with.
const PASSWORD: &str = "throw-away password 1";
/// The key that its secrets are sealed with, in base64: 32 times 42.
const KEY: &str = "KioqKioqKioqKioqKioqKioqKioqKioqKioqKioqKio=";

const PEOPLE: [&str; 5] = ["root", "ada", "bob", "cyd", "dora"];

/// The most that each of them might do with each thing. Bound were: to the project shop ada (read), bob (admin) and the group
/// of cyd (write); to the cluster green the group of cyd (read) and ada (write); to the services blue/web ada (write), green/db
/// dora (admin), red/tool bob (read). The projects of blue, green and red are shop, bank and default.
const RIGHTS: [(&str, [&str; 5]); 12] = [
    ("project shop", ["admin", "read", "admin", "write", "none"]),
    ("project bank", ["admin", "none", "none", "none", "none"]),
    ("project default", ["admin", "none", "none", "none", "none"]),
    ("cluster blue", ["admin", "read", "admin", "write", "none"]),
    ("cluster green", ["admin", "write", "none", "read", "none"]),
    ("cluster red", ["admin", "none", "none", "none", "none"]),
    ("service blue/web", ["admin", "write", "admin", "write", "none"]),
    ("service blue/api", ["admin", "read", "admin", "write", "none"]),
    ("service green/db", ["admin", "write", "none", "read", "admin"]),
    ("service green/redis", ["admin", "write", "none", "read", "none"]),
    ("service red/tool", ["admin", "none", "read", "none", "none"]),
    // It upgrades an agent.
    ("service red/upgrade", ["admin", "none", "none", "none", "none"]),
];

/// What that console said.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Recorded {
    documents: BTreeMap<String, String>,
    /// Ids by the names of [`RIGHTS`].
    things: BTreeMap<String, String>,
    /// By person and thing.
    rights: BTreeMap<String, BTreeMap<String, String>>,
    /// Access tokens: whose.
    tokens: BTreeMap<String, String>,
    /// By cluster.
    deploy_tokens: BTreeMap<String, String>,
    asks: Vec<Ask>,
}

#[derive(Deserialize)]
struct Ask {
    who: String,
    /// Which of the documents.
    document: String,
    /// Its only variable.
    id: Option<String>,
    /// Its data, or the code of its error.
    answer: Value,
}

/// The versions of its schema, oldest first.
async fn versions(database: &TestDatabase) -> Vec<String> {
    let connection = sea_orm::Database::connect(database.url()).await.unwrap();
    let sql = "SELECT version FROM seaql_migrations ORDER BY version";
    let statement = Statement::from_string(connection.get_database_backend(), sql);
    let rows = connection.query_all_raw(statement).await.unwrap();
    let versions = rows.iter().map(|row| row.try_get("", "version").unwrap()).collect();
    connection.close().await.unwrap();
    versions
}

async fn load(database: &TestDatabase) -> Recorded {
    let backend = if database.is_postgres() { "postgres" } else { "sqlite" };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dump = here.join(format!("../store/tests/fixtures/before13.{backend}.sql"));
    let connection = sea_orm::Database::connect(database.url()).await.unwrap();
    connection.execute_unprepared(&fs::read_to_string(dump).unwrap()).await.unwrap();
    connection.close().await.unwrap();
    let recorded = here.join(format!("tests/fixtures/before13.{backend}.json"));
    serde_json::from_slice(&fs::read(recorded).unwrap()).unwrap()
}

/// Sessions and the console's address of then and of this test differ.
fn lasting(mut answer: Value) -> Value {
    if let Some(tokens) = answer.pointer_mut("/accessTokens/edges").and_then(Value::as_array_mut) {
        tokens.retain(|edge| edge["node"]["session"] == false);
    }
    if let Some(url) = answer.get_mut("serviceGateUrl")
        && let Some(path) = url.as_str().and_then(|url| Some(url[url.find("/ext/")?..].to_owned()))
    {
        *url = path.into();
    }
    answer
}

async fn answer(person: &Person, document: &str, id: Option<&String>) -> Value {
    let variables = id.map_or_else(|| json!({}), |id| json!({ "id": id }));
    let answer = person.ask(document, variables).await;
    match answer.outcome().as_str() {
        "OK" => lasting(answer.body["data"].clone()),
        code => json!(code),
    }
}

/// The most that somebody may do with a thing, by requests that change nothing.
async fn right(person: &Person, thing: &str, id: &str) -> &'static str {
    let (noun, title) = thing.split_once(' ').unwrap();
    let (read, write) = match noun {
        "project" => {
            ("project(id: $id)", format!("updateProject(id: $id, attributes: {{name: \"{title}\"}})"))
        }
        "cluster" => ("cluster(id: $id)", "updateCluster(id: $id, attributes: {})".to_owned()),
        _ => ("serviceDeployment(id: $id)", "updateServiceDeployment(id: $id, attributes: {})".to_owned()),
    };
    let allows = async |document: String| {
        let answer = person.ask(&document, json!({ "id": id })).await;
        let outcome = answer.outcome();
        assert!(["OK", "FORBIDDEN", "NOT_FOUND"].contains(&outcome.as_str()), "{thing}: {answer:?}");
        outcome == "OK"
    };
    let may = [
        allows(format!("query ($id: ID!) {{ {read} {{ id }} }}")).await,
        allows(format!("mutation ($id: ID!) {{ {write} {{ id }} }}")).await,
        allows(format!("mutation ($id: ID!) {{ updateRbac(rbac: {{}}, {noun}Id: $id) }}")).await,
    ];
    match may {
        [false, false, false] => "none",
        [true, false, false] => "read",
        [true, true, false] => "write",
        [true, true, true] => "admin",
        _ => panic!("{thing}: {may:?}"),
    }
}

async fn a_database_of_the_previous_build_is_taken_over(database: TestDatabase) {
    let recorded = load(&database).await;
    assert_eq!(versions(&database).await.last().map(String::as_str), Some(LAST));

    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    fs::write(&key, KEY).unwrap();
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = ConsoleConfig::local(folder.path().join("data"));
    config.database_url = Some(SecretString::from(database.url()));
    config.encryption_key_file = Some(key);
    config.allow_local_repositories = true;
    config.reach = Some(Reach::Local);
    // A dump is a backup: agents take everything anew.
    config.restored = true;
    let console = RunningConsole::start(config, None).await.unwrap();
    assert!(console.first_admin.is_none(), "its users are gone");
    let after = versions(&database).await;
    assert!(after.last().is_some_and(|last| last.as_str() > LAST), "{after:?}");

    let nobody = Person::of(&console.url);
    let mut people = BTreeMap::new();
    for name in PEOPLE {
        people.insert(name, nobody.sign_in(&format!("{name}@example.com"), PASSWORD).await);
    }
    let mut wrong = Vec::new();
    for Ask { who, document, id, answer: expected } in &recorded.asks {
        let got = answer(&people[who.as_str()], &recorded.documents[document], id.as_ref()).await;
        let expected = lasting(expected.clone());
        if got != expected {
            wrong.push(format!("{document} {id:?} as {who}:\nexpected {expected}\ngot      {got}"));
        }
    }
    assert!(recorded.asks.len() > 100, "only {} answers", recorded.asks.len());
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));

    for (thing, expected) in RIGHTS {
        for (who, expected) in PEOPLE.into_iter().zip(expected) {
            assert_eq!(recorded.rights[who][thing], expected, "{thing} as {who}, in the previous build");
            assert_eq!(
                right(&people[who], thing, &recorded.things[thing]).await,
                expected,
                "{thing} as {who}"
            );
        }
    }

    // What was handed out holds.
    let ada = nobody.with_token(&recorded.tokens["ada"]);
    assert_eq!(ada.data("{ me { email } }", json!({})).await["me"]["email"], "ada@example.com");
    let scoped = nobody.with_token(&recorded.tokens["bob of blue"]);
    assert_ne!(scoped.ask("{ clusters { edges { node { id } } } }", json!({})).await.outcome(), "OK");
    let app = console.app();
    for (cluster, token) in &recorded.deploy_tokens {
        let agent = app.agent_authenticate(token).unwrap();
        let answer = app.agent_poll(&agent, &PollAsked::at(None)).await.unwrap();
        let sent: Vec<String> = answer.services.iter().map(|service| service.id.to_string()).collect();
        assert!(!sent.is_empty(), "{cluster}");
        let of = format!("{{ serviceDeployments(cluster: \"{cluster}\") {{ edges {{ node {{ id }} }} }} }}");
        let known = people["root"].data(&of, json!({})).await.to_string();
        assert!(sent.iter().all(|id| known.contains(id)), "{cluster}: {sent:?} of {known}");
    }
    // What that build did not have is there, and empty.
    let jobs = people["root"].ask("{ backgroundJobs { edges { node { state } } } }", json!({})).await;
    assert_eq!(jobs.outcome(), "OK", "{jobs:?}");
    console.stop().await.unwrap();
}
