//! A program that works: it has an environment, writes one folder, and opens TCP connections. What it starts ends with it.

use std::{
    ffi::OsString,
    io::Read as _,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, NetPort, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, kill_process, set_parent_process_death_signal, setrlimit, setsid,
};

use crate::{
    Ended, Helper, SandboxError, Worker,
    helper::{MARK, REFUSED, SYSTEM, refuse},
    syscalls,
};

/// First argument of the helper.
pub(super) const FLAG: &str = "--worker";

/// What programs ask about users, hosts, certificates and time.
const SETTINGS: &[&str] = &[
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/resolv.conf",
    "/etc/gai.conf",
    "/etc/protocols",
    "/etc/services",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/os-release",
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/ca-certificates",
    "/etc/mime.types",
    // What runtimes ask about the machine: nothing of other processes.
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/kernel",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
    "/sys/kernel/mm/transparent_hugepage",
];
/// Devices that give nothing away.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// Files that may be open at once.
const OPEN_FILES: u64 = 4096;
/// Processes and threads of our user: of all its programs, so not too few.
const PROCESSES: u64 = 8192;
/// What is kept of the end of standard error.
const STDERR_BYTES: usize = 4 << 10;
/// As of a program that SIGKILL ended.
const KILLED: i32 = 137;

/// Ends a worker: before it starts, while it runs, and to no effect afterwards.
#[derive(Debug, Clone, Default)]
pub struct WorkerHandle {
    stage: Arc<Mutex<Stage>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Before,
    /// The leader of its session.
    Running(Pid),
    /// It has been collected, and its number may be another's by now; or it is not to start.
    Over,
}

impl WorkerHandle {
    /// Sends SIGTERM to the program itself, as a kubelet does.
    pub fn terminate(&self) {
        let mut stage = self.stage();
        match *stage {
            Stage::Before => *stage = Stage::Over,
            Stage::Running(leader) => {
                // It may be ending at this moment.
                let _ = kill_process(leader, Signal::TERM);
            }
            Stage::Over => {}
        }
    }

    /// Kills it and all that it started.
    pub fn kill(&self) {
        let mut stage = self.stage();
        match *stage {
            Stage::Before => *stage = Stage::Over,
            Stage::Running(leader) => kill_session(leader),
            Stage::Over => {}
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        // Half a change is none.
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Blocks until it has ended, and with it all that it started.
pub(super) fn work(helper: &Helper, worker: &Worker, handle: &WorkerHandle) -> Result<Ended, SandboxError> {
    let mut command = Command::new(&helper.program);
    command
        .args(&helper.args)
        .arg(FLAG)
        .args(arguments(worker))
        .env_clear()
        .envs(worker.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&worker.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut stage = handle.stage();
    if *stage == Stage::Over {
        return Ok(Ended { code: KILLED, last_line: String::new() });
    }
    let mut child = command.spawn().map_err(SandboxError::Start)?;
    let leader = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (Some(leader), Some(mut stderr)) = (leader, child.stderr.take()) else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(SandboxError::Start(std::io::ErrorKind::InvalidData.into()));
    };
    *stage = Stage::Running(leader);
    drop(stage);
    let reader = thread::spawn(move || {
        let (mut kept, mut piece) = (Vec::new(), [0; STDERR_BYTES]);
        while let Ok(read @ 1..) = stderr.read(&mut piece) {
            kept.extend_from_slice(piece.get(..read).unwrap_or_default());
            let surplus = kept.len().saturating_sub(STDERR_BYTES);
            kept.drain(..surplus);
        }
        String::from_utf8_lossy(&kept).into_owned()
    });
    // Not collected yet: until it is, its number, which is that of its session, is nobody else's.
    let waited = wait_without_collecting(leader);
    kill_session(leader);
    *handle.stage() = Stage::Over;
    let status = child.wait().map_err(SandboxError::Start)?;
    waited.map_err(|error| SandboxError::Start(error.into()))?;
    // All who held the other end are dead.
    let words = reader.join().unwrap_or_default();
    outcome(status, &words)
}

fn wait_without_collecting(leader: Pid) -> Result<(), rustix::io::Errno> {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    loop {
        match waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn outcome(status: ExitStatus, words: &str) -> Result<Ended, SandboxError> {
    if status.code() == Some(i32::from(REFUSED))
        && let Some(why) = words.strip_prefix(MARK)
    {
        return Err(SandboxError::Unconfined(why.trim().to_owned()));
    }
    let last = words.trim_end().lines().next_back().unwrap_or_default().to_owned();
    // As shells and container runtimes count.
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1);
    Ok(Ended { code, last_line: last })
}

/// Kills `leader` and whatever is in its session. Nothing leaves a session: the system call is refused.
fn kill_session(leader: Pid) {
    // It may not have made its session yet: then it has started nothing, either.
    let _ = kill_process(leader, Signal::KILL);
    // Each round sees what was started during the one before. What still starts others after so many is being killed
    // faster than it can: a signal that is sent cannot be missed.
    for _ in 0..1_000 {
        let members = session(leader);
        if members.is_empty() {
            return;
        }
        for member in members {
            let _ = kill_process(member, Signal::KILL);
        }
        thread::yield_now();
    }
}

/// The processes of a session that still run: fields 3 and 6 of `/proc/PID/stat`, see proc(5).
fn session(leader: Pid) -> Vec<Pid> {
    let wanted = leader.as_raw_nonzero().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name before the state is in parentheses, and may hold some itself.
            let mut fields = stat.rsplit_once(") ")?.1.split(' ');
            let state = fields.next()?;
            let session = fields.nth(2)?;
            (session == wanted && !matches!(state, "Z" | "X")).then_some(pid)
        })
        .collect()
}

fn arguments(worker: &Worker) -> Vec<OsString> {
    let mut args: Vec<OsString> =
        vec!["--folder".into(), (&worker.folder).into(), "--memory".into(), number(worker.memory_bytes)];
    for port in &worker.ports {
        args.extend(["--port".into(), number(u64::from(*port))]);
    }
    for path in &worker.readable {
        args.extend(["--readable".into(), path.into()]);
    }
    args.extend(["--".into(), (&worker.path).into()]);
    args.extend(worker.args.iter().map(OsString::from));
    args
}

fn number(value: u64) -> OsString {
    value.to_string().into()
}

/// What the parent asks for.
struct Given {
    folder: PathBuf,
    memory_bytes: u64,
    ports: Vec<u16>,
    readable: Vec<PathBuf>,
    program: OsString,
    args: Vec<OsString>,
}

impl Given {
    fn parse(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let (mut folder, mut memory, mut ports, mut readable) = (None, None, Vec::new(), Vec::new());
        loop {
            let flag = args.next()?;
            match flag.to_str()? {
                "--folder" => folder = Some(PathBuf::from(args.next()?)),
                "--memory" => memory = Some(args.next()?.to_str()?.parse().ok()?),
                "--port" => ports.push(args.next()?.to_str()?.parse().ok()?),
                "--readable" => readable.push(PathBuf::from(args.next()?)),
                "--" => break,
                _ => return None,
            }
        }
        Some(Self {
            folder: folder?,
            memory_bytes: memory?,
            ports,
            readable,
            program: args.next()?,
            args: args.collect(),
        })
    }
}

/// The helper's side: comes back only when it did not become the program.
pub(super) fn enter(args: impl Iterator<Item = OsString>) -> u8 {
    let Some(given) = Given::parse(args) else {
        return refuse("started with arguments that it does not know");
    };
    if let Err(why) = confine(&given) {
        return refuse(why);
    }
    // The environment is what the parent gave: it cleared its own.
    let error = Command::new(&given.program).args(&given.args).exec();
    refuse(format!("cannot run {}: {error}", given.program.to_string_lossy()))
}

fn confine(given: &Given) -> Result<(), String> {
    // Whoever asked is gone: nobody would end us.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("no death signal: {error}"))?;
    setsid().map_err(|error| format!("no session of its own: {error}"))?;
    lower(Resource::Core, 0)?;
    lower(Resource::Data, given.memory_bytes)?;
    lower(Resource::Nofile, OPEN_FILES)?;
    lower(Resource::Nproc, PROCESSES)?;
    files(given).map_err(|error| format!("the kernel's Landlock: {error}"))?;
    syscalls::restrict_worker().map_err(|error| format!("the kernel's seccomp: {error}"))
}

/// A limit that only falls: raising one needs a privilege.
fn lower(resource: Resource, most: u64) -> Result<(), String> {
    let now = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let most = Some(most.min(now));
    setrlimit(resource, Rlimit { current: most, maximum: most })
        .map_err(|error| format!("cannot limit {resource:?}: {error}"))
}

fn files(given: &Given) -> Result<(), String> {
    let words = |error: landlock::RulesetError| error.to_string();
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let run = read | AccessFs::Execute;
    let ruleset = Ruleset::default()
        // Reading, writing, making and removing: without these, nothing is run.
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .map_err(words)?
        // More, where the kernel knows more: connections to other ports, signals to others.
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))
        .map_err(words)?
        .handle_access(AccessNet::from_all(ABI::V5))
        .map_err(words)?
        .scope(Scope::from_all(ABI::V6))
        .map_err(words)?
        .create()
        .map_err(words)?;
    let ports = given.ports.iter().map(|port| Ok(NetPort::new(*port, AccessNet::ConnectTcp)));
    let status = ruleset
        .add_rules(path_beneath_rules(SYSTEM, run))
        .map_err(words)?
        .add_rules(path_beneath_rules(SETTINGS, read))
        .map_err(words)?
        .add_rules(path_beneath_rules(&given.readable, run))
        .map_err(words)?
        .add_rules(path_beneath_rules([Path::new(&given.program)], run))
        .map_err(words)?
        .add_rules(path_beneath_rules(DEVICES, AccessFs::ReadFile | AccessFs::WriteFile))
        .map_err(words)?
        .add_rules(path_beneath_rules([&given.folder], AccessFs::from_all(ABI::V5)))
        .map_err(words)?
        .add_rules(ports)
        .map_err(words)?
        .restrict_self()
        .map_err(words)?;
    if status.ruleset == RulesetStatus::NotEnforced || !status.no_new_privs {
        return Err("it is not enforced".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};

    use super::*;

    /// This thread has a kernel without Landlock: there is no such call.
    fn without_landlock() {
        let architecture = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
        let rules = [(libc::SYS_landlock_create_ruleset, Vec::new())].into();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, unknown, architecture).unwrap();
        apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
    }

    /// Landlock holds the thread that asks for it: each has one of its own here.
    #[test]
    fn a_kernel_without_landlock_confines_nothing() {
        let confined = |is_there: bool| {
            let given = Given {
                folder: std::env::temp_dir(),
                memory_bytes: 1 << 20,
                ports: Vec::new(),
                readable: Vec::new(),
                program: "/bin/sh".into(),
                args: Vec::new(),
            };
            let confines = move || {
                if !is_there {
                    without_landlock();
                }
                files(&given)
            };
            thread::spawn(confines).join().unwrap()
        };
        assert_eq!(confined(true), Ok(()));
        assert!(confined(false).is_err(), "it would be started without limits");
    }

    #[test]
    fn the_helper_reads_what_the_parent_writes() {
        let worker = Worker {
            path: "/opt/plural".into(),
            args: vec!["harness".into(), "--".into()],
            environment: Vec::new(),
            readable: vec!["/opt/tofu".into()],
            folder: "/work".into(),
            ports: vec![8080],
            memory_bytes: 1 << 20,
        };
        let given = Given::parse(arguments(&worker).into_iter()).unwrap();
        assert_eq!((given.folder.as_path(), given.memory_bytes), (Path::new("/work"), 1 << 20));
        assert_eq!((given.ports, given.program.to_str()), (vec![8080], Some("/opt/plural")));
        assert_eq!(given.args, ["harness", "--"]);
        assert_eq!(given.readable, [Path::new("/opt/tofu")]);
        assert!(Given::parse(["--unknown".into()].into_iter()).is_none());
    }

    #[test]
    fn what_runs_in_a_session_is_found() {
        let mut child = Command::new("setsid").args(["sleep", "3600"]).spawn().unwrap();
        let leader = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        // `setsid` becomes the leader before it becomes `sleep`; both are found.
        while session(leader).is_empty() {
            thread::yield_now();
        }
        kill_session(leader);
        assert!(session(leader).is_empty());
        assert_eq!(child.wait().unwrap().signal(), Some(9));
    }
}
