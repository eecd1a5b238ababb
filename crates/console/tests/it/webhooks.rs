//! Webhooks of single repositories.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::api_server::{Answer, Person, TestServer, WEBHOOK_SECRET};

const ROTATE: &str = "mutation ($id: ID!) { rotateGitRepositoryWebhook(id: $id) { path secret } }";
const READ: &str = "query ($id: ID!) { gitRepositoryWebhook(id: $id) { path secret } }";

/// A repository of the default project, and its webhook's path and secret.
async fn repository(t: &TestServer, name: &str) -> (String, String, String) {
    let made = t.admin.repository(&format!("https://git.invalid/team/{name}.git")).await;
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(t.owner.data(READ, json!({"id": id})).await["gitRepositoryWebhook"], Value::Null);
    let (path, secret) = of(&t.owner.data(ROTATE, json!({"id": id})).await["rotateGitRepositoryWebhook"]);
    (id, path, secret)
}

fn of(webhook: &Value) -> (String, String) {
    (webhook["path"].as_str().unwrap().to_owned(), webhook["secret"].as_str().unwrap().to_owned())
}

/// What a provider sends: its word in the path, header, and the header's value for a body.
fn signed(provider: &'static str, secret: &str, body: &str) -> (&'static str, String) {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(body).finalize();
    let signature = format!("sha256={}", hex::encode(mac.into_bytes()));
    match provider {
        "github" => ("x-hub-signature-256", signature),
        "gitlab" => ("x-gitlab-token", secret.to_owned()),
        _ => ("x-plural-signature-256", signature),
    }
}

async fn send(t: &TestServer, provider: &'static str, path: &str, secret: &str, body: &str) -> Answer {
    let (header, value) = signed(provider, secret, body);
    let request = t.nobody.http().post(t.url(&path.replace("TYPE", provider))).header(header, value);
    Answer::of(request.body(body.to_owned()).send().await.unwrap()).await
}

#[tokio::test]
async fn a_secret_opens_its_own_repository_and_nothing_else() {
    let t = TestServer::start().await;
    let (one, path, secret) = repository(&t, "one").await;
    let (_, other_path, other_secret) = repository(&t, "other").await;
    assert_eq!(secret.len(), 64);
    assert_ne!(secret, other_secret);
    assert_eq!(path, format!("/ext/v1/webhooks/TYPE/{one}"));
    // The body names the other repository: the path decides.
    let bodies =
        ["{}", "no JSON", r#"{"url": "https://git.invalid/team/other", "urls": ["https://git.invalid/x"]}"#];
    for provider in ["github", "gitlab", "generic"] {
        for body in bodies {
            let taken = send(&t, provider, &path, &secret, body).await;
            assert_eq!((taken.status, &taken.body), (202, &json!({"repositories": 1})), "{provider} {body}");
            for (at, with) in [
                // Neither another repository's secret, nor the installation's, nor none.
                (&path, other_secret.as_str()),
                (&path, WEBHOOK_SECRET),
                (&path, ""),
                (&path, &secret[..63]),
                (&other_path, secret.as_str()),
            ] {
                let refused = send(&t, provider, at, with, body).await;
                assert_eq!(refused.status, 401, "{provider} {at} {with:?} {body}");
            }
            // The secret of one is not the installation's: without its id it opens nothing.
            let everywhere = "/ext/v1/webhooks/TYPE";
            assert_eq!(send(&t, provider, everywhere, &secret, body).await.status, 401, "{provider}");
            let unknown = format!("/ext/v1/webhooks/TYPE/{}", t.project);
            assert_eq!(send(&t, provider, &unknown, &secret, body).await.status, 401, "{provider}");
        }
    }
    // A signature that another header carries is none.
    let (_, signature) = signed("github", &secret, "{}");
    for (provider, header) in [("gitlab", "x-gitlab-token"), ("generic", "x-hub-signature-256")] {
        let at = t.url(&path.replace("TYPE", provider));
        let request = t.nobody.http().post(at).header(header, &signature).body("{}");
        assert_eq!(request.send().await.unwrap().status().as_u16(), 401, "{provider}");
    }
    // Set-ups of before: the installation's secret, and an id that says nothing.
    let body = r#"{"url": "https://git.invalid/team/one"}"#;
    for at in ["/ext/v1/webhooks/TYPE", "/ext/v1/webhooks/TYPE/some-id"] {
        let taken = send(&t, "generic", at, WEBHOOK_SECRET, body).await;
        assert_eq!((taken.status, &taken.body), (202, &json!({"repositories": 1})), "{at}");
    }
}

#[tokio::test]
async fn writers_read_and_rotate_it_and_it_is_told() {
    let t = TestServer::start().await;
    let (id, path, first) = repository(&t, "app").await;
    let read = async |person: &Person| person.ask(READ, json!({"id": id})).await;
    for (person, outcome) in [(&t.nobody, "401"), (&t.stranger, "NOT_FOUND"), (&t.reader, "FORBIDDEN")] {
        let told = read(person).await;
        assert_eq!(told.outcome(), outcome, "{told:?}");
        assert!(!told.body.to_string().contains(&first));
        assert!(!person.ask(ROTATE, json!({"id": id})).await.body.to_string().contains("webhooks/TYPE"));
    }
    let again = t.owner.data(READ, json!({"id": id})).await;
    assert_eq!(of(&again["gitRepositoryWebhook"]).1, first, "it stays until it is rotated");
    let (_, second) = of(&t.owner.data(ROTATE, json!({"id": id})).await["rotateGitRepositoryWebhook"]);
    assert_ne!(first, second);
    assert_eq!(send(&t, "gitlab", &path, &first, "{}").await.status, 401);
    assert_eq!(send(&t, "gitlab", &path, &second, "{}").await.status, 202);

    let query = "{ audits(first: 100) { edges { node { action actor { email } } } } }";
    let told = t.admin.data(query, json!({})).await.to_string();
    for action in ["repository.webhook.read", "repository.webhook.rotate"] {
        assert!(told.contains(action), "{told}");
    }
    assert!(!told.contains(&first) && !told.contains(&second));
    // A repository that goes takes its secret with it.
    let delete = "mutation ($id: ID!) { deleteGitRepository(id: $id) { id } }";
    t.owner.data(delete, json!({"id": id})).await;
    assert_eq!(send(&t, "gitlab", &path, &second, "{}").await.status, 401);
}
