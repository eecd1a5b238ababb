//! What the console publishes about stacks at the host of a pull request: one comment, and a check per stack. It contains kinds, names,
//! counts and a link: every reader of the repository sees it. Values are shown in the console only, by right.

use std::fmt::Write as _;

use crate::stack_cost::PlanCost;
use crate::stack_policy_rules::{Severity, Violation};
use crate::stack_run::{PlanSummary, RunStatus, StackRun};

/// Limit of stacks in a comment: hosts limit its length.
const MAX_ROWS: usize = 200;
/// Limit of a name or a link, in characters.
const MAX_CELL: usize = 400;

/// The state of a stack for a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PullOutcome {
    /// Its run has not ended.
    Waits,
    /// There is a plan, and no policy refuses it.
    Planned(PlanSummary, PullFindings),
    /// There is a plan, and its policy refuses it.
    Refused(PlanSummary, PullFindings),
    /// Its run failed, or could not be created.
    Failed,
    /// A user cancelled its run.
    Cancelled,
    /// The code of a fork is valid; its plan waits until somebody releases the commit.
    Checked,
    /// The code of a fork is invalid.
    Invalid,
    /// Nothing runs before somebody releases the commit of a fork.
    Unreleased,
}

/// The findings of a plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PullFindings {
    /// Numbers of violations by severity, most severe first.
    pub violations: Vec<(Severity, usize)>,
    /// The change of the monthly cost, and its currency.
    pub cost: Option<(String, String)>,
}

/// A stack in the comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledStack {
    /// Its name.
    pub name: String,
    /// URL of its run's page.
    pub link: Option<String>,
    /// Its state.
    pub outcome: PullOutcome,
}

/// The state of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullState {
    /// Pending.
    Pending,
    /// Succeeded.
    Success,
    /// Failed.
    Failure,
}

impl PullState {
    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failure => "failure",
        }
    }
}

impl PullFindings {
    /// Counts the findings.
    pub fn of(violations: &[Violation], cost: Option<&PlanCost>) -> Self {
        let count = |severity: Severity| {
            violations.iter().filter(|violation| violation.finding.severity == severity).count()
        };
        let counted = Severity::ALL.into_iter().rev().map(|severity| (severity, count(severity)));
        let cost = cost.and_then(|cost| Some((cost.diff_monthly.clone()?, cost.currency.clone())));
        Self { violations: counted.filter(|(_, count)| *count > 0).collect(), cost }
    }
}

impl PullOutcome {
    /// The state of a stack from its run, and from the findings of its plan.
    pub fn of(run: &StackRun, refused: bool, found: PullFindings) -> Self {
        match (run.status, run.is_checked_only(), &run.plan) {
            (RunStatus::Successful, true, _) => Self::Checked,
            (RunStatus::Failed, true, _) => Self::Invalid,
            (RunStatus::Successful, false, Some(plan)) => Self::Planned(plan.summary, found),
            (RunStatus::Failed, false, Some(plan)) if refused => Self::Refused(plan.summary, found),
            (RunStatus::Successful | RunStatus::Failed, false, _) => Self::Failed,
            (RunStatus::Cancelled, _, _) => Self::Cancelled,
            (
                RunStatus::Queued | RunStatus::Pending | RunStatus::Running | RunStatus::PendingApproval,
                _,
                _,
            ) => Self::Waits,
        }
    }

    /// The check of the stack: its state, and its description.
    pub fn check(&self) -> (PullState, String) {
        match self {
            Self::Waits => (PullState::Pending, "The plan is being made".to_owned()),
            Self::Planned(summary, _) => (PullState::Success, in_words(*summary)),
            Self::Refused(summary, _) => {
                (PullState::Failure, format!("The policy refuses it: {}", in_words(*summary)))
            }
            Self::Failed => (PullState::Failure, "There is no plan: see the console".to_owned()),
            Self::Cancelled => (PullState::Failure, "The plan was cancelled".to_owned()),
            Self::Checked => {
                (PullState::Pending, "Valid; the plan waits for the release of this commit".to_owned())
            }
            Self::Invalid => (PullState::Failure, "The code is not valid".to_owned()),
            Self::Unreleased => {
                (PullState::Pending, "The plan waits for the release of this commit".to_owned())
            }
        }
    }

    /// One word or a few for the comment.
    const fn word(&self) -> &'static str {
        match self {
            Self::Waits => "being made",
            Self::Planned(..) => "planned",
            Self::Refused(..) => "**refused by policy**",
            Self::Failed => "**failed**",
            Self::Cancelled => "cancelled",
            Self::Checked => "valid, waits for release",
            Self::Invalid => "**not valid**",
            Self::Unreleased => "waits for release",
        }
    }

    /// Sort order: problems first.
    const fn rank(&self) -> u8 {
        match self {
            Self::Refused(..) | Self::Failed | Self::Invalid => 0,
            Self::Checked | Self::Unreleased => 1,
            Self::Planned(..) | Self::Waits | Self::Cancelled => 2,
        }
    }
}

/// The name of the check of a stack.
pub fn check_context(stack: &str) -> String {
    format!("plural/stack/{stack}")
}

/// The comment of a pull request with this head commit.
pub fn pull_comment(sha: &str, stacks: &[PulledStack]) -> String {
    let commit: String = sha.chars().filter(char::is_ascii_hexdigit).take(8).collect();
    if stacks.is_empty() {
        return "### Stacks\n\nThis pull request reaches no stack any more.\n".to_owned();
    }
    let mut text = format!("### Stacks at `{commit}`\n\n");
    let mut stacks: Vec<&PulledStack> = stacks.iter().collect();
    stacks.sort_by(|a, b| (a.outcome.rank(), &a.name).cmp(&(b.outcome.rank(), &b.name)));
    text.push_str("| Stack | Plan | Create | Change | Destroy | Replace | Policy | Cost a month |\n");
    text.push_str("|---|---|---:|---:|---:|---:|---|---:|\n");
    for stack in stacks.iter().take(MAX_ROWS) {
        let name = cell(&stack.name);
        let name = match stack.link.as_deref().filter(|link| is_link(link)) {
            Some(link) => format!("[{name}]({link})"),
            None => name,
        };
        let rest = match &stack.outcome {
            PullOutcome::Planned(summary, found) | PullOutcome::Refused(summary, found) => {
                planned(*summary, found)
            }
            PullOutcome::Waits
            | PullOutcome::Failed
            | PullOutcome::Cancelled
            | PullOutcome::Checked
            | PullOutcome::Invalid
            | PullOutcome::Unreleased => " | | | | |".to_owned(),
        };
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "| {name} | {} |{rest} |", stack.outcome.word());
    }
    if let Some(more) = stacks.len().checked_sub(MAX_ROWS).filter(|more| *more > 0) {
        let _ = writeln!(text, "\n{more} more stacks are in the console.");
    }
    let waits = |stack: &&PulledStack| {
        matches!(stack.outcome, PullOutcome::Checked | PullOutcome::Invalid | PullOutcome::Unreleased)
    };
    if stacks.iter().any(waits) {
        text.push_str(
            "\nThis commit comes from a fork: a plan needs somebody who may approve the stack's plans to release it, \
             with `plural cd stacks release`.\n",
        );
    }
    text.push_str(
        "\nNothing of this is applied. Values are in the console, for those who may read the stack.\n",
    );
    text
}

/// The cells with the numbers of a plan.
fn planned(summary: PlanSummary, found: &PullFindings) -> String {
    let PlanSummary { add, change, destroy, replace, other } = summary;
    let (create, gone) = (add.saturating_sub(replace), destroy.saturating_sub(replace));
    // Destroyed resources must stand out.
    let loud = |count: u64| if count == 0 { "0".to_owned() } else { format!("**{count}**") };
    let change = if other { format!("{change} + others") } else { change.to_string() };
    let policy: Vec<String> =
        found.violations.iter().map(|(severity, count)| format!("{count} {}", severity.as_str())).collect();
    let policy = if policy.is_empty() { "–".to_owned() } else { policy.join(", ") };
    let cost = found.cost.as_ref().map_or_else(|| "–".to_owned(), |(diff, currency)| cost(diff, currency));
    format!(" {create} | {change} | {} | {} | {policy} | {cost}", loud(gone), loud(replace))
}

fn cost(diff: &str, currency: &str) -> String {
    let currency: String = currency.chars().filter(char::is_ascii_alphabetic).take(8).collect();
    let digits: String =
        diff.chars().filter(|c| c.is_ascii_digit() || matches!(c, '.' | '-' | 'e' | 'E')).take(40).collect();
    let sign = if digits.starts_with('-') { "" } else { "+" };
    format!("{sign}{digits} {currency}").trim_end().to_owned()
}

/// A plan in a few words.
fn in_words(summary: PlanSummary) -> String {
    let PlanSummary { add, change, destroy, replace, other } = summary;
    if summary.is_empty() {
        return "No changes".to_owned();
    }
    let parts = [
        (add.saturating_sub(replace), "to create"),
        (change, "to change"),
        (destroy.saturating_sub(replace), "to destroy"),
        (replace, "to replace"),
    ];
    let mut parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if other {
        parts.push("others that the tool does not count".to_owned());
    }
    parts.join(", ")
}

/// A text as one cell of a table in Markdown, escaped so that it is neither a link nor a mention.
pub(crate) fn cell(text: &str) -> String {
    let mut cell = String::new();
    for letter in text.chars().filter(|c| !c.is_control()).take(MAX_CELL) {
        if letter.is_ascii_punctuation() && !matches!(letter, '-' | '.' | '/') {
            cell.push('\\');
        }
        cell.push(letter);
    }
    cell
}

/// Whether a link is safe in Markdown.
pub(crate) fn is_link(link: &str) -> bool {
    (link.starts_with("https://") || link.starts_with("http://"))
        && link.len() <= MAX_CELL
        && !link.contains(|c: char| c.is_control() || c.is_whitespace() || "()<>|\"'".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(name: &str, outcome: PullOutcome) -> PulledStack {
        let link = Some(format!("https://plural.example.com/stacks/{name}/runs/1"));
        PulledStack { name: name.to_owned(), link, outcome }
    }

    fn summary(add: u64, change: u64, destroy: u64, replace: u64) -> PlanSummary {
        PlanSummary { add, change, destroy, replace, other: false }
    }

    #[test]
    fn a_comment_tells_counts_and_no_values() {
        let found = PullFindings {
            violations: vec![(Severity::High, 1), (Severity::Low, 2)],
            cost: Some(("70.08".to_owned(), "USD".to_owned())),
        };
        let less =
            PullFindings { cost: Some(("-3".to_owned(), "EUR".to_owned())), ..PullFindings::default() };
        let other = PlanSummary { other: true, ..summary(0, 0, 0, 0) };
        let stacks = [
            stack("network", PullOutcome::Planned(summary(3, 1, 1, 1), less)),
            stack("dns", PullOutcome::Planned(other, PullFindings::default())),
            stack("data", PullOutcome::Refused(summary(0, 0, 2, 0), found)),
            stack("edge", PullOutcome::Waits),
            PulledStack { link: None, ..stack("broken", PullOutcome::Failed) },
        ];
        let text = pull_comment("0123456789abcdef0123456789abcdef01234567", &stacks);
        assert_eq!(
            text,
            "### Stacks at `01234567`\n\n\
             | Stack | Plan | Create | Change | Destroy | Replace | Policy | Cost a month |\n\
             |---|---|---:|---:|---:|---:|---|---:|\n\
             | broken | **failed** | | | | | | |\n\
             | [data](https://plural.example.com/stacks/data/runs/1) | **refused by policy** | 0 | 0 | **2** | 0 | 1 HIGH, 2 LOW | +70.08 USD |\n\
             | [dns](https://plural.example.com/stacks/dns/runs/1) | planned | 0 | 0 + others | 0 | 0 | – | – |\n\
             | [edge](https://plural.example.com/stacks/edge/runs/1) | being made | | | | | | |\n\
             | [network](https://plural.example.com/stacks/network/runs/1) | planned | 2 | 1 | 0 | **1** | – | -3 EUR |\n\
             \nNothing of this is applied. Values are in the console, for those who may read the stack.\n"
        );
    }

    #[test]
    fn a_fork_is_told_what_its_plan_waits_for() {
        let stacks = [
            stack("network", PullOutcome::Checked),
            stack("dns", PullOutcome::Invalid),
            PulledStack { link: None, ..stack("hosts", PullOutcome::Unreleased) },
        ];
        assert_eq!(
            pull_comment(&"f".repeat(40), &stacks),
            "### Stacks at `ffffffff`\n\n\
             | Stack | Plan | Create | Change | Destroy | Replace | Policy | Cost a month |\n\
             |---|---|---:|---:|---:|---:|---|---:|\n\
             | [dns](https://plural.example.com/stacks/dns/runs/1) | **not valid** | | | | | | |\n\
             | hosts | waits for release | | | | | | |\n\
             | [network](https://plural.example.com/stacks/network/runs/1) | valid, waits for release | | | | | | |\n\
             \nThis commit comes from a fork: a plan needs somebody who may approve the stack's plans to release it, with \
             `plural cd stacks release`.\n\
             \nNothing of this is applied. Values are in the console, for those who may read the stack.\n"
        );
        assert_eq!(pull_comment("-", &[]), "### Stacks\n\nThis pull request reaches no stack any more.\n");
    }

    #[test]
    fn what_others_write_makes_no_row_link_or_mention() {
        let odd = PulledStack {
            name: "a|b\n[x](y) @all".to_owned(),
            link: Some("javascript:x".to_owned()),
            outcome: PullOutcome::Planned(
                summary(0, 0, 0, 0),
                PullFindings {
                    cost: Some(("1 | @all".to_owned(), "<b>USD".to_owned())),
                    ..PullFindings::default()
                },
            ),
        };
        let text = pull_comment("0", &[odd]);
        assert!(
            text.contains("| a\\|b\\[x\\]\\(y\\) \\@all | planned | 0 | 0 | 0 | 0 | – | +1 bUSD |"),
            "{text}"
        );
        let many: Vec<PulledStack> =
            (0..MAX_ROWS + 3).map(|at| stack(&format!("s{at}"), PullOutcome::Waits)).collect();
        let text = pull_comment("0", &many);
        assert!(
            text.contains("\n3 more stacks are in the console.\n") && text.len() < 60_000,
            "{}",
            text.len()
        );
    }

    #[test]
    fn checks_say_what_stands_in_the_way() {
        let none = PullFindings::default;
        for (outcome, state, words) in [
            (PullOutcome::Planned(summary(0, 0, 0, 0), none()), PullState::Success, "No changes"),
            (
                PullOutcome::Planned(summary(3, 1, 2, 1), none()),
                PullState::Success,
                "2 to create, 1 to change, 1 to destroy, 1 to replace",
            ),
            (
                PullOutcome::Refused(summary(0, 0, 1, 0), none()),
                PullState::Failure,
                "The policy refuses it: 1 to destroy",
            ),
            (PullOutcome::Failed, PullState::Failure, "There is no plan: see the console"),
            (PullOutcome::Waits, PullState::Pending, "The plan is being made"),
            (
                PullOutcome::Checked,
                PullState::Pending,
                "Valid; the plan waits for the release of this commit",
            ),
        ] {
            assert_eq!(outcome.check(), (state, words.to_owned()));
        }
    }
}
