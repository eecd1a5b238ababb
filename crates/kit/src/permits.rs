//! Permits that are shared fairly: so many in all, so many of them for one.

use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

/// The address, or the /64 network of an IPv6 address: its owner has all of it.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// What one network has to give to those in it: a /24 of IPv4, a /48 of IPv6, as providers hand them out.
pub fn wide_network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 80 << 80)),
        IpAddr::V4(address) => IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() >> 8 << 8)),
    }
}

/// A number of places, of which nobody takes more than a share.
#[derive(Debug)]
pub struct Permits<K> {
    all: usize,
    share: Share,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    all: usize,
    by: HashMap<K, usize>,
}

/// How many places one may have.
#[derive(Debug, Clone, Copy)]
enum Share {
    Fixed(usize),
    /// No more than are left for others: one alone takes half, and `n` take `1 / (n + 1)` each.
    /// Shared buffers of switches are divided in this way (Choudhury and Hahne, "Dynamic queue length thresholds for
    /// shared-memory packet switches", 1998).
    AsIsLeft,
}

/// One place, or so many as were taken together. Dropping it frees them.
#[derive(Debug)]
pub struct Permit<K: Eq + Hash + Clone> {
    of: Arc<Permits<K>>,
    by: K,
    count: usize,
}

impl<K: Eq + Hash + Clone> Permits<K> {
    /// `all` places, `each` of them for one at most.
    pub fn new(all: usize, each: usize) -> Arc<Self> {
        Self::shared(all, Share::Fixed(each))
    }

    /// `all` places, of which one may have as many as it leaves to others: however many there are, a newcomer finds some.
    pub fn leaving_room(all: usize) -> Arc<Self> {
        Self::shared(all, Share::AsIsLeft)
    }

    fn shared(all: usize, share: Share) -> Arc<Self> {
        Arc::new(Self { all, share, taken: Mutex::new(Taken { all: 0, by: HashMap::new() }) })
    }

    /// A place; `None` when `by` has its share, or all are taken.
    pub fn take(self: &Arc<Self>, by: K) -> Option<Permit<K>> {
        self.take_many(by, 1)
    }

    /// `count` places at once, such as bytes; `None` when there are not so many for `by`.
    pub fn take_many(self: &Arc<Self>, by: K, count: usize) -> Option<Permit<K>> {
        let mut taken = self.taken();
        let own = taken.by.get(&by).copied().unwrap_or_default();
        let (all, own) = (taken.all.saturating_add(count), own.saturating_add(count));
        let left = self.all.checked_sub(all)?;
        let most = match self.share {
            Share::Fixed(each) => each,
            Share::AsIsLeft => left,
        };
        if own > most {
            return None;
        }
        taken.all = all;
        taken.by.insert(by.clone(), own);
        drop(taken);
        Some(Permit { of: Arc::clone(self), by, count })
    }

    fn taken(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock()
    }
}

impl<K: Eq + Hash + Clone> Drop for Permit<K> {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        taken.all = taken.all.saturating_sub(self.count);
        if let Some(own) = taken.by.get_mut(&self.by) {
            *own = own.saturating_sub(self.count);
            if *own == 0 {
                taken.by.remove(&self.by);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_all_places() {
        let places = Permits::new(32, 4);
        let take = |sender: &str| places.take(network_of(sender.parse().unwrap()));
        let mut held: Vec<_> = (0..4).map(|_| take("192.0.2.1").unwrap()).collect();
        assert!(take("192.0.2.1").is_none() && take("::ffff:192.0.2.1").is_none());
        // All of an IPv6 network are one.
        held.extend((0..4).map(|last| take(&format!("2001:db8::{last}")).unwrap()));
        assert!(take("2001:db8::ffff").is_none());
        for sender in 2.. {
            match take(&format!("192.0.2.{sender}")) {
                Some(place) => held.push(place),
                None => break,
            }
        }
        assert_eq!(held.len(), 32);
        drop(held);
        assert!(take("192.0.2.1").is_some());
        assert!(places.taken().by.is_empty(), "what is free is forgotten");
    }

    #[test]
    fn who_takes_leaves_as_much_to_others() {
        let places = Permits::leaving_room(1_000);
        let mut held = Vec::new();
        for by in 0..9 {
            while let Some(place) = places.take(by) {
                held.push(place);
            }
            let own = held.iter().filter(|place| place.by == by).count();
            let left = 1_000 - held.len();
            assert!(own <= left && own + 1 >= left, "{by}: {own} {left}");
        }
        // Halves of halves.
        assert_eq!(held.iter().filter(|place| place.by == 0).count(), 500);
        drop(held);
        assert!(places.take_many(1, 500).is_some());
        assert!(places.take_many(1, 501).is_none());
        assert!(places.take_many(1, usize::MAX).is_none());
    }

    #[test]
    fn many_places_are_taken_together_or_not_at_all() {
        let places = Permits::new(100, 40);
        let first = places.take_many(1, 30).unwrap();
        assert!(places.take_many(1, 11).is_none());
        let rest = places.take_many(1, 10).unwrap();
        assert!(places.take(1).is_none());
        let others = (places.take_many(2, 40).unwrap(), places.take_many(3, 20).unwrap());
        assert!(places.take(4).is_none(), "all are taken");
        drop((first, others));
        let taken = places.taken();
        assert_eq!((taken.all, taken.by.get(&1).copied()), (10, Some(10)));
        drop(taken);
        drop(rest);
        assert!(places.taken().by.is_empty());
    }
}
