//! What a console and an agent write is for their own user alone.
//!
//! One backend is enough: files are the console's and the agent's; the cluster only has to be there.

use std::{os::unix::fs::PermissionsExt as _, path::Path};

use plural_testkit::{GitRemote, TestCluster};

use crate::{
    program::{AgentProcess, ConsoleProcess, Home},
    world::{Person, map},
};

/// Files and folders below this one that others may look at or change, links left out.
fn open_to_others(folder: &Path, found: &mut Vec<String>) -> usize {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let about = entry.metadata().unwrap();
        if about.is_symlink() {
            continue;
        }
        seen += 1;
        let mode = about.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            found.push(format!("{:o} {}", mode, entry.path().display()));
        }
        if about.is_dir() {
            seen += open_to_others(&entry.path(), found);
        }
    }
    seen
}

#[tokio::test]
async fn what_is_written_is_for_its_owner() -> anyhow::Result<()> {
    let home = Home::new()?;
    let mut console = ConsoleProcess::start(&home, None, "info").await?;
    let person = Person::administrator(&console.url()).await?;
    let registered = person.cluster("blue").await?;
    let remote = GitRemote::new()?;
    let sha = remote.commit("main").file("app/a.yaml", map("a", "1")).push()?;
    let repository = person.repository(&remote.path().display().to_string()).await?;
    let cluster = TestCluster::kubesim().await?;
    let namespace = cluster.namespace().await?;
    let service = person.service(&registered, &namespace, &repository, "app").await?;
    let mut agent = AgentProcess::start(&home, &console.url(), &registered.token, &cluster, "info").await?;
    person.stands_at(&service, &sha).await;

    let cache = home.path().join("agent/cache");
    for folder in [console.data(), cache] {
        let mode = std::fs::metadata(&folder)?.permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", folder.display());
        let mut found = Vec::new();
        // Database, keys, a mirror, an artifact; the desired state and the artifact.
        assert!(open_to_others(&folder, &mut found) >= 3, "{}", folder.display());
        assert!(found.is_empty(), "others have access to {found:#?}");
    }
    agent.stop();
    console.stop();
    Ok(())
}
