//! Tests of the fleet in memory.

use plural_core::ids::{RevisionId, StackRunId};
use plural_core::work::{SourceHead, WorkKind};

use super::*;

fn credential(token: &str) -> ClusterCredential {
    ClusterCredential {
        id: ClusterId::new(),
        handle: "blue".parse().unwrap(),
        token_hash: TokenHash::of(token),
        next_hash: None,
        join_hash: None,
        rotated_at: DateTime::UNIX_EPOCH,
        asked: false,
    }
}

fn summary(cluster_id: ClusterId) -> WorkSummary {
    let source = SourceHead { digest: [7; 32], sha: Some("c1".into()), message: None };
    WorkSummary {
        work: WorkRef::service(ServiceId::new()),
        cluster_id,
        sequence: 1,
        head: Some(ServiceHead {
            revision_id: RevisionId::new(),
            revision_at: DateTime::UNIX_EPOCH,
            source: Some(Arc::new(source)),
        }),
    }
}

fn entry(summary: &WorkSummary, at: u64, change: WorkChange) -> Entry {
    Entry::of(at, summary.work, summary.sequence, change)
}

fn changes(whole: Vec<WorkRef>, forgotten: Vec<WorkRef>) -> Need {
    Need::Changes { whole, moved: Vec::new(), forgotten }
}

fn load(
    cluster: &ClusterCredential,
    work: Vec<WorkSummary>,
    (floor, events, position): (u64, Vec<FeedEvent>, u64),
) -> FleetLoad {
    FleetLoad { epoch: "e".into(), position, floor, events, clusters: vec![cluster.clone()], work }
}

fn event(position: u64, summary: &WorkSummary) -> FeedEvent {
    let WorkSummary { work, cluster_id, sequence, head: _ } = *summary;
    let subject = FeedSubject::Work { cluster_id, work, sequence, change: WorkChange::Changed };
    FeedEvent { position, subject: Some(subject), mark: position * 10 }
}

fn fleet(cluster: &ClusterCredential, work: Vec<WorkSummary>) -> (Fleet, Arc<Cell>) {
    let elsewhere = event(9, &summary(ClusterId::new()));
    let fleet = Fleet::new(load(cluster, work, (10, vec![elsewhere], 10)));
    let cell = fleet.cell(cluster.id).unwrap();
    (fleet, cell)
}

#[test]
fn snapshot_then_nothing_then_changes() {
    let cluster = credential("a");
    let service = summary(cluster.id);
    let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
    let (cursor, need) = fleet.poll(&cell, &PollAsked::at(None));
    assert_eq!(need, Need::Snapshot { work: vec![service.work] });
    assert_eq!(fleet.poll(&cell, &PollAsked::at(Some(&cursor))).1, Need::Nothing);
    let whole = PollAsked { whole: true, ..PollAsked::at(Some(&cursor)) };
    assert_eq!(fleet.poll(&cell, &whole), (cursor.clone(), need));

    let second = summary(cluster.id);
    Fleet::work_changed(&cell, entry(&second, 11, WorkChange::Changed), Some(second.clone()));
    Fleet::work_changed(&cell, entry(&service, 12, WorkChange::Changed), None);
    fleet.advance(12);
    let (next, need) = fleet.poll(&cell, &PollAsked::at(Some(&cursor)));
    assert_eq!(need, changes(vec![second.work], vec![service.work]));
    assert_eq!(fleet.poll(&cell, &PollAsked::at(Some(&next))).1, Need::Nothing);
}

#[test]
fn old_foreign_and_future_cursors_get_a_snapshot() {
    let cluster = credential("a");
    let service = summary(cluster.id);
    let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
    let at = |epoch: &str, sequence| FeedCursor { epoch: Arc::from(epoch), sequence, mark: 0 };
    for cursor in [at("other", 10), at("e", 11), at("e", 9)] {
        let (_, need) = fleet.poll(&cell, &PollAsked::at(Some(&cursor)));
        assert!(matches!(need, Need::Snapshot { .. }), "{cursor:?}");
    }
    let start = at("e", 10);
    for position in 11..11 + LOG as u64 {
        Fleet::work_changed(&cell, entry(&service, position, WorkChange::Changed), Some(service.clone()));
    }
    fleet.advance(11 + LOG as u64);
    assert!(matches!(fleet.poll(&cell, &PollAsked::at(Some(&start))).1, Need::Changes { .. }));
    Fleet::work_changed(&cell, entry(&service, 11 + LOG as u64, WorkChange::Changed), Some(service.clone()));
    assert!(matches!(fleet.poll(&cell, &PollAsked::at(Some(&start))).1, Need::Snapshot { .. }));
}

#[test]
fn a_fresh_load_remembers_what_the_feed_does() {
    let cluster = credential("a");
    let (first, second) = (summary(cluster.id), summary(cluster.id));
    let services = vec![first.clone(), second.clone()];
    let events = vec![event(4, &first), event(6, &second)];
    let fleet = Fleet::new(load(&cluster, services.clone(), (3, events, 10)));
    let cell = fleet.cell(cluster.id).unwrap();
    let at = |sequence| FeedCursor { epoch: Arc::from("e"), sequence, mark: 0 };
    let need = |sequence| fleet.poll(&cell, &PollAsked::at(Some(&at(sequence)))).1;
    // Others moved since; nothing of this cluster did.
    assert_eq!((need(6), need(8), need(10)), (Need::Nothing, Need::Nothing, Need::Nothing));
    assert_eq!(need(5), changes(vec![second.work], Vec::new()));
    let mut both = vec![first.work, second.work];
    both.sort();
    assert_eq!(need(3), changes(both, Vec::new()));
    assert!(matches!(need(2), Need::Snapshot { .. }), "what was before is forgotten");
}

#[tokio::test]
async fn what_moved_while_the_feed_was_out_of_reach_is_told() {
    let cluster = credential("a");
    let service = summary(cluster.id);
    let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
    let (_, generation) = fleet.authenticate(&cluster.token_hash).unwrap();
    let mut hints = cell.hints(generation, 10);
    let (cursor, _) = fleet.poll(&cell, &PollAsked::at(None));
    fleet.reload(load(&cluster, vec![service.clone()], (20, vec![event(25, &service)], 30)));
    assert_eq!(hints.next().await.map(|hint| hint.sequence), Some(25));
    assert!(matches!(fleet.poll(&cell, &PollAsked::at(Some(&cursor))).1, Need::Snapshot { .. }));
    // Who was told by another replica meanwhile has it already.
    let told = FeedCursor { sequence: 26, ..cursor };
    assert_eq!(fleet.poll(&cell, &PollAsked::at(Some(&told))).1, Need::Nothing);
    // With nothing of its own among the events, it may have been before them.
    fleet.reload(load(&cluster, vec![service], (40, Vec::new(), 50)));
    assert!(matches!(fleet.poll(&cell, &PollAsked::at(Some(&told))).1, Need::Snapshot { .. }));
}

#[test]
fn attack_36_a_place_in_another_history_is_none_of_ours() {
    let (fleet, cell) = fleet(&credential("a"), Vec::new());
    let (cursor, _) = fleet.poll(&cell, &PollAsked::at(None));
    assert_eq!((cursor.sequence, cursor.mark), (10, 90));
    fleet.mark([EventFingerprint { position: 12, mark: 120 }].into_iter());
    fleet.advance(12);
    assert!(fleet.is_ours(&cursor));
    // The same place, after another event.
    assert!(!fleet.is_ours(&FeedCursor { mark: 91, ..cursor.clone() }));
    assert!(!fleet.is_ours(&FeedCursor { sequence: 12, ..cursor.clone() }));
    // What cannot be judged is let pass: an older agent's, one before what is remembered, one of another epoch.
    assert!(fleet.is_ours(&FeedCursor { mark: 0, ..cursor.clone() }));
    assert!(fleet.is_ours(&FeedCursor { sequence: 5, mark: 1, ..cursor.clone() }));
    assert!(fleet.is_ours(&FeedCursor { epoch: "other".into(), mark: 1, ..cursor }));
}

#[tokio::test]
async fn hints_coalesce_and_end_with_the_token() {
    let cluster = credential("a");
    let service = summary(cluster.id);
    let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
    let (_, generation) = fleet.authenticate(&cluster.token_hash).unwrap();
    let mut hints = cell.hints(generation, 10);
    Fleet::work_changed(&cell, entry(&service, 11, WorkChange::Kicked), Some(service.clone()));
    Fleet::work_changed(&cell, entry(&service, 12, WorkChange::Kicked), Some(service.clone()));
    Fleet::wake(&cell);
    assert_eq!(hints.next().await, Some(AgentHint { sequence: 12, kicked: vec![service.work] }));

    let rotated = ClusterCredential { token_hash: TokenHash::of("b"), ..cluster.clone() };
    fleet.cluster_upsert(rotated.clone(), 13);
    assert_eq!(hints.next().await, None);
    assert!(fleet.authenticate(&cluster.token_hash).is_none());
    assert!(fleet.authenticate(&rotated.token_hash).is_some());
    fleet.cluster_remove(cluster.id);
    assert!(fleet.authenticate(&rotated.token_hash).is_none());
}

#[tokio::test]
async fn two_tokens_at_most_and_the_old_one_ends_when_the_next_is_used() {
    let (a, b, c) = (TokenHash::of("a"), TokenHash::of("b"), TokenHash::of("c"));
    let cluster = credential("a");
    let (fleet, cell) = fleet(&cluster, Vec::new());
    let valid =
        |hash: &TokenHash| fleet.authenticate(hash).is_some_and(|(cell, known)| cell.is_current(known));
    let (_, first) = fleet.authenticate(&a).unwrap();
    let mut hints = cell.hints(first, 10);
    // Beside the one so far: its streams go on.
    fleet.cluster_upsert(ClusterCredential { next_hash: Some(b), ..cluster.clone() }, 11);
    assert!(valid(&a) && valid(&b) && cell.is_current(first));
    let (_, second) = fleet.authenticate(&b).unwrap();
    // Another next one ends the one that was never used.
    fleet.cluster_upsert(ClusterCredential { next_hash: Some(c), ..cluster.clone() }, 12);
    assert!(valid(&a) && !valid(&b) && valid(&c) && !cell.is_current(second));
    let (_, third) = fleet.authenticate(&c).unwrap();
    // Used: the streams of the one before end, its own go on.
    fleet.cluster_upsert(ClusterCredential { token_hash: c, ..cluster.clone() }, 13);
    assert!(!valid(&a) && !valid(&b) && valid(&c));
    assert!(!cell.is_current(first) && cell.is_current(third));
    assert_eq!(hints.next().await, None);
    // One that comes back is another one: what was opened with it before stays closed.
    fleet.cluster_upsert(ClusterCredential { token_hash: a, ..cluster.clone() }, 14);
    assert!(valid(&a) && !cell.is_current(first) && !cell.is_current(0));
    fleet.cluster_remove(cluster.id);
    assert!(!valid(&a) && !cell.is_current(first) && !cell.is_current(third));
}

#[test]
fn a_join_token_opens_the_join_alone() {
    let cluster = credential("a");
    let (fleet, _) = fleet(&cluster, Vec::new());
    let (join, other) = (TokenHash::of("join"), TokenHash::of("other"));
    fleet.cluster_upsert(ClusterCredential { join_hash: Some(join), ..cluster.clone() }, 11);
    assert!(fleet.authenticate(&join).is_none(), "it is no deploy token");
    assert_eq!(fleet.join_authenticate(&join).map(|cell| cell.id), Some(cluster.id));
    assert!(fleet.join_authenticate(&cluster.token_hash).is_none(), "nor is a deploy token a join token");
    fleet.cluster_upsert(ClusterCredential { join_hash: Some(other), ..cluster.clone() }, 12);
    assert!(fleet.join_authenticate(&join).is_none() && fleet.join_authenticate(&other).is_some());
    fleet.cluster_remove(cluster.id);
    assert!(fleet.join_authenticate(&other).is_none());
}

#[tokio::test]
async fn who_is_asked_to_replace_its_token_is_told_at_once_and_once() {
    let cluster = credential("a");
    let (fleet, cell) = fleet(&cluster, Vec::new());
    let (_, generation) = fleet.authenticate(&cluster.token_hash).unwrap();
    let at = |seconds| DateTime::from_timestamp(seconds, 0);
    assert!(!cell.token_is_due(None) && cell.token_is_due(at(0)) && !cell.token_is_due(at(-1)));
    let mut hints = cell.hints(generation, 10);
    fleet.cluster_upsert(ClusterCredential { asked: true, ..cluster.clone() }, 11);
    assert!(cell.token_is_due(None));
    assert_eq!(hints.next().await, Some(AgentHint { sequence: 0, kicked: Vec::new() }));
    fleet.cluster_upsert(ClusterCredential { asked: true, ..cluster.clone() }, 12);
    let service = summary(cluster.id);
    Fleet::work_changed(&cell, entry(&service, 13, WorkChange::Changed), Some(service.clone()));
    Fleet::wake(&cell);
    assert_eq!(hints.next().await.map(|hint| hint.sequence), Some(13));
}

#[tokio::test]
async fn a_stream_that_opens_late_is_told_at_once() {
    let cluster = credential("a");
    let (fleet, cell) = fleet(&cluster, vec![summary(cluster.id)]);
    let (_, generation) = fleet.authenticate(&cluster.token_hash).unwrap();
    let mut hints = cell.hints(generation, 0);
    assert_eq!(hints.next().await.map(|hint| hint.sequence), Some(10));
}

#[test]
fn only_its_own_artifacts() {
    let cluster = credential("a");
    let (_, cell) = fleet(&cluster, vec![summary(cluster.id)]);
    assert!(Fleet::has_digest(&cell, &[7; 32]));
    assert!(!Fleet::has_digest(&cell, &[8; 32]));
}

/// Moves a service on by these changes from sequence 1, at positions 11, 12, …; its summary is of the last one.
fn walk(fleet: &Fleet, cell: &Cell, service: &WorkSummary, steps: &[WorkChange]) -> WorkSummary {
    let mut now = service.clone();
    for (position, change) in (11..).zip(steps) {
        now.sequence += 1;
        Fleet::work_changed(cell, entry(&now, position, *change), Some(now.clone()));
        fleet.advance(position);
    }
    now
}

fn step(summary: &WorkSummary, from: u64) -> ServiceMove {
    let id = summary.work.as_service().unwrap();
    ServiceMove { id, from, sequence: summary.sequence, head: summary.head.clone().unwrap() }
}

fn moved(step: ServiceMove) -> Need {
    Need::Changes { whole: Vec::new(), moved: vec![step], forgotten: Vec::new() }
}

#[test]
fn only_moves_since_the_cursor_are_one_move_and_anything_else_is_whole() {
    use WorkChange::{Changed, Kicked, Moved};
    // The changes, how many of them the agent has read, and from where the move is; none: whole.
    let table: &[(&[WorkChange], u64, Option<u64>)] = &[
        (&[Moved], 0, Some(1)),
        (&[Moved, Moved, Moved], 0, Some(1)),
        (&[Moved, Moved, Moved], 2, Some(3)),
        (&[Moved, Changed], 0, None),
        (&[Changed, Moved], 0, None),
        (&[Changed, Moved], 1, Some(2)),
        (&[Kicked], 0, None),
        (&[Moved, Kicked, Moved], 0, None),
        (&[Moved, Kicked, Moved], 2, Some(3)),
    ];
    for (steps, read, from) in table {
        let cluster = credential("a");
        let service = summary(cluster.id);
        let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
        let now = walk(&fleet, &cell, &service, steps);
        let cursor = FeedCursor { epoch: Arc::from("e"), sequence: 10 + read, mark: 0 };
        let expected = match from {
            Some(from) => moved(step(&now, *from)),
            None => changes(vec![now.work], Vec::new()),
        };
        let asked = PollAsked::at(Some(&cursor));
        assert_eq!(fleet.poll(&cell, &asked).1, expected, "{steps:?} after {read}");
        // An agent of the contract before, and one that misses the service, get it whole.
        let before = PollAsked { contract: Contract::SERVICES, ..asked.clone() };
        assert_eq!(fleet.poll(&cell, &before).1, changes(vec![now.work], Vec::new()));
        let misses = PollAsked { want: vec![now.work], ..asked };
        assert_eq!(fleet.poll(&cell, &misses).1, changes(vec![now.work], Vec::new()));
    }
}

#[test]
fn a_move_that_the_summary_does_not_fit_is_whole() {
    let cluster = credential("a");
    let service = summary(cluster.id);
    let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
    let (cursor, _) = fleet.poll(&cell, &PollAsked::at(None));
    let asked = PollAsked::at(Some(&cursor));
    let at = |sequence| WorkSummary { sequence, ..service.clone() };
    // Read after the event, and newer: what came between may be anything.
    Fleet::work_changed(&cell, entry(&at(2), 11, WorkChange::Moved), Some(at(3)));
    assert_eq!(fleet.poll(&cell, &asked).1, changes(vec![service.work], Vec::new()));
    // The event of what came between follows, and it was a move as well.
    Fleet::work_changed(&cell, entry(&at(3), 12, WorkChange::Moved), Some(at(3)));
    assert_eq!(fleet.poll(&cell, &asked).1, moved(step(&at(3), 1)));
    // A sequence that no event tells of.
    Fleet::work_changed(&cell, entry(&at(5), 13, WorkChange::Moved), Some(at(5)));
    assert_eq!(fleet.poll(&cell, &asked).1, changes(vec![service.work], Vec::new()));
    let (cursor, _) = fleet.poll(&cell, &PollAsked::at(None));
    assert_eq!(cursor.sequence, 10, "the follower says when it is there");
    fleet.advance(13);
    let (cursor, _) = fleet.poll(&cell, &PollAsked::at(None));
    // Transactions that committed out of order.
    Fleet::work_changed(&cell, entry(&at(7), 14, WorkChange::Moved), Some(at(7)));
    Fleet::work_changed(&cell, entry(&at(6), 15, WorkChange::Moved), Some(at(7)));
    fleet.advance(15);
    let asked = PollAsked::at(Some(&cursor));
    assert_eq!(fleet.poll(&cell, &asked).1, changes(vec![service.work], Vec::new()));
    // Without an artifact there is nothing to move to.
    let bare = ServiceHead { source: None, ..service.head.clone().unwrap() };
    let bare = WorkSummary { sequence: 8, head: Some(bare), ..service.clone() };
    let (cursor, _) = fleet.poll(&cell, &PollAsked::at(None));
    Fleet::work_changed(&cell, entry(&bare, 16, WorkChange::Moved), Some(bare.clone()));
    fleet.advance(16);
    assert_eq!(fleet.poll(&cell, &PollAsked::at(Some(&cursor))).1, changes(vec![service.work], Vec::new()));
}

/// One fleet reads event by event, the other one all at once: their answers differ, and lead to the same.
#[test]
fn fleets_that_coalesce_differently_lead_to_the_same() {
    let cluster = credential("a");
    let service = summary(cluster.id);
    let (first, one) = fleet(&cluster, vec![service.clone()]);
    let (second, other) = fleet(&cluster, vec![service.clone()]);
    let now = walk(&first, &one, &service, &[WorkChange::Moved; 3]);
    let at = |sequence| WorkSummary { sequence, ..service.clone() };
    let all = (2..=4).zip(11..).map(|(sequence, position)| entry(&at(sequence), position, WorkChange::Moved));
    let all = all.reduce(Entry::and).unwrap();
    Fleet::work_changed(&other, all, Some(now.clone()));
    second.advance(13);
    let cursor = FeedCursor { epoch: Arc::from("e"), sequence: 12, mark: 0 };
    let asked = PollAsked::at(Some(&cursor));
    assert_eq!(first.poll(&one, &asked).1, moved(step(&now, 3)));
    // From further back than the agent is, which changes nothing: all between is moves.
    assert_eq!(second.poll(&other, &asked).1, moved(step(&now, 1)));
}

#[test]
fn a_fresh_load_still_tells_moves() {
    let cluster = credential("a");
    let service = summary(cluster.id);
    let now = WorkSummary { sequence: 3, ..service.clone() };
    let event = |position, sequence| {
        let work = service.work;
        let subject = FeedSubject::Work { cluster_id: cluster.id, work, sequence, change: WorkChange::Moved };
        FeedEvent { position, subject: Some(subject), mark: position }
    };
    let fleet = Fleet::new(load(&cluster, vec![now.clone()], (3, vec![event(4, 2), event(6, 3)], 10)));
    let cell = fleet.cell(cluster.id).unwrap();
    let cursor = |sequence| FeedCursor { epoch: Arc::from("e"), sequence, mark: 0 };
    let need = |sequence| fleet.poll(&cell, &PollAsked::at(Some(&cursor(sequence)))).1;
    assert_eq!((need(3), need(5)), (moved(step(&now, 1)), moved(step(&now, 2))));
    assert_eq!(need(6), Need::Nothing);
}

#[test]
fn what_is_wanted_is_whole_even_where_nothing_changed_and_strangers_are_not() {
    let cluster = credential("a");
    let service = summary(cluster.id);
    let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
    let (cursor, _) = fleet.poll(&cell, &PollAsked::at(None));
    let stranger = WorkRef::service(ServiceId::new());
    let want = vec![service.work, stranger, service.work];
    let asked = PollAsked { want, ..PollAsked::at(Some(&cursor)) };
    assert_eq!(fleet.poll(&cell, &asked).1, changes(vec![service.work], Vec::new()));
}

#[test]
fn runs_are_told_to_agents_that_know_them_and_are_no_memory_once_they_are_over() {
    let cluster = credential("a");
    let service = summary(cluster.id);
    let run = WorkSummary {
        work: WorkRef::stack_run(StackRunId::new()),
        sequence: 1,
        head: None,
        ..service.clone()
    };
    let (fleet, cell) = fleet(&cluster, vec![service.clone()]);
    let former = |cursor: Option<&FeedCursor>| PollAsked {
        contract: Contract::REFERENCES,
        want: vec![run.work],
        ..PollAsked::at(cursor)
    };
    let (cursor, _) = fleet.poll(&cell, &PollAsked::at(None));
    let asked = PollAsked::at(Some(&cursor));
    assert_eq!(fleet.poll(&cell, &asked).1, Need::Nothing);
    Fleet::work_changed(&cell, entry(&run, 11, WorkChange::Changed), Some(run.clone()));
    fleet.advance(11);
    assert_eq!(fleet.poll(&cell, &asked).1, changes(vec![run.work], Vec::new()));
    assert_eq!(
        fleet.poll(&cell, &PollAsked::at(None)).1,
        Need::Snapshot { work: vec![service.work, run.work] }
    );
    // One of the contract before is sent nothing of it, whatever it asks for.
    assert_eq!(fleet.poll(&cell, &former(Some(&cursor))).1, changes(Vec::new(), Vec::new()));
    assert_eq!(fleet.poll(&cell, &former(None)).1, Need::Snapshot { work: vec![service.work] });
    // It is over: the agent forgets it, and nothing of it stays but the event.
    Fleet::work_changed(&cell, entry(&run, 12, WorkChange::Changed), None);
    fleet.advance(12);
    let at = FeedCursor { sequence: 11, ..cursor.clone() };
    assert_eq!(fleet.poll(&cell, &PollAsked::at(Some(&at))).1, changes(Vec::new(), vec![run.work]));
    assert_eq!(fleet.poll(&cell, &former(Some(&at))).1, changes(Vec::new(), Vec::new()));
    assert_eq!(fleet.poll(&cell, &PollAsked::at(None)).1, Need::Snapshot { work: vec![service.work] });
}

#[test]
fn kinds_that_an_agent_does_not_know_are_left_out() {
    let cluster = credential("a");
    let service = summary(cluster.id);
    let data = WorkSummary { work: WorkRef::cluster(cluster.id), sequence: 0, head: None, ..service.clone() };
    let (fleet, cell) = fleet(&cluster, vec![service.clone(), data.clone()]);
    let before = |cursor: Option<&FeedCursor>| PollAsked {
        contract: Contract::SERVICES,
        want: vec![data.work],
        ..PollAsked::at(cursor)
    };
    let (cursor, need) = fleet.poll(&cell, &before(None));
    assert_eq!(need, Need::Snapshot { work: vec![service.work] });
    assert_eq!(
        fleet.poll(&cell, &PollAsked::at(None)).1,
        Need::Snapshot { work: vec![service.work, data.work] }
    );
    Fleet::work_changed(&cell, entry(&data, 11, WorkChange::Changed), Some(data.clone()));
    fleet.advance(11);
    assert_eq!(fleet.poll(&cell, &before(Some(&cursor))).1, changes(Vec::new(), Vec::new()));
    let now = fleet.poll(&cell, &PollAsked::at(Some(&cursor))).1;
    assert_eq!(now, changes(vec![data.work], Vec::new()));
    Fleet::work_changed(&cell, entry(&data, 12, WorkChange::Changed), None);
    fleet.advance(12);
    assert_eq!(fleet.poll(&cell, &before(Some(&cursor))).1, changes(Vec::new(), Vec::new()));
    assert_eq!(data.work.kind, WorkKind::Cluster);
}
