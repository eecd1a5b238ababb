//! Counting cases per backend.

use std::{collections::BTreeMap, fmt::Write as _};

use super::report::Report;

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
    /// Count what a program printed. Tests that ended well because their backend is missing did not pass: they did
    /// not run, and the program wrote down their names.
    pub(super) fn add(&mut self, program: &str, report: &Report, not_run: &[String]) {
        for case in &report.cases {
            let counts = self.counts.entry(backend(&case.name)).or_default();
            if case.has_passed {
                counts.passed += 1;
            } else {
                counts.failed += 1;
                self.failures.push(format!("{program}: {}", case.name));
            }
        }
        let (passed, failed) = report.unread();
        let counts = self.counts.entry(OTHER).or_default();
        counts.passed += passed;
        counts.failed += failed;
        if failed > 0 {
            self.failures.push(format!("{program}: {failed} more"));
        }
        for name in not_run {
            let counts = self.counts.entry(backend(name)).or_default();
            counts.passed = counts.passed.saturating_sub(1);
            counts.not_run += 1;
        }
    }

    /// A program that failed apart from its tests.
    pub(super) fn add_failure(&mut self, what: String) {
        self.counts.entry(OTHER).or_default().failed += 1;
        self.failures.push(what);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::report::tests::report;

    #[test]
    fn counts_per_backend() {
        let mut totals = Totals::default();
        let printed = report(
            "test store::sqlite::renames ... ok\n\
             test store::postgres::renames ... FAILED\n\
             test store::postgres::lists ... ok\n\
             test real::applies ... ok\n\
             test decides ... ok\n\
             test refuses - should panic ... ok\n\
             test later ... ignored\n\
             test crates/testkit/src/wait.rs - wait::eventually (line 42) ... ok\n\
             test result: FAILED. 6 passed; 1 failed; 1 ignored",
        );
        totals.add("store it", &printed, &["real::applies".to_owned()]);
        assert_eq!(
            totals.per_backend(),
            "kubesim   0 passed, 0 failed\n\
             real      0 passed, 0 failed, 1 not run\n\
             sqlite    1 passed, 0 failed\n\
             postgres  1 passed, 1 failed\n\
             other     3 passed, 0 failed\n"
        );
        assert_eq!(totals.last_line(), "5 passed, 1 failed");
        assert_eq!(totals.failures(), ["store it: store::postgres::renames"]);
    }

    #[test]
    fn what_a_program_counts_and_its_end_are_in_the_sum() {
        let mut totals = Totals::default();
        totals.add(
            "git it",
            &report("test a ... xok\ntest b ... ok\ntest result: ok. 2 passed; 1 failed"),
            &[],
        );
        totals.add_failure("git it: ended with signal 6".to_owned());
        assert_eq!(totals.last_line(), "2 passed, 2 failed");
        assert_eq!(totals.failures(), ["git it: 1 more", "git it: ended with signal 6"]);
    }
}
