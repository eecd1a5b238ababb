//! Waiting for the console to say that something is so.

use std::time::Duration;

use plural_wire::{Client, ClientError, Operation};
use tokio::time::{Instant, sleep};

use crate::{args::WaitArgs, error::CliError, terminal::Terminal};

/// How often we look.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often we look for what comes at once.
const QUICK: Duration = Duration::from_millis(200);

/// What one look found.
pub(crate) enum Observed<T> {
    /// It is so.
    Done(T),
    /// Not yet; how it stands, in words.
    NotYet(String),
    /// It will not become so.
    Never(CliError),
}

/// Looks again and again until it is so or `timeout` has passed. Tells how it stands whenever that
/// changes. An unreachable console counts as "not yet": it may be restarting.
pub(crate) async fn until<T>(
    what: &str,
    timeout: Duration,
    terminal: &mut Terminal<'_>,
    look: impl AsyncFnMut() -> Result<Observed<T>, ClientError>,
) -> Result<T, CliError> {
    until_every(INTERVAL, what, timeout, terminal, look).await
}

/// [`until`] for what an agent answers at once.
pub(crate) async fn until_quick<T>(
    what: &str,
    timeout: Duration,
    terminal: &mut Terminal<'_>,
    look: impl AsyncFnMut() -> Result<Observed<T>, ClientError>,
) -> Result<T, CliError> {
    until_every(QUICK, what, timeout, terminal, look).await
}

/// Says that `what` is being deleted or, if the person would wait for that, waits until asking for it finds nothing; `left`
/// says in words what is still there.
pub(crate) async fn until_gone<O: Operation>(
    what: &str,
    args: &WaitArgs,
    (client, ask): (&Client, &O),
    terminal: &mut Terminal<'_>,
    left: impl Fn(&O::Data) -> String,
) -> Result<(), CliError> {
    if !args.wait {
        terminal.say(format_args!("{what} is being deleted"));
        return Ok(());
    }
    until(&format!("deletion of {what}"), args.timeout, terminal, async || match client.send(ask).await {
        Ok(found) => Ok(Observed::NotYet(left(&found))),
        Err(error) if error.is_not_found() => Ok(Observed::Done(())),
        Err(error) => Err(error),
    })
    .await?;
    terminal.say(format_args!("{what} deleted"));
    Ok(())
}

async fn until_every<T>(
    interval: Duration,
    what: &str,
    timeout: Duration,
    terminal: &mut Terminal<'_>,
    mut look: impl AsyncFnMut() -> Result<Observed<T>, ClientError>,
) -> Result<T, CliError> {
    let started = Instant::now();
    let deadline = started + timeout;
    let mut told = String::new();
    loop {
        let found = match look().await {
            Ok(found) => found,
            Err(error) if is_passing(&error) => Observed::NotYet(error.to_string()),
            Err(error) => return Err(error.into()),
        };
        let state = match found {
            Observed::Done(value) => return Ok(value),
            Observed::Never(error) => return Err(error),
            Observed::NotYet(state) => state,
        };
        if state != told {
            match started.elapsed().as_secs() {
                0..2 => terminal.say(format_args!("waiting for {what}: {state}")),
                seconds => terminal.say(format_args!("waiting for {what} ({seconds} s): {state}")),
            }
            told = state;
        }
        if Instant::now() + interval > deadline {
            return Err(CliError::new(format!(
                "timed out after {} s waiting for {what}: {told}",
                timeout.as_secs()
            ))
            .hint("it continues in the background; check again later, or wait longer with --timeout"));
        }
        sleep(interval).await;
    }
}

/// Whether the console may be back in a moment.
pub(crate) fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Refused { .. } | ClientError::Timeout { .. } | ClientError::Transport { .. } => true,
        ClientError::Status { status, .. } => matches!(status, 429 | 500..=599),
        _ => false,
    }
}
