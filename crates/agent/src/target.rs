//! From what the console says of a service to what the engine is told.

use std::{collections::BTreeMap, time::Duration};

use plural_core::ids::ServiceId;
use plural_core::project_limits::ProjectLimits;
use plural_core::run_limits::RunLimits;
use plural_core::service::{FileKeyRef, KeyRef, Reference, VaultKeyRef};
use plural_core::specs::SyncPolicy;
use plural_sync::{GroupKind, Limits, ObjectKey, Promotion, PromotionAction, Request, Target};
use plural_tunnel::v1;

/// # Errors
/// What to tell of settings that cannot be read.
pub(crate) fn target(id: ServiceId, service: &v1::Service) -> Result<Target, String> {
    let config = service.settings().map_err(|error| {
        format!(
            "the agent cannot read the service's settings: {error}; if the console is newer than the agent, update the \
             agent"
        )
    })?;
    let request = service.sync_request.as_ref().filter(|asked| !asked.id.is_empty()).map(request);
    let promotion = service.promotion.as_ref().filter(|said| !said.id.is_empty()).map(promotion);
    Ok(Target {
        dry_run: service.dry_run,
        paused: service.paused,
        config,
        agent_upgrade: service.agent_upgrade,
        limits: limits(service),
        approved_prune: (!service.approved_prune_digest.is_empty())
            .then(|| service.approved_prune_digest.clone()),
        destroy_needs_approval: service.destroy_needs_approval,
        keeps_found_namespace: service.managed_namespace.is_some(),
        request,
        promotion,
        ..Target::new(id, service.name.clone(), service.namespace.clone())
    })
}

fn limits(service: &v1::Service) -> Option<Limits> {
    // What upgrades the agent is the installation's matter, not the project's.
    let limits = service.project_limits().filter(|_| !service.agent_upgrade)?;
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
        reference_namespaces,
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
            reference_namespaces,
            // Each run has its own with it.
            runs: RunLimits::default(),
        },
        repository_url,
        chart_url: chart.map(|helm| helm.url.clone()).filter(|url| !url.is_empty()),
    })
}

/// Values of the service that only the agent finds, by name.
///
/// # Errors
/// What to tell of a reference that this agent does not know.
pub(crate) fn references(service: &v1::Service) -> Result<BTreeMap<String, Reference>, String> {
    let all = service.references.iter().flat_map(|references| &references.values);
    all.map(|reference| {
        let kind = reference.kind();
        let v1::ConfigurationReference { name, kind: _, namespace, object, key } = reference.clone();
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let reference = match kind {
            v1::ReferenceKind::ReferenceSecret => {
                Reference::SecretKeyRef(KeyRef { name: object, key, namespace: some(namespace) })
            }
            v1::ReferenceKind::ReferenceConfigMap => {
                Reference::ConfigMapKeyRef(KeyRef { name: object, key, namespace: some(namespace) })
            }
            v1::ReferenceKind::ReferenceVault => Reference::VaultKeyRef(VaultKeyRef { path: object, key }),
            v1::ReferenceKind::ReferenceSops => {
                Reference::SopsKeyRef(FileKeyRef { file: object, key: some(key) })
            }
            v1::ReferenceKind::ReferenceAge => {
                Reference::AgeKeyRef(FileKeyRef { file: object, key: some(key) })
            }
            v1::ReferenceKind::ReferenceUnknown => {
                return Err(format!(
                    "configuration value {name:?} is a reference of a kind that this agent does not know: update the agent"
                ));
            }
        };
        Ok((name, reference))
    })
    .collect()
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
    /// Those of a service; the scheduler's own where its settings cannot be read.
    pub(crate) fn of(service: &v1::Service) -> Self {
        let SyncPolicy { retry_limit, retry_wait, retry_max_wait, .. } =
            service.settings().unwrap_or_default().policy;
        let waits = retry_wait.map(|first| {
            let longest = retry_max_wait.map_or(first, |longest| longest.max(first));
            (first.into(), longest.into())
        });
        Self { limit: retry_limit, waits }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(settings: &str) -> v1::Service {
        v1::Service { sync_config_json: settings.to_owned(), ..v1::Service::default() }
    }

    #[test]
    fn settings_that_cannot_be_read_are_an_error_of_their_service() {
        let id = ServiceId::new();
        let read =
            target(id, &service(r#"{"createNamespace": false, "policy": {"ofTomorrow": 1}}"#)).unwrap();
        assert!(!read.config.create_namespace && read.config.policy.prune);
        let unreadable = service(r#"{"policy": {"prune": "sometimes"}}"#);
        let told = target(id, &unreadable).unwrap_err();
        assert!(told.contains("cannot read the service's settings") && told.contains("update"), "{told}");
        assert_eq!(Retries::of(&unreadable), Retries::default());
    }

    #[test]
    fn retries_are_those_of_the_policy() {
        let of = |policy: &str| Retries::of(&service(&format!("{{\"policy\": {policy}}}")));
        let seconds = Duration::from_secs;
        assert_eq!(of("{}"), Retries::default());
        let few = Retries { limit: Some(3), waits: Some((seconds(5), seconds(60))) };
        assert_eq!(of(r#"{"retryLimit": 3, "retryWait": "5s", "retryMaxWait": "1m"}"#), few);
        assert_eq!(of(r#"{"retryWait": "5s"}"#).waits, Some((seconds(5), seconds(5))));
        assert_eq!(of(r#"{"retryWait": "9s", "retryMaxWait": "5s"}"#).waits, Some((seconds(9), seconds(9))));
    }
}
