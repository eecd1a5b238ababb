//! What a merge of two commits makes: [`Merge`]. git merges, as hosts do; nothing is pushed, and no reference moves.

use std::borrow::Cow;

use crate::{
    error::{Error, Result},
    mirrors::{Mirrors, blocking},
    objects::Oid,
    remote::Remote,
};

/// Who makes a merge that nobody sees. Its time is always the same, and so is its id.
const MERGER: &str = "Plural <plural@localhost> 0 +0000";

/// What a merge of two commits makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// The second one as it is: it holds all of the first.
    Second,
    /// A commit of both. It is in this mirror alone, and nothing leads to it: a day later it may be gone, and is made again.
    Made(Oid),
    /// Nothing: these files are changed on both sides.
    Conflicts(Vec<String>),
    /// Nothing: no commit is before both.
    Unrelated,
    /// It is not known: git is older than 2.38, or the repository is read in place, where nothing is written.
    Unknown,
}

impl Mirrors {
    /// Whether a commit is another one, or came before it. The mirror has both.
    ///
    /// # Errors
    /// [`Error::NotFetched`] where there is no mirror; those of running git.
    pub async fn is_before(&self, remote: &Remote, first: Oid, second: Oid) -> Result<bool> {
        if first == second {
            return Ok(true);
        }
        if self.reads_in_place(remote) {
            let url = remote.url.to_string();
            return Err(Error::bad("repository", &url, "commits of local paths are not compared"));
        }
        let held = self.hold(remote).await?;
        let run = held.run();
        let (first, without) = (first.to_hex(), format!("^{second}"));
        let (ended, said) = run.run().asked(&["rev-list", "--max-count=1", &first, &without], &[]).await?;
        ended?;
        Ok(said.trim_ascii().is_empty())
    }

    /// Merges the second commit into the first. The mirror has both.
    ///
    /// # Errors
    /// [`Error::NotFetched`] where there is no mirror; [`Error::Quota`] where the mirror has no room for it; those of running git.
    pub async fn merge(&self, remote: &Remote, first: Oid, second: Oid) -> Result<Merge> {
        if self.reads_in_place(remote) {
            return Ok(Merge::Unknown);
        }
        let held = self.hold(remote).await?;
        let run = held.run_within(self.options().quota)?;
        let (ours, theirs) = (first.to_hex(), second.to_hex());
        let arguments = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", &ours, &theirs];
        let (ended, said) = run.run().asked(&arguments, &[]).await?;
        let (tree, files) = merged(&said);
        let tree = match (ended, tree) {
            (Ok(()), Some(tree)) => tree,
            (Ok(()), None) => {
                let detail = "git merge-tree named no tree".to_owned();
                return Err(Error::Git { url: remote.url.to_string(), detail });
            }
            (Err(_), Some(_)) if !files.is_empty() => return Ok(Merge::Conflicts(files)),
            (Err(Error::Git { detail, .. }), _) if detail.contains("unrelated histories") => {
                return Ok(Merge::Unrelated);
            }
            (Err(Error::Git { detail, .. }), _) if detail.contains("usage: git merge-tree") => {
                return Ok(Merge::Unknown);
            }
            (Err(error), _) => return Err(error),
        };
        let repository = held.repository().await?;
        if blocking("reading a commit", move || repository.commit(second)).await?.tree == tree {
            return Ok(Merge::Second);
        }
        let commit = format!(
            "tree {tree}\nparent {ours}\nparent {theirs}\nauthor {MERGER}\ncommitter {MERGER}\n\nMerge {theirs}\n"
        );
        let (ended, said) =
            run.run().asked(&["hash-object", "-t", "commit", "-w", "--stdin"], commit.as_bytes()).await?;
        ended?;
        Ok(Merge::Made(String::from_utf8_lossy(&said).trim().parse()?))
    }
}

/// The tree that git wrote, and the files that it could not merge.
fn merged(said: &[u8]) -> (Option<Oid>, Vec<String>) {
    let mut parts = said.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let tree = parts.next().and_then(|text| text.trim().parse().ok());
    let mut files: Vec<String> = parts.filter(|part| !part.is_empty()).map(Cow::into_owned).collect();
    files.dedup();
    (tree, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_comes_before_the_files_that_are_in_conflict() {
        let tree = "0123456789abcdef0123456789abcdef01234567";
        for (said, is_tree, expected) in [
            (format!("{tree}\0"), true, vec![]),
            (format!("{tree}\n"), true, vec![]),
            (format!("{tree}\0a b.yaml\0web/ü.yaml\0"), true, vec!["a b.yaml", "web/ü.yaml"]),
            (String::new(), false, vec![]),
            ("fatal".to_owned(), false, vec![]),
        ] {
            let (found, files) = merged(said.as_bytes());
            assert_eq!(
                (found.is_some(), files),
                (is_tree, expected.into_iter().map(str::to_owned).collect())
            );
        }
    }
}
