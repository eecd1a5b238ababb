//! One heavy test at a time.

use std::{
    env,
    fs::{File, TryLockError},
    thread,
    time::{Duration, Instant},
};

use crate::run::extend_limit;

/// Names the file that heavy tests lock. `cargo xtask test` sets it for all programs of all checkouts of a user; a
/// program that is run without it locks nothing.
pub const EXCLUSIVE_ENV: &str = "PLURAL_TEST_EXCLUSIVE";

const POLL: Duration = Duration::from_millis(100);
/// A heavy test that hangs elsewhere does not hang this one, too.
const GIVE_UP: Duration = Duration::from_mins(15);

/// Held by one test at a time; dropping it, or the end of the process, lets the next one begin.
#[derive(Debug)]
#[must_use]
pub struct Exclusive {
    _lock: Option<File>,
}

/// Wait until no other heavy test runs. A test calls this first when it keeps all cores busy for long: side by side,
/// such tests miss their deadlines on a small machine. Other tests go on beside it. The wait does not count towards
/// the limit of [`run_case`](crate::run_case).
pub async fn exclusive() -> Exclusive {
    let mut turn = Turn::new();
    while !turn.take() {
        tokio::time::sleep(POLL).await;
        extend_limit(POLL);
    }
    turn.exclusive()
}

/// [`exclusive`] for a test without a runtime.
pub fn exclusive_blocking() -> Exclusive {
    let mut turn = Turn::new();
    while !turn.take() {
        thread::sleep(POLL);
        extend_limit(POLL);
    }
    turn.exclusive()
}

struct Turn {
    file: Option<File>,
    since: Instant,
}

impl Turn {
    fn new() -> Self {
        let file = env::var_os(EXCLUSIVE_ENV).and_then(|path| {
            let opened = File::options().create(true).truncate(false).write(true).open(&path);
            opened.inspect_err(|e| eprintln!("heavy tests are not kept apart: {}: {e}", path.display())).ok()
        });
        Self { file, since: Instant::now() }
    }

    /// Whether the test may begin.
    fn take(&mut self) -> bool {
        let Some(file) = &self.file else { return true };
        match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) if self.since.elapsed() < GIVE_UP => false,
            Err(e) => {
                eprintln!("this heavy test is not kept apart from others: {e}");
                self.file = None;
                true
            }
        }
    }

    fn exclusive(self) -> Exclusive {
        Exclusive { _lock: self.file }
    }
}
