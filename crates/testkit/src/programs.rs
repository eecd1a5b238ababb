//! Programs from elsewhere that `cargo xtask test` builds: a control plane, a registry, Helm and Kustomize.

use std::{
    env,
    path::{Path, PathBuf},
};

use crate::missing::Missing;

/// Names the folder with the programs. Without it, they are looked for where `cargo xtask test` links them: in the folder
/// `test-programs` of the target folder that the running program is in.
pub const PROGRAMS_ENV: &str = "PLURAL_TEST_PROGRAMS";

const LINKS: &str = "test-programs";

/// The folders that programs are looked for in, the first one first: `$KUBEBUILDER_ASSETS`, then [`PROGRAMS_ENV`].
pub fn program_folders() -> Vec<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let built = named(PROGRAMS_ENV).or_else(|| {
        let own = env::current_exe().ok()?;
        // TARGET/PROFILE/deps/TEST or TARGET/PROFILE/PROGRAM.
        own.ancestors().skip(2).take(2).map(|folder| folder.join(LINKS)).find(|links| links.is_dir())
    });
    named("KUBEBUILDER_ASSETS").into_iter().chain(built).collect()
}

/// Where a program is.
///
/// # Errors
/// When it has not been built.
pub fn find_program(name: &str) -> Result<PathBuf, Missing> {
    let folders = program_folders();
    folders.iter().map(|folder| folder.join(name)).find(|program| program.is_file()).ok_or_else(|| {
        Missing::new(
            format!("{name} is missing, looked for in {}", shown(&folders)),
            "`cargo xtask test` builds it where Go is installed",
        )
    })
}

/// [`find_program`], or nothing, said on stderr, where it is missing; with `CI` set that fails.
///
/// # Panics
/// When `CI` is set and the program is missing.
pub fn program_or_report(name: &str) -> Option<PathBuf> {
    find_program(name).inspect_err(Missing::report).ok()
}

/// A folder of real charts and overlays, such as `helm-corpus`, below the one that `PLURAL_CORPUS` names; nothing, said
/// on stderr, where it is missing. With `CI` set that fails.
///
/// # Panics
/// When `CI` is set and the folder is missing.
pub fn corpus_or_report(name: &str) -> Option<PathBuf> {
    let found = env::var_os("PLURAL_CORPUS").map(|corpus| Path::new(&corpus).join(name));
    let found = found.filter(|folder| folder.is_dir());
    if found.is_none() {
        Missing::new(format!("there is no {name}"), "set PLURAL_CORPUS to the folder that holds it").report();
    }
    found
}

pub(crate) fn shown(folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return "no folder".to_owned();
    }
    folders.iter().map(|folder| folder.display().to_string()).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_says_how_to_get_it() {
        let missing = find_program("no-such-program").unwrap_err().to_string();
        assert!(missing.starts_with("no-such-program is missing, looked for in "), "{missing}");
        assert!(missing.contains("cargo xtask test"), "{missing}");
    }
}
