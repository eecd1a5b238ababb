//! State of stacks, as Terraform and OpenTofu write it: its versions, its lock, and which write counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, Result};
use crate::ids::{StackId, StateVersionId};

mod frugal;
mod needs;

use frugal::{Count, Counts, Index, Print};
use needs::{Addresses, Needs, without_keys};

/// Bytes of one state.
pub const MAX_STATE_BYTES: usize = 64 << 20;
/// Bytes of what a tool says of its lock.
pub const MAX_LOCK_BYTES: usize = 16 << 10;
/// The format of state files that both tools write.
const FORMAT: u64 = 4;
/// Bytes of a lineage, of a lock's id, and of other short texts of tools.
const MAX_TEXT: usize = 255;
/// Resources, instances and outputs of a state that is looked into, all together.
const MAX_THINGS: u64 = 100_000;
/// Bytes of the names of what a state holds: each instance has those of its resource.
const MAX_NAMES: usize = 32 << 20;

/// A state that was written once. What is in it is sealed, and elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateVersion {
    /// Id.
    pub id: StateVersionId,
    /// Of this stack.
    pub stack_id: StackId,
    /// Counts the writes of the tool.
    pub serial: u64,
    /// Names the state from its first version on.
    pub lineage: String,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// Bytes.
    pub size: u64,
    /// Resources with their instances; absent where the tool encrypted the state.
    pub resources: Option<u64>,
    /// Why it was not taken, if it was not.
    pub rejected: Option<String>,
    /// When somebody took in what was rejected.
    pub accepted_at: Option<DateTime<Utc>>,
    /// Who wrote it, as the audit log names them.
    pub author: String,
    /// The request that wrote it.
    pub request_id: String,
    /// The fencing number of the lock that it was written under; absent without a lock.
    pub fence: Option<u64>,
    /// When it was written.
    pub created_at: DateTime<Utc>,
}

/// Who holds a state. A lock of a person never ends by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateLock {
    /// The tool's name of it.
    pub id: String,
    /// What the tool said, as it said it: whoever asks for the lock is answered this.
    pub info: String,
    /// What the tool is doing.
    pub operation: String,
    /// The user and the machine that the tool runs as; of a run also which of its Jobs that is.
    pub who: String,
    /// Whose credential took it, as the audit log names them.
    pub author: String,
    /// Counts the locks of the stack: who holds an older one is fenced off.
    pub fence: u64,
    /// When it was taken.
    pub created_at: DateTime<Utc>,
}

/// What a tool asks for when it locks a state, or gives it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest {
    /// The tool's name of the lock.
    pub id: String,
    /// What the tool said, as it said it.
    pub info: String,
    /// What the tool is doing.
    pub operation: String,
    /// The user and the machine that the tool runs as.
    pub who: String,
}

impl LockRequest {
    /// Reads what a tool sends.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no JSON with an `ID`.
    pub fn parse(body: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Said {
            #[serde(rename = "ID")]
            id: String,
            #[serde(rename = "Operation", default)]
            operation: String,
            #[serde(rename = "Who", default)]
            who: String,
        }
        let refused = |why: &'static str| Error::invalid("lock", why);
        let info = std::str::from_utf8(body).map_err(|_| refused("must be JSON"))?;
        let Said { id, operation, who } = serde_json::from_str(info)
            .map_err(|_| refused("must be JSON with an \"ID\", as Terraform's http backend sends it"))?;
        for text in [&id, &operation, &who] {
            if !is_short(text) {
                return Err(refused("has a text that is longer than 255 bytes, or has a control character"));
            }
        }
        if id.is_empty() {
            return Err(refused("must have an \"ID\""));
        }
        Ok(Self { id, info: info.to_owned(), operation, who })
    }
}

fn is_short(text: &str) -> bool {
    text.len() <= MAX_TEXT && !text.chars().any(char::is_control)
}

/// What is known of a state without its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateHead {
    /// Counts the writes of the tool.
    pub serial: u64,
    /// Names the state from its first version on.
    pub lineage: String,
    /// Instances of resources; absent where the tool encrypted the state.
    pub resources: Option<u64>,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
}

#[derive(Deserialize)]
struct HeadFile {
    version: Option<u64>,
    serial: Option<u64>,
    lineage: Option<String>,
    #[serde(default)]
    resources: Counts,
    encrypted_data: Option<IgnoredAny>,
}

impl StateHead {
    /// Reads a state file.
    ///
    /// # Errors
    /// [`Error::Invalid`] for what is no state, or one in a format that is not known here.
    pub fn read(body: &[u8]) -> Result<Self> {
        // A list with the values of the fields in their order would be read, too.
        if body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return Err(Error::invalid("state", "must be a state file in JSON, and not a list"));
        }
        let file: HeadFile = serde_json::from_slice(body).map_err(|error| {
            // The position and not the text: that may be a secret.
            let (line, column) = (error.line(), error.column());
            Error::invalid("state", format!("must be a state file in JSON: line {line}, column {column}"))
        })?;
        let HeadFile { version, serial, lineage, resources, encrypted_data } = file;
        let is_encrypted = encrypted_data.is_some();
        if !is_encrypted && version != Some(FORMAT) {
            let told = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
            return Err(Error::invalid(
                "state",
                format!(
                    "must have format version {FORMAT}, which Terraform and OpenTofu write; it has {told}"
                ),
            ));
        }
        let serial = serial
            .filter(|serial| i64::try_from(*serial).is_ok())
            .ok_or_else(|| Error::invalid("state", "must have a \"serial\""))?;
        let lineage = lineage
            .filter(|lineage| !lineage.is_empty() && is_short(lineage))
            .ok_or_else(|| Error::invalid("state", "must have a \"lineage\" of at most 255 bytes"))?;
        let digest = Sha256::digest(body).into();
        Ok(Self { serial, lineage, resources: (!is_encrypted).then_some(resources.managed), digest })
    }
}

/// What becomes of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteVerdict {
    /// It is the next version.
    Accept,
    /// It was written before: nothing changes.
    Repeat,
    /// Somebody else holds the state, and the writer does not say to hold it.
    Locked,
    /// It is kept as a rejected version, for this reason.
    Reject(&'static str),
}

/// Decides about a write: `given` is the id of the lock that the writer says to hold.
pub fn judge_write(
    lock: Option<&StateLock>,
    given: Option<&str>,
    current: Option<&StateVersion>,
    new: &StateHead,
) -> WriteVerdict {
    let holds = match (lock, given) {
        (Some(_), None) => return WriteVerdict::Locked,
        (Some(lock), Some(id)) => lock.id == id,
        (None, Some(_)) => false,
        (None, None) => true,
    };
    // The answer to it may have been lost, and the lock since given back.
    if current.is_some_and(|current| current.serial == new.serial && current.digest == new.digest) {
        return WriteVerdict::Repeat;
    }
    if !holds {
        return WriteVerdict::Reject("the lock that it was written under is no longer held");
    }
    let Some(current) = current else { return WriteVerdict::Accept };
    if current.lineage != new.lineage {
        WriteVerdict::Reject("its lineage is that of another state")
    } else if new.serial < current.serial {
        WriteVerdict::Reject("its serial is lower than that of the state")
    } else if new.serial == current.serial {
        WriteVerdict::Reject("the state has other content under its serial")
    } else {
        WriteVerdict::Accept
    }
}

/// A resource of a state, without its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateResource {
    /// `module.a.aws_instance.web["blue"]`.
    pub address: String,
    /// `aws_instance`.
    pub kind: String,
    /// `web`.
    pub name: String,
    /// What manages it, as the state names it.
    pub provider: String,
    /// Addresses of the resources of the state that it needs by itself, and not only by way of another, without keys of instances:
    /// `module.a.aws_vpc.main`. Absent where the state holds too many to tell.
    pub links: Option<Vec<String>>,
}

/// A difference between two states, without values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// The resource.
    pub address: String,
    /// What became of it.
    pub kind: StateChangeKind,
    /// The attributes that differ.
    pub attributes: Vec<String>,
}

/// What became of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateChangeKind {
    /// Only the second state has it.
    Added,
    /// Only the first state has it.
    Removed,
    /// Both have it, with other attributes.
    Changed,
}

/// What a state holds: of values only whether they differ. It is made to be looked at, and dropped.
pub struct StateContent {
    instances: Vec<Instance>,
    outputs: BTreeSet<String>,
}

struct Instance {
    /// Without its links.
    resource: StateResource,
    /// The address of the resource that it is one of.
    of: Arc<str>,
    needs: Addresses,
    attributes: BTreeMap<String, Print>,
}

/// How much a state holds.
#[derive(Deserialize)]
struct Extent {
    #[serde(default)]
    outputs: Count,
    #[serde(default)]
    resources: Counts,
    encrypted_data: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct ContentFile {
    #[serde(default)]
    #[expect(
        clippy::zero_sized_map_values,
        reason = "only the names are kept: serde has no set that leaves values out"
    )]
    outputs: BTreeMap<String, IgnoredAny>,
    #[serde(default)]
    resources: Vec<ContentResource>,
}

#[derive(Deserialize)]
struct ContentResource {
    module: Option<String>,
    #[serde(default)]
    mode: String,
    r#type: String,
    name: String,
    #[serde(default)]
    provider: String,
    #[serde(default)]
    instances: Vec<ContentInstance>,
}

#[derive(Deserialize)]
struct ContentInstance {
    index_key: Option<Index>,
    deposed: Option<String>,
    attributes: Option<BTreeMap<String, Print>>,
    #[serde(default)]
    dependencies: Addresses,
}

impl StateContent {
    /// Reads a state file that was taken.
    ///
    /// # Errors
    /// [`Error::Conflict`] for one that the tool encrypted, and for one with more than is looked into; [`Error::Invalid`] for one with
    /// resources that are not understood.
    pub fn read(body: &[u8]) -> Result<Self> {
        let unknown = |error: serde_json::Error| {
            let (line, column) = (error.line(), error.column());
            Error::invalid(
                "state",
                format!("has resources that are not understood: line {line}, column {column}"),
            )
        };
        let Extent { outputs, resources, encrypted_data } = serde_json::from_slice(body).map_err(unknown)?;
        if encrypted_data.is_some() {
            return Err(Error::conflict(
                "the tool encrypted this state, so the console cannot look into it: export it, and use the tool",
            ));
        }
        // A few bytes make a resource or an instance here that takes hundreds.
        if outputs.0.saturating_add(resources.all) > MAX_THINGS {
            return Err(too_much());
        }
        let ContentFile { outputs, resources } = serde_json::from_slice(body).map_err(unknown)?;
        let (mut all, mut named) = (Vec::new(), 0_usize);
        for ContentResource { module, mode, r#type: kind, name, provider, instances } in resources {
            let mut base = module.map_or_else(String::new, |module| format!("{module}."));
            if mode == "data" {
                base.push_str("data.");
            }
            base.push_str(&kind);
            base.push('.');
            base.push_str(&name);
            let of: Arc<str> = Arc::from(without_keys(&base));
            let shared = base.len() + kind.len() + name.len() + provider.len();
            for ContentInstance { index_key, deposed, attributes, dependencies: needs } in instances {
                named = named.saturating_add(shared);
                if named > MAX_NAMES {
                    return Err(too_much());
                }
                let index = index_key.map_or_else(String::new, |Index(key)| format!("[{key}]"));
                let deposed = deposed.map_or_else(String::new, |key| format!(" (deposed {key})"));
                let resource = StateResource {
                    address: format!("{base}{index}{deposed}"),
                    kind: kind.clone(),
                    name: name.clone(),
                    provider: provider.clone(),
                    links: None,
                };
                let attributes = attributes.unwrap_or_default();
                all.push(Instance { resource, of: Arc::clone(&of), needs, attributes });
            }
        }
        all.sort_by(|one, other| one.resource.address.cmp(&other.resource.address));
        Ok(Self { instances: all, outputs: outputs.into_keys().collect() })
    }

    /// Its resources, with what they need, and the names of its outputs, in order.
    pub fn listed(self) -> (Vec<StateResource>, Vec<String>) {
        let Self { instances, outputs } = self;
        let all = Needs::of(instances.iter().map(|instance| (&instance.of, &instance.needs)));
        let linked = |Instance { resource, of, needs, attributes: _ }| {
            let links = all.links(&of, &needs);
            StateResource { links, ..resource }
        };
        (instances.into_iter().map(linked).collect(), outputs.into_iter().collect())
    }

    /// What a later state changed.
    pub fn changes_to(&self, later: &Self) -> Vec<StateChange> {
        let (before, after) = (self.by_address(), later.by_address());
        let addresses: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
        let mut changes = Vec::new();
        for address in addresses {
            let (kind, attributes) = match (before.get(address), after.get(address)) {
                (None, _) => (StateChangeKind::Added, Vec::new()),
                (_, None) => (StateChangeKind::Removed, Vec::new()),
                (Some(old), Some(new)) => {
                    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
                    let differ = names.into_iter().filter(|name| old.get(*name) != new.get(*name));
                    (StateChangeKind::Changed, differ.cloned().collect::<Vec<_>>())
                }
            };
            if kind != StateChangeKind::Changed || !attributes.is_empty() {
                changes.push(StateChange { address: address.to_owned(), kind, attributes });
            }
        }
        changes
    }

    fn by_address(&self) -> BTreeMap<&str, &BTreeMap<String, Print>> {
        self.instances
            .iter()
            .map(|Instance { resource, attributes, .. }| (resource.address.as_str(), attributes))
            .collect()
    }
}

fn too_much() -> Error {
    Error::conflict("the state holds more than the console looks into: export it, and use the tool")
}

/// The same state under another serial, with every other byte as it was.
///
/// # Errors
/// [`Error::Internal`] for what is no state.
pub fn with_serial(body: &[u8], serial: u64) -> Result<Vec<u8>> {
    let failed = |why: &'static str| Error::internal("giving a state another serial", why);
    let place = serial_place(body).ok_or_else(|| failed("it has no serial"))?;
    let mut changed = Vec::with_capacity(body.len() + 20);
    changed.extend_from_slice(&body[..place.start]);
    changed.extend_from_slice(serial.to_string().as_bytes());
    changed.extend_from_slice(&body[place.end..]);
    // A scan that took the wrong place would be seen here.
    let (before, after) = (StateHead::read(body)?, StateHead::read(&changed)?);
    if after.serial == serial && after.lineage == before.lineage && after.resources == before.resources {
        Ok(changed)
    } else {
        Err(failed("its serial is not where it seemed to be"))
    }
}

/// Where the digits of the outermost `"serial"` are.
fn serial_place(body: &[u8]) -> Option<std::ops::Range<usize>> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = body.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let end = text_end(body, at)?;
                let is_serial = depth == 1 && &body[at..end] == b"\"serial\"";
                at = end;
                if is_serial {
                    let rest = body.get(at..)?;
                    let colon = at + rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
                    if body.get(colon) == Some(&b':') {
                        let rest = body.get(colon + 1..)?;
                        let start = colon + 1 + rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
                        let digits =
                            body.get(start..)?.iter().take_while(|byte| byte.is_ascii_digit()).count();
                        return (digits > 0).then_some(start..start + digits);
                    }
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Behind the closing quote of the text that begins at `at`.
fn text_end(body: &[u8], at: usize) -> Option<usize> {
    let mut at = at + 1;
    loop {
        match body.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests;
