//! What references stand for.

use plural_git::Error;
use plural_testkit::GitRemote;

use crate::support::{in_place, oid, resolve, spec};

#[tokio::test]
async fn every_kind_of_reference_finds_its_commit() {
    let git = GitRemote::new().unwrap();
    let first = git.push_files([("a", "1")]).unwrap();
    git.annotate("v1.2.0", "main").unwrap();
    let second = git.push_files([("a", "2")]).unwrap();
    git.set_ref("refs/tags/1.3.0", "main").unwrap();
    git.set_ref("refs/tags/v2.0.0-rc.1", &first).unwrap();
    git.set_ref("refs/heads/release/1.x", &first).unwrap();
    let (_home, repo) = in_place(&git).await;

    for (text, expect) in [
        ("main", &second),
        ("HEAD", &second),
        ("refs/heads/main", &second),
        ("release/1.x", &first),
        ("v1.2.0", &first),
        ("refs/tags/v1.2.0", &first),
        (first.as_str(), &first),
        (&first[..8], &first),
        ("1.x", &second),
        ("semver:~1.2", &first),
        ("semver:>=1.2 <2", &second),
        ("^1", &second),
        (">=2.0.0-0", &first),
    ] {
        assert_eq!(&resolve(&repo, text), expect, "{text}");
    }
    let range = repo.resolve(&spec("^1")).unwrap();
    assert_eq!(range.reference.as_deref(), Some("refs/tags/1.3.0"));
    assert_eq!(repo.resolve(&spec(&first)).unwrap().reference, None);
}

#[tokio::test]
async fn names_that_mean_several_things_follow_the_documented_order() {
    let git = GitRemote::new().unwrap();
    let first = git.push_files([("a", "1")]).unwrap();
    let second = git.push_files([("a", "2")]).unwrap();
    // A branch and a tag of one name; a branch that reads as a range; branches that look like commits.
    git.set_ref("refs/heads/both", &second).unwrap();
    git.set_ref("refs/tags/both", &first).unwrap();
    git.set_ref("refs/heads/1.x", &first).unwrap();
    git.set_ref("refs/tags/1.5.0", &second).unwrap();
    git.git(["update-ref", &format!("refs/heads/{first}"), &second]).unwrap();
    git.set_ref(&format!("refs/heads/{}", &first[..9]), &second).unwrap();
    let (_home, repo) = in_place(&git).await;

    assert_eq!(resolve(&repo, "both"), second, "a branch wins over a tag");
    assert_eq!(resolve(&repo, "refs/tags/both"), first);
    assert_eq!(resolve(&repo, "1.x"), first, "a branch wins over a range");
    assert_eq!(resolve(&repo, "semver:1.x"), second);
    assert_eq!(resolve(&repo, &first), first, "a full commit id cannot be taken over by a branch");
    assert_eq!(resolve(&repo, &first[..9]), second, "a branch wins over an abbreviation");
}

#[tokio::test]
async fn what_is_not_there_is_named_with_what_is() {
    let git = GitRemote::new().unwrap();
    let commit = git.push_files([("a", "1")]).unwrap();
    git.set_ref("refs/heads/dev", "main").unwrap();
    let blob = git.git(["rev-parse", "main:a"]).unwrap();
    git.git(["tag", "blob", &blob]).unwrap();
    let (_home, repo) = in_place(&git).await;

    let error = |text: &str| repo.resolve(&spec(text)).unwrap_err();
    let missing = error("mian");
    assert!(
        matches!(&missing, Error::RefMissing { reference, why }
        if reference == "mian" && why.contains("dev, main")),
        "{missing}"
    );
    assert!(matches!(error("semver:^9"), Error::RefMissing { why, .. } if why.contains("no tag")));
    assert!(matches!(error("refs/heads/none"), Error::RefMissing { .. }));
    assert!(matches!(error(&"0".repeat(40)), Error::CommitMissing { .. }));
    assert!(matches!(error("blob"), Error::RefMissing { why, .. } if why.contains("blob")));
    assert!(matches!(error(&blob), Error::RefMissing { why, .. } if why.contains("not of a commit")));
    let tree = repo.commit(oid(&commit)).unwrap().tree;
    assert!(matches!(repo.resolve(&spec(&tree.to_hex()[..12])), Err(Error::RefMissing { .. })));
}

#[tokio::test]
async fn an_abbreviation_that_fits_two_commits_is_ambiguous() {
    let git = GitRemote::new().unwrap();
    let commit = git.push_files([("a", "1")]).unwrap();
    let (_home, repo) = in_place(&git).await;
    let tree = repo.commit(oid(&commit)).unwrap().tree;
    // Two commits whose ids share seven digits, found by trying some tens of thousands.
    let text = |n: u32| {
        format!(
            "tree {tree}\nauthor A <a@example.com> {n} +0000\ncommitter A <a@example.com> {n} +0000\n\nx\n"
        )
    };
    let mut seen = std::collections::HashMap::new();
    let (one, other, prefix) = (0..)
        .find_map(|n| {
            let id =
                gix::objs::compute_hash(gix::hash::Kind::Sha1, gix::objs::Kind::Commit, text(n).as_bytes());
            let prefix = id.unwrap().to_hex_with_len(7).to_string();
            seen.insert(prefix.clone(), n).map(|other| (n, other, prefix))
        })
        .unwrap();
    for n in [one, other] {
        let file = git.root().join("commit");
        std::fs::write(&file, text(n)).unwrap();
        git.git(["hash-object", "-t", "commit", "-w", file.to_str().unwrap()]).unwrap();
    }
    let error = repo.resolve(&spec(&prefix)).unwrap_err();
    assert!(matches!(&error, Error::RefAmbiguous { why, .. } if why.contains("2 commits")), "{error}");

    let error = repo.resolve(&spec(&commit[..6])).unwrap_err();
    assert!(matches!(error, Error::RefMissing { .. }), "six digits are too few to mean a commit: {error}");
}

#[tokio::test]
async fn commits_and_files_are_read() {
    let git = GitRemote::new().unwrap();
    let first = git.push_files([("dir/a.txt", "content")]).unwrap();
    let second = git
        .commit("main")
        .message("a subject\n\nand a body\n")
        .executable("run.sh", "#!/bin/sh\n")
        .symlink("link", "dir/a.txt")
        .push()
        .unwrap();
    let (_home, repo) = in_place(&git).await;

    let commit = repo.commit(oid(&second)).unwrap();
    assert_eq!(commit.summary, "a subject");
    assert_eq!(commit.message.trim_end(), "a subject\n\nand a body");
    assert_eq!((commit.author.as_str(), commit.author_email.as_str()), ("Test", "test@example.com"));
    assert_eq!(commit.committer_email, "test@example.com");
    assert!(commit.time > 1_700_000_000);
    assert_eq!(commit.parents, vec![oid(&first)]);

    let text = format!(
        "tree {}\nauthor A <a@example.com> 1 +0000\ncommitter A <a@example.com> 1 +0000\n\na\0b\n\nc\0",
        commit.tree
    );
    let file = git.root().join("commit");
    std::fs::write(&file, text).unwrap();
    let odd = git.git(["hash-object", "-t", "commit", "-w", file.to_str().unwrap()]).unwrap();
    let odd = repo.commit(oid(odd.trim())).unwrap();
    assert_eq!(
        (odd.summary.as_str(), odd.message.trim_end()),
        ("a\u{fffd}b", "a\u{fffd}b\n\nc\u{fffd}"),
        "a message that no database takes"
    );

    assert_eq!(repo.read(oid(&second), "dir/a.txt", 100).unwrap().unwrap(), b"content");
    assert_eq!(repo.read(oid(&second), "none", 100).unwrap(), None);
    let large = repo.read(oid(&second), "dir/a.txt", 3).unwrap_err();
    assert!(matches!(large, Error::Limit { file, actual: 7, limit: 3, .. } if file == "dir/a.txt"));
    assert!(matches!(repo.read(oid(&second), "../etc/passwd", 3), Err(Error::BadInput { .. })));

    let names = |folder: &str| -> Vec<String> {
        repo.list(oid(&second), folder)
            .unwrap()
            .into_iter()
            .map(|l| format!("{} {:?}", l.path, l.kind))
            .collect()
    };
    assert_eq!(names(""), ["dir Folder", "link Link", "run.sh Executable"]);
    assert_eq!(names("dir"), ["dir/a.txt File"]);
    assert!(matches!(repo.list(oid(&second), "nowhere"), Err(Error::FolderMissing { .. })));
    let all: Vec<_> = repo.walk(oid(&second), "/", 4).unwrap().into_iter().map(|l| l.path).collect();
    assert_eq!(all, ["dir", "link", "run.sh", "dir/a.txt"]);
    assert!(matches!(repo.walk(oid(&second), "", 3), Err(Error::Limit { actual: 4, .. })));
}
