//! What git hosts answer to whoever works with pull requests, from their public descriptions: a stand-in on loopback with one
//! repository, and the bad days that such a host has.

mod answers;
mod app;
mod azure;
mod bitbucket;
mod datacenter;
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
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{background::Background, git_remote::GitRemote, git_server};
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
    /// Bitbucket Data Center's, and git below `/scm`.
    BitbucketDataCenter,
    /// Azure DevOps'; the API's address is that of an organisation.
    AzureDevOps,
}

impl ScmDialect {
    fn repository(self) -> &'static str {
        match self {
            Self::GitHub
            | Self::Gitea
            | Self::BitbucketCloud
            | Self::BitbucketDataCenter
            | Self::AzureDevOps => "plural/fleet",
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
    git: Option<Arc<git_server::Shared>>,
    mood: Mutex<Option<ScmMood>>,
    /// Branches that somebody else pushes to, each just before a write.
    race: Mutex<Vec<String>>,
    /// How many requests are answered before all are left without an answer.
    hold: Mutex<Option<usize>>,
    held: AtomicBool,
    /// It answers none from the next opened pull request on.
    hold_opening: AtomicBool,
    /// It opens no pull requests.
    refuse_opening: AtomicBool,
    /// The branch that somebody pushes to when the next pull request is refused.
    race_refusal: Mutex<Option<String>>,
    token: String,
    other: String,
    exchanges: AtomicUsize,
    /// Requests that came in.
    requests: AtomicUsize,
    /// The repositories that the last token of an App opens; all where nothing is here.
    narrowed: Mutex<Option<Vec<String>>>,
}

impl ScmServer {
    /// A server with one repository, whose branch `main` has two files.
    ///
    /// # Errors
    /// When no port can be bound, or a dialect needs git and it is missing.
    pub fn start(dialect: ScmDialect) -> anyhow::Result<Self> {
        let remote = match dialect {
            ScmDialect::BitbucketDataCenter => Some(GitRemote::named("plural/fleet.git")?),
            ScmDialect::GitHub
            | ScmDialect::Gitea
            | ScmDialect::GitLab
            | ScmDialect::BitbucketCloud
            | ScmDialect::AzureDevOps => None,
        };
        let shared = Arc::new(Shared {
            git: remote.as_ref().map(|remote| git_server::Shared::of(remote.root())),
            host: Mutex::new(Host::new(dialect, remote)),
            mood: Mutex::default(),
            race: Mutex::default(),
            hold: Mutex::default(),
            held: AtomicBool::new(false),
            hold_opening: AtomicBool::new(false),
            refuse_opening: AtomicBool::new(false),
            race_refusal: Mutex::default(),
            token: format!("token-{:032x}", rand::random::<u128>()),
            other: format!("other-{:032x}", rand::random::<u128>()),
            exchanges: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            narrowed: Mutex::default(),
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
        let below = match self.dialect() {
            ScmDialect::BitbucketDataCenter => "rest/api/1.0",
            ScmDialect::GitHub
            | ScmDialect::Gitea
            | ScmDialect::GitLab
            | ScmDialect::BitbucketCloud
            | ScmDialect::AzureDevOps => "api",
        };
        format!("http://{}/{below}", self.background.address())
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

    /// How many requests came in, those of git aside.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// Cuts lists of whole trees after so many files and folders, where the host does so: GitHub.
    pub fn cut_trees(&self, most: usize) {
        self.shared.host.lock().tree_cut = most;
    }

    /// Commits that came with a signature, as they were asked for.
    pub fn signed_commits(&self) -> Vec<Value> {
        self.shared.host.lock().signed.clone()
    }

    /// The repositories that the last of them opens; nothing where it opens all.
    pub fn narrowed(&self) -> Option<Vec<String>> {
        self.shared.narrowed.lock().clone()
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

    /// Somebody else pushes files to a branch, in one commit.
    pub fn push_files(&self, branch: &str, files: impl IntoIterator<Item = (String, String)>) {
        self.shared.host.lock().push_files(branch, files);
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

    /// Somebody else pushes to this branch when the next write comes in that is no deletion, just before it. Twice: before the next two.
    pub fn race(&self, branch: &str) {
        self.shared.race.lock().push(branch.to_owned());
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

    /// Opens no pull requests from now on, or does so again.
    pub fn refuse_opening(&self, refuses: bool) {
        self.shared.refuse_opening.store(refuses, Ordering::SeqCst);
    }

    /// Somebody else pushes to this branch right before the next pull request is refused.
    pub fn race_refusal(&self, branch: &str) {
        *self.shared.race_refusal.lock() = Some(branch.to_owned());
    }

    /// How a pull request was merged: `merge`, `squash` or `rebase`; nothing where it was not.
    pub fn merged_as(&self, number: u64) -> Option<&'static str> {
        let host = self.shared.host.lock();
        host.pulls.iter().find(|pull| pull.number == number)?.merged_as
    }

    /// Somebody else closes a pull request.
    pub fn close_by_another(&self, number: u64) {
        let mut host = self.shared.host.lock();
        host.pulls.iter_mut().filter(|pull| pull.number == number).for_each(|pull| pull.closed = true);
    }

    /// Somebody else opens a pull request again that was closed.
    pub fn reopen_by_another(&self, number: u64) {
        let mut host = self.shared.host.lock();
        host.pulls.iter_mut().filter(|pull| pull.number == number).for_each(|pull| pull.closed = false);
    }

    /// Somebody else writes another text for a pull request.
    pub fn edit_by_another(&self, number: u64, body: &str) {
        let mut host = self.shared.host.lock();
        host.pulls
            .iter_mut()
            .filter(|pull| pull.number == number)
            .for_each(|pull| body.clone_into(&mut pull.body));
    }

    /// Somebody else has a pull request go to another branch.
    pub fn retarget_by_another(&self, number: u64, base: &str) {
        let mut host = self.shared.host.lock();
        host.pulls
            .iter_mut()
            .filter(|pull| pull.number == number)
            .for_each(|pull| base.clone_into(&mut pull.base));
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

    /// Its tokens are of a project from now on, and of no user: what Bitbucket Data Center has.
    pub fn make_tokens_of_nobody(&self) {
        self.shared.host.lock().is_nobody = true;
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
        // Azure DevOps has one for each kind of event.
        let counts = |hook: &&state::Hook| {
            host.dialect != ScmDialect::AzureDevOps || hook.body["eventType"] == "git.push"
        };
        let counted = host.hooks.iter().filter(counts);
        counted.map(|hook| (hook.scope.clone(), host.secret_of(hook))).collect()
    }

    /// The addresses that webhooks send to, each once.
    pub fn webhook_urls(&self) -> Vec<String> {
        let host = self.shared.host.lock();
        let mut urls: Vec<String> = host.hooks.iter().map(|hook| host.url_of(hook)).collect();
        urls.sort_unstable();
        urls.dedup();
        urls
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
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let sent = credential(sent.unwrap_or_default());
    if let Some(git) = &shared.git
        && request.uri().path().starts_with("/scm/")
    {
        return serve_git(&shared, git, &sent, request).await;
    }
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let (parts, body) = request.into_parts();
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
        let Ok(body) = to_bytes(body, 1 << 20).await else { return answer(400, &Value::Null) };
        let asked: Value = serde_json::from_slice(&body).unwrap_or_default();
        let names = asked["repositories"].as_array();
        let names = names.map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        *shared.narrowed.lock() = names;
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
    let is_deletion = parts.method == http::Method::DELETE;
    if !is_read
        && !is_deletion
        && let Some(branch) = shared.race.lock().pop()
    {
        shared.host.lock().push(&branch, "raced.txt", "somebody was faster\n");
    }
    let opens = ["/pulls", "/merge_requests", "/pullrequests", "/pull-requests"];
    let opens = opens.iter().any(|end| parts.uri.path().ends_with(end));
    let done = if opens && parts.method == http::Method::POST && shared.refuse_opening.load(Ordering::SeqCst)
    {
        if let Some(branch) = shared.race_refusal.lock().take() {
            shared.host.lock().push(&branch, "raced.txt", "somebody went on with it\n");
        }
        answers::refused()
    } else {
        shared.host.lock().answer(who, &parts.method, &parts.uri, &body)
    };
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

/// What was sent to sign in: a token, or the password that is one.
fn credential(sent: &str) -> String {
    let Some(pair) = sent.strip_prefix("Basic ") else {
        return sent.trim_start_matches("Bearer ").to_owned();
    };
    let pair = STANDARD.decode(pair).ok().and_then(|pair| String::from_utf8(pair).ok()).unwrap_or_default();
    pair.split_once(':').map_or("", |(_, password)| password).to_owned()
}

/// What is asked for by git.
async fn serve_git(
    shared: &Shared,
    git: &Arc<git_server::Shared>,
    sent: &str,
    mut request: Request,
) -> Response {
    if sent != shared.token && sent != shared.other {
        let mut response = answer(401, &Value::Null);
        let realm = HeaderValue::from_static("Basic realm=\"git\"");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, realm);
        return response;
    }
    if request.method() == http::Method::POST
        && request.uri().path().ends_with("/git-receive-pack")
        && let Some(branch) = shared.race.lock().pop()
    {
        shared.host.lock().push(&branch, "raced.txt", "somebody was faster\n");
    }
    let below = request.uri().path_and_query().map(http::uri::PathAndQuery::as_str).unwrap_or_default();
    match below.trim_start_matches("/scm").parse::<http::Uri>() {
        Ok(uri) => *request.uri_mut() = uri,
        Err(_) => return answer(400, &Value::Null),
    }
    match git_server::backend(git, request).await {
        Ok(response) => response,
        Err(error) => git_server::plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{error:#}")),
    }
}

fn answer(status: u16, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}
