//! Whoever merged the code of a run does not approve that.

use chrono::TimeDelta;
use plural_app::policy::RoleChange;
use plural_app::pull_request_life::{PullRequestLifeStore as _, PullRequestRead};
use plural_app::pull_request_merge::PullRequestMergeStore as _;
use plural_app::stack_run::RunMove;
use plural_core::Error;
use plural_core::ids::StackRunId;
use plural_core::policy::Role;
use plural_core::pull_request::PrStatus;
use plural_core::pull_request_life::{PrFacts, PrLife, PrLinks};
use plural_core::stack::StackChange;
use plural_core::stack_run::{RunKind, RunPlan, RunSource, RunStatus, RunTrigger};
use plural_core::stack_spec::{StackApproval, StackSpec};
use plural_core::user::User;
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait as _, DbBackend, Statement, TransactionTrait as _};

use super::{Ground, plan, source};
use crate::door::subject;
use crate::pull_request::{automation, told};

each_database!(
    whoever_merged_the_code_of_a_run_does_not_approve_it,
    whoever_merged_what_is_not_read_back_does_not_approve_it,
    pull_requests_of_many_commits_are_found_by_indexes,
);

/// A run of this commit that waits for approval, where nobody approves what is their own, and the digest of its plan. These may approve it.
async fn waiting(ground: &Ground, commit: &str, people: &[&User]) -> (StackRunId, String) {
    let (app, admin) = (&ground.door.app, &ground.door.admin);
    let approval = StackApproval { required: true, forbid_self: true, ..StackApproval::default() };
    let spec = StackSpec { approval, ..StackSpec::default() };
    let change = StackChange { spec: Some(spec), ..StackChange::default() };
    app.stack_update(admin, ground.stack.id, &change).await.unwrap();
    let add = people.iter().map(|user| subject(user)).collect();
    let change = RoleChange { role: Role::Write.into(), add, remove: Vec::new() };
    app.binding_change(admin, ground.stack.project_id, &change).await.unwrap();
    let run = ground.asked(RunKind::Apply, RunTrigger::Manual).await.id;
    let made = RunSource { commits: vec![commit.to_owned()], ..source(7) };
    ground.moved(run, RunMove { source: Some(made), ..ground.change() }).await.unwrap();
    assert_eq!(ground.next().await, Some(run));
    ground.to(run, RunStatus::Running).await;
    let planned = RunPlan { state_serial: None, ..plan(ground.now()) };
    let digest = planned.digest.clone();
    let waits = RunMove { to: Some(RunStatus::PendingApproval), plan: Some(planned), ..ground.change() };
    ground.moved(run, waits).await.unwrap();
    (run, digest)
}

async fn whoever_merged_what_is_not_read_back_does_not_approve_it(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, app, admin) = (&ground.door, &ground.door.app, &ground.door.admin);
    let (bob, carol) = (door.user("bob").await, door.user("carol").await);
    let (run, digest) = waiting(&ground, &"b".repeat(40), &[&bob, &carol]).await;
    let (as_bob, as_carol) = (door.as_user(&bob).await, door.as_user(&carol).await);
    let automation = automation(door).await;
    let opened = app.pull_request_record(admin, automation.id, told(1, PrStatus::Open)).await.unwrap();
    door.database.pull_request_merger(opened.id, bob.email.as_str(), ground.now()).await.unwrap();

    let since = async |at| door.database.pull_requests_unread_merges(at).await.unwrap();
    let unread = since(ground.now() - TimeDelta::minutes(1)).await;
    assert_eq!(unread.len(), 1, "{unread:?}");
    assert!(since(ground.now() + TimeDelta::minutes(1)).await.is_empty());
    let sql = "UPDATE git_repositories SET url = 'https://github.com/acme/Shop.git' WHERE id = $1";
    assert_eq!(ground.sql(sql, vec![ground.repository.id.uuid().into()]).await, 1);
    for status in [PrStatus::Open, PrStatus::Merged] {
        app.pull_request_record(admin, automation.id, told(1, status)).await.unwrap();
        let refused = app.stack_run_approve(&as_bob, run, Some(&digest)).await.unwrap_err();
        assert!(matches!(refused, Error::Conflict { .. }), "{status:?}: {refused:?}");
        assert!(refused.to_string().contains(&opened.told.url), "{refused}");
    }
    // What is merged is so however long that is ago. Nobody else waits for it.
    assert_eq!(since(ground.now() + TimeDelta::days(1)).await, unread);
    app.stack_run_approve(&as_carol, run, Some(&digest)).await.unwrap();
    assert_eq!(ground.run(run).await.approvals.len(), 1);
    let facts = PrFacts { merge_commit: Some("e".repeat(40)), ..PrFacts::default() };
    let at = ground.now();
    let life = PrLife { head: Some("f".repeat(40)), facts, links: PrLinks::default(), read_at: Some(at) };
    let read = PullRequestRead { told: told(1, PrStatus::Merged), life };
    assert!(door.database.pull_request_read_back(opened.id, &read, &[], at).await.unwrap());
    assert!(since(at - TimeDelta::days(1)).await.is_empty());
}

async fn pull_requests_of_many_commits_are_found_by_indexes(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, app, admin) = (&ground.door, &ground.door.app, &ground.door.admin);
    let automation = automation(door).await;
    let opened = app.pull_request_record(admin, automation.id, told(1, PrStatus::Open)).await.unwrap();
    let at = ground.now();
    let mut commits: Vec<String> = (0..10_000).map(|number| format!("{number:040}")).collect();
    let facts = PrFacts { merge_commit: Some("a".repeat(40)), ..PrFacts::default() };
    let life = PrLife { head: None, facts, links: PrLinks::default(), read_at: Some(at) };
    let read = PullRequestRead { told: told(1, PrStatus::Merged), life };
    assert!(door.database.pull_request_read_back(opened.id, &read, &[], at).await.unwrap());
    assert_eq!(door.database.pull_request_people(&commits).await.unwrap(), [""; 0]);
    commits.push("a".repeat(40));
    assert_eq!(door.database.pull_request_people(&commits).await.unwrap(), [opened.creator]);

    let connection = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let backend = connection.get_database_backend();
    let tx = connection.begin().await.unwrap();
    let (explain, column, merged) = if backend == DbBackend::Postgres {
        // A small table is read at once otherwise.
        for other in ["enable_seqscan", "enable_indexscan"] {
            tx.execute_unprepared(&format!("SET LOCAL {other} = off")).await.unwrap();
        }
        ("EXPLAIN", "QUERY PLAN", "(facts ->> 'mergeCommit')")
    } else {
        ("EXPLAIN QUERY PLAN", "detail", "json_extract(facts, '$.mergeCommit')")
    };
    let sql = format!(
        "{explain} SELECT id FROM pull_requests WHERE {merged} IN ('a', 'b') OR head_sha IN ('a', 'b') OR commit_sha IN ('a', 'b')"
    );
    let rows = tx.query_all_raw(Statement::from_string(backend, sql)).await.unwrap();
    let lines: Vec<String> = rows.iter().map(|row| row.try_get("", column).unwrap()).collect();
    for index in ["merge_commit", "head_sha", "commit_sha"] {
        let name = format!("pull_requests_{index}_idx");
        assert!(lines.iter().any(|line| line.contains(&name)), "{name}: {lines:?}");
    }
    tx.rollback().await.unwrap();
    connection.close().await.unwrap();
}

async fn whoever_merged_the_code_of_a_run_does_not_approve_it(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (door, app, admin) = (&ground.door, &ground.door.app, &ground.door.admin);
    let (bob, carol) = (door.user("bob").await, door.user("carol").await);
    // The host squashed it: no commit of the branch is in the run, and none has the address of whoever merged it.
    let (head, squashed) = ("a".repeat(40), "b".repeat(40));
    let automation = automation(door).await;
    let opened = app.pull_request_record(admin, automation.id, told(1, PrStatus::Open)).await.unwrap();
    door.database.pull_request_merger(opened.id, bob.email.as_str(), ground.now()).await.unwrap();
    // Asked once more, they are there once.
    door.database.pull_request_merger(opened.id, bob.email.as_str(), ground.now()).await.unwrap();
    let facts = PrFacts { merge_commit: Some(squashed.clone()), ..PrFacts::default() };
    let at = ground.now();
    let life = PrLife { head: Some(head.clone()), facts, links: PrLinks::default(), read_at: Some(at) };
    let read = PullRequestRead { told: told(1, PrStatus::Merged), life };
    assert!(door.database.pull_request_read_back(opened.id, &read, &[], at).await.unwrap());
    for commits in [vec![head], vec!["c".repeat(40), squashed.clone()]] {
        let people = door.database.pull_request_people(&commits).await.unwrap();
        assert!(people.len() == 2 && people.contains(&bob.email.to_string()), "{people:?}");
        assert!(people.contains(&opened.creator), "{people:?}");
    }
    let nobody = door.database.pull_request_people(&["d".repeat(40)]).await.unwrap();
    assert!(nobody.is_empty(), "{nobody:?}");

    let (run, digest) = waiting(&ground, &squashed, &[&bob, &carol]).await;
    let as_bob = door.as_user(&bob).await;
    let refused = app.stack_run_approve(&as_bob, run, Some(&digest)).await.unwrap_err();
    assert!(matches!(refused, Error::Forbidden { .. }), "{refused:?}");
    assert!(refused.to_string().contains("merged a pull request"), "{refused}");
    let as_carol = door.as_user(&carol).await;
    app.stack_run_approve(&as_carol, run, Some(&digest)).await.unwrap();
    assert_eq!(ground.run(run).await.approvals.len(), 1);
}
