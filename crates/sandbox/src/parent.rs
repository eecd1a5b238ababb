//! The side that asks: starts the helper, reads what comes, ends what does not.

use std::{
    io::Read,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Instant,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open},
};

use crate::{
    Helper, Limits, Program, SandboxError,
    helper::{MARK, REFUSED, arguments},
};

/// What is kept of standard error.
const STDERR_BYTES: usize = 4 << 10;

pub(super) fn run(
    helper: &Helper,
    program: &Program,
    folder: &Path,
    limits: &Limits,
) -> Result<Vec<u8>, SandboxError> {
    let mut command = Command::new(&helper.program);
    command
        .args(&helper.args)
        .args(arguments(program, folder, limits))
        .env_clear()
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A group of its own: whatever it starts dies with it.
        .process_group(0);
    let mut child = Started::new(command.spawn().map_err(SandboxError::Start)?)?;
    let group = child.group;
    let (Some(mut stdout), Some(mut stderr)) = (child.child.stdout.take(), child.child.stderr.take()) else {
        return Err(SandboxError::Start(std::io::ErrorKind::BrokenPipe.into()));
    };
    let most = limits.output_bytes;
    thread::scope(|scope| {
        let output = scope.spawn(move || {
            let mut bytes = Vec::new();
            let read = (&mut stdout).take(most.saturating_add(1)).read_to_end(&mut bytes);
            if bytes.len() as u64 > most {
                let _ = kill_process_group(group, Signal::KILL);
            }
            read.map(|_| bytes)
        });
        let words = scope.spawn(move || {
            let mut bytes = vec![0; STDERR_BYTES];
            let mut length = 0;
            while let Some(room) = bytes.get_mut(length..).filter(|room| !room.is_empty()) {
                match stderr.read(room) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => length += read,
                }
            }
            bytes.truncate(length);
            // The rest is read so that the program does not wait for it.
            let _ = std::io::copy(&mut stderr, &mut std::io::sink());
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let in_time = child.wait_until(Instant::now() + limits.deadline);
        // Also when the program ended by itself: what it left running holds the pipes.
        let status = child.end().map_err(SandboxError::Start)?;
        let output = output.join().unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
        let words = words.join().unwrap_or_default();
        if !in_time {
            return Err(SandboxError::Deadline(limits.deadline));
        }
        let output = output.map_err(SandboxError::Start)?;
        if output.len() as u64 > most {
            return Err(SandboxError::Output(most));
        }
        outcome(status, output, words)
    })
}

fn outcome(status: ExitStatus, output: Vec<u8>, words: String) -> Result<Vec<u8>, SandboxError> {
    if status.success() {
        return Ok(output);
    }
    if status.code() == Some(i32::from(REFUSED))
        && let Some(why) = words.strip_prefix(MARK)
    {
        return Err(SandboxError::Unconfined(why.trim().to_owned()));
    }
    let status = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    };
    Err(SandboxError::Failed { status, stderr: words })
}

/// A child whose group is killed when it is dropped.
struct Started {
    child: Child,
    group: Pid,
    ended: bool,
}

impl Started {
    fn new(mut child: Child) -> Result<Self, SandboxError> {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let Some(group) = group else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(SandboxError::Start(std::io::ErrorKind::InvalidData.into()));
        };
        Ok(Self { child, group, ended: false })
    }

    /// Whether it ends by itself before `until`. It is not collected yet, so that its number stays its own.
    fn wait_until(&self, until: Instant) -> bool {
        let Ok(pidfd) = pidfd_open(self.group, PidfdFlags::empty()) else { return false };
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(timeout) = Timespec::try_from(left) else { return false };
            match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
                Ok(0) if left.is_zero() => return false,
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Kills whatever is left of the group, and collects the child.
    fn end(&mut self) -> std::io::Result<ExitStatus> {
        self.ended = true;
        let _ = kill_process_group(self.group, Signal::KILL);
        self.child.wait()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.end();
        }
    }
}
