//! Git repositories.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::address::Address;
use plural_core::data_key::KeyOwner;
use plural_core::destination::{Destination, Route};
use plural_core::ids::{RepositoryId, ServiceId};
use plural_core::project::Project;
use plural_core::repository::{
    AuthMethod, GitHealth, NewRepository, Repository, RepositoryChange, RepositoryUrl,
};
use plural_core::{Error, Result};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::access::{Audited, Noun as _, Write, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::git::{GitAccess, GitCredentials, GitReach};
use crate::project::ProjectSelector;
use crate::records::{Search, record};
use crate::repository_reach::NewReach;
use crate::seal::Sealed;
use crate::service_life::{check_fed, may_feed_agent_upgrades};

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

noun!(Repository, "git repository", r => Some(r.id.uuid()), r.url.to_string());
record!(Repository, RepositoryId, RepositorySelector, Search);

/// Git repositories.
#[async_trait]
pub trait RepositoryStore: Send + Sync + 'static {
    /// Whether a service that upgrades its cluster's agent is read from the repository.
    async fn repository_feeds_agent_upgrade(&self, id: RepositoryId) -> Result<bool>;
    /// A new repository.
    async fn repository_create(
        &self,
        by: Audited<'_, Project, Write>,
        repository: &RepositoryCreate,
    ) -> Result<Repository>;
    /// A changed repository. With another address the services whose agents are sent it are renewed: the first in the same
    /// transaction, the others by [`crate::jobs::RenewServices`]. Unless it `may_feed` the upgrade of an agent, [`plural_core::Error::Forbidden`] where such a service
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
    /// Has agents look up services again that are read from a repository and whose agents are sent its address: at most `limit`
    /// of those after a service, in the order of their ids. The last one, when there may be more.
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

/// Credentials as a person gives them.
#[derive(Debug, Clone, Default)]
pub struct NewCredentials {
    /// User name for https.
    pub username: Option<String>,
    /// Password or token for https.
    pub password: Option<SecretString>,
    /// Private key for ssh, PEM.
    pub private_key: Option<SecretString>,
    /// Of the private key.
    pub passphrase: Option<SecretString>,
    /// How to get there, and whose commits are taken.
    pub reach: NewReach,
}

/// Why a password or token is not taken.
pub(crate) const OVER_HTTP: &str = "would be sent unencrypted over http; use https, or ask the operator to \
                                    start the console with --allow-credentials-over-http";

/// What is inside a sealed credential.
#[derive(PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Kept {
    Basic { username: String, password: String },
    Ssh { private_key: String, passphrase: Option<String> },
}

impl App {
    /// A new repository; needs write access to its project. It is fetched soon, not now.
    pub async fn repository_create(
        &self,
        ctx: &OpCtx,
        new: NewRepository,
        credentials: NewCredentials,
    ) -> Result<Repository> {
        let selector = new.project_id.map_or(ProjectSelector::Default, ProjectSelector::Id);
        let project = self.authorized::<Project, Write>(ctx, &selector).await;
        let project = project.map_err(|error| error.named_in("attributes.projectId"))?;
        self.check_url(&new.url)?;
        let id = RepositoryId::new();
        let owner = KeyOwner::Project(project.id);
        let reach = self.repository_reach_sealed((owner, id), None, &credentials.reach).await?;
        let kept = credentials.kept(&new.url)?;
        self.check_way(&new.url, kept.as_ref())?;
        let sealed = match &kept {
            Some(kept) => Some(self.seal_credentials(owner, id, kept).await?),
            None => None,
        };
        let auth_method = kept.as_ref().map(Kept::method);
        let create = RepositoryCreate { id, new, auth_method, credentials: sealed, reach };
        let by = project.audited_new(ctx, "repository.create", "git repository", id, &create.new.url);
        self.store.repository_create(by, &create).await
    }

    /// A changed repository. What is not given stays, but credentials belong to one destination: when the host, its port, the
    /// scheme, the user, the proxy, the certificates or the host keys change, stored credentials are removed unless they are
    /// given again in the same request. Whoever may change a repository could otherwise have them sent to himself. The
    /// repository's error then says what changed. Where everything is so already, nothing is written. One that the upgrade of an agent is read from is changed by administrators
    /// of the installation only.
    pub async fn repository_update(
        &self,
        ctx: &OpCtx,
        id: RepositoryId,
        change: &RepositoryChange,
        credentials: NewCredentials,
    ) -> Result<Repository> {
        let repository = self.authorized::<Repository, Write>(ctx, &RepositorySelector::Id(id)).await?;
        let may_feed = may_feed_agent_upgrades(ctx);
        check_fed(may_feed, self.store.repository_feeds_agent_upgrade(id).await?, Repository::NOUN)?;
        let work = self.store.repository_work(id).await?.ok_or(Error::not_found("git repository"))?;
        let RepositoryWork { repository: stored, credentials: stored_credentials, reach: stored_reach } =
            work;
        let url = change.url.as_ref().unwrap_or(&stored.url);
        self.check_url(url)?;
        let owner = KeyOwner::Project(repository.project_id);
        let reach =
            self.repository_reach_sealed((owner, id), stored_reach.as_ref(), &credentials.reach).await?;
        let before = destination(&stored.url, &self.repository_reach(id, stored_reach.as_ref()).await?);
        let after = match &reach {
            Some((sealed, _)) => destination(url, &self.repository_reach(id, Some(sealed)).await?),
            None => destination(url, &self.repository_reach(id, stored_reach.as_ref()).await?),
        };
        let kept = credentials.kept(url)?;
        self.check_way(url, kept.as_ref())?;
        let same_credentials = match (&kept, &stored_credentials) {
            (None, _) => before == after,
            (Some(_), None) => false,
            (Some(kept), Some(stored)) => *kept == self.open_credentials(id, stored).await?,
        };
        let given_reach = reach.as_ref().map(|(sealed, _)| sealed);
        if same_credentials
            && *url == stored.url
            && change.web.clone().over(stored.web.clone()) == stored.web
            && self.is_same_reach(id, stored_reach.as_ref(), given_reach).await?
        {
            return Ok(repository.into_inner());
        }
        let credentials = match &kept {
            Some(kept) => {
                CredentialsChange::Set(kept.method(), self.seal_credentials(owner, id, kept).await?)
            }
            None if stored_credentials.is_some() && before != after => {
                CredentialsChange::Drop(dropped(&before.changes(&after)))
            }
            None => CredentialsChange::Keep,
        };
        let before =
            RepositoryBefore { url: stored.url, credentials: stored_credentials, reach: stored_reach };
        let secrets = RepositorySecrets { credentials, reach, before };
        let by = repository.audited(ctx, "repository.update");
        self.store.repository_update(by, change, secrets, may_feed).await
    }

    /// Removes a repository that no service uses.
    pub async fn repository_delete(&self, ctx: &OpCtx, id: RepositoryId) -> Result<Repository> {
        let repository = self.authorized::<Repository, _>(ctx, &RepositorySelector::Id(id)).await?;
        let may_feed = may_feed_agent_upgrades(ctx);
        check_fed(may_feed, self.store.repository_feeds_agent_upgrade(id).await?, Repository::NOUN)?;
        self.store.repository_delete(repository.audited(ctx, "repository.delete"), may_feed).await
    }

    /// Fetches a repository soon instead of within the minute.
    pub async fn repository_kick(&self, ctx: &OpCtx, id: RepositoryId) -> Result<Repository> {
        let repository = self.authorized::<Repository, _>(ctx, &RepositorySelector::Id(id)).await?;
        self.store.repository_kick(repository.audited(ctx, "repository.kick")).await?;
        Ok(repository.into_inner())
    }

    fn check_url(&self, url: &RepositoryUrl) -> Result<()> {
        if url.is_local() && !self.settings.allow_local_repositories {
            return Err(Error::invalid(
                "attributes.url",
                "is a folder on the console's machine, which this console does not allow; start it with \
                 --allow-local-repositories, or use an https or ssh address",
            ));
        }
        Ok(())
    }

    /// Passwords and tokens are sent over http only where the operator allows it.
    fn check_way(&self, url: &RepositoryUrl, kept: Option<&Kept>) -> Result<()> {
        let plain = url.address().is_ok_and(Address::is_plain_http);
        match kept {
            Some(Kept::Basic { .. }) if plain && !self.settings.credentials_over_http => {
                Err(Error::invalid("attributes.password", OVER_HTTP))
            }
            Some(Kept::Basic { .. } | Kept::Ssh { .. }) | None => Ok(()),
        }
    }

    async fn seal_credentials(&self, owner: KeyOwner, id: RepositoryId, kept: &Kept) -> Result<Sealed> {
        let json = serde_json::to_vec(kept).map_err(|cause| Error::internal("writing credentials", cause))?;
        self.sealer.seal(owner, &seal_context(id), &json).await
    }

    async fn open_credentials(&self, id: RepositoryId, sealed: &Sealed) -> Result<Kept> {
        let json = self.sealer.open(&seal_context(id), sealed).await?;
        // The parser's own message could quote the secret.
        serde_json::from_slice(&json)
            .map_err(|_| Error::internal("reading credentials", "they are not what was sealed"))
    }

    /// What the git port needs to read a repository.
    pub(crate) async fn git_access(&self, work: &RepositoryWork) -> Result<GitAccess> {
        let RepositoryWork { repository, credentials, reach } = work;
        let credentials = match credentials {
            None => None,
            Some(sealed) => Some(match self.open_credentials(repository.id, sealed).await? {
                Kept::Basic { username, password } => {
                    GitCredentials::Basic { username, password: password.into() }
                }
                Kept::Ssh { private_key, passphrase } => GitCredentials::Ssh {
                    private_key: private_key.into(),
                    passphrase: passphrase.map(SecretString::from),
                },
            }),
        };
        let reach = self.repository_reach(repository.id, reach.as_ref()).await?;
        Ok(GitAccess { id: repository.id, url: repository.url.clone(), credentials, reach })
    }
}

impl Kept {
    fn method(&self) -> AuthMethod {
        match self {
            Self::Basic { .. } => AuthMethod::Basic,
            Self::Ssh { .. } => AuthMethod::Ssh,
        }
    }
}

impl NewCredentials {
    fn kept(self, url: &RepositoryUrl) -> Result<Option<Kept>> {
        let Self { username, password, private_key, passphrase, reach: _ } = self;
        let http = url.as_str().starts_with("https://") || url.as_str().starts_with("http://");
        match (password, private_key) {
            (None, None) if passphrase.is_some() => {
                Err(Error::invalid("attributes.passphrase", "needs a private key"))
            }
            (None, None) => Ok(None),
            (Some(_), Some(_)) => {
                Err(Error::invalid("attributes.privateKey", "must not be given together with a password"))
            }
            (Some(_), None) if !http => {
                Err(Error::invalid("attributes.password", "only fits an https address; give a private key"))
            }
            (Some(password), None) => Ok(Some(Kept::Basic {
                // Hosts that want only a token take any name.
                username: username.filter(|name| !name.is_empty()).unwrap_or_else(|| "git".to_owned()),
                password: password.expose_secret().to_owned(),
            })),
            (None, Some(_)) if http || url.is_local() => {
                Err(Error::invalid("attributes.privateKey", "only fits an ssh address; give a password"))
            }
            (None, Some(key)) => {
                let key = key.expose_secret().trim();
                if !key.starts_with("-----BEGIN ") || !key.contains("PRIVATE KEY-----") {
                    return Err(Error::invalid("attributes.privateKey", "must be a private key in PEM form"));
                }
                Ok(Some(Kept::Ssh {
                    private_key: format!("{key}\n"),
                    passphrase: passphrase.map(|phrase| phrase.expose_secret().to_owned()),
                }))
            }
        }
    }
}

fn seal_context(id: RepositoryId) -> String {
    format!("repository:{id}:credentials")
}

fn destination(url: &RepositoryUrl, reach: &GitReach) -> Destination {
    let GitReach { proxy, ca_pem, known_hosts, allowed_signers: _, openpgp_keys: _ } = reach;
    let route = Route {
        proxy: proxy.as_ref().map(ExposeSecret::expose_secret),
        ca: ca_pem.as_deref(),
        known_hosts: known_hosts.as_deref(),
    };
    Destination::of(url.address().ok(), url.as_str(), route)
}

/// What is told when credentials were removed because where they are sent changed.
pub(crate) fn dropped(changes: &[&str]) -> String {
    format!("the stored credentials were removed because the {} changed; set them again", changes.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(url: &str, credentials: NewCredentials) -> Result<Option<Kept>> {
        credentials.kept(&url.parse().unwrap())
    }

    #[test]
    fn credentials_fit_their_address() {
        let password = || NewCredentials { password: Some("x".into()), ..NewCredentials::default() };
        let key = || NewCredentials {
            private_key: Some(
                "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n-----END OPENSSH PRIVATE KEY-----".into(),
            ),
            ..NewCredentials::default()
        };
        assert!(matches!(kept("https://a/b", password()), Ok(Some(Kept::Basic { .. }))));
        assert!(matches!(kept("git@a:b", key()), Ok(Some(Kept::Ssh { .. }))));
        assert!(kept("git@a:b", password()).is_err());
        assert!(kept("https://a/b", key()).is_err());
        assert!(kept("/a/b", key()).is_err());
        assert!(matches!(kept("https://a/b", NewCredentials::default()), Ok(None)));
    }
}
