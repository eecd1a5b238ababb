//! A folder over HTTP, on loopback, as any static web server gives it: with ranges, `Last-Modified` and `ETag`, behind a
//! password or a token if told so, with redirects, and with the bad days a host has.

use std::{
    collections::BTreeMap,
    fs,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::{self, Next},
    response::Response,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use tower_http::services::ServeDir;

use crate::{background::Background, folder::OwnedFolder, git_server::Mood};

/// A request as it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Path and query.
    pub path: String,
    /// The `Authorization` header.
    pub authorization: Option<String>,
    /// Status of the answer; 0 while there is none.
    pub status: u16,
}

/// A static web server. Stops on drop, and its folder goes with it.
#[derive(Debug)]
pub struct WebFolder {
    background: Background,
    shared: Arc<Shared>,
    folder: OwnedFolder,
}

#[derive(Debug, Default)]
struct Shared {
    mood: Mutex<Mood>,
    authorization: Mutex<Option<String>>,
    redirects: Mutex<BTreeMap<String, String>>,
    seen: Mutex<Vec<Seen>>,
}

impl WebFolder {
    /// An empty folder, served.
    ///
    /// # Errors
    /// When the folder cannot be made or no port can be bound.
    pub fn start() -> anyhow::Result<Self> {
        let folder = OwnedFolder::new("web")?;
        let shared = Arc::new(Shared::default());
        let router = Router::new()
            .fallback_service(ServeDir::new(folder.path()).append_index_html_on_directories(false))
            .layer(middleware::from_fn_with_state(Arc::clone(&shared), before));
        let background = Background::start("web-folder", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        Ok(Self { background, shared, folder })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.background.address()
    }

    /// `http://127.0.0.1:PORT` and a path, which begins with a slash.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    /// Write a file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let path: PathBuf = self.folder.path().join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, content)?;
        Ok(())
    }

    /// Make a file look as if it was written so long ago.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn age(&self, path: &str, by: Duration) -> anyhow::Result<()> {
        let file = fs::File::options().append(true).open(self.folder.path().join(path))?;
        file.set_modified(SystemTime::now() - by)?;
        Ok(())
    }

    /// Ask for this user and password from now on.
    pub fn require_basic(&self, user: &str, password: &str) {
        let value = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        *self.shared.authorization.lock() = Some(value);
    }

    /// Ask for this token from now on.
    pub fn require_bearer(&self, token: &str) {
        *self.shared.authorization.lock() = Some(format!("Bearer {token}"));
    }

    /// Answer a path with a redirect to this address from now on.
    pub fn redirect(&self, path: &str, target: &str) {
        self.shared.redirects.lock().insert(path.to_owned(), target.to_owned());
    }

    /// Behave so from now on.
    pub fn set_mood(&self, mood: Mood) {
        *self.shared.mood.lock() = mood;
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().clone()
    }
}

async fn before(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let given =
        request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let path = request.uri().to_string();
    let number = {
        let mut seen = shared.seen.lock();
        seen.push(Seen { path: path.clone(), authorization: given.clone(), status: 0 });
        seen.len() - 1
    };
    let response = answer(&shared, &path, given, request, next).await;
    if let Some(seen) = shared.seen.lock().get_mut(number) {
        seen.status = response.status().as_u16();
    }
    response
}

async fn answer(
    shared: &Shared,
    path: &str,
    given: Option<String>,
    request: Request,
    next: Next,
) -> Response {
    let mood = *shared.mood.lock();
    match mood {
        Mood::Hanging => std::future::pending().await,
        Mood::Failing(status) => {
            return plain(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
        }
        Mood::Well | Mood::Slow(_) => {}
    }
    let wanted = shared.authorization.lock().clone();
    if wanted.is_some() && wanted != given {
        let mut response = plain(StatusCode::UNAUTHORIZED);
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"web\""));
        return response;
    }
    let target = shared.redirects.lock().get(path).cloned();
    if let Some(target) = target.and_then(|target| HeaderValue::from_str(&target).ok()) {
        let mut response = plain(StatusCode::FOUND);
        response.headers_mut().insert(header::LOCATION, target);
        return response;
    }
    next.run(request).await
}

fn plain(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
