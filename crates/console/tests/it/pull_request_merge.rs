//! When pull requests may be merged, at a git host on loopback: windows come from the record, and a merge waits for one.
//!
//! Windows are opened here by giving the pull request another one: the console's clock is the machine's.

use std::time::Duration;

use plural_testkit::{ScmMood, ScmServer, TestDatabase, each_database, eventually};
use serde_json::{Value, json};

use crate::api_server::{Answer, Person, TestServer};

each_database!(
    outside_of_its_windows_it_is_refused_and_told_when_the_next_one_opens,
    a_merge_waits_and_is_done_when_a_window_opens,
    commits_that_come_meanwhile_are_not_merged,
    what_goes_to_another_branch_meanwhile_is_not_merged,
    who_may_not_merge_any_more_has_nothing_merged,
    a_host_that_fails_is_asked_again_inside_of_the_window_only,
    a_merge_that_is_killed_after_any_step_is_done_once,
    windows_that_make_no_sense_are_refused,
    windows_are_tried_before_anything_has_them,
);

const SHORTLY: Duration = Duration::from_mins(1);
const READ: &str = "query ($id: ID!) { pullRequest(id: $id) { id status head mergeCommit readAt merging {
  open opensAt windows { kind schedule duration timeZone } wish { by head method askedAt dueAt error dropped }
} } }";
const MERGE: &str = "mutation ($id: ID!, $head: String, $method: PrMergeMethod, $wait: Boolean) {
  mergePullRequest(id: $id, head: $head, method: $method, inWindow: $wait) { id status merging { wish { by head method dueAt } } } }";
const CANCEL: &str = "mutation ($id: ID!) { cancelPullRequestMerge(id: $id) { id merging { wish { by } } } }";
const REFRESH: &str = "mutation ($id: ID!) { refreshPullRequest(id: $id) { id status head readError } }";
const WINDOWS: &str = "mutation ($id: ID!, $windows: [MergeWindowAttributes], $cron: String) {
  updatePullRequestMergeWindows(id: $id, mergeWindows: $windows, mergeCron: $cron) { id merging { open wish { dueAt } } } }";
const CREATE: &str = "mutation ($a: PrAutomationAttributes!) { createPrAutomation(attributes: $a) { id } }";
const UPDATE: &str = "mutation ($id: ID!, $a: PrAutomationAttributes!) {
  updatePrAutomation(id: $id, attributes: $a) { revision mergeWindows { kind schedule duration timeZone } } }";

struct World {
    t: TestServer,
    host: ScmServer,
    connection: Value,
    automation: Value,
    /// A window that opens in a month.
    closed: Value,
}

impl World {
    async fn new(database: &TestDatabase) -> Self {
        let t = TestServer::on_with(database, |config| config.poll_seconds = 3_600).await;
        let (host, connection) = t.forge().await;
        let in_a_month = t.console.app().now() + Duration::from_hours(24 * 30);
        let schedule = in_a_month.format("0 0 %-d %-m *").to_string();
        let closed = json!({"schedule": schedule, "duration": 60, "timeZone": "Europe/Berlin"});
        let mut w = Self { t, host, connection, automation: Value::Null, closed };
        let asked = w.automation("add", &json!({"mergeWindows": [w.closed]}));
        let made = w.t.admin.data(CREATE, asked).await;
        w.automation = made["createPrAutomation"]["id"].clone();
        w
    }

    fn automation(&self, name: &str, more: &Value) -> Value {
        let mut automation = json!({
            "name": name, "projectId": self.t.project, "connectionId": self.connection, "identifier": self.host.repository(),
            "title": "Add {{ context.name }}", "message": "Adds {{ context.name }}.",
            "configuration": [{"name": "name", "type": "STRING"}],
            "creates": {"templates": [
                {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
            ]},
        });
        automation.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"a": automation})
    }

    /// Opens one that is read back; its record's id, and its head.
    async fn open(&self, name: &str) -> (Value, String) {
        let create = "mutation ($id: ID!, $context: Json) { createPullRequest(id: $id, context: $context) { id phase } }";
        let variables = json!({"id": self.automation, "context": {"name": name}});
        let made = self.t.admin.data(create, variables).await["createPullRequest"].clone();
        assert_eq!(made["phase"], "OPENED", "{made}");
        let now = self.until(&made["id"], |now| now["head"].is_string()).await;
        (made["id"].clone(), now["head"].as_str().unwrap().to_owned())
    }

    async fn read(&self, id: &Value) -> Value {
        self.t.admin.data(READ, json!({"id": id})).await["pullRequest"].clone()
    }

    /// Once it is so.
    async fn until(&self, id: &Value, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(SHORTLY, async || {
            let now = self.read(id).await;
            if is_so(&now) { Ok(now) } else { Err(now.to_string()) }
        })
        .await
    }

    /// Has it merged when a window opens.
    async fn wish(&self, by: &Person, id: &Value, head: &str) -> Value {
        let variables = json!({"id": id, "head": head, "method": "SQUASH", "wait": true});
        let asked = by.data(MERGE, variables).await["mergePullRequest"].clone();
        assert_eq!(
            (&asked["status"], &asked["merging"]["wish"]["head"]),
            (&json!("OPEN"), &json!(head)),
            "{asked}"
        );
        asked["merging"]["wish"].clone()
    }

    async fn windows(&self, id: &Value, windows: &[&Value]) -> Answer {
        self.t.owner.ask(WINDOWS, json!({"id": id, "windows": windows})).await
    }

    /// From now on it may be merged.
    async fn opens(&self, id: &Value) {
        let always = json!({"schedule": "* * * * *", "duration": 3_600});
        let changed = self.windows(id, &[&always]).await;
        assert_eq!(changed.outcome(), "OK", "{changed:?}");
        assert_eq!(changed.body["data"]["updatePullRequestMergeWindows"]["merging"]["open"], true);
    }

    /// One pass of the loop. The console's own may be faster.
    async fn pass(&self) {
        self.t.console.app().pull_requests_merge_due().await.unwrap();
    }

    /// What is to be tried later is to be tried now.
    async fn time_passes(&self) {
        let long_ago = "'2001-01-01T00:00:00+00:00'";
        for column in ["merge_due_at", "merge_begun_at"] {
            let sql = format!("UPDATE pull_requests SET {column} = {long_ago} WHERE {column} IS NOT NULL");
            self.t.sql(&sql).await;
        }
    }

    fn is_in_main(&self, name: &str) -> bool {
        self.host.file("main", &format!("apps/{name}.yaml")).is_some()
    }
}

async fn outside_of_its_windows_it_is_refused_and_told_when_the_next_one_opens(database: TestDatabase) {
    let w = World::new(&database).await;
    let (id, head) = w.open("shop").await;
    let now = w.read(&id).await;
    let merging = &now["merging"];
    assert_eq!((&merging["open"], &merging["wish"]), (&json!(false), &Value::Null), "{now}");
    assert!(merging["opensAt"].is_string(), "{now}");
    let mut expected = w.closed.clone();
    expected["kind"] = json!("ALLOW");
    assert_eq!(merging["windows"], json!([expected]));
    let refused = w.t.owner.ask(MERGE, json!({"id": id, "head": head})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("let nothing through before"), "{refused:?}");
    assert!(refused.message().contains("--in-window"), "{refused:?}");
    // What its author writes changes nothing, and neither does the automation any more.
    w.host.edit_by_another(1, "Plural Merge Cron: * * * * *\nmerge cron: * * * * *");
    w.t.admin.data(REFRESH, json!({"id": id})).await;
    let changed =
        w.t.admin.data(UPDATE, json!({"id": w.automation, "a": {"mergeCron": "30 9 * * 1-5"}})).await;
    let hour = json!({"kind": "ALLOW", "schedule": "30 9 * * 1-5", "duration": 3_600, "timeZone": "UTC"});
    let changed = &changed["updatePrAutomation"];
    assert_eq!((&changed["mergeWindows"], &changed["revision"]), (&json!([hour]), &json!(1)), "{changed}");
    assert_eq!(w.t.owner.ask(MERGE, json!({"id": id, "head": head})).await.outcome(), "CONFLICT");
    assert_eq!(w.read(&id).await["merging"], *merging);
    assert!(!w.is_in_main("shop"));
    // Who may merge it may say when, too; that is in the audit log.
    let opened = w.windows(&id, &[]).await;
    assert_eq!(opened.outcome(), "OK", "{opened:?}");
    let merged = w.t.owner.data(MERGE, json!({"id": id, "head": head, "wait": true})).await;
    assert_eq!(merged["mergePullRequest"]["status"], "MERGED", "{merged}");
    assert!(w.is_in_main("shop"));
    let audits = "{ audits(first: 100) { edges { node { action } } } }";
    let audits = w.t.admin.data(audits, json!({})).await.to_string();
    assert!(audits.contains("pullRequest.windows"), "{audits}");
    // What is merged is so at any time.
    w.windows(&id, &[&w.closed]).await;
    let again = w.t.owner.data(MERGE, json!({"id": id, "head": head})).await;
    assert_eq!(again["mergePullRequest"]["status"], "MERGED", "{again}");
    w.t.stop().await;
}

async fn a_merge_waits_and_is_done_when_a_window_opens(database: TestDatabase) {
    let w = World::new(&database).await;
    let (id, head) = w.open("shop").await;
    for (person, outcome) in [(&w.t.nobody, "401"), (&w.t.stranger, "NOT_FOUND"), (&w.t.reader, "FORBIDDEN")]
    {
        let refused = person.ask(MERGE, json!({"id": id, "head": head, "wait": true})).await;
        assert_eq!(refused.outcome(), outcome, "{refused:?}");
    }
    let elsewhere = w.t.owner.ask(MERGE, json!({"id": id, "head": "f".repeat(40), "wait": true})).await;
    assert_eq!(elsewhere.outcome(), "CONFLICT", "{elsewhere:?}");
    assert_eq!(w.t.owner.ask(CANCEL, json!({"id": id})).await.outcome(), "CONFLICT", "nothing waits");
    let wish = w.wish(&w.t.owner, &id, &head).await;
    assert_eq!((&wish["by"], &wish["method"]), (&json!("owner@example.com"), &json!("SQUASH")), "{wish}");
    assert_eq!(wish["dueAt"], w.read(&id).await["merging"]["opensAt"]);
    // It is not time, whatever a row says.
    w.pass().await;
    w.time_passes().await;
    w.pass().await;
    // Where the console's own pass was faster, it may not have written it yet.
    let now = w.until(&id, |now| now["merging"]["wish"]["dueAt"] == wish["dueAt"]).await;
    assert_eq!(now["status"], "OPEN", "{now}");
    let cancelled = w.t.owner.data(CANCEL, json!({"id": id})).await;
    assert_eq!(cancelled["cancelPullRequestMerge"]["merging"]["wish"], Value::Null, "{cancelled}");
    w.wish(&w.t.owner, &id, &head).await;
    assert!(!w.is_in_main("shop"));

    w.opens(&id).await;
    w.pass().await;
    let now = w.until(&id, |now| now["status"] == "MERGED").await;
    assert_eq!(now["merging"]["wish"], Value::Null, "{now}");
    assert!(now["mergeCommit"].is_string() && w.is_in_main("shop"), "{now}");
    let audits = "{ audits(first: 100) { edges { node { action actor { email } } } } }";
    let audits = w.t.admin.data(audits, json!({})).await;
    let by_owner = |action: &str| {
        let all = audits["audits"]["edges"].as_array().unwrap().iter();
        let node = json!({"action": action, "actor": {"email": "owner@example.com"}});
        all.filter(|edge| edge["node"] == node).count()
    };
    let counts = ["pullRequest.mergeInWindow", "pullRequest.mergeCancel", "pullRequest.merge"].map(by_owner);
    assert_eq!(counts, [2, 1, 1], "{audits}");
    w.t.stop().await;
}

async fn commits_that_come_meanwhile_are_not_merged(database: TestDatabase) {
    let w = World::new(&database).await;
    let (id, head) = w.open("shop").await;
    w.wish(&w.t.owner, &id, &head).await;
    let branch = w.host.branches().into_iter().find(|branch| branch != "main").unwrap();
    w.host.push(&branch, "apps/evil.yaml", "evil: true\n");
    // Nobody told of it: the host is asked before anything is merged.
    w.opens(&id).await;
    w.pass().await;
    let now = w.until(&id, |now| now["merging"]["wish"]["dropped"].is_string()).await;
    let (wish, new) = (&now["merging"]["wish"], now["head"].as_str().unwrap());
    assert!(wish["dropped"].as_str().unwrap().contains(&format!("its head is {new} now")), "{now}");
    assert_eq!((&now["status"], &wish["head"], &wish["dueAt"]), (&json!("OPEN"), &json!(head), &Value::Null));
    w.pass().await;
    assert!(!w.is_in_main("shop") && !w.is_in_main("evil"));
    // Told of, it is dropped at once.
    w.windows(&id, &[&w.closed]).await;
    w.wish(&w.t.owner, &id, new).await;
    w.host.push(&branch, "apps/more.yaml", "evil: true\n");
    w.t.admin.data(REFRESH, json!({"id": id})).await;
    assert!(w.read(&id).await["merging"]["wish"]["dropped"].is_string());
    // Closed there, nothing waits.
    let new = w.read(&id).await["head"].as_str().unwrap().to_owned();
    w.wish(&w.t.owner, &id, &new).await;
    w.host.close_by_another(1);
    w.t.admin.data(REFRESH, json!({"id": id})).await;
    let now = w.read(&id).await;
    assert_eq!(now["merging"]["wish"]["dropped"], "the pull request was closed", "{now}");
    w.t.stop().await;
}

async fn what_goes_to_another_branch_meanwhile_is_not_merged(database: TestDatabase) {
    let w = World::new(&database).await;
    w.host.push("production", "apps/web.yaml", "name: web\n");
    let (id, head) = w.open("shop").await;
    w.wish(&w.t.owner, &id, &head).await;
    w.host.retarget_by_another(1, "production");
    w.opens(&id).await;
    w.pass().await;
    let now = w.until(&id, |now| now["merging"]["wish"]["dropped"].is_string()).await;
    let dropped = now["merging"]["wish"]["dropped"].as_str().unwrap();
    assert!(dropped.contains("it goes to production now"), "{now}");
    assert_eq!(w.host.file("production", "apps/shop.yaml"), None);
    w.t.stop().await;
}

async fn who_may_not_merge_any_more_has_nothing_merged(database: TestDatabase) {
    let w = World::new(&database).await;
    let (bound, of_bound) = w.open("bound").await;
    let (suspended, of_suspended) = w.open("suspended").await;
    let other = w.t.admin.add_user("other@example.com").await;
    let rbac = "mutation ($rbac: RbacAttributes!, $id: ID) { updateRbac(rbac: $rbac, projectId: $id) }";
    let bindings = json!([{"userId": w.t.owner.id}, {"userId": other.id}]);
    w.t.admin.data(rbac, json!({"rbac": {"adminBindings": bindings}, "id": w.t.project})).await;
    w.wish(&other, &bound, &of_bound).await;
    w.wish(&w.t.owner, &suspended, &of_suspended).await;
    // While the windows are given by the owner, both may still merge.
    let always = json!([{"schedule": "* * * * *", "duration": 3_600}]);
    let rbac_of = json!({"rbac": {"adminBindings": [{"userId": w.t.owner.id}]}, "id": w.t.project});
    w.t.admin.data(rbac, rbac_of).await;
    let suspend = "mutation ($id: ID!) { suspendUser(id: $id) { id } }";
    w.t.admin.data(suspend, json!({"id": w.t.owner.id})).await;
    for id in [&bound, &suspended] {
        w.t.admin.data(WINDOWS, json!({"id": id, "windows": always})).await;
    }
    w.pass().await;
    for (id, who) in [(&bound, "other@example.com"), (&suspended, "owner@example.com")] {
        let now = w.until(id, |now| now["merging"]["wish"]["dropped"].is_string()).await;
        let why = format!("{who} may not merge it any more");
        assert_eq!(
            (&now["merging"]["wish"]["dropped"], &now["status"]),
            (&json!(why), &json!("OPEN")),
            "{now}"
        );
    }
    assert!(!w.is_in_main("bound") && !w.is_in_main("suspended"));
    w.t.stop().await;
}

async fn a_host_that_fails_is_asked_again_inside_of_the_window_only(database: TestDatabase) {
    let w = World::new(&database).await;
    let (id, head) = w.open("shop").await;
    w.wish(&w.t.owner, &id, &head).await;
    w.host.set_mood(Some(ScmMood::Failing(500)));
    w.opens(&id).await;
    w.pass().await;
    let failed = w.until(&id, |now| now["merging"]["wish"]["error"].is_string()).await;
    let wish = &failed["merging"]["wish"];
    assert!(wish["dropped"].is_null() && wish["dueAt"].is_string(), "{failed}");
    assert!(!failed.to_string().contains(&w.host.token()), "{failed}");
    // The window closes while it waits: the next one it is.
    w.windows(&id, &[&w.closed]).await;
    w.time_passes().await;
    w.host.set_mood(None);
    w.pass().await;
    let waits = |now: &Value| now["merging"]["wish"]["dueAt"] == now["merging"]["opensAt"];
    let now = w.until(&id, waits).await;
    assert_eq!((&now["status"], now["merging"]["opensAt"].is_string()), (&json!("OPEN"), true), "{now}");
    assert!(!w.is_in_main("shop"));
    // It looks for conflicts first, and then merges, and is not heard.
    w.host.set_mood(Some(ScmMood::HalfAnswers));
    w.opens(&id).await;
    w.pass().await;
    w.time_passes().await;
    w.pass().await;
    eventually(SHORTLY, async || {
        let now = w.read(&id).await;
        if w.is_in_main("shop") { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
    w.host.set_mood(None);
    w.time_passes().await;
    w.pass().await;
    let now = w.until(&id, |now| now["status"] == "MERGED").await;
    assert_eq!(now["merging"]["wish"], Value::Null, "{now}");
    w.t.stop().await;
}

async fn a_merge_that_is_killed_after_any_step_is_done_once(database: TestDatabase) {
    let w = World::new(&database).await;
    let mut step = 0;
    loop {
        let name = format!("step{step}");
        let (id, head) = w.open(&name).await;
        w.wish(&w.t.owner, &id, &head).await;
        w.host.hold_after(Some(step));
        w.opens(&id).await;
        let app = std::sync::Arc::clone(w.t.console.app());
        let pass = tokio::spawn(async move { app.pull_requests_merge_due().await });
        let is_held = eventually(SHORTLY, async || {
            let now = w.read(&id).await;
            match (w.host.is_held(), now["status"] == "MERGED") {
                (true, _) => Ok(true),
                (false, true) => Ok(false),
                (false, false) => Err(now.to_string()),
            }
        })
        .await;
        pass.abort();
        w.host.hold_after(None);
        w.time_passes().await;
        w.pass().await;
        let now = w.until(&id, |now| now["status"] == "MERGED").await;
        assert_eq!(now["merging"]["wish"], Value::Null, "{step}: {now}");
        assert!(w.is_in_main(&name), "{step}: {now}");
        // What is merged is not merged again.
        let commit = now["mergeCommit"].clone();
        w.pass().await;
        w.t.admin.data(REFRESH, json!({"id": id})).await;
        assert_eq!(w.read(&id).await["mergeCommit"], commit, "{step}");
        if !is_held {
            break;
        }
        step += 1;
    }
    assert!(step >= 4, "reading, its reviews and checks, and the merge are steps: {step}");
    w.t.stop().await;
}

async fn windows_that_make_no_sense_are_refused(database: TestDatabase) {
    let w = World::new(&database).await;
    let (id, head) = w.open("shop").await;
    let before = w.read(&id).await;
    for (windows, says) in [
        (json!({"windows": [{"schedule": "0 9 * *", "duration": 60}]}), "five fields"),
        (json!({"windows": [{"schedule": "0 9 * * *", "duration": 0}]}), "from one minute"),
        (
            json!({"windows": [{"schedule": "0 9 * * *", "duration": 60, "timeZone": "Mars"}]}),
            "Europe/Berlin",
        ),
        (json!({"windows": vec![json!({"schedule": "0 9 * * *", "duration": 60}); 21]}), "at most 20"),
        (json!({"windows": [], "cron": "0 9 * * *"}), "give one of the two"),
        (json!({"cron": "soon"}), "five fields"),
        (json!({}), "must be given"),
    ] {
        let mut variables = windows.clone();
        variables["id"] = id.clone();
        let refused = w.t.owner.ask(WINDOWS, variables).await;
        assert_eq!(refused.outcome(), "INVALID", "{windows}: {refused:?}");
        assert!(refused.message().contains(says), "{windows}: {refused:?}");
        let (more, name) = match (&windows["windows"], &windows["cron"]) {
            (Value::Null, Value::Null) => continue,
            (Value::Null, cron) => (json!({"mergeCron": cron}), "a"),
            (windows, Value::Null) => (json!({"mergeWindows": windows}), "b"),
            (windows, cron) => (json!({"mergeWindows": windows, "mergeCron": cron}), "c"),
        };
        let refused = w.t.admin.ask(CREATE, w.automation(name, &more)).await;
        assert_eq!(refused.outcome(), "INVALID", "{windows}: {refused:?}");
    }
    assert_eq!(w.read(&id).await["merging"], before["merging"]);
    // One that never opens has nobody wait.
    let never = json!({"kind": "DENY", "schedule": "* * * * *", "duration": 60});
    w.windows(&id, &[&never]).await;
    let refused = w.t.owner.ask(MERGE, json!({"id": id, "head": head, "wait": true})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert!(refused.message().contains("for more than a year"), "{refused:?}");
    w.t.stop().await;
}

async fn windows_are_tried_before_anything_has_them(database: TestDatabase) {
    const TRY: &str = "query ($windows: [MergeWindowAttributes]) {
      pullRequestMergeTime(mergeWindows: $windows) { open opensAt } }";
    let w = World::new(&database).await;
    // Who sees no pull request may try windows.
    let tried = async |windows: Value| {
        w.t.stranger.data(TRY, json!({"windows": windows})).await["pullRequestMergeTime"].clone()
    };
    let always = json!({"schedule": "* * * * *", "duration": 3_600});
    let never = json!({"kind": "DENY", "schedule": "* * * * *", "duration": 60});
    assert_eq!(tried(json!([])).await, json!({"open": true, "opensAt": null}));
    assert_eq!(tried(json!([always])).await, json!({"open": true, "opensAt": null}));
    assert_eq!(tried(json!([always, never])).await, json!({"open": false, "opensAt": null}));
    // It is the time that a pull request with these windows waits for.
    let (id, _) = w.open("shop").await;
    let waits = w.read(&id).await["merging"]["opensAt"].clone();
    let closed = tried(json!([w.closed])).await;
    assert_eq!((&closed["open"], &closed["opensAt"]), (&json!(false), &waits), "{closed}");
    // Which window is wrong, and what of it.
    let wrong = json!({"schedule": "0 9 * * *", "duration": 60, "timeZone": "Mars"});
    let refused = w.t.stranger.ask(TRY, json!({"windows": [always, wrong]})).await;
    assert_eq!(refused.outcome(), "INVALID", "{refused:?}");
    assert!(refused.message().contains("mergeWindows.1.timeZone"), "{refused:?}");
    assert_eq!(w.t.nobody.ask(TRY, json!({})).await.outcome(), "401");
    w.t.stop().await;
}
