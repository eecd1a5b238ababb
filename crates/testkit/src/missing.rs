//! A backend that this machine does not have, and what tests tell the runner of backends.

use std::{env, fmt, fs, io::Write as _, thread};

/// Names a file that collects the names of tests that did not run, one a line; `cargo xtask test` reads it.
pub const NOT_RUN_ENV: &str = "PLURAL_TEST_NOT_RUN";

/// Names a file that collects which backend a test used whose name does not say it: `NAME BACKEND`, one a line.
/// `cargo xtask test` counts with it which tests run on one backend only.
pub const BACKENDS_ENV: &str = "PLURAL_TEST_BACKENDS";

/// Names a file that collects how many cases tests compared: the test, a tab, and `WHAT: PASSED of TOTAL`.
/// `cargo xtask test --suite` prints it.
pub const COMPARED_ENV: &str = "PLURAL_TEST_COMPARED";

/// Parts of the names of tests that [`each_cluster!`](crate::each_cluster) and its like make.
const IN_NAMES: [&str; 8] =
    ["kubesim", "real", "sqlite", "postgres", "kubesim_only", "real_only", "sqlite_only", "postgres_only"];

/// Tell the runner that the calling test uses a backend, unless its name tells that.
pub(crate) fn note_backend(backend: &str) {
    let thread = thread::current();
    let Some(name) = thread.name() else { return };
    if !name.split("::").any(|part| IN_NAMES.contains(&part)) {
        note(BACKENDS_ENV, &format!("{name} {backend}"));
    }
}

/// Tell the runner how many cases of a comparison passed: one test may hold a thousand.
pub fn note_compared(what: &str, passed: usize, total: usize) {
    let thread = thread::current();
    note(COMPARED_ENV, &format!("{}\t{what}: {passed} of {total}", thread.name().unwrap_or("a test")));
}

/// Append a line to the file that a variable names, if it does.
fn note(variable: &str, line: &str) {
    let Some(file) = env::var_os(variable) else { return };
    let noted = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    if let Err(e) = noted {
        eprintln!("cannot tell the runner `{line}`: {e}");
    }
}

/// Why a backend cannot be used here, and what to do about it.
///
/// On a developer's machine a missing backend means that its tests do not run and say so; with `CI` set
/// it is a failure, so that a suite cannot silently shrink.
#[derive(Debug, Clone)]
pub struct Missing {
    what: String,
    next: String,
}

impl Missing {
    pub(crate) fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into() }
    }

    /// Say that a test does not run, or fail it when `CI` is set.
    ///
    /// # Panics
    /// When `CI` is set.
    pub fn report(&self) {
        assert!(!in_ci(), "{self} (with CI set, a missing backend is a failure)");
        self.say();
    }

    /// Say on stderr, and to the runner, that a test does not run.
    pub(crate) fn say(&self) {
        eprintln!("not run: {self}");
        // The harness names a test's thread after the test.
        note(NOT_RUN_ENV, thread::current().name().unwrap_or("a test"));
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.next)
    }
}

impl std::error::Error for Missing {}

/// Whether this is an unattended run: `CI` is set to something other than nothing, `0` or `false`.
pub(crate) fn in_ci() -> bool {
    env::var("CI").is_ok_and(|v| !matches!(v.as_str(), "" | "0" | "false"))
}
