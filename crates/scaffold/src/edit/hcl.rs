//! Edits of HCL: Terraform's files, and those of its relatives.
//!
//! A path leads through blocks by their types and labels to attributes, and on through maps and lists:
//! `resource.aws_s3_bucket.logs.tags.team`, `provider.aws[alias=west].region`.

mod expression;
mod write;

use hcl_edit::{
    Decorate,
    parser::parse_body,
    structure::{Block, Body, Structure},
};
use serde_json::{Map, Value};

use super::{
    Edit, ListMerge,
    value::{Path, Step},
};
use expression::{json_of, parsed, put, said, shape_of};

/// What is to be done at the end of a path.
#[derive(Debug, Clone, Copy)]
enum Job<'j> {
    Set(&'j Value),
    Express(&'j str),
    Merge(&'j Value, &'j ListMerge),
    Append(&'j Value, Option<&'j str>),
    Delete,
    Block { kind: &'j str, labels: &'j [String], attributes: &'j Map<String, Value> },
}

pub(super) fn edit(text: &str, edit: &Edit) -> Result<String, String> {
    // The library writes line feeds: the other line break is put back.
    let is_dos = text.contains("\r\n");
    if is_dos && text.matches('\n').count() != text.matches("\r\n").count() {
        return Err("the file mixes line breaks".to_owned());
    }
    let body_of = text.trim_start_matches('\u{feff}');
    let mark = &text[..text.len() - body_of.len()];
    let plain = body_of.replace("\r\n", "\n");
    let now = read(&plain)?;
    let kept = || "the file is laid out in a way that this edit cannot keep".to_owned();
    if now.to_string() != plain {
        return Err(kept());
    }
    let mut want = now.clone();
    let merged;
    let (path, job) = match edit {
        Edit::Set { path, value } => (path, Job::Set(value)),
        Edit::Delete { path } => (path, Job::Delete),
        Edit::Merge { path, value, lists, key } => {
            merged = ListMerge::of(*lists, key.as_deref());
            (path, Job::Merge(value, &merged))
        }
        Edit::Append { path, value, key } => (path, Job::Append(value, key.as_deref())),
        Edit::Express { path, expression } => (path, Job::Express(expression)),
        Edit::Block { path, block, labels, value } => {
            (path, Job::Block { kind: block, labels, attributes: value })
        }
    };
    in_body(&mut want, &path.steps, job, "").map_err(|why| told(path, &why))?;
    if want == now {
        return Ok(text.to_owned());
    }
    let edited = want.to_string();
    if read(&edited)? != want {
        return Err(kept());
    }
    let edited = if is_dos { edited.replace('\n', "\r\n") } else { edited };
    Ok(format!("{mark}{edited}"))
}

/// Blocks, attributes and maps of a text.
pub(super) fn shape(text: &str) -> Option<Value> {
    Some(body_shape(&read(&text.replace("\r\n", "\n")).ok()?))
}

fn body_shape(body: &Body) -> Value {
    let of = |structure: &Structure| match structure {
        Structure::Attribute(attribute) => {
            let entry = (attribute.key.as_str().to_owned(), shape_of(&attribute.value));
            Value::Object([entry].into_iter().collect())
        }
        Structure::Block(block) => {
            let name = format!("{} {}", block.ident.as_str(), block.labels.len());
            Value::Object([(name, body_shape(&block.body))].into_iter().collect())
        }
    };
    body.iter().map(of).collect()
}

fn told(path: &Path, why: &str) -> String {
    if path.is_empty() { why.to_owned() } else { format!("{path}: {why}") }
}

fn read(text: &str) -> Result<Body, String> {
    parse_body(text)
        .map_err(|error| format!("the file is no HCL: line {}: {}", error.location().line(), error.message()))
}

/// Does `job` at the end of `steps` below `body`, whose entries are indented by `indent` where it has none.
fn in_body(body: &mut Body, steps: &[Step], job: Job<'_>, indent: &str) -> Result<(), String> {
    let indent = indent_of(body).unwrap_or_else(|| indent.to_owned());
    let Some((step, rest)) = steps.split_first() else { return on_body(body, job, &indent) };
    let Step::Key(name) = step else {
        return Err("a path begins with the name of an attribute or the type of a block".to_owned());
    };
    if let Some(mut attribute) = body.get_attribute_mut(name) {
        if !rest.is_empty() || !matches!(job, Job::Delete) {
            return put(attribute.value_mut(), rest, job, &indent);
        }
        remove(body, |structure| structure.as_attribute().is_some_and(|found| found.has_key(name)));
        return Ok(());
    }
    if body.has_blocks(name) {
        let Some((at, used)) = block_at(body, name, rest)? else {
            return match job {
                Job::Delete => Ok(()),
                _ => Err(format!("there is no block {name} with these labels: make it with the op block")),
            };
        };
        let rest = &rest[used..];
        if rest.is_empty() && matches!(job, Job::Delete) {
            remove_at(body, at);
            return Ok(());
        }
        let Some(block) = body.get_mut(at).and_then(Structure::as_block_mut) else { return Ok(()) };
        return in_block(block, rest, job, &indent);
    }
    match job {
        Job::Delete => Ok(()),
        Job::Block { .. } => Err(format!("there is no block {name} to put one into")),
        _ if rest.is_empty() => insert_attribute(body, name, job, &indent),
        _ => Err(format!(
            "there is neither an attribute nor a block {name}: set all of its map, or make it with the op block"
        )),
    }
}

fn in_block(block: &mut Block, steps: &[Step], job: Job<'_>, indent: &str) -> Result<(), String> {
    let inner = format!("{indent}  ");
    let was_oneline = block.body.prefer_oneline();
    let held = block.body.len();
    in_body(&mut block.body, steps, job, &inner)?;
    if was_oneline && block.body.len() > held {
        // What stood between the braces gets lines of its own.
        block.body.set_prefer_oneline(false);
        for at in 0..held {
            if let Some(structure) = block.body.get_mut(at) {
                structure.decorate((inner.as_str(), ""));
            }
        }
        block.body.decor_mut().set_suffix(indent);
    }
    Ok(())
}

/// What is done to a body itself.
fn on_body(body: &mut Body, job: Job<'_>, indent: &str) -> Result<(), String> {
    match job {
        Job::Merge(Value::Object(entries), lists) => {
            entries.iter().try_for_each(|(key, value)| merge_entry(body, key, value, lists, indent))
        }
        Job::Block { kind, labels, attributes } => put_block(body, kind, labels, attributes, indent),
        Job::Merge(..) => Err("a block takes a map of attributes".to_owned()),
        Job::Delete => Err("a whole file is not deleted by an edit: use deletes".to_owned()),
        Job::Set(_) | Job::Express(_) | Job::Append(..) => {
            Err("this is a block: say which attribute of it, or use the op merge or block".to_owned())
        }
    }
}

/// Puts one entry of a map over an attribute, or over a block of its name, whose labels are the keys of the next maps.
fn merge_entry(
    body: &mut Body,
    key: &str,
    value: &Value,
    lists: &ListMerge,
    indent: &str,
) -> Result<(), String> {
    if !body.has_attribute(key) && body.has_blocks(key) {
        let mut steps = vec![Step::Key(key.to_owned())];
        return merge_blocks(body, &mut steps, value, lists, indent);
    }
    in_body(body, &[Step::Key(key.to_owned())], Job::Merge(value, lists), indent)
}

fn merge_blocks(
    body: &mut Body,
    steps: &mut Vec<Step>,
    value: &Value,
    lists: &ListMerge,
    indent: &str,
) -> Result<(), String> {
    let Some(Step::Key(kind)) = steps.first() else { return Ok(()) };
    if block_at(body, kind, &steps[1..])?.is_some() {
        return in_body(body, steps, Job::Merge(value, lists), indent);
    }
    let has_more = body.get_blocks(kind).any(|block| block.labels.len() >= steps.len());
    let (Value::Object(entries), true) = (value, has_more) else {
        return Err(format!("there is no such block {kind}: make it with the op block"));
    };
    for (label, value) in entries {
        steps.push(Step::Key(label.clone()));
        merge_blocks(body, steps, value, lists, indent)?;
        steps.pop();
    }
    Ok(())
}

/// Place of the block of the type `kind` that `steps` mean, and how many of them its labels and its choice take.
fn block_at(body: &Body, kind: &str, steps: &[Step]) -> Result<Option<(usize, usize)>, String> {
    let has_labels = |block: &Block| {
        block.has_ident(kind)
            && block.labels.len() <= steps.len()
            && block
                .labels
                .iter()
                .zip(steps)
                .all(|(label, step)| matches!(step, Step::Key(key) if key == label.as_str()))
    };
    let mut found: Vec<(usize, &Block)> = body
        .iter()
        .enumerate()
        .filter_map(|(at, structure)| Some((at, structure.as_block()?)))
        .filter(|(_, block)| has_labels(block))
        .collect();
    let labels = found.iter().map(|(_, block)| block.labels.len()).max().unwrap_or_default();
    found.retain(|(_, block)| block.labels.len() == labels);
    let mut used = labels;
    match steps.get(labels) {
        Some(Step::Index(index)) => {
            used += 1;
            found = found.into_iter().skip(*index).take(1).collect();
        }
        Some(Step::Where(key, wanted)) => {
            used += 1;
            found.retain(|(_, block)| {
                let value = block.body.get_attribute(key).and_then(|attribute| json_of(&attribute.value));
                value.is_some_and(|value| super::value::is_text(&value, wanted))
            });
        }
        Some(Step::Key(_)) | None => {}
    }
    match found.as_slice() {
        [] => Ok(None),
        [(at, _)] => Ok(Some((*at, used))),
        more => Err(format!(
            "{} blocks {kind} are meant: say which by [0], or by an attribute as in [name=web]",
            more.len()
        )),
    }
}

fn insert_attribute(body: &mut Body, key: &str, job: Job<'_>, indent: &str) -> Result<(), String> {
    let value = match job {
        Job::Express(expression) => {
            parsed(expression)?;
            expression.trim().to_owned()
        }
        Job::Set(value) | Job::Merge(value, _) => said(value, indent)?,
        Job::Append(value, _) => said(&Value::Array(vec![value.clone()]), indent)?,
        Job::Delete | Job::Block { .. } => return Ok(()),
    };
    let text = format!("{key} = {value}\n");
    let bad = || format!("{key:?} is no name of an attribute");
    let mut made = parse_body(&text).map_err(|_| bad())?;
    let is_one = made.len() == 1 && made.get_attribute(key).is_some();
    let Some(mut structure) = made.pop().filter(|_| is_one) else { return Err(bad()) };
    // Attributes stand before blocks.
    let attributes = body.iter().enumerate().filter(|(_, structure)| structure.is_attribute());
    let at = attributes.map(|(at, _)| at + 1).last().unwrap_or_default();
    let mut prefix = indent.to_owned();
    if body.is_empty() && indent.is_empty() {
        prefix.insert_str(0, &take_suffix(body));
    } else if at == 0
        && let Some(first) = body.get_mut(0)
    {
        // What stands at the head of the body stays there.
        let head = prefix_of(first);
        let (head, own) = detached(&head);
        prefix.insert_str(0, head);
        let own = format!("\n{}", own.trim_start_matches('\n'));
        first.decor_mut().set_prefix(own);
    }
    structure.decor_mut().set_prefix(prefix);
    body.insert(at, structure);
    Ok(())
}

/// Makes a block, or sets attributes of the one that is there.
fn put_block(
    body: &mut Body,
    kind: &str,
    labels: &[String],
    attributes: &Map<String, Value>,
    indent: &str,
) -> Result<(), String> {
    let is_it = |block: &Block| {
        block.has_ident(kind)
            && block.labels.len() == labels.len()
            && block.labels.iter().zip(labels).all(|(label, wanted)| label.as_str() == wanted)
    };
    let mut found = body.blocks_mut().filter(|block| is_it(block));
    match (found.next(), found.next()) {
        (Some(block), None) => {
            return attributes.iter().try_for_each(|(key, value)| {
                in_block(block, &[Step::Key(key.clone())], Job::Set(value), indent)
            });
        }
        (Some(_), Some(_)) => {
            return Err(format!(
                "there is more than one block {kind} with these labels: edit one by its path"
            ));
        }
        (None, _) => {}
    }
    drop(found);
    let text = write::block(kind, labels, attributes, indent)?;
    let bad = || format!("{kind:?} with these labels and attributes makes no block");
    let mut made = parse_body(&text).map_err(|_| bad())?;
    let is_one = made.len() == 1
        && made
            .get(0)
            .and_then(Structure::as_block)
            .is_some_and(|block| is_it(block) && block.body.len() == attributes.len());
    let Some(mut structure) = made.pop().filter(|_| is_one) else { return Err(bad()) };
    let mut prefix = take_suffix_of_empty(body, indent);
    if !body.is_empty() {
        prefix.push('\n');
    }
    prefix.push_str(indent);
    structure.decor_mut().set_prefix(prefix);
    body.push(structure);
    Ok(())
}

fn take_suffix_of_empty(body: &mut Body, indent: &str) -> String {
    if body.is_empty() && indent.is_empty() { take_suffix(body) } else { String::new() }
}

/// The comment of a file that holds nothing else.
fn take_suffix(body: &mut Body) -> String {
    let mut suffix = suffix_of(body);
    body.decor_mut().set_suffix("");
    if !suffix.is_empty() && !suffix.ends_with('\n') {
        suffix.push('\n');
    }
    suffix
}

fn remove(body: &mut Body, is_it: impl Fn(&Structure) -> bool) {
    let at = body.iter().position(is_it);
    if let Some(at) = at {
        remove_at(body, at);
    }
}

/// Takes a structure away with the comment right before it; comments that a blank line parts from it stay.
fn remove_at(body: &mut Body, at: usize) {
    let gone = body.remove(at);
    let prefix = prefix_of(&gone);
    let (head, _) = detached(&prefix);
    if let Some(next) = body.get_mut(at) {
        let own = prefix_of(next);
        let own = if at == 0 && head.is_empty() { own.trim_start_matches('\n') } else { own.as_str() };
        next.decor_mut().set_prefix(format!("{head}{own}"));
    } else if !head.is_empty() {
        let suffix = suffix_of(body);
        body.decor_mut().set_suffix(format!("{head}{suffix}"));
    }
}

/// What stands before a thing: white space and comments.
fn prefix_of(thing: &impl Decorate) -> String {
    thing.decor().prefix().map(|text| str::to_owned(text)).unwrap_or_default()
}

/// What stands behind it.
fn suffix_of(thing: &impl Decorate) -> String {
    thing.decor().suffix().map(|text| str::to_owned(text)).unwrap_or_default()
}

/// What stands before a structure: what a blank line parts from it, and the rest.
fn detached(prefix: &str) -> (&str, &str) {
    match prefix.rfind("\n\n") {
        Some(at) => prefix.split_at(at + 1),
        None => ("", prefix),
    }
}

/// The white space before the entries of a body.
fn indent_of(body: &Body) -> Option<String> {
    if body.prefer_oneline() {
        return None;
    }
    let last = body.get(body.len().checked_sub(1)?)?;
    let prefix = prefix_of(last);
    let line = prefix.rsplit('\n').next().unwrap_or_default();
    line.trim().is_empty().then(|| line.to_owned())
}
