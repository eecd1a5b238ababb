//! How fast passwords may be guessed.
//!
//! Three counts, each with a growing wait behind it: of an account from one address, of one address over all
//! accounts, and of one account over all addresses. Whoever guesses slows down itself; the owner goes on from
//! elsewhere, and an address from which the owner signed in before is outside the last two counts, so that not
//! even guesses from everywhere keep the owner out.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};
use plural_core::{Email, Error, Result};

/// Wrong passwords for one account from one address before it has to wait.
const PAIR_TRIES: u32 = 5;
/// Wrong passwords from one address, whatever the account: an office may share one.
const ADDRESS_TRIES: u32 = 50;
/// Wrong passwords for one account from addresses from which its owner never signed in.
const ACCOUNT_TRIES: u32 = 100;
/// The first wait; each further wrong password doubles it.
const FIRST_WAIT: TimeDelta = TimeDelta::seconds(5);
/// The longest wait.
const LONGEST_WAIT: TimeDelta = TimeDelta::minutes(15);
/// After so long without a try nothing is remembered of it.
const FORGET: TimeDelta = TimeDelta::hours(1);
/// Entries that each book remembers at most.
const REMEMBERED: usize = 10_000;

/// Where a caller is, as far as guessing goes: an IPv6 network counts as one, since its owner has all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place(Option<IpAddr>);

impl Place {
    fn of(address: Option<IpAddr>) -> Self {
        Self(address.map(|address| match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            v4 @ IpAddr::V4(_) => v4,
        }))
    }
}

/// Tries to sign in, as far as they matter for the next one.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    pairs: Book<(Place, Email)>,
    places: Book<Place>,
    accounts: Book<Email>,
    /// From where an account's owner signed in; nothing is counted here.
    known: Book<(Place, Email)>,
}

impl Throttle {
    /// Lets somebody try a password, and counts the try as a wrong one until [`Self::signed_in`]: tries at the same
    /// time are counted like tries one after the other. Whether the account exists makes no difference.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it has to wait first.
    pub(crate) fn admit(&self, email: &Email, address: Option<IpAddr>, now: DateTime<Utc>) -> Result<()> {
        let place = Place::of(address);
        let pair = (place, email.clone());
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = books.known.entries.contains_key(&pair);
        let mut wait = books.pairs.wait(&pair, now);
        if !is_known {
            wait = wait.max(books.places.wait(&place, now)).max(books.accounts.wait(email, now));
        }
        if wait > TimeDelta::zero() {
            metrics::counter!("plural_logins_refused_total").increment(1);
            let seconds = (wait.num_milliseconds() + 999) / 1000;
            return Err(Error::unavailable(format!(
                "too many wrong passwords: wait {seconds} s, then try again"
            )));
        }
        books.pairs.count(pair, PAIR_TRIES, now);
        if !is_known {
            books.places.count(place, ADDRESS_TRIES, now);
            books.accounts.count(email.clone(), ACCOUNT_TRIES, now);
        }
        Ok(())
    }

    /// The password was right.
    pub(crate) fn signed_in(&self, email: &Email, address: Option<IpAddr>, now: DateTime<Utc>) {
        let place = Place::of(address);
        let pair = (place, email.clone());
        let mut books = self.books.lock().unwrap_or_else(PoisonError::into_inner);
        books.pairs.entries.remove(&pair);
        if !books.known.entries.contains_key(&pair) {
            // Others' wrong passwords stay counted; this one was none.
            books.places.take_back(&place, ADDRESS_TRIES);
            books.accounts.take_back(email, ACCOUNT_TRIES);
        }
        books.known.entry(pair, now).last = now;
    }
}

/// Wrong passwords by something.
#[derive(Debug)]
struct Book<K> {
    entries: HashMap<K, Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    tries: u32,
    last: DateTime<Utc>,
    until: DateTime<Utc>,
}

impl<K> Default for Book<K> {
    fn default() -> Self {
        Self { entries: HashMap::new() }
    }
}

impl<K: Eq + Hash> Book<K> {
    fn wait(&self, key: &K, now: DateTime<Utc>) -> TimeDelta {
        self.entries.get(key).map_or(TimeDelta::zero(), |entry| entry.until - now)
    }

    fn count(&mut self, key: K, free: u32, now: DateTime<Utc>) {
        let entry = self.entry(key, now);
        if now - entry.last >= FORGET {
            entry.tries = 0;
        }
        entry.tries = entry.tries.saturating_add(1);
        entry.last = now;
        if let Some(late) = entry.tries.checked_sub(free) {
            // 5 s, 10 s, 20 s, …
            entry.until = now + (FIRST_WAIT * (1 << late.min(16))).min(LONGEST_WAIT);
        }
    }

    fn take_back(&mut self, key: &K, free: u32) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.tries = entry.tries.saturating_sub(1);
            if entry.tries < free {
                entry.until = entry.last;
            }
        }
    }

    /// The entry of a key; a new one may cost the older half of a full book.
    fn entry(&mut self, key: K, now: DateTime<Utc>) -> &mut Entry {
        if self.entries.len() >= REMEMBERED && !self.entries.contains_key(&key) {
            let mut times: Vec<_> = self.entries.values().map(|entry| entry.last).collect();
            let (_, middle, _) = times.select_nth_unstable(REMEMBERED / 2);
            let middle = *middle;
            self.entries.retain(|_, entry| entry.last > middle);
        }
        self.entries.entry(key).or_insert(Entry { tries: 0, last: now, until: now })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::unnecessary_wraps, reason = "as the throttle takes it")]
    fn at(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    fn email(name: &str) -> Email {
        format!("{name}@example.com").parse().unwrap()
    }

    /// Tries wrong passwords for a time, as soon as each is let in; how many were.
    fn guess(
        throttle: &Throttle,
        email: &Email,
        from: Option<IpAddr>,
        start: DateTime<Utc>,
        time: TimeDelta,
    ) -> u32 {
        let mut tried = 0;
        let mut now = start;
        while now < start + time {
            if throttle.admit(email, from, now).is_ok() {
                tried += 1;
            } else {
                now += TimeDelta::seconds(1);
            }
        }
        tried
    }

    #[test]
    fn who_guesses_waits_longer_and_longer_and_the_owner_elsewhere_does_not() {
        let (throttle, ada, now) = (Throttle::default(), email("ada"), Utc::now());
        for _ in 0..PAIR_TRIES {
            assert!(throttle.admit(&ada, at("192.0.2.1"), now).is_ok());
        }
        assert!(throttle.admit(&ada, at("192.0.2.1"), now).is_err());
        assert!(throttle.admit(&ada, at("::ffff:192.0.2.1"), now).is_err(), "the same address");
        assert!(throttle.admit(&ada, at("192.0.2.2"), now).is_ok());
        assert!(throttle.admit(&email("bob"), at("192.0.2.1"), now).is_ok());
        assert!(throttle.admit(&ada, at("192.0.2.1"), now + FIRST_WAIT).is_ok());
        assert!(throttle.admit(&ada, at("192.0.2.1"), now + FIRST_WAIT * 2).is_err(), "twice as long");
        assert!(throttle.admit(&ada, at("192.0.2.1"), now + FIRST_WAIT * 3).is_ok());
    }

    #[test]
    fn a_right_password_starts_anew() {
        let (throttle, ada, now) = (Throttle::default(), email("ada"), Utc::now());
        for _ in 0..100 {
            assert!(throttle.admit(&ada, at("192.0.2.1"), now).is_ok());
            throttle.signed_in(&ada, at("192.0.2.1"), now);
        }
    }

    #[test]
    fn a_day_of_guessing_is_few_tries() {
        let (throttle, ada, now) = (Throttle::default(), email("ada"), Utc::now());
        let tried = guess(&throttle, &ada, at("192.0.2.1"), now, TimeDelta::days(1));
        assert!(tried < 120, "{tried}");
        // Over all accounts.
        let (throttle, mut tried) = (Throttle::default(), 0);
        for i in 0..1000 {
            tried += u32::from(throttle.admit(&email(&format!("u{i}")), at("192.0.2.1"), now).is_ok());
        }
        assert_eq!(tried, ADDRESS_TRIES);
        // One IPv6 network is one guesser.
        let (throttle, mut tried) = (Throttle::default(), 0);
        for i in 0..1000 {
            tried += u32::from(throttle.admit(&ada, at(&format!("2001:db8::{i:x}")), now).is_ok());
        }
        assert_eq!(tried, PAIR_TRIES);
    }

    #[test]
    fn guesses_from_everywhere_are_bounded_and_keep_the_owner_at_home_in() {
        let (throttle, ada, now) = (Throttle::default(), email("ada"), Utc::now());
        assert!(throttle.admit(&ada, at("198.51.100.7"), now).is_ok());
        throttle.signed_in(&ada, at("198.51.100.7"), now);
        let mut tried = 0;
        for i in 0..20_000_u32 {
            let from = at(&Ipv6Addr::from_bits(u128::from(i) << 64).to_string());
            tried += u32::from(throttle.admit(&ada, from, now).is_ok());
        }
        assert_eq!(tried, ACCOUNT_TRIES);
        assert!(throttle.admit(&ada, at("198.51.100.7"), now).is_ok());
    }

    #[test]
    fn memory_is_bounded() {
        let (throttle, now) = (Throttle::default(), Utc::now());
        for i in 0..3 * REMEMBERED as u32 {
            let from = at(&Ipv6Addr::from_bits(u128::from(i) << 64).to_string());
            let now = now + TimeDelta::milliseconds(i64::from(i));
            let _ = throttle.admit(&email(&format!("u{i}")), from, now);
            if i % 2 == 0 {
                throttle.signed_in(&email(&format!("u{i}")), from, now);
            }
        }
        let books = throttle.books.lock().unwrap();
        assert!(books.pairs.entries.len() <= REMEMBERED);
        assert!(books.places.entries.len() <= REMEMBERED);
        assert!(books.accounts.entries.len() <= REMEMBERED);
        assert!(books.known.entries.len() <= REMEMBERED);
    }
}
