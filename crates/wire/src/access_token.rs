//! Access tokens: what programs log in with on a person's behalf.

use chrono::{DateTime, Utc};
use serde::Deserialize;

use crate::{document::operations, secret::Secret};

/// An access token. The console shows its text once, when it is created.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessToken {
    /// Opaque id.
    pub id: Option<String>,
    /// The token's text, `console-…`.
    pub token: Option<Secret>,
    /// When it ends by itself, if it was asked for and does.
    #[serde(default)]
    pub expires_at: Option<DateTime<Utc>>,
}

operations! {
    /// Creates a token of the caller.
    Mutation CreateAccessToken {} => "createAccessToken": AccessToken,
    "mutation CreateAccessToken {
  createAccessToken { id token }
}";

    /// Creates a token of the caller that ends by itself.
    Mutation CreateShortAccessToken {
        /// How long it holds.
        valid_for_seconds: i32,
    } => "createAccessToken": AccessToken,
    "mutation CreateShortAccessToken($validForSeconds: Int) {
  createAccessToken(validForSeconds: $validForSeconds) { id token expiresAt }
}";

    /// Revokes a token of the caller.
    Mutation DeleteAccessToken {
        /// The token's text.
        token: Secret,
    } => "deleteAccessToken": AccessToken,
    "mutation DeleteAccessToken($token: String!) {
  deleteAccessToken(token: $token) { id }
}";
}
