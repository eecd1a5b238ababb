//! Pull requests: who may do what.

use plural_app::pull_request::PullRequestFilter;
use plural_app::pull_request_merge::MergeAsk;
use plural_app::pull_request_open::{PullRequestAsk, PullRequestPreview};
use plural_app::records::Search;
use plural_core::fleet_plan::FleetPlan;
use plural_core::ids::PullRequestId;
use plural_core::merge_window::MergeWindows;
use plural_core::pr_automation::PrAutomationChange;
use plural_core::pr_automation_spec::{PrAutomationSpecChange, PrSecretEntry, PrSecrets};
use plural_core::pr_secret::PrSecret;
use plural_core::pull_request::{HostPullRequest, PrStatus, PullRequest};
use plural_core::pull_request_life::PrMergeMethod;
use plural_core::{Error, PageArgs, Result};

use super::pr_automation::targeted;
use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<PullRequest>", "uhaaaa", w, c => async { w.door.app.get::<PullRequest>(c, &opened(w).await.id).await }),
        case!("get_many::<PullRequest>", "uhaaaa", w, c => async { let id = opened(w).await.id; found(w.door.app.get_many::<PullRequest>(c, &[id]).await?.contains_key(&id)) }),
        case!("get::<PrSecret>", "uhaaaa", w, c => async { w.door.app.get::<PrSecret>(c, &secret(w).await).await }),
        case!("get_many::<PrSecret>", "uhaaaa", w, c => async { let id = secret(w).await; found(w.door.app.get_many::<PrSecret>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<PrSecret>", "uaaaaa", w, c => w.door.app.list::<PrSecret>(c, &Search::default(), &PageArgs::default())),
        case!("list::<PullRequest>", "uaaaaa", w, c => w.door.app.list::<PullRequest>(c, &PullRequestFilter::default(), &PageArgs::default())),
        case!("pull_request_record", "uhdaaa", w, c => async { w.door.app.pull_request_record(c, targeted(w).await.id, told()).await }),
        case!("pull_request_create", "uhdaaa", w, c => async { w.door.app.pull_request_create(c, asked(w).await, false).await }),
        case!("pull_request_refresh", "uhdaaa", w, c => async { let id = opened(w).await.id; numbered(w.door.app.pull_request_refresh(c, id).await) }),
        case!("pull_request_merge", "uhdaaa", w, c => async { let id = opened(w).await.id; numbered(w.door.app.pull_request_merge(c, id, merge()).await) }),
        // None waits: whoever may, hears that.
        case!("pull_request_merge_cancel", "uhdaaa", w, c => async { let id = opened(w).await.id; numbered(w.door.app.pull_request_merge_cancel(c, id).await) }),
        case!("pull_request_windows", "uhdaaa", w, c => async { let id = opened(w).await.id; w.door.app.pull_request_windows(c, id, hourly()).await }),
        case!("pull_request_close", "uhdaaa", w, c => async { let id = opened(w).await.id; numbered(w.door.app.pull_request_close(c, id).await) }),
        // No host is reached here: whoever may, hears that.
        case!("pull_request_preview", "uhdaaa", w, c => async { reached(w.door.app.pull_request_preview(c, asked(w).await).await) }),
        // No git repository is the one that it changes: whoever may, hears that.
        case!("pull_request_preview_plan", "uhdaaa", w, c => async { unfollowed(w.door.app.pull_request_preview_plan(c, asked(w).await).await) }),
    ]
}

pub(super) fn unfollowed(planned: Result<FleetPlan>) -> Result<()> {
    match planned {
        Err(Error::Conflict { .. }) => Ok(()),
        planned => planned.map(drop),
    }
}

async fn asked(w: &World<'_>) -> PullRequestAsk {
    PullRequestAsk {
        automation: targeted(w).await.id,
        identifier: Some("acme/shop".to_owned()),
        branch: None,
        context: serde_json::Map::new(),
        key: None,
        secrets: serde_json::Map::new(),
    }
}

fn merge() -> MergeAsk {
    MergeAsk { head: None, method: PrMergeMethod::Merge, in_window: true }
}

fn hourly() -> MergeWindows {
    MergeWindows::given(None, Some("@hourly")).unwrap().unwrap()
}

fn reached(preview: Result<PullRequestPreview>) -> Result<()> {
    match preview {
        Err(Error::Invalid { field, .. }) if field == "connection" => Ok(()),
        preview => preview.map(drop),
    }
}

/// Its address names no number of it, or nothing is there to be done: whoever may, hears that.
fn numbered(read: Result<PullRequest>) -> Result<()> {
    match read {
        Err(Error::Conflict { .. }) => Ok(()),
        read => read.map(drop),
    }
}

fn told() -> HostPullRequest {
    HostPullRequest {
        url: format!("https://github.com/acme/shop/pull/{}", fresh("n")),
        repository: "acme/shop".to_owned(),
        branch: "plural/a".to_owned(),
        title: "Add it".to_owned(),
        status: PrStatus::Open,
        labels: Vec::new(),
    }
}

pub(super) async fn opened(w: &World<'_>) -> PullRequest {
    w.door.app.pull_request_record(&w.door.admin, targeted(w).await.id, told()).await.unwrap()
}

/// Of a pull request whose automation asks for one.
async fn secret(w: &World<'_>) -> PullRequestId {
    let (app, admin) = (&w.door.app, &w.door.admin);
    let automation = targeted(w).await;
    let entry = PrSecretEntry { name: "key".to_owned(), autogenerate: true, ..PrSecretEntry::default() };
    let secrets = PrSecrets {
        cluster: Some(w.cluster.cluster.handle.to_string()),
        namespace: None,
        name: Some("db".to_owned()),
        entries: vec![entry],
    };
    let spec = PrAutomationSpecChange { secrets: Some(secrets), ..PrAutomationSpecChange::default() };
    let change = PrAutomationChange { spec, ..PrAutomationChange::default() };
    app.pr_automation_update(admin, automation.id, change).await.unwrap();
    let ask = PullRequestAsk { automation: automation.id, ..asked(w).await };
    app.pull_request_create(admin, ask, false).await.unwrap().id
}
