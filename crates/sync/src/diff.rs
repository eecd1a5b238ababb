//! What differs between two states of an object, field by field, fit to be shown to anyone who may see
//! the object's name.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use crate::{fields, key::ObjectKey, ownership};

/// What stands for a value of a Secret.
const HIDDEN: &str = "(hidden)";
/// Bytes of one value that are shown.
const MAX_VALUE_BYTES: usize = 2_000;
/// Differences of one object that are listed.
pub(crate) const MAX_FIELDS: usize = 50;
/// Bytes of the differences of one object.
const MAX_OBJECT_BYTES: usize = 16 * 1024;
/// Bytes of the differences of one plan.
const MAX_PLAN_BYTES: usize = 256 * 1024;

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldChange {
    /// JSON pointer.
    pub path: String,
    /// JSON text; `None` where there is nothing.
    pub before: Option<String>,
    /// JSON text; `None` where there is nothing.
    pub after: Option<String>,
    /// The values are of a Secret and not shown.
    pub hidden: bool,
    /// Who wrote the value before.
    pub manager: Option<String>,
    /// When, in milliseconds since the epoch.
    pub written_ms: Option<i64>,
}

impl FieldChange {
    /// About how much room it takes.
    pub(crate) fn bytes(&self) -> usize {
        let side = |side: &Option<String>| side.as_ref().map_or(0, String::len);
        self.path.len()
            + side(&self.before)
            + side(&self.after)
            + self.manager.as_ref().map_or(0, String::len)
    }
}

/// What differs of an object, as far as it is listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Compared {
    pub(crate) fields: Vec<FieldChange>,
    /// Fields that differ as well.
    pub(crate) omitted: usize,
}

/// How much more of differences a plan has room for.
#[derive(Debug)]
pub(crate) struct Room {
    left: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { left: MAX_PLAN_BYTES }
    }
}

impl Room {
    /// As much of it as there is room for; the rest is counted.
    pub(crate) fn keep(&mut self, compared: Compared) -> Compared {
        let Compared { mut fields, omitted } = compared;
        let before = fields.len();
        let mut own = MAX_OBJECT_BYTES.min(self.left);
        let all = own;
        // The first that does not fit ends it: what is listed is listed in order, without gaps.
        let kept = fields
            .iter()
            .take_while(|field| match own.checked_sub(field.bytes()) {
                Some(rest) => {
                    own = rest;
                    true
                }
                None => false,
            })
            .count();
        fields.truncate(kept);
        self.left -= all - own;
        Compared { fields, omitted: omitted + before - kept }
    }
}

/// Keys by which elements of lists are matched, where all elements have it and no two the same.
const ELEMENT_KEYS: [&str; 7] = ["name", "containerPort", "port", "mountPath", "key", "type", "ip"];

struct Difference {
    /// In the state after, or before where it is gone.
    path: Vec<String>,
    /// In the state before.
    place: Vec<String>,
    before: Option<Value>,
    after: Option<Value>,
}

#[derive(Default)]
struct Found {
    listed: Vec<Difference>,
    /// Those after the first [`MAX_FIELDS`].
    omitted: usize,
}

impl Found {
    fn push(&mut self, path: &[String], place: &[String], before: Option<&Value>, after: Option<&Value>) {
        if self.listed.len() >= MAX_FIELDS {
            self.omitted += 1;
            return;
        }
        self.listed.push(Difference {
            path: path.to_vec(),
            place: place.to_vec(),
            before: before.cloned(),
            after: after.cloned(),
        });
    }

    /// Fit to be shown.
    fn told(self, live: Option<&Value>, secret: bool) -> Compared {
        let Self { listed, omitted } = self;
        let fields = listed
            .into_iter()
            .map(|difference| {
                let Difference { path, place, before, after } = difference;
                let hidden = secret && is_secret_place(&path);
                let writer = live.and_then(|live| fields::writer_of(live, &place));
                FieldChange {
                    path: text_of(&path),
                    before: before.map(|value| shown(&value, hidden)),
                    after: after.map(|value| shown(&value, hidden)),
                    hidden,
                    manager: writer.as_ref().map(|writer| writer.manager.clone()),
                    written_ms: writer.and_then(|writer| writer.written_ms),
                }
            })
            .collect();
        Compared { fields, omitted }
    }
}

/// Takes out what servers say of themselves and what only this program reads.
pub(crate) fn clean(object: &mut Value) {
    if let Value::Object(map) = object {
        map.remove("status");
    }
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for field in [
        "managedFields",
        "resourceVersion",
        "uid",
        "generation",
        "selfLink",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        metadata.remove(field);
    }
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        annotations.remove("deployment.kubernetes.io/revision");
        annotations.remove(ownership::HASH_ANNOTATION);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
}

/// What differs between the live object and what it would become. Both may be whole; `live` with its
/// `managedFields`, which tell who wrote what stands there.
pub(crate) fn differences(key: &ObjectKey, live: Option<&Value>, after: &Value) -> Vec<FieldChange> {
    compared(key, live, after).fields
}

/// The same, with the number of those that are not listed.
pub(crate) fn compared(key: &ObjectKey, live: Option<&Value>, after: &Value) -> Compared {
    let mut before = live.cloned().unwrap_or_else(|| Value::Object(Map::new()));
    let mut after = after.clone();
    clean(&mut before);
    clean(&mut after);
    let secret = key.kind.is("", "Secret");
    if secret {
        merge_string_data(&mut before);
        merge_string_data(&mut after);
    }
    let mut found = Found::default();
    walk(&before, &after, &mut Vec::new(), &mut Vec::new(), &mut found);
    found.told(live, secret)
}

/// Every leaf of an object that is not there yet, as it was rendered: what the API server fills in may be another value each time it is
/// asked. What is said of each object anyway is left out: its kind, its name, and what marks it as a service's.
pub(crate) fn created(key: &ObjectKey, manifest: &Value) -> Compared {
    let mut after = manifest.clone();
    clean(&mut after);
    if let Value::Object(map) = &mut after {
        map.remove("apiVersion");
        map.remove("kind");
    }
    if let Some(Value::Object(metadata)) = after.get_mut("metadata") {
        metadata.remove("name");
        metadata.remove("namespace");
        let marks: [(&str, &[&str]); 2] = [
            ("labels", &[ownership::MANAGED_BY_LABEL]),
            ("annotations", &[ownership::SERVICE_ID_ANNOTATION, ownership::TRACKING_ANNOTATION]),
        ];
        for (of, names) in marks {
            let Some(Value::Object(all)) = metadata.get_mut(of) else { continue };
            for name in names {
                all.remove(*name);
            }
            if all.is_empty() {
                metadata.remove(of);
            }
        }
    }
    if after["metadata"].as_object().is_some_and(Map::is_empty)
        && let Value::Object(map) = &mut after
    {
        map.remove("metadata");
    }
    let secret = key.kind.is("", "Secret");
    if secret {
        merge_string_data(&mut after);
    }
    let mut found = Found::default();
    if let Value::Object(map) = &after {
        for (name, value) in map {
            leaves(value, &mut vec![name.clone()], &mut found);
        }
    }
    found.told(None, secret)
}

/// What stands in a value, each with its path; empty lists and objects are leaves, too.
fn leaves(value: &Value, path: &mut Vec<String>, found: &mut Found) {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    if below.is_empty() {
        found.push(path, path, None, Some(value));
    }
    for (name, value) in below {
        path.push(name);
        leaves(value, path, found);
        path.pop();
    }
}

/// Writes the `stringData` of a Secret as `data`, as the API server does after it noted who owns which field: of `stringData`
/// it would note nothing that is there afterwards, so nobody could see a change of it, and a key that leaves git would
/// stay. What the API server is to refuse stays as it is.
pub(crate) fn without_string_data(key: &ObjectKey, manifest: &mut Value) {
    let is_text = |field: &str| match manifest.get(field) {
        None | Some(Value::Null) => true,
        Some(Value::Object(values)) => values.values().all(Value::is_string),
        Some(_) => false,
    };
    if key.kind.is("", "Secret")
        && manifest.get("stringData").is_some()
        && is_text("stringData")
        && is_text("data")
    {
        if manifest["data"].is_null() {
            manifest.as_object_mut().map(|map| map.remove("data"));
        }
        merge_string_data(manifest);
    }
}

/// The API server turns `stringData` into `data`; what is compared has only the latter. The texts are left
/// as they are: they are only compared with each other, never shown.
fn merge_string_data(object: &mut Value) {
    let Value::Object(map) = object else { return };
    let Some(Value::Object(texts)) = map.remove("stringData") else { return };
    let data = map.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(data) = data {
        for (name, text) in texts {
            data.insert(name, Value::String(STANDARD.encode(text.as_str().unwrap_or_default())));
        }
    }
}

/// Everything of a Secret but its names, its type and its labels may be secret: annotations as well, where
/// tools keep copies of it.
fn is_secret_place(path: &[String]) -> bool {
    match path {
        [first, ..] if first == "type" || first == "immutable" => false,
        [first, second, ..] if first == "metadata" => second == "annotations",
        [first] if first == "metadata" => true,
        _ => true,
    }
}

fn shown(value: &Value, hidden: bool) -> String {
    if hidden {
        return Value::String(HIDDEN.to_owned()).to_string();
    }
    let text = value.to_string();
    if text.len() <= MAX_VALUE_BYTES {
        return text;
    }
    let mut end = MAX_VALUE_BYTES;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}… ({} bytes)", text.get(..end).unwrap_or_default(), text.len())
}

fn text_of(path: &[String]) -> String {
    let mut text = String::new();
    for part in path {
        text.push('/');
        text.push_str(&part.replace('~', "~0").replace('/', "~1"));
    }
    text
}

fn walk(before: &Value, after: &Value, place: &mut Vec<String>, path: &mut Vec<String>, found: &mut Found) {
    if before == after {
        return;
    }
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, old) in before {
                step(Some((name, old)), after.get(name).map(|new| (name, new)), place, path, found);
            }
            for (name, new) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
                step(None, Some((name, new)), place, path, found);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (old, new) in pairs(before, after) {
                let old = old.map(|index| (index.to_string(), &before[index]));
                let new = new.map(|index| (index.to_string(), &after[index]));
                step(
                    old.as_ref().map(|(name, value)| (name, *value)),
                    new.as_ref().map(|(name, value)| (name, *value)),
                    place,
                    path,
                    found,
                );
            }
        }
        _ => found.push(path, place, Some(before), Some(after)),
    }
}

fn step(
    old: Option<(&String, &Value)>,
    new: Option<(&String, &Value)>,
    place: &mut Vec<String>,
    path: &mut Vec<String>,
    found: &mut Found,
) {
    let Some(name) = new.or(old).map(|(name, _)| name) else { return };
    path.push(name.clone());
    place.push(old.map_or_else(|| name.clone(), |(name, _)| name.clone()));
    match (old, new) {
        (Some((_, old)), Some((_, new))) => walk(old, new, place, path, found),
        (old, new) => found.push(path, place, old.map(|(_, value)| value), new.map(|(_, value)| value)),
    }
    path.pop();
    place.pop();
}

/// Which elements of two lists belong together.
fn pairs(before: &[Value], after: &[Value]) -> Vec<(Option<usize>, Option<usize>)> {
    let key = ELEMENT_KEYS.into_iter().find(|key| is_key(before, key) && is_key(after, key));
    let Some(key) = key else {
        let length = before.len().max(after.len());
        return (0..length)
            .map(|at| ((at < before.len()).then_some(at), (at < after.len()).then_some(at)))
            .collect();
    };
    let mut pairs: Vec<(Option<usize>, Option<usize>)> = before
        .iter()
        .enumerate()
        .map(|(index, old)| (Some(index), after.iter().position(|new| new[key] == old[key])))
        .collect();
    for (index, new) in after.iter().enumerate() {
        if !before.iter().any(|old| old[key] == new[key]) {
            pairs.push((None, Some(index)));
        }
    }
    pairs
}

fn is_key(items: &[Value], key: &str) -> bool {
    let mut seen = std::collections::HashSet::new();
    items.iter().all(|item| item.get(key).is_some_and(|value| seen.insert(value.to_string())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(text: &str) -> ObjectKey {
        text.parse().unwrap()
    }

    fn lines(found: &[FieldChange]) -> Vec<String> {
        found
            .iter()
            .map(|field| {
                let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "-".to_owned());
                format!("{} {} -> {}", field.path, side(&field.before), side(&field.after))
            })
            .collect()
    }

    #[test]
    fn elements_are_matched_by_name() {
        let live =
            json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
        let after =
            json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c"}], "x~/": true}});
        let found = differences(&key("/Pod/ns/p"), Some(&live), &after);
        assert_eq!(
            lines(&found),
            [
                "/spec/containers/0 {\"image\":\"1\",\"name\":\"a\"} -> -",
                "/spec/containers/0/image \"1\" -> \"2\"",
                "/spec/containers/1 - -> {\"name\":\"c\"}",
                "/spec/x~0~1 - -> true",
            ]
        );
    }

    #[test]
    fn what_servers_say_is_no_difference() {
        let live = json!({"metadata": {"uid": "u", "generation": 4, "managedFields": [], "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}"}}, "status": {"a": 1}, "data": {"a": "1"}});
        let after = json!({"metadata": {}, "data": {"a": "1"}});
        assert_eq!(differences(&key("/ConfigMap/ns/c"), Some(&live), &after), []);
    }

    #[test]
    fn what_is_created_is_told_leaf_by_leaf() {
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": ""}, "list": [{"x": 1}, []],
            "metadata": {"name": "c", "namespace": "ns", "labels": {"app": "c", (ownership::MANAGED_BY_LABEL): "plural"},
                "annotations": {(ownership::SERVICE_ID_ANNOTATION): "id", (ownership::TRACKING_ANNOTATION): "key"}}});
        let Compared { fields, omitted } = created(&key("/ConfigMap/ns/c"), &manifest);
        let mut told = lines(&fields);
        told.sort();
        assert_eq!(
            told,
            [
                "/data/a - -> \"1\"",
                "/data/b - -> \"\"",
                "/list/0/x - -> 1",
                "/list/1 - -> []",
                "/metadata/labels/app - -> \"c\""
            ]
        );
        assert_eq!(omitted, 0);
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "stringData": {"a": "hunter2"},
            "data": {"b": "aHVudGVyMg=="}, "metadata": {"name": "s", "annotations": {"copy": "hunter2"}}});
        let Compared { fields, .. } = created(&key("/Secret/ns/s"), &secret);
        let text = format!("{fields:?}");
        assert!(!text.contains("hunter") && !text.contains("aHVu"), "{text}");
        let mut paths: Vec<&str> = fields.iter().map(|field| field.path.as_str()).collect();
        paths.sort_unstable();
        assert_eq!(paths, ["/data/a", "/data/b", "/metadata/annotations/copy", "/type"]);
        let many: Map<String, Value> = (0..70).map(|at| (format!("{at:02}"), json!("1"))).collect();
        let found = created(&key("/ConfigMap/ns/c"), &json!({"data": many}));
        assert_eq!((found.fields.len(), found.omitted), (50, 20));
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let values: Map<String, Value> = (0..70).map(|at| (format!("{at:02}"), json!("1"))).collect();
        let found = compared(&key("/ConfigMap/ns/c"), Some(&json!({"data": {}})), &json!({"data": values}));
        assert_eq!((found.fields.len(), found.omitted), (50, 20));
        let mut room = Room { left: 100 };
        let kept = room.keep(found);
        // `/data/00` and `"1"`.
        assert_eq!((kept.fields.len(), kept.omitted), (9, 61));
        assert_eq!(room.left, 1);
        let other = compared(&key("/ConfigMap/ns/c"), Some(&json!({"a": 1})), &json!({"a": 2}));
        assert_eq!(room.keep(other), Compared { fields: Vec::new(), omitted: 1 });
    }

    #[test]
    fn nothing_of_a_secret_is_shown() {
        let live = json!({"data": {"a": "aHVudGVyMg==", "same": "eA==", "odd": "%%hunter2%%"}, "type": "Opaque",
            "metadata": {"annotations": {"copy": "hunter2", "kubectl.kubernetes.io/last-applied-configuration": "hunter2"}}});
        let after = json!({"stringData": {"a": "hunter3", "same": "x", "new": "hunter2"}, "type": "other",
            "metadata": {"annotations": {"copy": "hunter3"}}});
        let found = differences(&key("/Secret/ns/s"), Some(&live), &after);
        let text = format!("{found:?}");
        assert!(!text.contains("hunter") && !text.contains("aHVu"), "{text}");
        let paths: Vec<&str> = found.iter().map(|field| field.path.as_str()).collect();
        assert_eq!(paths, ["/data/a", "/data/odd", "/data/new", "/metadata/annotations/copy", "/type"]);
        let created = differences(&key("/Secret/ns/s"), None, &json!({"stringData": {"a": "hunter2"}}));
        assert!(!format!("{created:?}").contains("hunter"), "{created:?}");
    }
}
