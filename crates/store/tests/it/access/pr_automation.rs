//! PR automations: who may do what.

use plural_app::pr_automation::{PrAutomationFilter, PrAutomationSelector};
use plural_app::scm_connection::NewScmSecrets;
use plural_core::PageArgs;
use plural_core::policy::BindingsChange;
use plural_core::pr_automation::{
    NewPrAutomation, PrAutomation, PrAutomationChange, PrAutomationLinksChange,
};
use plural_core::pr_automation_spec::PrAutomationSpecChange;
use plural_core::scm_connection::{ScmConnectionChange, ScmSpecChange};

use super::scm_connection::connection_id;
use super::{Case, World, found, fresh, readable};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<PrAutomation>", "uhaaaa", w, c => async { w.door.app.get::<PrAutomation>(c, &selector(w).await).await }),
        case!("get_many::<PrAutomation>", "uhaaaa", w, c => async { let id = automation(w).await.id; found(w.door.app.get_many::<PrAutomation>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<PrAutomation>", "uaaaaa", w, c => w.door.app.list::<PrAutomation>(c, &PrAutomationFilter::default(), &PageArgs::default())),
        case!("pr_automation_create", "uhdaaa", w, c => async { w.door.app.pr_automation_create(c, new(w).await).await }),
        case!("pr_automation_update", "uhdaaa", w, c => async { w.door.app.pr_automation_update(c, automation(w).await.id, change()).await }),
        case!("pr_automation_update", "uhddaa", w, c => async { w.door.app.pr_automation_update(c, automation(w).await.id, PrAutomationChange { bindings: readable(w), ..change() }).await }),
        case!("pr_automation_delete", "uhdaaa", w, c => async { w.door.app.pr_automation_delete(c, automation(w).await.id).await }),
        case!("pr_automation_may_create", "uhaaaa", w, c => async { w.door.app.pr_automation_may_create(c, automation(w).await.id).await }),
    ]
}

async fn new(w: &World<'_>) -> NewPrAutomation {
    let connection_id = Some(connection_id(w).await);
    NewPrAutomation {
        name: fresh("pr").parse().unwrap(),
        project_id: Some(w.project.id),
        role: None,
        links: PrAutomationLinksChange { connection_id, ..PrAutomationLinksChange::default() },
        spec: PrAutomationSpecChange {
            title: Some("Add {{ context.name }}".to_owned()),
            message: Some("Adds it".to_owned()),
            ..PrAutomationSpecChange::default()
        },
        merge_windows: None,
        bindings: BindingsChange::default(),
    }
}

fn change() -> PrAutomationChange {
    let spec = PrAutomationSpecChange {
        documentation: Some("More".to_owned()),
        ..PrAutomationSpecChange::default()
    };
    PrAutomationChange { spec, ..PrAutomationChange::default() }
}

pub(super) async fn automation(w: &World<'_>) -> PrAutomation {
    w.door.app.pr_automation_create(&w.door.admin, new(w).await).await.unwrap()
}

/// One whose connection may touch repositories.
pub(super) async fn targeted(w: &World<'_>) -> PrAutomation {
    let automation = automation(w).await;
    let spec =
        ScmSpecChange { repositories: Some(vec!["acme/*".parse().unwrap()]), ..ScmSpecChange::default() };
    let change = ScmConnectionChange { spec, ..ScmConnectionChange::default() };
    let connection = automation.links.connection_id;
    let changed =
        w.door.app.scm_connection_update(&w.door.admin, connection, change, NewScmSecrets::default());
    changed.await.unwrap();
    automation
}

async fn selector(w: &World<'_>) -> PrAutomationSelector {
    PrAutomationSelector::Id(automation(w).await.id)
}
