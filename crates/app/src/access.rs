//! Handles that prove that access was decided.
//!
//! A store answers a lookup with a [`Guarded`] thing. Only this crate opens it, and only through
//! [`plural_core::access::authorize`], which turns it into an [`Authorized`] handle for one action. Every write of
//! the store port takes an [`Audited`] handle, which only an `Authorized` one gives: so no write is
//! reachable without both the decision and its line in the audit log.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use plural_core::access::{Action, Actor, Scope, Verdict, Wording, authorize, judge, rights};
use plural_core::audit::{AuditEntry, AuditTarget};
use plural_core::audit_chain::{AuditDigest, digest};
use plural_core::ids::{ProjectId, UserId};
use plural_core::policy::{BindingSubject, BindingsChange, Policy, Rights, Role};
use plural_core::service_context::ServiceContext;
use plural_core::{Error, Result};
use uuid::Uuid;

use crate::ctx::OpCtx;

mod sealed {
    pub trait Sealed {}
}

/// An action as a type.
pub trait Act: sealed::Sealed + Send + Sync + 'static {
    /// The action.
    const ACTION: Action;
}

macro_rules! act {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;
        impl sealed::Sealed for $name {}
        impl Act for $name {
            const ACTION: Action = Action::$name;
        }
    };
}

act!(/// To look.
    Read);
act!(/// To change.
    Write);
act!(/// To decide who may.
    Admin);
act!(/// To read what was recorded of people in shells.
    ReadRecordings);
act!(/// To decide about what waits for a person.
    Approve);
act!(/// To return to an earlier revision.
    Rollback);
act!(/// To approve deletions.
    Prune);
act!(/// To act as a service account.
    Assume);
act!(/// To read the state of a stack.
    ReadState);
act!(/// To lock and replace the state of a stack.
    WriteState);
act!(/// To run commands of one's own in the environment of a stack.
    ExecStack);
act!(/// To open pull requests with an automation.
    CreatePr);

/// The installation as a target: users, groups, projects as sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Installation;

/// Where a global service or a managed namespace belongs: a project, or the whole installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Home(pub Option<ProjectId>);

/// Something with a name in error messages and audit rows.
pub trait Noun {
    /// "cluster".
    const NOUN: &'static str;
    /// What a refusal says in place of which right is missing.
    const DENIED: Option<&'static str> = None;
    /// Its id and name at this moment.
    fn identity(&self) -> (Option<Uuid>, String);
    /// The project that it is in, as far as tokens of the actors of runs reach it.
    fn project(&self) -> Option<ProjectId> {
        None
    }
    /// What decides who may have it, where that depends on what it is and not only on where it stands.
    fn guarded_by(&self, scope: Scope) -> Scope {
        scope
    }
}

/// Makes a type a [`Noun`], in the file of the noun: `noun!(Stack, "stack", s => Some(s.id.uuid()), s.name.to_string());`.
macro_rules! noun {
    ($type:ty, $noun:literal, $self:ident => $id:expr, $name:expr $(, denied: $denied:expr)? $(, project: $project:expr)?) => {
        impl $crate::access::Noun for $type {
            const NOUN: &'static str = $noun;
            $(const DENIED: Option<&'static str> = Some($denied);)?
            fn identity(&self) -> (Option<uuid::Uuid>, String) {
                let $self = self;
                ($id, $name)
            }
            $(fn project(&self) -> Option<plural_core::ids::ProjectId> {
                let $self = self;
                Some($project)
            })?
        }
    };
}

pub(crate) use noun;

noun!(Home, "project", h => h.0.map(ProjectId::uuid), String::new());
noun!(Installation, "installation", _i => None, String::new());

/// What a store found, together with what decides who may have it. Closed until this crate's use
/// cases have decided.
#[derive(Debug, Clone)]
pub struct Guarded<T> {
    value: T,
    scope: Scope,
    row: Option<FoundRow>,
}

/// A thing's own row as a store found it, for the digest in the line of a change.
#[derive(Clone)]
pub struct FoundRow(Arc<dyn fmt::Debug + Send + Sync>);

impl FoundRow {
    /// This row.
    pub fn new(row: impl fmt::Debug + Send + Sync + 'static) -> Self {
        Self(Arc::new(row))
    }

    /// Of all its columns.
    pub fn digest(&self) -> AuditDigest {
        digest(format!("{:?}", self.0).as_bytes())
    }
}

impl fmt::Debug for FoundRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FoundRow")
    }
}

impl<T: Noun> Guarded<T> {
    /// What was found, guarded by the bindings on it and above it that concern the actor.
    pub fn new(value: T, scope: Scope) -> Self {
        Self { value, scope, row: None }
    }

    /// The same, with the row that it was made of.
    #[must_use]
    pub fn of_row(self, row: FoundRow) -> Self {
        Self { row: Some(row), ..self }
    }

    /// Decides.
    pub(crate) fn authorize<A: Act>(self, ctx: &OpCtx) -> Result<Authorized<T, A>> {
        let Self { value, scope, row } = self;
        let wording = Wording { noun: T::NOUN, denied: T::DENIED };
        let scope = value.guarded_by(scope);
        let as_user = of_run(ctx.actor(), A::ACTION, &value)?;
        authorize(as_user.as_ref().unwrap_or(ctx.actor()), A::ACTION, &scope, wording)?;
        // Use cases tell more to whoever has further rights: the token of a run's actor has none of its user's.
        let held = if as_user.is_some() { Rights::of(&[A::ACTION]) } else { rights(ctx.actor(), &scope) };
        Ok(Authorized { value, held, row, action: PhantomData })
    }

    /// What [`Self::authorize`] decides for an actor and an action, with the reason; what it is decided about; and what `tell`
    /// says of the thing, which itself stays closed.
    pub(crate) fn judge<R>(self, actor: &Actor, action: Action, tell: fn(&T) -> R) -> (Verdict, Scope, R) {
        let Self { value, scope, row: _ } = self;
        let scope = value.guarded_by(scope);
        (judge(actor, action, &scope), scope, tell(&value))
    }
}

/// Whom to judge in place of the actor of a run, who reads what is in the project of the run and writes its contexts: the user itself, as far
/// as the token goes.
fn of_run<T: Noun>(actor: &Actor, action: Action, thing: &T) -> Result<Option<Actor>> {
    let Some(own) = actor.run_project() else { return Ok(None) };
    if thing.project() != Some(own) {
        return Err(Error::not_found(T::NOUN));
    }
    match action {
        Action::Read => Ok(Some(actor.beyond_run())),
        Action::Write if T::NOUN == ServiceContext::NOUN => Ok(Some(actor.beyond_run())),
        Action::Write
        | Action::Admin
        | Action::ReadRecordings
        | Action::Approve
        | Action::Exec
        | Action::ExecStack
        | Action::CreatePr
        | Action::Rollback
        | Action::Prune
        | Action::ImpersonateGroup
        | Action::Assume
        | Action::ReadState
        | Action::WriteState => Err(Error::forbidden(
            "the token of a run's actor reads what is in the project of its stack, writes contexts there, and does nothing else",
        )),
    }
}

/// [`Guarded::authorize`] for the rows of a list: those that the actor may not do `A` to are left out.
pub(crate) fn authorize_each<T: Noun, A: Act>(
    ctx: &OpCtx,
    found: Vec<Guarded<T>>,
) -> Result<Vec<Authorized<T, A>>> {
    let mut allowed = Vec::with_capacity(found.len());
    for guarded in found {
        match guarded.authorize(ctx) {
            Ok(authorized) => allowed.push(authorized),
            Err(Error::NotFound { .. } | Error::Forbidden { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(allowed)
}

/// A thing that the actor may do `A` to. Made only by a decision.
#[derive(Debug, Clone)]
pub struct Authorized<T, A> {
    value: T,
    held: Rights,
    row: Option<FoundRow>,
    action: PhantomData<A>,
}

impl<T, A> std::ops::Deref for Authorized<T, A> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Noun, A: Act> Authorized<T, A> {
    /// The thing itself.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// All that the actor may do to it.
    pub(crate) fn held(&self) -> Rights {
        self.held
    }

    /// The handle together with the line that the audit log gets.
    pub(crate) fn audited(&self, ctx: &OpCtx, action: &'static str) -> Audited<'_, T, A> {
        let (id, name) = self.value.identity();
        let before = self.row.as_ref().map(FoundRow::digest);
        Audited { handle: self, entry: AuditEntry { before, ..entry(ctx, action, T::NOUN, id, name) } }
    }

    /// The same, naming the thing that is being made under this one.
    pub(crate) fn audited_new(
        &self,
        ctx: &OpCtx,
        action: &'static str,
        noun: &'static str,
        id: impl Into<Uuid>,
        name: &impl ToString,
    ) -> Audited<'_, T, A> {
        Audited { handle: self, entry: entry(ctx, action, noun, Some(id.into()), name.to_string()) }
    }
}

/// What has a policy, and so can have bindings.
pub trait Bindable: Noun {
    /// Who may do what with it.
    fn policy(&self) -> Policy;
}

impl<T: Bindable, A: Act> Authorized<T, A> {
    /// The same permission, for the policy of this thing.
    pub(crate) fn policy(&self) -> Authorized<Policy, A> {
        Authorized { value: self.value.policy(), held: self.held, row: None, action: PhantomData }
    }
}

/// The bindings that come with a thing that is made or changed, allowed by an administrator's right. A store writes
/// them, with their audit line, in the transaction that makes or changes the thing.
#[derive(Debug, Clone)]
pub struct Grant {
    policy: Policy,
    roles: Vec<(Role, Vec<BindingSubject>)>,
    entry: AuditEntry,
}

impl Grant {
    /// Bindings of `new`, the policy of what is being made in a thing that the caller may administer.
    pub(crate) fn in_new<T: Noun>(
        of: &Authorized<T, Admin>,
        ctx: &OpCtx,
        new: Policy,
        bindings: &BindingsChange,
    ) -> Result<Self> {
        let grant = Self::of(ctx, new, bindings);
        check_given(of.held, grant.given())?;
        Ok(grant)
    }

    /// Bindings of a thing that a user makes for itself: its owner administers it, besides whoever else does.
    pub(crate) fn to_owner<A: Act>(
        _by: &Authorized<Installation, A>,
        ctx: &OpCtx,
        new: Policy,
        owner: UserId,
        bindings: &BindingsChange,
    ) -> Self {
        let mut grant = Self::of(ctx, new, bindings);
        if bindings.admin.is_none() {
            grant.roles.push((Role::Admin, Vec::new()));
        }
        grant.keeping(owner)
    }

    /// The same, of a thing that has an owner: where its administrators are replaced, the owner stays one of them.
    pub(crate) fn keeping(mut self, owner: UserId) -> Self {
        let owner = BindingSubject::User(owner);
        for (role, subjects) in &mut self.roles {
            if *role == Role::Admin && !subjects.contains(&owner) {
                subjects.push(owner);
            }
        }
        self
    }

    /// Bindings of a thing that exists and that the caller may administer.
    pub(crate) fn on<T: Bindable>(
        of: &Authorized<T, Admin>,
        ctx: &OpCtx,
        bindings: &BindingsChange,
    ) -> Result<Self> {
        let grant = Self::of(ctx, of.value.policy(), bindings);
        check_given(of.held, grant.given())?;
        Ok(grant)
    }

    /// Bindings of one role, which replace those that there are, of a thing in one that the caller may administer, or of that itself.
    pub(crate) fn of_role<T: Noun>(
        of: &Authorized<T, Admin>,
        ctx: &OpCtx,
        policy: Policy,
        role: (Role, Vec<BindingSubject>),
    ) -> Result<Self> {
        let grant = Self { roles: vec![role], ..Self::of(ctx, policy, &BindingsChange::default()) };
        check_given(of.held, grant.given())?;
        Ok(grant)
    }

    /// What its roles give together.
    fn given(&self) -> Rights {
        let given = self.roles.iter().filter(|(_, subjects)| !subjects.is_empty());
        given.fold(Rights::NONE, |given, (role, _)| given.union(role.rights()))
    }

    fn of(ctx: &OpCtx, policy: Policy, bindings: &BindingsChange) -> Self {
        let (id, name) = policy.identity();
        let entry = entry(ctx, "binding.replace", Policy::NOUN, id, name);
        Self { policy, roles: bindings.roles(), entry }
    }

    /// Whose bindings they are.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// The roles that change, with the users and groups that have them from then on.
    pub fn roles(&self) -> &[(Role, Vec<BindingSubject>)] {
        &self.roles
    }

    /// The audit line.
    pub fn entry(&self) -> &AuditEntry {
        &self.entry
    }
}

/// Nobody gives what they do not have: not to others, and not to themselves in other words.
///
/// # Errors
/// [`Error::Forbidden`], which names what is missing.
pub(crate) fn check_given(held: Rights, given: Rights) -> Result<()> {
    let missing: Vec<&str> = given.iter().filter(|action| !held.allow(*action)).map(Action::as_str).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::forbidden(format!(
        "you cannot give a role that allows more than you may do yourself: you lack {}",
        missing.join(", ")
    )))
}

/// A handle and the audit line of what is about to be done with it. Stores write both in one
/// transaction.
#[derive(Debug, Clone)]
pub struct Audited<'a, T, A> {
    handle: &'a Authorized<T, A>,
    entry: AuditEntry,
}

impl<T, A> Audited<'_, T, A> {
    /// What it is done to.
    pub fn target(&self) -> &T {
        &self.handle.value
    }

    /// The audit line; its time is the time of the write.
    pub fn entry(&self) -> &AuditEntry {
        &self.entry
    }
}

/// The permission of a [`Scope`] that is known without asking a store.
pub(crate) fn authorize_installation<A: Act>(
    ctx: &OpCtx,
    scope: Scope,
) -> Result<Authorized<Installation, A>> {
    Guarded::new(Installation, scope).authorize(ctx)
}

pub(crate) fn entry(
    ctx: &OpCtx,
    action: impl Into<Cow<'static, str>>,
    noun: &'static str,
    id: Option<Uuid>,
    name: String,
) -> AuditEntry {
    let (user_id, token) = match ctx.actor() {
        Actor::User(user) => (Some(user.id), user.token.as_ref()),
        Actor::Registration(by) => (Some(by.maker.id), None),
        Actor::Nobody | Actor::Cluster(_) | Actor::Run(_) | Actor::System => (None, None),
    };
    let actor = actor_name(ctx.actor());
    AuditEntry {
        action: action.into(),
        user_id,
        actor,
        token_id: token.map(|token| token.id),
        address: ctx.peer(),
        target: AuditTarget { noun: noun.into(), id, name },
        request_id: ctx.request_id(),
        at: ctx.now(),
        times: 1,
        before: None,
        after: None,
    }
}

/// What an actor is called in the audit log. A service account is named together with whoever assumed it.
pub fn actor_name(actor: &Actor) -> String {
    match actor {
        Actor::Nobody => "nobody".to_owned(),
        Actor::User(user) => match user.token.as_ref().and_then(|token| token.assumed_by.as_ref()) {
            Some(by) => format!("{} (assumed by {by})", user.email),
            None => user.email.clone(),
        },
        Actor::Cluster(id) => format!("cluster:{id}"),
        Actor::Registration(by) => format!("{} (registration token {})", by.maker.email, by.hint),
        Actor::Run(by) => by.name(),
        Actor::System => "system".to_owned(),
    }
}
