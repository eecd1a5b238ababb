//! Syncs: how far they are, what waits for a person, and what a person asks of them.

use async_graphql::{Context, Enum, ID, InputObject, Object, Result, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::service::ServiceSelector;
use plural_app::sync::PlanSelector;
use plural_core::Error;
use plural_core::ids::ServiceId;
use plural_core::specs::{DiffNormalizer, Document as _};
use plural_specs::DiffNormalizerPatch;
use uuid::Uuid;

use super::{
    error::{IntoGraphql, List, Nullable, id, items, list, nullable},
    request::request,
    service::ServiceDeployment,
    sync_plan::{ObjectRef, ServicePlan, SyncPhase},
};

/// How far a sync is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::sync::SyncStep")]
pub(crate) enum SyncStep {
    /// Writing, or about to.
    Running,
    /// Something is not done or not healthy yet.
    Waiting,
    /// All waves are through.
    Complete,
    /// A hook failed, a wave took too long, an object was refused.
    Failed,
    /// It waits for a person.
    Held,
}

/// How a hook fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::sync::HookOutcome")]
pub(crate) enum HookOutcome {
    /// It runs.
    Running,
    /// It ended well.
    Succeeded,
    /// It ended badly.
    Failed,
}

/// Something that a sync waits for.
#[derive(SimpleObject)]
pub(crate) struct SyncWaiting {
    /// The object.
    object: ObjectRef,
    /// Why it is not done.
    why: String,
}

/// A hook of a sync.
#[derive(SimpleObject)]
pub(crate) struct SyncHook {
    /// The object.
    object: ObjectRef,
    /// When it runs.
    phase: Option<SyncPhase>,
    /// How it fares.
    outcome: Option<HookOutcome>,
    /// Why it failed.
    message: Option<String>,
}

/// Something to be done once.
#[derive(SimpleObject)]
pub(crate) struct SyncRequest {
    /// Id.
    id: ID,
    /// Only these objects; empty: all.
    objects: List<ObjectRef>,
    /// Tests of a chart are run.
    run_tests: Option<bool>,
    /// Hooks that were completed are run again.
    repeat_hooks: Option<bool>,
    /// What left git is deleted even where the policy says no.
    prune: Option<bool>,
}

/// What canaries that wait are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::promotion::Promotion")]
pub(crate) enum ServicePromotion {
    /// Go on.
    Proceed,
    /// Go back to what was before.
    Rollback,
}

/// How far the sync of a service is.
#[derive(SimpleObject)]
pub(crate) struct ServiceSync {
    /// Where; absent before the first.
    step: Option<SyncStep>,
    /// In which phase.
    phase: Option<SyncPhase>,
    /// In which wave.
    wave: Option<i32>,
    /// Waves of all phases.
    waves: Option<u32>,
    /// Waves that are through.
    waves_done: Option<u32>,
    /// What it waits for.
    waiting_for: List<SyncWaiting>,
    /// Its hooks.
    hooks: List<SyncHook>,
    /// What was asked for and is not done yet.
    request: Option<SyncRequest>,
    /// The last request that was done.
    request_done: Option<ID>,
    /// A plan that was asked for and is not made yet.
    plan_request: Option<ID>,
    /// Digest of the deletions that were approved and are not done yet.
    approved_prune: Option<String>,
    /// What canaries are to be told and were not told yet.
    promotion: Option<PromotionRequest>,
    /// What came of the last word to canaries.
    promoted: Option<Promoted>,
}

/// A word to a service's canaries.
#[derive(SimpleObject)]
pub(crate) struct PromotionRequest {
    /// Chosen by the console.
    id: ID,
    /// What is said.
    promotion: ServicePromotion,
    /// Only to these; to all when absent.
    objects: List<ObjectRef>,
    /// From when on it is not told any more.
    expires_at: DateTime<Utc>,
}

/// What came of a word to canaries.
#[derive(SimpleObject)]
pub(crate) struct Promoted {
    /// Of which one.
    id: ID,
    /// Why some were not told; absent when all were.
    problems: List<String>,
}

impl From<plural_core::sync::ServiceSync> for ServiceSync {
    fn from(sync: plural_core::sync::ServiceSync) -> Self {
        let plural_core::sync::ServiceSync { ask, progress, pending: _, request_done, promoted } = sync;
        let plural_core::sync::SyncAsk { request, plan, approved, promotion, candidates: _ } = ask;
        let hook = |hook: plural_core::sync::SyncHook| {
            let plural_core::sync::SyncHook { object, phase, outcome, message } = hook;
            SyncHook {
                object: object.into(),
                phase: phase.map(Into::into),
                outcome: outcome.map(Into::into),
                message,
            }
        };
        let waiting = |waiting: plural_core::sync::SyncWaiting| {
            let plural_core::sync::SyncWaiting { object, why } = waiting;
            SyncWaiting { object: object.into(), why }
        };
        let request = request.map(|request| {
            let plural_core::sync::SyncRequest { id, objects, run_tests, repeat_hooks, prune } = request;
            SyncRequest {
                id: id.to_string().into(),
                objects: list(objects.into_iter().map(Into::into)),
                run_tests: Some(run_tests),
                repeat_hooks: Some(repeat_hooks),
                prune: Some(prune),
            }
        });
        let known = progress.as_ref();
        Self {
            step: known.map(|progress| progress.step.into()),
            phase: known.and_then(|progress| progress.phase).map(Into::into),
            wave: known.map(|progress| progress.wave),
            waves: known.map(|progress| progress.waves),
            waves_done: known.map(|progress| progress.waves_done),
            waiting_for: known.and_then(|progress| list(progress.waiting_for.iter().cloned().map(waiting))),
            hooks: known.and_then(|progress| list(progress.hooks.iter().cloned().map(hook))),
            request,
            request_done: request_done.map(Into::into),
            plan_request: plan.map(|id| id.to_string().into()),
            approved_prune: approved.map(|approved| approved.digest),
            promotion: promotion.map(|said| {
                let expires_at = said.at + plural_core::promotion::PROMOTION_LASTS;
                let plural_core::promotion::PromotionRequest { id, promotion, objects, at: _, gates: _ } =
                    said;
                PromotionRequest {
                    id: id.to_string().into(),
                    promotion: promotion.into(),
                    objects: list(objects.into_iter().map(Into::into)),
                    expires_at,
                }
            }),
            promoted: promoted.map(|plural_core::promotion::Promoted { id, problems }| Promoted {
                id: id.into(),
                problems: list(problems),
            }),
        }
    }
}

/// Deletions that wait for a person.
#[derive(SimpleObject)]
pub(crate) struct PendingApproval {
    /// Approve exactly these with it: other objects have another one.
    digest: String,
    /// Why they wait.
    reason: String,
    /// How many there are.
    count: u32,
    /// The first 500 of them.
    objects: List<ObjectRef>,
}

impl From<plural_core::sync::PendingApproval> for PendingApproval {
    fn from(pending: plural_core::sync::PendingApproval) -> Self {
        let plural_core::sync::PendingApproval { digest, reason, objects, count } = pending;
        Self { digest, reason, count, objects: list(objects.into_iter().map(Into::into)) }
    }
}

/// What is known of a service's sync, looked up together with those of other services.
pub(crate) async fn sync_of(ctx: &Context<'_>, service: ServiceId) -> Result<plural_core::sync::ServiceSync> {
    let request = request(ctx);
    let look_up = async |ids: Vec<_>| request.app.services_syncs(&request.op, &ids).await.into_graphql(ctx);
    Ok(request.batches.syncs.get(service, look_up).await?.unwrap_or_default())
}

/// One object of a cluster.
#[derive(Debug, InputObject)]
pub(crate) struct ObjectRefAttributes {
    /// API group; empty or absent for the core group.
    group: Option<String>,
    /// Kind.
    kind: String,
    /// Namespace; absent for one of the cluster.
    namespace: Option<String>,
    /// Name.
    name: String,
}

impl ObjectRefAttributes {
    fn parse(self) -> plural_core::sync::ObjectRef {
        let Self { group, kind, namespace, name } = self;
        plural_core::sync::ObjectRef {
            group: group.unwrap_or_default(),
            kind,
            namespace: namespace.unwrap_or_default(),
            name,
        }
    }
}

/// What a sync does.
#[derive(Debug, Default, InputObject)]
pub(crate) struct SyncServiceAttributes {
    /// Only these objects; empty or absent: all. Of an object that somebody changed, this takes over what git says.
    objects: List<ObjectRefAttributes>,
    /// Run tests of the chart afterwards.
    run_tests: Option<bool>,
    /// Run hooks again that were completed.
    repeat_hooks: Option<bool>,
    /// Delete what left git even where the policy says no.
    prune: Option<bool>,
}

/// A sync that was asked for.
#[derive(SimpleObject)]
pub(crate) struct SyncRequested {
    /// The request's id: it is done when `sync.requestDone` of the service says so.
    request_id: ID,
    /// The service.
    service: Option<ServiceDeployment>,
}

/// A plan that was asked for.
#[derive(SimpleObject)]
pub(crate) struct PlanRequested {
    /// The request's id: `servicePlan` answers with the plan once it is there.
    request_id: ID,
}

/// Reading plans.
#[derive(Default)]
pub(crate) struct SyncQuery;

/// Reading plans.
#[Object]
impl SyncQuery {
    /// The address of a service's gates, at which canaries of Flagger ask: `/confirm-rollout`, `/confirm-traffic-increase`,
    /// `/confirm-promotion` or `/rollback` is added to it. It holds a secret; for those who may change the service.
    async fn service_gate_url(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
    ) -> Nullable<String> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            let path = request.app.canary_gate_path(&request.op, &selector).await.into_graphql(ctx)?;
            let console = request.options.public_url.as_deref().unwrap_or_default().trim_end_matches('/');
            Ok(Some(format!("{console}{path}")))
        })
        .await
    }

    /// A plan of a service: the one that answers a request, nothing until it is there; else the newest.
    async fn service_plan(
        &self,
        ctx: &Context<'_>,
        service_id: ID,
        request_id: Option<ID>,
    ) -> Nullable<ServicePlan> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service_id).into_graphql(ctx)?);
            let plan = match request_id {
                None => PlanSelector::Last,
                Some(text) => PlanSelector::Request(
                    text.parse::<Uuid>()
                        .map_err(|_| Error::invalid("requestId", "must be a UUID"))
                        .into_graphql(ctx)?,
                ),
            };
            let found = request.app.service_plan(&request.op, &selector, plan).await.into_graphql(ctx)?;
            Ok(found.map(Into::into))
        })
        .await
    }
}

/// Asking for syncs.
#[derive(Default)]
pub(crate) struct SyncMutation;

/// Asking for syncs.
#[Object]
impl SyncMutation {
    /// Syncs a service now, or chosen objects of it.
    async fn sync_service(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
        attributes: Option<SyncServiceAttributes>,
    ) -> Nullable<SyncRequested> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            let SyncServiceAttributes { objects, run_tests, repeat_hooks, prune } =
                attributes.unwrap_or_default();
            let objects = items(objects).unwrap_or_default();
            let asked = plural_core::sync::SyncRequest {
                id: Uuid::nil(),
                objects: objects.into_iter().map(ObjectRefAttributes::parse).collect(),
                run_tests: run_tests.unwrap_or(false),
                repeat_hooks: repeat_hooks.unwrap_or(false),
                prune: prune.unwrap_or(false),
            };
            let (service, id) =
                request.app.service_sync(&request.op, &selector, asked).await.into_graphql(ctx)?;
            Ok(Some(SyncRequested { request_id: id.to_string().into(), service: Some(service.into()) }))
        })
        .await
    }

    /// Tells canaries of a service that wait to go on, or those under way to go back: all of them, or the chosen ones. Done when
    /// `sync.promoted` of the service names the request's id.
    async fn promote_service(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
        promotion: ServicePromotion,
        objects: List<ObjectRefAttributes>,
    ) -> Nullable<SyncRequested> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            let objects = items(objects).unwrap_or_default();
            let objects = objects.into_iter().map(ObjectRefAttributes::parse).collect();
            let (service, id) = request
                .app
                .service_promote(&request.op, &selector, promotion.into(), objects)
                .await
                .into_graphql(ctx)?;
            Ok(Some(SyncRequested { request_id: id.to_string().into(), service: Some(service.into()) }))
        })
        .await
    }

    /// Has the agent say what a sync would do, field by field, without doing it.
    async fn plan_service(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
    ) -> Nullable<PlanRequested> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            let id = request.app.service_plan_request(&request.op, &selector).await.into_graphql(ctx)?;
            Ok(Some(PlanRequested { request_id: id.to_string().into() }))
        })
        .await
    }

    /// Lets deletions that wait for a person go on, if they are still those of this digest.
    async fn approve_service_prune(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
        digest: String,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            let approved = request.app.service_prune_approve(&request.op, &selector, &digest).await;
            Ok(Some(approved.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Leaves fields of an object to others from now on: adds to the service's `diffNormalizers`.
    async fn ignore_service_drift(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
        attributes: DiffNormalizerPatch,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            let normalizer = DiffNormalizer::made(attributes).map_err(Error::from).into_graphql(ctx)?;
            let changed = request.app.service_drift_ignore(&request.op, &selector, &normalizer).await;
            Ok(Some(changed.into_graphql(ctx)?.into()))
        })
        .await
    }
}
