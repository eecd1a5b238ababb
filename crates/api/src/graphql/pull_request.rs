//! Pull requests that the console opened.

use async_graphql::{Context, Enum, ID, Object};
use chrono::{DateTime, Utc};
use plural_app::pull_request::PullRequestFilter;

use super::{
    error::{List, Nullable, id, id_in, list, nullable},
    page::{connection, page_args},
    pr_automation::PrAutomation,
    project::Project,
    record::{by_id, one, page_of},
};

/// How a pull request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pull_request::PrStatus")]
pub(crate) enum PrStatus {
    /// It can be merged.
    Open,
    /// It was merged.
    Merged,
    /// It was closed and not merged.
    Closed,
}

/// A pull request that the console opened.
pub(crate) struct PullRequest(plural_core::pull_request::PullRequest);

impl From<plural_core::pull_request::PullRequest> for PullRequest {
    fn from(opened: plural_core::pull_request::PullRequest) -> Self {
        Self(opened)
    }
}

connection!(PullRequestConnection, PullRequestEdge, PullRequest);

/// A pull request that the console opened.
#[Object]
impl PullRequest {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// How it stands.
    async fn status(&self) -> Option<PrStatus> {
        Some(self.0.told.status.into())
    }

    /// Its address.
    async fn url(&self) -> &str {
        &self.0.told.url
    }

    /// Its title.
    async fn title(&self) -> Option<&str> {
        Some(self.0.told.title.as_str())
    }

    /// Who opened it.
    async fn creator(&self) -> Option<&str> {
        Some(self.0.creator.as_str())
    }

    /// Its branch.
    #[graphql(name = "ref")]
    async fn branch(&self) -> Option<&str> {
        Some(self.0.told.branch.as_str())
    }

    /// The repository, as `acme/shop`.
    async fn repository(&self) -> Option<&str> {
        Some(self.0.told.repository.as_str())
    }

    /// Its labels.
    async fn labels(&self) -> List<&str> {
        list(self.0.told.labels.iter().map(String::as_str))
    }

    /// The automation that it was opened with; absent once that is gone, or when you may not see it.
    async fn automation(&self, ctx: &Context<'_>) -> Nullable<PrAutomation> {
        nullable(async {
            match self.0.automation_id {
                None => Ok(None),
                Some(id) => by_id::<plural_core::pr_automation::PrAutomation, _>(ctx, id).await,
            }
        })
        .await
    }

    /// Where it belongs.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(async { by_id::<plural_core::project::Project, _>(ctx, self.0.project_id).await }).await
    }

    /// When it was recorded.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When something of it last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// Reading pull requests.
#[derive(Default)]
pub(crate) struct PullRequestQuery;

/// Reading pull requests.
#[Object]
impl PullRequestQuery {
    /// One pull request.
    async fn pull_request(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] opened: ID,
    ) -> Nullable<PullRequest> {
        one::<plural_core::pull_request::PullRequest, _>(ctx, id(&opened)).await
    }

    /// The pull requests of the projects that you may see.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn pull_requests(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only those that stand so.")] status: Option<PrStatus>,
        #[graphql(desc = "Only with this in their title, repository or address.")] q: Option<String>,
    ) -> Nullable<PullRequestConnection> {
        let filter = id_in("projectId", project_id.as_deref()).map(|project_id| PullRequestFilter {
            project_id,
            status: status.map(Into::into),
            q,
        });
        page_of::<plural_core::pull_request::PullRequest, _>(
            ctx,
            filter,
            page_args(after, first, before, last),
        )
        .await
    }
}
