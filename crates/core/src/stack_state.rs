//! State of stacks, as Terraform and OpenTofu write it: its versions, its lock, and the decision about each write.

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

/// Limit of a state, in bytes.
pub const MAX_STATE_BYTES: usize = 64 << 20;
/// Limit of a tool's lock information, in bytes.
pub const MAX_LOCK_BYTES: usize = 16 << 10;
/// The format of state files that both tools write.
const FORMAT: u64 = 4;
/// Limit of a lineage, of a lock's id, and of other short texts of tools, in bytes.
const MAX_TEXT: usize = 255;
/// Limit of all resources, instances and outputs of a state that is parsed.
const MAX_THINGS: u64 = 100_000;
/// Limit of the names in a state, in bytes: each instance counts those of its resource.
const MAX_NAMES: usize = 32 << 20;

/// A version of a state. Its content is sealed, and stored elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateVersion {
    /// Id.
    pub id: StateVersionId,
    /// The stack.
    pub stack_id: StackId,
    /// Serial: counts the writes of the tool.
    pub serial: u64,
    /// Lineage: identifies the state from its first version on.
    pub lineage: String,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// Size in bytes.
    pub size: u64,
    /// Number of resource instances; absent if the tool encrypted the state.
    pub resources: Option<u64>,
    /// Why it was rejected, if it was.
    pub rejected: Option<String>,
    /// When a user accepted the rejected version.
    pub accepted_at: Option<DateTime<Utc>>,
    /// Who wrote it: the name in the audit log.
    pub author: String,
    /// The request that wrote it.
    pub request_id: String,
    /// The fencing number of the lock that it was written under; absent without a lock.
    pub fence: Option<u64>,
    /// When it was written.
    pub created_at: DateTime<Utc>,
}

/// The holder of a state's lock. A user's lock never expires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateLock {
    /// The tool's id of the lock.
    pub id: String,
    /// The tool's lock information, verbatim: it is the answer to anybody else who asks for the lock.
    pub info: String,
    /// The tool's operation.
    pub operation: String,
    /// The user and the machine that the tool runs as; for a run, also which of its Jobs.
    pub who: String,
    /// Whose credential took it: the name in the audit log.
    pub author: String,
    /// Counts the locks of the stack: the holder of an older one is fenced off.
    pub fence: u64,
    /// When it was taken.
    pub created_at: DateTime<Utc>,
}

/// A tool's request to lock or unlock a state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRequest {
    /// The tool's id of the lock.
    pub id: String,
    /// The tool's lock information, verbatim.
    pub info: String,
    /// The tool's operation.
    pub operation: String,
    /// The user and the machine that the tool runs as.
    pub who: String,
}

impl LockRequest {
    /// Parses the body of a tool's request.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not JSON with an `ID`.
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

/// Metadata of a state, without its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateHead {
    /// Serial: counts the writes of the tool.
    pub serial: u64,
    /// Lineage: identifies the state from its first version on.
    pub lineage: String,
    /// Number of resource instances; absent if the tool encrypted the state.
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
    /// Parses a state file.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not a state, or has an unknown format.
    pub fn read(body: &[u8]) -> Result<Self> {
        // Otherwise serde would accept a list with the values of the fields in order.
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

/// The decision about a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteVerdict {
    /// It becomes the next version.
    Accept,
    /// It was written before: nothing changes.
    Repeat,
    /// Somebody else holds the lock, and the writer does not claim to.
    Locked,
    /// It is stored as a rejected version, for this reason.
    Reject(&'static str),
}

/// Decides about a write: `given` is the id of the lock that the writer claims to hold.
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
    // The answer to the first attempt may have been lost, and the lock released since.
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
    /// Its provider, as the state names it.
    pub provider: String,
    /// Addresses of the resources of the state that it depends on directly, without keys of instances:
    /// `module.a.aws_vpc.main`. Absent if the state has too many to tell.
    pub links: Option<Vec<String>>,
}

/// A difference between two states, without values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateChange {
    /// The resource.
    pub address: String,
    /// What happened to it.
    pub kind: StateChangeKind,
    /// The attributes that differ.
    pub attributes: Vec<String>,
}

/// What happened to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateChangeKind {
    /// Only the second state has it.
    Added,
    /// Only the first state has it.
    Removed,
    /// Both have it, with different attributes.
    Changed,
}

/// The parsed content of a state: of values only fingerprints, to compare them. It is not stored.
pub struct StateContent {
    instances: Vec<Instance>,
    outputs: BTreeSet<String>,
}

struct Instance {
    /// Without its dependencies.
    resource: StateResource,
    /// The address of the resource that it is an instance of.
    of: Arc<str>,
    needs: Addresses,
    attributes: BTreeMap<String, Print>,
}

/// The size of a state's content.
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
    /// Parses a state file that was accepted before.
    ///
    /// # Errors
    /// [`Error::Conflict`] if the tool encrypted it, or if it exceeds the limits of parsing; [`Error::Invalid`] if it has invalid
    /// resources.
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
        // A few bytes of the file can become a resource or an instance of hundreds of bytes in memory.
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

    /// Its resources, with their dependencies, and the names of its outputs, in order.
    pub fn listed(self) -> (Vec<StateResource>, Vec<String>) {
        let Self { instances, outputs } = self;
        let all = Needs::of(instances.iter().map(|instance| (&instance.of, &instance.needs)));
        let linked = |Instance { resource, of, needs, attributes: _ }| {
            let links = all.links(&of, &needs);
            StateResource { links, ..resource }
        };
        (instances.into_iter().map(linked).collect(), outputs.into_iter().collect())
    }

    /// The changes in a later state.
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

/// The same state with another serial, and every other byte as it was.
///
/// # Errors
/// [`Error::Internal`] if it is not a state.
pub fn with_serial(body: &[u8], serial: u64) -> Result<Vec<u8>> {
    let failed = |why: &'static str| Error::internal("giving a state another serial", why);
    let place = serial_place(body).ok_or_else(|| failed("it has no serial"))?;
    let mut changed = Vec::with_capacity(body.len() + 20);
    changed.extend_from_slice(&body[..place.start]);
    changed.extend_from_slice(serial.to_string().as_bytes());
    changed.extend_from_slice(&body[place.end..]);
    // Detects a scan that found the wrong position.
    let (before, after) = (StateHead::read(body)?, StateHead::read(&changed)?);
    if after.serial == serial && after.lineage == before.lineage && after.resources == before.resources {
        Ok(changed)
    } else {
        Err(failed("its serial is not where it seemed to be"))
    }
}

/// The range of the digits of the outermost `"serial"`.
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

/// The position after the closing quote of the text that begins at `at`.
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
