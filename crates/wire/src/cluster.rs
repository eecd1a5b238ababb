//! Clusters.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    document::operations,
    page::Connection,
    project::ProjectRef,
    secret::Secret,
    shared::{Id, Tag, json_text, list},
};

/// A Kubernetes cluster that an agent brings into the fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Opaque id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Unique short name by which commands address it.
    pub handle: Option<String>,
    /// What kind of Kubernetes it is, as its agent sees it.
    pub distro: Option<ClusterDistro>,
    /// Its Kubernetes version, as its agent sees it.
    pub current_version: Option<String>,
    /// Its agent is of an earlier build than the console.
    pub agent_outdated: Option<bool>,
    /// Whether deleting it is refused.
    pub protect: Option<bool>,
    /// When it was created.
    pub inserted_at: Option<DateTime<Utc>>,
    /// When its agent was last heard of.
    pub pinged_at: Option<DateTime<Utc>>,
    /// When someone asked for its deletion.
    pub deleted_at: Option<DateTime<Utc>>,
    /// Names and values by which it is selected.
    #[serde(default, deserialize_with = "list")]
    pub tags: Vec<Tag>,
    /// Free-form data for templates.
    pub metadata: Option<Value>,
    /// The project it belongs to.
    pub project: Option<ProjectRef>,
}

/// Enough of a cluster to name it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRef {
    /// Opaque id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Unique short name.
    pub handle: Option<String>,
}

/// A cluster together with what its agent logs in with.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterWithToken {
    /// Opaque id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Unique short name.
    pub handle: Option<String>,
    /// The agent's credential. Whoever holds it is this cluster.
    pub deploy_token: Option<Secret>,
}

/// A cluster together with what its agent joins with.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterWithJoinToken {
    /// Opaque id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Unique short name.
    pub handle: Option<String>,
    /// Whoever uses it first is this cluster.
    pub join_token: Option<Secret>,
    /// When it ends.
    pub join_token_expires_at: Option<DateTime<Utc>>,
}

/// Kinds of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ClusterDistro {
    /// None of the others.
    Generic,
    /// Amazon's.
    Eks,
    /// Azure's.
    Aks,
    /// Google's.
    Gke,
    /// Rancher's RKE2.
    Rke,
    /// K3s.
    K3s,
    /// OpenShift.
    Openshift,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

/// What a new cluster is given.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterAttributes {
    /// Name for people.
    pub name: String,
    /// Unique short name; the console derives one from the name when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The project; the default one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// Whether deleting it is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect: Option<bool>,
    /// Names and values by which it is selected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Tag>,
    /// Free-form data for templates.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "json_text")]
    pub metadata: Option<Value>,
}

/// What changes of a cluster; what is absent stays.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterUpdateAttributes {
    /// Tags to set; others stay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set_tags: Vec<Tag>,
    /// Names of tags to take away; others stay.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove_tags: Vec<String>,
}

/// Selects clusters by tags.
#[derive(Debug, Clone, Serialize)]
pub struct TagQuery {
    /// `AND`: all of them; `OR`: any of them.
    pub op: &'static str,
    /// The tags.
    pub tags: Vec<Tag>,
}

macro_rules! cluster_fields {
    () => {
        "fragment ClusterFields on Cluster {
  id name handle distro currentVersion agentOutdated protect insertedAt pingedAt deletedAt metadata
  tags { name value }
  project { id name }
}"
    };
}

operations! {
    /// The clusters that the caller may see, by pages.
    Query ListClusters {
        /// The page after this cursor.
        after: Option<String>,
        /// Items of the page.
        first: i64,
        /// Only of this project.
        project_id: Option<String>,
        /// Only with these tags.
        tag_query: Option<TagQuery>,
    } => "clusters": Connection<Cluster>,
    concat!("query ListClusters($after: String, $first: Int, $projectId: ID, $tagQuery: TagQuery) {
  clusters(after: $after, first: $first, projectId: $projectId, tagQuery: $tagQuery) {
    pageInfo { hasNextPage endCursor }
    edges { node { ...ClusterFields } }
  }
}
", cluster_fields!());

    /// One cluster, by id or by handle.
    Query GetCluster {
        /// Its id, or
        id: Option<String>,
        /// its handle.
        handle: Option<String>,
    } => "cluster": Cluster,
    concat!("query GetCluster($id: ID, $handle: String) {
  cluster(id: $id, handle: $handle) { ...ClusterFields }
}
", cluster_fields!());

    /// One cluster with its agent's credential, as far as the console still knows that: it keeps a hash.
    Query GetClusterWithToken {
        /// Its id, or
        id: Option<String>,
        /// its handle.
        handle: Option<String>,
    } => "cluster": ClusterWithToken,
    "query GetClusterWithToken($id: ID, $handle: String) {
  cluster(id: $id, handle: $handle) { id name handle deployToken }
}";

    /// The address that agents of a cluster must use.
    Query GetAgentUrl {
        /// Its id.
        id: String,
    } => "cluster": AgentUrl,
    "query GetAgentUrl($id: ID!) {
  cluster(id: $id) { agentUrl }
}";

    /// Registers a cluster.
    Mutation CreateCluster {
        /// What it is given.
        attributes: ClusterAttributes,
    } => "createCluster": Cluster,
    concat!("mutation CreateCluster($attributes: ClusterAttributes!) {
  createCluster(attributes: $attributes) { ...ClusterFields }
}
", cluster_fields!());

    /// Registers a cluster and answers its agent's credential.
    Mutation CreateClusterWithToken {
        /// What it is given.
        attributes: ClusterAttributes,
    } => "createCluster": ClusterWithToken,
    "mutation CreateClusterWithToken($attributes: ClusterAttributes!) {
  createCluster(attributes: $attributes) { id name handle deployToken }
}";

    /// Changes a cluster.
    Mutation UpdateCluster {
        /// Its id.
        id: String,
        /// What changes.
        attributes: ClusterUpdateAttributes,
    } => "updateCluster": Cluster,
    concat!("mutation UpdateCluster($id: ID!, $attributes: ClusterUpdateAttributes!) {
  updateCluster(id: $id, attributes: $attributes) { ...ClusterFields }
}
", cluster_fields!());

    /// Makes a token that one agent joins a cluster with.
    Mutation CreateJoinToken {
        /// The cluster's id.
        id: String,
        /// How long it holds; a day when absent.
        valid_for_seconds: Option<i32>,
    } => "createClusterJoinToken": ClusterWithJoinToken,
    "mutation CreateJoinToken($id: ID!, $validForSeconds: Int) {
  createClusterJoinToken(id: $id, validForSeconds: $validForSeconds) { id name handle joinToken joinTokenExpiresAt }
}";

    /// Has a cluster's agent replace its credential by itself.
    Mutation RenewDeployToken {
        /// The cluster's id.
        id: String,
    } => "renewDeployToken": ClusterRef,
    "mutation RenewDeployToken($id: ID!) {
  renewDeployToken(id: $id) { id name handle }
}";

    /// Gives a cluster another agent credential and answers it; the old one ends at once.
    Mutation RotateDeployToken {
        /// Its id.
        id: String,
    } => "rotateDeployToken": ClusterWithToken,
    "mutation RotateDeployToken($id: ID!) {
  rotateDeployToken(id: $id) { id name handle deployToken }
}";

    /// Asks for the removal of everything the console put into a cluster, then of its record.
    Mutation DeleteCluster {
        /// Its id.
        id: String,
    } => "deleteCluster": Id,
    "mutation DeleteCluster($id: ID!) {
  deleteCluster(id: $id) { id }
}";

    /// Forgets a cluster and leaves everything in it as it is.
    Mutation DetachCluster {
        /// Its id.
        id: String,
    } => "detachCluster": Id,
    "mutation DetachCluster($id: ID!) {
  detachCluster(id: $id) { id }
}";
}

/// The answer of [`GetAgentUrl`].
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentUrl {
    /// The address.
    pub agent_url: Option<String>,
}
