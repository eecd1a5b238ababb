//! Secrets of automations, through console, git host and agent: there after the merge, gone with what the pull request generated.

use std::{fs, path::Path};

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use plural_testkit::{ScmDialect, ScmServer, TestCluster, each_cluster, eventually};
use serde_json::{Value, json};

use crate::{
    asker::Asker,
    world::{PATIENCE, World},
};

each_cluster!(a_secret_comes_with_the_merge_and_goes_with_what_was_generated, what_is_closed_brings_nothing);

const VALUE: &str = "s3cr3t-value-90c4";
const NEXT: &str = "s3cr3t-value-17fe";
const CREATE: &str = "mutation ($id: ID!, $context: Json, $secrets: Json) {
    createPullRequest(id: $id, context: $context, secrets: $secrets) { id phase error } }";
const READ: &str = "query ($id: ID!) { pullRequest(id: $id) { status head
    secret { state message namespace name cluster { handle } entries { name generated } } } }";
const MERGE: &str = "mutation ($id: ID!) { mergePullRequest(id: $id, method: MERGE) { status } }";
const CLOSE: &str = "mutation ($id: ID!) { closePullRequest(id: $id) { status } }";
const UPDATE: &str =
    "mutation ($id: ID!, $a: PrAutomationAttributes!) { updatePrAutomation(id: $id, attributes: $a) { id } }";
const UPGRADE: &str =
    "mutation ($id: ID!, $secrets: Json) { upgradePrInstance(id: $id, secrets: $secrets) { id phase } }";
const UNINSTALL: &str = "mutation ($id: ID!) { uninstallPrInstance(id: $id) { id phase } }";

struct Form {
    w: World,
    host: ScmServer,
    admin: Asker,
    automation: Value,
}

impl Form {
    /// An automation that asks for a Secret on the cluster.
    async fn new(cluster: TestCluster) -> anyhow::Result<Self> {
        let w = World::new(cluster).await?;
        let host = ScmServer::start(ScmDialect::Gitea)?;
        host.push("main", "templates/app.yaml", "name: {{ context.name }}\n");
        let admin = Asker::administrator(&w.console.url).await?;
        let connection = json!({
            "name": "scm", "type": "GITEA", "apiUrl": host.api_url(), "token": host.token(), "repositories": ["plural/*"],
        });
        let create = "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }";
        let connection = admin.data(create, json!({"a": connection})).await?;
        let automation = json!({
            "name": "add-app", "connectionId": connection["createScmConnection"]["id"],
            "identifier": host.repository(), "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
            "configuration": [{"name": "name", "type": "STRING", "validation": {"regex": "^[a-z]+$"}}],
            "creates": {"templates": [
                {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
            ]},
            "secrets": {"cluster": "blue", "namespace": w.namespace, "name": "{{ context.name }}-db", "entries": [
                {"name": "user", "documentation": "Who signs in."}, {"name": "password", "autogenerate": true},
            ]},
        });
        let create = "mutation ($a: PrAutomationAttributes!) { createPrAutomation(attributes: $a) { id } }";
        let made = admin.data(create, json!({"a": automation})).await?;
        let automation = made["createPrAutomation"]["id"].clone();
        Ok(Self { w, host, admin, automation })
    }

    async fn create(&self) -> anyhow::Result<Value> {
        let asked = json!({"id": self.automation, "context": {"name": "shop"}, "secrets": {"user": VALUE}});
        let made = self.admin.data(CREATE, asked).await?["createPullRequest"].take();
        anyhow::ensure!(made["phase"] == "OPENED", "{made}");
        Ok(made)
    }

    async fn read(&self, id: &Value) -> Result<Value, String> {
        let read = self.admin.data(READ, json!({"id": id})).await;
        Ok(read.map_err(|error| format!("{error:#}"))?["pullRequest"].take())
    }

    /// Merges it, once the console knows its head.
    async fn merge(&self, id: &Value) -> anyhow::Result<()> {
        eventually(PATIENCE, async || {
            let now = self.read(id).await?;
            if now["head"].is_string() { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        let merged = self.admin.data(MERGE, json!({"id": id})).await?;
        anyhow::ensure!(merged["mergePullRequest"]["status"] == "MERGED", "{merged}");
        Ok(())
    }

    async fn until(&self, id: &Value, state: &str) -> Value {
        eventually(PATIENCE, async || {
            let now = self.read(id).await?;
            if now["secret"]["state"] == state { Ok(now["secret"].clone()) } else { Err(now.to_string()) }
        })
        .await
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.w.client.clone(), &self.w.namespace)
    }
}

async fn a_secret_comes_with_the_merge_and_goes_with_what_was_generated(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let mut f = Form::new(cluster).await?;
    let made = f.create().await?;
    let id = &made["id"];
    let secret = f.read(id).await.map_err(anyhow::Error::msg)?["secret"].clone();
    let entries = json!([{"name": "user", "generated": false}, {"name": "password", "generated": true}]);
    assert_eq!((&secret["state"], &secret["entries"]), (&json!("WAITING"), &entries), "{secret}");
    assert_eq!(
        (&secret["name"], &secret["cluster"]["handle"]),
        (&json!("shop-db"), &json!("blue")),
        "{secret}"
    );
    assert!(f.secrets().get_opt("shop-db").await?.is_none(), "before the merge nothing is written");

    // Merged while the agent is away, it waits for that.
    if let Some(agent) = f.w.agent.take() {
        agent.stop().await;
    }
    f.merge(id).await?;
    f.until(id, "DUE").await;
    f.w.start_agent().await?;
    let written = f.until(id, "WRITTEN").await;
    assert_eq!(written["message"], Value::Null, "{written}");
    let found = f.secrets().get("shop-db").await?;
    let data = found.data.unwrap_or_default();
    assert_eq!(data["user"].0, VALUE.as_bytes());
    assert_eq!(data["password"].0.len(), 32);

    // Nobody else was told.
    let generated = String::from_utf8(data["password"].0.clone())?;
    let audits = "{ audits(first: 100) { edges { node { action targetName } } } }";
    let audits = f.admin.data(audits, json!({})).await?.to_string();
    assert!(audits.contains("pullRequest.secret.write"), "{audits}");
    for text in [f.host.everything(), audits] {
        assert!(!text.contains(VALUE) && !text.contains(&generated), "{text}");
    }
    assert_eq!(holding(f.w.folder.path(), &[VALUE, &generated])?, Vec::<String>::new());

    let instances = f.admin.data("{ prInstances { edges { node { id state } } } }", json!({})).await?;
    let instance = &instances["prInstances"]["edges"][0]["node"];
    assert_eq!(instance["state"], "ACTIVE", "{instances}");
    // The next version asks for one more value: the others stay as they are in the cluster, and nowhere else.
    f.host.push("main", "templates/app.yaml", "name: {{ context.name }}\nport: 80\n");
    let entries = json!([{"name": "user"}, {"name": "password", "autogenerate": true}, {"name": "host"}]);
    let change = json!({
        "name": "add-app", "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
        "secrets": {"cluster": "blue", "namespace": f.w.namespace, "name": "{{ context.name }}-db", "entries": entries},
    });
    f.admin.data(UPDATE, json!({"id": f.automation, "a": change})).await?;
    let asked = json!({"id": instance["id"], "secrets": {"host": NEXT}});
    let next = f.admin.data(UPGRADE, asked).await?["upgradePrInstance"].take();
    f.merge(&next["id"]).await?;
    f.until(&next["id"], "WRITTEN").await;
    let data = f.secrets().get("shop-db").await?.data.unwrap_or_default();
    for (name, value) in [("host", NEXT), ("user", VALUE), ("password", generated.as_str())] {
        assert_eq!(data.get(name).map(|value| value.0.as_slice()), Some(value.as_bytes()), "{name}");
    }
    f.until(id, "DELETED").await;
    assert!(!f.host.everything().contains(NEXT));
    assert_eq!(holding(f.w.folder.path(), &[NEXT])?, Vec::<String>::new());

    // What it generated is taken away, and so is the Secret.
    let gone = f.admin.data(UNINSTALL, json!({"id": instance["id"]})).await?["uninstallPrInstance"].take();
    assert!(f.secrets().get_opt("shop-db").await?.is_some(), "until that is merged, too");
    f.merge(&gone["id"]).await?;
    f.until(&next["id"], "DELETED").await;
    assert!(f.secrets().get_opt("shop-db").await?.is_none());
    f.w.end().await
}

async fn what_is_closed_brings_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Form::new(cluster).await?;
    let made = f.create().await?;
    f.admin.data(CLOSE, json!({"id": made["id"]})).await?;
    let closed = f.until(&made["id"], "FORGOTTEN").await;
    assert!(closed["message"].as_str().unwrap_or_default().contains("open another one"), "{closed}");
    assert!(f.secrets().get_opt("shop-db").await?.is_none());
    f.w.end().await
}

/// The files that hold one of these.
fn holding(folder: &Path, values: &[&str]) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(holding(&path, values)?);
            continue;
        }
        // What is only there for a moment is gone by now.
        let bytes = fs::read(&path).unwrap_or_default();
        if values.iter().any(|value| memchr::memmem::find(&bytes, value.as_bytes()).is_some()) {
            found.push(path.display().to_string());
        }
    }
    Ok(found)
}
