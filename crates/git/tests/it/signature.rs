//! Commits that only some may sign.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use plural_git::{Error, Options, Signers};
use plural_testkit::{GitRemote, OwnedFolder, git_remote};

use crate::support::{Home, oid, remote};

/// A person with a key, in a folder of their own.
struct Person {
    folder: OwnedFolder,
    name: &'static str,
}

impl Person {
    fn new(name: &'static str) -> Self {
        Self { folder: OwnedFolder::new("signer").unwrap(), name }
    }

    fn key(&self) -> PathBuf {
        self.folder.path().join("key")
    }

    /// With an SSH key; its public half.
    fn ssh(&self) -> String {
        run(Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
            .arg(self.key()));
        fs::read_to_string(self.key().with_extension("pub")).unwrap().trim().to_owned()
    }

    /// With an OpenPGP key; its public half, armoured. `cargo xtask test` installs GnuPG.
    fn openpgp(&self) -> String {
        let home = self.folder.path();
        run(gpg(home).args(["--quick-gen-key", self.name, "ed25519", "sign", "never"]));
        run(gpg(home).args(["--armor", "--export"]))
    }

    /// The newest commit once more, signed.
    fn signs(&self, git: &GitRemote, format: &str) -> String {
        let key = if format == "ssh" { self.key().display().to_string() } else { self.name.to_owned() };
        let tree = git.git(["rev-parse", "main^{tree}"]).unwrap();
        let format = format!("gpg.format={format}");
        let mut command = git_remote::git(&git.path());
        command.env("GNUPGHOME", self.folder.path()).args(["-c", &format, "commit-tree"]);
        run(command.arg(format!("-S{key}")).args(["-m", "signed", &tree]))
    }
}

fn gpg(home: &Path) -> Command {
    let mut command = Command::new("gpg");
    command.args([
        "--batch",
        "--quiet",
        "--no-tty",
        "--pinentry-mode",
        "loopback",
        "--passphrase",
        "",
        "--homedir",
    ]);
    command.arg(home);
    command
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Whether a commit is taken.
async fn verify(git: &GitRemote, commit: &str, signers: &Signers) -> Result<(), Error> {
    let home = Home::new();
    let remote = remote(git.path().to_str().unwrap());
    let repository = home.fetch(&remote).await.repository;
    home.mirrors.verify(&repository, oid(commit), signers).await
}

async fn refusal(git: &GitRemote, commit: &str, signers: &Signers) -> String {
    let error = verify(git, commit, signers).await.unwrap_err();
    assert!(matches!(&error, Error::Unverified { commit: named, .. } if named == commit), "{error:?}");
    assert!(!error.is_transient());
    error.to_string()
}

/// The commit with other content under the same signature.
fn forged(git: &GitRemote, commit: &str) -> String {
    git.push_files([("a", "other")]).unwrap();
    let tree = git.git(["rev-parse", "main^{tree}"]).unwrap();
    let text = git.git(["cat-file", "commit", commit]).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("tree "));
    let file = git.root().join("forged");
    fs::write(&file, format!("tree {tree}\n{rest}\n")).unwrap();
    git.git(["hash-object", "-t", "commit", "-w", file.to_str().unwrap()]).unwrap()
}

#[tokio::test]
async fn only_allowed_ssh_keys_sign() {
    let git = GitRemote::new().unwrap();
    let unsigned = git.push_files([("a", "1")]).unwrap();
    let (ada, eve) = (Person::new("ada@example.com"), Person::new("eve@example.com"));
    let allow = |options: &str, key: &str| Signers {
        ssh: Some(format!("# the team\nada@example.com {options}{key}\n")),
        openpgp: None,
    };
    let ada_key = ada.ssh();
    let eve_key = eve.ssh();
    let by_ada = ada.signs(&git, "ssh");
    let by_eve = eve.signs(&git, "ssh");
    let allowed = allow("", &ada_key);
    verify(&git, &by_ada, &allowed).await.unwrap();
    verify(&git, &by_ada, &allow("namespaces=\"git\" ", &ada_key)).await.unwrap();
    assert!(refusal(&git, &unsigned, &allowed).await.contains("is not signed"));
    assert!(refusal(&git, &by_eve, &allowed).await.contains("not among the allowed signers"));
    assert!(refusal(&git, &by_ada, &allow("", &eve_key)).await.contains("not among the allowed signers"));
    // A key for files, or one that was allowed before the commit's time only.
    refusal(&git, &by_ada, &allow("namespaces=\"file\" ", &ada_key)).await;
    refusal(&git, &by_ada, &allow("valid-before=\"20200101\" ", &ada_key)).await;
    let forged = forged(&git, &by_ada);
    assert!(refusal(&git, &forged, &allowed).await.contains("is not valid"));
    let none = Signers { ssh: None, openpgp: Some("x".to_owned()) };
    assert!(refusal(&git, &by_ada, &none).await.contains("SSH key, and none are allowed"));
    assert!(
        refusal(&git, &by_ada, &Signers { ssh: Some("nonsense".to_owned()), openpgp: None }).await.len() > 10
    );
}

#[tokio::test]
async fn only_allowed_openpgp_keys_sign() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let (ada, eve) = (Person::new("ada@example.com"), Person::new("eve@example.com"));
    let (ada_key, eve_key) = (ada.openpgp(), eve.openpgp());
    let by_ada = ada.signs(&git, "openpgp");
    let by_eve = eve.signs(&git, "openpgp");
    let allow = |keys: &[&str]| Signers { ssh: None, openpgp: Some(keys.join("\n")) };
    verify(&git, &by_ada, &allow(&[&ada_key])).await.unwrap();
    verify(&git, &by_eve, &allow(&[&ada_key, &eve_key])).await.unwrap();
    assert!(refusal(&git, &by_eve, &allow(&[&ada_key])).await.contains("is not valid"));
    assert!(refusal(&git, &by_ada, &allow(&["no key"])).await.contains("cannot be read"));
    let forged = forged(&git, &by_ada);
    assert!(refusal(&git, &forged, &allow(&[&ada_key])).await.contains("is not valid"));
}

#[tokio::test]
async fn a_good_signature_is_looked_at_once_and_a_missing_program_is_named() {
    let git = GitRemote::new().unwrap();
    git.push_files([("a", "1")]).unwrap();
    let ada = Person::new("ada@example.com");
    let signers = Signers { ssh: Some(format!("ada {}", ada.ssh())), openpgp: None };
    let commit = ada.signs(&git, "ssh");
    let counted = OwnedFolder::new("counted").unwrap();
    let script = counted.path().join("ssh-keygen");
    let runs = counted.path().join("runs");
    fs::write(&script, format!("#!/bin/sh\necho run >> {}\nexec ssh-keygen \"$@\"\n", runs.display()))
        .unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let home = Home::with(|options: &mut Options| options.ssh_keygen = script);
    let repository = home.fetch(&remote(git.path().to_str().unwrap())).await.repository;
    for _ in 0..3 {
        home.mirrors.verify(&repository, oid(&commit), &signers).await.unwrap();
    }
    assert_eq!(fs::read_to_string(&runs).unwrap().lines().count(), 2, "the key is found, and then verified");

    let without = home.again(|options| options.ssh_keygen = "/nonexistent/ssh-keygen".into());
    let error = without.verify(&repository, oid(&commit), &signers).await.unwrap_err();
    assert!(matches!(error, Error::NoProgram { .. }), "{error}");
}

#[tokio::test]
async fn a_signed_text_is_read_when_an_allowed_key_signed_it() {
    let (ada, eve) = (Person::new("ada@example.com"), Person::new("eve@example.com"));
    let (ours, theirs) = (ada.openpgp(), eve.openpgp());
    let plain = ada.folder.path().join("plain");
    fs::write(&plain, "name: web\n- a line with a dash\n...\nfiles: {}\n").unwrap();
    let signed = run(gpg(ada.folder.path()).args(["--output", "-", "--clearsign"]).arg(&plain));
    let home = Home::new();
    let read = async |document: &str, keys: &str| home.mirrors.signed_text(document, keys).await;
    let text = read(&signed, &ours).await.unwrap();
    assert_eq!(text.trim_end(), "name: web\n- a line with a dash\n...\nfiles: {}");
    let more = format!("{signed}\n{signed}\n");
    let before = format!("name: other\n{signed}\n");
    let changed = signed.replace("name: web", "name: other");
    for document in [changed.as_str(), &more, &before, "name: web\n...\nfiles: {}", ""] {
        let error = read(document, &ours).await.unwrap_err();
        assert!(matches!(error, Error::Unsigned { .. }) && !error.is_transient(), "{document:?}: {error:?}");
    }
    let error = read(&signed, &theirs).await.unwrap_err();
    assert!(matches!(error, Error::Unsigned { .. }), "{error:?}");
}
