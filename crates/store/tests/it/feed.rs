//! The feed: nothing skipped, nothing told twice for ever, old places answered with a snapshot.

use std::sync::Arc;

use chrono::{TimeDelta, Utc};
use plural_app::agent_poll::PollAsked;
use plural_app::fleet::FeedCursor;
use plural_app::ports::agents::AgentStore;
use plural_core::cluster::ClusterChange;
use plural_core::service::ServiceChange;
use plural_store::DatabaseOptions;
use plural_testkit::{TestDatabase, each_database, one_database};
use sea_orm::{ConnectionTrait as _, Statement};
use secrecy::ExposeSecret;
use uuid::Uuid;

use crate::agent::poll_until;
use crate::door::{Door, by_id, eventually, service_id};

one_database!(postgres, "one process owns an SQLite file"; two_consoles_tell_the_same);

each_database!(
    many_writers_at_once_lose_no_event,
    a_restart_keeps_cursors_good,
    a_restored_backup_starts_another_epoch,
    a_place_of_another_history_is_refused_however_late_the_feed_gets_there,
    a_pruned_feed_reloads_whoever_is_behind,
    an_event_of_a_kind_that_only_a_later_release_knows_is_skipped,
);

async fn two_consoles_tell_the_same(database: TestDatabase) {
    let mut first = Door::new(database).await;
    let mut second = Door::open(Arc::clone(&first.source)).await;
    first.start();
    second.start();
    let made = first.cluster("blue").await;
    let repository = first.repository("https://example.com/a").await;
    let token = made.deploy_token.expose_secret();
    let there = eventually(async || second.app.agent_authenticate(token).ok()).await;
    let mut hints = second.app.agent_hints(&there, None).unwrap();
    let service = first.service(&made.cluster, &repository, "web").await;
    let told = poll_until(&second, &there, None, |answer| answer.services.len() == 1).await;
    assert!(hints.next().await.is_some());
    // The agent moves to a console that may not have read as far: it is never told less.
    let here = first.app.agent_authenticate(token).unwrap();
    let answer = first.app.agent_poll(&here, &PollAsked::at(Some(&told.cursor))).await.unwrap();
    assert!(answer.services.is_empty() || answer.services[0].id == service.id);
    assert!(answer.forgotten.is_empty());
    first.stop().await;
    second.stop().await;
}

async fn many_writers_at_once_lose_no_event(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let mut cursor = door.app.agent_poll(&agent, &PollAsked::at(None)).await.unwrap().cursor;
    let mut writers = tokio::task::JoinSet::new();
    for i in 0..8 {
        let (app, admin, cluster, repository) =
            (Arc::clone(&door.app), door.admin.clone(), made.cluster.clone(), repository.clone());
        writers.spawn(async move {
            for j in 0..8 {
                let new = crate::door::new_service(&repository, &format!("s-{i}-{j}"));
                let service = app.service_create(&admin, &by_id(&cluster), new).await.unwrap();
                let change = ServiceChange { protect: Some(j % 2 == 0), ..ServiceChange::default() };
                app.service_update(&admin, &service_id(&service), change).await.unwrap();
            }
        });
    }
    // An agent that only ever asks for changes must end up with the latest of each.
    let mut known = std::collections::HashMap::new();
    let follow = async || {
        let answer =
            door.app.agent_poll(&agent, &PollAsked::at(Some(&cursor))).await.map_err(|e| e.log_text())?;
        assert!(!answer.snapshot, "64 services fit the log");
        for spec in answer.services {
            known.insert(spec.id, spec.sequence);
        }
        cursor = answer.cursor;
        let complete = known.len() == 64 && known.values().all(|sequence| *sequence >= 2);
        if complete { Ok(()) } else { Err(format!("{} services", known.len())) }
    };
    eventually(follow).await;
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    door.stop().await;
}

async fn a_restart_keeps_cursors_good(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let service = door.service(&made.cluster, &repository, "web").await;
    let mut door = door;
    door.start();
    let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let cursor = poll_until(&door, &agent, None, |answer| answer.services.len() == 1).await.cursor;
    door.stop().await;
    let second = Door::open(Arc::clone(&door.source)).await;
    let agent = second.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let answer = second.app.agent_poll(&agent, &PollAsked::at(Some(&cursor))).await.unwrap();
    assert_eq!(answer.cursor.epoch, cursor.epoch);
    assert!(!answer.snapshot || answer.services.iter().map(|s| s.id).eq([service.id]));
}

async fn a_place_of_another_history_is_refused_however_late_the_feed_gets_there(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let behind = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let other = Door::open(Arc::clone(&door.source)).await;
    let agent = other.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    // Two places, and each time this console gets there only with the poll that asks for it.
    for (name, is_ours) in [("web", false), ("api", true)] {
        other.service(&made.cluster, &repository, name).await;
        let told = other.app.agent_poll(&agent, &PollAsked::at(None)).await.unwrap().cursor;
        let mark = if is_ours { told.mark } else { told.mark ^ 1 };
        let cursor = FeedCursor { mark, ..told };
        let answer = door.app.agent_poll(&behind, &PollAsked::at(Some(&cursor))).await;
        assert_eq!(answer.is_ok(), is_ours, "{name}: {answer:?}");
    }
}

async fn a_restored_backup_starts_another_epoch(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let cursor = door.app.agent_poll(&agent, &PollAsked::at(None)).await.unwrap().cursor;
    let options = DatabaseOptions { renew_epoch: true, ..DatabaseOptions::new("") };
    let restored = Door::open_with(Arc::clone(&door.source), &options).await;
    let agent = restored.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let answer = restored.app.agent_poll(&agent, &PollAsked::at(Some(&cursor))).await.unwrap();
    assert!(answer.snapshot);
    assert_ne!(answer.cursor.epoch, cursor.epoch);
}

async fn a_pruned_feed_reloads_whoever_is_behind(database: TestDatabase) {
    let door = Door::new(database).await;
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let start = door.database.fleet_load().await.unwrap().position;
    // A replica that reads nothing for now, and an agent with a stream to it.
    let behind =
        if door.database.is_postgres() { Some(Door::open(Arc::clone(&door.source)).await) } else { None };
    let waiting = behind.as_ref().map(|behind| {
        let agent = behind.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
        let hints = behind.app.agent_hints(&agent, None).unwrap();
        (agent, hints)
    });
    let mut known = None;
    if let (Some(behind), Some((agent, _))) = (&behind, &waiting) {
        known = Some(behind.app.agent_poll(agent, &PollAsked::at(None)).await.unwrap().cursor);
    }
    let service = door.service(&made.cluster, &repository, "web").await;
    for i in 0..5 {
        let change = ClusterChange { version: Some(format!("1.{i}")), ..ClusterChange::default() };
        door.app.cluster_update(&door.admin, &by_id(&made.cluster), &change).await.unwrap();
    }
    let soon = Utc::now() + TimeDelta::hours(1);
    let removed = eventually(async || {
        let removed = door.database.feed_prune(soon, 2).await.unwrap();
        (removed > 0).then_some(removed)
    })
    .await;
    assert!(removed > 0);
    assert!(door.database.feed_read(start).await.unwrap().truncated);
    // This console has read nothing since it started: it loads everything and goes on.
    let mut door = door;
    door.start();
    let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let answer = poll_until(&door, &agent, None, |answer| answer.services.len() == 1).await;
    assert_eq!(answer.services[0].id, service.id);
    if let (Some(mut behind), Some((agent, mut hints))) = (behind, waiting) {
        let stood = known.as_ref().map_or(0, |cursor| cursor.sequence);
        behind.start();
        eventually(async || hints.next().await.is_some_and(|hint| hint.sequence > stood)).await;
        let answer = behind.app.agent_poll(&agent, &PollAsked::at(known.as_ref())).await.unwrap();
        assert_eq!(answer.services.iter().map(|told| told.id).collect::<Vec<_>>(), [service.id]);
        behind.stop().await;
    }
    door.stop().await;
}

async fn an_event_of_a_kind_that_only_a_later_release_knows_is_skipped(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let made = door.cluster("blue").await;
    let repository = door.repository("https://example.com/a").await;
    let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let later = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let sql = "INSERT INTO feed (cluster_id, service_id, kick, at, kind, change, work_sequence) \
               VALUES ($1, $2, $3, $4, 'later', 'turned', 1)";
    let values = [made.cluster.id.uuid().into(), Uuid::now_v7().into(), false.into(), Utc::now().into()];
    let statement = Statement::from_sql_and_values(later.get_database_backend(), sql, values);
    later.execute_raw(statement).await.unwrap();
    later.close().await.unwrap();
    let service = door.service(&made.cluster, &repository, "web").await;
    let answer = poll_until(&door, &agent, None, |answer| answer.services.len() == 1).await;
    assert_eq!(answer.services[0].id, service.id);
    // Its fingerprint counts: the release that knows it makes the same cursor.
    let again = door.app.agent_poll(&agent, &PollAsked::at(Some(&answer.cursor))).await.unwrap();
    assert!(again.services.is_empty() && again.forgotten.is_empty() && !again.snapshot);
    door.stop().await;
}
