//! Listening for what changes: who may do what.

use plural_app::delta::DeltaFilter;

use super::stack::stack;
use super::{Case, World};

const ALL: DeltaFilter = DeltaFilter::Services { id: None, cluster: None };

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("deltas_subscribe", "uaaaaa", w, c => w.door.app.deltas_subscribe(c, ALL, None)),
        case!("deltas_subscribe", "uhaaaa", w, c => w.door.app.deltas_subscribe(c, one(w), None)),
        case!("deltas_subscribe", "uhaaaa", w, c => w.door.app.deltas_subscribe(c, of_cluster(w), None)),
        case!("deltas_subscribe", "uhaaaa", w, c => async {
            let of = DeltaFilter::Stacks { id: Some(stack(w).await.id) };
            w.door.app.deltas_subscribe(c, of, None).await
        }),
        case!("deltas_take", "uaaaaa", w, c => async {
            let mut all = w.door.app.deltas_subscribe(&w.door.admin, ALL, None).await?;
            w.door.app.deltas_take(c, &mut all).await
        }),
    ]
}

fn one(w: &World<'_>) -> DeltaFilter {
    DeltaFilter::Services { id: Some(w.service.id), cluster: None }
}

fn of_cluster(w: &World<'_>) -> DeltaFilter {
    DeltaFilter::Clusters { id: Some(w.cluster.cluster.id) }
}
