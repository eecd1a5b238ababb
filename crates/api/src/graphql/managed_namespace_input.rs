//! What a managed namespace is given.

use std::collections::BTreeMap;

use async_graphql::{ID, InputObject, MaybeUndefined};
use plural_core::ids::ServiceContextId;
use plural_core::managed_namespace::{
    ManagedNamespaceChange, ManagedNamespaceSpec, ManagedNamespaceSpecChange, NewManagedNamespace,
};
use plural_core::specs::Change;
use plural_core::{Error, Result};
use plural_specs::Json;

use super::{
    cluster::ClusterDistro,
    error::{List, id_in, items, parse, parse_option, unsupported},
    global_service_input::{CascadeAttributes, NO_PARENT, ServiceTemplateAttributes},
    rendering_input::change,
};

/// What a managed namespace is given. In an update what is absent stays as it is.
#[derive(InputObject)]
pub(crate) struct ManagedNamespaceAttributes {
    /// Name, unique; it cannot change.
    name: String,
    /// What the namespace is called in its clusters, its name when absent; it cannot change.
    namespace: Option<String>,
    /// For people.
    description: Option<String>,
    /// Labels that it has at least: a JSON object of texts.
    labels: Option<Json>,
    /// Annotations that it has at least: a JSON object of texts.
    annotations: Option<Json>,
    /// Secrets in it that its default ServiceAccount pulls images with, instead of any others.
    pull_secrets: List<String>,
    /// Only clusters of this project. Absent: every cluster, for administrators only. It cannot change.
    project_id: Option<ID>,
    /// A service in it; null takes it away.
    service: MaybeUndefined<ServiceTemplateAttributes>,
    /// Which clusters are meant; all when absent from a new one.
    target: Option<ClusterTargetAttributes>,
    /// What becomes of it on clusters that are no longer meant. Without it the namespace is forgotten, and the service in it
    /// stays as one of its own.
    cascade: Option<CascadeAttributes>,
    /// Refused: a managed namespace is not made by another service here.
    parent_id: Option<ID>,
}

/// Which clusters are meant: those that have all of it. In an update what is absent stays as it is, and null clears it.
#[derive(InputObject)]
pub(crate) struct ClusterTargetAttributes {
    /// Tags, all of them: a JSON object of texts.
    tags: MaybeUndefined<Json>,
    /// The distribution.
    distro: MaybeUndefined<ClusterDistro>,
}

impl ManagedNamespaceAttributes {
    /// The names of its service's contexts, which the caller of the other functions looks up.
    pub(crate) fn context_names(&self) -> Vec<String> {
        match &self.service {
            MaybeUndefined::Value(service) => service.context_names(),
            MaybeUndefined::Null | MaybeUndefined::Undefined => Vec::new(),
        }
    }

    /// A new one.
    pub(crate) fn new_namespace(self, contexts: Vec<ServiceContextId>) -> Result<NewManagedNamespace> {
        let name = parse("attributes.name", &self.name)?;
        let namespace = parse_option("attributes.namespace", self.namespace.as_deref())?;
        let project_id = id_in("attributes.projectId", self.project_id.as_ref().map(|id| &id.0))?;
        let ManagedNamespaceChange { description, spec, service } = self.parts(contexts)?;
        let spec = spec.over(ManagedNamespaceSpec::default());
        let service = match service {
            Change::Set(service) => Some(service),
            Change::Keep | Change::Clear => None,
        };
        Ok(NewManagedNamespace { name, namespace, description, project_id, spec, service })
    }

    /// The change of one.
    pub(crate) fn change(
        self,
        current: &plural_core::managed_namespace::ManagedNamespace,
        contexts: Vec<ServiceContextId>,
    ) -> Result<ManagedNamespaceChange> {
        let fixed = |field, same: bool| {
            if same {
                Ok(())
            } else {
                Err(Error::invalid(field, "cannot change: create another managed namespace"))
            }
        };
        fixed("attributes.name", self.name == current.name.as_str())?;
        let namespace = self.namespace.as_deref();
        fixed("attributes.namespace", namespace.is_none_or(|given| given == current.namespace.as_str()))?;
        let project = id_in("attributes.projectId", self.project_id.as_ref().map(|id| &id.0))?;
        fixed("attributes.projectId", project.is_none() || project == current.project_id)?;
        self.parts(contexts)
    }

    fn parts(self, contexts: Vec<ServiceContextId>) -> Result<ManagedNamespaceChange> {
        let Self {
            name: _,
            namespace: _,
            description,
            labels,
            annotations,
            pull_secrets,
            project_id: _,
            service,
            target,
            cascade,
            parent_id,
        } = self;
        unsupported("attributes.parentId", parent_id.is_some_and(|id| !id.is_empty()), NO_PARENT)?;
        let (tags, distro) = match target {
            None => (None, Change::Keep),
            Some(ClusterTargetAttributes { tags, distro }) => {
                let tags = match tags {
                    MaybeUndefined::Undefined => None,
                    MaybeUndefined::Null => Some(BTreeMap::new()),
                    MaybeUndefined::Value(tags) => {
                        Some(texts("attributes.target.tags", Some(tags))?.unwrap_or_default())
                    }
                };
                (tags, change(distro, |distro| Ok(distro.into()))?)
            }
        };
        let spec = ManagedNamespaceSpecChange {
            tags,
            distro,
            cascade: cascade.map(CascadeAttributes::parse).transpose()?,
            labels: texts("attributes.labels", labels)?,
            annotations: texts("attributes.annotations", annotations)?,
            pull_secrets: items(pull_secrets),
        };
        let service = match service {
            MaybeUndefined::Undefined => Change::Keep,
            MaybeUndefined::Null => Change::Clear,
            MaybeUndefined::Value(service) => {
                let (template, secrets) = service.parse(contexts)?;
                Change::Set((Box::new(template), secrets))
            }
        };
        Ok(ManagedNamespaceChange { description, spec, service })
    }
}

/// The texts of a JSON object; `None` when nothing was given.
fn texts(field: &'static str, given: Option<Json>) -> Result<Option<BTreeMap<String, String>>> {
    given.map_or(Ok(None), |json| Ok(json.texts(field)?))
}
