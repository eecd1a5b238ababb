//! Access tokens: what programs log in with on a person's behalf.

use serde::Deserialize;

use crate::{document::operations, secret::Secret};

/// An access token. The console shows its text once, when it is created.
#[derive(Debug, Clone, Deserialize)]
pub struct AccessToken {
    /// Opaque id.
    pub id: Option<String>,
    /// The token's text, `console-…`.
    pub token: Option<Secret>,
}

operations! {
    /// Creates a token of the caller.
    Mutation CreateAccessToken {} => "createAccessToken": AccessToken,
    "mutation CreateAccessToken {
  createAccessToken { id token }
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
