//! A git repository that services are read from.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::address::{Address, Scheme};
use crate::ids::{ProjectId, RepositoryId};
use crate::name::NameError;
use crate::page::Keyed;
use crate::web_address::{WebAddress, WebAddressChange};

/// A git repository. Credentials are sealed in the store and never part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Id.
    pub id: RepositoryId,
    /// Where it is; unique in the installation.
    pub url: RepositoryUrl,
    /// Who may use it is decided by its project's bindings.
    pub project_id: ProjectId,
    /// How we sign in to it.
    pub auth_method: Option<AuthMethod>,
    /// Only commits that somebody signed who may are taken from it.
    pub signed: bool,
    /// Where people read it.
    pub web: WebAddress,
    /// How the last fetch went.
    pub health: Option<GitHealth>,
    /// Why the last fetch failed, without credentials.
    pub error: Option<String>,
    /// When it was last fetched.
    pub pulled_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// How we sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMethod {
    /// User name and password or token.
    Basic,
    /// Private key.
    Ssh,
}

impl AuthMethod {
    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Basic => "BASIC",
            Self::Ssh => "SSH",
        }
    }

    /// The method of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Basic, Self::Ssh].into_iter().find(|method| method.as_str() == text)
    }
}

/// How the last fetch went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitHealth {
    /// It worked.
    Pullable,
    /// It did not.
    Failed,
}

impl GitHealth {
    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pullable => "PULLABLE",
            Self::Failed => "FAILED",
        }
    }

    /// The health of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pullable, Self::Failed].into_iter().find(|health| health.as_str() == text)
    }
}

/// What a new repository is made from. Credentials travel beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRepository {
    /// Where it is.
    pub url: RepositoryUrl,
    /// The default project when absent.
    pub project_id: Option<ProjectId>,
    /// Where people read it.
    pub web: WebAddress,
}

/// What changes of a repository; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryChange {
    /// New place.
    pub url: Option<RepositoryUrl>,
    /// Where people read it.
    pub web: WebAddressChange,
}

/// Where a repository is: `https://…`, `http://…`, `ssh://…`, `user@host:path`, or an absolute local path
/// (with or without `file://`). Never holds credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepositoryUrl {
    text: String,
    /// `None` only for what an earlier release stored and this one would not accept.
    address: Option<Address>,
}

impl RepositoryUrl {
    /// An address that was stored. One that would not be accepted today is kept, so that the repository can be listed and
    /// mended; [`RepositoryUrl::address`] tells when it is used.
    pub fn stored(text: &str) -> Self {
        match git_address(text) {
            Ok(address) => Self { text: text.to_owned(), address: Some(address) },
            Err(_) => Self { text: text.to_owned(), address: None },
        }
    }

    /// The text: the normal form, or what an earlier release stored.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its components.
    ///
    /// # Errors
    /// Why an address that an earlier release stored is not accepted any more.
    pub fn address(&self) -> Result<&Address, NameError> {
        match &self.address {
            Some(address) => Ok(address),
            None => Err(git_address(&self.text).err().unwrap_or_else(|| NameError::of("is not an address"))),
        }
    }

    /// It is a folder on the console's machine.
    pub fn is_local(&self) -> bool {
        match &self.address {
            Some(address) => address.scheme() == Scheme::File,
            None => self.text.starts_with('/') || self.text.starts_with("file:"),
        }
    }

    /// The folder, when it is local.
    pub fn local_path(&self) -> Option<&str> {
        let address = self.address.as_ref()?;
        (address.scheme() == Scheme::File).then_some(address.path())
    }

    /// What a webhook's URL is compared by: host and path, lower case, without scheme, user, port,
    /// `.git` or a final slash, so that the https and the ssh address of one repository are equal.
    pub fn identity(&self) -> String {
        let Some(address) = &self.address else { return self.text.clone() };
        if address.scheme() == Scheme::File {
            return address.path().trim_end_matches('/').to_owned();
        }
        let path = address.path();
        let path = path.strip_prefix("/~/").unwrap_or(path).trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        format!("{}/{path}", address.host()).to_lowercase()
    }
}

impl fmt::Display for RepositoryUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for RepositoryUrl {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let address = git_address(text)?;
        Ok(Self { text: address.to_string(), address: Some(address) })
    }
}

/// An address that git can fetch from.
fn git_address(text: &str) -> Result<Address, NameError> {
    let address: Address = text.parse()?;
    match address.scheme() {
        Scheme::Https | Scheme::Http | Scheme::Ssh | Scheme::File => Ok(address),
        Scheme::Oci | Scheme::OciHttp => Err(NameError::of(
            "must be https://HOST/PATH, ssh://USER@HOST/PATH, USER@HOST:PATH or an absolute local path",
        )),
    }
}

impl Keyed for Repository {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(text: &str) -> String {
        text.parse::<RepositoryUrl>().unwrap().identity()
    }

    #[test]
    fn one_repository_has_one_identity() {
        let expected = "example.com/team/app";
        for text in [
            "https://example.com/team/app.git",
            "https://Example.com/team/app/",
            "ssh://git@example.com:2222/team/app.git",
            "git@example.com:team/app.git",
        ] {
            assert_eq!(identity(text), expected, "{text}");
        }
        assert_eq!(identity("/srv/git/app"), "/srv/git/app");
    }

    #[test]
    fn hosts_are_told_apart_however_they_are_written() {
        assert_ne!(identity("ssh://git@[::1]/x"), identity("ssh://git@[::2]/x"));
        assert_eq!(identity("https://[2001:DB8::1]:8443/x.git"), "[2001:db8::1]/x");
        assert_eq!(identity("git@example.com:~/team/app"), "example.com/team/app");
    }

    #[test]
    fn what_git_would_misread_is_refused() {
        for bad in [
            "",
            "--upload-pack=x",
            "ext::sh -c x",
            "ext::sh",
            "https://",
            "https://ada:pw@example.com/x",
            "ssh://-oProxyCommand=x/y",
            "ftp://example.com/x",
            "oci://example.com/x",
            "relative/path",
            "git@-host:x",
            "fd::1",
            "https://example.com/shop/../x",
        ] {
            assert!(bad.parse::<RepositoryUrl>().is_err(), "{bad:?}");
        }
        assert!("file:///srv/x".parse::<RepositoryUrl>().unwrap().is_local());
    }

    #[test]
    fn what_was_stored_is_kept_and_told_when_it_is_used() {
        let stored = RepositoryUrl::stored("https://Example.com:443/x");
        assert_eq!(stored.as_str(), "https://Example.com:443/x", "clients and mirrors know it by this text");
        assert_eq!(stored.address().unwrap().to_string(), "https://example.com/x");
        let odd = RepositoryUrl::stored("https://example.com/shop/../x");
        assert_eq!(odd.as_str(), "https://example.com/shop/../x");
        assert!(odd.address().unwrap_err().to_string().contains("\"..\""));
        let local = RepositoryUrl::stored("/srv/../x");
        assert!(local.is_local() && local.local_path().is_none());
    }
}
