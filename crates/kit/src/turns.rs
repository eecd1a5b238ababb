//! Turns at what takes long: so many for one at a time, and so many that wait for theirs.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{Permit, Permits};

/// Turns of many, each with a queue of its own.
#[derive(Debug)]
pub struct Turns<K> {
    each: usize,
    places: Arc<Permits<K>>,
    queues: Mutex<HashMap<K, Arc<Semaphore>>>,
}

/// One turn. Dropping it lets the next one in.
#[derive(Debug)]
pub struct Turn<K: Eq + Hash + Clone> {
    _permit: OwnedSemaphorePermit,
    _place: Permit<K>,
}

impl<K: Eq + Hash + Clone> Turns<K> {
    /// For each so many turns at a time, and so many that wait.
    pub fn new(each: usize, waiting: usize) -> Self {
        let places = Permits::new(usize::MAX, each.saturating_add(waiting));
        Self { each, places, queues: Mutex::default() }
    }

    /// Waits for a turn; `None` when too many of the same wait already.
    pub async fn take(&self, by: K) -> Option<Turn<K>> {
        let place = self.places.take(by.clone())?;
        let queue = self.queue(by);
        // Nobody closes it.
        let permit = queue.acquire_owned().await.ok()?;
        Some(Turn { _permit: permit, _place: place })
    }

    fn queue(&self, by: K) -> Arc<Semaphore> {
        let mut queues = self.queues.lock();
        // Who has no turn and waits for none is forgotten.
        queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        Arc::clone(queues.entry(by).or_insert_with(|| Arc::new(Semaphore::new(self.each))))
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, time::Duration};

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn one_waits_for_its_own_turns_only() {
        let turns = Turns::new(2, 1);
        let first = turns.take(1).await.unwrap();
        let _second = turns.take(1).await.unwrap();
        let mut third = pin!(turns.take(1));
        assert!(timeout(Duration::ZERO, third.as_mut()).await.is_err());
        assert!(turns.take(1).await.is_none(), "one waits already");
        drop(turns.take(2).await.unwrap());
        drop(first);
        assert!(third.await.is_some());
        assert!(turns.take(3).await.is_some());
        let known = turns.queues.lock().len();
        assert!(known <= 2, "what nobody uses is forgotten: {known}");
    }
}
