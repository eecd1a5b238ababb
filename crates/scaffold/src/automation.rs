//! What an automation does, as its document says it.

use plural_core::form::FormQuestion;
pub use plural_core::pr_automation_spec::ListMerge as ListRule;
pub use plural_core::pr_edit::{DocumentSelector, FileEdit};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The parts of an automation that make changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Automation {
    /// Title of the pull request, a template.
    pub title: String,
    /// Its body and the message of its commit, a template.
    pub message: String,
    /// What is asked.
    pub configuration: Vec<FormQuestion>,
    /// Files that are made.
    pub creates: Creates,
    /// Files that are changed.
    pub updates: Updates,
    /// Files that are taken away.
    pub deletes: Deletes,
    /// Charts that are unpacked.
    pub vendor: Vendor,
    /// A script that may change context and automation first.
    pub lua: Option<Script>,
}

/// Files that are made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Creates {
    /// In order.
    pub templates: Vec<Template>,
}

/// A file or folder that becomes another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Template {
    /// Where it is, a template.
    pub source: String,
    /// What it becomes, a template.
    pub destination: String,
    /// Whether the source is in the repository of templates.
    pub external: bool,
    /// More context, for this one alone.
    pub context: Map<String, Value>,
    /// Names of answers that may become more than one value of a YAML, JSON, TOML or HCL file.
    pub verbatim: Vec<String>,
    /// When; see [`crate::condition`].
    pub condition: String,
}

/// Files that are changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Updates {
    /// First.
    pub regex_replacements: Vec<RegexReplacement>,
    /// Then.
    pub yaml_overlays: Vec<YamlOverlay>,
    /// Then: edits of single values.
    pub edits: Vec<FileEdit>,
    /// Regexes of the oldest form.
    pub regexes: Vec<String>,
    /// Regexes of paths, of which one has to match a part.
    pub files: Vec<String>,
    /// What takes the place of what the regexes find, a template.
    #[serde(alias = "replace_template")]
    pub replace_template: String,
    /// How the regexes work together.
    #[serde(alias = "match_strategy")]
    pub match_strategy: MatchStrategy,
    /// Accepted and unused, as in the original.
    pub yq: String,
}

/// How regexes of the oldest form work together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatchStrategy {
    /// Nothing is done.
    #[default]
    #[serde(alias = "", alias = "NONE")]
    None,
    /// Each replaces what it finds.
    #[serde(alias = "ANY")]
    Any,
    /// As `any`, in files in which each of them finds something.
    #[serde(alias = "ALL")]
    All,
    /// Each looks in what the one before found; what the last finds is replaced.
    #[serde(alias = "RECURSIVE")]
    Recursive,
}

/// Replaces what a regex finds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegexReplacement {
    /// The file, a template.
    pub file: String,
    /// The regex, a template.
    pub regex: String,
    /// What takes its place, a template; `$1` is the first group.
    pub replacement: String,
    /// Accepted; all are templates.
    pub templated: bool,
}

/// Puts YAML over a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct YamlOverlay {
    /// The file, a template.
    pub file: String,
    /// The YAML.
    pub yaml: String,
    /// Whether the YAML is a template.
    pub templated: bool,
    /// What becomes of lists.
    pub list_merge: ListRule,
    /// The field by which items of lists are told apart; then `listMerge` is not looked at.
    pub list_key: Option<String>,
    /// Which document is meant.
    pub document: DocumentSelector,
}

/// Files that are taken away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Deletes {
    /// Globs of files, templates.
    pub files: Vec<String>,
    /// Folders, templates.
    pub folders: Vec<String>,
}

/// What is unpacked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Vendor {
    /// A chart; its caller fetches it.
    pub helm: Option<VendorHelm>,
}

/// A chart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VendorHelm {
    /// Of its repository.
    pub url: String,
    /// Its name.
    pub chart: String,
    /// Its version.
    pub version: String,
    /// The folder that it is unpacked into, a template.
    pub destination: String,
}

/// A script.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Script {
    /// Its text.
    pub script: Option<String>,
    /// A folder of scripts that are run in the order of their paths, as one program.
    pub folder: Option<String>,
    /// Whether the folder is in the repository of templates.
    pub external: bool,
}
