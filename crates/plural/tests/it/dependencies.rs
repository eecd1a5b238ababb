//! Services that wait for each other: what the clusters are given, and in which order.
//!
//! One backend is enough: what waits for what is decided by the console; that clusters are given it in order is asked
//! of both by `each_cluster!`.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    config::{KubeConfigOptions, Kubeconfig},
};
use plural_agent::{Agent, AgentConfig, RunningAgent};
use plural_testkit::{TestCluster, TestDatabase, each_cluster, each_database, eventually, run_case};
use plural_tunnel::ConsoleOptions;
use plural_wire::{
    DeleteServiceCascade, DeleteServiceDeployment, GetServiceDeletion, GetServiceDeployment, LinksAttributes,
    ServiceDependencyAttributes, ServiceDeploymentAttributes, ServiceDeploymentStatus,
    ServiceUpdateAttributes, UpdateServiceDeployment,
};

use crate::{
    program::{AgentProcess, ConsoleProcess, Home},
    world::{PATIENCE, Person, Registered, World, attributes, map, map_names},
};

each_cluster!(the_next_begins_when_this_one_is_healthy, what_others_need_goes_last, a_dry_run_writes_nothing);
each_database!(a_killed_console_forgets_nobody_who_waits);

/// A Deployment that gets ready, or one whose Pods never start.
fn deployment(cluster: &TestCluster, name: &str, ready: bool) -> String {
    let pending = match (ready, cluster.as_kubesim().is_some()) {
        (true, _) => "example.com/ready: \"yes\"".to_owned(),
        (false, true) => format!("{}: ImagePullBackOff", plural_kubesim::annotations::FAIL),
        (false, false) => "test.plural.sh/pod: pending".to_owned(),
    };
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  selector: {{matchLabels: {{app: \
         {name}}}}}\n  template:\n    metadata:\n      labels: {{app: {name}}}\n      annotations:\n        {pending}\n    \
         spec:\n      containers: [{{name: main, image: example.com/main}}]\n"
    )
}

pub(crate) fn links(on: &[&str]) -> LinksAttributes {
    let on = on
        .iter()
        .map(|name| ServiceDependencyAttributes { cluster: None, name: (*name).to_owned() })
        .collect();
    LinksAttributes { dependencies: Some(on), ..LinksAttributes::default() }
}

/// A service of `folder` that depends on others.
fn depending(w: &World, folder: &str, on: &[&str]) -> ServiceDeploymentAttributes {
    ServiceDeploymentAttributes {
        links: links(on),
        ..attributes(folder, &w.namespace, &w.repository, "main", folder)
    }
}

async fn change(person: &Person, id: &str, on: &[&str]) -> Result<(), plural_wire::ClientError> {
    let attributes = ServiceUpdateAttributes { links: links(on), ..ServiceUpdateAttributes::default() };
    let change = UpdateServiceDeployment { id: Some(id.to_owned()), cluster: None, name: None, attributes };
    person.client.send(&change).await.map(drop)
}

async fn gone(person: &Person, service: &str) {
    let asked = GetServiceDeployment { id: Some(service.to_owned()), cluster: None, name: None };
    eventually(PATIENCE, async || match person.client.send(&asked).await {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.to_string()),
        Ok(found) => Err(format!("{:?}", found.errors)),
    })
    .await;
}

async fn the_next_begins_when_this_one_is_healthy(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let sha = w.remote.push_files([
        ("db/db.yaml", deployment(&w.cluster, "db", false)),
        ("web/web.yaml", map("web", "1")),
        ("beside/beside.yaml", map("beside", "1")),
    ])?;
    let web = w.person.service_of(&w.registered, depending(&w, "web", &["db"])).await?;
    w.person.is_told(&web, &["waiting since", "blue/db (there is no such service)"]).await;
    let db = w.service("db").await?;
    let beside = w.service("beside").await?;
    w.person.stands_at(&beside, &sha).await;
    let told = w.person.is_told(&web, &["blue/db (it is STALE", "nothing is applied yet"]).await;
    assert_eq!(told.dependencies[0].status, Some(ServiceDeploymentStatus::Stale));
    assert_eq!(w.map_names().await?, ["beside"], "nothing of it is there");

    // Healthy: it goes on by itself.
    let sha = w.remote.push_files([("db/db.yaml", deployment(&w.cluster, "db", true))])?;
    w.person.stands_at(&db, &sha).await;
    w.until_value("web", "1").await;
    eventually(PATIENCE, async || {
        let found = w.person.details(&web).await.map_err(|error| error.to_string())?;
        let well = found.service.status == ServiceDeploymentStatus::Healthy && found.errors.is_empty();
        if well { Ok(()) } else { Err(format!("{:?} {:?}", found.service.status, found.errors)) }
    })
    .await;

    // What it depends on regresses: what runs stays, repaired and all, and a new revision waits.
    w.remote.push_files([
        ("db/db.yaml", deployment(&w.cluster, "db", false)),
        ("web/web.yaml", map("web", "2")),
    ])?;
    w.person.is_told(&web, &["the current revision keeps running"]).await;
    assert_eq!(w.value("web").await?.as_deref(), Some("1"));
    w.maps().delete("web", &kube::api::DeleteParams::default()).await?;
    w.until_value("web", "1").await;
    w.remote.push_files([("db/db.yaml", deployment(&w.cluster, "db", true))])?;
    w.until_value("web", "2").await;
    w.end().await
}

async fn what_others_need_goes_last(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    // The one that depends on the other does not go as long as somebody holds it.
    let held = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: web\n  finalizers: [example.com/held]\ndata:\n  key: \"1\"\n";
    let sha = w.remote.push_files([("db/db.yaml", map("db", "1")), ("web/web.yaml", held.to_owned())])?;
    let db = w.service("db").await?;
    let web = w.person.service_of(&w.registered, depending(&w, "web", &["db"])).await?;
    w.person.stands_at(&db, &sha).await;
    w.person.stands_at(&web, &sha).await;
    let refused = w.person.client.send(&DeleteServiceDeployment { id: db.clone() }).await.unwrap_err();
    assert!(refused.to_string().contains("blue/web"), "{refused}");
    let plan = w.person.client.send(&GetServiceDeletion { id: db.clone(), cascade: true }).await?;
    let shown: Vec<(&str, &str)> =
        plan.services.iter().map(|one| (one.name.as_str(), one.components[0].name.as_str())).collect();
    assert_eq!(shown, [("web", "web"), ("db", "db")], "{plan:?}");
    w.person.client.send(&DeleteServiceCascade { id: db.clone(), cascade: true }).await?;
    w.person.is_told(&web, &["example.com/held"]).await;
    w.person.is_told(&db, &["is deleted when these are gone", "blue/web"]).await;
    assert_eq!(w.value("db").await?.as_deref(), Some("1"), "it is still needed");
    // Also now it is looked after.
    w.maps().delete("db", &kube::api::DeleteParams::default()).await?;
    w.until_value("db", "1").await;
    let release = serde_json::json!({"metadata": {"finalizers": null}});
    w.maps().patch("web", &kube::api::PatchParams::default(), &kube::api::Patch::Merge(&release)).await?;
    gone(&w.person, &web).await;
    gone(&w.person, &db).await;
    assert!(w.map_names().await?.is_empty());
    w.end().await
}

async fn a_dry_run_writes_nothing(cluster: TestCluster) -> anyhow::Result<()> {
    let w = World::new(cluster).await?;
    let sha = w.remote.push_files([("app/a.yaml", map("a", "1")), ("web/web.yaml", map("web", "1"))])?;
    let attributes = ServiceDeploymentAttributes {
        dry_run: Some(true),
        ..attributes("app", &w.namespace, &w.repository, "main", "app")
    };
    let app = w.person.service_of(&w.registered, attributes).await?;
    // Whoever depends on a dry run waits for ever, and is told.
    let web = w.person.service_of(&w.registered, depending(&w, "web", &["app"])).await?;
    w.person.is_told(&web, &["blue/app (it is in dry-run mode and is never applied)"]).await;
    eventually(PATIENCE, async || {
        let found = w.person.details(&app).await.map_err(|error| error.to_string())?;
        let a = found.components.iter().find(|component| component.name == "a");
        match a {
            Some(a) if !a.synced && found.service.sha.as_deref() == Some(sha.as_str()) => Ok(()),
            _ => Err(format!("{:?} {:?}", found.components, found.errors)),
        }
    })
    .await;
    assert!(w.map_names().await?.is_empty());
    // The API server is asked about the one as a dry run, and about the other not at all.
    assert_eq!(w.writes_of("web")?, 0);
    // For real: both come, in their order.
    let attributes = ServiceUpdateAttributes { dry_run: Some(false), ..ServiceUpdateAttributes::default() };
    let change = UpdateServiceDeployment { id: Some(app.clone()), cluster: None, name: None, attributes };
    w.person.client.send(&change).await?;
    w.until_value("a", "1").await;
    w.until_value("web", "1").await;
    w.end().await
}

/// Another cluster of a world, with its agent.
struct Elsewhere {
    registered: Registered,
    cluster: TestCluster,
    agent: RunningAgent,
}

impl Elsewhere {
    async fn new(w: &World, handle: &str) -> anyhow::Result<Self> {
        let cluster = TestCluster::kubesim().await?;
        let registered = w.person.cluster(handle).await?;
        let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig())?;
        let kube = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let console = ConsoleOptions {
            url: w.console.url.clone(),
            token: registered.token.clone(),
            ca_pem: None,
            deadline: Duration::from_secs(10),
        };
        let config = AgentConfig::new(console, kube, w.folder.path().join(handle))
            .in_namespace(cluster.namespace().await?);
        Ok(Self { registered, agent: Agent::start(config)?, cluster })
    }
}

#[test]
fn clusters_wait_for_each_other() {
    run_case(async {
        let w = World::new(TestCluster::kubesim().await?).await?;
        let green = Elsewhere::new(&w, "green").await?;
        let namespace = green.cluster.namespace().await?;
        let sha = w.remote.push_files([
            ("db/db.yaml", deployment(&green.cluster, "db", false)),
            ("web/web.yaml", map("web", "1")),
        ])?;
        let web = w.person.service_of(&w.registered, depending(&w, "web", &["green/db"])).await?;
        let of_db = attributes("db", &namespace, &w.repository, "main", "db");
        let db = w.person.service_of(&green.registered, of_db).await?;
        eventually(PATIENCE, async || {
            let found = w.person.details(&db).await.map_err(|error| error.to_string())?;
            if found.components.iter().any(|one| one.synced) && found.service.sha.as_deref() == Some(&*sha) {
                Ok(())
            } else {
                Err(format!("{:?}", found.components))
            }
        })
        .await;
        w.person.is_told(&web, &["green/db (it is STALE"]).await;
        assert!(w.map_names().await?.is_empty());
        let sha = w.remote.push_files([("db/db.yaml", deployment(&green.cluster, "db", true))])?;
        w.person.stands_at(&db, &sha).await;
        w.until_value("web", "1").await;

        // A cycle across clusters is refused, named, and nothing of it is left.
        let refused = change(&w.person, &db, &["blue/web"]).await.unwrap_err().to_string();
        assert!(refused.contains("green/db -> blue/web -> green/db"), "{refused}");
        assert!(w.person.details(&db).await?.dependencies.is_empty());

        w.person.client.send(&DeleteServiceCascade { id: db.clone(), cascade: true }).await?;
        gone(&w.person, &web).await;
        gone(&w.person, &db).await;
        assert!(w.map_names().await?.is_empty());
        let Elsewhere { registered: _, cluster, agent } = green;
        agent.stop().await;
        drop(cluster);
        w.end().await
    });
}

#[test]
fn edits_at_once_never_close_a_cycle() {
    run_case(async {
        let w = World::without_agent(TestCluster::kubesim().await?).await?;
        let names = ["a", "b", "c"];
        let mut ids = Vec::new();
        for name in names {
            ids.push(w.service(name).await?);
        }
        for _ in 0..4 {
            for id in &ids {
                change(&w.person, id, &[]).await?;
            }
            let person = &w.person;
            let edits = ids
                .iter()
                .zip(["b", "c", "a"])
                .map(|(id, on)| async move { change(person, id, &[on]).await });
            let outcomes = futures::future::join_all(edits).await;
            let refused: Vec<String> =
                outcomes.into_iter().filter_map(Result::err).map(|error| error.to_string()).collect();
            assert_eq!(refused.len(), 1, "{refused:?}");
            assert!(refused[0].contains("would wait for each other for ever: blue/"), "{refused:?}");
        }
        w.end().await
    });
}

async fn a_killed_console_forgets_nobody_who_waits(database: TestDatabase) -> anyhow::Result<()> {
    let cluster = TestCluster::kubesim().await?;
    let home = Home::new()?;
    let url = database.is_postgres().then(|| database.url());
    let mut console = ConsoleProcess::start(&home, url, "info").await?;
    let person = Person::administrator(&console.url()).await?;
    let registered = person.cluster("blue").await?;
    let remote = plural_testkit::GitRemote::new()?;
    let namespace = cluster.namespace().await?;
    let sha = remote.push_files([
        ("db/db.yaml", deployment(&cluster, "db", true)),
        ("api/api.yaml", map("api", "0")),
        ("web/web.yaml", map("web", "0")),
    ])?;
    let repository = person.repository(&remote.path().display().to_string()).await?;
    let of = |folder: &str, on: &[&str]| ServiceDeploymentAttributes {
        links: links(on),
        ..attributes(folder, &namespace, &repository, "main", folder)
    };
    let web = person.service_of(&registered, of("web", &["api"])).await?;
    let api = person.service_of(&registered, of("api", &["db"])).await?;
    let db = person.service_of(&registered, of("db", &[])).await?;
    let mut agent = AgentProcess::start(&home, &console.url(), &registered.token, &cluster, "info").await?;
    for id in [&db, &api, &web] {
        person.stands_at(id, &sha).await;
    }
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await?, &namespace);
    for round in 1..=6_u32 {
        let text = round.to_string();
        let db_file = deployment(&cluster, "db", true).replace("\"yes\"", &format!("\"{text}\""));
        let sha = remote.push_files([
            ("db/db.yaml", db_file),
            ("api/api.yaml", map("api", &text)),
            ("web/web.yaml", map("web", &text)),
        ])?;
        let while_ = Duration::from_millis(rand::random_range(0..400));
        eprintln!("killed after {while_:?}, or when {sha} has arrived");
        let _ = tokio::time::timeout(while_, person.stands_at(&web, &sha)).await;
        console.kill();
        console.restart().await?;
        for id in [&db, &api, &web] {
            person.stands_at(id, &sha).await;
        }
        let web = maps.get("web").await?;
        assert_eq!(web.data.unwrap_or_default()["key"], text);
    }
    assert_eq!(map_names(&maps).await?, ["api", "web"]);
    agent.stop();
    console.stop();
    Ok(())
}
