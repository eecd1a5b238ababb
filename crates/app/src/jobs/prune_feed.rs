//! Forgets old events. Agents further behind than these get a snapshot.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use plural_core::Result;
use plural_kit::ShutdownSignal;

use crate::app::App;

/// Between two prunings.
const EVERY: Duration = Duration::from_mins(10);
/// Events younger than this stay.
const KEEP: TimeDelta = TimeDelta::hours(24);
/// As do the last so many.
const KEEP_ROWS: u64 = 10_000;

pub(super) async fn run(app: Arc<App>, stop: ShutdownSignal) -> Result<()> {
    loop {
        if stop.or(tokio::time::sleep(EVERY)).await.is_none() {
            return Ok(());
        }
        match app.store.feed_prune(app.clock.now() - KEEP, KEEP_ROWS).await {
            Ok(0) => {}
            Ok(removed) => tracing::debug!(removed, "pruned the feed"),
            Err(error) => {
                tracing::warn!(error = error.log_text(), "cannot prune the feed; trying again later");
            }
        }
    }
}
