//! What asks for a service to be looked at: many askers, one reader, one entry per service.

use std::collections::{HashMap, hash_map::Entry};

use parking_lot::Mutex;
use plural_core::ids::ServiceId;
use tokio::{sync::Notify, time::Instant};

/// What a service is looked at for; the later ones take in the earlier ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Why {
    /// Somebody wants to know what a sync would do, and may be nobody who could have one: nothing is written for it.
    Plan,
    /// Something happened in the cluster, or it is time.
    #[default]
    Again,
    /// What is wanted may be new: earlier failures count no more.
    News,
}

/// When and why a service is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wake {
    /// When the console hinted at the change that caused this.
    pub(crate) hinted: Option<Instant>,
    /// When it was learnt of.
    pub(crate) learnt: Option<Instant>,
    /// For what.
    pub(crate) why: Why,
}

impl Wake {
    /// Both reasons as one: the earliest times count.
    pub(crate) fn and(self, other: Self) -> Self {
        let earliest = |a: Option<Instant>, b: Option<Instant>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Self {
            hinted: earliest(self.hinted, other.hinted),
            learnt: earliest(self.learnt, other.learnt),
            why: self.why.max(other.why),
        }
    }
}

/// Services to look at.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    wakes: Mutex<HashMap<ServiceId, Wake>>,
    told: Notify,
}

impl Inbox {
    pub(crate) fn wake(&self, services: impl IntoIterator<Item = ServiceId>, wake: Wake) {
        {
            let mut wakes = self.wakes.lock();
            for service in services {
                match wakes.entry(service) {
                    Entry::Occupied(mut entry) => *entry.get_mut() = entry.get().and(wake),
                    Entry::Vacant(entry) => drop(entry.insert(wake)),
                }
            }
        }
        self.told.notify_one();
    }

    /// Waits for wakes and takes all of them. May be dropped at any time without losing any.
    pub(crate) async fn take(&self) -> HashMap<ServiceId, Wake> {
        loop {
            let told = self.told.notified();
            let wakes = std::mem::take(&mut *self.wakes.lock());
            if !wakes.is_empty() {
                return wakes;
            }
            told.await;
        }
    }
}
