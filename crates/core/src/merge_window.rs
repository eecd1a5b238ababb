//! When a pull request may be merged, and a merge that waits for that. Both come from the record: what an author writes in a body is not asked.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{SyncWindowId, UserId};
use crate::pull_request::PrStatus;
use crate::pull_request_life::PrMergeMethod;
use crate::sync_window::{SyncWindow, SyncWindowKind, WindowRule, window_hold};

/// Windows of one pull request, or of one automation.
pub const MAX_MERGE_WINDOWS: usize = 20;
/// Seconds that a window of a `mergeCron` stays open: an hour.
pub const MERGE_CRON_SECONDS: u32 = 3_600;
/// How long nobody else takes up a merge that one console begins.
const BEGUN_FOR: TimeDelta = TimeDelta::minutes(3);
/// The pause after the first merge that a host could not do.
const FIRST_PAUSE: TimeDelta = TimeDelta::seconds(15);
/// The longest pause.
const LAST_PAUSE: TimeDelta = TimeDelta::minutes(5);

/// A time that comes again and again, in which pull requests are merged, or are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct MergeWindow(pub WindowRule);

/// A window as it is stored, and as files write it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    #[serde(default = "lets_through")]
    kind: SyncWindowKind,
    schedule: String,
    duration: i64,
    #[serde(default = "utc")]
    time_zone: String,
}

const fn lets_through() -> SyncWindowKind {
    SyncWindowKind::Allow
}

fn utc() -> String {
    "UTC".to_owned()
}

impl TryFrom<Written> for MergeWindow {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self> {
        let Written { kind, schedule, duration, time_zone } = written;
        let seconds = u32::try_from(duration).unwrap_or(0);
        WindowRule::new(kind, &schedule, seconds, &time_zone).map(Self)
    }
}

impl From<MergeWindow> for Written {
    fn from(MergeWindow(rule): MergeWindow) -> Self {
        let WindowRule { kind, schedule, seconds, time_zone } = rule;
        Self {
            kind,
            schedule: schedule.to_string(),
            duration: seconds.into(),
            time_zone: time_zone.name().to_owned(),
        }
    }
}

/// All windows of a pull request, or of an automation, whose pull requests get them; without any, there is no time at which one is not merged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MergeWindows(pub Vec<MergeWindow>);

impl MergeWindows {
    /// What is given: windows, or a schedule alone as `mergeCron` has it, which opens for an hour in UTC. `None` where neither is given, an
    /// empty list or text for none.
    ///
    /// # Errors
    /// [`Error::Invalid`] for both at a time, for too many, and for a schedule that nobody can read.
    pub fn given(windows: Option<Vec<MergeWindow>>, cron: Option<&str>) -> Result<Option<Self>> {
        let given = match (windows, cron.map(str::trim)) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid(
                    "mergeCron",
                    "is another way to say mergeWindows: give one of the two",
                ));
            }
            (None, None) => return Ok(None),
            (Some(windows), None) => windows,
            (None, Some("")) => Vec::new(),
            (None, Some(cron)) => {
                vec![MergeWindow(WindowRule::new(SyncWindowKind::Allow, cron, MERGE_CRON_SECONDS, "UTC")?)]
            }
        };
        if given.len() > MAX_MERGE_WINDOWS {
            return Err(Error::invalid("mergeWindows", format!("must be at most {MAX_MERGE_WINDOWS}")));
        }
        Ok(Some(Self(given)))
    }

    /// Whether one may be merged at `now`, or when it may.
    pub fn at(&self, now: DateTime<Utc>) -> MergeTime {
        let windows: Vec<SyncWindow> = self
            .0
            .iter()
            .map(|MergeWindow(rule)| SyncWindow {
                // It is asked when they are open, and of what they are is no matter of that.
                id: SyncWindowId::from_uuid(Uuid::nil()),
                name: None,
                rule: rule.clone(),
                description: None,
            })
            .collect();
        match window_hold(&windows, now) {
            None => MergeTime::Open,
            Some(hold) => MergeTime::Closed {
                opens_at: hold.opens_at,
                words: hold
                    .opens_at
                    .map(|at| at.with_timezone(&hold.time_zone).format("%a %Y-%m-%d %H:%M %Z").to_string()),
            },
        }
    }
}

/// Whether a pull request may be merged at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeTime {
    /// It may.
    Open,
    /// It may not.
    Closed {
        /// When it may; absent where that is more than a year away.
        opens_at: Option<DateTime<Utc>>,
        /// The same for people, in the time zone of the window.
        words: Option<String>,
    },
}

impl MergeTime {
    /// Refuses a merge that is not to be now.
    ///
    /// # Errors
    /// [`Error::Conflict`], which says when it may be.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Open => Ok(()),
            Self::Closed { words: Some(words), .. } => Err(Error::conflict(format!(
                "its merge windows let nothing through before {words}. Merge it then, or have it merged then: with inWindow \
                 (`plural pr merge --in-window`)"
            ))),
            Self::Closed { words: None, .. } => Err(Error::conflict(
                "its merge windows let nothing through for more than a year: give it other ones first (`plural pr windows`)",
            )),
        }
    }
}

/// A merge that somebody asked for, and that waits for a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MergeWish {
    /// Who asked, whose right to merge counts when it is time; absent: the console itself.
    pub user: Option<UserId>,
    /// What the audit log calls them.
    pub by: String,
    /// The commit that it merges, and no other.
    pub head: String,
    /// The branch that it merges into, and no other, where that is known.
    #[serde(default)]
    pub base: Option<String>,
    /// How.
    pub method: PrMergeMethod,
    /// When it was asked for.
    pub asked_at: DateTime<Utc>,
    /// Merges that the host could not do, one after the other.
    #[serde(default)]
    pub attempts: u32,
    /// Why the last one did not work.
    #[serde(default)]
    pub error: Option<String>,
    /// It does not wait any more, and nobody merges it: why.
    #[serde(default)]
    pub dropped: Option<String>,
}

impl MergeWish {
    /// The same, which waits no longer.
    #[must_use]
    pub fn dropped(&self, why: impl Into<String>) -> Self {
        Self { dropped: Some(why.into()), ..self.clone() }
    }

    /// The same, after a host that could not do it.
    #[must_use]
    pub fn failed(&self, error: impl Into<String>) -> Self {
        Self { attempts: self.attempts.saturating_add(1), error: Some(error.into()), ..self.clone() }
    }

    /// How long to wait for the next try.
    pub fn pause(&self) -> TimeDelta {
        let doubled = 1_i32.checked_shl(self.attempts.saturating_sub(1).min(10)).unwrap_or(1);
        FIRST_PAUSE.checked_mul(doubled).map_or(LAST_PAUSE, |pause| pause.min(LAST_PAUSE))
    }
}

/// When a pull request may be merged, and who asked for that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrMerging {
    /// When it may be.
    pub windows: MergeWindows,
    /// The merge that was asked for: it waits, or was dropped.
    pub wish: Option<MergeWish>,
    /// When the console takes it up; absent where none waits.
    pub due_at: Option<DateTime<Utc>>,
    /// When a console began to merge it.
    pub begun_at: Option<DateTime<Utc>>,
}

impl PrMerging {
    /// Whether a console merges it at this moment, as far as anybody knows.
    pub fn is_begun(&self, now: DateTime<Utc>) -> bool {
        self.begun_at.is_some_and(|begun| (now - begun).abs() < BEGUN_FOR)
    }

    /// The merge that waits.
    pub fn waiting(&self) -> Option<&MergeWish> {
        self.wish.as_ref().filter(|wish| wish.dropped.is_none())
    }

    /// With this merge, which is due when a window opens, and not before; one for which none does is dropped.
    #[must_use]
    pub fn waits(self, wish: MergeWish, not_before: DateTime<Utc>) -> Self {
        let due = match self.windows.at(not_before) {
            MergeTime::Open => Some(not_before),
            MergeTime::Closed { opens_at, words: _ } => opens_at,
        };
        match due {
            Some(due) => Self { wish: Some(wish), due_at: Some(due), begun_at: None, ..self },
            None => self.drops(&wish, "none of its merge windows opens within a year"),
        }
    }

    /// With this merge, which waits no longer.
    #[must_use]
    pub fn drops(self, wish: &MergeWish, why: impl Into<String>) -> Self {
        Self { wish: Some(wish.dropped(why)), due_at: None, begun_at: None, ..self }
    }

    /// Without a merge that was asked for.
    #[must_use]
    pub fn without(self) -> Self {
        Self { wish: None, due_at: None, begun_at: None, ..self }
    }

    /// With these windows; a merge that waits does so for these.
    #[must_use]
    pub fn within(self, windows: MergeWindows, now: DateTime<Utc>) -> Self {
        let changed = Self { windows, ..self };
        match changed.waiting().cloned() {
            Some(wish) => changed.waits(wish, now),
            None => changed,
        }
    }

    /// What becomes of it when the pull request was read back, and stands so.
    #[must_use]
    pub fn seen(self, status: PrStatus, head: Option<&str>) -> Self {
        let Some(wish) = self.waiting().cloned() else { return self };
        match status {
            PrStatus::Merged => self.without(),
            PrStatus::Closed => self.drops(&wish, "the pull request was closed"),
            PrStatus::Open => match head {
                Some(head) if head != wish.head => {
                    let why = format!(
                        "its head is {head} now, which nobody asked to merge: look at it, and ask again"
                    );
                    self.drops(&wish, why)
                }
                Some(_) | None => self,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn windows(json: serde_json::Value) -> MergeWindows {
        serde_json::from_value(json).unwrap()
    }

    fn nights() -> MergeWindows {
        windows(serde_json::json!([
            {"schedule": "0 22 * * mon-fri", "duration": 14_400, "timeZone": "Europe/Berlin"},
            {"kind": "DENY", "schedule": "0 0 24 12 *", "duration": 172_800, "timeZone": "Europe/Berlin"},
        ]))
    }

    fn wish() -> MergeWish {
        MergeWish {
            user: None,
            by: "a@example.com".to_owned(),
            head: "a".repeat(40),
            base: None,
            method: PrMergeMethod::Squash,
            asked_at: at("2026-11-23T12:00:00Z"),
            attempts: 0,
            error: None,
            dropped: None,
        }
    }

    #[test]
    fn a_closed_window_says_when_the_next_one_opens() {
        let nights = nights();
        // A Monday; Berlin is an hour ahead.
        assert_eq!(nights.at(at("2026-11-23T21:00:00Z")), MergeTime::Open);
        assert_eq!(nights.at(at("2026-11-24T00:59:59Z")), MergeTime::Open);
        let closed = nights.at(at("2026-11-24T01:00:00Z"));
        let MergeTime::Closed { opens_at, .. } = &closed else { panic!("{closed:?}") };
        assert_eq!(*opens_at, Some(at("2026-11-24T21:00:00Z")));
        let refused = closed.check().unwrap_err().to_string();
        assert!(refused.contains("Tue 2026-11-24 22:00 CET") && refused.contains("--in-window"), "{refused}");
        // What denies wins: the night of the 24th of December is none, and neither is that after it.
        let closed = nights.at(at("2026-12-24T22:00:00Z"));
        let MergeTime::Closed { opens_at, .. } = closed else { panic!("{closed:?}") };
        assert_eq!(opens_at, Some(at("2026-12-25T23:00:00Z")), "the freeze ends in a night that has begun");
        let never = windows(serde_json::json!([{"kind": "DENY", "schedule": "* * * * *", "duration": 60}]));
        let refused = never.at(at("2026-11-24T01:00:00Z")).check().unwrap_err().to_string();
        assert!(refused.contains("more than a year"), "{refused}");
        MergeWindows::default().at(at("2026-11-24T01:00:00Z")).check().unwrap();
    }

    #[test]
    fn a_schedule_alone_opens_for_an_hour() {
        let given = |cron| MergeWindows::given(None, Some(cron)).unwrap().unwrap();
        let hour = given("30 9 * * 1-5");
        assert_eq!(hour.at(at("2026-11-23T09:30:00Z")), MergeTime::Open);
        assert_eq!(hour.at(at("2026-11-23T10:29:59Z")), MergeTime::Open);
        assert_ne!(hour.at(at("2026-11-23T10:30:00Z")), MergeTime::Open);
        assert_eq!(given(" "), MergeWindows::default());
        assert_eq!(MergeWindows::given(None, None).unwrap(), None);
        assert!(MergeWindows::given(None, Some("soon")).is_err());
        assert!(MergeWindows::given(Some(Vec::new()), Some("0 9 * * *")).is_err());
        let many = vec![hour.0[0].clone(); MAX_MERGE_WINDOWS + 1];
        assert!(MergeWindows::given(Some(many), None).is_err());
    }

    #[test]
    fn what_is_stored_is_read_and_nonsense_is_not() {
        let nights = nights();
        let stored = serde_json::to_value(&nights).unwrap();
        assert_eq!(stored[0]["kind"], "ALLOW");
        assert_eq!(serde_json::from_value::<MergeWindows>(stored).unwrap(), nights);
        for (bad, says) in [
            (serde_json::json!([{"schedule": "0 9 * *", "duration": 60}]), "five fields"),
            (serde_json::json!([{"schedule": "0 9 * * *", "duration": 0}]), "duration"),
            (serde_json::json!([{"schedule": "0 9 * * *", "duration": -1}]), "duration"),
            (serde_json::json!([{"schedule": "0 9 * * *", "duration": 60, "timeZone": "Mars"}]), "timeZone"),
            (serde_json::json!([{"schedule": "0 9 * * *", "duration": 60, "zone": "UTC"}]), "zone"),
        ] {
            let error = serde_json::from_value::<MergeWindows>(bad.clone()).unwrap_err().to_string();
            assert!(error.contains(says), "{bad}: {error}");
        }
        let wish = wish();
        let again: MergeWish = serde_json::from_value(serde_json::to_value(&wish).unwrap()).unwrap();
        assert_eq!(again, wish);
    }

    #[test]
    fn a_merge_waits_for_its_head_and_no_other() {
        let nights = PrMerging { windows: nights(), ..PrMerging::default() };
        let waits = nights.clone().waits(wish(), at("2026-11-23T12:00:00Z"));
        assert_eq!(waits.due_at, Some(at("2026-11-23T21:00:00Z")));
        let seen = |status, head: Option<&str>| waits.clone().seen(status, head);
        let head = "a".repeat(40);
        assert_eq!(seen(PrStatus::Open, Some(&head)), waits);
        assert_eq!(seen(PrStatus::Open, None), waits);
        assert_eq!(seen(PrStatus::Merged, Some(&head)), nights);
        for (dropped, says) in [
            (seen(PrStatus::Open, Some("b")), "its head is b now"),
            (seen(PrStatus::Closed, Some(&head)), "closed"),
        ] {
            assert_eq!((dropped.waiting(), dropped.due_at), (None, None));
            let why = dropped.wish.clone().unwrap().dropped.unwrap();
            assert!(why.contains(says), "{why}");
            // What was dropped stays so, with its reason.
            assert_eq!(dropped.clone().seen(PrStatus::Open, Some("c")), dropped);
        }
    }

    #[test]
    fn other_windows_are_other_times() {
        let now = at("2026-11-23T12:00:00Z");
        let waits = PrMerging { windows: nights(), ..PrMerging::default() }.waits(wish(), now);
        assert_eq!(waits.clone().within(MergeWindows::default(), now).due_at, Some(now));
        let never = windows(serde_json::json!([{"kind": "DENY", "schedule": "* * * * *", "duration": 60}]));
        let dropped = waits.within(never.clone(), now);
        assert_eq!((dropped.waiting(), dropped.due_at), (None, None));
        assert_eq!(dropped.windows, never);
    }

    #[test]
    fn pauses_grow_and_a_begun_merge_is_left_alone_for_a_while() {
        let mut wish = wish();
        let mut pauses = Vec::new();
        for _ in 0..7 {
            wish = wish.failed("the host does not answer");
            pauses.push(wish.pause().num_seconds());
        }
        assert_eq!(pauses, [15, 30, 60, 120, 240, 300, 300]);
        let now = at("2026-11-23T21:00:00Z");
        let mut merging = PrMerging { windows: nights(), ..PrMerging::default() }.waits(wish.clone(), now);
        assert!(!merging.is_begun(now));
        merging.begun_at = Some(now);
        assert!(
            merging.is_begun(now + TimeDelta::minutes(2)) && !merging.is_begun(now + TimeDelta::minutes(3))
        );
        // The last night of this window ends before the pause does: the next night it is.
        let late = at("2026-11-24T00:58:00Z");
        let later = merging.waits(wish.clone(), late + wish.pause());
        assert_eq!((later.due_at, later.begun_at), (Some(at("2026-11-24T21:00:00Z")), None));
    }
}
