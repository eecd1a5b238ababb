//! Regexes of automations: those of Go, which public automations are written for.

use plural_render::go_regex;
use regex::Regex;

/// Bytes of a regex.
const MAX_REGEX: usize = 4096;

/// A regex; it takes no more than linear time, and bounded memory.
pub(crate) fn regex_of(text: &str) -> Result<Regex, String> {
    if text.len() > MAX_REGEX {
        return Err(format!("a regex is longer than {MAX_REGEX} bytes"));
    }
    go_regex(text).map(|compiled| compiled.regex)
}

/// A text as a regex, or a part of one, that finds it alone; also where it stands in a class.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$-".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
