//! The audit log, sent elsewhere as it grows: batch by batch in order, each until it was taken.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use plural_core::Result;
use plural_kit::{Backoff, ShutdownSignal};

use crate::app::App;
use crate::audit_chain::StoredBatch;
use crate::audit_verify::exported;

/// Batches that are read at once.
const AT_ONCE: u64 = 4;
/// Between two looks where nothing was announced.
const EVERY: Duration = Duration::from_secs(5);
/// The first pause after a failure, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(500), Duration::from_mins(1));

/// A place outside that takes the audit log.
#[async_trait]
pub trait AuditSink: Send + Sync + 'static {
    /// What tells it from others, also over restarts: its address without anything secret.
    fn name(&self) -> &str;
    /// Takes a part of the log: lines of JSON, each ended. Taken twice, it is the same part: `delivery` says which.
    ///
    /// # Errors
    /// Why it was not taken, without anything secret.
    async fn send(&self, delivery: &str, lines: &str) -> std::result::Result<(), String>;
    /// Whether a part that is being sent may be left where it is when the console stops: it is sent again, as a whole.
    fn may_be_left(&self) -> bool {
        true
    }
}

impl App {
    /// Up to which batch every stream has sent; nothing without streams.
    pub(crate) async fn audit_streams_sent(&self) -> Result<Option<u64>> {
        let mut sent = None;
        for sink in &self.audit_sinks {
            let at = self.store.audit_stream_at(sink.name()).await?.unwrap_or_default();
            sent = Some(sent.map_or(at, |sent: u64| sent.min(at)));
        }
        Ok(sent)
    }

    /// Sends the log to all streams until asked to stop.
    pub(crate) async fn audit_streams_run(self: &Arc<Self>, stop: &ShutdownSignal) -> Result<()> {
        let streams = self.audit_sinks.iter().map(|sink| self.audit_stream_run(&**sink, stop));
        futures::future::try_join_all(streams).await?;
        stop.requested().await;
        Ok(())
    }

    async fn audit_stream_run(&self, sink: &dyn AuditSink, stop: &ShutdownSignal) -> Result<()> {
        let mut linked = self.audit_linked.subscribe();
        let mut backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
        loop {
            linked.mark_unchanged();
            let wait = match self.audit_stream_pass(sink, stop).await {
                Ok(()) => {
                    backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
                    None
                }
                Err(error) => {
                    let wait = backoff.next_wait();
                    metrics::counter!("plural_audit_stream_failures_total", "stream" => sink.name().to_owned())
                        .increment(1);
                    tracing::warn!(stream = sink.name(), error, "cannot send the audit log; trying again");
                    Some(wait)
                }
            };
            let rested = async {
                match wait {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => _ = tokio::time::timeout(EVERY, linked.changed()).await,
                }
            };
            if stop.or(rested).await.is_none() {
                return Ok(());
            }
        }
    }

    /// Sends what there is.
    async fn audit_stream_pass(
        &self,
        sink: &dyn AuditSink,
        stop: &ShutdownSignal,
    ) -> std::result::Result<(), String> {
        let told = |error: plural_core::Error| error.log_text();
        let mut at = self.store.audit_stream_at(sink.name()).await.map_err(told)?.unwrap_or_default();
        loop {
            let head = self.store.audit_digest_at(None).await.map_err(told)?.map_or(0, |(head, _)| head);
            metrics::gauge!("plural_audit_stream_lag_batches", "stream" => sink.name().to_owned())
                .set(head.saturating_sub(at) as f64);
            let batches = self.store.audit_batches(at, AT_ONCE).await.map_err(told)?;
            if batches.is_empty() {
                return Ok(());
            }
            for stored in batches {
                if stop.is_requested() {
                    return Ok(());
                }
                let sent = self.audit_stream_send(sink, &stored);
                let sent = if sink.may_be_left() { stop.or(sent).await } else { Some(sent.await) };
                // One that hangs does not hold up whoever waits for this task to end.
                let Some(sent) = sent else { return Ok(()) };
                sent?;
                at = stored.batch.sequence;
                self.store.audit_stream_moved(sink.name(), at).await.map_err(told)?;
            }
        }
    }

    async fn audit_stream_send(
        &self,
        sink: &dyn AuditSink,
        stored: &StoredBatch,
    ) -> std::result::Result<(), String> {
        let told = |error: plural_core::Error| error.log_text();
        let mut lines = exported(&*self.store, stored).await.map_err(told)?;
        // Each part proves itself: whoever keeps them has a checkpoint of every batch.
        let signed = self.audit_key.sign(stored.batch.sequence, &stored.batch.digest(), self.now());
        lines.push_str(&signed.text());
        lines.push('\n');
        sink.send(&stored.batch.sequence.to_string(), &lines).await
    }
}
