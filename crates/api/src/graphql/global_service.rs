//! Global services.

use async_graphql::{Context, Enum, ID, Object, SimpleObject};
use chrono::{DateTime, Utc};
use futures::future::try_join_all;
use plural_app::global_service::{GlobalServiceSelector, RolloutAction};
use plural_app::records::Search;
use plural_core::global_service::Cascade;
use plural_specs::{Map, SyncConfigObject};

use super::{
    cluster::{Cluster, ClusterDistro},
    cluster_provider::ClusterProvider,
    error::{IntoGraphql, List, Nullable, id_option, id_or_name, list, nullable},
    global_service_input::GlobalServiceAttributes,
    page::{connection, page_args},
    project::Project,
    record::{by_id, one, page_of},
    rendering::{HelmSpec, Kustomize, Renderer, ServiceSource},
    request::request,
    rollout_strategy::RolloutStrategy,
    service::{GitRef, ServiceDeployment, ServiceDeploymentStatus},
    shared::Tag,
};

/// One service on every cluster that it targets.
pub(crate) struct GlobalService(plural_core::global_service::GlobalService);

impl From<plural_core::global_service::GlobalService> for GlobalService {
    fn from(global: plural_core::global_service::GlobalService) -> Self {
        Self(global)
    }
}

connection!(GlobalServiceConnection, GlobalServiceEdge, GlobalService);

/// How a rollout is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::rollout::RolloutState")]
pub(crate) enum RolloutState {
    /// Members move.
    Progressing,
    /// The moved cohorts are healthy; time has to pass.
    Soaking,
    /// It stands still until a person resumes or undoes it.
    Halted,
    /// Members move back.
    Undoing,
    /// Everybody is back.
    Undone,
    /// Everybody is there.
    Complete,
}

/// What to do with a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum RolloutSteering {
    /// Stop where it is.
    Halt,
    /// Go on after a halt; clusters that are unwell now are not waited for.
    Resume,
    /// Give everybody back what was before.
    Undo,
}

/// How a change moves through the clusters.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct Rollout {
    /// How it is.
    state: RolloutState,
    /// What everybody should come to.
    generation: String,
    /// What they came from; `0` when there was nothing.
    previous: String,
    /// Name of the cohort that moves; absent for the last, unnamed one.
    cohort: Option<String>,
    /// Why it halted.
    message: Option<String>,
    /// When it began.
    started_at: DateTime<Utc>,
}

/// What becomes of instances that are no longer wanted.
#[derive(Debug, Clone, Copy, SimpleObject)]
pub(crate) struct CascadeSettings {
    /// They are deleted with their objects.
    delete: Option<bool>,
    /// They are forgotten; their objects stay.
    detach: Option<bool>,
}

impl From<Cascade> for CascadeSettings {
    fn from(cascade: Cascade) -> Self {
        Self { delete: Some(cascade == Cascade::Delete), detach: Some(cascade == Cascade::Detach) }
    }
}

/// Data for templates.
#[derive(Debug, SimpleObject)]
pub(crate) struct TemplateContext {
    /// A JSON object, read as `context`; `cluster` is there beside it.
    raw: Option<Map>,
}

/// A service without a cluster.
#[derive(SimpleObject)]
pub(crate) struct ServiceTemplate {
    /// Name of the instances; that of the global service when absent.
    name: Option<String>,
    /// Namespace of their objects; their name when absent.
    namespace: Option<String>,
    /// `.liquid` files are rendered.
    templated: Option<bool>,
    /// The repository.
    repository_id: Option<ID>,
    /// Where in it.
    git: Option<GitRef>,
    /// A label for people.
    version: Option<String>,
    /// They refuse deletion.
    protect: Option<bool>,
    /// Planned and reported, never applied.
    dry_run: Option<bool>,
    /// Its chart, and how that is rendered; without values, which are never shown.
    helm: Option<HelmSpec>,
    /// Its Kustomization.
    kustomize: Option<Kustomize>,
    /// What renders which part of its folder, without values; empty: what the root holds decides.
    renderers: Option<Vec<Renderer>>,
    /// Further places in git whose files join its own.
    sources: Option<Vec<ServiceSource>>,
    /// How they are applied.
    sync_config: Option<SyncConfigObject>,
    /// Services that each instance depends on, on its own cluster.
    dependency_names: Option<Vec<String>>,
    /// Names of the contexts that their templates read, as far as you may see those.
    contexts: Option<Vec<String>>,
}

/// A template as it is shown.
pub(crate) async fn service_template(
    ctx: &Context<'_>,
    template: plural_core::global_service::ServiceTemplate,
) -> async_graphql::Result<ServiceTemplate> {
    type Stored = plural_core::service_context::ServiceContext;
    let contexts = template.contexts.into_iter().map(|id| by_id::<Stored, Stored>(ctx, id));
    let contexts = try_join_all(contexts).await?.into_iter().flatten();
    let mut contexts: Vec<String> = contexts.map(|context| context.name.into()).collect();
    contexts.sort();
    let renderers = template.rendering.renderers.into_iter().enumerate();
    Ok(ServiceTemplate {
        name: template.name,
        namespace: template.namespace,
        templated: template.templated,
        repository_id: template.repository_id.map(|id| id.to_string().into()),
        git: template.git.map(Into::into),
        version: template.version,
        protect: Some(template.protect),
        dry_run: Some(template.dry_run),
        helm: template.rendering.helm.map(|helm| HelmSpec { service: None, helm }),
        kustomize: template.rendering.kustomize.map(Into::into),
        renderers: Some(renderers.map(|(place, stored)| Renderer { service: None, place, stored }).collect()),
        sources: Some(template.rendering.sources.into_iter().map(Into::into).collect()),
        sync_config: Some(template.sync_config.into()),
        dependency_names: Some(template.dependencies),
        contexts: Some(contexts),
    })
}

/// How the instances of a global service fare.
#[derive(Debug, Clone, Copy, SimpleObject)]
pub(crate) struct InstanceCounts {
    /// So many there are.
    all: u64,
    /// So many stay and are healthy with what they were given.
    healthy: u64,
    /// So many stay and are healthy with the newest generation.
    newest: u64,
    /// So many are on their way out.
    leaving: u64,
}

impl From<plural_app::instance::InstanceCounts> for InstanceCounts {
    fn from(counts: plural_app::instance::InstanceCounts) -> Self {
        let plural_app::instance::InstanceCounts { all, healthy, newest, leaving } = counts;
        Self { all, healthy, newest, leaving }
    }
}

/// A global service on one cluster.
pub(crate) struct GlobalServiceInstance(plural_app::global_service::Instance);

impl From<plural_app::global_service::Instance> for GlobalServiceInstance {
    fn from(instance: plural_app::global_service::Instance) -> Self {
        Self(instance)
    }
}

connection!(GlobalServiceInstanceConnection, GlobalServiceInstanceEdge, GlobalServiceInstance);

/// A global service on one cluster.
#[Object]
impl GlobalServiceInstance {
    /// The generation that it was given.
    async fn generation(&self) -> String {
        self.0.generation.to_string()
    }

    /// When it was given.
    async fn given_at(&self) -> DateTime<Utc> {
        self.0.given_at
    }

    /// How it fares.
    async fn status(&self) -> ServiceDeploymentStatus {
        self.0.status.into()
    }

    /// Id of its service.
    async fn service_id(&self) -> ID {
        self.0.service_id.to_string().into()
    }

    /// Its cluster.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        nullable(by_id::<plural_core::cluster::Cluster, _>(ctx, self.0.cluster_id)).await
    }
}

/// One service on every cluster that it targets.
#[Object]
impl GlobalService {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Name, unique.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// The distribution that a cluster must have to be meant.
    async fn distro(&self) -> Option<ClusterDistro> {
        self.0.spec.target.distro.map(Into::into)
    }

    /// The provider whose clusters are meant. Always null: this console provisions no clusters.
    async fn provider(&self) -> Option<ClusterProvider> {
        None
    }

    /// Tags that a cluster must have to be meant.
    async fn tags(&self) -> Option<Vec<Tag>> {
        let tags = self.0.spec.target.tags.iter();
        Some(tags.map(|(name, value)| Tag { name: name.clone(), value: value.clone() }).collect())
    }

    /// The project whose clusters are meant; absent when all are.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// The service whose copies the instances are; absent when there is a template.
    async fn service(&self, ctx: &Context<'_>) -> Nullable<ServiceDeployment> {
        nullable(by_id::<plural_core::service::Service, _>(ctx, self.0.service_id)).await
    }

    /// What the instances are made from.
    async fn template(&self, ctx: &Context<'_>) -> Nullable<ServiceTemplate> {
        nullable(async { service_template(ctx, self.0.template.clone()).await.map(Some) }).await
    }

    /// Clusters that are left out.
    async fn ignore_clusters(&self) -> List<ID> {
        list(self.0.spec.target.ignore.iter().map(|id| id.to_string().into()))
    }

    /// Data for Liquid templates in the template's own fields; absent when those are taken as they are.
    async fn context(&self) -> Option<TemplateContext> {
        self.0.spec.context.clone().map(|raw| TemplateContext { raw: Some(Map(raw)) })
    }

    /// How changes move from cluster to cluster; absent when they go to all at once.
    async fn rollout_strategy(&self) -> Option<RolloutStrategy> {
        self.0.spec.rollout.clone().map(Into::into)
    }

    /// Services of the same name are taken over.
    async fn reparent(&self) -> Option<bool> {
        Some(self.0.spec.reparent)
    }

    /// What becomes of instances that are no longer wanted.
    async fn cascade(&self) -> Option<CascadeSettings> {
        Some(self.0.spec.cascade.into())
    }

    /// Grows with each change of what the instances are made from.
    async fn generation(&self) -> String {
        self.0.generation.to_string()
    }

    /// How the newest generation spreads; absent when it was given to everybody at once.
    async fn rollout(&self) -> Option<Rollout> {
        let rollout = self.0.rollout.as_ref()?;
        let cohorts = self.0.spec.rollout.iter().flat_map(|strategy| &strategy.cohorts);
        Some(Rollout {
            state: rollout.state.into(),
            generation: rollout.generation.to_string(),
            previous: rollout.previous.to_string(),
            cohort: cohorts.map(|cohort| cohort.name.clone()).nth(rollout.cohort),
            message: rollout.message.clone(),
            started_at: rollout.started_at,
        })
    }

    /// What it says now has been seen to: every cluster that it targets has what it should have at this moment.
    async fn spread(&self) -> bool {
        self.0.spread
    }

    /// Why it could not be spread everywhere.
    async fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// How its instances fare.
    async fn instance_counts(&self, ctx: &Context<'_>) -> Nullable<InstanceCounts> {
        nullable(async {
            let request = request(ctx);
            let look_up = async |ids: Vec<_>| {
                request.app.global_services_counts(&request.op, &ids).await.into_graphql(ctx)
            };
            Ok(Some(
                request.batches.instance_counts.get(self.0.id, look_up).await?.unwrap_or_default().into(),
            ))
        })
        .await
    }

    /// Its instances, one on each cluster.
    async fn instances(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<GlobalServiceInstanceConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            let look_up = async |ids: Vec<_>| {
                request.app.global_services_instances(&request.op, &ids, &page).await.into_graphql(ctx)
            };
            let found = request.batches.instances.of(&page).get(self.0.id, look_up).await?;
            Ok(found.map(Into::into))
        })
        .await
    }

    /// Set while its instances are let go.
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
}

/// Reading global services.
#[derive(Default)]
pub(crate) struct GlobalServiceQuery;

/// Reading global services.
#[Object]
impl GlobalServiceQuery {
    /// One global service, by id or by name.
    async fn global_service(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        name: Option<String>,
    ) -> Nullable<GlobalService> {
        let by = id_or_name(id, name, GlobalServiceSelector::Id, GlobalServiceSelector::Name);
        one::<plural_core::global_service::GlobalService, _>(ctx, by).await
    }

    /// The global services that you may see.
    async fn global_services(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<GlobalServiceConnection> {
        page_of::<plural_core::global_service::GlobalService, _>(
            ctx,
            Ok(Search { q }),
            page_args(after, first, before, last),
        )
        .await
    }
}

/// Changing global services.
#[derive(Default)]
pub(crate) struct GlobalServiceMutation;

/// Changing global services.
#[Object]
impl GlobalServiceMutation {
    /// Puts a service on every cluster that it targets.
    async fn create_global_service(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "The service whose copies the instances are; instead of a template.")]
        service_id: Option<ID>,
        attributes: GlobalServiceAttributes,
    ) -> Nullable<GlobalService> {
        nullable(async {
            let request = request(ctx);
            let service = id_option(service_id.as_deref()).into_graphql(ctx)?;
            let contexts = request.app.contexts_named(&request.op, &attributes.context_names()).await;
            let new = attributes.new_service(service, contexts.into_graphql(ctx)?).into_graphql(ctx)?;
            Ok(Some(request.app.global_service_create(&request.op, new).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes a global service; what is absent stays as it is, and null clears it.
    async fn update_global_service(
        &self,
        ctx: &Context<'_>,
        id: ID,
        attributes: GlobalServiceAttributes,
    ) -> Nullable<GlobalService> {
        nullable(async {
            let request = request(ctx);
            let selector = GlobalServiceSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            let current = request
                .app
                .get::<plural_core::global_service::GlobalService>(&request.op, &selector)
                .await
                .into_graphql(ctx)?;
            let contexts = request.app.contexts_named(&request.op, &attributes.context_names()).await;
            let change = attributes.change(&current, contexts.into_graphql(ctx)?).into_graphql(ctx)?;
            Ok(Some(
                request
                    .app
                    .global_service_update(&request.op, &selector, change)
                    .await
                    .into_graphql(ctx)?
                    .into(),
            ))
        })
        .await
    }

    /// Lets its instances go, as its cascade says, and then removes it.
    async fn delete_global_service(&self, ctx: &Context<'_>, id: ID) -> Nullable<GlobalService> {
        nullable(async {
            let request = request(ctx);
            let selector = GlobalServiceSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            Ok(Some(
                request.app.global_service_delete(&request.op, &selector).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }

    /// Halts, resumes or undoes the rollout of a global service.
    async fn steer_rollout(
        &self,
        ctx: &Context<'_>,
        id: ID,
        action: RolloutSteering,
    ) -> Nullable<GlobalService> {
        nullable(async {
            let request = request(ctx);
            let selector = GlobalServiceSelector::Id(super::error::id(&id).into_graphql(ctx)?);
            let action = match action {
                RolloutSteering::Halt => RolloutAction::Halt,
                RolloutSteering::Resume => RolloutAction::Resume,
                RolloutSteering::Undo => RolloutAction::Undo,
            };
            Ok(Some(
                request
                    .app
                    .global_service_steer(&request.op, &selector, action)
                    .await
                    .into_graphql(ctx)?
                    .into(),
            ))
        })
        .await
    }
}
