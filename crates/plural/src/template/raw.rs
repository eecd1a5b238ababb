//! `plural template raw`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use plural_render::{ClusterInput, Inputs, ServiceInput, Tree, render_raw, yaml};
use serde_json::Value;

use super::{clock_ms, local, seed};

/// Flags of `plural template raw`: what a service and its cluster would give to templates.
#[derive(Debug, clap::Args)]
pub(super) struct RawArgs {
    /// Folder of manifests (.yaml, .yml, .json) and templates of them (.liquid, .tpl)
    #[arg(default_value = ".")]
    path: PathBuf,

    #[command(flatten)]
    configuration: ConfigurationArgs,

    /// Name of the service; by default the folder's
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Namespace of the service
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,

    /// Handle of the cluster
    #[arg(long, value_name = "HANDLE", default_value = "cluster")]
    cluster: String,

    /// Distribution of the cluster, such as EKS
    #[arg(long, value_name = "DISTRO", default_value = "GENERIC")]
    distro: String,

    /// Kubernetes version of the cluster
    #[arg(long, value_name = "VERSION", default_value = "")]
    kube_version: String,

    /// Tag of the cluster: name=value
    #[arg(long = "tag", value_name = "NAME=VALUE")]
    tags: Vec<String>,

    /// File (YAML or JSON) with the cluster's metadata
    #[arg(long, value_name = "FILE")]
    metadata: Option<PathBuf>,

    /// Take .liquid and .tpl files as they are
    #[arg(long)]
    no_templates: bool,
}

/// Where configuration values come from.
#[derive(Debug, clap::Args)]
pub(super) struct ConfigurationArgs {
    /// Configuration value: name=value; wins over those of files
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// File of configuration values: a YAML map of texts; later ones win
    #[arg(short = 'f', long = "configuration", value_name = "FILE")]
    configuration: Vec<PathBuf>,
}

impl ConfigurationArgs {
    /// All values by name.
    pub(super) fn read(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut values = BTreeMap::new();
        for file in &self.configuration {
            let shown = file.display();
            match read_yaml(file)? {
                Value::Null => {}
                Value::Object(map) => {
                    for (name, value) in map {
                        let value = match value {
                            Value::String(text) => text,
                            Value::Bool(_) | Value::Number(_) => value.to_string(),
                            _ => bail!("{shown}: the value {name} is not a text"),
                        };
                        values.insert(name, value);
                    }
                }
                _ => bail!("{shown} is not a map of names to texts"),
            }
        }
        values.extend(pairs("--set", &self.set)?);
        Ok(values)
    }
}

/// The objects as one stream of YAML, each under the file that it comes from.
pub(super) fn render(args: RawArgs) -> anyhow::Result<String> {
    let RawArgs {
        path,
        configuration,
        name,
        namespace,
        cluster,
        distro,
        kube_version,
        tags,
        metadata,
        no_templates,
    } = args;
    let folder = path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
    let own = || folder.file_name().map_or("service".into(), |name| name.to_string_lossy().into_owned());
    let inputs = Inputs {
        folder: String::new(),
        templated: !no_templates,
        service: ServiceInput { id: String::new(), name: name.unwrap_or_else(own), namespace },
        cluster: ClusterInput {
            id: String::new(),
            name: cluster.clone(),
            handle: cluster,
            distro,
            version: kube_version,
            tags: pairs("--tag", &tags)?,
            metadata: metadata.as_deref().map_or(Ok(Value::Null), read_yaml)?,
        },
        configuration: configuration.read()?,
        contexts: serde_json::Map::new(),
        imports: serde_json::Map::new(),
        clock_ms: clock_ms()?,
        seed: seed()?,
        rendering: plural_render::RenderingInput::default(),
        api_server: None,
    };
    let tree = Tree::from_files(local::files(&folder)?)?;
    let rendered = render_raw(&tree, &inputs)?;
    for warning in &rendered.warnings {
        eprintln!("{}:{}: {}", warning.origin.path, warning.origin.line, warning.message);
    }
    let mut out = String::new();
    for object in &rendered.objects {
        for part in ["---\n# Source: ", &object.origin.path, "\n", &yaml::to_string(&object.value)] {
            out.push_str(part);
        }
    }
    Ok(out)
}

fn pairs(flag: &str, given: &[String]) -> anyhow::Result<BTreeMap<String, String>> {
    given
        .iter()
        .map(|pair| {
            let (name, value) =
                pair.split_once('=').with_context(|| format!("{flag} {pair}: expected NAME=VALUE"))?;
            Ok((name.to_owned(), value.to_owned()))
        })
        .collect()
}

fn read_yaml(file: &Path) -> anyhow::Result<Value> {
    yaml::parse(&local::read(file)?).with_context(|| format!("cannot read {}", file.display()))
}
