//! Who is let in at `/v1/runs/{id}/…`: the credential of the run's Job, and nobody else. What is said behind the door is in
//! `stack_runs.rs`.

use std::time::Duration;

use plural_testkit::{TestDatabase, each_database, eventually};
use reqwest::Method;
use serde_json::{Value, json};

use crate::api_server::{Person, TestServer};

each_database!(nobody_else_is_let_in, the_credential_of_a_run_opens_no_other_door, a_browser_says_nothing);

const PATIENCE: Duration = Duration::from_secs(30);
const ID: &str = "0190c8a0-0000-7000-8000-000000000000";
/// All calls, and some that are none.
const CALLS: &[(&str, &str)] = &[
    ("GET", "input"),
    ("GET", "artifact"),
    ("GET", "plan-file"),
    ("POST", "heartbeat"),
    ("POST", "steps/0"),
    ("POST", "logs?step=0&offset=0"),
    ("PUT", "plan/file"),
    ("PUT", "findings/trivy"),
    ("PUT", "findings/cost"),
    ("POST", "planned"),
    ("POST", "done"),
    ("DELETE", "input"),
    ("GET", "nothing"),
    ("GET", "plan/nothing"),
];

fn run_token() -> String {
    format!("run-{}", "0".repeat(64))
}

/// What the commands of that run have.
fn of_commands() -> String {
    plural_core::run_call::state_token(&run_token())
}

/// Status and body.
async fn ask(
    person: &Person,
    (method, path): (&str, &str),
    headers: &[(&'static str, String)],
    body: Vec<u8>,
) -> (u16, String) {
    let method = Method::from_bytes(method.as_bytes()).unwrap();
    let mut request = person.http().request(method, format!("{}{path}", person.next_url())).body(body);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    let answer = request.send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

fn bearer(token: &str) -> Vec<(&'static str, String)> {
    vec![("authorization", format!("Bearer {token}"))]
}

async fn nobody_else_is_let_in(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let create = "mutation ($a: ClusterAttributes!) { createCluster(attributes: $a) { deployToken } }";
    let made = t.admin.data(create, json!({"a": {"name": "blue"}})).await;
    let deploy = made["createCluster"]["deployToken"].as_str().unwrap().to_owned();
    let admin = t.admin.token.clone().unwrap();
    // A good token of another door, as a password and not: the same.
    let basic = vec![("authorization", "Basic cnVuOnJ1bi0x".to_owned())];
    let twice: Vec<_> = [bearer(&run_token()), bearer(&run_token())].concat();
    for (who, headers) in [
        ("nobody", Vec::new()),
        ("a run that there is not", bearer(&run_token())),
        ("a long token", bearer(&run_token().repeat(100))),
        ("its commands", bearer(&of_commands())),
        ("an administrator", bearer(&admin)),
        ("an agent", bearer(&deploy)),
        ("a password", basic),
        ("two credentials", twice),
    ] {
        for (method, call) in CALLS {
            for id in [ID, "network"] {
                let path = format!("/v1/runs/{id}/{call}");
                // So short that it is sent whole before the answer comes, which does not wait for it.
                let told = ask(&t.nobody, (method, &path), &headers, vec![b' '; 512]).await;
                assert_eq!(told.0, 401, "{who}: {method} {call} {told:?}");
                assert!(told.1.contains("unauthenticated"), "{who}: {told:?}");
            }
        }
    }
    // Both kinds of mistake are told, and no credential with them.
    eventually(PATIENCE, async || {
        let ask = "{ audits(last: 100) { edges { node { action actorName targetName } } } }";
        let all = t.admin.data(ask, json!({})).await;
        let edges: Vec<Value> = all["audits"]["edges"].as_array().unwrap().clone();
        let has = |action: &str| edges.iter().any(|edge| edge["node"]["action"] == action);
        if has("refused.token") && has("refused.stackRun") { Ok(()) } else { Err(format!("{edges:?}")) }
    })
    .await;
    t.stop().await;
}

async fn the_credential_of_a_run_opens_no_other_door(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let body = json!({"query": "{ me { id } }"}).to_string().into_bytes();
    let state = format!("/v1/stacks/{ID}/state");
    let tarball = format!("/v1/git/tarballs?id={ID}");
    for (method, path) in [
        ("POST", "/gql"),
        ("GET", "/k8s/blue/api/v1/secrets"),
        ("GET", tarball.as_str()),
        ("GET", "/ext/v1/audit/export"),
        ("GET", state.as_str()),
        ("POST", state.as_str()),
        ("LOCK", state.as_str()),
    ] {
        for token in [run_token(), of_commands()] {
            let mut headers = bearer(&token);
            headers.push(("content-type", "application/json".to_owned()));
            let told = ask(&t.nobody, (method, path), &headers, body.clone()).await;
            assert_eq!(told.0, 401, "{method} {path}: {told:?}");
        }
    }
    // As Terraform's backend sends it.
    let url = format!("{}{state}", t.nobody.next_url());
    for token in [run_token(), of_commands(), of_commands().repeat(10)] {
        let sent = t.nobody.http().get(&url).basic_auth("run", Some(token)).send().await.unwrap();
        assert_eq!(sent.status(), 401);
    }
    t.stop().await;
}

async fn a_browser_says_nothing(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    for header in ["origin", "sec-fetch-site"] {
        let mut headers = bearer(&run_token());
        headers.push((header, "https://console.example.com".to_owned()));
        for (method, call) in CALLS {
            let path = format!("/v1/runs/{ID}/{call}");
            let told = ask(&t.nobody, (method, &path), &headers, Vec::new()).await;
            assert_eq!(told.0, 403, "{header}: {method} {call} {told:?}");
        }
    }
    t.stop().await;
}
