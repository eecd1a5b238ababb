//! Roles that administrators make: who may do what.

use plural_app::records::Search;
use plural_app::role::RoleSelector;
use plural_core::PageArgs;
use plural_core::access::Action;
use plural_core::ids::RoleId;
use plural_core::policy::Rights;
use plural_core::role::{CustomRole, NewRole, RoleAlteration};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<CustomRole>", "uaaaaa", w, c => async { w.door.app.get::<CustomRole>(c, &RoleSelector::Id(role(w).await)).await }),
        case!("get_many::<CustomRole>", "uaaaaa", w, c => async { let id = role(w).await; found(w.door.app.get_many::<CustomRole>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<CustomRole>", "uaaaaa", w, c => w.door.app.list::<CustomRole>(c, &Search::default(), &PageArgs::default())),
        case!("role_create", "udddda", w, c => w.door.app.role_create(c, &new())),
        case!("role_update", "udddda", w, c => async { w.door.app.role_update(c, role(w).await, &RoleAlteration::default()).await }),
        case!("role_delete", "udddda", w, c => async { w.door.app.role_delete(c, role(w).await).await }),
    ]
}

fn new() -> NewRole {
    NewRole { name: fresh("r").parse().unwrap(), description: None, rights: Rights::of(&[Action::Read]) }
}

pub(super) async fn role(w: &World<'_>) -> RoleId {
    w.door.app.role_create(&w.door.admin, &new()).await.unwrap().id
}
