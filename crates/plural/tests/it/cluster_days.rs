//! Bad days of a cluster: what the console tells, what goes on, and what is written how often.
//!
//! One backend is enough: no real API server is slow or forgets its watches when told to.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use plural_agent::Agent;
use plural_kubesim::Fault;
use plural_testkit::{TestCluster, each_cluster, eventually, run_case};
use plural_wire::{ComponentState, DeleteServiceDeployment, GetServiceDeployment, ServiceDeploymentStatus};
use serde_json::json;

use crate::world::{PATIENCE, World, map};

each_cluster!(
    two_services_that_claim_one_object,
    an_object_changed_by_hand_is_put_right,
    a_finalizer_that_never_ends_is_told_and_holds_up_nobody,
    a_deployment_that_never_gets_ready_is_told_as_such,
);

async fn two_services_that_claim_one_object(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let sha = w.remote.push_files([
        ("first/a.yaml", map("shared", "first")),
        ("second/a.yaml", map("shared", "second")),
        ("second/b.yaml", map("own", "1")),
    ])?;
    let first = w.service("first").await?;
    w.person.stands_at(&first, &sha).await;
    let second = w.service("second").await?;
    w.person
        .fails_with(&second, &["ConfigMap", "shared", "belongs to service blue/first", "Remove it from one"])
        .await;
    w.until_value("own", "1").await;
    assert_eq!(w.value("shared").await?.as_deref(), Some("first"));
    assert_eq!(w.writes_of("shared")?, 1, "nobody fights");

    // The loser goes: what it never owned stays.
    w.person.client.send(&DeleteServiceDeployment { id: second.clone() }).await?;
    gone(&w, &second).await;
    assert_eq!(w.map_names().await?, ["shared"]);
    w.person.stands_at(&first, &sha).await;
    assert_eq!(w.writes_of("shared")?, 1);
    w.end().await
}

async fn gone(w: &World, service: &str) {
    let asked = GetServiceDeployment { id: Some(service.to_owned()), cluster: None, name: None };
    eventually(PATIENCE, async || match w.person.client.send(&asked).await {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(found) => Err(format!("{:?}", found.errors)),
    })
    .await;
}

async fn an_object_changed_by_hand_is_put_right(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let sha = w.remote.push_files([("app/a.yaml", map("a", "1")), ("app/b.yaml", map("b", "1"))])?;
    let id = w.service("app").await?;
    w.person.stands_at(&id, &sha).await;
    let somebody = PatchParams::apply("somebody").force();
    let change =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"key": "mine"}});
    w.maps().patch("a", &somebody, &Patch::Apply(&change)).await?;
    w.until_value("a", "1").await;
    // Deleted by hand: back again.
    let before = w.maps().get("a").await?.metadata.uid;
    w.maps().delete("a", &kube::api::DeleteParams::default()).await?;
    eventually(PATIENCE, async || {
        let now: Option<ConfigMap> = w.maps().get_opt("a").await.map_err(|error| error.to_string())?;
        match now {
            Some(now) if now.metadata.uid != before => Ok(()),
            now => Err(format!("{now:?}")),
        }
    })
    .await;
    w.person.stands_at(&id, &sha).await;
    assert_eq!(w.writes_of("b")?, 1, "what nobody touched is not written");
    // Ours, somebody's, ours, somebody's delete, ours.
    assert_eq!(w.writes_of("a")?, 5);
    w.end().await
}

async fn a_finalizer_that_never_ends_is_told_and_holds_up_nobody(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let stuck = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: stuck\n  finalizers: [example.com/never]\ndata:\n  key: \"1\"\n";
    let sha = w.remote.push_files([
        ("app/stuck.yaml", stuck.to_owned()),
        ("app/a.yaml", map("a", "1")),
        ("other/b.yaml", map("b", "1")),
    ])?;
    let (app, other) = (w.service("app").await?, w.service("other").await?);
    w.person.stands_at(&app, &sha).await;
    w.person.client.send(&DeleteServiceDeployment { id: app.clone() }).await?;
    let told = w.person.is_told(&app, &["stuck", "example.com/never"]).await;
    assert!(told.service.deleted_at.is_some());
    assert!(w.maps().get_opt("a").await?.is_none(), "the rest of it goes at once");
    let sha = w.remote.push_files([("other/b.yaml", map("b", "2"))])?;
    w.person.stands_at(&other, &sha).await;
    let release = json!({"metadata": {"finalizers": null}});
    w.maps().patch("stuck", &PatchParams::default(), &Patch::Merge(&release)).await?;
    gone(&w, &app).await;
    assert_eq!(w.map_names().await?, ["b"]);
    w.end().await
}

async fn a_deployment_that_never_gets_ready_is_told_as_such(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let pending = if w.cluster.as_kubesim().is_some() {
        format!("{}: ImagePullBackOff", plural_kubesim::annotations::FAIL)
    } else {
        "test.plural.sh/pod: pending".to_owned()
    };
    let manifest = format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  selector: {{matchLabels: {{app: web}}}}\n  \
         template:\n    metadata:\n      labels: {{app: web}}\n      annotations:\n        {pending}\n    spec:\n      \
         containers: [{{name: web, image: example.com/web}}]\n"
    );
    let sha = w.remote.push_files([("app/web.yaml", manifest), ("app/a.yaml", map("a", "1"))])?;
    let id = w.service("app").await?;
    let found = eventually(PATIENCE, async || {
        let found = w.person.details(&id).await.map_err(|error| error.to_string())?;
        let web = found.components.iter().find(|component| component.name == "web");
        match web.map(|web| (web.state, web.synced)) {
            Some((Some(ComponentState::Pending), true)) if found.components.len() == 2 => Ok(found),
            _ => Err(format!("{:?}", found.components)),
        }
    })
    .await;
    assert_eq!(found.service.sha.as_deref(), Some(sha.as_str()));
    assert_eq!(found.service.status, ServiceDeploymentStatus::Stale, "applied, and not all of it ready");
    let map = found.components.iter().find(|component| component.name == "a").unwrap();
    assert_eq!((map.state, map.synced), (Some(ComponentState::Running), true));
    w.end().await
}

/// A change of three ConfigMaps, one of which stays, that has to arrive through a bad API server.
async fn arrives_through(
    w: &World,
    service: &str,
    round: u32,
    told: Option<&[&str]>,
    heal: impl FnOnce(),
) -> anyhow::Result<()> {
    let sha = w
        .remote
        .push_files([("app/a.yaml", map("a", &round.to_string())), ("app/still.yaml", map("still", "1"))])?;
    if let Some(needles) = told {
        w.person.is_told(service, needles).await;
    }
    heal();
    w.person.stands_at(service, &sha).await;
    assert_eq!(w.value("a").await?, Some(round.to_string()));
    Ok(())
}

#[test]
fn an_api_server_that_refuses_fails_and_hangs_loses_and_repeats_nothing() {
    run_case(async {
        let mut w = World::without_agent(TestCluster::kubesim().await?).await?;
        let mut config = w.agent_config().await?;
        config.engine.request_deadline = Duration::from_secs(1);
        w.agent = Some(Agent::start(config)?);
        let id = w.service("app").await?;
        arrives_through(&w, &id, 0, None, || {}).await?;
        let sim = w.cluster.as_kubesim().unwrap().clone();
        let namespace = w.namespace.clone();
        let ours = move |info: &plural_kubesim::RequestInfo| {
            info.namespace == namespace && matches!(info.verb.as_str(), "patch" | "create" | "update")
        };
        // A few bad answers: it tries again by itself.
        let faults = [
            Fault::TooManyRequests { retry_after: 1 },
            Fault::Status { code: 500, message: "etcd has a bad day".to_owned() },
            Fault::Status { code: 503, message: "starting".to_owned() },
            Fault::Drop,
            Fault::Hang,
        ];
        let mut round = 0;
        for fault in faults {
            round += 1;
            sim.faults().inject(fault, Some(3), ours.clone());
            arrives_through(&w, &id, round, None, || sim.faults().clear()).await?;
        }
        assert_eq!(w.writes_of("a")?, 6, "each value was written once");
        // One that lasts is told, with the server's own words.
        for (fault, needles) in [
            (
                Fault::Status { code: 500, message: "etcd has a bad day".to_owned() },
                ["ConfigMap", "etcd has a bad day"],
            ),
            (Fault::TooManyRequests { retry_after: 1 }, ["ConfigMap", "overloaded"]),
            (Fault::Hang, ["ConfigMap", "no answer within"]),
        ] {
            round += 1;
            sim.faults().inject(fault, None, ours.clone());
            arrives_through(&w, &id, round, Some(&needles), || sim.faults().clear()).await?;
        }
        // The answer is lost after the write: the same value may be sent again, and changes nothing.
        round += 1;
        sim.faults().inject(Fault::DropAfter, Some(2), ours);
        arrives_through(&w, &id, round, None, || sim.faults().clear()).await?;
        assert_eq!(w.writes_of("still")?, 1, "what did not change is never written");
        assert_eq!(w.map_names().await?, ["a", "still"]);
        w.end().await
    });
}

#[test]
fn an_outage_of_the_api_server_is_told_and_outlived() {
    run_case(async {
        let mut w = World::without_agent(TestCluster::kubesim().await?).await?;
        let mut config = w.agent_config().await?;
        config.engine.request_deadline = Duration::from_secs(1);
        w.agent = Some(Agent::start(config)?);
        let id = w.service("app").await?;
        arrives_through(&w, &id, 0, None, || {}).await?;
        let sim = w.cluster.as_kubesim().unwrap().clone();
        for round in 1..=3 {
            sim.set_available(false);
            let told: Option<&[&str]> = if round == 1 { Some(&["cannot reach"]) } else { None };
            arrives_through(&w, &id, round, told, || {
                sim.set_available(true);
                sim.compact();
            })
            .await?;
        }
        assert_eq!((w.writes_of("a")?, w.writes_of("still")?), (4, 1));
        w.end().await
    });
}
