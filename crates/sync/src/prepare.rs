//! From rendered objects to things that can be sent: kinds resolved, namespaces set, limits checked,
//! marks written, places in the order found.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use plural_core::api_deprecation::ApiDeprecation;
use plural_render::{Object, Origin};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::{
    api::ApiError,
    diff::without_string_data,
    directive::{Directives, runs_once},
    discovery::Resource,
    engine::Engine,
    inventory::{Place, Run},
    key::{GroupKind, ObjectKey},
    lacking::Served,
    limits::Bounds,
    normalize::{Rules, misunderstood},
    order::{Step, default_wave, step},
    ownership::{Stamped, stamp},
    phase::Phase,
    target::{Outcome, Part, Retry, Target},
};

/// An object larger than this cannot be stored: etcd takes 1.5 MiB with everything around it.
const MAX_OBJECT_BYTES: usize = 1_500_000;

/// One object ready to be sent, in one phase.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) key: ObjectKey,
    pub(crate) version: String,
    pub(crate) resource: Arc<Resource>,
    pub(crate) stamped: Stamped,
    pub(crate) origin: Origin,
    pub(crate) step: Step,
    pub(crate) place: Place,
    /// It names its wave.
    pub(crate) explicit: bool,
    /// It runs once and ends.
    pub(crate) once: bool,
    pub(crate) rules: Rules,
    pub(crate) directives: Arc<Directives>,
}

/// All that can be sent of a service.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) items: Vec<Item>,
    /// Namespaces that the service itself brings.
    pub(crate) namespaces: HashSet<String>,
    /// Objects that say that they are not to be applied.
    pub(crate) skipped: HashSet<ObjectKey>,
    /// Kinds that the cluster does not serve, or not in this version.
    pub(crate) lacking: BTreeSet<Served>,
}

pub(crate) fn location(origin: &Origin) -> String {
    match (origin.path.as_str(), origin.line) {
        ("", _) => String::new(),
        (path, 0) => path.to_owned(),
        (path, line) => format!("{path}:{line}"),
    }
}

/// Why an object cannot be sent.
struct Refused {
    part: Part,
    message: String,
    retry: Retry,
}

impl Refused {
    fn sync(message: String, retry: Retry) -> Self {
        Self { part: Part::Sync, message, retry }
    }
}

impl Engine {
    /// Resolves each object; what cannot be sent is a problem of the outcome.
    pub(crate) async fn prepare(
        &self,
        target: &Target,
        objects: Vec<Object>,
        outcome: &mut Outcome,
    ) -> Result<Prepared, ApiError> {
        for text in misunderstood(&target.config.diff_normalizers) {
            let message = format!("diffNormalizers: {text:?} is not a JSON pointer: it begins with \"/\"");
            outcome.warn(Part::Sync, message, String::new());
        }
        let run = self.inner().with_state(|state| {
            state.services.get(&target.id).map(|known| known.run.clone()).unwrap_or_default()
        });
        let bounds = self.bounds(target);
        let own = own_definitions(&objects);
        let mut prepared = Prepared::default();
        let mut seen: HashMap<ObjectKey, Origin> = HashMap::new();
        for object in objects {
            let place = location(&object.origin);
            let directives = Directives::of(&object.value);
            let (kind, version) = GroupKind::parse(object.api_version(), object.kind());
            let resource = match self.resolve(&kind, &version, &own).await? {
                Ok(resource) => resource,
                Err(message) if directives.skip_missing => {
                    prepared.lacking.insert((kind, version));
                    // Something that this very sync installs brings the kind.
                    outcome.warn(Part::Sync, format!("waiting: {message}"), place);
                    outcome.retry = outcome.retry.sooner(Retry::Soon);
                    outcome.leaving_out += 1;
                    continue;
                }
                Err(message) => {
                    prepared.lacking.insert((kind, version));
                    outcome.error(Part::Sync, message, place, Retry::Later);
                    continue;
                }
            };
            let key = match key_of((target, &bounds), &object, kind, &resource) {
                Ok(key) => key,
                Err(Refused { part, message, retry }) => {
                    outcome.error(part, message, place, retry);
                    continue;
                }
            };
            if let Some(first) = seen.get(&key) {
                let message =
                    format!("{} is written twice: the one at {} is used", key.words(), location(first));
                outcome.warn(Part::Sync, message, place);
                continue;
            }
            seen.insert(key.clone(), object.origin.clone());
            for words in &directives.misunderstood {
                outcome.warn(Part::Sync, format!("{}: {words}", key.words()), place.clone());
            }
            if directives.phases.is_empty() {
                prepared.skipped.insert(key);
                continue;
            }
            if key.kind.is("", "Namespace") {
                prepared.namespaces.insert(key.name.clone());
            }
            let resolved = Resolved { key, version, resource, directives: Arc::new(directives) };
            resolved.add_items(target, &run, object, &mut prepared.items);
        }
        prepared.items.retain(|item| {
            let size = item.stamped.body.len();
            if size <= MAX_OBJECT_BYTES {
                return true;
            }
            let message = format!(
                "{} has {:.1} MB, more than a cluster can store of one object (1.5 MB): split it, or keep the data elsewhere",
                item.key.words(),
                size as f64 / 1e6
            );
            outcome.error(Part::Sync, message, location(&item.origin), Retry::OnChange);
            false
        });
        Ok(prepared)
    }

    /// How a kind is served, or why it cannot be sent.
    async fn resolve(
        &self,
        kind: &GroupKind,
        version: &str,
        own: &HashMap<GroupKind, Vec<Arc<Resource>>>,
    ) -> Result<Result<Arc<Resource>, String>, ApiError> {
        let inner = self.inner();
        let mut versions = match inner.discovery.known(kind) {
            Some(versions) => versions,
            // A definition in the same service spares the question.
            None if own.contains_key(kind) => Vec::new(),
            None => inner.discovery.versions(&inner.api, kind).await?,
        };
        versions.extend(own.get(kind).into_iter().flatten().cloned());
        let found = |versions: &[Arc<Resource>]| {
            versions.iter().find(|resource| resource.version == version).cloned()
        };
        if let Some(found) = found(&versions) {
            return Ok(Ok(found));
        }
        // A definition may have got this version since the server was asked.
        if !versions.is_empty() && !own.contains_key(kind) {
            versions = inner.discovery.look_again(&inner.api, kind).await?;
            if let Some(found) = found(&versions) {
                return Ok(Ok(found));
            }
        }
        let message = if versions.is_empty() {
            format!(
                "the cluster has no kind {} in {}: install the definition (CRD) that brings it, or correct apiVersion and kind",
                kind.kind,
                if kind.group.is_empty() {
                    "the core group".to_owned()
                } else {
                    format!("group {}", kind.group)
                },
            )
        } else {
            let served: Vec<&str> = versions.iter().map(|resource| resource.version.as_str()).collect();
            format!(
                "the cluster serves {kind} as {}, not as {version}: correct apiVersion",
                served.join(", ")
            )
        };
        // Who writes what Kubernetes took away should not have to look up what to write instead.
        Ok(Err(match ApiDeprecation::advice(&kind.group, version, &kind.kind) {
            Some(words) => {
                let slash = if kind.group.is_empty() { "" } else { "/" };
                format!("{message} ({}{slash}{version} is {words})", kind.group)
            }
            None => message,
        }))
    }
}

/// The name of an object in this cluster, if the service may write it.
fn key_of(
    (target, bounds): (&Target, &Bounds),
    object: &Object,
    kind: GroupKind,
    resource: &Resource,
) -> Result<ObjectKey, Refused> {
    let namespace = match (resource.namespaced, target.config.enforce_namespace) {
        (true, true) => target.namespace.clone(),
        (true, false) if object.namespace().is_empty() => target.namespace.clone(),
        (true, false) => object.namespace().to_owned(),
        (false, false) => String::new(),
        (false, true) => {
            let message = format!(
                "{kind} {} belongs to no namespace, but enforceNamespace keeps the service in {}",
                object.name(),
                target.namespace
            );
            return Err(Refused::sync(message, Retry::OnChange));
        }
    };
    let name = match object.name() {
        "" => generated_name(&object.value),
        name => name.to_owned(),
    };
    let odd = |text: &str| {
        text.chars().any(|c| matches!(c, '/' | '%') || c.is_control()) || matches!(text, "." | "..")
    };
    if odd(&name) || odd(&namespace) {
        let message = format!("{kind} {name:?}: no object can have this name");
        return Err(Refused::sync(message, Retry::OnChange));
    }
    let key = ObjectKey { kind, namespace, name };
    match bounds.problem(&key) {
        Some(message) => Err(Refused { part: Part::Limits, message, retry: Retry::OnChange }),
        None => Ok(key),
    }
}

/// A name for an object that asks for a generated one: the same for the same manifest, so that it is
/// made once, and another one when the manifest changes.
fn generated_name(manifest: &Value) -> String {
    let mut manifest = manifest.clone();
    manifest.sort_all_objects();
    let hash = hex::encode(&Sha256::digest(manifest.to_string().as_bytes())[..5]);
    let prefix = manifest["metadata"]["generateName"].as_str().unwrap_or_default();
    let prefix: String = prefix.chars().take(253 - hash.len()).collect();
    format!("{prefix}{hash}")
}

/// What was found out about an object.
struct Resolved {
    key: ObjectKey,
    version: String,
    resource: Arc<Resource>,
    directives: Arc<Directives>,
}

impl Resolved {
    /// One item for each of its phases.
    fn add_items(self, target: &Target, run: &Run, object: Object, items: &mut Vec<Item>) {
        let Self { key, version, resource, directives } = self;
        let Object { mut value, origin } = object;
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("generateName");
            metadata.insert("name".to_owned(), key.name.clone().into());
        }
        without_string_data(&key, &mut value);
        let rules = Rules::of(&key, &target.config.diff_normalizers, &directives);
        let once = runs_once(&key.kind, &value, &directives);
        let phases: Vec<Phase> =
            Phase::ALL.into_iter().filter(|phase| directives.phases.has(*phase)).collect();
        let many = phases.len() > 1;
        for phase in phases {
            let mut manifest = value.clone();
            if once && many {
                // What ran in one phase is not what runs in the other.
                manifest["metadata"]["annotations"]["deployments.plural.sh/phase"] = phase.as_str().into();
            }
            let round = run.round(phase, target.request.as_ref());
            if once && !round.is_empty() {
                manifest["metadata"]["annotations"]["deployments.plural.sh/run-for"] = round.into();
            }
            let wave = directives.wave.unwrap_or_else(|| default_wave(&key.kind, resource.namespaced));
            items.push(Item {
                step: step(&key.kind),
                place: Place { phase, wave },
                explicit: directives.wave.is_some(),
                stamped: stamp(manifest, &key, target.id, &rules),
                key: key.clone(),
                version: version.clone(),
                resource: Arc::clone(&resource),
                origin: origin.clone(),
                once,
                rules: rules.clone(),
                directives: Arc::clone(&directives),
            });
        }
    }
}

/// What the definitions among `objects` will teach the API server.
fn own_definitions(objects: &[Object]) -> HashMap<GroupKind, Vec<Arc<Resource>>> {
    let mut own: HashMap<GroupKind, Vec<Arc<Resource>>> = HashMap::new();
    for object in objects.iter().filter(|object| object.kind() == "CustomResourceDefinition") {
        let spec = &object.value["spec"];
        let (Some(group), Some(kind), Some(plural)) =
            (spec["group"].as_str(), spec["names"]["kind"].as_str(), spec["names"]["plural"].as_str())
        else {
            continue;
        };
        // They become parts of a path.
        let plain = |text: &str| {
            text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
        };
        if !plain(group) || !plain(plural) {
            continue;
        }
        let served =
            spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
        for version in served.filter_map(|version| version["name"].as_str()).filter(|version| plain(version))
        {
            let key = GroupKind { group: group.to_owned(), kind: kind.to_owned() };
            let resource = Resource {
                group: group.to_owned(),
                version: version.to_owned(),
                plural: plural.to_owned(),
                namespaced: spec["scope"] != "Cluster",
            };
            own.entry(key).or_default().push(Arc::new(resource));
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn generated_names_are_made_once_per_manifest() {
        let job = |image: &str| json!({"metadata": {"generateName": "migrate-"}, "spec": {"image": image}});
        let name = generated_name(&job("a"));
        assert!(name.starts_with("migrate-") && name.len() == 18, "{name}");
        assert_eq!(name, generated_name(&job("a")));
        assert_ne!(name, generated_name(&job("b")));
    }
}
