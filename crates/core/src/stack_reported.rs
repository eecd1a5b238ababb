//! What the runner of another client reports of a run beside its plan. It adds to the console's own findings, and never removes any.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::stack_cost::{MAX_COST_ROWS, PlanCost, ResourceCost};
use crate::stack_policy_rules::{MAX_VIOLATION_TEXT, MAX_VIOLATIONS, RuleFinding, Severity};

/// Limit of resources that a run reports.
pub const MAX_REPORTED: usize = 5_000;
/// Limit of all of them, in bytes.
pub const MAX_REPORTED_BYTES: usize = 1 << 20;
/// Limit of a name, in bytes.
const MAX_NAME: usize = 512;

/// A finding as its program reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedFinding {
    /// Id of the rule.
    pub rule: String,
    /// Its severity.
    pub severity: Severity,
    /// What is wrong, in lines.
    pub message: Vec<String>,
    /// The resources, each with a location in a file if that is known.
    pub causes: Vec<(String, Option<String>)>,
    /// URL of the documentation.
    pub url: Option<String>,
    /// How to fix it.
    pub resolution: Option<String>,
}

/// Merges reported findings into earlier ones, without duplicates. Beyond the limit, the most severe stay, and the last one says that
/// others were left out: what refused a plan still refuses it.
pub fn with_findings(was: Vec<RuleFinding>, reported: Vec<ReportedFinding>) -> Vec<RuleFinding> {
    let left_out = left_out();
    let mut all = was;
    let before = all.len();
    all.retain(|finding| *finding != left_out);
    let mut is_cut = all.len() < before;
    for ReportedFinding { rule, severity, message, causes, url, resolution } in reported {
        if is_cut && room_for(&all, severity) == Room::None {
            continue;
        }
        // Only once, whatever the number of locations.
        let lines: Vec<&str> = message.iter().map(|line| clipped(line, MAX_VIOLATION_TEXT)).collect();
        let told = text(&lines.join("\n"), MAX_VIOLATION_TEXT);
        let finding = RuleFinding {
            rule: text(&rule, MAX_NAME),
            resource: None,
            severity,
            message: told,
            warns: false,
            url: url.as_deref().map(|url| text(url, MAX_VIOLATION_TEXT)),
            resolution: resolution.as_deref().map(|told| text(told, MAX_VIOLATION_TEXT)),
        };
        if causes.is_empty() {
            is_cut |= !add_finding(&mut all, finding);
            continue;
        }
        for (resource, place) in causes {
            if is_cut && room_for(&all, severity) == Room::None {
                break;
            }
            let message = match place {
                Some(place) => {
                    let place = clipped(&place, MAX_VIOLATION_TEXT);
                    text(&format!("{}\n{place}", finding.message), MAX_VIOLATION_TEXT)
                }
                None => finding.message.clone(),
            };
            let resource = Some(text(&resource, MAX_NAME));
            is_cut |= !add_finding(&mut all, RuleFinding { resource, message, ..finding.clone() });
        }
    }
    if is_cut {
        if all.len() == MAX_VIOLATIONS
            && let Some(at) = least(&all)
        {
            all.remove(at);
        }
        all.push(left_out);
    }
    all
}

/// Where one more finding can go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    /// At the end.
    Free,
    /// Replaces this one, which is less severe.
    Of(usize),
    /// Nowhere: all others are at least as severe.
    None,
}

fn room_for(all: &[RuleFinding], severity: Severity) -> Room {
    if all.len() < MAX_VIOLATIONS {
        return Room::Free;
    }
    let least = least(all).filter(|at| all.get(*at).is_some_and(|finding| finding.severity < severity));
    least.map_or(Room::None, Room::Of)
}

/// The last of the least severe ones.
fn least(all: &[RuleFinding]) -> Option<usize> {
    let of = all.iter().enumerate().min_by_key(|(at, finding)| (finding.severity, Reverse(*at)));
    of.map(|(at, _)| at)
}

/// Adds a finding; returns `false` if one was left out for that.
fn add_finding(all: &mut Vec<RuleFinding>, finding: RuleFinding) -> bool {
    if all.contains(&finding) {
        return true;
    }
    match room_for(all, finding.severity) {
        Room::Free => {
            all.push(finding);
            return true;
        }
        Room::Of(at) => {
            all.remove(at);
            all.push(finding);
        }
        Room::None => {}
    }
    false
}

/// Stands for the findings that were left out. It refuses nothing.
fn left_out() -> RuleFinding {
    RuleFinding {
        rule: "violations".to_owned(),
        resource: None,
        severity: Severity::None,
        message: format!(
            "there are more than {MAX_VIOLATIONS} findings: those that are less bad are left out"
        ),
        warns: true,
        url: None,
        resolution: None,
    }
}

/// The scope of a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostScope {
    /// The total after the plan.
    Breakdown,
    /// The total before.
    Past,
    /// The change by the plan.
    Diff,
    /// Free, or unknown.
    Free,
}

impl CostScope {
    /// The scope of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word.to_ascii_lowercase().as_str() {
            "breakdown" => Self::Breakdown,
            "past_breakdown" => Self::Past,
            "diff" => Self::Diff,
            "free" => Self::Free,
            _ => return None,
        })
    }
}

/// The cost of one resource as its program reports it.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportedCost {
    /// Its scope.
    pub scope: CostScope,
    /// The program's project.
    pub project: String,
    /// Its address.
    pub name: String,
    /// Its type.
    pub kind: String,
    /// Per hour.
    pub hourly: Option<f64>,
    /// Per month.
    pub monthly: Option<f64>,
}

/// The cost of a plan: the sums of the reported costs, and the resources after the plan. Reports have no currency.
pub fn cost_of(reported: Vec<ReportedCost>) -> PlanCost {
    let mut cost = PlanCost::default();
    let (mut hourly, mut monthly, mut past, mut diff) = (None, None, None, None);
    for ReportedCost { scope, project, name, kind, hourly: an_hour, monthly: a_month } in reported {
        match scope {
            CostScope::Past => add(&mut past, a_month),
            CostScope::Diff => add(&mut diff, a_month),
            CostScope::Breakdown | CostScope::Free => {
                add(&mut hourly, an_hour);
                add(&mut monthly, a_month);
                if cost.resources.len() == MAX_COST_ROWS {
                    cost.omitted += 1;
                    continue;
                }
                cost.resources.push(ResourceCost {
                    project: text(&project, MAX_NAME),
                    name: text(&name, MAX_NAME),
                    kind: text(&kind, MAX_NAME),
                    monthly: a_month.map(amount),
                    hourly: an_hour.map(amount),
                });
            }
        }
    }
    cost.hourly = hourly.map(amount);
    cost.monthly = monthly.map(amount);
    cost.past_monthly = past.map(amount);
    cost.diff_monthly = diff.map(amount);
    cost
}

fn add(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum = Some(sum.unwrap_or_default() + more);
    }
}

/// A decimal number, without the rounding noise of summed fractions.
fn amount(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A resource of a run's state, without its values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReportedResource {
    /// Its address.
    pub identifier: String,
    /// Its type.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Addresses of its dependencies.
    pub links: Vec<String>,
}

impl ReportedResource {
    /// Checks and normalises a list.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is too long or too large.
    pub fn tidied(all: Vec<Self>) -> Result<Vec<Self>> {
        let told = |why: String| Error::invalid("attributes.state.state", why);
        if all.len() > MAX_REPORTED {
            return Err(told(format!("must not be more than {MAX_REPORTED} resources")));
        }
        let bytes = |one: &Self| {
            let links: usize = one.links.iter().map(|link| link.len() + 1).sum();
            one.identifier.len() + one.kind.len() + one.name.len() + links
        };
        if all.iter().map(bytes).sum::<usize>() > MAX_REPORTED_BYTES {
            return Err(told(format!("must not exceed {} KiB together", MAX_REPORTED_BYTES >> 10)));
        }
        let tidy = |Self { identifier, kind, name, links }| Self {
            identifier: text(&identifier, MAX_NAME),
            kind: text(&kind, MAX_NAME),
            name: text(&name, MAX_NAME),
            links: links.iter().map(|link| text(link, MAX_NAME)).collect(),
        };
        Ok(all.into_iter().map(tidy).collect())
    }
}

/// The beginning of a text.
fn clipped(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default()
}

/// A text, made safe to store and show.
fn text(text: &str, most: usize) -> String {
    clipped(text, most).chars().filter(|c| *c == '\n' || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(rule: &str, causes: &[&str]) -> ReportedFinding {
        ReportedFinding {
            rule: rule.to_owned(),
            severity: Severity::High,
            message: vec!["open to all".to_owned(), "a\u{7}b".to_owned()],
            causes: causes.iter().map(|one| ((*one).to_owned(), Some("main.tf:3-5".to_owned()))).collect(),
            url: None,
            resolution: None,
        }
    }

    #[test]
    fn findings_add_and_nothing_goes() {
        let first = with_findings(Vec::new(), vec![finding("A", &["x", "y"])]);
        assert_eq!(first.len(), 2);
        assert_eq!(first[0].message, "open to all\nab\nmain.tf:3-5");
        let more = with_findings(first.clone(), vec![finding("A", &["x"]), finding("B", &[])]);
        assert_eq!(more.len(), 3);
        assert_eq!(more[2].message, "open to all\nab");
        assert_eq!(with_findings(more.clone(), Vec::new()), more);
    }

    /// A very large report does not keep a Job from ending, and the most severe findings are visible.
    #[test]
    fn of_too_many_findings_the_worst_stay() {
        let names: Vec<String> = (0..MAX_VIOLATIONS).map(|at| at.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let full = with_findings(Vec::new(), vec![finding("A", &names)]);
        assert_eq!(full.len(), MAX_VIOLATIONS);
        // Duplicates add nothing.
        assert_eq!(with_findings(full.clone(), vec![finding("A", &names)]), full);
        let rated = |rule, severity| ReportedFinding { severity, ..finding(rule, &["z"]) };
        let more = vec![
            rated("B", Severity::Low),
            rated("C", Severity::Critical),
            rated("D", Severity::High),
            rated("E", Severity::Unknown),
        ];
        let cut = with_findings(full, more);
        assert_eq!((cut.len(), cut.last()), (MAX_VIOLATIONS, Some(&left_out())));
        let kept = |rule: &str| cut.iter().filter(|finding| finding.rule == rule).count();
        assert_eq!(["A", "B", "C", "D", "E"].map(kept), [MAX_VIOLATIONS - 3, 0, 1, 0, 1]);
        let again = with_findings(cut.clone(), vec![finding("A", &["0"]), rated("C", Severity::Critical)]);
        assert_eq!(again, cut);
    }

    /// A long text with many locations is processed once.
    #[test]
    fn texts_are_cut_before_they_are_put_together() {
        let mut long = finding("A", &["x", "y"]);
        long.message = vec!["é".repeat(MAX_VIOLATION_TEXT), "unseen".to_owned()];
        let found = with_findings(Vec::new(), vec![long]);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|one| one.message.len() <= MAX_VIOLATION_TEXT), "{found:?}");
        assert!(found[0].message.starts_with('é') && !found[0].message.contains("unseen"));
    }

    #[test]
    fn costs_are_summed_by_what_they_are_of() {
        let row = |scope, monthly| ReportedCost {
            scope,
            project: "net".to_owned(),
            name: "a".to_owned(),
            kind: "b".to_owned(),
            hourly: None,
            monthly,
        };
        let cost = cost_of(vec![
            row(CostScope::Breakdown, Some(0.1)),
            row(CostScope::Breakdown, Some(0.2)),
            row(CostScope::Past, Some(70.0)),
            row(CostScope::Diff, Some(-69.7)),
            row(CostScope::Free, None),
        ]);
        assert_eq!((cost.monthly.as_deref(), cost.past_monthly.as_deref()), (Some("0.3"), Some("70")));
        assert_eq!(
            (cost.diff_monthly.as_deref(), cost.hourly, cost.resources.len()),
            (Some("-69.7"), None, 3)
        );
        assert_eq!(CostScope::parse("PAST_BREAKDOWN"), Some(CostScope::Past));
        assert_eq!(CostScope::parse("other"), None);
    }

    #[test]
    fn resources_are_bounded_in_number_and_bytes() {
        let one = ReportedResource { identifier: "a.b".to_owned(), ..ReportedResource::default() };
        assert!(ReportedResource::tidied(vec![one.clone(); MAX_REPORTED]).is_ok());
        assert!(ReportedResource::tidied(vec![one.clone(); MAX_REPORTED + 1]).is_err());
        let large = ReportedResource { links: vec!["x".repeat(MAX_REPORTED_BYTES)], ..one };
        assert!(ReportedResource::tidied(vec![large]).is_err());
    }
}
