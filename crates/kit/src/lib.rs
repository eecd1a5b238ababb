//! Telemetry, shutdown, retry, admission, private files and limits of memory: what every long-running role needs. Names no
//! noun of ours.

mod admission;
pub mod cgroup;
mod lanes;
pub mod meter;
mod metrics;
mod permits;
mod private;
mod retry;
mod shutdown;
mod telemetry;
mod tls;
mod turns;

pub use self::metrics::{Metrics, init_metrics, method_label, status_label};
pub use admission::{Admission, AdmissionLimits, Ending, OpenRequest, Visit};
pub use lanes::{Hold, LaneLimits, Lanes, Metered, Overrun};
pub use permits::{Permit, Permits, network_of, wide_network_of};
pub use private::{private_file, private_folder, tighten};
pub use retry::{Backoff, about};
pub use shutdown::{Shutdown, ShutdownSignal};
pub use telemetry::{LogFormat, TelemetryError, init_logs};
pub use tls::tls_words;
pub use turns::{Turn, Turns};
