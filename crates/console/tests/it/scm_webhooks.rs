//! Webhooks that the console makes at hosts: once, with its own secret, and only where a connection reaches.

use hmac::{Hmac, KeyInit, Mac};
use plural_testkit::{ScmDialect, ScmMood, ScmServer, TestDatabase, each_database};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::api_server::{Answer, Person, TestServer};

const REGISTER: &str = "mutation ($id: ID!, $repository: String, $organization: String) {
  registerScmWebhook(connectionId: $id, repository: $repository, organization: $organization) { id owner url } }";
/// The name that clients of the original know.
const CREATE: &str = "mutation ($id: ID!, $owner: String!) {
  createScmWebhook(connectionId: $id, owner: $owner) { id owner url } }";
const UNREGISTER: &str = "mutation ($id: ID!, $repository: String, $organization: String) {
  unregisterScmWebhook(connectionId: $id, repository: $repository, organization: $organization) { id } }";
const LIST: &str = "{ scmWebhooks(first: 100) { edges { node { id owner } } } }";

each_database!(
    a_webhook_is_registered_once_and_believed,
    what_a_connection_may_not_touch_is_refused_and_nothing_is_made,
    a_host_that_fails_is_asked_again_and_has_one_webhook,
);

async fn connection(t: &TestServer, host: &ScmServer, more: Value) -> Value {
    let mut attributes = json!({
        "name": "forge", "projectId": t.project, "apiUrl": host.api_url(), "token": host.token(),
        "repositories": ["plural/**"],
    });
    attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    t.admin.scm_connection(&attributes).await
}

async fn webhooks(t: &TestServer) -> usize {
    t.admin.data(LIST, json!({})).await["scmWebhooks"]["edges"].as_array().unwrap().len()
}

/// What the host sends, with the secret that it was given.
async fn tell(t: &TestServer, url: &str, secret: &str) -> Answer {
    let body = json!({"repository": {"full_name": "plural/fleet"}}).to_string();
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(&body).finalize();
    let request = t.nobody.http().post(url).header("x-gitea-signature", hex::encode(mac.into_bytes()));
    Answer::of(request.body(body).send().await.unwrap()).await
}

async fn a_webhook_is_registered_once_and_believed(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let host = ScmServer::start(ScmDialect::Gitea).unwrap();
    let id = connection(&t, &host, json!({"type": "GITEA"})).await;
    let of_repository = json!({"id": id, "repository": "plural/fleet"});
    let of_owner = json!({"id": id, "organization": "plural"});
    let register = async |by: &Person, variables: &Value| {
        by.data(REGISTER, variables.clone()).await["registerScmWebhook"].clone()
    };
    let made = register(&t.owner, &of_repository).await;
    let url = made["url"].as_str().unwrap().to_owned();
    assert_eq!((&made["owner"], host.webhook_urls()), (&json!("plural"), vec![url.clone()]));
    assert_eq!(register(&t.admin, &of_repository).await, made, "twice is once");
    assert_eq!(register(&t.owner, &of_owner).await, made, "its owner has the same address");
    let named = t.owner.data(CREATE, json!({"id": id, "owner": "plural"})).await["createScmWebhook"].clone();
    assert_eq!(named, made, "by the original's name, too");
    let scopes: Vec<String> = host.webhooks().into_iter().map(|(scope, _)| scope).collect();
    assert_eq!((scopes.len(), host.webhook_urls().len(), webhooks(&t).await), (2, 1, 1), "{scopes:?}");
    let mut secrets: Vec<String> = host.webhooks().into_iter().map(|(_, secret)| secret).collect();
    secrets.dedup();
    let [secret] = secrets.as_slice() else { panic!("{secrets:?}") };
    assert_eq!(secret.len(), 64);
    // Nothing here is about the repository yet: it is believed, and nothing follows.
    let taken = tell(&t, &url, secret).await;
    assert_eq!((taken.status, &taken.body), (202, &json!({"repositories": 0})), "{taken:?}");
    assert_eq!(tell(&t, &url, "another secret of it").await.status, 401);

    t.owner.data(UNREGISTER, of_repository.clone()).await;
    let left: Vec<String> = host.webhooks().into_iter().map(|(scope, _)| scope).collect();
    assert_eq!(left, ["organisation"]);
    t.owner.data(UNREGISTER, of_repository.clone()).await;
    t.owner.data(UNREGISTER, of_owner).await;
    assert!(host.webhooks().is_empty(), "{:?}", host.webhooks());
    assert_eq!(webhooks(&t).await, 1, "the address stays");

    let query = "{ audits(first: 100) { edges { node { action actor { email } } } } }";
    let told = t.admin.data(query, json!({})).await.to_string();
    for action in ["scm_webhook.create", "scm_webhook.register", "scm_webhook.unregister"] {
        assert!(told.contains(action), "{action}: {told}");
    }
    assert!(!told.contains(secret.as_str()));
    t.stop().await;
}

async fn what_a_connection_may_not_touch_is_refused_and_nothing_is_made(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let host = ScmServer::start(ScmDialect::Gitea).unwrap();
    let id = connection(&t, &host, json!({"type": "GITEA", "repositories": ["plural/fleet"]})).await;
    for (document, asked, says) in [
        (REGISTER, json!({"repository": "plural/other"}), "may not touch"),
        (REGISTER, json!({"repository": "plural/*"}), "must be a repository"),
        (REGISTER, json!({"repository": "fleet"}), "must be a repository"),
        (REGISTER, json!({"organization": "plural"}), "allow it plural/*"),
        (REGISTER, json!({"organization": "../plural"}), "must be an organization"),
        (REGISTER, json!({}), "exactly one of repository and organization"),
        (REGISTER, json!({"repository": "plural/fleet", "organization": "plural"}), "exactly one"),
        (CREATE, json!({"owner": "plural"}), "allow it plural/*"),
        (CREATE, json!({"owner": ""}), "must be an organization"),
        (CREATE, json!({"owner": "../plural"}), "must be an organization"),
        (UNREGISTER, json!({"repository": "plural/other"}), "may not touch"),
    ] {
        let mut variables = asked.clone();
        variables["id"] = id.clone();
        let refused = t.owner.ask(document, variables).await;
        assert_eq!(refused.outcome(), "INVALID", "{asked}: {refused:?}");
        assert!(refused.message().contains(says), "{asked}: {}", refused.message());
    }
    let unknown = t.owner.ask(UNREGISTER, json!({"id": id, "repository": "plural/fleet"})).await;
    assert_eq!(unknown.outcome(), "NOT_FOUND", "{unknown:?}");
    let plain = json!({
        "name": "plain", "type": "PLAIN", "projectId": t.project, "baseUrl": "https://git.invalid", "repositories": ["**"],
    });
    let plain = t.admin.scm_connection(&plain).await;
    let refused = t.owner.ask(REGISTER, json!({"id": plain, "repository": "plural/fleet"})).await;
    assert!(refused.message().contains("PLAIN is git alone"), "{refused:?}");
    assert_eq!((webhooks(&t).await, host.webhooks().len()), (0, 0));
    t.stop().await;
}

async fn a_host_that_fails_is_asked_again_and_has_one_webhook(database: TestDatabase) {
    let t = TestServer::on(&database).await;
    let host = ScmServer::start(ScmDialect::Gitea).unwrap();
    let id = connection(&t, &host, json!({"type": "GITEA"})).await;
    let variables = json!({"id": id, "repository": "plural/fleet"});
    host.set_mood(Some(ScmMood::Failing(403)));
    let refused = t.owner.ask(REGISTER, variables.clone()).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("its token needs the right"), "{}", refused.message());
    assert!(!refused.message().contains(&host.token()), "{}", refused.message());
    // It is made, and its answer is lost: whoever asks again finds it.
    host.set_mood(Some(ScmMood::HalfAnswers));
    let lost = t.owner.ask(REGISTER, variables.clone()).await;
    assert_ne!(lost.outcome(), "OK", "{lost:?}");
    host.set_mood(None);
    let made = t.owner.data(REGISTER, variables.clone()).await["registerScmWebhook"].clone();
    assert_eq!(host.webhook_urls(), [made["url"].as_str().unwrap()]);
    assert_eq!((host.webhooks().len(), webhooks(&t).await), (1, 1));
    host.set_mood(Some(ScmMood::Failing(404)));
    let refused = t.owner.ask(UNREGISTER, variables).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    t.stop().await;
}

/// SQLite alone: what differs is the host.
#[tokio::test]
async fn each_host_has_a_webhook_of_a_repository_and_of_its_owner() {
    let azure = json!({"username": "bot", "organization": "acme", "project": "plural"});
    for (dialect, more, organization, owner) in [
        (ScmDialect::GitHub, json!({"type": "GITHUB"}), "plural", "plural"),
        (ScmDialect::GitLab, json!({"type": "GITLAB"}), "plural/platform", "plural/platform"),
        (ScmDialect::BitbucketCloud, json!({"type": "BITBUCKET"}), "plural", "plural"),
        (ScmDialect::BitbucketDataCenter, json!({"type": "BITBUCKET_DATACENTER"}), "plural", "plural"),
        (ScmDialect::AzureDevOps, json!({"type": "AZURE_DEVOPS", "azure": azure}), "plural", "acme"),
    ] {
        let t = TestServer::start().await;
        let host = ScmServer::start(dialect).unwrap();
        let id = connection(&t, &host, more).await;
        for asked in [
            json!({"id": id, "repository": host.repository()}),
            json!({"id": id, "organization": organization}),
        ] {
            let made = t.owner.data(REGISTER, asked).await["registerScmWebhook"].clone();
            assert_eq!(made["owner"], owner, "{dialect:?}");
            assert_eq!(host.webhook_urls(), [made["url"].as_str().unwrap()], "{dialect:?}");
        }
        assert_eq!(host.webhooks().len(), 2, "{dialect:?}");
        t.owner.data(UNREGISTER, json!({"id": id, "organization": organization})).await;
        let left: Vec<String> = host.webhooks().into_iter().map(|(scope, _)| scope).collect();
        assert_eq!(left, ["repository"], "{dialect:?}");
        t.stop().await;
    }
}
