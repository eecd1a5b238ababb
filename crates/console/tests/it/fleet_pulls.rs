//! Plans of services on pull requests, at a git host on loopback: what it is told, and what a fork waits for. No agent is connected: that,
//! too, is a result.

use std::collections::BTreeMap;
use std::time::Duration;

use plural_app::job::Job as _;
use plural_app::jobs::{BegunFleetPlan, FollowFleetBase, LookFleetPlan, MovedBranches, RenewFleetPlan};
use plural_core::access::Actor;
use plural_core::pull_request::{HostPullRequest, PrStatus};
use plural_testkit::{GitRemote, GitServer, ScmDialect, ScmServer, TestDatabase, each_database, eventually};
use serde_json::{Value, json};

use crate::api_server::{Person, TestServer};

const LONG: Duration = Duration::from_mins(1);
const REFRESH: &str = "mutation ($id: ID!) { refreshPullRequest(id: $id) { id head readError } }";
const PLANS: &str = "query ($id: ID!) { fleetPlans(pullRequestId: $id, last: 20) { edges { node {
  id phase ref sha base baseSha merged movedSha composed untouched error reach { parts { name state } } } } } }";
const RELEASE: &str =
    "mutation ($id: ID!, $sha: String!) { releaseFleetPlan(id: $id, sha: $sha) { id phase } }";

const REPLAN: &str = "mutation ($id: ID!) { replanPullRequest(id: $id) { id phase } }";
/// Longer ago than a plan has to stand.
const LONG_AGO: &str = "UPDATE fleet_plans SET created_at = '2001-01-01T00:00:00+00:00'";
const CREATE: &str = "mutation ($r: ID!, $ref: String!, $pull: ID) {
  createFleetPlan(repositoryId: $r, ref: $ref, pullRequestId: $pull) { id phase } }";

each_database!(
    each_head_is_planned_and_its_host_is_told,
    a_fork_waits_for_a_person,
    a_commit_that_the_console_could_not_look_at_is_told_and_tried_again,
    a_plan_of_a_closed_pull_request_is_not_tried_again,
    what_others_changed_on_the_base_is_no_part_of_a_plan,
    a_commit_that_does_not_merge_has_no_plan,
    services_that_follow_the_default_branch_are_planned,
    services_of_several_sources_are_planned,
    a_merge_while_a_plan_is_made_ends_both,
    a_plan_is_made_again_once_its_base_moves_where_that_matters,
    what_does_not_merge_any_more_is_told,
    a_plan_that_failed_is_made_again_once_its_base_lets_it,
    the_released_commit_of_a_fork_is_planned_again,
    a_pull_request_that_goes_to_another_branch_is_planned_again,
);

/// A service whose repository is at a git host.
struct Hosted {
    t: TestServer,
    host: ScmServer,
    remote: GitRemote,
    automation: Value,
    cluster: Value,
    repository: Value,
    service: Value,
    _git: GitServer,
}

fn map(value: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{key: \"{value}\"}}\n")
}

impl Hosted {
    async fn new(database: &TestDatabase) -> Self {
        Self::on(TestServer::on(database).await).await
    }

    /// One that hears of its repository by itself.
    async fn polling(database: &TestDatabase) -> Self {
        Self::on(TestServer::on_with(database, |config| config.poll_seconds = 1).await).await
    }

    async fn on(t: TestServer) -> Self {
        let host = ScmServer::start(ScmDialect::Gitea).unwrap();
        let remote = GitRemote::named("plural/fleet.git").unwrap();
        let git = GitServer::start(remote.root()).unwrap();
        remote.push_files([("web/a.yaml", map("1"))]).unwrap();
        let connection = json!({
            "name": "host", "type": "GITEA", "projectId": t.project, "apiUrl": host.api_url(), "token": host.token(),
            "repositories": ["plural/*"],
        });
        let connection = t.admin.scm_connection(&connection).await;
        let automation = json!({
            "name": "add", "title": "Add", "message": "Adds", "projectId": t.project,
            "connectionId": connection,
        });
        let automation = t.admin.pr_automation(&automation).await;
        let (cluster, repository) =
            (t.admin.cluster("blue").await, t.admin.repository(&git.url(&remote)).await);
        let service = t.admin.service(&cluster, &repository, "web").await["id"].clone();
        let repository = repository["id"].clone();
        let hosted = Self { t, host, remote, automation, cluster, repository, service, _git: git };
        hosted.stands(&hosted.service, None).await;
        hosted
    }

    /// Waits until a service is at a commit; without one, at any.
    async fn stands(&self, service: &Value, sha: Option<&str>) {
        eventually(LONG, async || {
            let ask = "query ($id: ID!) { serviceDeployment(id: $id) { sha } }";
            let found = self.t.admin.data(ask, json!({"id": service})).await["serviceDeployment"].clone();
            let is_there = found["sha"].as_str().is_some_and(|at| sha.is_none_or(|sha| sha == at));
            if is_there { Ok(()) } else { Err(found.to_string()) }
        })
        .await;
    }

    /// A branch with one file more than `main` has now, in git and at the host.
    fn branch(&self, branch: &str, path: &str) -> String {
        self.remote.set_ref(&format!("refs/heads/{branch}"), "main").unwrap();
        let sha = self.remote.commit(branch).file(path, map("1")).push().unwrap();
        self.host.push_commit(branch, &sha, &[(path, &map("1"))]);
        sha
    }

    /// The plan of an open pull request of a branch, and its number.
    async fn plan_of(&self, branch: &str, sha: &str, phase: &str) -> (Value, u64) {
        let (id, number) = self.opened(branch).await;
        (self.planned(&id, sha, phase).await, number)
    }

    /// Opens a pull request of a branch, records it and reads it back; its id, and its number.
    async fn opened(&self, branch: &str) -> (String, u64) {
        let number = self.host.open_from(branch, false);
        let id = self.record(number, branch).await;
        self.refresh(&id).await;
        (id, number)
    }

    /// [`Self::opened`], of the branch `fork` of a fork: git finds its commit by the name of its pull request alone.
    async fn opened_by_fork(&self, sha: &str) -> (String, u64) {
        let number = self.host.open_from("fork", true);
        self.remote.set_ref(&format!("refs/pull/{number}/head"), sha).unwrap();
        self.remote.delete_ref("refs/heads/fork").unwrap();
        let id = self.record(number, "fork").await;
        self.refresh(&id).await;
        (id, number)
    }

    /// A commit on a branch that begins at `main`, in git and at the host.
    fn push(&self, branch: &str, value: &str) -> String {
        let reference = format!("refs/heads/{branch}");
        if self.remote.resolve(&reference).is_err() {
            self.remote.set_ref(&reference, "main").unwrap();
        }
        let sha = self.remote.commit(branch).file("web/a.yaml", map(value)).push().unwrap();
        self.host.push_commit(branch, &sha, &[("web/a.yaml", &map(value))]);
        sha
    }

    /// Records a pull request of the host; its id.
    async fn record(&self, number: u64, branch: &str) -> String {
        let told = HostPullRequest {
            url: format!("http://127.0.0.1/plural/fleet/pulls/{number}"),
            repository: self.host.repository().to_owned(),
            branch: branch.to_owned(),
            title: "More".to_owned(),
            status: PrStatus::Open,
            labels: Vec::new(),
        };
        let app = self.t.console.app();
        let automation = self.automation.as_str().unwrap().parse().unwrap();
        let opened = app.pull_request_record(&app.ctx(Actor::System), automation, told).await.unwrap();
        opened.id.to_string()
    }

    async fn refresh(&self, id: &str) {
        let read = self.t.admin.data(REFRESH, json!({"id": id})).await["refreshPullRequest"].clone();
        assert_eq!(read["readError"], Value::Null, "{read}");
    }

    /// The plan of a commit, once it is in a phase.
    async fn planned(&self, id: &str, sha: &str, phase: &str) -> Value {
        eventually(LONG, async || {
            let all = plans(&self.t.admin, id).await;
            let found = all.iter().find(|plan| plan["ref"] == sha && plan["phase"] == phase).cloned();
            found.ok_or_else(|| format!("{all:?}"))
        })
        .await
    }

    /// A service of the repository that is read from this folder of a branch.
    async fn reads(&self, branch: &str, folder: &str) -> Value {
        let attributes = json!({
            "name": format!("{branch}-{folder}"), "namespace": "shop", "repositoryId": self.repository,
            "git": {"ref": branch, "folder": folder},
        });
        self.deploys(attributes).await
    }

    /// Creates a service of the cluster; its id.
    async fn deploys(&self, attributes: Value) -> Value {
        let create = "mutation ($id: ID, $a: ServiceDeploymentAttributes!) {
          createServiceDeployment(clusterId: $id, attributes: $a) { id } }";
        let made = self.t.admin.data(create, json!({"id": self.cluster["id"], "a": attributes})).await;
        made["createServiceDeployment"]["id"].clone()
    }

    /// A commit on `main`, of one file.
    fn moves(&self, path: &str, value: &str) -> String {
        self.remote.commit("main").file(path, map(value)).push().unwrap()
    }

    /// The plan of a pull request with its base there, once it is in a phase.
    async fn planned_on(&self, id: &str, base: &str, phase: &str) -> Value {
        eventually(LONG, async || {
            let all = plans(&self.t.admin, id).await;
            let found = all.iter().find(|plan| plan["baseSha"] == base && plan["phase"] == phase).cloned();
            found.ok_or_else(|| format!("{all:?}"))
        })
        .await
    }

    /// Looks where the branches of plans went, as often as a console may that ends before it says so.
    async fn looks_again(&self) {
        let repository = self.repository.as_str().unwrap().parse().unwrap();
        let moved = MovedBranches { repository, heads: BTreeMap::new() };
        FollowFleetBase::run(self.t.console.app(), moved).await.unwrap();
    }

    /// As if each attempt to look at the commit of a plan had ended with its console, after it was made again so often.
    async fn looks_in_vain(&self, plan: &Value, again: usize) {
        self.t.sql("UPDATE fleet_plans SET phase = 'LOOKING' WHERE phase = 'DONE'").await;
        let begun = BegunFleetPlan { id: plan["id"].as_str().unwrap().parse().unwrap(), again };
        LookFleetPlan::died(self.t.console.app(), begun, "the console ended").await.unwrap();
    }

    /// The one comment of a pull request, once it says this.
    async fn comment(&self, number: u64, says: &str) -> String {
        eventually(LONG, async || {
            let all = self.host.comments(number);
            assert!(all.len() < 2, "{all:?}");
            let found = all.iter().map(|(_, body)| body.clone()).find(|body| body.contains(says));
            found.ok_or_else(|| format!("nothing says {says:?}: {all:?}"))
        })
        .await
    }

    /// The check of services, once it stands so.
    async fn check(&self, sha: &str, state: &str) {
        eventually(LONG, async || {
            let all = self.host.statuses(sha);
            let last = all.iter().rfind(|(context, _)| context == "plural/services");
            if last.is_some_and(|(_, now)| now == state) { Ok(()) } else { Err(format!("{all:?}")) }
        })
        .await;
    }
}

async fn plans(by: &Person, id: &str) -> Vec<Value> {
    let found = by.data(PLANS, json!({"id": id})).await;
    let edges = found["fleetPlans"]["edges"].as_array().unwrap();
    edges.iter().map(|edge| edge["node"].clone()).collect()
}

async fn each_head_is_planned_and_its_host_is_told(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    let first = h.push("feature", "2");
    let (id, number) = h.opened("feature").await;
    let plan = h.planned(&id, &first, "DONE").await;
    assert_eq!((&plan["sha"], &plan["base"]), (&json!(first), &json!("main")), "{plan}");
    assert_eq!(plan["reach"]["parts"], json!([{"name": "web", "state": "AWAY"}]), "{plan}");
    let short: String = first.chars().take(8).collect();
    let comment = h.comment(number, &format!("Services at `{short}`")).await;
    h.comment(number, "agent away").await;
    assert!(!comment.contains("key:") && !comment.contains("\"2\""), "{comment}");
    h.check(&first, "success").await;

    // The same head is no news; another one is, and its plan is told in the same comment.
    h.refresh(&id).await;
    let second = h.push("feature", "3");
    h.refresh(&id).await;
    h.planned(&id, &second, "DONE").await;
    let short: String = second.chars().take(8).collect();
    h.comment(number, &format!("Services at `{short}`")).await;
    h.check(&second, "success").await;
    assert_eq!(plans(&h.t.admin, &id).await.len(), 2);
    // Whoever does not see the project sees none of it.
    assert!(plans(&h.t.stranger, &id).await.is_empty());
}

async fn a_fork_waits_for_a_person(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    let sha = h.push("fork", "2");
    let (id, number) = h.opened_by_fork(&sha).await;
    let held = h.planned(&id, &sha, "HELD").await;
    h.comment(number, "comes from a fork").await;
    h.check(&sha, "pending").await;
    let release = async |by: &Person, sha: &str| by.ask(RELEASE, json!({"id": held["id"], "sha": sha})).await;
    assert_eq!(release(&h.t.stranger, &sha).await.outcome(), "NOT_FOUND");
    assert_eq!(release(&h.t.reader, &sha).await.outcome(), "FORBIDDEN");
    assert_eq!(release(&h.t.owner, "0000000").await.outcome(), "CONFLICT");
    // Nor does a name release it, which may lead to another commit by then, nor a plan that is asked for.
    let create = async |by: &Person, reference: &str| {
        by.ask(CREATE, json!({"r": h.repository, "ref": reference, "pull": id})).await
    };
    for reference in ["main", &format!("refs/pull/{number}/head"), &sha[..12]] {
        let refused = create(&h.t.owner, reference).await;
        assert_eq!(refused.outcome(), "CONFLICT", "{reference}: {refused:?}");
    }
    assert_eq!(plans(&h.t.admin, &id).await[0]["phase"], "HELD");
    assert_eq!(release(&h.t.owner, &sha).await.outcome(), "OK");
    let plan = h.planned(&id, &sha, "DONE").await;
    assert_eq!(plan["reach"]["parts"], json!([{"name": "web", "state": "AWAY"}]), "{plan}");
    h.check(&sha, "success").await;
    assert_eq!(release(&h.t.owner, &sha).await.outcome(), "CONFLICT", "once is enough");
}

async fn a_commit_that_the_console_could_not_look_at_is_told_and_tried_again(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    let sha = h.push("feature", "2");
    let (id, number) = h.opened("feature").await;
    let plan = h.planned(&id, &sha, "DONE").await;
    h.check(&sha, "success").await;
    h.looks_in_vain(&plan, 0).await;
    let failed = h.planned(&id, &sha, "FAILED").await;
    assert!(failed["error"].as_str().unwrap().contains("tries again at 2"), "{failed}");
    // Its branch is followed all the same.
    assert_eq!(failed["baseSha"], json!(h.remote.resolve("refs/heads/main").unwrap()), "{failed}");
    h.comment(number, "tries again at 2").await;
    h.check(&sha, "failure").await;

    // Its time comes. A new job has the workers look.
    h.t.sql("UPDATE jobs SET run_after = 0 WHERE kind = 'renew_fleet_plan'").await;
    h.t.admin.data(CREATE, json!({"r": h.repository, "ref": "main"})).await;
    let made = h.planned(&id, &sha, "DONE").await;
    assert_ne!(made["id"], plan["id"]);
    h.comment(number, "agent away").await;
    h.check(&sha, "success").await;

    // After the last time it waits for a person.
    h.looks_in_vain(&made, 3).await;
    let all = plans(&h.t.admin, &id).await;
    let last = all.iter().find(|plan| plan["id"] == made["id"]).unwrap();
    let error = "the console could not look at the commit (the console ended): ask for the plan again with `plural pr replan`";
    assert_eq!((&last["phase"], &last["error"]), (&json!("FAILED"), &json!(error)), "{last}");
    h.comment(number, "There is no plan of this commit: the console says why").await;
    h.check(&sha, "failure").await;
}

async fn a_plan_of_a_closed_pull_request_is_not_tried_again(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    let sha = h.push("feature", "2");
    let (id, number) = h.opened("feature").await;
    let plan = h.planned(&id, &sha, "DONE").await;
    h.looks_in_vain(&plan, 0).await;
    h.host.close_by_another(number);
    h.refresh(&id).await;
    let begun = BegunFleetPlan { id: plan["id"].as_str().unwrap().parse().unwrap(), again: 1 };
    RenewFleetPlan::run(h.t.console.app(), begun).await.unwrap();
    let all = plans(&h.t.admin, &id).await;
    assert_eq!((all.len(), &all[0]["id"], &all[0]["phase"]), (1, &plan["id"], &json!("FAILED")), "{all:?}");
}

async fn what_others_changed_on_the_base_is_no_part_of_a_plan(database: TestDatabase) {
    let h = Hosted::polling(&database).await;
    let (elsewhere, own) = (h.branch("elsewhere", "docs/x.yaml"), h.branch("own", "web/b.yaml"));
    let moved = h.remote.commit("main").file("web/a.yaml", map("9")).push().unwrap();
    h.stands(&h.service, Some(&moved)).await;
    let (plan, number) = h.plan_of("elsewhere", &elsewhere, "DONE").await;
    assert_eq!((&plan["baseSha"], &plan["merged"]), (&json!(moved), &json!(true)), "{plan}");
    assert_eq!(plan["sha"], json!(elsewhere), "the commit is the one that is read: {plan}");
    assert_eq!(plan["reach"]["parts"], json!([]), "{plan}");
    let at: String = moved.chars().take(8).collect();
    h.comment(number, &format!("Planned as merged into main at `{at}`")).await;
    h.check(&elsewhere, "success").await;
    let (plan, _) = h.plan_of("own", &own, "DONE").await;
    assert_eq!((&plan["baseSha"], &plan["merged"]), (&json!(moved), &json!(true)), "{plan}");
    assert_eq!(plan["reach"]["parts"], json!([{"name": "web", "state": "AWAY"}]), "{plan}");
    // One that begins where the base is needs no merge.
    let fresh = h.branch("fresh", "web/c.yaml");
    let (plan, _) = h.plan_of("fresh", &fresh, "DONE").await;
    assert_eq!((&plan["baseSha"], &plan["merged"]), (&json!(moved), &json!(false)), "{plan}");
    assert_eq!(plan["reach"]["parts"], json!([{"name": "web", "state": "AWAY"}]), "{plan}");
}

async fn a_commit_that_does_not_merge_has_no_plan(database: TestDatabase) {
    let h = Hosted::polling(&database).await;
    let sha = h.push("feature", "2");
    let moved = h.remote.commit("main").file("web/a.yaml", map("9")).push().unwrap();
    h.stands(&h.service, Some(&moved)).await;
    let (plan, number) = h.plan_of("feature", &sha, "FAILED").await;
    assert_eq!(plan["error"], "cannot be planned: conflicts with main in web/a.yaml", "{plan}");
    h.check(&sha, "failure").await;
    h.comment(number, "There is no plan of this commit").await;
}

async fn services_that_follow_the_default_branch_are_planned(database: TestDatabase) {
    let h = Hosted::new(&database).await;
    let attributes = json!({
        "name": "head", "namespace": "shop", "repositoryId": h.repository, "git": {"ref": "HEAD", "folder": "web"},
    });
    h.stands(&h.deploys(attributes).await, None).await;
    let sha = h.push("feature", "2");
    let (plan, _) = h.plan_of("feature", &sha, "DONE").await;
    let away = |name: &str| json!({"name": name, "state": "AWAY"});
    assert_eq!(plan["reach"]["parts"], json!([away("head"), away("web")]), "{plan}");
    // Where nothing follows the branch by its name, it is still the default one.
    let delete = "mutation ($id: ID!) { deleteServiceDeployment(id: $id) { id } }";
    h.t.admin.data(delete, json!({"id": h.service})).await;
    let sha = h.push("other", "3");
    let (plan, _) = h.plan_of("other", &sha, "DONE").await;
    let parts = plan["reach"]["parts"].as_array().unwrap();
    assert!(parts.contains(&away("head")), "{plan}");
}

async fn services_of_several_sources_are_planned(database: TestDatabase) {
    let h = Hosted::polling(&database).await;
    let at =
        h.remote.commit("main").file("extra/b.yaml", map("1")).file("far/c.yaml", map("1")).push().unwrap();
    let make = async |name: &str, folder: &str| {
        let source =
            json!({"path": "more", "repositoryId": h.repository, "git": {"ref": "main", "folder": folder}});
        let attributes = json!({
            "name": name, "namespace": "shop", "repositoryId": h.repository, "git": {"ref": "main", "folder": "web"},
            "sources": [source],
        });
        h.stands(&h.deploys(attributes).await, Some(&at)).await;
    };
    make("both", "extra").await;
    make("other", "far").await;
    let sha = h.branch("feature", "extra/d.yaml");
    let (plan, number) = h.plan_of("feature", &sha, "DONE").await;
    assert_eq!(plan["reach"]["parts"], json!([{"name": "both", "state": "AWAY"}]), "{plan}");
    assert_eq!(plan["composed"], 0, "{plan}");
    assert_eq!(plan["untouched"], 2, "{plan}");
    h.comment(number, "| blue / both |").await;
    // A folder that is gone at the commit is told with the service.
    h.remote.set_ref("refs/heads/gone", "main").unwrap();
    let sha = h.remote.commit("gone").remove("far/c.yaml").push().unwrap();
    h.host.push_commit("gone", &sha, &[]);
    let (plan, _) = h.plan_of("gone", &sha, "DONE").await;
    assert_eq!(plan["reach"]["parts"], json!([{"name": "other", "state": "FAILED"}]), "{plan}");
    h.check(&sha, "failure").await;
}

async fn a_merge_while_a_plan_is_made_ends_both(database: TestDatabase) {
    let h = Hosted::polling(&database).await;
    let sha = h.push("feature", "2");
    let (id, number) = h.opened("feature").await;
    // The plan has begun, and nobody waits for it. With the merge the branch goes.
    let merge = "mutation ($id: ID!) { mergePullRequest(id: $id) { status mergeCommit } }";
    let merged = h.t.admin.data(merge, json!({"id": id})).await["mergePullRequest"].clone();
    assert_eq!(merged["status"], "MERGED", "{merged}");
    let moved = h.remote.commit("main").file("web/a.yaml", map("2")).push().unwrap();
    h.remote.delete_ref("refs/heads/feature").unwrap();
    h.stands(&h.service, Some(&moved)).await;
    let plan = eventually(LONG, async || {
        let all = plans(&h.t.admin, &id).await;
        let ends = |plan: &&Value| ["DONE", "FAILED", "SUPERSEDED"].iter().any(|end| plan["phase"] == *end);
        all.iter().find(ends).cloned().ok_or_else(|| format!("{all:?}"))
    })
    .await;
    assert_eq!((&plan["ref"], plans(&h.t.admin, &id).await.len()), (&json!(sha), 1), "{plan}");
    // No check says for ever that something is to come, and there is at most one comment.
    eventually(LONG, async || {
        let all = h.host.statuses(&sha);
        let last = all.iter().rfind(|(context, _)| context == "plural/services");
        if last.is_some_and(|(_, now)| now != "pending") { Ok(()) } else { Err(format!("{all:?}")) }
    })
    .await;
    assert!(h.host.comments(number).len() < 2, "{:?}", h.host.comments(number));
    // Nothing is merged twice, and nothing is planned any more.
    h.refresh(&id).await;
    assert_eq!(plans(&h.t.admin, &id).await.len(), 1);
    h.stands(&h.service, Some(&moved)).await;
}

async fn a_plan_is_made_again_once_its_base_moves_where_that_matters(database: TestDatabase) {
    let h = Hosted::polling(&database).await;
    let at = h.moves("docs/x.yaml", "1");
    let docs = h.reads("main", "docs").await;
    h.stands(&docs, Some(&at)).await;
    let sha = h.branch("own", "web/b.yaml");
    let (id, number) = h.opened("own").await;
    let first = h.planned_on(&id, &at, "DONE").await;
    let only = async || {
        let all = plans(&h.t.admin, &id).await;
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    };

    // What others do elsewhere changes nothing of what it is about.
    let at = h.moves("docs/x.yaml", "2");
    h.stands(&docs, Some(&at)).await;
    h.looks_again().await;
    let same = only().await;
    assert_eq!((&same["id"], &same["movedSha"]), (&first["id"], &Value::Null), "{same}");

    // What they do to the service does. On a busy branch it is told, and not planned each time.
    let at = h.moves("web/a.yaml", "9");
    let moved = eventually(LONG, async || {
        let now = only().await;
        if now["movedSha"] == at.as_str() { Ok(now) } else { Err(now.to_string()) }
    })
    .await;
    assert_eq!((&moved["id"], &moved["phase"]), (&first["id"], &json!("DONE")), "{moved}");
    let short: String = at.chars().take(8).collect();
    h.comment(number, &format!("main has moved on to `{short}` since")).await;
    h.check(&sha, "success").await;

    // Whoever asks has it planned at once.
    for (by, expected) in
        [(&h.t.nobody, "401"), (&h.t.stranger, "NOT_FOUND"), (&h.t.reader, "FORBIDDEN"), (&h.t.owner, "OK")]
    {
        assert_eq!(by.ask(REPLAN, json!({"id": id})).await.outcome(), expected);
    }
    let asked = h.planned_on(&id, &at, "DONE").await;
    assert_eq!((&asked["ref"], &asked["movedSha"]), (&json!(sha), &Value::Null), "{asked}");
    assert_eq!(asked["reach"]["parts"], json!([{"name": "web", "state": "AWAY"}]), "{asked}");
    h.comment(number, &format!("Planned as merged into main at `{short}`")).await;

    // One that stood long enough is made again by itself, and once.
    h.t.sql(LONG_AGO).await;
    let at = h.moves("web/a.yaml", "10");
    let newest = h.planned_on(&id, &at, "DONE").await;
    h.looks_again().await;
    let all = plans(&h.t.admin, &id).await;
    // Those that it took the place of leave room for others: the last one stays.
    let known: Vec<&Value> = all.iter().map(|plan| &plan["id"]).collect();
    assert_eq!(known, [&asked["id"], &newest["id"]], "{all:?}");
    // One that is merged or closed is not followed any more.
    h.t.sql("UPDATE pull_requests SET status = 'CLOSED'").await;
    let refused = h.t.owner.ask(REPLAN, json!({"id": id})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
}

async fn what_does_not_merge_any_more_is_told(database: TestDatabase) {
    let h = Hosted::polling(&database).await;
    let sha = h.push("feature", "2");
    let (plan, number) = h.plan_of("feature", &sha, "DONE").await;
    assert_eq!(plan["merged"], false, "{plan}");
    h.check(&sha, "success").await;
    h.t.sql(LONG_AGO).await;
    h.moves("web/a.yaml", "9");
    h.comment(number, "There is no plan of this commit").await;
    h.check(&sha, "failure").await;
}

async fn a_plan_that_failed_is_made_again_once_its_base_lets_it(database: TestDatabase) {
    let h = Hosted::polling(&database).await;
    let sha = h.push("feature", "2");
    let at = h.moves("web/a.yaml", "9");
    h.stands(&h.service, Some(&at)).await;
    let (id, _) = h.opened("feature").await;
    let failed = h.planned_on(&id, &at, "FAILED").await;
    assert_eq!(failed["error"], "cannot be planned: conflicts with main in web/a.yaml", "{failed}");
    // The same conflict on another commit is no news, however long the plan stood.
    h.t.sql(LONG_AGO).await;
    let at = h.moves("web/a.yaml", "10");
    h.stands(&h.service, Some(&at)).await;
    h.looks_again().await;
    let all = plans(&h.t.admin, &id).await;
    assert_eq!((all.len(), &all[0]["id"], &all[0]["movedSha"]), (1, &failed["id"], &Value::Null), "{all:?}");
    // Back where the branch began, it merges.
    let at = h.moves("web/a.yaml", "1");
    h.planned_on(&id, &at, "DONE").await;
    h.check(&sha, "success").await;
}

async fn the_released_commit_of_a_fork_is_planned_again(database: TestDatabase) {
    let h = Hosted::polling(&database).await;
    let sha = h.branch("fork", "web/b.yaml");
    let (id, _) = h.opened_by_fork(&sha).await;
    let held = h.planned(&id, &sha, "HELD").await;
    h.t.sql(LONG_AGO).await;
    // Neither a branch that moves nor somebody who asks releases it.
    let at = h.moves("web/a.yaml", "9");
    h.stands(&h.service, Some(&at)).await;
    h.looks_again().await;
    let refused = h.t.owner.ask(REPLAN, json!({"id": id})).await;
    assert_eq!(refused.outcome(), "CONFLICT", "{refused:?}");
    assert_eq!(plans(&h.t.admin, &id).await[0]["phase"], "HELD");
    let released = h.t.owner.ask(RELEASE, json!({"id": held["id"], "sha": sha})).await;
    assert_eq!(released.outcome(), "OK", "{released:?}");
    h.planned_on(&id, &at, "DONE").await;
    // To write is not enough to have what a fork wrote planned again.
    let role =
        "mutation { createRole(attributes: {name: \"writer\", actions: [\"read\", \"write\"]}) { id } }";
    let role = h.t.admin.data(role, json!({})).await["createRole"]["id"].clone();
    let bind = "mutation ($r: ID, $u: ID!, $p: ID) { changeBindings(roleId: $r, add: [{userId: $u}], projectId: $p) }";
    h.t.admin.data(bind, json!({"r": role, "u": h.t.stranger.id, "p": h.t.project})).await;
    let before = plans(&h.t.admin, &id).await.len();
    let refused = h.t.stranger.ask(REPLAN, json!({"id": id})).await;
    assert_eq!(refused.outcome(), "FORBIDDEN", "{refused:?}");
    assert_eq!(plans(&h.t.admin, &id).await.len(), before);
    // The commit is the one that somebody has read: with its branch elsewhere it is planned again.
    h.t.sql(LONG_AGO).await;
    let at = h.moves("web/a.yaml", "10");
    let plan = h.planned_on(&id, &at, "DONE").await;
    assert_eq!((&plan["ref"], &plan["merged"]), (&json!(sha), &json!(true)), "{plan}");
}

async fn a_pull_request_that_goes_to_another_branch_is_planned_again(database: TestDatabase) {
    let h = Hosted::polling(&database).await;
    h.remote.set_ref("refs/heads/release", "main").unwrap();
    let service = h.reads("release", "web").await;
    h.stands(&service, None).await;
    let sha = h.push("feature", "2");
    let (id, number) = h.opened("feature").await;
    let plan = h.planned(&id, &sha, "DONE").await;
    assert_eq!(plan["reach"]["parts"], json!([{"name": "web", "state": "AWAY"}]), "{plan}");
    h.host.push_commit("release", &h.remote.resolve("refs/heads/main").unwrap(), &[]);
    h.host.retarget_by_another(number, "release");
    h.refresh(&id).await;
    let plan = eventually(LONG, async || {
        let all = plans(&h.t.admin, &id).await;
        let found = all.iter().find(|plan| plan["base"] == "release" && plan["phase"] == "DONE").cloned();
        found.ok_or_else(|| format!("{all:?}"))
    })
    .await;
    assert_eq!(plan["reach"]["parts"], json!([{"name": "release-web", "state": "AWAY"}]), "{plan}");
}
