//! Waiting until what was applied is done, or what was deleted is gone.

use std::time::Duration;

use plural_wire::{Client, GetGitRepository, GetGlobalService, GetManagedNamespace, GitHealth};

use super::{console::Console, kind::Kind, thing};
use crate::{
    error::CliError,
    global_services,
    key::{ClusterKey, ServiceKey},
    managed_namespaces,
    output::or_dash,
    services,
    terminal::Terminal,
    wait::{self, Observed},
};

/// Waits until it is as its document says, everywhere: fetched, healthy, spread. Other kinds are so at once.
pub(super) async fn until_ready(
    kind: Kind,
    key: &str,
    timeout: Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match kind {
        Kind::GitRepository => {
            let ask = GetGitRepository { id: None, url: Some(key.to_owned()) };
            wait::until(&format!("a fetch of {key}"), timeout, terminal, async || {
                let repository = client.send(&ask).await?;
                Ok(match repository.health {
                    Some(GitHealth::Pullable) => Observed::Done(()),
                    Some(GitHealth::Failed) => Observed::Never(CliError::new(format!(
                        "{key} cannot be fetched: {}",
                        or_dash(repository.error.as_deref())
                    ))),
                    Some(GitHealth::Unknown) | None => Observed::NotYet("not fetched yet".into()),
                })
            })
            .await
        }
        Kind::ServiceDeployment => {
            let (cluster, name) = key.split_once('/').unwrap_or_default();
            let named = ServiceKey::Named { cluster: ClusterKey::Handle(cluster.into()), name: name.into() };
            let found = named.get(client).await?;
            services::until_healthy(&found.service, timeout, client, terminal).await.map(drop)
        }
        Kind::GlobalService => {
            let found = client.send(&GetGlobalService { id: None, name: Some(key.to_owned()) }).await?;
            global_services::until_everywhere(found, timeout, client, terminal).await.map(drop)
        }
        Kind::ManagedNamespace => {
            let found = client.send(&GetManagedNamespace { id: None, name: Some(key.to_owned()) }).await?;
            managed_namespaces::until_everywhere(found, timeout, client, terminal).await.map(drop)
        }
        // A plan of a stack waits for people, and nobody knows how long.
        Kind::Project
        | Kind::Cluster
        | Kind::HelmRepository
        | Kind::StackDefinition
        | Kind::InfrastructureStack
        | Kind::ServiceContext
        | Kind::SyncWindow => Ok(()),
    }
}

/// Waits until it is gone.
pub(super) async fn until_gone(
    kind: Kind,
    key: &str,
    name: &str,
    timeout: Duration,
    console: &mut Console<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let deadline = tokio::time::Instant::now() + timeout;
    let mut is_told = false;
    while thing::read(kind, key, console).await?.is_some() {
        if !is_told {
            terminal.say(format_args!("waiting for the deletion of {name}"));
            is_told = true;
        }
        if tokio::time::Instant::now() > deadline {
            let hint = "it goes on in the background; run the command again later";
            return Err(CliError::new(format!("timed out waiting for the deletion of {name}")).hint(hint));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}
