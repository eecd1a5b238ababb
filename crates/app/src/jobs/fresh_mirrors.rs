//! Which mirrors of this replica are as new as what is known of their repositories. Of several who need one that is not, one fetches, and the
//! others wait for that.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use plural_core::ids::RepositoryId;
use tokio::sync::Mutex as Place;
use tokio::time::Instant;

use crate::ports::git::GitError;

/// How a fetch failed, and when.
type Failure = Option<(Instant, GitError)>;

/// The mirrors that are fresh, and who makes others so.
#[derive(Debug, Default)]
pub(super) struct FreshMirrors {
    fresh: Mutex<HashSet<RepositoryId>>,
    /// Of mirrors that somebody needs now.
    places: Mutex<HashMap<RepositoryId, Weak<Place<Failure>>>>,
}

impl FreshMirrors {
    /// It was fetched.
    pub(super) fn add(&self, id: RepositoryId) {
        self.fresh.lock().insert(id);
    }

    /// The repository moved, or its mirror is gone.
    pub(super) fn remove(&self, id: RepositoryId) {
        self.fresh.lock().remove(&id);
    }

    /// Nothing is known of any repository any more.
    pub(super) fn clear(&self) {
        self.fresh.lock().clear();
    }

    /// Waits until a mirror is fresh, by this fetch or by that of somebody who came before. Who waited for one that failed is told what it was
    /// told, and does not ask again: many who wait for a host that does not answer wait once.
    pub(super) async fn renew(
        &self,
        id: RepositoryId,
        fetch: impl Future<Output = Result<(), GitError>>,
    ) -> Result<(), GitError> {
        let asked = Instant::now();
        let place = self.place(id);
        let mut failure = place.lock().await;
        // Only in this place: the mark of somebody who still fetches says nothing.
        if self.fresh.lock().contains(&id) {
            return Ok(());
        }
        if let Some((_, error)) = failure.as_ref().filter(|(at, _)| *at >= asked) {
            return Err(error.clone());
        }
        // Marked before: a move that is told of meanwhile counts.
        let mut mark = Mark::new(self, id);
        let fetched = fetch.await;
        match &fetched {
            Ok(()) => mark.is_true = true,
            Err(error) => *failure = Some((Instant::now(), error.clone())),
        }
        fetched
    }

    fn place(&self, id: RepositoryId) -> Arc<Place<Failure>> {
        let mut places = self.places.lock();
        if let Some(place) = places.get(&id).and_then(Weak::upgrade) {
            return place;
        }
        places.retain(|_, place| place.strong_count() > 0);
        let place = Arc::default();
        places.insert(id, Arc::downgrade(&place));
        place
    }
}

/// That a mirror is fresh, as long as the fetch that makes it so may still succeed. Whoever fetches may go away at any time.
struct Mark<'a> {
    mirrors: &'a FreshMirrors,
    id: RepositoryId,
    is_true: bool,
}

impl<'a> Mark<'a> {
    fn new(mirrors: &'a FreshMirrors, id: RepositoryId) -> Self {
        mirrors.add(id);
        Self { mirrors, id, is_true: false }
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        if !self.is_true {
            self.mirrors.remove(self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::poll;
    use tokio::sync::oneshot;

    use super::*;

    fn never() -> impl Future<Output = Result<(), GitError>> {
        std::future::pending()
    }

    #[tokio::test]
    async fn a_fetch_that_nobody_waits_for_any_more_leaves_no_mark() {
        let (mirrors, id) = (FreshMirrors::default(), RepositoryId::new());
        {
            let mut renewal = Box::pin(mirrors.renew(id, never()));
            assert!(poll!(&mut renewal).is_pending());
        }
        let fetches = AtomicU32::new(0);
        for _ in 0..2 {
            let fetch = async {
                fetches.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            mirrors.renew(id, fetch).await.unwrap();
        }
        assert_eq!(fetches.load(Ordering::Relaxed), 1, "it was not fetched, and then it was");
        mirrors.remove(id);
        assert!(mirrors.renew(id, async { Err(GitError::terminal("asked")) }).await.is_err());
    }

    #[tokio::test]
    async fn whoever_comes_while_one_fetches_waits_for_it() {
        let (mirrors, id) = (FreshMirrors::default(), RepositoryId::new());
        for answer in [Err(GitError::terminal("no such host")), Ok(())] {
            let (sender, receiver) = oneshot::channel();
            let mut first = Box::pin(mirrors.renew(id, async { receiver.await.unwrap() }));
            assert!(poll!(&mut first).is_pending());
            let mut second = Box::pin(mirrors.renew(id, never()));
            assert!(poll!(&mut second).is_pending(), "the mirror is still old");
            // Another repository waits for nobody.
            mirrors.renew(RepositoryId::new(), async { Ok(()) }).await.unwrap();
            sender.send(answer.clone()).unwrap();
            assert_eq!(first.await, answer);
            assert_eq!(second.await, answer);
        }
        mirrors.renew(RepositoryId::new(), async { Ok(()) }).await.unwrap();
        assert_eq!(mirrors.places.lock().len(), 1, "nobody needs the others");
    }

    #[tokio::test]
    async fn a_move_that_is_told_of_while_one_fetches_counts() {
        let (mirrors, id) = (FreshMirrors::default(), RepositoryId::new());
        let moves = async {
            mirrors.remove(id);
            Ok(())
        };
        mirrors.renew(id, moves).await.unwrap();
        assert!(mirrors.renew(id, async { Err(GitError::terminal("asked again")) }).await.is_err());
    }
}
