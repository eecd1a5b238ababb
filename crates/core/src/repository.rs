//! A git repository that services are read from.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::{ProjectId, RepositoryId};
use crate::name::NameError;
use crate::page::Keyed;

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
}

/// What changes of a repository; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RepositoryChange {
    /// New place.
    pub url: Option<RepositoryUrl>,
}

/// Where a repository is: `https://…`, `http://…`, `ssh://…`, `user@host:path`, or an absolute local path
/// (with or without `file://`). Never holds credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RepositoryUrl {
    text: String,
    local: bool,
}

impl RepositoryUrl {
    /// The text as given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// It is a folder on the console's machine.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// The folder, when it is local.
    pub fn local_path(&self) -> Option<&str> {
        self.local.then(|| self.text.strip_prefix("file://").unwrap_or(&self.text))
    }

    /// What a webhook's URL is compared by: host and path, lower case, without scheme, user, port,
    /// `.git` or a final slash, so that the https and the ssh address of one repository are equal.
    pub fn identity(&self) -> String {
        let text = self.text.as_str();
        if self.local {
            let path = text.strip_prefix("file://").unwrap_or(text);
            return path.trim_end_matches('/').to_owned();
        }
        let rest = match text.split_once("://") {
            Some((_, rest)) => rest.to_owned(),
            // scp form: the first colon ends the host.
            None => text.replacen(':', "/", 1),
        };
        let (host, path) = rest.split_once('/').unwrap_or((&rest, ""));
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        let host = host.split_once(':').map_or(host, |(host, _)| host);
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        format!("{host}/{path}").to_lowercase()
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
        let text = text.trim();
        if text.is_empty() || text.len() > 2048 || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(NameError::of("must be a git address without spaces"));
        }
        // An argument that begins with a dash would be an option of the git program.
        if text.starts_with('-') {
            return Err(NameError::of("must not begin with \"-\""));
        }
        if text.starts_with('/') || text.starts_with("file:///") {
            return Ok(Self { text: text.to_owned(), local: true });
        }
        let fine = match text.split_once("://") {
            Some(("https" | "http", rest)) => {
                let host = rest.split('/').next().unwrap_or_default();
                if host.contains('@') {
                    return Err(NameError::of(
                        "must not hold a user or password: give them as \"username\" and \"password\"",
                    ));
                }
                !host.is_empty() && !host.starts_with('-')
            }
            Some(("ssh", rest)) => {
                let authority = rest.split('/').next().unwrap_or_default();
                let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
                if user.contains(':') {
                    return Err(NameError::of("must not hold a password: give a \"privateKey\""));
                }
                !host.is_empty() && !host.starts_with('-') && !user.starts_with('-')
            }
            Some(_) => false,
            None => text.split_once(':').is_some_and(|(authority, path)| {
                let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
                !host.is_empty()
                    && !host.starts_with('-')
                    && !host.contains('/')
                    && !path.is_empty()
                    && !path.starts_with(':')
            }),
        };
        if !fine {
            return Err(NameError::of(
                "must be https://HOST/PATH, ssh://USER@HOST/PATH, USER@HOST:PATH or an absolute local path",
            ));
        }
        Ok(Self { text: text.to_owned(), local: false })
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
            "relative/path",
            "git@-host:x",
            "fd::1",
        ] {
            assert!(bad.parse::<RepositoryUrl>().is_err(), "{bad:?}");
        }
        assert!("file:///srv/x".parse::<RepositoryUrl>().unwrap().is_local());
    }
}
