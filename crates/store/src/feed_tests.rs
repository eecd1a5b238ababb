//! Tests of the feed's rows.

use std::time::{Duration, Instant};

use plural_app::ports::agents::AgentStore as _;
use plural_testkit::{TestDatabase, each_database, eventually};
use sea_orm::Statement;
use sea_orm_migration::MigratorTrait as _;

use super::*;
use crate::DatabaseOptions;
use crate::migration::Migrator;

each_database!(
    events_of_the_previous_release_keep_their_fingerprints,
    a_reader_far_behind_reads_page_by_page,
    a_transaction_with_more_than_a_page_makes_readers_load_everything,
);

/// The columns that a release without kinds of work writes, but for the place.
#[derive(Clone, Copy)]
struct Old {
    cluster: Option<Uuid>,
    service: Option<Uuid>,
    repository: Option<Uuid>,
    kick: bool,
    at: DateTime<Utc>,
}

impl Old {
    /// The fingerprint as that release computes it.
    fn mark(self, place: u64) -> u64 {
        let Self { cluster, service, repository, kick, at } = self;
        let mut hash = Sha256::new_with_prefix(place.to_be_bytes());
        for id in [cluster, service, repository] {
            hash.update(id.unwrap_or_default().as_bytes());
        }
        hash.update([u8::from(kick)]);
        hash.update(at.timestamp_micros().to_be_bytes());
        u64::from_be_bytes(hash.finalize()[..8].try_into().unwrap()).max(1)
    }
}

async fn read(database: &Database, wanted: usize) -> Vec<FeedEvent> {
    // Other tests use the same server, and their transactions delay what can be read.
    eventually(Duration::from_secs(30), async || {
        let events = database.feed_read(0).await.map_err(|error| error.log_text())?.events;
        if events.len() < wanted { Err(format!("{events:?}")) } else { Ok(events) }
    })
    .await
}

async fn events_of_the_previous_release_keep_their_fingerprints(source: TestDatabase) {
    let (cluster, service, repository) = (Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7());
    let at = DateTime::from_timestamp_micros(1_750_000_000_123_456).unwrap();
    let none = Old { cluster: None, service: None, repository: None, kick: false, at };
    let of_service = Old { cluster: Some(cluster), service: Some(service), ..none };
    let of_repository = Old { repository: Some(repository), ..none };
    let rows = [
        of_service,
        Old { kick: true, ..of_service },
        Old { cluster: Some(cluster), ..none },
        of_repository,
        Old { kick: true, ..of_repository },
    ];
    let connection = sea_orm::Database::connect(source.url()).await.unwrap();
    let steps = Migrator::migrations().iter().position(|step| step.name() == "m0050_work").unwrap();
    Migrator::up(&connection, Some(u32::try_from(steps).unwrap())).await.unwrap();
    for Old { cluster, service, repository, kick, at } in rows {
        let sql =
            "INSERT INTO feed (cluster_id, service_id, repository_id, kick, at) VALUES ($1, $2, $3, $4, $5)";
        let values = [cluster.into(), service.into(), repository.into(), kick.into(), at.into()];
        let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
        connection.execute_raw(statement).await.unwrap();
    }
    connection.close().await.unwrap();

    let database = Database::open(&DatabaseOptions::new(source.url())).await.unwrap();
    let events = read(&database, rows.len()).await;
    for (event, row) in events.iter().zip(rows) {
        assert_eq!(event.mark, row.mark(event.position), "{event:?}");
    }
    let work = WorkRef { kind: WorkKind::Service, id: service };
    let cluster_id = ClusterId::from_uuid(cluster);
    let repository_id = RepositoryId::from_uuid(repository);
    let changed = |change| FeedSubject::Work { cluster_id, work, sequence: 0, change };
    let subjects = [
        changed(WorkChange::Changed),
        changed(WorkChange::Kicked),
        FeedSubject::Cluster { cluster_id },
        FeedSubject::Repository { repository_id },
        FeedSubject::RepositoryMoved { repository_id },
    ];
    assert!(events.iter().map(|event| event.subject).eq(subjects.map(Some)), "{events:?}");

    // What this release writes comes after them, and the previous one, beside it, computes the same of it.
    let moved = FeedSubject::Work { cluster_id, work, sequence: 7, change: WorkChange::Moved };
    let mut write = database.write().await.unwrap();
    write.publish_many(&[moved], at).await.unwrap();
    write.commit().await.unwrap();
    let all = read(&database, rows.len() + 1).await;
    let last = all.last().unwrap();
    assert_eq!((all.len(), last.subject), (rows.len() + 1, Some(moved)));
    assert!(last.position > events.last().unwrap().position);
    assert_eq!(last.mark, of_service.mark(last.position));
}

/// Events about as many services, each statement in a transaction of its own.
async fn write_many(source: &TestDatabase, transactions: &[usize]) {
    let connection = sea_orm::Database::connect(source.url()).await.unwrap();
    for count in transactions {
        let sql = format!(
            "INSERT INTO feed (cluster_id, service_id, kick, at) \
             WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count}) \
             SELECT $1, $2, false, $3 FROM n"
        );
        let values = [Uuid::now_v7().into(), Uuid::now_v7().into(), Utc::now().into()];
        let statement = Statement::from_sql_and_values(connection.get_database_backend(), sql, values);
        connection.execute_raw(statement).await.unwrap();
    }
    connection.close().await.unwrap();
}

async fn a_reader_far_behind_reads_page_by_page(source: TestDatabase) {
    let database = Database::open(&DatabaseOptions::new(source.url())).await.unwrap();
    let transactions = [9_000, 9_000, 9_000, 1];
    write_many(&source, &transactions).await;
    let all: usize = transactions.iter().sum();
    let (mut events, mut pages, mut after) = (Vec::new(), 0, 0);
    let started = Instant::now();
    while events.len() < all {
        assert!(started.elapsed() < Duration::from_secs(30), "{} events", events.len());
        let batch = database.feed_read(after).await.unwrap();
        assert!(!batch.truncated && batch.position >= after && batch.events.len() <= MOST);
        pages += usize::from(!batch.events.is_empty());
        events.extend(batch.events);
        after = batch.position;
    }
    assert!(pages >= 2, "{pages}");
    assert!(events.is_sorted_by_key(|event| event.position));
}

async fn a_transaction_with_more_than_a_page_makes_readers_load_everything(source: TestDatabase) {
    let database = Database::open(&DatabaseOptions::new(source.url())).await.unwrap();
    write_many(&source, &[MOST + 1]).await;
    if database.is_postgres() {
        // The place of all of them is one.
        eventually(Duration::from_secs(30), async || {
            let batch = database.feed_read(0).await.map_err(|error| error.log_text())?;
            if batch.truncated { Ok(()) } else { Err(format!("{} events", batch.events.len())) }
        })
        .await;
    } else {
        let batch = database.feed_read(0).await.unwrap();
        assert_eq!((batch.truncated, batch.events.len()), (false, MOST));
    }
}
