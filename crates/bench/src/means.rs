//! Means of what the process measured of itself, from its own `/metrics` page.

use std::collections::BTreeMap;

use plural_kit::Metrics;

/// A counter or gauge on such a page, all labels together; 0 when it is not there.
pub(crate) fn value(page: &str, name: &str) -> f64 {
    let lines = page.lines().filter_map(|line| line.rsplit_once(' '));
    let values = lines.filter(|(series, _)| series.split('{').next() == Some(name));
    values.filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
}

/// Sums and counts of histograms at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Means {
    sums: BTreeMap<String, f64>,
}

impl Means {
    /// Now.
    pub(crate) fn read(metrics: &Metrics) -> Self {
        Self::parse(&metrics.render())
    }

    /// From such a page, of this process or another.
    pub(crate) fn parse(page: &str) -> Self {
        let mut sums = BTreeMap::<String, f64>::new();
        for line in page.lines().filter(|l| !l.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            // Labels are summed over.
            let name = name.split('{').next().unwrap_or(name);
            if name.ends_with("_sum") || name.ends_with("_count") {
                *sums.entry(name.to_owned()).or_default() += value.parse::<f64>().unwrap_or(0.0);
            }
        }
        Self { sums }
    }

    /// Mean of a histogram of seconds between an earlier moment and this one, in milliseconds; 0 when it was
    /// not measured in between.
    pub(crate) fn since(&self, earlier: &Self, histogram: &str) -> f64 {
        let count = self.grown(earlier, histogram, "count");
        if count > 0.0 { self.grown(earlier, histogram, "sum") / count * 1000.0 } else { 0.0 }
    }

    /// All that was measured of it between an earlier moment and this one, together, in seconds.
    pub(crate) fn seconds_since(&self, earlier: &Self, histogram: &str) -> f64 {
        self.grown(earlier, histogram, "sum")
    }

    fn grown(&self, earlier: &Self, histogram: &str, suffix: &str) -> f64 {
        let name = format!("{histogram}_{suffix}");
        let of = |means: &Self| means.sums.get(&name).copied().unwrap_or(0.0);
        of(self) - of(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_summed_over_labels() {
        let page = "# TYPE a counter\na{x=\"1 2\"} 3\na{x=\"2\"} 4\nab 5\nc 0.5\n";
        for (name, expected) in [("a", 7.0), ("ab", 5.0), ("c", 0.5), ("d", 0.0)] {
            assert!((value(page, name) - expected).abs() < f64::EPSILON, "{name}");
        }
    }

    #[test]
    fn a_mean_is_of_what_came_between() {
        let earlier = Means::parse("# TYPE a summary\na{quantile=\"0.5\"} 9\na_sum 1\na_count 2\n");
        let later =
            Means::parse("a_sum{x=\"1\"} 2\na_sum{x=\"2\"} 1\na_count{x=\"1\"} 5\na_count{x=\"2\"} 1\n");
        assert!((later.since(&earlier, "a") - 500.0).abs() < 1e-9);
        assert!(later.since(&earlier, "b").abs() < 1e-9);
        assert!((later.seconds_since(&earlier, "a") - 2.0).abs() < 1e-9);
    }
}
