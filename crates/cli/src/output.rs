//! How answers are printed: tables for people, JSON and YAML for programs, names for shells.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    args::VersionFormat,
    error::CliError,
    format::{Column, Format, ListOutputArgs},
    jsonpath::{self, Template},
    plain::{self, one_line},
    table,
    terminal::Terminal,
};

/// Something that has a place in a table.
pub(crate) trait Row: Serialize {
    /// Headings, and how many of them are shown without `wide`.
    const HEADINGS: (&'static [&'static str], usize);
    /// What nobody sees twice: identifies the item while watching.
    fn id(&self) -> &str;
    /// As `kind/name`.
    fn name(&self) -> String;
    /// One cell for each heading.
    fn cells(&self, now: DateTime<Utc>) -> Vec<String>;
}

/// Prints a list.
pub(crate) fn list<T: Row>(
    items: &[T],
    args: &ListOutputArgs,
    nothing: &str,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let now = Utc::now();
    let items = table::sorted(items, args, now)?;
    match &args.output {
        Format::Name => {
            for item in items {
                writeln!(terminal.out, "{}", one_line(&item.name()))?;
            }
            Ok(())
        }
        Format::Table | Format::Wide if items.is_empty() => {
            terminal.say(nothing);
            Ok(())
        }
        Format::Table | Format::Wide => {
            let (lines, shown) = lines(&items, args.output == Format::Wide, now);
            table::print(&lines, shown, !args.no_headers, terminal)
        }
        _ => program(&items, args, terminal),
    }
}

/// Prints one item as a list would, for commands that create or change it.
pub(crate) fn item<T: Row>(item: &T, format: &Format, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    match format {
        Format::Name => Ok(writeln!(terminal.out, "{}", one_line(&item.name()))?),
        Format::Table | Format::Wide => {
            let (lines, shown) = lines(&[item], *format == Format::Wide, Utc::now());
            table::print(&lines, shown, true, terminal)
        }
        _ => program_one(item, format, terminal),
    }
}

/// Prints all that is known of an item: as a program reads it, or in words.
pub(crate) fn described<T: Serialize, I: Row>(
    known: &T,
    item: &I,
    format: &Format,
    terminal: &mut Terminal<'_>,
    words: impl FnOnce() -> String,
) -> Result<(), CliError> {
    match format {
        Format::Name => Ok(writeln!(terminal.out, "{}", one_line(&item.name()))?),
        Format::Table | Format::Wide => Ok(write!(terminal.out, "{}", words())?),
        _ => program_one(known, format, terminal),
    }
}

/// Prints what is shown only once: the bare text, for people and pipes, or all that is known of it as a program reads it. Where a
/// template leaves out one of the secrets, or cannot be filled in, the text goes to standard error: nobody can ask for it again.
pub(crate) fn told_once<T: Serialize>(
    known: &T,
    text: &str,
    secrets: &[&str],
    format: &Format,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match format {
        Format::Table | Format::Wide => Ok(writeln!(terminal.out, "{text}")?),
        Format::Json | Format::Yaml | Format::Name => program_one(known, format, terminal),
        Format::JsonPath(_) | Format::Columns(_) => {
            let shown = chosen(format, &value(known)?).unwrap_or_default();
            if !secrets.iter().all(|secret| shown.contains(secret)) {
                terminal.say("what was asked for leaves this out, and it is not shown again:");
                terminal.say(text);
            }
            program_one(known, format, terminal)
        }
    }
}

/// What a template makes of a document; nothing where there is none, or it cannot be filled in.
pub(crate) fn chosen(format: &Format, document: &Value) -> Option<String> {
    match format {
        Format::JsonPath(template) => template.render(document).ok(),
        Format::Columns(columns) => Some(columns.iter().map(|column| found(column, document)).collect()),
        Format::Json | Format::Yaml | Format::Table | Format::Wide | Format::Name => None,
    }
}

/// A token that was made, as a program reads it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MadeToken<'a> {
    pub(crate) id: &'a str,
    /// It is not told again.
    pub(crate) token: &'a str,
    pub(crate) expires_at: Option<DateTime<Utc>>,
}

/// Prints a list as JSON, or as what is made of JSON. Tables and names are the caller's.
pub(crate) fn program<T: Serialize>(
    items: &[T],
    args: &ListOutputArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match &args.output {
        Format::Yaml => yaml(items, terminal),
        Format::JsonPath(template) => {
            // Where kubectl's users look for the items.
            templated(template, &json!({ "items": value(items)? }), terminal)
        }
        Format::Columns(chosen) => {
            let items: Vec<Value> = items.iter().map(value).collect::<Result<_, _>>()?;
            custom_columns(&items, chosen, !args.no_headers, terminal)
        }
        Format::Json | Format::Table | Format::Wide | Format::Name => json(items, terminal),
    }
}

/// Prints one thing as JSON, or as what is made of JSON. Tables and names are the caller's.
pub(crate) fn program_one<T: Serialize>(
    item: &T,
    format: &Format,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match format {
        Format::Yaml => yaml(item, terminal),
        Format::JsonPath(template) => templated(template, &value(item)?, terminal),
        Format::Columns(chosen) => custom_columns(&[value(item)?], chosen, true, terminal),
        Format::Json | Format::Table | Format::Wide | Format::Name => json(item, terminal),
    }
}

pub(crate) fn value<T: Serialize + ?Sized>(of: &T) -> Result<Value, CliError> {
    serde_json::to_value(of)
        .map_err(|error| CliError::new(format!("cannot print the answer as JSON: {error}")))
}

/// What a template makes of a document, without a line break that it does not have.
fn templated(template: &Template, document: &Value, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let text = template.render(document).map_err(|error| {
        CliError::new(format!("the template cannot be filled in: {error}"))
            .hint("`-o json` shows the fields there are; those of a list are below .items")
    })?;
    Ok(write!(terminal.out, "{text}")?)
}

/// A table as `-o custom-columns` of kubectl.
pub(crate) fn custom_columns(
    items: &[Value],
    chosen: &[Column],
    headings: bool,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut lines: Vec<Vec<String>> = vec![chosen.iter().map(|column| column.heading.clone()).collect()];
    for item in items {
        lines.push(chosen.iter().map(|column| found(column, item)).collect());
    }
    table::print(&lines, chosen.len(), headings, terminal)
}

fn found(column: &Column, item: &Value) -> String {
    // An index that one of them does not have is nothing of that one.
    let found: Vec<String> = column
        .path
        .find(item)
        .unwrap_or_default()
        .into_iter()
        .filter(|value| !value.is_null())
        .map(jsonpath::printed)
        .collect();
    if found.is_empty() { "<none>".to_owned() } else { found.join(",") }
}

/// The lines of a table, headings first, and how many of their cells are shown.
pub(crate) fn lines<T: Row>(items: &[&T], wide: bool, now: DateTime<Utc>) -> (Vec<Vec<String>>, usize) {
    let (headings, narrow) = T::HEADINGS;
    let shown = if wide { headings.len() } else { narrow };
    let mut lines: Vec<Vec<String>> = vec![headings.iter().map(|&heading| heading.to_owned()).collect()];
    lines.extend(items.iter().map(|item| item.cells(now)));
    (lines, shown)
}

/// Pretty JSON.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| CliError::new(format!("cannot print the answer as JSON: {error}")))?;
    Ok(writeln!(terminal.out, "{}", plain::json(&text))?)
}

/// YAML.
pub(crate) fn yaml<T: Serialize + ?Sized>(value: &T, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    Ok(write!(terminal.out, "{}", yaml_text(value)?)?)
}

/// YAML, ending in a line break.
pub(crate) fn yaml_text<T: Serialize + ?Sized>(value: &T) -> Result<String, CliError> {
    // Through JSON values, so that every format shows the same fields and order.
    let text = serde_json::to_value(value)
        .map_err(|error| error.to_string())
        .and_then(|value| serde_saphyr::to_string(&value).map_err(|error| error.to_string()))
        .map_err(|error| CliError::new(format!("cannot print the answer as YAML: {error}")))?;
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}

/// Aligned columns, three spaces apart, without trailing spaces.
#[cfg(test)]
pub(crate) fn table<T: Row>(items: &[T], wide: bool, now: DateTime<Utc>) -> String {
    let items: Vec<&T> = items.iter().collect();
    let (lines, shown) = lines(&items, wide, now);
    columns(&lines, shown)
}

/// Lines of cells as aligned columns; only the first `shown` cells of each.
pub(crate) fn columns(lines: &[Vec<String>], shown: usize) -> String {
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..shown).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            let pad = width - cell.chars().count() + 3;
            let _ = write!(row, "{cell}{:pad$}", "");
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

/// How long ago, as kubectl writes it: `45s`, `7m`, `3h`, `12d`.
pub(crate) fn age(then: Option<DateTime<Utc>>, now: DateTime<Utc>) -> String {
    let Some(then) = then else { return "-".into() };
    let seconds = (now - then).num_seconds().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// A number with its noun: `1 object`, `2 objects`, `3 repositories`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

/// Characters of a text in a table; the rest is in `describe` and in JSON.
const LONGEST_CELL: usize = 72;

/// A text of any length as a cell.
pub(crate) fn cell(text: Option<&str>) -> String {
    let text = or_dash(text);
    if text.chars().count() <= LONGEST_CELL {
        return text;
    }
    let cut: String = text.chars().take(LONGEST_CELL - 1).collect();
    format!("{}…", cut.trim_end())
}

/// How many of those that stay are well, and how many are going: `2/3`, or `2/2 (1 leaving)`.
pub(crate) fn share(well: i64, all: i64, leaving: i64) -> String {
    let staying = (all - leaving).max(0);
    if leaving == 0 { format!("{well}/{staying}") } else { format!("{well}/{staying} ({leaving} leaving)") }
}

/// A value or a dash; what is no text (a name may come from anywhere) becomes spaces.
pub(crate) fn or_dash(text: Option<&str>) -> String {
    match text {
        Some(text) if !text.is_empty() => {
            text.chars().map(|letter| if plain::is_text(letter) { letter } else { ' ' }).collect()
        }
        _ => "-".into(),
    }
}

/// `plural version`.
pub(crate) fn version(format: VersionFormat, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    #[derive(Serialize)]
    struct Version {
        version: &'static str,
    }
    let version = Version { version: env!("CARGO_PKG_VERSION") };
    match format {
        VersionFormat::Text => Ok(writeln!(terminal.out, "plural {}", version.version)?),
        VersionFormat::Json => json(&version, terminal),
        VersionFormat::Yaml => yaml(&version, terminal),
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn ages_are_short() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(400);
        let ago = |seconds| age(Some(now - TimeDelta::seconds(seconds)), now);
        assert_eq!(ago(-5), "0s");
        assert_eq!(ago(119), "119s");
        assert_eq!(ago(120), "2m");
        assert_eq!(ago(7_200), "2h");
        assert_eq!(ago(172_800), "2d");
        assert_eq!(age(None, now), "-");
    }

    #[test]
    fn columns_line_up_and_do_not_trail() {
        let lines =
            [vec!["A".into(), "B".into(), "C".into()], vec!["long".into(), String::new(), "x".into()]];
        assert_eq!(columns(&lines, 2), "A      B\nlong\n");
    }
}
