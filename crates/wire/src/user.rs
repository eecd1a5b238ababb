//! Users and signing in.

use serde::{Deserialize, Serialize};

use crate::{access_token::ListedAccessToken, document::operations, page::Connection, secret::Secret};

/// A person or a service account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Opaque id.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// The unique e-mail address.
    pub email: String,
}

/// A user who just signed in.
#[derive(Debug, Clone, Deserialize)]
pub struct SignedIn {
    /// Opaque id.
    pub id: String,
    /// The unique e-mail address.
    pub email: String,
    /// The session's bearer token.
    pub jwt: Option<Secret>,
}

/// The part of a user's attributes that a change of the password sends.
#[derive(Debug, Clone, Serialize)]
pub struct PasswordAttributes {
    /// The new password.
    pub password: Secret,
}

/// A user whose password was changed.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PasswordChanged {
    /// The unique e-mail address.
    pub email: String,
    /// The first of the tokens that stay valid.
    #[serde(default)]
    pub remaining_tokens: Option<Connection<ListedAccessToken>>,
}

operations! {
    /// Changes the caller's password. Their sessions end.
    Mutation ChangePassword {
        /// The new one.
        attributes: PasswordAttributes,
        /// The one so far.
        current_password: Secret,
        /// Access tokens end, too.
        end_tokens: bool,
    } => "updateUser": PasswordChanged,
    "mutation ChangePassword($attributes: UserAttributes!, $currentPassword: String, $endTokens: Boolean) {
  updateUser(attributes: $attributes, currentPassword: $currentPassword, endTokens: $endTokens) {
    email
    remainingTokens {
      pageInfo { hasNextPage endCursor }
      edges { node { id hint session scopes madeWith expiresAt insertedAt } }
    }
  }
}";

    /// Who the credential belongs to.
    Query Me {} => "me": User,
    "query Me {
  me { id name email }
}";

    /// Opens a session by e-mail address and password.
    Mutation SignIn {
        /// The user's e-mail address.
        email: String,
        /// The user's password.
        password: Secret,
    } => "signIn": SignedIn,
    "mutation SignIn($email: String!, $password: String!) {
  signIn(email: $email, password: $password) { id email jwt }
}";
}
