//! A sync: what differs is sent, phase by phase and wave by wave; a wave that must be healthy before the
//! next one is waited for *between* calls, never within one.
//!
//! Each call begins at the first wave. What is as it should be costs no request, so a call gets at once to
//! where the last one stopped; all that must outlive the process is in the record: which set of objects is
//! being synced, and which hooks ended.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures::{StreamExt, stream};
use plural_core::component::ComponentState;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::{
    api::Api,
    engine::{Engine, failed},
    inventory::{self, Inventory, Place},
    judge::{Mode, Verdict, begin, hook_record, judge, judge_more},
    key::ObjectKey,
    order::Step,
    phase::Phase,
    plan::{Action, SyncPlan},
    prepare::{Item, Prepared, location},
    target::{DriftKind, Outcome, Part, ProgressStep, Request, Retry, Target},
};

/// Requests of one service at once; the engine's own limit holds for all services together.
const PER_SERVICE: usize = 32;
/// How long after chosen objects were applied the whole service is looked at.
const AFTER_CHOSEN: std::time::Duration = std::time::Duration::from_millis(100);

/// One call's view of a sync.
pub(crate) struct Sync<'e> {
    pub(crate) engine: &'e Engine,
    pub(crate) target: &'e Target,
    /// With the rights that count for the service's objects.
    pub(crate) api: Api,
    pub(crate) mode: Mode,
    /// A request that was not done yet.
    pub(crate) request: Option<&'e Request>,
    pub(crate) namespaces: HashSet<String>,
    /// Objects of which the record of this sync holds what changed, field by field.
    pub(crate) compared: HashSet<ObjectKey>,
}

/// The objects of one wave, with what is to be done about each.
#[derive(Debug)]
struct Wave {
    place: Place,
    items: Vec<(Item, Verdict)>,
}

impl Wave {
    fn is_explicit(&self) -> bool {
        self.items.iter().any(|(item, _)| item.explicit)
    }
}

/// What a gate waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// Hooks that have not ended.
    Hooks,
    /// Hooks, and everything that is not healthy.
    All,
}

/// Whether a sync may go on after a wave.
enum Gate {
    Open,
    /// Not yet: on what it waits, and why.
    Waiting(Vec<(ObjectKey, String)>),
    /// Not as things are; the outcome says why.
    Failed,
}

impl Engine {
    /// Sends what differs, then deletes what left.
    pub(crate) async fn run(&self, target: &Target, prepared: Prepared, outcome: &mut Outcome) {
        let Prepared { items, namespaces, skipped, lacking: _ } = prepared;
        let digest = digest(&items);
        let (main, extra): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|item| item.place.phase <= Phase::PostSync);
        let (sync, judged) = self.inner().with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            known.skipped = skipped;
            (known.waiting, known.missed_news) = (false, false);
            let request = target.request.as_ref().filter(|request| request.id != known.run.request_done);
            let (mode, mut run) = begin(target, request, &known.run, &main, &digest);
            run.secret |= target.holds_secrets;
            known.kept_extra = extra
                .iter()
                .filter(|item| known.recorded.contains(&item.key))
                .map(|item| item.key.clone())
                .collect();
            let judged = judge(state, target, mode, &run, main, outcome);
            let api = self.inner().api.acting_as(target.user().as_deref());
            let compared = outcome.plan.as_ref().map(SyncPlan::changes).unwrap_or_default();
            let sync = Sync { engine: self, target, api, mode, request, namespaces, compared };
            if mode != Mode::Held {
                state.services.entry(target.id).or_default().run = run;
            }
            (sync, judged)
        });
        if sync.mode == Mode::Held {
            sync.hold(&judged, outcome).await;
            return;
        }
        // Whatever is written from here on is already recorded: whoever comes after a crash knows.
        if !self.record_wanted(target, outcome).await || !sync.ensure_namespace(&judged, outcome).await {
            return;
        }
        let mut waves: BTreeMap<Place, Vec<(Item, Verdict)>> = BTreeMap::new();
        for (item, verdict) in judged {
            waves.entry(item.place).or_default().push((item, verdict));
        }
        let waves = waves.into_iter().map(|(place, items)| Wave { place, items }).collect();
        let tests = sync.request.is_some_and(|request| request.run_tests);
        let more_follows = extra.iter().any(|item| item.place.phase == Phase::SyncFail || tests);
        let through = sync.go_through(waves, more_follows, outcome).await;
        match through {
            Gate::Open => sync.finish(extra, outcome).await,
            Gate::Waiting(waiting_for) => {
                outcome.progress.step = ProgressStep::Waiting;
                outcome.progress.waiting_for = waiting_for;
                sync.wait_for_news();
            }
            Gate::Failed => {
                outcome.progress.step = ProgressStep::Failed;
                // An error is no reason to believe that something should go.
                let planned = outcome.plan.iter().flat_map(|plan| &plan.objects);
                outcome.leaving = planned.filter(|object| object.action == Action::Prune).count();
                sync.wait_for_news();
                if outcome.lasting && sync.mode == Mode::Rollout {
                    sync.sync_fail(extra, outcome).await;
                }
            }
        }
        sync.tell_hooks(outcome);
    }

    /// Records what is owned already together with what is wanted. False when that failed.
    pub(crate) async fn record_wanted(&self, target: &Target, outcome: &mut Outcome) -> bool {
        let union = self.inner().with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            let mut union = known.recorded.clone();
            union.extend(known.wanted.keys().cloned());
            union
        });
        self.record(target, union, outcome).await
    }

    /// Writes the record of what the service owns, unless it stands there already. False when that failed.
    pub(crate) async fn record(
        &self,
        target: &Target,
        entries: BTreeSet<ObjectKey>,
        outcome: &mut Outcome,
    ) -> bool {
        let inner = self.inner();
        let (inventory, stored) = inner.with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            let places = entries.iter().filter_map(|key| {
                let place = known.place_of(key);
                (place != Place::default_of(key)).then(|| (key.clone(), place))
            });
            let places = places.collect();
            let inventory = Inventory { name: known.name.clone(), entries, places, run: known.run.clone() };
            let nothing = Inventory { name: known.name.clone(), ..Inventory::default() };
            let stored = known.stored.as_ref().unwrap_or(&nothing) == &inventory;
            (inventory, stored)
        });
        if stored {
            return true;
        }
        match inventory::store(&inner.api, &inner.options.namespace, target.id, &inventory).await {
            Ok(()) => {
                inner.with_state(|state| state.set_recorded(target.id, inventory));
                true
            }
            Err(error) => {
                failed(outcome, Part::Sync, "cannot record what the service owns", &error);
                false
            }
        }
    }
}

impl Sync<'_> {
    /// From now on any news of an object is a reason to look again.
    fn wait_for_news(&self) {
        self.engine.inner().with_state(|state| {
            state.services.entry(self.target.id).or_default().waiting = true;
        });
    }

    /// Tells what would be done, and what was changed behind our back.
    async fn hold(&self, judged: &[(Item, Verdict)], outcome: &mut Outcome) {
        outcome.applied = outcome.problems.iter().all(|problem| problem.warning)
            && judged.iter().all(|(_, verdict)| matches!(verdict, Verdict::Intact | Verdict::Done(Ok(()))));
        let leaves = outcome.plan.iter().flat_map(|plan| &plan.objects).any(|it| it.action == Action::Prune);
        // Nobody need ask for what is so already.
        let waits = self.target.paused || !outcome.applied || leaves;
        outcome.progress.step = if waits { ProgressStep::Held } else { ProgressStep::Complete };
        outcome.request_done = self.engine.inner().with_state(|state| {
            let done = state.services.get(&self.target.id).map(|known| known.run.request_done.clone());
            done.filter(|done| !done.is_empty())
        });
        self.tell_left(judged, outcome).await;
        self.tell_hooks(outcome);
    }

    /// Applies wave after wave, as far as it may go.
    async fn go_through(&self, waves: Vec<Wave>, more_follows: bool, outcome: &mut Outcome) -> Gate {
        outcome.progress.waves = waves.len();
        let explicit: Vec<(Phase, bool)> =
            waves.iter().map(|wave| (wave.place.phase, wave.is_explicit())).collect();
        // What has to be healthy at the next gate: all waves of the phase so far.
        let mut so_far: Vec<Item> = Vec::new();
        for (index, wave) in waves.into_iter().enumerate() {
            let Wave { place, items } = wave;
            (outcome.progress.phase, outcome.progress.wave) = (Some(place.phase), place.wave);
            if so_far.first().is_some_and(|item| item.place.phase != place.phase) {
                so_far.clear();
            }
            let waiting = self.apply_wave(items, &mut so_far, outcome).await;
            if !waiting.is_empty() && self.mode == Mode::Rollout {
                return Gate::Waiting(waiting);
            }
            let this_explicit = explicit.get(index).is_some_and(|(_, explicit)| *explicit);
            // Kinds have an order of their own, but only what a person put in order waits for health: a
            // workload may well need the Service that comes after it to become ready.
            let awaited = match explicit.get(index + 1) {
                Some((phase, next_explicit)) if *phase == place.phase && !this_explicit && !next_explicit => {
                    Awaited::Hooks
                }
                None if !more_follows => Awaited::Hooks,
                _ => Awaited::All,
            };
            let gated = awaited == Awaited::All || so_far.iter().any(|item| item.once);
            if gated && self.mode == Mode::Rollout {
                match self.gate(place, &so_far, awaited, outcome).await {
                    Gate::Open => {}
                    shut => return shut,
                }
            }
            outcome.progress.waves_done += 1;
        }
        if outcome.sync_failed() { Gate::Failed } else { Gate::Open }
    }

    /// Sends what differs of one wave; tells what must go before its hooks can run.
    async fn apply_wave(
        &self,
        items: Vec<(Item, Verdict)>,
        applied: &mut Vec<Item>,
        outcome: &mut Outcome,
    ) -> Vec<(ObjectKey, String)> {
        self.tell_left(&items, outcome).await;
        self.clean_up(&items, outcome).await;
        let mut waiting = Vec::new();
        let mut steps: BTreeMap<Step, Vec<(Item, Verdict)>> = BTreeMap::new();
        for (item, verdict) in items {
            let runs_hook = verdict == Verdict::RunHook;
            if runs_hook && self.mode != Mode::Rollout {
                continue;
            }
            if runs_hook && let Some(why) = self.clear_way(&item, outcome).await {
                waiting.push((item.key.clone(), why));
                continue;
            }
            if verdict.writes() {
                steps.entry(item.step).or_default().push((item.clone(), verdict));
            }
            applied.push(item);
        }
        for (step, items) in steps {
            let definitions: Vec<ObjectKey> = if step == Step::Definitions {
                items.iter().map(|(item, _)| item.key.clone()).collect()
            } else {
                Vec::new()
            };
            let mut results = stream::iter(items.into_iter().map(|(item, verdict)| async move {
                let drift = if verdict == Verdict::Drifted {
                    Some(self.provenance(&item, DriftKind::Repaired).await)
                } else {
                    None
                };
                let before = self.before(&item, &verdict).await;
                let result = self.write(&item).await;
                let changed = before.zip(result.as_ref().ok());
                let changed = changed.map(|(before, written)| written.changed(&item, before));
                (item, drift, changed, result)
            }))
            .buffer_unordered(PER_SERVICE);
            while let Some((item, drift, changed, result)) = results.next().await {
                outcome.drift.extend(drift);
                if let Some(changed) = changed {
                    outcome.note_change(&item, changed);
                }
                self.take_result(&item, result, outcome);
            }
            drop(results);
            if !definitions.is_empty() {
                self.engine.wait_for_definitions(self.target, &definitions, outcome).await;
            }
        }
        waiting
    }

    /// Whether what was applied so far is well enough to go on.
    async fn gate(&self, place: Place, items: &[Item], awaited: Awaited, outcome: &mut Outcome) -> Gate {
        self.engine
            .inner()
            .with_state(|state| state.services.entry(self.target.id).or_default().look_from_here());
        if !self.note_ended(items, outcome).await {
            return Gate::Failed;
        }
        let now = Instant::now();
        let since = self.engine.inner().with_state(|state| {
            let known = state.services.entry(self.target.id).or_default();
            let known_since = known.gate.filter(|(gate, _)| *gate == place).map(|(_, since)| since);
            let since = known_since.unwrap_or(now);
            known.gate = Some((place, since));
            since
        });
        let mut waiting = Vec::new();
        let mut left = None;
        for item in items {
            let Some((why, failed)) = self.not_ready(item, awaited) else { continue };
            let limit = item.directives.timeout.unwrap_or(self.target.config.policy.wave_timeout().into());
            let passed = now.duration_since(since);
            let part = if item.once { Part::Hook } else { Part::Sync };
            if failed {
                let message = format!("{}: {why}", item.key.words());
                outcome.error(part, message, location(&item.origin), Retry::OnChange);
            } else if passed >= limit {
                let message = format!(
                    "{} is not ready after {limit:.0?}: {why}. What comes after it waits",
                    item.key.words()
                );
                outcome.error(part, message, location(&item.origin), Retry::OnChange);
            } else {
                let rest = limit.saturating_sub(passed);
                left = Some(left.map_or(rest, |left: std::time::Duration| left.min(rest)));
                waiting.push((item.key.clone(), why));
            }
        }
        if outcome.sync_failed() {
            return Gate::Failed;
        }
        if waiting.is_empty() {
            return Gate::Open;
        }
        if let Some(left) = left {
            outcome.retry = outcome.retry.sooner(Retry::After(left));
        }
        Gate::Waiting(waiting)
    }

    /// Why an object is not ready, and whether it will not be; `None` when it is.
    fn not_ready(&self, item: &Item, awaited: Awaited) -> Option<(String, bool)> {
        self.engine.inner().with_state(|state| {
            let known = state.services.get(&self.target.id)?;
            if item.once {
                return match hook_record(&known.run, item) {
                    Some(record) if record.succeeded => None,
                    Some(record) => Some((record.message.clone(), true)),
                    None => Some(("the hook has not ended yet".to_owned(), false)),
                };
            }
            if awaited == Awaited::Hooks || !item.directives.wait || !self.target.config.policy.wave_wait {
                return None;
            }
            // Whatever keeps it from being applied is told already.
            if known.wanted.get(&item.key).is_some_and(|wanted| wanted.problem.is_some()) {
                return None;
            }
            let Some(live) = state.live.get(&item.key) else {
                return Some(("it does not exist yet".to_owned(), false));
            };
            match live.health.state() {
                // What nobody can tell nobody can wait for.
                Some(ComponentState::Running) | None => None,
                Some(ComponentState::Failed) => Some((live.health.message.clone(), true)),
                Some(ComponentState::Pending | ComponentState::Paused) => {
                    Some((live.health.message.clone(), false))
                }
            }
        })
    }

    /// All waves are through: tests if they were asked for, then what left git goes.
    async fn finish(&self, extra: Vec<Item>, outcome: &mut Outcome) {
        outcome.applied = outcome.leaving_out == 0;
        let tests: Vec<Item> = extra.into_iter().filter(|item| item.place.phase == Phase::Test).collect();
        let wants_tests = self.request.is_some_and(|request| request.run_tests) && self.mode == Mode::Rollout;
        if wants_tests && !tests.is_empty() {
            match self.run_extra(tests, outcome).await {
                Gate::Open => {}
                Gate::Waiting(waiting_for) => {
                    outcome.progress.step = ProgressStep::Waiting;
                    outcome.progress.waiting_for = waiting_for;
                    self.wait_for_news();
                    return;
                }
                Gate::Failed => {
                    outcome.progress.step = ProgressStep::Failed;
                    self.end_request(outcome).await;
                    return;
                }
            }
        }
        outcome.progress.step =
            if outcome.leaving_out == 0 { ProgressStep::Complete } else { ProgressStep::Waiting };
        self.engine.inner().with_state(|state| {
            let known = state.services.entry(self.target.id).or_default();
            known.gate = None;
            if self.mode == Mode::Rollout && outcome.leaving_out == 0 {
                known.run.complete = !known.run.digest.is_empty();
            }
        });
        let prune = self.target.config.policy.prune || self.request.is_some_and(|request| request.prune);
        if self.mode != Mode::Chosen && outcome.leaving_out == 0 && prune {
            self.engine.prune(self.target, &self.api, outcome).await;
        }
        if self.mode != Mode::Chosen && outcome.leaving_out == 0 && outcome.leaving == 0 {
            self.engine.inner().with_state(|state| {
                state.services.entry(self.target.id).or_default().run.secret = self.target.holds_secrets;
            });
        }
        if self.mode == Mode::Chosen {
            // Whether that was all, the next look says.
            outcome.applied = false;
            outcome.retry = outcome.retry.sooner(Retry::After(AFTER_CHOSEN));
        }
        self.end_request(outcome).await;
    }

    /// What is to be done when a sync failed for good: once for each set of objects.
    async fn sync_fail(&self, extra: Vec<Item>, outcome: &mut Outcome) {
        let items: Vec<Item> = extra.into_iter().filter(|item| item.place.phase == Phase::SyncFail).collect();
        self.engine.inner().with_state(|state| {
            state.services.entry(self.target.id).or_default().run.failed = true;
        });
        if !items.is_empty() {
            let step = outcome.progress.step;
            if let Gate::Waiting(waiting_for) = self.run_extra(items, outcome).await {
                outcome.progress.waiting_for = waiting_for;
            }
            outcome.progress.step = step;
        }
        self.end_request(outcome).await;
    }

    /// Runs objects of a phase that is not part of every sync.
    async fn run_extra(&self, items: Vec<Item>, outcome: &mut Outcome) -> Gate {
        let judged = self.engine.inner().with_state(|state| {
            let run = state.services.entry(self.target.id).or_default().run.clone();
            judge_more(state, self.target, &run, items, outcome)
        });
        if !self.engine.record_wanted(self.target, outcome).await {
            return Gate::Failed;
        }
        let mut waves: BTreeMap<Place, Vec<(Item, Verdict)>> = BTreeMap::new();
        for (item, verdict) in judged {
            waves.entry(item.place).or_default().push((item, verdict));
        }
        for (place, items) in waves {
            (outcome.progress.phase, outcome.progress.wave) = (Some(place.phase), place.wave);
            let mut applied = Vec::new();
            let waiting = self.apply_wave(items, &mut applied, outcome).await;
            if !waiting.is_empty() {
                return Gate::Waiting(waiting);
            }
            // That the sync failed does not make its sync-fail phase a failed one.
            let earlier = std::mem::take(&mut outcome.problems);
            let gate = self.gate(place, &applied, Awaited::All, outcome).await;
            outcome.problems.splice(0..0, earlier);
            match gate {
                Gate::Open => {}
                shut => return shut,
            }
        }
        Gate::Open
    }

    /// Notes that the request was done, whatever came of it.
    async fn end_request(&self, outcome: &mut Outcome) {
        let (recorded, done) = self.engine.inner().with_state(|state| {
            let known = state.services.entry(self.target.id).or_default();
            if let Some(request) = self.request {
                known.run.request_done.clone_from(&request.id);
            }
            (known.recorded.clone(), known.run.request_done.clone())
        });
        if self.engine.record(self.target, recorded, outcome).await && !done.is_empty() {
            outcome.request_done = Some(done);
        }
    }
}

/// Stands for a set of objects as they should be.
pub(crate) fn digest(items: &[Item]) -> String {
    let mut lines: Vec<String> = items
        .iter()
        .map(|item| {
            format!("{} {} {} {}", item.key, item.stamped.hash, item.place.phase.as_str(), item.place.wave)
        })
        .collect();
    lines.sort_unstable();
    hex::encode(&Sha256::digest(lines.join("\n").as_bytes())[..16])
}
