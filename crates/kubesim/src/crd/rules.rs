//! Value rules of custom resource schemas. Expression rules (`x-kubernetes-validations`) are accepted and not run.

use std::collections::BTreeSet;

use regex::Regex;
use serde_json::Value;

use crate::schema::{Arena, NodeId, Type};
use crate::status::Cause;

/// Rules of one node.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    one_of_values: Vec<Value>,
    minimum: Option<(f64, bool)>,
    maximum: Option<(f64, bool)>,
    multiple_of: Option<f64>,
    length: (Option<u64>, Option<u64>),
    items: (Option<u64>, Option<u64>),
    properties: (Option<u64>, Option<u64>),
    unique: bool,
    pattern: Option<Regex>,
    format: String,
    all_of: Vec<Value>,
    any_of: Vec<Value>,
    one_of: Vec<Value>,
    not: Option<Value>,
}

impl Rules {
    /// Reads the rules of a schema document; `None` if there are none.
    pub(crate) fn parse(doc: &Value) -> Option<Self> {
        let num = |k: &str| doc.get(k).and_then(Value::as_f64);
        let count = |k: &str| doc.get(k).and_then(Value::as_u64);
        let flag = |k: &str| doc.get(k).and_then(Value::as_bool).unwrap_or(false);
        let list = |k: &str| doc.get(k).and_then(Value::as_array).cloned().unwrap_or_default();
        let out = Self {
            one_of_values: list("enum"),
            minimum: num("minimum").map(|m| (m, flag("exclusiveMinimum"))),
            maximum: num("maximum").map(|m| (m, flag("exclusiveMaximum"))),
            multiple_of: num("multipleOf"),
            length: (count("minLength"), count("maxLength")),
            items: (count("minItems"), count("maxItems")),
            properties: (count("minProperties"), count("maxProperties")),
            unique: flag("uniqueItems"),
            pattern: doc.get("pattern").and_then(Value::as_str).and_then(|p| Regex::new(p).ok()),
            format: doc.get("format").and_then(Value::as_str).unwrap_or_default().to_owned(),
            all_of: list("allOf"),
            any_of: list("anyOf"),
            one_of: list("oneOf"),
            not: doc.get("not").cloned(),
        };
        let none = out.one_of_values.is_empty()
            && out.minimum.is_none()
            && out.maximum.is_none()
            && out.multiple_of.is_none()
            && out.length == (None, None)
            && out.items == (None, None)
            && out.properties == (None, None)
            && !out.unique
            && out.pattern.is_none()
            && !matches!(out.format.as_str(), "date-time" | "date" | "uuid" | "ipv4" | "ipv6")
            && out.all_of.is_empty()
            && out.any_of.is_empty()
            && out.one_of.is_empty()
            && out.not.is_none();
        (!none).then_some(out)
    }

    fn check(&self, v: &Value, path: &str, out: &mut Vec<Cause>) {
        if !self.one_of_values.is_empty() && !self.one_of_values.contains(v) {
            let allowed: Vec<String> = self
                .one_of_values
                .iter()
                .map(|a| a.as_str().map_or_else(|| a.to_string(), ToOwned::to_owned))
                .collect();
            let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
            out.push(Cause::not_supported(path, v, &allowed));
        }
        let body = |what: &str| format!("{path} in body {what}");
        if let Some(x) = v.as_f64() {
            if let Some((min, exclusive)) = self.minimum
                && (x < min || (exclusive && x <= min))
            {
                let word = if exclusive { "greater than" } else { "greater than or equal to" };
                out.push(Cause::invalid(path, v, &body(&format!("should be {word} {min}"))));
            }
            if let Some((max, exclusive)) = self.maximum
                && (x > max || (exclusive && x >= max))
            {
                let word = if exclusive { "less than" } else { "less than or equal to" };
                out.push(Cause::invalid(path, v, &body(&format!("should be {word} {max}"))));
            }
            if let Some(m) = self.multiple_of
                && m != 0.0
                && (x / m).fract() != 0.0
            {
                out.push(Cause::invalid(path, v, &body(&format!("should be a multiple of {m}"))));
            }
        }
        if let Some(s) = v.as_str() {
            let n = s.chars().count() as u64;
            if let Some(min) = self.length.0.filter(|m| n < *m) {
                out.push(Cause::invalid(path, v, &body(&format!("should be at least {min} chars long"))));
            }
            if let Some(max) = self.length.1.filter(|m| n > *m) {
                out.push(Cause::too_long(path, &format!("may not be more than {max} bytes")));
            }
            if let Some(p) = self.pattern.as_ref().filter(|p| !p.is_match(s)) {
                out.push(Cause::invalid(path, v, &body(&format!("should match '{p}'"))));
            }
            if !well_formed(&self.format, s) {
                out.push(Cause::invalid(path, v, &body(&format!("must be of type {}: {v}", self.format))));
            }
        }
        if let Some(l) = v.as_array() {
            let n = l.len() as u64;
            if let Some(min) = self.items.0.filter(|m| n < *m) {
                out.push(Cause::invalid(
                    path,
                    &n.into(),
                    &body(&format!("should have at least {min} items")),
                ));
            }
            if let Some(max) = self.items.1.filter(|m| n > *m) {
                let mut c = Cause::too_long(path, "");
                c.reason = "FieldValueTooMany";
                c.message = format!("Too many: {n}: must have at most {max} items");
                out.push(c);
            }
            if self.unique && l.iter().map(Value::to_string).collect::<BTreeSet<_>>().len() != l.len() {
                out.push(Cause::invalid(path, v, &body("shouldn't contain duplicates")));
            }
        }
        if let Some(m) = v.as_object() {
            let n = m.len() as u64;
            if let Some(min) = self.properties.0.filter(|m| n < *m) {
                out.push(Cause::invalid(
                    path,
                    &n.into(),
                    &body(&format!("should have at least {min} properties")),
                ));
            }
            if let Some(max) = self.properties.1.filter(|m| n > *m) {
                let mut c = Cause::too_long(path, "");
                c.reason = "FieldValueTooMany";
                c.message = format!("Too many: {n}: must have at most {max} items");
                out.push(c);
            }
        }
        if self.all_of.iter().any(|d| !fits(d, v)) {
            out.push(Cause::invalid(path, v, &body("must validate all the schemas (allOf)")));
        }
        if !self.any_of.is_empty() && !self.any_of.iter().any(|d| fits(d, v)) {
            out.push(Cause::invalid(path, v, &body("must validate at least one schema (anyOf)")));
        }
        if !self.one_of.is_empty() && self.one_of.iter().filter(|d| fits(d, v)).count() != 1 {
            out.push(Cause::invalid(path, v, &body("must validate one and only one schema (oneOf)")));
        }
        if self.not.as_ref().is_some_and(|d| fits(d, v)) {
            out.push(Cause::invalid(path, v, &body("must not validate the schema (not)")));
        }
    }
}

fn well_formed(format: &str, s: &str) -> bool {
    match format {
        "date-time" => chrono::DateTime::parse_from_rfc3339(s).is_ok(),
        "date" => chrono::NaiveDate::parse_from_str(s, "%Y-%m-%d").is_ok(),
        "uuid" => uuid::Uuid::parse_str(s).is_ok(),
        "ipv4" => s.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => s.parse::<std::net::Ipv6Addr>().is_ok(),
        _ => true,
    }
}

/// Whether a value satisfies a schema document inside allOf, anyOf, oneOf or not.
fn fits(doc: &Value, v: &Value) -> bool {
    let mut out = Vec::new();
    if let Some(r) = Rules::parse(doc) {
        r.check(v, "", &mut out);
    }
    let typed = match doc.get("type").and_then(Value::as_str) {
        Some("object") => v.is_object(),
        Some("array") => v.is_array(),
        Some("string") => v.is_string(),
        Some("integer") => v.is_i64() || v.is_u64(),
        Some("number") => v.is_number(),
        Some("boolean") => v.is_boolean(),
        _ => true,
    };
    let required = doc.get("required").and_then(Value::as_array);
    let complete = required.into_iter().flatten().filter_map(Value::as_str).all(|k| v.get(k).is_some());
    let props = doc.get("properties").and_then(Value::as_object);
    let below = props.into_iter().flatten().all(|(k, d)| v.get(k).is_none_or(|x| fits(d, x)));
    let items = doc.get("items").is_none_or(|d| v.as_array().is_none_or(|l| l.iter().all(|x| fits(d, x))));
    out.is_empty() && typed && complete && below && items
}

/// Everything about `v` that breaks its schema.
pub(crate) fn validate(a: &Arena, id: NodeId, v: &Value) -> Vec<Cause> {
    let mut out = Vec::new();
    at(a, id, v, "", &mut out);
    out
}

fn at(a: &Arena, id: NodeId, v: &Value, path: &str, out: &mut Vec<Cause>) {
    let n = a.node(id);
    if v.is_null() {
        if !n.nullable && n.ty != Type::Any {
            out.push(wrong_type(path, v, type_name(n.ty)));
        }
        return;
    }
    let fits = match n.ty {
        Type::Object => v.is_object(),
        Type::Array => v.is_array(),
        Type::String | Type::Time => v.is_string(),
        Type::Integer => v.as_f64().is_some_and(|f| f.fract() == 0.0),
        Type::Number => v.is_number(),
        Type::Boolean => v.is_boolean(),
        Type::IntOrString => v.is_string() || v.is_i64() || v.is_u64(),
        Type::Quantity => v.is_string() || v.is_number(),
        Type::Any => true,
    };
    if !fits {
        out.push(wrong_type(path, v, type_name(n.ty)));
        return;
    }
    if let Some(r) = &n.rules {
        r.check(v, path, out);
    }
    let join = |k: &str| if path.is_empty() { k.to_owned() } else { format!("{path}.{k}") };
    match v {
        Value::Object(m) => {
            for r in &n.required {
                if !m.contains_key(r) {
                    out.push(Cause::required(join(r), ""));
                }
            }
            for (k, sub) in m {
                if path.is_empty() && matches!(k.as_str(), "metadata" | "apiVersion" | "kind") {
                    continue;
                }
                if let Some(f) = n.fields.get(k).copied().or(n.extra) {
                    at(a, f, sub, &join(k), out);
                }
            }
        }
        Value::Array(l) => {
            if let Some(item) = n.items {
                for (i, sub) in l.iter().enumerate() {
                    at(a, item, sub, &format!("{path}[{i}]"), out);
                }
            }
            let mut seen = BTreeSet::new();
            for (i, sub) in l.iter().enumerate() {
                if n.list == crate::schema::ListKind::Atomic {
                    break;
                }
                match crate::managed::typed::item_step(a, id, i, sub) {
                    Ok(step) => {
                        if !seen.insert(step) {
                            let shown = match &n.list {
                                crate::schema::ListKind::Map(keys) => keys
                                    .iter()
                                    .filter_map(|k| Some((k.clone(), sub.get(k)?.clone())))
                                    .collect(),
                                _ => sub.clone(),
                            };
                            out.push(Cause::duplicate(format!("{path}[{i}]"), &shown));
                        }
                    }
                    Err(_) => {
                        if let crate::schema::ListKind::Map(keys) = &n.list {
                            for k in keys.iter().filter(|k| sub.get(*k).is_none()) {
                                out.push(Cause::required(format!("{path}[{i}].{k}"), ""));
                            }
                        }
                    }
                }
            }
        }
        _ => {}
    }
}

fn wrong_type(path: &str, v: &Value, wanted: &str) -> Cause {
    let got = match v {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    Cause::type_invalid(path, &got.into(), &format!("{path} in body must be of type {wanted}: \"{got}\""))
}

fn type_name(t: Type) -> &'static str {
    match t {
        Type::Object => "object",
        Type::Array => "array",
        Type::String | Type::Time => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::IntOrString | Type::Quantity => "integer,string",
        Type::Any => "any",
    }
}
