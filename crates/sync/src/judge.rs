//! What is to be done about each object of a sync: decided from what is known, without a request.

use std::collections::{HashMap, HashSet};

use crate::{
    inventory::{HookRecord, Run},
    key::ObjectKey,
    order::Step,
    phase::Phase,
    plan::{Action, PlannedObject, Surplus, plan},
    prepare::{Item, location},
    state::{State, Wanted},
    target::{Drift, DriftKind, Outcome, Part, Request, Retry, Target},
};

/// How a sync goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Something new is brought in: hooks run, waves wait.
    Rollout,
    /// It was brought in before: what differs is put right at once.
    Heal,
    /// Only what a person chose is applied.
    Chosen,
    /// Nothing is written.
    Held,
}

/// What is to be done about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: it is as it should be.
    Intact,
    /// It is not there.
    Absent,
    /// It is not what is wanted now.
    Differs,
    /// It was as it should be, and it was changed.
    Drifted,
    /// It differs, and that stays so for now: why.
    Left(String),
    /// A hook that has not run as it is now. An older one may have to go first.
    RunHook,
    /// A hook that runs.
    Running,
    /// A hook that ended; nobody noted it yet.
    Ended(Result<(), String>),
    /// A hook of which was noted how it ended.
    Done(Result<(), String>),
}

impl Verdict {
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Absent | Self::Differs | Self::Drifted | Self::RunHook)
    }
}

pub(crate) fn hook_id(phase: Phase, key: &ObjectKey) -> String {
    format!("{}/{key}", phase.as_str())
}

/// What was noted of a hook, if it ran as it is now.
pub(crate) fn hook_record<'r>(run: &'r Run, item: &Item) -> Option<&'r HookRecord> {
    run.hooks.get(&hook_id(item.place.phase, &item.key)).filter(|record| record.hash == item.stamped.hash)
}

/// The mode of this call, and the record's state as it will be.
pub(crate) fn begin(
    target: &Target,
    request: Option<&Request>,
    known: &Run,
    items: &[Item],
    digest: &str,
) -> (Mode, Run) {
    let mut run = known.clone();
    for phase in Phase::ALL {
        let round = known.round(phase, request);
        if !round.is_empty() {
            run.rounds.insert(phase.as_str().to_owned(), round);
        }
    }
    let remembers = target.config.policy.manual
        || request.is_some()
        || items.iter().any(|item| item.once || item.explicit || item.place.phase != Phase::Sync);
    if target.paused {
        return (Mode::Held, run);
    }
    if request.is_some_and(|request| !request.objects.is_empty()) {
        return (Mode::Chosen, run);
    }
    if run.digest == digest {
        let heal = run.complete && !request.is_some_and(|request| request.run_tests);
        return (if heal { Mode::Heal } else { Mode::Rollout }, run);
    }
    if target.config.policy.manual && request.is_none() {
        return (Mode::Held, run);
    }
    run.complete = false;
    run.failed = false;
    run.digest = if remembers { digest.to_owned() } else { String::new() };
    (Mode::Rollout, run)
}

/// Judges all items; takes claims, notes what is wanted, conflicts and drift.
pub(crate) fn judge(
    state: &mut State,
    target: &Target,
    mode: Mode,
    run: &Run,
    items: Vec<Item>,
    outcome: &mut Outcome,
) -> Vec<(Item, Verdict)> {
    let mine = take(state, target, run, items, outcome);
    let chosen = target.request.as_ref().map(|request| &request.objects);
    let asked = target.request.as_ref().is_some_and(|request| request.id != run.request_done);
    let mut judged = Vec::with_capacity(mine.len());
    let mut planned = Vec::new();
    for item in mine {
        let mut verdict = verdict(state, target, run, &item, outcome);
        if mode == Mode::Chosen && !chosen.is_some_and(|chosen| chosen.contains(&item.key)) {
            verdict = if verdict.writes() { Verdict::Left(String::new()) } else { verdict };
        }
        // Who asks for a sync asks for repairs, too.
        if verdict == Verdict::Drifted && (mode == Mode::Held || !asked) {
            verdict = allowed_repair(state, target, mode, &item, outcome);
        }
        if matches!(verdict, Verdict::Intact | Verdict::Done(_)) {
            outcome.unchanged += 1;
        }
        planned.push(line(&item, &verdict));
        judged.push((item, verdict));
    }
    let known = state.services.entry(target.id).or_default();
    let leaving: Vec<ObjectKey> =
        known.recorded.iter().filter(|key| known.is_surplus(key)).cloned().collect();
    let surplus = surplus(state, target, &leaving);
    let plan = plan(planned, surplus);
    if !plan.is_empty() {
        outcome.plan = Some(plan);
    }
    judged
}

/// Judges objects of a phase that is not part of every sync, on top of those that are wanted.
pub(crate) fn judge_more(
    state: &mut State,
    target: &Target,
    run: &Run,
    items: Vec<Item>,
    outcome: &mut Outcome,
) -> Vec<(Item, Verdict)> {
    let mut judged = Vec::new();
    for item in items {
        if let Some(owner) = other_owner(state, target, &item.key) {
            outcome.warn(Part::Sync, conflict(&item, &owner), location(&item.origin));
            continue;
        }
        state.claims.insert(item.key.clone(), target.id);
        let mut new = Wanted::new(item.version.clone(), item.stamped.clone(), item.place, item.once);
        new.done = item.once && hook_record(run, &item).is_some();
        state.want(target.id, item.key.clone(), new);
        let verdict = verdict(state, target, run, &item, outcome);
        judged.push((item, verdict));
    }
    judged
}

/// Takes what is ours to take, and notes it as wanted.
fn take(state: &mut State, target: &Target, run: &Run, items: Vec<Item>, outcome: &mut Outcome) -> Vec<Item> {
    let mut wanted: HashMap<ObjectKey, Wanted> = HashMap::new();
    let mut mine: Vec<Item> = Vec::new();
    let mut blocked = HashSet::new();
    for item in items {
        if let Some(owner) = other_owner(state, target, &item.key) {
            let message = conflict(&item, &owner);
            blocked.insert(item.key.clone());
            // Definitions are often brought by several services alike.
            let definition = item.step == Step::Definitions;
            if definition || !target.config.require_ownership {
                outcome.warn(Part::Sync, message, location(&item.origin));
            } else {
                outcome.error(Part::Sync, message, location(&item.origin), Retry::OnChange);
            }
            continue;
        }
        state.claims.insert(item.key.clone(), target.id);
        let done = !item.once || hook_record(run, &item).is_some();
        let entry = wanted.entry(item.key.clone()).or_insert_with(|| {
            let mut new = Wanted::new(item.version.clone(), item.stamped.clone(), item.place, item.once);
            new.done = item.once;
            new
        });
        // An object of several phases is as its last one left it.
        entry.stamped = item.stamped.clone();
        entry.done &= done;
        mine.push(item);
    }
    state.replace_wanted(target.id, wanted);
    state.services.entry(target.id).or_default().blocked = blocked;
    mine
}

pub(crate) fn conflict(item: &Item, owner: &str) -> String {
    format!(
        "{} belongs to service {owner}: it was not touched. Remove it from one of the two services",
        item.key.words()
    )
}

fn verdict(state: &mut State, target: &Target, run: &Run, item: &Item, outcome: &mut Outcome) -> Verdict {
    if item.once {
        return hook_verdict(state, target, run, item);
    }
    if state.intact(target.id, &item.key) {
        return Verdict::Intact;
    }
    let live = state.live.get(&item.key);
    if let Some(held) = live.and_then(|live| live.deleting.clone()) {
        let message = format!(
            "{} is being deleted{}: it is applied again once it is gone",
            item.key.words(),
            if held.is_empty() {
                String::new()
            } else {
                format!(", held by its finalizers {}", held.join(", "))
            }
        );
        state.set_problem(target.id, &item.key, "the old object is still being deleted");
        outcome.error(Part::Sync, message.clone(), location(&item.origin), Retry::Soon);
        return Verdict::Left(message);
    }
    if state.was_applied(target.id, &item.key) {
        return Verdict::Drifted;
    }
    if live.is_some() { Verdict::Differs } else { Verdict::Absent }
}

fn hook_verdict(state: &State, target: &Target, run: &Run, item: &Item) -> Verdict {
    if let Some(record) = hook_record(run, item) {
        let result = if record.succeeded { Ok(()) } else { Err(record.message.clone()) };
        return Verdict::Done(result);
    }
    let this = state.live.get(&item.key).filter(|live| {
        let mark = live.mark.as_ref();
        mark.is_some_and(|mark| mark.service == Some(target.id) && mark.hash == item.stamped.hash)
    });
    match this {
        Some(live) => match &live.finished {
            Some(result) => Verdict::Ended(result.clone()),
            None => Verdict::Running,
        },
        None => Verdict::RunHook,
    }
}

/// Whether somebody's change may be put right now.
fn allowed_repair(
    state: &mut State,
    target: &Target,
    mode: Mode,
    item: &Item,
    outcome: &mut Outcome,
) -> Verdict {
    let manager = state.live.get(&item.key).and_then(|live| live.other.clone());
    let who = manager.clone().unwrap_or_else(|| "someone".to_owned());
    if mode == Mode::Held || !target.config.policy.self_heal {
        let why = format!("{} was changed by {who} and is left unchanged", item.key.words());
        state.set_left(target.id, &item.key);
        return Verdict::Left(why);
    }
    let Err(wait) = state.may_repair(&item.key) else { return Verdict::Drifted };
    let message = format!(
        "{who} keeps changing {}; repairs are limited to one per 30 s. Stop {who}, or remove those fields \
         from git",
        item.key.words()
    );
    state.set_problem(target.id, &item.key, &message);
    outcome.drift.push(Drift {
        key: item.key.clone(),
        kind: DriftKind::Fight,
        manager,
        fields: Vec::new(),
        what: "it is changed repeatedly".to_owned(),
    });
    outcome.warn(Part::Sync, message.clone(), location(&item.origin));
    outcome.retry = outcome.retry.sooner(Retry::After(wait));
    Verdict::Left(message)
}

/// Name and id of the other service that owns the object, if one does.
pub(crate) fn other_owner(state: &State, target: &Target, key: &ObjectKey) -> Option<String> {
    let marked = state.live.get(key).and_then(|live| live.mark.as_ref()).and_then(|mark| mark.service);
    let owner = state.claims.get(key).copied().or(marked).filter(|owner| *owner != target.id)?;
    // The mark of a service that nobody knows binds nobody.
    let known = state.services.get(&owner)?;
    let place = if target.cluster.is_empty() { String::new() } else { format!("{}/", target.cluster) };
    Some(format!("{place}{} ({owner})", known.name))
}

/// The line of a plan that a verdict makes.
pub(crate) fn line(item: &Item, verdict: &Verdict) -> PlannedObject {
    let (action, why) = match verdict {
        Verdict::Intact | Verdict::Running | Verdict::Ended(_) | Verdict::Done(_) => {
            (Action::Unchanged, String::new())
        }
        Verdict::Absent => (Action::Create, String::new()),
        Verdict::Differs => (Action::Change, String::new()),
        Verdict::Drifted => (Action::Change, "it was changed".to_owned()),
        Verdict::Left(why) => (Action::Blocked, why.clone()),
        Verdict::RunHook => (Action::RunHook, String::new()),
    };
    PlannedObject {
        key: item.key.clone(),
        version: item.version.clone(),
        action,
        phase: item.place.phase,
        wave: item.place.wave,
        why,
        fields: Vec::new(),
        fields_omitted: 0,
        location: location(&item.origin),
    }
}

/// Which of `keys`, owned and not wanted, are there to go.
pub(crate) fn surplus(state: &State, target: &Target, keys: &[ObjectKey]) -> Vec<Surplus> {
    let Some(known) = state.services.get(&target.id) else { return Vec::new() };
    keys.iter()
        .filter(|key| state.live.contains_key(*key) && !state.stays(key))
        .map(|key| Surplus {
            key: key.clone(),
            place: known.place_of(key),
            held: (!target.config.policy.prune).then(|| "pruning is switched off".to_owned()),
        })
        .collect()
}

/// Notes what a dry run would want, so that its components can be shown. Nothing is claimed.
pub(crate) fn want_for_show(state: &mut State, target: &Target, items: &[Item]) {
    let wanted = items
        .iter()
        .map(|item| {
            let new = Wanted::new(item.version.clone(), item.stamped.clone(), item.place, item.once);
            (item.key.clone(), new)
        })
        .collect();
    state.replace_wanted(target.id, wanted);
}
