//! Runs a program over a folder of files, and lets it reach nothing else.
//!
//! There are two kinds: a [`Program`] renders, and a [`Worker`] works. What follows is of programs that render; [`work`] says what
//! is different of the others.
//!
//! The process that asks starts a helper (its own program again, in a mode that calls [`enter`]). The helper takes its
//! own rights away, which needs no privilege, and then becomes the program.
//!
//! # Guarantees
//! - The program reads the given folder, the system's programs and libraries, and what the caller names. It writes no
//!   file, opens no socket, signals nobody, and has an empty environment and no terminal.
//! - Memory, processor time, open files, processes and output are limited. At the deadline, and when the program ends,
//!   all processes that it started are killed.
//! - Where the kernel cannot hold a program to this, it is not started.
//!
//! # Assumptions
//! Whether a path exists, and its size and times, can be told from inside: Landlock does not hide them.

#[cfg(target_os = "linux")]
mod helper;
#[cfg(target_os = "linux")]
mod parent;
#[cfg(target_os = "linux")]
mod syscalls;
#[cfg(target_os = "linux")]
mod worker;

#[cfg(target_os = "linux")]
pub use worker::WorkerHandle;

use std::{
    ffi::OsString,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

/// How the helper is started: a program that hands its further arguments to [`enter`].
#[derive(Debug, Clone)]
pub struct Helper {
    /// The program.
    pub program: PathBuf,
    /// Its first arguments.
    pub args: Vec<OsString>,
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Absolute path.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Files and folders that it may read and run besides those of the system.
    pub readable: Vec<PathBuf>,
}

/// What works in a folder of its own.
#[derive(Clone)]
pub struct Worker {
    /// Absolute path.
    pub path: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment. May hold secrets.
    pub environment: Vec<(String, OsString)>,
    /// Files and folders that it may read and run besides those of the system.
    pub readable: Vec<PathBuf>,
    /// The folder that it begins in, and the only one that it writes.
    pub folder: PathBuf,
    /// TCP ports that it may connect to, on any machine.
    pub ports: Vec<u16>,
    /// Writable memory of each of its processes, in bytes.
    pub memory_bytes: u64,
}

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; of a signal, 128 and its number.
    pub code: i32,
    /// The last line that it wrote to standard error.
    pub last_line: String,
}

/// Tells nobody to end: only Linux can confine a program.
#[cfg(not(target_os = "linux"))]
#[derive(Debug, Clone, Default)]
pub struct WorkerHandle;

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unused_self, reason = "as on Linux")]
impl WorkerHandle {
    /// Does nothing.
    pub fn terminate(&self) {}

    /// Does nothing.
    pub fn kill(&self) {}
}

/// What a run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wall time.
    pub deadline: Duration,
    /// Processor time of each process, in whole seconds.
    pub cpu: Duration,
    /// Writable memory of each process, in bytes.
    pub memory_bytes: u64,
    /// What it may write to standard output, in bytes.
    pub output_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(30),
            cpu: Duration::from_secs(30),
            memory_bytes: 1 << 30,
            output_bytes: 64 << 20,
        }
    }
}

/// Why there is no output. A service shows the message, so a cause is a part of it and no source.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel cannot hold a program to its limits, or refuses to; nothing was run.
    #[error("programs cannot be confined here, so none is run: {0}")]
    Unconfined(String),
    /// The helper or the program cannot be started.
    #[error("the program cannot be started: {0}")]
    Start(io::Error),
    /// It did not end in time.
    #[error("the program did not end within {} seconds and was killed (limit of time)", .0.as_secs())]
    Deadline(Duration),
    /// It wrote too much.
    #[error("the program wrote more than {0} bytes and was killed (limit of output)")]
    Output(u64),
    /// It ended with a failure.
    #[error("the program failed ({status}){}", told(.stderr))]
    Failed {
        /// Exit code or signal.
        status: String,
        /// The beginning of what it wrote to standard error.
        stderr: String,
    },
}

fn told(stderr: &str) -> String {
    match stderr.trim() {
        "" => String::new(),
        text => format!(": {text}"),
    }
}

/// Runs `program` in `folder` and gives what it wrote to standard output. Blocks.
///
/// # Errors
/// See [`SandboxError`].
#[cfg(target_os = "linux")]
pub fn run(
    helper: &Helper,
    program: &Program,
    folder: &Path,
    limits: &Limits,
) -> Result<Vec<u8>, SandboxError> {
    parent::run(helper, program, folder, limits)
}

/// Runs nothing: only Linux can confine a program.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn run(_: &Helper, _: &Program, _: &Path, _: &Limits) -> Result<Vec<u8>, SandboxError> {
    Err(SandboxError::Unconfined("this is not Linux".to_owned()))
}

/// Runs `worker` until it and all that it started have ended. Blocks; `handle` ends it sooner.
///
/// # Guarantees
/// - It reads its folder, the system's programs, libraries and a few settings, and what the caller names; it writes its folder alone.
///   Its environment is what the caller gives.
/// - It opens TCP connections and no other sockets. Where the kernel's Landlock knows of networks (Linux 6.7), only to the ports that
///   the caller names.
/// - When it ends, and when it is killed, all processes that it started are killed. It also ends with the thread that calls this.
/// - Where the kernel cannot hold it to its files, it is not started.
///
/// # Errors
/// See [`SandboxError`]; that it failed is none.
#[cfg(target_os = "linux")]
pub fn work(helper: &Helper, worker: &Worker, handle: &WorkerHandle) -> Result<Ended, SandboxError> {
    worker::work(helper, worker, handle)
}

/// Runs nothing: only Linux can confine a program.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn work(_: &Helper, _: &Worker, _: &WorkerHandle) -> Result<Ended, SandboxError> {
    Err(SandboxError::Unconfined("this is not Linux".to_owned()))
}

/// Confines this process and makes it the program that `args` name. Comes back only when that failed, after saying so
/// on standard error, with the process's exit code.
///
/// # Assumptions
/// The process has one thread, and holds no open file that its program should not have.
#[cfg(target_os = "linux")]
pub fn enter(args: impl Iterator<Item = OsString>) -> u8 {
    helper::enter(args)
}

/// Refuses.
#[cfg(not(target_os = "linux"))]
pub fn enter(_: impl Iterator<Item = OsString>) -> u8 {
    2
}
