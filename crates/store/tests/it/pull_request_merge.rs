//! Merges that wait for a window, by a clock that a test sets: when they are due, and what becomes of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chrono::{DateTime, TimeDelta, Utc};
use plural_app::ctx::Clock;
use plural_app::pull_request_life::{PullRequestLifeStore as _, PullRequestRead};
use plural_app::pull_request_merge::{MergeAsk, PullRequestMergeStore as _};
use plural_core::Error;
use plural_core::ids::PullRequestId;
use plural_core::merge_window::{MergeWindow, MergeWindows, PrMerging};
use plural_core::pull_request::{PrStatus, PullRequest};
use plural_core::pull_request_life::{PrFacts, PrLife, PrLinks, PrMergeMethod};
use plural_core::sync_window::{SyncWindowKind, WindowRule};
use plural_store::DatabaseOptions;
use plural_testkit::{TestDatabase, each_database};

use crate::clock::Wrong;
use crate::door::Door;
use crate::git::FakeGit;
use crate::pull_request::{automation, told};

each_database!(
    a_merge_is_due_when_its_window_opens_and_tried_again_inside_of_it,
    what_somebody_else_changed_meanwhile_stays,
    a_new_head_drops_it_in_the_transaction_that_records_it,
);

struct World {
    door: Door,
    clock: Arc<Wrong>,
    id: PullRequestId,
}

impl World {
    async fn new(database: TestDatabase) -> Self {
        let clock = Arc::new(Wrong::default());
        let (source, git) = (Arc::new(database), Arc::new(FakeGit::default()));
        let told_by = Arc::clone(&clock) as Arc<dyn Clock>;
        let door = Door::open_by(source, &DatabaseOptions::new(""), git, told_by).await;
        let automation = automation(&door).await;
        let opened = told(1, PrStatus::Open);
        let id = door.app.pull_request_record(&door.admin, automation.id, opened).await.unwrap().id;
        let w = Self { door, clock, id };
        assert!(w.read_back("a").await);
        w
    }

    /// Records that its head is this.
    async fn read_back(&self, head: &str) -> bool {
        let at = self.door.app.now();
        let life = PrLife {
            head: Some(head.repeat(40)),
            facts: PrFacts::default(),
            links: PrLinks::default(),
            read_at: Some(at),
        };
        let read = PullRequestRead { told: told(1, PrStatus::Open), life };
        self.door.database.pull_request_read_back(self.id, &read, &[], at).await.unwrap()
    }

    async fn merging(&self) -> PrMerging {
        self.door.app.get::<PullRequest>(&self.door.admin, &self.id).await.unwrap().merging
    }

    /// It may be merged for an hour, in two hours at the latest.
    async fn window(&self) {
        let schedule = (self.door.app.now() + TimeDelta::hours(2)).format("0 %-H * * *").to_string();
        let rule = WindowRule::new(SyncWindowKind::Allow, &schedule, 3_600, "UTC").unwrap();
        let windows = MergeWindows(vec![MergeWindow(rule)]);
        self.door.app.pull_request_windows(&self.door.admin, self.id, windows).await.unwrap();
    }

    async fn ask(&self) -> PrMerging {
        let ask = MergeAsk { head: None, method: PrMergeMethod::Rebase, in_window: true };
        self.door.app.pull_request_merge(&self.door.admin, self.id, ask).await.unwrap().merging
    }

    async fn due(&self) -> Vec<PullRequestId> {
        self.door.database.pull_requests_to_merge(self.door.app.now(), 10).await.unwrap()
    }

    /// The clock says so from now on.
    fn is(&self, at: DateTime<Utc>) {
        let left = at - self.door.app.now() + TimeDelta::seconds(self.clock.0.load(Ordering::Relaxed));
        self.clock.0.store(left.num_seconds() + 1, Ordering::Relaxed);
    }
}

async fn a_merge_is_due_when_its_window_opens_and_tried_again_inside_of_it(database: TestDatabase) {
    let w = World::new(database).await;
    w.window().await;
    let asked = w.ask().await;
    let (opens, nobody) = (asked.due_at.unwrap(), Vec::<PullRequestId>::new());
    assert_eq!(w.merging().await, asked);
    assert_eq!(w.due().await, nobody);
    assert_eq!(w.door.app.pull_requests_merge_due().await.unwrap(), 0);
    assert_eq!(w.merging().await, asked);

    // No host is reached here: it is tried again soon.
    w.is(opens);
    assert_eq!(w.due().await, [w.id]);
    assert_eq!(w.door.app.pull_requests_merge_due().await.unwrap(), 0);
    let failed = w.merging().await;
    let (wish, due) = (failed.waiting().unwrap(), failed.due_at.unwrap());
    assert!(wish.error.as_ref().unwrap().contains("no git host is reached"), "{wish:?}");
    assert_eq!((wish.attempts, failed.begun_at), (1, None));
    assert!(due > opens && due < opens + TimeDelta::minutes(2), "{due} {opens}");
    // Not once the window closed, but in the next one.
    w.is(opens + TimeDelta::hours(1));
    assert_eq!(w.due().await, [w.id]);
    w.door.app.pull_requests_merge_due().await.unwrap();
    assert_eq!(w.merging().await.due_at, Some(opens + TimeDelta::days(1)));
    assert_eq!(w.due().await, nobody);
    // A try at the end of a window that fails is not tried again after it.
    w.is(opens + TimeDelta::days(1) + TimeDelta::minutes(59) + TimeDelta::seconds(40));
    w.door.app.pull_requests_merge_due().await.unwrap();
    let late = w.merging().await;
    assert_eq!(late.due_at, Some(opens + TimeDelta::days(2)), "{late:?}");
    assert_eq!(late.waiting().unwrap().attempts, 2);
}

async fn what_somebody_else_changed_meanwhile_stays(database: TestDatabase) {
    let w = World::new(database).await;
    w.window().await;
    let asked = w.ask().await;
    let store = &w.door.database;
    let kept = w.door.app.pull_request_merge_cancel(&w.door.admin, w.id).await.unwrap();
    assert_eq!((kept.merging.wish.as_ref(), kept.merging.due_at), (None, None));
    // Who began before that writes nothing.
    let dropped = asked.clone().drops(asked.waiting().unwrap(), "too late");
    let at = w.door.app.now();
    assert!(!store.pull_request_merging_step(w.id, &asked, &dropped, at).await.unwrap());
    assert_eq!(w.merging().await, kept.merging);
    assert!(!store.pull_request_merging_step(PullRequestId::new(), &asked, &dropped, at).await.unwrap());
    // While a console merges it, nobody takes it back; once that was too long ago, they may.
    let asked = w.ask().await;
    let begun = PrMerging { begun_at: Some(w.door.app.now()), ..asked.clone() };
    assert!(store.pull_request_merging_step(w.id, &asked, &begun, at).await.unwrap());
    let refused = w.door.app.pull_request_merge_cancel(&w.door.admin, w.id).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    w.is(w.door.app.now() + TimeDelta::minutes(4));
    w.door.app.pull_request_merge_cancel(&w.door.admin, w.id).await.unwrap();
    assert_eq!(w.merging().await.begun_at, None);
    let again = w.door.app.pull_request_merge_cancel(&w.door.admin, w.id).await;
    assert!(matches!(again, Err(Error::Conflict { .. })), "{again:?}");
}

async fn a_new_head_drops_it_in_the_transaction_that_records_it(database: TestDatabase) {
    let w = World::new(database).await;
    w.window().await;
    let asked = w.ask().await;
    assert!(w.read_back("a").await);
    assert_eq!(w.merging().await, asked, "the same head is no news");
    assert!(w.read_back("b").await);
    let dropped = w.merging().await;
    assert_eq!((dropped.waiting(), dropped.due_at), (None, None));
    let why = dropped.wish.as_ref().unwrap().dropped.as_ref().unwrap();
    assert!(why.contains(&"b".repeat(40)), "{why}");
    // For the commit that nobody looked at, none waits.
    let ask = MergeAsk { head: Some("a".repeat(40)), method: PrMergeMethod::Merge, in_window: true };
    let refused = w.door.app.pull_request_merge(&w.door.admin, w.id, ask).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    assert_eq!(w.merging().await, dropped);
    let waits = w.ask().await;
    assert_eq!(waits.waiting().unwrap().head, "b".repeat(40));
    assert_eq!(w.merging().await, waits);
}
