//! The agents' door: the gRPC contract of `plural-tunnel`, answered by the use cases.

mod convert;
mod door;
mod rendering;
mod runs;
mod secrets;
mod sync;

use std::{pin::Pin, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, stream};
use plural_api::Routes;
use plural_app::App;
use plural_app::agent::AgentHandle;
use plural_app::agent_call::AgentCall;
use plural_app::deploy_token::TokenStatus;
use plural_app::fleet::{AgentHint, AgentHints};
use plural_core::Error;
use plural_core::work::Contract;
use plural_gateway::{ConnectionGuard, Proxy};
use plural_kit::ShutdownSignal;
use plural_tunnel::{
    Gate, METHODS, proxy_server, server,
    v1::{
        AgentMessage, ArtifactChunk, ArtifactRequest, ConsoleMessage, DeployToken, DeployTokenAnswer, Drain,
        Hello, Hint, KeepAlive, OpenProxy, PollRequest, PollResponse, ProxyFrame, ReportRequest,
        ReportResponse, SecretsRequest, SecretsResponse, TakeRunRequest, TakeRunResponse, Welcome,
        agent_message, agent_service_server::AgentService, console_message,
        proxy_service_server::ProxyService,
    },
    work::CONTRACT,
};
use secrecy::ExposeSecret;
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};

use self::door::{Caller, Door};

/// How long a new stream may take to say who it is.
const HELLO: Duration = Duration::from_secs(10);
/// Signs of life that an agent may owe until its stream is dead.
const OWED: u32 = 3;
/// Between two of an agent that does not say.
const USUAL: Duration = Duration::from_secs(30);
/// What an agent of the previous build is told: it knows neither these hints nor work of other kinds, and is answered when it polls.
const OUTDATED: &str = "this agent is of an earlier build: its services stay and are delivered by polls, but hints and kubectl \
                        through the console need a newer one: update its image, or run `plural cd clusters bootstrap NAME` again";
/// How often an agent polls while its stream is up: a net under the hints.
const POLL_STREAMING: u32 = 300;
/// How often an agent polls without a stream.
const POLL_POLLING: u32 = 30;

/// The routes that agents call, to be merged with those of people.
/// An agent is given a sign of life at least each `keep_alive`.
pub(crate) fn routes(app: Arc<App>, proxy: Arc<Proxy>, stop: ShutdownSignal, keep_alive: Duration) -> Routes {
    let channels = Channels { proxy: Arc::clone(&proxy) };
    let door = Door::new(Arc::clone(&app));
    let agents = Gate::new(server(Agents { app, proxy, stop, keep_alive }), door.clone());
    let router = tonic::service::Routes::new(agents)
        .add_service(Gate::new(proxy_server(channels), door))
        .prepare()
        .into_axum_router();
    Routes::new().merge_served(router, METHODS.iter().map(|method| method.path))
}

struct Agents {
    app: Arc<App>,
    proxy: Arc<Proxy>,
    stop: ShutdownSignal,
    keep_alive: Duration,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The call that the door let in; nothing comes here without one.
fn admitted<T>(request: &mut Request<T>) -> Result<AgentCall, Status> {
    match request.extensions_mut().remove() {
        Some(Caller::Agent(call)) => Ok(call),
        Some(Caller::Join(_)) | None => Err(Status::unauthenticated("send a deploy token")),
    }
}

#[tonic::async_trait]
impl AgentService for Agents {
    type StreamStream = Answers<ConsoleMessage>;
    type ArtifactStream = Answers<ArtifactChunk>;

    async fn stream(
        &self,
        mut request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let call = admitted(&mut request)?;
        let conversation = Conversation {
            app: Arc::clone(&self.app),
            agent: call.agent().clone(),
            _call: call,
            stop: self.stop.clone(),
            inbound: request.into_inner(),
            hints: None,
            proxy: Arc::clone(&self.proxy),
            door: None,
            keep_alive: self.keep_alive,
            owed: USUAL * OWED,
            told_time: Instant::now(),
            heard: Instant::now(),
        };
        // `None` as state ends the stream after its last message.
        let answers = stream::unfold(Some(conversation), |conversation| async {
            let mut conversation = conversation?;
            match conversation.next().await {
                Next::Say(message) => Some((Ok(say(message)), Some(conversation))),
                Next::SayLast(message) => Some((Ok(say(message)), None)),
                Next::Fail(status) => Some((Err(status), None)),
                Next::End => None,
            }
        });
        Ok(Response::new(answers.boxed()))
    }

    async fn poll(&self, mut request: Request<PollRequest>) -> Result<Response<PollResponse>, Status> {
        let call = admitted(&mut request)?;
        let asked = convert::asked(request.into_inner())?;
        self.app.agent_speaks(call.agent(), asked.contract);
        self.app.agent_ping(call.agent(), None).map_err(status)?;
        let answer = self.app.agent_poll(call.agent(), &asked).await.map_err(status)?;
        Ok(Response::new(convert::poll_response(answer, asked.contract)?))
    }

    async fn report(&self, mut request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        let call = admitted(&mut request)?;
        report(&self.app, call.agent(), request.into_inner()).await.map(Response::new)
    }

    async fn join(&self, mut request: Request<DeployToken>) -> Result<Response<DeployTokenAnswer>, Status> {
        let Some(Caller::Join(join)) = request.extensions_mut().remove() else {
            return Err(Status::unauthenticated("send a join token"));
        };
        self.app.agent_join(&join, &request.into_inner().token).await.map_err(status)?;
        tracing::info!(?join, "an agent joined");
        Ok(Response::new(DeployTokenAnswer { in_use: true }))
    }

    async fn rotate_token(
        &self,
        mut request: Request<DeployToken>,
    ) -> Result<Response<DeployTokenAnswer>, Status> {
        let call = admitted(&mut request)?;
        let token = request.into_inner().token;
        let standing = self.app.agent_token_rotate(call.agent(), &token).await.map_err(status)?;
        Ok(Response::new(DeployTokenAnswer { in_use: standing == TokenStatus::Current }))
    }

    async fn take_run(
        &self,
        mut request: Request<TakeRunRequest>,
    ) -> Result<Response<TakeRunResponse>, Status> {
        let call = admitted(&mut request)?;
        let TakeRunRequest { run_id, phase, attempt } = request.into_inner();
        let (id, phase) = (convert::id(&run_id)?, runs::phase(&phase)?);
        let (token, attempt) =
            self.app.agent_run_take(call.agent(), id, phase, attempt).await.map_err(status)?;
        Ok(Response::new(TakeRunResponse { token: token.expose_secret().to_owned(), attempt }))
    }

    async fn secrets(
        &self,
        mut request: Request<SecretsRequest>,
    ) -> Result<Response<SecretsResponse>, Status> {
        let call = admitted(&mut request)?;
        let SecretsRequest { outcomes, changes } = request.into_inner();
        let told = secrets::told(outcomes)?;
        let wanted = Box::pin(self.app.agent_secrets(call.agent(), told, changes)).await.map_err(status)?;
        Ok(Response::new(SecretsResponse { secrets: wanted.into_iter().map(secrets::wanted).collect() }))
    }

    async fn artifact(
        &self,
        mut request: Request<ArtifactRequest>,
    ) -> Result<Response<Self::ArtifactStream>, Status> {
        let call = admitted(&mut request)?;
        let ArtifactRequest { digest } = request.into_inner();
        let bytes = self.app.agent_artifact(call.agent(), &digest).await.map_err(status)?;
        let chunks = bytes.map(move |piece| {
            // Open until the last piece is sent.
            let _call = &call;
            match piece {
                Ok(data) => Ok(ArtifactChunk { data }),
                Err(error) => {
                    tracing::warn!(error = %error, "reading an artifact failed");
                    Err(Status::data_loss("the artifact cannot be read; retry"))
                }
            }
        });
        Ok(Response::new(chunks.boxed()))
    }
}

/// The channels that agents open for requests of people.
struct Channels {
    proxy: Arc<Proxy>,
}

#[tonic::async_trait]
impl ProxyService for Channels {
    type ServeStream = Answers<ProxyFrame>;

    async fn serve(
        &self,
        mut request: Request<Streaming<ProxyFrame>>,
    ) -> Result<Response<Self::ServeStream>, Status> {
        let call = admitted(&mut request)?;
        let outgoing = self.proxy.doors.attach(call.agent().cluster_id(), request.into_inner())?;
        let outgoing = outgoing.map(move |frame| {
            let _call = &call;
            Ok(frame)
        });
        Ok(Response::new(outgoing.boxed()))
    }
}

/// One open stream.
struct Conversation {
    app: Arc<App>,
    agent: AgentHandle,
    /// Counts it as open.
    _call: AgentCall,
    stop: ShutdownSignal,
    inbound: Streaming<AgentMessage>,
    /// Set once the agent said hello.
    hints: Option<AgentHints>,
    proxy: Arc<Proxy>,
    /// Set once the agent said hello, if it lets people through.
    door: Option<ConnectionGuard>,
    /// Between two signs of life of ours.
    keep_alive: Duration,
    /// When it was last told what time it is.
    told_time: Instant,
    /// An agent that was silent for so long is gone.
    owed: Duration,
    /// When it last said something.
    heard: Instant,
}

enum Next {
    Say(console_message::Message),
    SayLast(console_message::Message),
    Fail(Status),
    End,
}

enum Happened {
    Stopping,
    Hint(Option<AgentHint>),
    /// Somebody wants to reach the cluster.
    Wanted,
    Inbound(Option<agent_message::Message>),
    Broken(Status),
    Quiet,
}

impl Conversation {
    /// What to say next. Dropping the future loses nothing: each thing it waits for can be waited for again.
    async fn next(&mut self) -> Next {
        loop {
            let silent_until = self.heard + if self.hints.is_some() { self.owed } else { HELLO };
            // Whatever else is said meanwhile: what people ask of the agent is valid by our clock.
            let quiet_until =
                if self.hints.is_some() { self.told_time + self.keep_alive } else { silent_until };
            let message = match self.happened(quiet_until).await {
                Happened::Stopping => return Next::SayLast(console_message::Message::Drain(Drain {})),
                Happened::Hint(None) => return Next::Fail(revoked()),
                Happened::Hint(Some(AgentHint { sequence, kicked })) => {
                    let kicked = kicked.into_iter().map(convert::reference).collect();
                    return Next::Say(console_message::Message::Hint(Hint { sequence, kicked }));
                }
                Happened::Wanted => return Next::Say(console_message::Message::OpenProxy(OpenProxy {})),
                Happened::Inbound(message) => {
                    self.heard = Instant::now();
                    message
                }
                Happened::Broken(status) => {
                    tracing::debug!(cluster.id = %self.agent.cluster_id(), error = %status, "an agent's stream broke");
                    // Heard only where it was a message that broke, not the line.
                    return Next::Fail(status);
                }
                Happened::Quiet if Instant::now() >= silent_until => return Next::End,
                Happened::Quiet => {
                    self.told_time = Instant::now();
                    let console_time_ms = self.app.now().timestamp_millis();
                    return Next::Say(console_message::Message::KeepAlive(KeepAlive { console_time_ms }));
                }
            };
            if !self.agent.is_current() {
                return Next::Fail(revoked());
            }
            match message {
                None => return Next::End,
                Some(agent_message::Message::Hello(hello)) => return self.welcome(hello),
                Some(agent_message::Message::Report(request)) => {
                    return match report(&self.app, &self.agent, request).await {
                        Ok(response) => Next::Say(console_message::Message::Reported(response)),
                        Err(status) => Next::Fail(status),
                    };
                }
                Some(agent_message::Message::KeepAlive(_)) => {
                    if let Err(error) = self.app.agent_ping(&self.agent, None) {
                        return Next::Fail(status(error));
                    }
                }
            }
        }
    }

    async fn happened(&mut self, quiet_until: Instant) -> Happened {
        let hint = async {
            match &mut self.hints {
                Some(hints) => hints.next().await,
                None => std::future::pending().await,
            }
        };
        let wanted = async {
            match &self.door {
                Some(door) => door.wanted().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.stop.requested() => Happened::Stopping,
            () = wanted => Happened::Wanted,
            hint = hint => Happened::Hint(hint),
            message = self.inbound.message() => match message {
                // A message of a newer agent that we do not know is no end of the stream.
                Ok(Some(AgentMessage { message: None })) => {
                    Happened::Inbound(Some(agent_message::Message::KeepAlive(KeepAlive::default())))
                }
                Ok(Some(AgentMessage { message })) => Happened::Inbound(message),
                Ok(None) => Happened::Inbound(None),
                Err(status) => Happened::Broken(status),
            },
            () = tokio::time::sleep_until(quiet_until) => Happened::Quiet,
        }
    }

    fn welcome(&mut self, hello: Hello) -> Next {
        let Hello { agent_version, cluster, cursor, proxies, keep_alive_seconds, contract } = hello;
        let contract = Contract(contract);
        let greeted = (|| {
            let sync = self.app.agent_hello(&self.agent)?;
            self.app.agent_speaks(&self.agent, contract);
            self.app.agent_ping(
                &self.agent,
                Some(convert::facts(cluster.unwrap_or_default(), Some(agent_version))),
            )?;
            self.hints = Some(self.app.agent_hints(&self.agent, cursor.map(convert::cursor).as_ref())?);
            Ok(sync)
        })();
        match greeted {
            Ok(_) if contract < Contract::WORK => Next::Fail(Status::failed_precondition(OUTDATED)),
            Ok(sync) => {
                tracing::info!(cluster.id = %sync.cluster_id, cluster.handle = %sync.handle, "an agent connected");
                self.owed = OWED
                    * match keep_alive_seconds {
                        0 => USUAL,
                        seconds => Duration::from_secs(u64::from(seconds)) + self.keep_alive,
                    };
                self.told_time = Instant::now();
                self.door = proxies.then(|| ConnectionGuard::enter(&self.proxy, sync.cluster_id));
                Next::Say(console_message::Message::Welcome(Welcome {
                    console_version: env!("CARGO_PKG_VERSION").to_owned(),
                    cluster_id: sync.cluster_id.to_string(),
                    cluster_handle: sync.handle.to_string(),
                    poll_seconds_streaming: POLL_STREAMING,
                    poll_seconds_polling: POLL_POLLING,
                    proxy_keys: self.proxy.public_keys(),
                    console_time_ms: self.app.now().timestamp_millis(),
                    keep_alive_seconds: u32::try_from(self.keep_alive.as_secs()).unwrap_or(u32::MAX).max(1),
                    contract: CONTRACT,
                }))
            }
            Err(error) => Next::Fail(status(error)),
        }
    }
}

async fn report(app: &App, agent: &AgentHandle, request: ReportRequest) -> Result<ReportResponse, Status> {
    let report_id = request.report_id;
    let (report, runs) = convert::report(request)?;
    app.agent_report(agent, report).await.map_err(status)?;
    // Said again, they change nothing more.
    app.agent_runs_report(agent, runs).await.map_err(status)?;
    Ok(ReportResponse { report_id })
}

fn say(message: console_message::Message) -> ConsoleMessage {
    ConsoleMessage { message: Some(message) }
}

fn revoked() -> Status {
    Status::unauthenticated("the deploy token is not valid any more")
}

/// The error as a gRPC status; what the agent may not know goes to the log.
#[expect(clippy::needless_pass_by_value, reason = "handed to map_err")]
fn status(error: Error) -> Status {
    match &error {
        Error::NotFound { .. } => Status::not_found(error.to_string()),
        Error::Forbidden { .. } => Status::permission_denied(error.to_string()),
        Error::Unauthenticated => Status::unauthenticated("the deploy token is not valid"),
        Error::Invalid { .. } | Error::Answers { .. } => Status::invalid_argument(error.to_string()),
        Error::Conflict { .. } => Status::failed_precondition(error.to_string()),
        Error::Unavailable { .. } => Status::unavailable(error.to_string()),
        Error::Internal { .. } => {
            tracing::error!(error = error.log_text(), "an agent's request failed");
            Status::internal("internal error")
        }
    }
}
