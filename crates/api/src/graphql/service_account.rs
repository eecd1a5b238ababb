//! Service accounts: users that are machines.

use async_graphql::{Context, ID, InputObject, Object};
use plural_app::machine_account::{MachineAccountSelector, parse_expiry};
use plural_app::records::Search;
use plural_app::token::{CreatedToken, TokenRequest};
use plural_core::ids::MachineAccountId;
use plural_core::machine_account::{MachineAccount, MachineAccountChange, NewMachineAccount};
use plural_core::{Error, PageArgs};
use secrecy::SecretString;

use super::{
    access_token::{AccessToken, ScopeAttributes, scopes},
    error::{IntoGraphql, List, Nullable, id, id_in, nullable, parse_option},
    page::page_args,
    request::request,
    shared::{PolicyBindingAttributes, subjects},
    user::{User, UserConnection, UserRoleAttributes},
};

/// What a service account is given; what is absent stays as it is.
#[derive(Debug, InputObject)]
pub(crate) struct ServiceAccountAttributes {
    /// Name for people; a new account needs one.
    name: Option<String>,
    /// Unique e-mail address; made up when absent. It cannot be changed.
    email: Option<String>,
    /// A service account is never an administrator: `admin: true` is refused.
    roles: Option<UserRoleAttributes>,
    /// Who may assume it, besides administrators of its project; replaces the list.
    assume_bindings: List<PolicyBindingAttributes>,
    /// The project that owns it; the default one when absent. It cannot be changed.
    project_id: Option<ID>,
}

impl ServiceAccountAttributes {
    fn check(&self) -> plural_core::Result<()> {
        match &self.roles {
            Some(roles) if roles.is_admin() => {
                Err(Error::invalid("attributes.roles.admin", "a service account is never an administrator"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn into_new(self) -> plural_core::Result<NewMachineAccount> {
        self.check()?;
        let Self { name, email, roles: _, assume_bindings, project_id } = self;
        let name = parse_option("attributes.name", name.as_deref())?;
        Ok(NewMachineAccount {
            name: name.ok_or_else(|| Error::invalid("attributes.name", "must be given for a new account"))?,
            email: parse_option("attributes.email", email.as_deref())?,
            project_id: id_in("attributes.projectId", project_id.as_deref())?,
            assume: subjects("assumeBindings", assume_bindings)?.unwrap_or_default(),
        })
    }

    fn into_change(self) -> plural_core::Result<MachineAccountChange> {
        self.check()?;
        let Self { name, email, roles: _, assume_bindings, project_id } = self;
        if email.is_some() || project_id.is_some() {
            let told = "cannot be changed: make another account";
            let field = if email.is_some() { "attributes.email" } else { "attributes.projectId" };
            return Err(Error::invalid(field, told));
        }
        Ok(MachineAccountChange {
            name: parse_option("attributes.name", name.as_deref())?,
            assume: subjects("assumeBindings", assume_bindings)?,
        })
    }
}

/// Reading service accounts.
#[derive(Default)]
pub(crate) struct ServiceAccountQuery;

/// Reading service accounts.
#[Object]
impl ServiceAccountQuery {
    /// The service accounts of the projects that you may read, and those that you may assume.
    async fn service_accounts(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name or address.")] q: Option<String>,
    ) -> Nullable<UserConnection> {
        nullable(async {
            let request = request(ctx);
            let page: PageArgs = page_args(after, first, before, last);
            let found = request.app.list::<MachineAccount>(&request.op, &Search { q }, &page).await;
            Ok(Some(found.into_graphql(ctx)?.map(plural_core::user::User::from).into()))
        })
        .await
    }

    /// One service account.
    async fn service_account(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] account: ID,
    ) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let by = MachineAccountSelector::Id(id(&account).into_graphql(ctx)?);
            let account = request.app.get::<MachineAccount>(&request.op, &by).await.into_graphql(ctx)?;
            Ok(Some(plural_core::user::User::from(account).into()))
        })
        .await
    }
}

/// Changing service accounts.
#[derive(Default)]
pub(crate) struct ServiceAccountMutation;

/// Changing service accounts.
#[Object]
impl ServiceAccountMutation {
    /// Makes a service account of a project, for those who administer that.
    async fn create_service_account(
        &self,
        ctx: &Context<'_>,
        attributes: ServiceAccountAttributes,
    ) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let new = attributes.into_new().into_graphql(ctx)?;
            let made = request.app.machine_account_create(&request.op, new).await.into_graphql(ctx)?;
            Ok(Some(plural_core::user::User::from(made).into()))
        })
        .await
    }

    /// Changes a service account.
    async fn update_service_account(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] account: ID,
        attributes: ServiceAccountAttributes,
    ) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let account: MachineAccountId = id(&account).into_graphql(ctx)?;
            let change = attributes.into_change().into_graphql(ctx)?;
            let changed = request.app.machine_account_update(&request.op, account, &change).await;
            Ok(Some(plural_core::user::User::from(changed.into_graphql(ctx)?).into()))
        })
        .await
    }

    /// Deletes a service account: its tokens end.
    async fn delete_service_account(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] account: ID,
    ) -> Nullable<User> {
        nullable(async {
            let request = request(ctx);
            let account = id(&account).into_graphql(ctx)?;
            let gone = request.app.machine_account_delete(&request.op, account).await.into_graphql(ctx)?;
            Ok(Some(plural_core::user::User::from(gone).into()))
        })
        .await
    }

    /// Makes a token of a service account, for those who may assume it. It reaches no more than yours, and ends with that unless
    /// you give your password or signed in a moment ago.
    async fn create_service_account_token(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] account: ID,
        #[graphql(desc = "Scopes of the token; by default all that the account has.")] scopes: List<
            ScopeAttributes,
        >,
        #[graphql(desc = "Lifetime, as `1h`, `30d` or `1w`; by default it is valid until it is revoked.")]
        expiry: Option<String>,
        #[graphql(desc = "Your password; required for a token that outlives the one of this request.")]
        current_password: Option<String>,
    ) -> Nullable<AccessToken> {
        nullable(async {
            let request = request(ctx);
            let wish = TokenRequest {
                valid_for: expiry.as_deref().map(parse_expiry).transpose().into_graphql(ctx)?,
                scopes: self::scopes(scopes).into_graphql(ctx)?,
                password: current_password.map(SecretString::from),
            };
            let account = id(&account).into_graphql(ctx)?;
            let CreatedToken { token, text } =
                request.app.machine_account_token(&request.op, account, wish).await.into_graphql(ctx)?;
            Ok(Some(AccessToken::made(token, text)))
        })
        .await
    }

    /// Ends all tokens of a service account; how many there were.
    async fn end_service_account_tokens(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] account: ID,
    ) -> Nullable<i32> {
        nullable(async {
            let request = request(ctx);
            let account = id(&account).into_graphql(ctx)?;
            let ended =
                request.app.machine_account_end_tokens(&request.op, account).await.into_graphql(ctx)?;
            Ok(Some(i32::try_from(ended).unwrap_or(i32::MAX)))
        })
        .await
    }
}
