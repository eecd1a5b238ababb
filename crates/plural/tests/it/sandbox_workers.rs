//! What a worker can do in the sandbox, and what it cannot.

use std::{
    io::Read as _,
    net::{TcpListener, UdpSocket},
    os::unix::net::UnixListener,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use plural_sandbox::{Ended, Helper, SandboxError, Worker, WorkerHandle, work};

fn worker(folder: &Path, script: &str) -> Worker {
    Worker {
        path: "/bin/bash".into(),
        args: vec!["-c".to_owned(), script.to_owned()],
        environment: vec![
            ("WORD".to_owned(), "hello".into()),
            ("HOME".to_owned(), folder.into()),
            ("PATH".to_owned(), "/usr/bin:/bin".into()),
        ],
        readable: Vec::new(),
        folder: folder.to_owned(),
        ports: Vec::new(),
        memory_bytes: 1 << 30,
    }
}

fn helper() -> Helper {
    Helper { program: env!("CARGO_BIN_EXE_plural").into(), args: vec!["sandbox".into()] }
}

fn run(worker: &Worker) -> Result<Ended, SandboxError> {
    work(&helper(), worker, &WorkerHandle::default())
}

/// The exit code and the last line of a script.
fn does(script: &str) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let Ended { code, last_line } = run(&worker(folder.path(), script)).unwrap();
    (code, last_line)
}

/// What a script says that must fail.
fn denied(script: &str) -> String {
    let (code, said) = does(script);
    assert_ne!(code, 0, "{script}: {said}");
    said
}

#[test]
fn it_works_in_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mkdir -p a/b && echo \"$WORD\" > a/b/c && mv a/b/c d && ln -s d e && mkfifo f && chmod 700 d && \
                  printf '#!/bin/sh\\nexit 7\\n' > g && chmod +x g && ./g";
    let ended = run(&worker(folder.path(), script)).unwrap();
    assert_eq!(ended, Ended { code: 7, last_line: String::new() });
    assert_eq!(std::fs::read_to_string(folder.path().join("e")).unwrap(), "hello\n");
    assert_eq!(does("echo first >&2; echo last >&2; exit 3"), (3, "last".to_owned()));
}

#[test]
fn it_has_the_environment_that_it_is_given_and_no_other() {
    let (code, said) = does("env -u PWD -u SHLVL -u _ -u OLDPWD | cut -d= -f1 | sort | tr '\\n' ' ' >&2");
    assert_eq!((code, said.trim()), (0, "HOME PATH WORD"));
}

#[test]
fn it_reaches_no_file_outside() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("token");
    std::fs::write(&secret, "hunter2").unwrap();
    let secret = secret.display();
    for script in [
        format!("cat {secret}"),
        format!("echo x > {secret}"),
        format!("echo x > {}/new", outside.path().display()),
        format!("rm {secret}"),
        format!("ln -s {secret} link && cat link"),
        "cat /etc/shadow".to_owned(),
        format!("cat /proc/{}/environ", std::process::id()),
        "ls /root".to_owned(),
        "ls /proc".to_owned(),
        "echo x > /tmp/sandbox-worker".to_owned(),
        "echo x > /dev/shm/sandbox-worker".to_owned(),
    ] {
        let said = denied(&script);
        assert!(said.contains("ermission denied") || said.contains("not permitted"), "{script}: {said}");
    }
    assert_eq!(std::fs::read_to_string(outside.path().join("token")).unwrap(), "hunter2");
}

#[test]
fn it_connects_to_its_ports_alone() {
    let (mine, other) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let script = format!("echo hello > /dev/tcp/127.0.0.1/{}", port(&mine));
    let may = Worker { ports: vec![port(&mine)], ..worker(folder.path(), &script) };
    assert_eq!(run(&may).unwrap().code, 0);
    let mut said = String::new();
    mine.accept().unwrap().0.read_to_string(&mut said).unwrap();
    assert_eq!(said, "hello\n");

    // The kernels of this project's machines know of networks: Linux 6.7 and newer.
    let script = format!("echo hello > /dev/tcp/127.0.0.1/{}", port(&other));
    let ended = run(&Worker { args: vec!["-c".to_owned(), script], ..may }).unwrap();
    assert!(ended.code != 0 && ended.last_line.contains("ermission denied"), "{ended:?}");
}

#[test]
fn it_opens_no_other_sockets() {
    let folder = tempfile::tempdir().unwrap();
    // Even in its own folder: a program of the machine may have put one anywhere.
    let path = folder.path().join("socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let python = |code: &str| format!("python3 -c 'import socket as s; {code}'");
    for script in [
        python("s.socket(s.AF_UNIX).connect(\"socket\")"),
        // One without a file.
        python("s.socket(s.AF_UNIX).connect(\"\\0plural\")"),
        python("s.socket(s.AF_INET, s.SOCK_RAW, 1)"),
        format!("echo x > /dev/udp/127.0.0.1/{}", udp.local_addr().unwrap().port()),
    ] {
        let ended = run(&worker(folder.path(), &script)).unwrap();
        let said = ended.last_line.to_lowercase();
        assert!(ended.code != 0 && said.contains("not permitted"), "{script}: {ended:?}");
    }
}

/// As tools lock their state files and caches; and both ends of a pair of sockets are its own.
#[test]
fn it_locks_its_files_and_talks_to_what_it_started() {
    let python = |code: &str| format!("python3 -c '{code}'");
    for script in [
        "exec 9> lock && flock 9 && ! flock -n lock true".to_owned(),
        python("import fcntl as f; f.lockf(open(\"lock\", \"w\"), f.LOCK_EX)"),
        python("import socket as s; a, b = s.socketpair(); a.send(b\"x\"); assert b.recv(1) == b\"x\""),
    ] {
        assert_eq!(does(&script), (0, String::new()), "{script}");
    }
    // The table of what the machine shares, where semaphores with a name are.
    let said = denied(&python("import multiprocessing as m; m.Lock()"));
    assert!(said.contains("denied") || said.contains("permitted") || said.contains("implement"), "{said}");
}

#[test]
fn it_signals_nobody_outside_and_leaves_no_session() {
    assert!(denied(&format!("kill -9 {}", std::process::id())).contains("not permitted"));
    let said = denied("setsid --fork --wait true");
    assert!(said.contains("not permitted"), "{said}");
    assert!(denied("unshare --user true").contains("not permitted"));
}

/// What is denied has a second number in kernels with the x32 interface. The filter answers before such a kernel, or any other, does.
#[cfg(target_arch = "x86_64")]
#[test]
fn no_second_number_is_a_way_around() {
    // setsid, socket, clone, unshare, ptrace, process_vm_readv
    for call in [112, 41, 56, 272, 521, 539] {
        let number = 0x4000_0000 + call;
        let code = format!(
            "import ctypes as c, os, sys; l = c.CDLL(None, use_errno=True); l.syscall({number}, 1, 1, 0); \
             sys.exit(os.strerror(c.get_errno()))"
        );
        let said = denied(&format!("python3 -c '{code}'"));
        assert!(said.contains("not permitted"), "{call}: {said}");
    }
}

/// Processes whose command line holds `mark`.
fn running(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(mark)).count()
}

#[test]
fn nothing_outlives_it() {
    // A number that no other process sleeps for; in groups of their own, too, as interactive shells make them.
    let mark = format!("87{}", std::process::id());
    let (code, _) = does(&format!("set -m; sleep {mark} & (sleep {mark} & sleep {mark} &) & exit 5"));
    assert_eq!(code, 5);
    assert_eq!(running(&format!("sleep\0{mark}")), 0);
}

/// Waits until a file is there.
fn until(file: &Path) {
    let started = Instant::now();
    while !file.exists() {
        assert!(started.elapsed() < Duration::from_mins(1), "{} is not there", file.display());
        thread::yield_now();
    }
}

#[test]
fn it_is_asked_to_end_and_killed() {
    let mark = format!("88{}", std::process::id());
    for (script, kills, code) in [
        (format!("trap 'exit 9' TERM; sleep {mark} & touch ready; wait"), false, 9),
        (format!("trap '' TERM; touch ready; sleep {mark}"), true, 137),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (worker, handle) = (worker(folder.path(), &script), WorkerHandle::default());
        let ended = thread::scope(|scope| {
            let working = scope.spawn(|| work(&helper(), &worker, &handle));
            until(&folder.path().join("ready"));
            if kills {
                handle.kill();
            } else {
                handle.terminate();
            }
            working.join().unwrap().unwrap()
        });
        assert_eq!(ended.code, code, "{ended:?}");
        assert_eq!(running(&format!("sleep\0{mark}")), 0);
    }
    // Before it starts: then it does not.
    let folder = tempfile::tempdir().unwrap();
    let handle = WorkerHandle::default();
    handle.kill();
    let ended = work(&helper(), &worker(folder.path(), "touch begun"), &handle).unwrap();
    assert_eq!((ended.code, folder.path().join("begun").exists()), (137, false));
}
