//! What use cases need of a database for agents: the feed, the fleet, and what agents report.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::Result;
use plural_core::cluster::{Cluster, ClusterDistro, ClusterFacts};
use plural_core::cluster_issuer::IssuerReport;
use plural_core::component::Component;
use plural_core::ids::{ClusterId, RepositoryId, RevisionId, ServiceId};
use plural_core::service::Service;
use plural_core::service_error::ServiceError;
use plural_core::service_metadata::ServiceMetadata;
use plural_core::specs::Handle;
use plural_core::sync::{SyncAsk, SyncReport};
use plural_core::work::{Contract, WorkChange, WorkRef, WorkSummary};
use tokio::sync::watch;

use crate::rendering::ServiceSecrets;
use crate::seal::Sealed;
use crate::secret::TokenHash;
use crate::service_context::ServiceContextRow;
use crate::service_import::ServiceImportRow;
use crate::sync::NamedLimits;

/// A place in the feed. Grows; within one epoch, whatever is read up to a place stays read.
pub type FeedPosition = u64;

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedSubject {
    /// Work of a cluster's agent was made, changed, is to be destroyed, or is gone: read it again.
    Work {
        /// The cluster.
        cluster_id: ClusterId,
        /// Which work.
        work: WorkRef,
        /// Its sequence after the change; 0 where it is gone or has none.
        sequence: u64,
        /// How it changed.
        change: WorkChange,
    },
    /// A cluster came, changed, has another token, or is gone: look it up.
    Cluster {
        /// Which.
        cluster_id: ClusterId,
    },
    /// A repository came, changed, should be fetched, or is gone.
    Repository {
        /// Which.
        repository_id: RepositoryId,
    },
    /// Refs of a repository moved: mirrors of other replicas than the one that fetched it are old.
    RepositoryMoved {
        /// Which.
        repository_id: RepositoryId,
    },
}

/// One event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedEvent {
    /// Where.
    pub position: FeedPosition,
    /// Its subject; absent for work of a kind that only a later release knows.
    pub subject: Option<FeedSubject>,
    /// Its fingerprint, as in [`EventFingerprint`].
    pub mark: u64,
}

impl FeedEvent {
    /// Its fingerprint, and where it is.
    pub fn mark(&self) -> EventFingerprint {
        EventFingerprint { position: self.position, mark: self.mark }
    }
}

/// An event's fingerprint, of all that its row holds: another event at the same place has another one. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventFingerprint {
    /// Where the event is.
    pub position: FeedPosition,
    /// The fingerprint.
    pub mark: u64,
}

/// Events after a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedBatch {
    /// In order.
    pub events: Vec<FeedEvent>,
    /// Everything up to here was read. There may be more: the reader asks again until nothing comes.
    pub position: FeedPosition,
    /// More is written but not yet safe to read: ask again soon.
    pub pending: bool,
    /// Events after the asked place were already removed: load everything again.
    pub truncated: bool,
}

/// How an agent is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterCredential {
    /// Which cluster.
    pub id: ClusterId,
    /// Its handle.
    pub handle: Handle,
    /// Of its deploy token.
    pub token_hash: TokenHash,
    /// Of the next one, accepted beside it until it is used.
    pub next_hash: Option<TokenHash>,
    /// Of the token that an agent joins with, used or not.
    pub join_hash: Option<TokenHash>,
    /// Since when it has its deploy token.
    pub rotated_at: DateTime<Utc>,
    /// Somebody asked for another deploy token.
    pub asked: bool,
}

/// The whole fleet at one place of the feed.
#[derive(Debug, Clone, Default)]
pub struct FleetLoad {
    /// Names the history that positions belong to.
    pub epoch: String,
    /// The place.
    pub position: FeedPosition,
    /// The last events up to it, in order, some ten thousand at most.
    pub events: Vec<FeedEvent>,
    /// Where they begin: whoever stands at this place or behind it was told of all that is before them.
    pub floor: FeedPosition,
    /// Every cluster.
    pub clusters: Vec<ClusterCredential>,
    /// All work of all clusters.
    pub work: Vec<WorkSummary>,
}

/// Everything that an agent needs of a service.
#[derive(Debug, Clone)]
pub struct ServiceSpecRow {
    /// Name of its project.
    pub project: String,
    /// The service.
    pub service: Service,
    /// Root inside the artifact.
    pub artifact_folder: String,
    /// When its revision was made: the renderer's clock.
    pub revision_at: DateTime<Utc>,
    /// What its revision keeps sealed.
    pub secrets: ServiceSecrets,
    /// Seed, sealed for `service:ID:seed`.
    pub seed: Sealed,
    /// What a person asked of its sync.
    pub ask: SyncAsk,
    /// What it may touch; absent: everything.
    pub limits: Option<NamedLimits>,
    /// Where it is read from: the place that its limits refuse, if they refuse one.
    pub source_url: String,
    /// The contexts that its templates read.
    pub contexts: Vec<ServiceContextRow>,
    /// The stacks whose outputs its templates read.
    pub imports: Vec<ServiceImportRow>,
}

impl ServiceSpecRow {
    /// All of it that is sealed and may be kept outside of the database: outputs of stacks never are.
    pub(crate) fn sealed(&self) -> impl Iterator<Item = &Sealed> {
        let contexts = self.contexts.iter().filter_map(|context| context.secrets.as_ref());
        self.secrets.sealed().chain([&self.seed]).chain(contexts)
    }
}

/// What an agent said of one service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceReportRow {
    /// Which.
    pub id: ServiceId,
    /// The revision it looked at.
    pub revision_id: RevisionId,
    /// The service's sequence then: older reports than the stored one are ignored.
    pub sequence: u64,
    /// Commit it looked at.
    pub sha: Option<String>,
    /// All of it was applied.
    pub applied: bool,
    /// Nothing of it is left.
    pub destroyed: bool,
    /// All components; `None` leaves the stored ones.
    pub components: Option<Vec<Component>>,
    /// All errors of the agent.
    pub errors: Vec<ServiceError>,
    /// What its objects say of themselves; `None` leaves what is stored.
    pub metadata: Option<ServiceMetadata>,
    /// What it told of the sync.
    pub sync: SyncReport,
}

/// What one agent said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentReportRow {
    /// Who: services of other clusters are ignored.
    pub cluster_id: ClusterId,
    /// Of its services.
    pub services: Vec<ServiceReportRow>,
    /// When it arrived.
    pub at: DateTime<Utc>,
}

/// A sign of life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PingRow {
    /// Who.
    pub cluster_id: ClusterId,
    /// What it knows of its cluster, when it said.
    pub facts: Option<ClusterFacts>,
    /// What kind of cluster, when it said.
    pub distro: Option<ClusterDistro>,
    /// The contract that it speaks, when it said.
    pub contract: Option<Contract>,
    /// Who signs the tokens of its service accounts, when it said.
    pub issuer: IssuerReport,
    /// When.
    pub at: DateTime<Utc>,
}

impl PingRow {
    /// Whether it says something else than what was said before.
    pub(crate) fn is_news(&self, before: &Self) -> bool {
        let Self { cluster_id: _, facts, distro, contract, issuer, at: _ } = self;
        (facts.is_some() && *facts != before.facts)
            || (distro.is_some() && *distro != before.distro)
            || (contract.is_some() && *contract != before.contract)
            || (*issuer != IssuerReport::Untold && *issuer != before.issuer)
    }

    /// Takes a later sign of life in; what it does not say stays.
    pub(crate) fn merge(&mut self, later: Self) {
        let Self { cluster_id: _, facts, distro, contract, issuer, at } = later;
        self.at = at;
        self.facts = facts.or_else(|| self.facts.take());
        self.distro = distro.or(self.distro);
        self.contract = contract.or(self.contract);
        if issuer != IssuerReport::Untold {
            self.issuer = issuer;
        }
    }
}

/// The feed, the fleet and what agents report.
#[async_trait]
pub trait AgentStore: Send + Sync + 'static {
    /// The database answers.
    async fn ready(&self) -> Result<()>;
    /// What the installation's key is known by; `fresh` when nothing was kept before.
    async fn key_check(&self, fresh: &Sealed) -> Result<Sealed>;
    /// Everything, consistent with one place of the feed.
    async fn fleet_load(&self) -> Result<FleetLoad>;
    /// Events after `after` that can no longer be overtaken.
    async fn feed_read(&self, after: FeedPosition) -> Result<FeedBatch>;
    /// Changes when there may be something to read. Coalesced, carries nothing.
    fn feed_wake(&self) -> watch::Receiver<u64>;
    /// Removes events before `before`, keeping the last `keep`.
    async fn feed_prune(&self, before: DateTime<Utc>, keep: u64) -> Result<u64>;
    /// These clusters, those that exist.
    async fn cluster_credentials(&self, ids: &[ClusterId]) -> Result<Vec<ClusterCredential>>;
    /// The summaries of this work, of what exists.
    async fn work_summaries(&self, work: &[WorkRef]) -> Result<Vec<WorkSummary>>;
    /// One cluster, for the agent that speaks for it.
    async fn agent_cluster(&self, id: ClusterId) -> Result<Option<Cluster>>;
    /// These services of that cluster, those that exist there.
    async fn agent_specs(&self, cluster: ClusterId, ids: &[ServiceId]) -> Result<Vec<ServiceSpecRow>>;
    /// Stores reports in one transaction: components, errors, status; destroyed services go, with
    /// their event and audit line, and a deleted cluster goes with its last service.
    async fn agent_reports(&self, reports: &[AgentReportRow]) -> Result<()>;
    /// Stores signs of life in one transaction.
    async fn agent_pings(&self, pings: &[PingRow]) -> Result<()>;
}
