//! Answers that would become more than a value.
//!
//! A template writes an answer as text. Where the file is YAML, JSON, TOML or HCL, an answer with a line break or a quote could become
//! entries of it. Such a file is written twice: with the answers, and with stand-ins that cannot be anything but values. Where
//! the two differ in shape, the answer is refused. A file is never changed by this, so templates render as they always did.

use plural_core::form::QuestionType;
use serde_json::{Map, Value};

use super::{Done, Run, failed};
use crate::{automation::Template, edit, edit::Format};

/// What can be more than text in one of the languages.
const SIGNS: &[char] =
    &['\t', '\\', '#', '{', '}', '[', ']', '&', '*', '!', '|', '<', '>', '\'', '"', '%', '@', '`', '='];

/// A file that was made of a template.
pub(super) struct Made<'m> {
    /// Path of the template.
    pub(super) source: &'m str,
    /// The template.
    pub(super) text: &'m str,
    /// Path of the file.
    pub(super) path: &'m str,
    /// What the template became.
    pub(super) rendered: &'m str,
}

impl Run<'_> {
    /// `context` with stand-ins for answers that could be more than values, but for those of `verbatim`; nothing where there are none.
    /// First all of it stands in; then line breaks are kept, for templates that go over an answer line by line.
    pub(super) fn harmless(
        &self,
        context: &Map<String, Value>,
        verbatim: &[String],
    ) -> Option<[Map<String, Value>; 2]> {
        let is_json = |name: &str| {
            // A text that was checked to be JSON is one value.
            let mut questions = self.request.automation.configuration.iter();
            questions.any(|question| {
                question.name == name
                    && question.kind == QuestionType::String
                    && question.validation.as_ref().is_some_and(|validation| validation.json)
            })
        };
        // What a script or a template made of answers is its own.
        let is_meant = |name: &String, value: &Value| {
            self.given.get(name) == Some(value) && !verbatim.contains(name) && !is_json(name)
        };
        let stand_in = |keeps_lines: bool| -> Map<String, Value> {
            let of = |(name, value): (&String, &Value)| {
                let value = if is_meant(name, value) { plain(value, keeps_lines) } else { value.clone() };
                (name.clone(), value)
            };
            context.iter().map(of).collect()
        };
        let all = stand_in(false);
        (all != *context).then(|| [all, stand_in(true)])
    }

    /// Refuses the text that `template` became at `path` where an answer changed its shape.
    pub(super) fn check_shape(
        &self,
        step: &str,
        template: &Template,
        context: &Map<String, Value>,
        made: &Made<'_>,
    ) -> Done {
        let Made { source, text, path, rendered } = *made;
        let (Some(format), Some([all, lines])) =
            (Format::of(path), self.harmless(context, &template.verbatim))
        else {
            return Ok(());
        };
        let refused = || -> Done {
            let why = format!(
                "an answer would become more than one value of {path}: quote it in the template with the filter toJson, or name it in \
                 verbatim of the template where it should"
            );
            Err(failed(step, why))
        };
        let found = edit::shape(rendered, format);
        if let Ok(plain) = self.expand(step, source, text, &all) {
            if plain == rendered {
                return Ok(());
            }
            match (&found, edit::shape(&plain, format)) {
                (Some(found), Some(plain)) if is_same_shape(found, &plain) => return Ok(()),
                // A template of a template, which nobody can read before that is rendered: no answer adds lines to it.
                (None, None) if breaks(&plain) == breaks(rendered) => return Ok(()),
                (None, _) => return refused(),
                (Some(_), _) => {}
            }
        }
        let by_lines = self.expand(step, source, text, &lines).ok();
        match (found, by_lines.and_then(|plain| edit::shape(&plain, format))) {
            (Some(found), Some(plain)) if is_same_shape(&found, &plain) => Ok(()),
            _ => refused(),
        }
    }
}

/// A value whose texts are values in every language.
fn plain(value: &Value, keeps_lines: bool) -> Value {
    match value {
        Value::String(text) => Value::String(plain_text(text, keeps_lines)),
        Value::Array(items) => Value::Array(items.iter().map(|item| plain(item, keeps_lines)).collect()),
        Value::Object(entries) => {
            // An answer that is a map has its keys from whoever answered, too.
            entries.iter().map(|(key, value)| (plain_text(key, false), plain(value, keeps_lines))).collect()
        }
        other => other.clone(),
    }
}

/// With the same commas and spaces as the text: a template that takes it apart gets as many parts. Where lines are kept, each but the first
/// begins otherwise: a line of an answer could be the key of what the template has behind it.
fn plain_text(text: &str, keeps_lines: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let (mut begins, mut is_first) = (true, true);
    while let Some(c) = rest.next() {
        let is_sign = match c {
            c if is_break(c) => !keeps_lines,
            ':' => rest.peek().is_none_or(|next| next.is_whitespace()),
            '-' | '?' | '.' => begins,
            c => SIGNS.contains(&c),
        };
        if begins && !is_first && !c.is_whitespace() {
            out.push('x');
        }
        begins = is_break(c) || (begins && c.is_whitespace());
        is_first &= !(keeps_lines && is_break(c));
        out.push(if is_sign { 'x' } else { c });
    }
    out
}

fn breaks(text: &str) -> usize {
    text.chars().filter(|c| is_break(*c)).count()
}

/// What YAML takes for the end of a line.
fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Whether what was found has the keys and lists of what came of stand-ins, whatever their texts, numbers and booleans are.
pub(super) fn is_same_shape(found: &Value, plain: &Value) -> bool {
    match (found, plain) {
        (Value::Object(found), Value::Object(plain)) => {
            let stands_for =
                |key: &String| plain.get(key).or_else(|| plain.get(plain_text(key, false).as_str()));
            found.len() == plain.len()
                && found
                    .iter()
                    .all(|(key, value)| stands_for(key).is_some_and(|other| is_same_shape(value, other)))
        }
        (Value::Array(found), Value::Array(plain)) => {
            found.len() == plain.len()
                && found.iter().zip(plain).all(|(found, plain)| is_same_shape(found, plain))
        }
        (Value::Object(_) | Value::Array(_), _) | (_, Value::Object(_) | Value::Array(_)) => false,
        _ => true,
    }
}
