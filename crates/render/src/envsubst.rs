//! `${NAME}` in manifests, replaced by values of the service's configuration, as Flux and shells do it.
//!
//! # Guarantees
//! - Values come from the given map: the environment of the process is never read.
//! - What is put in is not looked at again: a value that holds `${…}` stays as it is.
//! - Output and nesting are limited; an error names line and variable, never a value.

use std::collections::BTreeMap;

/// Bytes that come out.
const MAX_OUTPUT_BYTES: usize = 64 << 20;
/// Expressions inside the words of expressions.
const MAX_NESTING: usize = 20;

/// Why a text cannot be substituted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SubstituteError {
    /// 1-based line of the expression.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

/// Replaces the expressions in `text`.
///
/// | expression | becomes |
/// |---|---|
/// | `${NAME}` | the value; nothing when there is none |
/// | `${NAME:-word}`, `${NAME-word}` | the value, else the word; with the colon an empty value counts as none |
/// | `${NAME:=word}`, `${NAME=word}` | the same, and the word is the value of `NAME` from there on |
/// | `${NAME:+word}`, `${NAME+word}` | the word if there is a value, else nothing |
/// | `${NAME:?word}`, `${NAME?word}` | the value, else an error with the word |
/// | `${#NAME}` | how many characters the value has |
/// | `${NAME^}` `${NAME^^}` `${NAME,}` `${NAME,,}` | the value with its first or all letters in upper or lower case |
/// | `$${NAME}` | `${NAME}` as it stands |
///
/// Words may hold expressions. A `$` before anything else is a plain character, so `$NAME` stays.
///
/// # Errors
/// See [`SubstituteError`].
pub fn envsubst(text: &str, values: &BTreeMap<String, String>) -> Result<String, SubstituteError> {
    let mut run = Run { text, at: 0, values, assigned: BTreeMap::new(), written: 0 };
    let mut out = String::with_capacity(text.len());
    run.copy(&mut out, 0)?;
    Ok(out)
}

struct Run<'a> {
    text: &'a str,
    /// Byte that is read next.
    at: usize,
    values: &'a BTreeMap<String, String>,
    /// What `:=` has set.
    assigned: BTreeMap<&'a str, String>,
    /// Bytes made so far, those of words that are not used too.
    written: usize,
}

impl<'a> Run<'a> {
    fn fail<T>(&self, at: usize, message: impl Into<String>) -> Result<T, SubstituteError> {
        let before = self.text.get(..at).unwrap_or_default();
        Err(SubstituteError { line: before.matches('\n').count() + 1, message: message.into() })
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Copies and replaces up to the end of the text, or of the word when `depth` is not 0.
    fn copy(&mut self, out: &mut String, depth: usize) -> Result<(), SubstituteError> {
        loop {
            let rest = self.rest();
            let stop = if depth == 0 { rest.find('$') } else { rest.find(['$', '}']) };
            let plain = rest.get(..stop.unwrap_or(rest.len())).unwrap_or_default();
            self.put(out, plain)?;
            self.at += plain.len();
            let rest = self.rest();
            if rest.starts_with("$${") {
                self.put(out, "${")?;
                self.at += 3;
            } else if rest.starts_with("${") {
                self.expression(out, depth)?;
            } else if rest.starts_with('$') {
                self.put(out, "$")?;
                self.at += 1;
            } else {
                return Ok(());
            }
        }
    }

    fn put(&mut self, out: &mut String, piece: &str) -> Result<(), SubstituteError> {
        self.written += piece.len();
        if self.written > MAX_OUTPUT_BYTES {
            let limit = MAX_OUTPUT_BYTES >> 20;
            return self.fail(self.at, format!("substitution makes more than {limit} MiB (limit of output)"));
        }
        out.push_str(piece);
        Ok(())
    }

    fn expression(&mut self, out: &mut String, depth: usize) -> Result<(), SubstituteError> {
        let start = self.at;
        if depth >= MAX_NESTING {
            return self.fail(start, format!("${{…}} inside ${{…}} nests deeper than {MAX_NESTING}"));
        }
        self.at += 2;
        let counts = self.rest().starts_with('#');
        self.at += usize::from(counts);
        let name = self.name(start)?;
        let value = self.assigned.get(name).or_else(|| self.values.get(name)).cloned();
        if counts {
            let count = value.unwrap_or_default().chars().count();
            self.close(start)?;
            return self.put(out, &count.to_string());
        }
        if self.rest().starts_with('}') {
            self.at += 1;
            return self.put(out, &value.unwrap_or_default());
        }
        if let Some((operator, change)) = CASES.iter().find(|(text, _)| self.rest().starts_with(text)) {
            self.at += operator.len();
            self.close(start)?;
            return self.put(out, &change(&value.unwrap_or_default()));
        }
        let colon = self.rest().starts_with(':');
        self.at += usize::from(colon);
        let operator = self.rest().chars().next().unwrap_or_default();
        if !matches!(operator, '-' | '=' | '+' | '?') {
            return self.fail(
                start,
                format!(
                    "${{{name}…}} has an operator that is not supported: use :- := :+ :? or write $${{ for a \
                     literal ${{"
                ),
            );
        }
        self.at += 1;
        let mut word = String::new();
        self.copy(&mut word, depth + 1)?;
        self.close(start)?;
        let value = value.filter(|value| !colon || !value.is_empty());
        match (operator, value) {
            ('+', Some(_)) => self.put(out, &word),
            ('+', None) => Ok(()),
            (_, Some(value)) => self.put(out, &value),
            ('?', None) if word.is_empty() => {
                self.fail(start, format!("the configuration has no value {name}"))
            }
            // The word may hold values of other names: what was written is shown, not what it became.
            ('?', None) => {
                let written = self.text.get(start..self.at).unwrap_or_default();
                let reason: String = written.chars().take(200).collect();
                self.fail(start, format!("the configuration has no value {name}: {reason}"))
            }
            ('=', None) => {
                self.put(out, &word)?;
                self.assigned.insert(name, word);
                Ok(())
            }
            (_, None) => self.put(out, &word),
        }
    }

    fn name(&mut self, start: usize) -> Result<&'a str, SubstituteError> {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let name = rest.get(..end).unwrap_or_default();
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return self.fail(start, "${ is not followed by a name: write $${ for a literal ${");
        }
        self.at += end;
        Ok(name)
    }

    fn close(&mut self, start: usize) -> Result<(), SubstituteError> {
        if !self.rest().starts_with('}') {
            return self.fail(start, "${ without its }");
        }
        self.at += 1;
        Ok(())
    }
}

type Change = fn(&str) -> String;

/// Changes of case, the longer operators first.
const CASES: [(&str, Change); 4] =
    [("^^", str::to_uppercase), (",,", str::to_lowercase), ("^", upper_first), (",", lower_first)];

fn upper_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> Result<String, SubstituteError> {
        let values = [("HOST", "web.example.com"), ("EMPTY", ""), ("ODD", "${HOST}"), ("KEY", "hunter2")];
        envsubst(text, &values.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn expressions_become_values() {
        for (text, expected) in [
            ("a ${HOST} b", "a web.example.com b"),
            ("${NONE}|${NONE:-x}|${NONE-x}|${EMPTY:-x}|${EMPTY-x}", "|x|x|x|"),
            ("${HOST:+yes}${NONE:+no}${EMPTY+set}", "yesset"),
            ("${NEW:=one} ${NEW} ${NEW:-two}", "one one one"),
            ("${NONE:-a ${HOST} ${EMPTY:-deep}}", "a web.example.com deep"),
            ("$${HOST} $HOST $$ $ ${ODD}", "${HOST} $HOST $$ $ ${HOST}"),
            ("${#HOST} ${HOST^} ${HOST^^} ${HOST,,}", "15 Web.example.com WEB.EXAMPLE.COM web.example.com"),
            ("${HOST:?must be there}", "web.example.com"),
            ("é${NONE:-ü}\n", "éü\n"),
        ] {
            assert_eq!(run(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_by_its_line() {
        for (text, line, words) in [
            (
                "a\nb ${NONE:?give ${KEY} me}",
                2,
                "the configuration has no value NONE: ${NONE:?give ${KEY} me}",
            ),
            ("${NONE?}", 1, "the configuration has no value NONE"),
            ("\n\n${HOST", 3, "not supported"),
            ("${HOST:-x", 1, "without its }"),
            ("${HOST%.com}", 1, "not supported"),
            ("${HOST:0:3}", 1, "not supported"),
            ("${1}", 1, "not followed by a name"),
            ("${a.b}", 1, "not supported"),
            ("${}", 1, "not followed by a name"),
        ] {
            let error = run(text).unwrap_err();
            assert_eq!(error.line, line, "{text}");
            assert!(error.message.contains(words), "{text}: {error}");
            assert!(!error.message.contains("hunter2"), "{error}");
        }
        let deep = format!("{}x{}", "${N:-".repeat(100_000), "}".repeat(100_000));
        assert!(run(&deep).unwrap_err().message.contains("deeper than 20"));
        let long = "${N:=".to_owned() + &"x".repeat(1 << 20) + "}" + &"${N}".repeat(100);
        assert!(run(&long).unwrap_err().message.contains("limit of output"));
    }
}
