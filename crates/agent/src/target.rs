//! From what the console says of a service to what the engine is told.

use std::time::Duration;

use plural_core::{ProjectLimits, ServiceId};
use plural_sync::{
    GroupKind, Limits, Normalizer, ObjectKey, Policy, Promotion, PromotionAction, Request, Target,
};
use plural_tunnel::v1;

pub(crate) fn target(id: ServiceId, service: &v1::Service) -> Target {
    let v1::SyncConfig {
        create_namespace,
        enforce_namespace,
        delete_namespace,
        require_ownership,
        namespace_labels,
        namespace_annotations,
        diff_normalizers,
        policy,
        service_account,
        limits,
        ..
    } = service.sync_config.clone().unwrap_or_default();
    let request = service.sync_request.as_ref().filter(|asked| !asked.id.is_empty()).map(request);
    let promotion = service.promotion.as_ref().filter(|said| !said.id.is_empty()).map(promotion);
    Target {
        dry_run: service.dry_run,
        paused: service.paused,
        create_namespace,
        enforce_namespace,
        delete_namespace,
        require_ownership,
        namespace_labels: namespace_labels.into_iter().collect(),
        namespace_annotations: namespace_annotations.into_iter().collect(),
        normalizers: diff_normalizers.into_iter().map(normalizer).collect(),
        policy: policy.map(self::policy).unwrap_or_default(),
        service_account: (!service_account.is_empty()).then_some(service_account),
        agent_upgrade: service.agent_upgrade,
        limits: self::limits(service, limits),
        approved_prune: (!service.approved_prune_digest.is_empty())
            .then(|| service.approved_prune_digest.clone()),
        destroy_needs_approval: service.destroy_needs_approval,
        keeps_found_namespace: service.managed_namespace.is_some(),
        request,
        promotion,
        ..Target::new(id, service.name.clone(), service.namespace.clone())
    }
}

fn normalizer(normalizer: v1::DiffNormalizer) -> Normalizer {
    let v1::DiffNormalizer { name, kind, namespace, json_pointers, backfill, managers } = normalizer;
    Normalizer { name, kind, namespace, pointers: json_pointers, backfill, managers }
}

fn policy(policy: v1::SyncPolicy) -> Policy {
    let v1::SyncPolicy {
        manual,
        no_prune,
        no_self_heal,
        retry_limit,
        retry_seconds,
        retry_max_seconds,
        wave_timeout_seconds,
        no_wave_wait,
        prune_percent,
        prune_objects,
    } = policy;
    // Retries are the scheduler's, see [`Retries`].
    let _ = (retry_limit, retry_seconds, retry_max_seconds);
    let usual = Policy::default();
    Policy {
        manual,
        no_prune,
        no_self_heal,
        no_wave_wait,
        wave_timeout: match wave_timeout_seconds {
            0 => usual.wave_timeout,
            seconds => Duration::from_secs(seconds.into()),
        },
        prune_percent: if prune_percent == 0 { usual.prune_percent } else { prune_percent },
        prune_objects: if prune_objects == 0 { usual.prune_objects } else { prune_objects as usize },
    }
}

fn limits(service: &v1::Service, limits: Option<v1::ProjectLimits>) -> Option<Limits> {
    // What upgrades the agent is the installation's matter, not the project's.
    let limits = limits.filter(|_| !service.agent_upgrade)?;
    let v1::ProjectLimits {
        project,
        namespaces,
        allowed_kinds,
        denied_kinds,
        no_cluster_scoped,
        cluster_kinds,
        repositories,
        repository_url,
        service_accounts,
        require_service_account,
    } = limits;
    let chart = service.rendering.as_ref().and_then(|rendering| rendering.helm.as_ref());
    Some(Limits {
        project,
        rules: ProjectLimits {
            namespaces,
            allowed_kinds,
            denied_kinds,
            no_cluster_scoped,
            cluster_kinds,
            // A managed namespace is read from nowhere.
            repositories: if service.managed_namespace.is_some() { Vec::new() } else { repositories },
            service_accounts,
            require_service_account,
            // The console names it in the service's own settings.
            default_service_account: None,
        },
        repository_url,
        chart_url: chart.map(|helm| helm.url.clone()).filter(|url| !url.is_empty()),
    })
}

/// A sync that a person asked for.
fn request(request: &v1::SyncRequest) -> Request {
    let v1::SyncRequest { id, objects, run_tests, repeat_hooks, prune } = request.clone();
    Request { id, objects: objects.into_iter().map(key).collect(), run_tests, repeat_hooks, prune }
}

/// A word to canaries. One of a later console that we do not know is told as such.
fn promotion(request: &v1::PromotionRequest) -> Promotion {
    let v1::PromotionRequest { id, promotion, objects, gates } = request.clone();
    let action = match v1::Promotion::try_from(promotion) {
        Ok(v1::Promotion::Proceed) => Some(PromotionAction::Proceed),
        Ok(v1::Promotion::Rollback) => Some(PromotionAction::Rollback),
        Ok(v1::Promotion::None) | Err(_) => None,
    };
    Promotion { id, action, objects: objects.into_iter().map(key).collect(), gates }
}

fn key(object: v1::ObjectRef) -> ObjectKey {
    let v1::ObjectRef { group, kind, namespace, name } = object;
    ObjectKey { kind: GroupKind { group, kind }, namespace, name }
}

/// How often, and how soon, a sync that failed is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Retries {
    /// `None`: without limit.
    pub(crate) limit: Option<u32>,
    /// First and longest wait; the scheduler's own where absent.
    pub(crate) waits: Option<(Duration, Duration)>,
}

impl Retries {
    pub(crate) fn of(service: &v1::Service) -> Self {
        let policy = service.sync_config.as_ref().and_then(|config| config.policy).unwrap_or_default();
        let first = Duration::from_secs(policy.retry_seconds.into());
        let longest = Duration::from_secs(policy.retry_max_seconds.into()).max(first);
        Self {
            limit: (policy.retry_limit > 0).then_some(policy.retry_limit),
            waits: (policy.retry_seconds > 0).then_some((first, longest)),
        }
    }
}
