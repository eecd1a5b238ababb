//! One thing of the console as a document sees it, whatever its kind: read, made, changed, removed.

use serde_json::Value;

use super::{
    cluster,
    console::Console,
    git_repository, global_service, helm_repository,
    kind::Kind,
    managed_namespace, project, rendering, service, service_context, stack, stack_definition,
    state::{Hidden, State, normal},
    sync_window,
};
use crate::error::CliError;

/// A thing that is there.
pub(super) struct Live {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) state: State,
    /// Its hidden values, as far as the console tells them and they were asked for.
    pub(super) hidden: Option<Hidden>,
    /// What is hidden, in words, for people.
    pub(super) notes: Vec<String>,
    /// When it was last changed, where the console decides whether hidden values are other ones.
    pub(super) updated_at: Option<String>,
    /// It is on its way out.
    pub(super) leaving: bool,
}

impl Live {
    /// A thing without hidden values.
    pub(super) fn new(kind: Kind, key: &str, answer: &Value, state: &State) -> Self {
        let text = |name| super::console::text(answer, name);
        Self {
            id: text("id").unwrap_or_default(),
            key: key.to_owned(),
            state: normal(kind.info().fields, state),
            hidden: None,
            notes: Vec::new(),
            updated_at: text("updatedAt"),
            leaving: text("deletedAt").is_some(),
        }
    }
}

/// What a document asks for.
#[derive(Clone)]
pub(super) struct Desired {
    /// What names it in the console.
    pub(super) key: String,
    pub(super) said: State,
    pub(super) hidden: Hidden,
}

/// Whether hidden values are as a document wants them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Values {
    Same,
    Other,
    /// The console does not tell.
    Unknown,
}

/// Compares hidden values.
pub(super) fn values(kind: Kind, live: &Live, desired: &Desired) -> Values {
    if desired.hidden.0.is_empty() {
        return Values::Same;
    }
    match kind {
        Kind::GitRepository => git_repository::values(live, desired),
        Kind::ServiceContext => service_context::values(live, desired),
        _ => match &live.hidden {
            None => Values::Unknown,
            Some(known) => {
                let is_so = |(path, value): (&String, &Value)| match known.get(path) {
                    None => value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty),
                    Some(known) => rendering::same_values(known, value),
                };
                if desired.hidden.0.iter().all(is_so) { Values::Same } else { Values::Other }
            }
        },
    }
}

/// What a key names, if it is there for the caller.
pub(super) async fn read(kind: Kind, key: &str, console: &mut Console<'_>) -> Result<Option<Live>, CliError> {
    let found = match kind {
        Kind::Project => project::read(key, console).await,
        Kind::Cluster => cluster::read(key, console).await,
        Kind::GitRepository => git_repository::read(key, console).await,
        Kind::HelmRepository => helm_repository::read(key, console).await,
        Kind::StackDefinition => stack_definition::read(key, console).await,
        Kind::InfrastructureStack => stack::read(key, console).await,
        Kind::ServiceContext => service_context::read(key, console).await,
        Kind::ServiceDeployment => service::read(key, console).await,
        Kind::GlobalService => global_service::read(key, console).await,
        Kind::ManagedNamespace => managed_namespace::read(key, console).await,
        Kind::SyncWindow => sync_window::read(key, console).await,
    }?;
    if let Some(live) = &found {
        console.learn(kind, key, &live.id);
    }
    Ok(found)
}

/// Asks for the hidden values, where the console tells them to those who may change the thing. It writes down that they were
/// read.
pub(super) async fn unhide(kind: Kind, live: &mut Live, console: &Console<'_>) -> Result<(), CliError> {
    if kind == Kind::ServiceDeployment && live.hidden.is_none() {
        live.hidden = Some(service::hidden(&live.id, console).await?);
    }
    Ok(())
}

/// Makes it; answers its id.
pub(super) async fn make(
    kind: Kind,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<String, CliError> {
    let state = normal(kind.info().fields, &desired.said);
    let made = match kind {
        Kind::Project => project::make(&state, desired, console).await,
        Kind::Cluster => cluster::make(&state, desired, console).await,
        Kind::GitRepository => git_repository::make(&state, desired, console).await,
        Kind::HelmRepository => helm_repository::save(&state, desired, console).await,
        Kind::StackDefinition => stack_definition::make(&state, desired, console).await,
        Kind::InfrastructureStack => stack::make(&state, desired, console).await,
        Kind::ServiceContext => service_context::make(&state, desired, console).await,
        Kind::ServiceDeployment => service::make(&state, desired, console).await,
        Kind::GlobalService => global_service::make(&state, desired, console).await,
        Kind::ManagedNamespace => managed_namespace::make(&state, desired, console).await,
        Kind::SyncWindow => sync_window::make(&state, desired, console).await,
    }?;
    let id = super::console::text(&made, "id").unwrap_or_default();
    console.learn(kind, &desired.key, &id);
    Ok(id)
}

/// Makes `live` to be `merged`. Answers whether that changed it, as far as the console says.
pub(super) async fn change(
    kind: Kind,
    live: &mut Live,
    merged: &State,
    desired: &Desired,
    console: &mut Console<'_>,
) -> Result<bool, CliError> {
    let is_other = live.state != *merged;
    if !is_other && live.updated_at.is_some() {
        // Work of the console's own may have touched it since it was looked at.
        live.updated_at = read(kind, &live.key, console).await?.and_then(|now| now.updated_at);
    }
    let answer = match kind {
        Kind::Project => project::change(live, merged, desired, console).await,
        Kind::Cluster => cluster::change(live, merged, desired, console).await,
        Kind::GitRepository => git_repository::change(live, desired, console).await,
        Kind::HelmRepository => helm_repository::save(merged, desired, console).await,
        Kind::StackDefinition => stack_definition::change(live, merged, console).await,
        Kind::InfrastructureStack => stack::change(live, merged, desired, console).await,
        Kind::ServiceContext => service_context::change(live, merged, desired, console).await,
        Kind::ServiceDeployment => service::change(live, merged, desired, console).await,
        Kind::GlobalService => global_service::change(live, merged, desired, console).await,
        Kind::ManagedNamespace => managed_namespace::change(live, merged, desired, console).await,
        Kind::SyncWindow => sync_window::change(live, merged, console).await,
    }?;
    // A console that found everything so already has written nothing.
    let written = super::console::text(&answer, "updatedAt");
    Ok(is_other || written.is_none() || written != live.updated_at)
}

/// Removes it. `detach` leaves the objects of a service, and what a stack made.
pub(super) async fn remove(
    kind: Kind,
    live: &Live,
    detach: bool,
    console: &mut Console<'_>,
) -> Result<(), CliError> {
    match kind {
        Kind::Project => project::remove(live, console).await,
        Kind::Cluster => cluster::remove(live, console).await,
        Kind::GitRepository => git_repository::remove(live, console).await,
        Kind::HelmRepository => helm_repository::remove(live, console).await,
        Kind::StackDefinition => stack_definition::remove(live, console).await,
        Kind::InfrastructureStack => stack::remove(live, detach, console).await,
        Kind::ServiceContext => service_context::remove(live, console).await,
        Kind::ServiceDeployment => service::remove(live, detach, console).await,
        Kind::GlobalService => global_service::remove(live, console).await,
        Kind::ManagedNamespace => managed_namespace::remove(live, console).await,
        Kind::SyncWindow => sync_window::remove(live, console).await,
    }
    .map(drop)
}

/// Fields that can get another value, but not none: with dots, those of fields.
pub(super) fn lasting(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Cluster => &["version", "distro"],
        Kind::HelmRepository => &["provider"],
        Kind::ServiceDeployment => &["interval", "repositoryRef"],
        Kind::GlobalService => &["template"],
        Kind::InfrastructureStack => &[
            "repositoryRef",
            "cluster",
            "git",
            "configuration.terraform.parallelism",
            "configuration.terragrunt.parallelism",
            "configuration.pulumi.parallel",
        ],
        Kind::Project
        | Kind::GitRepository
        | Kind::StackDefinition
        | Kind::ServiceContext
        | Kind::ManagedNamespace
        | Kind::SyncWindow => &[],
    }
}

/// Fields that a change cannot reach.
pub(super) fn fixed(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Project | Kind::HelmRepository | Kind::StackDefinition | Kind::SyncWindow => &[],
        Kind::InfrastructureStack => &["projectRef", "type"],
        Kind::Cluster | Kind::GitRepository | Kind::ServiceContext => &["projectRef"],
        Kind::ServiceDeployment => &["docsPath"],
        Kind::GlobalService => &["projectRef", "serviceRef"],
        Kind::ManagedNamespace => &["projectRef", "namespace"],
    }
}
