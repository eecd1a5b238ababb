//! Secrets that automations ask for, by the API: what is asked, what is refused, and what is told. The agent's part is in the agent's own
//! tests, and all of it together in those of the program.
//!
//! SQLite alone, but for upgrades: what is kept when is the same on both databases, and the store's own tests ask both.

use plural_testkit::{ScmDialect, ScmServer, TestDatabase, each_database};
use serde_json::{Value, json};

use crate::api_server::{Answer, TestServer};

const CREATE: &str = "mutation ($id: ID!, $context: Json, $secrets: Json, $once: String) {
  createPullRequest(id: $id, context: $context, secrets: $secrets, idempotencyKey: $once) {
    id status phase secret { state message namespace name cluster { handle } entries { name generated } }
  }
}";
const READ: &str = "query ($id: ID!) { pullRequest(id: $id) { secret { state message } } }";
const CLOSE: &str = "mutation ($id: ID!) { closePullRequest(id: $id) { status secret { state message } } }";
const MERGE: &str = "mutation ($id: ID!) { mergePullRequest(id: $id, method: MERGE) { status } }";
const UPGRADE: &str = "mutation ($id: ID!, $secrets: Json, $wait: Boolean) {
  upgradePrInstance(id: $id, secrets: $secrets, wait: $wait) { id phase }
}";
const VALUE: &str = "s3cr3t-value-3e8d";

const PREVIEW_UNINSTALL: &str =
    "mutation ($id: ID!) { previewPrInstanceUninstall(id: $id) { warnings files { path } } }";
const UNINSTALL: &str = "mutation ($id: ID!) { uninstallPrInstance(id: $id) { id phase } }";

each_database!(
    an_upgrade_brings_its_secret_and_without_a_merge_only_for_who_may_write_the_automation,
    without_a_merge_an_uninstall_deletes_the_secret_only_for_who_may_write_the_automation,
);

struct World {
    t: TestServer,
    host: ScmServer,
    connection: Value,
    automation: Value,
}

impl World {
    async fn new() -> Self {
        Self::at(TestServer::start().await).await
    }

    async fn at(t: TestServer) -> Self {
        let host = ScmServer::start(ScmDialect::Gitea).unwrap();
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

    /// As soon as the console knows its head.
    async fn merge(&self, id: &Value) {
        plural_testkit::eventually(std::time::Duration::from_mins(1), async || {
            let merged = self.t.admin.ask(MERGE, json!({"id": id})).await;
            if merged.outcome() == "OK" { Ok(()) } else { Err(format!("{merged:?}")) }
        })
        .await;
    }

    /// The only instance.
    async fn instance(&self) -> Value {
        let found =
            self.t.admin.data("{ prInstances { edges { node { id state outdated } } } }", json!({})).await;
        found["prInstances"]["edges"][0]["node"].clone()
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
    w.merge(&opened["id"]).await;
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

async fn an_upgrade_brings_its_secret_and_without_a_merge_only_for_who_may_write_the_automation(
    database: TestDatabase,
) {
    let w = World::at(TestServer::on(&database).await).await;
    let opened = made(&w.create(&w.automation, "shop", json!({"user": VALUE})).await);
    w.merge(&opened["id"]).await;
    let id = w.instance().await["id"].clone();
    // Its agent wrote it.
    w.t.sql("UPDATE pr_secrets SET state = 'WRITTEN', content = NULL, due_at = NULL").await;
    let change = json!({
        "name": "add-app", "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
        "createBindings": [{"userId": w.t.reader.id}],
        "secrets": {"cluster": "blue", "namespace": "apps", "name": "{{ context.name }}-db", "entries": [
            {"name": "password", "autogenerate": true}, {"name": "host"},
        ]},
    });
    let update = "mutation ($id: ID!, $a: PrAutomationAttributes!) { updatePrAutomation(id: $id, attributes: $a) { id } }";
    w.t.admin.data(update, json!({"id": w.automation, "a": change})).await;
    assert_eq!(w.instance().await["outdated"], true);

    let refused = w.t.admin.ask(UPGRADE, json!({"id": id, "secrets": {"user": VALUE}})).await;
    assert_eq!(refused.body["errors"][0]["extensions"]["field"], "secrets", "{refused:?}");
    assert!(refused.message().contains("asks for: password, host"), "{refused:?}");
    let refused = w.t.admin.ask(UPGRADE, json!({"id": id})).await;
    assert!(refused.message().contains("needs a value for: host"), "{refused:?}");
    // The files stay as they are, so nobody would look at what comes with it.
    let asked = json!({"id": id, "secrets": {"host": VALUE}});
    let refused = w.t.reader.ask(UPGRADE, asked).await;
    assert!(refused.message().contains("there is nothing to merge"), "{refused:?}");
    assert!(!refused.body.to_string().contains(VALUE), "{refused:?}");
    assert_eq!(w.instance().await["outdated"], true, "nothing is recorded of it");

    let asked = json!({"id": id, "secrets": {"host": VALUE}, "wait": false});
    let begun = w.t.admin.data(UPGRADE, asked).await["upgradePrInstance"].clone();
    let read = "query ($id: ID!) { pullRequest(id: $id) { phase error secret { state entries { name generated kept } } } }";
    let ended = plural_testkit::eventually(std::time::Duration::from_mins(1), async || {
        let now = w.t.admin.data(read, json!({"id": begun["id"]})).await["pullRequest"].clone();
        if now["phase"] == "PENDING" { Err(now.to_string()) } else { Ok(now) }
    })
    .await;
    assert!(ended["error"].as_str().unwrap().contains("no pull request is needed"), "{ended}");
    let secret = json!({"state": "DUE", "entries": [
        {"name": "password", "generated": true, "kept": true}, {"name": "host", "generated": false, "kept": false},
    ]});
    assert_eq!(ended["secret"], secret);
    assert_eq!(w.instance().await["outdated"], false);
    let audits =
        w.t.admin.data("{ audits(first: 100) { edges { node { action targetName } } } }", json!({})).await;
    assert!(audits.to_string().contains("prInstance.upgrade"), "{audits}");
    assert!(![w.host.everything(), audits.to_string()].iter().any(|text| text.contains(VALUE)));
    w.t.stop().await;
}

async fn without_a_merge_an_uninstall_deletes_the_secret_only_for_who_may_write_the_automation(
    database: TestDatabase,
) {
    let w = World::at(TestServer::on(&database).await).await;
    let opened = made(&w.create(&w.automation, "shop", json!({"user": VALUE})).await);
    // It was merged, its agent wrote the Secret, and people took its file away since.
    w.t.sql("UPDATE pr_instances SET state = 'ACTIVE'").await;
    w.t.sql("UPDATE pr_secrets SET state = 'WRITTEN', content = NULL, due_at = NULL").await;
    let id = w.instance().await["id"].clone();
    let change = json!({
        "name": "add-app", "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
        "createBindings": [{"userId": w.t.reader.id}],
    });
    let update = "mutation ($id: ID!, $a: PrAutomationAttributes!) { updatePrAutomation(id: $id, attributes: $a) { id } }";
    w.t.admin.data(update, json!({"id": w.automation, "a": change})).await;
    for (person, when) in [(&w.t.reader, "whoever may write the automation"), (&w.t.admin, "at once")] {
        let preview = person.data(PREVIEW_UNINSTALL, json!({"id": id})).await;
        let preview = &preview["previewPrInstanceUninstall"];
        assert_eq!(preview["files"], json!([]), "{preview}");
        let told = preview["warnings"].to_string();
        assert!(told.contains("the Secret apps/shop-db is deleted") && told.contains(when), "{preview}");
    }
    let state = async || {
        let read = w.t.admin.data(READ, json!({"id": opened["id"]})).await;
        read["pullRequest"]["secret"]["state"].clone()
    };
    let refused = w.t.reader.ask(UNINSTALL, json!({"id": id})).await;
    assert!(refused.message().contains("there is nothing to merge"), "{refused:?}");
    assert_eq!((w.instance().await["state"].clone(), state().await), (json!("ACTIVE"), json!("WRITTEN")));
    let done = w.t.admin.ask(UNINSTALL, json!({"id": id})).await;
    assert!(done.message().contains("no pull request is needed"), "{done:?}");
    assert_eq!((w.instance().await["state"].clone(), state().await), (json!("REMOVED"), json!("DELETING")));
    w.t.stop().await;
}
