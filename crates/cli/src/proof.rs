//! Requests whose effect outlasts the login that they are made with: the console wants the password again.

use plural_wire::{Client, ClientError, ErrorCode, Operation, Secret};

use crate::{error::CliError, terminal::Terminal};

/// Where the password of a request comes from, and what is said before it is asked for.
pub(crate) struct Proof<'a> {
    /// It is the next line of standard input.
    pub(crate) stdin: bool,
    /// Why it is needed.
    pub(crate) why: &'a str,
    /// What else somebody could do who is not at a terminal.
    pub(crate) hint: &'a str,
}

/// Sends a request with the password, where that is given or turns out to be wanted. `place` is where the request holds it.
///
/// # Errors
/// See [`ClientError`].
pub(crate) async fn send_proven<O: Operation>(
    mut request: O,
    place: fn(&mut O) -> &mut Option<Secret>,
    proof: &Proof<'_>,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<O::Data, CliError> {
    if proof.stdin {
        *place(&mut request) = Some(Secret::new(terminal.line()?));
        return Ok(client.send(&request).await?);
    }
    match client.send(&request).await {
        Err(error) if is_wanted(&error) && terminal.is_interactive() => {
            terminal.say(proof.why);
            terminal.say(format_args!(
                "hint: without a password, open {}/auth/confirm in a browser: it shows a code for its place",
                client.url().trim_end_matches('/')
            ));
            *place(&mut request) = Some(Secret::new(terminal.ask_secret("Password")?));
            Ok(client.send(&request).await?)
        }
        Err(error) if is_wanted(&error) => Err(CliError::from(error).hint(proof.hint)),
        answer => Ok(answer?),
    }
}

/// Whether the password would help: who lacks a right is not asked for it. The console names the argument that it wants, whatever
/// else it says.
fn is_wanted(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::Forbidden) && error.to_string().contains("currentPassword")
}
