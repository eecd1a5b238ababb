//! Who may do what. One pure function decides; every use case passes through it.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::ids::{ClusterId, GroupId, UserId};
use crate::policy::{Binding, BindingSubject, Rights};
use crate::token::PresentedToken;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Actor {
    /// Nobody: no credential was given.
    Nobody,
    /// A person or a machine account with an access token.
    User(UserActor),
    /// The agent of a cluster. It reports and reads its own desired state through the agent use cases
    /// and may do nothing else.
    Cluster(ClusterId),
    /// The console's own jobs. No credential of any kind resolves to this actor.
    System,
}

/// A signed-in user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserActor {
    /// Which user.
    pub id: UserId,
    /// For audit rows.
    pub email: String,
    /// May do everything.
    pub admin: bool,
    /// Groups the user is a member of.
    pub groups: HashSet<GroupId>,
    /// The token that was presented. Absent where the user was recognised without one: by the password of a moment ago.
    pub token: Option<PresentedToken>,
}

impl UserActor {
    /// Why nothing of the console's own API is open to this token, if nothing is.
    fn narrowed(&self) -> Option<Error> {
        let token = self.token.as_ref().filter(|token| !token.scopes.is_all())?;
        Some(Error::forbidden(format!(
            "this token is limited to {}; use an unscoped token (`plural login`)",
            token.scopes
        )))
    }
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Look at it.
    Read,
    /// Change it, and read its secrets.
    Write,
    /// Change who may do what; delete or re-key what others stand on.
    Admin,
    /// Read what was recorded of people in shells.
    ReadRecordings,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Admin, Self::ReadRecordings];

    /// The word in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
            Self::ReadRecordings => "recordings",
        }
    }
}

/// What the decision is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A project, or something below one: the bindings of the thing itself and of all that it is in
    /// (project → cluster → service). A binding above grants the same below.
    Chain(Vec<Binding>),
    /// A service that is the upgrade of its cluster's agent. It reaches what the agent lives on, and so all of the cluster:
    /// the bindings of its chain let people read it, only administrators of the installation change it.
    AgentUpgrade(Vec<Binding>),
    /// A user's account: any signed-in user may read it (to bind it by name), its owner may change it.
    Account(UserId),
    /// What is a user's own: access tokens. Others may not know of it.
    Own(UserId),
    /// The installation: users, groups, projects as a set, the audit log. Any signed-in user may
    /// read (names, to bind them), only administrators write.
    Installation,
    /// What only administrators may even read.
    AdminOnly,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Go ahead.
    Allow,
    /// Say that there is no credential.
    Unauthenticated,
    /// Say that it does not exist.
    Hide,
    /// Say that it is forbidden.
    Deny,
}

/// Decides whether `actor` may do `action` to what `scope` describes.
///
/// # Guarantees
/// Pure and total. A cluster's credential is never allowed anything here, nor is a token with narrower scopes than its
/// user's. Whoever may not read a thing is told that it does not exist.
pub fn allows(actor: &Actor, action: Action, scope: &Scope) -> Decision {
    let user = match actor {
        Actor::Nobody => return Decision::Unauthenticated,
        Actor::Cluster(_) => return Decision::Hide,
        Actor::System => return Decision::Allow,
        Actor::User(user) => user,
    };
    if user.narrowed().is_some() {
        return Decision::Deny;
    }
    if user.admin {
        return Decision::Allow;
    }
    match scope {
        Scope::Chain(bindings) => decide(held(user, bindings), action),
        Scope::AgentUpgrade(bindings) => {
            decide(held(user, bindings).intersection(Rights::of(&[Action::Read])), action)
        }
        Scope::Account(id) => match action {
            Action::Read => Decision::Allow,
            Action::Write if *id == user.id => Decision::Allow,
            Action::Write | Action::Admin | Action::ReadRecordings => Decision::Deny,
        },
        Scope::Own(id) if *id == user.id => Decision::Allow,
        // Not even that there is one.
        Scope::Own(_) => Decision::Hide,
        // That there is an audit log is no secret.
        Scope::AdminOnly => Decision::Deny,
        Scope::Installation => match action {
            Action::Read => Decision::Allow,
            Action::Write | Action::Admin | Action::ReadRecordings => Decision::Deny,
        },
    }
}

/// What a refusal says of a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wording {
    /// "cluster".
    pub noun: &'static str,
    /// What is said in place of which right is missing.
    pub denied: Option<&'static str>,
}

/// [`allows`] as an error for the caller.
///
/// # Errors
/// [`Error::Unauthenticated`], [`Error::NotFound`] or [`Error::Forbidden`].
pub fn authorize(actor: &Actor, action: Action, scope: &Scope, wording: Wording) -> Result<()> {
    let Wording { noun, denied } = wording;
    check_scopes(actor)?;
    match allows(actor, action, scope) {
        Decision::Allow => Ok(()),
        Decision::Unauthenticated => Err(Error::Unauthenticated),
        Decision::Hide => Err(Error::not_found(noun)),
        Decision::Deny if matches!(scope, Scope::AgentUpgrade(_)) => Err(Error::forbidden(
            "the service is marked as the upgrade of its cluster's agent; only installation administrators \
             can change it",
        )),
        Decision::Deny => Err(Error::forbidden(match denied {
            Some(reason) => reason.to_owned(),
            None => format!(
                "you need {} access to this {noun}; ask one of its administrators for a binding",
                action.as_str()
            ),
        })),
    }
}

/// Refuses a token that reaches only clusters. The one place where such a token is let through is the way to a cluster.
///
/// # Errors
/// [`Error::Forbidden`], which says what the token reaches.
pub fn check_scopes(actor: &Actor) -> Result<()> {
    match actor {
        Actor::User(user) => user.narrowed().map_or(Ok(()), Err),
        Actor::Nobody | Actor::Cluster(_) | Actor::System => Ok(()),
    }
}

/// Whose rows of a list are to be shown, for a store to turn into a condition. Says the same as [`allows`] on each row with the
/// action that the list is for: mostly [`Action::Read`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visibility {
    /// Every row.
    All,
    /// Rows that carry, or stand below something that carries, a binding for this user or one of
    /// these groups.
    Bound {
        /// The user.
        user: UserId,
        /// Its groups.
        groups: Vec<GroupId>,
    },
}

/// What of a list `actor` may see.
///
/// # Errors
/// [`Error::Unauthenticated`] for nobody, [`Error::Forbidden`] for a cluster's credential.
pub fn visibility(actor: &Actor) -> Result<Visibility> {
    check_scopes(actor)?;
    match actor {
        Actor::Nobody => Err(Error::Unauthenticated),
        Actor::Cluster(_) => {
            Err(Error::forbidden("a deploy token reaches only its own cluster's desired state"))
        }
        Actor::System => Ok(Visibility::All),
        Actor::User(user) if user.admin => Ok(Visibility::All),
        Actor::User(user) => {
            Ok(Visibility::Bound { user: user.id, groups: user.groups.iter().copied().collect() })
        }
    }
}

fn is_subject(user: &UserActor, subject: BindingSubject) -> bool {
    match subject {
        BindingSubject::User(id) => id == user.id,
        BindingSubject::Group(id) => user.groups.contains(&id),
    }
}

/// What bindings give a user: the rights of all roles together.
fn held(user: &UserActor, bindings: &[Binding]) -> Rights {
    bindings
        .iter()
        .filter(|binding| is_subject(user, binding.subject))
        .fold(Rights::NONE, |held, binding| held.union(binding.role.rights()))
}

/// Who may not read a thing must not know of it.
const fn decide(held: Rights, action: Action) -> Decision {
    if held.allow(action) {
        Decision::Allow
    } else if held.allow(Action::Read) {
        Decision::Deny
    } else {
        Decision::Hide
    }
}

#[cfg(test)]
mod tests {
    use Action::{Admin, Read, ReadRecordings, Write};
    use Decision::{Allow, Deny, Hide, Unauthenticated};

    use super::*;
    use crate::ids::{BindingId, PolicyId, ProjectId, ServiceId};
    use crate::policy::Role;

    const THING: Wording = Wording { noun: "thing", denied: None };

    fn user(admin: bool, groups: &[GroupId]) -> UserActor {
        UserActor {
            id: UserId::new(),
            email: "ada@example.com".into(),
            admin,
            groups: groups.iter().copied().collect(),
            token: None,
        }
    }

    fn binding(on: impl Into<PolicyId>, subject: BindingSubject, role: Role) -> Binding {
        Binding { id: BindingId::new(), policy: on.into(), subject, role }
    }

    #[test]
    fn the_table() {
        let group = GroupId::new();
        let (reader, writer, owner, stranger) =
            (user(false, &[]), user(false, &[group]), user(false, &[]), user(false, &[]));
        let scope = Scope::Chain(vec![
            binding(ProjectId::new(), BindingSubject::User(reader.id), Role::Read),
            binding(ClusterId::new(), BindingSubject::Group(group), Role::Write),
            binding(ServiceId::new(), BindingSubject::User(owner.id), Role::Admin),
        ]);
        let rows = [
            (Actor::Nobody, [Unauthenticated, Unauthenticated, Unauthenticated]),
            (Actor::User(stranger), [Hide, Hide, Hide]),
            (Actor::User(reader), [Allow, Deny, Deny]),
            (Actor::User(writer), [Allow, Allow, Deny]),
            (Actor::User(owner), [Allow, Allow, Allow]),
            (Actor::User(user(true, &[])), [Allow, Allow, Allow]),
            (Actor::Cluster(ClusterId::new()), [Hide, Hide, Hide]),
            (Actor::System, [Allow, Allow, Allow]),
        ];
        for (actor, expected) in rows {
            let got = [Read, Write, Admin].map(|action| allows(&actor, action, &scope));
            assert_eq!(got, expected, "{actor:?}");
        }
    }

    /// The rights that somebody has, with all actions.
    #[test]
    fn what_is_not_readable_is_hidden() {
        let table = [
            (Rights::NONE, [Hide, Hide, Hide, Hide]),
            (Rights::of(&[Read]), [Allow, Deny, Deny, Deny]),
            (Rights::of(&[Write]), [Hide, Allow, Hide, Hide]),
            (Rights::of(&[Admin]), [Hide, Hide, Allow, Hide]),
            (Rights::of(&[ReadRecordings]), [Hide, Hide, Hide, Allow]),
            (Rights::of(&[Read, Write]), [Allow, Allow, Deny, Deny]),
            (Rights::of(&[Read, Admin]), [Allow, Deny, Allow, Deny]),
            (Rights::of(&[Read, ReadRecordings]), [Allow, Deny, Deny, Allow]),
            (Rights::of(&[Write, Admin]), [Hide, Allow, Allow, Hide]),
            (Rights::of(&[Read, Write, Admin]), [Allow, Allow, Allow, Deny]),
            (Rights::of(&Action::ALL), [Allow, Allow, Allow, Allow]),
        ];
        for (rights, expected) in table {
            assert_eq!(Action::ALL.map(|action| decide(rights, action)), expected, "{rights:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_the_noun_has_to_say() {
        let reader = user(false, &[]);
        let bindings = vec![binding(ProjectId::new(), BindingSubject::User(reader.id), Role::Read)];
        let actor = Actor::User(reader);
        let refused = |scope, denied| {
            authorize(&actor, Write, &scope, Wording { denied, ..THING }).unwrap_err().to_string()
        };
        let chain = Scope::Chain(bindings.clone());
        assert!(refused(chain.clone(), None).contains("write access to this thing"));
        assert_eq!(refused(chain, Some("ask ada")), "forbidden: ask ada");
        assert!(
            refused(Scope::AgentUpgrade(bindings), Some("ask ada"))
                .contains("upgrade of its cluster's agent")
        );
    }

    #[test]
    fn a_narrow_token_opens_nothing_here_whoever_it_belongs_to() {
        let mut owner = user(true, &[]);
        owner.token = Some(PresentedToken {
            id: crate::ids::TokenId::new(),
            scopes: "k8s:*".parse().unwrap(),
            expires_at: None,
            signed_in_at: None,
        });
        let (id, actor) = (owner.id, Actor::User(owner));
        for scope in
            [Scope::Account(id), Scope::Own(id), Scope::Installation, Scope::AdminOnly, Scope::Chain(vec![])]
        {
            for action in Action::ALL {
                assert_eq!(allows(&actor, action, &scope), Deny);
                let refused = authorize(&actor, action, &scope, THING).unwrap_err();
                assert!(refused.to_string().contains("k8s:*"), "{refused}");
            }
        }
        assert!(visibility(&actor).is_err());
    }

    /// Neither does administering a project allow to read what was recorded in it, nor does that allow anything else.
    #[test]
    fn reading_recordings_is_a_right_of_its_own() {
        let group = GroupId::new();
        let (auditor, owner, both, stranger) =
            (user(false, &[group]), user(false, &[]), user(false, &[]), user(false, &[]));
        let project = ProjectId::new();
        let scope = Scope::Chain(vec![
            binding(project, BindingSubject::User(owner.id), Role::Admin),
            binding(project, BindingSubject::Group(group), Role::Recordings),
            binding(project, BindingSubject::User(both.id), Role::Read),
            binding(project, BindingSubject::User(both.id), Role::Recordings),
        ]);
        let rows = [
            (Actor::Nobody, [Unauthenticated, Unauthenticated, Unauthenticated, Unauthenticated]),
            (Actor::User(stranger), [Hide, Hide, Hide, Hide]),
            (Actor::User(owner), [Allow, Allow, Allow, Deny]),
            (Actor::User(auditor), [Hide, Hide, Hide, Allow]),
            (Actor::User(both), [Allow, Deny, Deny, Allow]),
            (Actor::User(user(true, &[])), [Allow, Allow, Allow, Allow]),
            (Actor::Cluster(ClusterId::new()), [Hide, Hide, Hide, Hide]),
        ];
        for (actor, expected) in rows {
            assert_eq!(Action::ALL.map(|action| allows(&actor, action, &scope)), expected, "{actor:?}");
        }
    }

    #[test]
    fn only_administrators_write_the_installation() {
        let plain = Actor::User(user(false, &[]));
        assert_eq!(allows(&plain, Action::Read, &Scope::Installation), Decision::Allow);
        assert_eq!(allows(&plain, Action::Write, &Scope::Installation), Decision::Deny);
        assert_eq!(allows(&plain, Action::Read, &Scope::AdminOnly), Decision::Deny);
        assert_eq!(
            allows(&Actor::User(user(true, &[])), Action::Write, &Scope::Installation),
            Decision::Allow
        );
        assert_eq!(
            allows(&Actor::Cluster(ClusterId::new()), Action::Read, &Scope::Installation),
            Decision::Hide
        );
    }
}
