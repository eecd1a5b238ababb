//! The Kustomization file.

use std::collections::BTreeMap;

use super::config::{FieldSpec, field_spec};
use super::error::{Error, Res};
use super::generate::{GeneratorArgs, GeneratorOptions};
use super::helm::{self, HelmChart, HelmGlobals};
use super::json::Cx;
use super::limits::Budget;
use super::replace::{self, Replacement};
use super::selector::{self, Selector};
use super::sort::{self, SortOptions};
use super::vars::{self, Var};
use super::yaml::load::first_document;
use super::yaml::node::{Data, Node};
use super::yaml::resolve::Dialect;

pub(crate) const KUSTOMIZATION: &str = "Kustomization";
pub(crate) const COMPONENT: &str = "Component";

/// The file's content with deprecated fields moved to their successors.
#[derive(Default)]
pub(crate) struct Kustomization {
    pub(crate) kind: String,
    pub(crate) api_version: String,
    pub(crate) openapi: BTreeMap<String, String>,
    pub(crate) name_prefix: String,
    pub(crate) name_suffix: String,
    pub(crate) namespace: String,
    pub(crate) common_labels: BTreeMap<String, String>,
    pub(crate) labels: Vec<Label>,
    pub(crate) common_annotations: BTreeMap<String, String>,
    pub(crate) patches_strategic_merge: Vec<String>,
    pub(crate) patches_json: Vec<Patch>,
    pub(crate) patches: Vec<Patch>,
    pub(crate) images: Vec<Image>,
    pub(crate) replacements: Vec<ReplacementField>,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) vars: Vec<Var>,
    pub(crate) sort_options: Option<SortOptions>,
    pub(crate) resources: Vec<String>,
    pub(crate) components: Vec<String>,
    pub(crate) crds: Vec<String>,
    pub(crate) config_maps: Vec<GeneratorArgs>,
    pub(crate) secrets: Vec<GeneratorArgs>,
    pub(crate) helm_globals: Option<HelmGlobals>,
    pub(crate) helm_charts: Vec<HelmChart>,
    pub(crate) generator_options: Option<GeneratorOptions>,
    pub(crate) configurations: Vec<String>,
    pub(crate) generators: Vec<String>,
    pub(crate) transformers: Vec<String>,
    pub(crate) validators: Vec<String>,
    pub(crate) build_metadata: Vec<String>,
}

/// One of `labels`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Label {
    pub(crate) pairs: BTreeMap<String, String>,
    pub(crate) include_selectors: bool,
    pub(crate) include_templates: bool,
    pub(crate) fields: Vec<FieldSpec>,
}

/// One of `patches`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patch {
    pub(crate) path: String,
    pub(crate) inline: String,
    pub(crate) target: Option<Selector>,
    pub(crate) allow_name_change: bool,
    pub(crate) allow_kind_change: bool,
}

/// One of `images`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Image {
    pub(crate) name: String,
    pub(crate) new_name: String,
    pub(crate) tag_suffix: String,
    pub(crate) new_tag: String,
    pub(crate) digest: String,
}

/// One of `replicas`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replica {
    pub(crate) name: String,
    pub(crate) count: i64,
}

/// One of `replacements`: written here or in a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplacementField {
    pub(crate) path: String,
    pub(crate) own: Replacement,
}

/// What the file says and what a person should change in it.
pub(crate) fn parse(text: &str, warnings: &mut Vec<String>, budget: &Budget) -> Res<Kustomization> {
    let node = first_document(text, Dialect::Old, budget)
        .map_err(|e| Error::new(e.at_problem()).within("invalid Kustomization"))?
        .unwrap_or_else(Node::null);
    let mut d = Decoder { k: Kustomization::default(), present: false, warn: [false; 6], bases: Vec::new() };
    let cx = Cx::strict("Kustomization");
    cx.object(&node, |name, value, cx| d.field(name, value, cx))
        .map_err(|e| e.within("invalid Kustomization"))?;
    for (i, field) in WARNED.iter().enumerate() {
        if d.warn.get(i).copied().unwrap_or_default() {
            warnings.push(warning(field));
        }
    }
    let mut k = d.k;
    k.resources.append(&mut d.bases);
    if k.kind.is_empty() {
        KUSTOMIZATION.clone_into(&mut k.kind);
    }
    let required = version_of(&k.kind);
    if k.api_version.is_empty() {
        required.clone_into(&mut k.api_version);
    }
    if !d.present {
        return Err(Error::new("kustomization.yaml is empty"));
    }
    Ok(k)
}

fn version_of(kind: &str) -> &'static str {
    if kind == COMPONENT { "kustomize.config.k8s.io/v1alpha1" } else { "kustomize.config.k8s.io/v1beta1" }
}

impl Kustomization {
    /// What is wrong with kind and version.
    pub(crate) fn header_problems(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.kind != KUSTOMIZATION && self.kind != COMPONENT {
            out.push(format!("kind should be {KUSTOMIZATION} or {COMPONENT}"));
        }
        let required = version_of(&self.kind);
        if self.api_version != required {
            out.push(format!("apiVersion for {} should be {required}", self.kind));
        }
        out
    }
}

/// In the order in which the program warns.
const WARNED: [&str; 6] =
    ["bases", "commonLabels", "imageTags", "patchesJson6902", "patchesStrategicMerge", "vars"];

fn warning(field: &str) -> String {
    let (successor, how) = match field {
        "bases" => ("resources", ""),
        "commonLabels" => ("labels", ""),
        "imageTags" => ("images", ""),
        "vars" => ("replacements", "[EXPERIMENTAL] "),
        _ => ("patches", ""),
    };
    format!(
        "# Warning: '{field}' is deprecated. Please use '{successor}' instead. {how}Run 'kustomize edit fix' to update \
         your Kustomization automatically."
    )
}

struct Decoder {
    k: Kustomization,
    /// Anything besides kind and version is set.
    present: bool,
    warn: [bool; 6],
    bases: Vec<String>,
}

impl Decoder {
    fn field(&mut self, name: &str, value: &Node, cx: &Cx) -> Res<bool> {
        let k = &mut self.k;
        let filled = |v: &Node| match &v.data {
            Data::Seq(items) => !items.is_empty(),
            _ => !v.is_null(),
        };
        let mut present = !value.is_null();
        match name {
            "kind" => {
                k.kind = cx.text(value)?;
                present = false;
            }
            "apiversion" => {
                k.api_version = cx.text(value)?;
                present = false;
            }
            "metadata" => metadata(value, cx)?,
            "openapi" => k.openapi = cx.text_map(value)?,
            "nameprefix" => present = set_text(&mut k.name_prefix, value, cx)?,
            "namesuffix" => present = set_text(&mut k.name_suffix, value, cx)?,
            "namespace" => present = set_text(&mut k.namespace, value, cx)?,
            "commonlabels" => {
                k.common_labels = cx.text_map(value)?;
                self.warn[1] = present;
            }
            "labels" => k.labels = cx.list(value, label)?,
            "commonannotations" => k.common_annotations = cx.text_map(value)?,
            "patchesstrategicmerge" => {
                k.patches_strategic_merge = cx.texts(value)?;
                self.warn[4] = present;
            }
            "patchesjson6902" => {
                k.patches_json = cx.list(value, patch)?;
                self.warn[3] = present;
            }
            "patches" => k.patches = cx.list(value, patch)?,
            "images" => {
                let later = std::mem::take(&mut k.images);
                k.images = cx.list(value, image)?;
                k.images.extend(later);
            }
            "imagetags" => {
                self.warn[2] = present;
                present = filled(value);
                k.images.extend(cx.list(value, image)?);
            }
            "replacements" => k.replacements = cx.list(value, replacement_field)?,
            "replicas" => k.replicas = cx.list(value, replica)?,
            "vars" => {
                k.vars = cx.list(value, vars::decode)?;
                self.warn[5] = present;
            }
            "sortoptions" => k.sort_options = if present { Some(sort::decode(value, cx)?) } else { None },
            "resources" => k.resources = cx.texts(value)?,
            "components" => k.components = cx.texts(value)?,
            "crds" => k.crds = cx.texts(value)?,
            "bases" => {
                self.warn[0] = present;
                present = filled(value);
                self.bases = cx.texts(value)?;
            }
            "configmapgenerator" => k.config_maps = cx.list(value, super::generate::decode)?,
            "secretgenerator" => k.secrets = cx.list(value, super::generate::decode)?,
            "helmglobals" => {
                k.helm_globals = if present { Some(helm::decode_globals(value, cx)?) } else { None }
            }
            "helmcharts" => {
                let later = std::mem::take(&mut k.helm_charts);
                k.helm_charts = cx.list(value, helm::decode_chart)?;
                k.helm_charts.extend(later);
            }
            "helmchartinflationgenerator" => {
                present = filled(value);
                for (chart, globals) in cx.list(value, helm::decode_old)? {
                    k.helm_charts.push(chart);
                    let old = k.helm_globals.get_or_insert_default();
                    old.fill_from(globals);
                }
            }
            "generatoroptions" => {
                k.generator_options =
                    if present { Some(super::generate::decode_options(value, cx)?) } else { None };
            }
            "configurations" => k.configurations = cx.texts(value)?,
            "generators" => k.generators = cx.texts(value)?,
            "transformers" => k.transformers = cx.texts(value)?,
            "validators" => k.validators = cx.texts(value)?,
            "buildmetadata" => k.build_metadata = cx.texts(value)?,
            _ => return Ok(false),
        }
        self.present |= present;
        Ok(true)
    }
}

fn set_text(into: &mut String, value: &Node, cx: &Cx) -> Res<bool> {
    *into = cx.text(value)?;
    Ok(!into.is_empty())
}

fn metadata(node: &Node, cx: &Cx) -> Res<()> {
    cx.object(node, |name, value, cx| {
        match name {
            "name" | "namespace" => {
                cx.text(value)?;
            }
            "labels" | "annotations" => {
                cx.text_map(value)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    })
}

fn label(node: &Node, cx: &Cx) -> Res<Label> {
    let mut l = Label::default();
    cx.object(node, |name, value, cx| {
        match name {
            "pairs" => l.pairs = cx.text_map(value)?,
            "includeselectors" => l.include_selectors = cx.bool(value)?,
            "includetemplates" => l.include_templates = cx.bool(value)?,
            "fields" => l.fields = cx.list(value, field_spec)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(l)
}

/// `path`, `patch`, `target`, `options`.
pub(crate) fn patch(node: &Node, cx: &Cx) -> Res<Patch> {
    let mut p = Patch::default();
    cx.object(node, |name, value, cx| patch_field(&mut p, name, value, cx))?;
    Ok(p)
}

/// One field of a patch; `false` if it is none.
pub(crate) fn patch_field(p: &mut Patch, name: &str, value: &Node, cx: &Cx) -> Res<bool> {
    match name {
        "path" => p.path = cx.text(value)?,
        "patch" => p.inline = cx.text(value)?,
        "target" => p.target = if value.is_null() { None } else { Some(selector::decode(value, cx)?) },
        "options" => cx.object(value, |name, value, cx| {
            match name {
                "allownamechange" => p.allow_name_change = cx.bool(value)?,
                "allowkindchange" => p.allow_kind_change = cx.bool(value)?,
                _ => return Ok(false),
            }
            Ok(true)
        })?,
        _ => return Ok(false),
    }
    Ok(true)
}

pub(crate) fn image(node: &Node, cx: &Cx) -> Res<Image> {
    let mut i = Image::default();
    cx.object(node, |name, value, cx| {
        match name {
            "name" => i.name = cx.text(value)?,
            "newname" => i.new_name = cx.text(value)?,
            "tagsuffix" => i.tag_suffix = cx.text(value)?,
            "newtag" => i.new_tag = cx.text(value)?,
            "digest" => i.digest = cx.text(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(i)
}

pub(crate) fn replica(node: &Node, cx: &Cx) -> Res<Replica> {
    let mut r = Replica::default();
    cx.object(node, |name, value, cx| {
        match name {
            "name" => r.name = cx.text(value)?,
            "count" => r.count = cx.int(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(r)
}

pub(crate) fn replacement_field(node: &Node, cx: &Cx) -> Res<ReplacementField> {
    let mut r = ReplacementField::default();
    cx.object(node, |name, value, cx| {
        if name == "path" {
            r.path = cx.text(value)?;
            return Ok(true);
        }
        replace::decode_field(&mut r.own, name, value, cx)
    })?;
    Ok(r)
}
