//! What a sync would do at another commit of a service's repository: somebody asks before it is merged. Each question is answered once,
//! and nothing is written for it.

use std::sync::Arc;

use plural_core::ids::ServiceId;
use plural_sync::{Engine, Target};
use plural_tunnel::v1;

use crate::{
    agent::Core,
    config::Parts,
    inbox::{Wake, Why},
    reconcile::{first_error, sync_errors},
    render::{Made, Obstacle, Sight, rendered_with},
    report,
};

/// Questions about one service that are answered; a console asks fewer.
const MOST: usize = 8;

/// The questions that are not answered yet.
pub(crate) fn asked<'s>(
    service: &'s v1::Service,
    told: &[v1::CandidatePlan],
) -> impl Iterator<Item = &'s v1::PlanCandidate> {
    let is_new = move |candidate: &&v1::PlanCandidate| !told.iter().any(|told| answers(told, candidate));
    service.candidates.iter().take(MOST).filter(is_new)
}

fn answers(told: &v1::CandidatePlan, candidate: &v1::PlanCandidate) -> bool {
    told.plan.as_ref().is_some_and(|plan| plan.request_id == candidate.id)
}

/// Answers to what is still asked.
fn still_asked(service: &v1::Service, mut told: Vec<v1::CandidatePlan>) -> Vec<v1::CandidatePlan> {
    told.retain(|told| service.candidates.iter().any(|candidate| answers(told, candidate)));
    told
}

/// What was answered before of what is still asked.
pub(crate) fn known(core: &Core, id: ServiceId, service: &v1::Service) -> Vec<v1::CandidatePlan> {
    if service.candidates.is_empty() {
        return Vec::new();
    }
    still_asked(service, core.lasts.get(id).map(|last| last.told.candidates).unwrap_or_default())
}

/// Has questions answered once the service was looked at.
pub(crate) fn wake(core: &Core, id: ServiceId, service: &v1::Service) {
    if asked(service, &known(core, id, service)).next().is_some() {
        core.inbox.wake([id], Wake { why: Why::Plan, ..Wake::default() });
    }
}

/// Answers to all that is asked; those that are known stay as they are.
pub(crate) async fn plans(
    by: (&Arc<Core>, &Engine),
    id: ServiceId,
    service: &Arc<v1::Service>,
    target: &Target,
    known: Vec<v1::CandidatePlan>,
) -> Vec<v1::CandidatePlan> {
    let mut plans = still_asked(service, known);
    let new: Vec<v1::PlanCandidate> = asked(service, &plans).cloned().collect();
    for candidate in new {
        plans.push(plan(by, id, service, target, candidate).await);
    }
    plans
}

async fn plan(
    (core, engine): (&Arc<Core>, &Engine),
    id: ServiceId,
    service: &Arc<v1::Service>,
    target: &Target,
    candidate: v1::PlanCandidate,
) -> v1::CandidatePlan {
    let v1::PlanCandidate { id: request_id, artifact_digest, folder, source_root, commit_sha } = candidate;
    let other = Arc::new(v1::Service {
        artifact_digest,
        folder,
        source_root,
        commit_sha,
        plan_request_id: String::new(),
        candidates: Vec::new(),
        ..v1::Service::clone(service)
    });
    // What was asked to be done once is no part of the question; and a dry run keeps what is looked at last for the one of its own.
    let target = Target { dry_run: false, request: None, promotion: None, ..target.clone() };
    let revision_id = service.revision_id.clone();
    let sight = (&target, Sight::OwnNamespace);
    let mut answer = match rendered_with((core, engine), id, &other, sight, &mut Parts::default()).await {
        Ok(Made { rendered, hold, holds_secrets: _ }) => {
            let outcome = engine.plan(&target, rendered.objects).await;
            drop(hold);
            let problems = sync_errors(&outcome).filter(|problem| !problem.warning).collect();
            match outcome.plan {
                Some(plan) => {
                    let plan = report::plan(plan, &request_id, &revision_id);
                    v1::CandidatePlan { plan: Some(plan), problems }
                }
                None => no_plan(request_id, revision_id, first_error(&outcome)),
            }
        }
        Err(obstacle) => no_plan(request_id, revision_id, words(&obstacle)),
    };
    if let Some(hider) = core.secrets.hider(id) {
        hider.candidate(&mut answer);
    }
    answer
}

fn no_plan(request_id: String, revision_id: String, error: String) -> v1::CandidatePlan {
    let plan = v1::SyncPlan { request_id, revision_id, error, ..v1::SyncPlan::default() };
    v1::CandidatePlan { plan: Some(plan), problems: Vec::new() }
}

/// The first of what is wrong.
fn words(obstacle: &Obstacle) -> String {
    let Obstacle { source, problems, retry: _ } = obstacle;
    match problems.first() {
        None => format!("{source}: it cannot be rendered"),
        Some((message, place)) if place.is_empty() => format!("{source}: {message}"),
        Some((message, place)) => format!("{source}: {place}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: &str) -> v1::PlanCandidate {
        v1::PlanCandidate { id: id.to_owned(), ..v1::PlanCandidate::default() }
    }

    #[test]
    fn what_was_answered_is_not_asked_again() {
        let service =
            v1::Service { candidates: vec![candidate("a"), candidate("b")], ..v1::Service::default() };
        let told = ["b", "gone"].map(|id| no_plan(id.to_owned(), String::new(), "no".to_owned()));
        let left: Vec<&str> = asked(&service, &told).map(|candidate| candidate.id.as_str()).collect();
        assert_eq!(left, ["a"]);
        let kept = still_asked(&service, told.to_vec());
        assert_eq!(kept, [no_plan("b".to_owned(), String::new(), "no".to_owned())]);
    }

    #[test]
    fn no_more_than_so_many_are_answered() {
        let candidates = (0..20).map(|number| candidate(&number.to_string())).collect();
        let service = v1::Service { candidates, ..v1::Service::default() };
        assert_eq!(asked(&service, &[]).count(), MOST);
    }
}
