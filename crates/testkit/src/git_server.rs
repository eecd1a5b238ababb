//! Git over smart HTTP, on loopback, with the bad days a real host has.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context as _;
use axum::{Router, body::Body, extract::State, response::Response};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode, header};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio_util::io::{ReaderStream, StreamReader};

use crate::{background::Background, git_remote::GitRemote};

/// How the server behaves towards new requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mood {
    /// It answers.
    #[default]
    Well,
    /// It accepts requests and never answers.
    Hanging,
    /// It answers at this many bytes a second.
    Slow(u32),
    /// It answers with this status and a short text.
    Failing(u16),
}

/// A smart-HTTP server of the bare repositories in one folder. Stops on drop.
#[derive(Debug)]
pub struct GitServer {
    background: Background,
    shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    root: PathBuf,
    mood: Mutex<Mood>,
    credentials: Mutex<Option<(String, String)>>,
    requests: AtomicU64,
    sent: AtomicU64,
}

impl Shared {
    /// The repositories in a folder, for a server that lets in by itself.
    pub(crate) fn of(root: &Path) -> Arc<Self> {
        Arc::new(Self {
            root: root.to_owned(),
            mood: Mutex::default(),
            credentials: Mutex::default(),
            requests: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        })
    }
}

impl GitServer {
    /// Serve what is in this folder ([`GitRemote::root`]).
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start(root: &Path) -> anyhow::Result<Self> {
        let shared = Shared::of(root);
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shared));
        let background = Background::start("git-server", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        Ok(Self { background, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.background.address()
    }

    /// `http://127.0.0.1:PORT/NAME` of a repository.
    pub fn url(&self, remote: &GitRemote) -> String {
        format!("http://{}/{}", self.address(), remote.name())
    }

    /// Ask for this user and password from now on.
    pub fn require(&self, user: &str, password: &str) {
        *self.shared.credentials.lock() = Some((user.to_owned(), password.to_owned()));
    }

    /// Behave so from now on.
    pub fn set_mood(&self, mood: Mood) {
        *self.shared.mood.lock() = mood;
    }

    /// How many requests came in, answered or not.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// How many bytes git's answers had so far: what a clone costs and a fetch of little does not.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request<Body>) -> Response {
    shared.requests.fetch_add(1, Ordering::Relaxed);
    let mood = *shared.mood.lock();
    match mood {
        Mood::Hanging => std::future::pending().await,
        Mood::Failing(status) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return plain(status, "the git server has a bad day");
        }
        Mood::Well | Mood::Slow(_) => {}
    }
    if !admitted(&shared, request.headers()) {
        let mut response = plain(StatusCode::UNAUTHORIZED, "authentication required");
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"git\""));
        return response;
    }
    let response = match backend(&shared, request).await {
        Ok(response) => response,
        Err(e) => return plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{e:#}")),
    };
    match mood {
        Mood::Slow(rate) => response.map(|body| slowed(body, rate)),
        _ => response,
    }
}

pub(crate) fn plain(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = status;
    response
}

fn admitted(shared: &Shared, headers: &HeaderMap) -> bool {
    let Some((user, password)) = shared.credentials.lock().clone() else { return true };
    let expected = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
    headers.get(header::AUTHORIZATION).is_some_and(|given| given.as_bytes() == expected.as_bytes())
}

/// Hand the request to `git http-backend`, which speaks CGI.
pub(crate) async fn backend(shared: &Arc<Shared>, request: Request<Body>) -> anyhow::Result<Response> {
    let (parts, body) = request.into_parts();
    let text = |name: HeaderName| {
        parts.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned()
    };
    let mut command = tokio::process::Command::from(crate::git_remote::git(&shared.root));
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", &shared.root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REMOTE_ADDR", "127.0.0.1")
        .env("REMOTE_USER", "test")
        .env("REQUEST_METHOD", parts.method.as_str())
        .env("PATH_INFO", parts.uri.path())
        .env("QUERY_STRING", parts.uri.query().unwrap_or_default())
        .env("CONTENT_TYPE", text(header::CONTENT_TYPE))
        .env("HTTP_CONTENT_ENCODING", text(header::CONTENT_ENCODING))
        .env("GIT_PROTOCOL", text(HeaderName::from_static("git-protocol")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    if let Some(length) = parts.headers.get(header::CONTENT_LENGTH).and_then(|v| v.to_str().ok()) {
        command.env("CONTENT_LENGTH", length);
    }
    let mut child = command.spawn().context("cannot run git http-backend")?;
    let mut stdin = child.stdin.take().context("git http-backend has no stdin")?;
    let stdout = child.stdout.take().context("git http-backend has no stdout")?;

    let input = body.into_data_stream().map(|chunk| chunk.map_err(std::io::Error::other));
    let mut input = StreamReader::new(input);
    // Owned by the runtime of this server, which ends with it; the pipe breaks when git ends.
    tokio::spawn(async move {
        drop(tokio::io::copy(&mut input, &mut stdin).await);
    });

    let mut stdout = BufReader::new(stdout);
    let mut response = Response::builder();
    loop {
        let mut line = String::new();
        anyhow::ensure!(stdout.read_line(&mut line).await? > 0, "git http-backend ended without an answer");
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').context("git http-backend sent a bad header")?;
        if name.eq_ignore_ascii_case("status") {
            response = response.status(value.trim().get(..3).unwrap_or("500"));
        } else {
            response = response.header(name, value.trim());
        }
    }
    // The child lives as long as its output is read.
    let shared = Arc::clone(shared);
    let output = stream::unfold((stdout, child, shared), |(mut stdout, child, shared)| async move {
        let mut chunk = vec![0; 64 * 1024];
        match stdout.read(&mut chunk).await {
            Ok(0) => None,
            Ok(n) => {
                chunk.truncate(n);
                shared.sent.fetch_add(n as u64, Ordering::Relaxed);
                Some((Ok(Bytes::from(chunk)), (stdout, child, shared)))
            }
            Err(e) => Some((Err(e), (stdout, child, shared))),
        }
    });
    Ok(response.body(Body::from_stream(output))?)
}

/// The same bytes at a tenth of `rate` every tenth of a second.
fn slowed(body: Body, rate: u32) -> Body {
    let portion = (rate / 10).max(1) as usize;
    let input = body.into_data_stream().map(|chunk| chunk.map_err(std::io::Error::other));
    let chunks = ReaderStream::with_capacity(StreamReader::new(input), portion).then(|chunk| async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        chunk
    });
    Body::from_stream(chunks)
}
