//! Times that repeat, as cron writes them: minute, hour, day of month, month, day of week.
//!
//! Written here and not taken from a crate: sync windows ask which times of one calendar day match, and the
//! answer is five sets of bits. The next time of a schedule is the first of these, day by day.

use std::{fmt, str::FromStr};

use chrono::{
    DateTime, Datelike as _, Duration, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta,
    TimeZone as _, Timelike as _, Utc,
};
use chrono_tz::Tz;

use crate::error::{Error, Result};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// A schedule in five fields, or one of `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`,
/// `@yearly`, `@annually`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    text: String,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Both fields of the day are given: either may match, as cron does it.
    either_day: bool,
}

impl Cron {
    /// Whether anything starts on this day.
    pub fn on_day(&self, date: NaiveDate) -> bool {
        let in_month = bit(self.months, date.month());
        let (day, weekday) =
            (bit(self.days, date.day()), bit(self.weekdays, date.weekday().num_days_from_sunday()));
        in_month && if self.either_day { day || weekday } else { day && weekday }
    }

    /// The times of a day at which something starts, in order. On which days, [`Cron::on_day`] says.
    pub fn times(&self) -> impl DoubleEndedIterator<Item = NaiveTime> + use<> {
        let (hours, minutes) = (self.hours, self.minutes);
        (0..24u32)
            .filter(move |hour| bit(hours, *hour))
            .flat_map(move |hour| {
                (0..60u32).filter(move |minute| bit(minutes, *minute)).map(move |minute| (hour, minute))
            })
            .filter_map(|(hour, minute)| NaiveTime::from_hms_opt(hour, minute, 0))
    }

    /// When something starts next after `now`, in a time zone; nothing when that is more than so many days away.
    pub fn next_after(&self, now: DateTime<Utc>, zone: Tz, days: i64) -> Option<DateTime<Utc>> {
        let today = now.with_timezone(&zone).date_naive();
        (0..=days)
            .filter_map(|days| today.checked_add_signed(Duration::days(days)))
            .filter(|date| self.on_day(*date))
            .find_map(|date| {
                self.times()
                    .filter_map(|time| instant(zone, date.and_time(time)))
                    .find(|starts| *starts > now)
            })
    }

    /// Whether something starts at this minute of this day.
    pub fn is_at(&self, date: NaiveDate, time: NaiveTime) -> bool {
        self.on_day(date) && bit(self.hours, time.hour()) && bit(self.minutes, time.minute())
    }
}

/// A local time as an instant. One that the clocks skip is the moment after; of one that comes
/// twice, the first.
pub(crate) fn instant(zone: Tz, local: NaiveDateTime) -> Option<DateTime<Utc>> {
    for minutes in 0..=180 {
        match zone.from_local_datetime(&(local + TimeDelta::minutes(minutes))) {
            LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => {
                return Some(at.with_timezone(&Utc));
            }
            LocalResult::None => {}
        }
    }
    None
}

fn bit(set: u64, value: u32) -> bool {
    set >> value & 1 == 1
}

impl fmt::Display for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Cron {
    type Err = Error;

    /// # Errors
    /// [`Error::Invalid`] for what cron would not read, or a day that no month has.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let spelled = match text.to_ascii_lowercase().as_str() {
            "@hourly" => "0 * * * *",
            "@daily" | "@midnight" => "0 0 * * *",
            "@weekly" => "0 0 * * 0",
            "@monthly" => "0 0 1 * *",
            "@yearly" | "@annually" => "0 0 1 1 *",
            _ => text,
        }
        .to_owned();
        let fields: Vec<&str> = spelled.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields.as_slice() else {
            return Err(Error::invalid(
                "schedule",
                format!("{text:?} must have five fields: minute, hour, day, month, day of week"),
            ));
        };
        let days = field(day, 1, 31, &[])?;
        let months = field(month, 1, 12, &MONTHS)?;
        let mut weekdays = field(weekday, 0, 7, &DAYS)?;
        // Sunday has two numbers.
        if bit(weekdays, 7) {
            weekdays |= 1;
        }
        let open = |field: &str| field.starts_with('*') || field == "?";
        let cron = Self {
            text: text.to_owned(),
            minutes: field(minute, 0, 59, &[])?,
            hours: field(hour, 0, 23, &[])?,
            days,
            months,
            weekdays,
            either_day: !open(day) && !open(weekday),
        };
        // 2028 has a 29th of February: what does not match there never does.
        let mut dates =
            NaiveDate::from_ymd_opt(2028, 1, 1).into_iter().flat_map(|first| first.iter_days().take(366));
        if !dates.any(|date| cron.on_day(date)) {
            return Err(Error::invalid("schedule", format!("{text:?} names a day that does not exist")));
        }
        Ok(cron)
    }
}

/// `*`, `5`, `1-5`, `*/15`, `1-20/2`, `mon-fri`, and lists of these.
fn field(text: &str, least: u32, most: u32, names: &[&str]) -> Result<u64> {
    let wrong =
        || Error::invalid("schedule", format!("{text:?} is not a list of numbers from {least} to {most}"));
    let number = |word: &str| {
        let named = names.iter().position(|name| word.eq_ignore_ascii_case(name));
        let value = match named {
            Some(at) => u32::try_from(at).ok().map(|at| at + least.min(1)),
            None => word.parse().ok(),
        };
        value.filter(|value| (least..=most).contains(value)).ok_or_else(wrong)
    };
    let mut set = 0u64;
    for part in text.split(',') {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => {
                (range, step.parse::<u32>().ok().filter(|step| *step > 0).ok_or_else(wrong)?)
            }
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None if range == "*" || range == "?" => (least, most),
            // `5/15` goes on to the end, as cron does it.
            None if part.contains('/') => (number(range)?, most),
            None => (number(range)?, number(range)?),
        };
        if first > last {
            return Err(wrong());
        }
        for value in (first..=last).step_by(usize::try_from(step).unwrap_or(1)) {
            set |= 1 << value;
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(schedule: &str, date: &str, time: &str) -> bool {
        let cron: Cron = schedule.parse().unwrap();
        cron.is_at(date.parse().unwrap(), format!("{time}:00").parse().unwrap())
    }

    #[test]
    fn schedules() {
        for (schedule, date, time, expected) in [
            ("0 3 * * *", "2026-11-21", "03:00", true),
            ("0 3 * * *", "2026-11-21", "03:01", false),
            ("*/15 * * * *", "2026-11-21", "13:45", true),
            ("*/15 * * * *", "2026-11-21", "13:50", false),
            ("0 9-17 * * mon-fri", "2026-11-20", "17:00", true),
            ("0 9-17 * * mon-fri", "2026-11-21", "12:00", false),
            ("0 0 * * 7", "2026-11-22", "00:00", true),
            ("0 0 * * sun", "2026-11-22", "00:00", true),
            ("0 0 1,15 * *", "2026-11-15", "00:00", true),
            // Both days given: either matches.
            ("0 0 13 * fri", "2026-11-20", "00:00", true),
            ("0 0 13 * fri", "2026-11-13", "00:00", true),
            ("0 0 13 * fri", "2026-11-14", "00:00", false),
            ("0 0 29 feb *", "2028-02-29", "00:00", true),
            ("30 22 * DEC *", "2026-12-24", "22:30", true),
            ("5/20 * * * *", "2026-11-21", "10:45", true),
            ("@weekly", "2026-11-22", "00:00", true),
        ] {
            assert_eq!(at(schedule, date, time), expected, "{schedule} at {date} {time}");
        }
    }

    #[test]
    fn what_cron_does_not_read() {
        for wrong in [
            "",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * * 8",
            "a * * * *",
            "*/0 * * * *",
            "5-1 * * * *",
            "1,,2 * * * *",
            "-1 * * * *",
            "0 0 31 feb *",
            "@never",
            "1-2-3 * * * *",
            "* * * foo *",
        ] {
            assert!(wrong.parse::<Cron>().is_err(), "{wrong}");
        }
    }
}
