//! The git repository that the demo deploys from: a sample made on disk, or a person's own.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, bail};
use tokio::process::Command;

/// The sample repository's files: path and content.
const SAMPLE: &[(&str, &str)] = &[
    ("README.md", include_str!("repository/README.md")),
    ("web/deployment.yaml", include_str!("repository/web/deployment.yaml")),
    ("web/service.yaml", include_str!("repository/web/service.yaml")),
    ("web/config.yaml.liquid", include_str!("repository/web/config.yaml.liquid")),
    ("team/access.yaml", include_str!("repository/team/access.yaml")),
    ("broken/config.yaml", include_str!("repository/broken/config.yaml")),
    ("infra/main.tf", include_str!("repository/infra/main.tf")),
    ("infra/plan.sh", include_str!("repository/infra/plan.sh")),
    ("infra/apply.sh", include_str!("repository/infra/apply.sh")),
    ("infra/undo.sh", include_str!("repository/infra/undo.sh")),
    ("infra/greeting.txt", include_str!("repository/infra/greeting.txt")),
];

/// The object that `--once` adds to prove that a commit arrives.
pub(super) const PROOF_NAME: &str = "plural-demo-proof";

/// A git working tree on this disk that the demo may read, and commit to when it made it.
#[derive(Debug, Clone)]
pub(super) struct Repository {
    path: PathBuf,
}

impl Repository {
    /// Makes the sample repository at `path`, or takes up the one that an earlier run left there.
    pub(super) async fn sample(path: PathBuf) -> anyhow::Result<Self> {
        let repository = Self { path };
        if repository.path.join(".git").exists() {
            repository.identify().await?;
            return Ok(repository);
        }
        for (name, content) in SAMPLE {
            let file = repository.path.join(name);
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            }
            fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        }
        repository.git(&["init", "--quiet", "--initial-branch=main"]).await?;
        repository.identify().await?;
        repository.git(&["add", "--all"]).await?;
        repository.commit("a web server and its team").await?;
        Ok(repository)
    }

    /// A private clone of `source` at `path`, so that nothing is ever written to the original.
    pub(super) async fn clone_of(
        source: &str,
        reference: Option<&str>,
        path: PathBuf,
    ) -> anyhow::Result<Self> {
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot empty {}", path.display()))?;
        }
        let mut command = Command::new("git");
        command.args(["clone", "--quiet", "--no-hardlinks"]);
        if let Some(reference) = reference {
            command.arg(format!("--branch={reference}"));
        }
        command.arg("--").arg(source).arg(&path);
        run(command, "git clone").await?;
        let repository = Self { path };
        // A clone of a tag stands on no branch; the demo commits to one of its own either way.
        repository.git(&["checkout", "--quiet", "-B", "plural-demo"]).await?;
        Ok(repository)
    }

    /// A repository that exists already and is only read.
    pub(super) fn existing(path: &Path) -> anyhow::Result<Self> {
        let path = path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
        if !path.join(".git").exists() && !path.join("HEAD").exists() {
            bail!("{} is not a git repository; use its root, or a URL", path.display());
        }
        Ok(Self { path })
    }

    /// The folder that holds the repository.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The branch that is checked out.
    pub(super) async fn branch(&self) -> anyhow::Result<String> {
        self.git(&["symbolic-ref", "--short", "HEAD"]).await
    }

    /// The commit that `HEAD` names, as 40 hex digits.
    pub(super) async fn head(&self) -> anyhow::Result<String> {
        self.git(&["rev-parse", "HEAD"]).await
    }

    /// When the checked-out branch last moved, as exactly as the file system keeps it.
    pub(super) async fn moved_at(&self) -> anyhow::Result<SystemTime> {
        let log = self.git(&["rev-parse", "--git-path", "logs/HEAD"]).await?;
        let file = self.path.join(log);
        let modified = fs::metadata(&file).and_then(|about| about.modified());
        modified.with_context(|| format!("cannot read the time of {}", file.display()))
    }

    /// Adds a ConfigMap named [`PROOF_NAME`] that carries `marker` under `folder`, and commits it.
    /// Returns the new commit.
    pub(super) async fn commit_proof(&self, folder: &str, marker: &str) -> anyhow::Result<String> {
        let name = format!("{PROOF_NAME}.yaml");
        let file = self.path.join(folder).join(&name);
        let content = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {PROOF_NAME}\ndata:\n  marker: {marker:?}\n"
        );
        fs::write(&file, content).with_context(|| format!("cannot write {}", file.display()))?;
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        self.git(&["add", "--force", "--", &path]).await?;
        self.commit("prove that a commit arrives").await?;
        self.head().await
    }

    /// Makes sure that a person can commit here: git refuses to without a name and an address.
    async fn identify(&self) -> anyhow::Result<()> {
        for (name, value) in [("user.name", "plural demo"), ("user.email", "demo@localhost")] {
            // Fails where nothing is set. What a person has set for all their repositories stays.
            if self.git(&["config", "--get", name]).await.is_err() {
                self.git(&["config", "--local", name, value]).await?;
            }
        }
        Ok(())
    }

    async fn commit(&self, message: &str) -> anyhow::Result<()> {
        // An identity and no signing of its own: a person's configuration must not be needed, nor used.
        self.git(&[
            "-c",
            "user.name=plural demo",
            "-c",
            "user.email=demo@localhost",
            "-c",
            "commit.gpgsign=false",
            "-c",
            "core.hooksPath=/dev/null",
            "commit",
            "--quiet",
            "--message",
            message,
        ])
        .await?;
        Ok(())
    }

    async fn git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.path).args(arguments);
        run(command, &format!("git {}", arguments.first().copied().unwrap_or_default())).await
    }
}

/// Runs a git command to its end and returns what it printed, without the last line break.
async fn run(mut command: Command, what: &str) -> anyhow::Result<String> {
    // A hook of the caller's git exports these; they would point us at another repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    command.env("GIT_TERMINAL_PROMPT", "0").kill_on_drop(true);
    let output = match command.output().await {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("cannot run git: install it and make sure that it is on the PATH")
        }
        Err(error) => return Err(error).context("cannot run git"),
    };
    if !output.status.success() {
        bail!("{what} failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
