//! Ways to a console that are not straight.
//!
//! One backend is enough: the line ends at the agent; the cluster behind it only has to be there.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::Context as _;
use plural_agent::{Agent, AgentConfig};
use plural_testkit::{TestCluster, eventually, run_case};
use plural_tunnel::{Console, ConsoleOptions, Line, Transport};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;

use crate::program::{AgentProcess, Home, finish};
use crate::world::{PATIENCE, World, map};

/// A commit reaches the cluster along this line, and another after the console's stream was cut.
async fn a_commit_arrives(w: &mut World, config: AgentConfig) -> anyhow::Result<()> {
    w.agent = Some(Agent::start(config)?);
    let sha = w.remote.push_files([("app/a.yaml", map("a", "1"))])?;
    let id = w.service("app").await?;
    w.person.stands_at(&id, &sha).await;
    w.until_value("a", "1").await;
    let sha = w.remote.push_files([("app/a.yaml", map("a", "2"))])?;
    w.person.stands_at(&id, &sha).await;
    Ok(())
}

#[test]
fn inside_a_websocket() {
    run_case(async {
        let mut w = World::without_agent(TestCluster::kubesim().await?).await?;
        let mut config = w.agent_config().await?;
        config.line = Line { transport: Transport::WebSocket, ..Line::default() };
        a_commit_arrives(&mut w, config).await?;
        w.end().await
    });
}

#[test]
fn a_websocket_is_found_where_nothing_else_comes_through() {
    run_case(async {
        let mut w = World::without_agent(TestCluster::kubesim().await?).await?;
        let front = Front::start(w.console.address).await?;
        let mut config = w.agent_config().await?;
        config.console.url = format!("https://{}", front.address);
        config.console.ca_pem = Some(front.ca_pem.clone());
        a_commit_arrives(&mut w, config).await?;
        assert!(front.connections.load(Ordering::Relaxed) >= 2, "HTTP/2 was tried first");
        w.end().await
    });
}

#[test]
fn through_a_proxy_with_a_password() {
    run_case(async {
        let mut w = World::without_agent(TestCluster::kubesim().await?).await?;
        let proxy = ConnectProxy::start("Basic YWRhOnBAc3M=").await?;
        let mut config = w.agent_config().await?;
        config.line = Line { proxy: Some(format!("http://ada:wrong@{}", proxy.address)), ..Line::default() };
        w.agent = Some(Agent::start(config.clone())?);
        eventually(PATIENCE, async || proxy.refused.load(Ordering::Relaxed) > 0).await;
        assert_eq!(proxy.tunnels.load(Ordering::Relaxed), 0);
        w.agent.take().context("no agent")?.stop().await;

        config.line.proxy = Some(format!("http://ada:p%40ss@{}", proxy.address));
        a_commit_arrives(&mut w, config).await?;
        assert!(proxy.tunnels.load(Ordering::Relaxed) > 0);
        w.end().await
    });
}

/// A server that holds the certificate of an authority, as `openssl req -x509` makes it.
#[test]
fn an_authority_as_a_server_is_refused_in_words_that_help() {
    run_case(async {
        let is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let front = Front::with_certificate(([127, 0, 0, 1], 9).into(), is_ca).await?;
        let home = Home::new()?;
        let ca = home.path().join("ca.pem");
        std::fs::write(&ca, &front.ca_pem)?;
        let url = format!("https://{}", front.address);
        let mut whoami = home.plural(&["whoami", "--url", &url, "--ca-file", &ca.display().to_string()]);
        whoami.env("PLURAL_CONSOLE_TOKEN", "console-x");
        let told = finish(whoami).await?;
        assert_eq!(told.code, Some(1), "{told:?}");
        assert!(told.err.contains("CA:TRUE") && told.err.contains("CA:FALSE"), "{}", told.err);
        // The agent says the same.
        let console = Console::new(&ConsoleOptions {
            url,
            token: "deploy-x".to_owned(),
            ca_pem: Some(front.ca_pem.clone()),
            deadline: PATIENCE,
        })?;
        let error = console.join("join-x", "deploy-x").await.unwrap_err().to_string();
        assert!(error.contains("CA:TRUE") && error.contains("CA:FALSE"), "{error}");
        anyhow::Ok(())
    });
}

/// Waiting does not mend a certificate: the agent warns, with the cause and what to look at.
#[test]
fn an_agent_warns_of_a_certificate_that_it_does_not_trust() {
    run_case(async {
        let front = Front::start(([127, 0, 0, 1], 9).into()).await?;
        let another = Front::start(([127, 0, 0, 1], 9).into()).await?;
        let home = Home::new()?;
        let ca = home.path().join("ca.pem");
        std::fs::write(&ca, &another.ca_pem)?;
        let cluster = TestCluster::kubesim().await?;
        let url = format!("https://{}", front.address);
        let agent = AgentProcess::start_with(&home, (&url, "deploy-x"), &cluster, "info", |program| {
            program.flag("console-ca-file", ca.display().to_string())
        })
        .await?;
        let line = eventually(PATIENCE, async || {
            let log = agent.log();
            let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            lines.find(|line| line.to_string().contains("no secure connection")).ok_or(log)
        })
        .await;
        assert_eq!(line["level"], "WARN", "{line}");
        let line = line.to_string();
        assert!(line.contains("trusted here") && line.contains("--console-ca-file"), "{line}");
        anyhow::Ok(())
    });
}

/// Something that terminates TLS and speaks HTTP/1.1 only.
struct Front {
    address: SocketAddr,
    ca_pem: String,
    connections: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Front {
    async fn start(behind: SocketAddr) -> anyhow::Result<Self> {
        Self::with_certificate(behind, rcgen::IsCa::NoCa).await
    }

    /// One whose certificate is, or is not, that of an authority.
    async fn with_certificate(behind: SocketAddr, is_ca: rcgen::IsCa) -> anyhow::Result<Self> {
        let mut certificate = rcgen::CertificateParams::new(["127.0.0.1".to_owned()])?;
        certificate.is_ca = is_ca;
        let own = rcgen::KeyPair::generate()?;
        let ca_pem = certificate.self_signed(&own)?.pem();
        let chain = vec![CertificateDer::from_pem_slice(ca_pem.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(own.serialize_pem().as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        // No protocol is named, as by servers that know only one.
        config.alpn_protocols = Vec::new();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                let acceptor = acceptor.clone();
                open.spawn(async move {
                    let Ok(mut outside) = acceptor.accept(stream).await else { return };
                    let Ok(mut inside) = TcpStream::connect(behind).await else { return };
                    let _ = copy_bidirectional(&mut outside, &mut inside).await;
                });
            }
        });
        Ok(Self { address, ca_pem, connections, _task: task })
    }
}

/// A proxy that connects whoever knows the password.
struct ConnectProxy {
    address: SocketAddr,
    tunnels: Arc<AtomicUsize>,
    refused: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl ConnectProxy {
    async fn start(password: &'static str) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (tunnels, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (let_through, sent_away) = (Arc::clone(&tunnels), Arc::clone(&refused));
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let (let_through, sent_away) = (Arc::clone(&let_through), Arc::clone(&sent_away));
                open.spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(byte) = stream.read_u8().await else { return };
                        head.push(byte);
                    }
                    let head = String::from_utf8_lossy(&head).into_owned();
                    let target = head.strip_prefix("CONNECT ").and_then(|rest| rest.split(' ').next());
                    if !head.contains(&format!("proxy-authorization: {password}\r\n")) {
                        sent_away.fetch_add(1, Ordering::Relaxed);
                        let _ = stream.write_all(b"HTTP/1.1 407 who are you\r\n\r\n").await;
                        return;
                    }
                    let Some(target) = target else { return };
                    let Ok(mut inside) = TcpStream::connect(target).await else { return };
                    let_through.fetch_add(1, Ordering::Relaxed);
                    let _ = stream.write_all(b"HTTP/1.1 200 go on\r\n\r\n").await;
                    let _ = copy_bidirectional(&mut stream, &mut inside).await;
                });
            }
        });
        Ok(Self { address, tunnels, refused, _task: task })
    }
}

#[tokio::test]
async fn plain_http_stays_on_this_machine() {
    let console = |url: &str, insecure_http: bool| {
        let options = ConsoleOptions {
            url: url.to_owned(),
            token: "deploy-secret".to_owned(),
            ca_pem: None,
            deadline: PATIENCE,
        };
        Console::along(&options, &Line { insecure_http, ..Line::default() })
    };
    for beyond in [
        "http://console.example.com",
        "HTTP://console.example.com:8080",
        "http://console.plural.svc:8080/",
        "http://10.0.0.1:8080",
        "http://[2001:db8::1]:8080",
        "http://0.0.0.0:8080",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com",
    ] {
        let told = console(beyond, false).unwrap_err().to_string();
        assert!(told.contains("in clear") && told.contains("--insecure-http"), "{beyond}: {told}");
        assert!(!told.contains("deploy-secret"), "{told}");
        console(beyond, true).unwrap();
    }
    for here in ["http://127.0.0.1:8080", "http://127.9.9.9", "http://LOCALHOST:1", "http://[::1]:8080"] {
        console(here, false).unwrap();
    }
    console("https://console.example.com", false).unwrap();
}
