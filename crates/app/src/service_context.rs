//! Contexts: named documents that the templates of services read.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use plural_core::access::Actor;
use plural_core::data_key::KeyOwner;
use plural_core::global_service::GlobalService;
use plural_core::ids::{GlobalServiceId, ProjectId, ServiceContextId, ServiceId};
use plural_core::project::Project;
use plural_core::service::{Configuration, Service};
use plural_core::service_context::{
    ContextImport, MAX_CONTEXTS, ServiceContext, ServiceContextChange, context_data,
};
use plural_core::specs::Name;
use plural_core::stack::Stack;
use plural_core::{Error, Result};
use serde_json::{Map, Value};

use crate::access::{Admin, Audited, Authorized, Guarded, Read, Write, authorize_each, noun};
use crate::app::App;
use crate::context_import::ContextOutput;
use crate::ctx::OpCtx;
use crate::dependency::ContextsRequest;
use crate::project::ProjectSelector;
use crate::records::{Records, record};
use crate::seal::Sealed;
use crate::service_life::{check_fed, may_feed_agent_upgrades};

/// Which context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServiceContextSelector {
    /// By id.
    Id(ServiceContextId),
    /// By exact name.
    Name(String),
}

/// Which contexts of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceContextFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// Name contains this.
    pub q: Option<String>,
}

/// A context to keep; `None` leaves a part as it is.
#[derive(Debug)]
pub struct ServiceContextSave {
    /// Its name.
    pub name: Name,
    /// The document.
    pub configuration: Option<Map<String, Value>>,
    /// Names of its secret values, and those sealed for `service_context:ID:secrets`.
    pub secrets: Option<(Vec<String>, Sealed)>,
    /// All outputs of stacks that it takes.
    pub imports: Option<Vec<ContextImport>>,
}

impl ServiceContextSave {
    /// Whether it gives the context what nobody is shown.
    pub fn hides(&self) -> bool {
        let Self { name: _, configuration: _, secrets, imports } = self;
        secrets.as_ref().is_some_and(|(names, _)| !names.is_empty())
            || imports.iter().flatten().any(|import| import.sensitive)
    }
}

/// A context as an agent's answer needs it.
#[derive(Debug, Clone)]
pub struct ServiceContextRow {
    /// The context.
    pub context: ServiceContext,
    /// Its secret values, sealed for `service_context:ID:secrets`.
    pub secrets: Option<Sealed>,
    /// Those of the outputs that it takes which are there, for all services that use it the same.
    pub outputs: Arc<[ContextOutput]>,
}

/// Who reads a context.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextUsers {
    /// Services of their own.
    pub services: Vec<ServiceId>,
    /// Global services that give it to their instances, or did.
    pub globals: Vec<GlobalServiceId>,
}

impl ContextUsers {
    /// So many there are.
    pub fn count(&self) -> usize {
        self.services.len() + self.globals.len()
    }
}

noun!(ServiceContext, "service context", c => Some(c.id.uuid()), c.name.to_string(), project: c.project_id);
record!(ServiceContext, ServiceContextId, ServiceContextSelector, ServiceContextFilter);

/// Contexts.
#[async_trait]
pub trait ServiceContextStore: Send + Sync + 'static {
    /// Whether a service that upgrades its cluster's agent reads the context.
    async fn context_feeds_agent_upgrade(&self, id: ServiceContextId) -> Result<bool>;
    /// The same by name.
    async fn contexts_for_names(
        &self,
        actor: &Actor,
        names: &[String],
    ) -> Result<Vec<Guarded<ServiceContext>>>;
    /// A new context.
    async fn context_create(
        &self,
        by: Audited<'_, Project, Write>,
        id: ServiceContextId,
        save: &ServiceContextSave,
    ) -> Result<ServiceContext>;
    /// A changed context; the services that use it are told. With `only`, [`plural_core::Error::Conflict`] when others than
    /// those read it. Unless it `may_feed` the upgrade of an agent, [`plural_core::Error::Forbidden`] where such a service uses
    /// it by then.
    async fn context_update(
        &self,
        by: Audited<'_, ServiceContext, Write>,
        save: &ServiceContextSave,
        only: Option<&ContextUsers>,
        may_feed: bool,
    ) -> Result<ServiceContext>;
    /// Removes a context; [`plural_core::Error::Conflict`] while a service uses it. `may_feed` as for a change.
    async fn context_delete(&self, by: Audited<'_, ServiceContext, Write>, may_feed: bool) -> Result<()>;
    /// The contexts that each of these services uses; those that use none are left out.
    async fn services_contexts(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<ServiceContextId>>>;
    /// The secret values of a context, sealed for `service_context:ID:secrets`.
    async fn context_sealed(&self, context: &Authorized<ServiceContext, Write>) -> Result<Option<Sealed>>;
    /// The contexts that take outputs of a stack.
    async fn stack_contexts(&self, stack: &Authorized<Stack, Admin>) -> Result<Vec<ServiceContextId>>;
    /// Who reads a context.
    async fn context_users(&self, context: &Authorized<ServiceContext, Write>) -> Result<ContextUsers>;
    /// The services that use a context.
    async fn context_services(&self, context: &Authorized<ServiceContext, Write>) -> Result<Vec<ServiceId>>;
}

impl App {
    /// Makes the context of this name, or changes it: every service that uses it is rendered anew. Needs write access to its
    /// project, and an administrator of the installation where the upgrade of an agent reads it.
    pub async fn context_save(
        &self,
        ctx: &OpCtx,
        name: Name,
        change: ServiceContextChange,
    ) -> Result<ServiceContext> {
        change.check()?;
        let selector = ServiceContextSelector::Name(name.to_string());
        let known = match self.authorized::<ServiceContext, Write>(ctx, &selector).await {
            Ok(known) => Some(known),
            Err(Error::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let id = known.as_ref().map_or_else(ServiceContextId::new, |known| known.id);
        let ServiceContextChange { project_id, configuration, secrets: given, imports } = change;
        self.check_context_imports(ctx, imports.as_deref().unwrap_or_default()).await?;
        if let Some(known) = known {
            let secrets = self.context_sealed_for(known.project_id, id, given.as_ref()).await?;
            let save = ServiceContextSave { name, configuration, secrets, imports };
            let may_feed = may_feed_agent_upgrades(ctx);
            check_fed(may_feed, self.store.context_feeds_agent_upgrade(known.id).await?, "context")?;
            if project_id.is_some_and(|project| project != known.project_id) {
                return Err(Error::invalid(
                    "attributes.projectId",
                    "cannot change: a context cannot move to another project; delete it there first",
                ));
            }
            let is_so = save.configuration.as_ref().is_none_or(|given| *given == known.configuration)
                && save.imports.as_ref().is_none_or(|given| *given == known.imports);
            if is_so && self.context_secrets_are(&known, given.as_ref()).await? {
                return Ok(known.into_inner());
            }
            let first = save.hides() && !known.hides();
            let only = if first { Some(self.context_trusted(ctx, &known).await?) } else { None };
            let by = known.audited(ctx, "serviceContext.update");
            return self.store.context_update(by, &save, only.as_ref(), may_feed).await;
        }
        let own = ctx.actor().run_project();
        let selector = project_id.or(own).map_or(ProjectSelector::Default, ProjectSelector::Id);
        let project = match own {
            None => self.authorized::<Project, Write>(ctx, &selector).await,
            // In its own project, and of all that may be made there only this.
            Some(_) => match self.authorized::<Project, Read>(ctx, &selector).await {
                Ok(_) => {
                    self.authorized::<Project, Write>(&self.ctx(ctx.actor().beyond_run()), &selector).await
                }
                Err(error) => Err(error),
            },
        };
        let project = project.map_err(|error| error.named_in("attributes.projectId"))?;
        let secrets = self.context_sealed_for(project.id, id, given.as_ref()).await?;
        let save = ServiceContextSave { name, configuration, secrets, imports };
        let by = project.audited_new(ctx, "serviceContext.create", "service context", id, &save.name);
        self.store.context_create(by, id, &save).await
    }

    /// Who reads a context that gets its first secret values. Whoever tied a service to it needed to see it and no more; with
    /// secrets that takes somebody who may change both, so now it takes the caller.
    async fn context_trusted(
        &self,
        ctx: &OpCtx,
        context: &Authorized<ServiceContext, Write>,
    ) -> Result<ContextUsers> {
        let users = self.store.context_users(context).await?;
        let services = self.authorized_many::<Service, Write>(ctx, &users.services).await?;
        let globals = self.authorized_many::<GlobalService, Write>(ctx, &users.globals).await?;
        let trusted = ContextUsers {
            services: services.iter().map(|one| one.id).collect(),
            globals: globals.iter().map(|one| one.id).collect(),
        };
        let others = users.count() - trusted.count().min(users.count());
        if others > 0 {
            return Err(Error::conflict(format!(
                "cannot add secrets: {others} services that read this context are outside your write access, \
                 and their editors could read the values; use a separate context"
            )));
        }
        Ok(trusted)
    }

    /// Removes a context that no service uses.
    pub async fn context_delete(&self, ctx: &OpCtx, id: ServiceContextId) -> Result<ServiceContext> {
        let context = self.authorized::<ServiceContext, Write>(ctx, &ServiceContextSelector::Id(id)).await?;
        let may_feed = may_feed_agent_upgrades(ctx);
        check_fed(may_feed, self.store.context_feeds_agent_upgrade(id).await?, "context")?;
        let users = self.store.context_services(&context).await?;
        if !users.is_empty() {
            let seen = self.authorized_many::<Service, Read>(ctx, &users).await?;
            let mut names = self.service_names(ctx, seen.iter().map(|one| &**one)).await?;
            if seen.len() < users.len() {
                names.push(format!("{} that you may not see", users.len() - seen.len()));
            }
            return Err(Error::conflict(format!("services use the context: {}", names.join(", "))));
        }
        self.store.context_delete(context.audited(ctx, "serviceContext.delete"), may_feed).await?;
        Ok(context.into_inner())
    }

    /// The contexts that services use, as far as the caller may see them.
    pub async fn services_contexts(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, Vec<ServiceContext>>> {
        let used = self.store.services_contexts(&self.authorized_many::<Service, _>(ctx, ids).await?).await?;
        let all: Vec<ServiceContextId> = used.values().flatten().copied().collect();
        let seen = self.get_many::<ServiceContext>(ctx, &all).await?;
        Ok(used
            .into_iter()
            .map(|(id, contexts)| (id, contexts.iter().filter_map(|id| seen.get(id).cloned()).collect()))
            .collect())
    }

    /// The contexts of these names; all of them must be there for the caller.
    pub async fn contexts_named(&self, ctx: &OpCtx, names: &[String]) -> Result<Vec<ServiceContextId>> {
        check_count(names.len())?;
        let seen: Vec<Authorized<ServiceContext, Read>> =
            authorize_each(ctx, self.store.contexts_for_names(ctx.actor(), names).await?)?;
        let ids: HashMap<&str, ServiceContextId> =
            seen.iter().map(|context| (context.name.as_str(), context.id)).collect();
        let id = |name: &String| ids.get(name.as_str()).copied().ok_or(Error::not_found("service context"));
        names.iter().map(id).collect()
    }

    /// Whether the caller may have services use these contexts. What a service renders, its owner can read: one that hides
    /// values takes whoever may change it.
    pub(crate) async fn contexts_usable(
        &self,
        ctx: &OpCtx,
        mut ids: Vec<ServiceContextId>,
    ) -> Result<ContextsRequest> {
        ids.sort_unstable();
        ids.dedup();
        check_count(ids.len())?;
        let found = Records::<ServiceContext>::find_many(&*self.store, ctx.actor(), &ids).await?;
        if found.len() < ids.len() {
            return Err(Error::not_found("service context"));
        }
        let mut plain = Vec::new();
        for guarded in found {
            let context: Authorized<ServiceContext, Read> = guarded.clone().authorize(ctx)?;
            if context.hides() {
                guarded.authorize::<Write>(ctx)?;
            } else {
                plain.push(context.id);
            }
        }
        Ok(ContextsRequest { ids, plain })
    }

    /// What templates read as `contexts`.
    pub(crate) async fn contexts_opened(&self, rows: Vec<ServiceContextRow>) -> Result<Map<String, Value>> {
        let mut opened = Map::new();
        for row in rows {
            let secrets = self.context_secrets(&row).await?;
            let outputs = self.context_outputs_opened(&row).await?;
            let ServiceContext { name, configuration, .. } = row.context;
            opened.insert(name.into(), context_data(configuration, outputs, secrets));
        }
        Ok(opened)
    }

    /// The secret values of a context in clear.
    pub(crate) async fn context_secrets(&self, row: &ServiceContextRow) -> Result<Configuration> {
        match &row.secrets {
            None => Ok(Configuration::default()),
            Some(sealed) => self.open_context(row.context.id, sealed).await,
        }
    }

    /// Whether these are the secret values of a context already; where none are given, they stay.
    async fn context_secrets_are(
        &self,
        context: &Authorized<ServiceContext, Write>,
        given: Option<&Configuration>,
    ) -> Result<bool> {
        let Some(given) = given else { return Ok(true) };
        Ok(match self.store.context_sealed(context).await? {
            None => given.is_empty(),
            Some(sealed) => *given == self.open_context(context.id, &sealed).await?,
        })
    }

    /// The names of secret values, and the values sealed.
    async fn context_sealed_for(
        &self,
        project: ProjectId,
        id: ServiceContextId,
        secrets: Option<&Configuration>,
    ) -> Result<Option<(Vec<String>, Sealed)>> {
        let Some(secrets) = secrets else { return Ok(None) };
        let json = serde_json::to_vec(secrets)
            .map_err(|cause| Error::internal("writing a context's secrets", cause))?;
        let sealed = self.sealer.keep(KeyOwner::Project(project), &secrets_context(id), &json).await?;
        Ok(Some((secrets.values.keys().cloned().collect(), sealed)))
    }

    pub(crate) async fn open_context(&self, id: ServiceContextId, sealed: &Sealed) -> Result<Configuration> {
        let json = self.sealer.open(&secrets_context(id), sealed).await?;
        // The parser's own message could quote a value.
        serde_json::from_slice(&json)
            .map_err(|_| Error::internal("reading a context's secrets", "it is not what was sealed"))
    }
}

fn check_count(count: usize) -> Result<()> {
    if count > MAX_CONTEXTS {
        let reason = format!("at most {MAX_CONTEXTS} are allowed");
        return Err(Error::invalid("attributes.contexts", reason));
    }
    Ok(())
}

fn secrets_context(id: ServiceContextId) -> String {
    format!("service_context:{id}:secrets")
}
