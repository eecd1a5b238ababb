//! What is written of people, and what it must stand on when it is written.

use chrono::{DateTime, Utc};
use plural_core::{NewUser, TokenId, TokenScopes, UserId};

use crate::secret::TokenHash;

/// What allowed a change. It was looked at before the change is written, and checking a password takes a while: whoever
/// writes makes sure, in the same transaction, that it still holds.
#[derive(Debug)]
pub struct Proof {
    /// Who asks.
    pub caller: UserId,
    /// The token that they came with: it must still be there.
    pub asked_with: Option<TokenId>,
    /// The hash of the password that was verified: it must still be the caller's.
    pub verified: Option<String>,
    /// They did it as an administrator, and must still be one.
    pub as_admin: bool,
}

/// A user to make.
#[derive(Debug)]
pub struct UserCreate {
    /// Id.
    pub id: UserId,
    /// The rest.
    pub new: NewUser,
    /// Argon2id, in PHC form; absent for one that can only call with tokens.
    pub password_hash: Option<String>,
    /// What allowed it, where it had to be proven.
    pub proof: Option<Proof>,
}

/// A password that a user gets.
#[derive(Debug)]
pub struct PasswordSet {
    /// Argon2id, in PHC form.
    pub hash: String,
    /// The user's tokens end, not only their sessions.
    pub end_tokens: bool,
}

/// A token to keep.
#[derive(Debug)]
pub struct TokenCreate {
    /// Id.
    pub id: TokenId,
    /// Of its text.
    pub hash: TokenHash,
    /// First characters.
    pub hint: String,
    /// Made by a login.
    pub session: bool,
    /// What it reaches.
    pub scopes: TokenScopes,
    /// End.
    pub expires_at: Option<DateTime<Utc>>,
    /// The token that it ends with, too, whether that is revoked or expires.
    pub made_with: Option<TokenId>,
    /// What allowed it; absent for one that the console itself makes.
    pub proof: Option<Proof>,
}
