//! Pull requests: who may do what.

use plural_app::pull_request::PullRequestFilter;
use plural_core::PageArgs;
use plural_core::pull_request::{HostPullRequest, PrStatus, PullRequest};

use super::pr_automation::targeted;
use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<PullRequest>", "uhaaaa", w, c => async { w.door.app.get::<PullRequest>(c, &opened(w).await.id).await }),
        case!("get_many::<PullRequest>", "uhaaaa", w, c => async { let id = opened(w).await.id; found(w.door.app.get_many::<PullRequest>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<PullRequest>", "uaaaaa", w, c => w.door.app.list::<PullRequest>(c, &PullRequestFilter::default(), &PageArgs::default())),
        case!("pull_request_record", "uhdaaa", w, c => async { w.door.app.pull_request_record(c, targeted(w).await.id, told()).await }),
    ]
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

async fn opened(w: &World<'_>) -> PullRequest {
    w.door.app.pull_request_record(&w.door.admin, targeted(w).await.id, told()).await.unwrap()
}
