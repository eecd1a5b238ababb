//! Commits that are made in a mirror and go nowhere.

use bytes::Bytes;
use plural_git::{Error, FileChange, ServiceSource};
use plural_testkit::{GitRemote, GitServer};

use crate::support::{Home, oid, remote, resolve};

fn change(path: &str, content: Option<&str>) -> FileChange {
    let content = content.map(|text| Bytes::from(text.to_owned()));
    FileChange { path: path.to_owned(), content, executable: false }
}

#[tokio::test]
async fn a_change_is_read_as_a_commit_and_nothing_leads_to_it() {
    let git = GitRemote::new().unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let remote = remote(&server.url(&git));
    let base = git.push_files([("web/a", "1"), ("web/b", "1"), ("db/c", "1")]).unwrap();
    let home = Home::new();
    let before = home.fetch(&remote).await.repository;
    let references = before.references().unwrap();
    let changes = [change("web/a", Some("2")), change("web/b", None), change("web/new/d \"e\"", Some("3"))];
    let made = home.mirrors.overlay(&remote, oid(&base), "Change it\n", &changes).await.unwrap();
    assert_eq!((made.summary.as_str(), made.parents.as_slice()), ("Change it", &[oid(&base)][..]));

    let repository = home.mirrors.repository(&remote).await.unwrap();
    let read = |path: &str| repository.read(made.id, path, 100).unwrap();
    assert_eq!(read("web/a"), Some(b"2".to_vec()));
    assert_eq!(read("web/b"), None);
    assert_eq!(read("web/new/d \"e\""), Some(b"3".to_vec()));
    assert_eq!(read("db/c"), Some(b"1".to_vec()));
    let digest = |commit, folder: &str| {
        repository.closure(commit, &ServiceSource::new(folder).unwrap()).unwrap().digest
    };
    assert_ne!(digest(made.id, "web"), digest(oid(&base), "web"));
    assert_eq!(digest(made.id, "db"), digest(oid(&base), "db"));
    // The branch is where it was, in the mirror and at the remote.
    assert_eq!(repository.references().unwrap(), references);
    assert_eq!((resolve(&repository, "main"), git.resolve("main").unwrap()), (base.clone(), base.clone()));

    // Another replica makes the same commit of it.
    let other = Home::new();
    other.fetch(&remote).await;
    let again = other.mirrors.overlay(&remote, oid(&base), "Change it\n", &changes).await.unwrap();
    assert_eq!(again.id, made.id);
}

#[tokio::test]
async fn what_cannot_be_changed_is_told() {
    let git = GitRemote::new().unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let served = remote(&server.url(&git));
    let base = git.push_files([("a", "1")]).unwrap();
    let home = Home::new();
    let changes = [change("a", Some("2"))];
    let early = home.mirrors.overlay(&served, oid(&base), "m", &changes).await.unwrap_err();
    assert!(matches!(early, Error::NotFetched { .. }), "{early}");
    home.fetch(&served).await;
    let gone = oid(&"0".repeat(40));
    let missing = home.mirrors.overlay(&served, gone, "m", &changes).await.unwrap_err();
    assert!(matches!(missing, Error::CommitMissing { .. }), "{missing}");
    let odd = [change("a\nb", Some("2"))];
    let odd = home.mirrors.overlay(&served, oid(&base), "m", &odd).await.unwrap_err();
    assert!(matches!(odd, Error::BadInput { .. }), "{odd}");
    // What is read in place is not written to.
    let here = remote(git.path().to_str().unwrap());
    let other = Home::new();
    other.fetch(&here).await;
    let refused = other.mirrors.overlay(&here, oid(&base), "m", &changes).await.unwrap_err();
    assert!(refused.to_string().contains("read in place"), "{refused}");
}
