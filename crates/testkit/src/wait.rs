//! Waiting for a value instead of for a time.

use std::{
    fmt::Display,
    future::Future,
    panic::Location,
    time::{Duration, Instant},
};

/// What a probe of [`eventually`] may answer: "there it is" or "not yet, because".
pub trait Probe {
    /// The awaited value.
    type Value;
    /// The value, or why it is not there yet.
    fn outcome(self) -> Result<Self::Value, String>;
}

impl<T> Probe for Option<T> {
    type Value = T;
    fn outcome(self) -> Result<T, String> {
        self.ok_or_else(|| "no value yet".to_owned())
    }
}

impl<T, E: Display> Probe for Result<T, E> {
    type Value = T;
    fn outcome(self) -> Result<T, String> {
        self.map_err(|e| format!("{e:#}"))
    }
}

impl Probe for bool {
    type Value = ();
    fn outcome(self) -> Result<(), String> {
        self.then_some(()).ok_or_else(|| "still false".to_owned())
    }
}

/// Ask again and again until the probe answers with a value, and return it. A probe answers with an
/// `Option`, a `Result` or a `bool`; its last answer is part of the failure.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// let mut asked = 0;
/// let value = plural_testkit::eventually(Duration::from_secs(5), || {
///     asked += 1;
///     let answer = (asked == 3).then_some("here");
///     async move { answer }
/// })
/// .await;
/// assert_eq!(value, "here");
/// # });
/// ```
///
/// # Panics
/// When there is no value at the deadline. One probe that hangs past the deadline is cut off there.
#[track_caller]
pub fn eventually<P, F, Fut>(deadline: Duration, mut probe: F) -> impl Future<Output = P::Value>
where
    P: Probe,
    F: FnMut() -> Fut,
    Fut: Future<Output = P>,
{
    let caller = Location::caller();
    async move {
        let started = Instant::now();
        let mut pause = Duration::from_millis(2);
        let mut last = String::from("the first probe did not answer");
        loop {
            let left = deadline.saturating_sub(started.elapsed());
            match tokio::time::timeout(left, probe()).await {
                Ok(answer) => match answer.outcome() {
                    Ok(value) => return value,
                    Err(reason) => last = reason,
                },
                Err(_) => fail(caller, deadline, &last),
            }
            if started.elapsed() >= deadline {
                fail(caller, deadline, &last);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}

#[expect(clippy::panic, reason = "a test helper fails its test by panicking")]
fn fail(caller: &Location<'_>, deadline: Duration, last: &str) -> ! {
    panic!("{caller}: not within {deadline:?}: {last}")
}
