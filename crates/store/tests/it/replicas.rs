//! Several consoles on one database: one leads, a fenced one writes nothing, and what a dead one did goes on.

use std::sync::Arc;
use std::time::Duration;

use plural_app::lease::Fence;
use plural_app::mirror::MirrorStore;
use plural_app::ports::agents::{AgentStore, FeedSubject};
use plural_app::replica::{Replica, ReplicaAddress, ReplicaBeat, ReplicaStore};
use plural_app::repository::{RepositorySelector, RepositoryStore};
use plural_core::Error;
use plural_core::ids::{ClusterId, ReplicaId};
use plural_core::repository::Repository;
use plural_core::service::Service;
use plural_testkit::{TestDatabase, each_database, one_database};

use crate::door::{Door, eventually};

each_database!(
    of_two_that_believe_they_lead_the_fenced_one_writes_nothing,
    a_lease_outlives_its_holder_no_longer_than_said,
    a_lease_that_was_given_back_is_free_at_once,
    a_console_that_stops_gives_everything_back,
    what_a_killed_console_did_goes_on_in_its_place,
    who_holds_an_agents_stream_is_known_while_alive,
    artifacts_that_something_names_are_never_collected,
    mirrors_are_shared_and_stay_while_their_repository_does,
    mirrors_that_are_not_needed_here_are_collected,
);

one_database!(
    postgres, "one process owns an SQLite file, and has everything in memory";
    wrong_passwords_count_on_every_replica,
    mirrors_whose_repositories_others_fetch_are_collected,
);

fn beat(place: &str, holds: Duration) -> ReplicaBeat {
    ReplicaBeat { id: ReplicaId::new(), place: place.into(), address: None, holds }
}

const LONG: Duration = Duration::from_hours(1);

fn name() -> Arc<str> {
    "a job".into()
}

async fn of_two_that_believe_they_lead_the_fenced_one_writes_nothing(database: TestDatabase) {
    let door = Door::new(database).await;
    let repository = door.repository("https://example.com/a").await;
    let (a, b) = (beat("a", Duration::ZERO), beat("b", LONG));
    door.database.replica_join(&a).await.unwrap();
    door.database.replica_join(&b).await.unwrap();
    let first = door.database.lease_acquire(&name(), a.id).await.unwrap().unwrap();
    // The first one's machine slept: nobody heard of it for longer than it said.
    let second = door.database.lease_acquire(&name(), b.id).await.unwrap().unwrap();
    assert!(second.epoch > first.epoch);
    // It wakes up and goes on writing.
    let before = door.database.fleet_load().await.unwrap().position;
    let write = || door.database.repository_moved(repository.id);
    let refused = first.clone().guard(write()).await.unwrap_err();
    assert!(matches!(&refused, Error::Conflict { .. }), "{refused}");
    assert_eq!(refused.to_string(), "another replica holds the lease \"a job\" by now: nothing was written");
    // Beside what was written before, which open transactions of other databases may still hide.
    let moved = async || {
        let events = door.database.feed_read(before).await.unwrap().events;
        events
            .iter()
            .filter(|event| matches!(event.subject, Some(FeedSubject::RepositoryMoved { .. })))
            .count()
    };
    assert_eq!(moved().await, 0);
    // Nor can it take anything away from the one that leads.
    door.database.lease_release(&first).await.unwrap();
    second.clone().guard(write()).await.unwrap();
    eventually(async || (moved().await == 1).then_some(())).await;
    // What it does for itself, outside of the lease, it may go on with.
    write().await.unwrap();
    // In a task of its own, too.
    let carried = first.guard(async { tokio::spawn(Fence::carried(async { Fence::current() })).await }).await;
    assert_eq!(carried.unwrap().map(|fence| fence.holder), Some(a.id));
}

async fn a_lease_outlives_its_holder_no_longer_than_said(database: TestDatabase) {
    let door = Door::new(database).await;
    let store = &door.database;
    let (mut a, b) = (beat("a", LONG), beat("b", LONG));
    store.replica_join(&a).await.unwrap();
    store.replica_join(&b).await.unwrap();
    let first = store.lease_acquire(&name(), a.id).await.unwrap().unwrap();
    assert_eq!(store.lease_acquire(&name(), b.id).await.unwrap(), None);
    let news = store.replica_beat(&a).await.unwrap();
    assert_eq!(news.held, std::slice::from_ref(&first));
    assert_eq!(news.alive.len(), 2);
    // Again to the same one: whatever it did before is fenced.
    let again = store.lease_acquire(&name(), a.id).await.unwrap().unwrap();
    assert!(again.epoch > first.epoch);
    a.holds = Duration::ZERO;
    store.replica_beat(&a).await.unwrap();
    let second = store.lease_acquire(&name(), b.id).await.unwrap().unwrap();
    assert!(second.epoch > again.epoch);
    a.holds = LONG;
    assert_eq!(store.replica_beat(&a).await.unwrap().held, []);
    assert_eq!(store.lease_acquire(&name(), a.id).await.unwrap(), None);
}

async fn a_lease_that_was_given_back_is_free_at_once(database: TestDatabase) {
    let door = Door::new(database).await;
    let store = &door.database;
    let (a, b) = (beat("a", LONG), beat("b", LONG));
    store.replica_join(&a).await.unwrap();
    store.replica_join(&b).await.unwrap();
    let first = store.lease_acquire(&name(), a.id).await.unwrap().unwrap();
    store.lease_release(&first).await.unwrap();
    assert!(store.lease_acquire(&name(), b.id).await.unwrap().is_some());
    // And all of one that ends.
    store.replica_leave(b.id).await.unwrap();
    assert!(store.lease_acquire(&name(), a.id).await.unwrap().is_some());
    let refused = first.guard(store.repository_notify(&[])).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{refused}");
}

async fn a_console_that_stops_gives_everything_back(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let repository = door.repository("https://example.com/a").await;
    let stranger = beat("elsewhere", LONG);
    door.database.replica_join(&stranger).await.unwrap();
    let names: Vec<Arc<str>> = vec!["sources".into(), "prune_feed".into(), "open_windows".into()];
    for name in &names {
        eventually(async || {
            let taken = door.database.lease_acquire(name, stranger.id).await.unwrap();
            if let Some(fence) = &taken {
                // Before the console asked for it.
                door.database.lease_release(fence).await.unwrap();
            }
            taken.is_none().then_some(())
        })
        .await;
    }
    let _ = repository;
    door.stop().await;
    for name in &names {
        assert!(door.database.lease_acquire(name, stranger.id).await.unwrap().is_some(), "{name} is stuck");
    }
}

async fn what_a_killed_console_did_goes_on_in_its_place(database: TestDatabase) {
    const URL: &str = "https://example.com/team/app";
    let mut door = Door::new(database).await;
    door.git.commit(URL, "c1", &[("web", "one")]);
    door.start();
    let repository = door.repository(URL).await;
    let selector = RepositorySelector::Id(repository.id);
    let pulled = async |door: &Door| {
        let found = door.app.get::<Repository>(&door.admin, &selector).await.map_err(|e| e.log_text())?;
        found.pulled_at.ok_or_else(|| format!("{found:?}"))
    };
    let first = eventually(async || pulled(&door).await).await;
    door.kill().await;
    // The next process of the same host and folder need not wait until the dead one counts as gone.
    let mut next = Door::open_on(
        Arc::clone(&door.source),
        &plural_store::DatabaseOptions::new(""),
        Arc::clone(&door.git),
    )
    .await;
    next.start();
    eventually(async || {
        let at = pulled(&next).await?;
        if at > first { Ok(()) } else { Err(format!("still {at}")) }
    })
    .await;
    next.stop().await;
}

async fn who_holds_an_agents_stream_is_known_while_alive(database: TestDatabase) {
    let door = Door::new(database).await;
    let store = &door.database;
    let address = ReplicaAddress { authority: "127.0.0.1:7001".into(), certificate: [7; 32] };
    let mut a = ReplicaBeat { address: Some(address.clone()), ..beat("a", LONG) };
    let b = beat("b", LONG);
    store.replica_join(&a).await.unwrap();
    store.replica_join(&b).await.unwrap();
    let (blue, red) = (ClusterId::new(), ClusterId::new());
    store.agent_streams_put(a.id, &[blue, red], &[]).await.unwrap();
    let at_a = Replica { id: a.id, place: "a".into(), address: Some(address) };
    assert_eq!(store.agent_stream(blue).await.unwrap(), Some(at_a.clone()));
    // The agent came back at another replica before the first one noticed that it was gone.
    store.agent_streams_put(b.id, &[blue], &[]).await.unwrap();
    store.agent_streams_put(a.id, &[], &[blue]).await.unwrap();
    assert_eq!(
        store.agent_stream(blue).await.unwrap(),
        Some(Replica { id: b.id, place: "b".into(), address: None })
    );
    assert_eq!(store.agent_stream(red).await.unwrap(), Some(at_a));
    a.holds = Duration::ZERO;
    store.replica_beat(&a).await.unwrap();
    assert_eq!(store.agent_stream(red).await.unwrap(), None);
    store.replica_leave(b.id).await.unwrap();
    assert_eq!(store.agent_stream(blue).await.unwrap(), None);
}

async fn wrong_passwords_count_on_every_replica(database: TestDatabase) {
    let mut first = Door::new(database).await;
    let mut second = Door::open(Arc::clone(&first.source)).await;
    first.start();
    second.start();
    for door in [&first, &second] {
        eventually(async || (door.app.replicas_alive().len() == 2).then_some(())).await;
    }
    let from = Some("192.0.2.7".parse().unwrap());
    let guess = async |door: &Door, password: &str| {
        let ctx = door.nobody().with_peer(from);
        door.app.session_create(&ctx, "root@example.com", password.to_owned().into()).await.map(drop)
    };
    for n in 0..5 {
        let refused = guess(if n % 2 == 0 { &first } else { &second }, "wrong").await.unwrap_err();
        assert!(matches!(refused, Error::Unauthenticated), "{refused}");
    }
    // Neither lets it in now, though each has seen fewer tries than it lets pass.
    for door in [&first, &second] {
        let refused = guess(door, "first password").await.unwrap_err();
        assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    }
    first.stop().await;
    second.stop().await;
}

async fn artifacts_that_something_names_are_never_collected(database: TestDatabase) {
    const URL: &str = "https://example.com/team/app";
    let mut door = Door::new(database).await;
    door.start();
    let made = door.cluster("blue").await;
    door.git.commit(URL, "c1", &[("web", "one")]);
    let repository = door.repository(URL).await;
    let web = door.service(&made.cluster, &repository, "web").await;
    let until = async |content: &str| {
        let wanted = crate::git::digest(content);
        eventually(async || {
            let found = door.app.get::<Service>(&door.admin, &crate::door::service_id(&web)).await.unwrap();
            (found.artifact_digest.as_deref() == Some(wanted.as_str())).then_some(())
        })
        .await;
        <[u8; 32]>::try_from(hex::decode(wanted).unwrap()).unwrap()
    };
    let one = until("one").await;
    door.git.commit(URL, "c2", &[("web", "two")]);
    door.app.repository_kick(&door.admin, repository.id).await.unwrap();
    let two = until("two").await;
    let stray = [9; 32];
    door.git.stored.lock().extend([one, two, stray]);
    // The older one is named by a revision, to which somebody may go back.
    assert_eq!(door.app.artifacts_collect(Duration::ZERO).await.unwrap(), 1);
    let left = door.git.stored.lock().clone();
    assert!(left.contains(&one) && left.contains(&two) && !left.contains(&stray));
    assert_eq!(door.app.artifacts_collect(Duration::ZERO).await.unwrap(), 0);
    door.stop().await;
}

async fn mirrors_are_shared_and_stay_while_their_repository_does(database: TestDatabase) {
    const URL: &str = "https://example.com/team/app";
    let mut door = Door::new(database).await;
    door.start();
    door.git.commit(URL, "c1", &[("web", "one")]);
    let repository = door.repository(URL).await;
    // Once this replica holds its lease.
    eventually(async || (door.app.mirrors_share().await.unwrap() == 1).then_some(())).await;
    assert_eq!(door.app.mirrors_share().await.unwrap(), 0, "what was shared a moment ago is new enough");
    let shared = door.database.mirror_shared(repository.id, &repository.url).await.unwrap().unwrap();
    assert_eq!((shared.references.as_str(), shared.bytes), ("c1", 64));
    let elsewhere = "https://example.com/another".parse().unwrap();
    assert_eq!(door.database.mirror_shared(repository.id, &elsewhere).await.unwrap(), None);
    // Long ago by now, and nothing is new: that is remembered.
    let long_ago = door.app.now() - chrono::TimeDelta::days(1);
    door.database.mirror_share(repository.id, &repository.url, None, long_ago).await.unwrap();
    assert_eq!(door.app.mirrors_share().await.unwrap(), 0);
    assert!(door.database.mirrors_shared().await.unwrap()[0].at > long_ago);

    let stray = [9; 32];
    door.git.stored.lock().extend(shared.pieces.iter().copied().chain([stray]));
    assert_eq!(door.app.artifacts_collect(Duration::ZERO).await.unwrap(), 1);
    assert!(!door.git.stored.lock().contains(&stray));
    door.app.repository_delete(&door.admin, repository.id).await.unwrap();
    assert_eq!(door.app.artifacts_collect(Duration::ZERO).await.unwrap(), 2);
    // Whoever was sharing it meanwhile finds it gone.
    door.database.mirror_share(repository.id, &repository.url, Some(&shared), door.app.now()).await.unwrap();
    assert!(door.database.mirrors_shared().await.unwrap().is_empty());
    door.stop().await;
}

/// How many of these mirrors on disk are removed, and which stay; each is given with how long it was of no use.
async fn mirrors_left(
    door: &Door,
    mirrors: [(plural_core::ids::RepositoryId, Duration); 2],
) -> (u64, Vec<plural_core::ids::RepositoryId>) {
    let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
    *door.git.mirrors.lock() = mirrors.into();
    let removed = door.app.mirrors_collect(day, hour).await.unwrap();
    let left = door.git.mirrors.lock().iter().map(|(id, _)| *id).collect();
    (removed, left)
}

async fn mirrors_that_are_not_needed_here_are_collected(database: TestDatabase) {
    const URL: &str = "https://example.com/team/app";
    let mut door = Door::new(database).await;
    door.start();
    let repository = door.repository(URL).await;
    let gone = plural_core::ids::RepositoryId::new();
    let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
    let mirrors = |unused: [Duration; 2]| [(repository.id, unused[0]), (gone, unused[1])];
    let collect = async |unused: [Duration; 2]| mirrors_left(&door, mirrors(unused)).await;
    // Its lease is this replica's as soon as that is known to be alive; then it is kept however long nobody asked.
    eventually(async || (collect([day * 2, Duration::ZERO]).await.0 == 0).then_some(())).await;
    assert_eq!(collect([day * 2, hour * 2]).await, (1, vec![repository.id]));
    assert_eq!(collect([hour, hour / 2]).await, (0, vec![repository.id, gone]));
    door.stop().await;
}

async fn mirrors_whose_repositories_others_fetch_are_collected(database: TestDatabase) {
    const URL: &str = "https://example.com/team/app";
    let mut door = Door::new(database).await;
    door.start();
    let repository = door.repository(URL).await;
    let gone = plural_core::ids::RepositoryId::new();
    let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
    let mirrors = |unused: [Duration; 2]| [(repository.id, unused[0]), (gone, unused[1])];
    let collect = async |unused: [Duration; 2]| mirrors_left(&door, mirrors(unused)).await;
    // Its lease is this replica's as soon as that is known to be alive.
    eventually(async || (collect([day * 2, Duration::ZERO]).await.0 == 0).then_some(())).await;
    // One of many others that are alive is chosen for it, sooner or later; then it goes, unless somebody asked for it.
    for n in 0..64 {
        door.database.replica_beat(&beat(&format!("other-{n}"), LONG)).await.unwrap();
    }
    let left = eventually(async || {
        door.database.replica_beat(&beat(&format!("other-{}", ReplicaId::new()), LONG)).await.unwrap();
        let (removed, left) = collect([day * 2, Duration::ZERO]).await;
        (removed == 1).then_some(left)
    })
    .await;
    assert_eq!(left, vec![gone]);
    assert_eq!(collect([hour, Duration::ZERO]).await.0, 0);
    door.stop().await;
}
