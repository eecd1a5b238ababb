//! What the rows of a list ask for one by one is looked up for all of them at once.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    future::Future,
    hash::Hash,
    sync::Arc,
};

use async_graphql::Result;
use parking_lot::Mutex;
use plural_app::records::Record;
use plural_core::PageArgs;
use tokio::sync::OnceCell;

/// Look-ups of one kind in one request. A key that the look-up leaves out does not exist for the caller. Nothing is
/// remembered: what a mutation changed is looked up anew after it.
///
/// The rows of a list are resolved side by side in one task. Whoever asks first lets that task go round once, so that
/// the others have asked, too, before it looks up; no timer is involved.
pub(crate) struct Batch<K, V> {
    state: Mutex<State<K, V>>,
}

struct State<K, V> {
    /// The batch that each key waits in.
    by_key: HashMap<K, Arc<Group<K, V>>>,
    /// The one that takes further keys.
    open: Option<Arc<Group<K, V>>>,
}

struct Group<K, V> {
    keys: Mutex<Vec<K>>,
    found: OnceCell<Result<HashMap<K, V>>>,
}

/// Look-ups of a nested list, which has arguments of its own: rows that ask for the same page share a batch. A document has
/// few different ones.
pub(crate) struct Paged<K, V>(Mutex<HashMap<PageArgs, Arc<Batch<K, V>>>>);

/// Look-ups by id of every noun that is asked for.
#[derive(Default)]
pub(crate) struct ByNoun(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl ByNoun {
    /// The look-ups of one noun.
    pub(crate) fn of<N: Record>(&self) -> Arc<Batch<N::Id, N>> {
        let mut all = self.0.lock();
        let batch = all.entry(TypeId::of::<N>()).or_insert_with(|| Arc::new(Batch::<N::Id, N>::default()));
        // What is kept under a noun is of its type, so that the default is never made.
        Arc::clone(batch).downcast().unwrap_or_default()
    }
}

impl<K, V> Default for Paged<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K, V> Paged<K, V> {
    /// The look-ups of one page.
    pub(crate) fn of(&self, page: &PageArgs) -> Arc<Batch<K, V>> {
        Arc::clone(self.0.lock().entry(page.clone()).or_default())
    }
}

impl<K, V> Default for Batch<K, V> {
    fn default() -> Self {
        Self { state: Mutex::new(State { by_key: HashMap::new(), open: None }) }
    }
}

impl<K: Eq + Hash + Copy, V: Clone> Batch<K, V> {
    /// The value of `key`, from the one call of somebody's `look_up` with all keys of the batch.
    ///
    /// # Errors
    /// That call's, for all of its keys.
    pub(crate) async fn get<F>(&self, key: K, look_up: impl FnOnce(Vec<K>) -> F) -> Result<Option<V>>
    where
        F: Future<Output = Result<HashMap<K, V>>>,
    {
        let group = self.join(key);
        let found = group.found.get_or_init(async || {
            tokio::task::yield_now().await;
            look_up(self.close(&group)).await
        });
        found.await.as_ref().map(|found| found.get(&key).cloned()).map_err(Clone::clone)
    }

    fn join(&self, key: K) -> Arc<Group<K, V>> {
        let mut state = self.state.lock();
        if let Some(group) = state.by_key.get(&key) {
            return Arc::clone(group);
        }
        let group =
            Arc::clone(state.open.get_or_insert_with(|| {
                Arc::new(Group { keys: Mutex::new(Vec::new()), found: OnceCell::new() })
            }));
        group.keys.lock().push(key);
        state.by_key.insert(key, Arc::clone(&group));
        group
    }

    /// The keys of a batch, which takes no more of them: whoever asks for one of them from now on is in another.
    fn close(&self, group: &Arc<Group<K, V>>) -> Vec<K> {
        let mut state = self.state.lock();
        state.by_key.retain(|_, of| !Arc::ptr_eq(of, group));
        if state.open.as_ref().is_some_and(|open| Arc::ptr_eq(open, group)) {
            state.open = None;
        }
        // Copied: should this caller be dropped, the next one looks up the same.
        group.keys.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use futures::future::{join_all, try_join_all};

    use super::*;

    #[tokio::test]
    async fn rows_of_a_list_share_a_look_up_and_so_do_their_children() {
        let (parents, children) = (Batch::<u32, u32>::default(), Batch::<u32, u32>::default());
        let calls = Mutex::new(Vec::new());
        let rows = (0..100).map(|row| {
            let (parents, children, calls) = (&parents, &children, &calls);
            async move {
                let parent = parents.get(row / 2, |keys| async {
                    calls.lock().push(("parents", keys.len()));
                    tokio::task::yield_now().await;
                    Ok(keys.into_iter().map(|key| (key, key + 1000)).collect())
                });
                let parent = parent.await?.unwrap();
                children
                    .get(parent, |keys| async {
                        calls.lock().push(("children", keys.len()));
                        Ok(keys.into_iter().filter(|key| *key != 1000).map(|key| (key, key)).collect())
                    })
                    .await
            }
        });
        let found = try_join_all(rows).await.unwrap();
        assert_eq!(found[0], None, "what is left out does not exist");
        assert_eq!(found[99], Some(1049));
        assert_eq!(*calls.lock(), [("parents", 50), ("children", 50)]);
        // Asked again later, it is looked up again: it may have changed.
        let again = parents.get(3, |keys| async { Ok(keys.into_iter().map(|key| (key, 7)).collect()) });
        assert_eq!(again.await.unwrap(), Some(7));
    }

    #[tokio::test]
    async fn rows_that_ask_for_different_pages_have_look_ups_of_their_own() {
        let lists = Paged::<u32, u32>::default();
        let calls = Mutex::new(Vec::new());
        let rows = (0..10_u32).map(|row| {
            let (lists, calls) = (&lists, &calls);
            async move {
                let size = i64::from(row % 2 + 1);
                let look_up = |keys: Vec<u32>| async move {
                    calls.lock().push((size, keys.len()));
                    Ok(keys.into_iter().map(|key| (key, key)).collect())
                };
                lists.of(&PageArgs::first(size)).get(row, look_up).await
            }
        });
        let found = try_join_all(rows).await.unwrap();
        assert_eq!(found[9], Some(9));
        assert_eq!(*calls.lock(), [(1, 5), (2, 5)]);
    }

    #[tokio::test]
    async fn a_failure_is_everybodys_and_happens_once() {
        let batch = Batch::<u32, u32>::default();
        let calls = Mutex::new(0);
        let rows = (0..10).map(|row| {
            batch.get(row, |_| async {
                *calls.lock() += 1;
                Err(async_graphql::Error::new("no"))
            })
        });
        let found = join_all(rows).await;
        assert!(found.iter().all(|found| found.as_ref().is_err_and(|error| error.message == "no")));
        assert_eq!(*calls.lock(), 1);
    }

    #[tokio::test]
    async fn who_goes_away_leaves_the_look_up_to_the_others() {
        let batch = Batch::<u32, u32>::default();
        let mut first = Box::pin(batch.get(1, |_| std::future::pending()));
        let second = batch.get(2, |keys| async move { Ok(keys.into_iter().map(|key| (key, key)).collect()) });
        tokio::pin!(second);
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        assert_eq!(second.await.unwrap(), Some(2));
    }
}
