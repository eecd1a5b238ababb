//! `plural second-factor …`: one-time codes of an authenticator app, for who signs in with a password.

use clap::{Args, Subcommand};
use plural_wire::{
    BeginSecondFactor, Client, ClientError, ConfirmSecondFactor, EndSecondFactor, ErrorCode, Secret,
};
use serde::Serialize;

use crate::{
    args::{ConfirmArgs, ConnectionArgs, OutputArgs},
    error::CliError,
    format::Format,
    output,
    terminal::Terminal,
    users,
};

/// One-time codes of an authenticator app, beside your password: enable, disable
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct SecondFactorArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(subcommand)]
    pub(crate) command: SecondFactorCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SecondFactorCommand {
    Enable(SecondFactorEnableArgs),
    Disable(SecondFactorDisableArgs),
}

/// Require a one-time code when you sign in with your password
///
/// You are asked for your password, shown a secret to give to the app, and asked for a code that it shows then. You get ten recovery
/// codes for the day that the app is lost: keep them elsewhere. Access tokens and logins that there are go on as they are.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural second-factor enable")]
pub(crate) struct SecondFactorEnableArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Stop requiring a one-time code
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural second-factor disable
  plural second-factor disable --user ada@example.com   # as an administrator: the app and the recovery codes are lost")]
pub(crate) struct SecondFactorDisableArgs {
    /// Another user, by e-mail address; for administrators
    #[arg(long, value_name = "EMAIL")]
    pub(crate) user: Option<String>,

    /// Code of your own app, or a recovery code; asked for when it is needed and absent
    #[arg(long, value_name = "CODE")]
    pub(crate) code: Option<String>,

    /// Read your own password from standard input instead of asking
    #[arg(long)]
    pub(crate) password_stdin: bool,

    #[command(flatten)]
    pub(crate) confirm: ConfirmArgs,
}

pub(crate) async fn run(
    command: SecondFactorCommand,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    match command {
        SecondFactorCommand::Enable(SecondFactorEnableArgs { output }) => {
            enable(&output.shown_once()?, client, terminal).await
        }
        SecondFactorCommand::Disable(args) => disable(args, client, terminal).await,
    }
}

/// The codes, as a program reads them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecoveryCodes<'a> {
    recovery_codes: &'a [String],
}

async fn enable(format: &Format, client: &Client, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let is_for_people = matches!(format, Format::Table | Format::Wide);
    let password = Secret::new(terminal.ask_secret("Your password")?);
    let begun = client.send(&BeginSecondFactor { current_password: Some(password) }).await?;
    terminal.say("give this secret to your authenticator app, or open the address on its device:");
    if is_for_people {
        writeln!(terminal.out, "{}\n{}", begun.secret.expose(), begun.address)?;
        terminal.out.flush()?;
    } else {
        // A program reads the codes, and nothing else.
        terminal.say(format_args!("{}\n{}", begun.secret.expose(), begun.address));
    }
    let codes = loop {
        let code = terminal.ask("Code that the app shows")?;
        match client.send(&ConfirmSecondFactor { code }).await {
            Ok(codes) => break codes,
            Err(error) if is_wrong(&error) => terminal.say(format_args!("{error}; try the next one")),
            Err(error) => return Err(error.into()),
        }
    };
    terminal.say("from now on a code is asked for with your password");
    terminal.say("codes for the day that the app is lost, each good once; they are not shown again:");
    let told = RecoveryCodes { recovery_codes: &codes };
    let each: Vec<&str> = codes.iter().map(String::as_str).collect();
    output::told_once(&told, &codes.join("\n"), &each, format, terminal)?;
    Ok(terminal.out.flush()?)
}

fn is_wrong(error: &ClientError) -> bool {
    error.code() == Some(ErrorCode::Invalid)
}

async fn disable(
    args: SecondFactorDisableArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let SecondFactorDisableArgs { user, code, password_stdin, confirm } = args;
    let (whose, user_id) = match user {
        Some(email) => (format!("the second factor of {email}"), Some(users::find(&email, client).await?.id)),
        None => ("your second factor".to_owned(), None),
    };
    terminal.confirm(&format!("end {whose}"), confirm.yes)?;
    let password = if password_stdin { terminal.line()? } else { terminal.ask_secret("Your password")? };
    let mut request = EndSecondFactor { user_id, current_password: Some(Secret::new(password)), code };
    let ended = match client.send(&request).await {
        // The caller has a second factor, the one that ends or another.
        Err(error)
            if error.code() == Some(ErrorCode::Forbidden)
                && request.code.is_none()
                && terminal.is_interactive() =>
        {
            request.code = Some(terminal.ask("Code of your authenticator app, or a recovery code")?);
            client.send(&request).await
        }
        other => other,
    }?;
    terminal.say(if ended { "no code is asked for any more" } else { "there was no second factor" });
    Ok(())
}
