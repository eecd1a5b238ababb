//! Work of unknown size, side by side, under one limit of bytes.
//!
//! Work runs in one of two lanes. In the *common* lane much runs side by side, each piece with modest memory and processor
//! time. What needs more starts again *alone*: one piece at a time, with as much memory as the whole common lane has. So
//! large work is possible, and a hundred pieces of it hold nobody up but each other.
//!
//! # Guarantees
//! - What all work covers together never exceeds [`LaneLimits::bytes`].
//! - Work in the common lane waits for nothing while it holds bytes: who cannot grow stops, gives all back, and starts again
//!   with all that it may have. So no two wait for each other.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::{cgroup, meter};

/// Bytes of one permit.
const UNIT: u64 = 1024;
/// What a piece of work grows by.
const STEP: u64 = 2 << 20;
/// Less than this is of no use to anybody.
const LEAST: u64 = 16 << 20;
/// Whoever held this much leaves pages behind that the allocator keeps.
const LARGE: u64 = 16 << 20;

/// How much work may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaneLimits {
    /// Bytes of all work together; at least 16 MiB.
    pub bytes: u64,
    /// Wall time of one piece of work.
    pub time: Duration,
    /// Processor time of one piece of work in the common lane.
    pub common_cpu: Duration,
    /// Bytes that a piece of work begins with in the common lane.
    pub base: u64,
}

impl LaneLimits {
    /// `percent` of the memory that this process may use: of the limit of its cgroups, or without one half as much of the
    /// machine's memory, which others use too.
    pub fn of_memory(percent: u64, time: Duration) -> Self {
        let machine = cgroup::machine_memory().unwrap_or(1 << 30);
        let bytes = match cgroup::memory_limit() {
            Some(limit) => limit.min(machine).saturating_mul(percent) / 100,
            None => machine.saturating_mul(percent) / 200,
        };
        Self::new(bytes, time)
    }

    /// This many bytes, and the usual processor time.
    pub fn new(bytes: u64, time: Duration) -> Self {
        Self { bytes: bytes.max(LEAST), time, common_cpu: Duration::from_secs(1), base: STEP }
    }

    /// Bytes of each lane.
    fn lane(self) -> u64 {
        self.bytes / 2
    }

    /// Bytes of one piece of work in the common lane.
    fn common_share(self) -> u64 {
        self.lane() / 4
    }
}

/// Why work was not done: it is as large as that whenever it is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Overrun {
    /// More memory than one piece of work may have, even alone.
    #[error("it needs more than {} MiB of memory", .0 >> 20)]
    Bytes(u64),
    /// More time.
    #[error("it takes longer than {} seconds", .0.as_secs())]
    Time(Duration),
}

/// Why a piece of work stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// It reached what one piece of work may have in its lane.
    Full,
    /// Others have what it would need.
    Contended,
    /// It took more processor time than the common lane gives.
    Slow,
    /// It took too long.
    Time,
    /// Nobody waits for it any more.
    Dropped,
}

/// How a piece of work begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// In the common lane, with little.
    Common,
    /// In the common lane, with all that it may have there.
    Whole,
    Alone,
}

/// The lanes. Shared by all who do such work in one process.
#[derive(Debug)]
pub struct Lanes {
    limits: LaneLimits,
    common: Arc<Semaphore>,
    alone: Arc<Alone>,
    parked: watch::Sender<usize>,
}

impl Lanes {
    /// Lanes in which nothing runs yet.
    pub fn new(limits: LaneLimits) -> Arc<Self> {
        let limits = LaneLimits { bytes: limits.bytes.max(LEAST), ..limits };
        let permits = usize::try_from(limits.lane() / UNIT).unwrap_or(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            limits,
            common: Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS))),
            alone: Arc::default(),
            parked: watch::Sender::new(0),
        })
    }

    /// What they were made with.
    pub fn limits(&self) -> LaneLimits {
        self.limits
    }

    /// How many pieces of work wait to be done alone. They hold nothing meanwhile.
    pub fn parked(&self) -> watch::Receiver<usize> {
        self.parked.subscribe()
    }

    /// Does work whose size is not known: `attempt` is called again, from the beginning, when it turns out to be larger
    /// than what it was given. `large` work begins alone. Those who wait to be alone take turns by `party`: whose work
    /// took least time goes first.
    ///
    /// # Errors
    /// It is larger than any work may be.
    pub async fn run<T, F>(
        self: &Arc<Self>,
        party: &str,
        large: bool,
        mut attempt: impl FnMut(Arc<Hold>) -> F,
    ) -> Result<(T, Arc<Hold>), Overrun>
    where
        F: Future<Output = T>,
    {
        let mut start = if large { Start::Alone } else { Start::Common };
        loop {
            let hold = Arc::new(self.begin(party, start).await);
            let waiting = Waiting(Some(Arc::clone(&hold)));
            let done = attempt(Arc::clone(&hold)).await;
            match (hold.stop.get(), start) {
                (None, _) => {
                    waiting.done();
                    return Ok((done, hold));
                }
                (Some(Stop::Time), _) => return Err(Overrun::Time(self.limits.time)),
                (Some(_), Start::Alone) => return Err(Overrun::Bytes(self.limits.lane())),
                (Some(Stop::Contended), Start::Common) => start = Start::Whole,
                (Some(_), Start::Common | Start::Whole) => start = Start::Alone,
            }
            // Before the wait for more: what was done so far, and what it held.
            drop(done);
        }
    }

    async fn begin(self: &Arc<Self>, party: &str, start: Start) -> Hold {
        let share = self.limits.common_share();
        let (covered, limit, turn, permits) = match start {
            Start::Common => (self.limits.base.min(share), share, None, true),
            Start::Whole => (share, share, None, true),
            Start::Alone => {
                let parked = Parked::new(&self.parked);
                let turn = Alone::turn(&self.alone, party).await;
                drop(parked);
                (self.limits.lane(), self.limits.lane(), Some(turn), false)
            }
        };
        let permits = if permits {
            // The semaphore is never closed.
            Arc::clone(&self.common).acquire_many_owned(units(covered)).await.ok()
        } else {
            None
        };
        Hold {
            lanes: Arc::clone(self),
            limit,
            covered: AtomicU64::new(covered),
            paused: AtomicU64::new(0),
            stop: OnceLock::new(),
            place: Mutex::new(Place { permits, turn }),
        }
    }
}

fn units(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX)
}

/// Counts who waits to be alone.
struct Parked<'a>(&'a watch::Sender<usize>);

impl<'a> Parked<'a> {
    fn new(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Parked<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Somebody waits for the work; without them it is stopped.
struct Waiting(Option<Arc<Hold>>);

impl Waiting {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(hold) = &self.0 {
            let _ = hold.stop.set(Stop::Dropped);
        }
    }
}

/// What a piece of work may hold. Dropped, it is given back.
#[derive(Debug)]
pub struct Hold {
    lanes: Arc<Lanes>,
    /// More it does not get in this lane.
    limit: u64,
    covered: AtomicU64,
    /// Nanoseconds that do not count as its own time.
    paused: AtomicU64,
    stop: OnceLock<Stop>,
    place: Mutex<Place>,
}

#[derive(Debug, Default)]
struct Place {
    permits: Option<OwnedSemaphorePermit>,
    turn: Option<Turn>,
}

impl Hold {
    /// Whether it may hold this many bytes in all. Once it may not, it never may again: the work has to end.
    #[must_use]
    pub fn cover(&self, bytes: u64) -> bool {
        if self.stop.get().is_some() {
            return false;
        }
        if bytes <= self.covered.load(Ordering::Relaxed) {
            return true;
        }
        if bytes > self.limit {
            return self.halt(Stop::Full);
        }
        let mut place = self.place();
        let covered = self.covered.load(Ordering::Relaxed);
        // In steps, so that small growth does not ask each time.
        let wanted = bytes.next_multiple_of(STEP).min(self.limit);
        let Some(missing) = wanted.checked_sub(covered).filter(|missing| *missing > 0) else { return true };
        match (Arc::clone(&self.lanes.common).try_acquire_many_owned(units(missing)), &mut place.permits) {
            (Ok(more), Some(permits)) => permits.merge(more),
            (Ok(more), none) => *none = Some(more),
            (Err(_), _) => return self.halt(Stop::Contended),
        }
        self.covered.store(wanted, Ordering::Relaxed);
        true
    }

    /// Bytes that it may take at once beyond `held`: all that are wanted, or as many as its lane gives.
    pub fn grant(&self, held: u64, wanted: u64) -> u64 {
        let most = if self.is_alone() { self.limit } else { (self.limit / 4).max(STEP) };
        let given = wanted.min(most).min(self.limit.saturating_sub(held));
        if self.cover(held.saturating_add(given)) { given } else { 0 }
    }

    /// Whether it runs alone.
    pub fn is_alone(&self) -> bool {
        self.place().turn.is_some()
    }

    /// Runs something whose time is not this work's: it has a limit of its own.
    pub fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        let took = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.paused.fetch_add(took, Ordering::Relaxed);
        done
    }

    /// Keeps only so many bytes, for what came of the work. Whoever was alone makes room for the next if that is little.
    pub async fn keep(&self, bytes: u64) {
        let bytes = bytes.clamp(UNIT, self.limit);
        let share = self.lanes.limits.common_share();
        if self.is_alone() {
            if bytes > share {
                return;
            }
            let permits = Arc::clone(&self.lanes.common).acquire_many_owned(units(bytes)).await.ok();
            *self.place() = Place { permits, turn: None };
        } else {
            let mut place = self.place();
            if let Some(permits) = &mut place.permits {
                let spare = permits.num_permits().saturating_sub(units(bytes) as usize);
                drop(permits.split(spare));
            }
        }
        self.covered.store(bytes, Ordering::Relaxed);
    }

    fn halt(&self, why: Stop) -> bool {
        let _ = self.stop.set(why);
        false
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock()
    }
}

/// A piece of work on the thread that does it: what it holds and how long it takes.
#[derive(Debug)]
pub struct Metered {
    hold: Arc<Hold>,
    /// Bytes that it stands on and that others allocated.
    base: u64,
    /// None where allocations are not counted.
    held_before: Option<i64>,
    /// What was asked for, where allocations are not counted.
    asked: std::cell::Cell<u64>,
    calls: std::cell::Cell<u32>,
    started: Instant,
    cpu_before: Duration,
}

/// So many questions share a look at the clocks.
const CLOCK_EVERY: u32 = 256;

impl Metered {
    /// Work that begins now, on this thread.
    pub fn new(hold: Arc<Hold>, base: u64) -> Self {
        Self {
            hold,
            base,
            held_before: meter::is_counting().then(meter::held),
            asked: std::cell::Cell::new(0),
            calls: std::cell::Cell::new(0),
            started: Instant::now(),
            cpu_before: thread_cpu(),
        }
    }

    /// Whether the work may go on and take `bytes` more.
    #[must_use]
    pub fn may_go_on(&self, bytes: u64) -> bool {
        let calls = self.calls.get().wrapping_add(1);
        self.calls.set(calls);
        if self.held_before.is_none() {
            self.asked.set(self.asked.get().saturating_add(bytes));
        }
        let in_time = bytes < STEP && !calls.is_multiple_of(CLOCK_EVERY) || self.is_in_time();
        let upcoming = if self.held_before.is_some() { bytes } else { 0 };
        in_time && self.hold.cover(self.base.saturating_add(self.held()).saturating_add(upcoming))
    }

    /// Bytes that the work may take before it asks again: at most `wanted`.
    pub fn grant(&self, wanted: u64) -> u64 {
        self.hold.grant(self.base.saturating_add(self.held()), wanted)
    }

    /// The work needs more than it was granted.
    pub fn wants_more(&self) {
        self.hold.halt(Stop::Full);
    }

    /// Bytes that the work holds now, without those it stands on.
    pub fn held(&self) -> u64 {
        match self.held_before {
            Some(before) => u64::try_from(meter::held().wrapping_sub(before)).unwrap_or(0),
            None => self.asked.get(),
        }
    }

    fn is_in_time(&self) -> bool {
        let paused = Duration::from_nanos(self.hold.paused.load(Ordering::Relaxed));
        let limits = self.hold.lanes.limits;
        if self.started.elapsed().saturating_sub(paused) > limits.time {
            return self.hold.halt(Stop::Time);
        }
        let is_common = self.hold.limit < limits.lane();
        if is_common && thread_cpu().saturating_sub(self.cpu_before) > limits.common_cpu {
            return self.hold.halt(Stop::Slow);
        }
        true
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        if self.hold.covered.load(Ordering::Relaxed) >= LARGE {
            meter::trim();
        }
    }
}

/// Processor time that this thread has taken.
fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(now).unwrap_or_default()
}

/// Who may be alone next.
#[derive(Debug, Default)]
struct Alone(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    is_taken: bool,
    /// What each party took since somebody last found the lane free.
    used: HashMap<String, Duration>,
    waiting: Vec<(String, oneshot::Sender<Turn>)>,
}

/// The right to be alone.
#[derive(Debug)]
struct Turn {
    alone: Arc<Alone>,
    party: String,
    since: Instant,
}

impl Alone {
    async fn turn(this: &Arc<Self>, party: &str) -> Turn {
        loop {
            let given = {
                let mut queue = this.lock();
                if !queue.is_taken {
                    queue.is_taken = true;
                    queue.used.clear();
                    return this.give(party.to_owned());
                }
                let (sender, receiver) = oneshot::channel();
                queue.waiting.push((party.to_owned(), sender));
                receiver
            };
            if let Ok(turn) = given.await {
                return turn;
            }
        }
    }

    fn give(self: &Arc<Self>, party: String) -> Turn {
        Turn { alone: Arc::clone(self), party, since: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.0.lock()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = {
            let mut queue = self.alone.lock();
            *queue.used.entry(std::mem::take(&mut self.party)).or_default() += self.since.elapsed();
            queue.waiting.retain(|(_, waiter)| !waiter.is_closed());
            let used = |party: &str| queue.used.get(party).copied().unwrap_or_default();
            // The first of those who used least.
            let least = queue.waiting.iter().enumerate().min_by_key(|(_, (party, _))| used(party));
            if let Some((at, _)) = least {
                Some(queue.waiting.remove(at))
            } else {
                queue.is_taken = false;
                None
            }
        };
        if let Some((party, waiter)) = next {
            // Who went away meanwhile drops it, and with that gives it on.
            let _ = waiter.send(self.alone.give(party));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn lanes(mebibytes: u64) -> Arc<Lanes> {
        Lanes::new(LaneLimits::new(mebibytes * MIB, Duration::from_mins(1)))
    }

    /// Work that holds so many bytes in the end, a mebibyte at a time.
    async fn grown(hold: Arc<Hold>, bytes: u64) -> bool {
        let mut held = 0;
        while held < bytes {
            held += MIB;
            if !hold.cover(held) {
                return false;
            }
            tokio::task::yield_now().await;
        }
        true
    }

    #[tokio::test]
    async fn small_work_stays_in_the_common_lane_and_large_work_runs_alone() {
        let lanes = lanes(64);
        let (done, hold) = lanes.run("a", false, |hold| grown(hold, 8 * MIB)).await.unwrap();
        assert!(done && !hold.is_alone());
        drop(hold);
        let (done, hold) = lanes.run("a", false, |hold| grown(hold, 32 * MIB)).await.unwrap();
        assert!(done && hold.is_alone());
        drop(hold);
        let refused = lanes.run("a", false, |hold| grown(hold, 33 * MIB)).await.unwrap_err();
        assert_eq!(refused, Overrun::Bytes(32 * MIB));
        assert_eq!(refused.to_string(), "it needs more than 32 MiB of memory");
        assert_eq!(lanes.common.available_permits() as u64 * UNIT, 32 * MIB, "all is given back");
        assert!(!lanes.alone.lock().is_taken);
    }

    #[tokio::test]
    async fn what_cannot_grow_side_by_side_does_so_one_after_another() {
        // Forty pieces of 8 MiB where four fit.
        let lanes = lanes(64);
        let all = (0..40).map(|_| {
            let lanes = Arc::clone(&lanes);
            tokio::spawn(async move {
                lanes.run("a", false, |hold| grown(hold, 8 * MIB)).await.map(|(done, _)| done)
            })
        });
        for done in all.collect::<Vec<_>>() {
            assert_eq!(done.await.unwrap(), Ok(true));
        }
        assert_eq!(lanes.common.available_permits() as u64 * UNIT, 32 * MIB);
    }

    #[tokio::test]
    async fn large_work_holds_no_small_work_up() {
        let lanes = lanes(64);
        let (_, alone) = lanes.run("a", true, |hold| grown(hold, MIB)).await.unwrap();
        let waiting: Vec<_> = (0..40)
            .map(|_| {
                let lanes = Arc::clone(&lanes);
                tokio::spawn(async move { lanes.run("a", false, |hold| grown(hold, 20 * MIB)).await.is_ok() })
            })
            .collect();
        let mut parked = lanes.parked();
        parked.wait_for(|count| *count == 40).await.unwrap();
        let (done, hold) = lanes.run("b", false, |hold| grown(hold, 8 * MIB)).await.unwrap();
        assert!(done && !hold.is_alone());
        drop(alone);
        for done in waiting {
            assert!(done.await.unwrap());
        }
        assert_eq!(*lanes.parked().borrow(), 0);
    }

    #[tokio::test]
    async fn who_used_least_is_alone_next() {
        let lanes = lanes(64);
        let order = Arc::new(Mutex::new(Vec::new()));
        let ((), alone) = lanes.run("a", true, |_| async {}).await.unwrap();
        let mut tasks = Vec::new();
        for (at, party) in ["a", "a", "a", "b"].into_iter().enumerate() {
            let (own, order) = (Arc::clone(&lanes), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                let ((), _hold) = own.run(party, true, |_| async {}).await.unwrap();
                order.lock().push(party);
            }));
            lanes.parked().wait_for(|count| *count == at + 1).await.unwrap();
        }
        // One that is given up while it waits gives its turn on.
        tasks.remove(0).abort();
        drop(alone);
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock(), ["b", "a", "a"]);
    }

    #[tokio::test]
    async fn what_is_kept_is_all_that_is_held() {
        let lanes = lanes(64);
        let free = || lanes.common.available_permits() as u64 * UNIT;
        let (_, small) = lanes.run("a", false, |hold| grown(hold, 8 * MIB)).await.unwrap();
        small.keep(MIB).await;
        assert_eq!(free(), 31 * MIB);
        let (_, large) = lanes.run("a", true, |hold| grown(hold, 20 * MIB)).await.unwrap();
        large.keep(2 * MIB).await;
        assert!(!large.is_alone());
        assert_eq!(free(), 29 * MIB);
        let (_, huge) = lanes.run("a", true, |hold| grown(hold, 20 * MIB)).await.unwrap();
        huge.keep(20 * MIB).await;
        assert!(huge.is_alone(), "too much for the common lane");
        drop((small, large, huge));
        assert_eq!(free(), 32 * MIB);
    }

    #[test]
    fn bytes_and_time_of_a_thread_are_measured() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let limits = LaneLimits {
            common_cpu: Duration::from_millis(20),
            ..LaneLimits::new(64 * MIB, Duration::from_millis(200))
        };
        let lanes = Lanes::new(limits);
        // Memory that nobody asked for is seen all the same.
        let outcome = runtime.block_on(lanes.run("a", true, |hold| async move {
            let meter = Metered::new(hold, 0);
            let mut kept = Vec::new();
            while meter.may_go_on(0) {
                kept.push(vec![1_u8; MIB as usize]);
            }
            kept.len()
        }));
        assert_eq!(outcome.map(|(kept, _)| kept), Err(Overrun::Bytes(32 * MIB)));
        // What only takes time leaves the common lane, and ends.
        let lanes_tried = Mutex::new(Vec::new());
        let outcome = runtime.block_on(lanes.run("a", false, |hold| {
            lanes_tried.lock().push(hold.is_alone());
            async move {
                let meter = Metered::new(hold, 0);
                while meter.may_go_on(0) {}
            }
        }));
        assert_eq!(outcome.map(|((), _)| ()), Err(Overrun::Time(Duration::from_millis(200))));
        assert_eq!(*lanes_tried.lock(), [false, true]);
        assert_eq!(*lanes.parked().borrow(), 0);
    }
}
