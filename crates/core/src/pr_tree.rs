//! Which files of a repository an automation may look at. Paths are templates: an answer that is put in alone is known, and whatever else a
//! template puts in stands for anything.

use std::collections::BTreeSet;

use regex::{RegexSet, RegexSetBuilder};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::form;
use crate::pr_automation_spec::{MatchStrategy, PrAutomationSpec, PrTemplate};

/// Bytes that the compiled patterns may take.
const MAX_SIZE: usize = 8 << 20;

/// How much of a folder is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Nothing.
    Not,
    /// What lies in it; folders in it are asked about for themselves.
    Folder,
    /// Everything below it.
    All,
}

/// The folders of a repository that are looked into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Within {
    /// How paths begin below which everything is looked at.
    begins: Vec<String>,
    /// Folders of which only what lies in them is.
    folders: BTreeSet<String>,
}

impl Within {
    /// Those that these files lie in, and what they lie in.
    pub fn of_files<'p>(paths: impl IntoIterator<Item = &'p str>) -> Self {
        let above = |path: &'p str| {
            let root = std::iter::once(String::new());
            root.chain(path.match_indices('/').map(move |(at, _)| path[..at].to_owned()))
        };
        Self { begins: Vec::new(), folders: paths.into_iter().flat_map(above).collect() }
    }

    /// How much of a folder is looked at; the root is empty.
    pub fn look(&self, folder: &str) -> Look {
        let path = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        if self.begins.iter().any(|begin| path.starts_with(begin.as_str())) {
            Look::All
        } else if self.begins.iter().any(|begin| begin.starts_with(&path)) || self.folders.contains(folder) {
            Look::Folder
        } else {
            Look::Not
        }
    }
}

/// The files that an automation may look at.
#[derive(Debug, Clone)]
pub struct Needed {
    all: bool,
    paths: RegexSet,
    /// What the updates of the oldest form look for in paths.
    parts: RegexSet,
    within: Within,
}

impl Needed {
    /// Those of this automation with these answers: at least those that it looks at.
    ///
    /// # Errors
    /// [`Error::Invalid`] for patterns that are too large together.
    pub fn of(spec: &PrAutomationSpec, answers: &Map<String, Value>) -> Result<Self> {
        let updates = &spec.updates;
        // Answers that are none fail the run, whatever it looks at.
        let answers = form::context(&spec.configuration, answers, None).unwrap_or_default();
        let given = Given { own: None, answers: &answers };
        let mut paths = Vec::new();
        for template in &spec.creates.templates {
            let PrTemplate { source, destination, external, context, verbatim: _, condition: _ } = template;
            let given = Given { own: Some(context), answers: &answers };
            if !external {
                paths.push(pieces(source, &given));
            }
            paths.push(pieces(destination, &given));
        }
        let edited = updates.regex_replacements.iter().map(|replacement| &replacement.file);
        let edited = edited.chain(updates.yaml_overlays.iter().map(|overlay| &overlay.file));
        let edited = edited.chain(updates.edits.iter().map(|edit| &edit.file));
        let vendored = spec.vendor.helm.iter().map(|helm| &helm.destination);
        paths.extend(edited.chain(vendored).map(|path| pieces(path, &given)));
        let is_old = match updates.match_strategy {
            Some(MatchStrategy::Any | MatchStrategy::All | MatchStrategy::Recursive) => true,
            None => false,
        };
        let parts: &[String] = if is_old { &updates.files } else { &[] };
        // A script reads what it likes, and a template may become any regular expression.
        let all = spec.lua.is_some() || parts.iter().any(|part| part.contains("{{") || part.contains("{%"));
        let within = if all || !parts.is_empty() {
            Within { begins: vec![String::new()], folders: BTreeSet::new() }
        } else {
            // Of what is taken away, only its path counts.
            let folders = spec.deletes.folders.iter().map(|folder| pieces(folder, &given));
            let files = spec.deletes.files.iter().map(|glob| glob_pieces(glob, &given));
            let gone: Vec<Vec<Piece>> = folders.chain(files).collect();
            let begins: BTreeSet<String> = paths.iter().chain(&gone).map(|pieces| begin(pieces)).collect();
            Within { begins: begins.into_iter().collect(), folders: BTreeSet::new() }
        };
        let compiled = |patterns: &[String]| {
            RegexSetBuilder::new(patterns).size_limit(MAX_SIZE).build().map_err(|_| {
                Error::invalid(
                    "attributes.updates.files",
                    "are regular expressions that are too large together",
                )
            })
        };
        let paths: Vec<String> = paths.iter().map(|pieces| pattern(pieces)).collect();
        let paths = compiled(&paths)?;
        let parts = if all { RegexSet::empty() } else { compiled(parts)? };
        Ok(Self { all, paths, parts, within })
    }

    /// Whether it may look at what is in this file.
    pub fn has(&self, path: &str) -> bool {
        self.all || self.paths.is_match(path) || self.parts.is_match(path)
    }

    /// The folders that it may look into: those of such files, and of what it takes away.
    pub fn within(&self) -> &Within {
        &self.within
    }
}

/// What names in a template stand for.
struct Given<'a> {
    /// More context, which goes first.
    own: Option<&'a Map<String, Value>>,
    answers: &'a Map<String, Value>,
}

impl Given<'_> {
    /// The text that takes the place of `context.name`, where that is one.
    fn text(&self, inside: &str) -> Option<&str> {
        let name = inside.trim().strip_prefix("context.")?;
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        self.own.and_then(|own| own.get(name)).or_else(|| self.answers.get(name))?.as_str()
    }
}

/// A piece of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    /// Anything, and nothing.
    Any,
}

/// What a path may become.
fn pieces(template: &str, given: &Given<'_>) -> Vec<Piece> {
    pieces_with(template, given, &|text| vec![Piece::Text(text.to_owned())])
}

/// What a glob may match, up to what stands for more than itself. An answer in it stands for itself.
fn glob_pieces(template: &str, given: &Given<'_>) -> Vec<Piece> {
    pieces_with(template, given, &|text| match text.find(['*', '?', '[', '{']) {
        Some(at) => vec![Piece::Text(text[..at].to_owned()), Piece::Any],
        None => vec![Piece::Text(text.to_owned())],
    })
}

fn pieces_with(template: &str, given: &Given<'_>, plain: &dyn Fn(&str) -> Vec<Piece>) -> Vec<Piece> {
    // Blocks leave out what is in them, and dashes take away what is beside them. Where braces are left over, a text in a template held some.
    if ["{%", "{{-", "-}}"].iter().any(|part| template.contains(part))
        || template.matches("}}").count() != template.matches("{{").count()
    {
        return vec![Piece::Any];
    }
    let (mut found, mut rest) = (Vec::new(), template.trim());
    while let Some((before, after)) = rest.split_once("{{") {
        found.extend(plain(before));
        let (inside, behind) = after.split_once("}}").unwrap_or((after, ""));
        found.push(given.text(inside).map_or(Piece::Any, |text| Piece::Text(text.to_owned())));
        rest = behind;
    }
    found.extend(plain(rest));
    let mut out: Vec<Piece> = Vec::new();
    for piece in found {
        if let (Some(Piece::Text(last)), Piece::Text(text)) = (out.last_mut(), &piece) {
            last.push_str(text);
        } else {
            out.push(piece);
        }
    }
    // White space around the whole means nothing, wherever it comes from.
    if let Some(Piece::Text(first)) = out.first_mut() {
        *first = first.trim_start().to_owned();
    }
    if let Some(Piece::Text(last)) = out.last_mut() {
        *last = last.trim_end().to_owned();
    }
    out
}

/// A regular expression for what a path may become, and everything below it.
fn pattern(pieces: &[Piece]) -> String {
    let mut out = String::new();
    for piece in pieces {
        match piece {
            // What is put in may be nothing: then the slashes beside it are one.
            Piece::Text(text) => out.push_str(&literal(text)),
            Piece::Any => out.push_str(".*"),
        }
    }
    // The root is everything.
    if out.is_empty() { out } else { format!("^(?s:{out}(?:/.*)?)$") }
}

/// How a path and everything below it begin, as far as that is known: up to the first piece that may be anything.
fn begin(pieces: &[Piece]) -> String {
    let (mut known, mut is_whole) = (String::new(), true);
    for piece in pieces {
        match piece {
            Piece::Text(text) => known.push_str(text),
            Piece::Any => {
                is_whole = false;
                break;
            }
        }
    }
    let means_nothing = |part: &str| part.is_empty() || part == ".";
    let (folders, last) = known.rsplit_once('/').unwrap_or(("", known.as_str()));
    let mut out = String::new();
    for part in folders.split('/').filter(|part| !means_nothing(part)) {
        out.push_str(part);
        out.push('/');
    }
    if !means_nothing(last) {
        // What follows may be nothing, and then white space before it means nothing.
        out.push_str(if is_whole { last } else { last.trim_end() });
        if is_whole {
            out.push('/');
        }
    }
    out
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
        Needed::of(&serde_json::from_value(spec).unwrap(), &Map::new()).unwrap()
    }

    /// What it looks at with these answers to questions for texts.
    fn answered(more: &Value, answers: &Value) -> Needed {
        let answers = answers.as_object().unwrap();
        let questions: Vec<Value> =
            answers.keys().map(|name| json!({"name": name, "type": "STRING"})).collect();
        let mut spec = json!({"title": "a", "message": "b", "configuration": questions});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Needed::of(&serde_json::from_value(spec).unwrap(), answers).unwrap()
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
            "edits": [
                {"file": "edited.tf", "edit": {"op": "delete", "path": "a"}},
                {"file": "edits/{{ context.at }}.toml", "edit": {"op": "set", "path": "a", "value": 1}},
            ],
            "regexes": ["x"], "files": ["^old/.*[.]txt$"], "matchStrategy": "ANY",
        }}));
        for (path, expected) in [
            ("a.tf", true),
            ("edited.tf", true),
            ("edits/any.toml", true),
            ("edits/any.json", false),
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

    #[test]
    fn an_answer_alone_is_known() {
        let templates = json!([
            {"source": "templates/app.yaml", "destination": "apps/{{ context.name }}.yaml", "external": false},
            {"source": "templates/own", "destination": "{{context.at}}/{{ context.name | upcase }}/a",
             "external": false, "context": {"at": "own"}},
        ]);
        let spec = json!({"creates": {"templates": templates}});
        let needed = answered(&spec, &json!({"name": "web", "at": "elsewhere"}));
        for (path, expected) in [
            ("apps/web.yaml", true),
            ("apps/web.yaml/deep", true),
            ("apps/other.yaml", false),
            ("own/WEB/a", true),
            ("elsewhere/WEB/a", false),
        ] {
            assert_eq!(needed.has(path), expected, "{path}");
        }
        for (folder, expected) in [
            ("", Look::Folder),
            ("apps", Look::Folder),
            ("apps/web", Look::Not),
            ("apps/web.yaml", Look::All),
            ("templates", Look::Folder),
            ("templates/own", Look::All),
            ("templates/own/deep", Look::All),
            ("templates/owner", Look::Not),
            ("own", Look::All),
            ("other", Look::Not),
        ] {
            assert_eq!(needed.within().look(folder), expected, "{folder}");
        }
        // What fails the run is looked at for the words of its error alone.
        let failing = answered(&spec, &json!({"name": "../web", "at": "x"}));
        assert_eq!(failing.within().look("apps/web"), Look::Not);
    }

    #[test]
    fn edits_are_looked_for_in_their_folders_alone() {
        let edit = json!({"op": "set", "path": "replicas", "value": 2});
        let edits =
            json!({"updates": {"edits": [{"file": "apps/{{ context.name }}/values.yaml", "edit": edit}]}});
        let needed = answered(&edits, &json!({"name": "web"}));
        assert!(needed.has("apps/web/values.yaml") && !needed.has("apps/shop/values.yaml"));
        for (folder, expected) in [
            ("", Look::Folder),
            ("apps", Look::Folder),
            ("apps/web", Look::Folder),
            ("apps/web/values.yaml", Look::All),
            ("apps/shop", Look::Not),
            ("other", Look::Not),
        ] {
            assert_eq!(needed.within().look(folder), expected, "{folder}");
        }
    }

    #[test]
    fn what_is_taken_away_is_listed_and_not_read() {
        let deletes = json!({"deletes": {
            "files": ["old/{{ context.name }}/*.yaml", "./logs/a*", "one.txt"],
            "folders": ["gone/{{ context.name }}/"],
        }});
        let needed = answered(&deletes, &json!({"name": "w*b"}));
        for (folder, expected) in [
            ("", Look::Folder),
            ("old", Look::Folder),
            ("old/w*b", Look::All),
            ("old/wab", Look::Not),
            ("logs", Look::Folder),
            ("logs/app", Look::All),
            ("logs/b", Look::Not),
            ("gone", Look::Folder),
            ("gone/w*b/deep", Look::All),
            ("gone/web", Look::Not),
        ] {
            assert_eq!(needed.within().look(folder), expected, "{folder}");
        }
        assert!(!needed.has("old/w*b/a.yaml"));
        for anything in ["**/*.old", "{a,b}/c", "{{ context.missing }}"] {
            let needed = answered(&json!({"deletes": {"files": [anything]}}), &json!({"name": "web"}));
            assert_eq!(needed.within().look(""), Look::All, "{anything}");
        }
    }

    #[test]
    fn what_may_be_nothing_widens_what_is_looked_at() {
        let overlay =
            |file: &str| needed(&json!({"updates": {"yamlOverlays": [{"file": file, "yaml": "a: 1"}]}}));
        for (file, folder, expected) in [
            ("apps/{{ context.x }}/a.yaml", "apps", Look::All),
            ("apps/web-{{ context.x }}/a.yaml", "apps", Look::Folder),
            ("apps/web-{{ context.x }}/a.yaml", "apps/web-1", Look::All),
            ("apps/web-{{ context.x }}/a.yaml", "apps/shop", Look::Not),
            ("apps {{ context.x }}", "apps", Look::All),
            (".{{ context.x }}/a.yaml", "", Look::All),
            ("{{ context.x }}", "", Look::All),
            ("{% if a %}b{% endif %}", "", Look::All),
            (".", "", Look::All),
        ] {
            assert_eq!(overlay(file).within().look(folder), expected, "{file} {folder:?}");
        }
        let old = json!({"updates": {"regexes": ["x"], "files": ["a"], "matchStrategy": "ANY"}});
        assert_eq!(needed(&old).within().look(""), Look::All);
        assert_eq!(needed(&json!({"lua": {"script": "x = 1"}})).within().look(""), Look::All);
        assert_eq!(needed(&json!({})).within().look(""), Look::Not);
    }

    #[test]
    fn files_are_looked_for_in_the_folders_that_they_lie_in() {
        let within = Within::of_files(["a/b/c.yaml", "d.yaml"]);
        for (folder, expected) in [
            ("", Look::Folder),
            ("a", Look::Folder),
            ("a/b", Look::Folder),
            ("a/b/c.yaml", Look::Not),
            ("d.yaml", Look::Not),
            ("e", Look::Not),
        ] {
            assert_eq!(within.look(folder), expected, "{folder}");
        }
        assert_eq!(Within::of_files([]).look(""), Look::Not);
    }
}
