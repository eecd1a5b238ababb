//! The agent's manifests.

use plural_wire::Secret;
use serde_json::{Value, json};

/// What the agent of one cluster is given.
pub(crate) struct Agent<'a> {
    /// Namespace of the agent.
    pub(crate) namespace: &'a str,
    /// Container image whose entry point is this program.
    pub(crate) image: &'a str,
    /// Address of the console as the cluster reaches it.
    pub(crate) console_url: &'a str,
    /// Let it speak plain HTTP.
    pub(crate) insecure_http: bool,
    /// The cluster's handle, for people who look at the objects.
    pub(crate) cluster: &'a str,
    /// What the agent joins with, once.
    pub(crate) join_token: &'a Secret,
    /// PEM text of an authority to trust.
    pub(crate) ca_pem: Option<&'a str>,
}

const NAME: &str = "plural-agent";
/// The Secret that the agent keeps its own deploy token in.
const TOKEN: &str = "plural-agent-token";

/// The objects in the order in which they must be created.
pub(crate) fn manifests(agent: &Agent<'_>) -> Vec<Value> {
    let labels = json!({
        "app.kubernetes.io/name": NAME,
        "app.kubernetes.io/part-of": "plural",
        "app.kubernetes.io/managed-by": "plural-cli",
    });
    let metadata = |name: &str| json!({"name": name, "namespace": agent.namespace, "labels": labels});
    let mut secret = json!({"join-token": agent.join_token.expose()});
    if let Some(pem) = agent.ca_pem {
        secret["ca.pem"] = json!(pem);
    }
    let mut objects = plural_crds::agent_definitions();
    objects.extend([
        json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": agent.namespace, "labels": labels},
        }),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(NAME)}),
        // The agent applies whatever the fleet's git repositories hold, so its rights are the most that
        // any of them needs; people who want less bind it to a role of their own.
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME, "labels": labels},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": agent.namespace}],
        }),
        // What the agent needs for its own token, and no more: whoever gives it a narrower role keeps this one. The Secret is
        // made here, empty, so that the agent need not be allowed to create any; what it holds is the agent's, and applying
        // this again leaves that alone.
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata(TOKEN),
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [TOKEN], "verbs": ["get", "patch"]}],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata(TOKEN),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": TOKEN},
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": agent.namespace}],
        }),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata(TOKEN), "type": "Opaque"}),
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata(NAME),
            "type": "Opaque",
            "stringData": secret,
        }),
        deployment(agent, &metadata(NAME), &labels),
    ]);
    objects
}

fn deployment(agent: &Agent<'_>, metadata: &Value, labels: &Value) -> Value {
    let mut env = vec![
        json!({"name": "PLURAL_CONSOLE_URL", "value": agent.console_url}),
        json!({
            "name": "PLURAL_JOIN_TOKEN",
            "valueFrom": {"secretKeyRef": {"name": NAME, "key": "join-token"}},
        }),
        json!({
            "name": "PLURAL_AGENT_NAMESPACE",
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}},
        }),
        json!({"name": "PLURAL_AGENT_CACHE_DIR", "value": "/var/cache/plural/agent"}),
        // Its entry point is this program: it brings the harness into the Pods of runs.
        json!({"name": "PLURAL_AGENT_RUN_IMAGE", "value": agent.image}),
    ];
    if agent.insecure_http {
        env.push(json!({"name": "PLURAL_INSECURE_HTTP", "value": "true"}));
    }
    let mut volumes = vec![json!({"name": "cache", "emptyDir": {"sizeLimit": "4Gi"}})];
    let mut mounts = vec![json!({"name": "cache", "mountPath": "/var/cache/plural"})];
    if agent.ca_pem.is_some() {
        env.push(json!({"name": "PLURAL_CONSOLE_CA_FILE", "value": "/etc/plural/ca.pem"}));
        volumes.push(json!({
            "name": "ca",
            "secret": {"secretName": NAME, "items": [{"key": "ca.pem", "path": "ca.pem"}]},
        }));
        mounts.push(json!({"name": "ca", "mountPath": "/etc/plural", "readOnly": true}));
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": 1,
            // Two agents at once would only get in each other's way.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app.kubernetes.io/name": NAME}},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {"plural.sh/cluster": agent.cluster},
                },
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": 65532,
                        "fsGroup": 65532,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [{
                        "name": "agent",
                        "image": agent.image,
                        "args": ["agent"],
                        "env": env,
                        "resources": {
                            "requests": {"cpu": "20m", "memory": "64Mi"},
                            "limits": {"memory": "512Mi"},
                        },
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "readOnlyRootFilesystem": true,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "volumeMounts": mounts,
                    }],
                    "volumes": volumes,
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::yaml_text;

    #[test]
    fn manifests_of_an_agent() {
        let token = Secret::new("join-example");
        let agent = Agent {
            namespace: "plural-system",
            image: "registry.example.com/plural:1",
            console_url: "https://console.example.com",
            insecure_http: false,
            cluster: "blue",
            join_token: &token,
            ca_pem: Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        };
        let text: Vec<String> = manifests(&agent).iter().map(|object| yaml_text(object).unwrap()).collect();
        insta::assert_snapshot!("agent_manifests", text.join("---\n"));
    }
}
