//! Identity providers: who may do what.

use plural_app::OpCtx;
use plural_app::identity::SignInAnswer;
use plural_app::identity_provider::IdentityProviderSelector;
use plural_app::records::Search;
use plural_core::identity_provider::{
    IdentityProvider, NewIdentityProvider, ProviderChange, ProviderSettings,
};
use plural_core::{Error, PageArgs, Result};

use super::{Case, World, found, fresh};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case!("get::<IdentityProvider>", "udddda", w, c => get(w, c)),
        case!("list::<IdentityProvider>", "udddda", w, c => w.door.app.list::<IdentityProvider>(c, &Search::default(), &PageArgs::default())),
        case!("get_many::<IdentityProvider>", "udddda", w, c => get_many(w, c)),
        case!("identity_provider_create", "udddda", w, c => w.door.app.identity_provider_create(c, new(), None, None)),
        case!("identity_provider_update", "udddda", w, c => update(w, c)),
        case!("identity_provider_delete", "udddda", w, c => delete(w, c)),
        // Anybody may go to a provider that there is; there is none at that name.
        case!("sign_in_begin", "hhhhhh", w, c => w.door.app.sign_in_begin(c, "none", "https://c.example.com".into(), None)),
        // And nobody comes back who did not go.
        case!("sign_in_finish", "uuuuuu", w, c => w.door.app.sign_in_finish(c, "none", "https://c.example.com".into(), "x", SignInAnswer::default())),
        // The contexts of this table carry no token, so there is nothing to end.
        case!("session_end", "uuuuuu", w, c => w.door.app.session_end(c, "https://c.example.com")),
    ]
}

fn new() -> NewIdentityProvider {
    NewIdentityProvider {
        name: fresh("p").parse().unwrap(),
        issuer: "https://id.example.com".parse().unwrap(),
        settings: ProviderSettings {
            client_id: "plural".into(),
            scopes: vec![],
            groups_claim: None,
            groups: vec![],
            domains: vec![],
            creates_users: false,
        },
    }
}

async fn made(w: &World<'_>) -> IdentityProvider {
    w.door.app.identity_provider_create(&w.door.admin, new(), Some("a secret".into()), None).await.unwrap()
}

async fn get(w: &World<'_>, c: &OpCtx) -> Result<IdentityProvider> {
    let id = made(w).await.id;
    w.door.app.get::<IdentityProvider>(c, &IdentityProviderSelector::Id(id)).await
}

async fn get_many(w: &World<'_>, c: &OpCtx) -> Result<()> {
    let id = made(w).await.id;
    match w.door.app.get_many::<IdentityProvider>(c, &[id]).await {
        Err(Error::Unauthenticated) => Err(Error::Unauthenticated),
        many => found(many?.contains_key(&id)),
    }
}

async fn update(w: &World<'_>, c: &OpCtx) -> Result<IdentityProvider> {
    let id = made(w).await.id;
    w.door.app.identity_provider_update(c, id, ProviderChange::default(), None, None).await
}

async fn delete(w: &World<'_>, c: &OpCtx) -> Result<IdentityProvider> {
    let id = made(w).await.id;
    w.door.app.identity_provider_delete(c, id).await
}
