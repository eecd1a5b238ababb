//! What is left of secrets where services run with them: of those that a service only refers to, nothing in the console, its memory
//! included; of those that the console was given, nothing but where it keeps them sealed and where the agent keeps its work.
//!
//! The values are a Secret's, Vault's and those of files that SOPS and age encrypted; a configured value, the password of a git
//! repository, that of charts, and inline values of a chart. [`secrets`](crate::secrets) looks at shells and at what fails;
//! [`references`](crate::references) at values that change. An agent tells no metrics.
//!
//! One database is enough: `secrets` and `canary_inputs` look at the dump of both.

use std::{collections::BTreeSet, os::unix::fs::PermissionsExt as _};

use k8s_openapi::api::{
    core::v1::{ConfigMap, Secret, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use memchr::memmem;
use plural_testkit::{
    GitRemote, GitServer, TestCluster, VaultRole, VaultServer, WebFolder, each_cluster, eventually,
};
use plural_wire::{CreateGitRepository, GitAttributes, Secret as Hidden};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::{
    asker::{Asker, OF_A_SERVICE, held, holds_none},
    charts::{chart, publish},
    program::{AgentProcess, ConsoleProcess, Home},
    references::memory,
    secrets::files,
    world::{PATIENCE, Person, map},
};

each_cluster!(nothing_is_left_of_a_secret_but_where_it_is_kept);

const IN_A_SECRET: &str = "insecret-canary-5b1d77a0";
const IN_VAULT: &str = "invault-canary-c09e13f4";
/// What is encrypted in files of the agent's tests: `keys.enc.env` and `token.armoured.age`.
const IN_SOPS: &str = "age-canary-5f21";
const IN_AGE: &str = "a token of these tests";
const CONFIGURED: &str = "configured-canary-91f3e6b8";
const GIT_PASSWORD: &str = "gitpassword-canary-2d40aa17";
const CHART_PASSWORD: &str = "chartpassword-canary-6e8805cd";
const INLINE: &str = "inline-canary-f7123b9e";
/// What the console is given in plain while its memory is looked at.
const CONTROL: &str = "control-canary-0d6c21e5";
/// The Secret that a service refers to.
const LOGIN: &str = "database-login";

const ENV: &str = include_str!("../../../agent/tests/encrypted/keys.enc.env");
const TOKEN: &str = include_str!("../../../agent/tests/encrypted/token.armoured.age");
const KEY: &str = include_str!("../../../agent/tests/encrypted/project.agekey");

const FILLED: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: filled}
data:
  secret: "{{ configuration.secret }}"
  vault: "{{ configuration.vault }}"
  sops: "{{ configuration.sops }}"
  age: "{{ configuration.age | strip }}"
---
apiVersion: v1
kind: Secret
metadata: {name: kept}
stringData: {password: "{{ configuration.secret }}"}
"#;

pub(crate) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn named(secrets: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
    secrets.iter().map(|(name, text)| (*name, (*text).to_owned())).collect()
}

/// The account that the services act as, with what it reads and writes.
pub(crate) async fn account(client: &kube::Client, namespace: &str) -> anyhow::Result<()> {
    let post = PostParams::default();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    accounts.create(&post, &object(json!({"metadata": {"name": "deployer"}}))).await?;
    let rule = json!({"apiGroups": [""], "resources": ["configmaps", "secrets"],
        "verbs": ["get", "list", "watch", "create", "patch", "delete"]});
    let roles: Api<Role> = Api::namespaced(client.clone(), namespace);
    roles.create(&post, &object(json!({"metadata": {"name": "deployer"}, "rules": [rule]}))).await?;
    let binding = json!({"metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "deployer"},
        "subjects": [{"kind": "ServiceAccount", "name": "deployer", "namespace": namespace}]});
    let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
    bindings.create(&post, &object(binding)).await?;
    Ok(())
}

/// The project's identity, which opens its encrypted files, beside the agent.
pub(crate) async fn identity(client: &kube::Client, namespace: &str, project: &str) -> anyhow::Result<()> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let key = json!({"metadata": {"name": "key", "labels": {"deployments.plural.sh/decryption": "age"},
        "annotations": {"deployments.plural.sh/project": project}}, "stringData": {"age.agekey": KEY}});
    secrets.create(&PostParams::default(), &object(key)).await?;
    Ok(())
}

pub(crate) async fn create(admin: &Asker, cluster: &str, attributes: Value) -> anyhow::Result<String> {
    let document = "mutation ($cluster: ID, $a: ServiceDeploymentAttributes!) {
        createServiceDeployment(clusterId: $cluster, attributes: $a) { id } }";
    let made = admin.data(document, json!({"cluster": cluster, "a": attributes})).await?;
    Ok(made["createServiceDeployment"]["id"].as_str().unwrap_or_default().to_owned())
}

pub(crate) async fn until_data(maps: &Api<ConfigMap>, name: &str, key: &str, value: &str) {
    eventually(PATIENCE, async || {
        let found = maps.get_opt(name).await.map_err(|error| error.to_string())?;
        let found = found.and_then(|map| map.data).unwrap_or_default();
        if found.get(key).is_some_and(|found| found.contains(value)) {
            Ok(())
        } else {
            Err(format!("{name}: {found:?}"))
        }
    })
    .await;
}

/// An object of the cluster: its resource and name, and all of it.
struct Found {
    resource: String,
    name: String,
    text: String,
}

/// Everything that the API server lists in these namespaces and outside of namespaces, whatever its kind.
async fn objects(client: &kube::Client, namespaces: [&str; 2]) -> anyhow::Result<Vec<Found>> {
    let mut lists = vec![("/api/v1".to_owned(), client.list_core_api_resources("v1").await?)];
    for group in client.list_api_groups().await?.groups {
        let version = group.preferred_version.or_else(|| group.versions.first().cloned());
        let Some(version) = version.map(|version| version.group_version) else { continue };
        lists.push((format!("/apis/{version}"), client.list_api_group_resources(&version).await?));
    }
    let mut found = Vec::new();
    for (path, list) in lists {
        for resource in list.resources {
            let is_listed = resource.verbs.iter().any(|verb| verb == "list");
            if resource.name.contains('/') || !is_listed {
                continue;
            }
            let places = if resource.namespaced {
                namespaces
                    .map(|namespace| format!("{path}/namespaces/{namespace}/{}", resource.name))
                    .to_vec()
            } else {
                vec![format!("{path}/{}", resource.name)]
            };
            for place in places {
                let request = http::Request::get(&place).body(Vec::new())?;
                // What the API server itself cannot list now holds nothing of ours.
                let Ok(text) = client.request_text(request).await else { continue };
                let answer: Value = serde_json::from_str(&text)?;
                for item in answer["items"].as_array().into_iter().flatten() {
                    found.push(Found {
                        resource: resource.name.clone(),
                        name: item["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                        text: item.to_string(),
                    });
                }
            }
        }
    }
    Ok(found)
}

/// The console's memory while it reads a request that holds [`CONTROL`]: a search that does not find this finds nothing.
async fn memory_of(console: &ConsoleProcess, token: &str) -> anyhow::Result<Vec<u8>> {
    let address = console.address();
    let body = format!("{{\"query\": \"{{ me {{ id }} }}\", \"variables\": {{\"note\": \"{CONTROL}\"");
    let head = format!(
        "POST /gql HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len() + 64
    );
    let mut request = tokio::net::TcpStream::connect(address).await?;
    // The rest of it never comes.
    request.write_all(format!("{head}{body}").as_bytes()).await?;
    let all = eventually(PATIENCE, async || {
        console.freeze().map_err(|error| error.to_string())?;
        let all = memory(console.pid());
        console.thaw().map_err(|error| error.to_string())?;
        let all = all.map_err(|error| error.to_string())?;
        if memmem::find(&all, CONTROL.as_bytes()).is_some() {
            Ok(all)
        } else {
            Err(format!("a value that was given in plain is not found in {} bytes", all.len()))
        }
    })
    .await;
    drop(request);
    Ok(all)
}

async fn nothing_is_left_of_a_secret_but_where_it_is_kept(cluster: TestCluster) -> anyhow::Result<()> {
    let home = Home::new()?;
    let mut console = ConsoleProcess::start(&home, None, "trace").await?;
    let person = Person::administrator(&console.url()).await?;
    let admin = Asker::administrator(&console.url()).await?;
    let registered = person.cluster("blue").await?;
    let (client, namespace) = (cluster.client().await?, cluster.namespace().await?);
    let (maps, secrets): (Api<ConfigMap>, Api<Secret>) =
        (Api::namespaced(client.clone(), &namespace), Api::namespaced(client.clone(), &namespace));
    let projects = admin.data("{ projects { edges { node { id name } } } }", json!({})).await?;
    let project = &projects["projects"]["edges"][0]["node"];
    let reader = admin.user("reader@example.com").await?;
    let project_id = project["id"].as_str().unwrap_or_default();
    admin.bind("projectId", project_id, json!({"readBindings": [{"userId": reader.id}]})).await?;

    // Where the values come from.
    let remote = GitRemote::new()?;
    let server = GitServer::start(remote.root())?;
    server.require("ada", GIT_PASSWORD);
    let sha = remote.push_files([
        ("app/a.yaml.liquid", FILLED.to_owned()),
        ("app/keys.enc.env", ENV.to_owned()),
        ("app/token.age", TOKEN.to_owned()),
        ("plain/a.yaml.liquid", map("plain", "{{ configuration.password }}")),
    ])?;
    let private = GitAttributes {
        url: server.url(&remote),
        username: Some("ada".to_owned()),
        password: Some(Hidden::new(GIT_PASSWORD)),
        ..GitAttributes::default()
    };
    let private =
        person.client.send(&CreateGitRepository { attributes: private, project_id: None }).await?.id;
    let web = WebFolder::start()?;
    web.require_basic("ada", CHART_PASSWORD);
    publish(&web, "web", &[("1.0.0", &chart("web", "1.0.0", "none"))])?;
    let upsert = "mutation ($u: String!, $a: HelmRepositoryAttributes) {
        upsertHelmRepository(url: $u, attributes: $a) { id } }";
    let basic =
        json!({"provider": "BASIC", "auth": {"basic": {"username": "ada", "password": CHART_PASSWORD}}});
    admin.data(upsert, json!({"u": web.url(""), "a": basic})).await?;
    account(&client, &namespace).await?;
    let login = json!({"metadata": {"name": LOGIN}, "stringData": {"password": IN_A_SECRET}});
    secrets.create(&PostParams::default(), &object(login)).await?;
    let vault = VaultServer::start(cluster.kubeconfig())?;
    vault.put("secret/shop/db", &json!({"password": IN_VAULT}));
    let role = VaultRole {
        account: (namespace.clone(), "deployer".to_owned()),
        audience: "vault".to_owned(),
        reads: vec!["secret/data/shop/".to_owned()],
        lasts: 3600,
    };
    vault.set_role(&format!("{namespace}-deployer"), role);
    let vaults = home.path().join("vault.yaml");
    std::fs::write(&vaults, format!("address: {}\npollSeconds: 5\n", vault.url()))?;
    let url = console.url();
    let mut agent = AgentProcess::start_with(
        &home,
        (url.as_str(), registered.token.as_str()),
        &cluster,
        "trace",
        |program| program.flag("vault", &vaults),
    )
    .await?;
    identity(&client, agent.namespace(), project["name"].as_str().unwrap_or_default()).await?;

    // The services.
    let service = |name: &str, more: Value| {
        let mut attributes = json!({"name": name, "namespace": namespace,
            "syncConfig": {"createNamespace": false, "serviceAccount": "deployer"}});
        attributes.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        attributes
    };
    let git = |folder: &str, configuration: Value| {
        let place = json!({"ref": "main", "folder": folder});
        service(folder, json!({"repositoryId": private, "git": place, "configuration": configuration}))
    };
    let references = json!([
        {"name": "secret", "valueFrom": {"secretKeyRef": {"name": LOGIN, "key": "password"}}},
        {"name": "vault", "valueFrom": {"vaultKeyRef": {"path": "secret/shop/db", "key": "password"}}},
        {"name": "sops", "valueFrom": {"sopsKeyRef": {"file": "keys.enc.env", "key": "TOKEN"}}},
        {"name": "age", "valueFrom": {"ageKeyRef": {"file": "token.age"}}},
    ]);
    let app = create(&admin, &registered.id, git("app", references)).await?;
    let given = json!([{"name": "password", "value": CONFIGURED}]);
    let plain = create(&admin, &registered.id, git("plain", given)).await?;
    let values = json!({"helm": {"url": web.url(""), "chart": "web", "version": "1.x", "values": format!("key: {INLINE}\n")}});
    let charted = create(&admin, &registered.id, service("charted", values)).await?;
    for id in [&app, &plain] {
        person.stands_at(id, &sha).await;
    }
    let all = [("secret", IN_A_SECRET), ("vault", IN_VAULT), ("sops", IN_SOPS), ("age", IN_AGE)];
    for (key, value) in all {
        until_data(&maps, "filled", key, value).await;
    }
    until_data(&maps, "plain", "key", CONFIGURED).await;
    until_data(&maps, "charted", "key", INLINE).await;
    // Somebody changes objects by hand: there is drift to tell of, and plans.
    let by_hand =
        json!({"data": {"secret": "by hand", "vault": "by hand", "sops": "by hand", "age": "by hand"}});
    maps.patch("filled", &PatchParams::default(), &Patch::Merge(&by_hand)).await?;
    for (key, value) in all {
        until_data(&maps, "filled", key, value).await;
    }
    let [_, _, _, (_, drift), _] = OF_A_SERVICE;
    eventually(PATIENCE, async || {
        let told =
            admin.data(drift, json!({"id": app})).await.map_err(|error| error.to_string())?.to_string();
        // Of such a field neither side is told.
        if told.contains("/data/vault") && told.contains("********") { Ok(()) } else { Err(told) }
    })
    .await;

    let referred = named(&all);
    let mut given = named(&[
        ("configured value", CONFIGURED),
        ("password of a repository", GIT_PASSWORD),
        ("password of charts", CHART_PASSWORD),
        ("inline value", INLINE),
    ]);
    let in_cluster: Vec<_> = referred.iter().chain(&given).cloned().collect();
    given.push(("deploy token", registered.token.clone()));
    let everything: Vec<_> = referred.iter().chain(&given).cloned().collect();

    // What the console tells.
    for (id, name) in [(&app, "app"), (&plain, "plain"), (&charted, "charted")] {
        for (place, document) in OF_A_SERVICE {
            let answer = admin.ask(document, json!({"id": id})).await?.to_string();
            holds_none(&format!("{place} of {name}"), answer.as_bytes(), &referred);
            let answer = reader.ask(document, json!({"id": id})).await?.to_string();
            holds_none(&format!("{place} of {name}, for a reader,"), answer.as_bytes(), &everything);
        }
    }
    let audit =
        "{ audits(first: 100) { edges { node { action actorName targetName stateBefore stateAfter } } } }";
    let audit = admin.data(audit, json!({})).await?.to_string();
    assert!(audit.contains("service.create"), "{audit}");
    holds_none("the audit log", audit.as_bytes(), &everything);
    let (status, export) = admin.get("/ext/v1/audit/export").await?;
    assert!(status == 200 && export.contains("service.create"), "{status} {export}");
    holds_none("the exported audit log", export.as_bytes(), &everything);
    let metrics = console.metrics().await?;
    assert!(metrics.contains("plural_git_fetch_seconds"), "{metrics}");
    holds_none("metrics", metrics.as_bytes(), &everything);

    // What is in the cluster besides what the manifests make, and where the values come from.
    let made: BTreeSet<(&str, &str)> = [
        ("configmaps", "filled"),
        ("secrets", "kept"),
        ("secrets", LOGIN),
        ("configmaps", "plain"),
        ("configmaps", "charted"),
    ]
    .into();
    let found = objects(&client, [namespace.as_str(), agent.namespace()]).await?;
    let (ours, others): (Vec<&Found>, Vec<&Found>) =
        found.iter().partition(|found| made.contains(&(found.resource.as_str(), found.name.as_str())));
    assert_eq!(ours.len(), made.len(), "all of them are there");
    for found in &ours {
        assert!(
            held(found.text.as_bytes(), &in_cluster).is_some(),
            "the search finds what {} holds",
            found.name
        );
    }
    let kinds: BTreeSet<&str> = others.iter().map(|found| found.resource.as_str()).collect();
    for kind in ["configmaps", "leases", "namespaces", "roles", "secrets", "serviceaccounts"] {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
    for Found { resource, name, text } in others {
        holds_none(&format!("{resource} {name}"), text.as_bytes(), &in_cluster);
    }

    // The console's memory, of what it must not know.
    let memory = memory_of(&console, &admin.token).await?;
    holds_none("the console's memory", &memory, &referred);

    // What both leave on disk.
    agent.stop();
    console.stop();
    let (console_log, agent_log) = (console.log(), agent.log());
    assert!(console_log.contains("\"DEBUG\"") && agent_log.contains("\"DEBUG\""), "they log below info");
    let work = home.path().join("agent/cache/work-2.pb");
    for file in files(home.path()) {
        let place = file.display().to_string();
        let content = std::fs::read(&file)?;
        holds_none(&place, &content, &referred);
        // The agent starts without a console, and so with what the console gave it: the one place where it is in clear.
        if file == work {
            assert_eq!(std::fs::metadata(&file)?.permissions().mode() & 0o777, 0o600);
            let known = named(&[("configured value", CONFIGURED)]);
            assert!(held(&content, &known).is_some(), "the agent keeps no configured value any more");
        } else {
            holds_none(&place, &content, &everything);
        }
    }
    assert!(work.exists(), "the agent keeps its work elsewhere");
    Ok(())
}
