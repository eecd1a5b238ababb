//! One way to stop: a token that every task watches, set by SIGINT, SIGTERM or a caller.

use std::{future::Future, io};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The owner's end: asks everything that holds a [`ShutdownSignal`] to stop.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    token: CancellationToken,
}

/// A task's end: tells when to stop.
#[derive(Debug, Clone)]
pub struct ShutdownSignal {
    token: CancellationToken,
}

impl Shutdown {
    /// A shutdown that nothing has asked for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What tasks watch.
    pub fn signal(&self) -> ShutdownSignal {
        ShutdownSignal { token: self.token.clone() }
    }

    /// Ask all to stop. Asking twice is asking once.
    pub fn request(&self) {
        self.token.cancel();
    }

    /// Resolves when the process is told to stop by SIGINT (Ctrl-C) or SIGTERM, then asks all to
    /// stop. A second signal ends the process at once: a person who presses Ctrl-C twice means it.
    ///
    /// # Errors
    /// When signal handlers cannot be installed.
    pub async fn on_process_signal(&self) -> io::Result<()> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            () = self.token.cancelled() => return Ok(()),
        }
        self.request();
        tokio::spawn(async move {
            // Owned by the process itself: it either ends it or goes with it.
            tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
            std::process::exit(130);
        });
        Ok(())
    }
}

impl ShutdownSignal {
    /// Resolves once stopping was asked for.
    pub async fn requested(&self) {
        self.token.cancelled().await;
    }

    /// Whether stopping was asked for.
    pub fn is_requested(&self) -> bool {
        self.token.is_cancelled()
    }

    /// A signal that follows this one and can also be requested by itself through the returned owner.
    pub fn child(&self) -> Shutdown {
        Shutdown { token: self.token.child_token() }
    }

    /// Runs `work` until it ends or stopping is asked for; `None` in the second case.
    pub async fn or<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.token.cancelled() => None,
            done = work => Some(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_child_stops_alone_and_with_its_parent() {
        let parent = Shutdown::new();
        let child = parent.signal().child();
        child.request();
        assert!(child.signal().is_requested());
        assert!(!parent.signal().is_requested());

        let second = parent.signal().child();
        parent.request();
        second.signal().requested().await;
        assert_eq!(parent.signal().or(std::future::pending::<()>()).await, None);
    }
}
