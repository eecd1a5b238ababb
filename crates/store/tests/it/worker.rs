//! Jobs as consoles run them: to their end, through crashes, failures and restarts.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use plural_app::App;
use plural_app::job::{Job, JobEntry, JobFailure, JobFilter, JobStore, NewJob};
use plural_app::project::ProjectSelector;
use plural_core::access::Actor;
use plural_core::job::{BackgroundJob, JobState};
use plural_core::project::{NewProject, Project};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database, one_database};
use serde::{Deserialize, Serialize};

use crate::door::{Door, Opening, eventually};

each_database!(
    a_console_that_dies_at_any_step_of_a_job_brings_it_to_its_end,
    a_job_that_ends_every_console_is_dead_after_its_attempts,
    a_job_that_fails_is_tried_again_and_dead_after_its_attempts,
    what_cannot_work_is_dead_at_once_and_an_administrator_retries_it,
    a_console_that_stops_returns_what_it_runs,
    jobs_run_once_however_many_replicas_there_are,
);
one_database!(
    postgres, "one process owns a SQLite file";
    a_killed_replicas_jobs_are_taken_over,
);
one_database!(
    sqlite, "on PostgreSQL another replica waits until the first one counts as gone";
    jobs_go_on_at_once_where_the_file_is_taken_elsewhere,
);

/// What an attempt does.
#[derive(Debug, Clone, Copy)]
enum Act {
    Hang,
    HangAfterTheEffect,
    Fail,
    Refuse,
    Panic,
}

/// What the attempts of a test's jobs do, and what they did.
#[derive(Default)]
struct Script {
    /// In this order; those that follow succeed.
    acts: Mutex<VecDeque<Act>>,
    /// Keys, one for each attempt.
    begun: Mutex<Vec<String>>,
    running: Mutex<HashSet<String>>,
    /// Keys of dead jobs, and why.
    died: Mutex<Vec<(String, String)>>,
    /// Two attempts of one key ran at a time.
    overlapped: AtomicBool,
}

/// A job has nothing but its payload and the console, so the scripts of all tests lie here.
static SCRIPTS: LazyLock<Mutex<HashMap<String, Arc<Script>>>> = LazyLock::new(Mutex::default);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Part {
    script: String,
    key: String,
}

/// An attempt that is under way.
struct Attempt(Arc<Script>, String);

impl Drop for Attempt {
    fn drop(&mut self) {
        self.0.running.lock().remove(&self.1);
    }
}

impl Script {
    fn begin(self: &Arc<Self>, key: &str) -> Attempt {
        self.begun.lock().push(key.to_owned());
        if !self.running.lock().insert(key.to_owned()) {
            self.overlapped.store(true, Ordering::Relaxed);
        }
        Attempt(Arc::clone(self), key.to_owned())
    }

    fn begun(&self) -> usize {
        self.begun.lock().len()
    }
}

async fn play(app: &Arc<App>, part: Part) -> Result<(), JobFailure> {
    let script = SCRIPTS.lock().get(&part.script).cloned();
    let script = script.ok_or(Error::not_found("script"))?;
    let _attempt = script.begin(&part.key);
    let act = script.acts.lock().pop_front();
    match act {
        None => effect(app, &part.key).await,
        Some(Act::Hang) => std::future::pending().await,
        Some(Act::HangAfterTheEffect) => {
            effect(app, &part.key).await?;
            std::future::pending().await
        }
        Some(Act::Fail) => Err(Error::unavailable("the remote does not answer").into()),
        Some(Act::Refuse) => Err(Error::invalid("template", "is no template").into()),
        Some(Act::Panic) => panic!("as the script says"),
    }
}

fn told(part: &Part, why: &str) -> plural_core::Result<()> {
    let script = SCRIPTS.lock().get(&part.script).cloned().ok_or(Error::not_found("script"))?;
    script.died.lock().push((part.key.clone(), why.to_owned()));
    Ok(())
}

/// A project of the job's name: twice is once.
async fn effect(app: &Arc<App>, key: &str) -> Result<(), JobFailure> {
    let system = app.ctx(Actor::System);
    match app.get::<Project>(&system, &ProjectSelector::Name(key.to_owned())).await {
        Ok(_) => Ok(()),
        Err(Error::NotFound { .. }) => {
            let new = NewProject::named(key.parse().unwrap());
            app.project_create(&system, &new).await?;
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

enum Probe {}

impl Job for Probe {
    const KIND: &'static str = "probe";
    const ATTEMPTS: u32 = 3;
    type Payload = Part;

    fn key(part: &Part) -> String {
        part.key.clone()
    }

    async fn run(app: &Arc<App>, part: Part) -> Result<(), JobFailure> {
        play(app, part).await
    }

    async fn died(_: &Arc<App>, part: Part, why: &str) -> plural_core::Result<()> {
        told(&part, why)
    }
}

enum Hasty {}

impl Job for Hasty {
    const KIND: &'static str = "hasty";
    const ATTEMPTS: u32 = 2;
    const DEADLINE: Duration = Duration::from_millis(50);
    type Payload = Part;

    fn key(part: &Part) -> String {
        part.key.clone()
    }

    async fn run(app: &Arc<App>, part: Part) -> Result<(), JobFailure> {
        play(app, part).await
    }

    async fn died(_: &Arc<App>, part: Part, why: &str) -> plural_core::Result<()> {
        told(&part, why)
    }
}

const KINDS: &[JobEntry] = &[JobEntry::of::<Probe>(), JobEntry::of::<Hasty>()];

/// Consoles that play one script.
struct Stage {
    name: String,
    script: Arc<Script>,
    source: Arc<TestDatabase>,
}

impl Stage {
    fn new(database: TestDatabase, acts: &[Act]) -> Self {
        let name = uuid::Uuid::now_v7().to_string();
        let script =
            Arc::new(Script { acts: Mutex::new(acts.iter().copied().collect()), ..Script::default() });
        SCRIPTS.lock().insert(name.clone(), Arc::clone(&script));
        Self { name, script, source: Arc::new(database) }
    }

    /// A console, at a place where one may have been before.
    async fn console(&self, place: &str) -> Door {
        let opening = Opening { jobs: KINDS, replica: place.to_owned(), ..Opening::default() };
        Door::open_as(Arc::clone(&self.source), opening).await
    }

    async fn started(&self, place: &str) -> Door {
        let mut door = self.console(place).await;
        door.start();
        door
    }

    fn part(&self, key: &str) -> Part {
        Part { script: self.name.clone(), key: key.to_owned() }
    }

    async fn enqueue<J: Job<Payload = Part>>(&self, door: &Door, key: &str) {
        let job = NewJob::of::<J>(&self.part(key)).unwrap();
        door.database.jobs_enqueue(&[job], door.app.now()).await.unwrap();
    }

    async fn until_begun(&self, attempts: usize) {
        eventually(async || {
            let begun = self.script.begun.lock().clone();
            if begun.len() == attempts { Ok(()) } else { Err(format!("{begun:?}")) }
        })
        .await;
    }

    /// Drops a console in the middle of what it does.
    async fn kill(&self, mut door: Door) {
        door.kill().await;
        drop(door);
        eventually(async || self.script.running.lock().is_empty().then_some(())).await;
    }
}

async fn jobs(door: &Door) -> Vec<BackgroundJob> {
    let page = door.app.list::<BackgroundJob>(&door.admin, &JobFilter::default(), &PageArgs::default()).await;
    page.unwrap().into_nodes()
}

async fn until_done(door: &Door) {
    eventually(async || {
        let left = jobs(door).await;
        if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
    })
    .await;
}

async fn until_dead(door: &Door, key: &str) -> BackgroundJob {
    eventually(async || {
        let found = jobs(door).await;
        let dead = found.iter().find(|job| job.key == key && job.state == JobState::Dead).cloned();
        dead.ok_or_else(|| format!("{found:?}"))
    })
    .await
}

async fn has_effect(door: &Door, key: &str) -> bool {
    door.app.get::<Project>(&door.admin, &ProjectSelector::Name(key.to_owned())).await.is_ok()
}

async fn a_console_that_dies_at_any_step_of_a_job_brings_it_to_its_end(database: TestDatabase) {
    let stage = Stage::new(database, &[Act::Hang, Act::HangAfterTheEffect]);
    // Before a replica claimed it.
    let door = stage.console("here").await;
    stage.enqueue::<Probe>(&door, "one").await;
    drop(door);
    // After the claim, before it did anything.
    let door = stage.started("here").await;
    stage.until_begun(1).await;
    assert!(!has_effect(&door, "one").await);
    stage.kill(door).await;
    // After it did everything, before that was recorded.
    let door = stage.started("here").await;
    eventually(async || has_effect(&door, "one").await.then_some(())).await;
    assert_eq!((jobs(&door).await[0].state, jobs(&door).await[0].attempts), (JobState::Running, 2));
    stage.kill(door).await;
    let door = stage.started("here").await;
    until_done(&door).await;
    assert!(has_effect(&door, "one").await);
    stage.kill(door).await;
    // After it was recorded.
    let mut door = stage.started("here").await;
    stage.enqueue::<Probe>(&door, "two").await;
    until_done(&door).await;
    assert_eq!(*stage.script.begun.lock(), ["one", "one", "one", "two"]);
    assert!(!stage.script.overlapped.load(Ordering::Relaxed));
    door.stop().await;
}

async fn a_job_that_ends_every_console_is_dead_after_its_attempts(database: TestDatabase) {
    let stage = Stage::new(database, &[Act::Hang; 3]);
    for attempts in 1..=3 {
        let door = stage.started("here").await;
        if attempts == 1 {
            stage.enqueue::<Probe>(&door, "one").await;
        }
        stage.until_begun(attempts).await;
        stage.kill(door).await;
    }
    let mut door = stage.started("here").await;
    let dead = until_dead(&door, "one").await;
    let error = dead.error.unwrap_or_default();
    assert!(error.starts_with("attempt 3 of 3 ended with its console"), "{error}");
    assert_eq!(*stage.script.died.lock(), [("one".to_owned(), error)], "whoever waits is told, once");
    // This one goes on.
    stage.enqueue::<Probe>(&door, "two").await;
    stage.until_begun(4).await;
    eventually(async || has_effect(&door, "two").await.then_some(())).await;
    door.stop().await;
}

async fn a_job_that_fails_is_tried_again_and_dead_after_its_attempts(database: TestDatabase) {
    let stage = Stage::new(database, &[Act::Panic, Act::Fail, Act::Fail, Act::Hang]);
    let mut door = stage.started("here").await;
    stage.enqueue::<Hasty>(&door, "one").await;
    let dead = until_dead(&door, "one").await;
    assert_eq!((dead.attempts, dead.error.as_deref()), (2, Some("the remote does not answer")));
    assert_eq!(stage.script.begun(), 2);
    let expected = ("one".to_owned(), "the remote does not answer".to_owned());
    assert_eq!(*stage.script.died.lock(), [expected]);
    // One that takes too long is ended.
    stage.enqueue::<Hasty>(&door, "two").await;
    let dead = until_dead(&door, "two").await;
    assert!(dead.error.as_deref().is_some_and(|error| error.contains("longer than 50ms")), "{dead:?}");
    assert!(stage.script.running.lock().is_empty());
    assert_eq!(stage.script.died.lock().len(), 2);
    door.stop().await;
}

async fn what_cannot_work_is_dead_at_once_and_an_administrator_retries_it(database: TestDatabase) {
    let stage = Stage::new(database, &[Act::Refuse]);
    let mut door = stage.started("here").await;
    stage.enqueue::<Probe>(&door, "one").await;
    let dead = until_dead(&door, "one").await;
    assert_eq!((dead.attempts, dead.error.as_deref()), (1, Some("template: is no template")));
    door.app.background_job_retry(&door.admin, dead.id).await.unwrap();
    until_done(&door).await;
    assert!(has_effect(&door, "one").await);
    // Written by a build with another shape of it.
    let odd = NewJob { payload: serde_json::json!(7), ..NewJob::of::<Probe>(&stage.part("odd")).unwrap() };
    door.database.jobs_enqueue(&[odd], door.app.now()).await.unwrap();
    let dead = until_dead(&door, "odd").await;
    assert!(dead.error.as_deref().is_some_and(|error| error.starts_with("internal error")), "{dead:?}");
    assert_eq!(stage.script.begun(), 2);
    door.stop().await;
}

async fn a_console_that_stops_returns_what_it_runs(database: TestDatabase) {
    let stage = Stage::new(database, &[Act::Hang]);
    let mut door = stage.started("here").await;
    stage.enqueue::<Probe>(&door, "one").await;
    stage.until_begun(1).await;
    door.stop().await;
    let returned = jobs(&door).await.remove(0);
    assert_eq!((returned.state, returned.attempts, returned.error), (JobState::Waiting, 0, None));
    drop(door);
    let mut door = stage.started("elsewhere").await;
    until_done(&door).await;
    assert_eq!(stage.script.begun(), 2);
    door.stop().await;
}

async fn jobs_run_once_however_many_replicas_there_are(database: TestDatabase) {
    const JOBS: usize = 100;
    let stage = Stage::new(database, &[]);
    let mut doors = vec![stage.started("a").await];
    if doors[0].database.is_postgres() {
        doors.extend([stage.started("b").await, stage.started("c").await]);
        for door in &doors {
            eventually(async || (door.app.replicas_alive().len() == 3).then_some(())).await;
        }
    }
    for number in 0..JOBS {
        let door = &doors[number % doors.len()];
        stage.enqueue::<Probe>(door, &format!("job-{number}")).await;
    }
    until_done(&doors[0]).await;
    let begun = stage.script.begun.lock().clone();
    let unique: HashSet<&String> = begun.iter().collect();
    assert_eq!((begun.len(), unique.len()), (JOBS, JOBS));
    for number in 0..JOBS {
        assert!(has_effect(&doors[0], &format!("job-{number}")).await, "{number}");
    }
    for mut door in doors {
        door.stop().await;
    }
}

async fn jobs_go_on_at_once_where_the_file_is_taken_elsewhere(database: TestDatabase) {
    let stage = Stage::new(database, &[Act::Hang]);
    let first = stage.started("a").await;
    stage.enqueue::<Probe>(&first, "one").await;
    stage.until_begun(1).await;
    stage.kill(first).await;
    let mut second = stage.started("b").await;
    until_done(&second).await;
    assert_eq!(stage.script.begun(), 2);
    second.stop().await;
}

async fn a_killed_replicas_jobs_are_taken_over(database: TestDatabase) {
    let stage = Stage::new(database, &[Act::Hang]);
    let first = stage.started("a").await;
    stage.enqueue::<Probe>(&first, "one").await;
    stage.until_begun(1).await;
    let mut second = stage.started("b").await;
    eventually(async || (second.app.replicas_alive().len() == 2).then_some(())).await;
    assert_eq!(stage.script.begun(), 1, "while its replica lives, no other runs it");
    stage.kill(first).await;
    until_done(&second).await;
    assert_eq!(stage.script.begun(), 2);
    assert!(!stage.script.overlapped.load(Ordering::Relaxed));
    second.stop().await;
}
