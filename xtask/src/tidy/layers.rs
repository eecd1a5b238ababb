//! Which crate may use which: the arrows of ARCHITECTURE.md.

use std::path::Path;

use super::{Findings, SourceFile};
use crate::shell::Metadata;

/// Crate, and the crates of ours that it may use. Tests are free (`dev-dependencies` do not count).
const MAY_USE: &[(&str, &[&str])] = &[
    // Leaves.
    ("plural-specs", &[]),
    ("plural-core", &["plural-specs"]),
    ("plural-codegen", &[]),
    ("plural-crds", &[]),
    ("plural-kit", &[]),
    ("plural-kubesim", &[]),
    ("plural-reach", &[]),
    ("plural-sandbox", &[]),
    ("plural-ui", &[]),
    ("plural-versions", &[]),
    ("plural-yaml", &[]),
    ("plural-gotemplate", &["plural-versions", "plural-yaml"]),
    ("plural-kustomize", &["plural-yaml"]),
    ("plural-render", &["plural-gotemplate", "plural-kustomize", "plural-versions", "plural-yaml"]),
    ("plural-scaffold", &["plural-core", "plural-render"]),
    ("plural-registry", &["plural-kit", "plural-reach", "plural-versions"]),
    ("plural-git", &["plural-kit", "plural-reach", "plural-versions"]),
    ("plural-scm", &["plural-git", "plural-reach"]),
    ("plural-tunnel", &["plural-kit", "plural-specs"]),
    ("plural-wire", &["plural-kit", "plural-specs"]),
    // A workload cluster's side.
    ("plural-sync", &["plural-core", "plural-kit", "plural-render"]),
    (
        "plural-agent",
        &["plural-core", "plural-kit", "plural-render", "plural-sandbox", "plural-sync", "plural-tunnel"],
    ),
    ("plural-harness", &["plural-core", "plural-kit"]),
    // Runs in the console's sandbox, and beside a person.
    ("plural-rules", &["plural-core"]),
    // The control plane's side: store, api and gateway know app and not each other; console joins them.
    ("plural-app", &["plural-core", "plural-kit"]),
    ("plural-kms", &["plural-app", "plural-core", "plural-kit", "plural-reach"]),
    ("plural-store", &["plural-app", "plural-core", "plural-kit"]),
    ("plural-api", &["plural-app", "plural-core", "plural-kit", "plural-specs", "plural-ui"]),
    ("plural-gateway", &["plural-app", "plural-core", "plural-kit", "plural-tunnel"]),
    (
        "plural-console",
        &[
            "plural-api",
            "plural-app",
            "plural-core",
            "plural-gateway",
            "plural-git",
            "plural-kit",
            "plural-kms",
            "plural-reach",
            "plural-render",
            "plural-registry",
            "plural-rules",
            "plural-sandbox",
            "plural-scaffold",
            "plural-scm",
            "plural-store",
            "plural-tunnel",
        ],
    ),
    // A person's side.
    (
        "plural-cli",
        &["plural-core", "plural-crds", "plural-kit", "plural-rules", "plural-scaffold", "plural-wire"],
    ),
    (
        "plural",
        &[
            "plural-agent",
            "plural-cli",
            "plural-console",
            "plural-core",
            "plural-harness",
            "plural-kit",
            "plural-kubesim",
            "plural-render",
            "plural-rules",
            "plural-sandbox",
            "plural-scaffold",
            "plural-sync",
            "plural-tunnel",
            "plural-wire",
        ],
    ),
    // Not shipped: tests and benches see everything, and nothing shipped sees them.
    ("plural-testkit", &["plural-kubesim"]),
    (
        "plural-fuzz",
        &[
            "plural-agent",
            "plural-api",
            "plural-core",
            "plural-gateway",
            "plural-registry",
            "plural-render",
            "plural-tunnel",
        ],
    ),
    (
        "plural-bench",
        &[
            "plural-agent",
            "plural-app",
            "plural-console",
            "plural-core",
            "plural-git",
            "plural-kit",
            "plural-kubesim",
            "plural-render",
            "plural-store",
            "plural-sync",
            "plural-testkit",
            "plural-tunnel",
            "plural-wire",
        ],
    ),
    ("xtask", &[]),
];

/// Crates from elsewhere that only some of ours may use, and why.
const RESERVED: &[(&str, &[&str], &str)] = &[
    (
        "kube",
        &["plural-agent", "plural-sync", "plural-testkit", "plural-bench", "plural"],
        "the console opens no connection to a cluster",
    ),
    ("sea-orm", &["plural-store"], "SQL lives in store only"),
    ("sea-orm-migration", &["plural-store"], "SQL lives in store only"),
    ("gix", &["plural-git"], "git is read in one place"),
    (
        "async-graphql",
        &["plural-api", "plural-specs"],
        "GraphQL is served in one place, and settings documents say their shape once",
    ),
    (
        "clap",
        &["plural-cli", "plural-agent", "plural-console", "plural", "plural-bench", "xtask"],
        "only programs and their roles have a command line",
    ),
    ("anyhow", &["plural", "plural-testkit", "plural-bench", "xtask"], "a library's errors are types"),
];

/// Crates that neither wait nor look at a clock.
const WITHOUT_IO: &[&str] = &[
    "plural-codegen",
    "plural-core",
    "plural-gotemplate",
    "plural-kustomize",
    "plural-render",
    "plural-scaffold",
    "plural-specs",
    "plural-ui",
    "plural-yaml",
];
const IO: &[&str] = &["tokio", "reqwest", "hyper", "axum", "tonic", "kube"];

pub(super) fn check(metadata: &Metadata, files: &[SourceFile], findings: &mut Findings) {
    check_arrows(metadata, findings);
    check_unused(metadata, findings);
    let page = files.iter().find(|file| file.path == "ARCHITECTURE.md").and_then(|file| file.text.as_deref());
    check_map(metadata, page.unwrap_or_default(), findings);
}

/// The code map has a line for each crate.
fn check_map(metadata: &Metadata, page: &str, findings: &mut Findings) {
    for package in &metadata.packages {
        let folder = package.manifest_path.parent().and_then(Path::file_name).unwrap_or_default();
        let entry = format!("{}/ ", folder.to_string_lossy());
        if !page.lines().any(|line| line.trim_start().starts_with(&entry)) {
            findings.error(format!("{}: ARCHITECTURE.md's code map has no line {entry}", package.name));
        }
    }
}

/// An arrow that is permitted without need is taken one day without a thought.
fn check_unused(metadata: &Metadata, findings: &mut Findings) {
    for (name, allowed) in MAY_USE {
        let Some(package) = metadata.packages.iter().find(|package| package.name == *name) else { continue };
        for to in *allowed {
            let mut used = package.dependencies.iter().filter(|d| d.kind.as_deref() != Some("dev"));
            if !used.any(|d| d.name == *to) {
                findings.error(format!(
                    "{name} may use {to} and does not: take the arrow out of xtask/src/tidy/layers.rs"
                ));
            }
        }
    }
}

fn check_arrows(metadata: &Metadata, findings: &mut Findings) {
    for package in &metadata.packages {
        let name = package.name.as_str();
        let Some((_, allowed)) = MAY_USE.iter().find(|(crate_name, _)| *crate_name == name) else {
            findings.error(format!("{name} has no place in the layers; give it one in xtask/src/tidy/layers.rs and ARCHITECTURE.md"));
            continue;
        };
        let used = package.dependencies.iter().filter(|d| d.kind.as_deref() != Some("dev"));
        for dependency in used.map(|d| d.name.as_str()) {
            let is_ours = metadata.packages.iter().any(|p| p.name == dependency);
            if is_ours && !allowed.contains(&dependency) {
                findings.error(format!("{name} uses {dependency}, against the arrows of ARCHITECTURE.md"));
            }
            for (reserved, users, why) in RESERVED {
                if dependency == *reserved && !users.contains(&name) {
                    findings.error(format!("{name} uses {dependency}: {why}"));
                }
            }
            if WITHOUT_IO.contains(&name) && IO.contains(&dependency) {
                findings.error(format!("{name} uses {dependency}: it does no IO"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{Dependency, Package};

    fn package(name: &str, uses: &[(&str, Option<&str>)]) -> Package {
        Package {
            name: name.to_owned(),
            description: None,
            manifest_path: "Cargo.toml".into(),
            dependencies: uses
                .iter()
                .map(|(name, kind)| Dependency {
                    name: (*name).to_owned(),
                    rename: None,
                    kind: kind.map(str::to_owned),
                })
                .collect(),
            targets: Vec::new(),
        }
    }

    fn errors(packages: Vec<Package>) -> Vec<String> {
        let mut findings = Findings::default();
        check_arrows(&Metadata { packages, target_directory: "target".into() }, &mut findings);
        findings.errors
    }

    #[test]
    fn an_arrow_that_is_not_taken_is_an_error() {
        let mut findings = Findings::default();
        let packages = vec![package("plural-wire", &[("plural-kit", Some("dev")), ("plural-specs", None)])];
        check_unused(&Metadata { packages, target_directory: "target".into() }, &mut findings);
        assert_eq!(findings.errors.len(), 1, "{findings:?}");
        assert!(
            findings.errors[0].starts_with("plural-wire may use plural-kit and does not"),
            "{findings:?}"
        );
    }

    #[test]
    fn the_code_map_has_every_crate() {
        let mut findings = Findings::default();
        let mut core = package("plural-core", &[]);
        core.manifest_path = "/w/crates/core/Cargo.toml".into();
        let metadata = Metadata { packages: vec![core], target_directory: "target".into() };
        check_map(&metadata, "crates/\n  core/      nouns\n", &mut findings);
        assert!(findings.errors.is_empty(), "{findings:?}");
        check_map(&metadata, "crates/\n  scores/    nouns\n", &mut findings);
        assert_eq!(findings.errors.len(), 1, "{findings:?}");
    }

    #[test]
    fn a_backward_arrow_is_an_error_and_a_test_is_free() {
        let core = || package("plural-core", &[]);
        assert!(errors(vec![core(), package("plural-app", &[("plural-core", None)])]).is_empty());
        let store = package("plural-store", &[]);
        let found = errors(vec![package("plural-core", &[("plural-store", None)]), store]);
        assert_eq!(found, ["plural-core uses plural-store, against the arrows of ARCHITECTURE.md"]);
        let store = package("plural-store", &[]);
        assert!(errors(vec![package("plural-core", &[("plural-store", Some("dev"))]), store]).is_empty());
    }

    #[test]
    fn an_unknown_crate_needs_a_place() {
        assert_eq!(errors(vec![package("plural-new", &[])]).len(), 1);
    }

    #[test]
    fn the_console_never_sees_kube_and_render_does_no_io() {
        assert_eq!(errors(vec![package("plural-console", &[("kube", None)])]).len(), 1);
        assert!(errors(vec![package("plural-sync", &[("kube", None)])]).is_empty());
        assert_eq!(errors(vec![package("plural-render", &[("tokio", None)])]).len(), 1);
    }
}
