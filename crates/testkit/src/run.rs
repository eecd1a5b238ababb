//! How one test body is run.

use std::{fmt::Debug, future::Future, time::Duration};

/// A case that takes longer than this hangs.
const LIMIT: Duration = Duration::from_mins(5);

/// What a case may return: nothing, or a `Result`.
pub trait CaseOutcome {
    /// Fail the test when the case did not succeed.
    fn conclude(self);
}

impl CaseOutcome for () {
    fn conclude(self) {}
}

impl<E: Debug> CaseOutcome for Result<(), E> {
    #[expect(clippy::panic, reason = "a test fails by panicking")]
    fn conclude(self) {
        if let Err(e) = self {
            panic!("{e:?}");
        }
    }
}

/// Run an async test body on a runtime of its own, for at most five minutes.
///
/// # Panics
/// When the body fails, or does not end in time.
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn run_case<Out: CaseOutcome>(case: impl Future<Output = Out>) {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => panic!("cannot start a runtime: {e}"),
    };
    let outcome = runtime.block_on(async { tokio::time::timeout(LIMIT, case).await });
    runtime.shutdown_timeout(Duration::from_secs(5));
    let Ok(out) = outcome else { panic!("the test did not end within {LIMIT:?}") };
    out.conclude();
}
