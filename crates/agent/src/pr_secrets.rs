//! Secrets that automations of pull requests ask for: written once their pull request is merged, deleted once their instance is
//! removed.
//!
//! # Guarantees
//! - Only a Secret with the label of its pull request is overwritten or deleted; another one stays, and the agent reports that. The Secret
//!   of an upgrade replaces the previous one in one write: it has the values of both, or the previous one is unchanged.
//! - Each step can be repeated: the console sends a Secret until the agent has reported it as done.
//! - Values are in the Secret and nowhere else: not on disk, not in a log, not in a report.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{
    Api, Client,
    api::{DeleteParams, ObjectMeta, PostParams, Preconditions},
};
use plural_core::pr_secret::{MAX_ALL, OWNER, refusal};
use plural_core::project_limits::ProjectLimits;
use plural_kit::Backoff;
use plural_tunnel::v1::{self, secret_outcome::State};
use tokio::sync::Notify;

use crate::agent::Core;

/// Time limit of a request to the API server.
const DEADLINE: Duration = Duration::from_secs(10);
/// Interval of retries for Secrets that cannot be written yet.
const SOON: Duration = Duration::from_secs(2);
const LATE: Duration = Duration::from_mins(5);
/// Label: the manager of an object.
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const MANAGER: &str = "plural-agent";
/// Annotation: its owner.
const PROJECT: &str = "deployments.plural.sh/project";

/// Signals from the rest of the agent to the writer of Secrets.
#[derive(Debug)]
pub(crate) struct PrSecrets {
    /// The agent's own namespace, which no automation may use.
    agent_namespace: String,
    news: Notify,
}

impl PrSecrets {
    pub(crate) fn new(agent_namespace: &str) -> Self {
        Self { agent_namespace: agent_namespace.to_owned(), news: Notify::new() }
    }

    /// The console has work.
    pub(crate) fn wake(&self) {
        self.news.notify_one();
    }
}

/// The result of one Secret.
type Outcome = (State, String);

/// Carries out the console's work, without end.
pub(crate) async fn run(core: Arc<Core>, client: Client) {
    let mut backoff = Backoff::new(SOON, LATE);
    let mut wanted: Vec<v1::WantedSecret> = Vec::new();
    // Most clusters have none: then nothing is requested.
    while core.desired.cluster().is_none_or(|cluster| cluster.secrets == 0) {
        core.pr_secrets.news.notified().await;
    }
    loop {
        let mut outcomes = Vec::with_capacity(wanted.len());
        for one in std::mem::take(&mut wanted) {
            let (state, message) = step(&client, &one, &core.pr_secrets.agent_namespace).await;
            tracing::info!(pull_request.id = %one.id, secret.namespace = %one.namespace, secret.name = %one.name, ?state, why = message, "a Secret of an automation");
            outcomes.push(v1::SecretOutcome { id: one.id, state: state.into(), message });
        }
        let all_wait = outcomes.iter().all(|one| one.state() == State::Waits) && !outcomes.is_empty();
        match core.console.secrets(v1::SecretsRequest { outcomes, changes: true }).await {
            Ok(answer) => wanted = answer.secrets,
            // A console of an earlier build wants none.
            Err(error) if error.is_unknown_call() => {}
            Err(error) => {
                // What is done already is repeated, and reported then.
                tracing::debug!(%error, "cannot ask the console for Secrets of automations");
                tokio::time::sleep(backoff.next_wait()).await;
                continue;
            }
        }
        if wanted.is_empty() {
            backoff.reset();
            core.pr_secrets.news.notified().await;
        } else if all_wait {
            tokio::select! {
                () = core.pr_secrets.news.notified() => backoff.reset(),
                () = tokio::time::sleep(backoff.next_wait()) => {}
            }
        } else {
            backoff.reset();
        }
    }
}

async fn step(client: &Client, wanted: &v1::WantedSecret, agent_namespace: &str) -> Outcome {
    let api: Api<Secret> = Api::namespaced(client.clone(), &wanted.namespace);
    if wanted.gone {
        return delete(&api, wanted).await;
    }
    if wanted.namespace == agent_namespace {
        let why = format!("refused: namespace {agent_namespace} is the agent's own");
        return (State::Waits, why);
    }
    let (project, limits) = limits(wanted.limits.as_ref());
    if let Some(why) = refusal(&project, &limits, &wanted.namespace) {
        return (State::Waits, format!("refused: {why}"));
    }
    write(&api, wanted, &project).await
}

/// The project's limits that apply to a Secret.
fn limits(limits: Option<&v1::ProjectLimits>) -> (String, ProjectLimits) {
    let Some(limits) = limits else { return (String::new(), ProjectLimits::default()) };
    let rules = ProjectLimits {
        namespaces: limits.namespaces.clone(),
        allowed_kinds: limits.allowed_kinds.clone(),
        denied_kinds: limits.denied_kinds.clone(),
        require_service_account: limits.require_service_account,
        ..ProjectLimits::default()
    };
    (limits.project.clone(), rules)
}

async fn write(api: &Api<Secret>, wanted: &v1::WantedSecret, project: &str) -> Outcome {
    let mut secret = secret(wanted, project);
    let v1::WantedSecret { id, namespace, name, previous, kept, .. } = wanted;
    // Only the existing Secret has the values to keep.
    if kept.is_empty() {
        match within(api.create(&PostParams::default(), &secret)).await {
            Ok(_) => return (State::Written, String::new()),
            Err(Failure { code: 409, .. }) => {}
            Err(Failure { code: 404, .. }) => {
                return (State::Waits, format!("namespace {namespace} is not there yet"));
            }
            Err(failure) => return (State::Waits, failure.words),
        }
    }
    let mut found = match within(api.get(name)).await {
        Ok(found) => found,
        Err(Failure { code: 404, .. }) if !kept.is_empty() => {
            let why = format!(
                "{namespace}/{name} is not there any more, and its values were in it alone: make it again with {}, and with the label {OWNER}={previous}",
                kept.join(", ")
            );
            return (State::Waits, why);
        }
        Err(failure) => return (State::Waits, failure.words),
    };
    let takes = !previous.is_empty() && is_ours(&found, previous);
    if !is_ours(&found, id) && !takes {
        let why = format!(
            "refused: {namespace}/{name} is there already and is not of this pull request; delete it, or have the automation name another one"
        );
        return (State::Waits, why);
    }
    let there = found.data.take().unwrap_or_default();
    let mut data = secret.data.take().unwrap_or_default();
    let missing: Vec<&str> =
        kept.iter().filter(|name| !there.contains_key(*name)).map(String::as_str).collect();
    if !missing.is_empty() {
        let why = format!(
            "{namespace}/{name} does not have {} any more, which nobody gave anew: put it there",
            missing.join(", ")
        );
        return (State::Waits, why);
    }
    data.extend(kept.iter().filter_map(|name| Some((name.clone(), there.get(name)?.clone()))));
    if there == data && !takes {
        return (State::Written, String::new());
    }
    // The console knows the size of the given values only.
    if !kept.is_empty() && data.values().map(|value| value.0.len()).sum::<usize>() > MAX_ALL {
        let why = format!(
            "{namespace}/{name} would have more than {} KiB with the values that stay: upgrade once more, with all values, or with shorter ones",
            MAX_ALL >> 10
        );
        return (State::Waits, why);
    }
    // With the resource version that was read: a concurrent write leads to a retry.
    found.data = Some(data);
    found.metadata.labels.get_or_insert_default().insert(OWNER.to_owned(), id.clone());
    match within(api.replace(name, &PostParams::default(), &found)).await {
        Ok(_) => (State::Written, String::new()),
        Err(failure) => (State::Waits, failure.words),
    }
}

async fn delete(api: &Api<Secret>, wanted: &v1::WantedSecret) -> Outcome {
    let found = match within(api.get(&wanted.name)).await {
        Ok(found) => found,
        Err(Failure { code: 404, .. }) => return (State::Deleted, String::new()),
        Err(failure) => return (State::Waits, failure.words),
    };
    if !is_ours(&found, &wanted.id) {
        return (State::Deleted, "left in place: it is not of this pull request".to_owned());
    }
    let ObjectMeta { uid, resource_version, .. } = found.metadata;
    let exactly = DeleteParams {
        preconditions: Some(Preconditions { uid, resource_version }),
        ..DeleteParams::default()
    };
    match within(api.delete(&wanted.name, &exactly)).await {
        Ok(_) | Err(Failure { code: 404, .. }) => (State::Deleted, String::new()),
        Err(failure) => (State::Waits, failure.words),
    }
}

fn secret(wanted: &v1::WantedSecret, project: &str) -> Secret {
    let text = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let values = wanted.values.iter();
    Secret {
        metadata: ObjectMeta {
            name: Some(wanted.name.clone()),
            namespace: Some(wanted.namespace.clone()),
            labels: Some([text(OWNER, &wanted.id), text(MANAGED_BY, MANAGER)].into()),
            annotations: Some(BTreeMap::from([text(PROJECT, project)])),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        data: Some(
            values.map(|(name, value)| (name.clone(), ByteString(value.clone().into_bytes()))).collect(),
        ),
        ..Secret::default()
    }
}

/// Whether a Secret was created for this pull request.
fn is_ours(found: &Secret, id: &str) -> bool {
    found.metadata.labels.as_ref().and_then(|labels| labels.get(OWNER)).is_some_and(|owner| owner == id)
}

/// Why the API server refused.
struct Failure {
    /// HTTP status; 0: no answer.
    code: u16,
    /// In words. The server's own message is left out: admission may quote what it was sent.
    words: String,
}

async fn within<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => {
            let reason = &status.reason;
            Err(Failure {
                code: status.code,
                words: format!("the cluster's API server answers {} {reason}", status.code),
            })
        }
        Ok(Err(_)) => Err(Failure { code: 0, words: "the cluster's API server cannot be asked".to_owned() }),
        Err(_) => Err(Failure {
            code: 0,
            words: format!("no answer of the cluster's API server within {DEADLINE:?}"),
        }),
    }
}
