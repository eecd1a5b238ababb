//! Removes artifacts that no service and no revision names any more.

use std::sync::Arc;
use std::time::Duration;

use plural_core::Result;
use plural_kit::ShutdownSignal;

use super::watch_repositories::pause;
use crate::app::App;

/// Seconds between two collections.
const EVERY: u64 = 6 * 3600;
/// What was stored more recently stays: a service may be about to name it.
const SPARE: Duration = Duration::from_hours(24);

pub(super) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    loop {
        if stop.or(tokio::time::sleep(pause(EVERY, 0))).await.is_none() {
            return Ok(());
        }
        match app.artifacts_collect(SPARE).await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "removed artifacts that nothing names"),
            Err(error) => {
                tracing::warn!(error = error.log_text(), "cannot remove old artifacts; trying again later");
            }
        }
    }
}

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
