//! Stacks by their schedules, on a clock that a test sets, and what is kept of their drift.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use plural_app::ctx::Clock;
use plural_app::seal::SealedColumn;
use plural_app::stack::StackFilter;
use plural_app::stack_drift::{DriftWrite, SealedResource};
use plural_app::stack_run::{NewRun, RunMove, StackRunStore as _};
use plural_core::access::Action;
use plural_core::ids::StackRunId;
use plural_core::policy::NamedRole;
use plural_core::stack::{Stack, StackChange};
use plural_core::stack_cron::{StackCron, StackDriftSettings, StackOverrides};
use plural_core::stack_drift::{DriftAction, DriftStatus, StackDrift};
use plural_core::stack_run::{RunKind, RunStatus, RunTrigger, StackRun};
use plural_core::stack_spec::StackSpec;
use plural_core::{Error, PageArgs};
use plural_store::DatabaseOptions;
use plural_testkit::{TestDatabase, each_database};

use crate::clock::Wrong;
use crate::data_keys::others;
use crate::door::{Door, subject};
use crate::git::FakeGit;
use crate::role::{give, role};
use crate::stack_run::Ground;

each_database!(
    of_each_time_there_is_one_run,
    a_schedule_that_stays_goes_on_and_another_begins_anew,
    a_clock_that_was_ahead_silences_no_schedule,
    a_look_takes_the_place_of_the_one_before,
    an_apply_of_what_had_drifted_is_looked_at_again,
    fields_of_drift_are_sealed_anew_with_a_replaced_key,
    who_may_not_approve_has_nothing_applied_unseen,
);

const HOUR: i64 = 3600;

/// A console whose clock the test sets, with a stack.
async fn at_a_clock(database: TestDatabase) -> (Ground, Arc<Wrong>) {
    let (clock, git) = (Arc::new(Wrong::default()), Arc::new(FakeGit::default()));
    let told = Arc::clone(&clock) as Arc<dyn Clock>;
    let door = Door::open_by(Arc::new(database), &DatabaseOptions::new(""), git, told).await;
    (Ground::behind(door).await, clock)
}

fn cron(crontab: &str) -> StackCron {
    StackCron {
        crontab: crontab.to_owned(),
        time_zone: None,
        auto_approve: false,
        overrides: StackOverrides::default(),
    }
}

impl Ground {
    async fn schedules(&self, change: impl FnOnce(&mut StackSpec)) -> Stack {
        let mut spec = self.stack_now().await.spec;
        change(&mut spec);
        let change = StackChange { spec: Some(spec), ..StackChange::default() };
        self.door.app.stack_update(&self.door.admin, self.stack.id, &change).await.unwrap()
    }

    async fn open_runs(&self) -> Vec<StackRun> {
        self.door.database.stack_runs_open_of(self.stack.id).await.unwrap()
    }

    /// A look that is under way.
    async fn looking(&self) -> StackRunId {
        let new = NewRun { kind: RunKind::Drift, trigger: RunTrigger::Manual };
        let run = self.door.app.stack_run_create(&self.door.admin, self.stack.id, new).await.unwrap();
        self.moved(run.id, RunMove { to: Some(RunStatus::Running), ..self.change() }).await.unwrap().id
    }

    /// A look that finds these, and ends well.
    async fn finds(&self, addresses: &[&str]) -> Vec<StackDrift> {
        let (key, context) = (self.key().await, format!("stack_drift:{}", self.stack.id));
        let resource = |address: &&str| SealedResource {
            address: (*address).to_owned(),
            kind: "local_file".to_owned(),
            provider: "local".to_owned(),
            action: DriftAction::Updated,
            left_out: 1,
            content: key.seal(&context, format!("[{address:?},[]]").as_bytes()).unwrap(),
        };
        let resources = addresses.iter().map(resource).collect();
        let drift = Some(DriftWrite { resources, left_out: 0 });
        let run = self.looking().await;
        let change = RunMove { to: Some(RunStatus::Successful), drift, ..self.change() };
        self.moved(run, change).await.unwrap();
        self.drifted().await
    }

    async fn drifted(&self) -> Vec<StackDrift> {
        let page = PageArgs::default().request().unwrap();
        let found = self.door.app.stack_drift(&self.door.admin, self.stack.id, &page).await;
        found.unwrap().into_nodes()
    }
}

fn addresses(drift: &[StackDrift]) -> Vec<&str> {
    drift.iter().map(|drift| drift.resource.address.as_str()).collect()
}

async fn of_each_time_there_is_one_run(database: TestDatabase) {
    let (ground, clock) = at_a_clock(database).await;
    let app = &ground.door.app;
    let stack = ground.schedules(|spec| spec.cron = Some(cron("0 * * * *"))).await;
    assert!(stack.watch.next_run_at.unwrap() > app.now() && stack.watch.next_drift_at.is_none());
    assert_eq!(app.stacks_clock().await.unwrap(), 0);

    // Three times have come meanwhile, and two consoles look.
    clock.0.store(3 * HOUR, Ordering::Relaxed);
    let (one, other) = tokio::join!(app.stacks_clock(), app.stacks_clock());
    assert_eq!(one.unwrap() + other.unwrap(), 1);
    let open = ground.open_runs().await;
    let told: Vec<_> = open.iter().map(|run| (run.kind, run.trigger)).collect();
    assert_eq!(told, [(RunKind::Apply, RunTrigger::Cron)]);
    let watch = ground.stack_now().await.watch;
    assert!(watch.next_run_at.unwrap() > app.now() && watch.error.is_none(), "{watch:?}");

    // It is not over when the next time comes.
    clock.0.store(4 * HOUR, Ordering::Relaxed);
    assert_eq!(app.stacks_clock().await.unwrap(), 0);
    let watch = ground.stack_now().await.watch;
    assert!(watch.next_run_at.unwrap() > app.now(), "{watch:?}");
    assert!(watch.error.unwrap().contains(&format!("run {}", open[0].number)));
    ground.end(open[0].id, RunStatus::Cancelled).await;
    clock.0.store(5 * HOUR, Ordering::Relaxed);
    assert_eq!(app.stacks_clock().await.unwrap(), 1);
    assert_eq!(ground.stack_now().await.watch.error, None);

    // While it is paused, times go by.
    ground.end(ground.open_runs().await[0].id, RunStatus::Cancelled).await;
    let paused = StackChange { paused: Some(true), ..StackChange::default() };
    app.stack_update(&ground.door.admin, ground.stack.id, &paused).await.unwrap();
    clock.0.store(7 * HOUR, Ordering::Relaxed);
    assert_eq!(app.stacks_clock().await.unwrap(), 0);
    let resumed = StackChange { paused: Some(false), ..StackChange::default() };
    app.stack_update(&ground.door.admin, ground.stack.id, &resumed).await.unwrap();
    assert_eq!(app.stacks_clock().await.unwrap(), 0);
    assert_eq!(ground.open_runs().await, []);
}

async fn a_schedule_that_stays_goes_on_and_another_begins_anew(database: TestDatabase) {
    let (ground, clock) = at_a_clock(database).await;
    let hourly = StackDriftSettings { crontab: Some("@hourly".to_owned()), ..StackDriftSettings::default() };
    let stack = ground
        .schedules(|spec| {
            spec.cron = Some(cron("@hourly"));
            spec.drift = Some(hourly);
        })
        .await;
    let (run, drift) = (stack.watch.next_run_at, stack.watch.next_drift_at);
    assert!(run.is_some() && run == drift, "{:?}", stack.watch);
    // What is due stays due, whatever else is changed.
    clock.0.store(2 * HOUR, Ordering::Relaxed);
    let stack = ground.schedules(|spec| spec.cron.as_mut().unwrap().crontab = String::from("@daily")).await;
    assert_eq!(stack.watch.next_drift_at, drift);
    assert!(stack.watch.next_run_at > run, "{:?}", stack.watch);
    assert_eq!(ground.open_runs().await, [], "another schedule is nothing that a run is made for");
    assert_eq!(ground.door.app.stacks_clock().await.unwrap(), 1);
    assert_eq!(ground.open_runs().await[0].kind, RunKind::Drift);
    let stack = ground
        .schedules(|spec| {
            spec.cron = None;
            spec.drift = None;
        })
        .await;
    assert_eq!((stack.watch.next_run_at, stack.watch.next_drift_at), (None, None));
}

async fn a_clock_that_was_ahead_silences_no_schedule(database: TestDatabase) {
    let (ground, clock) = at_a_clock(database).await;
    let app = &ground.door.app;
    ground.schedules(|spec| spec.cron = Some(cron("@hourly"))).await;
    // A year ahead, a run is made and the next one is named.
    clock.0.store(365 * 24 * HOUR, Ordering::Relaxed);
    assert_eq!(app.stacks_clock().await.unwrap(), 1);
    ground.end(ground.open_runs().await[0].id, RunStatus::Cancelled).await;
    clock.0.store(0, Ordering::Relaxed);
    assert_eq!(app.stacks_clock().await.unwrap(), 0);
    let watch = ground.stack_now().await.watch;
    let soon = app.now() + chrono::TimeDelta::hours(1);
    assert!(watch.next_run_at.unwrap() <= soon, "{watch:?}");
    assert!(watch.error.unwrap().contains("the console's clock was ahead"));
    clock.0.store(HOUR, Ordering::Relaxed);
    assert_eq!(app.stacks_clock().await.unwrap(), 1);
    assert_eq!(ground.stack_now().await.watch.error, None);
}

async fn a_look_takes_the_place_of_the_one_before(database: TestDatabase) {
    let ground = Ground::new(database).await;
    assert_eq!(ground.stack_now().await.watch.status(), DriftStatus::Unchecked);
    let first = ground.finds(&["a", "b"]).await;
    assert_eq!(addresses(&first), ["a", "b"]);
    let stack = ground.stack_now().await;
    assert_eq!((stack.watch.status(), stack.status), (DriftStatus::Drifted, None));
    let since = stack.watch.drifted_at;

    let second = ground.finds(&["b", "c"]).await;
    assert_eq!(addresses(&second), ["b", "c"]);
    assert_eq!((second[0].id, second[0].first_seen_at), (first[1].id, first[1].first_seen_at));
    assert!(second[0].run > first[1].run && second[0].last_seen_at >= first[1].last_seen_at);
    assert_eq!(ground.stack_now().await.watch.drifted_at, since);

    // One that failed leaves all of it, and says so; one that somebody ended says nothing.
    let before = ground.stack_now().await.watch.drift.unwrap();
    let failing = ground.looking().await;
    let error = Some("no network".to_owned());
    ground
        .moved(failing, RunMove { to: Some(RunStatus::Failed), error: error.clone(), ..ground.change() })
        .await
        .unwrap();
    let cancelled = ground.looking().await;
    ground.end(cancelled, RunStatus::Cancelled).await;
    let after = ground.stack_now().await;
    let check = after.watch.drift.unwrap();
    assert_eq!((check.error, check.count, check.checked_at), (error, before.count, before.checked_at));
    assert_eq!(addresses(&ground.drifted().await), ["b", "c"]);

    let app = &ground.door.app;
    let listed = async |drifted| {
        let filter = StackFilter { drifted: Some(drifted), ..StackFilter::default() };
        let found = app.list::<Stack>(&ground.door.admin, &filter, &PageArgs::default()).await;
        found.unwrap().into_nodes().len()
    };
    assert_eq!((listed(true).await, listed(false).await), (1, 0));
    assert_eq!(ground.finds(&[]).await, []);
    assert_eq!((listed(true).await, listed(false).await), (0, 1));
    let watch = ground.stack_now().await.watch;
    assert_eq!((watch.status(), watch.drifted_at), (DriftStatus::InSync, None));
    assert_eq!(watch.drift.unwrap().error, None);
    assert_eq!(ground.lines("stack.drift.found").await.len(), 2);
    assert_eq!(ground.lines("stack.drift.resolved").await.len(), 2);
}

async fn an_apply_of_what_had_drifted_is_looked_at_again(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let applied = async || {
        let run = ground.running().await.id;
        let applied = Some(("c1".to_owned(), None));
        ground
            .moved(run, RunMove { to: Some(RunStatus::Successful), applied, ..ground.change() })
            .await
            .unwrap();
        ground.door.app.stacks_clock().await.unwrap()
    };
    assert_eq!(applied().await, 0);
    ground.finds(&["a"]).await;
    assert_eq!(applied().await, 1);
    let open = ground.open_runs().await;
    assert_eq!((open.len(), open[0].kind), (1, RunKind::Drift));
    // No schedule follows from that.
    assert_eq!(ground.stack_now().await.watch.next_drift_at, None);
}

async fn fields_of_drift_are_sealed_anew_with_a_replaced_key(database: TestDatabase) {
    use plural_app::seal::SealStore as _;
    let ground = Ground::new(database).await;
    let before = ground.finds(&["a", "b"]).await;
    let app = &ground.door.app;
    app.project_keys_rotate(&ground.door.admin, ground.stack.project_id).await.unwrap();
    let store = &ground.door.database;
    let found = store.sealed_otherwise(SealedColumn::StackDrift, None, 100).await.unwrap().found;
    assert_eq!(found.len(), 2);
    assert_eq!(app.reseal().await.unwrap().failed, 0);
    assert_eq!(others(&ground.door).await, 0);
    assert_eq!(ground.drifted().await, before);
}

async fn who_may_not_approve_has_nothing_applied_unseen(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, id) = (&ground.door.app, ground.stack.id);
    ground.schedules(|spec| spec.approval.required = true).await;
    let ada = ground.door.user("ada").await;
    let writer = role(&ground.door, "writer", &[Action::Read, Action::Write]).await;
    let project = ground.stack.project_id;
    give(app, &ground.door.admin, project, NamedRole::Custom(writer), subject(&ada)).await.unwrap();
    let as_ada = ground.door.as_user(&ada).await;
    let spec = ground.stack_now().await.spec;
    let asks = async |auto_approve, seconds| {
        let cron = Some(StackCron { auto_approve, ..cron("@daily") });
        let spec = StackSpec { cron, timeout_seconds: seconds, ..spec.clone() };
        let change = StackChange { spec: Some(spec), ..StackChange::default() };
        app.stack_update(&as_ada, id, &change).await
    };
    let refused = asks(true, 0).await;
    assert!(
        matches!(&refused, Err(Error::Forbidden { reason }) if reason.contains("autoApprove")),
        "{refused:?}"
    );
    asks(false, 0).await.unwrap();
    ground.schedules(|spec| spec.cron.as_mut().unwrap().auto_approve = true).await;
    // While it is so, what would be applied is not theirs to change; that it is applied no more, is.
    assert!(matches!(asks(true, 60).await, Err(Error::Forbidden { .. })));
    let paused = StackChange { paused: Some(true), ..StackChange::default() };
    app.stack_update(&as_ada, id, &paused).await.unwrap();
    asks(false, 60).await.unwrap();
}
