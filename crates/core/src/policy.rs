//! Policies: who may do what with a project, a cluster or a service.
//!
//! Each of these has one policy, which holds its bindings: roles that users and groups have on it, and on what is below it.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::access::Action;
use crate::ids::{
    BindingId, ClusterId, GroupId, MachineAccountId, PolicyId, PrAutomationId, ProjectId, RoleId,
    SavedViewId, ServiceId, StackId, UserId,
};
use crate::page::Keyed;

/// Says which nouns have a policy: the id of each, its word, and the noun whose policy it inherits from.
macro_rules! policies {
    ($($(#[$doc:meta])* $noun:ident($id:ident) = $word:literal $(in $parent:ident)?;)+) => {
        /// Nouns that have a policy. Their words are stored.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum PolicyNoun {
            $($(#[$doc])* $noun,)+
        }

        impl PolicyNoun {
            /// All of them.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$noun),+];

            /// The word in the database and in the audit log.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$noun => $word,)+
                }
            }

            /// What a policy of this noun inherits from.
            pub const fn parent(self) -> Option<Self> {
                match self {
                    $(Self::$noun => policies!(@parent $($parent)?),)+
                }
            }
        }

        $(
            impl From<$id> for Policy {
                fn from(id: $id) -> Self {
                    Self { id: id.into(), noun: PolicyNoun::$noun }
                }
            }

            impl From<$id> for PolicyId {
                fn from(id: $id) -> Self {
                    Self::from_uuid(id.uuid())
                }
            }
        )+
    };
    (@parent) => { None };
    (@parent $parent:ident) => { Some(Self::$parent) };
}

policies! {
    /// A project and everything in it.
    Project(ProjectId) = "project";
    /// A cluster and its services.
    Cluster(ClusterId) = "cluster" in Project;
    /// One service.
    Service(ServiceId) = "service" in Cluster;
    /// A saved view.
    SavedView(SavedViewId) = "saved view";
    /// A service account.
    MachineAccount(MachineAccountId) = "service account" in Project;
    /// A stack.
    Stack(StackId) = "stack" in Project;
    /// An automation that opens pull requests.
    PrAutomation(PrAutomationId) = "pr automation" in Project;
}

impl PolicyNoun {
    /// The noun of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|noun| noun.as_str() == word)
    }
}

/// Who may do what with one thing. It is made from the id of the thing only, so that id and noun fit each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    id: PolicyId,
    noun: PolicyNoun,
}

impl Policy {
    /// Levels of policies: a project, a cluster in it, a service on that.
    pub const DEPTH: usize = 3;

    /// Its id, which is that of the thing.
    pub const fn id(self) -> PolicyId {
        self.id
    }

    /// What the thing is.
    pub const fn noun(self) -> PolicyNoun {
        self.noun
    }
}

/// Gives a user or a group a role. Inherited downwards: project → its clusters → their services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// Id.
    pub id: BindingId,
    /// On what.
    pub policy: PolicyId,
    /// To whom.
    pub subject: BindingSubject,
    /// What.
    pub role: BoundRole,
}

/// Whom a binding is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BindingSubject {
    /// One user.
    User(UserId),
    /// Every member of a group.
    Group(GroupId),
}

/// The role of a binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundRole {
    /// One of the built-in ones.
    BuiltIn(Role),
    /// A [`crate::role::CustomRole`], with the rights that it gives at this moment.
    Custom(RoleId, Rights),
}

impl BoundRole {
    /// What the role allows.
    pub const fn rights(self) -> Rights {
        match self {
            Self::BuiltIn(role) => role.rights(),
            Self::Custom(_, rights) => rights,
        }
    }
}

impl From<Role> for BoundRole {
    fn from(role: Role) -> Self {
        Self::BuiltIn(role)
    }
}

impl PartialEq<Role> for BoundRole {
    fn eq(&self, other: &Role) -> bool {
        matches!(self, Self::BuiltIn(role) if role == other)
    }
}

/// A role that somebody names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedRole {
    /// A built-in one.
    BuiltIn(Role),
    /// One that administrators made.
    Custom(RoleId),
}

impl From<Role> for NamedRole {
    fn from(role: Role) -> Self {
        Self::BuiltIn(role)
    }
}

/// A built-in role. [`Role::rights`] says what each role allows; no role is more than another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Look.
    Read,
    /// Change.
    Write,
    /// Give others access, delete.
    Admin,
    /// Read recordings of shells, and nothing else.
    Recordings,
    /// Act as a service account.
    Assume,
    /// Open pull requests with an automation.
    Create,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Admin, Self::Recordings, Self::Assume, Self::Create];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
            Self::Recordings => "recordings",
            Self::Assume => "assume",
            Self::Create => "create",
        }
    }

    /// The role of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }

    /// What the role allows. Whoever may read a cluster may open shells in it and is known there by their groups: what they
    /// may do there, Kubernetes' own RBAC decides. A custom role can withhold either. Nothing else
    /// decides about commands that run with the identity of a stack: whoever writes one may not run any for that alone.
    pub const fn rights(self) -> Rights {
        use Action::{
            Admin, Approve, Assume, CreatePr, Exec, ExecStack, ImpersonateGroup, Prune, Read, ReadRecordings,
            ReadState, Rollback, Write, WriteState,
        };
        match self {
            Self::Read => Rights::of(&[Read, Exec, ImpersonateGroup]),
            Self::Write => Rights::of(&[
                Read,
                Exec,
                ImpersonateGroup,
                Write,
                Approve,
                Rollback,
                Prune,
                ReadState,
                WriteState,
                CreatePr,
            ]),
            Self::Admin => Rights::of(&[
                Read,
                Exec,
                ImpersonateGroup,
                Write,
                Approve,
                Rollback,
                Prune,
                ReadState,
                WriteState,
                Admin,
                Assume,
                ExecStack,
                CreatePr,
            ]),
            Self::Recordings => Rights::of(&[ReadRecordings]),
            Self::Assume => Rights::of(&[Read, Assume]),
            Self::Create => Rights::of(&[Read, CreatePr]),
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

    /// Whether all actions of `other` are among them.
    pub const fn include(self, other: Self) -> bool {
        other.0 & !self.0 == 0
    }

    /// One by one.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.into_iter().filter(move |action| self.allow(*action))
    }

    const fn bit(action: Action) -> u16 {
        1 << action as u16
    }
}

impl FromIterator<Action> for Rights {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        actions.into_iter().fold(Self::NONE, |rights, action| rights.union(Self::of(&[action])))
    }
}

/// The bindings of a policy, by role; a role that is `None` stays as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BindingsChange {
    /// Who may look.
    pub read: Option<Vec<BindingSubject>>,
    /// Who may change.
    pub write: Option<Vec<BindingSubject>>,
    /// Who may decide who may.
    pub admin: Option<Vec<BindingSubject>>,
    /// Of an automation, who may open pull requests with it.
    pub create: Option<Vec<BindingSubject>>,
}

impl BindingsChange {
    /// Nothing changes.
    pub fn is_empty(&self) -> bool {
        let Self { read, write, admin, create } = self;
        read.is_none() && write.is_none() && admin.is_none() && create.is_none()
    }

    /// The roles that change, with those who have them from then on.
    pub fn roles(&self) -> Vec<(Role, Vec<BindingSubject>)> {
        let Self { read, write, admin, create } = self;
        [(Role::Read, read), (Role::Write, write), (Role::Admin, admin), (Role::Create, create)]
            .into_iter()
            .filter_map(|(role, subjects)| Some((role, subjects.clone()?)))
            .collect()
    }
}

impl Keyed for Binding {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use Action::{
        Admin, Approve, Assume, CreatePr, Exec, ExecStack, ImpersonateGroup, Prune, Read, ReadRecordings,
        ReadState, Rollback, Write, WriteState,
    };

    use super::*;

    /// Every role with every action, spelled out: a change of the table is a change of this test.
    #[test]
    fn the_rights_of_each_role() {
        let table = [
            (Role::Read, "yes no no no no yes no no yes no no no no no"),
            (Role::Write, "yes yes no no yes yes yes yes yes no yes yes no yes"),
            (Role::Admin, "yes yes yes no yes yes yes yes yes yes yes yes yes yes"),
            (Role::Recordings, "no no no yes no no no no no no no no no no"),
            (Role::Assume, "yes no no no no no no no no yes no no no no"),
            (Role::Create, "yes no no no no no no no no no no no no yes"),
        ];
        let actions = [
            Read,
            Write,
            Admin,
            ReadRecordings,
            Approve,
            Exec,
            Rollback,
            Prune,
            ImpersonateGroup,
            Assume,
            ReadState,
            WriteState,
            ExecStack,
            CreatePr,
        ];
        assert_eq!(actions, Action::ALL);
        assert_eq!(table.map(|(role, _)| role), Role::ALL);
        for (role, row) in table {
            let words = actions.map(|action| if role.rights().allow(action) { "yes" } else { "no" });
            assert_eq!(words.join(" "), row, "{role:?}");
        }
    }

    #[test]
    fn words_round_trip() {
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
        assert_eq!(Role::parse("owner"), None);
        for action in Action::ALL {
            assert_eq!(Action::parse(action.as_str()), Some(action));
        }
        assert_eq!(Action::parse("state"), None);
        for noun in PolicyNoun::ALL {
            assert_eq!(PolicyNoun::parse(noun.as_str()), Some(noun));
        }
        assert_eq!(PolicyNoun::parse("fleet"), None);
    }

    /// What the store joins to find everything that a policy inherits from: a fourth level needs one more join there.
    #[test]
    fn no_policy_is_deeper_than_three() {
        for noun in PolicyNoun::ALL {
            let above = std::iter::successors(Some(noun), |noun| noun.parent());
            assert!(above.count() <= Policy::DEPTH, "{noun:?}");
        }
    }

    #[test]
    fn rights_are_sets() {
        let all = Rights::of(&Action::ALL);
        assert_eq!(Role::Admin.rights().union(Role::Recordings.rights()), all);
        assert_eq!(all.iter().collect::<Vec<_>>(), Action::ALL);
        assert_eq!(Action::ALL.into_iter().collect::<Rights>(), all);
        assert!(all.include(Role::Write.rights()) && !Role::Write.rights().include(all));
        assert!(Rights::NONE.include(Rights::NONE) && !Rights::NONE.include(Rights::of(&[Read])));
        assert_eq!(all.intersection(Role::Write.rights()), Role::Write.rights());
        assert_eq!(Rights::default(), Rights::NONE);
        assert!(Action::ALL.iter().all(|action| !Rights::NONE.allow(*action)));
    }
}
