//! `plural login`, `plural logout`.

use clap::Args;

use super::ConnectionArgs;

/// Log in to a console and save the login
///
/// Opens a browser where the console has identity providers: you sign in there and allow this
/// program to do so as well. Where there is no browser, it prints an address and a code for one elsewhere. Without identity
/// providers, and with --email, it asks for an e-mail address and a password.
/// The access token is kept in ~/.plural/profiles.yml (readable by you alone). Programs need no
/// login: they set PLURAL_CONSOLE_URL and PLURAL_CONSOLE_TOKEN. HTTPS_PROXY and NO_PROXY are honoured, except for
/// a console on this machine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural login --url https://console.example.com
  plural login --url https://console.example.com --device   # a browser elsewhere
  plural login --url https://console.example.com --email ada@example.com --password-stdin < password.txt
  plural login --url https://console.example.com --token-stdin < token.txt
  plural login --url https://console.example.com --id-token-stdin < id-token.txt   # in a CI job")]
pub(crate) struct LoginArgs {
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,

    #[command(flatten)]
    pub(crate) how: LoginHow,
}

/// Log in to a console and save the login: the same as `plural login`
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd login --url https://console.example.com
  plural cd login --url https://console.example.com --token-stdin < token.txt")]
pub(crate) struct CdLoginArgs {
    #[command(flatten)]
    pub(crate) how: LoginHow,

    /// Refused: whoever lists processes could read the token. Pipe it in with --token-stdin
    #[arg(long, hide = true, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
}

/// How to log in
#[derive(Debug, Args)]
pub(crate) struct LoginHow {
    /// E-mail address to sign in with; asked for when absent
    #[arg(long, value_name = "EMAIL")]
    pub(crate) email: Option<String>,

    /// Code of your authenticator app, or a recovery code, where you have a second factor; asked for when absent
    #[arg(long, requires = "email", value_name = "CODE")]
    pub(crate) code: Option<String>,

    /// Read the password from standard input instead of asking
    #[arg(long, requires = "email")]
    pub(crate) password_stdin: bool,

    /// Read an access token from standard input and keep that, without signing in
    #[arg(long, conflicts_with_all = ["email", "password_stdin"])]
    pub(crate) token_stdin: bool,

    /// Read a token of a CI system or a cluster from standard input, and exchange it for one of the service account that it stands
    /// for, which holds for an hour
    #[arg(long, conflicts_with_all = ["email", "password_stdin", "token_stdin"])]
    pub(crate) id_token_stdin: bool,

    /// Address or id of the service account, where the token stands for several
    #[arg(long, requires = "id_token_stdin", value_name = "ACCOUNT")]
    pub(crate) service_account: Option<String>,

    /// Print an address and a code for a browser on any machine, and wait until you allow the login there
    #[arg(long, conflicts_with_all = ["email", "password_stdin", "token_stdin", "id_token_stdin"])]
    pub(crate) device: bool,

    /// Open a browser on this machine ($BROWSER, else the system's), also where the console has no identity provider or nobody
    /// answers here
    #[arg(long, conflicts_with_all = ["device", "email", "password_stdin", "token_stdin", "id_token_stdin"])]
    pub(crate) browser: bool,

    /// Speak plain HTTP to a console that is not on this machine, now and with this saved login: the
    /// password and the token go over the network in clear, unless something in between encrypts
    #[arg(long)]
    pub(crate) insecure_http: bool,
}

/// Log out: revoke the saved token and remove it
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural logout
  plural logout --profile staging
  plural logout --local   # the console does not answer any more")]
pub(crate) struct LogoutArgs {
    /// Which of the saved logins; else the last one
    #[arg(long, env = "PLURAL_PROFILE", hide_env_values = true, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// Remove the saved login only; its token stays valid
    #[arg(long)]
    pub(crate) local: bool,
}
