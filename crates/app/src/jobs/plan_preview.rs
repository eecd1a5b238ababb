//! Looks what an automation would do on every cluster: makes its changes as a commit that nothing leads to, and has that planned.

use std::sync::Arc;

use plural_core::Result;
use plural_core::fleet_plan::{FleetPlan, MOST_PARTS, MOST_STACKS};
use plural_core::ids::RepositoryId;
use plural_core::pr_automation::target_allowed;
use plural_core::scm_connection::ScmConnection;

use super::fleet_plans::{Base, BegunFleetPlan, Head, Stop, given_up, looked_at, stopped};
use super::plan_pull_request::{Changed, bring, changed_stacks};
use crate::app::App;
use crate::fleet_plan::FleetAsked;
use crate::fleet_preview::{PreviewAsked, preview_context};
use crate::job::{Job, JobFailure};
use crate::ports::git::TreeChange;
use crate::pull_request_made::Stop as NotMade;
use crate::seal::Sealed;

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
        looked_at(app, &plan, looked).await
    }

    async fn died(app: &Arc<App>, begun: BegunFleetPlan, why: &str) -> Result<()> {
        let found = app.store.fleet_preview_to_look_at(begun.id).await?;
        let Some((plan, _)) = found else { return Ok(()) };
        given_up(app, &plan, why).await
    }
}

/// What an automation would change, and of which commit.
struct Proposed {
    base: String,
    commit: String,
    message: String,
    files: Vec<TreeChange>,
    changed: Changed,
}

async fn look(app: &App, plan: &FleetPlan, sealed: &Sealed) -> Result<FleetAsked, Stop> {
    let json = app.sealer.open(&preview_context(plan.id), sealed).await?;
    let PreviewAsked { connection, repository, base, name, asked } = PreviewAsked::from_json(&json)?;
    let (connection, host) = app.scm_host(connection).await?;
    // It may be another one's by now, or touch less.
    target_allowed(plan.project_id, &connection, Some(&repository)).map_err(NotMade::from)?;
    let commit = host.head(&repository, &base).await.map_err(NotMade::from)?;
    let made = Box::pin(app.pull_request_made(&host, &repository, &commit, &asked)).await?;
    made.check(&repository)?;
    let files = made.tree();
    let paths = files.iter().map(|file| file.path.clone()).collect();
    let title = made.after.title.trim();
    let proposed = Proposed {
        message: if title.is_empty() { name } else { title.to_owned() },
        changed: Changed { paths, cut: false, base: base.clone() },
        base,
        commit,
        files,
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
    let Proposed { base, commit, message, files, changed } = proposed;
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
    asked.stacks =
        changed_stacks(app, connection, (&access, id), (head.sha.as_str(), &parent), changed).await?;
    asked.stacks.truncate(MOST_STACKS);
    Ok(Some(asked))
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
