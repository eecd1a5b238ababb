//! Where a repository is and how one gets in: [`Remote`], [`RemoteUrl`], [`Credentials`], [`HostKeys`].

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    path::PathBuf,
};

use percent_encoding::percent_decode_str;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest as _, Sha256};

use crate::{
    error::{Error, Result},
    stderr::percent_encode,
};

/// One repository to mirror.
#[derive(Debug, Clone)]
pub struct Remote {
    /// Names the mirror. Two remotes with the same URL but different credentials need different keys, or one could read
    /// what only the other may.
    pub key: MirrorKey,
    /// Where it is.
    pub url: RemoteUrl,
    /// How to get in.
    pub credentials: Credentials,
    /// Which ssh host keys are accepted.
    pub host_keys: HostKeys,
    /// HTTP(S) or SOCKS proxy for https and http remotes, with user information where it needs that.
    pub proxy: Option<SecretString>,
    /// Certificate authorities (PEM) that are trusted for this remote instead of the system's.
    pub ca_pem: Option<String>,
}

impl Remote {
    /// A remote from a URL. User information in the URL is taken out of it and becomes the credentials.
    pub fn new(key: MirrorKey, url: &str) -> Result<Self> {
        let (url, credentials) = RemoteUrl::parse(url)?;
        Ok(Self { key, url, credentials, host_keys: HostKeys::AcceptNew, proxy: None, ca_pem: None })
    }

    /// The same remote with these credentials. [`Credentials::None`] keeps what the URL itself carried.
    #[must_use]
    pub fn with_credentials(mut self, credentials: Credentials) -> Self {
        if !matches!(credentials, Credentials::None) {
            self.credentials = credentials;
        }
        self
    }

    /// The same remote, accepting these ssh host keys.
    #[must_use]
    pub fn with_host_keys(mut self, host_keys: HostKeys) -> Self {
        self.host_keys = host_keys;
        self
    }

    /// Refuses what would break out of the files that git and ssh read, and credentials that would be sent in clear.
    pub(crate) fn check(&self, credentials_over_http: bool) -> Result<()> {
        if let (RemoteUrl::Http { tls: false, .. }, Credentials::Basic { .. }, false) =
            (&self.url, &self.credentials, credentials_over_http)
        {
            return Err(Error::PlainCredentials { url: self.url.to_string() });
        }
        if let Credentials::Basic { username, password } = &self.credentials {
            for text in [username.as_str(), password.expose_secret()] {
                if text.contains(char::is_control) {
                    return Err(Error::bad(
                        "username or password",
                        "(hidden)",
                        "it holds a control character",
                    ));
                }
            }
        }
        if let Some(proxy) = &self.proxy {
            Proxy::parse(proxy)?;
        }
        match (&self.url, &self.credentials) {
            (RemoteUrl::Http { .. }, Credentials::SshKey { .. }) => Err(Error::bad(
                "credentials",
                "ssh key",
                "an https repository needs a username and password or token; use its ssh URL for a key",
            )),
            (RemoteUrl::Ssh { .. }, Credentials::Basic { .. }) => Err(Error::bad(
                "credentials",
                "username and password",
                "an ssh repository needs a private key; use its https URL for a password or token",
            )),
            _ => Ok(()),
        }
    }

    /// Tells apart two remotes of one key, secrets included, without keeping them.
    pub(crate) fn fingerprint(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        part(&self.url.to_string());
        match &self.credentials {
            Credentials::None => part("none"),
            Credentials::Basic { username, password } => {
                part("basic");
                part(username);
                part(password.expose_secret());
            }
            Credentials::SshKey { private_key, passphrase } => {
                part("ssh");
                part(private_key.expose_secret());
                part(passphrase.as_ref().map_or("", |p| p.expose_secret()));
            }
        }
        match &self.host_keys {
            HostKeys::AcceptNew => part("new"),
            HostKeys::Pinned(text) => part(text),
        }
        part(self.proxy.as_ref().map_or("", |p| p.expose_secret()));
        part(self.ca_pem.as_deref().unwrap_or(""));
        hash.finalize().into()
    }

    /// Every secret text, so that messages can be cleaned of them.
    pub(crate) fn secrets(&self) -> Vec<&str> {
        let mut secrets = match &self.credentials {
            Credentials::None => vec![],
            Credentials::Basic { password, .. } => vec![password.expose_secret()],
            Credentials::SshKey { private_key, passphrase } => {
                let mut all = vec![private_key.expose_secret()];
                all.extend(passphrase.as_ref().map(ExposeSecret::expose_secret));
                all
            }
        };
        secrets.extend(self.proxy.as_ref().map(ExposeSecret::expose_secret));
        secrets
    }
}

/// Name of a mirror: 1–64 letters, digits, `-` and `_`. Most callers use the repository's id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MirrorKey(String);

impl MirrorKey {
    /// Checks and wraps a name.
    pub fn new(key: impl Into<String>) -> Result<Self> {
        let key = key.into();
        let plain = key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
        if key.is_empty() || key.len() > 64 || !plain {
            return Err(Error::bad("mirror key", &key, "it must be 1 to 64 letters, digits, '-' or '_'"));
        }
        Ok(Self(key))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MirrorKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A repository's address, parsed, without user information that is secret. `Display` is safe to show and to log.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RemoteUrl {
    /// `https://host/path` or `http://host/path`.
    Http {
        /// Whether it is `https`.
        tls: bool,
        /// Host, with `:port` where one was given.
        authority: String,
        /// Path, beginning with `/`.
        path: String,
    },
    /// `ssh://user@host:port/path` or `user@host:path`.
    Ssh {
        /// User to log in as; `git` where none was given.
        user: String,
        /// Host.
        host: String,
        /// Port, where one was given.
        port: Option<u16>,
        /// Path as the remote's shell sees it.
        path: String,
    },
    /// An absolute path on this machine, or `file:///path`.
    Local(PathBuf),
}

impl RemoteUrl {
    /// Parses a URL. Only https, http, ssh (also `user@host:path`) and absolute local paths are known; everything that
    /// git would take for an option or for a helper program is refused.
    pub fn parse(text: &str) -> Result<(Self, Credentials)> {
        // The text may hold a password: what is shown of it in an error is cleaned first.
        let shown = strip_user_info(text);
        let bad = |why: &str| Error::bad("repository URL", &shown, why);
        if text.is_empty() || text.len() > 4096 {
            return Err(bad("it must have 1 to 4096 characters"));
        }
        if text.starts_with('-') {
            return Err(bad("it begins with '-'"));
        }
        if text.contains(|c: char| c.is_control() || c.is_whitespace()) && !text.starts_with('/') {
            return Err(bad("it holds a space or control character"));
        }
        if text.contains(char::is_control) {
            return Err(bad("it holds a control character"));
        }
        if text.starts_with('/') {
            return Ok((Self::Local(PathBuf::from(text)), Credentials::None));
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return match scheme.to_ascii_lowercase().as_str() {
                "https" => parse_http(true, rest).map_err(|why| bad(&why)),
                "http" => parse_http(false, rest).map_err(|why| bad(&why)),
                "ssh" | "git+ssh" | "ssh+git" => parse_ssh(rest).map_err(|why| bad(&why)),
                "file" => {
                    let path = rest.strip_prefix("localhost").unwrap_or(rest);
                    if !path.starts_with('/') {
                        return Err(bad("a file URL must be file:///absolute/path"));
                    }
                    Ok((Self::Local(PathBuf::from(percent_decode(path))), Credentials::None))
                }
                _ => Err(bad("only https, http, ssh and local paths are supported")),
            };
        }
        // The colon that ends the host is the first one after an IPv6 address.
        let from = text.find(']').unwrap_or(0);
        let Some(colon) = text[from..].find(':') else {
            return Err(bad(
                "it must be https://host/path, ssh://user@host/path, user@host:path or an absolute path",
            ));
        };
        let (login, path) = (&text[..from + colon], &text[from + colon + 1..]);
        if path.starts_with(':') {
            return Err(bad("remote helpers (name::address) are not supported"));
        }
        let (user, host) = login.rsplit_once('@').unwrap_or(("git", login));
        ssh(user, host, None, path).map_err(|why| bad(&why))
    }

    /// The local path, where it is one.
    pub fn local_path(&self) -> Option<&std::path::Path> {
        match self {
            Self::Local(path) => Some(path),
            Self::Http { .. } | Self::Ssh { .. } => None,
        }
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http { tls, authority, path } => {
                write!(f, "{}://{authority}{path}", if *tls { "https" } else { "http" })
            }
            Self::Ssh { user, host, port: Some(port), path } => write!(f, "ssh://{user}@{host}:{port}{path}"),
            Self::Ssh { user, host, port: None, path } => {
                // An scp-like path is relative to the home folder unless it begins with a slash.
                if path.starts_with('/') {
                    write!(f, "ssh://{user}@{host}{path}")
                } else {
                    write!(f, "{user}@{host}:{path}")
                }
            }
            Self::Local(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A proxy's address in its parts. git, libcurl and this crate would find other hosts in a text such as `http://a#@b`, so
/// what could be read in two ways is refused, and git is told a text that is made of the parts.
pub(crate) struct Proxy {
    /// `http`, `https`, `socks5` or `socks5h`.
    pub(crate) scheme: &'static str,
    /// User information with its `@`, escaped; empty without.
    login: String,
    /// A name, an IPv4 address, or an IPv6 address in brackets.
    pub(crate) host: String,
    /// What libcurl takes where none is named.
    pub(crate) port: u16,
}

impl Proxy {
    pub(crate) fn parse(url: &SecretString) -> Result<Self> {
        let bad = |why: &str| Error::bad("proxy", "(hidden)", why);
        let text = url.expose_secret();
        if text.contains(|c: char| c.is_control() || c.is_whitespace() || "?#\\".contains(c)) {
            return Err(bad("it holds a space, a control character, '?', '#' or '\\'"));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let scheme = ["http", "https", "socks5", "socks5h"].into_iter().find(|known| *known == scheme);
        let scheme = scheme.ok_or_else(|| bad("it must be an http, https, socks5 or socks5h URL"))?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains('/') {
            return Err(bad("it must have no path"));
        }
        let (login, authority) = match rest.split_once('@') {
            Some((login, authority)) => (Some(login), authority),
            None => (None, rest),
        };
        if authority.contains('@') {
            return Err(bad("it holds more than one '@'; write those of a password as %40"));
        }
        if login.is_some_and(|login| percent_decode(login).contains(char::is_control)) {
            return Err(bad("its user or password holds a control character"));
        }
        let (host, port) = host_and_port(authority);
        let plain = host.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let v6 = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let known = match v6 {
            Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
            None => plain && !host.is_empty() && !host.starts_with(['-', '.']) && !host.ends_with('.'),
        };
        if !known {
            return Err(bad("its host is empty or has characters that no host name has"));
        }
        let port = match port {
            None | Some("") if scheme == "https" => 443,
            None | Some("") => 1080,
            Some(port) => match port.parse::<u16>() {
                Ok(number) if number > 0 && !port.starts_with('+') => number,
                Ok(_) | Err(_) => return Err(bad("its port is not a number")),
            },
        };
        let login = login.map(|login| match login.split_once(':') {
            Some((user, password)) => format!("{}:{}@", escaped(user), escaped(password)),
            None => format!("{}@", escaped(login)),
        });
        Ok(Self { scheme, login: login.unwrap_or_default(), host: host.to_owned(), port })
    }

    /// Its host, where that is an address.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        self.host.trim_matches(['[', ']']).parse().ok()
    }

    /// What git is told: this proxy, at that host.
    pub(crate) fn at(&self, host: &str) -> SecretString {
        let Self { scheme, login, host: _, port } = self;
        format!("{scheme}://{login}{host}:{port}").into()
    }
}

/// User information as a URL holds it: an escape stays one, and what could end the user information becomes one.
fn escaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut out = percent_encode(parts.next().unwrap_or_default());
    for part in parts {
        let is_escape = part.len() >= 2 && part.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
        out.push_str(if is_escape { "%" } else { "%25" });
        out.push_str(&percent_encode(part));
    }
    out
}

fn parse_http(tls: bool, rest: &str) -> std::result::Result<(RemoteUrl, Credentials), String> {
    let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let (login, authority) = match authority.rsplit_once('@') {
        Some((login, authority)) => (Some(login), authority),
        None => (None, authority),
    };
    check_host(host_and_port(authority).0)?;
    if path.contains(['?', '#']) {
        return Err("it holds a query or fragment".into());
    }
    let credentials = match login.map(|l| l.split_once(':').unwrap_or((l, ""))) {
        None => Credentials::None,
        // `https://TOKEN@host` is how tokens are often written.
        Some((token, "")) => Credentials::basic("git", percent_decode(token)),
        Some((user, password)) => Credentials::basic(percent_decode(user), percent_decode(password)),
    };
    Ok((RemoteUrl::Http { tls, authority: authority.to_owned(), path: path.to_owned() }, credentials))
}

fn parse_ssh(rest: &str) -> std::result::Result<(RemoteUrl, Credentials), String> {
    let (authority, path) = rest.find('/').map(|at| rest.split_at(at)).ok_or("it has no path")?;
    let (user, host) = authority.rsplit_once('@').unwrap_or(("git", authority));
    if user.contains(':') {
        return Err("it holds a password; ssh repositories need a private key".into());
    }
    let (host, port) = host_and_port(host);
    let port = port.map(str::parse).transpose().map_err(|_| "its port is not a number")?;
    ssh(user, host, port, path)
}

/// A host, an IPv6 address in brackets, and what follows its colon.
fn host_and_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    }
}

fn ssh(
    user: &str,
    host: &str,
    port: Option<u16>,
    path: &str,
) -> std::result::Result<(RemoteUrl, Credentials), String> {
    check_host(host)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@+".contains(c);
    if user.is_empty() || user.starts_with('-') || !user.chars().all(plain) {
        return Err("its user name is not plain letters, digits, '-', '_', '.', '+' or '@'".into());
    }
    if path.is_empty() || path.starts_with('-') {
        return Err("its path is empty or begins with '-'".into());
    }
    Ok((
        RemoteUrl::Ssh { user: user.to_owned(), host: host.to_owned(), port, path: path.to_owned() },
        Credentials::None,
    ))
}

fn check_host(host: &str) -> std::result::Result<(), String> {
    let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let plain = bare.chars().all(|c| c.is_alphanumeric() || "-_.:".contains(c));
    if bare.is_empty() || bare.starts_with('-') || !plain {
        return Err("its host is empty or has characters that no host name has".into());
    }
    Ok(())
}

/// Takes `user:password@` out of a text that may be a URL.
pub(crate) fn strip_user_info(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find('/').unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => text.to_owned(),
    }
}

fn percent_decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// How to get into a remote. `Debug` shows no secret.
#[derive(Debug, Clone, Default)]
pub enum Credentials {
    /// A public repository, or a local path.
    #[default]
    None,
    /// Username and password or token, for https and http. They are sent to the URL's own host only.
    Basic {
        /// User name. Hosts that only look at the token accept any.
        username: String,
        /// Password or token.
        password: SecretString,
    },
    /// Private key, for ssh.
    SshKey {
        /// The key in OpenSSH or PEM form.
        private_key: SecretString,
        /// What it is locked with, where it is.
        passphrase: Option<SecretString>,
    },
}

impl Credentials {
    /// Username and password or token.
    pub fn basic(username: impl Into<String>, password: impl Into<String>) -> Self {
        Self::Basic { username: username.into(), password: SecretString::from(password.into()) }
    }

    /// An ssh private key with its passphrase.
    pub fn ssh_key(private_key: impl Into<String>, passphrase: Option<String>) -> Self {
        Self::SshKey {
            private_key: SecretString::from(private_key.into()),
            passphrase: passphrase.map(SecretString::from),
        }
    }
}

/// Which ssh host keys are accepted.
#[derive(Debug, Clone, Default)]
pub enum HostKeys {
    /// The first key seen is kept beside the mirror; another one later is refused.
    #[default]
    AcceptNew,
    /// Only these, in `known_hosts` form.
    Pinned(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(text: &str) -> Result<Proxy> {
        Proxy::parse(&SecretString::from(text))
    }

    #[test]
    fn git_is_told_a_proxy_in_its_parts() {
        for (text, told) in [
            ("http://h", "http://10.0.0.1:1080"),
            ("https://h/", "https://10.0.0.1:443"),
            ("socks5h://h:", "socks5h://10.0.0.1:1080"),
            ("socks5://me@[::1]:3128/", "socks5://me@10.0.0.1:3128"),
            ("http://me:p%40s%s:!@h:3128", "http://me:p%40s%25s%3A%21@10.0.0.1:3128"),
        ] {
            assert_eq!(proxy(text).unwrap().at("10.0.0.1").expose_secret(), told, "{text}");
        }
        assert!(proxy("http://[::1]:1").unwrap().address().is_some());
        assert!(proxy("http://h:1").unwrap().address().is_none());
    }

    #[test]
    fn a_proxy_that_is_read_in_two_ways_is_refused() {
        for bad in [
            "h:3128",
            "file:///etc/passwd",
            "HTTP://h",
            "http://",
            "http://@",
            "http://a:80#@h:3128",
            "http://a:80?@h:3128",
            "http://a:80/@h:3128",
            "http://a\\@h:3128",
            "http://a@b@h:3128",
            "http://h:3128/path",
            "http://h:3128#",
            "http://h:0",
            "http://h:+80",
            "http://h:65536",
            "http://h:80:80",
            "http://h%2e:80",
            "http://-h:80",
            "http://h.:80",
            "http://[h]:80",
            "http://[::1]x:80",
            "http://b\u{fc}cher:80",
            "http://me:a%0ab@h:80",
            "http://me:a b@h:80",
        ] {
            assert!(matches!(proxy(bad), Err(Error::BadInput { .. })), "{bad:?}");
        }
    }
}
