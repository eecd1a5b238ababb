//! Requests to a cluster's Kubernetes API.
//!
//! The console decides whether the bearer may reach the cluster, strips what a client may not say, signs who asks,
//! and passes bytes on. It holds no credential of a cluster; what the person may do there, the cluster decides.

mod answer;
mod body;
mod connections;
mod forward;
mod limits;
mod recording;
pub(crate) mod shell;
mod target;
mod upgrade;
pub(crate) mod websocket;

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::StreamExt;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use plural_app::App;
use plural_app::cluster::ClusterSelector;
use plural_app::proxy::ProxyGrant;
use plural_app::secret::random;
use plural_core::Error;
use plural_core::cluster_audit::ClusterAuditEntry;
use plural_core::ids::{ClusterId, RequestId};
use plural_core::specs::{HOLDS_NUL, Handle};
use plural_kit::{Shutdown, ShutdownSignal, Visit};
use plural_tunnel::{
    proxy::{
        Asserted, AssertionKey, AssertionTerms, Channel, Receiving, Sending, WEBSOCKET_TOKEN_PREFIX,
        check_target, forwarded_request_headers, header_map,
    },
    v1::{ProxyHead, ProxyKey, ProxyOpen},
};
use tokio::task::{AbortHandle, JoinSet};

pub use self::connections::{AgentConnections, ConnectionGuard};
use self::{
    answer::Refusal,
    body::{AnswerBody, AuditGuard},
    limits::Limits,
};
use crate::replicas::Peers;

/// How long an answer may take to begin. Webhooks and slow lists take seconds, never minutes.
const HEAD: Duration = Duration::from_mins(2);
/// How long the agent may take to open its channel.
const CHANNEL: Duration = Duration::from_secs(15);
/// How long a console that stops waits for the ends of recordings to be stored.
const FINISH: Duration = Duration::from_secs(10);
/// Who holds the connections of other replicas.
const REPLICAS: u128 = 0;
/// What is proxied.
const ACCEPTED: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// What requests share.
pub struct Proxy {
    app: Arc<App>,
    key: AssertionKey,
    /// The agents that are connected here.
    pub doors: AgentConnections,
    connections_of_user: usize,
    limits: Arc<Limits>,
    peers: Peers,
    /// Shells and forwarded ports that are open.
    raws: Mutex<JoinSet<()>>,
    /// Ends them.
    closing: Shutdown,
    /// Owner of everything else that outlives its handler: bodies on their way in, and what is passed on to other replicas.
    tasks: Mutex<JoinSet<()>>,
}

impl Proxy {
    /// A gateway that ends when `stop` is requested. A user may hold `connections_of_user` connections to the console.
    ///
    /// # Errors
    /// When the key that signs requests to agents cannot be made.
    pub fn new(
        app: Arc<App>,
        stop: ShutdownSignal,
        connections_of_user: usize,
    ) -> plural_core::Result<Arc<Self>> {
        let key = AssertionKey::new(app.proxy_seed(), random::<8>()?)
            .map_err(|error| Error::internal("opening the key of the proxy", error))?;
        let peers = Peers::new(&app);
        Ok(Arc::new(Self {
            app,
            key,
            peers,
            doors: AgentConnections::new(stop),
            connections_of_user,
            limits: Arc::new(Limits::default()),
            raws: Mutex::default(),
            closing: Shutdown::new(),
            tasks: Mutex::default(),
        }))
    }

    /// The keys that agents verify requests with.
    pub fn public_keys(&self) -> Vec<ProxyKey> {
        vec![self.key.public()]
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        spawn_in(&self.tasks, task)
    }

    /// Ends what is open, so that what is recorded of it and what the audit log says of it are whole. For when nothing is
    /// served any more.
    pub async fn finish(&self) {
        self.closing.request();
        let mut raws = std::mem::take(&mut *self.raws.lock());
        let ended = async { while raws.join_next().await.is_some() {} };
        if tokio::time::timeout(FINISH, ended).await.is_err() {
            tracing::error!("the ends of some recordings could not be stored before the console stopped");
        }
    }
}

fn spawn_in(tasks: &Mutex<JoinSet<()>>, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    let mut tasks = tasks.lock();
    while tasks.try_join_next().is_some() {}
    tasks.spawn(task)
}

/// From whom a request comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// A client.
    Direct,
    /// Another replica, which passed it on: it goes no further.
    Passed,
}

/// The address that a request comes from, as an extension of it: whoever serves knows which proxies are in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// Serves a request of a client, by whatever method.
pub async fn handle(State(proxy): State<Arc<Proxy>>, request: Request) -> Response<Body> {
    handle_from(Origin::Direct, &proxy, request).await
}

/// Serves a request that another replica of the console passed on, because the cluster's agent is connected to this one.
pub async fn handle_from_replica(State(proxy): State<Arc<Proxy>>, mut request: Request) -> Response<Body> {
    if !proxy.peers.is_of_a_replica(&proxy.app, &mut request) {
        let told = "only other replicas of this console are served here";
        return Refusal::new(StatusCode::FORBIDDEN, told).into_response(RequestId::new());
    }
    if let Some(visit) = request.extensions().get::<Arc<Visit>>()
        && !visit.authenticated(REPLICAS, usize::MAX)
    {
        return Refusal::too_many().into_response(RequestId::new());
    }
    request.extensions_mut().remove::<ClientAddress>();
    if let Some(told) = request.headers_mut().remove(forward::CLIENT)
        && let Some(address) = told.to_str().ok().and_then(|text| text.parse().ok())
    {
        request.extensions_mut().insert(ClientAddress(address));
    }
    handle_from(Origin::Passed, &proxy, request).await
}

async fn handle_from(way: Origin, proxy: &Arc<Proxy>, request: Request) -> Response<Body> {
    let started = Instant::now();
    let id = RequestId::new();
    let method = request.method().clone();
    let mut response = match serve(way, proxy, request, id, started).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(id),
    };
    let status = response.status().as_u16();
    // The client chooses the method, and the cluster the status: neither may be a label as it came.
    metrics::histogram!(
        "plural_proxy_request_seconds",
        "method" => plural_kit::method_label(method.as_str()),
        "status" => plural_kit::status_label(status)
    )
    .record(started.elapsed().as_secs_f64());
    let is_passed_on = response.extensions().get::<forward::PassedOn>().is_some();
    let headers = response.headers_mut();
    // What another replica answered has the id under which that one tells of it.
    if !is_passed_on && let Ok(value) = HeaderValue::from_str(&id.to_string()) {
        headers.insert("x-request-id", value);
    }
    // Whatever a cluster answers is data, never a page of the console.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox; default-src 'none'"));
    tracing::debug!(request.id = %id, http.method = %method, http.status = status, "proxied a request");
    response
}

async fn serve(
    way: Origin,
    proxy: &Arc<Proxy>,
    request: Request,
    id: RequestId,
    started: Instant,
) -> Result<Response<Body>, Refusal> {
    let (cluster, target) = target::split(request.uri()).ok_or_else(Refusal::no_cluster)?;
    let cluster = selector(cluster).ok_or_else(|| Refusal::of(&Error::not_found("cluster")))?;
    let grant = {
        let token = token(request.headers()).ok_or_else(|| Refusal::of(&unknown(request.headers())))?;
        proxy.app.proxy_grant(&token, &cluster).await.map_err(|error| Refusal::of(&error))?
    };
    let visit = request.extensions().get::<Arc<Visit>>().cloned();
    if let Some(visit) = &visit
        && !visit.authenticated(grant.user_id.uuid().as_u128(), proxy.connections_of_user)
    {
        return Err(Refusal::too_many());
    }
    proxy.app.cluster_audit_ready().map_err(|error| Refusal::of(&error))?;
    // From here on whatever happens is told in the audit log, when this is dropped.
    let told = AuditGuard::new(
        Arc::clone(&proxy.app),
        ClusterAuditEntry {
            cluster_id: grant.cluster_id,
            user_id: grant.user_id,
            actor: grant.actor.clone(),
            impersonated: Some(Arc::clone(&grant.impersonated)),
            address: request.extensions().get::<ClientAddress>().map(|address| address.0),
            token_id: grant.token_id,
            method: request.method().to_string(),
            path: target::for_the_log(&target),
            response_code: 0,
            duration_ms: None,
            received_bytes: 0,
            sent_bytes: 0,
            request_id: id,
            recording_id: None,
            at: proxy.app.now(),
        },
        started,
    );
    let mut told = told;
    if way == Origin::Direct
        && !proxy.doors.is_open(grant.cluster_id)
        && let Some(replica) = proxy.peers.holder(&proxy.app, grant.cluster_id).await
    {
        return match forward::pass_on(proxy, &replica, grant.cluster_id, request).await {
            Ok(response) => {
                told.elsewhere();
                Ok(response)
            }
            Err(refusal) => {
                told.status(refusal.status());
                Err(refusal)
            }
        };
    }
    let asked = Asked { grant, target, id };
    match pass_on(proxy, request, asked, &mut told).await {
        Ok(Passed::Answer { head, body }) => {
            told.status(head.status());
            Ok(head.map(|()| Body::new(body.told(told))))
        }
        Ok(Passed::Upgraded { head, raw }) => {
            told.status(head.status());
            if let Some(id) = raw.recording_id() {
                told.recorded(id);
            }
            // A shell may stay open for hours: that it began is told now.
            told.begun();
            let closing = proxy.closing.signal();
            spawn_in(&proxy.raws, async move {
                // The connection below keeps its place.
                let _visit = visit;
                raw.run(told, closing).await;
            });
            Ok(head.map(|()| Body::empty()))
        }
        Err(refusal) => {
            told.status(refusal.status());
            Err(refusal)
        }
    }
}

/// A request that may be passed on.
struct Asked {
    grant: Arc<ProxyGrant>,
    target: String,
    id: RequestId,
}

enum Passed {
    Answer { head: Response<()>, body: AnswerBody },
    Upgraded { head: Response<()>, raw: upgrade::Raw },
}

async fn pass_on(
    proxy: &Arc<Proxy>,
    request: Request,
    asked: Asked,
    told: &mut AuditGuard,
) -> Result<Passed, Refusal> {
    let Asked { grant, target, id } = asked;
    check_target(&target).map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, error.to_string()))?;
    if !ACCEPTED.contains(request.method()) {
        return Err(Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            format!("{} is not proxied", request.method()),
        ));
    }
    let mut request = request;
    let upgrade = upgrade::wanted(request.headers())?;
    let opens = shell::opens(request.method().as_str(), &target, upgrade.is_some());
    if opens.has_nul() {
        return Err(Refusal::new(StatusCode::BAD_REQUEST, format!("a shell's parameters {HOLDS_NUL}")));
    }
    if opens != shell::Opens::Nothing && !grant.shells {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "you need exec access to this cluster to open a shell through the console; ask one of its administrators \
             for a binding",
        ));
    }
    let has_body = upgrade.is_none() && !http_body::Body::is_end_stream(request.body());
    let place = proxy.limits.enter(grant.user_id, has_body).ok_or_else(Refusal::too_many)?;
    let opening = (upgrade.as_deref(), request.headers_mut());
    let recording = recording::begin(proxy, &grant, opens, opening, id).await?;
    let wanted = Wanted { upgrade, recorded: recording.is_some(), has_body, place };
    let sent = send(proxy, request, Asked { grant, target, id }, wanted, told).await;
    let Some(begun) = recording else { return answered(sent?).await };
    let sent = match sent {
        Ok(sent) => sent,
        Err(refusal) => {
            begun.discard().await;
            return Err(refusal);
        }
    };
    match answered(sent).await {
        Ok(Passed::Upgraded { head, mut raw }) => {
            raw.recording = Some(begun);
            Ok(Passed::Upgraded { head, raw })
        }
        Ok(answer) => {
            begun.discard().await;
            Ok(answer)
        }
        // Whatever became of it: the command may run.
        Err(refusal) => {
            told.recorded(begun.writer().id());
            begun.lose().await;
            Err(refusal)
        }
    }
}

/// What is wanted of a request's connection.
struct Wanted {
    /// What it is to become.
    upgrade: Option<String>,
    /// That has to be recorded.
    recorded: bool,
    has_body: bool,
    place: limits::Permit,
}

/// A request that is on its way to the cluster.
struct Sent {
    grant: Arc<ProxyGrant>,
    wanted: Wanted,
    on_upgrade: Option<OnUpgrade>,
    sending: Option<Sending>,
    receiving: Receiving,
    pump: Option<Abort>,
}

/// Asks the cluster. On an error it was not asked.
async fn send(
    proxy: &Arc<Proxy>,
    mut request: Request,
    Asked { grant, target, id: _ }: Asked,
    wanted: Wanted,
    told: &AuditGuard,
) -> Result<Sent, Refusal> {
    let Wanted { upgrade, recorded: _, has_body, place: _ } = &wanted;
    let on_upgrade = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let channel = proxy.doors.channel(grant.cluster_id, CHANNEL).await.map_err(Refusal::door)?;
    let mut open = ProxyOpen {
        method: parts.method.as_str().to_owned(),
        target,
        headers: forwarded_request_headers(&parts.headers),
        // The raw bytes of an upgraded connection are still to come.
        end: !has_body && upgrade.is_none(),
        upgrade: upgrade.clone().unwrap_or_default(),
        ..ProxyOpen::default()
    };
    sign(proxy, &grant, &mut open);
    let exchange = open_on(&channel, open)?;
    let (sending, receiving) = exchange.split();
    let receiving = receiving.resetting_on_drop();
    let (sending, pump) = if *has_body {
        let pump = proxy.spawn(send_body(sending, body, told.received()));
        (None, Some(Abort(pump)))
    } else {
        (Some(sending), None)
    };
    Ok(Sent { grant, wanted, on_upgrade, sending, receiving, pump })
}

/// What the cluster answers.
async fn answered(sent: Sent) -> Result<Passed, Refusal> {
    let Sent { grant, wanted, on_upgrade, mut sending, mut receiving, pump } = sent;
    let Wanted { upgrade, recorded, has_body: _, place } = wanted;
    let head = tokio::select! {
        head = tokio::time::timeout(HEAD, receiving.head()) => match head {
            Ok(Ok(head)) => head,
            Ok(Err(broken)) => return Err(Refusal::broken(&broken)),
            Err(_) => return Err(Refusal::new(
                StatusCode::GATEWAY_TIMEOUT,
                "the cluster's API server did not answer in two minutes",
            )),
        },
        () = grant.revoked().cancelled() => return Err(Refusal::of(&Error::Unauthenticated)),
    };
    let head = response_head(head)?;
    if head.status() == StatusCode::SWITCHING_PROTOCOLS {
        let (Some(upgrade), Some(on_upgrade), Some(sending)) = (upgrade, on_upgrade, sending.take()) else {
            return Err(Refusal::new(StatusCode::BAD_GATEWAY, "the agent switched protocols unasked"));
        };
        if recorded {
            recording::Begun::check(&head)?;
        }
        let head = upgrade::head(head, &upgrade)?;
        let raw = upgrade::Raw { on_upgrade, sending, receiving, grant, recording: None, place };
        return Ok(Passed::Upgraded { head, raw });
    }
    let body = AnswerBody::new(receiving, &grant, body::Kept { sending, pump, place });
    Ok(Passed::Answer { head, body })
}

/// Who asks, for this one request.
fn sign(proxy: &Proxy, grant: &ProxyGrant, open: &mut ProxyOpen) {
    let token = grant.token_id.map(|id| ("plural.sh/token".to_owned(), vec![id.to_string()]));
    let who = Asserted {
        user: grant.email.clone(),
        uid: grant.user_id.to_string(),
        groups: grant.groups.clone(),
        extra: token.into_iter().collect(),
    };
    let cluster_id = grant.cluster_id.to_string();
    let (method, target) = (open.method.clone(), open.target.clone());
    let terms = AssertionTerms {
        cluster_id: &cluster_id,
        method: &method,
        target: &target,
        now_ms: proxy.app.now().timestamp_millis(),
    };
    proxy.key.assert(&who, &terms, open);
}

fn open_on(channel: &Channel, open: ProxyOpen) -> Result<plural_tunnel::proxy::Exchange, Refusal> {
    channel.open(open).map_err(|error| match error {
        plural_tunnel::proxy::ChannelError::Full => Refusal::too_many(),
        plural_tunnel::proxy::ChannelError::Closed => Refusal::door(connections::Unreachable::Gone),
    })
}

/// The client's body, as fast as the API server reads it.
async fn send_body(mut sending: Sending, body: Body, received: Arc<AtomicU64>) {
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let Ok(piece) = piece else {
            return sending.reset("the client broke its request off");
        };
        received.fetch_add(piece.len() as u64, Ordering::Relaxed);
        if sending.send(piece).await.is_err() {
            return;
        }
    }
    let _ = sending.finish().await;
}

fn response_head(head: ProxyHead) -> Result<Response<()>, Refusal> {
    let ProxyHead { status, headers, data: _, end: _ } = head;
    let bad = || Refusal::new(StatusCode::BAD_GATEWAY, "the agent's answer cannot be read");
    let status = u16::try_from(status).ok().and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.filter(|code| *code == StatusCode::SWITCHING_PROTOCOLS || code.as_u16() >= 200);
    let status = status.ok_or_else(bad)?;
    if status.is_redirection() && status != StatusCode::NOT_MODIFIED {
        // Clients follow it with their method, body and credential: to another cluster, if the agent says so.
        return Err(Refusal::new(
            StatusCode::BAD_GATEWAY,
            "the cluster answered with a redirect, which is not passed on",
        ));
    }
    let mut response = Response::new(());
    *response.status_mut() = status;
    // Stripped by the agent, and again here: an agent is no friend of other people's browsers.
    let told = header_map(headers).ok_or_else(bad)?;
    let passed = plural_tunnel::proxy::forwarded_response_headers(&told);
    *response.headers_mut() = header_map(passed).ok_or_else(bad)?;
    Ok(response)
}

/// A cluster by id or handle.
fn selector(text: &str) -> Option<ClusterSelector> {
    if let Ok(id) = text.parse::<ClusterId>() {
        return Some(ClusterSelector::Id(id));
    }
    text.parse::<Handle>().ok().map(ClusterSelector::Handle)
}

/// Why somebody without a token is refused. A browser's session that may be used here has become one before.
fn unknown(headers: &HeaderMap) -> Error {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    if cookies.flat_map(|line| line.split(';')).any(|pair| pair.contains("plural-session=")) {
        return Error::forbidden(
            "a browser's session reaches clusters only from the console's own pages, and nothing that runs in one; use kubectl \
             with a kubeconfig of `plural cd clusters kubeconfig`",
        );
    }
    Error::Unauthenticated
}

/// The bearer's token; a browser's WebSocket can only say it among its protocols.
fn token(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    if let Some(value) = values.next() {
        if values.next().is_some() {
            return None;
        }
        let (scheme, token) = value.to_str().ok()?.trim().split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned());
    }
    let protocols = headers.get(header::SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()?;
    let encoded =
        protocols.split(',').find_map(|protocol| protocol.trim().strip_prefix(WEBSOCKET_TOKEN_PREFIX))?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
}

/// Ends a task when nobody waits for what it does.
struct Abort(AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An upgraded connection of a client.
type Client = TokioIo<hyper::upgrade::Upgraded>;

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[(&'static str, &str)]) -> HeaderMap {
        values
            .iter()
            .map(|(name, value)| {
                (header::HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
            })
            .collect()
    }

    #[test]
    fn where_a_token_may_stand() {
        let told = |values: &[(&'static str, &str)]| token(&headers(values));
        assert_eq!(told(&[("authorization", "Bearer console-1")]).as_deref(), Some("console-1"));
        let protocols = format!("v5.channel.k8s.io, {WEBSOCKET_TOKEN_PREFIX}Y29uc29sZS0x");
        assert_eq!(told(&[("sec-websocket-protocol", &protocols)]).as_deref(), Some("console-1"));
        for values in [
            &[][..],
            &[("authorization", "Basic YTpi")],
            &[("authorization", "Bearer a"), ("authorization", "Bearer b")],
            &[("cookie", "token=console-1")],
            &[("sec-websocket-protocol", "v5.channel.k8s.io")],
            // The header decides, when there is one.
            &[("authorization", "nonsense"), ("sec-websocket-protocol", &protocols)],
        ] {
            assert_eq!(told(values), None, "{values:?}");
        }
    }

    #[test]
    fn an_answer_of_the_agent_is_read_with_care() {
        let head = |status| ProxyHead { status, ..ProxyHead::default() };
        assert!(response_head(head(200)).is_ok());
        assert!(response_head(head(101)).is_ok());
        assert!(response_head(head(304)).is_ok());
        for status in [0, 99, 100, 103, 300, 301, 302, 303, 307, 308, 1000, 70_000] {
            assert!(response_head(head(status)).is_err(), "{status}");
        }
    }
}
