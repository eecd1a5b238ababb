//! Service accounts of the console: users that are machines.

use async_trait::async_trait;
use chrono::TimeDelta;
use plural_core::access::Scope;
use plural_core::ids::{MachineAccountId, TokenId};
use plural_core::machine_account::{
    MachineAccount, MachineAccountChange, NOBODYS, NewMachineAccount, is_of_nobody, made_up_address,
};
use plural_core::policy::{Policy, Role};
use plural_core::project::Project;
use plural_core::specs::Email;
use plural_core::token::{AccessToken, TokenScopes, USER_TOKEN_PREFIX, issue_token};
use plural_core::{Error, Result};

use crate::access::{
    Admin, Assume, Audited, Bindable, Grant, Write, actor_name, authorize_installation, noun,
};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::project::ProjectSelector;
use crate::records::{Search, record};
use crate::secret::NewToken;
use crate::token::{CreatedToken, TokenCreate, TokenRequest, parent, proof_of};

/// Which service account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineAccountSelector {
    /// By id.
    Id(MachineAccountId),
    /// By address.
    Email(Email),
}

noun!(MachineAccount, "service account", a => Some(a.id.uuid()), a.email.to_string());
record!(MachineAccount, MachineAccountId, MachineAccountSelector, Search);

impl Bindable for MachineAccount {
    fn policy(&self) -> Policy {
        self.id.into()
    }
}

/// A service account to make.
#[derive(Debug)]
pub struct MachineAccountCreate {
    /// Id.
    pub id: MachineAccountId,
    /// Its address.
    pub email: Email,
    /// The rest.
    pub new: NewMachineAccount,
}

/// Writing service accounts.
#[async_trait]
pub trait MachineAccountStore: Send + Sync + 'static {
    /// A new service account with those who may assume it.
    async fn machine_account_create(
        &self,
        by: Audited<'_, Project, Admin>,
        account: &MachineAccountCreate,
        grant: &Grant,
    ) -> Result<MachineAccount>;
    /// A changed service account.
    async fn machine_account_update(
        &self,
        by: Audited<'_, MachineAccount, Admin>,
        change: &MachineAccountChange,
        grant: Option<&Grant>,
    ) -> Result<MachineAccount>;
    /// Removes a service account with its tokens and bindings.
    async fn machine_account_delete(&self, by: Audited<'_, MachineAccount, Admin>) -> Result<()>;
    /// A new token of a service account, as [`crate::token::TokenStore::token_create`] makes those of users.
    async fn machine_account_token(
        &self,
        by: Audited<'_, MachineAccount, Assume>,
        token: &TokenCreate,
    ) -> Result<AccessToken>;
    /// Ends all tokens of a service account; how many there were.
    async fn machine_account_end_tokens(&self, by: Audited<'_, MachineAccount, Admin>) -> Result<u64>;
}

impl App {
    /// A new service account of a project; needs admin access to that.
    pub async fn machine_account_create(
        &self,
        ctx: &OpCtx,
        new: NewMachineAccount,
    ) -> Result<MachineAccount> {
        let selector = new.project_id.map_or(ProjectSelector::Default, ProjectSelector::Id);
        let project = self.authorized::<Project, Admin>(ctx, &selector).await;
        let project = project.map_err(|error| error.named_in("attributes.projectId"))?;
        // Clusters and identity providers know people by their addresses: only who makes users may give one of those.
        if new.email.as_ref().is_some_and(|email| !is_of_nobody(email)) {
            authorize_installation::<Write>(ctx, Scope::Installation).map_err(|_| {
                Error::forbidden(format!(
                    "only administrators of the installation choose any address; leave it out, or choose one under {NOBODYS}"
                ))
            })?;
        }
        let id = MachineAccountId::new();
        let email = new.email.clone().map_or_else(|| made_up_address(id), Ok)?;
        let grant = Grant::of_role(&project, ctx, id.into(), (Role::Assume, new.assume.clone()))?;
        let account = MachineAccountCreate { id, email, new };
        let by = project.audited_new(ctx, "service_account.create", "service account", id, &account.email);
        self.store.machine_account_create(by, &account, &grant).await
    }

    /// A changed service account; needs admin access to it, which administrators of its project have.
    pub async fn machine_account_update(
        &self,
        ctx: &OpCtx,
        id: MachineAccountId,
        change: &MachineAccountChange,
    ) -> Result<MachineAccount> {
        let account = self.authorized::<MachineAccount, Admin>(ctx, &MachineAccountSelector::Id(id)).await?;
        let grant = match &change.assume {
            Some(assume) => Some(Grant::of_role(&account, ctx, id.into(), (Role::Assume, assume.clone()))?),
            None => None,
        };
        let by = account.audited(ctx, "service_account.update");
        self.store.machine_account_update(by, change, grant.as_ref()).await
    }

    /// Removes a service account: its tokens end.
    pub async fn machine_account_delete(&self, ctx: &OpCtx, id: MachineAccountId) -> Result<MachineAccount> {
        let account = self.authorized::<MachineAccount, Admin>(ctx, &MachineAccountSelector::Id(id)).await?;
        self.store.machine_account_delete(account.audited(ctx, "service_account.delete")).await?;
        self.proxy.access_changed();
        Ok(account.into_inner())
    }

    /// A new token of a service account, for whoever may assume it. The rules of the caller's own tokens hold
    /// ([`issue_token`]): it reaches no more than the caller's token, and ends with that unless the caller proves that it is them.
    pub async fn machine_account_token(
        &self,
        ctx: &OpCtx,
        id: MachineAccountId,
        wish: TokenRequest,
    ) -> Result<CreatedToken> {
        let TokenRequest { valid_for, scopes, password } = wish;
        let scopes = scopes.unwrap_or_else(TokenScopes::all);
        let account = self.authorized::<MachineAccount, Assume>(ctx, &MachineAccountSelector::Id(id)).await?;
        let verified = self.password_verified(ctx, password).await?;
        let issue = issue_token(parent(ctx), &scopes, valid_for, verified.is_some(), ctx.now())?;
        let NewToken { text, hash, hint } = NewToken::generate(USER_TOKEN_PREFIX)?;
        let create = TokenCreate {
            id: TokenId::new(),
            hash,
            hint,
            session: false,
            scopes,
            expires_at: issue.expires_at,
            made_with: issue.made_with,
            assumed_by: Some(actor_name(ctx.actor())),
            proof: proof_of(ctx, verified),
            identity: None,
            federated: None,
        };
        let by = account.audited(ctx, "service_account.assume");
        let token = self.store.machine_account_token(by, &create).await?;
        Ok(CreatedToken { token, text })
    }

    /// Ends all tokens of a service account; how many there were.
    pub async fn machine_account_end_tokens(&self, ctx: &OpCtx, id: MachineAccountId) -> Result<u64> {
        let account = self.authorized::<MachineAccount, Admin>(ctx, &MachineAccountSelector::Id(id)).await?;
        let ended = account.audited(ctx, "service_account.end_tokens");
        let ended = self.store.machine_account_end_tokens(ended).await?;
        self.proxy.access_changed();
        Ok(ended)
    }
}

/// How long `1h`, `1d` or `1w` is.
///
/// # Errors
/// [`Error::Invalid`] for anything else.
pub fn parse_expiry(text: &str) -> Result<TimeDelta> {
    let told = || Error::invalid("expiry", "must be a number with m, h, d or w, as in 1h or 30d");
    let unit = text.chars().next_back().ok_or_else(told)?;
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<i64>().ok()).ok_or_else(told)?;
    let time = match unit {
        'm' => TimeDelta::try_minutes(number),
        'h' => TimeDelta::try_hours(number),
        'd' => TimeDelta::try_days(number),
        'w' => TimeDelta::try_weeks(number),
        _ => None,
    };
    time.filter(|time| *time > TimeDelta::zero()).ok_or_else(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_are_numbers_with_a_unit() {
        for (text, expected) in [
            ("90m", TimeDelta::minutes(90)),
            ("1h", TimeDelta::hours(1)),
            ("30d", TimeDelta::days(30)),
            ("2w", TimeDelta::weeks(2)),
        ] {
            assert_eq!(parse_expiry(text).unwrap(), expected, "{text}");
        }
        for text in ["", "h", "1", "1y", "-1h", "0h", "1 h", "9999999999999w", "é"] {
            assert!(parse_expiry(text).is_err(), "{text:?}");
        }
    }
}
