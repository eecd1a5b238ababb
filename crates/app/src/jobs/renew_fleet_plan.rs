//! Retries of plans of pull requests whose commit the console could not read, because git did not answer: a few times, with growing
//! pauses.

use std::sync::Arc;
use std::time::Duration;

use plural_core::Result;
use plural_core::fleet_plan::{FleetPlan, FleetPlanPhase, tried_again};
use plural_core::ids::FleetPlanId;
use plural_core::stack_pull_request::check_releasable;

use super::fleet_plans::BegunFleetPlan;
use crate::app::App;
use crate::fleet_plan::fleet_plan_tellers;
use crate::job::{ABOUT_A_DAY, Job, JobFailure, NewJob};
use crate::records::there;

/// The pause before each retry. After the last one, the plan waits for a user, a new commit, or its target branch to move.
const PAUSES: [Duration; 3] = [Duration::from_mins(5), Duration::from_mins(30), Duration::from_hours(2)];

/// Makes a plan of a pull request again that the console could not look at, if it is still the one to make again.
#[derive(Debug)]
pub enum RenewFleetPlan {}

impl BegunFleetPlan {
    /// One that somebody asks for, or that is of a new commit.
    pub const fn first(id: FleetPlanId) -> Self {
        Self { id, again: 0 }
    }
}

impl Job for RenewFleetPlan {
    const KIND: &'static str = "renew_fleet_plan";
    const ATTEMPTS: u32 = ABOUT_A_DAY;
    /// The plan that failed, and how often it was made again, this time included.
    type Payload = BegunFleetPlan;

    fn key(begun: &BegunFleetPlan) -> String {
        begun.id.to_string()
    }

    async fn run(app: &Arc<App>, begun: BegunFleetPlan) -> Result<(), JobFailure> {
        let found = there(app.get::<FleetPlan>(&app.system_ctx(), &begun.id).await)?;
        // It may have been forgotten, as newer ones of its commit were made.
        let Some(plan) = found.filter(|plan| plan.phase == FleetPlanPhase::Failed) else { return Ok(()) };
        // Where another plan took its place, or its pull request ended or has another head, nothing begins.
        Box::pin(app.fleet_plan_tried_again(&plan, begun.again)).await?;
        Ok(())
    }
}

/// Ends a plan whose job is dead. One of a commit of a pull request is made again later, unless it was `again` often enough.
pub(super) async fn given_up(app: &App, plan: &FleetPlan, again: usize, why: &str) -> Result<()> {
    let mut jobs = fleet_plan_tellers(plan.id, plan.repository_id, plan.pull_request_id)?;
    // A name may lead to another commit by then.
    let is_of_commit = plan.pull_request_id.is_some() && check_releasable(&plan.reference).is_ok();
    if !is_of_commit {
        let error = format!("the console could not look at the commit ({why}): ask for the plan again");
        return app.store.fleet_plan_failed(plan.id, (error.as_str(), None), &jobs, app.now()).await;
    }
    let error = match PAUSES.get(again) {
        Some(pause) => {
            let begun = BegunFleetPlan { id: plan.id, again: again.saturating_add(1) };
            jobs.push(NewJob::of::<RenewFleetPlan>(&begun)?.after(*pause));
            tried_again(app.now() + *pause, why)
        }
        None => format!(
            "the console could not look at the commit ({why}): ask for the plan again with `plural pr replan`"
        ),
    };
    let base_sha = Box::pin(base_known(app, plan)).await;
    app.store.fleet_plan_failed(plan.id, (error.as_str(), base_sha.as_deref()), &jobs, app.now()).await
}

/// Where the branch of a plan is as far as it is known here, for whoever follows it: its git server may be away.
async fn base_known(app: &App, plan: &FleetPlan) -> Option<String> {
    let branch = plan.base.as_deref()?;
    let work = app.store.repository_work(plan.repository_id).await.ok()??;
    let access = app.git_access(&work).await.ok()?;
    if !app.git.has_mirror(&access) {
        return None;
    }
    Some(app.git.resolve(&access, branch).await.ok()?.sha)
}
