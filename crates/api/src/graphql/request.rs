//! What every resolver reaches: the use cases, who asks, and what this request has looked up already.

use std::sync::Arc;

use async_graphql::Context;
use plural_app::{
    App, BoundSubject, Instance, InstanceCounts, NamespaceCounts, NamespaceInstance, OpCtx, RecordedProject,
};
use plural_core::{
    ClusterId, GlobalServiceId, GroupId, ManagedNamespaceId, Page, Policy, ProjectId, RepositoryId,
    RevisionId, ServiceContextId, ServiceId, UserId,
};

use super::{
    batch::{Batch, Paged},
    budget::Budget,
};

/// One request.
pub(crate) struct Request {
    pub(crate) app: Arc<App>,
    pub(crate) op: OpCtx,
    /// The console's address as others reach it.
    pub(crate) public_url: Option<String>,
    /// What its answer may take.
    pub(crate) budget: Arc<Budget>,
    // What the rows of lists ask for.
    pub(crate) clusters: Batch<ClusterId, plural_core::Cluster>,
    pub(crate) projects: Batch<ProjectId, plural_core::Project>,
    pub(crate) repositories: Batch<RepositoryId, plural_core::Repository>,
    pub(crate) users: Batch<UserId, plural_core::User>,
    pub(crate) groups: Batch<GroupId, plural_core::Group>,
    pub(crate) members: Batch<GroupId, Vec<plural_core::User>>,
    pub(crate) memberships: Batch<UserId, Vec<plural_core::Group>>,
    pub(crate) services: Batch<ServiceId, plural_core::Service>,
    pub(crate) contexts_by_id: Batch<ServiceContextId, plural_core::ServiceContext>,
    pub(crate) instance_counts: Batch<GlobalServiceId, InstanceCounts>,
    pub(crate) instances: Paged<GlobalServiceId, Page<Instance>>,
    pub(crate) namespace_counts: Batch<ManagedNamespaceId, NamespaceCounts>,
    pub(crate) namespace_instances: Paged<ManagedNamespaceId, Page<NamespaceInstance>>,
    pub(crate) components: Batch<ServiceId, Vec<plural_core::Component>>,
    pub(crate) metadata: Batch<ServiceId, plural_core::ServiceMetadata>,
    pub(crate) deprecations: Batch<ServiceId, Vec<plural_core::DeprecatedComponent>>,
    pub(crate) errors: Batch<ServiceId, Vec<plural_core::ServiceError>>,
    pub(crate) revisions: Batch<ServiceId, plural_core::Revision>,
    pub(crate) syncs: Batch<ServiceId, plural_core::ServiceSync>,
    pub(crate) plans: Batch<(ServiceId, RevisionId), plural_core::SyncPlan>,
    pub(crate) configurations: Batch<ServiceId, plural_core::Configuration>,
    pub(crate) configuration_names: Batch<ServiceId, Vec<String>>,
    pub(crate) contexts: Batch<ServiceId, Vec<plural_core::ServiceContext>>,
    pub(crate) dependencies: Batch<ServiceId, Vec<plural_core::Dependency>>,
    pub(crate) dependents: Batch<ServiceId, Vec<plural_core::Service>>,
    pub(crate) bindings: Batch<Policy, Vec<BoundSubject>>,
    pub(crate) recorded_projects: Batch<ProjectId, RecordedProject>,
}

impl Request {
    pub(crate) fn new(app: Arc<App>, op: OpCtx, public_url: Option<String>, budget: Arc<Budget>) -> Self {
        Self {
            app,
            op,
            public_url,
            budget,
            clusters: Batch::default(),
            projects: Batch::default(),
            repositories: Batch::default(),
            users: Batch::default(),
            groups: Batch::default(),
            members: Batch::default(),
            memberships: Batch::default(),
            services: Batch::default(),
            contexts_by_id: Batch::default(),
            instance_counts: Batch::default(),
            instances: Paged::default(),
            namespace_counts: Batch::default(),
            namespace_instances: Paged::default(),
            components: Batch::default(),
            metadata: Batch::default(),
            deprecations: Batch::default(),
            errors: Batch::default(),
            revisions: Batch::default(),
            syncs: Batch::default(),
            plans: Batch::default(),
            configurations: Batch::default(),
            configuration_names: Batch::default(),
            contexts: Batch::default(),
            dependencies: Batch::default(),
            dependents: Batch::default(),
            bindings: Batch::default(),
            recorded_projects: Batch::default(),
        }
    }
}

/// The request of a resolver.
pub(crate) fn request<'a>(ctx: &Context<'a>) -> &'a Request {
    ctx.data_unchecked::<Request>()
}
