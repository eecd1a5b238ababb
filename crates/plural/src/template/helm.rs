//! `plural template helm`.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use plural_render::{
    Tree,
    helm::{ArchiveLimits, Chart, TemplateFlags, ValueSource, template},
};

use super::{clock_ms, local, seed};

/// The flags of `helm template` that concern rendering; nothing is fetched.
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of helm template")]
pub(super) struct HelmArgs {
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

    /// Name the release as Helm does when none is given
    #[arg(short, long)]
    generate_name: bool,

    /// No effect: nothing is written into folders
    #[arg(long, hide = true)]
    release_name: bool,

    /// Not supported: see the error
    #[arg(long, hide = true, value_name = "PROGRAM")]
    post_renderer: Option<PathBuf>,

    /// Not supported: see the error
    #[arg(long, hide = true)]
    dependency_update: bool,

    /// Not supported: see the error
    #[arg(long, hide = true)]
    validate: bool,
}

/// The text that `helm template` prints.
pub(super) fn render(args: HelmArgs) -> anyhow::Result<String> {
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
        generate_name: _,
        release_name: _,
        post_renderer,
        dependency_update,
        validate,
    } = args;
    if let Some(program) = post_renderer {
        bail!(
            "--post-renderer {}: no program is run; pipe the output into it, or let a kustomization render the chart \
             (helmCharts) and change what comes out",
            program.display()
        );
    }
    if dependency_update {
        bail!("--dependency-update: nothing is fetched; run `helm dependency update` first");
    }
    if validate {
        bail!("--validate: no cluster is asked; pipe the output into `kubectl apply --dry-run=server -f -`");
    }
    let (release, path) = match chart.as_slice() {
        [path] => ("release-name".to_owned(), path),
        [name, path, ..] => (name.display().to_string(), path),
        [] => bail!("name a chart"),
    };
    let mut sources = Vec::new();
    for file in &values {
        sources.push(ValueSource::File(local::read(file)?));
    }
    sources.extend(set_json.into_iter().map(ValueSource::SetJson));
    sources.extend(set.into_iter().map(ValueSource::Set));
    sources.extend(set_string.into_iter().map(ValueSource::SetString));
    for pair in set_file {
        let (key, file) =
            pair.split_once('=').with_context(|| format!("--set-file {pair}: expected KEY=FILE"))?;
        let content = String::from_utf8(local::read(Path::new(file))?)
            .with_context(|| format!("{file} is not text"))?;
        sources.push(ValueSource::SetFile(key.to_owned(), content));
    }
    sources.extend(set_literal.into_iter().map(ValueSource::SetLiteral));

    let loaded = if path.is_dir() {
        let tree = Tree::from_files(local::files(path)?)?;
        Chart::from_tree(&tree, "", &ArchiveLimits::default())
    } else {
        Chart::from_archive(&local::read(path)?, &ArchiveLimits::default())
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
