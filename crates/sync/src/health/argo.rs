//! The Argo projects: Rollouts, CD, Workflows, Events.

use super::{
    Health, HealthStatus, conditions,
    read::{View, items, number, text, text_or},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    Some(match kind {
        "Rollout" => rollout(view),
        "AnalysisRun" | "Experiment" => analysis(view),
        "Application" => application(view),
        "ApplicationSet" => application_set(view),
        "Workflow" => workflow(view),
        "CronWorkflow" if view.spec["suspend"] == true => Health::suspended("it is suspended"),
        "Sensor" | "EventSource" | "EventBus" => all_conditions(view),
        _ => return None,
    })
}

fn rollout(view: &View<'_>) -> Health {
    let View { spec, status, .. } = view;
    if status["abort"] == true {
        let why = text_or(&status["message"], "a person or an analysis stopped it");
        return Health::degraded(format!("the rollout was aborted: {why}"));
    }
    if spec["paused"] == true {
        return Health::suspended("the rollout is paused");
    }
    if let Some(behind) = view.behind() {
        return behind;
    }
    if let Some(pause) = items(&status["pauseConditions"]).next() {
        return Health::suspended(format!(
            "the rollout is waiting for promotion ({})",
            text_or(&pause["reason"], "paused")
        ));
    }
    if let Some(invalid) = view.yes("InvalidSpec") {
        return Health::degraded(invalid.why("its specification is invalid"));
    }
    if let Some(progress) = view.no("Progressing")
        && matches!(progress.reason, "ProgressDeadlineExceeded" | "RolloutAborted")
    {
        return Health::degraded(progress.why("the rollout did not finish in time"));
    }
    let message = text(&status["message"]);
    match view.phase() {
        "Healthy" => Health::healthy(),
        "Degraded" => Health::degraded(text_or(&status["message"], "the rollout is degraded")),
        "Paused" => Health::suspended(text_or(&status["message"], "the rollout is waiting for promotion")),
        "Progressing" => Health::progressing(text_or(&status["message"], "the rollout is in progress")),
        // Older controllers say no phase.
        _ => {
            let wanted = number(&spec["replicas"], 1);
            let (updated, available) =
                (number(&status["updatedReplicas"], 0), number(&status["availableReplicas"], 0));
            if updated < wanted {
                Health::progressing(format!("{updated} of {wanted} replicas are updated"))
            } else if available < wanted {
                Health::progressing(format!("{available} of {wanted} replicas are available"))
            } else if message.is_empty() {
                Health::healthy()
            } else {
                Health::remark(message)
            }
        }
    }
}

fn analysis(view: &View<'_>) -> Health {
    let why = |fallback| text_or(&view.status["message"], fallback).to_owned();
    match view.phase() {
        "Successful" => Health::healthy(),
        "Failed" => Health::degraded(why("the analysis failed")),
        "Error" => Health::degraded(why("the analysis could not be made")),
        "Inconclusive" => Health::unknown(why("the analysis is inconclusive")),
        _ => Health::progressing(why("the analysis runs")),
    }
}

fn application(view: &View<'_>) -> Health {
    let operation = &view.status["operationState"];
    if matches!(text(&operation["phase"]), "Error" | "Failed") {
        return Health::degraded(text_or(&operation["message"], "its last sync failed"));
    }
    let said = &view.status["health"];
    let message = text(&said["message"]);
    match HealthStatus::parse(text(&said["status"])) {
        Some(status) => Health::new(status, message),
        None => Health::progressing("the application has not been reconciled yet"),
    }
}

fn application_set(view: &View<'_>) -> Health {
    if let Some(error) = view.yes("ErrorOccurred") {
        return Health::degraded(error.why("its applications could not be made"));
    }
    match view.condition("ResourcesUpToDate") {
        Some(found) if found.is_true() => Health::healthy(),
        Some(found) => Health::progressing(found.why("its applications are not up to date")),
        None => Health::progressing("it has not been reconciled yet"),
    }
}

fn workflow(view: &View<'_>) -> Health {
    if view.spec["suspend"] == true && !matches!(view.phase(), "Succeeded" | "Failed" | "Error") {
        return Health::suspended("the workflow is suspended");
    }
    let why = |fallback| text_or(&view.status["message"], fallback).to_owned();
    match view.phase() {
        "Succeeded" => Health::healthy(),
        "Failed" | "Error" => Health::degraded(why("the workflow failed")),
        _ => Health::progressing(why("the workflow runs")),
    }
}

/// Every condition is one that should be true.
fn all_conditions(view: &View<'_>) -> Health {
    if !view.has_conditions() {
        return Health::progressing("it has not been reconciled yet");
    }
    for found in items(&view.status["conditions"]) {
        let kind = text(&found["type"]);
        if let Some(condition) = view.condition(kind).filter(|condition| !condition.is_true()) {
            return match conditions::by_condition(view, kind, &condition) {
                health if condition.is_false() => Health::degraded(health.message),
                health => health,
            };
        }
    }
    Health::healthy()
}
