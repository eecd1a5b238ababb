//! Commands: each in its own process group, so that nothing that it starts outlives it.

use std::{
    io,
    os::unix::process::ExitStatusExt as _,
    path::{Path, PathBuf},
    pin::pin,
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    net::unix::pipe,
    process::{Child, Command},
    sync::watch,
};

use crate::{end::End, environment::Environment, log::StepLog};

/// How long processes that a command left running may still write to its log.
const LEFT: Duration = Duration::from_secs(2);
/// Size of a read, in bytes.
const READ: usize = 64 << 10;
/// Limit of the standard error that is kept of the harness's own commands.
const STDERR: usize = 4 << 10;

/// A command to run.
pub(crate) struct Cmd<'a> {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    pub(crate) folder: &'a Path,
    pub(crate) environment: &'a Environment,
    pub(crate) limits: Limits,
}

/// Time limit of a command, and how it is stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) timeout: Duration,
    /// The signal for a graceful stop.
    pub(crate) asks: Signal,
    /// The grace period after it.
    pub(crate) grace: Duration,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
    TimedOut,
    Stopped(End),
}

impl Ended {
    fn by(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or_default()),
        }
    }
}

/// A running command. Its group is killed when this is dropped.
struct Running {
    child: Child,
    group: Pid,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Also if the command ended: processes that it started may still run. While they do, the id of the group is not reused; otherwise
        // that is very unlikely.
        let _ = kill_process_group(self.group, Signal::KILL);
    }
}

impl Running {
    fn start(command: &mut Command, cmd: &Cmd<'_>) -> io::Result<Self> {
        command.args(&cmd.args).current_dir(cmd.folder).process_group(0).kill_on_drop(true);
        cmd.environment.apply(command);
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let Some(group) = group else {
            drop(child.start_kill());
            return Err(io::Error::other("it has no number"));
        };
        Ok(Self { child, group })
    }

    /// Waits for its end. On a stop, or at its time limit, it gets its grace period, and is then killed. Also returns how long processes
    /// that it started may still run: a shell ends at once, and its command needs the grace period.
    async fn supervise(
        &mut self,
        limits: Limits,
        stop: &mut watch::Receiver<Option<End>>,
    ) -> io::Result<(Ended, Duration)> {
        let why = tokio::select! {
            status = self.child.wait() => return Ok((Ended::by(status?), LEFT)),
            () = tokio::time::sleep(limits.timeout) => Ended::TimedOut,
            end = asked(stop) => Ended::Stopped(end),
        };
        let asked = Instant::now();
        let _ = kill_process_group(self.group, limits.asks);
        if tokio::time::timeout(limits.grace, self.child.wait()).await.is_err() {
            let _ = kill_process_group(self.group, Signal::KILL);
            self.child.wait().await?;
        }
        Ok((why, limits.grace.saturating_sub(asked.elapsed())))
    }
}

/// Resolves when there is a reason to stop.
async fn asked(stop: &mut watch::Receiver<Option<End>>) -> End {
    loop {
        if let Some(end) = stop.borrow_and_update().clone() {
            return end;
        }
        if stop.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// Runs a command with both of its output streams in a log, in the order of writing.
///
/// # Errors
/// If it cannot be started.
pub(crate) async fn logged(
    cmd: &Cmd<'_>,
    log: &mut StepLog,
    stop: &mut watch::Receiver<Option<End>>,
) -> io::Result<Ended> {
    // One pipe for both streams: the order of writes is kept.
    let (reader, writer) = io::pipe()?;
    let mut reader = pipe::Receiver::from_owned_fd(reader.into())?;
    let mut command = Command::new(&cmd.program);
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut running = Running::start(&mut command, cmd)?;
    // It holds the write ends, too.
    drop(command);
    let group = running.group;
    let mut pump = pin!(pump(&mut reader, log));
    let mut ending = pin!(running.supervise(cmd.limits, stop));
    let mut is_drained = false;
    let ended = loop {
        tokio::select! {
            ended = &mut ending => break ended,
            () = &mut pump, if !is_drained => is_drained = true,
        }
    };
    let (ended, left) = ended?;
    if !is_drained && tokio::time::timeout(left, &mut pump).await.is_err() {
        // A process that it started holds the pipe. It is killed with its command.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = tokio::time::timeout(LEFT, &mut pump).await;
    }
    Ok(ended)
}

async fn pump(reader: &mut (impl AsyncRead + Unpin), log: &mut StepLog) {
    let mut buffer = vec![0; READ];
    loop {
        match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => log.push(&buffer[..length]).await,
        }
    }
}

/// Runs one of the harness's own commands, and returns its standard output.
///
/// # Errors
/// Why it failed, in words; its own output is not masked yet.
pub(crate) async fn captured(
    cmd: &Cmd<'_>,
    input: Option<&str>,
    most: usize,
    stop: &mut watch::Receiver<Option<End>>,
) -> Result<Vec<u8>, String> {
    let shown = shown(cmd);
    let mut command = Command::new(&cmd.program);
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running =
        Running::start(&mut command, cmd).map_err(|error| format!("{shown} cannot be started: {error}"))?;
    let child = &mut running.child;
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(format!("{shown} has no output"));
    };
    let stdin = child.stdin.take();
    let write = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            let _ = stdin.write_all(input.as_bytes()).await;
        }
    };
    let group = running.group;
    let read = async {
        let mut bytes = Vec::new();
        let read = stdout.take(most as u64 + 1).read_to_end(&mut bytes).await;
        if bytes.len() > most {
            let _ = kill_process_group(group, Signal::KILL);
        }
        read.map(|_| bytes)
    };
    let ending = async {
        let ended = running.supervise(cmd.limits, stop).await;
        // Processes that it left running hold its streams.
        let _ = kill_process_group(group, Signal::KILL);
        ended
    };
    let all = async { tokio::join!(ending, write, read, last_of(stderr)) };
    let Limits { timeout, asks: _, grace } = cmd.limits;
    let longest = timeout.saturating_add(grace).saturating_add(LEFT);
    let Ok((ended, (), bytes, words)) = tokio::time::timeout(longest, all).await else {
        return Err(format!("{shown} left something running that holds its output"));
    };
    let (ended, _) = ended.map_err(|error| format!("{shown}: {error}"))?;
    let bytes = bytes.map_err(|error| format!("{shown}: its output cannot be read: {error}"))?;
    if bytes.len() > most {
        return Err(format!("{shown} prints more than {} MiB", most >> 20));
    }
    match ended {
        Ended::Code(0) => Ok(bytes),
        Ended::Code(code) => Err(format!("{shown} ended with exit code {code}: {}", words.trim())),
        Ended::Signal(signal) => Err(format!("{shown} was ended by signal {signal}: {}", words.trim())),
        Ended::TimedOut => Err(format!("{shown} took longer than {} seconds", cmd.limits.timeout.as_secs())),
        Ended::Stopped(end) => Err(end.words()),
    }
}

/// Its last bytes; all of it is read, so that the writer never blocks.
async fn last_of(mut stream: impl AsyncRead + Unpin) -> String {
    let (mut last, mut buffer) = (Vec::new(), vec![0; STDERR]);
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        last.extend_from_slice(&buffer[..length]);
        last.drain(..last.len().saturating_sub(STDERR));
    }
    String::from_utf8_lossy(&last).into_owned()
}

fn shown(cmd: &Cmd<'_>) -> String {
    let name = cmd.program.file_name().unwrap_or(cmd.program.as_os_str()).to_string_lossy();
    format!("`{name} {}`", cmd.args.join(" "))
}
