//! Tells the host of a pull request how the plans of its stacks stand: one comment, and a check for each stack.

use plural_core::ids::{StackId, StackRunId};
use plural_core::pull_request::PrStatus;
use plural_core::stack::Stack;
use plural_core::stack_pull_comment::{
    PullFindings, PullOutcome, PullState, PulledStack, check_context, pull_comment,
};
use plural_core::stack_pull_request::StackPullRequest;
use plural_core::stack_run::StackRun;
use plural_core::{Error, Result};

use crate::app::App;
use crate::ports::git_host_pulls::HostCheck;
use crate::ports::git_hosts::HostCause;
use crate::stack_pull_request::PullAddress;

/// A stack, and what its host is told of it.
struct Told<'a> {
    seen: &'a StackPullRequest,
    stack: PulledStack,
}

impl App {
    /// Writes the comment of a pull request, and the checks that say something else than before. What is told is what there is then: twice
    /// is once.
    pub(crate) async fn pull_request_tell(&self, pull: &PullAddress) -> Result<()> {
        Box::pin(self.pull_request_told(pull, false)).await
    }

    /// A pull request is over: its runs end, and it is forgotten. A check that waits for a plan says before that there will be none. While the
    /// host does not answer, all of it is to be done again.
    pub(crate) async fn stack_pulls_over(
        &self,
        pull: &PullAddress,
        known: &[StackPullRequest],
    ) -> Result<()> {
        let runs: Vec<StackRunId> = known.iter().filter_map(|seen| seen.run_id).collect();
        for run in runs {
            self.pull_run_ends(run, "the pull request is not open any more").await?;
        }
        if known.iter().any(waits) {
            match Box::pin(self.pull_request_told(pull, true)).await {
                Ok(()) => {}
                Err(error @ Error::Unavailable { .. }) => return Err(error),
                // A host that takes none of it is no reason to keep it.
                Err(error) => {
                    let told = error.log_text();
                    tracing::warn!(
                        error = told,
                        "a host is not told that a pull request has no plan any more"
                    );
                }
            }
        }
        for seen in known {
            self.stack_pull_ends(seen, false).await?;
        }
        Ok(())
    }

    /// The same as [`pull_request_tell`](Self::pull_request_tell). Of one that is over, what is not planned will not be.
    async fn pull_request_told(&self, pull: &PullAddress, is_over: bool) -> Result<()> {
        let seen = self.store.stack_pull_requests(pull).await?;
        let (connection, host) = match self.scm_host(pull.connection_id).await {
            Ok(connected) => connected,
            Err(Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if !connection.spec.allows(&pull.repository) {
            return Ok(());
        }
        if seen.is_empty() {
            // A run that ended after its pull request: the comment says how that stood in the end.
            match host.pull(&pull.repository, pull.number).await {
                Ok(found) if found.status == PrStatus::Open => {}
                Ok(_) => return Ok(()),
                Err(error) if error.cause == HostCause::NotFound => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        let newest = seen.iter().max_by_key(|seen| seen.updated_at);
        let head = newest.map(|seen| seen.pull.sha.clone()).unwrap_or_default();
        let ids: Vec<StackId> = seen.iter().map(|seen| seen.stack_id).collect();
        let stacks = self.get_many::<Stack>(&self.system_ctx(), &ids).await?;
        let mut told = Vec::with_capacity(seen.len());
        for seen in &seen {
            // It went a moment ago.
            let Some(stack) = stacks.get(&seen.stack_id) else { continue };
            let run = match seen.run_id {
                Some(run) => self.store.stack_run(run).await?,
                None => None,
            };
            let outcome = if seen.pull.sha == head {
                self.pull_outcome(seen, run.as_ref()).await?
            } else {
                PullOutcome::Waits
            };
            let is_late = is_over && outcome.check().0 == PullState::Pending;
            let outcome = if is_late { PullOutcome::Cancelled } else { outcome };
            let link = self.pull_link(stack, run.as_ref());
            told.push(Told { seen, stack: PulledStack { name: stack.name.to_string(), link, outcome } });
        }
        let mut failed = None;
        for Told { seen, stack } in told.iter().filter(|told| told.seen.pull.sha == head) {
            let (state, description) = stack.outcome.check();
            let now = format!("{} {description}", state.as_str());
            if seen.told.as_ref() == Some(&now) {
                continue;
            }
            let context = check_context(&stack.name);
            let check = HostCheck { context, state, description, url: stack.link.clone() };
            match host.check_tell(&pull.repository, &head, &check).await {
                Ok(()) => self.store.stack_pull_request_told(seen.id, &head, &now).await?,
                // The comment says it, too.
                Err(error) => failed = Some(error),
            }
        }
        let stacks: Vec<PulledStack> = told.into_iter().map(|told| told.stack).collect();
        let comment = pull_comment(&head, &stacks);
        host.pull_tell(&pull.repository, pull.number, &marker(pull), &comment).await?;
        failed.map_or(Ok(()), |error| Err(error.into()))
    }

    async fn pull_outcome(&self, seen: &StackPullRequest, run: Option<&StackRun>) -> Result<PullOutcome> {
        let Some(run) = run else {
            let waits = seen.problem.is_none() && seen.run_id.is_none() && seen.pull.checked_only;
            return Ok(if waits { PullOutcome::Unreleased } else { PullOutcome::Failed });
        };
        if !run.status.is_over() || run.plan.is_none() || run.is_checked_only() {
            return Ok(PullOutcome::of(run, false, PullFindings::default()));
        }
        let found = self.plan_findings(run.id).await?;
        let refused = found.violations.iter().any(|violation| violation.refuses);
        Ok(PullOutcome::of(run, refused, PullFindings::of(&found.violations, found.cost.as_ref())))
    }

    /// The page of a run, or of its stack, where the console knows its own address.
    fn pull_link(&self, stack: &Stack, run: Option<&StackRun>) -> Option<String> {
        let console = self.settings.public_url.as_deref()?.trim_end_matches('/');
        let stack = &stack.name;
        Some(match run {
            Some(run) => format!("{console}/stacks/{stack}/runs/{}", run.id),
            None => format!("{console}/stacks/{stack}"),
        })
    }
}

/// Whether the host may have been told last that a plan is to come.
fn waits(seen: &StackPullRequest) -> bool {
    seen.told.as_deref().is_none_or(|told| told.starts_with(PullState::Pending.as_str()))
}

/// What the comment of a connection is found by: each one has its own.
fn marker(pull: &PullAddress) -> String {
    let id = pull.connection_id.uuid().simple().to_string();
    // The end of it: it begins with a time.
    let end = id.get(id.len().saturating_sub(12)..).unwrap_or_default();
    format!("plural-stacks-{end}")
}
