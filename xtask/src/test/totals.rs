//! Counting cases per backend.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use super::lanes::Outcome;

/// A test belongs to a backend when one part of its path is the backend's name.
const BACKENDS: [&str; 4] = ["kubesim", "real", "sqlite", "postgres"];
const OTHER: &str = "other";
/// Backends of which one would do for a test that holds for all: clusters, and databases.
const KINDS: [[&str; 2]; 2] = [["kubesim", "real"], ["sqlite", "postgres"]];

/// Counts so far.
#[derive(Debug, Default)]
pub(super) struct Totals {
    counts: BTreeMap<&'static str, Counts>,
    failures: Vec<String>,
    /// Tests that ran on one backend only, and those of each backend.
    one_backend: (usize, BTreeMap<&'static str, usize>),
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
    pub(super) fn add(&mut self, outcome: &Outcome) {
        let Outcome { name: program, report, not_run, backends, .. } = outcome;
        let mut used: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (name, backend) in backends.iter().filter_map(|line| line.rsplit_once(' ')) {
            used.entry(name).or_default().insert(backend);
        }
        for case in &report.cases {
            let only = only(&case.name, used.get(case.name.as_str()));
            self.one_backend.0 += usize::from(!only.is_empty());
            for backend in only {
                *self.one_backend.1.entry(backend).or_default() += 1;
            }
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

    /// `on one backend only: N tests (kubesim N, postgres N)`; a test may have one cluster and one database.
    pub(super) fn one_backend(&self) -> String {
        let (sum, backends) = &self.one_backend;
        let each: Vec<String> =
            backends.iter().map(|(backend, count)| format!("{backend} {count}")).collect();
        let each = if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) };
        format!("on one backend only: {sum} tests{each}")
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
    let of = |part: &str| BACKENDS.into_iter().find(|b| part.strip_suffix("_only").unwrap_or(part) == *b);
    name.split("::").find_map(of).unwrap_or(OTHER)
}

/// The backends that a test ran on and not on the other of their kind: its name says so, or it said so itself.
fn only(name: &str, used: Option<&BTreeSet<&str>>) -> Vec<&'static str> {
    let in_name = |b: &&str| name.split("::").any(|part| part.strip_suffix("_only") == Some(*b));
    let named: Vec<&str> = BACKENDS.into_iter().filter(in_name).collect();
    if !named.is_empty() {
        return named;
    }
    let is_used = |b: &&str| used.is_some_and(|used| used.contains(*b));
    KINDS
        .into_iter()
        .map(|kind| kind.into_iter().filter(is_used).collect::<Vec<_>>())
        .filter(|used| used.len() == 1)
        .flatten()
        .collect()
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
        totals.add(&Outcome {
            name: "store it".to_owned(),
            report: printed,
            not_run: vec!["real::applies".to_owned()],
            ..Outcome::default()
        });
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
        totals.add(&Outcome {
            name: "git it".to_owned(),
            report: report("test a ... xok\ntest b ... ok\ntest result: ok. 2 passed; 1 failed"),
            ..Outcome::default()
        });
        totals.add_failure("git it: ended with signal 6".to_owned());
        assert_eq!(totals.last_line(), "2 passed, 2 failed");
        assert_eq!(totals.failures(), ["git it: 1 more", "git it: ended with signal 6"]);
    }

    #[test]
    fn tests_of_one_backend_are_counted() {
        let mut totals = Totals::default();
        assert_eq!(totals.one_backend(), "on one backend only: 0 tests");
        totals.add(&Outcome {
            name: "plural it".to_owned(),
            report: report(
                "test shells::real_only::ends ... ok\n\
                 test shells::real::begins ... ok\n\
                 test days::with_both ... ok\n\
                 test days::with_one ... ok\n\
                 test days::with_none ... ok",
            ),
            backends: [
                "days::with_both kubesim",
                "days::with_both real",
                "days::with_one kubesim",
                "days::with_one kubesim",
                "days::with_one postgres",
                "tokio-rt-worker real",
            ]
            .map(str::to_owned)
            .into(),
            ..Outcome::default()
        });
        assert_eq!(totals.one_backend(), "on one backend only: 2 tests (kubesim 1, postgres 1, real 1)");
        assert!(totals.per_backend().contains("real      2 passed"), "{}", totals.per_backend());
    }
}
