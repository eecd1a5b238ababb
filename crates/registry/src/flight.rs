//! Many ask, one goes: [`Flights`].

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Instant,
};

use parking_lot::Mutex;

use crate::error::{Error, Result};

type Slot = tokio::sync::Mutex<Option<(Instant, Error)>>;

/// Lets one caller at a time do the work of a key. The others wait and then find its result in a cache, or share its
/// failure instead of failing one after the other.
#[derive(Default)]
pub(crate) struct Flights {
    slots: Mutex<HashMap<String, Weak<Slot>>>,
}

impl Flights {
    /// Runs `work`, which first looks whether another caller left the result.
    pub(crate) async fn run<T>(&self, key: &str, work: impl Future<Output = Result<T>>) -> Result<T> {
        let asked = Instant::now();
        let slot = self.slot(key);
        let mut failed = slot.lock().await;
        if let Some((at, error)) = &*failed
            && *at >= asked
        {
            return Err(error.clone());
        }
        let done = work.await;
        *failed = done.as_ref().err().map(|error| (Instant::now(), error.clone()));
        done
    }

    fn slot(&self, key: &str) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(key).and_then(Weak::upgrade) {
            return slot;
        }
        slots.retain(|_, slot| slot.strong_count() > 0);
        let slot = Arc::new(Slot::default());
        slots.insert(key.to_owned(), Arc::downgrade(&slot));
        slot
    }
}
