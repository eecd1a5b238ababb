//! Git remotes, by path and over HTTP.

use std::{
    path::Path,
    process::{Command, Output},
    time::{Duration, Instant},
};

use plural_testkit::{GitRemote, GitServer, git_server::Mood};

fn clone(url: &str, into: &Path) -> Output {
    Command::new("git")
        .args(["-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=1", "clone", "--quiet", url, "."])
        .current_dir(into)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("NO_PROXY", "127.0.0.1")
        .output()
        .unwrap()
}

#[test]
fn a_commit_adds_replaces_links_and_removes() {
    let remote = GitRemote::new().unwrap();
    let first = remote.push_files([("app/a.yaml", "a: 1\n"), ("app/b c\"d.yaml", "b: 1\n")]).unwrap();
    let second = remote
        .commit("main")
        .message("second\n\nwith a body")
        .file("app/a.yaml", "a: 2\n")
        .symlink("app/link", "a.yaml")
        .executable("run.sh", "#!/bin/sh\n")
        .remove("app/b c\"d.yaml")
        .push()
        .unwrap();
    assert_eq!(remote.resolve("main~1").unwrap(), first);
    assert_eq!(remote.resolve("main").unwrap(), second);
    let tree = remote.git(["ls-tree", "-r", "--format=%(objectmode) %(path)", "main"]).unwrap();
    assert_eq!(tree, "100644 app/a.yaml\n120000 app/link\n100755 run.sh");
    assert_eq!(remote.git(["show", "main:app/a.yaml"]).unwrap(), "a: 2");
    assert_eq!(remote.git(["log", "-1", "--format=%s|%b", "main"]).unwrap(), "second|with a body");
}

#[test]
fn refs_are_made_moved_and_removed() {
    let remote = GitRemote::new().unwrap();
    let first = remote.push_files([("a", "1")]).unwrap();
    let second = remote.push_files([("a", "2")]).unwrap();
    remote.set_ref("refs/tags/v1.0.0", &first).unwrap();
    remote.annotate("v1.1.0", &second).unwrap();
    assert_eq!(remote.resolve("v1.0.0").unwrap(), first);
    assert_eq!(remote.resolve("v1.1.0").unwrap(), second);
    remote.delete_ref("refs/tags/v1.0.0").unwrap();
    remote.resolve("v1.0.0").unwrap_err();
    let rewritten = remote.commit("main").from_nothing().file("b", "1").push().unwrap();
    assert_eq!(remote.resolve("main").unwrap(), rewritten);
    remote.resolve("main~1").unwrap_err();
}

#[test]
fn the_same_commits_have_the_same_ids() {
    let commit = || GitRemote::new().unwrap().push_files([("a", "1")]).unwrap();
    assert_eq!(commit(), commit());
}

#[test]
fn http_serves_clones_and_asks_for_a_password() {
    let remote = GitRemote::new().unwrap();
    remote.push_files([("a", "1")]).unwrap();
    let server = GitServer::start(remote.root()).unwrap();
    let temp = tempfile::tempdir().unwrap();

    let open = temp.path().join("open");
    std::fs::create_dir(&open).unwrap();
    let output = clone(&server.url(&remote), &open);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read(open.join("a")).unwrap(), b"1");

    server.require("me", "secret");
    let closed = temp.path().join("closed");
    std::fs::create_dir(&closed).unwrap();
    assert!(!clone(&server.url(&remote), &closed).status.success());
    let url = format!("http://me:secret@{}/{}", server.address(), remote.name());
    assert!(clone(&url, &closed).status.success());
    assert!(server.requests() >= 5, "{}", server.requests());
}

#[test]
fn http_has_bad_days() {
    let remote = GitRemote::new().unwrap();
    remote.push_files([("a", "1".repeat(100))]).unwrap();
    let server = GitServer::start(remote.root()).unwrap();
    let temp = tempfile::tempdir().unwrap();

    server.set_mood(Mood::Failing(503));
    let output = clone(&server.url(&remote), temp.path());
    assert!(String::from_utf8_lossy(&output.stderr).contains("503"));

    server.set_mood(Mood::Hanging);
    let started = Instant::now();
    assert!(!clone(&server.url(&remote), temp.path()).status.success());
    assert!(started.elapsed() >= Duration::from_secs(1), "git gave up before its own limit");

    server.set_mood(Mood::Slow(2_000));
    let started = Instant::now();
    assert!(clone(&server.url(&remote), temp.path()).status.success());
    assert!(started.elapsed() >= Duration::from_millis(200), "two slow answers were fast");
}
