//! What agents may ask. A deploy token opens an [`AgentHandle`], and a handle reaches one cluster's
//! desired state and nothing else.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_core::cluster::{ClusterDistro, ClusterFacts};
use plural_core::cluster_issuer::IssuerReport;
use plural_core::component::{Component, ComponentChild, ComponentKey};
use plural_core::ids::{ClusterId, RevisionId, ServiceId};
use plural_core::service_error::ServiceError;
use plural_core::service_metadata::ServiceMetadata;
use plural_core::specs::Handle;
use plural_core::sync::SyncReport;
use plural_core::token::DEPLOY_TOKEN_PREFIX;
use plural_core::work::Contract;
use plural_core::{Error, Result};
use plural_kit::ShutdownSignal;
use tokio::sync::{mpsc, oneshot};

use crate::agent_call::AgentCallKind;
use crate::app::App;
use crate::fleet::{AgentHints, Cell, FeedCursor, Fleet};
use crate::ports::agents::{AgentReportRow, PingRow, ServiceReportRow};
use crate::ports::blobs::BlobStream;
use crate::secret::TokenHash;
use crate::sync_report;

/// Reports that wait for the database at most; beyond that agents wait.
const QUEUE: usize = 1024;
/// Reports that are stored together at most.
const BATCH: usize = 256;
/// Between two stored signs of life of one cluster, unless it has news of itself.
const PING: TimeDelta = TimeDelta::seconds(30);
/// Objects of one service at most.
const MAX_COMPONENTS: usize = 20_000;
/// What one component may own; the rest is not kept.
const MAX_CHILDREN: usize = 100;
/// Bytes of one text in a report; the rest is cut.
const MAX_TEXT: usize = 4096;

/// Proof that a deploy token was right. Reaches one cluster.
#[derive(Clone)]
pub struct AgentHandle {
    pub(crate) cell: Arc<Cell>,
    generation: u64,
    hash: TokenHash,
}

/// Who the agent is told that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSync {
    /// Its cluster.
    pub cluster_id: ClusterId,
    /// Its cluster's handle.
    pub handle: Handle,
}

/// What an agent says of its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentFacts {
    /// Who signs the tokens of its service accounts.
    pub issuer: IssuerReport,
    /// Facts.
    pub facts: ClusterFacts,
    /// Kind of cluster.
    pub distro: Option<ClusterDistro>,
}

/// One service in a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedService {
    /// Which.
    pub id: ServiceId,
    /// Revision it looked at.
    pub revision_id: RevisionId,
    /// The service's sequence then.
    pub sequence: u64,
    /// Commit it looked at.
    pub sha: Option<String>,
    /// All of it was applied.
    pub applied: bool,
    /// Nothing of it is left.
    pub destroyed: bool,
    /// All components (ids need not be set); `None` leaves the stored ones.
    pub components: Option<Vec<Component>>,
    /// All errors; empty clears them.
    pub errors: Vec<ServiceError>,
    /// What its objects say of themselves; `None` leaves what is stored.
    pub metadata: Option<ServiceMetadata>,
    /// What it tells of the sync.
    pub sync: SyncReport,
}

/// A report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentReport {
    /// Chosen by the agent, grows.
    pub id: u64,
    /// What it says of services.
    pub services: Vec<ReportedService>,
    /// What it says of its cluster.
    pub facts: Option<AgentFacts>,
}

/// Reports on their way to the database.
pub(crate) struct ReportQueue {
    sender: mpsc::Sender<Queued>,
    receiver: Mutex<Option<mpsc::Receiver<Queued>>>,
}

struct Queued {
    row: AgentReportRow,
    stored: oneshot::Sender<Result<()>>,
}

impl ReportQueue {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Self { sender, receiver: Mutex::new(Some(receiver)) }
    }
}

/// Signs of life that are not stored yet; one per cluster, hence bounded by the fleet.
#[derive(Default)]
pub(crate) struct PendingPings {
    waiting: Mutex<HashMap<ClusterId, PingRow>>,
    stored: Mutex<HashMap<ClusterId, PingRow>>,
}

impl PendingPings {
    /// The last sign of life that this replica has seen of a cluster's agent, stored or about to be.
    pub(crate) fn last(&self, id: ClusterId) -> Option<DateTime<Utc>> {
        let waiting = self.waiting.lock().get(&id).map(|ping| ping.at);
        waiting.max(self.stored.lock().get(&id).map(|ping| ping.at))
    }
}

impl AgentHandle {
    /// The one cluster that this reaches.
    pub fn cluster_id(&self) -> ClusterId {
        self.cell.id
    }

    /// Its handle.
    pub fn cluster_handle(&self) -> Handle {
        self.cell.handle()
    }

    /// The token is still good. Streams check it with every message.
    pub fn is_current(&self) -> bool {
        self.cell.is_current(self.generation)
    }

    pub(crate) fn calls(&self, kind: AgentCallKind) -> &AtomicU32 {
        let [poll, report, artifact, stream, channel] = &self.cell.calls;
        match kind {
            AgentCallKind::Poll => poll,
            AgentCallKind::Report => report,
            AgentCallKind::Artifact => artifact,
            AgentCallKind::Stream => stream,
            AgentCallKind::Channel => channel,
        }
    }

    /// The token that it was opened with.
    pub(crate) fn hash(&self) -> TokenHash {
        self.hash
    }

    /// # Errors
    /// [`Error::Unauthenticated`] when the token is not good any more.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_current() { Ok(()) } else { Err(Error::Unauthenticated) }
    }
}

impl std::fmt::Debug for AgentHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AgentHandle").field("cluster", &self.cell.id).finish_non_exhaustive()
    }
}

impl App {
    /// Opens a handle for a deploy token, from memory.
    ///
    /// # Errors
    /// [`Error::Unauthenticated`] for one that is wrong or revoked.
    pub fn agent_authenticate(&self, token: &str) -> Result<AgentHandle> {
        if !token.starts_with(DEPLOY_TOKEN_PREFIX) || token.len() > 256 {
            return Err(Error::Unauthenticated);
        }
        let hash = TokenHash::of(token);
        let (cell, generation) = self.fleet.authenticate(&hash).ok_or(Error::Unauthenticated)?;
        Ok(AgentHandle { cell, generation, hash })
    }

    /// What an agent is told that it is when it says hello. A new agent counts its reports from anew.
    pub fn agent_hello(&self, agent: &AgentHandle) -> Result<AgentSync> {
        agent.check()?;
        *agent.cell.last_report.lock() = None;
        Ok(AgentSync { cluster_id: agent.cluster_id(), handle: agent.cluster_handle() })
    }

    /// Takes in which contract an agent speaks. It is stored with the next sign of life. An earlier one is logged once for each
    /// cluster: an agent decides what it says, and not how much is logged.
    pub fn agent_speaks(&self, agent: &AgentHandle, contract: Contract) {
        let before = agent.cell.speaks(contract);
        if contract < Contract::NEWEST && before.is_none() {
            tracing::warn!(
                cluster.id = %agent.cluster_id(), cluster.handle = %agent.cluster_handle(), agent.contract = contract.0,
                "a cluster's agent is of an earlier build than this console: it polls and applies, but hints and kubectl through the \
                 console do not reach it; update its image"
            );
        }
    }

    /// Hints for one open stream of an agent that stands at `cursor`.
    pub fn agent_hints(&self, agent: &AgentHandle, cursor: Option<&FeedCursor>) -> Result<AgentHints> {
        agent.check()?;
        let epoch = self.fleet.epoch();
        let seen = cursor.filter(|cursor| cursor.epoch == epoch).map_or(0, |cursor| cursor.sequence);
        Ok(agent.cell.hints(agent.generation, seen))
    }

    /// Stores a report; when this returns, it is kept. The same report twice is stored once.
    pub async fn agent_report(&self, agent: &AgentHandle, report: AgentReport) -> Result<()> {
        agent.check()?;
        let AgentReport { id, services, facts } = report;
        self.agent_ping(agent, facts)?;
        if services.is_empty() || *agent.cell.last_report.lock() == Some(id) {
            return Ok(());
        }
        let mut services: Vec<ServiceReportRow> = services.into_iter().map(report_row).collect();
        self.seal_told(agent.cluster_id(), &mut services).await?;
        let row = AgentReportRow { cluster_id: agent.cluster_id(), services, at: self.clock.now() };
        let (stored, answer) = oneshot::channel();
        let gone = || Error::unavailable("the console is stopping; report to another replica");
        self.reports.sender.send(Queued { row, stored }).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())??;
        *agent.cell.last_report.lock() = Some(id);
        Ok(())
    }

    /// A sign of life. Kept in memory and stored with those of others.
    pub fn agent_ping(&self, agent: &AgentHandle, facts: Option<AgentFacts>) -> Result<()> {
        agent.check()?;
        let at = self.clock.now();
        let (facts, distro, issuer) = facts
            .map_or((None, None, IssuerReport::Untold), |f| (Some(facts_of(f.facts)), f.distro, f.issuer));
        let cluster_id = agent.cluster_id();
        let contract = agent.cell.contract();
        let row = PingRow { cluster_id, facts, distro, contract, issuer, at };
        let mut waiting = self.pings.waiting.lock();
        match waiting.entry(cluster_id) {
            // What is stored is older than that.
            Entry::Occupied(mut entry) => entry.get_mut().merge(row),
            Entry::Vacant(entry) => {
                let stored = self.pings.stored.lock();
                if stored.get(&cluster_id).is_none_or(|stored| row.is_news(stored) || at - stored.at >= PING)
                {
                    entry.insert(row);
                }
            }
        }
        Ok(())
    }

    /// The bytes of an artifact, if one of the agent's own services has it, or would have it at a commit that the agent is asked about.
    pub async fn agent_artifact(&self, agent: &AgentHandle, digest: &str) -> Result<BlobStream> {
        agent.check()?;
        let mut raw = [0; 32];
        let well_formed = digest.len() == 64 && hex::decode_to_slice(digest, &mut raw).is_ok();
        if !well_formed {
            return Err(Error::not_found("artifact"));
        }
        // From memory, but for the few that no service has yet.
        let is_its_own = Fleet::has_digest(&agent.cell, &raw);
        if !is_its_own && !self.store.fleet_plan_asks(agent.cluster_id(), &hex::encode(raw)).await? {
            return Err(Error::not_found("artifact"));
        }
        self.blobs.open(&hex::encode(raw)).await
    }

    /// Stores reports and signs of life until asked to stop, then what is left.
    pub(crate) async fn reports_write(&self, stop: &ShutdownSignal) -> Result<()> {
        let Some(mut queue) = self.reports.receiver.lock().take() else {
            return Err(Error::internal("writing reports", "already running"));
        };
        let mut tick = tokio::time::interval(Duration::from_secs(2));
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                first = queue.recv() => match first {
                    Some(first) => self.reports_store(first, &mut queue).await,
                    None => return Ok(()),
                },
                _ = tick.tick() => {
                    let (clusters, streams) = self.fleet.counts();
                    metrics::gauge!("plural_clusters").set(clusters as f64);
                    metrics::gauge!("plural_agent_streams").set(streams as f64);
                    metrics::gauge!("plural_agents_outdated").set(self.fleet.outdated() as f64);
                    self.pings_store().await;
                }
                () = stop.requested() => break,
            }
        }
        queue.close();
        while let Some(first) = queue.recv().await {
            self.reports_store(first, &mut queue).await;
        }
        self.pings_store().await;
        Ok(())
    }

    async fn reports_store(&self, first: Queued, queue: &mut mpsc::Receiver<Queued>) {
        let mut batch = vec![first];
        while batch.len() < BATCH {
            let Ok(next) = queue.try_recv() else { break };
            batch.push(next);
        }
        let (rows, waiting): (Vec<_>, Vec<_>) = batch.into_iter().map(|q| (q.row, q.stored)).unzip();
        metrics::histogram!("plural_report_batch").record(rows.len() as f64);
        match self.store.agent_reports(&rows).await {
            Ok(()) => {
                for stored in waiting {
                    // The agent may have hung up; its report is kept all the same.
                    let _ = stored.send(Ok(()));
                }
            }
            Err(error) if rows.len() > 1 => {
                tracing::warn!(
                    error = error.log_text(),
                    "cannot store reports together; storing each for itself"
                );
                for (row, stored) in rows.into_iter().zip(waiting) {
                    let _ = stored.send(self.store.agent_reports(std::slice::from_ref(&row)).await);
                }
            }
            Err(error) => {
                for stored in waiting {
                    tracing::warn!(error = error.log_text(), "cannot store a report");
                    let _ =
                        stored.send(Err(Error::unavailable("the report could not be stored; send it again")));
                }
            }
        }
    }

    async fn pings_store(&self) {
        let rows: Vec<PingRow> = self.pings.waiting.lock().drain().map(|(_, row)| row).collect();
        if rows.is_empty() {
            return;
        }
        match self.store.agent_pings(&rows).await {
            Ok(()) => {
                let mut stored = self.pings.stored.lock();
                for row in rows {
                    match stored.entry(row.cluster_id) {
                        Entry::Vacant(entry) => {
                            entry.insert(row);
                        }
                        Entry::Occupied(mut entry) => entry.get_mut().merge(row),
                    }
                }
                // Clusters that are gone must not stay here.
                stored.retain(|id, _| self.fleet.cell(*id).is_some());
            }
            Err(error) => tracing::warn!(error = error.log_text(), "cannot store signs of life"),
        }
    }
}

/// The report as it may be stored. Nothing in it is refused: an agent sends a report until it is stored, and everything that it
/// has to say of other services waits behind it.
fn report_row(service: ReportedService) -> ServiceReportRow {
    let ReportedService {
        id,
        revision_id,
        sequence,
        sha,
        applied,
        destroyed,
        components,
        errors,
        metadata,
        sync,
    } = service;
    let components = components.map(|components| {
        if components.len() > MAX_COMPONENTS {
            tracing::warn!(
                service.id = %id, count = components.len(),
                "an agent reports more objects of a service than are kept: keeping the first {MAX_COMPONENTS}"
            );
        }
        components.into_iter().take(MAX_COMPONENTS).map(|told| component(id, told)).collect()
    });
    let errors = errors
        .into_iter()
        .take(100)
        .map(|error| ServiceError {
            // An agent must not speak as the console.
            source: if error.source == ServiceError::GIT { "source".to_owned() } else { cut(error.source) },
            message: cut(error.message),
            warning: error.warning,
            terminal: error.terminal && !error.warning,
            location: error.location.map(cut),
        })
        .collect();
    ServiceReportRow {
        id,
        revision_id,
        sequence,
        sha: sha.map(cut),
        applied,
        destroyed,
        components,
        errors,
        // An agent of another make may not keep to what ours does.
        metadata: metadata.map(|ServiceMetadata { images, fqdns }| ServiceMetadata::of(images, fqdns)),
        sync: sync_report::bounded(sync, cut),
    }
}

fn component(service_id: ServiceId, component: Component) -> Component {
    let Component { id, service_id: _, key, state, synced, uid, message, children } = component;
    Component {
        id,
        service_id,
        key: key_of(key),
        state,
        synced,
        uid: uid.map(cut),
        message: message.map(cut),
        children: children.into_iter().take(MAX_CHILDREN).map(child).collect(),
    }
}

fn child(child: ComponentChild) -> ComponentChild {
    let ComponentChild { key, uid, parent_uid, state, message } = child;
    ComponentChild {
        key: key_of(key),
        uid: cut(uid),
        parent_uid: parent_uid.map(cut),
        state,
        message: message.map(cut),
    }
}

fn key_of(key: ComponentKey) -> ComponentKey {
    let ComponentKey { group, version, kind, namespace, name } = key;
    ComponentKey {
        group: cut(group),
        version: cut(version),
        kind: cut(kind),
        namespace: cut(namespace),
        name: cut(name),
    }
}

/// Stored together with those of other clusters, which must not be lost for one of them.
fn facts_of(facts: ClusterFacts) -> ClusterFacts {
    let ClusterFacts { current_version, agent_version, node_count, pod_count, namespace_count } = facts;
    ClusterFacts {
        current_version: current_version.map(cut),
        agent_version: agent_version.map(cut),
        node_count,
        pod_count,
        namespace_count,
    }
}

fn cut(mut text: String) -> String {
    // The store refuses a NUL character, as PostgreSQL does.
    if text.contains('\0') {
        text = text.replace('\0', "\u{fffd}");
    }
    if text.len() > MAX_TEXT {
        let end = (0..=MAX_TEXT).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use plural_core::component::ComponentState;
    use plural_core::sync::SyncReport;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_report_is_cut_to_what_is_kept() {
        let key = |name: String| ComponentKey {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: "a".to_owned(),
            name,
        };
        let pod = |number: usize| Component {
            id: Uuid::nil(),
            service_id: ServiceId::new(),
            key: key(format!("pod-{number}\0")),
            state: Some(ComponentState::Running),
            synced: true,
            uid: Some("\0".repeat(5_000)),
            message: None,
            children: Vec::new(),
        };
        let error = ServiceError {
            source: ServiceError::GIT.to_owned(),
            message: "ä".repeat(5_000),
            warning: false,
            terminal: false,
            location: None,
        };
        let said = ReportedService {
            id: ServiceId::new(),
            revision_id: RevisionId::new(),
            sequence: 1,
            sha: None,
            applied: true,
            destroyed: false,
            components: Some((0..=MAX_COMPONENTS).map(pod).collect()),
            errors: vec![error; 101],
            metadata: Some(ServiceMetadata { images: vec!["a b".to_owned()], fqdns: vec!["\0".to_owned()] }),
            sync: SyncReport::default(),
        };
        let row = report_row(said.clone());
        let components = row.components.unwrap();
        assert_eq!(components.len(), MAX_COMPONENTS);
        assert_eq!((components[0].service_id, components[0].key.name.as_str()), (said.id, "pod-0\u{fffd}"));
        // Cut between characters, with a mark.
        let uid = components[0].uid.as_deref().unwrap();
        assert_eq!((uid.len(), uid.chars().last()), (MAX_TEXT - 1 + '…'.len_utf8(), Some('…')));
        assert_eq!((row.errors.len(), row.errors[0].source.as_str()), (100, "source"));
        assert_eq!(row.metadata, Some(ServiceMetadata::default()));
    }
}
