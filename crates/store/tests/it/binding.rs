//! Bindings that come with a new thing, or with a change of one: with it or not at all.

use plural_app::OpCtx;
use plural_app::cluster::ClusterFilter;
use plural_app::project::ProjectSelector;
use plural_app::records::Search;
use plural_app::service::ServiceFilter;
use plural_core::cluster::{Cluster, ClusterChange, NewCluster};
use plural_core::ids::UserId;
use plural_core::policy::{BindingSubject, BindingsChange, BoundRole, Policy, Role};
use plural_core::project::{NewProject, Project, ProjectChange};
use plural_core::service::{NewService, Service, ServiceChange};
use plural_core::specs::Edit;
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use serde_json::json;

use crate::door::{Door, by_id, new_service, service_id, subject};

each_database!(
    a_new_thing_comes_with_its_bindings,
    who_may_not_bind_makes_nothing,
    an_unknown_subject_makes_nothing,
    a_change_comes_with_its_bindings,
    a_refused_change_leaves_the_bindings,
    who_may_not_bind_changes_nothing,
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
        ..BindingsChange::default()
    };
    let new = NewProject { bindings: access(), ..NewProject::named("team".parse().unwrap()) };
    let project = door.app.project_create(&door.admin, &new).await.unwrap();
    let new = NewCluster { bindings: access(), ..cluster_named("blue") };
    let cluster = door.app.cluster_create(&door.admin, new).await.unwrap().cluster;
    let repository = door.repository("https://example.com/a").await;
    let new = NewService { bindings: access(), ..new_service(&repository, "web") };
    let service = door.app.service_create(&door.admin, &by_id(&cluster), new).await.unwrap();

    let all: [Policy; 3] = [project.id.into(), cluster.id.into(), service.id.into()];
    for policy in all {
        let bound = door.app.binding_list(&door.admin, policy).await.unwrap();
        let bound: Vec<_> = bound.iter().map(|b| (b.binding.subject, b.binding.role)).collect();
        assert_eq!(bound.len(), 2, "{policy:?}: {bound:?}");
        assert!(
            bound.contains(&(subject(&bob), Role::Read.into()))
                && bound.contains(&(subject(&ada), Role::Write.into()))
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

    let new = NewCluster { bindings: read_by(subject(&ada)), ..cluster_named("green") };
    let refused = door.app.cluster_create(&writer, new).await;
    let Err(Error::Forbidden { reason }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("admin access to the project"), "{reason}");
    let new = NewService { bindings: read_by(subject(&ada)), ..new_service(&repository, "web") };
    let refused = door.app.service_create(&writer, &by_id(&made.cluster), new).await;
    let Err(Error::Forbidden { reason }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("admin access to the cluster"), "{reason}");
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

    let new = NewCluster { bindings: nobody(), ..cluster_named("green") };
    let refused = door.app.cluster_create(&door.admin, new).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let new = NewService { bindings: nobody(), ..new_service(&repository, "web") };
    let refused = door.app.service_create(&door.admin, &by_id(&made.cluster), new).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let new = NewProject { bindings: nobody(), ..NewProject::named("team".parse().unwrap()) };
    let refused = door.app.project_create(&door.admin, &new).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");

    assert_eq!(everything(&door, &door.admin).await, (vec![made.cluster], 0));
    let projects = door
        .app
        .list::<Project>(&door.admin, &Search { q: Some("team".into()) }, &PageArgs::default())
        .await
        .unwrap();
    assert!(projects.edges.is_empty());
    let after = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().edges.len();
    assert_eq!(before, after, "what was not done is not in the audit log");
}

async fn everything(door: &Door, ctx: &OpCtx) -> (Vec<Cluster>, usize) {
    let clusters =
        door.app.list::<Cluster>(ctx, &ClusterFilter::default(), &PageArgs::default()).await.unwrap();
    let services =
        door.app.list::<Service>(ctx, &ServiceFilter::default(), &PageArgs::default()).await.unwrap();
    (clusters.into_nodes(), services.edges.len())
}

/// One of each noun that has bindings, each with ada as its reader.
struct Bound {
    project: Project,
    cluster: Cluster,
    service: Service,
    ada: BindingSubject,
}

impl Bound {
    async fn new(door: &Door) -> Self {
        let ada = subject(&door.user("ada").await);
        let new = NewProject { bindings: read_by(ada), ..NewProject::named("team".parse().unwrap()) };
        let project = door.app.project_create(&door.admin, &new).await.unwrap();
        let new =
            NewCluster { project_id: Some(project.id), bindings: read_by(ada), ..cluster_named("blue") };
        let cluster = door.app.cluster_create(&door.admin, new).await.unwrap().cluster;
        let repository = door.repository("https://example.com/a").await;
        let new = NewService { bindings: read_by(ada), ..new_service(&repository, "web") };
        let service = door.app.service_create(&door.admin, &by_id(&cluster), new).await.unwrap();
        Self { project, cluster, service, ada }
    }

    fn policies(&self) -> [Policy; 3] {
        [self.project.id.into(), self.cluster.id.into(), self.service.id.into()]
    }

    /// All three changed in something plain and in who may look.
    async fn change(&self, door: &Door, ctx: &OpCtx, bindings: &BindingsChange) -> [Result<(), Error>; 3] {
        let bindings = || bindings.clone();
        let change = ProjectChange {
            description: Some("ours".into()),
            bindings: bindings(),
            ..ProjectChange::default()
        };
        let project = door.app.project_update(ctx, self.project.id, &change).await.map(drop);
        let change =
            ClusterChange { version: Some("1.36".into()), bindings: bindings(), ..ClusterChange::default() };
        let cluster = door.app.cluster_update(ctx, &by_id(&self.cluster), &change).await.map(drop);
        let change =
            ServiceChange { version: Some("1.2.3".into()), bindings: bindings(), ..ServiceChange::default() };
        let service = door.app.service_update(ctx, &service_id(&self.service), change).await.map(drop);
        [project, cluster, service]
    }

    /// Things, bindings and audit log, as they are.
    async fn now(&self, door: &Door) -> (Project, Cluster, Service, Vec<(BindingSubject, BoundRole)>, usize) {
        let of = ProjectSelector::Id(self.project.id);
        let project = door.app.get::<Project>(&door.admin, &of).await.unwrap();
        let cluster = door.app.get::<Cluster>(&door.admin, &by_id(&self.cluster)).await.unwrap();
        let service = door.app.get::<Service>(&door.admin, &service_id(&self.service)).await.unwrap();
        let mut bound = Vec::new();
        for policy in self.policies() {
            let bindings = door.app.binding_list(&door.admin, policy).await.unwrap();
            bound.extend(bindings.iter().map(|one| (one.binding.subject, one.binding.role)));
        }
        let all = PageArgs { first: Some(100), ..PageArgs::default() };
        let lines = door.app.audit_list(&door.admin, &all).await.unwrap().edges.len();
        (project, cluster, service, bound, lines)
    }
}

async fn a_change_comes_with_its_bindings(database: TestDatabase) {
    let door = Door::new(database).await;
    let bound = Bound::new(&door).await;
    let bob = subject(&door.user("bob").await);
    let (.., before) = bound.now(&door).await;

    for changed in bound.change(&door, &door.admin, &read_by(bob)).await {
        changed.unwrap();
    }
    let (project, cluster, service, bindings, after) = bound.now(&door).await;
    assert_eq!(project.description.as_deref(), Some("ours"));
    assert_eq!((cluster.version.as_deref(), service.version.as_str()), (Some("1.36"), "1.2.3"));
    assert_eq!(bindings, [(bob, Role::Read.into()); 3]);
    assert_eq!(after, before + 6, "each change has its line and each set of bindings");

    // Nobody's role, which is not the same as no word about it.
    let nobody = BindingsChange { read: Some(Vec::new()), ..BindingsChange::default() };
    for changed in bound.change(&door, &door.admin, &nobody).await {
        changed.unwrap();
    }
    assert!(bound.now(&door).await.3.is_empty());
}

async fn a_refused_change_leaves_the_bindings(database: TestDatabase) {
    let door = Door::new(database).await;
    let bound = Bound::new(&door).await;
    let bob = subject(&door.user("bob").await);
    door.app.project_create(&door.admin, &NewProject::named("taken".parse().unwrap())).await.unwrap();
    door.cluster("taken").await;
    let before = bound.now(&door).await;
    assert_eq!(before.3, [(bound.ada, Role::Read.into()); 3]);

    // Names that others have.
    let change = ProjectChange {
        name: Some("taken".parse().unwrap()),
        bindings: read_by(bob),
        ..ProjectChange::default()
    };
    let refused = door.app.project_update(&door.admin, bound.project.id, &change).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    let change = ClusterChange {
        handle: Some("taken".parse().unwrap()),
        bindings: read_by(bob),
        ..ClusterChange::default()
    };
    let refused = door.app.cluster_update(&door.admin, &by_id(&bound.cluster), &change).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    // Settings that make no sense.
    let patch = serde_json::from_value(json!({"policy": {"prunePercent": 101}})).unwrap();
    let change = ServiceChange {
        sync_config: Some(Edit::Patch(patch)),
        bindings: read_by(bob),
        ..ServiceChange::default()
    };
    let refused = door.app.service_update(&door.admin, &service_id(&bound.service), change).await;
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    // Users who do not exist.
    let unknown = read_by(BindingSubject::User(UserId::new()));
    for refused in bound.change(&door, &door.admin, &unknown).await {
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    assert_eq!(bound.now(&door).await, before);
}

/// A writer may change a project and what is in it, but not who else may.
async fn who_may_not_bind_changes_nothing(database: TestDatabase) {
    let door = Door::new(database).await;
    let bound = Bound::new(&door).await;
    let bob = door.user("bob").await;
    let write = BindingsChange { write: Some(vec![subject(&bob)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, bound.project.id, write).await.unwrap();
    let writer = door.as_user(&bob).await;
    let before = bound.now(&door).await;

    for refused in bound.change(&door, &writer, &read_by(subject(&bob))).await {
        let Err(Error::Forbidden { reason }) = refused else { panic!("{refused:?}") };
        assert!(reason.contains("admin"), "{reason}");
    }
    assert_eq!(bound.now(&door).await, before);

    for changed in bound.change(&door, &writer, &BindingsChange::default()).await {
        changed.unwrap();
    }
}
