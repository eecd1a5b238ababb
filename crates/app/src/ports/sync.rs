//! What use cases need of a database for syncs: what is asked of them, what agents told, what limits them.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::{
    ClusterId, DiffNormalizer, DriftEvent, Page, PageRequest, PlanId, Project, ProjectLimits,
    PromotionRequest, Result, RevisionId, Service, ServiceId, ServiceSync, SyncPlan, SyncRequest,
};
use uuid::Uuid;

use crate::access::{Admin, Audited, Authorized, Read, Write};

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
        by: Audited<'_, Service, Write>,
        request: &PromotionRequest,
    ) -> Result<Service>;
    /// Has the agent make a plan; one that is asked for already counts for everybody. Answers its id.
    async fn service_plan_request(&self, by: Audited<'_, Service, Read>, request: Uuid) -> Result<Uuid>;
    /// Lets exactly the deletions of this digest go on.
    ///
    /// # Errors
    /// [`plural_core::Error::Conflict`] when others wait, or none.
    async fn service_prune_approve(&self, by: Audited<'_, Service, Write>, digest: &str) -> Result<Service>;
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
