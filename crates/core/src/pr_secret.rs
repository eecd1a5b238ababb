//! Secrets that automations ask for: made in a cluster once their pull request is merged, and deleted once what it generated is taken away.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::form::{FormQuestion, answers};
use crate::ids::{ClusterId, PrInstanceId, ProjectId, PullRequestId};
use crate::page::Keyed;
use crate::pattern::matches;
use crate::pr_automation_spec::PrSecrets;
use crate::pr_instance::PrInstanceState;
use crate::project_limits::ProjectLimits;

/// How long values are kept at most that no cluster has yet.
pub const KEPT: TimeDelta = TimeDelta::days(30);
/// Bytes of a value.
pub const MAX_VALUE: usize = 64 << 10;
/// Bytes of all values of a Secret: Kubernetes takes 1 MiB of an object.
pub const MAX_ALL: usize = 512 << 10;
/// The label of a Secret that says for which pull request it was made: what has another one, or none, is nobody's of ours.
pub const OWNER: &str = "deployments.plural.sh/pull-request";
/// The namespace where none is named.
const DEFAULT_NAMESPACE: &str = "default";
/// Namespaces that begin so are Kubernetes' own.
const KUBERNETES: &str = "kube-";
/// The kind, as limits name it.
const KIND: &str = "/Secret";

/// How far a Secret is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PrSecretState {
    /// Its pull request is not merged yet.
    Waiting,
    /// The agent of its cluster is to write it.
    Due,
    /// It is in its cluster, and nowhere else.
    Written,
    /// Its values are forgotten, and it was never written.
    Forgotten,
    /// The agent of its cluster is to delete it.
    Deleting,
    /// It is not there any more.
    Deleted,
}

impl PrSecretState {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::Due, Self::Written, Self::Forgotten, Self::Deleting, Self::Deleted];

    /// The word in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "WAITING",
            Self::Due => "DUE",
            Self::Written => "WRITTEN",
            Self::Forgotten => "FORGOTTEN",
            Self::Deleting => "DELETING",
            Self::Deleted => "DELETED",
        }
    }

    /// The state of this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// The agent of its cluster has to do something.
    pub const fn is_due(self) -> bool {
        match self {
            Self::Due | Self::Deleting => true,
            Self::Waiting | Self::Written | Self::Forgotten | Self::Deleted => false,
        }
    }

    /// What follows from how that stands which the pull request generates; nothing where it stays as it is.
    pub const fn follows(self, instance: PrInstanceState) -> Option<Self> {
        match (self, instance) {
            (Self::Waiting, PrInstanceState::Active) => Some(Self::Due),
            (Self::Waiting, PrInstanceState::Abandoned | PrInstanceState::Removed) => Some(Self::Forgotten),
            // One that is due may have been written by an agent that was not heard since.
            (Self::Due | Self::Written, PrInstanceState::Removed) => Some(Self::Deleting),
            (Self::Waiting, PrInstanceState::Pending)
            | (
                Self::Due | Self::Written,
                PrInstanceState::Pending | PrInstanceState::Active | PrInstanceState::Abandoned,
            )
            | (
                Self::Forgotten | Self::Deleting | Self::Deleted,
                PrInstanceState::Pending
                | PrInstanceState::Active
                | PrInstanceState::Abandoned
                | PrInstanceState::Removed,
            ) => None,
        }
    }

    /// What follows once what was generated is of a version that asks for no Secret; nothing where it stays as it is.
    pub const fn unasked(self) -> Option<Self> {
        match self {
            Self::Due | Self::Written => Some(Self::Deleting),
            Self::Waiting | Self::Forgotten | Self::Deleting | Self::Deleted => None,
        }
    }
}

/// A value of a Secret: its name, never it itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PrSecretValue {
    /// Its name.
    pub name: String,
    /// The console generated it.
    #[serde(default)]
    pub generated: bool,
    /// It stays as it is in the Secret that this one takes the place of: nobody gave it with this pull request.
    #[serde(default)]
    pub kept: bool,
}

/// A Secret that a pull request brings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrSecret {
    /// The pull request: each brings one at most.
    pub id: PullRequestId,
    /// Where it belongs.
    pub project_id: ProjectId,
    /// What the pull request generates.
    pub instance_id: PrInstanceId,
    /// The cluster that it is for.
    pub cluster_id: ClusterId,
    /// Its namespace there.
    pub namespace: String,
    /// Its name there.
    pub name: String,
    /// Its values, by name.
    pub entries: Vec<PrSecretValue>,
    /// How far it is.
    pub state: PrSecretState,
    /// Why it is no further. No value is in it.
    pub message: Option<String>,
    /// Of an upgrade: the pull request whose Secret is at the same place until this one takes it.
    pub previous: Option<PullRequestId>,
    /// When it was asked for.
    pub created_at: DateTime<Utc>,
    /// When something of it last changed.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for PrSecret {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

impl PrSecret {
    /// Whether it is at this place.
    pub fn is_at(&self, cluster: ClusterId, namespace: &str, name: &str) -> bool {
        self.cluster_id == cluster && self.namespace == namespace && self.name == name
    }
}

/// Where a Secret is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrSecretPlace {
    /// The handle of the cluster.
    pub cluster: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl PrSecretPlace {
    /// Where the automation has it. `{{ context.NAME }}` stands for an answer that is not secret.
    ///
    /// # Errors
    /// [`Error::Conflict`] for what names no place that there can be.
    pub fn of(secrets: &PrSecrets, questions: &[FormQuestion], given: &Map<String, Value>) -> Result<Self> {
        let PrSecrets { cluster, namespace, name, entries: _ } = secrets;
        let known: Vec<(String, String)> = answers("context", questions, given)?
            .into_iter()
            .filter(|answer| !answer.is_secret())
            .map(|answer| (answer.name, answer.value))
            .collect();
        let named = |what: &str, text: Option<&String>| match text.filter(|text| !text.is_empty()) {
            Some(text) => filled(what, text, &known),
            None => {
                Err(Error::conflict(format!("the automation asks for a Secret and says no {what} of it")))
            }
        };
        let place = Self {
            cluster: named("cluster", cluster.as_ref())?,
            namespace: match namespace {
                Some(_) => named("namespace", namespace.as_ref())?,
                None => DEFAULT_NAMESPACE.to_owned(),
            },
            name: named("name", name.as_ref())?,
        };
        for (what, text, most, dots) in
            [("namespace", &place.namespace, 63, false), ("name", &place.name, 253, true)]
        {
            if !is_name(text, most, dots) {
                return Err(Error::conflict(format!(
                    "the {what} of the Secret would be {text:?}, which Kubernetes does not take: lower-case letters, digits and -"
                )));
            }
        }
        Ok(place)
    }
}

/// Why a Secret of a project may not be in a namespace, if it may not. Console and agent ask it, each with the limits that it knows.
pub fn refusal(project: &str, limits: &ProjectLimits, namespace: &str) -> Option<String> {
    if namespace.starts_with(KUBERNETES) {
        return Some(format!("namespace {namespace} is reserved for Kubernetes"));
    }
    let lower = KIND.to_ascii_lowercase();
    if limits.denied_kinds.iter().any(|pattern| matches(&pattern.to_ascii_lowercase(), &lower)) {
        return Some(format!("project {project} denies the kind {KIND} (limit deniedKinds)"));
    }
    let allowed = &limits.allowed_kinds;
    if !allowed.is_empty() && !allowed.iter().any(|pattern| matches(pattern, KIND)) {
        return Some(format!("project {project} does not allow the kind {KIND} (limit allowedKinds)"));
    }
    if limits.namespaces.is_empty() {
        // An agent writes Secrets with its own rights, which reach everywhere.
        return limits.require_service_account.then(|| {
            format!(
                "project {project} requires ServiceAccounts, which no Secret of an automation has: name the namespaces that it may \
                 write to (limit namespaces)"
            )
        });
    }
    if limits.namespaces.iter().any(|pattern| matches(pattern, namespace)) {
        return None;
    }
    Some(format!("project {project} may not write to namespace {namespace} (limit namespaces)"))
}

/// A text with answers in it.
fn filled(what: &str, text: &str, known: &[(String, String)]) -> Result<String> {
    let odd = || {
        Error::conflict(format!(
            "the automation's {what} of the Secret has something else than {{{{ context.NAME }}}} in it: {text:?}"
        ))
    };
    let (mut made, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, after) = after.split_once("}}").ok_or_else(odd)?;
        let name = inside.trim().strip_prefix("context.").ok_or_else(odd)?;
        let (_, value) = known.iter().find(|(known, _)| known == name).ok_or_else(|| {
            Error::conflict(format!(
                "the automation's {what} of the Secret needs an answer to {name:?} that is not secret"
            ))
        })?;
        made.push_str(before);
        made.push_str(value);
        rest = after;
    }
    made.push_str(rest);
    Ok(made)
}

/// Whether Kubernetes takes it as a name.
fn is_name(text: &str, most: usize, dots: bool) -> bool {
    let is_part = |part: &str| {
        let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        !part.is_empty() && part.bytes().all(inner) && !part.starts_with('-') && !part.ends_with('-')
    };
    text.len() <= most && if dots { text.split('.').all(is_part) } else { is_part(text) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_parse_back() {
        for state in PrSecretState::ALL {
            assert_eq!(PrSecretState::parse(state.as_str()), Some(state));
        }
    }

    #[test]
    fn a_secret_follows_what_its_pull_request_generates() {
        use PrInstanceState as Instance;
        use PrSecretState as State;
        for (state, instance, expected) in [
            (State::Waiting, Instance::Pending, None),
            (State::Waiting, Instance::Active, Some(State::Due)),
            (State::Waiting, Instance::Abandoned, Some(State::Forgotten)),
            (State::Due, Instance::Active, None),
            (State::Due, Instance::Removed, Some(State::Deleting)),
            (State::Written, Instance::Removed, Some(State::Deleting)),
            (State::Written, Instance::Active, None),
            // Opened again after its values were forgotten.
            (State::Forgotten, Instance::Active, None),
            (State::Forgotten, Instance::Removed, None),
            (State::Deleted, Instance::Removed, None),
        ] {
            assert_eq!(state.follows(instance), expected, "{state:?} {instance:?}");
        }
        let unasked = State::ALL.map(State::unasked);
        assert_eq!(unasked, [None, Some(State::Deleting), Some(State::Deleting), None, None, None]);
    }

    fn questions() -> Vec<FormQuestion> {
        serde_json::from_value(json!([
            {"name": "name", "type": "STRING"}, {"name": "key", "type": "PASSWORD", "optional": true},
        ]))
        .unwrap()
    }

    fn place(secrets: Value, given: &Value) -> Result<PrSecretPlace> {
        let secrets: PrSecrets = serde_json::from_value(secrets).unwrap();
        PrSecretPlace::of(&secrets, &questions(), given.as_object().unwrap())
    }

    #[test]
    fn a_place_may_hold_answers() {
        let given = json!({"name": "shop", "key": "hunter2"});
        let found = place(json!({"cluster": "blue", "name": "{{ context.name }}-db"}), &given).unwrap();
        let expected = PrSecretPlace {
            cluster: "blue".to_owned(),
            namespace: "default".to_owned(),
            name: "shop-db".to_owned(),
        };
        assert_eq!(found, expected);
        for (secrets, told) in [
            (json!({"name": "db"}), "says no cluster"),
            (json!({"cluster": "blue"}), "says no name"),
            (json!({"cluster": "blue", "name": "{{ context.key }}"}), "that is not secret"),
            (json!({"cluster": "blue", "name": "{{ context.other }}"}), "that is not secret"),
            (json!({"cluster": "blue", "name": "{{ 1 | upcase }}"}), "something else than"),
            (json!({"cluster": "blue", "name": "{{ context.name"}), "something else than"),
            (json!({"cluster": "blue", "name": "Db"}), "does not take"),
            (json!({"cluster": "blue", "name": "db", "namespace": "a.b"}), "does not take"),
            (json!({"cluster": "blue", "name": "db", "namespace": "../kube-system"}), "does not take"),
        ] {
            let refused = place(secrets.clone(), &given).unwrap_err();
            assert!(refused.to_string().contains(told), "{secrets}: {refused}");
            assert!(!refused.to_string().contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn limits_of_the_project_hold() {
        let limits = |change: fn(&mut ProjectLimits)| {
            let mut limits = ProjectLimits::default();
            change(&mut limits);
            refusal("shop", &limits, "apps")
        };
        assert_eq!(limits(|_| ()), None);
        assert_eq!(limits(|limits| limits.namespaces = vec!["app*".to_owned()]), None);
        assert_eq!(limits(|limits| limits.allowed_kinds = vec!["/Secret".to_owned()]), None);
        for (told, limited) in [
            ("limit namespaces", limits(|limits| limits.namespaces = vec!["other".to_owned()])),
            ("limit deniedKinds", limits(|limits| limits.denied_kinds = vec!["/secret".to_owned()])),
            ("limit allowedKinds", limits(|limits| limits.allowed_kinds = vec!["apps/*".to_owned()])),
            ("limit namespaces", limits(|limits| limits.require_service_account = true)),
        ] {
            assert!(limited.as_ref().is_some_and(|why| why.contains(told)), "{told}: {limited:?}");
        }
        assert!(refusal("shop", &ProjectLimits::default(), "kube-system").is_some());
    }
}
