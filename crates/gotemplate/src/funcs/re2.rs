//! Go's syntax of regular expressions (RE2), read and written in the syntax of the regex crate.
//!
//! The two are close, and differ where charts do odd things: `[\w-\.]` is a range nowhere in Go and an error in the regex crate,
//! `&&` is an operation on classes only there, `{` that begins no repetition is a character only in Go. So an expression is read
//! by Go's rules (<https://pkg.go.dev/regexp/syntax>), with Go's errors, and written so that nothing is left to interpret.

use std::{collections::HashSet, fmt::Write as _};

/// What a counted repetition, times those around it, may come to.
const MOST_REPEATED: u32 = 1000;
/// Groups within groups.
const DEEPEST: usize = 1000;

/// Writes `pattern` in the syntax of the regex crate.
///
/// # Errors
/// What Go's parser says after `error parsing regexp: `.
pub(super) fn to_rust(pattern: &str) -> Result<String, String> {
    let reader = Reader {
        pattern,
        rest: pattern,
        out: String::with_capacity(pattern.len() + 16),
        flags: String::new(),
        group: Group::default(),
        outer: Vec::new(),
        names: HashSet::new(),
        class_names: true,
    };
    reader.read()
}

/// An open group, or the whole expression.
#[derive(Debug, Default)]
struct Group {
    /// How often what precedes may be repeated at most; `None` when there is nothing to repeat.
    last: Option<u32>,
    /// The most of all that it holds.
    most: u32,
}

struct Reader<'p> {
    pattern: &'p str,
    rest: &'p str,
    out: String,
    /// Flags that hold from here on. A repetition right after them is of what precedes them, so they are written after it.
    flags: String,
    group: Group,
    /// Those around it, the outermost first.
    outer: Vec<Group>,
    names: HashSet<&'p str>,
    /// Whether a `:]` may still follow; looked for once.
    class_names: bool,
}

fn fault<T>(what: &str, text: &str) -> Result<T, String> {
    Err(format!("{what}: `{text}`"))
}

/// The part of `whole` before `rest`, which is its end.
fn until<'t>(whole: &'t str, rest: &str) -> &'t str {
    &whole[..whole.len() - rest.len()]
}

impl Reader<'_> {
    fn read(mut self) -> Result<String, String> {
        // From where the last repetition begins, when it is what precedes.
        let mut repeated = "";
        while let Some(c) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeats = false;
            let counted = count(before);
            if counted.is_none() && !matches!(c, '*' | '+' | '?') && !before.starts_with("(?") {
                self.write_flags();
            }
            match c {
                '(' if before.starts_with("(?") => self.flags_or_group()?,
                '(' => {
                    self.skip(1);
                    self.open("(")?;
                }
                ')' => self.close()?,
                '|' => {
                    self.skip(1);
                    self.out.push('|');
                    self.group.last = None;
                }
                '^' | '$' | '.' => {
                    self.skip(1);
                    self.out.push(c);
                    self.atom(1);
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.skip(1);
                    self.repeat(before, repeated, None)?;
                    repeats = true;
                }
                '{' if let Some((times, rest)) = counted => {
                    self.rest = rest;
                    self.repeat(before, repeated, Some(times))?;
                    repeats = true;
                }
                '\\' => self.escape()?,
                _ => self.literal(),
            }
            repeated = if repeats { before } else { "" };
        }
        if !self.outer.is_empty() {
            return fault("missing closing )", self.pattern);
        }
        Ok(self.out)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.skip(c.len_utf8());
        Some(c)
    }

    /// Notes that something was written that can be repeated.
    fn atom(&mut self, most: u32) {
        self.group.last = Some(most);
        self.group.most = self.group.most.max(most);
    }

    fn push_literal(&mut self, c: char) {
        self.out.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
        self.atom(1);
    }

    fn literal(&mut self) {
        if let Some(c) = self.next() {
            self.push_literal(c);
        }
    }

    fn write_flags(&mut self) {
        self.out.push_str(&std::mem::take(&mut self.flags));
    }

    fn open(&mut self, with: &str) -> Result<(), String> {
        if self.outer.len() >= DEEPEST {
            return fault("expression nests too deeply", self.pattern);
        }
        self.write_flags();
        self.out.push_str(with);
        self.outer.push(std::mem::take(&mut self.group));
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some(outer) = self.outer.pop() else { return fault("unexpected )", self.pattern) };
        let most = std::mem::replace(&mut self.group, outer).most.max(1);
        self.skip(1);
        self.out.push(')');
        self.atom(most);
        Ok(())
    }

    /// `(?P<name>`, `(?<name>`, `(?i)` or `(?i:`.
    fn flags_or_group(&mut self) -> Result<(), String> {
        let whole = self.rest;
        let named = whole.strip_prefix("(?P<").filter(|rest| !rest.is_empty());
        let named = named.or_else(|| whole.strip_prefix("(?<").filter(|rest| !rest.is_empty()));
        if let Some(rest) = named {
            let Some((name, after)) = rest.split_once('>') else {
                return fault("invalid named capture", whole);
            };
            let word = |c: char| c == '_' || c.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(word) {
                return fault("invalid named capture", until(whole, after));
            }
            self.rest = after;
            // In the regex crate a name is that of one group, and begins with no digit.
            if name.starts_with(|c: char| c.is_ascii_digit()) || !self.names.insert(name) {
                return self.open("(");
            }
            return self.open(&format!("(?P<{name}>"));
        }
        self.skip(2);
        let (mut off, mut seen) = (false, false);
        loop {
            match self.next() {
                Some('i' | 'm' | 's' | 'U') => seen = true,
                Some('-') if !off => (off, seen) = (true, false),
                Some(end @ (':' | ')')) if seen || !off => {
                    let read = until(whole, self.rest);
                    if end == ':' {
                        return self.open(read);
                    }
                    if seen {
                        self.flags.push_str(read);
                    }
                    return Ok(());
                }
                _ => return fault("invalid or unsupported Perl syntax", until(whole, self.rest)),
            }
        }
    }

    /// Notes a repetition that begins at `before` and was read up to here but for the `?` that makes it lazy. `repeated` is where
    /// the repetition before it begins, if that is what it repeats.
    fn repeat(&mut self, before: &str, repeated: &str, count: Option<Count>) -> Result<(), String> {
        if self.rest.starts_with('?') {
            self.skip(1);
        }
        let read = until(before, self.rest);
        if let Some((least, most)) = count
            && (least > MOST_REPEATED || most.is_some_and(|most| most > MOST_REPEATED || least > most))
        {
            return fault("invalid repeat count", read.trim_end_matches('?'));
        }
        if !repeated.is_empty() {
            return fault("invalid nested repetition operator", until(repeated, self.rest));
        }
        let Some(last) = self.group.last else {
            return fault("missing argument to repetition operator", read);
        };
        let mut most = last;
        if let Some((least, up_to)) = count {
            most = match up_to.unwrap_or(least) {
                0 if up_to.is_some() => 1,
                times => last * times.max(1),
            };
            if most > MOST_REPEATED {
                return fault("invalid repeat count", read);
            }
        }
        self.out.push_str(read);
        self.atom(most);
        Ok(())
    }

    /// An escape outside of classes.
    fn escape(&mut self) -> Result<(), String> {
        let whole = self.rest;
        let written = match whole[1..].chars().next() {
            Some('A') => r"\A",
            Some('z') => r"\z",
            Some('b') => r"(?-u:\b)",
            Some('B') => r"(?-u:\B)",
            Some('C') => return fault("invalid escape sequence", r"\C"),
            Some('Q') => {
                let text = &whole[2..];
                let (literal, after) = text.split_once("\\E").unwrap_or((text, ""));
                literal.chars().for_each(|c| self.push_literal(c));
                self.rest = after;
                return Ok(());
            }
            Some('p' | 'P') => {
                let class = self.unicode()?;
                self.out.push_str(&class);
                self.atom(1);
                return Ok(());
            }
            Some('d') => "[0-9]",
            Some('D') => "[^0-9]",
            Some('w') => "[0-9A-Za-z_]",
            Some('W') => "[^0-9A-Za-z_]",
            Some('s') => r"[\t\n\x0C\r ]",
            Some('S') => r"[^\t\n\x0C\r ]",
            _ => {
                let c = self.escaped()?;
                self.push_literal(c);
                return Ok(());
            }
        };
        self.skip(2);
        self.out.push_str(written);
        self.atom(1);
        Ok(())
    }

    /// The character that an escape stands for.
    fn escaped(&mut self) -> Result<char, String> {
        let whole = self.rest;
        self.skip(1);
        let invalid = |rest: &str| fault("invalid escape sequence", until(whole, rest));
        let Some(c) = self.next() else { return fault("trailing backslash at end of expression", "") };
        let code = match c {
            '0'..='7' => {
                // One digit alone would be a reference back to a group.
                if c != '0' && !self.rest.starts_with(|c| matches!(c, '0'..='7')) {
                    return invalid(self.rest);
                }
                let mut code = c.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
                    self.skip(1);
                    code = code * 8 + digit;
                }
                code
            }
            'x' if self.rest.starts_with('{') => {
                self.skip(1);
                let mut code = 0;
                let mut digits = 0;
                loop {
                    match self.next() {
                        Some('}') if digits > 0 => break,
                        Some(c) if c.is_ascii_hexdigit() => {
                            code = code * 16 + c.to_digit(16).unwrap_or(0);
                            digits += 1;
                            if code > u32::from(char::MAX) {
                                return invalid(self.rest);
                            }
                        }
                        _ => return invalid(self.rest),
                    }
                }
                code
            }
            'x' => {
                let mut digit = || self.next().and_then(|c| c.to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else { return invalid(self.rest) };
                high * 16 + low
            }
            'a' => 7,
            'f' => 0x0C,
            'n' => u32::from('\n'),
            'r' => u32::from('\r'),
            't' => u32::from('\t'),
            'v' => 0x0B,
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => u32::from(c),
            _ => return invalid(self.rest),
        };
        // No text holds a surrogate.
        char::from_u32(code).map_or_else(|| invalid(self.rest), Ok)
    }

    /// `\pL`, `\P{Greek}`, `\p{^Lu}`, in the syntax of the regex crate.
    fn unicode(&mut self) -> Result<String, String> {
        let whole = self.rest;
        let mut negated = whole.starts_with(r"\P");
        self.skip(2);
        let mut name = match self.next() {
            Some('{') => {
                let Some((name, after)) = self.rest.split_once('}') else {
                    return fault("invalid character class range", whole);
                };
                self.rest = after;
                name
            }
            Some(_) => &until(whole, self.rest)[2..],
            None => return fault("invalid character class range", whole),
        };
        if let Some(rest) = name.strip_prefix('^') {
            negated = !negated;
            name = rest;
        }
        let sign = if negated { 'P' } else { 'p' };
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_- ".contains(c));
        // General categories and scripts; the regex crate knows other properties, Go does not.
        ["gc", "sc"]
            .into_iter()
            .map(|kind| format!(r"\{sign}{{{kind}={name}}}"))
            .find(|class| plain && regex::Regex::new(class).is_ok())
            .map_or_else(|| fault("invalid character class range", until(whole, self.rest)), Ok)
    }

    fn class(&mut self) -> Result<(), String> {
        let whole = self.rest;
        self.skip(1);
        self.out.push('[');
        if self.rest.starts_with('^') {
            self.skip(1);
            self.out.push('^');
        }
        let mut first = true;
        loop {
            if !first && self.rest.starts_with(']') {
                self.skip(1);
                break;
            }
            first = false;
            let named = self.class_names && self.rest.starts_with("[:");
            let end = if named { self.rest[2..].find(":]") } else { None };
            self.class_names &= !named || end.is_some();
            if let Some(end) = end {
                const NAMES: [&str; 14] = [
                    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
                    "space", "upper", "word", "xdigit",
                ];
                let named = &self.rest[..end + 4];
                let name = &named[2..end + 2];
                if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return fault("invalid character class range", named);
                }
                self.skip(named.len());
                self.out.push_str(named);
                continue;
            }
            let perl = match self.rest.as_bytes() {
                [b'\\', b'p' | b'P', ..] => {
                    let class = self.unicode()?;
                    self.out.push_str(&class);
                    continue;
                }
                [b'\\', b'd', ..] => "0-9",
                [b'\\', b'D', ..] => "[^0-9]",
                [b'\\', b'w', ..] => "0-9A-Za-z_",
                [b'\\', b'W', ..] => "[^0-9A-Za-z_]",
                [b'\\', b's', ..] => r"\t\n\x0C\r ",
                [b'\\', b'S', ..] => r"[^\t\n\x0C\r ]",
                _ => "",
            };
            if !perl.is_empty() {
                self.skip(2);
                self.out.push_str(perl);
                continue;
            }
            self.range(whole)?;
        }
        self.out.push(']');
        self.atom(1);
        Ok(())
    }

    /// A character of a class, or a range. `-` is itself where it stands between nothing.
    fn range(&mut self, class: &str) -> Result<(), String> {
        let whole = self.rest;
        let low = self.class_char(class)?;
        let mut high = low;
        if self.rest.starts_with('-') && self.rest.len() > 1 && !self.rest.starts_with("-]") {
            self.skip(1);
            high = self.class_char(class)?;
            if high < low {
                return fault("invalid character class range", until(whole, self.rest));
            }
        }
        let _ = write!(self.out, r"\x{{{:X}}}-\x{{{:X}}}", u32::from(low), u32::from(high));
        Ok(())
    }

    fn class_char(&mut self, class: &str) -> Result<char, String> {
        match self.rest.chars().next() {
            None => fault("missing closing ]", class),
            Some('\\') => self.escaped(),
            Some(c) => {
                self.skip(c.len_utf8());
                Ok(c)
            }
        }
    }
}

/// The bounds of a repetition; without an upper one `None`.
type Count = (u32, Option<u32>);

/// Reads `{2}`, `{2,}` or `{2,5}`, and gives back what follows; `None` when the brace is a plain character.
fn count(text: &str) -> Option<(Count, &str)> {
    let text = text.strip_prefix('{')?;
    // Only as far as it can be a repetition: an expression may be all braces.
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',')?;
    let (inner, rest) = (&text[..end], text[end..].strip_prefix('}')?);
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        // With a zero before other digits it is no number to Go.
        (plain && (digits.len() == 1 || !digits.starts_with('0'))).then(|| digits.parse().unwrap_or(u32::MAX))
    };
    let times = match inner.split_once(',') {
        None => number(inner).map(|times| (times, Some(times))),
        Some((least, "")) => number(least).map(|least| (least, None)),
        Some((least, most)) => number(least).zip(number(most)).map(|(least, most)| (least, Some(most))),
    };
    Some((times?, rest))
}

#[cfg(test)]
mod tests {
    use super::super::go_regex;

    /// All that an expression finds in a text.
    fn found<'t>(pattern: &str, text: &'t str) -> Vec<&'t str> {
        let compiled = go_regex(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
        compiled.regex.find_iter(text).map(|found| found.as_str()).collect()
    }

    #[test]
    fn what_other_engines_refuse_is_read_as_go_reads_it() {
        for (pattern, text, expected) in [
            (r"[\w-\.]+", "a-b.c d", &["a-b.c", "d"][..]),
            (r"[\d-a]+", "1-a2b", &["1-a2"]),
            ("[a-]+", "a-b", &["a-"]),
            ("[]a]+", "]a[", &["]a"]),
            ("[^]]+", "a]b", &["a", "b"]),
            ("[&&a~~]+", "a&~b", &["a&~"]),
            ("[[a]+", "[a]", &["[a"]),
            ("[[:alpha:]-]+", "a-1", &["a-"]),
            ("a{,3}", "a{,3}", &["a{,3}"]),
            ("{}", "{}", &["{}"]),
            (r"\Qa.b\E+", "a.bbb", &["a.bbb"]),
            (r"\_\-\x41\x{42}\103", "_-ABC", &["_-ABC"]),
            (r"\bé", "aé", &["é"]),
            ("a(?i)+B", "aab", &["aab"]),
            ("(?<n>a)(?P<n>b)(?P<1>c)", "abc", &["abc"]),
        ] {
            assert_eq!(found(pattern, text), expected, "{pattern}");
        }
    }

    #[test]
    fn long_expressions_are_read_in_one_pass() {
        let braces = "{1".repeat(500_000);
        assert_eq!(super::to_rust(&braces).unwrap(), braces.replace('{', r"\{"));
        let classes = format!("[{}]", "[:a".repeat(300_000));
        assert!(super::to_rust(&classes).unwrap().starts_with(r"[\x{5B}-\x{5B}\x{3A}-\x{3A}"));
        let names = (0..100_000).map(|name| format!("(?<n{name}>a)")).collect::<Vec<_>>().concat();
        assert!(super::to_rust(&names).is_ok());
    }

    #[test]
    fn errors_are_those_of_go() {
        for (pattern, expected) in [
            ("a**", "invalid nested repetition operator: `**`"),
            ("a+?+", "invalid nested repetition operator: `+?+`"),
            ("(*)", "missing argument to repetition operator: `*`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(a{2}){600}", "invalid repeat count: `{600}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("x[a", "missing closing ]: `[a`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[a--]", "invalid character class range: `a--`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"[a-\d]", r"invalid escape sequence: `\d`"),
            (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
            (r"\8", r"invalid escape sequence: `\8`"),
            (r"(a)\1", r"invalid escape sequence: `\1`"),
            (r"a\Z", r"invalid escape sequence: `\Z`"),
            (r"a\C", r"invalid escape sequence: `\C`"),
            (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?<!b)", "invalid named capture: `(?<!b)`"),
            ("(?P<a-b>c)", "invalid named capture: `(?P<a-b>`"),
        ] {
            let error = go_regex(pattern).expect_err(pattern);
            assert_eq!(error, format!("error parsing regexp: {expected}"), "{pattern}");
        }
    }
}
