//! Webhooks of git hosts: who may do what.

use plural_app::records::Search;
use plural_app::scm_webhook::ScmWebhookSelector;
use plural_core::ids::{ScmConnectionId, ScmWebhookId};
use plural_core::scm_connection::ScmType;
use plural_core::scm_webhook::{NewScmWebhook, ScmWebhook, ScmWebhookScope};
use plural_core::{Error, PageArgs, Result};

use super::scm_connection::connection_id;
use super::{Case, World, found};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<ScmWebhook>", "uhaaaa", w, c => async { let id = made(w).await; w.door.app.get::<ScmWebhook>(c, &ScmWebhookSelector::Id(id)).await }),
        case!("get_many::<ScmWebhook>", "uhaaaa", w, c => async { let id = made(w).await; found(w.door.app.get_many::<ScmWebhook>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<ScmWebhook>", "uaaaaa", w, c => w.door.app.list::<ScmWebhook>(c, &Search::default(), &PageArgs::default())),
        case!("scm_webhook_create", "uhdaaa", w, c => async { w.door.app.scm_webhook_create(c, new(connection_id(w).await), "0123456789abcdef".into()).await }),
        case!("scm_webhook_register", "uhdaaa", w, c => async { refused(w.door.app.scm_webhook_register(c, "https://console.example.com", connection_id(w).await, scope()).await) }),
        case!("scm_webhook_unregister", "uhdaaa", w, c => async { refused(w.door.app.scm_webhook_unregister(c, "https://console.example.com", connection_id(w).await, scope()).await) }),
        case!("scm_webhook_delete", "uhdaaa", w, c => async { w.door.app.scm_webhook_delete(c, made(w).await).await }),
    ]
}

fn new(connection: ScmConnectionId) -> NewScmWebhook {
    NewScmWebhook { connection_id: Some(connection), kind: ScmType::Github, owner: "acme".into() }
}

fn scope() -> ScmWebhookScope {
    ScmWebhookScope::Repository("acme/shop".to_owned())
}

/// No host is reached here: whoever may, hears that.
fn refused(done: Result<ScmWebhook>) -> Result<()> {
    match done {
        Err(Error::Invalid { .. }) => Ok(()),
        done => done.map(drop),
    }
}

async fn made(w: &World<'_>) -> ScmWebhookId {
    let new = new(connection_id(w).await);
    w.door.app.scm_webhook_create(&w.door.admin, new, "0123456789abcdef".into()).await.unwrap().id
}
