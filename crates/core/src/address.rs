//! Addresses of git and chart repositories, parsed into components once, where they are given: [`Address`].
//!
//! Two texts that lead to the same place have the same components, and everything that decides by address (project
//! limits, whose credentials are used, whether a credential may stay) compares components, never text. What servers
//! and clients read in different ways, such as `..` or `%2e`, is refused instead of resolved.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::str::FromStr;

use url::Host;

use crate::address_pattern::AddressPattern;
use crate::name::NameError;

/// The longest address.
const MAX_BYTES: usize = 2048;

/// How a repository is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `https://`: git, or a chart repository.
    Https,
    /// `http://`: the same without encryption.
    Http,
    /// `ssh://USER@HOST/PATH` and `USER@HOST:PATH`: git.
    Ssh,
    /// `oci://`: a registry, with TLS unless it is on this machine.
    Oci,
    /// `oci+http://`: a registry without TLS.
    OciHttp,
    /// An absolute path, or `file://`: git on the console's machine.
    File,
}

impl Scheme {
    const ALL: [Self; 6] = [Self::Https, Self::Http, Self::Ssh, Self::Oci, Self::OciHttp, Self::File];

    /// The word before `://`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::Oci => "oci",
            Self::OciHttp => "oci+http",
            Self::File => "file",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.as_str().eq_ignore_ascii_case(word))
    }

    /// The port that is meant when an address names none.
    pub(crate) const fn default_port(self) -> Option<u16> {
        match self {
            Self::Https | Self::Oci => Some(443),
            Self::Http | Self::OciHttp => Some(80),
            Self::Ssh => Some(22),
            Self::File => None,
        }
    }
}

/// Where a repository is. Holds no secret. `Display` writes the normal form: lower-case host (internationalised names
/// in ASCII, addresses in their shortest form), no default port, a user for ssh, unreserved characters unescaped.
///
/// # Guarantees
/// - No segment of the path is `.` or `..`, and no escape stands for `/`, `.`, `%`, `\` or a control character.
/// - Parsing the text of an address gives the same address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    scheme: Scheme,
    user: Option<String>,
    host: String,
    /// `None` is the scheme's own.
    port: Option<u16>,
    /// Begins with `/`, or is empty; relative to the user's home where it begins with `/~/` and the scheme is ssh.
    path: String,
}

impl Address {
    /// How it is spoken to.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The user to sign in as by ssh; no other scheme has one.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The host, an IPv6 address in brackets; empty for a path on this machine.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, given or by default.
    pub fn port(&self) -> Option<u16> {
        self.port.or(self.scheme.default_port())
    }

    /// The port, where it is not the scheme's own.
    pub(crate) fn own_port(&self) -> Option<u16> {
        self.port
    }

    /// The path, with its leading slash.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What is sent there can be read on the way: credentials stay away unless the operator allows it.
    pub fn is_plain_http(&self) -> bool {
        match self.scheme {
            Scheme::Http | Scheme::OciHttp => true,
            // A registry on this machine is spoken to without TLS.
            Scheme::Oci => self.is_this_machine(),
            Scheme::Https | Scheme::Ssh | Scheme::File => false,
        }
    }

    fn is_this_machine(&self) -> bool {
        match Host::parse(&self.host) {
            Ok(Host::Domain(name)) => name == "localhost",
            Ok(Host::Ipv4(address)) => address.is_loopback(),
            Ok(Host::Ipv6(address)) => address.is_loopback(),
            Err(_) => false,
        }
    }

    /// The other address is this one, or lies below it: same scheme, user, host and port, and each segment of this
    /// path is the other's.
    pub fn covers(&self, other: &Self) -> bool {
        let same = self.scheme == other.scheme
            && self.user == other.user
            && self.host == other.host
            && self.port == other.port;
        let rest = other.path.strip_prefix(self.path.trim_end_matches('/'));
        same && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Whether the pattern allows this address.
    pub fn matches(&self, pattern: &AddressPattern) -> bool {
        pattern.matches(self)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, user, host, port, path } = self;
        if *scheme == Scheme::File {
            return f.write_str(path);
        }
        // A path below the home folder without a port is written as ssh users write it.
        if let (Scheme::Ssh, None, Some(user), Some(relative)) =
            (scheme, port, user, path.strip_prefix("/~/"))
        {
            return write!(f, "{user}@{host}:{relative}");
        }
        write!(f, "{}://", scheme.as_str())?;
        if let Some(user) = user {
            write!(f, "{user}@")?;
        }
        f.write_str(host)?;
        if let Some(port) = port {
            write!(f, ":{port}")?;
        }
        f.write_str(path)
    }
}

impl FromStr for Address {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        let Parts { scheme, user, host, port, path } = Parts::of(text)?;
        if scheme == Scheme::File {
            return Ok(Self {
                scheme,
                user: None,
                host: String::new(),
                port: None,
                path: local_path(&path)?,
            });
        }
        if host.contains('*') || user.is_some_and(|user| user.contains('*')) {
            return Err(NameError::of("must name one host and one user"));
        }
        if scheme == Scheme::Ssh && path.trim_matches('/').is_empty() {
            return Err(NameError::of("must name a repository on its host"));
        }
        let port =
            port.map(|port| port.parse::<u16>().map_err(|_| NameError::of("must have a port below 65536")));
        let port = port.transpose()?.filter(|port| Some(*port) != scheme.default_port());
        if port == Some(0) {
            return Err(NameError::of("must have a port above 0"));
        }
        Ok(Self {
            scheme,
            user: user.map(str::to_owned),
            host: normal_host(host)?,
            port,
            path: normal_path(&path)?,
        })
    }
}

/// An address in pieces, before they are checked one by one.
pub(crate) struct Parts<'t> {
    pub(crate) scheme: Scheme,
    pub(crate) user: Option<&'t str>,
    pub(crate) host: &'t str,
    pub(crate) port: Option<&'t str>,
    pub(crate) path: Cow<'t, str>,
}

impl<'t> Parts<'t> {
    pub(crate) fn of(text: &'t str) -> Result<Self, NameError> {
        if text.is_empty() || text.len() > MAX_BYTES {
            return Err(NameError::of("must be an address of at most 2048 characters"));
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(NameError::of("must not hold spaces, backslashes or control characters"));
        }
        // An argument that begins with a dash would be an option of the git program.
        if text.starts_with('-') {
            return Err(NameError::of("must not begin with \"-\""));
        }
        let file = |path: &'t str| Self {
            scheme: Scheme::File,
            user: None,
            host: "",
            port: None,
            path: path.into(),
        };
        if text.starts_with('/') {
            return Ok(file(text));
        }
        let Some((scheme, rest)) = text.split_once("://") else { return Self::scp(text) };
        let scheme = Scheme::parse(scheme).ok_or_else(unknown)?;
        if scheme == Scheme::File {
            return if rest.starts_with('/') && !rest.contains('%') {
                Ok(file(rest))
            } else {
                Err(unknown())
            };
        }
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (user, authority) = match authority.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, authority),
        };
        let user = match (scheme, user) {
            (Scheme::Ssh, user) => Some(ssh_user(user)?),
            (_, None) => None,
            (_, Some(_)) => {
                return Err(NameError::of(
                    "must not hold a user or password: give them as credentials beside it",
                ));
            }
        };
        let (host, port) = host_and_port(authority)?;
        if scheme != Scheme::Ssh && text.contains(['?', '#']) {
            return Err(NameError::of("must have no query or fragment"));
        }
        Ok(Self { scheme, user, host, port, path: path.into() })
    }

    /// `USER@HOST:PATH`.
    fn scp(text: &'t str) -> Result<Self, NameError> {
        // The colon that ends the host is the first one after an IPv6 address.
        let from = text.find(']').unwrap_or(0);
        let colon = text.get(from..).and_then(|rest| rest.find(':')).ok_or_else(unknown)? + from;
        let (login, path) = text.split_at(colon);
        let path = path.get(1..).unwrap_or_default();
        // `name::address` names a helper program of git.
        if path.is_empty() || path.starts_with([':', '-']) || login.contains('/') {
            return Err(unknown());
        }
        let (user, host) = match login.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, login),
        };
        let (host, port) = host_and_port(host)?;
        let path = match path.strip_prefix("~/") {
            Some(path) => format!("/~/{path}"),
            None if path.starts_with(['/', '~']) => format!("/{}", path.trim_start_matches('/')),
            None => format!("/~/{path}"),
        };
        Ok(Self { scheme: Scheme::Ssh, user: Some(ssh_user(user)?), host, port, path: path.into() })
    }
}

fn unknown() -> NameError {
    NameError::of(
        "must be https://HOST/PATH, ssh://USER@HOST/PATH, USER@HOST:PATH or an absolute local path; \
         a chart repository https://HOST/PATH or oci://HOST/PATH",
    )
}

fn ssh_user(user: Option<&str>) -> Result<&str, NameError> {
    let user = user.unwrap_or("git");
    if user.contains(':') {
        return Err(NameError::of("must not hold a password: give a private key beside it"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@+*".contains(c);
    if user.is_empty() || user.starts_with('-') || !user.chars().all(plain) {
        return Err(NameError::of(
            "must have a user of plain letters, digits, \"-\", \"_\", \".\" and \"+\"",
        ));
    }
    Ok(user)
}

fn host_and_port(authority: &str) -> Result<(&str, Option<&str>), NameError> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(v6) => {
            let end = v6.find(']').ok_or_else(|| NameError::of("must end an IPv6 address with \"]\""))?;
            authority.split_at(end + 2)
        }
        None => authority.find(':').map_or((authority, ""), |at| authority.split_at(at)),
    };
    match rest.strip_prefix(':') {
        // `https://host:/` is the default port.
        Some("") => Ok((host, None)),
        Some(port) => Ok((host, Some(port))),
        None if rest.is_empty() => Ok((host, None)),
        None => Err(NameError::of("must name a host, or a host and a port")),
    }
}

/// A host as every program writes it down: `0x7f.1` is `127.0.0.1`.
pub(crate) fn normal_host(host: &str) -> Result<String, NameError> {
    let bad = || NameError::of("must name a host");
    // The parser would unescape it.
    if host.is_empty() || host.starts_with('-') || host.contains('%') {
        return Err(bad());
    }
    match Host::parse(host).map_err(|_| bad())? {
        Host::Domain(name) if name.starts_with('-') || name.starts_with('.') => Err(bad()),
        host => Ok(host.to_string()),
    }
}

/// A path whose segments everybody understands alike.
pub(crate) fn normal_path(path: &str) -> Result<String, NameError> {
    let mut normal = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        let (plain, escape) = rest.split_at(at);
        normal.push_str(plain);
        let byte = escape
            .get(1..3)
            .filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(byte) = byte else {
            return Err(NameError::of("must write \"%\" in its path as an escape of two hexadecimal digits"));
        };
        match byte {
            b'/' | b'.' | b'%' | b'\\' | 0..=0x1f | 0x7f => {
                return Err(NameError::of(
                    "must not hold escapes for \"/\", \".\", \"%\", \"\\\" or control characters in its path",
                ));
            }
            byte if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) => normal.push(char::from(byte)),
            // Writing to a string cannot fail.
            byte => drop(write!(normal, "%{byte:02X}")),
        }
        rest = escape.get(3..).unwrap_or_default();
    }
    normal.push_str(rest);
    local_path(&normal)
}

/// A path in which nothing is escaped.
pub(crate) fn local_path(path: &str) -> Result<String, NameError> {
    if segments(path).iter().any(|segment| matches!(*segment, "." | "..")) {
        return Err(NameError::of("must not hold \".\" or \"..\" as a segment of its path"));
    }
    Ok(path.to_owned())
}

/// What is between the slashes of a path, without those at its end.
pub(crate) fn segments(path: &str) -> Vec<&str> {
    let path = path.strip_prefix('/').unwrap_or(path).trim_end_matches('/');
    if path.is_empty() { Vec::new() } else { path.split('/').collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> String {
        let address: Address = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        let normal = address.to_string();
        assert_eq!(normal.parse::<Address>().unwrap(), address, "{text} is the same when it is parsed again");
        normal
    }

    #[test]
    fn addresses_have_one_form() {
        for (text, expected) in [
            ("https://Git.Example.COM:443/Team/App.git", "https://git.example.com/Team/App.git"),
            ("HTTPS://git.example.com/a/", "https://git.example.com/a/"),
            ("http://h:80/a", "http://h/a"),
            ("http://h:8080/a", "http://h:8080/a"),
            ("https://b\u{fc}cher.example/a", "https://xn--bcher-kva.example/a"),
            ("https://[2001:DB8:0::1]:443/a", "https://[2001:db8::1]/a"),
            ("http://0x7f.1/a", "http://127.0.0.1/a"),
            ("http://2130706433/a", "http://127.0.0.1/a"),
            ("http://0177.0.0.1/a", "http://127.0.0.1/a"),
            ("https://h/a%7eb%2b%c3%bc", "https://h/a~b%2B%C3%BC"),
            ("https://h", "https://h"),
            ("ssh://h/a", "ssh://git@h/a"),
            ("ssh://me@H:22/a", "ssh://me@h/a"),
            ("ssh://me@[::1]:2222/a", "ssh://me@[::1]:2222/a"),
            ("git@Host:team/app.git", "git@host:team/app.git"),
            ("host:team/app.git", "git@host:team/app.git"),
            ("git@[::1]:team/app", "git@[::1]:team/app"),
            ("git@host:/srv/app", "ssh://git@host/srv/app"),
            ("ssh://git@host/~/app", "git@host:app"),
            ("git@host:~/app", "git@host:app"),
            ("git@host:~ada/app", "ssh://git@host/~ada/app"),
            ("oci://Registry:443/team", "oci://registry/team"),
            ("oci+http://registry:80/team", "oci+http://registry/team"),
            ("/srv/git/app", "/srv/git/app"),
            ("/srv/100%/app", "/srv/100%/app"),
            ("file:///srv/git/app", "/srv/git/app"),
        ] {
            assert_eq!(normal(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_read_in_two_ways_is_refused() {
        for bad in [
            "",
            "relative/path",
            "ftp://h/x",
            "ext::sh -c x",
            "ext::sh",
            "fd::1",
            "--upload-pack=x",
            "https://",
            "https:///x",
            "https://ada:pw@h/x",
            "https://ada@h/x",
            "oci://token@h/x",
            "ssh://ada:pw@h/x",
            "ssh://-oProxyCommand=x/y",
            "ssh://h",
            "ssh://h/",
            "git@-host:x",
            "git@h:-x",
            "https://h/a/../b",
            "https://h/a/./b",
            "https://h/..",
            "https://h/a/%2e%2E/b",
            "https://h/a/.%2e/b",
            "https://h/a%2fb",
            "https://h/a%252fb",
            "https://h/a%5cb",
            "https://h/a\\..\\b",
            "https://h/a%00b",
            "https://h/a%0ab",
            "https://h/a%7fb",
            "https://h/a%b",
            "https://h/a%zz",
            "https://h/a?b",
            "https://h/a#b",
            "https://h:0/a",
            "https://h:65536/a",
            "https://h:80x/a",
            "https://h%2eexample/a",
            "https://h@i/a",
            "https://[::1/a",
            "https://[::1]x/a",
            "https://[h]/a",
            "https://h*/a",
            "http://256.1.1.1/a",
            "git@h:../a",
            "git@h:a/%2e%2e/b",
            "/srv/../etc",
            "file:///srv/%2e%2e/etc",
            "file://host/srv",
            "https://h/a\nb",
            "https://h/a b",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad:?}");
        }
        assert!(format!("https://h/{}", "a".repeat(2048)).parse::<Address>().is_err());
    }

    #[test]
    fn what_lies_below_is_covered() {
        let covers = |a: &str, b: &str| a.parse::<Address>().unwrap().covers(&b.parse().unwrap());
        for (of, at, expected) in [
            ("oci://r.example/team", "oci://r.example/team", true),
            ("oci://r.example/team/", "oci://R.example:443/team/web", true),
            ("oci://r.example", "oci://r.example/team", true),
            ("oci://r.example/team", "oci://r.example/team-b", false),
            ("oci://r.example/team", "oci://r.example", false),
            ("oci://r.example/team", "oci+http://r.example/team", false),
            ("https://r.example/team", "http://r.example/team", false),
            ("https://r.example", "https://r.example.evil.test/team", false),
            ("https://r.example", "https://r.example:444/team", false),
            ("https://[::1]/a", "https://[::2]/a", false),
        ] {
            assert_eq!(covers(of, at), expected, "{of} {at}");
        }
    }
}
