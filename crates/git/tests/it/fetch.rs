//! Fetching from remotes on good and bad days.

use std::os::unix::fs::MetadataExt as _;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, Instant},
};

use plural_git::{Credentials, Error, LocalPaths, Mirrors, Remote, RemoteUrl};
use plural_testkit::{GitRemote, GitServer, OwnedFolder, SmallDisk, eventually, git_server::Mood};

use crate::support::{
    DEADLINE, Home, files_in, key, noise, oid, options, processes_in, remote, resolve, spec,
};

fn served() -> (GitRemote, GitServer, Remote) {
    let git = GitRemote::new().unwrap();
    let server = GitServer::start(git.root()).unwrap();
    let remote = remote(&server.url(&git));
    (git, server, remote)
}

#[tokio::test]
async fn a_mirror_follows_its_remote() {
    let (git, _server, remote) = served();
    let first = git.push_files([("a", "1")]).unwrap();
    git.annotate("v1.0.0", "main").unwrap();
    let home = Home::new();
    assert!(matches!(home.mirrors.repository(&remote).await, Err(Error::NotFetched { .. })));

    let fetched = home.fetch(&remote).await;
    assert!(fetched.changed);
    assert_eq!(resolve(&fetched.repository, "main"), first);
    assert_eq!(resolve(&fetched.repository, "HEAD"), first);
    assert_eq!(resolve(&fetched.repository, "^1"), first);
    assert!(!home.fetch(&remote).await.changed, "nothing moved");

    let second = git.push_files([("a", "2")]).unwrap();
    git.set_ref("refs/heads/dev", "main").unwrap();
    let fetched = home.fetch(&remote).await;
    assert!(fetched.changed);
    assert_eq!(resolve(&fetched.repository, "dev"), second);
    // What was opened before sees it too.
    let before = home.mirrors.repository(&remote).await.unwrap();
    git.delete_ref("refs/heads/dev").unwrap();
    assert!(home.fetch(&remote).await.changed);
    assert!(matches!(before.resolve(&spec("dev")), Err(Error::RefMissing { .. })));

    // Another start of the program finds the mirror as it was, without asking the remote.
    let again = home.again(|_| {});
    assert_eq!(resolve(&again.repository(&remote).await.unwrap(), "main"), second);
    assert_eq!(again.runs(), 0);
}

#[tokio::test]
async fn who_reads_does_not_hear_of_a_move_in_place_of_who_fetches() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let home = Home::new();
    let remote = remote(git.path().to_str().unwrap());
    assert!(home.fetch(&remote).await.changed);
    assert!(!home.fetch(&remote).await.changed);
    let second = git.push_files([("a", "2")]).unwrap();
    assert_eq!(resolve(&home.mirrors.repository(&remote).await.unwrap(), "main"), second);
    assert!(home.fetch(&remote).await.changed, "it moved since it was fetched");
}

#[tokio::test]
async fn a_forced_push_replaces_history() {
    let (git, _server, remote) = served();
    let old = git.push_files([("a", "old")]).unwrap();
    git.annotate("v1", "main").unwrap();
    let home = Home::new();
    home.fetch(&remote).await;

    let new = git.commit("main").from_nothing().file("b", "new").push().unwrap();
    git.git(["tag", "--force", "v1", "main"]).unwrap();
    git.git(["reflog", "expire", "--expire=now", "--all"]).unwrap();
    git.git(["gc", "--quiet", "--prune=now"]).unwrap();
    let repo = home.fetch(&remote).await.repository;
    assert_eq!(resolve(&repo, "main"), new);
    assert_eq!(resolve(&repo, "v1"), new, "tags move when they are forced");
    assert_eq!(repo.read(oid(&new), "b", 10).unwrap().unwrap(), b"new");
    assert_eq!(
        repo.commit(oid(&old)).unwrap().id,
        oid(&old),
        "what a revision may still name is kept for now"
    );
}

#[tokio::test]
async fn a_commit_without_a_branch_can_be_fetched_by_its_id() {
    let (git, _server, remote) = served();
    git.push_files([("a", "1")]).unwrap();
    let lost = git.commit("side").file("b", "2").push().unwrap();
    git.delete_ref("refs/heads/side").unwrap();
    let home = Home::new();
    let repo = home.fetch(&remote).await.repository;
    assert!(matches!(repo.resolve(&spec(&lost)), Err(Error::CommitMissing { .. })));
    let repo = home.mirrors.fetch_commit(&remote, oid(&lost)).await.unwrap().repository;
    assert_eq!(resolve(&repo, &lost), lost);
    // A usual fetch does not take it away again.
    let repo = home.fetch(&remote).await.repository;
    assert_eq!(resolve(&repo, &lost), lost);

    // Tidying forgets its name, and leaves it for whoever reads it at that moment; what branches lead to stays.
    let mirror = home.folder.path().join("mirrors/one/repo.git");
    let is_named = || {
        let packed = fs::read_to_string(mirror.join("packed-refs")).unwrap_or_default();
        packed.contains("refs/plural/commits/") || mirror.join("refs/plural/commits").join(&lost).exists()
    };
    assert!(is_named());
    home.mirrors.tidy(&remote).await.unwrap();
    assert!(!is_named());
    let repo = home.mirrors.repository(&remote).await.unwrap();
    assert_eq!((resolve(&repo, &lost), resolve(&repo, "HEAD")), (lost, git.resolve("main").unwrap()));
}

#[tokio::test]
async fn an_empty_repository_is_no_failure() {
    let (git, _server, remote) = served();
    let home = Home::new();
    let repo = home.fetch(&remote).await.repository;
    assert!(matches!(repo.resolve(&spec("HEAD")), Err(Error::RefMissing { .. })));
    assert!(
        matches!(repo.resolve(&spec("main")), Err(Error::RefMissing { why, .. }) if why.contains("no branches"))
    );
    let commit = git.push_files([("a", "1")]).unwrap();
    assert_eq!(resolve(&home.fetch(&remote).await.repository, "HEAD"), commit);
}

#[tokio::test]
async fn failures_have_names() {
    let (git, server, remote) = served();
    git.push_files([("a", "1")]).unwrap();
    let home = Home::with(|o| o.stall = Duration::from_secs(1));
    let fail = async |remote: &Remote| home.mirrors.fetch(remote).await.unwrap_err();

    server.require("robot", "right-password");
    let error = fail(&remote).await;
    assert!(matches!(error, Error::Auth { .. }), "no credentials: {error}");
    let wrong = remote.clone().with_credentials(Credentials::basic("robot", "wrong-password"));
    let error = fail(&wrong).await;
    assert!(matches!(error, Error::Auth { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("wrong-password"), "{error}");
    assert!(error.to_string().contains("check the credentials"), "{error}");
    let right = remote.clone().with_credentials(Credentials::basic("robot", "right-password"));
    home.fetch(&right).await;

    let nowhere = Remote::new(key("two"), &format!("http://{}/none.git", server.address())).unwrap();
    let nowhere = nowhere.with_credentials(Credentials::basic("robot", "right-password"));
    let error = fail(&nowhere).await;
    assert!(matches!(error, Error::NotFound { .. }), "{error}");

    server.set_mood(Mood::Failing(503));
    let error = fail(&right).await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    server.set_mood(Mood::Failing(403));
    let error = fail(&right).await;
    assert!(matches!(error, Error::Auth { .. }), "{error}");
    // What was fetched before is still there.
    let repo = home.mirrors.repository(&right).await.unwrap();
    assert!(repo.resolve(&spec("main")).is_ok());

    let url = server.url(&git);
    drop(server);
    let error = fail(&Remote::new(key("three"), &url).unwrap()).await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let error = fail(&Remote::new(key("four"), "http://no-such-host.invalid/x.git").unwrap()).await;
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");

    // git itself, told by its disk that there is no room.
    let full = home.folder.path().join("full-git");
    fs::write(&full, "#!/bin/sh\necho 'fatal: write error: No space left on device' >&2\nexit 128\n")
        .unwrap();
    fs::set_permissions(&full, fs::Permissions::from_mode(0o755)).unwrap();
    let error = home.again(|o| o.git = full).fetch(&right).await.unwrap_err();
    let mirror = home.folder.path().join("mirrors/one").display().to_string();
    assert!(matches!(&error, Error::DiskFull { path, .. } if *path == mirror), "{error}");

    let no_git = home.again(|o| o.git = "/nonexistent/git".into());
    let error = no_git.fetch(&right).await.unwrap_err();
    assert!(matches!(error, Error::NoProgram { .. }), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hung_remote_ends_in_time_and_delays_nobody_else() {
    let (git, hung, remote) = served();
    git.push_files([("a", "1")]).unwrap();
    hung.set_mood(Mood::Hanging);
    let well = GitServer::start(git.root()).unwrap();
    let other = Remote::new(key("other"), &well.url(&git)).unwrap();
    let home = Home::with(|o| o.stall = Duration::from_secs(2));

    let mirrors = home.mirrors.clone();
    let waiting = tokio::spawn(async move { mirrors.fetch(&remote).await });
    eventually(DEADLINE, || async { hung.requests() > 0 }).await;
    home.fetch(&other).await;
    assert!(!waiting.is_finished(), "the other was fetched while this one hangs");
    let error = waiting.await.unwrap().unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }), "{error}");
    assert!(error.to_string().contains(&hung.address().to_string()), "it says which host: {error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_fetch_has_a_limit_too_and_leaves_no_process() {
    let (git, server, remote) = served();
    git.push_files([("a", "1")]).unwrap();
    // Slow enough never to end, fast enough never to stall.
    server.set_mood(Mood::Slow(200));
    let home = Home::with(|o| {
        o.stall = Duration::from_mins(10);
        o.clone_timeout = Duration::from_millis(1500);
    });
    let started = Instant::now();
    let error = home.mirrors.fetch(&remote).await.unwrap_err();
    assert!(
        matches!(&error, Error::TimedOut { after, .. } if *after >= Duration::from_millis(1500)),
        "{error}"
    );
    assert!(started.elapsed() < DEADLINE);
    let folder = home.folder.path().to_path_buf();
    eventually(DEADLINE, || async { processes_in(&folder).is_empty() }).await;
    // And the next one, on a better day, goes through.
    server.set_mood(Mood::Well);
    home.again(|_| {}).fetch(&remote).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_fetch_kills_git() {
    let (git, server, remote) = served();
    git.push_files([("a", "1")]).unwrap();
    server.set_mood(Mood::Hanging);
    let home = Home::new();
    let folder = home.folder.path().to_path_buf();
    let mirrors = home.mirrors.clone();
    let there = remote.clone();
    let fetching = tokio::spawn(async move { mirrors.fetch(&there).await.map(drop) });
    eventually(DEADLINE, || async { server.requests() > 0 }).await;
    assert!(!processes_in(&folder).is_empty());
    fetching.abort();
    eventually(DEADLINE, || async { processes_in(&folder).is_empty() }).await;
    server.set_mood(Mood::Well);
    home.fetch(&remote).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fetches_that_are_asked_for_meanwhile_become_one() {
    let (git, server, remote) = served();
    git.push_files([("a", "1")]).unwrap();
    let home = Home::with(|o| o.stall = Duration::from_secs(2));
    server.set_mood(Mood::Hanging);
    let fetch = |home: &Home| {
        let (mirrors, remote) = (home.mirrors.clone(), remote.clone());
        tokio::spawn(async move { mirrors.fetch(&remote).await })
    };
    let first = fetch(&home);
    eventually(DEADLINE, || async { server.requests() > 0 }).await;
    let rest: Vec<_> = (0..50).map(|_| fetch(&home)).collect();
    // This push comes after the first fetch began: whoever asked meanwhile must see it.
    let pushed = git.push_files([("a", "2")]).unwrap();
    server.set_mood(Mood::Well);
    assert!(matches!(first.await.unwrap(), Err(Error::TimedOut { .. })));
    for one in rest {
        let fetched = one.await.unwrap().unwrap();
        assert_eq!(resolve(&fetched.repository, "main"), pushed);
    }
    assert_eq!(home.mirrors.runs(), 2, "one that hung, and one for the fifty");
}

#[tokio::test]
async fn a_disk_that_fills_up_fails_one_fetch_and_keeps_no_half_pack() {
    let Some(disk) = SmallDisk::new_or_say(4 << 20) else { return };
    let (git, _server, large) = served();
    let small = git.push_files([("a", "1")]).unwrap();
    let mirrors = Mirrors::open(options(disk.path(), |_| {})).unwrap();
    mirrors.fetch(&large).await.unwrap();
    git.push_files([("a", noise(6 << 20))]).unwrap();
    let error = mirrors.fetch(&large).await.unwrap_err();
    assert!(matches!(&error, Error::DiskFull { .. }), "{error}");
    assert!(error.is_transient() && error.to_string().contains("free some space"), "{error}");

    let left: u64 = files_in(disk.path()).iter().map(|f| fs::metadata(f).unwrap().len()).sum();
    assert!(left < 1 << 20, "the half-received pack is gone: {left} bytes are left");
    let repo = mirrors.repository(&large).await.unwrap();
    assert_eq!(resolve(&repo, "main"), small, "what was there before still is");
    let (other, _server, remote) = served();
    let commit = other.push_files([("b", "2")]).unwrap();
    let remote = Remote { key: key("two"), ..remote };
    assert_eq!(resolve(&mirrors.fetch(&remote).await.unwrap().repository, "main"), commit);
}

#[tokio::test]
async fn another_url_means_another_repository() {
    let home = Home::new();
    let (git, _server, one) = served();
    git.push_files([("secret", "of the first")]).unwrap();
    home.fetch(&one).await;
    let (git, _server, two) = served();
    let commit = git.push_files([("a", "1")]).unwrap();
    assert!(matches!(home.mirrors.repository(&two).await, Err(Error::NotFetched { .. })));
    let repo = home.fetch(&two).await.repository;
    assert_eq!(repo.references().unwrap().len(), 2, "main and HEAD of the second alone");
    assert_eq!(repo.list(oid(&commit), "").unwrap().len(), 1);
}

type Damage = fn(&std::path::Path);

#[tokio::test]
async fn a_damaged_mirror_is_made_anew() {
    let (git, _server, remote) = served();
    let first = git.push_files([("a", "1")]).unwrap();
    let damages: [(&str, Damage); 4] = [
        ("empty packs", |repo| {
            for file in files_in(&repo.join("objects/pack")) {
                fs::remove_file(&file).unwrap();
                fs::write(file, "").unwrap();
            }
        }),
        ("lost objects", |repo| fs::remove_dir_all(repo.join("objects/pack")).unwrap()),
        ("garbage in a reference", |repo| fs::write(repo.join("refs/heads/main"), "garbage\n").unwrap()),
        ("no HEAD", |repo| fs::remove_file(repo.join("HEAD")).unwrap()),
    ];
    for (what, damage) in damages {
        let home = Home::new();
        home.fetch(&remote).await;
        damage(&home.folder.path().join("mirrors/one/repo.git"));
        // A fresh start, so that nothing is known of the mirror but its files.
        let mirrors = home.again(|_| {});
        let repo = mirrors.fetch(&remote).await.unwrap_or_else(|e| panic!("{what}: {e}")).repository;
        assert_eq!(resolve(&repo, "main"), first, "{what}");
        assert_eq!(repo.read(oid(&first), "a", 10).unwrap().unwrap(), b"1", "{what}");
    }
}

#[tokio::test]
async fn talk_of_damage_by_the_other_side_does_not_cost_the_mirror() {
    let (git, _server, remote) = served();
    let first = git.push_files([("a", "1")]).unwrap();
    let home = Home::new();
    home.fetch(&remote).await;
    // A git whose remote is the damaged one: all but the local check fails.
    let liar = home.folder.path().join("git");
    let real = String::from_utf8(
        std::process::Command::new("sh").args(["-c", "command -v git"]).output().unwrap().stdout,
    );
    let script = format!(
        "#!/bin/sh\ncase $1 in fsck) exec {} \"$@\";; esac\necho 'fatal: loose object abc is corrupt' >&2\nexit 128\n",
        real.unwrap().trim()
    );
    fs::write(&liar, script).unwrap();
    fs::set_permissions(&liar, fs::Permissions::from_mode(0o755)).unwrap();
    let mirrors = home.again(|o| o.git = liar);
    let error = mirrors.fetch(&remote).await.unwrap_err();
    assert!(matches!(&error, Error::Git { detail, .. } if detail.contains("corrupt")), "{error}");
    assert_eq!(resolve(&mirrors.repository(&remote).await.unwrap(), "main"), first);
}

#[tokio::test]
async fn damage_that_a_reader_finds_is_mended_by_the_next_fetch() {
    let (git, _server, remote) = served();
    let first = git.push_files([("a", "1")]).unwrap();
    let second = git.push_files([("a", "2")]).unwrap();
    let home = Home::new();
    let repo = home.fetch(&remote).await.repository;
    let mirror = home.folder.path().join("mirrors/one/repo.git");
    // Explode the pack, then lose one blob: git's own fetch has no reason to look at it.
    let pack = files_in(&mirror.join("objects/pack"))
        .into_iter()
        .find(|f| f.extension().unwrap() == "pack")
        .unwrap();
    let moved = home.folder.path().join("moved.pack");
    for file in files_in(&mirror.join("objects/pack")) {
        if file == pack { fs::rename(&file, &moved).unwrap() } else { fs::remove_file(&file).unwrap() }
    }
    let unpack = std::process::Command::new("git")
        .args(["unpack-objects", "-q"])
        .env("GIT_DIR", &mirror)
        .stdin(fs::File::open(&moved).unwrap())
        .status()
        .unwrap();
    assert!(unpack.success());
    let blob = git.git(["rev-parse", "main:a"]).unwrap();
    fs::remove_file(mirror.join("objects").join(&blob[..2]).join(&blob[2..])).unwrap();

    let fresh = home.again(|_| {});
    let repo_now = fresh.repository(&remote).await.unwrap();
    let error = repo_now.read(oid(&second), "a", 10).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }) && error.is_transient(), "{error}");
    let mended = fresh.fetch(&remote).await.unwrap().repository;
    assert_eq!(mended.read(oid(&second), "a", 10).unwrap().unwrap(), b"2");
    assert_eq!(mended.read(oid(&first), "a", 10).unwrap().unwrap(), b"1");
    drop(repo);
}

#[tokio::test]
async fn mirrors_are_tidied_and_removed() {
    let (git, _server, remote) = served();
    let home = Home::new();
    for n in 0..5 {
        git.push_files([("a", n.to_string())]).unwrap();
        home.fetch(&remote).await;
    }
    let packs = || {
        let files = files_in(&home.folder.path().join("mirrors/one/repo.git/objects/pack"));
        files.iter().filter(|f| f.extension().is_some_and(|x| x == "pack")).count()
    };
    assert_eq!(packs(), 5);
    home.mirrors.tidy(&remote).await.unwrap();
    assert_eq!(packs(), 1);
    let commit = git.resolve("main").unwrap();
    let repo = home.mirrors.repository(&remote).await.unwrap();
    assert_eq!(repo.read(oid(&commit), "a", 10).unwrap().unwrap(), b"4");

    // Asked for a moment ago.
    let day = Duration::from_hours(24);
    assert_eq!(home.mirrors.retain(|_, unused| unused < day).await.unwrap(), 0);
    assert_eq!(home.mirrors.retain(|found, _| *found == key("one")).await.unwrap(), 0);
    assert_eq!(home.mirrors.retain(|_, _| false).await.unwrap(), 1);
    assert!(!home.folder.path().join("mirrors/one").exists());
    home.fetch(&remote).await;
}

#[tokio::test]
async fn many_fetches_leave_a_mirror_as_it_is_and_every_commit_readable() {
    let (git, _server, remote) = served();
    let home = Home::new();
    let repository = home.folder.path().join("mirrors/one/repo.git");
    let mut made = None;
    for n in 0..45 {
        let commit = git.push_files([("a", n.to_string())]).unwrap();
        home.fetch(&remote).await;
        let read = home.mirrors.repository(&remote).await.unwrap().read(oid(&commit), "a", 10);
        assert_eq!(read.unwrap().unwrap(), n.to_string().as_bytes());
        let inode = fs::metadata(&repository).unwrap().ino();
        assert_eq!(*made.get_or_insert(inode), inode, "the mirror was made anew after {n} fetches");
    }
}

#[tokio::test]
async fn local_repositories_are_read_in_place_only_when_allowed() {
    let git = GitRemote::new().unwrap();
    let first = git.push_files([("a", "1")]).unwrap();
    let path = git.path().display().to_string();
    for url in [path.clone(), git.file_url()] {
        let refusing = Home::with(|o| o.local = LocalPaths::Refused);
        let error = refusing.mirrors.fetch(&remote(&url)).await.unwrap_err();
        assert!(matches!(&error, Error::BadInput { why, .. } if why.contains("not allowed")), "{error}");

        for local in [LocalPaths::Read, LocalPaths::Mirrored] {
            let home = Home::with(|o| o.local = local);
            let repo = home.fetch(&remote(&url)).await.repository;
            assert_eq!(resolve(&repo, "HEAD"), first);
            assert_eq!(home.mirrors.runs(), u64::from(local == LocalPaths::Mirrored));
        }
    }
    let home = Home::new();
    for (url, words) in [("/no/such/folder", "no such folder"), ("/tmp", "not a git repository")] {
        let error = home.mirrors.fetch(&remote(url)).await.unwrap_err();
        assert!(matches!(&error, Error::NotFound { detail, .. } if detail.contains(words)), "{error}");
    }
}

#[tokio::test]
async fn working_trees_and_linked_ones_are_read_in_place() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let folder = OwnedFolder::new("trees").unwrap();
    let tree = folder.path().join("tree");
    let linked = folder.path().join("linked");
    git.git(["clone", "--quiet", git.path().to_str().unwrap(), tree.to_str().unwrap()]).unwrap();
    git.git([
        "-C",
        tree.to_str().unwrap(),
        "worktree",
        "add",
        "--quiet",
        "-b",
        "side",
        linked.to_str().unwrap(),
    ])
    .unwrap_or_else(|_| {
        // The helper runs git inside the bare repository; a worktree needs its own GIT_DIR.
        let status = std::process::Command::new("git")
            .args(["worktree", "add", "--quiet", "-b", "side", linked.to_str().unwrap()])
            .current_dir(&tree)
            .status()
            .unwrap();
        assert!(status.success());
        String::new()
    });
    let home = Home::new();
    for (name, path) in [("tree", &tree), ("linked", &linked)] {
        let remote = Remote::new(key(name), path.to_str().unwrap()).unwrap();
        let repo = home.fetch(&remote).await.repository;
        assert_eq!(resolve(&repo, "HEAD"), git.resolve("main").unwrap(), "{name}");
        assert_eq!(resolve(&repo, "side"), git.resolve("main").unwrap(), "{name}");
        assert!(!home.fetch(&remote).await.changed);
    }
}

#[test]
fn urls_that_git_would_misread_are_refused() {
    for bad in [
        "",
        "-u./payload",
        "--upload-pack=touch /tmp/x",
        "ext::sh -c touch% /tmp/x",
        "fd::17",
        "https::x",
        "ftp://host/x",
        "git://host/x",
        "https://",
        "https://-host/x",
        "https://host/x\ny",
        "https://ho st/x",
        "ssh://-oProxyCommand=touch/x",
        "ssh://git@-oProxyCommand=x/y",
        "ssh://-oX@host/y",
        "-oProxyCommand=x:y",
        "git@-oProxyCommand=x:y",
        "git@host:-x",
        "ssh://git:password@host/x",
        "file://relative",
        "file://host/x",
        "relative/path",
        "../x",
        "C:\\x y",
        "/a\nb",
    ] {
        assert!(matches!(RemoteUrl::parse(bad), Err(Error::BadInput { .. })), "{bad:?}");
    }
    for (good, shown) in [
        ("https://host/x.git", "https://host/x.git"),
        ("http://host:8080/x", "http://host:8080/x"),
        ("https://me:s3cr3t@host/x", "https://host/x"),
        ("ssh://git@host:22/x", "ssh://git@host:22/x"),
        ("host:x/y.git", "git@host:x/y.git"),
        ("me@host:/x", "ssh://me@host/x"),
        ("/srv/with space.git", "/srv/with space.git"),
        ("file:///srv/x%20y", "/srv/x y"),
    ] {
        assert_eq!(RemoteUrl::parse(good).unwrap().0.to_string(), shown);
    }
    let error = RemoteUrl::parse("gopher://me:s3cr3t@host/x").unwrap_err().to_string();
    assert!(!error.contains("s3cr3t"), "{error}");
    assert!(key_is_bad("../x") && key_is_bad("") && key_is_bad("a/b") && !key_is_bad("a-B_1"));
}

fn key_is_bad(name: &str) -> bool {
    plural_git::MirrorKey::new(name).is_err()
}
