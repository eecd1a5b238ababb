//! `plural login`.

use std::time::{Duration, Instant};

use plural_wire::{
    Client, ClientOptions, CreateAccessToken, ErrorCode, Me, ProgramLogin, ProgramLoginState, Secret, SignIn,
    SignInWithCode, SignedIn,
};

use crate::{
    args::{CdLoginArgs, ConnectionArgs, LoginArgs, LoginHow},
    config::{Profile, Profiles},
    connect::{insecure_http_allowed, proxy, read_ca},
    error::CliError,
    loopback::{Brought, Page},
    terminal::Terminal,
};

/// What a console adds to the pause that it asks for (RFC 8628 §3.5).
const SLOWER: Duration = Duration::from_secs(5);

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
        browser,
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
        Some(None)
    } else if browser {
        let missing =
            || CliError::new("there is no browser here").hint("set BROWSER, or log in with --device");
        Some(Some(browser_here(terminal).ok_or_else(missing)?))
    } else if email.is_none() && !token_stdin && !id_token_stdin && terminal.is_interactive() {
        // An older console, or one without providers, knows passwords only.
        let providers = connect(None)?.sign_in_providers().await?;
        (!providers.is_empty()).then(|| browser_here(terminal))
    } else {
        None
    };
    let token = if token_stdin {
        Secret::new(terminal.line()?.trim())
    } else if id_token_stdin {
        let id_token = Secret::new(terminal.line()?.trim());
        connect(None)?.exchange_token(&id_token, service_account.as_deref()).await?
    } else if let Some(browser) = by_browser {
        allowed(&connect(None)?, browser.as_deref(), terminal).await?
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

/// A token that somebody allows in a browser: with this program on this machine, or elsewhere.
async fn allowed(
    client: &Client,
    browser: Option<&str>,
    terminal: &mut Terminal<'_>,
) -> Result<Secret, CliError> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = terminal.var("HOSTNAME").unwrap_or_else(|| host.trim().to_owned());
    let program = if host.is_empty() { "plural".to_owned() } else { format!("plural on {host}") };
    let program: String = program.chars().filter(|c| !c.is_control()).take(80).collect();
    if let Some(browser) = browser
        && let Ok(page) = Page::open().await
    {
        let login = client.program_login(&program, Some(page.told())).await?;
        if login.redirect_uri.as_deref() != Some(&page.address) {
            // A console of an earlier build: the same with a question now and then.
            open(browser, &login.verification_uri_complete);
            return asked(client, &login, terminal).await;
        }
        if open(browser, &login.verification_uri_complete) {
            terminal.say(format_args!("a browser opens {}", login.verification_uri_complete));
            terminal.say(format_args!(
                "sign in there and allow the login; `plural login --device` needs no browser here"
            ));
            return brought(client, &page, &login).await;
        }
    }
    let login = client.program_login(&program, None).await?;
    asked(client, &login, terminal).await
}

/// The token for what the browser brings.
async fn brought(client: &Client, page: &Page, login: &ProgramLogin) -> Result<Secret, CliError> {
    match page.brought(Duration::from_secs(login.expires_in.min(3600))).await {
        Some(Brought::Grant(grant)) => {
            let state = client.program_login_redeem(&grant, &page.verifier, &page.address).await?;
            let ProgramLoginState::Allowed(token) = state else { return Err(not_allowed()) };
            Ok(token)
        }
        Some(Brought::Refusal) => Err(CliError::new("the login was refused in the browser")),
        None => Err(not_allowed()),
    }
}

/// The token once somebody entered the code.
async fn asked(
    client: &Client,
    login: &ProgramLogin,
    terminal: &mut Terminal<'_>,
) -> Result<Secret, CliError> {
    terminal.say(format_args!("open {} in a browser", login.verification_uri));
    terminal.say(format_args!("and allow the login with the code {}", login.user_code));
    let deadline = Instant::now() + Duration::from_secs(login.expires_in.min(3600));
    let mut pause = Duration::from_secs(login.interval.clamp(1, 30));
    while Instant::now() < deadline {
        tokio::time::sleep(pause).await;
        match client.program_login_state(&login.device_code).await? {
            ProgramLoginState::Pending => {}
            ProgramLoginState::SlowDown => pause += SLOWER,
            ProgramLoginState::Allowed(token) => return Ok(token),
            ProgramLoginState::Gone => break,
        }
    }
    Err(not_allowed())
}

fn not_allowed() -> CliError {
    CliError::new("the login was not allowed").hint("run `plural login` again")
}

/// The program that opens the person's browser: what they chose, else the system's where there is a screen on this machine.
fn browser_here(terminal: &Terminal<'_>) -> Option<String> {
    if let Some(chosen) = terminal.var("BROWSER") {
        return Some(chosen);
    }
    if cfg!(target_os = "macos") {
        return Some("open".to_owned());
    }
    let has_screen = terminal.var("DISPLAY").is_some() || terminal.var("WAYLAND_DISPLAY").is_some();
    // Over SSH the screen is another machine's, whose loopback is not this one's.
    let is_here = has_screen && terminal.var("SSH_CONNECTION").is_none();
    is_here.then(|| "xdg-open".to_owned())
}

/// Opens an address with it.
fn open(browser: &str, page: &str) -> bool {
    if !page.starts_with("https://") && !page.starts_with("http://") {
        return false;
    }
    let quiet = std::process::Stdio::null;
    let started =
        std::process::Command::new(browser).arg(page).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    started.is_ok()
}
