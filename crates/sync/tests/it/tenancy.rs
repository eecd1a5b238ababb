//! The matrix of tenancy: every limit at every door of the engine, with many shapes of the same attack. Lookups and previews
//! have their doors in the agent and the console: see `plural`'s test of the same name.

mod attacks;

use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use plural_core::ids::ServiceId;
use plural_core::project_limits::ProjectLimits;
use plural_sync::{Limits, Outcome, Part, Target};
use plural_testkit::{TestCluster, each_cluster};
use serde_json::{Value, json};

use self::attacks::{Attack, attacks, role, with};
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
        // It gives references of configurations more to read, and refuses nothing that is written.
        reference_namespaces: _,
        // Of Jobs of runs, which no service writes.
        runs: _,
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
        let mut service = Target { limits, ..target("limited", &name) };
        service.config.delete_namespace = true;
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
            limited.config.service_account = Some("named".to_owned());
        }
        limited.config.policy.prune_percent = Some(100);
        limited
    }
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
    let mut before = Target { id: ServiceId::new(), namespace: service.namespace.clone(), ..free.clone() };
    before.config.enforce_namespace = service.config.enforce_namespace;
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
