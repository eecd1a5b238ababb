//! Git repositories.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{document::operations, page::Connection, secret::Secret, shared::Id};

/// A repository that the console mirrors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitRepository {
    /// Opaque id.
    pub id: String,
    /// Where it is fetched from.
    pub url: String,
    /// How the console logs in there; absent when it does not.
    pub auth_method: Option<AuthMethod>,
    /// Only commits that an allowed key has signed are taken.
    pub signed_commits: bool,
    /// Whether the last fetch succeeded; absent before the first.
    pub health: Option<GitHealth>,
    /// Why the last fetch failed.
    pub error: Option<String>,
    /// When the last fetch began.
    pub pulled_at: Option<DateTime<Utc>>,
}

/// How a repository is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AuthMethod {
    /// User name and password over HTTP.
    Basic,
    /// A private key over SSH.
    Ssh,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

/// Whether a repository can be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum GitHealth {
    /// The last fetch succeeded.
    Pullable,
    /// The last fetch failed.
    Failed,
    /// One that a newer console knows and this client does not.
    #[serde(other)]
    Unknown,
}

/// What a new repository is given.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GitAttributes {
    /// Where to fetch from: `https://…`, `ssh://…`, `git@host:path` or, if the console allows it, a local path.
    pub url: String,
    /// For basic authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// For basic authentication: a password or an access token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// For SSH: a private key in PEM or OpenSSH form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<Secret>,
    /// Opens the private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passphrase: Option<Secret>,
    /// Proxy to go through.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<GitProxyAttributes>,
    /// PEM of the authorities that sign the host's certificate, in place of the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_certificate: Option<String>,
    /// The only SSH host keys that are accepted, as in `known_hosts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known_hosts: Option<String>,
    /// Whose signature a commit must carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<GitVerifyAttributes>,
}

/// A proxy before a repository.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GitProxyAttributes {
    /// HTTP(S) or SOCKS, with user name and password in it where it wants them.
    pub url: Secret,
}

/// Whose signature a commit must carry.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GitVerifyAttributes {
    /// SSH keys, as in the file that git's `gpg.ssh.allowedSignersFile` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_signers: Option<String>,
    /// OpenPGP public keys, armoured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openpgp_keys: Option<String>,
}

macro_rules! repository_fields {
    () => {
        "fragment GitRepositoryFields on GitRepository {
  id url authMethod signedCommits health error pulledAt
}"
    };
}

operations! {
    /// The repositories that the caller may see, by pages.
    Query ListGitRepositories {
        /// The page after this cursor.
        after: Option<String>,
        /// Items of the page.
        first: i64,
    } => "gitRepositories": Connection<GitRepository>,
    concat!("query ListGitRepositories($after: String, $first: Int) {
  gitRepositories(after: $after, first: $first) {
    pageInfo { hasNextPage endCursor }
    edges { node { ...GitRepositoryFields } }
  }
}
", repository_fields!());

    /// One repository, by id or by its exact URL.
    Query GetGitRepository {
        /// Its id, or
        id: Option<String>,
        /// its URL.
        url: Option<String>,
    } => "gitRepository": GitRepository,
    concat!("query GetGitRepository($id: ID, $url: String) {
  gitRepository(id: $id, url: $url) { ...GitRepositoryFields }
}
", repository_fields!());

    /// Registers a repository.
    Mutation CreateGitRepository {
        /// What it is given.
        attributes: GitAttributes,
    } => "createGitRepository": GitRepository,
    concat!("mutation CreateGitRepository($attributes: GitAttributes!) {
  createGitRepository(attributes: $attributes) { ...GitRepositoryFields }
}
", repository_fields!());

    /// Forgets a repository that nothing uses.
    Mutation DeleteGitRepository {
        /// Its id.
        id: String,
    } => "deleteGitRepository": Id,
    "mutation DeleteGitRepository($id: ID!) {
  deleteGitRepository(id: $id) { id }
}";
}
