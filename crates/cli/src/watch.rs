//! `--watch`: print a list, then what changes in it.

use std::{collections::HashMap, time::Duration};

use chrono::{DateTime, Utc};
use plural_wire::ClientError;

use crate::{
    error::CliError,
    format::{Format, ListOutputArgs},
    output::{self, Row},
    plain, table,
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
    let mut away = false;
    loop {
        let items = match look().await {
            Ok(items) => items,
            Err(error) if !first && is_passing(&error) => {
                if !away {
                    terminal.say(format_args!("{error}; trying again"));
                    away = true;
                }
                tokio::time::sleep(INTERVAL).await;
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        away = false;
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
                let line = serde_json::to_string(item)
                    .map_err(|error| CliError::new(format!("cannot print the answer as JSON: {error}")))?;
                writeln!(terminal.out, "{}", plain::json(&line))?;
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
