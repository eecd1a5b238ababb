//! Where documents are parsed and validated: on threads of their own, few at a time, so that whatever a document
//! makes the parser do holds up no other request.

use std::{
    num::NonZero,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    thread::available_parallelism,
    time::Duration,
};

use async_graphql::Response as GraphQlResponse;
use plural_kit::Turns;
use tokio::{sync::Semaphore, task::JoinError};

use crate::{auth::Party, document::Sender};

/// Documents without a credential that are read at once.
const PLACES_OF_NOBODY: usize = 2;
/// How long a request waits for a place.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same without a credential.
const PATIENCE_OF_NOBODY: Duration = Duration::from_secs(2);

/// Permits for documents that are read.
#[derive(Debug)]
pub(crate) struct Preparation {
    known: Permits,
    nobody: Permits,
}

#[derive(Debug)]
struct Permits {
    free: Arc<Semaphore>,
    /// Whoever has many documents to read waits for its own.
    turns: Turns<Party>,
    patience: Duration,
}

impl Permits {
    /// So many places, so many of them for one party.
    fn new((number, each): (usize, usize), patience: Duration) -> Self {
        Self { free: Arc::new(Semaphore::new(number)), turns: Turns::new(each, usize::MAX), patience }
    }
}

impl Default for Preparation {
    fn default() -> Self {
        let known = available_parallelism().map_or(2, NonZero::get).max(2);
        Self {
            known: Permits::new((known, known / 2), PATIENCE),
            nobody: Permits::new((PLACES_OF_NOBODY, PLACES_OF_NOBODY), PATIENCE_OF_NOBODY),
        }
    }
}

/// Why the work was not done.
#[derive(Debug)]
pub(crate) enum Unprepared {
    /// There was no place in time.
    Busy,
    /// It ended early.
    Ended(JoinError),
}

impl Preparation {
    /// Runs `work` on a thread of its own. It keeps its place until it ends, also when nobody waits for it any more.
    ///
    /// # Errors
    /// [`Unprepared::Busy`] when there is no place within seconds.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        (sender, party): (Sender, Party),
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unprepared> {
        let places = match sender {
            Sender::Nobody => &self.nobody,
            Sender::Known => &self.known,
        };
        let taken = async {
            let turn = places.turns.take(party).await?;
            let place = Arc::clone(&places.free).acquire_owned().await.ok()?;
            Some((turn, place))
        };
        let place = tokio::time::timeout(places.patience, taken).await;
        let Ok(Some(place)) = place else { return Err(Unprepared::Busy) };
        let work = tokio::task::spawn_blocking(move || {
            let outcome = work();
            drop(place);
            outcome
        });
        work.await.map_err(Unprepared::Ended)
    }
}

/// A request that was validated.
pub(crate) enum Prepared {
    /// It is not valid: this says why.
    Refused(Box<GraphQlResponse>),
    /// It is: this executes it.
    Valid(Pin<Box<dyn Future<Output = GraphQlResponse> + Send>>),
}

/// Runs the part of an execution that needs no other task: it stops after validation, once.
pub(crate) fn until_validated(execution: impl Future<Output = GraphQlResponse> + Send + 'static) -> Prepared {
    let mut execution: Pin<Box<dyn Future<Output = GraphQlResponse> + Send>> = Box::pin(execution);
    match execution.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(response) => Prepared::Refused(Box::new(response)),
        Poll::Pending => Prepared::Valid(execution),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const NOBODY: (Sender, Party) = (Sender::Nobody, Party::Address(None));
    const USER: (Sender, Party) = (Sender::Known, Party::User(1));
    const OTHER: (Sender, Party) = (Sender::Known, Party::User(2));

    #[tokio::test]
    async fn one_user_leaves_half_of_the_places_to_others() {
        let preparation = Preparation {
            known: Permits::new((2, 1), Duration::ZERO),
            nobody: Permits::new((PLACES_OF_NOBODY, PLACES_OF_NOBODY), Duration::ZERO),
        };
        let (release, wait) = mpsc::channel::<()>();
        let mut held = Box::pin(preparation.run(USER, move || wait.recv().is_ok()));
        assert!(futures::poll!(held.as_mut()).is_pending());
        assert!(matches!(preparation.run(USER, || ()).await, Err(Unprepared::Busy)));
        assert!(preparation.run(OTHER, || ()).await.is_ok());
        release.send(()).unwrap();
        assert!(held.await.unwrap());
        assert!(preparation.run(USER, || ()).await.is_ok());
    }

    #[tokio::test]
    async fn nobody_waits_for_nobody_and_leaves_the_others_their_places() {
        let preparation = Preparation {
            known: Permits::new((1, 1), PATIENCE),
            nobody: Permits::new((PLACES_OF_NOBODY, PLACES_OF_NOBODY), Duration::ZERO),
        };
        let mut held = Vec::new();
        for _ in 0..PLACES_OF_NOBODY {
            let (release, wait) = mpsc::channel::<()>();
            let mut run = Box::pin(preparation.run(NOBODY, move || wait.recv().is_ok()));
            assert!(futures::poll!(run.as_mut()).is_pending());
            held.push((release, run));
        }
        assert!(matches!(preparation.run(NOBODY, || ()).await, Err(Unprepared::Busy)));
        assert!(preparation.run(USER, || ()).await.is_ok());
        for (release, run) in held {
            release.send(()).unwrap();
            assert!(run.await.unwrap());
        }
        assert!(preparation.run(NOBODY, || ()).await.is_ok());
    }

    #[tokio::test]
    async fn what_panics_gives_its_place_back() {
        let preparation = Preparation::default();
        for _ in 0..=PLACES_OF_NOBODY {
            let outcome: Result<(), _> = preparation.run(NOBODY, || panic!("on purpose")).await;
            assert!(matches!(outcome, Err(Unprepared::Ended(_))));
        }
        assert!(preparation.run(NOBODY, || ()).await.is_ok());
    }
}
