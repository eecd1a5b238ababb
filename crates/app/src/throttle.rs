//! How fast passwords may be guessed.
//!
//! Three counts, each with a growing wait behind it: of an account from one address, of one address over all
//! accounts, and of one account over all addresses. Whoever guesses slows down itself; the owner goes on from
//! elsewhere, and an address from which the owner signed in before is outside the last two counts, so that not
//! even guesses from everywhere keep the owner out.

use std::collections::HashMap;
use std::net::IpAddr;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_core::specs::Email;
use plural_core::{Error, Result};
use plural_kit::network_of;
use sha2::{Digest, Sha256};

use crate::app::App;

/// How often something was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginTries {
    /// Tries that count as wrong.
    pub tries: u32,
    /// When the last one was.
    pub last: DateTime<Utc>,
    /// Until when no other is let in.
    pub until: DateTime<Utc>,
}

/// Changes what is counted; called once.
pub type LoginDecision<'a> = &'a mut (dyn FnMut(&mut [Option<LoginTries>; 4]) + Send);

/// Wrong passwords, counted over all replicas.
#[async_trait]
pub trait LoginStore: Send + Sync + 'static {
    /// Reads what is counted of four subjects, lets `decide` change it, and stores that. Nobody else reads or changes any
    /// of it meanwhile.
    async fn login_tries(&self, subjects: &[[u8; 32]; 4], decide: LoginDecision<'_>) -> Result<()>;
}

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

/// Who tries to sign in, and from where, as what is counted is named.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject([[u8; 32]; 4]);

/// What is counted of a subject: wrong passwords of the account from the address, from the address, of the account; and,
/// without a count, that the account's owner signed in from the address.
type Counted = [Option<LoginTries>; 4];

impl Subject {
    pub(crate) fn of(email: &Email, address: Option<IpAddr>) -> Self {
        // An IPv6 network counts as one, since its owner has all of it.
        let place = address.map(|address| network_of(address).to_string()).unwrap_or_default();
        let (email, none) = (email.to_string(), String::new());
        let named = [
            ("pair", &place, &email),
            ("place", &place, &none),
            ("account", &none, &email),
            ("known", &place, &email),
        ];
        Self(named.map(|(what, place, email)| Sha256::digest(format!("{what}\n{place}\n{email}")).into()))
    }
}

/// Tries to sign in, as far as they matter for the next one.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    books: Mutex<[FailedLogins; 4]>,
}

impl Throttle {
    /// Lets somebody try a password, and counts the try as a wrong one until [`Self::signed_in`]: tries at the same
    /// time are counted like tries one after the other. Whether the account exists makes no difference.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it has to wait first.
    pub(crate) fn admit(&self, subject: &Subject, now: DateTime<Utc>) -> Result<()> {
        self.change(subject, |counted| admit(counted, now))
    }

    /// Whether the account's owner signed in from there before, as far as this replica knows.
    pub(crate) fn knows(&self, subject: &Subject) -> bool {
        self.change(subject, |[.., known]| known.is_some())
    }

    /// The password was right.
    pub(crate) fn signed_in(&self, subject: &Subject, now: DateTime<Utc>) {
        self.change(subject, |counted| signed_in(counted, now));
    }

    fn change<T>(&self, subject: &Subject, change: impl FnOnce(&mut Counted) -> T) -> T {
        let mut books = self.books.lock();
        let mut counted = Counted::default();
        for ((book, key), counted) in books.iter().zip(&subject.0).zip(&mut counted) {
            *counted = book.entries.get(key).copied();
        }
        let changed = change(&mut counted);
        for ((book, key), counted) in books.iter_mut().zip(subject.0).zip(counted) {
            book.put(key, counted);
        }
        changed
    }
}

impl App {
    /// [`Throttle::admit`], over all replicas: whoever guesses gains nothing by asking another one.
    pub(crate) async fn login_admit(&self, subject: &Subject, now: DateTime<Utc>) -> Result<()> {
        self.throttle.admit(subject, now)?;
        if !self.logins_are_shared() {
            return Ok(());
        }
        let mut verdict = Ok(());
        self.store.login_tries(&subject.0, &mut |counted| verdict = admit(counted, now)).await?;
        verdict
    }

    /// [`Throttle::signed_in`], over all replicas.
    pub(crate) async fn login_succeeded(&self, subject: &Subject, now: DateTime<Utc>) {
        self.throttle.signed_in(subject, now);
        if !self.logins_are_shared() {
            return;
        }
        if let Err(error) = self.store.login_tries(&subject.0, &mut |counted| signed_in(counted, now)).await {
            tracing::warn!(error = error.log_text(), "cannot record that somebody signed in");
        }
    }

    /// A single replica has everything in memory.
    fn logins_are_shared(&self) -> bool {
        self.replicas_alive().len() > 1
    }
}

fn admit(counted: &mut Counted, now: DateTime<Utc>) -> Result<()> {
    let [pair, place, account, known] = counted;
    let until = |entry: &Option<LoginTries>| entry.map_or(TimeDelta::zero(), |entry| entry.until - now);
    let mut wait = until(pair);
    if known.is_none() {
        wait = wait.max(until(place)).max(until(account));
    }
    if wait > TimeDelta::zero() {
        metrics::counter!("plural_logins_refused_total").increment(1);
        let seconds = (wait.num_milliseconds() + 999) / 1000;
        return Err(Error::unavailable(format!("too many wrong passwords; retry in {seconds} s")));
    }
    count(pair, PAIR_TRIES, now);
    if known.is_none() {
        count(place, ADDRESS_TRIES, now);
        count(account, ACCOUNT_TRIES, now);
    }
    Ok(())
}

fn signed_in(counted: &mut Counted, now: DateTime<Utc>) {
    let [pair, place, account, known] = counted;
    *pair = None;
    if known.is_none() {
        // Others' wrong passwords stay counted; this one was none.
        take_back(place, ADDRESS_TRIES);
        take_back(account, ACCOUNT_TRIES);
    }
    *known = Some(LoginTries { tries: 0, last: now, until: now });
}

fn count(entry: &mut Option<LoginTries>, free: u32, now: DateTime<Utc>) {
    let entry = entry.get_or_insert(LoginTries { tries: 0, last: now, until: now });
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

fn take_back(entry: &mut Option<LoginTries>, free: u32) {
    if let Some(entry) = entry {
        entry.tries = entry.tries.saturating_sub(1);
        if entry.tries < free {
            entry.until = entry.last;
        }
    }
}

/// Wrong passwords by something.
#[derive(Debug, Default)]
struct FailedLogins {
    entries: HashMap<[u8; 32], LoginTries>,
}

impl FailedLogins {
    /// Keeps an entry; a new one may cost the older half of a full book.
    fn put(&mut self, key: [u8; 32], entry: Option<LoginTries>) {
        let Some(entry) = entry else {
            self.entries.remove(&key);
            return;
        };
        if self.entries.len() >= REMEMBERED && !self.entries.contains_key(&key) {
            let mut times: Vec<_> = self.entries.values().map(|entry| entry.last).collect();
            let (_, middle, _) = times.select_nth_unstable(REMEMBERED / 2);
            let middle = *middle;
            self.entries.retain(|_, entry| entry.last > middle);
        }
        self.entries.insert(key, entry);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

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
            if throttle.admit(&Subject::of(email, from), now).is_ok() {
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
            assert!(throttle.admit(&Subject::of(&ada, at("192.0.2.1")), now).is_ok());
        }
        assert!(throttle.admit(&Subject::of(&ada, at("192.0.2.1")), now).is_err());
        assert!(throttle.admit(&Subject::of(&ada, at("::ffff:192.0.2.1")), now).is_err(), "the same address");
        assert!(throttle.admit(&Subject::of(&ada, at("192.0.2.2")), now).is_ok());
        assert!(throttle.admit(&Subject::of(&email("bob"), at("192.0.2.1")), now).is_ok());
        assert!(throttle.admit(&Subject::of(&ada, at("192.0.2.1")), now + FIRST_WAIT).is_ok());
        assert!(
            throttle.admit(&Subject::of(&ada, at("192.0.2.1")), now + FIRST_WAIT * 2).is_err(),
            "twice as long"
        );
        assert!(throttle.admit(&Subject::of(&ada, at("192.0.2.1")), now + FIRST_WAIT * 3).is_ok());
    }

    #[test]
    fn a_right_password_starts_anew() {
        let (throttle, ada, now) = (Throttle::default(), email("ada"), Utc::now());
        for _ in 0..100 {
            assert!(throttle.admit(&Subject::of(&ada, at("192.0.2.1")), now).is_ok());
            throttle.signed_in(&Subject::of(&ada, at("192.0.2.1")), now);
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
            tried += u32::from(
                throttle.admit(&Subject::of(&email(&format!("u{i}")), at("192.0.2.1")), now).is_ok(),
            );
        }
        assert_eq!(tried, ADDRESS_TRIES);
        // One IPv6 network is one guesser.
        let (throttle, mut tried) = (Throttle::default(), 0);
        for i in 0..1000 {
            tried +=
                u32::from(throttle.admit(&Subject::of(&ada, at(&format!("2001:db8::{i:x}"))), now).is_ok());
        }
        assert_eq!(tried, PAIR_TRIES);
    }

    #[test]
    fn guesses_from_everywhere_are_bounded_and_keep_the_owner_at_home_in() {
        let (throttle, ada, now) = (Throttle::default(), email("ada"), Utc::now());
        assert!(throttle.admit(&Subject::of(&ada, at("198.51.100.7")), now).is_ok());
        throttle.signed_in(&Subject::of(&ada, at("198.51.100.7")), now);
        let mut tried = 0;
        for i in 0..20_000_u32 {
            let from = at(&Ipv6Addr::from_bits(u128::from(i) << 64).to_string());
            tried += u32::from(throttle.admit(&Subject::of(&ada, from), now).is_ok());
        }
        assert_eq!(tried, ACCOUNT_TRIES);
        assert!(throttle.admit(&Subject::of(&ada, at("198.51.100.7")), now).is_ok());
    }

    #[test]
    fn memory_is_bounded() {
        let (throttle, now) = (Throttle::default(), Utc::now());
        for i in 0..3 * REMEMBERED as u32 {
            let from = at(&Ipv6Addr::from_bits(u128::from(i) << 64).to_string());
            let now = now + TimeDelta::milliseconds(i64::from(i));
            let _ = throttle.admit(&Subject::of(&email(&format!("u{i}")), from), now);
            if i % 2 == 0 {
                throttle.signed_in(&Subject::of(&email(&format!("u{i}")), from), now);
            }
        }
        let books = throttle.books.lock();
        assert!(books.iter().all(|book| book.entries.len() <= REMEMBERED));
    }
}
