//! Events live once and are served by two groups: `v1` and `events.k8s.io/v1` name their fields differently.

use serde_json::{Value, json};

use crate::store::{Store, text};

/// Where the real server forgets events after an hour, the oldest make room here.
const KEEP: usize = 2_000;

const NAMES: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

/// Turns an event into the form of `v1` or `events.k8s.io/v1`.
pub(crate) fn convert(object: &mut Value, api_version: &str) {
    if text(object, "/apiVersion") == api_version {
        return;
    }
    let to_new = api_version == "events.k8s.io/v1";
    if let Some(o) = object.as_object_mut() {
        for (new, old) in NAMES {
            let (from, to) = if to_new { (old, new) } else { (new, old) };
            if let Some(v) = o.remove(from) {
                o.insert(to.into(), v);
            }
        }
        o.insert("apiVersion".into(), api_version.into());
    }
}

/// Records an event about an object, or counts it up if the same one is there.
pub(crate) fn record(
    s: &mut Store,
    about: &Value,
    warning: bool,
    reason: &str,
    message: &str,
    component: &str,
) {
    let ns = match text(about, "/metadata/namespace") {
        "" => "default",
        ns => ns,
    };
    if s.get("namespaces", "", ns).is_none_or(|n| n.pointer("/metadata/deletionTimestamp").is_some()) {
        return;
    }
    let name = text(about, "/metadata/name");
    let uid = text(about, "/metadata/uid");
    let now = crate::verbs::now();
    let known = s
        .iter("events", Some(ns))
        .find(|(_, e)| {
            text(e, "/involvedObject/uid") == uid
                && text(e, "/reason") == reason
                && text(e, "/message") == message
        })
        .map(|(_, e)| e.clone());
    if let Some(e) = known {
        let mut new = (*e).clone();
        let n = e.get("count").and_then(Value::as_i64).unwrap_or(1);
        new["count"] = (n + 1).into();
        new["lastTimestamp"] = now.into();
        crate::verbs::system::system_update(s, &"events".into(), &e, new, component, "");
        return;
    }
    let id = format!("{name}.{}", crate::kinds::random_suffix(16));
    let event = json!({
        "metadata": {"name": id, "namespace": ns},
        "involvedObject": {
            "apiVersion": text(about, "/apiVersion"), "kind": text(about, "/kind"), "name": name,
            "namespace": ns, "uid": uid, "resourceVersion": text(about, "/metadata/resourceVersion"),
        },
        "reason": reason, "message": message, "type": if warning { "Warning" } else { "Normal" },
        "source": {"component": component}, "reportingComponent": component, "reportingInstance": "",
        "firstTimestamp": now, "lastTimestamp": now, "eventTime": null, "count": 1,
    });
    if s.count("events") >= KEEP
        && let Some((k, _)) = s.iter("events", None).min_by_key(|(_, e)| text(e, "/lastTimestamp").to_owned())
    {
        let k = k.clone();
        s.remove(&"events".into(), &k);
    }
    crate::verbs::system::system_create(s, "events", event, component);
}
