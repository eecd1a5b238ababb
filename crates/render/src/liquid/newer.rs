//! Filters of Liquid's documentation that the engine does not have. `has` is no such: here it is Sprig's.

use liquid_core::{Error, Result};
use plural_gotemplate::value::{List, Value as Go};

use super::sprig::{Plain, arg, text};

/// All of them.
pub(super) const FILTERS: [(&str, Plain); 6] = [
    ("find", find),
    ("find_index", find_index),
    ("reject", reject),
    ("remove_last", remove_last),
    ("replace_last", replace_last),
    ("sum", sum),
];

/// The first element whose property is the given value, or, without one, neither nil nor false.
fn find(args: &[Go]) -> Result<Go> {
    let wanted = Wanted::of(args)?;
    for item in elements(&arg(args, 0)) {
        if wanted.is(&item)? {
            return Ok(item);
        }
    }
    Ok(Go::Nil)
}

/// Where that element is, from zero.
fn find_index(args: &[Go]) -> Result<Go> {
    let wanted = Wanted::of(args)?;
    for (at, item) in (0_i64..).zip(elements(&arg(args, 0))) {
        if wanted.is(&item)? {
            return Ok(Go::Int(at));
        }
    }
    Ok(Go::Nil)
}

/// All elements but those.
fn reject(args: &[Go]) -> Result<Go> {
    let wanted = Wanted::of(args)?;
    let mut kept = Vec::new();
    for item in elements(&arg(args, 0)) {
        if !wanted.is(&item)? {
            kept.push(item);
        }
    }
    Ok(Go::List(List::new(kept)))
}

fn remove_last(args: &[Go]) -> Result<Go> {
    at_most(args, 1)?;
    Ok(last_replaced(&text(&arg(args, 0)), &text(&arg(args, 1)), ""))
}

fn replace_last(args: &[Go]) -> Result<Go> {
    at_most(args, 2)?;
    Ok(last_replaced(&text(&arg(args, 0)), &text(&arg(args, 1)), &text(&arg(args, 2))))
}

fn last_replaced(whole: &str, part: &str, by: &str) -> Go {
    match whole.rsplit_once(part) {
        Some((before, after)) => Go::from([before, by, after].concat()),
        None => Go::from(whole.to_owned()),
    }
}

/// What the elements, or a property of them, are together. Lists inside of lists are added, too, and what is no number is zero.
fn sum(args: &[Go]) -> Result<Go> {
    at_most(args, 1)?;
    let property = match arg(args, 1) {
        Go::Nil | Go::NilField => None,
        name => Some(text(&name)),
    };
    let (mut whole, mut fraction): (i64, Option<f64>) = (0, None);
    let mut left = elements(&arg(args, 0));
    while let Some(item) = left.pop() {
        if let Go::List(list) = &item {
            left.extend(list.items().iter().cloned());
            continue;
        }
        let item = match &property {
            Some(name) => property_of(&item, name)?,
            None => item,
        };
        match number(&item) {
            Number::Whole(number) => {
                whole = whole.checked_add(number).ok_or_else(|| Error::with_msg("the sum is too large"))?;
            }
            Number::Fraction(number) => fraction = Some(fraction.unwrap_or(0.0) + number),
        }
    }
    let Some(fraction) = fraction else { return Ok(Go::Int(whole)) };
    let all = fraction + whole as f64;
    if all.is_finite() { Ok(Go::Float(all)) } else { Err(Error::with_msg("the sum is too large")) }
}

enum Number {
    Whole(i64),
    Fraction(f64),
}

fn number(value: &Go) -> Number {
    match value {
        Go::Int(number) | Go::Int64(number) => Number::Whole(*number),
        Go::Float(number) => Number::Fraction(*number),
        Go::Str(text) => {
            let text = text.trim();
            match (text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(number), _) => Number::Whole(number),
                (Err(_), Ok(number)) if number.is_finite() => Number::Fraction(number),
                (Err(_), _) => Number::Whole(0),
            }
        }
        _ => Number::Whole(0),
    }
}

/// Which elements are meant.
struct Wanted {
    property: String,
    /// Absent: it is neither nil nor false.
    value: Option<Go>,
}

impl Wanted {
    fn of(args: &[Go]) -> Result<Self> {
        at_most(args, 2)?;
        let property = text(&arg(args, 1));
        if property.is_empty() {
            return Err(Error::with_msg("it takes the name of a property"));
        }
        let value = match arg(args, 2) {
            Go::Nil | Go::NilField => None,
            value => Some(value),
        };
        Ok(Self { property, value })
    }

    fn is(&self, item: &Go) -> Result<bool> {
        let found = property_of(item, &self.property)?;
        Ok(match &self.value {
            Some(value) => same(&found, value),
            None => !matches!(found, Go::Nil | Go::NilField | Go::Bool(false)),
        })
    }
}

fn property_of(item: &Go, name: &str) -> Result<Go> {
    match item {
        Go::Map(map) => Ok(map.get(name).unwrap_or_default()),
        // The name is the template's, the element may be an answer.
        other => Err(Error::with_msg(format!("an element is a {} and has no properties", other.kind()))),
    }
}

/// As Liquid compares: numbers by their value, everything else of one type.
fn same(one: &Go, other: &Go) -> bool {
    match (one, other) {
        (Go::Bool(one), Go::Bool(other)) => one == other,
        (Go::Str(one), Go::Str(other)) => **one == **other,
        (Go::Int(one) | Go::Int64(one), Go::Int(other) | Go::Int64(other)) => one == other,
        (Go::Float(float), Go::Int(int) | Go::Int64(int))
        | (Go::Int(int) | Go::Int64(int), Go::Float(float)) => is_same(*float, *int as f64),
        (Go::Float(one), Go::Float(other)) => is_same(*one, *other),
        _ => false,
    }
}

fn is_same(one: f64, other: f64) -> bool {
    one.partial_cmp(&other).is_some_and(std::cmp::Ordering::is_eq)
}

/// Of a list its elements, of nothing none, of anything else that alone.
fn elements(value: &Go) -> Vec<Go> {
    match value {
        Go::Nil | Go::NilField => Vec::new(),
        Go::List(list) => list.items().to_vec(),
        other => vec![other.clone()],
    }
}

fn at_most(args: &[Go], most: usize) -> Result<()> {
    match args.len().saturating_sub(1) {
        given if given > most => {
            Err(Error::with_msg(format!("{given} arguments are too many: it takes {most}")))
        }
        _ => Ok(()),
    }
}
