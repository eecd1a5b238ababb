//! Passkeys: keys of WebAuthn that a person's device keeps, in the place of a password and its second factor.

use chrono::{DateTime, Utc};

use crate::ids::{PasskeyId, UserId};
use crate::name::Name;

/// Passkeys that one user may have.
pub const MAX_PASSKEYS: u64 = 20;

/// A passkey of a user. Its public key never leaves the store's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passkey {
    /// Id.
    pub id: PasskeyId,
    /// Whose.
    pub user_id: UserId,
    /// For its owner.
    pub name: Name,
    /// When it was added.
    pub created_at: DateTime<Utc>,
    /// When somebody last signed in with it.
    pub last_used_at: Option<DateTime<Utc>>,
}
