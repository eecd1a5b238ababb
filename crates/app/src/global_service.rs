//! Global services.

use std::collections::HashMap;

use plural_core::access::{Actor, visibility};
use plural_core::{
    ClusterId, Error, GlobalService, GlobalServiceChange, GlobalServiceId, GlobalServiceSource,
    GlobalServiceSpec, NewGlobalService, Page, PageArgs, Result, Service, ServiceContextId, ServiceId,
    ServiceTemplate, TemplateSecrets,
};

use crate::access::{Act, Authorized, Home, Read, Write, authorize_each};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::{
    ContextsWish, GlobalServiceCreate, GlobalServiceSelector, Instance, InstanceCounts, RepositorySelector,
    ServiceSelector, TemplateWish,
};
use crate::seal::Sealed;

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
    pub(crate) async fn global_service_for<A: Act>(
        &self,
        ctx: &OpCtx,
        selector: &GlobalServiceSelector,
    ) -> Result<Authorized<GlobalService, A>> {
        self.store.global_service_for(ctx.actor(), selector).await?.authorize(ctx)
    }

    /// One global service.
    pub async fn global_service_get(
        &self,
        ctx: &OpCtx,
        selector: &GlobalServiceSelector,
    ) -> Result<GlobalService> {
        Ok(self.global_service_for::<Read>(ctx, selector).await?.into_inner())
    }

    /// Visible global services whose name contains `q`.
    pub async fn global_service_list(
        &self,
        ctx: &OpCtx,
        q: Option<&str>,
        page: &PageArgs,
    ) -> Result<Page<GlobalService>> {
        self.store.global_service_list(&visibility(ctx.actor())?, q, &page.request()?).await
    }

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
        let template = TemplateWish { template, secrets: self.seal_template(id, &secrets)?, contexts };
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
        let global = self.global_service_for::<Write>(ctx, selector).await?;
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
                    "cannot be given: the instances are copies of a service, change that one",
                ));
            }
            if template.name != global.template.name || template.namespace != global.template.namespace {
                return Err(Error::invalid(
                    "attributes.template.name",
                    "cannot change, nor can the namespace: make another global service",
                ));
            }
            let contexts = self.template_check(ctx, &global.name, spec, &template, &secrets).await?;
            let current = self.global_service_secrets(global.id).await?;
            if *template != global.template || secrets != current {
                let secrets = self.seal_template(global.id, &secrets)?;
                wish = Some(TemplateWish { template: *template, secrets, contexts });
            }
        } else if reads_otherwise && spec.context.is_none() {
            let current = self.global_service_secrets(global.id).await?;
            self.template_check(ctx, &global.name, spec, &global.template, &current).await?;
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
        let global = self.global_service_for(ctx, selector).await?;
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
        let global = self.global_service_for::<Write>(ctx, selector).await?;
        let rollout = global.rollout.as_ref().ok_or_else(|| Error::conflict("it has no rollout"))?;
        let who = actor_name(ctx);
        let (rollout, audited) = match action {
            RolloutAction::Halt => (rollout.stop(&who)?, "global_service.halt"),
            RolloutAction::Undo => (rollout.undo(&who)?, "global_service.undo"),
            RolloutAction::Resume => {
                let read = self.global_service_for::<Read>(ctx, selector).await?;
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
        let service = self.service_for::<Read>(ctx, &ServiceSelector::Id(id)).await?;
        let all = self.store.global_services_copying(ctx.actor(), &service).await?;
        if all.is_empty() {
            return Ok(());
        }
        let hidden = "a global service that you may not see".to_owned();
        let seen: Vec<Authorized<GlobalService, Read>> = authorize_each(ctx, all)?;
        let whose = seen.first().map_or(hidden, |global| format!("the global service {}", global.name));
        Err(Error::conflict(format!(
            "the instances of {whose} are copies of {}: delete that global service first",
            service.name
        )))
    }

    /// How the instances of these fare.
    pub async fn global_services_counts(
        &self,
        ctx: &OpCtx,
        ids: &[GlobalServiceId],
    ) -> Result<HashMap<GlobalServiceId, InstanceCounts>> {
        let seen: Vec<Authorized<GlobalService, Read>> =
            authorize_each(ctx, self.store.global_services_for(ctx.actor(), ids).await?)?;
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
        let seen: Vec<Authorized<GlobalService, Read>> =
            authorize_each(ctx, self.store.global_services_for(ctx.actor(), ids).await?)?;
        self.store.instances_pages(&seen, &page).await
    }

    /// Its instances.
    pub async fn global_service_instances(&self, ctx: &OpCtx, id: GlobalServiceId) -> Result<Vec<Instance>> {
        let global = self.global_service_for::<Read>(ctx, &GlobalServiceSelector::Id(id)).await?;
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
        let values = self.open_values(id, &sealed)?;
        let secrets = TemplateSecrets {
            configuration: self.open_configuration(id, &sealed.configuration)?,
            helm: values.helm,
            renderers: values.renderers,
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
        let seen = self.services_for::<Read>(ctx, &ids).await?;
        let contexts = self.store.services_contexts(&seen).await?.remove(&service.id).unwrap_or_default();
        Ok((here.map(|one| one.on.name.into()).collect(), contexts))
    }

    /// What can be known to be wrong before there is a cluster. Answers the contexts that it may use.
    pub(crate) async fn template_check(
        &self,
        ctx: &OpCtx,
        name: &plural_core::Name,
        spec: &GlobalServiceSpec,
        template: &ServiceTemplate,
        secrets: &TemplateSecrets,
    ) -> Result<ContextsWish> {
        let mut named: Vec<_> = template.rendering.repositories().chain(template.repository_id).collect();
        named.sort_unstable();
        named.dedup();
        for id in named {
            self.repository_for::<Read>(ctx, &RepositorySelector::Id(id)).await?;
        }
        // Their names are no templates: what may be used is decided here, by the rights of whoever writes them.
        let contexts = self.contexts_usable(ctx, template.contexts.clone()).await?;
        secrets.configuration.check()?;
        if template.rendering.managed_namespace.is_some() {
            return Err(Error::invalid(
                "serviceId",
                "must not be a managed namespace's own: give that more targets instead",
            ));
        }
        if template.repository_id.is_none() && !template.rendering.has_source() {
            return Err(Error::invalid(
                "attributes.template.repositoryId",
                "must be given, or a chart in \"helm\": a service is read from somewhere",
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
        self.open_template(id, &newest.secrets)
    }

    pub(crate) fn seal_template(&self, id: GlobalServiceId, secrets: &TemplateSecrets) -> Result<Sealed> {
        let json =
            serde_json::to_vec(secrets).map_err(|cause| Error::internal("writing a template", cause))?;
        self.sealer.seal(&seal_context(id), &json)
    }

    pub(crate) fn open_template(&self, id: GlobalServiceId, sealed: &Sealed) -> Result<TemplateSecrets> {
        let json = self.sealer.open(&seal_context(id), sealed)?;
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
        Actor::Nobody | Actor::Cluster(_) | Actor::System => "the console".to_owned(),
    }
}
