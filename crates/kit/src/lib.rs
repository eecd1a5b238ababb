//! Telemetry, shutdown, retry, admission and private files: what every long-running role needs. Names no noun of ours.

mod admission;
mod metrics;
mod places;
mod private;
mod retry;
mod shutdown;
mod telemetry;

pub use self::metrics::{Metrics, init_metrics, method_label, status_label};
pub use admission::{Admission, AdmissionLimits, Ending, OpenRequest, Visit};
pub use places::{Place, Places, network_of};
pub use private::{private_file, private_folder, tighten};
pub use retry::Backoff;
pub use shutdown::{Shutdown, ShutdownSignal};
pub use telemetry::{LogFormat, TelemetryError, init_logs};
