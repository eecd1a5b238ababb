//! What git hosts answer to whoever works with pull requests, from their public descriptions: a stand-in on loopback with one
//! repository, and the bad days that such a host has.

mod answers;
mod app;
mod bitbucket;
mod gitlab;
mod state;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::{Request, State},
    response::Response,
};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::background::Background;
use state::Host;

/// Whose API the server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScmDialect {
    /// GitHub's REST API.
    GitHub,
    /// Gitea's.
    Gitea,
    /// GitLab's.
    GitLab,
    /// Bitbucket Cloud's.
    BitbucketCloud,
}

impl ScmDialect {
    fn repository(self) -> &'static str {
        match self {
            Self::GitHub | Self::Gitea | Self::BitbucketCloud => "plural/fleet",
            Self::GitLab => "plural/platform/fleet",
        }
    }
}

/// How the server answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScmMood {
    /// It takes no requests for so many seconds.
    Limited(u64),
    /// It answers with this status, and repeats what it was sent as a credential.
    Failing(u16),
    /// It writes what is asked and ends its answer to that early.
    HalfAnswers,
    /// It leads elsewhere.
    Redirecting(String),
    /// It never ends.
    Endless,
}

/// The server. Stops on drop.
#[derive(Debug)]
pub struct ScmServer {
    background: Background,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    host: Mutex<Host>,
    mood: Mutex<Option<ScmMood>>,
    race: Mutex<Option<String>>,
    /// How many requests are answered before all are left without an answer.
    hold: Mutex<Option<usize>>,
    held: AtomicBool,
    /// It answers none from the next opened pull request on.
    hold_opening: AtomicBool,
    token: String,
    other: String,
    exchanges: AtomicUsize,
}

impl ScmServer {
    /// A server with one repository, whose branch `main` has two files.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start(dialect: ScmDialect) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            host: Mutex::new(Host::new(dialect)),
            mood: Mutex::default(),
            race: Mutex::default(),
            hold: Mutex::default(),
            held: AtomicBool::new(false),
            hold_opening: AtomicBool::new(false),
            token: format!("token-{:032x}", rand::random::<u128>()),
            other: format!("other-{:032x}", rand::random::<u128>()),
            exchanges: AtomicUsize::new(0),
        });
        let router = Router::new().fallback(serve).with_state(Arc::clone(&shared));
        let background = Background::start("scm-server", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        shared.host.lock().url = format!("http://{}", background.address());
        Ok(Self { background, shared })
    }

    /// Where its API is.
    pub fn api_url(&self) -> String {
        format!("http://{}/api", self.background.address())
    }

    /// Whose API it speaks.
    pub fn dialect(&self) -> ScmDialect {
        self.shared.host.lock().dialect
    }

    /// The repository.
    pub fn repository(&self) -> &'static str {
        self.dialect().repository()
    }

    /// What lets in.
    pub fn token(&self) -> String {
        self.shared.token.clone()
    }

    /// What lets somebody else in.
    pub fn other_token(&self) -> String {
        self.shared.other.clone()
    }

    /// An App that it knows: id, installation, private key in PEM form.
    pub fn app() -> (u64, u64, &'static str) {
        (app::APP, app::INSTALLATION, app::KEY)
    }

    /// How many tokens the App was given.
    pub fn exchanges(&self) -> usize {
        self.shared.exchanges.load(Ordering::SeqCst)
    }

    /// Behaves so from now on; nothing means well.
    pub fn set_mood(&self, mood: Option<ScmMood>) {
        *self.shared.mood.lock() = mood;
    }

    /// Answers lists in pages of at most so many.
    pub fn set_page(&self, page: usize) {
        self.shared.host.lock().page = page;
    }

    /// Somebody else pushes a file to a branch.
    pub fn push(&self, branch: &str, path: &str, content: &str) {
        self.shared.host.lock().push(branch, path, content);
    }

    /// Somebody else pushes an executable file to a branch.
    pub fn push_executable(&self, branch: &str, path: &str, content: &str) {
        let mut host = self.shared.host.lock();
        host.set_executable(path, true);
        host.push(branch, path, content);
    }

    /// Somebody else dismisses the reviews of a pull request.
    pub fn dismiss_reviews(&self, number: u64) {
        self.shared.host.lock().dismiss_reviews(number);
    }

    /// Somebody else pushes to this branch when the next write comes in, just before it.
    pub fn race(&self, branch: &str) {
        *self.shared.race.lock() = Some(branch.to_owned());
    }

    /// Answers so many requests, does what the next one asks, and answers neither that nor any other; nothing: answers all again.
    pub fn hold_after(&self, requests: Option<usize>) {
        *self.shared.hold.lock() = requests;
        self.shared.held.store(false, Ordering::SeqCst);
    }

    /// Opens the next pull request that is asked for, and answers neither that nor any other request, until [`Self::hold_after`].
    pub fn hold_opening(&self) {
        self.shared.hold_opening.store(true, Ordering::SeqCst);
    }

    /// Somebody else closes a pull request.
    pub fn close_by_another(&self, number: u64) {
        let mut host = self.shared.host.lock();
        host.pulls.iter_mut().filter(|pull| pull.number == number).for_each(|pull| pull.closed = true);
    }

    /// Somebody else writes another text for a pull request.
    pub fn edit_by_another(&self, number: u64, body: &str) {
        let mut host = self.shared.host.lock();
        host.pulls
            .iter_mut()
            .filter(|pull| pull.number == number)
            .for_each(|pull| body.clone_into(&mut pull.body));
    }

    /// Somebody else pushes a commit to a branch, which git knows by this id: with these files over those of `main`.
    pub fn push_commit(&self, branch: &str, commit: &str, files: &[(&str, &str)]) {
        self.shared.host.lock().set_head(branch, commit, files);
    }

    /// Somebody else opens a pull request of a branch into `main`, from another repository or not; its number. Hosts of GitHub's kind only.
    pub fn open_from(&self, branch: &str, fork: bool) -> u64 {
        let mut host = self.shared.host.lock();
        let number = host.add_pull("More".to_owned(), String::new(), branch.to_owned(), "main".to_owned());
        host.pulls.iter_mut().filter(|pull| pull.number == number).for_each(|pull| pull.fork = fork);
        number
    }

    /// Somebody else opens a pull request of a branch into `main`; its number.
    pub fn open_by_another(&self, title: &str, body: &str, head: &str) -> u64 {
        let mut host = self.shared.host.lock();
        host.add_pull(title.to_owned(), body.to_owned(), head.to_owned(), "main".to_owned())
    }

    /// Somebody else tells a check's state, as GitHub and Gitea call it.
    pub fn report(&self, commit: &str, context: &str, state: &str) {
        let status = json!({"context": context, "state": state});
        self.shared.host.lock().statuses.push((commit.to_owned(), status));
    }

    /// Whether a request was left without an answer.
    pub fn is_held(&self) -> bool {
        self.shared.held.load(Ordering::SeqCst)
    }

    /// A file at the head of a branch.
    pub fn file(&self, branch: &str, path: &str) -> Option<String> {
        let host = self.shared.host.lock();
        let files = &host.commits.get(host.branches.get(branch)?)?.files;
        Some(String::from_utf8_lossy(files.get(path)?).into_owned())
    }

    /// The names of all branches.
    pub fn branches(&self) -> Vec<String> {
        self.shared.host.lock().branches.keys().cloned().collect()
    }

    /// Everything that it knows, as text.
    pub fn everything(&self) -> String {
        let host = self.shared.host.lock();
        let files = host.commits.values().flat_map(|commit| &commit.files);
        let files = files.map(|(path, bytes)| format!("{path}\n{}", String::from_utf8_lossy(bytes)));
        let pulls = host.pulls.iter().map(|pull| format!("{}\n{}\n{}", pull.head, pull.title, pull.body));
        files.chain(pulls).collect::<Vec<_>>().join("\n")
    }

    /// Somebody else comments on a pull request.
    pub fn comment_by_another(&self, number: u64, body: &str) {
        self.shared.host.lock().comment(number, answers::OTHER, body);
    }

    /// Somebody else reviews a pull request: `APPROVED`, `REQUEST_CHANGES`, `COMMENT`.
    pub fn review_by_another(&self, number: u64, event: &str) {
        self.shared.host.lock().review(number, answers::OTHER, event);
    }

    /// Comments of a pull request: who, what.
    pub fn comments(&self, number: u64) -> Vec<(String, String)> {
        self.shared.host.lock().comments_of(number)
    }

    /// States of a commit: context, state.
    pub fn statuses(&self, commit: &str) -> Vec<(String, String)> {
        self.shared.host.lock().statuses_of(commit)
    }

    /// Webhooks: of what (`repository`, `organisation`), secret.
    pub fn webhooks(&self) -> Vec<(String, String)> {
        let host = self.shared.host.lock();
        host.hooks.iter().map(|hook| (hook.scope.clone(), host.secret_of(hook))).collect()
    }

    /// How many pull requests there are.
    pub fn pull_requests(&self) -> usize {
        self.shared.host.lock().pulls.len()
    }
}

impl Shared {
    fn holds(&self, is_opening: bool) -> bool {
        if is_opening && self.hold_opening.swap(false, Ordering::SeqCst) {
            *self.hold.lock() = Some(0);
        }
        match self.hold.lock().as_mut() {
            None => false,
            Some(0) => {
                self.held.store(true, Ordering::SeqCst);
                true
            }
            Some(left) => {
                *left -= 1;
                false
            }
        }
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let sent =
        parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let sent = sent.trim_start_matches("Bearer ").to_owned();
    let mood = shared.mood.lock().clone();
    match &mood {
        Some(ScmMood::Limited(seconds)) => {
            let mut response = answer(429, &json!({"message": "slow down"}));
            response.headers_mut().insert(header::RETRY_AFTER, (*seconds).into());
            return response;
        }
        Some(ScmMood::Failing(status)) => {
            return answer(*status, &json!({"message": format!("not with {sent}")}));
        }
        Some(ScmMood::Redirecting(target)) => {
            let mut response = answer(302, &Value::Null);
            if let Ok(target) = target.parse() {
                response.headers_mut().insert(header::LOCATION, target);
            }
            return response;
        }
        Some(ScmMood::Endless) => {
            let spaces = Bytes::from(vec![b' '; 1 << 16]);
            return Response::new(Body::from_stream(stream::repeat_with(move || {
                Ok::<_, std::io::Error>(spaces.clone())
            })));
        }
        Some(ScmMood::HalfAnswers) | None => {}
    }
    if parts.uri.path() == format!("/api/app/installations/{}/access_tokens", app::INSTALLATION) {
        if !app::is_proven(&sent) {
            return answer(401, &json!({"message": "A JSON web token could not be decoded"}));
        }
        shared.exchanges.fetch_add(1, Ordering::SeqCst);
        return answer(201, &json!({"token": shared.token, "expires_at": "2999-01-01T00:00:00Z"}));
    }
    let who = if sent == shared.token {
        answers::SELF
    } else if sent == shared.other {
        answers::OTHER
    } else {
        return answer(401, &json!({"message": "Bad credentials"}));
    };
    let Ok(body) = to_bytes(body, 64 << 20).await else { return answer(400, &Value::Null) };
    let is_read = matches!(parts.method, http::Method::GET | http::Method::HEAD);
    if !is_read && let Some(branch) = shared.race.lock().take() {
        shared.host.lock().push(&branch, "raced.txt", "somebody was faster\n");
    }
    let done = shared.host.lock().answer(who, &parts.method, &parts.uri, &body);
    let is_opening = parts.method == http::Method::POST && parts.uri.path().ends_with("/pulls");
    if shared.holds(is_opening) {
        std::future::pending::<()>().await;
    }
    if mood == Some(ScmMood::HalfAnswers) && !is_read {
        let begin = stream::once(async { Ok(Bytes::from_static(b"{\"number\": ")) });
        // What was written goes out first.
        let cut = stream::once(async {
            tokio::task::yield_now().await;
            Err(std::io::Error::other("the line is cut"))
        });
        return Response::new(Body::from_stream(begin.chain(cut)));
    }
    let mut response = match done.raw {
        Some(raw) => Response::new(Body::from(raw)),
        None => answer(done.status, &done.body),
    };
    for (name, value) in done.headers {
        if let Ok(value) = value.parse() {
            response.headers_mut().insert(name, value);
        }
    }
    if let Some(next) = done.next
        && let Ok(link) = format!("<{next}>; rel=\"next\"").parse()
    {
        response.headers_mut().insert(header::LINK, link);
    }
    response
}

fn answer(status: u16, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}
