//! Groups: who may do what.

use plural_app::OpCtx;
use plural_app::group::GroupSelector;
use plural_app::records::Search;
use plural_core::group::{Group, GroupChange, NewGroup};
use plural_core::{PageArgs, Result};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<Group>", "uaaaaa", w, c => w.door.app.get::<Group>(c, &GroupSelector::Id(w.group.id))),
        case!("list::<Group>", "uaaaaa", w, c => w.door.app.list::<Group>(c, &Search::default(), &PageArgs::default())),
        case!("group_members", "uaaaaa", w, c => w.door.app.group_members(c, w.group.id)),
        case!("get_many::<Group>", "uaaaaa", w, c => async { found(w.door.app.get_many::<Group>(c, &[w.group.id]).await?.contains_key(&w.group.id)) }),
        case!("groups_members", "uaaaaa", w, c => w.door.app.groups_members(c, &[w.group.id])),
        case!("group_create", "udddda", w, c => w.door.app.group_create(c, &NewGroup { name: fresh("g").parse().unwrap(), description: None, global: false })),
        case!("group_update", "udddda", w, c => w.door.app.group_update(c, w.group.id, &GroupChange::default())),
        case!("group_delete", "udddda", w, c => w.door.app.group_delete(c, w.group.id)),
        case!("group_member_create", "udddda", w, c => w.door.app.group_member_create(c, w.group.id, w.user.id)),
        case!("group_member_delete", "udddda", w, c => delete_member(w, c)),
    ]
}

async fn delete_member(w: &World<'_>, c: &OpCtx) -> Result<()> {
    w.door.app.group_member_create(&w.door.admin, w.group.id, w.user.id).await?;
    w.door.app.group_member_delete(c, w.group.id, w.user.id).await.map(drop)
}
