//! Commits that are made in a mirror and go nowhere: what a change would make of a repository, to be read as any commit is.

use crate::{
    error::{Error, Result},
    mirrors::{Mirrors, blocking},
    objects::Oid,
    push::{FileChange, MADE, data, files},
    refspec::RefSpec,
    remote::Remote,
    repository::Commit,
};

/// Who makes such commits. Nobody is shown it.
const MAKER: &str = "plural <plural@localhost>";

/// What `git fast-import` reads. Nothing of it is of the moment: the same changes of the same commit are the same commit, in each mirror.
fn stream(parent: &Commit, message: &str, changes: &[FileChange]) -> Result<Vec<u8>> {
    let time = parent.time.max(0);
    let mut out = Vec::new();
    out.extend_from_slice(format!("commit {MADE}\n").as_bytes());
    for role in ["author", "committer"] {
        out.extend_from_slice(format!("{role} {MAKER} {time} +0000\n").as_bytes());
    }
    data(&mut out, message.as_bytes());
    out.extend_from_slice(format!("from {}\n", parent.id).as_bytes());
    files(&mut out, changes)?;
    Ok(out)
}

impl Mirrors {
    /// Makes a commit in the mirror: these changes, on top of one that it has. No reference leads to it, and it stays for a day at least.
    /// The mirror must not grow by it beyond what there is for commits that no branch leads to.
    ///
    /// # Errors
    /// [`Error::BadInput`] for a repository that is read in place; [`Error::NotFetched`] where there is no mirror; [`Error::Quota`].
    pub async fn overlay(
        &self,
        remote: &Remote,
        parent: Oid,
        message: &str,
        changes: &[FileChange],
    ) -> Result<Commit> {
        if self.reads_in_place(remote) {
            let why = "a repository on this machine is read in place, and nothing is written to it; use an https or ssh URL";
            return Err(Error::bad("repository", &remote.url.to_string(), why));
        }
        let held = self.hold(remote).await?;
        let repository = held.repository().await?;
        let parent = blocking("reading a commit", move || repository.commit(parent)).await?;
        let stream = stream(&parent, message, changes)?;
        let run = held.run_within(self.options().quota.of_singles())?;
        let made = run.import(&stream).await;
        held.close();
        made?;
        let repository = held.repository().await?;
        let spec = RefSpec::parse(MADE)?;
        let found = blocking("reading a commit", move || {
            let commit = repository.resolve(&spec)?.commit;
            repository.commit(commit)
        })
        .await;
        if let Err(error) = run.forget(MADE).await {
            // The next commit takes its place.
            tracing::warn!(url = %remote.url, %error, "cannot forget the name of a commit that was made");
        }
        held.close();
        found
    }
}
