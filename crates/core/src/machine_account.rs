//! Service accounts of the console: users that are machines. A project owns them; whoever may *assume* one makes tokens of it.
//!
//! In Kubernetes a service account is something else: see [`crate::service_account`].

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{MachineAccountId, ProjectId, UserId};
use crate::name::{Email, Name};
use crate::page::Keyed;
use crate::policy::BindingSubject;
use crate::user::User;

/// A service account, as those see it who manage it. To everybody else it is a [`crate::user::User`] with the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineAccount {
    /// Id.
    pub id: MachineAccountId,
    /// Whose it is; it goes with its project.
    pub project_id: ProjectId,
    /// Unique among all users; its name in clusters.
    pub email: Email,
    /// For people.
    pub name: Name,
    /// Since when it may do nothing; it has no token then.
    pub suspended_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

impl MachineAccount {
    /// The user that it is.
    pub const fn user_id(&self) -> UserId {
        UserId::from_uuid(self.id.uuid())
    }
}

/// What a new service account is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMachineAccount {
    /// For people.
    pub name: Name,
    /// Unique among all users; made up when absent.
    pub email: Option<Email>,
    /// Whose it is; the default project's when absent.
    pub project_id: Option<ProjectId>,
    /// Who may assume it, besides administrators of the project.
    pub assume: Vec<BindingSubject>,
}

/// What changes of a service account; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineAccountChange {
    /// New name.
    pub name: Option<Name>,
    /// Who may assume it from now on.
    pub assume: Option<Vec<BindingSubject>>,
}

/// The domain whose addresses nobody has.
pub const NOBODYS: &str = "service-accounts.invalid";

/// Whether an address can be nobody's: no cluster and no provider takes its account for a person.
pub fn is_of_nobody(email: &Email) -> bool {
    let domain = email.as_str().rsplit_once('@').map_or("", |(_, domain)| domain);
    domain == NOBODYS || domain.strip_suffix(NOBODYS).is_some_and(|before| before.ends_with('.'))
}

/// An address that nobody can prove to be theirs, and so nobody signs in with.
///
/// # Errors
/// [`Error::Internal`]: an id is always part of an address.
pub fn made_up_address(id: MachineAccountId) -> Result<Email> {
    format!("{}@{NOBODYS}", id.uuid().simple())
        .parse()
        .map_err(|cause| Error::internal("making up an address", cause))
}

impl From<MachineAccount> for User {
    fn from(account: MachineAccount) -> Self {
        let id = account.user_id();
        let MachineAccount { id: _, project_id, email, name, suspended_at, created_at, updated_at } = account;
        Self {
            id,
            email,
            name,
            admin: false,
            machine_of: Some(project_id),
            suspended_at,
            created_at,
            updated_at,
        }
    }
}

impl Keyed for MachineAccount {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}
