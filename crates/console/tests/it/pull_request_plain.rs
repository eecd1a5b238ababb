//! Branches that automations make in repositories of plain git, served by git itself: what people do with git is what their records say.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _, process::Command, time::Duration};

use plural_testkit::{GitRemote, GitServer, TestDatabase, each_database, eventually};
use serde_json::{Value, json};

use crate::api_server::{Answer, Person, TestServer, begun_again};

each_database!(
    a_branch_is_made_and_followed_until_it_is_merged,
    a_branch_that_is_gone_is_closed_and_a_squash_is_a_merge,
    a_push_that_is_not_answered_is_found,
    branches_of_a_repository_share_a_fetch,
    what_plain_git_does_not_have_is_refused,
);

const TOKEN: &str = "s3cr3t-t0ken";
/// One attempt that failed, and the next one.
const RETRIED: Duration = Duration::from_mins(2);
const FIELDS: &str =
    "id phase status error url number title ref repository labels commit head base mergeCommit readError";

struct World {
    t: TestServer,
    remote: GitRemote,
    git: GitServer,
    connection: Value,
    automation: Value,
}

impl World {
    async fn new(t: TestServer) -> Self {
        let remote = GitRemote::named("plural/fleet.git").unwrap();
        remote
            .push_files([("templates/app.yaml", "name: {{ context.name }}\n"), ("README.md", "# Fleet\n")])
            .unwrap();
        let git = GitServer::start(remote.root()).unwrap();
        git.require("git", TOKEN);
        let connection = json!({
            "name": "plain", "type": "PLAIN", "projectId": t.project, "baseUrl": format!("http://{}", git.address()),
            "username": "git", "token": TOKEN, "repositories": ["plural/*"],
        });
        let connection = t.admin.scm_connection(&connection).await;
        let automation = json!({
            "name": "app", "projectId": t.project, "connectionId": connection, "identifier": "plural/fleet.git",
            "title": "Add {{ context.name }}", "message": "Adds it.", "labels": ["infra"],
            "configuration": [{"name": "name", "type": "STRING"}],
            "creates": {"templates": [
                {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
            ]},
        });
        let automation = t.admin.pr_automation(&automation).await;
        Self { t, remote, git, connection, automation }
    }

    async fn on(database: &TestDatabase) -> Self {
        // What is not asked for is not fetched while a test runs.
        Self::new(TestServer::on_with(database, |config| config.poll_seconds = 3_600).await).await
    }

    /// Has a branch of this name made that adds a file of this name.
    async fn ask(&self, name: &str) -> Answer {
        let create = format!(
            "mutation ($id: ID!, $branch: String, $context: Json) {{
              createPullRequest(id: $id, branch: $branch, context: $context, wait: true) {{ {FIELDS} }}
            }}"
        );
        let variables = json!({"id": self.automation, "branch": name, "context": {"name": name}});
        self.t.admin.ask(&create, variables).await
    }

    async fn make(&self, name: &str) -> Value {
        let made = self.ask(name).await;
        assert_eq!(made.outcome(), "OK", "{made:?}");
        made.body["data"]["createPullRequest"].clone()
    }

    /// What is recorded once it was looked at.
    async fn refresh(&self, id: &Value) -> Value {
        let refresh = format!("mutation ($id: ID!) {{ refreshPullRequest(id: $id) {{ {FIELDS} }} }}");
        self.t.admin.data(&refresh, json!({"id": id})).await["refreshPullRequest"].clone()
    }
}

async fn read(by: &Person, id: &Value) -> Value {
    let read = format!("query ($id: ID!) {{ pullRequest(id: $id) {{ {FIELDS} }} }}");
    by.data(&read, json!({"id": id})).await["pullRequest"].clone()
}

async fn a_branch_is_made_and_followed_until_it_is_merged(database: TestDatabase) {
    let w = World::on(&database).await;
    let main = w.remote.resolve("refs/heads/main").unwrap();
    let made = w.make("shop").await;
    assert_eq!((&made["phase"], &made["status"]), (&json!("OPENED"), &json!("OPEN")), "{made}");
    assert_eq!((&made["url"], &made["number"], &made["error"]), (&json!(""), &Value::Null, &Value::Null));
    assert_eq!((&made["ref"], &made["base"]), (&json!("shop"), &json!("main")), "{made}");
    assert_eq!((&made["title"], &made["labels"]), (&json!("Add shop"), &json!([])), "{made}");
    let commit = w.remote.resolve("refs/heads/shop").unwrap();
    assert_eq!((&made["commit"], &made["head"]), (&json!(commit), &json!(commit)), "{made}");
    // One commit on top of the base, with the file.
    assert_eq!(w.remote.resolve("refs/heads/shop^").unwrap(), main);
    let files = w.remote.files(&commit).unwrap();
    let file = files.iter().find(|(path, _, _)| path == "apps/shop.yaml").unwrap();
    assert_eq!(String::from_utf8_lossy(&file.1), "name: shop\n");

    // Somebody goes on with it.
    let more = w.remote.commit("shop").file("more.yaml", "a: 1\n").push().unwrap();
    let now = w.refresh(&made["id"]).await;
    assert_eq!((&now["status"], &now["head"]), (&json!("OPEN"), &json!(more)), "{now}");
    assert_eq!((&now["commit"], &now["readError"]), (&json!(commit), &Value::Null), "{now}");
    // Whoever has the repository merges it: the poll sees so.
    w.remote.set_ref("refs/heads/main", "refs/heads/shop").unwrap();
    w.t.sql("UPDATE pull_requests SET polled_at = NULL").await;
    let app = w.t.console.app();
    let merged = eventually(RETRIED, async || {
        app.pull_requests_tend().await.unwrap();
        let now = read(&w.t.admin, &made["id"]).await;
        if now["status"] == "MERGED" { Ok(now) } else { Err(now.to_string()) }
    })
    .await;
    assert_eq!(merged["mergeCommit"], json!(more), "{merged}");
    // It stays so when its branch goes.
    w.remote.delete_ref("refs/heads/shop").unwrap();
    assert_eq!(w.refresh(&made["id"]).await["status"], "MERGED");

    // A branch that is there is nobody's to write to.
    w.remote.set_ref("refs/heads/taken", "refs/heads/main").unwrap();
    let refused = w.ask("taken").await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("has a branch taken already"), "{refused:?}");
    assert_eq!(w.remote.resolve("refs/heads/taken").unwrap(), more);
    w.t.stop().await;
}

async fn a_branch_that_is_gone_is_closed_and_a_squash_is_a_merge(database: TestDatabase) {
    let w = World::on(&database).await;
    let (dropped, squashed) = (w.make("dropped").await, w.make("squashed").await);
    w.remote.delete_ref("refs/heads/dropped").unwrap();
    let now = w.refresh(&dropped["id"]).await;
    assert_eq!((&now["status"], &now["mergeCommit"]), (&json!("CLOSED"), &Value::Null), "{now}");
    // The same change in another commit, and the branch is gone before anybody looks.
    let squash = w.remote.push_files([("apps/squashed.yaml", "name: squashed\n")]).unwrap();
    w.remote.delete_ref("refs/heads/squashed").unwrap();
    let now = w.refresh(&squashed["id"]).await;
    assert_eq!((&now["status"], &now["mergeCommit"]), (&json!("MERGED"), &json!(squash)), "{now}");
    // A server that lets nobody in says nothing of a branch: what is known stands, and says why it is old.
    let open = w.make("open").await;
    w.git.require("git", "another");
    let now = w.refresh(&open["id"]).await;
    assert_eq!(now["status"], "OPEN", "{now}");
    let why = now["readError"].as_str().unwrap();
    assert!(!why.is_empty() && !why.contains(TOKEN), "{now}");
    w.git.require("git", TOKEN);
    let now = w.refresh(&open["id"]).await;
    assert_eq!((&now["status"], &now["readError"]), (&json!("OPEN"), &Value::Null), "{now}");
    // Somebody puts another commit in its place, and merges that.
    let amended = w.make("amended").await;
    w.remote.set_ref("refs/heads/amended", "refs/heads/main").unwrap();
    let now = w.refresh(&amended["id"]).await;
    assert_eq!((&now["status"], &now["head"]), (&json!("OPEN"), &amended["commit"]), "{now}");
    let other = w.remote.commit("amended").file("apps/amended.yaml", "name: other\n").push().unwrap();
    let now = w.refresh(&amended["id"]).await;
    assert_eq!((&now["status"], &now["head"]), (&json!("OPEN"), &json!(other)), "{now}");
    w.remote.set_ref("refs/heads/main", "refs/heads/amended").unwrap();
    w.remote.delete_ref("refs/heads/amended").unwrap();
    assert_eq!(w.refresh(&amended["id"]).await["status"], "MERGED");
    w.t.stop().await;
}

async fn a_push_that_is_not_answered_is_found(database: TestDatabase) {
    let w = World::on(&database).await;
    let main = w.remote.resolve("refs/heads/main").unwrap();
    // The branch is there when the hook runs, and whoever pushed does not hear so.
    let hook = w.remote.path().join("hooks/post-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nkill -9 $PPID\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let made = w.make("shop").await;
    assert_eq!((&made["phase"], &made["error"]), (&json!("OPENED"), &Value::Null), "{made}");
    let commit = w.remote.resolve("refs/heads/shop").unwrap();
    assert_eq!(made["commit"], json!(commit), "{made}");
    assert_eq!(w.remote.resolve("refs/heads/shop^").unwrap(), main);
    w.t.stop().await;
}

async fn branches_of_a_repository_share_a_fetch(database: TestDatabase) {
    const BRANCHES: u64 = 8;
    let w = World::on(&database).await;
    let mut made = Vec::new();
    for branch in 0..BRANCHES {
        made.push(w.make(&format!("shop-{branch}")).await["id"].clone());
    }
    for branch in 0..BRANCHES {
        w.remote.delete_ref(&format!("refs/heads/shop-{branch}")).unwrap();
    }
    let before = w.git.requests();
    w.t.sql("UPDATE pull_requests SET polled_at = NULL").await;
    let app = w.t.console.app();
    eventually(RETRIED, async || {
        app.pull_requests_tend().await.unwrap();
        for id in &made {
            let now = read(&w.t.admin, id).await;
            if now["status"] != "CLOSED" {
                return Err(now.to_string());
            }
        }
        Ok(())
    })
    .await;
    // A fetch is two requests at least.
    let asked = w.git.requests() - before;
    assert!(asked < 2 * BRANCHES, "{asked} requests for {BRANCHES} branches of one repository");
    w.t.stop().await;
}

async fn what_plain_git_does_not_have_is_refused(database: TestDatabase) {
    let w = World::on(&database).await;
    let made = w.make("shop").await;
    for verb in ["mergePullRequest", "closePullRequest"] {
        let ask = format!("mutation ($id: ID!) {{ {verb}(id: $id) {{ id }} }}");
        let refused = w.t.admin.ask(&ask, json!({"id": made["id"]})).await;
        assert_eq!(refused.outcome(), "CONFLICT", "{verb}: {refused:?}");
        let why = refused.message();
        assert!(why.contains("plain git has no pull requests, and shop is a branch there"), "{why}");
        assert!(why.contains("merge it into main"), "{why}");
    }
    assert_eq!(w.remote.resolve("refs/heads/shop").unwrap(), made["commit"].as_str().unwrap());
    assert_eq!(w.refresh(&made["id"]).await["status"], "OPEN");
    // A repository that the connection may not touch is told before anything is sent.
    let create = "mutation ($id: ID!, $identifier: String, $context: Json) {
      createPullRequest(id: $id, identifier: $identifier, context: $context) { id } }";
    let variables = json!({"id": w.automation, "identifier": "evil/fleet.git", "context": {"name": "web"}});
    let refused = w.t.admin.ask(create, variables).await;
    assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
    // Nothing holds up a merge there, so nothing is said to be confirmed.
    let forge = json!({
        "name": "forge", "type": "GITEA", "projectId": w.t.project, "apiUrl": "https://git.example.com/api/v1",
        "token": TOKEN, "repositories": ["plural/*"],
    });
    let forge = w.t.admin.scm_connection(&forge).await;
    let governance = json!({
        "type": "WEBHOOK", "name": "board", "connectionId": forge,
        "configuration": {"webhook": {"url": "https://board.example.com", "secret": "0123456789abcdef-of-governance"}},
    });
    let upsert = "mutation ($a: PrGovernanceAttributes!) { upsertPrGovernance(attributes: $a) { id } }";
    let governance =
        w.t.admin.data(upsert, json!({"a": governance})).await["upsertPrGovernance"]["id"].clone();
    let bind = "mutation ($id: ID!, $a: PrAutomationAttributes!) { updatePrAutomation(id: $id, attributes: $a) { id } }";
    w.t.admin.data(bind, json!({"id": w.automation, "a": {"governanceId": governance}})).await;
    let refused = w.ask("governed").await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("take the governance off the automation"), "{refused:?}");
    assert!(w.remote.resolve("refs/heads/governed").is_err(), "and nothing is made");
    // A token belongs to a user.
    let update = "mutation ($id: ID!, $a: ScmConnectionAttributes!) { updateScmConnection(id: $id, attributes: $a) { id } }";
    let attributes = json!({"name": "plain", "type": "PLAIN", "username": ""});
    let refused = w.t.admin.ask(update, json!({"id": w.connection, "a": attributes})).await;
    assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
    assert_eq!(refused.body["errors"][0]["extensions"]["field"], "attributes.username", "{refused:?}");
    w.t.stop().await;
}

/// A console that ends after the server took its push, and before it heard so. SQLite alone: the steps are the same on both databases.
#[tokio::test]
async fn a_console_that_is_killed_after_its_push_makes_one_branch() {
    let World { t, remote, git: _git, automation, connection: _ } =
        World::new(TestServer::start().await).await;
    let TestServer { console, folder, admin, .. } = t;
    let data = folder.path().join("data");
    // The server's hook runs once the branch is there, and ends when somebody writes to the pipe.
    let (pipe, reached) = (remote.root().join("pipe"), remote.root().join("reached"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let hook = remote.path().join("hooks/post-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    let script =
        format!("#!/bin/sh\nexec 3<>'{}'\n: > '{}'\nread -r line <&3\n", pipe.display(), reached.display());
    fs::write(&hook, script).unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();

    let create = "mutation ($id: ID!, $context: Json) { createPullRequest(id: $id, context: $context, wait: false) { id } }";
    let begun = admin.data(create, json!({"id": automation, "context": {"name": "shop"}})).await;
    let id = begun["createPullRequest"]["id"].clone();
    eventually(RETRIED, async || if reached.exists() { Ok(()) } else { Err("nothing is pushed".to_owned()) })
        .await;
    console.kill().await;
    fs::remove_file(&hook).unwrap();
    // Open for both, it waits for nobody.
    let mut pipe = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    pipe.write_all(b"on\n").unwrap();
    drop(pipe);
    let branches = || remote.git(["for-each-ref", "--format=%(refname)", "refs/heads"]).unwrap();
    let before = branches();
    assert_eq!(before.lines().count(), 2, "{before}");

    let (console, person) = begun_again(&data, &admin).await;
    let now = eventually(RETRIED, async || {
        let now = read(&person, &id).await;
        if now["phase"] == "OPENED" { Ok(now) } else { Err(now.to_string()) }
    })
    .await;
    assert_eq!(branches(), before, "{now}");
    let branch = now["ref"].as_str().unwrap();
    assert_eq!(remote.resolve(&format!("refs/heads/{branch}")).unwrap(), now["commit"].as_str().unwrap());
    assert_eq!(remote.resolve(&format!("refs/heads/{branch}^")).unwrap(), remote.resolve("main").unwrap());
    console.stop().await.unwrap();
}
