//! Lines of the clusters' audit log on their way to the database.

use std::sync::Arc;

use plural_app::proxy::ProxyStore;
use plural_core::cluster_audit::ClusterAuditEntry;
use plural_core::ids::{ClusterId, RequestId, UserId};
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, SqliteTransactionMode, Statement, TransactionOptions,
    TransactionTrait as _,
};

use crate::door::{Door, eventually};

each_database!(
    more_lines_than_may_wait_are_stored_and_none_is_lost,
    a_database_that_takes_no_lines_is_named,
    any_number_of_lines_takes_few_statements,
);

fn line(door: &Door) -> ClusterAuditEntry {
    ClusterAuditEntry {
        cluster_id: ClusterId::new(),
        user_id: UserId::new(),
        actor: "ada@example.com".into(),
        impersonated: Some(
            plural_core::cluster_audit::Impersonated::new("ada@example.com", &["ops".to_owned()]).into(),
        ),
        address: None,
        token_id: None,
        method: "GET".into(),
        path: "/api/v1/namespaces/shop/pods".into(),
        response_code: 200,
        duration_ms: Some(1),
        received_bytes: 0,
        sent_bytes: 4096,
        request_id: RequestId::new(),
        recording_id: None,
        at: door.app.now(),
    }
}

/// Records lines until no more requests may begin, or there are so many; returns how many there are.
fn fill(door: &Door, most: usize) -> usize {
    let mut recorded = 0;
    while recorded < most && door.app.cluster_audit_ready().is_ok() {
        door.app.cluster_audit_record(line(door));
        recorded += 1;
    }
    recorded
}

async fn connect(door: &Door) -> DatabaseConnection {
    sea_orm::Database::connect(door.source.url()).await.unwrap()
}

async fn stored(other: &DatabaseConnection) -> usize {
    let sql = "SELECT COUNT(*) AS lines FROM cluster_audit_rows";
    let counted = Statement::from_string(other.get_database_backend(), sql);
    let row = other.query_one_raw(counted).await.unwrap().unwrap();
    usize::try_from(row.try_get::<i64>("", "lines").unwrap()).unwrap()
}

async fn more_lines_than_may_wait_are_stored_and_none_is_lost(database: TestDatabase) {
    const LINES: usize = 40_000;
    let mut door = Door::new(database).await;
    let other = connect(&door).await;
    // Nothing takes lines yet. Those of requests that are under way are taken all the same.
    let mut recorded = fill(&door, LINES);
    let refused = door.app.cluster_audit_ready().unwrap_err().to_string();
    assert!(refused.starts_with("more requests come than the audit log can record"), "{refused}");
    assert!(refused.contains(&format!("({recorded} lines wait)")), "{refused}");
    for _ in 0..1_000 {
        door.app.cluster_audit_record(line(&door));
    }
    recorded += 1_000;
    door.start();
    while recorded < LINES {
        eventually(async || door.app.cluster_audit_ready().map_err(|error| error.log_text())).await;
        recorded += fill(&door, LINES - recorded);
    }
    // A console that stops stores what is left.
    door.stop().await;
    assert_eq!(stored(&other).await, LINES);
}

async fn a_database_that_takes_no_lines_is_named(database: TestDatabase) {
    let mut door = Door::new(database).await;
    let other = connect(&door).await;
    let mut options = TransactionOptions::default();
    if !door.database.is_postgres() {
        options.sqlite_transaction_mode = Some(SqliteTransactionMode::Immediate);
    }
    // Somebody else's transaction holds up the log's table, or all of SQLite's file.
    let held = other.begin_with_options(options).await.unwrap();
    if door.database.is_postgres() {
        held.execute_unprepared("LOCK TABLE cluster_audit_rows IN EXCLUSIVE MODE").await.unwrap();
    }
    door.start();
    let mut recorded = 0;
    let refused = eventually(async || {
        // The writer takes some lines out of the queue before the database holds it up.
        recorded += fill(&door, usize::MAX);
        let refused = door.app.cluster_audit_ready().err().map(|error| error.to_string());
        refused.filter(|told| told.starts_with("the database does not take the lines of the audit log"))
    })
    .await;
    assert!(refused.ends_with("try again in a moment"), "{refused}");
    assert_eq!(stored(&connect(&door).await).await, 0);
    held.rollback().await.unwrap();
    eventually(async || door.app.cluster_audit_ready().map_err(|error| error.log_text())).await;
    door.stop().await;
    assert_eq!(stored(&other).await, recorded);
}

/// A statement's text is kept prepared on the connection: there are five, however many lines come together.
async fn any_number_of_lines_takes_few_statements(database: TestDatabase) {
    let door = Door::new(database).await;
    let other = connect(&door).await;
    let entries: Vec<_> = std::iter::repeat_with(|| line(&door)).take(2_000).collect();
    let store = Arc::clone(&door.database);
    let mut all = 0;
    for (lines, statements) in [(1, 2), (3, 4), (4, 2), (626, 7), (2_000, 5), (0, 0)] {
        let before = store.statements();
        store.cluster_audit_write(&entries[..lines]).await.unwrap();
        assert_eq!(store.statements() - before, statements, "{lines} lines");
        all += lines;
        assert_eq!(stored(&other).await, all);
    }
}
