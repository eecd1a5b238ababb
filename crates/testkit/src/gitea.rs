//! Gitea, as organisations run it, on a database of its own in the test run's PostgreSQL: built without C, it has no SQLite.

mod door;
mod repository;

use std::{
    fmt::Write as _,
    fs, io,
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
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
use bytes::Bytes;
use http::HeaderMap;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    background::Background,
    folder::OwnedFolder,
    missing::Missing,
    port::free_port,
    postgres::{PostgresServer, unprivileged_user},
    process::{Program, RunAs, Running, isolate},
    programs::find_program,
};

pub use door::{GiteaDoor, Unanswered};
pub use repository::GiteaRepository;

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

/// Entries of a page of a tree in tests, so that every list of files has pages.
const SMALL_PAGE: usize = 3;

/// A server on a loopback port. Stops on drop.
#[derive(Debug)]
pub struct Gitea {
    url: String,
    token: String,
    other: String,
    repositories: AtomicU64,
    // Stopped before its database goes: fields drop in this order.
    running: Mutex<Running>,
    _database: GiteaDatabase,
    _folder: OwnedFolder,
}

/// Its database; it goes when this is dropped.
#[derive(Debug)]
struct GiteaDatabase {
    server: &'static PostgresServer,
    name: String,
}

impl Drop for GiteaDatabase {
    fn drop(&mut self) {
        if let Err(error) = self.server.drop_database(&self.name) {
            eprintln!("{error:#}");
        }
    }
}

impl Gitea {
    /// What it takes is here; where not, that is said on stderr.
    ///
    /// # Panics
    /// When `CI` is set and something is missing.
    pub fn is_here_or_report() -> bool {
        Self::parts().inspect_err(Missing::report).is_ok()
    }

    /// An empty server with pages of three files. Nothing, said on stderr, where what it takes is missing.
    ///
    /// # Errors
    /// When it does not start.
    ///
    /// # Panics
    /// When `CI` is set and something is missing.
    pub fn start() -> anyhow::Result<Option<Self>> {
        match Self::parts() {
            Ok((program, server)) => Self::start_with(&program, server, Some(SMALL_PAGE)).map(Some),
            Err(missing) => {
                missing.report();
                Ok(None)
            }
        }
    }

    /// An empty server with pages as it comes with.
    ///
    /// # Errors
    /// When something is missing, or it does not start.
    pub fn start_as_shipped() -> anyhow::Result<Self> {
        let (program, server) = Self::parts()?;
        Self::start_with(&program, server, None)
    }

    /// Its program, and the server of its database.
    fn parts() -> Result<(PathBuf, &'static PostgresServer), Missing> {
        Ok((find_program("gitea")?, PostgresServer::shared()?))
    }

    fn start_with(
        program: &Path,
        server: &'static PostgresServer,
        page: Option<usize>,
    ) -> anyhow::Result<Self> {
        let program = fs::canonicalize(program)?;
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
        let database = GiteaDatabase { server, name: server.create_database()? };
        let settings = folder.write("app.ini", settings(folder.path(), port, &database, page)?)?;
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
            _database: database,
            _folder: folder,
        };
        gitea.until_ready()?;
        Ok(gitea)
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

    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
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
        let repository = GiteaRepository::of(self, owner);
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

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn settings(
    folder: &Path,
    port: u16,
    GiteaDatabase { server, name }: &GiteaDatabase,
    page: Option<usize>,
) -> anyhow::Result<String> {
    let place = folder.display();
    let database = server.url().strip_prefix("postgres://").and_then(|rest| rest.split_once('@'));
    let (person, host) = database.context("the address of the database names nobody")?;
    let (user, password) = person.split_once(':').context("the address of the database has no password")?;
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
                "DB_TYPE = postgres\nHOST = {host}\nNAME = {name}\nUSER = {user}\nPASSWD = {password}\n\
                 SSL_MODE = disable\nMAX_OPEN_CONNS = 20"
            ),
        ),
        ("repository", format!("ROOT = {place}/repositories")),
        ("security", format!("INSTALL_LOCK = true\nSECRET_KEY = {}", secret())),
        ("webhook", "ALLOWED_HOST_LIST = loopback".to_owned()),
        ("log", "LEVEL = Warn\nMODE = console".to_owned()),
        ("actions", "ENABLED = false".to_owned()),
        ("indexer", "ISSUE_INDEXER_TYPE = db".to_owned()),
        ("cron", "ENABLED = false".to_owned()),
        ("api", page.map_or_else(String::new, |page| format!("DEFAULT_GIT_TREES_PER_PAGE = {page}"))),
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
