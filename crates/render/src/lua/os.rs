//! `os.time` and `os.date`, from a clock that stands still.

use mlua::{Error, Lua, Table, Value};

/// Seconds of a day.
const DAY: i64 = 86_400;

pub(super) fn install(lua: &Lua, clock_ms: i64) -> mlua::Result<()> {
    let now = clock_ms.div_euclid(1000);
    let os = lua.create_table()?;
    os.set(
        "time",
        lua.create_function(move |_, fields: Option<Table>| {
            let Some(fields) = fields else { return Ok(now) };
            let field = |name: &str, default: Option<i64>| -> mlua::Result<i64> {
                let value: Option<i64> = fields.get(name)?;
                let value = value.or(default);
                let value =
                    value.ok_or_else(|| Error::runtime(format!("field '{name}' missing in date table")))?;
                // Wider than any date that a manifest holds, and far from overflow.
                Ok(value.clamp(-1_000_000, 1_000_000))
            };
            let (year, month) = (field("year", None)?, field("month", None)?);
            let days = days_from_civil(year + (month - 1).div_euclid(12), (month - 1).rem_euclid(12) + 1, 1)
                + field("day", None)?
                - 1;
            Ok(days * DAY
                + field("hour", Some(12))? * 3600
                + field("min", Some(0))? * 60
                + field("sec", Some(0))?)
        })?,
    )?;
    os.set(
        "date",
        lua.create_function(move |lua, (format, time): (Option<String>, Option<f64>)| {
            let format = format.unwrap_or_else(|| "%c".to_owned());
            // There is one time zone here: UTC, with or without the `!`.
            let format = format.strip_prefix('!').unwrap_or(&format).to_owned();
            let at = time.map_or(now, |time| time as i64).clamp(-1_000_000_000_000, 1_000_000_000_000);
            let moment = Moment::at(at);
            if format.starts_with("*t") {
                return moment.table(lua).map(Value::Table);
            }
            Ok(Value::String(lua.create_string(moment.format(&format))?))
        })?,
    )?;
    os.set("clock", lua.create_function(|_, ()| Ok(0.0))?)?;
    os.set("difftime", lua.create_function(|_, (late, early): (f64, f64)| Ok(late - early))?)?;
    lua.globals().set("os", os)
}

/// A UTC time in calendar fields.
struct Moment {
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    /// 0 is Sunday.
    weekday: i64,
    /// 1 is January 1st.
    year_day: i64,
}

const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

impl Moment {
    fn at(seconds: i64) -> Self {
        let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = civil_from_days(days);
        Self {
            year,
            month,
            day,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            weekday: (days + 4).rem_euclid(7),
            year_day: days - days_from_civil(year, 1, 1) + 1,
        }
    }

    fn table(&self, lua: &Lua) -> mlua::Result<Table> {
        let table = lua.create_table()?;
        for (name, value) in [
            ("year", self.year),
            ("month", self.month),
            ("day", self.day),
            ("hour", self.hour),
            ("min", self.minute),
            ("sec", self.second),
            ("wday", self.weekday + 1),
            ("yday", self.year_day),
        ] {
            table.set(name, value)?;
        }
        table.set("isdst", false)?;
        Ok(table)
    }

    /// The conversions of C's `strftime` in the C locale that dates are written with.
    fn format(&self, format: &str) -> String {
        let day_name = DAYS[self.weekday as usize % 7];
        let month_name = MONTHS[(self.month - 1).clamp(0, 11) as usize];
        let mut out = String::new();
        let mut characters = format.chars();
        while let Some(character) = characters.next() {
            if character != '%' {
                out.push(character);
                continue;
            }
            let piece = match characters.next() {
                Some('Y') => self.year.to_string(),
                Some('y') => format!("{:02}", self.year.rem_euclid(100)),
                Some('m') => format!("{:02}", self.month),
                Some('d') => format!("{:02}", self.day),
                Some('H') => format!("{:02}", self.hour),
                Some('I') => format!("{:02}", (self.hour + 11) % 12 + 1),
                Some('M') => format!("{:02}", self.minute),
                Some('S') => format!("{:02}", self.second),
                Some('p') => if self.hour < 12 { "AM" } else { "PM" }.to_owned(),
                Some('A') => day_name.to_owned(),
                Some('a') => day_name[..3].to_owned(),
                Some('B') => month_name.to_owned(),
                Some('b' | 'h') => month_name[..3].to_owned(),
                Some('j') => format!("{:03}", self.year_day),
                Some('w') => self.weekday.to_string(),
                Some('Z') => "UTC".to_owned(),
                Some('z') => "+0000".to_owned(),
                Some('c') => self.format("%a %b %d %H:%M:%S %Y"),
                Some('x' | 'D') => self.format("%m/%d/%y"),
                Some('X' | 'T') => self.format("%H:%M:%S"),
                Some('F') => self.format("%Y-%m-%d"),
                Some('%') | None => "%".to_owned(),
                Some(other) => format!("%{other}"),
            };
            out.push_str(&piece);
        }
        out
    }
}

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar
/// (H. Hinnant, "chrono-compatible low-level date algorithms").
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date that is so many days after 1970-01-01; the inverse of [`days_from_civil`].
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}
