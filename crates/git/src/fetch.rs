//! Running the `git` program: its isolated surroundings, its credentials, its time limits.
//!
//! Nothing of the machine's or the user's git configuration is read. Credentials, proxies and keys are in files that only
//! this user may read, in a folder made for one run and removed after it: never in arguments or the environment.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::ExposeSecret as _;
use tokio::{io::AsyncReadExt as _, process::Child};

use crate::{
    error::{Error, Result},
    known_hosts,
    mirrors::{NewHostKeys, Options},
    quota::Room,
    remote::{Credentials, HostKeys, Remote, RemoteUrl},
    route::{Route, Trouble},
    stderr,
};

/// How much of what git says is kept.
const STDERR_BYTES: usize = 64 << 10;

/// How much of what git writes is read.
const OUTPUT_BYTES: u64 = 1 << 20;

/// How long git may take to tidy up after it was asked to stop.
const GRACE: Duration = Duration::from_millis(500);

/// Findings of fsck that old repositories have, made by old versions of git and by other programs. Large forges ignore them
/// too.
const FSCK_IGNORED: [&str; 6] = [
    "badTimezone",
    "missingSpaceBeforeDate",
    "zeroPaddedFilemode",
    "missingTaggerEntry",
    "missingSpaceBeforeEmail",
    "badDateOverflow",
];

/// Nothing takes the place of what was fetched alone: by its id, or by the name of a pull request.
const SINGLES: [&str; 4] = [
    "+refs/plural/none/*:refs/plural/commits/*",
    "+refs/plural/none/*:refs/plural/pull/*",
    "+refs/plural/none/*:refs/plural/merge-requests/*",
    "+refs/plural/none/*:refs/plural/pull-requests/*",
];

/// One run of git on one mirror.
pub(crate) struct Run<'a> {
    pub(crate) options: &'a Options,
    pub(crate) remote: &'a Remote,
    /// The bare repository, which is git's working directory: so a run that outlives us can be found again.
    pub(crate) repo: &'a Path,
    /// Where ssh host keys are kept when the first one seen is accepted.
    pub(crate) known_hosts: &'a Path,
    /// Folder in which the run's own folder is made.
    pub(crate) sessions: &'a Path,
    pub(crate) limit: Duration,
    pub(crate) room: Room,
    /// Whether anything was fetched before.
    pub(crate) first: bool,
}

impl Run<'_> {
    /// Fetches every branch and tag, and what `HEAD` names.
    pub(crate) async fn fetch_all(&self) -> Result<()> {
        const HEADS: &str = "+refs/heads/*:refs/heads/*";
        const TAGS: &str = "+refs/tags/*:refs/tags/*";
        const HEAD: &str = "+HEAD:refs/plural/HEAD";
        match self
            .remotely(&[
                "fetch",
                "--quiet",
                "--prune",
                "--no-tags",
                "--no-write-fetch-head",
                "origin",
                HEADS,
                TAGS,
                HEAD,
            ])
            .await
        {
            // An empty repository, or one whose default branch is gone, has no HEAD to give.
            Err(
                Error::Git { detail, .. } | Error::NotFound { detail, .. } | Error::Corrupt { detail, .. },
            ) if detail.contains("couldn't find remote ref HEAD") => {
                self.remotely(&[
                    "fetch",
                    "--quiet",
                    "--prune",
                    "--no-tags",
                    "--no-write-fetch-head",
                    "origin",
                    HEADS,
                    TAGS,
                ])
                .await
            }
            other => other,
        }
    }

    /// Fetches one commit that no branch or tag leads to. Servers may refuse that.
    pub(crate) async fn fetch_commit(&self, commit: &str) -> Result<()> {
        let spec = format!("+{commit}:refs/plural/commits/{commit}");
        self.remotely(&["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "origin", &spec]).await
    }

    /// Fetches a reference of the remote that is no branch and no tag, such as the head of a pull request; a later fetch of it takes the
    /// place of this one.
    pub(crate) async fn fetch_reference(&self, reference: &str) -> Result<()> {
        let name = reference.strip_prefix("refs/").unwrap_or(reference);
        let spec = format!("+{reference}:refs/plural/{name}");
        self.remotely(&["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "origin", &spec]).await
    }

    /// Writes everything that references lead to into one file.
    pub(crate) async fn bundle(&self, file: &Path) -> Result<()> {
        let file =
            file.to_str().ok_or_else(|| Error::bad("path", &file.display().to_string(), "it is no text"))?;
        self.git(&["bundle", "create", "--quiet", file, "--all"]).await
    }

    /// Fetches everything from such a file; asks nobody else.
    pub(crate) async fn fetch_bundle(&self, file: &Path) -> Result<()> {
        let file =
            file.to_str().ok_or_else(|| Error::bad("path", &file.display().to_string(), "it is no text"))?;
        let arguments = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", file, "+refs/*:refs/*"];
        self.git_with(&arguments, Some("file"), &Route::default()).await
    }

    /// Makes what a stream of `git fast-import` tells.
    pub(crate) async fn import(&self, stream: &[u8]) -> Result<()> {
        let arguments = ["fast-import", "--quiet", "--force", "--done"];
        let streams = (self.given(stream)?.into(), Stdio::null());
        self.git_reading(&arguments, None, &Route::default(), streams).await
    }

    /// Runs git on the mirror alone, with this to read: how it ended, and what it wrote either way.
    pub(crate) async fn asked(&self, arguments: &[&str], input: &[u8]) -> Result<(Result<()>, Vec<u8>)> {
        let trouble = |e| Error::io("cannot keep what git writes in", self.sessions, e);
        let mut output = tempfile::tempfile_in(self.sessions).map_err(trouble)?;
        let written = output.try_clone().map_err(trouble)?;
        let streams = (self.given(input)?.into(), written.into());
        let ended = self.git_reading(arguments, None, &Route::default(), streams).await;
        let mut said = Vec::new();
        output.rewind().map_err(trouble)?;
        output.take(OUTPUT_BYTES).read_to_end(&mut said).map_err(trouble)?;
        Ok((ended, said))
    }

    /// A file that git reads from its beginning.
    fn given(&self, content: &[u8]) -> Result<fs::File> {
        let file = tempfile::tempfile_in(self.sessions).and_then(|mut file| {
            file.write_all(content)?;
            file.rewind()?;
            Ok(file)
        });
        file.map_err(|e| Error::io("cannot write a commit in", self.sessions, e))
    }

    /// Moves a reference of the remote, while it is as the lease says.
    pub(crate) async fn push(&self, lease: &str, what: &str) -> Result<()> {
        let lease = format!("--force-with-lease={lease}");
        self.remotely(&["push", "--quiet", "--no-verify", &lease, "origin", what]).await
    }

    /// Removes a reference of the mirror.
    pub(crate) async fn forget(&self, reference: &str) -> Result<()> {
        self.git(&["update-ref", "-d", reference]).await
    }

    /// Repacks, and removes objects that nothing has led to for a day. What was fetched alone is fetched again where somebody wants it: the
    /// heads of pull requests that are over would stay for ever.
    pub(crate) async fn tidy(&self) -> Result<()> {
        let mut arguments = vec!["fetch", "--quiet", "--prune", "--no-tags", "--no-write-fetch-head", "."];
        arguments.extend(SINGLES);
        if let Err(error) = self.git_with(&arguments, Some("file"), &Route::default()).await {
            tracing::warn!(url = %self.remote.url, %error, "cannot forget commits that were fetched alone");
        }
        self.git(&["gc", "--quiet", "--prune=1.day.ago"]).await
    }

    /// Whether the repository is whole: every reference can be read and every object that they lead to is there.
    pub(crate) async fn is_whole(&self) -> Result<bool> {
        match self.git(&["fsck", "--connectivity-only", "--no-progress", "--no-dangling"]).await {
            Ok(()) => Ok(true),
            Err(
                e @ (Error::NoProgram { .. }
                | Error::TimedOut { .. }
                | Error::DiskFull { .. }
                | Error::Io { .. }),
            ) => Err(e),
            Err(_) => Ok(false),
        }
    }

    /// Runs git on the mirror alone.
    async fn git(&self, arguments: &[&str]) -> Result<()> {
        self.git_with(arguments, None, &Route::default()).await
    }

    /// Runs git with a way to the remote.
    async fn remotely(&self, arguments: &[&str]) -> Result<()> {
        let route = Route::to(self.remote, self.options).await?;
        self.git_with(arguments, None, &route).await
    }

    /// `reaching` is the one protocol that git may speak, in place of that of the remote.
    async fn git_with(&self, arguments: &[&str], reaching: Option<&str>, route: &Route) -> Result<()> {
        self.git_reading(arguments, reaching, route, (Stdio::null(), Stdio::null())).await
    }

    /// The same, for a command that reads and writes.
    async fn git_reading(
        &self,
        arguments: &[&str],
        reaching: Option<&str>,
        route: &Route,
        (input, output): (Stdio, Stdio),
    ) -> Result<()> {
        let session = Session::new(self, route)?;
        let mut command = self.room.command(self.options);
        command
            .args(arguments)
            .current_dir(self.repo)
            .env_clear()
            .envs(session.environment(self))
            .envs(reaching.map(|way| ("GIT_ALLOW_PROTOCOL", way)))
            .stdin(input)
            .stdout(output)
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let started = Instant::now();
        let child = command.spawn().map_err(|e| Error::NoProgram {
            program: self.options.git.display().to_string(),
            detail: e.to_string(),
        })?;
        let mut group = Group { child };
        let ended = tokio::time::timeout(self.limit, group.wait()).await;
        let Ok(ended) = ended else {
            group.stop().await;
            return Err(Error::TimedOut {
                url: self.remote.url.to_string(),
                after: started.elapsed(),
                detail: format!("git did not end within {} s and was stopped", self.limit.as_secs_f32()),
            });
        };
        let (status, said) = ended.map_err(|e| Error::io("cannot wait for git in", self.repo, e))?;
        let (took, succeeded) = (started.elapsed(), status.success());
        tracing::debug!(
            url = %self.remote.url,
            verb = arguments.first().copied().unwrap_or_default(),
            duration_ms = took.as_millis() as u64,
            succeeded,
            "git ended"
        );
        if succeeded {
            return Ok(());
        }
        if let Some(126 | 127) = status.code() {
            let program = self.options.git.display().to_string();
            return Err(Error::NoProgram { program, detail: stderr::clean(&said, &[]) });
        }
        if let Some(limit) = self.room.reached(&said, self.options, &self.remote.url.to_string()) {
            return Err(limit);
        }
        let folder = self.repo.parent().unwrap_or(self.repo).display().to_string();
        let error = match route.trouble(self.remote) {
            Trouble::Refused(error) => return Err(error),
            Trouble::Failed(detail) => {
                Error::Unreachable { url: self.remote.url.to_string(), detail: detail.to_owned() }
            }
            Trouble::None => stderr::classify(self.remote, &said, took, &folder),
        };
        if !route.is_inside() {
            return Err(error);
        }
        // The operator may know what answers in his network; whoever named the address may not.
        tracing::info!(url = %self.remote.url, error = %error, "cannot fetch from an address of the own network");
        Err(stderr::without_answer(error))
    }
}

/// git with everything that it started. Dropping it kills all of them.
struct Group {
    child: Child,
}

impl Group {
    /// How it ended, and what it said.
    async fn wait(&mut self) -> io::Result<(ExitStatus, String)> {
        let mut said = Vec::new();
        if let Some(stderr) = &mut self.child.stderr {
            let mut buffer = [0; 4096];
            loop {
                let n = stderr.read(&mut buffer).await?;
                if n == 0 {
                    break;
                }
                let room = STDERR_BYTES.saturating_sub(said.len());
                said.extend_from_slice(&buffer[..n.min(room)]);
            }
        }
        let status = self.child.wait().await?;
        Ok((status, String::from_utf8_lossy(&said).into_owned()))
    }

    fn signal(&self, signal: Signal) {
        // No id means that it was reaped: its number may be another's by now.
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(pid) = pid {
            // It may be gone already, which is what is wanted.
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Asks it to stop, so that git removes its lock files, and kills it when it does not.
    async fn stop(&mut self) {
        self.signal(Signal::TERM);
        let _ = tokio::time::timeout(GRACE, self.leader_ends()).await;
        // Helpers of git may have stayed although git itself ended; until the leader is reaped, the group is ours.
        self.signal(Signal::KILL);
        let _ = self.child.wait().await;
    }

    /// Waits until the leader is a zombie, without reaping it.
    async fn leader_ends(&self) {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else { return };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        while let Ok(None) = waitid(WaitId::Pid(pid), options) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// The folder of one run: configuration, credentials, keys. Removed when dropped.
struct Session {
    folder: tempfile::TempDir,
}

impl Session {
    fn new(run: &Run<'_>, route: &Route) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("run-")
            .permissions(crate::sessions::owner_only())
            .tempdir_in(run.sessions)
            .map_err(|e| Error::io("cannot make a folder in", run.sessions, e))?;
        let session = Self { folder };
        let config = session.config(run, route)?;
        session.write("gitconfig", &config, 0o600)?;
        Ok(session)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, content: &str, mode: u32) -> Result<PathBuf> {
        let path = self.path(name);
        fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)
            .and_then(|mut file| file.write_all(content.as_bytes()))
            .map_err(|e| Error::io("cannot write", &path, e))?;
        Ok(path)
    }

    fn environment(&self, run: &Run<'_>) -> Vec<(&'static str, OsString)> {
        let folder = self.folder.path().as_os_str();
        let null = OsStr::new("/dev/null");
        let mut all: Vec<(&'static str, OsString)> = [
            ("PATH", run.options.path.as_os_str()),
            ("HOME", folder),
            ("TMPDIR", folder),
            ("LC_ALL", OsStr::new("C")),
            ("GIT_CONFIG_NOSYSTEM", OsStr::new("1")),
            ("GIT_CONFIG_SYSTEM", null),
            ("GIT_CONFIG_GLOBAL", self.path("gitconfig").as_os_str()),
            ("GIT_ATTR_NOSYSTEM", OsStr::new("1")),
            ("GIT_TERMINAL_PROMPT", OsStr::new("0")),
            ("GIT_LFS_SKIP_SMUDGE", OsStr::new("1")),
            ("GIT_ALLOW_PROTOCOL", OsStr::new(protocol(&run.remote.url))),
            ("GIT_DIR", run.repo.as_os_str()),
        ]
        .into_iter()
        .map(|(k, v)| (k, v.to_owned()))
        .collect();
        if let Credentials::SshKey { passphrase: Some(_), .. } = &run.remote.credentials {
            all.push(("SSH_ASKPASS", self.path("askpass").into_os_string()));
            all.push(("SSH_ASKPASS_REQUIRE", "force".into()));
            all.push(("DISPLAY", ":0".into()));
        }
        all
    }

    /// git's configuration for this run: all of it, since no other file is read but the mirror's own short one.
    fn config(&self, run: &Run<'_>, route: &Route) -> Result<String> {
        let stall = run.options.stall.as_secs().max(1);
        // A first fetch carries more, and may begin with a long silence while the other side counts.
        let (slowest, patience) = if run.first { ("1024", 2 * stall) } else { ("100", stall) };
        let mut config = Config(String::new());
        config.section("core", &[("hooksPath", "/dev/null"), ("askPass", ""), ("logAllRefUpdates", "false")]);
        config.section("remote \"origin\"", &[("url", &fetch_url(&run.remote.url))]);
        config.section("protocol", &[("allow", "never")]);
        config.section(&format!("protocol \"{}\"", protocol(&run.remote.url)), &[("allow", "always")]);
        config.section(
            "http",
            &[
                ("lowSpeedLimit", slowest),
                ("lowSpeedTime", &patience.to_string()),
                ("followRedirects", "initial"),
                ("userAgent", "plural"),
            ],
        );
        // One pack a fetch; packs are joined by `tidy`, never in the middle of a fetch.
        config.section(
            "fetch",
            &[("recurseSubmodules", "false"), ("unpackLimit", "1"), ("showForcedUpdates", "false")],
        );
        if run.options.fsck {
            config.section("transfer", &[("fsckObjects", "true")]);
            // What git itself wrote years ago, and what does no harm.
            let old = FSCK_IGNORED.map(|name| (name, "ignore"));
            config.section("fetch \"fsck\"", &old);
        }
        // Within the limit of memory: what is larger is copied as it is.
        config.section("pack", &[("threads", "2"), ("windowMemory", "128m"), ("deltaCacheSize", "64m")]);
        config.section("core", &[("bigFileThreshold", "64m"), ("deltaBaseCacheLimit", "64m")]);
        config.section("gc", &[("auto", "0"), ("autoDetach", "false")]);
        config.section("maintenance", &[("auto", "false")]);
        config.section("submodule", &[("recurse", "false")]);
        config.section("safe", &[("directory", "*")]);
        config.section("credential", &[("helper", ""), ("useHttpPath", "false")]);
        self.http(run, route, &mut config)?;
        if let RemoteUrl::Ssh { .. } = &run.remote.url {
            let command = self.ssh_command(run, route)?;
            config.section("core", &[("sshCommand", &command)]);
            config.section("ssh", &[("variant", "ssh")]);
        }
        Ok(config.0)
    }

    fn http(&self, run: &Run<'_>, route: &Route, config: &mut Config) -> Result<()> {
        let RemoteUrl::Http { tls, authority, .. } = &run.remote.url else { return Ok(()) };
        if let Credentials::Basic { username, password } = &run.remote.credentials {
            // git's own helper gives them to this scheme, host and port only, so no redirect takes them elsewhere.
            let scheme = if *tls { "https" } else { "http" };
            let user = stderr::percent_encode(username);
            let password = stderr::percent_encode(password.expose_secret());
            let path =
                self.write("credentials", &format!("{scheme}://{user}:{password}@{authority}\n"), 0o600)?;
            config.section("credential", &[("helper", &format!("store --file={}", shell_quote(&path)))]);
        }
        if let Some(proxy) = &route.proxy {
            config.section("http", &[("proxy", proxy.expose_secret())]);
        }
        if let Some(resolve) = &route.resolve {
            config.section("http", &[("curloptResolve", resolve)]);
        }
        if let Some(ca) = &run.remote.ca_pem {
            let path = self.write("ca.pem", ca, 0o600)?;
            config.section("http", &[("sslCAInfo", &path.display().to_string())]);
        }
        Ok(())
    }

    fn ssh_command(&self, run: &Run<'_>, route: &Route) -> Result<String> {
        let none = PathBuf::from("/dev/null");
        let (known_hosts, forges, strict) = match &run.remote.host_keys {
            HostKeys::Pinned(text) => (self.write("known_hosts", text, 0o600)?, none, "yes"),
            HostKeys::AcceptNew => {
                let forges = self.write("known_forges", known_hosts::FORGES, 0o600)?;
                let strict = match run.options.new_host_keys {
                    NewHostKeys::Accept => "accept-new",
                    NewHostKeys::Refuse => "yes",
                };
                (run.known_hosts.to_path_buf(), forges, strict)
            }
        };
        let stall = run.options.stall.as_secs().max(1);
        let mut words = vec![shell_quote(&run.options.ssh), "-F".to_owned(), "/dev/null".to_owned()];
        let mut option = |text: String| words.extend(["-o".to_owned(), shell_quote(Path::new(&text))]);
        // Quoted once more: ssh splits this option's value at spaces.
        option(format!("UserKnownHostsFile=\"{}\"", known_hosts.display()));
        option(format!("GlobalKnownHostsFile=\"{}\"", forges.display()));
        option(format!("StrictHostKeyChecking={strict}"));
        if let Some(target) = &route.ssh {
            // ssh connects to the address that was checked, and knows the host by its name.
            option(format!("HostName={}", target.address));
            option(format!("HostKeyAlias={}", target.name));
        }
        option(format!("ConnectTimeout={stall}"));
        option(format!("ServerAliveInterval={}", (stall / 2).max(1)));
        for fixed in [
            "ServerAliveCountMax=2",
            "CheckHostIP=no",
            "IdentitiesOnly=yes",
            "IdentityAgent=none",
            "PasswordAuthentication=no",
            "KbdInteractiveAuthentication=no",
            "NumberOfPasswordPrompts=1",
            "HashKnownHosts=no",
            "UpdateHostKeys=no",
            "PermitLocalCommand=no",
            "ControlMaster=no",
            "ControlPath=none",
            "ClearAllForwardings=yes",
        ] {
            option(fixed.to_owned());
        }
        let mut locked = false;
        match &run.remote.credentials {
            Credentials::SshKey { private_key, passphrase } => {
                // OpenSSH refuses a key whose last line is not ended.
                let key = format!("{}\n", private_key.expose_secret().trim_end().replace("\r\n", "\n"));
                let path = self.write("key", &key, 0o600)?;
                option(format!("IdentityFile=\"{}\"", path.display()));
                if let Some(passphrase) = passphrase {
                    locked = true;
                    let secret =
                        self.write("passphrase", &format!("{}\n", passphrase.expose_secret()), 0o600)?;
                    let script = format!("#!/bin/sh\nexec cat {}\n", shell_quote(&secret));
                    self.write("askpass", &script, 0o700)?;
                }
            }
            Credentials::None | Credentials::Basic { .. } => option("IdentityFile=none".to_owned()),
        }
        // Batch mode also forbids to ask for the key's passphrase.
        option(format!("BatchMode={}", if locked { "no" } else { "yes" }));
        Ok(words.join(" "))
    }
}

fn protocol(url: &RemoteUrl) -> &'static str {
    match url {
        RemoteUrl::Http { tls: true, .. } => "https",
        RemoteUrl::Http { tls: false, .. } => "http",
        RemoteUrl::Ssh { .. } => "ssh",
        RemoteUrl::Local(_) => "file",
    }
}

fn fetch_url(url: &RemoteUrl) -> String {
    url.to_string()
}

/// Text in git's configuration syntax.
struct Config(String);

impl Config {
    fn section(&mut self, name: &str, values: &[(&str, &str)]) {
        use std::fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "[{name}]");
        for (key, value) in values {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = writeln!(self.0, "\t{key} = \"{value}\"");
        }
    }
}

/// Quotes a word for a POSIX shell, which git runs helpers and ssh with.
fn shell_quote(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}
