//! Mirrors of several consoles: who takes a repository over has what the one before fetched; and commits that only some
//! may sign.
//!
//! One backend is enough: consoles share PostgreSQL alone.

use std::{process::Command, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use plural_testkit::{GitRemote, GitServer, S3Server, TestDatabase, eventually, git_remote};
use plural_wire::{CreateGitRepository, GitAttributes, GitVerifyAttributes};

use crate::{
    program::{ConsoleProcess, Home},
    world::{Person, map},
};

mod cases {
    use plural_testkit::run_case;

    #[test]
    fn who_takes_a_repository_over_fetches_only_what_is_new() {
        run_case(super::who_takes_a_repository_over_fetches_only_what_is_new());
    }

    #[test]
    fn only_signed_commits_move_a_service() {
        run_case(super::only_signed_commits_move_a_service());
    }
}

/// A killed replica counts as gone after twelve seconds, and mirrors are shared every ten.
const PATIENCE: Duration = Duration::from_mins(2);
/// A file that does not compress.
const LARGE: usize = 4 << 20;

async fn stands_at(person: &Person, service: &str, sha: &str) {
    eventually(PATIENCE, async || {
        let found = person.details(service).await.map_err(|error| format!("{error:#}"))?;
        match found.service.sha.as_deref() {
            Some(at) if at == sha => Ok(()),
            at => Err(format!("at {at:?} instead of {sha}: {:?}", found.errors)),
        }
    })
    .await;
}

async fn who_takes_a_repository_over_fetches_only_what_is_new() -> anyhow::Result<()> {
    let Some(database) = TestDatabase::postgres_or_report() else { return Ok(()) };
    let blobs = S3Server::start("blobs")?;
    let home = Home::new()?;
    let remote = GitRemote::new()?;
    let git = GitServer::start(remote.root())?;
    let noise: Vec<u8> = (0..LARGE).map(|_| rand::random()).collect();
    let first =
        remote.commit("main").file("large/noise", noise).file("app/map.yaml", map("told", "1")).push()?;
    let key = home.path().join("encryption.key");
    std::fs::write(&key, STANDARD.encode([7; 32]))?;
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    let start = |name: &'static str| {
        ConsoleProcess::start_in(&home, name, "info", |program| {
            let program = program
                .env("DATABASE_URL", database.url())
                .env("PLURAL_WEBHOOK_SECRET", "the same on all")
                .flag("encryption-key-file", &key)
                .flag("blob-store", "s3://blobs/plural");
            blobs.environment().into_iter().fold(program, |program, (name, value)| program.env(name, &value))
        })
    };
    let mut one = start("console-0").await?;
    let person = Person::administrator(&one.url()).await?;
    let repository = person.repository(&git.url(&remote)).await?;
    let cluster = person.cluster("blue").await?;
    let service = person.service(&cluster, "default", &repository, "app").await?;
    stands_at(&person, &service, &first).await;
    eventually(PATIENCE, async || {
        let told = one.log();
        if told.contains("shared mirrors with other replicas") { Ok(()) } else { Err(told) }
    })
    .await;

    // Whoever hears of it first, and all of it once the other is gone.
    let whole = git.sent();
    assert!(whole > LARGE as u64, "{whole}");
    let other = start("console-1").await?;
    one.kill();
    let second = remote.push_files([("app/map.yaml", map("told", "2"))])?;
    let person = Person::administrator(&other.url()).await?;
    stands_at(&person, &service, &second).await;
    assert!(other.data().join("git/mirrors").join(&repository).exists(), "the other took it over");
    let later = git.sent() - whole;
    assert!(later < LARGE as u64 / 8, "the remote sent {later} bytes: a clone has {whole}");
    let told = other.log();
    assert!(told.contains("took another replica's mirror over"), "{told}");
    Ok(())
}

async fn only_signed_commits_move_a_service() -> anyhow::Result<()> {
    let home = Home::new()?;
    let console = ConsoleProcess::start(&home, None, "info").await?;
    let remote = GitRemote::new()?;
    let git = GitServer::start(remote.root())?;
    let key = home.path().join("signer");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"])
        .arg(&key)
        .status()?;
    assert!(made.success());
    let public = std::fs::read_to_string(key.with_extension("pub"))?;
    let sign = |content: &str| -> anyhow::Result<String> {
        remote.push_files([("app/map.yaml", map("told", content))])?;
        let tree = remote.git(["rev-parse", "main^{tree}"])?;
        let signed = git_remote::git(&remote.path())
            .args(["-c", "gpg.format=ssh", "commit-tree", &tree, "-m", "signed", "-p", "main"])
            .arg(format!("-S{}", key.display()))
            .output()?;
        anyhow::ensure!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
        let sha = String::from_utf8(signed.stdout)?.trim().to_owned();
        remote.set_ref("refs/heads/main", &sha)?;
        Ok(sha)
    };
    let first = sign("1")?;
    let person = Person::administrator(&console.url()).await?;
    let verify = GitVerifyAttributes { allowed_signers: Some(format!("ada {public}")), openpgp_keys: None };
    let attributes =
        GitAttributes { url: git.url(&remote), verify: Some(verify), ..GitAttributes::default() };
    let repository = person.client.send(&CreateGitRepository { attributes, project_id: None }).await?;
    assert!(repository.signed_commits);
    let cluster = person.cluster("blue").await?;
    let service = person.service(&cluster, "default", &repository.id, "app").await?;
    stands_at(&person, &service, &first).await;

    let unsigned = remote.push_files([("app/map.yaml", map("told", "2"))])?;
    let error = eventually(PATIENCE, async || {
        let found = person.details(&service).await.map_err(|error| format!("{error:#}"))?;
        assert_ne!(found.service.sha.as_deref(), Some(unsigned.as_str()));
        found.errors.into_iter().next().ok_or_else(|| "no error yet".to_owned())
    })
    .await;
    assert!(error.message.contains("is not signed") && error.message.contains(&unsigned), "{error:?}");

    let second = sign("3")?;
    stands_at(&person, &service, &second).await;
    Ok(())
}
