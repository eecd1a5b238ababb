//! Health rules that people wrote: `CustomHealth` objects of the cluster.

use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::Value;

use super::{Health, health, leaving, read::View, read::text, script};
use crate::key::GroupKind;

/// How long a script that burned all its steps is left alone, in milliseconds.
const REST_MS: i64 = 60_000;

/// One rule: which kind it is for, and its script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Name of the `CustomHealth`, for messages.
    pub name: String,
    /// API group; "" is the core group, `*` any.
    pub group: String,
    /// Version that an object must be read in; "" is any.
    pub version: String,
    /// Kind; `*` is any.
    pub kind: String,
    /// The script, in Lua.
    pub script: String,
}

impl Rule {
    /// The rule that a `CustomHealth` asks for; nothing when it asks for none.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let spec = &object["spec"];
        let kind = text(&spec["kind"]);
        let script = text(&spec["script"]);
        if kind.is_empty() || script.trim().is_empty() {
            return None;
        }
        Some(Self {
            name: text(&object["metadata"]["name"]).to_owned(),
            group: text(&spec["group"]).to_owned(),
            version: text(&spec["version"]).to_owned(),
            kind: kind.to_owned(),
            script: script.to_owned(),
        })
    }

    fn is_for(&self, kind: &GroupKind) -> bool {
        (self.kind == "*" || self.kind == kind.kind) && (self.group == "*" || self.group == kind.group)
    }

    /// The more exactly a rule names what it is for, the earlier it is asked.
    fn vagueness(&self) -> usize {
        usize::from(self.kind == "*") * 4
            + usize::from(self.group == "*") * 2
            + usize::from(self.version.is_empty())
    }
}

#[derive(Debug)]
struct Entry {
    rule: Rule,
    /// Not run before this time, in milliseconds since 1970.
    rests_until: AtomicI64,
}

/// All rules of a cluster, those that people wrote before the built-in ones.
#[derive(Debug, Default)]
pub struct Rules {
    entries: Vec<Entry>,
}

impl Rules {
    /// These rules. Of two that are for the same kind, the one that says it more exactly is asked,
    /// else the one whose name comes first.
    pub fn new(mut rules: Vec<Rule>) -> Self {
        rules.sort_by(|a, b| (a.vagueness(), &a.name).cmp(&(b.vagueness(), &b.name)));
        let entry = |rule| Entry { rule, rests_until: AtomicI64::new(0) };
        Self { entries: rules.into_iter().map(entry).collect() }
    }

    /// Whether these are the same rules.
    pub(crate) fn is_the_same(&self, other: &Self) -> bool {
        let same = |(ours, theirs): (&Entry, &Entry)| ours.rule == theirs.rule;
        self.entries.len() == other.entries.len() && self.entries.iter().zip(&other.entries).all(same)
    }

    /// Whether there may be a script for this kind.
    pub(crate) fn has_script_for(&self, kind: &GroupKind) -> bool {
        self.entries.iter().any(|entry| entry.rule.is_for(kind))
    }

    /// The rules for this kind, to see whether they changed.
    pub(crate) fn of_kind(&self, kind: &GroupKind) -> Vec<&Rule> {
        self.entries.iter().map(|entry| &entry.rule).filter(|rule| rule.is_for(kind)).collect()
    }

    /// The health of a live object of this kind. `clock_ms` is the time that scripts see.
    ///
    /// A script that fails makes this object's health Unknown, with the reason, and nothing else.
    pub fn health(&self, kind: &GroupKind, object: &Value, clock_ms: i64) -> Health {
        let version = text(&object["apiVersion"]).rsplit('/').next().unwrap_or_default();
        let entry = self.entries.iter().find(|entry| {
            let rule = &entry.rule;
            rule.is_for(kind) && (rule.version.is_empty() || version.is_empty() || rule.version == version)
        });
        let Some(Entry { rule, rests_until }) = entry else { return health(kind, object) };
        if let Some(leaving) = leaving(&View::of(object)) {
            return leaving;
        }
        if rests_until.load(Ordering::Relaxed) > clock_ms {
            return Health::unknown(format!(
                "CustomHealth {}: its script used up what it may use, and is not run for a while",
                rule.name
            ));
        }
        script::run(&rule.script, object, clock_ms).unwrap_or_else(|error| {
            if error.is_exhaustion() {
                // A script without end must not stop the work once for every object of the kind.
                rests_until.store(clock_ms.saturating_add(REST_MS), Ordering::Relaxed);
            }
            Health::unknown(format!("CustomHealth {}: {error}", rule.name))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::health::HealthStatus;

    fn rule(name: &str, group: &str, version: &str, kind: &str, status: &str) -> Rule {
        Rule {
            name: name.to_owned(),
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            script: format!("healthStatus = {{status = {status:?}, message = {name:?}}}"),
        }
    }

    fn ask(rules: &Rules, api_version: &str, kind: &str) -> Health {
        let (group_kind, _) = GroupKind::parse(api_version, kind);
        rules.health(&group_kind, &json!({"apiVersion": api_version, "kind": kind, "metadata": {}}), 1_000)
    }

    #[test]
    fn the_most_exact_rule_is_asked() {
        let rules = Rules::new(vec![
            rule("all", "*", "", "*", "Suspended"),
            rule("kind", "example.org", "", "Widget", "Progressing"),
            rule("version", "example.org", "v2", "Widget", "Degraded"),
            rule("core", "", "", "ConfigMap", "Missing"),
        ]);
        assert_eq!(ask(&rules, "example.org/v1", "Widget").message, "kind");
        assert_eq!(ask(&rules, "example.org/v2", "Widget").message, "version");
        assert_eq!(ask(&rules, "example.org/v2", "Gadget").message, "all");
        assert_eq!(ask(&rules, "v1", "ConfigMap").message, "core");
        let (widget, _) = GroupKind::parse("example.org/v1", "Widget");
        assert_eq!(rules.of_kind(&widget).len(), 3);
        assert!(!Rules::default().has_script_for(&widget));
    }

    #[test]
    fn what_is_leaving_needs_no_script() {
        let rules = Rules::new(vec![rule("all", "*", "", "*", "Healthy")]);
        let object = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let (kind, _) = GroupKind::parse("example.org/v1", "Widget");
        assert_eq!(rules.health(&kind, &object, 0).status, HealthStatus::Progressing);
    }

    #[test]
    fn a_broken_script_is_one_unknown_object() {
        let mut broken = rule("broken", "example.org", "", "Widget", "Healthy");
        broken.script = "local x = obj.status.phase\nreturn {status = x}".to_owned();
        let rules = Rules::new(vec![broken]);
        let found = ask(&rules, "example.org/v1", "Widget");
        assert_eq!(found.status, HealthStatus::Unknown);
        assert!(found.message.contains("CustomHealth broken"), "{}", found.message);
        assert!(found.message.contains("health.lua:1"), "{}", found.message);
        assert_eq!(ask(&rules, "v1", "ConfigMap").status, HealthStatus::Healthy);
    }

    #[test]
    fn a_script_without_end_is_run_once_and_then_rests() {
        let mut endless = rule("endless", "example.org", "", "Widget", "Healthy");
        endless.script = "while true do end".to_owned();
        let rules = Rules::new(vec![endless]);
        let first = ask(&rules, "example.org/v1", "Widget");
        assert_eq!(first.status, HealthStatus::Unknown);
        assert!(first.message.contains("more than"), "{}", first.message);
        let second = ask(&rules, "example.org/v1", "Widget");
        assert!(second.message.contains("not run for a while"), "{}", second.message);
        let (kind, _) = GroupKind::parse("example.org/v1", "Widget");
        let later = rules.health(&kind, &json!({"metadata": {}}), 1_000 + REST_MS);
        assert!(later.message.contains("more than"), "{}", later.message);
    }
}
