//! What follows from a pull request that was read back from its host and is not what it was.

use plural_core::Result;
use plural_core::pull_request::{PrStatus, PullRequest};

use crate::app::App;
use crate::job::NewJob;
use crate::jobs::{FollowMerge, MergedPullRequest, PlanPullRequest};
use crate::stack_pull_request::PullAddress;

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
        let is_news = before.told.status != after.told.status || before.life.head != after.life.head;
        if is_news && let Some(number) = after.told.number() {
            let PullRequest { connection_id, told, .. } = after;
            let pull =
                PullAddress { connection_id: *connection_id, repository: told.repository.clone(), number };
            jobs.push(NewJob::of::<PlanPullRequest>(&pull)?);
        }
        Ok(jobs)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use plural_core::ids::{ProjectId, PullRequestId, ScmConnectionId};
    use plural_core::pull_request::{HostPullRequest, PrProgress};
    use plural_core::pull_request_life::PrLife;

    use super::*;

    #[test]
    fn a_merge_is_followed_once() {
        let of = |status| PullRequest {
            id: PullRequestId::from_uuid(uuid::Uuid::nil()),
            project_id: ProjectId::from_uuid(uuid::Uuid::nil()),
            connection_id: ScmConnectionId::from_uuid(uuid::Uuid::nil()),
            automation_id: None,
            creator: String::new(),
            told: HostPullRequest {
                url: String::new(),
                repository: String::new(),
                branch: String::new(),
                title: String::new(),
                status,
                labels: Vec::new(),
            },
            progress: PrProgress::OPENED,
            life: PrLife::default(),
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        };
        let kinds = |before, after| -> Vec<&'static str> {
            let jobs = App::pull_request_seen(&of(before), &of(after)).unwrap();
            jobs.into_iter().map(|job| job.kind).collect()
        };
        for before in [PrStatus::Open, PrStatus::Closed] {
            assert_eq!(kinds(before, PrStatus::Merged), ["follow_merge"]);
        }
        for (before, after) in [
            (PrStatus::Merged, PrStatus::Merged),
            (PrStatus::Open, PrStatus::Open),
            (PrStatus::Open, PrStatus::Closed),
        ] {
            assert!(kinds(before, after).is_empty(), "{before:?} {after:?}");
        }
    }
}
