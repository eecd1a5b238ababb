//! How long programs and tests take: kept for the order of the next run, and printed.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::lanes::Outcome;
use crate::shell;

/// The order of the first run on a machine.
const LONGEST: [&str; 9] = [
    "plural it",
    "store it",
    "doc tests",
    "sync it",
    "console it",
    "testkit it",
    "render it",
    "git it",
    "agent it",
];

/// Times of the last whole run of each program.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Times {
    programs: BTreeMap<String, Program>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Program {
    seconds: f64,
    /// How many of its tests ran at once.
    threads: usize,
    /// Processor time of the program and the processes that it waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_seconds: Option<f64>,
    /// By name, in seconds; empty where the test programs report no times.
    cases: BTreeMap<String, f64>,
}

impl Program {
    fn of(outcome: &Outcome) -> Self {
        let cases = outcome.report.cases.iter().filter_map(|case| Some((case.name.clone(), case.seconds?)));
        Self {
            seconds: outcome.took.as_secs_f64(),
            threads: outcome.threads,
            cpu_seconds: outcome.cpu.map(|cpu| cpu.as_secs_f64()),
            cases: cases.collect(),
        }
    }

    /// The share of its threads' time in which the program did not compute.
    fn waits(&self) -> Option<f64> {
        let whole = self.seconds * self.threads as f64;
        self.cpu_seconds.filter(|_| whole > 0.0).map(|cpu| (1.0 - cpu / whole).max(0.0))
    }
}

impl Times {
    /// Those of earlier runs; none where there are none, or where another version wrote them.
    pub(super) fn load() -> anyhow::Result<Self> {
        let text = fs::read(file()?).unwrap_or_default();
        Ok(serde_json::from_slice(&text).unwrap_or_default())
    }

    /// How long a program took; a guess that orders them where that is not known.
    pub(super) fn seconds(&self, program: &str) -> f64 {
        let guess = || {
            let place = LONGEST.iter().position(|known| *known == program);
            place.map_or(0.0, |place| 600.0 / (place as f64 + 1.0))
        };
        self.programs.get(program).map_or_else(guess, |known| known.seconds)
    }

    /// Take in a run.
    pub(super) fn add(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes.iter().filter(|outcome| outcome.trouble.is_none()) {
            self.programs.insert(outcome.name.clone(), Program::of(outcome));
        }
    }

    /// Keep them for the next run, and for whoever wants to compare.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(super) fn save(&self) -> anyhow::Result<PathBuf> {
        let file = file()?;
        write(&file, &serde_json::to_vec_pretty(self)?)?;
        Ok(file)
    }
}

fn file() -> anyhow::Result<PathBuf> {
    Ok(shell::metadata()?.target_directory.join("test-times.json"))
}

/// Under another name first: another run may read it.
fn write(file: &Path, content: &[u8]) -> anyhow::Result<()> {
    let partial = file.with_extension(format!("json.{}", std::process::id()));
    fs::write(&partial, content)
        .and_then(|()| fs::rename(&partial, file))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Tables for a person: every program, the tests that took longest, and the modules.
pub(super) fn slowest(outcomes: &[Outcome], count: usize) -> String {
    let mut programs: Vec<(&str, Program)> =
        outcomes.iter().map(|outcome| (outcome.name.as_str(), Program::of(outcome))).collect();
    programs.sort_by(|(_, a), (_, b)| b.seconds.total_cmp(&a.seconds));

    let mut cases: Vec<(f64, &str, &str)> = Vec::new();
    let mut modules: BTreeMap<(&str, &str), (f64, usize)> = BTreeMap::new();
    let mut text =
        format!("{:<22} {:>12} {:>7} {:>12} {:>7}\n", "program", "took", "tests", "their sum", "waits");
    for (name, program) in &programs {
        for (case, seconds) in &program.cases {
            cases.push((*seconds, *name, case.as_str()));
            let module = case.split_once("::").map_or(case.as_str(), |(module, _)| module);
            let sum = modules.entry((*name, module)).or_default();
            *sum = (sum.0 + seconds, sum.1 + 1);
        }
        let sum: f64 = program.cases.values().sum();
        let waits = program.waits().map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
        let _ = writeln!(
            text,
            "{name:<22} {:>12} {:>7} {:>12} {waits:>7}",
            shown(program.seconds),
            program.cases.len(),
            shown(sum),
        );
    }
    if cases.is_empty() {
        text.push_str("\nthe test programs report no times of single tests\n");
        return text;
    }
    cases.sort_by(|a, b| b.0.total_cmp(&a.0));
    let _ = writeln!(text, "\nthe {} tests that took longest", count.min(cases.len()));
    for (seconds, program, case) in cases.iter().take(count) {
        let _ = writeln!(text, "{seconds:>8.1} s  {program}: {case}");
    }
    let mut modules: Vec<_> = modules.into_iter().collect();
    modules.sort_by(|(_, a), (_, b)| b.0.total_cmp(&a.0));
    let _ = writeln!(text, "\nthe {} modules that took longest, in sum", count.min(modules.len()));
    for ((program, module), (seconds, number)) in modules.iter().take(count) {
        let _ = writeln!(text, "{seconds:>8.1} s  {program}: {module} ({number} tests)");
    }
    text
}

fn shown(seconds: f64) -> String {
    shell::shown_duration(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::report::tests::report;

    fn outcome(name: &str, seconds: u64, cpu: u64, printed: &str) -> Outcome {
        Outcome {
            name: name.to_owned(),
            threads: 2,
            took: Duration::from_secs(seconds),
            cpu: Some(Duration::from_secs(cpu)),
            report: report(printed),
            ..Outcome::default()
        }
    }

    #[test]
    fn the_slowest_come_first() {
        let outcomes = [
            outcome("git it", 20, 30, "test fetch::one ... ok <5.000s>\ntest fetch::two ... ok <6.000s>"),
            outcome("store it", 125, 50, "test sqlite::long ... FAILED <60.100s>"),
        ];
        assert_eq!(
            slowest(&outcomes, 2),
            "program                        took   tests    their sum   waits\n\
             store it                  2 min 5 s       1         60 s    80 %\n\
             git it                         20 s       2         11 s    25 %\n\
             \n\
             the 2 tests that took longest\n\
             \u{20}   60.1 s  store it: sqlite::long\n\
             \u{20}    6.0 s  git it: fetch::two\n\
             \n\
             the 2 modules that took longest, in sum\n\
             \u{20}   60.1 s  store it: sqlite (1 tests)\n\
             \u{20}   11.0 s  git it: fetch (2 tests)\n"
        );
    }

    #[test]
    fn known_times_order_programs_and_others_are_guessed() {
        let mut times = Times::default();
        assert!(times.seconds("plural it") > times.seconds("store it"));
        assert!(times.seconds("store it") > times.seconds("core lib"));
        times.add(&[outcome("core lib", 1000, 1, "")]);
        assert!(times.seconds("core lib") > times.seconds("plural it"));
        let text = serde_json::to_string(&times).unwrap();
        let again: Times = serde_json::from_str(&text).unwrap();
        assert_eq!(again.programs, times.programs);
    }
}
