//! Commits without a clone.

use plural_scm::{Cause, Change, EntryKind, Onto};

use crate::{
    each_host,
    support::{World, branch, commit, delete, file, write},
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
    let change = Change::Write { path: file("icon.bin"), content: content.clone().into() };
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
    world.host.commit(&world.repository, &new).await.unwrap();
    for _ in 0..2 {
        world.host.delete_branch(&world.repository, &branch("short/lived")).await.unwrap();
    }
    let error = world.host.head(&world.repository, &branch("short/lived")).await.unwrap_err();
    assert_eq!(error.cause, Cause::NotFound);
}
