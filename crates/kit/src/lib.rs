//! Telemetry, shutdown, retry and admission: what every long-running role needs. Names no noun of ours.

mod admission;
mod places;
mod retry;
mod shutdown;
mod telemetry;

pub use admission::{Admission, AdmissionLimits, Ending, OpenRequest, Visit};
pub use places::{Place, Places, network_of};
pub use retry::Backoff;
pub use shutdown::{Shutdown, ShutdownSignal};
pub use telemetry::{LogFormat, Metrics, TelemetryError, init_logs, init_metrics};
