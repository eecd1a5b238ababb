//! Where an object came from, as annotations that `buildMetadata` asks for.

use std::fmt::Write as _;

use super::error::Res;
use super::fields::set_field;
use super::loader::clean;
use super::resource::Resource;
use super::yaml::node::{Node, Tag};

pub(crate) const ORIGIN: &str = "config.kubernetes.io/origin";
pub(crate) const TRANSFORMATIONS: &str = "alpha.config.kubernetes.io/transformations";

/// The path so far, from the root of the build.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    pub(crate) path: String,
}

/// Who configured a generator or transformer, and in which file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Maker {
    pub(crate) configured_in: String,
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) namespace: String,
}

fn scalar(text: &str) -> String {
    super::yaml::write::yaml(&Node::tagged(text, Tag::Str)).trim_end().to_owned()
}

impl Origin {
    pub(crate) fn append(&self, path: &str) -> Self {
        Self { path: clean(&format!("{}/{path}", self.path)) }
    }

    pub(crate) fn text(&self) -> String {
        format!("path: {}\n", scalar(&self.path))
    }
}

impl Maker {
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        if !self.configured_in.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "configuredIn: {}", scalar(&self.configured_in));
        }
        out.push_str("configuredBy:\n");
        for (key, value) in [
            ("apiVersion", &self.api_version),
            ("kind", &self.kind),
            ("name", &self.name),
            ("namespace", &self.namespace),
        ] {
            if !value.is_empty() {
                let _ = writeln!(out, "  {key}: {}", scalar(value));
            }
        }
        out
    }
}

pub(crate) fn annotate(r: &mut Resource, key: &str, text: &str) -> Res<()> {
    let meta = r.node_mut().map_field("metadata");
    set_field(meta.map_field("annotations"), key, Node::string(text))
}

fn annotation(r: &Resource, key: &str) -> Option<String> {
    super::resource::meta_map(r.node(), "annotations").get(key).map(|t| (*t).to_owned())
}

/// Says who generated an object, unless it is known.
///
/// # Errors
/// The annotations are no map.
pub(crate) fn generated(r: &mut Resource, maker: &Maker) -> Res<()> {
    if annotation(r, ORIGIN).is_none() {
        annotate(r, ORIGIN, &maker.text())?;
    }
    Ok(())
}

/// Adds a transformer to an object's history.
///
/// # Errors
/// The annotations are no map.
pub(crate) fn transformed(r: &mut Resource, maker: &Maker) -> Res<()> {
    if annotation(r, ORIGIN).is_none() {
        return annotate(r, ORIGIN, &maker.text());
    }
    let mut text = annotation(r, TRANSFORMATIONS).unwrap_or_default();
    for (i, line) in maker.text().lines().enumerate() {
        text.push_str(if i == 0 { "- " } else { "  " });
        text.push_str(line);
        text.push('\n');
    }
    annotate(r, TRANSFORMATIONS, &text)
}

/// A merged object came from where the older one did.
///
/// # Errors
/// The annotations are no map.
pub(crate) fn keep(new: &mut Resource, old: &Resource) -> Res<()> {
    match annotation(old, ORIGIN) {
        Some(text) => annotate(new, ORIGIN, &text),
        None => Ok(()),
    }
}
