//! What a sync would do, in full: each object that differs is applied as a dry run, so that the API server
//! itself says what it would become, defaults, admission and all.

use futures::{StreamExt, stream};
use serde_json::Value;

use crate::{
    api::{Api, Applying},
    diff::{Compared, compared, created},
    engine::Engine,
    judge::{Mode, Verdict, begin, conflict, hook_record, line, other_owner, surplus},
    key::ObjectKey,
    migrate,
    phase::Phase,
    plan::{Action, PlannedObject, plan},
    prepare::{Item, Prepared, location},
    run::{Sync, digest},
    target::{Outcome, ProgressStep, Target},
};

/// Dry runs at once.
const AT_ONCE: usize = 16;

impl Engine {
    pub(crate) async fn preview(&self, target: &Target, prepared: Prepared, outcome: &mut Outcome) {
        let Prepared { items, namespaces, skipped, lacking: _ } = prepared;
        let items: Vec<Item> = items.into_iter().filter(|item| item.place.phase <= Phase::PostSync).collect();
        let inner = self.inner();
        let api = inner.api.acting_as(target.user().as_deref());
        let sync = Sync {
            engine: self,
            target,
            api: api.clone(),
            mode: Mode::Held,
            request: None,
            namespaces,
            compared: std::collections::HashSet::new(),
        };
        let mut looks = Vec::with_capacity(items.len());
        for item in &items {
            looks.push(self.look(&sync, item));
        }
        let lines: Vec<PlannedObject> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        let going = inner.with_state(|state| {
            let known = state.services.entry(target.id).or_default();
            let wanted: std::collections::HashSet<&ObjectKey> =
                items.iter().map(|item| &item.key).chain(&skipped).collect();
            let recorded: Vec<ObjectKey> =
                known.recorded.iter().filter(|key| !wanted.contains(key)).cloned().collect();
            surplus(state, target, &recorded)
        });
        let (mode, _) = inner.with_state(|state| {
            let run = state.services.get(&target.id).map(|known| known.run.clone()).unwrap_or_default();
            begin(target, None, &run, &items, &digest(&items))
        });
        outcome.progress.step =
            if mode == Mode::Held || target.dry_run { ProgressStep::Held } else { ProgressStep::Running };
        let plan = plan(lines, going);
        outcome.changed = plan.objects.iter().filter(|object| writes(object.action)).count();
        outcome.unchanged = plan.unchanged;
        outcome.plan = Some(plan);
        if target.dry_run {
            self.inner().with_state(|state| crate::judge::want_for_show(state, target, &items));
        }
    }

    async fn look(&self, sync: &Sync<'_>, item: &Item) -> PlannedObject {
        let target = sync.target;
        let verdict = self.inner().with_state(|state| {
            if let Some(owner) = other_owner(state, target, &item.key) {
                return Err(owner);
            }
            let run = state.services.get(&target.id).map(|known| known.run.clone()).unwrap_or_default();
            if item.once {
                let ran =
                    hook_record(&run, item).is_some() || state.matches(target.id, &item.key, &item.stamped);
                return Ok(if ran { Verdict::Done(Ok(())) } else { Verdict::RunHook });
            }
            if state.matches(target.id, &item.key, &item.stamped) {
                return Ok(Verdict::Intact);
            }
            let held = state.live.get(&item.key).and_then(|live| live.deleting.clone());
            Ok(held.map_or(Verdict::Differs, |held| {
                Verdict::Left(format!("it is being deleted; its finalizers: {}", held.join(", ")))
            }))
        });
        match verdict {
            Err(owner) => {
                let mut line = line(item, &Verdict::Left(conflict(item, &owner)));
                line.action = Action::Conflict;
                line
            }
            Ok(Verdict::Differs) => compare(sync, &sync.api, item).await,
            Ok(verdict) => line(item, &verdict),
        }
    }
}

/// Asks the API server what the object would become.
async fn compare(sync: &Sync<'_>, api: &Api, item: &Item) -> PlannedObject {
    let blocked = |why: String| {
        let mut line = line(item, &Verdict::Left(why));
        line.location = location(&item.origin);
        line
    };
    let secret = item.key.kind.is("", "Secret");
    let words = |error: crate::api::ApiError| {
        if secret { error.without_values().to_string() } else { error.to_string() }
    };
    let path = item.resource.object(&item.key);
    let live = match sync.live(&path).await {
        Ok(live) => live,
        Err(error) => return blocked(words(error)),
    };
    let manifest = match Sync::manifest(item, live.as_ref()) {
        Ok(manifest) => manifest,
        Err(error) => return blocked(words(error)),
    };
    let how = Applying { validate: item.directives.validate, dry_run: true, ..Applying::OURS };
    let after = match api.apply(&path, how, manifest.to_string().into()).await {
        Ok(after) => after,
        // What it needs is made by the same sync: its namespace, its definition.
        Err(error) if error.is_not_found() && live.is_none() => return absent(item, &manifest),
        Err(error) => return blocked(words(error)),
    };
    let Some(live) = live else { return absent(item, &manifest) };
    let (mut before, mut after) = (live.clone(), after);
    if sync.adopts(item) {
        migrate::strip_taken_over(&mut after);
    }
    for side in [&mut before, &mut after] {
        item.rules.strip(side);
        item.rules.strip_managed(&live, side);
    }
    let mut line = line(item, &Verdict::Differs);
    let Compared { fields, omitted } = compared(&item.key, Some(&before), &after);
    (line.fields, line.fields_omitted) = (fields, omitted);
    line
}

/// An object that is not there yet, with all that is in it.
fn absent(item: &Item, manifest: &Value) -> PlannedObject {
    let mut line = line(item, &Verdict::Absent);
    let Compared { fields, omitted } = created(&item.key, manifest);
    (line.fields, line.fields_omitted) = (fields, omitted);
    line
}

fn writes(action: Action) -> bool {
    matches!(action, Action::Create | Action::Change | Action::RunHook)
}
