//! Strategic merge: a patch is laid over an object, lists by the keys that the schema names.
//!
//! The functions change nodes in place and say whose node the result is, because the program's results depend on which
//! of two nodes it keeps.

use super::error::{Error, Res};
use super::fields::{set_field, wrong_shape};
use super::limits::Budget;
use super::schema::{Schema, Shape as Known};
use super::yaml::node::{Data, Node, Shape, Style, Tag};

mod lists;

/// Whose node a merge gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Nothing,
    Dest,
    Patch,
}

enum Directive {
    Merge,
    Replace,
    Delete,
}

/// Lays `patch` over `dest`. `false` if nothing remains.
///
/// # Errors
/// Shapes that do not fit, unknown directives, or a limit.
pub(crate) fn merge(dest: &mut Node, mut patch: Node, schema: &Schema, budget: &Budget) -> Res<bool> {
    let m = Merger { schema, budget };
    let secret = super::id::field_text(dest, "kind") == "Secret";
    let kept = m.walk(dest, &mut patch, None);
    match kept.map_err(|e| if secret { e.without_contents() } else { e })? {
        Kept::Nothing => Ok(false),
        // A patch that replaces the whole object changes nothing: the program drops the result.
        Kept::Dest | Kept::Patch => Ok(true),
    }
}

struct Merger<'a> {
    schema: &'a Schema,
    budget: &'a Budget,
}

fn fits(expected: Shape, node: &Node) -> Res<()> {
    if node.is_null() || node.shape() == expected { Ok(()) } else { Err(wrong_shape(expected, node)) }
}

impl Merger<'_> {
    /// What is known of a node: what its parent said, else what the object's own kind says.
    fn known(&self, given: Option<Known>, nodes: [Option<&Node>; 2]) -> Option<Known> {
        given.or_else(|| {
            nodes.into_iter().flatten().filter(|n| matches!(n.data, Data::Map(_))).find_map(|n| {
                let kind = n.get("kind").filter(|k| !k.is_nothing())?.text();
                let api = n.get("apiVersion").filter(|k| !k.is_nothing())?.text();
                if kind.is_empty() || api.is_empty() { None } else { self.schema.of_kind(api, kind) }
            })
        })
    }

    /// Both nodes are there (either may be null).
    fn walk(&self, dest: &mut Node, patch: &mut Node, known: Option<Known>) -> Res<Kept> {
        self.budget.spend(1)?;
        if dest.is_null() {
            return Ok(match self.adopt(patch, known, true)? {
                Kept::Nothing => Kept::Nothing,
                _ => Kept::Patch,
            });
        }
        let known = self.known(known, [Some(dest), Some(patch)]);
        let shape = dest.shape();
        fits(shape, patch)?;
        match shape {
            Shape::Scalar => Ok(Kept::Patch),
            Shape::Map => self.walk_map(dest, patch, known.as_ref()),
            Shape::Seq => match known {
                Some(Known::List(list)) if list.merges => self.walk_list(dest, patch, &list),
                _ => Ok(Kept::Patch),
            },
        }
    }

    fn walk_map(&self, dest: &mut Node, patch: &mut Node, known: Option<&Known>) -> Res<Kept> {
        if patch.is_null() {
            return Ok(Kept::Nothing);
        }
        take_over_style(dest, patch);
        match directive(patch)? {
            Directive::Delete => return Ok(Kept::Nothing),
            Directive::Replace => {
                self.adopt_fields(patch, known)?;
                return Ok(Kept::Patch);
            }
            Directive::Merge => {}
        }
        // Fields that only the object has.
        let mut gone = Vec::new();
        let Data::Map(entries) = &mut dest.data else { return Ok(Kept::Dest) };
        for (i, (key, value)) in entries.iter_mut().enumerate() {
            if patch.get(key.text()).is_none() && !self.settle(value, self.field(known, key.text()))? {
                gone.push(i);
            }
        }
        for i in gone.into_iter().rev() {
            entries.remove(i);
        }
        // Fields that the patch has.
        let Data::Map(fields) = &mut patch.data else { return Ok(Kept::Dest) };
        for (key, mut value) in std::mem::take(fields) {
            let known = self.field(known, key.text());
            match dest.get_mut(key.text()) {
                Some(field) => match self.walk(field, &mut value, known)? {
                    Kept::Nothing => {
                        dest.remove(key.text());
                    }
                    Kept::Dest => {}
                    Kept::Patch if value.is_null() => {
                        dest.remove(key.text());
                    }
                    Kept::Patch => {
                        value.style = field.style;
                        field.become_node(value);
                    }
                },
                None => {
                    if self.adopt(&mut value, known, true)? != Kept::Nothing && !value.is_null() {
                        dest.push_entry(key, value);
                    }
                }
            }
        }
        Ok(Kept::Dest)
    }

    fn field(&self, known: Option<&Known>, name: &str) -> Option<Known> {
        known.and_then(|k| self.schema.field(k, name))
    }

    /// A node that the patch does not mention. `false` if it goes: a field without a value does not survive a patch.
    fn settle(&self, node: &mut Node, known: Option<Known>) -> Res<bool> {
        if node.is_null() {
            return Ok(!node.text().is_empty());
        }
        match &mut node.data {
            Data::Scalar(_) => Ok(true),
            Data::Map(_) => {
                self.budget.spend(1)?;
                let known = self.known(known, [Some(node), None]);
                let Data::Map(entries) = &mut node.data else { return Ok(true) };
                let mut gone = Vec::new();
                for (i, (key, value)) in entries.iter_mut().enumerate() {
                    if matches!(value.data, Data::Scalar(_)) && !value.is_null() {
                        continue;
                    }
                    if !self.settle(value, self.field(known.as_ref(), key.text()))? {
                        gone.push(i);
                    }
                }
                for i in gone.into_iter().rev() {
                    entries.remove(i);
                }
                Ok(true)
            }
            Data::Seq(_) => {
                if let Some(Known::List(list)) = known
                    && list.merges
                {
                    self.settle_list(node, &list)?;
                }
                Ok(true)
            }
        }
    }

    /// A node that only the patch has: directives inside it are obeyed and nulls dropped. `top` if it takes an empty
    /// place, where the program looks at fewer things.
    fn adopt(&self, node: &mut Node, known: Option<Known>, top: bool) -> Res<Kept> {
        self.budget.spend(1)?;
        if node.is_null() {
            return Ok(Kept::Nothing);
        }
        let known = self.known(known, [Some(node), None]);
        match &node.data {
            Data::Scalar(_) => Ok(Kept::Dest),
            Data::Map(_) => {
                match directive(node) {
                    Ok(Directive::Delete) => return Ok(Kept::Nothing),
                    Err(e) if !top => return Err(e),
                    _ => {}
                }
                self.adopt_fields(node, known.as_ref())?;
                Ok(Kept::Dest)
            }
            Data::Seq(_) => match known {
                Some(Known::List(list)) if list.merges => self.adopt_list(node, &list, top),
                _ => Ok(Kept::Dest),
            },
        }
    }

    fn adopt_fields(&self, node: &mut Node, known: Option<&Known>) -> Res<()> {
        let Data::Map(entries) = &mut node.data else { return Ok(()) };
        let mut gone = Vec::new();
        for (i, (key, value)) in entries.iter_mut().enumerate() {
            if self.adopt(value, self.field(known, key.text()), false)? == Kept::Nothing {
                gone.push(i);
            }
        }
        for i in gone.into_iter().rev() {
            entries.remove(i);
        }
        Ok(())
    }
}

/// An empty map or list takes the other's layout; only the flow bit would show, and it is not kept.
fn take_over_style(dest: &mut Node, patch: &Node) {
    if dest.is_nothing() {
        dest.style = patch.style;
    }
}

const DIRECTIVE: &str = "$patch";

/// What a patch says is to be done with the node it is laid over; the saying is taken out.
fn directive(patch: &mut Node) -> Res<Directive> {
    let word = match &patch.data {
        Data::Map(_) => patch.get(DIRECTIVE).map(|d| d.text().to_owned()),
        Data::Seq(items) => {
            let item = items.iter().find(|i| i.get(DIRECTIVE).is_some());
            item.filter(|i| i.entries().len() == 1)
                .and_then(|i| i.get(DIRECTIVE))
                .map(|d| d.text().to_owned())
        }
        Data::Scalar(t) => {
            return Err(Error::new(format!(
                "no implemented strategic merge patch strategy for '{}' ('{t}\n')",
                patch.tag.short()
            )));
        }
    };
    let Some(word) = word else { return Ok(Directive::Merge) };
    let found = match word.as_str() {
        "merge" => Directive::Merge,
        "replace" => Directive::Replace,
        "delete" => Directive::Delete,
        _ => return Err(Error::new(format!("unknown patch strategy '{word}'"))),
    };
    match &mut patch.data {
        Data::Seq(items) => {
            items.retain(|i| {
                let empty = i.is_null() || matches!(&i.data, Data::Map(m) if m.is_empty());
                !empty && i.get(DIRECTIVE).is_none_or(|d| d.text() != word)
            });
        }
        _ => {
            patch.remove(DIRECTIVE);
        }
    }
    Ok(found)
}

/// Gives an item the key that it was found by.
fn set_key(item: &mut Node, key: &str, value: &str) -> Res<()> {
    if key.is_empty() {
        if let Data::Scalar(_) = item.data {
            item.tag = Tag::None;
            if item.style == Style::TAGGED {
                item.style = Style::PLAIN;
            }
        }
        return Ok(());
    }
    set_field(item, key, Node::bare(value))
}
