//! What was made by applying files with a label: the record that `--prune` goes by.
//!
//! The console has no labels for most kinds, so what a label stands for is written down beside them, as kubectl's ApplySet does
//! in a Secret: here it is a context, `applyset-…`, with the id of everything that `plural apply -l KEY=VALUE` *made*. Something
//! that was there before, or that somebody made by other means, is in no such record, whatever its name; and something of the
//! same name that was made after a recorded one was deleted has another id. Neither is ever pruned.

use std::{collections::BTreeMap, fmt, str::FromStr};

use plural_wire::{ReadContext, SaveContext};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    console::{Console, there},
    kind::Kind,
    thing::{self, Live},
};
use crate::error::CliError;

/// `app=shop,stage=prod`: all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Selector(BTreeMap<String, String>);

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = |part: &str| match part.split_once('=') {
            Some((key, value)) if !key.is_empty() && !key.ends_with('!') && !value.starts_with('=') => {
                Ok((key.trim().to_owned(), value.trim().to_owned()))
            }
            _ => Err(format!("{part:?} must have the form KEY=VALUE")),
        };
        Ok(Self(text.split(',').map(pair).collect::<Result<_, _>>()?))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<String> = self.0.iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&all.join(","))
    }
}

impl Selector {
    pub(super) fn takes(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// The name of its record.
    fn record(&self) -> String {
        let text = self.to_string();
        let mut name = String::from("applyset-");
        for letter in text.to_lowercase().chars().take(40) {
            name.push(if letter.is_ascii_alphanumeric() { letter } else { '-' });
        }
        let digest = hex::encode(Sha256::digest(text.as_bytes()));
        format!("{name}-{}", &digest[..8])
    }
}

/// One thing that was made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Member {
    kind: String,
    id: String,
    name: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    selector: String,
    members: Vec<Member>,
}

/// A record as it is kept, and as it becomes.
pub(super) struct Set {
    selector: Selector,
    known: Vec<Member>,
    members: Vec<Member>,
    is_new: bool,
}

/// Whether this mapping of a context is a record.
pub(super) fn is_record(configuration: Option<&Value>) -> bool {
    configuration.is_some_and(|all| all.get("applySet").is_some())
}

impl Set {
    /// The record of a selector.
    pub(super) async fn load(selector: &Selector, console: &Console<'_>) -> Result<Self, CliError> {
        let name = selector.record();
        let found = there(console.client.send(&ReadContext(json!({"name": name}))).await)?;
        let known = match &found {
            None => Vec::new(),
            Some(context) => {
                let record = context.get("configuration").and_then(|all| all.get("applySet")).cloned();
                let record: Option<Record> = record.and_then(|record| serde_json::from_value(record).ok());
                let record = record.filter(|record| record.selector == selector.to_string());
                let words = || {
                    CliError::new(format!(
                        "the context {name} should record what -l {selector} made, and does not"
                    ))
                };
                record.ok_or_else(words)?.members
            }
        };
        Ok(Self { selector: selector.clone(), members: known.clone(), known, is_new: found.is_none() })
    }

    /// Something was made.
    pub(super) fn made(&mut self, kind: Kind, id: &str, key: &str) {
        let member = Member { kind: kind.info().name.into(), id: id.into(), name: key.into() };
        self.members.retain(|one| one.id != member.id);
        self.members.push(member);
    }

    /// Something is gone.
    pub(super) fn gone(&mut self, id: &str) {
        self.members.retain(|one| one.id != id);
    }

    /// What was made and is not among `kept` ids, last first. Clusters and stacks stay: with one, everything in it, or that it made,
    /// would go.
    pub(super) async fn leftovers(
        &mut self,
        kept: &[String],
        console: &mut Console<'_>,
    ) -> Result<Vec<(Kind, Live)>, CliError> {
        let mut found = Vec::new();
        for member in self.members.clone() {
            let Some(kind) = Kind::of_document(&member.kind) else { continue };
            if kept.contains(&member.id) || matches!(kind, Kind::Cluster | Kind::InfrastructureStack) {
                continue;
            }
            match thing::read(kind, &member.name, console).await? {
                Some(live) if live.id == member.id => found.push((kind, live)),
                // It went, or another one has its name.
                _ => self.gone(&member.id),
            }
        }
        found.reverse();
        found.sort_by(|(a, _), (b, _)| b.cmp(a));
        Ok(found)
    }

    /// Writes the record down, where it is another one.
    pub(super) async fn save(
        &self,
        project: Option<&str>,
        console: &mut Console<'_>,
    ) -> Result<(), CliError> {
        if self.known == self.members {
            return Ok(());
        }
        let record = Record { selector: self.selector.to_string(), members: self.members.clone() };
        let mut attributes = json!({"configuration": json!({"applySet": record}).to_string()});
        if let Some(project) = project.filter(|_| self.is_new) {
            attributes["projectId"] = console.known_id(Kind::Project, project).await?.into();
        }
        console.send(SaveContext(json!({"name": self.selector.record(), "attributes": attributes}))).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_equalities() {
        let selector: Selector = "b=2,a=1".parse().unwrap();
        assert_eq!(selector.to_string(), "a=1,b=2");
        let labels =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        assert!(selector.takes(&labels(&[("a", "1"), ("b", "2"), ("c", "3")])));
        assert!(!selector.takes(&labels(&[("a", "1")])));
        for wrong in ["", "a", "a!=1", "a==1", "=1", "a in (b)"] {
            assert!(wrong.parse::<Selector>().is_err(), "{wrong}");
        }
        assert_ne!(selector.record(), "a=1,b=3".parse::<Selector>().unwrap().record());
    }
}
