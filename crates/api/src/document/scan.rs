//! One linear pass over the text of a document, before the parser sees it.
//!
//! The parser is recursive and backtracks. What makes that expensive is refused here: deep nesting, many tokens,
//! and strings that do not end (the parser reads the rest of the text again for each block string without an end).

use super::Refusal;

/// Bounds of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanLimits {
    /// Open brackets, braces and parentheses at any place.
    pub(crate) depth: usize,
    /// Names, numbers, strings and punctuation marks.
    pub(crate) tokens: usize,
}

/// Checks the nesting and the number of tokens of a GraphQL document. Brackets in strings and comments do not count.
///
/// # Errors
/// [`Refusal`] with the limit that the text exceeds.
pub(crate) fn scan(text: &str, limits: ScanLimits) -> Result<(), Refusal> {
    let bytes = text.as_bytes();
    let (mut at, mut depth, mut tokens) = (0, 0_usize, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b',' => {
                at += 1;
                continue;
            }
            b'#' => {
                at = skip_while(bytes, at, |byte| byte != b'\n' && byte != b'\r');
                continue;
            }
            b'"' => at = end_of_string(bytes, at)?,
            b'{' | b'[' | b'(' => {
                depth += 1;
                if depth > limits.depth {
                    return Err(Refusal::new(format!(
                        "the document nests deeper than {} brackets",
                        limits.depth
                    )));
                }
                at += 1;
            }
            b'}' | b']' | b')' => {
                depth = depth.saturating_sub(1);
                at += 1;
            }
            _ if is_word(byte) => at = skip_while(bytes, at, is_word),
            _ => at += 1,
        }
        tokens += 1;
        if tokens > limits.tokens {
            return Err(Refusal::new(format!("the document has more than {} tokens", limits.tokens)));
        }
    }
    Ok(())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn skip_while(bytes: &[u8], from: usize, keep: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|&byte| !keep(byte)).map_or(bytes.len(), |length| from + length)
}

/// Where the string ends that begins at `from`.
fn end_of_string(bytes: &[u8], from: usize) -> Result<usize, Refusal> {
    let unterminated = || Refusal::new("the document has an unterminated string");
    if bytes[from..].starts_with(b"\"\"\"") {
        let mut at = from + 3;
        loop {
            match bytes.get(at..) {
                Some(rest) if rest.starts_with(b"\\\"\"\"") => at += 4,
                Some(rest) if rest.starts_with(b"\"\"\"") => return Ok(at + 3),
                None | Some([]) => return Err(unterminated()),
                Some(_) => at += 1,
            }
        }
    }
    let mut at = from + 1;
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at += 2,
            None | Some(b'\n' | b'\r') => return Err(unterminated()),
            Some(_) => at += 1,
        }
    }
}

/// Checks how many values a JSON text can hold, before they take memory. Nesting is bounded by its parser.
///
/// # Errors
/// [`Refusal`] when there are more than `most`.
pub(crate) fn scan_json(bytes: &[u8], most: usize) -> Result<(), Refusal> {
    let (mut values, mut in_string, mut escaped) = (0_usize, false, false);
    for &byte in bytes {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
        } else {
            match byte {
                b'"' => in_string = true,
                // Each value but the first of its list or object has a comma before it.
                b',' | b'[' | b'{' => values += 1,
                _ => {}
            }
        }
    }
    if values > most {
        return Err(Refusal::new(format!("the body holds more than {most} JSON values")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ScanLimits = ScanLimits { depth: 4, tokens: 20 };

    #[test]
    fn brackets_count_where_they_are_brackets() {
        for text in [
            "{ a(c: [{d: 1}]) }",
            "{ a(b: \"[[[[[[\") }",
            "{ a(b: \"\\\"[[[[[[\\\\\") }",
            "{ a(b: \"\"\"[[[[ \\\"\"\" [[[\"\"\") }",
            "{ a # {{{{{{{{{\n }",
            "{a}{a}{a}",
            "",
            "\u{feff}{ a }",
        ] {
            assert!(scan(text, LIMITS).is_ok(), "{text}");
        }
        for (text, reason) in [
            ("{{{{{", "deeper than 4"),
            ("{ a(b: [[[[", "deeper than 4"),
            // The comment ends with the line, the string with its quote.
            ("# \" \n {{{{{", "deeper than 4"),
            ("# \r {{{{{", "deeper than 4"),
            ("\"a\" {{{{{", "deeper than 4"),
            ("\"\" {{{{{", "deeper than 4"),
            ("\"\"\"\"\"\" {{{{{", "deeper than 4"),
            ("\"\\\\\" {{{{{", "deeper than 4"),
            ("{ a(b: \"", "unterminated"),
            ("{ a(b: \"\n\")}", "unterminated"),
            ("{ a(b: \"\\", "unterminated"),
            ("\"\"\" \\\"\"\"", "unterminated"),
            ("a a a a a a a a a a a a a a a a a a a a a", "more than 20 tokens"),
            (":::::::::::::::::::::", "more than 20 tokens"),
        ] {
            let refusal = scan(text, LIMITS).expect_err(text);
            assert!(refusal.0.contains(reason), "{text}: {}", refusal.0);
        }
    }

    #[test]
    fn json_values_are_counted_outside_strings() {
        assert!(scan_json(br#"{"a": ["x,,,,[[[\"{{{", 1]}"#, 3).is_ok());
        assert!(scan_json(br#"{"a": ["x", 1, 2]}"#, 3).is_err());
    }
}
