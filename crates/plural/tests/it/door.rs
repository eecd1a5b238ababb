//! Connections that say nothing, too many of them, and too many requests: others are served all the same.
//!
//! One backend is enough: connections end at the console; the cluster only has to be there.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use bytes::Bytes;
use futures::future::join_all;
use http::{HeaderMap, HeaderValue, Method};
use plural_testkit::{TestCluster, eventually, run_case};
use plural_tunnel::{WEBSOCKET_PATH, WEBSOCKET_PROTOCOL};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
};
use tokio_rustls::TlsConnector;

use crate::{
    program::{ConsoleProcess, Home, page},
    proxy_world::ProxyWorld,
    raw::{Raw, Said, Told, Via, grpc_frame, tcp_from, trusting},
    world::{EMAIL, PASSWORD, PATIENCE, Person, World},
};

const HOME: Ipv4Addr = Ipv4Addr::LOCALHOST;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// An empty SETTINGS frame.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// The beginning of a HEADERS frame that more would have to follow: `:method: GET`, no END_HEADERS.
const HALF_HEADERS: &[u8] = &[0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82];
const POLL: &str = "/plural.agent.v1.AgentService/Poll";
const STREAM: &str = "/plural.agent.v1.AgentService/Stream";
const RESOURCE_EXHAUSTED: u16 = 8;

/// Both ends of what these tests open are files of this process, or of its children.
fn allow_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn upgrade(forwarded: &str) -> Vec<u8> {
    format!(
        "GET {WEBSOCKET_PATH} HTTP/1.1\r\nhost: c\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: {WEBSOCKET_PROTOCOL}\r\nx-forwarded-for: {forwarded}\r\n\r\n"
    )
    .into_bytes()
}

/// A message of a client's WebSocket, masked with zeros.
fn message(bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x82, 0x80 | bytes.len() as u8, 0, 0, 0, 0];
    frame.extend_from_slice(bytes);
    frame
}

/// Says this, then nothing, until the other side closes.
async fn is_ended(
    name: &str,
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    said: Vec<u8>,
) -> anyhow::Result<()> {
    io.write_all(&said).await?;
    io.flush().await?;
    let mut buffer = vec![0; 4096];
    let read = async { while let Ok(1..) = io.read(&mut buffer).await {} };
    tokio::time::timeout(PATIENCE, read).await.with_context(|| format!("{name} is still open"))
}

/// The same, in pieces of one byte, a few each second.
async fn dripping_is_ended(mut io: TcpStream, said: &[u8]) -> anyhow::Result<()> {
    let mut ticks = tokio::time::interval(Duration::from_millis(400));
    let drip = async {
        for byte in said {
            ticks.tick().await;
            if io.write_all(&[*byte]).await.is_err() {
                return;
            }
            let mut end = [0];
            // Nothing is to be read before the head is whole; an end can be.
            if let Ok(0) = io.try_read(&mut end) {
                return;
            }
        }
        let _ = io.read(&mut [0]).await;
    };
    tokio::time::timeout(PATIENCE, drip).await.context("a head that drips in is still waited for")
}

async fn healthy(address: SocketAddr) -> anyhow::Result<()> {
    let told = tokio::time::timeout(PATIENCE, page(&address.to_string(), "/healthz")).await??;
    anyhow::ensure!(told.starts_with("HTTP/1.1 200"), "{told}");
    Ok(())
}

#[test]
fn attack_33_connections_that_say_nothing_end() {
    run_case(async {
        let w = World::without_agent(TestCluster::kubesim().await?).await?;
        let behind = World::with_config(TestCluster::kubesim().await?, |config| {
            config.trusted_proxies = vec!["127.0.0.0/8".parse().unwrap()];
        })
        .await?;
        let secure = ProxyWorld::without_agent(TestCluster::kubesim().await?).await?;
        let mut ending: JoinSet<anyhow::Result<()>> = JoinSet::new();

        let after_upgrade = |inside: &[u8]| [upgrade("192.0.2.1"), message(inside)].concat();
        let begun = [PREFACE, SETTINGS].concat();
        let kinds: Vec<(&str, Vec<u8>)> = vec![
            ("silence", Vec::new()),
            ("half of an HTTP/1 head", b"GET /healthz HTTP/1.1\r\nhost: c\r\n".to_vec()),
            ("half of an HTTP/2 preface", b"PRI * HT".to_vec()),
            ("an HTTP/2 preface", PREFACE.to_vec()),
            ("an HTTP/2 connection without a request", begun.clone()),
            ("half of an HTTP/2 head", [&begun[..], HALF_HEADERS].concat()),
            ("a silent WebSocket", upgrade("192.0.2.1")),
            ("half of a WebSocket message", [&upgrade("192.0.2.1")[..], &[0x82, 0xff, 0]].concat()),
            ("half of a preface in a WebSocket", after_upgrade(b"PRI * HT")),
            ("HTTP/2 without a request in a WebSocket", after_upgrade(&begun)),
            ("half of an HTTP/2 head in a WebSocket", after_upgrade(&[&begun[..], HALF_HEADERS].concat())),
        ];
        for (name, said) in kinds {
            for address in [w.console.address, behind.console.address] {
                let (stream, said) = (tcp_from(HOME, address).await?, said.clone());
                ending.spawn(async move { is_ended(name, stream, said).await });
            }
            let stream = TlsConnector::from(Arc::new(trusting()?))
                .connect(ServerName::try_from("console")?, tcp_from(HOME, secure.console.address).await?)
                .await?;
            ending.spawn(async move { is_ended(name, stream, said).await });
        }
        for (name, said) in [
            ("silence before TLS", &b""[..]),
            ("half of a ClientHello", &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc][..]),
        ] {
            let stream = tcp_from(HOME, secure.console.address).await?;
            ending.spawn(is_ended(name, stream, said.to_vec()));
        }
        let dripping = tcp_from(HOME, w.console.address).await?;
        let head: Vec<u8> = [&b"GET /healthz HTTP/1.1\r\nx: "[..], &[b'x'; 200]].concat();
        ending.spawn(async move { dripping_is_ended(dripping, &head).await });

        healthy(w.console.address).await?;
        while let Some(ended) = ending.join_next().await {
            ended??;
        }
        healthy(w.console.address).await?;
        secure.end().await?;
        behind.end().await?;
        w.end().await
    });
}

fn grpc(token: &str) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    headers.insert("te", HeaderValue::from_static("trailers"));
    headers.insert("authorization", format!("Bearer {token}").parse()?);
    Ok(headers)
}

async fn poll(raw: &mut Raw, token: &str) -> anyhow::Result<Told> {
    raw.ask(Method::POST, POLL, &grpc(token)?, Said::All(grpc_frame(&[]))).await
}

async fn polls(address: SocketAddr, from: Ipv4Addr, token: &str) -> anyhow::Result<Raw> {
    let mut raw = Raw::connect_from(from, address, Via::Http2).await?;
    let told = poll(&mut raw, token).await?;
    anyhow::ensure!(told.grpc() == Some(0), "{told:?}");
    Ok(raw)
}

#[test]
fn attack_33_a_crowd_that_says_nothing_leaves_room_for_others() {
    allow_files();
    run_case(async {
        let home = Home::new()?;
        let mut console = ConsoleProcess::start_with_files(&home, "crowded", 400).await?;
        let address = console.address();
        let blue = Person::administrator(&console.url()).await?.cluster("blue").await?;
        let mut agent = polls(address, HOME, &blue.token).await?;

        // More than there are descriptors, from one address and then from some.
        let mut crowd = Vec::new();
        for from in [2, 3, 4, 5].map(|last| Ipv4Addr::new(127, 0, 0, last)) {
            for n in 0..250 {
                // What is not accepted waits in the system's queue, or is closed.
                let connected = tokio::time::timeout(PATIENCE, tcp_from(from, address)).await?;
                let Ok(mut stream) = connected else { continue };
                let said: &[u8] = [&b""[..], b"PRI * HT", b"GET /", PREFACE][n % 4];
                let _ = stream.write_all(said).await;
                crowd.push(stream);
            }
            healthy(address).await?;
            assert_eq!(poll(&mut agent, &blue.token).await?.grpc(), Some(0), "its connection stays");
            drop(polls(address, HOME, &blue.token).await?);
            // Also somebody honest at the same address, before long.
            let honest =
                async || polls(address, from, &blue.token).await.map_err(|error| format!("{error:#}"));
            drop(eventually(PATIENCE, honest).await);
        }
        Person::administrator(&console.url()).await?;
        drop(crowd);
        console.stop();
        anyhow::Ok(())
    });
}

#[test]
fn a_fleet_behind_one_address_is_let_in() {
    allow_files();
    run_case(async {
        let w = World::without_agent(TestCluster::kubesim().await?).await?;
        let mut tokens = Vec::new();
        for n in 0..20 {
            tokens.push(w.person.cluster(&format!("red-{n}")).await?.token);
        }
        // More at once than are served at once.
        let mut connections = Vec::new();
        for n in 0..300 {
            connections.push((tcp_from(HOME, w.console.address).await?, tokens[n % tokens.len()].clone()));
        }
        let asked = connections.into_iter().map(|(stream, token)| async move {
            let mut raw = Raw::http2(stream).await?;
            let told = poll(&mut raw, &token).await?;
            anyhow::ensure!(told.grpc() == Some(0), "{told:?}");
            Ok(raw)
        });
        let held: Vec<Raw> = join_all(asked).await.into_iter().collect::<anyhow::Result<_>>()?;
        healthy(w.console.address).await?;
        drop(held);
        w.end().await
    });
}

#[test]
fn one_agent_has_so_many_connections_and_streams() {
    run_case(async {
        let w = World::without_agent(TestCluster::kubesim().await?).await?;
        let address = w.console.address;
        let red = w.person.cluster("red").await?;
        let mut held = Vec::new();
        let refused = loop {
            anyhow::ensure!(held.len() <= 64, "there is no limit");
            let mut raw = Raw::connect(address, Via::Http2).await?;
            let told = poll(&mut raw, &w.registered.token).await?;
            held.push(raw);
            if told.grpc() != Some(0) {
                break told;
            }
        };
        assert_eq!(refused.grpc(), Some(RESOURCE_EXHAUSTED), "{refused:?}");
        assert!(refused.grpc_message().contains("more%20than%20one%20agent"), "{refused:?}");
        // Those that it has go on, and others are not concerned.
        assert_eq!(poll(&mut held[0], &w.registered.token).await?.grpc(), Some(0));
        drop(polls(address, HOME, &red.token).await?);
        drop(held);

        let mut streams = JoinSet::new();
        for _ in 0..40 {
            let headers = grpc(&w.registered.token)?;
            streams.spawn(async move {
                let mut raw = Raw::connect(address, Via::Http2).await?;
                raw.ask(Method::POST, STREAM, &headers, Said::Never(grpc_frame(&[]))).await
            });
        }
        // Most are refused at once; the others wait for a hello.
        for _ in 0..30 {
            let told = streams.join_next().await.context("none is left")???;
            assert_eq!(told.grpc(), Some(RESOURCE_EXHAUSTED), "{told:?}");
        }
        drop(polls(address, HOME, &red.token).await?);
        streams.shutdown().await;
        // What is closed is free again.
        eventually(PATIENCE, async || {
            polls(address, HOME, &w.registered.token).await.map_err(|error| format!("{error:#}"))
        })
        .await;
        w.end().await
    });
}

fn json(token: Option<&str>) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_static("application/json"));
    if let Some(token) = token {
        headers.insert("authorization", format!("Bearer {token}").parse()?);
    }
    Ok(headers)
}

#[test]
fn one_token_and_one_user_have_so_many_requests() {
    run_case(async {
        let w = World::without_agent(TestCluster::kubesim().await?).await?;
        let address = w.console.address;
        let mut tokens = Vec::new();
        for _ in 0..3 {
            tokens.push(Person::sign_in(&w.console.url, None, EMAIL).await?.1);
        }
        let me = async |token: &str| -> anyhow::Result<Told> {
            let body = Bytes::from_static(br#"{"query": "{ me { id } }"}"#);
            Raw::connect(address, Via::Http2)
                .await?
                .ask(Method::POST, "/gql", &json(Some(token))?, Said::All(body))
                .await
        };
        // Requests whose bodies never end, each begun again when its body's time is over, until one more is refused.
        let mut held: JoinSet<anyhow::Result<()>> = JoinSet::new();
        let mut fill = async |token: &str, wanted: &str| -> anyhow::Result<()> {
            for _ in 0..64 {
                let headers = json(Some(token))?;
                held.spawn(async move {
                    loop {
                        let mut raw = Raw::connect(address, Via::Http2).await?;
                        let body = Said::Never(Bytes::from_static(b"{"));
                        let _ = raw.ask(Method::POST, "/gql", &headers, body).await;
                    }
                });
            }
            eventually(PATIENCE, async || {
                let told = me(token).await.map_err(|error| format!("{error:#}"))?;
                let text = String::from_utf8_lossy(&told.body).into_owned();
                let is_refused = told.status == 429 && told.headers.contains_key("retry-after");
                if is_refused && text.contains(wanted) {
                    Ok(())
                } else {
                    Err(format!("{} {text}", told.status))
                }
            })
            .await;
            Ok(())
        };
        fill(&tokens[0], "with this token").await?;
        assert_eq!(me(&tokens[1]).await?.status, 200, "another token");
        fill(&tokens[1], "this").await?;
        fill(&tokens[2], "of this user").await?;
        // Agents and health are not concerned.
        healthy(address).await?;
        drop(polls(address, HOME, &w.registered.token).await?);
        held.shutdown().await;
        eventually(PATIENCE, async || match me(&tokens[0]).await {
            Ok(told) if told.status == 200 => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        w.end().await
    });
}

#[test]
fn sign_ins_from_everywhere_keep_nobody_out_who_is_at_home() {
    run_case(async {
        let w = World::without_agent(TestCluster::kubesim().await?).await?;
        let address = w.console.address;
        let body = |email: &str, password: &str| {
            let query = "mutation ($e: String!, $p: String!) { signIn(email: $e, password: $p) { jwt } }";
            let asked = serde_json::json!({"query": query, "variables": {"e": email, "p": password}});
            Bytes::from(asked.to_string())
        };
        let sign_in = move |from: Ipv4Addr, body: Bytes| async move {
            let mut raw = Raw::connect_from(from, address, Via::Http2).await?;
            raw.ask(Method::POST, "/gql", &json(None)?, Said::All(body)).await
        };
        let mut guesses = JoinSet::new();
        for n in 0..320 {
            let from = Ipv4Addr::new(127, 0, 1, 1 + (n / 8) as u8);
            guesses.spawn(sign_in(from, body(&format!("user-{n}@example.com"), "a wrong password")));
        }
        // The owner of an account, who signed in from here before.
        let mut refused = 0;
        let told = sign_in(HOME, body(EMAIL, PASSWORD)).await?;
        let text = String::from_utf8_lossy(&told.body).into_owned();
        assert!(told.status == 200 && text.contains("console-"), "{} {text}", told.status);
        while let Some(told) = guesses.join_next().await {
            let told = told??;
            let text = String::from_utf8_lossy(&told.body).into_owned();
            assert!(!text.contains("console-"), "{text}");
            refused += usize::from(told.status == 429 || text.contains("retry in"));
        }
        assert!(refused > 0, "all of them were waited for");
        healthy(address).await?;
        w.end().await
    });
}
