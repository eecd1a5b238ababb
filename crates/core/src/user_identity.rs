//! What ties a user's account to an identity provider, as administrators see it.

use chrono::{DateTime, Utc};

use crate::identity_provider::Issuer;
use crate::ids::{IdentityProviderId, UserId, UserIdentityId};
use crate::specs::Handle;

/// An account that is tied to a subject of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserIdentity {
    /// Id.
    pub id: UserIdentityId,
    /// Whose account.
    pub user_id: UserId,
    /// The provider.
    pub provider_id: IdentityProviderId,
    /// What the provider is called here.
    pub provider: Handle,
    /// What it calls itself.
    pub issuer: Issuer,
    /// Who they are to the provider.
    pub subject: String,
    /// When they last signed in with it, or it last said that they are there.
    pub used_at: DateTime<Utc>,
    /// When the account was tied.
    pub created_at: DateTime<Utc>,
}
