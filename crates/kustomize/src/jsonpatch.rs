//! JSON patches (RFC 6902).
//!
//! Written here and not taken from the json-patch crate: that one works on `serde_json::Value`, while what is
//! patched here keeps the tags and the quoting of its YAML; and errors read as the program's.

use super::error::{Error, Res};
use super::json::{Cx, Numbers, normalize};
use super::limits::Budget;
use super::yaml::load::first_document;
use super::yaml::node::{Data, Node, Tag};
use super::yaml::resolve::Dialect;

/// A patch: its operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct JsonPatch(Vec<Operation>);

#[derive(Clone, Debug)]
struct Operation {
    op: String,
    path: String,
    from: String,
    value: Option<Node>,
}

impl JsonPatch {
    /// Reads JSON (a text that begins with `[`) or YAML.
    ///
    /// # Errors
    /// It is no list of operations.
    pub(crate) fn parse(text: &str, budget: &Budget) -> Res<Self> {
        let node = if text.starts_with('[') {
            let value: serde_json::Value =
                serde_json::from_str(text).map_err(|e| Error::new(format!("invalid JSON patch: {e}")))?;
            from_json(&value)
        } else {
            let mut node = first_document(text, Dialect::Old, budget)
                .map_err(|e| Error::new(e.at_problem()))?
                .unwrap_or_else(Node::null);
            normalize(&mut node, Dialect::Old, Numbers::Exact).map_err(Error::new)?;
            node
        };
        let cx = Cx::lenient("Patch");
        let mut all = Vec::new();
        let items = cx.list(&node, |n, _| Ok(n.clone()))?;
        for item in items {
            if !matches!(item.data, Data::Map(_)) {
                return Err(Error::new("json: cannot unmarshal into Go value of type jsonpatch.Operation"));
            }
            let text = |name: &str| match item.get(name) {
                Some(n) => cx.text(n).map(Some),
                None => Ok(None),
            };
            let op = text("op")?.unwrap_or_else(|| "unknown".to_owned());
            let (path, from) = (text("path")?, text("from")?);
            let mut value = item.get("value").cloned();
            let missing = match op.as_str() {
                "add" | "replace" if value.is_none() => "'value'",
                "move" | "copy" if from.is_none() => "'from'",
                "add" | "replace" | "move" | "copy" | "remove" | "test" if path.is_none() => "'path'",
                "add" | "replace" | "move" | "copy" | "remove" | "test" => "",
                _ => return Err(Error::new(format!("unsupported operation {op}"))),
            };
            if !missing.is_empty() {
                return Err(Error::new(format!("operation {op} is missing its {missing}")));
            }
            if let Some(v) = &mut value {
                normalize(v, Dialect::Old, Numbers::Floats).map_err(Error::new)?;
            }
            all.push(Operation { op, path: path.unwrap_or_default(), from: from.unwrap_or_default(), value });
        }
        Ok(Self(all))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Applies the operations in order to a document, which becomes what it is after a way through JSON.
    ///
    /// # Errors
    /// An operation does not apply, or the document has no JSON form.
    pub(crate) fn apply(&self, doc: &mut Node, budget: &Budget) -> Res<()> {
        budget.spend(doc.weight().0)?;
        normalize(doc, Dialect::New, Numbers::Floats).map_err(Error::new)?;
        for o in &self.0 {
            match o.op.as_str() {
                "add" => o.add(doc, budget)?,
                "remove" => o.remove(doc)?,
                "replace" => o.replace(doc, budget)?,
                "move" => o.relocate(doc, budget, false)?,
                "copy" => o.relocate(doc, budget, true)?,
                _ => o.test(doc)?,
            }
        }
        Ok(())
    }
}

fn from_json(value: &serde_json::Value) -> Node {
    use serde_json::Value;
    match value {
        Value::Null => Node::null(),
        Value::Bool(b) => Node::tagged(if *b { "true" } else { "false" }, Tag::Bool),
        Value::Number(n) => Node::tagged(&n.to_string(), if n.is_f64() { Tag::Float } else { Tag::Int }),
        Value::String(s) => Node::string(s),
        Value::Array(items) => Node::seq(items.iter().map(from_json).collect()),
        Value::Object(map) => {
            Node::map(map.iter().map(|(k, v)| (Node::tagged(k, Tag::Str), from_json(v))).collect())
        }
    }
}

fn missing(text: &str) -> Error {
    Error::new(format!("{text}: missing value"))
}

fn bad_index(index: i64) -> Error {
    Error::new(format!("Unable to access invalid index: {index}: invalid index referenced"))
}

fn decode(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// The map or list that a path's last step is in, and that step.
fn container<'a>(doc: &'a mut Node, path: &str) -> Option<(&'a mut Node, String)> {
    let mut parts: Vec<&str> = path.split('/').collect();
    if parts.len() < 2 {
        return None;
    }
    let last = decode(parts.pop()?);
    let mut at = doc;
    for part in parts.into_iter().skip(1) {
        let part = decode(part);
        let next = match &mut at.data {
            Data::Map(entries) => entries.iter_mut().find(|(k, _)| k.text() == part).map(|(_, v)| v)?,
            Data::Seq(items) => {
                let i = index(&part, items.len()).ok()?;
                items.get_mut(i)?
            }
            Data::Scalar(_) => return None,
        };
        if next.is_null() || matches!(next.data, Data::Scalar(_)) {
            return None;
        }
        at = next;
    }
    Some((at, last))
}

fn number(key: &str) -> Res<i64> {
    key.parse().map_err(|_| {
        Error::new(format!("strconv.Atoi: parsing {}: invalid syntax", super::quote::quote(key)))
    })
}

/// A position that exists; negative ones count from the end.
fn index(key: &str, len: usize) -> Res<usize> {
    let i = number(key)?;
    let at = if i < 0 { i + len as i64 } else { i };
    if at < 0 || at >= len as i64 { Err(bad_index(i)) } else { Ok(at as usize) }
}

fn get<'a>(con: &'a Node, key: &str) -> Res<&'a Node> {
    match &con.data {
        Data::Seq(items) => {
            let i = index(key, items.len())?;
            items.get(i).ok_or_else(|| bad_index(i as i64))
        }
        _ => con.get(key).ok_or_else(|| missing(&format!("unable to get nonexistent key: {key}"))),
    }
}

fn set(con: &mut Node, key: &str, value: Node) -> Res<()> {
    match &mut con.data {
        Data::Seq(items) => {
            let i = index(key, items.len())?;
            if let Some(slot) = items.get_mut(i) {
                *slot = value;
            }
        }
        _ => put(con, key, value),
    }
    Ok(())
}

fn put(con: &mut Node, key: &str, value: Node) {
    match con.get_mut(key) {
        Some(slot) => *slot = value,
        None => con.push_entry(Node::tagged(key, Tag::Str), value),
    }
}

fn insert(con: &mut Node, key: &str, value: Node) -> Res<()> {
    let Data::Seq(items) = &mut con.data else {
        put(con, key, value);
        return Ok(());
    };
    if key == "-" {
        items.push(value);
        return Ok(());
    }
    let i =
        number(key).map_err(|e| Error::new(format!("value was not a proper array index: '{key}': {e}")))?;
    let len = items.len() as i64 + 1;
    let at = if i < 0 { i + len } else { i };
    if at < 0 || at >= len {
        return Err(bad_index(i));
    }
    items.insert(at as usize, value);
    Ok(())
}

fn take(con: &mut Node, key: &str) -> Res<Node> {
    match &mut con.data {
        Data::Seq(items) => {
            let i = index(key, items.len())?;
            Ok(items.remove(i))
        }
        _ => con.remove(key).ok_or_else(|| missing(&format!("unable to remove nonexistent key: {key}"))),
    }
}

/// Equal as JSON: the order of keys does not count.
fn same(a: &Node, b: &Node) -> bool {
    match (&a.data, &b.data) {
        (Data::Map(x), Data::Map(_)) => {
            x.len() == b.entries().len() && x.iter().all(|(k, v)| b.get(k.text()).is_some_and(|w| same(v, w)))
        }
        (Data::Seq(x), Data::Seq(y)) => x.len() == y.len() && x.iter().zip(y).all(|(v, w)| same(v, w)),
        (Data::Scalar(x), Data::Scalar(y)) => {
            let text = |t: &Tag| matches!(t, Tag::Str);
            x == y && text(&a.tag) == text(&b.tag)
        }
        _ => false,
    }
}

impl Operation {
    fn value(&self, budget: &Budget) -> Res<Node> {
        match &self.value {
            Some(v) => {
                budget.copy_of(v)?;
                Ok(v.clone())
            }
            None => Ok(Node::null()),
        }
    }

    fn add(&self, doc: &mut Node, budget: &Budget) -> Res<()> {
        let value = self.value(budget)?;
        if self.path.is_empty() {
            *doc = value;
            return Ok(());
        }
        let Some((con, key)) = container(doc, &self.path) else {
            return Err(missing(&format!(
                "add operation does not apply: doc is missing path: \"{}\"",
                self.path
            )));
        };
        insert(con, &key, value).map_err(|e| e.within(format!("error in add for path: '{}'", self.path)))
    }

    fn remove(&self, doc: &mut Node) -> Res<()> {
        let Some((con, key)) = container(doc, &self.path) else {
            return Err(missing(&format!(
                "remove operation does not apply: doc is missing path: \"{}\"",
                self.path
            )));
        };
        take(con, &key)
            .map(|_| ())
            .map_err(|e| e.within(format!("error in remove for path: '{}'", self.path)))
    }

    fn replace(&self, doc: &mut Node, budget: &Budget) -> Res<()> {
        let value = self.value(budget)?;
        if self.path.is_empty() {
            *doc = value;
            return Ok(());
        }
        let Some((con, key)) = container(doc, &self.path) else {
            return Err(missing(&format!(
                "replace operation does not apply: doc is missing path: {}",
                self.path
            )));
        };
        if get(con, &key).is_err() {
            return Err(missing(&format!(
                "replace operation does not apply: doc is missing key: {}",
                self.path
            )));
        }
        set(con, &key, value).map_err(|e| e.within(format!("error in remove for path: '{}'", self.path)))
    }

    fn relocate(&self, doc: &mut Node, budget: &Budget, copy: bool) -> Res<()> {
        let verb = if copy { "copy" } else { "move" };
        if self.from.is_empty() && !copy {
            return Err(Error::new("unable to move entire document to another path: invalid state detected"));
        }
        let value = {
            let Some((con, key)) = container(doc, &self.from) else {
                return Err(missing(&format!(
                    "{verb} operation does not apply: doc is missing from path: {}",
                    self.from
                )));
            };
            let place = if copy {
                format!("error in copy for from: '{}'", self.from)
            } else {
                format!("error in move for path: '{key}'")
            };
            if copy {
                let found = get(con, &key).map_err(|e| e.within(&place))?;
                budget.copy_of(found)?;
                found.clone()
            } else {
                get(con, &key).map_err(|e| e.within(&place))?;
                take(con, &key).map_err(|e| e.within(&place))?
            }
        };
        let depth = value.depth() + self.path.matches('/').count();
        if depth > budget.depth() {
            return Err(Error::limit("depth", budget.depth() as u64));
        }
        let Some((con, key)) = container(doc, &self.path) else {
            return Err(missing(&format!(
                "{verb} operation does not apply: doc is missing destination path: {}",
                self.path
            )));
        };
        insert(con, &key, value).map_err(|e| e.within(format!("error in {verb} for path: '{}'", self.path)))
    }

    fn test(&self, doc: &mut Node) -> Res<()> {
        let failed = || Error::new(format!("testing value {} failed: test failed", self.path));
        let null = Node::null();
        let wanted = self.value.as_ref().unwrap_or(&null);
        if self.path.is_empty() {
            return if same(doc, wanted) { Ok(()) } else { Err(failed()) };
        }
        let Some((con, key)) = container(doc, &self.path) else {
            return Err(missing(&format!("test operation does not apply: is missing path: {}", self.path)));
        };
        let found = match (&con.data, get(con, &key)) {
            (_, Ok(n)) => n,
            (Data::Map(_), Err(_)) => &null,
            (_, Err(e)) => return Err(e.within(format!("error in test for path: '{}'", self.path))),
        };
        if same(found, wanted) { Ok(()) } else { Err(failed()) }
    }
}
