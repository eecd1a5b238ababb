//! A chart repository or registry that needs credentials, a certificate or a proxy.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::address::{Address, Scheme};
use crate::ids::{HelmRepositoryId, ProjectId};
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
    /// The only project whose services read it so; those of all projects without one.
    pub project_id: Option<ProjectId>,
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
pub struct HelmUrl {
    text: String,
    /// `None` only for what an earlier release stored and this one would not accept.
    address: Option<Address>,
}

impl HelmUrl {
    /// An address that was stored. One that would not be accepted today is kept, so that the repository can be listed and
    /// replaced; it covers nothing but its own text.
    pub fn stored(text: &str) -> Self {
        Self { text: text.to_owned(), address: chart_address(text).ok() }
    }

    /// The repository that somebody means by a text, in order to find it: its normal form, or a text that an earlier release
    /// stored.
    pub fn named(text: &str) -> Self {
        text.parse().unwrap_or_else(|_| Self::stored(text.trim()))
    }

    /// The text: the normal form, or what an earlier release stored.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its components; none for what an earlier release stored and this one would not accept.
    pub fn address(&self) -> Option<&Address> {
        self.address.as_ref()
    }

    /// What is at `address` belongs to this repository: it is this address, or lies below it.
    pub fn covers(&self, address: &str) -> bool {
        match (&self.address, address.parse::<Address>()) {
            (Some(own), Ok(other)) => own.covers(&other),
            (Some(_), Err(_)) => false,
            (None, _) => self.text == address.trim(),
        }
    }
}

impl fmt::Display for HelmUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for HelmUrl {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let address = chart_address(text)?;
        Ok(Self { text: address.to_string(), address: Some(address) })
    }
}

/// Where a chart is that is read from an address, for [`HelmUrl::covers`]: in a registry each chart is a repository of its own
/// below the address, elsewhere the address lists its charts.
pub fn chart_place(address: &str, chart: Option<&str>) -> String {
    let is_registry = address
        .parse::<Address>()
        .is_ok_and(|address| matches!(address.scheme(), Scheme::Oci | Scheme::OciHttp));
    match chart {
        Some(chart) if is_registry => format!("{}/{chart}", address.trim().trim_end_matches('/')),
        Some(_) | None => address.to_owned(),
    }
}

/// An address that charts can be read from.
fn chart_address(text: &str) -> Result<Address, NameError> {
    let address: Address = text.trim().trim_end_matches('/').parse()?;
    match address.scheme() {
        Scheme::Https | Scheme::Http | Scheme::Oci | Scheme::OciHttp => Ok(address),
        Scheme::Ssh | Scheme::File => Err(NameError::of("must be https://HOST/PATH or oci://HOST/PATH")),
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
            "oci://registry.example.com/team/../team-b",
            "oci://registry.example.com/team/%2e%2e/team-b",
            "oci://registry.example.com:5000/team",
            "oci://registry.example.com@evil.test/team",
        ] {
            assert!(!url.covers(other), "{other}");
        }
        assert!(url.covers("oci://Registry.Example.com:443/team/web"));
        assert!(HelmUrl::stored("oci://h/a/../b").covers("oci://h/a/../b"));
        assert!(!HelmUrl::stored("oci://h/a/../b").covers("oci://h/a/../b/c"));
        assert_eq!(chart_place("oci://h/team/", Some("web")), "oci://h/team/web");
        assert_eq!(chart_place("oci+http://h", Some("sub/web")), "oci+http://h/sub/web");
        assert_eq!(chart_place("oci://h/team/web", None), "oci://h/team/web");
        assert_eq!(chart_place("https://h/charts", Some("web")), "https://h/charts");
        for bad in ["", "charts", "ftp://a/b", "https://", "https://ada:pw@a/b", "https://a/b?c", "oci://a b"]
        {
            assert!(bad.parse::<HelmUrl>().is_err(), "{bad}");
        }
    }
}
