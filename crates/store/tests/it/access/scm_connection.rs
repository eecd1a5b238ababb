//! Connections to git hosts: who may do what.

use plural_app::records::Search;
use plural_app::scm_connection::{NewScmSecrets, ScmConnectionSelector};
use plural_core::PageArgs;
use plural_core::ids::ScmConnectionId;
use plural_core::scm_connection::{
    NewScmConnection, ScmConnection, ScmConnectionChange, ScmSpecChange, ScmType,
};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<ScmConnection>", "uhaaaa", w, c => async { w.door.app.get::<ScmConnection>(c, &connection(w).await).await }),
        case!("get_many::<ScmConnection>", "uhaaaa", w, c => async { let id = connection_id(w).await; found(w.door.app.get_many::<ScmConnection>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<ScmConnection>", "uaaaaa", w, c => w.door.app.list::<ScmConnection>(c, &Search::default(), &PageArgs::default())),
        case!("scm_connection_create", "uhdaaa", w, c => w.door.app.scm_connection_create(c, new(w), token())),
        case!("scm_connection_update", "uhdaaa", w, c => async { w.door.app.scm_connection_update(c, connection_id(w).await, change(), NewScmSecrets::default()).await }),
        case!("scm_connection_delete", "uhdaaa", w, c => async { w.door.app.scm_connection_delete(c, connection_id(w).await).await }),
    ]
}

fn new(w: &World<'_>) -> NewScmConnection {
    NewScmConnection {
        name: fresh("scm").parse().unwrap(),
        kind: ScmType::Github,
        project_id: Some(w.project.id),
        is_default: false,
        spec: ScmSpecChange::default(),
    }
}

fn token() -> NewScmSecrets {
    NewScmSecrets { token: Some("a-token".into()), ..NewScmSecrets::default() }
}

fn change() -> ScmConnectionChange {
    let spec = ScmSpecChange { owner: Some("acme".into()), ..ScmSpecChange::default() };
    ScmConnectionChange { spec, ..ScmConnectionChange::default() }
}

pub(super) async fn connection_id(w: &World<'_>) -> ScmConnectionId {
    w.door.app.scm_connection_create(&w.door.admin, new(w), token()).await.unwrap().id
}

async fn connection(w: &World<'_>) -> ScmConnectionSelector {
    ScmConnectionSelector::Id(connection_id(w).await)
}
