//! Mirrors that are made from another's.

use std::time::Duration;

use plural_git::Error;
use plural_testkit::{GitRemote, GitServer, git_server::Mood};

use crate::support::{Home, key, remote, resolve};

const LARGE: u64 = 1 << 30;

/// A file that does not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    (0..bytes).map(|_| next()).collect()
}

#[tokio::test]
async fn a_mirror_is_made_from_anothers_and_fetches_only_what_is_new() {
    let git = GitRemote::new().unwrap();
    git.push_files([("large", noise(1 << 20))]).unwrap();
    git.set_ref("refs/tags/v1.0.0", "main").unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let remote = remote(&server.url(&git));
    let (one, other) = (Home::new(), Home::new());
    assert!(!one.mirrors.has(&remote));
    let absent = one.mirrors.bundle(&remote, None, LARGE).await.unwrap_err();
    assert!(matches!(absent, Error::NotFetched { .. }), "{absent}");
    one.fetch(&remote).await;
    assert!(one.mirrors.has(&remote));
    let whole = server.sent();
    assert!(whole > 1 << 20, "{whole}");

    let bundle = one.mirrors.bundle(&remote, None, LARGE).await.unwrap().unwrap();
    assert!(bundle.bytes > 1 << 20, "{bundle:?}");
    // The same branches and tags are not packed again, nor what is too large.
    assert!(one.mirrors.bundle(&remote, Some(&bundle.references), LARGE).await.unwrap().is_none());
    assert!(one.mirrors.bundle(&remote, None, 1 << 10).await.unwrap().is_none());

    let newest = git.push_files([("small", "2")]).unwrap();
    other.mirrors.restore(&remote, bundle.path()).await.unwrap();
    assert_eq!(server.sent(), whole, "nobody was asked");
    let repository = other.mirrors.repository(&remote).await.unwrap();
    assert_ne!(resolve(&repository, "main"), newest);
    let fetched = other.fetch(&remote).await.repository;
    assert_eq!(resolve(&fetched, "main"), newest);
    assert_eq!(resolve(&fetched, "v1.0.0"), git.resolve("main~1").unwrap());
    let later = server.sent() - whole;
    assert!(later < 1 << 17, "{later} bytes were fetched of what was there");

    // Where there is a mirror, it stays as it is.
    other.mirrors.restore(&remote, bundle.path()).await.unwrap();
    assert_eq!(resolve(&other.mirrors.repository(&remote).await.unwrap(), "main"), newest);
    let path = bundle.path().to_path_buf();
    drop(bundle);
    assert!(!path.exists());
}

#[tokio::test]
async fn after_a_first_fetch_that_failed_there_is_no_mirror_and_another_begins_it() {
    let git = GitRemote::new().unwrap();
    let newest = git.push_files([("a", noise(1 << 16))]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let remote = remote(&server.url(&git));
    let one = Home::new();
    one.fetch(&remote).await;
    let bundle = one.mirrors.bundle(&remote, None, LARGE).await.unwrap().unwrap();

    // The first fetch has its own limit, and so has the one after it when nothing came of it.
    let short = Duration::from_millis(300);
    let other = Home::with(|options| options.clone_timeout = short);
    server.set_mood(Mood::Hanging);
    for _ in 0..2 {
        let error = other.mirrors.fetch(&remote).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        assert!(!other.mirrors.has(&remote));
    }
    let other = other.again(|_| {});
    other.restore(&remote, bundle.path()).await.unwrap();
    assert_eq!(resolve(&other.repository(&remote).await.unwrap(), "main"), newest);
}

#[tokio::test]
async fn a_bundle_that_is_damaged_leaves_no_mirror_behind() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", noise(1 << 16))]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let remote = remote(&server.url(&git));
    let (one, other) = (Home::new(), Home::new());
    one.fetch(&remote).await;
    let bundle = one.mirrors.bundle(&remote, None, LARGE).await.unwrap().unwrap();
    let mut bytes = std::fs::read(bundle.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = other.folder.path().join("damaged");
    std::fs::write(&damaged, bytes).unwrap();
    other.mirrors.restore(&remote, &damaged).await.unwrap_err();
    assert!(!other.mirrors.has(&remote));
    other.fetch(&remote).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_packed_needs_no_remote() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let remote = remote(&server.url(&git));
    let home = Home::new();
    home.fetch(&remote).await;
    server.set_mood(Mood::Hanging);
    assert!(home.mirrors.bundle(&remote, None, LARGE).await.unwrap().is_some());
}

#[tokio::test]
async fn a_mirror_that_nobody_asks_for_any_more_goes() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let home = Home::new();
    let named = |name: &str| plural_git::Remote::new(key(name), &server.url(&git)).unwrap();
    home.fetch(&named("one")).await;
    home.fetch(&named("two")).await;
    // Another start knows nothing of when they were asked for: that counts from the start.
    let again = home.again(|_| {});
    let mut seen = Vec::new();
    let seen_mut = parking_lot::Mutex::new(&mut seen);
    let removed = again
        .retain(|key, unused| {
            seen_mut.lock().push((key.to_string(), unused));
            key.as_str() == "two"
        })
        .await
        .unwrap();
    assert_eq!(removed, 1);
    seen.sort();
    assert_eq!(seen.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["one", "two"]);
    assert!(!again.has(&named("one")) && again.has(&named("two")));
}
