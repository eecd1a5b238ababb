//! What a person does to a service besides changing it: roll back, release, stop, go on, copy.

use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::cluster::ClusterSelector;
use plural_app::service::ServiceSelector;
use plural_app::service_life::ServiceClone;

use super::{
    error::{IntoGraphql, List, Nullable, id, nullable, parse},
    request::request,
    service::{ServiceDeployment, selector},
    service_input::{ConfigAttributes, values},
};

/// What ends a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::service::PinUntil")]
pub(crate) enum PinUntil {
    /// Only somebody who releases it.
    Release,
    /// The next commit that changes the service, too.
    NextCommit,
    /// The sync windows that hold it back, too. Only windows pin so.
    Window,
    /// The services that it depends on, once they are healthy, too. Only dependencies pin so.
    Dependencies,
}

/// A service that was rolled back, and stays there.
#[derive(Debug, Clone, SimpleObject)]
pub(crate) struct ServicePin {
    /// The revision that it stands at.
    revision_id: ID,
    /// The newest revision, which waits.
    newest_revision_id: ID,
    /// Who pinned it.
    by: String,
    /// What ends it.
    until: PinUntil,
    /// When.
    inserted_at: DateTime<Utc>,
}

impl ServicePin {
    pub(crate) fn of(service: &plural_core::service::Service) -> Option<Self> {
        let plural_core::service::Pin { newest, by, at, until } = service.pin.clone()?;
        Some(Self {
            revision_id: service.revision_id.to_string().into(),
            newest_revision_id: newest.to_string().into(),
            by,
            until: until.into(),
            inserted_at: at,
        })
    }
}

/// What is other about a copy of a service.
#[derive(InputObject)]
pub(crate) struct ServiceCloneAttributes {
    /// Its name.
    name: String,
    /// Its namespace; else that of the service it is copied from.
    namespace: Option<String>,
    /// Values that it is given besides, or instead.
    configuration: List<ConfigAttributes>,
}

/// Doing things to services.
#[derive(Default)]
pub(crate) struct ServiceLifeMutation;

/// Doing things to services.
#[Object]
impl ServiceLifeMutation {
    /// Goes back to a revision of the service and stays there until it is released, or until the next commit.
    async fn rollback_service(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
        revision_id: ID,
        #[graphql(desc = "What ends it; by default only a release.")] until: Option<PinUntil>,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            let to = id(&revision_id).into_graphql(ctx)?;
            let until = until.unwrap_or(PinUntil::Release).into();
            Ok(Some(
                request
                    .app
                    .service_rollback(&request.op, &selector, to, until)
                    .await
                    .into_graphql(ctx)?
                    .into(),
            ))
        })
        .await
    }

    /// Lets a service that was rolled back go on to its newest revision.
    async fn release_service(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            Ok(Some(request.app.service_release(&request.op, &selector).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Has the agent write nothing of the service: no apply, no repair, no deletion.
    async fn pause_service(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            Ok(Some(request.app.service_pause(&request.op, &selector).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Has the templates of a service generate other passwords, keys and certificates than before. Nobody is shown them.
    async fn rotate_service_seed(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            Ok(Some(request.app.service_seed_rotate(&request.op, &selector).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Lets the agent go on with a paused service.
    async fn resume_service(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            Ok(Some(request.app.service_resume(&request.op, &selector).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Marks a service as the upgrade of its cluster's agent: it reaches the agent's namespace, the project's limits do not hold
    /// for it, and only administrators of the installation change it from then on. For such administrators.
    async fn mark_agent_upgrade(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] service: ID,
        #[graphql(desc = "False removes the mark.")] marked: bool,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let selector = ServiceSelector::Id(id(&service).into_graphql(ctx)?);
            let service =
                request.app.service_agent_upgrade(&request.op, &selector, marked).await.into_graphql(ctx)?;
            Ok(Some(service.into()))
        })
        .await
    }

    /// Puts a copy of a service, its secrets included, on a cluster; the service by id, or by its cluster's handle and its name.
    async fn clone_service(
        &self,
        ctx: &Context<'_>,
        cluster_id: ID,
        service_id: Option<ID>,
        cluster: Option<String>,
        name: Option<String>,
        attributes: ServiceCloneAttributes,
    ) -> Nullable<ServiceDeployment> {
        nullable(async {
            let request = request(ctx);
            let of = selector(service_id, cluster, name).into_graphql(ctx)?;
            let onto = ClusterSelector::Id(id(&cluster_id).into_graphql(ctx)?);
            let clone = attributes.parse().into_graphql(ctx)?;
            Ok(Some(
                request.app.service_clone(&request.op, &of, &onto, clone).await.into_graphql(ctx)?.into(),
            ))
        })
        .await
    }
}

impl ServiceCloneAttributes {
    fn parse(self) -> plural_core::Result<ServiceClone> {
        let Self { name, namespace, configuration } = self;
        Ok(ServiceClone {
            name: parse("attributes.name", &name)?,
            namespace: namespace.map(|name| parse("attributes.namespace", &name)).transpose()?,
            configuration: values(configuration)?.unwrap_or_default(),
        })
    }
}
