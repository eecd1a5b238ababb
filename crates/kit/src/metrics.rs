//! Metrics for Prometheus, with a bound on what they take.

use std::{collections::HashSet, fmt, time::Duration};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Level, Metadata, Recorder, SharedString, Unit};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use parking_lot::RwLock;
use tokio::time::MissedTickBehavior;

use crate::{ShutdownSignal, TelemetryError};

/// Time series of one process. Labels are closed sets, which make some hundreds; the limit holds if one is not.
const SERIES: usize = 5_000;
/// Counts the measurements that had no series.
const REFUSED: &str = "plural_metrics_refused_total";
/// How often samples are folded into distributions: until then each takes 16 bytes.
const UPKEEP: Duration = Duration::from_secs(5);

/// Renders what the `metrics` macros counted in this process.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// The page for `/metrics`, in Prometheus' text exposition format 0.0.4.
    pub fn render(&self) -> String {
        self.handle.run_upkeep();
        self.handle.render()
    }

    /// Folds samples into distributions until asked to stop. Without it, a process that nobody scrapes keeps every
    /// sample.
    pub async fn keep_up(&self, stop: &ShutdownSignal) {
        let mut every = tokio::time::interval(UPKEEP);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.or(every.tick()).await.is_some() {
            self.handle.run_upkeep();
        }
    }
}

/// Installs the process-wide metrics recorder. Call once, from the binary.
///
/// # Errors
/// When a recorder is installed already.
pub fn init_metrics() -> Result<Metrics, TelemetryError> {
    let recorder = Bounded::new(PrometheusBuilder::new().build_recorder(), SERIES);
    let handle = recorder.inner.handle();
    metrics::set_global_recorder(recorder).map_err(|error| TelemetryError::Twice(error.to_string()))?;
    Ok(Metrics { handle })
}

/// The `method` label of a request: one of the methods that HTTP defines, or `other`. A client may send any token as a
/// method, and each value of a label is a time series for the rest of the process' life.
pub fn method_label(method: &str) -> &'static str {
    const KNOWN: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"];
    KNOWN.into_iter().find(|known| *known == method).unwrap_or("other")
}

/// The `status` label of a response that somebody else may have chosen: its class where it is no common status.
pub fn status_label(status: u16) -> &'static str {
    const KNOWN: [(u16, &str); 26] = [
        (101, "101"),
        (200, "200"),
        (201, "201"),
        (202, "202"),
        (204, "204"),
        (206, "206"),
        (301, "301"),
        (302, "302"),
        (304, "304"),
        (307, "307"),
        (400, "400"),
        (401, "401"),
        (403, "403"),
        (404, "404"),
        (405, "405"),
        (406, "406"),
        (408, "408"),
        (409, "409"),
        (410, "410"),
        (413, "413"),
        (415, "415"),
        (422, "422"),
        (429, "429"),
        (500, "500"),
        (503, "503"),
        (504, "504"),
    ];
    let exact = KNOWN.into_iter().find_map(|(known, label)| (known == status).then_some(label));
    exact.unwrap_or(match status {
        100..200 => "1xx",
        200..300 => "2xx",
        300..400 => "3xx",
        400..500 => "4xx",
        500..600 => "5xx",
        _ => "other",
    })
}

/// A recorder that takes no more than so many series. What comes later is counted in [`REFUSED`] and else forgotten.
struct Bounded {
    inner: PrometheusRecorder,
    known: RwLock<HashSet<Key>>,
    most: usize,
    refused: Counter,
}

impl Bounded {
    fn new(inner: PrometheusRecorder, most: usize) -> Self {
        let here = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));
        let refused = inner.register_counter(&Key::from_static_name(REFUSED), &here);
        Self { inner, known: RwLock::default(), most, refused }
    }

    fn has_room(&self, key: &Key) -> bool {
        if self.known.read().contains(key) {
            return true;
        }
        let mut known = self.known.write();
        let has_room = known.len() < self.most || known.contains(key);
        if has_room {
            known.insert(key.to_retained());
        } else {
            self.refused.increment(1);
        }
        has_room
    }
}

impl Recorder for Bounded {
    fn describe_counter(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.inner.describe_counter(key, unit, description);
    }

    fn describe_gauge(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.inner.describe_gauge(key, unit, description);
    }

    fn describe_histogram(&self, key: KeyName, unit: Option<Unit>, description: SharedString) {
        self.inner.describe_histogram(key, unit, description);
    }

    fn register_counter(&self, key: &Key, metadata: &Metadata<'_>) -> Counter {
        if self.has_room(key) { self.inner.register_counter(key, metadata) } else { Counter::noop() }
    }

    fn register_gauge(&self, key: &Key, metadata: &Metadata<'_>) -> Gauge {
        if self.has_room(key) { self.inner.register_gauge(key, metadata) } else { Gauge::noop() }
    }

    fn register_histogram(&self, key: &Key, metadata: &Metadata<'_>) -> Histogram {
        if self.has_room(key) { self.inner.register_histogram(key, metadata) } else { Histogram::noop() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shutdown;

    #[test]
    fn labels_are_closed_sets() {
        for (method, label) in
            [("GET", "GET"), ("PATCH", "PATCH"), ("get", "other"), ("", "other"), ("PROPFIND", "other")]
        {
            assert_eq!(method_label(method), label, "{method}");
        }
        let statuses: HashSet<_> = (0..=u16::MAX).map(status_label).collect();
        assert!(statuses.len() < 40, "{statuses:?}");
        for (status, label) in [(200, "200"), (299, "2xx"), (418, "4xx"), (999, "other"), (0, "other")] {
            assert_eq!(status_label(status), label);
        }
    }

    #[test]
    fn series_are_bounded_and_what_is_refused_is_counted() {
        let recorder = Bounded::new(PrometheusBuilder::new().build_recorder(), 10);
        let handle = recorder.inner.handle();
        metrics::with_local_recorder(&recorder, || {
            metrics::counter!("known").increment(1);
            for label in 0..1_000 {
                metrics::counter!("a", "label" => label.to_string()).increment(1);
                metrics::gauge!("b", "label" => label.to_string()).set(1.0);
                metrics::histogram!("c", "label" => label.to_string()).record(1.0);
            }
            metrics::counter!("known").increment(1);
        });
        let page = handle.render();
        assert!(page.contains("\nknown 2\n"), "{page}");
        // Each histogram is seven lines.
        assert!(page.lines().filter(|line| line.contains("label=")).count() <= 9 * 7, "{page}");
        assert!(page.contains(&format!("{REFUSED} {}\n", 3 * 1_000 - 9)), "{page}");
    }

    /// Samples that wait are in nobody's figures: the process' memory tells.
    #[tokio::test]
    async fn what_nobody_scrapes_does_not_grow() {
        let recorder = Bounded::new(PrometheusBuilder::new().build_recorder(), 10);
        let metrics = Metrics { handle: recorder.inner.handle() };
        let stop = Shutdown::new().signal();
        let round = async || {
            metrics::with_local_recorder(&recorder, || {
                for sample in 0..100_000 {
                    metrics::histogram!("seconds").record(f64::from(sample % 100));
                }
            });
            // Its first turn comes at once, and it goes on for ever.
            assert!(tokio::time::timeout(Duration::ZERO, metrics.keep_up(&stop)).await.is_err());
        };
        round().await;
        let before = resident();
        for _ in 0..30 {
            round().await;
        }
        let grown = resident().saturating_sub(before);
        // Three million samples of 16 bytes.
        assert!(grown < 24 << 20, "{grown} bytes are kept");
    }

    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }
}
