//! Jobs of fleet plans: they find the services that a commit affects, and end the wait for agents.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{StreamExt as _, stream};
use plural_core::cluster::Cluster;
use plural_core::fleet_plan::{
    FleetFound, FleetPartState, FleetPlan, FleetPlanPart, MOST_PARTS, PATIENCE, PlanCounts, follows,
    follows_head,
};
use plural_core::ids::{
    ClusterId, FleetPartId, FleetPlanId, ProjectId, PullRequestId, RepositoryId, ServiceId,
};
use plural_core::service::GitRef;
use plural_core::sync::PlanCandidate;
use plural_core::{Error, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::fetch_turns::Asker;
use super::fleet_plan_sources::together;
use super::plan_preview::{AskedStack, PlanPreviewedStack};
use super::plan_pull_request::bring;
use super::read_pull_request::KnownPullRequest;
use super::renew_fleet_plan::given_up;
use super::sync_sources::At;
use crate::app::App;
use crate::fleet_plan::{FleetAsked, FleetReached, FleetTarget, ReachedStack, fleet_plan_tellers};
use crate::job::{ABOUT_A_DAY, Job, JobFailure, NewJob};
use crate::ports::charts::{ComposeError, Composition, GitPart};
use crate::ports::git::{Built, Closure, CommitInfo, GitAccess, GitError, Merged, SourceSpec};
use crate::pull_request_made::Stop as NotMade;
use crate::source::SourceLimits;

/// Artifacts that are built concurrently.
pub(super) const BUILDS: usize = 4;
/// Limit of conflicting files in a message.
pub(super) const MOST_CONFLICTS: usize = 10;

/// Finds the services that a commit affects, and asks their agents.
#[derive(Debug)]
pub enum LookFleetPlan {}

/// Ends the wait for agents.
#[derive(Debug)]
pub enum EndFleetPlan {}

/// Publishes the state of a plan at the host of its pull request.
#[derive(Debug)]
pub enum TellFleetPlan {}

/// Plans the services that a pull request affects, at its head as of the last read.
#[derive(Debug)]
pub enum PlanFleetOfPull {}

/// A plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BegunFleetPlan {
    /// Its record.
    pub id: FleetPlanId,
    /// How often it was retried automatically, because the console could not read the commit.
    #[serde(default)]
    pub again: usize,
}

/// A plan whose state is published at a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToldFleetPlan {
    /// Its record: the newest plan of the pull request.
    pub id: FleetPlanId,
    /// Its repository.
    pub repository_id: RepositoryId,
    /// Its pull request.
    pub pull_request_id: PullRequestId,
}

impl Job for LookFleetPlan {
    const KIND: &'static str = "look_fleet_plan";
    // A restarting git server is back by then; the user waits.
    const ATTEMPTS: u32 = 6;
    type Payload = BegunFleetPlan;

    fn key(begun: &BegunFleetPlan) -> String {
        begun.id.to_string()
    }

    async fn run(app: &Arc<App>, begun: BegunFleetPlan) -> Result<(), JobFailure> {
        let Some(plan) = app.store.fleet_plan_to_look_at(begun.id).await? else { return Ok(()) };
        let mut base_sha = None;
        let looked = Box::pin(look(app, &plan, &mut base_sha)).await;
        looked_at(app, &plan, looked, base_sha.as_deref()).await
    }

    /// A pending check at the host would block merges for ever.
    async fn died(app: &Arc<App>, begun: BegunFleetPlan, why: &str) -> Result<()> {
        let Some(plan) = app.store.fleet_plan_to_look_at(begun.id).await? else { return Ok(()) };
        given_up(app, &plan, begun.again, why).await
    }
}

impl Job for EndFleetPlan {
    const KIND: &'static str = "end_fleet_plan";
    type Payload = BegunFleetPlan;

    fn key(begun: &BegunFleetPlan) -> String {
        begun.id.to_string()
    }

    async fn run(app: &Arc<App>, begun: BegunFleetPlan) -> Result<(), JobFailure> {
        Ok(app.store.fleet_plan_end(begun.id, app.now()).await?)
    }
}

impl Job for TellFleetPlan {
    const KIND: &'static str = "tell_fleet_plan";
    // A pending check at the host would block merges for ever.
    const ATTEMPTS: u32 = ABOUT_A_DAY;
    type Payload = ToldFleetPlan;

    /// Never two plans of a pull request concurrently: each would add the comment that it does not find.
    fn key(told: &ToldFleetPlan) -> String {
        format!("{}:{}", told.pull_request_id, told.repository_id)
    }

    async fn run(app: &Arc<App>, told: ToldFleetPlan) -> Result<(), JobFailure> {
        Ok(Box::pin(app.fleet_plan_tell(told.id)).await?)
    }
}

impl Job for PlanFleetOfPull {
    const KIND: &'static str = "plan_fleet_of_pull";
    type Payload = KnownPullRequest;

    fn key(pull: &KnownPullRequest) -> String {
        pull.id.to_string()
    }

    async fn run(app: &Arc<App>, pull: KnownPullRequest) -> Result<(), JobFailure> {
        Ok(Box::pin(app.fleet_plans_of_pull_request(pull.id)).await?)
    }
}

/// Records what was found of a plan, and asks agents; or records why the plan failed.
pub(super) async fn looked_at(
    app: &App,
    plan: &FleetPlan,
    looked: Result<FleetAsked, Stop>,
    base_sha: Option<&str>,
) -> Result<(), JobFailure> {
    let mut jobs = fleet_plan_tellers(plan.id, plan.repository_id, plan.pull_request_id)?;
    match looked {
        Ok(asked) => {
            if asked.is_any() {
                let wait = PATIENCE.to_std().unwrap_or_default();
                jobs.push(NewJob::of::<EndFleetPlan>(&BegunFleetPlan::first(plan.id))?.after(wait));
            }
            for ReachedStack { stack, source } in &asked.stacks {
                let Some(source) = source.clone() else { continue };
                let stack = AskedStack { plan: plan.id, stack: stack.stack_id, source };
                jobs.push(NewJob::of::<PlanPreviewedStack>(&stack)?);
            }
            app.store.fleet_plan_asked(plan.id, &asked, &jobs, app.now()).await?;
        }
        Err(Stop::Told(error)) => {
            app.store.fleet_plan_failed(plan.id, (error.as_str(), base_sha), &jobs, app.now()).await?;
        }
        Err(Stop::Internal(error)) => return Err(error.into()),
    }
    Ok(())
}

/// Why a plan cannot be made.
pub(super) enum Stop {
    /// A final failure, which the user gets.
    Told(String),
    /// A temporary failure.
    Internal(Error),
}

impl From<NotMade> for Stop {
    fn from(stop: NotMade) -> Self {
        match stop {
            NotMade::Failed(why) => Self::Told(why),
            NotMade::Later(why) => Self::Internal(Error::unavailable(why)),
            NotMade::Ours(error) => Self::Internal(error),
        }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Internal(error)
    }
}

impl From<GitError> for Stop {
    fn from(error: GitError) -> Self {
        if error.transient {
            Self::Internal(Error::unavailable(error.message))
        } else {
            Self::Told(error.message)
        }
    }
}

/// A git error, with the failed action.
pub(super) fn stopped(doing: &str, error: GitError) -> Stop {
    let message = format!("{doing}: {}", error.message);
    GitError { message, ..error }.into()
}

/// A repository at the planned commit.
pub(super) struct Head<'a> {
    pub(super) app: &'a App,
    pub(super) project: ProjectId,
    pub(super) access: &'a GitAccess,
    pub(super) commit: &'a CommitInfo,
}

/// The target branch of a commit.
pub(super) struct Base<'a> {
    pub(super) branch: &'a str,
    /// Its commit.
    pub(super) sha: String,
    /// It may have moved since the commit branched off: the plan is of their merge.
    pub(super) has_moved_on: bool,
}

/// The effect of a commit on one service.
struct Reach {
    target: FleetTarget,
    /// Index in [`Sources::specs`].
    at: usize,
    /// Why its folder cannot be read at the commit.
    error: Option<String>,
}

/// The files of a commit that services need, without duplicates.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) specs: Vec<SourceSpec>,
    index: HashMap<SourceSpec, usize>,
}

impl Sources {
    pub(super) fn add(&mut self, spec: SourceSpec) -> usize {
        let next = self.specs.len();
        let at = *self.index.entry(spec.clone()).or_insert(next);
        if at == next {
            self.specs.push(spec);
        }
        at
    }
}

/// The requests of a plan. Sets the commit of the target branch, also if the plan fails.
async fn look(app: &App, plan: &FleetPlan, base_sha: &mut Option<String>) -> Result<FleetAsked, Stop> {
    let work = app.store.repository_work(plan.repository_id).await?;
    let Some(work) = work else { return Err(Stop::Told("the repository is gone".to_owned())) };
    let access = app.git_access(&work).await?;
    let project = work.repository.project_id;
    let commit = match plan.pull_request_id {
        None => resolve(app, project, &access, &plan.reference).await?,
        Some(_) => head(app, &access, plan).await?,
    };
    let at = Head { app, project, access: &access, commit: &commit };
    let base = match plan.base.as_deref() {
        None => None,
        Some(branch) => {
            let found = app.git.resolve(&access, branch).await;
            let found = found.map_err(|error| stopped(&format!("cannot find {branch}"), error))?;
            *base_sha = Some(found.sha.clone());
            Some(Base { branch, sha: found.sha, has_moved_on: true })
        }
    };
    at.asks(plan.id, plan.repository_id, base).await
}

/// The planned commit.
struct Planned {
    /// The commit, or its merge, which no ref points to.
    sha: String,
    /// The commit of the target branch.
    base_sha: Option<String>,
    /// It is a merge.
    is_merged: bool,
}

/// A commit as it would be after a merge into a branch, which may have moved since it branched off.
async fn merged(
    app: &App,
    access: &GitAccess,
    (branch, at): (&str, &str),
    sha: &str,
) -> Result<Planned, Stop> {
    let base_sha = Some(at.to_owned());
    let as_it_is = Planned { sha: sha.to_owned(), base_sha: base_sha.clone(), is_merged: false };
    let found = app.git.merge(access, at, sha).await;
    match found.map_err(|error| stopped(&format!("cannot merge it into {branch}"), error))? {
        Merged::Second | Merged::Unknown => Ok(as_it_is),
        Merged::Commit(sha) => Ok(Planned { sha, base_sha, is_merged: true }),
        Merged::Conflicts(files) => Err(Stop::Told(conflicts(branch, &files))),
        Merged::Unrelated => {
            Err(Stop::Told(format!("cannot be planned: it has no commit in common with {branch}")))
        }
    }
}

/// The failure of a commit that does not merge.
fn conflicts(branch: &str, files: &[String]) -> String {
    let named: Vec<&str> = files.iter().take(MOST_CONFLICTS).map(String::as_str).collect();
    let more = files.len() - named.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("cannot be planned: conflicts with {branch} in {}{rest}", named.join(", "))
}

/// Resolves a reference. A commit that was just pushed is fetched first; and so is a branch, which may have moved.
async fn resolve(
    app: &App,
    project: ProjectId,
    access: &GitAccess,
    reference: &str,
) -> Result<CommitInfo, Stop> {
    app.mirror_take(access).await;
    let is_commit = reference.len() == 40 && reference.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_commit
        && app.git.has_mirror(access)
        && let Ok(commit) = app.git.resolve(access, reference).await
    {
        return Ok(commit);
    }
    let host = access.url.address().ok().map(|address| address.host().to_owned());
    let host = host.filter(|host| !host.is_empty());
    let turn = app.repositories.turns.fetch(Asker { project: Some(project), host }).await;
    let fetched = app.git.fetch(access).await;
    drop(turn);
    fetched.map_err(|error| stopped("cannot fetch the repository", error))?;
    let found = app.git.resolve(access, reference).await;
    // It was fetched just now: a missing reference does not exist.
    found.map_err(|error| Stop::Told(format!("cannot find {reference}: {}", error.message)))
}

/// The head of a pull request, which no branch of the repository has to contain.
pub(super) async fn head(app: &App, access: &GitAccess, plan: &FleetPlan) -> Result<CommitInfo, Stop> {
    let renewed = app.mirror_renew(access).await;
    renewed.map_err(|error| stopped("cannot fetch the repository", error))?;
    let found = bring(app, access, &plan.reference, plan.head_reference.as_deref()).await;
    found.map_err(|error| stopped(&format!("cannot find {}", plan.reference), error))
}

/// The clusters whose agents are not connected.
async fn away(app: &App, reached: &[Reach]) -> Result<HashSet<ClusterId>> {
    let ids: HashSet<ClusterId> = reached.iter().map(|reach| reach.target.cluster_id).collect();
    let ids: Vec<ClusterId> = ids.into_iter().collect();
    let clusters = app.get_many::<Cluster>(&app.system_ctx(), &ids).await?;
    let presence = app.agents_presence(clusters.values()).await?;
    let is_away = |id: &ClusterId| !presence.get(id).is_some_and(|presence| presence.connected);
    Ok(ids.into_iter().filter(is_away).collect())
}

fn part(
    plan_id: FleetPlanId,
    sha: &str,
    reach: Reach,
    built: Option<&Result<Built, GitError>>,
    is_away: bool,
) -> FleetReached {
    let Reach { target, at: _, error } = reach;
    let FleetTarget {
        id: service_id,
        name: service,
        cluster_id,
        cluster,
        project_id,
        git,
        also: _,
        beside: _,
        is_composed,
        closure_digest: _,
    } = target;
    let id = FleetPartId::new();
    let (state, error, built) = match (error, built) {
        (Some(error), _) => (FleetPartState::Failed, Some(error), None),
        (None, Some(Err(error))) => (FleetPartState::Failed, Some(error.message.clone()), None),
        // No agent is asked, but the built artifact is recorded.
        (None, Some(Ok(built))) if is_away => (FleetPartState::Away, None, Some(built)),
        (None, Some(Ok(built))) => (FleetPartState::Waiting, None, Some(built)),
        (None, None) => (FleetPartState::Failed, Some("its artifact was not built".to_owned()), None),
    };
    let candidate = built.map(|built| PlanCandidate {
        id,
        artifact_digest: built.digest.clone(),
        // The artifact of several sources has no single root folder.
        source_root: if is_composed { "" } else { git.root_of(&built.folder) }.to_owned(),
        folder: built.folder.clone(),
        sha: sha.to_owned(),
    });
    let part = FleetPlanPart {
        id,
        plan_id,
        service_id,
        cluster_id,
        service,
        cluster,
        project_id,
        state,
        counts: PlanCounts::default(),
        kinds: Vec::new(),
        error,
        answered_at: None,
    };
    FleetReached { part, candidate }
}

/// Whether a git reference moves with a commit to this branch.
fn moves_with(base: Option<&Base<'_>>, moves_head: bool, git: &GitRef) -> bool {
    base.is_none_or(|Base { branch, .. }| follows(git, branch) || (moves_head && follows_head(git)))
}

/// An unreadable source has no digest.
fn digest_at(found: &[Result<Closure, GitError>], place: usize) -> &str {
    found.get(place).and_then(|one| one.as_ref().ok()).map_or("-", |closure| closure.digest.as_str())
}

impl Head<'_> {
    /// The effect of the commit on the services of a repository: on those that follow the target branch, by their difference to it.
    pub(super) async fn asks(
        &self,
        plan: FleetPlanId,
        repository: RepositoryId,
        base: Option<Base<'_>>,
    ) -> Result<FleetAsked, Stop> {
        let (app, access) = (self.app, self.access);
        let (targets, moves_head) = self.targets(repository, base.as_ref()).await?;
        let moves = |git: &GitRef| moves_with(base.as_ref(), moves_head, git);
        let planned = self.planned(base.as_ref(), !targets.is_empty()).await?;
        let about = self.about(&targets, &planned).await?;
        let (targets, composed): (Vec<FleetTarget>, Vec<FleetTarget>) =
            targets.into_iter().partition(|target| !target.is_composed);
        let here = CommitInfo { sha: planned.sha.clone(), ..self.commit.clone() };
        let source = At { repository, access, commit: &here, moves: &moves };
        let composed = together(app, self.project, &source, planned.base_sha.as_deref(), composed).await?;
        let own = targets.len();
        let (mut reached, sources) = self.reached(targets, &planned).await?;
        let untouched = own - reached.len() + composed.untouched;
        let omitted = (reached.len() + composed.reached.len()).saturating_sub(MOST_PARTS);
        reached.truncate(MOST_PARTS);
        let mut built = self.built(&reached, &sources, &planned).await?;
        let room = MOST_PARTS - reached.len();
        for (target, found) in composed.reached.into_iter().take(room) {
            built.insert(target.id, found);
            reached.push(Reach { target, at: 0, error: None });
        }
        let away = away(app, &reached).await?;
        let parts = reached.into_iter().map(|reach| {
            let is_away = away.contains(&reach.target.cluster_id);
            let built = built.get(&reach.target.id);
            part(plan, &self.commit.sha, reach, built, is_away)
        });
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let reached = parts.collect();
        let Planned { sha: _, base_sha, is_merged } = planned;
        Ok(FleetAsked {
            reached,
            stacks: Vec::new(),
            found: FleetFound {
                untouched: count(untouched),
                composed: count(composed.unseen),
                omitted: count(omitted),
                deadline: app.now() + PATIENCE,
                sha: self.commit.sha.clone(),
                message: self.commit.message.clone(),
                base_sha,
                is_merged,
                about,
                since: None,
            },
        })
    }

    /// The digest that tells whether the plan of a commit stays the same with the branch here.
    pub(super) async fn about_now(
        &self,
        (targets, default): (&[FleetTarget], Option<&str>),
        base: &Base<'_>,
    ) -> Result<Option<String>, Stop> {
        let moves_head = default == Some(base.sha.as_str());
        let moves = |git: &GitRef| moves_with(Some(base), moves_head, git);
        let targets: Vec<FleetTarget> =
            targets.iter().filter(|target| target.moves(moves)).cloned().collect();
        let planned = self.planned(Some(base), !targets.is_empty()).await?;
        self.about(&targets, &planned).await
    }

    /// The services of a repository that move with the commit, and whether the target branch is the default one.
    async fn targets(
        &self,
        repository: RepositoryId,
        base: Option<&Base<'_>>,
    ) -> Result<(Vec<FleetTarget>, bool)> {
        let mut targets = self.app.store.fleet_plan_targets(repository).await?;
        let moves_head = match base {
            Some(Base { sha, .. }) if targets.iter().any(|target| target.moves(follows_head)) => {
                self.app.git.resolve(self.access, "HEAD").await.is_ok_and(|head| head.sha == *sha)
            }
            Some(_) | None => false,
        };
        targets.retain(|target| target.moves(|git| moves_with(base, moves_head, git)));
        Ok((targets, moves_head))
    }

    /// The planned commit: the merge, if the branch may have moved.
    async fn planned(&self, base: Option<&Base<'_>>, is_any: bool) -> Result<Planned, Stop> {
        let as_it_is = |base_sha| Planned { sha: self.commit.sha.clone(), base_sha, is_merged: false };
        match base {
            // Without any service the merge is not needed.
            Some(Base { branch, sha, has_moved_on: true }) if is_any => {
                merged(self.app, self.access, (branch, sha.as_str()), &self.commit.sha).await
            }
            Some(Base { sha, has_moved_on: false, .. }) => Ok(as_it_is(Some(sha.clone()))),
            Some(_) | None => Ok(as_it_is(None)),
        }
    }

    /// One digest over what each affected service reads on the branch and in the merge.
    async fn about(&self, targets: &[FleetTarget], planned: &Planned) -> Result<Option<String>, Stop> {
        let Some(base) = &planned.base_sha else { return Ok(None) };
        let mut sources = Sources::default();
        let mut places: Vec<(ServiceId, Vec<usize>)> = Vec::with_capacity(targets.len());
        for target in targets {
            let mut read = vec![sources.add(target.spec())];
            read.extend(target.also.iter().map(|git| sources.add(SourceSpec::from(git))));
            places.push((target.id, read));
        }
        places.sort_unstable();
        let after = self.closures(&planned.sha, &sources).await?;
        let before = self.closures(base, &sources).await?;
        let mut digest = Sha256::new();
        for (id, read) in places {
            for place in read {
                let (before, after) = (digest_at(&before, place), digest_at(&after, place));
                if before != after {
                    digest.update(format!("{id} {before} {after}\n"));
                }
            }
        }
        Ok(Some(hex::encode(digest.finalize())))
    }

    /// The services whose files at the commit differ from those on the target branch, or, without one, from their current ones.
    async fn reached(
        &self,
        targets: Vec<FleetTarget>,
        planned: &Planned,
    ) -> Result<(Vec<Reach>, Sources), Stop> {
        let mut sources = Sources::default();
        let places: Vec<usize> = targets.iter().map(|target| sources.add(target.spec())).collect();
        let after = self.closures(&planned.sha, &sources).await?;
        let before = match &planned.base_sha {
            None => None,
            Some(base) => Some(self.closures(base, &sources).await?),
        };
        let mut reached = Vec::new();
        for (target, at) in targets.into_iter().zip(places) {
            let before = match &before {
                None => target.closure_digest.clone(),
                Some(before) => before.get(at).and_then(|found| Some(found.as_ref().ok()?.digest.clone())),
            };
            let error = match after.get(at) {
                Some(Ok(closure)) if before.as_deref() == Some(closure.digest.as_str()) => continue,
                Some(Ok(_)) => None,
                // It cannot be read on the branch either: the commit does not change that.
                Some(Err(_)) if before.is_none() => continue,
                Some(Err(error)) => Some(format!("cannot read its folder: {}", error.message)),
                None => continue,
            };
            reached.push(Reach { target, at, error });
        }
        Ok((reached, sources))
    }

    async fn closures(
        &self,
        sha: &str,
        sources: &Sources,
    ) -> Result<Vec<Result<Closure, GitError>>, GitError> {
        let _turn = self.app.repositories.turns.build(Some(self.project)).await;
        self.app.git.closures(self.access, sha, &sources.specs).await
    }

    /// Their artifacts at the commit.
    async fn built(
        &self,
        reached: &[Reach],
        sources: &Sources,
        planned: &Planned,
    ) -> Result<HashMap<ServiceId, Result<Built, GitError>>> {
        let wanted: HashSet<usize> =
            reached.iter().filter(|reach| reach.error.is_none()).map(|reach| reach.at).collect();
        let mut builds: Vec<BoxFuture<'_, (usize, Result<Built, GitError>)>> =
            Vec::with_capacity(wanted.len());
        for at in wanted {
            if let Some(spec) = sources.specs.get(at) {
                builds.push(Box::pin(async move {
                    let _turn = self.app.repositories.turns.build(Some(self.project)).await;
                    (at, self.app.git.build(self.access, &planned.sha, spec).await)
                }));
            }
        }
        let built: HashMap<usize, Result<Built, GitError>> =
            stream::iter(builds).buffer_unordered(BUILDS).collect().await;
        let mut found = HashMap::with_capacity(reached.len());
        let mut incomplete: Vec<&Reach> = Vec::new();
        for reach in reached {
            match built.get(&reach.at) {
                Some(Ok(built)) if built.incomplete => incomplete.push(reach),
                Some(built) => drop(found.insert(reach.target.id, built.clone())),
                None => {}
            }
        }
        self.complete(&incomplete, sources, planned, &mut found).await?;
        Ok(found)
    }

    /// Fetches charts from elsewhere, separately for services whose projects may read from different places.
    async fn complete(
        &self,
        incomplete: &[&Reach],
        sources: &Sources,
        planned: &Planned,
        found: &mut HashMap<ServiceId, Result<Built, GitError>>,
    ) -> Result<()> {
        if incomplete.is_empty() {
            return Ok(());
        }
        let ids: Vec<ServiceId> = incomplete.iter().map(|reach| reach.target.id).collect();
        let mut limits = self.app.store.source_limits(&ids).await?;
        let mut groups: HashMap<(usize, SourceLimits), Vec<ServiceId>> = HashMap::new();
        for reach in incomplete {
            let limits = limits.remove(&reach.target.id).unwrap_or_default();
            groups.entry((reach.at, limits)).or_default().push(reach.target.id);
        }
        for ((at, limits), services) in groups {
            let Some(source) = sources.specs.get(at).cloned() else { continue };
            let part = GitPart { access: self.access.clone(), sha: planned.sha.clone(), source };
            let (repositories, project) = (self.app.chart_accesses().await?, Some(self.project));
            let composition =
                Composition { git: Some(part), repositories, project, limits, ..Composition::default() };
            let turn = self.app.repositories.turns.look(Asker { project, host: None }).await;
            let composed = self.app.composer.compose(&composition).await;
            drop(turn);
            let built = match composed {
                Ok(composed) => Ok(composed.built),
                Err(ComposeError { error, .. }) => {
                    let message = format!("cannot complete the chart: {}", error.message);
                    Err(GitError { message, ..error })
                }
            };
            found.extend(services.into_iter().map(|id| (id, built.clone())));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_conflict_are_named_and_not_without_end() {
        let one = conflicts("main", &["web/a.yaml".to_owned()]);
        assert_eq!(one, "cannot be planned: conflicts with main in web/a.yaml");
        let many: Vec<String> = (0..12).map(|at| at.to_string()).collect();
        assert!(conflicts("main", &many).ends_with(" in 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more"));
    }

    #[test]
    fn what_passes_is_tried_again() {
        let terminal = GitError::terminal("there is no ref");
        assert!(
            matches!(stopped("cannot find x", terminal), Stop::Told(why) if why == "cannot find x: there is no ref")
        );
        let passing = GitError { transient: true, ..GitError::terminal("no route to host") };
        assert!(matches!(
            stopped("cannot fetch the repository", passing),
            Stop::Internal(Error::Unavailable { reason, .. }) if reason == "cannot fetch the repository: no route to host"
        ));
    }
}
