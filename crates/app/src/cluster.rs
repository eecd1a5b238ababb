//! Clusters.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::Actor;
use plural_core::cluster::{
    Cluster, ClusterChange, ClusterColumn, ClusterDistro, ClusterState, MinorVersion, NewCluster, TagsChange,
    check_tags,
};
use plural_core::cluster_tags::{TagAuthority, TagLevel};
use plural_core::ids::{ClusterId, ProjectId};
use plural_core::policy::Policy;
use plural_core::project::Project;
use plural_core::specs::Handle;
use plural_core::token::DEPLOY_TOKEN_PREFIX;
use plural_core::{Error, Result};
use secrecy::SecretString;

use crate::access::{Admin, Audited, Bindable, Grant, Write, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::policy;
use crate::project::ProjectSelector;
use crate::records::{Sortable, record};
use crate::secret::{NewToken, TokenHash};

/// Which cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ClusterSelector {
    /// By id.
    Id(ClusterId),
    /// By handle.
    Handle(Handle),
}

/// A cluster to make.
#[derive(Debug)]
pub struct ClusterCreate {
    /// Id.
    pub id: ClusterId,
    /// Its handle.
    pub handle: Handle,
    /// The rest.
    pub new: NewCluster,
    /// Who sets its tags.
    pub tags_by: TagAuthority,
    /// Of its deploy token.
    pub token_hash: TokenHash,
}

/// Which clusters of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// With tags of these names and values.
    pub tags: BTreeMap<String, String>,
    /// One tag is enough.
    pub any_tag: bool,
    /// Name or handle contains this.
    pub q: Option<String>,
    /// In this state at this moment.
    pub state: Option<(ClusterState, DateTime<Utc>)>,
    /// Whose agent reports this version.
    pub version: Option<MinorVersion>,
    /// Of this kind.
    pub distro: Option<ClusterDistro>,
}

noun!(Cluster, "cluster", c => Some(c.id.uuid()), c.handle.to_string(), project: c.project_id);
record!(Cluster, ClusterId, ClusterSelector, ClusterFilter);

impl Sortable for Cluster {
    type Column = ClusterColumn;
}

impl Bindable for Cluster {
    fn policy(&self) -> Policy {
        self.id.into()
    }
}

/// Clusters.
#[async_trait]
pub trait ClusterStore: Send + Sync + 'static {
    /// A new cluster with its bindings; its event tells consoles to accept its token.
    async fn cluster_create(
        &self,
        by: Audited<'_, Project, Write>,
        cluster: &ClusterCreate,
        grant: Option<&Grant>,
    ) -> Result<Cluster>;
    /// A changed cluster with its bindings; its services are told, since templates read it.
    async fn cluster_update(
        &self,
        by: Audited<'_, Cluster, Write>,
        change: &ClusterChange,
        tags_by: &TagAuthority,
        grant: Option<&Grant>,
    ) -> Result<Cluster>;
    /// Another deploy token; the old one ends at once.
    async fn cluster_token_rotate(
        &self,
        by: Audited<'_, Cluster, Admin>,
        hash: &TokenHash,
    ) -> Result<Cluster>;
    /// Marks the cluster and its services deleted; a cluster without services goes at once. Refuses
    /// a protected one, or one with a protected service.
    async fn cluster_delete(&self, by: Audited<'_, Cluster, Admin>) -> Result<Cluster>;
    /// Forgets the cluster and its services; nothing in the cluster is touched.
    async fn cluster_detach(&self, by: Audited<'_, Cluster, Admin>) -> Result<Cluster>;
}

/// A cluster with a deploy token that was just made: there is no second time to see it.
#[derive(Debug)]
pub struct CreatedCluster {
    /// The cluster.
    pub cluster: Cluster,
    /// `deploy-…`.
    pub deploy_token: SecretString,
    /// `join-…` and when it ends, for a machine that cannot ask for one.
    pub join_token: Option<(SecretString, DateTime<Utc>)>,
}

impl App {
    /// A new cluster and the token that its agent registers with; needs write access to the project, and admin access where
    /// it comes with bindings of its own. With a registration token, one of that token's.
    pub async fn cluster_create(&self, ctx: &OpCtx, new: NewCluster) -> Result<CreatedCluster> {
        if let Actor::Registration(by) = ctx.actor() {
            return self.cluster_register(ctx, by, new).await;
        }
        let selector = new.project_id.map_or(ProjectSelector::Default, ProjectSelector::Id);
        let project = self.authorized::<Project, Write>(ctx, &selector).await;
        let project = project.map_err(|error| error.named_in("attributes.projectId"))?;
        let handle = new.handle_or_suggested()?;
        check_tags("attributes.tags", &new.tags)?;
        let token = NewToken::generate(DEPLOY_TOKEN_PREFIX)?;
        let id = ClusterId::new();
        let grant = if new.bindings.is_empty() {
            None
        } else {
            Some(policy::grant(ctx, self.authorized::<Project, _>(ctx, &selector).await, id, &new.bindings)?)
        };
        let tags_by = self.tag_authority(ctx, project.id).await?;
        let create = ClusterCreate { id, handle, new, tags_by, token_hash: token.hash };
        let by = project.audited_new(ctx, "cluster.create", "cluster", create.id, &create.handle);
        let cluster = self.store.cluster_create(by, &create, grant.as_ref()).await?;
        // The agent may call with this token before the feed comes round.
        self.feed_catch_up().await;
        Ok(CreatedCluster { cluster, deploy_token: token.text, join_token: None })
    }

    /// A changed cluster; its bindings need admin access to it.
    pub async fn cluster_update(
        &self,
        ctx: &OpCtx,
        selector: &ClusterSelector,
        change: &ClusterChange,
    ) -> Result<Cluster> {
        let (selector, grant) = if change.bindings.is_empty() {
            (selector.clone(), None)
        } else {
            let cluster = self.authorized::<Cluster, _>(ctx, selector).await?;
            (ClusterSelector::Id(cluster.id), Some(Grant::on(&cluster, ctx, &change.bindings)?))
        };
        let (TagsChange::All(tags) | TagsChange::Edit { set: tags, .. }) = &change.tags;
        check_tags("attributes.tags", tags)?;
        let cluster = self.authorized::<Cluster, Write>(ctx, &selector).await?;
        if cluster.deleted_at.is_some() {
            return Err(Error::conflict("the cluster is being deleted"));
        }
        let tags_by = self.tag_authority(ctx, cluster.project_id).await?;
        let by = cluster.audited(ctx, "cluster.update");
        let cluster = self.store.cluster_update(by, change, &tags_by, grant.as_ref()).await?;
        if grant.is_some() {
            self.proxy.access_changed();
        }
        Ok(cluster)
    }

    /// Which tags the caller may set on clusters of a project.
    pub(crate) async fn tag_authority(&self, ctx: &OpCtx, project: ProjectId) -> Result<TagAuthority> {
        let level = match ctx.actor() {
            Actor::System => TagLevel::Installation,
            Actor::User(user) if user.admin => TagLevel::Installation,
            Actor::User(_) | Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) => {
                match self.authorized::<Project, Write>(ctx, &ProjectSelector::Id(project)).await {
                    Ok(_) => TagLevel::Project,
                    Err(Error::NotFound { .. } | Error::Forbidden { .. }) => TagLevel::Cluster,
                    Err(error) => return Err(error),
                }
            }
        };
        let selected = self.store.tags_selected(project).await?;
        Ok(TagAuthority { level, protected: self.settings.protected_tags.clone(), selected })
    }

    /// Another deploy token; the old one ends at once, and with it the agent's stream.
    pub async fn cluster_token_rotate(
        &self,
        ctx: &OpCtx,
        selector: &ClusterSelector,
    ) -> Result<CreatedCluster> {
        let cluster = self.authorized::<Cluster, Admin>(ctx, selector).await?;
        let token = NewToken::generate(DEPLOY_TOKEN_PREFIX)?;
        let by = cluster.audited(ctx, "cluster.token.rotate");
        let cluster = self.store.cluster_token_rotate(by, &token.hash).await?;
        self.feed_catch_up().await;
        Ok(CreatedCluster { cluster, deploy_token: token.text, join_token: None })
    }

    /// Drains and deletes: its services are destroyed first, then it goes.
    pub async fn cluster_delete(&self, ctx: &OpCtx, selector: &ClusterSelector) -> Result<Cluster> {
        let cluster = self.authorized::<Cluster, _>(ctx, selector).await?;
        self.check_undepended_elsewhere(ctx, &cluster).await?;
        self.store.cluster_delete(cluster.audited(ctx, "cluster.delete")).await
    }

    /// Forgets the cluster; nothing in it is touched.
    pub async fn cluster_detach(&self, ctx: &OpCtx, selector: &ClusterSelector) -> Result<Cluster> {
        let cluster = self.authorized::<Cluster, _>(ctx, selector).await?;
        self.store.cluster_detach(cluster.audited(ctx, "cluster.detach")).await
    }
}
