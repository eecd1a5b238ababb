//! A credential that lasts for a while: kept, and replaced before it ends.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use plural_app::ports::key_encryption::KeyError;
use tokio::sync::Mutex;

/// A credential is asked for again after so long, whatever was said of its time.
const LONGEST: Duration = Duration::from_hours(24);

/// A credential that is got when it is first needed, and again when half of its time is over.
pub(crate) struct Held<T>(Mutex<Option<Lasting<T>>>);

struct Lasting<T> {
    value: T,
    renew: Instant,
    end: Instant,
}

impl<T> Default for Held<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone + Send> Held<T> {
    /// The credential that there is, or the one that `get` gets with the time that it lasts. One that is not over yet is used while no
    /// other can be got.
    pub(crate) async fn get(
        &self,
        get: impl Future<Output = Result<(T, Duration), KeyError>> + Send,
    ) -> Result<T, KeyError> {
        let mut held = self.0.lock().await;
        if let Some(lasting) = held.as_ref().filter(|lasting| Instant::now() < lasting.renew) {
            return Ok(lasting.value.clone());
        }
        match get.await {
            Ok((value, lasts)) => {
                let (now, lasts) = (Instant::now(), lasts.min(LONGEST));
                *held = Some(Lasting { value: value.clone(), renew: now + lasts / 2, end: now + lasts });
                Ok(value)
            }
            Err(error @ KeyError::Unavailable(_)) => {
                let old = held.as_ref().filter(|lasting| Instant::now() < lasting.end);
                old.map(|lasting| lasting.value.clone()).ok_or(error)
            }
            Err(error) => Err(error),
        }
    }

    /// It was refused: another one is got next time.
    pub(crate) async fn forget(&self) {
        *self.0.lock().await = None;
    }

    /// Half of its time is over, as far as this is concerned.
    #[cfg(test)]
    pub(crate) async fn grow_old(&self) {
        if let Some(lasting) = self.0.lock().await.as_mut() {
            lasting.renew = Instant::now();
        }
    }
}
