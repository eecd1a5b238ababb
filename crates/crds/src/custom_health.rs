//! `CustomHealth`: how objects of a kind are, told by a script.

use serde_json::{Value, json};

use crate::DEPLOYMENTS_GROUP;

/// The definition of `CustomHealth`, cluster-scoped.
pub fn custom_health() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("customhealths.{DEPLOYMENTS_GROUP}")},
        "spec": {
            "group": DEPLOYMENTS_GROUP,
            "names": {
                "kind": "CustomHealth",
                "listKind": "CustomHealthList",
                "plural": "customhealths",
                "singular": "customhealth",
            },
            "scope": "Cluster",
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "additionalPrinterColumns": [
                    {"name": "Group", "type": "string", "jsonPath": ".spec.group"},
                    {"name": "Version", "type": "string", "jsonPath": ".spec.version"},
                    {"name": "Kind", "type": "string", "jsonPath": ".spec.kind"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "schema": {"openAPIV3Schema": schema()},
                "subresources": {"status": {}},
            }],
        },
    })
}

fn schema() -> Value {
    json!({
        "description": "How objects of one kind are, told by a script instead of the built-in rules.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "required": ["kind", "script"],
                "properties": {
                    "group": {
                        "description": "API group of the objects; empty for the core group, * for any.",
                        "type": "string",
                    },
                    "version": {
                        "description": "Version that the objects are read in; empty for any.",
                        "type": "string",
                    },
                    "kind": {"description": "Kind of the objects, * for any.", "type": "string", "minLength": 1},
                    "script": {
                        "description": "Lua. The object is the global Obj (and obj). The script sets the global healthStatus to a table with status (Healthy, Progressing, Degraded, Suspended, Missing or Unknown) and message, or returns such a table.",
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 65536,
                    },
                },
            },
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    })
}
