//! `plural pr merge` and `windows`: merging a pull request, at once or when a window opens.

use std::time::Duration;

use clap::{Args, ValueEnum};
use plural_wire::{
    CancelPullRequestMerge, Client, ClientError, GetPullRequest, MergePullRequest, MergeWindow,
    MergeWindowAttributes, PrMergeMethod, PrStatus, PullRequestLife, PullRequestMergeWish,
    PullRequestMerging, SyncWindowKind, UpdatePullRequestMergeWindows,
};

use crate::{
    args::{ConfirmArgs, OutputArgs, WaitArgs},
    error::CliError,
    key::parse_duration,
    output,
    plain::one_line,
    pr_life::{find, short, unmerged},
    terminal::Terminal,
    wait::{Observed, until},
};

/// How to merge
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodArg {
    /// With a merge commit
    Merge,
    /// As one commit with all changes
    Squash,
    /// Rebases its commits onto the target branch
    Rebase,
}

impl From<MethodArg> for PrMergeMethod {
    fn from(method: MethodArg) -> Self {
        match method {
            MethodArg::Merge => Self::Merge,
            MethodArg::Squash => Self::Squash,
            MethodArg::Rebase => Self::Rebase,
        }
    }
}

/// Merge a pull request at its git host, with the connection that opened it
///
/// Needs write access to its project. It is merged only while its head is the given commit, or, without one, the commit that you are shown
/// before you confirm: later commits are not merged unseen. Outside of its merge windows the merge is refused, or, with --in-window, done when
/// one opens, if the head is still the same and you still may. With --wait, the command ends when it is merged, or, with exit code 1,
/// when the merge is dropped or cancelled.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr merge 0190b8a2-7c11-7def-8000-0123456789ab
  plural pr merge https://github.com/acme/shop/pull/7 --method squash --head 4f2c1e9a7b21d3c5e6f708192a3b4c5d6e7f8091 --yes
  plural pr merge https://github.com/acme/shop/pull/7 --in-window
  plural pr merge https://github.com/acme/shop/pull/7 --in-window --wait --timeout 12h
  plural pr merge https://github.com/acme/shop/pull/7 --cancel")]
pub(crate) struct PrMergeArgs {
    /// Its id or its address
    #[arg(value_name = "PULL-REQUEST")]
    pull_request: String,

    /// How to merge it
    #[arg(long, value_enum, default_value = "merge", value_name = "METHOD")]
    method: MethodArg,

    /// The commit to merge, all digits of it; by default the head that is recorded
    #[arg(long, value_name = "COMMIT")]
    head: Option<String>,

    /// If no merge window is open, merge it when one opens
    #[arg(long)]
    in_window: bool,

    /// Cancel a merge that waits for a window
    #[arg(long, conflicts_with_all = ["method", "head", "in_window", "wait"])]
    cancel: bool,

    #[command(flatten)]
    confirm: ConfirmArgs,

    #[command(flatten)]
    wait: WaitArgs,

    #[command(flatten)]
    output: OutputArgs,
}

/// What a window does while it is open
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindArg {
    /// Merges are allowed only while it is open
    Allow,
    /// Merges are denied while it is open
    Deny,
}

/// Set when a pull request may be merged
///
/// Needs write access to its project. The window replaces all that the pull request has, which it first gets from its automation. A merge that
/// waits for a window then waits for this one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural pr windows https://github.com/acme/shop/pull/7 --schedule '0 22 * * mon-fri' --duration 4h --time-zone Europe/Berlin
  plural pr windows 0190b8a2-7c11-7def-8000-0123456789ab --kind deny --schedule '0 0 24 12 *' --duration 48h
  plural pr windows 0190b8a2-7c11-7def-8000-0123456789ab --none")]
pub(crate) struct PrWindowsArgs {
    /// Its id or its address
    #[arg(value_name = "PULL-REQUEST")]
    pull_request: String,

    /// Remove all windows: it may be merged at any time
    #[arg(long, conflicts_with_all = ["schedule", "duration"], required_unless_present = "schedule")]
    none: bool,

    /// What the window does while it is open
    #[arg(long, value_enum, default_value = "allow", value_name = "KIND")]
    kind: KindArg,

    /// When it opens: minute, hour, day of the month, month, day of the week, as in cron
    #[arg(long, value_name = "CRON")]
    schedule: Option<String>,

    /// How long it stays open: 30m, 8h; a week at most
    #[arg(long, default_value = "1h", value_parser = parse_duration, value_name = "DURATION")]
    duration: Duration,

    /// Time zone of the schedule, by its IANA name
    #[arg(long, default_value = "UTC", value_name = "ZONE")]
    time_zone: String,

    #[command(flatten)]
    output: OutputArgs,
}

pub(crate) async fn merge(
    PrMergeArgs { pull_request, method, head, in_window, cancel, confirm, wait, output }: PrMergeArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let known = find(&pull_request, client).await?;
    if cancel {
        let kept = client.send(&CancelPullRequestMerge { id: known.id }).await?;
        return output::item(&kept, &output.output, terminal);
    }
    let head = head.or_else(|| known.head.clone()).ok_or_else(|| {
        CliError::new("its head is not known yet").hint("`plural pr refresh` reads it back from its host")
    })?;
    let title = known.title.as_deref().unwrap_or_default();
    let ask = format!(
        "merge {title:?} at {} into {}{}",
        short(&head),
        known.base.as_deref().unwrap_or("its base"),
        if in_window { ", when a window of it is open" } else { "" }
    );
    terminal.confirm(&ask, confirm.yes)?;
    let ask = MergePullRequest {
        id: known.id,
        head: Some(head),
        method: Some(method.into()),
        in_window: Some(in_window),
    };
    let merged = client.send(&ask).await?;
    if wait.wait {
        let merged = until_merged(merged, wait.timeout, client, terminal).await?;
        return output::item(&merged, &output.output, terminal);
    }
    if let Some(wish) = waiting(&merged) {
        let due = wish.due_at.map(|at| at.to_rfc3339()).unwrap_or_default();
        terminal.say(format_args!("its merge windows let nothing through now: it is merged at {due}"));
    }
    output::item(&merged, &output.output, terminal)
}

pub(crate) async fn windows(
    PrWindowsArgs { pull_request, none: _, kind, schedule, duration, time_zone, output }: PrWindowsArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let known = find(&pull_request, client).await?;
    let window = schedule.map(|schedule| MergeWindowAttributes {
        duration: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        kind: Some(match kind {
            KindArg::Allow => SyncWindowKind::Allow,
            KindArg::Deny => SyncWindowKind::Deny,
        }),
        schedule,
        time_zone: Some(time_zone),
    });
    let merge_windows = Some(window.into_iter().collect());
    let changed = client.send(&UpdatePullRequestMergeWindows { id: known.id, merge_windows }).await?;
    for (what, value) in changed.merging.iter().flat_map(told) {
        terminal.say(format_args!("{}: {}", what.to_lowercase(), one_line(&value)));
    }
    output::item(&changed, &output.output, terminal)
}

/// The pull request as it is when it is merged.
async fn until_merged(
    asked: PullRequestLife,
    timeout: Duration,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<PullRequestLife, CliError> {
    if asked.status == Some(PrStatus::Merged) {
        return Ok(asked);
    }
    let waits = waiting(&asked).is_some();
    let ask = GetPullRequest { id: asked.id };
    until("the merge", timeout, terminal, async || {
        let now = client.send(&ask).await?;
        Ok::<_, ClientError>(observed(now, waits))
    })
    .await
}

/// How far a merge is; `waits` when it waited for a window as it was asked for.
fn observed(now: PullRequestLife, waits: bool) -> Observed<PullRequestLife> {
    match now.status {
        Some(PrStatus::Merged) => return Observed::Done(now),
        Some(PrStatus::Closed) => return Observed::Never(unmerged(&now)),
        Some(PrStatus::Open | PrStatus::Unknown) | None => {}
    }
    if !waits {
        return Observed::NotYet("its host does not say yet that it is merged".to_owned());
    }
    let Some(wish) = now.merging.as_ref().and_then(|merging| merging.wish.as_ref()) else {
        return Observed::Never(CliError::new("somebody cancelled the merge"));
    };
    let PullRequestMergeWish { due_at, error, dropped, by: _, head: _, method: _, asked_at: _ } = wish;
    if let Some(why) = dropped {
        return Observed::Never(CliError::new(format!("it is not merged any more: {}", one_line(why))));
    }
    let due = due_at.map(|at| at.to_rfc3339()).unwrap_or_default();
    Observed::NotYet(match error {
        Some(why) => format!("the last try failed, the next one is at {due}: {}", one_line(why)),
        None => format!("it is merged at {due}"),
    })
}

/// The merge that waits for a window.
fn waiting(known: &PullRequestLife) -> Option<&PullRequestMergeWish> {
    known.merging.as_ref()?.wish.as_ref().filter(|wish| wish.dropped.is_none())
}

/// When it may be merged, in words; nothing where that is at any time.
pub(crate) fn told(merging: &PullRequestMerging) -> Vec<(&'static str, String)> {
    let PullRequestMerging { open, opens_at, windows, wish } = merging;
    let mut lines = Vec::new();
    for window in windows {
        lines.push(("Merge window", window_words(window)));
    }
    if !windows.is_empty() {
        let when = match (open, opens_at) {
            (Some(true), _) => "now".to_owned(),
            (_, Some(at)) => format!("from {}", at.to_rfc3339()),
            (_, None) => "not for more than a year".to_owned(),
        };
        lines.push(("May be merged", when));
    }
    if let Some(PullRequestMergeWish { by, head, method, asked_at: _, due_at, error, dropped }) = wish {
        let by = by.as_deref().unwrap_or("somebody");
        let commit = head.as_deref().map(short).unwrap_or_default();
        let how = method.map(PrMergeMethod::as_str).unwrap_or_default().to_lowercase();
        let due = due_at.map(|at| format!(", at {}", at.to_rfc3339())).unwrap_or_default();
        match dropped {
            None => lines.push(("Waits to be merged", format!("{commit}, {how}, for {by}{due}"))),
            Some(why) => lines.push(("Not merged any more", format!("{commit}, for {by}: {why}"))),
        }
        if let Some(error) = error {
            lines.push(("The last try failed", error.clone()));
        }
    }
    lines
}

/// `allow 0 22 * * mon-fri for 4h in Europe/Berlin`
pub(crate) fn window_words(window: &MergeWindow) -> String {
    let MergeWindow { kind, schedule, duration, time_zone } = window;
    let minutes = duration.unwrap_or_default() / 60;
    let long = match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes}m"),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    };
    format!(
        "{} {} for {long} in {}",
        kind.map(SyncWindowKind::as_str).unwrap_or_default().to_lowercase(),
        schedule.as_deref().unwrap_or_default(),
        time_zone.as_deref().unwrap_or("UTC")
    )
}
