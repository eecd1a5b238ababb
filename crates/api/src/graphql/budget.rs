//! What an answer may take, counted while it is made.
//!
//! A document is weighed before it runs, but nobody knows how long its lists and texts are until they are read. So
//! each field of an answer is charged to its request's budget. When that is spent the request ends there and then.

use std::{
    future::{pending, poll_fn},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
};

use async_graphql::{
    ServerError, ServerResult, ValidationResult, Value,
    extensions::{Extension, ExtensionContext, ExtensionFactory, NextResolve, NextValidation, ResolveInfo},
};
use tokio::sync::Notify;

/// Fields and items of one answer.
pub(crate) const MOST_NODES: u64 = 200_000;
/// Bytes of one answer.
pub(crate) const MOST_BYTES: u64 = 32 << 20;
/// Nodes of all answers that are being made.
const MOST_NODES_OF_ALL: u64 = 600_000;
/// Nodes that a request takes from what is there for all at a time, and after which it lets others go on.
const PORTION: u64 = 1_024;
/// Bytes of an error beside its text.
const BYTES_OF_ERROR: u64 = 256;
/// Lists that are named when they are cut; of the others only the number is told.
const MOST_CUTS: usize = 100;

/// What is there for the answers of all requests together.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    nodes: AtomicU64,
}

/// What one request may take. Gives back what it took when it is dropped.
#[derive(Debug)]
pub(crate) struct Budget {
    pool: Arc<Pool>,
    nodes: AtomicU64,
    bytes: AtomicU64,
    /// Nodes that were taken from the pool.
    taken: AtomicU64,
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
    /// The answers of all requests together have.
    Pool,
}

#[derive(Debug, Default)]
struct Cuts {
    named: Vec<Value>,
    all: u64,
}

impl Budget {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self {
            pool,
            nodes: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            taken: AtomicU64::new(0),
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
        let all_bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if nodes > MOST_NODES {
            return Err(Shortage::Nodes);
        }
        if all_bytes > MOST_BYTES {
            return Err(Shortage::Bytes);
        }
        if !nodes.is_multiple_of(PORTION) {
            return Ok(false);
        }
        // Small answers never come here: they are made however busy the console is.
        let of_all = self.pool.nodes.fetch_add(PORTION, Ordering::Relaxed) + PORTION;
        self.taken.fetch_add(PORTION, Ordering::Relaxed);
        if of_all > MOST_NODES_OF_ALL { Err(Shortage::Pool) } else { Ok(true) }
    }

    fn run_short(&self, shortage: Shortage) {
        lock(&self.short).get_or_insert(shortage);
        self.is_short.store(true, Ordering::Release);
        self.told.notify_one();
    }

    /// Ends when the budget is spent.
    pub(crate) async fn spent(&self) -> Shortage {
        loop {
            if self.is_short.load(Ordering::Acquire)
                && let Some(shortage) = *lock(&self.short)
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
        let mut cuts = lock(&self.cuts);
        cuts.all += 1;
        if cuts.named.len() < MOST_CUTS {
            let told = [("path", path), ("count", count.into()), ("limit", limit.into())];
            let told = told.into_iter().map(|(name, value)| (async_graphql::Name::new(name), value));
            cuts.named.push(Value::Object(told.collect()));
        }
    }

    /// What the answer tells of lists that were cut: those of them that are named, and how many there are.
    pub(crate) fn cuts(&self) -> Option<(Value, u64)> {
        let cuts = lock(&self.cuts);
        (cuts.all > 0).then(|| (Value::List(cuts.named.clone()), cuts.all))
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        self.pool.nodes.fetch_sub(self.taken.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn a_budget_ends_and_gives_back_what_it_took() {
        let pool = Arc::new(Pool::default());
        let budget = Budget::new(Arc::clone(&pool));
        for _ in 0..MOST_NODES {
            budget.charge(1).unwrap();
        }
        assert_eq!(budget.charge(1), Err(Shortage::Nodes));
        assert_eq!(Budget::new(Arc::clone(&pool)).charge(MOST_BYTES + 1), Err(Shortage::Bytes));
        let others: Vec<_> = (0..3).map(|_| Budget::new(Arc::clone(&pool))).collect();
        let outcome = others.iter().find_map(|other| (0..MOST_NODES).find_map(|_| other.charge(1).err()));
        assert_eq!(outcome, Some(Shortage::Pool));
        assert_eq!(
            Budget::new(Arc::clone(&pool)).charge(1),
            Ok(false),
            "small answers are made all the same"
        );
        drop((budget, others));
        assert_eq!(pool.nodes.load(Ordering::Relaxed), 0);
    }
}
