//! Policies: they are made and go with what they are of, and nobody gets past what decides about the thing.

use plural_app::agent::AgentReport;
use plural_app::agent_poll::PollAsked;
use plural_app::cluster::ClusterFilter;
use plural_app::project::ProjectSelector;
use plural_app::recording::{NewRecordingPolicy, RecordingsSelector};
use plural_app::records::Search;
use plural_app::repository::RepositorySelector;
use plural_app::service::ServiceFilter;
use plural_app::sync::PlanSelector;
use plural_app::sync_window::NewSyncWindow;
use plural_core::cluster::Cluster;
use plural_core::global_service::GlobalServiceSpec;
use plural_core::policy::{BindingSubject, BindingsChange, Policy, Role};
use plural_core::project::{NewProject, Project};
use plural_core::repository::Repository;
use plural_core::service::{Intent, Service};
use plural_core::sync_window::{SyncWindowKind, WindowRule};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;

use crate::agent::reported;
use crate::door::{Door, by_id, eventually, new_service, service_id, subject};
use crate::fleet::Fleet;

each_database!(
    policies_come_and_go_with_what_they_are_of,
    many_instances_get_their_policies,
    an_owner_of_the_project_cannot_rebind_an_agents_upgrade,
    two_replacements_at_once_leave_one_of_them,
    windows_are_those_of_the_whole_chain,
    a_role_without_read_shows_nothing,
);

fn read_by(subjects: &[BindingSubject]) -> BindingsChange {
    BindingsChange { read: Some(subjects.to_vec()), ..BindingsChange::default() }
}

async fn policies_come_and_go_with_what_they_are_of(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.policies_match_what_they_are_of().await;
    let ada = door.user("ada").await;
    let bindings = read_by(&[subject(&ada)]);
    let new = NewProject { bindings, ..NewProject::named("team".parse().unwrap()) };
    let team = door.app.project_create(&door.admin, &new).await.unwrap();
    let blue = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let web = door.service(&blue.cluster, &repository, "web").await;
    let mail = door.service(&blue.cluster, &repository, "mail").await;
    door.policies_match_what_they_are_of().await;

    door.app.service_detach(&door.admin, &service_id(&mail)).await.unwrap();
    door.policies_match_what_they_are_of().await;
    // A cluster without services goes at once, one that is detached takes its services along.
    let green = door.cluster("green").await;
    door.app.cluster_delete(&door.admin, &by_id(&green.cluster)).await.unwrap();
    let red = door.cluster("red").await;
    door.service(&red.cluster, &repository, "web").await;
    door.app.cluster_detach(&door.admin, &by_id(&red.cluster)).await.unwrap();
    door.policies_match_what_they_are_of().await;
    // One that drains goes with the last service that its agent destroyed.
    door.start();
    let agent = door.app.agent_authenticate(blue.deploy_token.expose_secret()).unwrap();
    door.app.cluster_delete(&door.admin, &by_id(&blue.cluster)).await.unwrap();
    door.policies_match_what_they_are_of().await;
    let spec = eventually(async || {
        let answer =
            door.app.agent_poll(&agent, &PollAsked::at(None)).await.map_err(|error| error.to_string())?;
        let found = answer.services.iter().find(|spec| spec.intent == Intent::Destroy).cloned();
        found.ok_or_else(|| format!("{answer:?}"))
    })
    .await;
    assert_eq!(spec.id, web.id);
    let services = vec![reported(&spec, |said| said.destroyed = true)];
    door.app.agent_report(&agent, AgentReport { id: 1, services, facts: None }).await.unwrap();
    assert!(door.app.get::<Cluster>(&door.admin, &by_id(&blue.cluster)).await.is_err());
    door.policies_match_what_they_are_of().await;
    // A project takes its bindings along.
    door.app.project_delete(&door.admin, team.id).await.unwrap();
    door.stop().await;
}

/// They are made in one statement for many, each on another cluster.
async fn many_instances_get_their_policies(database: TestDatabase) {
    let mut fleet = Fleet::new(database, &["a", "b", "c"]).await;
    let global = fleet.make(GlobalServiceSpec::default()).await;
    let instances = fleet.until_on(&global, &["a", "b", "c"]).await;
    fleet.door.policies_match_what_they_are_of().await;
    // What is bound on a cluster reaches its instance.
    let ada = fleet.door.user("ada").await;
    let id = instances[&fleet.id("b")].service_id;
    let selector = plural_app::service::ServiceSelector::Id(id);
    let as_ada = fleet.door.as_user(&ada).await;
    assert!(fleet.door.app.get::<Service>(&as_ada, &selector).await.is_err());
    let change = read_by(&[subject(&ada)]);
    fleet.door.app.binding_replace(&fleet.door.admin, fleet.id("b"), change).await.unwrap();
    assert_eq!(fleet.door.app.get::<Service>(&as_ada, &selector).await.unwrap().id, id);
    fleet.door.stop().await;
}

/// The upgrade of an agent belongs to administrators of the installation, whatever way its policy is reached by.
async fn an_owner_of_the_project_cannot_rebind_an_agents_upgrade(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let blue = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let service = door.service(&blue.cluster, &repository, "agent").await;
    let (owner, eve) = (door.user("owner").await, door.user("eve").await);
    let admins = BindingsChange { admin: Some(vec![subject(&owner)]), ..BindingsChange::default() };
    door.app.binding_replace(&door.admin, blue.cluster.project_id, admins).await.unwrap();
    let as_owner = door.as_user(&owner).await;
    let change = read_by(&[subject(&eve)]);
    door.app.binding_replace(&as_owner, service.id, change.clone()).await.unwrap();

    door.app.service_agent_upgrade(&door.admin, &service_id(&service), true).await.unwrap();
    let refused = door.app.binding_replace(&as_owner, service.id, BindingsChange::default()).await.err();
    assert!(matches!(refused, Some(Error::Forbidden { .. })), "{refused:?}");
    let rule = WindowRule::new(SyncWindowKind::Deny, "0 * * * *", 3600, "UTC").unwrap();
    let window = NewSyncWindow { name: None, rule, description: None };
    let refused = door.app.sync_window_create(&as_owner, service.id, window).await.err();
    assert!(matches!(refused, Some(Error::Forbidden { .. })), "{refused:?}");
    // Seen as before, by both ways.
    let policy = Policy::from(service.id);
    assert_eq!(door.app.binding_list(&as_owner, policy).await.unwrap().len(), 1);
    assert_eq!(door.app.bindings_list(&as_owner, &[policy]).await.unwrap()[&policy].len(), 1);
    assert!(door.app.service_plan(&as_owner, &service_id(&service), PlanSelector::Last).await.is_ok());
    // The binding that was there lets its subject read, and nothing else.
    let as_eve = door.as_user(&eve).await;
    assert!(door.app.get::<Service>(&as_eve, &service_id(&service)).await.is_ok());
    let refused = door.app.service_pause(&as_eve, &service_id(&service)).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    door.stop().await;
}

/// Each replaces whatever was there: the second of two must not leave what the first wrote.
async fn two_replacements_at_once_leave_one_of_them(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let blue = door.cluster("blue").await.cluster;
    let (ada, bob) = (door.user("ada").await, door.user("bob").await);
    let replace = async |user: &plural_core::user::User| {
        let change = read_by(&[subject(user)]);
        door.app.binding_replace(&door.admin, blue.id, change).await.unwrap();
    };
    for round in 0..20 {
        tokio::join!(replace(&ada), replace(&bob));
        let bound = door.app.binding_list(&door.admin, blue.id).await.unwrap();
        let bound: Vec<_> = bound.iter().map(|one| (one.binding.subject, one.binding.role)).collect();
        assert_eq!(bound.len(), 1, "round {round}: {bound:?}");
        assert!([subject(&ada), subject(&bob)].contains(&bound[0].0) && bound[0].1 == Role::Read);
    }
    door.stop().await;
}

/// A window of the project, the cluster or the service itself holds a commit back; one of something beside them does not.
async fn windows_are_those_of_the_whole_chain(database: TestDatabase) {
    const URL: &str = "https://example.com/a";
    let mut door = Door::new(database).await;
    door.start();
    let (blue, green) = (door.cluster("blue").await.cluster, door.cluster("green").await.cluster);
    let repository = door.repository(URL).await;
    let web =
        door.app.service_create(&door.admin, &by_id(&blue), new_service(&repository, "web")).await.unwrap();
    let beside = door.service(&green, &repository, "web").await;
    // All week: closed whenever the test runs.
    let rule = WindowRule::new(SyncWindowKind::Deny, "0 * * * *", 7 * 24 * 3600, "UTC").unwrap();
    let held = async |commit: &str| {
        door.git.commit(URL, commit, &[("web", commit)]);
        door.app.repository_kick(&door.admin, repository.id).await.unwrap();
        eventually(async || {
            let service = door.app.get::<Service>(&door.admin, &service_id(&web)).await.unwrap();
            match (&service.pin, service.message.as_deref()) {
                (Some(_), _) => Ok(true),
                (None, Some(message)) if message.contains(commit) => Ok(false),
                other => Err(format!("{other:?}")),
            }
        })
        .await
    };
    assert!(!held("c1").await, "the first commit goes on at once");
    let here: [Policy; 3] = [blue.project_id.into(), blue.id.into(), web.id.into()];
    let others: [Policy; 3] = [door.project("team").await.id.into(), green.id.into(), beside.id.into()];
    for (round, policy) in here.into_iter().chain(others).enumerate() {
        let new = NewSyncWindow { name: None, rule: rule.clone(), description: None };
        let window = door.app.sync_window_create(&door.admin, policy, new).await.unwrap();
        assert_eq!(held(&format!("w{round}")).await, round < here.len(), "{policy:?}");
        door.app.sync_window_delete(&door.admin, policy, window.id).await.unwrap();
        door.app.sync_windows_open().await.unwrap();
    }
    door.stop().await;
}

/// Who may read recordings and nothing else finds no project, cluster or service, neither in a list nor by its name.
async fn a_role_without_read_shows_nothing(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let blue = door.cluster("blue").await.cluster;
    let repository = door.repository("https://example.com/a").await;
    let service = door.service(&blue, &repository, "web").await;
    let (ada, bob) = (door.user("ada").await, door.user("bob").await);
    let readers = NewRecordingPolicy { users: vec![ada.email.to_string()], ..NewRecordingPolicy::default() };
    let set = door.app.recording_policy_set(&door.admin, &ProjectSelector::Default, readers).await.unwrap();
    assert_eq!(set.readers, [subject(&ada)]);
    let ada = door.as_user(&ada).await;
    let project = ProjectSelector::Id(blue.project_id);
    let (cluster, id) = (by_id(&blue), service_id(&service));
    let looked_up = [
        door.app.get::<Project>(&ada, &project).await.err(),
        door.app.get::<Cluster>(&ada, &cluster).await.err(),
        door.app.get::<Service>(&ada, &id).await.err(),
        door.app.get::<Repository>(&ada, &RepositorySelector::Id(repository.id)).await.err(),
        door.app.binding_list(&ada, blue.project_id).await.err(),
        door.app.recording_policy_get(&ada, &project).await.err(),
    ];
    for (number, refused) in looked_up.into_iter().enumerate() {
        assert!(matches!(refused, Some(Error::NotFound { .. })), "{number}: {refused:?}");
    }
    let all = PageArgs::default();
    assert!(door.app.list::<Project>(&ada, &Search::default(), &all).await.unwrap().edges.is_empty());
    assert!(door.app.list::<Cluster>(&ada, &ClusterFilter::default(), &all).await.unwrap().edges.is_empty());
    assert!(door.app.list::<Service>(&ada, &ServiceFilter::default(), &all).await.unwrap().edges.is_empty());
    assert!(door.app.list::<Repository>(&ada, &Search::default(), &all).await.unwrap().edges.is_empty());
    assert!(door.app.get_many::<Service>(&ada, &[service.id]).await.unwrap().is_empty());
    // Recordings she may read, and they are no binding that a replacement of the others takes away.
    let of = RecordingsSelector::Project(blue.project_id);
    door.app.recording_list(&ada, &of, &all).await.unwrap();
    let change = BindingsChange {
        read: Some(vec![subject(&bob)]),
        write: Some(Vec::new()),
        admin: Some(Vec::new()),
        ..Default::default()
    };
    door.app.binding_replace(&door.admin, blue.project_id, change).await.unwrap();
    door.app.recording_list(&ada, &of, &all).await.unwrap();
    let refused = door.app.recording_list(&door.as_user(&bob).await, &of, &all).await;
    assert!(matches!(refused, Err(Error::Forbidden { .. })), "{refused:?}");
    let again = door.app.recording_policy_get(&door.admin, &project).await.unwrap();
    assert_eq!(again.readers, set.readers);
    door.stop().await;
}
