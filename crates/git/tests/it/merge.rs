//! Merges that nobody sees.

use plural_git::{Merge, Oid, ServiceSource};
use plural_testkit::{GitRemote, GitServer};

use crate::support::{Home, in_place, oid, remote};

/// A remote whose branch `topic` begins at `main`, and the id where that is.
fn forked() -> (GitRemote, GitServer, String) {
    let git = GitRemote::new().unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let begin = git.push_files([("web/a.yaml", "a: 1\n"), ("api/b.yaml", "b: 1\n")]).unwrap();
    git.set_ref("refs/heads/topic", "main").unwrap();
    (git, server, begin)
}

#[tokio::test]
async fn both_sides_are_in_a_merge_and_no_reference_moves() {
    let (git, server, begin) = forked();
    let topic = git.commit("topic").file("web/a.yaml", "a: 2\n").push().unwrap();
    let remote = remote(&server.url(&git));
    let home = Home::new();
    let before = home.fetch(&remote).await.repository.references().unwrap();
    let merge = async |one: &str, two: &str| home.mirrors.merge(&remote, oid(one), oid(two)).await.unwrap();
    assert_eq!(merge(&begin, &topic).await, Merge::Second, "nothing moved on");
    assert_eq!(merge(&topic, &begin).await, merge(&topic, &begin).await);

    let main = git.commit("main").file("api/b.yaml", "b: 2\n").push().unwrap();
    home.fetch(&remote).await;
    let Merge::Made(made) = merge(&main, &topic).await else { panic!("not merged") };
    assert_eq!(merge(&main, &topic).await, Merge::Made(made), "the same again");
    let repository = home.mirrors.repository(&remote).await.unwrap();
    let read = |file: &str| String::from_utf8(repository.read(made, file, 100).unwrap().unwrap()).unwrap();
    assert_eq!((read("web/a.yaml"), read("api/b.yaml")), ("a: 2\n".to_owned(), "b: 2\n".to_owned()));
    assert_eq!(repository.commit(made).unwrap().parents, [oid(&main), oid(&topic)]);
    let source = ServiceSource::new("api").unwrap();
    let digest = |at| repository.closure(at, &source).unwrap().digest;
    assert_eq!(digest(made), digest(oid(&main)));
    assert_ne!(digest(made), digest(oid(&topic)));
    let names = |all: Vec<(String, Oid)>| all.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(repository.references().unwrap()), names(before));
}

#[tokio::test]
async fn what_cannot_be_merged_is_told() {
    let (git, server, _) = forked();
    let topic = git.commit("topic").file("web/a.yaml", "a: 2\n").push().unwrap();
    let main = git.commit("main").file("web/a.yaml", "a: 3\n").push().unwrap();
    let remote = remote(&server.url(&git));
    let home = Home::new();
    home.fetch(&remote).await;
    let merge = async |one: &str, two: &str| home.mirrors.merge(&remote, oid(one), oid(two)).await;
    assert_eq!(merge(&main, &topic).await.unwrap(), Merge::Conflicts(vec!["web/a.yaml".to_owned()]));
    assert!(merge(&main, &"1".repeat(40)).await.is_err());
}

#[tokio::test]
async fn nothing_is_written_where_a_repository_is_read_in_place() {
    let git = GitRemote::new().unwrap();
    let head = git.push_files([("a", "1")]).unwrap();
    let (home, _) = in_place(&git).await;
    let remote = remote(git.path().to_str().unwrap());
    let merged = home.mirrors.merge(&remote, oid(&head), oid(&head)).await.unwrap();
    assert_eq!(merged, Merge::Unknown);
}
