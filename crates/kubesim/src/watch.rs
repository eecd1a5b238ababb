//! Watches: a stream of JSON lines that follows one table from a revision on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::auth::User;
use crate::cluster::Inner;
use crate::http::accept::{Accept, Shape};
use crate::request::RequestInfo;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{Change, ChangeKind, text};
use crate::table;
use crate::verbs::Call;
use crate::verbs::read::{Filter, in_version};

/// Most changes taken from the history at once, so that one slow reader holds little.
const BATCH: usize = 256;

struct Following {
    inner: Arc<Inner>,
    res: Arc<Resource>,
    version: usize,
    info: RequestInfo,
    user: User,
    accept: Accept,
    filter: Filter,
    cursor: u64,
    ready: VecDeque<Bytes>,
    changed: watch::Receiver<u64>,
    up: watch::Receiver<bool>,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    first_row: bool,
    done: bool,
}

impl Following {
    fn call(&self) -> Call<'_> {
        Call {
            res: &self.res,
            version: &self.res.versions[self.version],
            info: &self.info,
            user: &self.user,
            agent: "",
        }
    }

    fn show(&mut self, kind: &str, object: &Arc<Value>) {
        let call = self.call();
        let o = in_version(object, call);
        let body = match self.accept.shape {
            Shape::Object => None,
            Shape::Partial => Some(table::partial(&o)),
            Shape::Table => {
                let row = table::row(call, &o, self.accept.include);
                let meta = json!({"resourceVersion": text(&o, "/metadata/resourceVersion")});
                Some(table::table(call, &[row], &meta, self.first_row))
            }
        };
        if self.accept.shape == Shape::Table {
            self.first_row = false;
        }
        let mut line = Vec::with_capacity(512);
        line.extend_from_slice(b"{\"type\":\"");
        line.extend_from_slice(kind.as_bytes());
        line.extend_from_slice(b"\",\"object\":");
        // Writing to memory cannot fail.
        let _ = match &body {
            Some(b) => serde_json::to_writer(&mut line, b),
            None => serde_json::to_writer(&mut line, &*o),
        };
        line.extend_from_slice(b"}\n");
        self.ready.push_back(line.into());
    }

    fn take(&mut self, changes: Vec<Change>) {
        for c in changes {
            self.cursor = c.rv;
            let now = self.filter.matches(&c.object);
            let before = c.before.as_deref().is_some_and(|b| self.filter.matches(b));
            match (c.kind, before, now) {
                (ChangeKind::Deleted, true, _) => self.show("DELETED", &c.object),
                (ChangeKind::Deleted, false, _) | (_, false, false) => {}
                (_, false, true) => self.show("ADDED", &c.object),
                (_, true, true) => self.show("MODIFIED", &c.object),
                (_, true, false) => {
                    // It left the selection: the watcher sees it go, as it was, at the new revision.
                    let mut last = c.before.as_deref().cloned().unwrap_or_default();
                    last["metadata"]["resourceVersion"] = c.rv.to_string().into();
                    self.show("DELETED", &Arc::new(last));
                }
            }
        }
    }

    fn fail(&mut self, e: &ApiError) {
        let line = json!({"type": "ERROR", "object": e.body()});
        self.ready.push_back(format!("{line}\n").into());
        self.done = true;
    }

    fn bookmark(&mut self, initial_end: bool) {
        let call = self.call();
        let mut meta = json!({"resourceVersion": self.cursor.to_string(), "creationTimestamp": null});
        if initial_end {
            meta["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.accept.shape {
            Shape::Object => {
                json!({"kind": call.res.kind, "apiVersion": call.api_version(), "metadata": meta})
            }
            Shape::Partial => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta})
            }
            Shape::Table => {
                let o = json!({"kind": call.res.kind, "apiVersion": call.api_version(), "metadata": meta});
                let row = json!({"cells": [], "object": o});
                table::table(call, &[row], &json!({"resourceVersion": self.cursor.to_string()}), false)
            }
        };
        let line = json!({"type": "BOOKMARK", "object": object});
        self.ready.push_back(format!("{line}\n").into());
    }

    /// The next line; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.done || !*self.up.borrow() {
                return None;
            }
            self.changed.mark_unchanged();
            let changes = self.inner.read(|s| s.changes_after(&self.res.table, self.cursor, BATCH));
            match changes {
                Ok(list) if list.is_empty() => {}
                Ok(list) => {
                    self.take(list);
                    continue;
                }
                Err(oldest) => {
                    let e =
                        ApiError::expired(format!("too old resource version: {} ({oldest})", self.cursor));
                    self.fail(&e);
                    continue;
                }
            }
            let wake = if self.bookmarks { self.next_bookmark.min(self.end) } else { self.end };
            tokio::select! {
                r = self.changed.changed() => if r.is_err() { return None },
                r = self.up.changed() => if r.is_err() { return None },
                () = tokio::time::sleep_until(wake) => {
                    if Instant::now() >= self.end {
                        return None;
                    }
                    // Everything up to the store's revision has been looked at.
                    let (rv, missed) = self.inner.read(|s| {
                        (s.revision(), s.changes_after(&self.res.table, self.cursor, 1).map_or(true, |l| !l.is_empty()))
                    });
                    if !missed {
                        self.cursor = self.cursor.max(rv);
                        self.bookmark(false);
                    }
                    self.next_bookmark = Instant::now() + self.inner.options.bookmark_every;
                }
            }
        }
    }
}

/// Starts a watch.
///
/// # Errors
/// 400 for bad parameters; 422 for options that do not go together. A revision that is too old is reported inside
/// the stream, as the real server does.
pub(crate) fn start(
    inner: &Arc<Inner>,
    call: Call<'_>,
    accept: Accept,
) -> Result<impl Stream<Item = Bytes> + Send + use<>, ApiError> {
    let filter = Filter::of(call)?;
    let wanted = call.info.param("resourceVersion");
    let from: u64 = match wanted {
        "" => 0,
        // The real server answers 500 here and 400 for a list.
        v => v.parse().map_err(|_| {
            ApiError::internal(format!(
                "resourceVersion: Invalid value: {v:?}: strconv.ParseUint: parsing {v:?}: invalid syntax"
            ))
        })?,
    };
    let bookmarks = call.info.flag("allowWatchBookmarks");
    let asked_initial = call.info.param("sendInitialEvents");
    let matching = call.info.param("resourceVersionMatch");
    if asked_initial.is_empty() && !matching.is_empty() {
        return Err(crate::verbs::options_invalid(
            "ListOptions",
            vec![crate::status::Cause::forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )],
        ));
    }
    if !asked_initial.is_empty() && matching != "NotOlderThan" {
        return Err(crate::verbs::options_invalid(
            "ListOptions",
            vec![crate::status::Cause::forbidden(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )],
        ));
    }
    let seconds: u64 = call.info.param("timeoutSeconds").parse().unwrap_or(0);
    let lasts = if seconds == 0 { inner.options.watch_timeout } else { Duration::from_secs(seconds) };
    let table_name = call.res.table.clone();
    let initial = if asked_initial.is_empty() { from == 0 } else { asked_initial == "true" };
    let (changed, cursor, objects) = inner.write(|s| {
        let changed = s.subscribe(&table_name);
        if initial {
            (changed, s.revision(), s.list(&table_name, filter.namespace.as_deref()))
        } else {
            (changed, if from == 0 { s.revision() } else { from }, Vec::new())
        }
    });
    let version = call.res.versions.iter().position(|v| v.name == call.version.name).unwrap_or(0);
    let mut f = Following {
        inner: inner.clone(),
        res: call.res.clone(),
        version,
        info: call.info.clone(),
        user: call.user.clone(),
        accept,
        filter,
        cursor,
        ready: VecDeque::new(),
        changed,
        up: inner.up.subscribe(),
        bookmarks,
        next_bookmark: Instant::now() + inner.options.bookmark_every,
        end: Instant::now() + lasts,
        first_row: true,
        done: false,
    };
    for o in &objects {
        if f.filter.matches(o) {
            f.show("ADDED", o);
        }
    }
    if asked_initial == "true" && bookmarks {
        f.bookmark(true);
    }
    Ok(stream::unfold(f, |mut f| async move { f.next().await.map(|line| (line, f)) }))
}
