//! Who owns which field: `metadata.managedFields`, server-side apply and the bookkeeping of every other write.
//!
//! The rules are those of the Kubernetes documentation on server-side apply: an apply owns exactly the fields of its
//! configuration; any other write owns what it changes; a field that an applier no longer names is removed if nobody
//! else owns it; changing a field of another owner with apply is a conflict unless forced.

pub(crate) mod set;
pub(crate) mod typed;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::schema::Schema;
use crate::status::{ApiError, Cause};
use set::FieldSet;

/// Whether an entry came from an apply or from any other write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// Server-side apply.
    Apply,
    /// Create, update, patch.
    Update,
}

impl Operation {
    fn word(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What tells entries apart. Applies are told apart without their version, so that a manager may change it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Manager {
    /// Kind of write.
    pub operation: Operation,
    /// Name, e.g. `kubectl-edit`.
    pub name: String,
    /// `group/version` for updates, empty for applies.
    pub api_version: String,
    /// `status`, `scale` or empty.
    pub subresource: String,
}

impl Manager {
    /// The key of a write through `api_version`.
    pub(crate) fn new(operation: Operation, name: &str, api_version: &str, subresource: &str) -> Self {
        let api_version = if operation == Operation::Apply { String::new() } else { api_version.to_owned() };
        Self { operation, name: name.to_owned(), api_version, subresource: subresource.to_owned() }
    }
}

/// What one manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned {
    /// Its fields.
    pub set: FieldSet,
    /// The version its paths are written in.
    pub api_version: String,
    /// RFC 3339, absent in entries that a client wrote without it.
    pub time: Option<String>,
}

/// All managers of one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Managers {
    entries: BTreeMap<Manager, Owned>,
}

/// Which fields a conflict is about, per manager.
pub(crate) type Conflicts = Vec<(Manager, String, FieldSet)>;

impl Managers {
    /// Reads `metadata.managedFields`; `None` if an entry is malformed.
    pub(crate) fn from_object(object: &Value) -> Option<Self> {
        let mut out = Self::default();
        let Some(list) = object.pointer("/metadata/managedFields") else { return Some(out) };
        if list.is_null() {
            return Some(out);
        }
        for e in list.as_array()? {
            let text = |k: &str| e.get(k).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            };
            let set = match e.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(v) => FieldSet::from_json(v)?,
            };
            let key = Manager::new(operation, text("manager"), text("apiVersion"), text("subresource"));
            let time = e.get("time").and_then(Value::as_str).map(ToOwned::to_owned);
            out.entries.insert(key, Owned { set, api_version: text("apiVersion").to_owned(), time });
        }
        Some(out)
    }

    /// True if nobody owns anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes `metadata.managedFields`.
    pub(crate) fn write(&self, object: &mut Value) {
        let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
        if self.entries.is_empty() {
            meta.remove("managedFields");
            return;
        }
        let mut list: Vec<(&Manager, &Owned)> = self.entries.iter().collect();
        list.sort_by(|(a, x), (b, y)| {
            (a.operation, &x.time, &a.name, &x.api_version, &a.subresource).cmp(&(
                b.operation,
                &y.time,
                &b.name,
                &y.api_version,
                &b.subresource,
            ))
        });
        let list = list.into_iter().map(|(k, o)| {
            let mut e = Map::new();
            e.insert("manager".into(), k.name.clone().into());
            e.insert("operation".into(), k.operation.word().into());
            e.insert("apiVersion".into(), o.api_version.clone().into());
            if let Some(t) = &o.time {
                e.insert("time".into(), t.clone().into());
            }
            e.insert("fieldsType".into(), "FieldsV1".into());
            e.insert("fieldsV1".into(), o.set.to_json());
            if !k.subresource.is_empty() {
                e.insert("subresource".into(), k.subresource.clone().into());
            }
            Value::Object(e)
        });
        meta.insert("managedFields".into(), list.collect());
    }

    fn drop_empty(&mut self) {
        self.entries.retain(|_, o| !o.set.is_empty());
    }

    fn strip_system_fields(&mut self) {
        let mut strip = FieldSet::default();
        for f in ["apiVersion", "kind", "metadata"] {
            strip.insert(&set::fields(f));
        }
        for f in [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        ] {
            strip.insert(&set::fields(&format!("metadata.{f}")));
        }
        for o in self.entries.values_mut() {
            o.set = o.set.difference(&strip);
        }
        self.drop_empty();
    }
}

/// A write to be booked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Booking<'a> {
    /// Schema of the object.
    pub schema: &'a Schema,
    /// `group/version` of the request.
    pub api_version: &'a str,
    /// Field manager.
    pub manager: &'a str,
    /// Subresource or empty.
    pub subresource: &'a str,
    /// Fields that this endpoint cannot write.
    pub ignored: &'a FieldSet,
    /// RFC 3339 seconds.
    pub now: &'a str,
}

/// An object without `managedFields`, which is what owners are compared on.
pub(crate) fn bare(object: &Value) -> Value {
    let mut o = object.clone();
    if let Some(m) = o.get_mut("metadata").and_then(Value::as_object_mut) {
        m.remove("managedFields");
    }
    o
}

/// Books a create, update or patch that turned `live` into `new`; both without managedFields.
pub(crate) fn update(b: Booking<'_>, live: &Value, new: &Value, managers: &mut Managers) {
    let diff = typed::compare(&b.schema.arena, b.schema.root, live, new);
    let taken = diff.modified.union(&diff.added).without(b.ignored);
    let removed = diff.removed.without(b.ignored);
    if taken.is_empty() && removed.is_empty() {
        return;
    }
    for o in managers.entries.values_mut() {
        o.set = o.set.difference(&taken).difference(&removed);
    }
    managers.drop_empty();
    if !taken.is_empty() {
        let key = Manager::new(Operation::Update, b.manager, b.api_version, b.subresource);
        let entry = managers.entries.entry(key).or_insert_with(|| Owned {
            set: FieldSet::default(),
            api_version: b.api_version.to_owned(),
            time: None,
        });
        entry.set = entry.set.union(&taken);
        entry.time = Some(b.now.to_owned());
    }
    managers.strip_system_fields();
}

/// Applies `config` to `live`; both without managedFields. Gives the new object.
///
/// # Errors
/// 409 with one cause per field that another manager owns, unless `force`; 500 if the configuration does not fit
/// the schema.
pub(crate) fn apply(
    b: Booking<'_>,
    live: &Value,
    config: &Value,
    managers: &mut Managers,
    force: bool,
) -> Result<Value, ApiError> {
    let (a, root) = (&*b.schema.arena, b.schema.root);
    let errors = typed::check(a, root, config);
    if !errors.is_empty() {
        return Err(ApiError::internal(format!(
            "failed to create typed patch object ({}/{}; {}, Kind={}): {}",
            text(config, "/metadata/namespace"),
            text(config, "/metadata/name"),
            text(config, "/apiVersion"),
            text(config, "/kind"),
            join(&errors)
        )));
    }
    let before = managers.clone();
    let key = Manager::new(Operation::Apply, b.manager, b.api_version, b.subresource);
    let merged = typed::merge(a, root, live, config);
    let set = typed::owned(a, root, config).without(b.ignored);
    let last = managers.entries.get(&key).cloned();
    managers.entries.insert(
        key.clone(),
        Owned {
            set,
            api_version: b.api_version.to_owned(),
            time: last.as_ref().and_then(|o| o.time.clone()),
        },
    );
    let new = match &last {
        Some(last) if !last.set.is_empty() => prune(b.schema, &merged, &last.set, managers),
        _ => merged,
    };

    let diff = typed::compare(a, root, live, &new);
    let taken = diff.modified.union(&diff.added).without(b.ignored);
    let removed = diff.removed.without(b.ignored);
    let mut conflicts: Conflicts = Vec::new();
    for (k, o) in &managers.entries {
        if *k == key {
            continue;
        }
        let both = o.set.intersection(&taken);
        if !both.is_empty() {
            conflicts.push((k.clone(), o.api_version.clone(), both));
        }
    }
    if !force && !conflicts.is_empty() {
        *managers = before;
        return Err(conflict_error(&conflicts));
    }
    for (k, o) in &mut managers.entries {
        if *k != key {
            o.set = o.set.difference(&taken).difference(&removed);
        }
    }
    managers.drop_empty();
    managers.strip_system_fields();
    if (!typed::same(live, &new) || *managers != before)
        && let Some(o) = managers.entries.get_mut(&key)
    {
        o.time = Some(b.now.to_owned());
    }
    Ok(new)
}

/// Before the first apply to an object that nobody tracked: all it holds belongs to one synthetic manager, so that
/// applying other values conflicts.
pub(crate) fn seed_untracked(schema: &Schema, api_version: &str, live: &Value, managers: &mut Managers) {
    let set = typed::owned(&schema.arena, schema.root, live);
    let key = Manager::new(Operation::Update, "before-first-apply", api_version, "");
    managers.entries.insert(key, Owned { set, api_version: api_version.to_owned(), time: None });
    managers.strip_system_fields();
}

/// Takes out of `merged` what the applier owned last time and nobody owns now.
fn prune(schema: &Schema, merged: &Value, last: &FieldSet, managers: &Managers) -> Value {
    let (a, root) = (&*schema.arena, schema.root);
    let last = typed::with_parents(a, root, last);
    let pruned = typed::remove(a, root, merged, &last);
    let mut managed = FieldSet::default();
    for o in managers.entries.values() {
        managed = managed.union(&o.set);
    }
    let held = typed::with_parents(a, root, &typed::owned(a, root, merged));
    let managed = typed::with_parents(a, root, &managed);
    let kept = typed::with_parents(a, root, &typed::owned(a, root, &pruned));
    // Back in comes what somebody still owns ...
    let pruned = typed::remove(a, root, merged, &held.difference(&kept.union(&managed)));
    // ... and what was never the applier's.
    let kept = typed::with_parents(a, root, &typed::owned(a, root, &pruned));
    typed::remove(a, root, merged, &held.difference(&kept).intersection(&last))
}

fn text<'a>(v: &'a Value, pointer: &str) -> &'a str {
    v.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn join(errors: &[typed::TypedError]) -> String {
    match errors {
        [one] => one.to_string(),
        many => {
            let lines: Vec<String> = many.iter().map(|e| format!("  {e}")).collect();
            format!("errors:\n{}", lines.join("\n"))
        }
    }
}

fn who(k: &Manager, api_version: &str) -> String {
    let sub = if k.subresource.is_empty() {
        String::new()
    } else {
        format!(" with subresource \"{}\"", k.subresource)
    };
    let using =
        if k.operation == Operation::Update { format!(" using {api_version}") } else { String::new() };
    format!("\"{}\"{sub}{using}", k.name)
}

fn conflict_error(conflicts: &Conflicts) -> ApiError {
    let mut causes = Vec::new();
    let mut parts = Vec::new();
    for (k, version, set) in conflicts {
        let who = who(k, version);
        let paths: Vec<String> =
            set.paths().iter().map(|p| p.iter().map(set::Step::display).collect::<String>()).collect();
        for p in &paths {
            causes.push(Cause {
                reason: "FieldManagerConflict",
                message: format!("conflict with {who}"),
                field: p.clone(),
            });
        }
        parts.push(match paths.as_slice() {
            [one] => format!("conflict with {who}: {one}"),
            many => format!("conflicts with {who}:\n- {}", many.join("\n- ")),
        });
    }
    let n = causes.len();
    let mut e = ApiError::new(
        409,
        "Conflict",
        format!("Apply failed with {n} conflict{}: {}", if n == 1 { "" } else { "s" }, parts.join("\n")),
    );
    e.details = Some(Box::default());
    e.causes = causes;
    e
}

/// The object that a create starts from, as far as owners are concerned: the zero value of a built-in kind, so that
/// parts which are always there belong to nobody.
pub(crate) fn blank(schema: &Schema, custom: bool, api_version: &str, kind: &str) -> Value {
    let mut out = if custom { json!({}) } else { zero(schema, schema.root) };
    if let Some(o) = out.as_object_mut() {
        o.insert("apiVersion".into(), api_version.into());
        o.insert("kind".into(), kind.into());
        o.entry("metadata").or_insert_with(|| json!({}));
    }
    out
}

fn zero(schema: &Schema, id: crate::schema::NodeId) -> Value {
    let n = schema.arena.node(id);
    let mut out = Map::new();
    for (name, f) in &n.fields {
        let field = schema.arena.node(*f);
        if field.ty == crate::schema::Type::Object && field.default.as_ref().is_some_and(Value::is_object) {
            out.insert(name.clone(), zero(schema, *f));
        } else if n.required.contains(name) {
            let v = match field.ty {
                crate::schema::Type::String => json!(""),
                crate::schema::Type::Integer | crate::schema::Type::Number => json!(0),
                crate::schema::Type::Boolean => json!(false),
                _ => Value::Null,
            };
            out.insert(name.clone(), v);
        }
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests;
