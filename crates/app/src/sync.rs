//! Syncs as a person asks for them: now, as a plan first, with deletions approved, with fields left out.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::ids::{ClusterId, PlanId, RevisionId, ServiceId};
use plural_core::project::Project;
use plural_core::project_limits::ProjectLimits;
use plural_core::promotion::{Promotion, PromotionRequest};
use plural_core::service::Service;
use plural_core::specs::DiffNormalizer;
use plural_core::sync::{DriftEvent, MAX_CHOSEN, ObjectRef, ServiceSync, SyncPlan, SyncRequest};
use plural_core::{Error, Page, PageArgs, PageRequest, Result};
use uuid::Uuid;

use crate::access::{Admin, Approve, Audited, Authorized, Prune, Read, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::masking;
use crate::service::{ServiceSelector, check_own};

/// Which plan of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanSelector {
    /// The newest of all.
    Last,
    /// The one that answers a request.
    Request(Uuid),
    /// By id.
    Id(PlanId),
}

/// Limits with the name of the project that has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedLimits {
    /// The project's name.
    pub project: String,
    /// What its services may touch.
    pub limits: ProjectLimits,
}

/// Syncs.
#[async_trait]
pub trait SyncStore: Send + Sync + 'static {
    /// What is known of their syncs; one of which nothing is known is as by default.
    async fn services_syncs(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, ServiceSync>>;
    /// Has the agent do something once, in place of what waits to be done.
    async fn service_sync(&self, by: Audited<'_, Service, Write>, request: &SyncRequest) -> Result<Service>;
    /// Keeps what the service's canaries are to be told, in place of what waits.
    async fn service_promote(
        &self,
        by: Audited<'_, Service, Approve>,
        request: &PromotionRequest,
    ) -> Result<Service>;
    /// Has the agent make a plan; one that is asked for already counts for everybody. Answers its id.
    async fn service_plan_request(&self, by: Audited<'_, Service, Read>, request: Uuid) -> Result<Uuid>;
    /// Lets exactly the deletions of this digest go on.
    ///
    /// # Errors
    /// [`plural_core::Error::Conflict`] when others wait, or none.
    async fn service_prune_approve(&self, by: Audited<'_, Service, Prune>, digest: &str) -> Result<Service>;
    /// Leaves fields out of what is compared, from now on.
    async fn service_drift_ignore(
        &self,
        by: Audited<'_, Service, Write>,
        normalizer: &DiffNormalizer,
    ) -> Result<Service>;
    /// One plan of the service.
    async fn service_plan(
        &self,
        service: &Authorized<Service, Read>,
        selector: PlanSelector,
    ) -> Result<Option<SyncPlan>>;
    /// Its plans.
    async fn service_plans(
        &self,
        service: &Authorized<Service, Read>,
        page: &PageRequest,
    ) -> Result<Page<SyncPlan>>;
    /// What syncs did at these revisions of the services, the newest of each.
    async fn revisions_plans(
        &self,
        services: &[Authorized<Service, Read>],
        revisions: &[RevisionId],
    ) -> Result<HashMap<RevisionId, SyncPlan>>;
    /// Foreign changes of its objects.
    async fn service_drift(
        &self,
        service: &Authorized<Service, Read>,
        page: &PageRequest,
    ) -> Result<Page<DriftEvent>>;
    /// Limits what the services of a project may touch; their agents hear of it.
    async fn project_limits_set(
        &self,
        by: Audited<'_, Project, Admin>,
        limits: &ProjectLimits,
    ) -> Result<Project>;
    /// What the services of a cluster may touch.
    async fn cluster_limits(&self, cluster: ClusterId) -> Result<NamedLimits>;
}

impl App {
    /// Has the agent sync now, the whole service or chosen objects. The request's id is answered by
    /// [`ServiceSync::request_done`].
    pub async fn service_sync(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        mut request: SyncRequest,
    ) -> Result<(Service, Uuid)> {
        if request.objects.len() > MAX_CHOSEN {
            return Err(Error::invalid("attributes.objects", format!("at most {MAX_CHOSEN} are allowed")));
        }
        request.objects.iter().try_for_each(ObjectRef::check)?;
        if !request.objects.is_empty() && (request.prune || request.run_tests) {
            return Err(Error::invalid(
                "attributes.objects",
                "prune and runTests cannot be combined with selected objects",
            ));
        }
        let service = self.authorized::<Service, Write>(ctx, selector).await?;
        can_be_acted_on(&service)?;
        request.id = Uuid::now_v7();
        let synced = self.store.service_sync(service.audited(ctx, "service.sync"), &request).await?;
        Ok((synced, request.id))
    }

    /// Has the agent tell the service's canaries to go on or back, all of them or chosen ones. The request's id is answered
    /// by [`ServiceSync::promoted`]. One that waits is replaced: the last word counts.
    pub async fn service_promote(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        promotion: Promotion,
        objects: Vec<ObjectRef>,
    ) -> Result<(Service, Uuid)> {
        if objects.len() > MAX_CHOSEN {
            return Err(Error::invalid("objects", format!("at most {MAX_CHOSEN} are allowed")));
        }
        objects.iter().try_for_each(ObjectRef::check)?;
        let service = self.authorized::<Service, Approve>(ctx, selector).await?;
        can_be_acted_on(&service)?;
        let action = match promotion {
            Promotion::Proceed => "service.proceed",
            Promotion::Rollback => "service.rollback-canary",
        };
        let request = PromotionRequest { id: Uuid::now_v7(), promotion, objects, at: self.now(), gates: 0 };
        let told = self.store.service_promote(service.audited(ctx, action), &request).await?;
        Ok((told, request.id))
    }

    /// Has the agent say what a sync would do, field by field; whoever may look at the service may ask, but not all the time.
    /// Answers the request that the plan will name.
    pub async fn service_plan_request(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Uuid> {
        let service = self.authorized::<Service, Read>(ctx, selector).await?;
        can_be_synced(&service)?;
        let changes = self.authorized::<Service, Write>(ctx, &ServiceSelector::Id(service.id)).await;
        if let Err(Error::Forbidden { .. }) = changes {
            self.questions.admit(ctx.actor(), ctx.now())?;
        }
        self.store.service_plan_request(service.audited(ctx, "service.plan"), Uuid::now_v7()).await
    }

    /// Lets the deletions that wait for a person go on, if they are still those of this digest.
    pub async fn service_prune_approve(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        digest: &str,
    ) -> Result<Service> {
        let service = self.authorized::<Service, _>(ctx, selector).await?;
        self.store.service_prune_approve(service.audited(ctx, "service.approve-prune"), digest).await
    }

    /// Leaves fields of an object out of what is compared, from now on. Holds for a pinned service, too:
    /// it is no new revision.
    pub async fn service_drift_ignore(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        normalizer: &DiffNormalizer,
    ) -> Result<Service> {
        normalizer.check().map_err(|fault| fault.within("syncConfig.diffNormalizers"))?;
        let service = self.authorized::<Service, _>(ctx, selector).await?;
        // The next generation would not know of it.
        check_own(&service)?;
        self.store.service_drift_ignore(service.audited(ctx, "service.ignore"), normalizer).await
    }

    /// What is known of the syncs of services.
    pub async fn services_syncs(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, ServiceSync>> {
        let mut found =
            self.store.services_syncs(&self.authorized_many::<Service, _>(ctx, ids).await?).await?;
        let masks = self.masks(ctx, found.keys().copied()).await?;
        for (id, sync) in &mut found {
            masks.apply(*id, sync, masking::sync);
        }
        Ok(found)
    }

    /// One plan of a service, once it is there.
    pub async fn service_plan(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        plan: PlanSelector,
    ) -> Result<Option<SyncPlan>> {
        let service = self.authorized::<Service, Read>(ctx, selector).await?;
        let mut plan = self.store.service_plan(&service, plan).await?;
        self.plans_shown(ctx, &mut plan).await?;
        Ok(plan)
    }

    /// What its syncs did and plans that were asked for, oldest first.
    pub async fn service_plans(&self, ctx: &OpCtx, id: ServiceId, page: &PageArgs) -> Result<Page<SyncPlan>> {
        let service = self.authorized::<Service, _>(ctx, &ServiceSelector::Id(id)).await?;
        let mut found = self.store.service_plans(&service, &page.request()?).await?;
        self.plans_shown(ctx, found.edges.iter_mut().map(|edge| &mut edge.node)).await?;
        Ok(found)
    }

    /// What the syncs of each of these revisions of a service did, in sum.
    pub async fn revisions_plans(
        &self,
        ctx: &OpCtx,
        revisions: &[(ServiceId, RevisionId)],
    ) -> Result<HashMap<RevisionId, SyncPlan>> {
        let mut services: Vec<ServiceId> = revisions.iter().map(|(service, _)| *service).collect();
        services.sort_unstable();
        services.dedup();
        let services = self.authorized_many::<Service, _>(ctx, &services).await?;
        let revisions: Vec<RevisionId> = revisions.iter().map(|(_, revision)| *revision).collect();
        let mut found = self.store.revisions_plans(&services, &revisions).await?;
        self.plans_shown(ctx, found.values_mut()).await?;
        Ok(found)
    }

    /// Foreign changes of its objects, oldest first.
    pub async fn service_drift(
        &self,
        ctx: &OpCtx,
        id: ServiceId,
        page: &PageArgs,
    ) -> Result<Page<DriftEvent>> {
        let service = self.authorized::<Service, _>(ctx, &ServiceSelector::Id(id)).await?;
        let mut found = self.store.service_drift(&service, &page.request()?).await?;
        self.drift_shown(ctx, found.edges.iter_mut().map(|edge| &mut edge.node)).await?;
        Ok(found)
    }
}

/// Whether something can be done in the cluster for it.
fn can_be_acted_on(service: &Service) -> Result<()> {
    can_be_synced(service)?;
    if service.dry_run {
        return Err(Error::conflict(
            "the service is a dry run, and nothing is applied; `plural cd services update --dry-run=false` ends that",
        ));
    }
    if service.paused {
        return Err(Error::conflict("the service is paused; resume it first"));
    }
    Ok(())
}

fn can_be_synced(service: &Service) -> Result<()> {
    if service.deleted_at.is_some() {
        return Err(Error::conflict("the service is being deleted"));
    }
    if service.artifact_digest.is_none() && service.rendering.managed_namespace.is_none() {
        return Err(Error::conflict(
            "the service's source has not been fetched yet; see its errors, or retry later",
        ));
    }
    Ok(())
}
