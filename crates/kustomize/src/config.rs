//! Field specifications: which fields of which kinds a transformer changes.

use super::error::{Error, Res};
use super::id::Gvk;
use super::json::Cx;
use super::limits::Budget;
use super::yaml::load::first_document;
use super::yaml::node::Node;
use super::yaml::resolve::Dialect;

/// A field of the kinds that a selector matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSpec {
    pub(crate) gvk: Gvk,
    /// Names between slashes; `\/` is a slash in a name.
    pub(crate) path: String,
    /// Make the field if it is missing.
    pub(crate) create: bool,
}

impl FieldSpec {
    pub(crate) fn everywhere(path: &str, create: bool) -> Self {
        Self { gvk: Gvk::default(), path: path.to_owned(), create }
    }
}

/// Adds what is not there yet.
///
/// # Errors
/// The same field with another `create`.
pub(crate) fn merge_specs(into: &mut Vec<FieldSpec>, more: &[FieldSpec]) -> Res<()> {
    for spec in more {
        match into.iter().find(|s| s.gvk.is_selected(&spec.gvk) && s.path == spec.path) {
            Some(s) if s.create != spec.create => return Err(Error::new("conflicting fieldspecs")),
            Some(_) => {}
            None => into.push(spec.clone()),
        }
    }
    Ok(())
}

/// Where the name of a kind is written in other resources.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackReference {
    pub(crate) gvk: Gvk,
    pub(crate) referrers: Vec<FieldSpec>,
}

/// All field specifications.
#[derive(Clone, Debug, Default)]
pub(crate) struct Config {
    pub(crate) name_prefix: Vec<FieldSpec>,
    pub(crate) name_suffix: Vec<FieldSpec>,
    pub(crate) namespace: Vec<FieldSpec>,
    pub(crate) common_labels: Vec<FieldSpec>,
    pub(crate) labels: Vec<FieldSpec>,
    pub(crate) template_labels: Vec<FieldSpec>,
    pub(crate) common_annotations: Vec<FieldSpec>,
    pub(crate) name_reference: Vec<BackReference>,
    pub(crate) var_reference: Vec<FieldSpec>,
    pub(crate) images: Vec<FieldSpec>,
    pub(crate) replicas: Vec<FieldSpec>,
}

impl Config {
    pub(crate) fn list_mut(&mut self, section: &str) -> Option<&mut Vec<FieldSpec>> {
        Some(match section.to_ascii_lowercase().as_str() {
            "nameprefix" => &mut self.name_prefix,
            "namesuffix" => &mut self.name_suffix,
            "namespace" => &mut self.namespace,
            "commonlabels" => &mut self.common_labels,
            "labels" => &mut self.labels,
            "templatelabels" => &mut self.template_labels,
            "commonannotations" => &mut self.common_annotations,
            "varreference" => &mut self.var_reference,
            "images" => &mut self.images,
            "replicas" => &mut self.replicas,
            _ => return None,
        })
    }

    fn pairs<'a>(
        &'a mut self,
        other: &'a Self,
    ) -> [(&'static str, &'a mut Vec<FieldSpec>, &'a [FieldSpec]); 10] {
        [
            ("NamePrefix", &mut self.name_prefix, &other.name_prefix),
            ("NameSuffix", &mut self.name_suffix, &other.name_suffix),
            ("NameSpace", &mut self.namespace, &other.namespace),
            ("CommonAnnotations", &mut self.common_annotations, &other.common_annotations),
            ("CommonLabels", &mut self.common_labels, &other.common_labels),
            ("Labels", &mut self.labels, &other.labels),
            ("TemplateLabels", &mut self.template_labels, &other.template_labels),
            ("VarReference", &mut self.var_reference, &other.var_reference),
            ("Images", &mut self.images, &other.images),
            ("Replicas", &mut self.replicas, &other.replicas),
        ]
    }

    pub(crate) fn sort(&mut self) {
        let none = Self::default();
        for (_, list, _) in self.pairs(&none) {
            list.sort_by(|a, b| a.gvk.order(&b.gvk));
        }
        self.name_reference.sort_by(|a, b| a.gvk.order(&b.gvk));
    }

    /// # Errors
    /// Two specifications of one field contradict each other.
    pub(crate) fn merge(&mut self, other: &Self) -> Res<()> {
        for (name, list, more) in self.pairs(other) {
            merge_specs(list, more).map_err(|e| e.within(format!("failed to merge {name} fieldSpec")))?;
        }
        for b in &other.name_reference {
            let mut found = false;
            for own in self.name_reference.iter_mut().filter(|o| o.gvk == b.gvk) {
                merge_specs(&mut own.referrers, &b.referrers)
                    .map_err(|e| e.within("failed to merge NameReference fieldSpec"))?;
                found = true;
            }
            if !found {
                self.name_reference.push(b.clone());
            }
        }
        self.sort();
        Ok(())
    }
}

/// Reads a configuration file.
///
/// # Errors
/// It is no YAML or has unknown fields.
pub(crate) fn parse_config(text: &str, budget: &Budget) -> Res<Config> {
    let node = first_document(text, Dialect::Old, budget)
        .map_err(|e| Error::new(format!("error converting YAML to JSON: {}", e.at_problem())))?
        .unwrap_or_else(Node::null);
    let mut config = Config::default();
    let cx = Cx::strict("TransformerConfig");
    cx.object(&node, |name, value, cx| {
        if name == "namereference" {
            config.name_reference = cx.list(value, back_reference)?;
        } else if let Some(list) = config.list_mut(name) {
            *list = cx.list(value, field_spec)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    })
    .map_err(|e| e.within("error unmarshaling JSON: while decoding JSON"))?;
    config.sort();
    Ok(config)
}

fn back_reference(node: &Node, cx: &Cx) -> Res<BackReference> {
    let mut b = BackReference::default();
    cx.object(node, |name, value, cx| {
        match name {
            "group" => b.gvk.group = cx.text(value)?,
            "version" => b.gvk.version = cx.text(value)?,
            "kind" => b.gvk.kind = cx.text(value)?,
            "fieldspecs" => b.referrers = cx.list(value, field_spec)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(b)
}

pub(crate) fn field_spec(node: &Node, cx: &Cx) -> Res<FieldSpec> {
    let mut f = FieldSpec::default();
    cx.object(node, |name, value, cx| {
        match name {
            "group" => f.gvk.group = cx.text(value)?,
            "version" => f.gvk.version = cx.text(value)?,
            "kind" => f.gvk.kind = cx.text(value)?,
            "path" => f.path = cx.text(value)?,
            "create" => f.create = cx.bool(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(f)
}
