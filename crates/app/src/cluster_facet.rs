//! How many clusters are how: the figures beside a list's filters.
//!
//! Each is one statement about the clusters that the list with the same filter shows; what the filter says about the counted thing
//! itself is left out, so that the figures say what choosing another value would show.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_core::access::{Visibility, visibility};
use plural_core::cluster::{ClusterDistro, ClusterState, MinorVersion};
use plural_core::ids::ProjectId;

use crate::app::App;
use crate::cluster::ClusterFilter;
use crate::ctx::OpCtx;

/// Values that are counted where there may be many, the most frequent first.
pub const MOST_VALUES: u32 = 100;

/// A tag, and how many clusters have it.
pub type TagCount = ((String, String), u64);

/// Counts of visible clusters that a filter shows.
#[async_trait]
pub trait ClusterFacetStore: Send + Sync + 'static {
    /// By state at this moment; none is left out that some have.
    async fn cluster_states(
        &self,
        visible: &Visibility,
        filter: &ClusterFilter,
        at: DateTime<Utc>,
    ) -> Result<Vec<(ClusterState, u64)>>;
    /// By version as agents tell it.
    async fn cluster_versions(
        &self,
        visible: &Visibility,
        filter: &ClusterFilter,
    ) -> Result<Vec<(Option<String>, u64)>>;
    /// By kind.
    async fn cluster_distros(
        &self,
        visible: &Visibility,
        filter: &ClusterFilter,
    ) -> Result<Vec<(Option<ClusterDistro>, u64)>>;
    /// By project: the [`MOST_VALUES`] with most clusters.
    async fn cluster_projects(
        &self,
        visible: &Visibility,
        filter: &ClusterFilter,
    ) -> Result<Vec<(ProjectId, u64)>>;
    /// By tag: the [`MOST_VALUES`] that most clusters have.
    async fn cluster_tags(&self, visible: &Visibility, filter: &ClusterFilter) -> Result<Vec<TagCount>>;
}

impl App {
    /// How many clusters are in each state. All states are there, in the order of [`ClusterState::ALL`].
    pub async fn cluster_states(
        &self,
        ctx: &OpCtx,
        filter: &ClusterFilter,
    ) -> Result<Vec<(ClusterState, u64)>> {
        let filter = ClusterFilter { state: None, ..filter.clone() };
        let found = self.store.cluster_states(&visibility(ctx.actor())?, &filter, self.now()).await?;
        let count = |state| found.iter().filter(|(of, _)| *of == state).map(|(_, count)| count).sum::<u64>();
        Ok(ClusterState::ALL.into_iter().map(|state| (state, count(state))).collect())
    }

    /// How many clusters run each minor version, the newest first and what is not known last.
    pub async fn cluster_versions(
        &self,
        ctx: &OpCtx,
        filter: &ClusterFilter,
    ) -> Result<Vec<(Option<MinorVersion>, u64)>> {
        let filter = ClusterFilter { version: None, ..filter.clone() };
        let found = self.store.cluster_versions(&visibility(ctx.actor())?, &filter).await?;
        let mut minors: BTreeMap<Option<MinorVersion>, u64> = BTreeMap::new();
        for (version, count) in found {
            *minors.entry(version.as_deref().and_then(MinorVersion::of)).or_default() += count;
        }
        let mut minors: Vec<_> = minors.into_iter().collect();
        minors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        minors.truncate(MOST_VALUES as usize);
        minors.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
        Ok(minors)
    }

    /// How many clusters are of each kind, the most frequent first.
    pub async fn cluster_distros(
        &self,
        ctx: &OpCtx,
        filter: &ClusterFilter,
    ) -> Result<Vec<(Option<ClusterDistro>, u64)>> {
        let filter = ClusterFilter { distro: None, ..filter.clone() };
        self.store.cluster_distros(&visibility(ctx.actor())?, &filter).await
    }

    /// How many clusters are in each project: those with most clusters, the largest first.
    pub async fn cluster_projects(
        &self,
        ctx: &OpCtx,
        filter: &ClusterFilter,
    ) -> Result<Vec<(ProjectId, u64)>> {
        let filter = ClusterFilter { project_id: None, ..filter.clone() };
        self.store.cluster_projects(&visibility(ctx.actor())?, &filter).await
    }

    /// How many clusters have each tag: the most frequent, the first first. A cluster has several: what the filter says of tags
    /// holds here, too.
    pub async fn cluster_tags(&self, ctx: &OpCtx, filter: &ClusterFilter) -> Result<Vec<TagCount>> {
        self.store.cluster_tags(&visibility(ctx.actor())?, filter).await
    }
}
