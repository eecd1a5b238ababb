//! A group of users, so that access is given once.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::{GroupId, GroupMemberId, UserId};
use crate::name::Name;
use crate::page::Keyed;

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Id.
    pub id: GroupId,
    /// Unique in the installation; asserted to clusters, hence never `system:…`.
    pub name: Name,
    /// For people.
    pub description: Option<String>,
    /// Every user is a member.
    pub global: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What a new group is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewGroup {
    /// Unique in the installation.
    pub name: Name,
    /// For people.
    pub description: Option<String>,
    /// Every user is a member.
    pub global: bool,
}

/// What changes of a group; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupChange {
    /// New name.
    pub name: Option<Name>,
    /// New description.
    pub description: Option<String>,
    /// Whether every user is a member.
    pub global: Option<bool>,
}

/// One user's membership in one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// Id.
    pub id: GroupMemberId,
    /// The group.
    pub group_id: GroupId,
    /// The user.
    pub user_id: UserId,
}

impl Keyed for Group {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}
