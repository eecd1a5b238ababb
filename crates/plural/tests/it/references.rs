//! Configuration by reference: only the agent reads it, and nothing of it reaches the console.

use std::{
    collections::BTreeMap,
    io::{Read as _, Seek as _, SeekFrom},
};

use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use plural_kubesim::AuditKey;
use plural_testkit::{GitRemote, TestCluster, each_cluster, eventually, run_case};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    asker::{Asker, OF_A_SERVICE, held, holds_none},
    program::{AgentProcess, ConsoleProcess, Home},
    world::{PATIENCE, Person, World},
};

each_cluster!(
    a_service_with_secrets_only_by_reference_leaves_none_in_the_console,
    a_reference_leads_where_its_service_may_read_and_nowhere_else,
    a_plan_after_a_restart_shows_no_value_of_a_reference_that_is_gone,
);

const FIRST: &str = "first-canary-3f9c1d7e";
const SECOND: &str = "second-canary-91b2ac44";
const THIRD: &str = "third-canary-5d0e6f18";
/// Of which the console must know: where to look, so that a search can find something.
const OBJECT: &str = "database-login-7a61";

const FILLED: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: filled}
data:
  key: "{{ configuration.password }}"
  around: "{{ configuration.password | prepend: "user:" | append: "@host" | b64enc }}"
  domain: "{{ configuration.domain }}"
---
apiVersion: v1
kind: Secret
metadata: {name: kept}
stringData: {password: "{{ configuration.password }}"}
"#;
/// What the API server refuses, and quotes.
const REFUSED: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: "Refused_{{ configuration.password }}"}
data: {key: "1"}
"#;

/// A service of another namespace writes what it read there into this one.
fn stolen(namespace: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: stolen, namespace: {namespace}}}\ndata: {{key: \"{{{{ configuration.password }}}}\"}}\n"
    )
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn login(value: &str) -> Secret {
    object(json!({"metadata": {"name": OBJECT}, "stringData": {"password": value}}))
}

async fn merge<K>(api: &Api<K>, name: &str, patch: &Value) -> anyhow::Result<()>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

fn secret(name: &str, key: &str) -> Value {
    json!({"secretKeyRef": {"name": name, "key": key}})
}

async fn create(admin: &Asker, cluster: &str, attributes: &Value) -> anyhow::Result<Value> {
    let document = "mutation ($cluster: ID, $a: ServiceDeploymentAttributes!) {
        createServiceDeployment(clusterId: $cluster, attributes: $a) { id } }";
    admin.ask(document, json!({"cluster": cluster, "a": attributes})).await
}

async fn update(admin: &Asker, id: &str, attributes: Value) -> anyhow::Result<Value> {
    let document = "mutation ($id: ID, $a: ServiceUpdateAttributes!) {
        updateServiceDeployment(id: $id, attributes: $a) { id } }";
    admin.ask(document, json!({"id": id, "a": attributes})).await
}

fn made(answer: &Value) -> String {
    answer["data"]["createServiceDeployment"]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

async fn until_key(maps: &Api<ConfigMap>, key: &str, value: &str) {
    eventually(PATIENCE, async || {
        let found = maps.get_opt("filled").await.map_err(|error| error.to_string())?;
        let found = found.and_then(|map| map.data).unwrap_or_default();
        if found.get(key).is_some_and(|found| found == value) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

/// All memory of a process that can be read.
pub(crate) fn memory(pid: u32) -> anyhow::Result<Vec<u8>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let mut file = std::fs::File::open(format!("/proc/{pid}/mem"))?;
    let mut all = Vec::new();
    for line in
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|flags| flags.starts_with("rw")))
    {
        let range = line.split(' ').next().unwrap_or_default().split_once('-');
        let Some((from, to)) = range else { continue };
        let (from, to) = (u64::from_str_radix(from, 16)?, u64::from_str_radix(to, 16)?);
        let mut part = vec![0; usize::try_from(to - from)?];
        // What the kernel keeps to itself is left out.
        if file.seek(SeekFrom::Start(from)).is_ok() && file.read_exact(&mut part).is_ok() {
            all.append(&mut part);
        }
    }
    Ok(all)
}

/// Done-when 4: the whole console is searched for what its service is deployed with.
async fn a_service_with_secrets_only_by_reference_leaves_none_in_the_console(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let home = Home::new()?;
    let mut console = ConsoleProcess::start(&home, None, "debug").await?;
    let person = Person::administrator(&console.url()).await?;
    let admin = Asker::administrator(&console.url()).await?;
    let registered = person.cluster("blue").await?;
    let remote = GitRemote::new()?;
    let sha = remote.push_files([
        ("app/a.yaml.liquid", FILLED.to_owned()),
        ("refused/a.yaml.liquid", REFUSED.to_owned()),
    ])?;
    let repository = person.repository(&remote.path().display().to_string()).await?;
    let namespace = cluster.namespace().await?;
    let client = cluster.client().await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &namespace);
    let maps: Api<ConfigMap> = Api::namespaced(client, &namespace);
    secrets.create(&PostParams::default(), &login(FIRST)).await?;
    let site: ConfigMap =
        object(json!({"metadata": {"name": "site"}, "data": {"domain": "shop.example.com"}}));
    maps.create(&PostParams::default(), &site).await?;
    let service = |folder: &str| {
        json!({"name": folder, "namespace": namespace, "repositoryId": repository, "git": {"ref": "main", "folder": folder},
        "configuration": [
            {"name": "password", "valueFrom": secret(OBJECT, "password")},
            {"name": "domain", "valueFrom": {"configMapKeyRef": {"name": "site", "key": "domain"}}},
        ]})
    };
    let app = made(&create(&admin, &registered.id, &service("app")).await?);
    let refused = made(&create(&admin, &registered.id, &service("refused")).await?);
    // At debug level the client's library logs addresses, and so the name that a template made of the value.
    let mut agent = AgentProcess::start(&home, &console.url(), &registered.token, &cluster, "info").await?;
    person.stands_at(&app, &sha).await;
    until_key(&maps, "key", FIRST).await;
    until_key(&maps, "domain", "shop.example.com").await;
    person.fails_with(&refused, &["********"]).await;

    // A reference is shown as such, and there is no value.
    let asked = "query ($id: ID!) { serviceDeployment(id: $id) { configuration {
        name value valueFrom { secretKeyRef { name key namespace } configMapKeyRef { name } } } } }";
    let told = admin.data(asked, json!({"id": app})).await?;
    let told = &told["serviceDeployment"]["configuration"];
    let password = told.as_array().unwrap().iter().find(|one| one["name"] == "password").unwrap();
    assert_eq!(password["value"], "");
    let key = json!({"name": OBJECT, "key": "password", "namespace": null});
    assert_eq!(password["valueFrom"], json!({"secretKeyRef": key, "configMapKeyRef": null}));
    // A render of the console has placeholders, and says so.
    let asked =
        "query ($id: ID!) { servicePreview(id: $id) { objects { kind content } errors { message } } }";
    let preview = admin.data(asked, json!({"id": app})).await?["servicePreview"].take();
    let text = preview.to_string();
    assert!(text.contains(&format!("secret:{OBJECT}#password")), "{text}");
    assert!(text.contains("placeholders stand for the values of references"), "{text}");

    // The Secret changes: the object moves. So it does where the agent was killed meanwhile.
    let change = |value: &str| json!({"stringData": {"password": value}});
    merge(&secrets, OBJECT, &change(SECOND)).await?;
    until_key(&maps, "key", SECOND).await;
    agent.kill();
    merge(&secrets, OBJECT, &change(THIRD)).await?;
    agent.restart()?;
    until_key(&maps, "key", THIRD).await;
    person.stands_at(&app, &sha).await;
    // Somebody changes the object back: that is drift, which shows neither value.
    merge(&maps, "filled", &json!({"data": {"key": FIRST}})).await?;
    until_key(&maps, "key", THIRD).await;
    let asked = "query ($id: ID!) { serviceDeployment(id: $id) { drift(last: 20) { edges { node {
        object { name } fields { path before after } } } } } }";
    eventually(PATIENCE, async || {
        let told =
            admin.data(asked, json!({"id": app})).await.map_err(|error| error.to_string())?.to_string();
        if told.contains("filled") && told.contains("********") { Ok(()) } else { Err(told) }
    })
    .await;

    let canaries: Vec<(&str, String)> = [("first", FIRST), ("second", SECOND), ("third", THIRD)]
        .map(|(name, text)| (name, text.to_owned()))
        .into();
    for id in [&app, &refused] {
        for (what, document) in OF_A_SERVICE {
            let answer = admin.ask(document, json!({"id": id})).await?.to_string();
            holds_none(what, answer.as_bytes(), &canaries);
        }
    }
    // The search finds what is there: in the cluster, and of the console where it is to look.
    let kept = secrets.get("kept").await?.data.unwrap_or_default();
    assert_eq!(kept["password"].0, THIRD.as_bytes());
    console.freeze()?;
    let memory = memory(console.pid())?;
    console.thaw()?;
    assert!(memory.len() > 1 << 20 && held(&memory, &[("object", OBJECT.to_owned())]).is_some());
    holds_none("the console's memory", &memory, &canaries);
    agent.stop();
    console.stop();
    holds_none("the console's log", console.log().as_bytes(), &canaries);
    holds_none("the agent's log", agent.log().as_bytes(), &canaries);
    let (mut files, mut folders) = (0, vec![console.data(), home.path().join("agent")]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)?.flatten() {
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else {
                holds_none(&entry.path().display().to_string(), &std::fs::read(entry.path())?, &canaries);
                files += usize::from(entry.file_name().to_string_lossy().starts_with("plural.db"));
            }
        }
    }
    assert!(files > 0, "the database is among the files");
    Ok(())
}

async fn a_reference_leads_where_its_service_may_read_and_nowhere_else(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let admin = Asker::administrator(&w.console.url).await?;
    let sha = w.remote.push_files([("app/a.yaml.liquid", FILLED.to_owned())])?;
    let other = w.cluster.namespace().await?;
    let mine: Api<Secret> = Api::namespaced(w.client.clone(), &w.namespace);
    let theirs: Api<Secret> = Api::namespaced(w.client.clone(), &other);
    theirs.create(&PostParams::default(), &login(SECOND)).await?;
    let service = |name: &str, from: Value| {
        json!({"name": name, "namespace": w.namespace, "repositoryId": w.repository,
            "git": {"ref": "main", "folder": "app"},
            "configuration": [{"name": "password", "valueFrom": from}, {"name": "domain", "value": "x"}]})
    };

    // What is not there is named, and looked at again when it comes.
    let app = made(&create(&admin, &w.registered.id, &service("app", secret(OBJECT, "password"))).await?);
    let missing = format!("Secret {}/{OBJECT} does not exist", w.namespace);
    w.person.fails_with(&app, &["\"password\"", &missing]).await;
    mine.create(&PostParams::default(), &login(FIRST)).await?;
    w.person.stands_at(&app, &sha).await;
    until_key(&w.maps(), "key", FIRST).await;
    let no_key = json!({"mergeConfiguration": [{"name": "password", "valueFrom": secret(OBJECT, "token")}]});
    assert!(update(&admin, &app, no_key).await?["errors"].is_null());
    w.person.fails_with(&app, &["has no key \"token\""]).await;
    merge(&mine, OBJECT, &json!({"stringData": {"token": THIRD}})).await?;
    until_key(&w.maps(), "key", THIRD).await;
    w.person.stands_at(&app, &sha).await;

    // Another namespace takes the limit of the project, at the console and at the agent.
    let elsewhere = json!({"secretKeyRef": {"name": OBJECT, "key": "password", "namespace": other}});
    let away = json!({"mergeConfiguration": [{"name": "password", "valueFrom": elsewhere}]});
    let answer = update(&admin, &app, away.clone()).await?.to_string();
    assert!(answer.contains("limit referenceNamespaces"), "{answer}");
    let projects = admin.data("{ projects { edges { node { id } } } }", json!({})).await?;
    let project = projects["projects"]["edges"][0]["node"]["id"].clone();
    let limit = async |namespaces: &[&str]| {
        let document = "mutation ($id: ID!, $a: ProjectLimitsAttributes!) {
            setProjectLimits(projectId: $id, attributes: $a) { limits { referenceNamespaces } } }";
        admin.data(document, json!({"id": project, "a": {"referenceNamespaces": namespaces}})).await
    };
    limit(&[other.as_str()]).await?;
    let answer = update(&admin, &app, away).await?;
    assert!(answer["errors"].is_null(), "{answer}");
    until_key(&w.maps(), "key", SECOND).await;
    limit(&["nobodys"]).await?;
    w.person.fails_with(&app, &["may not read Secret", "limit referenceNamespaces"]).await;

    // Nor does a service become one of a namespace that its project may not write to.
    let moved = json!({"name": "moved", "namespace": other, "repositoryId": w.repository,
        "git": {"ref": "main", "folder": "stolen"},
        "configuration": [{"name": "password", "valueFrom": secret(OBJECT, "password")}]});
    w.remote.push_files([("stolen/a.yaml.liquid", stolen(&w.namespace))])?;
    let within = async |namespaces: &[&str]| {
        let document = "mutation ($id: ID!, $a: ProjectLimitsAttributes!) {
            setProjectLimits(projectId: $id, attributes: $a) { limits { namespaces } } }";
        admin.data(document, json!({"id": project, "a": {"namespaces": namespaces}})).await
    };
    within(&[w.namespace.as_str()]).await?;
    let answer = create(&admin, &w.registered.id, &moved).await?.to_string();
    assert!(answer.contains("limit namespaces"), "{answer}");
    within(&[]).await?;
    let moved = made(&create(&admin, &w.registered.id, &moved).await?);
    let stolen = || async { w.maps().get_opt("stolen").await.map_err(|error| error.to_string()) };
    eventually(PATIENCE, async || stolen().await?.map(drop).ok_or_else(|| "not yet".to_owned())).await;
    within(&[w.namespace.as_str()]).await?;
    w.person.fails_with(&moved, &["may not read Secret", "limit namespaces"]).await;
    within(&[]).await?;
    let both = [
        json!({"secretKeyRef": {"name": "a", "key": "b"}, "configMapKeyRef": {"name": "a", "key": "b"}}),
        json!({}),
        json!({"secretKeyRef": {"name": "../a", "key": "b"}}),
    ];
    for from in both {
        let answer = create(&admin, &w.registered.id, &service("odd", from)).await?;
        assert!(answer["data"]["createServiceDeployment"].is_null(), "{answer}");
    }

    // The account of a service reads, not the agent.
    let accounts: Api<ServiceAccount> = Api::namespaced(w.client.clone(), &w.namespace);
    accounts.create(&PostParams::default(), &object(json!({"metadata": {"name": "deployer"}}))).await?;
    let role = |rules: Value| json!({"metadata": {"name": "deployer"}, "rules": rules});
    let write = json!({"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["get", "create", "patch", "delete"]});
    let read = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]});
    let roles: Api<k8s_openapi::api::rbac::v1::Role> = Api::namespaced(w.client.clone(), &w.namespace);
    roles.create(&PostParams::default(), &object(role(json!([write])))).await?;
    let bindings: Api<k8s_openapi::api::rbac::v1::RoleBinding> =
        Api::namespaced(w.client.clone(), &w.namespace);
    let binding = object(json!({"metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": w.namespace}]}));
    bindings.create(&PostParams::default(), &binding).await?;
    let acts = json!({"mergeConfiguration": [{"name": "password", "valueFrom": secret(OBJECT, "password")}],
        "syncConfig": {"serviceAccount": "deployer", "createNamespace": false}});
    let answer = update(&admin, &app, acts).await?;
    assert!(answer["errors"].is_null(), "{answer}");
    let who = format!("as system:serviceaccount:{}:deployer", w.namespace);
    w.person.fails_with(&app, &["cannot read Secrets", &who, "get, list and watch"]).await;
    merge(&roles, "deployer", &json!({"rules": [write, read]})).await?;
    until_key(&w.maps(), "key", FIRST).await;
    mine.delete(OBJECT, &DeleteParams::default()).await?;
    w.person.fails_with(&app, &[&missing]).await;
    w.end().await
}

/// The agent that made the objects is gone, and with it what it knew; the service refers to nothing any more.
async fn a_plan_after_a_restart_shows_no_value_of_a_reference_that_is_gone(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let mut w = World::new(cluster).await?;
    let admin = Asker::administrator(&w.console.url).await?;
    let sha = w.remote.push_files([("app/a.yaml.liquid", FILLED.to_owned())])?;
    let secrets: Api<Secret> = Api::namespaced(w.client.clone(), &w.namespace);
    secrets.create(&PostParams::default(), &login(FIRST)).await?;
    let attributes = json!({"name": "app", "namespace": w.namespace, "repositoryId": w.repository,
        "git": {"ref": "main", "folder": "app"}, "configuration": [
            {"name": "password", "valueFrom": secret(OBJECT, "password")}, {"name": "domain", "value": "x.example.com"}]});
    let app = made(&create(&admin, &w.registered.id, &attributes).await?);
    w.person.stands_at(&app, &sha).await;
    until_key(&w.maps(), "key", FIRST).await;
    w.agent.take().unwrap().stop().await;
    let plain = json!({"mergeConfiguration": [{"name": "password", "value": "in clear from now on"}]});
    assert!(update(&admin, &app, plain).await?["errors"].is_null());
    let asked =
        admin.data("mutation ($id: ID!) { planService(id: $id) { requestId } }", json!({"id": app})).await?;
    let request = asked["planService"]["requestId"].clone();
    // Its folder is gone, too: all that is left is in the cluster.
    std::fs::remove_dir_all(w.folder.path().join("agent"))?;
    w.start_agent().await?;
    let document = "query ($id: ID!, $request: ID) { servicePlan(serviceId: $id, requestId: $request) {
        error objects { object { name } fields { path before after } } } }";
    let plan = eventually(PATIENCE, async || {
        let found = admin.ask(document, json!({"id": app, "request": request})).await;
        let found = found.map_err(|error| error.to_string())?.to_string();
        if found.contains("filled") { Ok(found) } else { Err(found) }
    })
    .await;
    assert!(plan.contains("********"), "{plan}");
    until_key(&w.maps(), "key", "in clear from now on").await;
    w.person.stands_at(&app, &sha).await;
    let canaries = [("first", FIRST.to_owned())];
    holds_none("the plan", plan.as_bytes(), &canaries);
    for (what, document) in OF_A_SERVICE {
        let answer = admin.ask(document, json!({"id": app})).await?.to_string();
        holds_none(what, answer.as_bytes(), &canaries);
    }
    // Once it is applied there is nothing to hide any more.
    merge(&w.maps(), "filled", &json!({"data": {"domain": "changed by hand"}})).await?;
    until_key(&w.maps(), "domain", "x.example.com").await;
    let drift = "query ($id: ID!) { serviceDeployment(id: $id) { drift(last: 20) { edges { node {
        object { name } fields { path before after } } } } } }";
    eventually(PATIENCE, async || {
        let told =
            admin.data(drift, json!({"id": app})).await.map_err(|error| error.to_string())?.to_string();
        if told.contains("changed by hand") { Ok(()) } else { Err(told) }
    })
    .await;
    w.end().await
}

/// A thousand references of many services to many Secrets: one list and one watch.
///
/// One backend is enough: only the simulated one counts reads.
#[test]
fn a_thousand_references_cost_a_list_and_a_watch() {
    run_case(async {
        let mut w = World::without_agent(TestCluster::kubesim().await?).await?;
        let admin = Asker::administrator(&w.console.url).await?;
        let secrets: Api<Secret> = Api::namespaced(w.client.clone(), &w.namespace);
        let mut template = String::new();
        let (services, each) = (10, 100);
        for at in 0..each {
            template += &format!("  k{at}: \"{{{{ configuration.k{at} }}}}\"\n");
        }
        w.remote.push_files([(
            "app/a.yaml.liquid",
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{{{{ service.name }}}}\"}}\ndata:\n{template}"
            ),
        )])?;
        for at in 0..each {
            let name = format!("s{at}");
            let data: BTreeMap<String, String> =
                (0..services).map(|of| (format!("v{of}"), format!("value-{of}-{at}"))).collect();
            let secret: Secret = object(json!({"metadata": {"name": name}, "stringData": data}));
            secrets.create(&PostParams::default(), &secret).await?;
        }
        for of in 0..services {
            let configuration: Vec<Value> = (0..each)
                .map(|at| json!({"name": format!("k{at}"), "valueFrom": secret(&format!("s{at}"), &format!("v{of}"))}))
                .collect();
            let attributes = json!({"name": format!("app{of}"), "namespace": w.namespace, "repositoryId": w.repository,
                "git": {"ref": "main", "folder": "app"}, "configuration": configuration});
            made(&create(&admin, &w.registered.id, &attributes).await?);
        }
        w.cluster.as_kubesim().unwrap().audit().reset();
        w.start_agent().await?;
        let audit = w.cluster.as_kubesim().unwrap().audit();
        for of in 0..services {
            eventually(PATIENCE, async || {
                let found = w.maps().get_opt(&format!("app{of}")).await.map_err(|error| error.to_string())?;
                let found = found.and_then(|map| map.data).unwrap_or_default();
                let last = found.get(&format!("k{}", each - 1));
                if last == Some(&format!("value-{of}-{}", each - 1)) {
                    Ok(())
                } else {
                    Err(format!("{last:?}"))
                }
            })
            .await;
        }
        let reads = |resource: &str, verb: &str| {
            let is_one = |key: &AuditKey| key.resource == resource && key.verb == verb;
            audit.counts().iter().filter(|(key, _)| is_one(key)).map(|(_, count)| count).sum::<u64>()
        };
        // Of what an agent before it made for runs of stacks, it lists Jobs and Secrets, once.
        let of_references =
            || (reads("secrets", "list").checked_sub(reads("jobs", "list")), reads("secrets", "watch"));
        let once = async || {
            if of_references() == (Some(1), 1) { Ok(()) } else { Err(format!("{:?}", audit.counts())) }
        };
        eventually(PATIENCE, once).await;
        // One change of one Secret: no request but what it leads to.
        merge(&secrets, "s7", &json!({"stringData": {"v3": "value-new"}})).await?;
        eventually(PATIENCE, async || {
            let found =
                w.maps().get("app3").await.map_err(|error| error.to_string())?.data.unwrap_or_default();
            if found["k7"] == "value-new" { Ok(()) } else { Err(found["k7"].clone()) }
        })
        .await;
        assert_eq!(of_references(), (Some(1), 1), "{:?}", audit.counts());
        w.end().await
    });
}
