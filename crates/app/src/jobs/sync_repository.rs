//! Looks at one repository: fetch, resolve what its services ask for, build what changed, move them.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Instant;

use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_core::access::Scope;
use plural_core::ids::{ProjectId, RepositoryId, RevisionId, ServiceId};
use plural_core::repository::{GitHealth, RepositoryUrl};
use plural_core::service_error::ServiceError;
use tokio::sync::watch;

use super::fetch_turns::Asker;
use super::{follow_fleet_base, follow_stacks};
use crate::access::{Write, authorize_installation};
use crate::app::App;
use crate::ports::charts::{ComposeError, Composition, GitPart};
use crate::ports::git::{Built, CommitInfo, GitAccess, GitError, SourceSpec};
use crate::repository::{RepositoryFetched, RepositoryWork};
use crate::source::{ServiceRevise, ServiceSource, SourceLimits};

/// Services that are moved in one transaction at most.
const MOVES: usize = 500;

/// How a look ended.
pub(super) enum Outcome {
    /// Everything was looked at; a local repository's ref watch comes along, and in how many seconds it is fetched again. None where it cannot
    /// be fetched.
    Done { refs: Option<watch::Receiver<u64>>, again: Option<u64> },
    /// Another replica looks after it.
    Elsewhere,
    /// This replica should look after it, and another still does.
    Soon,
    /// There is no such repository.
    Gone,
}

/// Looks at a repository; `asked`: a webhook or a change says that there may be something new.
pub(super) async fn run(app: &App, id: RepositoryId, asked: bool) -> Result<Outcome> {
    let name = lease_name(id);
    let Some(work) = app.store.repository_work(id).await? else {
        app.turn_over(&name).await;
        return Ok(Outcome::Gone);
    };
    match app.turn(&name).await? {
        Some(fence) => Box::pin(fence.guard(look_at(app, work, asked))).await,
        None if app.replicas.is_chosen(&name) => Ok(Outcome::Soon),
        None => Ok(Outcome::Elsewhere),
    }
}

/// The machine that is asked for a repository; none where that is this one.
fn host(url: &RepositoryUrl) -> Option<String> {
    url.address().ok().map(|address| address.host().to_owned()).filter(|host| !host.is_empty())
}

/// The lease of whoever fetches a repository.
pub(super) fn lease_name(id: RepositoryId) -> String {
    format!("repository:{id}")
}

async fn look_at(app: &App, work: RepositoryWork, asked: bool) -> Result<Outcome> {
    let id = work.repository.id;
    let access = app.git_access(&work).await?;
    let refs = match app.git.watch(&access).await {
        Ok(refs) => refs,
        Err(error) => {
            tracing::debug!(repository.id = %id, error = %error, "cannot watch refs; polling instead");
            None
        }
    };
    let asker = Asker { project: Some(work.repository.project_id), host: host(&work.repository.url) };
    // What never came, or came no more when it was asked last, may take long: it holds up nothing that does come.
    let turn = match work.repository.health {
        Some(GitHealth::Pullable) => app.repositories.turns.fetch(asker).await,
        Some(GitHealth::Failed) | None => app.repositories.turns.first(asker).await,
    };
    let (started, began) = (Instant::now(), app.clock.now());
    app.mirror_take(&access).await;
    let fetched = app.git.fetch(&access).await;
    drop(turn);
    metrics::histogram!("plural_git_fetch_seconds").record(started.elapsed().as_secs_f64());
    record_fetch(app, &work, began, fetched.as_ref().err()).await?;
    let services = app.store.service_sources(id).await?;
    if let Err(error) = &fetched {
        metrics::counter!("plural_git_fetches_failed_total").increment(1);
        blame(app, &services, |service| {
            // What runs goes on running: only a service that never had an artifact fails.
            let warning = service.closure_digest.is_some();
            let told = service_error("cannot fetch the repository", error);
            Some(ServiceError { warning, terminal: told.terminal && !warning, ..told })
        })
        .await?;
        follow_stacks::blame(app, id, error).await?;
        return Ok(Outcome::Done { refs, again: None });
    }
    let changed = fetched.is_ok_and(|fetched| fetched.changed);
    if changed {
        app.refs_moved(id).await?;
    }
    app.repositories.mirrored.add(id);
    if changed {
        // A rollout may wait for the commit that this fetch brought.
        app.globals.wake();
    }
    look(app, work.repository.project_id, &access, &services).await?;
    let again = follow_stacks::run(app, &work, &access, asked).await?;
    follow_fleet_base::heard(app, &access).await?;
    Ok(Outcome::Done { refs, again: Some(again) })
}

impl App {
    /// Refs of a repository moved on this replica, which fetches it.
    async fn refs_moved(&self, id: RepositoryId) -> Result<()> {
        if self.replicas_alive().len() > 1 {
            return self.store.repository_moved(id).await;
        }
        // Nobody else to tell.
        self.sources.repository(id);
        Ok(())
    }

    pub(crate) fn mirror_is_old(&self, id: RepositoryId) {
        // The one who fetches it said so, and is up to date.
        if self.replicas.held(&lease_name(id)).is_none() {
            self.repositories.mirrored.remove(id);
        }
    }

    pub(crate) fn mirrors_are_old(&self) {
        self.repositories.mirrored.clear();
    }

    /// Makes sure that the mirror on this replica is as new as what is known of the repository, which another replica
    /// may be the one to fetch.
    pub(super) async fn mirror_renew(&self, access: &GitAccess) -> Result<(), GitError> {
        let fetch = async {
            self.mirror_take(access).await;
            self.git.fetch(access).await.map(drop)
        };
        self.repositories.mirrored.renew(access.id, fetch).await
    }

    /// The same, whatever is known: others may know more.
    pub(super) async fn mirror_fetch(&self, access: &GitAccess) -> Result<(), GitError> {
        self.repositories.mirrored.remove(access.id);
        self.mirror_renew(access).await
    }
}

/// Resolves, digests, builds and moves.
async fn look(app: &App, project: ProjectId, access: &GitAccess, services: &[ServiceSource]) -> Result<()> {
    let started = Instant::now();
    let mut verdicts: HashMap<ServiceId, Option<ServiceError>> = HashMap::new();
    let mut commits: BTreeMap<&str, Result<CommitInfo, GitError>> = BTreeMap::new();
    for service in services {
        let reference = service.git.reference.as_str();
        if !commits.contains_key(reference) {
            commits.insert(reference, app.git.resolve(access, reference).await);
        }
    }
    // Services that stand at the same commit share one walk over it.
    let mut by_commit: BTreeMap<&str, (&CommitInfo, Vec<&ServiceSource>)> = BTreeMap::new();
    for service in services {
        match &commits[service.git.reference.as_str()] {
            Ok(commit) => {
                by_commit.entry(&commit.sha).or_insert_with(|| (commit, Vec::new())).1.push(service);
            }
            Err(error) => {
                verdicts.insert(service.id, Some(service_error("cannot find the ref", error)));
            }
        }
    }
    let mut moves = Vec::new();
    // Charts whose dependencies are elsewhere: other machines decide how long those take, so they come last.
    let mut incomplete: HashMap<(String, SourceSpec), Vec<ServiceRevise>> = HashMap::new();
    for (commit, services) in by_commit.into_values() {
        let mut specs: Vec<SourceSpec> = Vec::new();
        let mut index: HashMap<SourceSpec, usize> = HashMap::new();
        for service in &services {
            let spec = service.spec();
            index.entry(spec.clone()).or_insert_with(|| {
                specs.push(spec);
                specs.len() - 1
            });
        }
        let turn = app.repositories.turns.build(Some(project)).await;
        let closures = app.git.closures(access, &commit.sha, &specs).await;
        drop(turn);
        let closures = match closures {
            Ok(closures) => closures,
            Err(error) => {
                for service in services {
                    verdicts.insert(service.id, Some(service_error("cannot read the commit", &error)));
                }
                continue;
            }
        };
        let mut built: HashMap<usize, Result<Built, GitError>> = HashMap::new();
        for service in services {
            let at = index[&service.spec()];
            let closure = match closures.get(at) {
                Some(Ok(closure)) => closure,
                Some(Err(error)) => {
                    verdicts.insert(service.id, Some(service_error("cannot read the folder", error)));
                    continue;
                }
                None => continue,
            };
            if service.closure_digest.as_deref() == Some(closure.digest.as_str()) {
                // A commit elsewhere in the repository is no news for this service.
                verdicts.insert(service.id, None);
                continue;
            }
            let built = match built.entry(at) {
                Entry::Occupied(built) => built.into_mut(),
                Entry::Vacant(missing) => {
                    let _turn = app.repositories.turns.build(Some(project)).await;
                    missing.insert(app.git.build(access, &commit.sha, &specs[at]).await)
                }
            };
            match built {
                Ok(built) => {
                    let step = ServiceRevise {
                        id: service.id,
                        revision_id: RevisionId::new(),
                        git: Some(service.git.clone()),
                        rendering: None,
                        sha: commit.sha.clone(),
                        message: commit.message.clone(),
                        author: Some(commit.author.clone()),
                        closure_digest: closure.digest.clone(),
                        artifact_digest: built.digest.clone(),
                        artifact_folder: built.folder.clone(),
                    };
                    if built.incomplete {
                        incomplete.entry((commit.sha.clone(), specs[at].clone())).or_default().push(step);
                    } else {
                        moves.push(step);
                    }
                }
                Err(error) => {
                    verdicts.insert(service.id, Some(service_error("cannot build the artifact", error)));
                }
            }
        }
    }
    metrics::histogram!("plural_git_build_seconds").record(started.elapsed().as_secs_f64());
    revise(app, access, &moves).await?;
    for (((sha, source), limits), mut steps) in by_limits(app, incomplete).await? {
        let part = GitPart { access: access.clone(), sha, source };
        let repositories = app.chart_accesses().await?;
        let project = Some(project);
        let composition =
            Composition { git: Some(part), repositories, project, limits, ..Composition::default() };
        // Whom the chart's dependencies are asked of is known when they are.
        let _turn = app.repositories.turns.look(Asker { project, host: None }).await;
        match app.composer.compose(&composition).await {
            Ok(composed) => {
                for step in &mut steps {
                    step.artifact_digest.clone_from(&composed.built.digest);
                    step.artifact_folder.clone_from(&composed.built.folder);
                }
                revise(app, access, &steps).await?;
            }
            Err(ComposeError { error, .. }) => {
                let error = service_error("cannot complete the chart", &error);
                verdicts.extend(steps.iter().map(|step| (step.id, Some(error.clone()))));
            }
        }
    }
    blame(app, services, |service| verdicts.get(&service.id).cloned().flatten()).await
}

/// What is to be completed, apart for services whose projects may read from different places.
async fn by_limits<K: Clone + Eq + Hash>(
    app: &App,
    incomplete: HashMap<K, Vec<ServiceRevise>>,
) -> Result<HashMap<(K, SourceLimits), Vec<ServiceRevise>>> {
    let ids: Vec<ServiceId> = incomplete.values().flatten().map(|step| step.id).collect();
    let mut limits = app.store.source_limits(&ids).await?;
    let mut apart: HashMap<(K, SourceLimits), Vec<ServiceRevise>> = HashMap::new();
    for (key, steps) in incomplete {
        for step in steps {
            let limits = limits.remove(&step.id).unwrap_or_default();
            apart.entry((key.clone(), limits)).or_default().push(step);
        }
    }
    Ok(apart)
}

/// Moves services to new artifacts.
async fn revise(app: &App, access: &GitAccess, moves: &[ServiceRevise]) -> Result<()> {
    let ctx = app.system_ctx();
    let by = authorize_installation::<Write>(&ctx, Scope::Installation)?;
    let moves = app.dependencies_first(moves, MOVES).await?;
    for chunk in moves.chunks(MOVES) {
        let started = Instant::now();
        let moved = app.store.service_revise(by.audited(&ctx, "service.revise"), chunk).await?;
        metrics::histogram!("plural_service_revise_seconds").record(started.elapsed().as_secs_f64());
        if !moved.is_empty() {
            tracing::info!(
                repository.id = %access.id,
                services = moved.len(),
                duration_ms = started.elapsed().as_millis() as u64,
                "moved services to a new commit"
            );
        }
    }
    Ok(())
}

/// Records the console's own verdict on each service, where it differs from the recorded one.
async fn blame(
    app: &App,
    services: &[ServiceSource],
    verdict: impl Fn(&ServiceSource) -> Option<ServiceError>,
) -> Result<()> {
    let news: Vec<(ServiceId, Option<ServiceError>)> = services
        .iter()
        .map(|service| (service, verdict(service)))
        .filter(|(service, error)| service.error != *error)
        .map(|(service, error)| (service.id, error))
        .collect();
    if news.is_empty() {
        return Ok(());
    }
    app.store.service_source_errors(&news, app.clock.now()).await
}

/// Records a fetch by the moment it began: what was pushed before is in it.
async fn record_fetch(
    app: &App,
    work: &RepositoryWork,
    began: DateTime<Utc>,
    error: Option<&GitError>,
) -> Result<()> {
    let repository = &work.repository;
    let fetched = RepositoryFetched {
        id: repository.id,
        health: if error.is_none() { GitHealth::Pullable } else { GitHealth::Failed },
        error: error.map(|error| error.message.clone()),
        at: began,
    };
    app.store.repository_fetched(&fetched).await
}

fn service_error(doing: &str, error: &GitError) -> ServiceError {
    let told = ServiceError::git(format!("{doing}: {}", error.message), error.location.clone());
    ServiceError { terminal: !error.transient, ..told }
}
