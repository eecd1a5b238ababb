//! Pages of the instances of many things, looked up together.

use std::sync::Arc;

use plural_app::global_service::Instance;
use plural_app::managed_namespace::NamespaceInstance;
use plural_core::global_service::{
    Cascade, GlobalServiceSource, GlobalServiceSpec, NewGlobalService, ServiceTemplate, TemplateSecrets,
};
use plural_core::ids::{ClusterId, ServiceId};
use plural_core::managed_namespace::{ManagedNamespaceSpec, NamespaceContent, NewManagedNamespace};
use plural_core::target::ClusterTarget;
use plural_core::{Page, PageArgs};
use plural_testkit::{TestDatabase, each_database};

use crate::door::eventually;
use crate::fleet::{Fleet, tagged};

each_database!(each_global_service_gets_its_page, each_managed_namespace_gets_its_page);

const CLUSTERS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn services(page: &Page<Instance>) -> Vec<ServiceId> {
    page.edges.iter().map(|edge| edge.node.service_id).collect()
}

fn clusters(page: &Page<NamespaceInstance>) -> Vec<ClusterId> {
    page.edges.iter().map(|edge| edge.node.cluster_id).collect()
}

async fn each_global_service_gets_its_page(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &CLUSTERS).await;
    let (app, admin) = (Arc::clone(&fleet.door.app), fleet.door.admin.clone());
    let mut globals = Vec::new();
    let everywhere = ClusterTarget::default();
    for (name, target) in
        [("one", everywhere.clone()), ("two", everywhere), ("none", tagged("nowhere", "at all"))]
    {
        let template = ServiceTemplate { name: None, ..fleet.template() };
        let source = GlobalServiceSource::Template(Box::new(template), TemplateSecrets::default());
        let spec = GlobalServiceSpec { target, ..GlobalServiceSpec::default() };
        let new = NewGlobalService { name: name.parse().unwrap(), project_id: None, spec, source };
        globals.push(app.global_service_create(&admin, new).await.unwrap());
    }
    let mut all: Vec<Vec<ServiceId>> = Vec::new();
    for global in &globals[..2] {
        let found = fleet.until_on(global, &CLUSTERS).await;
        let mut ids: Vec<ServiceId> = found.values().map(|one| one.service_id).collect();
        ids.sort_unstable();
        all.push(ids);
    }
    all.push(Vec::new());
    let ids: Vec<_> = globals.iter().map(|global| global.id).collect();
    let pages = async |page: PageArgs| {
        let mut found = app.global_services_instances(&admin, &ids, &page).await.unwrap();
        let pages: Vec<Page<Instance>> = ids.iter().map(|id| found.remove(id).unwrap()).collect();
        assert!(found.is_empty());
        pages
    };

    for (page, expected) in pages(PageArgs::default()).await.iter().zip(&all) {
        assert_eq!(&services(page), expected);
        assert!(!page.has_next_page && !page.has_previous_page);
    }
    let first = pages(PageArgs::first(2)).await;
    for (page, expected) in first.iter().zip(&all) {
        assert_eq!(services(page), expected[..expected.len().min(2)]);
        assert_eq!((page.has_next_page, page.has_previous_page), (!expected.is_empty(), false));
    }
    // One cursor for all, as a document gives it: each goes on behind it.
    let after = first[0].end_cursor().map(str::to_owned);
    let next = pages(PageArgs { after, ..PageArgs::first(2) }).await;
    for (page, expected) in next.iter().zip(&all) {
        let behind: Vec<_> = expected.iter().copied().filter(|id| *id > all[0][1]).take(2).collect();
        assert_eq!(services(page), behind);
    }
    let last = pages(PageArgs { last: Some(2), ..PageArgs::default() }).await;
    for (page, expected) in last.iter().zip(&all) {
        assert_eq!(services(page), expected[expected.len().saturating_sub(2)..]);
        assert_eq!((page.has_next_page, page.has_previous_page), (false, !expected.is_empty()));
    }
    let before = last[1].start_cursor().map(str::to_owned);
    let earlier = pages(PageArgs { before, last: Some(1), ..PageArgs::default() }).await;
    for (page, expected) in earlier.iter().zip(&all) {
        let ahead = expected.iter().copied().rfind(|id| *id < all[1][3]);
        assert_eq!(services(page), Vec::from_iter(ahead));
    }
    fleet.door.stop().await;
}

async fn each_managed_namespace_gets_its_page(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &CLUSTERS).await;
    let (app, admin) = (Arc::clone(&fleet.door.app), fleet.door.admin.clone());
    let mut all: Vec<ClusterId> = CLUSTERS.iter().map(|name| fleet.id(name)).collect();
    all.sort_unstable();
    let mut ids = Vec::new();
    for (name, has_service) in [("one", true), ("two", false)] {
        let template = ServiceTemplate { name: None, namespace: None, ..fleet.template() };
        let new = NewManagedNamespace {
            name: name.parse().unwrap(),
            namespace: None,
            description: None,
            project_id: None,
            spec: ManagedNamespaceSpec {
                target: ClusterTarget::default(),
                cascade: Cascade::Keep,
                content: NamespaceContent::default(),
            },
            service: has_service.then(|| (Box::new(template), TemplateSecrets::default())),
        };
        ids.push(app.managed_namespace_create(&admin, new).await.unwrap().id);
    }
    let pages = async |page: PageArgs| {
        let mut found = app.managed_namespaces_instances(&admin, &ids, &page).await.unwrap();
        ids.iter().map(|id| found.remove(id).unwrap()).collect::<Vec<Page<NamespaceInstance>>>()
    };
    // Both parts of one that has a service, and what holds the other.
    let whole = eventually(async || {
        let found = pages(PageArgs::default()).await;
        let is_whole = found.iter().zip([true, false]).all(|(page, has_service)| {
            clusters(page) == all
                && page
                    .edges
                    .iter()
                    .all(|edge| edge.node.holder.is_some() && edge.node.service.is_some() == has_service)
        });
        if is_whole { Ok(found) } else { Err(format!("{found:?}")) }
    })
    .await;
    let of = |instance: &Option<Instance>| instance.as_ref().map(|one| one.cluster_id);
    for edge in &whole[0].edges {
        let node = &edge.node;
        assert_eq!((of(&node.holder), of(&node.service)), (Some(node.cluster_id), Some(node.cluster_id)));
    }
    for page in pages(PageArgs::first(2)).await {
        assert_eq!(clusters(&page), all[..2]);
        assert_eq!((page.has_next_page, page.has_previous_page), (true, false));
        assert!(page.edges.iter().all(|edge| edge.node.holder.is_some()));
    }
    let before = whole[0].end_cursor().map(str::to_owned);
    for page in pages(PageArgs { before, last: Some(2), ..PageArgs::default() }).await {
        assert_eq!(clusters(&page), all[2..4]);
        assert_eq!((page.has_next_page, page.has_previous_page), (true, true));
    }
    fleet.door.stop().await;
}
