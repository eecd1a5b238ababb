//! Lets services go on that a sync window held back, once their windows let them.

use std::sync::Arc;
use std::time::Duration;

use plural_core::Result;
use plural_kit::ShutdownSignal;

use crate::app::App;

/// Windows begin and end at full minutes.
const EVERY: Duration = Duration::from_secs(20);

pub(super) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    loop {
        if stop.or(tokio::time::sleep(EVERY)).await.is_none() {
            return Ok(());
        }
        if let Err(error) = app.sync_windows_look().await {
            tracing::warn!(error = error.log_text(), "cannot look at sync windows; trying again later");
        }
    }
}
