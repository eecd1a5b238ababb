//! Jobs as the database keeps them: one of a key, claimed by one replica, none lost.

use std::time::Duration;

use chrono::TimeDelta;
use plural_app::job::{ClaimedJob, JobClaimer, JobEnd, JobFilter, JobStore, NewJob};
use plural_app::replica::{ReplicaBeat, ReplicaStore};
use plural_app::repository::RepositoryStore;
use plural_core::ids::{JobId, ReplicaId};
use plural_core::job::{BackgroundJob, JobState};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use serde_json::json;

use crate::door::{Door, eventually};

each_database!(
    a_job_that_is_enqueued_twice_runs_once_with_the_newest_payload,
    a_job_that_is_enqueued_while_it_runs_runs_once_more,
    jobs_run_in_the_order_in_which_they_are_due,
    a_dead_job_runs_again_when_it_is_enqueued,
    periodic_work_leaves_a_job_as_it_is,
    a_claim_that_was_given_to_another_replica_writes_nothing,
    a_replica_does_not_claim_what_it_runs_itself,
    a_returned_job_keeps_its_attempts,
    administrators_retry_dead_jobs_and_delete_those_that_do_not_run,
    dead_jobs_are_pruned_by_age_and_number,
    kinds_that_a_replica_does_not_know_wait_for_one_that_does,
    writes_that_enqueue_the_same_jobs_do_not_wait_for_each_other_crosswise,
);

const LONG: Duration = Duration::from_hours(1);
const KINDS: &[&str] = &["probe"];

fn job(key: &str, payload: u32) -> NewJob {
    NewJob { kind: "probe", key: key.into(), payload: json!({ "number": payload }), after: Duration::ZERO }
}

async fn enqueue(door: &Door, job: NewJob) {
    door.database.jobs_enqueue(&[job], door.app.now()).await.unwrap();
}

/// A replica that counts as alive for so long.
async fn replica(door: &Door, name: &str, holds: Duration) -> ReplicaId {
    let beat = ReplicaBeat { id: ReplicaId::new(), place: name.into(), address: None, holds };
    door.database.replica_join(&beat).await.unwrap();
    beat.id
}

fn claimer(replica: ReplicaId, running: &[JobId]) -> JobClaimer<'_> {
    JobClaimer { replica, kinds: KINDS, running }
}

async fn claim(door: &Door, replica: ReplicaId) -> Option<ClaimedJob> {
    let mut claimed = door.database.jobs_claim(&claimer(replica, &[]), 1).await.unwrap();
    assert!(claimed.len() <= 1);
    claimed.pop()
}

async fn due(door: &Door, replica: ReplicaId, running: &[JobId]) -> Option<Duration> {
    door.database.jobs_due(&claimer(replica, running)).await.unwrap()
}

async fn end(door: &Door, job: &ClaimedJob, end: JobEnd) -> bool {
    door.database.job_end(&job.claim, &end, door.app.now()).await.unwrap()
}

async fn all(door: &Door) -> Vec<BackgroundJob> {
    let page = door.app.list::<BackgroundJob>(&door.admin, &JobFilter::default(), &PageArgs::default()).await;
    page.unwrap().into_nodes()
}

fn dead(error: &str) -> JobEnd {
    JobEnd::Dead { error: error.into() }
}

async fn a_job_that_is_enqueued_twice_runs_once_with_the_newest_payload(database: TestDatabase) {
    let door = Door::new(database).await;
    let a = replica(&door, "a", LONG).await;
    let mut wake = door.database.jobs_wake();
    wake.mark_unchanged();
    assert_eq!(due(&door, a, &[]).await, None);
    enqueue(&door, job("one", 1)).await;
    enqueue(&door, job("one", 2)).await;
    assert!(wake.has_changed().unwrap(), "workers of this process are woken with the commit");
    let listed = all(&door).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((listed[0].kind.as_str(), listed[0].key.as_str()), ("probe", "one"));
    assert_eq!((listed[0].state, listed[0].attempts), (JobState::Waiting, 0));
    assert_eq!(due(&door, a, &[]).await, Some(Duration::ZERO));
    let claimed = claim(&door, a).await.unwrap();
    assert_eq!((&claimed.payload, claimed.attempts), (&json!({"number": 2}), 1));
    assert_eq!(all(&door).await[0].state, JobState::Running);
    let b = replica(&door, "b", LONG).await;
    let claimed = if door.database.is_postgres() {
        assert_eq!(claim(&door, b).await, None);
        claimed
    } else {
        // One process owns a SQLite file: the other one is gone, though it was alive a moment ago.
        claim(&door, b).await.unwrap()
    };
    assert!(end(&door, &claimed, JobEnd::Done).await);
    assert_eq!(all(&door).await, []);
}

async fn a_job_that_is_enqueued_while_it_runs_runs_once_more(database: TestDatabase) {
    let door = Door::new(database).await;
    let a = replica(&door, "a", LONG).await;
    let retry = JobEnd::Retry { after: LONG, error: "not yet".into() };
    for (number, ended) in [JobEnd::Done, JobEnd::Returned, retry, dead("never")].into_iter().enumerate() {
        enqueue(&door, job("one", 1)).await;
        let first = claim(&door, a).await.unwrap();
        let newest = u32::try_from(number).unwrap() + 10;
        enqueue(&door, job("one", newest)).await;
        assert_eq!(due(&door, a, &[first.claim.id]).await, None, "one run at a time");
        assert!(end(&door, &first, ended.clone()).await);
        // At once, with the newest payload, and what failed before does not count.
        let second = claim(&door, a).await.unwrap_or_else(|| panic!("after {ended:?}"));
        assert_eq!((&second.payload, second.attempts), (&json!({ "number": newest }), 1), "{ended:?}");
        assert!(second.claim.epoch > first.claim.epoch);
        assert!(end(&door, &second, JobEnd::Done).await);
        assert_eq!(all(&door).await, []);
    }
}

async fn jobs_run_in_the_order_in_which_they_are_due(database: TestDatabase) {
    let door = Door::new(database).await;
    let a = replica(&door, "a", LONG).await;
    enqueue(&door, job("later", 0).after(LONG)).await;
    for key in ["one", "two", "three"] {
        enqueue(&door, job(key, 0)).await;
    }
    let mut running: Vec<JobId> = Vec::new();
    for key in ["one", "two", "three"] {
        let claimed = door.database.jobs_claim(&claimer(a, &running), 1).await.unwrap();
        assert_eq!((claimed.len(), claimed[0].key.as_str()), (1, key));
        running.push(claimed[0].claim.id);
    }
    assert_eq!(door.database.jobs_claim(&claimer(a, &running), 1).await.unwrap(), []);
    // The earlier time counts.
    enqueue(&door, job("later", 0).after(LONG * 2)).await;
    let wait = due(&door, a, &running).await.unwrap();
    assert!(wait > LONG / 2 && wait <= LONG, "{wait:?}");
    enqueue(&door, job("later", 0)).await;
    assert_eq!(due(&door, a, &running).await, Some(Duration::ZERO));
    let claimed = door.database.jobs_claim(&claimer(a, &running), 10).await.unwrap();
    assert_eq!(claimed.iter().map(|job| job.key.as_str()).collect::<Vec<_>>(), ["later"]);
    // One that is tried again waits for as long as was said.
    assert!(end(&door, &claimed[0], JobEnd::Retry { after: LONG, error: "not yet".into() }).await);
    let wait = due(&door, a, &running).await.unwrap();
    assert!(wait > LONG / 2 && wait <= LONG, "{wait:?}");
}

async fn a_dead_job_runs_again_when_it_is_enqueued(database: TestDatabase) {
    let door = Door::new(database).await;
    let a = replica(&door, "a", LONG).await;
    enqueue(&door, job("one", 1)).await;
    let claimed = claim(&door, a).await.unwrap();
    assert!(end(&door, &claimed, dead("it cannot work")).await);
    let listed = all(&door).await;
    assert_eq!((listed[0].state, listed[0].attempts), (JobState::Dead, 1));
    assert_eq!(listed[0].error.as_deref(), Some("it cannot work"));
    assert_eq!(due(&door, a, &[]).await, None);
    enqueue(&door, job("one", 2)).await;
    let again = claim(&door, a).await.unwrap();
    assert_eq!((again.claim.id, again.attempts), (claimed.claim.id, 1));
    assert_eq!(again.payload, json!({"number": 2}));
}

async fn periodic_work_leaves_a_job_as_it_is(database: TestDatabase) {
    let door = Door::new(database).await;
    let a = replica(&door, "a", LONG).await;
    let mut wake = door.database.jobs_wake();
    let mut absent = async |job: NewJob| {
        wake.mark_unchanged();
        let now = door.app.now();
        let enqueued =
            door.database.jobs_enqueue_absent(&[job], now - TimeDelta::hours(1), now).await.unwrap();
        // On PostgreSQL workers are woken once more when the database begins to listen.
        assert!(door.database.is_postgres() || wake.has_changed().unwrap() == (enqueued > 0));
        enqueued
    };
    assert_eq!(absent(job("one", 1).after(LONG)).await, 1);
    assert_eq!(absent(job("one", 1)).await, 0, "it waits");
    assert_eq!(due(&door, a, &[]).await.map(|wait| wait > LONG / 2), Some(true));
    enqueue(&door, job("one", 1)).await;
    let claimed = claim(&door, a).await.unwrap();
    assert_eq!(absent(job("one", 1)).await, 0, "it runs");
    assert!(end(&door, &claimed, dead("it cannot work")).await);
    assert_eq!(absent(job("one", 1)).await, 0);
    assert_eq!((all(&door).await[0].state, all(&door).await[0].attempts), (JobState::Dead, 1));
    // What is asked for is another thing.
    assert_eq!(absent(job("one", 2)).await, 1);
    let again = claim(&door, a).await.unwrap();
    assert_eq!((again.attempts, &again.payload), (1, &json!({"number": 2})));
    assert_eq!(absent(job("two", 2)).await, 1);
    // One that has been dead for long enough is tried again.
    assert!(end(&door, &again, dead("it cannot work")).await);
    assert_eq!(absent(job("one", 2)).await, 0);
    let now = door.app.now();
    let died_before = now + TimeDelta::hours(1);
    assert_eq!(door.database.jobs_enqueue_absent(&[job("one", 2)], died_before, now).await.unwrap(), 1);
    let listed = all(&door).await;
    let one = listed.iter().find(|job| job.key == "one").unwrap();
    assert_eq!((one.state, one.attempts), (JobState::Waiting, 0));
}

async fn a_claim_that_was_given_to_another_replica_writes_nothing(database: TestDatabase) {
    let door = Door::new(database).await;
    let repository = door.repository("https://example.com/a").await;
    // The first one's machine slept: nothing was heard of it for longer than it said.
    let (a, b) = (replica(&door, "a", Duration::ZERO).await, replica(&door, "b", LONG).await);
    enqueue(&door, job("one", 1)).await;
    let first = claim(&door, a).await.unwrap();
    assert_eq!(due(&door, b, &[]).await, Some(Duration::ZERO));
    let second = claim(&door, b).await.unwrap();
    assert_eq!((second.attempts, second.claim.epoch), (2, first.claim.epoch + 1));
    // It wakes up and goes on writing.
    let write = || door.database.repository_moved(repository.id);
    let refused = first.claim.guard(write()).await.unwrap_err();
    assert!(matches!(&refused, Error::Conflict { .. }), "{refused}");
    assert_eq!(refused.to_string(), "another replica claimed the job meanwhile: nothing was written");
    for ended in [JobEnd::Done, JobEnd::Returned, dead("it slept")] {
        assert!(!end(&door, &first, ended).await);
    }
    second.claim.guard(write()).await.unwrap();
    assert!(end(&door, &second, JobEnd::Done).await);
    // Nor does the one that ended it write under a claim that is no more.
    assert!(second.claim.guard(write()).await.is_err());
    // A task that the work spawns is under the claim, too.
    let carried = first.claim.guard(async {
        tokio::spawn(plural_app::lease::Fence::carried(async { plural_app::lease::JobClaim::current() }))
            .await
    });
    assert_eq!(carried.await.unwrap(), Some(first.claim));
}

async fn a_replica_does_not_claim_what_it_runs_itself(database: TestDatabase) {
    let door = Door::new(database).await;
    // On SQLite a console gives one sign of life, at its start.
    let a = replica(&door, "a", Duration::ZERO).await;
    enqueue(&door, job("one", 1)).await;
    let claimed = claim(&door, a).await.unwrap();
    let running = [claimed.claim.id];
    assert_eq!(due(&door, a, &running).await, None);
    assert_eq!(door.database.jobs_claim(&claimer(a, &running), 1).await.unwrap(), []);
    // One that it does not know of was claimed in a write whose answer was lost.
    assert_eq!(due(&door, a, &[]).await, Some(Duration::ZERO));
    let again = claim(&door, a).await.unwrap();
    assert_eq!((again.claim.id, again.claim.epoch), (claimed.claim.id, claimed.claim.epoch + 1));
}

async fn a_returned_job_keeps_its_attempts(database: TestDatabase) {
    let door = Door::new(database).await;
    let a = replica(&door, "a", LONG).await;
    enqueue(&door, job("one", 1)).await;
    for _ in 0..3 {
        let claimed = claim(&door, a).await.unwrap();
        assert_eq!(claimed.attempts, 1);
        assert!(end(&door, &claimed, JobEnd::Returned).await);
    }
    for attempts in 1..4 {
        let claimed = claim(&door, a).await.unwrap();
        assert_eq!(claimed.attempts, attempts);
        assert!(end(&door, &claimed, JobEnd::Retry { after: Duration::ZERO, error: "no".into() }).await);
    }
}

async fn administrators_retry_dead_jobs_and_delete_those_that_do_not_run(database: TestDatabase) {
    let door = Door::new(database).await;
    let (app, admin) = (&door.app, &door.admin);
    let a = replica(&door, "a", LONG).await;
    enqueue(&door, job("one", 1)).await;
    let id = all(&door).await[0].id;
    let refused = app.background_job_retry(admin, id).await.unwrap_err();
    assert!(refused.to_string().contains("not dead"), "{refused}");
    // What was refused holds the job's row until its connection has rolled back, and a claim passes over locked rows.
    let claimed = eventually(async || claim(&door, a).await).await;
    assert!(app.background_job_retry(admin, id).await.is_err());
    let refused = app.background_job_delete(admin, id).await.unwrap_err();
    assert!(refused.to_string().contains("wait until it has ended"), "{refused}");
    assert!(end(&door, &claimed, dead("it cannot work")).await);

    let mut wake = door.database.jobs_wake();
    wake.mark_unchanged();
    let retried = app.background_job_retry(admin, id).await.unwrap();
    assert_eq!((retried.state, retried.attempts), (JobState::Waiting, 0));
    assert_eq!(retried.error.as_deref(), Some("it cannot work"), "until it ran");
    assert!(wake.has_changed().unwrap());
    let claimed = claim(&door, a).await.unwrap();
    assert_eq!(claimed.attempts, 1);
    assert!(end(&door, &claimed, dead("again")).await);
    assert_eq!(app.background_job_delete(admin, id).await.unwrap().id, id);
    assert!(matches!(app.background_job_delete(admin, id).await, Err(Error::NotFound { .. })));
    // One that waits need not run.
    enqueue(&door, job("two", 1)).await;
    app.background_job_delete(admin, all(&door).await[0].id).await.unwrap();
    assert_eq!(all(&door).await, []);
    let audits = app.audit_list(admin, &PageArgs::default()).await.unwrap().into_nodes();
    let lines: Vec<(&str, &str)> = audits
        .iter()
        .filter(|row| row.entry.target.noun == "background job")
        .map(|row| (row.entry.action.as_ref(), row.entry.target.name.as_str()))
        .collect();
    let expected = [("job.retry", "probe one"), ("job.delete", "probe one"), ("job.delete", "probe two")];
    assert_eq!(lines, expected);
}

async fn dead_jobs_are_pruned_by_age_and_number(database: TestDatabase) {
    let door = Door::new(database).await;
    let a = replica(&door, "a", LONG).await;
    for key in ["1", "2", "3", "4", "5"] {
        enqueue(&door, job(key, 1)).await;
        let claimed = claim(&door, a).await.unwrap();
        assert!(end(&door, &claimed, dead("no")).await);
    }
    enqueue(&door, job("waits", 1)).await;
    let (now, day) = (door.app.now(), chrono::TimeDelta::days(1));
    assert_eq!(door.database.jobs_prune(now - day, 5).await.unwrap(), 0);
    assert_eq!(door.database.jobs_prune(now - day, 3).await.unwrap(), 2);
    let keys = async || all(&door).await.into_iter().map(|job| job.key).collect::<Vec<_>>();
    assert_eq!(keys().await, ["3", "4", "5", "waits"], "the newest stay");
    assert_eq!(door.database.jobs_prune(now + day, 3).await.unwrap(), 3);
    assert_eq!(keys().await, ["waits"]);
}

async fn kinds_that_a_replica_does_not_know_wait_for_one_that_does(database: TestDatabase) {
    let door = Door::new(database).await;
    let a = replica(&door, "a", LONG).await;
    enqueue(&door, job("one", 1)).await;
    for kinds in [&["another"][..], &[]] {
        let old = JobClaimer { replica: a, kinds, running: &[] };
        assert_eq!(door.database.jobs_due(&old).await.unwrap(), None);
        assert_eq!(door.database.jobs_claim(&old, 1).await.unwrap(), []);
    }
    let count = door.database.jobs_count().await.unwrap();
    assert_eq!((count[0].kind.as_str(), count[0].state, count[0].count), ("probe", JobState::Waiting, 1));
    assert!(claim(&door, a).await.is_some());
}

async fn writes_that_enqueue_the_same_jobs_do_not_wait_for_each_other_crosswise(database: TestDatabase) {
    let door = Door::new(database).await;
    let jobs = [job("a", 1), job("b", 1)];
    let reversed = [job("b", 2), job("a", 2)];
    let repeat = async |jobs: &[NewJob]| {
        for _ in 0..200 {
            door.database.jobs_enqueue(jobs, door.app.now()).await.unwrap();
        }
    };
    tokio::join!(repeat(&jobs), repeat(&reversed));
    assert_eq!(all(&door).await.len(), 2);
}
