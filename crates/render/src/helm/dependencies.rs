//! Which charts inside a chart take part, under which names, and what they give to their parents.

use std::{cell::RefCell, rc::Rc};

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

/// A declared dependency as one render sees it.
///
/// The copies of a chart under several aliases share these, as in Helm: what the first copy made of them, the name that an alias
/// gives and imports that are done, is what the next one finds.
#[derive(Debug)]
pub(super) struct Declared {
    pub(super) dependency: Dependency,
    /// What was imported, child and parent; `None` before.
    pub(super) imported: Option<Vec<(String, String)>>,
}

/// A chart as one render sees it.
#[derive(Debug)]
pub(super) struct Node<'c> {
    pub(super) chart: &'c Chart,
    /// Its alias, or its own name.
    pub(super) name: String,
    /// Where it lies: `app/charts/first/charts/inner`.
    pub(super) path: String,
    /// Whether it is a copy, made for a dependency that declares it.
    copied: bool,
    pub(super) declared: Option<Vec<Rc<RefCell<Declared>>>>,
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
            path: String::new(),
            copied: false,
            declared: chart.metadata.dependencies.as_ref().map(|declared| {
                let shared =
                    |dependency: &Dependency| Declared { dependency: dependency.clone(), imported: None };
                declared.iter().map(|dependency| Rc::new(RefCell::new(shared(dependency)))).collect()
            }),
            values: RefCell::new(values),
            children: chart.dependencies.iter().map(Self::new).collect(),
        }
    }

    /// Whether a dependency means it.
    fn is(&self, dependency: &Dependency) -> bool {
        self.name == dependency.name && is_compatible(&dependency.version, &self.chart.metadata.version)
    }

    /// Another one of the same chart, under the name that a dependency gives it.
    fn copy(&self, alias: &str) -> Self {
        Self {
            chart: self.chart,
            name: if alias.is_empty() { self.name.clone() } else { alias.to_owned() },
            path: String::new(),
            copied: true,
            declared: self.declared.clone(),
            values: RefCell::new(deep_copy_map(&self.values.borrow())),
            children: self.children.iter().map(|child| Self { copied: false, ..child.copy("") }).collect(),
        }
    }
}

/// `ProcessDependencies` with merge: conditions, tags, aliases, import-values.
///
/// # Errors
/// When the values of a dependency are not a map.
pub(super) fn process(root: &mut Node<'_>, user: &Map) -> Result<(), String> {
    enable(root, user, "", 0)?;
    root.path.clone_from(&root.name);
    let path = root.path.clone();
    place(root, &path, &path);
    import(root)
}

/// Writes the paths of the charts inside `node`. `original` is the path of the chart that it is a copy of, and `last` that of the
/// last copy of it.
///
/// In Helm a chart that no dependency declares is not copied with the chart around it: it lies in the original, or, where that
/// declares others, in the last copy. So of the files of several copies those of the last one remain.
fn place(node: &mut Node<'_>, original: &str, last: &str) {
    let charts: Vec<_> =
        node.children.iter().map(|child| (std::ptr::from_ref(child.chart), child.copied)).collect();
    let names: Vec<String> = node.children.iter().map(|child| child.name.clone()).collect();
    let home = if node.declared.is_none() { original } else { last };
    for (at, child) in node.children.iter_mut().enumerate() {
        if child.copied {
            let twin = charts.iter().rposition(|chart| *chart == charts[at]).unwrap_or(at);
            let original = format!("{original}/charts/{}", child.chart.metadata.name);
            let last = format!("{}/charts/{}", node.path, names[twin]);
            child.path = format!("{}/charts/{}", node.path, child.name);
            place(child, &original, &last);
        } else {
            child.path = format!("{home}/charts/{}", child.name);
            let path = child.path.clone();
            place(child, &path, &path);
        }
    }
}

fn enable(node: &mut Node<'_>, user: &Map, path: &str, depth: usize) -> Result<(), String> {
    let Some(mut declared) = node.declared.take() else { return Ok(()) };
    let is_declared = |child: &Node<'_>, declared: &[Rc<RefCell<Declared>>]| {
        declared.iter().any(|declared| child.is(&declared.borrow().dependency))
    };
    if depth > MAX_DEPTH {
        return Err(format!("charts are nested deeper than {MAX_DEPTH} levels"));
    }
    let mut kept: Vec<Node<'_>> = Vec::new();
    let existing = std::mem::take(&mut node.children);
    let undeclared: Vec<bool> = existing.iter().map(|child| !is_declared(child, &declared)).collect();
    for dependency in &declared {
        let dependency = &mut dependency.borrow_mut().dependency;
        kept.extend(
            existing.iter().find(|child| child.is(dependency)).map(|child| child.copy(&dependency.alias)),
        );
        if !dependency.alias.is_empty() {
            dependency.name.clone_from(&dependency.alias);
        }
        dependency.enabled = true;
    }
    let undeclared = existing.into_iter().zip(undeclared).filter(|(_, undeclared)| *undeclared);
    node.children = undeclared.map(|(child, _)| child).chain(kept).collect();
    let all = values::coalesce(node, user, false)?;
    for declared in &declared {
        let dependency = &mut declared.borrow_mut().dependency;
        tags(dependency, &all);
        conditions(dependency, &all, path);
    }
    let off: Vec<String> = declared
        .iter()
        .map(|declared| declared.borrow())
        .filter(|declared| !declared.dependency.enabled)
        .map(|declared| declared.dependency.name.clone())
        .collect();
    node.children.retain(|child| !off.contains(&child.name));
    declared.retain(|declared| !off.contains(&declared.borrow().dependency.name));
    for child in &mut node.children {
        let path = format!("{path}{}.", child.name);
        enable(child, &all, &path, depth + 1)?;
    }
    node.declared = Some(declared);
    Ok(())
}

fn tags(dependency: &mut Dependency, all: &Map) {
    let Some(tags) = values::table(all, "tags") else { return };
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

fn conditions(dependency: &mut Dependency, all: &Map, path: &str) {
    for condition in dependency.condition.trim().split(',').filter(|condition| !condition.is_empty()) {
        if let Some(Value::Bool(value)) = values::path_value(all, &format!("{path}{condition}")) {
            dependency.enabled = value;
            return;
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
    for declared in declared {
        let Declared { dependency, imported } = &mut *declared.borrow_mut();
        // Done already for another copy of this chart: Helm passes over what it wrote itself.
        let imports = if imported.is_some() { &[][..] } else { dependency.import_values.as_slice() };
        let mut done = Vec::new();
        for import in imports {
            match import {
                serde_json::Value::Object(pair) => {
                    let part = |key: &str| match pair.get(key) {
                        Some(serde_json::Value::String(text)) => text.clone(),
                        Some(other) => format::display(&Value::from_json(other)),
                        None => "<nil>".to_owned(),
                    };
                    let (child, parent) = (part("child"), part("parent"));
                    done.push((child.clone(), parent.clone()));
                    if let Some(table) = values::table(&all, &format!("{}.{child}", dependency.name)) {
                        values::tables(&taken, &at_path(&parent, table), true);
                    }
                }
                serde_json::Value::String(name) => {
                    done.push((format!("exports.{name}"), ".".to_owned()));
                    if let Some(table) = values::table(&all, &format!("{}.exports.{name}", dependency.name)) {
                        values::tables(&taken, &table, true);
                    }
                }
                _ => {}
            }
        }
        *imported = Some(done);
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
