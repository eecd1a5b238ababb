//! What a task needs beyond a Rust toolchain and git, and how it gets there.

use std::time::Instant;

use crate::shell;

/// Something that a task needs and this machine has not got.
pub(crate) struct Need {
    /// What it is, with its version.
    pub(crate) what: String,
    /// What installing does, in the words of a person.
    pub(crate) how: String,
    /// How to install it; none when this machine offers no way.
    pub(crate) install: Option<Box<dyn FnOnce() -> anyhow::Result<()>>>,
}

/// Say what will be installed, then install it. What cannot be installed is said and left out.
///
/// # Errors
/// When something is to be installed and may not be, or when installing fails.
pub(crate) fn install(needs: Vec<Need>, may_install: bool) -> anyhow::Result<()> {
    if needs.is_empty() {
        return Ok(());
    }
    let (possible, impossible): (Vec<Need>, Vec<Need>) = needs.into_iter().partition(|n| n.install.is_some());
    for need in &impossible {
        eprintln!("missing: {}: {}", need.what, need.how);
    }
    anyhow::ensure!(
        impossible.is_empty() || !shell::in_ci(),
        "with CI set, a missing backend is a failure: {}",
        names(&impossible)
    );
    if possible.is_empty() {
        return Ok(());
    }
    eprintln!("{}", if may_install { "will install:" } else { "missing:" });
    for need in &possible {
        eprintln!("  {}: {}", need.what, need.how);
    }
    anyhow::ensure!(
        may_install,
        "--no-install was given, so nothing was installed and nothing was run; missing: {}",
        names(&possible)
    );
    for need in possible {
        let started = Instant::now();
        if let Some(install) = need.install {
            install()?;
        }
        eprintln!("installed {} in {}", need.what, shell::took(started));
    }
    Ok(())
}

fn names(needs: &[Need]) -> String {
    needs.iter().map(|n| n.what.as_str()).collect::<Vec<_>>().join(", ")
}
