//! What a sync changed, field by field: for the record of the sync, which tells one revision from another.

use std::time::Duration;

use serde_json::Value;

use crate::{
    diff::{Compared, compared},
    judge::Verdict,
    prepare::Item,
    run::Sync,
    target::Outcome,
    write::Written,
};

/// The record of a sync is not worth that the sync waits for longer.
const PATIENCE: Duration = Duration::from_secs(3);

impl Sync<'_> {
    /// The object before it is written, where the record has room for what changes of it. What is created has no fields to
    /// compare, and what somebody changed is told as drift.
    pub(crate) async fn before(&self, item: &Item, verdict: &Verdict) -> Option<Value> {
        if *verdict != Verdict::Differs || !self.compared.contains(&item.key) {
            return None;
        }
        let path = item.resource.object(&item.key);
        // It is written all the same: only the record lacks its fields.
        match tokio::time::timeout(PATIENCE, self.live(&path)).await {
            Ok(Ok(live)) => live,
            Ok(Err(error)) => {
                tracing::debug!(%error, object = %item.key.words(), "cannot see what changes of an object");
                None
            }
            Err(_) => {
                tracing::debug!(object = %item.key.words(), "cannot see in time what changes of an object");
                None
            }
        }
    }
}

impl Written {
    /// What is different now, but for what the service is told to ignore.
    pub(crate) fn changed(&self, item: &Item, mut before: Value) -> Compared {
        let live = before.clone();
        let mut after = self.answer.clone();
        for side in [&mut before, &mut after] {
            item.rules.strip(side);
            item.rules.strip_managed(&live, side);
        }
        compared(&item.key, Some(&before), &after)
    }
}

impl Outcome {
    /// Keeps what was changed of an object until the plan is told.
    pub(crate) fn note_change(&mut self, item: &Item, changed: Compared) {
        let kept = self.room.keep(changed);
        if !kept.fields.is_empty() || kept.omitted > 0 {
            self.changed_fields.insert((item.place, item.key.clone()), kept);
        }
    }

    /// The plan is the record of what was done from here on.
    pub(crate) fn record_changes(&mut self) {
        let changed = std::mem::take(&mut self.changed_fields);
        if let Some(plan) = &mut self.plan {
            plan.note(changed);
        }
    }
}
