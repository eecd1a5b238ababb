//! values.schema.json: JSON Schema of drafts 4 to 2020-12, with the texts that Helm shows.

mod containers;
mod formats;

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
};

use percent_encoding::percent_decode_str;
use plural_gotemplate::{
    funcs::{COMPILE_STEPS, Compiled, go_regex},
    json::{self, Style},
    strconv::quote as go_quote,
    value,
};
use plural_yaml::{governor, numbers};
use regex::Regex;
use serde_json::{Map, Value};

use super::dependencies::Node;

/// Deepest nesting of schemas that refer to each other.
const MAX_DEPTH: usize = 300;
/// Most steps of one validation.
const MAX_STEPS: usize = 5_000_000;

/// Checks the values of a chart and of all charts in it.
///
/// # Errors
/// What is wrong, chart by chart.
pub(super) fn validate(node: &Node<'_>, values: &value::Map) -> Result<(), String> {
    if !uses_schema(node) {
        return Ok(());
    }
    let style = Style { pretty: false, escape_html: false };
    let text = json::to_string(&value::Value::Map(values.clone()), style)?;
    let values: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let mut out = String::new();
    validate_chart(node, &values, &mut out);
    if out.is_empty() { Ok(()) } else { Err(out) }
}

fn uses_schema(node: &Node<'_>) -> bool {
    node.chart.schema.is_some() || node.children.iter().any(uses_schema)
}

fn validate_chart(node: &Node<'_>, values: &Value, out: &mut String) {
    if let Some(schema) = &node.chart.schema
        && let Err(problem) = validate_one(schema, values)
    {
        let _ = write!(out, "{}:\n{problem}", node.name);
    }
    for child in &node.children {
        match values.get(&child.name) {
            None | Some(Value::Null) => {}
            Some(inner @ Value::Object(_)) => validate_chart(child, inner, out),
            Some(other) => {
                let found = match other {
                    Value::Bool(_) => "bool",
                    Value::Number(_) => "float64",
                    Value::String(_) => "string",
                    _ => "[]interface {}",
                };
                let _ = writeln!(
                    out,
                    "{}:\ninvalid type for values: expected object (map), got {found}",
                    child.name
                );
            }
        }
    }
}

fn validate_one(schema: &[u8], values: &Value) -> Result<(), String> {
    validated(schema, values).0
}

/// Checks a value against a schema; also how many steps that took.
pub(crate) fn validated(schema: &[u8], values: &Value) -> (Result<(), String>, usize) {
    let root: Value = match serde_json::from_slice(schema) {
        Ok(root) => root,
        Err(error) => return (Err(format!("invalid schema: {error}\n")), schema.len()),
    };
    let draft = match root.get("$schema").and_then(Value::as_str) {
        Some(uri) if uri.contains("draft-04") => 4,
        Some(uri) if uri.contains("draft-06") => 6,
        Some(uri) if uri.contains("draft-07") => 7,
        Some(uri) if uri.contains("2019-09") => 2019,
        _ => 2020,
    };
    let mut validator = Validator {
        root: &root,
        draft,
        steps: 0,
        failed: None,
        patterns: HashMap::new(),
        references: HashMap::new(),
    };
    let result = validator.check(&root, values, &mut Vec::new(), 0);
    let steps = validator.steps;
    if let Some(problem) = validator.failed {
        return (Err(format!("{problem}\n")), steps);
    }
    let Err(problem) = result else { return (Ok(()), steps) };
    let mut out = String::new();
    if problem.kind == Kind::Group {
        problem.causes.iter().for_each(|cause| cause.show(&mut out, 1));
    } else {
        problem.show(&mut out, 1);
    }
    (Err(format!("{}\n", out.trim_start_matches('\n'))), steps)
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Group,
    Reference,
}

/// Something that does not fit, and why.
#[derive(Debug)]
struct Problem {
    at: String,
    kind: Kind,
    message: String,
    causes: Vec<Problem>,
}

impl Problem {
    fn show(&self, out: &mut String, indent: usize) {
        let hidden = self.kind == Kind::Reference && self.causes.len() == 1;
        let indent = if hidden {
            indent
        } else {
            let _ = write!(out, "\n{}- at {}: {}", "  ".repeat(indent - 1), quote(&self.at), self.message);
            indent + 1
        };
        self.causes.iter().for_each(|cause| cause.show(out, indent));
    }
}

/// A text in single quotes.
fn quote(text: &str) -> String {
    let text = go_quote(text).replace("\\\"", "\"").replace('\'', "\\'");
    format!("'{}'", &text[1..text.len() - 1])
}

fn quoted(texts: &[String]) -> String {
    texts.iter().map(|text| quote(text)).collect::<Vec<_>>().join(", ")
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Array(_) | Value::Object(_) => "value".to_owned(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    }
}

/// A number as Go's text of a float64 for people.
fn number(value: &Value) -> String {
    numbers::format_g(value.as_f64().unwrap_or(0.0))
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_integer(value: &Value) -> bool {
    value.as_f64().is_some_and(|value| value.fract() == 0.0)
}

/// Whether two values are the same; 1 and 1.0 are.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Properties and items that some schema has looked at.
#[derive(Debug, Default)]
struct Seen {
    properties: BTreeSet<String>,
    items: BTreeSet<usize>,
}

impl Seen {
    fn join(&mut self, other: Self) {
        self.properties.extend(other.properties);
        self.items.extend(other.items);
    }
}

type Checked = Result<Seen, Problem>;

struct Validator<'s> {
    root: &'s Value,
    draft: u32,
    steps: usize,
    /// Why the schema itself cannot be used.
    failed: Option<String>,
    patterns: HashMap<String, Compiled>,
    /// What references lead to: looking for one goes through the whole schema.
    references: HashMap<String, Option<&'s Value>>,
}

/// What is found while one schema is applied to one value.
struct Findings {
    problems: Vec<Problem>,
    seen: Seen,
    at: String,
}

impl Findings {
    fn add(&mut self, message: impl Into<String>) {
        self.problems.push(Problem {
            at: self.at.clone(),
            kind: Kind::Plain,
            message: message.into(),
            causes: Vec::new(),
        });
    }

    fn add_with(&mut self, message: impl Into<String>, causes: Vec<Problem>) {
        self.problems.push(Problem {
            at: self.at.clone(),
            kind: Kind::Plain,
            message: message.into(),
            causes,
        });
    }

    fn add_result(&mut self, result: Checked) {
        match result {
            Ok(seen) => self.seen.join(seen),
            Err(problem) => self.problems.push(problem),
        }
    }

    fn add_child(&mut self, result: Checked) {
        if let Err(problem) = result {
            self.problems.push(problem);
        }
    }

    fn end(mut self) -> Checked {
        match self.problems.len() {
            0 => Ok(self.seen),
            1 => Err(self.problems.remove(0)),
            _ => Err(Problem {
                at: self.at,
                kind: Kind::Group,
                message: "validation failed".to_owned(),
                causes: self.problems,
            }),
        }
    }
}

fn pointer(at: &[String]) -> String {
    at.iter().flat_map(|part| ["/".to_owned(), part.replace('~', "~0").replace('/', "~1")]).collect()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

impl<'s> Validator<'s> {
    fn child(
        &mut self,
        schema: &'s Value,
        value: &Value,
        at: &mut Vec<String>,
        part: &str,
        depth: usize,
    ) -> Checked {
        at.push(part.to_owned());
        let result = self.check(schema, value, at, depth + 1);
        at.pop();
        result
    }

    /// Counts steps; false when there are too many.
    fn pay(&mut self, steps: usize) -> bool {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > MAX_STEPS || !governor::may_go_on(0) {
            self.stop();
            return false;
        }
        true
    }

    fn stop(&mut self) {
        self.failed.get_or_insert_with(|| {
            "the schema takes too many steps or refers to itself without end".to_owned()
        });
    }

    /// A pattern that is to look at `bytes` of text.
    fn pattern(&mut self, pattern: &str, bytes: usize) -> Result<Regex, String> {
        let compiled = if let Some(found) = self.patterns.get(pattern) {
            found.clone()
        } else {
            self.pay(COMPILE_STEPS as usize);
            let compiled = go_regex(pattern);
            self.patterns.insert(pattern.to_owned(), compiled.clone());
            compiled
        }?;
        if self.pay(usize::try_from(compiled.cost(bytes)).unwrap_or(usize::MAX)) {
            Ok(compiled.regex)
        } else {
            Err("too many steps".to_owned())
        }
    }

    fn check(&mut self, schema: &'s Value, value: &Value, at: &mut Vec<String>, depth: usize) -> Checked {
        if !self.pay(1) || depth > MAX_DEPTH {
            self.stop();
            return Ok(Seen::default());
        }
        stacker::maybe_grow(96 << 10, 1 << 20, || self.check_here(schema, value, at, depth))
    }

    fn check_here(
        &mut self,
        schema: &'s Value,
        value: &Value,
        at: &mut Vec<String>,
        depth: usize,
    ) -> Checked {
        let mut found = Findings { problems: Vec::new(), seen: Seen::default(), at: pointer(at) };
        let schema = match schema {
            Value::Object(schema) => schema,
            Value::Bool(false) => {
                found.add("false schema");
                return found.end();
            }
            _ => return Ok(Seen::default()),
        };
        if let (Some(Value::String(target)), true) = (schema.get("$ref"), self.draft < 2019) {
            found.add_result(self.reference(target, value, at, depth));
            return found.end();
        }
        if let Some(problem) = self.simple(schema, value) {
            found.add(problem);
            return found.end();
        }
        if let Some(Value::String(target)) = schema.get("$ref") {
            let result = self.reference(target, value, at, depth);
            found.add_result(result);
        }
        match value {
            Value::Object(object) => self.object(schema, object, at, depth, &mut found),
            Value::Array(items) => self.array(schema, items, at, depth, &mut found),
            Value::String(text) => self.string(schema, text, &mut found),
            Value::Number(_) => Self::number(schema, value, self.draft, &mut found),
            _ => {}
        }
        if let Some(Value::String(target)) = schema.get("$dynamicRef").or(schema.get("$recursiveRef")) {
            let result = self.reference(target, value, at, depth);
            found.add_result(result);
        }
        self.combined(schema, value, at, depth, &mut found);
        self.unevaluated(schema, value, at, depth, &mut found);
        found.end()
    }

    /// Type, const, enum, format: the first that does not fit ends the check.
    fn simple(&self, schema: &Map<String, Value>, value: &Value) -> Option<String> {
        let wanted = match schema.get("type") {
            Some(Value::String(one)) => vec![one.clone()],
            Some(list) => texts(list),
            None => Vec::new(),
        };
        let got = type_of(value);
        let fits =
            |wanted: &String| wanted == got || wanted == "integer" && got == "number" && is_integer(value);
        if !wanted.is_empty() && !wanted.iter().any(fits) {
            let order = ["null", "boolean", "number", "integer", "string", "array", "object"];
            let mut wanted = wanted;
            wanted.sort_by_key(|name| order.iter().position(|known| known == name));
            return Some(format!("got {got}, want {}", wanted.join(" or ")));
        }
        if let Some(wanted) = schema.get("const")
            && self.draft > 4
            && !equal(wanted, value)
        {
            return Some(match wanted {
                Value::Array(_) | Value::Object(_) => "'const' failed".to_owned(),
                wanted => format!("value must be {}", shown(wanted)),
            });
        }
        if let Some(Value::Array(choices)) = schema.get("enum")
            && !choices.iter().any(|choice| equal(choice, value))
        {
            let simple = !choices.iter().any(|choice| choice.is_array() || choice.is_object());
            let list = choices.iter().map(shown).collect::<Vec<_>>().join(", ");
            return Some(match (simple, choices.len()) {
                (false, _) => "'enum' failed".to_owned(),
                (true, 1) => format!("value must be {list}"),
                (true, _) => format!("value must be one of {list}"),
            });
        }
        if let (Some(Value::String(name)), Value::String(text)) = (schema.get("format"), value)
            && self.draft < 2019
            && let Err(problem) = formats::check(name, text)
        {
            return Some(format!("{} is not valid {name}: {problem}", quote(text)));
        }
        None
    }

    fn reference(&mut self, target: &str, value: &Value, at: &mut Vec<String>, depth: usize) -> Checked {
        let known = self.references.get(target).copied();
        let found = known.unwrap_or_else(|| self.resolve(target));
        self.references.insert(target.to_owned(), found);
        let Some(schema) = found else {
            let remote = !target.starts_with('#');
            self.failed.get_or_insert_with(|| {
                if remote {
                    format!("the schema refers to {target:?}, which is not part of it: skip the validation, or put it into the schema")
                } else {
                    format!("the schema refers to {target:?}, which does not exist")
                }
            });
            return Ok(Seen::default());
        };
        self.check(schema, value, at, depth + 1).map_err(|problem| Problem {
            at: pointer(at),
            kind: Kind::Reference,
            message: "validation failed".to_owned(),
            causes: if problem.kind == Kind::Group { problem.causes } else { vec![problem] },
        })
    }

    fn resolve(&self, target: &str) -> Option<&'s Value> {
        let root = self.root;
        let base = root.get("$id").or_else(|| root.get("id")).and_then(Value::as_str).unwrap_or_default();
        let fragment = match target.split_once('#') {
            Some((document, fragment)) if document.is_empty() || document == base.trim_end_matches('#') => {
                fragment
            }
            None if target == base => "",
            // Another document: only one that this one holds under that name.
            _ => return find(root, &|schema| schema.get("$id").and_then(Value::as_str) == Some(target), 0),
        };
        if fragment.is_empty() {
            return Some(root);
        }
        if fragment.starts_with('/') {
            return root.pointer(&percent_decode_str(fragment).decode_utf8_lossy());
        }
        let anchor = |schema: &Map<String, Value>| {
            ["$anchor", "$dynamicAnchor"]
                .iter()
                .any(|key| schema.get(*key).and_then(Value::as_str) == Some(fragment))
                || schema.get("$id").and_then(Value::as_str).and_then(|id| id.strip_prefix('#'))
                    == Some(fragment)
        };
        find(root, &anchor, 0)
    }

    fn string(&mut self, schema: &Map<String, Value>, text: &str, found: &mut Findings) {
        let size = |key: &str| schema.get(key).and_then(Value::as_f64).map(|size| size as usize);
        let len = text.chars().count();
        if let Some(least) = size("minLength").filter(|least| len < *least) {
            found.add(format!("minLength: got {len}, want {least}"));
        }
        if let Some(most) = size("maxLength").filter(|most| len > *most) {
            found.add(format!("maxLength: got {len}, want {most}"));
        }
        if let Some(Value::String(pattern)) = schema.get("pattern") {
            match self.pattern(pattern, text.len()) {
                Ok(regex) if !regex.is_match(text) => {
                    found.add(format!("{} does not match pattern {}", quote(text), quote(pattern)));
                }
                Ok(_) => {}
                Err(error) => {
                    self.failed
                        .get_or_insert(format!("the schema has a pattern that cannot be read: {error}"));
                }
            }
        }
    }

    fn number(schema: &Map<String, Value>, value: &Value, draft: u32, found: &mut Findings) {
        let got = value.as_f64().unwrap_or(0.0);
        let limit = |key: &str| schema.get(key).filter(|limit| limit.is_number());
        let strict = |key: &str| draft == 4 && schema.get(key) == Some(&Value::Bool(true));
        let mut compare = |key: &str, name: &str, bad: &dyn Fn(f64) -> bool| {
            if let Some(limit) = limit(key)
                && bad(limit.as_f64().unwrap_or(0.0))
            {
                found.add(format!("{name}: got {}, want {}", number(value), number(limit)));
            }
        };
        if strict("exclusiveMinimum") {
            compare("minimum", "exclusiveMinimum", &|limit| got <= limit);
        } else {
            compare("minimum", "minimum", &|limit| got < limit);
        }
        if strict("exclusiveMaximum") {
            compare("maximum", "exclusiveMaximum", &|limit| got >= limit);
        } else {
            compare("maximum", "maximum", &|limit| got > limit);
        }
        compare("exclusiveMinimum", "exclusiveMinimum", &|limit| got <= limit);
        compare("exclusiveMaximum", "exclusiveMaximum", &|limit| got >= limit);
        compare("multipleOf", "multipleOf", &|limit| {
            let quotient = got / limit;
            (quotient - quotient.round()).abs() > 1e-9
        });
    }

    fn combined(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &Value,
        at: &mut Vec<String>,
        depth: usize,
        found: &mut Findings,
    ) {
        let list = |key: &str| schema.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if let Some(inner) = schema.get("not")
            && self.check(inner, value, at, depth + 1).is_ok()
        {
            found.add("'not' failed");
        }
        let mut problems = Vec::new();
        for inner in list("allOf") {
            match self.check(inner, value, at, depth + 1) {
                Ok(seen) => found.seen.join(seen),
                Err(problem) => problems.push(problem),
            }
        }
        if !problems.is_empty() {
            found.add_with("'allOf' failed", problems);
        }
        let (mut problems, mut matched) = (Vec::new(), false);
        for inner in list("anyOf") {
            match self.check(inner, value, at, depth + 1) {
                Ok(seen) => {
                    found.seen.join(seen);
                    matched = true;
                }
                Err(problem) => problems.push(problem),
            }
        }
        if !matched && !problems.is_empty() {
            found.add_with("'anyOf' failed", problems);
        }
        let (mut problems, mut first) = (Vec::new(), None);
        for (index, inner) in list("oneOf").iter().enumerate() {
            match (self.check(inner, value, at, depth + 1), first) {
                (Ok(seen), None) => {
                    found.seen.join(seen);
                    first = Some(index);
                }
                (Ok(_), Some(other)) => {
                    found.add(format!("'oneOf' failed, subschemas {other}, {index} matched"));
                    break;
                }
                (Err(problem), None) => problems.push(problem),
                (Err(_), Some(_)) => {}
            }
        }
        if first.is_none() && !problems.is_empty() {
            found.add_with("'oneOf' failed, none matched", problems);
        }
        if let Some(condition) = schema.get("if").filter(|_| self.draft >= 7) {
            let branch = match self.check(condition, value, at, depth + 1) {
                Ok(seen) => {
                    found.seen.join(seen);
                    schema.get("then")
                }
                Err(_) => schema.get("else"),
            };
            if let Some(inner) = branch {
                let result = self.check(inner, value, at, depth + 1);
                found.add_result(result);
            }
        }
    }

    fn unevaluated(
        &mut self,
        schema: &'s Map<String, Value>,
        value: &Value,
        at: &mut Vec<String>,
        depth: usize,
        found: &mut Findings,
    ) {
        if self.draft < 2019 {
            return;
        }
        if let (Some(inner), Value::Object(object)) = (schema.get("unevaluatedProperties"), value) {
            for (name, value) in object {
                if found.seen.properties.insert(name.clone()) {
                    let result = self.child(inner, value, at, name, depth);
                    found.add_child(result);
                }
            }
        }
        if let (Some(inner), Value::Array(items)) = (schema.get("unevaluatedItems"), value) {
            for (index, item) in items.iter().enumerate() {
                if found.seen.items.insert(index) {
                    let result = self.child(inner, item, at, &index.to_string(), depth);
                    found.add_child(result);
                }
            }
        }
    }
}

/// The first schema inside `value` that a test accepts.
fn find<'s>(value: &'s Value, test: &dyn Fn(&Map<String, Value>) -> bool, depth: usize) -> Option<&'s Value> {
    if depth > MAX_DEPTH {
        return None;
    }
    match value {
        Value::Object(map) if test(map) => Some(value),
        Value::Object(map) => map.values().find_map(|inner| find(inner, test, depth + 1)),
        Value::Array(items) => items.iter().find_map(|inner| find(inner, test, depth + 1)),
        _ => None,
    }
}
