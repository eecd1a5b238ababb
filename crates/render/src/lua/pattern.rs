//! Lua 5.1 patterns (reference manual §5.4.1) with a step budget.
//!
//! The C library's matcher backtracks without any hook being called, so one `string.find` could run
//! for years. This one pays a step for each comparison and stops when none are left.

/// Nesting of quantified items and captures; the matcher recurses once for each.
const MAX_DEPTH: usize = 200;
/// Captures in one pattern, as in Lua.
const MAX_CAPTURES: usize = 32;

/// Why a match ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatternError {
    /// The pattern is malformed; the text is Lua's own.
    Malformed(&'static str),
    /// No steps are left.
    Exhausted,
}

/// What a capture holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capture {
    /// Byte range of the subject.
    Range(usize, usize),
    /// `()`: a position, 0-based.
    Position(usize),
}

/// A match: the whole range and the captures in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Match {
    /// First byte, 0-based.
    pub(super) start: usize,
    /// One past the last byte.
    pub(super) end: usize,
    /// Explicit captures only.
    pub(super) captures: Vec<Capture>,
}

#[derive(Clone, Copy)]
enum Slot {
    Open(usize),
    Closed(usize, usize),
    Position(usize),
}

struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    slots: Vec<Slot>,
    steps: &'a mut u64,
    depth: usize,
}

type Found = Result<Option<usize>, PatternError>;

/// The first match of `pattern` in `subject` at or after byte `from`. `steps` is paid from.
pub(super) fn find(
    subject: &[u8],
    pattern: &[u8],
    from: usize,
    steps: &mut u64,
) -> Result<Option<Match>, PatternError> {
    let (anchored, pattern) = match pattern.split_first() {
        Some((b'^', rest)) => (true, rest),
        _ => (false, pattern),
    };
    let mut start = from;
    while start <= subject.len() {
        let mut matcher = Matcher { subject, pattern, slots: Vec::new(), steps, depth: 0 };
        if let Some(end) = matcher.run(start, 0)? {
            let captures = matcher.captures()?;
            return Ok(Some(Match { start, end, captures }));
        }
        if anchored {
            break;
        }
        start += 1;
    }
    Ok(None)
}

impl Matcher<'_> {
    fn pay(&mut self) -> Result<(), PatternError> {
        if *self.steps == 0 {
            return Err(PatternError::Exhausted);
        }
        *self.steps -= 1;
        Ok(())
    }

    fn captures(&self) -> Result<Vec<Capture>, PatternError> {
        self.slots
            .iter()
            .map(|slot| match *slot {
                Slot::Open(_) => Err(PatternError::Malformed("unfinished capture")),
                Slot::Closed(start, end) => Ok(Capture::Range(start, end)),
                Slot::Position(at) => Ok(Capture::Position(at)),
            })
            .collect()
    }

    /// Matches the pattern from `p` at subject byte `s`; answers where the match ends.
    fn run(&mut self, s: usize, p: usize) -> Found {
        if self.depth >= MAX_DEPTH {
            return Err(PatternError::Malformed("pattern too complex"));
        }
        self.depth += 1;
        let found = self.run_items(s, p);
        self.depth -= 1;
        found
    }

    fn run_items(&mut self, mut s: usize, mut p: usize) -> Found {
        loop {
            self.pay()?;
            let Some(&item) = self.pattern.get(p) else { return Ok(Some(s)) };
            match item {
                b'(' => {
                    let position = self.pattern.get(p + 1) == Some(&b')');
                    let (slot, next) =
                        if position { (Slot::Position(s), p + 2) } else { (Slot::Open(s), p + 1) };
                    if self.slots.len() >= MAX_CAPTURES {
                        return Err(PatternError::Malformed("too many captures"));
                    }
                    self.slots.push(slot);
                    let found = self.run(s, next)?;
                    if found.is_none() {
                        self.slots.pop();
                    }
                    return Ok(found);
                }
                b')' => {
                    let open = self.slots.iter().rposition(|slot| matches!(slot, Slot::Open(_)));
                    let Some(index) = open else {
                        return Err(PatternError::Malformed("invalid pattern capture"));
                    };
                    let before = self.slots[index];
                    if let Slot::Open(start) = before {
                        self.slots[index] = Slot::Closed(start, s);
                    }
                    let found = self.run(s, p + 1)?;
                    if found.is_none() {
                        self.slots[index] = before;
                    }
                    return Ok(found);
                }
                b'$' if p + 1 == self.pattern.len() => {
                    return Ok((s == self.subject.len()).then_some(s));
                }
                b'%' => match self.pattern.get(p + 1) {
                    Some(b'b') => match self.balanced(s, p + 2)? {
                        Some(after) => {
                            s = after;
                            p += 4;
                            continue;
                        }
                        None => return Ok(None),
                    },
                    Some(b'f') => {
                        p += 2;
                        if self.pattern.get(p) != Some(&b'[') {
                            return Err(PatternError::Malformed("missing '[' after '%f' in pattern"));
                        }
                        let end = self.item_end(p)?;
                        let before = if s == 0 { 0 } else { self.subject[s - 1] };
                        let here = self.subject.get(s).copied().unwrap_or(0);
                        if !self.in_set(before, p, end - 1) && self.in_set(here, p, end - 1) {
                            p = end;
                            continue;
                        }
                        return Ok(None);
                    }
                    Some(digit) if digit.is_ascii_digit() => match self.back_reference(s, *digit)? {
                        Some(after) => {
                            s = after;
                            p += 2;
                            continue;
                        }
                        None => return Ok(None),
                    },
                    _ => {}
                },
                _ => {}
            }
            let end = self.item_end(p)?;
            match self.pattern.get(end) {
                Some(b'?') => {
                    if self.single(s, p, end)
                        && let Some(found) = self.run(s + 1, end + 1)?
                    {
                        return Ok(Some(found));
                    }
                    p = end + 1;
                }
                Some(b'*') => return self.most(s, p, end, 0),
                Some(b'+') => return self.most(s, p, end, 1),
                Some(b'-') => return self.least(s, p, end),
                _ => {
                    if !self.single(s, p, end) {
                        return Ok(None);
                    }
                    s += 1;
                    p = end;
                }
            }
        }
    }

    fn most(&mut self, s: usize, p: usize, end: usize, least: usize) -> Found {
        let mut count = 0;
        while self.single(s + count, p, end) {
            self.pay()?;
            count += 1;
        }
        loop {
            if count < least {
                return Ok(None);
            }
            if let Some(found) = self.run(s + count, end + 1)? {
                return Ok(Some(found));
            }
            if count == 0 {
                return Ok(None);
            }
            count -= 1;
        }
    }

    fn least(&mut self, mut s: usize, p: usize, end: usize) -> Found {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end) {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn balanced(&mut self, s: usize, p: usize) -> Found {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(PatternError::Malformed("unbalanced pattern"));
        };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut level = 1usize;
        for at in s + 1..self.subject.len() {
            self.pay()?;
            let byte = self.subject[at];
            if byte == close {
                level -= 1;
                if level == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                level += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&mut self, s: usize, digit: u8) -> Found {
        let index = usize::from(digit).wrapping_sub(usize::from(b'1'));
        let Some(Slot::Closed(start, end)) = self.slots.get(index).copied() else {
            return Err(PatternError::Malformed("invalid capture index"));
        };
        let wanted = &self.subject[start..end];
        *self.steps = self.steps.saturating_sub(wanted.len() as u64);
        Ok(self.subject[s..].starts_with(wanted).then_some(s + wanted.len()))
    }

    /// Index after the single-character item that begins at `p`.
    fn item_end(&self, p: usize) -> Result<usize, PatternError> {
        match self.pattern[p] {
            b'%' if p + 1 >= self.pattern.len() => {
                Err(PatternError::Malformed("malformed pattern (ends with '%')"))
            }
            b'%' => Ok(p + 2),
            b'[' => {
                let mut at = p + 1;
                if self.pattern.get(at) == Some(&b'^') {
                    at += 1;
                }
                // A `]` right after the bracket belongs to the set.
                loop {
                    match self.pattern.get(at) {
                        None => return Err(PatternError::Malformed("malformed pattern (missing ']')")),
                        Some(b'%') => at += 2,
                        Some(_) => at += 1,
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn single(&self, s: usize, p: usize, end: usize) -> bool {
        let Some(&byte) = self.subject.get(s) else { return false };
        match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            literal => literal == byte,
        }
    }

    /// Whether `byte` is in the set whose `[` is at `p` and whose `]` is at `close`.
    fn in_set(&self, byte: u8, p: usize, close: usize) -> bool {
        let mut at = p + 1;
        let negated = self.pattern.get(at) == Some(&b'^');
        if negated {
            at += 1;
        }
        while at < close {
            match self.pattern[at] {
                b'%' => {
                    if at + 1 < close && in_class(byte, self.pattern[at + 1]) {
                        return !negated;
                    }
                    at += 2;
                }
                low if at + 2 < close && self.pattern[at + 1] == b'-' => {
                    if (low..=self.pattern[at + 2]).contains(&byte) {
                        return !negated;
                    }
                    at += 3;
                }
                literal => {
                    if literal == byte {
                        return !negated;
                    }
                    at += 1;
                }
            }
        }
        negated
    }
}

fn in_class(byte: u8, class: u8) -> bool {
    let within = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    if class.is_ascii_uppercase() { !within } else { within }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(subject: &str, pattern: &str, expect: Option<(&str, &[&str])>) {
        let mut steps = 100_000;
        let found = find(subject.as_bytes(), pattern.as_bytes(), 0, &mut steps).unwrap();
        let got = found.map(|m| {
            let captures: Vec<String> = m
                .captures
                .iter()
                .map(|capture| match *capture {
                    Capture::Range(start, end) => subject[start..end].to_owned(),
                    Capture::Position(at) => format!("@{at}"),
                })
                .collect();
            (subject[m.start..m.end].to_owned(), captures)
        });
        let expect = expect.map(|(all, captures)| {
            (all.to_owned(), captures.iter().map(|&c| c.to_owned()).collect::<Vec<_>>())
        });
        assert_eq!(got, expect, "{pattern:?} in {subject:?}");
    }

    #[test]
    fn matches_as_the_manual_says() {
        check("hello world", "o w", Some(("o w", &[])));
        check("hello world", "^w", None);
        check("key = value", "(%w+)%s*=%s*(%w+)", Some(("key = value", &["key", "value"])));
        check("v1.22.3", "^v(%d+)%.(%d+)", Some(("v1.22", &["1", "22"])));
        check("aaa", "a-", Some(("", &[])));
        check("<<a>>", "<(.-)>", Some(("<<a>", &["<a"])));
        check("f(a(b)c)d", "%b()", Some(("(a(b)c)", &[])));
        check("THE (quick) fox", "%f[%a]%a+%f[%A]", Some(("THE", &[])));
        check("abcabc", "(abc)%1", Some(("abcabc", &["abc"])));
        check("x]y", "[]]", Some(("]", &[])));
        check("x-y", "[^%w]", Some(("-", &[])));
        check("hello", "()ll()", Some(("ll", &["@2", "@4"])));
        check("a.b", "%.", Some((".", &[])));
        check("abc", "b$", None);
        check("colour", "colou?r", Some(("colour", &[])));
    }

    #[test]
    fn malformed_patterns_are_errors() {
        for pattern in ["%", "[a", "(a", "a)", "%f", "%1", "%b("] {
            let mut steps = 1000;
            let found = find(b"aaa(", pattern.as_bytes(), 0, &mut steps);
            assert!(matches!(found, Err(PatternError::Malformed(_))), "{pattern:?}: {found:?}");
        }
    }

    #[test]
    fn backtracking_stops_when_the_steps_are_spent() {
        let subject = "a".repeat(200);
        let pattern = format!("{}b", "a*".repeat(20));
        let mut steps = 1_000_000;
        let found = find(subject.as_bytes(), pattern.as_bytes(), 0, &mut steps);
        assert_eq!(found, Err(PatternError::Exhausted));
    }

    #[test]
    fn a_long_run_of_single_items_does_not_recurse() {
        let subject = "a".repeat(100_000);
        let mut steps = 10_000_000;
        let found = find(subject.as_bytes(), b"^a*$", 0, &mut steps).unwrap();
        assert_eq!(found.map(|m| m.end), Some(100_000));
    }
}
