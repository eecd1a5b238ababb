//! Registration tokens: who may do what.

use plural_app::registration_token::RegistrationTokenFilter;
use plural_core::PageArgs;
use plural_core::ids::RegistrationTokenId;
use plural_core::registration_token::{HOLDS, NewRegistrationToken, RegistrationTerms, RegistrationToken};

use super::{Case, World, found};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<RegistrationToken>", "uhaaaa", w, c => async { w.door.app.get::<RegistrationToken>(c, &token(w).await).await }),
        case!("get_many::<RegistrationToken>", "uhaaaa", w, c => async { let id = token(w).await; found(w.door.app.get_many::<RegistrationToken>(c, &[id]).await?.contains_key(&id)) }),
        case!("list::<RegistrationToken>", "uaaaaa", w, c => w.door.app.list::<RegistrationToken>(c, &RegistrationTokenFilter::default(), &PageArgs::default())),
        case!("registration_token_create", "uhdaaa", w, c => w.door.app.registration_token_create(c, new(w), None)),
        case!("registration_token_delete", "uhdaaa", w, c => async { w.door.app.registration_token_delete(c, token(w).await).await }),
    ]
}

fn new(w: &World<'_>) -> NewRegistrationToken {
    NewRegistrationToken {
        project_id: w.project.id,
        user_id: None,
        name: None,
        valid_for: HOLDS,
        terms: RegistrationTerms::default(),
    }
}

pub(super) async fn token(w: &World<'_>) -> RegistrationTokenId {
    w.door.app.registration_token_create(&w.door.admin, new(w), None).await.unwrap().token.id
}
