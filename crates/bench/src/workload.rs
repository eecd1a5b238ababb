//! The services that benches deploy.

use serde_json::{Value, json};

/// How many objects a service has.
pub(crate) const OBJECTS: usize = 4;

/// The objects of one service: what a small web application is made of. The Deployment has no replicas, so
/// that a figure is about applying and not about Pods.
pub(crate) fn objects(namespace: &str, service: usize) -> [Value; OBJECTS] {
    let name = format!("service-{service:05}");
    let labels = json!({"app.kubernetes.io/name": name});
    let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": {"LOG_LEVEL": "info", "config.yaml": "listen: 8080\nupstream: https://example.com\n".repeat(8)},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
        }),
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
            "spec": {
                "replicas": 0,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "serviceAccountName": name,
                        "containers": [{
                            "name": "web",
                            "image": "registry.example.com/web:1.0.0",
                            "ports": [{"name": "http", "containerPort": 8080}],
                            "envFrom": [{"configMapRef": {"name": name}}],
                            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
                        }],
                    },
                },
            },
        }),
    ]
}
