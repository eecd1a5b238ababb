//! What must not get through, and what must not bring the console down.
//!
//! One backend is enough: what is asked is the console; what lies behind it only has to be there.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use plural_testkit::{TestCluster, run_case};
use plural_tunnel::{
    Console, ConsoleOptions,
    proxy::{Channel, ChannelOptions},
    v1::{AgentMessage, Hello, ProxyOpen, agent_message, console_message},
    work::CONTRACT,
};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::{proxy_world::ProxyWorld, world::PATIENCE};

/// One connection on which a test says exactly what it wants.
pub(crate) struct Line {
    stream: TlsStream<TcpStream>,
}

impl Line {
    pub(crate) async fn connect(url: &str, ca_pem: &str) -> anyhow::Result<Self> {
        Self::connect_as(url, ca_pem, b"http/1.1").await
    }

    async fn connect_as(url: &str, ca_pem: &str, protocol: &[u8]) -> anyhow::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.to_vec()];
        let address = url.strip_prefix("https://").context("no TLS")?;
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        Ok(Self { stream: TlsConnector::from(Arc::new(config)).connect(name, stream).await? })
    }

    /// Says this and reads the answer, to the length that it tells or to the end; status and body.
    pub(crate) async fn ask(mut self, request: &str) -> anyhow::Result<(u16, String)> {
        self.stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        let read = async {
            // A server that closes hard has said all it wanted.
            while !is_whole(&answer) && self.stream.read_buf(&mut answer).await.is_ok_and(|read| read > 0) {}
        };
        tokio::time::timeout(PATIENCE, read).await.context("no answer")?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no answer: {answer:?}"))?;
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no status")?;
        Ok((status, body.to_owned()))
    }

    /// Begins a watch and returns once its answer began with 200.
    pub(crate) async fn watch(mut self, path: &str, token: &str) -> anyhow::Result<Self> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: c\r\nauthorization: Bearer {token}\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let read = tokio::time::timeout(PATIENCE, self.stream.read_buf(&mut head)).await??;
            anyhow::ensure!(read > 0, "it closed");
        }
        anyhow::ensure!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        Ok(self)
    }

    /// Waits until the other side closes, for so long at most.
    pub(crate) async fn until_closed(&mut self, patience: Duration) -> anyhow::Result<()> {
        let mut buffer = vec![0; 64 << 10];
        tokio::time::timeout(patience, async {
            loop {
                match self.stream.read(&mut buffer).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        })
        .await
        .context("it is still open")
    }

    async fn say(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }
}

/// Whether an answer has all of the body that its head tells of.
fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|end| end == b"\r\n\r\n") else { return false };
    let told = String::from_utf8_lossy(&answer[..head]).to_ascii_lowercase();
    let length = told.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
    length.is_some_and(|length: usize| answer.len() >= head + 4 + length)
}

async fn world() -> anyhow::Result<ProxyWorld> {
    let w = ProxyWorld::new(TestCluster::kubesim().await?).await?;
    w.bind_in_cluster(&w.admin.email, "cluster-admin").await?;
    Ok(w)
}

/// The same agent's stream, spoken by a test: hello, and what the console says next.
async fn hello(console: &Console) -> anyhow::Result<(mpsc::Sender<AgentMessage>, plural_tunnel::HintStream)> {
    let (up, outgoing) = mpsc::channel(4);
    let hello =
        Hello { proxies: true, agent_version: "test".to_owned(), contract: CONTRACT, ..Hello::default() };
    up.send(AgentMessage { message: Some(agent_message::Message::Hello(hello)) }).await?;
    let stream = console.stream(outgoing).await?;
    Ok((up, stream))
}

fn dial(w: &ProxyWorld, token: &str) -> anyhow::Result<Console> {
    Ok(Console::new(&ConsoleOptions {
        url: w.console.url.clone(),
        token: token.to_owned(),
        ca_pem: Some(w.ca_pem.clone()),
        deadline: Duration::from_secs(10),
    })?)
}

#[test]
fn paths_that_mean_two_things_are_refused() {
    run_case(async {
        let w = world().await?;
        for path in [
            "//api/v1/namespaces",
            "/api//v1/namespaces",
            "/api/v1/../v1/namespaces",
            "/api/v1/%2e%2e/v1/namespaces",
            "/api/v1/%2E%2E/v1/namespaces",
            "/api/v1/..%2fnamespaces",
            "/api/v1/namespaces%2fkube-system",
            "/api/v1/namespaces%5ckube-system",
            "/api/v1/namespaces;x=y",
            "/api/v1/namespaces%3bx",
            "/api/v1/%252e%252e/namespaces",
            "/api/v1/namespaces/a%00b",
            "/api/v1/namespaces/a%0d%0aImpersonate-User:%20x",
            "/./api",
        ] {
            let (status, body) = w.get(&w.admin.token, path).await?;
            assert_eq!(status, 400, "{path}: {body}");
        }
        // No path leads from one route of the console to another.
        for path in ["/../../gql", "/../blue/api", "/..;/gql"] {
            let (status, body) = w.get(&w.admin.token, path).await?;
            assert!(status >= 400, "{path}: {status} {body}");
        }
        assert_eq!(w.get(&w.admin.token, "/api/v1/namespaces").await?.0, 200);
        w.end().await
    });
}

#[test]
fn upgrades_are_what_kubernetes_knows() {
    run_case(async {
        let w = world().await?;
        for (upgrade, expected) in [("h2c", 400), ("websocket\r\nupgrade: h2c", 400), ("TLS/1.0", 400)] {
            let head = format!(
                "GET /k8s/blue/api HTTP/1.1\r\nhost: c\r\nauthorization: Bearer {}\r\nconnection: Upgrade\r\n\
                 upgrade: {upgrade}\r\n\r\n",
                w.admin.token
            );
            let line = w.http().await?;
            let (status, body) = line.ask(&head.replace("Upgrade\r\n", "Upgrade, close\r\n")).await?;
            assert_eq!(status, expected, "{upgrade}: {body}");
        }
        // Asking to upgrade what cannot be upgraded is a plain request.
        let head = format!(
            "GET /k8s/blue/version HTTP/1.1\r\nhost: c\r\nauthorization: Bearer {}\r\n\
             connection: Upgrade, close\r\nupgrade: websocket\r\n\r\n",
            w.admin.token
        );
        assert_eq!(w.http().await?.ask(&head).await?.0, 200);
        // No container has such a name, and no recording could hold it: nothing is asked of the cluster.
        for query in ["command=sh&container=a%00b", "command=sh&command=%00&container=a"] {
            let head = format!(
                "GET /k8s/blue/api/v1/namespaces/default/pods/p/exec?{query} HTTP/1.1\r\nhost: c\r\nauthorization: Bearer {}\r\n\
                 connection: Upgrade, close\r\nupgrade: websocket\r\n\r\n",
                w.admin.token
            );
            let (status, body) = w.http().await?.ask(&head).await?;
            assert!(
                status == 400 && body.contains("must not hold a NUL character"),
                "{query}: {status} {body}"
            );
        }
        // Two bodies in one request are none.
        let head = format!(
            "POST /k8s/blue/api HTTP/1.1\r\nhost: c\r\nauthorization: Bearer {}\r\nconnection: close\r\n\
             content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /k8s/blue/api/v1/secrets HTTP/1.1\r\n\r\n",
            w.admin.token
        );
        let (status, body) = w.http().await?.ask(&head).await?;
        assert!(status >= 400 && !body.contains("HTTP/1.1"), "{status} {body}");
        w.end().await
    });
}

#[test]
fn what_a_console_asserts_is_for_one_agent_and_one_request() {
    run_case(async {
        // Here the test is the console's other end: an agent that reads what it is sent.
        let w = ProxyWorld::without_agent(TestCluster::kubesim().await?).await?;
        let console = dial(&w, &w.deploy_token)?;
        let (_up, mut stream) = hello(&console).await?;
        let welcome = loop {
            match stream.message().await?.and_then(|message| message.message) {
                Some(console_message::Message::Welcome(welcome)) => break welcome,
                Some(_) => {}
                None => anyhow::bail!("no welcome"),
            }
        };
        assert_eq!(welcome.cluster_id, w.cluster_id.to_string());
        let (channel, outgoing) = Channel::new(ChannelOptions { streams: 16 });
        let inbound = console.proxy(outgoing).await?;
        let (seen, mut opens) = mpsc::channel(16);
        let reader = channel.clone();
        let serving = tokio::spawn(async move {
            let mut opened = |exchange, open: ProxyOpen| {
                let _ = seen.try_send((exchange, open));
            };
            reader.run(inbound, Some(&mut opened)).await;
        });
        let asked = tokio::spawn({
            let line = w.http().await?;
            let head = format!(
                "GET /k8s/blue/api/v1/pods?x=1 HTTP/1.1\r\nhost: c\r\nauthorization: Bearer {}\r\nconnection: close\r\n\r\n",
                w.admin.token
            );
            async move { line.ask(&head).await }
        });
        let (exchange, open) = tokio::time::timeout(PATIENCE, opens.recv()).await?.context("nothing came")?;
        drop(exchange);
        let (status, body) = asked.await??;
        assert_eq!(status, 502, "{body}");
        assert!(open.headers.iter().all(|header| header.name != "authorization"), "{open:?}");

        // What came is right for this agent, once, and for no other.
        let now = welcome.console_time_ms;
        let mut verifier =
            plural_tunnel::proxy::Verifier::new(welcome.cluster_id.clone(), welcome.proxy_keys.clone());
        let mut other = plural_tunnel::proxy::Verifier::new("another".to_owned(), welcome.proxy_keys.clone());
        assert!(other.verify(&open, now).is_err());
        let asserted = verifier.verify(&open, now)?;
        assert_eq!(asserted.user, w.admin.email);
        assert!(verifier.verify(&open, now).is_err(), "a word is believed once");
        let moved = ProxyOpen { target: "/api/v1/secrets".to_owned(), ..open.clone() };
        assert!(verifier.verify(&moved, now).is_err());
        channel.close("done");
        serving.await?;
        w.end().await
    });
}

#[test]
fn an_agent_reaches_its_own_cluster_only() {
    run_case(async {
        let w = world().await?;
        // An agent's token is no person's.
        for token in [&w.deploy_token, "deploy-wrong"] {
            assert_eq!(w.get(token, "/api").await?.0, 401);
        }
        // Another cluster's agent opens a stream and a channel: what is asked of blue never comes there.
        let red = w.person().await?.cluster("red").await?;
        let console = dial(&w, &red.token)?;
        let (_up, mut stream) = hello(&console).await?;
        stream.message().await?;
        let (channel, outgoing) = Channel::new(ChannelOptions { streams: 16 });
        let inbound = console.proxy(outgoing).await?;
        let (seen, mut opens) = mpsc::channel(16);
        let reader = channel.clone();
        let serving = tokio::spawn(async move {
            let mut opened = |_exchange, open: ProxyOpen| {
                let _ = seen.try_send(open);
            };
            reader.run(inbound, Some(&mut opened)).await;
        });
        for _ in 0..10 {
            assert_eq!(w.get(&w.admin.token, "/version").await?.0, 200);
        }
        assert!(opens.try_recv().is_err(), "blue's requests reached red");
        // An agent may open nothing: its channel ends when it tries.
        let open = ProxyOpen { method: "GET".into(), target: "/api".into(), ..ProxyOpen::default() };
        drop(channel.open(open)?);
        tokio::time::timeout(PATIENCE, channel.closed()).await?;
        serving.await?;
        w.end().await
    });
}

#[test]
fn floods_leave_the_console_standing() {
    run_case(async {
        let w = world().await?;
        let version = || async { w.get(&w.admin.token, "/version").await.map(|told| told.0) };

        // Headers beyond all measure.
        let bomb = format!(
            "GET /k8s/blue/version HTTP/1.1\r\nhost: c\r\nx: {}\r\nconnection: close\r\n\r\n",
            "a".repeat(2 << 20)
        );
        if let Ok((status, _)) = w.http().await?.ask(&bomb).await {
            assert!(status >= 400, "{status}");
        }
        let many: String = (0..5000).map(|n| format!("x{n}: y\r\n")).collect();
        let bomb = format!("GET /k8s/blue/version HTTP/1.1\r\nhost: c\r\n{many}connection: close\r\n\r\n");
        if let Ok((status, _)) = w.http().await?.ask(&bomb).await {
            assert!(status >= 400, "{status}");
        }
        assert_eq!(version().await?, 200);

        // A head that never ends is closed, and meanwhile others are served.
        let mut slow = w.http().await?;
        slow.say(b"GET /k8s/blue/version HTTP/1.1\r\nhost: c\r\n").await?;
        assert_eq!(version().await?, 200);
        slow.until_closed(Duration::from_secs(30)).await?;

        // Streams that are opened and reset as fast as the line takes it.
        let mut rapid = Line::connect_as(&w.console.url, &w.ca_pem, b"h2").await?;
        rapid.say(&rapid_resets(&w.admin.token, 20_000)).await.ok();
        assert_eq!(version().await?, 200);
        rapid.until_closed(Duration::from_secs(30)).await?;

        // Many watches that nobody reads: others go on.
        let mut idle = Vec::new();
        for _ in 0..50 {
            idle.push(w.http().await?.watch("/k8s/blue/api/v1/configmaps?watch=1", &w.admin.token).await?);
        }
        assert_eq!(version().await?, 200);
        drop(idle);
        assert_eq!(version().await?, 200);
        w.end().await
    });
}

/// An HTTP/2 connection's beginning, and so many requests, each reset at once.
fn rapid_resets(token: &str, count: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    frame(&mut bytes, 4, 0, 0, &[]);
    let literal = |name: &str, value: &str| {
        let mut field = vec![0x00];
        for text in [name, value] {
            // Seven bits of length, then more of them.
            if text.len() < 127 {
                field.push(text.len() as u8);
            } else {
                field.push(127);
                let mut rest = text.len() - 127;
                while rest >= 128 {
                    field.push((rest % 128 + 128) as u8);
                    rest /= 128;
                }
                field.push(rest as u8);
            }
            field.extend_from_slice(text.as_bytes());
        }
        field
    };
    let mut head = vec![0x82, 0x87];
    head.extend(literal(":path", "/k8s/blue/api/v1/configmaps?watch=1"));
    head.extend(literal(":authority", "c"));
    head.extend(literal("authorization", &format!("Bearer {token}")));
    for n in 0..count {
        let stream = 2 * n + 1;
        frame(&mut bytes, 1, 0x5, stream, &head);
        frame(&mut bytes, 3, 0, stream, &8_u32.to_be_bytes());
    }
    bytes
}

fn frame(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    bytes.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
}
