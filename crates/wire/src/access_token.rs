//! Access tokens: what programs log in with on a person's behalf.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{document::operations, page::Connection, secret::Secret, shared::list};

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

/// An access token in a list: everything but its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedAccessToken {
    /// Opaque id.
    pub id: String,
    /// The first characters behind its prefix.
    #[serde(default)]
    pub hint: Option<String>,
    /// Made by signing in.
    #[serde(default)]
    pub session: Option<bool>,
    /// What it reaches.
    #[serde(default, deserialize_with = "list")]
    pub scopes: Vec<String>,
    /// The token that it ends with.
    #[serde(default)]
    pub made_with: Option<String>,
    /// When it ends by itself.
    #[serde(default)]
    pub expires_at: Option<DateTime<Utc>>,
    /// When it was made.
    #[serde(default)]
    pub inserted_at: Option<DateTime<Utc>>,
}

/// What a token reaches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScopeAttributes {
    /// `k8s` or `*`.
    pub api: String,
    /// Id of the one cluster that is reached; all when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identifier: Option<String>,
}

impl ScopeAttributes {
    /// The Kubernetes API of one cluster, or of all.
    pub fn kubernetes(cluster: Option<String>) -> Self {
        Self { api: "k8s".to_owned(), identifier: cluster }
    }
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
        /// What it reaches.
        scopes: Vec<ScopeAttributes>,
    } => "createAccessToken": AccessToken,
    "mutation CreateShortAccessToken($validForSeconds: Int, $scopes: [ScopeAttributes]) {
  createAccessToken(validForSeconds: $validForSeconds, scopes: $scopes) { id token expiresAt }
}";

    /// Creates a token of the caller that outlasts the one it is asked for with.
    Mutation CreateLastingAccessToken {
        /// How long it holds; until it is revoked when absent.
        valid_for_seconds: Option<i32>,
        /// What it reaches; everything when absent.
        scopes: Option<Vec<ScopeAttributes>>,
        /// The caller's password, where the session is not fresh.
        current_password: Option<Secret>,
    } => "createAccessToken": AccessToken,
    "mutation CreateLastingAccessToken($validForSeconds: Int, $scopes: [ScopeAttributes], $currentPassword: String) {
  createAccessToken(validForSeconds: $validForSeconds, scopes: $scopes, currentPassword: $currentPassword) { id token expiresAt }
}";

    /// The caller's tokens.
    Query ListAccessTokens {
        /// Position of the page.
        after: Option<String>,
        /// Size of the page.
        first: i64,
    } => "accessTokens": Connection<ListedAccessToken>,
    "query ListAccessTokens($after: String, $first: Int) {
  accessTokens(after: $after, first: $first) {
    pageInfo { hasNextPage endCursor }
    edges { node { id hint session scopes madeWith expiresAt insertedAt } }
  }
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
