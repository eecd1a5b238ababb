//! Things as the console answers them.

use serde_json::{Value, json};

pub(crate) const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

pub(crate) fn cluster(handle: &str) -> Value {
    json!({"id": ID, "name": handle, "handle": handle, "distro": "K3S", "currentVersion": "v1.36.2",
        "protect": false, "insertedAt": "2020-01-01T00:00:00Z", "pingedAt": null, "deletedAt": null,
        "metadata": {"owner": "ada"}, "tags": [{"name": "stage", "value": "prod"}],
        "project": {"id": ID, "name": "default"}})
}

pub(crate) fn clusters(handles: &[&str]) -> Value {
    let edges: Vec<Value> = handles.iter().map(|handle| json!({"node": cluster(handle)})).collect();
    json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": edges})
}

/// Errors as the console tells them.
pub(crate) fn errors_of(errors: &Value) -> Value {
    let mut errors = errors.clone();
    for error in errors.as_array_mut().into_iter().flatten() {
        if error.get("terminal").is_none() {
            error["terminal"] = json!(false);
        }
    }
    errors
}

pub(crate) fn service(status: &str, errors: &Value) -> Value {
    let errors = errors_of(errors);
    json!({"id": ID, "name": "web", "namespace": "shop", "status": status, "sha": "5f3c1d0e9a7b6c5d",
        "protect": false, "deletedAt": null, "git": {"ref": "main", "folder": "web"},
        "repository": repository(), "cluster": {"id": ID, "name": "Blue", "handle": "blue"},
        "revision": {"id": ID, "sha": "5f3c1d0e9a7b6c5d"}, "dryRun": false, "templated": true,
        "components": [{"id": ID, "group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop",
            "name": "web", "state": "RUNNING", "synced": true}],
        "errors": errors, "configuration": [{"name": "replicas"}]})
}

pub(crate) fn repository() -> Value {
    json!({"id": ID, "url": "https://git.example.com/a.git", "authMethod": "BASIC", "signedCommits": false, "health": "PULLABLE",
        "error": null})
}

pub(crate) fn facts() -> Value {
    json!({"metadata": {"images": ["example.com/web:1"], "fqdns": ["web.example.com"]}, "apiDeprecations": [old()]})
}

/// An API version that goes away, of an object of a service.
pub(crate) fn old() -> Value {
    json!({"deprecatedIn": "1.21", "removedIn": "1.25", "replacement": "batch/v1", "blocking": true,
        "component": {"group": "batch", "version": "v1beta1", "kind": "CronJob", "namespace": "shop", "name": "nightly",
            "service": {"id": ID, "name": "web", "repository": {"url": "https://git.example.com/a.git"}}}})
}
