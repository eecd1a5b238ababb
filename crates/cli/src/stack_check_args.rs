//! When the clock makes runs of a stack, and what checks their plans, as options.

use clap::{Args, ValueEnum};
use plural_core::stack_policy_rules::Severity;

use crate::{stack_given::Given, stack_policy};

/// When the clock makes runs, and what checks plans
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StackChecksArgs {
    /// Schedule of runs, in cron's five fields; an empty text ends it
    #[arg(long, value_name = "CRONTAB")]
    pub(crate) cron: Option<String>,

    /// Time zone of --cron, by its IANA name; else UTC
    #[arg(long, requires = "cron", value_name = "ZONE")]
    pub(crate) cron_time_zone: Option<String>,

    /// Schedule of drift checks, in cron's five fields; an empty text ends it
    #[arg(long, value_name = "CRONTAB")]
    pub(crate) drift_cron: Option<String>,

    /// Time zone of the drift checks, by its IANA name; an empty text for UTC
    #[arg(long, value_name = "ZONE")]
    pub(crate) drift_time_zone: Option<String>,

    /// What checks its plans, besides the rules of its project; `none` removes its policy
    #[arg(long, value_enum, value_name = "ENGINE")]
    pub(crate) policy: Option<PolicyKind>,

    /// Findings worse than this refuse a plan: NONE, LOW, MEDIUM, HIGH, CRITICAL; by default every denial does
    #[arg(long, requires = "policy", value_parser = stack_policy::parse_severity, value_name = "SEVERITY")]
    pub(crate) policy_max_severity: Option<Severity>,

    /// Its own repository has rules in .plural/policies
    #[arg(long, requires = "policy")]
    pub(crate) policy_own_rules: bool,
}

/// What checks the plans of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyKind {
    /// Trivy, in the image of its runs.
    Trivy,
    /// The console, by rules in Rego.
    Rego,
    /// Nothing of its own.
    None,
}

impl StackChecksArgs {
    /// What is given, as the API names it.
    pub(crate) fn put(self, given: &mut Given) {
        let Self {
            cron,
            cron_time_zone,
            drift_cron,
            drift_time_zone,
            policy,
            policy_max_severity,
            policy_own_rules,
        } = self;
        given.put_in(&["cron"], "crontab", cron);
        given.put_in(&["cron"], "timeZone", cron_time_zone);
        given.put_in(&["drift"], "crontab", drift_cron);
        given.put_in(&["drift"], "timeZone", drift_time_zone);
        let policy = policy.map(|policy| match policy {
            PolicyKind::Trivy => "TRIVY",
            PolicyKind::Rego => "REGO",
            PolicyKind::None => "NONE",
        });
        given.put_in(&["policyEngine"], "type", policy);
        given.put_in(&["policyEngine"], "maxSeverity", policy_max_severity.map(Severity::as_str));
        given.put_in(&["policyEngine"], "customPolicies", policy_own_rules.then_some(true));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::*;

    #[test]
    fn schedules_and_policies_are_options() {
        let checks = StackChecksArgs {
            cron: Some("0 3 * * *".to_owned()),
            cron_time_zone: Some("Europe/Berlin".to_owned()),
            drift_cron: Some(String::new()),
            drift_time_zone: None,
            policy: Some(PolicyKind::Rego),
            policy_max_severity: Some(Severity::High),
            policy_own_rules: true,
        };
        let mut given = Given(Map::new());
        checks.put(&mut given);
        let expected = json!({
            "cron": {"crontab": "0 3 * * *", "timeZone": "Europe/Berlin"}, "drift": {"crontab": ""},
            "policyEngine": {"type": "REGO", "maxSeverity": "HIGH", "customPolicies": true},
        });
        assert_eq!(Value::Object(given.0), expected);
        let mut given = Given(Map::new());
        StackChecksArgs::default().put(&mut given);
        assert!(given.0.is_empty());
    }
}
