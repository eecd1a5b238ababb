//! How opening a pull request ends where its host has none of it: its branch goes again, or is all that there is.

use plural_core::ids::PullRequestId;
use plural_core::pr_automation::{PrAutomation, target_allowed};
use plural_core::pull_request::{HostPullRequest, PrWork, PullRequest};
use plural_core::scm_connection::ScmType;
use plural_core::{Error, Result};

use crate::app::App;
use crate::ports::git_hosts::{HostCause, HostResult};
use crate::pull_request::{PendingPullRequest, PullRequestEnd};
use crate::pull_request_made::Stop;

impl App {
    /// Refuses an automation that has a governance where nothing can hold up a merge.
    pub(crate) async fn pull_request_governable(&self, automation: &PrAutomation) -> Result<()> {
        if automation.links.governance_id.is_none() {
            return Ok(());
        }
        let connection = self.pull_request_connection(automation.links.connection_id).await?;
        if connection.kind == ScmType::Plain {
            return Err(Error::conflict(
                "the automation has a governance, which has a merge wait at a git host, and its connection is to plain git, where everybody who \
                 may push merges: take the governance off the automation, or give it another connection",
            ));
        }
        Ok(())
    }

    /// Ends one that is not opened. Its branch goes where it is still as the console made it: nobody would know of it, and who asks once more
    /// may name it again.
    pub(crate) async fn pull_request_refused(
        &self,
        begun: &PullRequest,
        work: &mut PrWork,
        mut error: String,
    ) -> Result<()> {
        if let Some(commit) = work.commit.clone() {
            // A console that ends now goes on here.
            work.refused = Some(error.clone());
            self.store.pull_request_step(begun.id, work, Some(&error), self.now()).await?;
            let left = if work.adopted {
                let HostPullRequest { repository, branch, .. } = &begun.told;
                format!(
                    "its branch {branch} is left in {repository}: the console did not hear that it made it, and somebody else may have, or have gone on with it"
                )
            } else {
                Box::pin(self.pull_request_unbranched(begun, &commit)).await
            };
            error = format!("{error}; {left}");
        } else if work.making && !self.pull_request_branchless(begun, work).await {
            error = format!("{error}; look at the host, where its branch {} may be", begun.told.branch);
        }
        let end = PullRequestEnd::Failed { error };
        self.store.pull_request_end(begun.id, &end, &[], self.now()).await
    }

    /// Whether the host shows the repository, and no branch of one that the console began to make and did not hear of.
    async fn pull_request_branchless(&self, begun: &PullRequest, work: &PrWork) -> bool {
        let HostPullRequest { repository, branch, .. } = &begun.told;
        let Ok((connection, host)) = self.scm_host(begun.connection_id).await else { return false };
        if target_allowed(begun.project_id, &connection, Some(repository)).is_err() {
            return false;
        }
        let is_missing =
            |found: HostResult<String>| found.is_err_and(|error| error.cause == HostCause::NotFound);
        host.head(repository, &work.base).await.is_ok() && is_missing(host.head(repository, branch).await)
    }

    /// Takes the branch away of one that is not open, and says what became of it.
    async fn pull_request_unbranched(&self, begun: &PullRequest, commit: &str) -> String {
        let HostPullRequest { repository, branch, .. } = &begun.told;
        let removed = async {
            let (connection, host) =
                self.scm_host(begun.connection_id).await.map_err(|error| left(&error))?;
            let allowed = target_allowed(begun.project_id, &connection, Some(repository));
            allowed.map_err(|error| left(&error))?;
            if connection.kind != ScmType::Plain {
                // Without its branch a pull request would be closed, whoever opened it.
                let open = host.open_pull_requests(repository).await;
                let (open, is_cut) = open.map_err(|error| error.message)?;
                if let Some(pull) = open.iter().find(|pull| !pull.fork && pull.branch == *branch) {
                    return Err(format!("it has an open pull request: {}", pull.url));
                }
                if is_cut {
                    return Err(
                        "it may have an open pull request, as the host has more of them than the console lists".to_owned()
                    );
                }
            }
            host.delete_branch(repository, branch, commit).await.map_err(|error| error.message)
        };
        match removed.await {
            Ok(()) => format!("its branch {branch} is removed again"),
            Err(why) => format!("its branch {branch} is left in {repository}: {why}"),
        }
    }

    /// Ends one whose job is dead, and says so on its record.
    pub(crate) async fn pull_request_given_up(&self, id: PullRequestId, why: &str) -> Result<()> {
        let Some(pending) = self.store.pull_request_pending(id).await? else { return Ok(()) };
        let PendingPullRequest { begun, mut work, asked: _ } = pending;
        if let Some(error) = work.refused.clone() {
            return self.pull_request_refused(&begun, &mut work, error).await;
        }
        let error = format!("the console gave it up ({why})");
        self.pull_request_refused(&begun, &mut work, error).await
    }
}

/// An error as a record tells it.
pub(crate) fn words(error: &Error) -> String {
    match error {
        Error::Internal { .. } => "the console could not go on: its log says why".to_owned(),
        error => error.to_string(),
    }
}

fn left(error: &Error) -> String {
    if matches!(error, Error::Internal { .. }) {
        tracing::error!(error = error.log_text(), "the branch of a pull request is left at its host");
    }
    words(error)
}

/// What there is of one in a repository of plain git.
pub(crate) fn pushed(begun: &PullRequest, work: &PrWork, title: &str) -> Result<PullRequestEnd, Stop> {
    let missing = || Error::internal("recording a branch", "its commit is not known");
    let head = work.commit.clone().ok_or_else(missing)?;
    let told = HostPullRequest { title: title.to_owned(), ..begun.told.clone() }.tidied();
    Ok(PullRequestEnd::Pushed { title: told.title, base: work.base.clone(), head })
}
