//! Clusters: who may do what.

use std::collections::BTreeMap;

use plural_app::OpCtx;
use plural_app::cluster::{ClusterFilter, ClusterSelector};
use plural_core::cluster::{Cluster, ClusterChange, ClusterColumn, NewCluster, TagsChange};
use plural_core::policy::BindingsChange;
use plural_core::sort::Sort;
use plural_core::{PageArgs, Result};

use super::{Case, World, found, new_cluster, readable};
use crate::door::by_id;

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<Cluster>", "uhaaaa", w, c => w.door.app.get::<Cluster>(c, &by_id(&w.cluster.cluster))),
        case!("list::<Cluster>", "uhaaaa", w, c => list_clusters(w, c)),
        case!("list_sorted<N: Sortable>", "uhaaaa", w, c => sort_clusters(w, c)),
        case!("cluster_states", "uhaaaa", w, c => count_states(w, c)),
        case!("cluster_versions", "uhaaaa", w, c => async { counted(w, c, w.door.app.cluster_versions(c, &ClusterFilter::default()).await?).await }),
        case!("cluster_distros", "uhaaaa", w, c => async { counted(w, c, w.door.app.cluster_distros(c, &ClusterFilter::default()).await?).await }),
        case!("cluster_projects", "uhaaaa", w, c => async { counted(w, c, w.door.app.cluster_projects(c, &ClusterFilter::default()).await?).await }),
        case!("cluster_tags", "uhaaaa", w, c => count_tags(w, c)),
        case!("get_many::<Cluster>", "uhaaaa", w, c => async { found(w.door.app.get_many::<Cluster>(c, &[w.cluster.cluster.id]).await?.contains_key(&w.cluster.cluster.id)) }),
        case!("clusters_presence", "uhaaaa", w, c => async { found(w.door.app.clusters_presence(c, &[w.cluster.cluster.id]).await?.contains_key(&w.cluster.cluster.id)) }),
        case!("cluster_create", "uhdaaa", w, c => w.door.app.cluster_create(c, new_cluster(&w.project))),
        case!("cluster_create", "uhddaa", w, c => w.door.app.cluster_create(c, NewCluster { bindings: readable(w), ..new_cluster(&w.project) })),
        case!("cluster_update", "uhdaaa", w, c => update_cluster(w, c, BindingsChange::default())),
        case!("cluster_update", "uhddaa", w, c => update_cluster(w, c, readable(w))),
        case!("cluster_token_rotate", "uhddaa", w, c => rotate_token(w, c)),
        case!("cluster_token_renew", "uhddaa", w, c => w.door.app.cluster_token_renew(c, &by_id(&w.cluster.cluster))),
        case!("cluster_join_token", "uhddaa", w, c => w.door.app.cluster_join_token(c, &by_id(&w.cluster.cluster), None)),
        case!("cluster_delete", "uhddaa", w, c => delete_cluster(w, c)),
        case!("cluster_detach", "uhddaa", w, c => detach_cluster(w, c)),
        case!("cluster_deprecations", "uhaaaa", w, c => w.door.app.cluster_deprecations(c, &by_id(&w.cluster.cluster))),
        case!("cluster_audit_list", "uhddaa", w, c => w.door.app.cluster_audit_list(c, &by_id(&w.cluster.cluster), &PageArgs::default())),
    ]
}

async fn cluster_of(w: &World<'_>) -> ClusterSelector {
    by_id(&w.door.app.cluster_create(&w.door.admin, new_cluster(&w.project)).await.unwrap().cluster)
}

async fn list_clusters(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let page = w.door.app.list::<Cluster>(c, &ClusterFilter::default(), &PageArgs::default()).await?;
    found(page.edges.iter().any(|edge| edge.node.id == w.cluster.cluster.id))
}

async fn sort_clusters(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let listed = w.door.app.list::<Cluster>(c, &ClusterFilter::default(), &PageArgs::first(500)).await?;
    let mut expected: Vec<_> =
        listed.into_nodes().into_iter().map(|one| (one.handle.to_string(), one.id)).collect();
    expected.sort();
    let sort = Sort { column: ClusterColumn::Handle, descending: false };
    let sorted =
        w.door.app.list_sorted::<Cluster>(c, &ClusterFilter::default(), &sort, &PageArgs::first(500)).await?;
    let sorted: Vec<_> =
        sorted.into_nodes().into_iter().map(|one| (one.handle.to_string(), one.id)).collect();
    assert_eq!(sorted, expected, "the same clusters, in another order");
    found(sorted.iter().any(|(_, id)| *id == w.cluster.cluster.id))
}

/// What a list shows is what is counted.
async fn counted<T>(w: &World<'_>, c: &OpCtx, counts: Vec<(T, u64)>) -> Result<()> {
    let listed = w.door.app.list::<Cluster>(c, &ClusterFilter::default(), &PageArgs::first(500)).await?;
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    assert_eq!(all, listed.edges.len() as u64);
    found(all > 0)
}

async fn count_states(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let counts = w.door.app.cluster_states(c, &ClusterFilter::default()).await?;
    for (state, count) in &counts {
        let filter = ClusterFilter { state: Some((*state, w.door.app.now())), ..ClusterFilter::default() };
        let page = w.door.app.list::<Cluster>(c, &filter, &PageArgs::first(500)).await?;
        assert_eq!(page.edges.len() as u64, *count, "{state:?}");
        assert!(page.edges.iter().all(|edge| edge.node.state(w.door.app.now()) == *state), "{state:?}");
    }
    counted(w, c, counts).await
}

async fn count_tags(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let tags = TagsChange::All(BTreeMap::from([("team".to_owned(), "a".to_owned())]));
    let change = ClusterChange { tags, ..ClusterChange::default() };
    w.door.app.cluster_update(&w.door.admin, &by_id(&w.cluster.cluster), &change).await?;
    let counts = w.door.app.cluster_tags(c, &ClusterFilter::default()).await?;
    found(counts == [(("team".to_owned(), "a".to_owned()), 1)])
}

async fn update_cluster(w: &World<'_>, c: &OpCtx, bindings: BindingsChange) -> Result<()> {
    let change = ClusterChange { bindings, ..ClusterChange::default() };
    w.door.app.cluster_update(c, &by_id(&w.cluster.cluster), &change).await.map(drop)
}

async fn rotate_token(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let cluster = cluster_of(w).await;
    w.door.app.cluster_token_rotate(c, &cluster).await.map(drop)
}

async fn delete_cluster(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let cluster = cluster_of(w).await;
    w.door.app.cluster_delete(c, &cluster).await.map(drop)
}

async fn detach_cluster(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let cluster = cluster_of(w).await;
    w.door.app.cluster_detach(c, &cluster).await.map(drop)
}
