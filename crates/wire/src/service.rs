//! Services: a folder of a git repository, kept applied in a cluster.

use chrono::{DateTime, Utc};
use plural_specs::{SyncConfig, SyncConfigPatch};
use serde::{Deserialize, Serialize};

use crate::{
    cluster::ClusterRef,
    component::ServiceComponent,
    dependency::{LinksAttributes, ServiceDependency},
    document::operations,
    git_repository::GitRepository,
    page::Connection,
    rendering::{HelmSummary, KustomizeAttributes, RendererSummary, RenderingAttributes},
    secret::Secret,
    service_context::ServiceContextRef,
    service_life::ServicePin,
    shared::{Id, list},
    sync::{PendingApproval, ServiceSync},
};

/// A service as lists show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceDeployment {
    /// Opaque id.
    pub id: String,
    /// Name, unique in its cluster.
    pub name: String,
    /// Namespace its objects go to unless they name one.
    pub namespace: String,
    /// How it fares.
    pub status: ServiceDeploymentStatus,
    /// Commit of the current revision.
    pub sha: Option<String>,
    /// Whether deleting it is refused.
    pub protect: Option<bool>,
    /// When someone asked for its deletion.
    pub deleted_at: Option<DateTime<Utc>>,
    /// When it last changed: by somebody, by a commit, or because its agent went through it.
    pub updated_at: Option<DateTime<Utc>>,
    /// Where in the repository it is.
    pub git: Option<GitRef>,
    /// The repository.
    pub repository: Option<GitRepository>,
    /// The cluster.
    pub cluster: Option<ClusterRef>,
    /// What it should be now.
    pub revision: Option<Revision>,
    /// Nothing of it is applied, repaired or deleted until it is resumed.
    #[serde(default)]
    pub paused: Option<bool>,
    /// Set while it is held at a revision that it was rolled back to.
    #[serde(default)]
    pub pin: Option<ServicePin>,
    /// Deletions that wait for a person.
    #[serde(default)]
    pub pending_approval: Option<PendingApproval>,
    /// How far its sync is.
    #[serde(default)]
    pub sync: Option<ServiceSync>,
}

/// A service with all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceDetails {
    /// What lists show.
    #[serde(flatten)]
    pub service: ServiceDeployment,
    /// Whether the agent only plans.
    pub dry_run: Option<bool>,
    /// Whether templates are rendered.
    pub templated: Option<bool>,
    /// How it is synced.
    #[serde(default)]
    pub sync_config: Option<SyncConfig>,
    /// The objects it owns.
    #[serde(default, deserialize_with = "list")]
    pub components: Vec<ServiceComponent>,
    /// What is wrong with it.
    #[serde(default, deserialize_with = "list")]
    pub errors: Vec<ServiceError>,
    /// Its chart, without values.
    #[serde(default)]
    pub helm: Option<HelmSummary>,
    /// Its Kustomization.
    #[serde(default)]
    pub kustomize: Option<KustomizeAttributes>,
    /// What renders which part of it.
    #[serde(default, deserialize_with = "list")]
    pub renderers: Vec<RendererSummary>,
    /// Names of its configuration values. Values are not asked for.
    #[serde(default, deserialize_with = "list")]
    pub configuration: Vec<ServiceConfiguration>,
    /// What it depends on.
    #[serde(default, deserialize_with = "list")]
    pub dependencies: Vec<ServiceDependency>,
    /// The contexts that its templates read.
    #[serde(default, deserialize_with = "list")]
    pub contexts: Vec<ServiceContextRef>,
}

/// How a service fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ServiceDeploymentStatus {
    /// Its current revision is not applied yet.
    Stale,
    /// Applied; not every object is ready yet.
    Synced,
    /// Applied and every object is ready.
    Healthy,
    /// Something is wrong: see its errors.
    Failed,
    /// Waits for a person.
    Paused,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

impl ServiceDeploymentStatus {
    /// As the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stale => "STALE",
            Self::Synced => "SYNCED",
            Self::Healthy => "HEALTHY",
            Self::Failed => "FAILED",
            Self::Paused => "PAUSED",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// A place in a repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitRef {
    /// Branch, tag, commit or semver range of tags.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Folder from the repository's root.
    pub folder: String,
}

/// What a service should be, at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// Opaque id.
    pub id: String,
    /// Its commit.
    pub sha: Option<String>,
}

/// What is wrong with a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceError {
    /// The step that failed: `source`, `render`, `sync`, `prune`.
    pub source: String,
    /// What went wrong.
    pub message: String,
    /// Does not make the service fail.
    pub warning: Option<bool>,
}

/// The name of a configuration value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceConfiguration {
    /// The name.
    pub name: String,
}

/// A configuration value to set.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigAttributes {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Secret,
}

/// A place in a repository to set.
#[derive(Debug, Clone, Serialize)]
pub struct GitRefAttributes {
    /// Branch, tag, commit or semver range of tags.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Folder from the repository's root.
    pub folder: String,
}

/// What a new service is given.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceDeploymentAttributes {
    /// Name, unique in its cluster.
    pub name: String,
    /// Namespace its objects go to unless they name one.
    pub namespace: String,
    /// The repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_id: Option<String>,
    /// Where in the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitRefAttributes>,
    /// Values for templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Vec<ConfigAttributes>>,
    /// Whether the agent only plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// Whether deleting it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect: Option<bool>,
    /// Whether templates are rendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub templated: Option<bool>,
    /// How it is synced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_config: Option<SyncConfigPatch>,
    /// How it becomes objects.
    #[serde(flatten)]
    pub rendering: RenderingAttributes,
    /// What it is tied to.
    #[serde(flatten)]
    pub links: LinksAttributes,
}

/// What of a service changes; what is absent stays.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceUpdateAttributes {
    /// The repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository_id: Option<String>,
    /// Where in the repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitRefAttributes>,
    /// Values for templates; the whole list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub configuration: Option<Vec<ConfigAttributes>>,
    /// Whether the agent only plans.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
    /// Whether deleting it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect: Option<bool>,
    /// Whether templates are rendered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub templated: Option<bool>,
    /// How it is synced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_config: Option<SyncConfigPatch>,
    /// How it becomes objects.
    #[serde(flatten)]
    pub rendering: RenderingAttributes,
    /// What it is tied to.
    #[serde(flatten)]
    pub links: LinksAttributes,
}

macro_rules! service_fields {
    () => {
        "fragment ServiceFields on ServiceDeployment {
  id name namespace status sha protect deletedAt updatedAt
  git { ref folder }
  repository { id url authMethod signedCommits health error pulledAt }
  cluster { id name handle }
  revision { id sha }
  paused pin { revisionId newestRevisionId by until insertedAt }
  pendingApproval { digest reason count }
  sync { step phase wave waves wavesDone }
}"
    };
}
pub(crate) use service_fields;

operations! {
    /// The services that the caller may see, by pages.
    Query ListServiceDeployments {
        /// The page after this cursor.
        after: Option<String>,
        /// Items of the page.
        first: i64,
        /// Only of the cluster with this id.
        cluster_id: Option<String>,
        /// Only of the cluster with this handle.
        cluster: Option<String>,
    } => "serviceDeployments": Connection<ServiceDeployment>,
    concat!("query ListServiceDeployments($after: String, $first: Int, $clusterId: ID, $cluster: String) {
  serviceDeployments(after: $after, first: $first, clusterId: $clusterId, cluster: $cluster) {
    pageInfo { hasNextPage endCursor }
    edges { node { ...ServiceFields } }
  }
}
", service_fields!());

    /// One service with its objects and errors: by id, or by its cluster's handle and its name.
    Query GetServiceDeployment {
        /// Its id, or
        id: Option<String>,
        /// its cluster's handle and
        cluster: Option<String>,
        /// its name.
        name: Option<String>,
    } => "serviceDeployment": ServiceDetails,
    concat!("query GetServiceDeployment($id: ID, $cluster: String, $name: String) {
  serviceDeployment(id: $id, cluster: $cluster, name: $name) {
    ...ServiceFields
    dryRun templated
    syncConfig {
      createNamespace enforceNamespace deleteNamespace requireOwnership namespaceMetadata { labels annotations }
      diffNormalizers { name kind namespace jsonPointers backfill managers }
      policy {
        manual prune selfHeal waveWait waveTimeout retryLimit retryWait retryMaxWait prunePercent pruneObjects
      }
      serviceAccount
    }
    pendingApproval { objects { group kind namespace name } }
    sync {
      waitingFor { object { group kind namespace name } why }
      hooks { object { group kind namespace name } phase outcome message }
      requestDone planRequest promoted { id problems }
    }
    components { id group version kind namespace name state synced }
    errors { source message warning }
    helm { chart version url release valuesFiles }
    kustomize { path enableHelm envsubst }
    renderers { path type command }
    configuration { name }
    dependencies { name cluster status healthy message }
    contexts { name }
  }
}
", service_fields!());

    /// Puts a service on a cluster.
    Mutation CreateServiceDeployment {
        /// The cluster's id, or
        cluster_id: Option<String>,
        /// its handle.
        cluster: Option<String>,
        /// What the service is given.
        attributes: ServiceDeploymentAttributes,
    } => "createServiceDeployment": ServiceDeployment,
    concat!("mutation CreateServiceDeployment($clusterId: ID, $cluster: String, $attributes: ServiceDeploymentAttributes!) {
  createServiceDeployment(clusterId: $clusterId, cluster: $cluster, attributes: $attributes) { ...ServiceFields }
}
", service_fields!());

    /// Changes a service: by id, or by its cluster's handle and its name.
    Mutation UpdateServiceDeployment {
        /// Its id, or
        id: Option<String>,
        /// its cluster's handle and
        cluster: Option<String>,
        /// its name.
        name: Option<String>,
        /// What changes.
        attributes: ServiceUpdateAttributes,
    } => "updateServiceDeployment": ServiceDeployment,
    concat!("mutation UpdateServiceDeployment($id: ID, $cluster: String, $name: String, $attributes: ServiceUpdateAttributes!) {
  updateServiceDeployment(id: $id, cluster: $cluster, name: $name, attributes: $attributes) { ...ServiceFields }
}
", service_fields!());

    /// Looks at a service's repository now instead of at the next poll, and reconciles it.
    Mutation KickService {
        /// Its id, or
        service_id: Option<String>,
        /// its cluster's handle and
        cluster: Option<String>,
        /// its name.
        name: Option<String>,
    } => "kickService": ServiceDeployment,
    concat!("mutation KickService($serviceId: ID, $cluster: String, $name: String) {
  kickService(serviceId: $serviceId, cluster: $cluster, name: $name) { ...ServiceFields }
}
", service_fields!());

    /// Removes a service's objects from its cluster, then the service.
    Mutation DeleteServiceDeployment {
        /// Its id.
        id: String,
    } => "deleteServiceDeployment": Id,
    "mutation DeleteServiceDeployment($id: ID!) {
  deleteServiceDeployment(id: $id) { id }
}";

    /// Forgets a service and leaves its objects as they are.
    Mutation DetachServiceDeployment {
        /// Its id.
        id: String,
    } => "detachServiceDeployment": Id,
    "mutation DetachServiceDeployment($id: ID!) {
  detachServiceDeployment(id: $id) { id }
}";
}
