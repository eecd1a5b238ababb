//! Passwords cost memory and time on purpose: so many are hashed at once, and so many wait.

use std::net::IpAddr;
use std::sync::Arc;

use plural_core::{Error, Result};
use plural_kit::{Permit, Permits, network_of};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Hashed at once.
const AT_ONCE: usize = 2;
/// Sign-ins that wait or are hashed. Each takes a tenth of a second or so.
const SIGN_INS: usize = 48;
/// Of these, those of one address.
const OF_ADDRESS: usize = 8;
/// The same for people who signed in from where they are before: whoever signs in from everywhere keeps none of them out.
const AT_HOME: usize = 32;
const AT_HOME_OF_ADDRESS: usize = 8;
/// New passwords of people who are signed in.
const CHANGES: usize = 16;

/// The queue in front of argon2.
#[derive(Debug)]
pub(crate) struct Hashing {
    at_once: Semaphore,
    strangers: Arc<Permits<Option<IpAddr>>>,
    at_home: Arc<Permits<Option<IpAddr>>>,
    changes: Arc<Permits<()>>,
}

/// Who waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HashFor {
    /// Somebody at an address.
    SignIn { address: Option<IpAddr>, at_home: bool },
    /// Somebody who is signed in.
    Change,
}

/// A place in the queue.
#[derive(Debug)]
#[expect(dead_code, reason = "held, never read")]
pub(crate) enum HashPermit {
    Address(Permit<Option<IpAddr>>),
    Change(Permit<()>),
}

impl Default for Hashing {
    fn default() -> Self {
        Self {
            at_once: Semaphore::new(AT_ONCE),
            strangers: Permits::new(SIGN_INS, OF_ADDRESS),
            at_home: Permits::new(AT_HOME, AT_HOME_OF_ADDRESS),
            changes: Permits::new(CHANGES, CHANGES),
        }
    }
}

impl Hashing {
    /// A place in the queue, to be held until the password is hashed.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when there are too many.
    pub(crate) fn place(&self, who: HashFor) -> Result<HashPermit> {
        let place = match who {
            HashFor::SignIn { address, at_home } => {
                let places = if at_home { &self.at_home } else { &self.strangers };
                places.take(address.map(network_of)).map(HashPermit::Address)
            }
            HashFor::Change => self.changes.take(()).map(HashPermit::Change),
        };
        place.ok_or_else(|| {
            metrics::counter!("plural_logins_refused_total").increment(1);
            Error::unavailable("too many passwords are being checked; retry in a few seconds")
        })
    }

    /// Waits for a turn. Who waits has a place.
    pub(crate) async fn turn(&self) -> Result<SemaphorePermit<'_>> {
        self.at_once.acquire().await.map_err(|error| Error::internal("hashing a password", error))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    fn sign_in(address: u128, at_home: bool) -> HashFor {
        HashFor::SignIn { address: Some(Ipv6Addr::from_bits(address).into()), at_home }
    }

    #[test]
    fn who_signs_in_from_everywhere_keeps_nobody_out_who_is_at_home() {
        let hashing = Hashing::default();
        // From all addresses of one network, then from as many networks as there are.
        let mut held: Vec<_> = (0..100).filter_map(|n| hashing.place(sign_in(n, false)).ok()).collect();
        assert_eq!(held.len(), OF_ADDRESS);
        held.extend((1..1000).filter_map(|n| hashing.place(sign_in(n << 64, false)).ok()));
        assert_eq!(held.len(), SIGN_INS);
        let refused = hashing.place(sign_in(5000 << 64, false)).unwrap_err();
        assert!(
            matches!(&refused, Error::Unavailable { reason, .. } if reason.contains("retry in")),
            "{refused}"
        );
        assert!(hashing.place(sign_in(5000 << 64, true)).is_ok());
        assert!(hashing.place(HashFor::Change).is_ok());
        drop(held);
        assert!(hashing.place(sign_in(0, false)).is_ok());
    }
}
