//! Edits within the value of an attribute.

use hcl_edit::{
    Decorate,
    expr::{Array, Expression, Object, ObjectKey, ObjectValue, ObjectValueTerminator, UnaryOperator},
    parser::parse_expr,
};
use serde_json::{Map, Number, Value};

use super::{Job, prefix_of, suffix_of, write};
use crate::edit::{
    ListMerge, entries_shape,
    value::{Step, is_text},
};

/// HCL that somebody wrote.
pub(super) fn parsed(text: &str) -> Result<Expression, String> {
    parse_expr(text.trim()).map_err(|error| format!("the expression is no HCL: {}", error.message()))
}

/// The value of an expression that says one without being evaluated.
pub(super) fn json_of(expression: &Expression) -> Option<Value> {
    Some(match expression {
        Expression::Null(_) => Value::Null,
        Expression::Bool(value) => Value::Bool(*value.value()),
        Expression::Number(number) => number_of(number.value(), false)?,
        Expression::UnaryOp(op) if *op.operator.value() == UnaryOperator::Neg => {
            number_of(op.expr.as_number()?, true)?
        }
        Expression::String(text) => Value::String(text.value().clone()),
        Expression::Array(array) => Value::Array(array.iter().map(json_of).collect::<Option<_>>()?),
        Expression::Object(object) => {
            let mut map = Map::new();
            for (key, value) in object {
                map.insert(name_of(key)?.to_owned(), json_of(value.expr())?);
            }
            Value::Object(map)
        }
        _ => return None,
    })
}

/// Lists and maps of an expression; of one that is computed, the signs in it.
pub(super) fn shape_of(expression: &Expression) -> Value {
    match expression {
        Expression::Array(array) => array.iter().map(shape_of).collect(),
        Expression::Object(object) => {
            let entry = |(key, value): (&ObjectKey, &ObjectValue)| {
                let key = match key {
                    ObjectKey::Ident(name) => name.value().as_str().to_owned(),
                    ObjectKey::Expression(text) => {
                        text.as_str().map_or_else(|| signs_of(&text.to_string()), str::to_owned)
                    }
                };
                (key, shape_of(value.expr()))
            };
            entries_shape(object.iter().map(entry))
        }
        other if json_of(other).is_some() => Value::Null,
        other => Value::Object([(signs_of(&other.to_string()), Value::Null)].into_iter().collect()),
    }
}

fn signs_of(text: &str) -> String {
    text.chars().filter(|c| "{}[]()\"$%".contains(*c)).collect()
}

/// A value as an expression that says it, and nothing else.
pub(super) fn said(value: &Value, indent: &str) -> Result<String, String> {
    let text = write::expression(value, indent);
    match json_of(&parsed(&text)?) {
        Some(found) if is_same(&found, value) => Ok(text),
        _ => Err("HCL has no way to write this value".to_owned()),
    }
}

fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => a == b,
    }
}

fn number_of(number: &hcl_edit::Number, is_negative: bool) -> Option<Value> {
    if let Some(whole) = number.as_u64()
        && !is_negative
    {
        return Some(Value::from(whole));
    }
    if let Some(whole) = number.as_i64() {
        return Some(Value::from(if is_negative { whole.checked_neg()? } else { whole }));
    }
    let float = number.as_f64()?;
    Number::from_f64(if is_negative { -float } else { float }).map(Value::Number)
}

fn name_of(key: &ObjectKey) -> Option<&str> {
    match key {
        ObjectKey::Ident(name) => Some(name.value().as_str()),
        ObjectKey::Expression(text) => text.as_str(),
    }
}

/// Does `job` at the end of `steps` below `value`, whose line is indented by `indent`.
pub(super) fn put(value: &mut Expression, steps: &[Step], job: Job<'_>, indent: &str) -> Result<(), String> {
    let Some((step, rest)) = steps.split_first() else { return on_value(value, job, indent) };
    match (step, value) {
        (Step::Key(name), Expression::Object(object)) => {
            let found =
                object.iter().map(|(key, _)| key).find(|key| name_of(key) == Some(name.as_str())).cloned();
            match (found, job) {
                (Some(key), Job::Delete) if rest.is_empty() => {
                    remove_entry(object, &key);
                    Ok(())
                }
                (Some(key), _) => match object.get_mut(&key) {
                    Some(entry) => put(entry.expr_mut(), rest, job, &inner_of(object_indent(&key), indent)),
                    None => Ok(()),
                },
                (None, Job::Delete) => Ok(()),
                (None, _) if rest.is_empty() => insert_entry(object, name, job, indent),
                (None, _) => Err(format!("there is no {name}: set all of its map")),
            }
        }
        (Step::Index(at), Expression::Array(array)) => in_array(array, Some(*at), rest, job, indent),
        (Step::Where(key, wanted), Expression::Array(array)) => {
            let is_it =
                |item: &Expression| json_of(item).is_some_and(|item| is_text(&item[key.as_str()], wanted));
            let at = array.iter().position(is_it);
            in_array(array, at, rest, job, indent)
        }
        (Step::Key(name), _) => {
            Err(format!("there is no map for {name}, or it is an expression: set the whole attribute"))
        }
        (Step::Index(_) | Step::Where(..), _) => {
            Err("there is no list, or it is an expression: set the whole attribute".to_owned())
        }
    }
}

fn inner_of(own: Option<String>, outer: &str) -> String {
    own.unwrap_or_else(|| outer.to_owned())
}

/// How an entry that stands in a line of its own is indented.
fn object_indent(key: &ObjectKey) -> Option<String> {
    let prefix = prefix_of(key);
    let line = prefix.rsplit('\n').next().unwrap_or_default();
    (line.len() > 1 && line.trim().is_empty()).then(|| line.to_owned())
}

fn on_value(value: &mut Expression, job: Job<'_>, indent: &str) -> Result<(), String> {
    match (job, &mut *value) {
        (Job::Express(text), _) => {
            let new = parsed(text)?;
            if *value != new {
                exchange(value, new);
            }
            Ok(())
        }
        (Job::Merge(Value::Object(entries), lists), Expression::Object(_)) => {
            entries.iter().try_for_each(|(key, entry)| {
                put(value, &[Step::Key(key.clone())], Job::Merge(entry, lists), indent)
            })
        }
        (Job::Merge(Value::Array(items), lists), Expression::Array(_)) if *lists != ListMerge::Overwrite => {
            let key = match lists {
                ListMerge::Key(key) => Some(key.as_str()),
                ListMerge::Append | ListMerge::Overwrite => None,
            };
            if key.is_some_and(|key| items.iter().any(|item| item[key].is_null())) {
                return replace(value, &Value::Array(items.clone()), indent);
            }
            items.iter().try_for_each(|item| on_value(value, Job::Append(item, key), indent))
        }
        (Job::Set(want) | Job::Merge(want, _), _) => replace(value, want, indent),
        (Job::Append(item, key), Expression::Array(array)) => append(array, item, key, indent),
        (Job::Append(..), _) => {
            Err("what stands there is no list, or an expression: set the whole attribute".to_owned())
        }
        (Job::Block { .. }, _) => Err("what stands there is an attribute, not a block".to_owned()),
        (Job::Delete, _) => Ok(()),
    }
}

fn replace(value: &mut Expression, want: &Value, indent: &str) -> Result<(), String> {
    if json_of(value).as_ref() == Some(want) {
        return Ok(());
    }
    let new = parsed(&said(want, indent)?)?;
    if *value != new {
        exchange(value, new);
    }
    Ok(())
}

/// What stands around an expression stays.
fn exchange(value: &mut Expression, new: Expression) {
    let decor = value.decor().clone();
    *value = new;
    *value.decor_mut() = decor;
}

fn in_array(
    array: &mut Array,
    at: Option<usize>,
    rest: &[Step],
    job: Job<'_>,
    indent: &str,
) -> Result<(), String> {
    let length = array.len();
    let item = at.and_then(|at| array.get_mut(at));
    match (item, at, job) {
        (Some(_), Some(at), Job::Delete) if rest.is_empty() => {
            remove_item(array, at);
            Ok(())
        }
        (Some(item), _, _) => {
            let prefix = prefix_of(item);
            let line = prefix.rsplit_once('\n').map(|(_, line)| line.to_owned());
            put(item, rest, job, &inner_of(line.filter(|line| line.trim().is_empty()), indent))
        }
        (None, _, Job::Delete) => Ok(()),
        (None, Some(at), Job::Set(value)) if at == length && rest.is_empty() => push(array, value, indent),
        (None, Some(at), _) => Err(format!("the list has {length} items, none is [{at}]")),
        (None, None, _) => Err("the list has no such item".to_owned()),
    }
}

fn append(array: &mut Array, item: &Value, key: Option<&str>, indent: &str) -> Result<(), String> {
    let found = array.iter().position(|old| {
        json_of(old).is_some_and(|old| match key {
            None => old == *item,
            Some(key) => !item[key].is_null() && old[key] == item[key],
        })
    });
    match (found, key) {
        (Some(_), None) => Ok(()),
        (Some(at), Some(_)) => {
            in_array(array, Some(at), &[], Job::Merge(item, &ListMerge::Overwrite), indent)
        }
        (None, _) => push(array, item, indent),
    }
}

/// What stands behind the last entry, before the closing bracket: what stays before a new entry, and what stays behind it.
fn around(tail: &str, indent: &str, first: &str) -> (String, String) {
    match tail.rsplit_once('\n') {
        Some((head, close)) => {
            let line = first.rsplit('\n').next().unwrap_or_default();
            let line = if line.trim().is_empty() { line } else { indent };
            (format!("{head}\n{line}"), format!("\n{close}"))
        }
        None => (" ".to_owned(), tail.to_owned()),
    }
}

fn push(array: &mut Array, value: &Value, indent: &str) -> Result<(), String> {
    let first = array.iter().next().map(prefix_of);
    let Some(first) = first else {
        if !array.trailing().trim().is_empty() {
            return Err("the list holds a comment and nothing else: set the whole attribute".to_owned());
        }
        array.set_trailing("");
        array.push(parsed(&said(value, indent)?)?);
        return Ok(());
    };
    let line = first.rsplit_once('\n').map(|(_, line)| line.to_owned());
    let mut new = parsed(&said(value, line.as_deref().unwrap_or(indent))?)?;
    if array.trailing_comma() {
        let (before, after) = around(array.trailing(), indent, &first);
        new.decor_mut().set_prefix(before);
        array.set_trailing(after);
    } else if let Some(last) = array.len().checked_sub(1).and_then(|at| array.get_mut(at)) {
        let tail = suffix_of(last);
        last.decor_mut().set_suffix("");
        let (before, after) = around(&tail, indent, &first);
        new.decorate((before, after));
    }
    array.push(new);
    Ok(())
}

fn remove_item(array: &mut Array, at: usize) {
    let gone = array.remove(at);
    if at == 0
        && let Some(first) = array.get_mut(0)
        && prefix_of(first).trim().is_empty()
    {
        first.decor_mut().set_prefix(prefix_of(&gone));
    }
    if at == array.len()
        && let Some(last) = at.checked_sub(1).and_then(|at| array.get_mut(at))
        && suffix_of(last).trim().is_empty()
    {
        last.decor_mut().set_suffix(suffix_of(&gone));
    }
    if array.is_empty() {
        array.set_trailing_comma(false);
    }
}

fn insert_entry(object: &mut Object, name: &str, job: Job<'_>, indent: &str) -> Result<(), String> {
    let first = object.iter().next().map(|(key, _)| prefix_of(key));
    let line = first.as_deref().and_then(|first| first.rsplit_once('\n')).map(|(_, line)| line.to_owned());
    let line = line.unwrap_or_else(|| indent.to_owned());
    let text = match job {
        Job::Express(text) => {
            parsed(text)?;
            text.trim().to_owned()
        }
        Job::Set(value) | Job::Merge(value, _) => said(value, &line)?,
        Job::Append(value, _) => said(&Value::Array(vec![value.clone()]), &line)?,
        Job::Block { .. } => return Err("a map holds no blocks".to_owned()),
        Job::Delete => return Ok(()),
    };
    let mut written = "{ ".to_owned();
    write::key(&mut written, name);
    written.push_str(" = ");
    written.push_str(&text);
    written.push_str(" }");
    let Expression::Object(made) = parsed(&written)? else { return Err("it makes no map".to_owned()) };
    if object.is_empty() {
        if !object.trailing().trim().is_empty() {
            return Err("the map holds a comment and nothing else: set the whole attribute".to_owned());
        }
        let decor = object.decor().clone();
        *object = made;
        *object.decor_mut() = decor;
        return Ok(());
    }
    let Some((mut key, mut value)) = made.into_iter().next() else { return Ok(()) };
    let first = first.unwrap_or_default();
    let Some((_, last)) = object.iter_mut().last() else { return Ok(()) };
    match last.terminator() {
        ObjectValueTerminator::Newline => {
            value.set_terminator(ObjectValueTerminator::Newline);
            value.expr_mut().decor_mut().set_suffix("");
            // A comment behind the last entry is one of the map's end, and stays there.
            key.decor_mut().set_prefix(line);
        }
        ObjectValueTerminator::Comma => {
            value.set_terminator(ObjectValueTerminator::Comma);
            value.expr_mut().decor_mut().set_suffix("");
            let (before, after) = around(object.trailing(), indent, &first);
            key.decor_mut().set_prefix(before);
            object.set_trailing(after);
        }
        ObjectValueTerminator::None => {
            let tail = suffix_of(last.expr());
            last.expr_mut().decor_mut().set_suffix("");
            last.set_terminator(ObjectValueTerminator::Comma);
            let (before, after) = around(&tail, indent, &first);
            key.decor_mut().set_prefix(before);
            value.expr_mut().decor_mut().set_suffix(after);
        }
    }
    object.insert(key, value);
    Ok(())
}

fn remove_entry(object: &mut Object, key: &ObjectKey) {
    let names: Vec<ObjectKey> = object.iter().map(|(key, _)| key.clone()).collect();
    let Some(at) = names.iter().position(|name| name == key) else { return };
    let Some(gone) = object.remove(key) else { return };
    let head = prefix_of(&names[at]);
    if at == 0
        && let Some((mut first, _)) = object.iter_mut().next()
    {
        let own = prefix_of(&first);
        if own.trim().is_empty() {
            let head = if head.trim().is_empty() { head } else { lead(&head) };
            first.decor_mut().set_prefix(head);
        } else if !own.starts_with('\n') && head.starts_with('\n') {
            first.decor_mut().set_prefix(format!("\n{own}"));
        }
    }
    if gone.terminator() == ObjectValueTerminator::None
        && let Some((_, last)) = object.iter_mut().last()
    {
        last.set_terminator(ObjectValueTerminator::None);
        last.expr_mut().decor_mut().set_suffix(suffix_of(gone.expr()));
    }
}

/// The line break and indentation at the end of what stands before an entry.
fn lead(prefix: &str) -> String {
    prefix.rsplit_once('\n').map_or_else(|| " ".to_owned(), |(_, line)| format!("\n{line}"))
}
