use chrono::DateTime;

use super::*;
use crate::audit_chain::AuditKey;
use crate::audit_expiry::ExpiredFloors;
use crate::ids::AuditBatchId;

type Lines = Vec<(Uuid, AuditDigest)>;

struct Built {
    key: AuditKey,
    batches: Vec<(AuditBatch, LineList, Lines)>,
}

fn build(seed: u8, salt: u8, batches: u64) -> Built {
    let key = AuditKey::from_seed(&[seed; 32]).unwrap();
    let mut built = Built { batches: Vec::new(), key };
    let mut previous = built.key.chain().origin();
    for sequence in 1..=batches {
        let lines: Lines = (0..4_u8)
            .map(|n| (Uuid::from_u128(u128::from(sequence) << 8 | u128::from(n)), [n ^ salt; 32]))
            .collect();
        let mut list = LineList::default();
        for (id, digest) in &lines {
            list.push(*id, *digest);
        }
        let batch = AuditBatch {
            id: AuditBatchId::from_uuid(Uuid::from_u128(u128::from(sequence))),
            sequence,
            log: AuditLog::Console,
            lines: 4,
            content: list.digest(),
            first_at: DateTime::UNIX_EPOCH,
            last_at: DateTime::UNIX_EPOCH,
            chained_at: DateTime::UNIX_EPOCH,
            previous,
        };
        previous = batch.digest();
        built.batches.push((batch, list, lines));
    }
    built
}

impl Built {
    fn checkpoint(&self, sequence: usize) -> AuditCheckpoint {
        let batch = &self.batches[sequence - 1].0;
        self.key.sign(batch.sequence, &batch.digest(), DateTime::UNIX_EPOCH)
    }

    fn found(&self, checkpoints: Vec<AuditCheckpoint>) -> Vec<(AuditProblemKind, Option<u64>, Option<Uuid>)> {
        let mut verifier = AuditVerifier::new(self.key.chain(), checkpoints);
        for (batch, list, lines) in &self.batches {
            verifier.batch(batch, Some(list), &FoundLines::InOrder(lines));
        }
        verifier.end();
        let (problems, _) = verifier.into_problems();
        problems.into_iter().map(|it| (it.kind, it.sequence, it.line)).collect()
    }
}

use AuditProblemKind as Kind;

#[test]
fn what_is_whole_has_no_problem() {
    let built = build(1, 0, 5);
    let checkpoints = vec![built.checkpoint(2), built.checkpoint(5)];
    assert_eq!(built.found(checkpoints), []);
}

#[test]
fn each_change_of_a_line_is_named() {
    let mut edited = build(1, 0, 3);
    edited.batches[1].2[2].1[0] ^= 1;
    let id = |batch: u128, n: u128| Some(Uuid::from_u128(batch << 8 | n));
    assert_eq!(edited.found(vec![]), [(Kind::Edited, Some(2), id(2, 2))]);
    let mut removed = build(1, 0, 3);
    removed.batches[0].2.remove(3);
    assert_eq!(removed.found(vec![]), [(Kind::Removed, Some(1), id(1, 3))]);
    let mut inserted = build(1, 0, 3);
    inserted.batches[2].2.push((Uuid::from_u128(77), [9; 32]));
    assert_eq!(inserted.found(vec![]), [(Kind::Inserted, Some(3), Some(Uuid::from_u128(77)))]);
    let mut doubled = build(1, 0, 3);
    let line = doubled.batches[2].2[0];
    doubled.batches[2].2.push(line);
    assert_eq!(doubled.found(vec![]), [(Kind::Inserted, Some(3), id(3, 0))]);
    let mut reordered = build(1, 0, 3);
    reordered.batches[1].2.swap(1, 3);
    assert_eq!(reordered.found(vec![]), [(Kind::Reordered, Some(2), id(2, 1))]);
}

#[test]
fn each_change_of_a_batch_is_named() {
    // A line and all that its batch says of it: the next one names another digest.
    let mut consistent = build(1, 0, 3);
    let (batch, list, lines) = &mut consistent.batches[1];
    lines[0].1 = [8; 32];
    *list = LineList::default();
    for (id, digest) in &*lines {
        list.push(*id, *digest);
    }
    batch.content = list.digest();
    assert_eq!(consistent.found(vec![]), [(Kind::Batch, Some(3), None)]);
    let mut listed = build(1, 0, 3);
    listed.batches[1].1 = LineList::default();
    listed.batches[1].2[0].1 = [8; 32];
    assert_eq!(listed.found(vec![]), [(Kind::Batch, Some(2), None)]);
    let mut gap = build(1, 0, 5);
    gap.batches.drain(1..3);
    assert_eq!(gap.found(vec![]), [(Kind::Gap, Some(2), None)]);
    let mut swapped = build(1, 0, 3);
    swapped.batches.swap(0, 1);
    let found = swapped.found(vec![]);
    assert!(found.contains(&(Kind::Reordered, Some(1), None)), "{found:?}");
    let mut first = build(1, 0, 3);
    first.batches.remove(0);
    assert_eq!(first.found(vec![]), [(Kind::Gap, Some(1), None)]);
}

#[test]
fn a_cut_or_rewritten_chain_is_found_by_checkpoints_only() {
    let whole = build(1, 0, 5);
    let outside = vec![whole.checkpoint(3), whole.checkpoint(5)];
    let mut cut = build(1, 0, 5);
    cut.batches.truncate(4);
    assert_eq!(cut.found(vec![]), []);
    assert_eq!(cut.found(outside.clone()), [(Kind::Cut, Some(5), None)]);
    // With the console's own key.
    let anew = build(1, 3, 6);
    assert_eq!(anew.found(vec![]), []);
    assert_eq!(
        anew.found(outside.clone()),
        [(Kind::Rewritten, Some(3), None), (Kind::Rewritten, Some(5), None)]
    );
    // With another one.
    let other = build(2, 0, 5);
    assert_eq!(other.found(outside), [(Kind::Checkpoint, Some(3), None), (Kind::Checkpoint, Some(5), None)]);
}

#[test]
fn lines_expire_only_where_the_log_says_so_with_its_key() {
    let built = build(1, 0, 4);
    let found = |told: &[AuditExpired]| {
        let mut verifier = AuditVerifier::new(built.key.chain(), vec![]);
        for (batch, list, lines) in &built.batches {
            if batch.sequence <= 2 {
                verifier.batch(batch, None, &FoundLines::Expired);
            } else {
                verifier.batch(batch, Some(list), &FoundLines::Rows(lines));
            }
        }
        verifier.expired_by(told);
        verifier.end();
        verifier.into_problems().0.into_iter().map(|it| it.kind).collect::<Vec<_>>()
    };
    let said = |key: &AuditKey, console, foreign: &[u64]| {
        let floors = ExpiredFloors { console, clusters: 9 };
        AuditExpired::sign(key, floors, foreign.to_vec(), (4, [0; 32]), DateTime::UNIX_EPOCH)
    };
    assert_eq!(found(&[said(&built.key, 2, &[])]), []);
    assert_eq!(found(&[]), [Kind::Expired]);
    assert_eq!(found(&[said(&built.key, 1, &[])]), [Kind::Expired]);
    assert_eq!(found(&[said(&built.key, 2, &[1])]), [Kind::Expired], "the console does not answer for one");
    assert_eq!(found(&[said(&AuditKey::from_seed(&[9; 32]).unwrap(), 2, &[])]), [Kind::Expired]);
    let edited = AuditExpired { console: 2, ..said(&built.key, 1, &[]) };
    assert_eq!(found(&[edited]), [Kind::Expired]);
}
