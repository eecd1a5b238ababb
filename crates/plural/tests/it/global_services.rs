//! One service on many clusters, from the command line to the clusters: who gets it, how a change moves, what a failure
//! and an undo leave behind, and what becomes of clusters that are no longer meant.
//!
//! One backend is enough: what is asked is who gets a service, by the console's rules; the clusters, four of them, only
//! take it.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use plural_agent::{Agent, AgentConfig, RunningAgent};
use plural_testkit::{GitRemote, TestCluster, TestDatabase, each_database, eventually};
use plural_tunnel::ConsoleOptions;
use plural_wire::{
    CreateAccessToken, GetGlobalService, GlobalService, GlobalServiceInstance, ListGlobalServiceInstances,
    ServiceDeploymentStatus, all_pages,
};
use serde_json::{Value, json};

use crate::{
    program::{ConsoleProcess, Done, Home, finish},
    world::{PATIENCE, Person, map},
};

each_database!(
    a_global_service_reaches_its_clusters_and_changes_move_by_cohorts,
    instances_that_stay_follow_their_ref_again,
);

/// Where the instances put their objects.
const NAMESPACE: &str = "apps";

/// A console in a process of its own, and clusters whose agents run here.
struct Fleet {
    home: Home,
    console: ConsoleProcess,
    person: Person,
    token: String,
    clusters: BTreeMap<&'static str, (kube::Client, RunningAgent, TestCluster)>,
}

impl Fleet {
    async fn new(database: Option<&str>, handles: &[&'static str]) -> anyhow::Result<Self> {
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
        let mut command = self.home.plural(&[&["cd"], arguments].concat());
        command.env("PLURAL_CONSOLE_URL", self.console.url()).env("PLURAL_CONSOLE_TOKEN", &self.token);
        finish(command).await
    }

    /// The same, which must work; what it printed.
    async fn cd_well(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let done = self.cd(arguments).await?;
        anyhow::ensure!(done.code == Some(0), "{arguments:?}: {done:?}");
        Ok(done.out)
    }

    /// Writes a file for the command line.
    fn file(&self, name: &str, value: &Value) -> anyhow::Result<String> {
        let path = self.home.path().join(name);
        std::fs::write(&path, value.to_string())?;
        Ok(path.display().to_string())
    }

    async fn get(&self) -> Result<GlobalService, String> {
        let asked = GetGlobalService { id: None, name: Some("web".to_owned()) };
        self.person.client.send(&asked).await.map_err(|error| format!("{error:#}"))
    }

    /// What each cluster holds of the ConfigMap.
    async fn values(&self) -> Result<BTreeMap<&'static str, String>, String> {
        let mut found = BTreeMap::new();
        for (handle, (client, ..)) in &self.clusters {
            let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
                kube::Api::namespaced(client.clone(), NAMESPACE);
            let map = maps.get_opt("web").await.map_err(|error| format!("{error:#}"))?;
            if let Some(value) = map.and_then(|map| map.data).and_then(|mut data| data.remove("key")) {
                found.insert(*handle, value);
            }
        }
        Ok(found)
    }

    /// Waits until exactly these clusters hold exactly these values.
    async fn until_values(&self, wanted: &[(&'static str, &str)]) {
        let wanted: BTreeMap<_, _> =
            wanted.iter().map(|(handle, value)| (*handle, (*value).to_owned())).collect();
        eventually(PATIENCE, async || {
            let found = self.values().await?;
            if found == wanted { Ok(()) } else { Err(format!("{found:?}: {:?}", self.get().await)) }
        })
        .await;
    }

    /// Waits until the rollout is in a state.
    async fn until_state(&self, state: &str) -> GlobalService {
        eventually(PATIENCE, async || {
            let found = self.get().await?;
            match &found.rollout {
                Some(rollout) if rollout.state.as_str() == state => Ok(found),
                _ => Err(format!("{found:?}")),
            }
        })
        .await
    }

    /// Id of the instance on a cluster.
    async fn instance(&self, handle: &str) -> anyhow::Result<String> {
        let is_there = |one: &GlobalServiceInstance| {
            one.cluster.as_ref().is_some_and(|cluster| cluster.handle.as_deref() == Some(handle))
        };
        let found = self.instances().await?.into_iter().find(is_there).context("no instance there")?;
        Ok(found.service_id)
    }

    async fn instances(&self) -> anyhow::Result<Vec<GlobalServiceInstance>> {
        let id = self.get().await.map_err(anyhow::Error::msg)?.id;
        // Fewer than there are, so that there is a second page.
        let page = |after| ListGlobalServiceInstances { id: id.clone(), after, first: 2 };
        Ok(all_pages(&self.person.client, page).await?)
    }

    async fn end(mut self) {
        for (_, agent, _) in self.clusters.into_values() {
            agent.stop().await;
        }
        self.console.stop();
    }
}

/// The attributes, with a template that reads `key` from its configuration.
fn attributes(repository: &str, key: &str, folder: &str) -> Value {
    json!({
        "tags": [{"name": "stage", "value": "prod"}],
        "cascade": {"delete": true},
        "template": {
            "namespace": NAMESPACE,
            "repositoryId": repository,
            "git": {"ref": "main", "folder": folder},
            "configuration": [{"name": "key", "value": key}],
        },
        "rollout": {
            "cohorts": [
                {"name": "canary", "members": {"tag": {"name": "tier", "value": "canary"}}},
                {"name": "half", "members": {"percent": 50}},
            ],
            "maxUnavailable": "100%",
            "soakSeconds": 1,
            "undo": false,
        },
    })
}

async fn a_global_service_reaches_its_clusters_and_changes_move_by_cohorts(
    database: TestDatabase,
) -> anyhow::Result<()> {
    let url = database.is_postgres().then(|| database.url());
    let mut fleet = Fleet::new(url, &["blue", "green", "red", "white"]).await?;
    let remote = GitRemote::new()?;
    let gadget = "apiVersion: example.com/v1\nkind: Gadget\nmetadata:\n  name: g\n";
    remote.push_files([
        ("web/map.yaml.liquid", map("web", "{{ configuration.key }}")),
        ("broken/map.yaml.liquid", map("web", "{{ configuration.key }}")),
        ("broken/gadget.yaml", gadget.to_owned()),
    ])?;
    let repository = fleet.person.repository(&remote.path().display().to_string()).await?;
    for handle in ["blue", "green", "red"] {
        fleet.cd_well(&["clusters", "tag", handle, "stage=prod"]).await?;
    }
    fleet.cd_well(&["clusters", "tag", "red", "tier=canary"]).await?;

    // It comes to the clusters that are meant.
    let file = fleet.file("one.json", &attributes(&repository, "one", "web"))?;
    let made =
        fleet.cd_well(&["global-services", "create", "web", "-f", &file, "--wait", "-o", "json"]).await?;
    let made: Value = serde_json::from_str(&made)?;
    assert_eq!(made["rollout"]["state"], "COMPLETE", "{made}");
    fleet.until_values(&[("blue", "one"), ("green", "one"), ("red", "one")]).await;
    // One that begins to be meant gets it by itself.
    fleet.cd_well(&["clusters", "tag", "white", "stage=prod"]).await?;
    fleet.until_values(&[("blue", "one"), ("green", "one"), ("red", "one"), ("white", "one")]).await;
    let listed = fleet.cd_well(&["global-services", "list"]).await?;
    assert!(listed.contains("web") && listed.contains("stage=prod"), "{listed}");

    // A change begins with the canary. That one is paused, so that nobody else may have it yet.
    fleet.cd_well(&["services", "pause", "red/web"]).await?;
    let file = fleet.file("two.json", &attributes(&repository, "two", "web"))?;
    fleet.cd_well(&["global-services", "update", "web", "-f", &file]).await?;
    fleet.until_state("PROGRESSING").await;
    fleet.console.kill();
    fleet.console.restart().await?;
    let halfway = fleet.until_state("PROGRESSING").await;
    assert_eq!(halfway.rollout.unwrap().cohort.as_deref(), Some("canary"));
    let values: Vec<_> = fleet.values().await.unwrap().into_values().collect();
    assert_eq!(values, ["one"; 4], "nobody has what the canary has not shown to be well");
    let paused = fleet.cd_well(&["global-services", "rollout", "pause", "web", "--wait"]).await?;
    assert!(paused.contains("HALTED"), "{paused}");
    fleet.cd_well(&["global-services", "rollout", "resume", "web"]).await?;
    // It goes on, and the console goes away between the cohorts.
    fleet.cd_well(&["services", "resume", "red/web"]).await?;
    eventually(PATIENCE, async || {
        let found = fleet.values().await?;
        if found["red"] == "two" { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    fleet.console.kill();
    fleet.console.restart().await?;
    let told = fleet.cd_well(&["global-services", "rollout", "status", "web", "--wait"]).await?;
    assert!(told.contains("COMPLETE"), "{told}");
    fleet.until_values(&[("blue", "two"), ("green", "two"), ("red", "two"), ("white", "two")]).await;

    // A change that does not work stops at the canary.
    let file = fleet.file("three.json", &attributes(&repository, "three", "broken"))?;
    let done = fleet.cd(&["global-services", "update", "web", "-f", &file, "--wait"]).await?;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.err.contains("is halted: 1 cluster is not healthy with the change"), "{done:?}");
    let halted = fleet.get().await.unwrap();
    let instances = fleet.instances().await?;
    let given: Vec<_> = instances.iter().filter(|one| one.generation == halted.generation).collect();
    assert_eq!(given.len(), 1, "{halted:?}");
    assert_eq!(given[0].status, ServiceDeploymentStatus::Failed);
    // What is changed beside it leaves the rollout and the target as they are …
    let refused = fleet.cd(&["global-services", "update", "web"]).await?;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("nothing is changed"), "{refused:?}");
    fleet.cd_well(&["global-services", "update", "web", "--cascade", "delete"]).await?;
    let same = fleet.until_state("HALTED").await;
    assert_eq!((&same.tags, &same.generation), (&halted.tags, &halted.generation));
    // … and what did not work does not reach everybody by leaving the rules out.
    let file = fleet.file("no-rollout.json", &json!({"rollout": null}))?;
    let refused = fleet.cd(&["global-services", "update", "web", "-f", &file]).await?;
    assert!(refused.code == Some(1) && refused.err.contains("was halted or undone"), "{refused:?}");
    // And goes back when a person says so.
    let undone = fleet.cd_well(&["global-services", "rollout", "undo", "web", "--wait"]).await?;
    assert!(undone.contains("UNDONE"), "{undone}");
    eventually(PATIENCE, async || {
        let found = fleet.get().await?;
        let counts = found.instance_counts.unwrap_or_default();
        if counts.all == counts.healthy { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    fleet.until_values(&[("blue", "two"), ("green", "two"), ("red", "two"), ("white", "two")]).await;

    // Losing a tag is nobody's word for deleting: the objects wait for one.
    fleet.cd_well(&["clusters", "tag", "white", "stage-"]).await?;
    let instance = fleet.instance("white").await?;
    fleet.person.is_told(&instance, &["approve"]).await;
    assert_eq!(fleet.values().await.unwrap()["white"], "two");
    fleet.cd_well(&["services", "delete", "white/web", "--yes"]).await?;
    fleet.until_values(&[("blue", "two"), ("green", "two"), ("red", "two")]).await;

    // Detached, everything stays where it is.
    let mut detached = attributes(&repository, "two", "web");
    detached["cascade"] = json!({"detach": true});
    let file = fleet.file("four.json", &detached)?;
    fleet.cd_well(&["global-services", "update", "web", "-f", &file, "--wait"]).await?;
    fleet.cd_well(&["global-services", "delete", "web", "--yes", "--wait"]).await?;
    fleet.until_values(&[("blue", "two"), ("green", "two"), ("red", "two")]).await;
    let services: Value = serde_json::from_str(&fleet.cd_well(&["services", "list", "-o", "json"]).await?)?;
    assert_eq!(services, json!([]));
    fleet.end().await;
    Ok(())
}

async fn instances_that_stay_follow_their_ref_again(database: TestDatabase) -> anyhow::Result<()> {
    let url = database.is_postgres().then(|| database.url());
    let fleet = Fleet::new(url, &["blue"]).await?;
    let remote = GitRemote::new()?;
    let sha = remote.push_files([("web/map.yaml", map("web", "one"))])?;
    let repository = fleet.person.repository(&remote.path().display().to_string()).await?;
    fleet.cd_well(&["clusters", "tag", "blue", "stage=prod"]).await?;
    let mut kept = attributes(&repository, "unused", "web");
    kept["cascade"] = json!({});
    let file = fleet.file("kept.json", &kept)?;
    fleet.cd_well(&["global-services", "create", "web", "-f", &file, "--wait"]).await?;
    let reference = async || -> anyhow::Result<String> {
        let found = fleet.cd_well(&["services", "describe", "blue/web", "-o", "jsonpath={.git.ref}"]).await?;
        Ok(found.trim().to_owned())
    };
    assert_eq!(reference().await?, sha, "a rollout places its instances at a commit");

    fleet.cd_well(&["global-services", "delete", "web", "--yes", "--wait"]).await?;
    assert_eq!(reference().await?, "main");
    remote.push_files([("web/map.yaml", map("web", "two"))])?;
    fleet.until_values(&[("blue", "two")]).await;
    fleet.end().await;
    Ok(())
}
