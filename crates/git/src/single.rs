//! Fetches of what no branch or tag leads to: [`Mirrors::fetch_commit`], [`Mirrors::fetch_reference`].

use crate::{
    error::{Error, Result},
    mirrors::{Fetched, Mirrors},
    objects::Oid,
    quota::Quota,
    refspec::{Kind, RefSpec},
    remote::Remote,
};

/// What is fetched.
pub(crate) enum What {
    /// All branches and tags.
    All,
    /// A commit.
    Commit(Oid),
    /// A reference, by its full name.
    Reference(String),
}

impl What {
    /// What of a quota there is for it. Into an empty mirror, everything is fetched.
    pub(crate) fn of(&self, quota: Quota, is_empty: bool) -> Quota {
        match self {
            Self::Commit(_) | Self::Reference(_) if !is_empty => quota.of_singles(),
            Self::Commit(_) | Self::Reference(_) | Self::All => quota,
        }
    }
}

impl Mirrors {
    /// Fetches one commit that no branch or tag leads to, for services pinned to it. Not every server gives such commits.
    pub async fn fetch_commit(&self, remote: &Remote, commit: Oid) -> Result<Fetched> {
        self.fetch_single(remote, &What::Commit(commit)).await
    }

    /// Fetches one reference that is no branch and no tag, such as the head of a pull request.
    ///
    /// # Errors
    /// [`Error::BadInput`] for what is no full name of one.
    pub async fn fetch_reference(&self, remote: &Remote, reference: &RefSpec) -> Result<Fetched> {
        if !matches!(reference.kind(), Kind::FullName) {
            return Err(Error::bad("reference", reference.as_str(), "it is no full name of a reference"));
        }
        self.fetch_single(remote, &What::Reference(reference.as_str().to_owned())).await
    }
}
