//! What repositories may take of the machine that mirrors them.

use plural_git::{Error, FileChange, LocalPaths, Mirrors, Remote};
use plural_testkit::{GitRemote, GitServer};

use crate::support::{Home, files_in, key, noise, oid, remote};

const MIB: u64 = 1 << 20;

fn quota_of(error: &Error) -> (&'static str, u64) {
    match error {
        Error::Quota { setting, limit_mib, .. } => (*setting, *limit_mib),
        other => panic!("{other:?}"),
    }
}

fn on_disk(home: &Home) -> u64 {
    files_in(home.folder.path()).iter().filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum()
}

#[tokio::test]
async fn a_mirror_that_would_be_too_large_is_refused_and_leaves_nothing() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a.yaml", b"a: 1\n".to_vec()), ("noise", noise(6 << 20))]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    for (url, local) in [(server.url(&git), LocalPaths::Read), (git.file_url(), LocalPaths::Mirrored)] {
        let home = Home::with(|options| {
            options.local = local;
            options.quota.mirror_bytes = 4 * MIB;
        });
        let error = home.mirrors.fetch(&remote(&url)).await.unwrap_err();
        assert_eq!(quota_of(&error), ("--git-mirror-mib", 4), "{error}");
        assert!(error.to_string().contains("larger than 4 MiB"), "{error}");
        assert!(!error.is_transient());
        assert!(on_disk(&home) < MIB, "{} bytes stay", on_disk(&home));
        // With more room the same mirror is filled.
        let roomy = home.again(|options| options.local = local);
        roomy.fetch(&remote(&url)).await.unwrap();
    }
}

#[tokio::test]
async fn a_mirror_that_grows_too_large_stays_as_it_was() {
    let git = GitRemote::new().unwrap();
    let first = git.push_files([("noise", noise(2 << 20))]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let home = Home::with(|options| options.quota.mirror_bytes = 3 * MIB);
    let remote = remote(&server.url(&git));
    home.fetch(&remote).await;
    let mut more = noise(4 << 20);
    more.reverse();
    git.push_files([("more", more)]).unwrap();
    let error = home.mirrors.fetch(&remote).await.unwrap_err();
    assert_eq!(quota_of(&error), ("--git-mirror-mib", 3), "{error}");
    let repository = home.mirrors.repository(&remote).await.unwrap();
    assert_eq!(crate::support::resolve(&repository, "main"), first);
    assert!(on_disk(&home) < 3 * MIB);
}

#[tokio::test]
async fn commits_that_are_made_here_count_one_after_the_other() {
    let git = GitRemote::new().unwrap();
    let base = git.push_files([("a", "1")]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let home = Home::with(|options| options.quota.mirror_bytes = 4 * MIB);
    let remote = remote(&server.url(&git));
    home.fetch(&remote).await;
    let mut refused = None;
    for number in 0..8 {
        let mut content = noise(1 << 20);
        content.rotate_left(number * 1000 + 1);
        let change = FileChange { path: "a".to_owned(), content: Some(content.into()), executable: false };
        if let Err(error) = home.mirrors.overlay(&remote, oid(&base), "m", &[change]).await {
            refused = Some(error);
            break;
        }
    }
    let error = refused.unwrap();
    assert_eq!(quota_of(&error).0, "--git-mirror-mib", "{error}");
    assert!(on_disk(&home) < 5 * MIB, "{} bytes", on_disk(&home));
    // Branches keep their room.
    git.push_files([("b", "2")]).unwrap();
    home.fetch(&remote).await;
}

#[tokio::test]
async fn all_mirrors_together_have_a_limit_too() {
    let remotes: Vec<(GitRemote, GitServer)> = (0..3)
        .map(|number| {
            let git = GitRemote::new().unwrap();
            let mut content = noise(2 << 20);
            content.rotate_left(number * 1000 + 1);
            git.push_files([("noise", content)]).unwrap();
            let server = GitServer::start(git.root()).unwrap();
            (git, server)
        })
        .collect();
    let named = |number: usize| {
        let (git, server) = &remotes[number];
        Remote::new(key(&format!("r{number}")), &server.url(git)).unwrap()
    };
    let home = Home::with(|options| options.quota.mirrors_bytes = 5 * MIB);
    home.fetch(&named(0)).await;
    home.fetch(&named(1)).await;
    let refused = |error: Error| assert_eq!(quota_of(&error), ("--git-mirrors-mib", 5), "{error}");
    refused(home.mirrors.fetch(&named(2)).await.unwrap_err());
    // A start finds what is there.
    let again: Mirrors = home.again(|options| options.quota.mirrors_bytes = 5 * MIB);
    refused(again.fetch(&named(2)).await.unwrap_err());
    // Those that are there go on; one that goes makes room.
    again.fetch(&named(1)).await.unwrap();
    assert!(again.remove(&named(0).key).await.unwrap());
    again.fetch(&named(2)).await.unwrap();
}

#[tokio::test]
async fn git_has_a_limit_of_memory() {
    let git = GitRemote::new().unwrap();
    // It packs to nothing, and has to be unpacked whole.
    git.push_files([("zeros", vec![0_u8; 60 << 20])]).unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let home = Home::with(|options| options.quota.process_bytes = 48 * MIB);
    let error = home.mirrors.fetch(&remote(&server.url(&git))).await.unwrap_err();
    assert_eq!(quota_of(&error), ("--git-memory-mib", 48), "{error}");
    home.again(|_| {}).fetch(&remote(&server.url(&git))).await.unwrap();
}

#[tokio::test]
async fn objects_that_no_git_would_write_are_refused() {
    let git = GitRemote::new().unwrap();
    let submodule = "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=id\n";
    git.commit("main").file(".gitmodules", submodule).push().unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let remote = remote(&server.url(&git));
    let home = Home::new();
    let error = home.mirrors.fetch(&remote).await.unwrap_err().to_string();
    assert!(error.contains("gitmodulesUrl"), "{error}");
    home.again(|options| options.fsck = false).fetch(&remote).await.unwrap();
}
