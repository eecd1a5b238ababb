//! Users and signing in.

use serde::{Deserialize, Serialize};

use crate::{document::operations, secret::Secret};

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

operations! {
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
