//! Telemetry, shutdown and retry: what every long-running role needs. Names no noun of ours.

mod retry;
mod shutdown;
mod telemetry;

pub use retry::Backoff;
pub use shutdown::{Shutdown, ShutdownSignal};
pub use telemetry::{LogFormat, Metrics, TelemetryError, init_logs, init_metrics};
