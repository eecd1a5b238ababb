//! Secrets that automations ask for, by the API: what is asked, what is refused, and what is told. The agent's part is in the agent's own
//! tests, and all of it together in those of the program.
//!
//! SQLite alone: what is kept when is the same on both databases, and the store's own tests ask both.

use plural_testkit::{ScmDialect, ScmServer};
use serde_json::{Value, json};

use crate::api_server::{Answer, TestServer};

const CREATE: &str = "mutation ($id: ID!, $context: Json, $secrets: Json, $once: String) {
  createPullRequest(id: $id, context: $context, secrets: $secrets, idempotencyKey: $once) {
    id status phase secret { state message namespace name cluster { handle } entries { name generated } }
  }
}";
const READ: &str = "query ($id: ID!) { pullRequest(id: $id) { secret { state message } } }";
const CLOSE: &str = "mutation ($id: ID!) { closePullRequest(id: $id) { status secret { state message } } }";
const VALUE: &str = "s3cr3t-value-3e8d";

struct World {
    t: TestServer,
    host: ScmServer,
    connection: Value,
    automation: Value,
}

impl World {
    async fn new() -> Self {
        let (t, host) = (TestServer::start().await, ScmServer::start(ScmDialect::Gitea).unwrap());
        host.push("main", "templates/app.yaml", "name: {{ context.name }}\n");
        t.admin.cluster("blue").await;
        let connection = json!({
            "name": "scm", "type": "GITEA", "projectId": t.project, "apiUrl": host.api_url(), "token": host.token(),
            "repositories": ["plural/*"],
        });
        let connection = t.admin.scm_connection(&connection).await;
        let mut w = Self { t, host, connection, automation: Value::Null };
        w.automation = w
            .automation(
                json!({"cluster": "blue", "namespace": "apps", "name": "{{ context.name }}-db", "entries": [
                    {"name": "user"}, {"name": "password", "autogenerate": true},
                ]}),
            )
            .await;
        w
    }

    async fn automation(&self, secrets: Value) -> Value {
        let name = format!("pr-{}", uuid::Uuid::now_v7().simple());
        let automation = json!({
            "name": name, "projectId": self.t.project, "connectionId": self.connection,
            "identifier": self.host.repository(), "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
            "configuration": [{"name": "name", "type": "STRING", "validation": {"regex": "^[a-z]+$"}}],
            "creates": {"templates": [
                {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
            ]},
            "secrets": secrets,
        });
        self.t.admin.pr_automation(&automation).await
    }

    async fn create(&self, automation: &Value, name: &str, secrets: Value) -> Answer {
        self.t
            .admin
            .ask(CREATE, json!({"id": automation, "context": {"name": name}, "secrets": secrets}))
            .await
    }
}

fn made(answer: &Answer) -> Value {
    assert_eq!(answer.outcome(), "OK", "{answer:?}");
    answer.body["data"]["createPullRequest"].clone()
}

#[tokio::test]
async fn a_secret_is_told_without_its_values() {
    let w = World::new().await;
    let opened = made(&w.create(&w.automation, "shop", json!({"user": VALUE})).await);
    let expected = json!({
        "state": "WAITING", "message": null, "namespace": "apps", "name": "shop-db", "cluster": {"handle": "blue"},
        "entries": [{"name": "user", "generated": false}, {"name": "password", "generated": true}],
    });
    assert_eq!(opened["secret"], expected);
    assert!(!w.host.everything().contains(VALUE));
    // Closed, its values are forgotten.
    let closed = w.t.admin.data(CLOSE, json!({"id": opened["id"]})).await["closePullRequest"].clone();
    assert_eq!(
        (&closed["status"], &closed["secret"]["state"]),
        (&json!("CLOSED"), &json!("FORGOTTEN")),
        "{closed}"
    );
    w.t.stop().await;
}

#[tokio::test]
async fn an_agent_that_writes_none_is_told_to_be_updated() {
    let w = World::new().await;
    let opened = made(&w.create(&w.automation, "shop", json!({"user": VALUE})).await);
    w.t.sql("UPDATE clusters SET agent_contract = 4").await;
    let merge = "mutation ($id: ID!) { mergePullRequest(id: $id, method: MERGE) { status } }";
    plural_testkit::eventually(std::time::Duration::from_mins(1), async || {
        let merged = w.t.admin.ask(merge, json!({"id": opened["id"]})).await;
        if merged.outcome() == "OK" { Ok(()) } else { Err(format!("{merged:?}")) }
    })
    .await;
    let read = w.t.admin.data(READ, json!({"id": opened["id"]})).await["pullRequest"]["secret"].clone();
    assert_eq!(read["state"], "DUE", "{read}");
    assert!(read["message"].as_str().unwrap().contains("update the agent"), "{read}");
    w.t.stop().await;
}

#[tokio::test]
async fn what_cannot_be_made_opens_nothing() {
    let w = World::new().await;
    for (secrets, why) in [
        (json!({}), "needs a value for: user"),
        (json!({"user": VALUE, "other": VALUE}), "asks for: user, password"),
        (json!({"user": {"a": VALUE}}), "needs a text for user"),
        (json!([VALUE]), "must be a JSON object"),
    ] {
        let refused = w.create(&w.automation, "shop", secrets).await;
        assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
        assert_eq!(refused.body["errors"][0]["extensions"]["field"], "secrets", "{refused:?}");
        assert!(refused.message().contains(why) && !refused.body.to_string().contains(VALUE), "{refused:?}");
    }
    let entries = json!([{"name": "user"}]);
    for (place, why) in [
        (json!({"cluster": "green", "name": "db"}), "which its project does not have"),
        (json!({"name": "db"}), "says no cluster of it"),
        (json!({"cluster": "blue", "name": "../db"}), "which Kubernetes does not take"),
        (json!({"cluster": "blue", "name": "{{ context.name | upcase }}"}), "needs an answer"),
        (json!({"cluster": "blue", "name": "db", "namespace": "kube-system"}), "is reserved for Kubernetes"),
    ] {
        let mut secrets = place.clone();
        secrets["entries"] = entries.clone();
        let automation = w.automation(secrets).await;
        let refused = w.create(&automation, "shop", json!({"user": VALUE})).await;
        assert!(["CONFLICT", "FORBIDDEN"].contains(&refused.outcome().as_str()), "{place}: {refused:?}");
        assert!(refused.message().contains(why), "{place}: {refused:?}");
        assert!(!refused.body.to_string().contains(VALUE), "{refused:?}");
    }
    // One that asks for none takes none.
    let plain = w.automation(Value::Null).await;
    let refused = w.create(&plain, "shop", json!({"user": VALUE})).await;
    assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
    assert_eq!(w.host.pull_requests(), 0);
    // The same key with another value is another request.
    let keyed = |value: &str| json!({"id": w.automation, "context": {"name": "shop"}, "secrets": {"user": value}, "once": "k"});
    let first = made(&w.t.admin.ask(CREATE, keyed(VALUE)).await);
    assert_eq!(made(&w.t.admin.ask(CREATE, keyed(VALUE)).await)["id"], first["id"]);
    assert_eq!(w.t.admin.ask(CREATE, keyed("another")).await.outcome(), "CONFLICT");
    w.t.stop().await;
}
