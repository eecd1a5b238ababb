//! The matrix of tenancy at the doors that need an agent or a console: lookups, previews, plans, what is read from where, what the
//! console takes, who may mark the agent's upgrade. The engine's doors are in `sync`'s test of the same name.
//!
//! One backend is enough: what is refused is refused before any cluster sees it.

use k8s_openapi::api::{
    core::v1::{ConfigMap, Secret},
    rbac::v1::ClusterRoleBinding,
};
use kube::api::{DeleteParams, PostParams};
use plural_core::project_limits::ProjectLimits;
use plural_testkit::{TestCluster, WebFolder, each_cluster, eventually, oci_registry::tar_gz};
use serde_json::{Value, json};

use crate::{
    charts::{Api, chart},
    world::{PATIENCE, World, map},
};

each_cluster!(
    limits_hold_for_lookups_plans_and_previews,
    lists_and_odd_objects_of_a_chart_are_held_to_the_limits,
    attack_16_a_lookup_has_the_rights_of_its_account,
    only_the_marked_service_reaches_the_agents_namespace,
);

mod sources {
    use plural_testkit::run_case;

    #[test]
    fn dependencies_are_read_from_where_the_project_may() {
        run_case(super::dependencies_are_read_from_where_the_project_may());
    }
}

mod console;

/// What lookups may find, by the name that the chart gives it.
const SPIED: [&str; 15] = [
    "own-secret",
    "own-secrets",
    "own-map",
    "other-secret",
    "all-secrets",
    "other-maps",
    "agent-maps",
    "all-maps-agent",
    "own-namespace",
    "other-namespace",
    "namespaces-other",
    "agent-namespace",
    "role",
    // Names that are paths to something else.
    "namespace-path",
    "node-proxy",
];

/// One word for each lookup that found something.
fn spy(own: &str, other: &str, agent: &str) -> String {
    let look = |word: &str, lookup: &str| {
        format!("{{{{- if lookup {lookup} }}}}{{{{- $seen = append $seen `{word}` }}}}{{{{- end }}}}\n")
    };
    // Whether a list has items at all, or one whose field is this.
    let list = |word: &str, lookup: &str, field: &str, value: &str| {
        format!(
            "{{{{- range (lookup {lookup}).items }}}}{{{{- if eq .metadata.{field} `{value}` }}}}\
             {{{{- $seen = append $seen `{word}` }}}}{{{{- end }}}}{{{{- end }}}}\n"
        )
    };
    [
        "{{- define \"spy\" -}}\n{{- $seen := list }}\n".to_owned(),
        look("own-secret", &format!("`v1` `Secret` `{own}` `mine`")),
        list("own-secrets", &format!("`v1` `Secret` `{own}` ``"), "name", "mine"),
        look("own-map", &format!("`v1` `ConfigMap` `{own}` `mine`")),
        look("other-secret", &format!("`v1` `Secret` `{other}` `theirs`")),
        list("all-secrets", "`v1` `Secret` `` ``", "name", "theirs"),
        list("other-maps", &format!("`v1` `ConfigMap` `{other}` ``"), "name", "theirs"),
        list("agent-maps", &format!("`v1` `ConfigMap` `{agent}` ``"), "namespace", agent),
        list("all-maps-agent", "`v1` `ConfigMap` `` ``", "namespace", agent),
        look("own-namespace", &format!("`v1` `Namespace` `` `{own}`")),
        look("other-namespace", &format!("`v1` `Namespace` `` `{other}`")),
        list("namespaces-other", "`v1` `Namespace` `` ``", "name", other),
        look("agent-namespace", &format!("`v1` `Namespace` `` `{agent}`")),
        look("role", "`rbac.authorization.k8s.io/v1` `ClusterRoleBinding` `` `NAME`"),
        look("namespace-path", &format!("`v1` `Namespace` `` `{other}/secrets/theirs`")),
        look("namespace-path", &format!("`v1` `Namespace` `` `{other}%2Fsecrets%2Ftheirs`")),
        look("namespace-path", &format!("`v1` `ConfigMap` `{other}/secrets/theirs?` ``")),
        look("node-proxy", "`v1` `Node` `` `x/proxy/pods`"),
        "{{- $seen | uniq | join \" \" | quote }}\n{{- end -}}\n".to_owned(),
    ]
    .concat()
}

/// Limits, whether the service has an account of its own namespace with all rights, and what it finds.
type Scene = (&'static str, Value, bool, &'static [&'static str]);

/// Every limit has a scene. A new one does not compile until somebody has decided what it means for lookups.
fn scenes(own: &str) -> Vec<Scene> {
    let ProjectLimits {
        namespaces: _,
        allowed_kinds: _,
        denied_kinds: _,
        no_cluster_scoped: _,
        cluster_kinds: _,
        // Where a chart is from says nothing of what it looks up.
        repositories: _,
        service_accounts: _,
        require_service_account: _,
        default_service_account: _,
        // Of references only: `references.rs` has its scenes.
        reference_namespaces: _,
        // Of Jobs of runs, which look nothing up.
        runs: _,
    } = ProjectLimits::default();
    let all: &[&str] = &[
        "own-secret",
        "own-secrets",
        "own-map",
        "other-secret",
        "all-secrets",
        "other-maps",
        "own-namespace",
        "other-namespace",
        "namespaces-other",
        "role",
    ];
    vec![
        ("no limits, an account", json!({}), true, all),
        (
            "no limits, no account",
            json!({}),
            false,
            &[
                "own-secret",
                "own-secrets",
                "own-map",
                "own-namespace",
                "other-namespace",
                "namespaces-other",
                "role",
            ],
        ),
        ("namespaces", json!({"namespaces": [own]}), true, &["own-secret", "own-secrets", "own-map"]),
        (
            "namespaces, no account",
            json!({"namespaces": [own]}),
            false,
            &["own-secret", "own-secrets", "own-map"],
        ),
        (
            "denied kinds",
            json!({"deniedKinds": ["/Secret", "rbac.authorization.k8s.io/*"]}),
            true,
            &["own-map", "other-maps", "own-namespace", "other-namespace", "namespaces-other"],
        ),
        (
            "denied kinds in small letters",
            json!({"deniedKinds": ["/secret", "/namespace", "rbac*/*"]}),
            false,
            &["own-map"],
        ),
        ("allowed kinds", json!({"allowedKinds": ["/ConfigMap"]}), true, &["own-map", "other-maps"]),
        (
            "no cluster-scoped",
            json!({"noClusterScoped": true}),
            true,
            &["own-secret", "own-secrets", "own-map", "other-secret", "all-secrets", "other-maps"],
        ),
        (
            "cluster kinds",
            json!({"namespaces": [own], "clusterKinds": ["/Namespace"]}),
            true,
            &["own-secret", "own-secrets", "own-map", "own-namespace"],
        ),
        ("a named account", json!({"serviceAccounts": ["elsewhere/x"]}), true, all),
        ("a required account", json!({"requireServiceAccount": true}), true, all),
        ("a default account", json!({"defaultServiceAccount": "deployer"}), false, all),
    ]
}

async fn set_limits(api: &Api, limits: &Value) -> anyhow::Result<()> {
    let project = api.ask("query { project(name: \"default\") { id } }", json!({})).await?;
    let set = "mutation ($p: ID!, $a: ProjectLimitsAttributes!) {
        setProjectLimits(projectId: $p, attributes: $a) { id }
    }";
    api.ask(set, json!({"p": project["project"]["id"], "a": limits})).await?;
    Ok(())
}

async fn set_account(api: &Api, service: &str, account: Option<&str>) -> anyhow::Result<()> {
    let update = "mutation ($id: ID, $a: ServiceUpdateAttributes!) {
        updateServiceDeployment(id: $id, attributes: $a) { id }
    }";
    let attributes = json!({"syncConfig": {"serviceAccount": account}});
    api.ask(update, json!({"id": service, "a": attributes})).await?;
    Ok(())
}

/// An account `deployer` of the world's namespace that may do everything, and things to find.
async fn furnish(w: &World, other: &str) -> anyhow::Result<String> {
    for (namespace, name) in [(w.namespace.as_str(), "mine"), (other, "theirs")] {
        let secrets: kube::Api<Secret> = kube::Api::namespaced(w.client.clone(), namespace);
        let mut secret = Secret::default();
        secret.metadata.name = Some(name.to_owned());
        secret.string_data = Some([("password".to_owned(), "canary".to_owned())].into());
        secrets.create(&PostParams::default(), &secret).await?;
        let maps: kube::Api<ConfigMap> = kube::Api::namespaced(w.client.clone(), namespace);
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        maps.create(&PostParams::default(), &map).await?;
    }
    let name = format!("{}-deployer", w.namespace);
    let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": w.namespace}]}))?;
    kube::Api::<ClusterRoleBinding>::all(w.client.clone()).create(&PostParams::default(), &binding).await?;
    Ok(name)
}

/// The key of a ConfigMap in the console's preview of the service.
async fn previewed(api: &Api, service: &str, name: &str) -> anyhow::Result<Option<String>> {
    let asked = "query ($id: ID) { servicePreview(id: $id) { objects { name content } errors { message } } }";
    let found = api.ask(asked, json!({"id": service})).await?;
    let objects = found["servicePreview"]["objects"].as_array().cloned().unwrap_or_default();
    let object = objects.into_iter().find(|object| object["name"] == name);
    Ok(object.map(|object| {
        let content = match &object["content"] {
            Value::String(text) => serde_json::from_str(text).unwrap_or_default(),
            content => content.clone(),
        };
        content["data"]["key"].as_str().unwrap_or_default().to_owned()
    }))
}

async fn limits_hold_for_lookups_plans_and_previews(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let api = Api::new(&w).await?;
    let other = w.cluster.namespace().await?;
    let binding = furnish(&w, &other).await?;
    let spy = spy(&w.namespace, &other, w.agent_namespace()).replace("NAME", &binding);
    let object = |name: &str, hook: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  annotations: {{{hook}}}\ndata:\n  \
             scene: {{{{ .Values.scene | quote }}}}\n  key: {{{{ include \"spy\" . }}}}\n"
        )
    };
    w.remote.push_files([
        ("chart/Chart.yaml", "apiVersion: v2\nname: spy\nversion: 1.0.0\n".to_owned()),
        ("chart/values.yaml", "scene: none\n".to_owned()),
        ("chart/templates/_spy.tpl", spy),
        ("chart/templates/spied.yaml", object("spied", "")),
        ("chart/templates/hooked.yaml", object("hooked", "argocd.argoproj.io/hook: PostSync")),
    ])?;
    let id = w.service("chart").await?;
    for (scene, limits, account, expected) in scenes(&w.namespace) {
        let expected: Vec<&str> = SPIED.into_iter().filter(|word| expected.contains(word)).collect();
        let expected = expected.join(" ");
        // Limits that require an account come after it.
        set_limits(&api, &json!({})).await?;
        set_account(&api, &id, account.then_some("deployer")).await?;
        set_limits(&api, &limits).await?;
        let values = "mutation ($id: ID, $a: ServiceUpdateAttributes!) {
            updateServiceDeployment(id: $id, attributes: $a) { id }
        }";
        let attributes = json!({"helm": {"values": format!("scene: {scene:?}\n")}});
        api.ask(values, json!({"id": id, "a": attributes})).await?;
        for name in ["spied", "hooked"] {
            eventually(PATIENCE, async || {
                let found = w.maps().get_opt(name).await.map_err(|error| error.to_string())?;
                let data = found.and_then(|map| map.data).unwrap_or_default();
                let is_of_scene = data.get("scene").is_some_and(|found| found == scene);
                let seen = data.get("key").map(String::as_str).unwrap_or_default();
                if is_of_scene && seen == expected {
                    return Ok(());
                }
                let told = w.person.details(&id).await.map(|found| found.errors);
                Err(format!("{scene}: {name} saw {data:?}, not {expected:?}; {told:?}"))
            })
            .await;
        }
        // The console asks no cluster, whatever the limits are.
        assert_eq!(previewed(&api, &id, "spied").await?.as_deref(), Some(""), "{scene}");
        // A plan renders anew, and finds the same: nothing would change.
        let asked =
            api.ask("mutation ($id: ID!) { planService(id: $id) { requestId } }", json!({"id": id})).await?;
        let plan = eventually(PATIENCE, async || {
            let query = "query ($id: ID!, $r: ID) { servicePlan(serviceId: $id, requestId: $r) { objects { object { name } action } } }";
            let found = api.ask(query, json!({"id": id, "r": asked["planService"]["requestId"]})).await;
            let found = found.map_err(|error| error.to_string())?["servicePlan"].clone();
            if found.is_null() { Err("no plan yet".to_owned()) } else { Ok(found) }
        })
        .await;
        assert_eq!(plan["objects"], json!([]), "{scene}");
    }
    kube::Api::<ClusterRoleBinding>::all(w.client.clone()).delete(&binding, &DeleteParams::default()).await?;
    w.end().await
}

/// A chart's templates become objects in the agent, lists among them.
async fn lists_and_odd_objects_of_a_chart_are_held_to_the_limits(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let api = Api::new(&w).await?;
    let other = w.cluster.namespace().await?;
    set_limits(&api, &json!({"namespaces": [w.namespace], "deniedKinds": ["/Secret"]})).await?;
    let one = |kind: &str, namespace: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "evil", "namespace": namespace}});
    let list =
        |kind: &str, items: Value| json!({"apiVersion": "v1", "kind": kind, "items": items}).to_string();
    let chart = ("chart/Chart.yaml", "apiVersion: v2\nname: evil\nversion: 1.0.0\n".to_owned());
    let hook = json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "evil", "annotations": {"helm.sh/hook": "pre-install"}}});
    w.remote.push_files([
        ("raw/list.yaml", list("List", json!([one("ConfigMap", &other), one("Secret", &w.namespace)]))),
        ("raw/maps.yaml", list("ConfigMapList", json!([one("ConfigMap", &other)]))),
        (
            "nested/list.yaml",
            list("List", json!([{"apiVersion": "v1", "kind": "List", "items": [one("ConfigMap", &other)]}])),
        ),
        chart,
        ("chart/templates/list.yaml", list("List", json!([one("ConfigMap", &other), hook]))),
        ("kustomize/kustomization.yaml", format!("resources: [map.yaml]\nnamespace: {other}\n")),
        ("kustomize/map.yaml", map("evil", "1")),
        ("good/map.yaml", map("good", "1")),
    ])?;
    for (folder, words) in [
        ("raw", "project default"),
        ("nested", ""),
        ("chart", "project default"),
        ("kustomize", "project default"),
    ] {
        let id = w.service(folder).await?;
        w.person.is_told(&id, &[words]).await;
    }
    let good = w.service("good").await?;
    w.until_value("good", "1").await;
    drop(good);
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(w.client.clone(), &other);
    assert!(maps.get_opt("evil").await?.is_none());
    let secrets: kube::Api<Secret> = kube::Api::namespaced(w.client.clone(), &w.namespace);
    assert!(secrets.get_opt("evil").await?.is_none());
    w.end().await
}

async fn attack_16_a_lookup_has_the_rights_of_its_account(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let api = Api::new(&w).await?;
    let other = w.cluster.namespace().await?;
    let secrets: kube::Api<Secret> = kube::Api::namespaced(w.client.clone(), &w.namespace);
    let mut secret = Secret::default();
    secret.metadata.name = Some("mine".to_owned());
    secrets.create(&PostParams::default(), &secret).await?;
    // The account may write ConfigMaps and read no Secret, not even in its own namespace.
    let roles: kube::Api<k8s_openapi::api::rbac::v1::Role> =
        kube::Api::namespaced(w.client.clone(), &w.namespace);
    let role = serde_json::from_value(json!({"metadata": {"name": "deployer"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]}))?;
    roles.create(&PostParams::default(), &role).await?;
    let bindings: kube::Api<k8s_openapi::api::rbac::v1::RoleBinding> =
        kube::Api::namespaced(w.client.clone(), &w.namespace);
    let binding = serde_json::from_value(json!({"metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": w.namespace}]}))?;
    bindings.create(&PostParams::default(), &binding).await?;
    let spy = spy(&w.namespace, &other, w.agent_namespace());
    w.remote.push_files([
        ("chart/Chart.yaml", "apiVersion: v2\nname: spy\nversion: 1.0.0\n".to_owned()),
        ("chart/templates/_spy.tpl", spy),
        (
            "chart/templates/spied.yaml",
            format!("{}\n", map("spied", "x").replace("\"x\"", "{{ include \"spy\" . }}")),
        ),
    ])?;
    let more = json!({"repositoryId": w.repository, "git": {"ref": "main", "folder": "chart"},
        "syncConfig": {"serviceAccount": "deployer", "createNamespace": false}});
    let id = api.service(&w, "chart", more).await?;
    w.until_value("spied", "").await;
    // With the agent's rights it finds its own Secret: it was the account that did not.
    set_account(&api, &id, None).await?;
    eventually(PATIENCE, async || {
        let found = w.value("spied").await.map_err(|error| error.to_string())?.unwrap_or_default();
        if found.contains("own-secret") && !found.contains("other-secret") && !found.contains("all-secrets") {
            Ok(())
        } else {
            Err(found)
        }
    })
    .await;
    w.end().await
}

async fn only_the_marked_service_reaches_the_agents_namespace(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let api = Api::new(&w).await?;
    let agent = w.agent_namespace().to_owned();
    let there = map("upgrade", "1").replace("metadata:", &format!("metadata:\n  namespace: {agent}"));
    let sha = w.remote.push_files([("app/map.yaml", there), ("own/map.yaml", map("own", "1"))])?;
    let id = w.service("app").await?;
    w.person.fails_with(&id, &["namespace", &agent, "the agent's own"]).await;
    let maps: kube::Api<ConfigMap> = kube::Api::namespaced(w.client.clone(), &agent);
    assert!(maps.get_opt("upgrade").await?.is_none());

    // Neither a writer nor an administrator of the project can mark it.
    let mark = "mutation ($id: ID!, $m: Boolean!) { markAgentUpgrade(id: $id, marked: $m) { agentUpgrade } }";
    let other = w.service("own").await?;
    set_limits(&api, &json!({"namespaces": [w.namespace]})).await?;
    let marked = api.ask(mark, json!({"id": id, "m": true})).await?;
    assert_eq!(marked["markAgentUpgrade"]["agentUpgrade"], true);
    // It is the installation's matter: the project's limits do not hold for it.
    w.person.stands_at(&id, &sha).await;
    assert!(maps.get_opt("upgrade").await?.is_some());
    // A cluster has one, and its marks are in the audit log.
    let second = api.ask(mark, json!({"id": other, "m": true})).await.unwrap_err().to_string();
    assert!(second.contains("take that mark off first"), "{second}");
    let events = "query ($id: ID) { serviceDeployment(id: $id) { id agentUpgrade } audits(first: 50) {
        edges { node { action } } } }";
    let audits = api.ask(events, json!({"id": id})).await?.to_string();
    assert!(audits.contains("service.agent_upgrade.mark"), "{audits}");

    // Without the mark it keeps what it has, and can neither change nor take it away.
    api.ask(mark, json!({"id": id, "m": false})).await?;
    w.person.is_told(&id, &["the agent's own"]).await;
    assert!(maps.get_opt("upgrade").await?.is_some());
    w.end().await
}

/// An index of one version of one chart.
fn index(chart: &str) -> String {
    format!(
        "apiVersion: v1\nentries:\n  {chart}:\n  - {{name: {chart}, version: 1.0.0, urls: ['{chart}-1.0.0.tgz']}}\n"
    )
}

/// Addresses that a chart's dependencies lead to are held to the limits before anybody is asked.
async fn dependencies_are_read_from_where_the_project_may() -> anyhow::Result<()> {
    let w = crate::charts::world(TestCluster::kubesim().await?).await?;
    let api = Api::new(&w).await?;
    let (good, bad) = (WebFolder::start()?, WebFolder::start()?);
    let nested = |url: &str| {
        tar_gz([
            ("nested/Chart.yaml", format!("apiVersion: v2\nname: nested\nversion: 1.0.0\ndependencies:\n- {{name: base, version: 1.0.0, repository: '{url}'}}\n").as_str()),
            ("nested/templates/map.yaml", map("nested", "1").as_str()),
        ])
    };
    for web in [&good, &bad] {
        web.write("charts/base-1.0.0.tgz", chart("base", "1.0.0", "base"))?;
        web.write("charts/index.yaml", index("base"))?;
    }
    let archive = nested(&bad.url("/charts"));
    good.write("nested/nested-1.0.0.tgz", &archive)?;
    good.write("nested/index.yaml", index("nested"))?;
    let needs = |name: &str, version: &str, url: &str| {
        format!(
            "apiVersion: v2\nname: app\nversion: 1.0.0\ndependencies:\n- {{name: {name}, version: {version}, repository: '{url}'}}\n"
        )
    };
    let (good_url, bad_url) = (good.url("/charts"), bad.url("/charts"));
    let by_name = bad_url.replace("127.0.0.1", "localhost");
    let kustomization = format!(
        "helmCharts:\n- {{name: base, version: 1.0.0, repo: '{bad_url}', releaseName: base}}\nresources: []\n"
    );
    let values = |name: &str| format!("{name}/templates/map.yaml");
    let folders = [
        ("fine", needs("base", "1.0.0", &good_url)),
        ("elsewhere", needs("base", "1.0.0", &bad_url)),
        ("by-name", needs("base", "1.0.0", &by_name)),
        ("nested", needs("nested", "1.0.0", &good.url("/nested"))),
        ("dots", needs("base", "1.0.0", &format!("{good_url}/../x"))),
    ];
    let mut files: Vec<(String, String)> = Vec::new();
    for (name, chart) in &folders {
        files.push((format!("{name}/Chart.yaml"), chart.clone()));
        files.push((values(name), map(&format!("{name}-map"), "1")));
    }
    files.push(("kustomize/overlay/kustomization.yaml".to_owned(), kustomization));
    let sha = w.remote.push_files(files)?;
    let remote = w.remote.path().display().to_string();
    set_limits(&api, &json!({"repositories": [remote, good.url("/*")]})).await?;

    // Nobody completes a packed chart: what it lacks is left out, as Helm does, and not fetched.
    for folder in ["fine", "nested"] {
        let id = w.service(folder).await?;
        w.person.stands_at(&id, &sha).await;
    }
    let bad_at_the_start = bad.seen().len();
    assert_eq!(bad_at_the_start, 0, "{:?}", bad.seen());
    for (folder, words) in [
        ("elsewhere", "limit repositories"),
        ("by-name", "limit repositories"),
        ("dots", "limit repositories"),
    ] {
        let id = w.service(folder).await?;
        w.person.fails_with(&id, &[words]).await;
    }
    let more = json!({"repositoryId": w.repository, "git": {"ref": "main", "folder": "kustomize"},
        "kustomize": {"path": "overlay", "enableHelm": true}});
    let id = api.service(&w, "kustomize", more).await?;
    w.person.fails_with(&id, &["limit repositories"]).await;
    // A chart of its own, and a range of addresses that only look like the allowed one.
    let longer = good_url.replace("/charts", "0/charts");
    for url in [
        bad_url.clone(),
        by_name,
        format!("{}@{}", good.url(""), bad_url.trim_start_matches("http://")),
        good_url.replace("http://", "https://"),
        longer,
    ] {
        let more = json!({"helm": {"url": url, "chart": "base", "version": "1.0.0"}});
        let refused = api.service(&w, "direct", more).await.unwrap_err().to_string();
        assert!(!refused.contains("canary"), "{refused}");
    }
    assert_eq!(bad.seen().len(), bad_at_the_start, "nobody asked: {:?}", bad.seen());
    // The same without limits is read: it was they that refused it.
    set_limits(&api, &json!({})).await?;
    let id = api
        .service(&w, "free", json!({"helm": {"url": bad_url, "chart": "base", "version": "1.0.0"}}))
        .await?;
    w.until_value("free", "base").await;
    drop(id);
    assert!(bad.seen().len() > bad_at_the_start);
    w.end().await
}
