//! Files that are changed.

use plural_render::yaml;
use regex::Regex;
use serde_json::{Map, Value};

use super::{Done, Failure, Run, failed, harmless::is_same_shape, with_texts};
use crate::{
    automation::{FileEdit, MatchStrategy, RegexReplacement, YamlOverlay},
    edit::{Edit, Format, Path, edit},
    files::{Entry, File},
    regexes::{quoted, regex_of},
};

/// Values of an overlay.
const MAX_VALUES: usize = 100_000;
/// The filter with which a template quotes for a regex.
const QUOTES: &str = "regexQuoteMeta";

pub(super) fn run(run: &mut Run<'_>) -> Done {
    let updates = run.automation.updates.clone();
    for (at, replacement) in updates.regex_replacements.iter().enumerate() {
        replace(run, &format!("updates.regexReplacements[{at}]"), replacement)?;
    }
    for (at, overlay) in updates.yaml_overlays.iter().enumerate() {
        put_over(run, &format!("updates.yamlOverlays[{at}]"), overlay)?;
    }
    for (at, edit) in updates.edits.iter().enumerate() {
        edit_file(run, &format!("updates.edits[{at}]"), edit)?;
    }
    if updates.match_strategy != MatchStrategy::None && !updates.files.is_empty() {
        old_regexes(run, &updates)?;
    }
    Ok(())
}

/// Changes the text of the file at `path`.
fn change(
    run: &mut Run<'_>,
    step: &str,
    path: &str,
    with: impl FnOnce(&str) -> Result<String, String>,
) -> Done {
    let step = format!("{step} ({path})");
    let Some(File { bytes, executable }) = run.tree.file(path).cloned() else {
        let what =
            if run.tree.get(path).is_some() { "is a link, which is not followed" } else { "does not exist" };
        return Err(failed(step, format!("the file {path} {what}")));
    };
    run.pay(&step, bytes.len())?;
    let text = std::str::from_utf8(&bytes).map_err(|_| failed(&step, "the file is no UTF-8 text"))?;
    let changed = with(text).map_err(|why| failed(&step, why))?;
    run.pay(&step, changed.len())?;
    run.write(&step, path, Entry::File(File { bytes: changed.into_bytes(), executable }))
}

/// The context for a text in which `$` names a group: answers name none.
fn without_groups(context: &Map<String, Value>) -> Map<String, Value> {
    with_texts(context, &|text| text.replace('$', "$$"))
}

/// A regex that is a template. An answer in it stands for itself: it is no syntax. One that quotes with a filter of its own is left alone,
/// and so is what a script made.
fn regex_text(run: &Run<'_>, step: &str, template: &str) -> Done<String> {
    if template.contains(QUOTES) {
        return run.expand(step, step, template, &run.context);
    }
    let mut answers = run.context.clone();
    answers.retain(|name, value| run.given.get(name) == Some(&*value));
    let mut context = run.context.clone();
    context.extend(with_texts(&answers, &quoted));
    run.expand(step, step, template, &context)
}

fn replace(run: &mut Run<'_>, step: &str, replacement: &RegexReplacement) -> Done {
    let path = run.path(step, &replacement.file, &run.context)?;
    let with = run.expand(step, step, &replacement.replacement, &without_groups(&run.context))?;
    // A regex may hold what looks like a template: `a{{2}`.
    let regex = regex_text(run, step, &replacement.regex);
    let regex = regex.unwrap_or_else(|_| replacement.regex.clone());
    let regex = regex_of(&regex).map_err(|why| failed(step, why))?;
    let most = run.request.limits.file_bytes;
    change(run, step, &path, |text| {
        replaced(&regex, text, most, &|captures, out| captures.expand(&with, out))
    })
}

type With<'w> = &'w dyn Fn(&regex::Captures<'_>, &mut String);

/// All that `regex` finds, replaced; no more than `most` bytes.
fn replaced(regex: &Regex, text: &str, most: usize, with: With<'_>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for captures in regex.captures_iter(text) {
        let Some(found) = captures.get(0) else { continue };
        out.push_str(&text[at..found.start()]);
        with(&captures, &mut out);
        at = found.end();
        if out.len() > most {
            return Err(format!("the file would grow larger than {most} bytes"));
        }
    }
    out.push_str(&text[at..]);
    Ok(out)
}

fn put_over(run: &mut Run<'_>, step: &str, overlay: &YamlOverlay) -> Done {
    let path = run.path(step, &overlay.file, &run.context)?;
    let value = overlay_value(run, step, overlay, &run.context)?;
    if overlay.templated && !overlay_is_safe(run, step, overlay, &value) {
        return Err(failed(
            step,
            "an answer would become a part of the overlay's YAML: quote it there with the filter toJson",
        ));
    }
    let merge = Edit::Merge {
        path: Path::default(),
        value,
        lists: overlay.list_merge,
        key: overlay.list_key.clone(),
    };
    change(run, step, &path, |text| {
        edit(text, Format::of(&path).unwrap_or(Format::Yaml), &overlay.document, &merge)
    })
}

fn overlay_value(
    run: &Run<'_>,
    step: &str,
    overlay: &YamlOverlay,
    context: &Map<String, Value>,
) -> Done<Value> {
    let text = if overlay.templated {
        run.expand(step, step, &overlay.yaml, context)?
    } else {
        overlay.yaml.clone()
    };
    let bad = |error: yaml::YamlError| failed(step, format!("the overlay: {error}"));
    let mut documents = yaml::parse_documents(text.as_bytes(), MAX_VALUES).map_err(bad)?.into_iter();
    match (documents.next(), documents.next()) {
        (Some(only), None) if only.value.is_object() => Ok(only.value),
        (None, _) => Ok(Value::Object(Map::new())),
        (Some(_), None) => Err(failed(step, "the overlay is no map")),
        (Some(_), Some(_)) => Err(failed(step, "the overlay has more documents than one")),
    }
}

/// Whether the overlay has the shape that the same template has over answers that cannot be YAML.
fn overlay_is_safe(run: &Run<'_>, step: &str, overlay: &YamlOverlay, value: &Value) -> bool {
    let Some(variants) = run.harmless(&run.context, &[]) else { return true };
    variants.iter().any(|context| {
        overlay_value(run, step, overlay, context).is_ok_and(|plain| is_same_shape(value, &plain))
    })
}

fn edit_file(run: &mut Run<'_>, step: &str, file_edit: &FileEdit) -> Done {
    let path = run.path(step, &file_edit.file, &run.context)?;
    let format = file_edit.format.or_else(|| Format::of(&path));
    let Some(format) = format else {
        return Err(failed(step, format!("the name {path} does not say its language: say format")));
    };
    let mut wanted = file_edit.edit.clone();
    match &mut wanted {
        Edit::Set { path, value } | Edit::Merge { path, value, .. } | Edit::Append { path, value, .. } => {
            *path = path_of(run, step, path)?;
            *value = value_of(run, step, value)?;
        }
        Edit::Delete { path } | Edit::Express { path, .. } => *path = path_of(run, step, path)?,
        Edit::Block { path, labels, value, .. } => {
            *path = path_of(run, step, path)?;
            for label in labels {
                *label = run.expand(step, step, label, &run.context)?;
            }
            for attribute in value.values_mut() {
                *attribute = value_of(run, step, attribute)?;
            }
        }
    }
    change(run, step, &path, |text| edit(text, format, &file_edit.document, &wanted))
}

fn path_of(run: &Run<'_>, step: &str, path: &Path) -> Done<Path> {
    path.map_texts(|text| run.expand(step, step, text, &run.context))
}

/// A value whose texts are templates.
fn value_of(run: &Run<'_>, step: &str, value: &Value) -> Done<Value> {
    Ok(match value {
        Value::String(text) => match whole_name(text).and_then(|name| run.context.get(name)) {
            // An answer alone keeps its type.
            Some(answer) if !answer.is_null() => answer.clone(),
            _ => Value::String(run.expand(step, step, text, &run.context)?),
        },
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| value_of(run, step, item)).collect::<Result<_, Failure>>()?)
        }
        Value::Object(entries) => {
            let mut all = Map::new();
            for (key, item) in entries {
                let key = run.expand(step, step, key, &run.context)?;
                all.insert(key, value_of(run, step, item)?);
            }
            Value::Object(all)
        }
        other => other.clone(),
    })
}

/// The name in a text that is `{{ context.name }}`.
fn whole_name(text: &str) -> Option<&str> {
    let name = text.trim().strip_prefix("{{")?.strip_suffix("}}")?.trim().strip_prefix("context.")?;
    name.chars().all(|c| c.is_alphanumeric() || c == '_').then_some(name)
}

fn old_regexes(run: &mut Run<'_>, updates: &crate::automation::Updates) -> Done {
    let step = "updates.regexes";
    let with = run.expand(step, step, &updates.replace_template, &without_groups(&run.context))?;
    let compiled = |texts: &[String]| -> Done<Vec<Regex>> {
        texts.iter().map(|text| regex_of(text).map_err(|why| failed(step, why))).collect()
    };
    let regexes = compiled(&updates.regexes)?;
    let mut names = Vec::new();
    for text in &updates.files {
        names.push(regex_text(run, step, text)?);
    }
    let names = compiled(&names)?;
    let paths: Vec<String> = run
        .tree
        .iter()
        .filter(|(path, entry)| {
            matches!(entry, Entry::File(_)) && names.iter().any(|name| name.is_match(path))
        })
        .map(|(path, _)| path.to_owned())
        .collect();
    let most = run.request.limits.file_bytes;
    for path in paths {
        let is_text = run.tree.file(&path).is_some_and(|file| std::str::from_utf8(&file.bytes).is_ok());
        if !is_text {
            continue;
        }
        change(run, step, &path, |text| match updates.match_strategy {
            MatchStrategy::None => Ok(text.to_owned()),
            MatchStrategy::All if !regexes.iter().all(|regex| regex.is_match(text)) => Ok(text.to_owned()),
            MatchStrategy::Any | MatchStrategy::All => {
                regexes.iter().try_fold(text.to_owned(), |text, regex| {
                    replaced(regex, &text, most, &|captures, out| captures.expand(&with, out))
                })
            }
            MatchStrategy::Recursive => narrowed(text, &regexes, &with, most),
        })?;
    }
    Ok(())
}

/// What each regex finds in what the one before found; what the last finds becomes `with`, which names no groups.
fn narrowed(text: &str, regexes: &[Regex], with: &str, most: usize) -> Result<String, String> {
    let Some((first, rest)) = regexes.split_first() else { return Ok(with.replace("$$", "$")) };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for found in first.find_iter(text) {
        out.push_str(&text[at..found.start()]);
        out.push_str(&narrowed(found.as_str(), rest, with, most)?);
        at = found.end();
        if out.len() > most {
            return Err(format!("the file would grow larger than {most} bytes"));
        }
    }
    out.push_str(&text[at..]);
    Ok(out)
}
