//! Values that the agent reads from Vault, as the service's own ServiceAccount.
//!
//! Vault and OpenBao cannot be built where these tests run: a server stands in that was written from their public descriptions. It asks
//! the test's API server about tokens, as they do.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::{Api, api::PostParams};
use plural_agent::{Agent, VaultConfig};
use plural_testkit::{TestCluster, VaultMood, VaultRole, VaultServer, each_cluster, eventually, run_case};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    asker::{Asker, OF_A_SERVICE, holds_none},
    world::{PATIENCE, World},
};

each_cluster!(
    a_value_of_vault_is_read_as_the_services_account,
    what_vault_refuses_is_said_and_nothing_of_it_leaves,
);

const FIRST: &str = "vault-canary-one-7be1";
const SECOND: &str = "vault-canary-two-19c4";

const FILLED: &str = r#"apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ service.name }}"}
data: {key: "{{ configuration.password }}", port: "{{ configuration.port }}"}
"#;

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn vault(path: &str, key: &str) -> Value {
    json!({"vaultKeyRef": {"path": path, "key": key}})
}

/// The world with a Vault, an agent that knows it, and an account with the rights of a deployer.
struct Case {
    w: World,
    vault: VaultServer,
    admin: Asker,
    sha: String,
}

impl Case {
    async fn new(cluster: TestCluster) -> anyhow::Result<Self> {
        Self::with_poll(cluster, Duration::from_millis(300)).await
    }

    async fn with_poll(cluster: TestCluster, poll_every: Duration) -> anyhow::Result<Self> {
        let mut w = World::without_agent(cluster).await?;
        let vault = VaultServer::start(w.cluster.kubeconfig())?;
        let mut config = w.agent_config().await?;
        let mut known = VaultConfig::new(vault.url());
        known.poll_every = poll_every;
        config.vault = Some(known);
        w.agent = Some(Agent::start(config)?);
        let admin = Asker::administrator(&w.console.url).await?;
        let sha = w.remote.push_files([("app/a.yaml.liquid", FILLED.to_owned())])?;
        let case = Self { w, vault, admin, sha };
        case.account("deployer").await?;
        Ok(case)
    }

    async fn account(&self, name: &str) -> anyhow::Result<()> {
        let (client, namespace) = (&self.w.client, &self.w.namespace);
        let (accounts, roles): (Api<ServiceAccount>, Api<Role>) =
            (Api::namespaced(client.clone(), namespace), Api::namespaced(client.clone(), namespace));
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), namespace);
        let post = PostParams::default();
        accounts.create(&post, &object(json!({"metadata": {"name": name}}))).await?;
        let write = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]});
        roles.create(&post, &object(json!({"metadata": {"name": name}, "rules": [write]}))).await?;
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]});
        bindings.create(&post, &object(binding)).await?;
        Ok(())
    }

    fn user(&self, account: &str) -> String {
        format!("system:serviceaccount:{}:{account}", self.w.namespace)
    }

    /// The role that the agent logs in as for an account, as a test wants it.
    fn role(&self, account: &str, audience: &str, reads: &[&str]) {
        let role = VaultRole {
            account: (self.w.namespace.clone(), "deployer".to_owned()),
            audience: audience.to_owned(),
            reads: reads.iter().map(|read| (*read).to_owned()).collect(),
            lasts: 3600,
        };
        self.vault.set_role(&format!("{}-{account}", self.w.namespace), role);
    }

    async fn service(&self, name: &str, account: Option<&str>, from: Value) -> anyhow::Result<String> {
        let mut sync = json!({"createNamespace": false});
        if let Some(account) = account {
            sync["serviceAccount"] = account.into();
        }
        let attributes = json!({"name": name, "namespace": self.w.namespace, "repositoryId": self.w.repository,
            "git": {"ref": "main", "folder": "app"}, "syncConfig": sync, "configuration": [
                {"name": "password", "valueFrom": from}, {"name": "port", "valueFrom": vault("kv/shop", "port")}]});
        let document = "mutation ($cluster: ID, $a: ServiceDeploymentAttributes!) {
            createServiceDeployment(clusterId: $cluster, attributes: $a) { id } }";
        let made =
            self.admin.data(document, json!({"cluster": self.w.registered.id, "a": attributes})).await?;
        Ok(made["createServiceDeployment"]["id"].as_str().unwrap_or_default().to_owned())
    }

    async fn set(&self, id: &str, from: Value) -> anyhow::Result<()> {
        let document = "mutation ($id: ID, $a: ServiceUpdateAttributes!) {
            updateServiceDeployment(id: $id, attributes: $a) { id } }";
        let attributes = json!({"mergeConfiguration": [{"name": "password", "valueFrom": from}]});
        self.admin.data(document, json!({"id": id, "a": attributes})).await?;
        Ok(())
    }

    async fn until_key(&self, name: &str, value: &str) {
        let maps: Api<ConfigMap> = self.w.maps();
        eventually(PATIENCE, async || {
            let found = maps.get_opt(name).await.map_err(|error| error.to_string())?;
            let found = found.and_then(|map| map.data).unwrap_or_default();
            if found.get("key").is_some_and(|found| found == value) {
                Ok(())
            } else {
                Err(format!("{found:?}"))
            }
        })
        .await;
    }

    async fn nothing_leaves(&self, services: &[&String]) -> anyhow::Result<()> {
        let canaries = [("first", FIRST.to_owned()), ("second", SECOND.to_owned())];
        for id in services {
            for (what, document) in OF_A_SERVICE {
                let answer = self.admin.ask(document, json!({"id": id})).await?.to_string();
                holds_none(what, answer.as_bytes(), &canaries);
            }
        }
        Ok(())
    }
}

async fn a_value_of_vault_is_read_as_the_services_account(cluster: TestCluster) -> anyhow::Result<()> {
    let case = Case::new(cluster).await?;
    case.vault.put("secret/shop/db", &json!({"password": FIRST, "none": null}));
    case.vault.put("kv/shop", &json!({"port": 5432}));
    case.role("deployer", "vault", &["secret/data/shop/", "kv/shop"]);
    let id = case.service("app", Some("deployer"), vault("secret/shop/db", "password")).await?;
    case.w.person.stands_at(&id, &case.sha).await;
    case.until_key("app", FIRST).await;
    // A number is text for templates.
    assert_eq!(case.w.maps().get("app").await?.data.unwrap_or_default()["port"], "5432");
    assert_eq!(case.vault.users(), [case.user("deployer")].into(), "nobody else entered");

    // A new version is noticed, also where all logins were revoked meanwhile.
    case.vault.revoke_logins();
    case.vault.put("secret/shop/db", &json!({"password": SECOND}));
    case.until_key("app", SECOND).await;
    // While Vault is sealed the service stays as it is; it goes on when Vault does.
    case.vault.set_mood(VaultMood::Sealed);
    let before = case.vault.seen().len();
    eventually(PATIENCE, async || {
        let sealed = case.vault.seen().iter().skip(before).any(|seen| seen.status == 503);
        if sealed { Ok(()) } else { Err("nothing was asked".to_owned()) }
    })
    .await;
    case.w.person.stands_at(&id, &case.sha).await;
    case.vault.put("secret/shop/db", &json!({"password": FIRST}));
    case.vault.set_mood(VaultMood::Well);
    case.until_key("app", FIRST).await;

    // A key that is gone, and a version that was deleted, are errors that leave the object as it is.
    case.vault.put("secret/shop/db", &json!({"other": "x"}));
    case.w.person.fails_with(&id, &["\"password\"", "secret/shop/db of Vault", "has no key"]).await;
    case.vault.delete("secret/shop/db");
    case.w.person.fails_with(&id, &["version 4 of the secret was deleted"]).await;
    case.until_key("app", FIRST).await;
    case.vault.put("secret/shop/db", &json!({"password": SECOND}));
    case.until_key("app", SECOND).await;
    case.w.person.stands_at(&id, &case.sha).await;

    // Two logins, and few questions for the mount, however often a secret is read.
    let seen = case.vault.seen();
    let count = |path: &str| seen.iter().filter(|seen| seen.path == path && seen.status == 200).count();
    assert_eq!(count("auth/kubernetes/login"), 2, "{seen:?}");
    assert!(count("sys/internal/ui/mounts/secret/shop/db") <= 2, "{seen:?}");
    case.nothing_leaves(&[&id]).await?;
    case.w.end().await
}

async fn what_vault_refuses_is_said_and_nothing_of_it_leaves(cluster: TestCluster) -> anyhow::Result<()> {
    let case = Case::new(cluster).await?;
    let person = &case.w.person;
    case.vault.put("secret/shop/db", &json!({"password": FIRST}));
    case.vault.put("secret/red/db", &json!({"password": SECOND}));
    case.vault.put("kv/shop", &json!({"port": 5432}));
    // Without an account: the agent's own token never enters.
    let bare = case.service("bare", None, vault("secret/shop/db", "password")).await?;
    person.fails_with(&bare, &["no ServiceAccount", "syncConfig.serviceAccount"]).await;
    assert!(case.vault.seen().is_empty(), "{:?}", case.vault.seen());
    // A role that does not exist, one that is for another account, and one that takes tokens of another audience.
    let id = case.service("app", Some("deployer"), vault("secret/shop/db", "password")).await?;
    person.fails_with(&id, &["refuses the login", "invalid role name", "ServiceAccount", "deployer"]).await;
    case.account("other").await?;
    case.role("other", "vault", &["secret/data/shop/", "kv/shop"]);
    let other = case.service("other", Some("other"), vault("secret/shop/db", "password")).await?;
    person.fails_with(&other, &["refuses the login", "not authorized"]).await;
    case.role("deployer", "another", &["secret/data/shop/", "kv/shop"]);
    person.fails_with(&id, &["refuses the login", "permission denied"]).await;
    case.role("deployer", "vault", &["secret/data/shop/", "kv/shop", "pki/"]);
    person.stands_at(&id, &case.sha).await;
    case.until_key("app", FIRST).await;
    // What the policy does not read, what is not there, what is no KV.
    case.set(&id, vault("secret/red/db", "password")).await?;
    person.fails_with(&id, &["secret/red/db of Vault", "denies it"]).await;
    case.set(&id, vault("secret/shop/none", "password")).await?;
    person.fails_with(&id, &["secret/shop/none of Vault", "no such secret"]).await;
    case.set(&id, vault("pki/issue/web", "password")).await?;
    person.fails_with(&id, &["no KV engine"]).await;
    // A redirect is not followed, and a server that makes no sense is no answer.
    case.vault.set_mood(VaultMood::Redirecting);
    case.set(&id, vault("secret/shop/more", "password")).await?;
    person.fails_with(&id, &["redirect"]).await;
    case.vault.set_mood(VaultMood::Failing(502));
    case.set(&id, vault("secret/shop/again", "password")).await?;
    person.fails_with(&id, &["Vault answers 502"]).await;
    case.vault.set_mood(VaultMood::Sealed);
    case.set(&id, vault("secret/shop/sealed", "password")).await?;
    person.fails_with(&id, &["sealed"]).await;
    case.vault.set_mood(VaultMood::Well);
    case.set(&id, vault("secret/shop/db", "password")).await?;
    person.stands_at(&id, &case.sha).await;
    assert!(
        !case.vault.users().iter().any(|user| !user.starts_with(&case.user(""))),
        "{:?}",
        case.vault.users()
    );
    case.nothing_leaves(&[&bare, &id, &other]).await?;
    case.w.end().await
}

/// An agent that knows no Vault says so; one backend is enough: no cluster is asked.
#[test]
fn an_agent_without_vault_says_so() {
    run_case(async {
        let w = World::new(TestCluster::kubesim().await?).await?;
        let admin = Asker::administrator(&w.console.url).await?;
        w.remote.push_files([("app/a.yaml.liquid", FILLED.to_owned())])?;
        let attributes = json!({"name": "app", "namespace": w.namespace, "repositoryId": w.repository,
            "git": {"ref": "main", "folder": "app"},
            "configuration": [{"name": "password", "valueFrom": vault("secret/shop/db", "password")}]});
        let document = "mutation ($cluster: ID, $a: ServiceDeploymentAttributes!) {
            createServiceDeployment(clusterId: $cluster, attributes: $a) { id } }";
        let made = admin.data(document, json!({"cluster": w.registered.id, "a": attributes})).await?;
        let id = made["createServiceDeployment"]["id"].as_str().unwrap_or_default().to_owned();
        w.person.fails_with(&id, &["knows none", "--vault"]).await;
        w.end().await
    });
}

/// A thousand references of ten services to ten secrets: each is read once until the next poll.
///
/// One backend is enough: what is counted are requests to Vault.
#[test]
fn a_thousand_references_read_each_secret_once() {
    run_case(async {
        let case = Case::with_poll(TestCluster::kubesim().await?, Duration::from_hours(1)).await?;
        let mut template = String::new();
        for at in 0..100 {
            template += &format!("  k{at}: \"{{{{ configuration.k{at} }}}}\"\n");
        }
        let text = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: \"{{{{ service.name }}}}\"}}\ndata:\n  key: \"{{{{ configuration.k99 }}}}\"\n{template}"
        );
        case.w.remote.push_files([("many/a.yaml.liquid", text)])?;
        case.role("deployer", "vault", &["secret/data/"]);
        for secret in 0..10 {
            let keys = (0..100).map(|key| (format!("v{key}"), json!(format!("value-{secret}-{key}"))));
            case.vault.put(&format!("secret/s{secret}"), &Value::Object(keys.collect()));
        }
        for of in 0..10 {
            let configuration: Vec<Value> = (0..100)
                .map(|at| json!({"name": format!("k{at}"), "valueFrom": vault(&format!("secret/s{}", at % 10), &format!("v{at}"))}))
                .collect();
            let attributes = json!({"name": format!("app{of}"), "namespace": case.w.namespace,
                "repositoryId": case.w.repository, "git": {"ref": "main", "folder": "many"},
                "syncConfig": {"createNamespace": false, "serviceAccount": "deployer"}, "configuration": configuration});
            let document = "mutation ($cluster: ID, $a: ServiceDeploymentAttributes!) {
                createServiceDeployment(clusterId: $cluster, attributes: $a) { id } }";
            case.admin.data(document, json!({"cluster": case.w.registered.id, "a": attributes})).await?;
        }
        for of in 0..10 {
            case.until_key(&format!("app{of}"), "value-9-99").await;
        }
        let seen = case.vault.seen();
        let of = |path: &str| seen.iter().filter(|seen| seen.path == path).count();
        let reads: Vec<usize> = (0..10).map(|at| of(&format!("secret/data/s{at}"))).collect();
        println!("1000 references: logins {}, reads {reads:?}", of("auth/kubernetes/login"));
        assert_eq!((of("auth/kubernetes/login"), reads), (1, vec![1; 10]), "{seen:?}");
        case.w.end().await
    });
}
