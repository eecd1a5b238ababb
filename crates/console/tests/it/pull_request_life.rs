//! The life of pull requests after they were opened, at a git host on loopback: what is read back counts, whatever anybody tells.

use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use plural_testkit::{GitRemote, GitServer, ScmMood, ScmServer, TestDatabase, each_database, eventually};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::api_server::{Answer, Person, TestServer};

each_database!(
    a_webhook_has_the_state_read_back,
    what_is_forged_or_replayed_changes_nothing,
    lost_deliveries_are_caught_up_and_rest_is_cheap,
    it_is_about_what_reads_its_repository,
    it_is_about_a_stack_and_what_reads_it_as_a_further_source,
    one_that_somebody_else_opened_is_recorded_when_it_names_what_reads_it,
    through_the_installations_connection_administrators_merge_what_nobody_asked_for,
    it_is_merged_at_its_head_by_who_may_and_told,
    it_is_closed_and_a_merged_one_is_not,
    a_merge_reaches_what_reads_its_repository,
    a_host_that_cannot_be_read_is_told,
    one_that_is_deleted_there_is_closed,
);

const SECRET: &str = "0123456789abcdef";
const SHORTLY: Duration = Duration::from_mins(1);
const READ: &str = "query ($id: ID!) { pullRequest(id: $id) {
  id status title head base draft fork mergeCommit labels author readAt readError updatedAt
  checks { state passed failed pending incomplete } reviews { approved changesRequested }
  service { name } stack { name } cluster { name }
} }";
const MERGE: &str = "mutation ($id: ID!, $head: String, $method: PrMergeMethod) {
  mergePullRequest(id: $id, head: $head, method: $method) { id status mergeCommit head } }";
const CLOSE: &str = "mutation ($id: ID!) { closePullRequest(id: $id) { id status } }";
const REFRESH: &str = "mutation ($id: ID!) { refreshPullRequest(id: $id) { id status head readError } }";

struct World {
    t: TestServer,
    host: ScmServer,
    connection: Value,
    automation: Value,
    /// Where the host's webhook sends to.
    path: String,
}

impl World {
    async fn new(database: &TestDatabase) -> Self {
        // What is not told of is not fetched while a test runs.
        let t = TestServer::on_with(database, |config| config.poll_seconds = 3_600).await;
        let (host, connection) = t.forge().await;
        let path = hook(&t, &connection).await;
        let mut w = Self { t, host, connection, automation: Value::Null, path };
        w.automation = w.automation("add", "Adds {{ context.name }}.").await;
        w
    }

    async fn automation(&self, name: &str, message: &str) -> Value {
        let automation = json!({
            "name": name, "projectId": self.t.project, "connectionId": self.connection, "identifier": self.host.repository(),
            "title": "Add {{ context.name }}", "message": message, "labels": ["infra"],
            "configuration": [{"name": "name", "type": "STRING"}],
            "creates": {"templates": [
                {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
            ]},
        });
        self.t.admin.pr_automation(&automation).await
    }

    /// Opens one; its record's id.
    async fn open(&self, automation: &Value, name: &str) -> Value {
        let create = "mutation ($id: ID!, $context: Json) { createPullRequest(id: $id, context: $context) { id phase } }";
        let made = self.t.admin.data(create, json!({"id": automation, "context": {"name": name}})).await;
        let made = &made["createPullRequest"];
        assert_eq!(made["phase"], "OPENED", "{made}");
        made["id"].clone()
    }

    async fn tell(&self, body: &Value, secret: &str) -> Answer {
        let body = body.to_string();
        let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap().chain_update(&body).finalize();
        let signature = hex::encode(mac.into_bytes());
        let request = self.t.nobody.http().post(self.t.url(&self.path));
        Answer::of(request.header("x-gitea-signature", signature).body(body).send().await.unwrap()).await
    }

    /// The host tells of a pull request. What it says of it is not looked at.
    async fn told(&self, number: u64) {
        let body = json!({
            "action": "closed", "repository": {"full_name": self.host.repository()},
            "pull_request": {"number": number, "merged": true, "state": "closed", "title": "Forged"},
        });
        let taken = self.tell(&body, SECRET).await;
        assert_eq!((taken.status, &taken.body), (202, &json!({"repositories": 1})), "{taken:?}");
    }

    async fn read(&self, id: &Value) -> Value {
        read(&self.t.admin, id).await
    }

    /// Once it is so.
    async fn until(&self, id: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(SHORTLY, async || {
            let now = self.read(id).await;
            if is_so(&now) { Ok(now) } else { Err(now.to_string()) }
        })
        .await
    }

    /// A service of the default project that reads the host's repository.
    async fn service(&self, cluster: &str, name: &str) {
        let cluster = self.t.admin.cluster(cluster).await;
        let url = format!("{}/{}.git", self.host.api_url().trim_end_matches("/api"), self.host.repository());
        let repository = self.t.admin.repository(&url).await;
        self.t.admin.service(&cluster, &repository, name).await;
    }
}

/// Where the host sends what the webhook of a connection is told.
async fn hook(t: &TestServer, connection: &Value) -> String {
    let create =
        "mutation ($a: ScmWebhookAttributes!) { createScmWebhookPointer(attributes: $a) { externalId } }";
    let hook = json!({"connectionId": connection, "type": "GITEA", "owner": "plural", "hmac": SECRET});
    let hook = t.admin.data(create, json!({"a": hook})).await["createScmWebhookPointer"].clone();
    format!("/ext/v1/webhooks/gitea/{}", hook["externalId"].as_str().unwrap())
}

async fn read(by: &Person, id: &Value) -> Value {
    by.data(READ, json!({"id": id})).await["pullRequest"].clone()
}

async fn a_webhook_has_the_state_read_back(database: TestDatabase) {
    let w = World::new(&database).await;
    let id = w.open(&w.automation, "shop").await;
    // Once it is open, without being told of.
    let now = w.until(&id, |now| now["readAt"].is_string()).await;
    assert_eq!((&now["status"], &now["title"]), (&json!("OPEN"), &json!("Add shop")), "{now}");
    assert_eq!((&now["base"], &now["labels"]), (&json!("main"), &json!(["infra"])));
    assert_eq!((&now["draft"], &now["fork"]), (&json!(false), &json!(false)));
    assert_eq!(
        now["checks"],
        json!({"state": "NONE", "passed": 0, "failed": 0, "pending": 0, "incomplete": false})
    );
    assert_eq!(now["reviews"], json!({"approved": 0, "changesRequested": 0}));
    let head = now["head"].as_str().unwrap().to_owned();
    assert_eq!(head.len(), 40, "{now}");

    // A check names the commit alone.
    w.host.report(&head, "build", "success");
    w.host.report(&head, "tests", "failure");
    w.host.review_by_another(1, "APPROVED");
    let status = json!({"repository": {"full_name": w.host.repository()}, "sha": head, "state": "success"});
    assert_eq!(w.tell(&status, SECRET).await.status, 202);
    let now = w.until(&id, |now| now["checks"]["state"] == "FAILED").await;
    assert_eq!(
        now["checks"],
        json!({"state": "FAILED", "passed": 1, "failed": 1, "pending": 0, "incomplete": false})
    );
    assert_eq!(now["reviews"], json!({"approved": 1, "changesRequested": 0}));

    w.host.close_by_another(1);
    w.told(1).await;
    let now = w.until(&id, |now| now["status"] == "CLOSED").await;
    assert_eq!((&now["mergeCommit"], &now["head"]), (&Value::Null, &json!(head)), "{now}");
    w.t.stop().await;
}

async fn what_is_forged_or_replayed_changes_nothing(database: TestDatabase) {
    let w = World::new(&database).await;
    let id = w.open(&w.automation, "shop").await;
    w.told(1).await;
    let before = w.until(&id, |now| now["readAt"].is_string()).await;
    let body = json!({"repository": {"full_name": w.host.repository()}, "pull_request": {"number": 1, "merged": true}});
    assert_eq!(w.tell(&body, "another secret of it").await.status, 401);
    let elsewhere = json!({"repository": {"full_name": "other/fleet"}, "pull_request": {"number": 1}});
    let ignored = w.tell(&elsewhere, SECRET).await;
    assert_eq!((ignored.status, &ignored.body), (202, &json!({"repositories": 0})));
    // The same delivery many times says that it was merged: the host says that it is open.
    for _ in 0..5 {
        w.told(1).await;
    }
    // Nobody has it, and nobody gets a record.
    w.told(99).await;
    let after = w.until(&id, |now| now["readAt"] != before["readAt"]).await;
    for field in ["status", "title", "head", "updatedAt"] {
        assert_eq!(after[field], before[field], "{field}: {after}");
    }
    let all = w.t.admin.data("{ pullRequests { edges { node { id } } } }", json!({})).await;
    assert_eq!(all["pullRequests"]["edges"].as_array().unwrap().len(), 1, "{all}");
    w.t.stop().await;
}

async fn lost_deliveries_are_caught_up_and_rest_is_cheap(database: TestDatabase) {
    let w = World::new(&database).await;
    let (one, other) = (w.open(&w.automation, "shop").await, w.open(&w.automation, "web").await);
    for id in [&one, &other] {
        w.until(id, |now| now["readAt"].is_string()).await;
    }
    w.host.close_by_another(1);
    let app = w.t.console.app();
    // As the loop does it, which waits for half a minute before its first pass: nothing else is told.
    assert!(app.pull_requests_tend().await.unwrap() <= 1, "one repository is listed");
    assert_eq!(w.until(&one, |now| now["status"] == "CLOSED").await["title"], "Add shop");
    let read = w.read(&other).await;
    // What was listed is not listed again at once, and what is as it was is not read again.
    assert_eq!(app.pull_requests_tend().await.unwrap(), 0);
    w.t.sql("UPDATE pull_requests SET polled_at = NULL").await;
    app.pull_requests_tend().await.unwrap();
    assert_eq!(w.read(&other).await["readAt"], read["readAt"]);
    // Checks are in no list: it is read once it was not for an hour.
    w.t.sql("UPDATE pull_requests SET polled_at = NULL, read_at = '2001-01-01T00:00:00+00:00'").await;
    app.pull_requests_tend().await.unwrap();
    let again = w.until(&other, |now| now["readAt"].as_str().is_some_and(|at| !at.starts_with("2001"))).await;
    assert_eq!((&again["status"], &again["updatedAt"]), (&json!("OPEN"), &read["updatedAt"]), "{again}");
    // One that was closed here is open again there.
    w.host.reopen_by_another(1);
    w.t.sql("UPDATE pull_requests SET polled_at = NULL").await;
    app.pull_requests_tend().await.unwrap();
    w.until(&one, |now| now["status"] == "OPEN").await;
    // A host that is down is no error of the pass, and changes nothing.
    w.host.set_mood(Some(ScmMood::Failing(500)));
    w.t.sql("UPDATE pull_requests SET polled_at = NULL").await;
    app.pull_requests_tend().await.unwrap();
    let now = w.read(&other).await;
    assert_eq!((&now["status"], &now["readError"]), (&json!("OPEN"), &Value::Null), "{now}");
    // A repository that is gone lists nothing: what is known of it stands, and says why it is old.
    w.host.set_mood(Some(ScmMood::Failing(404)));
    w.t.sql("UPDATE pull_requests SET polled_at = NULL, read_at = '2001-01-01T00:00:00+00:00'").await;
    app.pull_requests_tend().await.unwrap();
    let now = w.until(&other, |now| now["readError"].is_string()).await;
    assert_eq!(now["status"], "OPEN", "{now}");
    assert!(now["readError"].as_str().unwrap().contains("is not there"), "{now}");
    w.t.stop().await;
}

async fn it_is_about_what_reads_its_repository(database: TestDatabase) {
    let w = World::new(&database).await;
    w.service("blue", "shop").await;
    w.t.admin.cluster("red").await;
    let says = |text: &str| format!("Adds {{{{ context.name }}}}.\n\n{text}");
    let linked = w.automation("linked", &says("Plural Service: blue/shop\nPlural Cluster: blue")).await;
    let claimed = w.automation("claimed", &says("Plural Service: blue/other\nPlural Cluster: red")).await;
    let (linked, claimed) = (w.open(&linked, "one").await, w.open(&claimed, "two").await);
    w.told(1).await;
    w.told(2).await;
    let now = w.until(&linked, |now| now["service"].is_object()).await;
    assert_eq!((&now["service"]["name"], &now["cluster"]["name"]), (&json!("shop"), &json!("blue")), "{now}");
    let now = w.until(&claimed, |now| now["readAt"].is_string()).await;
    assert_eq!((&now["service"], &now["cluster"]), (&Value::Null, &Value::Null), "{now}");

    let ids = "{ serviceDeployments { edges { node { id cluster { id } } } } }";
    let ids = w.t.admin.data(ids, json!({})).await;
    let service = &ids["serviceDeployments"]["edges"][0]["node"];
    let list =
        "query ($s: ID, $c: ID) { pullRequests(serviceId: $s, clusterId: $c) { edges { node { id } } } }";
    for (variables, expected) in [
        (json!({"s": service["id"]}), vec![&linked]),
        (json!({"c": service["cluster"]["id"]}), vec![&linked]),
        (json!({"s": w.connection}), vec![]),
    ] {
        let found = w.t.admin.data(list, variables.clone()).await;
        let found: Vec<&Value> = found["pullRequests"]["edges"]
            .as_array()
            .unwrap()
            .iter()
            .map(|edge| &edge["node"]["id"])
            .collect();
        assert_eq!(found, expected, "{variables}");
    }
    // Who edits the text may take it back, and may not name what is elsewhere.
    w.host.edit_by_another(1, "Plural Service: red/shop");
    w.told(1).await;
    w.until(&linked, |now| now["service"].is_null() && now["cluster"].is_null()).await;
    w.t.stop().await;
}

async fn it_is_about_a_stack_and_what_reads_it_as_a_further_source(database: TestDatabase) {
    let w = World::new(&database).await;
    let url = format!("{}/{}.git", w.host.api_url().trim_end_matches("/api"), w.host.repository());
    let (ours, other) =
        (w.t.admin.repository(&url).await, w.t.admin.repository("https://git.invalid/acme/other.git").await);
    let cluster = w.t.admin.cluster("green").await;
    let make = "mutation ($id: ID, $a: ServiceDeploymentAttributes!) { createServiceDeployment(clusterId: $id, attributes: $a) { id } }";
    let attributes = json!({
        "name": "further", "namespace": "shop", "repositoryId": other["id"], "git": {"ref": "main", "folder": "web"},
        "sources": [{"path": "values", "repositoryId": ours["id"], "git": {"ref": "main", "folder": "apps"}}],
    });
    let made = w.t.admin.data(make, json!({"id": cluster["id"], "a": attributes})).await;
    let service = made["createServiceDeployment"]["id"].clone();
    let make = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
    let mut stacks = Vec::new();
    for (name, repository) in [("network", &ours), ("elsewhere", &other)] {
        let attributes = json!({
            "name": name, "type": "TERRAFORM", "projectId": w.t.project, "clusterId": cluster["id"],
            "repositoryId": repository["id"], "git": {"ref": "main", "folder": "infra"},
        });
        stacks.push(w.t.admin.data(make, json!({"a": attributes})).await["createStack"]["id"].clone());
    }
    let says = |text: &str| format!("Adds {{{{ context.name }}}}.\n\n{text}");
    let all = "Plural Service: green/further\nPlural Stack: network\nPlural Cluster: green";
    let linked = w.automation("linked", &says(all)).await;
    let claimed = w.automation("claimed", &says("Plural Stack: elsewhere")).await;
    let (linked, claimed) = (w.open(&linked, "one").await, w.open(&claimed, "two").await);
    w.told(1).await;
    w.told(2).await;
    let now = w.until(&linked, |now| now["stack"].is_object()).await;
    let names = [&now["service"]["name"], &now["stack"]["name"], &now["cluster"]["name"]];
    assert_eq!(names, [&json!("further"), &json!("network"), &json!("green")], "{now}");
    let now = w.until(&claimed, |now| now["readAt"].is_string()).await;
    assert_eq!(now["stack"], Value::Null, "{now}");
    let list =
        "query ($s: ID, $k: ID) { pullRequests(serviceId: $s, stackId: $k) { edges { node { id } } } }";
    for (variables, expected) in [
        (json!({"k": stacks[0]}), json!([{"node": {"id": linked}}])),
        (json!({"s": service}), json!([{"node": {"id": linked}}])),
        (json!({"k": stacks[1]}), json!([])),
    ] {
        let found = w.t.admin.data(list, variables.clone()).await;
        assert_eq!(found["pullRequests"]["edges"], expected, "{variables}");
    }
    let list = "query ($r: ID) { serviceDeployments(repositoryId: $r, first: 10) { edges { node { id } } } }";
    let reading = w.t.admin.data(list, json!({"r": ours["id"]})).await;
    assert_eq!(reading["serviceDeployments"]["edges"], json!([{"node": {"id": service}}]));
    // Whoever edits the text may not name a stack of another repository.
    w.host.edit_by_another(1, "Plural Stack: elsewhere");
    w.told(1).await;
    w.until(&linked, |now| now["stack"].is_null() && now["service"].is_null()).await;
    w.t.stop().await;
}

async fn one_that_somebody_else_opened_is_recorded_when_it_names_what_reads_it(database: TestDatabase) {
    let w = World::new(&database).await;
    w.service("blue", "shop").await;
    w.host.push("by-hand", "apps/web/values.yaml", "replicas: 3\n");
    let nameless = w.host.open_by_another("Scale it", "Please", "by-hand");
    w.told(nameless).await;
    w.host.push("other", "apps/web/values.yaml", "replicas: 4\n");
    let named = w.host.open_by_another("Scale it", "Plural Service: blue/shop", "other");
    // Twice is once.
    w.told(named).await;
    w.told(named).await;
    let list =
        "{ pullRequests { edges { node { id title status head automation { id } service { name } } } } }";
    let edges = eventually(SHORTLY, async || {
        let all = w.t.admin.data(list, json!({})).await;
        let edges = all["pullRequests"]["edges"].as_array().unwrap().clone();
        if edges.is_empty() { Err(all.to_string()) } else { Ok(edges) }
    })
    .await;
    assert_eq!(edges.len(), 1, "{edges:?}");
    let node = &edges[0]["node"];
    assert_eq!((&node["title"], &node["status"]), (&json!("Scale it"), &json!("OPEN")), "{node}");
    assert_eq!((&node["automation"], &node["service"]["name"]), (&Value::Null, &json!("shop")));
    assert!(node["head"].is_string(), "{node}");
    // A delivery that was lost is caught up as long as the repository is listed; twice is once.
    w.host.push("third", "apps/web/values.yaml", "replicas: 5\n");
    w.host.open_by_another("Scale it again", "Plural Service: blue/shop", "third");
    for _ in 0..2 {
        w.t.sql("UPDATE pull_requests SET polled_at = NULL").await;
        w.t.console.app().pull_requests_tend().await.unwrap();
    }
    // The console's own pass may have been faster, and not be done.
    let edges = eventually(SHORTLY, async || {
        let all = w.t.admin.data(list, json!({})).await;
        let edges = all["pullRequests"]["edges"].as_array().unwrap().clone();
        if edges.len() > 1 { Ok(edges) } else { Err(all.to_string()) }
    })
    .await;
    assert_eq!(edges.len(), 2, "{edges:?}");
    // Strangers to the project do not see it.
    let of_stranger = w.t.stranger.data(list, json!({})).await;
    assert_eq!(of_stranger["pullRequests"]["edges"], json!([]));
    // The connection is of their project: whoever may write that acts with it.
    let closed = w.t.owner.data(CLOSE, json!({"id": node["id"]})).await;
    assert_eq!(closed["closePullRequest"]["status"], "CLOSED", "{closed}");
    w.t.stop().await;
}

/// Whoever may write a project whose service reads a repository could have anything merged into that: a line of the text is all it takes.
async fn through_the_installations_connection_administrators_merge_what_nobody_asked_for(
    database: TestDatabase,
) {
    let mut w = World::new(&database).await;
    let of_all = json!({
        "name": "everywhere", "type": "GITEA", "apiUrl": w.host.api_url(), "token": w.host.token(),
        "repositories": ["plural/*"],
    });
    let connection = w.t.admin.scm_connection(&of_all).await;
    w.path = hook(&w.t, &connection).await;
    w.service("blue", "shop").await;
    w.host.push("by-hand", "apps/web.yaml", "replicas: 3\n");
    let number = w.host.open_by_another("Scale it", "Plural Service: blue/shop", "by-hand");
    w.told(number).await;
    let opened = eventually(SHORTLY, async || {
        let all = w.t.owner.data("{ pullRequests { edges { node { id head } } } }", json!({})).await;
        let first = all["pullRequests"]["edges"][0]["node"].clone();
        if first.is_null() { Err(all.to_string()) } else { Ok(first) }
    })
    .await;
    for document in [MERGE, CLOSE] {
        let refused = w.t.owner.ask(document, json!({"id": opened["id"]})).await;
        assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
        assert!(refused.message().contains("of the whole installation"), "{refused:?}");
    }
    assert_eq!(w.host.file("main", "apps/web.yaml"), None);
    let merged = w.t.admin.data(MERGE, json!({"id": opened["id"], "head": opened["head"]})).await;
    assert_eq!(merged["mergePullRequest"]["status"], "MERGED", "{merged}");
    assert_eq!(w.host.file("main", "apps/web.yaml").as_deref(), Some("replicas: 3\n"));
    w.t.stop().await;
}

async fn it_is_merged_at_its_head_by_who_may_and_told(database: TestDatabase) {
    let w = World::new(&database).await;
    let id = w.open(&w.automation, "shop").await;
    let read = w.t.admin.data(REFRESH, json!({"id": id})).await["refreshPullRequest"].clone();
    assert_eq!((&read["status"], &read["readError"]), (&json!("OPEN"), &Value::Null), "{read}");
    for (person, outcome) in [(&w.t.nobody, "401"), (&w.t.stranger, "NOT_FOUND"), (&w.t.reader, "FORBIDDEN")]
    {
        for document in [MERGE, CLOSE, REFRESH] {
            let refused = person.ask(document, json!({"id": id})).await;
            assert_eq!(refused.outcome(), outcome, "{document}: {refused:?}");
        }
    }
    let odd = w.t.admin.ask(MERGE, json!({"id": id, "head": "main"})).await;
    assert_eq!(odd.outcome(), "INVALID", "{odd:?}");
    // Commits that came meanwhile are not merged unseen.
    let branch = w.host.branches().into_iter().find(|branch| branch != "main").unwrap();
    w.host.push(&branch, "apps/evil.yaml", "evil: true\n");
    let moved = w.t.admin.ask(MERGE, json!({"id": id, "head": read["head"]})).await;
    assert_eq!(moved.outcome(), "CONFLICT", "{moved:?}");
    assert_eq!(w.host.file("main", "apps/shop.yaml"), None);
    // Nor is it merged unseen into another branch, which its author had it go to.
    let read = w.t.admin.data(REFRESH, json!({"id": id})).await["refreshPullRequest"].clone();
    w.host.push("production", "apps/web.yaml", "name: web\n");
    w.host.retarget_by_another(1, "production");
    let moved = w.t.admin.ask(MERGE, json!({"id": id, "head": read["head"]})).await;
    assert_eq!(moved.outcome(), "CONFLICT", "{moved:?}");
    assert!(moved.body.to_string().contains("it goes to production now"), "{moved:?}");
    assert_eq!(w.host.file("production", "apps/shop.yaml"), None);
    w.host.retarget_by_another(1, "main");
    let read = w.t.admin.data(REFRESH, json!({"id": id})).await["refreshPullRequest"].clone();
    let merged = w.t.owner.data(MERGE, json!({"id": id, "head": read["head"], "method": "SQUASH"})).await;
    let merged = &merged["mergePullRequest"];
    assert_eq!(merged["status"], "MERGED", "{merged}");
    assert!(merged["mergeCommit"].is_string(), "{merged}");
    assert_eq!(w.host.file("main", "apps/shop.yaml").as_deref(), Some("name: shop\n"));
    // Once more is the same.
    let again = w.t.owner.data(MERGE, json!({"id": id, "head": read["head"]})).await;
    assert_eq!(again["mergePullRequest"]["status"], "MERGED", "{again}");
    let audits = "{ audits(first: 100) { edges { node { action actor { email } } } } }";
    let audits = w.t.admin.data(audits, json!({})).await.to_string();
    for action in ["pullRequest.merge", "pullRequest.refresh"] {
        assert!(audits.contains(action), "{action}: {audits}");
    }
    w.t.stop().await;
}

async fn it_is_closed_and_a_merged_one_is_not(database: TestDatabase) {
    let w = World::new(&database).await;
    let (id, other) = (w.open(&w.automation, "shop").await, w.open(&w.automation, "web").await);
    let closed = w.t.owner.data(CLOSE, json!({"id": id})).await;
    assert_eq!(closed["closePullRequest"]["status"], "CLOSED", "{closed}");
    let merge = w.t.owner.ask(MERGE, json!({"id": id})).await;
    assert_eq!(merge.outcome(), "CONFLICT", "{merge:?}");
    let read = w.t.owner.data(REFRESH, json!({"id": other})).await["refreshPullRequest"].clone();
    w.t.owner.data(MERGE, json!({"id": other, "head": read["head"]})).await;
    let refused = w.t.owner.ask(CLOSE, json!({"id": other})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert_eq!(w.read(&other).await["status"], "MERGED");
    w.t.stop().await;
}

async fn a_merge_reaches_what_reads_its_repository(database: TestDatabase) {
    let w = World::new(&database).await;
    // The same repository as git serves it: at the same host, where ports make no difference.
    let remote = GitRemote::named(&format!("{}.git", w.host.repository())).unwrap();
    let manifest = |value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: shop}}\ndata: {{value: {value}}}\n")
    };
    let first = remote.push_files([("web/shop.yaml", manifest("one"))]).unwrap();
    let server = GitServer::start(remote.root()).unwrap();
    let cluster = w.t.admin.cluster("blue").await;
    let repository = w.t.admin.repository(&server.url(&remote)).await;
    let service = w.t.admin.service(&cluster, &repository, "shop").await;
    let at = async |sha: &str| {
        let query = "query ($id: ID!) { serviceDeployment(id: $id) { sha } }";
        eventually(SHORTLY, async || {
            let now = w.t.admin.data(query, json!({"id": service["id"]})).await;
            if now["serviceDeployment"]["sha"] == sha { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
    };
    at(&first).await;
    let id = w.open(&w.automation, "shop").await;
    let second = remote.push_files([("web/shop.yaml", manifest("two"))]).unwrap();
    let read = w.t.admin.data(REFRESH, json!({"id": id})).await["refreshPullRequest"].clone();
    w.t.admin.data(MERGE, json!({"id": id, "head": read["head"]})).await;
    at(&second).await;
    w.t.stop().await;
}

async fn a_host_that_cannot_be_read_is_told(database: TestDatabase) {
    let w = World::new(&database).await;
    let id = w.open(&w.automation, "shop").await;
    w.host.set_mood(Some(ScmMood::Failing(401)));
    let read = w.t.admin.data(REFRESH, json!({"id": id})).await["refreshPullRequest"].clone();
    assert!(read["readError"].is_string() && read["status"] == "OPEN", "{read}");
    assert!(!read.to_string().contains(&w.host.token()), "{read}");
    w.host.set_mood(Some(ScmMood::Failing(500)));
    let later = w.t.admin.ask(REFRESH, json!({"id": id})).await;
    assert!(!later.body.to_string().contains(&w.host.token()), "{later:?}");
    assert_ne!(later.outcome(), "OK");
    w.host.set_mood(None);
    let read = w.t.admin.data(REFRESH, json!({"id": id})).await["refreshPullRequest"].clone();
    assert_eq!(read["readError"], Value::Null, "{read}");
    // Several readers at a time leave what the host says.
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let (admin, id) = (w.t.admin.clone(), id.clone());
            tokio::spawn(async move { admin.data(REFRESH, json!({"id": id})).await })
        })
        .collect();
    w.host.close_by_another(1);
    for reader in readers {
        reader.await.unwrap();
    }
    w.told(1).await;
    w.until(&id, |now| now["status"] == "CLOSED").await;
    w.t.stop().await;
}

async fn one_that_is_deleted_there_is_closed(database: TestDatabase) {
    let w = World::new(&database).await;
    let id = w.open(&w.automation, "shop").await;
    w.until(&id, |now| now["readAt"].is_string()).await;
    w.t.sql("UPDATE pull_requests SET url = REPLACE(url, '/pulls/1', '/pulls/99')").await;
    let refresh = async || w.t.admin.data(REFRESH, json!({"id": id})).await["refreshPullRequest"].clone();
    // A host may not know yet what was opened a moment ago.
    let read = refresh().await;
    assert!(read["status"] == "OPEN" && read["readError"].is_string(), "{read}");
    w.t.sql("UPDATE pull_requests SET created_at = '2001-01-01T00:00:00+00:00'").await;
    let read = refresh().await;
    assert_eq!((&read["status"], &read["readError"]), (&json!("CLOSED"), &Value::Null), "{read}");
    // Nothing waits for its merge.
    let ledger = w.t.admin.data("{ prInstances(first: 5) { edges { node { state } } } }", json!({})).await;
    assert_eq!(ledger["prInstances"]["edges"][0]["node"]["state"], "ABANDONED", "{ledger}");
    w.t.stop().await;
}
