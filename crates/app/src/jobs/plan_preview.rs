//! Looks what an automation would do on every cluster: makes its changes as a commit that nothing leads to, and has that planned.

use std::collections::HashSet;
use std::sync::Arc;

use plural_core::Result;
use plural_core::fleet_plan::{FleetPlan, MOST_PARTS, MOST_STACKS, PreviewedStack};
use plural_core::ids::{FleetPlanId, RepositoryId, StackId};
use plural_core::pr_automation::target_allowed;
use plural_core::project::Project;
use plural_core::scm_connection::ScmConnection;
use plural_core::stack::Stack;
use plural_core::stack_run::RunSource;
use serde::{Deserialize, Serialize};

use super::fleet_plans::{Base, BegunFleetPlan, Head, MOST_CONFLICTS, Stop, looked_at, stopped};
use super::plan_pull_request::{Changed, bring, changed_stacks};
use super::prepare_stack_run::{closure, told};
use super::renew_fleet_plan::given_up;
use crate::app::App;
use crate::fleet_plan::{FleetAsked, ReachedStack};
use crate::fleet_preview::{PreviewAsked, preview_context};
use crate::job::{Job, JobFailure};
use crate::ports::git::{CommitInfo, GitAccess, GitError, SourceSpec, TreeChange};
use crate::project::ProjectSelector;
use crate::pull_request_made::Stop as NotMade;
use crate::records::there;
use crate::seal::Sealed;
use crate::stack::{StackSelector, stack_limits};

/// Looks which services and stacks a preview reaches, and has the agents of the services asked. A console that does not know of previews
/// does not know this kind of job, and leaves it to others.
#[derive(Debug)]
pub enum LookFleetPreview {}

impl Job for LookFleetPreview {
    const KIND: &'static str = "look_fleet_preview";
    // A git server that restarts is back by then; whoever asked waits.
    const ATTEMPTS: u32 = 6;
    type Payload = BegunFleetPlan;

    fn key(begun: &BegunFleetPlan) -> String {
        begun.id.to_string()
    }

    async fn run(app: &Arc<App>, begun: BegunFleetPlan) -> Result<(), JobFailure> {
        let found = app.store.fleet_preview_to_look_at(begun.id).await?;
        let Some((plan, asked)) = found else { return Ok(()) };
        let looked = Box::pin(look(app, &plan, &asked)).await;
        looked_at(app, &plan, looked, None).await
    }

    async fn died(app: &Arc<App>, begun: BegunFleetPlan, why: &str) -> Result<()> {
        let found = app.store.fleet_preview_to_look_at(begun.id).await?;
        let Some((plan, _)) = found else { return Ok(()) };
        given_up(app, &plan, begun.again, why).await
    }
}

/// Plans a stack whose code a preview changes: a run that is never applied.
#[derive(Debug)]
pub enum PlanPreviewedStack {}

/// Which stack, and its code.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AskedStack {
    /// The plan of the preview.
    pub plan: FleetPlanId,
    /// The stack.
    pub stack: StackId,
    /// Its code, put together.
    pub source: RunSource,
}

impl Job for PlanPreviewedStack {
    const KIND: &'static str = "plan_previewed_stack";
    const ATTEMPTS: u32 = 6;
    type Payload = AskedStack;

    fn key(asked: &AskedStack) -> String {
        format!("{}:{}", asked.plan, asked.stack)
    }

    async fn run(app: &Arc<App>, asked: AskedStack) -> Result<(), JobFailure> {
        Ok(Box::pin(app.preview_stack_planned(asked.plan, asked.stack, asked.source)).await?)
    }

    async fn died(app: &Arc<App>, asked: AskedStack, why: &str) -> Result<()> {
        let told = Err(format!("the console could not plan it ({why})"));
        app.store.fleet_preview_planned(asked.plan, asked.stack, &told).await
    }
}

/// What an automation would change, and of which commit.
struct Proposed {
    /// The stacks that whoever asks may plan.
    plannable: HashSet<StackId>,
    base: String,
    commit: String,
    message: String,
    files: Vec<TreeChange>,
    changed: Changed,
}

async fn look(app: &App, plan: &FleetPlan, sealed: &Sealed) -> Result<FleetAsked, Stop> {
    let json = app.sealer.open(&preview_context(plan.id), sealed).await?;
    let PreviewAsked { connection, repository, base, name, asked, plannable } =
        PreviewAsked::from_json(&json)?;
    let (connection, host) = app.scm_host(connection).await?;
    // It may be another one's by now, or touch less.
    target_allowed(plan.project_id, &connection, Some(&repository)).map_err(NotMade::from)?;
    let commit = host.head(&repository, &base).await.map_err(NotMade::from)?;
    let made = Box::pin(app.pull_request_made(&host, &repository, &commit, &asked)).await?;
    made.check(&repository)?;
    if !made.conflicts.is_empty() {
        return Err(Stop::Told(unsettled(&made.conflicts)));
    }
    let files = made.tree();
    let paths = files.iter().map(|file| file.path.clone()).collect();
    let title = made.after.title.trim();
    let proposed = Proposed {
        message: if title.is_empty() { name } else { title.to_owned() },
        changed: Changed { paths, cut: false, base: base.clone() },
        base,
        commit,
        files,
        plannable: plannable.into_iter().collect(),
    };
    let mut whole: Option<FleetAsked> = None;
    for id in app.preview_repositories(plan.project_id, &connection, &repository).await? {
        let found = Box::pin(look_in(app, plan, (&connection, id), &proposed)).await?;
        let Some(found) = found else { continue };
        whole = Some(match whole {
            None => found,
            Some(before) => both(before, found),
        });
    }
    whole
        .ok_or_else(|| Stop::Told(format!("the project has no git repository that is {repository} any more")))
}

/// What it does to what follows one git repository; nothing where that is gone.
async fn look_in(
    app: &App,
    plan: &FleetPlan,
    (connection, id): (&ScmConnection, RepositoryId),
    proposed: &Proposed,
) -> Result<Option<FleetAsked>, Stop> {
    let Proposed { plannable, base, commit, message, files, changed } = proposed;
    let Some(work) = app.store.repository_work(id).await? else { return Ok(None) };
    let access = app.git_access(&work).await?;
    let renewed = app.mirror_renew(&access).await;
    renewed.map_err(|error| stopped("cannot fetch the repository", error))?;
    let parent = bring(app, &access, commit, Some(&format!("refs/heads/{base}"))).await;
    let parent = parent.map_err(|error| stopped(&format!("cannot find {commit}"), error))?;
    let turn = app.repositories.turns.build(Some(plan.project_id)).await;
    let head = app.git.overlay(&access, &parent.sha, message, files.clone()).await;
    drop(turn);
    let head = head.map_err(|error| stopped("cannot make the changes", error))?;
    let at = Head { app, project: plan.project_id, access: &access, commit: &head };
    let onto = Base { branch: base.as_str(), sha: parent.sha.clone(), has_moved_on: false };
    let mut asked = at.asks(plan.id, id, Some(onto)).await?;
    let mut stacks =
        changed_stacks(app, connection, (&access, id), (head.sha.as_str(), &parent), changed).await?;
    stacks.truncate(MOST_STACKS);
    for stack_id in stacks {
        let built = if plannable.contains(&stack_id) {
            Box::pin(stack_code(app, stack_id, (&access, &head))).await?
        } else {
            Err("planning it needs write access to the stack".to_owned())
        };
        let (source, problem) = match built {
            Ok(source) => (Some(source), None),
            Err(problem) => (None, Some(problem)),
        };
        asked.stacks.push(ReachedStack { stack: PreviewedStack { stack_id, run_id: None, problem }, source });
    }
    Ok(Some(asked))
}

/// The code of a stack at a commit that only this replica has; else why there is none, in words.
async fn stack_code(
    app: &App,
    id: StackId,
    (access, head): (&GitAccess, &CommitInfo),
) -> Result<Result<RunSource, String>, Stop> {
    let system = app.system_ctx();
    let Some(stack) = there(app.get::<Stack>(&system, &StackSelector::Id(id)).await)? else {
        return Ok(Err("the stack is gone".to_owned()));
    };
    let Some(source) = &stack.source else { return Ok(Err("the stack has no source".to_owned())) };
    if access.reach.allowed_signers.is_some() || access.reach.openpgp_keys.is_some() {
        let why = "its repository takes signed commits alone, and nobody signed what a preview makes";
        return Ok(Err(why.to_owned()));
    }
    let project = app.get::<Project>(&system, &ProjectSelector::Id(stack.project_id)).await?;
    if let Some(problem) = stack_limits(&project).problem(&access.url.to_string()) {
        return Ok(Err(problem));
    }
    let spec = SourceSpec::from(&source.git);
    let _turn = app.repositories.turns.build(Some(stack.project_id)).await;
    let allowed = app.stack_allowed(&project, &stack, (access, head.sha.as_str(), &spec)).await?;
    let found = match allowed {
        Ok(()) => stack_built(app, (access, head), &spec).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(source) => Ok(Ok(source)),
        Err(error) if error.transient => Err(error.into()),
        Err(error) => Ok(Err(error.message)),
    }
}

async fn stack_built(
    app: &App,
    (access, head): (&GitAccess, &CommitInfo),
    spec: &SourceSpec,
) -> Result<RunSource, GitError> {
    let closure_digest = closure(app, access, &head.sha, spec).await?;
    let built = app.git.build(access, &head.sha, spec).await;
    let built = built.map_err(|error| told("cannot build the artifact", error))?;
    Ok(RunSource {
        sha: head.sha.clone(),
        message: head.message.clone(),
        author: head.author.clone(),
        emails: Vec::new(),
        more_emails: false,
        commits: Vec::new(),
        closure_digest,
        artifact_digest: built.digest,
        folder: built.folder,
    })
}

/// Why a change is not planned that a person has to settle first: markers of conflicts are no manifests.
fn unsettled(conflicts: &[String]) -> String {
    let named: Vec<&str> = conflicts.iter().take(MOST_CONFLICTS).map(String::as_str).collect();
    let more = conflicts.len() - named.len();
    let rest = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("cannot be planned before conflicts are settled: {}{rest}", named.join("; "))
}

/// A repository that the project knows by two addresses has services and stacks at both.
fn both(mut one: FleetAsked, other: FleetAsked) -> FleetAsked {
    let FleetAsked { found, reached, stacks } = other;
    one.reached.extend(reached);
    let over = one.reached.len().saturating_sub(MOST_PARTS);
    one.reached.truncate(MOST_PARTS);
    one.stacks.extend(stacks);
    one.stacks.truncate(MOST_STACKS);
    let of = &mut one.found;
    of.untouched = of.untouched.saturating_add(found.untouched);
    of.composed = of.composed.saturating_add(found.composed);
    of.omitted =
        of.omitted.saturating_add(found.omitted).saturating_add(u32::try_from(over).unwrap_or(u32::MAX));
    of.deadline = of.deadline.max(found.deadline);
    one
}
