//! How the code of stacks is followed: how often it is looked at, and through which connection their pull requests are planned.

use std::collections::HashMap;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_core::ids::{ProjectId, ScmConnectionId, StackId};
use plural_core::repository::Repository;
use plural_core::scm_connection::{ScmConnection, ScmType};
use plural_core::stack::{Stack, StackChange, StackFollow, StackSource};
use plural_core::stack_pull_request::pull_request_at;
use plural_core::{Error, Result};
use plural_kit::about;

use crate::access::Read;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::jobs::PlanPullRequest;
use crate::repository::RepositorySelector;
use crate::scm_connection::ScmConnectionSelector;
use crate::stack_pull_poll::connection_slug;
use crate::stack_pull_request::PullAddress;

const CONNECTION: &str = "attributes.connectionId";
/// Stacks whose next look is remembered; beyond that those are forgotten that are due anyway.
const MAX_PACED: usize = 20_000;

/// When stacks with an interval of their own are looked at next, by this replica.
#[derive(Default)]
pub(crate) struct StackPaces(Mutex<HashMap<StackId, DateTime<Utc>>>);

impl StackPaces {
    /// Whether it is the turn of a stack. One that was not looked at yet has its turn, and so has one of a time that a clock has left.
    pub(crate) fn is_due(&self, stack: StackId, interval_seconds: u32, now: DateTime<Utc>) -> bool {
        let latest = now + TimeDelta::seconds(2 * i64::from(interval_seconds));
        self.0.lock().get(&stack).is_none_or(|next| *next <= now || *next > latest)
    }

    /// A stack was looked at: its next turn is in [`about`] its interval.
    pub(crate) fn looked(&self, stack: StackId, interval_seconds: u32, now: DateTime<Utc>) {
        let wait = about(Duration::from_secs(interval_seconds.into()));
        let next = now + TimeDelta::from_std(wait).unwrap_or_default();
        let mut paces = self.0.lock();
        if paces.len() >= MAX_PACED {
            paces.retain(|_, next| *next > now);
        }
        if paces.len() < MAX_PACED {
            paces.insert(stack, next);
        }
    }
}

/// Seconds until a repository is fetched again: as the settings say, or sooner where a stack asks for that.
pub(crate) fn fetched_again(settings: u64, follows: impl Iterator<Item = StackFollow>) -> u64 {
    let asked = follows.filter_map(|follow| follow.interval_seconds).min();
    asked.map_or(settings, |seconds| settings.min(u64::from(seconds)))
}

impl App {
    /// Refuses an interval that cannot be, and a connection that the caller may not see or that cannot plan pull requests of the stack's
    /// repository. One that the stack has already needs not be seen.
    pub(crate) async fn stack_follow_allowed(
        &self,
        ctx: &OpCtx,
        project: ProjectId,
        source: Option<&StackSource>,
        (follow, was): (StackFollow, Option<ScmConnectionId>),
    ) -> Result<()> {
        follow.check()?;
        let Some(source) = source else {
            let needs = "is of no use without code: give repositoryId, clusterId and git, too";
            return match follow {
                StackFollow { interval_seconds: Some(_), .. } => {
                    Err(Error::invalid("attributes.interval", needs))
                }
                StackFollow { connection_id: Some(_), .. } => Err(Error::invalid(CONNECTION, needs)),
                StackFollow { interval_seconds: None, connection_id: None } => Ok(()),
            };
        };
        let Some(id) = follow.connection_id else { return Ok(()) };
        let (system, by) = (self.system_ctx(), ScmConnectionSelector::Id(id));
        let connection = if was == Some(id) {
            self.get::<ScmConnection>(&system, &by).await?
        } else {
            let connection = self.authorized::<ScmConnection, Read>(ctx, &by).await;
            connection.map_err(|error| error.named_in(CONNECTION))?.into_inner()
        };
        if connection.project_id.is_some_and(|of| of != project) {
            return Err(Error::invalid(CONNECTION, "is of another project than the stack"));
        }
        if connection.kind == ScmType::Plain {
            return Err(Error::invalid(CONNECTION, "is of plain git, which has no pull requests to plan"));
        }
        let by = RepositorySelector::Id(source.repository_id);
        let repository = self.get::<Repository>(&system, &by).await?;
        if connection_slug(&connection, &repository.url.identity()).is_none() {
            return Err(Error::invalid(
                CONNECTION,
                "may not touch the stack's repository: add that to the connection's repositories, or choose another connection",
            ));
        }
        Ok(())
    }

    /// The pull requests of a stack that are planned through another connection from now on: each is looked at through both, so that the one
    /// says that it is no more, and the other plans it.
    pub(crate) async fn stack_pulls_moved(&self, stack: &Stack, change: &StackChange) -> Result<Vec<NewJob>> {
        let Some(to) = change.follow.and_then(|follow| follow.connection_id) else { return Ok(Vec::new()) };
        if stack.follow.connection_id == Some(to) {
            return Ok(Vec::new());
        }
        let connection =
            self.get::<ScmConnection>(&self.system_ctx(), &ScmConnectionSelector::Id(to)).await?;
        let mut jobs = Vec::new();
        for seen in self.store.stack_pull_requests_of(stack.id).await? {
            let was = PullAddress::of(&seen.pull);
            if was.connection_id == to {
                continue;
            }
            jobs.push(NewJob::of::<PlanPullRequest>(&was)?);
            if let Ok((repository, number)) = pull_request_at(connection.kind, &seen.pull.url) {
                let is = PullAddress { connection_id: to, repository, number };
                jobs.push(NewJob::of::<PlanPullRequest>(&is)?);
            }
        }
        Ok(jobs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_fetched_as_often_as_its_most_eager_stack_asks() {
        let again = |intervals: &[Option<u32>]| {
            let follow =
                |interval: &Option<u32>| StackFollow { interval_seconds: *interval, connection_id: None };
            fetched_again(60, intervals.iter().map(follow))
        };
        assert_eq!(again(&[]), 60);
        assert_eq!(again(&[None, Some(3600)]), 60, "a longer one holds up nobody else");
        assert_eq!(again(&[Some(3600), Some(30), None, Some(45)]), 30);
    }

    #[test]
    fn a_stack_has_its_turn_once_in_its_interval() {
        let (paces, stack, now) = (StackPaces::default(), StackId::new(), DateTime::UNIX_EPOCH);
        let at = |seconds| now + TimeDelta::seconds(seconds);
        assert!(paces.is_due(stack, 600, now));
        paces.looked(stack, 600, now);
        assert!(!paces.is_due(stack, 600, at(1)) && !paces.is_due(stack, 600, at(400)));
        assert!(paces.is_due(stack, 600, at(800)));
        assert!(paces.is_due(StackId::new(), 600, at(1)), "others have turns of their own");
        // A clock that was ahead, or an interval that was longer, holds nothing up.
        assert!(paces.is_due(stack, 600, at(-7200)) && paces.is_due(stack, 60, at(1)));
    }
}
