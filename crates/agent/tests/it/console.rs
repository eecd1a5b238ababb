//! A console in this process: the contract's other end, with everything in memory and a few defects
//! on request.

mod runs;
mod secrets;

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use futures::{Stream, StreamExt};
use parking_lot::{Mutex, MutexGuard};
use plural_core::ids::ServiceId;
use plural_testkit::HeldAddress;
use plural_tunnel::{
    artifact_chunks, bearer_token, contract_1,
    proxy::{Channel, ChannelOptions},
    v1::{
        self, agent_message, agent_service_server::AgentService, console_message,
        proxy_service_server::ProxyService, work::Item,
    },
    work::{CONTRACT, cluster_work, damaged_service, service_work, stack_run_work, work_ref},
};
use sha2::{Digest, Sha256};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming, transport::Server};

pub(crate) const TOKEN: &str = "deploy-token";

#[derive(Default)]
pub(crate) struct Memory {
    services: BTreeMap<String, v1::Service>,
    /// When more than the revision of a service last changed.
    whole_at: HashMap<String, u64>,
    detached: Vec<(u64, v1::WorkRef)>,
    pub(crate) sequence: u64,
    artifacts: HashMap<String, Vec<u8>>,
    pub(crate) reports: Vec<v1::ServiceReport>,
    pub(crate) polls: usize,
    /// Every poll and its answer.
    pub(crate) answers: Vec<(v1::PollRequest, v1::PollResponse)>,
    /// Polls are answered as by the build before contract 1.
    pub(crate) previous: bool,
    /// Whole services are left out of answers to agents that do not ask for them: their secrets do not open for now.
    pub(crate) withholds: bool,
    /// This service cannot be read.
    pub(crate) damaged_service: Option<String>,
    /// Every change comes with work of a kind that no agent knows.
    pub(crate) is_later: bool,
    pub(crate) hellos: usize,
    pub(crate) downloads: HashMap<String, usize>,
    report_ids: Vec<u64>,
    /// Artifacts arrive damaged.
    pub(crate) damaged: bool,
    /// Its connections outlive the server that is killed here: whatever comes on them finds nobody.
    killed: bool,
    /// Nobody's token is accepted.
    pub(crate) refuses: bool,
    /// The deploy tokens in its database; without, [`TOKEN`] is accepted and stays.
    pub(crate) tokens: Option<Tokens>,
    /// What it remembers of them, as a replica that has not heard yet what another one wrote.
    pub(crate) lagging: Option<Tokens>,
    /// Replacements that were refused because its database knew better than it did.
    pub(crate) late: usize,
    /// There are no streams here, but for one that ends with its first answer.
    pub(crate) pollers_only: bool,
    /// What agents are told when they say hello, and whether they are asked for a channel then.
    pub(crate) welcome: Option<v1::Welcome>,
    pub(crate) asks_for_channel: bool,
    /// Runs that agents look after, each with its sequence.
    runs: BTreeMap<String, (u64, v1::StackRunJob)>,
    /// Runs that were taken, as they were asked for.
    pub(crate) takes: Vec<v1::TakeRunRequest>,
    /// Runs are taken, but the answer is lost this many times.
    pub(crate) lost_takes: usize,
    pub(crate) run_reports: Vec<v1::StackRunReport>,
    /// Secrets that agents are to write or delete, and the sequence of the last one.
    pub(crate) secrets: BTreeMap<String, v1::WantedSecret>,
    secrets_at: u64,
    pub(crate) secret_outcomes: Vec<v1::SecretOutcome>,
    /// What agents say of Secrets is lost this many times.
    pub(crate) lost_secrets: usize,
    /// Reports are stored, but the answer is lost this many times.
    pub(crate) lost_acks: usize,
}

/// The deploy tokens of the cluster.
#[derive(Clone)]
pub(crate) struct Tokens {
    pub(crate) current: String,
    next: Option<String>,
    /// The agent is to replace it.
    due: bool,
}

impl Tokens {
    /// This one, which is to be replaced.
    pub(crate) fn due(current: &str) -> Self {
        Self { current: current.to_owned(), next: None, due: true }
    }
}

/// The service with its settings in the shape of contracts 0 and 1.
fn former(service: v1::Service) -> v1::Service {
    let config = contract_1::message(service.settings().unwrap(), service.limits.clone());
    v1::Service { sync_config: Some(config), sync_config_json: String::new(), limits: None, ..service }
}

impl Memory {
    /// What an agent is told that polls.
    fn answer(&self, request: &v1::PollRequest) -> v1::PollResponse {
        let v1::PollRequest { cursor: known, contract, want, whole } = request;
        let previous = self.previous || *contract < CONTRACT;
        let cursor = Some(v1::Cursor { epoch: "one".to_owned(), sequence: self.sequence, mark: 0 });
        let mut answer = v1::PollResponse {
            cursor: cursor.clone(),
            snapshot: known.is_none() || (*whole && !previous),
            contract: CONTRACT,
            rotate_token: self.known_tokens().is_some_and(|known| known.due),
            ..v1::PollResponse::default()
        };
        let since = known.as_ref().map_or(0, |known| known.sequence);
        for service in self.services.values() {
            let whole_at = self.whole_at[&service.id];
            let is_wanted = !previous && want.contains(&work_ref(v1::WorkKind::Service, &service.id));
            if is_wanted || answer.snapshot || (whole_at > since && !self.withholds) {
                let is_damaged = self.damaged_service.as_ref() == Some(&service.id);
                answer.work.push(if is_damaged {
                    damaged_service(&service.id)
                } else {
                    service_work(service.clone())
                });
            } else if whole_at <= since && service.sequence > since {
                answer.moved.push(v1::ServiceMove {
                    id: service.id.clone(),
                    from: whole_at,
                    sequence: service.sequence,
                    revision_id: service.revision_id.clone(),
                    artifact_digest: service.artifact_digest.clone(),
                    commit_sha: service.commit_sha.clone(),
                    commit_message: service.commit_message.clone(),
                    revision_time_ms: service.revision_time_ms,
                });
            }
        }
        if !previous {
            let runs = self.runs.iter().filter(|(id, (sequence, _))| {
                answer.snapshot
                    || *sequence > since
                    || want.contains(&work_ref(v1::WorkKind::StackRun, id.as_str()))
            });
            let runs: Vec<v1::Work> =
                runs.map(|(_, (sequence, run))| stack_run_work(run.clone(), *sequence)).collect();
            answer.work.extend(runs);
        }
        let gone = self.detached.iter().filter(|(at, _)| *at > since && !answer.snapshot);
        answer.forgotten = gone.map(|(_, work)| work.clone()).collect();
        if answer.snapshot || self.secrets_at > since || !answer.work.is_empty() {
            let secrets = self.secrets_at;
            let cluster =
                v1::ClusterData { handle: "blue".to_owned(), secrets, ..v1::ClusterData::default() };
            answer.work.push(cluster_work(cluster));
        }
        if previous {
            return self.of_contract_0(answer);
        }
        if self.is_later && *known != cursor {
            answer.work.push(v1::Work {
                id: ServiceId::new().to_string(),
                sequence: 1,
                kind: 99,
                item: None,
            });
        }
        answer
    }

    fn of_contract_0(&self, answer: v1::PollResponse) -> v1::PollResponse {
        let v1::PollResponse { cursor, snapshot, work, moved, forgotten, rotate_token, .. } = answer;
        let mut before = v1::PollResponse { cursor, snapshot, rotate_token, ..v1::PollResponse::default() };
        before.services.extend(moved.iter().map(|to| former(self.services[&to.id].clone())));
        for work in work {
            match work.item.expect("a kind that is known") {
                Item::Service(service) => before.services.push(former(*service)),
                Item::Cluster(cluster) => before.cluster = Some(cluster),
                Item::StackRun(_) => {}
            }
        }
        let services = forgotten.into_iter().filter(|work| work.kind() == v1::WorkKind::Service);
        before.forgotten_service_ids = services.map(|work| work.id).collect();
        before
    }

    fn known_tokens(&self) -> Option<&Tokens> {
        self.lagging.as_ref().or(self.tokens.as_ref())
    }

    fn accepts(&self, token: &str) -> bool {
        match self.known_tokens() {
            Some(known) => known.current == token || known.next.as_deref() == Some(token),
            None => token == TOKEN,
        }
    }

    /// A token that an agent tells, in a call that carries `with`. What is remembered may be late; what is written is not.
    fn rotate(&mut self, with: &str, told: String) -> Result<bool, Status> {
        if self.known_tokens().is_some_and(|known| known.current == told) {
            return Ok(true);
        }
        let Some(stored) = &mut self.tokens else {
            return Err(Status::unimplemented("tokens stay as they are here"));
        };
        if stored.current != with && stored.next.as_deref() != Some(with) {
            self.late += 1;
            return Err(Status::unauthenticated("the deploy token was replaced"));
        }
        let in_use = told == with;
        if in_use {
            *stored = Tokens { current: told, next: None, due: false };
        } else {
            stored.next = Some(told);
        }
        Ok(in_use)
    }
}

#[derive(Clone)]
pub(crate) struct Console {
    pub(crate) memory: Arc<Mutex<Memory>>,
    moved: watch::Sender<u64>,
    kicked: watch::Sender<Vec<v1::WorkRef>>,
    /// Changes with each kill, so that no stream misses one that is followed by a new life at once.
    killed: watch::Sender<()>,
    reported: watch::Sender<usize>,
    channel: watch::Sender<Option<Channel>>,
    address: SocketAddr,
    _held: Arc<HeldAddress>,
    server: Arc<Mutex<Option<JoinHandle<()>>>>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Console {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let held = HeldAddress::new()?;
        let listener = TcpListener::bind(held.address()).await?;
        let console = Self {
            memory: Arc::default(),
            moved: watch::Sender::new(0),
            kicked: watch::Sender::default(),
            killed: watch::Sender::new(()),
            reported: watch::Sender::new(0),
            channel: watch::Sender::new(None),
            address: held.address(),
            _held: Arc::new(held),
            server: Arc::default(),
        };
        console.serve(listener);
        Ok(console)
    }

    fn serve(&self, listener: TcpListener) {
        let service = plural_tunnel::server(self.clone());
        let channels = plural_tunnel::proxy_server(self.clone());
        let serving = async move {
            let _ = Server::builder()
                .add_service(service)
                .add_service(channels)
                .serve_with_incoming(TcpListenerStream::new(listener))
                .await;
        };
        *self.server.lock() = Some(tokio::spawn(serving));
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Dies at once: connections are cut.
    pub(crate) async fn kill(&self) {
        self.memory().killed = true;
        let server = self.server.lock().take();
        if let Some(server) = server {
            server.abort();
            let _ = server.await;
        }
        // The streams of a killed process end too.
        self.killed.send_replace(());
    }

    /// Comes back at the same address with the same memory.
    pub(crate) async fn revive(&self) -> anyhow::Result<()> {
        let sequence = {
            let mut memory = self.memory();
            memory.killed = false;
            memory.sequence
        };
        self.moved.send_replace(sequence);
        let listener = plural_testkit::eventually(Duration::from_secs(10), async || {
            TcpListener::bind(self.address).await.ok()
        })
        .await;
        self.serve(listener);
        Ok(())
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock()
    }

    /// Stores an artifact of these files; gives its digest.
    pub(crate) fn artifact(&self, files: &[(&str, String)]) -> String {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, content) in files {
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, content.as_bytes()).unwrap();
        }
        let tar = builder.into_inner().unwrap();
        let digest = hex::encode(Sha256::digest(&tar));
        self.memory().artifacts.insert(digest.clone(), tar);
        digest
    }

    /// Wants a service, or wants it changed, and hints.
    pub(crate) fn want(&self, mut service: v1::Service) {
        let sequence = {
            let mut memory = self.memory();
            memory.sequence += 1;
            service.sequence = memory.sequence;
            service.revision_id = format!("revision-{}", memory.sequence);
            memory.whole_at.insert(service.id.clone(), service.sequence);
            memory.services.insert(service.id.clone(), service);
            memory.sequence
        };
        self.moved.send_replace(sequence);
    }

    /// Moves a service to another artifact, as a commit does.
    pub(crate) fn commit(&self, id: ServiceId, artifact_digest: String, sha: &str) {
        let sequence = {
            let mut memory = self.memory();
            memory.sequence += 1;
            let sequence = memory.sequence;
            let service = memory.services.get_mut(&id.to_string()).unwrap();
            service.sequence = sequence;
            service.revision_id = format!("revision-{sequence}");
            service.artifact_digest = artifact_digest;
            sha.clone_into(&mut service.commit_sha);
            sequence
        };
        self.moved.send_replace(sequence);
    }

    /// Asks what a sync of a service would do; it stays as it is.
    pub(crate) fn ask(&self, id: ServiceId, request: &str) {
        let sequence = {
            let mut memory = self.memory();
            memory.sequence += 1;
            let sequence = memory.sequence;
            if let Some(service) = memory.services.get_mut(&id.to_string()) {
                (service.sequence, service.plan_request_id) = (sequence, request.to_owned());
            }
            memory.whole_at.insert(id.to_string(), sequence);
            sequence
        };
        self.moved.send_replace(sequence);
    }

    /// Asks what a sync of a service would do at another commit; it stays as it is.
    pub(crate) fn ask_about(&self, id: ServiceId, candidate: v1::PlanCandidate) {
        let sequence = {
            let mut memory = self.memory();
            memory.sequence += 1;
            let sequence = memory.sequence;
            if let Some(service) = memory.services.get_mut(&id.to_string()) {
                service.sequence = sequence;
                service.candidates.push(candidate);
            }
            memory.whole_at.insert(id.to_string(), sequence);
            sequence
        };
        self.moved.send_replace(sequence);
    }

    /// Asks for a service to be reconciled although nothing changed.
    pub(crate) fn kick(&self, id: ServiceId) {
        self.kicked.send_replace(vec![work_ref(v1::WorkKind::Service, id)]);
    }

    /// Lets go of a service; its objects stay.
    pub(crate) fn detach(&self, id: ServiceId) {
        let sequence = {
            let mut memory = self.memory();
            memory.services.remove(&id.to_string());
            memory.sequence += 1;
            let sequence = memory.sequence;
            memory.detached.push((sequence, work_ref(v1::WorkKind::Service, id)));
            sequence
        };
        self.moved.send_replace(sequence);
    }

    pub(crate) fn service(&self, id: ServiceId) -> v1::Service {
        self.memory().services[&id.to_string()].clone()
    }

    /// The newest report of a service that `fits`, waiting for it.
    pub(crate) async fn report(
        &self,
        id: ServiceId,
        what: &str,
        fits: impl Fn(&v1::ServiceReport) -> bool,
    ) -> anyhow::Result<v1::ServiceReport> {
        self.report_among(1, id, what, fits).await
    }

    /// A report on a service that fits, whatever was told since.
    pub(crate) async fn any_report(
        &self,
        id: ServiceId,
        what: &str,
        fits: impl Fn(&v1::ServiceReport) -> bool,
    ) -> anyhow::Result<v1::ServiceReport> {
        self.report_among(usize::MAX, id, what, fits).await
    }

    async fn report_among(
        &self,
        newest: usize,
        id: ServiceId,
        what: &str,
        fits: impl Fn(&v1::ServiceReport) -> bool,
    ) -> anyhow::Result<v1::ServiceReport> {
        let mut reported = self.reported.subscribe();
        let id = id.to_string();
        let wait = async {
            loop {
                reported.borrow_and_update();
                let found = {
                    let memory = self.memory();
                    let mut of_it =
                        memory.reports.iter().rev().filter(|report| report.service_id == id).take(newest);
                    of_it.find(|report| fits(report)).cloned()
                };
                if let Some(found) = found {
                    return found;
                }
                if reported.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::time::timeout(crate::fixture::PATIENCE, wait).await.map_err(|_| {
            let memory = self.memory();
            let last = memory.reports.iter().rev().find(|report| report.service_id == id);
            anyhow::anyhow!("no report that {what}; the last one: {last:#?}")
        })
    }

    pub(crate) async fn applied(&self, id: ServiceId) -> anyhow::Result<v1::ServiceReport> {
        let revision = self.service(id).revision_id;
        self.report(id, "says applied", |report| report.applied && report.revision_id == revision).await
    }

    /// The channel of the agent that was asked for one.
    pub(crate) async fn channel(&self) -> anyhow::Result<Channel> {
        let mut channel = self.channel.subscribe();
        let there = tokio::time::timeout(crate::fixture::PATIENCE, channel.wait_for(Option::is_some));
        there.await??.clone().ok_or_else(|| anyhow::anyhow!("no channel"))
    }

    fn admit<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let memory = self.memory();
        if memory.killed {
            return Err(Status::unavailable("killed"));
        }
        if memory.refuses || !memory.accepts(bearer_token(request.metadata().as_ref())?) {
            return Err(Status::unauthenticated("the deploy token is not valid"));
        }
        Ok(())
    }

    fn store(&self, request: v1::ReportRequest) -> Option<v1::ReportResponse> {
        let v1::ReportRequest { report_id, services, cluster: _, stack_runs } = request;
        let (count, lost) = {
            let mut memory = self.memory();
            if !memory.report_ids.contains(&report_id) {
                memory.report_ids.push(report_id);
                memory.reports.extend(services);
                memory.run_reports.extend(stack_runs);
            }
            let lost = memory.lost_acks > 0;
            memory.lost_acks = memory.lost_acks.saturating_sub(1);
            (memory.reports.len() + memory.run_reports.len(), lost)
        };
        self.reported.send_replace(count);
        (!lost).then_some(v1::ReportResponse { report_id })
    }
}

#[tonic::async_trait]
impl AgentService for Console {
    type StreamStream = Answers<v1::ConsoleMessage>;
    type ArtifactStream = Answers<v1::ArtifactChunk>;

    async fn stream(
        &self,
        request: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        self.admit(&request)?;
        let pollers_only = self.memory().pollers_only;
        if pollers_only && self.memory().hellos > 0 {
            return Err(Status::unimplemented("no streams here"));
        }
        let mut inbound = request.into_inner();
        let mut moved = self.moved.subscribe();
        let mut kicked = self.kicked.subscribe();
        let mut killed = self.killed.subscribe();
        let console = self.clone();
        let (out, answers) = mpsc::channel(16);
        tokio::spawn(async move {
            let say = |message| Ok(v1::ConsoleMessage { message: Some(message) });
            loop {
                let answer = tokio::select! {
                    message = inbound.message() => match message {
                        Ok(Some(v1::AgentMessage { message: Some(agent_message::Message::Hello(_)) })) => {
                            let (welcome, asks_for_channel) = {
                                let mut memory = console.memory();
                                memory.hellos += 1;
                                (memory.welcome.clone().unwrap_or_default(), memory.asks_for_channel)
                            };
                            let welcome = console_message::Message::Welcome(v1::Welcome {
                                poll_seconds_streaming: 600,
                                poll_seconds_polling: 1,
                                ..welcome
                            });
                            if asks_for_channel {
                                let _ = out.send(say(welcome)).await;
                                console_message::Message::OpenProxy(v1::OpenProxy {})
                            } else {
                                welcome
                            }
                        }
                        Ok(Some(v1::AgentMessage { message: Some(agent_message::Message::Report(report)) })) => {
                            match console.store(report) {
                                Some(stored) => console_message::Message::Reported(stored),
                                None => return, // the connection dies with the answer
                            }
                        }
                        Ok(Some(_)) => continue,
                        Ok(None) | Err(_) => return,
                    },
                    _ = killed.changed() => return,
                    _ = moved.changed() => {
                        let sequence = *moved.borrow();
                        console_message::Message::Hint(v1::Hint { sequence, kicked: Vec::new() })
                    }
                    _ = kicked.changed() => {
                        let kicked = kicked.borrow().clone();
                        let sequence = console.memory().sequence;
                        console_message::Message::Hint(v1::Hint { sequence, kicked })
                    }
                };
                if out.send(say(answer)).await.is_err() || pollers_only {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(answers).boxed()))
    }

    async fn poll(&self, request: Request<v1::PollRequest>) -> Result<Response<v1::PollResponse>, Status> {
        self.admit(&request)?;
        let request = request.into_inner();
        let mut memory = self.memory();
        memory.polls += 1;
        let answer = memory.answer(&request);
        memory.answers.push((request, answer.clone()));
        Ok(Response::new(answer))
    }

    async fn report(
        &self,
        request: Request<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportResponse>, Status> {
        self.admit(&request)?;
        match self.store(request.into_inner()) {
            Some(stored) => Ok(Response::new(stored)),
            None => Err(Status::unavailable("the answer is lost")),
        }
    }

    async fn join(&self, _: Request<v1::DeployToken>) -> Result<Response<v1::DeployTokenAnswer>, Status> {
        Err(Status::unimplemented("nobody joins here"))
    }

    async fn rotate_token(
        &self,
        request: Request<v1::DeployToken>,
    ) -> Result<Response<v1::DeployTokenAnswer>, Status> {
        self.admit(&request)?;
        let with = bearer_token(request.metadata().as_ref())?.to_owned();
        let in_use = self.memory().rotate(&with, request.into_inner().token)?;
        Ok(Response::new(v1::DeployTokenAnswer { in_use }))
    }

    async fn take_run(
        &self,
        request: Request<v1::TakeRunRequest>,
    ) -> Result<Response<v1::TakeRunResponse>, Status> {
        self.admit(&request)?;
        self.take(&request.into_inner()).map(Response::new)
    }

    async fn secrets(
        &self,
        request: Request<v1::SecretsRequest>,
    ) -> Result<Response<v1::SecretsResponse>, Status> {
        self.admit(&request)?;
        self.secrets_asked(request.into_inner()).map(Response::new)
    }

    async fn artifact(
        &self,
        request: Request<v1::ArtifactRequest>,
    ) -> Result<Response<Self::ArtifactStream>, Status> {
        self.admit(&request)?;
        let digest = request.into_inner().digest;
        let mut memory = self.memory();
        *memory.downloads.entry(digest.clone()).or_default() += 1;
        let damaged = memory.damaged;
        let Some(bytes) = memory.artifacts.get(&digest) else {
            return Err(Status::not_found("no such artifact"));
        };
        let mut bytes = bytes.clone();
        if damaged {
            bytes[0] ^= 1;
        }
        let frame = zstd::encode_all(&bytes[..], 1).unwrap();
        Ok(Response::new(artifact_chunks(frame).boxed()))
    }
}

#[tonic::async_trait]
impl ProxyService for Console {
    type ServeStream = Answers<v1::ProxyFrame>;

    async fn serve(
        &self,
        request: Request<Streaming<v1::ProxyFrame>>,
    ) -> Result<Response<Self::ServeStream>, Status> {
        self.admit(&request)?;
        let (channel, outgoing) = Channel::new(ChannelOptions { streams: 16 });
        let (reader, inbound) = (channel.clone(), request.into_inner());
        tokio::spawn(async move { reader.run(inbound, None).await });
        self.channel.send_replace(Some(channel));
        Ok(Response::new(outgoing.map(Ok).boxed()))
    }
}
