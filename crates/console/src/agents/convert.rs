//! Between the contract's messages and the use cases' types.

use std::sync::Arc;

use plural_app::{
    AgentFacts, AgentReport, ClusterData, FeedCursor, PollAnswer, ReportedService, ServiceSpec,
};
use plural_core::{
    ClusterDistro, ClusterFacts, Component, ComponentChild, ComponentKey, ComponentState, Intent,
    NamespaceContent, ServiceError, ServiceId, ServiceMetadata, SyncAsk, SyncReport,
};
use plural_tunnel::v1;
use tonic::Status;
use uuid::Uuid;

pub(super) fn cursor(cursor: v1::Cursor) -> FeedCursor {
    let v1::Cursor { epoch, sequence, mark } = cursor;
    FeedCursor { epoch: Arc::from(epoch), sequence, mark }
}

pub(super) fn poll_response(answer: PollAnswer) -> v1::PollResponse {
    let PollAnswer { cursor, snapshot, services, moved: _, forgotten, cluster, rotate_token } = answer;
    v1::PollResponse {
        cursor: Some(v1::Cursor {
            epoch: cursor.epoch.to_string(),
            sequence: cursor.sequence,
            mark: cursor.mark,
        }),
        snapshot,
        services: services.into_iter().map(service).collect(),
        forgotten_service_ids: forgotten
            .iter()
            .filter_map(|work| work.as_service())
            .map(|id| id.to_string())
            .collect(),
        cluster: cluster.map(cluster_data),
        work: Vec::new(),
        moved: Vec::new(),
        forgotten: Vec::new(),
        rotate_token,
    }
}

fn service(spec: ServiceSpec) -> v1::Service {
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
        limits,
        source_url,
        contexts,
    } = spec;
    let SyncAsk { request, plan, approved, promotion } = ask;
    let managed_namespace = rendering.managed_namespace.clone().map(namespace_content);
    v1::Service {
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
        configuration: configuration.0.into_iter().collect(),
        dry_run,
        sync_config: Some(super::sync::settings(sync_config, limits, source_url)),
        revision_time_ms: revision_at.timestamp_millis(),
        seed,
        templated,
        sync_request: request.map(super::sync::request),
        paused,
        approved_prune_digest: approved.map(|approved| approved.digest).unwrap_or_default(),
        destroy_needs_approval: cascaded,
        plan_request_id: plan.map(|id| id.to_string()).unwrap_or_default(),
        rendering: super::rendering::rendering(rendering, values),
        contexts_json: if contexts.is_empty() {
            String::new()
        } else {
            serde_json::Value::Object(contexts).to_string()
        },
        promotion: promotion.map(super::sync::promotion),
        source_root,
        managed_namespace,
        agent_upgrade,
    }
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
    let ClusterData { id, name, handle, distro, version, tags, metadata } = data;
    v1::ClusterData {
        id: id.to_string(),
        name,
        handle,
        distro: distro.map(|distro| distro.as_str().to_owned()).unwrap_or_default(),
        version,
        tags: tags.into_iter().collect(),
        metadata_json: serde_json::Value::Object(metadata).to_string(),
    }
}

pub(super) fn facts(info: v1::ClusterInfo, agent_version: Option<String>) -> AgentFacts {
    let v1::ClusterInfo { kubernetes_version, distro, node_count, pod_count, namespace_count } = info;
    AgentFacts {
        facts: ClusterFacts {
            current_version: some(kubernetes_version),
            agent_version: agent_version.and_then(some),
            node_count: Some(node_count),
            pod_count: Some(pod_count),
            namespace_count: Some(namespace_count),
        },
        distro: ClusterDistro::parse(&distro),
    }
}

pub(super) fn report(request: v1::ReportRequest) -> Result<AgentReport, Status> {
    let v1::ReportRequest { report_id, services, cluster } = request;
    let services = services.into_iter().map(reported).collect::<Result<Vec<_>, _>>()?;
    Ok(AgentReport { id: report_id, services, facts: cluster.map(|cluster| facts(cluster, None)) })
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
        },
    })
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
    let v1::ServiceError { source, message, warning, location } = error;
    ServiceError { source, message, warning, location: some(location) }
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
