//! Paths of fields: splitting, looking up, and finding what a replacement fills.

use regex::Regex;

use super::error::{Error, Res, Within};
use super::fields::{set_field, wrong_shape};
use super::yaml::node::{Data, Node, Shape};
use super::yaml::text::printed;

/// Splits at the delimiter; a backslash before it keeps it.
pub(crate) fn split(path: &str, delimiter: char) -> Vec<String> {
    let mut parts: Vec<&str> = path.split(delimiter).collect();
    if parts.len() > 1 && parts.first() == Some(&"") {
        parts.remove(0);
    }
    let mut out: Vec<String> = Vec::new();
    for part in parts {
        match out.last_mut() {
            Some(last) if last.ends_with('\\') => {
                last.pop();
                last.push(delimiter);
                last.push_str(part);
            }
            _ => out.push(part.to_owned()),
        }
    }
    out
}

/// Splits at dots, but not within `[name=a.b]` or `[a.b]`.
pub(crate) fn smart_split(path: &str) -> Vec<String> {
    let parts = split(path, '.');
    let mut out = Vec::new();
    let mut i = 0;
    while let Some(part) = parts.get(i) {
        i += 1;
        if !part.starts_with('[') || part.ends_with(']') {
            out.push(part.clone());
            continue;
        }
        let mut held = part.clone();
        while let Some(more) = parts.get(i) {
            i += 1;
            held.push('.');
            held.push_str(more);
            if more.ends_with(']') {
                break;
            }
        }
        out.push(if held.contains('=') { held } else { held.trim_matches(['[', ']']).to_owned() });
    }
    out
}

pub(crate) fn is_index(part: &str) -> bool {
    let digits = part.strip_prefix('+').unwrap_or(part);
    !digits.is_empty() && digits.len() < 10 && digits.bytes().all(|b| b.is_ascii_digit())
}

fn is_selector(part: &str) -> bool {
    part.starts_with('[') && part.ends_with(']')
}

fn selector(part: &str) -> Res<(&str, &str)> {
    let inner = part.strip_suffix(']').unwrap_or(part);
    inner
        .strip_prefix('[')
        .unwrap_or(inner)
        .split_once('=')
        .ok_or_else(|| Error::new("list path element must contain fieldName=fieldValue for element to match"))
}

/// The node at a path, or none. Selectors match exactly.
///
/// # Errors
/// A step into a node of the wrong shape, or a wildcard.
pub(crate) fn lookup<'a>(node: &'a Node, path: &[String]) -> Res<Option<&'a Node>> {
    let mut at = node;
    for part in path.iter().map(|p| p.trim()).filter(|p| !p.is_empty()) {
        if at.is_null() {
            return Ok(None);
        }
        let next = if is_index(part) || part == "-" {
            let Data::Seq(items) = &at.data else { return Err(wrong_shape(Shape::Seq, at)) };
            match part.parse::<usize>() {
                Ok(i) => items.get(i),
                Err(_) => items.last(),
            }
        } else if part == "*" {
            return Err(Error::new("wildcard is not supported in PathGetter"));
        } else if is_selector(part) {
            let (name, value) = selector(part)?;
            let Data::Seq(items) = &at.data else { return Err(wrong_shape(Shape::Seq, at)) };
            items.iter().find(|item| match name {
                "" => item.text() == value,
                _ => item.get(name).is_some_and(|v| v.text() == value),
            })
        } else {
            let Data::Map(_) = &at.data else { return Err(wrong_shape(Shape::Map, at)) };
            at.get(part)
        };
        match next {
            Some(n) => at = n,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// As [`lookup`], to change what is found.
pub(crate) fn lookup_mut<'a>(node: &'a mut Node, path: &[String]) -> Res<Option<&'a mut Node>> {
    if lookup(node, path)?.is_none() {
        return Ok(None);
    }
    let mut at = node;
    for part in path.iter().map(|p| p.trim()).filter(|p| !p.is_empty()) {
        let next = if is_index(part) || part == "-" {
            let items = at.items_mut();
            match part.parse::<usize>() {
                Ok(i) => items.get_mut(i),
                Err(_) => items.last_mut(),
            }
        } else if is_selector(part) {
            let (name, value) = selector(part)?;
            at.items_mut().iter_mut().find(|item| match name {
                "" => item.text() == value,
                _ => item.get(name).is_some_and(|v| v.text() == value),
            })
        } else {
            at.get_mut(part)
        };
        match next {
            Some(n) => at = n,
            None => return Ok(None),
        }
    }
    Ok(Some(at))
}

/// The node at a path, made on the way; the last step becomes `shape`.
///
/// # Errors
/// A step into a node of the wrong shape.
pub(crate) fn lookup_create<'a>(
    node: &'a mut Node,
    path: &[String],
    shape: Shape,
) -> Res<Option<&'a mut Node>> {
    let parts: Vec<&str> = path.iter().map(|p| p.trim()).filter(|p| !p.is_empty()).collect();
    let mut at = node;
    for (i, part) in parts.iter().enumerate() {
        if at.is_null() {
            return Ok(None);
        }
        let made = part_shape(parts.get(i + 1).copied().unwrap_or_default(), shape);
        at = if is_index(part) || *part == "-" {
            if at.shape() != Shape::Seq {
                return Err(wrong_shape(Shape::Seq, at));
            }
            let items = at.items_mut();
            let found = match part.parse::<usize>() {
                Ok(i) => items.get_mut(i),
                Err(_) => items.last_mut(),
            };
            match found {
                Some(n) => n,
                None => return Ok(None),
            }
        } else if *part == "*" {
            return Err(Error::new("wildcard is not supported in PathGetter"));
        } else if is_selector(part) {
            let (name, value) = selector(part)?;
            if at.shape() != Shape::Seq {
                return Err(wrong_shape(Shape::Seq, at));
            }
            let Data::Seq(items) = &mut at.data else { return Ok(None) };
            let found = items.iter().position(|item| match name {
                "" => item.text() == value,
                _ => item.get(name).is_some_and(|v| v.text() == value),
            });
            let i = found.unwrap_or_else(|| {
                items.push(new_item(name, value));
                items.len() - 1
            });
            match items.get_mut(i) {
                Some(n) => n,
                None => return Ok(None),
            }
        } else {
            let Data::Map(_) = &at.data else { return Err(wrong_shape(Shape::Map, at)) };
            if at.get(part).is_none() {
                set_field(at, part, Node::empty(made))?;
            }
            match at.get_mut(part) {
                Some(n) => n,
                None => return Ok(None),
            }
        };
    }
    Ok(Some(at))
}

fn new_item(name: &str, value: &str) -> Node {
    if name.is_empty() {
        return Node::bare(value);
    }
    let mut item = Node::empty(Shape::Map);
    item.push_field(name, Node::bare(value));
    item
}

/// What a missing node becomes, from the part of the path after it.
fn part_shape(next: &str, last: Shape) -> Shape {
    if is_selector(next) || is_index(next) {
        Shape::Seq
    } else if next.is_empty() {
        last
    } else {
        Shape::Map
    }
}

/// Calls `hit` with every node that a path with wildcards and selectors (regular expressions) matches; gives their
/// number. With `create`, missing nodes are made.
///
/// # Errors
/// A step into a node of the wrong shape, a bad expression, or what `hit` says.
pub(crate) fn matches(
    node: &mut Node,
    path: &[String],
    create: Option<Shape>,
    hit: &mut dyn FnMut(&mut Node) -> Res<()>,
) -> Res<usize> {
    let Some((part, rest)) = path.split_first() else {
        hit(node)?;
        return Ok(1);
    };
    if is_index(part) {
        return match_index(node, part, rest, create, hit);
    }
    if is_selector(part) {
        return match_selector(node, part, rest, create, hit);
    }
    if part == "*" {
        let mut n = 0;
        for item in list_of(node)? {
            n += matches(item, rest, create, hit)?;
        }
        return Ok(n);
    }
    match_field(node, part, rest, create, hit)
}

/// The items of a list; a null has none.
fn list_of(node: &mut Node) -> Res<&mut [Node]> {
    if node.is_null() {
        return Ok(&mut []);
    }
    match node.data {
        Data::Seq(_) => Ok(node.items_mut()),
        _ => Err(wrong_shape(Shape::Seq, node)),
    }
}

fn match_field(
    node: &mut Node,
    name: &str,
    rest: &[String],
    create: Option<Shape>,
    hit: &mut dyn FnMut(&mut Node) -> Res<()>,
) -> Res<usize> {
    if !node.is_null() && !matches!(node.data, Data::Map(_)) {
        return Err(wrong_shape(Shape::Map, node));
    }
    if node.is_null() || node.get(name).is_none() {
        let Some(shape) = create else { return Ok(0) };
        if node.is_null() {
            *node = Node::empty(Shape::Map);
        }
        let made = part_shape(rest.first().map_or("", String::as_str), shape);
        set_field(node, name, Node::empty(made))?;
    }
    let Some(field) = node.get_mut(name) else { return Ok(0) };
    if !rest.is_empty() && matches!(field.data, Data::Scalar(_)) {
        // The program looks into a copy of the text here and forgets what it changed.
        return inside_text(field, rest, create);
    }
    matches(field, rest, create, hit)
}

fn inside_text(field: &Node, rest: &[String], create: Option<Shape>) -> Res<usize> {
    let mut copy = super::replace::parse_text(field.text())?;
    matches(&mut copy, rest, create, &mut |_| Ok(()))
}

fn match_index(
    node: &mut Node,
    part: &str,
    rest: &[String],
    create: Option<Shape>,
    hit: &mut dyn FnMut(&mut Node) -> Res<()>,
) -> Res<usize> {
    let i: usize = part.parse().map_err(|_| Error::new(format!("bad index {part}")))?;
    let len = list_of(node)?.len();
    if i == len
        && let Some(shape) = create
        && let Data::Seq(items) = &mut node.data
    {
        items.push(Node::empty(part_shape(rest.first().map_or("", String::as_str), shape)));
    }
    match list_of(node)?.get_mut(i) {
        Some(item) => matches(item, rest, create, hit),
        None => Err(Error::new(format!("index {i} specified but only {len} elements found"))),
    }
}

fn match_selector(
    node: &mut Node,
    part: &str,
    rest: &[String],
    create: Option<Shape>,
    hit: &mut dyn FnMut(&mut Node) -> Res<()>,
) -> Res<usize> {
    let (name, pattern) = selector(part)?;
    let regex = Regex::new(pattern).map_err(|e| Error::new(format!("error parsing regexp: {e}")))?;
    let mut visit = |node: &mut Node| -> Res<usize> {
        let mut n = 0;
        for item in list_of(node)? {
            if name.is_empty() {
                if regex.is_match(printed(item).trim()) {
                    hit(item)?;
                    n += 1;
                }
            } else if item.get(name).is_some_and(|v| regex.is_match(printed(v).trim())) {
                n += matches(item, rest, create, hit)?;
            }
        }
        Ok(n)
    };
    let n = visit(node)?;
    if n > 0 || create.is_none() {
        return Ok(n);
    }
    match &mut node.data {
        Data::Seq(items) => items.push(new_item(name, pattern)),
        _ => {
            return Err(wrong_shape(Shape::Seq, node))
                .within(|| format!("failed to create element for {part:?}"));
        }
    }
    visit(node)
}
