//! Has agents look up services again after something changed that they are sent with them: the address of a repository, where
//! their project's limits say which addresses are allowed, or the name of the project, which agents name in what its limits
//! refuse. The change itself renews the first ones: a transaction must not grow with the fleet.

use std::sync::Arc;

use plural_core::ids::{ProjectId, RepositoryId, ServiceId};
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::job::{Job, JobFailure};

/// Services of one transaction.
const CHUNK: u64 = 500;

/// Renews the services that are read from a repository and whose agents are sent its address.
#[derive(Debug)]
pub enum RenewServices {}

/// Of which repository.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RenewedRepository {
    /// The repository.
    pub repository_id: RepositoryId,
    /// Those up to this one were renewed by the change.
    pub after: ServiceId,
}

impl Job for RenewServices {
    const KIND: &'static str = "renew_services";
    type Payload = RenewedRepository;

    fn key(renewed: &RenewedRepository) -> String {
        renewed.repository_id.to_string()
    }

    async fn run(app: &Arc<App>, renewed: RenewedRepository) -> Result<(), JobFailure> {
        let RenewedRepository { repository_id, after } = renewed;
        // A run that ended half way begins again: to renew a service twice costs its agent one poll.
        let mut next = Some(after);
        while next.is_some() {
            next = app.store.repository_services_renew(repository_id, next, CHUNK, app.now()).await?;
        }
        Ok(())
    }
}

/// Renews the services on the clusters of a project.
#[derive(Debug)]
pub enum RenewProject {}

/// Of which project.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RenewedProject {
    /// The project.
    pub project_id: ProjectId,
    /// Those up to this one were renewed by the change.
    pub after: ServiceId,
}

impl Job for RenewProject {
    const KIND: &'static str = "renew_project";
    type Payload = RenewedProject;

    fn key(renewed: &RenewedProject) -> String {
        renewed.project_id.to_string()
    }

    async fn run(app: &Arc<App>, renewed: RenewedProject) -> Result<(), JobFailure> {
        let RenewedProject { project_id, after } = renewed;
        let mut next = Some(after);
        while next.is_some() {
            next = app.store.project_services_renew(project_id, next, CHUNK, app.now()).await?;
        }
        Ok(())
    }
}
