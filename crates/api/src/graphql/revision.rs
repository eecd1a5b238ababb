//! Revisions: what a service was at one moment.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};
use plural_core::ids::{RevisionId, ServiceId};

use super::{
    error::{IntoGraphql, Nullable, nullable},
    page::{connection, page_args},
    record::by_id,
    request::request,
    service::{GitRef, ServiceDeployment},
    sync_plan::ServicePlan,
};

/// What a service was at one moment.
pub(crate) enum Revision {
    /// One of its past.
    Stored(Box<plural_core::revision::Revision>),
    /// What it is now: all but the time stands on the service itself, so that a list of services with
    /// their revisions costs no query for each.
    Current(Box<plural_core::service::Service>),
}

impl From<plural_core::revision::Revision> for Revision {
    fn from(revision: plural_core::revision::Revision) -> Self {
        Self::Stored(Box::new(revision))
    }
}

connection!(RevisionConnection, RevisionEdge, Revision);

/// What a service was at one moment.
#[Object]
impl Revision {
    /// Id.
    async fn id(&self) -> ID {
        match self {
            Self::Stored(revision) => revision.id.to_string().into(),
            Self::Current(service) => service.revision_id.to_string().into(),
        }
    }

    /// The service that it is of.
    async fn service(&self, ctx: &Context<'_>) -> Nullable<ServiceDeployment> {
        nullable(async {
            match self {
                Self::Stored(revision) => {
                    by_id::<plural_core::service::Service, _>(ctx, revision.service_id).await
                }
                Self::Current(service) => Ok(Some((**service).clone().into())),
            }
        })
        .await
    }

    /// The service's version label.
    async fn version(&self) -> &str {
        match self {
            Self::Stored(revision) => &revision.version,
            Self::Current(service) => &service.version,
        }
    }

    /// Its commit, once known.
    async fn sha(&self) -> Option<&str> {
        match self {
            Self::Stored(revision) => revision.sha.as_deref(),
            Self::Current(service) => service.sha.as_deref(),
        }
    }

    /// First line of the commit's message.
    async fn message(&self) -> Option<&str> {
        match self {
            Self::Stored(revision) => revision.message.as_deref(),
            Self::Current(service) => service.message.as_deref(),
        }
    }

    /// Name of the commit's author; absent for what is in no repository.
    async fn author(&self) -> Option<&str> {
        match self {
            Self::Stored(revision) => revision.author.as_deref(),
            Self::Current(service) => service.author.as_deref(),
        }
    }

    /// Where it was read from.
    async fn git(&self) -> Option<GitRef> {
        match self {
            Self::Stored(revision) => revision.git.clone().map(Into::into),
            Self::Current(service) => service.git.clone().map(Into::into),
        }
    }

    /// When all of it was applied and ready for the first time; absent: it never was, or before that was kept.
    async fn healthy_at(&self, ctx: &Context<'_>) -> Nullable<DateTime<Utc>> {
        nullable(async {
            match self {
                Self::Stored(revision) => Ok(revision.healthy_at),
                Self::Current(service) => {
                    let request = request(ctx);
                    let look_up = async |ids: Vec<_>| {
                        request.app.services_revisions(&request.op, &ids).await.into_graphql(ctx)
                    };
                    let revision = request.batches.revisions.get(service.id, look_up).await?;
                    Ok(revision.and_then(|revision| revision.healthy_at))
                }
            }
        })
        .await
    }

    /// Who made it; absent for those made before that was kept.
    async fn by(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            match self {
                Self::Stored(revision) => Ok(revision.by.clone()),
                Self::Current(service) => {
                    let request = request(ctx);
                    let look_up = async |ids: Vec<_>| {
                        request.app.services_revisions(&request.op, &ids).await.into_graphql(ctx)
                    };
                    let revision = request.batches.revisions.get(service.id, look_up).await?;
                    Ok(revision.and_then(|revision| revision.by))
                }
            }
        })
        .await
    }

    /// The service can be rolled back to it.
    async fn restorable(&self) -> Option<bool> {
        match self {
            Self::Stored(revision) => Some(revision.restorable),
            Self::Current(service) => Some(service.artifact_digest.is_some()),
        }
    }

    /// What its syncs changed, in sum: of each field what stood there at first, and what stands there now.
    async fn plan(&self, ctx: &Context<'_>) -> Nullable<ServicePlan> {
        nullable(async {
            let request = request(ctx);
            let key = match self {
                Self::Stored(revision) => (revision.service_id, revision.id),
                Self::Current(service) => (service.id, service.revision_id),
            };
            let look_up = async |keys: Vec<(ServiceId, RevisionId)>| {
                let found = request.app.revisions_plans(&request.op, &keys).await.into_graphql(ctx)?;
                Ok(found.into_values().map(|plan| ((plan.service_id, plan.revision_id), plan)).collect())
            };
            Ok(request.batches.plans.get(key, look_up).await?.map(Into::into))
        })
        .await
    }

    /// When it was made.
    async fn inserted_at(&self, ctx: &Context<'_>) -> Nullable<DateTime<Utc>> {
        nullable(async {
            match self {
                Self::Stored(revision) => Ok(Some(revision.created_at)),
                Self::Current(service) => {
                    let request = request(ctx);
                    let look_up = async |ids: Vec<_>| {
                        request.app.services_revisions(&request.op, &ids).await.into_graphql(ctx)
                    };
                    let revision = request.batches.revisions.get(service.id, look_up).await?;
                    Ok(revision.map(|revision| revision.created_at))
                }
            }
        })
        .await
    }
}

/// Reading revisions.
#[derive(Default)]
pub(crate) struct RevisionQuery;

/// Reading revisions.
#[Object]
impl RevisionQuery {
    /// The revisions of the services that you may see, oldest first: what changed lately is at the end (`last`).
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
            Ok(Some(request.app.revision_list(&request.op, &page).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
