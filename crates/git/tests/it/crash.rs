//! Killed at any moment: what the next start finds, and mends.

use std::{
    fs,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use plural_git::{Credentials, Error, Mirrors, Remote};
use plural_testkit::{GitRemote, GitServer, eventually, git_server::Mood};
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{DEADLINE, Home, files_in, key, noise, options, processes_in, remote, resolve};

const FOLDER: &str = "GIT_TEST_VICTIM_FOLDER";
const URL: &str = "GIT_TEST_VICTIM_URL";

/// What a [`victim`] process runs. In a usual test run it has no folder and so nothing to do.
#[tokio::test]
async fn victim() {
    let (Ok(folder), Ok(url)) = (std::env::var(FOLDER), std::env::var(URL)) else { return };
    let mirrors = Mirrors::open(options(Path::new(&folder), |_| {})).unwrap();
    let remote = Remote::new(key("one"), &url).unwrap().with_credentials(Credentials::basic("u", "canary"));
    mirrors.fetch(&remote).await.unwrap();
}

/// Starts a process that fetches.
fn start_victim(folder: &Path, url: &str, environment: &[(&str, &str)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::victim", "--nocapture"])
        .env(FOLDER, folder)
        .env(URL, url)
        .envs(environment.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_leaves_nothing_that_stops_the_next() {
    let git = GitRemote::new().unwrap();
    let commit = git.push_files([("a", "1")]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let home = Home::new();
    let remote = remote(&server.url(&git));

    for first in [true, false] {
        server.set_mood(Mood::Hanging);
        let asked = server.requests();
        let mut victim = start_victim(home.folder.path(), &server.url(&git), &[]);
        eventually(DEADLINE, || async { server.requests() > asked }).await;
        let mirror = home.folder.path().join("mirrors/one");
        let repo = mirror.join("repo.git");
        victim.kill().unwrap();
        victim.wait().unwrap();
        // Its git ends by itself, sooner or later, because its relay ended with the process. This one waits for its input.
        let mut orphan = Command::new("git")
            .args(["cat-file", "--batch"])
            .current_dir(&repo)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        eventually(DEADLINE, || async { processes_in(&mirror).contains(&orphan.id()) }).await;
        assert!(mirror.join("fetching").exists());
        // What git leaves when it is killed at a worse moment.
        for lock in [
            "packed-refs.lock",
            "refs/heads/main.lock",
            "config.lock",
            "HEAD.lock",
            "objects/pack/tmp_pack_x",
        ] {
            fs::write(repo.join(lock), "half").unwrap();
        }
        server.set_mood(Mood::Well);
        let canary = || {
            files_in(&home.folder.path().join("sessions"))
                .into_iter()
                .filter(|f| fs::read(f).is_ok_and(|b| String::from_utf8_lossy(&b).contains("canary")))
                .count()
        };
        assert_eq!(canary(), 1, "its credentials are still there");
        let mirrors = home.again(|_| {});
        assert_eq!(canary(), 0, "and go with the next start");
        let repo = mirrors.fetch(&remote).await.unwrap().repository;
        assert_eq!(resolve(&repo, "main"), commit, "first fetch: {first}");
        assert!(processes_in(&mirror).is_empty(), "no old git is left");
        assert_eq!(orphan.wait().unwrap().signal(), Some(Signal::KILL.as_raw()), "it was ended");
        let left: Vec<_> = files_in(&mirror)
            .into_iter()
            .filter(|f| f.to_string_lossy().contains("tmp_") || f.extension().is_some_and(|x| x == "lock"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killing_git_itself_is_one_failed_fetch() {
    let git = GitRemote::new().unwrap();
    let commit = git.push_files([("a", noise(320_000))]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let home = Home::new();
    let remote = remote(&server.url(&git));
    // Slow, so that it is killed in the middle of the pack.
    server.set_mood(Mood::Slow(20_000));
    let (mirrors, there) = (home.mirrors.clone(), remote.clone());
    let fetching = tokio::spawn(async move { mirrors.fetch(&there).await.map(drop) });
    let mirror = home.folder.path().join("mirrors/one");
    let half_a_pack = || {
        let pack = mirror.join("repo.git/objects/pack");
        files_in(&pack).iter().any(|f| f.to_string_lossy().contains("tmp_pack"))
    };
    eventually(DEADLINE, || async { half_a_pack() }).await;
    for pid in processes_in(&mirror) {
        let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
    }
    let error = fetching.await.unwrap().unwrap_err();
    assert!(error.is_transient(), "{error}");
    server.set_mood(Mood::Well);
    assert_eq!(resolve(&home.fetch(&remote).await.repository, "main"), commit);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_take_turns_on_one_mirror() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    server.set_mood(Mood::Hanging);
    let home = Home::new();
    let mut other = start_victim(home.folder.path(), &server.url(&git), &[]);
    eventually(DEADLINE, || async { server.requests() > 0 }).await;
    let impatient = home.again(|o| o.timeout = Duration::from_millis(200));
    let error = impatient.fetch(&remote(&server.url(&git))).await.unwrap_err();
    assert!(
        matches!(&error, Error::TimedOut { detail, .. } if detail.contains("another process")),
        "{error}"
    );
    assert!(!processes_in(&home.folder.path().join("mirrors")).is_empty(), "its git is left alone");
    other.kill().unwrap();
    other.wait().unwrap();
    server.set_mood(Mood::Well);
    home.fetch(&remote(&server.url(&git))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_surroundings_of_the_process_do_not_reach_git() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let home = Home::new();
    let hostile = home.folder.path().join("hostile");
    let touched = home.folder.path().join("touched");
    let url = server.url(&git);
    fs::write(
        &hostile,
        format!(
            "[url \"http://127.0.0.1:1/\"]\n\tinsteadOf = http://{}/\n[core]\n\tsshCommand = touch {1}\n\
             [credential]\n\thelper = \"!touch {1}\"\n[core]\n\thooksPath = /nonexistent\n",
            server.address(),
            touched.display()
        ),
    )
    .unwrap();
    let config = hostile.display().to_string();
    let mut child = start_victim(
        home.folder.path(),
        &url,
        &[
            ("GIT_CONFIG_GLOBAL", &config),
            ("GIT_CONFIG_SYSTEM", &config),
            ("GIT_DIR", "/nonexistent"),
            ("GIT_OBJECT_DIRECTORY", "/nonexistent"),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "core.bare"),
            ("GIT_CONFIG_VALUE_0", "nonsense"),
            ("http_proxy", "http://127.0.0.1:1"),
        ],
    );
    assert!(child.wait().unwrap().success(), "the fetch went through");
    assert!(!touched.exists());
}
