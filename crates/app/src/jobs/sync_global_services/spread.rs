//! One look at one global service: what it should be now, who should have it, who may move.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use plural_core::cluster::Cluster;
use plural_core::data_key::KeyOwner;
use plural_core::global_service::{GlobalService, ServiceTemplate};
use plural_core::ids::ClusterId;
use plural_core::rollout::{Member, Rollout, RolloutState, RolloutStrategy};
use plural_core::service::Service;
use plural_core::{Error, Result};
use plural_kit::ShutdownSignal;

use super::give::Given;
use super::{Outcome, is_ours, let_go};
use crate::access::Write;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::global_service::{
    Generation, GlobalServiceSelector, GlobalServiceWork, Instance, NewGeneration, looks_templated,
};
use crate::ports::git::{GitError, SourceSpec};
use crate::service::ServiceSelector;

/// Clusters that are given something in one transaction.
const AT_ONCE: usize = 250;

/// One look at one global service.
pub(super) struct Spread<'a> {
    app: &'a App,
    ctx: &'a OpCtx,
    stop: &'a ShutdownSignal,
    /// The cluster of the service that the others are copies of: it needs no copy.
    origin: Option<ClusterId>,
    /// What went wrong, for its owner.
    troubles: Vec<String>,
    changed: bool,
    /// A cluster that is meant has nothing yet, because what it had is still on its way out or only just kept.
    waits: bool,
}

/// Where a template stands.
enum Place {
    /// There is nothing to stand still at: no commit, or another one for each cluster.
    Free,
    /// The repository is not there yet.
    Unknown,
    /// At this commit, whose folder has this digest.
    At { sha: String, closure_digest: String },
}

/// A cluster that is to have an instance.
struct Target<'a> {
    cluster: &'a Cluster,
    instance: Option<&'a Instance>,
    member: Member,
}

impl<'a> Spread<'a> {
    pub(super) fn new(app: &'a App, ctx: &'a OpCtx, stop: &'a ShutdownSignal) -> Self {
        Self { app, ctx, stop, origin: None, troubles: Vec::new(), changed: false, waits: false }
    }

    /// Does what is to be done now.
    pub(super) async fn run(mut self, mut work: GlobalServiceWork) -> Result<Outcome> {
        let ready = match self.follow(&mut work).await {
            Ok(ready) => ready,
            Err(error) => {
                self.trouble(error)?;
                // What was found before is still good.
                let newest = work.generations.last();
                work.global.spec.rollout.is_none() || newest.is_some_and(|newest| newest.sha.is_some())
            }
        };
        let rollout = self.go(&work, ready).await?;
        let error = in_words(std::mem::take(&mut self.troubles));
        let global = &work.global;
        let all = ready && !self.waits && !self.stop.is_requested();
        if error != global.error || all != global.spread {
            let seen = all.then_some(global.updated_at);
            self.app.store.global_service_reconciled(global.id, seen, error.as_deref()).await?;
        }
        if self.changed {
            self.app.feed_catch_up().await;
        }
        let moves = rollout.as_ref().is_some_and(|rollout| !rollout.state.is_settled());
        if ready && !moves && !self.waits && error.is_none() {
            return Ok(Outcome::Done);
        }
        Ok(if self.changed || rollout != work.global.rollout { Outcome::Moved } else { Outcome::Waits })
    }

    /// Notes what its owner can mend; what is wrong with the console itself ends the look.
    fn trouble(&mut self, error: Error) -> Result<()> {
        if is_ours(&error) {
            return Err(error);
        }
        self.troubles.push(error.to_string());
        Ok(())
    }

    /// Makes a generation when what the instances are copies of has changed, or, with a rollout, when its commit has.
    /// `false`: it is not known yet what the newest one is.
    async fn follow(&mut self, work: &mut GlobalServiceWork) -> Result<bool> {
        let id = work.global.id;
        let Some(newest) = work.generations.last() else { return Ok(false) };
        let mut next = NewGeneration {
            after: newest.number,
            template: newest.template.clone(),
            secrets: None,
            sha: newest.sha.clone(),
            closure_digest: newest.closure_digest.clone(),
        };
        let mut moved = false;
        let mut ready = true;
        if let Some(source) = work.global.service_id {
            let gone = |error| match error {
                Error::NotFound { .. } => {
                    Error::conflict("the service that the instances are copies of no longer exists")
                }
                error => error,
            };
            let (origin, template, secrets) = self.app.template_of(self.ctx, source).await.map_err(gone)?;
            self.origin = Some(origin);
            if template != newest.template || secrets != self.app.open_template(id, &newest.secrets).await? {
                next.template = template;
                next.secrets =
                    Some(self.app.seal_template(KeyOwner::of(work.global.project_id), id, &secrets).await?);
                moved = true;
            }
        }
        if work.global.spec.rollout.is_none() {
            // Without a rollout nobody stands still.
            moved |= next.sha.is_some();
            (next.sha, next.closure_digest) = (None, None);
        } else {
            match self.place(newest, &next.template).await? {
                Place::Free => {}
                Place::Unknown => ready = next.sha.is_some(),
                Place::At { sha, closure_digest } => {
                    if next.closure_digest.as_ref() != Some(&closure_digest) {
                        (next.sha, next.closure_digest) = (Some(sha), Some(closure_digest));
                        moved = true;
                    }
                }
            }
        }
        if moved {
            let selector = GlobalServiceSelector::Id(id);
            let global = self.app.authorized::<GlobalService, Write>(self.ctx, &selector).await?;
            let by = global.audited(self.ctx, "global_service.generation");
            self.app.store.global_service_generation(by, &next).await?;
            if let Some(now) = self.app.store.global_service_work(id).await? {
                *work = now;
            }
        }
        Ok(ready)
    }

    /// The commit that a template stands at now, and the digest of what its folder reaches there.
    async fn place(&self, newest: &Generation, template: &ServiceTemplate) -> Result<Place> {
        let (Some(repository), Some(git)) = (template.repository_id, &template.git) else {
            return Ok(Place::Free);
        };
        let mut texts = [&git.reference, &git.folder].into_iter().chain(&git.files);
        if newest.context.is_some() && texts.any(|text| looks_templated(text)) {
            return Ok(Place::Free);
        }
        let Some(work) = self.app.store.repository_work(repository).await? else {
            return Ok(Place::Unknown);
        };
        if work.repository.pulled_at.is_none() {
            return Ok(Place::Unknown);
        }
        let access = self.app.git_access(&work).await?;
        let wrong =
            |doing: &str, error: &GitError| Error::conflict(format!("cannot {doing}: {}", error.message));
        self.app.mirror_renew(&access).await.map_err(|e| wrong("fetch the repository", &e))?;
        let commit =
            self.app.git.resolve(&access, &git.reference).await.map_err(|e| wrong("find the ref", &e))?;
        let specs = [SourceSpec::from(git)];
        let closures = self.app.git.closures(&access, &commit.sha, &specs).await;
        let closures = closures.map_err(|error| wrong("read the commit", &error))?;
        match closures.into_iter().next() {
            Some(Ok(closure)) => Ok(Place::At { sha: commit.sha, closure_digest: closure.digest }),
            Some(Err(error)) => Err(wrong("read the folder", &error)),
            None => Ok(Place::Unknown),
        }
    }

    /// Decides and writes. Answers where the rollout stands.
    async fn go(&mut self, work: &GlobalServiceWork, ready: bool) -> Result<Option<Rollout>> {
        let global = &work.global;
        if global.service_id.is_some() && self.origin.is_none() {
            // Without the original nobody can tell what the copies should be, nor which cluster needs none.
            return Ok(global.rollout.clone());
        }
        let by_cluster: HashMap<ClusterId, &Instance> =
            work.instances.iter().map(|instance| (instance.cluster_id, instance)).collect();
        let wanted: BTreeMap<ClusterId, &Cluster> = work
            .clusters
            .iter()
            .filter(|cluster| global.spec.target.matches(cluster) && self.origin != Some(cluster.id))
            .map(|cluster| (cluster.id, cluster))
            .collect();
        for instance in work.instances.iter().filter(|one| !wanted.contains_key(&one.cluster_id)) {
            if instance.deleted {
                continue;
            }
            match let_go(self.app, self.ctx, instance, global).await {
                Ok(()) => self.changed = true,
                Err(error) => self.trouble(error)?,
            }
        }
        let mut targets = BTreeMap::new();
        for (id, cluster) in wanted {
            let instance = by_cluster.get(&id).copied();
            if let Some(instance) = instance.filter(|instance| instance.deleted) {
                if instance.cascaded {
                    self.restore(instance).await?;
                }
                // The next look sees what became of it.
                self.waits = true;
                continue;
            }
            let member = instance.map_or_else(|| absent(cluster), Instance::member);
            targets.insert(id, Target { cluster, instance, member });
        }
        match &global.spec.rollout {
            None => {
                let stale = targets.values().filter(|target| target.member.generation != global.generation);
                let stale = stale.map(|target| target.cluster.id).collect();
                Box::pin(self.give(work, global.generation, stale, &mut targets)).await?;
                if global.rollout.is_some() {
                    let (id, before) = (global.id, global.rollout.as_ref());
                    self.app.store.global_service_progress(id, before, None).await?;
                }
                Ok(None)
            }
            Some(_) if !ready => Ok(global.rollout.clone()),
            Some(strategy) => self.by_cohorts(work, strategy, targets).await.map(Some),
        }
    }

    /// Moves those who may move.
    async fn by_cohorts(
        &mut self,
        work: &GlobalServiceWork,
        strategy: &RolloutStrategy,
        mut targets: BTreeMap<ClusterId, Target<'_>>,
    ) -> Result<Rollout> {
        let global = &work.global;
        let mut recorded = global.rollout.clone();
        let mut rollout = self.current(work, &targets);
        let mut tried: BTreeSet<ClusterId> = BTreeSet::new();
        loop {
            let clusters: Vec<&Cluster> = targets.values().map(|target| target.cluster).collect();
            let members: Vec<Member> = targets.values().map(|target| target.member).collect();
            let advance = rollout.advance(strategy, &strategy.places(&clusters), &members, self.ctx.now());
            rollout = advance.rollout;
            if recorded.as_ref() != Some(&rollout) {
                // Before the moves that it decided on: who looks next must know what they came from, and a person who
                // steered meanwhile must find them not made.
                let (store, before) = (&self.app.store, recorded.as_ref());
                if !store.global_service_progress(global.id, before, Some(&rollout)).await? {
                    return Ok(rollout);
                }
                self.changed = true;
                recorded = Some(rollout.clone());
            }
            let settled = rollout.state.is_settled();
            let (mut moves, generation) = if settled {
                left_behind(&rollout, targets.values().map(|target| &target.member))
            } else {
                (advance.moves, advance.generation)
            };
            // Once in a look is enough.
            moves.retain(|id| !tried.contains(id));
            let refused = Box::pin(self.give(work, generation, moves, &mut targets)).await?;
            if refused.is_empty() || settled {
                return Ok(rollout);
            }
            // Who has none yet and cannot have it is no member: the others must not wait for it. One that has an instance
            // has not moved, and in the end counts as failed.
            targets.retain(|id, target| target.instance.is_some() || !refused.contains(id));
            rollout.refuse(refused.iter().copied().filter(|id| targets.contains_key(id)), self.ctx.now());
            tried.extend(refused);
        }
    }

    /// The rollout that goes on, or the one that begins.
    fn current(&self, work: &GlobalServiceWork, targets: &BTreeMap<ClusterId, Target<'_>>) -> Rollout {
        let (generation, now) = (work.global.generation, self.ctx.now());
        match &work.global.rollout {
            Some(rollout) if rollout.generation == generation => rollout.clone(),
            Some(old) if old.state == RolloutState::Complete => {
                Rollout::begin(old.generation, generation, now)
            }
            // One that was overtaken: what it came from is the last that is known to work.
            Some(old) => Rollout::begin(old.previous, generation, now),
            None => {
                let before = targets.values().map(|target| target.member.generation);
                let before = before.filter(|before| *before != generation).max();
                Rollout::begin(before.unwrap_or(0), generation, now)
            }
        }
    }

    /// Gives clusters a generation; answers which of them cannot have it.
    async fn give(
        &mut self,
        work: &GlobalServiceWork,
        generation: u64,
        moves: Vec<ClusterId>,
        targets: &mut BTreeMap<ClusterId, Target<'_>>,
    ) -> Result<BTreeSet<ClusterId>> {
        let mut refused = BTreeSet::new();
        let found = work.generations.iter().find(|one| one.number == generation);
        let (Some(generation), false) = (found, moves.is_empty()) else { return Ok(refused) };
        let secrets = self.app.open_template(work.global.id, &generation.secrets).await?;
        let given = Given { work, generation, secrets };
        for chunk in moves.chunks(AT_ONCE) {
            if self.stop.is_requested() {
                return Ok(BTreeSet::new());
            }
            let found = chunk.iter().filter_map(|id| targets.get(id));
            let clusters: Vec<_> = found.map(|target| (target.cluster, target.instance)).collect();
            let cannot = Box::pin(given.to(self.app, self.ctx, &clusters)).await?;
            for (cluster, _) in clusters {
                if let Some(error) = cannot.get(&cluster.id) {
                    self.troubles.push(format!("cluster {}: {error}", cluster.handle));
                    refused.insert(cluster.id);
                } else if let Some(target) = targets.get_mut(&cluster.id) {
                    self.changed = true;
                    let (generation, since) = (generation.number, self.ctx.now());
                    target.member =
                        Member { generation, since, healthy: false, failed: false, ..target.member };
                }
            }
        }
        Ok(refused)
    }

    /// Takes the destruction of an instance back: its cluster is meant again.
    async fn restore(&mut self, instance: &Instance) -> Result<()> {
        self.changed = true;
        let selector = ServiceSelector::Id(instance.service_id);
        match self.app.authorized::<Service, Write>(self.ctx, &selector).await {
            Ok(service) => {
                let by = service.audited(self.ctx, "service.restore");
                self.app.store.instance_restore(by).await
            }
            Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Who does not have what a rollout that stands still leaves everybody with, and what that is. Where it halted half way,
/// only those that came since are meant: the others are where it left them.
fn left_behind<'m>(rollout: &Rollout, members: impl Iterator<Item = &'m Member>) -> (Vec<ClusterId>, u64) {
    let generation = match rollout.state {
        RolloutState::Complete => rollout.generation,
        _ => rollout.previous,
    };
    let is_behind = |member: &&Member| match rollout.state {
        RolloutState::Complete | RolloutState::Undone => member.generation != generation,
        _ => member.generation == 0,
    };
    (members.filter(is_behind).map(|member| member.cluster_id).collect(), generation)
}

/// What its owner is told of several troubles.
pub(super) fn in_words(mut troubles: Vec<String>) -> Option<String> {
    /// More would only repeat.
    const MOST: usize = 5;
    troubles.sort();
    troubles.dedup();
    let more = troubles.len().saturating_sub(MOST);
    troubles.truncate(MOST);
    if more > 0 {
        troubles.push(format!("and {more} more"));
    }
    (!troubles.is_empty()).then(|| troubles.join("; "))
}

/// A member that has no instance yet.
fn absent(cluster: &Cluster) -> Member {
    Member { cluster_id: cluster.id, generation: 0, since: cluster.created_at, healthy: false, failed: false }
}
