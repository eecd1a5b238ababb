//! Services.

use plural_app::service::{ServiceFilter, ServiceSelector};
use plural_core::service::{GitRef, Service, ServiceChange};
use plural_core::status::ServiceStatus;
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};

use crate::door::{Door, by_id, new_service, service_id};

each_database!(
    a_service_is_found_by_id_and_by_handle_and_name,
    only_what_is_applied_makes_a_revision,
    old_revisions_go_and_the_current_one_stays,
    what_makes_no_sense_is_refused_with_its_field,
);

async fn a_service_is_found_by_id_and_by_handle_and_name(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let service = door.service(&made.cluster, &repository, "web").await;
    assert_eq!(service.status, ServiceStatus::Stale);
    assert_eq!(service.component_status, "0 / 0");
    assert_eq!(service.version, "0.0.1");
    let by_name = ServiceSelector::Handle("blue".parse().unwrap(), "web".parse().unwrap());
    assert_eq!(door.app.get::<Service>(&door.admin, &by_name).await.unwrap(), service);
    let wrong = ServiceSelector::Handle("red".parse().unwrap(), "web".parse().unwrap());
    assert!(matches!(door.app.get::<Service>(&door.admin, &wrong).await, Err(Error::NotFound { .. })));
    let error = door
        .app
        .service_create(&door.admin, &by_id(&made.cluster), new_service(&repository, "web"))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("a service with this name already exists"), "{error}");
    // The same name on another cluster is another service.
    let red = door.cluster("red").await;
    door.service(&red.cluster, &repository, "web").await;
    let filter = ServiceFilter { cluster_id: Some(red.cluster.id), ..ServiceFilter::default() };
    let page = door.app.list::<Service>(&door.admin, &filter, &PageArgs::default()).await.unwrap();
    assert_eq!(page.edges.len(), 1);
}

async fn only_what_is_applied_makes_a_revision(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let service = door.service(&made.cluster, &repository, "web").await;
    let update =
        async |change| door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
    let quiet = update(ServiceChange { protect: Some(true), ..ServiceChange::default() }).await;
    assert_eq!(quiet.revision_id, service.revision_id);
    assert!(quiet.sequence > service.sequence);
    // The place that it has already is no change.
    let same = update(ServiceChange {
        git: service.git.clone(),
        repository_id: service.repository_id,
        ..ServiceChange::default()
    })
    .await;
    assert_eq!(same.revision_id, service.revision_id);
    let git = GitRef::new("v1", "web", &[]).unwrap();
    let moved = update(ServiceChange { git: Some(git.clone()), ..ServiceChange::default() }).await;
    assert_ne!(moved.revision_id, service.revision_id);
    let revision = door.app.service_revision(&door.admin, service.id).await.unwrap();
    assert_eq!((revision.id, revision.git), (moved.revision_id, Some(git)));
    let all = door.app.service_revisions(&door.admin, service.id, &PageArgs::default()).await.unwrap();
    assert_eq!(all.edges.len(), 2);
    let error = door.app.service_delete(&door.admin, &service_id(&service)).await.unwrap_err();
    assert!(error.to_string().contains("protected"), "{error}");
}

async fn old_revisions_go_and_the_current_one_stays(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let service = door.service(&made.cluster, &repository, "web").await;
    for i in 0..60 {
        let change = ServiceChange { version: Some(format!("1.0.{i}")), ..ServiceChange::default() };
        door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
    }
    let all = door.app.service_revisions(&door.admin, service.id, &PageArgs::default()).await.unwrap();
    assert_eq!(all.edges.len(), 50);
    assert_eq!(door.app.service_revision(&door.admin, service.id).await.unwrap().version, "1.0.59");
}

async fn what_makes_no_sense_is_refused_with_its_field(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let field = async |new| match door.app.service_create(&door.admin, &by_id(&made.cluster), new).await {
        Err(Error::Invalid { field, .. }) => field.to_string(),
        other => panic!("{other:?}"),
    };
    let mut new = new_service(&repository, "web");
    new.git = None;
    assert_eq!(field(new).await, "attributes.git");
    let mut new = new_service(&repository, "web");
    new.repository_id = None;
    assert_eq!(field(new).await, "attributes.repositoryId");
    let mut new = new_service(&repository, "web");
    new.configuration.values.insert("big".into(), "x".repeat(2 << 20));
    assert_eq!(field(new).await, "configuration");
    let mut new = new_service(&repository, "web");
    new.repository_id = Some(plural_core::ids::RepositoryId::new());
    let missing = door.app.service_create(&door.admin, &by_id(&made.cluster), new).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })));
}
