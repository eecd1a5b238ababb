//! A Kustomization and what it leads to, from the files to the finished objects.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::config::{Config, FieldSpec, merge_specs, parse_config};
use super::defaults::default_config;
use super::error::{Error, ErrorKind, Res, Within};
use super::files::Files;
use super::generate::{Generated, generate};
use super::gitspec;
use super::helm::{self, HelmPort};
use super::kustomization::{COMPONENT, Kustomization, parse};
use super::limits::{Budget, Limits};
use super::loader::{Disk, Loader};
use super::origin::{self, Maker, Origin};
use super::patches::{in_file, load, load_json, load_merges};
use super::plugins::{self, Transformer};
use super::quote::quote;
use super::resmap::ResMap;
use super::resource::{Resource, meta_map, parse_all, set_meta_map, validate};
use super::schema::Schema;
use super::sort::{self, SortOptions};
use super::transform::{Namespace, Side};
use super::vars::{self, VarSet};
use super::yaml::emit::{self, EmitError};
use super::yaml::node::Node;
use super::yaml::write;
use super::{hash, nameref, shown};

/// How to build.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// Put before the tree's paths in messages; the program prints absolute paths.
    pub shown_root: &'a str,
    /// What the build may use.
    pub limits: Limits,
    /// Version in the label that `buildMetadata: [managedByLabel]` asks for; empty for the version that is followed.
    pub program_version: &'a str,
    /// Renders charts; without it a Kustomization that names one is refused.
    pub helm: Option<&'a dyn HelmPort>,
}

/// What came out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Build {
    /// The documents as `kustomize build` prints them.
    pub yaml: String,
    /// What the program says on standard error: deprecated fields.
    pub warnings: Vec<String>,
    nodes: Vec<Node>,
}

impl Build {
    /// The same objects, in the same order, as JSON.
    pub fn objects(&self) -> Vec<serde_json::Value> {
        self.nodes.iter().map(super::gomap::to_json).collect()
    }
}

/// What every part of a build needs.
pub(crate) struct Env<'a> {
    pub(crate) schema: &'a Schema,
    pub(crate) budget: &'a Budget,
    pub(crate) helm: Option<&'a dyn HelmPort>,
    version: &'a str,
}

/// Builds the Kustomization in the folder `path` of the tree.
///
/// # Errors
/// Whatever `kustomize build` refuses, in its words where they are known; remote files and bases that the tree does
/// not supply; charts without a renderer; limits.
pub fn build(files: &dyn Files, path: &str, options: &Options<'_>) -> Result<Build, Error> {
    let (schema, budget) = (Schema::default(), Budget::new(options.limits));
    let env = Env { schema: &schema, budget: &budget, helm: options.helm, version: options.program_version };
    let mut warnings = Vec::new();
    let loader = Loader::new(Disk { files, shown: options.shown_root }, path)?;
    let mut target = Target::load(Rc::clone(&loader), &mut warnings, &env)?;
    target.set_schema(&env, true)?;
    if !target.k.build_metadata.is_empty() {
        target.origin = Some(Origin::default());
    }
    let mut acc = target.accumulate(Acc::default(), &mut warnings, &env)?;
    add_hashes(&mut acc.map, &env)?;
    let Acc { mut map, config, vars } = acc;
    let config = config.as_config();
    nameref::fix(&mut map, &config.name_reference, &env)?;
    vars::resolve(&vars, &config.var_reference, &mut map, &env)?;
    drop_local(&mut map, &env)?;
    finish(&target.k, map, warnings, &env)
}

fn finish(k: &Kustomization, mut map: ResMap, warnings: Vec<String>, env: &Env<'_>) -> Res<Build> {
    let options = k.sort_options.clone().unwrap_or(SortOptions { order: "legacy".to_owned(), legacy: None });
    let ids: Vec<_> = map.list.iter().map(|r| r.id(env.schema).as_ref()).collect();
    if let Some(order) = sort::order(&options, &ids)? {
        let mut slots: Vec<Option<Resource>> = std::mem::take(&mut map.list).into_iter().map(Some).collect();
        map.list = order.into_iter().filter_map(|i| slots.get_mut(i).and_then(Option::take)).collect();
    }
    let wants = |option: &str| k.build_metadata.iter().any(|m| m == option);
    if wants("managedByLabel") {
        let version = if env.version.is_empty() { VERSION } else { env.version };
        let pairs = [("app.kubernetes.io/managed-by".to_owned(), format!("kustomize-{version}"))].into();
        super::transform::entries(&pairs, &[FieldSpec::everywhere("metadata/labels", true)], &mut map)?;
    }
    let mut out = Build { warnings, ..Build::default() };
    for r in &mut map.list {
        clean_annotations(r, wants("originAnnotations"), wants("transformerAnnotations"))?;
        if !out.yaml.is_empty() {
            out.yaml.push_str("---\n");
        }
        emit::document(r.node(), &mut out.yaml, env.budget.output_bytes()).map_err(|e| match e {
            EmitError::TooLong => Error::limit("output bytes", env.budget.output_bytes()),
            EmitError::Repeated(key) => Error::new(format!(
                "map[string]interface {{}}(nil): yaml: unmarshal errors:\n{}",
                write::repeated(r.node(), &key)
            )),
            EmitError::Yaml(text) => Error::new(format!("map[string]interface {{}}(nil): {text}")),
            EmitError::Json(text) => Error::new(format!("{}: {text}", super::gomap::show(r.node()))),
        })?;
    }
    out.nodes = map.list.into_iter().map(Resource::into_node).collect();
    Ok(out)
}

/// The version of the program that builds are equal to.
const VERSION: &str = "v5.8.1";

/// Annotations of the program itself.
const OWN_ANNOTATIONS: [&str; 19] = [
    "internal.config.kubernetes.io/previousKinds",
    "internal.config.kubernetes.io/previousNames",
    "internal.config.kubernetes.io/prefixes",
    "internal.config.kubernetes.io/suffixes",
    "internal.config.kubernetes.io/previousNamespaces",
    "internal.config.kubernetes.io/allowNameChange",
    "internal.config.kubernetes.io/allowKindChange",
    "internal.config.kubernetes.io/refBy",
    "internal.config.kubernetes.io/generatorBehavior",
    "internal.config.kubernetes.io/needsHashSuffix",
    "internal.config.kubernetes.io/path",
    "internal.config.kubernetes.io/index",
    "internal.config.kubernetes.io/seqindent",
    "internal.config.kubernetes.io/id",
    "internal.config.kubernetes.io/annotations-migration-resource-id",
    "config.kubernetes.io/path",
    "config.kubernetes.io/index",
    "config.k8s.io/id",
    "internal.config.kubernetes.io/helm-generated",
];

fn clean_annotations(r: &mut Resource, keep_origin: bool, keep_transformations: bool) -> Res<()> {
    let has = r.node().get("metadata").is_some_and(|m| m.get("annotations").is_some());
    if !has || (keep_origin && keep_transformations && meta_map(r.node(), "annotations").is_empty()) {
        return Ok(());
    }
    let node = r.node_mut();
    let Some(annotations) = node.get_mut("metadata").and_then(|m| m.remove("annotations")) else {
        return Ok(());
    };
    let mut texts: BTreeMap<&str, &str> =
        annotations.entries().iter().map(|(k, v)| (k.text(), v.text())).collect();
    texts.retain(|k, _| {
        !OWN_ANNOTATIONS.contains(k)
            && (keep_origin || *k != origin::ORIGIN)
            && (keep_transformations || *k != origin::TRANSFORMATIONS)
    });
    set_meta_map(node, "annotations", &texts)
}

fn misconfigured(kind: &str, config: &str) -> String {
    format!("trouble configuring builtin {kind} with config: `\n{config}`")
}

/// Gives generated objects their suffix.
pub(crate) fn add_hashes(map: &mut ResMap, env: &Env<'_>) -> Res<()> {
    for r in map.list.iter_mut().filter(|r| r.memory.needs_hash) {
        env.budget.copy_of(r.node())?;
        let suffix = hash::suffix(r)?;
        r.remember_id(env.schema);
        let name = format!("{}-{suffix}", r.id(env.schema).name);
        r.set_name(&name)?;
    }
    Ok(())
}

/// Objects that are only for the build do not come out.
fn drop_local(map: &mut ResMap, env: &Env<'_>) -> Res<()> {
    let mut kept = Vec::with_capacity(map.list.len());
    for r in std::mem::take(&mut map.list) {
        if r.node().is_nothing() {
            continue;
        }
        validate(r.node())?;
        let local = meta_map(r.node(), "annotations").get("config.kubernetes.io/local-config").copied();
        if local.is_none_or(|v| v == "false") {
            kept.push(r);
        }
    }
    map.list = kept;
    map.check_unique(env.schema)
}

/// Objects, configuration and variables so far.
#[derive(Default)]
struct Acc {
    map: ResMap,
    config: Settings,
    vars: VarSet,
}

/// Field specifications so far. Merging is not commutative, so nothing and the defaults differ.
#[derive(Default)]
enum Settings {
    #[default]
    Nothing,
    Default,
    Own(Rc<Config>),
}

impl Settings {
    fn as_config(&self) -> &Config {
        match self {
            Self::Nothing | Self::Default => default_config(),
            Self::Own(c) => c,
        }
    }

    fn merge(&mut self, more: Self) -> Res<()> {
        *self = match (std::mem::take(self), more) {
            (own, Self::Nothing) => own,
            (Self::Nothing | Self::Default, Self::Default) => Self::Default,
            (Self::Own(a), Self::Own(b)) if Rc::ptr_eq(&a, &b) => Self::Own(a),
            (own, more) => {
                let mut merged = match &own {
                    Self::Nothing => Config::default(),
                    Self::Default | Self::Own(_) => own.as_config().clone(),
                };
                merged.merge(more.as_config())?;
                Self::Own(Rc::new(merged))
            }
        };
        Ok(())
    }
}

impl Acc {
    fn take_in(&mut self, other: Self, env: &Env<'_>) -> Res<()> {
        self.map.append_all(other.map.list, env.schema)?;
        self.config.merge(other.config)?;
        vars::unite(&mut self.vars, other.vars)
    }
}

struct Target<'a> {
    k: Kustomization,
    file_name: &'static str,
    loader: Rc<Loader<'a>>,
    origin: Option<Origin>,
    /// The namespace that a parent sets, for charts.
    helm_namespace: String,
}

const FILE_NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

impl<'a> Target<'a> {
    fn load(loader: Rc<Loader<'a>>, warnings: &mut Vec<String>, env: &Env<'_>) -> Res<Self> {
        if loader.levels() > env.budget.bases() {
            return Err(Error::limit("nested bases", env.budget.bases() as u64));
        }
        let mut found = Vec::new();
        for name in FILE_NAMES {
            if let Ok(bytes) = loader.load(name) {
                found.push((name, bytes));
            }
        }
        let (file_name, bytes) = match found.as_slice() {
            [] => {
                return Err(Error::new(format!(
                    "unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory '{}'",
                    loader.root()
                )));
            }
            [one] => *one,
            _ => {
                return Err(Error::new(format!(
                    "Found multiple kustomization files under: {}\n",
                    loader.root()
                )));
            }
        };
        let text = std::str::from_utf8(bytes)
            .map_err(|_| Error::new("invalid Kustomization: yaml: invalid leading UTF-8 octet"))?;
        let k = parse(text, warnings, env.budget)?;
        let problems = k.header_problems();
        if !problems.is_empty() {
            return Err(Error::new(format!(
                "Failed to read kustomization file under {}:\n{}",
                loader.root(),
                problems.join("\n")
            )));
        }
        Ok(Self { k, file_name, loader, origin: None, helm_namespace: String::new() })
    }

    fn set_schema(&self, env: &Env<'_>, root: bool) -> Res<()> {
        let openapi = &self.k.openapi;
        let file = match openapi.get("path") {
            Some(path) => Some(self.loader.load_text(path)?),
            None => None,
        };
        env.schema.set(openapi.get("version").map(String::as_str), file, root, env.budget)
    }

    fn accumulate(&mut self, mut acc: Acc, warnings: &mut Vec<String>, env: &Env<'_>) -> Res<Acc> {
        let resources = std::mem::take(&mut self.k.resources);
        self.resources(&mut acc, &resources, warnings, env).within(|| "accumulating resources")?;
        let settings = if self.k.configurations.is_empty() {
            Settings::Default
        } else {
            let mut own = Config::default();
            for path in &self.k.configurations {
                own.merge(&parse_config(self.loader.load_text(path)?, env.budget)?)?;
            }
            let mut config = default_config().clone();
            config.merge(&own)?;
            Settings::Own(Rc::new(config))
        };
        acc.config.merge(settings).within(|| "merging config")?;
        if !self.k.crds.is_empty() {
            let config = super::crds::load(&self.k.crds, &self.loader, env.budget)
                .within(|| format!("loading CRDs [{}]", self.k.crds.join(" ")))?;
            acc.config.merge(Settings::Own(Rc::new(config))).within(|| "merging CRDs")?;
        }
        self.generate(&mut acc, warnings, env)?;
        let components = std::mem::take(&mut self.k.components);
        acc = self.components(acc, &components, warnings, env).within(|| "accumulating components")?;
        self.transform(&mut acc, warnings, env)?;
        self.validate(&mut acc, warnings, env)?;
        vars::define(&mut acc.vars, &self.k.vars, &mut acc.map, env)
            .within(|| format!("merging vars {}", vars::shown(&self.k.vars)))?;
        Ok(acc)
    }

    fn resources(
        &self,
        acc: &mut Acc,
        paths: &[String],
        warnings: &mut Vec<String>,
        env: &Env<'_>,
    ) -> Res<()> {
        for path in paths {
            let as_file = match self.file(acc, path, env) {
                Ok(()) => continue,
                Err(e) => e,
            };
            if as_file.kind() == ErrorKind::Limit {
                return Err(as_file);
            }
            let malformed = as_file.message().contains("MalformedYAMLError");
            let loader = match self.loader.enter(path) {
                Ok(l) => l,
                Err(e) if e.kind() == ErrorKind::Remote => {
                    return Err(e);
                }
                Err(_) if malformed => return Err(as_file),
                Err(e) => return Err(e.within(format!("accumulation err='{as_file}'"))),
            };
            let empty = Acc::default();
            let root = loader.root();
            let sub = self
                .folder(empty, loader, path, false, warnings, env)
                .within(|| format!("accumulation err='{as_file}'"))?;
            acc.take_in(sub, env)
                .within(|| format!("recursed merging from path '{root}'"))
                .within(|| format!("accumulation err='{as_file}'"))?;
        }
        Ok(())
    }

    fn file(&self, acc: &mut Acc, path: &str, env: &Env<'_>) -> Res<()> {
        if gitspec::is_repository(path) && !gitspec::is_url(path) {
            return Err(gitspec::refused(path));
        }
        let read = || -> Res<Vec<Resource>> {
            let text = self.loader.load_text(path)?;
            let list = parse_all(text, env.budget).map_err(|e| in_file(e, path))?;
            let mut map = ResMap::default();
            map.append_all(list, env.schema)?;
            Ok(map.list)
        };
        let mut list = read().within(|| format!("accumulating resources from '{path}'"))?;
        if let Some(o) = &self.origin {
            let text = o.append(path).text();
            for r in &mut list {
                origin::annotate(r, origin::ORIGIN, &text)?;
            }
        }
        acc.map.append_all(list, env.schema).within(|| format!("merging resources from '{path}'"))
    }

    fn components(
        &self,
        mut acc: Acc,
        paths: &[String],
        warnings: &mut Vec<String>,
        env: &Env<'_>,
    ) -> Res<Acc> {
        for path in paths {
            let loader = self.loader.enter(path).map_err(|e| {
                if e.kind() == ErrorKind::Remote {
                    return e;
                }
                let text = format!("loader.New {}", quote(e.message()));
                e.reworded(text)
            })?;
            acc = self.folder(acc, loader, path, true, warnings, env).map_err(|e| {
                if e.kind() == ErrorKind::Remote {
                    return e;
                }
                let text = format!("accumulateDirectory: {}", quote(e.message()));
                e.reworded(text)
            })?;
        }
        Ok(acc)
    }

    fn folder(
        &self,
        acc: Acc,
        loader: Rc<Loader<'a>>,
        path: &str,
        component: bool,
        warnings: &mut Vec<String>,
        env: &Env<'_>,
    ) -> Res<Acc> {
        let root = loader.root();
        let mut sub = Target::load(loader, warnings, env)
            .within(|| format!("couldn't make target for path '{root}'"))?;
        sub.k.build_metadata.clone_from(&self.k.build_metadata);
        sub.origin = self.origin.as_ref().map(|o| o.append(path));
        let own = if self.k.namespace.is_empty() { &self.helm_namespace } else { &self.k.namespace };
        sub.helm_namespace.clone_from(own);
        sub.set_schema(env, false)?;
        let is_component = sub.k.kind == COMPONENT;
        if component && !is_component {
            return Err(Error::new(format!(
                "expected kind '{COMPONENT}' for path '{root}' but got '{}'",
                sub.k.kind
            )));
        }
        if !component && is_component {
            return Err(Error::new(format!("expected kind != '{COMPONENT}' for path '{root}'")));
        }
        sub.accumulate(acc, warnings, env).within(|| format!("recursed accumulation of path '{root}'"))
    }

    fn maker(&self, kind: &str) -> Option<Maker> {
        self.origin.as_ref().map(|o| Maker {
            configured_in: o.append(self.file_name).path,
            api_version: "builtin".to_owned(),
            kind: kind.to_owned(),
            ..Maker::default()
        })
    }

    fn generate(&self, acc: &mut Acc, warnings: &mut Vec<String>, env: &Env<'_>) -> Res<()> {
        let k = &self.k;
        let global = k.generator_options.as_ref();
        let mut absorb = |list: Vec<Resource>, maker: Option<&Maker>| -> Res<()> {
            for mut r in list {
                if let Some(m) = maker {
                    origin::generated(&mut r, m)?;
                }
                acc.map.absorb(r, env.schema).within(|| "merging from generator &{0xADDR <nil>}")?;
            }
            Ok(())
        };
        for (args, what, kind) in k
            .config_maps
            .iter()
            .map(|a| (a, Generated::ConfigMap, "ConfigMapGenerator"))
            .chain(k.secrets.iter().map(|a| (a, Generated::Secret, "SecretGenerator")))
        {
            let made = generate(&args.clone().with_global(global), what, &self.loader)?;
            env.budget.copy_of(made.node())?;
            absorb(vec![made], self.maker(kind).as_ref())?;
        }
        let globals = k.helm_globals.clone().unwrap_or_default();
        for chart in &k.helm_charts {
            let mut chart = chart.clone();
            if chart.namespace.is_empty() {
                let inherited = if k.namespace.is_empty() { &self.helm_namespace } else { &k.namespace };
                chart.namespace.clone_from(inherited);
            }
            let made = helm::inflate(&chart, &globals, &self.loader, env)?;
            absorb(made, self.maker("HelmChartInflationGenerator").as_ref())?;
        }
        let own = self.configured(&k.generators, warnings, env).within(|| "loading generator plugins");
        for r in own?.list {
            let made = plugins::run_generator(&r, &self.loader, env);
            absorb(made?, plugins::maker_of(&r).as_ref())?;
        }
        Ok(())
    }

    /// Objects that configure generators or transformers: each entry is a text, a file or a folder.
    fn configured(&self, entries: &[String], warnings: &mut Vec<String>, env: &Env<'_>) -> Res<ResMap> {
        let mut acc = Acc::default();
        let mut paths = Vec::new();
        for entry in entries {
            let parsed = parse_all(entry, env.budget).and_then(|list| {
                let mut map = ResMap::default();
                map.append_all(list, env.schema)?;
                Ok(map.list)
            });
            match parsed {
                Ok(mut list) => {
                    if let Some(o) = &self.origin {
                        let text = o.append(self.file_name).text();
                        for r in &mut list {
                            origin::annotate(r, origin::ORIGIN, &text)?;
                        }
                    }
                    acc.map.append_all(list, env.schema).within(|| "configuring external transformer")?;
                }
                Err(e) if e.kind() == ErrorKind::Limit => return Err(e),
                Err(_) => paths.push(entry.clone()),
            }
        }
        self.resources(&mut acc, &paths, warnings, env)?;
        Ok(acc.map)
    }

    fn transform(&self, acc: &mut Acc, warnings: &mut Vec<String>, env: &Env<'_>) -> Res<()> {
        let mut all: Vec<(Transformer, Option<Maker>)> = Vec::new();
        let k = &self.k;
        let tc = acc.config.as_config();
        if !k.patches_strategic_merge.is_empty() {
            let list = load_merges(&k.patches_strategic_merge, "", &self.loader, env).within(|| {
                misconfigured("PatchStrategicMergeTransformer", &shown::paths(&k.patches_strategic_merge))
            })?;
            all.push((Transformer::Merges(list), self.maker("PatchStrategicMergeTransformer")));
        }
        for p in &k.patches {
            let loaded =
                load(p, &self.loader, env).within(|| misconfigured("PatchTransformer", &shown::patch(p)))?;
            all.push((Transformer::Patch(loaded), self.maker("PatchTransformer")));
        }
        if !k.namespace.is_empty() {
            let namespace =
                Namespace { name: k.namespace.clone(), specs: tc.namespace.clone(), ..Namespace::default() };
            all.push((Transformer::Namespace(namespace), self.maker("NamespaceTransformer")));
        }
        if !k.name_prefix.is_empty() {
            let t = Transformer::Affix(Side::Prefix, k.name_prefix.clone(), tc.name_prefix.clone());
            all.push((t, self.maker("PrefixTransformer")));
        }
        if !k.name_suffix.is_empty() {
            let t = Transformer::Affix(Side::Suffix, k.name_suffix.clone(), tc.name_suffix.clone());
            all.push((t, self.maker("SuffixTransformer")));
        }
        self.labels(tc, &mut all)?;
        if !k.common_annotations.is_empty() {
            let t = Transformer::Entries(k.common_annotations.clone(), tc.common_annotations.clone());
            all.push((t, self.maker("AnnotationsTransformer")));
        }
        for p in &k.patches_json {
            let loaded = load_json(p.target.clone(), &p.path, &p.inline, &self.loader, env)
                .within(|| misconfigured("PatchJson6902Transformer", &shown::json_patch(p)))?;
            all.push((Transformer::Json(loaded), self.maker("PatchJson6902Transformer")));
        }
        for r in &k.replicas {
            let t = Transformer::Replicas(r.clone(), tc.replicas.clone());
            all.push((t, self.maker("ReplicaCountTransformer")));
        }
        for i in &k.images {
            let t = Transformer::Image(i.clone(), tc.images.clone());
            all.push((t, self.maker("ImageTagTransformer")));
        }
        if !k.replacements.is_empty() {
            let list = plugins::load_replacements(&k.replacements, &self.loader, env)
                .within(|| misconfigured("ReplacementTransformer", ""))?;
            all.push((Transformer::Replacements(list), self.maker("ReplacementTransformer")));
        }
        for r in self.configured(&k.transformers, warnings, env)?.list {
            let maker = plugins::maker_of(&r);
            all.push((plugins::transformer(&r, &self.loader, env)?, maker));
        }
        for (t, maker) in &all {
            t.run(&mut acc.map, env)?;
            acc.map.list.iter_mut().for_each(Resource::settle_shared);
            if let Some(m) = maker {
                for r in &mut acc.map.list {
                    origin::transformed(r, m)?;
                }
            }
            acc.map.drop_empties();
        }
        Ok(())
    }

    fn labels(&self, tc: &Config, all: &mut Vec<(Transformer, Option<Maker>)>) -> Res<()> {
        let k = &self.k;
        if k.labels.is_empty() && k.common_labels.is_empty() {
            return Ok(());
        }
        for label in &k.labels {
            let mut specs = label.fields.clone();
            let failed = || "failed to merge labels";
            merge_specs(&mut specs, &tc.labels).within(failed)?;
            if label.include_selectors {
                merge_specs(&mut specs, &tc.common_labels).within(failed)?;
            } else {
                if label.include_templates {
                    merge_specs(&mut specs, &tc.template_labels)
                        .within(|| "failed to merge template fieldSpec")?;
                }
                merge_specs(&mut specs, &[FieldSpec::everywhere("metadata/labels", true)]).within(failed)?;
            }
            all.push((Transformer::Entries(label.pairs.clone(), specs), self.maker("LabelTransformer")));
        }
        let t = Transformer::Entries(k.common_labels.clone(), tc.common_labels.clone());
        all.push((t, self.maker("LabelTransformer")));
        Ok(())
    }

    fn validate(&self, acc: &mut Acc, warnings: &mut Vec<String>, env: &Env<'_>) -> Res<()> {
        if self.k.validators.is_empty() {
            return Ok(());
        }
        for r in self.configured(&self.k.validators, warnings, env)?.list {
            let before = acc.map.clone();
            plugins::transformer(&r, &self.loader, env)?.run(&mut acc.map, env)?;
            let same = before.list.len() == acc.map.list.len()
                && before.list.iter().zip(&acc.map.list).all(|(a, b)| a.node() == b.node());
            if !same {
                return Err(Error::new("validator shouldn't modify the resource map: nodes unequal"));
            }
        }
        Ok(())
    }
}
