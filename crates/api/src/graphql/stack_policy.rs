//! Policies of stacks: types that clients of the original ask for. No stack has any here.

use async_graphql::{Enum, ID, SimpleObject};

use super::error::List;

/// What checks a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum PolicyEngineType {
    /// Trivy.
    Trivy,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
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

/// What checks the plans of a stack. No stack has one here.
#[derive(Debug, SimpleObject)]
pub(crate) struct PolicyEngine {
    /// The program.
    #[graphql(name = "type")]
    kind: PolicyEngineType,
    /// Findings that are worse stop a run.
    max_severity: Option<VulnSeverity>,
    /// It has rules of its own.
    custom_policies: Option<bool>,
}

/// What a plan does against a policy. There are none here.
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
    /// Where the rule is.
    policy_module: Option<String>,
    /// What the rule is about.
    policy_url: Option<String>,
    /// How bad it is.
    severity: VulnSeverity,
    /// What to do.
    resolution: Option<String>,
    /// Where it is.
    causes: List<StackViolationCause>,
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
