//! What every role does to its own process.

use std::io::IsTerminal;

use plural_kit::LogFormat;
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Log settings of every role.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LogArgs {
    /// What to log: a level, or levels by target such as info,plural_sync=debug
    #[arg(long = "log", env = "PLURAL_LOG", value_name = "FILTER", default_value = "info")]
    filter: String,

    /// How log lines look [default: text on a terminal, else json]
    #[arg(long, env = "PLURAL_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Json,
    Text,
}

impl LogArgs {
    /// Text, for a person who watches.
    pub(crate) fn text(filter: &str) -> Self {
        Self { filter: filter.to_owned(), log_format: Some(Format::Text) }
    }

    /// Starts logging to stderr.
    pub(crate) fn init(&self) -> anyhow::Result<()> {
        let format = match self.log_format {
            Some(Format::Text) => LogFormat::Text,
            None if std::io::stderr().is_terminal() => LogFormat::Text,
            Some(Format::Json) | None => LogFormat::Json,
        };
        Ok(plural_kit::init_logs(format, &self.filter)?)
    }
}

/// What this process and its children write is for their own user alone, unless a mode says more.
pub(crate) fn keep_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Lets this process open as many files as the system lets it: a connection is a file.
pub(crate) fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // When it is refused, the limit stays what it was and the first connection too many says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
