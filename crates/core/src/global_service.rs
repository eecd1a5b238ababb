//! A global service: one service on every cluster that it targets.

use std::collections::BTreeMap;
use std::fmt;

use chrono::{DateTime, Utc};
use plural_specs::{Change, Edit, SyncConfig};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::cluster::ClusterDistro;
use crate::dependency::{DependencyRef, ServiceLinks, check_dependencies};
use crate::error::{Error, Result};
use crate::ids::{ClusterId, GlobalServiceId, ProjectId, RepositoryId, ServiceContextId, ServiceId};
use crate::name::{KubeName, Name};
use crate::page::Keyed;
use crate::policy::BindingsChange;
use crate::rollout::{CohortMembers, Rollout, RolloutStrategy};
use crate::service::{
    Configuration, ConfigurationEdit, GitRef, HelmConfig, HelmValues, NewService, RendererConfig, Rendering,
    RenderingChange, ServiceChange,
};
use crate::target::ClusterTarget;

/// A global service.
#[derive(Debug, Clone, PartialEq)]
pub struct GlobalService {
    /// Id.
    pub id: GlobalServiceId,
    /// Unique in the installation.
    pub name: Name,
    /// Only clusters of this project are targets, and who may write there may change it. Absent: every cluster, and
    /// only administrators may.
    pub project_id: Option<ProjectId>,
    /// The service whose copies its instances are; absent when it has a template of its own.
    pub service_id: Option<ServiceId>,
    /// How it spreads.
    pub spec: GlobalServiceSpec,
    /// What its newest generation is made from.
    pub template: ServiceTemplate,
    /// Grows with each change of the template.
    pub generation: u64,
    /// How the newest generation spreads; absent when it was given to everybody at once.
    pub rollout: Option<Rollout>,
    /// Why it could not be spread.
    pub error: Option<String>,
    /// What it says now has been seen to: every cluster that it targets has what it should have at this moment.
    pub spread: bool,
    /// Set: its instances are being let go or deleted.
    pub deleted_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// How a global service spreads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GlobalServiceSpec {
    /// Where to.
    pub target: ClusterTarget,
    /// Take over a service of the same name that is there already; such services are left alone otherwise.
    pub reparent: bool,
    /// What becomes of instances that are no longer wanted.
    pub cascade: Cascade,
    /// Data for templates in the service's own fields. Absent: those are taken as they are.
    pub context: Option<serde_json::Map<String, serde_json::Value>>,
    /// How changes move from cluster to cluster. Absent: to all at once.
    pub rollout: Option<RolloutStrategy>,
}

impl GlobalServiceSpec {
    /// Bytes of a context as JSON.
    const MAX_CONTEXT_BYTES: usize = 64 << 10;

    /// Names of the tags by which clusters are chosen: as targets, and into cohorts.
    pub fn tag_names(&self) -> impl Iterator<Item = &str> {
        let cohorts = self.rollout.iter().flat_map(|rollout| &rollout.cohorts);
        let chosen = cohorts.filter_map(|cohort| match &cohort.members {
            CohortMembers::Tags(tags) => Some(tags),
            CohortMembers::Percent(_) | CohortMembers::Clusters(_) => None,
        });
        chosen.chain([&self.target.tags]).flat_map(BTreeMap::keys).map(String::as_str)
    }

    /// Checks that it can be followed.
    ///
    /// # Errors
    /// [`Error::Invalid`].
    pub fn check(&self) -> Result<()> {
        self.target.check()?;
        if let Some(context) = &self.context {
            let bytes = serde_json::to_string(context).map_or(usize::MAX, |text| text.len());
            if bytes > Self::MAX_CONTEXT_BYTES {
                let most = Self::MAX_CONTEXT_BYTES >> 10;
                return Err(Error::invalid("attributes.context", format!("must not exceed {most} KiB")));
            }
        }
        self.rollout.as_ref().map_or(Ok(()), RolloutStrategy::check)
    }
}

/// What changes of how a global service spreads; what is not named stays as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GlobalServiceSpecChange {
    /// All tags that a cluster must have.
    pub tags: Option<BTreeMap<String, String>>,
    /// The distribution that it must have.
    pub distro: Change<ClusterDistro>,
    /// All clusters that are left out.
    pub ignore: Option<Vec<ClusterId>>,
    /// Whether services of the same name are taken over.
    pub reparent: Option<bool>,
    /// What becomes of instances that are no longer wanted.
    pub cascade: Option<Cascade>,
    /// The whole data for templates.
    pub context: Change<serde_json::Map<String, serde_json::Value>>,
    /// The whole rules of rollouts.
    pub rollout: Change<RolloutStrategy>,
}

impl GlobalServiceSpecChange {
    /// What comes of `spec`.
    #[must_use]
    pub fn over(self, spec: GlobalServiceSpec) -> GlobalServiceSpec {
        let Self { tags, distro, ignore, reparent, cascade, context, rollout } = self;
        let ClusterTarget { tags: old_tags, distro: old_distro, project_id, ignore: old_ignore } =
            spec.target;
        GlobalServiceSpec {
            target: ClusterTarget {
                tags: tags.unwrap_or(old_tags),
                distro: distro.over(old_distro),
                project_id,
                ignore: ignore.unwrap_or(old_ignore),
            },
            reparent: reparent.unwrap_or(spec.reparent),
            cascade: cascade.unwrap_or(spec.cascade),
            context: context.over(spec.context),
            rollout: rollout.over(spec.rollout),
        }
    }
}

/// Everything but the project, which cannot change.
impl From<GlobalServiceSpec> for GlobalServiceSpecChange {
    fn from(spec: GlobalServiceSpec) -> Self {
        let GlobalServiceSpec { target, reparent, cascade, context, rollout } = spec;
        let ClusterTarget { tags, distro, project_id: _, ignore } = target;
        Self {
            tags: Some(tags),
            distro: set(distro),
            ignore: Some(ignore),
            reparent: Some(reparent),
            cascade: Some(cascade),
            context: set(context),
            rollout: set(rollout),
        }
    }
}

/// What becomes of instances that are no longer wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cascade {
    /// They stay as services of their own.
    #[default]
    Keep,
    /// They are deleted with their objects.
    Delete,
    /// They are forgotten; their objects stay.
    Detach,
}

/// A service without a cluster. Its texts may be templates where the global service has a context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceTemplate {
    /// Name of the instances; that of the global service when absent.
    pub name: Option<String>,
    /// Namespace of their objects; their name when absent.
    pub namespace: Option<String>,
    /// Where they are read from.
    pub repository_id: Option<RepositoryId>,
    /// What of the repository.
    pub git: Option<GitRef>,
    /// A label for people.
    pub version: Option<String>,
    /// How they become objects.
    pub rendering: Rendering,
    /// How they are applied.
    pub sync_config: SyncConfig,
    /// They refuse deletion.
    pub protect: bool,
    /// They apply nothing.
    pub dry_run: bool,
    /// Their `.liquid` files are templates; yes when absent.
    pub templated: Option<bool>,
    /// Names of the services that each of them depends on, on its own cluster.
    pub dependencies: Vec<String>,
    /// The contexts that their templates read.
    pub contexts: Vec<ServiceContextId>,
}

/// What a template keeps sealed. `Debug` does not show it.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TemplateSecrets {
    /// Values for templates.
    pub configuration: Configuration,
    /// Values of the chart.
    pub helm: HelmValues,
    /// Values of the renderers, by their place in the list.
    pub renderers: Vec<Option<String>>,
    /// Of a change: which of the stored values stay.
    #[serde(skip)]
    pub keep: KeptValues,
}

/// Which of a template's stored values a change of it leaves as they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KeptValues {
    /// None: what is given is all there is.
    #[default]
    None,
    /// Those of the chart and of the renderers that are not given.
    Rendering,
    /// Those, and the values for templates.
    All,
}

impl TemplateSecrets {
    /// What is stored after a change to `template`: what is given, and what stays of `current`, which was that of `known`.
    #[must_use]
    pub fn over(self, template: &ServiceTemplate, current: &Self, known: &ServiceTemplate) -> Self {
        let Self { configuration, helm, renderers, keep } = self;
        if keep == KeptValues::None {
            return Self { configuration, helm, renderers, keep };
        }
        let has_chart = template.rendering.helm.is_some() && known.rendering.helm.is_some();
        let stays = |at: usize| {
            let path = &template.rendering.renderers.get(at)?.path;
            let before = known.rendering.renderers.iter().position(|one| one.path == *path)?;
            current.renderers.get(before)?.clone()
        };
        Self {
            configuration: match keep {
                KeptValues::All => current.configuration.clone(),
                KeptValues::Rendering | KeptValues::None => configuration,
            },
            helm: HelmValues {
                inline: helm.inline.or_else(|| current.helm.inline.clone().filter(|_| has_chart)),
                set: helm.set.or_else(|| current.helm.set.clone().filter(|_| has_chart)),
            },
            renderers: renderers
                .into_iter()
                .enumerate()
                .map(|(at, given)| given.or_else(|| stays(at)))
                .collect(),
            keep: KeptValues::None,
        }
    }
}

impl fmt::Debug for TemplateSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TemplateSecrets").finish_non_exhaustive()
    }
}

impl ServiceTemplate {
    /// The name of its instances.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is no name.
    pub fn instance_name(&self, global: &Name) -> Result<KubeName> {
        kube_name("attributes.template.name", self.name.as_deref().unwrap_or(global.as_str()))
    }

    /// A new instance.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name, a namespace, a dependency or a git ref that is none.
    pub fn instance(&self, global: &Name, secrets: &TemplateSecrets) -> Result<NewService> {
        let name = self.instance_name(global)?;
        let namespace = match &self.namespace {
            None => name.clone(),
            Some(namespace) => kube_name("attributes.template.namespace", namespace)?,
        };
        Ok(NewService {
            name,
            namespace,
            repository_id: self.repository_id,
            git: self.checked_git()?,
            version: self.version.clone(),
            docs_path: None,
            rendering: self.rendering(secrets),
            sync_config: self.sync_config.clone(),
            protect: self.protect,
            dry_run: self.dry_run,
            templated: self.templated.unwrap_or(true),
            interval_seconds: None,
            configuration: secrets.configuration.clone(),
            links: self.links()?,
            bindings: BindingsChange::default(),
        })
    }

    /// What makes a service that exists an instance.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a git ref or a dependency that is none.
    pub fn change(&self, secrets: &TemplateSecrets) -> Result<ServiceChange> {
        Ok(ServiceChange {
            repository_id: self.repository_id,
            git: self.checked_git()?,
            rendering: self.rendering(secrets),
            // What a template does not say is as in a new service, not as in the generation before.
            version: Some(self.version.clone().unwrap_or_else(|| "0.0.1".to_owned())),
            sync_config: Some(Edit::Replace(self.sync_config.clone())),
            protect: Some(self.protect),
            dry_run: Some(self.dry_run),
            templated: Some(self.templated.unwrap_or(true)),
            interval_seconds: None,
            namespace: None,
            configuration: Some(ConfigurationEdit::Replace(secrets.configuration.clone())),
            links: self.links()?,
            bindings: BindingsChange::default(),
        })
    }

    fn checked_git(&self) -> Result<Option<GitRef>> {
        // Templates may have made anything of it.
        self.git.as_ref().map(|git| GitRef::new(&git.reference, &git.folder, &git.files)).transpose()
    }

    /// What it does not say is nothing, also where the generation before said something.
    fn links(&self) -> Result<ServiceLinks> {
        const FIELD: &str = "attributes.template.dependencies";
        let named = self.dependencies.iter();
        let dependencies: Vec<DependencyRef> = named
            .map(|name| Ok(DependencyRef { cluster: None, name: kube_name(FIELD, name)? }))
            .collect::<Result<_>>()?;
        check_dependencies(&dependencies)?;
        Ok(ServiceLinks {
            dependencies: Some(dependencies),
            contexts: Some(self.contexts.clone()),
            // Templates name none.
            imports: Some(Vec::new()),
        })
    }

    fn rendering(&self, secrets: &TemplateSecrets) -> RenderingChange {
        let Rendering { helm, kustomize, renderers, sources, managed_namespace } = self.rendering.clone();
        let mut values = secrets.renderers.iter().cloned();
        let renderers: Vec<RendererConfig> = renderers
            .into_iter()
            .map(|renderer| RendererConfig { renderer, values: values.next().flatten() })
            .collect();
        RenderingChange {
            helm: set(helm.map(|helm| HelmConfig { helm, values: secrets.helm.clone() })),
            kustomize: set(kustomize),
            renderers: set(Some(renderers).filter(|all| !all.is_empty())),
            sources: set(Some(sources).filter(|all| !all.is_empty())),
            managed_namespace: set(managed_namespace),
        }
    }
}

fn set<T>(value: Option<T>) -> Change<T> {
    value.map_or(Change::Clear, Change::Set)
}

fn kube_name(field: &'static str, text: &str) -> Result<KubeName> {
    text.parse().map_err(|error: crate::name::NameError| Error::invalid(field, error.to_string()))
}

/// What a new global service is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct NewGlobalService {
    /// Unique in the installation.
    pub name: Name,
    /// Absent: every cluster.
    pub project_id: Option<ProjectId>,
    /// How it spreads.
    pub spec: GlobalServiceSpec,
    /// What its instances are.
    pub source: GlobalServiceSource,
}

/// What instances are made from.
#[derive(Debug, Clone, PartialEq)]
pub enum GlobalServiceSource {
    /// They are copies of this service, now and whenever it changes.
    Service(ServiceId),
    /// They are made from a template.
    Template(Box<ServiceTemplate>, TemplateSecrets),
}

/// What changes of a global service; what is not named stays as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GlobalServiceChange {
    /// How it spreads.
    pub spec: GlobalServiceSpecChange,
    /// Another template, whole.
    pub template: Option<(Box<ServiceTemplate>, TemplateSecrets)>,
}

impl Keyed for GlobalService {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}
