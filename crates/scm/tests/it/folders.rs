//! A part of a tree, and how little is asked for it.

use plural_scm::{Cause, CommitId, EntryKind, Look, TreeEntry};
use plural_testkit::{ScmDialect, ScmMood};

use crate::{
    each_host, on_plain_git,
    support::{Server, World, delete, file, write},
};

each_host!(
    a_part_of_a_tree_has_what_is_looked_into,
    a_commit_is_as_it_was_when_its_branch_has_moved;
    stand_ins: what_one_connection_read_is_no_answer_for_another,
);

on_plain_git!(a_part_of_a_tree_has_what_is_looked_into, a_commit_is_as_it_was_when_its_branch_has_moved,);

/// What an automation looks at that names these files.
fn look(folder: &str) -> Look {
    match folder {
        "" | "apps" => Look::Folder,
        "apps/shop" | "none" => Look::All,
        _ => Look::Not,
    }
}

async fn looked(world: &World, commit: &CommitId, look: fn(&str) -> Look) -> Vec<TreeEntry> {
    let tree = world.host.tree_within(&world.repository, commit, &look).await.unwrap();
    assert!(!tree.cut);
    tree.items
}

fn paths(tree: &[TreeEntry]) -> Vec<&str> {
    tree.iter().map(|entry| entry.path.as_str()).collect()
}

async fn a_part_of_a_tree_has_what_is_looked_into(world: World) {
    world.server.push("main", "apps/shop/a.yaml", "a: 1\n");
    world.server.push("main", "apps/shop/deep/b.yaml", "b: 1\n");
    world.server.push("main", "logs/deep/x", "x\n");
    world.server.push_executable("main", "apps/shop/run.sh", "echo 1\n");
    let head = world.head("main").await;
    for _ in 0..2 {
        let tree = looked(&world, &head, look).await;
        let expected = ["README.md", "apps/shop/a.yaml", "apps/shop/deep/b.yaml", "apps/shop/run.sh"];
        assert_eq!(paths(&tree), expected);
        let runs = tree.iter().filter(|entry| entry.kind == EntryKind::Executable);
        let runs: Vec<&str> = runs.map(|entry| entry.path.as_str()).collect();
        assert_eq!(runs, ["apps/shop/run.sh"]);
    }
    let all = looked(&world, &head, |_| Look::All).await;
    assert_eq!(all.len(), 6, "{all:?}");
}

async fn a_commit_is_as_it_was_when_its_branch_has_moved(world: World) {
    let before = world.head("main").await;
    assert_eq!(world.text(&before, "apps/web/values.yaml").await, "replicas: 1\n");
    let old = looked(&world, &before, |_| Look::All).await;
    world.server.push("main", "apps/web/values.yaml", "replicas: 7\n");
    world.server.push("main", "apps/web/more.yaml", "a: 1\n");
    let after = world.head("main").await;
    let new = looked(&world, &after, |_| Look::All).await;
    assert_eq!(paths(&old), ["README.md", "apps/web/values.yaml"]);
    assert_eq!(paths(&new), ["README.md", "apps/web/more.yaml", "apps/web/values.yaml"]);
    assert_eq!(world.text(&after, "apps/web/values.yaml").await, "replicas: 7\n");
    assert_eq!(world.text(&before, "apps/web/values.yaml").await, "replicas: 1\n");
}

async fn what_one_connection_read_is_no_answer_for_another(world: World) {
    let head = world.head("main").await;
    looked(&world, &head, look).await;
    assert_eq!(world.text(&head, "README.md").await, "# Fleet\n");
    world.server.set_mood(Some(ScmMood::Failing(403)));
    let path = file("README.md");
    let error = world.other.read(&world.repository, &head, &path).await.unwrap_err();
    assert_eq!(error.cause, Cause::Refused, "{error}");
}

fn stand_in(world: &World) -> &plural_testkit::ScmServer {
    match &world.server {
        Server::StandIn(server) => server,
        Server::Real(_) => panic!("this is for stand-ins"),
    }
}

/// Requests that this takes.
async fn requests(world: &World, work: impl Future<Output = ()>) -> usize {
    let before = stand_in(world).requests();
    work.await;
    stand_in(world).requests() - before
}

/// The head of a branch, the folders of three files, and the files.
async fn preview(world: &World) {
    let head = world.head("main").await;
    let look = |folder: &str| match folder {
        "" | "apps" | "templates" => Look::Folder,
        _ => Look::Not,
    };
    let tree = looked(world, &head, look).await;
    let expected = ["README.md", "apps/first.yaml", "index.yaml", "templates/app.yaml"];
    assert_eq!(paths(&tree), expected);
    for path in ["index.yaml", "templates/app.yaml", "apps/first.yaml"] {
        world.host.read(&world.repository, &head, &file(path)).await.unwrap();
    }
}

#[tokio::test]
async fn a_large_repository_takes_as_few_requests_as_a_small_one() {
    // At first, once more, after a push to a folder that is not looked into, and for a commit then.
    for (dialect, expected) in [
        (ScmDialect::GitHub, [7, 1, 2, 5]),
        (ScmDialect::Gitea, [7, 1, 2, 2]),
        (ScmDialect::GitLab, [7, 1, 2, 2]),
        (ScmDialect::AzureDevOps, [8, 1, 3, 3]),
        // It tells no ids of folders and files.
        (ScmDialect::BitbucketCloud, [7, 1, 7, 3]),
    ] {
        let world = World::new(dialect);
        // Files that hold the same are one, and read once.
        let text = |path: &str| (path.to_owned(), format!("name: {path}\n"));
        let other = (0..10_000).map(|number| text(&format!("other/{:03}/{number}.yaml", number / 100)));
        let named = ["index.yaml", "templates/app.yaml", "apps/first.yaml"].map(text);
        stand_in(&world).push_files("main", other.chain(named));
        let first = requests(&world, preview(&world)).await;
        let again = requests(&world, preview(&world)).await;
        world.server.push("main", "other/000/0.yaml", "name: two\n");
        let moved = requests(&world, preview(&world)).await;
        let new = world
            .on_new_branch("one", vec![write("apps/new.yaml", "a: 1\n"), write("index.yaml", "b: 1\n")])
            .await;
        let commit = requests(&world, async {
            let done = world.host.commit(&world.repository, &new).await.unwrap();
            assert_eq!(done.parent, new.parent);
        })
        .await;
        assert_eq!([first, again, moved, commit], expected, "{dialect:?}");
    }
}

#[tokio::test]
async fn a_tree_that_the_host_cuts_is_read_folder_by_folder() {
    let world = World::new(ScmDialect::GitHub);
    for path in ["a/b/c/one", "a/b/c/two", "a/b/three", "a/four", "five", "six/seven"] {
        world.server.push("main", path, path);
    }
    let head = world.head("main").await;
    stand_in(&world).cut_trees(2);
    assert!(world.host.tree(&world.repository, &head).await.unwrap().cut);
    let tree = looked(&world, &head, |_| Look::All).await;
    let all = [
        "README.md",
        "a/b/c/one",
        "a/b/c/two",
        "a/b/three",
        "a/four",
        "apps/web/values.yaml",
        "five",
        "six/seven",
    ];
    assert_eq!(paths(&tree), all);
    assert_eq!(world.text(&head, "a/b/c/two").await, "a/b/c/two");
}

#[tokio::test]
async fn a_commit_asks_nothing_of_folders_that_were_looked_into() {
    for (dialect, expected) in [
        (ScmDialect::GitHub, 5),
        (ScmDialect::Gitea, 2),
        (ScmDialect::GitLab, 2),
        (ScmDialect::AzureDevOps, 3),
        (ScmDialect::BitbucketCloud, 3),
    ] {
        let world = World::new(dialect);
        world.server.push("main", "apps/shop/deep/a.yaml", "a: 1\n");
        let changes = vec![write("apps/shop/deep/a.yaml", "a: 2\n"), write("apps/shop/new.yaml", "b: 1\n")];
        let new = world.on_new_branch("looked", changes).await;
        looked(&world, &new.parent, look).await;
        let took = requests(&world, async {
            let done = world.host.commit(&world.repository, &new).await.unwrap();
            assert_eq!(world.text(&done.commit, "apps/shop/deep/a.yaml").await, "a: 2\n");
        })
        .await;
        // And the file is read.
        assert_eq!(took, expected + 1, "{dialect:?}");
        // A folder is none of its files, and what is not there is not taken away.
        for bad in [write("apps/shop", "x"), delete("apps/shop/none.yaml")] {
            let new = world.on_new_branch("bad", vec![bad]).await;
            let error = world.host.commit(&world.repository, &new).await.unwrap_err();
            assert_eq!(error.cause, Cause::Conflict, "{dialect:?} {error}");
        }
    }
}
