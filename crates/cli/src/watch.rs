//! `--watch`: print a list, then what changes in it; or one thing, again whenever it changes.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, Utc};
use plural_wire::ClientError;
use serde::Serialize;

use crate::{
    error::CliError,
    format::{Format, ListOutputArgs},
    output::{self, Row},
    plain::{self, one_line},
    table,
    terminal::Terminal,
    wait::is_passing,
};

/// How often we look.
const INTERVAL: Duration = Duration::from_secs(2);

/// Prints what `look` finds, and from then on every item that is new, changed or gone, until the
/// process is interrupted.
pub(crate) async fn watch<T: Row>(
    args: &ListOutputArgs,
    nothing: &str,
    terminal: &mut Terminal<'_>,
    mut look: impl AsyncFnMut() -> Result<Vec<T>, ClientError>,
) -> Result<(), CliError> {
    let mut known: HashMap<String, serde_json::Value> = HashMap::new();
    let mut first = true;
    let mut away = Away::default();
    loop {
        let items = match look().await {
            Ok(items) => items,
            Err(error) if !first => {
                away.say(error, terminal)?;
                tokio::time::sleep(INTERVAL).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        away = Away::default();
        let mut now_known = HashMap::with_capacity(items.len());
        let mut changed = Vec::new();
        for item in items {
            let value = shown(&item, &args.output);
            let is_known = known.remove(item.id()).as_ref() == Some(&value);
            now_known.insert(item.id().to_owned(), value);
            if !is_known {
                changed.push(item);
            }
        }
        for gone in known.into_values() {
            let name = gone.get(0).and_then(serde_json::Value::as_str);
            terminal.say(format_args!("{} is gone", name.unwrap_or("an item")));
        }
        print(&changed, first, args, nothing, terminal)?;
        terminal.out.flush()?;
        known = now_known;
        first = false;
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Something that a command describes, and goes on to watch.
pub(crate) trait Described: Serialize {
    /// As `kind/name`.
    fn named(&self) -> String;
    /// All that is known of it, in lines for a person.
    fn words(&self, now: DateTime<Utc>) -> String;
    /// Whether it has come to its end.
    fn is_over(&self) -> bool;
}

/// Prints one thing, and again whenever what is shown of it changed, until it is over: how it stands then. One that is never over
/// is watched until the process is interrupted.
pub(crate) async fn watch_one<T: Described>(
    mut known: T,
    format: &Format,
    terminal: &mut Terminal<'_>,
    mut look: impl AsyncFnMut() -> Result<T, ClientError>,
) -> Result<T, CliError> {
    let mut away = Away::default();
    print_one(&known, true, format, terminal)?;
    while !known.is_over() {
        tokio::time::sleep(INTERVAL).await;
        let now = match look().await {
            Ok(now) => now,
            Err(error) if error.is_not_found() => {
                return Err(CliError::new(format!("{} is gone", one_line(&known.named()))));
            }
            Err(error) => {
                away.say(error, terminal)?;
                continue;
            }
        };
        away = Away::default();
        if compared(&now, format) != compared(&known, format) {
            print_one(&now, false, format, terminal)?;
        }
        known = now;
    }
    Ok(known)
}

/// Whether it was said that the console does not answer.
#[derive(Default)]
struct Away(bool);

impl Away {
    /// Says once that it is asked again, where it may be back in a moment.
    fn say(&mut self, error: ClientError, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
        if !is_passing(&error) {
            return Err(error.into());
        }
        if !self.0 {
            terminal.say(format_args!("{error}; trying again"));
            self.0 = true;
        }
        Ok(())
    }
}

/// What a person or a program would see of an item: it is printed again when that changed.
fn shown<T: Row>(item: &T, format: &Format) -> serde_json::Value {
    let shown = match format {
        // Ages grow by themselves: all rows are compared as of one time.
        Format::Table | Format::Wide => serde_json::to_value((item.name(), item.cells(DateTime::UNIX_EPOCH))),
        _ => serde_json::to_value((item.name(), item)),
    };
    shown.unwrap_or_default()
}

fn print<T: Row>(
    changed: &[T],
    first: bool,
    args: &ListOutputArgs,
    nothing: &str,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let now = Utc::now();
    // An order is one of what is printed at once: what comes later, comes below.
    match &args.output {
        // One document per item, so that a program can read the stream as it comes.
        Format::Json => {
            for item in table::sorted(changed, args, now)? {
                json_line(item, terminal)?;
            }
        }
        Format::Yaml => {
            for item in table::sorted(changed, args, now)? {
                write!(terminal.out, "---\n{}", output::yaml_text(item)?)?;
            }
        }
        // Each item by itself, as kubectl does, and on a line of its own.
        Format::JsonPath(_) => {
            for item in table::sorted(changed, args, now)? {
                output::program_one(item, &args.output, terminal)?;
                writeln!(terminal.out)?;
            }
        }
        Format::Table | Format::Wide | Format::Name | Format::Columns(_) => {
            if changed.is_empty() && !first {
                return Ok(());
            }
            // Later rows come without the headings, which are still on the screen.
            let args = ListOutputArgs { no_headers: args.no_headers || !first, ..args.clone() };
            output::list(changed, &args, nothing, terminal)?;
        }
    }
    Ok(())
}

/// JSON on one line.
fn json_line<T: Serialize>(item: &T, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let line = serde_json::to_string(item)
        .map_err(|error| CliError::new(format!("cannot print the answer as JSON: {error}")))?;
    Ok(writeln!(terminal.out, "{}", plain::json(&line))?)
}

/// What would be seen of one thing: it is printed again when that changed.
fn compared<T: Described>(known: &T, format: &Format) -> String {
    match format {
        // Ages grow by themselves: both are compared as of one time.
        Format::Table | Format::Wide => known.words(DateTime::UNIX_EPOCH),
        Format::Json | Format::Yaml | Format::Name | Format::JsonPath(_) | Format::Columns(_) => {
            let value = serde_json::to_value(known).unwrap_or_default();
            output::chosen(format, &value).unwrap_or_else(|| value.to_string())
        }
    }
}

fn print_one<T: Described>(
    known: &T,
    first: bool,
    format: &Format,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match format {
        Format::Table | Format::Wide => {
            // What was printed before stays above it.
            if !first {
                writeln!(terminal.out)?;
            }
            write!(terminal.out, "{}", known.words(Utc::now()))?;
        }
        Format::Name => writeln!(terminal.out, "{}", one_line(&known.named()))?,
        Format::Json => json_line(known, terminal)?,
        Format::Yaml => write!(terminal.out, "---\n{}", output::yaml_text(known)?)?,
        Format::JsonPath(_) => {
            output::program_one(known, format, terminal)?;
            writeln!(terminal.out)?;
        }
        Format::Columns(columns) => {
            output::custom_columns(&[output::value(known)?], columns, first, terminal)?;
        }
    }
    Ok(terminal.out.flush()?)
}
