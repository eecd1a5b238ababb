//! A NUL character in a text is refused alike by both databases, also where no door refused it before.

use plural_app::cluster::ClusterFilter;
use plural_app::project::ProjectSelector;
use plural_app::records::Search;
use plural_core::cluster::{Cluster, ClusterChange, NewCluster};
use plural_core::group::NewGroup;
use plural_core::project::{NewProject, Project, ProjectChange};
use plural_core::service_context::ServiceContextChange;
use plural_core::specs::HOLDS_NUL;
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use serde_json::json;

use crate::door::{Door, by_id, new_service};

each_database!(what_holds_nul_is_refused_and_not_stored);

#[track_caller]
fn refused<T: std::fmt::Debug>(what: &str, outcome: Result<T, Error>) {
    match outcome {
        Err(Error::Invalid { reason, .. }) => assert_eq!(reason, HOLDS_NUL, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
}

async fn what_holds_nul_is_refused_and_not_stored(database: TestDatabase) {
    let door = Door::new(database).await;
    let (app, admin) = (&door.app, &door.admin);
    let text = || Some("a\0b".to_owned());
    let blue = door.cluster("blue").await.cluster;
    let repository = door.repository("https://example.com/a").await;
    let shop = door.project("shop").await;
    let lines = app.audit_list(admin, &PageArgs::default()).await.unwrap().edges.len();

    let new = NewProject { description: text(), ..NewProject::named("team".parse().unwrap()) };
    refused("a new project", app.project_create(admin, &new).await);
    let change = ProjectChange { description: text(), ..ProjectChange::default() };
    refused("a project", app.project_update(admin, shop.id, &change).await);
    let new = NewGroup { name: "sre".parse().unwrap(), description: text(), global: false };
    refused("a new group", app.group_create(admin, &new).await);
    for metadata in [json!({"a": ["b", {"c": "\0"}]}), json!({"a": {"\0": 1}})] {
        let serde_json::Value::Object(metadata) = metadata else { panic!("{metadata}") };
        let new = NewCluster { metadata: metadata.clone(), ..NewCluster::named("red".parse().unwrap()) };
        refused("a new cluster", app.cluster_create(admin, new).await.map(drop));
        let change =
            ServiceContextChange { configuration: Some(metadata), ..ServiceContextChange::default() };
        refused("a new context", app.context_save(admin, "network".parse().unwrap(), change).await);
    }
    let change = ClusterChange { version: text(), ..ClusterChange::default() };
    refused("a cluster", app.cluster_update(admin, &by_id(&blue), &change).await);
    let mut new = new_service(&repository, "api");
    new.docs_path = text();
    refused("a new service", app.service_create(admin, &by_id(&blue), new).await);
    // What is only looked for is not there, and is refused all the same.
    refused(
        "a search",
        app.list::<Project>(admin, &Search { q: Some("\0".into()) }, &PageArgs::default()).await,
    );
    let filter = ClusterFilter { tags: [("stage".into(), "\0".into())].into(), ..ClusterFilter::default() };
    refused("a filter", app.list::<Cluster>(admin, &filter, &PageArgs::default()).await);

    let now = app.audit_list(admin, &PageArgs::default()).await.unwrap().edges.len();
    assert_eq!(now, lines, "nothing was written");
    let selector = ProjectSelector::Id(shop.id);
    assert_eq!(app.get::<Project>(admin, &selector).await.unwrap().description, None);
}
