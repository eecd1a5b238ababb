//! What pull requests of automations generated: who may do what.

use plural_app::pr_instance::PrInstanceFilter;
use plural_app::pr_instance_change::PrInstanceAsk;
use plural_app::pull_request::{PullRequestEnd, PullRequestStore as _};
use plural_app::pull_request_open::PullRequestAsk;
use plural_core::pr_automation::PrAutomationChange;
use plural_core::pr_automation_spec::PrAutomationSpecChange;
use plural_core::pr_instance::{PrGenerated, PrInstance};
use plural_core::pull_request::{PrStatus, PrWork};
use plural_core::{Error, PageArgs, Result};

use super::pr_automation::targeted;
use super::pull_request::unfollowed;
use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<PrInstance>", "uhaaaa", w, c => async { w.door.app.get::<PrInstance>(c, &instance(w).await.id).await }),
        case!("get_many::<PrInstance>", "uhaaaa", w, c => async { let id = instance(w).await.id; found(w.door.app.get_many::<PrInstance>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<PrInstance>", "uaaaaa", w, c => w.door.app.list::<PrInstance>(c, &PrInstanceFilter::default(), &PageArgs::default())),
        case!("pr_instance_upgrade", "uhdaaa", w, c => async { w.door.app.pr_instance_upgrade(c, ask(w).await, false).await }),
        case!("pr_instance_upgrade_all", "uhdaaa", w, c => async { let automation = instance(w).await.automation_id.unwrap(); w.door.app.pr_instance_upgrade_all(c, automation, &serde_json::Map::new(), false).await }),
        case!("pr_instance_uninstall", "uhdaaa", w, c => async { w.door.app.pr_instance_uninstall(c, ask(w).await, false).await }),
        // No host is reached here: whoever may, hears that.
        case!("pr_instance_upgrade_preview", "uhdaaa", w, c => async { reached(w.door.app.pr_instance_upgrade_preview(c, ask(w).await).await) }),
        case!("pr_instance_uninstall_preview", "uhdaaa", w, c => async { reached(w.door.app.pr_instance_uninstall_preview(c, ask(w).await).await) }),
        // Nothing follows the repository here.
        case!("pr_instance_upgrade_plan", "uhdaaa", w, c => async { unfollowed(w.door.app.pr_instance_upgrade_plan(c, ask(w).await).await) }),
        case!("pr_instance_uninstall_plan", "uhdaaa", w, c => async { unfollowed(w.door.app.pr_instance_uninstall_plan(c, ask(w).await).await) }),
        case!("pr_instance_drift", "uhdaaa", w, c => async { reached(w.door.app.pr_instance_drift(c, ask(w).await).await) }),
    ]
}

async fn ask(w: &World<'_>) -> PrInstanceAsk {
    PrInstanceAsk {
        id: instance(w).await.id,
        context: serde_json::Map::new(),
        allow_conflicts: false,
        overwrite: false,
        secrets: serde_json::Map::new(),
        key: None,
    }
}

fn reached<T>(answer: Result<T>) -> Result<()> {
    match answer {
        Err(Error::Invalid { field, .. }) if field == "connection" => Ok(()),
        answer => answer.map(drop),
    }
}

/// One that is merged, and whose automation has another version now.
async fn instance(w: &World<'_>) -> PrInstance {
    let (app, admin, store) = (&w.door.app, &w.door.admin, &w.door.database);
    let automation = targeted(w).await;
    let ask = PullRequestAsk {
        automation: automation.id,
        identifier: Some("acme/shop".to_owned()),
        branch: None,
        context: serde_json::Map::new(),
        key: None,
        secrets: serde_json::Map::new(),
    };
    let begun = app.pull_request_create(admin, ask, false).await.unwrap();
    let (commit, at) = ("a".repeat(40), app.now());
    let generated = PrGenerated { commit: commit.clone(), templates: commit, files: Vec::new() };
    let work = PrWork { generated: Some(generated), ..PrWork::default() };
    store.pull_request_step(begun.id, &work, None, at).await.unwrap();
    let end = PullRequestEnd::Opened {
        url: format!("https://github.com/acme/shop/pull/{}", fresh("n")),
        title: "Add it".to_owned(),
        status: PrStatus::Merged,
    };
    store.pull_request_end(begun.id, &end, &[], at).await.unwrap();
    let spec = PrAutomationSpecChange {
        message: Some("Adds something else".to_owned()),
        ..PrAutomationSpecChange::default()
    };
    let change = PrAutomationChange { spec, ..PrAutomationChange::default() };
    app.pr_automation_update(admin, automation.id, change).await.unwrap();
    let filter = PrInstanceFilter { automation_id: Some(automation.id), ..PrInstanceFilter::default() };
    let found = app.list::<PrInstance>(admin, &filter, &PageArgs::default()).await.unwrap();
    found.into_nodes().remove(0)
}
