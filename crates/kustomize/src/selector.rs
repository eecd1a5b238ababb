//! Which resources a patch, replacement or transformer is for.

use regex::Regex;

use super::error::{Error, Res};
use super::id::{Gvk, ResId};
use super::json::Cx;
use super::labels::LabelSelector;
use super::yaml::node::Node;

/// As written: regular expressions, empty parts match anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    pub(crate) gvk: Gvk,
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) annotations: String,
    pub(crate) labels: String,
}

pub(crate) fn decode(node: &Node, cx: &Cx) -> Res<Selector> {
    let mut s = Selector::default();
    cx.object(node, |name, value, cx| {
        match name {
            "group" => s.gvk.group = cx.text(value)?,
            "version" => s.gvk.version = cx.text(value)?,
            "kind" => s.gvk.kind = cx.text(value)?,
            "name" => s.name = cx.text(value)?,
            "namespace" => s.namespace = cx.text(value)?,
            "annotationselector" => s.annotations = cx.text(value)?,
            "labelselector" => s.labels = cx.text(value)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(s)
}

/// Ready to match.
#[derive(Debug)]
pub(crate) struct Matcher {
    group: Option<Regex>,
    version: Option<Regex>,
    kind: Option<Regex>,
    name: Option<Regex>,
    namespace: Option<Regex>,
    annotations: LabelSelector,
    labels: LabelSelector,
}

fn anchored(pattern: &str) -> Res<Option<Regex>> {
    if pattern.is_empty() {
        return Ok(None);
    }
    // The size limit keeps a counted repetition from taking all memory.
    regex::RegexBuilder::new(&format!("^(?:{pattern})$"))
        .size_limit(1 << 20)
        .build()
        .map(Some)
        .map_err(|e| Error::new(format!("error parsing regexp: {e}")))
}

fn fits(regex: Option<&Regex>, text: &str) -> bool {
    regex.is_none_or(|r| r.is_match(text))
}

impl Matcher {
    /// # Errors
    /// A bad expression or label selector.
    pub(crate) fn new(s: &Selector) -> Res<Self> {
        Ok(Self {
            group: anchored(&s.gvk.group)?,
            version: anchored(&s.gvk.version)?,
            kind: anchored(&s.gvk.kind)?,
            name: anchored(&s.name)?,
            namespace: anchored(&s.namespace)?,
            annotations: LabelSelector::parse(&s.annotations)?,
            labels: LabelSelector::parse(&s.labels)?,
        })
    }

    pub(crate) fn gvk(&self, gvk: &Gvk) -> bool {
        fits(self.kind.as_ref(), &gvk.kind)
            && fits(self.group.as_ref(), &gvk.group)
            && fits(self.version.as_ref(), &gvk.version)
    }

    pub(crate) fn name(&self, name: &str) -> bool {
        fits(self.name.as_ref(), name)
    }

    pub(crate) fn namespace(&self, namespace: &str) -> bool {
        fits(self.namespace.as_ref(), namespace)
    }

    /// Does the identity alone match, with the namespace as written?
    pub(crate) fn id(&self, id: &ResId) -> bool {
        self.gvk(&id.gvk) && self.name(&id.name) && self.namespace(&id.namespace)
    }

    pub(crate) fn metadata(&self, node: &Node) -> bool {
        self.labels.matches(&super::resource::meta_map(node, "labels"))
            && self.annotations.matches(&super::resource::meta_map(node, "annotations"))
    }
}
