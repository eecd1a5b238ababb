//! What is asked of syncs, what agents tell of them, and the limits of projects.

use chrono::{DateTime, TimeDelta, Utc};
use plural_app::agent::AgentHandle;
use plural_app::agent_poll::ServiceSpec;
use plural_app::project::ProjectSelector;
use plural_app::service::ServiceSelector;
use plural_app::sync::PlanSelector;
use plural_core::policy::BindingsChange;
use plural_core::project_limits::ProjectLimits;
use plural_core::service::{Service, ServiceChange};
use plural_core::specs::{DiffNormalizer, Edit, SyncConfig, SyncPolicy};
use plural_core::sync::{
    DriftEvent, DriftKind, FieldChange, ObjectRef, PendingApproval, PlanAction, PlannedObject, ReportedDrift,
    ReportedPlan, ServiceSync, SyncPhase, SyncPlan, SyncProgress, SyncReport, SyncRequest, SyncStep,
    SyncWaiting,
};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use uuid::Uuid;

use crate::agent::{deployed, poll_until, report, reported};
use crate::door::{Door, by_id, new_service, service_id, subject};

each_database!(
    settings_and_requests_reach_the_agent_and_end_when_they_are_done,
    plans_are_kept_once_and_answer_their_requests,
    what_is_read_for_a_list_of_revisions_is_bounded,
    whoever_may_look_may_ask_what_a_sync_would_do,
    only_the_deletions_that_are_shown_are_approved,
    drift_is_kept_up_to_date_and_can_be_ignored,
    limits_reach_agents_and_refuse_sources,
);

async fn spec(door: &Door, agent: &AgentHandle, wanted: impl Fn(&ServiceSpec) -> bool) -> ServiceSpec {
    let answer = poll_until(door, agent, None, |answer| answer.services.iter().any(&wanted)).await;
    answer.services.into_iter().find(|spec| wanted(spec)).unwrap()
}

/// Reports as an agent that has seen `spec`.
async fn tell(door: &Door, agent: &AgentHandle, number: u64, spec: &ServiceSpec, sync: SyncReport) {
    let said = report(number, vec![reported(spec, |said| said.sync = sync)]);
    door.app.agent_report(agent, said).await.unwrap();
}

async fn known(door: &Door, service: &Service) -> ServiceSync {
    let found = door.app.services_syncs(&door.admin, &[service.id]).await.unwrap();
    found[&service.id].clone()
}

async fn plans(door: &Door, service: &Service) -> Vec<SyncPlan> {
    let page = door.app.service_plans(&door.admin, service.id, &PageArgs::default()).await.unwrap();
    page.edges.into_iter().map(|edge| edge.node).collect()
}

async fn drift(door: &Door, service: &Service) -> Vec<DriftEvent> {
    let page = door.app.service_drift(&door.admin, service.id, &PageArgs::default()).await.unwrap();
    page.edges.into_iter().map(|edge| edge.node).collect()
}

fn object(text: &str) -> ObjectRef {
    text.parse().unwrap()
}

fn field() -> FieldChange {
    FieldChange {
        path: "/spec/replicas".to_owned(),
        before: Some("4".to_owned()),
        after: Some("1".to_owned()),
        hidden: false,
        manager: Some("somebody".to_owned()),
        written_at: Some(DateTime::UNIX_EPOCH),
    }
}

fn plan(request: Option<Uuid>, spec: &ServiceSpec, digest: &str) -> ReportedPlan {
    let planned = |name: &str, action| PlannedObject {
        object: object(name),
        version: "v1".to_owned(),
        action,
        phase: Some(SyncPhase::Sync),
        wave: 1,
        why: None,
        fields: vec![field()],
        fields_omitted: 2,
        location: Some("web/a.yaml:1".to_owned()),
    };
    ReportedPlan {
        request_id: request,
        revision_id: spec.revision_id,
        digest: digest.to_owned(),
        objects: vec![
            planned("ConfigMap/apps/a", PlanAction::Change),
            planned("Secret/apps/s", PlanAction::Change),
        ],
        unchanged: 3,
        omitted: 0,
        error: None,
    }
}

async fn settings_and_requests_reach_the_agent_and_end_when_they_are_done(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, _, _) = deployed(&door, "blue").await;
    let selector = service_id(&service);
    let config = SyncConfig {
        policy: SyncPolicy { manual: true, prune: false, retry_limit: Some(3), ..SyncPolicy::default() },
        service_account: Some("deployer".to_owned()),
        diff_normalizers: vec![DiffNormalizer {
            kind: Some("Deployment".to_owned()),
            json_pointers: vec!["/spec/replicas".to_owned()],
            ..DiffNormalizer::default()
        }],
        ..SyncConfig::default()
    };
    let change =
        ServiceChange { sync_config: Some(Edit::Replace(config.clone())), ..ServiceChange::default() };
    let changed = door.app.service_update(&door.admin, &selector, change.clone()).await.unwrap();
    assert_eq!(changed.sync_config, config);
    let again = door.app.service_update(&door.admin, &selector, change).await.unwrap();
    assert_eq!(again.revision_id, changed.revision_id, "the same settings are no change");
    let told = spec(&door, &agent, |spec| spec.sync_config == config).await;
    assert!(told.ask.request.is_none() && told.limits.is_none());
    let mut wrong = config.clone();
    wrong.diff_normalizers[0].json_pointers = vec!["spec.replicas".to_owned()];
    let wrong = ServiceChange { sync_config: Some(Edit::Replace(wrong)), ..ServiceChange::default() };
    let refused = door.app.service_update(&door.admin, &selector, wrong).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");

    let request = SyncRequest { objects: vec![object("ConfigMap/apps/a")], ..SyncRequest::default() };
    let (_, id) = door.app.service_sync(&door.admin, &selector, request.clone()).await.unwrap();
    let told = spec(&door, &agent, |spec| spec.ask.request.is_some()).await;
    assert_eq!(told.ask.request.clone().unwrap(), SyncRequest { id, ..request });
    let progress = SyncProgress {
        step: SyncStep::Waiting,
        phase: Some(SyncPhase::PreSync),
        wave: -1,
        waves: 4,
        waves_done: 1,
        waiting_for: vec![SyncWaiting {
            object: object("Job.batch/apps/migrate"),
            why: "it runs".to_owned(),
        }],
        hooks: Vec::new(),
    };
    let running = SyncReport { progress: Some(progress.clone()), ..SyncReport::default() };
    tell(&door, &agent, 1, &told, running).await;
    let sync = known(&door, &service).await;
    assert_eq!(sync.progress, Some(progress));
    assert!(sync.ask.request.is_some() && sync.request_done.is_none());
    let done = SyncReport { request_done: Some(id.to_string()), ..SyncReport::default() };
    tell(&door, &agent, 2, &told, done).await;
    let sync = known(&door, &service).await;
    assert_eq!((sync.ask.request, sync.request_done), (None, Some(id.to_string())));

    // A service that is paused, or a dry run, has nothing to be synced.
    door.app.service_pause(&door.admin, &selector).await.unwrap();
    let refused = door.app.service_sync(&door.admin, &selector, SyncRequest::default()).await;
    assert!(refused.unwrap_err().to_string().contains("resume"));
    // Chosen objects are applied and nothing else.
    let request = SyncRequest { objects: vec![object("ConfigMap/a")], prune: true, ..SyncRequest::default() };
    assert!(door.app.service_sync(&door.admin, &selector, request).await.is_err());
    let user = door.user("reader").await;
    let stranger = door.as_user(&user).await;
    assert!(matches!(
        door.app.service_sync(&stranger, &selector, SyncRequest::default()).await,
        Err(Error::NotFound { .. })
    ));
    door.stop().await;
}

async fn what_is_read_for_a_list_of_revisions_is_bounded(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let mut revisions = Vec::new();
    // Together more than is read at once, which no service alone can have: texts, fields and plans of one are bounded.
    for (cluster, plans) in [("blue", 20), ("green", 30)] {
        let (agent, service, told, _) = deployed(&door, cluster).await;
        let fields = vec![FieldChange { before: Some("x".repeat(4096)), ..field() }; 45];
        for number in 1..=plans {
            let mut large = plan(None, &told, &format!("plan {number}"));
            for (object, place) in large.objects.iter_mut().zip(["a", "b"]) {
                object.object = self::object(&format!("ConfigMap/apps/{place}{number}"));
                object.fields.clone_from(&fields);
            }
            let sync = SyncReport { plan: Some(large), ..SyncReport::default() };
            tell(&door, &agent, number, &told, sync).await;
        }
        let kept = door.app.service_plans(&door.admin, service.id, &PageArgs::default()).await.unwrap();
        assert!(
            kept.edges.iter().all(|kept| kept.node.objects.iter().all(|object| object.fields.len() == 45))
        );
        revisions.push((service.id, told.revision_id));
    }
    let sums = door.app.revisions_plans(&door.admin, &revisions).await.unwrap();
    let [first, second] = [&sums[&revisions[0].1], &sums[&revisions[1].1]];
    assert_eq!((first.objects.len(), first.error.as_deref()), (40, None));
    assert!(second.objects.len() < 60, "{}", second.objects.len());
    assert!(second.error.as_ref().is_some_and(|told| told.contains("fewer revisions")), "{:?}", second.error);
    door.stop().await;
}

async fn plans_are_kept_once_and_answer_their_requests(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, told, _) = deployed(&door, "blue").await;
    let selector = service_id(&service);
    let record = SyncReport { plan: Some(plan(None, &told, "first")), ..SyncReport::default() };
    tell(&door, &agent, 1, &told, record.clone()).await;
    tell(&door, &agent, 2, &told, record).await;
    let kept = plans(&door, &service).await;
    assert_eq!(kept.len(), 1, "told twice, kept once");
    assert_eq!(kept[0].objects[0].fields, [field()]);
    assert!(kept[0].objects[1].fields[0].hidden, "a Secret's");
    assert_eq!(kept[0].objects[1].fields[0].before.as_deref(), Some("(hidden)"));
    let of_revision = door.app.revisions_plans(&door.admin, &[(service.id, told.revision_id)]).await.unwrap();
    assert_eq!(of_revision[&told.revision_id].digest, "first");
    assert_eq!(of_revision[&told.revision_id].objects[0].fields_omitted, 2);

    // A sync tells in pieces what it does: in sum it is told of its revision, each field once.
    let mut second = plan(None, &told, "second");
    second.objects.truncate(1);
    second.objects[0].fields[0] =
        FieldChange { before: Some("1".to_owned()), after: Some("7".to_owned()), ..field() };
    let more = FieldChange { path: "/spec/paused".to_owned(), ..field() };
    second.objects[0].fields.push(more.clone());
    let sync = SyncReport { plan: Some(second), ..SyncReport::default() };
    tell(&door, &agent, 3, &told, sync).await;
    assert_eq!(plans(&door, &service).await.len(), 2);
    let of_revision = door.app.revisions_plans(&door.admin, &[(service.id, told.revision_id)]).await.unwrap();
    let sum = &of_revision[&told.revision_id];
    assert_eq!((sum.digest.as_str(), sum.objects.len()), ("second", 2));
    assert_eq!(sum.objects[0].fields, [FieldChange { after: Some("7".to_owned()), ..field() }, more]);
    assert!(sum.objects[1].fields[0].hidden);

    let request = door.app.service_plan_request(&door.admin, &selector).await.unwrap();
    let joined = door.app.service_plan_request(&door.admin, &selector).await.unwrap();
    assert_eq!(joined, request, "who asks meanwhile gets the same answer");
    let told = spec(&door, &agent, |spec| spec.ask.plan == Some(request)).await;
    let asked = PlanSelector::Request(request);
    assert!(door.app.service_plan(&door.admin, &selector, asked).await.unwrap().is_none());
    let answer = SyncReport { plan: Some(plan(Some(request), &told, "first")), ..SyncReport::default() };
    tell(&door, &agent, 4, &told, answer).await;
    let answered = door.app.service_plan(&door.admin, &selector, asked).await.unwrap().unwrap();
    assert_eq!((answered.request_id, answered.unchanged), (Some(request), 3));
    assert_eq!(known(&door, &service).await.ask.plan, None);
    let next = door.app.service_plan_request(&door.admin, &selector).await.unwrap();
    assert_ne!(next, request);

    // The oldest go.
    for number in 0..40 {
        let record = plan(None, &told, &format!("digest {number}"));
        let sync = SyncReport { plan: Some(record), ..SyncReport::default() };
        tell(&door, &agent, 10 + number, &told, sync).await;
    }
    let kept = plans(&door, &service).await;
    assert_eq!((kept.len(), kept[29].digest.as_str()), (30, "digest 39"));
    door.stop().await;
}

async fn whoever_may_look_may_ask_what_a_sync_would_do(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, told, _) = deployed(&door, "blue").await;
    let selector = service_id(&service);
    let user = door.user("reader").await;
    let reader = door.as_user(&user).await;
    let hidden = door.app.service_plan_request(&reader, &selector).await;
    assert!(matches!(hidden, Err(Error::NotFound { .. })), "{hidden:?}");
    let readable = BindingsChange { read: Some(vec![subject(&user)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, service.id, readable).await.unwrap();
    let request = door.app.service_plan_request(&reader, &selector).await.unwrap();
    let asked = spec(&door, &agent, |spec| spec.ask.plan == Some(request)).await;
    assert_eq!((asked.revision_id, asked.ask.request), (told.revision_id, None), "nothing else is asked for");
    let events = door.app.service_events(&door.admin, service.id, &PageArgs::default()).await.unwrap();
    let last = &events.edges.last().unwrap().node.entry;
    assert_eq!((last.action.as_ref(), last.actor.as_str()), ("service.plan", "reader@example.com"));

    // Not all the time: it is work for the cluster. Whoever may sync may ask as often as they like.
    let mut refused = None;
    for _ in 0..30 {
        refused = refused.or(door.app.service_plan_request(&reader, &selector).await.err());
        door.app.service_plan_request(&door.admin, &selector).await.unwrap();
    }
    assert!(refused.unwrap().to_string().contains("retry in"));
    door.stop().await;
}

async fn only_the_deletions_that_are_shown_are_approved(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, told, _) = deployed(&door, "blue").await;
    let selector = service_id(&service);
    let refused = door.app.service_prune_approve(&door.admin, &selector, "d1").await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    let pending = |digest: &str| PendingApproval {
        digest: digest.to_owned(),
        reason: "it deletes 12 objects".to_owned(),
        objects: vec![object("ConfigMap/apps/old")],
        count: 12,
    };
    let waits = |digest: &str| SyncReport { pending: Some(pending(digest)), ..SyncReport::default() };
    tell(&door, &agent, 1, &told, waits("d1")).await;
    assert_eq!(known(&door, &service).await.pending, Some(pending("d1")));
    let stale = door.app.service_prune_approve(&door.admin, &selector, "d0").await;
    assert!(stale.unwrap_err().to_string().contains("look at them again"));
    door.app.service_prune_approve(&door.admin, &selector, "d1").await.unwrap();
    let heard =
        spec(&door, &agent, |spec| spec.ask.approved.as_ref().is_some_and(|it| it.digest == "d1")).await;

    // Its agent has not heard of it yet: what it says is no answer.
    tell(&door, &agent, 2, &told, SyncReport::default()).await;
    assert!(known(&door, &service).await.ask.approved.is_some());
    tell(&door, &agent, 3, &heard, waits("d1")).await;
    assert!(known(&door, &service).await.ask.approved.is_some(), "it is being done");
    tell(&door, &agent, 4, &heard, SyncReport::default()).await;
    let sync = known(&door, &service).await;
    assert!(sync.ask.approved.is_none() && sync.pending.is_none(), "{sync:?}");
    door.stop().await;
}

async fn drift_is_kept_up_to_date_and_can_be_ignored(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, told, _) = deployed(&door, "blue").await;
    let selector = service_id(&service);
    let at: DateTime<Utc> = DateTime::UNIX_EPOCH + TimeDelta::days(1);
    let event = |name: &str, count: u32| ReportedDrift {
        event: name.to_owned(),
        object: object("Deployment.apps/apps/web"),
        at,
        kind: DriftKind::Repaired,
        fields: vec![field()],
        what: None,
        count,
    };
    let told_of = |drift: Vec<ReportedDrift>| SyncReport { drift, ..SyncReport::default() };
    tell(&door, &agent, 1, &told, told_of(vec![event("a", 1)])).await;
    tell(&door, &agent, 2, &told, told_of(vec![event("a", 2), event("b", 1)])).await;
    let kept = drift(&door, &service).await;
    let counts: Vec<(&str, u32)> =
        kept.iter().map(|kept| (kept.told.event.as_str(), kept.told.count)).collect();
    assert_eq!(counts, [("a", 2), ("b", 1)]);
    assert_eq!(kept[0].told.fields[0].manager.as_deref(), Some("somebody"));
    for round in 0..20_u64 {
        let events = (0..20).map(|number| event(&format!("{round}-{number}"), 1)).collect();
        tell(&door, &agent, 10 + round, &told, told_of(events)).await;
    }
    let last = PageArgs { last: Some(1), ..PageArgs::default() };
    let page = door.app.service_drift(&door.admin, service.id, &last).await.unwrap();
    assert_eq!(page.edges[0].node.told.event, "19-19");
    let all = PageArgs { first: Some(500), ..PageArgs::default() };
    let page = door.app.service_drift(&door.admin, service.id, &all).await.unwrap();
    assert_eq!(page.edges.len(), 200, "the oldest go");

    let normalizer = DiffNormalizer {
        kind: Some("Deployment".to_owned()),
        name: Some("web".to_owned()),
        json_pointers: vec!["/spec/replicas".to_owned()],
        ..DiffNormalizer::default()
    };
    // One that is pinned, too: it is no revision.
    door.app
        .service_rollback(&door.admin, &selector, told.revision_id, plural_core::service::PinUntil::Release)
        .await
        .unwrap();
    for _ in 0..2 {
        let changed = door.app.service_drift_ignore(&door.admin, &selector, &normalizer).await.unwrap();
        assert_eq!(changed.sync_config.diff_normalizers, std::slice::from_ref(&normalizer));
        assert_eq!(changed.revision_id, told.revision_id);
    }
    spec(&door, &agent, |spec| spec.sync_config.diff_normalizers.len() == 1).await;
    let nothing = DiffNormalizer::default();
    assert!(door.app.service_drift_ignore(&door.admin, &selector, &nothing).await.is_err());
    door.stop().await;
}

async fn limits_reach_agents_and_refuse_sources(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, told, _) = deployed(&door, "blue").await;
    let project = door.default_project().await;
    let selector = ProjectSelector::Id(project.id);
    let limits = ProjectLimits {
        namespaces: vec!["apps".to_owned()],
        denied_kinds: vec!["/Secret".to_owned()],
        no_cluster_scoped: true,
        repositories: vec!["https://example.com/*".to_owned()],
        ..ProjectLimits::default()
    };
    let user = door.user("writer").await;
    let writer = plural_core::policy::BindingsChange {
        write: Some(vec![subject(&user)]),
        ..plural_core::policy::BindingsChange::default()
    };
    door.app.binding_replace(&door.admin, project.id, writer).await.unwrap();
    let ctx = door.as_user(&user).await;
    let refused = door.app.project_limits_set(&ctx, &selector, &limits).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");

    let limited = door.app.project_limits_set(&door.admin, &selector, &limits).await.unwrap();
    assert_eq!(limited.limits, limits);
    let heard = spec(&door, &agent, |spec| spec.limits.is_some()).await;
    assert!(heard.sequence > told.sequence);
    let named = heard.limits.clone().unwrap();
    assert_eq!((named.project.as_str(), &named.limits), ("default", &limits));
    assert_eq!(heard.source_url, "https://example.com/a");

    let elsewhere = door.repository("https://elsewhere.example.org/a").await;
    let cluster = plural_app::cluster::ClusterSelector::Id(service.cluster_id);
    let refused =
        door.app.service_create(&door.admin, &cluster, new_service(&elsewhere, "other")).await.unwrap_err();
    assert!(refused.to_string().contains("https://elsewhere.example.org/a"), "{refused}");
    let change = ServiceChange { repository_id: Some(elsewhere.id), ..ServiceChange::default() };
    let refused = door.app.service_update(&door.admin, &service_id(&service), change).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");

    // Of a service that was there before, its agent is told what it may not be read from.
    let narrow = ProjectLimits { repositories: vec!["https://other/*".to_owned()], ..limits };
    door.app.project_limits_set(&door.admin, &selector, &narrow).await.unwrap();
    spec(&door, &agent, |spec| {
        spec.source_url == "https://example.com/a"
            && spec.limits.as_ref().is_some_and(|named| named.limits == narrow)
    })
    .await;
    door.app.project_limits_set(&door.admin, &selector, &ProjectLimits::default()).await.unwrap();
    spec(&door, &agent, |spec| spec.limits.is_none()).await;
    let green = door.cluster("green").await;
    let new = new_service(&elsewhere, "other");
    door.app.service_create(&door.admin, &by_id(&green.cluster), new).await.unwrap();
    let found = door.app.get::<Service>(&door.admin, &ServiceSelector::Id(service.id)).await.unwrap();
    assert!(found.deleted_at.is_none());
    door.stop().await;
}
