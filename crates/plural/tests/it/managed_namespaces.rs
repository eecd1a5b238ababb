//! One namespace on many clusters, from the command line to the clusters: who gets it, how it is kept, and what becomes of it.
//!
//! One backend is enough: what is asked of the clusters, three of them, is asked of a real one by the other cases of
//! this file.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use plural_agent::{Agent, AgentConfig, RunningAgent};
use plural_testkit::{GitRemote, TestCluster, TestDatabase, each_cluster, each_database, eventually};
use plural_tunnel::ConsoleOptions;
use plural_wire::{
    CreateAccessToken, CreateManagedNamespace, DeleteManagedNamespace, DeleteServiceDeployment,
    GetManagedNamespace, GetProject, ListManagedNamespaceInstances, ManagedNamespace,
    ManagedNamespaceAttributes, ManagedNamespaceCounts, ManagedNamespaceInstance, ManagedNamespaceState,
    ProjectLimits, SetProjectLimits, all_pages,
};
use serde_json::{Value, json};

use crate::{
    program::{ConsoleProcess, Done, Home, finish},
    world::{PATIENCE, Person, World, map},
};

each_cluster!(
    it_is_made_with_its_service_and_deleted_once_approved,
    one_that_was_there_stays,
    the_limits_of_the_project_hold,
);
each_database!(from_the_command_line_to_the_clusters);

fn given(attributes: Value) -> ManagedNamespaceAttributes {
    let Value::Object(attributes) = attributes else { panic!("no attributes: {attributes}") };
    ManagedNamespaceAttributes(attributes)
}

async fn get(person: &Person, name: &str) -> Result<ManagedNamespace, String> {
    let asked = GetManagedNamespace { id: None, name: Some(name.to_owned()) };
    person.client.send(&asked).await.map_err(|error| format!("{error:#}"))
}

/// Waits until it is as it should be on so many clusters.
async fn until_synced(person: &Person, name: &str, clusters: i64) -> ManagedNamespace {
    eventually(PATIENCE, async || {
        let found = get(person, name).await?;
        let wanted = ManagedNamespaceCounts { all: clusters, synced: clusters, leaving: 0 };
        if found.instance_counts == Some(wanted) && found.spread {
            Ok(found)
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await
}

/// How it is on the first of its clusters.
async fn first_instance(person: &Person, managed: ManagedNamespace) -> Option<ManagedNamespaceInstance> {
    let page = |after| ListManagedNamespaceInstances { id: managed.id.clone(), after, first: 1 };
    all_pages(&person.client, page).await.unwrap().into_iter().next()
}

async fn until_gone(person: &Person, name: &str) {
    let asked = GetManagedNamespace { id: None, name: Some(name.to_owned()) };
    eventually(PATIENCE, async || match person.client.send(&asked).await {
        Err(error) if error.is_not_found() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

async fn it_is_made_with_its_service_and_deleted_once_approved(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    w.remote.push_files([("team/map.yaml", map("core", "1"))])?;
    let name = format!("{}-team", w.namespace);
    let attributes = given(json!({
        "name": name,
        "labels": {"team": "a"},
        "pullSecrets": ["registry"],
        "cascade": {"delete": true},
        "service": {"repositoryId": w.repository, "git": {"ref": "main", "folder": "team"}},
    }));
    let made = w.person.client.send(&CreateManagedNamespace { attributes }).await?;
    assert_eq!(made.namespace, name);
    let there = until_synced(&w.person, &name, 1).await;
    let namespaces: Api<Namespace> = Api::all(w.client.clone());
    assert_eq!(namespaces.get(&name).await?.metadata.labels.unwrap()["team"], "a");
    let maps: Api<ConfigMap> = Api::namespaced(w.client.clone(), &name);
    assert!(maps.get_opt("core").await?.is_some());

    // Nobody said which namespace to delete: each waits for a person.
    w.person.client.send(&DeleteManagedNamespace { id: made.id }).await?;
    let instance = first_instance(&w.person, there).await.unwrap();
    let (holder, core) = (instance.namespace_id.clone().unwrap(), instance.service_id.clone().unwrap());
    for service in [&holder, &core] {
        w.person.is_told(service, &["approve"]).await;
    }
    assert!(namespaces.get(&name).await?.metadata.deletion_timestamp.is_none());
    // The namespace waits for its service, which is not approved yet.
    w.person.client.send(&DeleteServiceDeployment { id: holder.clone() }).await?;
    w.person.is_told(&holder, &["other services in it"]).await;
    assert!(maps.get_opt("core").await?.is_some());
    w.person.client.send(&DeleteServiceDeployment { id: core }).await?;
    until_gone(&w.person, &name).await;
    let gone = async || namespaces.get_opt(&name).await.unwrap().is_none();
    eventually(PATIENCE, gone).await;
    w.end().await
}

async fn one_that_was_there_stays(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let name = format!("{}-theirs", w.namespace);
    let namespaces: Api<Namespace> = Api::all(w.client.clone());
    let theirs = Namespace {
        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    namespaces.create(&PostParams::default(), &theirs).await?;
    let attributes = given(json!({"name": name, "labels": {"team": "a"}, "cascade": {"delete": true}}));
    let made = w.person.client.send(&CreateManagedNamespace { attributes }).await?;
    let there = until_synced(&w.person, &name, 1).await;
    let holder = first_instance(&w.person, there).await.unwrap().namespace_id.unwrap();
    w.person.client.send(&DeleteManagedNamespace { id: made.id }).await?;
    w.person.is_told(&holder, &["approve"]).await;
    w.person.client.send(&DeleteServiceDeployment { id: holder }).await?;
    until_gone(&w.person, &name).await;
    let left = namespaces.get(&name).await?;
    assert!(left.metadata.deletion_timestamp.is_none());
    assert_eq!(left.metadata.labels.unwrap()["team"], "a", "it is left as it was last");
    namespaces.delete(&name, &kube::api::DeleteParams::default()).await?;
    w.end().await
}

async fn the_limits_of_the_project_hold(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let project = w.person.client.send(&GetProject { id: None, name: Some("default".to_owned()) }).await?;
    let limits = ProjectLimits {
        namespaces: vec![format!("{}-*", w.namespace)],
        // A namespace is read from nowhere.
        repositories: vec!["https://example.com/*".to_owned()],
        ..ProjectLimits::default()
    };
    w.person.client.send(&SetProjectLimits { project_id: project.id, attributes: limits }).await?;
    let (within, beyond) = (format!("{}-in", w.namespace), format!("beyond-{}", w.namespace));
    for name in [&within, &beyond] {
        let attributes = given(json!({"name": name}));
        w.person.client.send(&CreateManagedNamespace { attributes }).await?;
    }
    until_synced(&w.person, &within, 1).await;
    let refused = eventually(PATIENCE, async || {
        let found = get(&w.person, &beyond).await?;
        match first_instance(&w.person, found).await {
            Some(one) if one.state == ManagedNamespaceState::Error => Ok(one.namespace_id.unwrap()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    w.person.is_told(&refused, &["may not write to namespace", &beyond]).await;
    let namespaces: Api<Namespace> = Api::all(w.client.clone());
    assert!(namespaces.get_opt(&beyond).await?.is_none());
    namespaces.delete(&within, &kube::api::DeleteParams::default()).await?;
    w.end().await
}

/// A console in a process of its own, and clusters whose agents run here.
pub(crate) struct Fleet {
    pub(crate) home: Home,
    pub(crate) console: ConsoleProcess,
    pub(crate) person: Person,
    token: String,
    pub(crate) clusters: BTreeMap<&'static str, (kube::Client, RunningAgent, TestCluster)>,
}

impl Fleet {
    pub(crate) async fn new(database: Option<&str>, handles: &[&'static str]) -> anyhow::Result<Self> {
        let home = Home::new()?;
        let console = ConsoleProcess::start(&home, database, "info").await?;
        let person = Person::administrator(&console.url()).await?;
        let token = person.client.send(&CreateAccessToken {}).await?.token.unwrap().expose().to_owned();
        let mut clusters = BTreeMap::new();
        for handle in handles {
            let cluster = TestCluster::kubesim().await?;
            let registered = person.cluster(handle).await?;
            let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
            let kube =
                kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
            let options = ConsoleOptions {
                url: console.url(),
                token: registered.token,
                ca_pem: None,
                deadline: Duration::from_secs(10),
            };
            let agent = Agent::start(AgentConfig::new(options, kube, home.path().join(handle)))?;
            clusters.insert(*handle, (cluster.client().await?, agent, cluster));
        }
        Ok(Self { home, console, person, token, clusters })
    }

    /// `plural cd …` to its end, as the administrator.
    async fn cd(&self, arguments: &[&str]) -> anyhow::Result<Done> {
        self.plural(&[&["cd"], arguments].concat()).await
    }

    /// `plural …` to its end, as the administrator.
    pub(crate) async fn plural(&self, arguments: &[&str]) -> anyhow::Result<Done> {
        let mut command = self.home.plural(arguments);
        command.env("PLURAL_CONSOLE_URL", self.console.url()).env("PLURAL_CONSOLE_TOKEN", &self.token);
        finish(command).await
    }

    /// The same, which must work; what it printed.
    async fn cd_well(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let done = self.cd(arguments).await?;
        anyhow::ensure!(done.code == Some(0), "{arguments:?}: {done:?}");
        Ok(done.out)
    }

    /// Waits until exactly these clusters have the namespace, with these values of its label `team`.
    async fn until_teams(&self, wanted: &[(&'static str, &str)]) {
        let wanted: BTreeMap<_, _> =
            wanted.iter().map(|(handle, value)| (*handle, (*value).to_owned())).collect();
        eventually(PATIENCE, async || {
            let mut found = BTreeMap::new();
            for (handle, (client, ..)) in &self.clusters {
                let namespaces: Api<Namespace> = Api::all(client.clone());
                let namespace = namespaces.get_opt("team-a").await.map_err(|error| format!("{error:#}"))?;
                let labels = namespace.map(|namespace| namespace.metadata.labels.unwrap_or_default());
                if let Some(labels) = labels {
                    found.insert(*handle, labels.get("team").cloned().unwrap_or_default());
                }
            }
            let managed = get(&self.person, "team-a").await;
            if found == wanted { Ok(()) } else { Err(format!("{found:?}: {managed:?}")) }
        })
        .await;
    }
}

async fn from_the_command_line_to_the_clusters(database: TestDatabase) -> anyhow::Result<()> {
    let url = database.is_postgres().then(|| database.url());
    let mut fleet = Fleet::new(url, &["blue", "green"]).await?;
    let remote = GitRemote::new()?;
    remote.push_files([("team/map.yaml", map("core", "1"))])?;
    let repository = fleet.person.repository(&remote.path().display().to_string()).await?;
    fleet.cd_well(&["clusters", "tag", "blue", "stage=prod"]).await?;

    let file = fleet.home.path().join("team.json");
    let service = json!({"service": {"repositoryId": repository, "git": {"ref": "main", "folder": "team"}}});
    std::fs::write(&file, service.to_string())?;
    let file = file.display().to_string();
    let create = [
        "managed-namespaces",
        "create",
        "team-a",
        "--label",
        "team=a",
        "--tag",
        "stage=prod",
        "-f",
        &file,
        "--wait",
        "-o",
        "json",
    ];
    let made: Value = serde_json::from_str(&fleet.cd_well(&create).await?)?;
    assert_eq!(made["instanceCounts"], json!({"all": 1, "synced": 1, "leaving": 0}), "{made}");
    fleet.until_teams(&[("blue", "a")]).await;
    let twice = fleet.cd(&["managed-namespaces", "create", "team-a"]).await?;
    assert!(
        twice.code == Some(1) && twice.err.contains("a managed namespace with this name already exists"),
        "{twice:?}"
    );
    let refused = fleet.cd(&["managed-namespaces", "create", "kube-system"]).await?;
    assert!(refused.code == Some(1) && refused.err.contains("are reserved"), "{refused:?}");

    // One that begins to be meant gets it by itself, also when the console dies on the way.
    fleet.cd_well(&["clusters", "tag", "green", "stage=prod"]).await?;
    fleet.console.kill();
    fleet.console.restart().await?;
    fleet.until_teams(&[("blue", "a"), ("green", "a")]).await;
    // What changes of it comes to all.
    fleet.cd_well(&["managed-namespaces", "update", "team-a", "--label", "team=b", "--wait"]).await?;
    fleet.until_teams(&[("blue", "b"), ("green", "b")]).await;
    let listed = fleet.cd_well(&["managed-namespaces", "list"]).await?;
    assert!(
        listed.contains("stage=prod") && listed.contains("2/2") && listed.contains("team-a-core"),
        "{listed}"
    );
    let described = fleet.cd_well(&["managed-namespaces", "get", "team-a"]).await?;
    assert!(described.contains("green") && described.contains("SYNCED"), "{described}");

    // No longer meant, it is forgotten: nothing is deleted, and its service is one of its own.
    fleet.cd_well(&["clusters", "tag", "green", "stage-"]).await?;
    until_synced(&fleet.person, "team-a", 1).await;
    let services: Value = serde_json::from_str(&fleet.cd_well(&["services", "list", "-o", "json"]).await?)?;
    assert_eq!(services.as_array().unwrap().len(), 3, "{services}");
    let plan = fleet.cd_well(&["managed-namespaces", "delete", "team-a", "--dry-run"]).await?;
    assert!(plan.contains("blue: namespace team-a stays and is detached"), "{plan}");
    fleet.cd_well(&["managed-namespaces", "delete", "team-a", "--yes", "--wait"]).await?;
    let gone = fleet.cd(&["managed-namespaces", "get", "team-a"]).await?;
    assert!(gone.code == Some(1) && gone.err.contains("managed namespace \"team-a\" not found"), "{gone:?}");
    fleet.until_teams(&[("blue", "b"), ("green", "b")]).await;
    for (_, agent, _) in fleet.clusters.into_values() {
        agent.stop().await;
    }
    fleet.console.stop();
    Ok(())
}
