//! Data keys of projects: what seals what, key management services on bad days, and what nobody opens any more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use chrono::DateTime;
use futures::TryStreamExt as _;
use parking_lot::Mutex;
use plural_app::ctx::Clock;
use plural_app::data_key::DataKeyStore as _;
use plural_app::jobs::Resealed;
use plural_app::ports::key_encryption::{ClearKey, KeyEncryption, KeyError, LocalKey, WrappedKey};
use plural_app::project::ProjectSelector;
use plural_app::recording::NewRecordingPolicy;
use plural_app::seal::{SealStore as _, SealedColumn};
use plural_core::cluster::NewCluster;
use plural_core::component::ComponentState;
use plural_core::data_key::KeyOwner;
use plural_core::ids::ServiceId;
use plural_core::policy::BindingsChange;
use plural_core::secret_holding::SecretKind;
use plural_core::service::{Configuration, ConfigurationEdit, Service, ServiceChange};
use plural_core::service_context::ServiceContextChange;
use plural_core::stack::{NewStack, StackTool};
use plural_core::stack_spec::StackSpec;
use plural_core::sync::{DriftKind, FieldChange, ReportedDrift, SyncReport};
use plural_core::{Error, PageArgs, Result};
use plural_store::{Database, DatabaseOptions};
use plural_testkit::{TestDatabase, each_database, one_database};
use sea_orm::{ConnectionTrait as _, Statement};

use crate::agent::{component, deployed, report, reported};
use crate::clock::Wrong;
use crate::door::{Door, KEY, Opening, by_id, new_service, service_id};
use crate::git::FakeGit;
use crate::recording::{begin, grant};

each_database!(
    a_service_that_does_not_answer_is_bridged_and_one_that_refuses_is_not,
    reports_go_on_while_no_key_opens,
    what_a_deleted_project_left_in_a_backup_opens_no_more,
    recordings_outlive_their_project_and_their_key_goes_with_the_last,
    the_console_says_what_secrets_it_holds,
    a_large_project_is_looked_into_by_several_requests,
);

one_database!(
    postgres, "Several releases run side by side on PostgreSQL alone: one console has a SQLite file for itself.";
    while_the_release_before_runs_values_are_sealed_as_it_reads_them,
    while_the_release_before_stacks_runs_there_are_none_and_no_key_is_replaced,
);

pub(crate) const SECRET: &str = "hunter2-hunter2";
pub(crate) const HOUR: i64 = 3600;

pub(crate) fn password(value: &str) -> Configuration {
    Configuration::from([("password".to_owned(), value.to_owned())])
}

pub(crate) async fn service_with(door: &Door, value: &str) -> Service {
    let cluster = door.cluster("blue").await.cluster;
    let repository = door.repository("https://example.com/a").await;
    let mut new = new_service(&repository, "web");
    new.configuration = password(value);
    door.app.service_create(&door.admin, &by_id(&cluster), new).await.unwrap()
}

pub(crate) async fn read(door: &Door, service: ServiceId) -> Result<Configuration> {
    door.app.service_configuration(&door.admin, service).await
}

pub(crate) async fn write(door: &Door, service: &Service, value: &str) {
    let configuration = Some(ConfigurationEdit::Replace(password(value)));
    let change = ServiceChange { configuration, ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(service), change).await.unwrap();
}

/// Values that another key sealed than that of their owner.
pub(crate) async fn others(door: &Door) -> usize {
    let mut others = 0;
    for column in SealedColumn::ALL {
        let mut after = None;
        loop {
            let step = door.database.sealed_otherwise(column, after, 100).await.unwrap();
            others += step.found.len();
            after = step.next;
            if after.is_none() {
                break;
            }
        }
    }
    others + door.database.pieces_otherwise(None, 100).await.unwrap().found.len()
}

pub(crate) async fn run(door: &Door, sql: &str) {
    let connection = sea_orm::Database::connect(door.source.url()).await.unwrap();
    connection.execute_raw(Statement::from_string(connection.get_database_backend(), sql)).await.unwrap();
    connection.close().await.unwrap();
}

/// The first bytes of all configurations.
pub(crate) async fn versions(url: &str) -> Vec<Vec<u8>> {
    let connection = sea_orm::Database::connect(url).await.unwrap();
    let sql = "SELECT substr(configuration, 1, 1) AS version FROM revisions ORDER BY id";
    let statement = Statement::from_string(connection.get_database_backend(), sql);
    let rows = connection.query_all_raw(statement).await.unwrap();
    let versions = rows.iter().map(|row| row.try_get("", "version").unwrap()).collect();
    connection.close().await.unwrap();
    versions
}

pub(crate) fn by_clock(clock: &Arc<Wrong>, keys: Vec<Arc<dyn KeyEncryption>>, git: &Arc<FakeGit>) -> Opening {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    Opening { clock, keys, git: Arc::clone(git), ..Opening::default() }
}

/// A key management service.
#[derive(Default)]
struct Kms {
    away: AtomicUsize,
    /// What it wrapped, and for what.
    known: Mutex<Vec<(String, [u8; 32])>>,
    calls: AtomicU64,
}

const FINE: usize = 0;
const AWAY: usize = 1;
const REFUSING: usize = 2;
const HANGING: usize = 3;

impl Kms {
    fn check(&self) -> Result<(), KeyError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.away.load(Ordering::Relaxed) {
            AWAY => Err(KeyError::Unavailable("it is away".into())),
            REFUSING => Err(KeyError::Refused("it says no".into())),
            _ => Ok(()),
        }
    }
}

#[async_trait]
impl KeyEncryption for Kms {
    fn name(&self) -> &'static str {
        "test-kms"
    }

    async fn wrap(&self, context: &str, key: &ClearKey) -> Result<WrappedKey, KeyError> {
        use secrecy::ExposeSecret as _;
        self.check()?;
        let mut known = self.known.lock();
        known.push((context.to_owned(), *key.expose_secret()));
        Ok(WrappedKey { bytes: (known.len() - 1).to_string().into_bytes(), version: Some("1".into()) })
    }

    async fn unwrap(&self, context: &str, wrapped: &[u8]) -> Result<ClearKey, KeyError> {
        self.check()?;
        if self.away.load(Ordering::Relaxed) == HANGING {
            std::future::pending::<()>().await;
        }
        let place = String::from_utf8(wrapped.to_vec()).unwrap().parse::<usize>().unwrap();
        let known = self.known.lock();
        let (of, key) = &known[place];
        if of == context {
            Ok(ClearKey::new(Box::new(*key)))
        } else {
            Err(KeyError::Refused("it is of another context".into()))
        }
    }

    async fn version(&self) -> Result<Option<String>, KeyError> {
        self.check()?;
        Ok(Some("1".into()))
    }
}

async fn a_service_that_does_not_answer_is_bridged_and_one_that_refuses_is_not(database: TestDatabase) {
    let (clock, git, kms) =
        (Arc::new(Wrong::default()), Arc::new(FakeGit::default()), Arc::new(Kms::default()));
    let keys = || vec![Arc::clone(&kms) as Arc<dyn KeyEncryption>];
    let source = Arc::new(database);
    let door = Door::open_as(Arc::clone(&source), by_clock(&clock, keys(), &git)).await;
    let service = service_with(&door, SECRET).await;
    assert!(door.app.canary_gate_path(&door.admin, &service_id(&service)).await.is_ok());
    let later = |seconds: i64| clock.0.store(seconds, Ordering::Relaxed);

    // Nobody asks it on the way.
    let calls = kms.calls.load(Ordering::Relaxed);
    for _ in 0..20 {
        assert_eq!(read(&door, service.id).await.unwrap(), password(SECRET));
        write(&door, &service, "another").await;
        write(&door, &service, SECRET).await;
    }
    assert_eq!(kms.calls.load(Ordering::Relaxed), calls);

    kms.away.store(AWAY, Ordering::Relaxed);
    for seconds in [299, 301, 1800, HOUR - 10] {
        later(seconds);
        assert_eq!(read(&door, service.id).await.unwrap(), password(SECRET), "after {seconds} s");
    }
    later(HOUR + 10);
    match read(&door, service.id).await {
        Err(error @ Error::Unavailable { .. }) => {
            assert!(error.to_string().contains("key management service"), "{error}");
            assert!(!error.to_string().contains("it is away"), "its words are for the log: {error}");
        }
        other => panic!("{other:?}"),
    }
    kms.away.store(FINE, Ordering::Relaxed);
    later(HOUR + 20);
    assert_eq!(read(&door, service.id).await.unwrap(), password(SECRET));

    // One that takes the request and says nothing holds up whoever comes first, and not for long.
    kms.away.store(HANGING, Ordering::Relaxed);
    let calls = kms.calls.load(Ordering::Relaxed);
    later(HOUR + 400);
    for _ in 0..20 {
        let answer = tokio::time::timeout(std::time::Duration::from_secs(20), read(&door, service.id)).await;
        assert_eq!(answer.unwrap().unwrap(), password(SECRET));
    }
    assert!(kms.calls.load(Ordering::Relaxed) - calls <= 2, "it is asked again and again");
    kms.away.store(FINE, Ordering::Relaxed);
    later(HOUR + 500);
    assert_eq!(read(&door, service.id).await.unwrap(), password(SECRET));

    // One that refuses is believed as soon as it is asked.
    kms.away.store(REFUSING, Ordering::Relaxed);
    later(HOUR + 700);
    assert!(read(&door, service.id).await.is_ok());
    later(HOUR + 900);
    assert!(matches!(read(&door, service.id).await, Err(Error::Internal { .. })));
    drop(door);

    // A console does not start without it, and says why; nor with another key.
    let start = async |keys| {
        let ports = by_clock(&clock, keys, &git);
        Door::try_open_as(Arc::clone(&source), ports).await.err().expect("it started")
    };
    assert!(start(keys()).await.to_string().contains("encryption key"));
    kms.away.store(AWAY, Ordering::Relaxed);
    assert!(matches!(start(keys()).await, Error::Unavailable { .. }));
    let another = start(LocalKey::all(&KEY, &[])).await;
    assert!(another.to_string().contains("encryption key"), "{another}");
    kms.away.store(FINE, Ordering::Relaxed);

    // From the service to a file: both are named, then the service is not needed any more.
    let both = LocalKey::all(&KEY, &[]).into_iter().chain(keys()).collect();
    let door = Door::open_as(Arc::clone(&source), by_clock(&clock, both, &git)).await;
    assert!(door.app.reseal().await.unwrap().done > 0);
    drop(door);
    kms.away.store(REFUSING, Ordering::Relaxed);
    let door = Door::open_as(source, by_clock(&clock, LocalKey::all(&KEY, &[]), &git)).await;
    assert_eq!(read(&door, service.id).await.unwrap(), password(SECRET));
}

async fn reports_go_on_while_no_key_opens(database: TestDatabase) {
    let (clock, git, kms) =
        (Arc::new(Wrong::default()), Arc::new(FakeGit::default()), Arc::new(Kms::default()));
    let keys = vec![Arc::clone(&kms) as Arc<dyn KeyEncryption>];
    let mut door = Door::open_as(Arc::new(database), by_clock(&clock, keys, &git)).await;
    door.start();
    let (agent, service, spec, _) = deployed(&door, "blue").await;
    let tell = async |number, drift: Vec<ReportedDrift>| {
        let said = reported(&spec, |said| {
            said.components = Some(vec![component(&format!("web-{number}"), ComponentState::Running)]);
            said.sync = SyncReport { drift, ..SyncReport::default() };
        });
        door.app.agent_report(&agent, report(number, vec![said])).await.unwrap();
        let components = door.app.service_components(&door.admin, service.id).await.unwrap();
        assert_eq!(components[0].key.name, format!("web-{number}"));
    };
    let drifted = |event: &str| ReportedDrift {
        event: event.to_owned(),
        object: "ConfigMap/apps/web".parse().unwrap(),
        at: DateTime::UNIX_EPOCH,
        kind: DriftKind::Repaired,
        fields: vec![FieldChange {
            path: "/data/replicas".to_owned(),
            before: Some("4".to_owned()),
            after: None,
            hidden: false,
            manager: None,
            written_at: None,
        }],
        what: None,
        count: 1,
    };
    let before = async |event: &str| {
        let page = door.app.service_drift(&door.admin, service.id, &PageArgs::default()).await.unwrap();
        let found = page.edges.into_iter().map(|edge| edge.node.told).find(|told| told.event == event);
        found.unwrap().fields[0].before.clone().unwrap()
    };
    tell(1, vec![drifted("known")]).await;
    assert_eq!(before("known").await, "4");

    kms.away.store(REFUSING, Ordering::Relaxed);
    clock.0.store(400, Ordering::Relaxed);
    assert!(read(&door, service.id).await.is_err());
    tell(2, Vec::new()).await;
    tell(3, vec![drifted("unknown")]).await;
    assert_eq!(before("unknown").await, "\"********\"", "what no key seals is not kept");

    kms.away.store(FINE, Ordering::Relaxed);
    clock.0.store(800, Ordering::Relaxed);
    tell(4, vec![drifted("later")]).await;
    assert_eq!((before("later").await, before("known").await), ("4".to_owned(), "4".to_owned()));
    door.stop().await;
}

async fn what_a_deleted_project_left_in_a_backup_opens_no_more(database: TestDatabase) {
    let source = Arc::new(database);
    let door = Door::open(Arc::clone(&source)).await;
    let shop = door.project("shop").await;
    let change = ServiceContextChange {
        project_id: Some(shop.id),
        configuration: None,
        secrets: Some(password(SECRET)),
        imports: None,
    };
    let context =
        door.app.context_save(&door.admin, "network".parse().unwrap(), change.clone()).await.unwrap();
    assert!(door.app.context_save(&door.admin, "network".parse().unwrap(), change.clone()).await.is_ok());
    for table in ["projects", "service_contexts"] {
        run(&door, &format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}")).await;
    }
    door.app.context_delete(&door.admin, context.id).await.unwrap();
    door.app.project_delete(&door.admin, shop.id).await.unwrap();
    let keys = door.database.data_keys_of(&[KeyOwner::Project(shop.id)]).await.unwrap();
    assert!(!keys.is_empty() && keys.iter().all(|key| key.destroyed_at.is_some()), "{keys:?}");
    // The rows of the backup are put back, as those of a table that was not collected yet would be there.
    run(&door, &format!("INSERT INTO projects SELECT * FROM kept_projects WHERE name = '{}'", shop.name))
        .await;
    run(&door, "INSERT INTO service_contexts SELECT * FROM kept_service_contexts").await;
    drop(door);
    let door = Door::open(source).await;
    let found = door.app.context_save(&door.admin, "network".parse().unwrap(), change).await;
    match found {
        Err(error @ Error::Internal { .. }) => {
            assert!(error.log_text().contains("was destroyed"), "{}", error.log_text());
        }
        other => panic!("{other:?}"),
    }
    // It says that there is something, and does not open it.
    let held = door.app.secret_holdings(&door.admin, shop.id, None).await.unwrap();
    assert_eq!(held.holdings.iter().map(|held| held.kind).collect::<Vec<_>>(), [SecretKind::ContextSecrets]);
}

async fn recordings_outlive_their_project_and_their_key_goes_with_the_last(database: TestDatabase) {
    let (clock, git) = (Arc::new(Wrong::default()), Arc::new(FakeGit::default()));
    let source = Arc::new(database);
    let opening = || by_clock(&clock, LocalKey::all(&KEY, &[]), &git);
    let door = Door::open_as(Arc::clone(&source), opening()).await;
    let shop = door.project("shop").await;
    let new = NewCluster { project_id: Some(shop.id), ..NewCluster::named("blue".parse().unwrap()) };
    let cluster = door.app.cluster_create(&door.admin, new).await.unwrap();
    let policy = NewRecordingPolicy { record: true, keep_days: Some(1), ..NewRecordingPolicy::default() };
    door.app.recording_policy_set(&door.admin, &ProjectSelector::Id(shop.id), policy).await.unwrap();
    let grant = grant(&door, &cluster).await;
    let (recorder, writer) = begin(&door.app, &grant).await.unwrap();
    let id = writer.id();
    drop(recorder);
    writer.run().await;
    door.app.cluster_detach(&door.admin, &by_id(&cluster.cluster)).await.unwrap();
    door.app.project_delete(&door.admin, shop.id).await.unwrap();
    let keys = async |owner| door.database.data_keys_of(&[owner]).await.unwrap();
    let of_project = keys(KeyOwner::Project(shop.id)).await;
    assert!(of_project.iter().all(|key| key.destroyed_at.is_some()), "{of_project:?}");
    let of_recordings = keys(KeyOwner::Recordings(shop.id)).await;
    assert!(!of_recordings.is_empty());
    assert!(of_recordings.iter().all(|key| key.destroyed_at.is_none()), "{of_recordings:?}");
    let read = async |door: &Door| {
        let (_, stream) = door.app.recording_read(&door.admin, id).await?;
        Ok::<_, Error>(stream.try_collect::<Vec<bytes::Bytes>>().await)
    };
    assert!(read(&door).await.unwrap().is_ok(), "what was recorded is not deleted with its project");

    // They go when their time is over, and with them what opens copies of their blobs.
    for table in ["recordings", "recording_pieces"] {
        run(&door, &format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}")).await;
    }
    clock.0.store(3 * 24 * HOUR, Ordering::Relaxed);
    assert_eq!(door.app.recordings_forget().await.unwrap(), 1);
    assert_eq!(door.database.data_keys_of_gone_destroy(door.app.now()).await.unwrap(), 1);
    for table in ["recordings", "recording_pieces"] {
        run(&door, &format!("INSERT INTO {table} SELECT * FROM kept_{table}")).await;
    }
    drop(door);
    let door = Door::open_as(source, opening()).await;
    assert!(!git.kept.lock().is_empty(), "the blobs are there");
    assert!(matches!(read(&door).await, Err(Error::Internal { .. })));
}

async fn the_console_says_what_secrets_it_holds(database: TestDatabase) {
    let door = Door::new(database).await;
    let project = door.default_project().await.id;
    let holdings = async || door.app.secret_holdings(&door.admin, project, None).await.unwrap();
    assert_eq!(holdings().await.holds_none(), Some(true));
    let cluster = door.cluster("blue").await.cluster;
    let repository = door.repository("https://example.com/a").await;
    let service = door.service(&cluster, &repository, "web").await;
    let found = holdings().await;
    assert_eq!(found.holds_none(), Some(true), "a seed is nobody's secret: {found:?}");
    assert_eq!(found.holdings.iter().map(|held| held.kind).collect::<Vec<_>>(), [SecretKind::Seeds]);
    // A reference is none either.
    let reference = "secret:db#password".parse().unwrap();
    let values = std::collections::BTreeMap::from([(
        "password".to_owned(),
        Some(plural_core::service::ConfigurationValue::Reference(reference)),
    )]);
    let change =
        ServiceChange { configuration: Some(ConfigurationEdit::Merge(values)), ..ServiceChange::default() };
    door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
    assert_eq!(holdings().await.holds_none(), Some(true));

    write(&door, &service, SECRET).await;
    let found = holdings().await;
    assert_eq!(found.holds_none(), Some(false));
    let held = found.holdings.iter().find(|held| held.kind == SecretKind::Configuration).unwrap();
    assert_eq!((held.values, held.things, held.names.as_slice()), (1, 1, &["blue/web".to_owned()][..]));
    assert!(!format!("{found:?}").contains(SECRET));
    // What is removed is held as long as the revisions that had it.
    let change = ServiceChange {
        configuration: Some(ConfigurationEdit::Replace(Configuration::default())),
        ..ServiceChange::default()
    };
    door.app.service_update(&door.admin, &service_id(&service), change).await.unwrap();
    assert_eq!(holdings().await.holds_none(), Some(false));
}

/// Copies the newest revision of a service until the project has so many more; sealed values are bound to the service.
pub(crate) async fn copy_revisions(door: &Door, service: ServiceId, more: usize) {
    let connection = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let backend = connection.get_database_backend();
    let columns = "service_id, version, configuration, created_at";
    let sql = format!(
        "INSERT INTO revisions (id, {columns}) SELECT $1, {columns} FROM revisions WHERE service_id = $2 LIMIT 1"
    );
    for _ in 0..more {
        let values: [sea_orm::Value; 2] = [uuid::Uuid::now_v7().into(), service.uuid().into()];
        connection.execute_raw(Statement::from_sql_and_values(backend, &sql, values)).await.unwrap();
    }
    connection.close().await.unwrap();
}

async fn a_large_project_is_looked_into_by_several_requests(database: TestDatabase) {
    let door = Door::new(database).await;
    let project = door.default_project().await.id;
    let cluster = door.cluster("blue").await.cluster;
    let repository = door.repository("https://example.com/a").await;
    for number in 0..50 {
        let mut new = new_service(&repository, &format!("web-{number}"));
        new.configuration = password(SECRET);
        let service = door.app.service_create(&door.admin, &by_id(&cluster), new).await.unwrap();
        copy_revisions(&door, service.id, 49).await;
    }
    let (mut after, mut values, mut things, mut answers) = (None::<String>, 0, 0, 0);
    loop {
        let found = door.app.secret_holdings(&door.admin, project, after.as_deref()).await.unwrap();
        answers += 1;
        for held in found.holdings.iter().filter(|held| held.kind == SecretKind::Configuration) {
            (values, things) = (values + held.values, things + held.things);
        }
        after = found.end_cursor;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((values, things), (50, 50));
    assert!((3..6).contains(&answers), "2 500 revisions in {answers} answers");
    for wrong in ["x", "9:00", "0:zz", "k0"] {
        let refused = door.app.secret_holdings(&door.admin, project, Some(wrong)).await;
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{wrong}: {refused:?}");
    }
}

async fn while_the_release_before_runs_values_are_sealed_as_it_reads_them(database: TestDatabase) {
    let (clock, git) = (Arc::new(Wrong::default()), Arc::new(FakeGit::default()));
    let source = Arc::new(database);
    let migrated = Database::open(&DatabaseOptions::new(source.url())).await.unwrap();
    migrated.close().await.unwrap();
    let connection = sea_orm::Database::connect(source.url()).await.unwrap();
    // Its heartbeat knows nothing of data keys.
    let alive =
        "INSERT INTO replicas (id, place, alive_until) VALUES (gen_random_uuid(), 'old', 9000000000000)";
    connection.execute_unprepared(alive).await.unwrap();
    connection.close().await.unwrap();

    let opening = || by_clock(&clock, LocalKey::all(&KEY, &[]), &git);
    let door = Door::open_as(Arc::clone(&source), opening()).await;
    let service = service_with(&door, SECRET).await;
    assert_eq!(versions(source.url()).await, [[1]]);
    assert_eq!(read(&door, service.id).await.unwrap(), password(SECRET));
    let project = door.default_project().await.id;
    let early = door.app.project_keys_rotate(&door.admin, project).await;
    assert!(matches!(early, Err(Error::Conflict { .. })), "{early:?}");
    assert_eq!(door.app.reseal().await.unwrap(), Resealed::default(), "nothing is moved either");
    assert_eq!(versions(source.url()).await, [[1]]);

    // It stops: what is written from then on has a data key, and the job gives one to the rest.
    run(&door, "UPDATE replicas SET alive_until = 0 WHERE place = 'old'").await;
    clock.0.store(60, Ordering::Relaxed);
    write(&door, &service, "another").await;
    assert_eq!(versions(source.url()).await, [[1], [2]]);
    assert!(door.app.reseal().await.unwrap().done > 0);
    assert_eq!(versions(source.url()).await, [[2], [2]]);
    assert_eq!(others(&door).await, 0);
    assert_eq!(read(&door, service.id).await.unwrap(), password("another"));
    // Once it is known that all is moved, nobody looks again.
    clock.0.store(HOUR, Ordering::Relaxed);
    door.app.reseal().await.unwrap();
    assert!(door.database.data_keys_everywhere().await.unwrap());
}

async fn while_the_release_before_stacks_runs_there_are_none_and_no_key_is_replaced(database: TestDatabase) {
    let door = Door::open_as(Arc::new(database), Opening::default()).await;
    let project = door.default_project().await.id;
    let stack = || NewStack {
        name: "infra".parse().unwrap(),
        tool: StackTool::Terraform,
        project_id: Some(project),
        protect: false,
        tags: BTreeMap::new(),
        source: None,
        follow: plural_core::stack::StackFollow::default(),
        spec: StackSpec::default(),
        environment: Vec::new(),
        files: BTreeMap::new(),
        bindings: BindingsChange::default(),
    };
    // It knows of data keys, and would destroy one though states of stacks are sealed with it.
    let alive = "INSERT INTO replicas (id, place, alive_until, data_keys, secret_backends) \
                 VALUES (gen_random_uuid(), 'old', 9000000000000, TRUE, TRUE)";
    run(&door, alive).await;
    let early = door.app.stack_create(&door.admin, stack()).await;
    assert!(matches!(early, Err(Error::Conflict { .. })), "{early:?}");
    let early = door.app.project_keys_rotate(&door.admin, project).await;
    assert!(matches!(early, Err(Error::Conflict { .. })), "{early:?}");

    // One that knows of stacks, and not of what is sealed for their runs, likewise.
    run(&door, "UPDATE replicas SET stacks = TRUE WHERE place = 'old'").await;
    let early = door.app.stack_create(&door.admin, stack()).await;
    assert!(matches!(early, Err(Error::Conflict { .. })), "{early:?}");
    let early = door.app.project_keys_rotate(&door.admin, project).await;
    assert!(matches!(early, Err(Error::Conflict { .. })), "{early:?}");

    run(&door, "UPDATE replicas SET alive_until = 0 WHERE place = 'old'").await;
    door.app.stack_create(&door.admin, stack()).await.unwrap();
    door.app.project_keys_rotate(&door.admin, project).await.unwrap();
}
