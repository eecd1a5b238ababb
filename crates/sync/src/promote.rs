//! Canaries that wait: what a person says of them is told to their controller, once.
//!
//! Only Argo's Rollouts are told here: Flagger asks, and a gate of the console answers.

use serde_json::{Value, json};

use crate::{
    api::{Api, ApiError},
    engine::Engine,
    key::ObjectKey,
    ownership,
    target::{Outcome, Promoted, Promotion, PromotionAction, Target},
};

/// Of a pause that an analysis without a result made.
const INCONCLUSIVE: &str = "InconclusiveAnalysisRun";

/// Stands until it is known what came of it: an agent that is killed meanwhile says it again to nobody.
const UNKNOWN: &str =
    "the agent stopped before it knew the result; check the Rollouts, and retry where they are still waiting";
/// Looks at a Rollout that somebody writes at the same time.
const LOOKS: usize = 5;

impl Engine {
    /// Tells the service's Rollouts what a person said of them, unless that was done before. What came of the last word.
    ///
    /// It needs nothing but the record of what the service owns: neither that what git says now can be rendered, nor that a
    /// sync goes on.
    pub async fn promote(&self, target: &Target) -> Option<Promoted> {
        let known = self.inner().with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            (known.run.promoted.clone(), known.recorded.clone())
        });
        let (before, recorded) = known;
        let wanted = target.promotion.as_ref().filter(|_| !target.paused && !target.dry_run);
        let Some(promotion) =
            wanted.filter(|wanted| before.as_ref().is_none_or(|before| before.id != wanted.id))
        else {
            return before;
        };
        let said = |problems| Promoted { id: promotion.id.clone(), problems };
        // Noted before it is done: to say it again is better than to skip a step that nobody looked at.
        if !self.note(target, said(vec![UNKNOWN.to_owned()])).await {
            self.inner().with_state(|state| {
                state.services.entry(target.id).or_default().run.promoted.clone_from(&before);
            });
            return before;
        }
        let Some(action) = promotion.action else {
            let done =
                said(vec!["this agent does not know the requested action; update the agent".to_owned()]);
            self.note(target, done.clone()).await;
            return Some(done);
        };
        let api = self.inner().api.acting_as(target.user().as_deref());
        let bounds = self.bounds(target);
        if let Some(problem) = bounds.account_problem() {
            let done = said(vec![problem]);
            self.note(target, done.clone()).await;
            return Some(done);
        }
        let (mut problems, mut nobody) = (Vec::new(), promotion.gates == 0);
        for key in recorded.iter().filter(|key| chosen(promotion, key)) {
            let told = match bounds.problem(key) {
                Some(problem) => Err(problem),
                None => self.tell(&api, target, key, action).await.map_err(|error| error.to_string()),
            };
            match told {
                Ok(told) => nobody &= !told,
                Err(error) => {
                    nobody = false;
                    problems.push(format!("cannot update {}: {error}; retry", key.words()));
                }
            }
        }
        if nobody {
            problems.push(match action {
                PromotionAction::Proceed => {
                    "no Rollout or Canary of this service is waiting for promotion".to_owned()
                }
                PromotionAction::Rollback => {
                    "no Rollout or Canary of this service can be rolled back now".to_owned()
                }
            });
        }
        let done = said(problems);
        // Where this is lost, what was noted before says that it is not known.
        self.note(target, done.clone()).await;
        Some(done)
    }

    /// Whether the record says it now.
    async fn note(&self, target: &Target, promoted: Promoted) -> bool {
        let recorded = self.inner().with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            known.run.promoted = Some(promoted);
            known.recorded.clone()
        });
        self.record(target, recorded, &mut Outcome::default()).await
    }

    /// Whether there was something to tell it. What it is told holds for what was seen only: when somebody writes in between,
    /// or the answer is lost, it is looked at again.
    async fn tell(
        &self,
        api: &Api,
        target: &Target,
        key: &ObjectKey,
        action: PromotionAction,
    ) -> Result<bool, ApiError> {
        let Some(resource) = self.inner().discovery.preferred(api, &key.kind).await? else {
            return Ok(false);
        };
        let path = resource.object(key);
        let mut first = None;
        for look in 1.. {
            let live = match api.get(&path).await {
                Err(error) if error.is_not_found() => return Ok(false),
                other => other?,
            };
            // A record outlives what it names: somebody else's is left alone.
            if ownership::mark(&live, key).is_none_or(|mark| mark.service != Some(target.id)) {
                return Ok(false);
            }
            let pause = pause_of(&live);
            // Another step than the person saw: it went on, by this word or without it.
            if first.get_or_insert_with(|| pause.clone()) != &pause {
                return Ok(true);
            }
            let Some(status) = news(&live, action) else { return Ok(false) };
            let version = &live["metadata"]["resourceVersion"];
            let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
            let sent = match api.merge(&format!("{path}/status"), &patch).await {
                // Old definitions have no status of its own.
                Err(error) if error.is_not_found() => api.merge(&path, &patch).await,
                other => other,
            };
            match sent {
                Ok(_) => return Ok(true),
                Err(error) if error.code() == 409 && look < LOOKS => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// What tells one pause of a Rollout from another.
fn pause_of(live: &Value) -> (Value, Value, Value) {
    let status = &live["status"];
    (status["pauseConditions"].clone(), status["currentStepIndex"].clone(), status["abort"].clone())
}

fn chosen(promotion: &Promotion, key: &ObjectKey) -> bool {
    key.kind.group == "argoproj.io"
        && key.kind.kind == "Rollout"
        && (promotion.objects.is_empty() || promotion.objects.contains(key))
}

/// What changes of a Rollout's status; `None` when it is not in a state for that.
fn news(live: &Value, action: PromotionAction) -> Option<Value> {
    let status = &live["status"];
    let pauses = status["pauseConditions"].as_array().map_or(&[][..], Vec::as_slice);
    match action {
        PromotionAction::Proceed if pauses.is_empty() => None,
        PromotionAction::Proceed if pauses.iter().any(|pause| pause["reason"] == INCONCLUSIVE) => {
            let step = status["currentStepIndex"].as_i64().unwrap_or(0);
            Some(json!({"pauseConditions": null, "controllerPause": false, "currentStepIndex": step + 1}))
        }
        PromotionAction::Proceed => Some(json!({"pauseConditions": null})),
        PromotionAction::Rollback => {
            let moving = matches!(status["phase"].as_str(), Some("Progressing" | "Paused"));
            let under_way = !pauses.is_empty() || moving;
            (under_way && status["abort"] != true).then(|| json!({"abort": true}))
        }
    }
}
