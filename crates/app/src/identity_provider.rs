//! Identity providers: administrators make them.

use async_trait::async_trait;
use plural_core::Result;
use plural_core::access::Scope;
use plural_core::data_key::KeyOwner;
use plural_core::identity_provider::{
    IdentityProvider, NewIdentityProvider, ProviderChange, ProviderSettings,
};
use plural_core::ids::IdentityProviderId;
use secrecy::{ExposeSecret, SecretString};

use crate::access::{Audited, Installation, Write, authorize_installation, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::identity::ProviderAccess;
use crate::records::{Search, record};
use crate::seal::Sealed;
use crate::user::Proof;

/// Which provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityProviderSelector {
    /// By id.
    Id(IdentityProviderId),
    /// By exact name.
    Name(String),
}

noun!(IdentityProvider, "identity provider", p => Some(p.id.uuid()), p.name.to_string());
record!(IdentityProvider, IdentityProviderId, IdentityProviderSelector, Search, under: Scope::AdminOnly);

/// A provider with what is kept sealed of it.
#[derive(Debug, Clone)]
pub struct IdentityProviderRow {
    /// The provider.
    pub provider: IdentityProvider,
    /// Its client secret, sealed for `identity_provider:ID:secret`.
    pub secret: Option<Sealed>,
}

/// A provider to make.
#[derive(Debug)]
pub struct IdentityProviderCreate {
    /// Id.
    pub id: IdentityProviderId,
    /// The rest.
    pub new: NewIdentityProvider,
    /// Sealed for `identity_provider:ID:secret`.
    pub secret: Option<Sealed>,
    /// What allowed it.
    pub proof: Option<Proof>,
}

/// Identity providers.
#[async_trait]
pub trait IdentityProviderStore: Send + Sync + 'static {
    /// A new provider.
    async fn identity_provider_create(
        &self,
        by: Audited<'_, Installation, Write>,
        create: IdentityProviderCreate,
    ) -> Result<IdentityProvider>;
    /// A changed provider. A secret that is `None` stays. Memberships that it gave in groups that it does not map any more end.
    async fn identity_provider_update(
        &self,
        by: Audited<'_, IdentityProvider, Write>,
        settings: &ProviderSettings,
        secret: Option<Sealed>,
        proof: Option<&Proof>,
    ) -> Result<IdentityProvider>;
    /// Removes a provider with the accounts' ties to it, the memberships that it gave, and the tokens of its logins.
    async fn identity_provider_delete(&self, by: Audited<'_, IdentityProvider, Write>) -> Result<()>;
    /// Providers by name, for whoever is about to sign in: nobody yet.
    async fn identity_provider_names(&self) -> Result<Vec<String>>;
    /// A provider with its secret, for a login.
    async fn identity_provider_row(
        &self,
        by: &IdentityProviderSelector,
    ) -> Result<Option<IdentityProviderRow>>;
}

const WHAT: &str = "an identity provider";

impl App {
    /// A new provider; administrators who prove that it is them: a provider can sign in as others.
    pub async fn identity_provider_create(
        &self,
        ctx: &OpCtx,
        new: NewIdentityProvider,
        secret: Option<SecretString>,
        password: Option<SecretString>,
    ) -> Result<IdentityProvider> {
        let by = authorize_installation::<Write>(ctx, Scope::AdminOnly)?;
        let NewIdentityProvider { name, issuer, settings } = new;
        let new = NewIdentityProvider { name, issuer, settings: settings.checked()? };
        let proof = self.prove(ctx, password, WHAT).await?;
        let id = IdentityProviderId::new();
        let secret = self.sealed_secret(id, secret).await?;
        let proof = proof.map(|proof| Proof { as_admin: true, ..proof });
        let by = by.audited_new(ctx, "identity_provider.create", "identity provider", id, &new.name);
        self.store.identity_provider_create(by, IdentityProviderCreate { id, new, secret, proof }).await
    }

    /// A changed provider; as for a new one.
    pub async fn identity_provider_update(
        &self,
        ctx: &OpCtx,
        id: IdentityProviderId,
        change: ProviderChange,
        secret: Option<SecretString>,
        password: Option<SecretString>,
    ) -> Result<IdentityProvider> {
        let by = IdentityProviderSelector::Id(id);
        let provider = self.authorized::<IdentityProvider, Write>(ctx, &by).await?;
        let settings = change.over(&provider).checked()?;
        let proof = self.prove(ctx, password, WHAT).await?;
        let proof = proof.map(|proof| Proof { as_admin: true, ..proof });
        let secret = self.sealed_secret(id, secret).await?;
        let by = provider.audited(ctx, "identity_provider.update");
        let changed = self.store.identity_provider_update(by, &settings, secret, proof.as_ref()).await?;
        self.proxy.access_changed();
        Ok(changed)
    }

    /// Removes a provider; administrators only. Who signed in with it is signed out.
    pub async fn identity_provider_delete(
        &self,
        ctx: &OpCtx,
        id: IdentityProviderId,
    ) -> Result<IdentityProvider> {
        let by = IdentityProviderSelector::Id(id);
        let provider = self.authorized::<IdentityProvider, Write>(ctx, &by).await?;
        self.store.identity_provider_delete(provider.audited(ctx, "identity_provider.delete")).await?;
        self.proxy.access_changed();
        Ok(provider.into_inner())
    }

    async fn sealed_secret(
        &self,
        id: IdentityProviderId,
        secret: Option<SecretString>,
    ) -> Result<Option<Sealed>> {
        let Some(secret) = secret.filter(|secret| !secret.expose_secret().is_empty()) else {
            return Ok(None);
        };
        let secret = secret.expose_secret().as_bytes();
        self.sealer.seal(KeyOwner::Installation, &secret_context(id), secret).await.map(Some)
    }

    /// How to talk to a provider.
    pub(crate) async fn provider_access(&self, row: &IdentityProviderRow) -> Result<ProviderAccess> {
        let IdentityProviderRow { provider, secret } = row;
        let secret = match secret {
            None => None,
            Some(sealed) => {
                let text = String::from_utf8(self.sealer.open(&secret_context(provider.id), sealed).await?);
                let text = text
                    .map_err(|_| plural_core::Error::internal("reading a client secret", "it is no text"))?;
                Some(SecretString::from(text))
            }
        };
        Ok(ProviderAccess {
            issuer: provider.issuer.to_string(),
            client_id: provider.client_id.clone(),
            secret,
            scopes: provider.scopes.clone(),
            groups_claim: provider.groups_claim.clone(),
        })
    }
}

fn secret_context(id: IdentityProviderId) -> String {
    format!("identity_provider:{id}:secret")
}
