//! A temporary PostgreSQL server, and databases in it.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use parking_lot::Mutex;
use rand::{RngExt as _, distr::Alphanumeric};

use crate::{
    folder::OwnedFolder,
    missing::{Missing, note_backend},
    port::free_port,
    process::{Program, RunAs, Running, StopSignal, isolate},
};

/// Names the server of this test run: a URL without a database, `postgres://user:password@host:port`.
pub const SHARED_ENV: &str = "PLURAL_TEST_POSTGRES";

const SUPERUSER: &str = "plural";
const READY_WITHIN: Duration = Duration::from_secs(30);

/// Where `initdb`, `postgres` and the client programs are: the newest of `/usr/lib/postgresql/*/bin`
/// (Debian keeps them off `$PATH`), else `$PATH`.
///
/// # Errors
/// When there is no server program on this machine.
pub fn find_programs() -> Result<PathBuf, Missing> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| Some((e.file_name().to_str()?.parse().ok()?, e.path().join("bin"))))
        .collect();
    versions.sort();
    versions
        .into_iter()
        .rev()
        .map(|(_, bin)| bin)
        .chain(env::split_paths(&env::var_os("PATH").unwrap_or_default()))
        .find(|bin| ["initdb", "postgres", "createdb"].iter().all(|p| bin.join(p).is_file()))
        .ok_or_else(|| {
            Missing::new(
                "PostgreSQL's server programs (initdb, postgres) are not installed",
                "`cargo xtask test` installs them, or install the package `postgresql`",
            )
        })
}

/// A running server. Either this process owns it, or the test run does.
#[derive(Debug)]
pub struct PostgresServer {
    bin: PathBuf,
    /// `postgres://user:password@host:port`
    url: String,
    owned: Option<Owned>,
}

#[derive(Debug)]
struct Owned {
    // Stopped before its folder goes: fields drop in this order.
    running: Mutex<Option<Running>>,
    program: Program,
    port: u16,
    _folder: OwnedFolder,
}

impl PostgresServer {
    /// The server of this test run, started on first use when the run has none.
    ///
    /// # Errors
    /// When this machine has no PostgreSQL.
    ///
    /// # Panics
    /// When a server that is there does not start.
    #[expect(clippy::panic, reason = "a broken test machine fails the test")]
    pub fn shared() -> Result<&'static Self, Missing> {
        static SHARED: OnceLock<Result<PostgresServer, Missing>> = OnceLock::new();
        SHARED
            .get_or_init(|| {
                let bin = find_programs()?;
                if let Ok(url) = env::var(SHARED_ENV) {
                    return Ok(Self { bin, url, owned: None });
                }
                Ok(Self::start_in(bin).unwrap_or_else(|e| panic!("cannot start PostgreSQL: {e:#}")))
            })
            .as_ref()
            .map_err(Clone::clone)
    }

    /// A server of one's own, for a test that stops or restarts it.
    ///
    /// # Errors
    /// When there is no PostgreSQL, or it does not start.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_in(find_programs()?)
    }

    /// [`Self::start`], or nothing, said on stderr, where there is none; with `CI` set that fails.
    ///
    /// # Errors
    /// When it does not start.
    ///
    /// # Panics
    /// When `CI` is set and this machine has no PostgreSQL.
    pub fn start_or_report() -> anyhow::Result<Option<Self>> {
        match find_programs() {
            Ok(bin) => Self::start_in(bin).map(Some),
            Err(missing) => {
                missing.report();
                Ok(None)
            }
        }
    }

    fn start_in(bin: PathBuf) -> anyhow::Result<Self> {
        note_backend("postgres");
        let folder = OwnedFolder::new("postgres")?;
        let user = unprivileged_user()?;
        if let Some(user) = user {
            folder.give_to(user)?;
        }
        let password: String = rand::rng().sample_iter(&Alphanumeric).take(24).map(char::from).collect();
        let password_file = folder.write("password", &password)?;
        if let Some(user) = user {
            std::os::unix::fs::chown(&password_file, Some(user.uid), Some(user.gid))?;
        }
        init_database(&bin, &folder, &password_file, user)?;

        // Another process may take the port between our look and the server's bind.
        let mut attempts = 0;
        loop {
            attempts += 1;
            let port = free_port()?;
            let mut program = Program::new(bin.join("postgres"), folder.path())
                .arg("-D")
                .arg(folder.path().join("data"))
                .arg("-p")
                .arg(port.to_string());
            for setting in [
                "listen_addresses=127.0.0.1",
                "unix_socket_directories=",
                "max_connections=800",
                "shared_buffers=64MB",
                "fsync=off",
                "synchronous_commit=off",
                "full_page_writes=off",
                "timezone=UTC",
            ] {
                program = program.arg("-c").arg(setting);
            }
            program.stop = StopSignal::Interrupt;
            program.user = user;
            match start_and_wait(&bin, &program, port) {
                Ok(running) => {
                    return Ok(Self {
                        bin,
                        url: format!("postgres://{SUPERUSER}:{password}@127.0.0.1:{port}"),
                        owned: Some(Owned {
                            running: Mutex::new(Some(running)),
                            program,
                            port,
                            _folder: folder,
                        }),
                    });
                }
                Err(e) if attempts == 3 => return Err(e),
                Err(_) => {}
            }
        }
    }

    /// `postgres://user:password@host:port`, without a database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stop the server, as a restart or a crash of the database would; clients see broken connections.
    ///
    /// # Errors
    /// When the server is the test run's: a test that stops a server starts one of its own.
    pub fn stop(&self) -> anyhow::Result<()> {
        let owned = self.owned.as_ref().context("the shared server is not this test's to stop")?;
        if let Some(mut running) = owned.running.lock().take() {
            running.stop();
        }
        Ok(())
    }

    /// Start it again on the same port with the same data.
    ///
    /// # Errors
    /// When the server is the test run's, or does not start.
    pub fn restart(&self) -> anyhow::Result<()> {
        self.stop()?;
        let owned = self.owned.as_ref().context("the shared server is not this test's to restart")?;
        let running = start_and_wait(&self.bin, &owned.program, owned.port)?;
        *owned.running.lock() = Some(running);
        Ok(())
    }

    /// A fresh, empty database; returns its name.
    pub(crate) fn create_database(&self) -> anyhow::Result<String> {
        let name = format!("test_{:016x}", rand::random::<u64>());
        self.client("createdb", &["--template=template0", &name])?;
        Ok(name)
    }

    /// Drop a database, ending what is still connected to it.
    pub(crate) fn drop_database(&self, name: &str) -> anyhow::Result<()> {
        self.client("dropdb", &["--force", "--if-exists", name])
    }

    fn client(&self, program: &str, args: &[&str]) -> anyhow::Result<()> {
        let mut command = Command::new(self.bin.join(program));
        isolate(&mut command, Path::new("/"));
        command.arg(format!("--maintenance-db={}/postgres", self.url)).args(args);
        run(command, program)
    }
}

fn init_database(
    bin: &Path,
    folder: &OwnedFolder,
    password_file: &Path,
    user: Option<RunAs>,
) -> anyhow::Result<()> {
    let mut command = Command::new(bin.join("initdb"));
    isolate(&mut command, folder.path());
    command.arg("--pgdata").arg(folder.path().join("data")).arg("--pwfile").arg(password_file).args([
        "--username",
        SUPERUSER,
        "--auth=password",
        "--encoding=UTF8",
        "--locale=C",
        "--no-sync",
    ]);
    if let Some(user) = user {
        use std::os::unix::process::CommandExt as _;
        command.uid(user.uid).gid(user.gid);
    }
    run(command, "initdb")
}

fn start_and_wait(bin: &Path, program: &Program, port: u16) -> anyhow::Result<Running> {
    let mut running = program.start()?;
    let deadline = Instant::now() + READY_WITHIN;
    loop {
        running.check()?;
        let mut probe = Command::new(bin.join("pg_isready"));
        isolate(&mut probe, Path::new("/"));
        let ready = probe
            .args(["--quiet", "--host=127.0.0.1", "--timeout=1", &format!("--port={port}")])
            .status()
            .context("cannot run pg_isready")?;
        if ready.success() {
            return Ok(running);
        }
        anyhow::ensure!(
            Instant::now() < deadline,
            "PostgreSQL was not ready within {READY_WITHIN:?}; the end of its log:\n{}",
            running.log_tail()
        );
        thread::sleep(Duration::from_millis(20));
    }
}

fn run(mut command: Command, name: &str) -> anyhow::Result<()> {
    let output = command.output().with_context(|| format!("cannot run {name}"))?;
    anyhow::ensure!(
        output.status.success(),
        "{name} failed: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// PostgreSQL and Gitea refuse to run as root, so root runs them as `postgres` or `nobody`.
pub(crate) fn unprivileged_user() -> anyhow::Result<Option<RunAs>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    ["postgres", "nobody"]
        .iter()
        .find_map(|wanted| {
            users.lines().find_map(|line| {
                let fields: Vec<&str> = line.split(':').collect();
                match fields.as_slice() {
                    [name, _, uid, gid, ..] if name == wanted => {
                        Some(RunAs { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
                    }
                    _ => None,
                }
            })
        })
        .map(Some)
        .context("it refuses to run as root, and there is neither a user postgres nor nobody")
}
