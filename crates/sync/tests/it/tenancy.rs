//! The matrix of tenancy: every limit at every door of the engine, with many shapes of the same attack. Lookups and previews
//! have their doors in the agent and the console: see `plural`'s test of the same name.

use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use plural_core::{ProjectLimits, ServiceId};
use plural_render::Object;
use plural_sync::{Limits, Outcome, Part, Target};
use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use crate::fixture::{Fixture, config_map, object, target};

/// What keeps a service from something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Namespaces,
    AllowedKinds,
    DeniedKinds,
    NoClusterScoped,
    ClusterKinds,
    Repositories,
    ServiceAccounts,
    RequireServiceAccount,
    /// Nobody sets it: it holds for every service.
    AgentNamespace,
}

/// Every limit that there is. A new one does not compile until somebody has decided about its row.
fn limits_there_are(rules: &ProjectLimits) -> Vec<Limit> {
    let ProjectLimits {
        namespaces: _,
        allowed_kinds: _,
        denied_kinds: _,
        no_cluster_scoped: _,
        cluster_kinds: _,
        repositories: _,
        service_accounts: _,
        require_service_account: _,
        // It gives an account and refuses nothing.
        default_service_account: _,
    } = rules;
    vec![
        Limit::Namespaces,
        Limit::AllowedKinds,
        Limit::DeniedKinds,
        Limit::NoClusterScoped,
        Limit::ClusterKinds,
        Limit::Repositories,
        Limit::ServiceAccounts,
        Limit::RequireServiceAccount,
        Limit::AgentNamespace,
    ]
}

/// Where a service can reach a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    Apply,
    Plan,
    DryRun,
    Hook,
    Prune,
    Destroy,
}

const DOORS: [Door; 6] = [Door::Apply, Door::Plan, Door::DryRun, Door::Hook, Door::Prune, Door::Destroy];

/// What a cell of the matrix says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Refused,
    /// The limit has nothing to say there, and why.
    Open(&'static str),
}

fn cell(limit: Limit, door: Door) -> Cell {
    match (limit, door) {
        (Limit::Repositories, Door::Destroy) => Cell::Open("what is deleted is read from nowhere"),
        (
            Limit::Namespaces
            | Limit::AllowedKinds
            | Limit::DeniedKinds
            | Limit::NoClusterScoped
            | Limit::ClusterKinds
            | Limit::ServiceAccounts
            | Limit::RequireServiceAccount
            | Limit::AgentNamespace
            | Limit::Repositories,
            Door::Apply | Door::Plan | Door::DryRun | Door::Hook | Door::Prune | Door::Destroy,
        ) => Cell::Refused,
    }
}

macro_rules! rows {
    ($($name:ident: $limit:ident),+ $(,)?) => {
        each_cluster!($($name,)+ a_namespace_goes_with_its_service_where_limits_allow_it);
        $(
            async fn $name(cluster: TestCluster) -> anyhow::Result<()> {
                row(cluster, Limit::$limit).await
            }
        )+
        const ROWS: &[Limit] = &[$(Limit::$limit),+];
    };
}

rows!(
    namespaces_hold_at_every_door: Namespaces,
    allowed_kinds_hold_at_every_door: AllowedKinds,
    denied_kinds_hold_at_every_door: DeniedKinds,
    no_cluster_scoped_holds_at_every_door: NoClusterScoped,
    cluster_kinds_hold_at_every_door: ClusterKinds,
    repositories_hold_at_every_door: Repositories,
    service_accounts_hold_at_every_door: ServiceAccounts,
    a_required_account_holds_at_every_door: RequireServiceAccount,
    the_agents_namespace_holds_at_every_door: AgentNamespace,
);

/// A service makes its namespace where limits let it be; that it may take away what everybody has there does not follow.
async fn a_namespace_goes_with_its_service_where_limits_allow_it(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(f.client.clone());
    let none = ProjectLimits::default;
    let own = || vec![format!("{}-*", f.namespace)];
    let kinds = |kind: &str| vec![kind.to_owned()];
    for (number, (rules, goes)) in [
        (ProjectLimits { denied_kinds: kinds("/namespace"), ..none() }, false),
        (ProjectLimits { allowed_kinds: kinds("/ConfigMap"), ..none() }, false),
        (ProjectLimits { no_cluster_scoped: true, ..none() }, false),
        (ProjectLimits { cluster_kinds: kinds("/PersistentVolume"), ..none() }, false),
        (ProjectLimits { namespaces: own(), ..none() }, false),
        (ProjectLimits { namespaces: own(), cluster_kinds: kinds("/Namespace"), ..none() }, true),
        (none(), true),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("{}-{number}", f.namespace);
        let shown = format!("{rules:?}");
        let limits = Some(Limits { project: "blue".to_owned(), rules, ..Limits::default() });
        let service = Target { limits, delete_namespace: true, ..target("limited", &name) };
        let outcome = f.engine.sync(&service, vec![config_map("a", "1")]).await;
        assert!(outcome.applied, "{shown}: {:?}", outcome.problems);
        let outcome = plural_testkit::eventually(crate::fixture::PATIENCE, async || {
            let outcome = f.engine.destroy(&service).await;
            if outcome.destroyed { Ok(outcome) } else { Err(format!("{shown}: {:?}", outcome.problems)) }
        })
        .await;
        let told =
            outcome.problems.iter().any(|problem| problem.message.contains("namespace is not deleted"));
        assert_eq!(told, !goes, "{shown}: {:?}", outcome.problems);
        let left = namespaces.get_opt(&name).await?;
        let stays = left.as_ref().is_some_and(|left| left.metadata.deletion_timestamp.is_none());
        assert_eq!(stays, !goes, "{shown}");
        if left.is_some() {
            namespaces.delete(&name, &kube::api::DeleteParams::default()).await?;
        }
    }
    Ok(())
}

#[test]
fn every_limit_has_a_row() {
    assert_eq!(ROWS, limits_there_are(&ProjectLimits::default()));
}

/// The places of one test.
struct Places {
    own: String,
    other: String,
    agent: String,
}

impl Places {
    /// The limits of a row, and nothing else.
    fn rules(&self, limit: Limit) -> Option<ProjectLimits> {
        let none = ProjectLimits::default();
        let Self { own, other, .. } = self;
        let all = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        Some(match limit {
            Limit::Namespaces => ProjectLimits { namespaces: all(&[own]), ..none },
            Limit::AllowedKinds => {
                ProjectLimits { allowed_kinds: all(&["/ConfigMap", "apps/StatefulSet"]), ..none }
            }
            Limit::DeniedKinds => ProjectLimits {
                // One is written in the wrong case, and holds all the same.
                denied_kinds: all(&["/secret", "rbac.authorization.k8s.io/*", "batch/*"]),
                ..none
            },
            Limit::NoClusterScoped => ProjectLimits { no_cluster_scoped: true, ..none },
            Limit::ClusterKinds => ProjectLimits { cluster_kinds: all(&["/PersistentVolume"]), ..none },
            Limit::Repositories => {
                ProjectLimits { repositories: all(&["https://git.example.org/blue/*"]), ..none }
            }
            Limit::ServiceAccounts => {
                ProjectLimits { service_accounts: vec![format!("{other}/named")], ..none }
            }
            Limit::RequireServiceAccount => ProjectLimits { require_service_account: true, ..none },
            Limit::AgentNamespace => return None,
        })
    }

    /// A service under the limits of a row.
    fn limited(&self, limit: Limit) -> Target {
        let rules = self.rules(limit);
        let limits = rules.map(|rules| Limits {
            project: "blue".to_owned(),
            rules,
            repository_url: "https://git.example.org/blue/app".to_owned(),
            chart_url: None,
        });
        let mut limited = Target { limits, ..target("limited", &self.own) };
        if limit == Limit::RequireServiceAccount {
            limited.service_account = Some("named".to_owned());
        }
        limited.policy.prune_percent = 100;
        limited
    }
}

/// One way to get round a limit.
struct Attack {
    name: &'static str,
    objects: Vec<Object>,
    /// What is other about the service.
    change: Box<dyn Fn(&mut Target) + Send>,
    /// The cluster would take it without the limit, so that it can be there before.
    makes: bool,
    /// It is the limit that refuses it, not something that is wrong with it.
    by_limit: bool,
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

fn with(mut object: Object, metadata: &Value) -> Object {
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

fn role(kind: &str, name: &str) -> Object {
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

fn attacks(limit: Limit, places: &Places) -> Vec<Attack> {
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
                target.namespace_labels = [("evil".to_owned(), "yes".to_owned())].into();
            }));
            all.push(attack("everything in the other namespace", vec![placed(evil(), own)]).with(
                move |target| {
                    target.namespace.clone_from(&here);
                    target.enforce_namespace = true;
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
                        .with(move |target| target.service_account = Some(account.clone()))
                })
                .collect();
            // Its own namespace, which its project does not reach.
            let reached = other.clone();
            all.push(attack("of a namespace out of reach", vec![placed(evil(), other)]).with(
                move |target| {
                    target.service_account = Some("named".to_owned());
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
                attack(name, vec![evil()]).with(move |target| target.service_account.clone_from(&account))
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
                target.namespace_labels = [("evil".to_owned(), "yes".to_owned())].into();
            }));
            all.push(attack("everything in the namespace", vec![placed(evil(), own)]).with(move |target| {
                target.namespace.clone_from(&here);
                target.enforce_namespace = true;
            }));
            all.push(
                attack("the agent's account", vec![evil()])
                    .with(move |target| target.service_account = Some(account.clone())),
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

async fn row(cluster: TestCluster, limit: Limit) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let other = f.cluster.namespace().await?;
    let places = Places { own: f.namespace.clone(), other, agent: f.agent_namespace.clone() };
    rights(&f, &places).await?;
    // What the limits allow goes through: it is they that refuse the rest.
    let free = Target { agent_upgrade: true, ..target("free", &places.own) };
    let control = places.limited(limit);
    plural_testkit::eventually(crate::fixture::PATIENCE, async || {
        // An account's rights take a moment to be known.
        let outcome = f.engine.sync(&control, vec![config_map("good", "1")]).await;
        if outcome.applied { Ok(()) } else { Err(format!("{limit:?}: {:?}", outcome.problems)) }
    })
    .await;
    let before = touched(&f, &places)?;
    for door in DOORS {
        if door == Door::Prune {
            // So far nobody got anything in. From here on things are made in order to be taken away.
            assert_eq!(touched(&f, &places)?, before, "{limit:?}: something was written");
        }
        for attack in attacks(limit, &places) {
            let cell = cell(limit, door);
            let name = format!("{limit:?} at {door:?}: {}", attack.name);
            match door {
                Door::Apply | Door::Plan | Door::DryRun | Door::Hook => {
                    enters(&f, &places, (limit, door), &attack, &name).await?;
                }
                Door::Prune | Door::Destroy if attack.makes => {
                    leaves(&f, &places, (limit, door, cell), &attack, &free, &name).await?;
                }
                Door::Prune | Door::Destroy => {}
            }
        }
    }
    Ok(())
}

/// Rights for every account of the attacks, so that it is not for want of them that nothing happens.
async fn rights(f: &Fixture, places: &Places) -> anyhow::Result<()> {
    let Places { own, other, agent } = places;
    let mut everything = role("Role", "rights");
    everything.value["rules"] = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    let account =
        |namespace: &str, name: &str| json!({"kind": "ServiceAccount", "namespace": namespace, "name": name});
    let binding = object(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "rights"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "rights"},
        "subjects": [account(own, "named"), account(other, "named"), account(other, "evil"),
            account(other, "named-2"), account(agent, "evil"), account("kube-public", "evil"),
            account("kube-system", "generic-garbage-collector")]}));
    let outcome = f.engine.sync(&target("rights", own), vec![everything, binding]).await;
    anyhow::ensure!(outcome.applied, "{outcome:?}");
    Ok(())
}

/// Tries to get something into the cluster.
async fn enters(
    f: &Fixture,
    places: &Places,
    (limit, door): (Limit, Door),
    attack: &Attack,
    name: &str,
) -> anyhow::Result<()> {
    let hooks: &[Option<Value>] = match door {
        Door::Hook => &[
            Some(json!({"deployment.plural.sh/sync-hook": "pre-sync"})),
            Some(json!({"argocd.argoproj.io/hook": "PostSync"})),
            Some(json!({"argocd.argoproj.io/hook": "SyncFail"})),
            Some(json!({"helm.sh/hook": "pre-install,post-delete"})),
            Some(json!({"helm.sh/hook": "test"})),
        ],
        Door::Apply | Door::Plan | Door::DryRun | Door::Prune | Door::Destroy => &[None],
    };
    for hook in hooks {
        let mut service = places.limited(limit);
        (attack.change)(&mut service);
        service.dry_run = door == Door::DryRun;
        let mut objects = attack.objects.clone();
        if let Some(annotations) = hook {
            objects =
                objects.into_iter().map(|one| with(one, &json!({"annotations": annotations}))).collect();
        }
        let outcome = if door == Door::Plan {
            f.engine.plan(&service, objects).await
        } else {
            f.engine.sync(&service, objects).await
        };
        refused(&outcome, attack, &format!("{name} {hook:?}"));
        let planned = outcome.plan.iter().flat_map(|plan| &plan.objects);
        let planned: Vec<_> = planned.filter(|line| line.key.name.contains("evil")).collect();
        let whole = attack.objects.len() == 1;
        assert!(planned.is_empty() || !whole, "{name}: {planned:?}");
        f.engine.forget(service.id).await?;
    }
    Ok(())
}

/// Tries to take something out of the cluster that the service made before it was limited.
async fn leaves(
    f: &Fixture,
    places: &Places,
    (limit, door, cell): (Limit, Door, Cell),
    attack: &Attack,
    free: &Target,
    name: &str,
) -> anyhow::Result<()> {
    let mut service = places.limited(limit);
    (attack.change)(&mut service);
    let before = Target {
        id: ServiceId::new(),
        namespace: service.namespace.clone(),
        enforce_namespace: service.enforce_namespace,
        ..free.clone()
    };
    service.id = before.id;
    let good = config_map("stays", "1");
    let mut objects = attack.objects.clone();
    objects.push(good.clone());
    let outcome = f.engine.sync(&before, objects.clone()).await;
    assert!(outcome.applied, "{name}: it cannot be made: {:?}", outcome.problems);
    let made = f.engine.components(before.id);
    let outcome = match door {
        Door::Prune => f.engine.sync(&service, vec![good]).await,
        Door::Destroy => f.engine.destroy(&service).await,
        Door::Apply | Door::Plan | Door::DryRun | Door::Hook => unreachable!("{name}: it does not delete"),
    };
    match cell {
        Cell::Refused => {
            refused(&outcome, attack, name);
            assert!(!outcome.destroyed, "{name}");
            // What its limits allow it may take away.
            let made: Vec<_> = made.iter().filter(|made| made.key.name.contains("evil")).collect();
            assert!(!made.is_empty(), "{name}: it was not made");
            for component in made {
                assert!(is_there(f, component).await?, "{name}: {} was deleted", component.key.words());
            }
        }
        Cell::Open(_) => assert!(outcome.problems.is_empty(), "{name}: {:?}", outcome.problems),
    }
    plural_testkit::eventually(crate::fixture::PATIENCE, async || {
        let outcome = f.engine.destroy(&before).await;
        if outcome.destroyed { Ok(()) } else { Err(format!("{name}: {:?}", outcome.problems)) }
    })
    .await;
    Ok(())
}

#[track_caller]
fn refused(outcome: &Outcome, attack: &Attack, name: &str) {
    let errors: Vec<_> = outcome.problems.iter().filter(|problem| !problem.warning).collect();
    assert!(!errors.is_empty(), "{name}: not refused: {outcome:?}");
    if attack.by_limit {
        let limits: Vec<_> = errors.iter().filter(|problem| problem.part == Part::Limits).collect();
        assert!(!limits.is_empty(), "{name}: not by the limit: {errors:?}");
    }
}

async fn is_there(f: &Fixture, component: &plural_sync::Component) -> anyhow::Result<bool> {
    let plural_sync::ObjectKey { kind, namespace, name } = &component.key;
    let kind = GroupVersionKind::gvk(&kind.group, &component.version, &kind.kind);
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(f.client.clone(), &resource)
    } else {
        Api::namespaced_with(f.client.clone(), namespace, &resource)
    };
    Ok(api.get_opt(name).await?.is_some_and(|found| found.metadata.deletion_timestamp.is_none()))
}

/// What was written or deleted so far of what the attacks are after, by the API server's own books; whoever belongs to the cluster
/// itself left aside.
fn touched(f: &Fixture, places: &Places) -> anyhow::Result<Vec<String>> {
    let Places { own, other, agent } = places;
    let mut found = Vec::new();
    for namespace in [own.as_str(), other, agent, ""] {
        for write in f.cluster.writes(namespace)? {
            // Accounts that the service acts as are the service.
            let account = write.user.starts_with("system:serviceaccount:");
            let of_cluster = write.user.starts_with("system:") && !account;
            let place =
                namespace.is_empty() && [other, agent].contains(&&write.name) && write.verb != "create";
            let ours =
                write.name.contains("evil") && (!namespace.is_empty() || write.name.contains(own.as_str()));
            if !of_cluster && write.code < 300 && (ours || place) {
                found.push(format!("{} {} {}/{}", write.verb, write.resource, namespace, write.name));
            }
        }
    }
    Ok(found)
}
