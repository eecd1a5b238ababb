//! What a command renderer cannot do.

use std::{
    net::TcpListener,
    path::Path,
    sync::mpsc,
    time::{Duration, Instant},
};

use plural_sandbox::{Helper, Limits, Program, SandboxError, run};

fn shell(folder: &Path, script: &str, limits: &Limits) -> Result<String, SandboxError> {
    let helper = Helper { program: env!("CARGO_BIN_EXE_plural").into(), args: vec!["sandbox".into()] };
    let program = Program {
        path: "/bin/bash".into(),
        args: vec!["-c".to_owned(), script.to_owned()],
        readable: Vec::new(),
    };
    run(&helper, &program, folder, limits).map(|output| String::from_utf8(output).unwrap())
}

fn confined(script: &str) -> Result<String, SandboxError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("in.txt"), "input\n").unwrap();
    shell(folder.path(), script, &Limits::default())
}

/// What the script says on standard error when it fails, as it must.
fn denied(script: &str) -> String {
    match confined(script) {
        Err(SandboxError::Failed { stderr, .. }) => stderr,
        other => panic!("{script}: {other:?}"),
    }
}

#[test]
fn it_reads_its_input_and_writes_to_its_output() {
    assert_eq!(confined("read -r line < in.txt; echo \"$line\"; pwd >&2").unwrap(), "input\n");
    // Programs of the system run, and pipes between them.
    assert_eq!(confined("cat in.txt | tr a-z A-Z").unwrap(), "INPUT\n");
}

#[test]
fn its_environment_is_empty() {
    assert_eq!(confined("/usr/bin/env -u PWD -u SHLVL -u _ -u OLDPWD").unwrap(), "");
}

#[test]
fn it_reads_no_file_outside() {
    let secret = tempfile::tempdir().unwrap();
    let file = secret.path().join("token");
    std::fs::write(&file, "hunter2").unwrap();
    for path in [file.display().to_string(), "/etc/passwd".to_owned(), "/proc/self/environ".to_owned()] {
        let said = denied(&format!("cat {path}"));
        assert!(said.contains("Permission denied"), "{path}: {said}");
    }
    assert!(denied("ls /root /tmp /proc").contains("Permission denied"));
}

#[test]
fn it_changes_no_file() {
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("kept");
    std::fs::write(&file, "kept").unwrap();
    let path = file.display();
    for script in [
        "echo x > new.txt".to_owned(),
        "echo x > in.txt".to_owned(),
        "rm in.txt".to_owned(),
        "mkdir new".to_owned(),
        format!("echo x > {path}"),
        format!("rm -f {path} && exit 1"),
        format!("truncate -s 0 {path}"),
        format!("chmod 777 {path}"),
        format!("touch -d 2001-01-01 {path}"),
        format!("ln {path} link"),
    ] {
        denied(&script);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_ne!(mode & 0o777, 0o777);
}

#[test]
fn it_reaches_no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, accepted) = mpsc::channel();
    listener.set_nonblocking(true).unwrap();
    let said = denied(&format!("echo hello > /dev/tcp/127.0.0.1/{port}"));
    assert!(said.contains("not permitted"), "{said}");
    sender.send(listener.accept().is_ok()).unwrap();
    assert!(!accepted.recv().unwrap());
}

#[test]
fn it_signals_nobody() {
    let own = std::process::id();
    assert!(denied(&format!("kill -9 {own}")).contains("not permitted"));
}

/// Processes whose command line holds `mark`.
fn running(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(mark)).count()
}

#[test]
fn it_does_not_outlive_its_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { deadline: Duration::from_secs(2), ..Limits::default() };
    // A number that no other process sleeps for.
    let mark = format!("86{}", std::process::id());
    let script = format!("sleep {mark} & (sleep {mark} & sleep {mark}); sleep {mark}");
    let started = Instant::now();
    let outcome = shell(folder.path(), &script, &limits);
    assert!(matches!(outcome, Err(SandboxError::Deadline(_))), "{outcome:?}");
    assert!(started.elapsed() >= limits.deadline);
    assert_eq!(running(&format!("sleep\0{mark}")), 0);
    // What it leaves running when it ends in time does not outlive it either, nor keep us waiting.
    shell(folder.path(), &format!("setsid sleep {mark} & sleep {mark} & exit 0"), &Limits::default())
        .unwrap();
    assert_eq!(running(&format!("sleep\0{mark}")), 0);
}

#[test]
fn its_output_and_memory_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let few = Limits { output_bytes: 1000, memory_bytes: 64 << 20, ..Limits::default() };
    let outcome = shell(folder.path(), "while :; do echo too much; done", &few);
    assert!(matches!(outcome, Err(SandboxError::Output(1000))), "{outcome:?}");
    let outcome = shell(folder.path(), "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo ${#x}", &few);
    assert!(matches!(outcome, Err(SandboxError::Failed { .. })), "{outcome:?}");
}

#[test]
fn a_program_that_is_not_there_is_said() {
    let helper = Helper { program: env!("CARGO_BIN_EXE_plural").into(), args: vec!["sandbox".into()] };
    let program = Program { path: "/nowhere/jsonnet".into(), args: Vec::new(), readable: Vec::new() };
    let folder = tempfile::tempdir().unwrap();
    let error = run(&helper, &program, folder.path(), &Limits::default()).unwrap_err().to_string();
    assert!(error.contains("cannot run /nowhere/jsonnet"), "{error}");
}
