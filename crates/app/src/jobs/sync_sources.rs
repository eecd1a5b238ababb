//! Looks at one source that services are put together from, all of those that name the same: resolve, compose, move.

use std::collections::HashMap;

use plural_core::access::Scope;
use plural_core::address::Address;
use plural_core::helm_repository::chart_place;
use plural_core::ids::{ProjectId, RepositoryId, RevisionId, ServiceId};
use plural_core::repository::GitHealth;
use plural_core::service::{GitRef, Helm, HelmVerify, SourceRef};
use plural_core::service_error::ServiceError;
use plural_core::{Error, Result};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::fetch_turns::Asker;
use crate::access::{Write, authorize_installation};
use crate::app::App;
use crate::ports::charts::{ChartPart, ChartPin, ComposeError, Composed, Composition, GitPart};
use crate::ports::git::{Built, CommitInfo, GitAccess, GitError, SourceSpec};
use crate::source::{ComposedService, ServiceRevise, SourceLimits};

/// Services that are moved in one transaction at most.
const MOVES: usize = 250;

/// A commit at which a repository is read in the place of what its refs name.
pub(super) struct At<'a> {
    pub(super) repository: RepositoryId,
    pub(super) access: &'a GitAccess,
    pub(super) commit: &'a CommitInfo,
    /// The refs that would lead to it.
    pub(super) moves: &'a (dyn Fn(&GitRef) -> bool + Send + Sync),
}

impl At<'_> {
    fn is_meant(&self, repository: RepositoryId, git: &GitRef) -> bool {
        self.repository == repository && (self.moves)(git)
    }
}

/// Services that are put together from the same places in the same way.
pub(super) struct Group {
    pub(super) services: Vec<ComposedService>,
    /// Somebody asked: known answers do not count.
    pub(super) fresh: bool,
    question: Question,
}

/// What decides what a service is put together from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Question {
    repository: Option<RepositoryId>,
    git: Option<GitRef>,
    chart: Option<Chart>,
    files: Vec<String>,
    sources: Vec<SourceRef>,
    /// Each project waits for its own turns.
    project: Option<ProjectId>,
    /// What one project may be made of may be refused to another.
    limits: SourceLimits,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Chart {
    url: Option<String>,
    name: Option<String>,
    version: Option<String>,
    repository: Option<RepositoryId>,
    git: Option<GitRef>,
    verify: Option<HelmVerify>,
}

impl Group {
    pub(super) fn of(services: Vec<ComposedService>) -> Vec<Self> {
        let mut groups: HashMap<String, Self> = HashMap::new();
        for service in services {
            let question = Question::of(&service);
            let group = groups.entry(question.key()).or_insert_with(|| Self {
                services: Vec::new(),
                fresh: false,
                question,
            });
            group.services.push(service);
        }
        groups.into_values().collect()
    }

    pub(super) fn key(&self) -> String {
        self.question.key()
    }

    /// What of a repository is read at a commit that is looked at.
    pub(super) fn read_at(&self, at: &At<'_>) -> Vec<SourceSpec> {
        let Question { repository, git, chart, sources, .. } = &self.question;
        let mut read = Vec::new();
        if let Some((_, git)) = repository.zip(git.as_ref()).filter(|(id, git)| at.is_meant(*id, git)) {
            let mut spec = SourceSpec::from(git);
            if let Some(service) = self.services.first() {
                spec.files.extend(service.rendering.beside(&git.folder));
            }
            read.push(spec);
        }
        let sources = sources.iter().map(|source| (source.repository_id, &source.git));
        let chart = chart.as_ref().and_then(|chart| chart.repository.zip(chart.git.as_ref()));
        for (_, git) in sources.chain(chart).filter(|(id, git)| at.is_meant(*id, git)) {
            read.push(SourceSpec::from(git));
        }
        read
    }

    /// Who waits for a turn to look. What is in git only is asked of this machine.
    pub(super) fn asker(&self) -> Asker {
        let Question { project, chart, .. } = &self.question;
        let url = chart.as_ref().and_then(|chart| chart.url.as_deref());
        let address = url.and_then(|url| url.parse::<Address>().ok());
        // Servers of one machine are not each other's fault.
        let host =
            address.map(|address| format!("{}:{}", address.host(), address.port().unwrap_or_default()));
        Asker { project: *project, host }
    }
}

impl Question {
    fn of(service: &ComposedService) -> Self {
        let ComposedService { repository_id, git, rendering, project, limits, .. } = service;
        let helm = rendering.helm.as_ref();
        let mut files: Vec<String> = helm.into_iter().flat_map(Helm::paths).cloned().collect();
        files.sort();
        files.dedup();
        Self {
            repository: *repository_id,
            git: git.clone(),
            chart: helm.filter(|helm| helm.has_chart()).map(|helm| Chart {
                url: helm.url.clone(),
                name: helm.chart.clone(),
                version: helm.version.clone(),
                repository: helm.repository_id,
                git: helm.git.clone(),
                verify: helm.verify.clone(),
            }),
            files,
            sources: rendering.sources.clone(),
            project: *project,
            limits: limits.clone(),
        }
    }

    fn key(&self) -> String {
        // Plain data: it always has a text.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What a look found before anything is put together.
struct Prepared {
    composition: Composition,
    /// The commit, where the service or its chart is in git.
    commit: Option<CommitInfo>,
    /// Under which the chart's answer is remembered, and where the chart is.
    pin: Option<(String, String)>,
}

/// What services would be put together from if a repository were at a commit; nothing while another one is fetched for the first time.
pub(super) async fn composition(
    app: &App,
    group: &Group,
    at: &At<'_>,
) -> Result<std::result::Result<Option<Composition>, GitError>> {
    let prepared = prepare(app, group, Some(at)).await?;
    Ok(prepared.map(|prepared| prepared.map(|prepared| prepared.composition)))
}

/// What a service's artifact is known by: the same files elsewhere are another one, because the layout is part of what an agent sees.
pub(super) fn composed_digest(built: &Built) -> String {
    format!("composed:{}:{}", built.digest, built.folder)
}

pub(super) async fn run(app: &App, group: &Group) -> Result<()> {
    let prepared = match prepare(app, group, None).await? {
        Ok(Some(prepared)) => prepared,
        // A repository is being fetched for the first time, and tells when it is there.
        Ok(None) => return Ok(()),
        Err(error) => return blame(app, group, &error).await,
    };
    let Prepared { composition, commit, pin } = prepared;
    let composed = app.composer.compose(&composition).await;
    if let Some((_, place)) = &pin {
        let health = match &composed {
            Ok(_) => Some((GitHealth::Pullable, None)),
            Err(ComposeError { error, repository: true }) => {
                Some((GitHealth::Failed, Some(error.message.clone())))
            }
            // It is not the repository's fault, and says nothing about it.
            Err(ComposeError { repository: false, .. }) => None,
        };
        if let Some((health, error)) = health {
            app.helm_repository_read(place, group.question.limits.charts_of, health, error).await?;
        }
    }
    match composed {
        Ok(composed) => moved(app, group, composed, commit, pin.map(|(key, _)| key)).await,
        Err(ComposeError { error, .. }) => blame(app, group, &error).await,
    }
}

async fn prepare(
    app: &App,
    group: &Group,
    at: Option<&At<'_>>,
) -> Result<std::result::Result<Option<Prepared>, GitError>> {
    let Question { repository, git, chart, files, sources, project, limits } = &group.question;
    let mut composition = Composition {
        files: files.clone(),
        repositories: app.chart_accesses().await?,
        fresh: group.fresh,
        project: *project,
        limits: limits.clone(),
        ..Composition::default()
    };
    let mut commit = None;
    if let Some((repository, git)) = repository.zip(git.as_ref()) {
        match part(app, repository, git, at).await? {
            Ok(Some((mut part, info))) => {
                commit = Some(info);
                if let (None, Some(service)) = (chart, group.services.first()) {
                    part.source.files.extend(service.rendering.beside(&git.folder));
                }
                composition.git = Some(part);
            }
            Ok(None) => return Ok(Ok(None)),
            Err(error) => return Ok(Err(error)),
        }
    }
    for source in sources {
        match part(app, source.repository_id, &source.git, at).await? {
            Ok(Some((part, info))) => {
                commit.get_or_insert(info);
                composition.sources.push((source.path.clone(), part));
            }
            Ok(None) => return Ok(Ok(None)),
            Err(error) => return Ok(Err(error)),
        }
    }
    let mut pin = None;
    match chart {
        Some(Chart { url: Some(url), name, version, verify, .. }) => {
            let key = pin_key(url, name.as_deref(), version.as_deref(), limits.charts_of);
            composition.chart = Some(ChartPart::Repository {
                address: url.clone(),
                chart: name.clone(),
                version: version.clone().unwrap_or_default(),
                verify: verify.clone(),
                pin: app.store.chart_pin(&key).await?,
            });
            pin = Some((key, chart_place(url, name.as_deref())));
        }
        Some(Chart { repository: Some(repository), git: Some(git), .. }) => {
            match part(app, *repository, git, at).await? {
                Ok(Some((part, info))) => {
                    commit.get_or_insert(info);
                    composition.chart = Some(ChartPart::Git(part));
                }
                Ok(None) => return Ok(Ok(None)),
                Err(error) => return Ok(Err(error)),
            }
        }
        Some(_) | None => {}
    }
    Ok(Ok(Some(Prepared { composition, commit, pin })))
}

/// A git folder at the commit that its ref names now, with what is known of the commit; nothing before the first fetch.
async fn part(
    app: &App,
    id: RepositoryId,
    git: &GitRef,
    at: Option<&At<'_>>,
) -> Result<std::result::Result<Option<(GitPart, CommitInfo)>, GitError>> {
    if let Some(At { access, commit, .. }) = at.filter(|at| at.is_meant(id, git)) {
        let (access, sha) = ((*access).clone(), commit.sha.clone());
        let part = GitPart { access, sha, source: SourceSpec::from(git) };
        return Ok(Ok(Some((part, (*commit).clone()))));
    }
    let Some(work) = app.store.repository_work(id).await? else {
        return Ok(Err(GitError::terminal("the git repository no longer exists; choose another")));
    };
    if work.repository.pulled_at.is_none() {
        return Ok(match work.repository.error {
            Some(error) => Err(GitError::terminal(format!("cannot fetch the repository: {error}"))),
            None => Ok(None),
        });
    }
    let access = app.git_access(&work).await?;
    if let Err(error) = app.mirror_renew(&access).await {
        return Ok(Err(GitError {
            message: format!("cannot fetch the repository: {}", error.message),
            ..error
        }));
    }
    match app.git.resolve(&access, &git.reference).await {
        Ok(commit) => {
            let part = GitPart { access, sha: commit.sha.clone(), source: SourceSpec::from(git) };
            Ok(Ok(Some((part, commit))))
        }
        Err(error) => {
            Ok(Err(GitError { message: format!("cannot find the ref: {}", error.message), ..error }))
        }
    }
}

async fn moved(
    app: &App,
    group: &Group,
    composed: Composed,
    commit: Option<CommitInfo>,
    pin: Option<String>,
) -> Result<()> {
    let Composed { built, chart } = composed;
    if let Some((key, chart)) = pin.zip(chart.as_ref()) {
        app.store.chart_pin_put(&key, chart, app.clock.now()).await?;
    }
    let (sha, message, author) = match (commit, chart) {
        (Some(CommitInfo { sha, message, author, emails: _, at: _ }), _) => (sha, message, Some(author)),
        (None, Some(ChartPin { version, digest })) => {
            let name =
                group.question.chart.as_ref().and_then(|chart| chart.name.as_deref()).unwrap_or("artifact");
            (digest, format!("{name} {version}"), None)
        }
        (None, None) => return Err(Error::internal("moving services", "they are made of nothing")),
    };
    let closure_digest = composed_digest(&built);
    let moves: Vec<ServiceRevise> = group
        .services
        .iter()
        .filter(|service| service.closure_digest.as_deref() != Some(closure_digest.as_str()))
        .map(|service| ServiceRevise {
            id: service.id,
            revision_id: RevisionId::new(),
            git: service.git.clone(),
            rendering: Some(service.rendering.clone()),
            sha: sha.clone(),
            message: message.clone(),
            author: author.clone(),
            closure_digest: closure_digest.clone(),
            artifact_digest: built.digest.clone(),
            artifact_folder: built.folder.clone(),
        })
        .collect();
    let ctx = app.system_ctx();
    let by = authorize_installation::<Write>(&ctx, Scope::Installation)?;
    let moves = app.dependencies_first(&moves, MOVES).await?;
    for chunk in moves.chunks(MOVES) {
        let moved = app.store.service_revise(by.audited(&ctx, "service.revise"), chunk).await?;
        if !moved.is_empty() {
            tracing::info!(services = moved.len(), source = message, "moved services to a new source");
        }
    }
    verdict(app, group, |_| None).await
}

async fn blame(app: &App, group: &Group, error: &GitError) -> Result<()> {
    if error.transient {
        app.sources.failed();
    }
    verdict(app, group, |service| {
        let GitError { message, location, transient } = error;
        // What runs goes on running: only a service that never had an artifact fails.
        let warning = service.closure_digest.is_some();
        let terminal = !transient && !warning;
        Some(ServiceError { warning, terminal, ..ServiceError::git(message.clone(), location.clone()) })
    })
    .await
}

/// Records the console's own verdict on each service, where it differs from the recorded one.
async fn verdict(
    app: &App,
    group: &Group,
    verdict: impl Fn(&ComposedService) -> Option<ServiceError>,
) -> Result<()> {
    // A look can take a minute: whoever asks for something else by now is not concerned.
    let ids: Vec<ServiceId> = group.services.iter().map(|service| service.id).collect();
    let mut services = Vec::new();
    for chunk in ids.chunks(500) {
        services.extend(app.store.composed_services(Some(chunk)).await?);
    }
    let news: Vec<(ServiceId, Option<ServiceError>)> = services
        .iter()
        .filter(|service| Question::of(service) == group.question)
        .map(|service| (service, verdict(service)))
        .filter(|(service, error)| service.error != *error)
        .map(|(service, error)| (service.id, error))
        .collect();
    if news.is_empty() {
        return Ok(());
    }
    app.store.service_source_errors(&news, app.clock.now()).await
}

/// Under which an answer is remembered: the same question of every service of the installation.
/// What credentials of a project found is known to its services only.
fn pin_key(url: &str, chart: Option<&str>, version: Option<&str>, project: Option<ProjectId>) -> String {
    let project = project.map(|project| project.to_string());
    let mut hash = Sha256::new();
    let parts = [url, chart.unwrap_or_default(), version.unwrap_or_default()];
    for part in parts.into_iter().chain(project.as_deref()) {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    }
    hex::encode(hash.finalize())
}
