//! `plural template kustomize`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use plural_render::{
    Charts, Tree, envsubst,
    kustomize::{ChartRequest, HelmPort, Options, build},
};

use super::{clock_ms, local, raw::ConfigurationArgs, seed};

/// Flags of `plural template kustomize`.
#[derive(Debug, clap::Args)]
pub(super) struct KustomizeArgs {
    /// Folder with a kustomization.yaml
    #[arg(default_value = ".")]
    path: PathBuf,

    /// Replace `${NAME}` in what comes out by values of the configuration, as a service with `envsubst` does
    #[arg(long)]
    envsubst: bool,

    #[command(flatten)]
    configuration: ConfigurationArgs,
}

/// The text that `kustomize build` prints.
pub(super) fn render(args: &KustomizeArgs) -> anyhow::Result<String> {
    let path = args.path.canonicalize().with_context(|| format!("cannot find {}", args.path.display()))?;
    // What a kustomization reaches is in its repository; without one, its bases are wherever `kustomize build` finds them.
    // Files are read from the folders of Kustomizations alone either way.
    let repository = path.ancestors().find(|folder| folder.join(".git").exists());
    let root = repository.unwrap_or(Path::new("/"));
    // As a path, not as an address: `github.com/you/fleet` below the root is a folder.
    let folder = format!("./{}", path.strip_prefix(root)?.to_str().context("the path is not text")?);
    let shown = repository.map(|root| root.display().to_string()).unwrap_or_default();
    let disk = local::Disk::new(root);
    let charts = DiskCharts { root, seed: seed()?, clock_ms: clock_ms()? };
    let options = Options { shown_root: &shown, helm: Some(&charts), ..Options::default() };
    let built = build(&disk, &folder, &options)?;
    for warning in &built.warnings {
        eprintln!("{warning}");
    }
    if args.envsubst {
        let values = args.configuration.read()?;
        return envsubst(&built.yaml, &values)
            .map_err(|error| anyhow::anyhow!("line {}: {error}", error.line));
    }
    Ok(built.yaml)
}

/// Charts beside a kustomization, read when it names them.
struct DiskCharts<'a> {
    root: &'a Path,
    seed: Vec<u8>,
    clock_ms: i64,
}

impl HelmPort for DiskCharts<'_> {
    fn inflate(&self, request: &ChartRequest) -> Result<String, String> {
        // A folder that is not there, or not below the root, is one that the build does not find.
        let inside = |folder: &PathBuf| folder.starts_with(self.root) && folder.is_dir();
        let mut candidates = [&request.pulled, &request.folder].into_iter().filter(|name| !name.is_empty());
        let found = candidates
            .find_map(|name| Some((name, self.root.join(name).canonicalize().ok().filter(inside)?)));
        let files = match found {
            Some((name, folder)) => {
                let found = local::files(&folder).map_err(|error| format!("{error:#}"))?;
                found.into_iter().map(|(path, content)| (format!("{name}/{path}"), content)).collect()
            }
            None => Vec::new(),
        };
        let tree = Tree::from_files(files).map_err(|error| error.to_string())?;
        Charts { tree: &tree, seed: &self.seed, clock_ms: self.clock_ms }.inflate(request)
    }
}
