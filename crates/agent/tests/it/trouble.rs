//! Bad days: outages, kills, damage, refusals.

use std::time::{Duration, Instant};

use futures::StreamExt;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, WatchParams},
};
use plural_agent::AgentEvent;
use plural_testkit::{FaultProxy, TestCluster, each_cluster, eventually, fault_proxy::Faults};
use plural_tunnel::v1;
use serde_json::json;

use crate::fixture::{Fixture, PATIENCE, map};

each_cluster!(
    a_console_outage_loses_nothing,
    a_lost_acknowledgement_is_no_lost_report,
    damaged_artifacts_are_never_used,
    a_missing_artifact_is_told,
    a_refused_token_is_told_and_mended,
    an_api_server_outage_is_outlived,
    killed_at_any_moment_it_ends_the_same,
    clocks_that_differ_decide_nothing,
);

/// The lease of another replica whose clock is elsewhere: in the far past, or in the far future.
async fn clocks_that_differ_decide_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::without_agent(cluster).await?;
    let kind = GroupVersionKind::gvk("coordination.k8s.io", "v1", "Lease");
    let leases: Api<DynamicObject> =
        Api::namespaced_with(f.client.clone(), &f.agent_namespace, &ApiResource::from_gvk(&kind));
    for (round, then) in
        ["2099-01-01T00:00:00.000000Z", "1970-01-01T00:00:00.000000Z"].into_iter().enumerate()
    {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "plural-agent"},
            "spec": {"holderIdentity": "another", "leaseDurationSeconds": 3, "acquireTime": then,
                "renewTime": then, "leaseTransitions": 1},
        });
        leases.patch("plural-agent", &PatchParams::apply("another").force(), &Patch::Apply(lease)).await?;
        let hellos = f.console.memory().hellos;
        let started = Instant::now();
        f.start().await?;
        // Its turn comes when the other did not move for three seconds of our own clock: neither at once nor never.
        eventually(PATIENCE, async || f.console.memory().hellos > hellos).await;
        assert!(started.elapsed() >= Duration::from_secs(3), "round {round}");
        f.kill();
    }
    Ok(())
}

async fn a_console_outage_loses_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1"))]);
    f.console.want(service.clone());
    f.console.applied(id).await?;
    f.console.kill().await;
    f.event("disconnected", |event| matches!(event, AgentEvent::Disconnected { .. }).then_some(())).await?;
    let digest = f.console.artifact(&[("app/a.yaml", map("a", "2"))]);
    f.console.want(v1::Service { artifact_digest: digest, ..service });
    f.console.revive().await?;
    f.console.applied(id).await?;
    assert_eq!(f.value("a").await?, "2");
    Ok(())
}

async fn a_lost_acknowledgement_is_no_lost_report(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.event("connected", |event| matches!(event, AgentEvent::Connected).then_some(())).await?;
    f.console.memory().lost_acks = 2;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1"))]);
    f.console.want(service);
    f.console.applied(id).await?;
    let told = plural_testkit::eventually(crate::fixture::PATIENCE, async || {
        f.console.memory().lost_acks == 0 && f.console.memory().reports.len() >= 3
    });
    told.await;
    Ok(())
}

async fn damaged_artifacts_are_never_used(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    f.console.memory().damaged = true;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1"))]);
    f.console.want(service);
    let report = f.console.report(id, "tells of the damage", |report| !report.errors.is_empty()).await?;
    assert!(
        report.errors[0].message.contains("wrong digest") && report.errors[0].source == "source",
        "{report:?}"
    );
    assert_eq!(f.map_names().await?, Vec::<String>::new());
    f.console.memory().damaged = false;
    let report = f.console.applied(id).await?;
    assert!(report.errors.is_empty(), "{report:?}");
    Ok(())
}

async fn a_missing_artifact_is_told(cluster: TestCluster) -> anyhow::Result<()> {
    let f = Fixture::new(cluster).await?;
    let (id, mut service) = f.service("shop", &[("app/a.yaml", map("a", "1"))]);
    service.artifact_digest = "0".repeat(64);
    f.console.want(service.clone());
    let report = f.console.report(id, "tells of it", |report| !report.errors.is_empty()).await?;
    assert!(report.errors[0].message.contains("no such artifact"), "{report:?}");
    // A missing folder is an error of the source, too, and never an empty service.
    let digest = f.console.artifact(&[("elsewhere/a.yaml", map("a", "1"))]);
    f.console.want(v1::Service { artifact_digest: digest, ..service });
    let report = f
        .console
        .report(id, "tells of the folder", |report| {
            report.errors.first().is_some_and(|error| error.message.contains("does not exist"))
        })
        .await?;
    assert!(!report.applied);
    Ok(())
}

async fn a_refused_token_is_told_and_mended(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::without_agent(cluster).await?;
    f.console.memory().refuses = true;
    f.start().await?;
    let message = f
        .event("refused", |event| match event {
            AgentEvent::Disconnected { message, refused: true } => Some(message.clone()),
            _ => None,
        })
        .await?;
    assert!(message.contains("token") && !message.contains(crate::console::TOKEN), "{message}");
    f.console.memory().refuses = false;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1"))]);
    f.console.want(service);
    f.console.applied(id).await?;
    Ok(())
}

async fn an_api_server_outage_is_outlived(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::without_agent(cluster).await?;
    let mut config = f.config().await?;
    let host = config.kube.cluster_url.host().unwrap_or("127.0.0.1").to_owned();
    let port = config.kube.cluster_url.port_u16().unwrap();
    let proxy = FaultProxy::start(format!("{host}:{port}").parse()?)?;
    config.kube.tls_server_name = Some(host);
    config.kube.cluster_url =
        format!("{}://{}", config.kube.cluster_url.scheme_str().unwrap(), proxy.address()).parse()?;
    config.engine.request_deadline = Duration::from_secs(2);
    f.agent = Some(plural_agent::Agent::start(config)?);
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a", "1"))]);
    f.console.want(service.clone());
    f.console.applied(id).await?;

    // Gone: what is wanted meanwhile waits, and is told.
    proxy.cut_off();
    let digest = f.console.artifact(&[("app/a.yaml", map("a", "2"))]);
    f.console.want(v1::Service { artifact_digest: digest, ..service.clone() });
    let report = f.console.report(id, "tells of the outage", |report| !report.errors.is_empty()).await?;
    assert!(report.errors[0].message.contains("cannot reach"), "{report:?}");
    proxy.heal();
    f.console.applied(id).await?;
    assert_eq!(f.value("a").await?, "2");

    // Silent: connections stay open and nothing comes.
    proxy.set(Faults::half_open());
    let digest = f.console.artifact(&[("app/a.yaml", map("a", "3"))]);
    f.console.want(v1::Service { artifact_digest: digest, ..service });
    f.console.report(id, "tells of the silence", |report| !report.errors.is_empty()).await?;
    proxy.heal();
    proxy.cut();
    f.console.applied(id).await?;
    assert_eq!(f.value("a").await?, "3");
    Ok(())
}

async fn killed_at_any_moment_it_ends_the_same(cluster: TestCluster) -> anyhow::Result<()> {
    let mut f = Fixture::new(cluster).await?;
    let (id, service) = f.service("shop", &[("app/a.yaml", map("a0", "0"))]);
    f.console.want(service.clone());
    f.console.applied(id).await?;
    for round in 1..=8u32 {
        let files = [
            ("app/a.yaml", map(&format!("a{round}"), "1")),
            ("app/b.yaml", map("steady", &round.to_string())),
            ("app/c.yaml", map(&format!("c{round}"), "1")),
        ];
        let digest = f.console.artifact(&files);
        let maps = f.maps();
        let known = maps.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
        // Without bookmarks each event is a write.
        let mut writes = maps.watch(&WatchParams::default().disable_bookmarks(), &known).await?.boxed();
        f.console.want(v1::Service { artifact_digest: digest, ..service.clone() });
        // Killed one write later each time; the last rounds let it finish.
        let writing = async {
            for _ in 1..round {
                writes.next().await;
            }
        };
        tokio::select! {
            () = writing => {}
            applied = f.console.applied(id) => { applied?; }
        }
        f.kill();
        f.start().await?;
        f.console.applied(id).await?;
        let expected = [format!("a{round}"), format!("c{round}"), "steady".to_owned()];
        let settled = plural_testkit::eventually(crate::fixture::PATIENCE, async || {
            f.map_names().await.is_ok_and(|names| names == expected)
        });
        settled.await;
        assert_eq!(f.value("steady").await?, round.to_string());
    }
    Ok(())
}
