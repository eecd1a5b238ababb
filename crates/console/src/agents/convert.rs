//! Between the contract's messages and the use cases' types.

use std::collections::BTreeMap;
use std::sync::Arc;

use plural_app::agent::{AgentFacts, AgentReport, ReportedService};
use plural_app::agent_poll::{ClusterData, PollAnswer, PollAsked, ServiceSpec};
use plural_app::agent_run::ReportedRun;
use plural_app::fleet::{FeedCursor, ServiceMove};
use plural_app::service_import::StackImports;
use plural_core::cluster::{ClusterDistro, ClusterFacts};
use plural_core::cluster_issuer::{ClusterIssuer, IssuerReport};
use plural_core::component::{Component, ComponentChild, ComponentKey, ComponentState};
use plural_core::ids::ServiceId;
use plural_core::managed_namespace::NamespaceContent;
use plural_core::service::{Configuration, FileKeyRef, Intent, KeyRef, Reference, VaultKeyRef};
use plural_core::service_error::ServiceError;
use plural_core::service_metadata::ServiceMetadata;
use plural_core::sync::{PlanCandidate, ReportedCandidate, SyncAsk, SyncReport};
use plural_core::work::{Contract, ServiceHead, SourceHead, WorkKind, WorkRef};
use plural_tunnel::work::{
    WANT_MAX, cluster_work, damaged_service, damaged_stack_run, service_work, stack_run_work, work_ref,
};
use plural_tunnel::{contract_1, v1};
use tonic::Status;
use uuid::Uuid;

pub(super) fn cursor(cursor: v1::Cursor) -> FeedCursor {
    let v1::Cursor { epoch, sequence, mark } = cursor;
    FeedCursor { epoch: Arc::from(epoch), sequence, mark }
}

/// What a poll asks for.
pub(super) fn asked(request: v1::PollRequest) -> Result<PollAsked, Status> {
    let v1::PollRequest { cursor: read, contract, want, whole } = request;
    let want = want.iter().take(WANT_MAX).filter_map(|work| wanted(work).transpose());
    Ok(PollAsked {
        cursor: read.map(cursor),
        contract: Contract(contract),
        want: want.collect::<Result<_, _>>()?,
        whole,
    })
}

/// None of a kind that only a later agent knows.
fn wanted(work: &v1::WorkRef) -> Result<Option<WorkRef>, Status> {
    let kind = match work.kind() {
        v1::WorkKind::Unknown => return Ok(None),
        v1::WorkKind::Service => WorkKind::Service,
        v1::WorkKind::Cluster => WorkKind::Cluster,
        v1::WorkKind::StackRun => WorkKind::StackRun,
    };
    Ok(Some(WorkRef { kind, id: id(&work.id)? }))
}

pub(super) fn reference(work: WorkRef) -> v1::WorkRef {
    let WorkRef { kind, id } = work;
    let kind = match kind {
        WorkKind::Service => v1::WorkKind::Service,
        WorkKind::Cluster => v1::WorkKind::Cluster,
        WorkKind::StackRun => v1::WorkKind::StackRun,
    };
    work_ref(kind, id)
}

/// The answer, for an agent that speaks this contract.
///
/// # Errors
/// For settings that cannot be written.
pub(super) fn poll_response(answer: PollAnswer, contract: Contract) -> Result<v1::PollResponse, Status> {
    let PollAnswer {
        cursor,
        snapshot,
        services,
        damaged,
        moved,
        runs,
        damaged_runs,
        cluster,
        forgotten,
        rotate_token,
    } = answer;
    let FeedCursor { epoch, sequence, mark } = cursor;
    let response = v1::PollResponse {
        cursor: Some(v1::Cursor { epoch: epoch.to_string(), sequence, mark }),
        snapshot,
        contract: contract.min(Contract::NEWEST).0,
        rotate_token,
        ..v1::PollResponse::default()
    };
    let services: Vec<v1::Service> =
        services.into_iter().map(|spec| service(spec, contract)).collect::<Result<_, _>>()?;
    let cluster = cluster.map(cluster_data);
    if contract < Contract::WORK {
        // Agents of the previous build read nothing else, and a snapshot without services would have them forget all. To be
        // removed with the release after the next: whoever updates its agents through a service does it by these answers.
        let forgotten = forgotten.iter().filter_map(|work| work.as_service());
        return Ok(v1::PollResponse {
            services,
            forgotten_service_ids: forgotten.map(|id| id.to_string()).collect(),
            cluster,
            ..response
        });
    }
    let services = services.into_iter().map(service_work);
    // Agents of an earlier contract are asked for none.
    let runs: Vec<v1::Work> = runs
        .into_iter()
        .map(|run| super::runs::job(run).map(|(job, sequence)| stack_run_work(job, sequence)))
        .collect::<Result<_, _>>()?;
    Ok(v1::PollResponse {
        work: cluster
            .map(cluster_work)
            .into_iter()
            .chain(services)
            .chain(damaged.into_iter().map(damaged_service))
            .chain(runs)
            .chain(damaged_runs.into_iter().map(damaged_stack_run))
            .collect(),
        moved: moved.into_iter().map(service_move).collect(),
        forgotten: forgotten.into_iter().map(reference).collect(),
        ..response
    })
}

fn service_move(step: ServiceMove) -> v1::ServiceMove {
    let ServiceMove { id, from, sequence, head: ServiceHead { revision_id, revision_at, source } } = step;
    let (digest, sha, message) = match source.as_deref() {
        Some(SourceHead { digest, sha, message }) => (hex::encode(digest), sha.clone(), message.clone()),
        // Not made: a service without an artifact does not move. An agent asks for the whole service then.
        None => (String::new(), None, None),
    };
    v1::ServiceMove {
        id: id.to_string(),
        from,
        sequence,
        revision_id: revision_id.to_string(),
        artifact_digest: digest,
        commit_sha: sha.unwrap_or_default(),
        commit_message: message.unwrap_or_default(),
        revision_time_ms: revision_at.timestamp_millis(),
    }
}

fn service(spec: ServiceSpec, contract: Contract) -> Result<v1::Service, Status> {
    let ServiceSpec {
        id,
        name,
        namespace,
        intent,
        revision_id,
        sequence,
        artifact_digest,
        folder,
        source_root,
        sha,
        message,
        configuration,
        dry_run,
        paused,
        cascaded,
        agent_upgrade,
        sync_config,
        revision_at,
        seed,
        templated,
        rendering,
        values,
        ask,
        project,
        limits,
        source_url,
        contexts,
        imports,
    } = spec;
    let SyncAsk { request, plan, approved, promotion, candidates } = ask;
    let managed_namespace = rendering.managed_namespace.clone().map(namespace_content);
    let limits = limits.map(|named| super::sync::limits(named, source_url));
    let settings = if contract < Contract::DOCUMENTS {
        let former = contract_1::message(sync_config, limits);
        v1::Service { sync_config: Some(former), ..v1::Service::default() }
    } else {
        let json = serde_json::to_string(&sync_config).map_err(|error| {
            Status::internal(format!("cannot write the settings of service {id}: {error}"))
        })?;
        v1::Service { sync_config_json: json, limits, ..v1::Service::default() }
    };
    let Configuration { values: configuration, references } = configuration;
    // What is destroyed is not rendered: an agent that knows no references does it as well.
    let references = if intent == Intent::Apply { references } else { BTreeMap::new() };
    let service = v1::Service {
        id: id.to_string(),
        name: name.to_string(),
        namespace: namespace.to_string(),
        intent: match intent {
            Intent::Apply => v1::Intent::Apply,
            Intent::Destroy => v1::Intent::Destroy,
        }
        .into(),
        revision_id: revision_id.to_string(),
        sequence,
        artifact_digest: artifact_digest.unwrap_or_default(),
        folder,
        commit_sha: sha.unwrap_or_default(),
        commit_message: message.unwrap_or_default(),
        configuration: configuration.into_iter().collect(),
        dry_run,
        revision_time_ms: revision_at.timestamp_millis(),
        seed,
        templated,
        sync_request: request.map(super::sync::request),
        paused,
        approved_prune_digest: approved.map(|approved| approved.digest).unwrap_or_default(),
        destroy_needs_approval: cascaded,
        plan_request_id: plan.map(|id| id.to_string()).unwrap_or_default(),
        rendering: super::rendering::rendering(rendering, values),
        contexts_json: json_of(contexts),
        imports_json: imports_of(&imports)?,
        promotion: promotion.map(super::sync::promotion),
        candidates: candidates.into_iter().map(plan_candidate).collect(),
        source_root,
        managed_namespace,
        agent_upgrade,
        project,
        ..settings
    };
    if references.is_empty() {
        return Ok(service);
    }
    Ok(service.with_references(references.into_iter().map(configuration_reference).collect()))
}

fn plan_candidate(asked: PlanCandidate) -> v1::PlanCandidate {
    let PlanCandidate { id, artifact_digest, folder, source_root, sha } = asked;
    v1::PlanCandidate { id: id.to_string(), artifact_digest, folder, source_root, commit_sha: sha }
}

/// The same of outputs of stacks, which many services share.
fn imports_of(imports: &StackImports) -> Result<String, Status> {
    if imports.is_empty() {
        return Ok(String::new());
    }
    serde_json::to_string(imports).map_err(|_| Status::internal("cannot write the outputs of stacks"))
}

/// A JSON object; nothing of an empty one.
fn json_of(map: serde_json::Map<String, serde_json::Value>) -> String {
    if map.is_empty() { String::new() } else { serde_json::Value::Object(map).to_string() }
}

fn configuration_reference((name, reference): (String, Reference)) -> v1::ConfigurationReference {
    let (kind, namespace, object, key) = match reference {
        Reference::SecretKeyRef(KeyRef { name, key, namespace }) => {
            (v1::ReferenceKind::ReferenceSecret, namespace, name, Some(key))
        }
        Reference::ConfigMapKeyRef(KeyRef { name, key, namespace }) => {
            (v1::ReferenceKind::ReferenceConfigMap, namespace, name, Some(key))
        }
        Reference::VaultKeyRef(VaultKeyRef { path, key }) => {
            (v1::ReferenceKind::ReferenceVault, None, path, Some(key))
        }
        Reference::SopsKeyRef(FileKeyRef { file, key }) => {
            (v1::ReferenceKind::ReferenceSops, None, file, key)
        }
        Reference::AgeKeyRef(FileKeyRef { file, key }) => (v1::ReferenceKind::ReferenceAge, None, file, key),
    };
    let (namespace, key) = (namespace.unwrap_or_default(), key.unwrap_or_default());
    v1::ConfigurationReference { name, kind: kind.into(), namespace, object, key }
}

fn namespace_content(content: NamespaceContent) -> v1::ManagedNamespace {
    let NamespaceContent { labels, annotations, pull_secrets } = content;
    v1::ManagedNamespace {
        labels: labels.into_iter().collect(),
        annotations: annotations.into_iter().collect(),
        has_pull_secrets: pull_secrets.is_some(),
        pull_secrets: pull_secrets.unwrap_or_default(),
    }
}

fn cluster_data(data: ClusterData) -> v1::ClusterData {
    let ClusterData { id, name, handle, distro, version, tags, metadata, secrets } = data;
    v1::ClusterData {
        id: id.to_string(),
        name,
        handle,
        distro: distro.map(|distro| distro.as_str().to_owned()).unwrap_or_default(),
        version,
        tags: tags.into_iter().collect(),
        metadata_json: serde_json::Value::Object(metadata).to_string(),
        secrets,
    }
}

pub(super) fn facts(info: v1::ClusterInfo, agent_version: Option<String>) -> AgentFacts {
    let v1::ClusterInfo { kubernetes_version, distro, node_count, pod_count, namespace_count, issuer } = info;
    AgentFacts {
        facts: ClusterFacts {
            current_version: some(kubernetes_version),
            agent_version: agent_version.and_then(some),
            node_count: Some(node_count),
            pod_count: Some(pod_count),
            namespace_count: Some(namespace_count),
        },
        distro: ClusterDistro::parse(&distro),
        issuer: issuer.map_or(IssuerReport::Untold, |issuer| issuer_of(&issuer)),
    }
}

/// What an agent says of its cluster's issuer. What is none changes nothing: an agent decides what it says, and not how much is logged.
fn issuer_of(told: &v1::ClusterIssuer) -> IssuerReport {
    let v1::ClusterIssuer { issuer, keys_json } = told;
    match ClusterIssuer::reported(issuer, keys_json) {
        Ok(Some(issuer)) => IssuerReport::Signs(issuer),
        Ok(None) => IssuerReport::Nobody,
        Err(error) => {
            tracing::debug!(%error, "an agent reports an issuer that is none");
            IssuerReport::Untold
        }
    }
}

/// What an agent says of services and its cluster, and what it says of runs.
pub(super) fn report(request: v1::ReportRequest) -> Result<(AgentReport, Vec<ReportedRun>), Status> {
    let v1::ReportRequest { report_id, services, cluster, stack_runs } = request;
    let services = services.into_iter().map(reported).collect::<Result<Vec<_>, _>>()?;
    let runs = stack_runs.into_iter().filter_map(|run| super::runs::reported(run).transpose());
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let facts = cluster.map(|cluster| facts(cluster, None));
    Ok((AgentReport { id: report_id, services, facts }, runs))
}

fn reported(service: v1::ServiceReport) -> Result<ReportedService, Status> {
    let v1::ServiceReport {
        service_id,
        revision_id,
        sequence,
        applied,
        destroyed,
        components_set,
        components,
        errors,
        commit_sha,
        progress,
        pending_approval,
        plan,
        drift,
        sync_request_done,
        promoted,
        metadata,
        candidates,
    } = service;
    let id: ServiceId = id(&service_id)?;
    Ok(ReportedService {
        id,
        revision_id: self::id(&revision_id)?,
        sequence,
        sha: some(commit_sha),
        applied,
        destroyed,
        components: components_set
            .then(|| components.into_iter().map(|component| component_of(id, component)).collect()),
        errors: errors.into_iter().map(error).collect(),
        metadata: metadata.map(|told| {
            let v1::ServiceMetadata { images, fqdns } = told;
            ServiceMetadata { images, fqdns }
        }),
        sync: SyncReport {
            progress: progress.map(super::sync::progress),
            pending: pending_approval.map(super::sync::pending),
            plan: plan.map(super::sync::plan).transpose()?,
            drift: drift.into_iter().filter_map(super::sync::drift).collect(),
            request_done: some(sync_request_done),
            promoted: promoted.map(super::sync::promoted),
            candidates: candidates
                .into_iter()
                .filter_map(|told| candidate(told).transpose())
                .collect::<Result<_, _>>()?,
        },
    })
}

/// An answer without a plan, which only another agent gives, is left out.
fn candidate(told: v1::CandidatePlan) -> Result<Option<ReportedCandidate>, Status> {
    let v1::CandidatePlan { plan, problems } = told;
    let Some(plan) = plan.map(super::sync::plan).transpose()? else { return Ok(None) };
    Ok(Some(ReportedCandidate { plan, problems: problems.into_iter().map(error).collect() }))
}

fn component_of(service_id: ServiceId, component: v1::Component) -> Component {
    let state = state_of(component.state());
    let v1::Component {
        group,
        version,
        kind,
        namespace,
        name,
        state: _,
        synced,
        uid,
        message,
        phase: _,
        wave: _,
        hook: _,
        children,
    } = component;
    Component {
        // Derived from service and object where it is stored.
        id: Uuid::nil(),
        service_id,
        key: ComponentKey { group, version, kind, namespace, name },
        state,
        synced,
        uid: some(uid),
        message: some(message),
        children: children.into_iter().map(child).collect(),
    }
}

fn child(child: v1::ComponentChild) -> ComponentChild {
    let state = state_of(child.state());
    let v1::ComponentChild { uid, parent_uid, group, version, kind, namespace, name, state: _, message } =
        child;
    ComponentChild {
        key: ComponentKey { group, version, kind, namespace, name },
        uid,
        parent_uid: some(parent_uid),
        state,
        message: some(message),
    }
}

fn state_of(state: v1::ComponentState) -> Option<ComponentState> {
    match state {
        v1::ComponentState::Unknown => None,
        v1::ComponentState::Running => Some(ComponentState::Running),
        v1::ComponentState::Pending => Some(ComponentState::Pending),
        v1::ComponentState::Failed => Some(ComponentState::Failed),
        v1::ComponentState::Paused => Some(ComponentState::Paused),
    }
}

fn error(error: v1::ServiceError) -> ServiceError {
    let v1::ServiceError { source, message, warning, location, terminal } = error;
    ServiceError { source, message, warning, terminal, location: some(location) }
}

pub(super) fn id<T: std::str::FromStr>(text: &str) -> Result<T, Status>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| Status::invalid_argument(error.to_string()))
}

pub(super) fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use plural_app::rendering::RenderingValues;
    use plural_app::sync::NamedLimits;
    use plural_core::ids::{RevisionId, StackRunId};
    use plural_core::project_limits::ProjectLimits;
    use plural_core::service::Rendering;

    use super::*;

    fn spec() -> ServiceSpec {
        let limits = ProjectLimits { namespaces: vec!["apps".into()], ..ProjectLimits::default() };
        ServiceSpec {
            id: ServiceId::new(),
            name: "web".parse().unwrap(),
            project: "shop".to_owned(),
            namespace: "apps".parse().unwrap(),
            intent: Intent::Apply,
            revision_id: RevisionId::new(),
            sequence: 5,
            artifact_digest: Some("d5".into()),
            folder: "app".into(),
            source_root: "deploy".into(),
            sha: Some("c5".into()),
            message: Some("fifth".into()),
            configuration: Configuration::from([("color".to_owned(), "green".to_owned())]),
            dry_run: false,
            paused: true,
            cascaded: false,
            agent_upgrade: false,
            sync_config: serde_json::from_str(r#"{"policy": {"prune": false, "prunePercent": 30}}"#).unwrap(),
            revision_at: DateTime::from_timestamp_millis(1_750_000_000_456).unwrap(),
            seed: vec![1, 2, 3],
            templated: true,
            rendering: Rendering::default(),
            values: RenderingValues::default(),
            ask: SyncAsk::default(),
            limits: Some(NamedLimits { project: "blue".into(), limits }),
            source_url: "https://example.com/a".into(),
            contexts: serde_json::Map::new(),
            imports: StackImports::new(),
        }
    }

    fn answer() -> PollAnswer {
        let head = ServiceHead {
            revision_id: RevisionId::new(),
            revision_at: DateTime::from_timestamp_millis(1_750_000_000_123).unwrap(),
            source: Some(Arc::new(SourceHead {
                digest: [7; 32],
                sha: Some("c1".into()),
                message: Some("first".into()),
            })),
        };
        PollAnswer {
            cursor: FeedCursor { epoch: "e".into(), sequence: 9, mark: 3 },
            snapshot: false,
            services: vec![spec()],
            damaged: vec![ServiceId::new()],
            moved: vec![ServiceMove { id: ServiceId::new(), from: 4, sequence: 6, head }],
            runs: Vec::new(),
            damaged_runs: vec![StackRunId::new()],
            cluster: Some(ClusterData {
                id: plural_core::ids::ClusterId::new(),
                name: "Blue".into(),
                handle: "blue".into(),
                distro: None,
                version: "1.36".into(),
                tags: [("env".to_owned(), "prod".to_owned())].into(),
                metadata: serde_json::Map::new(),
                secrets: 0,
            }),
            forgotten: vec![
                WorkRef::service(ServiceId::new()),
                WorkRef::cluster(plural_core::ids::ClusterId::new()),
            ],
            rotate_token: true,
        }
    }

    #[test]
    fn an_agent_is_answered_in_the_shape_of_its_contract() {
        let told = answer();
        let now = poll_response(told.clone(), Contract::NEWEST).unwrap();
        assert!(now.services.is_empty() && now.forgotten_service_ids.is_empty() && now.cluster.is_none());
        assert_eq!((now.work.len(), now.moved.len(), now.forgotten.len()), (4, 1, 2));
        assert_eq!(now.work[3], damaged_stack_run(told.damaged_runs[0]));
        assert_eq!(now.work[2], damaged_service(told.damaged[0]), "it is named, and nothing is said of it");
        let step = &now.moved[0];
        assert_eq!((step.from, step.sequence, step.revision_time_ms), (4, 6, 1_750_000_000_123));
        assert_eq!(
            (step.artifact_digest.as_str(), step.commit_sha.as_str()),
            ("07".repeat(32).as_str(), "c1")
        );
        assert_eq!(step.commit_message, "first");

        let before = poll_response(told.clone(), Contract::SERVICES).unwrap();
        assert!(before.work.is_empty() && before.moved.is_empty() && before.forgotten.is_empty());
        assert_eq!(before.cluster.map(|cluster| cluster.handle), Some("blue".to_owned()));
        let service = told.forgotten[0].id.to_string();
        assert_eq!(before.forgotten_service_ids, [service], "a kind that it does not know is not named");
        assert!(now.rotate_token && before.rotate_token);
        assert_eq!((now.cursor.clone(), now.snapshot), (before.cursor, before.snapshot));
    }

    #[test]
    fn settings_come_in_the_shape_of_the_contract() {
        let told = answer();
        let later = Contract(Contract::NEWEST.0 + 1);
        let services = [Contract::SERVICES, Contract::WORK, Contract::DOCUMENTS, later].map(|contract| {
            let answer = poll_response(told.clone(), contract).unwrap();
            assert_eq!(
                answer.contract,
                contract.0.min(Contract::NEWEST.0),
                "it says for which it is written"
            );
            let service = answer.whole_services().next().unwrap().clone();
            assert_eq!(service.settings().unwrap(), told.services[0].sync_config);
            let limits = service.project_limits().unwrap();
            assert_eq!(
                (limits.project.as_str(), limits.namespaces.as_slice()),
                ("blue", ["apps".to_owned()].as_slice())
            );
            assert_eq!(limits.repository_url, "https://example.com/a");
            assert_eq!(service.sync_config.is_some(), contract < Contract::DOCUMENTS);
            assert_eq!(service.sync_config_json.is_empty(), contract < Contract::DOCUMENTS);
            assert_eq!(service.limits.is_none(), contract < Contract::DOCUMENTS);
            // The rest is the same in all.
            v1::Service { sync_config: None, sync_config_json: String::new(), limits: None, ..service }
        });
        assert_eq!(
            (services[0].id.as_str(), services[0].sequence),
            (told.services[0].id.to_string().as_str(), 5)
        );
        assert!(services[0].paused && services[0].commit_sha == "c5");
        assert!(services.iter().all(|service| *service == services[0]));
    }

    #[test]
    fn what_is_asked_for_is_read_and_bounded() {
        let known = WorkRef::service(ServiceId::new());
        let unknown = v1::WorkRef { kind: 99, id: "whatever".into() };
        let mut want = vec![unknown, reference(known)];
        let request = |want| v1::PollRequest { cursor: None, contract: 1, want, whole: true };
        let read = asked(request(want.clone())).unwrap();
        assert_eq!((read.want, read.contract, read.whole), (vec![known], Contract::WORK, true));
        let wrong = asked(request(vec![work_ref(v1::WorkKind::Service, "no id")])).unwrap_err();
        assert_eq!(wrong.code(), tonic::Code::InvalidArgument);
        want.resize(WANT_MAX + 7, reference(known));
        assert!(asked(request(want)).unwrap().want.len() < WANT_MAX + 1);
        assert_eq!(asked(v1::PollRequest::default()).unwrap().contract, Contract::SERVICES);
    }
}
