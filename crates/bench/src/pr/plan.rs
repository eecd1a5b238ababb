//! What a commit would do to every service on every cluster: from the request to the answer of the last agent.
//!
//! Every service has a folder and an artifact of its own, and every commit changes one object of each: nothing is shared, and nothing is
//! known from the round before.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use plural_agent::AgentEvent;
use plural_core::fleet_plan::{MOST_PARTS, PATIENCE};
use plural_testkit::{GitRemote, GitServer};
use plural_wire::{CreateFleetPlan, FleetPlan, FleetPlanPartState, FleetPlanPhase, GetFleetPlan};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    fleet::Fleet,
    report::Figure,
    samples::Samples,
    workload::{OBJECTS, objects},
};

const NAMESPACE: &str = "bench";
/// Longer than anything that is measured takes.
const WITHIN: Duration = Duration::from_mins(10);
/// Between two looks at whether it is over.
const LOOK: Duration = Duration::from_millis(5);
/// Seconds of a whole plan.
const PLAN: f64 = 10.0;

#[derive(Default)]
struct Measured {
    /// From the request until the whole plan is read by the API.
    all: Samples,
    /// Until the artifacts are built: fetch, which services, their artifacts.
    looked: Samples,
    /// From then to the answer of the last agent.
    answered: Samples,
    /// Reading it.
    read: Samples,
    /// The dry runs alone: of each object that the commit changes, one after the other in a cluster, and all clusters at once.
    alone: Samples,
}

pub(super) async fn run(services: usize, clusters: usize, plans: usize) -> anyhow::Result<Vec<Figure>> {
    anyhow::ensure!(clusters > 0 && plans > 0, "nothing is measured that is not done");
    anyhow::ensure!((1..=MOST_PARTS).contains(&services), "one plan holds 1 to {MOST_PARTS} services");
    eprintln!("{services} services on {clusters} simulated clusters");
    let remote = GitRemote::new()?;
    let first = commit(&remote, "main", services, 0)?;
    let server = GitServer::start(remote.root())?;
    let mut fleet = Fleet::start(None).await?;
    fleet.add_simulated(clusters).await?;
    let repository = fleet.served_repository(&server.url(&remote)).await?;
    for service in 0..services {
        fleet.service(service % clusters, &repository, &name(service), NAMESPACE).await?;
    }
    fleet.start_agents()?;
    arrived(&mut fleet, services, &first).await?;
    let doors = (0..clusters).map(|member| fleet.cluster(member)).collect::<anyhow::Result<Vec<_>>>()?;

    eprintln!("{plans} plans, each of a commit that changes all of them");
    let mut measured = Measured::default();
    for round in 1..=plans {
        let branch = format!("change-{round}");
        remote.set_ref(&format!("refs/heads/{branch}"), "main")?;
        let head = commit(&remote, &branch, services, round)?;
        measured.plan(&fleet, &repository, &head, services).await?;
        measured.dry_runs(&doors, services, round).await?;
    }
    fleet.stop().await?;

    let Measured { all, looked, answered, read, alone } = measured;
    let seconds = |samples: &Samples, percent| samples.percentile(percent) / 1e3;
    Ok(vec![
        Figure::new(
            "commit to what it would do to all services on all clusters, p50",
            seconds(&all, 50),
            "s",
        )
        .at_most(PLAN)
        .beside("services", services as f64)
        .beside("clusters", clusters as f64)
        .beside("the longest", seconds(&all, 100))
        .beside("console: fetch, services, artifacts p50", seconds(&looked, 50))
        .beside("agents, from the question to the last answer p50", seconds(&answered, 50))
        .beside("agents, the longest", seconds(&answered, 100))
        .beside("read by the API p50", seconds(&read, 50))
        .beside("dry runs alone p50", seconds(&alone, 50))
        .beside("plans", all.len() as f64),
        Figure::new("agents' share of that", answered.percentile(50) / all.percentile(50) * 100.0, "%"),
    ])
}

impl Measured {
    /// One plan, of which nothing may be missing.
    async fn plan(
        &mut self,
        fleet: &Fleet,
        repository: &str,
        head: &str,
        services: usize,
    ) -> anyhow::Result<()> {
        let ask = CreateFleetPlan {
            repository_id: repository.to_owned(),
            reference: head.to_owned(),
            base: Some("main".to_owned()),
            pull_request_id: None,
        };
        let started = Instant::now();
        let id = fleet.client().send(&ask).await?.id;
        while !fleet.is_planned(&id).await? {
            anyhow::ensure!(started.elapsed() < WITHIN, "the plan was not made within {WITHIN:?}");
            tokio::time::sleep(LOOK).await;
        }
        let reading = Instant::now();
        let plan = fleet.client().send(&GetFleetPlan { id }).await?;
        self.read.add(reading.elapsed());
        self.all.add(started.elapsed());

        check(&plan, head, services)?;
        let asked = plan.deadline_at.context("nobody was asked")? - PATIENCE;
        let made = plan.inserted_at.context("the plan has no beginning")?;
        let parts = plan.reach.iter().flat_map(|reach| &reach.parts);
        let last = parts.filter_map(|part| part.answered_at).max().context("nobody has answered")?;
        self.looked.add((asked - made).to_std()?);
        self.answered.add((last - asked).to_std()?);
        Ok(())
    }

    /// What cannot be left out: the same dry runs, past console and agents.
    async fn dry_runs(
        &mut self,
        doors: &[kube::Client],
        services: usize,
        round: usize,
    ) -> anyhow::Result<()> {
        let mut clusters = JoinSet::new();
        let started = Instant::now();
        for (member, door) in doors.iter().enumerate() {
            let maps: Api<ConfigMap> = Api::namespaced(door.clone(), NAMESPACE);
            let own = (member..services).step_by(doors.len());
            clusters.spawn(async move {
                let parameters = PatchParams::apply("plural-bench").force().dry_run();
                for service in own {
                    let [_, map, ..] = changed(service, round);
                    maps.patch(&name(service), &parameters, &Patch::Apply(&map)).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = clusters.join_next().await {
            done??;
        }
        self.alone.add(started.elapsed());
        Ok(())
    }
}

/// Every service is planned, and what was changed of it is what the plan says.
fn check(plan: &FleetPlan, head: &str, services: usize) -> anyhow::Result<()> {
    let FleetPlan { phase, error, sha, reach, .. } = plan;
    anyhow::ensure!(*phase == Some(FleetPlanPhase::Done), "the plan is {phase:?}: {error:?}");
    anyhow::ensure!(sha.as_deref() == Some(head), "the plan is of {sha:?}, not of {head}");
    let parts = reach.as_ref().map(|reach| reach.parts.as_slice()).unwrap_or_default();
    anyhow::ensure!(parts.len() == services, "the plan is of {} services, not of {services}", parts.len());
    for part in parts {
        let counts = part.counts.as_ref().context("a part has no counts")?;
        let others = [counts.created, counts.deleted, counts.blocked, counts.omitted];
        anyhow::ensure!(
            part.state == Some(FleetPlanPartState::Planned)
                && counts.changed == Some(1)
                && others.iter().all(|count| *count == Some(0)),
            "a service is not planned as it was changed: {part:?}"
        );
    }
    Ok(())
}

/// Waits until each service is on its cluster.
async fn arrived(fleet: &mut Fleet, services: usize, first: &str) -> anyhow::Result<()> {
    let mut waiting: HashSet<String> = (0..services).map(name).collect();
    while !waiting.is_empty() {
        let told = tokio::time::timeout(WITHIN, fleet.told.recv())
            .await
            .with_context(|| format!("{} services did not arrive within {WITHIN:?}", waiting.len()))?
            .context("the agents stopped")?;
        match told.event {
            AgentEvent::Applied { service, commit_sha, .. } if commit_sha == first => {
                waiting.remove(&service);
            }
            AgentEvent::Failed { service, message, .. } => anyhow::bail!("{service} failed: {message}"),
            _ => {}
        }
    }
    Ok(())
}

/// As its objects are called, too.
fn name(service: usize) -> String {
    format!("service-{service:05}")
}

/// The objects of a service, one of which is new with each round.
fn changed(service: usize, round: usize) -> [Value; OBJECTS] {
    let mut all = objects(NAMESPACE, service);
    if let Some(data) = all[1].get_mut("data") {
        *data = json!({"round": round.to_string()});
    }
    all
}

/// A commit of the objects of all services; its id.
fn commit(remote: &GitRemote, branch: &str, services: usize, round: usize) -> anyhow::Result<String> {
    let mut commit = remote.commit(branch);
    for service in 0..services {
        let documents =
            changed(service, round).iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        commit = commit.file(&format!("{}/objects.yaml", name(service)), documents.join("\n---\n") + "\n");
    }
    commit.push()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole of it, very small.
    #[tokio::test(flavor = "multi_thread")]
    async fn every_service_of_a_small_fleet_is_planned() {
        let figures = run(5, 2, 2).await.unwrap();
        let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
        assert_eq!(
            names,
            ["commit to what it would do to all services on all clusters, p50", "agents' share of that"]
        );
        assert!(figures.iter().all(|figure| figure.value > 0.0), "{figures:?}");
    }
}
