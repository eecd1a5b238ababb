//! Clusters: which of them, in which order, and how many of them are how.

use std::collections::BTreeMap;

use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::cluster::ClusterFilter;
use plural_app::cluster_facet::TagCount;
use plural_core::Error;
use plural_core::cluster::{ClusterColumn, MinorVersion};
use plural_core::sort::Sort;

use super::{
    cluster::{ClusterConnection, ClusterDistro},
    error::{IntoGraphql, List, Nullable, id_option, items, nullable},
    page::{counted, counts, page_args},
    project::Project,
    record::{by_id, page_in, page_of},
    request::request,
    shared::{Tag, TagInput},
};

/// How the tags of a query combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum Conjunction {
    /// All of them.
    And,
    /// Any of them.
    Or,
}

/// Selects clusters or stacks by tags.
#[derive(Debug, InputObject)]
pub(crate) struct TagQuery {
    /// How they combine.
    op: Conjunction,
    /// The tags.
    tags: List<TagInput>,
}

impl TagQuery {
    /// The tags by name, and whether one of them is enough.
    pub(super) fn chosen(self) -> plural_core::Result<(BTreeMap<String, String>, bool)> {
        let Self { op, tags: list } = self;
        let mut tags = BTreeMap::new();
        for TagInput { name, value } in items(list).unwrap_or_default() {
            // "a=1 and a=2" fits nothing, "a=1 or a=2" needs two values of one name.
            if tags.insert(name.clone(), value).is_some() {
                return Err(Error::invalid("tagQuery.tags", format!("lists the tag {name:?} twice")));
            }
        }
        Ok((tags, op == Conjunction::Or))
    }
}

/// How a cluster is, by when its agent was last heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::cluster::ClusterState")]
pub(crate) enum ClusterState {
    /// Its agent was heard once, and not for five minutes.
    Silent,
    /// Its services are being destroyed, then it goes.
    Removing,
    /// Its agent is heard, and of an earlier build than this console.
    Outdated,
    /// Its agent was never heard.
    Waiting,
    /// Its agent is heard.
    Connected,
}

/// What clusters are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum ClusterSortField {
    /// The handle.
    Handle,
    /// The state: what needs somebody comes first.
    State,
    /// The Kubernetes version that the agent reports, by its numbers; what is not known is the oldest.
    CurrentVersion,
    /// When the agent was last heard; never is the longest ago. Within the last five minutes is one moment: no cluster moves between two pages
    /// because its agent is heard again.
    PingedAt,
}

/// The order of a list of clusters.
#[derive(Debug, Clone, Copy, InputObject)]
pub(crate) struct ClusterSort {
    /// By what.
    by: ClusterSortField,
    /// The other way round: the greatest first.
    descending: Option<bool>,
}

impl ClusterSort {
    fn sort(self, now: DateTime<Utc>) -> Sort<ClusterColumn> {
        let column = match self.by {
            ClusterSortField::Handle => ClusterColumn::Handle,
            ClusterSortField::State => ClusterColumn::State(now),
            ClusterSortField::CurrentVersion => ClusterColumn::Version,
            ClusterSortField::PingedAt => ClusterColumn::LastHeard(now),
        };
        Sort { column, descending: self.descending == Some(true) }
    }
}

/// How many clusters are in a state.
#[derive(SimpleObject)]
pub(crate) struct ClusterStateCount {
    /// The state.
    state: ClusterState,
    /// How many.
    count: i32,
}

impl From<(plural_core::cluster::ClusterState, u64)> for ClusterStateCount {
    fn from((state, count): (plural_core::cluster::ClusterState, u64)) -> Self {
        Self { state: state.into(), count: counted(count) }
    }
}

/// How many clusters run a version of Kubernetes.
#[derive(SimpleObject)]
pub(crate) struct ClusterVersionCount {
    /// The minor version, as `1.33`; absent for those whose version is not known.
    version: Option<String>,
    /// How many.
    count: i32,
}

impl From<(Option<MinorVersion>, u64)> for ClusterVersionCount {
    fn from((version, count): (Option<MinorVersion>, u64)) -> Self {
        Self { version: version.map(|version| version.to_string()), count: counted(count) }
    }
}

/// How many clusters are of a kind.
#[derive(SimpleObject)]
pub(crate) struct ClusterDistroCount {
    /// The kind; absent for those of which it is not known.
    distro: Option<ClusterDistro>,
    /// How many.
    count: i32,
}

impl From<(Option<plural_core::cluster::ClusterDistro>, u64)> for ClusterDistroCount {
    fn from((distro, count): (Option<plural_core::cluster::ClusterDistro>, u64)) -> Self {
        Self { distro: distro.map(Into::into), count: counted(count) }
    }
}

/// How many clusters have a tag.
#[derive(SimpleObject)]
pub(crate) struct ClusterTagCount {
    /// The tag.
    tag: Tag,
    /// How many.
    count: i32,
}

impl From<TagCount> for ClusterTagCount {
    fn from(((name, value), count): TagCount) -> Self {
        Self { tag: Tag { name, value }, count: counted(count) }
    }
}

/// How many things are in a project.
pub(crate) struct ProjectCount {
    project: plural_core::ids::ProjectId,
    count: u64,
}

impl From<(plural_core::ids::ProjectId, u64)> for ProjectCount {
    fn from((project, count): (plural_core::ids::ProjectId, u64)) -> Self {
        Self { project, count }
    }
}

/// How many things are in a project.
#[Object]
impl ProjectCount {
    /// The project; absent when you may see what is in it but not the project.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.project)).await
    }

    /// How many.
    async fn count(&self) -> i32 {
        counted(self.count)
    }
}

/// How many clusters are how, of those that you may see and that the arguments choose. What the arguments say about the counted thing
/// itself is left out of its counts: they say what choosing another value would show.
pub(crate) struct ClusterFacets(ClusterFilter);

/// How many clusters are how, of those that you may see and that the arguments choose. What the arguments say about the counted thing
/// itself is left out of its counts: they say what choosing another value would show.
#[Object]
impl ClusterFacets {
    /// By state: all states, what needs somebody first.
    async fn states(&self, ctx: &Context<'_>) -> Nullable<Vec<ClusterStateCount>> {
        let request = request(ctx);
        counts(ctx, request.app.cluster_states(&request.op, &self.0)).await
    }

    /// By minor version of Kubernetes, the newest first and what is not known last.
    async fn versions(&self, ctx: &Context<'_>) -> Nullable<Vec<ClusterVersionCount>> {
        let request = request(ctx);
        counts(ctx, request.app.cluster_versions(&request.op, &self.0)).await
    }

    /// By kind, the most frequent first.
    async fn distros(&self, ctx: &Context<'_>) -> Nullable<Vec<ClusterDistroCount>> {
        let request = request(ctx);
        counts(ctx, request.app.cluster_distros(&request.op, &self.0)).await
    }

    /// By project: the hundred with most clusters, the first first.
    async fn projects(&self, ctx: &Context<'_>) -> Nullable<Vec<ProjectCount>> {
        let request = request(ctx);
        counts(ctx, request.app.cluster_projects(&request.op, &self.0)).await
    }

    /// By tag: the hundred that most clusters have, the first first. What the arguments say of tags holds here, too: a cluster has several.
    async fn tags(&self, ctx: &Context<'_>) -> Nullable<Vec<ClusterTagCount>> {
        let request = request(ctx);
        counts(ctx, request.app.cluster_tags(&request.op, &self.0)).await
    }
}

/// Lists of clusters.
#[derive(Default)]
pub(crate) struct ClusterListQuery;

/// Lists of clusters.
#[Object]
impl ClusterListQuery {
    /// The clusters that you may see.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn clusters(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only with these tags.")] tag_query: Option<TagQuery>,
        #[graphql(desc = "Only with this in their name or handle.")] q: Option<String>,
        #[graphql(desc = "Only in this state.")] state: Option<ClusterState>,
        #[graphql(desc = "Only of this minor version of Kubernetes, as `1.33`.")] version: Option<String>,
        #[graphql(desc = "Only of this kind.")] distro: Option<ClusterDistro>,
        #[graphql(
            desc = "In this order; oldest first when absent. A cursor is good for the order that it was made in."
        )]
        sort: Option<ClusterSort>,
    ) -> Nullable<ClusterConnection> {
        let chosen = Chosen { project_id, tag_query, q, state, version, distro };
        let now = request(ctx).app.now();
        let (filter, page) = (chosen.filter(now), page_args(after, first, before, last));
        match sort {
            None => page_of::<plural_core::cluster::Cluster, _>(ctx, filter, page).await,
            Some(sort) => {
                page_in::<plural_core::cluster::Cluster, _>(ctx, filter, &sort.sort(now), page).await
            }
        }
    }

    /// How many of the clusters that you may see are how: what `clusters` would list.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn cluster_facets(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only with these tags.")] tag_query: Option<TagQuery>,
        #[graphql(desc = "Only with this in their name or handle.")] q: Option<String>,
        #[graphql(desc = "Only in this state.")] state: Option<ClusterState>,
        #[graphql(desc = "Only of this minor version of Kubernetes, as `1.33`.")] version: Option<String>,
        #[graphql(desc = "Only of this kind.")] distro: Option<ClusterDistro>,
    ) -> Nullable<ClusterFacets> {
        let chosen = Chosen { project_id, tag_query, q, state, version, distro };
        let filter = chosen.filter(request(ctx).app.now()).into_graphql(ctx);
        filter.map(|filter| Some(ClusterFacets(filter))).transpose()
    }
}

/// Which clusters, as the arguments of a query say it.
struct Chosen {
    project_id: Option<ID>,
    tag_query: Option<TagQuery>,
    q: Option<String>,
    state: Option<ClusterState>,
    version: Option<String>,
    distro: Option<ClusterDistro>,
}

impl Chosen {
    fn filter(self, now: DateTime<Utc>) -> plural_core::Result<ClusterFilter> {
        let Self { project_id, tag_query, q, state, version, distro } = self;
        let version = version.map(|text| {
            MinorVersion::of(&text).filter(|version| version.to_string() == text).ok_or_else(|| {
                Error::invalid("version", format!("{text:?} is no minor version, as \"1.33\" is one"))
            })
        });
        let mut filter = ClusterFilter {
            project_id: id_option(project_id.as_deref())?,
            q,
            state: state.map(|state| (state.into(), now)),
            version: version.transpose()?,
            distro: distro.map(Into::into),
            ..ClusterFilter::default()
        };
        if let Some(query) = tag_query {
            (filter.tags, filter.any_tag) = query.chosen()?;
        }
        Ok(filter)
    }
}
