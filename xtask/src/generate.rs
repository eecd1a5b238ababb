//! `cargo xtask gen`: files in the repository that are made from code.

use crate::shell;

/// The tests in modules called `generated` compare such files with what the code makes; told to, they write
/// them. So nothing can be generated that no test keeps fresh.
///
/// The client's shapes come first, and alone: a workspace that does not compile with the old ones may do so with the new
/// ones. They come last again, because they are made from the schema, which the others write.
pub(crate) fn run() -> anyhow::Result<()> {
    for packages in [&["--package", "plural-codegen"][..], &["--workspace"], &["--package", "plural-codegen"]]
    {
        shell::run(
            shell::cargo()
                .arg("test")
                .args(packages)
                .args(["--quiet", "generated::"])
                .current_dir(shell::root())
                .env("PLURAL_GEN", "1"),
        )?;
    }
    eprintln!("generated; `git status` shows what changed");
    Ok(())
}
