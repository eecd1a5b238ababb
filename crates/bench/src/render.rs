//! Charts and overlays become text: ours in process, beside the original's packages and programs.
//!
//! All times are CPU time, so that other work on the machine does not change them: ours is that of the one
//! thread that renders, a Go program's that of the whole process, its collector included.

mod clock;
mod helm;
mod kustomize;
mod peer;

use std::{path::PathBuf, str::FromStr as _};

use anyhow::Context as _;

use crate::report::Figure;

/// What to render.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder with `helm-corpus` and `kustomize-corpus`
    #[arg(long, env = "PLURAL_CORPUS")]
    corpus: PathBuf,
    /// Renders of each case, cold and warm; five times as many of the heaviest
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Renders of each case by a peer
    #[arg(long, default_value_t = 3)]
    peer_rounds: usize,
    /// Only cases whose name contains this
    #[arg(long)]
    only: Option<String>,
    /// Milliseconds that a heavy chart may take warm: PART-OF-ITS-NAME=MS
    #[arg(long, value_parser = goal)]
    goal: Vec<(String, f64)>,
    /// Measure ours alone
    #[arg(long)]
    no_peers: bool,
    /// Leave the programs out, which take longest
    #[arg(long)]
    no_programs: bool,
    /// Folder with the peers, as `cargo xtask` builds them
    #[arg(long, env = "PLURAL_TEST_PROGRAMS")]
    peers: Option<PathBuf>,
}

/// The peers that are there.
#[derive(Debug, Default)]
struct Tools {
    helm: Option<PathBuf>,
    peer_helm: Option<PathBuf>,
    kustomize: Option<PathBuf>,
    peer_kustomize: Option<PathBuf>,
}

fn goal(text: &str) -> anyhow::Result<(String, f64)> {
    let (name, goal) = text.split_once('=').context("expected NAME=MS")?;
    Ok((name.to_owned(), f64::from_str(goal)?))
}

impl Tools {
    fn of(options: &Options) -> Self {
        let folder = options.peers.as_ref().filter(|_| !options.no_peers);
        let find = |name: &str| folder.map(|folder| folder.join(name)).filter(|path| path.is_file());
        let program = |name: &str| find(name).filter(|_| !options.no_programs);
        Self {
            helm: program("helm"),
            peer_helm: find("peer-helm"),
            kustomize: program("kustomize"),
            peer_kustomize: find("peer-kustomize"),
        }
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<Vec<Figure>> {
    let tools = Tools::of(options);
    if tools.peer_helm.is_none() && !options.no_peers {
        eprintln!("no peer is there to compare with: they need Go");
    }
    let corpus = |name: &str| Some(options.corpus.join(name)).filter(|folder| folder.is_dir());
    let mut figures = Vec::new();
    if let Some(root) = corpus("helm-corpus") {
        figures.extend(helm::run(options, &root, &tools)?);
    }
    if let Some(root) = corpus("kustomize-corpus") {
        figures.extend(kustomize::run(options, &root, &tools)?);
    }
    anyhow::ensure!(!figures.is_empty(), "there is no corpus in {}", options.corpus.display());
    Ok(figures)
}
