//! `plural template`: render on this machine, as `helm template` and `kustomize build` print it.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use plural_render::{
    Charts, Tree,
    helm::{ArchiveLimits, Chart, TemplateFlags, ValueSource, template},
    kustomize,
};

/// Flags of `plural template`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Print what `helm template` prints
    Helm(Box<HelmArgs>),
    /// Print what `kustomize build` prints
    Kustomize {
        /// Folder with a kustomization.yaml
        #[arg(default_value = ".")]
        path: PathBuf,
    },
}

/// The flags of `helm template` that concern rendering; nothing is fetched.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of helm template")]
struct HelmArgs {
    /// Name of the release, then the chart; or the chart alone
    #[arg(required = true, num_args = 1..=2, value_names = ["NAME", "CHART"])]
    chart: Vec<PathBuf>,

    /// File of values; later ones win
    #[arg(short = 'f', long = "values", value_name = "FILE")]
    values: Vec<PathBuf>,

    /// Value: key1=val1,key2=val2
    #[arg(long, value_name = "VALUES")]
    set: Vec<String>,

    /// The same, always as text
    #[arg(long, value_name = "VALUES")]
    set_string: Vec<String>,

    /// The same, the value being JSON
    #[arg(long, value_name = "VALUES")]
    set_json: Vec<String>,

    /// The same, the value taken as it is
    #[arg(long, value_name = "VALUES")]
    set_literal: Vec<String>,

    /// The value is the content of a file: key=path
    #[arg(long, value_name = "KEY=FILE")]
    set_file: Vec<String>,

    /// Namespace of the release
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    /// Kubernetes version that templates see
    #[arg(long, value_name = "VERSION", default_value = "")]
    kube_version: String,

    /// API versions that the cluster has besides the usual ones
    #[arg(short, long, value_name = "VERSIONS", value_delimiter = ',')]
    api_versions: Vec<String>,

    /// Print the chart's crds folder too
    #[arg(long)]
    include_crds: bool,

    /// Leave tests out
    #[arg(long)]
    skip_tests: bool,

    /// Leave hooks out
    #[arg(long)]
    no_hooks: bool,

    /// Do not look at values.schema.json
    #[arg(long)]
    skip_schema_validation: bool,

    /// Tell templates of an upgrade instead of an installation
    #[arg(long)]
    is_upgrade: bool,

    /// Print only what these templates make
    #[arg(short, long, value_name = "TEMPLATE", value_delimiter = ',')]
    show_only: Vec<String>,
}

/// Renders and prints. Data goes to stdout, warnings to stderr.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let text = match args.what {
        What::Helm(args) => helm(*args)?,
        What::Kustomize { path } => build(&path)?,
    };
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        // A reader that had enough (`| head`) is no failure.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write"),
    }
}

fn helm(args: HelmArgs) -> anyhow::Result<String> {
    let HelmArgs {
        chart,
        values,
        set,
        set_string,
        set_json,
        set_literal,
        set_file,
        namespace,
        kube_version,
        api_versions,
        include_crds,
        skip_tests,
        no_hooks,
        skip_schema_validation,
        is_upgrade,
        show_only,
    } = args;
    let (release, path) = match chart.as_slice() {
        [path] => ("release-name".to_owned(), path),
        [name, path, ..] => (name.display().to_string(), path),
        [] => bail!("name a chart"),
    };
    let mut sources = Vec::new();
    for file in &values {
        sources.push(ValueSource::File(read(file)?));
    }
    sources.extend(set_json.into_iter().map(ValueSource::SetJson));
    sources.extend(set.into_iter().map(ValueSource::Set));
    sources.extend(set_string.into_iter().map(ValueSource::SetString));
    for pair in set_file {
        let (key, file) =
            pair.split_once('=').with_context(|| format!("--set-file {pair}: expected KEY=FILE"))?;
        let content =
            String::from_utf8(read(Path::new(file))?).with_context(|| format!("{file} is not text"))?;
        sources.push(ValueSource::SetFile(key.to_owned(), content));
    }
    sources.extend(set_literal.into_iter().map(ValueSource::SetLiteral));

    let loaded = if path.is_dir() {
        let tree = Tree::from_files(files(path, "")?)?;
        Chart::from_tree(&tree, "", &ArchiveLimits::default())
    } else {
        Chart::from_archive(&read(path)?, &ArchiveLimits::default())
    };
    let flags = TemplateFlags {
        release,
        namespace,
        values: sources,
        kube_version,
        api_versions,
        include_crds,
        skip_schema: skip_schema_validation,
        skip_tests,
        no_hooks,
        is_upgrade,
        show_only,
        seed: seed()?,
        clock_ms: clock_ms()?,
    };
    Ok(template(&loaded?, &flags)?)
}

fn build(path: &Path) -> anyhow::Result<String> {
    let path = path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
    // What a kustomization reaches is in its repository; without one, beside its folder.
    let root = path
        .ancestors()
        .find(|folder| folder.join(".git").exists())
        .or_else(|| path.parent())
        .unwrap_or(&path);
    let tree = Tree::from_files(files(root, "")?)?;
    let folder = path.strip_prefix(root)?.to_str().context("the path is not text")?;
    let shown = root.display().to_string();
    let (seed, clock_ms) = (seed()?, clock_ms()?);
    let charts = Charts { tree: &tree, seed: &seed, clock_ms };
    let options =
        kustomize::Options { shown_root: &shown, helm: Some(&charts), ..kustomize::Options::default() };
    let built = kustomize::build(&tree, folder, &options)?;
    for warning in &built.warnings {
        eprintln!("{warning}");
    }
    Ok(built.yaml)
}

/// All files below `folder`, links followed as far as they lead to files below it.
fn files(folder: &Path, prefix: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name == ".git" {
            continue;
        }
        let path = format!("{prefix}{name}");
        let kind = entry.file_type()?;
        if kind.is_dir() {
            found.extend(files(&entry.path(), &format!("{path}/"))?);
        } else if entry.path().is_file() {
            found.push((path, read(&entry.path())?));
        }
    }
    Ok(found)
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(file).with_context(|| format!("cannot read {}", file.display()))
}

/// Here a render is for somebody to look at: random functions may differ from run to run, as Helm's do.
fn seed() -> anyhow::Result<Vec<u8>> {
    Ok(plural_console::random_password()?.into_bytes())
}

fn clock_ms() -> anyhow::Result<i64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok(i64::try_from(now.as_millis())?)
}
