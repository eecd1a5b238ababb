//! Regular expressions in Go's syntax.

use regex::Regex;

use super::{Func, Ty, int, re2, text};
use crate::{
    exec::{Engine, Fault},
    strconv,
    value::{List, ListType, Value},
};

type Result = std::result::Result<Value, Fault>;

/// Sizes of compiled expressions in bytes, and what they weigh; there is no larger one.
const SIZES: [(usize, u64); 3] = [(64 << 10, 1), (512 << 10, 1024), (8 << 20, 16_384)];

pub(super) static FUNCS: &[Func] = &[
    Func::engine("regexMatch", &[Ty::Str, Ty::Str], |engine, args| {
        Ok(Value::Bool(compile(engine, args)?.is_ok_and(|pattern| pattern.regex.is_match(&text(args, 1)))))
    }),
    Func::engine("mustRegexMatch", &[Ty::Str, Ty::Str], |engine, args| {
        Ok(Value::Bool(compiled(engine, args)?.is_match(&text(args, 1))))
    }),
    Func::engine("regexFindAll", &[Ty::Str, Ty::Str, Ty::Int], |engine, args| {
        must(find_all(engine, args), args)
    }),
    Func::engine("mustRegexFindAll", &[Ty::Str, Ty::Str, Ty::Int], find_all),
    Func::engine("regexFind", &[Ty::Str, Ty::Str], |engine, args| must(find(engine, args), args)),
    Func::engine("mustRegexFind", &[Ty::Str, Ty::Str], find),
    Func::engine("regexReplaceAll", &[Ty::Str, Ty::Str, Ty::Str], |engine, args| {
        must(replace(engine, args), args)
    }),
    Func::engine("mustRegexReplaceAll", &[Ty::Str, Ty::Str, Ty::Str], replace),
    Func::engine("regexReplaceAllLiteral", &[Ty::Str, Ty::Str, Ty::Str], |engine, args| {
        must(replace_literal(engine, args), args)
    }),
    Func::engine("mustRegexReplaceAllLiteral", &[Ty::Str, Ty::Str, Ty::Str], replace_literal),
    Func::engine("regexSplit", &[Ty::Str, Ty::Str, Ty::Int], |engine, args| must(split(engine, args), args)),
    Func::engine("mustRegexSplit", &[Ty::Str, Ty::Str, Ty::Int], split),
    Func::pure("regexQuoteMeta", &[Ty::Str], |args| {
        let mut out = String::new();
        for c in text(args, 0).chars() {
            if r"\.+*?()|[]{}^$".contains(c) {
                out.push('\\');
            }
            out.push(c);
        }
        Ok(out.into())
    }),
];

/// A compiled expression, or why there is none.
pub type Compiled = std::result::Result<Pattern, String>;

/// A compiled expression and what looking at text with it costs. There is no backtracking: time grows with the text,
/// and with the size of what was compiled.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// It in the syntax of the regex crate.
    pub regex: Regex,
    weight: u64,
}

impl Pattern {
    /// Steps of looking at `bytes` of text.
    pub fn cost(&self, bytes: usize) -> u64 {
        1 + (bytes as u64).saturating_mul(self.weight) / 64
    }
}

/// Steps of compiling an expression.
pub const COMPILE_STEPS: u64 = 20_000;
/// Expressions that are kept.
const KEPT: usize = 256;

fn compile(engine: &mut Engine<'_>, args: &[Value]) -> std::result::Result<Compiled, Fault> {
    let pattern = text(args, 0);
    let compiled = if let Some(found) = engine.patterns.get(&*pattern) {
        found.clone()
    } else {
        engine.burn(COMPILE_STEPS)?;
        engine.charge(pattern.len() * 64 + 1024)?;
        if engine.patterns.len() >= KEPT {
            engine.patterns.clear();
        }
        let compiled = translate(&pattern);
        engine.patterns.insert(pattern.as_ref().into(), compiled.clone());
        compiled
    };
    let bytes = super::bytes(args, 1).len();
    engine.burn(compiled.as_ref().map_or(1, |pattern| pattern.cost(bytes)))?;
    Ok(compiled)
}

fn compiled(engine: &mut Engine<'_>, args: &[Value]) -> std::result::Result<Regex, Fault> {
    Ok(compile(engine, args)?.map_err(Fault::Text)?.regex)
}

/// The functions without `must` panic where the others fail.
fn must(result: Result, args: &[Value]) -> Result {
    match result {
        Err(Fault::Text(error)) => {
            let quoted = if text(args, 0).contains('`') {
                strconv::quote(&text(args, 0))
            } else {
                format!("`{}`", text(args, 0))
            };
            Err(Fault::Text(format!("regexp: Compile({quoted}): {error}")))
        }
        other => other,
    }
}

/// Compiles an expression of Go: its classes are those of ASCII.
pub fn translate(pattern: &str) -> Compiled {
    let failed = |why: String| format!("error parsing regexp: {why}");
    let translated = re2::to_rust(pattern).map_err(failed)?;
    for (bytes, weight) in SIZES {
        match regex::RegexBuilder::new(&translated).size_limit(bytes).nest_limit(4096).build() {
            Ok(regex) => return Ok(Pattern { regex, weight }),
            Err(regex::Error::CompiledTooBig(_)) => {}
            Err(_) => return Err(failed(format!("invalid expression: `{pattern}`"))),
        }
    }
    Err(failed("expression too large".to_owned()))
}

fn limit(args: &[Value], at: usize) -> Option<usize> {
    usize::try_from(int(args, at)).ok()
}

fn find_all(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let regex = compiled(engine, args)?;
    let subject = text(args, 1);
    let found: Vec<&str> =
        regex.find_iter(&subject).take(limit(args, 2).unwrap_or(usize::MAX)).map(|m| m.as_str()).collect();
    if found.is_empty() {
        return Ok(Value::List(List::nil_of(ListType::Str)));
    }
    engine.charge(found.len() * size_of::<Value>())?;
    Ok(Value::List(List::strings(found)))
}

fn find(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let regex = compiled(engine, args)?;
    Ok(regex.find(&text(args, 1)).map_or("", |m| m.as_str()).into())
}

fn replace(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let regex = compiled(engine, args)?;
    let out = regex.replace_all(&text(args, 1), text(args, 2).as_ref()).into_owned();
    engine.charge(out.len())?;
    Ok(out.into())
}

fn replace_literal(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let regex = compiled(engine, args)?;
    let out = regex.replace_all(&text(args, 1), regex::NoExpand(&text(args, 2))).into_owned();
    engine.charge(out.len())?;
    Ok(out.into())
}

fn split(engine: &mut Engine<'_>, args: &mut [Value]) -> Result {
    let regex = compiled(engine, args)?;
    let subject = text(args, 1);
    let most = limit(args, 2).unwrap_or(usize::MAX);
    if most == 0 {
        return Ok(Value::List(List::nil_of(ListType::Str)));
    }
    if !text(args, 0).is_empty() && subject.is_empty() {
        return Ok(Value::List(List::strings([""])));
    }
    let mut parts = Vec::new();
    let (mut begin, mut end) = (0, 0);
    for found in regex.find_iter(&subject) {
        if parts.len() + 1 == most {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(&subject[begin..end]);
        }
        begin = found.end();
    }
    if end != subject.len() {
        parts.push(&subject[begin..]);
    }
    engine.charge(parts.len() * size_of::<Value>())?;
    Ok(Value::List(List::strings(parts)))
}
