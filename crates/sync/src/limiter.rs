//! How many requests run at once: as many as the API server takes gladly, never more than the cap.
//!
//! Additive increase, multiplicative decrease: each full round of good answers allows one more,
//! each refusal for load halves. A `Retry-After` holds everyone back for as long as it says.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::Notify, time::Instant};

#[derive(Debug)]
pub(crate) struct Limiter {
    state: Mutex<State>,
    freed: Notify,
    cap: usize,
}

#[derive(Debug)]
struct State {
    limit: usize,
    running: usize,
    good: usize,
    /// No request starts before.
    hold_until: Option<Instant>,
    last_cut: Option<Instant>,
}

/// The right to run one request; given back when dropped.
#[derive(Debug)]
pub(crate) struct Permit<'a>(&'a Limiter);

impl Limiter {
    pub(crate) fn new(cap: usize) -> Self {
        let cap = cap.max(1);
        let state = State { limit: cap, running: 0, good: 0, hold_until: None, last_cut: None };
        Self { state: Mutex::new(state), freed: Notify::new(), cap }
    }

    pub(crate) async fn acquire(&self) -> Permit<'_> {
        loop {
            let freed = self.freed.notified();
            let hold = {
                let mut state = self.lock();
                match state.hold_until.filter(|until| *until > Instant::now()) {
                    Some(until) => Some(until),
                    None if state.running < state.limit => {
                        state.running += 1;
                        if state.running < state.limit {
                            // Wake-ups that came together count once: pass it on.
                            self.freed.notify_one();
                        }
                        return Permit(self);
                    }
                    None => None,
                }
            };
            match hold {
                Some(until) => tokio::time::sleep_until(until).await,
                None => freed.await,
            }
        }
    }

    /// The API server answered in good order.
    pub(crate) fn good(&self) {
        let mut state = self.lock();
        state.good += 1;
        if state.good >= state.limit && state.limit < self.cap {
            state.limit += 1;
            state.good = 0;
            drop(state);
            self.freed.notify_one();
        }
    }

    /// The API server is overloaded; `wait` is what it asked for.
    pub(crate) fn overloaded(&self, wait: Option<Duration>) {
        let now = Instant::now();
        let mut state = self.lock();
        // Requests that were refused together are one sign, not many.
        if state.last_cut.is_none_or(|cut| now.duration_since(cut) > Duration::from_millis(100)) {
            state.limit = (state.limit / 2).max(1);
            state.good = 0;
            state.last_cut = Some(now);
        }
        if let Some(wait) = wait {
            let until = now + wait.min(Duration::from_secs(30));
            state.hold_until = Some(state.hold_until.map_or(until, |old| old.max(until)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn halves_on_overload_and_grows_back() {
        let limiter = Limiter::new(4);
        limiter.overloaded(Some(Duration::from_millis(50)));
        let before = Instant::now();
        let first = limiter.acquire().await;
        assert!(before.elapsed() >= Duration::from_millis(50));
        let second = limiter.acquire().await;
        assert!(limiter.acquire().now_or_never().is_none(), "the limit was halved to 2");
        limiter.good();
        limiter.good();
        let third = limiter.acquire().await;
        drop((first, second, third));
        assert_eq!(limiter.lock().running, 0);
    }
}
