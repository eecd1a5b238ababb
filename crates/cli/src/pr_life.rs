//! `plural pr describe`, `close` and `refresh`: a pull request after it was opened.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use clap::Args;
use plural_wire::{
    Client, ClosePullRequest, GetPullRequest, ListPullRequests, PAGE_SIZE, PrCheckState, PrPhase,
    PrReviewPhase, PrStatus, PullRequestChecks, PullRequestGovernance, PullRequestLife, PullRequestReviews,
    PullRequestSecret, PullRequestSecretState, RefreshPullRequest, all_pages,
};

use crate::{
    args::{ConfirmArgs, OutputArgs},
    error::CliError,
    key,
    output::{self, Row, age, or_dash},
    plain::one_line,
    pr_merge,
    terminal::Terminal,
    watch::{Described, watch_one},
};

/// Digits of a commit in a table.
const SHORT: usize = 12;

/// Show the state of a pull request, and what it belongs to
///
/// Shows what the console last read from the git host; `plural pr refresh` reads it again. With --watch, it is printed again whenever it
/// changes, until it is merged or closed. The exit code is then 0 if it was merged, and 1 if it was closed or could not be opened.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr describe 0190b8a2-7c11-7def-8000-0123456789ab
  plural pr describe https://github.com/acme/shop/pull/7 --watch
  plural pr describe https://github.com/acme/shop/pull/7 -o json")]
pub(crate) struct PrDescribeArgs {
    /// Its id or its address
    #[arg(value_name = "PULL-REQUEST")]
    pull_request: String,

    /// Keep running and print what changes, until it is merged or closed
    #[arg(short, long)]
    watch: bool,

    #[command(flatten)]
    output: OutputArgs,
}

/// Close a pull request at its git host without a merge
///
/// Needs write access to its project. Its branch stays.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr close 0190b8a2-7c11-7def-8000-0123456789ab --yes")]
pub(crate) struct PrCloseArgs {
    /// Its id or its address
    #[arg(value_name = "PULL-REQUEST")]
    pull_request: String,

    #[command(flatten)]
    confirm: ConfirmArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// Read a pull request from its git host again, now
///
/// Needs write access to its project. The console does this by itself when the host's webhook reports an event, and every few minutes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr refresh 0190b8a2-7c11-7def-8000-0123456789ab
  plural pr refresh https://github.com/acme/shop/pull/7 -o json")]
pub(crate) struct PrRefreshArgs {
    /// Its id or its address
    #[arg(value_name = "PULL-REQUEST")]
    pull_request: String,

    #[command(flatten)]
    output: OutputArgs,
}

impl Row for PullRequestLife {
    const HEADINGS: (&'static [&'static str], usize) =
        (&["TITLE", "STATUS", "CHECKS", "REVIEWS", "HEAD", "REPOSITORY", "READ", "URL", "ID"], 7);

    fn id(&self) -> &str {
        &self.id
    }

    fn name(&self) -> String {
        format!("pull-request/{}", self.id)
    }

    fn cells(&self, now: DateTime<Utc>) -> Vec<String> {
        vec![
            or_dash(self.title.as_deref()),
            or_dash(stands(self)),
            or_dash(self.checks.as_ref().map(checks).as_deref()),
            or_dash(self.reviews.as_ref().map(reviews).as_deref()),
            or_dash(self.head.as_deref().map(short)),
            or_dash(self.repository.as_deref()),
            age(self.read_at, now),
            or_dash(Some(&self.url)),
            self.id.clone(),
        ]
    }
}

pub(crate) async fn describe(
    PrDescribeArgs { pull_request, watch, output }: PrDescribeArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let known = find(&pull_request, client).await?;
    if !watch {
        return output::described(&known, &known, &output.output, terminal, || known.words(Utc::now()));
    }
    let id = known.id.clone();
    let look = async || client.send(&GetPullRequest { id: id.clone() }).await;
    let ended = watch_one(known, &output.output, terminal, look).await?;
    if ended.status == Some(PrStatus::Merged) { Ok(()) } else { Err(unmerged(&ended)) }
}

/// Why it is not merged and will not be.
pub(crate) fn unmerged(ended: &PullRequestLife) -> CliError {
    let title = ended.title.as_deref().unwrap_or_default();
    let how = match (ended.status, ended.error.as_deref()) {
        (Some(_), _) => "was closed without a merge".to_owned(),
        (None, Some(why)) => format!("was not opened: {}", one_line(why)),
        (None, None) => "was not opened".to_owned(),
    };
    CliError::new(format!("pull request {title:?} {how}"))
}

impl Described for PullRequestLife {
    fn named(&self) -> String {
        self.name()
    }

    fn words(&self, now: DateTime<Utc>) -> String {
        words(self, now)
    }

    fn is_over(&self) -> bool {
        match self.status {
            Some(PrStatus::Merged | PrStatus::Closed) => true,
            Some(PrStatus::Open | PrStatus::Unknown) => false,
            None => self.phase == Some(PrPhase::Failed),
        }
    }
}

pub(crate) async fn close(
    PrCloseArgs { pull_request, confirm, output }: PrCloseArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let known = find(&pull_request, client).await?;
    let title = known.title.as_deref().unwrap_or_default();
    terminal.confirm(&format!("close {title:?} without a merge"), confirm.yes)?;
    let closed = client.send(&ClosePullRequest { id: known.id }).await?;
    output::item(&closed, &output.output, terminal)
}

pub(crate) async fn refresh(
    PrRefreshArgs { pull_request, output }: PrRefreshArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let known = find(&pull_request, client).await?;
    let read = client.send(&RefreshPullRequest { id: known.id }).await?;
    if let Some(why) = &read.read_error {
        terminal.say(format_args!("it could not be read: {}", one_line(why)));
    }
    output::item(&read, &output.output, terminal)
}

/// The pull request of this id or address.
pub(crate) async fn find(text: &str, client: &Client) -> Result<PullRequestLife, CliError> {
    let missing = || {
        let hint = "`plural pr list -o wide` shows the ids and addresses of those that you may see";
        CliError::missing(format_args!("pull request {text:?}"), hint)
    };
    let bare = key::bare_id("pull-request", text);
    let id = if key::is_id(bare) {
        bare.to_owned()
    } else if text.contains("://") {
        let page = |after| ListPullRequests {
            after,
            first: PAGE_SIZE,
            project_id: None,
            status: None,
            service_id: None,
            stack_id: None,
            cluster_id: None,
            q: Some(text.to_owned()),
        };
        let all = all_pages(client, page).await?;
        // Two connections may have a record of the same one: either tells the same of it.
        all.into_iter().find(|one| one.url == text).ok_or_else(missing)?.id
    } else {
        return Err(CliError::usage(format!("{text:?} is neither an id nor an address"))
            .hint("`plural pr list -o wide` shows both"));
    };
    client.send(&GetPullRequest { id }).await.map_err(|error| CliError::absent(error, missing))
}

fn stands(known: &PullRequestLife) -> Option<&'static str> {
    known.status.map(PrStatus::as_str).or(known.phase.map(PrPhase::as_str))
}

pub(crate) fn short(commit: &str) -> &str {
    commit.get(..SHORT).unwrap_or(commit)
}

fn checks(checks: &PullRequestChecks) -> String {
    let count = |count: Option<i64>| count.unwrap_or_default();
    let (passed, failed, pending) = (count(checks.passed), count(checks.failed), count(checks.pending));
    let told = match checks.state {
        None | Some(PrCheckState::None) => "none".to_owned(),
        Some(PrCheckState::Passed) => format!("{passed} passed"),
        Some(PrCheckState::Pending) => format!("{pending} of {} pending", passed + failed + pending),
        Some(PrCheckState::Failed) => format!("{failed} of {} failed", passed + failed + pending),
        Some(PrCheckState::Unknown) => "unknown".to_owned(),
    };
    // What was not read may be bad.
    if checks.incomplete == Some(true) { format!("{told}, and more that are not read") } else { told }
}

fn reviews(reviews: &PullRequestReviews) -> String {
    let (approved, refused) =
        (reviews.approved.unwrap_or_default(), reviews.changes_requested.unwrap_or_default());
    match (approved, refused) {
        (0, 0) => "none".to_owned(),
        (_, 0) => format!("{approved} approved"),
        (0, _) => format!("{refused} want changes"),
        (_, _) => format!("{approved} approved, {refused} want changes"),
    }
}

/// Where a Secret is to be, with the names of its values, and how far it is.
fn told(secret: &PullRequestSecret) -> (String, Option<&'static str>) {
    let cluster = secret.cluster.as_ref().and_then(|cluster| cluster.handle.as_deref());
    let on = cluster.map(|cluster| format!(" on {cluster}")).unwrap_or_default();
    let (namespace, name) =
        (secret.namespace.as_deref().unwrap_or_default(), secret.name.as_deref().unwrap_or_default());
    let names: Vec<&str> = secret.entries.iter().filter_map(|entry| entry.name.as_deref()).collect();
    let place = format!("{namespace}/{name}{on} ({})", names.join(", "));
    (place, secret.state.map(PullRequestSecretState::as_str))
}

/// How it stands with its governance.
fn governed(governed: &PullRequestGovernance) -> String {
    let name = governed.governance.as_ref().map_or("(one that you do not see)", |of| of.name.as_str());
    let stands = match governed.phase {
        Some(PrReviewPhase::Open) => "was not reached yet",
        Some(PrReviewPhase::Confirm) if governed.refused == Some(true) => "says no",
        Some(PrReviewPhase::Confirm) => "did not confirm its head yet",
        Some(PrReviewPhase::Approve) => "confirmed its head, which is not approved at the host yet",
        Some(PrReviewPhase::Approved) => "confirmed its head",
        Some(PrReviewPhase::Close) => "is to be told that it is over",
        Some(PrReviewPhase::Closed) => "knows that it is over",
        Some(PrReviewPhase::Unknown) | None => "stands in a way that this client does not know",
    };
    let said = governed.message.as_deref().map(|said| format!(": {said}")).unwrap_or_default();
    format!("{name} {stands}{said}")
}

/// What `describe` says.
fn words(known: &PullRequestLife, now: DateTime<Utc>) -> String {
    let mut text = String::new();
    let mut line = |what: &str, value: Option<&str>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            let _ = writeln!(text, "{what}: {}", one_line(value));
        }
    };
    line("Title", known.title.as_deref());
    line("Status", stands(known));
    line("Error", known.error.as_deref());
    line("Address", Some(&known.url));
    line("Repository", known.repository.as_deref());
    line("Branch", known.reference.as_deref());
    line("Into", known.base.as_deref());
    line("Head", known.head.as_deref());
    line("Merged as", known.merge_commit.as_deref());
    line("Draft", (known.draft == Some(true)).then_some("yes"));
    line("From a fork", (known.fork == Some(true)).then_some("yes"));
    line("Checks", known.checks.as_ref().map(checks).as_deref());
    line("Reviews", known.reviews.as_ref().map(reviews).as_deref());
    line("Governance", known.governance.as_ref().map(governed).as_deref());
    line("Labels", Some(&known.labels.join(", ")));
    line("Service", known.service.as_ref().map(|service| service.name.as_str()));
    line("Stack", known.stack.as_ref().map(|stack| stack.name.as_str()));
    line("Cluster", known.cluster.as_ref().map(|cluster| cluster.name.as_str()));
    if let Some(secret) = &known.secret {
        let (place, state) = told(secret);
        line("Secret", Some(&place));
        line("Secret is", state);
        line("Secret waits", secret.message.as_deref());
    }
    line("Project", known.project.as_ref().map(|project| project.name.as_str()));
    line("Opened by", known.creator.as_deref());
    line("Author at the host", known.author.as_deref());
    line("Read", known.read_at.map(|at| format!("{} ago", age(Some(at), now))).as_deref());
    line("Could not be read", known.read_error.as_deref());
    for (what, value) in known.merging.iter().flat_map(pr_merge::told) {
        line(what, Some(&value));
    }
    text
}
