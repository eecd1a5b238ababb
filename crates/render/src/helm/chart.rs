//! A chart in memory.

use std::sync::{Arc, OnceLock};

use plural_gotemplate::{Tree, parse, strconv};
use plural_versions::Version;
use serde_json::{Map, Value};

/// A chart with the charts that it holds. Cheap to share; rendering changes nothing in it.
#[derive(Debug)]
pub struct Chart {
    pub(super) metadata: Metadata,
    pub(super) templates: Vec<Template>,
    /// Everything that is none of the rest: (path, content).
    pub(super) files: Vec<(Arc<str>, Arc<[u8]>)>,
    /// values.yaml
    pub(super) values: Map<String, Value>,
    /// values.schema.json
    pub(super) schema: Option<Vec<u8>>,
    pub(super) dependencies: Vec<Chart>,
}

impl Chart {
    /// What Chart.yaml says.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// What Chart.yaml says.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "the fields of Chart.yaml, by their names there")]
pub struct Metadata {
    pub name: String,
    pub home: String,
    pub sources: Vec<String>,
    pub version: String,
    pub description: String,
    pub keywords: Vec<String>,
    pub maintainers: Vec<Maintainer>,
    pub icon: String,
    pub api_version: String,
    pub condition: String,
    pub tags: String,
    pub app_version: String,
    pub deprecated: bool,
    pub annotations: Vec<(String, String)>,
    pub kube_version: String,
    /// None when the chart declares none, which is not the same as an empty list.
    pub dependencies: Option<Vec<Dependency>>,
    pub chart_type: String,
}

/// Someone who looks after a chart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of Chart.yaml, by their names there")]
pub struct Maintainer {
    pub name: String,
    pub email: String,
    pub url: String,
}

/// A chart that another one declares to need.
#[derive(Debug, Clone, Default, PartialEq)]
#[expect(missing_docs, reason = "the fields of Chart.yaml, by their names there")]
pub struct Dependency {
    pub name: String,
    pub version: String,
    pub repository: String,
    pub condition: String,
    pub tags: Vec<String>,
    pub enabled: bool,
    /// Texts and objects with `child` and `parent`.
    pub import_values: Vec<Value>,
    pub alias: String,
}

/// A file below templates/.
#[derive(Debug)]
pub(super) struct Template {
    /// Path from the chart's root.
    pub(super) name: String,
    pub(super) data: Arc<str>,
    /// The path under which it was parsed first, and what came of it.
    parsed: OnceLock<(String, Parsed)>,
}

/// Trees of a file, or why there are none.
pub(super) type Parsed = Result<Vec<Arc<Tree>>, String>;

impl Template {
    pub(super) fn new(name: String, data: Arc<str>) -> Self {
        Self { name, data, parsed: OnceLock::new() }
    }

    /// The trees of the file as the template `path`.
    pub(super) fn trees(&self, path: &str) -> Parsed {
        let make = || {
            parse::parse(path, &self.data).map(|trees| trees.into_iter().map(Arc::new).collect::<Vec<_>>())
        };
        let (known, parsed) = self.parsed.get_or_init(|| (path.to_owned(), make()));
        // Only a chart that is used under two names is parsed twice.
        if known == path { parsed.clone() } else { make() }
    }
}

/// A text on one line without what cannot be printed.
fn sanitize(text: &mut String) {
    if text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return;
    }
    *text = text
        .chars()
        .filter_map(|c| {
            if c.is_whitespace() {
                Some(' ')
            } else if strconv::is_print(c) {
                Some(c)
            } else {
                None
            }
        })
        .collect();
}

impl Metadata {
    /// Cleans the texts and checks what must hold.
    ///
    /// # Errors
    /// In Helm's words.
    pub(super) fn validate(&mut self) -> Result<(), String> {
        let invalid = |message: String| Err(format!("validation: {message}"));
        for maintainer in &mut self.maintainers {
            for text in [&mut maintainer.name, &mut maintainer.email, &mut maintainer.url] {
                sanitize(text);
            }
        }
        for text in [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ] {
            sanitize(text);
        }
        self.sources.iter_mut().for_each(sanitize);
        self.keywords.iter_mut().for_each(sanitize);
        if self.api_version.is_empty() {
            return invalid("chart.metadata.apiVersion is required".to_owned());
        }
        if self.name.is_empty() {
            return invalid("chart.metadata.name is required".to_owned());
        }
        let name = strconv::quote(&self.name);
        if self.name == "." || self.name == ".." {
            return invalid(format!("chart.metadata.name {name} is not allowed"));
        }
        if self.name.contains('/') {
            return invalid(format!("chart.metadata.name {name} is invalid"));
        }
        if self.version.is_empty() {
            return invalid("chart.metadata.version is required".to_owned());
        }
        if Version::parse(&self.version).is_err() {
            return invalid(format!("chart.metadata.version {} is invalid", strconv::quote(&self.version)));
        }
        if !matches!(self.chart_type.as_str(), "" | "application" | "library") {
            return invalid("chart.metadata.type must be application or library".to_owned());
        }
        let mut seen = std::collections::BTreeSet::new();
        for dependency in self.dependencies.iter_mut().flatten() {
            for text in [
                &mut dependency.name,
                &mut dependency.version,
                &mut dependency.repository,
                &mut dependency.condition,
            ] {
                sanitize(text);
            }
            dependency.tags.iter_mut().for_each(sanitize);
            let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
            if !dependency.alias.bytes().all(plain) {
                let name = strconv::quote(&dependency.name);
                return invalid(format!("dependency {name} has disallowed characters in the alias"));
            }
            let key = if dependency.alias.is_empty() { &dependency.name } else { &dependency.alias };
            if !seen.insert(key.clone()) {
                let key = strconv::quote(key);
                return invalid(format!("more than one dependency with name or alias {key}"));
            }
        }
        Ok(())
    }
}
