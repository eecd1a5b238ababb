//! Removes this replica's mirrors of repositories that are gone, or that another replica looks after.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plural_core::{Error, RepositoryId, Result};
use plural_kit::ShutdownSignal;

use super::sync_repository::lease_name;
use super::watch_repositories::pause;
use crate::app::App;
use crate::fleet::lock;

/// Seconds between two collections.
const EVERY: u64 = 3600;
/// For so long nobody asked for a mirror that another replica fetches: composing and previews read it here, too.
const SPARE: Duration = Duration::from_hours(24);
/// A repository may have been made after it was asked which there are.
const YOUNG: Duration = Duration::from_mins(10);

pub(super) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    loop {
        if stop.or(tokio::time::sleep(pause(EVERY, 0))).await.is_none() {
            return Ok(());
        }
        match app.mirrors_collect(SPARE, YOUNG).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "removed mirrors that are not needed here"),
            Err(error) => {
                tracing::warn!(error = error.log_text(), "cannot remove old mirrors; trying again later");
            }
        }
    }
}

impl App {
    /// Removes this replica's mirrors of repositories that another one fetches and that nobody has asked for here for
    /// `spare`, and those of repositories that are gone, for `young`; how many those were.
    pub async fn mirrors_collect(&self, spare: Duration, young: Duration) -> Result<u64> {
        let known: HashSet<RepositoryId> =
            self.store.repository_ids().await?.into_iter().map(|(id, _)| id).collect();
        let keep = |id: RepositoryId, unused: Duration| {
            let keep = if known.contains(&id) {
                unused < spare || self.replicas.is_chosen(&lease_name(id))
            } else {
                unused < young
            };
            if !keep {
                // What is not there is not fresh: who asks for it next has to fetch it.
                lock(&self.repositories.mirrored).remove(&id);
            }
            keep
        };
        self.git.collect_mirrors(&keep).await.map_err(|error| Error::internal("removing old mirrors", error))
    }
}
