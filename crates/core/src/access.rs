//! Who may do what. One pure function decides; every use case passes through it.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::ids::{ClusterId, GroupId, ProjectId, RegistrationTokenId, StackId, StackRunId, UserId};
use crate::policy::{Binding, BindingSubject, Rights};
use crate::registration_token::RegistrationTerms;
use crate::stack_run::RunPhase;
use crate::token::{PresentedToken, TokenScopes};

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
    /// A machine with a registration token. It makes clusters of one project through the one use case that is for it, and may do
    /// nothing else.
    Registration(Box<RegistrationActor>),
    /// The Job of a run of a stack. It reaches the state of its stack, and its own run through the use cases for it, and may do
    /// nothing else.
    Run(Box<RunActor>),
    /// The console's own jobs. No credential of any kind resolves to this actor.
    System,
}

/// Who has a registration token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistrationActor {
    /// The token.
    pub token: RegistrationTokenId,
    /// Its first characters, for audit rows.
    pub hint: String,
    /// Where it makes clusters.
    pub project: ProjectId,
    /// What it gives them.
    pub terms: RegistrationTerms,
    /// In whose name: what they may not do, the token does not do.
    pub maker: UserActor,
}

/// The Job of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunActor {
    /// The run.
    pub run: StackRunId,
    /// The stack whose state it reaches.
    pub stack: StackId,
    /// In the one that applies, it writes that state.
    pub phase: RunPhase,
}

impl RunActor {
    /// What the audit log calls it, and the author of the locks that it takes.
    pub fn name(&self) -> String {
        format!("run:{}", self.run)
    }

    /// The run that such a name is of; none for the names of others.
    pub fn run_of(name: &str) -> Option<StackRunId> {
        name.strip_prefix("run:")?.parse().ok()
    }

    /// Whether it may do this to its own stack.
    const fn may(&self, action: Action) -> bool {
        match action {
            Action::ReadState => true,
            Action::WriteState => matches!(self.phase, RunPhase::Apply),
            Action::Read
            | Action::Write
            | Action::Admin
            | Action::ReadRecordings
            | Action::Approve
            | Action::Exec
            | Action::ExecStack
            | Action::CreatePr
            | Action::Rollback
            | Action::Prune
            | Action::ImpersonateGroup
            | Action::Assume => false,
        }
    }
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
    /// The scopes of a token to which nothing of the console's own API is open.
    fn narrowed(&self) -> Option<&TokenScopes> {
        self.token.as_ref().map(|token| &token.scopes).filter(|scopes| !scopes.is_all())
    }
}

impl Actor {
    /// The project of the run whose actor asks, with the token that the run has of it.
    pub fn run_project(&self) -> Option<ProjectId> {
        match self {
            Self::User(user) => user.token.as_ref().and_then(|token| token.scopes.run_project()),
            Self::Nobody | Self::Cluster(_) | Self::Registration(_) | Self::Run(_) | Self::System => None,
        }
    }

    /// The actor of a run as the user that it is, without what narrows its token: for a decision about what that token reaches.
    #[must_use]
    pub fn beyond_run(&self) -> Self {
        match self {
            Self::User(user) if self.run_project().is_some() => {
                Self::User(UserActor { token: None, ..user.clone() })
            }
            Self::User(_)
            | Self::Nobody
            | Self::Cluster(_)
            | Self::Registration(_)
            | Self::Run(_)
            | Self::System => self.clone(),
        }
    }
}

/// Says which actions there are: the word of each, which is stored, and what it lets do.
macro_rules! actions {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $lets:literal;)+) => {
        /// What is to be done.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Action {
            $($(#[$doc])* $name,)+
        }

        impl Action {
            /// All of them.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$name),+];

            /// The word in messages, in custom roles and in the database.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }

            /// What whoever has it may do, for people.
            pub const fn lets(self) -> &'static str {
                match self {
                    $(Self::$name => $lets,)+
                }
            }
        }
    };
}

actions! {
    /// Look at it.
    Read = "read", "look at it";
    /// Change it, and read its secrets.
    Write = "write", "change it, and read its secrets";
    /// Change who may do what; delete or re-key what others stand on.
    Admin = "admin", "decide who may do what; delete or re-key what others stand on";
    /// Read what was recorded of people in shells.
    ReadRecordings = "recordings", "read recordings of shells";
    /// Decide about what waits for a person, such as a canary.
    Approve = "approve", "decide about a canary, the plan of a stack or the commit of a fork";
    /// Open a shell through the console, as far as the cluster's RBAC goes.
    Exec = "exec", "open shells through the console, as far as the cluster's RBAC goes";
    /// Return a service to an earlier revision.
    Rollback = "rollback", "return a service to an earlier revision";
    /// Approve the deletions that wait for a person.
    Prune = "prune", "approve deletions that wait for a person";
    /// Have the console assert the groups of the user to a cluster, and not only who they are.
    ImpersonateGroup = "impersonate-group", "reach a cluster as a member of their groups";
    /// Make tokens of a service account, and so act as it.
    Assume = "assume", "make tokens of a service account, and so act as it";
    /// Read the state of a stack, with the secret values that are in it.
    ReadState = "state-read", "read the state of stacks, with the secret values in it";
    /// Lock and replace the state of a stack.
    WriteState = "state-write", "lock and replace the state of stacks";
    /// Run commands of one's own with the identity of a stack.
    ExecStack = "stack-exec", "run commands of their own in the environment of stacks";
    /// Open pull requests with an automation.
    CreatePr = "pr-create", "open pull requests with automations";
}

impl Action {
    /// The action of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
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
    /// A stack: for people the bindings of its chain; the Job of one of its runs reaches its state.
    Stack(StackId, Vec<Binding>),
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

/// A decision, and what decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The answer.
    pub decision: Decision,
    /// Why.
    pub because: Because,
}

/// What decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Because {
    /// There is no credential.
    Nobody,
    /// It is the console itself.
    Console,
    /// It is the credential of an agent, which reaches its own cluster's desired state and nothing else.
    DeployToken,
    /// It is a registration token, which makes clusters of its project and nothing else.
    RegistrationToken,
    /// It is the credential of a run's Job, which reaches the state of its own stack and nothing else.
    RunCredential,
    /// The token reaches only these things.
    NarrowToken(TokenScopes),
    /// The user is an administrator of the installation.
    Administrator,
    /// This binding gives it.
    Bound(Binding),
    /// No binding that concerns the user gives it.
    Unbound,
    /// The service is the upgrade of its cluster's agent.
    AgentUpgrade,
    /// It is the user's own.
    Own,
    /// It belongs to another user.
    NotOwn,
    /// Any signed-in user may.
    SignedIn,
    /// Only administrators of the installation may.
    OnlyAdministrators,
}

/// Decides whether `actor` may do `action` to what `scope` describes, and says what decided. Every use case, every explanation
/// and everything that tells who may do what asks here.
///
/// # Guarantees
/// Pure and total. A cluster's credential is never allowed anything here, nor is a registration token, nor a token with narrower scopes than its
/// user's; the credential of a run reads the state of its stack, and writes it in the phase that applies. Whoever may not read a thing is told that it does not exist.
pub fn judge(actor: &Actor, action: Action, scope: &Scope) -> Verdict {
    let verdict = |decision, because| Verdict { decision, because };
    let user = match actor {
        Actor::Nobody => return verdict(Decision::Unauthenticated, Because::Nobody),
        Actor::Cluster(_) => return verdict(Decision::Hide, Because::DeployToken),
        Actor::Registration(_) => return verdict(Decision::Hide, Because::RegistrationToken),
        Actor::Run(by) => {
            let is_own = matches!(scope, Scope::Stack(stack, _) if *stack == by.stack);
            let decision = if is_own && by.may(action) { Decision::Allow } else { Decision::Hide };
            return verdict(decision, Because::RunCredential);
        }
        Actor::System => return verdict(Decision::Allow, Because::Console),
        Actor::User(user) => user,
    };
    if let Some(scopes) = user.narrowed() {
        return verdict(Decision::Deny, Because::NarrowToken(scopes.clone()));
    }
    if user.admin {
        return verdict(Decision::Allow, Because::Administrator);
    }
    match scope {
        Scope::Chain(bindings) | Scope::Stack(_, bindings) => bound(user, bindings, action),
        Scope::AgentUpgrade(bindings) => {
            let read = bound(user, bindings, Action::Read);
            if read.decision == Decision::Allow && action != Action::Read {
                verdict(Decision::Deny, Because::AgentUpgrade)
            } else {
                read
            }
        }
        Scope::Account(id) if *id == user.id && action == Action::Write => {
            verdict(Decision::Allow, Because::Own)
        }
        Scope::Own(id) if *id == user.id => verdict(Decision::Allow, Because::Own),
        // Not even that there is one.
        Scope::Own(_) => verdict(Decision::Hide, Because::NotOwn),
        Scope::Account(_) | Scope::Installation if action == Action::Read => {
            verdict(Decision::Allow, Because::SignedIn)
        }
        // That there is an audit log is no secret.
        Scope::AdminOnly | Scope::Account(_) | Scope::Installation => {
            verdict(Decision::Deny, Because::OnlyAdministrators)
        }
    }
}

/// The decision of [`judge`].
pub fn allows(actor: &Actor, action: Action, scope: &Scope) -> Decision {
    judge(actor, action, scope).decision
}

/// All actions that [`judge`] allows.
pub fn rights(actor: &Actor, scope: &Scope) -> Rights {
    let allowed = |action: &Action| allows(actor, *action, scope) == Decision::Allow;
    Action::ALL.into_iter().filter(allowed).collect()
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
        Actor::User(user) => user.narrowed().map_or(Ok(()), |scopes| {
            Err(Error::forbidden(format!(
                "this token is limited to {scopes}; use an unscoped token (`plural login`)"
            )))
        }),
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => Ok(()),
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
/// [`Error::Unauthenticated`] for nobody, [`Error::Forbidden`] for the credential of a cluster or of a run.
pub fn visibility(actor: &Actor) -> Result<Visibility> {
    check_scopes(actor)?;
    match actor {
        Actor::Nobody => Err(Error::Unauthenticated),
        Actor::Cluster(_) => {
            Err(Error::forbidden("a deploy token reaches only its own cluster's desired state"))
        }
        Actor::Registration(_) => {
            Err(Error::forbidden("a registration token makes clusters of its project and does nothing else"))
        }
        Actor::Run(_) => Err(Error::forbidden(
            "the credential of a run reaches the state of its own stack and nothing else",
        )),
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

/// What the bindings of a chain decide: the rights of all of them together. Who may not read a thing must not know of it.
fn bound(user: &UserActor, bindings: &[Binding], action: Action) -> Verdict {
    let mine = || bindings.iter().filter(|binding| is_subject(user, binding.subject));
    let gives = |action| mine().find(|binding| binding.role.rights().allow(action));
    match gives(action) {
        Some(binding) => Verdict { decision: Decision::Allow, because: Because::Bound(*binding) },
        None if gives(Action::Read).is_some() => {
            Verdict { decision: Decision::Deny, because: Because::Unbound }
        }
        None => Verdict { decision: Decision::Hide, because: Because::Unbound },
    }
}

#[cfg(test)]
mod tests {
    use Action::{Admin, Read, ReadRecordings, Write};
    use Decision::{Allow, Deny, Hide, Unauthenticated};

    use super::*;
    use crate::ids::{BindingId, PolicyId, RoleId, ServiceId};
    use crate::policy::{BoundRole, Role};

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

    fn registration(maker: UserActor) -> Actor {
        Actor::Registration(Box::new(RegistrationActor {
            token: RegistrationTokenId::new(),
            hint: "abcdef".into(),
            project: ProjectId::new(),
            terms: RegistrationTerms::default(),
            maker,
        }))
    }

    fn binding(on: impl Into<PolicyId>, subject: BindingSubject, role: Role) -> Binding {
        Binding { id: BindingId::new(), policy: on.into(), subject, role: role.into() }
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
            // Whatever its maker may do.
            (registration(user(true, &[])), [Hide, Hide, Hide]),
            (Actor::System, [Allow, Allow, Allow]),
        ];
        for (actor, expected) in rows {
            let got = [Read, Write, Admin].map(|action| allows(&actor, action, &scope));
            assert_eq!(got, expected, "{actor:?}");
        }
    }

    /// Whatever the rights that a role gives: what it lists is allowed, and the rest is hidden without the right to read.
    #[test]
    fn what_is_not_readable_is_hidden() {
        let plain = user(false, &[]);
        for bits in 0..1_u16 << Action::ALL.len() {
            let given: Rights =
                Action::ALL.into_iter().filter(|action| bits & (1 << *action as u16) != 0).collect();
            let role = BoundRole::Custom(RoleId::new(), given);
            let on =
                Binding { role, ..binding(ProjectId::new(), BindingSubject::User(plain.id), Role::Read) };
            let (actor, scope) = (Actor::User(plain.clone()), Scope::Chain(vec![on]));
            for action in Action::ALL {
                let expected = match (given.allow(action), given.allow(Read)) {
                    (true, _) => Allow,
                    (false, true) => Deny,
                    (false, false) => Hide,
                };
                assert_eq!(allows(&actor, action, &scope), expected, "{given:?} {action:?}");
            }
            assert_eq!(rights(&actor, &scope), given);
        }
    }

    /// The first binding that gives it decided; what gives something else did not.
    #[test]
    fn a_verdict_names_what_decided() {
        let group = GroupId::new();
        let ada = user(false, &[group]);
        let read = binding(ServiceId::new(), BindingSubject::User(ada.id), Role::Read);
        let write = binding(ProjectId::new(), BindingSubject::Group(group), Role::Write);
        let other = binding(ProjectId::new(), BindingSubject::User(UserId::new()), Role::Admin);
        let scope = Scope::Chain(vec![other, read, write]);
        let actor = Actor::User(ada.clone());
        let because = |action| judge(&actor, action, &scope).because;
        assert_eq!(because(Read), Because::Bound(read));
        assert_eq!(because(Action::Rollback), Because::Bound(write));
        assert_eq!(because(Admin), Because::Unbound);
        let upgrade = Scope::AgentUpgrade(vec![read, write]);
        assert_eq!(judge(&actor, Read, &upgrade).because, Because::Bound(read));
        for action in [Write, Admin, Action::Rollback, Action::Prune, ReadRecordings] {
            let expected = Verdict { decision: Deny, because: Because::AgentUpgrade };
            assert_eq!(judge(&actor, action, &upgrade), expected, "{action:?}");
        }
        assert_eq!(judge(&actor, Write, &Scope::AgentUpgrade(vec![other])).decision, Hide);
        assert_eq!(judge(&actor, Write, &Scope::Account(ada.id)).because, Because::Own);
        assert_eq!(judge(&actor, Read, &Scope::Installation).because, Because::SignedIn);
        assert_eq!(judge(&actor, Read, &Scope::AdminOnly).because, Because::OnlyAdministrators);
        let admin = Actor::User(user(true, &[]));
        assert_eq!(judge(&admin, Admin, &Scope::AdminOnly).because, Because::Administrator);
        assert_eq!(judge(&Actor::System, Admin, &scope).because, Because::Console);
        assert_eq!(judge(&Actor::Nobody, Read, &scope).because, Because::Nobody);
        assert_eq!(judge(&Actor::Cluster(ClusterId::new()), Read, &scope).because, Because::DeployToken);
        let machine = registration(user(true, &[]));
        assert_eq!(judge(&machine, Read, &scope).because, Because::RegistrationToken);
        assert!(visibility(&machine).is_err());
    }

    /// Neither another stack, nor anything else of its own, nor the state of it before there is a plan to apply.
    #[test]
    fn a_run_reaches_the_state_of_its_stack() {
        let stack = StackId::new();
        let (run, reader) = (StackRunId::new(), user(false, &[]));
        let of = |phase| Actor::Run(Box::new(RunActor { run, stack, phase }));
        let bindings = vec![binding(stack, BindingSubject::User(reader.id), Role::Read)];
        let own = Scope::Stack(stack, bindings.clone());
        for phase in RunPhase::ALL {
            for action in Action::ALL {
                let may =
                    action == Action::ReadState || (action == Action::WriteState && phase == RunPhase::Apply);
                let verdict = judge(&of(phase), action, &own);
                assert_eq!(verdict.decision, if may { Allow } else { Hide }, "{phase:?} {action:?}");
                assert_eq!(verdict.because, Because::RunCredential);
                for scope in [
                    Scope::Stack(StackId::new(), bindings.clone()),
                    Scope::Chain(bindings.clone()),
                    Scope::Installation,
                    Scope::AdminOnly,
                    Scope::Account(reader.id),
                ] {
                    assert_eq!(allows(&of(phase), action, &scope), Hide, "{phase:?} {action:?} {scope:?}");
                }
            }
            assert!(visibility(&of(phase)).is_err());
        }
        // For people it is a chain as any other.
        for (actor, action, decision) in [
            (Actor::User(reader.clone()), Read, Allow),
            (Actor::User(reader), Action::ReadState, Deny),
            (Actor::User(user(false, &[])), Read, Hide),
            (Actor::Cluster(ClusterId::new()), Action::ReadState, Hide),
            (Actor::Nobody, Action::ReadState, Unauthenticated),
        ] {
            assert_eq!(allows(&actor, action, &own), decision, "{actor:?}");
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
            assumed_by: None,
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
            let got = [Read, Write, Admin, ReadRecordings].map(|action| allows(&actor, action, &scope));
            assert_eq!(got, expected, "{actor:?}");
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
