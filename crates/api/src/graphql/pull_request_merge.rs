//! When pull requests may be merged, and merges that wait for that.

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

/// A time that comes again and again, in which pull requests are merged, or are not.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct MergeWindow {
    /// Merged only while one of these is open, or not while one is.
    kind: Option<SyncWindowKind>,
    /// When it opens, in cron's five fields.
    schedule: Option<String>,
    /// How long it stays open, in seconds.
    duration: Option<i64>,
    /// Name of the time zone that the schedule is meant in.
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

/// A window to give to a pull request, or to an automation.
#[derive(Debug, InputObject)]
pub(crate) struct MergeWindowAttributes {
    /// Merged only while one of these is open, which is what holds where nothing is said, or not while one is.
    kind: Option<SyncWindowKind>,
    /// When it opens, in cron's five fields.
    schedule: String,
    /// How long it stays open, in seconds: from a minute to a week.
    duration: i64,
    /// Name of the time zone that the schedule is meant in; UTC by default.
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

/// Windows as they are given; nothing where none are.
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

/// The error of one window of a list, with its place in that.
fn in_window(at: usize, error: plural_core::Error) -> plural_core::Error {
    match error {
        plural_core::Error::Invalid { field, reason } => {
            plural_core::Error::invalid(format!("mergeWindows.{at}.{field}"), reason)
        }
        other => other,
    }
}

/// Windows as they are shown.
pub(super) fn shown_windows(windows: &MergeWindows) -> List<MergeWindow> {
    list(windows.0.iter().cloned().map(MergeWindow::from))
}

/// A merge that somebody asked for, and that waits for a window, or was dropped.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct PullRequestMergeWish {
    /// Who asked. It is done only as long as they may merge it.
    by: Option<String>,
    /// The commit that is merged, and no other.
    head: Option<String>,
    /// How.
    method: Option<PrMergeMethod>,
    /// When it was asked for.
    asked_at: Option<DateTime<Utc>>,
    /// When the console merges it, or tries so again; absent where it was dropped.
    due_at: Option<DateTime<Utc>>,
    /// Why it did not work the last time.
    error: Option<String>,
    /// Why it is not done any more; absent while it waits.
    dropped: Option<String>,
}

/// When a pull request may be merged.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct PullRequestMerging {
    /// In these windows; without any, at any time.
    windows: List<MergeWindow>,
    /// It may be merged now.
    open: Option<bool>,
    /// When it may be merged next; absent where it may be now, or may not for more than a year.
    opens_at: Option<DateTime<Utc>>,
    /// The merge that somebody asked for.
    wish: Option<PullRequestMergeWish>,
}

impl PullRequestMerging {
    /// As it is at this time.
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

/// Whether windows let a merge through.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct PullRequestMergeTime {
    /// They do so now.
    open: Option<bool>,
    /// When they do next; absent where they do now, or do not for more than a year.
    opens_at: Option<DateTime<Utc>>,
}

/// Trying windows.
#[derive(Default)]
pub(crate) struct PullRequestMergeQuery;

/// Trying windows.
#[Object]
impl PullRequestMergeQuery {
    /// Whether these windows let a merge through now, or when they do next: for who writes them, before anything has them. What is wrong with
    /// one is told as by the mutations that take them.
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
    /// Merges a pull request at its host, with its connection, as long as its head is the given commit; needs write access to its project.
    /// Where none of its windows is open, it is refused, or merged when one opens.
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

    /// Forgets a merge that waits for a window, or that was dropped; needs write access to the project of the pull request.
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

    /// Gives a pull request other windows; needs write access to its project. A merge that waits does so for these.
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
