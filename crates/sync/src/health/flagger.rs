//! Flagger.

use super::{
    Health,
    read::{View, condition, number},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    (kind == "Canary").then(|| canary(view))
}

fn canary(view: &View<'_>) -> Health {
    if view.spec["suspend"] == true {
        return Health::suspended("the canary is suspended");
    }
    let said = condition(&view.status["conditions"], "Promoted");
    let why = |fallback: &str| said.map_or_else(|| fallback.to_owned(), |said| said.why(fallback));
    match view.phase() {
        "Initialized" | "Succeeded" => Health::healthy(),
        "Failed" => Health::degraded(why("the canary failed its analysis; the primary stays as it was")),
        "Waiting" => Health::suspended(why("the canary waits for a confirmation to begin")),
        "WaitingPromotion" => Health::suspended(why("the canary waits for a confirmation to be promoted")),
        "Terminated" | "Terminating" => Health::progressing("the canary is being removed"),
        "" => Health::progressing("the canary has not been reconciled yet"),
        "Progressing" => Health::progressing(format!(
            "the canary has {} % of the traffic",
            number(&view.status["canaryWeight"], 0)
        )),
        phase => Health::progressing(why(&format!("its phase is {phase}"))),
    }
}
