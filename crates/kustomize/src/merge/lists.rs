//! Lists whose items have keys.

use super::super::error::{Error, Res};
use super::super::fields::wrong_shape;
use super::super::schema::{List, Shape as Known};
use super::super::yaml::node::{Data, Node, Shape};
use super::{Directive, Kept, Merger, directive, set_key, take_over_style};

/// Items of both lists by number, so that one item can stand in several lists.
struct Pool {
    items: Vec<Node>,
    dest: Vec<usize>,
    /// `None`: the two lists are one and the same.
    patch: Option<Vec<usize>>,
}

impl Merger<'_> {
    pub(super) fn walk_list(&self, dest: &mut Node, patch: &mut Node, list: &List) -> Res<Kept> {
        if patch.is_null() {
            return Ok(Kept::Nothing);
        }
        take_over_style(dest, patch);
        match directive(patch)? {
            Directive::Delete => return Ok(Kept::Nothing),
            Directive::Replace => {
                self.join(patch, None, list)?;
                return Ok(Kept::Patch);
            }
            Directive::Merge => {}
        }
        let Data::Seq(items) = &mut patch.data else { return Ok(Kept::Dest) };
        let items = std::mem::take(items);
        self.join(dest, Some(items), list)?;
        Ok(Kept::Dest)
    }

    pub(super) fn settle_list(&self, node: &mut Node, list: &List) -> Res<()> {
        self.join(node, Some(Vec::new()), list)
    }

    pub(super) fn adopt_list(&self, node: &mut Node, list: &List, top: bool) -> Res<Kept> {
        if !top && let Directive::Delete = directive(node)? {
            return Ok(Kept::Nothing);
        }
        self.join(node, None, list)?;
        Ok(Kept::Dest)
    }

    /// Joins the items of `patch` into the list; the patch's come first.
    fn join(&self, node: &mut Node, patch: Option<Vec<Node>>, list: &List) -> Res<()> {
        let Data::Seq(own) = &mut node.data else { return Ok(()) };
        self.budget.spend(own.len() as u64)?;
        let mut items = std::mem::take(own);
        let n = items.len();
        let patch = patch.map(|p| {
            items.extend(p);
            (n..items.len()).collect()
        });
        let mut pool = Pool { items, dest: (0..n).collect(), patch };
        let item_type = list.items();
        let order = if list.keys.is_empty() {
            let values = pool.texts();
            self.join_by(&mut pool, values, &[String::new()], item_type.as_ref())?
        } else {
            let values = pool.values(&list.keys);
            self.join_by(&mut pool, values, &list.keys, item_type.as_ref())?
        };
        let mut taken: Vec<Option<Node>> = pool.items.into_iter().map(Some).collect();
        let mut out: Vec<Node> = Vec::with_capacity(order.len());
        let mut places = vec![None; taken.len()];
        for i in order {
            match taken.get_mut(i).and_then(Option::take) {
                Some(item) => {
                    if let Some(p) = places.get_mut(i) {
                        *p = Some(out.len());
                    }
                    out.push(item);
                }
                None => {
                    if let Some(copy) = places.get(i).copied().flatten().and_then(|p| out.get(p).cloned()) {
                        out.push(copy);
                    }
                }
            }
        }
        node.data = Data::Seq(out);
        Ok(())
    }

    fn join_by(
        &self,
        pool: &mut Pool,
        mut values: Vec<Vec<String>>,
        keys: &[String],
        item_type: Option<&Known>,
    ) -> Res<Vec<usize>> {
        if keys.len() > 1 {
            unite(&mut values);
        }
        self.budget.spend((values.len() as u64).saturating_mul(values.len() as u64) / 16)?;
        // With one key nothing but the value's presence decides which keys count.
        let used: Vec<bool> = (0..keys.len()).map(|k| values.iter().any(|v| !at(v, k).is_empty())).collect();
        let mut added: Vec<usize> = Vec::new();
        let mut last_keys: Vec<String> = Vec::new();
        for value in &values {
            if value.is_empty() {
                continue;
            }
            let (valid_keys, valid_values) = valid(&used, value, keys);
            let (d, p) = pool.find(&valid_keys, &valid_values)?;
            let kept = self.join_item(pool, d, p, item_type)?;
            let index = match kept {
                Kept::Nothing => None,
                Kept::Dest => d.or(p),
                Kept::Patch => p,
            };
            let index = index.filter(|i| {
                pool.items
                    .get(*i)
                    .is_some_and(|n| !n.is_null() && !matches!(&n.data, Data::Map(m) if m.is_empty()))
            });
            match index {
                None => {
                    for _ in &valid_keys {
                        element_set(&mut pool.dest, &pool.items, None, &valid_keys, &valid_values)?;
                    }
                }
                Some(i) => {
                    for (k, v) in valid_keys.iter().zip(&valid_values) {
                        if let Some(item) = pool.items.get_mut(i)
                            && item.get(k).is_none()
                            && !v.is_empty()
                        {
                            set_key(item, k, v)?;
                        }
                    }
                    element_set(&mut added, &pool.items, Some(i), &valid_keys, &valid_values)?;
                }
            }
            last_keys = valid_keys;
        }
        if values.is_empty() {
            return Ok(std::mem::take(&mut pool.dest));
        }
        append(&mut added, &pool.dest, &pool.items, &last_keys)?;
        Ok(added)
    }

    fn join_item(
        &self,
        pool: &mut Pool,
        d: Option<usize>,
        p: Option<usize>,
        known: Option<&Known>,
    ) -> Res<Kept> {
        let known = known.cloned();
        let take = |pool: &mut Pool, i: usize| {
            pool.items.get_mut(i).map_or_else(Node::null, |n| std::mem::replace(n, Node::null()))
        };
        let put = |pool: &mut Pool, i: usize, node: Node| {
            if let Some(slot) = pool.items.get_mut(i) {
                *slot = node;
            }
        };
        match (d, p) {
            (None, None) => Ok(Kept::Nothing),
            (Some(i), Some(j)) if i == j => {
                let mut item = take(pool, i);
                let kept = self.adopt(&mut item, known, false)?;
                put(pool, i, item);
                Ok(kept)
            }
            (Some(i), Some(j)) => {
                let (mut dest, mut patch) = (take(pool, i), take(pool, j));
                let kept = self.walk(&mut dest, &mut patch, known)?;
                put(pool, i, dest);
                put(pool, j, patch);
                Ok(kept)
            }
            (Some(i), None) => {
                let mut item = take(pool, i);
                let stays = self.settle(&mut item, known)?;
                put(pool, i, item);
                Ok(if stays { Kept::Dest } else { Kept::Nothing })
            }
            (None, Some(j)) => {
                let mut item = take(pool, j);
                let kept = self.adopt(&mut item, known, true)?;
                put(pool, j, item);
                Ok(if kept == Kept::Nothing { Kept::Nothing } else { Kept::Patch })
            }
        }
    }
}

fn at(values: &[String], i: usize) -> &str {
    values.get(i).map_or("", String::as_str)
}

impl Pool {
    /// The patch's list, then the object's.
    fn both(&self) -> impl Iterator<Item = &Node> {
        let patch = self.patch.as_ref().unwrap_or(&self.dest);
        patch.iter().chain(&self.dest).filter_map(|i| self.items.get(*i))
    }

    fn values(&self, keys: &[String]) -> Vec<Vec<String>> {
        let mut out: Vec<Vec<String>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for item in self.both() {
            let text = |k: &String| match item.get(k) {
                Some(v) if !v.is_nothing() => v.text().to_owned(),
                _ => String::new(),
            };
            let values: Vec<String> = keys.iter().map(text).collect();
            if seen.insert(values.clone()) {
                out.push(values);
            }
        }
        out
    }

    fn texts(&self) -> Vec<Vec<String>> {
        let mut out: Vec<Vec<String>> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for item in self.both() {
            if seen.insert(item.text().to_owned()) {
                out.push(vec![item.text().to_owned()]);
            }
        }
        out
    }

    /// The item with these keys in either list.
    fn find(&self, keys: &[String], values: &[String]) -> Res<(Option<usize>, Option<usize>)> {
        let used: Vec<bool> = (0..keys.len()).map(|i| !at(values, i).is_empty()).collect();
        let (keys, values) = valid(&used, values, keys);
        let dest = self.find_in(&self.dest, &keys, &values)?;
        let patch = match &self.patch {
            Some(list) => self.find_in(list, &keys, &values)?,
            None => dest,
        };
        Ok((dest, patch))
    }

    fn find_in(&self, list: &[usize], keys: &[String], values: &[String]) -> Res<Option<usize>> {
        if at(keys, 0).is_empty() {
            return Ok(list
                .iter()
                .copied()
                .find(|i| self.items.get(*i).is_some_and(|n| n.text() == at(values, 0))));
        }
        if keys.len() != values.len() {
            return Err(Error::new("length of keys must equal length of values when MatchAnyValue is false"));
        }
        let fits = |n: &Node| keys.iter().zip(values).all(|(k, v)| n.get(k).is_some_and(|f| f.text() == v));
        Ok(list.iter().copied().find(|i| self.items.get(*i).is_some_and(fits)))
    }
}

/// The keys that any item has, and this item's values for them.
fn valid(used: &[bool], values: &[String], keys: &[String]) -> (Vec<String>, Vec<String>) {
    if !used.iter().any(|u| *u) {
        return (keys.to_vec(), values.to_vec());
    }
    let is_used = |i: usize| used.get(i).copied().unwrap_or(false);
    let keys = keys.iter().enumerate().filter(|(i, _)| is_used(*i)).map(|(_, k)| k.clone()).collect();
    let values =
        values.iter().enumerate().filter(|(i, v)| !v.is_empty() || is_used(*i)).map(|(_, v)| v.clone());
    (keys, values.collect())
}

/// Items that agree where both have a value are one: `{port: 80}` and `{port: 80, protocol: TCP}`.
fn unite(list: &mut [Vec<String>]) {
    for i in 0..list.len() {
        for j in 0..list.len() {
            let (Some(a), Some(b)) = (list.get(i), list.get(j)) else { continue };
            if let Some(both) = agree(a, b) {
                if let Some(slot) = list.get_mut(i) {
                    slot.clone_from(&both);
                }
                if let Some(slot) = list.get_mut(j) {
                    *slot = both;
                }
            }
        }
    }
}

fn agree(a: &[String], b: &[String]) -> Option<Vec<String>> {
    if a.len() != b.len() {
        return None;
    }
    let mut common = false;
    let mut out = Vec::with_capacity(a.len());
    for (x, y) in a.iter().zip(b) {
        if x == y {
            common = true;
        } else if !x.is_empty() && !y.is_empty() {
            return None;
        }
        out.push(if x.is_empty() { y.clone() } else { x.clone() });
    }
    common.then_some(out)
}

/// Does a field with this name (and, unless empty, this value) exist? With no name: is this the scalar?
fn has(node: &Node, key: &str, value: &str) -> Res<bool> {
    if node.is_null() {
        return Ok(false);
    }
    if key.is_empty() {
        if node.shape() != Shape::Scalar {
            return Err(wrong_shape(Shape::Scalar, node));
        }
        return Ok(node.value() == value);
    }
    if node.shape() != Shape::Map {
        return Err(wrong_shape(Shape::Map, node));
    }
    Ok(node.get(key).is_some_and(|f| value.is_empty() || f.text() == value))
}

/// Puts `element` in the place of what has these keys, or at the end; without an element, takes it out.
fn element_set(
    list: &mut Vec<usize>,
    items: &[Node],
    element: Option<usize>,
    keys: &[String],
    values: &[String],
) -> Res<()> {
    let by_field = !at(keys, 0).is_empty() && !at(values, 0).is_empty();
    let mut out = Vec::with_capacity(list.len() + 1);
    let mut matched = false;
    for i in list.iter().copied() {
        let Some(item) = items.get(i) else { continue };
        if item.is_null() || matches!(&item.data, Data::Map(m) if m.is_empty()) {
            continue;
        }
        if item.shape() != Shape::Map && by_field {
            out.push(i);
            continue;
        }
        let (mut found, mut hit) = (true, false);
        for (j, key) in keys.iter().enumerate() {
            if let Some(v) = values.get(j) {
                hit = has(item, key, v)?;
            }
            if !hit {
                found = false;
                break;
            }
        }
        if !found {
            if !values.is_empty() {
                out.push(i);
            }
            continue;
        }
        matched = true;
        out.extend(element);
    }
    *list = out;
    if let Some(e) = element
        && !matched
        && items.get(e).is_some_and(|n| !n.is_null())
    {
        list.push(e);
    }
    Ok(())
}

/// Adds the object's items behind the patch's.
fn append(added: &mut Vec<usize>, dest: &[usize], items: &[Node], keys: &[String]) -> Res<()> {
    for i in dest.iter().copied() {
        let Some(item) = items.get(i) else { continue };
        if at(keys, 0).is_empty() {
            element_set(added, items, Some(i), &[String::new()], &[item.text().to_owned()])?;
            continue;
        }
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            if !item.is_null() && item.shape() != Shape::Map {
                return Err(wrong_shape(Shape::Map, item));
            }
            match item.get(key) {
                Some(v) => values.push(v.text().to_owned()),
                None => added.push(i),
            }
        }
        if keys.len() > 1 {
            element_set(added, items, None, keys, &values)?;
        }
        element_set(added, items, Some(i), keys, &values)?;
    }
    Ok(())
}
