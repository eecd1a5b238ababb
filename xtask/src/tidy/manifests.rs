//! What every manifest has, and dependencies that nothing uses.

use std::path::Path;

use super::{Findings, SourceFile};
use crate::shell::{self, Dependency, Metadata, Package};

/// Dependencies that no source names, and why they are there all the same.
const UNNAMED: &[(&str, &str)] = &[
    ("md-5", "its library is called md5"),
    ("prost", "code generated from the agent contract"),
    ("tonic-prost", "code generated from the agent contract"),
];

pub(super) fn check(metadata: &Metadata, files: &[SourceFile], findings: &mut Findings) {
    for package in &metadata.packages {
        let Ok(manifest) = package.manifest_path.strip_prefix(shell::root()) else { continue };
        let manifest_text = text_of(manifest, files);
        check_manifest(package, manifest, manifest_text, findings);
        let sources = sources(manifest.parent().unwrap_or(Path::new("")), files);
        check_examples(package, manifest, &sources, findings);
        for dependency in &package.dependencies {
            if !is_used(dependency, &sources) {
                findings.error(format!(
                    "{}: no source names the dependency {}",
                    manifest.display(),
                    dependency.name
                ));
            }
        }
    }
    let root = text_of(Path::new("Cargo.toml"), files);
    for name in workspace_dependencies(root) {
        let is_used = metadata.packages.iter().flat_map(|p| &p.dependencies).any(|d| d.name == name);
        // A place is kept for each of our own crates, in use or not.
        if !is_used && !metadata.packages.iter().any(|p| p.name == name) {
            findings.error(format!("Cargo.toml: no crate uses the workspace's dependency {name}"));
        }
    }
}

fn check_manifest(package: &Package, manifest: &Path, text: &str, findings: &mut Findings) {
    let shown = manifest.display();
    if package.description.as_deref().is_none_or(str::is_empty) {
        findings.error(format!("{shown}: a package says what it is for in `description`"));
    }
    for line in [
        "edition.workspace = true",
        "license.workspace = true",
        "publish.workspace = true",
        "rust-version.workspace = true",
    ] {
        if !text.lines().any(|l| l.trim() == line) {
            findings.error(format!("{shown}: `{line}` is missing"));
        }
    }
    if !text.contains("[lints]\nworkspace = true") {
        findings.error(format!(
            "{shown}: the workspace's lints are not inherited (`[lints]`, `workspace = true`)"
        ));
    }
    for (name, line) in dependency_lines(text) {
        if !line.contains("workspace = true") {
            findings.error(format!("{shown}: the version of {name} belongs into the workspace's Cargo.toml"));
        }
    }
}

/// Looking for examples in a crate's documentation takes rustdoc a while, so a crate without any says so.
fn check_examples(package: &Package, manifest: &Path, sources: &[&str], findings: &mut Findings) {
    let shown = manifest.display();
    let has_library = package.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "lib"));
    let runs_examples = package.targets.iter().any(|target| target.doctest);
    match (runs_examples, sources.iter().any(|text| has_example(text))) {
        (true, false) => {
            findings
                .error(format!("{shown}: no documentation has an example: add `[lib]`, `doctest = false`"));
        }
        (false, true) if has_library => {
            findings.error(format!("{shown}: `doctest = false`, but an example in documentation is a test"));
        }
        _ => {}
    }
}

/// Whether a comment of documentation has a block of Rust.
fn has_example(text: &str) -> bool {
    let mut is_inside = false;
    for line in text.lines() {
        let line = line.trim_start();
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { continue };
        let Some(language) = comment.trim().strip_prefix("```") else { continue };
        let is_rust =
            ["rust", "no_run", "should_panic", "compile_fail"].iter().any(|l| language.starts_with(l));
        if !is_inside && (language.is_empty() || is_rust) {
            return true;
        }
        is_inside = !is_inside;
    }
    false
}

/// Names and lines of all dependency tables of a manifest.
fn dependency_lines(text: &str) -> Vec<(&str, &str)> {
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_inside = line.trim_end_matches(']').ends_with("dependencies");
        } else if is_inside
            && !line.starts_with('#')
            && let Some((name, _)) = line.split_once(['=', '.', ' '])
        {
            found.push((name, line));
        }
    }
    found
}

fn workspace_dependencies(root: &str) -> Vec<&str> {
    let table = root.split_once("[workspace.dependencies]").map_or("", |(_, after)| after);
    let table = table.split_once("\n[").map_or(table, |(table, _)| table);
    table
        .lines()
        .filter(|l| !l.trim_start().starts_with('#'))
        .filter_map(|l| l.split_once(" = "))
        .map(|(name, _)| name.trim())
        .collect()
}

fn is_used(dependency: &Dependency, sources: &[&str]) -> bool {
    if UNNAMED.iter().any(|(name, _)| *name == dependency.name) {
        return true;
    }
    let name = dependency.rename.as_deref().unwrap_or(&dependency.name).replace('-', "_");
    sources.iter().any(|text| names(text, &name))
}

/// Whether a source names a crate: as a word of its own.
fn names(text: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text.get(..at).and_then(|b| b.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|a| a.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

fn sources<'a>(package: &Path, files: &'a [SourceFile]) -> Vec<&'a str> {
    files
        .iter()
        .filter(|f| f.is_rust() && Path::new(&f.path).starts_with(package))
        .filter_map(|f| f.text.as_deref())
        .collect()
}

fn text_of<'a>(path: &Path, files: &'a [SourceFile]) -> &'a str {
    files.iter().find(|f| Path::new(&f.path) == path).and_then(|f| f.text.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_is_named_as_a_word() {
        assert!(names("use tar::Archive;", "tar"));
        assert!(!names("let start = target;", "tar"));
    }

    #[test]
    fn an_example_is_a_block_of_rust() {
        assert!(has_example("/// A.\n/// ```\n/// a();\n/// ```\n"));
        assert!(has_example("//! ```text\n//! a\n//! ```\n//! ```no_run\n//! b\n//! ```\n"));
        assert!(!has_example("//! ```text\n//! a\n//! ```\nlet a = \"```\";\n"));
    }

    #[test]
    fn versions_belong_into_the_workspace() {
        let text = "[package]\nname = \"a\"\n\n[dependencies]\na.workspace = true\nb = { workspace = true }\nc = \"1\"\n\n[dev-dependencies]\nd = { version = \"2\" }\n";
        let loose: Vec<&str> = dependency_lines(text)
            .into_iter()
            .filter(|(_, line)| !line.contains("workspace = true"))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(loose, ["c", "d"]);
    }

    #[test]
    fn the_workspace_table_is_read() {
        let text = "[workspace.dependencies]\n# ours\na = { path = \"a\" }\nb = \"1\"\n\n[workspace.lints.rust]\nc = \"deny\"\n";
        assert_eq!(workspace_dependencies(text), ["a", "b"]);
    }
}
