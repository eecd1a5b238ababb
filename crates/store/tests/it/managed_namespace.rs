//! Managed namespaces: who gets one, what its agent is told, and what becomes of it.

use plural_app::agent::AgentHandle;
use plural_app::agent_poll::{PollAsked, ServiceSpec};
use plural_app::managed_namespace::{ManagedNamespaceSelector, NamespaceCounts, NamespaceInstance};
use plural_app::records::Search;
use plural_app::service::ServiceFilter;
use plural_core::access::Actor;
use plural_core::cluster::{Cluster, ClusterChange};
use plural_core::component::ComponentState;
use plural_core::global_service::{
    Cascade, GlobalService, GlobalServiceSource, GlobalServiceSpec, NewGlobalService, ServiceTemplate,
    TemplateSecrets,
};
use plural_core::ids::ProjectId;
use plural_core::managed_namespace::{
    ManagedNamespace, ManagedNamespaceChange, ManagedNamespaceSpec, ManagedNamespaceSpecChange,
    ManagedNamespaceState, NamespaceContent, NewManagedNamespace,
};
use plural_core::repository::Repository;
use plural_core::service::{Configuration, GitRef, Intent, Service};
use plural_core::specs::Change;
use plural_core::status::ServiceStatus;
use plural_core::target::ClusterTarget;
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;

use crate::agent::{component, report, reported};
use crate::door::{Door, by_id, eventually, service_id};

each_database!(
    clusters_that_fit_get_it_and_others_forget_it,
    what_is_said_of_it_reaches_its_agents,
    a_service_comes_with_it_and_goes,
    a_deletion_waits_for_a_persons_word,
    a_cluster_that_goes_takes_its_own_along,
    it_is_changed_through_itself_only,
    bad_input_is_refused_with_its_field,
);

const URL: &str = "https://example.com/team/app";

/// A console with one cluster, tagged `stage=prod`, and its agent.
struct World {
    door: Door,
    repository: Repository,
    cluster: Cluster,
    agent: AgentHandle,
}

impl World {
    async fn new(database: TestDatabase) -> Self {
        let mut door = Door::new(database).await;
        door.git.commit(URL, "c1", &[("web", "one")]);
        door.start();
        let repository = door.repository(URL).await;
        let made = door.cluster("blue").await;
        let token = made.deploy_token.expose_secret();
        let agent =
            eventually(async || door.app.agent_authenticate(token).map_err(|error| error.to_string())).await;
        let world = Self { door, repository, cluster: made.cluster, agent };
        world.tag("prod").await;
        world
    }

    async fn tag(&self, stage: &str) {
        self.tag_of(&self.cluster, stage).await;
    }

    async fn tag_of(&self, cluster: &Cluster, stage: &str) {
        let tags = [("stage".to_owned(), stage.to_owned())].into();
        let change =
            ClusterChange { tags: plural_core::cluster::TagsChange::All(tags), ..ClusterChange::default() };
        self.door.app.cluster_update(&self.door.admin, &by_id(cluster), &change).await.unwrap();
    }

    async fn make(&self, new: NewManagedNamespace) -> ManagedNamespace {
        self.door.app.managed_namespace_create(&self.door.admin, new).await.unwrap()
    }

    async fn change(&self, managed: &ManagedNamespace, change: ManagedNamespaceChange) -> ManagedNamespace {
        self.door.app.managed_namespace_update(&self.door.admin, &by(managed), change).await.unwrap()
    }

    async fn get(&self, managed: &ManagedNamespace) -> ManagedNamespace {
        self.door.app.get::<ManagedNamespace>(&self.door.admin, &by(managed)).await.unwrap()
    }

    async fn instances(&self, managed: &ManagedNamespace) -> Vec<NamespaceInstance> {
        let (app, admin) = (&self.door.app, &self.door.admin);
        let pages = app.managed_namespaces_instances(admin, &[managed.id], &PageArgs::default()).await;
        pages.unwrap().remove(&managed.id).unwrap().into_nodes()
    }

    /// On how many clusters it is, on how many as it should be, and from how many it goes.
    async fn counts(&self, managed: &ManagedNamespace) -> (u64, u64, u64) {
        let (app, admin) = (&self.door.app, &self.door.admin);
        let found = app.managed_namespaces_counts(admin, &[managed.id]).await.unwrap();
        let NamespaceCounts { all, synced, leaving } = found[&managed.id];
        (all, synced, leaving)
    }

    /// Waits until the agent is told of services that `fit`.
    async fn until_told(&self, fit: impl Fn(&[ServiceSpec]) -> bool) -> Vec<ServiceSpec> {
        eventually(async || {
            let answer = self
                .door
                .app
                .agent_poll(&self.agent, &PollAsked::at(None))
                .await
                .map_err(|e| e.log_text())?;
            let mut found = answer.services;
            found.sort_by(|a, b| a.name.cmp(&b.name));
            if fit(&found) { Ok(found) } else { Err(format!("{found:?}")) }
        })
        .await
    }

    /// The agent says that all it was told runs.
    async fn says_well(&self, specs: &[ServiceSpec]) {
        let well = |spec| {
            reported(spec, |said| said.components = Some(vec![component("x", ComponentState::Running)]))
        };
        self.door.app.agent_report(&self.agent, report(1, specs.iter().map(well).collect())).await.unwrap();
    }

    async fn until_gone(&self, managed: &ManagedNamespace) {
        let (app, admin) = (&self.door.app, &self.door.admin);
        eventually(async || match app.get::<ManagedNamespace>(admin, &by(managed)).await {
            Err(Error::NotFound { .. }) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }

    async fn service(&self, spec: &ServiceSpec) -> Service {
        let selector = plural_app::service::ServiceSelector::Id(spec.id);
        self.door.app.get::<Service>(&self.door.admin, &selector).await.unwrap()
    }

    fn template(&self) -> ServiceTemplate {
        ServiceTemplate {
            repository_id: Some(self.repository.id),
            git: Some(GitRef::new("main", "web", &[]).unwrap()),
            ..ServiceTemplate::default()
        }
    }
}

fn by(managed: &ManagedNamespace) -> ManagedNamespaceSelector {
    ManagedNamespaceSelector::Id(managed.id)
}

fn spec(cascade: Cascade) -> ManagedNamespaceSpec {
    ManagedNamespaceSpec {
        target: ClusterTarget {
            tags: [("stage".to_owned(), "prod".to_owned())].into(),
            ..ClusterTarget::default()
        },
        cascade,
        content: NamespaceContent {
            labels: [("team".to_owned(), "a".to_owned())].into(),
            ..NamespaceContent::default()
        },
    }
}

fn new(cascade: Cascade) -> NewManagedNamespace {
    NewManagedNamespace {
        name: "team-a".parse().unwrap(),
        namespace: None,
        description: None,
        project_id: None,
        spec: spec(cascade),
        service: None,
    }
}

fn content(specs: &[ServiceSpec]) -> Option<&NamespaceContent> {
    specs.iter().find_map(|spec| spec.rendering.managed_namespace.as_ref())
}

async fn clusters_that_fit_get_it_and_others_forget_it(database: TestDatabase) {
    let mut world = World::new(database).await;
    let managed = world.make(new(Cascade::Keep)).await;
    let told = world.until_told(|specs| specs.len() == 1).await;
    assert_eq!((told[0].name.as_str(), told[0].namespace.as_str()), ("team-a-namespace", "team-a"));
    assert_eq!(content(&told).unwrap().labels["team"], "a");
    assert_eq!((told[0].artifact_digest.clone(), told[0].sync_config.create_namespace), (None, false));
    let waiting = world.instances(&managed).await;
    assert_eq!(waiting[0].state(), ManagedNamespaceState::Waiting);
    assert_eq!(world.counts(&managed).await, (1, 0, 0));
    world.says_well(&told).await;
    eventually(async || {
        let found = world.instances(&managed).await;
        if found[0].state() == ManagedNamespaceState::Synced { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    assert!(world.get(&managed).await.spread);
    assert_eq!(world.counts(&managed).await, (1, 1, 0));
    // A cluster that cannot have it stands in the error.
    let green = world.door.cluster("green").await.cluster;
    world.door.service(&green, &world.repository, "team-a-namespace").await;
    world.tag_of(&green, "prod").await;
    eventually(async || {
        let error = world.get(&managed).await.error.unwrap_or_default();
        if error.contains("cluster green: already has a service named team-a-namespace") {
            Ok(())
        } else {
            Err(error)
        }
    })
    .await;

    // Its cluster finds it by its token, and nothing of others; a user may not ask as one.
    let cluster = world.door.app.ctx(Actor::Cluster(world.cluster.id));
    let page = PageArgs::default();
    let found = world.door.app.managed_namespace_list_of_cluster(&cluster, &page).await.unwrap();
    assert_eq!((found.edges[0].node.id, &found.edges[0].node.error), (managed.id, &None));
    let refused = world.door.app.list::<ManagedNamespace>(&cluster, &Search::default(), &page).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");

    // No longer meant: forgotten, not destroyed.
    world.tag("test").await;
    world.until_told(<[_]>::is_empty).await;
    assert_eq!(world.instances(&managed).await, []);
    let none = world.door.app.managed_namespace_list_of_cluster(&cluster, &page).await.unwrap();
    assert!(none.edges.is_empty());
    world.door.app.managed_namespace_delete(&world.door.admin, &by(&managed)).await.unwrap();
    world.until_gone(&managed).await;
    world.door.stop().await;
}

async fn what_is_said_of_it_reaches_its_agents(database: TestDatabase) {
    let mut world = World::new(database).await;
    let managed = world.make(new(Cascade::Keep)).await;
    let told = world.until_told(|specs| specs.len() == 1).await;
    assert_eq!(content(&told).unwrap().pull_secrets, None);
    let mut other = spec(Cascade::Keep);
    other.content.labels.insert("tier".to_owned(), "gold".to_owned());
    other.content.pull_secrets = Some(vec!["registry".to_owned()]);
    let change = |content: &NamespaceContent| ManagedNamespaceChange {
        description: Some("ours".to_owned()),
        spec: ManagedNamespaceSpecChange {
            labels: Some(content.labels.clone()),
            pull_secrets: content.pull_secrets.clone(),
            ..ManagedNamespaceSpecChange::default()
        },
        service: Change::Keep,
    };
    let managed = world.change(&managed, change(&other.content)).await;
    assert_eq!(managed.description.as_deref(), Some("ours"));
    let next = world.until_told(|specs| content(specs) == Some(&other.content)).await;
    assert!(next[0].sequence > told[0].sequence && next[0].revision_id != told[0].revision_id);
    // What is so already is no news.
    let managed = world.change(&managed, change(&other.content)).await;
    assert_eq!(managed.spec, other);
    let managed = world.change(&managed, ManagedNamespaceChange::default()).await;
    assert_eq!((&managed.spec, managed.description.as_deref()), (&other, Some("ours")));
    eventually(async || if world.get(&managed).await.spread { Ok(()) } else { Err("not yet") }).await;
    assert_eq!(world.until_told(|specs| specs.len() == 1).await[0].sequence, next[0].sequence);
    // An account that had pull secrets is told that it has none.
    let none = NamespaceContent { pull_secrets: Some(Vec::new()), ..other.content };
    let managed = world.change(&managed, change(&none)).await;
    assert_eq!(managed.spec.content.pull_secrets, Some(Vec::new()));
    world.until_told(|specs| content(specs).is_some_and(|it| it.pull_secrets == Some(Vec::new()))).await;
    world.door.stop().await;
}

async fn a_service_comes_with_it_and_goes(database: TestDatabase) {
    let mut world = World::new(database).await;
    let secrets = TemplateSecrets {
        configuration: Configuration::from([("key".to_owned(), "value".to_owned())]),
        ..TemplateSecrets::default()
    };
    let service = Some((Box::new(world.template()), secrets.clone()));
    let managed = world.make(NewManagedNamespace { service, ..new(Cascade::Detach) }).await;
    let told = world.until_told(|specs| specs.len() == 2 && specs[0].artifact_digest.is_some()).await;
    assert_eq!((told[0].name.as_str(), told[0].namespace.as_str()), ("team-a-core", "team-a"));
    assert_eq!(told[0].configuration.values["key"], "value");
    assert!(!told[0].sync_config.create_namespace, "that is what holds it does");
    let instances = world.instances(&managed).await;
    assert!(instances[0].holder.is_some() && instances[0].service.is_some());
    assert_eq!(world.counts(&managed).await, (1, 0, 0));
    world.says_well(&told[..1]).await;
    // One of the two is not enough.
    eventually(async || {
        let found = world.instances(&managed).await;
        let status = found[0].service.as_ref().map(|one| one.status);
        if status == Some(ServiceStatus::Healthy) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    assert_eq!(world.counts(&managed).await, (1, 0, 0));

    // Nobody sees what it spreads by.
    let (app, admin) = (&world.door.app, &world.door.admin);
    assert!(
        app.list::<GlobalService>(admin, &Search::default(), &PageArgs::default())
            .await
            .unwrap()
            .edges
            .is_empty()
    );
    let part = plural_app::global_service::GlobalServiceSelector::Id(managed.holder.unwrap());
    let hidden = app.global_service_delete(admin, &part).await;
    assert!(matches!(hidden, Err(Error::NotFound { .. })), "{hidden:?}");

    let change = |service| ManagedNamespaceChange { service, ..ManagedNamespaceChange::default() };
    let version = ServiceTemplate { version: Some("2.0.0".into()), ..world.template() };
    let managed = world.change(&managed, change(Change::Set((Box::new(version), secrets.clone())))).await;
    eventually(async || {
        let version = world.service(&told[0]).await.version;
        if version == "2.0.0" { Ok(()) } else { Err(version) }
    })
    .await;
    let renamed = ServiceTemplate { name: Some("other".into()), ..world.template() };
    let refused = change(Change::Set((Box::new(renamed), secrets)));
    let refused = app.managed_namespace_update(admin, &by(&managed), refused).await.unwrap_err();
    assert!(refused.to_string().contains("cannot change"), "{refused}");

    let managed = world.change(&managed, change(Change::Clear)).await;
    assert_eq!(managed.service, None);
    world.until_told(|specs| specs.len() == 1 && content(specs).is_some()).await;
    world.door.stop().await;
}

async fn a_deletion_waits_for_a_persons_word(database: TestDatabase) {
    let mut world = World::new(database).await;
    let managed = world.make(new(Cascade::Delete)).await;
    world.until_told(|specs| specs.len() == 1).await;
    let (app, admin) = (&world.door.app, &world.door.admin);
    app.managed_namespace_delete(admin, &by(&managed)).await.unwrap();
    let told =
        world.until_told(|specs| specs.iter().any(|it| it.intent == Intent::Destroy && it.cascaded)).await;
    let waiting = world.instances(&managed).await;
    assert_eq!(waiting[0].state(), ManagedNamespaceState::Waiting);
    assert_eq!(world.counts(&managed).await, (1, 0, 1));
    let refused = app.managed_namespace_update(admin, &by(&managed), ManagedNamespaceChange::default()).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");

    let service = world.service(&told[0]).await;
    app.service_delete(admin, &service_id(&service)).await.unwrap();
    let told = world.until_told(|specs| specs.iter().any(|spec| !spec.cascaded)).await;
    let gone = reported(&told[0], |said| said.destroyed = true);
    app.agent_report(&world.agent, report(1, vec![gone])).await.unwrap();
    world.until_gone(&managed).await;
    world.door.stop().await;
}

async fn a_cluster_that_goes_takes_its_own_along(database: TestDatabase) {
    let mut world = World::new(database).await;
    let managed = world.make(new(Cascade::Delete)).await;
    world.until_told(|specs| specs.len() == 1).await;
    world.door.app.cluster_detach(&world.door.admin, &by_id(&world.cluster)).await.unwrap();
    eventually(async || {
        let found = world.instances(&managed).await;
        if found.is_empty() { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
    world.door.app.managed_namespace_delete(&world.door.admin, &by(&managed)).await.unwrap();
    world.until_gone(&managed).await;
    world.door.stop().await;
}

async fn it_is_changed_through_itself_only(database: TestDatabase) {
    let mut world = World::new(database).await;
    world.make(new(Cascade::Keep)).await;
    let told = world.until_told(|specs| specs.len() == 1).await;
    let service = world.service(&told[0]).await;
    let (app, admin) = (&world.door.app, &world.door.admin);
    for refused in [
        app.service_delete(admin, &service_id(&service)).await.map(drop),
        app.service_detach(admin, &service_id(&service)).await.map(drop),
    ] {
        assert!(refused.unwrap_err().to_string().contains("managed namespace"));
    }
    let clone = plural_app::service_life::ServiceClone {
        name: "copy".parse().unwrap(),
        namespace: None,
        configuration: Configuration::default(),
    };
    let copied = app.service_clone(admin, &service_id(&service), &by_id(&world.cluster), clone).await;
    assert!(matches!(copied, Err(Error::Conflict { .. })), "{copied:?}");
    let global = NewGlobalService {
        name: "copies".parse().unwrap(),
        project_id: None,
        spec: GlobalServiceSpec::default(),
        source: GlobalServiceSource::Service(service.id),
    };
    let global = app.global_service_create(admin, global).await;
    assert!(matches!(global, Err(Error::Invalid { .. })), "{global:?}");
    // What it comes to can be looked at beforehand.
    let preview = app.service_preview(admin, &service_id(&service)).await.unwrap();
    assert_eq!(preview.objects[0].value["metadata"]["labels"]["team"], "a");
    let listed = app.list::<Service>(admin, &ServiceFilter::default(), &PageArgs::default()).await.unwrap();
    assert_eq!(listed.edges.len(), 1);
    world.door.stop().await;
}

async fn bad_input_is_refused_with_its_field(database: TestDatabase) {
    let mut world = World::new(database).await;
    let (app, admin) = (&world.door.app, &world.door.admin);
    let field = async |new: NewManagedNamespace| match app.managed_namespace_create(admin, new).await {
        Err(Error::Invalid { field, .. }) => field.into_owned(),
        other => panic!("{other:?}"),
    };
    let named = |name: &str| NewManagedNamespace { name: name.parse().unwrap(), ..new(Cascade::Keep) };
    assert_eq!(field(named("Not A Label")).await, "attributes.name");
    assert_eq!(field(named("kube-system")).await, "attributes.name");
    let namespace = Some("kube-public".parse().unwrap());
    assert_eq!(field(NewManagedNamespace { namespace, ..new(Cascade::Keep) }).await, "attributes.namespace");
    let mut labels = new(Cascade::Keep);
    labels.spec.content.labels.insert("no key".to_owned(), String::new());
    assert_eq!(field(labels).await, "attributes.labels");
    let mut secrets = new(Cascade::Keep);
    secrets.spec.content.pull_secrets = Some(vec!["NO".to_owned()]);
    assert_eq!(field(secrets).await, "attributes.pullSecrets");
    let mut described = new(Cascade::Keep);
    for text in ["x".repeat(5000), "no\0text".to_owned()] {
        described.description = Some(text);
        assert_eq!(field(described.clone()).await, "attributes.description");
    }
    let taken = ServiceTemplate { name: Some("team-a-namespace".into()), ..world.template() };
    let service = Some((Box::new(taken), TemplateSecrets::default()));
    assert_eq!(field(NewManagedNamespace { service, ..new(Cascade::Keep) }).await, "attributes.service.name");
    let unknown = NewManagedNamespace { project_id: Some(ProjectId::new()), ..new(Cascade::Keep) };
    let unknown = app.managed_namespace_create(admin, unknown).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");

    world.make(new(Cascade::Keep)).await;
    let twice = app.managed_namespace_create(admin, new(Cascade::Keep)).await;
    assert!(matches!(twice, Err(Error::Conflict { .. })), "{twice:?}");
    world.door.stop().await;
}
