//! What an agent's poll is answered: what changed since its cursor, from memory where that is all it takes.

use std::collections::{BTreeMap, HashSet};

use chrono::{DateTime, Utc};
use plural_core::cluster::{Cluster, ClusterDistro};
use plural_core::ids::{ClusterId, RevisionId, ServiceId, StackRunId};
use plural_core::service::{Configuration, Intent, Rendering, Service};
use plural_core::specs::{KubeName, SyncConfig};
use plural_core::sync::SyncAsk;
use plural_core::work::{Contract, WorkKind, WorkRef};
use plural_core::{Error, Result};

use crate::agent::AgentHandle;
use crate::agent_run::RunJob;
use crate::app::App;
use crate::fleet::{FeedCursor, Need, ServiceMove};
use crate::ports::agents::ServiceSpecRow;
use crate::rendering::RenderingValues;
use crate::service_import::{OpenedImports, StackImports};
use crate::sync::NamedLimits;

/// Services that are read whole at once.
const AT_ONCE: usize = 200;

/// Everything that an agent needs of one service.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceSpec {
    /// Id.
    pub id: ServiceId,
    /// Name.
    pub name: KubeName,
    /// Namespace.
    pub namespace: KubeName,
    /// What to do with it.
    pub intent: Intent,
    /// Revision.
    pub revision_id: RevisionId,
    /// Grows with each change of this service, kicks included.
    pub sequence: u64,
    /// Lower-case hex SHA-256 of the uncompressed tar; `None`: nothing to apply yet.
    pub artifact_digest: Option<String>,
    /// Root of the service inside the artifact.
    pub folder: String,
    /// Folder of the repository that the artifact's root is.
    pub source_root: String,
    /// Commit.
    pub sha: Option<String>,
    /// First line of its message.
    pub message: Option<String>,
    /// Configuration in clear, and its references.
    pub configuration: Configuration,
    /// Apply nothing.
    pub dry_run: bool,
    /// Write nothing at all.
    pub paused: bool,
    /// Nobody asked for its deletion by name.
    pub cascaded: bool,
    /// It is the upgrade of the agent.
    pub agent_upgrade: bool,
    /// How to apply.
    pub sync_config: SyncConfig,
    /// When the revision was made.
    pub revision_at: DateTime<Utc>,
    /// Random secret of this service.
    pub seed: Vec<u8>,
    /// `.liquid` files are templates.
    pub templated: bool,
    /// How it becomes objects.
    pub rendering: Rendering,
    /// Values of its charts, in clear.
    pub values: RenderingValues,
    /// What a person asked of its sync.
    pub ask: SyncAsk,
    /// Name of its project.
    pub project: String,
    /// What it may touch; absent: everything.
    pub limits: Option<NamedLimits>,
    /// Where it is read from.
    pub source_url: String,
    /// The contexts that its templates read, by name, secret values included.
    pub contexts: serde_json::Map<String, serde_json::Value>,
    /// The outputs of stacks that its templates read, by the stacks' names, sensitive ones included.
    pub imports: StackImports,
}

/// What templates may read of the cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterData {
    /// Id.
    pub id: ClusterId,
    /// Name.
    pub name: String,
    /// Handle.
    pub handle: String,
    /// Kind.
    pub distro: Option<ClusterDistro>,
    /// The version it runs, else the one wanted.
    pub version: String,
    /// Tags.
    pub tags: BTreeMap<String, String>,
    /// Metadata.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// Another number whenever there is a Secret that the agent was not told of; 0: there is none. Templates read it nowhere.
    pub secrets: u64,
}

/// What an agent asks with a poll.
#[derive(Debug, Clone, Default)]
pub struct PollAsked {
    /// How far it has read; absent: it has nothing yet.
    pub cursor: Option<FeedCursor>,
    /// The contract that it speaks.
    pub contract: Contract,
    /// Work that it needs whole, whatever its cursor says.
    pub want: Vec<WorkRef>,
    /// It needs everything. Its cursor says only which history it follows.
    pub whole: bool,
}

impl PollAsked {
    /// As an agent of this release asks that has read up to `cursor` and misses nothing.
    pub fn at(cursor: Option<&FeedCursor>) -> Self {
        Self { cursor: cursor.cloned(), contract: Contract::NEWEST, want: Vec::new(), whole: false }
    }
}

/// The answer to a poll.
#[derive(Debug, Clone, PartialEq)]
pub struct PollAnswer {
    /// How far the agent has read with this answer.
    pub cursor: FeedCursor,
    /// The answer holds everything.
    pub snapshot: bool,
    /// Services that changed, whole.
    pub services: Vec<ServiceSpec>,
    /// Services that cannot be read now: the agent keeps what it has of them.
    pub damaged: Vec<ServiceId>,
    /// Services of which only the revision changed.
    pub moved: Vec<ServiceMove>,
    /// Runs whose Job changed.
    pub runs: Vec<RunJob>,
    /// Runs that cannot be read now.
    pub damaged_runs: Vec<StackRunId>,
    /// The cluster's data, when it changed; for an agent that knows no such work, when `services` holds any.
    pub cluster: Option<ClusterData>,
    /// What to forget, leaving its objects.
    pub forgotten: Vec<WorkRef>,
    /// Its agent is to replace its deploy token.
    pub rotate_token: bool,
}

impl App {
    /// What changed since the agent's cursor. Answered from memory when nothing did, or only revisions.
    pub async fn agent_poll(&self, agent: &AgentHandle, asked: &PollAsked) -> Result<PollAnswer> {
        agent.check()?;
        let (cursor, need) = self.fleet.poll(&agent.cell, asked);
        self.check_history(agent, asked)?;
        let (moved, forgotten) = match need {
            Need::Nothing => (Vec::new(), Vec::new()),
            Need::Changes { whole, moved, forgotten } if whole.is_empty() => (moved, forgotten),
            // Boxed: the rare path must not grow the future of the common one.
            need => return Box::pin(self.agent_poll_whole(agent, asked, cursor, need)).await,
        };
        Ok(PollAnswer {
            cursor,
            snapshot: false,
            services: Vec::new(),
            damaged: Vec::new(),
            moved,
            runs: Vec::new(),
            damaged_runs: Vec::new(),
            cluster: None,
            forgotten,
            rotate_token: self.token_is_due(&agent.cell),
        })
    }

    /// Refuses an agent that was told of another history than this database's. Asked after the fleet, which grows meanwhile: a
    /// place that was ahead of it a moment ago could not be judged then.
    fn check_history(&self, agent: &AgentHandle, asked: &PollAsked) -> Result<()> {
        let Some(cursor) = asked.cursor.as_ref().filter(|cursor| !self.fleet.is_ours(cursor)) else {
            return Ok(());
        };
        if self.fleet.warns(&agent.cell) {
            tracing::error!(
                cluster.id = %agent.cluster_id(), agent.sequence = cursor.sequence,
                "an agent's cursor is newer than this database. If the database was restored from a \
                 backup, start the console once with --restored"
            );
        }
        Err(Error::unavailable(
            "the agent's cursor is newer than the console's database. If the database was restored from \
             a backup, start the console once with --restored",
        ))
    }

    /// An answer that holds work whole, which is read from the database.
    async fn agent_poll_whole(
        &self,
        agent: &AgentHandle,
        asked: &PollAsked,
        mut next: FeedCursor,
        mut need: Need,
    ) -> Result<PollAnswer> {
        // Another replica told this agent more than we have read: do not answer with older state.
        let known = asked.cursor.as_ref();
        let ahead = known.filter(|cursor| cursor.epoch == next.epoch && cursor.sequence > next.sequence);
        if let Some(cursor) = ahead {
            let _ = self.feed_reach(cursor.sequence).await;
            (next, need) = self.fleet.poll(&agent.cell, asked);
            // Only now can it be told whose place that is.
            self.check_history(agent, asked)?;
            // A backup that was put back, most likely. Nobody goes back to older state unless somebody says so.
            if cursor.sequence > next.sequence {
                if self.fleet.warns(&agent.cell) {
                    tracing::error!(
                        cluster.id = %agent.cluster_id(), agent.sequence = cursor.sequence, console.sequence = next.sequence,
                        "an agent's state is newer than this database. If the database was restored from a \
                         backup, start the console once with --restored"
                    );
                }
                return Err(Error::unavailable(
                    "the agent's state is newer than the console's database. If the database was restored \
                     from a backup, start the console once with --restored",
                ));
            }
        }
        let (mut snapshot, whole, moved, mut forgotten) = match need {
            Need::Nothing => (false, Vec::new(), Vec::new(), Vec::new()),
            Need::Changes { whole, moved, forgotten } => (false, whole, moved, forgotten),
            Need::Snapshot { work } => (true, work, Vec::new(), Vec::new()),
        };
        let ids: Vec<ServiceId> = whole.iter().filter_map(|work| work.as_service()).collect();
        // A whole fleet that asks at once must leave connections to everything else.
        let permit = self.whole_answers.acquire().await;
        let _permit = permit.map_err(|closed| Error::internal("answering a poll", closed))?;
        let (mut services, mut damaged) = self.service_specs(agent.cluster_id(), &ids).await?;
        if asked.contract < Contract::DOCUMENTS {
            // An agent of contract 2 is sent a service with references in a form of which it says itself that it cannot read it.
            let unknown = |spec: &mut ServiceSpec| {
                spec.intent == Intent::Apply && !spec.configuration.references.is_empty()
            };
            damaged.extend(services.extract_if(.., unknown).map(|spec| {
                tracing::warn!(
                    service.id = %spec.id, cluster.id = %agent.cluster_id(),
                    "a service's configuration has references, which the cluster's agent cannot resolve: update the agent"
                );
                spec.id
            }));
        }
        if asked.contract < Contract::DOCUMENTS && !damaged.is_empty() {
            // An agent without a cursor may have lost what it kept. It takes its first answer for all that is its own, and removes
            // the records of other services from the cluster.
            let Some(known) = known else {
                return Err(Error::unavailable(
                    "a service cannot be read, and an agent of an earlier build would forget it: mend the service, which \
                     the console's log names, or update the agent",
                ));
            };
            // Such an agent does not ask again for what could not be read. It stays at its place, so that each poll asks for it
            // until it can be; the others come with every answer.
            next = known.clone();
            // Contract 0 cannot name a service without its content, and forgets what a snapshot does not name. So everything
            // comes as changes: nothing is forgotten before a snapshot can name all.
            snapshot = snapshot && asked.contract >= Contract::WORK;
        }
        if !snapshot && services.len() + damaged.len() < ids.len() {
            // Gone since the fleet was looked at: say so now instead of with the next poll.
            let found: HashSet<ServiceId> =
                services.iter().map(|spec| spec.id).chain(damaged.iter().copied()).collect();
            let gone = ids.into_iter().filter(|id| !found.contains(id));
            forgotten.extend(gone.map(WorkRef::service));
        }
        let wanted: Vec<StackRunId> = whole.iter().filter_map(|work| work.as_stack_run()).collect();
        let (runs, damaged_runs) = self.run_jobs(agent, &wanted).await?;
        if !snapshot && runs.len() + damaged_runs.len() < wanted.len() {
            let found: HashSet<StackRunId> =
                runs.iter().map(|job| job.run.id).chain(damaged_runs.iter().copied()).collect();
            let over = wanted.into_iter().filter(|id| !found.contains(id));
            forgotten.extend(over.map(WorkRef::stack_run));
        }
        // An agent that is not told when it changes gets it with what is made from it.
        let is_told = asked.contract >= WorkKind::Cluster.since();
        let wants_cluster = whole.contains(&WorkRef::cluster(agent.cluster_id()));
        let cluster = if wants_cluster || (!is_told && !services.is_empty()) {
            match self.store.agent_cluster(agent.cluster_id()).await? {
                Some(cluster) => {
                    let secrets = self.store.pr_secrets_mark(agent.cluster_id()).await?;
                    Some(ClusterData { secrets, ..cluster_data(cluster) })
                }
                None => None,
            }
        } else {
            None
        };
        let rotate_token = self.token_is_due(&agent.cell);
        Ok(PollAnswer {
            cursor: next,
            snapshot,
            services,
            damaged,
            moved,
            runs,
            damaged_runs,
            cluster,
            forgotten,
            rotate_token,
        })
    }

    /// These runs of the agent's cluster, and those of them that cannot be read: one that is damaged must not keep the others from
    /// being told.
    async fn run_jobs(
        &self,
        agent: &AgentHandle,
        ids: &[StackRunId],
    ) -> Result<(Vec<RunJob>, Vec<StackRunId>)> {
        let (mut jobs, mut damaged) = (Vec::with_capacity(ids.len()), Vec::new());
        let mut left: Vec<&[StackRunId]> = ids.chunks(AT_ONCE).collect();
        while let Some(some) = left.pop() {
            match (self.agent_run_jobs(agent, some).await, some) {
                (Ok(read), _) => jobs.extend(read),
                (Err(error @ Error::Internal { .. }), [id]) => {
                    tracing::error!(
                        run.id = %id, error = error.log_text(),
                        "cannot read a run for its agent, which keeps what it has of it and asks again"
                    );
                    damaged.push(*id);
                }
                // One of them, or several: by halves each is found.
                (Err(Error::Internal { .. }), _) => {
                    let (first, second) = some.split_at(some.len() / 2);
                    left.extend([second, first]);
                }
                (Err(error), _) => return Err(error),
            }
        }
        Ok((jobs, damaged))
    }

    /// These services of a cluster, and those of them that cannot be read or opened: one that is damaged must not keep the
    /// others from being told.
    async fn service_specs(
        &self,
        cluster: ClusterId,
        ids: &[ServiceId],
    ) -> Result<(Vec<ServiceSpec>, Vec<ServiceId>)> {
        let (mut specs, mut damaged) = (Vec::with_capacity(ids.len()), Vec::new());
        let logged = |id: ServiceId, error: &Error| {
            tracing::error!(
                service.id = %id, error = error.log_text(),
                "cannot read a service for its agent, which keeps what it has of it and asks again"
            );
            id
        };
        let mut left: Vec<&[ServiceId]> = ids.chunks(AT_ONCE).collect();
        let mut limits_are_read = false;
        while let Some(some) = left.pop() {
            let rows = match (self.store.agent_specs(cluster, some).await, some) {
                (Ok(rows), _) => rows,
                (Err(Error::Internal { .. }), _) if !limits_are_read => {
                    // All of them are sent with these: where they cannot be read, a look at each service only repeats that.
                    match self.store.cluster_limits(cluster).await {
                        Ok(_) => {
                            limits_are_read = true;
                            left.push(some);
                        }
                        Err(error @ Error::Internal { .. }) => {
                            tracing::error!(
                                cluster.id = %cluster, error = error.log_text(),
                                "cannot read the limits of a cluster's project: its agent keeps what it has of all services, and asks again"
                            );
                            damaged.extend(some.iter().chain(left.drain(..).flatten()).copied());
                        }
                        Err(error) => return Err(error),
                    }
                    continue;
                }
                (Err(error @ Error::Internal { .. }), [id]) => {
                    damaged.push(logged(*id, &error));
                    continue;
                }
                // One of them, or several: by halves each is found.
                (Err(Error::Internal { .. }), _) => {
                    let (first, second) = some.split_at(some.len() / 2);
                    left.extend([second, first]);
                    continue;
                }
                (Err(error), _) => return Err(error),
            };
            self.sealer.kept().fetch(rows.iter().flat_map(ServiceSpecRow::sealed)).await;
            // Of what was read together: what is read later may be other.
            let mut imports = OpenedImports::default();
            for row in rows {
                let id = row.service.id;
                match self.service_spec(row, &mut imports).await {
                    Ok(spec) => specs.push(spec),
                    Err(error) => damaged.push(logged(id, &error)),
                }
            }
        }
        Ok((specs, damaged))
    }

    pub(crate) async fn service_spec(
        &self,
        row: ServiceSpecRow,
        opened: &mut OpenedImports,
    ) -> Result<ServiceSpec> {
        let ServiceSpecRow {
            project,
            service,
            artifact_folder,
            revision_at,
            secrets,
            seed,
            ask,
            limits,
            source_url,
            contexts,
            imports,
        } = row;
        let source_root = source_root(&service, &artifact_folder).to_owned();
        let sync_config = acting_as(&service, limits.as_ref());
        Ok(ServiceSpec {
            id: service.id,
            intent: service.intent(),
            revision_id: service.revision_id,
            sequence: service.sequence,
            artifact_digest: service.artifact_digest,
            source_root,
            folder: artifact_folder,
            sha: service.sha,
            message: service.message,
            configuration: self.open_configuration(service.id, &secrets.configuration).await?,
            dry_run: service.dry_run,
            paused: service.paused,
            cascaded: service.cascaded,
            agent_upgrade: service.agent_upgrade,
            sync_config,
            revision_at,
            seed: self.open_seed(service.id, &seed).await?,
            templated: service.templated,
            values: self.open_values(service.id, &secrets).await?,
            contexts: self.contexts_opened(contexts).await?,
            imports: self.imports_opened(imports, opened).await?,
            rendering: service.rendering,
            // Who comes back late is not told what was said of a canary that he left long ago.
            ask: SyncAsk { promotion: ask.promotion.filter(|said| said.holds(self.now())), ..ask },
            project,
            limits,
            source_url,
            name: service.name,
            namespace: service.namespace,
        })
    }
}

pub(crate) fn cluster_data(cluster: Cluster) -> ClusterData {
    ClusterData {
        id: cluster.id,
        name: cluster.name.into(),
        handle: cluster.handle.into(),
        distro: cluster.distro,
        version: cluster.facts.current_version.or(cluster.version).unwrap_or_default(),
        tags: cluster.tags,
        metadata: cluster.metadata,
        secrets: 0,
    }
}

/// How a service is applied, with the account that its project gives to those that name none.
fn acting_as(service: &Service, limits: Option<&NamedLimits>) -> SyncConfig {
    let mut config = service.sync_config.clone();
    let is_its_projects = !service.agent_upgrade && service.rendering.managed_namespace.is_none();
    if let Some(named) = limits.filter(|_| is_its_projects) {
        config.service_account = named.limits.account_of(config.service_account);
    }
    config
}

/// The folder of the repository that the artifact's root is; empty where the artifact is not of the service's own folder
/// alone.
pub(crate) fn source_root<'a>(service: &'a Service, artifact_folder: &str) -> &'a str {
    match &service.git {
        Some(git) if !service.rendering.has_source() => git.root_of(artifact_folder),
        _ => "",
    }
}
