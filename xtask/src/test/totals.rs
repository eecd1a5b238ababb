//! Counting what the test programs print, per backend.

use std::{collections::BTreeMap, fmt::Write as _};

/// A test belongs to a backend when one part of its path is the backend's name.
const BACKENDS: [&str; 4] = ["kubesim", "real", "sqlite", "postgres"];
const OTHER: &str = "other";

/// Counts so far.
#[derive(Debug, Default)]
pub(super) struct Totals {
    counts: BTreeMap<&'static str, Counts>,
    failures: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    passed: usize,
    failed: usize,
    not_run: usize,
}

impl Totals {
    /// Read a line of a test program's output.
    pub(super) fn read(&mut self, line: &str) {
        let line = without_colours(line);
        let Some(rest) = line.strip_prefix("test ") else { return };
        let Some((name, outcome)) = rest.rsplit_once(" ... ") else { return };
        let name = name.trim_end_matches(" - should panic");
        let counts = self.counts.entry(backend(name)).or_default();
        // A test that asks for it is timed: `ok <1.2s>`.
        match outcome.split(' ').next() {
            Some("ok") => counts.passed += 1,
            Some("FAILED") => {
                counts.failed += 1;
                self.failures.push(name.to_owned());
            }
            // "ignored", or a test's own output.
            _ => {}
        }
    }

    /// Tests that ended well because their backend is missing did not pass: they did not run.
    pub(super) fn not_run(&mut self, names: &[String]) {
        for name in names {
            let counts = self.counts.entry(backend(name)).or_default();
            counts.passed = counts.passed.saturating_sub(1);
            counts.not_run += 1;
        }
    }

    pub(super) fn failed(&self) -> usize {
        self.counts.values().map(|c| c.failed).sum()
    }

    pub(super) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// A line per backend.
    pub(super) fn per_backend(&self) -> String {
        let mut text = String::new();
        for name in BACKENDS.into_iter().chain([OTHER]) {
            let Counts { passed, failed, not_run } = self.counts.get(name).copied().unwrap_or_default();
            let missing = if not_run > 0 { format!(", {not_run} not run") } else { String::new() };
            let _ = writeln!(text, "{name:<9} {passed} passed, {failed} failed{missing}");
        }
        text
    }

    /// `N passed, N failed`
    pub(super) fn last_line(&self) -> String {
        let passed: usize = self.counts.values().map(|c| c.passed).sum();
        format!("{passed} passed, {} failed", self.failed())
    }
}

fn backend(name: &str) -> &'static str {
    BACKENDS.into_iter().find(|b| name.split("::").any(|part| part == *b)).unwrap_or(OTHER)
}

fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        if c == '\u{1b}' {
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else if c != '\u{f}' {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_per_backend() {
        let mut totals = Totals::default();
        for line in [
            "running 5 tests",
            "test store::sqlite::renames ... ok",
            "test store::postgres::renames ... FAILED",
            "test store::postgres::lists ... ok",
            "\u{1b}[32mtest real::applies ... \u{1b}[32mok\u{1b}(B\u{1b}[m",
            "test decides ... ok",
            "test refuses - should panic ... ok",
            "test later ... ignored",
            "test crates/testkit/src/wait.rs - wait::eventually (line 42) ... ok",
            "test result: FAILED. 4 passed; 1 failed",
        ] {
            totals.read(line);
        }
        totals.not_run(&["real::applies".to_owned()]);
        assert_eq!(
            totals.per_backend(),
            "kubesim   0 passed, 0 failed\n\
             real      0 passed, 0 failed, 1 not run\n\
             sqlite    1 passed, 0 failed\n\
             postgres  1 passed, 1 failed\n\
             other     3 passed, 0 failed\n"
        );
        assert_eq!(totals.last_line(), "5 passed, 1 failed");
        assert_eq!(totals.failures(), ["store::postgres::renames"]);
    }
}
