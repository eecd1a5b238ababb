//! Thousands of services in one repository.

use std::time::Instant;

use plural_git::ServiceSource;
use plural_testkit::GitRemote;

use crate::support::{Home, in_place, oid, remote};

const SERVICES: usize = 5000;

#[tokio::test]
async fn one_commit_moves_one_of_five_thousand_services() {
    let git = GitRemote::new().unwrap();
    let mut commit =
        git.commit("main").file("base/kustomization.yaml", "resources: [d.yaml]").file("base/d.yaml", "d");
    for n in 0..SERVICES {
        commit = commit
            .file(&format!("apps/{n}/kustomization.yaml"), "resources: [../../base, own.yaml]")
            .file(&format!("apps/{n}/own.yaml"), format!("n: {n}"));
    }
    let first = commit.push().unwrap();
    let (home, repo) = in_place(&git).await;
    let sources: Vec<_> = (0..SERVICES).map(|n| ServiceSource::new(&format!("apps/{n}")).unwrap()).collect();
    let started = Instant::now();
    let before = repo.closures(oid(&first), &sources).unwrap();
    println!("{SERVICES} closures, cold: {:?}", started.elapsed());

    let second = git.push_files([("apps/4321/own.yaml", "n: changed"), ("unrelated/x", "y")]).unwrap();
    let started = Instant::now();
    let after = repo.closures(oid(&second), &sources).unwrap();
    println!("{SERVICES} closures after one commit: {:?}", started.elapsed());
    let moved: Vec<usize> = (0..SERVICES)
        .filter(|n| before[*n].as_ref().unwrap().digest != after[*n].as_ref().unwrap().digest)
        .collect();
    assert_eq!(moved, [4321]);
    // The others are the very same values: nothing was worked out for them.
    let same = (0..SERVICES)
        .filter(|n| std::sync::Arc::ptr_eq(before[*n].as_ref().unwrap(), after[*n].as_ref().unwrap()))
        .count();
    assert_eq!(same, SERVICES - 1);

    let third = git.push_files([("base/d.yaml", "changed")]).unwrap();
    let all = repo.closures(oid(&third), &sources).unwrap();
    let moved = (0..SERVICES)
        .filter(|n| all[*n].as_ref().unwrap().digest != after[*n].as_ref().unwrap().digest)
        .count();
    assert_eq!(moved, SERVICES, "what all of them refer to moves all of them");
    drop(home);
}

#[tokio::test]
async fn from_a_local_push_to_an_artifact() {
    let git = GitRemote::new().unwrap();
    git.push_files([("app/a.yaml", "0"), ("app/b.yaml", "0")]).unwrap();
    let home = Home::new();
    let remote = remote(git.path().to_str().unwrap());
    let spec = plural_git::RefSpec::parse("main").unwrap();
    let source = ServiceSource::new("app").unwrap();
    let mut last = None;
    for n in 1..20 {
        let pushed = git.push_files([("app/a.yaml", n.to_string())]).unwrap();
        let started = Instant::now();
        let repo = home.fetch(&remote).await.repository;
        let commit = repo.resolve(&spec).unwrap().commit;
        let artifact = repo.artifact(&repo.closure(commit, &source).unwrap()).unwrap();
        println!("fetch, resolve, closure, artifact: {:?}", started.elapsed());
        assert_eq!(commit.to_hex(), pushed);
        assert_ne!(last.replace(artifact.digest), Some(artifact.digest));
    }
}
