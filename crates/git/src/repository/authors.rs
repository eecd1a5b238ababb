//! Who made what a source is at a commit: [`Authors`].

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use super::Repository;
use crate::{
    closure::{Digest, ServiceSource},
    error::{Error, Result},
    objects::Oid,
};

/// Commits that are walked, at most.
const MOST_SEEN: usize = 10_000;
/// Commits that change a source and are taken, at most.
const MOST: usize = 1_000;
/// Commits at which a source is read, at most: some that are walked have thousands of parents.
const MOST_READ: usize = MOST_SEEN + MOST;
/// Commits among which the applied one is looked for, at most.
const MOST_LOOKED: usize = 100_000;
/// How long all of that may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Who made what a source is at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authors {
    /// E-mail addresses of those who wrote and committed what changes the source, in lower case.
    pub emails: BTreeSet<String>,
    /// All commits that were walked, also those that do not change the source: the last one of a branch may be one of them.
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
    /// where that one does not: what it undid may be there again. One that merges counts where the source is another one than in one of those
    /// that it merges.
    ///
    /// # Errors
    /// [`Error::CommitMissing`] without `tip`; [`Error::Corrupt`] where a commit cannot be read.
    pub fn authors(&self, tip: Oid, applied: Option<Oid>, source: &ServiceSource) -> Result<Authors> {
        let until = Instant::now() + PATIENCE;
        let hidden = match applied {
            Some(applied) if self.leads_to(applied, tip, until)? => Some(applied.0),
            Some(_) | None => None,
        };
        let repo = self.local();
        let walk = repo.rev_walk([tip.0]).with_hidden(hidden).all();
        let walk = walk.map_err(|error| self.damaged(error))?;
        let mut found = Authors { emails: BTreeSet::new(), commits: Vec::new(), is_whole: true };
        let (mut known, mut changing) = (HashMap::new(), 0);
        for info in walk {
            found.is_whole = found.commits.len() < MOST_SEEN && changing < MOST;
            if !found.is_whole {
                break;
            }
            let commit = self.commit(Oid(info.map_err(|error| self.damaged(error))?.id))?;
            found.commits.push(commit.id);
            let now = self.source_at(commit.id, source, &mut known)?;
            let mut changes = commit.parents.is_empty() && now != Source::Absent;
            for parent in &commit.parents {
                if known.len() >= MOST_READ || Instant::now() >= until {
                    found.is_whole = false;
                    changes = true;
                    break;
                }
                if now.differs(self.source_at(*parent, source, &mut known)?) {
                    changes = true;
                    break;
                }
            }
            if changes {
                changing += 1;
                let emails = [commit.author_email, commit.committer_email];
                found.emails.extend(emails.map(|email| email.to_lowercase()));
            }
            if !found.is_whole {
                break;
            }
        }
        Ok(found)
    }

    /// Whether a commit is there and leads to another one; `false` also where that cannot be told with what may be spent on it.
    fn leads_to(&self, commit: Oid, tip: Oid, until: Instant) -> Result<bool> {
        match self.commit(commit) {
            Ok(_) => {}
            // Nobody has it any more.
            Err(Error::CommitMissing { .. }) => return Ok(false),
            Err(error) => return Err(error),
        }
        let repo = self.local();
        let walk = repo.rev_walk([tip.0]).all().map_err(|error| self.damaged(error))?;
        for info in walk.take(MOST_LOOKED) {
            if info.map_err(|error| self.damaged(error))?.id == commit.0 {
                return Ok(true);
            }
            if Instant::now() >= until {
                break;
            }
        }
        Ok(false)
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
