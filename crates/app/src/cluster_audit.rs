//! The clusters' audit log: lines wait in memory and are stored in batches, so that no request waits for them.

use std::sync::Mutex;
use std::time::Duration;

use chrono::TimeDelta;
use plural_core::{ClusterAuditEntry, ClusterAuditRow, Error, Page, PageArgs, Result};
use plural_kit::{Backoff, ShutdownSignal};
use tokio::sync::mpsc;

use crate::access::Admin;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::fleet::lock;
use crate::ports::ClusterSelector;

/// Lines that wait for the database at most.
const QUEUE: usize = 32_768;
/// While fewer places than these are free, no new request begins: what it does could not be told.
const RESERVE: usize = 8_192;
/// Lines that are stored together at most.
const BATCH: usize = 1_000;
/// How long a line waits for others.
const GATHER: Duration = Duration::from_millis(200);
/// Lines are kept for so long.
const KEEP: TimeDelta = TimeDelta::days(30);

/// Lines on their way to the database.
pub(crate) struct ClusterAuditQueue {
    sender: mpsc::Sender<ClusterAuditEntry>,
    receiver: Mutex<Option<mpsc::Receiver<ClusterAuditEntry>>>,
}

impl ClusterAuditQueue {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Self { sender, receiver: Mutex::new(Some(receiver)) }
    }
}

impl App {
    /// Whether a request may begin as far as the audit log is concerned.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while more lines wait than the database takes.
    pub fn cluster_audit_ready(&self) -> Result<()> {
        if self.cluster_audit.sender.capacity() < RESERVE {
            return Err(Error::unavailable(
                "the audit log cannot keep up with the requests: try again in a moment",
            ));
        }
        Ok(())
    }

    /// Takes a line; it is stored within a moment. Never waits.
    pub fn cluster_audit_record(&self, entry: ClusterAuditEntry) {
        let Err(refused) = self.cluster_audit.sender.try_send(entry) else { return };
        // Only what was already under way when the database stopped answering comes here.
        metrics::counter!("plural_cluster_audit_lost_total").increment(1);
        let entry = refused.into_inner();
        tracing::error!(
            cluster.id = %entry.cluster_id, actor = %entry.actor, http.method = %entry.method,
            http.path = %entry.path, http.status = entry.response_code, request.id = %entry.request_id,
            "a line of the clusters' audit log could not be stored; this is it"
        );
    }

    /// Who asked a cluster for what; its administrators only.
    pub async fn cluster_audit_list(
        &self,
        ctx: &OpCtx,
        cluster: &ClusterSelector,
        page: &PageArgs,
    ) -> Result<Page<ClusterAuditRow>> {
        let cluster = self.store.cluster_for(ctx.actor(), cluster).await?.authorize::<Admin>(ctx)?;
        self.store.cluster_audit_list(&cluster, &page.request()?).await
    }

    /// Stores lines until asked to stop, then what is left.
    pub(crate) async fn cluster_audit_run(&self, stop: &ShutdownSignal) -> Result<()> {
        let Some(mut queue) = lock(&self.cluster_audit.receiver).take() else {
            return Err(Error::internal("writing the clusters' audit log", "already running"));
        };
        loop {
            tokio::select! {
                first = queue.recv() => {
                    let Some(first) = first else { return Ok(()) };
                    // Others are likely to follow; the last ones of a stopping console are not waited for.
                    let _ = stop.or(tokio::time::sleep(GATHER)).await;
                    self.cluster_audit_store(first, &mut queue, stop).await;
                }
                () = stop.requested() => break,
            }
        }
        queue.close();
        while let Some(first) = queue.recv().await {
            self.cluster_audit_store(first, &mut queue, stop).await;
        }
        Ok(())
    }

    async fn cluster_audit_store(
        &self,
        first: ClusterAuditEntry,
        queue: &mut mpsc::Receiver<ClusterAuditEntry>,
        stop: &ShutdownSignal,
    ) {
        let mut batch = vec![first];
        while batch.len() < BATCH {
            let Ok(next) = queue.try_recv() else { break };
            batch.push(next);
        }
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        while let Err(error) = self.store.cluster_audit_write(&batch).await {
            tracing::error!(error = error.log_text(), "cannot store the clusters' audit log; trying again");
            let wait = backoff.next_wait();
            if stop.is_requested() && wait > Duration::from_secs(1) {
                tracing::error!(
                    lines = batch.len(),
                    "stopping with lines of the clusters' audit log unstored"
                );
                return;
            }
            tokio::time::sleep(wait).await;
        }
    }

    /// Removes lines that were kept long enough; how many those were.
    pub(crate) async fn cluster_audit_forget(&self) -> Result<u64> {
        self.store.cluster_audit_prune(self.clock.now() - KEEP).await
    }
}
