//! One look at an object: its children by their owner references, and the last warning.

use std::{collections::HashSet, sync::Arc};

use plural_core::component::ComponentState;
use serde_json::Value;

use super::{Child, Found, MAX_CHILDREN, Work};
use crate::{
    api::{ApiError, View, encode},
    custom_health::clock_ms,
    engine::Inner,
    health::{Health, HealthStatus, not_ready_since},
    key::{GroupKind, ObjectKey},
};

/// Objects of one kind that are read in one look.
const PAGE: usize = 500;
/// Jobs of one `CronJob` whose Pods are looked at, the newest.
const JOBS: usize = 10;
/// A Pod that no node takes, or that fails, for so long will hardly get well by itself.
const PATIENCE_MS: i64 = 5 * 60 * 1000;
/// Objects between an operator's resource and its Pods.
const MAX_DEPTH: usize = 4;
/// Warnings of one object that are read.
const EVENTS: usize = 50;

/// What operators make: looked for below resources of kinds that nobody here knows.
const MADE_BY_OPERATORS: [(&str, &str); 6] = [
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("apps/v1", "ReplicaSet"),
    ("v1", "Pod"),
];

/// A live object that was read, with its health.
struct Seen {
    child: Child,
    health: Health,
    /// How long it has not been ready, in milliseconds.
    unready_ms: i64,
    created: String,
}

/// Nothing when the API server did not answer.
pub(super) async fn look(inner: &Arc<Inner>, work: &Work) -> Option<Found> {
    let mut seen = match children(inner, work).await {
        Ok(seen) => seen,
        Err(error) => {
            tracing::debug!(object = %work.key.words(), %error, "cannot read what it owns");
            return None;
        }
    };
    let hopeless = has_no_deadline(&work.key.kind)
        && seen.iter().any(|seen| {
            seen.child.key.kind.is("", "Pod")
                && seen.health.status == HealthStatus::Degraded
                && seen.unready_ms >= PATIENCE_MS
        });
    let well = matches!(work.status, HealthStatus::Healthy | HealthStatus::Suspended);
    let why = if well { String::new() } else { why(inner, work, &seen).await };
    // Parents before their children, so that a reader meets each owner first; when there are too many,
    // those that are well go.
    if seen.len() > MAX_CHILDREN {
        seen.sort_by_key(|seen| usize::from(seen.child.state == Some(ComponentState::Running)));
        seen.truncate(MAX_CHILDREN);
    }
    let mut children: Vec<Child> = seen.into_iter().map(|seen| seen.child).collect();
    children.sort_by(|a, b| {
        let pod = |child: &Child| child.key.kind.is("", "Pod");
        (pod(a), &a.key).cmp(&(pod(b), &b.key))
    });
    Some(Found { children, why, hopeless })
}

/// Workloads whose own status never says that their rollout is stuck.
fn has_no_deadline(kind: &GroupKind) -> bool {
    kind.is("apps", "StatefulSet")
        || kind.is("apps", "DaemonSet")
        || kind.is("apps", "ReplicaSet")
        || kind.is("", "ReplicationController")
}

async fn children(inner: &Inner, work: &Work) -> Result<Vec<Seen>, ApiError> {
    let owners = HashSet::from([work.uid.clone()]);
    let kind = &work.key.kind;
    let namespace = work.key.namespace.as_str();
    let selector = work.selector.as_deref();
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("apps", "Deployment") | ("argoproj.io", "Rollout") => {
            let Some(selector) = selector else { return Ok(Vec::new()) };
            let mut seen = Vec::new();
            for object in owned(inner, ("apps/v1", "ReplicaSet"), namespace, selector, &owners).await? {
                // Revisions that are kept for a rollback have no Pods, and are of no interest.
                if object["spec"]["replicas"] != 0 || object["status"]["replicas"].as_i64().unwrap_or(0) > 0 {
                    seen.extend(judge(inner, "apps/v1", "ReplicaSet", &object, &owners).await);
                }
            }
            let sets = uids(&seen);
            pods(inner, namespace, selector, &sets, &mut seen).await?;
            Ok(seen)
        }
        (
            "apps" | "" | "batch",
            "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" | "Job",
        ) => {
            let Some(selector) = selector else { return Ok(Vec::new()) };
            let mut seen = Vec::new();
            pods(inner, namespace, selector, &owners, &mut seen).await?;
            Ok(seen)
        }
        ("batch", "CronJob") => cron_job(inner, namespace, &owners).await,
        _ if super::may_own(kind) && !namespace.is_empty() => operated(inner, work).await,
        _ => Ok(Vec::new()),
    }
}

async fn pods(
    inner: &Inner,
    namespace: &str,
    selector: &str,
    owners: &HashSet<String>,
    seen: &mut Vec<Seen>,
) -> Result<(), ApiError> {
    if owners.is_empty() {
        return Ok(());
    }
    for object in owned(inner, ("v1", "Pod"), namespace, selector, owners).await? {
        seen.extend(judge(inner, "v1", "Pod", &object, owners).await);
    }
    Ok(())
}

async fn cron_job(inner: &Inner, namespace: &str, owners: &HashSet<String>) -> Result<Vec<Seen>, ApiError> {
    let mut seen = Vec::new();
    for object in owned(inner, ("batch/v1", "Job"), namespace, "", owners).await? {
        seen.extend(judge(inner, "batch/v1", "Job", &object, owners).await);
    }
    seen.sort_by(|a, b| b.created.cmp(&a.created));
    seen.truncate(JOBS);
    let jobs = uids(&seen);
    let names: Vec<&str> = seen.iter().map(|seen| seen.child.key.name.as_str()).collect();
    let selector = format!("job-name in ({})", names.join(","));
    pods(inner, namespace, &selector, &jobs, &mut seen).await?;
    Ok(seen)
}

/// The workloads and Pods below a resource of an operator: metadata is read of all in the namespace,
/// whole objects only of those that belong to it.
async fn operated(inner: &Inner, work: &Work) -> Result<Vec<Seen>, ApiError> {
    let namespace = work.key.namespace.as_str();
    let mut candidates = Vec::new();
    for (api_version, kind) in MADE_BY_OPERATORS {
        let (group_kind, _) = GroupKind::parse(api_version, kind);
        let Some(resource) = inner.discovery.preferred(&inner.api, &group_kind).await? else { continue };
        let path = resource.collection_in(namespace);
        let query = format!("limit={PAGE}&resourceVersion=0");
        let mut list = inner.api.list(&path, &query, View::Metadata).await?;
        if let Value::Array(items) = list["items"].take() {
            let owned = items.into_iter().filter(|item| controller(item).is_some());
            candidates.extend(owned.map(|item| (api_version, kind, item)));
        }
    }
    let mut owners = HashSet::from([work.uid.clone()]);
    let mut chosen = Vec::new();
    for _ in 0..MAX_DEPTH {
        let (below, rest): (Vec<_>, Vec<_>) = candidates
            .into_iter()
            .partition(|(_, _, item)| controller(item).is_some_and(|owner| owners.contains(owner)));
        candidates = rest;
        if below.is_empty() || chosen.len() >= MAX_CHILDREN {
            break;
        }
        owners.extend(
            below.iter().filter_map(|(_, _, item)| item["metadata"]["uid"].as_str()).map(str::to_owned),
        );
        chosen.extend(below);
    }
    let mut seen = Vec::new();
    for (api_version, kind, item) in chosen.into_iter().take(MAX_CHILDREN) {
        let (group_kind, _) = GroupKind::parse(api_version, kind);
        let Some(key) = ObjectKey::of_live(&group_kind, &item) else { continue };
        let Some(resource) = inner.discovery.preferred(&inner.api, &group_kind).await? else { continue };
        match inner.api.get(&resource.object(&key)).await {
            Ok(object) if object["spec"]["replicas"] != 0 => {
                seen.extend(judge(inner, api_version, kind, &object, &owners).await);
            }
            Ok(_) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(seen)
}

/// Objects of a kind in a namespace that one of `owners` controls.
async fn owned(
    inner: &Inner,
    (api_version, kind): (&str, &str),
    namespace: &str,
    selector: &str,
    owners: &HashSet<String>,
) -> Result<Vec<Value>, ApiError> {
    let (group_kind, _) = GroupKind::parse(api_version, kind);
    let Some(resource) = inner.discovery.preferred(&inner.api, &group_kind).await? else {
        return Ok(Vec::new());
    };
    let mut query = format!("limit={PAGE}&resourceVersion=0");
    if !selector.is_empty() {
        query = format!("{query}&labelSelector={}", encode(selector));
    }
    let mut list = inner.api.list(&resource.collection_in(namespace), &query, View::Whole).await?;
    let Value::Array(items) = list["items"].take() else { return Ok(Vec::new()) };
    let ours = |item: &Value| controller(item).is_some_and(|owner| owners.contains(owner));
    Ok(items.into_iter().filter(ours).collect())
}

/// The uid of the owner that looks after the object, or of its only owner.
fn controller(object: &Value) -> Option<&str> {
    let owners = object["metadata"]["ownerReferences"].as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true).or_else(|| owners.first())?;
    owner["uid"].as_str()
}

fn uids(seen: &[Seen]) -> HashSet<String> {
    seen.iter().map(|seen| seen.child.uid.clone()).collect()
}

async fn judge(
    inner: &Inner,
    api_version: &str,
    kind: &str,
    object: &Value,
    owners: &HashSet<String>,
) -> Option<Seen> {
    let (group_kind, version) = GroupKind::parse(api_version, kind);
    let key = ObjectKey::of_live(&group_kind, object)?;
    let parent_uid = controller(object).filter(|owner| owners.contains(*owner))?.to_owned();
    let rules = Arc::clone(&inner.rules.borrow());
    let (_, mut health) =
        crate::custom_health::judge(&rules, &group_kind, vec![object.clone()]).await.next()?;
    let unready_ms = not_ready_since(object)
        .and_then(|since| chrono::DateTime::parse_from_rfc3339(since).ok())
        .map_or(0, |since| clock_ms() - since.timestamp_millis());
    let unscheduled = object["status"]["phase"] == "Pending" && object["spec"]["nodeName"].is_null();
    if group_kind.is("", "Pod")
        && health.status == HealthStatus::Progressing
        && unscheduled
        && unready_ms >= PATIENCE_MS
    {
        health.status = HealthStatus::Degraded;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Some(Seen {
        created: text(&object["metadata"]["creationTimestamp"]),
        unready_ms,
        child: Child {
            key,
            version,
            uid: text(&object["metadata"]["uid"]),
            parent_uid,
            state: health.state(),
            message: health.message.clone(),
        },
        health,
    })
}

/// What speaks against the object: the worst of its Pods, and the last warning about it or them.
async fn why(inner: &Inner, work: &Work, seen: &[Seen]) -> String {
    let rank = |seen: &&Seen| match seen.health.status {
        HealthStatus::Degraded => 3,
        HealthStatus::Unknown => 2,
        HealthStatus::Progressing | HealthStatus::Missing => 1,
        HealthStatus::Suspended | HealthStatus::Healthy => 0,
    };
    // Of two that are as bad, the Pod says more than what made it.
    let worst = seen
        .iter()
        .filter(|seen| rank(seen) > 0)
        .max_by_key(|seen| (rank(seen), seen.child.key.kind.is("", "Pod")));
    let mut words = worst.map_or_else(String::new, |worst| {
        format!("{} {}: {}", worst.child.key.kind.kind, worst.child.key.name, worst.health.message)
    });
    let mut about: Vec<&str> = vec![&work.uid];
    about.extend(worst.map(|worst| worst.child.uid.as_str()));
    about.extend(worst.map(|worst| worst.child.parent_uid.as_str()).filter(|uid| *uid != work.uid));
    let mut last: Option<Warning> = None;
    for uid in about {
        match warning(inner, &work.key.namespace, uid).await {
            Ok(found) => last = last.max(found),
            Err(error) => {
                tracing::debug!(object = %work.key.words(), %error, "cannot read its events");
                break;
            }
        }
    }
    if let Some(Warning { words: said, .. }) = last
        && !words.contains(&said)
    {
        let said = format!("last warning: {said}");
        words = if words.is_empty() { said } else { format!("{words}; {said}") };
    }
    words
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Warning {
    /// RFC 3339, so that later ones are greater.
    at: String,
    words: String,
}

/// The last warning event about the object with this uid.
async fn warning(inner: &Inner, namespace: &str, uid: &str) -> Result<Option<Warning>, ApiError> {
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    let selector = encode(&format!("involvedObject.uid={uid},type=Warning"));
    let path = format!("/api/v1/namespaces/{}/events", encode(namespace));
    let list =
        inner.api.list(&path, &format!("fieldSelector={selector}&limit={EVENTS}"), View::Whole).await?;
    let warnings = list["items"].as_array().into_iter().flatten().map(|event| {
        let times = [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"]];
        let at = times.into_iter().find_map(Value::as_str).unwrap_or_default().to_owned();
        let reason = event["reason"].as_str().unwrap_or("warning");
        Warning { at, words: format!("{reason}: {}", event["message"].as_str().unwrap_or_default().trim()) }
    });
    Ok(warnings.max())
}
