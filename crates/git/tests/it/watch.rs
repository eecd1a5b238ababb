//! Hearing of pushes to local repositories.

use std::time::Duration;

use plural_git::{Error, LocalPaths, Remote};
use plural_testkit::{GitRemote, OwnedFolder};
use tokio::time::timeout;

use crate::support::{DEADLINE, Home, key, remote, resolve};

type Move = fn(&GitRemote);

#[tokio::test]
async fn every_way_of_moving_a_reference_is_heard() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let home = Home::new();
    let remote = remote(git.path().to_str().unwrap());
    let mut watch = home.mirrors.watch(&remote).await.unwrap();
    let quiet = timeout(Duration::from_millis(50), watch.changed()).await;
    assert!(quiet.is_err(), "nothing has moved yet");

    let moves: [(&str, Move); 7] = [
        ("a push", |g| drop(g.push_files([("a", "2")]).unwrap())),
        ("a new branch in new folders", |g| g.set_ref("refs/heads/a/b/c", "main").unwrap()),
        ("a commit on it", |g| drop(g.commit("a/b/c").file("x", "y").push().unwrap())),
        ("a tag", |g| g.annotate("v1", "main").unwrap()),
        ("packing", |g| drop(g.git(["pack-refs", "--all", "--prune"]).unwrap())),
        ("deleting a packed reference", |g| g.delete_ref("refs/heads/a/b/c").unwrap()),
        ("another default branch", |g| drop(g.git(["symbolic-ref", "HEAD", "refs/heads/other"]).unwrap())),
    ];
    for (what, change) in moves {
        change(&git);
        timeout(DEADLINE, watch.changed()).await.unwrap_or_else(|_| panic!("{what} was not heard"));
        // Whatever else belongs to the same change comes within the settling time.
        while timeout(Duration::from_millis(100), watch.changed()).await.is_ok() {}
    }
}

#[tokio::test]
async fn a_push_through_git_is_seen_with_its_commit() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let folder = OwnedFolder::new("clone").unwrap();
    let clone = folder.path().join("clone");
    let run = |args: &[&str]| {
        let status = std::process::Command::new("git")
            .args(["-c", "user.name=T", "-c", "user.email=t@example.com"])
            .args(args)
            .status()
            .unwrap();
        assert!(status.success(), "{args:?}");
    };
    run(&["clone", "--quiet", git.path().to_str().unwrap(), clone.to_str().unwrap()]);
    let home = Home::new();
    let clone_path = clone.to_str().unwrap();
    let bare = remote(git.path().to_str().unwrap());
    let tree = Remote::new(key("tree"), clone_path).unwrap();
    let mut at_bare = home.mirrors.watch(&bare).await.unwrap();
    let mut at_tree = home.mirrors.watch(&tree).await.unwrap();

    run(&["-C", clone_path, "commit", "--quiet", "--allow-empty", "-m", "x"]);
    timeout(DEADLINE, at_tree.changed()).await.unwrap();
    let committed = resolve(&home.fetch(&tree).await.repository, "main");
    run(&["-C", clone_path, "push", "--quiet"]);
    timeout(DEADLINE, at_bare.changed()).await.unwrap();
    let fetched = home.fetch(&bare).await;
    assert!(fetched.changed);
    assert_eq!(resolve(&fetched.repository, "main"), committed);
}

#[tokio::test]
async fn only_local_repositories_that_are_read_in_place_are_watched() {
    let git = GitRemote::new().unwrap();
    let home = Home::with(|o| o.local = LocalPaths::Mirrored);
    for url in [git.path().to_str().unwrap(), "https://host.invalid/x"] {
        assert!(matches!(home.mirrors.watch(&remote(url)).await, Err(Error::BadInput { .. })), "{url}");
    }
}
