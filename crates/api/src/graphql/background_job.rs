//! Background jobs.

use async_graphql::{Context, Enum, ID, Object};
use chrono::{DateTime, Utc};
use plural_app::job::JobFilter;

use super::{
    error::{IntoGraphql, Nullable, nullable},
    page::{connection, page_args},
    record::page_of,
    request::request,
};

/// What a background job is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::job::JobState")]
pub(crate) enum BackgroundJobState {
    /// It runs when it is due.
    Waiting,
    /// A replica of the console runs it.
    Running,
    /// It failed for good. It runs again when it is retried, or enqueued again.
    Dead,
}

/// Background work of the console that is not done yet. The key names what it works on.
pub(crate) struct BackgroundJob(plural_core::job::BackgroundJob);

impl From<plural_core::job::BackgroundJob> for BackgroundJob {
    fn from(job: plural_core::job::BackgroundJob) -> Self {
        Self(job)
    }
}

connection!(BackgroundJobConnection, BackgroundJobEdge, BackgroundJob);

/// Background work of the console that is not done yet. The key names what it works on.
#[Object]
impl BackgroundJob {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The kind of work.
    async fn kind(&self) -> &str {
        &self.0.kind
    }

    /// What it works on. There is one job of a kind and a key.
    async fn key(&self) -> &str {
        &self.0.key
    }

    /// What it is doing.
    async fn state(&self) -> BackgroundJobState {
        self.0.state.into()
    }

    /// Attempts since it was last enqueued.
    async fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Why the last attempt failed.
    async fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    /// It does not run before.
    async fn run_after(&self) -> Option<DateTime<Utc>> {
        Some(self.0.run_after)
    }

    /// When it was first enqueued.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last enqueued, or an attempt ended.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// Reading background jobs.
#[derive(Default)]
pub(crate) struct BackgroundJobQuery;

/// Reading background jobs.
#[Object]
impl BackgroundJobQuery {
    /// Background jobs that are not done yet; for installation administrators.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn background_jobs(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only in this state.")] state: Option<BackgroundJobState>,
        #[graphql(desc = "Only of this kind.")] kind: Option<String>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<BackgroundJobConnection> {
        let filter = JobFilter { state: state.map(Into::into), kind };
        page_of::<plural_core::job::BackgroundJob, _>(ctx, Ok(filter), page_args(after, first, before, last))
            .await
    }
}

/// Changing background jobs.
#[derive(Default)]
pub(crate) struct BackgroundJobMutation;

/// Changing background jobs.
#[Object]
impl BackgroundJobMutation {
    /// Runs a dead job again; for installation administrators.
    async fn retry_background_job(&self, ctx: &Context<'_>, id: ID) -> Nullable<BackgroundJob> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.background_job_retry(&request.op, id).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a job that waits or is dead; for installation administrators.
    async fn delete_background_job(&self, ctx: &Context<'_>, id: ID) -> Nullable<BackgroundJob> {
        nullable(async {
            let request = request(ctx);
            let id = super::error::id(&id).into_graphql(ctx)?;
            Ok(Some(request.app.background_job_delete(&request.op, id).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
