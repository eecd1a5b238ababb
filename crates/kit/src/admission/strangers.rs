//! Connections without a credential, by address: who is served, who waits, and who has to go when all places are taken.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

/// Every question is answered in a time that hardly grows with the number of connections: whoever opens them by the
/// thousand holds up nobody else's.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    addresses: HashMap<IpAddr, Address>,
    /// Each address, by how many connections it has.
    by_size: BTreeSet<(usize, IpAddr)>,
    all: usize,
}

/// The connections of one address. Ids grow with time.
#[derive(Debug, Default)]
struct Address {
    served: BTreeSet<u64>,
    waiting: BTreeSet<u64>,
}

impl Address {
    fn len(&self) -> usize {
        self.served.len() + self.waiting.len()
    }
}

impl Strangers {
    pub(super) fn len(&self) -> usize {
        self.all
    }

    /// Connections of an address.
    pub(super) fn of(&self, address: IpAddr) -> usize {
        self.addresses.get(&address).map_or(0, Address::len)
    }

    /// Whether some of an address wait.
    pub(super) fn is_pressed(&self, address: IpAddr) -> bool {
        self.addresses.get(&address).is_some_and(|own| !own.waiting.is_empty())
    }

    /// Adds one. Whether it is served at once, as so many of an address are.
    pub(super) fn enter(&mut self, address: IpAddr, id: u64, served_at_once: usize) -> bool {
        let own = self.addresses.entry(address).or_default();
        self.by_size.remove(&(own.len(), address));
        let is_served = own.served.len() < served_at_once;
        if is_served {
            own.served.insert(id)
        } else {
            own.waiting.insert(id)
        };
        self.by_size.insert((own.len(), address));
        self.all += 1;
        is_served
    }

    /// Removes one. Answers who is served in its place.
    pub(super) fn leave(&mut self, address: IpAddr, id: u64) -> Option<u64> {
        let own = self.addresses.get_mut(&address)?;
        let before = own.len();
        let was_served = own.served.remove(&id);
        if !was_served && !own.waiting.remove(&id) {
            return None;
        }
        let next = if was_served { own.waiting.pop_first() } else { None };
        own.served.extend(next);
        let left = own.len();
        self.all -= 1;
        self.by_size.remove(&(before, address));
        if left == 0 {
            self.addresses.remove(&address);
        } else {
            self.by_size.insert((left, address));
        }
        next
    }

    /// Whom to end for a newcomer whose address has `own`: of the address that has most, if that is more, the newest that waits,
    /// else the oldest that is served.
    pub(super) fn to_displace(&self, own: usize) -> Option<u64> {
        let (most, address) = self.by_size.last()?;
        let largest = self.addresses.get(address).filter(|_| *most > own)?;
        largest.waiting.last().or_else(|| largest.served.first()).copied()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.by_size.is_empty() && self.all == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn the_largest_address_loses_one() {
        let mut strangers = Strangers::default();
        for id in 0..6 {
            assert_eq!(strangers.enter(address(1), id, 4), id < 4);
        }
        assert!(strangers.enter(address(2), 6, 4));
        assert_eq!((strangers.len(), strangers.of(address(1)), strangers.of(address(2))), (7, 6, 1));
        assert!(strangers.is_pressed(address(1)) && !strangers.is_pressed(address(2)));
        // The newest that waits, as long as one waits; nobody who has as many takes another's place.
        assert_eq!(strangers.to_displace(6), None);
        assert_eq!(strangers.to_displace(5), Some(5));
        assert_eq!(strangers.leave(address(1), 5), None);
        // Who waited is served in the place of who was.
        assert_eq!(strangers.leave(address(1), 2), Some(4));
        assert_eq!(strangers.to_displace(0), Some(0));
        assert_eq!(strangers.leave(address(1), 2), None, "it left before");
        for (of, id) in [(1, 0), (1, 1), (1, 3), (2, 6), (1, 4)] {
            assert_eq!(strangers.leave(address(of), id), None);
        }
        assert!(strangers.is_empty());
        assert_eq!(strangers.to_displace(0), None);
    }
}
