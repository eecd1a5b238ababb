//! Plans a pull request for the stacks that it reaches: what it changes is read from its host, and what that reaches from git.

use std::collections::BTreeSet;
use std::sync::Arc;

use plural_core::ids::{RepositoryId, StackId};
use plural_core::pull_request::PrStatus;
use plural_core::scm_connection::ScmConnection;
use plural_core::scm_webhook::identities;
use plural_core::stack::{Stack, StackSource};
use plural_core::stack_pull_request::{RunPullRequest, follows_branch};
use plural_core::{Error, Result};

use super::prepare_stack_run::{closure, told};
use crate::access::Write;
use crate::app::App;
use crate::job::{ABOUT_A_DAY, Job, JobFailure};
use crate::ports::git::{CommitInfo, GitAccess, GitError, SourceSpec};
use crate::ports::git_hosts::HostCause;
use crate::stack::StackSelector;
use crate::stack_pull_request::{PullAddress, StackRepository, run_pull};

/// Plans a pull request for the stacks that it reaches. Whoever hears of one enqueues this.
#[derive(Debug)]
pub enum PlanPullRequest {}

impl Job for PlanPullRequest {
    const KIND: &'static str = "plan_pull_request";
    // A head that was seen is not looked at again.
    const ATTEMPTS: u32 = ABOUT_A_DAY;
    type Payload = PullAddress;

    fn key(pull: &PullAddress) -> String {
        pull.key()
    }

    async fn run(app: &Arc<App>, pull: PullAddress) -> Result<(), JobFailure> {
        Box::pin(app.stack_plans_for_pull_request(&pull)).await?;
        Ok(())
    }
}

/// What a pull request changes.
pub(super) struct Changed {
    pub(super) paths: Vec<String>,
    /// There is more than the host lists.
    pub(super) cut: bool,
    /// The branch that it goes into.
    pub(super) base: String,
}

impl App {
    /// Has a pull request planned for each stack that it reaches, as its host tells it now; how many runs were made. One that is over,
    /// or deleted, ends the runs that it has. Twice is once.
    pub async fn stack_plans_for_pull_request(&self, address: &PullAddress) -> Result<u64> {
        let (connection, host) = match self.scm_host(address.connection_id).await {
            Ok(connected) => connected,
            Err(Error::NotFound { .. }) => return Ok(0),
            Err(error) => return Err(error),
        };
        // What a connection may not touch, it is not believed about either.
        if !connection.spec.allows(&address.repository) {
            return Ok(0);
        }
        let known = self.store.stack_pull_requests(address).await?;
        let repositories = repositories(self, &connection, &address.repository).await?;
        if known.is_empty() && repositories.is_empty() {
            return Ok(0);
        }
        let pull = match host.pull(&address.repository, address.number).await {
            Ok(pull) => Some(pull),
            Err(error) if error.cause == HostCause::NotFound && !known.is_empty() => {
                // A host that shows the others deleted it.
                host.pulls_open(&address.repository).await.map_err(|_| error)?;
                None
            }
            Err(error) => return Err(error.into()),
        };
        let pull = match pull {
            Some(pull) if pull.status == PrStatus::Open => pull,
            Some(_) => {
                Box::pin(self.stack_pulls_over(address, &known)).await?;
                return Ok(0);
            }
            // Nobody reads what is told of it.
            None => {
                for seen in &known {
                    self.stack_pull_ends(seen, false).await?;
                }
                return Ok(0);
            }
        };
        let (paths, cut) = host.pull_paths(&address.repository, address.number).await?;
        let changed = Changed { paths, cut, base: pull.base.clone() };
        let pull = run_pull(address, connection.kind, pull);
        let (mut reached, mut later) = (BTreeSet::new(), None);
        for repository in repositories {
            match reaches(self, &connection, repository, &pull, &changed).await {
                Ok(stacks) => reached.extend(stacks),
                // What one repository fails with does not hold up the others.
                Err(error) => later = Some(error),
            }
        }
        if later.is_none() {
            for seen in known.iter().filter(|seen| !reached.contains(&seen.stack_id)) {
                self.stack_pull_ends(seen, true).await?;
            }
        }
        let (system, mut made) = (self.system_ctx(), 0);
        for stack in reached {
            let planned = async {
                let by = StackSelector::Id(stack);
                let stack = self.authorized::<Stack, Write>(&system, &by).await?;
                // It was given another connection a moment ago, through which it is planned.
                if stack.follow.connection_id.is_some_and(|named| named != connection.id) {
                    return Ok::<u64, Error>(0);
                }
                let (_, run) =
                    Box::pin(self.stack_pull_planned(&system, &stack, pull.clone(), false)).await?;
                Ok(u64::from(run.is_some()))
            };
            match planned.await {
                Ok(planned) => made += planned,
                // It went a moment ago.
                Err(Error::NotFound { .. }) => {}
                Err(error) => {
                    let told = error.log_text();
                    tracing::warn!(stack.id = %stack, error = told, "cannot plan a pull request of a stack; trying again");
                    later = Some(error);
                }
            }
        }
        later.map_or(Ok(made), Err)
    }
}

/// The repositories that are cloned from where this one is, and that stacks follow whose connection this can be.
async fn repositories(app: &App, connection: &ScmConnection, slug: &str) -> Result<BTreeSet<RepositoryId>> {
    let own = identities(connection.kind, &connection.spec, slug);
    let all = app.store.stack_repositories().await?.into_iter();
    let is_it = |it: &StackRepository| it.is_of(connection) && own.contains(&it.identity);
    Ok(all.filter(is_it).map(|it| it.id).collect())
}

/// The stacks of a repository that a pull request reaches.
async fn reaches(
    app: &App,
    connection: &ScmConnection,
    repository: RepositoryId,
    pull: &RunPullRequest,
    changed: &Changed,
) -> Result<Vec<StackId>> {
    let is_named = |stack: &Stack| stack.follow.connection_id.is_none_or(|id| id == connection.id);
    let stacks = own_stacks(app, connection, repository).await?.into_iter().filter(is_named);
    let stacks = sourced(stacks);
    if stacks.is_empty() {
        return Ok(Vec::new());
    }
    let Some(work) = app.store.repository_work(repository).await? else { return Ok(Vec::new()) };
    if work.repository.pulled_at.is_none() {
        return Err(Error::unavailable("the repository was not fetched yet"));
    }
    let access = app.git_access(&work).await?;
    let later = |error: GitError| Error::unavailable(error.message);
    app.mirror_renew(&access).await.map_err(|error| later(told("cannot fetch the repository", error)))?;
    let base = app.git.resolve(&access, &format!("refs/heads/{}", changed.base)).await.ok();
    let following = following(app, &access, stacks, (changed.base.as_str(), base.as_ref())).await;
    if following.is_empty() {
        return Ok(Vec::new());
    }
    // Where it cannot be had, the run says so.
    if let Err(error) = bring(app, &access, &pull.sha, pull.reference.as_deref()).await {
        tracing::debug!(repository.id = %repository, error = error.message, "cannot have the head of a pull request");
    }
    let _turn = app.repositories.turns.build(connection.project_id).await;
    Ok(concerned(app, &access, &following, (pull.sha.as_str(), base.as_ref()), changed).await)
}

/// The stacks of a repository that these changes reach, which make `head` of `base`: both are in the mirror.
pub(super) async fn changed_stacks(
    app: &App,
    connection: &ScmConnection,
    (access, repository): (&GitAccess, RepositoryId),
    (head, base): (&str, &CommitInfo),
    changed: &Changed,
) -> Result<Vec<StackId>> {
    let stacks = sourced(own_stacks(app, connection, repository).await?);
    if stacks.is_empty() {
        return Ok(Vec::new());
    }
    let following = following(app, access, stacks, (changed.base.as_str(), Some(base))).await;
    if following.is_empty() {
        return Ok(Vec::new());
    }
    let _turn = app.repositories.turns.build(connection.project_id).await;
    Ok(concerned(app, access, &following, (head, Some(base)), changed).await)
}

/// The stacks of a repository whose connection this can be.
async fn own_stacks(app: &App, connection: &ScmConnection, repository: RepositoryId) -> Result<Vec<Stack>> {
    let is_own = |stack: &Stack| connection.project_id.is_none_or(|project| project == stack.project_id);
    Ok(app.store.stack_sources(repository).await?.into_iter().filter(is_own).collect())
}

/// Those that have code, and where it is.
fn sourced(stacks: impl IntoIterator<Item = Stack>) -> Vec<(StackId, StackSource)> {
    stacks.into_iter().filter_map(|stack| Some((stack.id, stack.source?))).collect()
}

/// Those that follow a branch, which is at this commit.
async fn following(
    app: &App,
    access: &GitAccess,
    stacks: Vec<(StackId, StackSource)>,
    (branch, base): (&str, Option<&CommitInfo>),
) -> Vec<(StackId, SourceSpec)> {
    let is_head = |source: &StackSource| source.git.reference == "HEAD";
    let is_default = stacks.iter().any(|(_, source)| is_head(source)) && {
        let head = app.git.resolve(access, "HEAD").await.ok();
        head.is_some() && head.map(|head| head.sha) == base.map(|base| base.sha.clone())
    };
    let mut following = Vec::new();
    for (stack, source) in stacks {
        if (is_default && is_head(&source)) || follows_branch(&source.git.reference, branch) {
            following.push((stack, SourceSpec::from(&source.git)));
        }
    }
    following
}

/// Those whose code is among what changes.
async fn concerned(
    app: &App,
    access: &GitAccess,
    following: &[(StackId, SourceSpec)],
    (head, base): (&str, Option<&CommitInfo>),
    changed: &Changed,
) -> Vec<StackId> {
    let specs: Vec<SourceSpec> = following.iter().map(|(_, spec)| spec.clone()).collect();
    let at_head = app.git.reached(access, head, &specs, &changed.paths).await;
    let at_base = match base {
        Some(base) => app.git.reached(access, &base.sha, &specs, &changed.paths).await,
        None => Ok(Vec::new()),
    };
    let says = |found: &Result<Vec<Result<bool, GitError>>, GitError>, place: usize| {
        found.as_ref().ok().and_then(|all| all.get(place)).and_then(|one| one.as_ref().ok()).copied()
    };
    let mut reached = Vec::new();
    for (place, (stack, spec)) in following.iter().enumerate() {
        let (head_says, base_says) = (says(&at_head, place), says(&at_base, place));
        let mut is_reached = head_says == Some(true) || base_says == Some(true);
        // A folder that cannot be read at the head is news where something of it changes: it may be gone.
        is_reached |= head_says.is_none() && changed.paths.iter().any(|path| is_below(path, &spec.folder));
        if !is_reached && changed.cut {
            let before = match base {
                Some(base) => closure(app, access, &base.sha, spec).await.ok(),
                None => None,
            };
            is_reached = closure(app, access, head, spec).await.ok() != before;
        }
        if is_reached {
            reached.push(*stack);
        }
    }
    reached
}

/// A path lies in a folder; all lie in that without a name.
fn is_below(path: &str, folder: &str) -> bool {
    folder.is_empty() || path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// The commit of a pull request, fetched where the mirror does not have it.
pub(super) async fn bring(
    app: &App,
    access: &GitAccess,
    sha: &str,
    reference: Option<&str>,
) -> Result<CommitInfo, GitError> {
    if let Ok(commit) = app.git.resolve(access, sha).await {
        return Ok(commit);
    }
    // By its name first: not every server gives what no name leads to. The name may lead elsewhere by now.
    if reference.is_some()
        && app.git.fetch_commit(access, sha, reference).await.is_ok()
        && let Ok(commit) = app.git.resolve(access, sha).await
    {
        return Ok(commit);
    }
    app.git.fetch_commit(access, sha, None).await?;
    app.git.resolve(access, sha).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_below_its_folders() {
        for (path, folder, below) in [
            ("infra/main.tf", "infra", true),
            ("infra/net/main.tf", "infra", true),
            ("infrastructure/main.tf", "infra", false),
            ("infra", "infra", false),
            ("main.tf", "", true),
        ] {
            assert_eq!(is_below(path, folder), below, "{path} {folder}");
        }
    }
}
