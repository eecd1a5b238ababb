//! When new commits may go on by themselves.

use async_graphql::{ComplexObject, Context, Enum, ID, InputObject, Object, SimpleObject};
use plural_app::sync_window::NewSyncWindow;
use plural_core::ids::{ClusterId, ProjectId, ServiceId};
use plural_core::policy::{Policy, PolicyNoun};
use plural_core::sync_window::WindowRule;

use super::{
    cluster::Cluster,
    error::{IntoGraphql, Nullable, exactly_one, id, id_option, nullable, parse_option},
    limited::limited,
    project::Project,
    record::by_id,
    request::request,
    service::ServiceDeployment,
};

/// Whether a window lets through or holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::sync_window::SyncWindowKind")]
pub(crate) enum SyncWindowKind {
    /// New commits go on only while one of these is open.
    Allow,
    /// New commits wait while one of these is open.
    Deny,
}

/// A time that comes again and again, in which new commits go on, or wait.
#[derive(Debug, Clone, SimpleObject)]
#[graphql(complex)]
pub(crate) struct SyncWindow {
    #[graphql(skip)]
    of: Policy,
    /// Id.
    id: ID,
    /// What it is called, unique among the windows of what it is of.
    name: Option<String>,
    /// Lets through, or holds back.
    kind: SyncWindowKind,
    /// When it opens, in cron's five fields.
    schedule: String,
    /// How long it stays open, in seconds.
    duration: i64,
    /// Name of the time zone that the schedule is meant in.
    time_zone: String,
    /// Why there is one.
    description: Option<String>,
}

impl From<(Policy, plural_core::sync_window::SyncWindow)> for SyncWindow {
    fn from((of, window): (Policy, plural_core::sync_window::SyncWindow)) -> Self {
        let plural_core::sync_window::SyncWindow { id, name, rule, description } = window;
        let WindowRule { kind, schedule, seconds, time_zone } = rule;
        Self {
            of,
            id: id.to_string().into(),
            name,
            kind: kind.into(),
            schedule: schedule.to_string(),
            duration: seconds.into(),
            time_zone: time_zone.name().to_owned(),
            description,
        }
    }
}

/// A time that comes again and again, in which new commits go on, or wait.
#[ComplexObject]
impl SyncWindow {
    /// The project whose services it concerns, if it is a project's.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        if self.of.noun() != PolicyNoun::Project {
            return None;
        }
        let id = ProjectId::from_uuid(self.of.id().uuid());
        nullable(by_id::<plural_core::project::Project, _>(ctx, id)).await
    }

    /// The cluster whose services it concerns, if it is a cluster's.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        if self.of.noun() != PolicyNoun::Cluster {
            return None;
        }
        let id = ClusterId::from_uuid(self.of.id().uuid());
        nullable(by_id::<plural_core::cluster::Cluster, _>(ctx, id)).await
    }

    /// The service that it concerns, if it is a service's.
    async fn service(&self, ctx: &Context<'_>) -> Nullable<ServiceDeployment> {
        if self.of.noun() != PolicyNoun::Service {
            return None;
        }
        let id = ServiceId::from_uuid(self.of.id().uuid());
        nullable(by_id::<plural_core::service::Service, _>(ctx, id)).await
    }
}

/// A window to make, or what becomes of one.
#[derive(Debug, InputObject)]
pub(crate) struct SyncWindowAttributes {
    /// What it is called, unique among the windows of what it is of.
    name: Option<String>,
    /// Lets through, or holds back.
    kind: SyncWindowKind,
    /// When it opens, in cron's five fields.
    schedule: String,
    /// How long it stays open, in seconds: from a minute to a week.
    duration: i64,
    /// Name of the time zone that the schedule is meant in; UTC by default.
    time_zone: Option<String>,
    /// Why there is one.
    description: Option<String>,
}

impl SyncWindowAttributes {
    fn parse(self) -> plural_core::Result<NewSyncWindow> {
        let Self { name, kind, schedule, duration, time_zone, description } = self;
        let seconds = u32::try_from(duration).unwrap_or(0);
        let time_zone = time_zone.as_deref().unwrap_or("UTC");
        let rule = WindowRule::new(kind.into(), &schedule, seconds, time_zone)?;
        Ok(NewSyncWindow { name: parse_option("attributes.name", name.as_deref())?, rule, description })
    }
}

/// The one of three things that is named.
fn policy(project: Option<&ID>, cluster: Option<&ID>, service: Option<&ID>) -> plural_core::Result<Policy> {
    let project: Option<ProjectId> = id_option(project.map(|id| &id.0))?;
    let cluster: Option<ClusterId> = id_option(cluster.map(|id| &id.0))?;
    let service: Option<ServiceId> = id_option(service.map(|id| &id.0))?;
    match (project, cluster, service) {
        (Some(id), None, None) => Ok(id.into()),
        (None, Some(id), None) => Ok(id.into()),
        (None, None, Some(id)) => Ok(id.into()),
        _ => Err(exactly_one("projectId, clusterId and serviceId")),
    }
}

/// Reading windows.
#[derive(Default)]
pub(crate) struct SyncWindowQuery;

/// Reading windows.
#[Object]
impl SyncWindowQuery {
    /// The windows of a project, a cluster or a service, none that it inherits; without any of them those of all that you may
    /// see.
    async fn sync_windows(
        &self,
        ctx: &Context<'_>,
        project_id: Option<ID>,
        cluster_id: Option<ID>,
        service_id: Option<ID>,
    ) -> Nullable<Vec<Option<SyncWindow>>> {
        nullable(async {
            let request = request(ctx);
            if project_id.is_none() && cluster_id.is_none() && service_id.is_none() {
                let windows = request.app.sync_window_list_all(&request.op).await.into_graphql(ctx)?;
                return Ok(limited(ctx, windows.into_iter().map(Into::into)));
            }
            let of =
                policy(project_id.as_ref(), cluster_id.as_ref(), service_id.as_ref()).into_graphql(ctx)?;
            let windows = request.app.sync_window_list(&request.op, of).await.into_graphql(ctx)?;
            Ok(limited(ctx, windows.into_iter().map(|window| (of, window).into())))
        })
        .await
    }
}

/// Changing windows.
#[derive(Default)]
pub(crate) struct SyncWindowMutation;

/// Changing windows.
#[Object]
impl SyncWindowMutation {
    /// Makes a window of a project, a cluster or a service.
    async fn create_sync_window(
        &self,
        ctx: &Context<'_>,
        project_id: Option<ID>,
        cluster_id: Option<ID>,
        service_id: Option<ID>,
        attributes: SyncWindowAttributes,
    ) -> Nullable<SyncWindow> {
        nullable(async {
            let request = request(ctx);
            let of =
                policy(project_id.as_ref(), cluster_id.as_ref(), service_id.as_ref()).into_graphql(ctx)?;
            let new = attributes.parse().into_graphql(ctx)?;
            let made = request.app.sync_window_create(&request.op, of, new).await.into_graphql(ctx)?;
            Ok(Some((of, made).into()))
        })
        .await
    }

    /// Changes a window of a project, a cluster or a service: what is absent is not set.
    async fn update_sync_window(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] window: ID,
        project_id: Option<ID>,
        cluster_id: Option<ID>,
        service_id: Option<ID>,
        attributes: SyncWindowAttributes,
    ) -> Nullable<SyncWindow> {
        nullable(async {
            let request = request(ctx);
            let of =
                policy(project_id.as_ref(), cluster_id.as_ref(), service_id.as_ref()).into_graphql(ctx)?;
            let window = id(&window).into_graphql(ctx)?;
            let new = attributes.parse().into_graphql(ctx)?;
            let changed = request.app.sync_window_update(&request.op, of, window, new).await;
            Ok(Some((of, changed.into_graphql(ctx)?).into()))
        })
        .await
    }

    /// Removes a window of a project, a cluster or a service.
    async fn delete_sync_window(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] window: ID,
        project_id: Option<ID>,
        cluster_id: Option<ID>,
        service_id: Option<ID>,
    ) -> Nullable<SyncWindow> {
        nullable(async {
            let request = request(ctx);
            let of =
                policy(project_id.as_ref(), cluster_id.as_ref(), service_id.as_ref()).into_graphql(ctx)?;
            let window = id(&window).into_graphql(ctx)?;
            let gone = request.app.sync_window_delete(&request.op, of, window).await.into_graphql(ctx)?;
            Ok(Some((of, gone).into()))
        })
        .await
    }
}
