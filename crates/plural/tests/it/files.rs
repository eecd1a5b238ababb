//! The fleet as files, as docs/files.md shows it: from the files of that page to a cluster and back.
//!
//! One backend is enough: what is asked of the cluster is one ConfigMap; what is applied to clusters, and how, is the subject of
//! other files.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{Api, api::PostParams};
use plural_testkit::{GitRemote, TestDatabase, each_database, eventually};
use serde_json::json;

use crate::{
    managed_namespaces::Fleet,
    program::Done,
    world::{PATIENCE, map},
};

each_database!(the_files_of_the_page_reach_a_cluster_and_leave_it);

const PAGE: &str = include_str!("../../../../docs/files.md");

/// The files of the page: blocks that begin with a comment that names one.
fn files() -> Vec<(&'static str, &'static str)> {
    let blocks = PAGE.split("```yaml\n").skip(1).filter_map(|rest| rest.split_once("```"));
    blocks.filter_map(|(block, _)| Some((block.strip_prefix("# ")?.split_once('\n')?.0, block))).collect()
}

async fn value(fleet: &Fleet) -> Option<String> {
    let (client, ..) = fleet.clusters.get("blue")?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "shop");
    maps.get_opt("web").await.ok()??.data?.remove("key")
}

/// The Secret that a service of the page refers to.
async fn make_session_key(fleet: &Fleet) -> anyhow::Result<()> {
    let (client, ..) = fleet.clusters.get("blue").context("there is no such cluster")?;
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}}))?;
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let key = json!({"metadata": {"name": "web-session"}, "stringData": {"key": "made in the cluster"}});
    let key: Secret = serde_json::from_value(key)?;
    Api::namespaced(client.clone(), "shop").create(&PostParams::default(), &key).await?;
    Ok(())
}

async fn runs(fleet: &Fleet, line: &str, code: i32) -> anyhow::Result<Done> {
    let words: Vec<&str> = line.split(' ').collect();
    let done = fleet.plural(&words).await?;
    anyhow::ensure!(done.code == Some(code), "{line}: {done:?}");
    anyhow::ensure!(!format!("{done:?}").contains("hunter2"), "{line} shows a secret: {done:?}");
    Ok(done)
}

async fn the_files_of_the_page_reach_a_cluster_and_leave_it(database: TestDatabase) -> anyhow::Result<()> {
    let url = database.is_postgres().then(|| database.url());
    let mut fleet = Fleet::new(url, &["blue"]).await?;
    let remote = GitRemote::new()?;
    remote.push_files([(
        "web/map.yaml.liquid",
        map("web", "{{ configuration.GREETING }}/{{ contexts.network.region }}"),
    )])?;
    let repository = remote.path().display().to_string();
    let folder = fleet.home.path().join("fleet");
    let files = files();
    assert!(files.len() >= 3, "the page has no files: {files:?}");
    for (name, text) in &files {
        let path = fleet.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap())?;
        std::fs::write(path, text.replace("https://git.example.com/team/deploy.git", &repository))?;
    }
    let all = folder.display().to_string();
    let apply = format!("apply -f {all} -R -l app=shop");

    make_session_key(&fleet).await?;
    let done = runs(&fleet, &format!("{apply} --wait --timeout 90s"), 0).await?;
    assert!(done.out.contains("servicedeployment/blue/web created\n"), "{done:?}");
    assert_eq!(value(&fleet).await.as_deref(), Some("hello/eu-west-1"));
    let done = runs(&fleet, &apply, 0).await?;
    assert!(done.out.lines().all(|line| line.ends_with(" unchanged")), "{done:?}");
    runs(&fleet, &format!("diff -f {all} -R"), 0).await?;

    // The console dies on the way; the next run is as good as any.
    let service = files.iter().find(|(_, text)| text.contains("kind: ServiceDeployment")).unwrap().0;
    let service = fleet.home.path().join(service);
    let text = std::fs::read_to_string(&service)?;
    std::fs::write(&service, text.replace("GREETING: hello", "GREETING: good day"))?;
    let done = runs(&fleet, &format!("diff -f {all} -R"), 1).await?;
    assert!(done.out.contains("GREETING: *** (after)"), "{done:?}");
    fleet.console.kill();
    fleet.console.restart().await?;
    let done = runs(&fleet, &apply, 0).await?;
    assert!(done.out.contains("servicedeployment/blue/web configured\n"), "{done:?}");
    eventually(PATIENCE, async || {
        let found = value(&fleet).await;
        if found.as_deref() == Some("good day/eu-west-1") { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    let printed = runs(&fleet, "get svc blue/web -o yaml", 0).await?;
    std::fs::write(fleet.home.path().join("printed.yaml"), &printed.out)?;
    let printed = fleet.home.path().join("printed.yaml").display().to_string();
    let done = runs(&fleet, &format!("apply -f {printed}"), 0).await?;
    assert_eq!(done.out, "servicedeployment/blue/web unchanged\n");

    // A file that goes takes along what it made, and nothing else.
    std::fs::remove_file(&service)?;
    let asked = runs(&fleet, &format!("{apply} --prune"), 2).await?;
    assert!(asked.err.contains("servicedeployment/blue/web"), "{asked:?}");
    let done = runs(&fleet, &format!("{apply} --prune --yes"), 0).await?;
    assert!(done.out.contains("servicedeployment/blue/web pruned\n"), "{done:?}");
    eventually(PATIENCE, async || value(&fleet).await.is_none()).await;

    runs(&fleet, &format!("delete -f {all} -R --yes --wait --ignore-not-found"), 0).await?;
    let left = runs(&fleet, "get repo,svc,win -o name", 0).await?;
    assert_eq!(left.out, "");
    for (_, agent, _) in std::mem::take(&mut fleet.clusters).into_values() {
        agent.stop().await;
    }
    fleet.console.stop();
    Ok(())
}
