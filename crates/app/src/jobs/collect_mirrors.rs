//! Removes this replica's mirrors of repositories that are gone, or that another replica looks after.

use std::collections::HashSet;
use std::time::Duration;

use plural_core::ids::RepositoryId;
use plural_core::{Error, Result};

use super::sync_repository::lease_name;
use crate::app::App;

/// For so long nobody asked for a mirror that another replica fetches: composing and previews read it here, too.
pub(super) const SPARE: Duration = Duration::from_hours(24);
/// A repository may have been made after it was asked which there are.
pub(super) const YOUNG: Duration = Duration::from_mins(10);

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
                self.repositories.mirrored.remove(id);
            }
            keep
        };
        self.git.collect_mirrors(&keep).await.map_err(|error| Error::internal("removing old mirrors", error))
    }
}
