//! `plural logout`.

use plural_wire::{Client, ClientOptions, DeleteAccessToken};

use crate::{
    args::LogoutArgs,
    config::{Profile, Profiles},
    connect::{insecure_http_allowed, proxy, read_ca},
    error::CliError,
    kubeconfig,
    terminal::Terminal,
};

const OTHERWISE: &str = "retry when the console is reachable, or log out on this machine only with --local";

pub(crate) async fn logout(args: LogoutArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let LogoutArgs { profile, local } = args;
    let home = terminal.home()?;
    let mut profiles = Profiles::read(&home)?;
    let Some((name, saved)) = profiles.take(profile.as_deref())? else {
        terminal.say("not logged in");
        return Ok(());
    };
    // What kubectl was given ends here, whoever made the token that it was made with.
    let kept = kubeconfig::take_kept(&home, &saved.url, &saved.token);
    // With a token of the login's own they end by themselves.
    let revoked = if local || saved.made_by_login { Vec::new() } else { kept };
    for token in revoked {
        let revoked = match client(&saved, terminal) {
            Ok(client) => client.send(&DeleteAccessToken { token }).await.map(drop).map_err(CliError::from),
            Err(error) => Err(error),
        };
        if let Err(error) = revoked {
            terminal
                .say(format_args!("kubectl's token was not revoked; it expires within the hour: {error}"));
        }
    }
    if local || !saved.made_by_login {
        profiles.write(&home)?;
        terminal.say(format_args!("removed profile {name:?}; its token stays valid at {}", saved.url));
        return Ok(());
    }
    let client = client(&saved, terminal).map_err(|error| error.hint(OTHERWISE))?;
    match client.send(&DeleteAccessToken { token: saved.token }).await {
        Ok(_) => {}
        // It was revoked already, or its user is gone.
        Err(error) if error.is_not_found() || error.is_unauthenticated() => {}
        Err(error) => {
            return Err(CliError::new(format!("the token was not revoked: {error}")).hint(OTHERWISE));
        }
    }
    profiles.write(&home)?;
    terminal
        .say(format_args!("logged out of {}: profile {name:?} is removed and its token revoked", saved.url));
    Ok(())
}

/// A client of the console that a login was saved for. Only where something is asked of it: a login whose authority's file is
/// gone can still be forgotten.
fn client(saved: &Profile, terminal: &Terminal<'_>) -> Result<Client, CliError> {
    let mut options = ClientOptions::new(&saved.url, Some(saved.token.clone()));
    options.insecure_http = saved.insecure_http || insecure_http_allowed(terminal);
    options.proxy = proxy(&saved.url, terminal);
    options.ca_pem = saved.ca_file.as_deref().map(read_ca).transpose()?;
    Ok(Client::new(&options)?)
}
