//! What an answer may take, counted while it is made.
//!
//! A document is weighed before it runs, but nobody knows how long its lists and texts are until they are read. So
//! each field of an answer is charged to its request's budget. When that is spent the request ends there and then.

use std::{
    future::{pending, poll_fn},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
};

use async_graphql::{
    ServerError, ServerResult, ValidationResult, Value,
    extensions::{Extension, ExtensionContext, ExtensionFactory, NextResolve, NextValidation, ResolveInfo},
};
use parking_lot::Mutex;
use plural_kit::{Permit, Permits};
use tokio::sync::Notify;

use crate::auth::Party;

/// Fields and items of one answer.
pub(crate) const MOST_NODES: u64 = 200_000;
/// Bytes of one answer.
pub(crate) const MOST_BYTES: u64 = 32 << 20;
/// Nodes of all answers that are being made. One party has as many as it leaves to others.
const NODES: usize = 900_000;
/// Bytes of the same, and of those of one party.
const BYTES: (usize, usize) = (256 << 20, 64 << 20);
/// Nodes that a request takes from what is there for all at a time, and after which it lets others go on.
const PORTION: u64 = 1_024;
/// Bytes that it takes at a time.
const PORTION_OF_BYTES: u64 = 64 << 10;
/// Bytes of an error beside its text.
const BYTES_OF_ERROR: u64 = 256;
/// Lists that are named when they are cut; of the others only the number is told.
const MOST_CUTS: usize = 100;

/// What is there for the answers of all requests together.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    nodes: Arc<Permits<Party>>,
    bytes: Arc<Permits<Party>>,
}

impl Default for Pool {
    fn default() -> Self {
        Self { nodes: Permits::leaving_room(NODES), bytes: Permits::new(BYTES.0, BYTES.1) }
    }
}

/// What one request may take. Gives back what it took when it is dropped.
#[derive(Debug)]
pub(crate) struct Budget {
    pool: Pool,
    party: Party,
    nodes: AtomicU64,
    bytes: AtomicU64,
    /// What was taken from the pool.
    taken: Mutex<Vec<Permit<Party>>>,
    short: Mutex<Option<Shortage>>,
    is_short: AtomicBool,
    told: Notify,
    cuts: Mutex<Cuts>,
}

/// Why a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Its answer has too many nodes.
    Nodes,
    /// Its answer has too many bytes.
    Bytes,
    /// The answers that are being made have, those of all requests together or those of one party.
    Pool,
    /// The answers that were made and not read have too many bytes.
    Unread,
}

#[derive(Debug, Default)]
struct Cuts {
    named: Vec<Value>,
    all: u64,
}

impl Budget {
    pub(crate) fn new(pool: Pool, party: Party) -> Self {
        Self {
            pool,
            party,
            nodes: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            taken: Mutex::default(),
            short: Mutex::new(None),
            is_short: AtomicBool::new(false),
            told: Notify::new(),
            cuts: Mutex::default(),
        }
    }

    /// Charges one node of so many bytes. Answers whether the request should let others go on.
    ///
    /// # Errors
    /// When the budget is spent.
    fn charge(&self, bytes: u64) -> Result<bool, Shortage> {
        let nodes = self.nodes.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes_before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let all_bytes = bytes_before + bytes;
        if nodes > MOST_NODES {
            return Err(Shortage::Nodes);
        }
        if all_bytes > MOST_BYTES {
            return Err(Shortage::Bytes);
        }
        // Small answers take nothing: they are made however busy the console is.
        let is_portion = nodes.is_multiple_of(PORTION);
        if is_portion {
            self.take(&self.pool.nodes, PORTION)?;
        }
        let portions = all_bytes / PORTION_OF_BYTES - bytes_before / PORTION_OF_BYTES;
        if portions > 0 {
            self.take(&self.pool.bytes, portions * PORTION_OF_BYTES)?;
        }
        Ok(is_portion)
    }

    fn take(&self, places: &Arc<Permits<Party>>, count: u64) -> Result<(), Shortage> {
        let place = places.take_many(self.party, count as usize).ok_or(Shortage::Pool)?;
        self.taken.lock().push(place);
        Ok(())
    }

    fn run_short(&self, shortage: Shortage) {
        self.short.lock().get_or_insert(shortage);
        self.is_short.store(true, Ordering::Release);
        self.told.notify_one();
    }

    /// Ends when the budget is spent.
    pub(crate) async fn spent(&self) -> Shortage {
        loop {
            if self.is_short.load(Ordering::Acquire)
                && let Some(shortage) = *self.short.lock()
            {
                return shortage;
            }
            self.told.notified().await;
        }
    }

    /// Bytes of the answer so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Tells that a list was cut, in `extensions.truncated` of the answer.
    pub(crate) fn cut(&self, path: Value, count: usize, limit: usize) {
        let mut cuts = self.cuts.lock();
        cuts.all += 1;
        if cuts.named.len() < MOST_CUTS {
            let told = [("path", path), ("count", count.into()), ("limit", limit.into())];
            let told = told.into_iter().map(|(name, value)| (async_graphql::Name::new(name), value));
            cuts.named.push(Value::Object(told.collect()));
        }
    }

    /// What the answer tells of lists that were cut: those of them that are named, and how many there are.
    pub(crate) fn cuts(&self) -> Option<(Value, u64)> {
        let cuts = self.cuts.lock();
        (cuts.all > 0).then(|| (Value::List(cuts.named.clone()), cuts.all))
    }
}

/// Charges every field of an answer to the [`Budget`] among the request's data, and stops each request once between
/// its validation and its execution.
#[derive(Debug)]
pub(super) struct Counted;

impl ExtensionFactory for Counted {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Self)
    }
}

#[async_graphql::async_trait::async_trait]
impl Extension for Counted {
    /// Whoever polls a request for the first time gets it back here, with the work done that needs a processor and
    /// nothing else. It is for them to poll it again, so nobody is woken.
    async fn validation(
        &self,
        ctx: &ExtensionContext<'_>,
        next: NextValidation<'_>,
    ) -> Result<ValidationResult, Vec<ServerError>> {
        let result = next.run(ctx).await?;
        let mut stopped = false;
        poll_fn(|_| if std::mem::replace(&mut stopped, true) { Poll::Ready(()) } else { Poll::Pending })
            .await;
        Ok(result)
    }

    async fn resolve(
        &self,
        ctx: &ExtensionContext<'_>,
        info: ResolveInfo<'_>,
        next: NextResolve<'_>,
    ) -> ServerResult<Option<Value>> {
        let name = info.alias.unwrap_or(info.name).len();
        let is_leaf = info.field.selection_set.node.items.is_empty();
        let result = next.run(ctx, info).await;
        let Some(budget) = ctx.data_opt::<Arc<Budget>>() else { return result };
        let bytes = match &result {
            Ok(Some(value)) if is_leaf => name as u64 + bytes_of(value),
            Ok(_) => name as u64,
            Err(error) => name as u64 + error.message.len() as u64 + BYTES_OF_ERROR,
        };
        match budget.charge(bytes) {
            Ok(false) => {}
            Ok(true) => tokio::task::yield_now().await,
            Err(shortage) => {
                budget.run_short(shortage);
                // The request is dropped as a whole: an error here would be one of thousands.
                pending::<()>().await;
            }
        }
        result
    }
}

/// About as many bytes as the value has in JSON.
fn bytes_of(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Number(_) | Value::Boolean(_) => 8,
        Value::String(text) => 2 + text.len() as u64,
        Value::Enum(name) => 2 + name.len() as u64,
        Value::Binary(bytes) => bytes.len() as u64,
        Value::List(items) => 2 + items.iter().map(|item| 1 + bytes_of(item)).sum::<u64>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| 4 + name.len() as u64 + bytes_of(value)).sum::<u64>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(pool: &Pool, user: u128) -> Budget {
        let budget = Budget::new(pool.clone(), Party::User(user));
        for _ in 0..MOST_NODES {
            budget.charge(1).unwrap();
        }
        budget
    }

    fn refused(pool: &Pool, user: u128) -> Option<Shortage> {
        let budget = Budget::new(pool.clone(), Party::User(user));
        (0..MOST_NODES).find_map(|_| budget.charge(1).err())
    }

    #[test]
    fn a_budget_ends_and_gives_back_what_it_took() {
        let pool = Pool::default();
        let first = spent(&pool, 1);
        assert_eq!(first.charge(1), Err(Shortage::Nodes));
        let budget = |user| Budget::new(pool.clone(), Party::User(user));
        assert_eq!(budget(1).charge(MOST_BYTES + 1), Err(Shortage::Bytes));
        let second = spent(&pool, 1);
        assert_eq!(refused(&pool, 1), Some(Shortage::Pool), "half is all that one user has");
        let other = spent(&pool, 2);
        assert_eq!(refused(&pool, 3), Some(Shortage::Pool));
        assert_eq!(budget(1).charge(1), Ok(false), "small answers are made all the same");
        drop((first, second, other));
        assert_eq!(refused(&pool, 1), None);
    }

    #[test]
    fn bytes_of_answers_in_the_making_are_counted_together() {
        let pool = Pool::default();
        let large = |user| {
            let budget = Budget::new(pool.clone(), Party::User(user));
            budget.charge(MOST_BYTES).map(|_| budget)
        };
        let held: Vec<_> = (0..8).map(|n| large(n / 2).unwrap()).collect();
        assert_eq!(large(0).err(), Some(Shortage::Pool), "a user's share");
        assert_eq!(large(9).err(), Some(Shortage::Pool), "all there is");
        assert_eq!(Budget::new(pool.clone(), Party::User(9)).charge(1_000), Ok(false));
        drop(held);
        assert!(large(9).is_ok());
    }
}
