//! Sets of field paths, and their FieldsV1 form.
//!
//! FieldsV1 is a JSON object: `f:name` is a field, `k:{"name":"x"}` an item of a keyed list, `v:"x"` an item of a set,
//! `i:0` an item by position, and `.` says that the path which leads here is itself a member.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// A field of an object.
    Field(Box<str>),
    /// An item of a keyed list; the text is the JSON object of its keys, sorted.
    Key(Box<str>),
    /// An item of a set; the text is its JSON.
    Value(Box<str>),
    /// An item by position.
    Index(u32),
}

impl Step {
    fn encode(&self) -> String {
        match self {
            Self::Field(s) => format!("f:{s}"),
            Self::Key(s) => format!("k:{s}"),
            Self::Value(s) => format!("v:{s}"),
            Self::Index(i) => format!("i:{i}"),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        let (tag, rest) = text.split_once(':')?;
        Some(match tag {
            "f" => Self::Field(rest.into()),
            // Keys come from clients too; one canonical text makes equal keys equal.
            "k" => {
                let keys: BTreeMap<String, Value> = serde_json::from_str(rest).ok()?;
                Self::Key(serde_json::to_string(&keys).ok()?.into())
            }
            "v" => Self::Value(serde_json::from_str::<Value>(rest).ok()?.to_string().into()),
            "i" => Self::Index(rest.parse().ok()?),
            _ => return None,
        })
    }

    /// The step as conflict messages write it: `.name`, `[name="x"]`, `[="x"]`, `[0]`.
    pub(crate) fn display(&self) -> String {
        match self {
            Self::Field(s) => format!(".{s}"),
            Self::Key(s) => {
                let keys: BTreeMap<String, Value> = serde_json::from_str(s).unwrap_or_default();
                let text: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
                format!("[{}]", text.join(","))
            }
            Self::Value(s) => format!("[={s}]"),
            Self::Index(i) => format!("[{i}]"),
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    member: bool,
    below: FieldSet,
}

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    entries: BTreeMap<Step, Entry>,
}

impl FieldSet {
    /// True if it holds no path.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds one path.
    pub(crate) fn insert(&mut self, path: &[Step]) {
        let Some((first, rest)) = path.split_first() else { return };
        let e = self.entries.entry(first.clone()).or_default();
        if rest.is_empty() { e.member = true } else { e.below.insert(rest) }
    }

    /// Adds a set below `step`.
    pub(crate) fn graft(&mut self, step: Step, member: bool, below: Self) {
        if !member && below.is_empty() {
            return;
        }
        let e = self.entries.entry(step).or_default();
        e.member |= member;
        if e.below.is_empty() { e.below = below } else { e.below = e.below.union(&below) }
    }

    /// True if `step` itself is a member.
    pub(crate) fn has(&self, step: &Step) -> bool {
        self.entries.get(step).is_some_and(|e| e.member)
    }

    /// The paths below `step`.
    pub(crate) fn below(&self, step: &Step) -> Option<&Self> {
        self.entries.get(step).map(|e| &e.below).filter(|b| !b.is_empty())
    }

    /// Every step at this level with whether it is a member and what lies below.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Step, bool, &Self)> {
        self.entries.iter().map(|(s, e)| (s, e.member, &e.below))
    }

    /// Paths in either.
    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut out = self.clone();
        for (s, e) in &other.entries {
            match out.entries.get_mut(s) {
                Some(mine) => {
                    mine.member |= e.member;
                    if !e.below.is_empty() {
                        mine.below = mine.below.union(&e.below);
                    }
                }
                None => {
                    out.entries.insert(s.clone(), e.clone());
                }
            }
        }
        out
    }

    fn combine(&self, other: &Self, member: fn(bool, bool) -> bool, whole: bool) -> Self {
        let mut out = Self::default();
        for (s, e) in &self.entries {
            let entry = match other.entries.get(s) {
                Some(o) => Entry {
                    member: member(e.member, o.member),
                    below: e.below.combine(&o.below, member, whole),
                },
                None if whole => e.clone(),
                None => continue,
            };
            if entry.member || !entry.below.is_empty() {
                out.entries.insert(s.clone(), entry);
            }
        }
        out
    }

    /// Paths in both.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a && b, false)
    }

    /// Paths of this one that are not in `other`.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.combine(other, |a, b| a && !b, true)
    }

    /// Paths of this one that are neither in `other` nor below one of its members.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut out = Self::default();
        for (s, e) in &self.entries {
            match other.entries.get(s) {
                Some(o) if o.member => {}
                Some(o) => {
                    let entry = Entry { member: e.member, below: e.below.without(&o.below) };
                    if entry.member || !entry.below.is_empty() {
                        out.entries.insert(s.clone(), entry);
                    }
                }
                None => {
                    out.entries.insert(s.clone(), e.clone());
                }
            }
        }
        out
    }

    /// Every path, in order.
    pub(crate) fn paths(&self) -> Vec<Vec<Step>> {
        fn walk(set: &FieldSet, at: &mut Vec<Step>, out: &mut Vec<Vec<Step>>) {
            for (s, e) in &set.entries {
                at.push(s.clone());
                if e.member {
                    out.push(at.clone());
                }
                walk(&e.below, at, out);
                at.pop();
            }
        }
        let mut out = Vec::new();
        walk(self, &mut Vec::new(), &mut out);
        out
    }

    /// The FieldsV1 object.
    pub(crate) fn to_json(&self) -> Value {
        let mut out = Map::new();
        for (s, e) in &self.entries {
            let mut v = if e.below.is_empty() { Value::Object(Map::new()) } else { e.below.to_json() };
            if e.member
                && !e.below.is_empty()
                && let Some(o) = v.as_object_mut()
            {
                o.insert(".".into(), Value::Object(Map::new()));
            }
            out.insert(s.encode(), v);
        }
        Value::Object(out)
    }

    /// Reads a FieldsV1 object; `None` if it is not one.
    pub(crate) fn from_json(v: &Value) -> Option<Self> {
        let mut out = Self::default();
        for (k, v) in v.as_object()? {
            if k == "." {
                continue;
            }
            let below = Self::from_json(v)?;
            let member = below.is_empty() || v.get(".").is_some();
            out.entries.insert(Step::decode(k)?, Entry { member, below });
        }
        Some(out)
    }
}

/// Reads `a.b.c` as field steps.
pub(crate) fn fields(path: &str) -> Vec<Step> {
    path.split('.').map(|p| Step::Field(p.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_v1_reads_back_as_written() {
        let doc = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
                       "f:finalizers": {"v:\"x\"": {}}}});
        let set = FieldSet::from_json(&doc).unwrap();
        assert_eq!(set.to_json(), doc);
    }

    #[test]
    fn key_order_of_a_client_does_not_matter() {
        let a = FieldSet::from_json(&json!({"k:{\"b\":1,\"a\":2}": {}})).unwrap();
        let b = FieldSet::from_json(&json!({"k:{\"a\":2,\"b\":1}": {}})).unwrap();
        assert_eq!(a, b);
    }

    #[test]
    fn without_drops_what_lies_below_a_member() {
        let a = FieldSet::from_json(&json!({"f:status": {"f:x": {}}, "f:spec": {"f:y": {}}})).unwrap();
        let mut status = FieldSet::default();
        status.insert(&fields("status"));
        assert_eq!(a.without(&status).to_json(), json!({"f:spec": {"f:y": {}}}));
        assert_eq!(a.difference(&status), a);
    }
}
