//! What kustomizations, their plugins, charts and modules of Terraform refer to: parsing only, nothing is looked up here.
//!
//! Parsing is tolerant. A file that cannot be read as YAML refers to nothing here: whoever renders it tells the person
//! what is wrong with it, with line and column, and mending it changes the closure because the file is part of it.

use serde_json::Value;

use super::modules;
use crate::path;

/// A path that a file refers to, relative to the file's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) target: String,
    pub(crate) kind: ReferenceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ReferenceKind {
    /// A manifest, or a folder with a kustomization, or something remote.
    Resource,
    /// A file.
    File,
    /// A file or folder that configures a plugin, and itself refers to files.
    Plugin,
    /// Something that may be a path; it counts only if it exists.
    Maybe,
    /// The same, of a file: a folder does not count.
    MaybeFile,
    /// A folder that counts with all that is in it.
    Folder,
    /// The same, if it exists.
    MaybeFolder,
    /// Something that is fetched from elsewhere.
    Remote,
}

/// What a file with this name is, as far as closures are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Parsed {
    Kustomization,
    Chart,
    Plugin,
    /// Code of Terraform, OpenTofu or Terragrunt.
    Module,
}

/// The names by which kustomize knows its file, in the order in which it looks.
pub(crate) const KUSTOMIZATION_NAMES: [&str; 3] =
    ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Files over this size are not looked into: no honest kustomization comes near it.
pub(crate) const PARSE_LIMIT: u64 = 1 << 20;

impl Parsed {
    pub(crate) fn of(path: &str) -> Option<Self> {
        match path::file_name(path) {
            "Chart.yaml" | "requirements.yaml" => Some(Self::Chart),
            name if KUSTOMIZATION_NAMES.contains(&name) => Some(Self::Kustomization),
            name if modules::is_one(name) => Some(Self::Module),
            _ => None,
        }
    }

    pub(crate) fn parse(self, content: &[u8]) -> Vec<Reference> {
        let Ok(text) = std::str::from_utf8(content) else { return Vec::new() };
        if self == Self::Module {
            return modules::references(text);
        }
        let Some(documents) = parse_yaml(text) else { return Vec::new() };
        let mut found = Found::default();
        for document in &documents {
            match self {
                Self::Kustomization => found.kustomization(document),
                Self::Chart => found.chart(document),
                Self::Plugin => found.plugin(document, 0),
                Self::Module => {}
            }
        }
        found.0
    }
}

fn parse_yaml(text: &str) -> Option<Vec<Value>> {
    let options = serde_saphyr::options! {
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
    };
    serde_saphyr::from_multiple_with_options::<Value>(text, options).ok()
}

#[derive(Default)]
struct Found(Vec<Reference>);

impl Found {
    fn add(&mut self, kind: ReferenceKind, target: &str) {
        let target = target.trim();
        // An inline document, not a path.
        if target.is_empty() || target.contains('\n') || target.starts_with('{') {
            return;
        }
        let reference = Reference { target: target.to_owned(), kind };
        if !self.0.contains(&reference) {
            self.0.push(reference);
        }
    }

    fn add_at(&mut self, kind: ReferenceKind, at: Option<&Value>) {
        for text in strings(at) {
            self.add(kind, text);
        }
    }

    fn kustomization(&mut self, doc: &Value) {
        use ReferenceKind::{File, Plugin, Resource};
        for field in ["resources", "bases", "components"] {
            self.add_at(Resource, doc.get(field));
        }
        for field in ["patchesStrategicMerge", "crds", "configurations"] {
            self.add_at(File, doc.get(field));
        }
        for field in ["patches", "patchesJson6902", "replacements"] {
            for item in items(doc.get(field)) {
                self.add_at(File, item.get("path"));
            }
        }
        self.add_at(File, doc.get("openapi").and_then(|o| o.get("path")));
        for field in ["configMapGenerator", "secretGenerator"] {
            for item in items(doc.get(field)) {
                self.generator_files(File, item);
            }
        }
        for field in ["generators", "transformers", "validators"] {
            for text in strings(doc.get(field)) {
                if text.contains('\n') {
                    for inline in parse_yaml(text).unwrap_or_default() {
                        self.plugin(&inline, 0);
                    }
                } else {
                    self.add(Plugin, text);
                }
            }
        }
        let home = doc
            .get("helmGlobals")
            .and_then(|g| g.get("chartHome"))
            .and_then(Value::as_str)
            .unwrap_or("charts");
        for chart in items(doc.get("helmCharts")) {
            self.kustomize_chart(home, chart);
        }
        for chart in items(doc.get("helmChartInflationGenerator")) {
            self.kustomize_chart(home, chart);
        }
    }

    /// `files` (`key=path` or `path`), `envs` and `env` of a ConfigMap or Secret generator.
    fn generator_files(&mut self, kind: ReferenceKind, item: &Value) {
        for text in strings(item.get("files")) {
            self.add(kind, text.split_once('=').map_or(text, |(_, path)| path));
        }
        self.add_at(kind, item.get("envs"));
        self.add_at(kind, item.get("env"));
    }

    fn kustomize_chart(&mut self, home: &str, chart: &Value) {
        use ReferenceKind::{File, Folder, MaybeFolder, Remote};
        let text = |key: &str| chart.get(key).and_then(Value::as_str);
        self.add_at(File, chart.get("valuesFile"));
        self.add_at(File, chart.get("values"));
        self.add_at(File, chart.get("additionalValuesFiles"));
        let Some(name) = text("name").or_else(|| text("chartName")) else { return };
        let home = text("chartHome").unwrap_or(home);
        let repo = text("repo").or_else(|| text("chartRepoUrl"));
        if let Some(version) = text("version").or_else(|| text("chartVersion")) {
            self.add(MaybeFolder, &format!("{home}/{name}-{version}"));
        }
        if let Some(repo) = repo {
            self.add(MaybeFolder, &format!("{home}/{name}"));
            self.add(Remote, repo);
        } else {
            self.add(Folder, &format!("{home}/{name}"));
        }
    }

    fn chart(&mut self, doc: &Value) {
        for dependency in items(doc.get("dependencies")) {
            match dependency.get("repository").and_then(Value::as_str) {
                Some(url) if url.starts_with("file://") => {
                    self.add(ReferenceKind::Folder, url.trim_start_matches("file://"));
                }
                Some(url) if !url.is_empty() => self.add(ReferenceKind::Remote, url),
                _ => {}
            }
        }
    }

    /// A plugin's configuration: built-in ones name files at well-known keys, at any depth. `path` is also the name of
    /// field paths, so what does not exist is no mistake.
    fn plugin(&mut self, value: &Value, depth: usize) {
        use ReferenceKind::Maybe;
        if depth > 16 {
            return;
        }
        match value {
            Value::Object(map) => {
                self.generator_files(Maybe, value);
                for key in ["path", "paths", "valuesFile", "additionalValuesFiles"] {
                    self.add_at(Maybe, map.get(key));
                }
                if let Some(name) = map.get("name").and_then(Value::as_str)
                    && (map.contains_key("chartHome") || map.contains_key("releaseName"))
                {
                    let home = map.get("chartHome").and_then(Value::as_str).unwrap_or("charts");
                    self.add(ReferenceKind::MaybeFolder, &format!("{home}/{name}"));
                }
                for inner in map.values() {
                    self.plugin(inner, depth + 1);
                }
            }
            Value::Array(list) => list.iter().for_each(|inner| self.plugin(inner, depth + 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The strings at a place where a string or a list of strings may stand.
fn strings(at: Option<&Value>) -> Vec<&str> {
    match at {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn items(at: Option<&Value>) -> &[Value] {
    at.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Whether a kustomize resource that is no path in the repository is meant to come from elsewhere.
pub(crate) fn looks_remote(target: &str) -> bool {
    target.contains("://")
        || target.starts_with("git::")
        || target.starts_with("gh:")
        || target.contains("?ref=")
        || target.contains("?version=")
        || (target.contains('@') && target.contains(':'))
        || target.split_once('/').is_some_and(|(host, _)| {
            !host.starts_with('.')
                && host.rsplit_once('.').is_some_and(|(_, end)| end != "yaml" && end != "yml")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ReferenceKind::{File, Folder, Maybe, MaybeFolder, Plugin, Remote, Resource};

    fn check(parsed: Parsed, yaml: &str, expect: &[(ReferenceKind, &str)]) {
        let mut found: Vec<_> =
            parsed.parse(yaml.as_bytes()).into_iter().map(|r| (r.kind, r.target)).collect();
        let mut expect: Vec<_> = expect.iter().map(|(k, t)| (*k, (*t).to_owned())).collect();
        found.sort();
        expect.sort();
        assert_eq!(found, expect);
    }

    #[test]
    fn every_field_of_a_kustomization() {
        check(
            Parsed::Kustomization,
            r"
resources: [a.yaml, ../base, 'https://example.com/x.yaml']
bases: [../old]
components: [../component]
patches: [{path: p.yaml}, {patch: 'inline'}]
patchesStrategicMerge: [sm.yaml, 'kind: X
  ']
patchesJson6902: [{path: j.yaml, target: {kind: X}}]
configMapGenerator: [{name: c, files: [f.txt, key=g.txt], envs: [e.env], env: old.env}]
secretGenerator: [{name: s, files: [s.txt]}]
crds: [crd.yaml]
openapi: {path: schema.json}
configurations: [conf.yaml]
transformers: [t.yaml]
generators: ['g/']
validators: [v.yaml]
replacements: [{path: r.yaml}, {source: {kind: X}}]
helmGlobals: {chartHome: ../charts}
helmCharts:
- {name: one, valuesFile: one.yaml, additionalValuesFiles: [two.yaml]}
- {name: far, version: 1.2.3, repo: 'https://charts.example.com'}
",
            &[
                (Resource, "a.yaml"),
                (Resource, "../base"),
                (Resource, "https://example.com/x.yaml"),
                (Resource, "../old"),
                (Resource, "../component"),
                (File, "p.yaml"),
                (File, "sm.yaml"),
                (File, "kind: X"),
                (File, "j.yaml"),
                (File, "f.txt"),
                (File, "g.txt"),
                (File, "e.env"),
                (File, "old.env"),
                (File, "s.txt"),
                (File, "crd.yaml"),
                (File, "schema.json"),
                (File, "conf.yaml"),
                (Plugin, "t.yaml"),
                (Plugin, "g/"),
                (Plugin, "v.yaml"),
                (File, "r.yaml"),
                (File, "one.yaml"),
                (File, "two.yaml"),
                (Folder, "../charts/one"),
                (MaybeFolder, "../charts/far"),
                (MaybeFolder, "../charts/far-1.2.3"),
                (Remote, "https://charts.example.com"),
            ],
        );
    }

    #[test]
    fn charts_and_plugins() {
        check(
            Parsed::Chart,
            "dependencies: [{name: a, repository: 'file://../common'}, {name: b, repository: 'oci://x/y'}, {name: c}]",
            &[(Folder, "../common"), (Remote, "oci://x/y")],
        );
        check(
            Parsed::Plugin,
            "kind: PatchTransformer\npath: p.yaml\n---\nkind: ConfigMapGenerator\nfiles: [k=v.txt]\n",
            &[(Maybe, "p.yaml"), (Maybe, "v.txt")],
        );
    }

    #[test]
    fn nothing_bad_happens_on_bad_input() {
        for bad in [
            &b"\xff\xfe"[..],
            b"a: [",
            b"null",
            b"[]",
            b"resources: {a: b}",
            b"resources: null\npatches: [null, 3]",
        ] {
            for parsed in [Parsed::Kustomization, Parsed::Chart, Parsed::Plugin] {
                assert_eq!(parsed.parse(bad), vec![], "{bad:?}");
            }
        }
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for n in 1..12 {
            use std::fmt::Write as _;
            let p = n - 1;
            writeln!(bomb, "a{n}: &a{n} [*a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}, *a{p}]").unwrap();
        }
        assert_eq!(Parsed::Kustomization.parse(bomb.as_bytes()), vec![]);
        let deep = format!("resources: {}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(Parsed::Kustomization.parse(deep.as_bytes()), vec![]);
    }

    #[test]
    fn tells_remote_from_local() {
        for remote in [
            "https://example.com/x.yaml",
            "github.com/org/repo//path?ref=v1",
            "git@example.com:org/repo",
            "git::https://x/y",
            "ssh://git@x/y",
        ] {
            assert!(looks_remote(remote), "{remote}");
        }
        for local in ["a.yaml", "../base", "./x/y.yaml", "dir/file.yaml", ".hidden/x", "v1.yaml/x"] {
            assert!(!looks_remote(local), "{local}");
        }
    }
}
