//! How the code of a stack is followed, as options.

use clap::Args;
use plural_wire::Client;

use crate::{error::CliError, scm_connections, stack_given::Given};

/// How the code of a stack is followed
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct StackFollowArgs {
    /// How often its code is looked at, between 30s and 168h: 5m, 1h30m. An empty text: as often as the console fetches the repository
    #[arg(long, value_name = "DURATION")]
    pub(crate) interval: Option<String>,

    /// Connection to a git host through which its pull requests are planned, name or id, which may touch the repository. An empty text:
    /// each one that may
    #[arg(long, value_name = "CONNECTION")]
    pub(crate) connection: Option<String>,
}

impl StackFollowArgs {
    /// What is given, as the API names it.
    pub(crate) async fn put(self, given: &mut Given, client: &Client) -> Result<(), CliError> {
        let Self { interval, connection } = self;
        given.put("interval", interval);
        let id = match connection {
            None => return Ok(()),
            Some(connection) if connection.is_empty() => connection,
            Some(connection) => scm_connections::find(&connection, client).await?.id,
        };
        given.put("connectionId", Some(id));
        Ok(())
    }
}
