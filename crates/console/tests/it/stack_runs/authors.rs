//! Whose code a run is, and who approves it therefore not.

use plural_testkit::{TestDatabase, each_database};
use serde_json::{Value, json};

use super::world::World;
use crate::api_server::Person;

each_database!(
    a_commit_on_top_hides_nobody,
    a_run_that_applied_nothing_hides_nobody,
    code_of_a_folder_that_was_never_applied_is_new,
);

impl World {
    /// A stack whose runs nobody approves who made them, and somebody who writes it.
    async fn guarded(database: &TestDatabase) -> (Self, Person) {
        let w = Self::new(database, json!({"approval": true, "forbidSelfApproval": true})).await;
        let writer = w.t.admin.add_user("writer@example.com").await;
        assert_eq!(w.update(json!({"writeBindings": [{"userId": writer.id}]})).await.outcome(), "OK");
        (w, writer)
    }

    /// A run is planned, agreed to by an administrator, and applied.
    async fn applied(&self, number: u64) {
        self.plans(number, 1).await;
        let run = self.run(number, "PENDING_APPROVAL").await;
        assert_eq!(self.approve(&self.t.admin, &run, &run["plan"]["digest"]).await.outcome(), "OK");
        self.applies(number).await;
        self.run(number, "SUCCESSFUL").await;
    }

    /// A run is planned, which whoever wrote its code may not agree to, and somebody else may.
    async fn refuses(&self, number: u64, writer: &Person, other: &Person) -> Value {
        self.plans(number, 1).await;
        let run = self.run(number, "PENDING_APPROVAL").await;
        let own = self.approve(writer, &run, &run["plan"]["digest"]).await;
        assert!(own.outcome() == "FORBIDDEN" && own.message().contains("wrote"), "{own:?}");
        assert_eq!(self.approve(other, &run, &run["plan"]["digest"]).await.outcome(), "OK");
        run
    }
}

/// Commits that come at once: the address of whoever made each, a file and its content.
fn push(w: &World, commits: &[(&str, &str, &str)]) {
    w.remote
        .import(|out| {
            for (at, (email, path, content)) in commits.iter().enumerate() {
                writeln!(out, "commit refs/heads/main\ncommitter Somebody <{email}> 180000000{at} +0000")?;
                writeln!(out, "data 1\nc")?;
                if at == 0 {
                    writeln!(out, "from refs/heads/main^0")?;
                }
                writeln!(out, "M 100644 inline {path}\ndata {}\n{content}", content.len())?;
            }
            Ok(())
        })
        .unwrap();
}

/// Whoever wrote a commit below the newest one approves it as little as whoever wrote that.
async fn a_commit_on_top_hides_nobody(database: TestDatabase) {
    let (w, writer) = World::guarded(&database).await;
    let before = w.t.admin.add_user("test@example.com").await;
    let bindings = json!({"writeBindings": [{"userId": writer.id}, {"userId": before.id}]});
    assert_eq!(w.update(bindings).await.outcome(), "OK");
    w.applied(1).await;

    let commits = [
        ("Writer@example.com", "infra/main.sh", "echo 2\n"),
        ("somebody@example.com", "modules/net/main.tf", "# 2\n"),
    ];
    push(&w, &commits);
    // What was applied before is not of this run.
    let run = w.refuses(2, &writer, &before).await;
    assert_eq!(
        (&run["sha"], &run["requiredApprovals"]),
        (&json!(w.remote.resolve("main").unwrap()), &json!(1))
    );
    w.t.stop().await;
}

/// Nobody agreed to code whose plan had no changes: whoever wrote it approves as little what a later commit makes of it.
async fn a_run_that_applied_nothing_hides_nobody(database: TestDatabase) {
    let (w, writer) = World::guarded(&database).await;
    w.applied(1).await;

    push(&w, &[("writer@example.com", "infra/main.sh", "if false; then echo 2; fi\n")]);
    w.plans(2, 0).await;
    w.run(2, "SUCCESSFUL").await;
    push(&w, &[("somebody@example.com", "infra/main.sh", "if true; then echo 2; fi\n")]);
    w.refuses(3, &writer, &w.t.admin).await;
    w.t.stop().await;
}

/// Who wrote what a stack is pointed at wrote its run, whenever that was.
async fn code_of_a_folder_that_was_never_applied_is_new(database: TestDatabase) {
    let (w, writer) = World::guarded(&database).await;
    w.plans(1, 1).await;
    w.run(1, "PENDING_APPROVAL").await;
    push(
        &w,
        &[
            ("writer@example.com", "other/main.sh", "echo 1\n"),
            ("somebody@example.com", "infra/main.sh", "echo 2\n"),
        ],
    );
    w.plans(2, 1).await;
    let run = w.run(2, "PENDING_APPROVAL").await;
    assert_eq!(
        w.approve(&writer, &run, &run["plan"]["digest"]).await.outcome(),
        "OK",
        "nothing of it is theirs"
    );
    w.applies(2).await;
    w.run(2, "SUCCESSFUL").await;

    let other = json!({
        "repositoryId": w.repository, "clusterId": w.cluster, "git": {"ref": "main", "folder": "other"},
    });
    assert_eq!(w.update(other).await.outcome(), "OK");
    w.refuses(3, &writer, &w.t.admin).await;
    w.t.stop().await;
}
