//! From flags, environment and saved logins to a client.

use std::path::{Path, PathBuf};

use plural_wire::{Client, ClientOptions, ProxyOptions, Secret, without_userinfo};

use crate::{args::ConnectionArgs, config::Profiles, error::CliError, terminal::Terminal};

/// A console to talk to.
pub(crate) struct Connection {
    /// Its client.
    pub(crate) client: Client,
    /// What it logs in with.
    pub(crate) token: Secret,
    /// What the client was made from.
    pub(crate) options: ClientOptions,
    /// PEM text of the authority that it is trusted by, if not one of the system's.
    pub(crate) ca_pem: Option<Vec<u8>>,
    /// The file of that text.
    pub(crate) ca_file: Option<PathBuf>,
    /// The saved login that is used, if one is.
    pub(crate) profile: Option<String>,
}

/// A client of the console that flags, environment or a saved login name, in this order.
///
/// A saved token goes only to the console it was saved for: with `--url` of another one, it is not used.
pub(crate) fn connect(args: &ConnectionArgs, terminal: &Terminal<'_>) -> Result<Connection, CliError> {
    connection(args, terminal.var("PLURAL_CONSOLE_TOKEN").map(Secret::new), terminal)
}

/// The same with this token, whatever the environment and saved logins have.
pub(crate) fn connect_as(
    args: &ConnectionArgs,
    token: Secret,
    terminal: &Terminal<'_>,
) -> Result<Connection, CliError> {
    connection(args, Some(token), terminal)
}

fn connection(
    args: &ConnectionArgs,
    token: Option<Secret>,
    terminal: &Terminal<'_>,
) -> Result<Connection, CliError> {
    if token.as_ref().is_some_and(|token| token.expose().trim().is_empty()) {
        // A secret that is not there must not turn into whoever logged in here.
        return Err(CliError::new("PLURAL_CONSOLE_TOKEN is empty")
            .hint("give it an access token, or unset it to use the saved login"));
    }
    let profiles = match (&args.url, &token) {
        // Fully told from outside: an unreadable home folder must not matter (CI, containers).
        (Some(_), Some(_)) => terminal.home().and_then(|home| Profiles::read(&home)).unwrap_or_default(),
        _ => Profiles::read(&terminal.home()?)?,
    };
    let profile = match profiles.get(args.profile.as_deref()) {
        // A kubeconfig names the login that it was written with; told from outside, that one need not be here.
        Err(_) if args.url.is_some() && token.is_some() => None,
        found => found?,
    };
    let url = match (&args.url, profile) {
        (Some(url), _) => url.clone(),
        (None, Some(profile)) => profile.url.clone(),
        (None, None) => {
            return Err(CliError::new("no console is configured").hint(
                "log in with `plural login --url URL`, or set PLURAL_CONSOLE_URL and PLURAL_CONSOLE_TOKEN",
            ));
        }
    };
    let saved = profile.filter(|profile| same_console(&profile.url, &url));
    // What is written for later, such as a kubeconfig, goes on with this login when another one is current.
    let used =
        args.profile.as_deref().or_else(|| profiles.current().filter(|_| token.is_none() && saved.is_some()));
    let used = used.map(str::to_owned);
    let Some(token) = token.or_else(|| saved.map(|profile| profile.token.clone())) else {
        let url = without_userinfo(&url);
        return Err(CliError::new(format!("not logged in to {url}"))
            .hint(format!("log in with `plural login --url {url}`, or set PLURAL_CONSOLE_TOKEN")));
    };
    let ca_file = args.ca_file.as_deref().or_else(|| saved.and_then(|profile| profile.ca_file.as_deref()));
    let proxy = proxy(&url, terminal);
    let mut options = ClientOptions { proxy, ..ClientOptions::new(url, Some(token.clone())) };
    options.insecure_http =
        saved.is_some_and(|profile| profile.insecure_http) || insecure_http_allowed(terminal);
    let ca_pem = ca_file.map(read_ca).transpose()?;
    options.ca_pem.clone_from(&ca_pem);
    let ca_file = ca_file.map(Path::to_owned);
    let client = Client::new(&options)?;
    Ok(Connection { client, token, options, ca_pem, ca_file, profile: used })
}

/// The proxy that the environment names for this address, in the variables that every program reads.
pub(crate) fn proxy(url: &str, terminal: &Terminal<'_>) -> Option<ProxyOptions> {
    let first = |names: &[&str]| names.iter().find_map(|name| terminal.var(name));
    let names: &[&str] = if url.trim().starts_with("http://") {
        &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
    } else {
        &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    };
    let url = Secret::new(first(names)?);
    Some(ProxyOptions { url, except: first(&["no_proxy", "NO_PROXY"]) })
}

/// Whether the environment allows plain HTTP to a console elsewhere.
pub(crate) fn insecure_http_allowed(terminal: &Terminal<'_>) -> bool {
    terminal.var("PLURAL_CONSOLE_INSECURE_HTTP").is_some_and(|value| matches!(value.as_str(), "1" | "true"))
}

/// The PEM text of an authority.
pub(crate) fn read_ca(path: &Path) -> Result<Vec<u8>, CliError> {
    std::fs::read(path).map_err(|error| CliError::new(format!("cannot read {}: {error}", path.display())))
}

fn same_console(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}
