//! Who may do what, as people ask it: may I, why, and who else.
//!
//! Every answer is a decision of [`plural_core::access::judge`] about what the store finds for the use case itself, so that
//! an answer and what then happens cannot differ. Of things that the asker may not read, nothing is told.

use std::str::FromStr;

use plural_core::access::{Action, Actor, Because, Decision, Scope, UserActor, Verdict, judge};
use plural_core::cluster::Cluster;
use plural_core::global_service::GlobalService;
use plural_core::group::Group;
use plural_core::ids::{
    ClusterId, MachineAccountId, PolicyId, ProjectId, SavedViewId, ServiceId, StackId, UserId,
};
use plural_core::invite::Invite;
use plural_core::job::BackgroundJob;
use plural_core::machine_account::MachineAccount;
use plural_core::managed_namespace::ManagedNamespace;
use plural_core::policy::{Binding, BindingSubject, BoundRole, Policy, Role};
use plural_core::project::Project;
use plural_core::question::{Kind, Need, On, Thing, need};
use plural_core::registration_token::RegistrationToken;
use plural_core::repository::Repository;
use plural_core::role::CustomRole;
use plural_core::saved_view::SavedView;
use plural_core::scm_connection::ScmConnection;
use plural_core::service::Service;
use plural_core::service_context::ServiceContext;
use plural_core::specs::Email;
use plural_core::stack::Stack;
use plural_core::user::User;
use plural_core::{Error, Result};

use crate::access::{Admin, Bindable, Read, Write, authorize_installation};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::global_service::GlobalServiceSelector;
use crate::group::GroupSelector;
use crate::machine_account::MachineAccountSelector;
use crate::managed_namespace::ManagedNamespaceSelector;
use crate::policy::BoundSubject;
use crate::project::ProjectSelector;
use crate::records::{Record, Records};
use crate::repository::RepositorySelector;
use crate::role::RoleSelector;
use crate::scm_connection::ScmConnectionSelector;
use crate::service::ServiceSelector;
use crate::service_context::ServiceContextSelector;
use crate::stack::StackSelector;
use crate::store::Store;
use crate::user::UserSelector;

/// May somebody do this?
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// `get`, `delete`, `rollback`; or an action's own word.
    pub verb: String,
    /// To what.
    pub thing: Thing,
    /// For what has no name, or not yet: in which project or on which cluster.
    pub within: Option<Thing>,
    /// Who; administrators of the installation ask for others.
    pub user: Option<Email>,
}

/// The answer, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessAnswer {
    /// Yes or no.
    pub allowed: bool,
    /// What the verb needs.
    pub action: Action,
    /// Why, for people.
    pub reason: String,
    /// The binding that allows it, if one does.
    pub holder: Option<Holder>,
    /// What would allow it, for people; absent where it is allowed, or where nothing may be told.
    pub needed: Option<String>,
    /// Who could give that, besides administrators of the installation: as far as the asker may read it.
    pub givers: Vec<Holder>,
}

/// Somebody with a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The binding, and who it is for.
    pub bound: BoundSubject,
    /// The name of its role.
    pub role: String,
    /// What it is on; absent where the asker may not read that.
    pub on: Option<BoundPlace>,
}

/// A project, a cluster, a service or a saved view, with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundPlace {
    /// Whose policy.
    pub policy: Policy,
    /// What it is called: `blue/web` of a service.
    pub name: String,
}

/// What decides about something that was asked about.
struct Judged {
    verdict: Verdict,
    scope: Scope,
    /// The policy that bindings for it are on, and are inherited by.
    under: Option<Policy>,
}

/// What can be asked about by name.
trait Asked: Record {
    /// What the text names.
    fn named(text: &str) -> Result<Self::Find>;
    /// The policy that decides, if one does.
    fn under(&self) -> Option<Policy>;
}

macro_rules! asked {
    ($($noun:ident, $text:ident => $named:expr, $self:ident => $under:expr;)+) => {
        $(impl Asked for $noun {
            fn named($text: &str) -> Result<Self::Find> {
                Ok($named)
            }

            fn under(&self) -> Option<Policy> {
                let $self = self;
                $under
            }
        })+
    };
}

asked! {
    Project, t => either(t, ProjectSelector::Id, ProjectSelector::Name), p => Some(p.policy());
    Cluster, t => match t.parse() {
        Ok(id) => ClusterSelector::Id(id),
        Err(_) => ClusterSelector::Handle(name(t)?),
    }, c => Some(c.policy());
    Service, t => match (t.parse(), t.split_once('/')) {
        (Ok(id), _) => ServiceSelector::Id(id),
        (Err(_), Some((cluster, service))) => ServiceSelector::Handle(name(cluster)?, name(service)?),
        (Err(_), None) => return Err(Error::invalid("thing", "must name a service as service/CLUSTER/NAME, or by its id")),
    }, s => Some(s.policy());
    Repository, t => either(t, RepositorySelector::Id, RepositorySelector::Url), r => Some(r.project_id.into());
    GlobalService, t => either(t, GlobalServiceSelector::Id, GlobalServiceSelector::Name), g => g.project_id.map(Policy::from);
    ManagedNamespace, t => either(t, ManagedNamespaceSelector::Id, ManagedNamespaceSelector::Name), n => n.project_id.map(Policy::from);
    ServiceContext, t => either(t, ServiceContextSelector::Id, ServiceContextSelector::Name), c => Some(c.project_id.into());
    ScmConnection, t => either(t, ScmConnectionSelector::Id, ScmConnectionSelector::Name), c => c.project_id.map(Policy::from);
    Stack, t => either(t, StackSelector::Id, StackSelector::Name), s => Some(s.policy());
    SavedView, t => name(t)?, v => Some(v.policy());
    User, t => match t.parse() {
        Ok(id) => UserSelector::Id(id),
        Err(_) => UserSelector::Email(name(t)?),
    }, _u => None;
    MachineAccount, t => match t.parse() {
        Ok(id) => MachineAccountSelector::Id(id),
        Err(_) => MachineAccountSelector::Email(name(t)?),
    }, a => Some(a.policy());
    Group, t => either(t, GroupSelector::Id, GroupSelector::Name), _g => None;
    CustomRole, t => either(t, RoleSelector::Id, RoleSelector::Name), _r => None;
    BackgroundJob, t => name(t)?, _j => None;
    RegistrationToken, t => name(t)?, r => Some(r.project_id.into());
    Invite, t => name(t)?, i => i.to.map(|to| to.project_id.into());
}

fn either<Id: FromStr, S>(text: &str, id: fn(Id) -> S, other: fn(String) -> S) -> S {
    text.parse().map_or_else(|_| other(text.to_owned()), id)
}

fn name<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|fault: T::Err| Error::invalid("thing", fault.to_string()))
}

impl App {
    /// Whether somebody may do something, and why. Whoever is signed in asks for themselves, administrators of the installation
    /// for anybody.
    pub async fn access_check(&self, ctx: &OpCtx, question: &Question) -> Result<AccessAnswer> {
        authorize_installation::<Read>(ctx, Scope::Installation)?;
        let Question { verb, thing, within, user } = question;
        let need = need(verb, thing.kind)?;
        let asked = match user {
            None => ctx.clone(),
            Some(email) => self.as_user(ctx, email).await?,
        };
        let judged = match self.judged(&asked, need, thing, within.as_ref()).await {
            // Administrators may hear that it is not there.
            Err(Error::NotFound { .. }) if user.is_none() => return Ok(hidden(need.action, thing.kind)),
            judged => judged?,
        };
        if judged.verdict.decision == Decision::Allow
            && let Some(also) = need.also
        {
            let besides = Need { action: also, ..need };
            let judged = self.judged(&asked, besides, thing, within.as_ref()).await?;
            if judged.verdict.decision != Decision::Allow {
                return self.answer(ctx, also, thing.kind, judged).await;
            }
        }
        self.answer(ctx, need.action, thing.kind, judged).await
    }

    /// Who may do something: users and groups with the roles that let them, besides administrators of the installation.
    ///
    /// # Errors
    /// [`Error::NotFound`] and [`Error::Forbidden`] for whoever does not administer the thing.
    pub async fn access_holders(&self, ctx: &OpCtx, question: &Question) -> Result<Vec<Holder>> {
        authorize_installation::<Read>(ctx, Scope::Installation)?;
        let Question { verb, thing, within, user: _ } = question;
        let need = need(verb, thing.kind)?;
        let judged = self.judged(ctx, need, thing, within.as_ref()).await?;
        let Some(under) = judged.under else {
            authorize_installation::<Write>(ctx, Scope::AdminOnly)?;
            return Ok(Vec::new());
        };
        // The upgrade of an agent is not administered by those of its project.
        self.policy_for::<Admin>(ctx, under).await?;
        let mut holders = self.holders(ctx, under, need.action, &judged.scope).await?;
        if let Some(also) = need.also {
            let besides = self.holders(ctx, under, also, &judged.scope).await?;
            // Of whoever has one by this binding and the other by that one, both are told.
            let has = |holder: &Holder, among: &[Holder]| {
                among.iter().any(|other| other.bound.binding.subject == holder.bound.binding.subject)
            };
            let both: Vec<Holder> =
                besides.iter().filter(|one| has(one, &holders) && !holders.contains(one)).cloned().collect();
            holders.retain(|one| has(one, &besides));
            holders.extend(both);
        }
        Ok(holders)
    }

    /// The context of another user, for whoever administers the installation.
    async fn as_user(&self, ctx: &OpCtx, email: &Email) -> Result<OpCtx> {
        authorize_installation::<Write>(ctx, Scope::AdminOnly)?;
        let user = self.authorized::<User, Read>(ctx, &UserSelector::Email(email.clone())).await?;
        let actor = self.store.user_actor(&user).await?;
        Ok(self.ctx(Actor::User(actor)).with_request_id(ctx.request_id()))
    }

    async fn judged(&self, ctx: &OpCtx, need: Need, thing: &Thing, within: Option<&Thing>) -> Result<Judged> {
        let Need { action, on, also: _ } = need;
        if matches!(thing.kind, Kind::DataKey | Kind::SyncWindow) && thing.name.is_some() {
            let kind = thing.kind.as_str();
            let told = format!("a {kind} is asked about without a name: say in `within` what it is of");
            return Err(Error::invalid("thing", told));
        }
        let fixed = |scope| Ok(Judged { verdict: judge(ctx.actor(), action, &scope), scope, under: None });
        match (on, &thing.name, within) {
            (On::Installation | On::AdminOnly, ..) => fixed(on.scope().unwrap_or(Scope::AdminOnly)),
            (On::Thing | On::Either, Some(name), _) => self.judged_named(ctx, action, thing.kind, name).await,
            // The default project is where it would be made.
            (On::In(Kind::Project), _, None) => {
                self.judged_as::<Project>(ctx, action, &ProjectSelector::Default).await
            }
            (On::Home, _, None) => fixed(Scope::Chain(Vec::new())),
            (On::Either, _, None) => fixed(Scope::AdminOnly),
            (On::In(kind), _, Some(Thing { kind: given, name: Some(name) })) if *given == kind => {
                self.judged_named(ctx, action, kind, name).await
            }
            (On::Home | On::Either, _, Some(Thing { kind: Kind::Project, name: Some(name) })) => {
                self.judged_named(ctx, action, Kind::Project, name).await
            }
            (
                On::Owner,
                _,
                Some(Thing {
                    kind: kind @ (Kind::Project | Kind::Cluster | Kind::Service),
                    name: Some(name),
                }),
            ) => self.judged_named(ctx, action, *kind, name).await,
            // Whatever of the kind there is in it.
            (
                On::Thing,
                None,
                Some(Thing { kind: kind @ (Kind::Project | Kind::Cluster), name: Some(name) }),
            ) if inherits(thing.kind, *kind) => self.judged_named(ctx, action, *kind, name).await,
            (On::Thing, None, None) if thing.kind == Kind::Job => fixed(Scope::AdminOnly),
            // A list shows what of it may be read.
            (On::Owner, _, None) | (On::Thing, None, None) if action == Action::Read => {
                fixed(Scope::Installation)
            }
            (On::Thing, None, None) if matches!(thing.kind, Kind::User | Kind::Group | Kind::Role) => {
                fixed(Scope::Installation)
            }
            (On::In(kind), _, _) => {
                Err(Error::invalid("within", format!("must name the {} that it is made in", kind.as_str())))
            }
            (On::Either, _, Some(_)) => {
                Err(Error::invalid("within", "must name the project that it is of: project/NAME"))
            }
            (On::Owner, _, _) => Err(Error::invalid(
                "within",
                "must name what it is of: project/NAME, cluster/NAME or service/CLUSTER/NAME",
            )),
            (On::Home | On::Thing, _, Some(_)) => Err(Error::invalid(
                "within",
                "must name what the thing belongs to: a project, or its cluster",
            )),
            (On::Thing, None, None) => {
                let kind = thing.kind.as_str();
                Err(Error::invalid("thing", format!("must name one, as in {kind}/NAME, or what it is in")))
            }
        }
    }

    async fn judged_named(&self, ctx: &OpCtx, action: Action, kind: Kind, name: &str) -> Result<Judged> {
        macro_rules! judged {
            ($noun:ty) => {
                self.judged_as::<$noun>(ctx, action, &<$noun as Asked>::named(name)?).await
            };
        }
        match kind {
            Kind::Project => judged!(Project),
            Kind::Cluster => judged!(Cluster),
            Kind::Service => judged!(Service),
            Kind::Repository => judged!(Repository),
            Kind::GlobalService => judged!(GlobalService),
            Kind::ManagedNamespace => judged!(ManagedNamespace),
            Kind::Context => judged!(ServiceContext),
            Kind::Stack => judged!(Stack),
            Kind::ScmConnection => judged!(ScmConnection),
            Kind::SavedView => judged!(SavedView),
            Kind::User => judged!(User),
            Kind::ServiceAccount => judged!(MachineAccount),
            Kind::Group => judged!(Group),
            Kind::Role => judged!(CustomRole),
            Kind::Job => judged!(BackgroundJob),
            Kind::RegistrationToken => judged!(RegistrationToken),
            Kind::Invitation => judged!(Invite),
            Kind::HelmRepository
            | Kind::IdentityProvider
            | Kind::AuditLog
            | Kind::Persona
            | Kind::DataKey
            | Kind::SyncWindow => {
                Err(Error::invalid("thing", format!("a {} is asked about without a name", kind.as_str())))
            }
        }
    }

    async fn judged_as<N: Asked>(&self, ctx: &OpCtx, action: Action, by: &N::Find) -> Result<Judged>
    where
        dyn Store: Records<N>,
    {
        let found = Records::<N>::find(&*self.store, ctx.actor(), by).await?;
        let (verdict, scope, under) = found.judge(ctx.actor(), action, N::under);
        Ok(Judged { verdict, scope, under })
    }

    /// A decision in words. `ctx` is whoever reads them, who need not be whom it was made about.
    async fn answer(&self, ctx: &OpCtx, action: Action, kind: Kind, judged: Judged) -> Result<AccessAnswer> {
        let Judged { verdict: Verdict { decision, because }, scope, under } = judged;
        let mut answer = AccessAnswer {
            allowed: decision == Decision::Allow,
            action,
            reason: String::new(),
            holder: None,
            needed: None,
            givers: Vec::new(),
        };
        let administrator = || Some("being an administrator of the installation".to_owned());
        answer.reason = match because {
            Because::Nobody => "there is no credential".to_owned(),
            Because::Console => "it is the console itself".to_owned(),
            Because::DeployToken => {
                "an agent's token reaches its own cluster's desired state and nothing else".to_owned()
            }
            Because::RegistrationToken => {
                "a registration token makes clusters of its project and does nothing else".to_owned()
            }
            Because::RunCredential => {
                "the credential of a run reaches the state of its own stack and nothing else".to_owned()
            }
            Because::NarrowToken(scopes) => format!("the token is limited to {scopes}"),
            Because::Administrator => "administrators of the installation may do everything".to_owned(),
            Because::Own => "it is the user's own".to_owned(),
            Because::SignedIn => "every user may".to_owned(),
            Because::Bound(binding) => {
                answer.holder = self.named_holders(ctx, vec![binding]).await?.pop();
                format!("a binding gives a role with {}", action.as_str())
            }
            Because::NotOwn => return Ok(hidden(action, kind)),
            Because::Unbound if decision == Decision::Hide && !is_administrator(ctx) => {
                return Ok(hidden(action, kind));
            }
            Because::Unbound => {
                if let Some(under) = under {
                    answer.needed = Some(self.roles_with(ctx, action).await?);
                    let givers = self.holders(ctx, under, Action::Admin, &scope).await?;
                    // Who administers what the asker may not read is not theirs to know.
                    answer.givers = givers.into_iter().filter(|giver| giver.on.is_some()).collect();
                } else {
                    answer.needed = administrator();
                }
                format!("no binding gives a role with {}", action.as_str())
            }
            Because::AgentUpgrade => {
                answer.needed = administrator();
                "the service is the upgrade of its cluster's agent, which belongs to administrators of the \
                 installation"
                    .to_owned()
            }
            Because::OnlyAdministrators => {
                answer.needed = administrator();
                "only administrators of the installation may".to_owned()
            }
        };
        Ok(answer)
    }

    /// Which roles give an action.
    async fn roles_with(&self, ctx: &OpCtx, action: Action) -> Result<String> {
        let built_in = Role::ALL.into_iter().filter(|role| role.rights().allow(action)).map(Role::as_str);
        let mut names: Vec<String> = built_in.map(str::to_owned).collect();
        let custom = self
            .list::<CustomRole>(ctx, &crate::records::Search::default(), &plural_core::PageArgs::first(100))
            .await?;
        let custom = custom.into_nodes().into_iter().filter(|role| role.rights.allow(action));
        names.extend(custom.map(|role| role.name.to_string()));
        Ok(format!("a binding for a role with {}: {}", action.as_str(), names.join(", ")))
    }

    /// Those whom the bindings of a policy, and of what it inherits from, let do something; a store's `scope` says how they
    /// count. Each is decided as if they asked.
    async fn holders(
        &self,
        ctx: &OpCtx,
        under: Policy,
        action: Action,
        scope: &Scope,
    ) -> Result<Vec<Holder>> {
        let policy = match self.policy_for::<Read>(ctx, under).await {
            Ok(policy) => policy,
            // A thing may be readable where what it belongs to is not.
            Err(Error::NotFound { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let bindings = self.store.bindings_above(&policy).await?;
        let mut allowed = Vec::new();
        for binding in &bindings {
            let (id, groups) = match binding.subject {
                BindingSubject::User(id) => (id, std::collections::HashSet::new()),
                BindingSubject::Group(id) => (UserId::new(), [id].into()),
            };
            let actor = UserActor { id, email: String::new(), admin: false, groups, token: None };
            let alone = match scope {
                Scope::AgentUpgrade(_) => Scope::AgentUpgrade(vec![*binding]),
                Scope::Chain(_)
                | Scope::Stack(..)
                | Scope::Account(_)
                | Scope::Own(_)
                | Scope::Installation
                | Scope::AdminOnly => Scope::Chain(vec![*binding]),
            };
            if judge(&Actor::User(actor), action, &alone).decision == Decision::Allow {
                allowed.push(*binding);
            }
        }
        self.named_holders(ctx, allowed).await
    }

    /// Bindings with the names of all that they are about, as far as the asker may read it.
    async fn named_holders(&self, ctx: &OpCtx, bindings: Vec<Binding>) -> Result<Vec<Holder>> {
        let custom: Vec<_> = bindings
            .iter()
            .filter_map(|binding| match binding.role {
                BoundRole::Custom(id, _) => Some(id),
                BoundRole::BuiltIn(_) => None,
            })
            .collect();
        let custom = self.get_many::<CustomRole>(ctx, &custom).await?;
        let mut on: Vec<PolicyId> = bindings.iter().map(|binding| binding.policy).collect();
        on.sort_unstable();
        on.dedup();
        let on = self.bound_places(ctx, &on).await?;
        let bound = self.bound_subjects(ctx, bindings).await?;
        Ok(bound
            .into_iter()
            .map(|bound| {
                let role = match bound.binding.role {
                    BoundRole::BuiltIn(role) => role.as_str().to_owned(),
                    BoundRole::Custom(id, _) => {
                        custom.get(&id).map_or_else(|| id.to_string(), |role| role.name.to_string())
                    }
                };
                let on = on.iter().find(|place| place.policy.id() == bound.binding.policy).cloned();
                Holder { bound, role, on }
            })
            .collect())
    }

    /// What these policies are of; what the asker may not read is left out.
    async fn bound_places(&self, ctx: &OpCtx, ids: &[PolicyId]) -> Result<Vec<BoundPlace>> {
        fn of<Id>(ids: &[PolicyId], id: fn(uuid::Uuid) -> Id) -> Vec<Id> {
            ids.iter().map(|policy| id(policy.uuid())).collect()
        }
        let mut places = Vec::new();
        let projects = self.get_many::<Project>(ctx, &of(ids, ProjectId::from_uuid)).await?;
        places.extend(
            projects.into_values().map(|p| BoundPlace { policy: p.policy(), name: p.name.to_string() }),
        );
        let clusters = self.get_many::<Cluster>(ctx, &of(ids, ClusterId::from_uuid)).await?;
        places.extend(
            clusters.into_values().map(|c| BoundPlace { policy: c.policy(), name: c.handle.to_string() }),
        );
        let services = self.get_many::<Service>(ctx, &of(ids, ServiceId::from_uuid)).await?;
        let of_services: Vec<ClusterId> = services.values().map(|service| service.cluster_id).collect();
        let clusters = self.get_many::<Cluster>(ctx, &of_services).await?;
        places.extend(services.into_values().map(|service| {
            let name = clusters.get(&service.cluster_id).map_or_else(
                || service.name.to_string(),
                |cluster| format!("{}/{}", cluster.handle, service.name),
            );
            BoundPlace { policy: service.policy(), name }
        }));
        let views = self.get_many::<SavedView>(ctx, &of(ids, SavedViewId::from_uuid)).await?;
        places
            .extend(views.into_values().map(|v| BoundPlace { policy: v.policy(), name: v.name.to_string() }));
        let accounts = self.get_many::<MachineAccount>(ctx, &of(ids, MachineAccountId::from_uuid)).await?;
        places.extend(
            accounts.into_values().map(|a| BoundPlace { policy: a.policy(), name: a.email.to_string() }),
        );
        let stacks = self.get_many::<Stack>(ctx, &of(ids, StackId::from_uuid)).await?;
        places.extend(
            stacks.into_values().map(|s| BoundPlace { policy: s.policy(), name: s.name.to_string() }),
        );
        Ok(places)
    }
}

/// Whether what decides about all things of a kind in this project, or on this cluster, is what is bound there.
fn inherits(kind: Kind, within: Kind) -> bool {
    let in_project = matches!(
        kind,
        Kind::Service
            | Kind::Cluster
            | Kind::Repository
            | Kind::GlobalService
            | Kind::ManagedNamespace
            | Kind::Context
            | Kind::Stack
            | Kind::ScmConnection
            | Kind::ServiceAccount
            | Kind::RegistrationToken
    );
    (within == Kind::Project && in_project) || (within == Kind::Cluster && kind == Kind::Service)
}

fn is_administrator(ctx: &OpCtx) -> bool {
    authorize_installation::<Read>(ctx, Scope::AdminOnly).is_ok()
}

/// The same words whether it is not there, or not for the asker's eyes.
fn hidden(action: Action, kind: Kind) -> AccessAnswer {
    AccessAnswer {
        allowed: false,
        action,
        reason: format!("there is no such {}, or you have no access to it", kind.as_str()),
        holder: None,
        needed: None,
        givers: Vec::new(),
    }
}
