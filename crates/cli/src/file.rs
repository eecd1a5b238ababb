//! Files that a person names.

use std::{io::Read as _, path::Path};

use serde_json::{Map, Value};

use crate::{error::CliError, terminal::Terminal};

/// Bytes that are taken from standard input: nobody means to send more.
const MOST: usize = 1 << 20;

/// The text of a file; `what` says what it should be.
pub(crate) fn text(what: &str, path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|error| unreadable(what, path, &error))
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn text_or_input(
    what: &str,
    path: &Path,
    terminal: &mut Terminal<'_>,
) -> Result<String, CliError> {
    if path == Path::new("-") { standard_input(what, terminal) } else { text(what, path) }
}

/// A mapping from a JSON or YAML file, or from standard input for `-`.
pub(crate) fn mapping(
    what: &str,
    path: &Path,
    terminal: &mut Terminal<'_>,
) -> Result<Map<String, Value>, CliError> {
    let text = text_or_input(what, path, terminal)?;
    let value: Value = serde_saphyr::from_str(&text).map_err(|_| {
        // The parser quotes the text, which may hold secrets.
        CliError::usage(format!("{} is neither JSON nor YAML", path.display()))
    })?;
    match value {
        Value::Object(mapping) => Ok(mapping),
        _ => {
            Err(CliError::usage(format!("{} must be a mapping of names to values ({what})", path.display())))
        }
    }
}

fn standard_input(what: &str, terminal: &mut Terminal<'_>) -> Result<String, CliError> {
    let mut text = String::new();
    // One more than there may be: what was cut short could still be read as something.
    terminal
        .input
        .take(MOST as u64 + 1)
        .read_to_string(&mut text)
        .map_err(|error| unreadable(what, Path::new("-"), &error))?;
    if text.len() > MOST {
        return Err(CliError::usage(format!("{what} on standard input must not exceed {} MiB", MOST >> 20))
            .hint("give it as a file"));
    }
    Ok(text)
}

fn unreadable(what: &str, path: &Path, error: &std::io::Error) -> CliError {
    CliError::new(format!("cannot read {what} {}: {error}", path.display()))
}
