//! cert-manager.

use super::{
    Health,
    read::{View, text, text_or},
};

pub(super) fn health(kind: &str, view: &View<'_>) -> Option<Health> {
    Some(match kind {
        "Certificate" => certificate(view),
        "CertificateRequest" => request(view),
        "Issuer" | "ClusterIssuer" => issuer(view),
        "Order" | "Challenge" => acme(view),
        _ => return None,
    })
}

fn certificate(view: &View<'_>) -> Health {
    if let Some(behind) = view.condition("Ready").filter(|ready| ready.is_behind(view)) {
        return Health::progressing(behind.why("its controller has not seen the change yet"));
    }
    if let Some(issuing) = view.condition("Issuing") {
        if issuing.is_true() {
            return Health::progressing(issuing.why("the certificate is being issued"));
        }
        if issuing.reason == "Failed" {
            return Health::degraded(issuing.why("the certificate could not be issued"));
        }
    }
    match view.condition("Ready") {
        Some(ready) if ready.is_true() => Health::healthy(),
        Some(ready) if ready.is_false() && matches!(ready.reason, "Failed" | "Expired" | "Denied") => {
            Health::degraded(ready.why("there is no valid certificate"))
        }
        Some(ready) => Health::progressing(ready.why("there is no valid certificate yet")),
        None => Health::progressing("the certificate has not been reconciled yet"),
    }
}

fn request(view: &View<'_>) -> Health {
    for (kind, fallback) in
        [("Denied", "the request was denied"), ("InvalidRequest", "the request is invalid")]
    {
        if let Some(found) = view.yes(kind) {
            return Health::degraded(found.why(fallback));
        }
    }
    match view.condition("Ready") {
        Some(ready) if ready.is_true() => Health::healthy(),
        Some(ready) if matches!(ready.reason, "Failed" | "Denied") => {
            Health::degraded(ready.why("no certificate could be issued"))
        }
        Some(ready) => Health::progressing(ready.why("no certificate was issued yet")),
        None => Health::progressing("the request has not been reconciled yet"),
    }
}

fn issuer(view: &View<'_>) -> Health {
    match view.condition("Ready") {
        Some(ready) if ready.is_behind(view) => {
            Health::progressing("its controller has not seen the change yet")
        }
        Some(ready) if ready.is_true() => Health::healthy(),
        Some(ready) if ready.is_false() => Health::degraded(ready.why("it cannot issue")),
        Some(ready) => Health::progressing(ready.why("it is not ready yet")),
        None => Health::progressing("the issuer has not been reconciled yet"),
    }
}

fn acme(view: &View<'_>) -> Health {
    let state = text(&view.status["state"]);
    let reason = text_or(&view.status["reason"], "the server says nothing more");
    match state {
        "valid" => Health::healthy(),
        "invalid" | "errored" | "expired" => Health::degraded(format!("it is {state}: {reason}")),
        "" => Health::progressing("it has not been reconciled yet"),
        other => Health::progressing(match text(&view.status["reason"]) {
            "" => format!("it is {other}"),
            reason => format!("it is {other}: {reason}"),
        }),
    }
}
