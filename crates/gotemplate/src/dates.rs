//! Go's layouts of dates.

use super::objects::{Time, days_from_civil};

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
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    UpperPm,
    LowerPm,
    Zone,
    /// Shows Z for UTC; digits of hours and minutes, seconds, colons.
    Offset {
        z: bool,
        minutes: bool,
        seconds: bool,
        colon: bool,
    },
    /// Digits; whether zeros at the end are left out.
    Fraction {
        digits: usize,
        trim: bool,
    },
}

/// The first part in a layout: what stands before it, the part, what follows.
fn next_part(layout: &str) -> Option<(&str, Part, &str)> {
    const FIXED: &[(&str, Part)] = &[
        ("January", Part::LongMonth),
        ("Jan", Part::Month),
        ("Monday", Part::LongWeekday),
        ("Mon", Part::Weekday),
        ("MST", Part::Zone),
        ("01", Part::ZeroMonth),
        ("002", Part::ZeroYearDay),
        ("02", Part::ZeroDay),
        ("03", Part::ZeroHour12),
        ("04", Part::ZeroMinute),
        ("05", Part::ZeroSecond),
        ("06", Part::Year),
        ("15", Part::Hour),
        ("1", Part::NumMonth),
        ("2006", Part::LongYear),
        ("2", Part::Day),
        ("_2006", Part::LongYear),
        ("__2", Part::UnderYearDay),
        ("_2", Part::UnderDay),
        ("3", Part::Hour12),
        ("4", Part::Minute),
        ("5", Part::Second),
        ("PM", Part::UpperPm),
        ("pm", Part::LowerPm),
        ("-070000", Part::Offset { z: false, minutes: true, seconds: true, colon: false }),
        ("-07:00:00", Part::Offset { z: false, minutes: true, seconds: true, colon: true }),
        ("-0700", Part::Offset { z: false, minutes: true, seconds: false, colon: false }),
        ("-07:00", Part::Offset { z: false, minutes: true, seconds: false, colon: true }),
        ("-07", Part::Offset { z: false, minutes: false, seconds: false, colon: false }),
        ("Z070000", Part::Offset { z: true, minutes: true, seconds: true, colon: false }),
        ("Z07:00:00", Part::Offset { z: true, minutes: true, seconds: true, colon: true }),
        ("Z0700", Part::Offset { z: true, minutes: true, seconds: false, colon: false }),
        ("Z07:00", Part::Offset { z: true, minutes: true, seconds: false, colon: true }),
        ("Z07", Part::Offset { z: true, minutes: false, seconds: false, colon: false }),
    ];
    for at in layout.char_indices().map(|(at, _)| at) {
        let rest = &layout[at..];
        for (text, part) in FIXED {
            let Some(after) = rest.strip_prefix(text) else { continue };
            if *text == "Jan" && after.starts_with(|c: char| c.is_ascii_lowercase())
                || *text == "Mon" && after.starts_with(|c: char| c.is_ascii_lowercase())
            {
                continue;
            }
            if *text == "_2006" {
                return Some((&layout[..=at], Part::LongYear, after));
            }
            return Some((&layout[..at], *part, after));
        }
        if let Some(digits) = rest.strip_prefix(['.', ',']) {
            let unit = digits.as_bytes().first().copied().unwrap_or(0);
            if unit == b'0' || unit == b'9' {
                let count = digits.bytes().take_while(|b| *b == unit).count();
                if !digits[count..].starts_with(|c: char| c.is_ascii_digit()) {
                    let part = Part::Fraction { digits: count, trim: unit == b'9' };
                    return Some((&layout[..at], part, &digits[count..]));
                }
            }
        }
    }
    None
}

/// `time.Format`
pub fn format(time: &Time, layout: &str) -> String {
    use std::fmt::Write as _;
    let civil = time.civil();
    let mut out = String::new();
    let mut rest = layout;
    while let Some((before, part, after)) = next_part(rest) {
        out.push_str(before);
        let hour12 = match civil.hour % 12 {
            0 => 12,
            hour => hour,
        };
        let month = MONTHS[civil.month as usize - 1];
        let day = DAYS[civil.weekday as usize];
        let _ = match part {
            Part::LongMonth => out.write_str(month),
            Part::Month => out.write_str(&month[..3]),
            Part::NumMonth => write!(out, "{}", civil.month),
            Part::ZeroMonth => write!(out, "{:02}", civil.month),
            Part::LongWeekday => out.write_str(day),
            Part::Weekday => out.write_str(&day[..3]),
            Part::Day => write!(out, "{}", civil.day),
            Part::UnderDay => write!(out, "{:2}", civil.day),
            Part::ZeroDay => write!(out, "{:02}", civil.day),
            Part::UnderYearDay => write!(out, "{:3}", civil.year_day),
            Part::ZeroYearDay => write!(out, "{:03}", civil.year_day),
            Part::Hour => write!(out, "{:02}", civil.hour),
            Part::Hour12 => write!(out, "{hour12}"),
            Part::ZeroHour12 => write!(out, "{hour12:02}"),
            Part::Minute => write!(out, "{}", civil.minute),
            Part::ZeroMinute => write!(out, "{:02}", civil.minute),
            Part::Second => write!(out, "{}", civil.second),
            Part::ZeroSecond => write!(out, "{:02}", civil.second),
            Part::LongYear => write!(out, "{:04}", civil.year),
            Part::Year => write!(out, "{:02}", civil.year.rem_euclid(100)),
            Part::UpperPm => out.write_str(if civil.hour >= 12 { "PM" } else { "AM" }),
            Part::LowerPm => out.write_str(if civil.hour >= 12 { "pm" } else { "am" }),
            Part::Zone => out.write_str(&time.zone),
            Part::Offset { z: true, .. } if time.offset == 0 => out.write_str("Z"),
            Part::Offset { minutes, seconds, colon, .. } => {
                let size = time.offset.unsigned_abs();
                let colon = if colon { ":" } else { "" };
                let _ = write!(out, "{}{:02}", if time.offset < 0 { '-' } else { '+' }, size / 3600);
                if minutes {
                    let _ = write!(out, "{colon}{:02}", size / 60 % 60);
                }
                if seconds { write!(out, "{colon}{:02}", size % 60) } else { Ok(()) }
            }
            Part::Fraction { digits, trim } => {
                let text = format!("{:09}", time.nanos);
                let text = &text[..digits.min(9)];
                let text = if trim { text.trim_end_matches('0') } else { text };
                if text.is_empty() { Ok(()) } else { write!(out, ".{text}") }
            }
        };
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The same moment in another zone; an unknown one counts as UTC.
pub(crate) fn in_zone(time: &Time, zone: &str) -> Time {
    use chrono::{Offset as _, TimeZone as _};
    let utc = Time { offset: 0, zone: "UTC".into(), ..time.clone() };
    let Ok(zone) = zone.parse::<chrono_tz::Tz>() else { return utc };
    let Some(moment) = chrono::DateTime::from_timestamp(time.seconds, time.nanos) else { return utc };
    let offset = zone.offset_from_utc_datetime(&moment.naive_utc());
    Time { offset: offset.fix().local_minus_utc(), zone: offset.to_string().into(), ..time.clone() }
}

fn number(text: &mut &str, least: usize, most: usize) -> Option<i64> {
    let len = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    if len < least {
        return None;
    }
    let value = text[..len].parse().ok();
    *text = &text[len..];
    value
}

fn name(text: &mut &str, names: &[&str], short: bool) -> Option<i64> {
    names.iter().enumerate().find_map(|(at, name)| {
        let name = if short { &name[..3] } else { name };
        let head = text.get(..name.len())?;
        if !head.eq_ignore_ascii_case(name) {
            return None;
        }
        *text = &text[name.len()..];
        Some(at as i64)
    })
}

/// `time.Parse`
pub fn parse(layout: &str, value: &str) -> Result<Time, String> {
    let quote = super::strconv::quote;
    let fail = |part: &str, rest: &str| {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(value),
            quote(layout),
            quote(rest),
            quote(part)
        )
    };
    let (mut year, mut month, mut day) = (0i64, 1i64, 1i64);
    let (mut hour, mut minute, mut second, mut nanos) = (0i64, 0i64, 0i64, 0u32);
    let mut pm = None;
    let mut offset = 0i64;
    let mut zone = "UTC".to_owned();
    let mut rest = value;
    let mut shape = layout;
    loop {
        let found = next_part(shape);
        let (before, after) = found.map_or((shape, ""), |(before, _, after)| (before, after));
        let Some(tail) = rest.strip_prefix(before) else { return Err(fail(before, rest)) };
        rest = tail;
        let Some((_, part, _)) = found else { break };
        let written = &shape[before.len()..shape.len() - after.len()];
        let start = rest;
        let ok = match part {
            Part::LongYear => number(&mut rest, 4, 4).map(|v| year = v),
            Part::Year => number(&mut rest, 2, 2).map(|v| year = if v >= 69 { v + 1900 } else { v + 2000 }),
            Part::LongMonth => name(&mut rest, &MONTHS, false).map(|v| month = v + 1),
            Part::Month => name(&mut rest, &MONTHS, true).map(|v| month = v + 1),
            Part::NumMonth => number(&mut rest, 1, 2).map(|v| month = v),
            Part::ZeroMonth => number(&mut rest, 2, 2).map(|v| month = v),
            Part::LongWeekday => name(&mut rest, &DAYS, false).map(|_| ()),
            Part::Weekday => name(&mut rest, &DAYS, true).map(|_| ()),
            Part::Day | Part::UnderDay => {
                rest = rest.strip_prefix(' ').filter(|_| part == Part::UnderDay).unwrap_or(rest);
                number(&mut rest, 1, 2).map(|v| day = v)
            }
            Part::ZeroDay => number(&mut rest, 2, 2).map(|v| day = v),
            Part::UnderYearDay | Part::ZeroYearDay => number(&mut rest, 3, 3).map(|_| ()),
            Part::Hour => number(&mut rest, 1, 2).map(|v| hour = v),
            Part::Hour12 => number(&mut rest, 1, 2).map(|v| hour = v),
            Part::ZeroHour12 => number(&mut rest, 2, 2).map(|v| hour = v),
            Part::Minute => number(&mut rest, 1, 2).map(|v| minute = v),
            Part::ZeroMinute => number(&mut rest, 2, 2).map(|v| minute = v),
            Part::Second | Part::ZeroSecond => {
                let least = if part == Part::Second { 1 } else { 2 };
                let read = number(&mut rest, least, 2).map(|v| second = v);
                // A fraction is taken although the layout has none.
                if let Some(digits) = rest.strip_prefix('.')
                    && !matches!(next_part(after), Some(("", Part::Fraction { .. }, _)))
                    && digits.starts_with(|c: char| c.is_ascii_digit())
                {
                    rest = digits;
                    nanos = fraction(&mut rest);
                }
                read
            }
            Part::UpperPm | Part::LowerPm => rest.get(..2).and_then(|text| {
                pm = match text.to_ascii_uppercase().as_str() {
                    "PM" => Some(true),
                    "AM" => Some(false),
                    _ => return None,
                };
                rest = &rest[2..];
                Some(())
            }),
            Part::Zone => {
                let len = rest.bytes().take_while(u8::is_ascii_uppercase).count();
                (len >= 3).then(|| {
                    rest[..len].clone_into(&mut zone);
                    rest = &rest[len..];
                })
            }
            Part::Offset { z: true, .. } if rest.starts_with('Z') => {
                rest = &rest[1..];
                Some(())
            }
            Part::Offset { minutes, seconds, colon, .. } => {
                zone = String::new();
                read_offset(&mut rest, minutes, seconds, colon).map(|v| offset = v)
            }
            Part::Fraction { trim: true, .. } if !rest.starts_with('.') => Some(()),
            Part::Fraction { .. } => rest.strip_prefix(['.', ',']).map(|digits| {
                rest = digits;
                nanos = fraction(&mut rest);
            }),
        };
        if ok.is_none() {
            return Err(fail(written, start));
        }
        shape = after;
    }
    if !rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quote(value), quote(rest)));
    }
    match pm {
        Some(true) if hour < 12 => hour += 12,
        Some(false) if hour == 12 => hour = 0,
        _ => {}
    }
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => 31,
    };
    for (bad, what) in [
        (!(1..=12).contains(&month), "month"),
        (!(1..=days).contains(&day), "day"),
        (hour > 23, "hour"),
        (minute > 59, "minute"),
        (second > 59, "second"),
    ] {
        if bad {
            return Err(format!("parsing time {}: {what} out of range", quote(value)));
        }
    }
    let seconds =
        days_from_civil(year, month as u32, day as u32) * 86_400 + hour * 3600 + minute * 60 + second
            - offset;
    if zone.is_empty() {
        zone = if offset == 0 { "UTC".to_owned() } else { String::new() };
    }
    Ok(Time { seconds, nanos, offset: offset as i32, zone: zone.into() })
}

fn read_offset(rest: &mut &str, minutes: bool, seconds: bool, colon: bool) -> Option<i64> {
    let sign = match rest.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    *rest = &rest[1..];
    let mut value = number(rest, 2, 2)? * 3600;
    for (wanted, unit) in [(minutes, 60), (seconds, 1)] {
        if wanted {
            if colon {
                *rest = rest.strip_prefix(':')?;
            }
            value += number(rest, 2, 2)? * unit;
        }
    }
    Some(sign * value)
}

fn fraction(rest: &mut &str) -> u32 {
    let len = rest.bytes().take_while(u8::is_ascii_digit).count();
    let digits: String = rest[..len].chars().chain(std::iter::repeat('0')).take(9).collect();
    *rest = &rest[len..];
    digits.parse().unwrap_or(0)
}

/// `time.ParseDuration`, in nanoseconds.
pub(crate) fn parse_duration(text: &str) -> Result<i64, String> {
    let quoted = super::strconv::quote(text);
    let invalid = || format!("time: invalid duration {quoted}");
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total = 0f64;
    let mut exact = 0i64;
    while !rest.is_empty() {
        let len = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let amount = &rest[..len];
        if amount.is_empty() || amount == "." || amount.matches('.').count() > 1 {
            return Err(invalid());
        }
        rest = &rest[len..];
        let len = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..len] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000i64,
            "" => return Err(format!("time: missing unit in duration {quoted}")),
            unit => {
                return Err(format!(
                    "time: unknown unit {} in duration {quoted}",
                    super::strconv::quote(unit)
                ));
            }
        };
        rest = &rest[len..];
        let (whole, fraction) = amount.split_once('.').unwrap_or((amount, ""));
        let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        exact = whole.checked_mul(unit).and_then(|part| exact.checked_add(part)).ok_or_else(invalid)?;
        if !fraction.is_empty() {
            total += format!("0.{fraction}").parse::<f64>().unwrap_or(0.0) * unit as f64;
        }
    }
    let nanos = exact.saturating_add(total as i64);
    Ok(if negative { -nanos } else { nanos })
}
