//! Edits of single values in YAML, JSON, TOML and HCL, as an automation says them. The engine does them.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::pr_automation_spec::{ListMerge, is_default};

/// Steps of a path.
const MAX_STEPS: usize = 64;

/// The language of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// YAML 1.1 as Kubernetes reads it, any number of documents.
    Yaml,
    /// JSON.
    Json,
    /// TOML.
    Toml,
    /// HCL: Terraform and its relatives.
    Hcl,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Yaml, Self::Json, Self::Toml, Self::Hcl];

    /// The word in an automation.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Yaml => "yaml",
            Self::Json => "json",
            Self::Toml => "toml",
            Self::Hcl => "hcl",
        }
    }

    /// The language of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.as_str() == word)
    }

    /// What the name of a file says.
    pub fn of(path: &str) -> Option<Self> {
        let name = path.strip_suffix(".liquid").unwrap_or(path);
        match name.rsplit_once('.')?.1 {
            "yaml" | "yml" => Some(Self::Yaml),
            "json" => Some(Self::Json),
            "toml" => Some(Self::Toml),
            "tf" | "tfvars" | "tofu" | "hcl" => Some(Self::Hcl),
            _ => None,
        }
    }
}

/// One change of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "op", deny_unknown_fields)]
pub enum Edit {
    /// Gives the value at a path; maps on the way are made.
    Set {
        /// See [`Path`].
        path: Path,
        /// The value.
        value: Value,
    },
    /// Takes away what stands at a path; nothing there is no error.
    Delete {
        /// See [`Path`].
        path: Path,
    },
    /// Puts a value over the one at a path, map by map.
    Merge {
        /// See [`Path`]; the whole document where it is empty.
        #[serde(default, skip_serializing_if = "Path::is_empty")]
        path: Path,
        /// The value.
        value: Value,
        /// What becomes of lists.
        #[serde(default, skip_serializing_if = "is_default")]
        lists: ListMerge,
        /// The field by which items of lists are told apart; then `lists` is not looked at.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Adds an item to the list at a path, which is made where there is none. One that is there is not added again: an equal one,
    /// or with `key` one whose field of that name is equal, over which the item is put.
    Append {
        /// See [`Path`].
        path: Path,
        /// The item.
        value: Value,
        /// The field that tells items apart.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Gives an attribute of HCL an expression: `var.region`. It is no template: an answer never becomes one.
    Express {
        /// See [`Path`].
        path: Path,
        /// The expression, as HCL writes it.
        expression: String,
    },
    /// Makes a block of HCL, or sets attributes of the one of this type and these labels.
    Block {
        /// The block that it stands in; the file where it is empty. See [`Path`].
        #[serde(default, skip_serializing_if = "Path::is_empty")]
        path: Path,
        /// Its type: `resource`.
        block: String,
        /// Its labels.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        labels: Vec<String>,
        /// Its attributes.
        #[serde(default, skip_serializing_if = "Map::is_empty")]
        value: Map<String, Value>,
    },
}

/// Which document of a YAML stream is meant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DocumentSelector {
    /// Its place, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    /// Its `kind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its `metadata.name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl DocumentSelector {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.index.is_none() && self.kind.is_none() && self.name.is_none()
    }
}

/// An edit of a file. Texts in its value are templates, each for itself: an answer stays one value whatever it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FileEdit {
    /// The file, a template.
    pub file: String,
    /// Its language; by its name without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Which document is meant.
    #[serde(default, skip_serializing_if = "DocumentSelector::is_empty")]
    pub document: DocumentSelector,
    /// The edit.
    pub edit: Edit,
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The value of a key.
    Key(String),
    /// The item at this place, from 0.
    Index(usize),
    /// The item whose field is this text.
    Where(String, String),
}

/// Where in a value: `spec.containers[name=web].args[0]["a.b"]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Path {
    /// From the outermost.
    pub steps: Vec<Step>,
}

impl Path {
    /// Whether it means the whole.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The same with other texts in its steps; a text stays one step whatever it holds.
    ///
    /// # Errors
    /// As `with`.
    pub fn map_texts<E>(&self, with: impl Fn(&str) -> Result<String, E>) -> Result<Self, E> {
        let step = |step: &Step| {
            Ok(match step {
                Step::Key(key) => Step::Key(with(key)?),
                Step::Index(index) => Step::Index(*index),
                Step::Where(key, value) => Step::Where(with(key)?, with(value)?),
            })
        };
        Ok(Self { steps: self.steps.iter().map(step).collect::<Result<_, E>>()? })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Key(key) if !is_bare(key) => {
                    write!(f, "[{}]", Value::String(key.clone()))?;
                }
                Step::Key(key) if at == 0 => f.write_str(key)?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Where(key, value) => write!(f, "[{key}={value}]")?,
            }
        }
        Ok(())
    }
}

/// Whether a key is read as itself without quotes.
fn is_bare(key: &str) -> bool {
    !key.is_empty() && key.trim() == key && !key.contains(['.', '[', ']', '"', '{'])
}

impl From<Path> for String {
    fn from(path: Path) -> Self {
        path.to_string()
    }
}

impl TryFrom<String> for Path {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl std::str::FromStr for Path {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is no path: write it as spec.containers[name=web].args[0]");
        let mut steps = Vec::new();
        let mut rest = text.trim();
        let mut first = true;
        while !rest.is_empty() {
            if steps.len() == MAX_STEPS {
                return Err(format!("a path has more than {MAX_STEPS} steps"));
            }
            if let Some(inner) = rest.strip_prefix('[') {
                if inner.starts_with('"') {
                    let mut texts = serde_json::Deserializer::from_str(inner).into_iter::<String>();
                    let key = texts.next().and_then(Result::ok).ok_or_else(bad)?;
                    rest = inner[texts.byte_offset()..].strip_prefix(']').ok_or_else(bad)?;
                    steps.push(Step::Key(key));
                } else {
                    let (inside, after) = inner.split_once(']').ok_or_else(bad)?;
                    rest = after;
                    steps.push(match inside.split_once('=') {
                        Some((key, value)) if !key.is_empty() => {
                            Step::Where(key.to_owned(), value.to_owned())
                        }
                        _ => Step::Index(inside.parse().map_err(|_| bad())?),
                    });
                }
            } else {
                if !first {
                    rest = rest.strip_prefix('.').ok_or_else(bad)?;
                }
                let end = step_end(rest);
                if end == 0 {
                    return Err(bad());
                }
                steps.push(Step::Key(rest[..end].to_owned()));
                rest = &rest[end..];
            }
            first = false;
        }
        Ok(Self { steps })
    }
}

/// Where the key at the beginning of `text` ends; dots in a template do not end it.
fn step_end(text: &str) -> usize {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("{{") {
            at += rest.find("}}").map_or(rest.len(), |end| end + 2);
        } else if rest.starts_with(['.', '[']) {
            break;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_is_kept_as_it_was_written() {
        for text in [
            "",
            "a.b[0][name=web].c",
            "[\" a\"].b",
            "a[\"b.c\"][\"d\\\"e\"]",
            "[\"{{ open\"].b",
            "a.{{ context.name }}.b",
            "a.{{ context.name }}-values[x={{ context.y }}]",
            "resource.aws_s3_bucket.logs",
        ] {
            let path: Path = text.parse().unwrap();
            let again: Path = path.to_string().parse().unwrap();
            assert_eq!(again, path, "{text}: {path}");
        }
        for bad in ["a[", "a]b[", "[x", ".a", "a..b", "a[b]", "[\"a\"=b]"] {
            assert!(bad.parse::<Path>().is_err(), "{bad}");
        }
    }

    #[test]
    fn an_edit_is_kept_as_it_was_written() {
        for edit in [
            json!({"op": "set", "path": "a", "value": null}),
            json!({"op": "merge", "value": {"a": [1]}, "lists": "APPEND"}),
            json!({"op": "merge", "path": "a", "value": {}, "key": "name"}),
            json!({"op": "block", "block": "module", "labels": ["web"]}),
        ] {
            let read: Edit = serde_json::from_value(edit.clone()).unwrap();
            assert_eq!(serde_json::to_value(read).unwrap(), edit);
        }
        for bad in [
            json!({"op": "set", "path": "a"}),
            json!({"op": "merge", "value": 1, "lists": {"KEY": "name"}}),
            json!({"op": "delete", "path": "a", "value": 1}),
            json!({"path": "a"}),
        ] {
            assert!(serde_json::from_value::<Edit>(bad.clone()).is_err(), "{bad}");
        }
    }
}
