//! Reviews of others, and what is read of a tree.

use plural_scm::{Cause, CommitId, EntryKind, Onto, Verdict};

use crate::{
    each_host,
    support::{World, branch, commit, to_main, write},
};

each_host!(
    reviews_of_others_are_read_with_their_verdicts,
    somebody_else_approves_a_head,
    a_tree_is_read_over_pages,
    a_dismissed_review_counts_no_more,
    an_executable_file_stays_one,
);

async fn reviews_of_others_are_read_with_their_verdicts(world: World) {
    let pull = world.pull_request("reviewed").await;
    for verdict in [Verdict::Commented, Verdict::ChangesRequested, Verdict::Approved] {
        world.server.review_by_another(pull.number, verdict);
        let reviews = world.host.reviews(&world.repository, pull.number).await.unwrap();
        assert!(!reviews.cut);
        // Some hosts keep each word of a reviewer, some the last one; some do not tell the commit.
        let last = reviews.items.last().unwrap();
        assert_eq!((last.reviewer.as_str(), last.verdict), ("mallory", verdict));
        assert!(last.commit.as_deref().is_none_or(|commit| commit == pull.head_commit), "{last:?}");
    }
}

async fn somebody_else_approves_a_head(world: World) {
    let pull = world.pull_request("approved").await;
    let head = CommitId::parse(&pull.head_commit).unwrap();
    world.other.approve(&world.repository, pull.number, &head, "fine").await.unwrap();
    let reviews = world.host.reviews(&world.repository, pull.number).await.unwrap().items;
    assert_eq!(reviews.len(), 1);
    assert_eq!((reviews[0].reviewer.as_str(), reviews[0].verdict), ("mallory", Verdict::Approved));
    assert!(reviews[0].commit.as_deref().is_none_or(|commit| commit == head.as_str()), "{reviews:?}");
    let error = world.host.approve(&world.repository, 99, &head, "").await.unwrap_err();
    assert_eq!(error.cause, Cause::NotFound, "{error}");
}

async fn a_dismissed_review_counts_no_more(world: World) {
    let pull = world.pull_request("dismissed").await;
    world.server.review_by_another(pull.number, Verdict::Approved);
    world.server.dismiss_reviews(pull.number);
    let reviews = world.host.reviews(&world.repository, pull.number).await.unwrap().items;
    let counts = |verdict| matches!(verdict, Verdict::Approved | Verdict::ChangesRequested);
    assert!(reviews.iter().all(|review| !counts(review.verdict)), "{reviews:?}");
}

async fn a_tree_is_read_over_pages(world: World) {
    world.server.set_page(3);
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let new = world.on_new_branch("many", names.map(|name| write(name, "x")).to_vec()).await;
    let done = world.host.commit(&world.repository, &new).await.unwrap();
    let tree = world.host.tree(&world.repository, &done.commit).await.unwrap();
    assert!(!tree.cut);
    let mut paths: Vec<&str> = tree.items.iter().map(|entry| entry.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, ["README.md", "a", "apps/web/values.yaml", "b", "c", "d", "e", "f", "g"]);
}

async fn an_executable_file_stays_one(world: World) {
    world.server.push_executable("main", "run.sh", "echo 1\n");
    let new = world.on_new_branch("run", vec![write("run.sh", "echo 2\n"), write("plain", "x")]).await;
    let done = world.host.commit(&world.repository, &new).await.unwrap();
    let onto = Onto::Branch(branch("run"));
    let more = commit(onto, done.commit, vec![write("run.sh", "echo 3\n")]);
    let done = world.host.commit(&world.repository, &more).await.unwrap();
    let tree = world.host.tree(&world.repository, &done.commit).await.unwrap();
    let executable: Vec<&str> = tree
        .items
        .iter()
        .filter(|entry| entry.kind == EntryKind::Executable)
        .map(|entry| entry.path.as_str())
        .collect();
    assert_eq!(executable, ["run.sh"]);
    assert_eq!(world.text(&done.commit, "run.sh").await, "echo 3\n");
    world.host.open(&world.repository, &to_main("run")).await.unwrap();
}
