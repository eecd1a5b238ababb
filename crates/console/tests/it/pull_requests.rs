//! Pull requests that automations open, at a git host on loopback: one for each that is asked for, whatever happens meanwhile.
//!
//! SQLite alone: what is recorded in which step is the same on both databases, and the store's own tests ask both.

use std::{collections::BTreeSet, fs, path::Path, time::Duration};

use flate2::{Compression, write::GzEncoder};
use plural_console::RunningConsole;
use plural_testkit::{GitRemote, ScmDialect, ScmMood, ScmServer, WebFolder, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::api_server::{Answer, Person, TestServer, begun_again};

const CREATE: &str =
    "mutation ($id: ID!, $identifier: String, $branch: String, $context: Json, $wait: Boolean, $once: String) {
  createPullRequest(id: $id, identifier: $identifier, branch: $branch, context: $context, wait: $wait, idempotencyKey: $once) {
    id status phase error commit url title ref repository labels creator
  }
}";
const PREVIEW: &str = "mutation ($id: ID!, $context: Json) {
  previewPullRequest(id: $id, context: $context) { repository base commit title message patch warnings files { path change diff } }
}";
const READ: &str = "query ($id: ID!) { pullRequest(id: $id) { id status phase error commit url ref } }";
const SECRET: &str = "s3cr3t-answer-7f3e9b2c";
/// One attempt that failed, and the next one.
const RETRIED: Duration = Duration::from_mins(2);

pub(crate) struct World {
    pub(crate) t: TestServer,
    pub(crate) host: ScmServer,
    /// Adds a file and changes another one.
    pub(crate) automation: Value,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::of(TestServer::start().await).await
    }

    async fn of(t: TestServer) -> Self {
        let host = ScmServer::start(ScmDialect::Gitea).unwrap();
        host.push("main", "templates/app.yaml", "name: {{ context.name }}\n");
        host.push("main", "OLD.md", "Nobody reads it\n");
        let mut w = Self { t, host, automation: Value::Null };
        w.automation = w.automation(json!({})).await;
        w
    }

    pub(crate) async fn automation(&self, more: Value) -> Value {
        let name = format!("scm-{}", uuid::Uuid::now_v7().simple());
        let connection = json!({
            "name": name, "type": "GITEA", "projectId": self.t.project, "apiUrl": self.host.api_url(), "token": self.host.token(),
            "repositories": ["plural/*"],
        });
        let connection = self.t.admin.scm_connection(&connection).await;
        let name = format!("pr-{}", uuid::Uuid::now_v7().simple());
        let mut automation = json!({
            "name": name, "projectId": self.t.project, "connectionId": connection,
            "identifier": self.host.repository(), "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
            "branchPrefix": "plural/app", "labels": ["infra"],
            "configuration": [
                {"name": "name", "type": "STRING", "validation": {"regex": "^[a-z]+$"}},
                {"name": "key", "type": "PASSWORD", "optional": true},
            ],
            "creates": {"templates": [
                {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
            ]},
            "updates": {"yamlOverlays": [{"file": "apps/web/values.yaml", "yaml": "replicas: 2"}]},
            "deletes": {"files": ["OLD.md"]},
        });
        automation.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.t.admin.pr_automation(&automation).await
    }

    /// Asks an administrator's pull request of the automation.
    pub(crate) async fn create(&self, more: Value) -> Answer {
        self.create_by(&self.t.admin, more).await
    }

    async fn create_by(&self, by: &Person, more: Value) -> Answer {
        let mut variables = json!({"id": self.automation, "context": {"name": "shop"}});
        variables.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        by.ask(CREATE, variables).await
    }

    pub(crate) async fn preview(&self, context: Value) -> Answer {
        self.t.admin.ask(PREVIEW, json!({"id": self.automation, "context": context})).await
    }

    /// One that is opened in the background.
    async fn begin(&self, more: Value) -> Value {
        let mut variables = json!({"wait": false});
        variables.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let begun = made(&self.create(variables).await);
        assert_eq!(
            (&begun["phase"], &begun["status"], &begun["url"]),
            (&json!("PENDING"), &Value::Null, &json!(""))
        );
        begun
    }
}

pub(crate) fn made(answer: &Answer) -> Value {
    assert_eq!(answer.outcome(), "OK", "{answer:?}");
    answer.body["data"]["createPullRequest"].clone()
}

pub(crate) async fn read(by: &Person, id: &Value) -> Value {
    by.data(READ, json!({"id": id})).await["pullRequest"].clone()
}

/// Once it is open.
async fn opened(by: &Person, id: &Value) -> Value {
    eventually(RETRIED, async || {
        let now = read(by, id).await;
        if now["phase"] == "OPENED" { Ok(now) } else { Err(now.to_string()) }
    })
    .await
}

#[tokio::test]
async fn a_pull_request_is_what_its_preview_says() {
    let w = World::new().await;
    let previewed = w.t.admin.data(PREVIEW, json!({"id": w.automation, "context": {"name": "shop"}})).await;
    let previewed = &previewed["previewPullRequest"];
    assert_eq!(
        (&previewed["title"], &previewed["base"]),
        (&json!("Add shop"), &json!("main")),
        "{previewed}"
    );
    let files: Vec<Value> = previewed["files"].as_array().unwrap().clone();
    let told: Vec<_> = files.iter().map(|file| (&file["path"], &file["change"])).collect();
    let paths = ["OLD.md", "apps/shop.yaml", "apps/web/values.yaml"].map(|path| json!(path));
    let words = ["DELETED", "CREATED", "CHANGED"].map(|word| json!(word));
    assert_eq!(told, paths.iter().zip(&words).collect::<Vec<_>>());
    let patch = previewed["patch"].as_str().unwrap();
    for line in [
        "-Nobody reads it",
        "--- /dev/null",
        "+++ b/apps/shop.yaml",
        "+name: shop",
        "-replicas: 1",
        "+replicas: 2",
    ] {
        assert!(patch.lines().any(|found| found == line), "{line}: {patch}");
    }
    assert_eq!(
        (w.host.pull_requests(), w.host.branches()),
        (0, vec!["main".to_owned()]),
        "nothing is written"
    );

    let made = made(&w.create(json!({})).await);
    let branch = made["ref"].as_str().unwrap();
    assert_eq!(branch, format!("plural/app-{}", made["id"].as_str().unwrap()));
    assert_eq!((&made["phase"], &made["status"]), (&json!("OPENED"), &json!("OPEN")), "{made}");
    assert_eq!((&made["title"], &made["labels"]), (&json!("Add shop"), &json!(["infra"])));
    assert!(made["url"].as_str().unwrap().starts_with("http"), "{made}");
    assert_eq!(made["commit"].as_str().unwrap().len(), 40, "{made}");
    assert_eq!(w.host.pull_requests(), 1);
    assert_eq!(w.host.file(branch, "apps/shop.yaml").as_deref(), Some("name: shop\n"));
    assert_eq!(w.host.file(branch, "apps/web/values.yaml").as_deref(), Some("replicas: 2\n"));
    assert_eq!((w.host.file(branch, "OLD.md"), w.host.file("main", "apps/shop.yaml")), (None, None));
    assert_eq!(read(&w.t.admin, &made["id"]).await["url"], made["url"]);
    w.t.stop().await;
}

#[tokio::test]
async fn where_no_automation_can_be_confined_none_is_run() {
    let t = TestServer::with(|config| config.scaffold_program = None).await;
    let w = World::of(t).await;
    for refused in [w.create(json!({})).await, w.preview(json!({"name": "shop"})).await] {
        assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
        assert!(
            refused.message().contains("which this console cannot start: run it on Linux"),
            "{refused:?}"
        );
    }
    assert_eq!((w.host.pull_requests(), w.host.branches()), (0, vec!["main".to_owned()]));
    w.t.stop().await;
}

#[tokio::test]
async fn what_may_not_be_opened_leaves_nothing() {
    let w = World::new().await;
    let refused = w.create_by(&w.t.reader, json!({})).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    for (more, expected) in [
        (json!({"identifier": "evil/fleet"}), "identifier"),
        (json!({"branch": "-f"}), "branch"),
        (json!({"branch": "main"}), "branch"),
        (json!({"branch": SECRET, "context": {"name": "shop", "key": SECRET}}), "branch"),
        (json!({"context": {"name": "a: b\n"}}), "context"),
        (json!({"context": {"name": "../../x"}}), "context"),
        (json!({"context": {"name": "{{ 1 }}"}}), "context"),
        (json!({"context": {}}), "context"),
        (json!({"context": {"name": "shop", "more": SECRET}}), "context"),
    ] {
        let refused = w.create(more.clone()).await;
        assert_eq!(refused.outcome(), "INVALID", "{more}: {refused:?}");
        assert_eq!(refused.body["errors"][0]["extensions"]["field"], expected, "{more}: {refused:?}");
        assert!(!refused.body.to_string().contains(SECRET), "{refused:?}");
    }
    let listed = w.t.admin.data("{ pullRequests { edges { node { id } } } }", json!({})).await;
    assert_eq!((&listed["pullRequests"]["edges"], w.host.pull_requests()), (&json!([]), 0));
    w.t.stop().await;
}

#[tokio::test]
async fn a_request_that_is_sent_once_more_is_done_once() {
    let w = World::new().await;
    let first = made(&w.create(json!({"once": "a-key"})).await);
    let again = made(&w.create(json!({"once": "a-key"})).await);
    assert_eq!((&again["id"], &again["phase"]), (&first["id"], &json!("OPENED")), "{again}");
    // Many at once, as of a client whose answers are all late.
    let asks = (0..4).map(|_| w.create(json!({"once": "at once", "context": {"name": "web"}})));
    let answers = futures::future::join_all(asks).await;
    let ids: BTreeSet<String> = answers.iter().map(|answer| made(answer)["id"].to_string()).collect();
    assert_eq!((ids.len(), w.host.pull_requests()), (1, 2), "{ids:?}");
    // Another request, even if a secret answer alone is another one.
    for context in [json!({"name": "other"}), json!({"name": "shop", "key": SECRET})] {
        let refused = w.create(json!({"once": "a-key", "context": context})).await;
        assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
        assert!(refused.message().contains("the idempotencyKey is that of a request for something else"));
        assert!(!refused.body.to_string().contains(SECRET), "{refused:?}");
    }
    // What failed is told as it was, and another key tries it anew.
    let taken = json!({"once": "taken", "branch": first["ref"], "context": {"name": "taken"}});
    let failed = [w.create(taken.clone()).await, w.create(taken).await];
    assert!(failed.iter().all(|answer| answer.outcome() == "CONFLICT"), "{failed:?}");
    assert_eq!(failed[0].message(), failed[1].message());
    for key in ["", " a", "a\nb", &"x".repeat(129)] {
        let refused = w.create(json!({"once": key})).await;
        assert_eq!(refused.outcome(), "INVALID", "{key:?}: {refused:?}");
        assert_eq!(refused.body["errors"][0]["extensions"]["field"], "idempotencyKey");
    }
    // Whoever may not use the automation is not told what a key began.
    let refused = w.create_by(&w.t.reader, json!({"once": "a-key"})).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    assert_eq!(w.host.pull_requests(), 2);
    w.t.stop().await;
}

#[tokio::test]
async fn refused_answers_are_told_by_their_questions() {
    let w = World::new().await;
    let refused =
        w.t.admin.ask(PREVIEW, json!({"id": w.automation, "context": {"name": "A B", "more": SECRET}})).await;
    assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
    let error = &refused.body["errors"][0];
    let told = json!({"name": "must match ^[a-z]+$", "\"more\"": "is none of its questions: name, key"});
    assert_eq!((&error["extensions"]["field"], &error["extensions"]["answers"]), (&json!("context"), &told));
    assert!(error["message"].as_str().unwrap().starts_with("context: "), "{error}");
    assert!(!refused.body.to_string().contains(SECRET), "{refused:?}");
    // What is looked up is told so, too.
    w.t.admin.cluster("blue").await;
    let asks = json!({"configuration": [
        {"name": "name", "type": "STRING", "optional": true},
        {"name": "cluster", "type": "CLUSTER"},
    ]});
    let automation = w.automation(asks).await;
    let refused = w.t.admin.ask(PREVIEW, json!({"id": automation, "context": {"cluster": "green"}})).await;
    let answers = &refused.body["errors"][0]["extensions"]["answers"];
    assert_eq!(answers, &json!({"cluster": "must be a cluster that you may see"}), "{refused:?}");
    w.t.stop().await;
}

#[tokio::test]
async fn a_cluster_or_project_is_one_that_there_is() {
    let mut w = World::new().await;
    w.automation = w
        .automation(json!({"configuration": [
            {"name": "name", "type": "STRING", "validation": {"uniqBy": {"scope": "CLUSTER"}}},
            {"name": "cluster", "type": "CLUSTER", "optional": true},
        ]}))
        .await;
    w.t.admin.cluster("blue").await;
    for context in [json!({"name": "blue"}), json!({"name": "shop", "cluster": "green"})] {
        let refused = w.create(json!({"context": context})).await;
        assert_eq!(refused.outcome(), "INVALID", "{context}: {refused:?}");
    }
    let made = made(&w.create(json!({"context": {"name": "shop", "cluster": "blue"}})).await);
    assert_eq!(made["phase"], "OPENED", "{made}");
    w.t.stop().await;
}

#[tokio::test]
async fn a_repository_that_moves_is_followed_once_and_a_branch_that_is_there_is_told() {
    let w = World::new().await;
    w.host.race("main");
    let made = made(&w.create(json!({"branch": "add-shop"})).await);
    assert_eq!((&made["phase"], &made["ref"]), (&json!("OPENED"), &json!("add-shop")), "{made}");
    assert!(w.host.file("add-shop", "raced.txt").is_some(), "it is on top of what came meanwhile");
    assert_eq!(w.host.file("add-shop", "apps/shop.yaml").as_deref(), Some("name: shop\n"));

    let refused = w.create(json!({"branch": "add-shop", "context": {"name": "web"}})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("has a branch add-shop already"), "{refused:?}");
    assert_eq!(w.host.file("add-shop", "apps/web.yaml"), None, "nothing is added to it");
    let read = "{ pullRequests { edges { node { phase error status } } } }";
    let listed = w.t.admin.data(read, json!({})).await.to_string();
    assert!(listed.contains("FAILED") && listed.contains("has a branch add-shop already"), "{listed}");
    assert_eq!(w.host.pull_requests(), 1);
    w.t.stop().await;
}

#[tokio::test]
async fn a_host_that_answers_badly_is_asked_again() {
    let w = World::new().await;
    for (mood, name) in
        [(ScmMood::Limited(1), "limited"), (ScmMood::Failing(500), "failing"), (ScmMood::HalfAnswers, "half")]
    {
        w.host.set_mood(Some(mood));
        let begun = w.begin(json!({"context": {"name": name}})).await;
        eventually(RETRIED, async || {
            let now = read(&w.t.admin, &begun["id"]).await;
            assert!(!now.to_string().contains(&w.host.token()), "{now}");
            let tried = now["phase"] == "OPENED" || now["error"].is_string();
            if tried { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        w.host.set_mood(None);
        let now = opened(&w.t.admin, &begun["id"]).await;
        assert_eq!((&now["error"], &now["status"]), (&Value::Null, &json!("OPEN")), "{now}");
        let branch = now["ref"].as_str().unwrap();
        assert!(w.host.file(branch, &format!("apps/{name}.yaml")).is_some());
    }
    assert_eq!(w.host.pull_requests(), 3);
    assert_eq!(w.host.branches().len(), 4, "{:?}", w.host.branches());
    w.t.stop().await;
}

#[tokio::test]
async fn one_that_no_attempt_says_anything_of_has_failed_in_the_end() {
    let w = World::new().await;
    w.host.set_mood(Some(ScmMood::Failing(500)));
    let begun = w.begin(json!({})).await;
    let now = async || read(&w.t.admin, &begun["id"]).await;
    eventually(RETRIED, async || {
        let now = now().await;
        if now["error"].is_string() { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
    // As after attempts that all panicked, or ended their console.
    w.t.sql("UPDATE jobs SET attempts = 9 WHERE kind = 'open_pull_request'").await;
    let failed = eventually(RETRIED, async || {
        let now = now().await;
        if now["phase"] == "FAILED" { Ok(now) } else { Err(now.to_string()) }
    })
    .await;
    let why = failed["error"].as_str().unwrap();
    assert!(why.starts_with("the console gave it up (attempt 9 of 9 ended with its console"), "{failed}");
    assert_eq!(w.host.pull_requests(), 0);
    // Asking again is another one.
    w.host.set_mood(None);
    assert_eq!(made(&w.create(json!({})).await)["phase"], "OPENED");
    w.t.stop().await;
}

/// What a preview says that the file holds, once what it needs is there.
async fn previewed(w: &World, path: &str) -> String {
    eventually(RETRIED, async || {
        let previewed = w.preview(json!({"name": "shop"})).await;
        let files = previewed.body["data"]["previewPullRequest"]["files"].as_array().cloned();
        let file = files.into_iter().flatten().find(|file| file["path"] == path);
        file.map(|file| file["diff"].as_str().unwrap().to_owned()).ok_or_else(|| format!("{previewed:?}"))
    })
    .await
}

#[tokio::test]
async fn templates_of_another_repository_are_those_of_when_it_was_asked() {
    let mut w = World::new().await;
    let remote = GitRemote::new().unwrap();
    let first = [("shared/app.yaml", "first: {{ context.name }}\n"), ("app.yaml", "not this one\n")];
    remote.push_files(first).unwrap();
    let repository = w.t.admin.repository(&remote.path().display().to_string()).await;
    w.automation = w
        .automation(json!({
            "repositoryId": repository["id"], "git": {"ref": "main", "folder": "shared"},
            "creates": {"templates": [
                {"source": "app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": true},
            ]},
        }))
        .await;
    assert!(previewed(&w, "apps/shop.yaml").await.contains("+first: shop"));
    // It is asked for while the host does not answer, and the templates change meanwhile.
    w.host.set_mood(Some(ScmMood::Failing(500)));
    let begun = w.begin(json!({})).await;
    remote.push_files([("shared/app.yaml", "second: {{ context.name }}\n")]).unwrap();
    eventually(RETRIED, async || {
        let now = read(&w.t.admin, &begun["id"]).await;
        if now["error"].is_string() { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
    w.host.set_mood(None);
    let now = opened(&w.t.admin, &begun["id"]).await;
    let branch = now["ref"].as_str().unwrap();
    assert_eq!(w.host.file(branch, "apps/shop.yaml").as_deref(), Some("first: shop\n"), "{now}");
    eventually(RETRIED, async || {
        let diff = previewed(&w, "apps/shop.yaml").await;
        if diff.contains("+second: shop") { Ok(()) } else { Err(diff) }
    })
    .await;
    // Without a place to take them from, the automation is not even made; a ref that is not there is told.
    w.automation = w
        .automation(json!({
            "repositoryId": repository["id"], "git": {"ref": "gone", "folder": "shared"},
            "creates": {"templates": [{"source": "app.yaml", "destination": "a.yaml", "external": true}]},
        }))
        .await;
    let refused = w.create(json!({})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("the templates cannot be found: "), "{refused:?}");
    w.t.stop().await;
}

#[tokio::test]
async fn what_a_host_cannot_make_executable_is_refused() {
    let mut w = World::new().await;
    let remote = GitRemote::new().unwrap();
    remote.commit("main").executable("run.sh", "echo {{ context.name }}\n").push().unwrap();
    let repository = w.t.admin.repository(&remote.path().display().to_string()).await;
    let automation = |destination: &str| {
        json!({
            "repositoryId": repository["id"], "git": {"ref": "main", "folder": ""},
            "creates": {"templates": [{"source": "run.sh", "destination": destination, "external": true}]},
        })
    };
    w.automation = w.automation(automation("bin/run.sh")).await;
    previewed(&w, "bin/run.sh").await;
    let refused = w.create(json!({})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("bin/run.sh has to be made by git"), "{refused:?}");
    assert_eq!((w.host.pull_requests(), w.host.branches()), (0, vec!["main".to_owned()]));
    w.t.stop().await;
}

/// A chart as it is published.
pub(crate) fn chart(name: &str, version: &str, values: &str) -> Vec<u8> {
    let mut out = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, text) in [
        ("Chart.yaml", format!("apiVersion: v2\nname: {name}\nversion: {version}\n")),
        ("values.yaml", values.to_owned()),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        out.append_data(&mut header, format!("{name}/{path}"), text.as_bytes()).unwrap();
    }
    out.into_inner().unwrap().finish().unwrap()
}

#[tokio::test]
async fn a_chart_is_unpacked_into_the_repository() {
    let mut w = World::new().await;
    let web = WebFolder::start().unwrap();
    web.write("redis.tgz", chart("redis", "1.2.3", "replicas: 1\n")).unwrap();
    let index =
        "apiVersion: v1\nentries:\n  redis:\n  - {name: redis, version: 1.2.3, urls: ['redis.tgz']}\n";
    web.write("index.yaml", index).unwrap();
    let vendor = |version: &str| json!({"vendor": {"helm": {"url": web.url(""), "chart": "redis", "version": version, "destination": "charts/redis"}}});
    w.automation = w.automation(vendor("1.x")).await;
    let made = made(&w.create(json!({})).await);
    let branch = made["ref"].as_str().unwrap();
    assert_eq!(w.host.file(branch, "charts/redis/values.yaml").as_deref(), Some("replicas: 1\n"), "{made}");
    assert!(w.host.file(branch, "charts/redis/Chart.yaml").unwrap().contains("version: 1.2.3"));
    assert!(w.host.file(branch, "apps/shop.yaml").is_some(), "the rest is done, too");
    w.automation = w.automation(vendor("9.9.9")).await;
    let refused = w.create(json!({})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("the chart redis 9.9.9 cannot be fetched: "), "{refused:?}");
    w.t.stop().await;
}

/// A console that ends after each thing that it asked the host, which did it and was not heard.
#[tokio::test]
async fn a_console_that_is_killed_after_any_step_opens_one() {
    let World { t, host, automation } = World::new().await;
    let TestServer { mut console, folder, admin, .. } = t;
    let data = folder.path().join("data");
    let mut person = admin;
    let mut step = 0;
    loop {
        host.hold_after(Some(step));
        // Letters only, as the form asks for.
        let name = format!("step{}", char::from(b'a' + u8::try_from(step).unwrap()));
        let variables = json!({"id": automation, "context": {"name": name}, "wait": false});
        let begun = made(&person.ask(CREATE, variables).await);
        let is_held = eventually(RETRIED, async || {
            let now = read(&person, &begun["id"]).await;
            match (host.is_held(), now["phase"] == "OPENED") {
                (true, _) => Ok(true),
                (false, true) => Ok(false),
                (false, false) => Err(now.to_string()),
            }
        })
        .await;
        if !is_held {
            break;
        }
        console.kill().await;
        host.hold_after(None);
        (console, person) = begun_again(&data, &person).await;
        let now = opened(&person, &begun["id"]).await;
        step += 1;
        assert_eq!(host.pull_requests(), step, "step {step}: {now}");
        let branch = now["ref"].as_str().unwrap();
        assert!(host.file(branch, &format!("apps/{name}.yaml")).is_some(), "step {step}: {now}");
        assert_eq!(host.branches().len(), step + 1, "step {step}: {:?}", host.branches());
    }
    assert!(step >= 6, "head, tree, files, branch, commit and opening are steps: {step}");
    assert_eq!(host.pull_requests(), step + 1);
    console.stop().await.unwrap();
}

/// What another console finds of a pull request that one opened, which ended before it heard so.
async fn after_opening(meanwhile: fn(&ScmServer)) -> (RunningConsole, TempDir, ScmServer, Value) {
    let World { t, host, automation } = World::new().await;
    let TestServer { console, folder, admin, .. } = t;
    host.hold_opening();
    let variables = json!({"id": automation, "context": {"name": "shop"}, "wait": false});
    let begun = made(&admin.ask(CREATE, variables).await);
    eventually(RETRIED, async || host.is_held()).await;
    console.kill().await;
    meanwhile(&host);
    host.hold_after(None);
    let (console, person) = begun_again(&folder.path().join("data"), &admin).await;
    let now = eventually(RETRIED, async || {
        let now = read(&person, &begun["id"]).await;
        if now["phase"] == "PENDING" { Err(now.to_string()) } else { Ok(now) }
    })
    .await;
    (console, folder, host, now)
}

#[tokio::test]
async fn one_that_somebody_closed_meanwhile_is_not_opened_again() {
    let (console, _folder, host, now) = after_opening(|host| host.close_by_another(1)).await;
    assert_eq!((&now["phase"], &now["status"]), (&json!("OPENED"), &json!("CLOSED")), "{now}");
    assert_eq!(host.pull_requests(), 1);
    console.stop().await.unwrap();
}

#[tokio::test]
async fn one_that_does_not_say_what_only_its_console_knows_is_somebody_elses() {
    let (console, _folder, host, now) = after_opening(|host| host.edit_by_another(1, "mine")).await;
    assert_eq!((&now["phase"], &now["status"], &now["url"]), (&json!("FAILED"), &Value::Null, &json!("")));
    let why = now["error"].as_str().unwrap();
    assert!(why.contains("has a pull request open for the branch plural/app-"), "{why}");
    assert_eq!(host.pull_requests(), 1);
    console.stop().await.unwrap();
}

#[tokio::test]
async fn a_secret_answer_is_nowhere() {
    let mut w = World::new().await;
    w.automation = w.automation(json!({"title": "Add {{ context.name }} with {{ context.key }}"})).await;
    let made_with = made(&w.create(json!({"context": {"name": "shop", "key": SECRET}})).await);
    assert_eq!(made_with["title"], "Add shop with ********");
    // Where a file would hold it, nothing is written.
    w.host.push("main", "templates/app.yaml", "key: {{ context.key }}\n");
    let refused = w.create(json!({"context": {"name": "web", "key": SECRET}})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("the answer to key would be written to apps/web.yaml"), "{refused:?}");
    let previewed =
        w.t.admin.ask(PREVIEW, json!({"id": w.automation, "context": {"name": "web", "key": SECRET}})).await;
    assert_eq!(previewed.outcome(), "CONFLICT", "{previewed:?}");
    let audits = "{ audits(first: 100) { edges { node { action targetName } } } }";
    let audits = w.t.admin.data(audits, json!({})).await.to_string();
    assert!(audits.contains("pullRequest.create"), "{audits}");
    let listed =
        w.t.admin.data("{ pullRequests { edges { node { title error ref url } } } }", json!({})).await;
    for text in [w.host.everything(), audits, listed.to_string(), format!("{refused:?}{previewed:?}")] {
        assert!(!text.contains(SECRET), "{text}");
    }
    assert_eq!(w.host.pull_requests(), 1);
    let World { t, .. } = w;
    let TestServer { console, folder, .. } = t;
    console.stop().await.unwrap();
    assert_eq!(holding(folder.path()), Vec::<String>::new());
}

/// The files that hold the secret.
fn holding(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path));
        } else if fs::read(&path).unwrap().windows(SECRET.len()).any(|part| part == SECRET.as_bytes()) {
            found.push(path.display().to_string());
        }
    }
    found
}
