//! Questions about access, as people ask them: may I `rollback` `service/blue/web`? Which action that needs, and on what.

use std::str::FromStr;

use crate::access::{Action, Scope};
use crate::error::{Error, Result};

/// Says which kinds of things can be asked about: the word of each, and another that people know it by.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $word:literal, $many:literal $(, $other:literal)*;)+) => {
        /// What can be asked about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)+
        }

        impl Kind {
            /// All of them.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$kind),+];

            /// One of them, in words.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)+
                }
            }
        }

        impl FromStr for Kind {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                match text {
                    $($word | $many $(| $other)* => Ok(Self::$kind),)+
                    _ => Err(Error::invalid("thing", format!(
                        "{text:?} is no kind of thing; there are {}", Self::ALL.map(Self::as_str).join(", ")
                    ))),
                }
            }
        }
    };
}

kinds! {
    /// A project and everything in it.
    Project = "project", "projects";
    /// A cluster and its services.
    Cluster = "cluster", "clusters";
    /// A service.
    Service = "service", "services";
    /// A git repository.
    Repository = "repository", "repositories", "git-repository", "repo";
    /// A service on many clusters.
    GlobalService = "global-service", "global-services";
    /// A namespace on many clusters.
    ManagedNamespace = "managed-namespace", "managed-namespaces";
    /// Values for templates.
    Context = "context", "contexts", "service-context";
    /// An infrastructure stack.
    Stack = "stack", "stacks", "infrastructure-stack";
    /// A connection to a git host.
    ScmConnection = "scm-connection", "scm-connections", "connection", "connections";
    /// A saved view of the web console.
    SavedView = "saved-view", "saved-views";
    /// A user.
    User = "user", "users";
    /// A user that is a machine.
    ServiceAccount = "service-account", "service-accounts";
    /// A group of users.
    Group = "group", "groups";
    /// A custom role.
    Role = "role", "roles";
    /// A background job.
    Job = "job", "jobs";
    /// A repository of charts.
    HelmRepository = "helm-repository", "helm-repositories";
    /// An identity provider.
    IdentityProvider = "provider", "providers", "identity-provider";
    /// The installation's audit log.
    AuditLog = "audit-log", "audit";
    /// A persona: what the web console shows to whom.
    Persona = "persona", "personas";
    /// A token that makes clusters of one project.
    RegistrationToken = "registration-token", "registration-tokens";
    /// An invitation to make an account, or to a project.
    Invitation = "invitation", "invitations", "invite", "invites";
    /// A key that secrets are sealed with: of a project, or of what belongs to none.
    DataKey = "data-key", "data-keys";
    /// A time in which commits go on, or do not: of a project, a cluster or a service.
    SyncWindow = "sync-window", "sync-windows";
}

/// On what an action is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// On the thing itself.
    Thing,
    /// On a thing of this kind, in which a new one is made.
    In(Kind),
    /// On a project, or else, for what belongs to the whole installation, on that.
    Home,
    /// On a project, or else on what only administrators of the installation may even read.
    Either,
    /// On the project, the cluster or the service that it is of.
    Owner,
    /// On the installation.
    Installation,
    /// On what only administrators of the installation may even read.
    AdminOnly,
}

impl On {
    /// What decides, where that is known without a thing.
    pub const fn scope(self) -> Option<Scope> {
        match self {
            Self::Installation => Some(Scope::Installation),
            Self::AdminOnly => Some(Scope::AdminOnly),
            Self::Thing | Self::In(_) | Self::Home | Self::Either | Self::Owner => None,
        }
    }
}

/// What a verb needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Which action.
    pub action: Action,
    /// On what.
    pub on: On,
    /// What is needed on it besides: nobody gives what they do not have.
    pub also: Option<Action>,
}

/// Words for looking at something.
const LOOK: &[&str] = &["get", "list", "describe", "watch"];

/// Verbs that are not words of actions: for which kinds, and what they need. The first row that fits counts.
#[rustfmt::skip]
const VERBS: &[(&[Kind], &[&str], Action, On)] = {
    use Action::{Admin, Approve, ExecStack, Prune, Read, Write};
    use Kind::{
        AuditLog, Cluster, Context, DataKey, GlobalService, Group, HelmRepository, IdentityProvider, Invitation, Job,
        ManagedNamespace, Persona, Project, RegistrationToken, Repository, Role, SavedView, ScmConnection, Service, ServiceAccount, Stack,
        SyncWindow, User,
    };
    &[
        (&[Job, AuditLog, IdentityProvider, Persona], LOOK,                                  Read,    On::AdminOnly),
        (&[AuditLog],                      &["verify", "export"],                             Read,    On::AdminOnly),
        (&[IdentityProvider, Persona],     &["create", "update", "delete"],                  Write,   On::AdminOnly),
        (&[Invitation],                    &["get", "list", "describe", "watch", "create", "revoke", "delete"], Admin, On::Either),
        (&[DataKey],                       &["get", "list", "describe", "watch", "rotate"],  Admin,   On::Either),
        (&[SyncWindow],                    LOOK,                                             Read,    On::Owner),
        (&[SyncWindow],                    &["create", "update", "edit", "delete"],          Write,   On::Owner),
        (&[RegistrationToken],             &["create"],                                      Write,   On::In(Project)),
        (&[RegistrationToken],             &["revoke"],                                      Write,   On::Thing),
        (&[User],                          &["suspend", "resume"],                           Admin,   On::Thing),
        (&[Job],                           &["retry", "delete"],                             Write,   On::AdminOnly),
        (&[HelmRepository],                LOOK,                                             Read,    On::Installation),
        (&[HelmRepository],                &["create", "update", "delete"],                  Write,   On::Installation),
        (&[SavedView],                     &["create"],                                      Read,    On::Installation),
        (&[SavedView],                     &["delete"],                                      Admin,   On::Thing),
        (&[Project, User, Group, Role],    &["create"],                                      Write,   On::Installation),
        (&[Cluster, Repository, Context, Stack], &["create"],                                Write,   On::In(Project)),
        (&[Stack],                         &["delete", "detach", "restore"],                 Admin,   On::Thing),
        (&[Stack],                         &["plan", "trigger", "cancel", "restart"],        Write,   On::Thing),
        (&[Stack],                         &["reject"],                                      Approve, On::Thing),
        (&[Stack],                         &["exec"],                                        ExecStack, On::Thing),
        (&[GlobalService, ManagedNamespace, ScmConnection], &["create"],                     Write,   On::Home),
        (&[Service],                       &["create"],                                      Write,   On::In(Cluster)),
        (&[ServiceAccount],                &["create"],                                      Admin,   On::In(Project)),
        (&[ServiceAccount],                &["update", "delete", "bind", "end-tokens", "federate"],      Admin,   On::Thing),
        (&[Project],                       &["limit", "record", "list-secrets", "rotate-keys"], Admin,   On::Thing),
        (&[Cluster],                       &["detach", "rotate-token", "audit"],             Admin,   On::Thing),
        (&[Project, Cluster, User],        &["delete"],                                      Admin,   On::Thing),
        (&[Project, Cluster, Service, Stack], &["bind", "grant", "revoke"],                     Admin,   On::Thing),
        (&[Service],                       &["sync", "refresh", "pause", "resume", "release", "detach", "clone",
                                             "read-secrets", "schedule"],                    Write,   On::Thing),
        (&[Service],                       &["promote"],                                     Approve, On::Thing),
        (&[Service],                       &["approve-prune"],                               Prune,   On::Thing),
        (&[Service],                       &["plan", "preview"],                             Read,    On::Thing),
        (&[GlobalService],                 &["sync", "steer"],                               Write,   On::Thing),
        (&[Repository],                    &["refresh"],                                     Write,   On::Thing),
        (&Kind::ALL,                       &["update", "edit", "delete"],                    Write,   On::Thing),
        (&Kind::ALL,                       LOOK,                                             Read,    On::Thing),
    ]
};

/// What a verb needs on things of a kind. Words of actions are verbs, too.
///
/// # Errors
/// [`Error::Invalid`] for a verb that the kind does not know; it names those that it knows.
pub fn need(verb: &str, kind: Kind) -> Result<Need> {
    let rows = || VERBS.iter().filter(|(kinds, ..)| kinds.contains(&kind));
    if let Some((_, _, action, on)) = rows().find(|(_, verbs, ..)| verbs.contains(&verb)) {
        return Ok(Need { action: *action, on: *on, also: also(verb, kind) });
    }
    // What has no name of its own is one for everybody.
    if let Some(action) = Action::parse(verb) {
        return Ok(Need { action, on: whole(kind), also: None });
    }
    let mut known: Vec<&str> = rows().flat_map(|(_, verbs, ..)| verbs.iter().copied()).collect();
    known.extend(Action::ALL.map(Action::as_str));
    known.dedup();
    let told =
        format!("{verb:?} is nothing that is done to a {}; there are {}", kind.as_str(), known.join(", "));
    Err(Error::invalid("verb", told))
}

/// What a verb needs besides its action: whoever lets another token stand for an account must be able to be that account.
fn also(verb: &str, kind: Kind) -> Option<Action> {
    (kind == Kind::ServiceAccount && verb == "federate").then_some(Action::Assume)
}

/// What decides about all things of a kind together, where each has nothing of its own that does.
const fn whole(kind: Kind) -> On {
    match kind {
        Kind::Job | Kind::AuditLog | Kind::IdentityProvider | Kind::Persona => On::AdminOnly,
        Kind::HelmRepository => On::Installation,
        Kind::DataKey | Kind::Invitation => On::Either,
        Kind::SyncWindow => On::Owner,
        Kind::Project
        | Kind::Cluster
        | Kind::Service
        | Kind::Repository
        | Kind::GlobalService
        | Kind::ManagedNamespace
        | Kind::Context
        | Kind::Stack
        | Kind::ScmConnection
        | Kind::SavedView
        | Kind::User
        | Kind::ServiceAccount
        | Kind::Group
        | Kind::Role
        | Kind::RegistrationToken => On::Thing,
    }
}

/// A kind with the name of one thing of it, if one is meant: `cluster`, `cluster/blue`, `service/blue/web`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thing {
    /// What it is.
    pub kind: Kind,
    /// Which.
    pub name: Option<String>,
}

impl FromStr for Thing {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (kind, name) = match text.split_once('/') {
            Some((kind, name)) => (kind, Some(name)),
            None => (text, None),
        };
        let kind = kind.parse()?;
        match name {
            Some("") => Err(Error::invalid("thing", "must have a name after the /")),
            name => Ok(Self { kind, name: name.map(str::to_owned) }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_need_actions() {
        let needs = |verb, kind| need(verb, kind).map(|need| (need.action, need.on)).unwrap();
        for (verb, kind, expected) in [
            ("get", Kind::Service, (Action::Read, On::Thing)),
            ("delete", Kind::Service, (Action::Write, On::Thing)),
            ("delete", Kind::Cluster, (Action::Admin, On::Thing)),
            ("create", Kind::Cluster, (Action::Write, On::In(Kind::Project))),
            ("create", Kind::Service, (Action::Write, On::In(Kind::Cluster))),
            ("create", Kind::Role, (Action::Write, On::Installation)),
            ("rollback", Kind::Service, (Action::Rollback, On::Thing)),
            ("approve-prune", Kind::Service, (Action::Prune, On::Thing)),
            ("promote", Kind::Service, (Action::Approve, On::Thing)),
            ("trigger", Kind::Stack, (Action::Write, On::Thing)),
            ("approve", Kind::Stack, (Action::Approve, On::Thing)),
            ("reject", Kind::Stack, (Action::Approve, On::Thing)),
            // Of a stack it is no shell.
            ("exec", Kind::Stack, (Action::ExecStack, On::Thing)),
            ("stack-exec", Kind::Stack, (Action::ExecStack, On::Thing)),
            ("exec", Kind::Cluster, (Action::Exec, On::Thing)),
            ("impersonate-group", Kind::Cluster, (Action::ImpersonateGroup, On::Thing)),
            ("list", Kind::AuditLog, (Action::Read, On::AdminOnly)),
            ("update", Kind::Persona, (Action::Write, On::AdminOnly)),
            ("create", Kind::Invitation, (Action::Admin, On::Either)),
            ("create", Kind::RegistrationToken, (Action::Write, On::In(Kind::Project))),
            ("rotate", Kind::DataKey, (Action::Admin, On::Either)),
            ("admin", Kind::DataKey, (Action::Admin, On::Either)),
            ("delete", Kind::SyncWindow, (Action::Write, On::Owner)),
        ] {
            assert_eq!(needs(verb, kind), expected, "{verb} {kind:?}");
        }
        let federate = need("federate", Kind::ServiceAccount).unwrap();
        assert_eq!((federate.action, federate.also), (Action::Admin, Some(Action::Assume)));
        let refused = need("fly", Kind::Cluster).unwrap_err().to_string();
        assert!(refused.contains("rotate-token") && refused.contains("impersonate-group"), "{refused}");
    }

    #[test]
    fn things_are_named_by_kind_and_name() {
        let thing = |text: &str| text.parse::<Thing>().unwrap();
        assert_eq!(thing("clusters"), Thing { kind: Kind::Cluster, name: None });
        assert_eq!(thing("service/blue/web"), Thing { kind: Kind::Service, name: Some("blue/web".into()) });
        let url = thing("repository/https://example.com/a.git");
        assert_eq!(url.name.as_deref(), Some("https://example.com/a.git"));
        for text in ["", "cluster/", "/blue", "pods/web", "Cluster/blue"] {
            assert!(text.parse::<Thing>().is_err(), "{text:?}");
        }
        for kind in Kind::ALL {
            assert_eq!(kind.as_str().parse::<Kind>().unwrap(), kind);
        }
    }
}
