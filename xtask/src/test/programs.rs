//! The test programs of this workspace: built once by cargo, then run by the runner itself.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use serde::Deserialize;

use crate::shell;

/// What a test program is linked from, in cargo's words.
const KINDS: [(&str, &str); 2] = [("test", ""), ("bin", "bin ")];

/// One test program.
#[derive(Debug, Clone)]
pub(super) struct Program {
    /// `store it`, `core lib`, `plural bin plural`: the package without its common prefix, and the target.
    pub(super) name: String,
    path: PathBuf,
    manifest: PathBuf,
    package: String,
}

/// A line of cargo's JSON output.
#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact(Artifact),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Build all test programs, and return those of the packages that were asked for.
///
/// # Errors
/// When they do not compile, or no package has such a name.
pub(super) fn build(packages: &[String]) -> anyhow::Result<Vec<Program>> {
    for asked in packages {
        let is_known = shell::metadata()?.packages.iter().any(|package| package.name == *asked);
        anyhow::ensure!(is_known, "no package of this workspace is called {asked}");
    }
    let mut command = cargo_test(packages);
    let printed = shell::stdout_of(command.args(["--no-run", "--message-format=json-render-diagnostics"]))?;
    let names: BTreeMap<&Path, &str> = shell::metadata()?
        .packages
        .iter()
        .map(|package| (package.manifest_path.as_path(), package.name.as_str()))
        .collect();
    let mut programs = read(&printed, &names)?;
    programs.retain(|program| packages.is_empty() || packages.contains(&program.package));
    Ok(programs)
}

/// `cargo test` for these packages, or for all of them.
///
/// The servers' program belongs to the testkit, which has to be part of the same build: a build of fewer packages
/// would choose other features and compile the dependencies twice.
pub(super) fn cargo_test(packages: &[String]) -> Command {
    let mut command = shell::cargo();
    command.arg("test").current_dir(shell::root());
    if packages.is_empty() {
        command.arg("--workspace");
    } else {
        command.args(["--package", "plural-testkit"]);
    }
    for package in packages.iter().filter(|package| *package != "plural-testkit") {
        command.args(["--package", package]);
    }
    command
}

fn read(printed: &str, names: &BTreeMap<&Path, &str>) -> anyhow::Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in printed.lines().filter(|line| line.starts_with('{')) {
        let message = serde_json::from_str(line).context("cannot read what cargo says of a test program")?;
        let Message::CompilerArtifact(artifact) = message else { continue };
        let Artifact { manifest_path, target, profile, executable } = artifact;
        let (Some(path), true) = (executable, profile.test) else { continue };
        let Some(package) = names.get(manifest_path.as_path()) else { continue };
        let short = package.strip_prefix("plural-").unwrap_or(package);
        let kind = KINDS.iter().find(|(kind, _)| target.kind.iter().any(|own| own == kind));
        let name = match kind {
            Some((_, prefix)) => format!("{short} {prefix}{}", target.name),
            None => format!("{short} lib"),
        };
        programs.push(Program { name, path, manifest: manifest_path, package: (*package).to_owned() });
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    programs.dedup_by(|a, b| a.path == b.path);
    Ok(programs)
}

impl Program {
    /// The program in its package's folder, with the variables that `cargo test` would set for it: those of this
    /// task, which cargo runs too, name another package.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        let folder = self.manifest.parent().unwrap_or_else(|| shell::root());
        command
            .current_dir(folder)
            .env("CARGO_MANIFEST_DIR", folder)
            .env("CARGO_MANIFEST_PATH", &self.manifest)
            .env("CARGO_PKG_NAME", &self.package);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_read_from_cargos_messages() {
        let printed = r#"
{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/store/Cargo.toml","target":{"kind":["lib"],"crate_types":["lib"],"name":"plural_store","src_path":"s"},"profile":{"opt_level":"0","test":false},"features":[],"filenames":["a.rlib"],"executable":null,"fresh":true}
{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/store/Cargo.toml","target":{"kind":["test"],"crate_types":["bin"],"name":"it","src_path":"s"},"profile":{"opt_level":"0","test":true},"features":[],"filenames":["it"],"executable":"/t/it-1","fresh":false}
{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/store/Cargo.toml","target":{"kind":["lib"],"crate_types":["lib"],"name":"plural_store","src_path":"s"},"profile":{"opt_level":"0","test":true},"features":[],"filenames":["s"],"executable":"/t/store-1","fresh":true}
{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/plural/Cargo.toml","target":{"kind":["bin"],"crate_types":["bin"],"name":"plural","src_path":"s"},"profile":{"opt_level":"0","test":true},"features":[],"filenames":["p"],"executable":"/t/plural-1","fresh":true}
{"reason":"compiler-artifact","package_id":"x","manifest_path":"/w/plural/Cargo.toml","target":{"kind":["bin"],"crate_types":["bin"],"name":"plural","src_path":"s"},"profile":{"opt_level":"0","test":false},"features":[],"filenames":["p"],"executable":"/t/plural","fresh":true}
{"reason":"build-script-executed","package_id":"x","linked_libs":[],"out_dir":"o"}
{"reason":"build-finished","success":true}
"#;
        let names = BTreeMap::from([
            (Path::new("/w/store/Cargo.toml"), "plural-store"),
            (Path::new("/w/plural/Cargo.toml"), "plural"),
        ]);
        let programs = read(printed, &names).unwrap();
        let found: Vec<(&str, &Path)> =
            programs.iter().map(|program| (program.name.as_str(), program.path.as_path())).collect();
        assert_eq!(
            found,
            [
                ("plural bin plural", Path::new("/t/plural-1")),
                ("store it", Path::new("/t/it-1")),
                ("store lib", Path::new("/t/store-1")),
            ]
        );
    }
}
