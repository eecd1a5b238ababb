//! Looks at the stacks that are read from a repository after it was fetched: a commit that changes what one of them reaches makes a run.

use std::collections::btree_map::{BTreeMap, Entry};

use plural_core::ids::RepositoryId;
use plural_core::project::Project;
use plural_core::stack::{Stack, StackSource};
use plural_core::stack_run::{RunKind, RunTrigger, StackRun};
use plural_core::{Error, Result};

use super::prepare_stack_run::{closure, told};
use crate::access::Write;
use crate::app::App;
use crate::ports::git::{CommitInfo, GitAccess, GitError, SourceSpec};
use crate::project::ProjectSelector;
use crate::repository::RepositoryWork;
use crate::stack::{StackSelector, stack_limits};
use crate::stack_follow::fetched_again;
use crate::stack_run::NewRun;

/// All stacks of the repository; those with a longer interval than the console's only in their turn, unless somebody `asked`: a webhook, or a
/// change. Answers in how many seconds it is to be fetched again. What one of them fails with is its own matter.
pub(super) async fn run(app: &App, work: &RepositoryWork, access: &GitAccess, asked: bool) -> Result<u64> {
    let mut commits: BTreeMap<String, Result<CommitInfo, GitError>> = BTreeMap::new();
    let (settings, now) = (app.settings.poll_seconds, app.now());
    let stacks = app.store.stack_sources(work.repository.id).await?;
    if stacks.is_empty() {
        return Ok(settings);
    }
    let again = fetched_again(settings, stacks.iter().map(|stack| stack.follow));
    // Of a commit that reaches several, those that others depend on first: these wait for their runs.
    let stacks = app.stacks_graph().await?.upstream_first(stacks, |stack| stack.id);
    for stack in stacks {
        let Some(source) = stack.source.clone() else { continue };
        let slow = stack.follow.interval_seconds.filter(|seconds| u64::from(*seconds) > again);
        if slow.is_some_and(|seconds| !asked && !app.stack_paces.is_due(stack.id, seconds, now)) {
            continue;
        }
        let commit = match commits.entry(source.git.reference.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(missing) => {
                let commit = app.git.resolve(access, &source.git.reference).await;
                missing.insert(commit.map_err(|error| told("cannot find the ref", error)))
            }
        };
        if let Err(error) = look(app, work, access, (&stack, &source), commit).await {
            let error = error.log_text();
            tracing::warn!(stack.id = %stack.id, error, "cannot look at the code of a stack; trying again");
        } else if let Some(seconds) = slow {
            app.stack_paces.looked(stack.id, seconds, now);
        }
    }
    Ok(again)
}

/// Says of all stacks of a repository that it cannot be fetched.
pub(super) async fn blame(app: &App, repository: RepositoryId, error: &GitError) -> Result<()> {
    for stack in app.store.stack_sources(repository).await? {
        let told = format!("cannot fetch the repository: {}", error.message);
        blame_one(app, &stack, told).await?;
    }
    Ok(())
}

async fn look(
    app: &App,
    work: &RepositoryWork,
    access: &GitAccess,
    (stack, source): (&Stack, &StackSource),
    commit: &Result<CommitInfo, GitError>,
) -> Result<()> {
    let system = app.system_ctx();
    let project = app.get::<Project>(&system, &ProjectSelector::Id(stack.project_id)).await?;
    if let Some(problem) = stack_limits(&project).problem(&work.repository.url.to_string()) {
        return blame_one(app, stack, problem).await;
    }
    let commit = match commit {
        Ok(commit) => commit,
        Err(error) => return blame_one(app, stack, error.message.clone()).await,
    };
    let turn = app.repositories.turns.build(Some(stack.project_id)).await;
    let digest = closure(app, access, &commit.sha, &SourceSpec::from(&source.git)).await;
    drop(turn);
    let digest = match digest {
        Ok(digest) => digest,
        Err(error) => return blame_one(app, stack, error.message).await,
    };
    if app.store.stack_seen(stack.id).await?.as_ref() == Some(&digest) {
        // A commit elsewhere in the repository is no news for this stack.
        if stack.source_error.is_some() {
            app.store.stack_source_seen(stack.id, &Ok((digest, commit.sha.clone())), app.now()).await?;
        }
        return Ok(());
    }
    // A run that somebody asked for takes this commit, or a later one where its code is not put together yet. Only the newest can: an
    // earlier one with the same code is superseded by it, as after a commit that was taken back.
    let takes = |run: &StackRun| run.source.as_ref().is_none_or(|source| source.closure_digest == digest);
    let open = app.store.stack_runs_open_of(stack.id).await?;
    let newest = open.iter().filter(|run| run.kind.is_of_stack()).max_by_key(|run| run.number);
    if let Some(run) = newest.filter(|run| run.kind == RunKind::Apply && !run.cancel_asked && takes(run)) {
        if run.source.is_some() {
            app.store.stack_source_seen(stack.id, &Ok((digest, commit.sha.clone())), app.now()).await?;
        }
        return Ok(());
    }
    let writable = app.authorized::<Stack, Write>(&system, &StackSelector::Id(stack.id)).await?;
    // First the run: a console that ends here makes another one, which takes this one's place.
    let new = NewRun { kind: RunKind::Apply, trigger: RunTrigger::Commit };
    match app.stack_run_of(&system, &writable, new).await {
        Ok(run) => {
            tracing::info!(
                stack.id = %stack.id, stack_run.id = %run.id, number = run.number, commit = commit.sha,
                "a commit makes a run of a stack"
            );
        }
        Err(error @ (Error::Invalid { .. } | Error::Conflict { .. })) => {
            return blame_one(app, stack, error.to_string()).await;
        }
        Err(error) => return Err(error),
    }
    app.store.stack_source_seen(stack.id, &Ok((digest, commit.sha.clone())), app.now()).await
}

async fn blame_one(app: &App, stack: &Stack, error: String) -> Result<()> {
    if stack.source_error.as_ref() == Some(&error) {
        return Ok(());
    }
    app.store.stack_source_seen(stack.id, &Err(error), app.now()).await
}
