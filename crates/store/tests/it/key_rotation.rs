//! Rotation of data keys: what is sealed anew, what dies in the middle of it, and when the former key goes.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use plural_app::data_key::DataKeyStore as _;
use plural_app::jobs::Resealed;
use plural_app::ports::key_encryption::LocalKey;
use plural_core::Error;
use plural_core::cluster::NewCluster;
use plural_core::data_key::KeyOwner;
use plural_core::service::{GitRef, PinUntil, ServiceChange};
use plural_testkit::{TestDatabase, each_database, eventually, one_database};
use sea_orm::{ConnectionTrait as _, Statement, TransactionTrait as _};

use crate::clock::Wrong;
use crate::data_keys::{
    HOUR, SECRET, by_clock, copy_revisions, others, password, read, run, service_with, versions, write,
};
use crate::door::{Door, KEY, service_id};
use crate::git::FakeGit;

each_database!(
    a_projects_key_seals_its_values_and_another_one_after_a_rotation,
    values_that_do_not_open_keep_no_others_from_being_sealed_anew,
    sealing_anew_takes_statements_in_proportion_to_the_values,
    of_several_rotations_at_once_none_fails_otherwise_than_by_a_conflict,
    keys_are_rotated_under_load_and_killed_at_every_step,
    a_project_gets_ten_other_keys_an_hour,
    values_whose_key_is_destroyed_are_not_copied,
);

one_database!(
    postgres, "Several releases run side by side on PostgreSQL alone: one console has a SQLite file for itself.";
    a_replica_that_remembers_another_key_seals_with_the_current_one,
    a_key_is_not_destroyed_beside_a_copy_of_what_it_sealed,
);

async fn a_projects_key_seals_its_values_and_another_one_after_a_rotation(database: TestDatabase) {
    let (clock, git) = (Arc::new(Wrong::default()), Arc::new(FakeGit::default()));
    let opening = by_clock(&clock, LocalKey::all(&KEY, &[]), &git);
    let door = Door::open_as(Arc::new(database), opening).await;
    let service = service_with(&door, SECRET).await;
    let project = door.default_project().await.id;
    assert_eq!((others(&door).await, versions(door.source.url()).await), (0, vec![vec![2]]));
    let shop = door.project("shop").await;
    let elsewhere = NewCluster { project_id: Some(shop.id), ..NewCluster::named("green".parse().unwrap()) };
    let elsewhere = door.app.cluster_create(&door.admin, elsewhere).await.unwrap().cluster;
    let repository = door.repository("https://example.com/b").await;
    door.service(&elsewhere, &repository, "web").await;
    let key_of =
        async |project| door.database.data_key_current(KeyOwner::Project(project)).await.unwrap().unwrap();
    let (first, other) = (key_of(project).await, key_of(shop.id).await);
    assert_ne!(first.key.id, other.key.id, "each project has its own");

    // Another key seals what comes, and the job seals what there is.
    let keys = door.app.project_keys_rotate(&door.admin, project).await.unwrap();
    let states: Vec<(bool, bool)> =
        keys.iter().map(|key| (key.retired_at.is_some(), key.destroyed_at.is_some())).collect();
    assert_eq!(states.iter().filter(|state| **state == (false, false)).count(), 2, "{keys:?}");
    let second = key_of(project).await;
    assert_ne!(first.key.id, second.key.id);
    assert_eq!(key_of(shop.id).await.key.id, other.key.id, "that of another project stays");
    assert!(others(&door).await > 0);
    assert_eq!(read(&door, service.id).await.unwrap(), password(SECRET));
    write(&door, &service, "another").await;
    let Resealed { done, failed } = door.app.reseal().await.unwrap();
    assert!(done > 0 && failed == 0, "{done}");
    assert_eq!(others(&door).await, 0);
    assert_eq!(read(&door, service.id).await.unwrap(), password("another"));

    // Who sealed with the first one a moment ago may not have stored that yet.
    assert!(door.database.data_key(first.key.id).await.unwrap().unwrap().wrapped.is_some());
    clock.0.store(HOUR + 60, Ordering::Relaxed);
    assert_eq!(door.app.reseal().await.unwrap(), Resealed::default());
    let destroyed = door.database.data_key(first.key.id).await.unwrap().unwrap();
    assert!(destroyed.wrapped.is_none() && destroyed.key.destroyed_at.is_some());
    assert_eq!(read(&door, service.id).await.unwrap(), password("another"));

    // What belongs to no project likewise.
    let before = door.database.data_key_current(KeyOwner::Installation).await.unwrap().unwrap();
    door.app.installation_keys_rotate(&door.admin).await.unwrap();
    let after = door.database.data_key_current(KeyOwner::Installation).await.unwrap().unwrap();
    assert_ne!(before.key.id, after.key.id);
    assert_eq!(door.app.reseal().await.unwrap().failed, 0);
    assert_eq!(others(&door).await, 0);
}

async fn values_that_do_not_open_keep_no_others_from_being_sealed_anew(database: TestDatabase) {
    let door = Door::new(database).await;
    let service = service_with(&door, SECRET).await;
    copy_revisions(&door, service.id, 249).await;
    // All but the last 50 are changed: nothing opens them.
    let damaged = if door.database.is_postgres() {
        "set_byte(configuration, 40, get_byte(configuration, 40) # 1)"
    } else {
        // SQLite changes no single byte: the last one is cut off.
        "CAST(substr(configuration, 1, length(configuration) - 1) AS blob)"
    };
    let first = "SELECT id FROM revisions ORDER BY id LIMIT 200";
    run(&door, &format!("UPDATE revisions SET configuration = {damaged} WHERE id IN ({first})")).await;
    let project = door.default_project().await.id;
    door.app.project_keys_rotate(&door.admin, project).await.unwrap();
    assert_eq!(door.app.reseal().await.unwrap().failed, 200, "all of them are counted");
    assert_eq!(others(&door).await, 200, "those behind them are sealed anew");
}

async fn sealing_anew_takes_statements_in_proportion_to_the_values(database: TestDatabase) {
    let door = Door::new(database).await;
    let service = service_with(&door, SECRET).await;
    let project = door.default_project().await.id;
    let mut took = Vec::new();
    for more in [999, 2000] {
        copy_revisions(&door, service.id, more).await;
        door.app.project_keys_rotate(&door.admin, project).await.unwrap();
        let before = door.database.statements();
        let Resealed { done, failed } = door.app.reseal().await.unwrap();
        assert!(done >= 1000 && failed == 0, "{done} {failed}");
        took.push(door.database.statements() - before);
        assert_eq!(others(&door).await, 0);
        // Nothing is left to do: two statements for 1 000 rows of a place, however many there are.
        let before = door.database.statements();
        assert_eq!(door.app.reseal().await.unwrap(), Resealed::default());
        let again = door.database.statements() - before;
        assert!(again < 100, "{again}");
    }
    // One for each value, three for a hundred of them, and some for each place.
    assert!(took[0] < 1200 && took[1] < 3450, "{took:?}");
}

async fn of_several_rotations_at_once_none_fails_otherwise_than_by_a_conflict(database: TestDatabase) {
    let door = Door::new(database).await;
    service_with(&door, SECRET).await;
    let project = door.default_project().await.id;
    let rotate = || door.app.project_keys_rotate(&door.admin, project);
    let rotated = futures::future::join_all([rotate(), rotate(), rotate(), rotate()]).await;
    assert!(rotated.iter().any(Result::is_ok), "{rotated:?}");
    for rotated in rotated {
        assert!(matches!(rotated, Ok(_) | Err(Error::Conflict { .. })), "{rotated:?}");
    }
}

async fn a_replica_that_remembers_another_key_seals_with_the_current_one(database: TestDatabase) {
    let source = Arc::new(database);
    let one = Door::open(Arc::clone(&source)).await;
    let service = service_with(&one, SECRET).await;
    let other = Door::open(source).await;
    // It remembers which key seals.
    write(&other, &service, "another").await;
    let project = one.default_project().await.id;
    one.app.project_keys_rotate(&one.admin, project).await.unwrap();
    let Resealed { done, failed } = other.app.reseal().await.unwrap();
    assert!(done > 0 && failed == 0, "{done} {failed}");
    assert_eq!(others(&one).await, 0);
    assert_eq!(other.app.reseal().await.unwrap(), Resealed::default());
}

/// Polls a future so often and no more: what it did not come to then, it never comes to, as if its process had died.
pub(crate) async fn killed_after<T>(polls: usize, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    let mut left = polls;
    std::future::poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        work.as_mut().poll(context).map(Some)
    })
    .await
}

async fn a_project_gets_ten_other_keys_an_hour(database: TestDatabase) {
    let (clock, git) = (Arc::new(Wrong::default()), Arc::new(FakeGit::default()));
    let door = Door::open_as(Arc::new(database), by_clock(&clock, LocalKey::all(&KEY, &[]), &git)).await;
    service_with(&door, "0").await;
    let (project, other) = (door.default_project().await.id, door.project("shop").await.id);
    // The project's first key is older than an hour, and does not count.
    clock.0.store(HOUR + 60, Ordering::Relaxed);
    for _ in 0..10 {
        door.app.project_keys_rotate(&door.admin, project).await.unwrap();
    }
    let refused = door.app.project_keys_rotate(&door.admin, project).await.unwrap_err();
    assert_eq!(refused.code(), plural_core::ErrorCode::Conflict, "{refused:?}");
    door.app.project_keys_rotate(&door.admin, other).await.unwrap();
    clock.0.store(2 * HOUR + 120, Ordering::Relaxed);
    door.app.project_keys_rotate(&door.admin, project).await.unwrap();
}

/// Both kinds of keys are replaced again and again, by a console that dies in the middle of it, while values are written and read.
async fn keys_are_rotated_under_load_and_killed_at_every_step(database: TestDatabase) {
    let (clock, git) = (Arc::new(Wrong::default()), Arc::new(FakeGit::default()));
    let source = Arc::new(database);
    let (one, other) = (KEY, [9; 32]);
    let open = async |round: usize| {
        let (first, second) = if round.is_multiple_of(2) { (one, other) } else { (other, one) };
        let keys = LocalKey::all(&first, &[second]);
        Door::open_as(Arc::clone(&source), by_clock(&clock, keys, &git)).await
    };
    let door = open(0).await;
    let service = service_with(&door, "0").await;
    let project = door.default_project().await.id;
    for value in 0..5 {
        write(&door, &service, &format!("{value}")).await;
    }
    drop(door);
    let mut last = 4;
    let mut finished = 0;
    // Every step at first, then more of them at a time.
    let steps = (0..40).chain((40..200).step_by(8)).chain((200..4000).step_by(200));
    for (round, polls) in steps.enumerate() {
        let door = open(round).await;
        assert_eq!(
            read(&door, service.id).await.unwrap(),
            password(&last.to_string()),
            "before round {round}"
        );
        if round.is_multiple_of(3) {
            // Ten times within an hour are allowed.
            clock.0.fetch_add(7 * 60, Ordering::Relaxed);
            door.app.project_keys_rotate(&door.admin, project).await.unwrap();
        }
        let rotate = killed_after(polls, door.app.reseal());
        let load = async {
            for value in last + 1..last + 4 {
                write(&door, &service, &value.to_string()).await;
                let now = read(&door, service.id).await;
                assert_eq!(now.unwrap(), password(&value.to_string()), "round {round}");
            }
        };
        let (rotated, ()) = tokio::join!(rotate, load);
        last += 3;
        if let Some(rotated) = rotated {
            assert_eq!(rotated.unwrap().failed, 0);
            finished += 1;
        }
        drop(door);
    }
    assert!(finished > 0, "no round was long enough");

    // In the end everything is sealed with what there is now, and the rest is gone.
    let door = open(0).await;
    assert_eq!(door.app.reseal().await.unwrap().failed, 0);
    assert_eq!(others(&door).await, 0);
    clock.0.fetch_add(2 * HOUR, Ordering::Relaxed);
    door.app.reseal().await.unwrap();
    assert!(door.database.data_keys_retired(door.app.now()).await.unwrap().is_empty());
    drop(door);
    let door = Door::open_as(source, by_clock(&clock, LocalKey::all(&one, &[]), &git)).await;
    assert_eq!(read(&door, service.id).await.unwrap(), password(&last.to_string()));
    let revisions =
        door.app.service_revisions(&door.admin, service.id, &plural_core::PageArgs::default()).await;
    assert!(revisions.unwrap().edges.len() > 1);
    assert_eq!(door.app.reseal().await.unwrap(), Resealed::default());
}

/// Whoever writes what they read finds that its key went in between. Copies of it would open for nobody.
async fn values_whose_key_is_destroyed_are_not_copied(database: TestDatabase) {
    let door = Door::new(database).await;
    let service = service_with(&door, SECRET).await;
    let git = |reference: &str| ServiceChange {
        git: Some(GitRef { reference: reference.to_owned(), folder: String::new(), files: Vec::new() }),
        ..ServiceChange::default()
    };
    let changed = async |reference: &str| {
        door.app.service_update(&door.admin, &service_id(&service), git(reference)).await
    };
    changed("one").await.unwrap();
    let before = versions(door.source.url()).await.len();
    run(&door, "UPDATE data_keys SET wrapped = NULL, destroyed_at = created_at").await;
    let refused = changed("two").await.unwrap_err();
    assert!(refused.to_string().contains("data key"), "{refused}");
    let page = plural_core::PageArgs::default();
    let revisions = door.app.service_revisions(&door.admin, service.id, &page).await.unwrap();
    let first = revisions.into_nodes().into_iter().map(|revision| revision.id).min().unwrap();
    let selector = service_id(&service);
    let back = door.app.service_rollback(&door.admin, &selector, first, PinUntil::Release).await;
    let refused = back.unwrap_err();
    assert!(refused.to_string().contains("data key"), "{refused}");
    assert_eq!(versions(door.source.url()).await.len(), before, "nothing is written");
}

/// A copy that was read before values were sealed anew, and is written after that: its key stays until that is sealed anew, too.
async fn a_key_is_not_destroyed_beside_a_copy_of_what_it_sealed(database: TestDatabase) {
    let (clock, git) = (Arc::new(Wrong::default()), Arc::new(FakeGit::default()));
    let opening = by_clock(&clock, LocalKey::all(&KEY, &[]), &git);
    let door = Door::open_as(Arc::new(database), opening).await;
    let service = service_with(&door, SECRET).await;
    let project = door.default_project().await.id;
    let first = door.database.data_key_current(KeyOwner::Project(project)).await.unwrap().unwrap().key.id;
    let is_there = async || door.database.data_key(first).await.unwrap().unwrap().wrapped.is_some();
    let columns = "service_id, version, configuration, created_at";
    run(&door, &format!("CREATE TABLE read_before AS SELECT {columns} FROM revisions")).await;
    door.app.project_keys_rotate(&door.admin, project).await.unwrap();
    assert!(door.app.reseal().await.unwrap().done > 0);
    clock.0.store(HOUR + 60, Ordering::Relaxed);

    let connection = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let backend = connection.get_database_backend();
    let copy = connection.begin().await.unwrap();
    copy.execute_unprepared("SELECT id FROM data_keys FOR KEY SHARE").await.unwrap();
    let insert =
        format!("INSERT INTO revisions (id, {columns}) SELECT gen_random_uuid(), {columns} FROM read_before");
    copy.execute_unprepared(&insert).await.unwrap();
    let commits = async {
        // It is not seen yet, so the key seems to be used by nothing.
        let waiting = "SELECT 1 AS one FROM pg_stat_activity WHERE datname = current_database() \
                       AND wait_event_type = 'Lock' LIMIT 1";
        eventually(Duration::from_secs(30), async || {
            let found = connection.query_one_raw(Statement::from_string(backend, waiting)).await.unwrap();
            found.map(drop).ok_or("nobody waits for it")
        })
        .await;
        copy.commit().await.unwrap();
    };
    let (resealed, ()) = tokio::join!(door.app.reseal(), commits);
    assert_eq!(resealed.unwrap(), Resealed::default());
    assert!(is_there().await, "something is sealed with it by now");

    assert!(door.app.reseal().await.unwrap().done > 0);
    assert_eq!(door.app.reseal().await.unwrap(), Resealed::default());
    assert!(!is_there().await);
    assert_eq!(read(&door, service.id).await.unwrap(), password(SECRET));
    connection.close().await.unwrap();
}
