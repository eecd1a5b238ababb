//! Who made what a source is at a commit: [`Authors`].

use std::collections::{BTreeSet, HashMap};

use super::Repository;
use crate::{
    closure::{Digest, ServiceSource},
    error::{Error, Result},
    objects::Oid,
};

/// Commits that are looked at, at most.
const MOST_SEEN: usize = 10_000;
/// Commits that change a source and are taken, at most.
const MOST: usize = 1_000;

/// Who made what a source is at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authors {
    /// E-mail addresses of those who wrote and committed, in lower case.
    pub emails: BTreeSet<String>,
    /// Commits that change the source.
    pub commits: Vec<Oid>,
    /// That is all of them; there are too many to tell otherwise.
    pub is_whole: bool,
}

/// What a source is at a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// It is not there.
    Absent,
    /// This.
    Is(Digest),
    /// It cannot be read: it is the same as nothing else.
    Broken,
}

impl Source {
    fn differs(self, other: Self) -> bool {
        self == Self::Broken || self != other
    }
}

impl Repository {
    /// Who wrote and committed what changed a source: in the commits that lead to `tip` and not to `applied`, or in all that lead to `tip`
    /// where there is no such commit. One that merges counts where the source is another one than in one of those that it merges.
    ///
    /// # Errors
    /// [`Error::CommitMissing`] without `tip`; [`Error::Corrupt`] where a commit cannot be read.
    pub fn authors(&self, tip: Oid, applied: Option<Oid>, source: &ServiceSource) -> Result<Authors> {
        let hidden = match applied.map(|id| self.commit(id)) {
            Some(Ok(commit)) => Some(commit.id.0),
            // Nobody has it any more: whatever leads to the other one is new.
            Some(Err(Error::CommitMissing { .. })) | None => None,
            Some(Err(error)) => return Err(error),
        };
        let repo = self.local();
        let walk = repo.rev_walk([tip.0]).with_hidden(hidden).all();
        let walk = walk.map_err(|error| self.damaged(error))?;
        let mut found = Authors { emails: BTreeSet::new(), commits: Vec::new(), is_whole: true };
        let mut known = HashMap::new();
        for (seen, info) in walk.enumerate() {
            if seen == MOST_SEEN || found.commits.len() == MOST {
                found.is_whole = false;
                break;
            }
            let commit = self.commit(Oid(info.map_err(|error| self.damaged(error))?.id))?;
            let now = self.source_at(commit.id, source, &mut known)?;
            let mut changes = commit.parents.is_empty() && now != Source::Absent;
            for parent in &commit.parents {
                changes |= now.differs(self.source_at(*parent, source, &mut known)?);
            }
            if changes {
                let emails = [commit.author_email, commit.committer_email];
                found.emails.extend(emails.map(|email| email.to_lowercase()));
                found.commits.push(commit.id);
            }
        }
        Ok(found)
    }

    fn source_at(
        &self,
        commit: Oid,
        source: &ServiceSource,
        known: &mut HashMap<Oid, Source>,
    ) -> Result<Source> {
        if let Some(known) = known.get(&commit) {
            return Ok(*known);
        }
        let found = match self.closure(commit, source) {
            Ok(closure) => Source::Is(closure.digest),
            Err(Error::FolderMissing { .. }) => Source::Absent,
            Err(error @ (Error::Corrupt { .. } | Error::CommitMissing { .. })) => return Err(error),
            Err(error) if error.is_transient() => return Err(error),
            Err(_) => Source::Broken,
        };
        known.insert(commit, found);
        Ok(found)
    }
}
