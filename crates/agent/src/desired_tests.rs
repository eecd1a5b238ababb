//! Tests of the desired state.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn open(folder: &Path, url: &str, token: &str) -> Desired {
    let desired = Desired::open(folder, url).unwrap();
    desired.adopt(&[token.to_owned()]);
    desired
}

fn service(id: ServiceId, sequence: u64) -> v1::Service {
    v1::Service { id: id.to_string(), sequence, ..v1::Service::default() }
}

#[test]
fn survives_a_restart_but_not_another_token() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "http://c", "t");
    let (a, b) = (ServiceId::new(), ServiceId::new());
    let moved = desired.take(v1::PollResponse {
        cursor: Some(v1::Cursor { epoch: "e".to_owned(), sequence: 3, mark: 0 }),
        snapshot: true,
        services: vec![service(a, 1), service(b, 2)],
        ..v1::PollResponse::default()
    });
    assert_eq!(moved.changed.len(), 2);
    desired.save().unwrap();
    let mode = fs::metadata(folder.path().join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let again = open(folder.path(), "http://c", "t");
    assert_eq!(again.cursor().unwrap().sequence, 3);
    assert_eq!(again.services().len(), 2);
    // The same state once more moves nothing; one service less is forgotten.
    let moved = again.take(v1::PollResponse {
        snapshot: true,
        services: vec![service(a, 1)],
        ..v1::PollResponse::default()
    });
    assert_eq!((moved.changed, moved.forgotten), (vec![], vec![b]));
    assert!(open(folder.path(), "http://c", "other").services().is_empty());
    // A token that takes the place of another takes the state along; so does one that was about to.
    again.own("next").unwrap();
    assert!(open(folder.path(), "http://c", "t").services().is_empty());
    let both = Desired::open(folder.path(), "http://c").unwrap();
    both.adopt(&["t".to_owned(), "next".to_owned()]);
    assert_eq!(both.services(), again.services());
}

#[test]
fn a_question_is_no_change() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    let a = ServiceId::new();
    let told = |service| v1::PollResponse { services: vec![service], ..Default::default() };
    let asks =
        |sequence, plan: &str| v1::Service { plan_request_id: plan.to_owned(), ..service(a, sequence) };
    assert_eq!(desired.take(told(asks(1, "p"))).changed, [a], "it is new");
    let moved = desired.take(told(asks(2, "q")));
    assert_eq!((moved.changed.len(), moved.asked.as_slice()), (0, [a].as_slice()));
    assert_eq!(desired.service(a).unwrap().plan_request_id, "q");
    assert!(!desired.take(told(asks(2, "q"))).is_any(), "told again");
    let moved = desired.take(told(v1::Service { paused: true, ..asks(3, "r") }));
    assert_eq!((moved.changed.as_slice(), moved.asked.len()), ([a].as_slice(), 0));
}

#[test]
fn attack_36_older_state_of_the_same_history_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    let (a, b) = (ServiceId::new(), ServiceId::new());
    let told = |epoch: &str, sequence, services| v1::PollResponse {
        cursor: Some(v1::Cursor { epoch: epoch.to_owned(), sequence, mark: 0 }),
        snapshot: true,
        services,
        ..v1::PollResponse::default()
    };
    desired.take(told("e", 7, vec![service(a, 7), service(b, 5)]));
    assert_eq!(desired.take(told("e", 4, vec![service(a, 4)])), Moved::default());
    assert_eq!(desired.cursor().unwrap().sequence, 7);
    assert_eq!((desired.service(a).unwrap().sequence, desired.services().len()), (7, 2));
    // A start without the console remembers it, too.
    desired.save().unwrap();
    let again = open(folder.path(), "u", "t");
    assert_eq!(again.take(told("e", 6, Vec::new())), Moved::default());
    // Another history is what somebody asked for.
    let moved = again.take(told("f", 4, vec![service(a, 4)]));
    assert_eq!((moved.changed, moved.forgotten), (vec![a], vec![b]));
}

#[test]
fn an_increment_leaves_the_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    let (a, b) = (ServiceId::new(), ServiceId::new());
    desired.take(v1::PollResponse { services: vec![service(a, 1), service(b, 1)], ..Default::default() });
    let moved = desired.take(v1::PollResponse {
        services: vec![service(b, 2)],
        forgotten_service_ids: vec![a.to_string()],
        ..Default::default()
    });
    assert_eq!((moved.changed, moved.forgotten, moved.snapshot), (vec![b], vec![a], false));
}
