//! An error says what went wrong, its source why: whoever prints the chain prints each text once.

use super::{Findings, SourceFile};

const MARKS: [&str; 2] = ["#[source]", "#[from]"];

pub(super) fn check(files: &[SourceFile], findings: &mut Findings) {
    for file in files.iter().filter(|file| file.is_rust() && file.path.starts_with("crates/")) {
        let Some(text) = &file.text else { continue };
        for name in told_twice(text) {
            findings.error(format!(
                "{}: the message of {name} holds its source, which every chain prints again: leave it to the chain",
                file.path
            ));
        }
    }
}

/// Names of errors whose `#[error("…")]` shows the field that is their source.
fn told_twice(text: &str) -> Vec<String> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut found = Vec::new();
    for after in code.split("#[error(").skip(1) {
        let Some((message, item)) = after.split_once(")]") else { continue };
        let item = item.trim_start().trim_start_matches("pub ").trim_start_matches("struct ");
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        let name: String = item.chars().take_while(|c| is_name(*c)).collect();
        let body = item.get(name.len()..).unwrap_or_default().trim_start();
        let field = match body.chars().next() {
            Some('(') => group(body, '(', ')').and_then(positional),
            Some('{') => group(body, '{', '}').and_then(named),
            _ => None,
        };
        let is_shown = |field: &String| {
            [format!("{{{field}}}"), format!("{{{field}:")].iter().any(|f| message.contains(f))
        };
        if field.as_ref().is_some_and(is_shown) {
            found.push(name);
        }
    }
    found
}

/// What stands between a bracket and the one that closes it.
fn group(text: &str, open: char, close: char) -> Option<&str> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return text.get(open.len_utf8()..at);
            }
        }
    }
    None
}

/// The number of the field that is the source.
fn positional(fields: &str) -> Option<String> {
    let at = MARKS.iter().find_map(|mark| fields.find(mark))?;
    let mut depth = 0_i32;
    let mut number = 0;
    for c in fields.get(..at)?.chars() {
        match c {
            '<' | '(' => depth += 1,
            '>' | ')' => depth -= 1,
            ',' if depth == 0 => number += 1,
            _ => {}
        }
    }
    Some(number.to_string())
}

/// The name of the field that is the source: it is marked, or called so.
fn named(fields: &str) -> Option<String> {
    let name = |field: &str| {
        let (name, _) = field.split_once(':')?;
        Some(name.trim().trim_start_matches("pub ").to_owned())
    };
    let marked = MARKS.iter().find_map(|mark| fields.split_once(mark)).and_then(|(_, after)| name(after));
    marked.or_else(|| fields.lines().filter_map(name).find(|name| name == "source"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_holds_its_source_is_found() {
        let text = "\
enum Error {
    /// (A, comment).
    #[error(\"cannot read: {0}\")]
    Read(#[from] io::Error),
    #[error(\"cannot read {0}\")]
    Of(String, #[source] io::Error),
    #[error(\"cannot read {0}: {1}\")]
    Both(String, #[source] io::Error),
    #[error(\"cannot listen on {address}: {cause:?}\")]
    Listen {
        /// Where.
        address: SocketAddr,
        #[source]
        cause: io::Error,
    },
    #[error(\"cannot {doing}\")]
    Named { doing: String, source: io::Error },
    #[error(\"{cause}\")]
    NoSource { cause: io::Error },
    #[error(transparent)]
    Other(#[from] Other),
    #[error(\"nothing\")]
    Nothing,
}

#[error(\"it failed: {source}\")]
pub struct Failed {
    pub source: io::Error,
}
";
        assert_eq!(told_twice(text), ["Read", "Both", "Listen", "Failed"]);
    }
}
