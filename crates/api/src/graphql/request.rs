//! What every resolver reaches: the use cases, who asks, and what this request has looked up already.

use std::sync::Arc;

use async_graphql::Context;
use plural_app::global_service::Instance;
use plural_app::instance::InstanceCounts;
use plural_app::managed_namespace::{NamespaceCounts, NamespaceInstance};
use plural_app::policy::BoundSubject;
use plural_app::recording::RecordedProject;
use plural_app::records::Record;
use plural_app::{App, OpCtx};
use plural_core::Page;
use plural_core::ids::{
    ClusterId, GlobalServiceId, GroupId, ManagedNamespaceId, ProjectId, RevisionId, ServiceId, UserId,
};
use plural_core::policy::Policy;
use plural_core::service::Reference;

use super::{
    batch::{Batch, ByNoun, Paged},
    budget::Budget,
};
use crate::options::ApiOptions;

/// One request.
pub(crate) struct Request {
    pub(crate) app: Arc<App>,
    pub(crate) op: OpCtx,
    /// What whoever started the console says of it.
    pub(crate) options: Arc<ApiOptions>,
    /// What its answer may take.
    pub(crate) budget: Arc<Budget>,
    /// What the rows of lists ask for.
    pub(crate) batches: Batches,
}

/// Look-ups for the rows of lists. Nouns by id need no field: [`Request::batch`].
#[derive(Default)]
pub(crate) struct Batches {
    nouns: ByNoun,
    pub(crate) members: Batch<GroupId, Vec<plural_core::user::User>>,
    pub(crate) memberships: Batch<UserId, Vec<plural_core::group::Group>>,
    pub(crate) instance_counts: Batch<GlobalServiceId, InstanceCounts>,
    pub(crate) instances: Paged<GlobalServiceId, Page<Instance>>,
    pub(crate) namespace_counts: Batch<ManagedNamespaceId, NamespaceCounts>,
    pub(crate) namespace_instances: Paged<ManagedNamespaceId, Page<NamespaceInstance>>,
    pub(crate) components: Batch<ServiceId, Vec<plural_core::component::Component>>,
    pub(crate) metadata: Batch<ServiceId, plural_core::service_metadata::ServiceMetadata>,
    pub(crate) deprecations: Batch<ServiceId, Vec<plural_core::api_deprecation::DeprecatedComponent>>,
    pub(crate) errors: Batch<ServiceId, Vec<plural_core::service_error::ServiceError>>,
    pub(crate) reasons: Batch<ServiceId, plural_core::service_reason::ServiceReason>,
    pub(crate) health_changes: Paged<ServiceId, Page<plural_core::health_change::HealthChange>>,
    pub(crate) presence: Batch<ClusterId, plural_core::service_reason::AgentPresence>,
    pub(crate) revisions: Batch<ServiceId, plural_core::revision::Revision>,
    pub(crate) syncs: Batch<ServiceId, plural_core::sync::ServiceSync>,
    pub(crate) plans: Batch<(ServiceId, RevisionId), plural_core::sync::SyncPlan>,
    pub(crate) configurations: Batch<ServiceId, plural_core::service::Configuration>,
    pub(crate) configuration_names: Batch<ServiceId, Vec<(String, Option<Reference>)>>,
    pub(crate) contexts: Batch<ServiceId, Vec<plural_core::service_context::ServiceContext>>,
    pub(crate) imports: Batch<ServiceId, Vec<plural_core::service_import::ServiceImport>>,
    pub(crate) dependencies: Batch<ServiceId, Vec<plural_core::dependency::Dependency>>,
    pub(crate) dependents: Batch<ServiceId, Vec<plural_core::service::Service>>,
    pub(crate) bindings: Batch<Policy, Vec<BoundSubject>>,
    pub(crate) recorded_projects: Batch<ProjectId, RecordedProject>,
}

impl Request {
    pub(crate) fn new(app: Arc<App>, op: OpCtx, options: Arc<ApiOptions>, budget: Arc<Budget>) -> Self {
        Self { app, op, options, budget, batches: Batches::default() }
    }

    /// Look-ups of a noun by id.
    pub(crate) fn batch<N: Record>(&self) -> Arc<Batch<N::Id, N>> {
        self.batches.nouns.of()
    }
}

/// The request of a resolver.
pub(crate) fn request<'a>(ctx: &Context<'a>) -> &'a Request {
    ctx.data_unchecked::<Request>()
}
