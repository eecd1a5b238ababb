//! Whose commits made a source what it is.

use plural_git::{Oid, Repository, ServiceSource};
use plural_testkit::GitRemote;

use crate::support::{in_place, oid};

/// Commits on a branch, each of one address and one file.
fn commits(git: &GitRemote, branch: &str, all: &[(&str, &str, &str)]) -> String {
    git.import(|out| {
        for (at, (email, path, content)) in all.iter().enumerate() {
            writeln!(
                out,
                "commit refs/heads/{branch}\ncommitter Somebody <{email}> {} +0000",
                1_800_000_000 + at
            )?;
            writeln!(out, "data 1\nc")?;
            if at == 0 {
                writeln!(out, "from refs/heads/{branch}^0")?;
            }
            writeln!(out, "M 100644 inline {path}\ndata {}\n{content}", content.len())?;
        }
        Ok(())
    })
    .unwrap();
    git.resolve(&format!("refs/heads/{branch}")).unwrap()
}

fn emails(repository: &Repository, tip: &str, applied: Option<Oid>) -> Vec<String> {
    let source = ServiceSource::new("web").unwrap();
    let found = repository.authors(oid(tip), applied, &source).unwrap();
    assert!(found.is_whole);
    found.emails.into_iter().collect()
}

#[tokio::test]
async fn those_count_whose_commits_change_the_source_since_the_applied_one() {
    let git = GitRemote::new().unwrap();
    let begin = git.push_files([("web/a.yaml", "a: 1\n"), ("api/b.yaml", "b: 1\n")]).unwrap();
    let tip = commits(
        &git,
        "main",
        &[("Ada@Example.com", "web/a.yaml", "a: 2\n"), ("bob@example.com", "api/b.yaml", "b: 2\n")],
    );
    let (_home, repository) = in_place(&git).await;
    assert_eq!(emails(&repository, &tip, Some(oid(&begin))), ["ada@example.com"]);
    assert_eq!(emails(&repository, &tip, Some(oid(&tip))), [""; 0]);
    // Without an applied commit, and where nobody has it any more, all of the history counts.
    let all = ["ada@example.com", "test@example.com"];
    assert_eq!(emails(&repository, &tip, None), all);
    assert_eq!(emails(&repository, &tip, Some(oid(&"1".repeat(40)))), all);
}

#[tokio::test]
async fn all_counts_where_the_applied_commit_does_not_lead_there() {
    let git = GitRemote::new().unwrap();
    git.push_files([("web/a.yaml", "a: 1\n"), ("api/b.yaml", "b: 1\n")]).unwrap();
    commits(&git, "main", &[("mallory@example.com", "web/a.yaml", "a: 2\n")]);
    git.set_ref("refs/heads/undone", "main").unwrap();
    let applied = commits(&git, "undone", &[("bob@example.com", "web/a.yaml", "a: 1\n")]);
    let tip = commits(&git, "main", &[("carol@example.com", "api/b.yaml", "b: 2\n")]);
    let (_home, repository) = in_place(&git).await;
    // What was undone where it was applied last is there again; also where the tip leads to the applied commit.
    let back = git.resolve("refs/heads/main~1").unwrap();
    for tip in [tip, back] {
        let found = emails(&repository, &tip, Some(oid(&applied)));
        assert_eq!(found, ["mallory@example.com", "test@example.com"], "{tip}");
    }
}

#[tokio::test]
async fn commits_that_do_not_change_the_source_are_told_without_their_authors() {
    let git = GitRemote::new().unwrap();
    let begin = git.push_files([("web/a.yaml", "a: 1\n"), ("api/b.yaml", "b: 1\n")]).unwrap();
    let changes = commits(&git, "main", &[("ada@example.com", "web/a.yaml", "a: 2\n")]);
    // The last one of a branch that was put on top of the base.
    let last = commits(&git, "main", &[("bob@example.com", "api/b.yaml", "b: 2\n")]);
    let tip = commits(&git, "main", &[("bob@example.com", "api/b.yaml", "b: 3\n")]);
    let (_home, repository) = in_place(&git).await;
    let source = ServiceSource::new("web").unwrap();
    let found = repository.authors(oid(&tip), Some(oid(&begin)), &source).unwrap();
    assert!(found.is_whole);
    assert_eq!(found.commits, [tip, last, changes].map(|sha| oid(&sha)));
    assert_eq!(found.emails.into_iter().collect::<Vec<_>>(), ["ada@example.com"]);
}

#[tokio::test]
async fn a_commit_of_too_many_parents_is_told_as_such() {
    let git = GitRemote::new().unwrap();
    let begin = git.push_files([("web/a.yaml", "a: 1\n")]).unwrap();
    git.import(|out| {
        let parents = 11_100;
        for at in 1..=parents {
            writeln!(out, "commit refs/heads/parent\nmark :{at}")?;
            writeln!(out, "committer Somebody <ada@example.com> {} +0000", 1_800_000_000 + at)?;
            writeln!(out, "data 1\np\nfrom refs/heads/main^0\n")?;
        }
        writeln!(out, "commit refs/heads/main\ncommitter Somebody <ada@example.com> 1900000000 +0000")?;
        writeln!(out, "data 1\nm\nfrom refs/heads/main^0")?;
        for at in 1..=parents {
            writeln!(out, "merge :{at}")?;
        }
        writeln!(out)?;
        Ok(())
    })
    .unwrap();
    let tip = git.resolve("refs/heads/main").unwrap();
    let (_home, repository) = in_place(&git).await;
    let source = ServiceSource::new("web").unwrap();
    let found = repository.authors(oid(&tip), Some(oid(&begin)), &source).unwrap();
    assert!(!found.is_whole && found.commits.len() == 1, "{}", found.commits.len());
}

#[tokio::test]
async fn whoever_merges_what_changes_the_source_counts() {
    let git = GitRemote::new().unwrap();
    let begin = git.push_files([("web/a.yaml", "a: 1\n"), ("api/b.yaml", "b: 1\n")]).unwrap();
    git.set_ref("refs/heads/topic", "main").unwrap();
    commits(&git, "topic", &[("ada@example.com", "web/a.yaml", "a: 2\n")]);
    git.import(|out| {
        writeln!(out, "commit refs/heads/main\ncommitter Somebody <merger@example.com> 1800000100 +0000")?;
        writeln!(out, "data 1\nm\nfrom refs/heads/main^0\nmerge refs/heads/topic^0")?;
        writeln!(out, "M 100644 inline web/a.yaml\ndata 5\na: 2\n")?;
        Ok(())
    })
    .unwrap();
    let tip = commits(&git, "main", &[("bob@example.com", "api/b.yaml", "b: 2\n")]);
    let (_home, repository) = in_place(&git).await;
    assert_eq!(emails(&repository, &tip, Some(oid(&begin))), ["ada@example.com", "merger@example.com"]);
}

#[tokio::test]
async fn more_commits_than_are_looked_at_are_told_as_such() {
    let git = GitRemote::new().unwrap();
    let begin = git.push_files([("web/a.yaml", "a: 1\n")]).unwrap();
    let texts: Vec<String> = (0..=1_000).map(|at| format!("b: {at}\n")).collect();
    let all: Vec<_> = texts.iter().map(|text| ("ada@example.com", "web/a.yaml", text.as_str())).collect();
    let tip = commits(&git, "main", &all);
    let (_home, repository) = in_place(&git).await;
    let source = ServiceSource::new("web").unwrap();
    let found = repository.authors(oid(&tip), Some(oid(&begin)), &source).unwrap();
    assert!(!found.is_whole && found.commits.len() == 1_000);
}
