//! What runners of other clients find of a plan, and the resources that they name.

use async_graphql::InputObject;
use plural_app::stack_run_policy::RunnerFinds;
use plural_core::stack_reported::{CostScope, ReportedCost, ReportedFinding, ReportedResource};
use plural_core::{Error, Result};
use plural_specs::Json;

use super::{
    error::{List, items},
    stack_policy::VulnSeverity,
};

/// What a plan does against a rule, as a program in the Job of a run says. It is shown beside what the console finds, and judged with it where the
/// plan is checked against a policy. What was said before stays.
#[derive(Debug, InputObject)]
pub(crate) struct StackPolicyViolationAttributes {
    /// How bad it is.
    severity: VulnSeverity,
    /// What rule it is of.
    policy_id: String,
    /// What the rule is about.
    policy_url: Option<String>,
    /// Not kept: `policyModule` of a violation says who found it.
    policy_module: Option<String>,
    /// What it is.
    title: String,
    /// The same at length.
    description: Option<String>,
    /// What to do.
    resolution: Option<String>,
    /// Where it is; each is a violation of its own then.
    causes: List<StackViolationCauseAttributes>,
}

/// Where a plan violates a policy.
#[derive(Debug, InputObject)]
pub(crate) struct StackViolationCauseAttributes {
    /// The resource.
    resource: String,
    /// First line.
    start: i32,
    /// Last line.
    end: i32,
    /// File.
    filename: Option<String>,
    /// Not kept: a line of code can hold a secret, and git has it.
    lines: List<StackViolationCauseLineAttributes>,
}

/// A line of code. Not kept.
#[derive(InputObject)]
pub(crate) struct StackViolationCauseLineAttributes {
    /// Text.
    content: String,
    /// Number.
    line: i32,
    /// The first of them.
    first: Option<bool>,
    /// The last of them.
    last: Option<bool>,
}

impl std::fmt::Debug for StackViolationCauseLineAttributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { content: _, line, first: _, last: _ } = self;
        f.debug_struct("StackViolationCauseLineAttributes").field("line", line).finish_non_exhaustive()
    }
}

impl From<StackPolicyViolationAttributes> for ReportedFinding {
    fn from(given: StackPolicyViolationAttributes) -> Self {
        let StackPolicyViolationAttributes {
            severity,
            policy_id,
            policy_url,
            policy_module: _,
            title,
            description,
            resolution,
            causes,
        } = given;
        let cause = |StackViolationCauseAttributes { resource, start, end, filename, lines: _ }| {
            (resource, filename.map(|file| format!("{file}:{start}-{end}")))
        };
        let description = description.filter(|description| *description != title);
        Self {
            rule: policy_id,
            severity: severity.into(),
            message: std::iter::once(title).chain(description).collect(),
            causes: items(causes).unwrap_or_default().into_iter().map(cause).collect(),
            url: policy_url,
            resolution,
        }
    }
}

/// What a resource would cost, as a program in the Job of a run says. The totals that are shown are sums of these, by what they are of.
#[derive(InputObject)]
pub(crate) struct StackInfracostResourceAttributes {
    /// What it is of: `breakdown`, `past_breakdown`, `diff` or `free`.
    resource_scope: String,
    /// The program's project.
    project_name: Option<String>,
    /// Its address.
    name: String,
    /// Its type.
    resource_type: Option<String>,
    /// An hour of it.
    hourly_cost: Option<f64>,
    /// A month of it.
    monthly_cost: Option<f64>,
    /// Not kept: what of the month depends on use.
    monthly_usage_cost: Option<f64>,
    /// Not kept: it has values of the resource.
    raw_resource: Option<Json>,
}

impl std::fmt::Debug for StackInfracostResourceAttributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackInfracostResourceAttributes").field("name", &self.name).finish_non_exhaustive()
    }
}

impl StackInfracostResourceAttributes {
    fn parse(self) -> Result<ReportedCost> {
        let Self {
            resource_scope,
            project_name,
            name,
            resource_type,
            hourly_cost,
            monthly_cost,
            monthly_usage_cost: _,
            raw_resource: _,
        } = self;
        let scope = CostScope::parse(&resource_scope).ok_or_else(|| {
            Error::invalid(
                "attributes.infracostResources.resourceScope",
                "must be breakdown, past_breakdown, diff or free",
            )
        })?;
        let project = project_name.unwrap_or_default();
        let kind = resource_type.unwrap_or_default();
        Ok(ReportedCost { scope, project, name, kind, hourly: hourly_cost, monthly: monthly_cost })
    }
}

/// A resource of the state of a run's tool.
#[derive(InputObject)]
pub(crate) struct StackStateResourceAttributes {
    /// Its address.
    identifier: String,
    /// Its type.
    resource: String,
    /// Its name.
    name: String,
    /// Not kept: these are values of the state.
    configuration: Option<Json>,
    /// Addresses of those that it needs.
    links: List<String>,
}

impl std::fmt::Debug for StackStateResourceAttributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StackStateResourceAttributes")
            .field("identifier", &self.identifier)
            .finish_non_exhaustive()
    }
}

impl From<StackStateResourceAttributes> for ReportedResource {
    fn from(given: StackStateResourceAttributes) -> Self {
        let StackStateResourceAttributes { identifier, resource, name, configuration: _, links } = given;
        Self { identifier, kind: resource, name, links: items(links).unwrap_or_default() }
    }
}

/// What a runner found, sorted.
pub(super) fn found(
    violations: List<StackPolicyViolationAttributes>,
    costs: List<StackInfracostResourceAttributes>,
    resources: List<StackStateResourceAttributes>,
) -> Result<RunnerFinds> {
    let violations = items(violations).unwrap_or_default().into_iter().map(ReportedFinding::from).collect();
    let costs = items(costs).unwrap_or_default().into_iter().map(StackInfracostResourceAttributes::parse);
    let resources = items(resources).map(|all| all.into_iter().map(ReportedResource::from).collect());
    Ok(RunnerFinds { violations, cost: costs.collect::<Result<Vec<_>>>()?, resources })
}
