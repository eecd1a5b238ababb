//! Generators, transformers and validators that are written as objects of their own. Only built-in ones run.

use super::config::{FieldSpec, field_spec};
use super::error::{Error, Res, Within};
use super::generate::{self, Generated, GeneratorArgs};
use super::helm;
use super::json::{Cx, Numbers, normalize};
use super::kustomization::{self, Image, Patch, ReplacementField, Replica};
use super::loader::Loader;
use super::origin::{self, Maker};
use super::patches::{self, Loaded, LoadedJson};
use super::replace::{self, Replacement};
use super::resmap::ResMap;
use super::resource::Resource;
use super::selector::{self, Selector};
use super::target::Env;
use super::transform::{self, Namespace, Side, Subjects, ValueTarget};
use super::yaml::load::first_document;
use super::yaml::node::{Data, Node};
use super::yaml::resolve::Dialect;

/// A transformer that is ready to run.
pub(crate) enum Transformer {
    Merges(Vec<Resource>),
    Patch(Loaded),
    Json(LoadedJson),
    Namespace(Namespace),
    Affix(Side, String, Vec<FieldSpec>),
    /// Labels or annotations.
    Entries(std::collections::BTreeMap<String, String>, Vec<FieldSpec>),
    Replicas(Replica, Vec<FieldSpec>),
    Image(Image, Vec<FieldSpec>),
    Replacements(Vec<Replacement>),
    Value(String, Vec<ValueTarget>),
    Hash,
    All(Vec<Transformer>),
}

impl Transformer {
    /// # Errors
    /// As each of them says.
    pub(crate) fn run(&self, map: &mut ResMap, env: &Env<'_>) -> Res<()> {
        match self {
            Self::Merges(list) => patches::apply_named(list, map, env),
            Self::Patch(p) => p.apply(map, env),
            Self::Json(p) => p.apply(map, env),
            Self::Namespace(n) => n.apply(map, env),
            Self::Affix(side, text, specs) => transform::affix(*side, text, specs, map, env),
            Self::Entries(pairs, specs) => transform::entries(pairs, specs, map),
            Self::Replicas(r, specs) => transform::replicas(r, specs, map, env),
            Self::Image(i, specs) => transform::image(i, specs, map, env),
            Self::Replacements(list) => replace::apply(list, map, env),
            Self::Value(value, targets) => transform::add_value(value, targets, map, env),
            Self::Hash => super::target::add_hashes(map, env),
            Self::All(list) => list.iter().try_for_each(|t| t.run(map, env)),
        }
    }
}

/// A configuration object in the form that settings are decoded from.
fn settings(r: &Resource) -> Res<Node> {
    let mut node = r.node().clone();
    normalize(&mut node, Dialect::New, Numbers::Exact).map_err(Error::new)?;
    Ok(node)
}

fn is_builtin(r: &Resource) -> bool {
    r.text_at("apiVersion") == "builtin"
}

fn refuse(r: &Resource) -> Error {
    Error::new(format!("external plugins disabled; unable to load external plugin '{}'", r.text_at("kind")))
}

fn unknown(r: &Resource, env: &Env<'_>) -> Error {
    Error::new(format!("unable to load builtin {}", r.id(env.schema).gvk))
}

/// Who configured a plugin, if origins are wanted.
pub(crate) fn maker_of(r: &Resource) -> Option<Maker> {
    let annotations = super::resource::meta_map(r.node(), "annotations");
    let text = annotations.get(origin::ORIGIN)?;
    let path = text.lines().find_map(|l| l.strip_prefix("path: ")).unwrap_or_default().to_owned();
    Some(Maker {
        configured_in: path,
        api_version: r.text_at("apiVersion").to_owned(),
        kind: r.text_at("kind").to_owned(),
        name: super::id::meta_text(r.node(), "name").to_owned(),
        namespace: super::id::meta_text(r.node(), "namespace").to_owned(),
    })
}

/// Runs a generator object.
///
/// # Errors
/// It is none, or not built in, or what it says.
pub(crate) fn run_generator(r: &Resource, loader: &Loader<'_>, env: &Env<'_>) -> Res<Vec<Resource>> {
    let loading = "loading generator plugins: failed to load generator";
    if !is_builtin(r) {
        return Err(refuse(r).within(loading));
    }
    let node = settings(r)?;
    let cx = Cx::lenient("Generator");
    let failed = || format!("{loading}: plugin {} fails configuration", r.original_id(env.schema));
    match r.text_at("kind") {
        kind @ ("ConfigMapGenerator" | "SecretGenerator") => {
            let mut args = GeneratorArgs::default();
            cx.object(&node, |name, value, cx| match name {
                "kind" => Ok(true),
                _ => generate::field(&mut args, name, value, cx),
            })
            .within(failed)?;
            if args.name.is_empty() {
                super::id::meta_text(&node, "name").clone_into(&mut args.name);
            }
            if args.namespace.is_empty() {
                super::id::meta_text(&node, "namespace").clone_into(&mut args.namespace);
            }
            let what = if kind == "SecretGenerator" { Generated::Secret } else { Generated::ConfigMap };
            Ok(vec![generate::generate(&args, what, loader)?])
        }
        "HelmChartInflationGenerator" => {
            let (chart, globals) = helm::decode_both(&node, &cx).within(failed)?;
            helm::inflate(&chart, &globals, loader, env)
        }
        "IAMPolicyGenerator" => Ok(vec![iam_policy(&node)?]),
        "AnnotationsTransformer"
        | "HashTransformer"
        | "ImageTagTransformer"
        | "LabelTransformer"
        | "NamespaceTransformer"
        | "PatchJson6902Transformer"
        | "PatchStrategicMergeTransformer"
        | "PatchTransformer"
        | "PrefixSuffixTransformer"
        | "PrefixTransformer"
        | "SuffixTransformer"
        | "ReplacementTransformer"
        | "ReplicaCountTransformer"
        | "ValueAddTransformer" => {
            Err(Error::new(format!("{loading}: plugin {} not a generator", r.original_id(env.schema))))
        }
        _ => Err(unknown(r, env).within(loading)),
    }
}

/// A service account that acts as one of Google's.
fn iam_policy(node: &Node) -> Res<Resource> {
    let text = |path: &[&str]| node.at(path).map_or("", Node::value).to_owned();
    let cloud = text(&["cloud"]);
    if cloud != "gke" {
        return Err(Error::new(format!("cloud provider {cloud} not supported yet")));
    }
    let account = format!(
        "{}@{}.iam.gserviceaccount.com",
        text(&["serviceAccount", "name"]),
        text(&["serviceAccount", "projectId"])
    );
    let mut out = Node::empty(super::yaml::node::Shape::Map);
    out.push_field("apiVersion", Node::string("v1"));
    out.push_field("kind", Node::string("ServiceAccount"));
    let meta = out.map_field("metadata");
    meta.map_field("annotations").push_field("iam.gke.io/gcp-service-account", Node::string(&account));
    meta.push_field("name", Node::string(&text(&["kubernetesService", "name"])));
    let namespace = text(&["kubernetesService", "namespace"]);
    if !namespace.is_empty() {
        meta.push_field("namespace", Node::string(&namespace));
    }
    Ok(Resource::new(out))
}

/// Makes a transformer of an object.
///
/// # Errors
/// It is none, or not built in, or its settings are wrong.
pub(crate) fn transformer(r: &Resource, loader: &Loader<'_>, env: &Env<'_>) -> Res<Transformer> {
    if !is_builtin(r) {
        return Err(refuse(r));
    }
    let node = settings(r)?;
    let made = configure(r, &node, loader, env);
    match made {
        Ok(Some(t)) => Ok(t),
        Ok(None)
            if matches!(
                r.text_at("kind"),
                "ConfigMapGenerator"
                    | "SecretGenerator"
                    | "IAMPolicyGenerator"
                    | "HelmChartInflationGenerator"
            ) =>
        {
            Err(Error::new(format!("plugin {} not a transformer", r.original_id(env.schema))))
        }
        Ok(None) => Err(unknown(r, env)),
        Err(e) => Err(e.within(format!("plugin {} fails configuration", r.original_id(env.schema)))),
    }
}

#[derive(Default)]
struct Settings {
    specs: Option<Vec<FieldSpec>>,
    pairs: std::collections::BTreeMap<String, String>,
    image: Image,
    replica: Replica,
    patch: Patch,
    text: String,
    suffix: String,
    paths: Vec<String>,
    target: Option<Selector>,
    replacements: Vec<ReplacementField>,
    unset_only: bool,
    subjects: String,
    targets: Vec<ValueTarget>,
    target_file: String,
}

fn configure(r: &Resource, node: &Node, loader: &Loader<'_>, env: &Env<'_>) -> Res<Option<Transformer>> {
    let kind = r.text_at("kind").to_owned();
    let mut s = Settings::default();
    let cx = Cx::lenient("Transformer");
    cx.object(node, |name, value, cx| {
        match (kind.as_str(), name) {
            (_, "fieldspecs") if value.is_null() => {}
            (_, "fieldspecs") => s.specs = Some(cx.list(value, field_spec)?),
            ("AnnotationsTransformer", "annotations") | ("LabelTransformer", "labels") => {
                s.pairs = cx.text_map(value)?;
            }
            ("ImageTagTransformer", "imagetag") => s.image = kustomization::image(value, cx)?,
            ("ReplicaCountTransformer", "replica") => s.replica = kustomization::replica(value, cx)?,
            ("PatchTransformer", _) => return kustomization::patch_field(&mut s.patch, name, value, cx),
            ("PrefixTransformer" | "PrefixSuffixTransformer", "prefix")
            | ("PatchStrategicMergeTransformer", "patches")
            | ("ValueAddTransformer", "value") => s.text = cx.text(value)?,
            ("SuffixTransformer" | "PrefixSuffixTransformer", "suffix") => s.suffix = cx.text(value)?,
            ("PatchStrategicMergeTransformer", "paths") => s.paths = cx.texts(value)?,
            ("PatchJson6902Transformer", "target") => {
                s.target = if value.is_null() { None } else { Some(selector::decode(value, cx)?) };
            }
            ("PatchJson6902Transformer", "path") => s.patch.path = cx.text(value)?,
            ("PatchJson6902Transformer", "jsonop") => s.patch.inline = cx.text(value)?,
            ("ReplacementTransformer", "replacements") => {
                s.replacements = cx.list(value, kustomization::replacement_field)?;
            }
            ("NamespaceTransformer", "unsetonly") => s.unset_only = cx.bool(value)?,
            ("NamespaceTransformer", "setrolebindingsubjects") => s.subjects = cx.text(value)?,
            ("ValueAddTransformer", "targetfilepath") => s.target_file = cx.text(value)?,
            ("ValueAddTransformer", "targets") => s.targets = cx.list(value, value_target)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    let needs_specs = || Error::new("fieldSpecs is not expected to be nil");
    let specs = s.specs.clone();
    Ok(Some(match kind.as_str() {
        "AnnotationsTransformer" | "LabelTransformer" => {
            Transformer::Entries(s.pairs, specs.unwrap_or_default())
        }
        "HashTransformer" => Transformer::Hash,
        "ImageTagTransformer" => Transformer::Image(s.image, specs.unwrap_or_default()),
        "NamespaceTransformer" => Transformer::Namespace(Namespace {
            name: super::id::meta_text(node, "namespace").to_owned(),
            specs: specs.unwrap_or_default(),
            unset_only: s.unset_only,
            subjects: subjects(&s.subjects)?,
        }),
        "PatchJson6902Transformer" => {
            let p = &s.patch;
            Transformer::Json(patches::load_json(s.target, &p.path, &p.inline, loader, env)?)
        }
        "PatchStrategicMergeTransformer" => {
            Transformer::Merges(patches::load_merges(&s.paths, &s.text, loader, env)?)
        }
        "PatchTransformer" => Transformer::Patch(patches::load(&s.patch, loader, env)?),
        "PrefixTransformer" => Transformer::Affix(Side::Prefix, s.text, specs.ok_or_else(needs_specs)?),
        "SuffixTransformer" => Transformer::Affix(Side::Suffix, s.suffix, specs.ok_or_else(needs_specs)?),
        "PrefixSuffixTransformer" => {
            let specs = specs.ok_or_else(needs_specs)?;
            Transformer::All(vec![
                Transformer::Affix(Side::Prefix, s.text, specs.clone()),
                Transformer::Affix(Side::Suffix, s.suffix, specs),
            ])
        }
        "ReplacementTransformer" => {
            Transformer::Replacements(load_replacements(&s.replacements, loader, env)?)
        }
        "ReplicaCountTransformer" => Transformer::Replicas(s.replica, specs.unwrap_or_default()),
        "ValueAddTransformer" => {
            if !s.target_file.is_empty() {
                s.targets.extend(more_targets(loader.load_text(&s.target_file)?, env)?);
            }
            let value = s.text.trim();
            let value = if value.is_empty() { loader.root_name() } else { value };
            Transformer::Value(value.to_owned(), check_targets(s.targets)?)
        }
        _ => return Ok(None),
    }))
}

fn subjects(mode: &str) -> Res<Subjects> {
    match mode {
        "" | "defaultOnly" => Ok(Subjects::Default),
        "allServiceAccounts" => Ok(Subjects::AllServiceAccounts),
        "none" => Ok(Subjects::None),
        other => Err(Error::new(format!(
            "invalid value {} for setRoleBindingSubjects: must be one of \"defaultOnly\", \"none\" or \
             \"allServiceAccounts\"",
            super::quote::quote(other)
        ))),
    }
}

fn value_target(node: &Node, cx: &Cx) -> Res<ValueTarget> {
    let mut t = ValueTarget::default();
    cx.object(node, |name, value, cx| {
        match name {
            "selector" => {
                t.selector = if value.is_null() { None } else { Some(selector::decode(value, cx)?) }
            }
            "fieldpath" => t.field_path = cx.text(value)?,
            "filepathposition" => t.file_path_position = cx.int(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(t)
}

fn more_targets(text: &str, env: &Env<'_>) -> Res<Vec<ValueTarget>> {
    let node = first_document(text, Dialect::Old, env.budget).map_err(|e| Error::new(e.at_problem()))?;
    match node.as_ref().and_then(|n| n.get("targets")) {
        Some(targets) => Cx::lenient("Targets").list(targets, value_target),
        None => Ok(Vec::new()),
    }
}

fn check_targets(targets: Vec<ValueTarget>) -> Res<Vec<ValueTarget>> {
    if targets.is_empty() {
        return Err(Error::new("must specify at least one target"));
    }
    for t in &targets {
        if t.field_path.is_empty() {
            return Err(Error::new("fieldPath cannot be empty"));
        }
        if t.file_path_position < 0 {
            return Err(Error::new(format!(
                "value of FilePathPosition ({}) cannot be negative",
                t.file_path_position
            )));
        }
    }
    Ok(targets)
}

/// Replacements, some of them in files.
///
/// # Errors
/// Both a file and a replacement, or a file that holds none.
pub(crate) fn load_replacements(
    list: &[ReplacementField],
    loader: &Loader<'_>,
    env: &Env<'_>,
) -> Res<Vec<Replacement>> {
    let mut out = Vec::new();
    for r in list {
        if r.path.is_empty() {
            out.push(r.own.clone());
            continue;
        }
        if r.own.source.is_some() || r.own.targets.as_ref().is_some_and(|t| !t.is_empty()) {
            return Err(Error::new("cannot specify both path and inline replacement"));
        }
        let text = loader.load_text(&r.path)?;
        let node = first_document(text, Dialect::Old, env.budget)
            .map_err(|e| Error::new(format!("error converting YAML to JSON: {}", e.at_problem())))?
            .unwrap_or_else(Node::null);
        let cx = Cx::lenient("Replacement");
        match node.data {
            Data::Seq(_) => out.extend(cx.list(&node, replace::decode)?),
            Data::Map(_) => out.push(replace::decode(&node, &cx)?),
            Data::Scalar(_) => {
                return Err(Error::new(
                    "unsupported replacement type encountered within replacement path: invalid",
                ));
            }
        }
    }
    Ok(out)
}
