//! Tables: their order, and on a screen their width and colours. In a pipe or a file, every cell is whole and plain.

use std::{cmp::Ordering, fmt::Write as _};

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::{
    error::CliError,
    format::{ListOutputArgs, SortBy},
    output::Row,
    plain::one_line,
    terminal::Terminal,
};

/// Columns that may be shortened where the screen is too narrow: all of it is in `describe` and in JSON.
const FREE_TEXT: [&str; 10] = [
    "REASON",
    "MESSAGE",
    "ERROR",
    "URL",
    "DESCRIPTION",
    "WHAT",
    "REPOSITORY",
    "COMMAND",
    "TAGS",
    "WRITTEN AS",
];

/// What a shortened column keeps at least.
const NARROWEST: usize = 12;

/// Between columns.
const GAP: usize = 3;

/// Prints lines of cells, the headings first; only the first `shown` cells of each.
pub(crate) fn print(
    lines: &[Vec<String>],
    shown: usize,
    headings: bool,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let text = aligned(lines, shown, headings, terminal.width(), terminal.has_colours());
    terminal.paint(&text)
}

fn aligned(
    lines: &[Vec<String>],
    shown: usize,
    headings: bool,
    screen: Option<usize>,
    colours: bool,
) -> String {
    let Some(titles) = lines.first() else { return String::new() };
    // As it will be shown, so that columns line up.
    let mut rows: Vec<Vec<String>> = lines
        .iter()
        .skip(usize::from(!headings))
        .map(|line| line.iter().take(shown).map(|cell| one_line(cell)).collect())
        .collect();
    let mut widths: Vec<usize> = (0..shown).map(|column| width(&rows, column)).collect();
    if let Some(screen) = screen {
        shorten(titles, &mut rows, &mut widths, screen);
    }
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let last = row.iter().rposition(|cell| !cell.trim_end().is_empty());
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            if last.is_none_or(|last| column > last) {
                break;
            }
            let is_last = last == Some(column);
            let cell = if is_last { cell.trim_end() } else { cell };
            let colour = titles
                .get(column)
                .filter(|_| colours && (at > 0 || !headings))
                .and_then(|title| colour(title, cell));
            match colour {
                Some(code) => {
                    let _ = write!(text, "\u{1b}[{code}m{cell}\u{1b}[0m");
                }
                None => text.push_str(cell),
            }
            if !is_last {
                let pad = width - cell.chars().count() + GAP;
                let _ = write!(text, "{:pad$}", "");
            }
        }
        text.push('\n');
    }
    text
}

fn width(rows: &[Vec<String>], column: usize) -> usize {
    rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
}

/// Takes from the widest column of free text, and from the next one where that is not enough.
fn shorten(titles: &[String], rows: &mut [Vec<String>], widths: &mut [usize], screen: usize) {
    let mut columns: Vec<usize> = titles
        .iter()
        .take(widths.len())
        .enumerate()
        .filter(|(_, title)| FREE_TEXT.contains(&title.as_str()))
        .map(|(column, _)| column)
        .collect();
    columns.sort_by_key(|column| std::cmp::Reverse(widths.get(*column).copied()));
    for column in columns {
        let all = widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
        let over = all.saturating_sub(screen);
        let Some(width) = widths.get_mut(column) else { continue };
        if over == 0 {
            return;
        }
        let room = width.saturating_sub(over).max(NARROWEST);
        if room >= *width {
            continue;
        }
        *width = room;
        for cell in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
            if cell.chars().count() > room {
                let cut: String = cell.chars().take(room - 1).collect();
                *cell = format!("{}…", cut.trim_end());
            }
        }
    }
}

/// The code of a colour: green for what is well, yellow for what is on its way or waits, red for what is broken.
fn colour(title: &str, cell: &str) -> Option<u8> {
    const GREEN: u8 = 32;
    const YELLOW: u8 = 33;
    const RED: u8 = 31;
    if !matches!(
        title,
        "STATUS" | "STATE" | "READY" | "HEALTHY" | "SYNCED" | "CONNECTED" | "ROLLOUT" | "OUTCOME"
    ) {
        return None;
    }
    let word = cell.split_whitespace().next()?.trim_end_matches([':', ',']).to_lowercase();
    if let Some((well, all)) = word.split_once('/') {
        let (well, all): (u64, u64) = (well.parse().ok()?, all.parse().ok()?);
        return Some(if well >= all { GREEN } else { YELLOW });
    }
    match word.as_str() {
        "ready" | "healthy" | "synced" | "pullable" | "ok" | "complete" | "succeeded" | "repaired"
        | "yes" => Some(GREEN),
        "progressing" | "stale" | "waiting" | "paused" | "pending" | "deleting" | "silent" | "outdated"
        | "soaking" | "undoing" | "halted" | "held" | "running" => Some(YELLOW),
        "failed" | "lost" | "dead" | "error" | "broken" | "disconnected" | "fight" => Some(RED),
        _ => None,
    }
}

/// Items in the order that `--sort-by` wants.
pub(crate) fn sorted<'i, T: Row>(
    items: &'i [T],
    args: &ListOutputArgs,
    now: DateTime<Utc>,
) -> Result<Vec<&'i T>, CliError> {
    let keys = match &args.sort_by {
        None => return Ok(items.iter().collect()),
        Some(SortBy::Heading(heading)) => {
            let (headings, _) = T::HEADINGS;
            let same = |one: &str| normal(one) == normal(heading);
            let column = headings.iter().position(|one| same(one)).ok_or_else(|| {
                CliError::usage(format!(
                    "there is no column {heading:?}; the columns are {}",
                    headings.join(", ")
                ))
                .hint("a field of the JSON is named as .name")
            })?;
            let cells = items.iter().map(|item| item.cells(now).into_iter().nth(column).unwrap_or_default());
            of_cells(cells.collect())
        }
        Some(SortBy::Field(..)) => {
            let values: Vec<Value> =
                items.iter().map(|item| serde_json::to_value(item).unwrap_or_default()).collect();
            of_fields(&values, args)?
        }
    };
    let mut both: Vec<(Key, &T)> = keys.into_iter().zip(items).collect();
    both.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(both.into_iter().map(|(_, item)| item).collect())
}

/// The places of documents in the order that `--sort-by` wants, which has to be a path.
pub(crate) fn order(documents: &[Value], args: &ListOutputArgs) -> Result<Vec<usize>, CliError> {
    let keys = match &args.sort_by {
        None => return Ok((0..documents.len()).collect()),
        Some(SortBy::Heading(heading)) => {
            return Err(CliError::usage(format!("documents have no column {heading:?}"))
                .hint("sort them by a field, as --sort-by .metadata.name"));
        }
        Some(SortBy::Field(..)) => of_fields(documents, args)?,
    };
    let mut both: Vec<(Key, usize)> = keys.into_iter().zip(0..).collect();
    both.sort();
    Ok(both.into_iter().map(|(_, place)| place).collect())
}

/// Headings however they are written: `LAST PING`, `last-ping`.
fn normal(heading: &str) -> String {
    heading.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// What is compared; what is not there comes last.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Seconds(u64),
    Number(Number),
    Text(Vec<Part>, String),
    Nothing,
}

#[derive(Debug, PartialEq)]
struct Number(f64);

impl Eq for Number {}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A run of digits, or of anything else.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Without leading zeros: more digits are a larger number.
    Digits(usize, String),
    Letters(String),
}

fn of_cells(cells: Vec<String>) -> Vec<Key> {
    let is_there = |cell: &str| !cell.is_empty() && cell != "-";
    let ages = cells.iter().filter(|cell| is_there(cell)).all(|cell| seconds(cell).is_some());
    let key = |cell: String| match seconds(&cell).filter(|_| ages) {
        Some(seconds) => Key::Seconds(seconds),
        None if is_there(&cell) => text(cell),
        None => Key::Nothing,
    };
    cells.into_iter().map(key).collect()
}

fn of_fields(values: &[Value], args: &ListOutputArgs) -> Result<Vec<Key>, CliError> {
    let Some(SortBy::Field(path, written)) = &args.sort_by else { return Ok(Vec::new()) };
    let mut any = values.is_empty();
    let mut keys = Vec::with_capacity(values.len());
    for value in values {
        // An index that one of them does not have is nothing of that one.
        let found = path.find(value).unwrap_or_default();
        any |= !found.is_empty();
        keys.push(match found.first() {
            None | Some(Value::Null) => Key::Nothing,
            Some(Value::Number(number)) => Key::Number(Number(number.as_f64().unwrap_or_default())),
            Some(value) => text(crate::jsonpath::printed(value)),
        });
    }
    if any {
        return Ok(keys);
    }
    let mut hint = "`-o json` shows the fields there are".to_owned();
    if let Some(Value::Object(fields)) = values.first() {
        let names: Vec<String> = fields.keys().map(|name| format!(".{name}")).collect();
        hint = format!("its fields are {}", names.join(", "));
    }
    Err(CliError::usage(format!("nothing in the list has the field {written}")).hint(hint))
}

/// An age as a table shows it.
fn seconds(cell: &str) -> Option<u64> {
    let unit = match cell.chars().last()? {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    cell.get(..cell.len() - 1)?.parse::<u64>().ok()?.checked_mul(unit)
}

fn text(cell: String) -> Key {
    let mut parts: Vec<Part> = Vec::new();
    for letter in cell.chars() {
        match (parts.last_mut(), letter.is_ascii_digit()) {
            (Some(Part::Digits(length, digits)), true) => {
                if digits == "0" {
                    digits.clear();
                }
                digits.push(letter);
                *length = digits.len();
            }
            (_, true) => parts.push(Part::Digits(1, letter.to_string())),
            (Some(Part::Letters(letters)), false) => letters.extend(letter.to_lowercase()),
            (_, false) => parts.push(Part::Letters(letter.to_lowercase().collect())),
        }
    }
    Key::Text(parts, cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|&cell| cell.to_owned()).collect()).collect()
    }

    #[test]
    fn cells_are_compared_as_people_do() {
        let order = |cells: &[&str]| {
            let mut both: Vec<_> = of_cells(cells.iter().map(|&cell| cell.to_owned()).collect())
                .into_iter()
                .zip(cells)
                .collect();
            both.sort_by(|one, other| one.0.cmp(&other.0));
            both.into_iter().map(|(_, cell)| *cell).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(order(&["3h", "12d", "-", "119s", "7m"]), "119s 7m 3h 12d -");
        assert_eq!(order(&["web-10", "web-9", "Web-2", "db"]), "db Web-2 web-9 web-10");
        assert_eq!(order(&["v1.36.2", "v1.9.10", "v1.9.9", "-"]), "v1.9.9 v1.9.10 v1.36.2 -");
        assert_eq!(order(&["10/10", "2/3", "2/10"]), "2/3 2/10 10/10");
        assert_eq!(order(&["10", "9", "007"]), "007 9 10");
    }

    #[test]
    fn a_table_fits_the_screen_where_free_text_can_give_way() {
        let table = lines(&[
            &["SERVICE", "STATUS", "REASON", "URL"],
            &["blue/web", "STALE", "waits for the deletion of a volume", "https://git.example.com/a"],
        ]);
        let shown = |width| aligned(&table, 4, true, Some(width), false);
        assert!(shown(200).contains("waits for the deletion of a volume"));
        assert_eq!(
            shown(70),
            "SERVICE    STATUS   REASON                   URL\n\
             blue/web   STALE    waits for the deletio…   https://git.example.com/a\n"
        );
        for width in [50, 60, 70] {
            assert!(shown(width).lines().all(|line| line.chars().count() <= width), "{}", shown(width));
        }
        assert!(shown(10).contains("blue/web   STALE    waits for t…   https://git…\n"), "{}", shown(10));
        assert!(aligned(&table, 4, true, None, false).contains("volume   https://git.example.com/a\n"));
    }

    #[test]
    fn states_have_colours_and_line_up() {
        let table = lines(&[
            &["READY", "STATUS", "NAME"],
            &["2/2", "HEALTHY", "ready"],
            &["0/2", "FAILED", "b"],
            &["-", "Waiting", "\u{1b}[31m"],
        ]);
        assert_eq!(
            aligned(&table, 3, true, None, true),
            "READY   STATUS    NAME\n\
             \u{1b}[32m2/2\u{1b}[0m     \u{1b}[32mHEALTHY\u{1b}[0m   ready\n\
             \u{1b}[33m0/2\u{1b}[0m     \u{1b}[31mFAILED\u{1b}[0m    b\n\
             -       \u{1b}[33mWaiting\u{1b}[0m   \\u{1b}[31m\n"
        );
        assert!(aligned(&table, 2, false, None, false).starts_with("2/2   HEALTHY\n"));
    }
}
