//! Tests of the desired state.

use std::os::unix::fs::PermissionsExt as _;

use plural_tunnel::work::{damaged_service, damaged_stack_run, service_work};
use prost::Message as _;

use super::{
    file::{FILE, OF_CONTRACT_0, OF_CONTRACT_1},
    *,
};

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

fn at(sequence: u64) -> v1::Cursor {
    v1::Cursor { epoch: "e".to_owned(), sequence, mark: 0 }
}

fn snapshot(sequence: u64, services: Vec<v1::Service>) -> v1::PollResponse {
    v1::PollResponse {
        cursor: Some(at(sequence)),
        snapshot: true,
        work: services.into_iter().map(service_work).collect(),
        contract: CONTRACT,
        ..v1::PollResponse::default()
    }
}

fn to(id: ServiceId, from: u64, sequence: u64) -> v1::ServiceMove {
    v1::ServiceMove {
        id: id.to_string(),
        from,
        sequence,
        artifact_digest: format!("d{sequence}"),
        ..v1::ServiceMove::default()
    }
}

fn moves(sequence: u64, moved: Vec<v1::ServiceMove>) -> v1::PollResponse {
    v1::PollResponse { cursor: Some(at(sequence)), moved, ..v1::PollResponse::default() }
}

/// What the build of contract 0 kept, as it did.
fn keep_as_before(folder: &Path, url: &str, token: &str, sequence: u64, services: Vec<v1::Service>) {
    let owner = Desired::open(folder, url).unwrap().owner_of(token);
    let answer = v1::PollResponse {
        cursor: Some(at(sequence)),
        snapshot: true,
        services,
        ..v1::PollResponse::default()
    };
    let mut bytes = owner.to_vec();
    answer.encode(&mut bytes).unwrap();
    fs::write(folder.join(OF_CONTRACT_0), bytes).unwrap();
}

/// What the build of contract 1 kept, as it did.
fn keep_of_contract_1(folder: &Path, url: &str, token: &str, sequence: u64, services: Vec<v1::Service>) {
    let mut bytes = Desired::open(folder, url).unwrap().owner_of(token).to_vec();
    let kept = v1::Kept {
        contract: 1,
        cursor: Some(at(sequence)),
        work: services.into_iter().map(service_work).collect(),
        missing: Vec::new(),
    };
    kept.encode(&mut bytes).unwrap();
    fs::write(folder.join(OF_CONTRACT_1), bytes).unwrap();
}

/// A service with settings and limits in the shape of contracts 0 and 1.
fn with_settings(id: ServiceId, sequence: u64) -> v1::Service {
    let policy = v1::SyncPolicy { no_prune: true, ..v1::SyncPolicy::default() };
    let limits = v1::ProjectLimits { project: "blue".to_owned(), ..v1::ProjectLimits::default() };
    let config = v1::SyncConfig { policy: Some(policy), limits: Some(limits), ..v1::SyncConfig::default() };
    v1::Service { sync_config: Some(config), ..service(id, sequence) }
}

#[test]
fn a_move_changes_the_service_that_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    let (a, b) = (ServiceId::new(), ServiceId::new());
    let paused = v1::Service { paused: true, ..service(a, 3) };
    desired.take(snapshot(5, vec![paused.clone(), service(b, 5)]));
    let moved = desired.take(moves(7, vec![to(a, 3, 7)]));
    assert_eq!((moved.changed.as_slice(), moved.snapshot), ([a].as_slice(), false));
    let expected = v1::Service { sequence: 7, artifact_digest: "d7".to_owned(), ..paused };
    assert_eq!(*desired.service(a).unwrap(), expected);
    assert!(desired.want().is_empty());
    // Repeated, it changes nothing.
    assert!(!desired.take(moves(7, vec![to(a, 3, 7)])).is_any());
    desired.save().unwrap();
    assert_eq!(*open(folder.path(), "u", "t").service(a).unwrap(), expected);
}

#[test]
fn a_move_that_does_not_fit_leaves_the_service_and_asks_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    let (a, b, c) = (ServiceId::new(), ServiceId::new(), ServiceId::new());
    let wanted =
        |desired: &Desired| -> Vec<String> { desired.want().into_iter().map(|work| work.id).collect() };
    let sorted = |ids: &[ServiceId]| -> Vec<String> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.iter().map(ToString::to_string).collect()
    };
    desired.take(snapshot(5, vec![service(a, 3), service(b, 5)]));
    // One is known at an older place, one not at all.
    let moved = desired.take(moves(8, vec![to(a, 4, 8), to(c, 1, 8), to(b, 5, 8)]));
    assert_eq!(moved.changed, [b], "the others go on");
    assert_eq!(*desired.service(a).unwrap(), service(a, 3), "it stays as it was");
    assert_eq!(wanted(&desired), sorted(&[a, c]));
    // They are still missing after a restart, and after an answer that does not hold them.
    desired.save().unwrap();
    let desired = open(folder.path(), "u", "t");
    desired.take(moves(8, Vec::new()));
    assert_eq!(wanted(&desired), sorted(&[a, c]));
    // Whole, a service is no longer missing. Nor is one that is not ours any more.
    let answer = v1::PollResponse {
        work: vec![service_work(service(a, 8))],
        forgotten: vec![work_ref(WorkKind::Service, c)],
        ..moves(9, Vec::new())
    };
    assert_eq!(desired.take(answer).changed, [a]);
    assert!(desired.want().is_empty());
    // A snapshot has everything.
    desired.take(moves(10, vec![to(a, 9, 10)]));
    assert_eq!(wanted(&desired), sorted(&[a]));
    desired.take(snapshot(11, vec![service(a, 10), service(b, 8)]));
    assert!(desired.want().is_empty());
}

#[test]
fn either_shape_of_an_answer_changes_the_same() {
    let (a, b) = (ServiceId::new(), ServiceId::new());
    let first = v1::PollResponse {
        cursor: Some(at(5)),
        snapshot: true,
        services: vec![service(a, 1), service(b, 2)],
        cluster: Some(v1::ClusterData { handle: "blue".to_owned(), ..v1::ClusterData::default() }),
        ..v1::PollResponse::default()
    };
    let second = v1::PollResponse {
        cursor: Some(at(6)),
        services: vec![service(b, 6)],
        forgotten_service_ids: vec![a.to_string()],
        ..v1::PollResponse::default()
    };
    let taken = |shape: fn(v1::PollResponse) -> v1::PollResponse| {
        let folder = tempfile::tempdir().unwrap();
        let desired = open(folder.path(), "u", "t");
        let moved = [first.clone(), second.clone()].map(|answer| desired.take(shape(answer)));
        (moved, desired.cursor(), desired.services(), desired.service(b), desired.cluster())
    };
    let before = taken(|answer| answer);
    assert_eq!(before, taken(v1::PollResponse::normal));
    assert_eq!(
        (before.0[1].changed.as_slice(), before.0[1].forgotten.as_slice()),
        ([b].as_slice(), [a].as_slice())
    );
    assert_eq!(before.4.unwrap().handle, "blue");
}

#[test]
fn work_of_an_unknown_kind_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    let (a, b, other) = (ServiceId::new(), ServiceId::new(), ServiceId::new());
    let unknown = |id: ServiceId| v1::Work { id: id.to_string(), sequence: 1, kind: 99, item: None };
    let mut answer = snapshot(5, vec![service(a, 1), service(b, 2)]);
    answer.work.insert(0, unknown(other));
    assert_eq!(desired.take(answer).changed.len(), 2);
    assert_eq!(desired.cursor(), Some(at(5)), "it goes on from here");
    // What a later console sends of a service in another way is no reason to forget the service.
    let mut answer = snapshot(6, vec![service(a, 1)]);
    answer.work.push(unknown(b));
    assert!(desired.take(answer).forgotten.is_empty());
    // References to what is unknown name no service.
    let answer = v1::PollResponse {
        forgotten: vec![v1::WorkRef { kind: 99, id: a.to_string() }, work_ref(WorkKind::Cluster, b)],
        ..moves(7, Vec::new())
    };
    assert!(desired.take(answer).forgotten.is_empty());
    assert_eq!(desired.services().len(), 2);
}

#[test]
fn a_service_that_the_console_cannot_read_stays_and_is_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    let (a, b) = (ServiceId::new(), ServiceId::new());
    desired.take(snapshot(5, vec![service(a, 1), service(b, 2)]));
    // Named by a snapshot, and by what changed since.
    for answer in [snapshot(6, vec![service(b, 2)]), moves(7, Vec::new())] {
        let mut answer = answer;
        answer.work.push(damaged_service(a));
        let moved = desired.take(answer);
        assert_eq!((moved.changed, moved.forgotten), (vec![], vec![]));
        assert_eq!(desired.service(a).unwrap().sequence, 1);
        assert_eq!(desired.want(), [work_ref(WorkKind::Service, a)]);
    }
    let answer = v1::PollResponse { work: vec![service_work(service(a, 3))], ..moves(7, Vec::new()) };
    assert_eq!(desired.take(answer).changed, [a]);
    assert_eq!(desired.want(), []);
    // One that was never read here is asked for, too, and no more once it is gone.
    let new = ServiceId::new();
    desired.take(v1::PollResponse { work: vec![damaged_service(new)], ..moves(8, Vec::new()) });
    assert_eq!((desired.want(), desired.services().len()), (vec![work_ref(WorkKind::Service, new)], 2));
    assert!(desired.names(new), "it is this cluster's");
    let forgotten = vec![work_ref(WorkKind::Service, new)];
    desired.take(v1::PollResponse { forgotten, ..moves(9, Vec::new()) });
    assert!(desired.want().is_empty() && !desired.names(new));
}

#[test]
fn what_the_previous_build_kept_is_adopted_until_a_snapshot_comes() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (ServiceId::new(), ServiceId::new());
    keep_as_before(folder.path(), "u", "t", 7, vec![service(a, 7), service(b, 5)]);
    assert!(open(folder.path(), "u", "other").services().is_empty(), "it is another owner's");
    let desired = open(folder.path(), "u", "t");
    let stands = |desired: &Desired| (desired.services().len(), desired.cursor(), desired.is_outdated());
    assert_eq!(stands(&desired), (2, Some(at(7)), true));
    // Killed before the console answered, but after the token was replaced.
    desired.own("next").unwrap();
    assert!(!folder.path().join(OF_CONTRACT_0).exists());
    let desired = open(folder.path(), "u", "next");
    assert_eq!(stands(&desired), (2, Some(at(7)), true));
    // A console that is older than what is known is not followed.
    assert_eq!(desired.take(snapshot(4, vec![service(a, 4)])), Moved::default());
    assert_eq!(stands(&desired), (2, Some(at(7)), true));
    // The increment of a console that was asked for a snapshot is taken, but the rest is still to come.
    desired.take(v1::PollResponse {
        cursor: Some(at(8)),
        services: vec![service(b, 8)],
        ..Default::default()
    });
    assert_eq!(stands(&desired), (2, Some(at(8)), true));
    // A snapshot of either shape: what is as it was is not touched. One of a console that is of the previous build, too, does not
    // hold what only a later one says.
    for contract in [0, 1, CONTRACT] {
        let answer = v1::PollResponse {
            cursor: Some(at(8)),
            snapshot: true,
            services: vec![service(a, 7), service(b, 8)],
            contract,
            ..v1::PollResponse::default()
        };
        let moved = desired.take(answer);
        assert_eq!((moved.changed.len(), moved.forgotten.len()), (0, 0));
        assert_eq!(stands(&desired), (2, Some(at(8)), contract < CONTRACT));
    }
    desired.save().unwrap();
    assert_eq!(stands(&open(folder.path(), "u", "next")), (2, Some(at(8)), false));
}

#[test]
fn of_two_files_the_later_one_counts() {
    let folder = tempfile::tempdir().unwrap();
    let a = ServiceId::new();
    let kept = || open(folder.path(), "u", "t");
    let desired = kept();
    desired.take(snapshot(5, vec![service(a, 5)]));
    desired.save().unwrap();
    // Killed between writing the one and removing the other.
    for before in [3, 5] {
        keep_as_before(folder.path(), "u", "t", before, vec![service(a, before)]);
        let desired = kept();
        assert_eq!((desired.cursor(), desired.service(a).unwrap().sequence), (Some(at(5)), 5));
    }
    // An agent of the previous build has run since.
    keep_as_before(folder.path(), "u", "t", 9, vec![service(a, 9)]);
    let desired = kept();
    assert_eq!((desired.cursor(), desired.service(a).unwrap().sequence), (Some(at(9)), 9));
    assert!(desired.is_outdated());
    // The first answer that is kept ends it.
    desired.take(snapshot(9, vec![service(a, 9)]));
    desired.save().unwrap();
    assert!(!folder.path().join(OF_CONTRACT_0).exists());
    assert!(kept().cursor() == Some(at(9)) && !kept().is_outdated());
    // A file that is damaged counts as none.
    fs::write(folder.path().join(FILE), b"damaged").unwrap();
    assert!(kept().services().is_empty());
}

#[test]
fn what_contract_1_kept_is_adopted_with_its_settings() {
    let folder = tempfile::tempdir().unwrap();
    let a = ServiceId::new();
    let kept = || open(folder.path(), "u", "t");
    let stands = |desired: &Desired| {
        let service = desired.service(a).unwrap();
        let limits = service.project_limits().unwrap();
        assert!(!service.settings().unwrap().policy.prune && limits.project == "blue");
        (desired.cursor(), desired.is_outdated())
    };
    keep_of_contract_1(folder.path(), "u", "t", 7, vec![with_settings(a, 7)]);
    assert_eq!(stands(&kept()), (Some(at(7)), true));
    // Restarted without a console, once and again.
    kept().save().unwrap();
    assert_eq!(stands(&kept()), (Some(at(7)), true));
    // An agent of contract 1 finds nothing that it would read without the settings.
    let files = fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, [FILE]);
    // It has run since.
    keep_of_contract_1(folder.path(), "u", "t", 9, vec![with_settings(a, 9)]);
    assert_eq!(stands(&kept()), (Some(at(9)), true));
    // Older than what is kept here, it counts no more than a file of contract 0 does.
    kept().save().unwrap();
    keep_of_contract_1(folder.path(), "u", "t", 8, vec![service(a, 8)]);
    keep_as_before(folder.path(), "u", "t", 7, vec![service(a, 7)]);
    assert_eq!(stands(&kept()), (Some(at(9)), true));
}

#[test]
fn what_a_later_build_kept_is_kept_as_far_as_it_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let a = ServiceId::new();
    let desired = open(folder.path(), "u", "t");
    let kept = v1::Kept {
        contract: CONTRACT + 1,
        cursor: Some(at(5)),
        work: vec![
            service_work(service(a, 5)),
            v1::Work { id: "x".to_owned(), sequence: 1, kind: 99, item: None },
        ],
        missing: Vec::new(),
    };
    desired.file.write(desired.owner_of("t"), &kept).unwrap();
    let desired = open(folder.path(), "u", "t");
    assert_eq!((desired.services(), desired.cursor()), (vec![a], Some(at(5))));
    // The later build, started again, finds out that not everything of its own is here.
    desired.save().unwrap();
    let again = desired.file.read(&[desired.owner_of("t")]).unwrap();
    assert_eq!((again.contract, again.work.len()), (CONTRACT, 1));
}

#[test]
fn one_poll_asks_for_so_much() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    let ids: Vec<ServiceId> = (0..=WANT_MAX).map(|_| ServiceId::new()).collect();
    desired.take(snapshot(1, Vec::new()));
    desired.take(moves(2, ids.iter().map(|id| to(*id, 1, 2)).collect()));
    let first = desired.want();
    assert_eq!(first.len(), WANT_MAX);
    let sent = ids.iter().filter(|id| first.contains(&work_ref(WorkKind::Service, id)));
    let work = sent.map(|id| service_work(service(*id, 2))).collect();
    desired.take(v1::PollResponse { work, ..moves(2, Vec::new()) });
    assert_eq!(desired.want().len(), 1);
}

fn run(id: StackRunId, attempt: u32, spoken: bool) -> v1::StackRunJob {
    v1::StackRunJob {
        id: id.to_string(),
        phase: "plan".into(),
        attempt,
        spoken,
        ..v1::StackRunJob::default()
    }
}

fn of_runs(sequence: u64, runs: Vec<v1::StackRunJob>) -> v1::PollResponse {
    let work = runs.into_iter().map(|run| stack_run_work(run, sequence)).collect();
    v1::PollResponse { work, ..moves(sequence, Vec::new()) }
}

#[test]
fn runs_come_and_go_and_are_kept_without_their_services() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    let (id, service_id) = (StackRunId::new(), ServiceId::new());
    desired.take(snapshot(5, vec![service(service_id, 1)]));
    let moved = desired.take(of_runs(6, vec![run(id, 0, false)]));
    assert!(moved.runs && moved.is_any() && moved.changed.is_empty());
    assert!(!desired.take(of_runs(6, vec![run(id, 0, false)])).runs, "it is known");
    desired.save().unwrap();
    let again = open(folder.path(), "u", "t");
    assert_eq!(again.runs(), desired.runs());
    assert_eq!(again.runs()[&id].sequence, 6);
    // A snapshot that does not name it, and one of a console that knows no runs.
    let former = v1::PollResponse { contract: 3, ..snapshot(7, vec![service(service_id, 1)]) };
    assert!(!desired.take(former).runs);
    assert_eq!(desired.runs().len(), 1, "its Job goes on");
    assert!(desired.take(snapshot(8, vec![service(service_id, 1)])).runs);
    assert!(desired.runs().is_empty() && desired.services().len() == 1);
    // And by name.
    let forgotten = vec![work_ref(WorkKind::StackRun, id)];
    assert!(again.take(v1::PollResponse { forgotten, ..moves(9, Vec::new()) }).runs);
    assert!(again.runs().is_empty());
}

#[test]
fn a_run_that_the_console_cannot_read_stays_and_is_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    let id = StackRunId::new();
    desired.take(of_runs(6, vec![run(id, 1, false)]));
    let damaged = vec![damaged_stack_run(id)];
    let whole = v1::PollResponse { work: damaged, ..snapshot(7, Vec::new()) };
    assert!(!desired.take(whole).runs);
    assert_eq!((desired.runs().len(), desired.want()), (1, vec![work_ref(WorkKind::StackRun, id)]));
    desired.take(of_runs(8, vec![run(id, 2, false)]));
    assert_eq!((desired.runs()[&id].job.attempt, desired.want()), (2, Vec::new()));
    desired.miss_run(id);
    assert_eq!(desired.want(), [work_ref(WorkKind::StackRun, id)]);
}

#[test]
fn a_run_whose_job_is_heard_of_no_more_wants_another() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    let id = StackRunId::new();
    for (sequence, attempt, spoken, again) in [
        (6, 1, false, false),
        (7, 1, true, false),
        (8, 1, false, true),
        // Whatever else changes.
        (9, 1, false, true),
        (10, 2, false, false),
    ] {
        desired.take(of_runs(sequence, vec![run(id, attempt, spoken)]));
        assert_eq!(desired.runs()[&id].again, again, "{sequence}");
    }
}

#[test]
fn a_secret_that_is_to_be_written_renders_no_service_again() {
    let folder = tempfile::tempdir().unwrap();
    let desired = open(folder.path(), "u", "t");
    desired.take(snapshot(5, vec![service(ServiceId::new(), 1)]));
    let told = |handle: &str, secrets| {
        let cluster = v1::ClusterData { handle: handle.to_owned(), secrets, ..v1::ClusterData::default() };
        let mut answer = moves(6, Vec::new());
        answer.work.push(work::cluster_work(cluster));
        let moved = desired.take(answer);
        (moved.changed.len(), moved.secrets)
    };
    assert_eq!(told("blue", 0), (1, false));
    assert_eq!(told("blue", 7), (0, true));
    assert_eq!(told("blue", 7), (0, false));
    assert_eq!(told("green", 9), (1, true));
    assert_eq!(desired.cluster().unwrap().secrets, 9);
}
