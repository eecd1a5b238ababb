//! A bare git repository on disk, and commits in it.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicI64, Ordering},
};

use anyhow::Context as _;

use crate::{
    folder::OwnedFolder,
    process::{in_path, isolate},
};

/// The first commit's time; each later one is a minute younger, so the same commits have the same ids.
const EPOCH: i64 = 1_767_225_600;

/// A bare repository, `main` checked out nowhere. Removed on drop.
#[derive(Debug)]
pub struct GitRemote {
    folder: OwnedFolder,
    name: String,
    clock: AtomicI64,
}

impl GitRemote {
    /// An empty repository.
    ///
    /// # Errors
    /// When `git` is missing or fails.
    pub fn new() -> anyhow::Result<Self> {
        Self::named("fleet.git")
    }

    /// An empty repository in a folder of this name (the last part of its URLs).
    ///
    /// # Errors
    /// When `git` is missing or fails.
    pub fn named(name: &str) -> anyhow::Result<Self> {
        let folder = OwnedFolder::new("git")?;
        let remote = Self { folder, name: name.to_owned(), clock: AtomicI64::new(EPOCH) };
        run(git(remote.root()).args(["init", "--quiet", "--bare", "--initial-branch=main", name]), None)?;
        // Clients may fetch any commit and leave blobs out, as the large hosts allow.
        for setting in ["uploadpack.allowAnySHA1InWant", "uploadpack.allowFilter", "http.receivepack"] {
            remote.git(["config", setting, "true"])?;
        }
        Ok(remote)
    }

    /// The folder that holds the repository, for a server of several.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The repository's own folder: a URL for a clone by path.
    pub fn path(&self) -> PathBuf {
        self.root().join(&self.name)
    }

    /// `file://…`, which makes git use its transport where a plain path would link files.
    pub fn file_url(&self) -> String {
        format!("file://{}", self.path().display())
    }

    /// The last part of its URLs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begin a commit on a branch (made when it is not there).
    pub fn commit(&self, branch: &str) -> CommitBuilder<'_> {
        CommitBuilder {
            remote: self,
            branch: branch.to_owned(),
            message: "change".to_owned(),
            changes: BTreeMap::new(),
            from_nothing: false,
        }
    }

    /// Commit files on `main`; returns the commit's id in hex.
    ///
    /// # Errors
    /// When `git` fails.
    pub fn push_files<P: AsRef<str>, C: AsRef<[u8]>>(
        &self,
        files: impl IntoIterator<Item = (P, C)>,
    ) -> anyhow::Result<String> {
        let mut commit = self.commit("main");
        for (path, content) in files {
            commit = commit.file(path.as_ref(), content);
        }
        commit.push()
    }

    /// Point a ref (such as `refs/tags/v1.0.0`) at a commit, a branch or another ref; makes it or moves it.
    ///
    /// # Errors
    /// When the target is unknown.
    pub fn set_ref(&self, name: &str, target: &str) -> anyhow::Result<()> {
        let id = self.resolve(target)?;
        self.git(["update-ref", name, &id]).map(drop)
    }

    /// An annotated tag.
    ///
    /// # Errors
    /// When the target is unknown or the tag exists.
    pub fn annotate(&self, tag: &str, target: &str) -> anyhow::Result<()> {
        self.git(["tag", "--annotate", "--message", tag, tag, target]).map(drop)
    }

    /// Remove a ref.
    ///
    /// # Errors
    /// When `git` fails.
    pub fn delete_ref(&self, name: &str) -> anyhow::Result<()> {
        self.git(["update-ref", "-d", name]).map(drop)
    }

    /// The id of the commit that a revision names.
    ///
    /// # Errors
    /// When it names none.
    pub fn resolve(&self, revision: &str) -> anyhow::Result<String> {
        self.git(["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{revision}^{{commit}}")])
            .with_context(|| format!("{revision} names no commit"))
    }

    /// Feed `git fast-import` with what `write` writes in its language: for histories that are too long to be made a
    /// commit at a time. Times are raw; the stream ends with `done`, which is written here.
    ///
    /// # Errors
    /// When `write` fails, or git does not understand it.
    pub fn import(&self, write: impl FnOnce(&mut dyn io::Write) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut command = git(&self.path());
        command.args(["fast-import", "--quiet", "--done", "--force", "--date-format=raw"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot run git")?;
        let stdin = child.stdin.take().context("git has no stdin")?;
        let mut stdin = io::BufWriter::with_capacity(1 << 20, stdin);
        let written =
            write(&mut stdin).and_then(|()| Ok(writeln!(stdin, "done")?)).and_then(|()| Ok(stdin.flush()?));
        drop(stdin);
        let output = child.wait_with_output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        // When git ends early its own message says more than our broken pipe.
        anyhow::ensure!(output.status.success(), "git failed: {}", stderr.trim());
        written
    }

    /// The files of a commit: path, content, whether it is executable.
    ///
    /// # Errors
    /// When it is no commit.
    pub fn files(&self, commit: &str) -> anyhow::Result<Vec<(String, Vec<u8>, bool)>> {
        let output = git(&self.path()).args(["archive", "--format=tar", commit]).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "git failed: {}", stderr.trim());
        let mut archive = tar::Archive::new(output.stdout.as_slice());
        let mut files = Vec::new();
        for entry in archive.entries()? {
            let mut entry = entry?;
            if !entry.header().entry_type().is_file() {
                continue;
            }
            let path = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            let executable = entry.header().mode()? & 0o100 != 0;
            let mut content = Vec::new();
            entry.read_to_end(&mut content)?;
            files.push((path, content, executable));
        }
        Ok(files)
    }

    /// Run git in the repository, apart from the caller's configuration; returns stdout, trimmed.
    ///
    /// # Errors
    /// When it exits with another code than 0; the error holds its stderr.
    pub fn git<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> anyhow::Result<String> {
        run(git(&self.path()).args(args), None)
    }
}

/// A commit in the making.
#[derive(Debug)]
#[must_use = "a commit is made by push"]
pub struct CommitBuilder<'a> {
    remote: &'a GitRemote,
    branch: String,
    message: String,
    changes: BTreeMap<String, Change>,
    from_nothing: bool,
}

#[derive(Debug)]
enum Change {
    Blob { mode: &'static str, content: Vec<u8> },
    Submodule { commit: String },
    Remove,
}

impl CommitBuilder<'_> {
    /// The commit message.
    pub fn message(mut self, message: &str) -> Self {
        message.clone_into(&mut self.message);
        self
    }

    /// Add or replace a file.
    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.blob(path, "100644", content.as_ref())
    }

    /// Add or replace an executable file.
    pub fn executable(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        self.blob(path, "100755", content.as_ref())
    }

    /// Add or replace a symbolic link.
    pub fn symlink(self, path: &str, target: &str) -> Self {
        self.blob(path, "120000", target.as_bytes())
    }

    /// Add or replace a submodule that points at a commit.
    pub fn submodule(mut self, path: &str, commit: &str) -> Self {
        self.changes.insert(path.to_owned(), Change::Submodule { commit: commit.to_owned() });
        self
    }

    /// Remove a file or a folder.
    pub fn remove(mut self, path: &str) -> Self {
        self.changes.insert(path.to_owned(), Change::Remove);
        self
    }

    /// Start from no parent and no files: what a force push of another history does.
    pub fn from_nothing(mut self) -> Self {
        self.from_nothing = true;
        self
    }

    /// Write the commit and move the branch to it; returns the commit's id in hex.
    ///
    /// # Errors
    /// When `git` refuses a path or fails.
    pub fn push(self) -> anyhow::Result<String> {
        let Self { remote, branch, message, changes, from_nothing } = self;
        let reference = format!("refs/heads/{branch}");
        let time = remote.clock.fetch_add(60, Ordering::Relaxed);
        let parent = if from_nothing { None } else { remote.resolve(&reference).ok() };

        let mut stream = Vec::new();
        // A temporary ref holds the new history, so that the branch moves once, at the end.
        writeln!(stream, "commit refs/plural-testkit/{branch}")?;
        writeln!(stream, "committer Test <test@example.com> {time} +0000")?;
        data(&mut stream, message.as_bytes())?;
        if let Some(parent) = parent {
            writeln!(stream, "from {parent}")?;
        }
        for (path, change) in &changes {
            let path = quoted(path);
            match change {
                Change::Blob { mode, content } => {
                    writeln!(stream, "M {mode} inline {path}")?;
                    data(&mut stream, content)?;
                }
                Change::Submodule { commit } => writeln!(stream, "M 160000 {commit} {path}")?,
                Change::Remove => writeln!(stream, "D {path}")?,
            }
        }
        writeln!(stream, "done")?;
        run(
            git(&remote.path()).args(["fast-import", "--quiet", "--done", "--force", "--date-format=raw"]),
            Some(&stream),
        )?;
        let temporary = format!("refs/plural-testkit/{branch}");
        let id = remote.resolve(&temporary)?;
        remote.set_ref(&reference, &id)?;
        remote.delete_ref(&temporary)?;
        Ok(id)
    }

    fn blob(mut self, path: &str, mode: &'static str, content: &[u8]) -> Self {
        self.changes.insert(path.to_owned(), Change::Blob { mode, content: content.to_owned() });
        self
    }
}

fn data(stream: &mut Vec<u8>, bytes: &[u8]) -> anyhow::Result<()> {
    writeln!(stream, "data {}", bytes.len())?;
    stream.extend_from_slice(bytes);
    stream.push(b'\n');
    Ok(())
}

/// A path as fast-import reads it: C-quoted, so that spaces, quotes and line ends are safe.
fn quoted(path: &str) -> String {
    let escaped = path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

/// The `git` program in a folder, apart from the caller's configuration, prompts and credentials.
pub fn git(folder: &Path) -> Command {
    let mut command = Command::new(in_path("git"));
    isolate(&mut command, folder);
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_NAME", "Test")
        .env("GIT_AUTHOR_EMAIL", "test@example.com")
        .env("GIT_COMMITTER_NAME", "Test")
        .env("GIT_COMMITTER_EMAIL", "test@example.com");
    command
}

fn run(command: &mut Command, input: Option<&[u8]>) -> anyhow::Result<String> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot run git")?;
    if let Some(mut stdin) = child.stdin.take() {
        // When git ends early its own message says more than our broken pipe.
        drop(stdin.write_all(input.unwrap_or_default()));
    }
    let output = child.wait_with_output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "git failed: {}", stderr.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
