//! Canaries that wait: what a person says of them is told to their controller, once.
//!
//! Only Argo's Rollouts can be told: where a Flagger Canary waits, a web hook of its own decides.

use serde_json::{Value, json};

use crate::{
    api::{Api, ApiError},
    engine::Engine,
    key::ObjectKey,
    target::{Outcome, Part, Promotion, PromotionAction, Target},
};

/// Of a pause that an analysis without a result made.
const INCONCLUSIVE: &str = "InconclusiveAnalysisRun";

impl Engine {
    /// Tells the service's Rollouts what a person said of them, unless that was done before.
    pub(crate) async fn promote(&self, target: &Target, outcome: &mut Outcome) {
        let Some(promotion) = target.promotion.as_ref().filter(|_| !target.paused) else { return };
        let noted = self.inner().with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            let before = std::mem::replace(&mut known.run.request_done, promotion.id.clone());
            (before != promotion.id).then(|| (before, known.recorded.clone()))
        });
        let Some((before, recorded)) = noted else {
            outcome.request_done = Some(promotion.id.clone());
            return;
        };
        let rollouts: Vec<ObjectKey> =
            recorded.iter().filter(|key| chosen(promotion, key)).cloned().collect();
        // Noted before it is done: to say it again is better than to skip a step that nobody looked at.
        if !self.record(target, recorded, outcome).await {
            self.inner().with_state(|state| {
                state.services.entry(target.id).or_default().run.request_done = before;
            });
            return;
        }
        outcome.request_done = Some(promotion.id.clone());
        let api = self.inner().api.acting_as(target.user().as_deref());
        let mut nobody = true;
        for key in rollouts {
            match self.tell(&api, &key, promotion.action).await {
                Ok(told) => nobody &= !told,
                Err(error) => {
                    nobody = false;
                    // It is no reason to stop a sync.
                    let message = format!("cannot tell {}: {error}; say it again", key.words());
                    outcome.warn(Part::Sync, message, String::new());
                }
            }
        }
        if nobody {
            let words = match promotion.action {
                PromotionAction::Proceed => "no Rollout of the service waits to be promoted",
                PromotionAction::Rollback => "no Rollout of the service is under way",
            };
            outcome.warn(Part::Sync, words.to_owned(), String::new());
        }
    }

    /// Whether there was something to tell it.
    async fn tell(&self, api: &Api, key: &ObjectKey, action: PromotionAction) -> Result<bool, ApiError> {
        let Some(resource) = self.inner().discovery.preferred(api, &key.kind).await? else {
            return Ok(false);
        };
        let path = resource.object(key);
        let live = match api.get(&path).await {
            Err(error) if error.is_not_found() => return Ok(false),
            other => other?,
        };
        let Some(status) = news(&live, action) else { return Ok(false) };
        let patch = json!({"status": status});
        match api.merge(&format!("{path}/status"), &patch).await {
            // Old definitions have no status of its own.
            Err(error) if error.is_not_found() => api.merge(&path, &patch).await?,
            other => other?,
        };
        Ok(true)
    }
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
