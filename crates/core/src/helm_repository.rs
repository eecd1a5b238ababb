//! A chart repository or registry that needs credentials, a certificate or a proxy.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::ids::HelmRepositoryId;
use crate::name::NameError;
use crate::page::Keyed;
use crate::repository::GitHealth;

/// A chart repository. Those that anybody may read need none of this: a service names their address. Credentials are
/// sealed in the store and never part of this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HelmRepository {
    /// Id.
    pub id: HelmRepositoryId,
    /// Where it is; unique in the installation.
    pub url: HelmUrl,
    /// How we sign in to it.
    pub provider: Option<HelmAuthProvider>,
    /// How it was read last.
    pub health: Option<GitHealth>,
    /// Why it could not be read, without credentials.
    pub error: Option<String>,
    /// When it was last read well.
    pub pulled_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// How we sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelmAuthProvider {
    /// User name and password.
    Basic,
    /// A token.
    Bearer,
    /// Google's credentials.
    Gcp,
    /// Azure's credentials.
    Azure,
    /// Amazon's credentials.
    Aws,
}

impl HelmAuthProvider {
    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Basic => "BASIC",
            Self::Bearer => "BEARER",
            Self::Gcp => "GCP",
            Self::Azure => "AZURE",
            Self::Aws => "AWS",
        }
    }

    /// The provider of this name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Basic, Self::Bearer, Self::Gcp, Self::Azure, Self::Aws]
            .into_iter()
            .find(|provider| provider.as_str() == text)
    }
}

/// Where charts are: `https://…`, `http://…`, `oci://…` or `oci+http://…`, without a slash at its end. Never holds
/// credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HelmUrl(String);

impl HelmUrl {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is at `address` belongs to this repository: it is this address, or lies below it.
    pub fn covers(&self, address: &str) -> bool {
        let rest = address.trim().strip_prefix(self.0.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for HelmUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for HelmUrl {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let text = text.trim().trim_end_matches('/');
        if text.len() > 2048 || text.chars().any(|c| c.is_control() || c.is_whitespace()) {
            return Err(NameError::of("must be an address without spaces"));
        }
        let host = match text.split_once("://") {
            Some(("https" | "http" | "oci" | "oci+http", rest)) => rest.split('/').next().unwrap_or_default(),
            _ => return Err(NameError::of("must be https://HOST/PATH or oci://HOST/PATH")),
        };
        if host.contains('@') {
            return Err(NameError::of("must not hold a user or password: give them in \"auth\""));
        }
        if host.is_empty() || text.contains(['?', '#']) {
            return Err(NameError::of("must name a host, and have no query or fragment"));
        }
        Ok(Self(text.to_owned()))
    }
}

impl Keyed for HelmRepository {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_covers_what_lies_below_it() {
        let url: HelmUrl = "oci://registry.example.com/team/".parse().unwrap();
        assert_eq!(url.as_str(), "oci://registry.example.com/team");
        assert!(
            url.covers("oci://registry.example.com/team/web")
                && url.covers("oci://registry.example.com/team")
        );
        for other in [
            "oci://registry.example.com/team-b",
            "oci://registry.example.com",
            "https://registry.example.com/team",
            "oci://registry.example.com.evil.test/team",
        ] {
            assert!(!url.covers(other), "{other}");
        }
        for bad in ["", "charts", "ftp://a/b", "https://", "https://ada:pw@a/b", "https://a/b?c", "oci://a b"]
        {
            assert!(bad.parse::<HelmUrl>().is_err(), "{bad}");
        }
    }
}
