//! Global services.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::Actor;
use plural_core::cluster::Cluster;
use plural_core::cluster_tags::TagLevel;
use plural_core::data_key::KeyOwner;
use plural_core::global_service::{
    GlobalService, GlobalServiceChange, GlobalServiceSource, GlobalServiceSpec, GlobalServiceSpecChange,
    KeptValues, NewGlobalService, ServiceTemplate, TemplateSecrets,
};
use plural_core::ids::{ClusterId, GlobalServiceId, ProjectId, ServiceContextId, ServiceId};
use plural_core::page::Keyed;
use plural_core::repository::Repository;
use plural_core::rollout::{Member, Rollout};
use plural_core::service::{SecretsHome, Service};
use plural_core::status::ServiceStatus;
use plural_core::{Error, Page, PageArgs, Result};
use uuid::Uuid;

use crate::access::{Audited, Authorized, Guarded, Home, Read, Write, authorize_each, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::dependency::ContextsRequest;
use crate::instance::InstanceCounts;
use crate::records::{Search, record};
use crate::repository::RepositorySelector;
use crate::seal::Sealed;
use crate::service::ServiceSelector;

/// Which global service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GlobalServiceSelector {
    /// By id.
    Id(GlobalServiceId),
    /// By exact name.
    Name(String),
}

/// A template to keep.
#[derive(Debug)]
pub struct TemplateRequest {
    /// What it is.
    pub template: ServiceTemplate,
    /// Its secrets, sealed for `global-service:ID`.
    pub secrets: Sealed,
    /// Its contexts; whoever asks may use them.
    pub contexts: ContextsRequest,
}

/// A new global service and what is kept beside it.
#[derive(Debug)]
pub struct GlobalServiceCreate {
    /// Id to give it.
    pub id: GlobalServiceId,
    /// The service itself; secrets of its source are not read from here.
    pub new: NewGlobalService,
    /// The service whose copies its instances are.
    pub service_id: Option<ServiceId>,
    /// Its first generation.
    pub template: TemplateRequest,
}

/// One generation of a template.
#[derive(Debug, Clone)]
pub struct Generation {
    /// Its number.
    pub number: u64,
    /// What it is.
    pub template: ServiceTemplate,
    /// Its secrets, sealed for `global-service:ID`.
    pub secrets: Sealed,
    /// What its texts read, as it was when it was made. Absent: they are no templates.
    pub context: Option<serde_json::Map<String, serde_json::Value>>,
    /// The commit that its instances stand at, when it spreads by a rollout.
    pub sha: Option<String>,
    /// Digest of what the template's folder reaches at that commit.
    pub closure_digest: Option<String>,
}

/// A generation to make.
#[derive(Debug)]
pub struct NewGeneration {
    /// The newest one when this was decided: another one by then is somebody's word, and counts.
    pub after: u64,
    /// What it is.
    pub template: ServiceTemplate,
    /// Its secrets, sealed; those of the generation before when absent.
    pub secrets: Option<Sealed>,
    /// The commit that its instances are to stand at.
    pub sha: Option<String>,
    /// Digest of what the template's folder reaches there.
    pub closure_digest: Option<String>,
}

/// One instance as the job sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Which service.
    pub service_id: ServiceId,
    /// On which cluster.
    pub cluster_id: ClusterId,
    /// The generation that it was given.
    pub generation: u64,
    /// When.
    pub given_at: DateTime<Utc>,
    /// How it is.
    pub status: ServiceStatus,
    /// Its agent has reported on what it was given.
    pub reported: bool,
    /// It stands at a revision of its own: a person pinned it, or a sync window is closed.
    pub pinned: bool,
    /// The console has found what it was given.
    pub placed: bool,
    /// It is being destroyed.
    pub deleted: bool,
    /// Its destruction was nobody's own wish, and can be taken back.
    pub cascaded: bool,
}

/// Everything that the job needs of one global service.
#[derive(Debug)]
pub struct GlobalServiceWork {
    /// The global service.
    pub global: GlobalService,
    /// The generations that are still of use, oldest first.
    pub generations: Vec<Generation>,
    /// Every cluster of its project, or of all.
    pub clusters: Vec<Cluster>,
    /// Its instances.
    pub instances: Vec<Instance>,
}

/// Whose instance a service becomes with a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    /// Whose.
    pub owner: GlobalServiceId,
    /// What it is given.
    pub generation: u64,
}

noun!(GlobalService, "global service", g => Some(g.id.uuid()), g.name.to_string());
record!(GlobalService, GlobalServiceId, GlobalServiceSelector, Search);

/// Global services.
#[async_trait]
pub trait GlobalServiceStore: Send + Sync + 'static {
    /// Where a global service of this project, or of none, belongs; guarded accordingly.
    async fn global_service_home(&self, actor: &Actor, project: Option<ProjectId>) -> Result<Guarded<Home>>;
    /// Names of tags by which global services and managed namespaces choose clusters of this project, and for whom one has to
    /// speak to change those.
    async fn tags_selected(&self, project: ProjectId) -> Result<BTreeMap<String, TagLevel>>;
    /// A new global service.
    async fn global_service_create(
        &self,
        by: Audited<'_, Home, Write>,
        create: &GlobalServiceCreate,
    ) -> Result<GlobalService>;
    /// A changed global service; another template or context makes a generation.
    async fn global_service_update(
        &self,
        by: Audited<'_, GlobalService, Write>,
        spec: &GlobalServiceSpecChange,
        template: Option<&TemplateRequest>,
    ) -> Result<GlobalService>;
    /// Marks it: the job lets its instances go and then removes it. Refused where they would have to be deleted and are
    /// protected.
    async fn global_service_delete(&self, by: Audited<'_, GlobalService, Write>) -> Result<GlobalService>;
    /// Where its rollout stands, decided by a person. Refused when it moved on since it was read.
    async fn global_service_steer(
        &self,
        by: Audited<'_, GlobalService, Write>,
        rollout: &Rollout,
    ) -> Result<GlobalService>;
    /// Those that are made of copies of a service.
    async fn global_services_copying(
        &self,
        actor: &Actor,
        service: &Authorized<Service, Read>,
    ) -> Result<Vec<Guarded<GlobalService>>>;
    /// Every global service, for the job.
    async fn global_service_ids(&self) -> Result<Vec<GlobalServiceId>>;
    /// One of them with all that the job needs; `None` when it is gone.
    async fn global_service_work(&self, id: GlobalServiceId) -> Result<Option<GlobalServiceWork>>;
    /// Makes a generation, or places the newest one at its first commit; generations that nobody has any more go.
    /// Answers the newest one's number.
    async fn global_service_generation(
        &self,
        by: Audited<'_, GlobalService, Write>,
        new: &NewGeneration,
    ) -> Result<u64>;
    /// The job has looked at it: it saw to everything that was said until `seen`, or not to all of it, and this is what
    /// was wrong.
    async fn global_service_reconciled(
        &self,
        id: GlobalServiceId,
        seen: Option<DateTime<Utc>>,
        error: Option<&str>,
    ) -> Result<()>;
    /// Where the job has come to. A rollout that is no longer `before` was steered by a person meanwhile and stays as
    /// it is: `false`.
    async fn global_service_progress(
        &self,
        id: GlobalServiceId,
        before: Option<&Rollout>,
        rollout: Option<&Rollout>,
    ) -> Result<bool>;
    /// Removes one that was deleted and has no instances left.
    async fn global_service_remove(&self, by: Audited<'_, GlobalService, Write>) -> Result<()>;
}

/// Instances of global services.
#[async_trait]
pub trait InstanceStore: Send + Sync + 'static {
    /// Those of a global service.
    async fn global_service_instances(
        &self,
        global: &Authorized<GlobalService, Read>,
    ) -> Result<Vec<Instance>>;
    /// The services of these names on these clusters, instances or not; those that are not there are left out.
    async fn services_named(&self, names: &[(ClusterId, String)]) -> Result<Vec<Service>>;
    /// An instance is to be destroyed, once somebody approves.
    async fn instance_delete(&self, by: Audited<'_, Service, Write>) -> Result<()>;
    /// An instance whose destruction was nobody's own wish stays after all.
    async fn instance_restore(&self, by: Audited<'_, Service, Write>) -> Result<()>;
    /// An instance becomes a service of its own.
    async fn service_disown(&self, by: Audited<'_, Service, Write>, home: SecretsHome) -> Result<()>;
}

impl Keyed for Instance {
    fn key(&self) -> Uuid {
        self.service_id.uuid()
    }
}

impl Instance {
    /// It as a member of a rollout.
    pub fn member(&self) -> Member {
        Member {
            cluster_id: self.cluster_id,
            generation: self.generation,
            since: self.given_at,
            healthy: self.placed && !self.pinned && self.status == ServiceStatus::Healthy,
            failed: self.placed && self.reported && self.status == ServiceStatus::Failed,
        }
    }
}

/// What a person does with a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RolloutAction {
    /// Stop where it is.
    Halt,
    /// Go on after a halt; who is unwell now is not waited for.
    Resume,
    /// Give everybody back what was before.
    Undo,
}

impl App {
    /// A new global service. Needs write access to its project, or, without one, an administrator; and read access to
    /// the repositories that it names.
    pub async fn global_service_create(&self, ctx: &OpCtx, new: NewGlobalService) -> Result<GlobalService> {
        let guarded = self.store.global_service_home(ctx.actor(), new.project_id).await?;
        let home: Authorized<Home, Write> = guarded.authorize(ctx)?;
        new.spec.check()?;
        let (service_id, template, secrets) = match &new.source {
            GlobalServiceSource::Template(template, secrets) => (None, (**template).clone(), secrets.clone()),
            GlobalServiceSource::Service(id) => {
                let (_, template, secrets) = self.template_of(ctx, *id).await?;
                (Some(*id), template, secrets)
            }
        };
        let contexts = self.template_check(ctx, &new.name, &new.spec, &template, &secrets).await?;
        let id = GlobalServiceId::new();
        let owner = KeyOwner::of(new.project_id);
        let template =
            TemplateRequest { template, secrets: self.seal_template(owner, id, &secrets).await?, contexts };
        let create = GlobalServiceCreate { id, new, service_id, template };
        let by = home.audited_new(ctx, "global_service.create", "global service", id, &create.new.name);
        let global = self.store.global_service_create(by, &create).await?;
        self.globals.wake();
        Ok(global)
    }

    /// A changed global service.
    pub async fn global_service_update(
        &self,
        ctx: &OpCtx,
        selector: &GlobalServiceSelector,
        change: GlobalServiceChange,
    ) -> Result<GlobalService> {
        let GlobalServiceChange { spec: spec_change, template: given } = change;
        let global = self.authorized::<GlobalService, Write>(ctx, selector).await?;
        if global.deleted_at.is_some() {
            return Err(Error::conflict("the global service is being deleted"));
        }
        let spec = &spec_change.clone().over(global.spec.clone());
        spec.check()?;
        let reads_otherwise = spec.context != global.spec.context;
        let mut wish = None;
        if let Some((template, secrets)) = given {
            if global.service_id.is_some() {
                return Err(Error::invalid(
                    "attributes.template",
                    "cannot be set: the instances are copies of a service; change that service",
                ));
            }
            if template.name != global.template.name || template.namespace != global.template.namespace {
                return Err(Error::invalid(
                    "attributes.template.name",
                    "cannot change, nor can the namespace: create another global service",
                ));
            }
            let current = self.global_service_secrets(global.id).await?;
            let secrets = secrets.over(&template, &current, &global.template);
            let contexts = self.template_check(ctx, &global.name, spec, &template, &secrets).await?;
            if *template != global.template || secrets != current {
                let owner = KeyOwner::of(global.project_id);
                let secrets = self.seal_template(owner, global.id, &secrets).await?;
                wish = Some(TemplateRequest { template: *template, secrets, contexts });
            }
        } else if reads_otherwise && spec.context.is_none() {
            let current = self.global_service_secrets(global.id).await?;
            self.template_check(ctx, &global.name, spec, &global.template, &current).await?;
        }
        if wish.is_none() && *spec == global.spec {
            return Ok(global.into_inner());
        }
        let global = self
            .store
            .global_service_update(global.audited(ctx, "global_service.update"), &spec_change, wish.as_ref())
            .await?;
        self.globals.wake();
        Ok(global)
    }

    /// Removes a global service once its instances are let go, as its cascade says.
    pub async fn global_service_delete(
        &self,
        ctx: &OpCtx,
        selector: &GlobalServiceSelector,
    ) -> Result<GlobalService> {
        let global = self.authorized::<GlobalService, _>(ctx, selector).await?;
        let global = self.store.global_service_delete(global.audited(ctx, "global_service.delete")).await?;
        self.globals.wake();
        Ok(global)
    }

    /// Halts, resumes or undoes its rollout.
    pub async fn global_service_steer(
        &self,
        ctx: &OpCtx,
        selector: &GlobalServiceSelector,
        action: RolloutAction,
    ) -> Result<GlobalService> {
        let global = self.authorized::<GlobalService, Write>(ctx, selector).await?;
        let rollout = global.rollout.as_ref().ok_or_else(|| Error::conflict("it has no rollout"))?;
        let who = actor_name(ctx);
        let (rollout, audited) = match action {
            RolloutAction::Halt => (rollout.stop(&who)?, "global_service.halt"),
            RolloutAction::Undo => (rollout.undo(&who)?, "global_service.undo"),
            RolloutAction::Resume => {
                let read = self.authorized::<GlobalService, Read>(ctx, selector).await?;
                let instances = self.store.global_service_instances(&read).await?;
                let members: Vec<_> = instances.iter().map(Instance::member).collect();
                (rollout.resume(&members)?, "global_service.resume")
            }
        };
        let global = self.store.global_service_steer(global.audited(ctx, audited), &rollout).await?;
        self.globals.wake();
        Ok(global)
    }

    /// Refuses what would take away the service that the instances of a global service are copies of.
    pub(crate) async fn check_uncopied(&self, ctx: &OpCtx, id: ServiceId) -> Result<()> {
        let service = self.authorized::<Service, Read>(ctx, &ServiceSelector::Id(id)).await?;
        let all = self.store.global_services_copying(ctx.actor(), &service).await?;
        if all.is_empty() {
            return Ok(());
        }
        let hidden = "a global service that you may not see".to_owned();
        let seen: Vec<Authorized<GlobalService, Read>> = authorize_each(ctx, all)?;
        let whose = seen.first().map_or(hidden, |global| format!("the global service {}", global.name));
        Err(Error::conflict(format!(
            "the instances of {whose} are copies of {}; delete that global service first",
            service.name
        )))
    }

    /// How the instances of these fare.
    pub async fn global_services_counts(
        &self,
        ctx: &OpCtx,
        ids: &[GlobalServiceId],
    ) -> Result<HashMap<GlobalServiceId, InstanceCounts>> {
        let seen = self.authorized_many::<GlobalService, Read>(ctx, ids).await?;
        self.store.instances_counts(&seen).await
    }

    /// The same page of the instances of each of these, oldest first. Those that the caller may not see are left out.
    pub async fn global_services_instances(
        &self,
        ctx: &OpCtx,
        ids: &[GlobalServiceId],
        page: &PageArgs,
    ) -> Result<HashMap<GlobalServiceId, Page<Instance>>> {
        let page = page.request()?;
        let seen = self.authorized_many::<GlobalService, Read>(ctx, ids).await?;
        self.store.instances_pages(&seen, &page).await
    }

    /// Its instances.
    pub async fn global_service_instances(&self, ctx: &OpCtx, id: GlobalServiceId) -> Result<Vec<Instance>> {
        let global = self.authorized::<GlobalService, Read>(ctx, &GlobalServiceSelector::Id(id)).await?;
        self.store.global_service_instances(&global).await
    }

    /// A service as a template, with its cluster and its secrets: who copies them must be allowed to change them.
    pub(crate) async fn template_of(
        &self,
        ctx: &OpCtx,
        id: ServiceId,
    ) -> Result<(ClusterId, ServiceTemplate, TemplateSecrets)> {
        let service = self.service_unsealed(ctx, &ServiceSelector::Id(id)).await?;
        let sealed = self.store.service_secrets(&service).await?;
        let values = self.open_values(id, &sealed).await?;
        let secrets = TemplateSecrets {
            configuration: self.open_configuration(id, &sealed.configuration).await?,
            helm: values.helm,
            renderers: values.renderers,
            keep: KeptValues::None,
        };
        let (dependencies, contexts) = self.template_links(ctx, &service).await?;
        let template = ServiceTemplate {
            name: Some(service.name.to_string()),
            namespace: Some(service.namespace.to_string()),
            repository_id: service.repository_id,
            git: service.git.clone(),
            version: Some(service.version.clone()),
            rendering: service.rendering.clone(),
            sync_config: service.sync_config.clone(),
            protect: service.protect,
            dry_run: service.dry_run,
            templated: Some(service.templated),
            dependencies,
            contexts,
        };
        Ok((service.cluster_id, template, secrets))
    }

    /// What copies of a service are tied to: the services of the same names on their own clusters, and its contexts. What it
    /// depends on elsewhere is its own.
    async fn template_links(
        &self,
        ctx: &OpCtx,
        service: &Service,
    ) -> Result<(Vec<String>, Vec<ServiceContextId>)> {
        let ids = [service.id];
        let dependencies =
            self.services_dependencies(ctx, &ids).await?.remove(&service.id).unwrap_or_default();
        let here = dependencies.into_iter().filter(|one| one.on.cluster_id == service.cluster_id);
        let seen = self.authorized_many::<Service, Read>(ctx, &ids).await?;
        let contexts = self.store.services_contexts(&seen).await?.remove(&service.id).unwrap_or_default();
        Ok((here.map(|one| one.on.name.into()).collect(), contexts))
    }

    /// What can be known to be wrong before there is a cluster. Answers the contexts that it may use.
    pub(crate) async fn template_check(
        &self,
        ctx: &OpCtx,
        name: &plural_core::specs::Name,
        spec: &GlobalServiceSpec,
        template: &ServiceTemplate,
        secrets: &TemplateSecrets,
    ) -> Result<ContextsRequest> {
        let mut named: Vec<_> = template.rendering.repositories().chain(template.repository_id).collect();
        named.sort_unstable();
        named.dedup();
        for id in named {
            let found = self.authorized::<Repository, Read>(ctx, &RepositorySelector::Id(id)).await;
            found.map_err(|error| error.named_in("attributes.template.repositoryId"))?;
        }
        // Their names are no templates: what may be used is decided here, by the rights of whoever writes them.
        let contexts = self.contexts_usable(ctx, template.contexts.clone()).await?;
        secrets.configuration.check()?;
        if template.rendering.managed_namespace.is_some() {
            return Err(Error::invalid(
                "serviceId",
                "must not be the service of a managed namespace; add targets to the managed namespace \
                 instead",
            ));
        }
        if template.repository_id.is_none() && !template.rendering.has_source() {
            return Err(Error::invalid(
                "attributes.template.repositoryId",
                "a repository or a chart in \"helm\" is required",
            ));
        }
        if template.repository_id.is_some() != template.git.is_some() {
            return Err(Error::invalid("attributes.template.git", "must come together with a repository"));
        }
        if spec.context.is_none() {
            // Without templates in it, what is wrong now is wrong everywhere.
            template.instance(name, secrets)?.rendering.checked()?;
        }
        Ok(contexts)
    }

    /// The secrets of its newest generation. The caller may change it.
    pub(crate) async fn global_service_secrets(&self, id: GlobalServiceId) -> Result<TemplateSecrets> {
        let work = self.store.global_service_work(id).await?;
        let newest = work.and_then(|work| work.generations.into_iter().last());
        let newest = newest.ok_or(Error::not_found("global service"))?;
        self.open_template(id, &newest.secrets).await
    }

    pub(crate) async fn seal_template(
        &self,
        owner: KeyOwner,
        id: GlobalServiceId,
        secrets: &TemplateSecrets,
    ) -> Result<Sealed> {
        let json =
            serde_json::to_vec(secrets).map_err(|cause| Error::internal("writing a template", cause))?;
        self.sealer.keep(owner, &seal_context(id), &json).await
    }

    pub(crate) async fn open_template(
        &self,
        id: GlobalServiceId,
        sealed: &Sealed,
    ) -> Result<TemplateSecrets> {
        let json = self.sealer.open(&seal_context(id), sealed).await?;
        // The parser's own message could quote a value.
        serde_json::from_slice(&json)
            .map_err(|_| Error::internal("reading a template", "it is not what was sealed"))
    }
}

/// Whether a text of a template has anything to expand.
pub(crate) fn looks_templated(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

fn seal_context(id: GlobalServiceId) -> String {
    format!("global-service:{id}")
}

fn actor_name(ctx: &OpCtx) -> String {
    match ctx.actor() {
        Actor::User(user) => user.email.clone(),
        Actor::Nobody | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => {
            "the console".to_owned()
        }
    }
}
