//! Reading objects of other people: nothing is missing, nothing panics.

use serde_json::Value;

use super::Health;

/// An object and the two parts of it that rules look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'v> {
    pub(super) object: &'v Value,
    pub(super) spec: &'v Value,
    pub(super) status: &'v Value,
}

impl<'v> View<'v> {
    pub(super) fn of(object: &'v Value) -> Self {
        Self { object, spec: &object["spec"], status: &object["status"] }
    }

    pub(super) fn condition(&self, kind: &str) -> Option<Condition<'v>> {
        condition(&self.status["conditions"], kind)
    }

    /// The condition, if it is `True`.
    pub(super) fn yes(&self, kind: &str) -> Option<Condition<'v>> {
        self.condition(kind).filter(Condition::is_true)
    }

    /// The condition, if it is `False`.
    pub(super) fn no(&self, kind: &str) -> Option<Condition<'v>> {
        self.condition(kind).filter(Condition::is_false)
    }

    pub(super) fn has_conditions(&self) -> bool {
        self.status["conditions"].as_array().is_some_and(|list| !list.is_empty())
    }

    pub(super) fn phase(&self) -> &'v str {
        text(&self.status["phase"])
    }

    pub(super) fn annotation(&self, name: &str) -> &'v str {
        text(&self.object["metadata"]["annotations"][name])
    }

    pub(super) fn generation(&self) -> i64 {
        number(&self.object["metadata"]["generation"], 0)
    }

    /// Progressing while the controller has not seen the newest spec. A controller that never says
    /// what it saw is believed.
    pub(super) fn behind(&self) -> Option<Health> {
        let seen = whole(&self.status["observedGeneration"])?;
        (seen < self.generation()).then(not_seen)
    }

    /// The same for a controller that always says what it saw: nothing said is nothing seen.
    pub(super) fn behind_or_silent(&self) -> Option<Health> {
        let seen = whole(&self.status["observedGeneration"]).unwrap_or(0);
        (seen < self.generation()).then(not_seen)
    }
}

fn not_seen() -> Health {
    Health::progressing("its controller has not seen the change yet")
}

/// One entry of a list of conditions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition<'v> {
    pub(super) status: &'v str,
    pub(super) reason: &'v str,
    pub(super) message: &'v str,
    generation: Option<i64>,
}

impl Condition<'_> {
    pub(super) fn is_true(&self) -> bool {
        self.status == "True"
    }

    pub(super) fn is_false(&self) -> bool {
        self.status == "False"
    }

    /// It speaks of an older spec than the object's.
    pub(super) fn is_behind(&self, view: &View<'_>) -> bool {
        self.generation.is_some_and(|seen| seen < view.generation())
    }

    /// Its message and reason, or `fallback` when it has no message.
    pub(super) fn why(&self, fallback: &str) -> String {
        let message = if self.message.trim().is_empty() { fallback } else { self.message.trim() };
        if self.reason.is_empty() || message.contains(self.reason) {
            message.to_owned()
        } else {
            format!("{message} ({})", self.reason)
        }
    }
}

/// The condition of this type in a list of them.
pub(super) fn condition<'v>(list: &'v Value, kind: &str) -> Option<Condition<'v>> {
    let found = list.as_array()?.iter().find(|condition| condition["type"] == kind)?;
    Some(Condition {
        status: text(&found["status"]),
        reason: text(&found["reason"]),
        message: text(&found["message"]),
        generation: whole(&found["observedGeneration"]),
    })
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The text, or `fallback` when there is none.
pub(super) fn text_or<'v>(value: &'v Value, fallback: &'v str) -> &'v str {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(fallback)
}

pub(super) fn number(value: &Value, default: i64) -> i64 {
    value.as_i64().unwrap_or(default)
}

/// A whole number, also when it is written as text.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}

pub(super) fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(super) fn strings(value: &Value) -> Vec<&str> {
    items(value).filter_map(Value::as_str).collect()
}
