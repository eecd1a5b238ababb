//! Packing.

use std::{io::Read as _, process::Command};

use plural_git::{Artifact, Digest, Error, Limits, Repository, ServiceSource};
use plural_testkit::{GitRemote, OwnedFolder};

use crate::support::{Home, in_place, oid, remote};

fn pack(repo: &Repository, commit: &str, folder: &str) -> Result<Artifact, Error> {
    let closure = repo.closure(oid(commit), &ServiceSource::new(folder).unwrap())?;
    repo.artifact(&closure)
}

async fn limited(git: &GitRemote, limits: Limits) -> (Home, Repository) {
    let home = Home::with(|o| o.limits = limits);
    let repo = home.fetch(&remote(git.path().to_str().unwrap())).await.repository;
    (home, repo)
}

fn a_bit_of_everything(git: &GitRemote) -> String {
    let long = format!("deep/{}/{}.yaml", "x".repeat(90), "y".repeat(90));
    git.commit("main")
        .file("apps/web/kustomization.yaml", "resources: [../../base/b.yaml]\n")
        .executable("apps/web/run.sh", "#!/bin/sh\n")
        .file(&format!("apps/web/{long}"), "long")
        .file("apps/web/ünïcode/日本.txt", "u")
        .file("apps/web/empty", "")
        .file("apps/web/block", [b'b'; 512])
        .file("base/b.yaml", "b: 1\n")
        .symlink("apps/web/link", "../../base/b.yaml")
        .push()
        .unwrap()
}

#[tokio::test]
async fn the_bytes_of_an_artifact_never_change() {
    let git = GitRemote::new().unwrap();
    let commit = a_bit_of_everything(&git);
    let (_home, repo) = in_place(&git).await;
    let artifact = pack(&repo, &commit, "apps/web").unwrap();
    assert_eq!(artifact.folder, "apps/web");
    assert_eq!(artifact.digest, Digest::of(&artifact.tar));
    // A change here would redeploy every service of every user: do not accept it.
    assert_eq!(artifact.digest.to_string(), GOLDEN);

    // The same source in another repository with another history, and by way of a mirror.
    let other = GitRemote::new().unwrap();
    other.push_files([("unrelated", "x")]).unwrap();
    let commit = a_bit_of_everything(&other);
    let (_home, repo) = in_place(&other).await;
    assert_eq!(pack(&repo, &commit, "apps/web").unwrap().tar, artifact.tar);
}

const GOLDEN: &str = "10dbf4d49f4ea438c38c9fdcb49e37028f8de3d47186c2b5da688d6182093012";

#[tokio::test]
async fn others_can_read_the_tar() {
    let git = GitRemote::new().unwrap();
    let commit = a_bit_of_everything(&git);
    let (_home, repo) = in_place(&git).await;
    let artifact = pack(&repo, &commit, "apps/web").unwrap();

    let mut archive = tar::Archive::new(&*artifact.tar);
    let mut names = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().to_str().unwrap().to_owned();
        let header = entry.header();
        assert_eq!((header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap()), (0, 0, 0));
        assert!(header.entry_type().is_file());
        let mode = if path.ends_with("run.sh") { 0o755 } else { 0o644 };
        assert_eq!(header.mode().unwrap(), mode, "{path}");
        let mut content = String::new();
        entry.read_to_string(&mut content).unwrap();
        if path.ends_with("link") {
            assert_eq!(content, "b: 1\n", "a link is what it points to");
        }
        names.push(path);
    }
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(names, sorted);
    assert_eq!(names.len(), 8);
    assert!(names.iter().any(|n| n.len() > 180) && names.iter().any(|n| n.ends_with("日本.txt")));

    // And the system's tar.
    let folder = OwnedFolder::new("untar").unwrap();
    let file = folder.path().join("artifact.tar");
    std::fs::write(&file, &artifact.tar).unwrap();
    let status = Command::new("tar")
        .arg("-xf")
        .arg(&file)
        .arg("-C")
        .arg(folder.path())
        .arg("--no-same-owner")
        .status()
        .unwrap();
    assert!(status.success());
    assert_eq!(std::fs::read(folder.path().join("apps/web/block")).unwrap(), [b'b'; 512]);
}

#[tokio::test]
async fn a_closure_within_one_folder_is_laid_out_from_there() {
    let git = GitRemote::new().unwrap();
    let commit = git
        .push_files([
            ("a/b/overlay/kustomization.yaml", "resources: [../base]"),
            ("a/b/base/kustomization.yaml", ""),
            ("x", ""),
        ])
        .unwrap();
    let (_home, repo) = in_place(&git).await;
    let artifact = pack(&repo, &commit, "a/b/overlay").unwrap();
    assert_eq!(artifact.folder, "overlay");
    let names: Vec<_> = tar::Archive::new(&*artifact.tar)
        .entries()
        .unwrap()
        .map(|e| e.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["base/kustomization.yaml", "overlay/kustomization.yaml"]);
}

#[tokio::test]
async fn a_file_of_200_megabytes_is_named() {
    let git = GitRemote::new().unwrap();
    let commit = git
        .commit("main")
        .file("app/small.yaml", "a")
        .file("app/dump.sql", vec![0; 200 << 20])
        .push()
        .unwrap();
    let (_home, repo) = in_place(&git).await;
    let error = pack(&repo, &commit, "app").unwrap_err();
    assert!(
        matches!(&error, Error::Limit { file, actual, limit, .. }
            if file == "app/dump.sql" && *actual == 200 << 20 && *limit == 16 << 20),
        "{error}"
    );
    assert!(error.to_string().starts_with("app/dump.sql: its size in bytes is 209715200"), "{error}");
}

#[tokio::test]
async fn every_limit_says_what_passed_it() {
    let git = GitRemote::new().unwrap();
    let commit = git
        .commit("main")
        .file("many/1", "11111")
        .file("many/2", "22222")
        .file("many/3", "33333")
        .file("deep/a/b/c/d/e/f", "x")
        .symlink("bomb/1", "../many")
        .symlink("bomb/2", "../many")
        .symlink("bomb/3", "../many")
        .push()
        .unwrap();
    let check = async |limits: Limits, folder: &str, expect: (&str, u64, u64)| {
        let (_home, repo) = limited(&git, limits).await;
        let error = pack(&repo, &commit, folder).unwrap_err();
        let Error::Limit { file, actual, limit, .. } = &error else { panic!("{error:?}") };
        assert_eq!((file.as_str(), *actual, *limit), expect, "{error}");
    };
    check(Limits { file_bytes: 4, ..Limits::default() }, "many", ("many/1", 5, 4)).await;
    check(Limits { total_bytes: 12, ..Limits::default() }, "many", ("many/3", 15, 12)).await;
    check(Limits { entries: 2, ..Limits::default() }, "many", ("many", 3, 2)).await;
    check(Limits { entries: 5, ..Limits::default() }, "bomb", ("bomb", 6, 5)).await;
    check(Limits { depth: 4, ..Limits::default() }, "deep", ("deep/a/b/c/d", 5, 4)).await;
}

#[tokio::test]
async fn folders_that_are_read_together_share_the_limits() {
    let git = GitRemote::new().unwrap();
    let mut commit = git.commit("main");
    for folder in ["a", "b", "c"] {
        // The same content costs a repository nothing.
        commit = commit.file(&format!("{folder}/one"), "11111").file(&format!("{folder}/two"), "22222");
    }
    let commit = commit.push().unwrap();
    for (limits, expected) in [
        (Limits { total_bytes: 24, ..Limits::default() }, ("c/one", 25, 24)),
        (Limits { entries: 5, ..Limits::default() }, ("c/two", 6, 5)),
    ] {
        let (_home, repo) = limited(&git, limits).await;
        let mut files = std::collections::BTreeMap::new();
        let mut add = |folder: &str| {
            let closure = repo.closure(oid(&commit), &ServiceSource::new(folder).unwrap()).unwrap();
            repo.add_files(&closure, &mut files)
        };
        add("a").unwrap();
        add("b").unwrap();
        let error = add("c").unwrap_err();
        let Error::Limit { file, actual, limit, .. } = &error else { panic!("{error:?}") };
        assert_eq!((file.as_str(), *actual, *limit), expected, "{error}");
        assert_eq!(files.len(), 4);
    }
}
