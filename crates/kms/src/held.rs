//! A credential that lasts for a while: kept, and replaced before it ends.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use plural_app::ports::key_encryption::KeyError;
use tokio::sync::Mutex;

/// A credential is asked for again after so long, whatever was said of its time.
const LONGEST: Duration = Duration::from_hours(24);
/// How long nobody asks for another one after that was in vain, while the old one is good.
const AGAIN: Duration = Duration::from_secs(15);
/// How long the failure is told to all who ask, where there is no old one.
const REMEMBERED: Duration = Duration::from_secs(5);

/// A credential that is got when it is first needed, and again when half of its time is over.
pub(crate) struct Held<T>(Mutex<State<T>>);

struct State<T> {
    lasting: Option<Lasting<T>>,
    failed: Option<(Instant, KeyError)>,
}

struct Lasting<T> {
    value: T,
    renew: Instant,
    end: Instant,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self(Mutex::new(State { lasting: None, failed: None }))
    }
}

impl<T: Clone + Send> Held<T> {
    /// The credential that there is, or the one that `get` gets with the time that it lasts. One that is not over yet is used while no
    /// other can be got.
    ///
    /// `get` may be refused or take long: only one caller waits for it, and only while there is no good one. Whoever gives up leaves the
    /// old one to the others.
    pub(crate) async fn get(
        &self,
        get: impl Future<Output = Result<(T, Duration), KeyError>> + Send,
    ) -> Result<T, KeyError> {
        let now = Instant::now();
        let old = {
            let mut held = self.0.lock().await;
            match &mut held.lasting {
                Some(lasting) if now < lasting.end => {
                    if now < lasting.renew {
                        return Ok(lasting.value.clone());
                    }
                    lasting.renew = now + AGAIN;
                    lasting.value.clone()
                }
                _ => return self.first(&mut held, get).await,
            }
        };
        match get.await {
            Ok((value, lasts)) => {
                self.0.lock().await.lasting = Some(Lasting::of(value.clone(), lasts));
                Ok(value)
            }
            Err(error) => {
                tracing::warn!(error = %error, "cannot get another credential of the key management service; the old one is used");
                Ok(old)
            }
        }
    }

    /// There is none: all wait for the first.
    async fn first(
        &self,
        held: &mut State<T>,
        get: impl Future<Output = Result<(T, Duration), KeyError>> + Send,
    ) -> Result<T, KeyError> {
        if let Some((until, error)) = &held.failed
            && Instant::now() < *until
        {
            return Err(error.clone());
        }
        match get.await {
            Ok((value, lasts)) => {
                *held = State { lasting: Some(Lasting::of(value.clone(), lasts)), failed: None };
                Ok(value)
            }
            Err(error) => {
                held.failed = Some((Instant::now() + REMEMBERED, error.clone()));
                Err(error)
            }
        }
    }

    /// It was refused: another one is got next time.
    pub(crate) async fn forget(&self) {
        *self.0.lock().await = State { lasting: None, failed: None };
    }

    /// Half of its time is over, as far as this is concerned.
    #[cfg(test)]
    pub(crate) async fn grow_old(&self) {
        if let Some(lasting) = self.0.lock().await.lasting.as_mut() {
            lasting.renew = Instant::now();
        }
    }
}

impl<T> Lasting<T> {
    fn of(value: T, lasts: Duration) -> Self {
        let (now, lasts) = (Instant::now(), lasts.min(LONGEST));
        Self { value, renew: now + lasts / 2, end: now + lasts }
    }
}

#[cfg(test)]
mod tests;
