//! Names, labels and annotations: what may be written where.

use serde_json::Value;

use crate::status::Cause;

/// `a lowercase RFC 1123 label`: letters, digits, dashes, at most 63.
pub(crate) fn is_label(s: &str) -> bool {
    !s.is_empty()
        && s.len() <= 63
        && s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !s.starts_with('-')
        && !s.ends_with('-')
}

/// Labels joined by dots, at most 253.
pub(crate) fn is_subdomain(s: &str) -> bool {
    s.len() <= 253
        && !s.is_empty()
        && s.split('.').all(|p| {
            !p.is_empty()
                && p.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !p.starts_with('-')
                && !p.ends_with('-')
        })
}

/// A label value's characters.
pub(crate) fn is_label_value(s: &str) -> bool {
    s.len() <= 63
        && (s.is_empty()
            || (s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
                && s.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
                && s.as_bytes().last().is_some_and(u8::is_ascii_alphanumeric)))
}

/// `[prefix/]name` of labels, annotations and finalizers.
pub(crate) fn is_qualified_name(s: &str) -> bool {
    let (prefix, name) = s.split_once('/').map_or((None, s), |(p, n)| (Some(p), n));
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const SERVICE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn path_segment_problem(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        n if n.contains('/') => Some("may not contain '/'"),
        n if n.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}

/// What differs between kinds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    /// Table of the kind.
    pub(crate) table: &'a str,
    /// Lives in namespaces.
    pub(crate) namespaced: bool,
    /// Finalizers without a prefix must be standard ones: all built-in kinds but definitions of custom resources.
    pub(crate) known_finalizers: bool,
}

/// What is wrong with metadata that a person wrote.
pub(crate) fn check_metadata(object: &Value, rules: Rules<'_>) -> Vec<Cause> {
    let mut out = Vec::new();
    let meta = &object["metadata"];
    let name = meta["name"].as_str().unwrap_or_default();
    let generated = meta["generateName"].as_str().unwrap_or_default();
    if name.is_empty() && generated.is_empty() {
        out.push(Cause::required("metadata.name", "name or generateName is required"));
    }
    if !name.is_empty() {
        let problem = match rules.table {
            t if t.ends_with("rbac.authorization.k8s.io") => path_segment_problem(name),
            "namespaces" => (!is_label(name)).then_some(LABEL),
            "services" => {
                let ok = is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase());
                (!ok).then_some(SERVICE)
            }
            _ => (!is_subdomain(name)).then_some(SUBDOMAIN),
        };
        if let Some(p) = problem {
            out.push(Cause::invalid("metadata.name", &name.into(), p));
        }
    }
    if rules.namespaced {
        let ns = meta["namespace"].as_str().unwrap_or_default();
        if !is_label(ns) {
            out.push(Cause::invalid("metadata.namespace", &ns.into(), LABEL));
        }
    }
    labels(meta.get("labels"), "metadata.labels", &mut out);
    let mut size = 0;
    for (k, v) in meta.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        if !is_qualified_name(&k.to_lowercase()) {
            out.push(Cause::invalid("metadata.annotations", &k.as_str().into(), QUALIFIED));
        }
        size += k.len() + v.as_str().map_or(0, str::len);
    }
    if size > 256 * 1024 {
        out.push(Cause::too_long("metadata.annotations", "may not be more than 262144 bytes"));
    }
    let finalizers = meta.get("finalizers").and_then(Value::as_array);
    for (i, f) in finalizers.into_iter().flatten().enumerate() {
        let f = f.as_str().unwrap_or_default();
        if !is_qualified_name(f) {
            out.push(Cause::invalid("metadata.finalizers", &f.into(), QUALIFIED));
        } else if rules.known_finalizers
            && !f.contains('/')
            && !matches!(f, "orphan" | "foregroundDeletion" | "kubernetes")
        {
            out.push(Cause::invalid(
                format!("metadata.finalizers[{i}]"),
                &f.into(),
                "name is neither a standard finalizer name nor is it fully qualified",
            ));
        }
    }
    for (i, o) in meta.get("ownerReferences").and_then(Value::as_array).into_iter().flatten().enumerate() {
        let at = format!("metadata.ownerReferences[{i}]");
        for field in ["apiVersion", "kind", "name", "uid"] {
            if o.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                out.push(Cause::invalid(
                    format!("{at}.{field}"),
                    &"".into(),
                    &format!("{} must not be empty", if field == "apiVersion" { "version" } else { field }),
                ));
            }
        }
    }
    let controllers = meta
        .get("ownerReferences")
        .and_then(Value::as_array)
        .map_or(0, |l| l.iter().filter(|o| o["controller"] == Value::Bool(true)).count());
    if controllers > 1 {
        out.push(Cause::invalid(
            "metadata.ownerReferences",
            &meta["ownerReferences"],
            "Only one reference can have Controller set to true",
        ));
    }
    out
}

/// What is wrong with a map of labels.
pub(crate) fn labels(map: Option<&Value>, path: &str, out: &mut Vec<Cause>) {
    for (k, v) in map.and_then(Value::as_object).into_iter().flatten() {
        if !is_qualified_name(k) {
            out.push(Cause::invalid(path, &k.as_str().into(), QUALIFIED));
        }
        let v = v.as_str().unwrap_or_default();
        if !is_label_value(v) {
            if v.len() > 63 {
                out.push(Cause::invalid(path, &v.into(), "must be no more than 63 bytes"));
            } else {
                out.push(Cause::invalid(path, &v.into(), LABEL_VALUE));
            }
        }
    }
}
