//! From files to documents. All problems of all files are found before anything is done.

use std::{
    collections::BTreeMap,
    fmt,
    io::Read as _,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{
    kind::{API_VERSION, Kind},
    node::{Node, Placed, line},
    schema::{Found, check, nearest},
    state::State,
};
use crate::{error::CliError, terminal::Terminal};

/// Bytes of one file, or of standard input: nobody means to send more.
const MOST: u64 = 8 << 20;

/// Where a document stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    file: String,
    /// 1 is the first document of the file.
    document: usize,
    line: u64,
}

impl Place {
    pub(super) fn at(&self, line: u64) -> Self {
        Self { line, ..self.clone() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: document {}, line {}", self.file, self.document, self.line)
    }
}

/// A document as it was read.
pub(super) struct Document {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) spec: State,
    pub(super) place: Place,
    /// Lines of its fields, `spec.git.ref`.
    pub(super) lines: BTreeMap<String, u64>,
}

impl Document {
    /// Where a field stands; the document where it does not.
    pub(super) fn place_of(&self, path: &str) -> Place {
        self.place.at(self.lines.get(path).copied().unwrap_or(self.place.line))
    }
}

/// A `v1 Secret` of the files. No `Debug`.
pub(super) struct Secret {
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) values: State,
    pub(super) place: Place,
}

/// Everything that the files say.
#[derive(Default)]
pub(super) struct Files {
    pub(super) documents: Vec<Document>,
    pub(super) secrets: Vec<Secret>,
    pub(super) problems: Problems,
    pub(super) warnings: Vec<String>,
}

/// What is wrong, with where.
#[derive(Default)]
pub(super) struct Problems(Vec<String>);

impl Problems {
    pub(super) fn add(&mut self, place: &Place, what: impl fmt::Display) {
        self.0.push(format!("{place}: {what}"));
    }

    /// An error that tells all of them; nothing was changed.
    pub(super) fn check(&self) -> Result<(), CliError> {
        let all = &self.0;
        match all.as_slice() {
            [] => Ok(()),
            [one] => Err(CliError::new(one.clone()).hint("nothing was changed")),
            _ => Err(CliError::new(format!("{} problems in the files\n{}", all.len(), all.join("\n")))
                .hint("nothing was changed")),
        }
    }
}

/// Reads files, folders and standard input.
pub(super) fn files(
    paths: &[PathBuf],
    recursive: bool,
    terminal: &mut Terminal<'_>,
) -> Result<Files, CliError> {
    let mut files = Files::default();
    for path in paths {
        if path == Path::new("-") {
            let mut text = String::new();
            terminal
                .input
                .take(MOST + 1)
                .read_to_string(&mut text)
                .map_err(|error| CliError::new(format!("cannot read standard input: {error}")))?;
            files.read("standard input", &text)?;
        } else if path.is_dir() {
            let mut found = Vec::new();
            folder(path, recursive, &mut found)?;
            if found.is_empty() {
                let hint = "files end in .yaml, .yml or .json; -R looks into the folders below too";
                return Err(CliError::new(format!("no documents in {}", path.display())).hint(hint));
            }
            for path in found {
                files.read(&path.display().to_string(), &read(&path)?)?;
            }
        } else {
            files.read(&path.display().to_string(), &read(path)?)?;
        }
    }
    Ok(files)
}

fn folder(path: &Path, recursive: bool, found: &mut Vec<PathBuf>) -> Result<(), CliError> {
    let unreadable = |error| CliError::new(format!("cannot read the folder {}: {error}", path.display()));
    let mut entries: Vec<PathBuf> = std::fs::read_dir(path)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(unreadable)?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            if recursive {
                folder(&entry, recursive, found)?;
            }
        } else if entry
            .extension()
            .is_some_and(|end| ["yaml", "yml", "json"].iter().any(|known| end == *known))
        {
            found.push(entry);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String, CliError> {
    let unreadable = |error| CliError::new(format!("cannot read {}: {error}", path.display()));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(MOST + 1).read_to_string(&mut text).map_err(unreadable)?;
    Ok(text)
}

impl Files {
    fn read(&mut self, file: &str, text: &str) -> Result<(), CliError> {
        if text.len() as u64 > MOST {
            return Err(CliError::new(format!("{file} is larger than {} MiB", MOST >> 20)));
        }
        let place = |document, line| Place { file: file.to_owned(), document, line };
        let documents: Vec<Placed> = match serde_saphyr::from_multiple(text) {
            Ok(documents) => documents,
            Err(error) => {
                let line = error.location().map_or(1, |location| location.line());
                let document = text
                    .lines()
                    .take(usize::try_from(line).unwrap_or(1))
                    .filter(|line| line.trim_end() == "---");
                self.problems.add(&place(document.count().max(1), line), reason(&error.to_string()));
                return Ok(());
            }
        };
        for (at, node) in documents.iter().enumerate() {
            self.document(node, &place(at + 1, line(node)));
        }
        Ok(())
    }

    fn document(&mut self, node: &Placed, place: &Place) {
        match &node.value {
            // `---` alone.
            Node::Null => return,
            Node::Map(_) => {}
            other => {
                self.problems.add(place, format_args!("a document must be a mapping, not {}", other.word()));
                return;
            }
        }
        let text = |name: &str| node.value.get(name).and_then(|value| value.value.text());
        match (text("apiVersion"), text("kind")) {
            (Some("v1"), Some("List")) => {
                if let Some(Node::List(items)) = node.value.get("items").map(|items| &items.value) {
                    for item in items {
                        self.document(item, &place.at(line(item)));
                    }
                }
            }
            (Some("v1"), Some("Secret")) => self.secret(node, place),
            (Some(API_VERSION), Some(kind)) => {
                if let Some(kind) = Kind::of_document(kind) {
                    self.known(kind, node, place);
                } else {
                    let all: Vec<&str> = Kind::ALL.iter().map(|kind| kind.info().name).collect();
                    let near = nearest(kind, all.iter().copied()).map_or_else(
                        || format!("the kinds are {}", all.join(", ")),
                        |near| format!("did you mean {near}?"),
                    );
                    self.problems.add(place, format_args!("there is no kind {kind}; {near}"));
                }
            }
            (Some(version), Some(kind)) => {
                let words = format!(
                    "{kind} of {version} is not one of ours: documents have apiVersion {API_VERSION}, or are Secrets of v1"
                );
                self.problems.add(place, words);
            }
            (None, _) => self.problems.add(place, format_args!("apiVersion is required: {API_VERSION}")),
            (_, None) => self.problems.add(place, "kind is required"),
        }
    }

    fn known(&mut self, kind: Kind, node: &Placed, place: &Place) {
        let before = self.problems.0.len();
        let metadata = self.metadata(kind.info().name, node, place);
        let mut found = Found::default();
        let Some(spec) = node.value.get("spec") else {
            self.problems.add(place, format_args!("{}: spec is required", kind.info().name));
            return;
        };
        let spec = check(spec, kind.info().fields, "spec", &mut found);
        let Some(Metadata { name, namespace, labels }) = metadata else { return };
        let who = format!("{} {name}", kind.info().name);
        for (line, what) in found.problems {
            self.problems.add(&place.at(line), format_args!("{who}: {what}"));
        }
        for (line, what) in found.warnings {
            self.warnings.push(format!("{}: {who}: {what}", place.at(line)));
        }
        if self.problems.0.len() == before {
            let place = place.clone();
            self.documents.push(Document { kind, name, namespace, labels, spec, place, lines: found.lines });
        }
    }

    /// The metadata of a document; nothing where that is not enough to name it.
    fn metadata(&mut self, kind: &str, node: &Placed, place: &Place) -> Option<Metadata> {
        if let Node::Map(entries) = &node.value {
            // Kubernetes' own tools write a status, and ignore one that is read.
            let known = ["apiVersion", "kind", "metadata", "spec", "status"];
            for (key, _) in
                entries.iter().filter(|(key, _)| kind != "Secret" && !known.contains(&key.value.as_str()))
            {
                self.problems
                    .add(&place.at(line(key)), format_args!("{kind}: {}: there is no such field", key.value));
            }
        }
        let metadata = node.value.get("metadata");
        let text =
            |name: &str| metadata.and_then(|all| all.value.get(name)).and_then(|value| value.value.text());
        let Some(name) = text("name").filter(|name| !name.is_empty()) else {
            self.problems.add(place, format_args!("{kind}: metadata.name is required, as text"));
            return None;
        };
        let mut labels = BTreeMap::new();
        if let Some(Node::Map(entries)) =
            metadata.and_then(|all| all.value.get("labels")).map(|labels| &labels.value)
        {
            for (key, value) in entries {
                match value.value.text() {
                    Some(text) => drop(labels.insert(key.value.clone(), text.to_owned())),
                    None => self.problems.add(
                        &place.at(line(key)),
                        format_args!(
                            "{kind} {name}: metadata.labels.{}: must be text; put it in quotes",
                            key.value
                        ),
                    ),
                }
            }
        }
        Some(Metadata { name: name.to_owned(), namespace: text("namespace").map(str::to_owned), labels })
    }

    fn secret(&mut self, node: &Placed, place: &Place) {
        let Some(Metadata { name, namespace, .. }) = self.metadata("Secret", node, place) else { return };
        let mut values = State::new();
        // As Kubernetes does: what is in stringData wins.
        for (field, encoded) in [("data", true), ("stringData", false)] {
            let Some(Node::Map(entries)) = node.value.get(field).map(|map| &map.value) else { continue };
            for (key, value) in entries {
                let place = place.at(line(key));
                let Some(text) = value.value.text() else {
                    self.problems.add(
                        &place,
                        format_args!("Secret {name}: {field}.{}: must be text; put it in quotes", key.value),
                    );
                    continue;
                };
                let text = if encoded {
                    let packed: String = text.split_whitespace().collect();
                    let bytes = STANDARD.decode(packed).ok();
                    let Some(text) = bytes.and_then(|bytes| String::from_utf8(bytes).ok()) else {
                        let what = format!("Secret {name}: data.{}: must be base64 of text", key.value);
                        self.problems.add(&place, what);
                        continue;
                    };
                    text
                } else {
                    text.to_owned()
                };
                values.insert(key.value.clone(), Value::String(text));
            }
        }
        self.secrets.push(Secret { name, namespace, values, place: place.clone() });
    }
}

struct Metadata {
    name: String,
    namespace: Option<String>,
    labels: BTreeMap<String, String>,
}

/// Why a text is no YAML, without the text itself, which may hold secrets.
fn reason(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let first = match first.split_once(": ") {
        Some((place, reason)) if place.starts_with("line ") => reason,
        _ => first,
    };
    let first = first.split(", set DuplicateKeyPolicy").next().unwrap_or(first);
    format!("neither YAML nor JSON: {first}")
}
