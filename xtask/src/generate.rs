//! `cargo xtask gen`: files in the repository that are made from code.

use crate::shell;

/// The tests in modules called `generated` compare such files with what the code makes; told to, they write
/// them. So nothing can be generated that no test keeps fresh.
pub(crate) fn run() -> anyhow::Result<()> {
    shell::run(
        shell::cargo()
            .args(["test", "--workspace", "--quiet", "generated::"])
            .current_dir(shell::root())
            .env("PLURAL_GEN", "1"),
    )?;
    eprintln!("generated; `git status` shows what changed");
    Ok(())
}
