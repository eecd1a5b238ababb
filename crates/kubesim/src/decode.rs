//! From a request body to a clean object: unknown fields out, types checked, amounts and times in canonical form.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::quantity;
use crate::schema::{Arena, NodeId, Schema, Type};
use crate::status::ApiError;

/// What decoding found besides the object.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Paths of fields the schema does not know.
    pub unknown: Vec<String>,
}

/// Cleans an object of a built-in kind as decoding into its declared fields would.
///
/// # Errors
/// 400 if a value has the wrong type.
pub(crate) fn built_in(
    schema: &Schema,
    kind: &str,
    version: &str,
    object: &mut Value,
) -> Result<Findings, ApiError> {
    let mut w = Walk { arena: &schema.arena, findings: Findings::default(), error: None };
    w.typed(schema.root, object, &mut String::new(), "");
    match w.error {
        Some(e) => Err(ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {e}"
        ))),
        None => Ok(w.findings),
    }
}

/// Drops fields that a custom resource's schema does not declare and checks JSON types.
pub(crate) fn custom(schema: &Schema, object: &mut Value) -> Findings {
    let mut w = Walk { arena: &schema.arena, findings: Findings::default(), error: None };
    if let Some(o) = object.as_object_mut() {
        for (k, v) in o.iter_mut() {
            if k == "metadata"
                && let Some((f, _)) = schema.arena.field(schema.root, k)
            {
                w.typed(f, v, &mut "metadata".to_owned(), "");
            }
        }
    }
    w.structural(schema.root, object, "");
    w.findings
}

struct Walk<'a> {
    arena: &'a Arena,
    findings: Findings,
    error: Option<String>,
}

impl Walk<'_> {
    /// Go's decoding of JSON into structs: null is absence, empty maps and lists are absence.
    fn typed(&mut self, id: NodeId, v: &mut Value, path: &mut String, owner: &str) {
        let n = self.arena.node(id);
        let wrong = |go: &str, v: &Value| -> String {
            let what = match v {
                Value::Null => "null",
                Value::Bool(_) => "bool",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            };
            let plain = strip_indexes(path);
            format!("json: cannot unmarshal {what} into Go struct field {owner}.{plain} of type {go}")
        };
        match n.ty {
            Type::Object if n.atomic && n.fields.is_empty() && n.extra.is_none() => {}
            Type::Object => {
                let Value::Object(m) = v else {
                    let go = if n.name.is_empty() { "map[string]string".to_owned() } else { n.name.clone() };
                    self.error.get_or_insert(wrong(&go, v));
                    return;
                };
                let at = path.len();
                let name = if n.name.is_empty() { owner.to_owned() } else { n.name.clone() };
                let mut gone: Vec<String> = Vec::new();
                for (k, sub) in m.iter_mut() {
                    push_field(path, k);
                    match self.arena.field(id, k) {
                        None => {
                            self.findings.unknown.push(path.clone());
                            gone.push(k.clone());
                        }
                        Some((f, declared)) => {
                            if sub.is_null() {
                                if declared {
                                    gone.push(k.clone());
                                } else {
                                    *sub = zero_value(self.arena.node(f).ty);
                                }
                            } else {
                                self.typed(f, sub, path, &name);
                                if declared && self.vanishes(id, f, k, sub) {
                                    gone.push(k.clone());
                                }
                            }
                        }
                    }
                    path.truncate(at);
                }
                for k in gone {
                    m.remove(&k);
                }
            }
            Type::Array => {
                let Value::Array(l) = v else {
                    let go = format!("[]{}", self.arena.node(self.arena.item(id)).name);
                    self.error.get_or_insert(wrong(&go, v));
                    return;
                };
                let item = self.arena.item(id);
                let at = path.len();
                for (i, sub) in l.iter_mut().enumerate() {
                    // Writing to a string cannot fail.
                    let _ = write!(path, "[{i}]");
                    if sub.is_null() {
                        *sub = zero_value(self.arena.node(item).ty);
                    } else {
                        self.typed(item, sub, path, owner);
                    }
                    path.truncate(at);
                }
            }
            Type::String if !v.is_string() => {
                self.error.get_or_insert(wrong("string", v));
            }
            Type::Integer => match v.as_number() {
                Some(x) if x.is_i64() || x.is_u64() => {}
                Some(x) if x.as_f64().is_some_and(|f| f.fract() == 0.0) => {
                    *v = Value::from(x.as_f64().unwrap_or_default() as i64);
                }
                _ => {
                    let go = if n.format.is_empty() { "int" } else { &n.format };
                    let mut text = wrong(go, v);
                    if let Value::Number(x) = v {
                        text = text.replacen("unmarshal number", &format!("unmarshal number {x}"), 1);
                    }
                    self.error.get_or_insert(text);
                }
            },
            Type::Number if !v.is_number() => {
                self.error.get_or_insert(wrong("float64", v));
            }
            Type::Boolean if !v.is_boolean() => {
                self.error.get_or_insert(wrong("bool", v));
            }
            Type::IntOrString if !v.is_string() && !v.is_number() => {
                self.error.get_or_insert(wrong("intstr.IntOrString", v));
            }
            Type::Quantity => {
                let text = match &*v {
                    Value::String(s) => s.clone(),
                    Value::Number(x) => x.to_string(),
                    _ => String::new(),
                };
                match quantity::canonical(&text) {
                    Some(c) => *v = c.into(),
                    None => {
                        self.error.get_or_insert(
                            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                                .into(),
                        );
                    }
                }
            }
            Type::Time => self.time(v, &n.name, wrong("string", v)),
            _ => {}
        }
    }

    fn time(&mut self, v: &mut Value, name: &str, wrong: String) {
        let Some(text) = v.as_str() else {
            self.error.get_or_insert(wrong);
            return;
        };
        match chrono::DateTime::parse_from_rfc3339(text) {
            Ok(t) => {
                let t = t.with_timezone(&chrono::Utc);
                let format =
                    if name == "MicroTime" { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
                *v = t.format(format).to_string().into();
            }
            Err(_) => {
                self.error.get_or_insert(format!(
                    "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \"2006\""
                ));
            }
        }
    }

    /// A field that the server would not write back: an empty list or map, an empty text in metadata.
    fn vanishes(&self, parent: NodeId, field: NodeId, name: &str, v: &Value) -> bool {
        let n = self.arena.node(field);
        let p = self.arena.node(parent);
        if p.required.iter().any(|r| r == name) {
            return false;
        }
        match v {
            Value::Array(l) => l.is_empty(),
            // A map is omitted when empty; a struct behind a pointer (emptyDir: {}) is not.
            Value::Object(m) => m.is_empty() && n.fields.is_empty() && n.extra.is_some(),
            Value::String(s) => {
                s.is_empty() && (p.name == "ObjectMeta" || (p.name == "EnvVar" && name == "value"))
            }
            Value::Bool(false) => {
                matches!(name, "hostNetwork" | "hostPID" | "hostIPC" | "stdin" | "tty" | "paused")
            }
            Value::Number(x) => x.as_i64() == Some(0) && matches!(name, "minReadySeconds" | "generation"),
            Value::Null | Value::Bool(true) => false,
        }
    }

    fn structural(&mut self, id: NodeId, v: &mut Value, path: &str) {
        let n = self.arena.node(id);
        if v.is_null() {
            return;
        }
        match v {
            Value::Object(m) => {
                let mut gone = Vec::new();
                for (k, sub) in m.iter_mut() {
                    let below = if path.is_empty() { k.clone() } else { format!("{path}.{k}") };
                    if path.is_empty() && matches!(k.as_str(), "metadata" | "apiVersion" | "kind") {
                        continue;
                    }
                    if n.ty == Type::Any && n.preserve && n.fields.is_empty() {
                        continue;
                    }
                    if let Some((f, _)) = self.arena.field(id, k) {
                        self.structural(f, sub, &below);
                    } else {
                        self.findings.unknown.push(below);
                        gone.push(k.clone());
                    }
                }
                for k in gone {
                    m.remove(&k);
                }
            }
            Value::Array(l) if n.ty == Type::Array => {
                let item = self.arena.item(id);
                for (i, sub) in l.iter_mut().enumerate() {
                    self.structural(item, sub, &format!("{path}[{i}]"));
                }
            }
            _ => {}
        }
    }
}

/// Fills in the defaults that a schema declares (custom resources).
pub(crate) fn defaults(a: &Arena, id: NodeId, v: &mut Value) {
    let n = a.node(id);
    match v {
        Value::Object(m) => {
            for (name, f) in &n.fields {
                let field = a.node(*f);
                if let Some(d) = &field.default {
                    let missing = m.get(name).is_none_or(|x| x.is_null() && !field.nullable);
                    if missing {
                        m.insert(name.clone(), d.clone());
                    }
                }
                if let Some(sub) = m.get_mut(name) {
                    defaults(a, *f, sub);
                }
            }
            if let Some(x) = n.extra {
                for (_, sub) in m.iter_mut().filter(|(k, _)| !n.fields.contains_key(*k)) {
                    if sub.is_null()
                        && !a.node(x).nullable
                        && let Some(d) = &a.node(x).default
                    {
                        *sub = d.clone();
                    }
                    defaults(a, x, sub);
                }
            }
        }
        Value::Array(l) => {
            if let Some(item) = n.items {
                for sub in l {
                    defaults(a, item, sub);
                }
            }
        }
        _ => {}
    }
}

fn push_field(path: &mut String, k: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(k);
}

fn strip_indexes(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => inside = true,
            ']' => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

fn zero_value(ty: Type) -> Value {
    match ty {
        Type::String => "".into(),
        Type::Integer | Type::Number => 0.into(),
        Type::Boolean => false.into(),
        Type::Object => Value::Object(Map::new()),
        Type::Quantity => "0".into(),
        _ => Value::Null,
    }
}
