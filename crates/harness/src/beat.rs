//! Heartbeats, concurrent with all other work.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;

use crate::console::{Console, Trouble};

/// Sends heartbeats for this Job until it is dropped.
pub(crate) struct Beat(AbortHandle);

impl Beat {
    /// A heartbeat every `every`. While the console does not answer, heartbeats are more frequent and never end: a working tool is not
    /// stopped because the console is down, and when the console is back it says whether this Job is still current.
    pub(crate) fn start(console: Arc<Console>, every: Duration) -> Self {
        let task = tokio::spawn(async move {
            let mut backoff = console.backoff();
            loop {
                let wait = match console.beat().await {
                    Ok(()) => {
                        backoff.reset();
                        every
                    }
                    Err(Trouble::Again(_)) => backoff.next_wait().min(every),
                    // All of the Job knows it by now.
                    Err(Trouble::End(_)) => return,
                };
                tokio::time::sleep(wait).await;
            }
        });
        Self(task.abort_handle())
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        self.0.abort();
    }
}
