//! Which files of a repository an automation may look at. Paths are templates, so what a template puts in stands for anything.

use regex::{RegexSet, RegexSetBuilder};

use crate::error::{Error, Result};
use crate::pr_automation_spec::{MatchStrategy, PrAutomationSpec};

/// Bytes that the compiled patterns may take.
const MAX_SIZE: usize = 8 << 20;

/// The files that an automation may look at.
#[derive(Debug, Clone)]
pub struct Needed {
    all: bool,
    paths: RegexSet,
    /// What the updates of the oldest form look for in paths.
    parts: RegexSet,
}

impl Needed {
    /// Those of this automation: at least those that it looks at, whatever is answered.
    ///
    /// # Errors
    /// [`Error::Invalid`] for patterns that are too large together.
    pub fn of(spec: &PrAutomationSpec) -> Result<Self> {
        let updates = &spec.updates;
        let own = spec.creates.templates.iter().filter(|template| !template.external);
        let paths = own
            .map(|template| template.source.as_str())
            .chain(spec.creates.templates.iter().map(|template| template.destination.as_str()))
            .chain(updates.regex_replacements.iter().map(|replacement| replacement.file.as_str()))
            .chain(updates.yaml_overlays.iter().map(|overlay| overlay.file.as_str()))
            .chain(spec.vendor.helm.iter().map(|helm| helm.destination.as_str()));
        let paths: Vec<String> = paths.map(pattern).collect();
        let is_old = match updates.match_strategy {
            Some(MatchStrategy::Any | MatchStrategy::All | MatchStrategy::Recursive) => true,
            None => false,
        };
        let parts: &[String] = if is_old { &updates.files } else { &[] };
        // A script reads what it likes, and a template may become any regular expression.
        let all = spec.lua.is_some() || parts.iter().any(|part| part.contains("{{") || part.contains("{%"));
        let compiled = |patterns: &[String]| {
            RegexSetBuilder::new(patterns).size_limit(MAX_SIZE).build().map_err(|_| {
                Error::invalid(
                    "attributes.updates.files",
                    "are regular expressions that are too large together",
                )
            })
        };
        let paths = compiled(&paths)?;
        let parts = if all { RegexSet::empty() } else { compiled(parts)? };
        Ok(Self { all, paths, parts })
    }

    /// Whether it may look at this file.
    pub fn has(&self, path: &str) -> bool {
        self.all || self.paths.is_match(path) || self.parts.is_match(path)
    }
}

/// A regular expression for what a path may become, and everything below it.
fn pattern(template: &str) -> String {
    // Blocks leave out what is in them, and dashes take away what is beside them.
    if ["{%", "{{-", "-}}"].iter().any(|part| template.contains(part)) {
        return String::new();
    }
    let mut out = String::new();
    let mut rest = template.trim();
    while let Some((before, after)) = rest.split_once("{{") {
        // What is put in may be nothing: then the slashes beside it are one.
        out.push_str(&literal(before));
        out.push_str(".*");
        rest = after.split_once("}}").map_or("", |(_, behind)| behind);
    }
    // The root is everything; and where braces are left over, a text in a template held some.
    if (out.is_empty() && literal(rest).is_empty())
        || template.matches("}}").count() != template.matches("{{").count()
    {
        return String::new();
    }
    format!("^(?s:{out}{}(?:/.*)?)$", literal(rest))
}

/// Plain text of a path, without the slashes and dots around it that mean nothing.
fn literal(text: &str) -> String {
    let parts: Vec<String> =
        text.split('/').filter(|part| !part.is_empty() && *part != ".").map(regex::escape).collect();
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn needed(more: &Value) -> Needed {
        let mut spec = json!({"title": "a", "message": "b"});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Needed::of(&serde_json::from_value(spec).unwrap()).unwrap()
    }

    #[test]
    fn what_a_template_puts_in_stands_for_anything() {
        let templates = json!([
            {"source": "templates/app/", "destination": "./apps/{{ context.name }}/values.yaml", "external": false},
            {"source": "elsewhere", "destination": "out.yaml", "external": true},
        ]);
        let needed = needed(&json!({"creates": {"templates": templates}}));
        for path in [
            "templates/app/a/b.yaml",
            "templates/app",
            "apps/web/values.yaml",
            "apps/values.yaml",
            "out.yaml",
        ] {
            assert!(needed.has(path), "{path}");
        }
        for path in ["README.md", "elsewhere", "templates/application", "apps/web/other.yaml", "my/out.yaml"]
        {
            assert!(!needed.has(path), "{path}");
        }
    }

    #[test]
    fn updates_name_files_and_scripts_may_read_all() {
        let one = needed(&json!({"updates": {
            "regexReplacements": [{"file": "a.tf", "regex": "x", "replacement": "y"}],
            "yamlOverlays": [{"file": "{{ context.at }}.yaml", "yaml": "a: 1"}],
            "regexes": ["x"], "files": ["^old/.*[.]txt$"], "matchStrategy": "ANY",
        }}));
        for (path, expected) in [
            ("a.tf", true),
            ("deep/b.yaml", true),
            ("old/c.txt", true),
            ("b.tf", false),
            ("new/old/c.txt", false),
        ] {
            assert_eq!(one.has(path), expected, "{path}");
        }
        assert!(needed(&json!({"lua": {"script": "x = 1"}})).has("anything"));
        assert!(!needed(&json!({"deletes": {"files": ["*.old"]}})).has("a.old"), "only its path counts");
        let block =
            json!({"updates": {"yamlOverlays": [{"file": "{% if a %}b{% endif %}", "yaml": "a: 1"}]}});
        assert!(needed(&block).has("anything"));
    }
}
