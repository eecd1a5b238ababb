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

    /// Waits drawn since the start or the last reset.
    pub fn attempts(&self) -> u32 {
        self.attempt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
