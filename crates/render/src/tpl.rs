//! `.tpl` files: Go templates over the data of a service, with the functions of charts.
//!
//! Each file stands alone: `include` and `template` find what the file itself defines.

use std::sync::Arc;

use plural_gotemplate::{
    exec::{Engine, Fault, Limits},
    funcs::{WARN_END, WARN_START},
    parse,
    random::Random,
    value::{Map, MapType, Str, Value},
};
use serde_json::Value as Json;

use crate::{error::Problem, inputs::Inputs};

/// What one file may use.
const LIMITS: Limits = Limits { fuel: 5_000_000, bytes: 256 << 20 };
/// Source of one template.
const MAX_SOURCE_BYTES: usize = 4 << 20;
/// Output of one template.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// The text that the template at `path` gives.
pub(crate) fn render(path: &str, source: &[u8], inputs: &Inputs) -> Result<String, Problem> {
    let problem = |line, message| Problem { path: path.to_owned(), line, message };
    let source =
        std::str::from_utf8(source).map_err(|_| problem(0, "the template is not UTF-8 text".to_owned()))?;
    if source.len() > MAX_SOURCE_BYTES {
        let message = format!("the template is larger than {} MiB", MAX_SOURCE_BYTES >> 20);
        return Err(problem(0, message));
    }
    let told = |text: &str| {
        let (line, message) = place(path, text);
        problem(line, inputs.without_values(&message))
    };
    let trees: Vec<_> =
        parse::parse(path, &source.into()).map_err(|error| told(&error))?.into_iter().map(Arc::new).collect();
    let mut engine = Engine::new(Random::new(&inputs.seed, path), inputs.clock_ms, None, LIMITS);
    engine.add(&trees);
    let mut out = Vec::new();
    engine.execute(path, &data(inputs), &mut out).map_err(|fault| match fault {
        Fault::Text(text) | Fault::Exec(text) => told(&text),
        Fault::Limit(text) => problem(0, text),
    })?;
    if out.len() > MAX_OUTPUT_BYTES {
        let message =
            format!("the template writes more than {} MiB (limit of output)", MAX_OUTPUT_BYTES >> 20);
        return Err(problem(0, message));
    }
    String::from_utf8(out).map_err(|_| problem(0, "the output is not UTF-8".to_owned()))
}

/// `Configuration`, `Cluster`, `Service` and so on: the data of Liquid templates under the names of Go.
fn data(inputs: &Inputs) -> Value {
    let Json::Object(data) = inputs.data() else { return Value::Nil };
    let entries = data.iter().map(|(name, value)| {
        let value = match Value::from_json(value) {
            // A name that the configuration does not have is an empty text, as in Go's map of texts.
            Value::Map(map) if name == "configuration" => Value::Map(map.viewed(MapType::Str)),
            Value::Map(map) => Value::Map(both_spellings(&map)),
            other => other,
        };
        (exported(name), value)
    });
    Value::Map(Map::of(entries.collect()))
}

/// The entries of a map, each under its own name and under that of a field in Go.
fn both_spellings(map: &Map) -> Map {
    let mut entries = Vec::new();
    for (name, value) in map.snapshot() {
        let other = exported(&name);
        if other != name && !map.contains(&other) {
            entries.push((other, value.clone()));
        }
        entries.push((name, value));
    }
    Map::of(entries)
}

/// `id` as `ID`, `currentVersion` as `CurrentVersion`.
fn exported(name: &str) -> Str {
    if name == "id" {
        return "ID".into();
    }
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect()).into()
}

/// Line and words of an error `template: PATH:LINE[:COLUMN]: words`.
fn place(path: &str, text: &str) -> (usize, String) {
    let rest = text.strip_prefix("template: ").and_then(|rest| rest.strip_prefix(path));
    let Some(rest) = rest.and_then(|rest| rest.strip_prefix(':')) else { return (0, text.to_owned()) };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(line) = rest.get(..digits).unwrap_or_default().parse() else { return (0, text.to_owned()) };
    let words = rest.split_once(": ").map_or(rest, |(_, words)| words);
    (line, words.replace(WARN_START, "").replace(WARN_END, ""))
}
