//! Follow-up jobs of a pull request that changed when it was read back from its host.

use plural_core::Result;
use plural_core::pull_request::{PrStatus, PullRequest};
use plural_core::pull_request_life::PrLife;

use crate::app::App;
use crate::job::NewJob;
use crate::jobs::{FollowMerge, KnownPullRequest, MergedPullRequest, PlanFleetOfPull, PlanPullRequest};
use crate::pull_request_governance::govern_job;
use crate::stack_pull_request::PullAddress;

impl App {
    /// The follow-up jobs of a change, or of the first read, before which its head was unknown. They are enqueued in the
    /// transaction that records `after`; this function itself changes nothing.
    ///
    /// It may be called more than once for the same change, after concurrent reads, and `before` may be older than the record: jobs have a
    /// key, and read the current state. In `after`, everything that its author can edit is a claim: its title, its labels, and
    /// [`plural_core::pull_request_life::PrLinks`] as far as they are trusted.
    pub(crate) fn pull_request_seen(before: &PullRequest, after: &PullRequest) -> Result<Vec<NewJob>> {
        let mut jobs = Vec::new();
        if after.told.status == PrStatus::Merged && before.told.status != PrStatus::Merged {
            jobs.push(NewJob::of::<FollowMerge>(&MergedPullRequest { id: after.id })?);
        }
        let (now, was) = (&after.life, &before.life);
        let is_other = now.head != was.head || now.facts.base != was.facts.base;
        if after.told.status == PrStatus::Open && now.head.is_some() && is_other {
            jobs.push(NewJob::of::<PlanFleetOfPull>(&KnownPullRequest { id: after.id })?);
        }
        let is_news = before.told.status != after.told.status || before.life.head != after.life.head;
        if is_news && let Some(number) = after.told.number() {
            let PullRequest { connection_id, told, .. } = after;
            let pull =
                PullAddress { connection_id: *connection_id, repository: told.repository.clone(), number };
            jobs.push(NewJob::of::<PlanPullRequest>(&pull)?);
        }
        let is_governed_anew = after.governed.as_ref().is_some_and(|governed| {
            let PrLife { head, facts, .. } = &after.life;
            governed.review.seen(after.told.status, head.as_deref(), facts.base.as_deref()).is_some()
        });
        if is_governed_anew {
            jobs.push(govern_job(after.id)?);
        }
        Ok(jobs)
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use plural_core::ids::{PrGovernanceId, ProjectId, PullRequestId, ScmConnectionId};
    use plural_core::merge_window::PrMerging;
    use plural_core::pr_governance::{PrGoverned, PrReview};
    use plural_core::pull_request::{HostPullRequest, PrProgress};

    use super::*;

    fn of(status: PrStatus) -> PullRequest {
        PullRequest {
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
            governed: None,
            merging: PrMerging::default(),
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_merge_is_followed_once() {
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

    #[test]
    fn stacks_are_planned_where_its_head_or_its_status_is_news() {
        let at = |status, head: Option<&str>| {
            let mut pull = of(status);
            pull.told.url = String::from("https://git.example.com/acme/fleet/pulls/7");
            pull.life.head = head.map(String::from);
            pull
        };
        let is_planned = |before: &PullRequest, after: &PullRequest| {
            let jobs = App::pull_request_seen(before, after).unwrap();
            jobs.iter().any(|job| job.kind == "plan_pull_request")
        };
        let (unread, one) = (at(PrStatus::Open, None), at(PrStatus::Open, Some("a1")));
        assert!(is_planned(&unread, &one));
        assert!(!is_planned(&one, &one));
        assert!(is_planned(&one, &at(PrStatus::Open, Some("b2"))));
        // The plans of it end.
        let closed = at(PrStatus::Closed, Some("a1"));
        assert!(is_planned(&one, &closed));
        assert!(is_planned(&closed, &one));
    }

    #[test]
    fn a_governance_is_asked_about_each_head_and_told_of_the_end() {
        let governed = |review| PrGoverned { governance_id: PrGovernanceId::new(), review };
        let at = |status, head: &str, review: &PrReview| {
            let mut pull = of(status);
            pull.life.head = Some(head.to_owned());
            pull.governed = Some(governed(review.clone()));
            pull
        };
        let is_asked = |after: &PullRequest| {
            let jobs = App::pull_request_seen(after, after).unwrap();
            jobs.iter().any(|job| job.kind == "govern_pull_request")
        };
        let unseen = PrReview::default();
        let about = unseen.seen(PrStatus::Open, Some("a1"), None).unwrap();
        assert!(is_asked(&at(PrStatus::Open, "a1", &unseen)), "also where nobody saw the difference");
        assert!(!is_asked(&at(PrStatus::Open, "a1", &about)));
        assert!(is_asked(&at(PrStatus::Open, "b2", &about)));
        assert!(is_asked(&at(PrStatus::Merged, "a1", &about)));
        assert!(!is_asked(&of(PrStatus::Open)), "without a governance");
    }

    #[test]
    fn services_are_planned_at_each_head_of_an_open_one_and_each_branch_that_it_goes_to() {
        let at = |status, head: Option<&str>| {
            let mut pull = of(status);
            pull.life.head = head.map(String::from);
            pull
        };
        let is_planned = |before: &PullRequest, after: &PullRequest| {
            let jobs = App::pull_request_seen(before, after).unwrap();
            jobs.iter().any(|job| job.kind == "plan_fleet_of_pull")
        };
        let (unread, one) = (at(PrStatus::Open, None), at(PrStatus::Open, Some("a1")));
        assert!(is_planned(&unread, &one) && is_planned(&one, &at(PrStatus::Open, Some("b2"))));
        assert!(!is_planned(&one, &one) && !is_planned(&one, &unread));
        let mut elsewhere = at(PrStatus::Open, Some("a1"));
        elsewhere.life.facts.base = Some("release".to_owned());
        assert!(is_planned(&one, &elsewhere) && !is_planned(&elsewhere, &elsewhere));
        assert!(!is_planned(&one, &at(PrStatus::Merged, Some("b2"))));
    }
}
