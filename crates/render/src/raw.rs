//! Raw manifests: every YAML and JSON file below the folder, in path order, those that are templates rendered first.

mod json;

pub use json::governed_json;

use std::{borrow::Cow, collections::HashMap};

use plural_yaml::governor;
use serde_json::{Map, Value};

use crate::{
    error::{Problem, RenderError},
    inputs::Inputs,
    liquid::Liquid,
    object::{Object, Origin, Rendered, Warning},
    tpl,
    tree::Tree,
    yaml::{self, Document},
};

/// More objects than one service should ever hold.
const MAX_OBJECTS: usize = 20_000;
/// A `List` may hold lists, but not without end.
const MAX_LIST_DEPTH: usize = 4;
/// One manifest file; the API server takes no object above 1.5 MiB, a file holds many.
const MAX_FILE_BYTES: usize = 16 << 20;

/// Values of one file, aliases expanded: a few kilobytes of aliases can stand for gigabytes.
const MAX_VALUES: usize = 2_000_000;

/// The documents of a YAML or JSON file that hold anything.
pub(crate) fn parse_documents(path: &str, bytes: &[u8]) -> Result<Vec<Document>, Problem> {
    let problem = |line, message| Problem { path: path.to_owned(), line, message };
    if bytes.len() > MAX_FILE_BYTES {
        let message = format!("the file is larger than {} MiB: split it", MAX_FILE_BYTES >> 20);
        return Err(problem(0, message));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes[..error.valid_up_to()].split(|byte| *byte == b'\n').count();
        problem(line, "not UTF-8 text".to_owned())
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if has_extension(path, ".json") {
        return json::parse(path, text);
    }
    let mut documents = yaml::parse_documents(text.as_bytes(), MAX_VALUES)
        .map_err(|error| problem(error.line(), error.reason().to_owned()))?;
    documents.retain(|document| !document.value.is_null());
    Ok(documents)
}

fn has_extension(name: &str, extension: &str) -> bool {
    let at = name.len().saturating_sub(extension.len());
    name.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(extension))
}

/// Renders all manifests below the service's folder.
pub(crate) fn render(tree: &Tree, inputs: &Inputs) -> Result<Rendered, RenderError> {
    let mut files = Files { liquid: None, inputs, rendered: Rendered::default(), problems: Vec::new() };
    for (path, bytes) in tree.walk(&inputs.folder) {
        if let Some((inner, written)) = manifest_file(path) {
            files.read(path, inner, bytes, written)?;
        }
    }
    if !files.problems.is_empty() {
        return Err(RenderError::Files(files.problems));
    }
    let mut rendered = files.rendered;
    drop_duplicates(&mut rendered);
    Ok(rendered)
}

/// Objects that another renderer made, held to the same rules as those of raw files.
pub(crate) fn collect(
    inputs: &Inputs,
    documents: impl IntoIterator<Item = (Value, Origin)>,
) -> Result<Rendered, RenderError> {
    let mut files = Files { liquid: None, inputs, rendered: Rendered::default(), problems: Vec::new() };
    for (value, origin) in documents {
        files.take(value, &origin, 0);
        if files.rendered.objects.len() > MAX_OBJECTS {
            return Err(RenderError::TooMuch { limit: MAX_OBJECTS, unit: "objects" });
        }
    }
    if !files.problems.is_empty() {
        return Err(RenderError::Files(files.problems));
    }
    let mut rendered = files.rendered;
    drop_duplicates(&mut rendered);
    Ok(rendered)
}

/// # Errors
/// When that is more than one service should hold.
pub(crate) fn check_count(objects: usize) -> Result<(), RenderError> {
    if objects > MAX_OBJECTS {
        return Err(RenderError::TooMuch { limit: MAX_OBJECTS, unit: "objects" });
    }
    Ok(())
}

/// What a file's name says about what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    /// YAML or JSON.
    Plain,
    /// A Liquid template of it.
    Liquid,
    /// A Go template of it.
    Tpl,
}

/// The name without the ending that makes it a template, and how it is written; nothing when it is no manifest.
fn manifest_file(path: &str) -> Option<(&str, Written)> {
    let cut = |ending: &str| has_extension(path, ending).then(|| &path[..path.len() - ending.len()]);
    let (inner, written) = match (cut(".liquid"), cut(".tpl")) {
        (Some(inner), _) => (inner, Written::Liquid),
        (None, Some(inner)) => (inner, Written::Tpl),
        (None, None) => (path, Written::Plain),
    };
    let name = inner.rsplit('/').next().unwrap_or(inner);
    let known = |extension: &&str| has_extension(name, extension) && name.len() > extension.len();
    [".yaml", ".yml", ".json"].iter().any(known).then_some((inner, written))
}

struct Files<'a> {
    liquid: Option<Liquid<'a>>,
    inputs: &'a Inputs,
    rendered: Rendered,
    problems: Vec<Problem>,
}

impl Files<'_> {
    fn read(&mut self, path: &str, inner: &str, bytes: &[u8], written: Written) -> Result<(), RenderError> {
        let text = match written {
            Written::Liquid if self.inputs.templated => {
                let liquid = self.liquid.get_or_insert_with(|| Liquid::new(self.inputs));
                Some(liquid.render(path, bytes))
            }
            Written::Tpl if self.inputs.templated => Some(tpl::render(path, bytes, self.inputs)),
            _ => None,
        };
        let content: Cow<'_, [u8]> = match text {
            None => Cow::Borrowed(bytes),
            Some(Ok(text)) => Cow::Owned(text.into_bytes()),
            Some(Err(problem)) => {
                self.problems.push(problem);
                return Ok(());
            }
        };
        self.take_file(path, inner, &content)
    }

    /// Takes the documents of a file: `inner` is its name without the ending that makes it a template.
    fn take_file(&mut self, path: &str, inner: &str, content: &[u8]) -> Result<(), RenderError> {
        match parse_documents(inner, content) {
            Ok(documents) => {
                for Document { value, line } in documents {
                    let origin = Origin { path: path.to_owned(), line };
                    self.take(value, &origin, 0);
                    if self.rendered.objects.len() > MAX_OBJECTS {
                        return Err(RenderError::TooMuch { limit: MAX_OBJECTS, unit: "objects" });
                    }
                }
            }
            Err(problem) => self.problems.push(Problem { path: path.to_owned(), ..problem }),
        }
        Ok(())
    }

    /// Takes what a document holds: an object, the items of a list, or nothing of ours.
    fn take(&mut self, value: Value, origin: &Origin, depth: usize) {
        if !governor::may_go_on(0) {
            return; // what is left out is not used: the caller knows that it stopped the render
        }
        let Value::Object(mut map) = value else { return };
        let has = |key: &str| map.get(key).is_some_and(|value| !value.is_null());
        let ours = has("apiVersion") || (has("kind") && has("metadata"));
        if !ours {
            return; // a values file, a schema, a workflow: not ours to judge
        }
        for key in ["apiVersion", "kind"] {
            if map.get(key).and_then(Value::as_str).is_none_or(str::is_empty) {
                return self.wrong(origin, format!("the object has no {key}, or it is not a string"));
            }
        }
        let kind = text(&map, "kind");
        if kind.ends_with("List") && map.get("items").is_some_and(|items| !items.is_object()) {
            let api_version = text(&map, "apiVersion");
            let items = map.remove("items").unwrap_or_default();
            return self.take_list(items, &kind, &api_version, origin, depth);
        }
        if text(&map, "apiVersion").starts_with("kustomize.config.k8s.io/") {
            let message = format!(
                "a {kind} below the service's folder is not applied; make its folder the service's folder"
            );
            self.rendered.warnings.push(Warning { origin: origin.clone(), message });
            return;
        }
        let Some(Value::Object(metadata)) = map.get("metadata") else {
            return self.wrong(origin, format!("the {kind} has no metadata"));
        };
        if metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
            let message = if metadata.contains_key("generateName") {
                format!("the {kind} has generateName: what is applied again and again needs metadata.name")
            } else {
                format!("the {kind} has no metadata.name, or it is not a string")
            };
            return self.wrong(origin, message);
        }
        for key in ["namespace", "labels", "annotations"] {
            let fits = match metadata.get(key) {
                None | Some(Value::Null) => true,
                Some(Value::String(_)) => key == "namespace",
                Some(Value::Object(map)) => {
                    let odd = map.iter().find(|(_, value)| !value.is_string());
                    if let Some((name, _)) = odd {
                        let message = format!(
                            "metadata.{key}[{name:?}] of the {kind} is not a string: put it in quotes"
                        );
                        return self.wrong(origin, message);
                    }
                    key != "namespace"
                }
                Some(_) => false,
            };
            if !fits {
                return self.wrong(origin, format!("metadata.{key} of the {kind} has the wrong type"));
            }
        }
        self.rendered.objects.push(Object { value: Value::Object(map), origin: origin.clone() });
    }

    fn take_list(&mut self, items: Value, kind: &str, api_version: &str, origin: &Origin, depth: usize) {
        let items = match items {
            Value::Array(items) if depth < MAX_LIST_DEPTH => items,
            Value::Null => return,
            _ => return self.wrong(origin, format!("the {kind} has no list of items, or lists in lists")),
        };
        let item_kind = kind.strip_suffix("List").filter(|kind| !kind.is_empty());
        for mut item in items {
            // Items of a typed list (`ConfigMapList`) may leave out what the list says.
            if let (Value::Object(map), Some(item_kind)) = (&mut item, item_kind) {
                map.entry("kind").or_insert_with(|| item_kind.into());
                map.entry("apiVersion").or_insert_with(|| api_version.into());
            }
            if !item.is_object() {
                return self.wrong(origin, format!("an item of the {kind} is not an object"));
            }
            self.take(item, origin, depth + 1);
        }
    }

    fn wrong(&mut self, origin: &Origin, message: String) {
        self.problems.push(Problem { path: origin.path.clone(), line: origin.line, message });
    }
}

fn text(map: &Map<String, Value>, key: &str) -> String {
    map.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Keeps the first of objects with the same group, kind, namespace and name, and tells of the others.
fn drop_duplicates(rendered: &mut Rendered) {
    let mut seen: HashMap<(String, String, String, String), Origin> = HashMap::new();
    let warnings = &mut rendered.warnings;
    rendered.objects.retain(|object| {
        let group = object.api_version().rsplit_once('/').map_or("", |(group, _)| group);
        let key = (
            group.to_owned(),
            object.kind().to_owned(),
            object.namespace().to_owned(),
            object.name().to_owned(),
        );
        let Some(first) = seen.get(&key) else {
            seen.insert(key, object.origin.clone());
            return true;
        };
        warnings.push(Warning {
            origin: object.origin.clone(),
            message: format!(
                "{} {:?} is written twice: this one is left out, the one at {}:{} is used",
                object.kind(),
                object.name(),
                first.path,
                first.line
            ),
        });
        false
    });
}
