//! A way to Gitea's API that stops answering where a test says so.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, Method, StatusCode, header};
use parking_lot::Mutex;

use super::{Gitea, GiteaRepository};
use crate::background::Background;

/// Bytes of the largest request.
const LARGEST: usize = 64 << 20;

/// The request that is not answered, nor any after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unanswered {
    /// As in `POST`.
    pub method: &'static str,
    /// What its path holds.
    pub path: &'static str,
    /// Gitea does what it asks, and nobody hears of it; else Gitea does not hear of the request.
    pub is_done: bool,
}

/// A loopback port that leads to a server's API. Stops on drop.
#[derive(Debug)]
pub struct GiteaDoor {
    background: Background,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: String,
    client: reqwest::Client,
    unanswered: Mutex<Option<Unanswered>>,
    is_held: AtomicBool,
    /// Repositories with a branch that somebody pushes to before the next write of anybody else comes in.
    races: Mutex<Vec<(GiteaRepository<'static>, String)>>,
}

impl GiteaDoor {
    /// One that answers all.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start(gitea: &Gitea) -> anyhow::Result<Self> {
        // Losing the race to another caller that installs one is fine: they are the same.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let shared = Arc::new(Shared {
            target: gitea.url().to_owned(),
            client: reqwest::Client::builder().tls_certs_only([]).no_proxy().build()?,
            unanswered: Mutex::default(),
            is_held: AtomicBool::new(false),
            races: Mutex::default(),
        });
        let router = Router::new().fallback(pass).with_state(Arc::clone(&shared));
        let background = Background::start("gitea-door", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        Ok(Self { background, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.background.address()
    }

    /// Where the API is through it.
    pub fn api_url(&self) -> String {
        format!("http://{}/api/v1", self.address())
    }

    /// Answers neither the next such request nor any after it; nothing: answers all again.
    pub fn hold(&self, request: Option<Unanswered>) {
        *self.shared.unanswered.lock() = request;
        self.shared.is_held.store(false, Ordering::SeqCst);
    }

    /// Somebody else pushes to this branch of a repository when the next write there comes in, just before it.
    pub fn race(&self, repository: &GiteaRepository<'static>, branch: &str) {
        self.shared.races.lock().push((repository.clone(), branch.to_owned()));
    }

    /// Whether a request was left without an answer.
    pub fn is_held(&self) -> bool {
        self.shared.is_held.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn holds(&self, method: &Method, path: &str, is_done: bool) -> bool {
        if self.is_held.load(Ordering::SeqCst) {
            return true;
        }
        let is_it = self.unanswered.lock().is_some_and(|held| {
            held.method == method.as_str() && path.contains(held.path) && held.is_done == is_done
        });
        if is_it {
            self.is_held.store(true, Ordering::SeqCst);
        }
        is_it
    }
}

impl Shared {
    /// Somebody is faster, where a test asked for it.
    fn run_race(&self, method: &Method, path: &str) {
        if matches!(*method, Method::GET | Method::HEAD) {
            return;
        }
        let found = {
            let mut races = self.races.lock();
            let of = races.iter().position(|(of, _)| path.contains(&format!("/repos/{}/", of.name())));
            of.map(|at| races.swap_remove(at))
        };
        if let Some((repository, branch)) = found
            && let Err(error) = repository.push(&branch, "raced.txt", "somebody was faster\n")
        {
            eprintln!("nobody was faster: {error:#}");
        }
    }
}

async fn pass(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LARGEST).await else { return StatusCode::BAD_REQUEST.into_response() };
    let path = parts.uri.path();
    if shared.holds(&parts.method, path, false) {
        std::future::pending::<()>().await;
    }
    shared.run_race(&parts.method, path);
    let at = parts.uri.path_and_query().map_or(path, http::uri::PathAndQuery::as_str);
    let headers = passed_on(&parts.headers);
    let url = format!("{}{at}", shared.target);
    let sent = shared.client.request(parts.method.clone(), url).headers(headers).body(body).send().await;
    let Ok(answer) = sent else { return StatusCode::BAD_GATEWAY.into_response() };
    let (status, headers) = (answer.status(), passed_on(answer.headers()));
    let Ok(body) = answer.bytes().await else { return StatusCode::BAD_GATEWAY.into_response() };
    if shared.holds(&parts.method, path, true) {
        std::future::pending::<()>().await;
    }
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Those of the one connection are not those of the other.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in [header::HOST, header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers
}
