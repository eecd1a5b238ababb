//! How one test body is run.

use std::{cell::Cell, fmt::Debug, future::Future, pin::pin, time::Duration};

use tokio::time::{Instant, timeout_at};

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

thread_local! {
    /// How long the case of this thread waited for its turn.
    static WAITED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Time that the case of the calling thread may take on top of the limit.
pub(crate) fn extend_limit(by: Duration) {
    WAITED.set(WAITED.get() + by);
}

/// Run an async test body on a runtime of its own, for at most five minutes.
///
/// # Panics
/// When the body fails, or does not end in time.
pub fn run_case<Out: CaseOutcome>(case: impl Future<Output = Out>) {
    run_case_within(LIMIT, case);
}

/// [`run_case`] with another limit, for a case that takes minutes on a busy machine and does not hang.
///
/// # Panics
/// When the body fails, or does not end in time.
#[expect(clippy::panic, reason = "a test fails by panicking")]
pub fn run_case_within<Out: CaseOutcome>(limit: Duration, case: impl Future<Output = Out>) {
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => panic!("cannot start a runtime: {e}"),
    };
    let outcome = runtime.block_on(ends_within(limit, case));
    runtime.shutdown_timeout(Duration::from_secs(5));
    let Some(out) = outcome else { panic!("the test did not end within {limit:?}") };
    out.conclude();
}

/// What a case returns, or nothing when it takes too long.
async fn ends_within<Out>(limit: Duration, case: impl Future<Output = Out>) -> Option<Out> {
    WAITED.set(Duration::ZERO);
    let (started, mut case) = (Instant::now(), pin!(case));
    loop {
        let extended = limit + WAITED.get();
        match timeout_at(started + extended, case.as_mut()).await {
            Ok(out) => return Some(out),
            Err(_) if limit + WAITED.get() > extended => {}
            Err(_) => return None,
        }
    }
}
