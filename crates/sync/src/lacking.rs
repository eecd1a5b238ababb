//! Kinds that services want and the cluster does not serve: looked for until somebody brings them.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use plural_core::ids::ServiceId;
use plural_kit::about;
use tokio::time::{Instant, sleep_until};

use crate::{
    engine::{Engine, Inner},
    key::GroupKind,
    state::State,
};

/// How soon a kind that is missing is looked for again, and how seldom in the end.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A kind in a version.
pub(crate) type Served = (GroupKind, String);

/// Has services synced again as soon as what they lack is served. Costs nothing while none lacks anything.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut sought: BTreeSet<Served> = BTreeSet::new();
    let (mut wait, mut due) = (FIRST_WAIT, Instant::now());
    loop {
        // Whoever asked which kinds there are, for whatever reason: the answer may hold what is sought.
        let lacking = inner.with_state(|state| state.lacking());
        let came: BTreeSet<Served> =
            lacking.iter().filter(|(kind, version)| inner.discovery.serves(kind, version)).cloned().collect();
        if !came.is_empty() {
            inner.with_state(|state| state.came(&came));
        }
        let left: BTreeSet<Served> = lacking.difference(&came).cloned().collect();
        if !left.is_subset(&sought) {
            wait = FIRST_WAIT;
            let first = Instant::now() + about(wait);
            due = if sought.is_empty() { first } else { due.min(first) };
        }
        sought = left;
        if sought.is_empty() {
            inner.discovery.news.notified().await;
            continue;
        }
        tokio::select! {
            () = inner.discovery.news.notified() => {}
            () = sleep_until(due) => {
                if let Err(error) = inner.discovery.refresh_now(&inner.api).await {
                    tracing::debug!(%error, "cannot ask whether the cluster serves by now what services lack");
                }
                wait = (wait * 2).min(LONGEST_WAIT);
                due = Instant::now() + about(wait);
            }
        }
    }
}

impl Engine {
    /// Takes note of what a service lacks after its objects were looked at; nothing ends the search for what it lacked before.
    pub(crate) fn note_lacking(&self, service: ServiceId, lacking: BTreeSet<Served>) {
        let inner = self.inner();
        let is_more = inner.with_state(|state| {
            let known = state.services.entry(service).or_default();
            let is_more = !lacking.is_subset(&known.lacking);
            known.lacking = lacking;
            is_more
        });
        if is_more {
            inner.discovery.news.notify_one();
        }
    }
}

impl State {
    /// What any service lacks.
    fn lacking(&self) -> BTreeSet<Served> {
        self.services.values().flat_map(|known| &known.lacking).cloned().collect()
    }

    /// These are served by now: who lacked one is to be synced.
    fn came(&mut self, came: &BTreeSet<Served>) {
        for (id, known) in &mut self.services {
            let before = known.lacking.len();
            known.lacking.retain(|one| !came.contains(one));
            if known.lacking.len() < before {
                self.changes.entry(*id).or_default().resync = true;
            }
        }
    }
}
