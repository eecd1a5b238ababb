//! Has agents look up the services of a repository anew, after its address changed: what they know of a service says where it
//! may be read from.

use std::sync::Arc;

use plural_core::RepositoryId;
use serde::{Deserialize, Serialize};

use crate::app::App;
use crate::job::{Job, JobFailure};

/// Services of one transaction.
const CHUNK: u64 = 500;

/// Renews the services that are read from a repository.
#[derive(Debug)]
pub enum RenewServices {}

/// Of which repository.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RenewedRepository {
    /// The repository.
    pub repository_id: RepositoryId,
}

impl Job for RenewServices {
    const KIND: &'static str = "renew_services";
    type Payload = RenewedRepository;

    fn key(renewed: &RenewedRepository) -> String {
        renewed.repository_id.to_string()
    }

    async fn run(app: &Arc<App>, renewed: RenewedRepository) -> Result<(), JobFailure> {
        let RenewedRepository { repository_id } = renewed;
        // One that ended half way begins anew: to renew a service twice costs its agent a look.
        let mut last = None;
        loop {
            last = app.store.repository_services_renew(repository_id, last, CHUNK, app.now()).await?;
            if last.is_none() {
                return Ok(());
            }
        }
    }
}
