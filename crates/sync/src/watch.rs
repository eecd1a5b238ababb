//! One watch per kind, over all namespaces, of what carries our label.
//!
//! Written here and not taken from kube-runtime's `watcher`: the view of a kind changes between metadata and
//! whole objects with its health rules, without a gap in what is known; an object that cannot be read is
//! skipped; a list is repeated from time to time, because it alone shows a missed deletion; and all requests
//! share one limit of concurrency and limits of bytes ([`crate::api`]), where `kube::Client` reads a line of
//! a watch whole, however long it is.

use std::{collections::HashSet, sync::Arc, time::Duration};

use plural_kit::Backoff;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};

use crate::{
    api::{ApiError, View},
    custom_health,
    discovery::Resource,
    engine::Inner,
    health::Rules,
    key::{GroupKind, ObjectKey},
    ownership::{self, SELECTOR},
};

/// How far a watch has come.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Watching {
    /// The first list is not read.
    Starting,
    /// What is known is what the cluster holds, a moment ago.
    Live,
    /// It cannot be read; tried again.
    Failing(String),
    /// The kind is not served any more.
    Ended,
}

/// Keeps the state of `kind` true until the kind is not served any more.
pub(crate) async fn run(inner: Arc<Inner>, kind: GroupKind, told: watch::Sender<Watching>) {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
    loop {
        match inner.discovery.preferred(&inner.api, &kind).await {
            Ok(Some(resource)) => {
                let error = list_and_watch(&inner, &kind, &resource, &told, &mut backoff).await;
                if error.is_not_found() && !still_served(&inner, &kind).await {
                    break;
                }
                tracing::debug!(%kind, %error, "a watch ended; starting again");
                told.send_if_modified(|state| {
                    let failing = *state == Watching::Starting;
                    if failing {
                        *state = Watching::Failing(error.to_string());
                    }
                    failing
                });
            }
            Ok(None) => break,
            Err(error) => {
                told.send_if_modified(|state| {
                    let failing = *state == Watching::Starting;
                    if failing {
                        *state = Watching::Failing(error.to_string());
                    }
                    failing
                });
            }
        }
        tokio::time::sleep(backoff.next_wait()).await;
    }
    // With its definition, every object of the kind is gone.
    inner.with_state(|state| {
        for key in state.missing_from_list(&kind, &HashSet::new(), 0) {
            state.observe_gone(&key, 0);
        }
    });
    told.send_replace(Watching::Ended);
}

async fn still_served(inner: &Inner, kind: &GroupKind) -> bool {
    // An API server that cannot be asked has not said that the kind is gone.
    inner.discovery.refresh_now(&inner.api).await.is_err() || inner.discovery.known(kind).is_some()
}

/// Lists, then follows changes; comes back only with the reason why it cannot go on.
async fn list_and_watch(
    inner: &Inner,
    kind: &GroupKind,
    resource: &Resource,
    told: &watch::Sender<Watching>,
    backoff: &mut Backoff,
) -> ApiError {
    let path = resource.collection();
    let check_every = inner.options.full_check_every.mul_f64(0.75 + inner.jitter(kind) * 0.5);
    let mut news = inner.rules.subscribe();
    loop {
        let rules = Arc::clone(&news.borrow_and_update());
        let enough = ownership::metadata_is_enough(kind) && !rules.has_script_for(kind);
        let view = if enough { View::Metadata } else { View::Whole };
        let list = match inner.api.list(&path, &format!("{SELECTOR}&resourceVersion=0"), view).await {
            Ok(list) => list,
            Err(error) => return error,
        };
        let mut version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        take_list(inner, kind, list, &version, &rules).await;
        told.send_replace(Watching::Live);
        backoff.reset();
        let next_check = Instant::now() + check_every;
        // A watch that ends by its own timeout goes on where it was; only an expired version, or
        // the periodic check, needs a new list.
        while Instant::now() < next_check {
            let followed = tokio::select! {
                followed = follow(inner, kind, &path, &mut version, view, next_check) => followed,
                // What is known was judged by other rules: list it anew.
                () = other_rules(&mut news, &rules, kind) => break,
            };
            match followed {
                Ok(()) => {}
                Err(error) if error.code() == 410 => break,
                Err(error) if error.is_transient() => {
                    if error.code() == 429 || error.code() == 0 {
                        tokio::time::sleep(backoff.next_wait()).await;
                    }
                    if backoff.attempts() > 5 {
                        return error;
                    }
                }
                Err(error) => return error,
            }
        }
    }
}

/// Resolves when the rules for `kind` are not `known` any more.
async fn other_rules(news: &mut watch::Receiver<Arc<Rules>>, known: &Rules, kind: &GroupKind) {
    loop {
        if news.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        if news.borrow_and_update().of_kind(kind) != known.of_kind(kind) {
            return;
        }
    }
}

async fn take_list(inner: &Inner, kind: &GroupKind, mut list: Value, version: &str, rules: &Arc<Rules>) {
    let items = match list["items"].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    };
    drop(list);
    let judged = custom_health::judge(rules, kind, items).await;
    inner.with_state(|state| {
        let mut listed = HashSet::new();
        for (object, health) in judged {
            let object = &object;
            // One object that cannot be understood is skipped; the others go on.
            if let Some(key) = ObjectKey::of_live(kind, object) {
                listed.insert(key);
                state.observe_as(kind, object, health);
            } else {
                tracing::warn!(%kind, "a listed object has no name");
            }
        }
        let version = version.parse().unwrap_or(0);
        for key in state.missing_from_list(kind, &listed, version) {
            state.observe_gone(&key, version);
        }
    });
}

/// Follows one watch until the server ends it.
async fn follow(
    inner: &Inner,
    kind: &GroupKind,
    path: &str,
    version: &mut String,
    view: View,
    next_check: Instant,
) -> Result<(), ApiError> {
    let left = next_check.saturating_duration_since(Instant::now()).as_secs();
    let seconds = (200 + (inner.jitter(kind) * 100.0) as u64).min(left.max(1));
    let query =
        format!("{SELECTOR}&resourceVersion={version}&allowWatchBookmarks=true&timeoutSeconds={seconds}");
    let mut lines = inner.api.watch(path, &query, view).await?;
    // Past its own timeout a watch is half-open: the server is gone without a word.
    let deadline = Instant::now() + Duration::from_secs(seconds + 15);
    loop {
        let Ok(line) = tokio::time::timeout_at(deadline, lines.next()).await else {
            return Err(ApiError::Unreachable("a watch went silent".to_owned()));
        };
        let Some(mut event) = line? else { return Ok(()) };
        let object = event["object"].take();
        let seen = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => {
                let rules = Arc::clone(&inner.rules.borrow());
                let seen = seen.to_owned();
                for (object, health) in custom_health::judge(&rules, kind, vec![object]).await {
                    inner.with_state(|state| state.observe_as(kind, &object, health));
                }
                if !seen.is_empty() {
                    *version = seen;
                }
                continue;
            }
            Some("DELETED") => {
                if let Some(key) = ObjectKey::of_live(kind, &object) {
                    inner.with_state(|state| state.observe_gone(&key, seen.parse().unwrap_or(0)));
                }
            }
            Some("BOOKMARK") => {}
            _ => {
                return Err(ApiError::Status {
                    code: object["code"].as_u64().map_or(500, |code| code as u16),
                    reason: object["reason"].as_str().unwrap_or_default().to_owned(),
                    message: object["message"].as_str().unwrap_or("a watch failed").to_owned(),
                    fields: Vec::new(),
                    retry_after: None,
                });
            }
        }
        if !seen.is_empty() {
            seen.clone_into(version);
        }
    }
}
