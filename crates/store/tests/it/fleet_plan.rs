//! Plans of commits for all clusters: whom they ask, what is answered, and when they end.

use chrono::TimeDelta;
use plural_app::agent::AgentHandle;
use plural_app::agent_call::AgentCallKind;
use plural_app::agent_poll::ServiceSpec;
use plural_app::fleet_plan::FleetPlanStore as _;
use plural_app::job::JobStore as _;
use plural_app::pull_request_life::{PullRequestLifeStore as _, PullRequestRead};
use plural_app::repository::NewCredentials;
use plural_core::fleet_plan::{FleetPartState, FleetPlan, FleetPlanAsk, FleetPlanPart, FleetPlanPhase};
use plural_core::ids::{FleetPlanId, RepositoryId};
use plural_core::pull_request::PrStatus;
use plural_core::pull_request_life::{PrFacts, PrLife, PrLinks};
use plural_core::repository::NewRepository;
use plural_core::service::Service;
use plural_core::service_error::ServiceError;
use plural_core::sync::{
    FieldChange, PlanAction, PlanCandidate, PlannedObject, ReportedCandidate, ReportedPlan, SyncReport,
};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};

use crate::agent::{URL, deployed, poll_until, report, reported};
use crate::door::{Door, eventually};
use crate::git::digest;
use crate::pull_request::{automation, told};

each_database!(
    agents_are_asked_and_their_answers_end_the_plan,
    what_a_commit_does_not_reach_is_not_asked,
    an_agent_that_is_away_is_not_waited_for,
    a_newer_commit_takes_the_place_of_an_older_one,
    what_cannot_be_found_is_told,
    a_plan_that_somebody_waits_for_outlives_many_others,
    a_renewed_plan_takes_no_newer_ones_place,
);

fn ask(repository_id: RepositoryId, reference: &str, base: Option<&str>) -> FleetPlanAsk {
    FleetPlanAsk {
        repository_id,
        reference: reference.to_owned(),
        base: base.map(str::to_owned),
        pull_request_id: None,
    }
}

async fn create(door: &Door, service: &Service, reference: &str, base: Option<&str>) -> FleetPlan {
    let repository = service.repository_id.unwrap();
    door.app.fleet_plan_create(&door.admin, ask(repository, reference, base)).await.unwrap()
}

async fn known(door: &Door, id: FleetPlanId) -> (FleetPlan, Vec<FleetPlanPart>) {
    let plan = door.app.get::<FleetPlan>(&door.admin, &id).await.unwrap();
    (plan, door.app.fleet_plan_parts(&door.admin, id).await.unwrap())
}

/// Waits until a plan is in a phase.
async fn until(door: &Door, id: FleetPlanId, phase: FleetPlanPhase) -> (FleetPlan, Vec<FleetPlanPart>) {
    eventually(async || {
        let (plan, parts) = known(door, id).await;
        if plan.phase == phase { Ok((plan, parts)) } else { Err(format!("{plan:?}: {parts:?}")) }
    })
    .await
}

/// The service as its agent is told, once it is asked about a commit.
async fn asked(door: &Door, agent: &AgentHandle, sha: &str) -> (ServiceSpec, PlanCandidate) {
    let is_it = |spec: &ServiceSpec| spec.ask.candidates.iter().any(|asked| asked.sha == sha);
    let answer = poll_until(door, agent, None, |answer| answer.services.iter().any(is_it)).await;
    let spec = answer.services.into_iter().find(is_it).unwrap();
    let candidate = spec.ask.candidates.iter().find(|asked| asked.sha == sha).unwrap().clone();
    (spec, candidate)
}

fn planned(name: &str, action: PlanAction) -> PlannedObject {
    PlannedObject {
        object: name.parse().unwrap(),
        version: "v1".to_owned(),
        action,
        phase: None,
        wave: 0,
        why: None,
        fields: vec![FieldChange {
            path: "/data/key".to_owned(),
            before: Some("\"one\"".to_owned()),
            after: Some("\"two\"".to_owned()),
            hidden: false,
            manager: None,
            written_at: None,
        }],
        fields_omitted: 0,
        location: None,
    }
}

fn answer(spec: &ServiceSpec, candidate: &PlanCandidate) -> ReportedCandidate {
    ReportedCandidate {
        plan: ReportedPlan {
            request_id: Some(candidate.id.uuid()),
            revision_id: spec.revision_id,
            digest: "d".to_owned(),
            objects: vec![
                planned("ConfigMap/apps/a", PlanAction::Change),
                planned("ConfigMap/apps/b", PlanAction::Prune),
                planned("Job/apps/c", PlanAction::Blocked),
            ],
            unchanged: 4,
            omitted: 0,
            error: None,
        },
        problems: vec![ServiceError {
            source: "limits".to_owned(),
            message: "ClusterRole x: project team denies it".to_owned(),
            warning: false,
            terminal: true,
            location: Some("web/a.yaml:1".to_owned()),
        }],
    }
}

async fn tell(door: &Door, agent: &AgentHandle, number: u64, spec: &ServiceSpec, told: ReportedCandidate) {
    let sync = SyncReport { candidates: vec![told], ..SyncReport::default() };
    let said = report(number, vec![reported(spec, |said| said.sync = sync)]);
    door.app.agent_report(agent, said).await.unwrap();
}

async fn agents_are_asked_and_their_answers_end_the_plan(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (blue, service, before, _) = deployed(&door, "blue").await;
    let (red, other, ..) = deployed(&door, "red").await;
    let _streams =
        (blue.clone().call(AgentCallKind::Stream).unwrap(), red.clone().call(AgentCallKind::Stream).unwrap());
    let artifact = digest("two");
    let refused = door.app.agent_artifact(&blue, &artifact).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "nobody asks for it yet");

    door.git.propose(URL, "head", &[("web", "two")]);
    let made = create(&door, &service, "head", Some("main")).await;
    assert_eq!((made.phase, made.found), (FleetPlanPhase::Looking, None));
    let (spec, candidate) = asked(&door, &blue, "head").await;
    assert_eq!(spec.artifact_digest, before.artifact_digest, "the service is as it was");
    assert_eq!((spec.revision_id, &candidate.artifact_digest), (before.revision_id, &artifact));
    assert!(door.app.agent_artifact(&blue, &artifact).await.is_ok());

    // Told twice, it counts once; what another cluster's agent tells of it counts nothing.
    let (theirs, _) = asked(&door, &red, "head").await;
    tell(&door, &red, 1, &theirs, answer(&theirs, &candidate)).await;
    tell(&door, &blue, 1, &spec, answer(&spec, &candidate)).await;
    tell(&door, &blue, 2, &spec, answer(&spec, &candidate)).await;
    let (plan, parts) = known(&door, made.id).await;
    let states: Vec<(&str, FleetPartState)> =
        parts.iter().map(|part| (part.cluster.as_str(), part.state)).collect();
    assert_eq!(states, [("blue", FleetPartState::Planned), ("red", FleetPartState::Waiting)]);
    assert_eq!(plan.phase, FleetPlanPhase::Asked);
    let counts = parts[0].counts;
    assert_eq!((counts.changed, counts.deleted, counts.blocked, counts.unchanged), (1, 1, 2, 4));

    // One that cannot be rendered is an answer, too, and the last one.
    let (theirs, candidate) = asked(&door, &red, "head").await;
    let broken = ReportedCandidate {
        plan: ReportedPlan {
            objects: Vec::new(),
            error: Some("render: web/a.yaml:1: it is broken".to_owned()),
            ..answer(&theirs, &candidate).plan
        },
        problems: Vec::new(),
    };
    tell(&door, &red, 2, &theirs, broken).await;
    let (plan, parts) = until(&door, made.id, FleetPlanPhase::Done).await;
    let found = plan.found.unwrap();
    assert_eq!((found.sha.as_str(), found.untouched, found.omitted), ("head", 0, 0));
    assert_eq!((parts[1].state, parts[1].service_id), (FleetPartState::Failed, other.id));
    assert_eq!(parts[1].error.as_deref(), Some("render: web/a.yaml:1: it is broken"));

    let told = door.app.fleet_plan_part(&door.admin, parts[0].id).await.unwrap();
    let objects = told.plan.unwrap().objects;
    assert_eq!(objects[0].fields[0].after.as_deref(), Some("\"two\""), "it was sealed and is opened");
    assert_eq!((objects.len(), told.problems[0].source.as_str()), (3, "limits"));
    assert!(door.app.fleet_plan_part(&door.admin, parts[1].id).await.unwrap().plan.is_none());

    // What syncs did, and plans that were asked for, know nothing of it.
    let plans = door.app.service_plans(&door.admin, service.id, &PageArgs::default()).await.unwrap();
    assert!(plans.edges.is_empty(), "{plans:?}");
    let refused = door.app.agent_artifact(&blue, &artifact).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "nobody asks for it any more");
}

async fn what_a_commit_does_not_reach_is_not_asked(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (blue, service, before, _) = deployed(&door, "blue").await;
    let _stream = blue.clone().call(AgentCallKind::Stream).unwrap();
    door.git.propose(URL, "elsewhere", &[("docs", "two")]);
    for base in [None, Some("main")] {
        let made = create(&door, &service, "elsewhere", base).await;
        let (plan, parts) = until(&door, made.id, FleetPlanPhase::Done).await;
        assert_eq!((plan.found.unwrap().untouched, parts.len()), (1, 0));
    }
    // It follows another branch than the one that this goes to.
    door.git.propose(URL, "head", &[("web", "two")]);
    door.git.propose(URL, "release", &[("web", "three")]);
    let made = create(&door, &service, "head", Some("release")).await;
    let (plan, parts) = until(&door, made.id, FleetPlanPhase::Done).await;
    assert_eq!((plan.found.unwrap().untouched, parts.len()), (0, 0));
    let answer = poll_until(&door, &blue, None, |answer| !answer.services.is_empty()).await;
    assert_eq!(answer.services[0].sequence, before.sequence, "it was told nothing");
}

async fn an_agent_that_is_away_is_not_waited_for(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (_, service, ..) = deployed(&door, "blue").await;
    let (red, ..) = deployed(&door, "red").await;
    let _stream = red.clone().call(AgentCallKind::Stream).unwrap();
    door.git.propose(URL, "head", &[("web", "two")]);
    let made = create(&door, &service, "head", None).await;
    let (_, parts) = until(&door, made.id, FleetPlanPhase::Asked).await;
    let states: Vec<FleetPartState> = parts.iter().map(|part| part.state).collect();
    assert_eq!(states, [FleetPartState::Away, FleetPartState::Waiting]);
    // Nobody waits for ever.
    door.database.fleet_plan_end(made.id, door.app.now()).await.unwrap();
    let (plan, parts) = known(&door, made.id).await;
    assert_eq!((plan.phase, parts[1].state), (FleetPlanPhase::Done, FleetPartState::Late));
}

async fn a_newer_commit_takes_the_place_of_an_older_one(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (blue, service, ..) = deployed(&door, "blue").await;
    let _stream = blue.clone().call(AgentCallKind::Stream).unwrap();
    door.git.propose(URL, "feature", &[("web", "two")]);
    let first = create(&door, &service, "feature", None).await;
    until(&door, first.id, FleetPlanPhase::Asked).await;
    let (spec, candidate) = asked(&door, &blue, "feature").await;
    let second = create(&door, &service, "feature", None).await;
    assert_eq!(known(&door, first.id).await.0.phase, FleetPlanPhase::Superseded);
    until(&door, second.id, FleetPlanPhase::Asked).await;
    let (later, _) = asked(&door, &blue, "feature").await;
    assert_eq!(later.ask.candidates.len(), 1, "the older question is not asked any more");
    assert_ne!(later.ask.candidates[0].id, candidate.id);
    tell(&door, &blue, 1, &spec, answer(&spec, &candidate)).await;
    let (plan, parts) = known(&door, first.id).await;
    assert_eq!((plan.phase, parts[0].state), (FleetPlanPhase::Superseded, FleetPartState::Waiting));
    // One of another branch is beside it.
    door.git.propose(URL, "other", &[("web", "three")]);
    let third = create(&door, &service, "other", None).await;
    until(&door, third.id, FleetPlanPhase::Asked).await;
    assert_eq!(known(&door, second.id).await.0.phase, FleetPlanPhase::Asked);
    let (both, _) = asked(&door, &blue, "other").await;
    assert_eq!(both.ask.candidates.len(), 2);
}

async fn what_cannot_be_found_is_told(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (blue, service, ..) = deployed(&door, "blue").await;
    let _stream = blue.clone().call(AgentCallKind::Stream).unwrap();
    let made = create(&door, &service, "nowhere", None).await;
    let (plan, _) = until(&door, made.id, FleetPlanPhase::Failed).await;
    let error = plan.error.unwrap();
    assert!(error.contains("cannot find nowhere") && error.contains("there is no ref"), "{error}");
    let made = create(&door, &service, "main", Some("gone")).await;
    let (plan, _) = until(&door, made.id, FleetPlanPhase::Failed).await;
    assert!(plan.error.unwrap().contains("cannot find gone"));
    let refused = ask(service.repository_id.unwrap(), "--upload-pack=x", None);
    let refused = door.app.fleet_plan_create(&door.admin, refused).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let stranger = door.user("stranger").await;
    let hidden = door.app.fleet_plan_parts(&door.as_user(&stranger).await, made.id).await;
    assert!(matches!(hidden, Err(Error::NotFound { .. })), "{hidden:?}");
}

async fn a_plan_that_somebody_waits_for_outlives_many_others(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (blue, service, ..) = deployed(&door, "blue").await;
    let _stream = blue.clone().call(AgentCallKind::Stream).unwrap();
    door.git.propose(URL, "head", &[("web", "two")]);
    let waits = create(&door, &service, "head", None).await;
    until(&door, waits.id, FleetPlanPhase::Asked).await;
    let first = create(&door, &service, "nowhere", None).await;
    // Each takes the place of the one before it, or finds that it has failed.
    for _ in 0..52 {
        create(&door, &service, "nowhere", None).await;
    }
    assert_eq!(known(&door, waits.id).await.0.phase, FleetPlanPhase::Asked);
    let gone = door.app.get::<FleetPlan>(&door.admin, &first.id).await;
    assert!(matches!(gone, Err(Error::NotFound { .. })), "{gone:?}");
}

async fn a_renewed_plan_takes_no_newer_ones_place(database: TestDatabase) {
    let door = Door::new(database).await;
    let automation = automation(&door).await;
    let opened =
        door.app.pull_request_record(&door.admin, automation.id, told(1, PrStatus::Open)).await.unwrap();
    let new = NewRepository {
        url: URL.parse().unwrap(),
        project_id: Some(opened.project_id),
        web: plural_core::web_address::WebAddress::default(),
    };
    let repository = door.app.repository_create(&door.admin, new, NewCredentials::default()).await.unwrap();
    let (store, at) = (&door.database, door.app.now());
    let reads = async |second: i64, head: &str, base: &str, status: PrStatus| {
        let facts = PrFacts { base: Some(base.to_owned()), ..PrFacts::default() };
        let read_at = Some(at + TimeDelta::seconds(second));
        let life = PrLife { head: Some(head.to_owned()), facts, links: PrLinks::default(), read_at };
        let read = PullRequestRead { told: told(1, status), life };
        assert!(store.pull_request_read_back(opened.id, &read, &[], at).await.unwrap());
    };
    let begins = async |head: &str| {
        let ask = FleetPlanAsk { pull_request_id: Some(opened.id), ..ask(repository.id, head, Some("main")) };
        door.app.fleet_plan_create(&door.admin, ask).await.unwrap()
    };
    let newest = async || {
        let mut plans = store.fleet_plans_newest(opened.id).await.unwrap();
        assert_eq!(plans.len(), 1, "{plans:?}");
        plans.remove(0)
    };
    // Without how long they wait, which goes on.
    let counted = async || {
        let counts = store.jobs_count().await.unwrap();
        let mut jobs: Vec<String> =
            counts.iter().map(|job| format!("{:?} {:?} {}", job.kind, job.state, job.count)).collect();
        jobs.sort();
        jobs
    };
    let refused = async |before: &FleetPlan, why: &str| {
        let (stands, jobs) = (newest().await, counted().await);
        assert!(!door.app.fleet_plan_renewed(before).await.unwrap(), "{why}");
        assert_eq!(newest().await, stands, "{why}");
        assert_eq!(counted().await, jobs, "{why}");
    };
    let (a, b) = ("a".repeat(40), "b".repeat(40));
    reads(1, &a, "main", PrStatus::Open).await;
    let first = begins(&a).await;
    // As long as nothing moves, it is made again: once, from what was read.
    assert!(door.app.fleet_plan_renewed(&first).await.unwrap());
    let again = newest().await;
    assert_eq!(&again.reference, &a);
    refused(&first, "another one took its place").await;

    reads(2, &b, "main", PrStatus::Open).await;
    refused(&again, "a newer head is known, and has no plan yet").await;
    let second = begins(&b).await;
    refused(&again, "the newer head has a plan").await;
    assert_eq!(newest().await.id, second.id);

    reads(3, &b, "release", PrStatus::Open).await;
    refused(&second, "it goes to another branch").await;
    reads(4, &b, "main", PrStatus::Closed).await;
    refused(&second, "it is closed").await;
    reads(5, &b, "main", PrStatus::Open).await;
    assert!(door.app.fleet_plan_renewed(&second).await.unwrap(), "it is as it was");
}
