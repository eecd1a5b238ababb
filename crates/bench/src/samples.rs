//! Many measurements of one thing.

use std::time::Duration;

/// Measured durations.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    milliseconds: Vec<f64>,
}

impl Samples {
    /// Add one.
    pub(crate) fn add(&mut self, duration: Duration) {
        self.milliseconds.push(duration.as_secs_f64() * 1000.0);
    }

    /// Add all of another.
    pub(crate) fn merge(&mut self, other: Self) {
        self.milliseconds.extend(other.milliseconds);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.milliseconds.len()
    }

    /// The value that this share of the samples does not exceed (nearest rank), in milliseconds; 0 without
    /// samples.
    pub(crate) fn percentile(&self, percent: u8) -> f64 {
        let mut sorted = self.milliseconds.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (usize::from(percent) * sorted.len()).div_ceil(100).max(1);
        sorted.get(rank - 1).copied().unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let mut samples = Samples::default();
        assert!(samples.percentile(50).abs() < f64::EPSILON);
        for ms in (1..=100).rev() {
            samples.add(Duration::from_millis(ms));
        }
        assert_eq!(samples.len(), 100);
        for (percent, expected) in [(0, 1.0), (50, 50.0), (99, 99.0), (100, 100.0)] {
            assert!((samples.percentile(percent) - expected).abs() < f64::EPSILON, "p{percent}");
        }
    }
}
