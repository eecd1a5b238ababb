//! How a pull request stands with its governance: a step counts where nothing else happened meanwhile, and a new head takes all of it back.

use chrono::TimeDelta;
use plural_app::job::{JobStore as _, NewJob};
use plural_app::jobs::{GovernPullRequest, KnownPullRequest};
use plural_app::pr_governance::{PrGovernanceStore as _, PrReviewStep};
use plural_app::pull_request_life::{PullRequestLifeStore as _, PullRequestRead};
use plural_app::seal::Sealed;
use plural_core::pr_automation::{PrAutomation, PrAutomationChange, PrAutomationLinksChange};
use plural_core::pr_governance::{NewPrGovernance, PrGovernance, PrReview, PrReviewPhase};
use plural_core::pull_request::{PrStatus, PullRequest};
use plural_core::pull_request_life::{PrFacts, PrLife, PrLinks};
use plural_core::specs::Change;
use plural_testkit::{TestDatabase, each_database};

use crate::door::Door;
use crate::pull_request::{automation, told};

each_database!(a_step_counts_until_the_head_moves, one_has_the_governance_that_it_was_asked_with);

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// A governance of this name, which the automation has from now on.
async fn governed(door: &Door, automation: &PrAutomation, name: &str) -> PrGovernance {
    let new = NewPrGovernance {
        name: name.parse().unwrap(),
        project_id: None,
        connection_id: automation.links.connection_id,
        url: Some("https://governance.example.com".to_owned()),
    };
    let secret = Some("0123456789abcdef".into());
    let governance = door.app.pr_governance_upsert(&door.admin, new, secret).await.unwrap();
    let links = PrAutomationLinksChange {
        governance_id: Change::Set(governance.id),
        ..PrAutomationLinksChange::default()
    };
    let change = PrAutomationChange { links, ..PrAutomationChange::default() };
    door.app.pr_automation_update(&door.admin, automation.id, change).await.unwrap();
    governance
}

async fn a_step_counts_until_the_head_moves(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let governance = governed(&door, &automation, "board").await;
    let row = door.database.pr_governance_row(governance.id).await.unwrap().unwrap();
    assert!(row.secret.is_some() && row.governance.is_signed);
    let opened =
        door.app.pull_request_record(&door.admin, automation.id, told(1, PrStatus::Open)).await.unwrap();
    let (store, at) = (&door.database, door.app.now());
    let review = async || {
        let now = door.app.get::<PullRequest>(&door.admin, &opened.id).await.unwrap();
        now.governed.unwrap().review
    };
    assert_eq!(review().await, PrReview::default());
    let read = async |head: &str, status, seconds| {
        let at = at + TimeDelta::seconds(seconds);
        let life = PrLife {
            head: Some(head.to_owned()),
            facts: PrFacts::default(),
            links: PrLinks::default(),
            read_at: Some(at),
        };
        let read = PullRequestRead { told: told(1, status), life };
        assert!(store.pull_request_read_back(opened.id, &read, &[], at).await.unwrap());
    };
    read(A, PrStatus::Open, 1).await;
    let about = review().await;
    assert_eq!((about.phase, about.head.as_deref()), (PrReviewPhase::Open, Some(A)));

    // Written with the job that goes on.
    let mut confirmed = about.next(PrReviewPhase::Approve);
    confirmed.confirmed = Some(A.to_owned());
    let job = NewJob::of::<GovernPullRequest>(&KnownPullRequest { id: opened.id }).unwrap();
    let step = async |before: &PrReview, after: &PrReview, state| {
        let step = PrReviewStep { before: before.clone(), after: after.clone(), state };
        store.pull_request_review_step(opened.id, &step, std::slice::from_ref(&job), at).await.unwrap()
    };
    let jobs = async || {
        let all = store.jobs_count().await.unwrap();
        all.iter().filter(|count| count.kind == "govern_pull_request").map(|count| count.count).sum::<u64>()
    };
    let sealed = Change::Set(Sealed::from_bytes(vec![1, 2, 3]));
    assert!(step(&about, &confirmed, sealed).await);
    assert_eq!((review().await, jobs().await), (confirmed.clone(), 1));
    let state = store.pull_request_review_state(opened.id).await.unwrap().unwrap();
    assert_eq!(state.as_bytes(), [1, 2, 3]);
    // The same head again changes nothing of it.
    read(A, PrStatus::Open, 2).await;
    assert_eq!(review().await, confirmed);

    // Another head: what was decided from the one before it is not written any more.
    read(B, PrStatus::Open, 3).await;
    let anew = review().await;
    assert_eq!((anew.phase, anew.head.as_deref(), &anew.confirmed), (PrReviewPhase::Open, Some(B), &None));
    assert!(!step(&confirmed, &confirmed.next(PrReviewPhase::Approved), Change::Clear).await);
    assert_eq!(review().await, anew);
    assert!(store.pull_request_review_state(opened.id).await.unwrap().is_some());
    read(B, PrStatus::Merged, 4).await;
    assert_eq!(review().await.phase, PrReviewPhase::Close);

    // One that is gone wants nothing back.
    let links =
        PrAutomationLinksChange { governance_id: Change::Clear, ..PrAutomationLinksChange::default() };
    let change = PrAutomationChange { links, ..PrAutomationChange::default() };
    door.app.pr_automation_update(&door.admin, automation.id, change).await.unwrap();
    door.app.pr_governance_delete(&door.admin, governance.id).await.unwrap();
    assert!(store.pull_request_review_state(opened.id).await.unwrap().is_none());
}

async fn one_has_the_governance_that_it_was_asked_with(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let free =
        door.app.pull_request_record(&door.admin, automation.id, told(1, PrStatus::Open)).await.unwrap();
    assert_eq!(free.governed, None);
    let first = governed(&door, &automation, "board").await;
    let record = async |number| {
        let told = told(number, PrStatus::Open);
        let known = door.app.pull_request_record(&door.admin, automation.id, told).await.unwrap();
        known.governed.map(|governed| governed.governance_id)
    };
    assert_eq!(record(2).await, Some(first.id));
    // One that had none gets one, and keeps it.
    assert_eq!(record(1).await, Some(first.id));
    let second = governed(&door, &automation, "calendar").await;
    assert_eq!(record(1).await, Some(first.id));
    assert_eq!(record(3).await, Some(second.id));
}
