//! Code that moves between a plan and its apply: what was planned from other code than the stack reads now is not applied.

use plural_core::stack_run::RunPhase;
use plural_testkit::{TestDatabase, each_database, eventually};
use serde_json::{Value, json};

use super::world::{LONG, World};

each_database!(a_plan_whose_code_moved_is_not_applied);

const CREATE: &str = "mutation ($a: StackAttributes!) { createStack(attributes: $a) { id } }";
const MOVED: &str = "the code moved since the plan was made";

/// A stack that reads another folder of the repository: its runs tell which commits the console knows.
async fn elsewhere(w: &World) -> String {
    let all = json!({
        "name": "elsewhere", "type": "CUSTOM", "projectId": w.t.project, "repositoryId": w.repository,
        "clusterId": w.cluster, "git": {"ref": "main", "folder": "docs"}, "commands": [{"cmd": "make"}],
        "deleteCommands": [{"cmd": "undo"}],
    });
    let made = w.t.owner.data(CREATE, json!({"a": all})).await;
    made["createStack"]["id"].as_str().unwrap().to_owned()
}

impl World {
    /// Pushes these files and another document, and waits until the console knows the commit.
    async fn pushes(&self, elsewhere: &str, text: &str, files: &[(&str, &str)]) {
        let files = files.iter().copied().chain([("docs/a.md", text)]);
        let sha = self.remote.push_files(files).unwrap();
        eventually(LONG, async || {
            let runs = self.runs_of(elsewhere).await;
            let is_known = runs.iter().any(|run| run["sha"] == json!(sha));
            is_known.then_some(()).ok_or_else(|| format!("nobody knows {sha}: {runs:#?}"))
        })
        .await;
    }

    /// The code of a run moved: it ends with these words.
    async fn is_refused(&self, number: u64) {
        let run = self.run(number, "FAILED").await;
        let error = run["error"].as_str().unwrap();
        assert!(error.starts_with(MOVED) && error.ends_with("plan again"), "{run}");
    }
}

async fn a_plan_whose_code_moved_is_not_applied(database: TestDatabase) {
    let w = World::new(&database, json!({"approval": true})).await;
    let docs = elsewhere(&w).await;
    w.run_of(&docs, 1, "PENDING").await;

    // Others commit to the same repository.
    w.plans(1, 1).await;
    let run = w.run(1, "PENDING_APPROVAL").await;
    w.pushes(&docs, "two\n", &[]).await;
    assert_eq!(w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    w.applies(1).await;
    assert_eq!(w.run(1, "SUCCESSFUL").await["error"], Value::Null);

    // Between the approval and the Job that applies.
    assert_eq!(w.trigger(&w.t.owner, false, false).await.outcome(), "OK");
    w.plans(2, 1).await;
    let run = w.run(2, "PENDING_APPROVAL").await;
    assert_eq!(w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    let run = w.run(2, "PENDING").await;
    let apply = w.take(&run, RunPhase::Apply, 0).await;
    w.pushes(&docs, "three\n", &[("modules/net/main.tf", "# 2\n")]).await;
    let (status, body) = apply.get("input").await;
    let told = String::from_utf8_lossy(&body);
    assert!(status == 409 && told.contains(MOVED), "{status} {told}");
    w.is_refused(2).await;

    // Of a paused stack, no commit makes a run: the plan that waits is the newest that there is.
    w.plans(3, 1).await;
    let run = w.run(3, "PENDING_APPROVAL").await;
    assert_eq!(w.update(json!({"paused": true})).await.outcome(), "OK");
    w.pushes(&docs, "four\n", &[("infra/main.sh", "echo 2\n")]).await;
    let digest = &run["plan"]["digest"];
    w.approve(&w.t.owner, &run, digest).await;
    w.is_refused(3).await;
    assert_eq!(w.runs().await.len(), 3);

    // What is destroyed is what was applied, whatever was committed since.
    assert_eq!(w.trigger(&w.t.owner, false, true).await.outcome(), "OK");
    w.plans(4, 1).await;
    let run = w.run(4, "PENDING_APPROVAL").await;
    assert_eq!((&run["kind"], &run["sha"]), (&json!("DESTROY"), &w.run(1, "SUCCESSFUL").await["sha"]));
    assert_eq!(w.approve(&w.t.owner, &run, &run["plan"]["digest"]).await.outcome(), "OK");
    w.applies(4).await;
    w.run(4, "SUCCESSFUL").await;
    w.t.stop().await;
}
