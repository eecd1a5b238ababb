//! Counts of services that many open pages ask for at once: after a change, all home pages of a large fleet ask how many services fail.
//!
//! # Guarantees
//! - An answer is of no earlier state than the request: each commit on this replica that changes a service or cluster ends what was
//!   counted before it. What another replica wrote is counted once its news is here, [`FRESH`] later at most.
//! - Only those who see everything share: what others see is for them alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plural_core::Result;
use plural_core::access::Visibility;
use plural_core::ids::{ClusterId, ProjectId};
use plural_core::status::ServiceStatus;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::app::App;
use crate::service::ServiceFilter;

/// For so long an answer is given to others.
const FRESH: Duration = Duration::from_secs(2);
/// Filters whose counts are kept. A new one beyond that ends all others: each is asked for again.
const MOST: usize = 256;

/// Counts of services by filter, of all that there are.
#[derive(Default)]
pub(crate) struct ServiceCounts {
    /// By status.
    pub(crate) statuses: SharedCounts<Vec<(ServiceStatus, u64)>>,
    /// By cluster.
    pub(crate) clusters: SharedCounts<Vec<(ClusterId, u64)>>,
    /// By project.
    pub(crate) projects: SharedCounts<Vec<(ProjectId, u64)>>,
}

/// Counts of one kind.
#[derive(Default)]
pub(crate) struct SharedCounts<T> {
    asked: Mutex<HashMap<ServiceFilter, Arc<Asked<T>>>>,
}

/// A question that was asked, and its answer once that is there.
struct Asked<T> {
    at: Instant,
    /// How many changes were told when it was asked.
    told: u64,
    counts: OnceCell<T>,
}

impl<T: Clone> SharedCounts<T> {
    /// The answer to a question that others asked, too; `told` is how many changes were told by now. An error is not kept: the next one
    /// asks again.
    async fn get(
        &self,
        filter: &ServiceFilter,
        told: u64,
        ask: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let asked = self.asked(filter, told);
        asked.counts.get_or_try_init(|| ask).await.cloned()
    }

    fn asked(&self, filter: &ServiceFilter, told: u64) -> Arc<Asked<T>> {
        let mut all = self.asked.lock();
        all.retain(|_, asked| asked.told == told && asked.at.elapsed() < FRESH);
        if all.len() >= MOST && !all.contains_key(filter) {
            all.clear();
        }
        let new = || Arc::new(Asked { at: Instant::now(), told, counts: OnceCell::new() });
        Arc::clone(all.entry(filter.clone()).or_insert_with(new))
    }
}

impl App {
    /// Counts, together with others who ask for the same where they see the same.
    pub(crate) async fn counted<T: Clone>(
        &self,
        shared: &SharedCounts<T>,
        visible: &Visibility,
        filter: &ServiceFilter,
        ask: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        // Which services read a context is no delta either.
        if *visible != Visibility::All || filter.context_id.is_some() {
            return ask.await;
        }
        let told = *self.store.deltas_wake().borrow();
        shared.get(filter, told, ask).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use plural_core::Error;

    use super::*;

    /// Asks; the answer is how often was asked.
    async fn ask(shared: &SharedCounts<u64>, asked: &AtomicU64, told: u64, q: &str) -> u64 {
        let filter = ServiceFilter { q: Some(q.to_owned()), ..ServiceFilter::default() };
        let ask = async {
            // Others come while it is asked.
            tokio::task::yield_now().await;
            Ok(asked.fetch_add(1, Ordering::Relaxed) + 1)
        };
        shared.get(&filter, told, ask).await.unwrap()
    }

    #[tokio::test]
    async fn those_who_ask_the_same_ask_once_until_something_changed() {
        let (shared, asked) = (SharedCounts::default(), AtomicU64::new(0));
        let all = futures::future::join_all((0..100).map(|_| ask(&shared, &asked, 7, "a"))).await;
        assert_eq!(all, [1; 100]);
        assert_eq!(ask(&shared, &asked, 7, "b").await, 2, "another question");
        assert_eq!(ask(&shared, &asked, 7, "a").await, 1);
        assert_eq!(ask(&shared, &asked, 8, "a").await, 3, "something changed");
        assert_eq!(shared.asked.lock().len(), 1, "what was counted before is not kept");
    }

    #[tokio::test]
    async fn an_answer_is_given_for_a_moment_only() {
        let (shared, asked) = (SharedCounts::default(), AtomicU64::new(0));
        let filter = ServiceFilter { q: Some("a".to_owned()), ..ServiceFilter::default() };
        let old = Asked { at: Instant::now() - FRESH, told: 7, counts: OnceCell::new_with(Some(9)) };
        shared.asked.lock().insert(filter, Arc::new(old));
        assert_eq!(ask(&shared, &asked, 7, "a").await, 1);
    }

    #[tokio::test]
    async fn an_error_is_not_kept() {
        let (shared, asked) = (SharedCounts::default(), AtomicU64::new(0));
        let filter = ServiceFilter { q: Some("a".to_owned()), ..ServiceFilter::default() };
        let failed = shared.get(&filter, 7, async { Err(Error::unavailable("the database is away")) }).await;
        assert!(failed.is_err());
        assert_eq!(ask(&shared, &asked, 7, "a").await, 1);
    }

    #[test]
    fn questions_that_are_kept_have_a_limit() {
        let shared = SharedCounts::<u64>::default();
        for number in 0..=MOST {
            let filter = ServiceFilter { q: Some(number.to_string()), ..ServiceFilter::default() };
            shared.asked(&filter, 7);
        }
        assert_eq!(shared.asked.lock().len(), 1);
    }
}
