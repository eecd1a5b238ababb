//! Plans of previews, at a git host on loopback: what an automation would do to services and stacks before there is a pull request. No agent
//! is connected: that, too, is a result. `plural`'s own tests have one.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use plural_app::job::Job as _;
use plural_app::jobs::{BegunFleetPlan, EndFleetPlan, LookFleetPreview};
use plural_core::access::Actor;
use plural_core::fleet_plan::MOST_OWN_PREVIEWS;
use plural_core::pull_request::{HostPullRequest, PrStatus};
use plural_testkit::{
    GitRemote, GitServer, ScmDialect, ScmMood, ScmServer, TestDatabase, each_database, eventually, git_remote,
};
use serde_json::{Value, json};

use crate::api_server::{Answer, Person, TestServer};

const LONG: Duration = Duration::from_mins(1);
const SECRET: &str = "s3cr3t-answer-1b9c4e7d";
const ASK: &str = "mutation ($id: ID!, $context: Json) {
  planPullRequestPreview(id: $id, context: $context) { id phase expiresAt } }";
const PLAN: &str = "query ($id: ID!) { fleetPlan(id: $id) {
  id phase error ref base sha message untouched expiresAt automation { id } stacks { stack { name } run { id number kind trigger sha } problem }
  reach { parts { id name state } } } }";
const PART: &str = "query ($id: ID!) { fleetPlanPart(id: $id) { part { id } } }";
const CREATE: &str = "mutation ($id: ID!, $context: Json) {
  createPullRequest(id: $id, context: $context) { phase url title ref repository } }";
const INSTANCES: &str = "query ($id: ID) { prInstances(automationId: $id) { edges { node { id state } } } }";
const UPGRADE: &str = "mutation ($id: ID!, $overwrite: Boolean) {
  planPrInstanceUpgrade(id: $id, overwrite: $overwrite) { id phase expiresAt } }";
const UNINSTALL: &str = "mutation ($id: ID!) { planPrInstanceUninstall(id: $id) { id phase expiresAt } }";
const LIST: &str = "{ fleetPlans(last: 50) { edges { node { id } } } }";

each_database!(
    a_preview_is_planned_for_whoever_asked,
    a_newer_preview_takes_the_place_of_an_older_one,
    nobody_takes_the_place_of_others,
    code_that_nobody_signed_is_not_run,
    what_cannot_be_previewed_is_told,
    a_look_that_ends_with_its_console_is_taken_up_or_told,
    a_preview_goes_after_its_hour_with_its_artifacts,
    what_was_generated_is_planned_before_it_is_upgraded_or_taken_away,
);

fn map(name: &str, value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata:\n  key: \"{value}\"\n")
}

/// A service whose repository is at a git host.
struct Hosted {
    t: TestServer,
    host: ScmServer,
    remote: GitRemote,
    git: GitServer,
    connection: Value,
    automation: Value,
    cluster: Value,
    repository: Value,
}

impl Hosted {
    async fn new(database: &TestDatabase) -> Self {
        let t = TestServer::on(database).await;
        let host = ScmServer::start(ScmDialect::Gitea).unwrap();
        let remote = GitRemote::named("plural/fleet.git").unwrap();
        let git = GitServer::start(remote.root()).unwrap();
        let connection = json!({
            "name": "host", "type": "GITEA", "projectId": t.project, "apiUrl": host.api_url(), "token": host.token(),
            "repositories": ["plural/*"],
        });
        let connection = t.admin.scm_connection(&connection).await;
        let (automation, cluster, repository) = (Value::Null, Value::Null, Value::Null);
        let mut h = Self { t, host, remote, git, connection, automation, cluster, repository };
        let head = h.push(&[("web/a.yaml", &map("a", "1")), ("infra/main.tf", "# one\n")]);
        h.cluster = h.t.admin.cluster("blue").await;
        h.repository = h.t.admin.repository(&h.git.url(&h.remote)).await;
        let admin = &h.t.admin;
        let service = admin.service(&h.cluster, &h.repository, "web").await;
        eventually(LONG, async || {
            let ask = "query ($id: ID!) { serviceDeployment(id: $id) { sha } }";
            let found = admin.data(ask, json!({"id": service["id"]})).await["serviceDeployment"].clone();
            if found["sha"] == head.as_str() { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
        h.automation = h.automation("add", "templates/b.yaml").await;
        h
    }

    /// A stack of the same repository.
    async fn stack(&self) {
        let stack = json!({
            "name": "infra", "type": "TERRAFORM", "projectId": self.t.project, "clusterId": self.cluster["id"],
            "repositoryId": self.repository["id"], "git": {"ref": "main", "folder": "infra"},
        });
        let create = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
        self.t.admin.data(create, json!({"a": stack})).await;
    }

    /// A commit on `main`, in git and at the host, which has the templates beside it.
    fn push(&self, files: &[(&str, &str)]) -> String {
        let sha = self.remote.push_files(files.iter().copied()).unwrap();
        self.tell(&sha, files);
        sha
    }

    /// The host has this commit, with the templates beside its files.
    fn tell(&self, sha: &str, files: &[(&str, &str)]) {
        let (plain, leaking) = (map("b", "{{ context.name }}"), map("b", "{{ context.key }}"));
        let mut all = files.to_vec();
        all.extend([("templates/b.yaml", plain.as_str()), ("templates/leaks.yaml", leaking.as_str())]);
        self.host.push_commit("main", sha, &all);
    }

    /// The same again, as a commit that is signed with this key.
    fn push_signed(&self, key: &Path, files: &[(&str, &str)]) {
        self.push(files);
        let tree = self.remote.git(["rev-parse", "main^{tree}"]).unwrap();
        let signed = git_remote::git(&self.remote.path())
            .args(["-c", "gpg.format=ssh", "commit-tree", &tree, "-m", "signed", "-p", "main"])
            .arg(format!("-S{}", key.display()))
            .output()
            .unwrap();
        assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
        let sha = String::from_utf8(signed.stdout).unwrap().trim().to_owned();
        self.remote.set_ref("refs/heads/main", &sha).unwrap();
        self.tell(&sha, files);
    }

    /// An automation that makes a file of the service, changes another one of it, and the code of the stack.
    async fn automation(&self, name: &str, template: &str) -> Value {
        let automation = json!({
            "name": name, "title": "Add {{ context.name }}", "message": "Adds it", "projectId": self.t.project,
            "connectionId": self.connection, "identifier": self.host.repository(),
            "configuration": [{"name": "name", "type": "STRING"}, {"name": "key", "type": "PASSWORD", "optional": true}],
            "creates": {"templates": [{"source": template, "destination": "web/{{ context.name }}.yaml", "external": false}]},
            "updates": {"regexReplacements": [
                {"file": "web/a.yaml", "regex": "key: .*", "replacement": "key: \"2\""},
                {"file": "infra/main.tf", "regex": "# .*", "replacement": "# two"},
            ]},
        });
        self.t.admin.pr_automation(&automation).await
    }

    async fn change_automation(&self, attributes: Value) {
        let update = "mutation ($id: ID!, $a: PrAutomationAttributes!) { updatePrAutomation(id: $id, attributes: $a) { id } }";
        self.t.admin.data(update, json!({"id": self.automation, "a": attributes})).await;
    }

    /// What a merged pull request of the automation made: its id in the ledger.
    async fn generated(&self) -> Value {
        let asked = json!({"id": self.automation, "context": {"name": "b"}});
        let opened = self.t.admin.data(CREATE, asked).await["createPullRequest"].clone();
        assert_eq!(opened["phase"], "OPENED", "{opened}");
        self.push(&[
            ("web/a.yaml", &map("a", "2")),
            ("web/b.yaml", &map("b", "b")),
            ("infra/main.tf", "# two\n"),
        ]);
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
        let found = self.t.admin.data(INSTANCES, json!({"id": self.automation})).await;
        let instance = &found["prInstances"]["edges"][0]["node"];
        assert_eq!(instance["state"], "ACTIVE", "{found}");
        instance["id"].clone()
    }

    async fn ask(&self, by: &Person, context: Value) -> Answer {
        by.ask(ASK, json!({"id": self.automation, "context": context})).await
    }

    /// The id of a plan that this person asked for.
    async fn asked(&self, by: &Person) -> Value {
        let answer = self.ask(by, json!({"name": "b"})).await;
        assert_eq!(answer.outcome(), "OK", "{answer:?}");
        let made = answer.body["data"]["planPullRequestPreview"].clone();
        assert!(made["expiresAt"].is_string(), "{made}");
        made["id"].clone()
    }

    /// A plan, once it is in a phase.
    async fn until(&self, by: &Person, id: &Value, phase: &str) -> Value {
        eventually(LONG, async || {
            let plan = by.data(PLAN, json!({"id": id})).await["fleetPlan"].clone();
            if plan["phase"] == phase { Ok(plan) } else { Err(plan.to_string()) }
        })
        .await
    }
}

fn begun(id: &Value) -> BegunFleetPlan {
    BegunFleetPlan::first(id.as_str().unwrap().parse().unwrap())
}

/// Every blob below a folder.
fn blobs(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(here) = folders.pop() {
        for entry in std::fs::read_dir(here).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "zst") {
                found.push(path);
            }
        }
    }
    found
}

async fn a_preview_is_planned_for_whoever_asked(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    h.stack().await;
    let t = &h.t;
    for (by, expected) in [(&t.nobody, "401"), (&t.stranger, "NOT_FOUND"), (&t.reader, "FORBIDDEN")] {
        assert_eq!(h.ask(by, json!({"name": "b"})).await.outcome(), expected);
    }
    let id = h.asked(&t.owner).await;
    let plan = h.until(&t.owner, &id, "DONE").await;
    assert_eq!(plan["reach"]["parts"][0]["state"], "AWAY", "{plan}");
    assert_eq!((&plan["base"], &plan["message"]), (&json!("main"), &json!("Add b")), "{plan}");
    assert_eq!((&plan["automation"]["id"], &plan["untouched"]), (&h.automation, &json!(0)), "{plan}");
    let stack = eventually(LONG, async || {
        let plan = t.owner.data(PLAN, json!({"id": id})).await["fleetPlan"].clone();
        let stack = plan["stacks"][0].clone();
        if stack["run"]["sha"].is_string() { Ok(stack) } else { Err(plan.to_string()) }
    })
    .await;
    assert_eq!((&stack["stack"]["name"], &stack["problem"]), (&json!("infra"), &Value::Null), "{stack}");
    // It plans alone: nothing of it is ever applied, and nothing waits for it.
    assert_eq!(
        (&stack["run"]["kind"], &stack["run"]["trigger"], &stack["run"]["sha"]),
        (&json!("DRY_RUN"), &json!("PULL_REQUEST"), &plan["sha"]),
        "{stack}"
    );
    // Nothing was written: no branch, no pull request, and the branch is where it was.
    assert_eq!((h.host.branches(), h.host.pull_requests()), (vec!["main".to_owned()], 0));
    assert_ne!(plan["sha"], h.remote.resolve("main").unwrap().as_str());

    // Administrators read it. Whoever may read the project, and its services, does not: neither as a whole nor in part.
    let part = plan["reach"]["parts"][0]["id"].clone();
    for (by, expected) in [
        (&t.nobody, "401"),
        (&t.stranger, "NOT_FOUND"),
        (&t.reader, "NOT_FOUND"),
        (&t.owner, "OK"),
        (&t.admin, "OK"),
    ] {
        assert_eq!(by.ask(PLAN, json!({"id": id})).await.outcome(), expected);
        assert_eq!(by.ask(PART, json!({"id": part})).await.outcome(), expected);
    }
    // Whoever may open pull requests with the automation, and look at the project, has no stack planned.
    let attributes = json!({"name": "add", "createBindings": [{"userId": t.reader.id}]});
    h.change_automation(attributes).await;
    let own = h.asked(&t.reader).await;
    let plan = h.until(&t.reader, &own, "DONE").await;
    assert_eq!(plan["reach"]["parts"][0]["state"], "AWAY", "{plan}");
    assert_eq!(
        plan["stacks"],
        json!([{"stack": {"name": "infra"}, "run": null, "problem": "planning it needs write access to the stack"}]),
        "{plan}"
    );
    // It is no plan of a commit.
    for by in [&t.owner, &t.admin] {
        assert_eq!(by.data(LIST, json!({})).await["fleetPlans"]["edges"], json!([]));
    }
}

async fn a_newer_preview_takes_the_place_of_an_older_one(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    // While the host does not answer, nothing is found.
    h.host.set_mood(Some(ScmMood::Failing(500)));
    let (first, other) = (h.asked(&h.t.owner).await, h.asked(&h.t.admin).await);
    let second = h.asked(&h.t.owner).await;
    h.until(&h.t.owner, &first, "SUPERSEDED").await;
    h.until(&h.t.admin, &other, "LOOKING").await;
    h.host.set_mood(None);
    LookFleetPreview::run(h.t.console.app(), begun(&second)).await.unwrap();
    h.until(&h.t.owner, &second, "DONE").await;
    h.until(&h.t.owner, &first, "SUPERSEDED").await;
}

async fn nobody_takes_the_place_of_others(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    h.host.set_mood(Some(ScmMood::Failing(500)));
    let other = h.asked(&h.t.admin).await;
    let first = h.asked(&h.t.owner).await;
    let mut newest = first.clone();
    for _ in 0..MOST_OWN_PREVIEWS {
        newest = h.asked(&h.t.owner).await;
    }
    for (by, id, expected) in
        [(&h.t.owner, &first, "NOT_FOUND"), (&h.t.owner, &newest, "OK"), (&h.t.admin, &other, "OK")]
    {
        assert_eq!(by.ask(PLAN, json!({"id": id})).await.outcome(), expected);
    }
}

async fn code_that_nobody_signed_is_not_run(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    h.stack().await;
    let key = h.t.folder.path().join("signer");
    let mut keygen = Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(&key);
    assert!(keygen.status().unwrap().success());
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    h.push_signed(&key, &[("web/a.yaml", &map("a", "1")), ("infra/main.tf", "# one\n")]);
    let update =
        "mutation ($id: ID!, $a: GitAttributes!) { updateGitRepository(id: $id, attributes: $a) { id } }";
    let verify = json!({"allowedSigners": format!("ada {public}")});
    let attributes = json!({"url": h.git.url(&h.remote), "verify": verify});
    h.t.admin.data(update, json!({"id": h.repository["id"], "a": attributes})).await;
    let id = h.asked(&h.t.owner).await;
    let plan = h.until(&h.t.owner, &id, "DONE").await;
    let stack = &plan["stacks"][0];
    assert_eq!((&stack["stack"]["name"], &stack["run"]), (&json!("infra"), &Value::Null), "{plan}");
    assert!(stack["problem"].as_str().unwrap().contains("takes signed commits alone"), "{plan}");
}

async fn what_cannot_be_previewed_is_told(database: TestDatabase) {
    let mut h = Hosted::new(&database).await;
    let refused = h.ask(&h.t.owner, json!({})).await;
    assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
    // A secret that would lie in a file reaches no artifact, and is told to nobody.
    h.automation = h.automation("leak", "templates/leaks.yaml").await;
    let before = blobs(h.t.folder.path()).len();
    let answer = h.ask(&h.t.owner, json!({"name": "b", "key": SECRET})).await;
    assert_eq!(answer.outcome(), "OK", "{answer:?}");
    let id = answer.body["data"]["planPullRequestPreview"]["id"].clone();
    let plan = h.until(&h.t.owner, &id, "FAILED").await;
    let error = plan["error"].as_str().unwrap();
    assert!(error.contains("the answer to key would be written to web/b.yaml"), "{error}");
    assert!(!plan.to_string().contains(SECRET), "{plan}");
    assert_eq!(blobs(h.t.folder.path()).len(), before, "nothing was built");

    // Nothing changes.
    h.automation = h.automation("none", "templates/b.yaml").await;
    h.push(&[("web/a.yaml", &map("a", "2")), ("web/b.yaml", &map("b", "b")), ("infra/main.tf", "# two\n")]);
    let id = h.asked(&h.t.owner).await;
    let plan = h.until(&h.t.owner, &id, "FAILED").await;
    assert!(plan["error"].as_str().unwrap().contains("nothing changes"), "{plan}");

    // No git repository is the one that it would change.
    let automation = json!({
        "name": "elsewhere", "title": "Add", "message": "Adds it", "projectId": h.t.project,
        "connectionId": h.connection, "identifier": "plural/elsewhere",
    });
    h.automation = h.t.admin.pr_automation(&automation).await;
    let refused = h.ask(&h.t.owner, json!({})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("plural/elsewhere"), "{refused:?}");
}

async fn a_look_that_ends_with_its_console_is_taken_up_or_told(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    h.host.set_mood(Some(ScmMood::Failing(500)));
    let id = h.asked(&h.t.owner).await;
    LookFleetPreview::run(h.t.console.app(), begun(&id)).await.unwrap_err();
    h.until(&h.t.owner, &id, "LOOKING").await;
    h.host.set_mood(None);
    LookFleetPreview::run(h.t.console.app(), begun(&id)).await.unwrap();
    h.until(&h.t.owner, &id, "DONE").await;
    // What was answered is not kept any longer.
    LookFleetPreview::run(h.t.console.app(), begun(&id)).await.unwrap();
    // As if its agent had been asked, and never answered.
    h.t.sql("UPDATE fleet_plan_parts SET state = 'WAITING'").await;
    h.t.sql("UPDATE fleet_plans SET phase = 'ASKED'").await;
    EndFleetPlan::run(h.t.console.app(), begun(&id)).await.unwrap();
    let plan = h.until(&h.t.owner, &id, "DONE").await;
    assert_eq!(plan["reach"]["parts"][0]["state"], "LATE", "{plan}");

    h.host.set_mood(Some(ScmMood::Failing(500)));
    let id = h.asked(&h.t.owner).await;
    LookFleetPreview::died(h.t.console.app(), begun(&id), "the console ended").await.unwrap();
    let plan = h.until(&h.t.owner, &id, "FAILED").await;
    assert!(plan["error"].as_str().unwrap().contains("the console ended"), "{plan}");
}

async fn a_preview_goes_after_its_hour_with_its_artifacts(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    let own = blobs(h.t.folder.path());
    let done = h.asked(&h.t.owner).await;
    h.until(&h.t.owner, &done, "DONE").await;
    // One that nobody looks at any more goes as well.
    h.host.set_mood(Some(ScmMood::Failing(500)));
    let stuck = h.asked(&h.t.admin).await;
    let app = h.t.console.app();
    assert_eq!(app.fleet_previews_forget().await.unwrap(), 0, "they have an hour");

    let built: Vec<PathBuf> =
        blobs(h.t.folder.path()).into_iter().filter(|path| !own.contains(path)).collect();
    assert!(!built.is_empty());
    for path in own.iter().chain(&built) {
        let file = File::options().append(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_hours(2)).unwrap();
    }
    h.t.sql("UPDATE fleet_plans SET expires_at = created_at").await;
    app.fleet_previews_forget().await.unwrap();
    for id in [&done, &stuck] {
        assert_eq!(h.t.admin.ask(PLAN, json!({"id": id})).await.outcome(), "NOT_FOUND");
    }
    eventually(LONG, async || {
        let left: Vec<PathBuf> = built.iter().filter(|path| path.exists()).cloned().collect();
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
    // What the service runs from is there.
    assert!(own.iter().all(|path| path.exists()), "{own:?}");
}

async fn what_was_generated_is_planned_before_it_is_upgraded_or_taken_away(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    h.stack().await;
    let (t, instance) = (&h.t, h.generated().await);
    let made = (h.host.branches(), h.host.pull_requests());
    // The next version's file holds something else.
    h.push(&[("templates/c.yaml", &map("b", "{{ context.name }}-next"))]);
    let next = json!({
        "name": "add", "title": "Add {{ context.name }}", "message": "Adds it",
        "creates": {"templates": [
            {"source": "templates/c.yaml", "destination": "web/{{ context.name }}.yaml", "external": false},
        ]},
    });
    h.change_automation(next).await;
    for (ask, field) in [(UPGRADE, "planPrInstanceUpgrade"), (UNINSTALL, "planPrInstanceUninstall")] {
        for (by, expected) in [(&t.nobody, "401"), (&t.stranger, "NOT_FOUND"), (&t.reader, "FORBIDDEN")] {
            assert_eq!(by.ask(ask, json!({"id": instance})).await.outcome(), expected, "{field}");
        }
    }
    let upgrades = async |overwrite: bool| {
        let made = t.owner.data(UPGRADE, json!({"id": instance, "overwrite": overwrite})).await;
        let made = made["planPrInstanceUpgrade"].clone();
        assert!(made["expiresAt"].is_string(), "{made}");
        made["id"].clone()
    };

    // An upgrade changes a file of the service, and nothing of the stack.
    let id = upgrades(false).await;
    let plan = h.until(&t.owner, &id, "DONE").await;
    assert_eq!(plan["reach"]["parts"][0]["state"], "AWAY", "{plan}");
    assert_eq!((&plan["message"], &plan["stacks"]), (&json!("Upgrade: Add b"), &json!([])), "{plan}");
    assert_eq!(plan["automation"]["id"], h.automation, "{plan}");

    // Taking it away reverses its edit of the stack's code, too.
    let made_of = t.owner.data(UNINSTALL, json!({"id": instance})).await;
    let id = made_of["planPrInstanceUninstall"]["id"].clone();
    let plan = h.until(&t.owner, &id, "DONE").await;
    assert_eq!(plan["reach"]["parts"][0]["state"], "AWAY", "{plan}");
    assert_eq!(plan["stacks"][0]["stack"]["name"], "infra", "{plan}");
    assert!(plan["message"].as_str().unwrap().starts_with("Uninstall: "), "{plan}");
    // Of a preview: it is in no list, and nobody else's.
    let listed = t.owner.data(LIST, json!({})).await.to_string();
    assert!(!listed.contains(id.as_str().unwrap()), "{listed}");
    assert_eq!(t.reader.ask(PLAN, json!({"id": id})).await.outcome(), "NOT_FOUND");

    // Lines that both changed are no manifests: it is told which, and nothing is planned of them but with an overwrite.
    h.push(&[("web/b.yaml", &map("b", "by-hand"))]);
    let id = upgrades(false).await;
    let plan = h.until(&t.owner, &id, "FAILED").await;
    let error = plan["error"].as_str().unwrap();
    assert!(error.contains("cannot be planned before conflicts are settled: web/b.yaml"), "{error}");
    let id = upgrades(true).await;
    let plan = h.until(&t.owner, &id, "DONE").await;
    assert_eq!(plan["reach"]["parts"][0]["state"], "AWAY", "{plan}");
    assert_eq!((h.host.branches(), h.host.pull_requests()), made, "nothing is written");
}
