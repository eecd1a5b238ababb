//! Logs on stderr.

use std::io::IsTerminal as _;

use tracing_subscriber::{EnvFilter, layer::SubscriberExt, util::SubscriberInitExt};

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line: for machines.
    Json,
    /// Short lines for a person, coloured on a terminal.
    Text,
}

/// What libraries tell at length and nobody needs, unless the filter names it: this one has only `info`, and the same
/// for any filter, so that `off` stays off.
const QUIET: &str = "sea_orm_migration=off";

/// Why telemetry could not start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is not in `tracing`'s directive syntax.
    #[error("cannot read the log filter {filter:?}: use for example \"info\" or \"info,plural_sync=debug\"")]
    Filter {
        /// The filter as given.
        filter: String,
        /// What the parser says.
        #[source]
        cause: tracing_subscriber::filter::ParseError,
    },
    /// Something in this process already installed a logger or recorder.
    #[error("telemetry is already set up in this process: {0}")]
    Twice(String),
}

/// Sends log lines of `filter` (for example `info` or `info,plural_sync=debug`) to stderr.
///
/// # Errors
/// When the filter is malformed or a logger is installed already.
pub fn init_logs(format: LogFormat, filter: &str) -> Result<(), TelemetryError> {
    let directives = EnvFilter::try_new(format!("{QUIET},{filter}"))
        .map_err(|cause| TelemetryError::Filter { filter: filter.to_owned(), cause })?;
    let registry = tracing_subscriber::registry().with(directives);
    let started = match format {
        LogFormat::Json => registry
            .with(
                tracing_subscriber::fmt::layer()
                    .json()
                    .flatten_event(true)
                    .with_current_span(true)
                    .with_span_list(false)
                    .with_writer(std::io::stderr),
            )
            .try_init(),
        LogFormat::Text => {
            let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            let layer = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(std::io::stderr);
            registry.with(layer).try_init()
        }
    };
    started.map_err(|error| TelemetryError::Twice(error.to_string()))
}
