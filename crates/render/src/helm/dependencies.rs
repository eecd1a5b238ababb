//! Which charts inside a chart take part, under which names, and what they give to their parents.

use std::cell::RefCell;

use plural_gotemplate::{
    format,
    value::{Map, Value, deep_copy_map},
};
use plural_versions::is_compatible;

use super::{
    chart::{Chart, Dependency},
    values,
};

/// Deepest nesting of charts.
const MAX_DEPTH: usize = 50;

/// A chart as one render sees it.
#[derive(Debug)]
pub(super) struct Node<'c> {
    pub(super) chart: &'c Chart,
    /// Its alias, or its own name.
    pub(super) name: String,
    pub(super) declared: Option<Vec<Dependency>>,
    /// Its own values; import-values changes them.
    pub(super) values: RefCell<Map>,
    pub(super) children: Vec<Node<'c>>,
}

impl<'c> Node<'c> {
    /// A chart with all charts in it, before any is switched off.
    pub(super) fn new(chart: &'c Chart) -> Self {
        let values = match Value::from_json(&serde_json::Value::Object(chart.values.clone())) {
            Value::Map(map) => map,
            _ => Map::new(),
        };
        Self {
            chart,
            name: chart.metadata.name.clone(),
            declared: chart.metadata.dependencies.clone(),
            values: RefCell::new(values),
            children: chart.dependencies.iter().map(Self::new).collect(),
        }
    }
}

/// `ProcessDependencies` with merge: conditions, tags, aliases, import-values.
///
/// # Errors
/// When the values of a dependency are not a map.
pub(super) fn process(root: &mut Node<'_>, user: &Map) -> Result<(), String> {
    enable(root, user, "", 0)?;
    import(root)
}

fn compatible(dependency: &Dependency, chart: &Chart) -> bool {
    chart.metadata.name == dependency.name && is_compatible(&dependency.version, &chart.metadata.version)
}

fn enable(node: &mut Node<'_>, user: &Map, path: &str, depth: usize) -> Result<(), String> {
    let Some(mut declared) = node.declared.take() else { return Ok(()) };
    if depth > MAX_DEPTH {
        return Err(format!("charts are nested deeper than {MAX_DEPTH} levels"));
    }
    let mut kept: Vec<Node<'_>> = Vec::new();
    let existing = std::mem::take(&mut node.children);
    for dependency in &mut declared {
        let found = existing
            .iter()
            .find(|child| child.name == dependency.name && compatible(dependency, child.chart));
        if let Some(child) = found {
            let mut copy = Node::new(child.chart);
            if !dependency.alias.is_empty() {
                copy.name.clone_from(&dependency.alias);
            }
            kept.push(copy);
        }
    }
    let mut children: Vec<Node<'_>> =
        existing.into_iter().filter(|child| !declared.iter().any(|d| compatible(d, child.chart))).collect();
    children.append(&mut kept);
    node.children = children;
    for dependency in &mut declared {
        if !dependency.alias.is_empty() {
            dependency.name.clone_from(&dependency.alias);
        }
        dependency.enabled = true;
    }
    let all = values::coalesce(node, user, false)?;
    tags(&mut declared, &all);
    conditions(&mut declared, &all, path);
    let off: Vec<String> = declared.iter().filter(|d| !d.enabled).map(|d| d.name.clone()).collect();
    node.children.retain(|child| !off.contains(&child.name));
    declared.retain(|dependency| !off.contains(&dependency.name));
    for child in &mut node.children {
        let path = format!("{path}{}.", child.name);
        enable(child, &all, &path, depth + 1)?;
    }
    node.declared = Some(declared);
    Ok(())
}

fn tags(declared: &mut [Dependency], all: &Map) {
    let Some(tags) = values::table(all, "tags") else { return };
    for dependency in declared {
        let (mut on, mut off) = (false, false);
        for tag in &dependency.tags {
            match tags.get(tag) {
                Some(Value::Bool(true)) => on = true,
                Some(Value::Bool(false)) => off = true,
                _ => {}
            }
        }
        dependency.enabled = on || !off;
    }
}

fn conditions(declared: &mut [Dependency], all: &Map, path: &str) {
    for dependency in declared {
        for condition in dependency.condition.trim().split(',').filter(|condition| !condition.is_empty()) {
            if let Some(Value::Bool(value)) = values::path_value(all, &format!("{path}{condition}")) {
                dependency.enabled = value;
                break;
            }
        }
    }
}

/// Values that a chart takes from the charts in it, the innermost first.
fn import(node: &mut Node<'_>) -> Result<(), String> {
    for child in &mut node.children {
        import(child)?;
    }
    let Some(declared) = node.declared.as_ref().filter(|declared| !declared.is_empty()) else {
        return Ok(());
    };
    let all = values::coalesce(node, &Map::new(), true)?;
    let taken = Map::new();
    for dependency in declared {
        for import in &dependency.import_values {
            match import {
                serde_json::Value::Object(pair) => {
                    let part = |key: &str| match pair.get(key) {
                        Some(serde_json::Value::String(text)) => text.clone(),
                        Some(other) => format::display(&Value::from_json(other)),
                        None => "<nil>".to_owned(),
                    };
                    let (child, parent) = (part("child"), part("parent"));
                    if let Some(table) = values::table(&all, &format!("{}.{child}", dependency.name)) {
                        values::tables(&taken, &at_path(&parent, table), true);
                    }
                }
                serde_json::Value::String(name) => {
                    if let Some(table) = values::table(&all, &format!("{}.exports.{name}", dependency.name)) {
                        values::tables(&taken, &table, true);
                    }
                }
                _ => {}
            }
        }
    }
    let own = deep_copy_map(&all);
    values::tables(&own, &taken, true);
    node.values.replace(own);
    Ok(())
}

/// A map that holds `table` under a path; the dot is the map itself.
fn at_path(path: &str, table: Map) -> Map {
    if path == "." {
        return table;
    }
    path.split('.').rev().fold(table, |map, key| Map::of(vec![(key.into(), Value::Map(map))]))
}
