//! `CustomHealth` objects of the cluster become rules, at once.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use plural_kit::Backoff;
use serde_json::Value;

use crate::{
    api::{ApiError, View},
    discovery::Resource,
    engine::Inner,
    health::{Health, Rule, Rules},
    key::GroupKind,
};

/// How often to look whether the kind is served by now, in what is known anyway.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// After so many looks the API server itself is asked.
const LOOKS_BEFORE_ASKING: u32 = 24;
/// A cluster with more rules than this uses the first ones by name.
const MAX_RULES: usize = 500;
/// A longer script is not used.
const MAX_SCRIPT_BYTES: usize = 64 << 10;

fn kind() -> GroupKind {
    GroupKind { group: "deployments.plural.sh".to_owned(), kind: "CustomHealth".to_owned() }
}

/// Reads the rules before the first object is judged. A cluster that has no such kind has none.
pub(crate) async fn load(inner: &Inner) -> Result<(), ApiError> {
    if let Some(resource) = inner.discovery.preferred(&inner.api, &kind()).await? {
        list(inner, &resource).await?;
    }
    Ok(())
}

/// Keeps the rules true for ever.
pub(crate) async fn run(inner: Arc<Inner>) {
    let mut backoff = Backoff::new(Duration::from_millis(500), Duration::from_secs(30));
    let mut looks = 0;
    loop {
        let served = inner.discovery.known(&kind()).and_then(|versions| versions.into_iter().next());
        let Some(resource) = served else {
            inner.set_rules(Vec::new());
            looks += 1;
            if looks >= LOOKS_BEFORE_ASKING {
                looks = 0;
                let _ = inner.discovery.refresh_now(&inner.api).await;
            }
            tokio::time::sleep(LOOK_EVERY.mul_f64(0.8 + 0.4 * inner.jitter(&kind()))).await;
            continue;
        };
        looks = 0;
        let error = follow(&inner, &resource, &mut backoff).await;
        if error.is_not_found() {
            let _ = inner.discovery.refresh_now(&inner.api).await;
        }
        tracing::debug!(%error, "the watch of CustomHealth ended; starting again");
        tokio::time::sleep(backoff.next_wait()).await;
    }
}

async fn list(inner: &Inner, resource: &Resource) -> Result<(BTreeMap<String, Value>, String), ApiError> {
    let list = inner.api.list(&resource.collection(), "resourceVersion=0", View::Whole).await?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let mut found = BTreeMap::new();
    for object in list["items"].as_array().into_iter().flatten() {
        if let Some(name) = object["metadata"]["name"].as_str() {
            found.insert(name.to_owned(), object.clone());
        }
    }
    use_rules(inner, &found);
    Ok((found, version))
}

async fn follow(inner: &Inner, resource: &Resource, backoff: &mut Backoff) -> ApiError {
    let (mut found, mut version) = match list(inner, resource).await {
        Ok(listed) => listed,
        Err(error) => return error,
    };
    backoff.reset();
    loop {
        let seconds = 300;
        let query = format!("resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds={seconds}");
        let mut lines = match inner.api.watch(&resource.collection(), &query, View::Whole).await {
            Ok(lines) => lines,
            Err(error) => return error,
        };
        // Past its own timeout a watch is half-open: the server is gone without a word.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds + 15);
        loop {
            let event = match tokio::time::timeout_at(deadline, lines.next()).await {
                Ok(Ok(Some(event))) => event,
                Ok(Ok(None)) => break,
                Ok(Err(error)) => return error,
                Err(_) => return ApiError::Unreachable("a watch went silent".to_owned()),
            };
            let object = &event["object"];
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            match event["type"].as_str() {
                Some("ADDED" | "MODIFIED") => {
                    found.insert(name.to_owned(), object.clone());
                    use_rules(inner, &found);
                }
                Some("DELETED") => {
                    found.remove(name);
                    use_rules(inner, &found);
                }
                Some("BOOKMARK") => {}
                _ => return ApiError::Unreachable("the API server ended the watch".to_owned()),
            }
            if let Some(seen) = object["metadata"]["resourceVersion"].as_str() {
                seen.clone_into(&mut version);
            }
        }
    }
}

fn use_rules(inner: &Inner, found: &BTreeMap<String, Value>) {
    let mut rules = Vec::new();
    for object in found.values() {
        match Rule::of(object) {
            Some(rule) if rule.script.len() > MAX_SCRIPT_BYTES => {
                tracing::warn!(
                    rule = %rule.name,
                    "the script of this CustomHealth is too long and is not used"
                );
            }
            Some(rule) => rules.push(rule),
            None => {}
        }
    }
    if rules.len() > MAX_RULES {
        tracing::warn!(rules = rules.len(), used = MAX_RULES, "too many CustomHealth objects");
        rules.truncate(MAX_RULES);
    }
    inner.set_rules(rules);
}

/// Live objects of one kind with their health by the cluster's rules; scripts run off the runtime's
/// threads.
pub(crate) async fn judge(
    rules: &Arc<Rules>,
    kind: &GroupKind,
    objects: Vec<Value>,
) -> impl Iterator<Item = (Value, Health)> {
    let clock_ms = clock_ms();
    let healths: Vec<Health>;
    let objects = if rules.has_script_for(kind) {
        let (rules, kind, objects) = (Arc::clone(rules), kind.clone(), Arc::new(objects));
        let seen = Arc::clone(&objects);
        let judged = tokio::task::spawn_blocking(move || {
            seen.iter().map(|object| rules.health(&kind, object, clock_ms)).collect()
        });
        // Whatever happens to a script, its object was there.
        healths = judged.await.unwrap_or_else(|_| {
            vec![Health::unknown("its health script failed unexpectedly"); objects.len()]
        });
        Arc::unwrap_or_clone(objects)
    } else {
        healths = objects.iter().map(|object| rules.health(kind, object, clock_ms)).collect();
        objects
    };
    objects.into_iter().zip(healths)
}

/// Milliseconds since 1970.
pub(crate) fn clock_ms() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}
