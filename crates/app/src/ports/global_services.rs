//! What global services need of a database.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::{Actor, Visibility};
use plural_core::{
    Cluster, ClusterId, GlobalService, GlobalServiceId, GlobalServiceSpecChange, Keyed, Member,
    NewGlobalService, Page, PageRequest, ProjectId, Result, Rollout, SecretsHome, Service, ServiceId,
    ServiceStatus, ServiceTemplate, TagLevel,
};
use uuid::Uuid;

use super::dependencies::ContextsWish;
use crate::access::{Audited, Authorized, Guarded, Home, Read, Write};
use crate::seal::Sealed;

/// Which global service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GlobalServiceSelector {
    /// By id.
    Id(GlobalServiceId),
    /// By exact name.
    Name(String),
}

/// A template to keep.
#[derive(Debug)]
pub struct TemplateWish {
    /// What it is.
    pub template: ServiceTemplate,
    /// Its secrets, sealed for `global-service:ID`.
    pub secrets: Sealed,
    /// Its contexts; whoever asks may use them.
    pub contexts: ContextsWish,
}

/// A new global service and what is kept beside it.
#[derive(Debug)]
pub struct GlobalServiceCreate {
    /// Id to give it.
    pub id: GlobalServiceId,
    /// The service itself; secrets of its source are not read from here.
    pub new: NewGlobalService,
    /// The service whose copies its instances are.
    pub service_id: Option<ServiceId>,
    /// Its first generation.
    pub template: TemplateWish,
}

/// One generation of a template.
#[derive(Debug, Clone)]
pub struct Generation {
    /// Its number.
    pub number: u64,
    /// What it is.
    pub template: ServiceTemplate,
    /// Its secrets, sealed for `global-service:ID`.
    pub secrets: Sealed,
    /// What its texts read, as it was when it was made. Absent: they are no templates.
    pub context: Option<serde_json::Map<String, serde_json::Value>>,
    /// The commit that its instances stand at, when it spreads by a rollout.
    pub sha: Option<String>,
    /// Digest of what the template's folder reaches at that commit.
    pub closure_digest: Option<String>,
}

/// A generation to make.
#[derive(Debug)]
pub struct NewGeneration {
    /// The newest one when this was decided: another one by then is somebody's word, and counts.
    pub after: u64,
    /// What it is.
    pub template: ServiceTemplate,
    /// Its secrets, sealed; those of the generation before when absent.
    pub secrets: Option<Sealed>,
    /// The commit that its instances are to stand at.
    pub sha: Option<String>,
    /// Digest of what the template's folder reaches there.
    pub closure_digest: Option<String>,
}

/// One instance as the job sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Which service.
    pub service_id: ServiceId,
    /// On which cluster.
    pub cluster_id: ClusterId,
    /// The generation that it was given.
    pub generation: u64,
    /// When.
    pub given_at: DateTime<Utc>,
    /// How it is.
    pub status: ServiceStatus,
    /// Its agent has reported on what it was given.
    pub reported: bool,
    /// It stands at a revision of its own: a person pinned it, or a sync window is closed.
    pub pinned: bool,
    /// The console has found what it was given.
    pub placed: bool,
    /// It is being destroyed.
    pub deleted: bool,
    /// Its destruction was nobody's own wish, and can be taken back.
    pub cascaded: bool,
}

/// Everything that the job needs of one global service.
#[derive(Debug)]
pub struct GlobalServiceWork {
    /// The global service.
    pub global: GlobalService,
    /// The generations that are still of use, oldest first.
    pub generations: Vec<Generation>,
    /// Every cluster of its project, or of all.
    pub clusters: Vec<Cluster>,
    /// Its instances.
    pub instances: Vec<Instance>,
}

/// Whose instance a service becomes with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    /// Whose.
    pub owner: GlobalServiceId,
    /// What it is given.
    pub generation: u64,
}

/// Global services.
#[async_trait]
pub trait GlobalServiceStore: Send + Sync + 'static {
    /// Where a global service of this project, or of none, belongs; guarded accordingly.
    async fn global_service_home(&self, actor: &Actor, project: Option<ProjectId>) -> Result<Guarded<Home>>;
    /// Names of tags by which global services and managed namespaces choose clusters of this project, and for whom one has to
    /// speak to change those.
    async fn tags_selected(&self, project: ProjectId) -> Result<BTreeMap<String, TagLevel>>;
    /// One global service, guarded by the bindings of its project.
    async fn global_service_for(
        &self,
        actor: &Actor,
        selector: &GlobalServiceSelector,
    ) -> Result<Guarded<GlobalService>>;
    /// Visible global services whose name contains `q`.
    async fn global_service_list(
        &self,
        visibility: &Visibility,
        q: Option<&str>,
        page: &PageRequest,
    ) -> Result<Page<GlobalService>>;
    /// A new global service.
    async fn global_service_create(
        &self,
        by: Audited<'_, Home, Write>,
        create: &GlobalServiceCreate,
    ) -> Result<GlobalService>;
    /// A changed global service; another template or context makes a generation.
    async fn global_service_update(
        &self,
        by: Audited<'_, GlobalService, Write>,
        spec: &GlobalServiceSpecChange,
        template: Option<&TemplateWish>,
    ) -> Result<GlobalService>;
    /// Marks it: the job lets its instances go and then removes it. Refused where they would have to be deleted and are
    /// protected.
    async fn global_service_delete(&self, by: Audited<'_, GlobalService, Write>) -> Result<GlobalService>;
    /// Where its rollout stands, decided by a person. Refused when it moved on since it was read.
    async fn global_service_steer(
        &self,
        by: Audited<'_, GlobalService, Write>,
        rollout: &Rollout,
    ) -> Result<GlobalService>;
    /// Those that are made of copies of a service.
    async fn global_services_copying(
        &self,
        actor: &Actor,
        service: &Authorized<Service, Read>,
    ) -> Result<Vec<Guarded<GlobalService>>>;
    /// Every global service, for the job.
    async fn global_service_ids(&self) -> Result<Vec<GlobalServiceId>>;
    /// One of them with all that the job needs; `None` when it is gone.
    async fn global_service_work(&self, id: GlobalServiceId) -> Result<Option<GlobalServiceWork>>;
    /// Makes a generation, or places the newest one at its first commit; generations that nobody has any more go.
    /// Answers the newest one's number.
    async fn global_service_generation(
        &self,
        by: Audited<'_, GlobalService, Write>,
        new: &NewGeneration,
    ) -> Result<u64>;
    /// The job has looked at it: it saw to everything that was said until `seen`, or not to all of it, and this is what
    /// was wrong.
    async fn global_service_looked(
        &self,
        id: GlobalServiceId,
        seen: Option<DateTime<Utc>>,
        error: Option<&str>,
    ) -> Result<()>;
    /// Where the job has come to. A rollout that is no longer `before` was steered by a person meanwhile and stays as
    /// it is: `false`.
    async fn global_service_progress(
        &self,
        id: GlobalServiceId,
        before: Option<&Rollout>,
        rollout: Option<&Rollout>,
    ) -> Result<bool>;
    /// Removes one that was deleted and has no instances left.
    async fn global_service_remove(&self, by: Audited<'_, GlobalService, Write>) -> Result<()>;
}

/// Instances of global services.
#[async_trait]
pub trait InstanceStore: Send + Sync + 'static {
    /// Those of a global service.
    async fn global_service_instances(
        &self,
        global: &Authorized<GlobalService, Read>,
    ) -> Result<Vec<Instance>>;
    /// The services of these names on these clusters, instances or not; those that are not there are left out.
    async fn services_named(&self, names: &[(ClusterId, String)]) -> Result<Vec<Service>>;
    /// An instance is to be destroyed, once somebody approves.
    async fn instance_delete(&self, by: Audited<'_, Service, Write>) -> Result<()>;
    /// An instance whose destruction was nobody's own wish stays after all.
    async fn instance_restore(&self, by: Audited<'_, Service, Write>) -> Result<()>;
    /// An instance becomes a service of its own.
    async fn service_disown(&self, by: Audited<'_, Service, Write>, home: SecretsHome) -> Result<()>;
}

impl Keyed for Instance {
    fn key(&self) -> Uuid {
        self.service_id.uuid()
    }
}

impl Instance {
    /// It as a member of a rollout.
    pub fn member(&self) -> Member {
        Member {
            cluster_id: self.cluster_id,
            generation: self.generation,
            since: self.given_at,
            healthy: self.placed && !self.pinned && self.status == ServiceStatus::Healthy,
            failed: self.placed && self.reported && self.status == ServiceStatus::Failed,
        }
    }
}
