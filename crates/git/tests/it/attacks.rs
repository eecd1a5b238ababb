//! What hostile addresses, references and trees are known to try, by the numbers of docs/security.md.

use std::fmt::Write as _;

use plural_git::{Error, LocalPaths, NoteKind, RefSpec, Remote, ServiceSource};
use plural_testkit::GitRemote;

use crate::support::{Home, in_place, key, oid, remote};

#[tokio::test]
async fn attack_3_addresses_and_references_are_no_options_and_run_nothing() {
    let marker = std::env::temp_dir().join(format!("plural-attack-3-{}", std::process::id()));
    let touch = format!("touch {}", marker.display());
    for address in [
        "-oProxyCommand=x".to_owned(),
        "--upload-pack=touch".to_owned(),
        format!("ext::sh -c {touch}"),
        format!("ext::{touch}"),
        "fd::17".to_owned(),
        "ssh://-oProxyCommand=x/y".to_owned(),
        "ssh://git@-oProxyCommand=x/y".to_owned(),
        "git@-oProxyCommand=x:y".to_owned(),
        "git@example.com:-x".to_owned(),
        "ssh://-l@example.com/x".to_owned(),
        "https://example.com/x\n--upload-pack=x".to_owned(),
        "https://example.com/x\0y".to_owned(),
        "https://exam ple.com/x".to_owned(),
        "https:///x".to_owned(),
        "git://example.com/x".to_owned(),
        "ftp://example.com/x".to_owned(),
        "socks5://example.com/x".to_owned(),
        "file://host/x".to_owned(),
        "relative/path".to_owned(),
        "https://example.com/x?upload-pack=y".to_owned(),
        format!("https://example.com/{}", "x".repeat(5000)),
    ] {
        let error = Remote::new(key("one"), &address).map(|_| ()).expect_err(&address);
        assert!(matches!(error, Error::BadInput { .. }), "{address}: {error:?}");
    }
    for name in [
        "-x",
        "--upload-pack=x",
        "a\nb",
        "a\0b",
        "a..b",
        "a b",
        "refs/heads/../x",
        "@{-1}",
        "a^{/x}",
        "x:y",
        "",
    ] {
        let error = RefSpec::parse(name).map(|_| ()).expect_err(name);
        assert!(matches!(error, Error::BadInput { .. }), "{name}: {error:?}");
    }
    // Paths of this machine are read only where the operator allows it.
    let git = GitRemote::new().unwrap();
    git.push_files([("a.yaml", "a: 1\n")]).unwrap();
    let home = Home::with(|options| options.local = LocalPaths::Refused);
    for address in [git.path().display().to_string(), git.file_url()] {
        let error = home.mirrors.fetch(&remote(&address)).await.map(|_| ()).expect_err(&address);
        assert!(!error.is_transient(), "{error:?}");
    }
    assert!(!marker.exists());
}

#[tokio::test]
async fn attack_3_submodules_and_large_file_pointers_are_not_followed() {
    let git = GitRemote::new().unwrap();
    let other = git.commit("other").file("x", "x").push().unwrap();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";
    let commit = git
        .commit("main")
        .file("app/.gitmodules", "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c id\n\tupdate = !id\n")
        .file("app/.gitattributes", "*.yaml filter=lfs diff=lfs merge=lfs -text\n")
        .file("app/.lfsconfig", "[lfs]\n\turl = https://169.254.169.254/x\n")
        .file("app/big.yaml", pointer)
        .submodule("app/module", &other)
        .push()
        .unwrap();
    let (_home, repository) = in_place(&git).await;
    let sources = [ServiceSource::new("app").unwrap()];
    let closure = repository.closures(oid(&commit), &sources).unwrap().remove(0).unwrap();
    // The pointer is a file like any other: its text, and nothing that it points to.
    assert!(closure.entries.iter().any(|entry| entry.path == "app/big.yaml"));
    assert!(!closure.entries.iter().any(|entry| entry.path.starts_with("app/module")));
    assert!(closure.notes.iter().any(|note| note.kind == NoteKind::Submodule), "{:?}", closure.notes);
}

/// The console reads kustomizations to know what they reach: their bombs go off in nobody's hands.
#[tokio::test]
async fn attack_7_kustomizations_that_grow_reach_nothing() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let items = vec![format!("*a{}", n - 1); 10].join(", ");
        let _ = writeln!(bomb, "a{n}: &a{n} [{items}]");
    }
    let git = GitRemote::new().unwrap();
    let commit = git
        .commit("main")
        .file("aliases/kustomization.yaml", bomb)
        .file("flow/kustomization.yaml", "[".repeat(500_000))
        .file("dashes/kustomization.yaml", "- ".repeat(100_000))
        .file("flow/Chart.yaml", "{a: ".repeat(200_000))
        .file("null/kustomization.yaml", "resources: [null, {a: b}]\nbases: null\n")
        .push()
        .unwrap();
    let (_home, repository) = in_place(&git).await;
    let sources: Vec<_> = ["aliases", "flow", "dashes", "null"]
        .iter()
        .map(|folder| ServiceSource::new(folder).unwrap())
        .collect();
    let found = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(move || repository.closures(oid(&commit), &sources).unwrap())
        .unwrap()
        .join()
        .unwrap();
    for closure in found {
        assert!(closure.unwrap().entries.len() <= 2);
    }
}
