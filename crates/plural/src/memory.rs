//! What the system's allocator keeps for itself.
//!
//! The GNU allocator gives each thread an arena and gives little of one back: a console that built a thousand artifacts
//! kept 75 KiB for each of them in the arenas of threads that had ended. With two arenas the threads of the database and
//! those of requests wait for each other: a commit took half as long again to reach thousands of agents as with four.

use std::time::Duration;

use plural_kit::meter;

/// Counts what each thread holds, so that renders can be held to what the process may use.
#[global_allocator]
static ALLOCATOR: meter::Counting = meter::Counting;

/// Between two looks at what can be given back.
const EVERY: Duration = Duration::from_secs(20);

/// Arenas of all threads together.
const ARENAS: i32 = 4;

/// Few arenas. Call it before there are threads.
pub(crate) fn set_up() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[expect(unsafe_code, reason = "the allocator's own settings have no other door; no memory is touched")]
    // SAFETY: it sets a number of the allocator, which takes its own lock.
    let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, ARENAS) };
}

/// Gives free pages back to the system, again and again.
pub(crate) async fn give_back() -> std::convert::Infallible {
    loop {
        tokio::time::sleep(EVERY).await;
        meter::trim();
    }
}
