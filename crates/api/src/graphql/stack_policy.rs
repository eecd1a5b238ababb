//! Policy of stacks, and what was found of the plans of their runs.

use async_graphql::{Enum, ID, InputObject, SimpleObject};
use plural_core::ids::StackRunId;
use plural_core::stack_cost::{PlanCost, ResourceCost};
use plural_core::stack_policy_rules::{
    PolicyEngine as CoreEngine, RuleFile, RuleFinding, Severity, StackPolicy, Violation,
};
use plural_core::{Error, Result};

use super::{
    error::{List, id_in, list},
    page::counted,
    service::GitRef,
    service_input::GitRefAttributes,
};

/// What checks a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum PolicyEngineType {
    /// Trivy, in the image of the run; and the rules, where the policy names any.
    Trivy,
    /// The console, by rules in Rego.
    Rego,
    /// Nothing: takes the policy of a stack away.
    None,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_policy_rules::Severity")]
pub(crate) enum VulnSeverity {
    /// Nobody says.
    Unknown,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Critical.
    Critical,
    /// Harmless.
    None,
}

/// What checks the plans of a stack, besides the rules of its project.
#[derive(Debug, SimpleObject)]
pub(crate) struct PolicyEngine {
    /// What checks them.
    #[graphql(name = "type")]
    kind: PolicyEngineType,
    /// Findings that are worse refuse a plan; absent: all that deny do.
    max_severity: Option<VulnSeverity>,
    /// The stack's own repository has rules in `.plural/policies`.
    custom_policies: Option<bool>,
    /// A repository with rules.
    repository_id: Option<ID>,
    /// What of that repository.
    git: Option<GitRef>,
}

impl From<StackPolicy> for PolicyEngine {
    fn from(policy: StackPolicy) -> Self {
        let StackPolicy { engine, max_severity, custom_policies, repository_id, git } = policy;
        Self {
            kind: match engine {
                CoreEngine::Rego => PolicyEngineType::Rego,
                CoreEngine::Trivy => PolicyEngineType::Trivy,
            },
            max_severity: max_severity.map(VulnSeverity::from),
            custom_policies: Some(custom_policies),
            repository_id: repository_id.map(|id| id.to_string().into()),
            git: git.map(GitRef::from),
        }
    }
}

/// What checks the plans of a stack. Replaces the one before as a whole.
#[derive(Debug, InputObject)]
pub(crate) struct PolicyEngineAttributes {
    /// What checks them.
    #[graphql(name = "type")]
    kind: PolicyEngineType,
    /// The stack's own repository has rules in `.plural/policies`.
    custom_policies: Option<bool>,
    /// Findings that are worse refuse a plan; absent: all that deny do.
    max_severity: Option<VulnSeverity>,
    /// A repository with rules; together with `git`.
    repository_id: Option<ID>,
    /// What of that repository.
    git: Option<GitRefAttributes>,
}

impl PolicyEngineAttributes {
    /// The policy; none where it is taken away.
    pub(crate) fn parse(self) -> Result<Option<StackPolicy>> {
        let Self { kind, custom_policies, max_severity, repository_id, git } = self;
        let engine = match kind {
            PolicyEngineType::Trivy => CoreEngine::Trivy,
            PolicyEngineType::Rego => CoreEngine::Rego,
            PolicyEngineType::None => return Ok(None),
        };
        Ok(Some(StackPolicy {
            engine,
            max_severity: max_severity.map(Severity::from),
            custom_policies: custom_policies.unwrap_or_default(),
            repository_id: id_in("attributes.policyEngine.repositoryId", repository_id.as_deref())?,
            git: git.map(GitRefAttributes::parse).transpose()?,
        }))
    }
}

/// A file of rules in Rego.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackRule {
    /// Its path, for messages.
    path: String,
    /// Rego.
    rego: String,
}

impl From<RuleFile> for StackRule {
    fn from(rule: RuleFile) -> Self {
        let RuleFile { path, text } = rule;
        Self { path, rego: text }
    }
}

/// A file of rules in Rego.
#[derive(Debug, InputObject)]
pub(crate) struct StackRuleAttributes {
    /// Its path, for messages.
    path: String,
    /// Rego.
    rego: String,
}

impl From<StackRuleAttributes> for RuleFile {
    fn from(rule: StackRuleAttributes) -> Self {
        let StackRuleAttributes { path, rego } = rule;
        Self { path, text: rego }
    }
}

/// What a plan does against a policy.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackPolicyViolation {
    /// Id.
    id: ID,
    /// What it is.
    title: String,
    /// The same at length.
    description: Option<String>,
    /// The rule.
    policy_id: String,
    /// Whose rule it is: `project`, `stack`, `trivy`, or `runner` where another client's runner says so.
    policy_module: Option<String>,
    /// What the rule is about.
    policy_url: Option<String>,
    /// How bad it is.
    severity: VulnSeverity,
    /// What to do.
    resolution: Option<String>,
    /// It refuses the plan; otherwise it is only to be known.
    refuses: bool,
    /// Where it is.
    causes: List<StackViolationCause>,
}

impl StackPolicyViolation {
    /// The violation at this place of those of a run.
    pub(crate) fn of(run: StackRunId, place: usize, violation: Violation) -> Self {
        let Violation { source, refuses, finding } = violation;
        let RuleFinding { rule, resource, severity, message, warns: _, url, resolution } = finding;
        let causes = resource.map(|resource| StackViolationCause {
            resource,
            start: 0,
            end: 0,
            filename: None,
            lines: None,
        });
        Self {
            id: format!("{run}:{place}").into(),
            title: message.lines().next().unwrap_or_default().to_owned(),
            description: Some(message),
            policy_id: rule,
            policy_module: Some(source.as_str().to_owned()),
            policy_url: url,
            severity: severity.into(),
            resolution,
            refuses,
            causes: list(causes),
        }
    }
}

/// What a plan would cost, as Infracost says. Amounts are decimal numbers.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackRunCost {
    /// `USD`; empty where nobody says.
    currency: String,
    /// A month of all that there would be then.
    monthly: Option<String>,
    /// An hour of it.
    hourly: Option<String>,
    /// A month of what there was before.
    past_monthly: Option<String>,
    /// What of a month the plan changes.
    diff_monthly: Option<String>,
    /// Its resources, as far as they are kept.
    resources: List<StackResourceCost>,
    /// Resources that are not kept.
    omitted: i32,
}

impl From<PlanCost> for StackRunCost {
    fn from(cost: PlanCost) -> Self {
        let PlanCost { currency, monthly, hourly, past_monthly, diff_monthly, resources, omitted } = cost;
        Self {
            currency,
            monthly,
            hourly,
            past_monthly,
            diff_monthly,
            resources: list(resources.into_iter().map(StackResourceCost::from)),
            omitted: counted(omitted),
        }
    }
}

/// What one resource would cost.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackResourceCost {
    /// Infracost's project.
    project: String,
    /// Its address.
    name: String,
    /// Its type.
    #[graphql(name = "type")]
    kind: String,
    /// A month of it.
    monthly: Option<String>,
    /// An hour of it.
    hourly: Option<String>,
}

impl From<ResourceCost> for StackResourceCost {
    fn from(cost: ResourceCost) -> Self {
        let ResourceCost { project, name, kind, monthly, hourly } = cost;
        Self { project, name, kind, monthly, hourly }
    }
}

/// Refuses rules that a client gives without their text.
///
/// # Errors
/// [`Error::Invalid`], where one is empty.
pub(crate) fn rules_of(rules: Vec<StackRuleAttributes>) -> Result<Vec<RuleFile>> {
    let rules: Vec<RuleFile> = rules.into_iter().map(RuleFile::from).collect();
    match rules.iter().find(|rule| rule.text.trim().is_empty()) {
        Some(rule) => Err(Error::invalid("attributes.stackRules", format!("{:?} is empty", rule.path))),
        None => Ok(rules),
    }
}

/// Where a plan violates a policy.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackViolationCause {
    /// The resource.
    resource: String,
    /// First line.
    start: i32,
    /// Last line.
    end: i32,
    /// File.
    filename: Option<String>,
    /// The lines.
    lines: List<StackViolationCauseLine>,
}

/// A line of code.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackViolationCauseLine {
    /// Text.
    content: String,
    /// Number.
    line: i32,
    /// The first of them.
    first: Option<bool>,
    /// The last of them.
    last: Option<bool>,
}
