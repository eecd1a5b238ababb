//! What a test program printed: the cases, how they ended, and how long they took.

/// Read line by line from the output of libtest.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) cases: Vec<Case>,
    /// What the program printed of its failures, once all tests had ended.
    pub(super) failures: String,
    /// Passed and failed, as the program counts them.
    summary: (usize, usize),
    /// Whether it came to the end of its tests.
    pub(super) has_result: bool,
    /// A case whose verdict follows on another line: its own output came between.
    pending: Option<String>,
    section: Section,
}

/// The parts of a program's output.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Section {
    #[default]
    Cases,
    /// What tests that passed had printed, with `--show-output`.
    Successes,
    Failures,
}

/// One test that ended. Ignored ones are left out.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) has_passed: bool,
    /// Where the program reports times.
    pub(super) seconds: Option<f64>,
}

impl Report {
    /// Read one line.
    pub(super) fn read(&mut self, line: &str) {
        let line = without_colours(line);
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.section = Section::Cases;
            self.pending = None;
            self.has_result = true;
            self.summary.0 += number_before(counts, " passed");
            self.summary.1 += number_before(counts, " failed");
            return;
        }
        match line.as_str() {
            "successes:" => self.section = Section::Successes,
            "failures:" => self.section = Section::Failures,
            _ => {}
        }
        match self.section {
            Section::Cases => self.read_case(&line),
            Section::Successes => {}
            Section::Failures => {
                self.failures.push_str(&line);
                self.failures.push('\n');
            }
        }
    }

    fn read_case(&mut self, line: &str) {
        let started = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... "));
        if let Some((name, outcome)) = started {
            let name = name.trim_end_matches(" - should panic");
            match verdict(outcome) {
                Some((has_passed, seconds)) => {
                    self.cases.push(Case { name: name.to_owned(), has_passed, seconds });
                }
                None if outcome.starts_with("ignored") => {}
                None => self.pending = Some(name.to_owned()),
            }
        } else if let Some((has_passed, seconds)) = verdict(line)
            && let Some(name) = self.pending.take()
        {
            self.cases.push(Case { name, has_passed, seconds });
        }
    }

    /// How many passed and failed whose lines could not be read: with `--nocapture`, a test's own output may stand
    /// anywhere.
    pub(super) fn unread(&self) -> (usize, usize) {
        let passed = self.cases.iter().filter(|case| case.has_passed).count();
        let failed = self.cases.len() - passed;
        (self.summary.0.saturating_sub(passed), self.summary.1.saturating_sub(failed))
    }

    /// Passed and failed, by the program's own count where that is higher.
    pub(super) fn counts(&self) -> (usize, usize) {
        let passed = self.cases.iter().filter(|case| case.has_passed).count();
        let failed = self.cases.len() - passed;
        (passed.max(self.summary.0), failed.max(self.summary.1))
    }
}

/// `ok`, `FAILED`, and the same with a time: `ok <1.234s>`.
fn verdict(outcome: &str) -> Option<(bool, Option<f64>)> {
    let (word, rest) = outcome.split_once(' ').unwrap_or((outcome, ""));
    let seconds = rest.strip_prefix('<').and_then(|rest| rest.split_once("s>")?.0.parse().ok());
    match word {
        "ok" => Some((true, seconds)),
        "FAILED" => Some((false, seconds)),
        _ => None,
    }
}

/// `3` of `ok. 12 passed; 3 failed; …` and ` failed`.
fn number_before(text: &str, what: &str) -> usize {
    let number = text.split_once(what).and_then(|(before, _)| before.rsplit(' ').next());
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
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
pub(super) mod tests {
    use super::*;

    pub(in crate::test) fn report(text: &str) -> Report {
        let mut report = Report::default();
        text.lines().for_each(|line| report.read(line));
        report
    }

    fn case(name: &str, has_passed: bool, seconds: Option<f64>) -> Case {
        Case { name: name.to_owned(), has_passed, seconds }
    }

    #[test]
    fn cases_are_read() {
        let report = report(
            "running 6 tests\n\
             test store::sqlite::renames ... ok <1.250s>\n\
             test store::postgres::renames ... FAILED <0.003s>\n\
             \u{1b}[32mtest real::applies ... \u{1b}[32mok\u{1b}(B\u{1b}[m\n\
             test refuses - should panic ... ok\n\
             test later ... ignored\n\
             test store::postgres::renames has been running for over 60 seconds\n\
             test crates/testkit/src/wait.rs - wait::eventually (line 42) ... ok\n\
             \n\
             failures:\n\
             \n\
             ---- store::postgres::renames stdout ----\n\
             test inner ... ok\n\
             \n\
             failures:\n    store::postgres::renames\n\
             \n\
             test result: FAILED. 4 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.30s",
        );
        assert_eq!(
            report.cases,
            [
                case("store::sqlite::renames", true, Some(1.25)),
                case("store::postgres::renames", false, Some(0.003)),
                case("real::applies", true, None),
                case("refuses", true, None),
                case("crates/testkit/src/wait.rs - wait::eventually (line 42)", true, None),
            ]
        );
        assert!(report.has_result);
        assert_eq!(report.unread(), (0, 0));
        assert_eq!(report.counts(), (4, 1));
        assert!(report.failures.starts_with("failures:\n\n---- store::postgres::renames stdout ----\n"));
        assert!(report.failures.ends_with("    store::postgres::renames\n\n"), "{}", report.failures);
    }

    #[test]
    fn the_output_of_a_test_may_come_before_its_verdict() {
        let report = report(
            "test a ... some output\n\
             more of it\n\
             ok\n\
             test b ... no end of lineok\n\
             test result: ok. 2 passed; 0 failed; 0 ignored",
        );
        assert_eq!(report.cases, [case("a", true, None)]);
        assert_eq!(report.unread(), (1, 0));
        assert_eq!(report.counts(), (2, 0));
    }
}
