//! Rollback, release, pause, copies, and what is told of them.

use plural_app::service::ServiceSelector;
use plural_app::service_life::ServiceClone;
use plural_app::sync_window::NewSyncWindow;
use plural_core::revision::Revision;
use plural_core::service::{Configuration, PinUntil, Service, ServiceChange};
use plural_core::status::ServiceStatus;
use plural_core::sync_window::{SyncWindowKind, WindowRule};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use secrecy::ExposeSecret;

use crate::agent::poll_until;
use crate::door::{Door, by_id, eventually, new_service, service_id};
use crate::git::digest;

each_database!(
    a_rollback_stays_until_it_is_released,
    a_rollback_may_end_with_the_next_commit,
    one_may_stay_where_one_is,
    an_agent_hears_of_a_rollback_and_of_a_pause,
    a_copy_has_what_the_service_has,
    a_window_holds_commits_back_until_it_ends,
);

const URL: &str = "https://example.com/life";

async fn now(door: &Door, service: &Service) -> Service {
    door.app.get::<Service>(&door.admin, &service_id(service)).await.unwrap()
}

async fn revisions(door: &Door, service: &Service) -> Vec<Revision> {
    let page = door.app.service_revisions(&door.admin, service.id, &PageArgs::default()).await.unwrap();
    page.edges.into_iter().map(|edge| edge.node).collect()
}

/// Commits and waits until the service has a revision of it.
async fn commit(door: &Door, service: &Service, sha: &str, content: &str) {
    door.git.commit(URL, sha, &[("web", content)]);
    door.app.service_kick(&door.admin, &service_id(service)).await.unwrap();
    eventually(async || {
        let all = revisions(door, service).await;
        all.iter().any(|revision| revision.sha.as_deref() == Some(sha)).then_some(())
    })
    .await;
}

async fn deployed(door: &Door) -> Service {
    let made = door.cluster("blue").await;
    door.git.commit(URL, "c1", &[("web", "one")]);
    let repository = door.repository(URL).await;
    let mut new = new_service(&repository, "web");
    new.configuration = Configuration::from([("k".to_owned(), "v".to_owned())]);
    let service = door.app.service_create(&door.admin, &by_id(&made.cluster), new).await.unwrap();
    commit(door, &service, "c1", "one").await;
    commit(door, &service, "c2", "two").await;
    service
}

fn stands_at(service: &Service, content: &str) -> bool {
    service.artifact_digest.as_deref() == Some(digest(content).as_str())
}

fn of_commit<'r>(all: &'r [Revision], sha: &str) -> &'r Revision {
    all.iter().find(|revision| revision.sha.as_deref() == Some(sha)).unwrap()
}

async fn a_rollback_stays_until_it_is_released(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let service = deployed(&door).await;
    let selector = service_id(&service);
    let all = revisions(&door, &service).await;
    assert!(of_commit(&all, "c1").restorable && of_commit(&all, "c2").restorable, "{all:?}");
    assert_eq!(of_commit(&all, "c2").by.as_deref(), Some("system"));
    assert_eq!(all[0].by.as_deref(), Some("root@example.com"));

    let to = of_commit(&all, "c1").id;
    let back = door.app.service_rollback(&door.admin, &selector, to, PinUntil::Release).await.unwrap();
    assert!(stands_at(&back, "one"), "{back:?}");
    assert_eq!((back.revision_id, back.sha.as_deref()), (to, Some("c1")));
    let notes = door.app.service_errors(&door.admin, service.id).await.unwrap();
    assert!(notes[0].warning && notes[0].message.contains("pinned to revision"), "{notes:?}");

    // What comes from git waits, and is there to see.
    commit(&door, &service, "c3", "three").await;
    let held = now(&door, &service).await;
    assert!(stands_at(&held, "one"), "{held:?}");
    let all = revisions(&door, &service).await;
    assert_eq!(held.pin.as_ref().unwrap().newest, of_commit(&all, "c3").id);
    let change = ServiceChange { dry_run: Some(true), ..ServiceChange::default() };
    let refused = door.app.service_update(&door.admin, &selector, change).await;
    assert!(matches!(refused, Err(Error::Conflict { .. })), "{refused:?}");
    let change = ServiceChange { protect: Some(true), ..ServiceChange::default() };
    door.app.service_update(&door.admin, &selector, change).await.unwrap();
    assert!(door.app.service_delete(&door.admin, &selector).await.is_err());

    // Elsewhere among its revisions, then on to the newest.
    let to = of_commit(&all, "c2").id;
    let moved = door.app.service_rollback(&door.admin, &selector, to, PinUntil::Release).await.unwrap();
    assert!(stands_at(&moved, "two"), "{moved:?}");
    let free = door.app.service_release(&door.admin, &selector).await.unwrap();
    assert!(stands_at(&free, "three") && free.pin.is_none(), "{free:?}");
    assert_eq!(free.sha.as_deref(), Some("c3"));
    assert!(door.app.service_release(&door.admin, &selector).await.is_err());
    commit(&door, &service, "c4", "four").await;
    assert!(stands_at(&now(&door, &service).await, "four"));

    let events = door.app.service_events(&door.admin, service.id, &PageArgs::default()).await.unwrap();
    let actions: Vec<String> = events.edges.iter().map(|edge| edge.node.entry.action.to_string()).collect();
    for action in ["service.create", "service.revise", "service.rollback", "service.release"] {
        assert!(actions.iter().any(|found| found == action), "{action}: {actions:?}");
    }
    door.stop().await;
}

async fn a_rollback_may_end_with_the_next_commit(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let service = deployed(&door).await;
    let to = of_commit(&revisions(&door, &service).await, "c1").id;
    let selector = service_id(&service);
    door.app.service_rollback(&door.admin, &selector, to, PinUntil::NextCommit).await.unwrap();
    // The commit that was rolled back is not a new one.
    door.app.service_kick(&door.admin, &selector).await.unwrap();
    let fetches = door.git.fetches();
    eventually(async || (door.git.fetches() > fetches).then_some(())).await;
    assert!(stands_at(&now(&door, &service).await, "one"));
    commit(&door, &service, "c3", "three").await;
    let free = now(&door, &service).await;
    assert!(stands_at(&free, "three") && free.pin.is_none(), "{free:?}");
    door.stop().await;
}

async fn one_may_stay_where_one_is(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let service = deployed(&door).await;
    let selector = service_id(&service);
    let at = now(&door, &service).await.revision_id;
    door.app.service_rollback(&door.admin, &selector, at, PinUntil::Release).await.unwrap();
    commit(&door, &service, "c3", "three").await;
    assert!(stands_at(&now(&door, &service).await, "two"));
    assert!(stands_at(&door.app.service_release(&door.admin, &selector).await.unwrap(), "three"));
    // A revision of another service is none of this one's.
    let other = door.app.service_rollback(
        &door.admin,
        &selector,
        plural_core::ids::RevisionId::new(),
        PinUntil::Release,
    );
    assert!(matches!(other.await, Err(Error::NotFound { .. })));
    door.stop().await;
}

async fn an_agent_hears_of_a_rollback_and_of_a_pause(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let service = deployed(&door).await;
    let selector = service_id(&service);
    let made = door
        .app
        .cluster_token_rotate(&door.admin, &plural_app::cluster::ClusterSelector::Id(service.cluster_id))
        .await;
    let made = made.unwrap();
    let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let to = of_commit(&revisions(&door, &service).await, "c1").id;
    door.app.service_rollback(&door.admin, &selector, to, PinUntil::Release).await.unwrap();
    poll_until(&door, &agent, None, |answer| {
        answer.services.iter().any(|spec| {
            spec.revision_id == to
                && spec.artifact_digest.as_deref() == Some(digest("one").as_str())
                && !spec.paused
        })
    })
    .await;
    let paused = door.app.service_pause(&door.admin, &selector).await.unwrap();
    assert_eq!((paused.status, paused.paused), (ServiceStatus::Paused, true));
    let notes = door.app.service_errors(&door.admin, service.id).await.unwrap();
    assert!(notes[0].message.contains("until it is resumed"), "{notes:?}");
    poll_until(&door, &agent, None, |answer| answer.services.iter().any(|spec| spec.paused)).await;
    let resumed = door.app.service_resume(&door.admin, &selector).await.unwrap();
    assert_eq!((resumed.status, resumed.paused), (ServiceStatus::Stale, false));
    door.stop().await;
}

async fn a_copy_has_what_the_service_has(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let service = deployed(&door).await;
    let green = door.cluster("green").await;
    let clone = ServiceClone {
        name: "copy".parse().unwrap(),
        namespace: None,
        configuration: Configuration::from([("more".to_owned(), "w".to_owned())]),
    };
    let selector = ServiceSelector::Id(service.id);
    let copy =
        door.app.service_clone(&door.admin, &selector, &by_id(&green.cluster), clone.clone()).await.unwrap();
    assert_eq!((copy.cluster_id, copy.git.clone()), (green.cluster.id, service.git.clone()));
    let Configuration { values, .. } = door.app.service_configuration(&door.admin, copy.id).await.unwrap();
    assert_eq!((values["k"].as_str(), values["more"].as_str()), ("v", "w"));
    eventually(async || stands_at(&now(&door, &copy).await, "two").then_some(())).await;
    let twice = door.app.service_clone(&door.admin, &selector, &by_id(&green.cluster), clone).await;
    assert!(matches!(twice, Err(Error::Conflict { .. })), "{twice:?}");
    door.stop().await;
}

async fn a_window_holds_commits_back_until_it_ends(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let service = deployed(&door).await;
    let (on, selector) = (service.cluster_id, service_id(&service));
    // All week: closed whenever the test runs.
    let rule = WindowRule::new(SyncWindowKind::Deny, "0 * * * *", 7 * 24 * 3600, "Europe/Berlin").unwrap();
    let new = NewSyncWindow { name: None, rule, description: Some("freeze".to_owned()) };
    let window = door.app.sync_window_create(&door.admin, on, new).await.unwrap();
    assert_eq!(door.app.sync_window_list(&door.admin, on).await.unwrap(), std::slice::from_ref(&window));

    // It may get a name of its own among the windows of its cluster.
    let named = |name: &str| NewSyncWindow {
        name: Some(name.parse().unwrap()),
        rule: window.rule.clone(),
        description: window.description.clone(),
    };
    let app = &door.app;
    let other = app.sync_window_create(&door.admin, on, named("other")).await.unwrap();
    let taken = app.sync_window_update(&door.admin, on, window.id, named("other")).await;
    assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
    let taken = app.sync_window_create(&door.admin, on, named("other")).await;
    assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
    app.sync_window_delete(&door.admin, on, other.id).await.unwrap();
    let window = app.sync_window_update(&door.admin, on, window.id, named("freeze")).await.unwrap();
    assert_eq!(app.sync_window_list(&door.admin, on).await.unwrap(), std::slice::from_ref(&window));

    commit(&door, &service, "c3", "three").await;
    let held = now(&door, &service).await;
    assert!(stands_at(&held, "two"), "{held:?}");
    assert_eq!(held.pin.as_ref().unwrap().until, PinUntil::Window);
    let notes = door.app.service_errors(&door.admin, service.id).await.unwrap();
    assert!(notes[0].source == "window" && notes[0].message.contains("sync window \"freeze\""), "{notes:?}");
    // A person may let it go on all the same; the next commit waits again.
    assert!(stands_at(&door.app.service_release(&door.admin, &selector).await.unwrap(), "three"));
    commit(&door, &service, "c4", "four").await;
    assert!(stands_at(&now(&door, &service).await, "three"));
    assert!(door.app.sync_windows_open().await.is_ok());
    assert!(stands_at(&now(&door, &service).await, "three"));

    let other = service.id;
    assert!(
        door.app.sync_window_delete(&door.admin, other, window.id).await.is_err(),
        "another thing's window"
    );
    door.app.sync_window_delete(&door.admin, on, window.id).await.unwrap();
    door.app.sync_windows_open().await.unwrap();
    let free = now(&door, &service).await;
    assert!(stands_at(&free, "four") && free.pin.is_none(), "{free:?}");
    door.stop().await;
}
