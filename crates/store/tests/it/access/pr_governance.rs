//! Governances of pull requests: who may do what.

use plural_app::pr_governance::PrGovernanceSelector;
use plural_app::records::Search;
use plural_core::PageArgs;
use plural_core::ids::{PrGovernanceId, ScmConnectionId};
use plural_core::pr_governance::{NewPrGovernance, PrGovernance};

use super::scm_connection::connection_id;
use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<PrGovernance>", "uhaaaa", w, c => async { let id = made(w).await; w.door.app.get::<PrGovernance>(c, &PrGovernanceSelector::Id(id)).await }),
        case!("get_many::<PrGovernance>", "uhaaaa", w, c => async { let id = made(w).await; found(w.door.app.get_many::<PrGovernance>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<PrGovernance>", "uaaaaa", w, c => w.door.app.list::<PrGovernance>(c, &Search::default(), &PageArgs::default())),
        case!("pr_governance_upsert", "uhdaaa", w, c => async { w.door.app.pr_governance_upsert(c, new(connection_id(w).await), Some("0123456789abcdef".into())).await }),
        case!("pr_governance_delete", "uhdaaa", w, c => async { w.door.app.pr_governance_delete(c, made(w).await).await }),
    ]
}

fn new(connection_id: ScmConnectionId) -> NewPrGovernance {
    NewPrGovernance {
        name: fresh("governance").parse().unwrap(),
        project_id: None,
        connection_id,
        url: Some("https://governance.example.com".to_owned()),
    }
}

async fn made(w: &World<'_>) -> PrGovernanceId {
    let new = new(connection_id(w).await);
    w.door.app.pr_governance_upsert(&w.door.admin, new, None).await.unwrap().id
}
