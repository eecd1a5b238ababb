//! Invitations: a code that is good once, for somebody who has no account yet, has forgotten their password, or gets a role on a
//! project.

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use crate::ids::{GroupId, InviteId, ProjectId, UserId};
use crate::name::Email;
use crate::page::Keyed;
use crate::policy::NamedRole;

/// What every code begins with.
pub const INVITE_PREFIX: &str = "invite-";
/// How long an invitation can be accepted.
pub const INVITE_LASTS: TimeDelta = TimeDelta::days(7);
/// How long a forgotten password can be replaced.
pub const RESET_LASTS: TimeDelta = TimeDelta::days(1);
/// Invitations of administrators of the installation that may wait at once.
pub const MAX_INVITES: u64 = 1_000;
/// Invitations to one project that may wait at once.
pub const MAX_PROJECT_INVITES: u64 = 100;
/// Groups that one invitation may name.
pub const MAX_INVITE_GROUPS: usize = 50;

/// An invitation that waits to be accepted. Its code is told once; only the code's hash is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invite {
    /// Id.
    pub id: InviteId,
    /// The address of the account that is made.
    pub email: Email,
    /// Groups that the account is put into.
    pub groups: Vec<GroupId>,
    /// The account that gets another password; absent where one is made.
    pub user_id: Option<UserId>,
    /// What whoever accepts it gets; present where administrators of a project invite.
    pub to: Option<InviteTo>,
    /// Who invites: an administrator, and still one when it is accepted.
    pub inviter_id: UserId,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it is worth nothing any more.
    pub expires_at: DateTime<Utc>,
}

/// The role on a project that an invitation gives. Whoever invites must be able to give it, then and when it is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InviteTo {
    /// The project.
    pub project_id: ProjectId,
    /// The role.
    pub role: NamedRole,
}

impl Keyed for Invite {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}
