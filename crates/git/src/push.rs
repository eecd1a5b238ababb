//! Commits that are made in a mirror and pushed from there: [`Push`].

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::{
    error::{Error, Result},
    mirrors::{Mirrors, blocking},
    objects::Oid,
    refspec::RefSpec,
    remote::Remote,
};

/// Names a commit between its making and its push.
pub(crate) const MADE: &str = "refs/plural/made";

/// One change of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Path in the repository.
    pub path: String,
    /// Its content; nothing removes it.
    pub content: Option<Bytes>,
    /// Whether it may be executed.
    pub executable: bool,
}

/// A commit to make and push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The remote's branch has to be there, at the parent; else it must not be there.
    pub exists: bool,
    /// What the commit is on top of. The mirror has it.
    pub parent: Oid,
    /// Message.
    pub message: String,
    /// Name and e-mail address of its author.
    pub author: (String, String),
    /// Name and e-mail address of who makes it.
    pub committer: (String, String),
    /// What it changes.
    pub changes: Vec<FileChange>,
}

impl Push {
    /// What `git fast-import` reads.
    fn stream(&self) -> Result<Vec<u8>> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut out = Vec::new();
        out.extend_from_slice(format!("commit {MADE}\n").as_bytes());
        for (role, person) in [("author", &self.author), ("committer", &self.committer)] {
            out.extend_from_slice(format!("{role} {} {time} +0000\n", written(person)?).as_bytes());
        }
        data(&mut out, self.message.as_bytes());
        out.extend_from_slice(format!("from {}\n", self.parent).as_bytes());
        files(&mut out, &self.changes)?;
        Ok(out)
    }
}

/// The changes of a commit, and the end of the stream.
pub(crate) fn files(out: &mut Vec<u8>, changes: &[FileChange]) -> Result<()> {
    for change in changes {
        let path = quoted(&change.path)?;
        let Some(content) = &change.content else {
            out.extend_from_slice(format!("D {path}\n").as_bytes());
            continue;
        };
        let mode = if change.executable { "100755" } else { "100644" };
        out.extend_from_slice(format!("M {mode} inline {path}\n").as_bytes());
        data(out, content);
    }
    out.extend_from_slice(b"done\n");
    Ok(())
}

pub(crate) fn data(out: &mut Vec<u8>, content: &[u8]) {
    out.extend_from_slice(format!("data {}\n", content.len()).as_bytes());
    out.extend_from_slice(content);
    out.push(b'\n');
}

/// A person as a commit names them.
fn written((name, email): &(String, String)) -> Result<String> {
    for text in [name, email] {
        if text.contains(['<', '>']) || text.contains(char::is_control) {
            return Err(Error::bad("author", text, "it holds '<', '>' or a control character"));
        }
    }
    Ok(format!("{} <{}>", name.trim(), email.trim()))
}

/// A path as `git fast-import` reads it.
fn quoted(path: &str) -> Result<String> {
    if path.contains(char::is_control) {
        return Err(Error::bad("path", path, "it holds a control character"));
    }
    Ok(format!("\"{}\"", path.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// The full name of a branch.
fn full(branch: &str) -> Result<String> {
    let name = format!("refs/heads/{branch}");
    // It is part of an argument of git.
    RefSpec::parse(&name)?;
    if branch.contains([':', '*', '^', ' ']) {
        return Err(Error::bad("branch", branch, "it is no branch name"));
    }
    Ok(name)
}

impl Mirrors {
    fn check_pushable(&self, remote: &Remote) -> Result<()> {
        remote.check(self.options().credentials_over_http)?;
        if remote.url.local_path().is_some() {
            let why = "a repository on this machine is not pushed to; use an https or ssh URL";
            return Err(Error::bad("repository", &remote.url.to_string(), why));
        }
        Ok(())
    }

    /// Makes a commit in the mirror and pushes it; its id. The remote refuses it unless its branch is where [`Push`] says.
    ///
    /// # Errors
    /// [`Error::NotFetched`] where there is no mirror; those of running git. After a failure the remote may have taken it:
    /// fetch, and look.
    pub async fn push(&self, remote: &Remote, push: &Push) -> Result<Oid> {
        let name = full(&push.branch)?;
        let stream = push.stream()?;
        self.check_pushable(remote)?;
        let held = self.hold(remote).await?;
        let run = held.run();
        let made = run.import(&stream).await;
        held.close();
        made?;
        let repository = held.repository().await?;
        let spec = RefSpec::parse(MADE)?;
        let commit = blocking("reading a commit", move || repository.resolve(&spec)).await?.commit;
        let expected = if push.exists { push.parent.to_hex() } else { String::new() };
        let pushed = run.push(&format!("{name}:{expected}"), &format!("{commit}:{name}")).await;
        if let Err(error) = run.forget(MADE).await {
            // The next commit takes its place: what the remote has taken is no failure.
            tracing::warn!(url = %remote.url, %error, "cannot forget a commit that was pushed");
        }
        held.close();
        pushed?;
        Ok(commit)
    }

    /// Removes a branch of the remote while it is at this commit.
    ///
    /// # Errors
    /// As [`Mirrors::push`].
    pub async fn remove_branch(&self, remote: &Remote, branch: &str, at: Oid) -> Result<()> {
        let name = full(branch)?;
        self.check_pushable(remote)?;
        let held = self.hold(remote).await?;
        let run = held.run();
        run.push(&format!("{name}:{at}"), &format!(":{name}")).await
    }
}
