//! What a PR automation asks and does. The JSON of this is what is stored, and what the engine that makes the changes takes.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::form::FormQuestion;
use crate::pr_edit::{DocumentSelector, FileEdit};
use crate::service::GitRef;

/// What an automation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrRole {
    /// Makes or changes clusters.
    Cluster,
    /// Makes or changes services.
    Service,
    /// Makes or changes pipelines.
    Pipeline,
    /// Changes something.
    Update,
    /// Upgrades something.
    Upgrade,
    /// Changes what something costs.
    Cost,
}

impl PrRole {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Cluster, Self::Service, Self::Pipeline, Self::Update, Self::Upgrade, Self::Cost];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "CLUSTER",
            Self::Service => "SERVICE",
            Self::Pipeline => "PIPELINE",
            Self::Update => "UPDATE",
            Self::Upgrade => "UPGRADE",
            Self::Cost => "COST",
        }
    }

    /// The role of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

/// What an automation asks and does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrAutomationSpec {
    /// What it is for, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// Address of a picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// The same on a dark background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dark_icon: Option<String>,
    /// The add-on that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub addon: Option<String>,
    /// Labels of its pull requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The repository that is changed, as `acme/shop`; absent: whoever opens a pull request names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identifier: Option<String>,
    /// The branch that pull requests go to; absent: `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What the branches of pull requests begin with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch_prefix: Option<String>,
    /// Title of a pull request, a template.
    pub title: String,
    /// Its body, and the message of its commit: a template.
    pub message: String,
    /// A patch is made, and no pull request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub patch: bool,
    /// What is asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub configuration: Vec<FormQuestion>,
    /// What is confirmed before a pull request is opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<PrConfirmation>,
    /// The Secret that comes with a pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets: Option<PrSecrets>,
    /// Where external templates are in their repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitRef>,
    /// Files that are made.
    #[serde(skip_serializing_if = "is_default")]
    pub creates: PrCreates,
    /// Files that are changed.
    #[serde(skip_serializing_if = "is_default")]
    pub updates: PrUpdates,
    /// Files that are taken away.
    #[serde(skip_serializing_if = "is_default")]
    pub deletes: PrDeletes,
    /// Charts that are unpacked.
    #[serde(skip_serializing_if = "is_default")]
    pub vendor: PrVendor,
    /// A script that may change answers and automation first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lua: Option<PrScript>,
}

/// What is confirmed before a pull request is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrConfirmation {
    /// What is said, in Markdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Boxes that all have to be ticked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checklist: Vec<PrChecklist>,
}

/// A box that has to be ticked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrChecklist {
    /// What is confirmed by it.
    pub label: String,
}

/// A `Secret` that comes with a pull request: names of its values, never they themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrSecrets {
    /// The handle of the cluster that it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<PrSecretEntry>,
}

/// A value of a `Secret`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrSecretEntry {
    /// Its name.
    pub name: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// The console generates it where it is not given.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub autogenerate: bool,
}

/// Files that are made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrCreates {
    /// Where external templates are, over what the automation says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitRef>,
    /// In order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<PrTemplate>,
}

/// A file or folder that becomes another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrTemplate {
    /// Where it is, a template.
    pub source: String,
    /// What it becomes, a template.
    pub destination: String,
    /// The source is in the repository of templates.
    pub external: bool,
    /// More context, for this one.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub context: Map<String, Value>,
    /// Names of answers that may become more than one value of a YAML, JSON, TOML or HCL file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbatim: Vec<String>,
    /// When it is made; absent: always.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
}

/// Files that are changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrUpdates {
    /// First.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regex_replacements: Vec<RegexReplacement>,
    /// Then.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub yaml_overlays: Vec<YamlOverlay>,
    /// Then: edits of single values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub edits: Vec<FileEdit>,
    /// Regexes of the oldest form.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub regexes: Vec<String>,
    /// Regexes of paths, of which one has to match a part.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// What takes the place of what the regexes find, a template.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replace_template: String,
    /// How the regexes work together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_strategy: Option<MatchStrategy>,
    /// Accepted and unused, as in the original.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub yq: String,
}

/// How regexes of the oldest form work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum MatchStrategy {
    /// Each replaces what it finds.
    Any,
    /// As `ANY`, in files in which each of them finds something.
    All,
    /// Each looks in what the one before found; what the last finds is replaced.
    Recursive,
}

/// Replaces what a regex finds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct RegexReplacement {
    /// The file, a template.
    pub file: String,
    /// The regex, a template.
    pub regex: String,
    /// What takes its place, a template; `$1` is the first group.
    pub replacement: String,
    /// Accepted; all are templates.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub templated: bool,
}

/// Puts YAML over a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct YamlOverlay {
    /// The file, a template.
    pub file: String,
    /// The YAML.
    pub yaml: String,
    /// The YAML is a template.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub templated: bool,
    /// What becomes of lists.
    #[serde(skip_serializing_if = "is_default")]
    pub list_merge: ListMerge,
    /// The field by which items of lists are told apart; then `listMerge` is not looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list_key: Option<String>,
    /// Which document is meant.
    #[serde(skip_serializing_if = "DocumentSelector::is_empty")]
    pub document: DocumentSelector,
}

/// What becomes of lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ListMerge {
    /// The overlay's takes the place.
    #[default]
    Overwrite,
    /// The overlay's items are added, those that are missing.
    Append,
}

/// Files that are taken away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrDeletes {
    /// Globs of files, templates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Folders, templates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
}

/// What is unpacked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrVendor {
    /// A chart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub helm: Option<PrVendorHelm>,
}

/// A chart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrVendorHelm {
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
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PrScript {
    /// Its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// A folder of scripts that are run in the order of their paths, as one program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// The folder is in the repository of templates.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
}

/// What changes of an automation. `None` leaves a part as it is; an empty text, list or part ends it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrAutomationSpecChange {
    /// What it is for.
    pub documentation: Option<String>,
    /// Address of a picture.
    pub icon: Option<String>,
    /// The same on a dark background.
    pub dark_icon: Option<String>,
    /// The add-on that it is about.
    pub addon: Option<String>,
    /// All labels.
    pub labels: Option<Vec<String>>,
    /// The repository that is changed.
    pub identifier: Option<String>,
    /// The branch that pull requests go to.
    pub branch: Option<String>,
    /// What the branches of pull requests begin with.
    pub branch_prefix: Option<String>,
    /// Title of a pull request.
    pub title: Option<String>,
    /// Its body, and the message of its commit.
    pub message: Option<String>,
    /// A patch is made, and no pull request.
    pub patch: Option<bool>,
    /// All questions.
    pub configuration: Option<Vec<FormQuestion>>,
    /// What is confirmed before a pull request is opened.
    pub confirmation: Option<PrConfirmation>,
    /// The Secret that comes with a pull request.
    pub secrets: Option<PrSecrets>,
    /// Where external templates are in their repository.
    pub git: Option<GitRef>,
    /// Files that are made.
    pub creates: Option<PrCreates>,
    /// Files that are changed.
    pub updates: Option<PrUpdates>,
    /// Files that are taken away.
    pub deletes: Option<PrDeletes>,
    /// Charts that are unpacked.
    pub vendor: Option<PrVendor>,
    /// A script that may change answers and automation first.
    pub lua: Option<PrScript>,
}

impl PrAutomationSpecChange {
    /// What `before` becomes.
    #[must_use]
    pub fn over(self, before: PrAutomationSpec) -> PrAutomationSpec {
        let Self {
            documentation,
            icon,
            dark_icon,
            addon,
            labels,
            identifier,
            branch,
            branch_prefix,
            title,
            message,
            patch,
            configuration,
            confirmation,
            secrets,
            git,
            creates,
            updates,
            deletes,
            vendor,
            lua,
        } = self;
        PrAutomationSpec {
            documentation: text(documentation, before.documentation),
            icon: text(icon, before.icon),
            dark_icon: text(dark_icon, before.dark_icon),
            addon: text(addon, before.addon),
            labels: labels.unwrap_or(before.labels),
            identifier: text(identifier, before.identifier),
            branch: text(branch, before.branch),
            branch_prefix: text(branch_prefix, before.branch_prefix),
            title: title.unwrap_or(before.title),
            message: message.unwrap_or(before.message),
            patch: patch.unwrap_or(before.patch),
            configuration: configuration.unwrap_or(before.configuration),
            confirmation: part(confirmation, before.confirmation),
            secrets: part(secrets, before.secrets),
            git: git.or(before.git),
            creates: creates.unwrap_or(before.creates),
            updates: updates.unwrap_or(before.updates),
            deletes: deletes.unwrap_or(before.deletes),
            vendor: vendor.unwrap_or(before.vendor),
            lua: part(lua, before.lua),
        }
    }
}

fn text(given: Option<String>, before: Option<String>) -> Option<String> {
    match given {
        None => before,
        Some(given) => Some(given).filter(|text| !text.trim().is_empty()),
    }
}

fn part<T: Default + PartialEq>(given: Option<T>, before: Option<T>) -> Option<T> {
    match given {
        None => before,
        Some(given) => Some(given).filter(|part| *part != T::default()),
    }
}

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
