//! Users: who may do what.

use plural_app::records::Search;
use plural_app::user::UserSelector;
use plural_core::ids::UserIdentityId;
use plural_core::user::{NewUser, User, UserChange};
use plural_core::{Error, PageArgs};

use super::{Case, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        // Whoever has no code gets nothing.
        case!("sign_in_link_redeem", "uuuuuu", w, c => w.door.app.sign_in_link_redeem(c, "a code")),
        case!("user_me", "uaaaaa", w, c => w.door.app.user_me(c)),
        case!("get::<User>", "uaaaaa", w, c => w.door.app.get::<User>(c, &UserSelector::Id(w.user.id))),
        case!("list::<User>", "uaaaaa", w, c => w.door.app.list::<User>(c, &Search::default(), &PageArgs::default())),
        case!("user_groups", "uaaaaa", w, c => w.door.app.user_groups(c, w.user.id)),
        case!("get_many::<User>", "uaaaaa", w, c => async { found(w.door.app.get_many::<User>(c, &[w.user.id]).await?.contains_key(&w.user.id)) }),
        case!("users_groups", "uaaaaa", w, c => w.door.app.users_groups(c, &[w.user.id])),
        case!("user_create", "udddda", w, c => w.door.app.user_create(c, &new_user(), None)),
        case!("user_update", "udddda", w, c => w.door.app.user_update(c, w.user.id, &UserChange::default(), None)),
        case!("user_suspend", "udddda", w, c => w.door.app.user_suspend(c, w.user.id)),
        case!("user_resume", "udddda", w, c => w.door.app.user_resume(c, w.user.id)),
        case!("user_identities", "udddda", w, c => w.door.app.user_identities(c, w.user.id)),
        // Whoever may, is told that there is no such identity.
        case!("user_identity_delete", "udddda", w, c => async {
            match w.door.app.user_identity_delete(c, w.user.id, UserIdentityId::new()).await {
                Err(Error::NotFound { .. }) => Ok(()),
                other => other.map(drop),
            }
        }),
        case!("second_factor_is_on", "udddda", w, c => w.door.app.second_factor_is_on(c, w.user.id)),
        case!("second_factor_begin", "uaaaaa", w, c => w.door.app.second_factor_begin(c, None)),
        // Whose code is wrong may try.
        case!("second_factor_confirm", "uaaaaa", w, c => async {
            match w.door.app.second_factor_confirm(c, "000000").await {
                Err(Error::Invalid { .. } | Error::Conflict { .. }) => Ok(()),
                other => other.map(drop),
            }
        }),
        case!("second_factor_end", "uaaaaa", w, c => w.door.app.second_factor_end(c, None, None)),
        case!("second_factor_reset", "udddda", w, c => w.door.app.second_factor_reset(c, w.user.id, None, None)),
        case!("user_delete", "udddda", w, c => w.door.app.user_delete(c, w.user.id)),
    ]
}

fn new_user() -> NewUser {
    let name = fresh("u");
    NewUser {
        email: format!("{name}@example.com").parse().unwrap(),
        name: name.parse().unwrap(),
        admin: false,
    }
}
