//! How long to wait before trying again.

use std::time::Duration;

/// Exponential backoff with full jitter: the n-th wait is uniform in `0..=min(cap, base * 2^n)`.
///
/// Full jitter spreads a crowd that failed at the same moment (a console restart seen by ten
/// thousand agents) evenly over the window; see the AWS architecture blog's comparison of
/// backoff-and-jitter variants.
#[derive(Debug, Clone)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    attempt: u32,
}

impl Backoff {
    /// A backoff whose first wait is at most `base` and whose longest is at most `cap`.
    pub fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap, attempt: 0 }
    }

    /// The next wait; each call doubles the window until the cap.
    pub fn next_wait(&mut self) -> Duration {
        let window = self.base.saturating_mul(1 << self.attempt.min(20)).min(self.cap);
        self.attempt = self.attempt.saturating_add(1);
        window.mul_f64(rand::random::<f64>())
    }

    /// Start over after a success.
    pub fn reset(&mut self) {
        self.attempt = 0;
    }

    /// The same after so many failures that an earlier process counted.
    #[must_use]
    pub fn after(self, attempts: u32) -> Self {
        Self { attempt: attempts, ..self }
    }

    /// Waits drawn since the start or the last reset.
    pub fn attempts(&self) -> u32 {
        self.attempt
    }
}

/// `base`, give or take a fifth, so that periodic work of many replicas or keys does not run at one moment.
pub fn about(base: Duration) -> Duration {
    base.mul_f64(0.8 + 0.4 * rand::random::<f64>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_spread_by_a_fifth() {
        for _ in 0..100 {
            let wait = about(Duration::from_mins(1));
            assert!((Duration::from_secs(48)..=Duration::from_secs(72)).contains(&wait), "{wait:?}");
        }
    }

    #[test]
    fn a_backoff_continues_where_an_earlier_process_stopped() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_hours(1)).after(3);
        assert!(backoff.next_wait() <= Duration::from_secs(8));
        assert_eq!(backoff.attempts(), 4);
    }

    #[test]
    fn waits_never_pass_the_cap_and_reset_starts_over() {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));
        for _ in 0..100 {
            assert!(backoff.next_wait() <= Duration::from_millis(500));
        }
        assert_eq!(backoff.attempts(), 100);
        backoff.reset();
        assert!(backoff.next_wait() <= Duration::from_millis(10));
    }
}
