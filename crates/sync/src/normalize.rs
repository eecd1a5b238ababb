//! Fields of an object that are not ours to decide: left out of every comparison, and sent in a way that
//! changes nothing.

use plural_core::pattern::matches;
use plural_core::specs::DiffNormalizer;
use serde_json::Value;

use crate::{directive::Directives, fields, key::ObjectKey, pointer::Pointer};

/// What holds for one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    ignore: Vec<Pointer>,
    backfill: Vec<Pointer>,
    managers: Vec<String>,
}

/// Whether it is of this object. An empty or `*` name, kind or namespace matches all; within one, `*` stands for any run of
/// characters.
fn concerns(normalizer: &DiffNormalizer, key: &ObjectKey) -> bool {
    let DiffNormalizer { name, kind, namespace, json_pointers: _, backfill: _, managers: _ } = normalizer;
    [(name, &key.name), (kind, &key.kind.kind), (namespace, &key.namespace)]
        .into_iter()
        .all(|(pattern, text)| pattern.as_deref().is_none_or(|p| p.is_empty() || matches(p, text)))
}

/// Pointers that are none.
pub(crate) fn misunderstood(normalizers: &[DiffNormalizer]) -> impl Iterator<Item = &str> {
    let pointers = normalizers.iter().flat_map(|normalizer| &normalizer.json_pointers);
    pointers.map(String::as_str).filter(|text| Pointer::parse(text).is_none())
}

impl Rules {
    pub(crate) fn of(key: &ObjectKey, normalizers: &[DiffNormalizer], directives: &Directives) -> Self {
        let mut rules = Self {
            ignore: directives.ignore.clone(),
            backfill: directives.backfill.clone(),
            managers: directives.ignore_managers.clone(),
        };
        for normalizer in normalizers.iter().filter(|normalizer| concerns(normalizer, key)) {
            let pointers = normalizer.json_pointers.iter().filter_map(|text| Pointer::parse(text));
            let into = if normalizer.backfill { &mut rules.backfill } else { &mut rules.ignore };
            into.extend(pointers);
            rules.managers.extend(normalizer.managers.iter().cloned());
        }
        rules
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ignore.is_empty() && self.backfill.is_empty() && self.managers.is_empty()
    }

    /// Takes out what is not compared; on both sides of a comparison.
    pub(crate) fn strip(&self, value: &mut Value) {
        for pointer in self.ignore.iter().chain(&self.backfill) {
            pointer.remove(value);
        }
    }

    /// Takes out what the managers own; `live` says what that is.
    pub(crate) fn strip_managed(&self, live: &Value, value: &mut Value) {
        if !self.managers.is_empty() {
            fields::strip_owned(live, &self.managers, value);
        }
    }

    /// Makes `desired` what may be sent when `live` is there.
    pub(crate) fn fit(&self, desired: &mut Value, live: Option<&Value>) {
        let Some(live) = live else {
            for pointer in &self.ignore {
                pointer.remove(desired);
            }
            return;
        };
        for pointer in &self.backfill {
            pointer.copy(live, desired);
        }
        for pointer in &self.ignore {
            fields::leave_alone(pointer, live, desired);
        }
        self.strip_managed(live, desired);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn backfill_takes_the_live_value_and_ignoring_sends_none() {
        let key: ObjectKey = "apps/Deployment/ns/web".parse().unwrap();
        let normalizers = [
            DiffNormalizer {
                kind: Some("Deployment".to_owned()),
                json_pointers: vec!["/spec/replicas".to_owned()],
                backfill: true,
                ..DiffNormalizer::default()
            },
            DiffNormalizer {
                name: Some("w*".to_owned()),
                json_pointers: vec!["/spec/paused".to_owned()],
                ..DiffNormalizer::default()
            },
            DiffNormalizer {
                kind: Some("Service".to_owned()),
                json_pointers: vec!["/spec".to_owned()],
                ..DiffNormalizer::default()
            },
        ];
        let rules = Rules::of(&key, &normalizers, &Directives::default());
        let desired = json!({"spec": {"replicas": 1, "paused": true, "x": 1}});
        let mut sent = desired.clone();
        rules.fit(&mut sent, None);
        assert_eq!(sent, json!({"spec": {"replicas": 1, "x": 1}}));
        let mut sent = desired.clone();
        rules.fit(&mut sent, Some(&json!({"spec": {"replicas": 9, "paused": false}})));
        assert_eq!(sent, json!({"spec": {"replicas": 9, "x": 1}}));
        let mut compared = desired;
        rules.strip(&mut compared);
        assert_eq!(compared, json!({"spec": {"x": 1}}));
    }
}
