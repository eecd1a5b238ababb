//! A cluster's answer on its way to the client, and what the audit log is told of it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Instant,
};

use axum::http::StatusCode;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use plural_app::App;
use plural_app::proxy::ProxyGrant;
use plural_core::cluster_audit::ClusterAuditEntry;
use plural_core::ids::RecordingId;
use plural_tunnel::proxy::{Broken, Receiving, Sending};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::{Abort, limits::Permit};

/// One line of the audit log in the making; it is written when this is dropped.
pub(super) struct AuditGuard {
    app: Arc<App>,
    entry: Option<ClusterAuditEntry>,
    started: Instant,
    received: Arc<AtomicU64>,
    sent: u64,
}

impl AuditGuard {
    pub(super) fn new(app: Arc<App>, entry: ClusterAuditEntry, started: Instant) -> Self {
        Self { app, entry: Some(entry), started, received: Arc::default(), sent: 0 }
    }

    pub(super) fn status(&mut self, status: StatusCode) {
        if let Some(entry) = &mut self.entry {
            entry.response_code = status.as_u16();
        }
    }

    /// Counts what comes from the client.
    pub(super) fn received(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.received)
    }

    /// So many bytes more went to the client.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Another replica tells.
    pub(super) fn elsewhere(mut self) {
        self.entry = None;
    }

    /// It is a shell that is recorded.
    pub(super) fn recorded(&mut self, id: RecordingId) {
        if let Some(entry) = &mut self.entry {
            entry.recording_id = Some(id);
        }
    }

    /// Tells that it began; what became of it follows when it ends.
    pub(super) fn begun(&self) {
        if let Some(entry) = self.entry.clone() {
            self.app.cluster_audit_record(entry);
        }
    }
}

impl Drop for AuditGuard {
    fn drop(&mut self) {
        let Some(mut entry) = self.entry.take() else { return };
        entry.duration_ms = Some(u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX));
        entry.received_bytes = self.received.load(Ordering::Relaxed);
        entry.sent_bytes = self.sent;
        self.app.cluster_audit_record(entry);
    }
}

/// What must stay until the answer has ended.
#[expect(dead_code, reason = "held for their Drop")]
pub(super) struct Kept {
    pub(super) sending: Option<Sending>,
    pub(super) pump: Option<Abort>,
    pub(super) place: Permit,
}

/// The body of an answer. Ends early when the person's access does.
pub(super) struct AnswerBody {
    receiving: Receiving,
    revoked: CancellationToken,
    /// Made when the body has to wait for the first time: most never do.
    watch: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    told: Option<AuditGuard>,
    /// Held while the answer is on its way, so that the check of who may do what knows that it is.
    _grant: Arc<ProxyGrant>,
    _kept: Kept,
}

impl AnswerBody {
    pub(super) fn new(receiving: Receiving, grant: &Arc<ProxyGrant>, kept: Kept) -> Self {
        Self {
            receiving,
            revoked: grant.revoked().clone(),
            watch: None,
            told: None,
            _grant: Arc::clone(grant),
            _kept: kept,
        }
    }

    pub(super) fn told(mut self, told: AuditGuard) -> Self {
        self.told = Some(told);
        self
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if self.revoked.is_cancelled() {
            return Poll::Ready(Some(Err(Broken::new("access was revoked"))));
        }
        match self.receiving.poll_piece(cx) {
            Poll::Ready(Some(Ok(piece))) => {
                if let Some(told) = &mut self.told {
                    told.sent(piece.len());
                }
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Poll::Ready(Some(Err(broken))) => Poll::Ready(Some(Err(broken))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let revoked = self.revoked.clone();
                let watch = self.watch.get_or_insert_with(|| Box::pin(revoked.cancelled_owned()));
                match watch.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Some(Err(Broken::new("access was revoked")))),
                    Poll::Pending => Poll::Pending,
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.receiving.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.receiving.size_hint()
    }
}
