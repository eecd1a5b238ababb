//! When new commits may reach a cluster by themselves.

use std::str::FromStr;

use chrono::{DateTime, Duration, TimeDelta, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::cron::{Cron, instant};
use crate::error::{Error, Result};
use crate::ids::SyncWindowId;

/// Whether a window lets through or holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SyncWindowKind {
    /// Only while one of these is open.
    Allow,
    /// Not while one of these is open.
    Deny,
}

impl SyncWindowKind {
    /// The word on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "ALLOW",
            Self::Deny => "DENY",
        }
    }

    /// The kind of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Allow, Self::Deny].into_iter().find(|kind| kind.as_str() == text)
    }
}

/// The longest window, in seconds: a week.
pub const MAX_WINDOW_SECONDS: u32 = 7 * 24 * 60 * 60;

/// A time that comes again and again, for a while each time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowRule {
    /// Lets through, or holds back.
    pub kind: SyncWindowKind,
    /// When it opens, in its time zone.
    pub schedule: Cron,
    /// How long it stays open, in seconds.
    pub seconds: u32,
    /// IANA name of the time zone.
    pub time_zone: Tz,
}

/// A window of a project, a cluster or a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncWindow {
    /// Id.
    pub id: SyncWindowId,
    /// What it is called, unique among the windows of what it is of; files name windows by it.
    pub name: Option<String>,
    /// When.
    pub rule: WindowRule,
    /// Why there is one, for people.
    pub description: Option<String>,
}

/// What holds new commits back, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowHold {
    /// The window: its name, else its description, else its schedule.
    pub window: String,
    /// When new commits go on; absent when that is more than a year away.
    pub opens_at: Option<DateTime<Utc>>,
    /// The time zone of its schedule.
    pub time_zone: Tz,
}

impl WindowHold {
    /// `held by the sync window "weekend" until Mon 2026-11-23 08:00 CET`
    pub fn words(&self) -> String {
        let Self { window, opens_at, time_zone } = self;
        let until = match opens_at {
            Some(at) => format!("until {}", at.with_timezone(time_zone).format("%a %Y-%m-%d %H:%M %Z")),
            None => "for more than a year".to_owned(),
        };
        format!("a new revision is held by the sync window {window:?} {until}")
    }
}

/// What holds new commits back at `now`; nothing when they go on.
pub fn window_hold(windows: &[SyncWindow], now: DateTime<Utc>) -> Option<WindowHold> {
    let holding = holding(windows, now)?;
    let window = match holding.name.as_ref().or(holding.description.as_ref()) {
        Some(words) => words.clone(),
        None => format!("{} {}", holding.rule.kind.as_str().to_lowercase(), holding.rule.schedule),
    };
    Some(WindowHold { window, opens_at: opens_at(windows, now), time_zone: holding.rule.time_zone })
}

/// The window that holds new commits back: one that denies and is open, or else the first that allows, of which none is open.
fn holding(windows: &[SyncWindow], now: DateTime<Utc>) -> Option<&SyncWindow> {
    let of = |kind| windows.iter().filter(move |window| window.rule.kind == kind);
    let is_open = |window: &&SyncWindow| window.rule.open_until(now).is_some();
    of(SyncWindowKind::Deny).find(is_open).or_else(|| {
        if of(SyncWindowKind::Allow).any(|window| is_open(&window)) {
            return None;
        }
        of(SyncWindowKind::Allow)
            .min_by_key(|window| window.rule.opens_after(now).unwrap_or(DateTime::<Utc>::MAX_UTC))
    })
}

/// The first time from `now` on at which no window holds new commits back.
fn opens_at(windows: &[SyncWindow], now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let mut at = now;
    // Each step ends one window or begins one: a year of minutes is the most that could be asked, and is not waited for.
    for _ in 0..MAX_STEPS {
        let Some(holding) = holding(windows, at) else { return Some(at) };
        at = match holding.rule.kind {
            SyncWindowKind::Deny => holding.rule.open_until(at)?,
            SyncWindowKind::Allow => holding.rule.opens_after(at)?,
        };
    }
    None
}

/// Windows that are looked at one after the other for the time at which commits go on.
const MAX_STEPS: u32 = 1_000;

/// Whether new commits go on now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WindowDecision {
    /// They do.
    pub open: bool,
    /// Why not, in words; empty when they do.
    pub why: String,
}

impl WindowRule {
    /// Checks and reads.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a schedule, time zone or length that makes no sense.
    pub fn new(kind: SyncWindowKind, schedule: &str, seconds: u32, time_zone: &str) -> Result<Self> {
        if !(60..=MAX_WINDOW_SECONDS).contains(&seconds) {
            return Err(Error::invalid("duration", "must be from one minute to seven days"));
        }
        let time_zone = Tz::from_str(time_zone).map_err(|_| {
            Error::invalid("timeZone", format!("{time_zone:?} must be a name such as Europe/Berlin or UTC"))
        })?;
        Ok(Self { kind, schedule: schedule.parse()?, seconds, time_zone })
    }

    /// When the window that is open at `now` closes; nothing when none is.
    pub fn open_until(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let length = TimeDelta::seconds(i64::from(self.seconds));
        let today = now.with_timezone(&self.time_zone).date_naive();
        let days_back = i64::from(self.seconds) / (24 * 60 * 60) + 2;
        // The last one that opened closes last: all are of one length.
        (0..=days_back)
            .filter_map(|back| today.checked_sub_signed(Duration::days(back)))
            .filter(|date| self.schedule.on_day(*date))
            .find_map(|date| {
                self.schedule
                    .times()
                    .rev()
                    .filter_map(|time| instant(self.time_zone, date.and_time(time)))
                    .find(|opened| *opened <= now)
            })
            .map(|opened| opened + length)
            .filter(|closes| now < *closes)
    }

    /// When the window opens next after `now`; nothing when that is more than a year away.
    pub fn opens_after(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.schedule.next_after(now, self.time_zone, 366)
    }
}

/// Whether new commits may go on at `now`: not while a window that holds back is open; and, where
/// there are windows that let through, only while one of them is.
pub fn window_decision<'w>(
    windows: impl IntoIterator<Item = &'w SyncWindow>,
    now: DateTime<Utc>,
) -> WindowDecision {
    let (mut allows, mut allowed) = (0, false);
    for window in windows {
        let WindowRule { kind, schedule, time_zone, .. } = &window.rule;
        let open_until = window.rule.open_until(now);
        match (kind, open_until) {
            (SyncWindowKind::Deny, Some(until)) => {
                let until = until.with_timezone(time_zone).format("%Y-%m-%d %H:%M %Z");
                let why = window.description.as_deref().unwrap_or("no reason is given");
                return WindowDecision {
                    open: false,
                    why: format!(
                        "a window ({schedule} {time_zone}) holds new commits back until {until}: {why}"
                    ),
                };
            }
            (SyncWindowKind::Deny, None) => {}
            (SyncWindowKind::Allow, open) => {
                allows += 1;
                allowed |= open.is_some();
            }
        }
    }
    if allows > 0 && !allowed {
        return WindowDecision {
            open: false,
            why: format!("none of the {allows} windows that let new commits through is open"),
        };
    }
    WindowDecision { open: true, why: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(kind: SyncWindowKind, schedule: &str, hours: u32, zone: &str) -> SyncWindow {
        let rule = WindowRule::new(kind, schedule, hours * 3600, zone).unwrap();
        SyncWindow { id: SyncWindowId::new(), name: None, rule, description: None }
    }

    fn open(windows: &[SyncWindow], now: &str) -> bool {
        window_decision(windows, now.parse().unwrap()).open
    }

    use SyncWindowKind::{Allow, Deny};

    #[test]
    fn office_hours() {
        let office = [window(Allow, "0 9 * * mon-fri", 8, "Europe/Berlin")];
        assert!(!open(&office, "2026-11-20T07:59:00Z"));
        assert!(open(&office, "2026-11-20T08:00:00Z"));
        assert!(open(&office, "2026-11-20T15:59:59Z"));
        assert!(!open(&office, "2026-11-20T16:00:00Z"));
        assert!(!open(&office, "2026-11-21T10:00:00Z"));
        // In summer the same hours are other ones in UTC.
        assert!(open(&office, "2026-07-17T07:00:00Z"));
        let decision = window_decision(&office, "2026-11-21T10:00:00Z".parse().unwrap());
        assert!(decision.why.contains("none of the 1 windows"), "{}", decision.why);
    }

    #[test]
    fn deny_wins() {
        let windows =
            [window(Allow, "* * * * *", 1, "UTC"), window(Deny, "0 22 * * fri", 58, "America/New_York")];
        assert!(open(&windows, "2026-11-20T20:00:00Z"));
        // Friday 22:00 in New York is 03:00 UTC on Saturday; it lasts until Monday 08:00 there.
        assert!(!open(&windows, "2026-11-21T03:00:00Z"));
        assert!(!open(&windows, "2026-11-23T12:59:00Z"));
        assert!(open(&windows, "2026-11-23T13:00:00Z"));
        let decision = window_decision(&windows, "2026-11-22T03:00:00Z".parse().unwrap());
        assert!(decision.why.contains("until 2026-11-23 08:00 EST"), "{}", decision.why);
    }

    #[test]
    fn what_holds_says_until_when() {
        let hold = |windows: &[SyncWindow], now: &str| {
            window_hold(windows, now.parse().unwrap()).as_ref().map(WindowHold::words)
        };
        let named =
            |window: SyncWindow, name: &str| SyncWindow { description: Some(name.to_owned()), ..window };
        let office = named(window(Allow, "0 9 * * mon-fri", 8, "Europe/Berlin"), "office hours");
        let freeze = window(Deny, "0 8 * * mon", 2, "Europe/Berlin");
        // A Sunday: Monday at nine the office opens, but the freeze ends only at ten.
        let both = [office.clone(), freeze];
        assert_eq!(
            hold(&both, "2026-11-22T12:00:00Z").unwrap(),
            "a new revision is held by the sync window \"office hours\" until Mon 2026-11-23 10:00 CET"
        );
        assert_eq!(
            hold(&both, "2026-11-23T08:30:00Z").unwrap(),
            "a new revision is held by the sync window \"deny 0 8 * * mon\" until Mon 2026-11-23 10:00 CET"
        );
        assert_eq!(hold(&both, "2026-11-23T09:00:00Z"), None);
        let never = [window(Deny, "* * * * *", 1, "UTC")];
        let words = hold(&never, "2026-11-23T09:00:00Z").unwrap();
        assert!(words.ends_with("for more than a year"), "{words}");
    }

    #[test]
    fn without_windows_it_is_always_open() {
        assert!(open(&[], "2026-11-20T20:00:00Z"));
        assert!(open(&[window(Deny, "0 0 1 1 *", 24, "UTC")], "2026-11-20T20:00:00Z"));
    }

    #[test]
    fn clocks_that_jump() {
        // 2027-03-28, Berlin: 02:30 does not exist; the window opens at 03:00 local, 01:00 UTC.
        let night = [window(Allow, "30 2 * * *", 1, "Europe/Berlin")];
        assert!(!open(&night, "2027-03-28T00:59:00Z"));
        assert!(open(&night, "2027-03-28T01:00:00Z"));
        // 2026-10-25, Berlin: 02:30 comes twice; it opens once, at the first.
        assert!(open(&night, "2026-10-25T00:30:00Z"));
        assert!(!open(&night, "2026-10-25T01:30:00Z"));
        // A zone that skipped a whole day.
        let samoa = [window(Allow, "0 10 * * *", 1, "Pacific/Apia")];
        assert!(!open(&samoa, "2011-12-30T23:00:00Z") || open(&samoa, "2011-12-30T20:00:00Z"));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(WindowRule::new(Allow, "* * * * *", 30, "UTC").is_err());
        assert!(WindowRule::new(Allow, "* * * * *", MAX_WINDOW_SECONDS + 1, "UTC").is_err());
        assert!(WindowRule::new(Allow, "* * * * *", 60, "Mars/Olympus").is_err());
        assert!(WindowRule::new(Allow, "soon", 60, "UTC").is_err());
    }
}
