//! Who may hold a connection, and for how long.
//!
//! A connection is a stranger's until a request on it shows a valid credential. Strangers share three quarters of the connections, each address
//! (an IPv6 network is one) is served so many at once while others of it wait, and when all are taken a newcomer
//! displaces one of the address that has most. Every connection has a deadline for its first request; strangers have to show a
//! credential soon after it; and nobody keeps one on which nothing is asked.

mod strangers;

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures::task::AtomicWaker;
use parking_lot::{Mutex, MutexGuard};

use self::strangers::Strangers;
use crate::permits::network_of;

/// Connections at once.
const CONNECTIONS: usize = 50_000;
/// Of one address' strangers, those that are served at once.
const BY_ADDRESS: usize = 256;
/// Requests that a stranger's connection may have open.
const STRANGERS_REQUESTS: u32 = 128;
/// From being served to the end of the first request's head.
const HEAD: Duration = Duration::from_secs(10);
/// The same while others of the address wait, and how long a stranger's connection may be idle then.
const HURRIED: Duration = Duration::from_secs(3);
/// How long a connection may wait to be served.
const WAIT: Duration = Duration::from_secs(30);
/// From being served to a valid credential.
const CREDENTIAL: Duration = Duration::from_mins(1);
/// How long a connection with a credential may be without a request.
const IDLE: Duration = Duration::from_mins(5);
/// How long requests may take to end when their connection has to.
const FAREWELL: Duration = Duration::from_secs(30);

/// How many connections there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdmissionLimits {
    /// In all.
    pub connections: usize,
    /// Without a valid credential.
    pub strangers: usize,
    /// Of one address' strangers, those that are served at once.
    pub by_address: usize,
}

impl AdmissionLimits {
    /// As many as these file descriptors allow, with some left for files, databases and git.
    pub fn of_descriptors(descriptors: usize) -> Self {
        let spare = (descriptors / 4).min(4096);
        let connections = (descriptors - spare).clamp(16, CONNECTIONS);
        let strangers = connections / 4 * 3;
        Self { connections, strangers, by_address: BY_ADDRESS.min(strangers / 2) }
    }

    /// No connection with a credential takes the last of these: probes and newcomers find a place.
    fn reserve(&self) -> usize {
        (self.connections / 16).max(1)
    }
}

/// Counts the connections of a process' listeners.
#[derive(Debug)]
pub struct Admission {
    limits: AdmissionLimits,
    started: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    visits: HashMap<u64, Entry>,
    next: u64,
    strangers: Strangers,
    /// With a credential, or of a proxy that the operator trusts.
    known: usize,
    holders: HashMap<u128, usize>,
    stopping: bool,
}

#[derive(Debug)]
struct Entry {
    line: Arc<Line>,
    class: Class,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// A stranger that is not served yet.
    Waiting(IpAddr),
    /// A stranger that is served.
    Stranger(IpAddr),
    /// Showed a credential of this holder.
    Holder(u128),
    /// Of a proxy, whose clients are counted by request.
    Proxy,
    /// Has to go, and is counted no more.
    Gone,
}

/// One connection; dropping the last handle of it frees its place.
#[derive(Debug)]
pub struct Visit {
    admission: Arc<Admission>,
    id: u64,
    peer: SocketAddr,
    line: Arc<Line>,
}

/// What is known of a connection and changes without a lock.
#[derive(Debug)]
struct Line {
    is_served: AtomicBool,
    is_known: AtomicBool,
    has_asked: AtomicBool,
    requests: AtomicU32,
    /// When it began to wait or to be served, in milliseconds of the admission's life.
    since: AtomicU64,
    /// When its last request ended.
    idle_since: AtomicU64,
    ending: AtomicU8,
    waker: AtomicWaker,
}

/// Whether a connection has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Ending {
    /// It may go on.
    No = 0,
    /// After the requests that are open.
    Soon = 1,
    /// At once.
    Now = 2,
}

/// A request that is open on a connection, until dropped.
#[derive(Debug)]
pub struct OpenRequest(Arc<Visit>);

impl Admission {
    /// Nobody is there yet.
    pub fn new(limits: AdmissionLimits) -> Arc<Self> {
        Arc::new(Self { limits, started: Instant::now(), state: Mutex::default() })
    }

    /// A connection from `peer`; `None` when there is no place for it. One of a proxy that the operator trusts is not
    /// counted by its address, and takes none of the reserve.
    pub fn enter(self: &Arc<Self>, peer: SocketAddr, is_proxy: bool) -> Option<Arc<Visit>> {
        let address = (!is_proxy).then(|| network_of(peer.ip()));
        let mut state = self.state();
        if is_proxy && state.known + self.limits.reserve() >= self.limits.connections {
            metrics::counter!("plural_connections_refused_total").increment(1);
            return None;
        }
        let is_full = state.strangers.len() + state.known >= self.limits.connections;
        if is_full || (address.is_some() && state.strangers.len() >= self.limits.strangers) {
            let own = address.map_or(0, |address| state.strangers.of(address));
            if !self.displace(&mut state, own) {
                metrics::counter!("plural_connections_refused_total").increment(1);
                return None;
            }
        }
        Some(self.admit(&mut state, peer, address))
    }

    fn admit(self: &Arc<Self>, state: &mut State, peer: SocketAddr, address: Option<IpAddr>) -> Arc<Visit> {
        let id = state.next;
        state.next += 1;
        let class = match address {
            None => {
                state.known += 1;
                Class::Proxy
            }
            Some(address) => {
                if state.strangers.enter(address, id, self.limits.by_address) {
                    Class::Stranger(address)
                } else {
                    Class::Waiting(address)
                }
            }
        };
        let now = self.now();
        let ending = if state.stopping { Ending::Soon } else { Ending::No };
        let line = Arc::new(Line {
            is_served: AtomicBool::new(!matches!(class, Class::Waiting(_))),
            is_known: AtomicBool::new(class == Class::Proxy),
            has_asked: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            since: AtomicU64::new(now),
            idle_since: AtomicU64::new(now),
            ending: AtomicU8::new(ending as u8),
            waker: AtomicWaker::new(),
        });
        state.visits.insert(id, Entry { line: Arc::clone(&line), class });
        Arc::new(Visit { admission: Arc::clone(self), id, peer, line })
    }

    /// Ends some strangers' connections, when the process runs out of descriptors all the same.
    pub fn shed(&self) {
        let mut state = self.state();
        for _ in 0..8 {
            if !self.displace(&mut state, 0) {
                return;
            }
        }
    }

    /// Ends one connection of the address whose strangers have most, if that is more than `own`: the newest that waits, else
    /// the oldest that is served.
    fn displace(&self, state: &mut State, own: usize) -> bool {
        let Some(id) = state.strangers.to_displace(own) else { return false };
        self.leave(state, id);
        if let Some(entry) = state.visits.get_mut(&id) {
            entry.class = Class::Gone;
            entry.line.end(Ending::Now);
        }
        metrics::counter!("plural_connections_displaced_total").increment(1);
        true
    }

    /// Takes a connection out of the counts.
    fn leave(&self, state: &mut State, id: u64) {
        let Some(class) = state.visits.get(&id).map(|entry| entry.class) else { return };
        match class {
            Class::Waiting(address) | Class::Stranger(address) => {
                let next = state.strangers.leave(address, id);
                if let Some(entry) = next.and_then(|next| state.visits.get_mut(&next)) {
                    entry.class = Class::Stranger(address);
                    entry.line.since.store(self.now(), Ordering::Release);
                    entry.line.is_served.store(true, Ordering::Release);
                    entry.line.waker.wake();
                }
            }
            Class::Holder(holder) => {
                state.known = state.known.saturating_sub(1);
                if let Some(own) = state.holders.get_mut(&holder) {
                    *own = own.saturating_sub(1);
                    if *own == 0 {
                        state.holders.remove(&holder);
                    }
                }
            }
            Class::Proxy => state.known = state.known.saturating_sub(1),
            Class::Gone => {}
        }
    }

    /// Ends what is over its time. For about once a second.
    pub fn sweep(&self) {
        let state = self.state();
        let is_pressed = |class: Class| match class {
            Class::Stranger(address) => state.strangers.is_pressed(address),
            _ => false,
        };
        let all: Vec<_> = state
            .visits
            .values()
            .map(|entry| (Arc::clone(&entry.line), entry.class, is_pressed(entry.class)))
            .collect();
        let (strangers, known) = (state.strangers.len(), state.known);
        drop(state);
        metrics::gauge!("plural_connections", "credential" => "none").set(strangers as f64);
        metrics::gauge!("plural_connections", "credential" => "valid").set(known as f64);
        let now = self.now();
        for (line, class, is_pressed) in all {
            line.end(line.due(class, is_pressed, now));
        }
    }

    /// Ends every connection after the requests that are open.
    pub fn stop(&self) {
        let mut state = self.state();
        state.stopping = true;
        for entry in state.visits.values() {
            entry.line.end(Ending::Soon);
        }
    }

    /// Connections without a credential, and the others.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.strangers.len(), state.known)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Visit {
    /// Who connected: a client, or what stands in front of it.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Waits until the connection may be read; false when it has to end instead.
    pub async fn served(&self) -> bool {
        std::future::poll_fn(|cx| {
            self.line.waker.register(cx.waker());
            if self.line.ending() > Ending::No {
                Poll::Ready(false)
            } else if self.line.is_served.load(Ordering::Acquire) {
                Poll::Ready(true)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Resolves when the connection has to end, more urgently than `known`. For the one task that drives it.
    pub fn poll_ending(&self, cx: &mut Context<'_>, known: Ending) -> Poll<Ending> {
        self.line.waker.register(cx.waker());
        let ending = self.line.ending();
        if ending > known { Poll::Ready(ending) } else { Poll::Pending }
    }

    /// The same, in whatever way it has to end.
    pub async fn ended(&self) {
        std::future::poll_fn(|cx| self.poll_ending(cx, Ending::No)).await;
    }

    /// A request begins; `None` when a stranger has too many open.
    pub fn open(self: &Arc<Self>) -> Option<OpenRequest> {
        let line = &self.line;
        let open = line.requests.fetch_add(1, Ordering::AcqRel);
        let request = OpenRequest(Arc::clone(self));
        if open >= STRANGERS_REQUESTS && !line.is_known.load(Ordering::Acquire) {
            return None;
        }
        if !line.has_asked.load(Ordering::Relaxed) {
            line.has_asked.store(true, Ordering::Release);
        }
        Some(request)
    }

    /// A request on the connection showed a valid credential of `holder`; false when the holder has `most` connections
    /// already, or all connections that may have a credential are taken. Only the first request of a connection counts.
    pub fn authenticated(&self, holder: u128, most: usize) -> bool {
        if self.line.is_known.load(Ordering::Acquire) {
            return true;
        }
        let Admission { limits, .. } = &*self.admission;
        let mut state = self.admission.state();
        let class = state.visits.get(&self.id).map(|entry| entry.class);
        match class {
            Some(Class::Waiting(_) | Class::Stranger(_)) => {}
            Some(Class::Holder(_) | Class::Proxy) => return true,
            Some(Class::Gone) | None => return false,
        }
        let own = state.holders.get(&holder).copied().unwrap_or_default();
        if own >= most || state.known + limits.reserve() >= limits.connections {
            return false;
        }
        self.admission.leave(&mut state, self.id);
        state.known += 1;
        state.holders.insert(holder, own + 1);
        if let Some(entry) = state.visits.get_mut(&self.id) {
            entry.class = Class::Holder(holder);
        }
        self.line.is_known.store(true, Ordering::Release);
        true
    }

    /// Ends the connection, whose other end does not read what it asked for. One of a proxy stays: others share it.
    pub fn end_unread(&self) {
        if !self.is_proxy() {
            self.line.end(Ending::Now);
        }
    }

    /// What follows on the connection is another one inside, which has to show a credential anew in time.
    pub fn begin_anew(&self) {
        self.line.since.store(self.admission.now(), Ordering::Release);
        self.line.has_asked.store(false, Ordering::Release);
    }

    /// A connection of its own for somebody who came through a proxy, counted by the address that the proxy tells; `None` when there
    /// is no place for it.
    pub fn behind_proxy(&self, client: IpAddr) -> Option<Arc<Self>> {
        self.admission.enter(SocketAddr::new(client, 0), false)
    }

    /// Whether a proxy that the operator trusts made the connection.
    pub fn is_proxy(&self) -> bool {
        let state = self.admission.state();
        state.visits.get(&self.id).is_some_and(|entry| entry.class == Class::Proxy)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let mut state = self.admission.state();
        self.admission.leave(&mut state, self.id);
        state.visits.remove(&self.id);
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let line = &self.0.line;
        if line.requests.fetch_sub(1, Ordering::AcqRel) == 1 {
            line.idle_since.store(self.0.admission.now(), Ordering::Release);
        }
    }
}

impl Line {
    fn ending(&self) -> Ending {
        match self.ending.load(Ordering::Acquire) {
            0 => Ending::No,
            1 => Ending::Soon,
            _ => Ending::Now,
        }
    }

    fn end(&self, ending: Ending) {
        if self.ending.fetch_max(ending as u8, Ordering::AcqRel) < ending as u8 {
            self.waker.wake();
        }
    }

    /// Whether its time is over.
    fn due(&self, class: Class, is_pressed: bool, now: u64) -> Ending {
        let passed =
            |since: &AtomicU64| Duration::from_millis(now.saturating_sub(since.load(Ordering::Acquire)));
        let age = passed(&self.since);
        let is_idle = self.requests.load(Ordering::Acquire) == 0;
        let has_asked = self.has_asked.load(Ordering::Acquire);
        let over = |time: Duration, limit: Duration| match time {
            time if time < limit => Ending::No,
            time if is_idle || time >= limit + FAREWELL => Ending::Now,
            _ => Ending::Soon,
        };
        match class {
            Class::Gone => Ending::Now,
            Class::Waiting(_) if age >= WAIT => Ending::Now,
            Class::Waiting(_) => Ending::No,
            Class::Stranger(_) | Class::Proxy | Class::Holder(_) if !has_asked => {
                let limit = if is_pressed { HURRIED } else { HEAD };
                if age >= limit { Ending::Now } else { Ending::No }
            }
            Class::Stranger(_) if is_pressed && is_idle && passed(&self.idle_since) >= HURRIED => Ending::Now,
            Class::Stranger(_) => over(age, CREDENTIAL),
            Class::Proxy | Class::Holder(_) if !is_idle => Ending::No,
            Class::Proxy | Class::Holder(_) => {
                let idle = passed(&self.idle_since);
                match idle {
                    idle if idle >= IDLE + FAREWELL => Ending::Now,
                    idle if idle >= IDLE => Ending::Soon,
                    _ => Ending::No,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: AdmissionLimits = AdmissionLimits { connections: 32, strangers: 16, by_address: 4 };

    fn peer(address: &str) -> SocketAddr {
        SocketAddr::new(address.parse().unwrap(), 1)
    }

    fn is_served(visit: &Visit) -> bool {
        visit.line.is_served.load(Ordering::Acquire)
    }

    /// As if so much time had passed since it came.
    fn due(visit: &Visit, time: Duration) -> Ending {
        let state = visit.admission.state();
        let class = state.visits[&visit.id].class;
        let is_pressed = matches!(class, Class::Stranger(address) if state.strangers.is_pressed(address));
        visit.line.due(class, is_pressed, visit.admission.now() + time.as_millis() as u64)
    }

    fn enter(admission: &Arc<Admission>, address: &str, count: usize) -> Vec<Arc<Visit>> {
        (0..count).map(|_| admission.enter(peer(address), false).unwrap()).collect()
    }

    #[test]
    fn limits_leave_descriptors_for_other_things() {
        let limits = AdmissionLimits::of_descriptors(400);
        assert_eq!(limits, AdmissionLimits { connections: 300, strangers: 225, by_address: 112 });
        assert_eq!(AdmissionLimits::of_descriptors(1 << 20).connections, CONNECTIONS);
        assert!(AdmissionLimits::of_descriptors(0).connections > 0);
    }

    #[test]
    fn an_address_is_served_in_turn_and_credentials_make_room() {
        let admission = Admission::new(LIMITS);
        let held = enter(&admission, "192.0.2.1", 6);
        let served = |held: &[Arc<Visit>]| held.iter().map(|visit| is_served(visit)).collect::<Vec<_>>();
        assert_eq!(served(&held), [true, true, true, true, false, false]);
        // Another address is not concerned, and all of an IPv6 network are one.
        assert!(enter(&admission, "192.0.2.2", 1).iter().all(|visit| is_served(visit)));
        let network: Vec<_> = (0..5).flat_map(|n| enter(&admission, &format!("2001:db8::{n}"), 1)).collect();
        assert_eq!(served(&network), [true, true, true, true, false]);
        // Who showed a credential is no stranger any more, and the next in turn is served.
        assert!(held[0].authenticated(7, 10));
        assert_eq!(served(&held), [true, true, true, true, true, false]);
        let mut held = held;
        drop(held.remove(1));
        assert_eq!(served(&held), [true; 5]);
        drop((held, network));
        assert_eq!(admission.counts(), (0, 0));
        let state = admission.state();
        assert!(state.strangers.is_empty() && state.holders.is_empty() && state.visits.is_empty());
    }

    #[test]
    fn a_fleet_behind_one_address_is_served_in_turn() {
        let admission =
            Admission::new(AdmissionLimits { connections: 50_000, strangers: 25_000, by_address: 256 });
        let all = enter(&admission, "192.0.2.1", 10_000);
        for (holder, visit) in all.iter().enumerate() {
            assert!(is_served(visit), "{holder}");
            assert!(visit.authenticated(holder as u128, 1));
        }
        assert_eq!(admission.counts(), (0, 10_000));
    }

    #[test]
    fn when_all_is_taken_a_newcomer_displaces_one_of_whoever_has_most() {
        let admission = Admission::new(LIMITS);
        let crowd = enter(&admission, "192.0.2.1", 16);
        assert!(admission.enter(peer("192.0.2.1"), false).is_none(), "it has most itself");
        let few = enter(&admission, "192.0.2.2", 3);
        assert!(few.iter().all(|visit| is_served(visit)));
        let ended =
            |visits: &[Arc<Visit>]| visits.iter().filter(|visit| visit.line.ending() == Ending::Now).count();
        assert_eq!((ended(&crowd), ended(&few)), (3, 0));
        // The newest of those that waited.
        assert!(crowd[13..].iter().all(|visit| visit.line.ending() == Ending::Now));
        assert!(!crowd[15].authenticated(1, 10), "it is about to end");
        assert_eq!(admission.counts(), (16, 0));
        drop(crowd);
        assert_eq!(admission.counts(), (3, 0));
    }

    #[test]
    fn those_with_a_credential_leave_a_reserve() {
        let admission = Admission::new(LIMITS);
        let mut known = Vec::new();
        for holder in 0..30 {
            let visit = admission.enter(peer("192.0.2.1"), false).unwrap();
            assert!(visit.authenticated(holder, 10));
            known.push(visit);
        }
        let late = enter(&admission, "192.0.2.2", 2);
        assert!(!late[0].authenticated(99, 10), "the rest is for newcomers");
        // All is taken: newcomers displace each other, and nobody with a credential.
        assert!(admission.enter(peer("192.0.2.3"), false).is_some());
        assert!(known.iter().all(|visit| visit.line.ending() == Ending::No));
    }

    #[test]
    fn a_holder_has_so_many_connections() {
        let admission = Admission::new(LIMITS);
        let held = enter(&admission, "192.0.2.1", 4);
        assert!(held[0].authenticated(7, 2) && held[1].authenticated(7, 2));
        assert!(!held[2].authenticated(7, 2) && held[2].authenticated(8, 2));
        assert!(held[0].authenticated(9, 0), "a connection is its first holder's");
    }

    #[test]
    fn every_connection_has_its_time() {
        let admission = Admission::new(LIMITS);
        let [silent, asked, known] = <[_; 3]>::try_from(enter(&admission, "192.0.2.1", 3)).unwrap();
        let request = asked.open().unwrap();
        drop(known.open());
        assert!(known.authenticated(7, 10));
        let just_before = |limit: Duration| limit.checked_sub(Duration::from_secs(1)).unwrap();
        assert_eq!(due(&silent, just_before(HEAD)), Ending::No);
        assert_eq!(due(&silent, HEAD), Ending::Now);
        assert_eq!(due(&asked, just_before(CREDENTIAL)), Ending::No);
        assert_eq!(due(&asked, CREDENTIAL), Ending::Soon, "the request that is open may end");
        assert_eq!(due(&asked, CREDENTIAL + FAREWELL), Ending::Now);
        drop(request);
        assert_eq!(due(&asked, CREDENTIAL), Ending::Now);
        assert_eq!(due(&known, just_before(IDLE)), Ending::No);
        assert_eq!(due(&known, IDLE), Ending::Soon);
        assert_eq!(due(&known, IDLE + FAREWELL), Ending::Now);
        let stream = known.open().unwrap();
        assert_eq!(due(&known, IDLE * 100), Ending::No, "a stream keeps it");
        drop(stream);
        // A connection inside begins anew.
        asked.begin_anew();
        assert_eq!(due(&asked, HEAD), Ending::Now);
        // Where others of the address wait, silence is short.
        let more = enter(&admission, "192.0.2.1", 3);
        assert!(!is_served(&more[2]));
        assert_eq!(due(&silent, HURRIED), Ending::Now);
        assert_eq!(due(&more[2], HURRIED), Ending::No);
        assert_eq!(due(&more[2], WAIT), Ending::Now);
    }

    #[test]
    fn a_strangers_connection_has_so_many_requests() {
        let admission = Admission::new(LIMITS);
        let visit = admission.enter(peer("192.0.2.1"), false).unwrap();
        let open: Vec<_> = std::iter::from_fn(|| visit.open()).take(1000).collect();
        assert_eq!(open.len(), STRANGERS_REQUESTS as usize);
        assert!(visit.authenticated(7, 10));
        assert!(visit.open().is_some());
        drop(open);
        assert_eq!(visit.line.requests.load(Ordering::Acquire), 0);
    }

    #[test]
    fn a_trusted_proxy_is_no_stranger_and_its_clients_are_counted() {
        let admission = Admission::new(LIMITS);
        let proxied: Vec<_> = (0..20).map(|_| admission.enter(peer("10.0.0.1"), true).unwrap()).collect();
        assert_eq!(admission.counts(), (0, 20));
        let clients: Vec<_> =
            (0..5).map(|_| proxied[0].behind_proxy("192.0.2.1".parse().unwrap()).unwrap()).collect();
        assert_eq!(clients.iter().filter(|visit| is_served(visit)).count(), 4);
        assert!(proxied[0].is_proxy() && !clients[0].is_proxy());
    }

    #[test]
    fn trusted_proxies_leave_the_reserve_too() {
        let admission = Admission::new(LIMITS);
        let proxied: Vec<_> =
            std::iter::from_fn(|| admission.enter(peer("10.0.0.1"), true)).take(40).collect();
        assert_eq!(proxied.len(), LIMITS.connections - LIMITS.reserve());
        let probes = enter(&admission, "192.0.2.1", LIMITS.reserve());
        assert!(probes.iter().all(|visit| is_served(visit)));
        drop(probes);
        // Those with a credential and those of proxies are one number.
        let late = enter(&admission, "192.0.2.2", 1);
        assert!(!late[0].authenticated(7, 10));
    }

    #[test]
    fn who_does_not_read_is_ended_and_a_proxy_is_not() {
        let admission = Admission::new(LIMITS);
        let (own, proxied) = (enter(&admission, "192.0.2.1", 1), admission.enter(peer("10.0.0.1"), true));
        let proxied = proxied.unwrap();
        own[0].end_unread();
        proxied.end_unread();
        assert_eq!((own[0].line.ending(), proxied.line.ending()), (Ending::Now, Ending::No));
    }

    #[tokio::test]
    async fn who_waits_is_told() {
        let admission = Admission::new(LIMITS);
        let mut held = enter(&admission, "192.0.2.1", 5);
        let last = held.pop().unwrap();
        let waiting = tokio::spawn(async move { last.served().await });
        drop(held);
        assert!(waiting.await.unwrap());
        let visit = admission.enter(peer("192.0.2.1"), false).unwrap();
        admission.stop();
        assert!(!visit.served().await);
        visit.ended().await;
        assert!(!admission.enter(peer("192.0.2.1"), false).unwrap().served().await, "it stops");
    }
}
