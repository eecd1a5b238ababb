//! Policies of stacks, and the findings of the plans of their runs.

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

/// The engine that checks a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum PolicyEngineType {
    /// Trivy, in the image of the run; and the rules, if the policy has any.
    Trivy,
    /// The console, by rules in Rego.
    Rego,
    /// None: removes the policy of a stack.
    None,
}

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::stack_policy_rules::Severity")]
pub(crate) enum VulnSeverity {
    /// Not rated.
    Unknown,
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Critical.
    Critical,
    /// None.
    None,
}

/// The policy that checks the plans of a stack, besides the rules of its project.
#[derive(Debug, SimpleObject)]
pub(crate) struct PolicyEngine {
    /// The engine.
    #[graphql(name = "type")]
    kind: PolicyEngineType,
    /// Findings that are more severe refuse a plan; absent: all findings that deny do.
    max_severity: Option<VulnSeverity>,
    /// The stack's own repository has rules in `.plural/policies`.
    custom_policies: Option<bool>,
    /// A repository with rules.
    repository_id: Option<ID>,
    /// Revision and folder of the rules.
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

/// The policy that checks the plans of a stack. Replaces the previous one as a whole.
#[derive(Debug, InputObject)]
pub(crate) struct PolicyEngineAttributes {
    /// The engine.
    #[graphql(name = "type")]
    kind: PolicyEngineType,
    /// The stack's own repository has rules in `.plural/policies`.
    custom_policies: Option<bool>,
    /// Findings that are more severe refuse a plan; absent: all findings that deny do.
    max_severity: Option<VulnSeverity>,
    /// A repository with rules; together with `git`.
    repository_id: Option<ID>,
    /// Revision and folder of the rules.
    git: Option<GitRefAttributes>,
}

impl PolicyEngineAttributes {
    /// The policy; `None` if it is removed.
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

/// A violation of a policy by a plan.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackPolicyViolation {
    /// Id.
    id: ID,
    /// What is wrong.
    title: String,
    /// The same in detail.
    description: Option<String>,
    /// The rule.
    policy_id: String,
    /// The source of the rule: `project`, `stack`, `trivy`, or `runner` if another client's runner reported it.
    policy_module: Option<String>,
    /// URL of the rule's documentation.
    policy_url: Option<String>,
    /// Its severity.
    severity: VulnSeverity,
    /// How to fix it.
    resolution: Option<String>,
    /// It refuses the plan; otherwise it is a warning.
    refuses: bool,
    /// Where it is.
    causes: List<StackViolationCause>,
}

impl StackPolicyViolation {
    /// The violation at this position among those of a run.
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

/// The cost of a plan, as Infracost estimates it. Amounts are decimal numbers.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackRunCost {
    /// `USD`; empty if it is unknown.
    currency: String,
    /// Monthly total after the plan.
    monthly: Option<String>,
    /// Hourly total after the plan.
    hourly: Option<String>,
    /// Monthly total before the plan.
    past_monthly: Option<String>,
    /// Monthly change by the plan.
    diff_monthly: Option<String>,
    /// Its resources, as far as they are stored.
    resources: List<StackResourceCost>,
    /// Number of further resources.
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

/// The cost of one resource.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackResourceCost {
    /// Infracost's project.
    project: String,
    /// Its address.
    name: String,
    /// Its type.
    #[graphql(name = "type")]
    kind: String,
    /// Per month.
    monthly: Option<String>,
    /// Per hour.
    hourly: Option<String>,
}

impl From<ResourceCost> for StackResourceCost {
    fn from(cost: ResourceCost) -> Self {
        let ResourceCost { project, name, kind, monthly, hourly } = cost;
        Self { project, name, kind, monthly, hourly }
    }
}

/// Refuses rules without their text.
///
/// # Errors
/// [`Error::Invalid`], if one is empty.
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
