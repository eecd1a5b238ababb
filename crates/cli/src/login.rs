//! `plural login`.

use std::time::{Duration, Instant};

use plural_wire::{
    Client, ClientOptions, CreateAccessToken, ErrorCode, Me, ProgramLoginState, Secret, SignIn,
    SignInWithCode, SignedIn,
};

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
    let LoginArgs { connection, how } = args;
    let LoginHow {
        email,
        code,
        password_stdin,
        token_stdin,
        id_token_stdin,
        service_account,
        device,
        insecure_http,
    } = how;
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
    let by_browser = if device {
        Some(Browser::Elsewhere)
    } else if email.is_none() && !token_stdin && !id_token_stdin && terminal.is_interactive() {
        // An older console, or one without providers, knows passwords only.
        let providers = connect(None)?.sign_in_providers().await?;
        (!providers.is_empty()).then_some(Browser::Here)
    } else {
        None
    };
    let token = if token_stdin {
        Secret::new(terminal.line()?.trim())
    } else if id_token_stdin {
        let id_token = Secret::new(terminal.line()?.trim());
        connect(None)?.exchange_token(&id_token, service_account.as_deref()).await?
    } else if let Some(browser) = by_browser {
        allowed(&connect(None)?, browser, terminal).await?
    } else {
        let email = match email {
            Some(email) => email,
            None => terminal.ask("E-mail address")?,
        };
        let password =
            Secret::new(if password_stdin { terminal.line()? } else { terminal.ask_secret("Password")? });
        let mut code = code;
        let mut signed_in = match &code {
            None => connect(None)?.send(&SignIn { email: email.clone(), password: password.clone() }).await,
            Some(code) => with_code(&connect(None)?, &email, &password, code).await,
        };
        // The password is right, and there is a second factor.
        let is_wanted = |error: &plural_wire::ClientError| error.code() == Some(ErrorCode::Forbidden);
        if code.is_none() && terminal.is_interactive() && signed_in.as_ref().is_err_and(is_wanted) {
            let typed = terminal.ask("Code of your authenticator app, or a recovery code")?;
            signed_in = with_code(&connect(None)?, &email, &password, &typed).await;
            code = Some(typed);
        }
        let signed_in = signed_in.map_err(|error| {
            if error.code() == Some(ErrorCode::Unauthenticated) {
                CliError::new(match code {
                    None => "the e-mail address or the password is wrong",
                    Some(_) => "the e-mail address, the password or the code is wrong",
                })
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
    let replaced = profiles.replaced(connection.profile.as_deref()).map(|profile| profile.url.clone());
    let name = profiles.put(connection.profile.as_deref(), profile);
    let path = profiles.write(&home)?;
    terminal.say(format_args!("logged in to {} as {}", client.url(), me.email));
    terminal.say(format_args!("saved as profile {name:?} in {}", path.display()));
    if let Some(url) = replaced {
        terminal.say(format_args!(
            "it takes the place of a login to {url}; `plural login --profile NAME` would keep both"
        ));
    }
    Ok(())
}

async fn with_code(
    client: &Client,
    email: &str,
    password: &Secret,
    code: &str,
) -> Result<SignedIn, plural_wire::ClientError> {
    let (email, password, code) = (email.to_owned(), password.clone(), code.to_owned());
    client.send(&SignInWithCode { email, password, code }).await
}

/// Where the person's browser is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Browser {
    Here,
    Elsewhere,
}

/// A token that somebody allows in a browser.
async fn allowed(client: &Client, browser: Browser, terminal: &mut Terminal<'_>) -> Result<Secret, CliError> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = terminal.var("HOSTNAME").unwrap_or_else(|| host.trim().to_owned());
    let program = if host.is_empty() { "plural".to_owned() } else { format!("plural on {host}") };
    let program: String = program.chars().filter(|c| !c.is_control()).take(80).collect();
    let login = client.program_login(&program).await?;
    let page = &login.verification_uri_complete;
    let opened = browser == Browser::Here && open(page, terminal);
    if opened {
        terminal.say(format_args!("a browser opens {page}"));
    } else {
        terminal.say(format_args!("open {} in a browser", login.verification_uri));
    }
    terminal.say(format_args!("and allow the login with the code {}", login.user_code));
    let deadline = Instant::now() + Duration::from_secs(login.expires_in.min(3600));
    let pause = Duration::from_secs(login.interval.clamp(1, 30));
    while Instant::now() < deadline {
        tokio::time::sleep(pause).await;
        match client.program_login_state(&login.device_code).await? {
            ProgramLoginState::Pending => {}
            ProgramLoginState::Allowed(token) => return Ok(token),
            ProgramLoginState::Gone => break,
        }
    }
    Err(CliError::new("the login was not allowed").hint("run `plural login` again"))
}

/// Opens an address with the person's browser, if there is one.
fn open(page: &str, terminal: &Terminal<'_>) -> bool {
    if !page.starts_with("https://") && !page.starts_with("http://") {
        return false;
    }
    let usual = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let program = terminal.var("BROWSER").unwrap_or_else(|| usual.to_owned());
    let quiet = std::process::Stdio::null;
    let started =
        std::process::Command::new(program).arg(page).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    started.is_ok()
}
