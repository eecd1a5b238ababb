//! Branches that are there before the console heard that it made them: whether they are its own.

use std::sync::Arc;

use plural_core::pull_request::{PrWork, PullRequest};

use crate::app::App;
use crate::ports::git_hosts::{Host, HostCause, HostCommit};
use crate::pull_request_made::Stop;

impl App {
    /// Whether the head of a branch holds what the console began to put there, which it goes on with then. Where that is no commit of the
    /// console's on top of its parent, somebody else may have made it, or pushed to it: it is not taken away any more.
    pub(crate) async fn pull_request_found(
        &self,
        begun: &PullRequest,
        work: &mut PrWork,
        host: &Arc<dyn Host>,
        (head, commit): (&str, &HostCommit),
    ) -> Result<bool, Stop> {
        let repository = &begun.told.repository;
        if !holds(host, repository, head, commit).await? {
            return Ok(false);
        }
        work.adopted = host.is_commit(repository, head, commit).await? != Some(true);
        work.commit = Some(head.to_owned());
        self.store.pull_request_step(begun.id, work, None, self.now()).await?;
        Ok(true)
    }

    /// Whether a branch that was not there, and then was in the way, is the console's: then it goes on with it.
    pub(crate) async fn pull_request_conflict(
        &self,
        begun: &PullRequest,
        work: &mut PrWork,
        host: &Arc<dyn Host>,
        commit: &HostCommit,
    ) -> Result<bool, Stop> {
        let repository = &begun.told.repository;
        let head = match host.head(repository, &commit.branch).await {
            Ok(head) => head,
            Err(error) if error.cause == HostCause::Later => return Err(error.into()),
            Err(_) => return Ok(false),
        };
        match host.is_commit(repository, &head, commit).await? {
            Some(true) => {}
            Some(false) => {
                // Somebody was faster, and nothing of the console is there.
                work.making = false;
                return Ok(false);
            }
            None => return Ok(false),
        }
        if !holds(host, repository, &head, commit).await? {
            return Ok(false);
        }
        work.commit = Some(head);
        self.store.pull_request_step(begun.id, work, None, self.now()).await?;
        Ok(true)
    }
}

/// Whether a commit of a host holds these changes.
async fn holds(
    host: &Arc<dyn Host>,
    repository: &str,
    head: &str,
    commit: &HostCommit,
) -> Result<bool, Stop> {
    for change in &commit.changes {
        let found = match host.read(repository, head, &change.path).await {
            Ok(found) => Some(found),
            Err(error) if error.cause == HostCause::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        if found != change.content {
            return Ok(false);
        }
    }
    Ok(true)
}
