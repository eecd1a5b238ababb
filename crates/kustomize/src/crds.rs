//! Field specifications that the OpenAPI definitions named in `crds` state.

use super::config::{BackReference, Config, FieldSpec, merge_specs};
use super::error::{Error, Res, Within};
use super::id::Gvk;
use super::limits::Budget;
use super::loader::Loader;
use super::yaml::load::first_document;
use super::yaml::node::{Node, Tag};
use super::yaml::resolve::Dialect;

/// # Errors
/// A file cannot be read, or its specifications contradict each other.
pub(crate) fn load(paths: &[String], loader: &Loader<'_>, budget: &Budget) -> Res<Config> {
    let mut config = Config::default();
    for path in paths {
        let text = loader.load_text(path)?;
        let doc = first_document(text, Dialect::Old, budget)
            .map_err(|e| Error::new(e.at_problem()))
            .within(|| format!("unable to parse open API definition from '{path}'"))?
            .unwrap_or_else(Node::null);
        for (name, api) in doc.entries() {
            let properties = schema(api).and_then(|s| s.get("properties"));
            let is_kind = |p: &Node| ["kind", "apiVersion", "metadata"].iter().all(|f| p.get(f).is_some());
            if properties.is_some_and(is_kind) {
                let kind = name.text().rsplit('.').next().unwrap_or_default();
                let mut found = Config::default();
                let walk = Walk { doc: &doc, gvk: Gvk::new("", "", kind), budget };
                walk.visit(&mut found, name.text(), &mut Vec::new())?;
                config.merge(&found)?;
            }
        }
    }
    Ok(config)
}

fn schema(api: &Node) -> Option<&Node> {
    api.get("Schema").or_else(|| api.get("schema"))
}

struct Walk<'a> {
    doc: &'a Node,
    gvk: Gvk,
    budget: &'a Budget,
}

impl Walk<'_> {
    fn visit(&self, config: &mut Config, name: &str, path: &mut Vec<String>) -> Res<()> {
        self.budget.spend(1)?;
        if path.len() > self.budget.depth() {
            return Err(Error::limit("depth", self.budget.depth() as u64));
        }
        let Some(properties) = self.doc.get(name).and_then(schema).and_then(|s| s.get("properties")) else {
            return Ok(());
        };
        for (field, property) in properties.entries() {
            path.push(field.text().to_owned());
            self.property(config, property, path)?;
            path.pop();
        }
        Ok(())
    }

    fn property(&self, config: &mut Config, property: &Node, path: &mut Vec<String>) -> Res<()> {
        let text = |key: &str| property.get(key).filter(|v| v.tag == Tag::Str).map(Node::text);
        let spec = |path: &[String]| FieldSpec { gvk: self.gvk.clone(), path: path.join("/"), create: false };
        if text("x-kubernetes-annotation").is_some() {
            merge_specs(&mut config.common_annotations, &[spec(path)])?;
        }
        if text("x-kubernetes-label-selector").is_some() {
            merge_specs(&mut config.common_labels, &[spec(path)])?;
        }
        if text("x-kubernetes-identity").is_some() {
            merge_specs(&mut config.name_prefix, &[spec(path)])?;
        }
        if let (Some(version), Some(kind)) =
            (text("x-kubernetes-object-ref-api-version"), text("x-kubernetes-object-ref-kind"))
        {
            let key = text("x-kubernetes-object-ref-name-key").unwrap_or("name");
            path.push(key.to_owned());
            let back = BackReference { gvk: Gvk::new("", version, kind), referrers: vec![spec(path)] };
            path.pop();
            config.merge(&Config { name_reference: vec![back], ..Config::default() })?;
        }
        match property.get("$ref") {
            Some(reference) => self.visit(config, reference.text(), path),
            None => Ok(()),
        }
    }
}
