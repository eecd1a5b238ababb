//! Identity providers that people sign in with.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::identity_provider::IdentityProviderSelector;
use plural_app::records::Search;
use plural_core::identity_provider::{MappedGroup, NewIdentityProvider, ProviderChange, ProviderSettings};
use secrecy::SecretString;

use super::{
    error::{IntoGraphql, Nullable, exactly_one, id, nullable, parse},
    group::Group,
    page::{connection, page_args},
    record::{by_id, one, page_of},
    request::request,
};

/// An OpenID Connect provider that people sign in with. Its client secret is never told.
pub(crate) struct IdentityProvider(plural_core::identity_provider::IdentityProvider);

impl From<plural_core::identity_provider::IdentityProvider> for IdentityProvider {
    fn from(provider: plural_core::identity_provider::IdentityProvider) -> Self {
        Self(provider)
    }
}

connection!(IdentityProviderConnection, IdentityProviderEdge, IdentityProvider);

/// An OpenID Connect provider that people sign in with. Its client secret is never told.
#[Object]
impl IdentityProvider {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name, part of the address `/auth/callback/NAME` that the provider sends people back to.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// Who it says it is.
    async fn issuer(&self) -> &str {
        self.0.issuer.as_str()
    }

    /// What it knows this console as.
    async fn client_id(&self) -> &str {
        &self.0.client_id
    }

    /// A client secret is kept.
    async fn has_secret(&self) -> bool {
        self.0.has_secret
    }

    /// What it is asked for besides `openid`.
    async fn scopes(&self) -> &[String] {
        &self.0.scopes
    }

    /// The claim that lists a user's groups.
    async fn groups_claim(&self) -> Option<&str> {
        self.0.groups_claim.as_deref()
    }

    /// Which of its groups makes members of which of ours.
    async fn groups(&self) -> Vec<IdentityProviderGroup> {
        self.0.groups.iter().cloned().map(IdentityProviderGroup).collect()
    }

    /// The domains whose e-mail addresses it may vouch for; `*` is all of them.
    async fn domains(&self) -> &[String] {
        &self.0.domains
    }

    /// Who signs in for the first time gets an account.
    async fn creates_users(&self) -> bool {
        self.0.creates_users
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// One of a provider's groups, and ours whose members come with it.
pub(crate) struct IdentityProviderGroup(MappedGroup);

/// One of a provider's groups, and ours whose members come with it.
#[Object]
impl IdentityProviderGroup {
    /// As the provider writes it in its claim.
    async fn claim(&self) -> &str {
        &self.0.claim
    }

    /// Ours; absent when it was deleted.
    async fn group(&self, ctx: &Context<'_>) -> Nullable<Group> {
        nullable(by_id::<plural_core::group::Group, _>(ctx, self.0.group)).await
    }
}

/// One of a provider's groups, and ours whose members come with it.
#[derive(Debug, InputObject)]
pub(crate) struct IdentityProviderGroupAttributes {
    /// As the provider writes it in its claim.
    claim: String,
    /// Id of ours.
    group_id: ID,
}

/// What a new provider is given.
#[derive(InputObject)]
pub(crate) struct IdentityProviderAttributes {
    /// Unique name; it cannot be changed.
    name: String,
    /// Who it says it is, as it writes it itself; it cannot be changed.
    issuer: String,
    /// What it knows this console as.
    client_id: String,
    /// What proves that it is this console; a public client has none.
    client_secret: Option<String>,
    /// What it is asked for besides `openid`; by default `email` and `profile`.
    scopes: Option<Vec<String>>,
    /// The claim that lists a user's groups.
    groups_claim: Option<String>,
    /// Which of its groups makes members of which of ours.
    groups: Option<Vec<IdentityProviderGroupAttributes>>,
    /// The domains whose e-mail addresses it may vouch for; `*` is all of them.
    domains: Option<Vec<String>>,
    /// Who signs in for the first time gets an account; by default only users who have one sign in.
    creates_users: Option<bool>,
}

/// What changes of a provider; what is absent stays as it is.
#[derive(InputObject)]
pub(crate) struct IdentityProviderUpdateAttributes {
    /// What it knows this console as.
    client_id: Option<String>,
    /// What proves that it is this console.
    client_secret: Option<String>,
    /// What it is asked for besides `openid`.
    scopes: Option<Vec<String>>,
    /// The claim that lists a user's groups; an empty one for none.
    groups_claim: Option<String>,
    /// Which of its groups makes members of which of ours.
    groups: Option<Vec<IdentityProviderGroupAttributes>>,
    /// The domains whose e-mail addresses it may vouch for.
    domains: Option<Vec<String>>,
    /// Who signs in for the first time gets an account.
    creates_users: Option<bool>,
}

fn mapped(groups: Vec<IdentityProviderGroupAttributes>) -> plural_core::Result<Vec<MappedGroup>> {
    let mapped = |IdentityProviderGroupAttributes { claim, group_id }| {
        Ok(MappedGroup { claim, group: id(&group_id)? })
    };
    groups.into_iter().map(mapped).collect()
}

impl IdentityProviderAttributes {
    fn parse(self) -> plural_core::Result<(NewIdentityProvider, Option<SecretString>)> {
        let Self {
            name,
            issuer,
            client_id,
            client_secret,
            scopes,
            groups_claim,
            groups,
            domains,
            creates_users,
        } = self;
        let new = NewIdentityProvider {
            name: parse("attributes.name", &name)?,
            issuer: issuer.parse()?,
            settings: ProviderSettings {
                client_id,
                scopes: scopes.unwrap_or_else(|| vec!["email".to_owned(), "profile".to_owned()]),
                groups_claim: groups_claim.filter(|claim| !claim.is_empty()),
                groups: mapped(groups.unwrap_or_default())?,
                domains: domains.unwrap_or_default(),
                creates_users: creates_users.unwrap_or_default(),
            },
        };
        Ok((new, client_secret.map(SecretString::from)))
    }
}

impl IdentityProviderUpdateAttributes {
    fn parse(self) -> plural_core::Result<(ProviderChange, Option<SecretString>)> {
        let Self { client_id, client_secret, scopes, groups_claim, groups, domains, creates_users } = self;
        let groups = groups.map(mapped).transpose()?;
        let change = ProviderChange { client_id, scopes, groups_claim, groups, domains, creates_users };
        Ok((change, client_secret.map(SecretString::from)))
    }
}

/// Reading identity providers.
#[derive(Default)]
pub(crate) struct IdentityProviderQuery;

/// Reading identity providers.
#[Object]
impl IdentityProviderQuery {
    /// One identity provider, by id or name; administrators only.
    async fn identity_provider(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        name: Option<String>,
    ) -> Nullable<IdentityProvider> {
        let by = match (id, name) {
            (Some(id), None) => super::error::id(&id).map(IdentityProviderSelector::Id),
            (None, Some(name)) => Ok(IdentityProviderSelector::Name(name)),
            _ => Err(exactly_one("id, name")),
        };
        one::<plural_core::identity_provider::IdentityProvider, _>(ctx, by).await
    }

    /// All identity providers; administrators only.
    async fn identity_providers(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<IdentityProviderConnection> {
        let page = page_args(after, first, before, last);
        page_of::<plural_core::identity_provider::IdentityProvider, _>(ctx, Ok(Search { q }), page).await
    }
}

/// Changing identity providers.
#[derive(Default)]
pub(crate) struct IdentityProviderMutation;

/// Changing identity providers.
#[Object]
impl IdentityProviderMutation {
    /// Makes an identity provider. Needs your password, or a session of a moment ago: a provider can sign in as your users.
    async fn create_identity_provider(
        &self,
        ctx: &Context<'_>,
        attributes: IdentityProviderAttributes,
        #[graphql(desc = "Your own password.")] current_password: Option<String>,
    ) -> Nullable<IdentityProvider> {
        nullable(async {
            let request = request(ctx);
            let (new, secret) = attributes.parse().into_graphql(ctx)?;
            let password = current_password.map(SecretString::from);
            let made = request.app.identity_provider_create(&request.op, new, secret, password).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes an identity provider; needs the same as making one.
    async fn update_identity_provider(
        &self,
        ctx: &Context<'_>,
        id: ID,
        attributes: IdentityProviderUpdateAttributes,
        #[graphql(desc = "Your own password.")] current_password: Option<String>,
    ) -> Nullable<IdentityProvider> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            let (change, secret) = attributes.parse().into_graphql(ctx)?;
            let password = current_password.map(SecretString::from);
            let changed =
                request.app.identity_provider_update(&request.op, id, change, secret, password).await;
            Ok(Some(changed.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes an identity provider: who signed in with it is signed out, and leaves the groups that it gave.
    async fn delete_identity_provider(&self, ctx: &Context<'_>, id: ID) -> Nullable<IdentityProvider> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.identity_provider_delete(&request.op, id).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
