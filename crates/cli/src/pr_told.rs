//! What automations did: for a person, for a program, and as a report of tests.

use std::{collections::BTreeMap, fmt::Write as _};

use plural_scaffold::files::{Entry, Files};
use serde_json::{Value, json};
use similar::TextDiff;

use crate::{error::CliError, pr_test::Tried, terminal::Terminal};

type Changes = BTreeMap<String, Option<Entry>>;

/// Lines for a person; with the differences where `is_diff`.
pub(crate) fn text(
    tried: &[Tried],
    changes: &Changes,
    disk: &Files,
    is_diff: bool,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    for Tried { name, warnings, done, .. } in tried {
        for warning in warnings {
            terminal.say(format_args!("{name}: {warning}"));
        }
        match done {
            Ok(outcome) => {
                if !outcome.title.is_empty() {
                    terminal.say(format_args!("{name}: {}", outcome.title));
                }
                for warning in &outcome.warnings {
                    terminal.say(format_args!("{name}: {warning}"));
                }
                for skipped in &outcome.skipped {
                    terminal.say(format_args!("{name}: {skipped} is not made: its condition does not hold"));
                }
            }
            Err(error) => terminal.say(format_args!("{name}: {error}")),
        }
    }
    if tried.iter().any(|tried| tried.done.is_err()) {
        return Ok(());
    }
    let mut out = String::new();
    for (path, after) in changes {
        if is_diff {
            out.push_str(&difference(path, disk.get(path), after.as_ref()));
        } else {
            let _ = writeln!(out, "{} {path}", word(disk.get(path), after.as_ref()));
        }
    }
    if changes.is_empty() {
        terminal.say("nothing changes");
    }
    terminal.out.write_all(out.as_bytes())?;
    Ok(())
}

/// One JSON object.
pub(crate) fn json(
    tried: &[Tried],
    disk: &Files,
    changes: &Changes,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let automations: Vec<Value> = tried
        .iter()
        .map(|Tried { name, file, warnings, done, before }| match done {
            Ok(outcome) => json!({
                "name": name,
                "file": file,
                "title": outcome.title,
                "message": outcome.message,
                "changes": listed(before, &outcome.changes),
                "skipped": outcome.skipped,
                "warnings": warnings.iter().chain(&outcome.warnings).collect::<Vec<_>>(),
            }),
            Err(error) => {
                json!({"name": name, "file": file, "error": error.to_string(), "warnings": warnings})
            }
        })
        .collect();
    let all = json!({"automations": automations, "changes": listed(disk, changes)});
    terminal.out.write_all(format!("{all:#}\n").as_bytes())?;
    Ok(())
}

fn listed(before: &Files, changes: &Changes) -> Vec<Value> {
    let one = |(path, after): (&String, &Option<Entry>)| {
        let (old, after) = (before.get(path), after.as_ref());
        json!({"path": path, "change": word(old, after), "diff": difference(path, old, after)})
    };
    changes.iter().map(one).collect()
}

fn word(before: Option<&Entry>, after: Option<&Entry>) -> &'static str {
    match (before, after) {
        (_, None) => "deleted",
        (None, Some(_)) => "created",
        (Some(_), Some(_)) => "changed",
    }
}

/// As `git diff` shows it.
fn difference(path: &str, before: Option<&Entry>, after: Option<&Entry>) -> String {
    let text = |entry: Option<&Entry>| match entry {
        None => Some(String::new()),
        Some(Entry::File(file)) => String::from_utf8(file.bytes.clone()).ok(),
        Some(Entry::Link(target)) => Some(target.clone()),
    };
    let side = |letter: char, entry: Option<&Entry>| match entry {
        None => "/dev/null".to_owned(),
        Some(_) => format!("{letter}/{path}"),
    };
    let (old, new) = (side('a', before), side('b', after));
    match (text(before), text(after)) {
        (Some(before), Some(after)) => TextDiff::from_lines(before.as_str(), after.as_str())
            .unified_diff()
            .header(&old, &new)
            .to_string(),
        _ => format!("Binary files {old} and {new} differ\n"),
    }
}

/// A report in the format of JUnit: a case for each automation, and with `is_validated` one for the files.
pub(crate) fn junit(tried: &[Tried], disk: &Files, changes: &Changes, is_validated: bool) -> String {
    let differs = is_validated && !changes.is_empty();
    let failed = tried.iter().filter(|tried| tried.done.is_err()).count() + usize::from(differs);
    let count = tried.len() + usize::from(is_validated);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"plural pr\" tests=\"{count}\" failures=\"{failed}\">\n"
    );
    for Tried { name, file, done, .. } in tried {
        let problem = done.as_ref().err().map(|error| (error.to_string(), String::new()));
        case(&mut out, file, name, problem);
    }
    if is_validated {
        let differences = || {
            let all = changes.iter().map(|(path, after)| difference(path, disk.get(path), after.as_ref()));
            all.collect::<String>()
        };
        let problem =
            differs.then(|| (format!("{} files are not what is committed", changes.len()), differences()));
        case(&mut out, "files", "are what the automations make of them", problem);
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn case(out: &mut String, class: &str, name: &str, problem: Option<(String, String)>) {
    let (class, name) = (escaped(class), escaped(name));
    let _ = match problem {
        None => writeln!(out, "    <testcase classname=\"{class}\" name=\"{name}\"/>"),
        Some((message, text)) => writeln!(
            out,
            "    <testcase classname=\"{class}\" name=\"{name}\">\n      <failure message=\"{}\">{}</failure>\n    </testcase>",
            escaped(&message),
            escaped(&text)
        ),
    };
}

/// A text as XML writes it; what XML has no way to write is left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}
