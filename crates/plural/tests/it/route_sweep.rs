//! Every route of every listener, with every kind of credential and body, while somebody asks for `/healthz` and the console's
//! memory is watched. The list of routes is the routers' own: a route without a row here fails the test.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use plural_console::{Listener, RunningConsole};
use plural_testkit::{eventually, run_case};
use tokio::task::JoinSet;

use crate::{
    program::{ConsoleProcess, Home, page},
    raw::{Raw, Said, Told, Via, grpc_compressed, grpc_frame, peak_memory},
    world::{PASSWORD, PATIENCE, Person, console_config},
};

/// What all of it together may add to the console's memory.
const GROWTH: u64 = 200 << 20;

/// A route, and how it answers a small, good body.
struct Row {
    listener: Listener,
    /// As the router lists it.
    route: &'static str,
    /// Something that the route matches.
    path: &'static str,
    speaks: Speaks,
    /// Nobody, somebody with a wrong credential, an agent, a user who may see nothing.
    answers: [u16; 4],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Json,
    /// Codes are those of gRPC; `ANY` is whatever is not UNAUTHENTICATED.
    Grpc,
}

const ANY: u16 = u16::MAX;
const UNAUTHENTICATED: u16 = 16;

const fn public(route: &'static str, path: &'static str, answers: [u16; 4]) -> Row {
    Row { listener: Listener::Public, route, path, speaks: Speaks::Json, answers }
}

const fn grpc(listener: Listener, route: &'static str, path: &'static str) -> Row {
    let answers = [UNAUTHENTICATED, UNAUTHENTICATED, ANY, UNAUTHENTICATED];
    Row { listener, route, path, speaks: Speaks::Grpc, answers }
}

/// Opened by a join token alone: an agent's deploy token is as wrong as any other.
const fn join(listener: Listener) -> Row {
    const PATH: &str = "/plural.agent.v1.AgentService/Join";
    let route = "POST /plural.agent.v1.AgentService/Join";
    Row { listener, route, path: PATH, speaks: Speaks::Grpc, answers: [UNAUTHENTICATED; 4] }
}

const fn rotate_token(listener: Listener) -> Row {
    const PATH: &str = "/plural.agent.v1.AgentService/RotateToken";
    grpc(listener, "POST /plural.agent.v1.AgentService/RotateToken", PATH)
}

const fn take_run(listener: Listener) -> Row {
    const PATH: &str = "/plural.agent.v1.AgentService/TakeRun";
    grpc(listener, "POST /plural.agent.v1.AgentService/TakeRun", PATH)
}

const fn secrets(listener: Listener) -> Row {
    const PATH: &str = "/plural.agent.v1.AgentService/Secrets";
    grpc(listener, "POST /plural.agent.v1.AgentService/Secrets", PATH)
}

const fn replicas(route: &'static str, path: &'static str) -> Row {
    Row { listener: Listener::Replicas, route, path, speaks: Speaks::Json, answers: [403; 4] }
}

const ROWS: &[Row] = &[
    public("POST /gql", "/gql", [401, 401, 401, 200]),
    public("GET /gql", "/gql", [426; 4]),
    public("POST /ext/v1/webhooks/{type}", "/ext/v1/webhooks/github", [401; 4]),
    public("POST /ext/v1/webhooks/{type}/{id}", "/ext/v1/webhooks/github/1", [401; 4]),
    public(
        "GET /ext/v1/recordings/{id}",
        "/ext/v1/recordings/0190c8a0-0000-7000-8000-000000000000",
        [401, 401, 401, 404],
    ),
    public("GET /ext/v1/audit/export", "/ext/v1/audit/export", [401, 401, 401, 403]),
    public(
        "GET /v1/git/tarballs",
        "/v1/git/tarballs?id=0190c8a0-0000-7000-8000-000000000000",
        [401, 401, 401, 404],
    ),
    public("GET /v1/api/scm/connections", "/v1/api/scm/connections", [401, 401, 401, 200]),
    public("GET /v1/api/scm/pullrequests", "/v1/api/scm/pullrequests?first=1", [401, 401, 401, 200]),
    public("GET /v1/api/scm/prautomations", "/v1/api/scm/prautomations", [401, 401, 401, 200]),
    public(
        "POST /v1/api/scm/prautomations/{id}/invoke",
        "/v1/api/scm/prautomations/0190c8a0-0000-7000-8000-000000000000/invoke",
        // The body is GraphQL's.
        [401, 401, 401, 422],
    ),
    public(
        "* /v1/stacks/{id}/state",
        "/v1/stacks/0190c8a0-0000-7000-8000-000000000000/state",
        // 404 would say that there is no state yet.
        [401, 401, 401, 403],
    ),
    // The credential of a Job, which is none of these, and nothing else.
    public("* /v1/runs/{id}/{*call}", "/v1/runs/0190c8a0-0000-7000-8000-000000000000/heartbeat", [401; 4]),
    public(
        "POST /ext/v1/gates/{service}/{token}/{hook}",
        "/ext/v1/gates/0190c8a0-0000-7000-8000-000000000000/token/rollout",
        [404; 4],
    ),
    // Pages know people by their session cookie alone, and forms come from pages.
    public("GET /auth/sign-in", "/auth/sign-in", [200; 4]),
    public("POST /auth/sign-in", "/auth/sign-in", [403; 4]),
    public("POST /auth/link", "/auth/link", [403; 4]),
    public("GET /auth/login/{provider}", "/auth/login/acme", [404; 4]),
    public("GET /auth/callback/{provider}", "/auth/callback/acme?code=1&state=1", [401; 4]),
    public("GET /auth/account", "/auth/account", [303; 4]),
    public("POST /auth/sign-out", "/auth/sign-out", [403; 4]),
    public("GET /auth/providers", "/auth/providers", [200; 4]),
    public("POST /auth/device/code", "/auth/device/code", [415; 4]),
    public("POST /auth/token", "/auth/token", [415; 4]),
    public("GET /auth/device", "/auth/device", [303; 4]),
    public("POST /auth/device", "/auth/device", [403; 4]),
    public("POST /auth/sign-in/challenge", "/auth/sign-in/challenge", [403; 4]),
    public("POST /auth/sign-in/passkey", "/auth/sign-in/passkey", [403; 4]),
    public("GET /auth/passkeys", "/auth/passkeys", [303; 4]),
    public("POST /auth/passkeys", "/auth/passkeys", [403; 4]),
    public("POST /auth/passkeys/challenge", "/auth/passkeys/challenge", [403; 4]),
    public("POST /auth/passkeys/delete", "/auth/passkeys/delete", [403; 4]),
    public("GET /auth/passkeys.js", "/auth/passkeys.js", [200; 4]),
    public("GET /auth/invite", "/auth/invite", [200; 4]),
    public("POST /auth/invite", "/auth/invite", [403; 4]),
    public("POST /auth/invite/challenge", "/auth/invite/challenge", [403; 4]),
    public("POST /auth/invite/accept", "/auth/invite/accept", [403; 4]),
    public("GET /auth/confirm", "/auth/confirm", [303; 4]),
    public("POST /auth/confirm", "/auth/confirm", [403; 4]),
    public("GET /auth/style.css", "/auth/style.css", [200; 4]),
    // The web console: the same page and files for everybody.
    public("GET /", "/", [200; 4]),
    public("* /{*path}", "/ext/v1/nothing", [404; 4]),
    public("GET /health", "/health", [200; 4]),
    public("GET /healthz", "/healthz", [200; 4]),
    public("GET /readyz", "/readyz", [200; 4]),
    // The token of metrics is none of these credentials.
    public("GET /metrics", "/metrics", [401; 4]),
    Row {
        listener: Listener::Metrics,
        route: "GET /metrics",
        path: "/metrics",
        speaks: Speaks::Json,
        answers: [200; 4],
    },
    public("GET /agent/v1/connect", "/agent/v1/connect", [426; 4]),
    public("* /k8s/{cluster}", "/k8s/blue", [401, 401, 401, 404]),
    public("* /k8s/{cluster}/", "/k8s/blue/", [401, 401, 401, 404]),
    public("* /k8s/{cluster}/{*rest}", "/k8s/blue/api/v1/secrets", [401, 401, 401, 404]),
    grpc(
        Listener::Public,
        "POST /plural.agent.v1.AgentService/Stream",
        "/plural.agent.v1.AgentService/Stream",
    ),
    grpc(Listener::Public, "POST /plural.agent.v1.AgentService/Poll", "/plural.agent.v1.AgentService/Poll"),
    grpc(
        Listener::Public,
        "POST /plural.agent.v1.AgentService/Report",
        "/plural.agent.v1.AgentService/Report",
    ),
    grpc(
        Listener::Public,
        "POST /plural.agent.v1.AgentService/Artifact",
        "/plural.agent.v1.AgentService/Artifact",
    ),
    join(Listener::Public),
    rotate_token(Listener::Public),
    take_run(Listener::Public),
    secrets(Listener::Public),
    grpc(Listener::Public, "POST /plural.agent.v1.ProxyService/Serve", "/plural.agent.v1.ProxyService/Serve"),
    grpc(
        Listener::Wrapped,
        "POST /plural.agent.v1.AgentService/Stream",
        "/plural.agent.v1.AgentService/Stream",
    ),
    grpc(Listener::Wrapped, "POST /plural.agent.v1.AgentService/Poll", "/plural.agent.v1.AgentService/Poll"),
    grpc(
        Listener::Wrapped,
        "POST /plural.agent.v1.AgentService/Report",
        "/plural.agent.v1.AgentService/Report",
    ),
    grpc(
        Listener::Wrapped,
        "POST /plural.agent.v1.AgentService/Artifact",
        "/plural.agent.v1.AgentService/Artifact",
    ),
    join(Listener::Wrapped),
    rotate_token(Listener::Wrapped),
    take_run(Listener::Wrapped),
    secrets(Listener::Wrapped),
    grpc(
        Listener::Wrapped,
        "POST /plural.agent.v1.ProxyService/Serve",
        "/plural.agent.v1.ProxyService/Serve",
    ),
    replicas("* /k8s/{cluster}", "/k8s/blue"),
    replicas("* /k8s/{cluster}/", "/k8s/blue/"),
    replicas("* /k8s/{cluster}/{*rest}", "/k8s/blue/api/v1/secrets"),
];

impl Row {
    fn ways(&self) -> &'static [Via] {
        match (self.listener, self.speaks) {
            (Listener::Public | Listener::Metrics, Speaks::Json) => &[Via::Http1, Via::Http2],
            (Listener::Public | Listener::Metrics, Speaks::Grpc) => &[Via::Http2],
            (Listener::Wrapped, _) => &[Via::WebSocket],
            (Listener::Replicas, _) => &[Via::Tls],
        }
    }

    fn method(&self) -> Method {
        match self.route.split(' ').next().unwrap_or_default() {
            "*" => Method::POST,
            method => method.parse().unwrap(),
        }
    }

    fn headers(&self) -> HeaderMap {
        let kind = match self.speaks {
            Speaks::Json => "application/json",
            Speaks::Grpc => "application/grpc",
        };
        let mut headers = HeaderMap::new();
        headers.insert("content-type", HeaderValue::from_static(kind));
        if self.speaks == Speaks::Grpc {
            headers.insert("te", HeaderValue::from_static("trailers"));
        }
        headers
    }

    /// Small and good.
    fn body(&self) -> Bytes {
        match self.speaks {
            Speaks::Json => Bytes::from_static(br#"{"query": "{ me { id } }"}"#),
            Speaks::Grpc => grpc_frame(&[]),
        }
    }

    /// What a credential is answered. A registration token is let in where a user is, finds nothing there, and reaches no cluster.
    fn expected(&self, class: usize) -> u16 {
        match (class, self.route) {
            (MACHINE, "GET /ext/v1/audit/export") => 404,
            (MACHINE, route) if route.starts_with("* /k8s/") || route.contains(" /v1/api/") => {
                self.answers[WRONG]
            }
            (MACHINE, _) => self.answers[STRANGER],
            (class, _) => self.answers[class],
        }
    }

    /// Whether an agent is let in here and what it says is decoded.
    fn decodes_of(&self, class: usize) -> bool {
        self.speaks == Speaks::Grpc && class == AGENT
    }
}

const NOBODY: usize = 0;
const WRONG: usize = 1;
const AGENT: usize = 2;
const STRANGER: usize = 3;
/// Somebody with a registration token.
const MACHINE: usize = 4;

/// A credential, and which of a row's answers it gets.
struct Credential {
    name: &'static str,
    class: usize,
    values: Vec<HeaderValue>,
}

fn credentials(agent: &str, stranger: &str, machine: &str) -> anyhow::Result<Vec<Credential>> {
    let one = |name, class, value: &[u8]| -> anyhow::Result<Credential> {
        Ok(Credential { name, class, values: vec![HeaderValue::from_bytes(value)?] })
    };
    let bearer = |token: &str| format!("Bearer {token}").into_bytes();
    let zeros = "0".repeat(64);
    let twice = Credential {
        name: "two headers",
        class: WRONG,
        values: [agent, stranger]
            .iter()
            .map(|token| Ok(format!("Bearer {token}").parse()?))
            .collect::<anyhow::Result<_>>()?,
    };
    Ok(vec![
        Credential { name: "none", class: NOBODY, values: Vec::new() },
        one("an empty header", WRONG, b"")?,
        one("no token", WRONG, b"Bearer")?,
        one("an empty token", WRONG, b"Bearer ")?,
        one("blanks", WRONG, b"Bearer    ")?,
        one("another scheme", WRONG, b"Basic YTpi")?,
        one("bytes that are no text", WRONG, b"Bearer \xff\xfe\x80")?,
        one("a token nobody has", WRONG, &bearer(&format!("console-{zeros}")))?,
        one("a deploy token nobody has", WRONG, &bearer(&format!("deploy-{zeros}")))?,
        one("a registration token nobody has", WRONG, &bearer(&format!("register-{zeros}")))?,
        one("a long token", WRONG, &bearer(&format!("deploy-{}", zeros.repeat(100))))?,
        twice,
        one("an agent's", AGENT, &bearer(agent))?,
        one("a stranger's", STRANGER, &bearer(stranger))?,
        one("a registration token", MACHINE, &bearer(machine))?,
    ])
}

/// What nobody says who means well.
struct Hostile {
    name: &'static str,
    said: Said,
    encoding: Option<&'static str>,
    /// Only where it is decoded: elsewhere its smaller brother is enough.
    only_decoded: bool,
}

fn hostile() -> anyhow::Result<Vec<Hostile>> {
    // A report of services of which nothing is said: two bytes each, and hundreds in memory.
    let flood = |mib: usize| [0x12, 0x00].repeat(mib << 19);
    let hostile = |name, said, encoding, only_decoded| Hostile { name, said, encoding, only_decoded };
    Ok(vec![
        hostile("a flood", Said::All(grpc_frame(&flood(1))), None, false),
        hostile("a flood as large as it may be", Said::All(grpc_frame(&flood(16))), None, true),
        hostile("a flood, compressed", Said::All(grpc_compressed(&flood(16))?), Some("zstd"), false),
        hostile("a flood in one field", Said::All(grpc_frame(&field(2, &flood(1)))), None, true),
        hostile("text as large as it may be", Said::All(grpc_frame(&large_report())), None, true),
        hostile("a body that ends early", Said::All(truncated()), None, false),
        hostile("nothing but zeros", Said::All(vec![0; 1 << 20].into()), None, false),
    ])
}

/// Says that 16 MiB follow.
fn truncated() -> Bytes {
    Bytes::from_static(&[0, 1, 0, 0, 0, 0x12, 0x00, 0x12])
}

/// A report of one error with 16 MiB of text.
fn large_report() -> Vec<u8> {
    let text = vec![b'x'; (16 << 20) - 100];
    let error = [field(1, b"sync"), field(2, &text)].concat();
    let service = [field(1, b"0190c8a0-0000-7000-8000-000000000000"), field(8, &error)].concat();
    field(2, &service)
}

/// A field of bytes in a protobuf message.
fn field(number: u8, inner: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = inner.len();
    while length >= 128 {
        bytes.push((length % 128 + 128) as u8);
        length /= 128;
    }
    bytes.push(length as u8);
    bytes.extend_from_slice(inner);
    bytes
}

/// Where the listeners are.
#[derive(Debug, Clone, Copy)]
struct AgentConnections {
    public: SocketAddr,
    replicas: SocketAddr,
    metrics: SocketAddr,
}

impl AgentConnections {
    fn of(self, listener: Listener) -> SocketAddr {
        match listener {
            Listener::Public | Listener::Wrapped => self.public,
            Listener::Replicas => self.replicas,
            Listener::Metrics => self.metrics,
        }
    }

    async fn ask(self, row: &Row, via: Via, headers: &HeaderMap, said: Said) -> anyhow::Result<Told> {
        let mut raw = Raw::connect(self.of(row.listener), via).await?;
        raw.ask(row.method(), row.path, headers, said).await
    }
}

/// An address that the console tells in its log, by the field's name.
async fn told_address(console: &ConsoleProcess, field: &str) -> SocketAddr {
    eventually(PATIENCE, async || {
        let log = console.log();
        let told = log.lines().find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).ok()?;
            let told = line.pointer(&format!("/fields/{field}")).or_else(|| line.get(field))?;
            told.as_str()?.parse().ok()
        });
        told.ok_or(log)
    })
    .await
}

/// A console as a process of its own, a cluster that it knows, and a user who may see nothing.
async fn console(home: &Home) -> anyhow::Result<(ConsoleProcess, AgentConnections, Vec<Credential>)> {
    let console = ConsoleProcess::start_in(home, "swept", "info", |program| {
        program.flag("replica-listen", "127.0.0.1:0").flag("metrics-listen", "127.0.0.1:0")
    })
    .await?;
    let replicas = told_address(&console, "replica.address").await;
    let metrics = told_address(&console, "metrics.address").await;
    let person = Person::administrator(&console.url()).await?;
    let agent = person.cluster("blue").await?;
    let (_, admin) = Person::sign_in(&console.url(), None, crate::world::EMAIL).await?;
    let email = "stranger@example.com";
    let asked = serde_json::json!({
        "query": "mutation ($a: UserAttributes!) { createUser(attributes: $a) { id } }",
        "variables": {"a": {"name": "stranger", "email": email, "password": PASSWORD}},
    });
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    headers.insert("authorization", format!("Bearer {admin}").parse()?);
    let mut raw = Raw::connect(console.address(), Via::Http2).await?;
    let made = raw.ask(Method::POST, "/gql", &headers, Said::All(asked.to_string().into())).await?;
    anyhow::ensure!(made.status == 200, "{made:?}");
    let (_, stranger) = Person::sign_in(&console.url(), None, email).await?;
    let project = person.project("default").await?;
    let machine = person.registration_token(&project).await?;
    let doors = AgentConnections { public: console.address(), replicas, metrics };
    let credentials = credentials(&agent.token, &stranger, &machine)?;
    Ok((console, doors, credentials))
}

/// Asks for `/healthz` again and again until dropped.
struct Probe {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    probing: tokio::task::JoinHandle<anyhow::Result<()>>,
}

impl Probe {
    fn start(address: SocketAddr) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (stopping, counted, address) = (Arc::clone(&stop), Arc::clone(&answered), address.to_string());
        let probing = tokio::spawn(async move {
            while !stopping.load(Ordering::Relaxed) {
                let told = tokio::time::timeout(PATIENCE, page(&address, "/healthz")).await;
                let told = told.context("/healthz does not answer")??;
                anyhow::ensure!(told.starts_with("HTTP/1.1 200"), "{told}");
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        Self { stop, answered, probing }
    }

    async fn end(self) -> anyhow::Result<usize> {
        self.stop.store(true, Ordering::Relaxed);
        self.probing.await??;
        Ok(self.answered.load(Ordering::Relaxed))
    }
}

#[test]
fn every_route_has_a_row() {
    run_case(async {
        let folder = tempfile::tempdir()?;
        let mut config = console_config(folder.path());
        config.metrics_token = Some(crate::program::METRICS_TOKEN.into());
        config.metrics_listen = Some(([127, 0, 0, 1], 0).into());
        let console = RunningConsole::start(config, plural_kit::init_metrics().ok()).await?;
        let listed: BTreeSet<(Listener, String)> = console
            .routes()
            .iter()
            .map(|(listener, route)| (*listener, format!("{} {}", route.method, route.path)))
            .collect();
        let rows: BTreeSet<(Listener, String)> =
            ROWS.iter().map(|row| (row.listener, row.route.to_owned())).collect();
        let missing: Vec<_> = listed.difference(&rows).collect();
        assert!(missing.is_empty(), "routes without a row in the sweep's table: {missing:?}");
        let gone: Vec<_> = rows.difference(&listed).collect();
        assert!(gone.is_empty(), "rows of routes that are not served: {gone:?}");
        assert_eq!(rows.len(), ROWS.len(), "each has one row");
        console.stop().await?;
        anyhow::Ok(())
    });
}

/// Whatever serves a route goes through the builder that lists it.
#[test]
fn no_route_is_added_past_the_list() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut folders = vec![crates.join("api/src"), crates.join("console/src")];
    let mut files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            files += 1;
            let is_builder = path.ends_with("api/src/routes.rs");
            for past in ["Router::new()", ".route(", ".route_service(", ".nest("] {
                assert!(
                    is_builder || !text.contains(past),
                    "{}: `{past}` adds what is not listed",
                    path.display()
                );
            }
        }
    }
    assert!(files > 20);
}

#[test]
fn every_route_with_every_credential_and_body() {
    run_case(async {
        let home = Home::new()?;
        let (mut console, doors, credentials) = console(&home).await?;
        let before = peak_memory(console.pid())?;
        let probe = Probe::start(doors.public);
        let mut cases = 0;

        // Small and good bodies: who is let in, and who is not.
        for row in ROWS {
            for credential in &credentials {
                for via in row.ways() {
                    let mut headers = row.headers();
                    credential.put(&mut headers);
                    let told = doors.ask(row, *via, &headers, Said::All(row.body())).await;
                    let told =
                        told.with_context(|| format!("{} with {} by {via:?}", row.route, credential.name))?;
                    let shown = format!("{} with {} by {via:?}: {told:?}", row.route, credential.name);
                    let expected = row.expected(credential.class);
                    match row.speaks {
                        Speaks::Json => assert_eq!(told.status, expected, "{shown}"),
                        Speaks::Grpc if expected == ANY => {
                            assert_ne!(told.grpc(), Some(UNAUTHENTICATED), "{shown}");
                        }
                        Speaks::Grpc => assert_eq!(told.grpc(), Some(expected), "{shown}"),
                    }
                    cases += 1;
                }
            }
        }

        // gRPC over HTTP/1, even with the right token.
        for row in ROWS.iter().filter(|row| row.speaks == Speaks::Grpc && row.listener == Listener::Public) {
            for credential in &credentials {
                let mut headers = row.headers();
                credential.put(&mut headers);
                headers.remove("te");
                let told = doors.ask(row, Via::Http1, &headers, Said::All(row.body())).await?;
                assert_eq!(told.status, 505, "{} with {}: {told:?}", row.route, credential.name);
                cases += 1;
            }
        }

        // Hostile bodies: nothing but a refusal, and little memory.
        let hostile = hostile()?;
        let mut seen = before;
        for row in ROWS {
            for class in [NOBODY, WRONG, AGENT, STRANGER, MACHINE] {
                let credential = credentials.iter().rfind(|one| one.class == class).unwrap();
                for body in hostile.iter().filter(|body| !body.only_decoded || row.decodes_of(class)) {
                    for via in row.ways() {
                        let mut headers = row.headers();
                        credential.put(&mut headers);
                        if let Some(encoding) = body.encoding {
                            let name =
                                if row.speaks == Speaks::Grpc { "grpc-encoding" } else { "content-encoding" };
                            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(encoding));
                        }
                        let told = doors.ask(row, *via, &headers, body.said.clone()).await;
                        let shown = format!(
                            "{} of {} at {} by {via:?}: {told:?}",
                            body.name, credential.name, row.route
                        );
                        // To break off is a refusal as well.
                        if let Ok(told) = told {
                            // A page, or one that sends somebody to sign in, whatever comes with the question.
                            let is_open =
                                matches!(row.expected(class), 200 | 303) && row.method() == Method::GET;
                            match row.speaks {
                                Speaks::Json => assert!(is_open || told.status >= 400, "{shown}"),
                                Speaks::Grpc if class != AGENT => {
                                    assert_eq!(told.grpc(), Some(UNAUTHENTICATED), "{shown}");
                                }
                                Speaks::Grpc => assert_eq!(told.status, 200, "{shown}"),
                            }
                        }
                        let now = peak_memory(console.pid())?;
                        assert!(now < before + GROWTH, "{shown}: from {} to {} MiB", seen >> 20, now >> 20);
                        seen = now;
                        cases += 1;
                    }
                }
            }
        }

        // Bodies that never end, all at once: who is not let in is told so all the same.
        let mut endless = JoinSet::new();
        let mut held = JoinSet::new();
        for row in ROWS {
            for class in [NOBODY, WRONG, AGENT, STRANGER, MACHINE] {
                let credential = credentials.iter().rfind(|one| one.class == class).unwrap();
                for via in row.ways() {
                    let mut headers = row.headers();
                    credential.put(&mut headers);
                    let ask = async move { doors.ask(row, *via, &headers, Said::Never(truncated())).await };
                    if row.decodes_of(class) {
                        held.spawn(ask);
                    } else {
                        let shown = format!("{} at {} by {via:?}", credential.name, row.route);
                        endless.spawn(async move { ask.await.with_context(|| shown) });
                    }
                    cases += 1;
                }
            }
        }
        while let Some(told) = endless.join_next().await {
            told??;
        }
        held.shutdown().await;

        let answered = probe.end().await?;
        let peak = peak_memory(console.pid())?;
        assert!(peak < before + GROWTH, "from {} to {} MiB", before >> 20, peak >> 20);
        assert!(answered > 0);
        println!(
            "{} routes, {cases} cases, {answered} probes; memory from {} to {} MiB",
            ROWS.len(),
            before >> 20,
            peak >> 20
        );
        console.stop();
        anyhow::Ok(())
    });
}

impl Credential {
    fn put(&self, headers: &mut HeaderMap) {
        for value in &self.values {
            headers.append("authorization", value.clone());
        }
    }
}
