//! The clusters' audit log: lines wait in memory and are stored in batches, so that no request waits for them.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plural_core::cluster::Cluster;
use plural_core::cluster_audit::{ClusterAuditEntry, ClusterAuditRow};
use plural_core::{Error, Page, PageArgs, Result};
use plural_kit::{Backoff, ShutdownSignal};
use tokio::sync::mpsc;

use crate::access::Admin;
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;

/// Lines that wait for the database at most.
const QUEUE: usize = 32_768;
/// While fewer places than these are free, no new request begins: what it does could not be told.
const RESERVE: usize = 8_192;
/// Lines that are stored together at most: some 30 ms of a database's one writer, then others have a turn.
const BATCH: usize = 2_000;
/// Fewer lines than these wait for others. While there is a backlog nothing waits.
const SPARSE: usize = 500;
/// How long they wait.
const GATHER: Duration = Duration::from_millis(200);
/// A database that has not stored a batch for so long does not take it.
const SLOW: Duration = Duration::from_secs(1);

/// Lines on their way to the database.
pub(crate) struct ClusterAuditQueue {
    sender: mpsc::Sender<ClusterAuditEntry>,
    receiver: Mutex<Option<mpsc::Receiver<ClusterAuditEntry>>>,
    progress: Mutex<Progress>,
}

/// How the write of the current batch goes.
#[derive(Debug, Clone, Copy)]
enum Progress {
    /// There is none.
    Idle,
    /// It began then.
    Since(Instant),
    /// It failed, and is tried again.
    Failing,
}

impl ClusterAuditQueue {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Self { sender, receiver: Mutex::new(Some(receiver)), progress: Mutex::new(Progress::Idle) }
    }

    /// How many lines wait; also published as a metric.
    fn waiting(&self) -> usize {
        let waiting = self.sender.max_capacity() - self.sender.capacity();
        metrics::gauge!("plural_cluster_audit_waiting").set(waiting as f64);
        waiting
    }

    fn progress(&self, progress: Progress) {
        *self.progress.lock() = progress;
    }

    /// Why no request may begin.
    fn refusal(&self) -> Error {
        let waiting = self.waiting();
        let is_database = match *self.progress.lock() {
            Progress::Idle => false,
            Progress::Since(began) => began.elapsed() >= SLOW,
            Progress::Failing => true,
        };
        Error::unavailable(if is_database {
            "the database does not take the lines of the audit log, and no request goes unrecorded: \
             try again in a moment"
                .to_owned()
        } else {
            format!(
                "more requests come than the audit log can record ({waiting} lines wait): try again in a moment"
            )
        })
    }
}

impl App {
    /// Whether a request may begin as far as the audit log is concerned.
    ///
    /// # Errors
    /// [`Error::Unavailable`] while too many lines wait; it says whether the database or the requests are the reason.
    pub fn cluster_audit_ready(&self) -> Result<()> {
        if self.cluster_audit.sender.capacity() < RESERVE {
            return Err(self.cluster_audit.refusal());
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
        let cluster = self.authorized::<Cluster, Admin>(ctx, cluster).await?;
        self.store.cluster_audit_list(&cluster, &page.request()?).await
    }

    /// Stores lines until asked to stop, then what is left.
    pub(crate) async fn cluster_audit_run(&self, stop: &ShutdownSignal) -> Result<()> {
        let Some(mut queue) = self.cluster_audit.receiver.lock().take() else {
            return Err(Error::internal("writing the clusters' audit log", "already running"));
        };
        let mut batch = Vec::with_capacity(BATCH);
        self.cluster_audit.waiting();
        loop {
            // Not biased: under a load that never ends, the console stops all the same.
            tokio::select! {
                received = queue.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        return Ok(());
                    }
                    gather(&mut queue, &mut batch, stop).await;
                    self.cluster_audit_store(&mut batch, stop).await;
                }
                () = stop.requested() => break,
            }
        }
        queue.close();
        while queue.recv_many(&mut batch, BATCH).await > 0 {
            self.cluster_audit_store(&mut batch, stop).await;
        }
        Ok(())
    }

    /// Stores these lines, however often that has to be tried, and leaves none.
    async fn cluster_audit_store(&self, batch: &mut Vec<ClusterAuditEntry>, stop: &ShutdownSignal) {
        let lines = &self.cluster_audit;
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(5));
        lines.waiting();
        lines.progress(Progress::Since(Instant::now()));
        while let Err(error) = self.store.cluster_audit_write(batch).await {
            lines.progress(Progress::Failing);
            lines.waiting();
            tracing::error!(error = error.log_text(), "cannot store the clusters' audit log; trying again");
            let wait = backoff.next_wait();
            if stop.is_requested() && wait > Duration::from_secs(1) {
                tracing::error!(
                    lines = batch.len(),
                    "stopping with lines of the clusters' audit log unstored"
                );
                break;
            }
            tokio::time::sleep(wait).await;
        }
        lines.progress(Progress::Idle);
        lines.waiting();
        batch.clear();
    }
}

/// Gives lines that are few the time for others to come. Nothing waits while there is a backlog, or for a console that
/// stops.
async fn gather(
    queue: &mut mpsc::Receiver<ClusterAuditEntry>,
    batch: &mut Vec<ClusterAuditEntry>,
    stop: &ShutdownSignal,
) {
    if batch.len() >= SPARSE {
        return;
    }
    let _ = stop.or(tokio::time::sleep(GATHER)).await;
    while batch.len() < BATCH {
        let Ok(next) = queue.try_recv() else { break };
        batch.push(next);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use plural_core::ids::{ClusterId, RequestId, UserId};
    use plural_kit::Shutdown;

    use super::*;

    fn line() -> ClusterAuditEntry {
        ClusterAuditEntry {
            cluster_id: ClusterId::new(),
            user_id: UserId::new(),
            actor: "ada@example.com".into(),
            impersonated: Some(
                plural_core::cluster_audit::Impersonated::new("ada@example.com", &["ops".to_owned()]).into(),
            ),
            address: None,
            token_id: None,
            method: "GET".into(),
            path: "/api".into(),
            response_code: 200,
            duration_ms: Some(1),
            received_bytes: 0,
            sent_bytes: 0,
            request_id: RequestId::new(),
            recording_id: None,
            at: chrono::Utc::now(),
        }
    }

    fn lines(count: usize) -> Vec<ClusterAuditEntry> {
        std::iter::repeat_with(line).take(count).collect()
    }

    #[tokio::test]
    async fn few_lines_wait_for_others_and_a_backlog_does_not() {
        let (sender, mut queue) = mpsc::channel(QUEUE);
        let stop = Shutdown::new();
        let signal = stop.signal();
        let mut few = lines(SPARSE - 1);
        assert!(gather(&mut queue, &mut few, &signal).now_or_never().is_none(), "it did not wait");
        let mut many = lines(SPARSE);
        assert!(gather(&mut queue, &mut many, &signal).now_or_never().is_some(), "a backlog waited");
        // What came meanwhile joins them, up to a full batch; a console that stops waits for none.
        stop.request();
        for next in lines(BATCH) {
            sender.try_send(next).unwrap();
        }
        assert!(
            gather(&mut queue, &mut few, &signal).now_or_never().is_some(),
            "a console that stops waited"
        );
        assert_eq!((few.len(), queue.len()), (BATCH, SPARSE - 1));
    }

    #[test]
    fn a_refusal_names_who_is_slow() {
        let queue = ClusterAuditQueue::new();
        for _ in 0..3 {
            queue.sender.try_send(line()).unwrap();
        }
        let told = |progress| {
            queue.progress(progress);
            queue.refusal().to_string()
        };
        let busy = "more requests come than the audit log can record (3 lines wait): try again in a moment";
        assert_eq!(told(Progress::Idle), busy);
        assert_eq!(told(Progress::Since(Instant::now())), busy);
        let broken = told(Progress::Failing);
        assert!(broken.starts_with("the database does not take the lines"), "{broken}");
        let began = Instant::now().checked_sub(SLOW).unwrap();
        assert_eq!(told(Progress::Since(began)), broken);
    }
}
