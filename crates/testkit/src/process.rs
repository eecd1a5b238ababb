//! Programs that never outlive their owner.
//!
//! Each runs under a small shell that waits for both: for the program, and for the end of a pipe that this
//! process holds. When the pipe closes – on [`Running::stop`], on drop, at the end of the process however
//! it ends – the shell kills the program. (`PR_SET_PDEATHSIG` would fire when the *thread* that spawned the
//! program ends, and a test's thread ends long before a server it shares does.)

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, BufRead as _, BufReader},
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use rustix::process::{Pid, Signal};

use crate::small_memory::SmallMemory;

/// `$1` is the signal that stops the program, `$2` its log file, the rest is the program. The first line on
/// stdout is the program's process id; from then on the log exists, though nothing may be in it yet.
const SUPERVISOR: &str = r#"
signal=$1 log=$2
shift 2
: >>"$log"
exec 3<&0 4>&1 >/dev/null
"$@" </dev/null >>"$log" 2>&1 3<&- 4>&- &
program=$!
(
    exec 4>&-
    read -r _ <&3
    kill -s "$signal" "$program" 2>/dev/null
    tries=0
    while kill -s 0 "$program" 2>/dev/null && [ "$tries" -lt 50 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    kill -s KILL "$program" 2>/dev/null
) &
watcher=$!
echo "$program" >&4
exec 3<&- 4>&-
wait "$program"
status=$?
kill -s KILL "$watcher" 2>/dev/null
exit "$status"
"#;

/// How long a signal may take to reach every thread of a program.
const FROZEN_WITHIN: Duration = Duration::from_secs(10);

/// The user that a program runs as when this process is root.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunAs {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// How a program is told to stop.
#[derive(Debug, Clone, Copy)]
pub enum StopSignal {
    /// At once: for programs whose data is thrown away.
    Kill,
    /// SIGINT, then SIGKILL after 5 s: for programs that hold system resources (shared memory).
    Interrupt,
    /// SIGTERM, then SIGKILL after 5 s: what a cluster does to a Pod.
    Terminate,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) folder: PathBuf,
    pub(crate) stop: StopSignal,
    pub(crate) user: Option<RunAs>,
    pub(crate) cgroup: Option<PathBuf>,
}

impl Program {
    /// A program whose working folder, home and log are in `folder`.
    pub fn new(path: impl Into<PathBuf>, folder: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            args: Vec::new(),
            env: Vec::new(),
            folder: folder.into(),
            stop: StopSignal::Kill,
            user: None,
            cgroup: None,
        }
    }

    /// Add an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Set an environment variable: a program sees none of the caller's but `PATH`.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Set this variable no more.
    #[must_use]
    pub fn without_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.retain(|(known, _)| known != name.as_ref());
        self
    }

    /// Leave out `--name=value`.
    #[must_use]
    pub fn without_flag(mut self, name: &str) -> Self {
        let begin = format!("--{name}=");
        self.args.retain(|arg| !arg.as_encoded_bytes().starts_with(begin.as_bytes()));
        self
    }

    /// Run it with no more memory than that.
    #[must_use]
    pub fn within(mut self, memory: &SmallMemory) -> Self {
        self.cgroup = Some(memory.processes());
        self
    }

    /// Stop it in this way.
    #[must_use]
    pub fn stopped_by(mut self, stop: StopSignal) -> Self {
        self.stop = stop;
        self
    }

    /// Add `--name=value`, where the value may be a path.
    #[must_use]
    pub fn flag(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut arg = OsString::from(format!("--{name}="));
        arg.push(value.as_ref());
        self.arg(arg)
    }

    /// The program's file name.
    pub(crate) fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Where its output goes.
    pub fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name()))
    }

    /// Start it. Its output goes to a file in its folder that is named after it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self) -> anyhow::Result<Running> {
        let name = self.name();
        let signal = match self.stop {
            StopSignal::Kill => "KILL",
            StopSignal::Interrupt => "INT",
            StopSignal::Terminate => "TERM",
        };
        let mut command = Command::new(in_path("sh"));
        command.args(["-c", SUPERVISOR, "plural-testkit-supervisor", signal]).arg(self.log());
        if let Some(cgroup) = &self.cgroup {
            // The shell goes there first, and becomes the program.
            command.args(["sh", "-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(cgroup);
        }
        command.arg(&self.path).args(&self.args);
        isolate(&mut command, &self.folder);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(user) = self.user {
            command.uid(user.uid).gid(user.gid);
        }
        let mut shell = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let lifeline = shell.stdin.take();
        let mut first_line = String::new();
        if let Some(stdout) = shell.stdout.take() {
            BufReader::new(stdout).read_line(&mut first_line)?;
        }
        let pid = first_line.trim().parse().with_context(|| format!("{name} did not start"))?;
        Ok(Running { name, log: self.log(), pid, shell, lifeline })
    }
}

/// A program of the PATH, as a file. With a bare name and an environment of its own, a program is started by `fork`, which copies the
/// page tables of a test program that has hundreds of megabytes; with the file's name it is not.
pub(crate) fn in_path(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| name.into())
}

/// The environment of a program that must not see the caller's: no proxies, no configuration, no locale.
pub(crate) fn isolate(command: &mut Command, folder: &Path) {
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into()))
        .env("HOME", folder)
        .env("TMPDIR", folder)
        .env("LC_ALL", "C")
        .current_dir(folder);
}

/// A program that runs until it is stopped or dropped.
#[derive(Debug)]
pub struct Running {
    name: String,
    log: PathBuf,
    pid: u32,
    shell: Child,
    lifeline: Option<ChildStdin>,
}

impl Running {
    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        self.shell.try_wait()
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// When it has ended; the error names the program and shows the end of its log.
    pub fn check(&mut self) -> anyhow::Result<()> {
        let Some(status) = self.exited()? else { return Ok(()) };
        let code = status.code().map_or_else(|| format!("signal {:?}", status.signal()), |c| c.to_string());
        anyhow::bail!("{} ended with {code}; the end of its log:\n{}", self.name, self.log_tail())
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        let text = fs::read(&self.log).map(|b| String::from_utf8_lossy(&b).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(20);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    /// Freeze it. Its connections stay open and nothing runs: every thread has stopped when this returns.
    ///
    /// # Errors
    /// When it has ended, or does not stop in time.
    pub fn freeze(&self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        // The signal is handled by one thread, which then stops the others: on a busy machine they go on
        // for a while.
        let deadline = Instant::now() + FROZEN_WITHIN;
        while !self.is_frozen()? {
            anyhow::ensure!(Instant::now() < deadline, "{} does not stop", self.name);
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Let it go on after [`Running::freeze`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn thaw(&self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.pid)?).context("not a process id")?;
        rustix::process::kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Whether each of its threads has stopped: state `T` of `/proc/PID/task/TID/stat`, see proc(5).
    fn is_frozen(&self) -> anyhow::Result<bool> {
        let ended = || format!("{} has ended", self.name);
        let mut stopped = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.pid)).with_context(ended)? {
            // A thread that ended since the list was made does not run.
            let Ok(stat) = fs::read_to_string(thread.with_context(ended)?.path().join("stat")) else {
                continue;
            };
            // The name before the state is in parentheses, and may hold some itself.
            match stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
                Some('T') => stopped += 1,
                // One that has ended, and is about to be gone.
                Some('Z' | 'X') => {}
                _ => return Ok(false),
            }
        }
        // None at all: the program has ended.
        anyhow::ensure!(stopped > 0, ended());
        Ok(true)
    }

    /// Stop it and wait for its end. Stopping twice is stopping once.
    pub fn stop(&mut self) {
        drop(self.lifeline.take());
        // The shell ends after the program, at most 5 s later; its status says nothing that matters.
        drop(self.shell.wait());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}
