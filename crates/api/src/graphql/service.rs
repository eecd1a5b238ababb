//! Services.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::cluster::ClusterSelector;
use plural_app::service::ServiceSelector;
use plural_core::Error;
use plural_core::policy::Role;
use plural_specs::SyncConfigObject;

use super::{
    audit::AuditConnection,
    binding::{PolicyBinding, RoleBinding, bindings_of, role_bindings_of},
    cluster::Cluster,
    component::ServiceComponent,
    configuration::ServiceConfiguration,
    dependency::Links,
    error::{IntoGraphql, List, Nullable, exactly_one, id, list, nullable},
    flow::Flow,
    git_repository::GitRepository,
    health_change::PastHealth,
    limited::limited,
    page::{connection, page_args},
    record::{by_id, one},
    rendering::{HelmSpec, Kustomize, Renderer, ServiceSource},
    request::request,
    revision::{Revision, RevisionConnection},
    service_input::{ServiceDeploymentAttributes, ServiceUpdateAttributes},
    service_life::ServicePin,
    service_metadata::Described,
    service_reason::ServiceReason,
    sync::{PendingApproval, ServiceSync, sync_of},
    sync_plan::{DriftEventConnection, ServicePlanConnection},
};

/// How a service fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::status::ServiceStatus")]
pub(crate) enum ServiceDeploymentStatus {
    /// Its current revision is not applied and ready yet.
    Stale,
    /// Applied; nothing is known of its objects' health.
    Synced,
    /// Applied, and every object is ready.
    Healthy,
    /// Something is wrong: see its errors and components.
    Failed,
    /// An object waits for a person.
    Paused,
}

/// A place in a repository.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct GitRef {
    /// Branch, tag, commit, or semver range of tags.
    #[graphql(name = "ref")]
    reference: String,
    /// Folder, empty for the root.
    folder: String,
    /// Further files that are taken along.
    files: Option<Vec<String>>,
}

impl From<plural_core::service::GitRef> for GitRef {
    fn from(git: plural_core::service::GitRef) -> Self {
        let plural_core::service::GitRef { reference, folder, files } = git;
        Self { reference, folder, files: Some(files) }
    }
}

/// What is wrong with a service.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct ServiceError {
    /// Where it went wrong: git, source, render, sync, prune.
    source: String,
    /// What is wrong, and the next step.
    message: String,
    /// Does not make the service fail.
    warning: Option<bool>,
    /// Trying again does not help: somebody has to change something first.
    terminal: bool,
    /// File and line, where one is known.
    location: Option<String>,
}

impl From<plural_core::service_error::ServiceError> for ServiceError {
    fn from(error: plural_core::service_error::ServiceError) -> Self {
        let plural_core::service_error::ServiceError { source, message, warning, terminal, location } = error;
        // Clients of the original ask for the message alone: it has to say where, too.
        let message = match &location {
            Some(location) if !message.contains(location.as_str()) => format!("{location}: {message}"),
            _ => message,
        };
        Self { source, message, warning: Some(warning), terminal, location }
    }
}

/// A folder of a git repository, kept applied in a cluster.
pub(crate) struct ServiceDeployment(plural_core::service::Service);

impl From<plural_core::service::Service> for ServiceDeployment {
    fn from(service: plural_core::service::Service) -> Self {
        Self(service)
    }
}

connection!(ServiceDeploymentConnection, ServiceDeploymentEdge, ServiceDeployment);

/// A folder of a git repository, kept applied in a cluster.
#[Object]
impl ServiceDeployment {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Name, unique on its cluster.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// Namespace that its objects go to unless they name one.
    async fn namespace(&self) -> &str {
        self.0.namespace.as_str()
    }

    /// A label for people.
    async fn version(&self) -> &str {
        &self.0.version
    }

    /// How it fares.
    async fn status(&self) -> ServiceDeploymentStatus {
        self.0.status.into()
    }

    /// How many of its objects are ready, as `n / m`.
    async fn component_status(&self) -> Option<&str> {
        Some(self.0.component_status.as_str())
    }

    /// Why it is not as it should be, the first cause to hear of; null for one that is.
    async fn reason(&self, ctx: &Context<'_>) -> Nullable<ServiceReason> {
        nullable(async {
            let request = request(ctx);
            let look_up =
                async |ids: Vec<_>| request.app.services_reasons(&request.op, &ids).await.into_graphql(ctx);
            Ok(request.batches.reasons.get(self.0.id, look_up).await?.map(Into::into))
        })
        .await
    }

    /// Deleting it is refused.
    async fn protect(&self) -> Option<bool> {
        Some(self.0.protect)
    }

    /// Planned and reported, never applied.
    async fn dry_run(&self) -> Option<bool> {
        Some(self.0.dry_run)
    }

    /// `.liquid` files are rendered.
    async fn templated(&self) -> Option<bool> {
        Some(self.0.templated)
    }

    /// Time between full checks, as `90s`; the agent's own rhythm when absent.
    async fn interval(&self) -> Option<String> {
        self.0.interval_seconds.map(|seconds| format!("{seconds}s"))
    }

    /// Folder in the repository with documentation.
    async fn docs_path(&self) -> Option<&str> {
        self.0.docs_path.as_deref()
    }

    /// The commit that should be applied.
    async fn sha(&self) -> Option<&str> {
        self.0.sha.as_deref()
    }

    /// Name of that commit's author; absent for what is in no repository.
    async fn author(&self) -> Option<&str> {
        self.0.author.as_deref()
    }

    /// First line of that commit's message.
    async fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// SHA-256 of what should be applied, uncompressed.
    async fn digest(&self) -> Option<&str> {
        self.0.artifact_digest.as_deref()
    }

    /// Nothing of it is applied, repaired or deleted until it is resumed.
    async fn paused(&self) -> Option<bool> {
        Some(self.0.paused)
    }

    /// It is marked as the upgrade of its cluster's agent: it reaches the agent's namespace, and only administrators of the
    /// installation change it.
    async fn agent_upgrade(&self) -> Option<bool> {
        Some(self.0.agent_upgrade)
    }

    /// Set while it is held at a revision that it was rolled back to.
    async fn pin(&self) -> Option<ServicePin> {
        ServicePin::of(&self.0)
    }

    /// Set while its objects are being removed; it goes when they are gone.
    async fn deleted_at(&self) -> Option<DateTime<Utc>> {
        self.0.deleted_at
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }

    /// Where in its repository it is.
    async fn git(&self) -> Option<GitRef> {
        self.0.git.clone().map(Into::into)
    }

    /// Its chart, and how that is rendered.
    async fn helm(&self) -> Option<HelmSpec> {
        let helm = self.0.rendering.helm.clone()?;
        Some(HelmSpec { service: Some(self.0.id), helm })
    }

    /// Its Kustomization.
    async fn kustomize(&self) -> Option<Kustomize> {
        self.0.rendering.kustomize.clone().map(Into::into)
    }

    /// What renders which part of its folder; empty: what the root holds decides.
    async fn renderers(&self) -> List<Renderer> {
        let all = self.0.rendering.renderers.iter().cloned().enumerate();
        list(all.map(|(place, stored)| Renderer { service: Some(self.0.id), place, stored }))
    }

    /// What it is grouped by in the original console. Always null: there are no flows here.
    async fn flow(&self) -> Option<Flow> {
        None
    }

    /// Where the files that it is made of are downloaded from, as a `tar.gz`; for those who may change the service. Absent until
    /// its source was fetched.
    async fn tarball(&self, ctx: &Context<'_>) -> Option<String> {
        self.0.artifact_digest.as_ref()?;
        let console = request(ctx).options.public_url.as_deref()?;
        Some(format!("{}{}?id={}", console.trim_end_matches('/'), crate::tarball::PATH, self.0.id))
    }

    /// Where people read its folder with a browser; absent where that is not known, or you may not see the repository.
    async fn folder_url(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            let (Some(id), Some(git)) = (self.0.repository_id, &self.0.git) else { return Ok(None) };
            let found: Option<GitRepository> =
                by_id::<plural_core::repository::Repository, _>(ctx, id).await?;
            Ok(found.and_then(|repository| repository.folder_url(git)))
        })
        .await
    }

    /// Further places in git whose files join its own.
    async fn sources(&self) -> List<ServiceSource> {
        list(self.0.rendering.sources.iter().cloned().map(Into::into))
    }

    /// How it is applied.
    async fn sync_config(&self) -> Option<SyncConfigObject> {
        Some(self.0.sync_config.clone().into())
    }

    /// How far its sync is.
    async fn sync(&self, ctx: &Context<'_>) -> Nullable<ServiceSync> {
        nullable(async { Ok(Some(sync_of(ctx, self.0.id).await?.into())) }).await
    }

    /// Deletions that wait for a person.
    async fn pending_approval(&self, ctx: &Context<'_>) -> Nullable<PendingApproval> {
        nullable(async { Ok(sync_of(ctx, self.0.id).await?.pending.map(Into::into)) }).await
    }

    /// What its syncs did, and plans that were asked for, oldest first.
    async fn plans(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<ServicePlanConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            Ok(Some(request.app.service_plans(&request.op, self.0.id, &page).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Foreign changes of its objects, oldest first.
    async fn drift(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<DriftEventConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            Ok(Some(request.app.service_drift(&request.op, self.0.id, &page).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Its repository; absent when you may see the service but not the repository.
    async fn repository(&self, ctx: &Context<'_>) -> Nullable<GitRepository> {
        nullable(by_id::<plural_core::repository::Repository, _>(ctx, self.0.repository_id)).await
    }

    /// Where it runs; absent when you may see the service but not the cluster.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        nullable(by_id::<plural_core::cluster::Cluster, _>(ctx, self.0.cluster_id)).await
    }

    /// What it is tied to.
    #[graphql(flatten)]
    async fn links(&self, _ctx: &Context<'_>) -> Links {
        // The macro takes no function that is not async.
        std::future::ready(Links(self.0.id)).await
    }

    /// How it was.
    #[graphql(flatten)]
    async fn past_health(&self, _ctx: &Context<'_>) -> PastHealth {
        std::future::ready(PastHealth::from(&self.0)).await
    }

    /// What is told about its objects as a whole.
    #[graphql(flatten)]
    async fn described(&self, _ctx: &Context<'_>) -> Described {
        std::future::ready(Described(self.0.id)).await
    }

    /// The objects that it owns, as its agent last saw them.
    async fn components(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<ServiceComponent>>> {
        nullable(async {
            let request = request(ctx);
            let look_up = async |ids: Vec<_>| {
                request.app.services_components(&request.op, &ids).await.into_graphql(ctx)
            };
            let components = request.batches.components.get(self.0.id, look_up).await?.unwrap_or_default();
            Ok(limited(ctx, components.into_iter().map(Into::into)))
        })
        .await
    }

    /// What is wrong with it.
    async fn errors(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<ServiceError>>> {
        nullable(async {
            let request = request(ctx);
            let look_up =
                async |ids: Vec<_>| request.app.services_errors(&request.op, &ids).await.into_graphql(ctx);
            let errors = request.batches.errors.get(self.0.id, look_up).await?.unwrap_or_default();
            Ok(limited(ctx, errors.into_iter().map(Into::into)))
        })
        .await
    }

    /// Its values for templates; absent when you may not change the service.
    async fn configuration(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<ServiceConfiguration>>> {
        nullable(async {
            let request = request(ctx);
            // Who reads values is told in the audit log; who asks for their names alone reads none.
            if !ctx.look_ahead().field("value").exists() {
                let look_up = async |ids: Vec<_>| {
                    request.app.services_configuration_names(&request.op, &ids).await.into_graphql(ctx)
                };
                let names = request.batches.configuration_names.get(self.0.id, look_up).await?;
                let named = |(name, reference)| match reference {
                    Some(reference) => ServiceConfiguration::of_reference((name, reference)),
                    None => ServiceConfiguration::of_value((name, String::new())),
                };
                return Ok(names.and_then(|names| limited(ctx, names.into_iter().map(named))));
            }
            let look_up = async |ids: Vec<_>| {
                request.app.services_configurations(&request.op, &ids).await.into_graphql(ctx)
            };
            let configuration = request.batches.configurations.get(self.0.id, look_up).await?;
            Ok(configuration.and_then(|plural_core::service::Configuration { values, references }| {
                let values = values.into_iter().map(ServiceConfiguration::of_value);
                let references = references.into_iter().map(ServiceConfiguration::of_reference);
                limited(ctx, values.chain(references).collect::<Vec<_>>().into_iter())
            }))
        })
        .await
    }

    /// What it should be now.
    async fn revision(&self) -> Option<Revision> {
        Some(Revision::Current(Box::new(self.0.clone())))
    }

    /// What it was, oldest first.
    async fn revisions(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<RevisionConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            Ok(Some(
                request.app.service_revisions(&request.op, self.0.id, &page).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }

    /// Who did what to it, oldest first.
    async fn events(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<AuditConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            Ok(Some(
                request.app.service_events(&request.op, self.0.id, &page).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }

    /// Who may look at it.
    async fn read_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Read)).await
    }

    /// Who may change it.
    async fn write_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Write)).await
    }

    /// Who may decide who may do what.
    async fn admin_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Admin)).await
    }

    /// Who may do what with it by a role that administrators made.
    async fn role_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<RoleBinding>>> {
        nullable(role_bindings_of(ctx, self.0.id.into())).await
    }
}

/// Reading services.
#[derive(Default)]
pub(crate) struct ServiceQuery;

/// Reading services.
#[Object]
impl ServiceQuery {
    /// One service: by id, or by its cluster's handle and its name.
    async fn service_deployment(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        cluster: Option<String>,
        name: Option<String>,
    ) -> Nullable<ServiceDeployment> {
        one::<plural_core::service::Service, _>(ctx, selector(id, cluster, name)).await
    }
}

/// Changing services.
#[derive(Default)]
pub(crate) struct ServiceMutation;

/// Changing services.
#[Object]
impl ServiceMutation {
    /// Puts a service on a cluster, named by id or by handle.
    async fn create_service_deployment(
        &self,
        ctx: &Context<'_>,
        cluster_id: Option<ID>,
        cluster: Option<String>,
        attributes: ServiceDeploymentAttributes,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = match (cluster_id, cluster) {
                (Some(cluster), None) => ClusterSelector::Id(id(&cluster).into_graphql(ctx)?),
                (None, Some(handle)) => by_handle(&handle).into_graphql(ctx)?,
                _ => return Err(exactly_one("clusterId and cluster")).into_graphql(ctx),
            };
            let new = attributes.parse().into_graphql(ctx)?;
            Ok(Some(request.app.service_create(&request.op, &selector, new).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes a service: by id, or by its cluster's handle and its name.
    async fn update_service_deployment(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        cluster: Option<String>,
        name: Option<String>,
        attributes: ServiceUpdateAttributes,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = selector(id, cluster, name).into_graphql(ctx)?;
            let service = request
                .app
                .get::<plural_core::service::Service>(&request.op, &selector)
                .await
                .into_graphql(ctx)?;
            let change = attributes.parse().into_graphql(ctx)?;
            let selector = ServiceSelector::Id(service.id);
            Ok(Some(
                request.app.service_update(&request.op, &selector, change).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }

    /// Removes a service's objects from its cluster, then the service. Refused while others depend on it.
    async fn delete_service_deployment(
        &self,
        ctx: &Context<'_>,
        id: ID,
        #[graphql(desc = "Deletes its dependents first.")] cascade: Option<bool>,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            let deleted = if cascade == Some(true) {
                request.app.service_delete_cascade(&request.op, &selector).await
            } else {
                request.app.service_delete(&request.op, &selector).await
            };
            Ok(Some(deleted.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Forgets a service and leaves its objects.
    async fn detach_service_deployment(&self, ctx: &Context<'_>, id: ID) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            Ok(Some(request.app.service_detach(&request.op, &selector).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Looks at a service's repository now and has its agent reconcile it.
    async fn kick_service(
        &self,
        ctx: &Context<'_>,
        service_id: Option<ID>,
        cluster: Option<String>,
        name: Option<String>,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = selector(service_id, cluster, name).into_graphql(ctx)?;
            Ok(Some(request.app.service_kick(&request.op, &selector).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}

/// A handle that none can have names nothing that exists.
pub(crate) fn by_handle(handle: &str) -> plural_core::Result<ClusterSelector> {
    handle.parse().map(ClusterSelector::Handle).map_err(|_| Error::not_found("cluster"))
}

pub(crate) fn selector(
    by_id: Option<ID>,
    cluster: Option<String>,
    name: Option<String>,
) -> plural_core::Result<ServiceSelector> {
    match (by_id, cluster, name) {
        (Some(by_id), None, None) => Ok(ServiceSelector::Id(id(&by_id)?)),
        (None, Some(cluster), Some(name)) => match (cluster.parse(), name.parse()) {
            (Ok(cluster), Ok(name)) => Ok(ServiceSelector::Handle(cluster, name)),
            _ => Err(Error::not_found("service")),
        },
        _ => Err(exactly_one("id, and cluster with name")),
    }
}
