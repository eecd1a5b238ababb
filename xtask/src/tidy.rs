//! `cargo xtask tidy`: rules of this repository that no other tool knows.

mod backends;
mod errors;
mod files;
mod layers;
mod links;
mod manifests;
mod modules;
mod pictures;

use std::{
    fs,
    path::{Component, Path, PathBuf},
    process::Command,
};

use crate::shell::{self, Metadata};

/// What a rule found.
#[derive(Debug, Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    fn error(&mut self, text: impl Into<String>) {
        self.errors.push(text.into());
    }

    fn warn(&mut self, text: impl Into<String>) {
        self.warnings.push(text.into());
    }
}

/// A file of the repository, as git knows it: committed, or new and not ignored.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// From the repository's root, with slashes.
    pub(crate) path: String,
    /// None: not text.
    pub(crate) text: Option<String>,
}

impl SourceFile {
    fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }
}

pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|e| e == extension)
}

pub(crate) fn run() -> anyhow::Result<()> {
    let metadata = shell::metadata()?;
    let files = read_files(shell::root())?;
    let findings = check(metadata, &files);
    for warning in &findings.warnings {
        eprintln!("warning: {warning}");
    }
    for error in &findings.errors {
        eprintln!("error: {error}");
    }
    anyhow::ensure!(findings.errors.is_empty(), "tidy found {} errors", findings.errors.len());
    Ok(())
}

fn check(metadata: &Metadata, files: &[SourceFile]) -> Findings {
    let mut findings = Findings::default();
    files::check(files, &mut findings);
    backends::check(files, &mut findings);
    errors::check(files, &mut findings);
    modules::check(metadata, files, &mut findings);
    layers::check(metadata, files, &mut findings);
    manifests::check(metadata, files, &mut findings);
    links::check(files, &mut findings);
    pictures::check(files, size_of, &mut findings);
    findings
}

/// Bytes of a file of this checkout.
fn size_of(path: &str) -> u64 {
    fs::metadata(shell::root().join(path)).map_or(0, |about| about.len())
}

/// `a/b/../c` is `a/c`.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir => {}
            other => parts.push(other),
        }
    }
    parts
}

/// All files of a checkout, in the order of their paths.
pub(crate) fn read_files(root: &Path) -> anyhow::Result<Vec<SourceFile>> {
    let names = shell::output(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root),
    )?;
    let mut files: Vec<SourceFile> = names
        .split_terminator('\0')
        .filter(|name| root.join(name).is_file())
        .map(|name| SourceFile {
            path: name.to_owned(),
            text: fs::read(root.join(name)).ok().and_then(|bytes| String::from_utf8(bytes).ok()),
        })
        .collect();
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
