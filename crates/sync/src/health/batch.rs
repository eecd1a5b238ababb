//! Job and CronJob.

use super::{
    Health,
    read::{View, items, number, text},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    Some(match kind {
        "Job" => job(view),
        "CronJob" => cron_job(view),
        _ => return None,
    })
}

fn job(view: &View<'_>) -> Health {
    for (kind, fallback) in [("Failed", "the job failed"), ("FailureTarget", "the job is failing")] {
        if let Some(found) = view.yes(kind) {
            return Health::degraded(found.why(fallback));
        }
    }
    if view.yes("Complete").is_some() {
        return Health::healthy();
    }
    if view.spec["suspend"] == true || view.yes("Suspended").is_some() {
        return Health::suspended("the job is suspended");
    }
    let (active, failed) = (number(&view.status["active"], 0), number(&view.status["failed"], 0));
    let done = number(&view.status["succeeded"], 0);
    let mut words = match (active, done) {
        (0, 0) => "the job has not finished".to_owned(),
        (_, 0) => "the job runs".to_owned(),
        _ => format!("the job runs; {done} of {} are done", number(&view.spec["completions"], 1)),
    };
    if failed > 0 {
        words = format!("{words}; {failed} of its Pods failed so far");
    }
    Health::progressing(words)
}

fn cron_job(view: &View<'_>) -> Health {
    if view.spec["suspend"] == true {
        return Health::suspended("it is suspended: no job is started");
    }
    if items(&view.status["active"]).next().is_some() {
        return Health::remark("a job of it runs now");
    }
    // Both are times in RFC 3339 in UTC with whole seconds, so they compare as text.
    let (started, succeeded) =
        (text(&view.status["lastScheduleTime"]), text(&view.status["lastSuccessfulTime"]));
    if started.is_empty() {
        return Health::remark("it has not been due yet");
    }
    if succeeded < started {
        return Health::degraded(format!("its last job, due at {started}, did not succeed"));
    }
    Health::healthy()
}
