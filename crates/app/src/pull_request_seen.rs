//! What follows from a pull request that was read back from its host and is not what it was.

use plural_core::Result;
use plural_core::pull_request::{PrStatus, PullRequest};

use crate::app::App;
use crate::job::NewJob;
use crate::jobs::{FollowMerge, KnownPullRequest, MergedPullRequest, PlanFleetOfPull};

impl App {
    /// The jobs of what follows from a change, or from the first look at one: its head was not known before. They are enqueued in the transaction that records `after`, or nothing is: this itself changes nothing.
    ///
    /// It may be asked more than once about the same change, of one that was read twice at a time, and `before` may be older than what
    /// is recorded: jobs have a key, and look themselves. Of `after`, whatever its author can edit is a claim: its title, its labels, and
    /// [`plural_core::pull_request_life::PrLinks`] as far as they are believed.
    pub(crate) fn pull_request_seen(before: &PullRequest, after: &PullRequest) -> Result<Vec<NewJob>> {
        let mut jobs = Vec::new();
        if after.told.status == PrStatus::Merged && before.told.status != PrStatus::Merged {
            jobs.push(NewJob::of::<FollowMerge>(&MergedPullRequest { id: after.id })?);
        }
        if after.told.status == PrStatus::Open
            && after.life.head.is_some()
            && after.life.head != before.life.head
        {
            jobs.push(NewJob::of::<PlanFleetOfPull>(&KnownPullRequest { id: after.id })?);
        }
        Ok(jobs)
    }
}
