//! Git repositories, as use cases need them of a database.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::{Actor, Visibility};
use plural_core::{
    AuthMethod, GitHealth, NewRepository, Page, PageRequest, Project, Repository, RepositoryChange,
    RepositoryId, RepositoryUrl, Result, ServiceId,
};

use crate::access::{Audited, Guarded, Write};
use crate::seal::Sealed;

/// Which repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositorySelector {
    /// By id.
    Id(RepositoryId),
    /// By exact address.
    Url(String),
}

/// A repository to make.
#[derive(Debug)]
pub struct RepositoryCreate {
    /// Id.
    pub id: RepositoryId,
    /// The rest.
    pub new: NewRepository,
    /// How we sign in.
    pub auth_method: Option<AuthMethod>,
    /// With what.
    pub credentials: Option<Sealed>,
    /// How it is reached, sealed, and whether its commits must be signed.
    pub reach: Option<(Sealed, bool)>,
}

/// What is kept sealed of a repository; what is absent stays as it is.
#[derive(Debug)]
pub struct RepositorySecrets {
    /// How we sign in.
    pub credentials: CredentialsChange,
    /// How it is reached, and whether its commits must be signed.
    pub reach: Option<(Sealed, bool)>,
    /// What the change was decided from: where another is stored by then, nothing is written.
    pub before: RepositoryBefore,
}

/// What becomes of stored credentials.
#[derive(Debug)]
pub enum CredentialsChange {
    /// They stay.
    Keep,
    /// These take their place.
    Set(AuthMethod, Sealed),
    /// They are removed; the repository's error says why.
    Drop(String),
}

/// Everything that decides where a repository's credentials are sent, as it was read before a change.
#[derive(Debug)]
pub struct RepositoryBefore {
    /// Its address, as stored.
    pub url: RepositoryUrl,
    /// Its credentials.
    pub credentials: Option<Sealed>,
    /// How it is reached.
    pub reach: Option<Sealed>,
}

/// A repository as the jobs see it.
#[derive(Debug, Clone)]
pub struct RepositoryWork {
    /// The repository.
    pub repository: Repository,
    /// How to sign in, sealed.
    pub credentials: Option<Sealed>,
    /// How it is reached, sealed.
    pub reach: Option<Sealed>,
}

/// How a fetch went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepositoryFetched {
    /// Which repository.
    pub id: RepositoryId,
    /// Well or not.
    pub health: GitHealth,
    /// Why not.
    pub error: Option<String>,
    /// When it began.
    pub at: DateTime<Utc>,
}

/// Git repositories.
#[async_trait]
pub trait RepositoryStore: Send + Sync + 'static {
    /// One repository, guarded by its project's bindings that concern `actor`.
    async fn repository_for(
        &self,
        actor: &Actor,
        selector: &RepositorySelector,
    ) -> Result<Guarded<Repository>>;
    /// Whether a service that upgrades its cluster's agent is read from the repository.
    async fn repository_feeds_agent_upgrade(&self, id: RepositoryId) -> Result<bool>;
    /// Visible repositories whose address contains `q`.
    async fn repository_list(
        &self,
        visibility: &Visibility,
        q: Option<&str>,
        page: &PageRequest,
    ) -> Result<Page<Repository>>;
    /// A new repository.
    async fn repository_create(
        &self,
        by: Audited<'_, Project, Write>,
        repository: &RepositoryCreate,
    ) -> Result<Repository>;
    /// A changed repository; with another address, its services are renewed afterwards ([`crate::RenewServices`]). Unless it `may_feed` the upgrade of an agent, [`plural_core::Error::Forbidden`] where such a service
    /// is read from it by then.
    async fn repository_update(
        &self,
        by: Audited<'_, Repository, Write>,
        change: &RepositoryChange,
        secrets: RepositorySecrets,
        may_feed: bool,
    ) -> Result<Repository>;
    /// Removes a repository; [`plural_core::Error::Conflict`] "could not delete repository" while a service uses it. `may_feed`
    /// as for a change.
    async fn repository_delete(
        &self,
        by: Audited<'_, Repository, Write>,
        may_feed: bool,
    ) -> Result<Repository>;
    /// Tells every console to fetch it now.
    async fn repository_kick(&self, by: Audited<'_, Repository, Write>) -> Result<()>;
    /// Every repository's id and address identity ([`RepositoryUrl::identity`]), for the jobs.
    async fn repository_ids(&self) -> Result<Vec<(RepositoryId, RepositoryUrl)>>;
    /// One repository for the jobs; `None` when it is gone.
    async fn repository_work(&self, id: RepositoryId) -> Result<Option<RepositoryWork>>;
    /// Records how a fetch went.
    async fn repository_fetched(&self, fetched: &RepositoryFetched) -> Result<()>;
    /// Has agents look up services anew that are read from a repository: at most `limit` of those after a service, in the order
    /// of their ids. The last one; none when there were none.
    async fn repository_services_renew(
        &self,
        id: RepositoryId,
        after: Option<ServiceId>,
        limit: u64,
        at: DateTime<Utc>,
    ) -> Result<Option<ServiceId>>;
    /// Tells every console that refs of a repository moved, as its replica saw that fetches it.
    async fn repository_moved(&self, id: RepositoryId) -> Result<()>;
    /// Tells every console to fetch these now: a verified webhook asked. Not somebody's write.
    async fn repository_notify(&self, ids: &[RepositoryId]) -> Result<()>;
}
