//! Managed namespaces: who may do what.

use plural_app::managed_namespace::ManagedNamespaceSelector;
use plural_app::records::Search;
use plural_core::PageArgs;
use plural_core::ids::ManagedNamespaceId;
use plural_core::managed_namespace::ManagedNamespace;
use plural_core::managed_namespace::{ManagedNamespaceChange, ManagedNamespaceSpec, NewManagedNamespace};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<ManagedNamespace>", "uhaaaa", w, c => async { w.door.app.get::<ManagedNamespace>(c, &managed(w).await).await }),
        case!("get_many::<ManagedNamespace>", "uhaaaa", w, c => async { let id = managed_id(w).await; found(w.door.app.get_many::<ManagedNamespace>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<ManagedNamespace>", "uaaaaa", w, c => w.door.app.list::<ManagedNamespace>(c, &Search::default(), &PageArgs::default())),
        // Only clusters may.
        case!("managed_namespace_list_of_cluster", "uddddd", w, c => w.door.app.managed_namespace_list_of_cluster(c, &PageArgs::default())),
        case!("managed_namespace_create", "uhdaaa", w, c => w.door.app.managed_namespace_create(c, new_managed(w))),
        case!("managed_namespace_update", "uhdaaa", w, c => async { w.door.app.managed_namespace_update(c, &managed(w).await, ManagedNamespaceChange::default()).await }),
        case!("managed_namespace_delete", "uhdaaa", w, c => async { w.door.app.managed_namespace_delete(c, &managed(w).await).await }),
        case!("managed_namespaces_instances", "uhaaaa", w, c => async { let id = managed_id(w).await; found(w.door.app.managed_namespaces_instances(c, &[id], &PageArgs::default()).await?.contains_key(&id)) }),
        case!("managed_namespaces_counts", "uhaaaa", w, c => async { let id = managed_id(w).await; found(w.door.app.managed_namespaces_counts(c, &[id]).await?.contains_key(&id)) }),
    ]
}

fn new_managed(w: &World<'_>) -> NewManagedNamespace {
    NewManagedNamespace {
        name: fresh("n").parse().unwrap(),
        namespace: Some("team".parse().unwrap()),
        description: None,
        project_id: Some(w.project.id),
        spec: ManagedNamespaceSpec::default(),
        service: None,
    }
}

pub(super) async fn managed_id(w: &World<'_>) -> ManagedNamespaceId {
    w.door.app.managed_namespace_create(&w.door.admin, new_managed(w)).await.unwrap().id
}

async fn managed(w: &World<'_>) -> ManagedNamespaceSelector {
    ManagedNamespaceSelector::Id(managed_id(w).await)
}
