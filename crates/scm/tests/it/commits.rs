//! Commits without a clone.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use chrono::DateTime;
use plural_scm::{Cause, Change, CommitId, Connection, EntryKind, Onto, Repository, connect};
use plural_testkit::{ScmDialect, ScmServer};
use serde_json::Value;

use crate::{
    each_host, on_plain_git,
    support::{World, branch, commit, connection, delete, file, options, write, write_as},
};

each_host!(
    a_commit_makes_changes_and_removes_files_at_once,
    bytes_that_are_no_text_stay_as_they_are,
    a_branch_that_is_there_is_a_conflict,
    a_base_that_moved_is_told_and_leaves_no_branch,
    a_file_to_delete_that_is_not_there_is_a_conflict,
    what_no_host_can_mean_is_refused,
    a_branch_is_removed_once_or_twice,
    a_race_between_look_and_commit_loses_nothing,
    a_file_is_made_executable_and_plain_again,
);

on_plain_git!(
    a_commit_makes_changes_and_removes_files_at_once,
    bytes_that_are_no_text_stay_as_they_are,
    a_branch_that_is_there_is_a_conflict,
    a_base_that_moved_is_told_and_leaves_no_branch,
    a_file_to_delete_that_is_not_there_is_a_conflict,
    what_no_host_can_mean_is_refused,
    a_branch_is_removed_once_or_twice,
    a_race_between_look_and_commit_loses_nothing,
    a_file_is_made_executable_and_plain_again,
);

async fn a_commit_makes_changes_and_removes_files_at_once(world: World) {
    let before = world.head("main").await;
    let changes = vec![
        write("apps/web/values.yaml", "replicas: 2\n"),
        write("apps/a b/ü%20.yaml", "odd: true\n"),
        delete("README.md"),
    ];
    let new = world.on_new_branch("plural/update-1", changes).await;
    let done = world.host.commit(&world.repository, &new).await.unwrap();
    // Not every host is asked for it.
    match world.host.commit_told(&world.repository, &done.commit).await {
        Ok(told) => {
            assert_eq!((told.parents, told.message.trim()), (vec![before.clone()], new.message.as_str()));
        }
        Err(error) => assert_eq!(error.cause, Cause::Unsupported, "{error}"),
    }
    assert_eq!(done.parent, before);
    assert_eq!(world.head("plural/update-1").await, done.commit);
    assert_eq!(world.head("main").await, before);
    let tree = world.host.tree(&world.repository, &done.commit).await.unwrap();
    assert!(!tree.cut);
    let paths: Vec<&str> = tree.items.iter().map(|entry| entry.path.as_str()).collect();
    assert_eq!(paths, ["apps/a b/ü%20.yaml", "apps/web/values.yaml"]);
    assert!(tree.items.iter().all(|entry| entry.kind == EntryKind::File));
    assert_eq!(world.text(&done.commit, "apps/web/values.yaml").await, "replicas: 2\n");
    assert_eq!(world.text(&done.commit, "apps/a b/ü%20.yaml").await, "odd: true\n");
    assert_eq!(world.text(&before, "apps/web/values.yaml").await, "replicas: 1\n");

    let onto = Onto::Branch(branch("plural/update-1"));
    let more = commit(onto, done.commit.clone(), vec![write("apps/web/values.yaml", "replicas: 3\n")]);
    let second = world.host.commit(&world.repository, &more).await.unwrap();
    assert_eq!(second.parent, done.commit);
    assert_eq!(world.text(&second.commit, "apps/web/values.yaml").await, "replicas: 3\n");
}

async fn bytes_that_are_no_text_stay_as_they_are(world: World) {
    let content = vec![0, 159, 146, 150, 255];
    let change = Change::Write { path: file("icon.bin"), content: content.clone().into(), executable: None };
    let new = world.on_new_branch("icons", vec![change]).await;
    let done = world.host.commit(&world.repository, &new).await.unwrap();
    let read = world.host.read(&world.repository, &done.commit, &file("icon.bin")).await.unwrap();
    assert_eq!(read.to_vec(), content);
}

async fn a_branch_that_is_there_is_a_conflict(world: World) {
    let new = world.on_new_branch("taken", vec![write("a.yaml", "a: 1\n")]).await;
    let first = world.host.commit(&world.repository, &new).await.unwrap();
    let error = world.host.commit(&world.repository, &new).await.unwrap_err();
    assert_eq!(error.cause, Cause::Conflict, "{error}");
    assert_eq!(world.head("taken").await, first.commit);
}

async fn a_base_that_moved_is_told_and_leaves_no_branch(world: World) {
    let new = world.on_new_branch("late", vec![write("a.yaml", "a: 1\n")]).await;
    world.server.push("main", "other.yaml", "b: 2\n");
    let error = world.host.commit(&world.repository, &new).await.unwrap_err();
    assert_eq!(error.cause, Cause::Moved, "{error}");
    let error = world.host.head(&world.repository, &branch("late")).await.unwrap_err();
    assert_eq!(error.cause, Cause::NotFound, "{error}");
}

/// GitHub binds the commit to its parent; Gitea's is found on top of another and goes again.
async fn a_race_between_look_and_commit_loses_nothing(world: World) {
    let new = world.on_new_branch("raced", vec![write("a.yaml", "a: 1\n")]).await;
    world.server.race("main");
    match world.host.commit(&world.repository, &new).await {
        Ok(done) => assert_eq!(done.parent, new.parent),
        Err(error) => {
            assert_eq!(error.cause, Cause::Moved, "{error}");
            let error = world.host.head(&world.repository, &branch("raced")).await.unwrap_err();
            assert_eq!(error.cause, Cause::NotFound, "{error}");
        }
    }
    // On a branch that is there, somebody else's file stays whatever happens.
    let main = world.head("main").await;
    assert_eq!(world.text(&main, "raced.txt").await, "somebody was faster\n");
    world.server.race("main");
    let onto = Onto::Branch(branch("main"));
    let change = vec![write("raced.txt", "mine\n"), write("b.yaml", "b: 1\n")];
    let outcome = world.host.commit(&world.repository, &commit(onto, main, change)).await;
    let now = world.head("main").await;
    match outcome {
        Ok(done) => assert_eq!(done.commit, now),
        Err(error) => {
            assert_eq!(error.cause, Cause::Moved, "{error}");
            assert_eq!(world.text(&now, "raced.txt").await, "somebody was faster\n");
        }
    }
}

/// What OpenSSH's own program says of a signature over what git would write.
#[tokio::test]
async fn a_commit_is_signed_as_git_writes_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str], input: &str| {
        let mut child = Command::new("ssh-keygen")
            .args(arguments)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait().unwrap().success()
    };
    assert!(run(&["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "key"], ""));
    let key = std::fs::read_to_string(folder.path().join("key")).unwrap();
    let server = ScmServer::start(ScmDialect::GitHub).unwrap();
    let unsigned = connection(ScmDialect::GitHub, server.api_url(), server.token());
    let signing = Connection { signing_key: Some(key.into()), ..unsigned };
    let host = connect(&signing, &options()).unwrap();
    let repository = Repository::parse("plural/fleet").unwrap();
    let parent = host.head(&repository, &branch("main")).await.unwrap();
    let onto = Onto::NewBranch { branch: branch("signed"), base: branch("main") };
    let new = commit(onto, parent.clone(), vec![write("a.yaml", "a: 1\n")]);
    host.commit(&repository, &new).await.unwrap();
    let asked = server.signed_commits().remove(0);
    let text = |at: &str| asked.pointer(at).and_then(Value::as_str).unwrap().to_owned();
    let line = |who: &str| {
        let date = DateTime::parse_from_rfc3339(&text(&format!("/{who}/date"))).unwrap().timestamp();
        format!("{who} {} <{}> {date} +0000", text(&format!("/{who}/name")), text(&format!("/{who}/email")))
    };
    assert!(line("author").starts_with("author Ada <ada@example.com> "), "{asked}");
    assert!(line("committer").contains("@example.com> "), "{asked}");
    let (author, committer) = (line("author"), line("committer"));
    let payload =
        format!("tree {}\nparent {parent}\n{author}\n{committer}\n\n{}", text("/tree"), text("/message"));
    std::fs::write(folder.path().join("sig"), text("/signature") + "\n").unwrap();
    let check = ["-Y", "check-novalidate", "-n", "git", "-s", "sig"];
    assert!(run(&check, &payload), "{asked}");
    assert!(!run(&check, &payload.replace("parent", "Parent")), "of another commit it is none");
    // Other hosts' APIs take no signed commits, and none is made unsigned.
    let gitea = connection(ScmDialect::Gitea, server.api_url(), server.token());
    let gitea = Connection { signing_key: signing.signing_key.clone(), ..gitea };
    assert_eq!(connect(&gitea, &options()).unwrap_err().cause, Cause::Invalid);
}

async fn a_file_is_made_executable_and_plain_again(world: World) {
    let new = world.on_new_branch("runs", vec![write_as("run.sh", "echo 1\n", true)]).await;
    let done = world.host.commit(&world.repository, &new).await;
    if matches!(world.server.dialect(), ScmDialect::Gitea | ScmDialect::AzureDevOps) {
        let error = done.unwrap_err();
        assert_eq!(error.cause, Cause::Unsupported, "{error}");
        assert!(error.message.contains("run.sh"), "{error}");
        return;
    }
    let kind = async |commit: &CommitId| {
        let tree = world.host.tree(&world.repository, commit).await.unwrap().items;
        tree.into_iter().find(|entry| entry.path == "run.sh").unwrap().kind
    };
    let done = done.unwrap();
    assert_eq!(kind(&done.commit).await, EntryKind::Executable);
    let onto = Onto::Branch(branch("runs"));
    let plain = commit(onto, done.commit.clone(), vec![write_as("run.sh", "echo 2\n", false)]);
    let done = world.host.commit(&world.repository, &plain).await.unwrap();
    assert_eq!(kind(&done.commit).await, EntryKind::File);
    assert_eq!(world.text(&done.commit, "run.sh").await, "echo 2\n");
}

async fn a_file_to_delete_that_is_not_there_is_a_conflict(world: World) {
    let new = world.on_new_branch("gone", vec![write("a.yaml", "a: 1\n"), delete("missing.yaml")]).await;
    let error = world.host.commit(&world.repository, &new).await.unwrap_err();
    assert_eq!(error.cause, Cause::Conflict, "{error}");
    assert!(error.message.contains("missing.yaml"), "{error}");
    let error = world.host.head(&world.repository, &branch("gone")).await.unwrap_err();
    assert_eq!(error.cause, Cause::NotFound);
}

async fn what_no_host_can_mean_is_refused(world: World) {
    for changes in [vec![], vec![write("a", "1"), delete("a")]] {
        let new = world.on_new_branch("bad", changes).await;
        let error = world.host.commit(&world.repository, &new).await.unwrap_err();
        assert_eq!(error.cause, Cause::Invalid, "{error}");
    }
    let head = world.head("main").await;
    let error = world.host.read(&world.repository, &head, &file("none.yaml")).await.unwrap_err();
    assert_eq!(error.cause, Cause::NotFound, "{error}");
    assert_eq!(world.host.default_branch(&world.repository).await.unwrap(), branch("main"));
}

async fn a_branch_is_removed_once_or_twice(world: World) {
    let new = world.on_new_branch("short/lived", vec![write("a.yaml", "a: 1\n")]).await;
    let first = world.host.commit(&world.repository, &new).await.unwrap().commit;
    let onto = Onto::Branch(branch("short/lived"));
    let more = commit(onto, first.clone(), vec![write("b.yaml", "b: 1\n")]);
    let second = world.host.commit(&world.repository, &more).await.unwrap().commit;
    // Somebody went on with it.
    let error =
        world.host.delete_branch(&world.repository, &branch("short/lived"), &first).await.unwrap_err();
    assert_eq!(error.cause, Cause::Moved, "{error}");
    assert_eq!(world.head("short/lived").await, second);
    for _ in 0..2 {
        world.host.delete_branch(&world.repository, &branch("short/lived"), &second).await.unwrap();
    }
    let error = world.host.head(&world.repository, &branch("short/lived")).await.unwrap_err();
    assert_eq!(error.cause, Cause::NotFound);
}
