//! Sprig's arithmetic.
#![expect(clippy::unnecessary_wraps, reason = "all functions of templates have one signature")]

use super::{
    Action, Func, Ty,
    convert::{to_float, to_int64},
    int,
};
use crate::{
    exec::{Engine, Fault},
    format,
    value::{List, ListType, Value},
};

type Result = std::result::Result<Value, Fault>;

pub(super) static FUNCS: &[Func] = &[
    Func::pure("atoi", &[Ty::Str], |args| {
        let text = super::text(args, 0);
        let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
        let ok = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        // What is too large is the largest there is.
        let most = if text.starts_with('-') { i64::MIN } else { i64::MAX };
        Ok(Value::Int(if ok { text.parse().unwrap_or(most) } else { 0 }))
    }),
    Func::pure("int", &[Ty::Any], |args| Ok(Value::Int(to_int64(&args[0])))),
    Func::pure("int64", &[Ty::Any], |args| Ok(Value::Int64(to_int64(&args[0])))),
    Func::pure("float64", &[Ty::Any], |args| Ok(Value::Float(to_float(&args[0])))),
    Func::pure("toDecimal", &[Ty::Any], |args| {
        let text = format::display(&args[0]);
        Ok(Value::Int64(plural_yaml::numbers::parse_int(&text, 8).unwrap_or(0)))
    }),
    Func::pure("add1", &[Ty::Any], |args| Ok(Value::Int64(to_int64(&args[0]).wrapping_add(1)))),
    Func::many("add", &[], Ty::Any, |args| {
        Ok(Value::Int64(args.iter().map(to_int64).fold(0, i64::wrapping_add)))
    }),
    Func::pure("sub", &[Ty::Any, Ty::Any], |args| {
        Ok(Value::Int64(to_int64(&args[0]).wrapping_sub(to_int64(&args[1]))))
    }),
    Func::pure("div", &[Ty::Any, Ty::Any], |args| divide(args, i64::wrapping_div)),
    Func::pure("mod", &[Ty::Any, Ty::Any], |args| divide(args, i64::wrapping_rem)),
    Func::many("mul", &[Ty::Any], Ty::Any, |args| {
        Ok(Value::Int64(args.iter().map(to_int64).fold(1, i64::wrapping_mul)))
    }),
    Func::many("max", &[Ty::Any], Ty::Any, |args| {
        Ok(Value::Int64(args.iter().map(to_int64).max().unwrap_or(0)))
    }),
    Func::many("biggest", &[Ty::Any], Ty::Any, |args| {
        Ok(Value::Int64(args.iter().map(to_int64).max().unwrap_or(0)))
    }),
    Func::many("min", &[Ty::Any], Ty::Any, |args| {
        Ok(Value::Int64(args.iter().map(to_int64).min().unwrap_or(0)))
    }),
    Func::many("maxf", &[Ty::Any], Ty::Any, |args| {
        Ok(Value::Float(args.iter().map(to_float).reduce(f64::max).unwrap_or(0.0)))
    }),
    Func::many("minf", &[Ty::Any], Ty::Any, |args| {
        Ok(Value::Float(args.iter().map(to_float).reduce(f64::min).unwrap_or(0.0)))
    }),
    Func::pure("floor", &[Ty::Any], |args| Ok(Value::Float(to_float(&args[0]).floor()))),
    Func::pure("ceil", &[Ty::Any], |args| Ok(Value::Float(to_float(&args[0]).ceil()))),
    Func::many("round", &[Ty::Any, Ty::Int], Ty::Float, round),
    Func::pure("add1f", &[Ty::Any], |args| Ok(Value::Float(decimal(&[to_float(&args[0]), 1.0], Op::Add)?))),
    Func::many("addf", &[], Ty::Any, |args| {
        let all: Vec<f64> = std::iter::once(0.0).chain(args.iter().map(to_float)).collect();
        Ok(Value::Float(decimal(&all, Op::Add)?))
    }),
    Func::many("subf", &[Ty::Any], Ty::Any, |args| fold(args, Op::Sub)),
    Func::many("mulf", &[Ty::Any], Ty::Any, |args| fold(args, Op::Mul)),
    Func::many("divf", &[Ty::Any], Ty::Any, |args| fold(args, Op::Div)),
    Func::engine("until", &[Ty::Int], |engine, args| {
        let count = int(args, 0);
        steps(engine, 0, count, if count < 0 { -1 } else { 1 })
    }),
    Func::engine("untilStep", &[Ty::Int, Ty::Int, Ty::Int], |engine, args| {
        steps(engine, int(args, 0), int(args, 1), int(args, 2))
    }),
    Func { name: "seq", params: &[], variadic: Some(Ty::Int), action: Action::Engine(seq) },
];

fn divide(args: &[Value], op: fn(i64, i64) -> i64) -> Result {
    match to_int64(&args[1]) {
        0 => Err("runtime error: integer divide by zero".into()),
        by => Ok(Value::Int64(op(to_int64(&args[0]), by))),
    }
}

fn round(args: &mut [Value]) -> Result {
    let from = match args.get(2) {
        Some(Value::Float(from)) => *from,
        _ => 0.5,
    };
    let scale = 10f64.powi(int(args, 1).clamp(-400, 400) as i32);
    let scaled = scale * to_float(&args[0]);
    let rounded = if scaled - scaled.trunc() >= from { scaled.ceil() } else { scaled.floor() };
    Ok(Value::Float(rounded / scale))
}

fn numbers(start: i64, stop: i64, step: i64) -> impl Iterator<Item = i64> {
    let down = stop < start;
    let usable = if down { step < 0 } else { step > 0 };
    let mut next = usable.then_some(start);
    std::iter::from_fn(move || {
        let number = next.filter(|n| if down { *n > stop } else { *n < stop })?;
        next = number.checked_add(step);
        Some(number)
    })
}

fn charged(
    engine: &mut Engine<'_>,
    start: i64,
    stop: i64,
    step: i64,
) -> std::result::Result<Vec<i64>, Fault> {
    let count = if step == 0 { 0 } else { (i128::from(stop) - i128::from(start)) / i128::from(step) };
    engine.charge(usize::try_from(count.max(0)).unwrap_or(usize::MAX).saturating_mul(size_of::<Value>()))?;
    Ok(numbers(start, stop, step).collect())
}

fn steps(engine: &mut Engine<'_>, start: i64, stop: i64, step: i64) -> Result {
    let items = charged(engine, start, stop, step)?.into_iter().map(Value::Int).collect();
    Ok(Value::List(List::typed(ListType::Int, items)))
}

fn seq(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let (start, stop, step) = match args.len() {
        1 => {
            let stop = int(args, 0);
            let step = if stop < 1 { -1 } else { 1 };
            (1, stop.saturating_add(step), step)
        }
        2 => {
            let (start, stop) = (int(args, 0), int(args, 1));
            let step = if stop < start { -1 } else { 1 };
            (start, stop.saturating_add(step), step)
        }
        3 => {
            let (start, step, stop) = (int(args, 0), int(args, 1), int(args, 2));
            if stop < start && step > 0 {
                return Ok("".into());
            }
            (start, stop.saturating_add(if stop < start { -1 } else { 1 }), step)
        }
        _ => return Ok("".into()),
    };
    let texts: Vec<String> = charged(engine, start, stop, step)?.iter().map(ToString::to_string).collect();
    Ok(texts.join(" ").into())
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Add,
    Sub,
    Mul,
    Div,
}

fn fold(args: &[Value], op: Op) -> Result {
    let all: Vec<f64> = args.iter().map(to_float).collect();
    Ok(Value::Float(decimal(&all, op)?))
}

/// Exact decimal arithmetic on the shortest texts of the numbers, as the decimal library of Sprig
/// does it: 0.1 + 0.2 is 0.3. Falls back to floats where the digits do not fit.
fn decimal(values: &[f64], op: Op) -> std::result::Result<f64, Fault> {
    let Some((first, rest)) = values.split_first() else { return Ok(0.0) };
    let mut exact = parts(*first);
    let mut float = *first;
    for value in rest {
        if let Op::Div = op
            && *value == 0.0
        {
            return Err("decimal division by 0".into());
        }
        float = match op {
            Op::Add => float + value,
            Op::Sub => float - value,
            Op::Mul => float * value,
            Op::Div => float / value,
        };
        exact = exact.zip(parts(*value)).and_then(|(a, b)| combine(a, b, op));
    }
    Ok(exact.and_then(to_f64).unwrap_or(float))
}

/// A number as digits and a power of ten.
type Decimal = (i128, i32);

fn parts(value: f64) -> Option<Decimal> {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len() as i32);
    Some((mantissa.replace('.', "").parse().ok()?, exponent - fraction))
}

fn combine(a: Decimal, b: Decimal, op: Op) -> Option<Decimal> {
    let power = |n: i32| 10i128.checked_pow(u32::try_from(n).ok()?);
    match op {
        Op::Mul => Some((a.0.checked_mul(b.0)?, a.1 + b.1)),
        Op::Add | Op::Sub => {
            let low = a.1.min(b.1);
            let left = a.0.checked_mul(power(a.1 - low)?)?;
            let right = b.0.checked_mul(power(b.1 - low)?)?;
            let sum = if let Op::Add = op { left.checked_add(right) } else { left.checked_sub(right) };
            Some((sum?, low))
        }
        Op::Div => {
            // Sixteen digits after the point, rounded half up, as the library divides.
            let shift = 17 + a.1 - b.1;
            let (num, den) = if shift >= 0 {
                (a.0.checked_mul(power(shift)?)?, b.0)
            } else {
                (a.0, b.0.checked_mul(power(-shift)?)?)
            };
            let wide = num / den;
            let rounded = (wide + if wide < 0 { -5 } else { 5 }) / 10;
            Some((rounded, -16))
        }
    }
}

fn to_f64(value: Decimal) -> Option<f64> {
    format!("{}e{}", value.0, value.1).parse().ok()
}
