//! Pod logs: lines that a container could have written since it started.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::StreamExt as _;
use futures::stream::{self, Stream};
use http::Response;
use serde_json::Value;

use crate::cluster::Inner;
use crate::http::reply::{self, Body};
use crate::status::ApiError;
use crate::store::text;
use crate::verbs::{Call, read};

/// One line per this many seconds.
const EVERY: i64 = 5;
/// Most lines one answer starts with.
const MOST: i64 = 10_000;

fn line(at: DateTime<Utc>, n: i64, container: &str, timestamps: bool) -> String {
    let words = match n {
        0 => "starting".to_owned(),
        1 => "ready to serve".to_owned(),
        n => format!("tick {n} ok"),
    };
    if timestamps {
        format!("{} {container}: {words}\n", at.to_rfc3339_opts(chrono::SecondsFormat::Nanos, true))
    } else {
        format!("{container}: {words}\n")
    }
}

/// A container that has started, of a Pod.
pub(crate) struct Container {
    pod: Arc<Value>,
    table: Arc<str>,
    name: String,
    start: DateTime<Utc>,
    /// When it ended; empty while it runs.
    finished: String,
    /// It cannot go on: it crashes again and again.
    crashed: bool,
}

impl Container {
    /// The container that a request means.
    ///
    /// # Errors
    /// 404; 400 when the container is not named and there are several, is not known, or has not started.
    pub(crate) fn find(inner: &Inner, call: Call<'_>) -> Result<Self, ApiError> {
        let pod = inner.read(|s| read::get(s, call))?;
        let name = call.info.name.as_str();
        let names: Vec<&str> = ["containers", "initContainers"]
            .iter()
            .flat_map(|l| pod.pointer(&format!("/spec/{l}")).and_then(Value::as_array).into_iter().flatten())
            .map(|c| text(c, "/name"))
            .collect();
        let wanted = call.info.param("container");
        let main = pod.pointer("/spec/containers").and_then(Value::as_array).map_or(0, Vec::len);
        let container = if !wanted.is_empty() {
            wanted
        } else if main == 1 {
            names.first().copied().unwrap_or_default()
        } else {
            return Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                names.join(" ")
            )));
        };
        if !names.contains(&container) {
            return Err(ApiError::bad_request(format!("container {container} is not valid for pod {name}")));
        }
        let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
        let status = statuses.into_iter().flatten().find(|c| text(c, "/name") == container);
        let waiting = status.map_or("ContainerCreating", |s| text(s, "/state/waiting/reason"));
        let started = text(&pod, "/status/startTime");
        let crashed = waiting == "CrashLoopBackOff";
        if (!waiting.is_empty() && !crashed) || started.is_empty() {
            let why = if waiting.is_empty() { "ContainerCreating" } else { waiting };
            return Err(ApiError::bad_request(format!(
                "container \"{container}\" in pod \"{name}\" is waiting to start: {why}"
            )));
        }
        let start =
            DateTime::parse_from_rfc3339(started).map_or_else(|_| Utc::now(), |t| t.with_timezone(&Utc));
        let finished = status.map_or("", |s| text(s, "/state/terminated/finishedAt")).to_owned();
        let name = container.to_owned();
        Ok(Self { table: call.res.table.clone(), name, start, finished, crashed, pod })
    }

    /// Its Pod's phase.
    pub(crate) fn phase(&self) -> &str {
        text(&self.pod, "/status/phase")
    }

    /// An annotation of its Pod, or "".
    pub(crate) fn annotation(&self, name: &str) -> &str {
        let annotations = self.pod.pointer("/metadata/annotations");
        annotations.and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or_default()
    }

    /// When it says its nth line: two things at once when it starts, then one thing every few seconds.
    fn says_at(&self, n: i64) -> DateTime<Utc> {
        self.start + chrono::Duration::seconds(if n < 2 { 0 } else { (n - 1) * EVERY })
    }

    /// Lines that it said by then.
    fn said_by(&self, end: DateTime<Utc>) -> i64 {
        2 + (end - self.start).num_seconds().max(0) / EVERY
    }

    fn runs(&self, inner: &Inner) -> bool {
        let uid = text(&self.pod, "/metadata/uid");
        inner.read(|s| {
            s.by_uid(uid).and_then(|a| s.at(a)).is_some_and(|p| text(p, "/status/phase") == "Running")
        })
    }
}

/// What a container says from now on, until it or the server ends.
pub(crate) fn follow(inner: &Arc<Inner>, container: &Arc<Container>) -> impl Stream<Item = Bytes> + use<> {
    lines(inner, container, container.said_by(Utc::now()), false)
}

/// When a container, or the server, ends.
pub(crate) async fn ended(inner: &Arc<Inner>, container: &Container) {
    let mut changed = inner.write(|s| s.subscribe(&container.table));
    let mut up = inner.up.subscribe();
    while container.runs(inner) && *up.borrow_and_update() {
        let goes_on = tokio::select! {
            changed = changed.changed() => changed.is_ok(),
            changed = up.changed() => changed.is_ok(),
        };
        if !goes_on {
            return;
        }
    }
}

/// What a container says from its nth line on, each when its time has come.
fn lines(
    inner: &Arc<Inner>,
    container: &Arc<Container>,
    from: i64,
    timestamps: bool,
) -> impl Stream<Item = Bytes> + use<> {
    let changed = inner.write(|s| s.subscribe(&container.table));
    let state = (inner.clone(), container.clone(), changed, inner.up.subscribe(), from);
    stream::unfold(state, move |(inner, container, mut changed, mut up, n)| async move {
        loop {
            if !container.runs(&inner) || !*up.borrow_and_update() {
                return None;
            }
            let wait = (container.says_at(n) - Utc::now()).to_std().unwrap_or(Duration::ZERO);
            tokio::select! {
                () = tokio::time::sleep(wait) => {
                    let text = line(container.says_at(n), n, &container.name, timestamps);
                    return Some((Bytes::from(text), (inner, container, changed, up, n + 1)));
                }
                r = changed.changed() => if r.is_err() { return None },
                r = up.changed() => if r.is_err() { return None },
            }
        }
    })
}

/// GET of `pods/NAME/log`.
///
/// # Errors
/// As [`Container::find`].
pub(crate) fn serve(inner: &Arc<Inner>, call: Call<'_>) -> Result<Response<Body>, ApiError> {
    let container = Arc::new(Container::find(inner, call)?);
    let end = DateTime::parse_from_rfc3339(&container.finished)
        .map_or_else(|_| Utc::now(), |t| t.with_timezone(&Utc));
    let timestamps = call.info.flag("timestamps");
    let count = container.said_by(end);
    let mut first = (count - MOST).max(0);
    if let Ok(tail) = call.info.param("tailLines").parse::<i64>() {
        if tail < 0 {
            return Err(crate::verbs::options_invalid(
                "PodLogOptions",
                vec![crate::status::Cause::invalid(
                    "tailLines",
                    &tail.into(),
                    "must be greater than or equal to 0",
                )],
            ));
        }
        first = first.max(count - tail);
    }
    let since = if let Ok(s) = call.info.param("sinceSeconds").parse::<i64>() {
        Some(Utc::now() - chrono::Duration::seconds(s))
    } else {
        DateTime::parse_from_rfc3339(call.info.param("sinceTime")).ok().map(|t| t.with_timezone(&Utc))
    };
    let mut out = String::new();
    for n in first..count {
        let at = container.says_at(n);
        if since.is_none_or(|s| at >= s) {
            out.push_str(&line(at, n, &container.name, timestamps));
        }
    }
    if container.crashed {
        out.push_str(&container.name);
        out.push_str(": fatal: cannot go on\n");
    }
    if let Ok(limit) = call.info.param("limitBytes").parse::<usize>() {
        out.truncate(limit);
    }
    if !call.info.flag("follow") || !container.finished.is_empty() || container.crashed {
        return Ok(reply::respond(200, "text/plain", reply::full(out)));
    }
    let said = stream::once(std::future::ready(Bytes::from(out)));
    let lines = said.chain(lines(inner, &container, count, timestamps));
    Ok(reply::respond(200, "text/plain", reply::streaming(lines)))
}
