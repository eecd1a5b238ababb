//! Chart repositories that need credentials.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::{Scope, Visibility, visibility};
use plural_core::address::Address;
use plural_core::data_key::KeyOwner;
use plural_core::destination::{Destination, Route};
use plural_core::helm_repository::{HelmAuthProvider, HelmRepository, HelmUrl};
use plural_core::ids::{HelmRepositoryId, ProjectId};
use plural_core::project::Project;
use plural_core::repository::GitHealth;
use plural_core::{Error, Page, PageArgs, PageRequest, Result};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use crate::access::{Audited, Authorized, Installation, Read, Write, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::charts::{ChartAccess, ChartCredentials, ChartPin};
use crate::project::ProjectSelector;
use crate::repository::{OVER_HTTP, dropped};
use crate::repository_reach::is_proxy;
use crate::seal::Sealed;

/// A chart repository with what is kept sealed of it.
#[derive(Debug, Clone)]
pub struct HelmRepositoryRow {
    /// The repository.
    pub repository: HelmRepository,
    /// Credentials, certificates and proxy, sealed for `helm_repository:ID:access`.
    pub access: Sealed,
}

/// A chart repository to register or change.
#[derive(Debug)]
pub struct HelmRepositoryUpsert {
    /// Id: a known one is changed.
    pub id: HelmRepositoryId,
    /// Where it is.
    pub url: HelmUrl,
    /// The only project whose services use it.
    pub project_id: Option<ProjectId>,
    /// How we sign in.
    pub provider: Option<HelmAuthProvider>,
    /// Sealed for `helm_repository:ID:access`.
    pub access: Sealed,
    /// What this was merged with: where another is stored by then, nothing is written.
    pub before: Option<Sealed>,
    /// Credentials were removed, and why.
    pub dropped: Option<String>,
}

// No record: it is found by an address in any of its spellings, by whoever may read its project, if it has one.

/// Chart repositories, and what charts were resolved to.
#[async_trait]
pub trait HelmRepositoryStore: Send + Sync + 'static {
    /// The repository with exactly this address.
    async fn helm_repository(
        &self,
        by: &Authorized<Installation, Read>,
        url: &HelmUrl,
    ) -> Result<Option<HelmRepository>>;
    /// The repositories of all projects, and those of visible ones.
    async fn helm_repository_list(
        &self,
        visibility: &Visibility,
        page: &PageRequest,
    ) -> Result<Page<HelmRepository>>;
    /// The repository with exactly this address, with what is sealed.
    async fn helm_repository_row(&self, url: &HelmUrl) -> Result<Option<HelmRepositoryRow>>;
    /// All of them with what is sealed, for the jobs: administrators make them, so they are few.
    async fn helm_repository_rows(&self) -> Result<Vec<HelmRepositoryRow>>;
    /// Registers or changes one.
    async fn helm_repository_upsert(
        &self,
        by: Audited<'_, Installation, Write>,
        upsert: &HelmRepositoryUpsert,
    ) -> Result<HelmRepository>;
    /// Forgets one.
    async fn helm_repository_delete(
        &self,
        by: Audited<'_, Installation, Write>,
        id: HelmRepositoryId,
    ) -> Result<()>;
    /// Records how it was read.
    async fn helm_repository_read(
        &self,
        id: HelmRepositoryId,
        health: GitHealth,
        error: Option<String>,
        now: DateTime<Utc>,
    ) -> Result<()>;
    /// What a question was answered with last.
    async fn chart_pin(&self, key: &str) -> Result<Option<ChartPin>>;
    /// Remembers an answer.
    async fn chart_pin_put(&self, key: &str, pin: &ChartPin, now: DateTime<Utc>) -> Result<()>;
}

/// How to read a repository, as a person gives it. What is `None` stays as it was.
#[derive(Debug, Clone, Default)]
pub struct NewHelmAccess {
    /// The only project whose services use it; `Some(None)` for all.
    pub project: Option<Option<ProjectId>>,
    /// Which of the credentials counts.
    pub provider: Option<HelmAuthProvider>,
    /// User name and password.
    pub basic: Option<(String, SecretString)>,
    /// Token.
    pub bearer: Option<SecretString>,
    /// Certificates (PEM) to trust besides the system's.
    pub ca: Option<String>,
    /// Proxy to go through.
    pub proxy: Option<String>,
}

/// What is inside a sealed access.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    credentials: Option<KeptCredentials>,
    ca: Option<String>,
    proxy: Option<String>,
}

#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum KeptCredentials {
    Basic { username: String, password: String },
    Bearer { token: String },
}

impl App {
    /// The repository with exactly this address. One of a project is there for those who may read the project.
    pub async fn helm_repository_get(&self, ctx: &OpCtx, url: &str) -> Result<HelmRepository> {
        let by = authorize_installation::<Read>(ctx, Scope::Installation)?;
        let url = HelmUrl::named(url);
        let gone = || Error::not_found("helm repository");
        let repository = self.store.helm_repository(&by, &url).await?.ok_or_else(gone)?;
        if let Some(id) = repository.project_id {
            match self.authorized::<Project, Read>(ctx, &ProjectSelector::Id(id)).await {
                Ok(_) => {}
                Err(Error::NotFound { .. }) => return Err(gone()),
                Err(error) => return Err(error),
            }
        }
        Ok(repository)
    }

    /// The repositories of all projects, and those of visible ones.
    pub async fn helm_repository_list(&self, ctx: &OpCtx, page: &PageArgs) -> Result<Page<HelmRepository>> {
        self.store.helm_repository_list(&visibility(ctx.actor())?, &page.request()?).await
    }

    /// Registers a repository, or changes how it is read; administrators only, because every service of the installation, or
    /// of the project that it is for, may use it from then on. When its proxy or certificates change, stored credentials are
    /// removed unless they are given again: they belong to one destination.
    pub async fn helm_repository_upsert(
        &self,
        ctx: &OpCtx,
        url: &str,
        access: NewHelmAccess,
    ) -> Result<HelmRepository> {
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        let url = parse(url)?;
        let before = self.store.helm_repository_row(&url).await?;
        let id = before.as_ref().map_or_else(HelmRepositoryId::new, |row| row.repository.id);
        let mut kept = match &before {
            Some(row) => self.open_helm_access(row).await?,
            None => Kept::default(),
        };
        let known = before.as_ref().and_then(|row| row.repository.project_id);
        let project_id = access.project.unwrap_or(known);
        if let Some(id) = project_id.filter(|id| Some(*id) != known) {
            self.authorized::<Project, Read>(ctx, &ProjectSelector::Id(id)).await?;
        }
        let destination = kept.destination(&url);
        let known_access = kept.clone();
        let given = access.basic.is_some() || access.bearer.is_some();
        let provider = access.over(&mut kept)?.or(before.as_ref().and_then(|row| row.repository.provider));
        let changes = destination.changes(&kept.destination(&url));
        // Whoever may change the proxy or the certificates could otherwise have the credentials sent to himself.
        let dropped =
            (!given && kept.credentials.is_some() && !changes.is_empty()).then(|| dropped(&changes));
        let provider = if dropped.is_some() {
            kept.credentials = None;
            None
        } else {
            provider
        };
        let plain = url.address().is_some_and(Address::is_plain_http);
        if given && plain && !self.settings.credentials_over_http {
            return Err(Error::invalid("attributes.auth", OVER_HTTP));
        }
        if let Some(HelmRepositoryRow { repository, .. }) = &before
            && (&kept, project_id, provider) == (&known_access, known, repository.provider)
        {
            return Ok(repository.clone());
        }
        let json =
            serde_json::to_vec(&kept).map_err(|cause| Error::internal("writing credentials", cause))?;
        let sealed = self.sealer.seal(KeyOwner::of(project_id), &seal_context(id), &json).await?;
        let action = "helm_repository.upsert";
        let by = by.audited_new(ctx, action, "helm repository", id, &url);
        let before = before.map(|row| row.access);
        let upsert = HelmRepositoryUpsert { id, url, project_id, provider, access: sealed, before, dropped };
        let repository = self.store.helm_repository_upsert(by, &upsert).await?;
        self.sources.everything();
        Ok(repository)
    }

    /// Forgets a repository and its credentials; administrators only. Services that use its address go on without them.
    pub async fn helm_repository_delete(&self, ctx: &OpCtx, url: &str) -> Result<HelmRepository> {
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        let url = HelmUrl::named(url);
        let row = self.store.helm_repository_row(&url).await?.ok_or(Error::not_found("helm repository"))?;
        let id = row.repository.id;
        let by = by.audited_new(ctx, "helm_repository.delete", "helm repository", id, &url);
        self.store.helm_repository_delete(by, id).await?;
        Ok(row.repository)
    }

    /// How to read every registered repository, for the jobs.
    pub(crate) async fn chart_accesses(&self) -> Result<Vec<ChartAccess>> {
        let rows = self.store.helm_repository_rows().await?;
        let mut accesses = Vec::with_capacity(rows.len());
        for row in rows {
            let Kept { credentials, ca, proxy } = self.open_helm_access(&row).await?;
            let credentials = credentials.map(|credentials| match credentials {
                KeptCredentials::Basic { username, password } => {
                    ChartCredentials::Basic { username, password: password.into() }
                }
                KeptCredentials::Bearer { token } => ChartCredentials::Bearer { token: token.into() },
            });
            let HelmRepository { url, project_id, .. } = row.repository;
            accesses.push(ChartAccess { url, project_id, credentials, ca, proxy });
        }
        Ok(accesses)
    }

    /// Records how the repository of a chart was read for services of a project, if it is registered: the one whose credentials
    /// were used.
    pub(crate) async fn helm_repository_read(
        &self,
        place: &str,
        project: Option<ProjectId>,
        health: GitHealth,
        error: Option<String>,
    ) -> Result<()> {
        let rows = self.store.helm_repository_rows().await?;
        let covering = rows.into_iter().filter(|row| {
            let HelmRepository { url, project_id, .. } = &row.repository;
            (project_id.is_none() || *project_id == project) && url.covers(place)
        });
        let Some(row) = covering.max_by_key(|row| row.repository.url.as_str().len()) else { return Ok(()) };
        let HelmRepository { id, health: old_health, error: old_error, .. } = row.repository;
        if old_health == Some(health) && old_error == error {
            return Ok(());
        }
        self.store.helm_repository_read(id, health, error, self.clock.now()).await
    }

    /// Whether there is a credential in it; a proxy may have one, too.
    pub(crate) async fn helm_access_is_secret(&self, id: HelmRepositoryId, access: &Sealed) -> Result<bool> {
        let Kept { credentials, ca: _, proxy } = self.open_access(id, access).await?;
        Ok(credentials.is_some() || proxy.is_some())
    }

    async fn open_helm_access(&self, row: &HelmRepositoryRow) -> Result<Kept> {
        self.open_access(row.repository.id, &row.access).await
    }

    async fn open_access(&self, id: HelmRepositoryId, access: &Sealed) -> Result<Kept> {
        let json = self.sealer.open(&seal_context(id), access).await?;
        // The parser's own message could quote the secret.
        serde_json::from_slice(&json)
            .map_err(|_| Error::internal("reading credentials", "they are not what was sealed"))
    }
}

impl Kept {
    /// Who receives the credentials.
    fn destination(&self, url: &HelmUrl) -> Destination {
        let Self { credentials: _, ca, proxy } = self;
        let route = Route { proxy: proxy.as_deref(), ca: ca.as_deref(), known_hosts: None };
        Destination::of(url.address(), url.as_str(), route)
    }
}

impl NewHelmAccess {
    /// Puts what is given over what was kept; gives the provider that was named or follows.
    fn over(self, kept: &mut Kept) -> Result<Option<HelmAuthProvider>> {
        let Self { project: _, provider, basic, bearer, ca, proxy } = self;
        let given = match (basic, bearer) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid("attributes.auth", "must hold one kind of credentials"));
            }
            (Some((username, password)), None) => {
                let password = password.expose_secret().to_owned();
                Some((HelmAuthProvider::Basic, KeptCredentials::Basic { username, password }))
            }
            (None, Some(token)) => {
                let token = token.expose_secret().to_owned();
                Some((HelmAuthProvider::Bearer, KeptCredentials::Bearer { token }))
            }
            (None, None) => None,
        };
        if let Some(cloud @ (HelmAuthProvider::Aws | HelmAuthProvider::Azure | HelmAuthProvider::Gcp)) =
            provider
        {
            return Err(Error::invalid(
                "attributes.provider",
                format!(
                    "{} is not supported; use a token of the registry as BEARER or BASIC instead",
                    cloud.as_str()
                ),
            ));
        }
        let follows = given.as_ref().map(|(follows, _)| *follows);
        if let (Some(provider), Some(follows)) = (provider, follows)
            && provider != follows
        {
            return Err(Error::invalid("attributes.provider", "does not fit the credentials in \"auth\""));
        }
        if let Some((_, credentials)) = given {
            kept.credentials = Some(credentials);
        } else if provider.is_some() && kept.credentials.is_none() {
            return Err(Error::invalid("attributes.auth", "must hold the provider's credentials"));
        }
        if let Some(ca) = ca {
            if !ca.is_empty() && !ca.contains("-----BEGIN CERTIFICATE-----") {
                return Err(Error::invalid("attributes.caCertificate", "must be certificates in PEM form"));
            }
            kept.ca = Some(ca).filter(|ca| !ca.is_empty());
        }
        if let Some(proxy) = proxy {
            let is_good = proxy.is_empty() || is_proxy(&proxy, &["http", "https"]);
            if !is_good || proxy.contains('@') {
                return Err(Error::invalid(
                    "attributes.auth.proxy.url",
                    "must be http://HOST:PORT or https://HOST:PORT, without a user",
                ));
            }
            kept.proxy = Some(proxy).filter(|proxy| !proxy.is_empty());
        }
        Ok(provider.or(follows))
    }
}

fn parse(url: &str) -> Result<HelmUrl> {
    url.parse().map_err(|error: plural_core::specs::NameError| Error::invalid("url", error.to_string()))
}

fn seal_context(id: HelmRepositoryId) -> String {
    format!("helm_repository:{id}:access")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_fit_their_provider() {
        let basic = || NewHelmAccess { basic: Some(("ada".into(), "x".into())), ..NewHelmAccess::default() };
        let mut kept = Kept::default();
        assert!(matches!(basic().over(&mut kept), Ok(Some(HelmAuthProvider::Basic))));
        // What is not given stays.
        assert!(matches!(NewHelmAccess::default().over(&mut kept), Ok(None)));
        assert!(kept.credentials.is_some());
        let wrong = NewHelmAccess { provider: Some(HelmAuthProvider::Bearer), ..basic() };
        assert!(wrong.over(&mut kept).is_err());
        let cloud = NewHelmAccess { provider: Some(HelmAuthProvider::Aws), ..NewHelmAccess::default() };
        assert!(cloud.over(&mut kept).is_err());
        let none = NewHelmAccess { provider: Some(HelmAuthProvider::Basic), ..NewHelmAccess::default() };
        assert!(none.over(&mut Kept::default()).is_err());
        for bad in
            ["http://u:p@proxy", "http://proxy#x", "http://proxy\\x", "http://proxy/x", "socks5://proxy"]
        {
            let proxy = NewHelmAccess { proxy: Some(bad.into()), ..NewHelmAccess::default() };
            assert!(proxy.over(&mut kept).is_err(), "{bad}");
        }
    }
}
