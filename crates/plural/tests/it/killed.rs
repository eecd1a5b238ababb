//! `kill -9` at any moment: nothing is lost, nothing is applied twice.
//!
//! One backend is enough: the console is killed with each database, and the cluster only has to be there; the agent is
//! killed on each kind of cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use plural_testkit::{GitRemote, TestCluster, TestDatabase, each_cluster, each_database};

use crate::{
    program::{AgentProcess, ConsoleProcess, Home},
    world::{Person, map, map_names, writes_of},
};

each_database!(a_console_killed_at_any_moment_loses_and_repeats_nothing);
each_cluster!(an_agent_killed_at_any_moment_loses_and_repeats_nothing);

/// How often each is killed.
const ROUNDS: u32 = 8;

struct Fleet {
    agent: AgentProcess,
    console: ConsoleProcess,
    person: Person,
    cluster: TestCluster,
    namespace: String,
    maps: Api<ConfigMap>,
    remote: GitRemote,
    service: String,
    _home: Home,
}

impl Fleet {
    async fn new(cluster: TestCluster, database: Option<&str>) -> anyhow::Result<Self> {
        let home = Home::new()?;
        let console = ConsoleProcess::start(&home, database, "info").await?;
        let person = Person::administrator(&console.url()).await?;
        let registered = person.cluster("blue").await?;
        let remote = GitRemote::new()?;
        let sha = push(&remote, 0)?;
        let repository = person.repository(&remote.path().display().to_string()).await?;
        let namespace = cluster.namespace().await?;
        let service = person.service(&registered, &namespace, &repository, "app").await?;
        let agent = AgentProcess::start(&home, &console.url(), &registered.token, &cluster, "info").await?;
        person.stands_at(&service, &sha).await;
        let maps = Api::namespaced(cluster.client().await?, &namespace);
        Ok(Self { agent, console, person, cluster, namespace, maps, remote, service, _home: home })
    }

    /// Lets a commit travel for a random while, or until it has arrived.
    async fn travel(&self, sha: &str) {
        let while_ = Duration::from_millis(rand::random_range(0..250));
        eprintln!("killed after {while_:?}, or when {sha} has arrived");
        let _ = tokio::time::timeout(while_, self.person.stands_at(&self.service, sha)).await;
    }

    /// Waits until the cluster holds exactly what round `round` says.
    async fn is_as(&self, round: u32, sha: &str) -> anyhow::Result<()> {
        self.person.stands_at(&self.service, sha).await;
        let mut expected: Vec<String> = vec![format!("a{round}"), "steady".into(), "still".into()];
        expected.sort();
        assert_eq!(map_names(&self.maps).await?, expected);
        let steady = self.maps.get("steady").await?;
        assert_eq!(steady.data.unwrap_or_default()["key"], round.to_string());
        Ok(())
    }

    fn was_written(&self, name: &str) -> anyhow::Result<usize> {
        writes_of(&self.cluster, &self.namespace, name)
    }
}

/// One object that changes, one that is new each time, and one that never changes.
fn push(remote: &GitRemote, round: u32) -> anyhow::Result<String> {
    let round = round.to_string();
    let commit = remote
        .commit("main")
        .file("app/new.yaml", map(&format!("a{round}"), &round))
        .file("app/steady.yaml", map("steady", &round))
        .file("app/still.yaml", map("still", "1"));
    commit.push()
}

async fn a_console_killed_at_any_moment_loses_and_repeats_nothing(
    database: TestDatabase,
) -> anyhow::Result<()> {
    let url = database.is_postgres().then(|| database.url());
    let mut fleet = Fleet::new(TestCluster::kubesim().await?, url).await?;
    for round in 1..=ROUNDS {
        let sha = push(&fleet.remote, round)?;
        fleet.travel(&sha).await;
        fleet.console.kill();
        fleet.console.restart().await?;
        fleet.is_as(round, &sha).await?;
    }
    assert_eq!(fleet.was_written("still")?, 1, "it never changed");
    assert_eq!(fleet.was_written("steady")?, ROUNDS as usize + 1, "each of its values was written once");
    fleet.agent.stop();
    fleet.console.stop();
    Ok(())
}

async fn an_agent_killed_at_any_moment_loses_and_repeats_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let mut fleet = Fleet::new(cluster, None).await?;
    for round in 1..=ROUNDS {
        let sha = push(&fleet.remote, round)?;
        fleet.travel(&sha).await;
        fleet.agent.kill();
        fleet.agent.restart()?;
        // Once more, while it starts.
        fleet.travel(&sha).await;
        fleet.agent.kill();
        fleet.agent.restart()?;
        fleet.is_as(round, &sha).await?;
    }
    assert_eq!(fleet.was_written("still")?, 1, "it never changed");
    assert_eq!(fleet.was_written("steady")?, ROUNDS as usize + 1, "each of its values was written once");
    fleet.agent.stop();
    fleet.console.stop();
    Ok(())
}
