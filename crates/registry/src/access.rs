//! Where a repository is and how to sign in to it: [`Access`].

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::{Url, header::HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};

/// Longest address that is read.
const MAX_URL: usize = 2048;

/// A repository and the right to read it.
#[derive(Clone)]
pub struct Access {
    pub(crate) url: Url,
    pub(crate) oci: bool,
    pub(crate) credentials: Credentials,
    pub(crate) ca_pem: Option<String>,
    pub(crate) proxy: Option<String>,
    /// Who reads: parties share the room for answers.
    pub(crate) party: Arc<str>,
}

/// How to sign in.
#[derive(Clone, Default)]
pub enum Credentials {
    /// Not at all.
    #[default]
    None,
    /// By name and password, or token.
    Basic {
        /// User name.
        username: String,
        /// Password or token.
        password: SecretString,
    },
    /// By a token that is sent as it is.
    Bearer {
        /// The token.
        token: SecretString,
    },
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").field("url", &shown(&self.url)).finish_non_exhaustive()
    }
}

impl Access {
    /// The repository at `https://…`, `http://…` (both with an `index.yaml`), `oci://…`, or `oci+http://…` (a registry
    /// without TLS; `oci://` means that too where the host is this machine).
    ///
    /// # Errors
    /// When it is no such address, or holds a user, a password, a query or a fragment.
    pub fn new(address: &str) -> Result<Self> {
        let text = address.trim();
        let bad = |why: &str| Error::invalid(format!("{:?} is not a repository: {why}", printable(text)));
        if text.len() > MAX_URL {
            return Err(bad("it is too long"));
        }
        let (oci, address) = if let Some(rest) = text.strip_prefix("oci://") {
            (true, format!("{}://{rest}", if is_this_machine(rest) { "http" } else { "https" }))
        } else if let Some(rest) = text.strip_prefix("oci+http://") {
            (true, format!("http://{rest}"))
        } else if text.starts_with("https://") || text.starts_with("http://") {
            (false, text.to_owned())
        } else {
            return Err(bad("give https://HOST/PATH or oci://HOST/PATH"));
        };
        let mut url = Url::parse(&address).map_err(|_| bad("it is not an address"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::invalid(
                "the repository's address holds a user or password: give them as its credentials",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("it must not hold a query or fragment"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(bad("it has no host"));
        }
        let path = format!("{}/", url.path().trim_end_matches('/'));
        url.set_path(&path);
        Ok(Self {
            url,
            oci,
            credentials: Credentials::None,
            ca_pem: None,
            proxy: None,
            party: Arc::default(),
        })
    }

    /// On behalf of this party: what it reads at once leaves room for others.
    #[must_use]
    pub fn with_party(mut self, party: &str) -> Self {
        self.party = party.into();
        self
    }

    /// With these credentials.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = credentials;
        self
    }

    /// Trusting these certificates (PEM) besides the system's.
    #[must_use]
    pub fn with_ca(mut self, pem: Option<String>) -> Self {
        self.ca_pem = pem;
        self
    }

    /// Through this proxy, `http://host:port`.
    #[must_use]
    pub fn with_proxy(mut self, proxy: Option<String>) -> Self {
        self.proxy = proxy;
        self
    }

    /// It is an OCI registry.
    pub fn is_oci(&self) -> bool {
        self.oci
    }

    /// The value of the `Authorization` header.
    pub(crate) fn authorization(&self) -> Result<Option<HeaderValue>> {
        let text = match &self.credentials {
            Credentials::None => return Ok(None),
            Credentials::Basic { username, password } => {
                format!("Basic {}", STANDARD.encode(format!("{username}:{}", password.expose_secret())))
            }
            Credentials::Bearer { token } => format!("Bearer {}", token.expose_secret()),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| {
            Error::invalid(format!("the credentials of {} hold a line break or the like", shown(&self.url)))
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// It has a credential.
    pub(crate) fn has_credentials(&self) -> bool {
        !matches!(self.credentials, Credentials::None)
    }

    /// The credential is a token that is sent as it is.
    pub(crate) fn has_bearer(&self) -> bool {
        matches!(self.credentials, Credentials::Bearer { .. })
    }

    /// Distinguishes what this access may see from what another may: for caches. No credential can be read from it.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        };
        part(self.url.as_str());
        match &self.credentials {
            Credentials::None => part("none"),
            Credentials::Basic { username, password } => {
                part("basic");
                part(username);
                part(password.expose_secret());
            }
            Credentials::Bearer { token } => {
                part("bearer");
                part(token.expose_secret());
            }
        }
        // By another way another may answer.
        part(self.ca_pem.as_deref().unwrap_or_default());
        part(self.proxy.as_deref().unwrap_or_default());
        hex::encode(hash.finalize())
    }
}

/// Scheme, host and port of an address: who may see a credential.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin(String);

impl Origin {
    pub(crate) fn of(url: &Url) -> Self {
        let port = url.port_or_known_default().unwrap_or_default();
        Self(format!("{}://{}:{port}", url.scheme(), url.host_str().unwrap_or_default()))
    }
}

/// An address for people: without a query, which can be a signature that lets in.
pub(crate) fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

/// Text of somebody else, short and on one line.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

/// `localhost` and loopback addresses, before a port or path.
fn is_this_machine(rest: &str) -> bool {
    let authority = rest.split('/').next().unwrap_or_default();
    if let Some(v6) = authority.strip_prefix('[') {
        return v6.starts_with("::1]");
    }
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_none_are_refused() {
        for bad in [
            "",
            "ftp://a/b",
            "charts",
            "https://",
            "https://ada:pw@a/b",
            "oci://",
            "https://a/b?c",
            "file:///etc",
        ] {
            let error = Access::new(bad).unwrap_err();
            assert_eq!(error.cause, crate::Cause::Invalid, "{bad}");
            assert!(!error.message.contains("pw"), "{error}");
        }
        assert_eq!(Access::new("oci://localhost:5000/a").unwrap().url.as_str(), "http://localhost:5000/a/");
        assert_eq!(Access::new("oci://reg.example/a/").unwrap().url.as_str(), "https://reg.example/a/");
    }

    #[test]
    fn debug_text_holds_no_credential() {
        let access = Access::new("https://a/b").unwrap().with_credentials(Credentials::Basic {
            username: "ada".into(),
            password: "hunter2".to_owned().into(),
        });
        assert!(!format!("{access:?}").contains("hunter2"));
        assert_ne!(access.fingerprint(), Access::new("https://a/b").unwrap().fingerprint());
    }
}
