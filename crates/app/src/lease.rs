//! The right to do what only one replica may do at a time.

use std::sync::Arc;

use plural_core::ReplicaId;

tokio::task_local! {
    static FENCE: Fence;
}

/// One holding of a lease. Whoever writes inside of [`Fence::guard`] writes only while it is the latest.
///
/// A replica can lose a lease and not know it: its machine slept, its network was cut. So it is not the replica's belief
/// that decides but the database, in the transaction of each write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// Of what.
    pub name: Arc<str>,
    /// By whom.
    pub holder: ReplicaId,
    /// Grows each time the lease is given out.
    pub epoch: u64,
}

impl Fence {
    /// Does work whose every write is refused once another replica holds the lease.
    ///
    /// # Assumptions
    /// It holds for this task. What the work spawns takes it along with [`Fence::carried`].
    pub async fn guard<T>(self, work: impl Future<Output = T>) -> T {
        FENCE.scope(self, work).await
    }

    /// The fence that the running task works behind, if any. For stores.
    pub fn current() -> Option<Self> {
        FENCE.try_with(Clone::clone).ok()
    }

    /// Work for another task, behind the fence of this one.
    pub fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
        let fence = Self::current();
        async move {
            match fence {
                Some(fence) => fence.guard(work).await,
                None => work.await,
            }
        }
    }
}
