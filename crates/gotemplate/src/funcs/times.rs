//! Sprig's dates. The local zone is UTC.
#![expect(clippy::unnecessary_wraps, reason = "all functions of templates have one signature")]

use super::{Func, Ty, text};
use crate::{
    dates,
    exec::{Engine, Fault},
    objects::{Time, duration_string},
    value::Value,
};

type Result = std::result::Result<Value, Fault>;

const SECOND: i64 = 1_000_000_000;

pub(super) static FUNCS: &[Func] = &[
    Func::engine("now", &[], |engine, _| Ok(Value::time(now(engine)))),
    Func::engine("date", &[Ty::Str, Ty::Any], |engine, args| {
        Ok(dates::format(&time(engine, &args[1]), &text(args, 0)).into())
    }),
    Func::engine("dateInZone", &[Ty::Str, Ty::Any, Ty::Str], in_zone),
    Func::engine("date_in_zone", &[Ty::Str, Ty::Any, Ty::Str], in_zone),
    Func::engine("htmlDate", &[Ty::Any], |engine, args| {
        Ok(dates::format(&time(engine, &args[0]), "2006-01-02").into())
    }),
    Func::engine("htmlDateInZone", &[Ty::Any, Ty::Str], |engine, args| {
        let shown = dates::in_zone(&time(engine, &args[0]), &text(args, 1));
        Ok(dates::format(&shown, "2006-01-02").into())
    }),
    Func::pure("dateModify", &[Ty::Str, Ty::Time], modify),
    Func::pure("date_modify", &[Ty::Str, Ty::Time], modify),
    Func::pure("mustDateModify", &[Ty::Str, Ty::Time], must_modify),
    Func::pure("must_date_modify", &[Ty::Str, Ty::Time], must_modify),
    Func::pure("toDate", &[Ty::Str, Ty::Str], |args| {
        Ok(Value::time(dates::parse(&text(args, 0), &text(args, 1)).unwrap_or_else(|_| Time::zero())))
    }),
    Func::pure("mustToDate", &[Ty::Str, Ty::Str], |args| {
        Ok(Value::time(dates::parse(&text(args, 0), &text(args, 1)).map_err(Fault::Text)?))
    }),
    Func::pure("unixEpoch", &[Ty::Time], |args| match &args[0] {
        Value::Time(time) => Ok(time.seconds.to_string().into()),
        _ => Ok("".into()),
    }),
    Func::engine("ago", &[Ty::Any], |engine, args| {
        let since = nanos_between(&time(engine, &args[0]), &now(engine));
        let rounded = (since as f64 / SECOND as f64).round() as i64;
        Ok(duration_string(rounded.saturating_mul(SECOND)).into())
    }),
    Func::pure("duration", &[Ty::Any], |args| {
        let seconds = match &args[0] {
            Value::Str(text) => text.parse().unwrap_or(0),
            Value::Int64(seconds) => *seconds,
            _ => 0,
        };
        Ok(duration_string(seconds.wrapping_mul(SECOND)).into())
    }),
    Func::engine("durationRound", &[Ty::Any], round),
];

fn now(engine: &Engine<'_>) -> Time {
    let millis = engine.clock_ms;
    Time::utc(millis.div_euclid(1000), millis.rem_euclid(1000) as u32 * 1_000_000)
}

/// The time that an argument means; anything that means none is now.
fn time(engine: &Engine<'_>, value: &Value) -> Time {
    match value {
        Value::Time(time) => (**time).clone(),
        Value::Int(seconds) | Value::Int64(seconds) => Time::utc(*seconds, 0),
        _ => now(engine),
    }
}

fn nanos_between(from: &Time, to: &Time) -> i64 {
    (to.seconds - from.seconds)
        .saturating_mul(SECOND)
        .saturating_add(i64::from(to.nanos) - i64::from(from.nanos))
}

fn in_zone(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let shown = dates::in_zone(&time(engine, &args[1]), &text(args, 2));
    Ok(dates::format(&shown, &text(args, 0)).into())
}

fn modify(args: &mut [Value]) -> Result {
    match must_modify(args) {
        Err(_) => Ok(super::take(args, 1)),
        done => done,
    }
}

fn must_modify(args: &mut [Value]) -> Result {
    let nanos = dates::parse_duration(&text(args, 0)).map_err(Fault::Text)?;
    match &args[1] {
        Value::Time(time) => Ok(Value::time(time.add(nanos))),
        _ => Ok(Value::Nil),
    }
}

fn round(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let nanos = match &args[0] {
        Value::Str(text) => dates::parse_duration(text).unwrap_or(0),
        Value::Int64(nanos) => *nanos,
        Value::Time(time) => nanos_between(time, &now(engine)),
        _ => 0,
    };
    let size = nanos.unsigned_abs();
    let second = SECOND as u64;
    let units = [
        (365 * 86_400 * second, "y"),
        (30 * 86_400 * second, "mo"),
        (86_400 * second, "d"),
        (3600 * second, "h"),
        (60 * second, "m"),
        (second, "s"),
    ];
    let found = units.iter().find(|(unit, _)| size > *unit);
    Ok(found.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", size / unit)).into())
}
