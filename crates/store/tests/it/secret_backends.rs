//! Where projects keep their secret values: moves between backends, killed at every step; backends on bad days; what is left behind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use plural_app::cluster::CreatedCluster;
use plural_app::ctx::Clock;
use plural_app::ports::key_encryption::LocalKey;
use plural_app::ports::secret_backend::{KeeperError, ObjectName, SecretKeeper};
use plural_app::seal::{SealStore as _, SealedColumn};
use plural_app::secret_backend::SecretBackendStore as _;
use plural_core::cluster::Cluster;
use plural_core::ids::ProjectId;
use plural_core::project::Project;
use plural_core::secret_backend::SecretBackend;
use plural_core::service::{Configuration, ConfigurationEdit, Service, ServiceChange};
use plural_core::service_context::ServiceContextChange;
use plural_core::{Error, Result};
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait as _, Statement};
use secrecy::ExposeSecret as _;

use crate::agent::poll_until;
use crate::clock::Wrong;
use crate::data_keys::{copy_revisions, run};
use crate::door::{Door, KEY, Opening, by_id, new_service, service_id};
use crate::git::FakeGit;
use crate::key_rotation::killed_after;

each_database!(
    values_move_there_and_back_and_are_read_all_the_while,
    a_move_that_is_killed_at_every_step_loses_nothing,
    a_backend_on_bad_days_is_told_and_what_is_in_memory_bridges_it,
    what_a_deleted_project_left_in_a_backend_goes,
    an_object_goes_an_hour_after_it_was_found_unnamed,
    an_object_that_several_rows_name_goes_with_the_last,
    who_comes_too_late_with_the_row_of_an_object_is_refused,
    two_consoles_find_what_the_other_sealed_behind_a_move,
);

const HOUR: i64 = 3600;
const FINE: usize = 0;
const AWAY: usize = 1;
const REFUSING: usize = 2;
const LYING: usize = 3;
const EMPTY: usize = 4;
const HANGING: usize = 5;

/// A backend.
#[derive(Default)]
struct Shelf {
    mood: AtomicUsize,
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl Shelf {
    async fn check(&self) -> Result<(), KeeperError> {
        // Whoever is killed is killed here as well.
        tokio::task::yield_now().await;
        match self.mood.load(Ordering::Relaxed) {
            AWAY => Err(KeeperError::Unavailable("its own words".into())),
            REFUSING => Err(KeeperError::Refused("its own words".into())),
            HANGING => std::future::pending().await,
            _ => Ok(()),
        }
    }

    fn be(&self, mood: usize) {
        self.mood.store(mood, Ordering::Relaxed);
    }

    fn count(&self) -> usize {
        self.objects.lock().len()
    }
}

struct On(SecretBackend, Arc<Shelf>);

#[async_trait]
impl SecretKeeper for On {
    fn backend(&self) -> SecretBackend {
        self.0
    }

    fn largest(&self) -> usize {
        4096
    }

    async fn put(&self, name: &ObjectName, sealed: &[u8]) -> Result<(), KeeperError> {
        self.1.check().await?;
        self.1.objects.lock().insert(name.to_string(), sealed.to_vec());
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn get(&self, name: &ObjectName) -> Result<Option<Vec<u8>>, KeeperError> {
        self.1.check().await?;
        let found = self.1.objects.lock().get(&name.to_string()).cloned();
        Ok(match self.1.mood.load(Ordering::Relaxed) {
            LYING => Some(b"something else".to_vec()),
            EMPTY => None,
            _ => found,
        })
    }

    async fn delete(&self, name: &ObjectName) -> Result<(), KeeperError> {
        self.1.check().await?;
        self.1.objects.lock().remove(&name.to_string());
        Ok(())
    }
}

struct Bench {
    source: Arc<TestDatabase>,
    clock: Arc<Wrong>,
    git: Arc<FakeGit>,
    vault: Arc<Shelf>,
    kubernetes: Arc<Shelf>,
}

impl Bench {
    fn new(database: TestDatabase) -> Self {
        Self {
            source: Arc::new(database),
            clock: Arc::default(),
            git: Arc::default(),
            vault: Arc::default(),
            kubernetes: Arc::default(),
        }
    }

    async fn open(&self, replica: &str) -> Door {
        let backends: Vec<Arc<dyn SecretKeeper>> = vec![
            Arc::new(On(SecretBackend::Vault, Arc::clone(&self.vault))),
            Arc::new(On(SecretBackend::Kubernetes, Arc::clone(&self.kubernetes))),
        ];
        let opening = Opening {
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            keys: LocalKey::all(&KEY, &[]),
            secret_backends: backends,
            git: Arc::clone(&self.git),
            replica: replica.into(),
            ..Opening::default()
        };
        Door::open_as(Arc::clone(&self.source), opening).await
    }

    fn later(&self, seconds: i64) {
        self.clock.0.store(seconds, Ordering::Relaxed);
    }
}

fn password(value: &str) -> Configuration {
    Configuration::from([("password".to_owned(), value.to_owned())])
}

async fn service_with(door: &Door, value: &str) -> Service {
    service_on(door, &door.cluster("blue").await.cluster, value).await
}

async fn service_on(door: &Door, cluster: &Cluster, value: &str) -> Service {
    let repository = door.repository("https://example.com/a").await;
    let mut new = new_service(&repository, "web");
    new.configuration = password(value);
    door.app.service_create(&door.admin, &by_id(cluster), new).await.unwrap()
}

async fn write(door: &Door, service: &Service, value: &str) -> Result<()> {
    let configuration = Some(ConfigurationEdit::Replace(password(value)));
    let change = ServiceChange { configuration, ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(service), change).await.map(drop)
}

async fn read(door: &Door, service: &Service) -> Result<Configuration> {
    door.app.service_configuration(&door.admin, service.id).await
}

/// The agent, which renders, is sent the value.
async fn is_rendered_with(door: &Door, made: &CreatedCluster, value: &str) {
    let agent = door.app.agent_authenticate(made.deploy_token.expose_secret()).unwrap();
    let sent = poll_until(door, &agent, None, |answer| {
        answer.services.iter().any(|spec| spec.configuration == password(value))
    });
    assert_eq!(sent.await.services.len(), 1);
}

async fn waiting(door: &Door, project: ProjectId) -> u64 {
    door.app.secret_storage(&door.admin, project).await.unwrap().waiting()
}

/// The first bytes of configurations and seeds.
async fn versions(door: &Door) -> Vec<Vec<u8>> {
    let connection = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let sql = "SELECT substr(configuration, 1, 1) AS version FROM revisions \
               UNION SELECT substr(seed, 1, 1) AS version FROM services WHERE seed IS NOT NULL";
    let statement = Statement::from_string(connection.get_database_backend(), sql);
    let rows = connection.query_all_raw(statement).await.unwrap();
    let versions = rows.iter().map(|row| row.try_get("", "version").unwrap()).collect();
    connection.close().await.unwrap();
    versions
}

async fn values_move_there_and_back_and_are_read_all_the_while(database: TestDatabase) {
    let bench = Bench::new(database);
    let door = bench.open("one").await;
    let made = door.cluster("blue").await;
    let service = service_on(&door, &made.cluster, "hunter2-hunter2").await;
    let project = door.default_project().await.id;
    write(&door, &service, "hunter3-hunter3").await.unwrap();
    let mut seconds = 0;
    let fresh = async |door: Door| {
        drop(door);
        bench.open("one").await
    };
    let mut door = door;
    let way =
        [SecretBackend::Vault, SecretBackend::Kubernetes, SecretBackend::Vault, SecretBackend::Database];
    for to in way {
        let storage = door.app.secrets_move(&door.admin, project, to).await.unwrap();
        assert!(storage.backend == to && storage.waiting() > 0, "{storage:?}");
        assert_eq!(read(&door, &service).await.unwrap(), password("hunter3-hunter3"), "before it moves");
        // What is sealed from now on goes there at once.
        write(&door, &service, "hunter4-hunter4").await.unwrap();
        assert!(door.app.secrets_moved(project).await.unwrap() > 0);
        assert_eq!(waiting(&door, project).await, 0);
        door = fresh(door).await;
        assert_eq!(read(&door, &service).await.unwrap(), password("hunter4-hunter4"), "after it moved");
        is_rendered_with(&door, &made, "hunter4-hunter4").await;
        write(&door, &service, "hunter3-hunter3").await.unwrap();
        let version = if to == SecretBackend::Database { 2 } else { 3 };
        assert_eq!(versions(&door).await, [[version]], "in {to}");
        let held = door.app.secret_holdings(&door.admin, project, None).await.unwrap();
        assert!(
            held.holds_none() == Some(false) && held.holdings.iter().all(|held| held.backend == to),
            "{held:?}"
        );
        for object in bench.vault.objects.lock().values().chain(bench.kubernetes.objects.lock().values()) {
            assert!(!object.windows(6).any(|part| part == b"hunter"), "it is sealed there");
        }
        // Another data key seals what is there.
        door.app.project_keys_rotate(&door.admin, project).await.unwrap();
        assert_eq!(door.app.reseal().await.unwrap().failed, 0);
        assert_eq!(door.app.reseal().await.unwrap().done, 0, "nothing is left that the former key sealed");
        assert_eq!(waiting(&door, project).await, 0);
        door = fresh(door).await;
        assert_eq!(read(&door, &service).await.unwrap(), password("hunter3-hunter3"));
        // What no row names is there for an hour.
        door.app.secret_objects_collect().await.unwrap();
        seconds += HOUR + 60;
        bench.later(seconds);
        door.app.secret_objects_collect().await.unwrap();
        let kept = door.database.secrets_kept(project).await.unwrap();
        assert_eq!(kept.iter().map(|kept| kept.backend).collect::<Vec<_>>(), [to]);
        for (backend, shelf) in
            [(SecretBackend::Vault, &bench.vault), (SecretBackend::Kubernetes, &bench.kubernetes)]
        {
            assert_eq!(shelf.count() > 0, backend == to, "{backend} when all is in {to}");
        }
        door = fresh(door).await;
        assert_eq!(read(&door, &service).await.unwrap(), password("hunter3-hunter3"));
    }
    door.stop().await;
}

async fn a_move_that_is_killed_at_every_step_loses_nothing(database: TestDatabase) {
    let bench = Bench::new(database);
    let door = bench.open("one").await;
    let service = service_with(&door, "0").await;
    let project = door.default_project().await.id;
    for value in 0..5 {
        write(&door, &service, &value.to_string()).await.unwrap();
    }
    drop(door);
    let (mut last, mut finished, mut seconds) = (4, 0, 0);
    let steps = (0..40).chain((40..200).step_by(8)).chain((200..3000).step_by(200));
    for (round, polls) in steps.enumerate() {
        let door = bench.open("one").await;
        assert_eq!(read(&door, &service).await.unwrap(), password(&last.to_string()), "before round {round}");
        let to = SecretBackend::ALL[round % 3];
        if round.is_multiple_of(2) {
            door.app.secrets_move(&door.admin, project, to).await.unwrap();
        }
        let moves = killed_after(polls, async {
            let moved = door.app.secrets_moved(project).await;
            door.app.secret_objects_collect().await.and(moved)
        });
        let load = async {
            for value in last + 1..last + 3 {
                write(&door, &service, &value.to_string()).await.unwrap();
                assert_eq!(read(&door, &service).await.unwrap(), password(&value.to_string()));
            }
        };
        let (moved, ()) = tokio::join!(moves, load);
        last += 2;
        if let Some(moved) = moved {
            moved.unwrap();
            finished += 1;
        }
        seconds += HOUR / 2;
        bench.later(seconds);
    }
    assert!(finished > 0, "no round was long enough");

    // In the end everything is in the database, and nothing anywhere else.
    let door = bench.open("one").await;
    door.app.secrets_move(&door.admin, project, SecretBackend::Database).await.unwrap();
    door.app.secrets_moved(project).await.unwrap();
    assert_eq!((waiting(&door, project).await, versions(&door).await), (0, vec![vec![2]]));
    door.app.secret_objects_collect().await.unwrap();
    bench.later(seconds + HOUR + 60);
    door.app.secret_objects_collect().await.unwrap();
    assert_eq!((bench.vault.count(), bench.kubernetes.count()), (0, 0));
    assert_eq!(read(&door, &service).await.unwrap(), password(&last.to_string()));
}

async fn a_backend_on_bad_days_is_told_and_what_is_in_memory_bridges_it(database: TestDatabase) {
    let bench = Bench::new(database);
    let door = bench.open("one").await;
    let service = service_with(&door, "hunter2-hunter2").await;
    let project = door.default_project().await.id;

    // Nobody moves to a backend that does not work.
    for (at, mood) in [AWAY, REFUSING, LYING, EMPTY].into_iter().enumerate() {
        // One that did not answer is left alone for a while.
        bench.later(10 * i64::try_from(at).unwrap());
        bench.vault.be(mood);
        let refused = door.app.secrets_move(&door.admin, project, SecretBackend::Vault).await.unwrap_err();
        assert!(refused.to_string().contains("secret backend vault"), "{refused}");
        assert!(!refused.to_string().contains("its own words"), "{refused}");
        let storage = door.app.secret_storage(&door.admin, project).await.unwrap();
        assert_eq!((storage.backend, storage.waiting()), (SecretBackend::Database, 0));
    }
    bench.vault.be(FINE);
    bench.later(40);
    door.app.secrets_move(&door.admin, project, SecretBackend::Vault).await.unwrap();
    bench.vault.be(AWAY);
    assert!(matches!(door.app.secrets_moved(project).await, Err(Error::Unavailable { .. })));
    assert!(matches!(write(&door, &service, "another").await, Err(Error::Unavailable { .. })));
    assert_eq!(read(&door, &service).await.unwrap(), password("hunter2-hunter2"), "it did not move yet");
    bench.vault.be(FINE);
    bench.later(60);
    door.app.secrets_moved(project).await.unwrap();
    let large = write(&door, &service, &"x".repeat(5000)).await.unwrap_err();
    assert!(large.to_string().contains("too large"), "{large}");

    // What was read is used for an hour while nobody answers, and not at all once it refuses.
    bench.vault.be(AWAY);
    for seconds in [70, 500, 1800] {
        bench.later(seconds);
        assert_eq!(read(&door, &service).await.unwrap(), password("hunter2-hunter2"), "after {seconds} s");
    }
    bench.later(HOUR + 120);
    let told = read(&door, &service).await.unwrap_err();
    assert!(told.to_string().contains("does not answer"), "{told}");
    assert!(!told.to_string().contains("its own words"), "{told}");
    // Nor does it say that there is nothing.
    assert!(door.app.secret_holdings(&door.admin, project, None).await.is_err());
    bench.later(HOUR + 150);
    bench.vault.be(FINE);
    assert!(read(&door, &service).await.is_ok());
    // One that takes the request and says nothing holds up whoever comes first, and not for long.
    bench.vault.be(HANGING);
    bench.later(HOUR + 500);
    for _ in 0..20 {
        let answer = tokio::time::timeout(std::time::Duration::from_secs(10), read(&door, &service)).await;
        assert_eq!(answer.unwrap().unwrap(), password("hunter2-hunter2"));
    }
    bench.vault.be(FINE);
    bench.later(HOUR + 600);
    assert!(read(&door, &service).await.is_ok());
    bench.vault.be(REFUSING);
    bench.later(HOUR + 1000);
    assert!(read(&door, &service).await.unwrap_err().to_string().contains("refuses"));

    bench.vault.be(LYING);
    let told = read(&door, &service).await.unwrap_err();
    assert!(matches!(told, Error::Conflict { .. }), "{told:?}");
    assert!(told.to_string().contains("something else than was put"), "{told}");
    bench.vault.be(EMPTY);
    assert!(read(&door, &service).await.unwrap_err().to_string().contains("has no object"));
    bench.vault.be(FINE);
    assert_eq!(read(&door, &service).await.unwrap(), password("hunter2-hunter2"));
}

async fn what_a_deleted_project_left_in_a_backend_goes(database: TestDatabase) {
    let bench = Bench::new(database);
    let door = bench.open("one").await;
    let shop: Project = door.project("shop").await;
    door.app.secrets_move(&door.admin, shop.id, SecretBackend::Kubernetes).await.unwrap();
    let secrets = Some(password("hunter2-hunter2"));
    let change =
        ServiceContextChange { project_id: Some(shop.id), configuration: None, secrets, imports: None };
    let context = door.app.context_save(&door.admin, "network".parse().unwrap(), change).await.unwrap();
    assert_eq!(bench.kubernetes.count(), 1);
    door.app.context_delete(&door.admin, context.id).await.unwrap();
    door.app.project_delete(&door.admin, shop.id).await.unwrap();
    // One that is away keeps it until it answers.
    bench.kubernetes.be(AWAY);
    assert_eq!(door.app.secret_objects_collect().await.unwrap(), 0);
    bench.kubernetes.be(FINE);
    bench.later(10);
    assert_eq!(door.app.secret_objects_collect().await.unwrap(), 1);
    assert_eq!(bench.kubernetes.count(), 0);
}

async fn an_object_goes_an_hour_after_it_was_found_unnamed(database: TestDatabase) {
    let bench = Bench::new(database);
    let door = bench.open("one").await;
    let service = service_with(&door, "hunter2-hunter2").await;
    let project = door.default_project().await.id;
    door.app.secrets_move(&door.admin, project, SecretBackend::Vault).await.unwrap();
    door.app.secrets_moved(project).await.unwrap();
    let put = bench.vault.count();
    assert!(put > 0);
    // Nobody looked for hours: that an object was put long ago says nothing.
    bench.later(3 * HOUR);
    door.app.secrets_move(&door.admin, project, SecretBackend::Database).await.unwrap();
    door.app.secrets_moved(project).await.unwrap();
    assert_eq!(door.app.secret_objects_collect().await.unwrap(), 0);
    bench.later(4 * HOUR - 60);
    assert_eq!((door.app.secret_objects_collect().await.unwrap(), bench.vault.count()), (0, put));
    bench.later(4 * HOUR + 60);
    assert!(door.app.secret_objects_collect().await.unwrap() >= put as u64);
    assert_eq!(bench.vault.count(), 0);
    assert_eq!(read(&door, &service).await.unwrap(), password("hunter2-hunter2"));
}

/// Revisions have their values from one another, and so share an object: that some of them go, or are sealed anew, leaves that of the
/// others alone.
async fn an_object_that_several_rows_name_goes_with_the_last(database: TestDatabase) {
    let bench = Bench::new(database);
    let door = bench.open("one").await;
    let service = service_with(&door, "hunter2-hunter2").await;
    copy_revisions(&door, service.id, 2).await;
    let project = door.default_project().await.id;
    door.app.secrets_move(&door.admin, project, SecretBackend::Vault).await.unwrap();
    door.app.secrets_moved(project).await.unwrap();
    let put = bench.vault.count();
    assert_eq!(put, 2, "what three revisions have, and a seed");

    run(&door, "DELETE FROM revisions WHERE id NOT IN (SELECT revision_id FROM services)").await;
    assert_eq!(door.app.secret_objects_collect().await.unwrap(), 0);
    bench.later(3 * HOUR);
    assert_eq!(door.app.secret_objects_collect().await.unwrap(), 0);
    assert_eq!(bench.vault.count(), put);
    drop(door);
    // Nothing of it is in memory.
    let door = bench.open("two").await;
    assert_eq!(read(&door, &service).await.unwrap(), password("hunter2-hunter2"));

    copy_revisions(&door, service.id, 1).await;
    door.app.project_keys_rotate(&door.admin, project).await.unwrap();
    assert_eq!(door.app.reseal().await.unwrap().failed, 0);
    door.app.secret_objects_collect().await.unwrap();
    bench.later(6 * HOUR);
    assert!(door.app.secret_objects_collect().await.unwrap() >= put as u64, "those of the former key");
    assert!(bench.vault.count() > 0);
    drop(door);
    let door = bench.open("three").await;
    assert_eq!(read(&door, &service).await.unwrap(), password("hunter2-hunter2"));
}

/// A machine that slept between an object and its row, or a copy of a row from before: its object is gone by then.
async fn who_comes_too_late_with_the_row_of_an_object_is_refused(database: TestDatabase) {
    let bench = Bench::new(database);
    let door = bench.open("one").await;
    let service = service_with(&door, "hunter2-hunter2").await;
    let project = door.default_project().await.id;
    door.app.secrets_move(&door.admin, project, SecretBackend::Vault).await.unwrap();
    door.app.secrets_moved(project).await.unwrap();
    let configurations = async || {
        let step = door.database.sealed_elsewhere(
            SealedColumn::Configuration,
            project,
            SecretBackend::Database,
            None,
            100,
        );
        step.await.unwrap().found
    };
    let late = configurations().await.remove(0).sealed;
    write(&door, &service, "another").await.unwrap();
    run(&door, "DELETE FROM revisions WHERE id NOT IN (SELECT revision_id FROM services)").await;
    let deletes_at = async |hours: i64| {
        bench.later(hours * HOUR);
        door.app.secret_objects_collect().await.unwrap()
    };
    assert_eq!((deletes_at(2).await, deletes_at(4).await), (0, 1));

    let now = configurations().await.remove(0);
    let change = (now.clone(), late);
    let refused = door.database.sealed_replace(SealedColumn::Configuration, &[change]).await.unwrap_err();
    assert!(refused.to_string().contains("so long ago"), "{refused}");
    assert_eq!(configurations().await, [now], "nothing is written");
    assert_eq!(read(&door, &service).await.unwrap(), password("another"));
    // While a backend is away, what it is to delete is as good as gone.
    let late = configurations().await.remove(0).sealed;
    write(&door, &service, "third").await.unwrap();
    run(&door, "DELETE FROM revisions WHERE id NOT IN (SELECT revision_id FROM services)").await;
    bench.vault.mood.store(AWAY, Ordering::Relaxed);
    assert_eq!((deletes_at(6).await, deletes_at(8).await), (0, 0));
    bench.vault.mood.store(FINE, Ordering::Relaxed);
    let change = (configurations().await.remove(0), late);
    assert!(door.database.sealed_replace(SealedColumn::Configuration, &[change]).await.is_err());
    assert_eq!(deletes_at(9).await, 1);
    assert_eq!(read(&door, &service).await.unwrap(), password("third"));
}

async fn two_consoles_find_what_the_other_sealed_behind_a_move(database: TestDatabase) {
    let bench = Bench::new(database);
    let (one, other) = (bench.open("one").await, bench.open("other").await);
    let service = service_with(&one, "1").await;
    let project = one.default_project().await.id;
    // It looked up where the project keeps its values.
    write(&other, &service, "2").await.unwrap();
    one.app.secrets_move(&one.admin, project, SecretBackend::Vault).await.unwrap();
    one.app.secrets_moved(project).await.unwrap();
    assert_eq!(waiting(&one, project).await, 0);
    write(&other, &service, "3").await.unwrap();
    assert!(waiting(&one, project).await > 0, "it is told");
    assert_eq!(read(&one, &service).await.unwrap(), password("3"));
    bench.later(11);
    assert!(one.app.secrets_moved(project).await.unwrap() > 0);
    write(&other, &service, "4").await.unwrap();
    assert_eq!(waiting(&one, project).await, 0, "by then it has heard");
    assert_eq!(read(&one, &service).await.unwrap(), password("4"));
    assert_eq!(read(&other, &service).await.unwrap(), password("4"));
}
