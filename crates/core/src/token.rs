//! Access tokens of users. Only a hash is kept; the text is shown once.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::{TokenId, UserId};
use crate::page::Keyed;

/// How a user's token begins, so that scanners and people know what leaked.
pub const USER_TOKEN_PREFIX: &str = "console-";
/// How a cluster's token begins.
pub const DEPLOY_TOKEN_PREFIX: &str = "deploy-";

/// What is known of a token without its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessToken {
    /// Id; also accepted where a token is to be deleted.
    pub id: TokenId,
    /// Whose it is.
    pub user_id: UserId,
    /// The first characters behind the prefix, enough to tell tokens apart and useless to guess from.
    pub hint: String,
    /// Made by a login rather than on purpose.
    pub session: bool,
    /// No longer good from here on.
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
}

impl Keyed for AccessToken {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}
