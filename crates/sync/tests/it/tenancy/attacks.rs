//! Ways to get round each limit.

use plural_render::Object;
use plural_sync::Target;
use serde_json::{Value, json};

use super::{Limit, Places};
use crate::fixture::{config_map, object};

/// One way to get round a limit.
pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) objects: Vec<Object>,
    /// What is other about the service.
    pub(super) change: Box<dyn Fn(&mut Target) + Send>,
    /// The cluster would take it without the limit, so that it can be there before.
    pub(super) makes: bool,
    /// It is the limit that refuses it, not something that is wrong with it.
    pub(super) by_limit: bool,
}

fn attack(name: &'static str, objects: Vec<Object>) -> Attack {
    Attack { name, objects, change: Box::new(|_| ()), makes: true, by_limit: true }
}

impl Attack {
    /// It is refused before the limits are asked, by its shape.
    fn malformed(self) -> Self {
        Self { makes: false, by_limit: false, ..self }
    }

    /// The limit refuses it, but it cannot be made without.
    fn not_made(self) -> Self {
        Self { makes: false, ..self }
    }

    fn with(self, change: impl Fn(&mut Target) + Send + 'static) -> Self {
        Self { change: Box::new(change), ..self }
    }
}

fn placed(mut object: Object, namespace: &str) -> Object {
    object.value["metadata"]["namespace"] = namespace.into();
    object
}

pub(super) fn with(mut object: Object, metadata: &Value) -> Object {
    for (key, value) in metadata.as_object().unwrap() {
        object.value["metadata"][key] = value.clone();
    }
    object
}

fn secret() -> Object {
    object(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "evil"}, "stringData": {"a": "b"}}),
    )
}

pub(super) fn role(kind: &str, name: &str) -> Object {
    object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]}))
}

fn namespace(name: &str) -> Object {
    object(
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"evil": "yes"}}}),
    )
}

/// A definition of a kind, and an object of it.
fn own_kind(group: &str, kind: &str, plural: &str, scope: &str) -> [Object; 2] {
    let singular = kind.to_lowercase();
    [
        object(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": scope,
                "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List")},
                "versions": [crate::days::version("v1", true)]}})),
        object(json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": "evil"}})),
    ]
}

/// Whatever is outside of namespaces.
fn cluster_scoped(places: &Places) -> Vec<Attack> {
    let name = format!("{}-evil", places.own);
    let group = format!("{}.example.org", places.own);
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": places.own}]});
    let of_kind = |api_version: &str, kind: &str, more: Value| {
        let mut value = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
        value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        vec![object(value)]
    };
    let [definition, widget] = own_kind(&group, "Widget", "evils", "Cluster");
    // A definition of the service's own that says of a kind of Kubernetes that it has namespaces.
    let [lie, _] = own_kind("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", "Namespaced");
    vec![
        attack("a role", vec![role("ClusterRole", &name)]),
        attack("a role with a namespace", vec![placed(role("ClusterRole", &name), &places.own)]),
        attack("a binding", vec![object(binding)]),
        attack("a namespace", vec![namespace(&name)]).not_made(),
        attack("a definition", vec![definition.clone()]).not_made(),
        attack("a definition and an object of it", vec![definition, widget]).not_made(),
        attack("a definition that lies", vec![lie, role("ClusterRole", &name)]).not_made(),
        attack(
            "a webhook",
            of_kind(
                "admissionregistration.k8s.io/v1",
                "ValidatingWebhookConfiguration",
                json!({"webhooks": []}),
            ),
        )
        .not_made(),
        attack("a priority class", of_kind("scheduling.k8s.io/v1", "PriorityClass", json!({"value": 1})))
            .not_made(),
        attack(
            "a generated name",
            vec![with(role("ClusterRole", ""), &json!({"name": null, "generateName": name}))],
        ),
    ]
}

/// The shapes of one object that is where it may not be.
fn misplaced(object: &Object, elsewhere: &str) -> Vec<Attack> {
    let there = placed(object.clone(), elsewhere);
    let owner = json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt",
        "uid": "00000000-0000-0000-0000-000000000000", "controller": true, "blockOwnerDeletion": true}]});
    let list =
        json!({"apiVersion": "v1", "kind": "List", "metadata": {"name": "evil"}, "items": [there.value]});
    vec![
        attack("plain", vec![there.clone()]),
        attack("generated name", vec![with(there.clone(), &json!({"name": null, "generateName": "evil-"}))]),
        // The garbage collector of a real cluster takes it away again.
        attack("owned by another", vec![with(there.clone(), &owner)]).not_made(),
        attack(
            "said to be nobody's",
            vec![with(there, &json!({"annotations": {"argocd.argoproj.io/hook": "Skip"}}))],
        )
        .not_made(),
        attack("in a list", vec![self::object(list)]).malformed(),
    ]
}

pub(super) fn attacks(limit: Limit, places: &Places) -> Vec<Attack> {
    let Places { own, other, agent } = places;
    let evil = || config_map("evil", "1");
    match limit {
        Limit::Namespaces => {
            let mut all = misplaced(&evil(), other);
            all.extend(cluster_scoped(places));
            for (name, namespace) in [
                ("a longer name", format!("{own}-evil")),
                ("a shorter name", own[..own.len() - 1].to_owned()),
                ("in capitals", own.to_uppercase()),
                ("a pattern", "*".to_owned()),
                ("the namespace and a pattern", format!("{own}*")),
                ("kube-system", "kube-system".to_owned()),
            ] {
                all.push(attack(name, vec![placed(evil(), &namespace)]).not_made());
            }
            for (name, namespace) in [
                ("a path", format!("{own}/../{other}")),
                ("an escaped path", format!("{own}%2f..%2f{other}")),
                ("dots", "..".to_owned()),
            ] {
                all.push(attack(name, vec![placed(evil(), &namespace)]).malformed());
            }
            all.push(attack("the other namespace itself", vec![namespace(other)]).not_made());
            let (there, here) = (other.clone(), other.clone());
            all.push(attack("a service of the other namespace", vec![evil()]).with(move |target| {
                target.namespace.clone_from(&there);
                target.config.namespace_metadata.labels = [("evil".to_owned(), "yes".to_owned())].into();
            }));
            all.push(attack("everything in the other namespace", vec![placed(evil(), own)]).with(
                move |target| {
                    target.namespace.clone_from(&here);
                    target.config.enforce_namespace = true;
                },
            ));
            all
        }
        Limit::AllowedKinds => {
            let group = format!("{own}.example.org");
            let deployment = crate::fixture::deployment("evil");
            let mut all = vec![
                attack("a secret", vec![secret()]),
                attack("a deployment", vec![deployment]),
                attack("a role", vec![role("Role", "evil")]),
                attack("a cluster role", vec![role("ClusterRole", &format!("{own}-evil"))]),
                attack("a namespace", vec![namespace(&format!("{own}-evil"))]).not_made(),
                attack(
                    "an account",
                    vec![object(
                        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "evil"}}),
                    )],
                ),
                attack(
                    "a generated name",
                    vec![with(secret(), &json!({"name": null, "generateName": "evil-"}))],
                ),
            ];
            // Of another group, a ConfigMap is not a ConfigMap.
            let same_name = own_kind(&group, "ConfigMap", "evils", "Namespaced");
            all.push(attack("a kind of the same name", same_name.to_vec()).not_made());
            all.extend(odd_kinds());
            all
        }
        Limit::DeniedKinds => {
            let job = crate::waves::job("evil", "well", json!({}));
            let mut cron = job.clone();
            cron.value["kind"] = "CronJob".into();
            cron.value["spec"] = json!({"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job.value["spec"]}});
            let mut all = misplaced(&secret(), own);
            all.extend([
                attack("a role", vec![role("Role", "evil")]),
                attack("a cluster role", vec![role("ClusterRole", &format!("{own}-evil"))]),
                attack("a job", vec![job]).not_made(),
                attack("a cron job", vec![cron]),
            ]);
            all.extend(odd_kinds());
            all
        }
        Limit::NoClusterScoped | Limit::ClusterKinds => cluster_scoped(places),
        Limit::Repositories => [
            ("another folder", "https://git.example.org/red/app"),
            ("another host", "https://git.example.org.evil.test/blue/app"),
            ("another scheme", "http://git.example.org/blue/app"),
            ("another port", "https://git.example.org:8443/blue/app"),
            ("a longer folder", "https://git.example.org/blue-evil/app"),
            ("dots", "https://git.example.org/blue/../red/app"),
            ("escaped dots", "https://git.example.org/blue/%2e%2e/red/app"),
            ("a user", "https://git.example.org@evil.test/blue/app"),
            ("nothing", ""),
        ]
        .into_iter()
        .map(|(name, url)| {
            attack(name, vec![evil()]).with(move |target| {
                if let Some(limits) = &mut target.limits {
                    url.clone_into(&mut limits.repository_url);
                }
            })
        })
        .chain([attack("a chart from elsewhere", vec![evil()]).with(|target| {
            if let Some(limits) = &mut target.limits {
                limits.chart_url = Some("oci://registry.example.org/charts".to_owned());
            }
        })])
        .collect(),
        Limit::ServiceAccounts => {
            let capitals = format!("{}/evil", other.to_uppercase());
            let foreign = [
                ("of another namespace", format!("{other}/evil"), true),
                ("one that begins like a named one", format!("{other}/named-2"), true),
                ("of Kubernetes", "kube-system/generic-garbage-collector".to_owned(), true),
                ("of Kubernetes' public namespace", "kube-public/evil".to_owned(), true),
                ("of the agent", format!("{agent}/evil"), true),
                ("in capitals", capitals, true),
                ("a path", format!("{own}/../{other}/evil"), true),
                ("a user", "system:admin".to_owned(), true),
                ("a group of names", format!("{other}:evil"), true),
                ("no name", format!("{other}/"), true),
            ];
            let mut all: Vec<Attack> = foreign
                .into_iter()
                .map(|(name, account, _)| {
                    attack(name, vec![evil()])
                        .with(move |target| target.config.service_account = Some(account.clone()))
                })
                .collect();
            // Its own namespace, which its project does not reach.
            let reached = other.clone();
            all.push(attack("of a namespace out of reach", vec![placed(evil(), other)]).with(
                move |target| {
                    target.config.service_account = Some("named".to_owned());
                    if let Some(limits) = &mut target.limits {
                        limits.rules.namespaces = vec![reached.clone()];
                    }
                },
            ));
            all
        }
        Limit::RequireServiceAccount => [("none", None), ("an empty one", Some(String::new()))]
            .into_iter()
            .map(|(name, account)| {
                attack(name, vec![evil()])
                    .with(move |target| target.config.service_account.clone_from(&account))
            })
            .collect(),
        Limit::AgentNamespace => {
            let mut all = misplaced(&evil(), agent);
            all.extend(misplaced(&secret(), agent));
            all.push(attack("a record", vec![placed(config_map("plural-inventory-evil", "1"), agent)]));
            all.push(attack("a role", vec![placed(role("Role", "evil"), agent)]));
            all.push(attack("the namespace itself", vec![namespace(agent)]).not_made());
            let (there, here, account) = (agent.clone(), agent.clone(), format!("{agent}/evil"));
            all.push(attack("a service of the namespace", vec![evil()]).with(move |target| {
                target.namespace.clone_from(&there);
                target.config.namespace_metadata.labels = [("evil".to_owned(), "yes".to_owned())].into();
            }));
            all.push(attack("everything in the namespace", vec![placed(evil(), own)]).with(move |target| {
                target.namespace.clone_from(&here);
                target.config.enforce_namespace = true;
            }));
            all.push(
                attack("the agent's account", vec![evil()])
                    .with(move |target| target.config.service_account = Some(account.clone())),
            );
            all
        }
    }
}

/// Kinds that are none, or that are only a way to do something to an object.
fn odd_kinds() -> Vec<Attack> {
    let of_kind = |api_version: &str, kind: &str| {
        vec![object(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "evil"}}))]
    };
    vec![
        attack("in small letters", of_kind("v1", "secret")).malformed(),
        attack("a resource's name", of_kind("v1", "secrets")).malformed(),
        attack("a subresource", of_kind("v1", "secrets/status")).malformed(),
        attack("an eviction", of_kind("policy/v1", "Eviction")).malformed(),
        attack("a token request", of_kind("authentication.k8s.io/v1", "TokenRequest")).malformed(),
        attack("a scale", of_kind("autoscaling/v1", "Scale")).malformed(),
    ]
}
