//! Gitea, as organisations run it, on a database in a folder of the test's own.

use std::{
    fmt::Write as _,
    fs, io,
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use axum::{Router, extract::State, routing::post};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    background::Background,
    folder::OwnedFolder,
    port::free_port,
    postgres::unprivileged_user,
    process::{Program, RunAs, Running, isolate},
    programs::program_or_report,
};

/// How long it may take to start on a busy machine.
const READY_WITHIN: Duration = Duration::from_mins(2);
/// What it reads while it runs lies beside its program.
const FILES: &str = "gitea-files";
/// Whose token a connection has.
const SELF: &str = "plural-bot";
/// Somebody else.
const OTHER: &str = "mallory";
/// The repository of each organisation.
const REPOSITORY: &str = "fleet";

/// A server on a loopback port. Stops on drop.
#[derive(Debug)]
pub struct Gitea {
    url: String,
    token: String,
    other: String,
    repositories: AtomicU64,
    running: Mutex<Running>,
    _folder: OwnedFolder,
}

impl Gitea {
    /// An empty server. Nothing, said on stderr, where its program is missing.
    ///
    /// # Errors
    /// When it does not start.
    ///
    /// # Panics
    /// When `CI` is set and its program is missing.
    pub fn start() -> anyhow::Result<Option<Self>> {
        let Some(program) = program_or_report("gitea") else { return Ok(None) };
        let program = fs::canonicalize(&program)?;
        let folder = OwnedFolder::new("gitea")?;
        // It refuses to be root, and another user may not get to where the program is.
        let user = unprivileged_user()?;
        let own = folder.path().join("gitea");
        if fs::hard_link(&program, &own).is_err() {
            fs::copy(&program, &own)?;
        }
        let files = program.parent().context("the program has no folder")?.join(FILES);
        copy(&files, &folder.path().join("files"))?;
        let port = free_port()?;
        let settings = folder.write("app.ini", settings(folder.path(), port)?)?;
        if let Some(user) = user {
            folder.give_to(user)?;
            std::os::unix::fs::chown(&settings, Some(user.uid), Some(user.gid))?;
        }
        let run = |args: &[&str]| once(&own, folder.path(), user, args);
        run(&["migrate"])?;
        let add = |name: &str, more: &[&str]| {
            let email = format!("{name}@example.com");
            let mut args = vec!["admin", "user", "create", "--username", name, "--email", &email];
            args.extend(["--random-password", "--must-change-password=false", "--access-token"]);
            args.extend(["--access-token-name", "tests", "--access-token-scopes", "all"]);
            args.extend(more);
            let said = run(&args)?;
            let token =
                said.lines().find_map(|line| line.strip_prefix("Access token was successfully created... "));
            token.map(|token| token.trim().to_owned()).context("it gives no token")
        };
        let token = add(SELF, &["--admin"])?;
        let other = add(OTHER, &[])?;
        let mut web = Program::new(&own, folder.path()).env("GITEA_WORK_DIR", folder.path());
        web = web.arg("--config").arg(&settings).arg("web");
        web.user = user;
        let gitea = Self {
            url: format!("http://127.0.0.1:{port}"),
            token,
            other,
            repositories: AtomicU64::new(0),
            running: Mutex::new(web.start()?),
            _folder: folder,
        };
        gitea.until_ready()?;
        Ok(Some(gitea))
    }

    fn until_ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        while let Err(error) = self.ask("GET", "/version", &self.token, &Value::Null) {
            let mut running = self.running.lock();
            running.check()?;
            anyhow::ensure!(Instant::now() < deadline, "it did not start: {error}: {}", running.log_tail());
            drop(running);
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Where its API is.
    pub fn api_url(&self) -> String {
        format!("{}/api/v1", self.url)
    }

    /// What lets a connection in.
    pub fn token(&self) -> String {
        self.token.clone()
    }

    /// What lets somebody else in.
    pub fn other_token(&self) -> String {
        self.other.clone()
    }

    /// An organisation of its own with the repository `fleet`, whose branch `main` has two files.
    ///
    /// # Errors
    /// When it is refused.
    pub fn repository(&self) -> anyhow::Result<GiteaRepository<'_>> {
        let owner = format!("plural-{}", self.repositories.fetch_add(1, Ordering::SeqCst));
        self.ask("POST", "/orgs", &self.token, &json!({"username": owner}))?;
        let new =
            json!({"name": REPOSITORY, "auto_init": true, "readme": "Default", "default_branch": "main"});
        self.ask("POST", &format!("/orgs/{owner}/repos"), &self.token, &new)?;
        let repository = GiteaRepository { gitea: self, owner };
        repository.push("main", "apps/web/values.yaml", "replicas: 1\n")?;
        Ok(repository)
    }

    /// A request to its API. A test may wait for it on whatever runtime it is.
    fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.api_url());
        thread::scope(|scope| {
            let asking = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(exchange(method, &url, token, body))
            });
            asking.join().map_err(|_| anyhow::anyhow!("the request panicked"))?
        })
    }
}

async fn exchange(method: &str, url: &str, token: &str, body: &Value) -> anyhow::Result<Value> {
    // Losing the race to another caller that installs one is fine: they are the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().tls_certs_only([]).no_proxy().timeout(READY_WITHIN).build()?;
    let mut request = client.request(method.parse()?, url).bearer_auth(token);
    if !body.is_null() {
        request = request.json(body);
    }
    let answer = request.send().await?;
    let status = answer.status();
    let text = answer.text().await?;
    anyhow::ensure!(status.is_success(), "{method} {url}: {status} {text}");
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// A repository of the server, and what other people do in it.
#[derive(Debug)]
pub struct GiteaRepository<'a> {
    gitea: &'a Gitea,
    owner: String,
}

impl GiteaRepository<'_> {
    /// `OWNER/NAME`.
    pub fn name(&self) -> String {
        format!("{}/{REPOSITORY}", self.owner)
    }

    fn ask(&self, method: &str, path: &str, token: &str, body: &Value) -> anyhow::Result<Value> {
        self.gitea.ask(method, &format!("/repos/{}{path}", self.name()), token, body)
    }

    fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let found = self.ask("GET", path, &self.gitea.token, &Value::Null)?;
        found.as_array().cloned().with_context(|| format!("{path} is no list: {found}"))
    }

    /// Pushes a file to a branch.
    ///
    /// # Errors
    /// When it is refused.
    pub fn push(&self, branch: &str, path: &str, content: &str) -> anyhow::Result<()> {
        let known =
            self.ask("GET", &format!("/contents/{path}?ref={branch}"), &self.gitea.token, &Value::Null);
        let mut file = json!({"operation": "create", "path": path, "content": STANDARD.encode(content)});
        if let Ok(known) = known {
            file["operation"] = "update".into();
            file["sha"] = known["sha"].clone();
        }
        let body = json!({"branch": branch, "message": "Somebody else's", "files": [file]});
        self.ask("POST", "/contents", &self.gitea.token, &body).map(drop)
    }

    /// Somebody else comments on a pull request.
    ///
    /// # Errors
    /// When it is refused.
    pub fn comment_by_another(&self, number: u64, body: &str) -> anyhow::Result<()> {
        let path = format!("/issues/{number}/comments");
        self.ask("POST", &path, &self.gitea.other, &json!({"body": body})).map(drop)
    }

    /// Somebody else reviews a pull request: `APPROVED`, `REQUEST_CHANGES`, `COMMENT`.
    ///
    /// # Errors
    /// When it is refused.
    pub fn review_by_another(&self, number: u64, event: &str) -> anyhow::Result<()> {
        let path = format!("/pulls/{number}/reviews");
        self.ask("POST", &path, &self.gitea.other, &json!({"event": event, "body": "read"})).map(drop)
    }

    /// Comments of a pull request: who, what.
    ///
    /// # Errors
    /// When they are refused.
    pub fn comments(&self, number: u64) -> anyhow::Result<Vec<(String, String)>> {
        let found = self.list(&format!("/issues/{number}/comments"))?;
        Ok(found.iter().map(|comment| (text(&comment["user"]["login"]), text(&comment["body"]))).collect())
    }

    /// States of a commit: context, state.
    ///
    /// # Errors
    /// When they are refused.
    pub fn statuses(&self, commit: &str) -> anyhow::Result<Vec<(String, String)>> {
        let found = self.list(&format!("/commits/{commit}/statuses"))?;
        Ok(found.iter().map(|status| (text(&status["context"]), text(&status["status"]))).collect())
    }

    /// How many webhooks the repository has, and its organisation.
    ///
    /// # Errors
    /// When they are refused.
    pub fn webhooks(&self) -> anyhow::Result<(usize, usize)> {
        let path = format!("/orgs/{}/hooks", self.owner);
        let of_owner = self.gitea.ask("GET", &path, &self.gitea.token, &Value::Null)?;
        Ok((self.list("/hooks")?.len(), of_owner.as_array().map_or(0, Vec::len)))
    }

    /// How many pull requests there are.
    ///
    /// # Errors
    /// When they are refused.
    pub fn pull_requests(&self) -> anyhow::Result<usize> {
        Ok(self.list("/pulls?state=all")?.len())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn settings(folder: &Path, port: u16) -> anyhow::Result<String> {
    let place = folder.display();
    let secret = || format!("{:032x}", rand::random::<u128>());
    let mut text = format!("APP_NAME = tests\nRUN_MODE = prod\nWORK_PATH = {place}\n");
    for (section, lines) in [
        (
            "server",
            format!(
                "PROTOCOL = http\nHTTP_ADDR = 127.0.0.1\nHTTP_PORT = {port}\nROOT_URL = http://127.0.0.1:{port}/\n\
                 DISABLE_SSH = true\nOFFLINE_MODE = true\nSTATIC_ROOT_PATH = {place}/files"
            ),
        ),
        (
            "database",
            format!(
                "DB_TYPE = sqlite3\nPATH = {place}/gitea.db\nSQLITE_TIMEOUT = 20000\nSQLITE_JOURNAL_MODE = WAL"
            ),
        ),
        ("repository", format!("ROOT = {place}/repositories")),
        ("security", format!("INSTALL_LOCK = true\nSECRET_KEY = {}", secret())),
        ("webhook", "ALLOWED_HOST_LIST = loopback".to_owned()),
        ("log", "LEVEL = Warn\nMODE = console".to_owned()),
        ("actions", "ENABLED = false".to_owned()),
        ("indexer", "ISSUE_INDEXER_TYPE = db".to_owned()),
        ("cron", "ENABLED = false".to_owned()),
        // So that every list of files has pages.
        ("api", "DEFAULT_GIT_TREES_PER_PAGE = 3".to_owned()),
    ] {
        write!(text, "\n[{section}]\n{lines}\n")?;
    }
    Ok(text)
}

/// Runs it for one command, and gives what it says.
fn once(program: &Path, folder: &Path, user: Option<RunAs>, args: &[&str]) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    isolate(&mut command, folder);
    command.env("GITEA_WORK_DIR", folder).arg("--config").arg(folder.join("app.ini")).args(args);
    if let Some(user) = user {
        command.uid(user.uid).gid(user.gid);
    }
    let output = command.output().context("cannot run gitea")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "gitea {}: {said} {error}", args.join(" "));
    Ok(said)
}

/// Copies a folder of files.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}

/// Whoever webhooks are sent to, on loopback. Stops on drop.
#[derive(Debug)]
pub struct Deliveries {
    background: Background,
    seen: Arc<Mutex<Vec<Heard>>>,
}

impl Deliveries {
    /// One that keeps what comes.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start() -> anyhow::Result<Self> {
        let seen = Arc::new(Mutex::default());
        let router = Router::new().route("/", post(keep)).with_state(Arc::clone(&seen));
        let background = Background::start("deliveries", move |listener| async move {
            drop(axum::serve(listener, router).await);
        })?;
        Ok(Self { background, seen })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.background.address()
    }

    /// What came so far.
    pub fn seen(&self) -> Vec<(HeaderMap, Bytes)> {
        self.seen.lock().clone()
    }
}

/// A delivery: its headers and its body.
type Heard = (HeaderMap, Bytes);

async fn keep(State(seen): State<Arc<Mutex<Vec<Heard>>>>, headers: HeaderMap, body: Bytes) {
    seen.lock().push((headers, body));
}
