//! `plural cd projects secret-backend`: where the secret values of a project are kept.

use chrono::{DateTime, Utc};
use clap::{Args, ValueEnum};
use plural_wire::{Client, GetSecretStorage, MoveProjectSecrets, SecretBackend, SecretStorage};
use serde::Serialize;

use crate::{
    args::{ConfirmArgs, OutputArgs},
    error::CliError,
    key,
    output::{self, Row, or_dash},
    terminal::Terminal,
};

/// Where secret values are kept
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// The console's own database
    Database,
    /// The KV engine of Vault or OpenBao
    Vault,
    /// Secrets of the cluster that the console runs in
    Kubernetes,
}

impl From<Backend> for SecretBackend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Database => Self::Database,
            Backend::Vault => Self::Vault,
            Backend::Kubernetes => Self::Kubernetes,
        }
    }
}

/// Show where the secret values of a project are kept, or move them
///
/// Without a backend it is shown, for administrators of the project: where new values go, where the others are, how many have yet to be moved.
/// With one, the values of services, templates and contexts move there in the background, for administrators of the installation. The same
/// command once more goes on with a move that failed. The console has to be started with the backend (`--secret-backend`).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd projects secret-backend shop
  plural cd projects secret-backend shop vault
  plural cd projects secret-backend shop database --yes")]
pub(crate) struct ProjectSecretBackendArgs {
    /// The project: its name or id
    #[arg(value_name = "PROJECT")]
    pub(crate) project: String,

    /// Where its secret values go
    #[arg(value_enum, value_name = "BACKEND")]
    pub(crate) backend: Option<Backend>,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// What is said of a project, as a row.
#[derive(Debug, Serialize)]
struct ProjectStorage {
    project: String,
    #[serde(flatten)]
    storage: SecretStorage,
}

impl Row for ProjectStorage {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["PROJECT", "BACKEND", "KEPT", "WAITING", "PROBLEM"], 5);

    fn id(&self) -> &str {
        &self.project
    }

    fn name(&self) -> String {
        format!("project/{}", self.project)
    }

    fn cells(&self, _now: DateTime<Utc>) -> Vec<String> {
        let SecretStorage { backend, waiting, problem, kept } = &self.storage;
        let kept: Vec<String> =
            kept.iter().map(|kept| format!("{}: {}", word(kept.backend), kept.values)).collect();
        vec![
            or_dash(Some(&self.project)),
            word(*backend),
            or_dash(Some(&kept.join(", "))),
            waiting.to_string(),
            or_dash(problem.as_deref()),
        ]
    }
}

/// `vault`.
pub(crate) fn word(backend: SecretBackend) -> String {
    backend.as_str().to_lowercase()
}

pub(crate) async fn backend(
    args: ProjectSecretBackendArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let ProjectSecretBackendArgs { project, backend, confirm, output } = args;
    let project = key::project(client, &project).await?;
    let storage = match backend.map(SecretBackend::from) {
        None => {
            let found = client.send(&GetSecretStorage { id: project.id }).await?;
            found
                .secret_storage
                .ok_or_else(|| CliError::new("the console did not say where it keeps secrets"))?
        }
        Some(backend) => {
            let what = format!("move the secrets of project {} to {}", project.name, word(backend));
            terminal.confirm(&what, confirm.yes)?;
            client.send(&MoveProjectSecrets { project_id: project.id, backend }).await?
        }
    };
    output::item(&ProjectStorage { project: project.name, storage }, &output.output, terminal)
}
