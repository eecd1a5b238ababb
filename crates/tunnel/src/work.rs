//! Work of an agent in the messages of the contract: as it is sent whole, and as it is moved.

use std::fmt::Display;

use plural_specs::SyncConfig;

use crate::{contract_1, v1};

/// The newest contract: the value of the `contract` fields that this build sends.
///
/// 0: services only, always whole. 1: work of any kind, and moves of services. 2: settings of services as documents, and
/// limits beside them. 3: values of configurations by reference. 4: runs of stacks. 5: Secrets of automations.
pub const CONTRACT: u32 = 5;

/// What an agent of contract 2 quotes as the settings that it cannot read.
const NEEDS_REFERENCES: &str = "the service's configuration has values by reference: update the agent";

/// References in one [`v1::PollRequest::want`] at most. As many fit into a request of 64 KiB.
pub const WANT_MAX: usize = 200;

/// Names one piece of work.
pub fn work_ref(kind: v1::WorkKind, id: impl Display) -> v1::WorkRef {
    v1::WorkRef { kind: kind.into(), id: id.to_string() }
}

/// A service, whole.
pub fn service_work(service: v1::Service) -> v1::Work {
    v1::Work {
        id: service.id.clone(),
        sequence: service.sequence,
        kind: v1::WorkKind::Service.into(),
        item: Some(v1::work::Item::Service(Box::new(service))),
    }
}

/// What templates read of the cluster.
pub fn cluster_work(cluster: v1::ClusterData) -> v1::Work {
    v1::Work {
        id: cluster.id.clone(),
        sequence: 0,
        kind: v1::WorkKind::Cluster.into(),
        item: Some(v1::work::Item::Cluster(cluster)),
    }
}

/// A service that the console cannot read.
pub fn damaged_service(id: impl Display) -> v1::Work {
    v1::Work { id: id.to_string(), sequence: 0, kind: v1::WorkKind::Service.into(), item: None }
}

/// The Job of a run of a stack, whole. The sequence is the run's.
pub fn stack_run_work(run: v1::StackRunJob, sequence: u64) -> v1::Work {
    v1::Work {
        id: run.id.clone(),
        sequence,
        kind: v1::WorkKind::StackRun.into(),
        item: Some(v1::work::Item::StackRun(run)),
    }
}

/// A run that the console cannot read.
pub fn damaged_stack_run(id: impl Display) -> v1::Work {
    v1::Work { id: id.to_string(), sequence: 0, kind: v1::WorkKind::StackRun.into(), item: None }
}

/// The service after the move.
///
/// `None`: `known` is older than the state that the move continues, so that only the whole service helps. A service that is
/// already as far as the move, or further, stays as it is.
pub fn moved(known: &v1::Service, to: &v1::ServiceMove) -> Option<v1::Service> {
    let v1::ServiceMove {
        id,
        from,
        sequence,
        revision_id,
        artifact_digest,
        commit_sha,
        commit_message,
        revision_time_ms,
    } = to;
    if known.id != *id || known.sequence < *from || artifact_digest.is_empty() {
        return None;
    }
    if known.sequence >= *sequence {
        return Some(known.clone());
    }
    Some(v1::Service {
        sequence: *sequence,
        revision_id: revision_id.clone(),
        artifact_digest: artifact_digest.clone(),
        commit_sha: commit_sha.clone(),
        commit_message: commit_message.clone(),
        revision_time_ms: *revision_time_ms,
        ..known.clone()
    })
}

impl v1::Service {
    /// How it is applied, whichever contract it was written for. Settings that this build does not know are ignored.
    ///
    /// # Errors
    /// For a document of which a known setting cannot be read.
    pub fn settings(&self) -> serde_json::Result<SyncConfig> {
        if let Some(references) = &self.references {
            return serde_json::from_str(&references.sync_config_json);
        }
        if self.sync_config_json.is_empty() {
            return Ok(contract_1::document(self.sync_config.clone().unwrap_or_default()));
        }
        serde_json::from_str(&self.sync_config_json)
    }

    /// The same service with values that the agent reads in its cluster. An agent that does not know them says that it cannot read
    /// the service's settings, and leaves its objects as they are.
    #[must_use]
    pub fn with_references(self, values: Vec<v1::ConfigurationReference>) -> Self {
        let settings = serde_json::Value::from(NEEDS_REFERENCES).to_string();
        let references = v1::References { sync_config_json: self.sync_config_json, values };
        Self { sync_config_json: settings, references: Some(references), ..self }
    }

    /// What its project may touch, whichever contract it was written for.
    pub fn project_limits(&self) -> Option<v1::ProjectLimits> {
        let former = || self.sync_config.as_ref().and_then(|config| config.limits.clone());
        self.limits.clone().or_else(former)
    }
}

impl v1::PollResponse {
    /// The same answer with everything in `work` and `forgotten`, whichever contract it was written for. What is of the
    /// cluster comes first.
    #[must_use]
    pub fn normal(self) -> Self {
        let Self {
            cursor,
            snapshot,
            services,
            forgotten_service_ids,
            cluster,
            work,
            moved,
            mut forgotten,
            contract,
            rotate_token,
        } = self;
        let before = cluster.into_iter().map(cluster_work).chain(services.into_iter().map(service_work));
        let work = before.chain(work).collect();
        forgotten.extend(forgotten_service_ids.into_iter().map(|id| work_ref(v1::WorkKind::Service, id)));
        Self {
            cursor,
            snapshot,
            services: Vec::new(),
            forgotten_service_ids: Vec::new(),
            cluster: None,
            work,
            moved,
            forgotten,
            contract,
            rotate_token,
        }
    }

    /// The services that it holds whole, whichever contract it was written for.
    pub fn whole_services(&self) -> impl Iterator<Item = &v1::Service> {
        let of_work = self.work.iter().filter_map(|work| match &work.item {
            Some(v1::work::Item::Service(service)) => Some(&**service),
            Some(v1::work::Item::Cluster(_) | v1::work::Item::StackRun(_)) | None => None,
        });
        self.services.iter().chain(of_work)
    }
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    fn known() -> v1::Service {
        v1::Service {
            id: "a".to_owned(),
            sequence: 4,
            revision_id: "r4".to_owned(),
            artifact_digest: "d4".to_owned(),
            folder: "app".to_owned(),
            commit_sha: "c4".to_owned(),
            configuration: [("color".to_owned(), "green".to_owned())].into(),
            paused: true,
            ..v1::Service::default()
        }
    }

    fn to(from: u64, sequence: u64) -> v1::ServiceMove {
        v1::ServiceMove {
            id: "a".to_owned(),
            from,
            sequence,
            revision_id: format!("r{sequence}"),
            artifact_digest: format!("d{sequence}"),
            commit_sha: format!("c{sequence}"),
            commit_message: format!("m{sequence}"),
            revision_time_ms: i64::try_from(sequence).unwrap(),
        }
    }

    fn at(sequence: u64) -> v1::Service {
        v1::Service {
            sequence,
            revision_id: format!("r{sequence}"),
            artifact_digest: format!("d{sequence}"),
            commit_sha: format!("c{sequence}"),
            commit_message: format!("m{sequence}"),
            revision_time_ms: i64::try_from(sequence).unwrap(),
            ..known()
        }
    }

    #[test]
    fn an_agent_that_knows_no_references_cannot_read_the_settings() {
        let json = r#"{"createNamespace": false}"#.to_owned();
        let plain = v1::Service { sync_config_json: json, ..known() };
        let with = plain.clone().with_references(vec![v1::ConfigurationReference::default()]);
        assert_eq!(with.settings().unwrap(), plain.settings().unwrap());
        // What a build of contract 2 finds.
        let told = v1::Service { references: None, ..with }.settings().unwrap_err().to_string();
        assert!(told.contains("values by reference") && told.contains("update the agent"), "{told}");
    }

    #[test]
    fn a_move_changes_the_revision_and_nothing_else() {
        // From where the agent is, and from before that: two consoles coalesce differently.
        for from in [0, 3, 4] {
            assert_eq!(moved(&known(), &to(from, 7)), Some(at(7)), "from {from}");
        }
        // It got there already, or further.
        for sequence in [3, 4] {
            assert_eq!(moved(&known(), &to(1, sequence)), Some(known()), "to {sequence}");
        }
        // What happened between 4 and 5 is no move, for all the agent knows.
        assert_eq!(moved(&known(), &to(5, 7)), None);
        assert_eq!(moved(&known(), &v1::ServiceMove { id: "b".to_owned(), ..to(4, 7) }), None);
        assert_eq!(moved(&known(), &v1::ServiceMove { artifact_digest: String::new(), ..to(4, 7) }), None);
    }

    #[test]
    fn moves_one_by_one_end_where_one_move_does() {
        let steps = [to(4, 5), to(5, 6), to(6, 9)];
        let by_steps = steps.iter().try_fold(known(), |service, step| moved(&service, step));
        assert_eq!(by_steps, moved(&known(), &to(4, 9)));
        // Repeated, and an older one after it.
        let by_steps = by_steps.unwrap();
        assert_eq!(moved(&by_steps, &to(4, 9)), Some(by_steps.clone()));
        assert_eq!(moved(&by_steps, &to(4, 5)), Some(by_steps));
    }

    #[test]
    fn either_shape_of_an_answer_says_the_same() {
        let cluster = v1::ClusterData { id: "c".to_owned(), ..v1::ClusterData::default() };
        let cursor = Some(v1::Cursor { epoch: "e".to_owned(), sequence: 9, mark: 1 });
        let before = v1::PollResponse {
            cursor: cursor.clone(),
            snapshot: true,
            services: vec![at(7), v1::Service { id: "b".to_owned(), ..at(2) }],
            forgotten_service_ids: vec!["f".to_owned()],
            cluster: Some(cluster.clone()),
            contract: 2,
            rotate_token: true,
            ..v1::PollResponse::default()
        };
        let now = v1::PollResponse {
            cursor,
            snapshot: true,
            work: vec![
                cluster_work(cluster),
                service_work(at(7)),
                service_work(v1::Service { id: "b".to_owned(), ..at(2) }),
            ],
            forgotten: vec![work_ref(v1::WorkKind::Service, "f")],
            contract: 2,
            rotate_token: true,
            ..v1::PollResponse::default()
        };
        assert_eq!(before.clone().normal(), now);
        assert_eq!(now.clone().normal(), now);
        for answer in [&before, &now] {
            let ids: Vec<&str> = answer.whole_services().map(|service| service.id.as_str()).collect();
            assert_eq!(ids, ["a", "b"]);
        }
    }

    #[test]
    fn settings_are_read_in_either_shape() {
        let limits = v1::ProjectLimits { project: "blue".to_owned(), ..v1::ProjectLimits::default() };
        let given: SyncConfig =
            serde_json::from_str(r#"{"policy": {"prunePercent": 30}, "ofTomorrow": {"a": 1}}"#).unwrap();
        let former = contract_1::message(given.clone(), Some(limits.clone()));
        let before = v1::Service { sync_config: Some(former), ..known() };
        let json = serde_json::to_string(&given).unwrap();
        let now = v1::Service { sync_config_json: json, limits: Some(limits.clone()), ..known() };
        for service in [before, now] {
            assert_eq!(service.settings().unwrap(), given);
            assert_eq!(service.project_limits(), Some(limits.clone()));
        }
        let damaged = |json: &str| v1::Service { sync_config_json: json.to_owned(), ..known() }.settings();
        for json in ["{", r#"{"policy": {"prunePercent": "many"}}"#, r#"{"policy": {"prune": 1}}"#] {
            assert!(damaged(json).is_err(), "{json}");
        }
    }

    #[test]
    fn work_of_an_unknown_kind_is_empty_and_the_rest_is_read() {
        // A later console sends a message in field 13.
        let mut unknown = Vec::new();
        prost::encoding::string::encode(1, &"x".to_owned(), &mut unknown);
        prost::encoding::bytes::encode(13, &b"\x0a\x01y".to_vec(), &mut unknown);
        let mut bytes = Vec::new();
        prost::encoding::bytes::encode(6, &unknown, &mut bytes);
        bytes.extend(
            v1::PollResponse { work: vec![service_work(at(7))], ..Default::default() }.encode_to_vec(),
        );
        let answer = v1::PollResponse::decode(bytes.as_slice()).unwrap();
        assert_eq!((answer.work.len(), answer.work[0].id.as_str(), &answer.work[0].item), (2, "x", &None));
        assert_eq!(answer.whole_services().count(), 1);
    }

    #[test]
    fn a_run_is_work_of_its_own_kind() {
        let run = v1::StackRunJob { id: "r".to_owned(), attempt: 2, ..v1::StackRunJob::default() };
        let work = stack_run_work(run.clone(), 7);
        assert_eq!((work.id.as_str(), work.sequence, work.kind()), ("r", 7, v1::WorkKind::StackRun));
        assert_eq!(work.item, Some(v1::work::Item::StackRun(run)));
        let damaged = damaged_stack_run("r");
        assert_eq!((damaged.kind(), damaged.item), (v1::WorkKind::StackRun, None));
        let answer = v1::PollResponse { work: vec![work], ..v1::PollResponse::default() };
        assert_eq!(answer.whole_services().count(), 0);
    }

    #[test]
    fn the_longest_request_fits_the_door() {
        let id = "0190b8a2-7c11-7def-8000-0123456789ab";
        let request = v1::PollRequest {
            cursor: Some(v1::Cursor { epoch: id.to_owned(), sequence: u64::MAX, mark: u64::MAX }),
            contract: CONTRACT,
            want: vec![work_ref(v1::WorkKind::Service, id); WANT_MAX],
            whole: true,
        };
        assert!(request.encoded_len() < 64 << 10);
        assert!(crate::weigh::<v1::PollRequest>(&request.encode_to_vec()).is_ok());
    }
}
