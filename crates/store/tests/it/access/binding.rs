//! Bindings: who may do what.

use plural_app::OpCtx;
use plural_app::policy::RoleChange;
use plural_core::Result;
use plural_core::policy::{Policy, Role};

use super::{Case, World, found, readable};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("binding_list", "uhaaaa", w, c => w.door.app.binding_list(c, w.cluster.cluster.id)),
        case!("binding_replace", "uhddaa", w, c => w.door.app.binding_replace(c, w.service.id, readable(w))),
        case!("binding_change", "uhddaa", w, c => w.door.app.binding_change(c, w.service.id, &nothing())),
        case!("bindings_list", "uhaaaa", w, c => many_bindings(w, c)),
    ]
}

fn nothing() -> RoleChange {
    RoleChange { role: Role::Read.into(), add: Vec::new(), remove: Vec::new() }
}

async fn many_bindings(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let all: [Policy; 3] = [w.project.id.into(), w.cluster.cluster.id.into(), w.service.id.into()];
    let bindings = w.door.app.bindings_list(c, &all).await?;
    let there = all.map(|policy| bindings.contains_key(&policy));
    assert!(there == [true; 3] || there == [false; 3], "{there:?}");
    found(there[0])
}
