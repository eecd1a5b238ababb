//! Any kind with conditions, by the conventions that kstatus reads.

use super::{
    Health,
    read::{Condition, View, text_or},
};

/// Conditions that say "it does what it should" when they are true, in the order of their weight.
const GOOD: [&str; 7] = ["Ready", "Available", "Healthy", "Succeeded", "Complete", "Programmed", "Accepted"];

pub(super) fn health(view: &View<'_>) -> Health {
    if let Some(behind) = view.behind() {
        return behind;
    }
    if let Some(stalled) = view.yes("Stalled") {
        return Health::degraded(stalled.why("it is stalled"));
    }
    if let Some(failed) = view.yes("Failed") {
        return Health::degraded(failed.why("it failed"));
    }
    if let Some(busy) = view.yes("Reconciling") {
        return Health::progressing(busy.why("it is being reconciled"));
    }
    for kind in GOOD {
        if let Some(found) = view.condition(kind) {
            return by_condition(view, kind, &found);
        }
    }
    // No condition: some kinds say it in one word.
    match view.phase().to_ascii_lowercase().as_str() {
        "failed" | "error" => Health::degraded(text_or(&view.status["message"], "its phase is Failed")),
        "pending" | "creating" | "provisioning" | "initializing" | "progressing" | "terminating" => {
            Health::progressing(text_or(&view.status["message"], &format!("its phase is {}", view.phase())))
        }
        _ => Health::healthy(),
    }
}

/// One condition that is good when it is true.
pub(super) fn by_condition(view: &View<'_>, kind: &str, found: &Condition<'_>) -> Health {
    if found.is_behind(view) {
        return Health::progressing("its controller has not seen the change yet");
    }
    let why = || found.why(&format!("{kind} is {}", found.status));
    if found.is_true() {
        Health::healthy()
    } else if found.is_false() && says_failure(found.reason) {
        Health::degraded(why())
    } else {
        Health::progressing(why())
    }
}

/// Whether a reason is a failure's. A condition that is false for any other reason may yet become true.
pub(super) fn says_failure(reason: &str) -> bool {
    ["Failed", "Failure", "Error", "Denied", "Rejected", "Forbidden", "NotFound", "Misconfigured"]
        .iter()
        .any(|ending| reason.ends_with(ending))
        || reason.starts_with("Invalid")
        || reason.starts_with("Failed")
}
