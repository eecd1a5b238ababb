//! The standard filters, each paying for what it reads and writes.

use std::fmt;

use liquid::{ParserBuilder, partials};
use liquid_core::{
    Error, Expression, Filter, FilterReflection, ParseFilter, Result, Runtime, Value, ValueView,
    parser::FilterArguments,
};
use liquid_lib::stdlib;

use super::{
    budget::{MAX_VALUE_BYTES, pay_bytes},
    sprig::{self, Chance},
};

type Builder = ParserBuilder<partials::EagerCompiler<partials::InMemorySource>>;

/// Elements that a filter which compares each with each may take.
const MAX_COMPARED: usize = 5_000;

/// Adds the standard filters and Sprig's; `clock_ms` is what `now` means to `date`.
pub(super) fn register(builder: Builder, clock_ms: i64, chance: &Chance) -> Builder {
    macro_rules! filters {
        ($builder:expr, $($filter:ident),*) => {
            $builder$(.filter(Paid { inner: Box::new(stdlib::$filter), clock_ms, chance: Chance::clone(chance) }))*
        };
    }
    let builder = filters!(
        builder,
        Abs,
        Append,
        AtLeast,
        AtMost,
        Capitalize,
        Ceil,
        Compact,
        Concat,
        Date,
        DividedBy,
        Downcase,
        Escape,
        EscapeOnce,
        First,
        Floor,
        Join,
        Last,
        Lstrip,
        Map,
        Minus,
        Modulo,
        NewlineToBr,
        Plus,
        Prepend,
        Remove,
        RemoveFirst,
        Replace,
        ReplaceFirst,
        Reverse,
        Round,
        Rstrip,
        Size,
        Sort,
        SortNatural,
        Split,
        Strip,
        StripHtml,
        StripNewlines,
        Times,
        Truncate,
        TruncateWords,
        Uniq,
        Upcase,
        UrlDecode,
        UrlEncode,
        Where
    );
    sprig::filters(clock_ms, chance).into_iter().fold(builder, |builder, inner| {
        builder.filter(Paid { inner, clock_ms, chance: Chance::clone(chance) })
    })
}

#[derive(Clone)]
struct Paid {
    inner: Box<dyn ParseFilter>,
    clock_ms: i64,
    chance: Chance,
}

impl ParseFilter for Paid {
    fn parse(&self, arguments: FilterArguments<'_>) -> Result<Box<dyn Filter>> {
        let FilterArguments { positional, keyword } = arguments;
        let positional: Vec<Expression> = positional.collect();
        let inner = self
            .inner
            .parse(FilterArguments { positional: Box::new(positional.clone().into_iter()), keyword })?;
        let name = self.inner.reflection().name().to_owned();
        let Self { inner: _, clock_ms, chance } = self;
        Ok(Box::new(PaidFilter {
            inner,
            name,
            positional,
            clock_ms: *clock_ms,
            chance: Chance::clone(chance),
        }))
    }

    fn reflection(&self) -> &dyn FilterReflection {
        self.inner.reflection()
    }
}

struct PaidFilter {
    inner: Box<dyn Filter>,
    name: String,
    positional: Vec<Expression>,
    clock_ms: i64,
    chance: Chance,
}

impl fmt::Debug for PaidFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Display for PaidFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl Filter for PaidFilter {
    fn evaluate(&self, input: &dyn ValueView, runtime: &dyn Runtime) -> Result<Value> {
        let read = size(input)?;
        pay_bytes(runtime, read)?;
        let argument = |at: usize| -> Result<usize> {
            let Some(expression) = self.positional.get(at) else { return Ok(0) };
            expression.try_evaluate(runtime).map_or(Ok(0), |value| size(value.as_view()))
        };
        // These can write far more than they read; the rest at most a small multiple.
        match self.name.as_str() {
            "replace" | "replace_first" => {
                let most = (read + 1).saturating_mul(argument(1)? + 1);
                if self.name == "replace" && most > MAX_VALUE_BYTES.saturating_mul(16) {
                    return Err(too_large());
                }
            }
            "join" => {
                let elements = input.as_array().map_or(1, |array| array.size() as usize);
                if elements.saturating_mul(argument(0)? + 1) > MAX_VALUE_BYTES {
                    return Err(too_large());
                }
            }
            "uniq" | "sort" | "sort_natural" => {
                let elements = input.as_array().map_or(1, |array| array.size() as usize);
                if elements > MAX_COMPARED {
                    return Err(Error::with_msg(format!(
                        "{} takes at most {MAX_COMPARED} elements",
                        self.name
                    )));
                }
            }
            "date" => {
                if let Some(date) = self.positional.first().and_then(|date| date.try_evaluate(runtime))
                    && !date.to_kstr().contains('%')
                {
                    return sprig::go_date(input, date.as_view(), self.clock_ms, &self.chance, runtime);
                }
                let word = input.to_kstr();
                if matches!(word.trim().to_ascii_lowercase().as_str(), "now" | "today") {
                    let now = Value::scalar(timestamp(self.clock_ms));
                    return self.inner.evaluate(&now, runtime);
                }
            }
            _ => {}
        }
        let value = self.inner.evaluate(input, runtime)?;
        pay_bytes(runtime, size(&value)?)?;
        Ok(value)
    }
}

fn too_large() -> Error {
    Error::with_msg("a value of the template would grow larger than 4 MiB")
}

/// About how many bytes a value takes.
pub(super) fn size(value: &dyn ValueView) -> Result<usize> {
    fn add(value: &dyn ValueView, total: &mut usize) -> Result<()> {
        *total += 16;
        if let Some(scalar) = value.as_scalar() {
            *total += scalar.into_string().len();
        } else if let Some(array) = value.as_array() {
            for item in array.values() {
                add(item, total)?;
            }
        } else if let Some(object) = value.as_object() {
            for (key, item) in object.iter() {
                *total += key.len();
                add(item, total)?;
            }
        }
        if *total > MAX_VALUE_BYTES { Err(too_large()) } else { Ok(()) }
    }
    let mut total = 0;
    add(value, &mut total)?;
    Ok(total)
}

/// `2026-01-31 12:00:00 +0000`, the form that the engine's `date` reads.
fn timestamp(clock_ms: i64) -> String {
    let seconds = clock_ms.div_euclid(1000);
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 1970-01-01 to a date of the proleptic Gregorian calendar, eras of 400 years.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_calendar_dates() {
        assert_eq!(timestamp(0), "1970-01-01 00:00:00 +0000");
        assert_eq!(timestamp(1_709_208_000_000), "2024-02-29 12:00:00 +0000");
        assert_eq!(timestamp(-1_000), "1969-12-31 23:59:59 +0000");
    }
}
