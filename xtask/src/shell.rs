//! Running other programs, visibly.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use serde::Deserialize;

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        // What cargo says as it starts this program: checkouts that share a target folder share the program as well.
        let here = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let here = Path::new(&here);
        here.parent().unwrap_or(here).to_owned()
    })
}

/// The cargo that runs this task, in the caller's folder.
///
/// It does not inherit what cargo told this program about its own package: build scripts that watch these variables would run
/// again, and a dozen crates with them, whenever someone calls cargo without us in between.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let is_ours = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_ours)) {
        command.env_remove(name);
    }
    command
}

/// Say what is run, run it, and fail when it fails.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot run {shown}"))?;
    anyhow::ensure!(status.success(), "`{shown}` failed ({status})");
    Ok(())
}

/// Run it and return stdout.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    let output = command.output().with_context(|| format!("cannot run {shown}"))?;
    anyhow::ensure!(
        output.status.success(),
        "`{shown}` failed ({}): {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{shown}` answered with something other than text"))
}

/// Say what is run, run it with its stderr shown, and return stdout.
pub(crate) fn stdout_of(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    eprintln!("$ {shown}");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
    let output = child
        .and_then(std::process::Child::wait_with_output)
        .with_context(|| format!("cannot run {shown}"))?;
    anyhow::ensure!(output.status.success(), "`{shown}` failed ({})", output.status);
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{shown}` answered with something other than text"))
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words: Vec<String> = std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    words.join(" ")
}

/// Where a program is on `$PATH`.
pub(crate) fn which(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let program = program.as_ref();
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).map(|p| p.join(program)).find(|p| p.is_file())
}

/// Caches that outlive the checkout: `${XDG_CACHE_HOME:-$HOME/.cache}/plural`.
pub(crate) fn cache() -> anyhow::Result<PathBuf> {
    let base = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let base = match base {
        Some(base) => base,
        None => PathBuf::from(env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?)
            .join(".cache"),
    };
    Ok(base.join("plural"))
}

/// Whether this is an unattended run: `CI` is set to something other than nothing, `0` or `false`.
pub(crate) fn in_ci() -> bool {
    env::var("CI").is_ok_and(|v| !matches!(v.as_str(), "" | "0" | "false"))
}

/// `1.2 s`, `75 s`, `12 min 5 s`.
pub(crate) fn took(started: Instant) -> String {
    shown_duration(started.elapsed())
}

/// As [`took`], of a known length.
pub(crate) fn shown_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        _ => format!("{} min {} s", seconds / 60, seconds % 60),
    }
}

/// What `cargo metadata` says of this workspace, without its dependencies' insides.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

/// A package of this workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) targets: Vec<Target>,
}

/// A line of a manifest's dependencies.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) rename: Option<String>,
    /// None: normal; else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

/// Something that is compiled to a file.
#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) src_path: PathBuf,
    /// `lib`, `bin`, `test` and so on.
    #[serde(default)]
    pub(crate) kind: Vec<String>,
    /// Whether its documentation has examples that run as tests.
    #[serde(default)]
    pub(crate) doctest: bool,
}

/// [`Metadata`], read once.
pub(crate) fn metadata() -> anyhow::Result<&'static Metadata> {
    static METADATA: OnceLock<Metadata> = OnceLock::new();
    if let Some(known) = METADATA.get() {
        return Ok(known);
    }
    let read = read_metadata(root())?;
    Ok(METADATA.get_or_init(|| read))
}

/// [`Metadata`] of a checkout.
pub(crate) fn read_metadata(root: &Path) -> anyhow::Result<Metadata> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version=1", "--quiet"]).current_dir(root);
    serde_json::from_str(&output(&mut command)?).context("cannot read cargo's metadata")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        assert_eq!(shown_duration(Duration::from_millis(1240)), "1.2 s");
        assert_eq!(shown_duration(Duration::from_secs(75)), "75 s");
        assert_eq!(shown_duration(Duration::from_secs(725)), "12 min 5 s");
    }

    #[test]
    fn a_command_is_shown_without_its_folder() {
        assert_eq!(shown(Command::new("/usr/bin/true").args(["a", "--b=c"])), "true a --b=c");
    }
}
