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

/// A connection of the default project to a Gitea, and the path of a webhook of it.
async fn scm_webhook(t: &TestServer, hmac: &str) -> (String, String) {
    let attributes = json!({
        "name": "forge", "type": "GITEA", "projectId": t.project, "baseUrl": "https://git.invalid",
        "token": "a-token", "repositories": ["team/*"],
    });
    let connection = t.owner.scm_connection(&attributes).await;
    let create = "mutation ($a: ScmWebhookAttributes!) { createScmWebhookPointer(attributes: $a) { id url externalId } }";
    let attributes = json!({"connectionId": connection, "type": "GITEA", "owner": "team", "hmac": hmac});
    let made = t.owner.data(create, json!({"a": attributes})).await["createScmWebhookPointer"].clone();
    let path = format!("/ext/v1/webhooks/gitea/{}", made["externalId"].as_str().unwrap());
    assert!(made["url"].as_str().unwrap().ends_with(&path), "{made}");
    (made["id"].as_str().unwrap().to_owned(), path)
}

#[tokio::test]
async fn a_webhook_of_a_connection_is_believed_for_its_repositories() {
    let t = TestServer::start().await;
    repository(&t, "one").await;
    let secret = "0123456789abcdef";
    let (id, path) = scm_webhook(&t, secret).await;
    let tell = async |path: &str, header: &'static str, signature: String, body: &str| {
        let request = t.nobody.http().post(t.url(path)).header(header, signature).body(body.to_owned());
        Answer::of(request.send().await.unwrap()).await
    };
    let sign = |with: &str, body: &str| {
        let mac = Hmac::<Sha256>::new_from_slice(with.as_bytes()).unwrap().chain_update(body).finalize();
        hex::encode(mac.into_bytes())
    };
    let of = |slug: &str| json!({"repository": {"full_name": slug}}).to_string();
    // The same delivery twice is the same hint.
    for (slug, count) in
        [("team/one", 1), ("team/one", 1), ("other/one", 0), ("team/group/one", 0), ("../team/one", 0)]
    {
        let body = of(slug);
        let taken = tell(&path, "x-gitea-signature", sign(secret, &body), &body).await;
        assert_eq!((taken.status, &taken.body), (202, &json!({"repositories": count})), "{slug}");
    }
    // Names that nothing here is about are no work, however many are made up.
    for at in 0..30 {
        let body = of(&format!("team/made-up-{at}"));
        let taken = tell(&path, "x-gitea-signature", sign(secret, &body), &body).await;
        assert_eq!((taken.status, &taken.body), (202, &json!({"repositories": 0})), "{taken:?}");
    }
    let jobs = t.admin.data("{ backgroundJobs(first: 100) { edges { node { key } } } }", json!({})).await;
    assert!(!jobs.to_string().contains("made-up"), "{jobs}");
    let body = of("team/one");
    for (path, header, signature) in [
        (path.as_str(), "x-gitea-signature", sign("another secret of it", &body)),
        (path.as_str(), "x-gitea-signature", sign(secret, &of("team/other"))),
        (path.as_str(), "x-gitea-signature", sign(WEBHOOK_SECRET, &body)),
        (path.as_str(), "x-gitea-signature", String::new()),
        (path.as_str(), "x-hub-signature-256", format!("sha256={}", sign(secret, &body))),
        ("/ext/v1/webhooks/gitea", "x-gitea-signature", sign(secret, &body)),
        ("/ext/v1/webhooks/gitea", "x-gitea-signature", sign(WEBHOOK_SECRET, &body)),
        ("/ext/v1/webhooks/gitea/unknown", "x-gitea-signature", sign(secret, &body)),
    ] {
        assert_eq!(tell(path, header, signature, &body).await.status, 401, "{path} {header}");
    }
    // Another type than the webhook's, with its way of signing.
    let other = path.replace("/gitea/", "/github/");
    let signed = format!("sha256={}", sign(secret, &body));
    assert_eq!(tell(&other, "x-hub-signature-256", signed, &body).await.status, 401);
    let broken = tell(&path, "x-gitea-signature", sign(secret, "no JSON"), "no JSON").await;
    assert_eq!(broken.status, 422, "{broken:?}");

    let delete = "mutation ($id: ID!) { deleteScmWebhook(id: $id) { id } }";
    t.owner.data(delete, json!({"id": id})).await;
    assert_eq!(tell(&path, "x-gitea-signature", sign(secret, &body), &body).await.status, 401);
}

/// A repository that nothing is deployed from, and that pull requests were opened in.
#[tokio::test]
async fn a_webhook_is_heard_of_repositories_with_pull_requests() {
    let t = TestServer::start().await;
    let attributes = json!({
        "name": "github", "type": "GITHUB", "projectId": t.project, "token": "a-token", "repositories": ["acme/*"],
    });
    let connection = t.owner.scm_connection(&attributes).await;
    let secret = "0123456789abcdef";
    let create =
        "mutation ($a: ScmWebhookAttributes!) { createScmWebhookPointer(attributes: $a) { externalId } }";
    let attributes = json!({"connectionId": connection, "type": "GITHUB", "owner": "acme", "hmac": secret});
    let made = t.owner.data(create, json!({"a": attributes})).await["createScmWebhookPointer"].clone();
    let path = format!("/ext/v1/webhooks/github/{}", made["externalId"].as_str().unwrap());
    let heard = async || {
        let body = json!({"repository": {"full_name": "Acme/Shop"}}).to_string();
        send(&t, "github", &path, secret, &body).await.body
    };
    assert_eq!(heard().await, json!({"repositories": 0}));
    let attributes = json!({
        "name": "add", "projectId": t.project, "connectionId": connection, "title": "Add", "message": "Adds it.",
    });
    let automation = t.owner.pr_automation(&attributes).await;
    t.plant_pull_request(&automation).await;
    assert_eq!(heard().await, json!({"repositories": 1}));
    t.stop().await;
}

#[tokio::test]
async fn a_webhook_finds_its_connection_by_type_and_owner_when_exactly_one_fits() {
    let t = TestServer::start().await;
    let connect = async |name: &str| {
        let attributes = json!({
            "name": name, "type": "GITHUB", "projectId": t.project, "token": "a-token", "owner": "acme",
        });
        t.owner.scm_connection(&attributes).await
    };
    let make = "mutation ($a: ScmWebhookAttributes!) { createScmWebhookPointer(attributes: $a) { connection { id } } }";
    let attributes = json!({"type": "GITHUB", "owner": "acme", "hmac": "0123456789abcdef"});
    let none = t.owner.ask(make, json!({"a": attributes})).await;
    assert!(none.body.to_string().contains("attributes.connectionId"), "{none:?}");
    let one = connect("one").await;
    let made = t.owner.data(make, json!({"a": attributes})).await;
    assert_eq!(made["createScmWebhookPointer"]["connection"]["id"], one);
    connect("other").await;
    let two = t.owner.ask(make, json!({"a": attributes})).await;
    assert!(two.body.to_string().contains("attributes.connectionId"), "{two:?}");
    let short = json!({"type": "GITHUB", "owner": "acme", "connectionId": one, "hmac": "short"});
    let short = t.owner.ask(make, json!({"a": short})).await;
    assert!(short.body.to_string().contains("attributes.hmac"), "{short:?}");
}
