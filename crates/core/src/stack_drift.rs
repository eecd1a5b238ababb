//! Drift of a stack: what something other than its tool changed, read from a plan that only refreshes.
//!
//! Terraform and OpenTofu report it as `resource_drift` in the plan's JSON: `before` is the state, `after` is reality. For the other tools
//! the printed text is parsed, which names resources and not their fields.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::Index;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{StackDriftId, StackId, StackRunId};
use crate::page::Keyed;
use crate::stack::StackTool;

/// Limit of stored resources per check.
pub const MAX_RESOURCES: usize = 500;
/// Limit of stored fields per resource.
pub const MAX_FIELDS: usize = 50;
/// Limit of a value, in bytes; the rest is cut.
const MAX_VALUE: usize = 2 << 10;
/// Limit of an address, of a type, and of a path, in bytes.
const MAX_NAME: usize = 1 << 10;
/// Limit of all fields of one check, in bytes.
const MAX_BYTES: usize = 2 << 20;

/// What happened to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftAction {
    /// It differs from the state.
    Updated,
    /// It was deleted.
    Deleted,
}

impl DriftAction {
    /// All variants.
    pub const ALL: [Self; 2] = [Self::Updated, Self::Deleted];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Updated => "updated",
            Self::Deleted => "deleted",
        }
    }

    /// The action of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

/// A field that differs.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriftField {
    /// Its path in the resource: `tags.team`, `rule[0].port`.
    pub path: String,
    /// The value in the state, as JSON; absent if there is none, and if it is sensitive.
    pub before: Option<String>,
    /// The actual value.
    pub after: Option<String>,
    /// One of the two is sensitive, so both are left out.
    pub sensitive: bool,
    /// One of the two was cut.
    pub cut: bool,
}

impl std::fmt::Debug for DriftField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DriftField").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A drifted resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriftedResource {
    /// Its address in the code.
    pub address: String,
    /// Its type.
    pub kind: String,
    /// Its provider.
    pub provider: String,
    /// What happened to it.
    pub action: DriftAction,
    /// The fields that differ; empty if it was deleted.
    pub fields: Vec<DriftField>,
    /// Number of further fields that differ.
    pub left_out: u64,
}

/// A drifted resource, tracked from one check to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackDrift {
    /// Id. It stays as long as each check finds the address.
    pub id: StackDriftId,
    /// The stack.
    pub stack_id: StackId,
    /// The resource.
    pub resource: DriftedResource,
    /// The last run that found it.
    pub run_id: StackRunId,
    /// The number of that run.
    pub run: u64,
    /// When it was first found; each check since has found it.
    pub first_seen_at: DateTime<Utc>,
    /// When it was last found.
    pub last_seen_at: DateTime<Utc>,
}

impl Keyed for StackDrift {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// The drift status of a stack, as of the last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftStatus {
    /// There was no check yet.
    Unchecked,
    /// Reality matches the state.
    InSync,
    /// Something else changed resources.
    Drifted,
}

/// The results of a stack's drift checks. A failed one leaves the findings of the last successful one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DriftCheck {
    /// When the last successful check ended.
    pub checked_at: Option<DateTime<Utc>>,
    /// The number of its run.
    pub run: Option<u64>,
    /// Number of resources that it found, and that are stored.
    pub count: u64,
    /// Number of further resources that it found.
    pub left_out: u64,
    /// Why the newest check failed; absent if it succeeded.
    pub error: Option<String>,
    /// When it failed.
    pub failed_at: Option<DateTime<Utc>>,
}

/// The schedule of a stack, and its drift.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackWatch {
    /// When it starts its next run.
    pub next_run_at: Option<DateTime<Utc>>,
    /// When its next drift check is due.
    pub next_drift_at: Option<DateTime<Utc>>,
    /// Why it started no run when one was due.
    pub error: Option<String>,
    /// Since when drift is found.
    pub drifted_at: Option<DateTime<Utc>>,
    /// The results of drift checks; absent before the first one.
    pub drift: Option<DriftCheck>,
}

impl StackWatch {
    /// The drift status.
    pub fn status(&self) -> DriftStatus {
        if self.drifted_at.is_some() {
            return DriftStatus::Drifted;
        }
        let is_checked = self.drift.as_ref().is_some_and(|check| check.checked_at.is_some());
        if is_checked { DriftStatus::InSync } else { DriftStatus::Unchecked }
    }
}

/// The findings of one check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriftFound {
    /// The resources in order, each address once.
    pub resources: Vec<DriftedResource>,
    /// Number of further resources.
    pub left_out: u64,
}

impl DriftFound {
    /// The findings of a tool: from the JSON of its plan if it has one, else from its output.
    ///
    /// # Errors
    /// [`Error::Conflict`] if there is no such JSON. The error quotes no part of it: it may contain secrets.
    pub fn of(tool: StackTool, json: Option<&[u8]>, text: &str) -> Result<Self> {
        match tool {
            StackTool::Terraform | StackTool::Terragrunt => {
                let plan = json.ok_or_else(|| Error::conflict("the tool left no plan as JSON"))?;
                let plan: Value = serde_json::from_slice(plan)
                    .map_err(|_| Error::conflict("the plan that was uploaded is no JSON"))?;
                of_terraform(&plan)
            }
            StackTool::Ansible => Ok(of_ansible(text)),
            StackTool::Pulumi => Ok(of_pulumi(text)),
            StackTool::Custom => Ok(of_custom(text)),
        }
    }

    /// Adds one, within the limit.
    fn push(&mut self, resource: DriftedResource) {
        let known = self.resources.iter().any(|other| other.address == resource.address);
        if known || resource.address.is_empty() {
            return;
        }
        let is_short = resource.address.len() <= MAX_NAME && resource.kind.len() <= MAX_NAME;
        if is_short && resource.provider.len() <= MAX_NAME && self.resources.len() < MAX_RESOURCES {
            self.resources.push(resource);
        } else {
            self.left_out += 1;
        }
    }

    fn named(&mut self, address: &str, kind: &str, provider: &str, action: DriftAction) {
        self.push(DriftedResource {
            address: address.to_owned(),
            kind: kind.to_owned(),
            provider: provider.to_owned(),
            action,
            fields: Vec::new(),
            left_out: 0,
        });
    }
}

fn of_terraform(plan: &Value) -> Result<DriftFound> {
    // Every plan names its format version. Without one, a missing field would not mean that there is no drift.
    if !plan["format_version"].is_string() {
        return Err(Error::conflict("the plan that was uploaded is none of Terraform or OpenTofu"));
    }
    let (mut found, mut bytes) = (DriftFound::default(), 0);
    for resource in plan["resource_drift"].as_array().into_iter().flatten() {
        let text = |name: &str| resource[name].as_str().unwrap_or_default();
        let change = &resource["change"];
        let does = |wanted: &str| {
            change["actions"].as_array().into_iter().flatten().any(|action| action.as_str() == Some(wanted))
        };
        let action = match (does("update") || does("create"), does("delete")) {
            (true, _) => DriftAction::Updated,
            (false, true) => DriftAction::Deleted,
            // It moved to another address in the code, and did not change.
            (false, false) => continue,
        };
        let mut address = text("address").to_owned();
        if let Some(key) = resource["deposed"].as_str() {
            // A deposed object beside its replacement: they share their address.
            address = format!("{address} (deposed {key})");
        }
        let mut fields = Fields { bytes: &mut bytes, kept: Vec::new(), left_out: 0 };
        if action == DriftAction::Updated {
            let (before, after) = (given(change.get("before")), given(change.get("after")));
            let masks = (
                Mask::of(change.get("before_sensitive"), before),
                Mask::of(change.get("after_sensitive"), after),
            );
            fields.compare("", (before, after), masks);
        }
        let Fields { bytes: _, kept, left_out } = fields;
        found.push(DriftedResource {
            address,
            kind: text("type").to_owned(),
            provider: text("provider_name").to_owned(),
            action,
            fields: kept,
            left_out,
        });
    }
    Ok(found)
}

/// Null counts as absent.
fn given(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

/// A field or an item of a value.
fn part(value: Option<&Value>, at: impl Index) -> Option<&Value> {
    given(value.and_then(|value| value.get(at)))
}

/// The sensitive parts of a value.
#[derive(Clone, Copy)]
enum Mask<'p> {
    /// None.
    Clear,
    /// All of it.
    Hidden,
    /// By the masks of its parts.
    Parts(&'p Value),
}

impl<'p> Mask<'p> {
    /// The mask of a value. If it is missing or does not fit, all of the value is sensitive.
    fn of(mask: Option<&'p Value>, value: Option<&Value>) -> Self {
        match (mask, value) {
            (_, None) | (Some(Value::Bool(false)), _) => Self::Clear,
            (Some(Value::Object(masks)), _) if masks.is_empty() => Self::Clear,
            (Some(Value::Array(masks)), _) if masks.is_empty() => Self::Clear,
            (Some(parts @ Value::Object(_)), Some(Value::Object(_))) => Self::Parts(parts),
            (Some(parts @ Value::Array(masks)), Some(Value::Array(values)))
                if masks.len() == values.len() =>
            {
                Self::Parts(parts)
            }
            (Some(_) | None, Some(_)) => Self::Hidden,
        }
    }

    fn field(self, name: &str, value: Option<&Value>) -> Self {
        match self {
            Self::Clear | Self::Hidden => self,
            Self::Parts(parts) => parts.get(name).map_or(Self::Clear, |mask| Self::of(Some(mask), value)),
        }
    }

    fn item(self, at: usize, value: Option<&Value>) -> Self {
        match self {
            Self::Clear | Self::Hidden => self,
            Self::Parts(parts) => parts.get(at).map_or(Self::Clear, |mask| Self::of(Some(mask), value)),
        }
    }
}

/// The differing fields of a resource.
struct Fields<'b> {
    /// Bytes of all resources so far.
    bytes: &'b mut usize,
    kept: Vec<DriftField>,
    left_out: u64,
}

impl Fields<'_> {
    fn compare(
        &mut self,
        path: &str,
        (before, after): (Option<&Value>, Option<&Value>),
        (mask_before, mask_after): (Mask<'_>, Mask<'_>),
    ) {
        if before == after {
            return;
        }
        if matches!(mask_before, Mask::Hidden) || matches!(mask_after, Mask::Hidden) {
            self.push(path, None, None, true);
            return;
        }
        match (before, after) {
            (Some(Value::Object(fields)), None) | (None, Some(Value::Object(fields)))
                if fields.is_empty() =>
            {
                self.push(path, before, after, false);
            }
            (Some(Value::Array(items)), None) | (None, Some(Value::Array(items))) if items.is_empty() => {
                self.push(path, before, after, false);
            }
            (Some(Value::Object(_)), Some(Value::Object(_)) | None) | (None, Some(Value::Object(_))) => {
                let fields = |value: Option<&Value>| {
                    let fields = value.and_then(Value::as_object).into_iter().flatten();
                    fields.map(|(name, _)| name.clone()).collect::<Vec<_>>()
                };
                let mut names = fields(before);
                names.extend(fields(after));
                names.sort_unstable();
                names.dedup();
                for name in names {
                    let (before, after) = (part(before, name.as_str()), part(after, name.as_str()));
                    let masks = (mask_before.field(&name, before), mask_after.field(&name, after));
                    self.compare(&below(path, &name), (before, after), masks);
                }
            }
            (Some(Value::Array(_)), Some(Value::Array(_)) | None) | (None, Some(Value::Array(_))) => {
                let items = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
                for at in 0..items(before).max(items(after)) {
                    let (before, after) = (part(before, at), part(after, at));
                    let masks = (mask_before.item(at, before), mask_after.item(at, after));
                    self.compare(&format!("{path}[{at}]"), (before, after), masks);
                }
            }
            // The types differ: a mask for parts of one does not apply to the other.
            (before, after) => {
                let is_partly = |mask| matches!(mask, Mask::Parts(_));
                let sensitive = is_partly(mask_before) || is_partly(mask_after);
                self.push(path, before, after, sensitive);
            }
        }
    }

    fn push(&mut self, path: &str, before: Option<&Value>, after: Option<&Value>, sensitive: bool) {
        if self.kept.len() >= MAX_FIELDS || path.len() > MAX_NAME {
            self.left_out += 1;
            return;
        }
        let ((before, cut_before), (after, cut_after)) =
            if sensitive { ((None, false), (None, false)) } else { (told(before), told(after)) };
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let bytes = path.len() + length(&before) + length(&after);
        if *self.bytes + bytes > MAX_BYTES {
            self.left_out += 1;
            return;
        }
        *self.bytes += bytes;
        let cut = cut_before || cut_after;
        self.kept.push(DriftField { path: path.to_owned(), before, after, sensitive, cut });
    }
}

/// A value as JSON, and whether it was cut.
fn told(value: Option<&Value>) -> (Option<String>, bool) {
    let Some(value) = value else { return (None, false) };
    let mut text = value.to_string();
    let is_long = text.len() > MAX_VALUE;
    if is_long {
        let end = text.floor_char_boundary(MAX_VALUE);
        text.truncate(end);
    }
    (Some(text), is_long)
}

/// The path of a field below `path`.
fn below(path: &str, name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    match (path.is_empty(), is_plain) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{path}.{name}"),
        (_, false) => format!("{path}[{name:?}]"),
    }
}

/// From the recap of `ansible-playbook --check`: hosts that it would change.
fn of_ansible(text: &str) -> DriftFound {
    let mut found = DriftFound::default();
    for line in text.lines().skip_while(|line| !line.starts_with("PLAY RECAP")).skip(1) {
        let Some((host, counts)) = line.split_once(" : ") else { continue };
        let count = |name: &str| {
            let mut counts = counts.split_whitespace().filter_map(|word| word.split_once('='));
            counts
                .find(|(word, _)| *word == name)
                .and_then(|(_, count)| count.parse::<u64>().ok())
                .unwrap_or(0)
        };
        let changed = count("changed");
        if changed > 0 {
            found.push(DriftedResource {
                address: host.trim().to_owned(),
                kind: "host".to_owned(),
                provider: "ansible".to_owned(),
                action: DriftAction::Updated,
                fields: Vec::new(),
                left_out: changed,
            });
        }
    }
    found
}

/// From `pulumi refresh --preview-only --diff`: a line `~ aws:s3/bucket:Bucket: (update)`, and below it `[urn=urn:pulumi:…]`.
fn of_pulumi(text: &str) -> DriftFound {
    let mut found = DriftFound::default();
    let mut action = None;
    for line in text.lines().map(str::trim) {
        if let Some(urn) = line.strip_prefix("[urn=").and_then(|rest| rest.strip_suffix(']')) {
            if let Some(action) = action.take() {
                // urn:pulumi:STACK::PROJECT::PARENT$TYPE::NAME
                let kind = urn.split("::").nth(2).unwrap_or_default();
                let kind = kind.rsplit_once('$').map_or(kind, |(_, kind)| kind);
                let provider = kind.split(':').next().unwrap_or_default();
                found.named(urn, kind, provider, action);
            }
        } else if line.ends_with("(update)") {
            action = Some(DriftAction::Updated);
        } else if line.ends_with("(delete)") {
            action = Some(DriftAction::Deleted);
        } else if line.ends_with(')') && line.contains(": (") {
            action = None;
        }
    }
    found
}

/// From the commands of a `CUSTOM` stack: lines `drift: updated ADDRESS` and `drift: deleted ADDRESS`.
fn of_custom(text: &str) -> DriftFound {
    let mut found = DriftFound::default();
    for line in text.lines() {
        let Some((action, address)) =
            line.trim().strip_prefix("drift: ").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        if let Some(action) = DriftAction::parse(action) {
            found.named(address.trim(), "resource", "custom", action);
        }
    }
    found
}

#[cfg(test)]
mod tests;
