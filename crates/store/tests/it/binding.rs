//! Bindings that come with a new thing: with it or not at all.

use plural_app::{ClusterFilter, OpCtx, ServiceFilter};
use plural_core::{
    BindingSubject, BindingsChange, Cluster, Error, NewCluster, NewProject, PageArgs, Policy, Role, UserId,
};
use plural_testkit::{TestDatabase, each_database};

use crate::door::{Door, by_id, new_service, subject};

each_database!(
    a_new_thing_comes_with_its_bindings,
    who_may_not_bind_makes_nothing,
    an_unknown_subject_makes_nothing,
);

fn read_by(user: BindingSubject) -> BindingsChange {
    BindingsChange { read: Some(vec![user]), ..BindingsChange::default() }
}

fn cluster_named(name: &str) -> NewCluster {
    NewCluster::named(name.parse().unwrap())
}

async fn a_new_thing_comes_with_its_bindings(database: TestDatabase) {
    let door = Door::new(database).await;
    let (ada, bob) = (door.user("ada").await, door.user("bob").await);
    let access = || BindingsChange {
        read: Some(vec![subject(&bob), subject(&bob)]),
        write: Some(vec![subject(&ada)]),
        admin: None,
    };
    let new = NewProject { name: "team".parse().unwrap(), description: None };
    let project = door.app.project_create_bound(&door.admin, &new, access()).await.unwrap();
    let cluster =
        door.app.cluster_create_bound(&door.admin, cluster_named("blue"), access()).await.unwrap().cluster;
    let repository = door.repository("https://example.com/a").await;
    let new = new_service(&repository, "web");
    let service = door.app.service_create_bound(&door.admin, &by_id(&cluster), new, access()).await.unwrap();

    let all: [Policy; 3] = [project.id.into(), cluster.id.into(), service.id.into()];
    for policy in all {
        let bound = door.app.binding_list(&door.admin, policy).await.unwrap();
        let bound: Vec<_> = bound.iter().map(|b| (b.binding.subject, b.binding.role)).collect();
        assert_eq!(bound.len(), 2, "{policy:?}: {bound:?}");
        assert!(
            bound.contains(&(subject(&bob), Role::Read)) && bound.contains(&(subject(&ada), Role::Write))
        );
    }
    let lines = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().into_nodes();
    let bound = lines.iter().filter(|line| line.entry.action == "binding.replace").count();
    assert_eq!(bound, 3, "who may use it is in the audit log too");
}

/// A writer may make clusters and services, but says nothing about who else may use them.
async fn who_may_not_bind_makes_nothing(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let ada = door.user("ada").await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let project = door.default_project().await.id;
    let write = BindingsChange { write: Some(vec![subject(&ada)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, project, write).await.unwrap();
    let writer = door.as_user(&ada).await;
    door.start();

    let refused =
        door.app.cluster_create_bound(&writer, cluster_named("green"), read_by(subject(&ada))).await;
    let Err(Error::Forbidden { reason }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("admin access to its project"), "{reason}");
    let new = new_service(&repository, "web");
    let refused =
        door.app.service_create_bound(&writer, &by_id(&made.cluster), new, read_by(subject(&ada))).await;
    let Err(Error::Forbidden { reason }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("admin access to its cluster"), "{reason}");
    assert_eq!(everything(&door, &writer).await, (vec![made.cluster], 0));

    // Without bindings both are made.
    let green = door.app.cluster_create(&writer, cluster_named("green")).await.unwrap().cluster;
    let new = new_service(&repository, "web");
    assert!(door.app.service_create(&writer, &by_id(&green), new).await.is_ok());
    door.stop().await;
}

async fn an_unknown_subject_makes_nothing(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let nobody = || read_by(BindingSubject::User(UserId::new()));
    let before = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().edges.len();

    let refused = door.app.cluster_create_bound(&door.admin, cluster_named("green"), nobody()).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let new = new_service(&repository, "web");
    let refused = door.app.service_create_bound(&door.admin, &by_id(&made.cluster), new, nobody()).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let new = NewProject { name: "team".parse().unwrap(), description: None };
    let refused = door.app.project_create_bound(&door.admin, &new, nobody()).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");

    assert_eq!(everything(&door, &door.admin).await, (vec![made.cluster], 0));
    let projects = door.app.project_list(&door.admin, Some("team"), &PageArgs::default()).await.unwrap();
    assert!(projects.edges.is_empty());
    let after = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().edges.len();
    assert_eq!(before, after, "what was not done is not in the audit log");
}

async fn everything(door: &Door, ctx: &OpCtx) -> (Vec<Cluster>, usize) {
    let clusters = door.app.cluster_list(ctx, &ClusterFilter::default(), &PageArgs::default()).await.unwrap();
    let services = door.app.service_list(ctx, &ServiceFilter::default(), &PageArgs::default()).await.unwrap();
    (clusters.into_nodes(), services.edges.len())
}
