//! `plural template`: render on this machine, as `helm template` and `kustomize build` print it.

mod helm;
mod kustomize;
mod local;
mod raw;

use std::io::Write;

use anyhow::Context;

/// Flags of `plural template`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print what `helm template` prints
    Helm(Box<helm::HelmArgs>),
    /// Print what `kustomize build` prints
    Kustomize(kustomize::KustomizeArgs),
    /// Print the objects of a folder of manifests and templates, as a service would apply them
    Raw(Box<raw::RawArgs>),
}

/// Renders and prints. Data goes to stdout, warnings to stderr.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let text = match args.what {
        What::Helm(args) => helm::render(*args)?,
        What::Kustomize(args) => kustomize::render(&args)?,
        What::Raw(args) => raw::render(*args)?,
    };
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // A reader that had enough (`| head`) is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write"),
    }
}

/// Here a render is for somebody to look at: random functions may differ from run to run, as Helm's do.
fn seed() -> anyhow::Result<Vec<u8>> {
    Ok(plural_console::random_password()?.into_bytes())
}

fn clock_ms() -> anyhow::Result<i64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(i64::try_from(now.as_millis())?)
}
