//! A user signs in with a password or calls with an access token.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::{ProjectId, UserId};
use crate::name::{Email, Name};
use crate::page::Keyed;

/// A user. The password hash never leaves the store's row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Id.
    pub id: UserId,
    /// Unique in the installation, lower case.
    pub email: Email,
    /// For people.
    pub name: Name,
    /// May do everything in the installation.
    pub admin: bool,
    /// The project that owns it, of a service account: it has no password and is never an administrator.
    pub machine_of: Option<ProjectId>,
    /// Since when it may do nothing; it has no session or token then.
    pub suspended_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What a new user is made from. The password, if any, travels beside it, never in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUser {
    /// Unique in the installation.
    pub email: Email,
    /// For people.
    pub name: Name,
    /// May do everything.
    pub admin: bool,
}

/// What changes of a user; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserChange {
    /// New address.
    pub email: Option<Email>,
    /// New name.
    pub name: Option<Name>,
    /// New power; only an administrator may change it.
    pub admin: Option<bool>,
}

impl Keyed for User {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}
