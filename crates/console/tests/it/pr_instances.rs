//! What pull requests of automations generated, at a git host on loopback: made, upgraded with what people changed since, taken away.
//!
//! SQLite alone: what is recorded in which step is the same on both databases, and the store's own tests ask both.

use std::time::Duration;

use plural_core::access::Actor;
use plural_core::pull_request::{HostPullRequest, PrStatus};
use plural_testkit::{GitRemote, ScmDialect, ScmServer, WebFolder, eventually};
use serde_json::{Value, json};

use crate::api_server::{Answer, Person, TestServer, begun_again};
use crate::pull_requests::chart;

const CREATE: &str = "mutation ($id: ID!, $context: Json) {
  createPullRequest(id: $id, context: $context) { id phase url title ref repository }
}";
const UPGRADE: &str = "mutation ($id: ID!, $context: Json, $conflicts: Boolean, $once: String) {
  upgradePrInstance(id: $id, context: $context, allowConflicts: $conflicts, idempotencyKey: $once) { id phase url title ref repository }
}";
const UPGRADE_ALL: &str = "mutation ($id: ID!, $context: Json) {
  upgradePrInstances(automationId: $id, context: $context) { error instance { id } pullRequest { id phase } }
}";
const PREVIEW: &str = "mutation ($id: ID!, $context: Json, $overwrite: Boolean) {
  previewPrInstanceUpgrade(id: $id, context: $context, overwrite: $overwrite) {
    title message patch warnings conflicts files { path change }
  }
}";
const OVERWRITE: &str = "mutation ($id: ID!) {
  upgradePrInstance(id: $id, overwrite: true) { id phase url title ref repository }
}";
const UNINSTALL: &str = "mutation ($id: ID!, $once: String) {
  uninstallPrInstance(id: $id, idempotencyKey: $once) { id phase url title ref repository }
}";
const PREVIEW_UNINSTALL: &str =
    "mutation ($id: ID!) { previewPrInstanceUninstall(id: $id) { patch warnings files { path change } } }";
const DIFF: &str =
    "mutation ($id: ID!, $context: Json) { diffPrInstance(id: $id, context: $context) { path drift diff } }";
const LIST: &str = "query ($id: ID, $outdated: Boolean) {
  prInstances(automationId: $id, outdated: $outdated) { edges { node {
    id state repository base path revision outdated answers secretAnswers baseCommit files { path digest created }
    pullRequest { id } change { id } automation { id }
  } } }
}";
/// One attempt that failed, and the next one.
const RETRIED: Duration = Duration::from_mins(2);
const SECRET: &str = "s3cr3t-answer-7f3e9b2c";

struct World {
    t: TestServer,
    host: ScmServer,
    automation: Value,
}

impl World {
    async fn new() -> Self {
        let (t, host) = (TestServer::start().await, ScmServer::start(ScmDialect::Gitea).unwrap());
        host.push(
            "main",
            "templates/v1/app.yaml",
            "name: {{ context.name }}\nreplicas: 1\nkind: app\nport: 80\nimage: app\n",
        );
        host.push("main", "apps/index.yaml", "owners:\n  base: ops\n");
        let connection = json!({
            "name": "scm", "type": "GITEA", "projectId": t.project, "apiUrl": host.api_url(), "token": host.token(),
            "repositories": ["plural/*"],
        });
        let connection = t.admin.scm_connection(&connection).await;
        let automation = json!({
            "name": "add-app", "projectId": t.project, "connectionId": connection,
            "identifier": host.repository(), "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
            "configuration": [
                {"name": "name", "type": "STRING", "validation": {"regex": "^[a-z]+$"}},
                {"name": "key", "type": "PASSWORD", "optional": true},
            ],
            "creates": {"templates": [
                {"source": "templates/v1/app.yaml", "destination": "apps/{{ context.name }}/app.yaml", "external": false},
            ]},
            "updates": {"yamlOverlays": [
                {"file": "apps/index.yaml", "yaml": "owners:\n  app: {{ context.name | toJson }}", "templated": true},
            ]},
        });
        let automation = t.admin.pr_automation(&automation).await;
        Self { t, host, automation }
    }

    /// Another version: another template, with another port and one more question.
    async fn next_version(&self) {
        self.host.push(
            "main",
            "templates/v2/app.yaml",
            "name: {{ context.name }}\nreplicas: 1\nkind: app\nport: 8080\nimage: app\nregion: {{ context.region }}\n",
        );
        let change = json!({
            "name": "add-app", "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
            "configuration": [
                {"name": "name", "type": "STRING", "validation": {"regex": "^[a-z]+$"}},
                {"name": "key", "type": "PASSWORD", "optional": true},
                {"name": "region", "type": "STRING"},
            ],
            "creates": {"templates": [
                {"source": "templates/v2/app.yaml", "destination": "apps/{{ context.name }}/app.yaml", "external": false},
            ]},
        });
        self.change(change).await;
    }

    async fn change(&self, change: Value) {
        let update = "mutation ($id: ID!, $a: PrAutomationAttributes!) { updatePrAutomation(id: $id, attributes: $a) { id } }";
        self.t.admin.data(update, json!({"id": self.automation, "a": change})).await;
    }

    /// Another version: its template is that of another repository.
    async fn takes_from(&self, remote: &GitRemote) {
        remote.push_files([("shared/app.yaml", app(80))]).unwrap();
        let repository = self.t.admin.repository(&remote.path().display().to_string()).await;
        self.change(json!({
            "name": "add-app", "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
            "repositoryId": repository["id"], "git": {"ref": "main", "folder": "shared"},
            "creates": {"templates": [
                {"source": "app.yaml", "destination": "apps/{{ context.name }}/app.yaml", "external": true},
            ]},
        }))
        .await;
    }

    /// The patch of an upgrade, once it says this.
    async fn previews(&self, id: &Value, says: &str) -> String {
        eventually(RETRIED, async || {
            let answer = self.t.admin.ask(PREVIEW, json!({"id": id, "context": {}})).await;
            let patch = answer.body["data"]["previewPrInstanceUpgrade"]["patch"].as_str().unwrap_or_default();
            if patch.contains(says) { Ok(patch.to_owned()) } else { Err(format!("{answer:?}")) }
        })
        .await
    }

    /// As soon as what comes from elsewhere was fetched.
    async fn created(&self, context: Value) -> Value {
        let answer = eventually(RETRIED, async || {
            let asked = json!({"id": self.automation, "context": context});
            let answer = self.t.admin.ask(CREATE, asked).await;
            if answer.outcome() == "OK" { Ok(answer) } else { Err(format!("{answer:?}")) }
        })
        .await;
        opened(&answer, "createPullRequest")
    }

    async fn create(&self, context: Value) -> Value {
        let answer = self.t.admin.ask(CREATE, json!({"id": self.automation, "context": context})).await;
        opened(&answer, "createPullRequest")
    }

    /// What a person who merges it does, and what the console hears of it.
    async fn merge(&self, opened: &Value, paths: &[&str]) {
        let branch = opened["ref"].as_str().unwrap();
        for path in paths {
            let text = self.host.file(branch, path).unwrap_or_else(|| panic!("{path} is not in {branch}"));
            self.host.push("main", path, &text);
        }
        let text = |field: &str| opened[field].as_str().unwrap().to_owned();
        let told = HostPullRequest {
            url: text("url"),
            repository: text("repository"),
            branch: text("ref"),
            title: text("title"),
            status: PrStatus::Merged,
            labels: Vec::new(),
        };
        let app = self.t.console.app();
        let automation = self.automation.as_str().unwrap().parse().unwrap();
        app.pull_request_record(&app.ctx(Actor::System), automation, told).await.unwrap();
    }

    async fn listed(&self, outdated: Option<bool>) -> Vec<Value> {
        let variables = json!({"id": self.automation, "outdated": outdated});
        let found = self.t.admin.data(LIST, variables).await;
        let edges = found["prInstances"]["edges"].as_array().unwrap();
        edges.iter().map(|edge| edge["node"].clone()).collect()
    }

    async fn only(&self) -> Value {
        let mut all = self.listed(None).await;
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    async fn upgrade(&self, by: &Person, id: &Value, context: Value, conflicts: bool) -> Answer {
        by.ask(UPGRADE, json!({"id": id, "context": context, "conflicts": conflicts})).await
    }
}

/// A template of another repository.
fn app(port: u32) -> String {
    format!("name: {{{{ context.name }}}}\nreplicas: 1\nkind: app\nport: {port}\n")
}

fn opened(answer: &Answer, field: &str) -> Value {
    assert_eq!(answer.outcome(), "OK", "{answer:?}");
    let made = answer.body["data"][field].clone();
    assert_eq!(made["phase"], "OPENED", "{made}");
    made
}

const OWN: &str = "apps/shop/app.yaml";
const INDEX: &str = "apps/index.yaml";

#[tokio::test]
async fn an_upgrade_keeps_what_people_changed_and_is_taken_away_again() {
    let w = World::new().await;
    let made = w.create(json!({"name": "shop"})).await;
    let instance = w.only().await;
    assert_eq!((&instance["state"], &instance["pullRequest"]["id"]), (&json!("PENDING"), &made["id"]));
    assert_eq!((&instance["path"], &instance["revision"]), (&json!("apps/shop"), &json!(1)), "{instance}");
    assert_eq!(instance["answers"], json!({"name": "shop"}));
    let files: Vec<_> = instance["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), file["created"].as_bool().unwrap()))
        .collect();
    assert_eq!(files, [(INDEX, false), (OWN, true)]);
    let id = &instance["id"];
    let early = w.upgrade(&w.t.admin, id, json!({}), false).await;
    assert_eq!(early.outcome(), "CONFLICT", "{early:?}");

    w.merge(&made, &[OWN, INDEX]).await;
    assert_eq!(w.only().await["state"], "ACTIVE");
    assert!(w.listed(Some(true)).await.is_empty());
    let same = w.upgrade(&w.t.admin, id, json!({}), false).await;
    assert!(same.message().contains("is so already"), "{same:?}");

    // People change one line of its own file, and put another one into the shared file.
    w.host.push("main", OWN, "name: shop\nreplicas: 3\nkind: app\nport: 80\nimage: app\n");
    let index = w.host.file("main", INDEX).unwrap();
    w.host.push("main", INDEX, &format!("# by hand\n{index}"));
    let drift = w.t.admin.data(DIFF, json!({"id": id, "context": {}})).await["diffPrInstance"].clone();
    assert_eq!(
        (&drift[0]["path"], &drift[0]["drift"], &drift[1]["path"], &drift[1]["drift"]),
        (&json!(INDEX), &json!("SAME"), &json!(OWN), &json!("CHANGED")),
        "{drift}"
    );
    assert!(drift[1]["diff"].as_str().unwrap().contains("-replicas: 1\n+replicas: 3\n"), "{drift}");

    w.next_version().await;
    assert_eq!(w.listed(Some(true)).await.len(), 1);
    assert_eq!(w.only().await["outdated"], true);
    let unanswered = w.upgrade(&w.t.admin, id, json!({}), false).await;
    assert_eq!(unanswered.outcome(), "INVALID", "{unanswered:?}");
    assert!(unanswered.message().contains("region needs an answer"), "{unanswered:?}");
    let refused = w.upgrade(&w.t.reader, id, json!({"region": "eu"}), false).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    let branches = w.host.branches().len();
    let preview = w.t.admin.data(PREVIEW, json!({"id": id, "context": {"region": "eu"}})).await;
    let preview = &preview["previewPrInstanceUpgrade"];
    assert_eq!(preview["files"], json!([{"path": OWN, "change": "CHANGED"}]), "{preview}");
    let patch = preview["patch"].as_str().unwrap();
    assert!(patch.contains("-port: 80\n+port: 8080\n") && patch.contains("+region: eu\n"), "{patch}");
    assert_eq!(w.host.branches().len(), branches, "nothing is written");

    let upgrade =
        opened(&w.upgrade(&w.t.admin, id, json!({"region": "eu"}), false).await, "upgradePrInstance");
    assert_eq!(upgrade["title"], "Upgrade: Add shop");
    let branch = upgrade["ref"].as_str().unwrap();
    assert_eq!(
        w.host.file(branch, OWN).as_deref(),
        Some("name: shop\nreplicas: 3\nkind: app\nport: 8080\nimage: app\nregion: eu\n"),
        "the new version, with what people changed"
    );
    let again = w.upgrade(&w.t.admin, id, json!({"region": "eu"}), false).await;
    assert!(again.message().contains("is open already"), "{again:?}");
    assert_eq!(w.only().await["change"]["id"], upgrade["id"]);
    w.merge(&upgrade, &[OWN]).await;
    let now = w.only().await;
    assert_eq!((&now["revision"], &now["outdated"]), (&json!(2), &json!(false)), "{now}");
    assert_eq!(now["answers"], json!({"name": "shop", "region": "eu"}));

    let previewed = w.t.admin.data(PREVIEW_UNINSTALL, json!({"id": id})).await;
    let previewed = &previewed["previewPrInstanceUninstall"];
    assert_eq!(previewed["files"], json!([{"path": INDEX, "change": "CHANGED"}]), "{previewed}");
    let warned = previewed["warnings"].to_string();
    assert!(warned.contains("apps/shop/app.yaml: it was changed since"), "{warned}");
    // Without what people changed, its own file goes as well.
    w.host.push("main", OWN, "name: shop\nreplicas: 1\nkind: app\nport: 8080\nimage: app\nregion: eu\n");
    let gone = opened(&w.t.admin.ask(UNINSTALL, json!({"id": id})).await, "uninstallPrInstance");
    let branch = gone["ref"].as_str().unwrap();
    assert_eq!(w.host.file(branch, OWN), None);
    assert_eq!(w.host.file(branch, INDEX).as_deref(), Some("# by hand\nowners:\n  base: ops\n"));
    w.merge(&gone, &[INDEX]).await;
    assert_eq!(w.only().await["state"], "REMOVED");
    w.t.stop().await;
}

#[tokio::test]
async fn a_conflict_is_told_and_comes_between_markers_only_where_that_is_allowed() {
    let w = World::new().await;
    let made = w.create(json!({"name": "shop"})).await;
    w.merge(&made, &[OWN, INDEX]).await;
    let instance = w.only().await;
    let id = &instance["id"];
    w.host.push("main", OWN, "name: shop\nreplicas: 1\nkind: app\nport: 9090\nimage: app\n");
    w.next_version().await;
    let pull_requests = w.host.pull_requests();
    let preview = w.t.admin.data(PREVIEW, json!({"id": id, "context": {"region": "eu"}})).await;
    let preview = &preview["previewPrInstanceUpgrade"];
    let conflict = "apps/shop/app.yaml: both changed the same lines";
    assert!(preview["conflicts"][0].as_str().unwrap().starts_with(conflict), "{preview}");
    assert!(preview["warnings"].to_string().contains(conflict), "{preview}");
    let refused = w.upgrade(&w.t.admin, id, json!({"region": "eu"}), false).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("apps/shop/app.yaml: both changed the same lines"), "{refused:?}");
    assert_eq!(w.host.pull_requests(), pull_requests);

    let upgrade =
        opened(&w.upgrade(&w.t.admin, id, json!({"region": "eu"}), true).await, "upgradePrInstance");
    let text = w.host.file(upgrade["ref"].as_str().unwrap(), OWN).unwrap();
    assert!(
        text.contains("<<<<<<< repository\nport: 9090\n=======\nport: 8080\n>>>>>>> automation\n"),
        "{text}"
    );
    w.t.stop().await;
}

#[tokio::test]
async fn all_instances_of_an_automation_are_upgraded_each_by_its_own_pull_request() {
    let w = World::new().await;
    for name in ["shop", "web"] {
        let made = w.create(json!({"name": name})).await;
        w.merge(&made, &[&format!("apps/{name}/app.yaml"), INDEX]).await;
    }
    w.next_version().await;
    let all = json!({"id": w.automation, "context": {"region": "eu"}});
    let done = w.t.admin.data(UPGRADE_ALL, all.clone()).await["upgradePrInstances"].clone();
    let done = done.as_array().unwrap();
    assert_eq!(done.len(), 2, "{done:?}");
    assert!(
        done.iter().all(|one| one["error"].is_null() && one["pullRequest"]["id"].is_string()),
        "{done:?}"
    );
    assert_ne!(done[0]["pullRequest"]["id"], done[1]["pullRequest"]["id"]);
    let again = w.t.admin.data(UPGRADE_ALL, all).await["upgradePrInstances"].to_string();
    assert!(again.contains("a pull request for the instance is"), "{again}");
    w.t.stop().await;
}

/// Templates of another repository: those of then are compared with those of now, and where it is not known which those of then were, files
/// are overwritten only where somebody says so.
#[tokio::test]
async fn templates_of_another_repository_are_compared_by_their_commits() {
    let w = World::new().await;
    let remote = GitRemote::new().unwrap();
    w.takes_from(&remote).await;
    let made = w.created(json!({"name": "shop"})).await;
    w.merge(&made, &[OWN, INDEX]).await;
    let instance = w.only().await;
    let id = &instance["id"];
    let same = w.upgrade(&w.t.admin, id, json!({}), false).await;
    assert!(same.message().contains("is of the newest version already"), "{same:?}");

    w.host.push("main", OWN, "name: shop\nreplicas: 3\nkind: app\nport: 80\n");
    remote.push_files([("shared/app.yaml", app(8080))]).unwrap();
    let patch = w.previews(id, "-port: 80\n+port: 8080\n").await;
    assert!(!patch.contains("-replicas"), "{patch}");
    let upgrade = opened(&w.upgrade(&w.t.admin, id, json!({}), false).await, "upgradePrInstance");
    let text = w.host.file(upgrade["ref"].as_str().unwrap(), OWN);
    assert_eq!(text.as_deref(), Some("name: shop\nreplicas: 3\nkind: app\nport: 8080\n"));
    w.merge(&upgrade, &[OWN]).await;
    let drift = w.t.admin.data(DIFF, json!({"id": id, "context": {}})).await["diffPrInstance"].to_string();
    assert!(drift.contains("-replicas: 1") && !drift.contains("-port"), "{drift}");

    // As one that was recorded before these were kept.
    w.t.sql("UPDATE pr_instances SET parts = NULL").await;
    let refused = w.upgrade(&w.t.admin, id, json!({}), false).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    for told in ["which of it was not kept", "have the upgrade overwrite its files"] {
        assert!(refused.message().contains(told), "{refused:?}");
    }
    for document in [UNINSTALL, PREVIEW_UNINSTALL, DIFF] {
        let refused = w.t.admin.ask(document, json!({"id": id})).await;
        assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
        assert!(refused.message().contains("Have an upgrade overwrite its files first"), "{refused:?}");
    }
    let pull_requests = w.host.pull_requests();
    let preview = w.t.admin.data(PREVIEW, json!({"id": id, "context": {}, "overwrite": true})).await;
    let preview = &preview["previewPrInstanceUpgrade"];
    assert!(preview["patch"].as_str().unwrap().contains("-replicas: 3\n+replicas: 1\n"), "{preview}");
    assert_eq!(preview["files"], json!([{"path": OWN, "change": "CHANGED"}]), "{preview}");
    assert_eq!(w.host.pull_requests(), pull_requests, "nothing is written");
    let refused = w.t.reader.ask(OVERWRITE, json!({"id": id})).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    let upgrade = opened(&w.t.admin.ask(OVERWRITE, json!({"id": id})).await, "upgradePrInstance");
    let text = w.host.file(upgrade["ref"].as_str().unwrap(), OWN);
    assert_eq!(text.as_deref(), Some("name: shop\nreplicas: 1\nkind: app\nport: 8080\n"));
    w.merge(&upgrade, &[OWN]).await;
    // From now on it is known again.
    let same = w.upgrade(&w.t.admin, id, json!({}), false).await;
    assert!(same.message().contains("is of the newest version already"), "{same:?}");
    w.t.stop().await;
}

/// A chart: what the version of then holds is compared with what the one of now holds.
#[tokio::test]
async fn a_vendored_chart_is_upgraded_with_what_people_changed_in_it() {
    let w = World::new().await;
    let web = WebFolder::start().unwrap();
    let values = |port: u32| format!("replicas: 1\nkind: cache\nport: {port}\n");
    for (version, port) in [("1.2.3", 6379), ("1.3.0", 6380)] {
        web.write(&format!("redis-{version}.tgz"), chart("redis", version, &values(port))).unwrap();
    }
    let index = "apiVersion: v1\nentries:\n  redis:\n  - {name: redis, version: 1.3.0, urls: ['redis-1.3.0.tgz']}\n  - {name: redis, version: 1.2.3, urls: ['redis-1.2.3.tgz']}\n";
    web.write("index.yaml", index).unwrap();
    let vendors = |version: &str| {
        json!({
            "name": "add-app", "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
            "vendor": {"helm": {"url": web.url(""), "chart": "redis", "version": version, "destination": "charts/redis"}},
        })
    };
    let (values_path, chart_path) = ("charts/redis/values.yaml", "charts/redis/Chart.yaml");
    w.change(vendors("1.2.3")).await;
    let made = w.created(json!({"name": "shop"})).await;
    w.merge(&made, &[OWN, INDEX, values_path, chart_path]).await;
    let instance = w.only().await;
    let id = &instance["id"];
    w.host.push("main", values_path, "replicas: 5\nkind: cache\nport: 6379\n");
    w.change(vendors("1.3.0")).await;
    assert_eq!(w.listed(Some(true)).await.len(), 1);
    let upgrade = opened(&w.upgrade(&w.t.admin, id, json!({}), false).await, "upgradePrInstance");
    let branch = upgrade["ref"].as_str().unwrap();
    assert_eq!(
        w.host.file(branch, values_path).as_deref(),
        Some("replicas: 5\nkind: cache\nport: 6380\n"),
        "the new chart, with what people changed"
    );
    assert!(w.host.file(branch, chart_path).unwrap().contains("version: 1.3.0"));
    w.merge(&upgrade, &[values_path, chart_path]).await;
    assert!(w.listed(Some(true)).await.is_empty());
    w.t.stop().await;
}

#[tokio::test]
async fn a_secret_answer_is_kept_nowhere_and_asked_again() {
    let w = World::new().await;
    let made = w.create(json!({"name": "shop", "key": SECRET})).await;
    w.merge(&made, &[OWN, INDEX]).await;
    let instance = w.only().await;
    assert_eq!(instance["secretAnswers"], json!(["key"]));
    assert!(!instance.to_string().contains(SECRET), "{instance}");
    let id = &instance["id"];
    let missing = w.t.admin.ask(DIFF, json!({"id": id, "context": {}})).await;
    assert_eq!(missing.outcome(), "INVALID", "{missing:?}");
    assert!(missing.message().contains("have to be given again: key"), "{missing:?}");
    let drift = w.t.admin.data(DIFF, json!({"id": id, "context": {"key": SECRET}})).await;
    assert!(drift.to_string().contains("SAME") && !drift.to_string().contains(SECRET), "{drift}");
    assert!(!w.host.everything().contains(SECRET));
    w.t.stop().await;
}

/// The console ends before it hears what the host did. Another one takes up the upgrade that was begun: the file that the host has of it.
async fn taken_up(t: TestServer, host: &ScmServer, begun: &Value) -> String {
    let TestServer { console, folder, admin, .. } = t;
    console.kill().await;
    host.hold_after(None);
    let (console, person) = begun_again(&folder.path().join("data"), &admin).await;
    let read = "query ($id: ID!) { pullRequest(id: $id) { phase error } }";
    eventually(RETRIED, async || {
        let now = person.data(read, json!({"id": begun["id"]})).await["pullRequest"].clone();
        if now["phase"] == "OPENED" { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
    assert_eq!(host.pull_requests(), 2, "the first one, and one upgrade");
    let text = host.file(begun["ref"].as_str().unwrap(), OWN).unwrap();
    console.stop().await.unwrap();
    text
}

/// A console that ends when the host opened the pull request, and did not hear so.
#[tokio::test]
async fn an_upgrade_that_a_console_did_not_finish_is_opened_once() {
    let w = World::new().await;
    let made = w.create(json!({"name": "shop"})).await;
    w.merge(&made, &[OWN, INDEX]).await;
    let instance = w.only().await;
    w.next_version().await;
    let World { t, host, automation: _ } = w;
    host.hold_opening();
    let begin = "mutation ($id: ID!, $context: Json) {
      upgradePrInstance(id: $id, context: $context, wait: false) { id ref phase }
    }";
    let begun = t.admin.data(begin, json!({"id": instance["id"], "context": {"region": "eu"}})).await;
    let begun = &begun["upgradePrInstance"];
    assert_eq!(begun["phase"], "PENDING");
    eventually(RETRIED, async || host.is_held()).await;
    let text = taken_up(t, &host, begun).await;
    assert!(text.contains("port: 8080") && text.contains("region: eu"), "{text}");
}

/// The templates change, and the console ends, before the host is heard: what is opened is what was asked for, once.
#[tokio::test]
async fn an_upgrade_takes_the_templates_of_when_it_was_asked() {
    let w = World::new().await;
    let remote = GitRemote::new().unwrap();
    w.takes_from(&remote).await;
    let made = w.created(json!({"name": "shop"})).await;
    w.merge(&made, &[OWN, INDEX]).await;
    let instance = w.only().await;
    remote.push_files([("shared/app.yaml", app(8080))]).unwrap();
    w.previews(&instance["id"], "+port: 8080\n").await;
    let World { t, host, automation: _ } = w;
    host.hold_opening();
    let begin = "mutation ($id: ID!) { upgradePrInstance(id: $id, wait: false) { id ref phase } }";
    let begun = t.admin.data(begin, json!({"id": instance["id"]})).await;
    let begun = &begun["upgradePrInstance"];
    eventually(RETRIED, async || host.is_held()).await;
    remote.push_files([("shared/app.yaml", app(9090))]).unwrap();
    let text = taken_up(t, &host, begun).await;
    assert!(text.contains("port: 8080") && !text.contains("port: 9090"), "{text}");
}
