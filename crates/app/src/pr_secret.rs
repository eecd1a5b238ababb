//! Secrets that automations ask for. Their values are sealed at once, and deleted once their cluster has them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::Actor;
use plural_core::audit::AuditEntry;
use plural_core::cluster::Cluster;
use plural_core::data_key::KeyOwner;
use plural_core::ids::{ClusterId, PrInstanceId, ProjectId, PullRequestId};
use plural_core::pr_automation::PrAutomation;
use plural_core::pr_automation_spec::{PrAutomationSpec, PrSecretEntry, PrSecrets};
use plural_core::pr_instance::PrInstance;
use plural_core::pr_secret::{
    KEPT, MAX_ALL, MAX_VALUE, PrSecret, PrSecretPlace, PrSecretState, PrSecretValue, refusal,
};
use plural_core::pull_request::PullRequest;
use plural_core::work::Contract;
use plural_core::{Error, Result};
use secrecy::SecretString;
use serde_json::{Map, Value};

use crate::access::{Noun as _, entry, noun};
use crate::agent::AgentHandle;
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::records::{Search, record};
use crate::seal::Sealed;
use crate::secret::random;
use crate::sync::NamedLimits;

/// The argument with the values.
pub(crate) const SECRETS: &str = "secrets";
/// Never in an audit line: a Secret that waits has not changed.
const WAIT: &str = "pullRequest.secret.wait";
/// The reason why a Secret waits that its agent does not get.
const DAMAGED: &str = "the console cannot read its values: its log says why";
const CHANGES_NONE: &str =
    "the agent of the cluster is of an earlier release, which changes no Secrets: update the agent";
/// Limit of Secrets in one answer to an agent.
const AT_ONCE: u64 = 20;
/// Limit of the message of an agent, in bytes.
const MAX_MESSAGE: usize = 1024;

noun!(PrSecret, "secret of a pull request", s => Some(s.id.uuid()), format!("{}/{}", s.namespace, s.name), project: s.project_id);
record!(PrSecret, PullRequestId, PullRequestId, Search);

/// A Secret that a user asked for.
#[derive(Debug, Clone)]
pub struct NewPrSecret {
    /// Its record.
    pub secret: PrSecret,
    /// Its values by name, as JSON, sealed for `pr_secret:ID:values`.
    pub content: Sealed,
    /// It belongs to an upgrade: it waits until that is merged, whatever state the instance is in.
    pub upgrades: bool,
    /// For an upgrade: the newest Secret of its instance when this one was computed. If that is another one by now, nothing is recorded.
    pub newest: Option<PullRequestId>,
}

/// The request for a Secret: its place and its values.
struct Asks<'a> {
    id: PullRequestId,
    project: ProjectId,
    instance: PrInstanceId,
    cluster: ClusterId,
    place: PrSecretPlace,
    entries: &'a [PrSecretEntry],
    given: &'a Map<String, Value>,
    /// The Secret that is at the same place.
    before: Option<&'a PrSecret>,
    at: DateTime<Utc>,
}

/// A Secret that an agent has to write or delete.
#[derive(Debug, Clone)]
pub struct DuePrSecret {
    /// Its record.
    pub secret: PrSecret,
    /// As in [`NewPrSecret`]; absent if it is to be deleted.
    pub content: Option<Sealed>,
}

/// The result of a Secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrSecretOutcome {
    /// It is in its cluster.
    Written,
    /// It is not in its cluster.
    Deleted,
    /// It is neither written nor deleted yet.
    Waits,
}

/// An agent's report of a Secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrSecretTold {
    /// Its pull request.
    pub id: PullRequestId,
    /// Its result.
    pub outcome: PrSecretOutcome,
    /// The message in words, without a value.
    pub message: Option<String>,
}

/// A Secret as an agent gets it. It has no `Debug`: it contains values.
pub struct WantedPrSecret {
    /// Its pull request.
    pub id: PullRequestId,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its values; absent: it is to be deleted.
    pub values: Option<BTreeMap<String, SecretString>>,
    /// The limits of the project.
    pub limits: NamedLimits,
    /// The pull request whose Secret it replaces.
    pub previous: Option<PullRequestId>,
    /// Names of values that it keeps from that one.
    pub kept: Vec<String>,
}

/// The records of Secrets. They are created together with the records of pull requests.
#[async_trait]
pub trait PrSecretStore: Send + Sync + 'static {
    /// A number that changes whenever the agent of a cluster has new work; 0: it has none.
    async fn pr_secrets_mark(&self, cluster: ClusterId) -> Result<u64>;
    /// Secrets of a project that the agent of a cluster has to change, the least recently reported first.
    async fn pr_secrets_due(
        &self,
        cluster: ClusterId,
        project: ProjectId,
        most: u64,
    ) -> Result<Vec<DuePrSecret>>;
    /// Secrets of an instance that are in a cluster, or that its agent has to write, newest first.
    async fn pr_secrets_of(&self, instance: PrInstanceId) -> Result<Vec<PrSecret>>;
    /// Whether values given for an instance were deleted before a cluster had them.
    async fn pr_secrets_forgotten(&self, instance: PrInstanceId) -> Result<bool>;
    /// Records an agent's report of one, with an audit line once it is done. Reports about other clusters' Secrets, or unasked ones, change
    /// nothing.
    async fn pr_secret_told(&self, cluster: ClusterId, told: &PrSecretTold, by: &AuditEntry) -> Result<()>;
    /// Deletes values that were given before a time and that no cluster has; returns the number of Secrets.
    ///
    /// First it applies to the Secrets what a console of an earlier release recorded of their instances.
    async fn pr_secrets_forget(&self, before: DateTime<Utc>, at: DateTime<Utc>) -> Result<u64>;
}

impl App {
    /// The Secret that an automation asks for, with given and generated values; `None` if it asks for none.
    pub(crate) async fn pr_secret_asked(
        &self,
        automation: &PrAutomation,
        instance: &PrInstance,
        (id, given): (PullRequestId, &Map<String, Value>),
        answers: &Map<String, Value>,
    ) -> Result<Option<NewPrSecret>> {
        let Some((secrets, place, cluster)) = self.pr_secret_place(automation, given, answers).await? else {
            return Ok(None);
        };
        let (project, instance, at) = (automation.project_id, instance.id, instance.created_at);
        let entries = secrets.entries.as_slice();
        let asks = Asks { id, project, instance, cluster, place, entries, given, before: None, at };
        Ok(Some(self.pr_secret_made(asks, false).await?))
    }

    /// The Secret of an upgrade; `None` if the existing one stays, or the automation asks for none any more.
    pub(crate) async fn pr_secret_upgraded(
        &self,
        automation: &PrAutomation,
        instance: &PrInstance,
        (id, given): (PullRequestId, &Map<String, Value>),
        answers: &Map<String, Value>,
        at: DateTime<Utc>,
    ) -> Result<Option<NewPrSecret>> {
        let Some((secrets, place, cluster)) = self.pr_secret_place(automation, given, answers).await? else {
            return Ok(None);
        };
        let known = self.store.pr_secrets_of(instance.id).await?;
        // What a cluster has was not forgotten, whatever became of other upgrades.
        let forgotten =
            known.is_empty() && given.is_empty() && self.store.pr_secrets_forgotten(instance.id).await?;
        if given.is_empty() && stays(instance, secrets, (cluster, &place), &known, forgotten) {
            return Ok(None);
        }
        let is_there = |one: &PrSecret| one.is_at(cluster, &place.namespace, &place.name);
        refuse_kept(secrets, given, &known, is_there)?;
        // A pending one may never be written: the cluster has the values of the one before, until its agent reports otherwise.
        let before = known.iter().find(|one| is_there(one) && one.state == PrSecretState::Written);
        let (project, instance, entries) = (automation.project_id, instance.id, secrets.entries.as_slice());
        let newest = known.first().map(|newest| newest.id);
        let asks = Asks { id, project, instance, cluster, place, entries, given, before, at };
        match self.pr_secret_made(asks, true).await {
            Ok(made) => Ok(Some(NewPrSecret { newest, ..made })),
            Err(Error::Invalid { field, reason }) if forgotten => Err(Error::invalid(
                field,
                format!(
                    "{reason}. Values that were given before are forgotten, as no cluster had them: give them anew"
                ),
            )),
            Err(error) => Err(error),
        }
    }

    /// Whether the Secret that an automation asks for is in its cluster, or on its way, with all of its values. Also true if it asks for
    /// none.
    pub(crate) async fn pr_secret_stands(
        &self,
        automation: &PrAutomation,
        instance: &PrInstance,
        answers: &Map<String, Value>,
    ) -> Result<bool> {
        let Some((secrets, place, cluster)) = self.pr_secret_place(automation, &Map::new(), answers).await?
        else {
            return Ok(true);
        };
        let known = self.store.pr_secrets_of(instance.id).await?;
        let forgotten = self.store.pr_secrets_forgotten(instance.id).await?;
        Ok(stays(instance, secrets, (cluster, &place), &known, forgotten))
    }

    /// The Secret that an automation asks for, and its place; `None` if it asks for none.
    ///
    /// # Errors
    /// [`Error::Invalid`] if values are given but none is asked for; [`Error::Conflict`] if the cluster is not one of the project.
    async fn pr_secret_place<'a>(
        &self,
        automation: &'a PrAutomation,
        given: &Map<String, Value>,
        answers: &Map<String, Value>,
    ) -> Result<Option<(&'a PrSecrets, PrSecretPlace, ClusterId)>> {
        let PrAutomationSpec { secrets, configuration, .. } = &automation.spec;
        let Some(secrets) = secrets else {
            if given.is_empty() {
                return Ok(None);
            }
            return Err(Error::invalid(SECRETS, "must be left out: the automation asks for no Secret"));
        };
        let place = PrSecretPlace::of(secrets, configuration, answers)?;
        let cluster = self.pr_secret_cluster(automation.project_id, &place.cluster).await?.id;
        Ok(Some((secrets, place, cluster)))
    }

    /// Builds the record with sealed values, if the project may have the Secret.
    async fn pr_secret_made(&self, asks: Asks<'_>, upgrades: bool) -> Result<NewPrSecret> {
        let Asks { id, project: project_id, instance, cluster, place, entries, given, before, at } = asks;
        let PrSecretPlace { cluster: _, namespace, name } = place;
        let NamedLimits { project, limits } = self.store.cluster_limits(cluster).await?;
        if let Some(why) = refusal(&project, &limits, &namespace) {
            return Err(Error::forbidden(format!("the Secret {namespace}/{name} may not be made: {why}")));
        }
        let (entries, values) =
            values(entries, given, before.map(|before| before.entries.as_slice()).unwrap_or_default())?;
        let json = serde_json::to_vec(&values)
            .map_err(|_| Error::internal("writing the values of a Secret", "they have no JSON"))?;
        let owner = KeyOwner::of(Some(project_id));
        let content = self.sealer.seal(owner, &seal_context(id), &json).await?;
        let secret = PrSecret {
            id,
            project_id,
            instance_id: instance,
            cluster_id: cluster,
            namespace,
            name,
            entries,
            state: PrSecretState::Waiting,
            message: None,
            previous: before.map(|before| before.id),
            created_at: at,
            updated_at: at,
        };
        Ok(NewPrSecret { secret, content, upgrades, newest: None })
    }

    /// The author of an automation may name clusters of its project only.
    async fn pr_secret_cluster(&self, project: ProjectId, handle: &str) -> Result<Cluster> {
        let none = || {
            Error::conflict(format!(
                "the automation asks for a Secret on the cluster {handle:?}, which its project does not have"
            ))
        };
        let by = ClusterSelector::Handle(handle.parse().map_err(|_| none())?);
        match self.get::<Cluster>(&self.system_ctx(), &by).await {
            Ok(cluster) if cluster.project_id == project => Ok(cluster),
            Ok(_) | Err(Error::NotFound { .. }) => Err(none()),
            Err(error) => Err(error),
        }
    }

    /// Records an agent's reports of Secrets, and returns its work; a repeated call returns the same. An agent that `changes` none does not
    /// get those that replace another one.
    pub async fn agent_secrets(
        &self,
        agent: &AgentHandle,
        told: Vec<PrSecretTold>,
        changes: bool,
    ) -> Result<Vec<WantedPrSecret>> {
        agent.check()?;
        let id = agent.cluster_id();
        let ctx = self.ctx(Actor::Cluster(id));
        for mut one in told {
            let action: &'static str = match one.outcome {
                PrSecretOutcome::Written => "pullRequest.secret.write",
                PrSecretOutcome::Deleted => "pullRequest.secret.delete",
                PrSecretOutcome::Waits => WAIT,
            };
            one.message = one.message.map(|message| short(&message)).filter(|message| !message.is_empty());
            // The name is filled in once the record is read.
            let by = entry(&ctx, action, PullRequest::NOUN, Some(one.id.uuid()), String::new());
            self.store.pr_secret_told(id, &one, &by).await?;
        }
        let Some(cluster) = self.store.agent_cluster(id).await? else { return Ok(Vec::new()) };
        let due = self.store.pr_secrets_due(id, cluster.project_id, AT_ONCE).await?;
        if due.is_empty() {
            return Ok(Vec::new());
        }
        let limits = self.store.cluster_limits(id).await?;
        let (mut wanted, mut left) = (Vec::with_capacity(due.len()), MAX_ALL * 2);
        for DuePrSecret { secret, content } in due {
            let PrSecret { id: of, namespace, name, entries, previous, .. } = secret;
            let values = match content {
                None => None,
                Some(_) if previous.is_some() && !changes => {
                    self.pr_secret_waits(id, of, CHANGES_NONE).await?;
                    continue;
                }
                Some(content) => match self.pr_secret_opened(of, &content).await {
                    Ok(values) => Some(values),
                    Err(error) => {
                        // A damaged one must not keep the others from the agent.
                        tracing::error!(pull_request.id = %of, error = error.log_text(), "cannot open the values of a Secret");
                        self.pr_secret_waits(id, of, DAMAGED).await?;
                        continue;
                    }
                },
            };
            let bytes: usize = values.iter().flatten().map(|(name, value)| name.len() + value.len()).sum();
            // The rest comes with the next answer.
            if bytes > left {
                break;
            }
            left -= bytes;
            let values =
                values.map(|values| values.into_iter().map(|(name, value)| (name, value.into())).collect());
            let kept = entries.into_iter().filter(|entry| entry.kept).map(|entry| entry.name).collect();
            let limits = limits.clone();
            wanted.push(WantedPrSecret { id: of, namespace, name, values, limits, previous, kept });
        }
        Ok(wanted)
    }

    /// Records why a Secret waits that its agent does not get.
    async fn pr_secret_waits(&self, cluster: ClusterId, id: PullRequestId, why: &str) -> Result<()> {
        let ctx = self.ctx(Actor::Cluster(cluster));
        let told = PrSecretTold { id, outcome: PrSecretOutcome::Waits, message: Some(why.to_owned()) };
        let by = entry(&ctx, WAIT, PullRequest::NOUN, Some(id.uuid()), String::new());
        self.store.pr_secret_told(cluster, &told, &by).await
    }

    async fn pr_secret_opened(
        &self,
        id: PullRequestId,
        content: &Sealed,
    ) -> Result<BTreeMap<String, String>> {
        let json = self.sealer.open(&seal_context(id), content).await?;
        // The parser's own message could quote a value.
        serde_json::from_slice(&json)
            .map_err(|_| Error::internal("reading the values of a Secret", "they are not what was sealed"))
    }

    /// Deletes values that waited for too long.
    pub(crate) async fn pr_secrets_expire(&self) -> Result<u64> {
        let at = self.now();
        self.store.pr_secrets_forget(at - KEPT, at).await
    }
}

/// Why the agent of a cluster writes no Secrets, if it does not.
pub fn outdated(cluster: &Cluster) -> Option<String> {
    let is_old = cluster.agent_contract.is_some_and(|contract| contract < Contract::SECRETS);
    is_old.then(|| {
        format!(
            "the agent of the cluster {} is of an earlier release, which writes no Secrets: update the agent",
            cluster.handle
        )
    })
}

/// Whether the Secret of an instance is as a version asks. The existing Secret counts, not the recorded version: its values may have
/// been deleted.
fn stays(
    instance: &PrInstance,
    secrets: &PrSecrets,
    (cluster, place): (ClusterId, &PrSecretPlace),
    known: &[PrSecret],
    forgotten: bool,
) -> bool {
    match known.first() {
        Some(newest) => {
            newest.is_at(cluster, &place.namespace, &place.name) && has_values(newest, &secrets.entries)
        }
        None => !forgotten && instance.made.version.spec.secrets.as_ref() == Some(secrets),
    }
}

/// While one of an instance is pending, the content of its cluster is unknown: a value that is not given again cannot be kept.
fn refuse_kept(
    secrets: &PrSecrets,
    given: &Map<String, Value>,
    known: &[PrSecret],
    is_there: impl Fn(&PrSecret) -> bool,
) -> Result<()> {
    let Some(pending) = known.iter().find(|one| one.state != PrSecretState::Written) else { return Ok(()) };
    let is_given =
        |name: &str| given.get(name).and_then(Value::as_str).is_some_and(|value| !value.is_empty());
    let is_known = |name: &str| {
        known.iter().any(|one| is_there(one) && one.entries.iter().any(|known| known.name == name))
    };
    let names = secrets.entries.iter().map(|entry| entry.name.as_str());
    let missing: Vec<&str> = names.filter(|name| is_known(name) && !is_given(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let PrSecret { namespace, name, message, .. } = pending;
    let why = message.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    Err(Error::conflict(format!(
        "the Secret {namespace}/{name} of the instance is not in its cluster yet{why}, so nothing of it can be kept: try again once it is, or \
         give all values anew: {}",
        missing.join(", ")
    )))
}

/// Whether a Secret has exactly these values.
fn has_values(secret: &PrSecret, entries: &[PrSecretEntry]) -> bool {
    secret.entries.len() == entries.len()
        && entries.iter().all(|entry| secret.entries.iter().any(|known| known.name == entry.name))
}

/// The values of a Secret: given ones, those kept from `before`, and generated ones.
fn values(
    entries: &[PrSecretEntry],
    given: &Map<String, Value>,
    before: &[PrSecretValue],
) -> Result<(Vec<PrSecretValue>, BTreeMap<String, String>)> {
    if let Some(name) = given.keys().find(|name| !entries.iter().any(|entry| entry.name == **name)) {
        let known: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let name: String = name.chars().take(100).collect();
        return Err(Error::invalid(
            SECRETS,
            format!("has {name:?}, and the automation asks for: {}", known.join(", ")),
        ));
    }
    let (mut told, mut values, mut missing) = (Vec::new(), BTreeMap::new(), Vec::new());
    for PrSecretEntry { name, documentation: _, autogenerate } in entries {
        let value = match given.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(value)) if value.is_empty() => None,
            Some(Value::String(value)) => Some(value.clone()),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                return Err(Error::invalid(SECRETS, format!("needs a text for {name}")));
            }
        };
        if value.is_none()
            && let Some(known) = before.iter().find(|known| known.name == *name)
        {
            told.push(PrSecretValue { kept: true, ..known.clone() });
            continue;
        }
        let generated = value.is_none() && *autogenerate;
        let value = match value {
            Some(value) => value,
            None if generated => hex::encode(random::<16>()?),
            None => {
                missing.push(name.as_str());
                continue;
            }
        };
        if value.len() > MAX_VALUE {
            return Err(Error::invalid(SECRETS, format!("has more than {} KiB for {name}", MAX_VALUE >> 10)));
        }
        told.push(PrSecretValue { name: name.clone(), generated, kept: false });
        values.insert(name.clone(), value);
    }
    if !missing.is_empty() {
        return Err(Error::invalid(SECRETS, format!("needs a value for: {}", missing.join(", "))));
    }
    if values.values().map(String::len).sum::<usize>() > MAX_ALL {
        return Err(Error::invalid(SECRETS, format!("has more than {} KiB in all", MAX_ALL >> 10)));
    }
    Ok((told, values))
}

/// An agent's message, as it is stored.
fn short(message: &str) -> String {
    let mut text = String::new();
    for c in message.chars().filter(|c| !c.is_control()) {
        if text.len() + c.len_utf8() > MAX_MESSAGE {
            break;
        }
        text.push(c);
    }
    text
}

fn seal_context(id: PullRequestId) -> String {
    format!("pr_secret:{id}:values")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_given_or_made() {
        let entries: Vec<PrSecretEntry> =
            serde_json::from_value(json!([{"name": "user"}, {"name": "password", "autogenerate": true}]))
                .unwrap();
        let read = |given: Value| values(&entries, given.as_object().unwrap(), &[]);
        let (told, made) = read(json!({"user": "ada"})).unwrap();
        assert_eq!(told.iter().map(|one| one.generated).collect::<Vec<_>>(), [false, true]);
        assert_eq!((made["user"].as_str(), made["password"].len()), ("ada", 32));
        let (_, again) = read(json!({"user": "ada"})).unwrap();
        assert_ne!(made["password"], again["password"]);
        let (told, made) = read(json!({"user": "ada", "password": "hunter2"})).unwrap();
        assert_eq!((told[1].generated, made["password"].as_str()), (false, "hunter2"));
        for (given, why) in [
            (json!({}), "needs a value for: user"),
            (json!({"user": ""}), "needs a value for: user"),
            (json!({"user": 1}), "needs a text for user"),
            (json!({"user": "a", "more": "hunter2"}), "asks for: user, password"),
            (json!({"user": "a".repeat(MAX_VALUE + 1)}), "more than 64 KiB"),
        ] {
            let refused = read(given).unwrap_err().to_string();
            assert!(refused.contains(why) && !refused.contains("hunter2"), "{refused}");
        }
    }

    #[test]
    fn values_of_before_stay_where_none_is_given() {
        let entries: Vec<PrSecretEntry> = serde_json::from_value(
            json!([{"name": "user"}, {"name": "password", "autogenerate": true}, {"name": "host"}]),
        )
        .unwrap();
        let known = |name: &str, generated| PrSecretValue { name: name.to_owned(), generated, kept: false };
        let before = [known("user", false), known("password", true), known("gone", false)];
        let read = |given: Value| values(&entries, given.as_object().unwrap(), &before);
        let refused = read(json!({})).unwrap_err().to_string();
        assert!(refused.contains("needs a value for: host"), "{refused}");
        let (told, made) = read(json!({"host": "db", "user": "eve"})).unwrap();
        let told: Vec<_> = told.iter().map(|one| (one.name.as_str(), one.generated, one.kept)).collect();
        assert_eq!(told, [("user", false, false), ("password", true, true), ("host", false, false)]);
        assert_eq!(made.keys().collect::<Vec<_>>(), ["host", "user"], "what stays is not made anew");
    }
}
