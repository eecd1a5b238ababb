//! Places for webhooks whose bodies are read: whoever sends one is known only when all of it is there.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, PoisonError},
};

/// Bodies that are read at once.
const ALL: usize = 32;
/// Those of one sender, so that nobody takes all places.
const OF_ONE: usize = 4;

/// Who has how many places.
#[derive(Debug, Default)]
pub(crate) struct WebhookPlaces(Mutex<HashMap<Option<IpAddr>, usize>>);

/// One place. Dropping it frees it.
#[derive(Debug)]
pub(crate) struct WebhookPlace {
    of: Arc<WebhookPlaces>,
    sender: Option<IpAddr>,
}

impl WebhookPlaces {
    /// A place for this sender; `None` when it has its share, or all are taken.
    pub(crate) fn take(self: &Arc<Self>, sender: Option<IpAddr>) -> Option<WebhookPlace> {
        // An IPv6 network counts as one, since its owner has all of it.
        let sender = sender.map(|address| match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            v4 @ IpAddr::V4(_) => v4,
        });
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.values().sum::<usize>() >= ALL || taken.get(&sender).is_some_and(|own| *own >= OF_ONE) {
            return None;
        }
        *taken.entry(sender).or_default() += 1;
        Some(WebhookPlace { of: Arc::clone(self), sender })
    }
}

impl Drop for WebhookPlace {
    fn drop(&mut self) {
        let mut taken = self.of.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = taken.get_mut(&self.sender) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.sender);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_all_places() {
        let places = Arc::new(WebhookPlaces::default());
        let take = |sender: &str| places.take(Some(sender.parse().unwrap()));
        let mut held: Vec<_> = (0..OF_ONE).map(|_| take("192.0.2.1").unwrap()).collect();
        assert!(take("192.0.2.1").is_none() && take("::ffff:192.0.2.1").is_none());
        // All of a network are one.
        held.extend((0..OF_ONE).map(|last| take(&format!("2001:db8::{last}")).unwrap()));
        assert!(take("2001:db8::ffff").is_none());
        for sender in 2.. {
            match take(&format!("192.0.2.{sender}")) {
                Some(place) => held.push(place),
                None => break,
            }
        }
        assert_eq!(held.len(), ALL);
        drop(held);
        assert!(take("192.0.2.1").is_some());
        assert!(places.0.lock().unwrap().is_empty(), "what is free is forgotten");
    }
}
