//! Limits of PR automations, and what is refused before anything runs: the engine checks again what its templates make.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::form::{FormQuestion, QuestionType, check_questions};
use crate::pr_automation_spec::{
    PrAutomationSpec, PrConfirmation, PrCreates, PrDeletes, PrScript, PrSecretEntry, PrSecrets, PrTemplate,
    PrUpdates, PrVendor, PrVendorHelm, RegexReplacement, YamlOverlay,
};
use crate::pr_edit::{DocumentSelector, Edit, FileEdit, Format};

/// Bytes of all of it, as JSON.
const MAX_BYTES: usize = 512 << 10;
/// Bytes of a title, a path, a word.
const MAX_LINE: usize = 1024;
/// Bytes of a message, and of what is said before a pull request is opened.
const MAX_TEXT: usize = 16 << 10;
/// Bytes of the documentation, of a script and of the YAML that is put over a file.
const MAX_LONG: usize = 64 << 10;
/// Bytes of a regex, and of a condition: as many as the engine takes.
const MAX_REGEX: usize = 4096;
/// Bytes of an icon's address.
const MAX_ADDRESS: usize = 2048;
/// Labels, boxes and secrets.
const MAX_FEW: usize = 50;
/// Templates, replacements, files of one kind.
const MAX_STEPS: usize = 200;

impl PrAutomationSpec {
    /// Checks what an automation asks and does. `has_repository` says that it names a repository of templates.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the field.
    pub fn check(&self, has_repository: bool) -> Result<()> {
        let Self {
            documentation,
            icon,
            dark_icon,
            addon,
            labels,
            // With its connection: `target_allowed`.
            identifier: _,
            branch,
            branch_prefix,
            title,
            message,
            patch: _,
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
        if serde_json::to_string(self).map_or(usize::MAX, |json| json.len()) > MAX_BYTES {
            let told = format!("are more than {} KiB together: make them smaller", MAX_BYTES >> 10);
            return Err(Error::invalid("attributes", told));
        }
        for (field, text, most) in [
            ("attributes.documentation", documentation.as_ref(), MAX_LONG),
            ("attributes.addon", addon.as_ref(), MAX_LINE),
            ("attributes.title", Some(title), MAX_LINE),
            ("attributes.message", Some(message), MAX_TEXT),
        ] {
            within(field, text.map_or("", String::as_str), most)?;
        }
        for (field, text) in [("attributes.title", title), ("attributes.message", message)] {
            if text.trim().is_empty() {
                return Err(Error::invalid(
                    field,
                    "must be given: it is what a pull request is called and says",
                ));
            }
        }
        if title.contains(char::is_control) {
            return Err(Error::invalid("attributes.title", "must be one line"));
        }
        for (field, address) in [("attributes.icon", icon), ("attributes.darkIcon", dark_icon)] {
            check_icon(field, address.as_deref())?;
        }
        check_labels(labels)?;
        for (field, name) in [("attributes.branch", branch), ("attributes.branchPrefix", branch_prefix)] {
            if name.as_deref().is_some_and(|name| !is_branch(name)) {
                return Err(Error::invalid(
                    field,
                    "must be a branch's name: at most 200 bytes, without spaces and any of ~ ^ : ? * [ \\ .. @{ //, and not beginning \
                     with - or /",
                ));
            }
        }
        check_questions(configuration, is_variable)?;
        check_flows(configuration)?;
        check_confirmation(confirmation.as_ref())?;
        check_secrets(secrets.as_ref())?;
        check_creates(creates)?;
        check_updates(updates)?;
        check_deletes(deletes)?;
        check_vendor(vendor)?;
        check_lua(lua.as_ref())?;
        let external = creates.templates.iter().any(|template| template.external)
            || lua.as_ref().is_some_and(|lua| lua.external);
        if external && !has_repository {
            return Err(Error::invalid(
                "attributes.repositoryId",
                "must be given: a template or script is external, so it is in that repository",
            ));
        }
        if has_repository && external && git.is_none() && creates.git.is_none() {
            return Err(Error::invalid(
                "attributes.git",
                "must be given: it says which branch and folder of the repository the templates are in",
            ));
        }
        Ok(())
    }
}

fn within(field: &'static str, text: &str, most: usize) -> Result<()> {
    if text.len() > most {
        return Err(Error::invalid(field, format!("is longer than {most} bytes: make it shorter")));
    }
    if text.contains('\0') {
        return Err(Error::invalid(field, "must not hold NUL"));
    }
    Ok(())
}

fn few<T>(field: &'static str, items: &[T], most: usize) -> Result<()> {
    if items.len() > most {
        return Err(Error::invalid(field, format!("are {}, and may be at most {most}", items.len())));
    }
    Ok(())
}

/// What is asked becomes a name in templates.
fn is_variable(name: &str) -> Result<()> {
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let rest = name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_' || c == b'-');
    if first && rest && name.len() <= 128 {
        return Ok(());
    }
    let told: String = name.chars().take(100).collect();
    Err(Error::invalid(
        "attributes.configuration.name",
        format!(
            "{told:?} must begin with a letter or _, and have letters, digits, _ and - only, at most 128"
        ),
    ))
}

/// There are no flows here, so no name of one is an answer.
fn check_flows(questions: &[FormQuestion]) -> Result<()> {
    match questions.iter().find(|question| question.kind == QuestionType::Flow && !question.optional) {
        None => Ok(()),
        Some(FormQuestion { name, .. }) => Err(Error::invalid(
            "attributes.configuration",
            format!(
                "{name} asks for a FLOW, and there are none here, so that nobody could answer: use STRING, or make it optional"
            ),
        )),
    }
}

fn check_icon(field: &'static str, address: Option<&str>) -> Result<()> {
    let Some(address) = address else { return Ok(()) };
    let is_address = (address.starts_with("https://") || address.starts_with("http://"))
        && address.len() <= MAX_ADDRESS
        && !address.contains(|c: char| c.is_control() || c.is_whitespace());
    if is_address {
        return Ok(());
    }
    Err(Error::invalid(field, format!("must be an http or https address of at most {MAX_ADDRESS} bytes")))
}

fn check_labels(labels: &[String]) -> Result<()> {
    const FIELD: &str = "attributes.labels";
    few(FIELD, labels, MAX_FEW)?;
    let is_odd =
        |label: &String| label.trim().is_empty() || label.len() > 100 || label.contains(char::is_control);
    if labels.iter().any(is_odd) {
        return Err(Error::invalid(FIELD, "must be texts of 1 to 100 bytes, each in one line"));
    }
    Ok(())
}

/// Whether git takes it for the name of a branch.
pub(crate) fn is_branch(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && !name.starts_with(['-', '/', '.'])
        && !name.ends_with(['/', '.'])
        && !name.contains("..")
        && !name.contains("//")
        && !name.contains("@{")
        && !name.contains("/.")
        && name.split('/').all(|part| part.strip_suffix(".lock").is_none())
        && !name.contains(|c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c))
}

/// A path of a repository. What is a template is checked once it is rendered.
fn check_path(field: &'static str, path: &str) -> Result<()> {
    within(field, path, MAX_LINE)?;
    if path.trim().is_empty() {
        return Err(Error::invalid(field, "must name a path"));
    }
    if path.contains(char::is_control) {
        return Err(Error::invalid(field, "must not hold line breaks and control characters"));
    }
    if path.starts_with('/') || path.split(['/', '\\']).any(|part| part == "..") {
        return Err(Error::invalid(field, format!("{path:?} must not leave the repository")));
    }
    Ok(())
}

fn check_confirmation(confirmation: Option<&PrConfirmation>) -> Result<()> {
    let Some(PrConfirmation { text, checklist }) = confirmation else { return Ok(()) };
    within("attributes.confirmation.text", text.as_deref().unwrap_or_default(), MAX_TEXT)?;
    few("attributes.confirmation.checklist", checklist, MAX_FEW)?;
    for item in checklist {
        within("attributes.confirmation.checklist.label", &item.label, MAX_LINE)?;
        if item.label.trim().is_empty() {
            return Err(Error::invalid(
                "attributes.confirmation.checklist.label",
                "must say what is confirmed",
            ));
        }
    }
    Ok(())
}

fn check_secrets(secrets: Option<&PrSecrets>) -> Result<()> {
    const ENTRIES: &str = "attributes.secrets.entries";
    let Some(PrSecrets { cluster, namespace, name, entries }) = secrets else { return Ok(()) };
    for (field, text) in [
        ("attributes.secrets.cluster", cluster),
        ("attributes.secrets.namespace", namespace),
        ("attributes.secrets.name", name),
    ] {
        within(field, text.as_deref().unwrap_or_default(), 253)?;
    }
    few(ENTRIES, entries, MAX_FEW)?;
    let mut names = BTreeSet::new();
    for PrSecretEntry { name, documentation, autogenerate: _ } in entries {
        let is_key = !name.is_empty()
            && name.len() <= 253
            && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c));
        if !is_key {
            return Err(Error::invalid(
                ENTRIES,
                "must have names of letters, digits, -, _ and ., at most 253",
            ));
        }
        if !names.insert(name) {
            return Err(Error::invalid(ENTRIES, format!("have {name} twice")));
        }
        within(ENTRIES, documentation.as_deref().unwrap_or_default(), MAX_TEXT)?;
    }
    Ok(())
}

fn check_creates(PrCreates { git: _, templates }: &PrCreates) -> Result<()> {
    const VERBATIM: &str = "attributes.creates.templates.verbatim";
    few("attributes.creates.templates", templates, MAX_STEPS)?;
    for PrTemplate { source, destination, external: _, context: _, verbatim, condition } in templates {
        check_path("attributes.creates.templates.source", source)?;
        check_path("attributes.creates.templates.destination", destination)?;
        within("attributes.creates.templates.condition", condition, MAX_REGEX)?;
        few(VERBATIM, verbatim, MAX_STEPS)?;
        for name in verbatim {
            within(VERBATIM, name, 128)?;
            if name.trim().is_empty() {
                return Err(Error::invalid(VERBATIM, "must be names of answers"));
            }
        }
    }
    Ok(())
}

fn check_updates(updates: &PrUpdates) -> Result<()> {
    let PrUpdates {
        regex_replacements,
        yaml_overlays,
        edits,
        regexes,
        files,
        replace_template,
        match_strategy: _,
        yq,
    } = updates;
    few("attributes.updates.regexReplacements", regex_replacements, MAX_STEPS)?;
    for RegexReplacement { file, regex, replacement, templated: _ } in regex_replacements {
        check_path("attributes.updates.regexReplacements.file", file)?;
        check_regex("attributes.updates.regexReplacements.regex", regex)?;
        within("attributes.updates.regexReplacements.replacement", replacement, MAX_TEXT)?;
    }
    few("attributes.updates.yamlOverlays", yaml_overlays, MAX_STEPS)?;
    for YamlOverlay { file, yaml, templated: _, list_merge: _, list_key, document } in yaml_overlays {
        check_path("attributes.updates.yamlOverlays.file", file)?;
        within("attributes.updates.yamlOverlays.yaml", yaml, MAX_LONG)?;
        within("attributes.updates.yamlOverlays.listKey", list_key.as_deref().unwrap_or_default(), MAX_LINE)?;
        // What is no other language by its name is edited as YAML.
        let format = known_format(file).or_else(|| (!is_template(file)).then_some(Format::Yaml));
        check_document("attributes.updates.yamlOverlays.document", document, format)?;
    }
    few("attributes.updates.edits", edits, MAX_STEPS)?;
    edits.iter().try_for_each(check_edit)?;
    for (field, all) in [("attributes.updates.regexes", regexes), ("attributes.updates.files", files)] {
        few(field, all, MAX_STEPS)?;
        all.iter().try_for_each(|regex| check_regex(field, regex))?;
    }
    within("attributes.updates.replaceTemplate", replace_template, MAX_TEXT)?;
    within("attributes.updates.yq", yq, MAX_TEXT)
}

fn check_edit(FileEdit { file, format, document, edit }: &FileEdit) -> Result<()> {
    const EDIT: &str = "attributes.updates.edits.edit";
    check_path("attributes.updates.edits.file", file)?;
    let format = format.or_else(|| known_format(file));
    if format.is_none() && !is_template(file) {
        return Err(Error::invalid(
            "attributes.updates.edits.format",
            format!("must be yaml, json, toml or hcl: the name {file:?} does not say it"),
        ));
    }
    check_document("attributes.updates.edits.document", document, format)?;
    let json = serde_json::to_string(edit).unwrap_or_default();
    within(EDIT, &json, MAX_LONG)?;
    let is_hcl = match edit {
        Edit::Set { path, .. } | Edit::Delete { path } | Edit::Append { path, .. } => {
            if path.is_empty() && format == Some(Format::Hcl) {
                return Err(Error::invalid(EDIT, "must have a path: a file of HCL is no single value"));
            }
            false
        }
        Edit::Merge { .. } => false,
        Edit::Express { path, expression } => {
            if path.is_empty() || expression.trim().is_empty() {
                return Err(Error::invalid(EDIT, "must have a path and an expression, such as var.region"));
            }
            true
        }
        Edit::Block { block, .. } => {
            if block.trim().is_empty() {
                return Err(Error::invalid(EDIT, "must have the type of a block, such as resource"));
            }
            true
        }
    };
    if is_hcl && format.is_some_and(|format| format != Format::Hcl) {
        return Err(Error::invalid(EDIT, "fits HCL alone: use the op set in other files"));
    }
    Ok(())
}

/// The language that the name of a file says, whatever its template becomes.
fn known_format(file: &str) -> Option<Format> {
    let last = file.rsplit(['}', '/']).next().unwrap_or_default();
    Format::of(last)
}

/// Only YAML has more documents than one. A language that is not known yet is looked at once the name is rendered.
fn check_document(field: &'static str, document: &DocumentSelector, format: Option<Format>) -> Result<()> {
    let DocumentSelector { index: _, kind, name } = document;
    for text in [kind, name] {
        within(field, text.as_deref().unwrap_or_default(), MAX_LINE)?;
    }
    if !document.is_empty() && format.is_some_and(|format| format != Format::Yaml) {
        return Err(Error::invalid(field, "fits YAML alone: other files have one document"));
    }
    Ok(())
}

fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// A regex that is no template is one already.
fn check_regex(field: &'static str, text: &str) -> Result<()> {
    within(field, text, MAX_REGEX)?;
    if text.is_empty() {
        return Err(Error::invalid(field, "must not be empty: it would match everywhere"));
    }
    let built = || regex::RegexBuilder::new(text).size_limit(1 << 20).nest_limit(100).build();
    if !is_template(text) && built().is_err() {
        return Err(Error::invalid(field, "has a regular expression that cannot be read, or is too large"));
    }
    Ok(())
}

fn check_deletes(PrDeletes { files, folders }: &PrDeletes) -> Result<()> {
    for (field, all) in [("attributes.deletes.files", files), ("attributes.deletes.folders", folders)] {
        few(field, all, MAX_STEPS)?;
        for path in all {
            check_path(field, path)?;
            // A slip would take everything away.
            if matches!(path.trim_matches(['.', '/', ' ']), "" | "*" | "**") {
                return Err(Error::invalid(field, format!("{path:?} would take away the whole repository")));
            }
        }
    }
    Ok(())
}

fn check_vendor(PrVendor { helm }: &PrVendor) -> Result<()> {
    let Some(PrVendorHelm { url, chart, version, destination }) = helm else { return Ok(()) };
    for (field, text) in [
        ("attributes.vendor.helm.url", url),
        ("attributes.vendor.helm.chart", chart),
        ("attributes.vendor.helm.version", version),
    ] {
        within(field, text, MAX_LINE)?;
        if text.trim().is_empty() || text.contains(char::is_control) {
            return Err(Error::invalid(field, "must be given, in one line"));
        }
    }
    let rest = ["https://", "http://", "oci://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if host.is_empty() || host.contains('@') {
        return Err(Error::invalid(
            "attributes.vendor.helm.url",
            "must be an https, http or oci address, without a user name or password in it",
        ));
    }
    check_path("attributes.vendor.helm.destination", destination)
}

fn check_lua(lua: Option<&PrScript>) -> Result<()> {
    let Some(PrScript { script, folder, external }) = lua else { return Ok(()) };
    match (script, folder) {
        (Some(script), None) if !external => within("attributes.lua.script", script, MAX_LONG),
        (Some(_), None) => {
            Err(Error::invalid("attributes.lua.external", "fits a folder: the text of a script is here"))
        }
        (None, Some(folder)) => check_path("attributes.lua.folder", folder),
        (None, None) | (Some(_), Some(_)) => {
            Err(Error::invalid("attributes.lua", "must have either a script or a folder"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(more: &Value) -> PrAutomationSpec {
        let mut all = json!({"title": "Add {{ context.name }}", "message": "Adds it"});
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn refused(more: &Value) -> String {
        match spec(more).check(false) {
            Err(Error::Invalid { field, .. }) => field.into_owned(),
            other => panic!("{more}: {other:?}"),
        }
    }

    #[test]
    fn a_whole_automation_passes_and_keeps_its_json() {
        let all = json!({
            "documentation": "Adds a service.", "icon": "https://example.com/a.png", "addon": "redis", "labels": ["infra"],
            "identifier": "acme/shop", "branch": "main", "branchPrefix": "plural/service",
            "title": "Add {{ context.name }}", "message": "Adds it", "patch": true,
            "configuration": [
                {"name": "kind", "type": "ENUM", "optional": false, "values": ["web", "job"]},
                {"name": "port", "type": "INT", "optional": true, "page": 1, "default": "80",
                 "condition": {"field": "kind", "operation": "EQ", "value": "web"}},
                {"name": "name", "type": "STRING", "optional": false,
                 "validation": {"regex": "^[a-z]+$", "json": false, "uniqBy": {"scope": "CLUSTER"}}},
                {"name": "team", "type": "FLOW", "optional": true},
            ],
            "confirmation": {"text": "Sure?", "checklist": [{"label": "I asked"}]},
            "secrets": {"cluster": "blue", "namespace": "shop", "name": "db", "entries": [{"name": "password", "autogenerate": true}]},
            "git": {"ref": "main", "folder": "templates", "files": []},
            "creates": {"templates": [
                {"source": "web.yaml", "destination": "apps/{{ context.name }}.yaml", "external": true, "context": {"a": [1]},
                 "verbatim": ["port"], "condition": "kind == 'web'"},
            ]},
            "updates": {
                "regexReplacements": [{"file": "a.tf", "regex": "a(.*)", "replacement": "$1"}],
                "yamlOverlays": [{"file": "a.yaml", "yaml": "a: 1", "templated": true, "listMerge": "APPEND", "listKey": "name",
                                  "document": {"index": 1, "kind": "Service", "name": "web"}}],
                "edits": [
                    {"file": "a.yaml", "document": {"kind": "Service"}, "edit": {"op": "set", "path": "spec.ports[name=web].port", "value": 80}},
                    {"file": "a.json", "edit": {"op": "delete", "path": "a[0]"}},
                    {"file": "Pipfile", "format": "toml", "edit": {"op": "merge", "path": "a", "value": {"b": [1]}, "lists": "APPEND"}},
                    {"file": "b.yaml", "edit": {"op": "merge", "value": {"b": [{"name": "x"}]}, "key": "name"}},
                    {"file": "c.yaml", "edit": {"op": "append", "path": "a", "value": {"name": "x"}, "key": "name"}},
                    {"file": "a.tf", "edit": {"op": "express", "path": "provider.aws[alias=west].region", "expression": "var.region"}},
                    {"file": "{{ context.name }}", "edit": {"op": "block", "path": "terraform", "block": "backend", "labels": ["s3"],
                                                           "value": {"bucket": "x"}}},
                ],
                "regexes": ["a"], "files": ["b"], "replaceTemplate": "c", "matchStrategy": "RECURSIVE",
            },
            "deletes": {"files": ["old/*.yaml"], "folders": ["gone"]},
            "vendor": {"helm": {"url": "oci://example.com/charts", "chart": "redis", "version": "1.2.3", "destination": "charts/redis"}},
            "lua": {"folder": "scripts", "external": true},
        });
        let spec: PrAutomationSpec = serde_json::from_value(all.clone()).unwrap();
        spec.check(true).unwrap();
        assert_eq!(serde_json::to_value(&spec).unwrap(), all);
        // What is external is somewhere.
        assert!(spec.check(false).unwrap_err().to_string().contains("attributes.repositoryId"));
        let bare = PrAutomationSpec { git: None, ..spec };
        assert!(bare.check(true).unwrap_err().to_string().contains("attributes.git"));
    }

    #[test]
    fn fields_that_nobody_knows_are_refused() {
        for more in [
            json!({"title": "a", "message": "b", "ai": {"prompt": "x"}}),
            json!({"title": "a", "message": "b", "creates": {"template": []}}),
            json!({"title": "a", "message": "b", "configuration": [{"name": "a", "type": "STRING", "kind": "x"}]}),
            json!({"title": "a", "message": "b", "updates": {"matchStrategy": "NONE"}}),
            json!({"title": "a", "message": "b", "updates": {"edits": [{"file": "a.yaml", "edit": {"op": "put", "path": "a"}}]}}),
            json!({"title": "a", "message": "b", "updates": {"edits": [{"file": "a.yaml", "edit": {"op": "delete", "path": "a[x"}}]}}),
            json!({"title": "a", "message": "b", "updates": {"edits": [{"file": "a.yaml", "format": "xml", "edit": {"op": "delete", "path": "a"}}]}}),
        ] {
            assert!(serde_json::from_value::<PrAutomationSpec>(more.clone()).is_err(), "{more}");
        }
    }

    #[test]
    fn bad_parts_are_named() {
        let long = "x".repeat(MAX_LONG + 1);
        let many = vec!["a"; MAX_STEPS + 1];
        let edit = |file: &str, edit: Value| json!({"updates": {"edits": [{"file": file, "edit": edit}]}});
        let delete = json!({"op": "delete", "path": "a"});
        let template = |source: &str, destination: &str| json!({"creates": {"templates": [{"source": source, "destination": destination, "external": false}]}});
        for (more, field) in [
            (json!({"title": " "}), "attributes.title"),
            (json!({"title": "a\nb"}), "attributes.title"),
            (json!({"message": ""}), "attributes.message"),
            (json!({"documentation": long}), "attributes.documentation"),
            (json!({"icon": "javascript:alert(1)"}), "attributes.icon"),
            (json!({"darkIcon": "https://a b"}), "attributes.darkIcon"),
            (json!({"labels": ["a\nb"]}), "attributes.labels"),
            (json!({"branch": "-f"}), "attributes.branch"),
            (json!({"branch": "a..b"}), "attributes.branch"),
            (json!({"branch": "a/.git"}), "attributes.branch"),
            (json!({"branchPrefix": "a b"}), "attributes.branchPrefix"),
            (json!({"configuration": [{"name": "a b", "type": "STRING"}]}), "attributes.configuration.name"),
            (json!({"configuration": [{"name": "a", "type": "ENUM"}]}), "attributes.configuration"),
            (
                json!({"confirmation": {"checklist": [{"label": ""}]}}),
                "attributes.confirmation.checklist.label",
            ),
            (json!({"secrets": {"entries": [{"name": "a b"}]}}), "attributes.secrets.entries"),
            (json!({"secrets": {"entries": [{"name": "a"}, {"name": "a"}]}}), "attributes.secrets.entries"),
            (template("../x", "y"), "attributes.creates.templates.source"),
            (template("x", "/etc/passwd"), "attributes.creates.templates.destination"),
            (template("x", "a/{{ context.name }}/../../b"), "attributes.creates.templates.destination"),
            (template("", "y"), "attributes.creates.templates.source"),
            (json!({"updates": {"regexes": ["("]}}), "attributes.updates.regexes"),
            (json!({"updates": {"regexes": [""]}}), "attributes.updates.regexes"),
            (json!({"updates": {"files": many}}), "attributes.updates.files"),
            (
                json!({"updates": {"regexReplacements": [{"file": "a", "regex": "(a{1000}){1000}", "replacement": ""}]}}),
                "attributes.updates.regexReplacements.regex",
            ),
            (edit("../a.yaml", delete.clone()), "attributes.updates.edits.file"),
            (edit("Makefile", delete.clone()), "attributes.updates.edits.format"),
            (edit("{{ context.name }}", delete.clone()), ""),
            (
                edit("{{ context.name }}.toml", json!({"op": "block", "block": "a"})),
                "attributes.updates.edits.edit",
            ),
            (
                edit("a.yaml", json!({"op": "express", "path": "a", "expression": "b"})),
                "attributes.updates.edits.edit",
            ),
            (
                edit("a.tf", json!({"op": "express", "path": "a", "expression": " "})),
                "attributes.updates.edits.edit",
            ),
            (edit("a.tf", json!({"op": "block", "block": ""})), "attributes.updates.edits.edit"),
            (edit("a.tf", json!({"op": "set", "path": "", "value": 1})), "attributes.updates.edits.edit"),
            (
                edit("a.yaml", json!({"op": "set", "path": "a", "value": long})),
                "attributes.updates.edits.edit",
            ),
            (
                json!({"updates": {"edits": [{"file": "a.json", "document": {"index": 0}, "edit": delete}]}}),
                "attributes.updates.edits.document",
            ),
            (
                json!({"updates": {"yamlOverlays": [{"file": "a.toml", "yaml": "a: 1", "document": {"kind": "Pod"}}]}}),
                "attributes.updates.yamlOverlays.document",
            ),
            (
                json!({"creates": {"templates": [{"source": "a", "destination": "b", "verbatim": [""]}]}}),
                "attributes.creates.templates.verbatim",
            ),
            (json!({"configuration": [{"name": "team", "type": "FLOW"}]}), "attributes.configuration"),
            (json!({"configuration": [{"name": "team", "type": "FLOW", "optional": true}]}), ""),
            (json!({"deletes": {"folders": ["."]}}), "attributes.deletes.folders"),
            (json!({"deletes": {"files": ["**"]}}), "attributes.deletes.files"),
            (json!({"deletes": {"files": many}}), "attributes.deletes.files"),
            (
                json!({"vendor": {"helm": {"url": "https://ada:pw@example.com", "chart": "a", "version": "1", "destination": "c"}}}),
                "attributes.vendor.helm.url",
            ),
            (
                json!({"vendor": {"helm": {"url": "file:///etc", "chart": "a", "version": "1", "destination": "c"}}}),
                "attributes.vendor.helm.url",
            ),
            (json!({"lua": {"script": "a", "folder": "b"}}), "attributes.lua"),
            (json!({"lua": {"script": "a", "external": true}}), "attributes.lua.external"),
            (template("{{ context.a }}", "ok"), ""),
        ] {
            if field.is_empty() {
                spec(&more).check(false).unwrap();
            } else {
                assert_eq!(refused(&more), field);
            }
        }
        // A regex that is a template is one once it is rendered.
        spec(&json!({"updates": {"regexes": ["({{ context.name }}"]}})).check(false).unwrap();
    }

    #[test]
    fn all_of_it_together_is_limited() {
        let overlay = json!({"file": "a", "yaml": "x".repeat(MAX_LONG)});
        let overlays = vec![overlay; 9];
        assert_eq!(refused(&json!({"updates": {"yamlOverlays": overlays}})), "attributes");
    }
}
