//! Follows the branches that planned pull requests go to. A plan is made again once its branch has moved to where it would be about something
//! else: at once where it stood for some minutes, else when it has, so that a busy branch does not keep agents planning.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use plural_core::fleet_plan::{
    FleetFound, FleetPlan, FleetPlanPhase, FleetSince, REPLAN_AFTER, follows_head,
};
use plural_core::ids::RepositoryId;
use plural_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::fleet_plans::{Base, Head, Stop, head};
use super::prepare_stack_run::told;
use crate::app::App;
use crate::fleet_plan::{FleetTarget, fleet_plan_tellers};
use crate::job::{Job, JobFailure, NewJob};
use crate::ports::git::GitAccess;
use crate::repository::RepositoryWork;

/// Plans that one run makes again: agents answer other questions, too.
const AT_ONCE: usize = 20;
/// When the next ones are.
const NEXT: Duration = Duration::from_secs(30);
/// How long a run that failed for good rests.
const RESTS: TimeDelta = TimeDelta::hours(1);

/// Looks at the plans of a repository whose branch has moved on.
#[derive(Debug)]
pub enum FollowFleetBase {}

/// Which repository, and where its branches are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MovedBranches {
    /// The repository.
    pub repository: RepositoryId,
    /// Its branches that plans are of, with their commits, as they were when it was asked for: others are news.
    pub heads: BTreeMap<String, String>,
}

impl Job for FollowFleetBase {
    const KIND: &'static str = "follow_fleet_base";
    type Payload = MovedBranches;

    fn key(moved: &MovedBranches) -> String {
        moved.repository.to_string()
    }

    async fn run(app: &Arc<App>, moved: MovedBranches) -> Result<(), JobFailure> {
        if let Some((wait, heads)) = Box::pin(follow(app, moved.repository)).await? {
            let moved = MovedBranches { heads, ..moved };
            let again = NewJob::of::<Self>(&moved)?.after(wait);
            app.store.jobs_enqueue(&[again], app.now()).await?;
        }
        Ok(())
    }
}

/// Has plans looked at whose branch is elsewhere than where it was last looked at. Whoever fetched the repository asks.
pub(super) async fn heard(app: &App, access: &GitAccess) -> Result<()> {
    let plans = app.store.fleet_plans_followed(access.id).await?;
    if plans.is_empty() {
        return Ok(());
    }
    let heads = heads(app, access, &plans).await;
    // What is marked waits to be made again: its job may be gone.
    let is_marked = |plan: &FleetPlan| plan.found.as_ref().is_some_and(|found| found.moved().is_some());
    if plans.iter().any(|plan| is_marked(plan) || news(plan, &heads).is_some()) {
        let job = NewJob::of::<FollowFleetBase>(&MovedBranches { repository: access.id, heads })?;
        app.store.jobs_enqueue_absent(&[job], app.now() - RESTS, app.now()).await?;
    }
    Ok(())
}

/// Looks at all plans of a repository; after which time some are to be looked at again, and where the branches are.
async fn follow(app: &App, repository: RepositoryId) -> Result<Option<(Duration, BTreeMap<String, String>)>> {
    let Some(work) = app.store.repository_work(repository).await? else { return Ok(None) };
    let plans = app.store.fleet_plans_followed(repository).await?;
    if plans.is_empty() {
        return Ok(None);
    }
    let access = app.git_access(&work).await?;
    let renewed = app.mirror_renew(&access).await;
    renewed.map_err(|error| Error::unavailable(told("cannot fetch the repository", error).message))?;
    let heads = heads(app, &access, &plans).await;
    // Once for all plans: a fetch in between moves none of it.
    let targets = app.store.fleet_plan_targets(repository).await?;
    let default = if targets.iter().any(|target| target.moves(follows_head)) {
        app.git.resolve(&access, "HEAD").await.ok().map(|head| head.sha)
    } else {
        None
    };
    let stands = Stands { work: &work, access: &access, heads: &heads, targets: &targets, default };
    // Those that agents still answer take room, too.
    let mut made = plans.iter().filter(|plan| plan.phase == FleetPlanPhase::Asked).count();
    let (mut wait, mut later) = (None::<Duration>, None);
    for plan in &plans {
        // What one plan fails with does not hold up the others.
        match Box::pin(follow_one(app, &stands, plan, made < AT_ONCE)).await {
            Ok(Followed::Same) => {}
            Ok(Followed::Begun) => made += 1,
            Ok(Followed::Waits(pause)) => wait = Some(wait.map_or(pause, |wait| wait.min(pause))),
            Err(error) => later = Some(error),
        }
    }
    match (wait, later) {
        // The next run looks at what failed, too: those that wait are not given up with it.
        (Some(wait), Some(error)) => {
            tracing::warn!(%repository, error = error.log_text(), "a plan of services cannot be followed");
            Ok(Some((wait, heads)))
        }
        (None, Some(error)) => Err(error),
        (wait, None) => Ok(wait.map(|wait| (wait, heads))),
    }
}

/// What became of a plan.
enum Followed {
    /// It stands.
    Same,
    /// It is made again.
    Begun,
    /// It is made again when so much time has passed.
    Waits(Duration),
}

/// How a repository stands, read once for all of its plans.
struct Stands<'a> {
    work: &'a RepositoryWork,
    access: &'a GitAccess,
    heads: &'a BTreeMap<String, String>,
    targets: &'a [FleetTarget],
    /// The commit of `HEAD`, where a service follows that.
    default: Option<String>,
}

async fn follow_one(app: &App, stands: &Stands<'_>, plan: &FleetPlan, has_room: bool) -> Result<Followed> {
    let seen = plan.found.as_ref().and_then(FleetFound::looked_at);
    let Some((_, was_other)) = seen else { return Ok(Followed::Same) };
    let stood = app.now() - plan.created_at;
    let left = (REPLAN_AFTER - stood).to_std().unwrap_or_default();
    // It is made again anyway: where its branch is by then is looked at then.
    if was_other && !left.is_zero() {
        return Ok(Followed::Waits(left.max(NEXT)));
    }
    let moved = news(plan, stands.heads);
    let is_other = match moved {
        Some((branch, sha)) => Box::pin(would_be_other(app, stands, plan, (branch, sha))).await?,
        None => was_other,
    };
    if is_other && left.is_zero() && has_room {
        // Where another plan took its place meanwhile, that one stands.
        let has_begun = app.fleet_plan_renewed(plan).await?;
        return Ok(if has_begun { Followed::Begun } else { Followed::Same });
    }
    if let Some((_, sha)) = moved {
        let since = FleetSince { sha: sha.to_owned(), is_other };
        // Its host is told where that is news.
        let jobs = if is_other == was_other {
            Vec::new()
        } else {
            fleet_plan_tellers(plan.id, plan.repository_id, plan.pull_request_id)?
        };
        app.store.fleet_plan_since(plan.id, &since, &jobs, app.now()).await?;
    }
    Ok(if is_other { Followed::Waits(left.max(NEXT)) } else { Followed::Same })
}

/// Whether a plan would be about something else with its branch at this commit; also where there would be none.
async fn would_be_other(
    app: &App,
    stands: &Stands<'_>,
    plan: &FleetPlan,
    (branch, sha): (&str, &str),
) -> Result<bool> {
    let has_failed = plan.phase == FleetPlanPhase::Failed;
    let known = plan.found.as_ref().and_then(|found| found.about.as_deref());
    if known.is_none() && !has_failed {
        // A console of the release before made it, and kept nothing to compare.
        return Ok(true);
    }
    let about = async {
        let commit = head(app, stands.access, plan).await?;
        let at =
            Head { app, project: stands.work.repository.project_id, access: stands.access, commit: &commit };
        let base = Base { branch, sha: sha.to_owned(), has_moved_on: true };
        at.about_now((stands.targets, stands.default.as_deref()), &base).await
    };
    match about.await {
        Ok(now) => Ok(has_failed || now.as_deref() != known),
        // It fails as it did.
        Err(Stop::Told(why)) => Ok(!has_failed || plan.error.as_deref() != Some(why.as_str())),
        Err(Stop::Internal(error)) => Err(error),
    }
}

/// The commits of the branches that these plans are of; a branch that is gone has none.
async fn heads(app: &App, access: &GitAccess, plans: &[FleetPlan]) -> BTreeMap<String, String> {
    let mut heads = BTreeMap::new();
    for branch in plans.iter().filter_map(|plan| plan.base.as_deref()) {
        if !heads.contains_key(branch)
            && let Ok(commit) = app.git.resolve(access, branch).await
        {
            heads.insert(branch.to_owned(), commit.sha);
        }
    }
    heads
}

/// The branch of a plan and where it is, if that was not looked at.
fn news<'a>(plan: &'a FleetPlan, heads: &'a BTreeMap<String, String>) -> Option<(&'a str, &'a str)> {
    let branch = plan.base.as_deref()?;
    let (seen, _) = plan.found.as_ref()?.looked_at()?;
    let now = heads.get(branch)?;
    (now != seen).then_some((branch, now.as_str()))
}

#[cfg(test)]
mod tests {
    use plural_core::ids::{FleetPlanId, ProjectId};

    use super::*;

    #[test]
    fn a_commit_is_news_once() {
        let at = chrono::DateTime::UNIX_EPOCH;
        let plan = |since: Option<FleetSince>| FleetPlan {
            id: FleetPlanId::new(),
            project_id: ProjectId::new(),
            repository_id: RepositoryId::new(),
            pull_request_id: None,
            creator: String::new(),
            reference: "c0ffee".to_owned(),
            head_reference: None,
            base: Some("main".to_owned()),
            phase: FleetPlanPhase::Done,
            found: Some(FleetFound {
                sha: "c0ffee".to_owned(),
                message: String::new(),
                base_sha: Some("a".to_owned()),
                is_merged: false,
                untouched: 0,
                composed: 0,
                omitted: 0,
                deadline: at,
                about: None,
                since,
            }),
            error: None,
            preview: None,
            created_at: at,
            updated_at: at,
        };
        let heads = |sha: &str| BTreeMap::from([("main".to_owned(), sha.to_owned())]);
        let since = |sha: &str| Some(FleetSince { sha: sha.to_owned(), is_other: true });
        assert_eq!(news(&plan(None), &heads("a")), None);
        assert_eq!(news(&plan(None), &heads("b")), Some(("main", "b")));
        assert_eq!(news(&plan(since("b")), &heads("b")), None);
        // Back where it was, it is about that again.
        assert_eq!(news(&plan(since("b")), &heads("a")), Some(("main", "a")));
        assert_eq!(news(&plan(None), &BTreeMap::new()), None, "the branch is gone");
    }
}
