//! Files in the repository that are made from code.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Set to anything, this makes [`golden_file`] write instead of compare; `cargo xtask gen` sets it.
pub const WRITE_ENV: &str = "PLURAL_GEN";

/// Compare a file of the repository (a path from its root) with what the code makes now, byte for byte.
/// A test that calls this keeps a generated file fresh; its module is called `generated`, which is how
/// `cargo xtask gen` finds it.
///
/// # Panics
/// When the file is stale or missing; the message says how to make it anew.
#[expect(clippy::panic, reason = "a test helper fails its test by panicking")]
pub fn golden_file(path: &str, content: &str) {
    let file = repository().join(path);
    let on_disk = fs::read_to_string(&file).unwrap_or_default();
    if on_disk == content {
        return;
    }
    if env::var_os(WRITE_ENV).is_some() {
        let written =
            file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&file, content));
        if let Err(e) = written {
            panic!("cannot write {path}: {e}");
        }
        return;
    }
    let difference = content
        .lines()
        .zip(on_disk.lines())
        .position(|(new, old)| new != old)
        .unwrap_or_else(|| content.lines().count().min(on_disk.lines().count()));
    panic!(
        "{path} is stale from line {} on; `cargo xtask gen` makes it anew.\non disk: {}\nmade now: {}",
        difference + 1,
        on_disk.lines().nth(difference).unwrap_or("(end of file)"),
        content.lines().nth(difference).unwrap_or("(end of file)"),
    );
}

fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}
