//! What extends and guards the API server itself.

use super::{
    Health,
    read::{View, items, text},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    Some(match kind {
        "CustomResourceDefinition" => definition(view),
        "APIService" => match view.condition("Available") {
            Some(found) if found.is_true() => Health::healthy(),
            Some(found) => Health::degraded(found.why("the API is not available")),
            None => Health::progressing("the API has not been reconciled yet"),
        },
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" => policy(view),
        "CertificateSigningRequest" => signing_request(view),
        "FlowSchema" => match view.yes("Dangling") {
            Some(found) => Health::degraded(found.why("the priority level that it names is not there")),
            None => Health::healthy(),
        },
        // Webhook configurations and bindings have no status.
        _ => return None,
    })
}

fn definition(view: &View<'_>) -> Health {
    if let Some(names) = view.no("NamesAccepted") {
        return Health::degraded(names.why("its names are taken"));
    }
    if let Some(schema) = view.yes("NonStructuralSchema") {
        return Health::degraded(schema.why("its schema is not structural"));
    }
    match view.condition("Established") {
        Some(found) if found.is_true() => Health::healthy(),
        Some(found) => Health::progressing(found.why("it is not established")),
        None => Health::progressing("it is not established"),
    }
}

fn policy(view: &View<'_>) -> Health {
    if let Some(behind) = view.behind() {
        return behind;
    }
    let warning = items(&view.status["typeChecking"]["expressionWarnings"]).next();
    match warning {
        Some(warning) => Health::remark(format!(
            "{}: {}",
            text(&warning["fieldRef"]),
            text(&warning["warning"]).lines().next().unwrap_or_default()
        )),
        None => Health::healthy(),
    }
}

fn signing_request(view: &View<'_>) -> Health {
    for (kind, fallback) in
        [("Denied", "the request was denied"), ("Failed", "no certificate could be issued")]
    {
        if let Some(found) = view.yes(kind) {
            return Health::degraded(found.why(fallback));
        }
    }
    if !text(&view.status["certificate"]).is_empty() {
        return Health::healthy();
    }
    match view.yes("Approved") {
        Some(_) => Health::progressing("the request is approved; no certificate was issued yet"),
        None => Health::suspended("the request waits for approval"),
    }
}
