//! Managed namespaces.

use std::collections::BTreeMap;

use plural_core::access::{Actor, visibility};
use plural_core::{
    Change, ClusterId, Error, GlobalServiceId, KubeName, ManagedNamespace, ManagedNamespaceChange,
    ManagedNamespaceId, ManagedNamespaceSpec, ManagedNamespaceState, NewManagedNamespace, Page, PageArgs,
    Result, ServiceTemplate, TemplateSecrets, in_namespace,
};

use crate::access::{Act, Authorized, Home, Read, Write};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::ports::{
    Instance, ManagedNamespaceCreate, ManagedNamespaceSelector, ManagedNamespaceUpdate, Part, PartChange,
    PartInstances,
};

/// A description is a sentence, not a document.
const LONGEST_DESCRIPTION: usize = 4096;

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

impl App {
    async fn managed_namespace_for<A: Act>(
        &self,
        ctx: &OpCtx,
        selector: &ManagedNamespaceSelector,
    ) -> Result<Authorized<ManagedNamespace, A>> {
        self.store.managed_namespace_for(ctx.actor(), selector).await?.authorize(ctx)
    }

    /// One managed namespace.
    pub async fn managed_namespace_get(
        &self,
        ctx: &OpCtx,
        selector: &ManagedNamespaceSelector,
    ) -> Result<ManagedNamespace> {
        Ok(self.managed_namespace_for::<Read>(ctx, selector).await?.into_inner())
    }

    /// Visible managed namespaces whose name contains `q`.
    pub async fn managed_namespace_list(
        &self,
        ctx: &OpCtx,
        q: Option<&str>,
        page: &PageArgs,
    ) -> Result<Page<ManagedNamespace>> {
        self.store.managed_namespace_list(&visibility(ctx.actor())?, q, &page.request()?).await
    }

    /// Those that the cluster whose token asks has.
    pub async fn managed_namespace_list_of_cluster(
        &self,
        ctx: &OpCtx,
        page: &PageArgs,
    ) -> Result<Page<ManagedNamespace>> {
        match ctx.actor() {
            Actor::Cluster(id) => self.store.managed_namespace_list_of(*id, &page.request()?).await,
            Actor::Nobody => Err(Error::Unauthenticated),
            Actor::User(_) | Actor::System => Err(Error::forbidden(
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
        let holder = spec.content.clone().template(&namespace);
        let mut parts = vec![self.part(spec.of_holder(), holder, &TemplateSecrets::default())?];
        if let Some((template, secrets)) = service {
            let within = Within { name: &name, namespace: &namespace, spec: &spec };
            let template = self.namespace_service(ctx, &within, *template, &secrets).await?;
            parts.push(self.part(spec.of_service(), template, &secrets)?);
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
        let managed = self.managed_namespace_for::<Write>(ctx, selector).await?;
        let Some(holder) = managed.holder.filter(|_| managed.deleted_at.is_none()) else {
            return Err(Error::conflict("the managed namespace is being deleted"));
        };
        let ManagedNamespaceChange { description, mut spec, service } = change;
        spec.target.project_id = managed.project_id;
        if spec.content.pull_secrets.is_none() && managed.spec.content.pull_secrets.is_some() {
            // The account that has them must be told that it has none.
            spec.content.pull_secrets = Some(Vec::new());
        }
        spec.check()?;
        check_description(description.as_deref())?;
        let template = (spec.content != managed.spec.content)
            .then(|| spec.content.clone().template(&managed.namespace))
            .map(|template| self.seal_template(holder, &TemplateSecrets::default()).map(|it| (template, it)))
            .transpose()?;
        let mut parts = vec![PartChange::Change { id: holder, spec: spec.of_holder(), template }];
        parts.extend(self.namespace_service_change(ctx, &managed, &spec, service).await?);
        let update = ManagedNamespaceUpdate { description, spec, parts };
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
        let managed = self.managed_namespace_for(ctx, selector).await?;
        let by = managed.audited(ctx, "managed_namespace.delete");
        let managed = self.store.managed_namespace_delete(by).await?;
        self.globals.wake();
        Ok(managed)
    }

    /// How it is on each cluster, in the order of their ids.
    pub async fn managed_namespace_instances(
        &self,
        ctx: &OpCtx,
        id: ManagedNamespaceId,
    ) -> Result<Vec<NamespaceInstance>> {
        let managed = self.managed_namespace_for::<Read>(ctx, &ManagedNamespaceSelector::Id(id)).await?;
        let PartInstances { holders, services } = self.store.managed_namespace_instances(&managed).await?;
        let mut found: BTreeMap<ClusterId, NamespaceInstance> = BTreeMap::new();
        let absent = |cluster_id| NamespaceInstance { cluster_id, holder: None, service: None };
        for holder in holders {
            let id = holder.cluster_id;
            found.entry(id).or_insert_with(|| absent(id)).holder = Some(holder);
        }
        for service in services {
            let id = service.cluster_id;
            found.entry(id).or_insert_with(|| absent(id)).service = Some(service);
        }
        Ok(found.into_values().collect())
    }

    fn part(
        &self,
        spec: plural_core::GlobalServiceSpec,
        template: ServiceTemplate,
        secrets: &TemplateSecrets,
    ) -> Result<Part> {
        let id = GlobalServiceId::new();
        Ok(Part { id, spec, template, secrets: self.seal_template(id, secrets)? })
    }

    /// The template of the service as it is kept, checked.
    async fn namespace_service(
        &self,
        ctx: &OpCtx,
        within: &Within<'_>,
        template: ServiceTemplate,
        secrets: &TemplateSecrets,
    ) -> Result<ServiceTemplate> {
        let Within { name, namespace, spec } = within;
        let template = in_namespace(template, namespace);
        self.template_check(ctx, name, &spec.of_service(), &template, secrets).await?;
        if template.name == spec.content.clone().template(namespace).name {
            return Err(Error::invalid("attributes.service.name", "is taken by what holds the namespace"));
        }
        Ok(template)
    }

    /// What becomes of the service in it.
    async fn namespace_service_change(
        &self,
        ctx: &OpCtx,
        managed: &Authorized<ManagedNamespace, Write>,
        spec: &ManagedNamespaceSpec,
        service: Change<(Box<ServiceTemplate>, TemplateSecrets)>,
    ) -> Result<Option<PartChange>> {
        let known = managed.service.as_ref();
        let (given, secrets) = match (service, known) {
            (Change::Keep | Change::Clear, None) => return Ok(None),
            (Change::Clear, Some((id, _))) => return Ok(Some(PartChange::Drop(*id))),
            (Change::Keep, Some((id, _))) => {
                return Ok(Some(PartChange::Change { id: *id, spec: spec.of_service(), template: None }));
            }
            (Change::Set((given, secrets)), _) => (given, secrets),
        };
        let within = Within { name: &managed.name, namespace: &managed.namespace, spec };
        let template = self.namespace_service(ctx, &within, *given, &secrets).await?;
        let Some((id, current)) = known else {
            return self.part(spec.of_service(), template, &secrets).map(PartChange::Make).map(Some);
        };
        if template.name != current.name || template.namespace != current.namespace {
            return Err(Error::invalid(
                "attributes.service.name",
                "cannot change, nor can the namespace: make another managed namespace",
            ));
        }
        let same = template == *current && secrets == self.global_service_secrets(*id).await?;
        let template = if same { None } else { Some((template, self.seal_template(*id, &secrets)?)) };
        Ok(Some(PartChange::Change { id: *id, spec: spec.of_service(), template }))
    }
}

/// What a service is put into.
struct Within<'a> {
    name: &'a plural_core::Name,
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
    Ok(())
}
