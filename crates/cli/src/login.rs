//! `plural login`.

use plural_wire::{Client, ClientOptions, CreateAccessToken, ErrorCode, Me, Secret, SignIn};

use crate::{
    args::{CdLoginArgs, ConnectionArgs, LoginArgs, LoginHow},
    config::{Profile, Profiles},
    connect::{insecure_http_allowed, proxy, read_ca},
    error::CliError,
    terminal::Terminal,
};

/// `plural cd login`.
pub(crate) async fn cd_login(
    args: CdLoginArgs,
    connection: ConnectionArgs,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let CdLoginArgs { how, token } = args;
    if token.is_some() {
        return Err(CliError::usage("a token on the command line could be read by whoever lists processes")
            .hint("pipe it in with --token-stdin: `plural cd login --url URL --token-stdin < token.txt`"));
    }
    login(LoginArgs { connection, how }, terminal).await
}

pub(crate) async fn login(args: LoginArgs, terminal: &mut Terminal<'_>) -> Result<(), CliError> {
    let LoginArgs { connection, how: LoginHow { email, password_stdin, token_stdin, insecure_http } } = args;
    let insecure_http = insecure_http || insecure_http_allowed(terminal);
    let home = terminal.home()?;
    let mut profiles = Profiles::read(&home)?;
    let url = match connection.url {
        Some(url) => url,
        // Logging in again to the console of a saved login needs no address.
        None => match profiles.get(connection.profile.as_deref()).ok().flatten() {
            Some(profile) => profile.url.clone(),
            None => terminal.ask("Address of the console")?,
        },
    };
    let ca_pem = connection.ca_file.as_deref().map(read_ca).transpose()?;
    let proxy = proxy(&url, terminal);
    let connect = |token: Option<Secret>| {
        let mut options =
            ClientOptions { proxy: proxy.clone(), insecure_http, ..ClientOptions::new(&url, token) };
        options.ca_pem.clone_from(&ca_pem);
        Client::new(&options)
    };
    let token = if token_stdin {
        Secret::new(terminal.line()?.trim())
    } else {
        let email = match email {
            Some(email) => email,
            None => terminal.ask("E-mail address")?,
        };
        let password =
            Secret::new(if password_stdin { terminal.line()? } else { terminal.ask_secret("Password")? });
        let signed_in = connect(None)?.send(&SignIn { email, password }).await.map_err(|error| {
            if error.code() == Some(ErrorCode::Unauthenticated) {
                CliError::new("the e-mail address or the password is wrong")
                    .hint("the first administrator's password is printed once, when the console first starts")
            } else {
                error.into()
            }
        })?;
        let session = signed_in.jwt.ok_or_else(|| CliError::new("the console opened no session"))?;
        let created = connect(Some(session))?.send(&CreateAccessToken {}).await?;
        created.token.ok_or_else(|| CliError::new("the console created no access token"))?
    };
    let client = connect(Some(token.clone()))?;
    let me = client.send(&Me {}).await?;
    let profile = Profile {
        url: client.url().to_owned(),
        token,
        made_by_login: !token_stdin,
        insecure_http,
        ca_file: connection.ca_file.map(|path| std::path::absolute(&path).unwrap_or(path)),
    };
    let name = profiles.put(connection.profile.as_deref(), profile);
    let path = profiles.write(&home)?;
    terminal.say(format_args!("logged in to {} as {}", client.url(), me.email));
    terminal.say(format_args!("saved as profile {name:?} in {}", path.display()));
    Ok(())
}
