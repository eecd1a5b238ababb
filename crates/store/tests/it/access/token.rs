//! Sessions and access tokens: who may do what.

use plural_app::OpCtx;
use plural_app::token::TokenRequest;
use plural_core::{PageArgs, Result};

use super::{Case, World};

pub(super) fn cases() -> Vec<Case> {
    vec![
        // Without a password it proves nothing, and says so to nobody.
        case!("proven", "aaaaaa", w, c => w.door.app.proven(c, None)),
        case!("token_list", "uaaaaa", w, c => w.door.app.token_list(c, &PageArgs::default())),
        case!("token_get", "uhhhha", w, c => get_token(w, c)),
        case!("token_create", "udddda", w, c => w.door.app.token_create(c, Some(w.user.id), None)),
        case!("token_create_as", "udddda", w, c => w.door.app.token_create_as(c, Some(w.user.id), TokenRequest::default())),
        case!("token_list_of", "udddda", w, c => w.door.app.token_list_of(c, w.user.id, &PageArgs::default())),
        case!("token_delete", "uhhhha", w, c => delete_token(w, c)),
        // A program asks as nobody, and what it asks for is worth nothing until somebody allows it.
        case!("program_login_begin", "aaaaaa", w, c => w.door.app.program_login_begin(c, "a program", None)),
        case!("program_login_fetch", "aaaaaa", w, c => w.door.app.program_login_fetch(c, &"none".into())),
        case!("program_login_redeem", "aaaaaa", w, c => w.door.app.program_login_redeem(c, &"none".into(), &"none".into(), "http://127.0.0.1:1/")),
        // No code is anybody's; the contexts of this table have no session that could allow one.
        case!("program_login_look", "uhhhhh", w, c => w.door.app.program_login_look(c, "BCDF-GHJK")),
        case!("program_login_allow", "uhhhhh", w, c => w.door.app.program_login_allow(c, "BCDF-GHJK")),
        case!("program_login_refuse", "uhhhhh", w, c => w.door.app.program_login_refuse(c, "BCDF-GHJK")),
        // Anybody may try to sign in; with a right password it works for nobody in particular.
        case!("session_create_with", "aaaaaa", w, c => w.door.app.session_create_with(c, "root@example.com", "first password".into(), Some("unasked for"))),
        case!("session_create", "aaaaaa", w, c => w.door.app.session_create(c, "root@example.com", "first password".into())),
    ]
}

async fn get_token(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let token = w.door.app.token_create(&w.door.admin, Some(w.user.id), None).await?;
    w.door.app.token_get(c, token.token.id).await.map(drop)
}

async fn delete_token(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let token = w.door.app.token_create(&w.door.admin, Some(w.user.id), None).await?;
    w.door.app.token_delete(c, &token.token.id.to_string()).await.map(drop)
}
