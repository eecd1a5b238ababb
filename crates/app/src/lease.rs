//! The right to do what only one replica may do at a time: leases, and claims of jobs.

use std::sync::Arc;

use plural_core::ids::{JobId, ReplicaId};

tokio::task_local! {
    static FENCE: Fence;
    static CLAIM: JobClaim;
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

    /// Work for another task, behind the fence and under the claim of this one.
    pub fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
        let (fence, claim) = (Self::current(), JobClaim::current());
        async move {
            match (fence, claim) {
                (Some(fence), Some(claim)) => fence.guard(claim.guard(work)).await,
                (Some(fence), None) => fence.guard(work).await,
                (None, Some(claim)) => claim.guard(work).await,
                (None, None) => work.await,
            }
        }
    }
}

/// One claim of a job. What runs inside of [`JobClaim::guard`] writes only while no other claim of the job was given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobClaim {
    /// Which job. With `epoch` it names one attempt, as a key of idempotence for what is done outside of the database.
    pub id: JobId,
    /// By whom.
    pub holder: ReplicaId,
    /// Grows with each claim.
    pub epoch: u64,
}

impl JobClaim {
    /// Does work whose every write is refused once the job was claimed again.
    ///
    /// # Assumptions
    /// It holds for this task. What the work spawns takes it along with [`Fence::carried`].
    pub async fn guard<T>(self, work: impl Future<Output = T>) -> T {
        CLAIM.scope(self, work).await
    }

    /// The claim under which the running task works, if it is a job's.
    pub fn current() -> Option<Self> {
        CLAIM.try_with(|claim| *claim).ok()
    }
}
