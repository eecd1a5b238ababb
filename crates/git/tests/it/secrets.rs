//! Credentials are seen by git and ssh alone.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use plural_git::{Credentials, Error, HostKeys, Remote};
use plural_testkit::{GitRemote, GitServer, OwnedFolder, eventually, git_server::Mood};

use crate::support::{DEADLINE, Home, files_in, key, processes_in, remote, resolve};

const SECRET: &str = "canary-5f3e/9 d'1";

#[tokio::test(flavor = "multi_thread")]
async fn no_process_shows_a_credential_while_a_fetch_hangs() {
    let git = GitRemote::new().unwrap();
    let server = GitServer::start(git.root()).unwrap();
    server.set_mood(Mood::Hanging);
    let home = Home::with(|o| o.stall = Duration::from_secs(2));
    let with_url = format!("http://robot:{}@{}/{}", "canary-5f3e%2F9%20d%271", server.address(), git.name());
    let remotes = [
        remote(&server.url(&git)).with_credentials(Credentials::basic("robot", SECRET)),
        Remote::new(key("two"), &with_url).unwrap(),
    ];
    for remote in remotes {
        let asked = server.requests();
        let mirrors = home.mirrors.clone();
        let shown = format!("{remote:?}");
        let fetching = tokio::spawn(async move { mirrors.fetch(&remote).await });
        eventually(DEADLINE, || async { server.requests() > asked }).await;

        let pids = processes_in(home.folder.path());
        assert!(pids.len() >= 2, "git and its transport helper: {pids:?}");
        for pid in pids {
            for file in ["cmdline", "environ"] {
                let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                let text = String::from_utf8_lossy(&text);
                assert!(!text.contains("canary"), "{file} of {pid}: {text}");
            }
        }
        let holders: Vec<_> = files_in(home.folder.path())
            .into_iter()
            .filter(|f| fs::read(f).is_ok_and(|b| String::from_utf8_lossy(&b).contains("canary")))
            .collect();
        assert_eq!(holders.len(), 1, "one file holds it, for git alone: {holders:?}");
        assert_eq!(fs::metadata(&holders[0]).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(holders[0].parent().unwrap()).unwrap().permissions().mode() & 0o777, 0o700);

        let error = fetching.await.unwrap().unwrap_err();
        let all = format!("{shown} {error} {error:?}");
        assert!(matches!(error, Error::TimedOut { .. }) && !all.contains("canary"), "{all}");
        assert!(!holders[0].exists(), "removed with the run");
    }
}

#[tokio::test]
async fn credentials_with_any_character_arrive() {
    let git = GitRemote::new().unwrap();
    let commit = git.push_files([("a", "1")]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let home = Home::new();
    for secret in [SECRET, "p@ss:word/#?%41", "ünï¢ode \"quoted\" $HOME `x` \\"] {
        server.require("ro bot@example.com", secret);
        let remote =
            remote(&server.url(&git)).with_credentials(Credentials::basic("ro bot@example.com", secret));
        assert_eq!(resolve(&home.fetch(&remote).await.repository, "main"), commit);
    }
    let split = remote(&server.url(&git)).with_credentials(Credentials::basic("robot", "a\nhost=evil"));
    let error = home.mirrors.fetch(&split).await.unwrap_err();
    assert!(matches!(error, Error::BadInput { .. }) && !error.to_string().contains("evil"), "{error}");
}

#[tokio::test]
async fn credentials_are_not_sent_to_another_host() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    // One host redirects to another one, which asks for a password.
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let thief = GitServer::start(git.root()).unwrap();
    thief.require("robot", SECRET);
    let target = thief.url(&git);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let redirecting = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let to = format!("{target}/info/refs?service=git-upload-pack");
            let answer = format!(
                "HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    let home = Home::new();
    let remote =
        remote(&format!("http://{address}/x.git")).with_credentials(Credentials::basic("robot", SECRET));
    let error = home.mirrors.fetch(&remote).await.unwrap_err();
    // Had they been sent, the other host would have let us in.
    assert!(matches!(error, Error::Auth { .. }), "{error}");
    redirecting.abort();
}

/// A stand-in for ssh: writes down how it was called, then runs what was to run on the other side.
fn fake_ssh(folder: &Path) -> std::path::PathBuf {
    let script = folder.join("ssh");
    let log = folder.display();
    let text = format!(
        "#!/bin/sh\n\
         printf '%s\\n' \"$@\" > {log}/arguments\n\
         env > {log}/environment\n\
         for word in \"$@\"; do case $word in IdentityFile=*) key=$(echo \"${{word#IdentityFile=}}\" | tr -d '\"');;\n\
           UserKnownHostsFile=*) hosts=$(echo \"${{word#UserKnownHostsFile=}}\" | tr -d '\"');; esac; done\n\
         stat -c '%a' \"$key\" > {log}/mode; cat \"$key\" > {log}/key\n\
         cat \"$hosts\" > {log}/hosts 2>/dev/null\n\
         [ -n \"$SSH_ASKPASS\" ] && \"$SSH_ASKPASS\" 'Enter passphrase' > {log}/passphrase\n\
         for last in \"$@\"; do :; done\n\
         exec sh -c \"$last\"\n"
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

#[tokio::test]
async fn ssh_gets_its_key_by_file_and_checks_the_host() {
    let git = GitRemote::new().unwrap();
    let commit = git.push_files([("a", "1")]).unwrap();
    let folder = OwnedFolder::new("it's ssh").unwrap();
    let log = OwnedFolder::new("ssh-log").unwrap();
    let script = fake_ssh(log.path());
    let mirrors = plural_git::Mirrors::open(crate::support::options(folder.path(), |o| {
        o.ssh = script;
        o.guard.lookup = std::sync::Arc::new(crate::support::Here);
    }))
    .unwrap();
    let url = format!("ssh://git@git.example.com:2222{}", git.path().display());
    let remote = Remote::new(key("one"), &url)
        .unwrap()
        .with_credentials(Credentials::ssh_key("PRIVATE canary KEY", Some("canary phrase".into())))
        .with_host_keys(HostKeys::Pinned("git.example.com ssh-ed25519 AAAA".into()));
    let repo = mirrors.fetch(&remote).await.unwrap().repository;
    assert_eq!(resolve(&repo, "main"), commit);

    let read = |name: &str| fs::read_to_string(log.path().join(name)).unwrap();
    assert_eq!(read("key"), "PRIVATE canary KEY\n");
    assert_eq!(read("mode"), "600\n");
    assert_eq!(read("hosts"), "git.example.com ssh-ed25519 AAAA");
    assert_eq!(read("passphrase"), "canary phrase\n");
    let arguments = read("arguments");
    for expect in
        ["StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "GlobalKnownHostsFile=\"/dev/null\"", "2222"]
    {
        assert!(arguments.contains(expect), "{expect} in {arguments}");
    }
    assert!(!arguments.contains("canary") && !read("environment").contains("canary"));
    let left: Vec<_> = files_in(folder.path())
        .into_iter()
        .filter(|f| fs::read(f).is_ok_and(|b| String::from_utf8_lossy(&b).contains("canary")))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    // Without a pinned key the first one seen is kept beside the mirror, and none is asked for.
    let accepting = Remote::new(key("two"), &url).unwrap().with_credentials(Credentials::ssh_key("K", None));
    mirrors.fetch(&accepting).await.unwrap();
    let arguments = read("arguments");
    assert!(arguments.contains("StrictHostKeyChecking=accept-new") && arguments.contains("BatchMode=yes"));
    assert!(arguments.contains("mirrors/two/known_hosts"), "{arguments}");
}

#[tokio::test]
async fn the_real_ssh_understands_us_and_names_an_unreachable_host() {
    let home = Home::with(|o| o.stall = Duration::from_secs(5));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let remote = remote(&format!("ssh://git@127.0.0.1:{port}/x.git"))
        .with_credentials(Credentials::ssh_key("not a key", None));
    let error = home.mirrors.fetch(&remote).await.unwrap_err();
    if std::process::Command::new("ssh").arg("-V").output().is_ok() {
        // A word or option that it did not know would be another failure.
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains("127.0.0.1"), "{error}");
    } else {
        assert!(matches!(&error, Error::NoProgram { program, .. } if program == "ssh"), "{error}");
    }
    let none = home.again(|o| o.ssh = "/nonexistent/ssh".into());
    let error = none.fetch(&remote).await.unwrap_err();
    assert!(matches!(&error, Error::NoProgram { program, .. } if program == "ssh"), "{error}");
}

#[tokio::test]
async fn credentials_of_the_wrong_kind_are_refused_before_anything_runs() {
    let home = Home::new();
    let key = remote("https://host.invalid/x").with_credentials(Credentials::ssh_key("k", None));
    let password = remote("git@host.invalid:x").with_credentials(Credentials::basic("u", "p"));
    for remote in [key, password] {
        assert!(matches!(home.mirrors.fetch(&remote).await, Err(Error::BadInput { .. })));
    }
    let mut proxied = remote("https://host.invalid/x");
    proxied.proxy = Some("file:///etc/passwd".to_owned().into());
    assert!(matches!(home.mirrors.fetch(&proxied).await, Err(Error::BadInput { .. })));
    assert_eq!(home.mirrors.runs(), 0);
}
