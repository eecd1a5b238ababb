//! The objects of a build in order, no two with one identity.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use super::error::{Error, Res};
use super::id::ResId;
use super::resource::{Behavior, Resource, meta_map, set_meta_map};
use super::schema::Schema;
use super::selector::Matcher;
use super::yaml::node::{Node, Shape};

/// Objects in order.
#[derive(Default, Clone)]
pub(crate) struct ResMap {
    pub(crate) list: Vec<Resource>,
}

fn key(id: &ResId) -> (String, String, String, String, String) {
    (
        id.effective_namespace().to_owned(),
        id.gvk.group.clone(),
        id.gvk.version.clone(),
        id.gvk.kind.clone(),
        id.name.clone(),
    )
}

fn registered(id: &ResId) -> Error {
    Error::new(format!("may not add resource with an already registered id: {id}"))
}

impl ResMap {
    /// # Errors
    /// An identity is there already.
    pub(crate) fn append_all(&mut self, more: Vec<Resource>, schema: &Schema) -> Res<()> {
        if more.is_empty() {
            return Ok(());
        }
        let mut seen: HashSet<_> = self.list.iter().map(|r| key(r.id(schema))).collect();
        for r in more {
            if !seen.insert(key(r.id(schema))) {
                return Err(registered(r.id(schema)));
            }
            self.list.push(r);
        }
        Ok(())
    }

    /// Takes generated objects: a new one is added, one of a known name merges or replaces.
    ///
    /// # Errors
    /// The behaviour does not fit what is there.
    pub(crate) fn absorb(&mut self, mut new: Resource, schema: &Schema) -> Res<()> {
        let id = Rc::clone(new.id(schema));
        let matches: Vec<usize> = self.matching_any(schema, |i| id.same(i));
        let behavior = new.memory.behavior.unwrap_or(Behavior::Unspecified);
        match matches.as_slice() {
            [] => match behavior {
                Behavior::Merge | Behavior::Replace => {
                    Err(Error::new(format!("id {} does not exist; cannot merge or replace", id.go_syntax())))
                }
                _ => self.append_all(vec![new], schema),
            },
            [index] => {
                let Some(old) = self.list.get(*index) else { return Err(Error::new("indexing problem")) };
                match behavior {
                    Behavior::Replace => copy_metadata(&mut new, old)?,
                    Behavior::Merge => {
                        copy_metadata(&mut new, old)?;
                        merge_data(&mut new, old, "data")?;
                        merge_data(&mut new, old, "binaryData")?;
                        super::origin::keep(&mut new, old)?;
                    }
                    _ => {
                        return Err(Error::new(format!(
                            "id {} exists; can not use behavior: '{}', behavior must be merge or replace",
                            id.go_syntax(),
                            behavior.name()
                        )));
                    }
                }
                let now = Rc::clone(new.id(schema));
                let same: Vec<usize> = (0..self.list.len())
                    .filter(|i| self.list.get(*i).is_some_and(|r| now.same(r.id(schema))))
                    .collect();
                match same.as_slice() {
                    [i] if i == index => {}
                    [_] => return Err(Error::new("unexpected target index in replacement")),
                    [] => {
                        return Err(Error::new(format!("cannot find resource with id {now} to replace")));
                    }
                    _ => return Err(Error::new(format!("in Replace: id matched {} resources", same.len()))),
                }
                if let Some(slot) = self.list.get_mut(*index) {
                    *slot = new;
                }
                Ok(())
            }
            _ => Err(Error::new(format!("found multiple objects that could accept merge of {id}"))),
        }
    }

    /// Positions of the objects of which any identity satisfies.
    pub(crate) fn matching_any(&self, schema: &Schema, mut test: impl FnMut(&ResId) -> bool) -> Vec<usize> {
        let fits = |r: &Resource| !r.node().is_nothing() && r.any_id(schema, &mut test);
        self.list.iter().map(fits).enumerate().filter(|(_, f)| *f).map(|(i, _)| i).collect()
    }

    /// The one object that a patch is for.
    ///
    /// # Errors
    /// None or several.
    pub(crate) fn by_id(&self, id: &ResId, schema: &Schema) -> Res<usize> {
        let found = self.matching_any(schema, |i| id.same(i));
        let problem = match found.as_slice() {
            [one] => return Ok(*one),
            [] => format!("no matches for Id {id}"),
            _ => format!("multiple matches for Id {id}"),
        };
        Err(Error::new(format!("{problem}; failed to find unique target for patch {id}")))
    }

    pub(crate) fn select(&self, matcher: &Matcher, schema: &Schema) -> Vec<usize> {
        let fits = |r: &Resource| {
            let id = r.id(schema);
            if !matcher.gvk(&id.gvk) {
                return false;
            }
            let original = r.original_id(schema);
            (matcher.namespace(original.effective_namespace()) || matcher.namespace(id.effective_namespace()))
                && (matcher.name(&original.name) || matcher.name(&id.name))
                && matcher.metadata(r.node())
        };
        self.list.iter().enumerate().filter(|(_, r)| fits(r)).map(|(i, _)| i).collect()
    }

    pub(crate) fn drop_empties(&mut self) {
        self.list.retain(|r| !r.node().is_nothing());
    }

    /// # Errors
    /// Two objects have become one identity.
    pub(crate) fn check_unique(&self, schema: &Schema) -> Res<()> {
        let mut seen = HashSet::new();
        for r in &self.list {
            if !seen.insert(key(r.id(schema))) {
                return Err(registered(r.id(schema)));
            }
        }
        Ok(())
    }
}

fn union<'a>(
    weak: &BTreeMap<&'a str, &'a str>,
    strong: &BTreeMap<&'a str, &'a str>,
) -> BTreeMap<&'a str, &'a str> {
    weak.iter().chain(strong).map(|(k, v)| (*k, *v)).collect()
}

/// Labels, annotations, name and namespace of `old` as far as `new` does not state them.
pub(crate) fn copy_metadata(new: &mut Resource, old: &Resource) -> Res<()> {
    for field in ["labels", "annotations"] {
        let copy = new.node().clone();
        let merged = union(&meta_map(old.node(), field), &meta_map(&copy, field));
        set_meta_map(new.node_mut(), field, &merged)?;
    }
    // The notes are the old object's; the hash survives only if both want it.
    let needs_hash = new.memory.needs_hash && old.memory.needs_hash;
    new.memory = super::resource::Memory { needs_hash, ..old.memory.clone() };
    let (name, namespace) = {
        let node = old.node();
        (super::id::meta_text(node, "name").to_owned(), super::id::meta_text(node, "namespace").to_owned())
    };
    new.set_name(&name)?;
    new.set_namespace(&namespace)?;
    new.ref_vars.clone_from(&old.ref_vars);
    Ok(())
}

fn merge_data(new: &mut Resource, old: &Resource, field: &str) -> Res<()> {
    let pairs = |n: &Node| -> BTreeMap<String, String> {
        let map = n.get(field).map(Node::entries).unwrap_or_default();
        map.iter().map(|(k, v)| (k.value().to_owned(), v.value().to_owned())).collect()
    };
    let mut merged = pairs(old.node());
    merged.extend(pairs(new.node()));
    let node = new.node_mut();
    node.remove(field);
    if merged.is_empty() {
        return Ok(());
    }
    let mut map = Node::empty(Shape::Map);
    for (k, v) in &merged {
        super::fields::set_field(&mut map, k, Node::string(v))?;
    }
    node.push_field(field, map);
    Ok(())
}
