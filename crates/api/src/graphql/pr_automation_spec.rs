//! What a PR automation asks and does, in GraphQL.

use async_graphql::{Enum, InputObject, SimpleObject};
use plural_core::pr_automation_spec as core;
use plural_core::pr_edit::{DocumentSelector, Edit, FileEdit, Format};
use plural_specs::{Json, Map};

use super::{
    error::{List, items, list},
    service::GitRef,
    service_input::GitRefAttributes,
};

/// What an automation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pr_automation_spec::PrRole")]
pub(crate) enum PrRole {
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

/// How regexes of the oldest form work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pr_automation_spec::MatchStrategy")]
pub(crate) enum MatchStrategy {
    /// Each replaces what it finds.
    Any,
    /// As `ANY`, in files in which each of them finds something.
    All,
    /// Each looks in what the one before found; what the last finds is replaced.
    Recursive,
}

/// What becomes of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pr_automation_spec::ListMerge")]
pub(crate) enum ListMerge {
    /// The overlay's takes the place.
    Overwrite,
    /// The overlay's items are added, those that are missing.
    Append,
}

/// An empty text is none.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// What is confirmed before a pull request is opened.
#[derive(Debug, SimpleObject, InputObject)]
#[graphql(input_name = "PrConfirmationAttributes")]
pub(crate) struct PrConfirmation {
    /// What is said, in Markdown.
    text: Option<String>,
    /// Boxes that all have to be ticked.
    checklist: List<PrChecklist>,
}

/// A box that has to be ticked.
#[derive(Debug, SimpleObject, InputObject)]
#[graphql(input_name = "PrChecklistAttributes")]
pub(crate) struct PrChecklist {
    /// What is confirmed by it.
    label: String,
}

impl From<PrConfirmation> for core::PrConfirmation {
    fn from(PrConfirmation { text, checklist }: PrConfirmation) -> Self {
        let checklist = items(checklist).unwrap_or_default();
        let checklist = checklist.into_iter().map(|PrChecklist { label }| core::PrChecklist { label });
        Self { text: given(text), checklist: checklist.collect() }
    }
}

impl From<core::PrConfirmation> for PrConfirmation {
    fn from(core::PrConfirmation { text, checklist }: core::PrConfirmation) -> Self {
        let checklist = checklist.into_iter().map(|core::PrChecklist { label }| PrChecklist { label });
        Self { text, checklist: list(checklist) }
    }
}

/// A `Secret` that comes with a pull request: names of its values, never they themselves.
#[derive(Debug, SimpleObject, InputObject)]
#[graphql(input_name = "PrSecretsAttributes")]
pub(crate) struct PrSecrets {
    /// The handle of the cluster that it is on.
    cluster: Option<String>,
    /// Its namespace.
    namespace: Option<String>,
    /// Its name.
    name: Option<String>,
    /// Its values.
    entries: List<PrSecretEntry>,
}

/// A value of a `Secret`.
#[derive(Debug, SimpleObject, InputObject)]
#[graphql(input_name = "PrSecretEntryAttributes")]
pub(crate) struct PrSecretEntry {
    /// Its name.
    name: Option<String>,
    /// What it is.
    documentation: Option<String>,
    /// The console generates it where it is not given.
    autogenerate: Option<bool>,
}

impl From<PrSecrets> for core::PrSecrets {
    fn from(PrSecrets { cluster, namespace, name, entries }: PrSecrets) -> Self {
        let entries = items(entries).unwrap_or_default().into_iter();
        let entries =
            entries.map(|PrSecretEntry { name, documentation, autogenerate }| core::PrSecretEntry {
                name: name.unwrap_or_default(),
                documentation: given(documentation),
                autogenerate: autogenerate.unwrap_or_default(),
            });
        Self {
            cluster: given(cluster),
            namespace: given(namespace),
            name: given(name),
            entries: entries.collect(),
        }
    }
}

impl From<core::PrSecrets> for PrSecrets {
    fn from(core::PrSecrets { cluster, namespace, name, entries }: core::PrSecrets) -> Self {
        let entries = entries.into_iter().map(|core::PrSecretEntry { name, documentation, autogenerate }| {
            PrSecretEntry { name: Some(name), documentation, autogenerate: Some(autogenerate) }
        });
        Self { cluster, namespace, name, entries: list(entries) }
    }
}

/// Files that are made.
#[derive(Debug, InputObject)]
pub(crate) struct PrAutomationCreateSpecAttributes {
    /// Where external templates are, over what the automation says.
    git: Option<GitRefAttributes>,
    /// In order.
    templates: List<PrAutomationTemplateAttributes>,
}

/// A file or folder that becomes another.
#[derive(Debug, InputObject)]
pub(crate) struct PrAutomationTemplateAttributes {
    /// Where it is, a template.
    source: String,
    /// What it becomes, a template.
    destination: String,
    /// More context, for this one: a JSON object.
    context: Option<Json>,
    /// Names of answers that may become more than one value of a YAML, JSON, TOML or HCL file.
    verbatim: List<String>,
    /// When it is made; absent: always.
    condition: Option<String>,
    /// The source is in the repository of templates.
    external: bool,
}

impl TryFrom<PrAutomationCreateSpecAttributes> for core::PrCreates {
    type Error = plural_core::Error;

    fn try_from(
        PrAutomationCreateSpecAttributes { git, templates }: PrAutomationCreateSpecAttributes,
    ) -> plural_core::Result<Self> {
        let templates = items(templates).unwrap_or_default().into_iter().map(core::PrTemplate::try_from);
        Ok(Self {
            git: git.map(GitRefAttributes::parse).transpose()?,
            templates: templates.collect::<plural_core::Result<_>>()?,
        })
    }
}

impl TryFrom<PrAutomationTemplateAttributes> for core::PrTemplate {
    type Error = plural_core::Error;

    fn try_from(template: PrAutomationTemplateAttributes) -> plural_core::Result<Self> {
        let PrAutomationTemplateAttributes { source, destination, context, verbatim, condition, external } =
            template;
        let context = context.map_or(Ok(None), |json| json.object("attributes.creates.templates.context"))?;
        let context = context.unwrap_or_default();
        let verbatim = items(verbatim).unwrap_or_default();
        let condition = condition.unwrap_or_default();
        Ok(Self { source, destination, external, context, verbatim, condition })
    }
}

/// Files that are made.
#[derive(Debug, SimpleObject)]
pub(crate) struct PrAutomationCreateSpec {
    /// Where external templates are, over what the automation says.
    git: Option<GitRef>,
    /// In order.
    templates: List<PrAutomationTemplate>,
}

/// A file or folder that becomes another.
#[derive(Debug, SimpleObject)]
pub(crate) struct PrAutomationTemplate {
    /// Where it is, a template.
    source: String,
    /// What it becomes, a template.
    destination: String,
    /// More context, for this one.
    context: Option<Map>,
    /// Names of answers that may become more than one value of a YAML, JSON, TOML or HCL file.
    verbatim: List<String>,
    /// When it is made; absent: always.
    condition: Option<String>,
    /// The source is in the repository of templates.
    external: bool,
}

impl From<core::PrCreates> for PrAutomationCreateSpec {
    fn from(core::PrCreates { git, templates }: core::PrCreates) -> Self {
        let templates = templates.into_iter().map(|template| {
            let core::PrTemplate { source, destination, external, context, verbatim, condition } = template;
            let context = Some(context).filter(|context| !context.is_empty()).map(Map);
            let (verbatim, condition) = (list(verbatim), given(Some(condition)));
            PrAutomationTemplate { source, destination, context, verbatim, condition, external }
        });
        Self { git: git.map(GitRef::from), templates: list(templates) }
    }
}

/// Files that are changed.
#[derive(Debug, InputObject)]
pub(crate) struct PrAutomationUpdateSpecAttributes {
    /// Regexes of the oldest form.
    regexes: List<String>,
    /// First.
    regex_replacements: List<RegexReplacement>,
    /// Then.
    yaml_overlays: List<YamlOverlay>,
    /// Then: edits of single values.
    edits: List<PrFileEditAttributes>,
    /// Regexes of paths, of which one has to match a part.
    files: List<String>,
    /// What takes the place of what `regexes` find, a template.
    replace_template: Option<String>,
    /// Taken, and not used.
    yq: Option<String>,
    /// How `regexes` work together.
    match_strategy: Option<MatchStrategy>,
}

/// Files that are changed.
#[derive(Debug, SimpleObject)]
pub(crate) struct PrAutomationUpdateSpec {
    /// Regexes of the oldest form.
    regexes: List<String>,
    /// First.
    regex_replacements: List<RegexReplacement>,
    /// Then.
    yaml_overlays: List<YamlOverlay>,
    /// Then: edits of single values.
    edits: List<PrFileEdit>,
    /// Regexes of paths, of which one has to match a part.
    files: List<String>,
    /// What takes the place of what `regexes` find, a template.
    replace_template: Option<String>,
    /// Taken, and not used.
    yq: Option<String>,
    /// How `regexes` work together.
    match_strategy: Option<MatchStrategy>,
}

/// Which document of a YAML file is meant.
#[derive(Debug, SimpleObject, InputObject)]
#[graphql(input_name = "PrDocumentSelectorAttributes")]
pub(crate) struct PrDocumentSelector {
    /// Its place, from 0.
    index: Option<u32>,
    /// Its `kind`.
    kind: Option<String>,
    /// Its `metadata.name`.
    name: Option<String>,
}

impl From<PrDocumentSelector> for DocumentSelector {
    fn from(PrDocumentSelector { index, kind, name }: PrDocumentSelector) -> Self {
        Self { index, kind: given(kind), name: given(name) }
    }
}

impl PrDocumentSelector {
    /// Nothing where it says nothing.
    fn of(document: DocumentSelector) -> Option<Self> {
        if document.is_empty() {
            return None;
        }
        let DocumentSelector { index, kind, name } = document;
        Some(Self { index, kind, name })
    }
}

/// An edit of a file.
#[derive(Debug, InputObject)]
pub(crate) struct PrFileEditAttributes {
    /// The file, a template.
    file: String,
    /// Its language: `yaml`, `json`, `toml` or `hcl`; absent: by its name.
    format: Option<String>,
    /// Which document of a YAML file is meant.
    document: Option<PrDocumentSelector>,
    /// The edit: a JSON object with `op` (`set`, `delete`, `merge`, `append`, `express`, `block`), and what that takes. Texts of its value are
    /// templates.
    edit: Json,
}

/// An edit of a file.
#[derive(Debug, SimpleObject)]
pub(crate) struct PrFileEdit {
    /// The file, a template.
    file: String,
    /// Its language: `yaml`, `json`, `toml` or `hcl`; absent: by its name.
    format: Option<String>,
    /// Which document of a YAML file is meant.
    document: Option<PrDocumentSelector>,
    /// The edit: `op` (`set`, `delete`, `merge`, `append`, `express`, `block`), and what that takes. Texts of its value are templates.
    edit: Map,
}

impl TryFrom<PrFileEditAttributes> for FileEdit {
    type Error = plural_core::Error;

    fn try_from(given: PrFileEditAttributes) -> plural_core::Result<Self> {
        let PrFileEditAttributes { file, format, document, edit: Json(edit) } = given;
        let format = format.filter(|word| !word.is_empty()).map(|word| {
            let bad = || {
                plural_core::Error::invalid(
                    "attributes.updates.edits.format",
                    "must be yaml, json, toml or hcl",
                )
            };
            Format::parse(&word).ok_or_else(bad)
        });
        let edit: Edit = serde_json::from_value(edit).map_err(|error| {
            plural_core::Error::invalid("attributes.updates.edits.edit", format!("cannot be read: {error}"))
        })?;
        let document = document.map(DocumentSelector::from).unwrap_or_default();
        Ok(Self { file, format: format.transpose()?, document, edit })
    }
}

impl From<FileEdit> for PrFileEdit {
    fn from(FileEdit { file, format, document, edit }: FileEdit) -> Self {
        // An edit has a tag, so it is an object.
        let edit = match serde_json::to_value(edit) {
            Ok(serde_json::Value::Object(edit)) => edit,
            _ => serde_json::Map::new(),
        };
        let format = format.map(|format| format.as_str().to_owned());
        Self { file, format, document: PrDocumentSelector::of(document), edit: Map(edit) }
    }
}

/// Replaces what a regex finds.
#[derive(Debug, SimpleObject, InputObject)]
#[graphql(input_name = "RegexReplacementAttributes")]
pub(crate) struct RegexReplacement {
    /// The regex, a template.
    regex: String,
    /// What takes its place, a template; `$1` is the first group.
    replacement: String,
    /// The file, a template.
    file: String,
    /// Taken, and not used: all three are templates.
    templated: Option<bool>,
}

/// Puts YAML over a file.
#[derive(Debug, SimpleObject, InputObject)]
#[graphql(input_name = "YamlOverlayAttributes")]
pub(crate) struct YamlOverlay {
    /// The file, a template.
    file: String,
    /// The YAML.
    yaml: String,
    /// What becomes of lists; absent: the overlay's takes the place.
    list_merge: Option<ListMerge>,
    /// The field by which items of lists are told apart; then `listMerge` is not looked at.
    list_key: Option<String>,
    /// The YAML is a template.
    templated: Option<bool>,
    /// Which document of the file is meant.
    document: Option<PrDocumentSelector>,
}

impl TryFrom<PrAutomationUpdateSpecAttributes> for core::PrUpdates {
    type Error = plural_core::Error;

    fn try_from(updates: PrAutomationUpdateSpecAttributes) -> plural_core::Result<Self> {
        let PrAutomationUpdateSpecAttributes {
            regexes,
            regex_replacements,
            yaml_overlays,
            edits,
            files,
            replace_template,
            yq,
            match_strategy,
        } = updates;
        let replacements = items(regex_replacements).unwrap_or_default().into_iter();
        let replacements = replacements.map(|RegexReplacement { regex, replacement, file, templated }| {
            core::RegexReplacement { file, regex, replacement, templated: templated.unwrap_or_default() }
        });
        let overlays = items(yaml_overlays).unwrap_or_default().into_iter();
        let overlays = overlays.map(|overlay| {
            let YamlOverlay { file, yaml, list_merge, list_key, templated, document } = overlay;
            core::YamlOverlay {
                file,
                yaml,
                templated: templated.unwrap_or_default(),
                list_merge: list_merge.map(core::ListMerge::from).unwrap_or_default(),
                list_key: given(list_key),
                document: document.map(DocumentSelector::from).unwrap_or_default(),
            }
        });
        let edits = items(edits).unwrap_or_default().into_iter().map(FileEdit::try_from);
        Ok(Self {
            regex_replacements: replacements.collect(),
            yaml_overlays: overlays.collect(),
            edits: edits.collect::<plural_core::Result<_>>()?,
            regexes: items(regexes).unwrap_or_default(),
            files: items(files).unwrap_or_default(),
            replace_template: replace_template.unwrap_or_default(),
            match_strategy: match_strategy.map(Into::into),
            yq: yq.unwrap_or_default(),
        })
    }
}

impl From<core::PrUpdates> for PrAutomationUpdateSpec {
    fn from(updates: core::PrUpdates) -> Self {
        let core::PrUpdates {
            regex_replacements,
            yaml_overlays,
            edits,
            regexes,
            files,
            replace_template,
            match_strategy,
            yq,
        } = updates;
        let replacements = regex_replacements.into_iter().map(|replacement| {
            let core::RegexReplacement { file, regex, replacement, templated } = replacement;
            RegexReplacement { regex, replacement, file, templated: Some(templated) }
        });
        let overlays = yaml_overlays.into_iter().map(|overlay| {
            let core::YamlOverlay { file, yaml, templated, list_merge, list_key, document } = overlay;
            YamlOverlay {
                file,
                yaml,
                list_merge: Some(list_merge.into()),
                list_key,
                templated: Some(templated),
                document: PrDocumentSelector::of(document),
            }
        });
        Self {
            regexes: list(regexes),
            regex_replacements: list(replacements),
            yaml_overlays: list(overlays),
            edits: list(edits.into_iter().map(PrFileEdit::from)),
            files: list(files),
            replace_template: given(Some(replace_template)),
            yq: given(Some(yq)),
            match_strategy: match_strategy.map(Into::into),
        }
    }
}

/// Files that are taken away.
#[derive(Debug, SimpleObject, InputObject)]
#[graphql(input_name = "PrAutomationDeleteSpecAttributes")]
pub(crate) struct PrAutomationDeleteSpec {
    /// Globs of files, templates.
    files: Option<Vec<String>>,
    /// Folders, templates.
    folders: Option<Vec<String>>,
}

impl From<PrAutomationDeleteSpec> for core::PrDeletes {
    fn from(PrAutomationDeleteSpec { files, folders }: PrAutomationDeleteSpec) -> Self {
        Self { files: files.unwrap_or_default(), folders: folders.unwrap_or_default() }
    }
}

impl From<core::PrDeletes> for PrAutomationDeleteSpec {
    fn from(core::PrDeletes { files, folders }: core::PrDeletes) -> Self {
        Self { files: Some(files), folders: Some(folders) }
    }
}

/// What is unpacked.
#[derive(Debug, SimpleObject, InputObject)]
#[graphql(input_name = "PrVendorSpecAttributes")]
pub(crate) struct PrVendorSpec {
    /// A chart.
    helm: Option<PrHelmVendorSpec>,
}

/// A chart.
#[derive(Debug, SimpleObject, InputObject)]
#[graphql(input_name = "PrHelmVendorSpecAttributes")]
pub(crate) struct PrHelmVendorSpec {
    /// Of its repository: an https, http or oci address.
    url: String,
    /// Its name.
    chart: String,
    /// Its version.
    version: String,
    /// The folder that it is unpacked into, a template.
    destination: String,
}

impl From<PrVendorSpec> for core::PrVendor {
    fn from(PrVendorSpec { helm }: PrVendorSpec) -> Self {
        let helm = helm.map(|PrHelmVendorSpec { url, chart, version, destination }| core::PrVendorHelm {
            url,
            chart,
            version,
            destination,
        });
        Self { helm }
    }
}

impl From<core::PrVendor> for PrVendorSpec {
    fn from(core::PrVendor { helm }: core::PrVendor) -> Self {
        let helm = helm.map(|core::PrVendorHelm { url, chart, version, destination }| PrHelmVendorSpec {
            url,
            chart,
            version,
            destination,
        });
        Self { helm }
    }
}

/// A script that may change answers and automation before anything else is done.
#[derive(Debug, SimpleObject, InputObject)]
#[graphql(input_name = "PrLuaSpecAttributes")]
pub(crate) struct PrLuaSpec {
    /// The folder is in the repository of templates.
    external: Option<bool>,
    /// Its text.
    script: Option<String>,
    /// A folder of scripts that are run in the order of their paths, as one program.
    folder: Option<String>,
}

impl From<PrLuaSpec> for core::PrScript {
    fn from(PrLuaSpec { external, script, folder }: PrLuaSpec) -> Self {
        Self { script: given(script), folder: given(folder), external: external.unwrap_or_default() }
    }
}

impl From<core::PrScript> for PrLuaSpec {
    fn from(core::PrScript { script, folder, external }: core::PrScript) -> Self {
        Self { external: Some(external), script, folder }
    }
}

/// Refused: nothing here is written by a model.
#[derive(Debug, InputObject)]
pub(crate) struct PrAiSpecAttributes {
    /// Refused.
    enabled: Option<bool>,
    /// Refused.
    prompt: String,
}
