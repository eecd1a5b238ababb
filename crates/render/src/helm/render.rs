//! A chart, values and options become documents.

use std::{fmt, rc::Rc, sync::Arc};

use plural_gotemplate::{
    exec::{Engine, Fault, Limits, Lookup, NO_VALUE},
    funcs::{WARN_END, WARN_START},
    objects::{self, Struct},
    random::Random,
    value::{List, ListType, Map, MapType, Value},
};
use plural_versions::is_compatible;
use serde_json::Value as Json;

use super::{
    capabilities::Capabilities,
    chart::{Chart, Metadata, Template},
    dependencies::{self, Node},
    manifest::{self, Hook, Manifest},
    schema, values,
};

/// The part of the work that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reading the chart.
    Load,
    /// Charts that it needs.
    Dependencies,
    /// Putting the values together.
    Values,
    /// Checking the values against the chart's schema.
    Schema,
    /// The Kubernetes version that it asks for.
    KubeVersion,
    /// Parsing or running a template.
    Render,
    /// Reading what templates wrote.
    Sort,
    /// A limit on steps, bytes or nesting.
    Limit,
}

/// Why a chart has no documents.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HelmError {
    /// Where.
    pub stage: Stage,
    /// What, in Helm's words.
    pub message: String,
}

impl HelmError {
    pub(super) fn new(stage: Stage, message: impl Into<String>) -> Self {
        Self { stage, message: message.into() }
    }
}

/// Answers `lookup`: what the caller is allowed to see of a cluster.
pub trait LookupPort {
    /// The object; or the list of all of a kind when `name` is empty, in a namespace or (when that
    /// is empty too) in all. None when there is none or it is not granted.
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Json>;
}

struct Port<'p>(&'p dyn LookupPort);

impl Lookup for Port<'_> {
    fn lookup(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Option<Json> {
        self.0.lookup(api_version, kind, namespace, name)
    }
}

/// What a render depends on besides the chart.
#[derive(Clone, Copy)]
pub struct RenderOptions<'o> {
    /// Name of the release.
    pub release: &'o str,
    /// Its namespace.
    pub namespace: &'o str,
    /// The user's values, over those of the chart.
    pub values: &'o serde_json::Map<String, Json>,
    /// The cluster.
    pub capabilities: &'o Capabilities,
    /// Whether `crds/` is part of the output.
    pub include_crds: bool,
    /// Whether values.schema.json is not looked at.
    pub skip_schema: bool,
    /// Whether templates are told of an upgrade instead of an installation.
    pub is_upgrade: bool,
    /// Seed of the random functions: secret, one per service and cluster.
    pub seed: &'o [u8],
    /// The renderer's clock: milliseconds since 1970-01-01 UTC.
    pub clock_ms: i64,
    /// Answers `lookup`; without it nothing is found.
    pub lookup: Option<&'o dyn LookupPort>,
    /// What the templates may use.
    pub limits: Limits,
}

impl fmt::Debug for RenderOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenderOptions")
            .field("release", &self.release)
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// A file of `crds/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crd {
    /// Path from the name of the chart on.
    pub path: String,
    /// The file as it is.
    pub content: String,
}

/// What a chart renders to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Release {
    /// `crds/`, when asked for.
    pub crds: Vec<Crd>,
    /// In install order.
    pub manifests: Vec<Manifest>,
    /// In install order.
    pub hooks: Vec<Hook>,
    /// The chart's own NOTES.txt.
    pub notes: String,
}

impl Release {
    /// The text that `helm template` prints.
    pub fn to_text(&self) -> String {
        self.text_without(|_| false)
    }

    /// The same without the hooks that `skip` names.
    pub(super) fn text_without(&self, skip: impl Fn(&Hook) -> bool) -> String {
        let size = self.manifests.iter().map(|m| m.content.len() + m.path.len() + 32).sum::<usize>();
        let mut out = String::with_capacity(size);
        let mut add = |path: &str, content: &str| {
            for part in ["---\n# Source: ", path, "\n", content, "\n"] {
                out.push_str(part);
            }
        };
        for crd in &self.crds {
            add(&crd.path, &crd.content);
        }
        for manifest in &self.manifests {
            add(&manifest.path, &manifest.content);
        }
        let trimmed = out.trim();
        let mut out = if trimmed.len() + 1 == out.len() && out.starts_with("---") {
            out
        } else {
            format!("{trimmed}\n")
        };
        for hook in self.hooks.iter().filter(|hook| !skip(hook)) {
            for part in ["---\n# Source: ", &hook.manifest.path, "\n", &hook.manifest.content, "\n"] {
                out.push_str(part);
            }
        }
        out
    }
}

/// Renders a chart.
///
/// # Errors
/// In Helm's words, with the stage at which it failed.
pub fn render(chart: &Chart, options: &RenderOptions<'_>) -> Result<Release, HelmError> {
    if chart.metadata.chart_type == "library" {
        return Err(HelmError::new(Stage::Load, "library charts are not installable"));
    }
    missing_dependencies(chart)?;
    let user = match Value::from_json(&Json::Object(options.values.clone())) {
        Value::Map(map) => map,
        _ => Map::new(),
    };
    let failed = |stage| move |message: String| HelmError::new(stage, message);
    let mut root = Node::new(chart);
    dependencies::process(&mut root, &user).map_err(failed(Stage::Dependencies))?;
    let all = values::coalesce(&root, &user, false).map_err(failed(Stage::Values))?;
    if !options.skip_schema {
        schema::validate(&root, &all).map_err(|problems| {
            HelmError::new(
                Stage::Schema,
                format!("values don't meet the specifications of the schema(s) in the following chart(s):\n{problems}"),
            )
        })?;
    }
    let wanted = &chart.metadata.kube_version;
    let version = &options.capabilities.version;
    if !wanted.is_empty() && !is_compatible(wanted, version) {
        return Err(HelmError::new(
            Stage::KubeVersion,
            format!("chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {version}"),
        ));
    }
    let mut files = run(&root, &all, options)?;
    let own_notes = format!("{}/templates/NOTES.txt", chart.metadata.name);
    let mut notes = String::new();
    files.retain_mut(|(path, content)| {
        if *path == own_notes {
            notes = std::mem::take(content);
        }
        !path.ends_with("NOTES.txt")
    });
    let (manifests, hooks) = manifest::sort(&files).map_err(failed(Stage::Sort))?;
    let mut crds = Vec::new();
    if options.include_crds {
        collect_crds(&root, &mut crds);
    }
    Ok(Release { crds, manifests, hooks, notes })
}

/// Charts that are declared and not there.
fn missing_dependencies(chart: &Chart) -> Result<(), HelmError> {
    let declared = chart.metadata.dependencies.iter().flatten();
    let missing: Vec<&str> = declared
        .map(|dependency| dependency.name.as_str())
        .filter(|name| !chart.dependencies.iter().any(|found| found.metadata.name == *name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(HelmError::new(
        Stage::Dependencies,
        format!("found in Chart.yaml, but missing in charts/ directory: {}", missing.join(", ")),
    ))
}

fn collect_crds(node: &Node<'_>, crds: &mut Vec<Crd>) {
    for (name, content) in &node.chart.files {
        let manifest = name.rsplit_once('.').is_some_and(|(_, ext)| {
            ["yaml", "yml", "json"].iter().any(|known| ext.eq_ignore_ascii_case(known))
        });
        if name.starts_with("crds/") && manifest {
            let content = String::from_utf8_lossy(content).into_owned();
            crds.push(Crd { path: format!("{}/{name}", node.path), content });
        }
    }
    for child in &node.children {
        collect_crds(child, crds);
    }
}

/// A template file with what it sees.
struct Renderable<'c> {
    path: String,
    base: String,
    template: &'c Template,
    dot: Map,
}

/// Runs all templates: their paths and what they wrote.
fn run(root: &Node<'_>, all: &Map, options: &RenderOptions<'_>) -> Result<Vec<(String, String)>, HelmError> {
    let release = Map::of(vec![
        ("IsInstall".into(), (!options.is_upgrade).into()),
        ("IsUpgrade".into(), options.is_upgrade.into()),
        ("Name".into(), options.release.into()),
        ("Namespace".into(), options.namespace.into()),
        ("Revision".into(), Value::Int(1)),
        ("Service".into(), "Helm".into()),
    ]);
    let shared = Shared { release: Value::Map(release), capabilities: options.capabilities.value() };
    let mut templates = Vec::new();
    collect(root, Some(all.clone()), true, &shared, &mut templates);
    // Of files with one path the last one counts. Deeper files first, so that those of the outer charts win.
    templates.sort_by(|a, b| {
        let depth = |path: &str| path.matches('/').count();
        depth(&b.path).cmp(&depth(&a.path)).then_with(|| b.path.cmp(&a.path))
    });
    templates.reverse();
    templates.dedup_by(|later, earlier| later.path == earlier.path);
    templates.reverse();
    let port = options.lookup.map(Port);
    let port = port.as_ref().map(|port| port as &dyn Lookup);
    let random = Random::new(options.seed, "");
    let mut engine = Engine::new(random, options.clock_ms, port, options.limits);
    for item in &templates {
        match item.template.trees(&item.path) {
            Ok(trees) => engine.add(&trees),
            Err(error) => return Err(HelmError::new(Stage::Render, parse_error(&item.path, &error))),
        }
    }
    let mut files = Vec::new();
    for item in &templates {
        if item.path.rsplit('/').next().is_some_and(|name| name.starts_with('_')) {
            continue;
        }
        let template = Map::typed(
            MapType::Values,
            vec![("BasePath".into(), item.base.as_str().into()), ("Name".into(), item.path.as_str().into())],
        );
        item.dot.set("Template".into(), Value::Map(template));
        // What a file draws does not depend on the files before it.
        engine.random.restart(options.seed, &item.path);
        let mut out = Vec::with_capacity(item.template.data.len());
        engine
            .execute(&item.path, &Value::Map(item.dot.clone()), &mut out)
            .map_err(|fault| exec_error(&item.path, fault))?;
        let mut text = match String::from_utf8(out) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        if text.contains(NO_VALUE) {
            text = text.replace(NO_VALUE, "");
        }
        files.push((item.path.clone(), text));
    }
    Ok(files)
}

struct Shared {
    release: Value,
    capabilities: Value,
}

fn collect<'c>(
    node: &Node<'c>,
    own: Option<Map>,
    root: bool,
    shared: &Shared,
    into: &mut Vec<Renderable<'c>>,
) -> Map {
    let own = match own {
        // `.Values` is a type of its own, but the same map.
        Some(map) => map.viewed(MapType::Values),
        None => Map::typed(MapType::Values, Vec::new()),
    };
    let files = node
        .chart
        .files
        .iter()
        .map(|(name, content)| (name.clone(), Value::Bytes(content.clone())))
        .collect();
    let subcharts = Map::new();
    let dot = Map::typed(
        MapType::Values,
        vec![
            ("Capabilities".into(), shared.capabilities.clone()),
            ("Chart".into(), chart_value(&node.chart.metadata, node, root)),
            ("Files".into(), Value::Map(Map::typed(MapType::Files, files))),
            ("Release".into(), shared.release.clone()),
            ("Subcharts".into(), Value::Map(subcharts.clone())),
            ("Values".into(), Value::Map(own.clone())),
        ],
    );
    for child in &node.children {
        let values = own.map(&child.name);
        let inner = collect(child, values, false, shared, into);
        subcharts.set(child.name.as_str().into(), Value::Map(inner.viewed(MapType::Any)));
    }
    let library = node.chart.metadata.chart_type.eq_ignore_ascii_case("library");
    for template in &node.chart.templates {
        let partial = template.name.rsplit('/').next().is_some_and(|name| name.starts_with('_'));
        if library && !partial {
            continue;
        }
        into.push(Renderable {
            path: format!("{}/{}", node.path, template.name),
            base: format!("{}/templates", node.path),
            template,
            dot: dot.clone(),
        });
    }
    dot
}

fn chart_value(metadata: &Metadata, node: &Node<'_>, root: bool) -> Value {
    let strings = |items: &[String]| match items {
        [] => Value::List(List::typed(ListType::Str, Vec::new())),
        items => Value::List(List::strings(items)),
    };
    let object = |ty: &'static objects::StructType, fields: Vec<Value>| {
        Value::Struct(Rc::new(Struct::new(ty, fields)))
    };
    let text = |text: &String| Value::str(text);
    let Metadata {
        name: _,
        home,
        sources,
        version,
        description,
        keywords,
        maintainers,
        icon,
        api_version,
        condition,
        tags,
        app_version,
        deprecated,
        annotations,
        kube_version,
        dependencies: _,
        chart_type,
    } = metadata;
    let maintainers = maintainers
        .iter()
        .map(|m| object(&objects::MAINTAINER, vec![text(&m.name), text(&m.email), text(&m.url)]))
        .collect();
    let dependencies = node
        .declared
        .iter()
        .flatten()
        .map(|declared| {
            let declared = declared.borrow();
            let d = &declared.dependency;
            let import = match &declared.imported {
                None => d.import_values.iter().map(Value::from_json).collect(),
                Some(done) => done.iter().map(|(child, parent)| import_of(child, parent)).collect(),
            };
            object(
                &objects::DEPENDENCY,
                vec![
                    text(&d.name),
                    text(&d.version),
                    text(&d.repository),
                    text(&d.condition),
                    strings(&d.tags),
                    d.enabled.into(),
                    Value::List(List::new(import)),
                    text(&d.alias),
                ],
            )
        })
        .collect();
    let annotations = annotations.iter().map(|(key, value)| (Arc::from(key.as_str()), text(value))).collect();
    object(
        &objects::CHART,
        vec![
            text(&node.name),
            text(home),
            strings(sources),
            text(version),
            text(description),
            strings(keywords),
            Value::List(List::new(maintainers)),
            text(icon),
            text(api_version),
            text(condition),
            text(tags),
            text(app_version),
            (*deprecated).into(),
            Value::Map(Map::typed(MapType::Str, annotations)),
            text(kube_version),
            Value::List(List::new(dependencies)),
            text(chart_type),
            root.into(),
        ],
    )
}

/// What a dependency imported, as Helm shows it.
fn import_of(child: &str, parent: &str) -> Value {
    let fields = [("child", child), ("parent", parent)];
    let fields = fields.map(|(name, value)| (Arc::from(name), Value::str(value)));
    Value::Map(Map::typed(MapType::Str, fields.into()))
}

fn parse_error(path: &str, error: &str) -> String {
    let parts: Vec<&str> = error.split(": ").collect();
    match parts.as_slice() {
        [_, location, .., message] => format!("parse error at ({location}): {message}"),
        [_, message] => format!("parse error at ({message}): {message}"),
        _ => format!("parse error in ({path}): {error}"),
    }
}

fn exec_error(path: &str, fault: Fault) -> HelmError {
    let text = match fault {
        Fault::Limit(limit) => return HelmError::new(Stage::Limit, format!("{path}: {limit}")),
        Fault::Text(text) => return HelmError::new(Stage::Render, text),
        Fault::Exec(text) => text,
    };
    let mut parts = text.splitn(3, ": ");
    let message = match (parts.next(), parts.next(), parts.next()) {
        (Some(_), Some(location), Some(rest)) => {
            let warned = rest.split_once(WARN_START).and_then(|(_, tail)| tail.rsplit_once(WARN_END));
            match warned {
                Some((warning, _)) => format!("execution error at ({location}): {warning}"),
                None => text,
            }
        }
        _ => format!("execution error in ({path}): {text}"),
    };
    HelmError::new(Stage::Render, message)
}
