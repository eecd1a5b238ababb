//! From rendered objects to things that can be sent: kinds resolved, namespaces set, marks written.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use plural_render::{Object, Origin};

use crate::{
    api::ApiError,
    discovery::Resource,
    engine::Engine,
    key::{GroupKind, ObjectKey},
    order::{Step, step},
    ownership::{Stamped, stamp},
    target::{Outcome, Part, Retry, Target},
};

/// One object ready to be sent.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) key: ObjectKey,
    pub(crate) version: String,
    pub(crate) resource: Arc<Resource>,
    pub(crate) stamped: Stamped,
    pub(crate) origin: Origin,
    pub(crate) step: Step,
}

/// All that can be sent of a service.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    pub(crate) items: Vec<Item>,
    /// Namespaces that the service itself brings.
    pub(crate) namespaces: HashSet<String>,
}

pub(crate) fn location(origin: &Origin) -> String {
    match (origin.path.as_str(), origin.line) {
        ("", _) => String::new(),
        (path, 0) => path.to_owned(),
        (path, line) => format!("{path}:{line}"),
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
        let own = own_definitions(&objects);
        let mut prepared = Prepared::default();
        let mut seen: HashMap<ObjectKey, Origin> = HashMap::new();
        for object in objects {
            let place = location(&object.origin);
            let (kind, version) = GroupKind::parse(object.api_version(), object.kind());
            let resource = match self.resolve(&kind, &version, &own).await? {
                Ok(resource) => resource,
                Err(message) => {
                    outcome.error(Part::Sync, message, place, Retry::Later);
                    continue;
                }
            };
            let namespace = match (resource.namespaced, target.enforce_namespace) {
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
                    outcome.error(Part::Sync, message, place, Retry::OnChange);
                    continue;
                }
            };
            let name = object.name().to_owned();
            if name.contains('/') || name.contains('%') || matches!(name.as_str(), "." | "..") {
                let message = format!("{kind} {name:?}: no object can have this name");
                outcome.error(Part::Sync, message, place, Retry::OnChange);
                continue;
            }
            let key = ObjectKey { kind, namespace, name };
            if let Some(first) = seen.get(&key) {
                let message =
                    format!("{} is written twice: the one at {} is used", key.words(), location(first));
                outcome.warn(Part::Sync, message, place);
                continue;
            }
            seen.insert(key.clone(), object.origin.clone());
            if key.kind.is("", "Namespace") {
                prepared.namespaces.insert(key.name.clone());
            }
            let stamped = stamp(object.value, &key, target.id);
            let step = step(&key.kind);
            prepared.items.push(Item { key, version, resource, stamped, origin: object.origin, step });
        }
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
        if let Some(found) = versions.iter().find(|resource| resource.version == version) {
            return Ok(Ok(Arc::clone(found)));
        }
        Ok(Err(if versions.is_empty() {
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
        }))
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
        let served =
            spec["versions"].as_array().into_iter().flatten().filter(|version| version["served"] == true);
        for version in served.filter_map(|version| version["name"].as_str()) {
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
