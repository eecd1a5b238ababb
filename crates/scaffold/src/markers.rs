//! Lines of a pull request's body that say what it is about.
//!
//! Whoever can edit the body can write them: they are hints, and what follows from one is decided by the record of the console.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Bytes of a body that are looked at.
const MAX_BODY: usize = 256 << 10;
/// Bytes of a value.
const MAX_VALUE: usize = 255;
/// Attributes of one body.
const MAX_ATTRIBUTES: usize = 50;

/// What a body says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Markers {
    /// `Plural Service: cluster/name`
    pub service: Option<String>,
    /// `Plural Stack: name`
    pub stack: Option<String>,
    /// `Plural Cluster: handle`
    pub cluster: Option<String>,
    /// `Plural Flow: name`
    pub flow: Option<String>,
    /// `Plural Preview: name`
    pub preview: Option<String>,
    /// `Plural Governance: name`
    pub governance: Option<String>,
    /// `Plural Merge Cron: 0 5 * * 1`
    pub merge_cron: Option<String>,
    /// `Plural Attribute: key=value`
    pub attributes: BTreeMap<String, String>,
}

/// The markers of `body`: of each the last line that has it. Lines of code fences are none.
pub fn markers(body: &str) -> Markers {
    let mut found = Markers::default();
    let mut is_code = false;
    let mut read = 0;
    for line in body.lines() {
        read += line.len() + 1;
        if read > MAX_BODY {
            break;
        }
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            is_code = !is_code;
            continue;
        }
        if is_code {
            continue;
        }
        let line = line.trim_start_matches(['*', '-', '_', ' ', '>']);
        let Some((name, value)) = line.split_once(':') else { continue };
        let name = name.trim_end_matches(['*', '_', ' ']).to_ascii_lowercase();
        let Some(name) = name.strip_prefix("plural ") else { continue };
        let value = value.trim().trim_matches(['*', '_', '`', ' ']);
        if value.is_empty() || value.len() > MAX_VALUE || value.chars().any(char::is_control) {
            continue;
        }
        let place = match name.trim() {
            "service" => &mut found.service,
            "stack" => &mut found.stack,
            "cluster" => &mut found.cluster,
            "flow" => &mut found.flow,
            "preview" => &mut found.preview,
            "governance" => &mut found.governance,
            "merge cron" | "merge" => {
                // A crontab begins with a star as often as not.
                let value =
                    line.split_once(':').map_or("", |(_, value)| value.trim().trim_matches('`').trim());
                if value.split_whitespace().count() == 5 {
                    found.merge_cron = Some(value.to_owned());
                }
                continue;
            }
            "attribute" => {
                if let Some((key, value)) = value.split_once('=')
                    && found.attributes.len() < MAX_ATTRIBUTES
                    && !key.trim().is_empty()
                {
                    found.attributes.insert(key.trim().to_owned(), value.trim().to_owned());
                }
                continue;
            }
            _ => continue,
        };
        *place = Some(value.to_owned());
    }
    found
}
