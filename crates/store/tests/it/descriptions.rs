//! What is told about services' objects: images, host names, API versions that go away, files.

use plural_app::agent::{AgentFacts, AgentReport};
use plural_core::Error;
use plural_core::cluster::{Cluster, ClusterFacts};
use plural_core::cluster_issuer::IssuerReport;
use plural_core::component::{Component, ComponentKey, ComponentState};
use plural_core::service_file::FileContent;
use plural_core::service_metadata::ServiceMetadata;
use plural_testkit::{TestDatabase, each_database};

use crate::agent::{component, deployed, report, reported};
use crate::door::{Door, by_id, eventually, service_id, subject};

each_database!(
    what_objects_say_is_kept_until_they_say_something_else,
    api_versions_that_go_away_are_told_by_the_version_of_the_cluster,
    files_are_for_those_who_may_change_the_service,
);

fn metadata(images: &[&str]) -> ServiceMetadata {
    ServiceMetadata::of(images.iter().map(|&image| image.to_owned()), ["www.example.com".to_owned()])
}

async fn what_objects_say_is_kept_until_they_say_something_else(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, told, _) = deployed(&door, "blue").await;
    let known = async || {
        let found = door.app.services_metadata(&door.admin, &[service.id]).await.unwrap();
        found.get(&service.id).cloned()
    };
    assert_eq!(known().await, None, "nobody has told");
    let tell = async |number, said| {
        let said = reported(&told, |service| service.metadata = said);
        door.app.agent_report(&agent, report(number, vec![said])).await.unwrap();
    };
    tell(1, Some(metadata(&["example.com/b", "example.com/a"]))).await;
    assert_eq!(known().await.unwrap().images, ["example.com/a", "example.com/b"]);
    tell(2, None).await;
    assert_eq!(known().await.unwrap().fqdns, ["www.example.com"], "nothing new was said");
    tell(3, Some(metadata(&["example.com/a"]))).await;
    assert_eq!(known().await, Some(metadata(&["example.com/a"])));
    tell(4, Some(ServiceMetadata::default())).await;
    assert_eq!(known().await, Some(ServiceMetadata::default()));

    let user = door.user("stranger").await;
    let stranger = door.as_user(&user).await;
    assert!(door.app.services_metadata(&stranger, &[service.id]).await.unwrap().is_empty());
    door.app.service_detach(&door.admin, &service_id(&service)).await.unwrap();
    assert_eq!(known().await, None);
    door.stop().await;
}

fn of_api(group: &str, version: &str, kind: &str) -> Component {
    let key = ComponentKey {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        namespace: "apps".to_owned(),
        name: kind.to_lowercase(),
    };
    Component { key, ..component("any", ComponentState::Running) }
}

async fn api_versions_that_go_away_are_told_by_the_version_of_the_cluster(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (agent, service, told, _) = deployed(&door, "blue").await;
    let components = vec![
        of_api("batch", "v1beta1", "CronJob"),
        of_api("", "v1", "Endpoints"),
        of_api("", "v1", "ConfigMap"),
        of_api("example.com", "v1beta1", "CronJob"),
    ];
    let said = reported(&told, |service| service.components = Some(components));
    door.app.agent_report(&agent, report(1, vec![said])).await.unwrap();
    let concerned = async || {
        let found = door.app.services_deprecations(&door.admin, &[service.id]).await.unwrap();
        found.get(&service.id).cloned().unwrap_or_default()
    };
    assert!(concerned().await.is_empty(), "nobody knows what the cluster runs");
    let runs = async |number, version: &str| {
        let facts = ClusterFacts { current_version: Some(version.to_owned()), ..ClusterFacts::default() };
        let facts = Some(AgentFacts { facts, distro: None, issuer: IssuerReport::Untold });
        door.app.agent_report(&agent, AgentReport { id: number, services: Vec::new(), facts }).await.unwrap();
        eventually(async || {
            let cluster = door.app.get_many::<Cluster>(&door.admin, &[service.cluster_id]).await.unwrap();
            (cluster[&service.cluster_id].facts.current_version.as_deref() == Some(version)).then_some(())
        })
        .await;
    };
    runs(2, "v1.24.17-eks-1234").await;
    let found = concerned().await;
    assert_eq!((found.len(), found[0].component.key.kind.as_str()), (1, "CronJob"), "{found:?}");
    assert!(found[0].deprecation.blocking && !found[0].deprecation.removed);
    let warned = async || {
        let errors = door.app.services_errors(&door.admin, &[service.id]).await.unwrap();
        let alone = door.app.service_errors(&door.admin, service.id).await.unwrap();
        assert_eq!(errors[&service.id], alone);
        alone.into_iter().find(|error| error.source == "deprecation")
    };
    assert_eq!(warned().await, None, "it still works");

    runs(3, "v1.36.2").await;
    let kinds: Vec<String> = concerned().await.into_iter().map(|one| one.component.key.kind).collect();
    assert_eq!(kinds, ["CronJob", "Endpoints"]);
    let warning = warned().await.unwrap();
    assert!(warning.warning, "{warning:?}");
    assert_eq!(
        warning.message,
        "CronJob apps/cronjob is written as batch/v1beta1, not served since Kubernetes 1.25: use batch/v1"
    );
    let cluster = door.app.get_many::<Cluster>(&door.admin, &[service.cluster_id]).await.unwrap();
    let of_cluster =
        door.app.cluster_deprecations(&door.admin, &by_id(&cluster[&service.cluster_id])).await.unwrap();
    assert_eq!(of_cluster, concerned().await);

    // A newer manifest, and it is over.
    let said = reported(&told, |service| service.components = Some(vec![of_api("batch", "v1", "CronJob")]));
    door.app.agent_report(&agent, report(4, vec![said])).await.unwrap();
    assert!(concerned().await.is_empty() && warned().await.is_none());
    door.stop().await;
}

async fn files_are_for_those_who_may_change_the_service(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let (_, service, told, _) = deployed(&door, "blue").await;
    let selector = service_id(&service);
    let found = door.app.service_files(&door.admin, &selector, Some("/web/a.yaml/")).await.unwrap();
    assert_eq!(found[0].path, "web/a.yaml");
    assert_eq!(found[0].content, FileContent::Text(told.artifact_digest.unwrap()));
    let user = door.user("reader").await;
    let reader = door.as_user(&user).await;
    let readable =
        plural_core::policy::BindingsChange { read: Some(vec![subject(&user)]), ..Default::default() };
    door.app.binding_replace(&door.admin, service.id, readable).await.unwrap();
    let refused = door.app.service_files(&reader, &selector, None).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    let odd = door.app.service_files(&door.admin, &selector, Some(&"x/".repeat(3_000))).await;
    assert!(matches!(odd, Err(Error::Invalid { .. })), "{odd:?}");
    door.stop().await;
}
