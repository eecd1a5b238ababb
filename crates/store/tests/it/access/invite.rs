//! Invitations: who may do what.

use plural_app::invite::{CreatedInvite, InviteFilter};
use plural_core::PageArgs;
use plural_core::invite::{Invite, InviteTo};
use plural_core::policy::Role;
use plural_core::specs::Email;

use super::{Case, World, found, fresh};

const ORIGIN: &str = "https://console.example.com";

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<Invite>", "udddda", w, c => async { w.door.app.get::<Invite>(c, &made(w).await.invite.id).await }),
        case!("get::<Invite>", "uhhhaa", w, c => async { w.door.app.get::<Invite>(c, &to_project(w).await.invite.id).await }),
        case!("list::<Invite>", "uaaaaa", w, c => w.door.app.list::<Invite>(c, &InviteFilter::default(), &PageArgs::default())),
        case!("get_many::<Invite>", "uhhhha", w, c => async { let id = made(w).await.invite.id; found(w.door.app.get_many::<Invite>(c, &[id]).await?.contains_key(&id)) }),
        case!("get_many::<Invite>", "uhhhaa", w, c => async { let id = to_project(w).await.invite.id; found(w.door.app.get_many::<Invite>(c, &[id]).await?.contains_key(&id)) }),
        case!("invite_create", "udddda", w, c => async { w.door.app.invite_create(c, &email(), &[w.group.id], None).await }),
        case!("project_invite_create", "uhddaa", w, c => async { w.door.app.project_invite_create(c, &email(), to(w), None).await }),
        case!("password_reset_create", "udddda", w, c => w.door.app.password_reset_create(c, w.user.id, None)),
        case!("invite_delete", "udddda", w, c => async { w.door.app.invite_delete(c, made(w).await.invite.id).await }),
        case!("invite_delete", "uhhhaa", w, c => async { w.door.app.invite_delete(c, to_project(w).await.invite.id).await }),
        // It is for another address.
        case!("invite_accept_signed_in", "uhhhhh", w, c => async { w.door.app.invite_accept_signed_in(c, &to_project(w).await.code).await }),
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

fn to(w: &World<'_>) -> InviteTo {
    InviteTo { project_id: w.project.id, role: Role::Write.into() }
}

pub(super) async fn made(w: &World<'_>) -> CreatedInvite {
    w.door.app.invite_create(&w.door.admin, &email(), &[], None).await.unwrap()
}

pub(super) async fn to_project(w: &World<'_>) -> CreatedInvite {
    w.door.app.project_invite_create(&w.door.admin, &email(), to(w), None).await.unwrap()
}
