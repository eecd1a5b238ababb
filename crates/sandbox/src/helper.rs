//! The side that becomes the program, after taking its own rights away.

use std::{
    ffi::OsString,
    fmt::Display,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use crate::{Limits, Program, syscalls, worker};

/// Exit code of a helper that did not become the program.
pub(super) const REFUSED: u8 = 125;
/// How its words begin.
pub(super) const MARK: &str = "plural sandbox: ";

/// Where the system keeps programs, libraries and what their loader needs.
pub(super) const SYSTEM: &[&str] =
    &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.preload"];
/// Devices that give nothing away.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"];
/// Files that may be open at once.
const OPEN_FILES: u64 = 256;
/// Processes and threads of our user: of all its programs, so not too few.
const PROCESSES: u64 = 4096;

/// The helper's arguments: read by [`Given::parse`].
pub(super) fn arguments(program: &Program, folder: &Path, limits: &Limits) -> Vec<OsString> {
    let mut args: Vec<OsString> = vec![
        "--folder".into(),
        folder.into(),
        "--cpu".into(),
        limits.cpu.as_secs().max(1).to_string().into(),
        "--memory".into(),
        limits.memory_bytes.to_string().into(),
    ];
    for path in &program.readable {
        args.push("--readable".into());
        args.push(path.into());
    }
    args.push("--".into());
    args.push((&program.path).into());
    args.extend(program.args.iter().map(OsString::from));
    args
}

/// What the parent asks for.
struct Given {
    folder: PathBuf,
    cpu_seconds: u64,
    memory_bytes: u64,
    readable: Vec<PathBuf>,
    program: OsString,
    args: Vec<OsString>,
}

impl Given {
    fn parse(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        let number = |text: OsString| text.to_str()?.parse::<u64>().ok();
        let (mut folder, mut cpu, mut memory, mut readable) = (None, None, None, Vec::new());
        loop {
            let flag = args.next()?;
            match flag.to_str()? {
                "--folder" => folder = Some(PathBuf::from(args.next()?)),
                "--cpu" => cpu = Some(number(args.next()?)?),
                "--memory" => memory = Some(number(args.next()?)?),
                "--readable" => readable.push(PathBuf::from(args.next()?)),
                "--" => break,
                _ => return None,
            }
        }
        Some(Self {
            folder: folder?,
            cpu_seconds: cpu?,
            memory_bytes: memory?,
            readable,
            program: args.next()?,
            args: args.collect(),
        })
    }
}

pub(super) fn enter(args: impl Iterator<Item = OsString>) -> u8 {
    let mut args = args.peekable();
    if args.next_if(|first| first == worker::FLAG).is_some() {
        return worker::enter(args);
    }
    let Some(given) = Given::parse(args) else {
        return refuse("started with arguments that it does not know");
    };
    if let Err(why) = confine(&given) {
        return refuse(why);
    }
    let error = Command::new(&given.program).args(&given.args).env_clear().exec();
    refuse(format!("cannot run {}: {error}", given.program.to_string_lossy()))
}

pub(super) fn refuse(why: impl Display) -> u8 {
    eprintln!("{MARK}{why}");
    REFUSED
}

fn confine(given: &Given) -> Result<(), String> {
    // Whoever asked is gone: nobody would end us.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("no death signal: {error}"))?;
    let limit = |resource, most: u64| {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|error| format!("cannot limit {resource:?}: {error}"))
    };
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    limit(Resource::Cpu, given.cpu_seconds)?;
    limit(Resource::Data, given.memory_bytes)?;
    limit(Resource::Nofile, OPEN_FILES)?;
    limit(Resource::Nproc, PROCESSES)?;
    files(given).map_err(|error| format!("the kernel's Landlock: {error}"))?;
    syscalls::restrict().map_err(|error| format!("the kernel's seccomp: {error}"))
}

/// Only what is named here can be read from now on, and nothing written.
fn files(given: &Given) -> Result<(), String> {
    let words = |error: landlock::RulesetError| error.to_string();
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let run = read | AccessFs::Execute;
    let ruleset = Ruleset::default()
        // Reading, writing, making and removing: without these, nothing is run.
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .map_err(words)?
        // More, where the kernel knows more. Sockets and signals are also out of reach of the system calls.
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))
        .map_err(words)?
        .handle_access(AccessNet::from_all(ABI::V5))
        .map_err(words)?
        .scope(Scope::from_all(ABI::V6))
        .map_err(words)?
        .create()
        .map_err(words)?;
    let program = Path::new(&given.program);
    let status = ruleset
        .add_rules(path_beneath_rules(SYSTEM, run))
        .map_err(words)?
        .add_rules(path_beneath_rules(&given.readable, run))
        .map_err(words)?
        .add_rules(path_beneath_rules([program], run))
        .map_err(words)?
        .add_rules(path_beneath_rules(DEVICES, AccessFs::ReadFile | AccessFs::WriteFile))
        .map_err(words)?
        .add_rules(path_beneath_rules([&given.folder], read))
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
    use super::*;

    #[test]
    fn the_helper_reads_what_the_parent_writes() {
        let program = Program {
            path: "/usr/bin/jsonnet".into(),
            args: vec!["-y".into(), "--".into(), "main.jsonnet".into()],
            readable: vec!["/opt/lib".into()],
        };
        let args = arguments(&program, Path::new("/in"), &Limits::default());
        let given = Given::parse(args.into_iter()).unwrap();
        assert_eq!(given.folder, Path::new("/in"));
        assert_eq!(given.program, "/usr/bin/jsonnet");
        assert_eq!(given.args, ["-y", "--", "main.jsonnet"]);
        assert_eq!(given.readable, [Path::new("/opt/lib")]);
        assert!(Given::parse(["--unknown".into()].into_iter()).is_none());
    }
}
