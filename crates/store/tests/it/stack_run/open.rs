//! Runs that are not over, in pages and beside damaged ones; runs that are forgotten; and stacks that are to go.

use std::collections::BTreeSet;

use plural_app::repository::{RepositoryFetched, RepositoryStore as _};
use plural_app::seal::Sealed;
use plural_app::source::SourceStore as _;
use plural_app::stack::{Dependents, StackSelector};
use plural_app::stack_run::{LogPiece, NewRun, PlanPart, PlanPartWrite, RunMove, StackRunStore as _};
use plural_core::access::Actor;
use plural_core::ids::StackRunId;
use plural_core::repository::GitHealth;
use plural_core::stack::{Stack, StackChange};
use plural_core::stack_policy_rules::{PolicyEngine, StackPolicy};
use plural_core::stack_run::{RunKind, RunPhase, RunPlan, RunSource, RunStatus, RunTrigger, StackRun};
use plural_core::stack_spec::StackSpec;
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait as _, Statement, Value};

use super::{Ground, plan, source, step};
use crate::door::eventually;

each_database!(
    open_runs_come_in_pages,
    a_damaged_run_holds_up_no_other,
    of_a_plan_that_waits_it_is_read_whether_its_authors_are_known,
    a_pass_that_was_killed_is_finished_by_the_next,
    many_old_runs_go_in_one_pass,
    of_two_who_delete_a_stack_one_makes_the_run_that_destroys_it,
    no_run_is_made_beside_a_deletion,
    an_approved_run_waits_while_the_rules_of_its_policy_cannot_be_read,
    a_git_server_that_does_not_answer_holds_up_no_other_run,
    an_approval_that_somebody_writes_into_the_database_does_not_count,
    looks_for_drift_push_out_no_other_run,
);

/// As many as one page has.
const PAGE: usize = 1_000;

impl Ground {
    /// Says something to the database itself; how many rows that changed.
    pub(crate) async fn sql(&self, sql: &str, values: Vec<Value>) -> u64 {
        let connection = sea_orm::Database::connect(self.door.source.url()).await.unwrap();
        let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
        let changed = connection.execute_raw(statement).await.unwrap().rows_affected();
        connection.close().await.unwrap();
        changed
    }

    /// So many more runs that stand as this one does.
    async fn copies(&self, of: StackRunId, first: i64, count: usize) {
        let id = if self.door.database.is_postgres() { "gen_random_uuid()" } else { "randomblob(16)" };
        let columns = "stack_id, project_id, cluster_id, kind, cause, status, phase, attempt, snapshot, source, approvals, \
                       cancel_asked, author, created_at, finished_at, sequence";
        let of_copy: Vec<String> = columns.split(", ").map(|column| format!("r.{column}")).collect();
        let of_copy = of_copy.join(", ");
        let last = first + i64::try_from(count).unwrap() - 1;
        let sql = format!(
            "WITH RECURSIVE n(number) AS (SELECT {first} UNION ALL SELECT number + 1 FROM n WHERE number < {last}) \
             INSERT INTO stack_runs (id, number, {columns}) SELECT {id}, n.number, {of_copy} FROM stack_runs r, n WHERE r.id = $1"
        );
        assert_eq!(self.sql(&sql, vec![of.uuid().into()]).await, count as u64);
    }

    /// A run whose plan waits for people.
    async fn waits(&self) -> StackRun {
        let run = self.running().await;
        let change = RunMove {
            to: Some(RunStatus::PendingApproval),
            plan: Some(plan(self.now())),
            ends_credential: true,
            ..self.change()
        };
        self.moved(run.id, change).await.unwrap()
    }

    async fn open(&self) -> BTreeSet<StackRunId> {
        let found = self.door.database.stack_runs_open(None).await.unwrap();
        assert_eq!(found.next, None);
        found.runs.into_iter().map(|run| run.id).collect()
    }

    /// A stack that has made something, so that it is destroyed before it goes.
    async fn has_made(&self) {
        let run = self.running().await;
        let change = RunMove {
            to: Some(RunStatus::Successful),
            applied: Some(("c1".to_owned(), None)),
            ..self.change()
        };
        self.moved(run.id, change).await.unwrap();
    }

    async fn destroying(&self) -> Vec<StackRun> {
        let open = self.door.database.stack_runs_open_of(self.stack.id).await.unwrap();
        open.into_iter().filter(|run| run.kind == RunKind::Destroy).collect()
    }
}

async fn open_runs_come_in_pages(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.ready(RunTrigger::Commit).await;
    ground.copies(run.id, 1_001, 2 * PAGE).await;
    let (mut seen, mut pages, mut after) = (BTreeSet::new(), Vec::new(), None);
    loop {
        let page = ground.door.database.stack_runs_open(after).await.unwrap();
        pages.push(page.runs.len());
        for run in page.runs {
            assert!(after.is_none_or(|after| run.id > after), "in order");
            assert!(seen.insert(run.id), "none comes twice");
            assert!(run.is_prepared && run.stack_id == ground.stack.id, "{run:?}");
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [PAGE, PAGE, 1]);
    assert_eq!(seen.len(), 2 * PAGE + 1);
    assert!(seen.contains(&run.id));
    // Whoever has no room for one more is told so, whatever the page.
    let new = NewRun { kind: RunKind::Apply, trigger: RunTrigger::Manual };
    let refused =
        ground.door.app.stack_run_create(&ground.door.admin, ground.stack.id, new).await.unwrap_err();
    assert!(refused.to_string().contains("runs that are not over"), "{refused}");
}

async fn a_damaged_run_holds_up_no_other(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (odd, half) = (ground.waits().await.id, ground.waits().await.id);
    let (waits, queued) = (ground.waits().await.id, ground.ready(RunTrigger::Commit).await.id);
    let damaged = "UPDATE stack_runs SET status = 'later' WHERE id = $1";
    assert_eq!(ground.sql(damaged, vec![odd.uuid().into()]).await, 1);
    let damaged = "UPDATE stack_runs SET approvals = '\"none\"' WHERE id = $1";
    assert_eq!(ground.sql(damaged, vec![half.uuid().into()]).await, 1);
    assert_eq!(ground.open().await, BTreeSet::from([waits, queued]));
    let of_stack = ground.door.database.stack_runs_open_of(ground.stack.id).await.unwrap();
    assert_eq!(of_stack.into_iter().map(|run| run.id).collect::<Vec<_>>(), [waits, queued]);
    let page = PageArgs { first: Some(10), ..PageArgs::default() }.request().unwrap();
    let (found, last) = ground.door.database.stack_runs_waiting(&page).await.unwrap();
    assert_eq!((found.into_iter().map(|run| run.id).collect::<Vec<_>>(), last), (vec![waits], None));
    let inbox = ground.door.app.runs_waiting(&ground.door.admin, &page).await.unwrap().into_nodes();
    assert_eq!(inbox.into_iter().map(|run| run.id).collect::<Vec<_>>(), [waits]);
    if !ground.door.database.is_postgres() {
        // What goes into it is no document: PostgreSQL has no such column.
        let damaged = "UPDATE stack_runs SET snapshot = '{' WHERE id = $1";
        let of_queued = ground.ready(RunTrigger::Commit).await.id;
        for id in [half, of_queued] {
            assert_eq!(ground.sql(damaged, vec![id.uuid().into()]).await, 1);
        }
        assert_eq!(ground.open().await, BTreeSet::from([waits, queued, of_queued]));
        let ended = "UPDATE stack_runs SET status = 'failed', finished_at = created_at WHERE id = $1";
        assert_eq!(ground.sql(ended, vec![of_queued.uuid().into()]).await, 1);
    }
    // The loop goes on with the others: it lets the queued one have its turn.
    ground.door.app.stack_runs_tend().await.unwrap();
    assert_eq!(ground.run(queued).await.status, RunStatus::Pending);
}

async fn of_a_plan_that_waits_it_is_read_whether_its_authors_are_known(database: TestDatabase) {
    let ground = Ground::new(database).await;
    for (more_emails, open) in [(false, 1), (true, 2)] {
        let run = ground.asked(RunKind::Apply, RunTrigger::Manual).await.id;
        let made = RunSource { more_emails, ..source(7) };
        ground.moved(run, RunMove { source: Some(made), ..ground.change() }).await.unwrap();
        assert_eq!(ground.next().await, Some(run));
        let change = RunMove {
            to: Some(RunStatus::PendingApproval),
            plan: Some(plan(ground.now())),
            ..ground.change()
        };
        ground.moved(run, change).await.unwrap();
        let found = ground.door.database.stack_runs_open(None).await.unwrap().runs;
        assert_eq!(found.len(), open);
        assert_eq!(found.iter().find(|one| one.id == run).map(|one| one.more_emails), Some(more_emails));
    }
}

async fn a_pass_that_was_killed_is_finished_by_the_next(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin, store) = (&ground.door.app, &ground.door.admin, &ground.door.database);
    let run = ground.running().await;
    let steps = Some(vec![step(run.id, RunPhase::Plan, 0), step(run.id, RunPhase::Plan, 1)]);
    ground.moved(run.id, RunMove { steps, ..ground.change() }).await.unwrap();
    let first = ground.run(run.id).await;
    let piece = LogPiece { offset: 0, at: ground.now(), bytes: b"log".to_vec() };
    store.stack_run_log(run.id, (first.phase, first.attempt), 0, &piece).await.unwrap().unwrap();
    // More of it than one write removes.
    let rows = "WITH RECURSIVE n(number) AS (SELECT 10 UNION ALL SELECT number + 1 FROM n WHERE number < 200) \
                INSERT INTO stack_run_logs (step_id, place, at, content) SELECT l.step_id, n.number, l.at, l.content \
                FROM stack_run_logs l JOIN stack_run_steps s ON s.id = l.step_id, n WHERE s.run_id = $1";
    assert_eq!(ground.sql(rows, vec![run.id.uuid().into()]).await, 191);
    let pieces = (0..40).map(|number| Sealed::from_bytes(vec![number])).collect();
    let put = PlanPartWrite { part: PlanPart::Text, digest: [1; 32], size: 40, pieces };
    store.stack_plan_put(run.id, &put).await.unwrap();
    ground.end(run.id, RunStatus::Failed).await;
    let kept = ground.ready_of(RunKind::Apply, RunTrigger::Commit, 9).await;
    ground.end(kept.id, RunStatus::Failed).await;

    // A pass hid it and removed some of it, and ended then.
    let hidden = "UPDATE stack_runs SET number = -number, environment = NULL, files = NULL WHERE id = $1";
    assert_eq!(ground.sql(hidden, vec![run.id.uuid().into()]).await, 1);
    let some = "DELETE FROM stack_plan_pieces WHERE run_id = $1 AND number % 2 = 0";
    assert_eq!(ground.sql(some, vec![run.id.uuid().into()]).await, 20);

    // Nobody finds it.
    assert_eq!(store.stack_run(run.id).await.unwrap(), None);
    let gone = app.stack_run_get(admin, run.id).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
    assert!(matches!(app.stack_run_steps(admin, run.id).await, Err(Error::NotFound { .. })));
    assert!(matches!(app.stack_run_log(admin, run.id, 0, 0, 10).await, Err(Error::NotFound { .. })));
    let page = PageArgs { first: Some(10), ..PageArgs::default() }.request().unwrap();
    let listed = app.stack_runs(admin, ground.stack.id, &[], &page).await.unwrap().into_nodes();
    assert!(listed.iter().any(|run| run.id == kept.id) && listed.iter().all(|one| one.id != run.id));
    assert_eq!(ground.moved(run.id, RunMove { to: Some(RunStatus::Queued), ..ground.change() }).await, None);
    assert!(store.agent_runs(ground.cluster.cluster.id, &[run.id]).await.unwrap().is_empty());
    let named = store.artifacts_named().await.unwrap();
    assert!(named.contains(&[9; 32]) && !named.contains(&[7; 32]), "its code is not kept for it");

    assert_eq!(store.stack_runs_prune(100).await.unwrap(), 1);
    for of_run in [
        "stack_runs WHERE id",
        "stack_run_steps WHERE run_id",
        "stack_plan_parts WHERE run_id",
        "stack_plan_pieces WHERE run_id",
    ] {
        let left = format!("DELETE FROM {of_run} = $1");
        assert_eq!(ground.sql(&left, vec![run.id.uuid().into()]).await, 0, "{of_run}");
    }
    assert_eq!(ground.sql("DELETE FROM stack_run_logs", Vec::new()).await, 0, "logs");
    assert_eq!(ground.run(kept.id).await.number, kept.number);
    assert_eq!(store.stack_runs_prune(100).await.unwrap(), 0);
    assert_eq!(ground.asked(RunKind::Apply, RunTrigger::Manual).await.number, kept.number + 1);
}

async fn many_old_runs_go_in_one_pass(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let old = ground.ready(RunTrigger::Commit).await;
    ground.end(old.id, RunStatus::Failed).await;
    // More than are hidden in one write.
    let first = i64::try_from(old.number).unwrap() + 1;
    ground.copies(old.id, first, 120).await;
    let runs = first + 119;
    assert_eq!(
        ground
            .sql(
                &format!("UPDATE stacks SET runs = {runs} WHERE id = $1"),
                vec![ground.stack.id.uuid().into()]
            )
            .await,
        1
    );
    let before = ground.asked(RunKind::Apply, RunTrigger::Manual).await;
    assert_eq!(before.number, u64::try_from(runs).unwrap() + 1);
    // Of the last five numbers one is not over.
    let removed = ground.door.database.stack_runs_prune(5).await.unwrap();
    assert!(removed >= 117, "{removed}");
    let page = PageArgs { first: Some(50), ..PageArgs::default() }.request().unwrap();
    let left = ground.door.app.stack_runs(&ground.door.admin, ground.stack.id, &[], &page).await.unwrap();
    let mut left: Vec<u64> = left.into_nodes().into_iter().map(|run| run.number).collect();
    left.sort_unstable();
    assert_eq!(left, (before.number - 4..=before.number).collect::<Vec<_>>());
}

async fn of_two_who_delete_a_stack_one_makes_the_run_that_destroys_it(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin) = (&ground.door.app, &ground.door.admin);
    ground.has_made().await;
    let (one, other) = tokio::join!(
        app.stack_delete(admin, ground.stack.id, None, Dependents::Refuse),
        app.stack_delete(admin, ground.stack.id, None, Dependents::Refuse)
    );
    let (made, refused): (Vec<_>, Vec<_>) = [one, other].into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (1, 1), "{made:?} {refused:?}");
    let destroying = ground.destroying().await;
    assert_eq!(destroying.len(), 1);
    let refused = refused.into_iter().next().unwrap().unwrap_err().to_string();
    assert!(refused.contains(&format!("by run {}", destroying[0].number)), "{refused}");
    let since = ground.stack_now().await.deleted_at;
    assert!(since.is_some());

    // Its run came to nothing: it is to go since it was asked for at first, and another run destroys it.
    ground.end(destroying[0].id, RunStatus::Failed).await;
    app.stack_delete(admin, ground.stack.id, None, Dependents::Refuse).await.unwrap();
    assert_eq!(ground.stack_now().await.deleted_at, since);
    assert_eq!(ground.destroying().await.len(), 1);
    // It is restored with the run that waits; nothing destroys it then.
    let restored = app.stack_restore(admin, ground.stack.id).await.unwrap();
    assert_eq!(restored.deleted_at, None);
    assert!(ground.destroying().await.is_empty());
}

async fn no_run_is_made_beside_a_deletion(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin, store) = (&ground.door.app, &ground.door.admin, &ground.door.database);
    ground.has_made().await;
    let before = ground.stack_now().await;
    app.stack_delete(admin, ground.stack.id, None, Dependents::Refuse).await.unwrap();
    assert!(before.deleted_at.is_none() && ground.stack_now().await.deleted_at.is_some());
    // Somebody who read the stack before that asks for a run only now.
    let new = NewRun { kind: RunKind::Apply, trigger: RunTrigger::Manual };
    let refused = app.stack_run_create(admin, ground.stack.id, new).await.unwrap_err();
    assert!(refused.to_string().contains("being deleted"), "{refused}");
    // And at the same moment: whichever comes first.
    let late =
        ground.sql("UPDATE stacks SET deleted_at = NULL WHERE id = $1", vec![ground.stack.id.uuid().into()]);
    assert_eq!(late.await, 1);
    let (made, deleted) = tokio::join!(
        app.stack_run_create(
            admin,
            ground.stack.id,
            NewRun { kind: RunKind::Apply, trigger: RunTrigger::Manual }
        ),
        app.stack_delete(admin, ground.stack.id, None, Dependents::Refuse)
    );
    deleted.unwrap();
    let open = store.stack_runs_open_of(ground.stack.id).await.unwrap();
    let applies: Vec<&StackRun> = open.iter().filter(|run| run.kind == RunKind::Apply).collect();
    match made {
        // It came first: it is there, and older than what destroys the stack.
        Ok(made) => {
            assert_eq!(applies.iter().map(|run| run.id).collect::<Vec<_>>(), [made.id]);
            let destroys = open.iter().filter(|run| run.kind == RunKind::Destroy).map(|run| run.number).max();
            assert!(destroys > Some(made.number), "{open:?}");
        }
        Err(error) => {
            assert!(error.to_string().contains("being deleted"), "{error}");
            assert!(applies.is_empty(), "{open:?}");
        }
    }

    // Restored between the end of its destruction and its deletion, it stays.
    for run in ground.destroying().await {
        ground.end(run.id, RunStatus::Successful).await;
    }
    for run in store.stack_runs_open_of(ground.stack.id).await.unwrap() {
        ground.end(run.id, RunStatus::Cancelled).await;
    }
    let selector = StackSelector::Id(ground.stack.id);
    let system = app.ctx(Actor::System);
    app.stack_restore(admin, ground.stack.id).await.unwrap();
    app.stack_runs_tend().await.unwrap();
    assert_eq!(app.get::<Stack>(&system, &selector).await.unwrap().deleted_at, None);

    // What is protected is not destroyed, by a run or by its deletion.
    let change = StackChange { protect: Some(true), ..StackChange::default() };
    app.stack_update(admin, ground.stack.id, &change).await.unwrap();
    let new = NewRun { kind: RunKind::Destroy, trigger: RunTrigger::Manual };
    for refused in [
        app.stack_run_create(admin, ground.stack.id, new).await.map(drop),
        app.stack_delete(admin, ground.stack.id, None, Dependents::Refuse).await.map(drop),
    ] {
        assert!(refused.unwrap_err().to_string().contains("protected"));
    }
}

impl Ground {
    /// A run whose plan nobody has approved yet, of a stack with this policy.
    async fn unapproved(&self, policy: Option<StackPolicy>) -> StackRunId {
        let mut spec = StackSpec { policy, ..StackSpec::default() };
        spec.approval.required = true;
        let change = StackChange { spec: Some(spec), ..StackChange::default() };
        self.door.app.stack_update(&self.door.admin, self.stack.id, &change).await.unwrap();
        let run = self.running().await.id;
        let planned = RunPlan { state_serial: None, ..plan(self.now()) };
        let change = RunMove { to: Some(RunStatus::PendingApproval), plan: Some(planned), ..self.change() };
        self.moved(run, change).await.unwrap();
        run
    }
}

/// Rules that are beside the code of a stack.
fn own_rules() -> StackPolicy {
    StackPolicy {
        engine: PolicyEngine::Rego,
        max_severity: None,
        custom_policies: true,
        repository_id: None,
        git: None,
    }
}

async fn an_approved_run_waits_while_the_rules_of_its_policy_cannot_be_read(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.unapproved(Some(own_rules())).await;
    let digest = ground.run(run).await.plan.unwrap().digest;
    // Nobody has fetched the repository yet.
    let app = &ground.door.app;
    app.stack_run_approve(&ground.door.admin, run, Some(&digest)).await.unwrap();
    for _ in 0..2 {
        let now = ground.run(run).await;
        assert_eq!((now.status, now.approvals.len()), (RunStatus::PendingApproval, 1), "{:?}", now.error);
        assert!(now.error.is_some_and(|why| why.contains("was not fetched yet")));
        app.stack_runs_tend().await.unwrap();
    }
}

async fn a_git_server_that_does_not_answer_holds_up_no_other_run(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let approved = ground.unapproved(Some(own_rules())).await;
    let digest = ground.run(approved).await.plan.unwrap().digest;
    let id = ground.repository.id;
    let fetched = RepositoryFetched { id, health: GitHealth::Pullable, error: None, at: ground.now() };
    ground.door.database.repository_fetched(&fetched).await.unwrap();
    ground.door.git.hang("https://example.com/infra");
    let (app, admin) = (&ground.door.app, &ground.door.admin);
    tokio::select! {
        answer = app.stack_run_approve(admin, approved, Some(&digest)) => panic!("{answer:?}"),
        () = eventually(async || ground.run(approved).await.approvals.len() == 1) => {}
    }
    let asked = ground.door.git.fetches();
    let silent = ground.running().await.id;
    let sql = "UPDATE stack_runs SET heartbeat_at = '2020-01-01T00:00:00+00:00' WHERE id = $1";
    assert_eq!(ground.sql(sql, vec![silent.uuid().into()]).await, 1);
    for _ in 0..5 {
        app.stack_runs_tend().await.unwrap();
    }
    let lost = ground.run(silent).await;
    assert_eq!(lost.status, RunStatus::Pending, "{:?}", lost.error);
    assert_eq!(ground.run(approved).await.status, RunStatus::PendingApproval);
    // The first pass asked, and those after it did not ask again.
    assert_eq!(ground.door.git.fetches(), asked + 1);
}

async fn an_approval_that_somebody_writes_into_the_database_does_not_count(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.unapproved(None).await;
    let digest = ground.run(run).await.plan.unwrap().digest;
    let forged = format!(
        r#"[{{"userId": "{}", "by": "eve@example.com", "digest": "{digest}", "at": "{}", "mac": "00"}}]"#,
        ground.stack.id,
        ground.now().to_rfc3339()
    );
    let sql = format!("UPDATE stack_runs SET approvals = '{forged}' WHERE id = $1");
    assert_eq!(ground.sql(&sql, vec![run.uuid().into()]).await, 1);
    assert_eq!(ground.run(run).await.approvals.len(), 1);
    ground.door.app.stack_runs_tend().await.unwrap();
    let now = ground.run(run).await;
    assert_eq!(now.status, RunStatus::Failed);
    assert!(now.error.is_some_and(|why| why.contains("not approved by as many people")));
}

async fn looks_for_drift_push_out_no_other_run(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let store = &ground.door.database;
    let applied = ground.ready_of(RunKind::Apply, RunTrigger::Commit, 50).await;
    ground.end(applied.id, RunStatus::Successful).await;
    let mut looks = Vec::new();
    for artifact in 0..12 {
        let run = ground.ready_of(RunKind::Drift, RunTrigger::Cron, artifact).await;
        ground.end(run.id, RunStatus::Failed).await;
        looks.push(run.id);
    }
    let named = store.artifacts_named().await.unwrap();
    assert!(named.contains(&[50; 32]) && named.contains(&[2; 32]) && !named.contains(&[1; 32]));
    assert_eq!(store.stack_runs_prune(3).await.unwrap(), 9);
    assert!(store.stack_run(applied.id).await.unwrap().is_some());
    for (place, run) in looks.iter().enumerate() {
        assert_eq!(store.stack_run(*run).await.unwrap().is_some(), place >= 9, "{place}");
    }
}
