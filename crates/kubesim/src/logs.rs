//! Pod logs: lines that a container could have written since it started.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::stream;
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

/// GET of `pods/NAME/log`.
///
/// # Errors
/// 404; 400 when the container is not named and there are several, is not known, or has not started.
pub(crate) fn serve(inner: &Arc<Inner>, call: Call<'_>) -> Result<Response<Body>, ApiError> {
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
    let start: DateTime<Utc> =
        DateTime::parse_from_rfc3339(started).map_or_else(|_| Utc::now(), |t| t.with_timezone(&Utc));
    let ended = status.map_or("", |s| text(s, "/state/terminated/finishedAt"));
    let end = DateTime::parse_from_rfc3339(ended).map_or_else(|_| Utc::now(), |t| t.with_timezone(&Utc));
    let timestamps = call.info.flag("timestamps");
    // A container says two things at once when it starts, then one thing every few seconds.
    let when = move |n: i64| start + chrono::Duration::seconds(if n < 2 { 0 } else { (n - 1) * EVERY });
    let count = 2 + (end - start).num_seconds().max(0) / EVERY;
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
        if since.is_none_or(|s| when(n) >= s) {
            out.push_str(&line(when(n), n, container, timestamps));
        }
    }
    if crashed {
        out.push_str(container);
        out.push_str(": fatal: cannot go on\n");
    }
    if let Ok(limit) = call.info.param("limitBytes").parse::<usize>() {
        out.truncate(limit);
    }
    let follow = call.info.flag("follow") && ended.is_empty() && !crashed;
    if !follow {
        return Ok(reply::respond(200, "text/plain", reply::full(out)));
    }
    let uid = text(&pod, "/metadata/uid").to_owned();
    let container = container.to_owned();
    let mut changed = inner.write(|s| s.subscribe(&call.res.table));
    changed.mark_unchanged();
    let state = (inner.clone(), changed, inner.up.subscribe(), count, Some(out));
    let lines = stream::unfold(state, move |(inner, mut changed, mut up, n, first)| {
        let (uid, container) = (uid.clone(), container.clone());
        async move {
            if let Some(text) = first {
                return Some((Bytes::from(text), (inner, changed, up, n, None)));
            }
            loop {
                let running = inner.read(|s| {
                    s.by_uid(&uid)
                        .and_then(|a| s.at(a))
                        .is_some_and(|p| text(p, "/status/phase") == "Running")
                });
                if !running || !*up.borrow() {
                    return None;
                }
                let wait = (when(n) - Utc::now()).to_std().unwrap_or(Duration::ZERO);
                tokio::select! {
                    () = tokio::time::sleep(wait) => {
                        let text = line(when(n), n, &container, timestamps);
                        return Some((Bytes::from(text), (inner, changed, up, n + 1, None)));
                    }
                    r = changed.changed() => if r.is_err() { return None },
                    r = up.changed() => if r.is_err() { return None },
                }
            }
        }
    });
    Ok(reply::respond(200, "text/plain", reply::streaming(lines)))
}
