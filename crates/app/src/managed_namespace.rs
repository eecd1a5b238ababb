//! Managed namespaces.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::access::Actor;
use plural_core::data_key::KeyOwner;
use plural_core::global_service::{GlobalServiceSpec, KeptValues, ServiceTemplate, TemplateSecrets};
use plural_core::ids::{ClusterId, GlobalServiceId, ManagedNamespaceId};
use plural_core::managed_namespace::{
    ManagedNamespace, ManagedNamespaceChange, ManagedNamespaceSpec, ManagedNamespaceSpecChange,
    ManagedNamespaceState, NewManagedNamespace, in_namespace,
};
use plural_core::page::Keyed;
use plural_core::specs::{Change, KubeName, Name};
use plural_core::{Error, Page, PageArgs, PageRequest, Result};
use uuid::Uuid;

use crate::access::{Audited, Authorized, Home, Read, Write, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::dependency::ContextsRequest;
use crate::global_service::{Instance, TemplateRequest};
use crate::records::{Search, record};
use crate::seal::Sealed;

/// Which managed namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ManagedNamespaceSelector {
    /// By id.
    Id(ManagedNamespaceId),
    /// By exact name.
    Name(String),
}

/// One of the global services that a managed namespace spreads by.
#[derive(Debug)]
pub struct Part {
    /// Id to give it.
    pub id: GlobalServiceId,
    /// How it spreads.
    pub spec: GlobalServiceSpec,
    /// Its first generation.
    pub template: TemplateRequest,
}

/// What becomes of the service in a managed namespace. How it spreads follows from the namespace.
#[derive(Debug)]
pub enum ServicePart {
    /// It stays as it is, or there is none.
    Keep,
    /// Its instances are let go, as its cascade says, and then it goes.
    Drop,
    /// The one that was read is made from something else; without a template from the same.
    Change {
        /// Which was read.
        id: GlobalServiceId,
        /// Another template.
        template: Option<TemplateRequest>,
    },
    /// None was read, and there is one from now on.
    Make {
        /// Id to give it.
        id: GlobalServiceId,
        /// Its first generation.
        template: TemplateRequest,
    },
}

/// A new managed namespace.
#[derive(Debug)]
pub struct ManagedNamespaceCreate {
    /// Id to give it.
    pub id: ManagedNamespaceId,
    /// Unique in the installation.
    pub name: Name,
    /// What it is called in its clusters.
    pub namespace: KubeName,
    /// For people.
    pub description: Option<String>,
    /// What it is like, and where.
    pub spec: ManagedNamespaceSpec,
    /// What it spreads by.
    pub parts: Vec<Part>,
}

/// A changed managed namespace.
#[derive(Debug)]
pub struct ManagedNamespaceUpdate {
    /// For people; what it was so far when absent.
    pub description: Option<String>,
    /// What changes of what it is like, and where.
    pub spec: ManagedNamespaceSpecChange,
    /// What holds the namespace.
    pub holder: GlobalServiceId,
    /// The secrets of its template, sealed for it: it has none.
    pub holder_secrets: Sealed,
    /// The service in it.
    pub service: ServicePart,
}

/// A managed namespace on one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceInstance {
    /// Which cluster.
    pub cluster_id: ClusterId,
    /// What holds the namespace there.
    pub holder: Option<Instance>,
    /// The service in it.
    pub service: Option<Instance>,
}

impl NamespaceInstance {
    /// How it is.
    pub fn state(&self) -> ManagedNamespaceState {
        let of = |one: &Instance| ManagedNamespaceState::of(one.status, one.deleted);
        let all = self.holder.iter().chain(&self.service).map(of);
        all.reduce(ManagedNamespaceState::and).unwrap_or(ManagedNamespaceState::Waiting)
    }
}

impl Keyed for NamespaceInstance {
    fn key(&self) -> Uuid {
        self.cluster_id.uuid()
    }
}

/// How a managed namespace is on its clusters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NamespaceCounts {
    /// So many clusters have it.
    pub all: u64,
    /// On so many it is as it should be.
    pub synced: u64,
    /// On so many it, or the service in it, is on its way out.
    pub leaving: u64,
}

noun!(ManagedNamespace, "managed namespace", n => Some(n.id.uuid()), n.name.to_string());
record!(ManagedNamespace, ManagedNamespaceId, ManagedNamespaceSelector, Search);

/// Managed namespaces.
#[async_trait]
pub trait ManagedNamespaceStore: Send + Sync + 'static {
    /// Those that a cluster has, for its agent.
    async fn managed_namespace_list_of(
        &self,
        cluster: ClusterId,
        page: &PageRequest,
    ) -> Result<Page<ManagedNamespace>>;
    /// A new managed namespace with its parts.
    async fn managed_namespace_create(
        &self,
        by: Audited<'_, Home, Write>,
        create: &ManagedNamespaceCreate,
    ) -> Result<ManagedNamespace>;
    /// A changed one: the change is merged with what it is by then. Refused when its service was made, or went, since it was read.
    async fn managed_namespace_update(
        &self,
        by: Audited<'_, ManagedNamespace, Write>,
        update: &ManagedNamespaceUpdate,
    ) -> Result<ManagedNamespace>;
    /// Marks it and its parts: the job of global services lets their instances go; it goes with the last part.
    async fn managed_namespace_delete(
        &self,
        by: Audited<'_, ManagedNamespace, Write>,
    ) -> Result<ManagedNamespace>;
    /// How each of these is on its clusters; those that no cluster has are left out.
    async fn managed_namespaces_counts(
        &self,
        all: &[Authorized<ManagedNamespace, Read>],
    ) -> Result<HashMap<ManagedNamespaceId, NamespaceCounts>>;
    /// The same page for each of these: how it is on the clusters that have it, in the order of their ids.
    async fn managed_namespaces_instances_pages(
        &self,
        all: &[Authorized<ManagedNamespace, Read>],
        page: &PageRequest,
    ) -> Result<HashMap<ManagedNamespaceId, Page<NamespaceInstance>>>;
}

/// A description is a sentence, not a document.
const LONGEST_DESCRIPTION: usize = 4096;

impl App {
    /// Those that the cluster whose token asks has.
    pub async fn managed_namespace_list_of_cluster(
        &self,
        ctx: &OpCtx,
        page: &PageArgs,
    ) -> Result<Page<ManagedNamespace>> {
        match ctx.actor() {
            Actor::Cluster(id) => {
                let mut found = self.store.managed_namespace_list_of(*id, &page.request()?).await?;
                for edge in &mut found.edges {
                    // It tells of other clusters.
                    edge.node.error = None;
                }
                Ok(found)
            }
            Actor::Nobody => Err(Error::Unauthenticated),
            Actor::User(_) | Actor::Registration(_) | Actor::Run(_) | Actor::System => Err(Error::forbidden(
                "only a cluster's deploy token may ask; managedNamespaces is for people",
            )),
        }
    }

    /// A new managed namespace. Needs write access to its project, or, without one, an administrator; and read access to
    /// the repositories that its service names.
    pub async fn managed_namespace_create(
        &self,
        ctx: &OpCtx,
        new: NewManagedNamespace,
    ) -> Result<ManagedNamespace> {
        let guarded = self.store.global_service_home(ctx.actor(), new.project_id).await?;
        let home: Authorized<Home, Write> = guarded.authorize(ctx)?;
        let namespace = new.namespace()?;
        let NewManagedNamespace { name, namespace: _, description, project_id, mut spec, service } = new;
        spec.target.project_id = project_id;
        spec.check()?;
        check_description(description.as_deref())?;
        let owner = KeyOwner::of(project_id);
        let mut parts = vec![self.part(owner, spec.of_holder(), Checked::holder(&spec, &namespace)).await?];
        if let Some((template, secrets)) = service {
            let within = Within { name: &name, namespace: &namespace, spec: &spec };
            let checked = self.namespace_service(ctx, &within, *template, secrets).await?;
            parts.push(self.part(owner, spec.of_service(), checked).await?);
        }
        let id = ManagedNamespaceId::new();
        let by = home.audited_new(ctx, "managed_namespace.create", "managed namespace", id, &name);
        let create = ManagedNamespaceCreate { id, name, namespace, description, spec, parts };
        let managed = self.store.managed_namespace_create(by, &create).await?;
        self.globals.wake();
        Ok(managed)
    }

    /// A changed managed namespace.
    pub async fn managed_namespace_update(
        &self,
        ctx: &OpCtx,
        selector: &ManagedNamespaceSelector,
        change: ManagedNamespaceChange,
    ) -> Result<ManagedNamespace> {
        let managed = self.authorized::<ManagedNamespace, Write>(ctx, selector).await?;
        let Some(holder) = managed.holder.filter(|_| managed.deleted_at.is_none()) else {
            return Err(Error::conflict("the managed namespace is being deleted"));
        };
        let ManagedNamespaceChange { description, spec: spec_change, service } = change;
        let spec = spec_change.clone().over(managed.spec.clone());
        spec.check()?;
        check_description(description.as_deref())?;
        let owner = KeyOwner::of(managed.project_id);
        let update = ManagedNamespaceUpdate {
            description,
            spec: spec_change,
            holder,
            holder_secrets: self.seal_template(owner, holder, &TemplateSecrets::default()).await?,
            service: self.namespace_service_change(ctx, &managed, &spec, service).await?,
        };
        let same_service = match &update.service {
            ServicePart::Keep | ServicePart::Change { template: None, .. } => true,
            ServicePart::Drop => managed.service.is_none(),
            ServicePart::Make { .. } | ServicePart::Change { .. } => false,
        };
        let same_words = update.description.is_none() || update.description == managed.description;
        if same_service && same_words && spec == managed.spec {
            return Ok(managed.into_inner());
        }
        let by = managed.audited(ctx, "managed_namespace.update");
        let managed = self.store.managed_namespace_update(by, &update).await?;
        self.globals.wake();
        Ok(managed)
    }

    /// Removes a managed namespace once its namespaces are let go, as its cascade says.
    pub async fn managed_namespace_delete(
        &self,
        ctx: &OpCtx,
        selector: &ManagedNamespaceSelector,
    ) -> Result<ManagedNamespace> {
        let managed = self.authorized::<ManagedNamespace, _>(ctx, selector).await?;
        let by = managed.audited(ctx, "managed_namespace.delete");
        let managed = self.store.managed_namespace_delete(by).await?;
        self.globals.wake();
        Ok(managed)
    }

    /// How these are on their clusters. Those that the caller may not see are left out.
    pub async fn managed_namespaces_counts(
        &self,
        ctx: &OpCtx,
        ids: &[ManagedNamespaceId],
    ) -> Result<HashMap<ManagedNamespaceId, NamespaceCounts>> {
        let seen = self.authorized_many::<ManagedNamespace, Read>(ctx, ids).await?;
        let mut found = self.store.managed_namespaces_counts(&seen).await?;
        for managed in &seen {
            found.entry(managed.id).or_default();
        }
        Ok(found)
    }

    /// The same page for each of these: how it is on its clusters, in the order of their ids. Those that the caller may not see
    /// are left out.
    pub async fn managed_namespaces_instances(
        &self,
        ctx: &OpCtx,
        ids: &[ManagedNamespaceId],
        page: &PageArgs,
    ) -> Result<HashMap<ManagedNamespaceId, Page<NamespaceInstance>>> {
        let page = page.request()?;
        let seen = self.authorized_many::<ManagedNamespace, Read>(ctx, ids).await?;
        self.store.managed_namespaces_instances_pages(&seen, &page).await
    }

    async fn part(
        &self,
        owner: KeyOwner,
        spec: plural_core::global_service::GlobalServiceSpec,
        checked: Checked,
    ) -> Result<Part> {
        let id = GlobalServiceId::new();
        Ok(Part { id, spec, template: self.template_request(owner, id, checked).await? })
    }

    async fn template_request(
        &self,
        owner: KeyOwner,
        id: GlobalServiceId,
        checked: Checked,
    ) -> Result<TemplateRequest> {
        let Checked { template, secrets, contexts } = checked;
        let secrets = self.seal_template(owner, id, &secrets).await?;
        Ok(TemplateRequest { template, secrets, contexts })
    }

    /// The template of the service as it is kept, checked.
    async fn namespace_service(
        &self,
        ctx: &OpCtx,
        within: &Within<'_>,
        template: ServiceTemplate,
        secrets: TemplateSecrets,
    ) -> Result<Checked> {
        let Within { name, namespace, spec } = within;
        let template = in_namespace(template, namespace);
        let contexts = self.template_check(ctx, name, &spec.of_service(), &template, &secrets).await?;
        if template.name == spec.content.clone().template(namespace).name {
            return Err(Error::invalid(
                "attributes.service.name",
                "is already used by the managed namespace",
            ));
        }
        Ok(Checked { template, secrets, contexts })
    }

    /// What becomes of the service in it.
    async fn namespace_service_change(
        &self,
        ctx: &OpCtx,
        managed: &Authorized<ManagedNamespace, Write>,
        spec: &ManagedNamespaceSpec,
        service: Change<(Box<ServiceTemplate>, TemplateSecrets)>,
    ) -> Result<ServicePart> {
        let (given, mut secrets) = match service {
            Change::Keep => return Ok(ServicePart::Keep),
            Change::Clear => return Ok(ServicePart::Drop),
            Change::Set(given) => given,
        };
        if let Some((id, current)) = &managed.service {
            secrets = secrets.over(&given, &self.global_service_secrets(*id).await?, current);
        }
        secrets.keep = KeptValues::None;
        let within = Within { name: &managed.name, namespace: &managed.namespace, spec };
        let checked = self.namespace_service(ctx, &within, *given, secrets).await?;
        let owner = KeyOwner::of(managed.project_id);
        let Some((id, current)) = &managed.service else {
            let id = GlobalServiceId::new();
            return Ok(ServicePart::Make { id, template: self.template_request(owner, id, checked).await? });
        };
        if checked.template.name != current.name || checked.template.namespace != current.namespace {
            return Err(Error::invalid(
                "attributes.service.name",
                "cannot change, nor can the namespace: create another managed namespace",
            ));
        }
        let same =
            checked.template == *current && checked.secrets == self.global_service_secrets(*id).await?;
        let template = if same { None } else { Some(self.template_request(owner, *id, checked).await?) };
        Ok(ServicePart::Change { id: *id, template })
    }
}

/// A template that can be followed, with its secrets in clear.
struct Checked {
    template: ServiceTemplate,
    secrets: TemplateSecrets,
    contexts: ContextsRequest,
}

impl Checked {
    /// What holds a namespace. It reads nothing.
    fn holder(spec: &ManagedNamespaceSpec, namespace: &KubeName) -> Self {
        Self {
            template: spec.content.clone().template(namespace),
            secrets: TemplateSecrets::default(),
            contexts: ContextsRequest::default(),
        }
    }
}

/// What a service is put into.
struct Within<'a> {
    name: &'a plural_core::specs::Name,
    namespace: &'a KubeName,
    spec: &'a ManagedNamespaceSpec,
}

fn check_description(description: Option<&str>) -> Result<()> {
    if description.is_some_and(|text| text.len() > LONGEST_DESCRIPTION) {
        return Err(Error::invalid(
            "attributes.description",
            format!("must not be longer than {LONGEST_DESCRIPTION} bytes"),
        ));
    }
    if description.is_some_and(|text| text.contains('\0')) {
        return Err(Error::invalid("attributes.description", "must not hold a NUL character"));
    }
    Ok(())
}
