//! Lines of the audit log go when they were kept long enough, and only the console's own key says so.

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use parking_lot::Mutex;
use plural_app::audit_chain::AuditChainStore as _;
use plural_app::ctx::{Clock, SystemClock};
use plural_app::ports::blobs::Blobs as _;
use plural_core::audit_chain::{AuditChain, AuditKey};
use plural_core::audit_expiry::{AuditExpired, ExpiredFloors};
use plural_core::audit_verify::AuditProblemKind as Kind;
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait, DatabaseConnection, Statement};
use uuid::Uuid;

use crate::audit_chain::{THIRD, filled, ids, problems, requests, sql, verified};
use crate::door::{Door, Opening};

each_database!(
    lines_expire_with_a_line_that_says_so,
    who_has_no_key_makes_no_line_look_expired,
    what_an_earlier_release_removed_is_taken_over_once,
);

/// Later than the machine's clock by so much.
struct Later(Mutex<TimeDelta>);

impl Clock for Later {
    fn now(&self) -> DateTime<Utc> {
        SystemClock.now() + *self.0.lock()
    }
}

async fn lines_expire_with_a_line_that_says_so(database: TestDatabase) {
    let clock = Arc::new(Later(Mutex::new(TimeDelta::zero())));
    let opening =
        Opening { clock: Arc::clone(&clock) as Arc<dyn Clock>, audit_days: Some(400), ..Opening::default() };
    let door = Door::open_as(Arc::new(database), opening).await;
    door.project("old").await;
    requests(&door, 3).await;
    door.app.audit_chain_all().await.unwrap();
    let signed = door.app.audit_checkpoint_now().await.unwrap().unwrap();
    let other = sea_orm::Database::connect(door.source.url()).await.unwrap();
    // Requests go after 30 days, changes after 400.
    for (days, rows) in [(31, "cluster_audit_rows"), (401, "audit_rows")] {
        *clock.0.lock() = TimeDelta::days(days);
        door.project(&format!("p{days}")).await;
        door.app.audit_chain_all().await.unwrap();
        assert!(door.app.audit_forget().await.unwrap() > 0);
        let of = "SELECT id FROM audit_batches WHERE sequence <= 2";
        let left = ids(&other, &format!("SELECT id FROM {rows} WHERE batch_id IN ({of})")).await;
        assert!(left.is_empty(), "{rows}: {left:?}");
        door.app.audit_chain_all().await.unwrap();
        let found = verified(&door, vec![signed.clone()], true).await;
        assert_eq!((found.unchained, found.problems.len()), (0, 0), "{found:?}");
    }
    // Each removal is told by a statement that the log's key signed, in the log and in the blob store.
    let chain = AuditChain::parse_key(&door.app.audit_public_key(&door.admin).unwrap()).unwrap();
    let said = expired_lines(&other).await;
    let statements: Vec<_> = said.iter().map(|name| AuditExpired::in_name(name).expect(name)).collect();
    assert!(statements.len() >= 2 && statements.iter().all(|one| one.is_of(&chain)), "{said:?}");
    assert!(!door.git.notes("audit-expiry", 10).await.unwrap().is_empty());
}

/// What lines of the log say of expiry, oldest first.
async fn expired_lines(other: &DatabaseConnection) -> Vec<String> {
    let sql = "SELECT target_name FROM audit_rows WHERE action = 'audit.expire' ORDER BY id";
    let statement = Statement::from_string(other.get_database_backend(), sql);
    let rows = other.query_all_raw(statement).await.unwrap();
    rows.iter().map(|row| row.try_get("", "target_name").unwrap()).collect()
}

async fn who_has_no_key_makes_no_line_look_expired(database: TestDatabase) {
    let clock = Arc::new(Later(Mutex::new(TimeDelta::zero())));
    let opening =
        Opening { clock: Arc::clone(&clock) as Arc<dyn Clock>, audit_days: Some(400), ..Opening::default() };
    let door = Door::open_as(Arc::new(database), opening).await;
    let chained = async |name: &str| {
        door.project(name).await;
        door.app.audit_chain_all().await.unwrap();
    };
    chained("one").await;
    assert_eq!(door.app.audit_forget().await.unwrap(), 0);
    *clock.0.lock() = TimeDelta::days(401);
    chained("two").await;
    assert!(door.app.audit_forget().await.unwrap() > 0);
    door.app.audit_chain_all().await.unwrap();
    chained("three").await;
    chained("four").await;
    assert_eq!(problems(&door).await, []);
    let other = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let [said] = <[String; 1]>::try_from(expired_lines(&other).await).unwrap();

    // Somebody removes a prefix of what is left and marks it: batch 2, where "two" is.
    let second = "(SELECT id FROM audit_batches WHERE sequence = 2)";
    assert!(sql(&other, &format!("DELETE FROM audit_rows WHERE batch_id = {second}")).await > 0);
    sql(&other, &format!("UPDATE audit_batches SET expired = true, list = NULL WHERE id = {second}")).await;
    let expired = (Kind::Expired, Some(2), None);
    assert_eq!(problems(&door).await, [expired]);

    // Each of these is written as a new line, which the console itself puts into the chain.
    let statement = AuditExpired::in_name(&said).unwrap();
    let words = "console up to batch 2, clusters up to batch 0";
    let edited = AuditExpired { console: 2, ..statement.clone() };
    let own = AuditKey::from_seed(&[9; 32]).unwrap();
    let floors = ExpiredFloors { console: 2, clusters: 0 };
    let head = door.database.audit_digest_at(None).await.unwrap().unwrap();
    let own = AuditExpired::sign(&own, floors, Vec::new(), head, door.app.now());
    let claimed = AuditExpired { key: statement.key.clone(), ..own.clone() };
    for forged in [words.to_owned(), edited.name(), own.name(), claimed.name(), said.clone()] {
        forge(&door, &other, &forged).await;
        door.app.audit_chain_all().await.unwrap();
        assert_eq!(problems(&door).await, [expired], "{forged}");
    }
    // The console's next removal does not answer for it either: it names what it did not remove.
    *clock.0.lock() = TimeDelta::days(1_000);
    chained("five").await;
    assert!(door.app.audit_forget().await.unwrap() > 0);
    door.app.audit_chain_all().await.unwrap();
    assert_eq!(problems(&door).await, [expired]);
    let last = expired_lines(&other).await.pop().unwrap();
    let last = AuditExpired::in_name(&last).unwrap();
    assert!(last.foreign == [2] && last.console > 2, "{last:?}");

    // The line itself is removed: it was in the chain. What it told is not told any more, but the blob store keeps it.
    sql(&other, "DELETE FROM audit_rows WHERE action = 'audit.expire'").await;
    let found = problems(&door).await;
    assert!(found.iter().any(|(kind, ..)| *kind == Kind::Removed), "{found:?}");
    assert!(found.iter().any(|(kind, ..)| *kind == Kind::Expired), "{found:?}");
    // A line without a signature is not taken over: the blob store knows that there were signed ones.
    forge(&door, &other, words).await;
    door.app.audit_chain_all().await.unwrap();
    door.app.audit_forget().await.unwrap();
    let found = problems(&door).await;
    assert!(found.iter().any(|(kind, ..)| *kind == Kind::Expired), "{found:?}");
}

/// A line about expiry by somebody who writes to the database.
async fn forge(door: &Door, other: &DatabaseConnection, name: &str) {
    let (id, request) = (Uuid::now_v7(), Uuid::now_v7());
    let of = |id: Uuid| {
        let hex = id.simple();
        if door.database.is_postgres() { format!("'{hex}'::uuid") } else { format!("X'{hex}'") }
    };
    let copy = format!(
        "INSERT INTO audit_rows (id, action, actor, target_noun, target_name, request_id, at, times) \
         SELECT {}, 'audit.expire', 'system', 'installation', '{name}', {}, at, times FROM audit_rows \
         ORDER BY id DESC LIMIT 1",
        of(id),
        of(request)
    );
    assert_eq!(sql(other, &copy).await, 1);
}

async fn what_an_earlier_release_removed_is_taken_over_once(database: TestDatabase) {
    let (door, other) = filled(database).await;
    // As that release did it: a batch without lines, and words without a signature.
    let first = "(SELECT id FROM audit_batches WHERE sequence = 1)";
    sql(&other, &format!("DELETE FROM audit_rows WHERE batch_id = {first}")).await;
    sql(&other, &format!("UPDATE audit_batches SET expired = true, list = NULL WHERE id = {first}")).await;
    forge(&door, &other, "console up to batch 1, clusters up to batch 0").await;
    door.app.audit_chain_all().await.unwrap();
    assert_eq!(problems(&door).await, [(Kind::Expired, Some(1), None)], "until a leader looked");
    door.app.audit_forget().await.unwrap();
    door.app.audit_chain_all().await.unwrap();
    assert_eq!(problems(&door).await, []);
    // The next one is not.
    sql(&other, &format!("DELETE FROM audit_rows WHERE batch_id = {THIRD}")).await;
    sql(&other, &format!("UPDATE audit_batches SET expired = true, list = NULL WHERE id = {THIRD}")).await;
    forge(&door, &other, "console up to batch 3, clusters up to batch 0").await;
    door.app.audit_chain_all().await.unwrap();
    door.app.audit_forget().await.unwrap();
    assert_eq!(problems(&door).await, [(Kind::Expired, Some(3), None)]);
}
