//! The order in which objects come out.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::LazyLock;

use super::error::{Error, Res};
use super::id::{Gvk, ResId};
use super::json::Cx;
use super::yaml::node::Node;

const FIRST: [&str; 22] = [
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];

const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

static DEFAULT: LazyLock<HashMap<&'static str, i64>> = LazyLock::new(|| ranks(&FIRST, &LAST));

fn ranks<'a>(first: &[&'a str], last: &[&'a str]) -> HashMap<&'a str, i64> {
    let mut m = HashMap::new();
    for (i, kind) in first.iter().enumerate() {
        m.insert(*kind, i as i64 - first.len() as i64);
    }
    for (i, kind) in last.iter().enumerate() {
        m.insert(*kind, 1 + i as i64);
    }
    m
}

/// Kinds that others need come before all others, webhooks after them.
pub(crate) fn default_rank(kind: &str) -> i64 {
    DEFAULT.get(kind).copied().unwrap_or(0)
}

/// `sortOptions`.
#[derive(Clone, Debug, Default)]
pub(crate) struct SortOptions {
    pub(crate) order: String,
    pub(crate) legacy: Option<(Vec<String>, Vec<String>)>,
}

pub(crate) fn decode(node: &Node, cx: &Cx) -> Res<SortOptions> {
    let mut s = SortOptions::default();
    cx.object(node, |name, value, cx| {
        match name {
            "order" => s.order = cx.text(value)?,
            "legacysortoptions" if value.is_null() => {}
            "legacysortoptions" => {
                let (mut first, mut last) = (Vec::new(), Vec::new());
                cx.object(value, |name, value, cx| {
                    match name {
                        "orderfirst" => first = cx.texts(value)?,
                        "orderlast" => last = cx.texts(value)?,
                        _ => return Ok(false),
                    }
                    Ok(true)
                })?;
                s.legacy = Some((first, last));
            }
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(s)
}

/// The new order of objects with these ids, as their old positions; none if it stays.
///
/// # Errors
/// An unknown order, or options of the other one.
pub(crate) fn order(options: &SortOptions, ids: &[&ResId]) -> Res<Option<Vec<usize>>> {
    match options.order.as_str() {
        "fifo" if options.legacy.is_some() => Err(Error::new(
            "the field 'sortOptions.legacySortOptions' is set but the selected sort order is 'fifo', not 'legacy'",
        )),
        "fifo" => Ok(None),
        "legacy" => Ok(Some(legacy(options.legacy.as_ref(), ids))),
        _ => Err(Error::new("the field 'sortOptions.order' must be one of [fifo, legacy]")),
    }
}

fn legacy(custom: Option<&(Vec<String>, Vec<String>)>, ids: &[&ResId]) -> Vec<usize> {
    let own = custom.map(|(first, last)| {
        let text = |v: &'_ [String]| v.iter().map(|s| s.as_str().to_owned()).collect::<Vec<_>>();
        (text(first), text(last))
    });
    let rank = |kind: &str| match &own {
        None => default_rank(kind),
        Some((first, last)) => {
            match (last.iter().rposition(|k| k == kind), first.iter().rposition(|k| k == kind)) {
                (Some(i), _) => 1 + i as i64,
                (None, Some(i)) => i as i64 - first.len() as i64,
                (None, None) => 0,
            }
        }
    };
    let mut keyed: Vec<(i64, String, String, usize)> = ids
        .iter()
        .enumerate()
        .map(|(i, id)| (rank(&id.gvk.kind), gvk_text(&id.gvk), id_text(id), i))
        .collect();
    keyed.sort_by(|a, b| {
        let (ga, gb) = (ids.get(a.3).map(|i| &i.gvk), ids.get(b.3).map(|i| &i.gvk));
        a.0.cmp(&b.0).then_with(|| gvk_order(ga, gb, &a.1, &b.1)).then_with(|| a.2.cmp(&b.2))
    });
    keyed.into_iter().map(|k| k.3).collect()
}

fn gvk_order(a: Option<&Gvk>, b: Option<&Gvk>, a_text: &str, b_text: &str) -> Ordering {
    let (Some(a), Some(b)) = (a, b) else { return Ordering::Equal };
    // The core Namespace comes before namespaces of other groups.
    if a.kind == "Namespace" && b.kind == "Namespace" && (a.group.is_empty() || b.group.is_empty()) {
        return b_text.cmp(a_text);
    }
    a_text.cmp(b_text)
}

fn gvk_text(gvk: &Gvk) -> String {
    let or = |t: &str, other: &str| if t.is_empty() { other.to_owned() } else { t.to_owned() };
    format!("{}_{}_{}", or(&gvk.group, "~G"), or(&gvk.version, "~V"), or(&gvk.kind, "~K"))
}

fn id_text(id: &ResId) -> String {
    let or = |t: &str, other: &str| if t.is_empty() { other.to_owned() } else { t.to_owned() };
    format!("{}|{}|{}", id.gvk, or(&id.namespace, "~X"), or(&id.name, "~N"))
}
