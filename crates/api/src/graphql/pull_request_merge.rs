//! Merge windows of pull requests, and merges that wait for them.

use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::pull_request_merge::MergeAsk;
use plural_core::Error;
use plural_core::access::Actor;
use plural_core::merge_window::{MergeTime, MergeWindows, MergeWish, PrMerging};
use plural_core::sync_window::WindowRule;

use super::{
    error::{IntoGraphql as _, List, Nullable, id, items, list, nullable},
    pull_request::PullRequest,
    pull_request_life::PrMergeMethod,
    request::request,
    sync_window::SyncWindowKind,
};

/// A recurring time in which pull requests may be merged, or may not.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct MergeWindow {
    /// Whether merges are allowed only while such a window is open, or forbidden while one is.
    kind: Option<SyncWindowKind>,
    /// When it opens, in cron's five fields.
    schedule: Option<String>,
    /// How long it stays open, in seconds.
    duration: Option<i64>,
    /// Name of the time zone of the schedule.
    time_zone: Option<String>,
}

impl From<plural_core::merge_window::MergeWindow> for MergeWindow {
    fn from(window: plural_core::merge_window::MergeWindow) -> Self {
        let WindowRule { kind, schedule, seconds, time_zone } = window.0;
        Self {
            kind: Some(kind.into()),
            schedule: Some(schedule.to_string()),
            duration: Some(seconds.into()),
            time_zone: Some(time_zone.name().to_owned()),
        }
    }
}

/// A merge window for a pull request, or for an automation.
#[derive(Debug, InputObject)]
pub(crate) struct MergeWindowAttributes {
    /// Whether merges are allowed only while such a window is open, which is the default, or forbidden while one is.
    kind: Option<SyncWindowKind>,
    /// When it opens, in cron's five fields.
    schedule: String,
    /// How long it stays open, in seconds: from a minute to a week.
    duration: i64,
    /// Name of the time zone of the schedule; UTC by default.
    time_zone: Option<String>,
}

impl MergeWindowAttributes {
    fn parse(self) -> plural_core::Result<plural_core::merge_window::MergeWindow> {
        let Self { kind, schedule, duration, time_zone } = self;
        let kind = kind.map_or(plural_core::sync_window::SyncWindowKind::Allow, Into::into);
        let seconds = u32::try_from(duration).unwrap_or(0);
        let time_zone = time_zone.as_deref().unwrap_or("UTC");
        WindowRule::new(kind, &schedule, seconds, time_zone).map(plural_core::merge_window::MergeWindow)
    }
}

/// Parses the windows of an input; `None` if it has none.
pub(super) fn given_windows(
    windows: List<MergeWindowAttributes>,
    cron: Option<&str>,
) -> plural_core::Result<Option<MergeWindows>> {
    let windows = items(windows)
        .map(|windows| {
            let numbered = windows.into_iter().enumerate();
            numbered
                .map(|(at, window)| window.parse().map_err(|error| in_window(at, error)))
                .collect::<Result<Vec<_>, _>>()
        })
        .transpose()?;
    MergeWindows::given(windows, cron)
}

/// The error of one window of a list, with its index.
fn in_window(at: usize, error: plural_core::Error) -> plural_core::Error {
    match error {
        plural_core::Error::Invalid { field, reason } => {
            plural_core::Error::invalid(format!("mergeWindows.{at}.{field}"), reason)
        }
        other => other,
    }
}

/// The windows of an answer.
pub(super) fn shown_windows(windows: &MergeWindows) -> List<MergeWindow> {
    list(windows.0.iter().cloned().map(MergeWindow::from))
}

/// A merge that a user asked for, and that waits for a window, or was dropped.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct PullRequestMergeWish {
    /// Who asked. The merge happens only if they may still merge it.
    by: Option<String>,
    /// The commit to merge, and no other.
    head: Option<String>,
    /// The method.
    method: Option<PrMergeMethod>,
    /// When it was asked for.
    asked_at: Option<DateTime<Utc>>,
    /// When the console merges it, or retries; absent if it was dropped.
    due_at: Option<DateTime<Utc>>,
    /// Why the last attempt failed.
    error: Option<String>,
    /// Why it was dropped; absent while it waits.
    dropped: Option<String>,
}

/// When a pull request may be merged.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct PullRequestMerging {
    /// In these windows; none: at any time.
    windows: List<MergeWindow>,
    /// It may be merged now.
    open: Option<bool>,
    /// When it may be merged next; absent if it may be now, or not within a year.
    opens_at: Option<DateTime<Utc>>,
    /// The merge that a user asked for.
    wish: Option<PullRequestMergeWish>,
}

impl PullRequestMerging {
    /// The state at this time.
    pub(super) fn at(merging: &PrMerging, now: DateTime<Utc>) -> Self {
        let PrMerging { windows, wish, due_at, begun_at: _ } = merging;
        let (open, opens_at) = match windows.at(now) {
            MergeTime::Open => (true, None),
            MergeTime::Closed { opens_at, words: _ } => (false, opens_at),
        };
        let wish = wish.clone().map(|wish| {
            let MergeWish { user: _, by, head, base: _, method, asked_at, attempts: _, error, dropped } =
                wish;
            PullRequestMergeWish {
                by: Some(by),
                head: Some(head),
                method: Some(method.into()),
                asked_at: Some(asked_at),
                due_at: *due_at,
                error,
                dropped,
            }
        });
        Self { windows: shown_windows(windows), open: Some(open), opens_at, wish }
    }
}

/// Whether windows allow a merge.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct PullRequestMergeTime {
    /// They allow it now.
    open: Option<bool>,
    /// When they allow it next; absent if they do now, or do not within a year.
    opens_at: Option<DateTime<Utc>>,
}

/// Trying windows.
#[derive(Default)]
pub(crate) struct PullRequestMergeQuery;

/// Trying windows.
#[Object]
impl PullRequestMergeQuery {
    /// Whether these windows allow a merge now, or when they do next: to try them before anything uses them. Invalid windows get
    /// the same errors as in the mutations.
    async fn pull_request_merge_time(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "All windows; none: at any time.")] merge_windows: List<MergeWindowAttributes>,
    ) -> Nullable<PullRequestMergeTime> {
        nullable(async {
            let Actor::User(_) = request(ctx).op.actor() else {
                return Err(Error::Unauthenticated).into_graphql(ctx);
            };
            let windows = given_windows(merge_windows, None).into_graphql(ctx)?.unwrap_or_default();
            let (open, opens_at) = match windows.at(request(ctx).op.now()) {
                MergeTime::Open => (true, None),
                MergeTime::Closed { opens_at, words: _ } => (false, opens_at),
            };
            Ok(Some(PullRequestMergeTime { open: Some(open), opens_at }))
        })
        .await
    }
}

/// Merging pull requests.
#[derive(Default)]
pub(crate) struct PullRequestMergeMutation;

/// Merging pull requests.
#[Object]
impl PullRequestMergeMutation {
    /// Merges a pull request at its host, with its connection, if its head is the given commit; needs write access to its project.
    /// If none of its windows is open, it is refused, or merged when one opens.
    async fn merge_pull_request(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] opened: ID,
        #[graphql(desc = "The commit that it merges; else the head that is recorded.")] head: Option<String>,
        #[graphql(desc = "How; with a merge commit where nothing is said.")] method: Option<PrMergeMethod>,
        #[graphql(
            desc = "true: where none of its windows is open, it is merged when one opens, if everything is still so then."
        )]
        in_window: Option<bool>,
    ) -> Nullable<PullRequest> {
        nullable(async {
            let request = request(ctx);
            let opened = id(&opened).into_graphql(ctx)?;
            let ask = MergeAsk {
                head: head.filter(|head| !head.is_empty()),
                method: method.unwrap_or(PrMergeMethod::Merge).into(),
                in_window: in_window.unwrap_or(false),
            };
            let merged = Box::pin(request.app.pull_request_merge(&request.op, opened, ask)).await;
            Ok(Some(merged.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Cancels a merge that waits for a window, or clears one that was dropped; needs write access to the project of the pull request.
    async fn cancel_pull_request_merge(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] opened: ID,
    ) -> Nullable<PullRequest> {
        nullable(async {
            let request = request(ctx);
            let opened = id(&opened).into_graphql(ctx)?;
            let kept = request.app.pull_request_merge_cancel(&request.op, opened).await;
            Ok(Some(kept.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Replaces the windows of a pull request; needs write access to its project. A waiting merge waits for the new ones.
    async fn update_pull_request_merge_windows(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] opened: ID,
        #[graphql(desc = "All windows; none: it may be merged at any time.")] merge_windows: List<
            MergeWindowAttributes,
        >,
        #[graphql(
            desc = "In place of windows: a schedule in cron's five fields, in UTC, that opens for an hour; empty for none."
        )]
        merge_cron: Option<String>,
    ) -> Nullable<PullRequest> {
        nullable(async {
            let request = request(ctx);
            let opened = id(&opened).into_graphql(ctx)?;
            let windows = given_windows(merge_windows, merge_cron.as_deref())
                .and_then(|windows| {
                    windows.ok_or_else(|| {
                        plural_core::Error::invalid("mergeWindows", "must be given; an empty list for none")
                    })
                })
                .into_graphql(ctx)?;
            let changed = request.app.pull_request_windows(&request.op, opened, windows).await;
            Ok(Some(changed.into_graphql(ctx)?.into()))
        })
        .await
    }
}
