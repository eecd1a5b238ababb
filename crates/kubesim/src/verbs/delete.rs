//! Delete and deletecollection: preconditions, grace, propagation, finalizers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::read::Filter;
use super::{Call, Outcome, options_invalid};
use crate::kinds;
use crate::status::{ApiError, Cause};
use crate::store::{Store, key_of, text};

#[derive(Debug, Default, Clone)]
struct Options {
    grace: Option<i64>,
    policy: Option<String>,
    uid: Option<String>,
    revision: Option<String>,
    dry_run: bool,
}

fn options(call: Call<'_>, body: &[u8]) -> Result<Options, ApiError> {
    let mut o = Options { dry_run: call.dry_run("DeleteOptions")?, ..Options::default() };
    if !body.is_empty() {
        let v: Value = if call.info.content_type == crate::protobuf::MEDIA_TYPE {
            crate::protobuf::decode(body)
                .map_err(|e| ApiError::bad_request(format!("cannot read DeleteOptions: {e}")))?
        } else {
            crate::patch::parse_yaml(body)?
        };
        o.grace = v.get("gracePeriodSeconds").and_then(Value::as_i64);
        o.policy = v.get("propagationPolicy").and_then(Value::as_str).map(ToOwned::to_owned);
        if let Some(orphan) = v.get("orphanDependents").and_then(Value::as_bool) {
            o.policy = Some(if orphan { "Orphan" } else { "Background" }.into());
        }
        o.uid = v.pointer("/preconditions/uid").and_then(Value::as_str).map(ToOwned::to_owned);
        o.revision =
            v.pointer("/preconditions/resourceVersion").and_then(Value::as_str).map(ToOwned::to_owned);
        match v.get("dryRun").and_then(Value::as_array).map(Vec::as_slice) {
            None | Some([]) => {}
            Some([x]) if x == "All" => o.dry_run = true,
            Some(_) => {
                return Err(options_invalid(
                    "DeleteOptions",
                    vec![Cause::not_supported("dryRun", &v["dryRun"], &["All"])],
                ));
            }
        }
    }
    if let Ok(g) = call.info.param("gracePeriodSeconds").parse() {
        o.grace = Some(g);
    }
    if !call.info.param("propagationPolicy").is_empty() {
        o.policy = Some(call.info.param("propagationPolicy").to_owned());
    }
    if let Some(p) = &o.policy
        && !matches!(p.as_str(), "Background" | "Foreground" | "Orphan")
    {
        return Err(options_invalid(
            "DeleteOptions",
            vec![Cause::not_supported(
                "propagationPolicy",
                &p.as_str().into(),
                &["Foreground", "Background", "Orphan", "nil"],
            )],
        ));
    }
    Ok(o)
}

/// True for an object whose delete waits for nothing more.
pub(crate) fn is_ready_to_go(call: Call<'_>, o: &Value) -> bool {
    let meta = &o["metadata"];
    if meta.get("deletionTimestamp").is_none_or(Value::is_null) {
        return false;
    }
    let held = meta.get("finalizers").and_then(Value::as_array).is_some_and(|l| !l.is_empty());
    if &*call.res.table == "namespaces" {
        let spec = o.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|l| !l.is_empty());
        return !held && !spec;
    }
    !held && meta.get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0) == 0
}

/// DELETE of one object.
///
/// # Errors
/// 404; 409 for preconditions that do not hold; 403 for what may not be deleted.
pub(crate) fn one(s: &mut Store, call: Call<'_>, body: &[u8]) -> Result<Outcome, ApiError> {
    let o = options(call, body)?;
    let name = call.info.name.as_str();
    let old = super::read::get(s, call)?;
    let result = remove(s, call, &o, &old)?;
    let answer = match result {
        Some(object)
            if !text(&object, "/metadata/deletionTimestamp").is_empty() && s_has(s, call, &object) =>
        {
            object
        }
        Some(object) if kinds::delete_answers_object(&call.res.table) => object,
        _ => Arc::new(success(call, name, text(&old, "/metadata/uid"))),
    };
    Ok(Outcome::ok(answer))
}

fn s_has(s: &Store, call: Call<'_>, o: &Value) -> bool {
    let k = key_of(o);
    s.get(&call.res.table, &k.0, &k.1).is_some_and(|x| text(x, "/metadata/uid") == text(o, "/metadata/uid"))
}

fn success(call: Call<'_>, name: &str, uid: &str) -> Value {
    let mut details = json!({"name": name, "kind": call.res.plural, "uid": uid});
    if !call.res.group.is_empty() {
        details["group"] = call.res.group.clone().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// DELETE of many.
///
/// # Errors
/// As [`one`], for the first object that refuses.
pub(crate) fn collection(s: &mut Store, call: Call<'_>, body: &[u8]) -> Result<Vec<Arc<Value>>, ApiError> {
    let o = options(call, body)?;
    let filter = Filter::of(call)?;
    let all: Vec<Arc<Value>> = s
        .list(&call.res.table, filter.namespace.as_deref())
        .into_iter()
        .filter(|x| filter.matches(x))
        .collect();
    for x in &all {
        remove(s, call, &o, x)?;
    }
    Ok(all.iter().map(|x| super::read::in_version(x, call)).collect())
}

/// Starts or finishes the delete of one object; gives it as the caller sees it.
fn remove(
    s: &mut Store,
    call: Call<'_>,
    o: &Options,
    old: &Arc<Value>,
) -> Result<Option<Arc<Value>>, ApiError> {
    let name = text(old, "/metadata/name");
    let table = &call.res.table;
    for (want, at, what, happened) in [
        (&o.uid, "/metadata/uid", "UID", "deleted and then recreated"),
        (&o.revision, "/metadata/resourceVersion", "ResourceVersion", "modified"),
    ] {
        let have = text(old, at);
        if let Some(want) = want
            && want != have
        {
            let why = format!(
                "the {what} in the precondition ({want}) does not match the {what} in record ({have}). The object might \
                 have been {happened}"
            );
            let subject = crate::status::Subject { group: &call.res.group, kind: &call.res.kind, name };
            return Err(ApiError::conflict(subject, &why));
        }
    }
    if &**table == "namespaces" && matches!(name, "default" | "kube-system" | "kube-public") {
        return Err(ApiError::forbidden(call.subject(name), "this namespace may not be deleted"));
    }
    let mut new = (**old).clone();
    if call.res.versions.len() > 1
        && let Some(stored) = s.get(table, call_ns(call, old), name)
    {
        new = (**stored).clone();
    }
    let already = old.pointer("/metadata/deletionTimestamp").is_some();
    let mut finalizers: Vec<String> = old
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|f| f.as_str().map(ToOwned::to_owned))
        .collect();
    let orphan_by_default = matches!(&**table, "jobs.batch" | "replicationcontrollers");
    let policy = o.policy.as_deref();
    let kept = |f: &String| f == "orphan" || f == "foregroundDeletion";
    let inherited = policy.is_none() && finalizers.iter().any(kept);
    if !inherited {
        finalizers.retain(|f| !kept(f));
        match policy {
            Some("Orphan") => finalizers.push("orphan".into()),
            Some("Foreground") => finalizers.push("foregroundDeletion".into()),
            None if orphan_by_default => finalizers.push("orphan".into()),
            _ => {}
        }
    }
    let grace = grace(table, o, old);
    let namespace_waits = &**table == "namespaces";
    let waits = !finalizers.is_empty() || grace > 0 || namespace_waits;
    if !waits {
        if o.dry_run {
            return Ok(Some(old.clone()));
        }
        return Ok(s.remove(table, &key_of(old)));
    }
    let meta = &mut new["metadata"];
    meta["finalizers"] = json!(finalizers);
    if finalizers.is_empty()
        && let Some(m) = meta.as_object_mut()
    {
        m.remove("finalizers");
    }
    let at = chrono::Utc::now() + chrono::Duration::seconds(grace);
    let shorter = already
        && old
            .pointer("/metadata/deletionGracePeriodSeconds")
            .and_then(Value::as_i64)
            .is_some_and(|g| grace < g);
    if !already || shorter {
        meta["deletionTimestamp"] = at.format("%Y-%m-%dT%H:%M:%SZ").to_string().into();
        meta["deletionGracePeriodSeconds"] = grace.into();
        if let Some(g) = meta.get("generation").and_then(Value::as_i64)
            && !already
        {
            meta["generation"] = (g + 1).into();
        }
    }
    if namespace_waits {
        new["status"]["phase"] = "Terminating".into();
    }
    if o.dry_run {
        return Ok(Some(Arc::new(new)));
    }
    if is_ready_to_go(call, &new) {
        s.put(table, new);
        return Ok(s.remove(table, &key_of(old)));
    }
    if new == **old {
        return Ok(Some(old.clone()));
    }
    Ok(Some(s.put(table, new)))
}

fn call_ns<'a>(call: Call<'_>, old: &'a Value) -> &'a str {
    if call.res.namespaced { text(old, "/metadata/namespace") } else { "" }
}

/// Seconds a Pod gets to stop; other kinds go at once.
fn grace(table: &str, o: &Options, old: &Value) -> i64 {
    if table != "pods" {
        return 0;
    }
    let done = matches!(text(old, "/status/phase"), "Succeeded" | "Failed");
    if text(old, "/spec/nodeName").is_empty() || done {
        return 0;
    }
    let own = old.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30);
    o.grace.unwrap_or(own).max(0)
}
