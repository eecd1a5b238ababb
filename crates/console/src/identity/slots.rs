//! What issuers told, by issuer: each is asked by one at a time, and whoever waited meanwhile has that answer.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use plural_app::ports::identity::ProviderError;

use super::REMEMBERED;

/// Something that was read then.
#[derive(Debug, Clone)]
pub(super) struct Dated<T> {
    pub(super) what: T,
    pub(super) read: Instant,
}

/// What is known of one.
#[derive(Debug)]
struct Slot<T> {
    kept: Option<Dated<T>>,
    /// When it was last asked in vain.
    failed: Option<Instant>,
}

/// What issuers told.
#[derive(Debug)]
pub(super) struct Slots<T> {
    all: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Slot<T>>>>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { all: Mutex::default() }
    }
}

impl<T: Clone> Slots<T> {
    /// What an issuer told, at most `lasts` old or since this was called; else what `read` reads now. After a failure it is not asked
    /// within `pause`.
    pub(super) async fn get(
        &self,
        issuer: &str,
        lasts: Duration,
        pause: Duration,
        read: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<Dated<T>, ProviderError> {
        let came = Instant::now();
        let slot = {
            let mut all = self.all.lock();
            if all.len() >= REMEMBERED && !all.contains_key(issuer) {
                all.clear();
            }
            let empty = || Arc::new(tokio::sync::Mutex::new(Slot { kept: None, failed: None }));
            Arc::clone(all.entry(issuer.to_owned()).or_insert_with(empty))
        };
        let mut slot = slot.lock().await;
        let is_good = |kept: &Dated<T>| kept.read >= came || kept.read.elapsed() < lasts;
        if let Some(kept) = slot.kept.clone().filter(is_good) {
            return Ok(kept);
        }
        if slot.failed.is_some_and(|at| at >= came || at.elapsed() < pause) {
            return Err(ProviderError::Unavailable(format!("{issuer} did not answer a moment ago")));
        }
        let answer = read.await;
        slot.failed = answer.is_err().then(Instant::now);
        let kept = Dated { what: answer?, read: Instant::now() };
        slot.kept = Some(kept.clone());
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Many at once, of whom one asks.
    async fn together(slots: &Slots<u32>, asked: &AtomicU32, fails: bool) -> Vec<Option<u32>> {
        let all = (0..20).map(|_| {
            slots.get("https://id.test", Duration::ZERO, Duration::ZERO, async {
                // The others come meanwhile.
                for _ in 0..100 {
                    tokio::task::yield_now().await;
                }
                let number = asked.fetch_add(1, Ordering::SeqCst);
                if fails { Err(ProviderError::Unavailable("not now".to_owned())) } else { Ok(number) }
            })
        });
        let answers = futures::future::join_all(all).await;
        answers.into_iter().map(|answer| answer.ok().map(|dated| dated.what)).collect()
    }

    #[tokio::test]
    async fn of_many_at_once_one_asks() {
        let (slots, asked) = (Slots::default(), AtomicU32::new(0));
        assert_eq!(together(&slots, &asked, false).await, [Some(0); 20]);
        assert_eq!(together(&slots, &asked, true).await, [None; 20]);
        assert_eq!(
            together(&slots, &asked, false).await,
            [Some(2); 20],
            "a failure is not remembered for longer"
        );
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        let again = async { Ok(3) };
        let kept = slots.get("https://id.test", Duration::from_mins(5), Duration::ZERO, again).await;
        assert_eq!(kept.unwrap().what, 2);
    }

    #[tokio::test]
    async fn one_that_failed_is_left_alone_for_a_while() {
        let slots = Slots::<u32>::default();
        let fails = async { Err(ProviderError::Unavailable("not now".to_owned())) };
        assert!(slots.get("https://id.test", Duration::ZERO, Duration::from_mins(5), fails).await.is_err());
        let again = async { Ok(1) };
        let kept = slots.get("https://id.test", Duration::ZERO, Duration::from_mins(5), again).await;
        assert!(kept.unwrap_err().to_string().contains("a moment ago"));
    }
}
