//! How an agent joins and replaces its deploy token, killed after each step.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::{ByteString, api::core::v1::Secret as KubeSecret};
use kube::{Api, api::DeleteParams};
use plural_agent::{Agent, AgentEvent, TokenStep};
use plural_console::{ConsoleConfig, RunningConsole};
use plural_testkit::{TestCluster, each_cluster, eventually};
use plural_tunnel::{Console, ConsoleOptions, TunnelError};
use plural_wire::{CreateJoinToken, RenewDeployToken};

use crate::{
    backup::copy,
    world::{PATIENCE, Person, World, console_config, map},
};

each_cluster!(
    an_agent_that_is_killed_while_it_joins_joins,
    an_agent_that_is_killed_while_it_replaces_its_token_stays_in,
    the_same_manifests_again_change_nothing,
    a_lost_secret_is_refused_with_the_command_that_helps,
    a_deploy_token_that_was_given_is_replaced_and_ends,
    a_console_that_was_put_back_knows_the_token_before,
);

const STEPS: [TokenStep; 4] = [TokenStep::Kept, TokenStep::Told, TokenStep::Used, TokenStep::Settled];

fn dial(url: &str, token: &str) -> Console {
    let options = ConsoleOptions {
        url: url.to_owned(),
        token: token.to_owned(),
        ca_pem: None,
        deadline: Duration::from_secs(10),
    };
    Console::new(&options).unwrap()
}

impl World {
    fn secrets(&self) -> Api<KubeSecret> {
        Api::namespaced(self.client.clone(), self.agent_namespace())
    }

    /// The tokens in the agent's own Secret: the one in use, and the one that takes its place.
    async fn kept(&self) -> anyhow::Result<(Option<String>, Option<String>)> {
        let data = self.secrets().get_opt("plural-agent-token").await?.and_then(|secret| secret.data);
        let mut data = data.unwrap_or_default();
        let text = |bytes: ByteString| String::from_utf8_lossy(&bytes.0).into_owned();
        Ok((data.remove("deploy-token").map(text), data.remove("next-deploy-token").map(text)))
    }

    /// The one token that is kept once nothing is under way.
    async fn settled(&self) -> String {
        eventually(PATIENCE, async || match self.kept().await {
            Ok((Some(token), None)) => Ok(token),
            other => Err(format!("{:?}", other.map(|(token, next)| (token.is_some(), next.is_some())))),
        })
        .await
    }

    async fn join_token(&self) -> anyhow::Result<String> {
        let id = self.registered.id.clone();
        let made = self.person.client.send(&CreateJoinToken { id, valid_for_seconds: None }).await?;
        Ok(made.join_token.unwrap().expose().to_owned())
    }

    /// An agent with these tokens and an empty folder of its own, which breaks down at a step, once.
    async fn agent_with(
        &mut self,
        deploy_token: &str,
        join_token: Option<&str>,
        breaks_at: Option<TokenStep>,
    ) -> anyhow::Result<Arc<AtomicBool>> {
        let mut config = self.agent_config().await?;
        deploy_token.clone_into(&mut config.console.token);
        config.join_token = join_token.map(str::to_owned);
        config.cache_dir = tempfile::tempdir_in(self.folder.path())?.keep();
        // Who was killed left the lease behind.
        config.lease_duration = Duration::from_secs(3);
        let broke = Arc::new(AtomicBool::new(false));
        let (events, breaks) = (Arc::clone(&self.events), Arc::clone(&broke));
        config.observer = Some(Arc::new(move |event| {
            let is_step = matches!(&event, AgentEvent::Token(step) if Some(*step) == breaks_at);
            events.lock().push(event);
            assert!(!is_step || breaks.swap(true, Ordering::SeqCst), "killed here");
        }));
        self.agent = Some(Agent::start(config)?);
        Ok(broke)
    }

    /// Ends the agent as a kill does.
    async fn until_killed(&mut self, broke: &AtomicBool) {
        eventually(PATIENCE, async || broke.load(Ordering::SeqCst)).await;
        drop(self.agent.take());
    }

    /// Pushes a commit and waits until the agent applied it.
    async fn still_works(&self, service: &str, value: &str) -> anyhow::Result<()> {
        let sha = self.remote.push_files([("app/a.yaml", map("a", value))])?;
        self.person.stands_at(service, &sha).await;
        self.until_value("a", value).await;
        Ok(())
    }

    async fn refused(&self) -> String {
        eventually(PATIENCE, async || {
            let events = self.events.lock();
            events.iter().rev().find_map(|event| match event {
                AgentEvent::Disconnected { message, refused: true } => Some(message.clone()),
                _ => None,
            })
        })
        .await
    }
}

async fn is_refused(w: &World, token: &str) -> bool {
    matches!(dial(&w.console.url, token).poll(None, Vec::new()).await, Err(TunnelError::Unauthorized { .. }))
}

async fn an_agent_that_is_killed_while_it_joins_joins(cluster: TestCluster) -> anyhow::Result<()> {
    let mut w = World::without_agent(cluster).await?;
    w.remote.push_files([("app/a.yaml", map("a", "0"))])?;
    let id = w.service("app").await?;
    for (turn, step) in STEPS.into_iter().enumerate() {
        // Each turn begins where a new cluster does: without a Secret.
        let _ = w.secrets().delete("plural-agent-token", &DeleteParams::default()).await;
        let join = w.join_token().await?;
        let broke = w.agent_with("", Some(&join), Some(step)).await?;
        w.until_killed(&broke).await;
        w.agent_with("", Some(&join), None).await?;
        w.still_works(&id, &format!("{turn}-{step:?}")).await?;
        let token = w.settled().await;
        assert!(!is_refused(&w, &token).await, "{step:?}");
        // Whoever finds the manifests now gets in neither with the join token nor by joining.
        assert!(is_refused(&w, &join).await, "{step:?}");
        let other = format!("deploy-{}", "0123456789abcdef".repeat(4));
        let late = dial(&w.console.url, &join).join(&join, &other).await.unwrap_err().to_string();
        assert!(late.contains("was already used") && late.contains("--rejoin"), "{late}");
        drop(w.agent.take());
    }
    w.end().await
}

async fn an_agent_that_is_killed_while_it_replaces_its_token_stays_in(
    cluster: TestCluster,
) -> anyhow::Result<()> {
    let mut w = World::without_agent(cluster).await?;
    w.remote.push_files([("app/a.yaml", map("a", "0"))])?;
    let id = w.service("app").await?;
    let join = w.join_token().await?;
    w.agent_with("", Some(&join), None).await?;
    w.still_works(&id, "joined").await?;
    let mut before = w.settled().await;
    for (turn, step) in STEPS.into_iter().enumerate() {
        w.agent.take().unwrap().stop().await;
        let broke = w.agent_with("", Some(&join), Some(step)).await?;
        w.still_works(&id, &format!("{turn}-before")).await?;
        w.person.client.send(&RenewDeployToken { id: w.registered.id.clone() }).await?;
        w.until_killed(&broke).await;
        // Whichever step it was: what the Secret holds opens the door.
        w.agent_with("", Some(&join), None).await?;
        w.still_works(&id, &format!("{turn}-{step:?}")).await?;
        let after =
            eventually(PATIENCE, async || Some(w.settled().await).filter(|token| *token != before)).await;
        assert!(is_refused(&w, &before).await, "{step:?}: the one before ended");
        assert!(!is_refused(&w, &after).await, "{step:?}");
        before = after;
    }
    w.end().await
}

async fn the_same_manifests_again_change_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let mut w = World::without_agent(cluster).await?;
    w.remote.push_files([("app/a.yaml", map("a", "0"))])?;
    let id = w.service("app").await?;
    let join = w.join_token().await?;
    w.agent_with("", Some(&join), None).await?;
    w.still_works(&id, "1").await?;
    let token = w.settled().await;
    // A Pod that starts anew with what it was installed with, again and again.
    for turn in 0..2 {
        w.agent.take().unwrap().stop().await;
        w.agent_with("", Some(&join), None).await?;
        w.still_works(&id, &format!("again {turn}")).await?;
        assert_eq!(w.kept().await?, (Some(token.clone()), None));
    }
    // Another join token, which nobody uses, ends nobody either.
    let other = w.join_token().await?;
    w.agent.take().unwrap().stop().await;
    w.agent_with("", Some(&other), None).await?;
    w.still_works(&id, "with another one").await?;
    assert_eq!(w.kept().await?, (Some(token), None));
    w.end().await
}

async fn a_lost_secret_is_refused_with_the_command_that_helps(cluster: TestCluster) -> anyhow::Result<()> {
    let mut w = World::without_agent(cluster).await?;
    w.remote.push_files([("app/a.yaml", map("a", "0"))])?;
    let id = w.service("app").await?;
    let join = w.join_token().await?;
    w.agent_with("", Some(&join), None).await?;
    w.still_works(&id, "1").await?;
    let token = w.settled().await;
    w.agent.take().unwrap().stop().await;
    w.secrets().delete("plural-agent-token", &DeleteParams::default()).await?;
    w.events.lock().clear();
    w.agent_with("", Some(&join), None).await?;
    let told = w.refused().await;
    assert!(told.contains("was already used") && told.contains("clusters bootstrap blue --rejoin"), "{told}");
    assert!(!told.contains(&join) && !told.contains(&token), "{told}");
    drop(w.agent.take());
    let again = w.join_token().await?;
    w.agent_with("", Some(&again), None).await?;
    w.still_works(&id, "2").await?;
    assert!(is_refused(&w, &token).await, "whoever has the lost one is out");
    w.end().await
}

/// What every installation of an earlier release has: a deploy token in the agent's manifests.
async fn a_deploy_token_that_was_given_is_replaced_and_ends(cluster: TestCluster) -> anyhow::Result<()> {
    let mut w = World::without_agent(cluster).await?;
    w.remote.push_files([("app/a.yaml", map("a", "0"))])?;
    let id = w.service("app").await?;
    let given = w.registered.token.clone();
    w.agent_with(&given, None, None).await?;
    w.still_works(&id, "1").await?;
    assert_eq!(w.kept().await?, (None, None), "nothing is replaced before its time");
    // Nor by somebody who has a copy of it, and would lock the agent out.
    let other = format!("deploy-{}", "0123456789abcdef".repeat(4));
    let copy = dial(&w.console.url, &given).rotate_token(&given, &other).await.unwrap_err().to_string();
    assert!(copy.contains("not due"), "{copy}");
    assert!(is_refused(&w, &other).await && !is_refused(&w, &given).await);
    w.person.client.send(&RenewDeployToken { id: w.registered.id.clone() }).await?;
    w.settled().await;
    eventually(PATIENCE, async || is_refused(&w, &given).await).await;
    // The stream that was open with it came back with the new one, and so does the agent, whatever it is given.
    w.still_works(&id, "2").await?;
    w.agent.take().unwrap().stop().await;
    w.agent_with(&given, None, None).await?;
    w.still_works(&id, "3").await?;
    w.end().await
}

/// A backup knows the token that the agent has replaced since.
async fn a_console_that_was_put_back_knows_the_token_before(cluster: TestCluster) -> anyhow::Result<()> {
    let mut w = World::without_agent(cluster).await?;
    w.remote.push_files([("app/a.yaml", map("a", "0"))])?;
    let id = w.service("app").await?;
    let given = w.registered.token.clone();
    w.agent_with(&given, None, None).await?;
    w.still_works(&id, "1").await?;
    let (data, backup) = (w.folder.path().join("console"), w.folder.path().join("backup"));
    let secrets = w.secrets();
    let World { console, agent, registered, remote, folder, .. } = w;
    let config = ConsoleConfig { listen: console.address, ..console_config(folder.path()) };
    console.stop().await?;
    copy(&data, &backup)?;
    let console = RunningConsole::start(config.clone(), None).await?;
    let person = Person::administrator(&console.url).await?;
    person.client.send(&RenewDeployToken { id: registered.id }).await?;
    eventually(PATIENCE, async || {
        let secret = secrets.get_opt("plural-agent-token").await.map_err(|error| error.to_string())?;
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        let is_settled = data.contains_key("deploy-token") && !data.contains_key("next-deploy-token");
        is_settled.then_some(()).ok_or_else(|| format!("{:?}", data.keys()))
    })
    .await;
    assert!(dial(&console.url, &given).poll(None, Vec::new()).await.unwrap_err().is_unauthorized());
    console.stop().await?;
    std::fs::remove_dir_all(&data)?;
    copy(&backup, &data)?;
    let console = RunningConsole::start(ConsoleConfig { restored: true, ..config }, None).await?;
    let person = Person::administrator(&console.url).await?;
    let sha = remote.push_files([("app/a.yaml", map("a", "2"))])?;
    person.stands_at(&id, &sha).await;
    if let Some(agent) = agent {
        agent.stop().await;
    }
    console.stop().await?;
    Ok(())
}
