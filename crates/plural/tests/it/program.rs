//! The program itself: run to its end, or kept running and killed.

use std::{
    path::Path,
    process::{Output, Stdio},
    time::Duration,
};

use plural_testkit::{
    HeldAddress, OwnedFolder, TestCluster, eventually,
    process::{Program, Running, StopSignal},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    process::Command,
};

use crate::world::{EMAIL, PASSWORD};

/// How long one run may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(100);

/// What consoles tell their metrics for.
pub(crate) const METRICS_TOKEN: &str = "of-the-tests-alone";

/// The program under test.
pub(crate) const PLURAL: &str = env!("CARGO_BIN_EXE_plural");

/// What a run to its end left.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A home of its own for a program: nothing of the caller's environment but the PATH is seen.
#[derive(Debug)]
pub(crate) struct Home {
    folder: OwnedFolder,
}

impl Home {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let folder = OwnedFolder::new("whole")?;
        std::fs::create_dir(folder.path().join("tmp"))?;
        Ok(Self { folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A `plural` command; killed when it is dropped.
    pub(crate) fn plural(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PLURAL);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("TMPDIR", self.path().join("tmp"))
            .env("LC_ALL", "C")
            .current_dir(self.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs `plural` to its end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> anyhow::Result<Done> {
        finish(self.plural(arguments)).await
    }

    /// Fails when a process of this home still runs, or left something in its temporary folder.
    pub(crate) async fn nothing_is_left(&self) {
        eventually(LIMIT, async || {
            let processes = self.processes();
            let files: Vec<_> = std::fs::read_dir(self.path().join("tmp"))
                .map_err(|error| error.to_string())?
                .flatten()
                .map(|entry| entry.path())
                .collect();
            if processes.is_empty() && files.is_empty() {
                Ok(())
            } else {
                Err(format!("processes {processes:?}, files {files:?}"))
            }
        })
        .await;
    }

    /// Ids of the processes whose temporary folder is this home's.
    fn processes(&self) -> Vec<u32> {
        let mark = format!("TMPDIR={}", self.path().join("tmp").display());
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            // A zombie has an empty environment: it waits for its parent and holds nothing.
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
                found.push(pid);
            }
        }
        found
    }
}

/// Waits for the end of a command.
pub(crate) async fn finish(mut command: Command) -> anyhow::Result<Done> {
    let Output { status, stdout, stderr } = tokio::time::timeout(LIMIT, command.output()).await??;
    Ok(Done {
        code: status.code(),
        out: String::from_utf8(stdout)?,
        err: String::from_utf8_lossy(&stderr).into_owned(),
    })
}

/// Sends a signal to a process.
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    // It may have ended by itself.
    let _ = rustix::process::kill_process(pid, signal);
}

/// A console that runs as a process of its own, and the folder it keeps everything in.
#[derive(Debug)]
pub(crate) struct ConsoleProcess {
    program: Program,
    running: Option<Running>,
    /// `127.0.0.1:PORT`, the same after each restart.
    address: String,
    _held: HeldAddress,
}

impl ConsoleProcess {
    /// Starts it, with `database` or SQLite in its folder, and waits until it answers.
    pub(crate) async fn start(home: &Home, database: Option<&str>, log: &str) -> anyhow::Result<Self> {
        Self::start_in(home, "console", log, |program| match database {
            Some(url) => program.env("DATABASE_URL", url),
            None => program,
        })
        .await
    }

    /// Starts one that keeps everything in a folder of this name, with further settings, and waits until it answers.
    pub(crate) async fn start_in(
        home: &Home,
        name: &str,
        log: &str,
        adjust: impl FnOnce(Program) -> Program,
    ) -> anyhow::Result<Self> {
        let folder = home.path().join(name);
        std::fs::create_dir(&folder)?;
        Self::start_as(Program::new(PLURAL, &folder), &folder, log, adjust).await
    }

    /// Starts one that may have so many files open, and waits until it answers.
    pub(crate) async fn start_with_files(home: &Home, name: &str, files: usize) -> anyhow::Result<Self> {
        let folder = home.path().join(name);
        std::fs::create_dir(&folder)?;
        let limited = format!("ulimit -n {files}; exec \"$0\" \"$@\"");
        let program = Program::new("sh", &folder).arg("-c").arg(limited).arg(PLURAL);
        Self::start_as(program, &folder, "info", |program| program).await
    }

    async fn start_as(
        program: Program,
        folder: &Path,
        log: &str,
        adjust: impl FnOnce(Program) -> Program,
    ) -> anyhow::Result<Self> {
        let program = program
            .stopped_by(StopSignal::Terminate)
            .arg("console")
            .arg("--allow-local-repositories")
            // Git servers of tests are on this machine, and without TLS.
            .arg("--allow-credentials-over-http")
            .flag("reach", "local")
            .flag("data-dir", folder.join("data"))
            .flag("admin-email", EMAIL)
            .flag("poll-seconds", "1")
            .flag("drain-seconds", "1")
            .flag("log", log)
            .flag("log-format", "json")
            .env("PLURAL_ADMIN_PASSWORD", PASSWORD)
            .env("PLURAL_METRICS_TOKEN", METRICS_TOKEN);
        let program = adjust(program);
        let held = HeldAddress::new()?;
        let mut running = program.clone().flag("listen", held.address().to_string()).start()?;
        let log = program.log();
        let address = eventually(LIMIT, || {
            let alive = running.check();
            let told = std::fs::read_to_string(&log).unwrap_or_default();
            async move {
                alive.map_err(|error| format!("{error:#}"))?;
                let address = told.lines().find_map(|line| {
                    let line: serde_json::Value = serde_json::from_str(line).ok()?;
                    let address = line.pointer("/fields/address").or_else(|| line.get("address"))?;
                    address.as_str().map(ToOwned::to_owned)
                });
                address.ok_or_else(|| format!("it does not say where it listens: {told}"))
            }
        })
        .await;
        let mut process = Self { program, running: Some(running), address, _held: held };
        process.answers().await;
        Ok(process)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// `HOST:PORT` where it listens.
    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.address.parse().unwrap()
    }

    /// Ends it at once, as the kernel does when memory runs out.
    pub(crate) fn kill(&mut self) {
        kill(&mut self.running);
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.running.as_ref().map_or(0, Running::pid)
    }

    /// Freezes it: nothing of it runs when this returns.
    pub(crate) fn freeze(&self) -> anyhow::Result<()> {
        self.running.as_ref().map_or(Ok(()), Running::freeze)
    }

    /// Lets it go on.
    pub(crate) fn thaw(&self) -> anyhow::Result<()> {
        self.running.as_ref().map_or(Ok(()), Running::thaw)
    }

    /// The page of its metrics, head and all.
    pub(crate) async fn metrics(&self) -> std::io::Result<String> {
        let token = format!("authorization: Bearer {METRICS_TOKEN}\r\n");
        answer(&self.address, &format!("GET /metrics HTTP/1.1\r\n{token}")).await
    }

    /// What it tells of itself: the values of a metric, each with its labels as they are written.
    pub(crate) async fn metric(&self, name: &str) -> std::io::Result<Vec<(String, f64)>> {
        let page = self.metrics().await?;
        let values = page.lines().filter_map(|line| {
            let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
            if labels.is_empty() || labels.starts_with('{') {
                Some((labels.to_owned(), value.parse().ok()?))
            } else {
                None
            }
        });
        Ok(values.collect())
    }

    /// Starts it again where it was.
    pub(crate) async fn restart(&mut self) -> anyhow::Result<()> {
        self.running = Some(self.program.clone().flag("listen", &self.address).start()?);
        self.answers().await;
        Ok(())
    }

    /// Everything that it ever wrote to stdout and stderr.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.program.log()).unwrap_or_default()
    }

    /// The folder of its data.
    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.program.log().parent().unwrap().join("data")
    }

    /// Stops it as a cluster stops a Pod.
    pub(crate) fn stop(&mut self) {
        drop(self.running.take());
    }

    async fn answers(&mut self) {
        let Self { program: _, running, address, _held: _ } = self;
        eventually(LIMIT, || {
            let alive = running.as_mut().unwrap().check();
            let address = address.clone();
            async move {
                alive.map_err(|error| format!("{error:#}"))?;
                let page = page(&address, "/readyz").await.map_err(|error| error.to_string())?;
                if page.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(page) }
            }
        })
        .await;
    }
}

/// What a plain HTTP server answers, head and all.
pub(crate) async fn page(address: &str, path: &str) -> std::io::Result<String> {
    answer(address, &format!("GET {path} HTTP/1.1\r\n")).await
}

/// What it answers to a request of these lines, without a body.
pub(crate) async fn answer(address: &str, lines: &str) -> std::io::Result<String> {
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!("{lines}host: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// An agent that runs as a process of its own.
#[derive(Debug)]
pub(crate) struct AgentProcess {
    program: Program,
    running: Option<Running>,
    namespace: String,
}

impl AgentProcess {
    pub(crate) async fn start(
        home: &Home,
        console: &str,
        token: &str,
        cluster: &TestCluster,
        log: &str,
    ) -> anyhow::Result<Self> {
        Self::start_with(home, (console, token), cluster, log, |program| program).await
    }

    /// Starts one with further settings.
    pub(crate) async fn start_with(
        home: &Home,
        (console, token): (&str, &str),
        cluster: &TestCluster,
        log: &str,
        adjust: impl FnOnce(Program) -> Program,
    ) -> anyhow::Result<Self> {
        let namespace = cluster.namespace().await?;
        Self::start_at(home, (console, token), (cluster.kubeconfig(), namespace), log, adjust)
    }

    /// Starts one of the cluster of a kubeconfig file, which keeps what is its own in this namespace.
    pub(crate) fn start_at(
        home: &Home,
        (console, token): (&str, &str),
        (kubeconfig, namespace): (&Path, String),
        log: &str,
        adjust: impl FnOnce(Program) -> Program,
    ) -> anyhow::Result<Self> {
        let folder = home.path().join("agent");
        std::fs::create_dir(&folder)?;
        let program = Program::new(PLURAL, &folder)
            .stopped_by(StopSignal::Terminate)
            .arg("agent")
            .flag("console-url", console)
            .flag("namespace", &namespace)
            .flag("cache-dir", folder.join("cache"))
            .flag("keep-alive-seconds", "2")
            .flag("log", log)
            .flag("log-format", "json")
            .env("KUBECONFIG", kubeconfig)
            .env("PLURAL_DEPLOY_TOKEN", token);
        let program = adjust(program);
        let running = Some(program.start()?);
        Ok(Self { program, running, namespace })
    }

    /// Where it keeps what is its own.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Ends it at once.
    pub(crate) fn kill(&mut self) {
        kill(&mut self.running);
    }

    /// Fails when it ended by itself.
    pub(crate) fn is_alive(&mut self) -> anyhow::Result<()> {
        self.running.as_mut().map_or(Ok(()), Running::check)
    }

    /// Starts it again.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.running = Some(self.program.start()?);
        Ok(())
    }

    /// Everything that it ever wrote to stdout and stderr.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.program.log()).unwrap_or_default()
    }

    /// Stops it as a cluster stops a Pod.
    pub(crate) fn stop(&mut self) {
        drop(self.running.take());
    }
}

fn kill(running: &mut Option<Running>) {
    if let Some(mut running) = running.take() {
        signal(running.pid(), rustix::process::Signal::KILL);
        running.stop();
    }
}
