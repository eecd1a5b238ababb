//! A binding gives a user or a group a role on a project, a cluster or a service.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::access::Action;
use crate::ids::{BindingId, ClusterId, GroupId, ProjectId, ServiceId, UserId};
use crate::page::Keyed;

/// One grant. Inherited downwards: project → its clusters → their services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// Id.
    pub id: BindingId,
    /// On what.
    pub target: BindingTarget,
    /// To whom.
    pub subject: BindingSubject,
    /// What.
    pub role: Role,
}

/// What a binding is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingTarget {
    /// A project and everything in it.
    Project(ProjectId),
    /// A cluster and its services.
    Cluster(ClusterId),
    /// One service.
    Service(ServiceId),
}

/// Whom a binding is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingSubject {
    /// One user.
    User(UserId),
    /// Every member of a group.
    Group(GroupId),
}

/// What a binding gives. [`Role::rights`] says what each role allows; no role is more than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look.
    Read,
    /// Change.
    Write,
    /// Give others access, delete.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Admin];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
        }
    }

    /// The role of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }

    /// What the role allows.
    pub const fn rights(self) -> Rights {
        match self {
            Self::Read => Rights::of(&[Action::Read]),
            Self::Write => Rights::of(&[Action::Read, Action::Write]),
            Self::Admin => Rights::of(&[Action::Read, Action::Write, Action::Admin]),
        }
    }
}

/// A set of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(u16);

impl Rights {
    /// No action.
    pub const NONE: Self = Self(0);

    /// These actions.
    pub const fn of(actions: &[Action]) -> Self {
        let mut rights = Self::NONE;
        let mut left = actions;
        while let [first, rest @ ..] = left {
            rights.0 |= Self::bit(*first);
            left = rest;
        }
        rights
    }

    /// The actions of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The actions that both have.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether the action is one of them.
    pub const fn allow(self, action: Action) -> bool {
        self.0 & Self::bit(action) != 0
    }

    const fn bit(action: Action) -> u16 {
        match action {
            Action::Read => 1,
            Action::Write => 1 << 1,
            Action::Admin => 1 << 2,
        }
    }
}

impl Keyed for Binding {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use Action::{Admin, Read, Write};

    use super::*;

    /// Every role with every action, spelled out: a change of the table is a change of this test.
    #[test]
    fn the_rights_of_each_role() {
        let table = [
            (Role::Read, [(Read, true), (Write, false), (Admin, false)]),
            (Role::Write, [(Read, true), (Write, true), (Admin, false)]),
            (Role::Admin, [(Read, true), (Write, true), (Admin, true)]),
        ];
        assert_eq!(table.map(|(role, _)| role), Role::ALL);
        for (role, cells) in table {
            for (action, allowed) in cells {
                assert_eq!(role.rights().allow(action), allowed, "{role:?} {action:?}");
            }
        }
    }

    #[test]
    fn words_round_trip() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
        assert_eq!(Role::parse("owner"), None);
    }

    #[test]
    fn rights_are_sets() {
        let all = Rights::of(&Action::ALL);
        assert_eq!(Role::Read.rights().union(Rights::of(&[Write, Admin])), all);
        assert_eq!(all.intersection(Role::Write.rights()), Role::Write.rights());
        assert_eq!(Rights::default(), Rights::NONE);
        assert!(Action::ALL.iter().all(|action| !Rights::NONE.allow(*action)));
    }
}
