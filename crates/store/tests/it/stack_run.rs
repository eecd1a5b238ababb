//! Runs of stacks: which one is next, who moves it, and what is told of it.

mod groups;
mod made_of;
mod merged;
mod open;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use plural_app::cluster::CreatedCluster;
use plural_app::ports::agents::{AgentStore as _, FeedBatch, FeedPosition, FeedSubject};
use plural_app::seal::Sealed;
use plural_app::secret::TokenHash;
use plural_app::source::SourceStore as _;
use plural_app::stack::{Dependents, StackSelector};
use plural_app::stack_run::{NewRun, RunMove, SealedOutput, StackRunStore as _};
use plural_core::access::Actor;
use plural_core::audit::{AuditFilter, AuditRow};
use plural_core::ids::{RunStepId, StackRunId};
use plural_core::policy::BindingsChange;
use plural_core::repository::Repository;
use plural_core::run_call::InputVariable;
use plural_core::service::GitRef;
use plural_core::stack::{NewStack, Stack, StackChange, StackSource, StackTool};
use plural_core::stack_exec::ExecCommand;
use plural_core::stack_run::{
    JobRef, PlanSummary, RunKind, RunPhase, RunPlan, RunSource, RunStatus, RunStep, RunTrigger, StackRun,
    StepStatus,
};
use plural_core::stack_spec::{StackSpec, Stage};
use plural_core::work::{WorkRef, WorkSummary};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};

use crate::door::{Door, by_id, eventually};

each_database!(
    of_many_at_once_one_makes_the_next_run_pending,
    what_was_approved_goes_first_then_what_people_asked_for_then_the_oldest,
    a_later_plan_ends_earlier_ones_that_wait,
    a_run_moves_only_from_where_its_mover_saw_it,
    a_credential_ends_with_its_job,
    the_token_of_an_actor_holds_while_its_job_applies,
    a_run_is_work_of_its_cluster_while_it_is_under_way,
    a_stack_says_how_its_newest_run_stands,
    commands_say_nothing_of_their_stack_and_are_kept_as_they_were_given,
    artifacts_of_open_and_newest_runs_are_named_and_old_runs_go,
    what_a_stack_uses_stays,
    a_repository_knows_the_stacks_that_follow_it,
    a_destroyed_stack_is_named_until_it_is_gone,
);

/// A console with a stack that runs on a cluster.
pub(crate) struct Ground {
    pub(crate) door: Door,
    pub(crate) cluster: CreatedCluster,
    pub(crate) repository: Repository,
    pub(crate) stack: Stack,
}

impl Ground {
    pub(crate) async fn new(database: TestDatabase) -> Self {
        Self::behind(Door::new(database).await).await
    }

    /// The same behind a door that is there.
    pub(crate) async fn behind(door: Door) -> Self {
        let cluster = door.cluster("blue").await;
        let repository = door.repository("https://example.com/infra").await;
        let new = NewStack {
            name: "infra".parse().unwrap(),
            tool: StackTool::Terraform,
            project_id: None,
            protect: false,
            tags: BTreeMap::new(),
            source: Some(StackSource {
                repository_id: repository.id,
                git: GitRef::new("main", "infra", &[]).unwrap(),
                cluster_id: cluster.cluster.id,
            }),
            follow: plural_core::stack::StackFollow::default(),
            spec: StackSpec::default(),
            environment: vec![InputVariable { name: "REGION".into(), value: "north".into(), secret: false }],
            files: BTreeMap::from([("backend.json".to_owned(), "{}".to_owned())]),
            bindings: BindingsChange::default(),
        };
        let stack = door.app.stack_create(&door.admin, new).await.unwrap();
        let ground = Self { door, cluster, repository, stack };
        // Whatever a new stack begins with is none of these tests.
        for run in ground.door.database.stack_runs_open(None).await.unwrap().runs {
            ground.end(run.id, RunStatus::Cancelled).await;
        }
        ground
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.door.app.now()
    }

    /// A run that is queued, without its code.
    async fn asked(&self, kind: RunKind, trigger: RunTrigger) -> StackRun {
        let new = NewRun { kind, trigger };
        self.door.app.stack_run_create(&self.door.admin, self.stack.id, new).await.unwrap()
    }

    /// A run that is queued, made from the artifact of this byte.
    async fn ready_of(&self, kind: RunKind, trigger: RunTrigger, artifact: u8) -> StackRun {
        let run = self.asked(kind, trigger).await;
        let change = RunMove { source: Some(source(artifact)), ..self.change() };
        self.moved(run.id, change).await.unwrap()
    }

    /// The same of commands that somebody gave it.
    async fn commands(&self) -> StackRun {
        let command = ExecCommand { cmd: "ls".to_owned(), ..ExecCommand::default() };
        let made = self.door.app.stack_exec(&self.door.admin, self.stack.id, vec![command]).await.unwrap();
        let change = RunMove { source: Some(source(7)), ..self.change() };
        self.moved(made.id, change).await.unwrap()
    }

    async fn ready(&self, trigger: RunTrigger) -> StackRun {
        self.ready_of(RunKind::Apply, trigger, 7).await
    }

    /// A run whose first Job has spoken.
    pub(crate) async fn running(&self) -> StackRun {
        let run = self.ready(RunTrigger::Manual).await;
        assert_eq!(self.next().await, Some(run.id));
        self.moved(run.id, RunMove { to: Some(RunStatus::Running), ..self.change() }).await.unwrap()
    }

    pub(crate) fn change(&self) -> RunMove {
        RunMove { at: self.now(), ..RunMove::default() }
    }

    pub(crate) async fn moved(&self, id: StackRunId, change: RunMove) -> Option<StackRun> {
        self.door.database.stack_run_move(&Actor::System, id, &change).await.unwrap()
    }

    async fn to(&self, id: StackRunId, to: RunStatus) -> StackRun {
        self.moved(id, RunMove { to: Some(to), ..self.change() }).await.unwrap()
    }

    pub(crate) async fn end(&self, id: StackRunId, to: RunStatus) {
        assert!(self.to(id, to).await.finished_at.is_some());
    }

    async fn next(&self) -> Option<StackRunId> {
        let next = self.door.database.stack_run_next(self.stack.id, self.now()).await.unwrap();
        next.map(|run| run.id)
    }

    pub(crate) async fn run(&self, id: StackRunId) -> StackRun {
        self.door.database.stack_run(id).await.unwrap().unwrap()
    }

    pub(crate) async fn stack_now(&self) -> Stack {
        let selector = StackSelector::Id(self.stack.id);
        self.door.app.get::<Stack>(&self.door.admin, &selector).await.unwrap()
    }

    async fn work(&self) -> Vec<WorkSummary> {
        let work = self.door.database.fleet_load().await.unwrap().work;
        work.into_iter().filter(|one| one.work.as_stack_run().is_some()).collect()
    }

    /// The place behind all that was written until now.
    pub(crate) async fn position(&self) -> FeedPosition {
        let place = self.door.database.fleet_load().await.unwrap().position;
        self.batch(place).await.position
    }

    pub(crate) async fn batch(&self, after: FeedPosition) -> FeedBatch {
        eventually(async || {
            let batch = self.door.database.feed_read(after).await.map_err(|error| error.log_text())?;
            // On a busy server others hold the feed back.
            if batch.pending { Err("there is more".to_owned()) } else { Ok(batch) }
        })
        .await
    }

    /// Runs that events are of, with their sequences.
    async fn told(&self, after: FeedPosition) -> Vec<(StackRunId, u64)> {
        let subjects = self.batch(after).await.events.into_iter().filter_map(|event| event.subject);
        subjects
            .filter_map(|subject| match subject {
                FeedSubject::Work { cluster_id, work, sequence, change: _ } => {
                    let run = work.as_stack_run()?;
                    assert_eq!(cluster_id, self.cluster.cluster.id);
                    Some((run, sequence))
                }
                FeedSubject::Cluster { .. }
                | FeedSubject::Repository { .. }
                | FeedSubject::RepositoryMoved { .. } => None,
            })
            .collect()
    }

    /// Lines of this action, and of nothing else.
    pub(crate) async fn lines(&self, action: &str) -> Vec<AuditRow> {
        let filter = AuditFilter { action: Some(action.to_owned()), ..AuditFilter::default() };
        let lines = self.door.app.audit_find(&self.door.admin, &filter, &PageArgs::default()).await;
        lines.unwrap().into_nodes()
    }
}

fn source(artifact: u8) -> RunSource {
    RunSource {
        sha: "c1".into(),
        message: "first".into(),
        author: "Ada".into(),
        emails: vec!["ada@example.com".into()],
        more_emails: false,
        commits: Vec::new(),
        closure_digest: "closure".into(),
        artifact_digest: hex::encode([artifact; 32]),
        folder: "infra".into(),
    }
}

pub(crate) fn plan(at: DateTime<Utc>) -> RunPlan {
    RunPlan {
        digest: "ab".repeat(32),
        file_digest: None,
        file_size: 0,
        summary: PlanSummary { add: 1, ..PlanSummary::default() },
        state_serial: Some(4),
        lock_digest: None,
        at,
    }
}

pub(crate) fn step(run: StackRunId, phase: RunPhase, index: u32) -> RunStep {
    RunStep {
        id: RunStepId::new(),
        run_id: run,
        phase,
        index,
        stage: Stage::Init,
        name: format!("step {index}"),
        cmd: "tofu".into(),
        args: vec!["init".into(), "-input=false".into()],
        status: StepStatus::Pending,
        exit_code: None,
        started_at: None,
        finished_at: None,
    }
}

async fn of_many_at_once_one_makes_the_next_run_pending(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let mut wanted = Vec::new();
    for _ in 0..3 {
        wanted.push(ground.ready(RunTrigger::Commit).await.id);
    }
    for run in wanted {
        let asked = futures::future::join_all((0..8).map(|_| ground.next())).await;
        assert_eq!(asked.into_iter().flatten().collect::<Vec<_>>(), [run]);
        let pending = ground.run(run).await;
        assert_eq!((pending.status, pending.attempt), (RunStatus::Pending, 0));
        assert!(pending.heartbeat_at.is_some(), "since when it is pending is known");
        // One that runs has the queue, too.
        ground.to(run, RunStatus::Running).await;
        assert_eq!(ground.next().await, None);
        ground.end(run, RunStatus::Successful).await;
    }
    assert_eq!(ground.next().await, None);
}

async fn what_was_approved_goes_first_then_what_people_asked_for_then_the_oldest(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let without_code = ground.asked(RunKind::Apply, RunTrigger::Manual).await;
    let by_spec = ground.ready(RunTrigger::Spec).await;
    let by_commit = ground.ready(RunTrigger::Commit).await;
    let (first, second) = (ground.ready(RunTrigger::Manual).await, ground.ready(RunTrigger::Manual).await);
    let approved = ground.ready(RunTrigger::Spec).await;
    let change = RunMove {
        from: vec![RunStatus::Queued],
        to: Some(RunStatus::Queued),
        phase: Some(RunPhase::Apply),
        ..ground.change()
    };
    ground.moved(approved.id, change).await.unwrap();
    for run in [approved.id, first.id, second.id, by_commit.id, by_spec.id] {
        assert_eq!(ground.next().await, Some(run));
        ground.end(run, RunStatus::Failed).await;
    }
    assert_eq!(ground.next().await, None, "its code is not put together");
    assert_eq!(ground.run(without_code.id).await.status, RunStatus::Queued);
}

async fn a_later_plan_ends_earlier_ones_that_wait(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let waits = ground.running().await;
    let steps = vec![step(waits.id, RunPhase::Plan, 0), step(waits.id, RunPhase::Apply, 1)];
    ground.moved(waits.id, RunMove { steps: Some(steps), ..ground.change() }).await.unwrap();
    ground.to(waits.id, RunStatus::PendingApproval).await;
    let approved = ground.ready(RunTrigger::Commit).await;
    let change = RunMove { phase: Some(RunPhase::Apply), ..ground.change() };
    ground.moved(approved.id, change).await.unwrap();
    let queued = ground.asked(RunKind::Apply, RunTrigger::Commit).await;
    let dry = ground.ready_of(RunKind::DryRun, RunTrigger::Manual, 7).await;
    let commands = ground.commands().await;
    let over = ground.ready(RunTrigger::Commit).await;
    ground.end(over.id, RunStatus::Failed).await;
    let newer = ground.ready(RunTrigger::Commit).await;
    let later = ground.ready(RunTrigger::Commit).await;

    let before = ground.lines("stack.run.cancelled").await.len();
    let change = RunMove { to: Some(RunStatus::PendingApproval), supersedes: true, ..ground.change() };
    ground.moved(newer.id, change).await.unwrap();
    for (run, expected) in [
        (&waits, RunStatus::Cancelled),
        (&queued, RunStatus::Cancelled),
        (&approved, RunStatus::Queued),
        (&dry, RunStatus::Queued),
        (&commands, RunStatus::Queued),
        (&over, RunStatus::Failed),
        (&newer, RunStatus::PendingApproval),
        (&later, RunStatus::Queued),
    ] {
        let found = ground.run(run.id).await;
        assert_eq!(found.status, expected, "run {}", run.number);
        let error = (expected == RunStatus::Cancelled).then(|| format!("superseded by run {}", newer.number));
        assert_eq!(found.error, error, "run {}", run.number);
        assert_eq!(found.finished_at.is_some(), found.status.is_over());
    }
    let steps = ground.door.database.stack_run_steps(waits.id).await.unwrap();
    assert!(steps.iter().all(|step| step.status == StepStatus::Failed), "{steps:?}");
    let lines = ground.lines("stack.run.cancelled").await;
    assert_eq!(lines.len() - before, 2);
    let ended = lines.iter().find(|line| line.entry.target.id == Some(waits.id.uuid())).unwrap();
    assert_eq!(ended.entry.target.name, format!("run {} of infra", waits.number));
    assert_eq!(ended.entry.actor, "system");
}

async fn a_run_moves_only_from_where_its_mover_saw_it(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.ready(RunTrigger::Manual).await;
    let takes = |word: &str| RunMove {
        from: vec![RunStatus::Pending],
        of: Some((RunPhase::Plan, 0)),
        begins: Some(TokenHash::of(word)),
        ..ground.change()
    };
    assert_eq!(ground.moved(run.id, takes("early")).await, None);
    assert_eq!(ground.run(run.id).await, run, "nothing is written");

    assert_eq!(ground.next().await, Some(run.id));
    let (one, other) = tokio::join!(ground.moved(run.id, takes("one")), ground.moved(run.id, takes("other")));
    assert_eq!(usize::from(one.is_some()) + usize::from(other.is_some()), 1, "{one:?} {other:?}");
    let taken = ground.run(run.id).await;
    assert_eq!((taken.status, taken.attempt), (RunStatus::Pending, 1));

    for of in [(RunPhase::Plan, 0), (RunPhase::Plan, 2), (RunPhase::Apply, 1)] {
        let change = RunMove { of: Some(of), to: Some(RunStatus::Running), ..ground.change() };
        assert_eq!(ground.moved(run.id, change).await, None, "{of:?}");
    }
    let change = RunMove { of: Some((RunPhase::Plan, 1)), to: Some(RunStatus::Running), ..ground.change() };
    let running = ground.moved(run.id, change).await.unwrap();
    assert!(running.started_at.is_some() && running.finished_at.is_none());
    // The apply phase counts its Jobs anew, and begins when it did.
    let change = RunMove {
        from: vec![RunStatus::Running],
        to: Some(RunStatus::Queued),
        phase: Some(RunPhase::Apply),
        ..ground.change()
    };
    let planned = ground.moved(run.id, change).await.unwrap();
    assert_eq!((planned.phase, planned.attempt, planned.job), (RunPhase::Apply, 0, None));
    assert_eq!(planned.started_at, running.started_at);

    assert_eq!(ground.moved(StackRunId::new(), ground.change()).await, None, "one that is not there");
}

async fn a_credential_ends_with_its_job(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let whose = async |token: &str| {
        let found = ground.door.database.stack_run_credential(&TokenHash::of(token)).await.unwrap();
        found.map(|found| (found.run.id, found.stack))
    };
    let begins = |token: &str| RunMove { begins: Some(TokenHash::of(token)), ..ground.change() };
    let run = ground.ready(RunTrigger::Manual).await;
    let its_own = Some((run.id, "infra".to_owned()));
    assert_eq!(ground.next().await, Some(run.id));
    ground.moved(run.id, begins("first")).await.unwrap();
    assert_eq!(whose("first").await, its_own);
    assert_eq!(whose("another").await, None);
    ground.to(run.id, RunStatus::Running).await;
    assert_eq!(whose("first").await, its_own);

    // Another Job ends it, and so does each way out of the Job.
    ground.moved(run.id, begins("second")).await.unwrap();
    assert_eq!((whose("first").await, whose("second").await), (None, its_own.clone()));
    ground.moved(run.id, RunMove { ends_credential: true, ..ground.change() }).await.unwrap();
    assert_eq!(whose("second").await, None);
    for (number, to) in
        [RunStatus::PendingApproval, RunStatus::Queued, RunStatus::Failed].into_iter().enumerate()
    {
        ground.to(run.id, RunStatus::Running).await;
        let token = format!("token {number}");
        ground.moved(run.id, begins(&token)).await.unwrap();
        assert_eq!(whose(&token).await, its_own);
        ground.to(run.id, to).await;
        assert_eq!(whose(&token).await, None, "{to:?}");
        if to != RunStatus::Failed {
            ground.to(run.id, RunStatus::Running).await;
            assert_eq!(whose(&token).await, None, "{to:?}");
        }
    }
}

async fn the_token_of_an_actor_holds_while_its_job_applies(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let Actor::User(admin) = ground.door.admin.actor().clone() else { panic!("the administrator is a user") };
    let spec = StackSpec { actor: Some(admin.id), ..StackSpec::default() };
    let change = StackChange { spec: Some(spec), ..StackChange::default() };
    ground.door.app.stack_update(&ground.door.admin, ground.stack.id, &change).await.unwrap();
    let run = ground.ready(RunTrigger::Manual).await;
    let hash = TokenHash::of("run-actor-1");
    let begins = async |attempt: u32| {
        ground.door.database.stack_run_actor_begins(run.id, attempt, &hash).await.unwrap()
    };
    let whose = async || ground.door.database.stack_run_actor(&hash).await.unwrap();
    let job = |token: &str| RunMove { begins: Some(TokenHash::of(token)), ..ground.change() };
    assert_eq!(ground.next().await, Some(run.id));
    ground.moved(run.id, job("plan")).await.unwrap();
    ground.to(run.id, RunStatus::Running).await;
    assert!(!begins(1).await, "a plan asks in nobody's name");

    let applies = RunMove { to: Some(RunStatus::Queued), phase: Some(RunPhase::Apply), ..ground.change() };
    ground.moved(run.id, applies).await.unwrap();
    ground.to(run.id, RunStatus::Pending).await;
    ground.moved(run.id, job("apply")).await.unwrap();
    assert!(!begins(1).await, "its Job has not spoken");
    ground.to(run.id, RunStatus::Running).await;
    assert!(whose().await.is_none());
    assert!(!begins(2).await, "that is another Job");
    assert!(begins(1).await && begins(1).await, "an answer that was lost is given again");
    let actor = whose().await.unwrap();
    assert_eq!((actor.id, actor.admin), (admin.id, true));
    let actor = Actor::User(actor);
    assert_eq!(actor.run_project(), Some(ground.stack.project_id));
    assert!(plural_core::access::visibility(&actor).is_err(), "it lists nothing");

    let secret =
        SealedOutput { name: "password".into(), secret: true, value: Sealed::from_bytes(b"sealed".to_vec()) };
    let applied = Some(("c1".to_owned(), Some(vec![secret])));
    ground.moved(run.id, RunMove { applied, ..ground.change() }).await.unwrap();
    let outputs = ground.door.app.stack_outputs(&ground.door.app.ctx(actor), ground.stack.id).await.unwrap();
    let told: Vec<_> = outputs.iter().map(|output| (output.name.as_str(), output.value.is_none())).collect();
    assert_eq!(told, [("password", true)], "it reads no state, whatever its user may read");

    ground.to(run.id, RunStatus::Failed).await;
    assert!(whose().await.is_none() && !begins(1).await, "it ends with its Job");
}

async fn a_run_is_work_of_its_cluster_while_it_is_under_way(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let cluster = ground.cluster.cluster.id;
    let run = ground.ready(RunTrigger::Manual).await;
    assert_eq!(ground.work().await, []);
    let agents = async || {
        let runs = ground.door.database.agent_runs(cluster, &[run.id]).await.unwrap();
        runs.into_iter().map(|run| run.status).collect::<Vec<_>>()
    };
    assert_eq!(agents().await, []);

    let place = ground.position().await;
    assert_eq!(ground.next().await, Some(run.id));
    let pending = ground.run(run.id).await;
    let summary = |sequence| WorkSummary {
        work: WorkRef::stack_run(run.id),
        cluster_id: cluster,
        sequence,
        head: None,
    };
    assert_eq!(ground.work().await, [summary(pending.sequence)]);
    assert_eq!(ground.told(place).await, [(run.id, pending.sequence)]);
    assert_eq!(agents().await, [RunStatus::Pending]);
    // A Job that has not spoken yet does not live: since when it is pending stays.
    let silent = ground.door.database.stack_run_beat(run.id, ground.now()).await.unwrap().unwrap();
    assert_eq!(silent, pending);
    let elsewhere = ground.door.cluster("green").await.cluster.id;
    assert_eq!(ground.door.database.agent_runs(elsewhere, &[run.id]).await.unwrap(), []);

    // What its agent need not know of is not told.
    let place = ground.position().await;
    let job = JobRef { namespace: "plural-runs".into(), name: "one".into() };
    ground.moved(run.id, RunMove { job: Some(job), ..ground.change() }).await.unwrap();
    ground.to(run.id, RunStatus::Running).await;
    let beat = ground.now();
    let beating = ground.door.database.stack_run_beat(run.id, beat).await.unwrap().unwrap();
    assert_eq!((beating.heartbeat_at, beating.sequence), (Some(beat), pending.sequence));
    assert_eq!(ground.told(place).await, []);

    let cancel = RunMove { cancel: true, tells_agent: true, ..ground.change() };
    let cancelled = ground.moved(run.id, cancel).await.unwrap();
    assert!(cancelled.cancel_asked && cancelled.sequence == pending.sequence + 1);
    assert_eq!(ground.work().await, [summary(cancelled.sequence)]);
    assert_eq!(ground.told(place).await, [(run.id, cancelled.sequence)]);

    let place = ground.position().await;
    ground.end(run.id, RunStatus::Cancelled).await;
    assert_eq!(ground.work().await, []);
    assert_eq!(ground.told(place).await, [(run.id, 0)]);
    let work = ground.door.database.work_summaries(&[WorkRef::stack_run(run.id)]).await.unwrap();
    assert_eq!(work, []);
    // Its Job is left for its agent to remove.
    assert_eq!(agents().await, [RunStatus::Cancelled]);
    // One that is over does not live.
    let late = ground.door.database.stack_run_beat(run.id, ground.now()).await.unwrap().unwrap();
    assert_eq!(late.heartbeat_at, Some(beat));
}

async fn commands_say_nothing_of_their_stack_and_are_kept_as_they_were_given(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.running().await;
    let commands = ground.commands().await;
    assert_eq!((commands.kind, commands.trigger), (RunKind::Commands, RunTrigger::Manual));
    let exec = commands.snapshot.spec.exec.clone().unwrap();
    assert_eq!((exec.phase, exec.commands[0].cmd.as_str()), (RunPhase::Apply, "ls"));
    assert_eq!(ground.run(commands.id).await.snapshot, commands.snapshot);
    assert_eq!(ground.stack_now().await.spec.exec, None);
    assert_eq!(ground.next().await, None, "another one has the queue");
    ground.end(commands.id, RunStatus::Failed).await;
    assert_eq!(ground.stack_now().await.status, Some(RunStatus::Running));
    ground.end(run.id, RunStatus::Successful).await;
    assert_eq!(ground.stack_now().await.status, Some(RunStatus::Successful));
    let lines = ground.lines("stack.run.exec").await;
    assert_eq!(lines.len(), 1);
    let target = &lines[0].entry.target;
    assert_eq!((target.id, target.name.as_str()), (Some(ground.stack.id.uuid()), "infra: ls"));
}

async fn a_stack_says_how_its_newest_run_stands(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let run = ground.running().await;
    assert_eq!(ground.stack_now().await.status, Some(RunStatus::Running));
    let dry = ground.ready_of(RunKind::DryRun, RunTrigger::Manual, 7).await;
    assert_eq!(dry.number, run.number + 1);
    ground.end(dry.id, RunStatus::Failed).await;
    assert_eq!(ground.stack_now().await.status, Some(RunStatus::Running), "a dry run says nothing of it");
    let at = ground.now();
    let change = RunMove {
        to: Some(RunStatus::Successful),
        applied: Some(("c9".into(), None)),
        at,
        ..RunMove::default()
    };
    ground.moved(run.id, change).await.unwrap();
    let stack = ground.stack_now().await;
    assert_eq!((stack.status, stack.sha.as_deref()), (Some(RunStatus::Successful), Some("c9")));
    assert_eq!(stack.last_successful_at, Some(at));
    assert_eq!(stack.updated_at, ground.stack.updated_at);
    let lines = ground.lines("stack.run.successful").await;
    assert_eq!(lines.len(), 1);

    // Of each page the newest first, and none twice.
    let again = ground.asked(RunKind::Apply, RunTrigger::Manual).await;
    let page = PageArgs { first: Some(2), ..PageArgs::default() }.request().unwrap();
    let found = ground.door.app.stack_runs(&ground.door.admin, ground.stack.id, &[], &page).await.unwrap();
    assert!(found.has_next_page);
    let cursor = found.edges.last().unwrap().cursor.clone();
    let ids: Vec<StackRunId> = found.into_nodes().into_iter().map(|run| run.id).collect();
    assert_eq!(ids, [again.id, dry.id]);
    let page = PageArgs { first: Some(1), after: Some(cursor), ..PageArgs::default() }.request().unwrap();
    let found = ground.door.app.stack_runs(&ground.door.admin, ground.stack.id, &[], &page).await.unwrap();
    assert_eq!(found.into_nodes()[0].id, run.id);
}

async fn artifacts_of_open_and_newest_runs_are_named_and_old_runs_go(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let open = ground.ready_of(RunKind::Apply, RunTrigger::Commit, 100).await;
    let mut over = Vec::new();
    for artifact in 0..12 {
        let run = ground.ready_of(RunKind::Apply, RunTrigger::Commit, artifact).await;
        let steps = Some(vec![step(run.id, RunPhase::Plan, 0)]);
        ground.moved(run.id, RunMove { steps, ..ground.change() }).await.unwrap();
        ground.end(run.id, RunStatus::Failed).await;
        over.push(run.id);
    }
    let named = ground.door.database.artifacts_named().await.unwrap();
    assert!(named.contains(&[100; 32]), "that of a run that is not over");
    for artifact in 0..12 {
        assert_eq!(named.contains(&[artifact; 32]), artifact >= 2, "{artifact}");
    }

    let removed = ground.door.database.stack_runs_prune(3).await.unwrap();
    assert!(removed >= 9, "{removed}");
    for (place, run) in over.iter().enumerate() {
        let is_kept = place >= 9;
        assert_eq!(ground.door.database.stack_run(*run).await.unwrap().is_some(), is_kept, "{place}");
        let steps = ground.door.database.stack_run_steps(*run).await.unwrap();
        assert_eq!(steps.len(), usize::from(is_kept), "{place}");
    }
    assert_eq!(ground.run(open.id).await.status, RunStatus::Queued, "it is not over");
    assert_eq!(ground.door.database.stack_runs_prune(3).await.unwrap(), 0);
    // Numbers are not given again.
    assert_eq!(ground.asked(RunKind::Apply, RunTrigger::Manual).await.number, open.number + 13);
}

async fn what_a_stack_uses_stays(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin) = (&ground.door.app, &ground.door.admin);
    let (cluster, repository) = (by_id(&ground.cluster.cluster), ground.repository.id);
    for refused in [
        app.cluster_delete(admin, &cluster).await.map(drop),
        app.cluster_detach(admin, &cluster).await.map(drop),
        app.repository_delete(admin, repository).await.map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, Error::Conflict { .. }) && error.to_string().contains("stack"), "{error}");
    }
    let other = ground.door.cluster("green").await.cluster;
    let elsewhere = ground.door.repository("https://example.com/elsewhere").await;
    let source = StackSource {
        repository_id: elsewhere.id,
        git: GitRef::new("main", "infra", &[]).unwrap(),
        cluster_id: other.id,
    };
    let change = StackChange { source: Some(source.clone()), ..StackChange::default() };
    app.stack_update(admin, ground.stack.id, &change).await.unwrap();
    let stack = ground.stack_now().await;
    assert_eq!(stack.source, Some(source));
    assert!(stack.changed_by.is_some());
    app.cluster_delete(admin, &cluster).await.unwrap();
    app.repository_delete(admin, repository).await.unwrap();

    // A run that is under way keeps its stack, and the rest goes with that.
    for run in ground.door.database.stack_runs_open(None).await.unwrap().runs {
        ground.end(run.id, RunStatus::Cancelled).await;
    }
    let run = ground.running().await;
    let refused = app.stack_detach(admin, ground.stack.id, None, Dependents::Refuse).await.unwrap_err();
    assert!(refused.to_string().contains(&format!("run {} of the stack", run.number)), "{refused}");
    ground.end(run.id, RunStatus::Cancelled).await;
    app.stack_detach(admin, ground.stack.id, None, Dependents::Refuse).await.unwrap();
    assert_eq!(ground.door.database.stack_run(run.id).await.unwrap(), None);
    app.repository_delete(admin, elsewhere.id).await.unwrap();
}

async fn a_repository_knows_the_stacks_that_follow_it(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin, store) = (&ground.door.app, &ground.door.admin, &ground.door.database);
    let (stack, repository) = (ground.stack.id, ground.repository.id);
    let follow = async || {
        let stacks = store.stack_sources(repository).await.unwrap();
        stacks.into_iter().map(|stack| stack.id).collect::<Vec<_>>()
    };
    assert_eq!(follow().await, [stack]);
    let elsewhere = ground.door.repository("https://example.com/elsewhere").await;
    assert!(store.stack_sources(elsewhere.id).await.unwrap().is_empty());

    store.stack_source_seen(stack, &Ok(("one".into(), "c1".into())), ground.now()).await.unwrap();
    assert_eq!(store.stack_seen(stack).await.unwrap().as_deref(), Some("one"));
    store.stack_source_seen(stack, &Err("the branch is gone".into()), ground.now()).await.unwrap();
    assert_eq!(ground.stack_now().await.source_error.as_deref(), Some("the branch is gone"));
    assert_eq!(store.stack_seen(stack).await.unwrap().as_deref(), Some("one"), "what was seen stays");
    store.stack_source_seen(stack, &Ok(("two".into(), "c2".into())), ground.now()).await.unwrap();
    assert_eq!(ground.stack_now().await.source_error, None);
    assert_eq!(store.stack_seen(stack).await.unwrap().as_deref(), Some("two"));

    let pause = StackChange { paused: Some(true), ..StackChange::default() };
    app.stack_update(admin, stack, &pause).await.unwrap();
    assert!(follow().await.is_empty());
}

async fn a_destroyed_stack_is_named_until_it_is_gone(database: TestDatabase) {
    let ground = Ground::new(database).await;
    let (app, admin, store) = (&ground.door.app, &ground.door.admin, &ground.door.database);
    let applied = ground.running().await;
    let change = RunMove {
        to: Some(RunStatus::Successful),
        applied: Some(("c1".to_owned(), None)),
        ..ground.change()
    };
    ground.moved(applied.id, change).await.unwrap();
    app.stack_delete(admin, ground.stack.id, None, Dependents::Refuse).await.unwrap();
    let open = store.stack_runs_open_of(ground.stack.id).await.unwrap();
    let destroys = open.into_iter().find(|run| run.kind == RunKind::Destroy).unwrap();
    let destroyed = async || store.stack_runs_open(None).await.unwrap().destroyed;
    assert!(destroyed().await.is_empty(), "it waits");
    // The console that moved it ended then.
    ground.end(destroys.id, RunStatus::Successful).await;
    assert_eq!(destroyed().await, [ground.stack.id]);
    app.stack_runs_tend().await.unwrap();
    assert!(destroyed().await.is_empty());
    let gone = app.get::<Stack>(admin, &StackSelector::Id(ground.stack.id)).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
}
