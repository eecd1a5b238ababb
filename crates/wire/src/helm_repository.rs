//! Chart repositories that need credentials.

use serde::{Deserialize, Serialize};

use crate::{document::operations, git_repository::GitHealth, page::Connection, secret::Secret, shared::Id};

/// A chart repository or registry that the console knows how to read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmRepository {
    /// Opaque id.
    pub id: String,
    /// Where it is.
    pub url: String,
    /// How the console signs in; absent when it does not.
    pub provider: Option<HelmAuthProvider>,
    /// Whether it can be read; absent before a service used it.
    pub health: Option<GitHealth>,
    /// Why it cannot be read.
    pub error: Option<String>,
}

/// How the console signs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HelmAuthProvider {
    /// User name and password.
    Basic,
    /// A token.
    Bearer,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

/// How a chart repository is read. What is absent stays as it was.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HelmRepositoryAttributes {
    /// The only project whose services use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<HelmAuthAttributes>,
    /// Certificates (PEM) to trust besides the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_certificate: Option<String>,
}

/// Credentials of a chart repository.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum HelmAuthAttributes {
    /// User name and password.
    Basic {
        /// User name.
        username: String,
        /// Password or token.
        password: Secret,
    },
    /// A token.
    Bearer {
        /// The token.
        token: Secret,
    },
}

macro_rules! helm_repository_fields {
    () => {
        "fragment HelmRepositoryFields on HelmRepository {
  id url provider health error
}"
    };
}

operations! {
    /// The registered chart repositories, by pages.
    Query ListHelmRepositories {
        /// The page after this cursor.
        after: Option<String>,
        /// Items of the page.
        first: i64,
    } => "helmRepositories": Connection<HelmRepository>,
    concat!("query ListHelmRepositories($after: String, $first: Int) {
  helmRepositories(after: $after, first: $first) {
    pageInfo { hasNextPage endCursor }
    edges { node { ...HelmRepositoryFields } }
  }
}
", helm_repository_fields!());

    /// Registers a chart repository, or changes how it is read.
    Mutation UpsertHelmRepository {
        /// Where it is.
        url: String,
        /// How it is read.
        attributes: HelmRepositoryAttributes,
    } => "upsertHelmRepository": HelmRepository,
    concat!("mutation UpsertHelmRepository($url: String!, $attributes: HelmRepositoryAttributes) {
  upsertHelmRepository(url: $url, attributes: $attributes) { ...HelmRepositoryFields }
}
", helm_repository_fields!());

    /// Forgets a chart repository and its credentials.
    Mutation DeleteHelmRepository {
        /// Where it is.
        url: String,
    } => "deleteHelmRepository": Id,
    "mutation DeleteHelmRepository($url: String!) {
  deleteHelmRepository(url: $url) { id }
}";
}
