//! What the console is told: only what changed, many services in one message, sent again until it is
//! acknowledged.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use plural_core::ids::{ServiceId, StackRunId};
use plural_kit::Backoff;
use plural_tunnel::{
    Console,
    v1::{AgentMessage, ReportRequest, ServiceReport, StackRunReport, SyncPlan, agent_message},
};
use prost::Message;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::Instant,
};

/// Changes that come this close together travel together.
const COALESCE: Duration = Duration::from_millis(25);
/// Services in one message.
const BATCH_SERVICES: usize = 200;
/// Bytes in one message, about.
const BATCH_BYTES: usize = 1 << 20;
/// How long an acknowledgement may take.
const ACK_DEADLINE: Duration = Duration::from_secs(20);

/// Where reports go up while a stream is open.
pub(crate) type Uplink = Option<mpsc::Sender<AgentMessage>>;

#[derive(Debug, Default)]
struct State {
    pending: BTreeMap<ServiceId, ServiceReport>,
    /// Hash of what was last told, or is being told right now.
    told: HashMap<ServiceId, u64>,
    /// The same of runs.
    pending_runs: BTreeMap<StackRunId, StackRunReport>,
    told_runs: HashMap<StackRunId, u64>,
    /// Runs of which only one thing is still to be told: then they are forgotten.
    last_runs: HashSet<StackRunId>,
    acked: u64,
}

/// What travels in one message.
#[derive(Debug, Default)]
struct Batch {
    services: Vec<(ServiceId, ServiceReport)>,
    runs: Vec<(StackRunId, StackRunReport)>,
}

/// The box of outgoing reports.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    state: Mutex<State>,
    ready: Notify,
    answered: Notify,
}

impl Reports {
    /// Puts the newest report of a service into the box; one that says nothing new is dropped.
    pub(crate) fn submit(&self, service: ServiceId, mut report: ServiceReport) {
        let mut state = self.lock();
        if report.plan.is_none() {
            // What a sync did is told once: the next one, which had nothing to do, does not take its place before it was sent.
            let untold = state.pending.get(&service).and_then(|waiting| waiting.plan.as_ref());
            let same =
                |plan: &&SyncPlan| plan.request_id.is_empty() && plan.revision_id == report.revision_id;
            report.plan = untold.filter(same).cloned();
        }
        let hash = hash_of(&report);
        let known = state.told.get(&service) == Some(&hash);
        if known && !state.pending.contains_key(&service) {
            return;
        }
        if state.pending.get(&service).is_some_and(|waiting| outlasts(waiting, &report)) {
            return;
        }
        state.pending.insert(service, report);
        drop(state);
        self.ready.notify_one();
    }

    /// Forgets what was told of a service.
    pub(crate) fn forget(&self, service: ServiceId) {
        let mut state = self.lock();
        state.pending.remove(&service);
        state.told.remove(&service);
    }

    /// Puts the newest report of a run into the box; one that says nothing new is dropped.
    pub(crate) fn submit_run(&self, run: StackRunId, report: StackRunReport) {
        let mut state = self.lock();
        state.last_runs.remove(&run);
        let known = state.told_runs.get(&run) == Some(&hash_of(&report));
        if known && !state.pending_runs.contains_key(&run) {
            return;
        }
        state.pending_runs.insert(run, report);
        drop(state);
        self.ready.notify_one();
    }

    /// Puts the last report of a run into the box. When the console has it, the run is forgotten.
    pub(crate) fn submit_last_run(&self, run: StackRunId, report: StackRunReport) {
        let mut state = self.lock();
        state.told_runs.remove(&run);
        state.last_runs.insert(run);
        state.pending_runs.insert(run, report);
        drop(state);
        self.ready.notify_one();
    }

    /// The console has not taken the last report of a run yet.
    pub(crate) fn owes_last_run(&self, run: StackRunId) -> bool {
        self.lock().last_runs.contains(&run)
    }

    /// Forgets what was told of a run, but for its last report.
    pub(crate) fn forget_run(&self, run: StackRunId) {
        let mut state = self.lock();
        if state.last_runs.contains(&run) {
            return;
        }
        state.pending_runs.remove(&run);
        state.told_runs.remove(&run);
    }

    /// The console stored a report.
    pub(crate) fn acknowledged(&self, report_id: u64) {
        let mut state = self.lock();
        state.acked = state.acked.max(report_id);
        drop(state);
        self.answered.notify_one();
    }

    /// Sends for ever.
    pub(crate) async fn run(&self, console: &Console, uplink: &watch::Receiver<Uplink>) {
        let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));
        // Grows over restarts as well: the console stores each number once.
        let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let mut report_id = started.map_or(0, |since| since.as_micros() as u64);
        loop {
            let ready = self.ready.notified();
            if self.is_empty() {
                ready.await;
                tokio::time::sleep(COALESCE).await;
            }
            let batch = self.take_batch();
            if batch.services.is_empty() && batch.runs.is_empty() {
                continue;
            }
            report_id += 1;
            let services = batch.services.iter().map(|(_, report)| report.clone()).collect();
            let stack_runs = batch.runs.iter().map(|(_, report)| report.clone()).collect();
            let request = ReportRequest { report_id, services, cluster: None, stack_runs };
            match self.send(console, uplink, request).await {
                Ok(()) => {
                    self.taken(&batch);
                    backoff.reset();
                }
                Err(message) => {
                    tracing::debug!(reason = %message, "a report was not taken; it is kept");
                    self.put_back(batch);
                    tokio::time::sleep(backoff.next_wait()).await;
                }
            }
        }
    }

    fn is_empty(&self) -> bool {
        let state = self.lock();
        state.pending.is_empty() && state.pending_runs.is_empty()
    }

    fn take_batch(&self) -> Batch {
        let mut state = self.lock();
        let mut batch = Batch::default();
        let mut bytes = 0;
        while batch.runs.len() < BATCH_SERVICES && bytes < BATCH_BYTES {
            let Some((run, report)) = state.pending_runs.pop_first() else { break };
            bytes += report.encoded_len();
            let hash = hash_of(&report);
            if state.told_runs.insert(run, hash) != Some(hash) {
                batch.runs.push((run, report));
            }
        }
        while batch.services.len() < BATCH_SERVICES && bytes < BATCH_BYTES {
            let Some((service, report)) = state.pending.pop_first() else { break };
            bytes += report.encoded_len();
            let hash = hash_of(&report);
            if state.told.insert(service, hash) != Some(hash) {
                batch.services.push((service, report));
            }
        }
        batch
    }

    /// Forgets the runs whose last report the console has taken.
    fn taken(&self, batch: &Batch) {
        let mut state = self.lock();
        for (run, _) in &batch.runs {
            // Where there is one in the box, this was not the last.
            if !state.pending_runs.contains_key(run) && state.last_runs.remove(run) {
                state.told_runs.remove(run);
            }
        }
    }

    /// Keeps a batch that was not taken, except where something newer came meanwhile.
    fn put_back(&self, batch: Batch) {
        let Batch { services, runs } = batch;
        let mut state = self.lock();
        for (run, report) in runs {
            if state.told_runs.remove(&run).is_some() {
                state.pending_runs.entry(run).or_insert(report);
            }
        }
        for (service, report) in services {
            // A service that was forgotten meanwhile is not brought back.
            if state.told.remove(&service).is_some() {
                let waiting = state.pending.entry(service).or_insert_with(|| report.clone());
                if outlasts(&report, waiting) {
                    *waiting = report;
                }
            }
        }
    }

    async fn send(
        &self,
        console: &Console,
        uplink: &watch::Receiver<Uplink>,
        request: ReportRequest,
    ) -> Result<(), String> {
        let up = uplink.borrow().clone();
        let Some(up) = up else {
            return console.report(request).await.map(|_| ()).map_err(|error| error.to_string());
        };
        let report_id = request.report_id;
        let message = AgentMessage { message: Some(agent_message::Message::Report(request)) };
        up.send(message).await.map_err(|_| "the stream closed".to_owned())?;
        let deadline = Instant::now() + ACK_DEADLINE;
        loop {
            let answered = self.answered.notified();
            if self.lock().acked >= report_id {
                return Ok(());
            }
            tokio::select! {
                () = answered => {}
                () = up.closed() => return Err("the stream closed".to_owned()),
                () = tokio::time::sleep_until(deadline) => {
                    return Err(format!("no acknowledgement within {ACK_DEADLINE:.0?}"));
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// That a service is destroyed is its last word: what its objects did on their way out is told by other reports, and any of them
/// may come late.
fn outlasts(said: &ServiceReport, later: &ServiceReport) -> bool {
    said.destroyed && !later.destroyed && later.sequence <= said.sequence
}

fn hash_of(report: &impl Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    report.encode_to_vec().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(applied: bool) -> ServiceReport {
        ServiceReport { applied, ..ServiceReport::default() }
    }

    #[test]
    fn only_news_is_sent_and_nothing_is_lost() {
        let reports = Reports::default();
        let service = ServiceId::new();
        reports.submit(service, report(false));
        reports.submit(service, report(true));
        let batch = reports.take_batch();
        assert_eq!(batch.services.len(), 1);
        assert!(batch.services[0].1.applied);
        reports.submit(service, report(true));
        assert!(reports.take_batch().services.is_empty(), "it is being told already");

        reports.put_back(batch);
        reports.submit(service, report(false));
        let batch = reports.take_batch();
        assert!(!batch.services[0].1.applied, "the newer one is told");
        reports.forget(service);
        reports.put_back(batch);
        assert!(reports.take_batch().services.is_empty());
    }

    #[test]
    fn runs_are_told_beside_services() {
        let reports = Reports::default();
        let run = StackRunId::new();
        let said = |attempt| StackRunReport { attempt, ..StackRunReport::default() };
        reports.submit_run(run, said(1));
        reports.submit(ServiceId::new(), report(true));
        let batch = reports.take_batch();
        assert_eq!((batch.runs.len(), batch.services.len()), (1, 1));
        reports.submit_run(run, said(1));
        assert!(reports.is_empty(), "it is being told already");
        // What came meanwhile is newer than what was not taken.
        reports.submit_run(run, said(2));
        reports.put_back(batch);
        let batch = reports.take_batch();
        assert_eq!((batch.runs, batch.services.len()), (vec![(run, said(2))], 1));
        // A run that was forgotten meanwhile is not brought back.
        reports.submit_run(run, said(3));
        let batch = reports.take_batch();
        reports.forget_run(run);
        reports.put_back(batch);
        assert!(reports.is_empty());
    }

    #[test]
    fn the_last_report_of_a_run_is_told_and_then_nothing_is_known_of_it() {
        let reports = Reports::default();
        let run = StackRunId::new();
        let said = |attempt| StackRunReport { attempt, ..StackRunReport::default() };
        reports.submit_run(run, said(1));
        let earlier = reports.take_batch();
        reports.submit_last_run(run, said(2));
        reports.forget_run(run);
        // Neither an earlier one that was taken, nor one that was not, is the last.
        reports.taken(&earlier);
        reports.put_back(earlier);
        let batch = reports.take_batch();
        assert_eq!(batch.runs, [(run, said(2))]);
        reports.put_back(batch);
        let batch = reports.take_batch();
        assert_eq!(batch.runs, [(run, said(2))]);
        reports.taken(&batch);
        let state = reports.lock();
        assert!(state.told_runs.is_empty() && state.last_runs.is_empty() && state.pending_runs.is_empty());
    }

    #[test]
    fn that_a_service_is_destroyed_is_its_last_word() {
        let reports = Reports::default();
        let service = ServiceId::new();
        let gone = ServiceReport { destroyed: true, sequence: 7, ..ServiceReport::default() };
        let late = |sequence| ServiceReport { sequence, components_set: true, ..ServiceReport::default() };
        reports.submit(service, gone.clone());
        reports.submit(service, late(7));
        let batch = reports.take_batch();
        assert_eq!(batch.services[0].1, gone);
        // Also when it has to be said again.
        reports.submit(service, late(7));
        reports.put_back(batch);
        let batch = reports.take_batch();
        assert_eq!(batch.services[0].1, gone);
        reports.put_back(batch);
        // It is wanted again: that is another story.
        reports.submit(service, late(8));
        assert_eq!(reports.take_batch().services[0].1, late(8));
    }
}
