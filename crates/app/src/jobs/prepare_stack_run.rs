//! Puts the code of a run together: resolves its ref, builds the artifact, and lets it have its turn.

use std::collections::BTreeSet;
use std::sync::Arc;

use plural_core::access::Actor;
use plural_core::ids::StackRunId;
use plural_core::project::Project;
use plural_core::stack::Stack;
use plural_core::stack_run::{RunKind, RunPhase, RunSource, RunStatus, StackRun};
use plural_core::stack_steps::steps;
use plural_core::stack_turns::Turn;
use plural_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::plan_pull_request::bring;
use crate::app::App;
use crate::harness::run_steps;
use crate::job::{Job, JobFailure};
use crate::ports::git::{Authors, CommitInfo, GitAccess, GitError, SourceSpec};
use crate::project::ProjectSelector;
use crate::stack::{StackSelector, stack_limits};
use crate::stack_run::RunMove;
use crate::stack_run_turns::Proof;

/// Puts the code of a run together.
#[derive(Debug)]
pub enum PrepareStackRun {}

/// Of which run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PreparedRun {
    /// The run.
    pub run: StackRunId,
}

impl Job for PrepareStackRun {
    const KIND: &'static str = "prepare_stack_run";
    type Payload = PreparedRun;

    fn key(prepared: &PreparedRun) -> String {
        prepared.run.to_string()
    }

    async fn run(app: &Arc<App>, prepared: PreparedRun) -> Result<(), JobFailure> {
        let Some(run) = app.store.stack_run(prepared.run).await? else { return Ok(()) };
        if run.status != RunStatus::Queued {
            return Ok(());
        }
        if run.source.is_some() {
            // It was done before, and the turn was lost.
            return Ok(app.run_next(run.stack_id).await?);
        }
        let Some(run) = Box::pin(app.run_settled(run)).await? else { return Ok(()) };
        let prepared = match prepare(app, &run).await? {
            Ok(source) => source,
            Err(error) if error.transient => {
                let note = RunMove {
                    from: vec![RunStatus::Queued],
                    error: Some(error.message.clone()),
                    ..RunMove::at(app.now())
                };
                app.store.stack_run_move(&Actor::System, run.id, &note).await?;
                return Err(JobFailure::Retry(Error::unavailable(error.message)));
            }
            Err(error) => {
                let told = match &error.location {
                    Some(location) => format!("{} ({location})", error.message),
                    None => error.message,
                };
                let turn = Turn::Over(RunStatus::Failed, Some(told));
                app.run_turns(&Actor::System, &run, turn, (None, Proof::Ended)).await?;
                return Ok(());
            }
        };
        let (closure, sha) = (prepared.closure_digest.clone(), prepared.sha.clone());
        let mut all = Vec::new();
        for phase in RunPhase::ALL {
            let snapshot = &run.snapshot;
            let steps = steps(snapshot.tool, &snapshot.spec, run.kind, phase)?;
            all.extend(run_steps(&run, phase, &steps));
        }
        let change = RunMove {
            from: vec![RunStatus::Queued],
            to: Some(RunStatus::Queued),
            source: Some(prepared),
            steps: Some(all),
            ..RunMove::at(app.now())
        };
        if app.store.stack_run_move(&Actor::System, run.id, &change).await?.is_some()
            && run.kind == RunKind::Apply
        {
            // The commit is no news for the stack any more.
            app.store.stack_source_seen(run.stack_id, &Ok((closure, sha)), app.now()).await?;
        }
        Ok(app.run_next(run.stack_id).await?)
    }
}

async fn prepare(app: &App, run: &StackRun) -> Result<Result<RunSource, GitError>> {
    let system = app.system_ctx();
    let Some(work) = app.store.repository_work(run.snapshot.repository_id).await? else {
        return Ok(Err(GitError::terminal("the git repository no longer exists; choose another")));
    };
    let project = app.get::<Project>(&system, &ProjectSelector::Id(run.project_id)).await?;
    if let Some(problem) = stack_limits(&project).problem(&work.repository.url.to_string()) {
        return Ok(Err(GitError::terminal(problem)));
    }
    if let Some(preview) = run.preview() {
        // Its code was put together, and checked, when the preview was looked at: no commit of the repository holds it.
        return Ok(Ok(preview.source.clone()));
    }
    if work.repository.pulled_at.is_none() {
        return Ok(Err(match work.repository.error {
            Some(error) => GitError::terminal(format!("cannot fetch the repository: {error}")),
            None => GitError { transient: true, ..GitError::terminal("the repository was not fetched yet") },
        }));
    }
    let access = app.git_access(&work).await?;
    if let Err(error) = app.mirror_renew(&access).await {
        return Ok(Err(told("cannot fetch the repository", error)));
    }
    let stack = app.get::<Stack>(&system, &StackSelector::Id(run.stack_id)).await?;
    let commit = match run.pull_request() {
        Some(pull) => bring(app, &access, &pull.sha, pull.reference.as_deref()).await,
        None => commit_of(app, &access, run, &stack).await,
    };
    let commit = match commit {
        Ok(commit) => commit,
        Err(error) => return Ok(Err(told("cannot find the ref", error))),
    };
    let spec = SourceSpec::from(&run.snapshot.git);
    // Before the turn, which others wait for: it may take a while.
    let wrote = match authors(app, &access, run, &commit, &spec).await? {
        Ok(wrote) => wrote,
        Err(error) => return Ok(Err(error)),
    };
    let _turn = app.repositories.turns.build(Some(run.project_id)).await;
    let closure_digest = match closure(app, &access, &commit.sha, &spec).await {
        Ok(digest) => digest,
        Err(error) => return Ok(Err(error)),
    };
    if let Err(error) = app.run_allowed(&project, run, (&access, commit.sha.as_str(), &spec)).await? {
        return Ok(Err(error));
    }
    Ok(match app.git.build(&access, &commit.sha, &spec).await {
        Ok(built) => Ok(RunSource {
            sha: commit.sha,
            message: commit.message,
            author: commit.author,
            emails: wrote.emails,
            more_emails: !wrote.is_whole,
            commits: wrote.commits,
            closure_digest,
            artifact_digest: built.digest,
            folder: built.folder,
        }),
        Err(error) => Err(told("cannot build the artifact", error)),
    })
}

/// What was applied last is what there is to destroy, and to compare with the world.
fn applied<'a>(run: &StackRun, stack: &'a Stack) -> Option<&'a str> {
    stack.sha.as_deref().filter(|_| matches!(run.kind, RunKind::Destroy | RunKind::Drift))
}

/// The commit whose code a run of the stack takes, as far as the mirror on this replica knows: what was applied last, where that counts,
/// unless nobody has that commit any more.
async fn commit_of(
    app: &App,
    access: &GitAccess,
    run: &StackRun,
    stack: &Stack,
) -> Result<CommitInfo, GitError> {
    if let Some(sha) = applied(run, stack)
        && let Ok(commit) = app.git.resolve(access, sha).await
    {
        return Ok(commit);
    }
    app.git.resolve(access, &run.snapshot.git.reference).await
}

impl App {
    /// Why the code of a run is not what its stack reads now, if so. A commit elsewhere in the repository changes nothing about it.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where it cannot be told now.
    pub(crate) async fn run_code_moved(
        &self,
        run: &StackRun,
        source: &RunSource,
        stack: &Stack,
    ) -> Result<Option<String>> {
        if applied(run, stack) == Some(source.sha.as_str()) {
            return Ok(None);
        }
        let Some(work) = self.store.repository_work(run.snapshot.repository_id).await? else {
            return Ok(Some(
                "the git repository no longer exists: choose another, and plan again".to_owned(),
            ));
        };
        let waits = |why: &str| {
            Error::unavailable(format!(
                "it cannot be told whether the code moved since the plan was made: {why}"
            ))
        };
        if work.repository.pulled_at.is_none() {
            return Err(waits("the repository was not fetched yet"));
        }
        let access = self.git_access(&work).await?;
        if let Err(error) = self.mirror_renew(&access).await {
            return Err(waits(&told("cannot fetch the repository", error).message));
        }
        let mut now = code_now(self, &access, run, source, stack).await;
        if is_final(&now) {
            // The run is over with that. Another replica may have made its plan from what this one has not heard of yet.
            if let Err(error) = self.mirror_fetch(&access).await {
                return Err(waits(&told("cannot fetch the repository", error).message));
            }
            now = code_now(self, &access, run, source, stack).await;
        }
        match now {
            Ok(sha) => Ok(sha.map(|sha| {
                format!(
                    "the code moved since the plan was made (commit {} then, {} now): plan again",
                    short(&source.sha),
                    short(&sha)
                )
            })),
            Err(error) if error.transient => Err(waits(&error.message)),
            Err(error) => Ok(Some(format!(
                "the code that the plan was made from cannot be compared with what the stack reads now ({}): plan again",
                error.message
            ))),
        }
    }
}

/// What is known of the code ends a run.
fn is_final(now: &Result<Option<String>, GitError>) -> bool {
    match now {
        Ok(sha) => sha.is_some(),
        Err(error) => !error.transient,
    }
}

/// The commit that the stack reads now, where it reaches other code than the run has.
async fn code_now(
    app: &App,
    access: &GitAccess,
    run: &StackRun,
    source: &RunSource,
    stack: &Stack,
) -> Result<Option<String>, GitError> {
    let commit = commit_of(app, access, run, stack).await;
    let commit = commit.map_err(|error| told("cannot find the ref", error))?;
    if commit.sha == source.sha {
        return Ok(None);
    }
    let _turn = app.repositories.turns.build(Some(run.project_id)).await;
    let digest = closure(app, access, &commit.sha, &SourceSpec::from(&run.snapshot.git)).await?;
    Ok((digest != source.closure_digest).then_some(commit.sha))
}

/// A commit as people write it.
fn short(sha: &str) -> &str {
    sha.get(..12).unwrap_or(sha)
}

/// Who wrote, committed and merged the code of a run, as far as somebody may not approve what is their own.
async fn authors(
    app: &App,
    access: &GitAccess,
    run: &StackRun,
    commit: &CommitInfo,
    spec: &SourceSpec,
) -> Result<Result<Authors, GitError>> {
    let head = commit.emails.clone();
    if run.kind.only_plans() || !run.snapshot.spec.approval.forbid_self {
        return Ok(Ok(Authors { emails: head, commits: Vec::new(), is_whole: true }));
    }
    // Whatever was pushed since the last apply is of this run, also below a commit of somebody else.
    let last = app.store.stack_run_applied(run.stack_id).await?;
    // Where the stack was of another folder then, what is in this one was applied by nobody.
    let is_same = |last: &StackRun| {
        let (was, is) = (&last.snapshot, &run.snapshot);
        was.repository_id == is.repository_id
            && was.git.folder == is.git.folder
            && was.git.files == is.git.files
    };
    let last = last.filter(is_same).and_then(|last| last.source);
    let applied = last.as_ref().map(|source| source.sha.as_str());
    let Authors { emails, mut commits, is_whole } =
        match app.git.authors(access, &commit.sha, applied, spec).await {
            Ok(found) => found,
            Err(error) => return Ok(Err(told("cannot tell who wrote the commits", error))),
        };
    if !commits.contains(&commit.sha) {
        commits.push(commit.sha.clone());
    }
    let all: BTreeSet<String> = head.into_iter().chain(emails).collect();
    Ok(Ok(Authors { emails: all.into_iter().collect(), commits, is_whole }))
}

/// The digest of all that a source reaches at a commit.
pub(super) async fn closure(
    app: &App,
    access: &GitAccess,
    sha: &str,
    spec: &SourceSpec,
) -> Result<String, GitError> {
    let closures = app.git.closures(access, sha, std::slice::from_ref(spec)).await;
    let closures = closures.map_err(|error| told("cannot read the commit", error))?;
    match closures.into_iter().next() {
        Some(Ok(closure)) => Ok(closure.digest),
        Some(Err(error)) => Err(told("cannot read the folder", error)),
        None => Err(GitError::terminal("cannot read the folder: git said nothing about it")),
    }
}

/// The same error with what failed before it.
pub(super) fn told(doing: &str, error: GitError) -> GitError {
    GitError { message: format!("{doing}: {}", error.message), ..error }
}
