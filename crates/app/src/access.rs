//! Handles that prove that access was decided.
//!
//! A store answers a lookup with a [`Guarded`] thing. Only this crate opens it, and only through
//! [`plural_core::access::authorize`], which turns it into an [`Authorized`] handle for one action. Every write of
//! the store port takes an [`Audited`] handle, which only an `Authorized` one gives: so no write is
//! reachable without both the decision and its line in the audit log.

use std::borrow::Cow;
use std::marker::PhantomData;

use plural_core::access::{Action, Actor, Scope, Wording, authorize};
use plural_core::{
    AccessToken, AuditEntry, AuditTarget, BackgroundJob, BindingSubject, Cluster, Error, GlobalService,
    Group, ManagedNamespace, Policy, Project, ProjectId, Repository, Result, Role, Service, ServiceContext,
    User,
};
use uuid::Uuid;

use crate::ctx::OpCtx;
use crate::recording::{RecordedProject, RecordingRow, Recordings};

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
    /// What decides who may have it, where that depends on what it is and not only on where it stands.
    fn guarded_by(&self, scope: Scope) -> Scope {
        scope
    }
}

macro_rules! noun {
    ($type:ty, $noun:literal, $self:ident => $id:expr, $name:expr $(, denied: $denied:expr)?) => {
        impl Noun for $type {
            const NOUN: &'static str = $noun;
            $(const DENIED: Option<&'static str> = Some($denied);)?
            fn identity(&self) -> (Option<Uuid>, String) {
                let $self = self;
                ($id, $name)
            }
        }
    };
}

noun!(Project, "project", p => Some(p.id.uuid()), p.name.to_string());
noun!(User, "user", u => Some(u.id.uuid()), u.email.to_string());
noun!(Group, "group", g => Some(g.id.uuid()), g.name.to_string());
noun!(AccessToken, "access token", t => Some(t.id.uuid()), t.hint.clone());
noun!(Cluster, "cluster", c => Some(c.id.uuid()), c.handle.to_string());
noun!(Repository, "git repository", r => Some(r.id.uuid()), r.url.to_string());
noun!(GlobalService, "global service", g => Some(g.id.uuid()), g.name.to_string());
noun!(ManagedNamespace, "managed namespace", n => Some(n.id.uuid()), n.name.to_string());
noun!(Home, "project", h => h.0.map(ProjectId::uuid), String::new());
noun!(ServiceContext, "service context", c => Some(c.id.uuid()), c.name.to_string());
noun!(RecordingRow, "recording", r => Some(r.recording.id.uuid()), recording_name(r), denied: NO_READER);
noun!(Recordings, "recording", all => Some(of_whom(all)), String::new(), denied: NO_READER);
noun!(RecordedProject, "project", p => Some(p.id.uuid()), p.name.clone());
noun!(BackgroundJob, "background job", j => Some(j.id.uuid()), format!("{} {}", j.kind, j.key));
noun!(Installation, "installation", _i => None, String::new());

impl Noun for Service {
    const NOUN: &'static str = "service";

    fn identity(&self) -> (Option<Uuid>, String) {
        (Some(self.id.uuid()), self.name.to_string())
    }

    fn guarded_by(&self, scope: Scope) -> Scope {
        match scope {
            Scope::Chain(bindings) if self.agent_upgrade => Scope::AgentUpgrade(bindings),
            scope => scope,
        }
    }
}

const NO_READER: &str = "you are not a reader of this project's recordings; ask a project administrator to \
                         add you (`plural cd projects recordings PROJECT on --user E-MAIL`)";

fn of_whom(recordings: &Recordings) -> Uuid {
    match recordings {
        Recordings::OfCluster(id) => id.uuid(),
        Recordings::OfProject(id) => id.uuid(),
    }
}

/// `shop/web`: namespace and Pod.
fn recording_name(row: &RecordingRow) -> String {
    format!("{}/{}", row.recording.shell.namespace, row.recording.shell.pod)
}

/// What a store found, together with what decides who may have it. Closed until this crate's use
/// cases have decided.
#[derive(Debug, Clone)]
pub struct Guarded<T> {
    value: T,
    scope: Scope,
}

impl<T: Noun> Guarded<T> {
    /// What was found, guarded by the bindings on it and above it that concern the actor.
    pub fn new(value: T, scope: Scope) -> Self {
        Self { value, scope }
    }

    /// Decides.
    pub(crate) fn authorize<A: Act>(self, ctx: &OpCtx) -> Result<Authorized<T, A>> {
        let Self { value, scope } = self;
        let wording = Wording { noun: T::NOUN, denied: T::DENIED };
        authorize(ctx.actor(), A::ACTION, &value.guarded_by(scope), wording)?;
        Ok(Authorized { value, action: PhantomData })
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

    /// The handle together with the line that the audit log gets.
    pub(crate) fn audited(&self, ctx: &OpCtx, action: &'static str) -> Audited<'_, T, A> {
        let (id, name) = self.value.identity();
        Audited { handle: self, entry: entry(ctx, action, T::NOUN, id, name) }
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

impl Bindable for Project {
    fn policy(&self) -> Policy {
        self.id.into()
    }
}

impl Bindable for Cluster {
    fn policy(&self) -> Policy {
        self.id.into()
    }
}

impl Bindable for Service {
    fn policy(&self) -> Policy {
        self.id.into()
    }
}

impl Noun for Policy {
    const NOUN: &'static str = "binding";
    fn identity(&self) -> (Option<Uuid>, String) {
        (Some(self.id().uuid()), self.noun().as_str().to_owned())
    }
}

impl<T: Bindable, A: Act> Authorized<T, A> {
    /// The same permission, for the policy of this thing.
    pub(crate) fn policy(&self) -> Authorized<Policy, A> {
        Authorized { value: self.value.policy(), action: PhantomData }
    }
}

/// The bindings that come with a thing that is being made: none, or the wish of somebody who may administer
/// what it is made in. A store writes them in the transaction that makes the thing.
#[derive(Debug, Clone)]
pub struct Grant {
    roles: Vec<(Role, Vec<BindingSubject>)>,
    entry: Option<AuditEntry>,
}

impl Grant {
    /// No bindings: nobody has to be asked.
    pub(crate) fn none() -> Self {
        Self { roles: Vec::new(), entry: None }
    }

    /// Bindings of `new`, the policy of what is being made in a thing that the caller may administer.
    pub(crate) fn in_new<T: Noun>(
        _of: &Authorized<T, Admin>,
        ctx: &OpCtx,
        new: Policy,
        roles: Vec<(Role, Vec<BindingSubject>)>,
    ) -> Self {
        let (id, name) = new.identity();
        let entry = entry(ctx, "binding.replace", Policy::NOUN, id, name);
        Self { roles, entry: Some(entry) }
    }

    /// Who gets which role.
    pub fn roles(&self) -> &[(Role, Vec<BindingSubject>)] {
        &self.roles
    }

    /// The audit line, when there are any.
    pub fn entry(&self) -> Option<&AuditEntry> {
        self.entry.as_ref()
    }
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
    let (user_id, actor) = match ctx.actor() {
        Actor::Nobody => (None, "nobody".to_owned()),
        Actor::User(user) => (Some(user.id), user.email.clone()),
        Actor::Cluster(id) => (None, format!("cluster:{id}")),
        Actor::System => (None, "system".to_owned()),
    };
    AuditEntry {
        action: action.into(),
        user_id,
        actor,
        target: AuditTarget { noun: noun.into(), id, name },
        request_id: ctx.request_id(),
        at: ctx.now(),
        times: 1,
    }
}
