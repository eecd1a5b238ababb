//! Clusters.

use std::collections::BTreeSet;

use async_graphql::{Context, Enum, ID, InputObject, Object};
use chrono::{DateTime, TimeDelta, Utc};
use plural_app::cluster::{ClusterSelector, CreatedCluster};
use plural_app::deploy_token::CreatedJoinToken;
use plural_app::recording::RecordingsSelector;
use plural_core::Error;
use plural_core::cluster::{ClusterChange, NewCluster, TagsChange};
use plural_core::policy::Role;
use plural_specs::{Json, Map};
use secrecy::{ExposeSecret, SecretString};

use super::{
    binding::{PolicyBinding, RoleBinding, bindings_of, role_bindings_of},
    cluster_audit::ClusterAuditLogConnection,
    cluster_list::ClusterState,
    cluster_provider::{
        CloudSettingsAttributes, ClusterProvider, ClusterServiceAttributes, KubeconfigAttributes, NodePool,
        NodePoolAttributes, ProviderCredential, ProvisioningAttributes, UpgradePlanAttributes,
    },
    cluster_status::ClusterStatus,
    error::{
        IntoGraphql, List, Nullable, exactly_one, id, id_in, items, list, nullable, parse, parse_option,
    },
    limited::limited,
    page::{connection, page_args},
    project::Project,
    record::{by_id, one},
    recording::RecordingConnection,
    request::request,
    service_metadata::ApiDeprecation,
    shared::{PolicyBindingAttributes, RbacAttributes, Tag, TagAttributes, tags},
};

/// Kinds of Kubernetes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::cluster::ClusterDistro")]
pub(crate) enum ClusterDistro {
    /// None of the others.
    Generic,
    /// Amazon.
    Eks,
    /// Azure.
    Aks,
    /// Google.
    Gke,
    /// Rancher.
    Rke,
    /// Lightweight Kubernetes.
    #[graphql(name = "K3S")]
    K3s,
    /// Red Hat.
    Openshift,
}

/// A Kubernetes cluster that an agent brings into the fleet.
pub(crate) struct Cluster {
    #[expect(clippy::struct_field_names, reason = "what this is the shape of")]
    cluster: plural_core::cluster::Cluster,
    deploy_token: Option<SecretString>,
    join_token: Option<(SecretString, DateTime<Utc>)>,
}

impl From<plural_core::cluster::Cluster> for Cluster {
    fn from(cluster: plural_core::cluster::Cluster) -> Self {
        Self { cluster, deploy_token: None, join_token: None }
    }
}

impl From<CreatedCluster> for Cluster {
    fn from(created: CreatedCluster) -> Self {
        let CreatedCluster { cluster, deploy_token, join_token } = created;
        Self { cluster, deploy_token: Some(deploy_token), join_token }
    }
}

impl From<CreatedJoinToken> for Cluster {
    fn from(created: CreatedJoinToken) -> Self {
        let CreatedJoinToken { cluster, join_token, expires_at } = created;
        Self { join_token: Some((join_token, expires_at)), ..cluster.into() }
    }
}

connection!(ClusterConnection, ClusterEdge, Cluster);

/// A Kubernetes cluster that an agent brings into the fleet.
#[Object]
impl Cluster {
    /// Id.
    async fn id(&self) -> ID {
        self.cluster.id.to_string().into()
    }

    /// Name for people.
    async fn name(&self) -> &str {
        self.cluster.name.as_str()
    }

    /// Unique short name.
    async fn handle(&self) -> Option<&str> {
        Some(self.cluster.handle.as_str())
    }

    /// Whether its agent is connected now.
    async fn connected(&self, ctx: &Context<'_>) -> Nullable<bool> {
        nullable(async {
            let request = request(ctx);
            let look_up =
                async |ids: Vec<_>| request.app.clusters_presence(&request.op, &ids).await.into_graphql(ctx);
            let presence = request.batches.presence.get(self.cluster.id, look_up).await?;
            Ok(presence.map(|presence| presence.connected))
        })
        .await
    }

    /// It is the one that this console runs in, as its operator told with `--own-cluster`; false while that is not known.
    #[graphql(name = "self")]
    async fn is_own(&self, ctx: &Context<'_>) -> Option<bool> {
        let own = request(ctx).options.own_cluster.as_deref();
        Some(own.is_some_and(|own| own == self.cluster.handle.as_str() || own == self.cluster.id.to_string()))
    }

    /// How it is, by when its agent was last heard: what lists of clusters are filtered, sorted and counted by. `connected` tells within
    /// seconds that an agent went, this after five minutes.
    async fn state(&self, ctx: &Context<'_>) -> Option<ClusterState> {
        Some(self.cluster.state(request(ctx).app.now()).into())
    }

    /// Whether its agent is connected.
    async fn status(&self, ctx: &Context<'_>) -> Option<ClusterStatus> {
        Some(ClusterStatus::of(&self.cluster, request(ctx).app.now()))
    }

    /// The cloud that it was provisioned in. Always null: this console provisions no clusters.
    async fn provider(&self) -> Option<ClusterProvider> {
        None
    }

    /// The credential that it was provisioned with. Always null: this console provisions no clusters.
    async fn credential(&self) -> Option<ProviderCredential> {
        None
    }

    /// The nodes that it was provisioned with. Always null: this console provisions no nodes.
    async fn node_pools(&self) -> List<NodePool> {
        None
    }

    /// The Kubernetes version that its creator recorded.
    async fn version(&self) -> Option<&str> {
        self.cluster.version.as_deref()
    }

    /// The Kubernetes version that its agent reports.
    async fn current_version(&self) -> Option<&str> {
        self.cluster.facts.current_version.as_deref()
    }

    /// Its agent is of an earlier build than this console: it polls and applies, but hints and `kubectl` do not reach it.
    async fn agent_outdated(&self) -> Option<bool> {
        self.cluster.agent_is_outdated()
    }

    /// The version of its agent.
    async fn agent_version(&self) -> Option<&str> {
        self.cluster.facts.agent_version.as_deref()
    }

    /// What kind it is.
    async fn distro(&self) -> Option<ClusterDistro> {
        self.cluster.distro.map(Into::into)
    }

    /// Nodes, as its agent reports.
    async fn node_count(&self) -> Option<u32> {
        self.cluster.facts.node_count
    }

    /// Pods, as its agent reports.
    async fn pod_count(&self) -> Option<u32> {
        self.cluster.facts.pod_count
    }

    /// Namespaces, as its agent reports.
    async fn namespace_count(&self) -> Option<u32> {
        self.cluster.facts.namespace_count
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.cluster.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.cluster.updated_at)
    }

    /// When its agent was last heard.
    async fn pinged_at(&self) -> Option<DateTime<Utc>> {
        self.cluster.pinged_at
    }

    /// Set while its services are being removed; it goes when the last is gone.
    async fn deleted_at(&self) -> Option<DateTime<Utc>> {
        self.cluster.deleted_at
    }

    /// Deleting it is refused.
    async fn protect(&self) -> Option<bool> {
        Some(self.cluster.protect)
    }

    /// The address that its agent must use.
    async fn agent_url(&self, ctx: &Context<'_>) -> Option<String> {
        request(ctx).options.public_url.clone()
    }

    /// The address of its Kubernetes API, for kubectl and the like: the bearer is an access token.
    async fn kas_url(&self, ctx: &Context<'_>) -> Option<String> {
        let options = &request(ctx).options;
        let console = options.kubernetes_url.as_deref().or(options.public_url.as_deref())?;
        Some(format!("{}/k8s/{}", console.trim_end_matches('/'), self.cluster.handle))
    }

    /// The authority (PEM) that the certificate of `kasUrl` is signed by, where it is the console's own.
    async fn kas_ca_certificate(&self, ctx: &Context<'_>) -> Option<String> {
        request(ctx).options.kubernetes_authority.clone()
    }

    /// Who asked its API server for what, through the console; for its administrators.
    async fn audit_logs(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<ClusterAuditLogConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            let cluster = ClusterSelector::Id(self.cluster.id);
            let found = request.app.cluster_audit_list(&request.op, &cluster, &page).await;
            Ok(Some(found.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// What was recorded of shells in it; for whom its project's administrators named.
    async fn recordings(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<RecordingConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            let of = RecordingsSelector::Cluster(ClusterSelector::Id(self.cluster.id));
            let found = request.app.recording_list(&request.op, &of, &page).await;
            Ok(Some(found.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Objects of its services that are written in API versions that are deprecated or gone in its version of Kubernetes, or will
    /// be in the next: the first 1000, each service's together.
    async fn api_deprecations(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<ApiDeprecation>>> {
        nullable(async {
            let request = request(ctx);
            let cluster = ClusterSelector::Id(self.cluster.id);
            let found = request.app.cluster_deprecations(&request.op, &cluster).await.into_graphql(ctx)?;
            Ok(limited(ctx, found.into_iter().map(Into::into)))
        })
        .await
    }

    /// What its agent logs in with; told only by the operation that makes it, once. Only its hash is kept.
    async fn deploy_token(&self) -> Option<&str> {
        self.deploy_token.as_ref().map(ExposeSecret::expose_secret)
    }

    /// What one agent joins with; told only by `createClusterJoinToken`, and by `createCluster` to a registration token, once. Only
    /// its hash is kept.
    async fn join_token(&self) -> Option<&str> {
        self.join_token.as_ref().map(|(token, _)| token.expose_secret())
    }

    /// When that ends, unless an agent joined before.
    async fn join_token_expires_at(&self) -> Option<DateTime<Utc>> {
        self.join_token.as_ref().map(|(_, at)| *at)
    }

    /// Any JSON object, for templates.
    async fn metadata(&self) -> Option<Map> {
        Some(Map(self.cluster.metadata.clone()))
    }

    /// Names and values by which it is selected.
    async fn tags(&self) -> List<Tag> {
        let tags = self.cluster.tags.iter();
        list(tags.map(|(name, value)| Tag { name: name.clone(), value: value.clone() }))
    }

    /// Where it belongs; absent when you may see the cluster but not its project.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.cluster.project_id)).await
    }

    /// Who may look at it.
    async fn read_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.cluster.id.into(), Role::Read)).await
    }

    /// Who may change it.
    async fn write_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.cluster.id.into(), Role::Write)).await
    }

    /// Who may delete it and decide who may do what.
    async fn admin_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.cluster.id.into(), Role::Admin)).await
    }

    /// Who may do what with it and its services by a role that administrators made.
    async fn role_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<RoleBinding>>> {
        nullable(role_bindings_of(ctx, self.cluster.id.into())).await
    }
}

/// What a new cluster is given.
#[derive(InputObject)]
pub(crate) struct ClusterAttributes {
    /// Name for people.
    name: String,
    /// Unique short name; made from the name when absent.
    handle: Option<String>,
    /// The Kubernetes version to record.
    version: Option<String>,
    /// What kind it is.
    distro: Option<ClusterDistro>,
    /// A JSON object for templates.
    metadata: Option<Json>,
    /// Refuse its deletion.
    protect: Option<bool>,
    /// Where it belongs; the default project when absent.
    project_id: Option<ID>,
    /// Who may look at it.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change it.
    write_bindings: List<PolicyBindingAttributes>,
    /// Names and values by which it is selected.
    tags: List<TagAttributes>,
    /// Refused: this console does not provision clusters.
    provider_id: Option<ID>,
    /// Refused: this console does not provision clusters.
    credential_id: Option<ID>,
    /// Refused: this console does not provision clusters.
    cloud_settings: Option<CloudSettingsAttributes>,
    /// Refused: this console does not provision nodes.
    node_pools: List<NodePoolAttributes>,
    /// Refused: this console keeps no kubeconfig.
    kubeconfig: Option<KubeconfigAttributes>,
    /// Refused: there is no checklist of upgrades.
    upgrade_plan: Option<UpgradePlanAttributes>,
    /// There is no AI here: `false` is refused.
    disable_ai: Option<bool>,
}

/// What of a cluster changes; what is absent stays as it is.
#[derive(InputObject)]
pub(crate) struct ClusterUpdateAttributes {
    /// Name for people.
    name: Option<String>,
    /// Unique short name.
    handle: Option<String>,
    /// The Kubernetes version to record.
    version: Option<String>,
    /// What kind it is.
    distro: Option<ClusterDistro>,
    /// A JSON object for templates; replaces the whole.
    metadata: Option<Json>,
    /// Refuse its deletion.
    protect: Option<bool>,
    /// Who may look at it; replaces the list.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change it; replaces the list.
    write_bindings: List<PolicyBindingAttributes>,
    /// Names and values by which it is selected; replaces the list.
    tags: List<TagAttributes>,
    /// Tags to set; others stay. Not together with `tags`.
    set_tags: List<TagAttributes>,
    /// Names of tags to take away; others stay. Not together with `tags`.
    remove_tags: List<String>,
    /// Refused: this console does not provision clusters.
    service: Option<ClusterServiceAttributes>,
    /// Refused: this console does not provision nodes.
    node_pools: List<NodePoolAttributes>,
    /// Refused: this console keeps no kubeconfig.
    kubeconfig: Option<KubeconfigAttributes>,
    /// Refused: there is no checklist of upgrades.
    upgrade_plan: Option<UpgradePlanAttributes>,
    /// There is no AI here: `false` is refused.
    disable_ai: Option<bool>,
}

fn metadata(json: Option<Json>) -> plural_core::Result<Option<serde_json::Map<String, serde_json::Value>>> {
    json.map_or(Ok(None), |json| Ok(json.object("attributes.metadata")?))
}

/// Which tags it has: all of them, or some more and some less.
fn tags_change(
    all: List<TagAttributes>,
    set: List<TagAttributes>,
    remove: List<String>,
) -> plural_core::Result<TagsChange> {
    match tags("attributes.tags", all)? {
        Some(_) if set.is_some() || remove.is_some() => Err(Error::invalid(
            "attributes.tags",
            "replaces the whole list and cannot be combined with setTags or removeTags",
        )),
        Some(tags) => Ok(TagsChange::All(tags)),
        None => {
            let set = tags("attributes.setTags", set)?.unwrap_or_default();
            let remove: BTreeSet<String> = items(remove).unwrap_or_default().into_iter().collect();
            if let Some(name) = set.keys().find(|name| remove.contains(*name)) {
                let reason = format!("removes the tag {name:?}, which setTags sets");
                return Err(Error::invalid("attributes.removeTags", reason));
            }
            Ok(TagsChange::Edit { set, remove })
        }
    }
}

impl ClusterAttributes {
    fn parse(self) -> plural_core::Result<NewCluster> {
        let Self {
            name,
            handle,
            version,
            distro,
            metadata: data,
            protect,
            project_id,
            read_bindings,
            write_bindings,
            tags: tag_list,
            provider_id,
            credential_id,
            cloud_settings,
            node_pools,
            kubeconfig,
            upgrade_plan,
            disable_ai,
        } = self;
        let provisioning = ProvisioningAttributes {
            provider_id,
            credential_id,
            service: None,
            cloud_settings,
            node_pools,
            kubeconfig,
            upgrade_plan,
            disable_ai,
        };
        provisioning.check()?;
        Ok(NewCluster {
            name: parse("attributes.name", &name)?,
            handle: parse_option("attributes.handle", handle.as_deref())?,
            project_id: id_in("attributes.projectId", project_id.as_deref())?,
            tags: tags("attributes.tags", tag_list)?.unwrap_or_default(),
            metadata: metadata(data)?.unwrap_or_default(),
            distro: distro.map(Into::into),
            version,
            protect: protect.unwrap_or(false),
            bindings: RbacAttributes { read_bindings, write_bindings, admin_bindings: None }.change()?,
        })
    }
}

impl ClusterUpdateAttributes {
    fn parse(self) -> plural_core::Result<ClusterChange> {
        let Self {
            name,
            handle,
            version,
            distro,
            metadata: data,
            protect,
            read_bindings,
            write_bindings,
            tags,
            set_tags,
            remove_tags,
            service,
            node_pools,
            kubeconfig,
            upgrade_plan,
            disable_ai,
        } = self;
        let provisioning = ProvisioningAttributes {
            service,
            node_pools,
            kubeconfig,
            upgrade_plan,
            disable_ai,
            ..ProvisioningAttributes::default()
        };
        provisioning.check()?;
        Ok(ClusterChange {
            name: parse_option("attributes.name", name.as_deref())?,
            handle: parse_option("attributes.handle", handle.as_deref())?,
            tags: tags_change(tags, set_tags, remove_tags)?,
            metadata: metadata(data)?,
            distro: distro.map(Into::into),
            version,
            protect,
            bindings: RbacAttributes { read_bindings, write_bindings, admin_bindings: None }.change()?,
        })
    }
}

/// Reading clusters.
#[derive(Default)]
pub(crate) struct ClusterQuery;

/// Reading clusters.
#[Object]
impl ClusterQuery {
    /// One cluster, by id or by handle.
    async fn cluster(&self, ctx: &Context<'_>, id: Option<ID>, handle: Option<String>) -> Nullable<Cluster> {
        one::<plural_core::cluster::Cluster, _>(ctx, selector(id, handle)).await
    }
}

/// Changing clusters.
#[derive(Default)]
pub(crate) struct ClusterMutation;

/// Changing clusters.
#[Object]
impl ClusterMutation {
    /// Registers a cluster and tells its agent's deploy token, once. With a registration token also a token to join with; asked
    /// again with that, it answers the same cluster with other tokens until its agent was heard of.
    async fn create_cluster(&self, ctx: &Context<'_>, attributes: ClusterAttributes) -> Nullable<Cluster> {
        nullable(async {
            let request = request(ctx);
            let new = attributes.parse().into_graphql(ctx)?;
            Ok(Some(request.app.cluster_create(&request.op, new).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes a cluster.
    async fn update_cluster(
        &self,
        ctx: &Context<'_>,
        id: ID,
        attributes: ClusterUpdateAttributes,
    ) -> Nullable<Cluster> {
        nullable(async {
            let request = request(ctx);
            let change = attributes.parse().into_graphql(ctx)?;
            let selector = ClusterSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            Ok(Some(
                request.app.cluster_update(&request.op, &selector, &change).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }

    /// Has everything removed that we put into the cluster, then forgets it.
    async fn delete_cluster(&self, ctx: &Context<'_>, id: ID) -> Nullable<Cluster> {
        nullable(async {
            let request = request(ctx);
            let selector = ClusterSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            Ok(Some(request.app.cluster_delete(&request.op, &selector).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Forgets a cluster and leaves everything in it.
    async fn detach_cluster(&self, ctx: &Context<'_>, id: ID) -> Nullable<Cluster> {
        nullable(async {
            let request = request(ctx);
            let selector = ClusterSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            Ok(Some(request.app.cluster_detach(&request.op, &selector).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Gives a cluster another deploy token and tells it, once. The old one ends at once.
    async fn rotate_deploy_token(&self, ctx: &Context<'_>, id: ID) -> Nullable<Cluster> {
        nullable(async {
            let request = request(ctx);
            let selector = ClusterSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            Ok(Some(request.app.cluster_token_rotate(&request.op, &selector).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Makes a token that one agent joins a cluster with, in place of the one before, and tells it, once. The agent that has
    /// joined goes on until another one joins.
    async fn create_cluster_join_token(
        &self,
        ctx: &Context<'_>,
        id: ID,
        #[graphql(desc = "How long it is valid; a day by default.")] valid_for_seconds: Option<i32>,
    ) -> Nullable<Cluster> {
        nullable(async {
            let request = request(ctx);
            let selector = ClusterSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            let valid_for = valid_for_seconds.map(|seconds| TimeDelta::seconds(i64::from(seconds)));
            let created = request.app.cluster_join_token(&request.op, &selector, valid_for).await;
            Ok(Some(created.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Has a cluster's agent replace its deploy token by itself. The old one ends when the new one is used.
    async fn renew_deploy_token(&self, ctx: &Context<'_>, id: ID) -> Nullable<Cluster> {
        nullable(async {
            let request = request(ctx);
            let selector = ClusterSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            Ok(Some(request.app.cluster_token_renew(&request.op, &selector).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}

fn selector(by_id: Option<ID>, handle: Option<String>) -> plural_core::Result<ClusterSelector> {
    match (by_id, handle) {
        (Some(by_id), None) => Ok(ClusterSelector::Id(id(&by_id)?)),
        // A handle that none can have names nothing that exists.
        (None, Some(handle)) => {
            handle.parse().map(ClusterSelector::Handle).map_err(|_| Error::not_found("cluster"))
        }
        _ => Err(exactly_one("id and handle")),
    }
}
