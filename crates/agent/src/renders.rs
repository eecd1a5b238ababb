//! Renders side by side: what they may use together, which of them need room of their own, and which ended an agent before.

use std::{collections::HashSet, rc::Rc, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use plural_core::ids::ServiceId;
use plural_kit::{Hold, LaneLimits, Lanes, Metered, Overrun};
use plural_render::{Governor, governed};
use plural_tunnel::v1;

use crate::{
    journal::{Journal, Note, Suspicion},
    render::Obstacle,
};

/// Part of the memory limit that renders may use together, in percent. The rest is for what the agent knows of the cluster,
/// for requests, and for what a render takes between two looks at its size.
const MEMORY_PERCENT: u64 = 50;
/// Wall time of one render.
pub(crate) const TIME: Duration = Duration::from_mins(1);

/// What all renders of this process may use, unless somebody sets it.
pub fn usual_render_limits() -> LaneLimits {
    LaneLimits::of_memory(MEMORY_PERCENT, TIME)
}

/// The renders of one agent.
#[derive(Debug)]
pub(crate) struct Renders {
    lanes: Arc<Lanes>,
    journal: Journal,
    /// Services that needed room of their own when they were rendered last.
    large: Mutex<HashSet<ServiceId>>,
}

impl Renders {
    pub(crate) fn new(lanes: Arc<Lanes>, journal: Journal) -> Self {
        Self { lanes, journal, large: Mutex::default() }
    }

    pub(crate) fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    /// Does what renders a service: once among others and, where that does not do, once more with room of its own.
    ///
    /// # Errors
    /// What `attempt` says; that it needs more than any render may have; that it ended the agent before.
    pub(crate) async fn run<T, F>(
        &self,
        id: ServiceId,
        service: &v1::Service,
        mut attempt: impl FnMut(Arc<Hold>) -> F,
    ) -> Result<(T, Arc<Hold>), Obstacle>
    where
        F: Future<Output = Result<T, Obstacle>>,
    {
        let is_suspect = match self.journal.suspicion(id, service) {
            Suspicion::None => false,
            Suspicion::Suspect => true,
            Suspicion::Quarantined { crashes } => return Err(Obstacle::lasting(quarantined(crashes))),
        };
        let large = is_suspect || self.large().contains(&id);
        // Services of a namespace are usually somebody's: they share a turn.
        let outcome = self.lanes.run(&service.namespace, large, &mut attempt).await;
        match outcome {
            Ok((done, hold)) => {
                if hold.is_alone() && !is_suspect {
                    self.large().insert(id);
                } else {
                    self.large().remove(&id);
                }
                Ok((done?, hold))
            }
            Err(overrun) => {
                self.large().insert(id);
                Err(Obstacle::lasting(self.explain(overrun)))
            }
        }
    }

    /// Remembers on disk that a service is being rendered, for as long as the answer lives.
    pub(crate) fn note(&self, id: ServiceId, service: &Arc<v1::Service>, is_alone: bool) -> Note {
        // What needs room of its own, or is suspected, is noted from its first moment.
        if is_alone { self.journal.note(id, service) } else { self.journal.note_soon(id, service) }
    }

    /// The agent stops because somebody wants it to: what is being rendered did not end it.
    pub(crate) fn leave(&self) {
        self.journal.leave();
    }

    /// The service was rendered, or not, and the agent lives.
    pub(crate) fn survived(&self, id: ServiceId) {
        self.journal.survived(id);
    }

    /// The service is not ours any more.
    pub(crate) fn forget(&self, id: ServiceId) {
        self.large().remove(&id);
        self.journal.survived(id);
    }

    fn explain(&self, overrun: Overrun) -> String {
        match overrun {
            Overrun::Bytes(_) => format!(
                "the service cannot be rendered: {overrun} (limit of one render on this agent, half of \
                 --render-memory-mib {}). Render less, split the service, or give the agent more memory",
                self.lanes.limits().bytes >> 20
            ),
            Overrun::Time(_) => format!(
                "the service cannot be rendered: {overrun} (limit of one render on this agent, --render-seconds): \
                 render less or split the service"
            ),
        }
    }

    fn large(&self) -> MutexGuard<'_, HashSet<ServiceId>> {
        self.large.lock()
    }
}

fn quarantined(crashes: u32) -> String {
    format!(
        "quarantined: the agent was killed {crashes} times while rendering this revision. Reduce its size, \
         then change it or run `plural cd services sync`"
    )
}

/// Renders under the limits of `hold`, on this thread. Answers too how many bytes hold what was made.
pub(crate) fn within<T>(hold: Arc<Hold>, artifact: u64, work: impl FnOnce() -> T) -> (T, u64) {
    let meter = Rc::new(Meter(Metered::new(hold, artifact)));
    let done = governed(Rc::clone(&meter) as Rc<dyn Governor>, work);
    let held = meter.0.held();
    (done, held)
}

struct Meter(Metered);

impl Governor for Meter {
    fn may_go_on(&self, bytes: u64) -> bool {
        self.0.may_go_on(bytes)
    }

    fn grant(&self, wanted: u64) -> u64 {
        self.0.grant(wanted)
    }

    fn wants_more(&self) {
        self.0.wants_more();
    }
}
