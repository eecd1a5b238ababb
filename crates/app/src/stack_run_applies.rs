//! Approved runs go on beside the pass that found them: whether their plans still fit is asked of git servers, and one that does not answer holds
//! up nobody else's run.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plural_core::Result;
use plural_core::ids::StackRunId;
use plural_core::stack_run::RunStatus;
use plural_core::stack_turns::is_approved;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::app::App;

/// So many are asked about at once. Those beyond have their turn in a later pass.
const MOST: usize = 32;
/// A pass waits for those that it began for so long; what takes longer goes on.
const PATIENCE: Duration = Duration::from_secs(5);

/// The approved runs that are asked about now.
#[derive(Debug, Default)]
pub(crate) struct ApplyingRuns {
    runs: Arc<Mutex<HashSet<StackRunId>>>,
}

impl ApplyingRuns {
    /// Nobody asks about it yet, and there is a place.
    fn begin(&self, id: StackRunId) -> Option<Applying> {
        let mut runs = self.runs.lock();
        (runs.len() < MOST && runs.insert(id)).then(|| Applying { runs: Arc::clone(&self.runs), id })
    }
}

/// One of them, until it is dropped.
struct Applying {
    runs: Arc<Mutex<HashSet<StackRunId>>>,
    id: StackRunId,
}

impl Drop for Applying {
    fn drop(&mut self) {
        self.runs.lock().remove(&self.id);
    }
}

impl App {
    /// Lets approved runs go on: how many did while somebody waited.
    pub(crate) async fn runs_apply(self: &Arc<Self>, ids: Vec<StackRunId>) -> u64 {
        let mut begun = JoinSet::new();
        for id in ids {
            let Some(place) = self.applying_runs.begin(id) else { continue };
            let app = Arc::clone(self);
            begun.spawn(async move {
                let moved = Box::pin(app.run_approved(id)).await;
                drop(place);
                moved.unwrap_or_else(|error| {
                    let error = error.log_text();
                    tracing::warn!(stack_run.id = %id, error, "cannot move a run on; trying again");
                    false
                })
            });
        }
        let mut moved = 0;
        let all = async {
            while let Some(ended) = begun.join_next().await {
                moved += u64::from(ended.unwrap_or_default());
            }
        };
        if timeout(PATIENCE, all).await.is_err() {
            tracing::debug!(left = begun.len(), "approved runs are still asked about");
        }
        begun.detach_all();
        moved
    }

    /// Whether an approved run went on.
    async fn run_approved(&self, id: StackRunId) -> Result<bool> {
        match self.store.stack_run(id).await? {
            Some(run) if run.status == RunStatus::PendingApproval && is_approved(&run) => {
                self.run_applies(&run).await
            }
            // It went elsewhere a moment ago.
            Some(_) | None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_asked_about_once_at_a_time() {
        let (runs, id) = (ApplyingRuns::default(), StackRunId::new());
        let first = runs.begin(id).unwrap();
        assert!(runs.begin(id).is_none());
        drop(first);
        let mut held = vec![runs.begin(id).unwrap()];
        while let Some(one) = runs.begin(StackRunId::new()) {
            held.push(one);
        }
        assert_eq!(held.len(), MOST);
        held.pop();
        assert!(runs.begin(StackRunId::new()).is_some());
    }
}
