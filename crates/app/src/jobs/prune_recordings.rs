//! Forgets recordings of shells that were kept as long as was asked for. The blobs that held them go with the next
//! collection of what nothing names.

use std::sync::Arc;

use plural_core::Result;
use plural_kit::ShutdownSignal;

use super::watch_repositories::pause;
use crate::app::App;

/// Seconds between two looks.
const EVERY: u64 = 3600;

pub(super) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    loop {
        if stop.or(tokio::time::sleep(pause(EVERY, 0))).await.is_none() {
            return Ok(());
        }
        match app.recordings_forget().await {
            Ok(0) => {}
            Ok(removed) => tracing::info!(removed, "removed recordings of shells that were kept long enough"),
            Err(error) => {
                tracing::warn!(error = error.log_text(), "cannot remove old recordings; trying again later");
            }
        }
    }
}

impl App {
    /// Removes recordings that are to go by now; how many those were.
    pub async fn recordings_forget(&self) -> Result<u64> {
        self.store.recording_prune(self.clock.now()).await
    }
}
