//! A map that forgets what was used longest ago when it holds too much.

use std::{collections::HashMap, hash::Hash};

use parking_lot::{Mutex, MutexGuard};

/// Bounded by the sum of its values' weights. Values are cheap to clone (`Arc`).
#[derive(Debug)]
pub struct Bounded<K, V> {
    state: Mutex<State<K, V>>,
    limit: usize,
}

#[derive(Debug)]
struct State<K, V> {
    slots: HashMap<K, Slot<V>>,
    weight: usize,
    clock: u64,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    weight: usize,
    used: u64,
}

impl<K: Hash + Eq + Clone, V: Clone> Bounded<K, V> {
    /// An empty cache that holds values of `limit` weight together.
    pub fn new(limit: usize) -> Self {
        Self { state: Mutex::new(State { slots: HashMap::new(), weight: 0, clock: 0 }), limit }
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        // A panic elsewhere leaves at worst a forgotten slot.
        self.state.lock()
    }

    /// The value, which counts as used now.
    pub fn get(&self, key: &K) -> Option<V> {
        let mut state = self.lock();
        state.clock += 1;
        let now = state.clock;
        let slot = state.slots.get_mut(key)?;
        slot.used = now;
        Some(slot.value.clone())
    }

    /// Keeps a value, unless it is so heavy that it would push out a quarter of everything else.
    pub fn put(&self, key: K, value: V, weight: usize) {
        let weight = weight.max(1);
        if weight > self.limit / 4 {
            return;
        }
        let mut state = self.lock();
        state.clock += 1;
        let used = state.clock;
        if let Some(old) = state.slots.insert(key, Slot { value, weight, used }) {
            state.weight -= old.weight;
        }
        state.weight += weight;
        if state.weight > self.limit {
            state.shrink(self.limit / 8 * 7);
        }
    }

    /// Forgets a value.
    pub fn remove(&self, key: &K) {
        let mut state = self.lock();
        if let Some(old) = state.slots.remove(key) {
            state.weight -= old.weight;
        }
    }

    #[cfg(test)]
    fn weight(&self) -> usize {
        self.lock().weight
    }
}

impl<K: Hash + Eq + Clone, V> State<K, V> {
    /// Forgets the longest unused until the weight is at most `goal`. An eighth goes at once, so the sort is rare.
    fn shrink(&mut self, goal: usize) {
        let mut by_age: Vec<(u64, K)> = self.slots.iter().map(|(k, s)| (s.used, k.clone())).collect();
        by_age.sort_unstable_by_key(|(used, _)| *used);
        for (_, key) in by_age {
            if self.weight <= goal {
                break;
            }
            if let Some(slot) = self.slots.remove(&key) {
                self.weight -= slot.weight;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_within_its_limit_and_keeps_what_is_used() {
        let cache = Bounded::new(80);
        for n in 0..1000_u32 {
            cache.put(n, n, 2);
            assert_eq!(cache.get(&0), Some(0), "used every round, so never forgotten");
            assert!(cache.weight() <= 80);
        }
        assert_eq!(cache.get(&1), None);
        assert_eq!(cache.get(&999), Some(999));
        cache.put(5000, 1, 21);
        assert_eq!(cache.get(&5000), None, "too heavy to keep");
        cache.remove(&0);
        assert_eq!(cache.get(&0), None);
    }
}
