//! Removes artifacts that no service and no revision names any more.

use std::time::Duration;

use plural_core::Result;

use crate::app::App;

/// What was stored more recently stays: a service may be about to name it.
pub(super) const SPARE: Duration = Duration::from_hours(24);

impl App {
    /// Removes artifacts that nothing names and that were stored more than `spare` ago; how many those were.
    ///
    /// Stopped anywhere it has removed some of them, and the next time finds the rest. What is named is read first: what
    /// comes to be named later was either named before, by another revision, or stored anew, which makes it young.
    pub async fn artifacts_collect(&self, spare: Duration) -> Result<u64> {
        let live = self.store.artifacts_named().await?;
        self.blobs.collect(live, spare).await
    }
}
