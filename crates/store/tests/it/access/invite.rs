//! Invitations: who may do what.

use plural_app::OpCtx;
use plural_app::invite::CreatedInvite;
use plural_app::records::Search;
use plural_core::invite::Invite;
use plural_core::specs::Email;
use plural_core::{Error, PageArgs, Result};

use super::{Case, World, found, fresh};

const ORIGIN: &str = "https://console.example.com";

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<Invite>", "udddda", w, c => async { w.door.app.get::<Invite>(c, &made(w).await.invite.id).await }),
        case!("list::<Invite>", "udddda", w, c => w.door.app.list::<Invite>(c, &Search::default(), &PageArgs::default())),
        case!("get_many::<Invite>", "udddda", w, c => get_many(w, c)),
        case!("invite_create", "udddda", w, c => async { w.door.app.invite_create(c, &email(), &[w.group.id], None).await }),
        case!("password_reset_create", "udddda", w, c => w.door.app.password_reset_create(c, w.user.id, None)),
        case!("invite_delete", "udddda", w, c => async { w.door.app.invite_delete(c, made(w).await.invite.id).await }),
        // Whoever has the code, as often as they have one.
        case!("invite_look", "aaaaaa", w, c => async { w.door.app.invite_look(c, &made(w).await.code).await }),
        case!("invite_accept", "aaaaaa", w, c => async { w.door.app.invite_accept(c, &made(w).await.code, None, "a long password".into()).await }),
        case!("invite_passkey_begin", "aaaaaa", w, c => async { w.door.app.invite_passkey_begin(c, ORIGIN, &made(w).await.code, None).await }),
        // And nobody answers who was not asked.
        case!("invite_accept_passkey", "uuuuuu", w, c => async { w.door.app.invite_accept_passkey(c, ORIGIN, &made(w).await.code, None, ("x", "{}")).await }),
    ]
}

fn email() -> Email {
    format!("{}@example.com", fresh("i")).parse().unwrap()
}

async fn made(w: &World<'_>) -> CreatedInvite {
    w.door.app.invite_create(&w.door.admin, &email(), &[], None).await.unwrap()
}

async fn get_many(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let id = made(w).await.invite.id;
    match w.door.app.get_many::<Invite>(c, &[id]).await {
        Err(Error::Unauthenticated) => Err(Error::Unauthenticated),
        many => found(many?.contains_key(&id)),
    }
}
