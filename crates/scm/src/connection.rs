//! Which host, and how to get in: [`Connection`].

use std::{fmt, sync::Arc, time::Duration};

use plural_git::Mirrors;
use plural_reach::{Lookup, Reach, SystemLookup};
use reqwest::Url;
use secrecy::SecretString;

use crate::{
    azure::Azure,
    bitbucket::Bitbucket,
    datacenter::{self, DataCenter},
    error::{Cause, Error, Result},
    gitlab::GitLab,
    http::Http,
    hub::{Dialect, Hub},
    names::printable,
    port::GitHost,
    signing::Signer,
};

/// What kind of host it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HostKind {
    /// GitHub, its enterprise server too.
    GitHub,
    /// Gitea and Forgejo.
    Gitea,
    /// GitLab.
    GitLab,
    /// Bitbucket Cloud.
    BitbucketCloud,
    /// Bitbucket Data Center.
    BitbucketDataCenter,
    /// Azure DevOps.
    AzureDevOps,
}

impl HostKind {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::GitHub => "GitHub",
            Self::Gitea => "Gitea",
            Self::GitLab => "GitLab",
            Self::BitbucketCloud => "Bitbucket Cloud",
            Self::BitbucketDataCenter => "Bitbucket Data Center",
            Self::AzureDevOps => "Azure DevOps",
        }
    }
}

/// How to sign in.
#[derive(Clone)]
pub enum Credentials {
    /// A token of a person or service account.
    Token(SecretString),
    /// A user's name with a password or token.
    Basic {
        /// The name.
        username: String,
        /// The password, or a token in its place.
        password: SecretString,
    },
    /// An installation of a GitHub App.
    App {
        /// The App's id.
        app_id: u64,
        /// The installation's id.
        installation_id: u64,
        /// The App's private key (PEM, RSA).
        private_key: SecretString,
    },
}

/// A git host and the right to use it.
#[derive(Clone)]
pub struct Connection {
    /// Tells its mirrors apart from those of connections with other credentials.
    pub id: String,
    /// What kind of host.
    pub kind: HostKind,
    /// Where its API is: `https://git.example.com/api/v1`. Nothing means the public one.
    pub api_url: Option<String>,
    /// How to sign in.
    pub credentials: Credentials,
    /// The private key (Ed25519, as OpenSSH writes it) that commits are signed with; only GitHub's API takes signed commits.
    pub signing_key: Option<SecretString>,
    /// Who signs in, by the name in the host's addresses (slug), where the host does not tell: Bitbucket Data Center.
    pub user: Option<String>,
    /// Certificates (PEM) that are trusted besides the system's.
    pub ca_pem: Option<String>,
    /// Proxy, `http://host:port`.
    pub proxy: Option<String>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An address may hold a user by mistake, so none is shown.
        f.debug_struct("Connection").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Which proxies requests go through when a connection names none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proxies {
    /// None.
    None,
    /// Those of the environment (`HTTPS_PROXY`, `NO_PROXY`, …).
    Environment,
}

/// Limits of every connection.
#[derive(Clone)]
pub struct Options {
    /// Which addresses are talked to.
    pub reach: Reach,
    /// How names become addresses.
    pub lookup: Arc<dyn Lookup>,
    /// Proxies, where a connection names none.
    pub proxies: Proxies,
    /// Credentials are sent over http too, where everybody on the way can read them.
    pub credentials_over_http: bool,
    /// How long one request may take, its answer included.
    pub timeout: Duration,
    /// Bytes of one answer.
    pub body_bytes: usize,
    /// Pages of one list.
    pub pages: usize,
    /// What the client calls itself.
    pub user_agent: String,
    /// Where commits are made for hosts whose API makes none of several files: Bitbucket Data Center.
    pub mirrors: Option<Mirrors>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            reach: Reach::default(),
            lookup: Arc::new(SystemLookup),
            proxies: Proxies::Environment,
            credentials_over_http: false,
            timeout: Duration::from_secs(30),
            body_bytes: 16 << 20,
            pages: 30,
            user_agent: concat!("plural/", env!("CARGO_PKG_VERSION")).to_owned(),
            mirrors: None,
        }
    }
}

/// The host of a connection. Nothing is sent before the first call.
///
/// # Errors
/// When the connection cannot be meant: an address or key that is none, credentials that this host does not know.
pub fn connect(connection: &Connection, options: &Options) -> Result<Arc<dyn GitHost>> {
    let kind = connection.kind;
    let public = match kind {
        HostKind::GitHub => Some("https://api.github.com"),
        HostKind::GitLab => Some("https://gitlab.com/api/v4"),
        HostKind::BitbucketCloud => Some("https://api.bitbucket.org/2.0"),
        HostKind::Gitea | HostKind::BitbucketDataCenter | HostKind::AzureDevOps => None,
    };
    let address = connection.api_url.as_deref().or(public);
    let address = address
        .ok_or_else(|| Error::invalid(format!("a connection to {} needs its API's address", kind.name())))?;
    if matches!(connection.credentials, Credentials::App { .. }) && kind != HostKind::GitHub {
        return Err(Error::invalid("only GitHub has Apps: give a token"));
    }
    if connection.signing_key.is_some() && kind != HostKind::GitHub {
        return Err(Error::invalid(format!("the API of {} takes no signed commits", kind.name())));
    }
    let signer = connection.signing_key.as_ref().map(Signer::new).transpose()?;
    let address = parse_address(address)?;
    let http = |address: Url| Http::new(address, connection, options);
    match kind {
        HostKind::GitHub => Ok(Arc::new(Hub::new(http(address)?, Dialect::GitHub, signer))),
        HostKind::Gitea => Ok(Arc::new(Hub::new(http(address)?, Dialect::Gitea, None))),
        HostKind::GitLab => Ok(Arc::new(GitLab::new(http(address)?))),
        HostKind::BitbucketCloud => Ok(Arc::new(Bitbucket::new(http(address)?))),
        HostKind::BitbucketDataCenter => {
            let missing = || {
                let what =
                    "commits at Bitbucket Data Center are made by git, and this program keeps no mirrors";
                Error::new(Cause::Unsupported, what)
            };
            let mirrors = options.mirrors.clone().ok_or_else(missing)?;
            let root = datacenter::root(address);
            Ok(Arc::new(DataCenter::new(http(root.clone())?, root, connection, mirrors)))
        }
        HostKind::AzureDevOps => Ok(Arc::new(Azure::new(http(address)?))),
    }
}

fn parse_address(text: &str) -> Result<Url> {
    let url = Url::parse(text.trim());
    let url =
        url.map_err(|_| Error::invalid("the API's address cannot be parsed: give https://HOST/PATH"))?;
    if !url.username().is_empty()
        || url.password().is_some()
        || url.query().is_some()
        || url.fragment().is_some()
    {
        return Err(Error::invalid("the API's address must not hold a user, query or fragment"));
    }
    if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none_or(str::is_empty) {
        return Err(Error::invalid(format!("{:?} is no address of an API", printable(text))));
    }
    Ok(url)
}
