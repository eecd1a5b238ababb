//! What a global service is given.

use async_graphql::{ID, InputObject, MaybeUndefined, OneofObject};
use plural_core::global_service::{
    Cascade, GlobalServiceChange, GlobalServiceSource, GlobalServiceSpec, GlobalServiceSpecChange,
    KeptValues, NewGlobalService, ServiceTemplate, TemplateSecrets,
};
use plural_core::ids::{ServiceContextId, ServiceId};
use plural_core::rollout::{Cohort, CohortMembers, RolloutStrategy, Share};
use plural_core::service::Rendering;
use plural_core::specs::Change;
use plural_core::{Error, Result};
use plural_specs::{Json, SyncConfigPatch};

use super::{
    cluster::ClusterDistro,
    dependency::ServiceDependencyAttributes,
    error::{List, id, id_in, id_option, items, parse, unsupported},
    rendering_input::{
        HelmConfigAttributes, KustomizeAttributes, RendererAttributes, RenderingAttributes,
        ServiceSourceAttributes, change,
    },
    service_input::{ConfigAttributes, GitRefAttributes, new_sync_config, values},
    shared::{TagAttributes, tags},
};

/// Why no parent is taken.
pub(super) const NO_PARENT: &str = "is not supported: nothing is made by another service here. Leave it out; whoever makes it deletes it too";

/// What a global service is given. In an update what is absent stays as it is, and null clears it; what is given replaces
/// the whole field.
#[derive(InputObject)]
pub(crate) struct GlobalServiceAttributes {
    /// Name, unique; it cannot change.
    name: String,
    /// Tags that a cluster must have to be meant; all of them.
    tags: MaybeUndefined<Vec<Option<TagAttributes>>>,
    /// Its distribution.
    distro: MaybeUndefined<ClusterDistro>,
    /// Only clusters of this project. Without it every cluster, for administrators only. It cannot change.
    project_id: Option<ID>,
    /// Clusters that are left out; all of them.
    ignore_clusters: MaybeUndefined<Vec<Option<ID>>>,
    /// Take over a service of the same name that a cluster has already.
    reparent: MaybeUndefined<bool>,
    /// What becomes of instances that are no longer wanted; without it they stay as services of their own.
    cascade: MaybeUndefined<CascadeAttributes>,
    /// Data for Liquid templates in the template's own fields; without it those are taken as they are. Whoever sees the global
    /// service sees it.
    context: MaybeUndefined<TemplateContextAttributes>,
    /// What the instances are made from, unless they are copies of a service. One that is given replaces the whole.
    template: Option<ServiceTemplateAttributes>,
    /// How changes move from cluster to cluster; without it to all at once.
    rollout: MaybeUndefined<RolloutAttributes>,
    /// Every registered cluster is a target, so the console's own is too: `false` is refused.
    mgmt: Option<bool>,
    /// Refused: this console provisions no clusters; target tags instead.
    provider_id: Option<ID>,
    /// Refused: a global service is not made by another service here.
    parent_id: Option<ID>,
    /// Refused: changes are spread at once, without an interval.
    interval: Option<String>,
}

/// What becomes of instances that are no longer wanted: one of the two, or neither.
#[derive(Debug, InputObject)]
pub(crate) struct CascadeAttributes {
    /// They are deleted with their objects.
    delete: Option<bool>,
    /// They are forgotten; their objects stay.
    detach: Option<bool>,
}

/// Data for templates.
#[derive(Debug, InputObject)]
pub(crate) struct TemplateContextAttributes {
    /// A JSON object, read as `context`; `cluster` is there beside it.
    raw: Option<Json>,
}

/// A service without a cluster.
#[derive(InputObject)]
pub(crate) struct ServiceTemplateAttributes {
    /// Name of the instances; that of the global service when absent.
    name: Option<String>,
    /// Namespace of their objects; their name when absent.
    namespace: Option<String>,
    /// A label for people.
    version: Option<String>,
    /// Render `.liquid` files.
    templated: Option<bool>,
    /// Refuse deletion.
    protect: Option<bool>,
    /// Plan and report, apply nothing.
    dry_run: Option<bool>,
    /// The repository.
    repository_id: Option<ID>,
    /// Where in it.
    git: Option<GitRefAttributes>,
    /// Values for templates.
    configuration: List<ConfigAttributes>,
    /// A chart.
    helm: MaybeUndefined<HelmConfigAttributes>,
    /// A Kustomization.
    kustomize: MaybeUndefined<KustomizeAttributes>,
    /// How they are applied.
    sync_config: Option<SyncConfigPatch>,
    /// Further sources.
    sources: MaybeUndefined<Vec<Option<ServiceSourceAttributes>>>,
    /// Renderers in their order.
    renderers: MaybeUndefined<Vec<Option<RendererAttributes>>>,
    /// Services that each instance depends on, on its own cluster.
    dependencies: List<ServiceDependencyAttributes>,
    /// Names of the contexts that their templates read.
    contexts: List<String>,
    /// In an update: values that are not given stay as they are stored, those in `configuration`, of the chart and of renderers.
    keep_values: Option<bool>,
}

/// How changes move from cluster to cluster.
#[derive(Debug, InputObject)]
pub(crate) struct RolloutAttributes {
    /// In order; clusters in none of them make the last one.
    cohorts: List<CohortAttributes>,
    /// How many clusters may be moving or unwell at once: `3` or `10%`. One when absent.
    max_unavailable: Option<String>,
    /// Seconds that a cohort must stay healthy before the next begins; 60 when absent.
    soak_seconds: Option<i32>,
    /// Seconds that a cluster may take to become healthy; 600 when absent.
    timeout_seconds: Option<i32>,
    /// Clusters that may fail before it halts; none when absent.
    max_failures: Option<i32>,
    /// Moves everybody back when it would halt.
    undo: Option<bool>,
}

/// One group of clusters that moves together.
#[derive(Debug, InputObject)]
pub(crate) struct CohortAttributes {
    /// For people.
    name: String,
    /// Who is in it.
    members: CohortMembersAttributes,
}

/// Who is in a cohort.
#[derive(Debug, OneofObject)]
pub(crate) enum CohortMembersAttributes {
    /// Clusters with this tag.
    Tag(TagAttributes),
    /// So much of all, 1 to 100.
    Percent(i32),
    /// These.
    Clusters(Vec<ID>),
}

impl GlobalServiceAttributes {
    /// The names of its template's contexts, which the caller of the other functions looks up.
    pub(crate) fn context_names(&self) -> Vec<String> {
        self.template.as_ref().map(ServiceTemplateAttributes::context_names).unwrap_or_default()
    }

    /// A new one.
    pub(crate) fn new_service(
        self,
        service_id: Option<ServiceId>,
        contexts: Vec<ServiceContextId>,
    ) -> Result<NewGlobalService> {
        let name = parse("attributes.name", &self.name)?;
        let project_id = id_option(self.project_id.as_deref())?;
        let GlobalServiceChange { spec, template } = self.parts(contexts)?;
        let mut spec = spec.over(GlobalServiceSpec::default());
        spec.target.project_id = project_id;
        let source = match (service_id, template) {
            (Some(id), None) => GlobalServiceSource::Service(id),
            (None, Some((template, secrets))) => GlobalServiceSource::Template(template, secrets),
            _ => {
                return Err(Error::invalid(
                    "attributes.template",
                    "must be given, unless there is a serviceId to copy; both cannot be combined",
                ));
            }
        };
        Ok(NewGlobalService { name, project_id, spec, source })
    }

    /// The change of `current`.
    pub(crate) fn change(
        self,
        current: &plural_core::global_service::GlobalService,
        contexts: Vec<ServiceContextId>,
    ) -> Result<GlobalServiceChange> {
        if self.name != current.name.as_str() {
            return Err(Error::invalid("attributes.name", "cannot change: create another global service"));
        }
        if let Some(project) = id_option(self.project_id.as_deref())?
            && Some(project) != current.project_id
        {
            return Err(Error::invalid(
                "attributes.projectId",
                "cannot change: create another global service",
            ));
        }
        self.parts(contexts)
    }

    fn parts(self, contexts: Vec<ServiceContextId>) -> Result<GlobalServiceChange> {
        let Self {
            name: _,
            tags: given,
            distro,
            project_id: _,
            ignore_clusters,
            reparent,
            cascade,
            context,
            template,
            rollout,
            mgmt,
            provider_id,
            parent_id,
            interval,
        } = self;
        let named = |id: Option<ID>| id.is_some_and(|id| !id.is_empty());
        unsupported(
            "attributes.mgmt",
            mgmt == Some(false),
            "cannot be false: every registered cluster that has the tags is a target. Leave it out, and name clusters to \
             leave out in ignoreClusters",
        )?;
        unsupported(
            "attributes.providerId",
            named(provider_id),
            "is not supported: this console provisions no clusters. Leave it out, and target tags or a distro instead",
        )?;
        unsupported("attributes.parentId", named(parent_id), NO_PARENT)?;
        unsupported(
            "attributes.interval",
            interval.is_some_and(|interval| !interval.is_empty()),
            "is not supported: a global service is spread at each change of it, of its source and of clusters. Leave it out",
        )?;
        let ignore = items(list_change(ignore_clusters))
            .map(|all| all.iter().map(|cluster| id(cluster)).collect())
            .transpose()?;
        let spec = GlobalServiceSpecChange {
            tags: tags("attributes.tags", list_change(given))?,
            distro: change(distro, |distro| Ok(distro.into()))?,
            ignore,
            reparent: match reparent {
                MaybeUndefined::Undefined => None,
                MaybeUndefined::Null => Some(false),
                MaybeUndefined::Value(reparent) => Some(reparent),
            },
            cascade: match cascade {
                MaybeUndefined::Undefined => None,
                MaybeUndefined::Null => Some(Cascade::Keep),
                MaybeUndefined::Value(cascade) => Some(cascade.parse()?),
            },
            context: change(context, TemplateContextAttributes::parse)?,
            rollout: change(rollout, RolloutAttributes::parse)?,
        };
        let template = template.map(|template| template.parse(contexts)).transpose()?;
        let template = template.map(|(template, secrets)| (Box::new(template), secrets));
        Ok(GlobalServiceChange { spec, template })
    }
}

/// All items of a list that was given; a null clears it.
fn list_change<T>(given: MaybeUndefined<Vec<Option<T>>>) -> List<T> {
    match given {
        MaybeUndefined::Undefined => None,
        MaybeUndefined::Null => Some(Vec::new()),
        MaybeUndefined::Value(all) => Some(all),
    }
}

impl CascadeAttributes {
    pub(crate) fn parse(self) -> Result<Cascade> {
        match (self.delete.unwrap_or(false), self.detach.unwrap_or(false)) {
            (true, true) => Err(Error::invalid("attributes.cascade", "cannot be both delete and detach")),
            (true, false) => Ok(Cascade::Delete),
            (false, true) => Ok(Cascade::Detach),
            (false, false) => Ok(Cascade::Keep),
        }
    }
}

impl TemplateContextAttributes {
    fn parse(self) -> Result<serde_json::Map<String, serde_json::Value>> {
        let raw = self.raw.map_or(Ok(None), |raw| raw.object("attributes.context.raw"))?;
        Ok(raw.unwrap_or_default())
    }
}

impl ServiceTemplateAttributes {
    /// The names of its contexts.
    pub(crate) fn context_names(&self) -> Vec<String> {
        self.contexts.iter().flatten().flatten().cloned().collect()
    }

    pub(crate) fn parse(self, found: Vec<ServiceContextId>) -> Result<(ServiceTemplate, TemplateSecrets)> {
        let Self {
            name,
            namespace,
            version,
            templated,
            protect,
            dry_run,
            repository_id,
            git,
            configuration,
            helm,
            kustomize,
            sync_config,
            sources,
            renderers,
            dependencies,
            contexts: _,
            keep_values,
        } = self;
        let rendering = RenderingAttributes { helm, kustomize, renderers, sources }.change()?;
        let configuration = values(configuration)?;
        let mut secrets = TemplateSecrets {
            keep: match (keep_values, &configuration) {
                (None | Some(false), _) => KeptValues::None,
                (Some(true), None) => KeptValues::All,
                (Some(true), Some(_)) => KeptValues::Rendering,
            },
            configuration: configuration.unwrap_or_default(),
            ..TemplateSecrets::default()
        };
        if let Change::Set(config) = &rendering.helm {
            secrets.helm = config.values.clone();
        }
        if let Change::Set(renderers) = &rendering.renderers {
            secrets.renderers = renderers.iter().map(|config| config.values.clone()).collect();
        }
        let template = ServiceTemplate {
            name,
            namespace,
            repository_id: id_in("attributes.template.repositoryId", repository_id.as_deref())?,
            git: git.map(GitRefAttributes::parse).transpose()?,
            version,
            rendering: rendering.over(Rendering::default()),
            sync_config: new_sync_config(sync_config)?,
            protect: protect.unwrap_or(false),
            dry_run: dry_run.unwrap_or(false),
            templated,
            dependencies: dependencies
                .into_iter()
                .flatten()
                .flatten()
                .map(ServiceDependencyAttributes::same_cluster)
                .collect::<Result<_>>()?,
            contexts: found,
        };
        Ok((template, secrets))
    }
}

impl RolloutAttributes {
    fn parse(self) -> Result<RolloutStrategy> {
        let Self { cohorts, max_unavailable, soak_seconds, timeout_seconds, max_failures, undo } = self;
        let cohorts = items(cohorts).unwrap_or_default();
        Ok(RolloutStrategy {
            cohorts: cohorts.into_iter().map(CohortAttributes::parse).collect::<Result<_>>()?,
            max_unavailable: max_unavailable.as_deref().map_or(Ok(Share::Count(1)), share)?,
            soak_seconds: count("attributes.rollout.soakSeconds", soak_seconds, 60)?,
            timeout_seconds: count("attributes.rollout.timeoutSeconds", timeout_seconds, 600)?,
            max_failures: count("attributes.rollout.maxFailures", max_failures, 0)?,
            undo: undo.unwrap_or(false),
        })
    }
}

impl CohortAttributes {
    fn parse(self) -> Result<Cohort> {
        let members = match self.members {
            CohortMembersAttributes::Tag(TagAttributes { name, value }) => {
                CohortMembers::Tags([(name, value)].into())
            }
            CohortMembersAttributes::Percent(percent) => {
                CohortMembers::Percent(u8::try_from(percent).map_err(|_| {
                    Error::invalid("attributes.rollout.cohorts.percent", "must be between 1 and 100")
                })?)
            }
            CohortMembersAttributes::Clusters(ids) => {
                CohortMembers::Clusters(ids.iter().map(|cluster| id(cluster)).collect::<Result<_>>()?)
            }
        };
        Ok(Cohort { name: self.name, members })
    }
}

fn count(field: &'static str, given: Option<i32>, default: u32) -> Result<u32> {
    match given {
        None => Ok(default),
        Some(given) => u32::try_from(given).map_err(|_| Error::invalid(field, "must not be negative")),
    }
}

/// `3` or `10%`.
fn share(text: &str) -> Result<Share> {
    let wrong =
        || Error::invalid("attributes.rollout.maxUnavailable", "must be a number, or a part such as 10%");
    match text.trim().strip_suffix('%') {
        Some(percent) => percent.parse().map(Share::Percent).map_err(|_| wrong()),
        None => text.trim().parse().map(Share::Count).map_err(|_| wrong()),
    }
}
