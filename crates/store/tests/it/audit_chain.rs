//! The chain of the audit log on both databases: what is done to its rows is found and named, whoever did it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::TryStreamExt as _;
use parking_lot::Mutex;
use plural_app::audit_chain::AuditChainStore as _;
use plural_app::audit_stream::AuditSink;
use plural_app::audit_verify::{AuditVerification, AuditVerify};
use plural_app::lease::Fence;
use plural_app::proxy::ProxyStore as _;
use plural_app::replica::{ReplicaBeat, ReplicaStore as _};
use plural_core::audit::AuditFilter;
use plural_core::audit_chain::{AuditChain, AuditCheckpoint, digest};
use plural_core::audit_verify::AuditProblemKind as Kind;
use plural_core::cluster_audit::ClusterAuditEntry;
use plural_core::ids::{ClusterId, ReplicaId, RequestId, UserId};
use plural_core::{Error, PageArgs};
use plural_testkit::{TestDatabase, each_database};
use sea_orm::{ConnectionTrait, DatabaseConnection, Statement};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::door::{Door, Opening, eventually};

each_database!(
    what_use_cases_write_is_in_the_chain_a_moment_later,
    writers_at_once_lose_nothing,
    what_is_done_to_a_line_is_named,
    what_is_done_to_a_batch_is_named,
    lines_of_no_batch_are_found_behind_many_others,
    a_cut_or_rewritten_chain_is_found_from_outside,
    a_replica_that_lost_its_lease_links_nothing_and_the_next_goes_on,
    lines_of_the_release_before_are_put_into_the_chain,
    a_stream_that_is_down_gets_everything_in_order_when_it_is_back,
    a_stream_that_hangs_does_not_hold_up_the_stop,
    what_a_stream_got_finds_a_chain_that_was_cut_or_written_anew,
    an_export_is_checked_by_its_text_alone,
    lines_tell_from_where_with_what_and_what_changed,
    lists_are_filtered,
);

fn request(door: &Door) -> ClusterAuditEntry {
    ClusterAuditEntry {
        cluster_id: ClusterId::new(),
        user_id: UserId::new(),
        actor: "ada@example.com".into(),
        impersonated: Some(
            plural_core::cluster_audit::Impersonated::new("ada@example.com", &["ops".to_owned()]).into(),
        ),
        address: Some("192.0.2.7".parse().unwrap()),
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

pub(crate) async fn requests(door: &Door, count: usize) {
    let entries: Vec<_> = std::iter::repeat_with(|| request(door)).take(count).collect();
    door.database.cluster_audit_write(&entries).await.unwrap();
}

/// A console with lines of both logs in three batches and one checkpoint.
pub(crate) async fn filled(database: TestDatabase) -> (Door, DatabaseConnection) {
    let door = Door::new(database).await;
    door.project("one").await;
    door.app.audit_chain_all().await.unwrap();
    requests(&door, 5).await;
    door.app.audit_chain_all().await.unwrap();
    for name in ["two", "three", "four"] {
        door.project(name).await;
    }
    door.app.audit_chain_all().await.unwrap();
    assert_eq!(problems(&door).await, []);
    let other = sea_orm::Database::connect(door.source.url()).await.unwrap();
    (door, other)
}

pub(crate) async fn verified(
    door: &Door,
    checkpoints: Vec<AuditCheckpoint>,
    blob_store: bool,
) -> AuditVerification {
    let verify = AuditVerify { after: 0, limit: 100, checkpoints, blob_store };
    let found = door.app.audit_verify(&door.admin, verify).await.unwrap();
    assert!(!found.more);
    found
}

pub(crate) async fn problems(door: &Door) -> Vec<(Kind, Option<u64>, Option<Uuid>)> {
    let found = verified(door, Vec::new(), false).await;
    found.problems.into_iter().map(|it| (it.kind, it.sequence, it.line)).collect()
}

pub(crate) async fn sql(other: &DatabaseConnection, sql: &str) -> u64 {
    let statement = Statement::from_string(other.get_database_backend(), sql);
    other.execute_raw(statement).await.unwrap().rows_affected()
}

pub(crate) async fn ids(other: &DatabaseConnection, sql: &str) -> Vec<Uuid> {
    let statement = Statement::from_string(other.get_database_backend(), sql);
    let rows = other.query_all_raw(statement).await.unwrap();
    rows.iter().map(|row| row.try_get("", "id").unwrap()).collect()
}

pub(crate) const THIRD: &str = "(SELECT id FROM audit_batches WHERE sequence = 3)";

async fn what_use_cases_write_is_in_the_chain_a_moment_later(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let project = door.project("shop").await;
    requests(&door, 3).await;
    eventually(async || {
        let found = verified(&door, Vec::new(), true).await;
        // The first checkpoint follows the first lines, and is compared with.
        if found.unchained == 0 && found.lines >= 5 && found.kept_outside >= 1 {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
    // A console that stops leaves nothing behind, and signs how far it went.
    door.project("last").await;
    door.stop().await;
    let found = verified(&door, Vec::new(), true).await;
    assert_eq!((found.unchained, found.problems.len()), (0, 0), "{found:?}");
    let signed = door.app.audit_checkpoint_list(&door.admin, 1).await.unwrap();
    assert_eq!(signed[0].sequence, found.sequence);
    assert_eq!(signed[0].digest, hex::encode(found.digest));
    assert!(project.id.uuid() != Uuid::nil());
}

async fn writers_at_once_lose_nothing(database: TestDatabase) {
    let mut door = Door::new(database).await;
    door.start();
    let writers = (0..6).map(|writer| {
        let door = &door;
        async move {
            for n in 0..5 {
                requests(door, 40).await;
                door.project(&format!("p-{writer}-{n}")).await;
            }
        }
    });
    futures::future::join_all(writers).await;
    door.stop().await;
    let found = verified(&door, Vec::new(), true).await;
    assert_eq!((found.unchained, found.problems.len()), (0, 0), "{found:?}");
    assert!(found.lines >= 6 * 5 * 41, "{found:?}");
}

async fn what_is_done_to_a_line_is_named(database: TestDatabase) {
    let (door, other) = filled(database).await;
    let lines = ids(&other, &format!("SELECT id FROM audit_rows WHERE batch_id = {THIRD} ORDER BY id")).await;
    let asked = ids(&other, "SELECT id FROM cluster_audit_rows ORDER BY id").await;
    assert_eq!((lines.len(), asked.len()), (3, 5));
    let is = |id: Uuid| {
        let hex = id.simple();
        if door.database.is_postgres() { format!("'{hex}'::uuid") } else { format!("X'{hex}'") }
    };
    // Each is undone before the next.
    let cases = [
        (
            format!("UPDATE audit_rows SET actor = 'eve' WHERE id = {}", is(lines[1])),
            format!("UPDATE audit_rows SET actor = 'root@example.com' WHERE id = {}", is(lines[1])),
            vec![(Kind::Edited, Some(3), Some(lines[1]))],
        ),
        (
            format!("UPDATE audit_rows SET address = '192.0.2.1' WHERE id = {}", is(lines[0])),
            format!("UPDATE audit_rows SET address = NULL WHERE id = {}", is(lines[0])),
            vec![(Kind::Edited, Some(3), Some(lines[0]))],
        ),
        (
            format!("UPDATE cluster_audit_rows SET path = '/' WHERE id = {}", is(asked[4])),
            format!(
                "UPDATE cluster_audit_rows SET path = '/api/v1/namespaces/shop/pods' WHERE id = {}",
                is(asked[4])
            ),
            vec![(Kind::Edited, Some(2), Some(asked[4]))],
        ),
        // It stands in another batch than it was put into.
        (
            format!(
                "UPDATE audit_rows SET batch_id = (SELECT id FROM audit_batches WHERE sequence = 1) WHERE id = {}",
                is(lines[2])
            ),
            format!("UPDATE audit_rows SET batch_id = {THIRD} WHERE id = {}", is(lines[2])),
            vec![(Kind::Inserted, Some(1), Some(lines[2])), (Kind::Removed, Some(3), Some(lines[2]))],
        ),
    ];
    for (change, undo, expected) in cases {
        assert_eq!(sql(&other, &change).await, 1, "{change}");
        assert_eq!(problems(&door).await, expected, "{change}");
        assert_eq!(sql(&other, &undo).await, 1, "{undo}");
        assert_eq!(problems(&door).await, [], "{undo}");
    }
    // Two lines that change places.
    for (from, to) in [(lines[0], "10"), (lines[1], "20")] {
        let id = if door.database.is_postgres() {
            format!("'00000000-0000-0000-0000-0000000000{to}'")
        } else {
            format!("X'000000000000000000000000000000{to}'")
        };
        sql(&other, &format!("UPDATE audit_rows SET id = {id} WHERE id = {}", is(from))).await;
    }
    for (from, to) in [("20", lines[0]), ("10", lines[1])] {
        let id = if door.database.is_postgres() {
            format!("'00000000-0000-0000-0000-0000000000{from}'")
        } else {
            format!("X'000000000000000000000000000000{from}'")
        };
        sql(&other, &format!("UPDATE audit_rows SET id = {} WHERE id = {id}", is(to))).await;
    }
    let moved = [(Kind::Edited, Some(3), Some(lines[0])), (Kind::Edited, Some(3), Some(lines[1]))];
    assert_eq!(problems(&door).await, moved);
    // One that goes, and one that comes.
    sql(&other, &format!("DELETE FROM cluster_audit_rows WHERE id = {}", is(asked[0]))).await;
    let found = problems(&door).await;
    assert!(found.contains(&(Kind::Removed, Some(2), Some(asked[0]))), "{found:?}");
    let inserted = Uuid::now_v7();
    let copy = format!(
        "INSERT INTO audit_rows (id, action, actor, target_noun, target_name, request_id, at, times, batch_id) \
         SELECT {}, action, actor, target_noun, target_name, request_id, at, times, batch_id FROM audit_rows \
         WHERE id = {}",
        is(inserted),
        is(lines[2])
    );
    assert_eq!(sql(&other, &copy).await, 1);
    let found = problems(&door).await;
    assert!(found.contains(&(Kind::Inserted, Some(3), Some(inserted))), "{found:?}");
}

async fn what_is_done_to_a_batch_is_named(database: TestDatabase) {
    let (door, other) = filled(database).await;
    sql(&other, "UPDATE audit_batches SET lines = lines + 1 WHERE sequence = 2").await;
    let found = problems(&door).await;
    assert!(
        found.contains(&(Kind::Batch, Some(2), None)) && found.contains(&(Kind::Batch, Some(3), None)),
        "{found:?}"
    );
    // So it is by whoever asks part by part and begins behind it: what is stored as its digest was left as it was.
    let part = AuditVerify { after: 2, limit: 1, checkpoints: Vec::new(), blob_store: false };
    let found = door.app.audit_verify(&door.admin, part).await.unwrap().problems;
    assert_eq!(found.iter().map(|it| (it.kind, it.sequence)).collect::<Vec<_>>(), [(Kind::Batch, Some(3))]);
    sql(&other, "UPDATE audit_batches SET lines = lines - 1 WHERE sequence = 2").await;
    assert_eq!(problems(&door).await, []);
    // Without its list it is not known which lines are gone, but that some are.
    let kept = if door.database.is_postgres() { "'\\x00'" } else { "X'00'" };
    sql(&other, &format!("UPDATE audit_batches SET list = {kept} WHERE sequence = 3")).await;
    assert_eq!(problems(&door).await, [(Kind::Batch, Some(3), None)]);
    // A batch and its lines: a gap, and if its lines stay, they belong to none.
    sql(&other, "DELETE FROM audit_batches WHERE sequence = 2").await;
    let found = problems(&door).await;
    assert!(found.contains(&(Kind::Gap, Some(2), None)), "{found:?}");
    assert_eq!(found.iter().filter(|(kind, ..)| *kind == Kind::Inserted).count(), 5, "{found:?}");
}

async fn lines_of_no_batch_are_found_behind_many_others(database: TestDatabase) {
    let door = Door::new(database).await;
    requests(&door, 2_500).await;
    door.app.audit_chain_all().await.unwrap();
    let other = sea_orm::Database::connect(door.source.url()).await.unwrap();
    assert_eq!(door.database.audit_strays(10).await.unwrap(), []);
    // Each line has a batch of its own, and one that comes late has none: more batches than are looked at in one statement.
    let of_one = "INSERT INTO audit_batches (id, log, lines, content, first_at, last_at, expired) \
                  SELECT r.id, 'clusters', 1, b.content, b.first_at, b.last_at, false \
                  FROM cluster_audit_rows r JOIN audit_batches b ON b.id = r.batch_id";
    let count = sql(&other, of_one).await;
    assert!(count >= 2_500, "{count}");
    sql(&other, "UPDATE cluster_audit_rows SET batch_id = id").await;
    assert_eq!(door.database.audit_strays(10).await.unwrap(), []);
    let rows = ids(&other, "SELECT id FROM cluster_audit_rows ORDER BY id").await;
    let is = |id: Uuid| {
        if door.database.is_postgres() { format!("'{id}'") } else { format!("X'{}'", id.simple()) }
    };
    for late in [rows[2_100], rows[2_400]] {
        sql(&other, &format!("DELETE FROM audit_batches WHERE id = {}", is(late))).await;
    }
    let strays = door.database.audit_strays(10).await.unwrap();
    let found: Vec<(Uuid, Uuid)> = strays.into_iter().map(|(_, line, batch)| (line, batch)).collect();
    assert_eq!(found, [rows[2_100], rows[2_400]].map(|id| (id, id)));
    assert_eq!(door.database.audit_strays(1).await.unwrap().len(), 1);
}

async fn a_cut_or_rewritten_chain_is_found_from_outside(database: TestDatabase) {
    let (door, other) = filled(database).await;
    let signed = door.app.audit_checkpoint_now().await.unwrap().unwrap();
    assert_eq!(signed.sequence, 3);
    assert_eq!(verified(&door, vec![signed.clone()], true).await.problems, []);
    // Somebody cuts the end, with all that the database knows of it.
    sql(&other, &format!("DELETE FROM audit_rows WHERE batch_id = {THIRD}")).await;
    sql(&other, "DELETE FROM audit_batches WHERE sequence = 3").await;
    sql(&other, "DELETE FROM audit_checkpoints").await;
    assert_eq!(problems(&door).await, [], "the database alone cannot tell");
    let kinds = |found: AuditVerification| {
        found.problems.into_iter().map(|it| (it.kind, it.sequence)).collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(verified(&door, Vec::new(), true).await),
        [(Kind::Cut, Some(3))],
        "the blob store tells"
    );
    assert_eq!(kinds(verified(&door, vec![signed.clone()], false).await), [(Kind::Cut, Some(3))]);
    // The console goes on, with its own key, where it was cut.
    door.project("five").await;
    door.app.audit_chain_all().await.unwrap();
    assert_eq!(problems(&door).await, []);
    assert_eq!(kinds(verified(&door, Vec::new(), true).await), [(Kind::Rewritten, Some(3))]);
    // All of it is written anew by the console's own code and key.
    for change in [
        "UPDATE audit_rows SET batch_id = NULL",
        "UPDATE cluster_audit_rows SET batch_id = NULL",
        "DELETE FROM audit_batches",
        "UPDATE audit_rows SET actor = 'eve'",
    ] {
        sql(&other, change).await;
    }
    for _ in 0..3 {
        door.project(&format!("p{}", Uuid::now_v7().simple())).await;
        door.app.audit_chain_all().await.unwrap();
    }
    assert_eq!(problems(&door).await, []);
    assert_eq!(kinds(verified(&door, vec![signed.clone()], false).await), [(Kind::Rewritten, Some(3))]);
    // A checkpoint of another console is none of this one.
    let foreign = AuditCheckpoint { key: AuditChain::of_key([1; 32]).key(), ..signed };
    assert_eq!(kinds(verified(&door, vec![foreign], false).await), [(Kind::Checkpoint, Some(3))]);
}

async fn a_replica_that_lost_its_lease_links_nothing_and_the_next_goes_on(database: TestDatabase) {
    let database = Arc::new(database);
    let (one, two) = (Door::open(Arc::clone(&database)).await, Door::open(database).await);
    let beat =
        |place: &str, holds| ReplicaBeat { id: ReplicaId::new(), place: place.into(), address: None, holds };
    let (a, b) = (beat("a", Duration::ZERO), beat("b", Duration::from_hours(1)));
    one.database.replica_join(&a).await.unwrap();
    two.database.replica_join(&b).await.unwrap();
    let name: Arc<str> = "audit_chain".into();
    let first: Fence = one.database.lease_acquire(&name, a.id).await.unwrap().unwrap();
    first.clone().guard(one.app.audit_chain_all()).await.unwrap();
    one.project("shop").await;
    // Its machine slept, and another leads.
    let second = two.database.lease_acquire(&name, b.id).await.unwrap().unwrap();
    let refused = first.guard(one.app.audit_chain_all()).await.unwrap_err();
    assert!(matches!(refused, Error::Conflict { .. }), "{}", refused.log_text());
    assert!(verified(&one, Vec::new(), false).await.unchained > 0);
    second.guard(two.app.audit_chain_all()).await.unwrap();
    let found = verified(&one, Vec::new(), false).await;
    assert_eq!((found.unchained, found.problems.len()), (0, 0), "{found:?}");
    // Even without a fence two that link at once do not both do it: the second finds another end.
    one.project("a").await;
    let unchained = one.database.audit_unchained(one.app.now(), 10, 10).await.unwrap();
    let head = unchained.head.unwrap().0;
    two.app.audit_chain_all().await.unwrap();
    let late = one.database.audit_link(head, &[]).await.unwrap_err();
    assert!(matches!(late, Error::Conflict { .. }), "{}", late.log_text());
}

async fn lines_of_the_release_before_are_put_into_the_chain(database: TestDatabase) {
    let door = Door::new(database).await;
    requests(&door, 3).await;
    let other = sea_orm::Database::connect(door.source.url()).await.unwrap();
    sql(&other, "DELETE FROM audit_batches").await;
    sql(&other, "UPDATE cluster_audit_rows SET batch_id = NULL").await;
    door.app.audit_chain_all().await.unwrap();
    let found = verified(&door, Vec::new(), false).await;
    assert_eq!((found.unchained, found.problems.len()), (0, 0), "{found:?}");
    assert!(found.lines > 3 && found.batches == 2, "{found:?}");
}

#[derive(Default)]
struct Sink {
    down: AtomicBool,
    got: Mutex<Vec<(u64, String)>>,
}

#[async_trait]
impl AuditSink for Sink {
    fn name(&self) -> &'static str {
        "test"
    }

    async fn send(&self, delivery: &str, lines: &str) -> Result<(), String> {
        if self.down.load(Ordering::SeqCst) {
            return Err("it is down".into());
        }
        self.got.lock().push((delivery.parse().unwrap(), lines.to_owned()));
        Ok(())
    }
}

async fn a_stream_that_is_down_gets_everything_in_order_when_it_is_back(database: TestDatabase) {
    let sink = Arc::new(Sink::default());
    let source = Arc::new(database);
    let opening = || Opening { sinks: vec![Arc::clone(&sink) as Arc<dyn AuditSink>], ..Opening::default() };
    let mut door = Door::open_as(Arc::clone(&source), opening()).await;
    door.start();
    let last = async |door: &Door| door.database.audit_digest_at(None).await.unwrap().unwrap_or_default().0;
    let caught_up = async |door: &Door| {
        eventually(async || {
            let sent = sink.got.lock().last().map(|(at, _)| *at);
            let head = last(door).await;
            let unchained = door.database.audit_unchained_count().await.unwrap();
            if head > 0 && unchained == 0 && sent == Some(head) {
                Ok(())
            } else {
                Err(format!("{sent:?} of {head}"))
            }
        })
        .await;
    };
    door.project("one").await;
    caught_up(&door).await;
    sink.down.store(true, Ordering::SeqCst);
    let before = sink.got.lock().len();
    for n in 0..3 {
        door.project(&format!("down-{n}")).await;
        requests(&door, 2).await;
        door.app.audit_chain_all().await.ok();
    }
    assert_eq!(sink.got.lock().len(), before);
    // The console ends meanwhile, and another one goes on.
    door.kill().await;
    let mut door = Door::open_as(source, opening()).await;
    door.start();
    sink.down.store(false, Ordering::SeqCst);
    caught_up(&door).await;
    door.stop().await;
    let got = sink.got.lock().clone();
    // At least once, in order, with nothing left out: what came twice came one after the other.
    let mut sequences: Vec<u64> = got.iter().map(|(at, _)| *at).collect();
    assert!(sequences.is_sorted(), "{sequences:?}");
    sequences.dedup();
    assert_eq!(sequences, (1..=sequences.len() as u64).collect::<Vec<_>>());
    let all: String = got.iter().map(|(_, lines)| lines.as_str()).collect();
    for name in ["one", "down-0", "down-1", "down-2"] {
        assert!(all.contains(&format!("\"targetName\":\"{name}\"")), "{name}");
    }
    // Each part brings its checkpoint.
    let chain = AuditChain::parse_key(&door.app.audit_public_key(&door.admin).unwrap()).unwrap();
    for (at, lines) in &got {
        let signed = AuditCheckpoint::parse(lines.lines().last().unwrap()).unwrap();
        assert!(signed.is_of(&chain) && signed.sequence == *at);
    }
}

#[derive(Default)]
struct Hanging(Notify);

#[async_trait]
impl AuditSink for Hanging {
    fn name(&self) -> &'static str {
        "hanging"
    }

    async fn send(&self, _delivery: &str, _lines: &str) -> Result<(), String> {
        self.0.notify_one();
        std::future::pending().await
    }
}

async fn a_stream_that_hangs_does_not_hold_up_the_stop(database: TestDatabase) {
    let sink = Arc::new(Hanging::default());
    let opening = Opening { sinks: vec![Arc::clone(&sink) as Arc<dyn AuditSink>], ..Opening::default() };
    let mut door = Door::open_as(Arc::new(database), opening).await;
    door.start();
    sink.0.notified().await;
    door.project("last").await;
    door.stop().await;
    // What runs until the streams have ended came after it.
    let found = verified(&door, Vec::new(), true).await;
    assert_eq!((found.unchained, found.problems.len()), (0, 0), "{found:?}");
    assert_eq!(door.database.audit_stream_at("hanging").await.unwrap(), None, "it is sent again");
}

async fn what_a_stream_got_finds_a_chain_that_was_cut_or_written_anew(database: TestDatabase) {
    let sink = Arc::new(Sink::default());
    let opening = Opening { sinks: vec![Arc::clone(&sink) as Arc<dyn AuditSink>], ..Opening::default() };
    let mut door = Door::open_as(Arc::new(database), opening).await;
    door.start();
    for name in ["one", "two"] {
        door.project(name).await;
        eventually(async || {
            let sent = sink
                .got
                .lock()
                .iter()
                .any(|(_, lines)| lines.contains(&format!("\"targetName\":\"{name}\"")));
            if sent { Ok(()) } else { Err(format!("{:?}", sink.got.lock())) }
        })
        .await;
    }
    door.stop().await;
    let checkpoints = || -> Vec<AuditCheckpoint> {
        let got = sink.got.lock();
        got.iter().map(|(_, lines)| AuditCheckpoint::parse(lines.lines().last().unwrap()).unwrap()).collect()
    };
    let last = checkpoints().iter().map(|it| it.sequence).max().unwrap();
    assert!(last >= 2, "{:?}", checkpoints());
    assert_eq!(verified(&door, checkpoints(), false).await.problems, []);
    // The end is cut, with what the database and the blob store know of it.
    let other = sea_orm::Database::connect(door.source.url()).await.unwrap();
    let of = format!("(SELECT id FROM audit_batches WHERE sequence >= {last})");
    sql(&other, &format!("DELETE FROM audit_rows WHERE batch_id IN {of}")).await;
    sql(&other, &format!("DELETE FROM audit_batches WHERE sequence >= {last}")).await;
    sql(&other, "DELETE FROM audit_checkpoints").await;
    assert_eq!(problems(&door).await, []);
    let kinds = |found: AuditVerification| found.problems.into_iter().map(|it| it.kind).collect::<Vec<_>>();
    assert_eq!(kinds(verified(&door, checkpoints(), false).await), [Kind::Cut]);
    // All of it is written anew, with the console's own key.
    for change in [
        "UPDATE audit_rows SET batch_id = NULL",
        "DELETE FROM audit_batches",
        "UPDATE audit_rows SET actor = 'eve'",
    ] {
        sql(&other, change).await;
    }
    for _ in 0..last {
        door.project(&format!("p{}", Uuid::now_v7().simple())).await;
        door.app.audit_chain_all().await.unwrap();
    }
    assert_eq!(problems(&door).await, []);
    let found = kinds(verified(&door, checkpoints(), false).await);
    assert!(!found.is_empty() && found.iter().all(|kind| *kind == Kind::Rewritten), "{found:?}");
}

async fn an_export_is_checked_by_its_text_alone(database: TestDatabase) {
    let (door, _other) = filled(database).await;
    let pieces: Vec<_> = door.app.audit_export(&door.admin, 0).await.unwrap().try_collect().await.unwrap();
    let text = String::from_utf8(pieces.concat()).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().map(|line| line["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds[..3], ["chain", "batch", "list"]);
    assert_eq!(kinds.iter().filter(|kind| **kind == "request").count(), 5);
    // What a batch names as its previous is the SHA-256 of the text of the one before it.
    let mut previous = hex::encode(digest(text.lines().next().unwrap().as_bytes()));
    for (line, value) in text.lines().zip(&lines).filter(|(_, value)| value["kind"] == "batch") {
        assert_eq!(value["previous"], previous.as_str());
        previous = hex::encode(digest(line.as_bytes()));
    }
    // That it was read is told.
    let filter = AuditFilter { action: Some("audit.export".into()), ..AuditFilter::default() };
    assert_eq!(door.app.audit_find(&door.admin, &filter, &PageArgs::default()).await.unwrap().edges.len(), 1);
}

async fn lines_tell_from_where_with_what_and_what_changed(database: TestDatabase) {
    let door = Door::new(database).await;
    let from = "192.0.2.9".parse().unwrap();
    let nobody = door.nobody().with_peer(Some(from));
    let made = door.app.session_create(&nobody, "root@example.com", "first password".into()).await.unwrap();
    let text = secrecy::ExposeSecret::expose_secret(&made.text).to_owned();
    let ctx = door.app.ctx(door.app.actor_authenticate(&text).await.unwrap()).with_peer(Some(from));
    for _ in 0..2 {
        door.app.audit_token_used(ctx.actor(), ctx.request_id(), Some(from)).await;
    }
    let new = plural_core::project::NewProject::named("shop".parse().unwrap());
    let project = door.app.project_create(&ctx, &new).await.unwrap();
    for description in ["a", "b"] {
        let change = plural_core::project::ProjectChange {
            description: Some(description.into()),
            ..plural_core::project::ProjectChange::default()
        };
        door.app.project_update(&ctx, project.id, &change).await.unwrap();
    }
    let lines = door.app.audit_list(&door.admin, &PageArgs::default()).await.unwrap().into_nodes();
    let of = |action: &str| {
        lines.iter().map(|row| &row.entry).filter(|entry| entry.action == action).cloned().collect::<Vec<_>>()
    };
    let signed_in = of("session.create");
    assert_eq!(signed_in.len(), 1);
    assert_eq!((signed_in[0].address, signed_in[0].actor.as_str()), (Some(from), "root@example.com"));
    let used = of("token.use");
    assert_eq!(used.len(), 1, "within an hour it is told once");
    assert_eq!((used[0].token_id, used[0].target.id), (Some(made.token.id), Some(made.token.id.uuid())));
    let created = &of("project.create")[0];
    assert_eq!((created.token_id, created.address), (Some(made.token.id), Some(from)));
    assert!(created.before.is_none() && created.after.is_some());
    let updated = of("project.update");
    assert_eq!(updated.len(), 2);
    assert_eq!(updated[0].before, created.after, "nothing happened in between");
    assert_eq!(updated[1].before, updated[0].after);
    assert_ne!(updated[1].before, updated[1].after);
}

async fn lists_are_filtered(database: TestDatabase) {
    let door = Door::new(database).await;
    let ada = door.user("ada").await;
    door.project("one").await;
    let since = door.app.now();
    door.project("two").await;
    let find = async |filter: AuditFilter| {
        let found =
            door.app.audit_find(&door.admin, &filter, &PageArgs::default()).await.unwrap().into_nodes();
        found.into_iter().map(|row| row.entry.target.name).collect::<Vec<_>>()
    };
    let all = AuditFilter::default;
    let by = |text: &str| Some(text.to_owned());
    assert_eq!(find(AuditFilter { action: by("project.*"), ..all() }).await, ["one", "two"]);
    assert_eq!(
        find(AuditFilter { action: by("project.create"), since: Some(since), ..all() }).await,
        ["two"]
    );
    assert_eq!(find(AuditFilter { action: by("project.%"), ..all() }).await, Vec::<String>::new());
    assert_eq!(find(AuditFilter { action: by("%*"), ..all() }).await.len(), find(all()).await.len());
    assert_eq!(
        find(AuditFilter { noun: by("project"), until: Some(since), ..all() }).await.last().unwrap(),
        "one"
    );
    assert_eq!(find(AuditFilter { target: by(&ada.id.to_string()), ..all() }).await, ["ada@example.com"]);
    assert_eq!(find(AuditFilter { target: by("two"), ..all() }).await, ["two"]);
    assert_eq!(find(AuditFilter { actor: by("nobody@example.com"), ..all() }).await, Vec::<String>::new());
    assert!(find(AuditFilter { actor: by("root@example.com"), ..all() }).await.len() >= 3);
    assert_eq!(
        find(AuditFilter { request_id: Some(door.admin.request_id()), noun: by("project"), ..all() }).await,
        ["one", "two"]
    );
}
