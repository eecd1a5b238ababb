//! Pull requests that the console opened.

use async_graphql::{Context, Enum, ID, Object};
use chrono::{DateTime, Utc};
use plural_app::pull_request::PullRequestFilter;
use plural_app::pull_request_open::{PreviewedFile, PullRequestAsk};
use plural_core::idempotency_key::IdempotencyKey;
use plural_core::ids::PrAutomationId;
use plural_specs::Json;
use serde_json::Value;

use super::{
    cluster::Cluster,
    error::{IntoGraphql as _, List, Nullable, id, id_in, list, nullable},
    fleet_plan::FleetPlan,
    page::{connection, page_args},
    pr_automation::PrAutomation,
    pr_governance::PullRequestGovernance,
    project::Project,
    pull_request_life::{PullRequestChecks, PullRequestReviews},
    pull_request_merge::PullRequestMerging,
    pull_request_secret::PullRequestSecret,
    record::{by_id, one, page_of},
    request::request,
    service::ServiceDeployment,
    stack::InfrastructureStack,
};

/// The status of a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pull_request::PrStatus")]
pub(crate) enum PrStatus {
    /// It is open.
    Open,
    /// It was merged.
    Merged,
    /// It was closed without a merge.
    Closed,
}

/// The phase of opening a pull request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pull_request::PrPhase")]
pub(crate) enum PrPhase {
    /// It is being opened.
    Pending,
    /// It exists at its host.
    Opened,
    /// It was not opened, and will not be.
    Failed,
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

    /// Its status; absent if it is not open yet, or was not opened.
    async fn status(&self) -> Option<PrStatus> {
        (self.0.progress.phase == plural_core::pull_request::PrPhase::Opened)
            .then(|| self.0.told.status.into())
    }

    /// The phase of opening it.
    async fn phase(&self) -> Option<PrPhase> {
        Some(self.0.progress.phase.into())
    }

    /// Why it is not open, or not yet.
    async fn error(&self) -> Option<&str> {
        self.0.progress.error.as_deref()
    }

    /// The commit that the console pushed for it.
    async fn commit(&self) -> Option<&str> {
        self.0.progress.commit.as_deref()
    }

    /// Its URL; empty while it has none.
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

    /// Its number at the host; absent while it has none.
    async fn number(&self) -> Option<i32> {
        self.0.told.number().and_then(|number| i32::try_from(number).ok())
    }

    /// The head commit, also after a merge; absent before it was read back.
    async fn head(&self) -> Option<&str> {
        self.0.life.head.as_deref()
    }

    /// The target branch; absent before it was read back.
    async fn base(&self) -> Option<&str> {
        self.0.life.facts.base.as_deref()
    }

    /// Its author's name at the host; absent before it was read back.
    async fn author(&self) -> Option<&str> {
        self.0.life.facts.author.as_deref()
    }

    /// It is a draft.
    async fn draft(&self) -> Option<bool> {
        Some(self.0.life.facts.draft)
    }

    /// It comes from a fork.
    async fn fork(&self) -> Option<bool> {
        Some(self.0.life.facts.fork)
    }

    /// The merge commit.
    async fn merge_commit(&self) -> Option<&str> {
        self.0.life.facts.merge_commit.as_deref()
    }

    /// Checks of its head; absent if the host reports none.
    async fn checks(&self) -> Option<PullRequestChecks> {
        self.0.life.facts.checks.map(Into::into)
    }

    /// Reviews; absent if the host reports none.
    async fn reviews(&self) -> Option<PullRequestReviews> {
        self.0.life.facts.reviews.map(Into::into)
    }

    /// The governance that has to confirm it before a merge, with its state; absent if it has none.
    async fn governance(&self) -> Option<PullRequestGovernance> {
        self.0.governed.clone().map(Into::into)
    }

    /// Its merge windows, and a waiting merge.
    async fn merging(&self, ctx: &Context<'_>) -> Option<PullRequestMerging> {
        Some(PullRequestMerging::at(&self.0.merging, request(ctx).op.now()))
    }

    /// When its recorded state was requested from the host; absent before it was read back.
    async fn read_at(&self) -> Option<DateTime<Utc>> {
        self.0.life.read_at
    }

    /// Why the last read failed.
    async fn read_error(&self) -> Option<&str> {
        self.0.life.facts.error.as_deref()
    }

    /// The service that its text names and that reads its repository; also absent if you may not see it.
    async fn service(&self, ctx: &Context<'_>) -> Nullable<ServiceDeployment> {
        nullable(by_id::<plural_core::service::Service, _>(ctx, self.0.life.links.service)).await
    }

    /// The stack that its text names and that reads its repository; also absent if you may not see it.
    async fn stack(&self, ctx: &Context<'_>) -> Nullable<InfrastructureStack> {
        nullable(by_id::<plural_core::stack::Stack, _>(ctx, self.0.life.links.stack)).await
    }

    /// The cluster that its text names and one of whose services reads its repository; also absent if you may not see it.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        nullable(by_id::<plural_core::cluster::Cluster, _>(ctx, self.0.life.links.cluster)).await
    }

    /// The automation that opened it; absent once that is deleted, or if you may not see it.
    async fn automation(&self, ctx: &Context<'_>) -> Nullable<PrAutomation> {
        nullable(by_id::<plural_core::pr_automation::PrAutomation, _>(ctx, self.0.automation_id)).await
    }

    /// The Secret that comes with it, if its automation asks for one.
    async fn secret(&self, ctx: &Context<'_>) -> Nullable<PullRequestSecret> {
        nullable(by_id::<plural_core::pr_secret::PrSecret, _>(ctx, self.0.id)).await
    }

    /// Its project.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// When it was recorded.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it last changed.
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
        #[graphql(desc = "Only about this service.")] service_id: Option<ID>,
        #[graphql(desc = "Only about this stack.")] stack_id: Option<ID>,
        #[graphql(desc = "Only about this cluster, or a service on it.")] cluster_id: Option<ID>,
        #[graphql(desc = "Only those with whose opening the console is so far.")] phase: Option<PrPhase>,
        #[graphql(desc = "Only of this repository, as `acme/shop`.")] repository: Option<String>,
        #[graphql(desc = "Only those that were opened with this automation.")] automation_id: Option<ID>,
        #[graphql(desc = "Only with this in their title, repository or address.")] q: Option<String>,
    ) -> Nullable<PullRequestConnection> {
        let filter = || -> plural_core::Result<PullRequestFilter> {
            Ok(PullRequestFilter {
                project_id: id_in("projectId", project_id.as_deref())?,
                status: status.map(Into::into),
                service_id: id_in("serviceId", service_id.as_deref())?,
                stack_id: id_in("stackId", stack_id.as_deref())?,
                cluster_id: id_in("clusterId", cluster_id.as_deref())?,
                phase: phase.map(Into::into),
                repository: repository.filter(|repository| !repository.is_empty()),
                automation_id: id_in("automationId", automation_id.as_deref())?,
                q,
            })
        };
        let filter = filter();
        page_of::<plural_core::pull_request::PullRequest, _>(
            ctx,
            filter,
            page_args(after, first, before, last),
        )
        .await
    }
}

/// What a pull request would be.
pub(crate) struct PullRequestPreview(plural_app::pull_request_open::PullRequestPreview);

impl From<plural_app::pull_request_open::PullRequestPreview> for PullRequestPreview {
    fn from(preview: plural_app::pull_request_open::PullRequestPreview) -> Self {
        Self(preview)
    }
}

/// What a pull request would be. Nothing is written.
#[Object]
impl PullRequestPreview {
    /// The repository.
    async fn repository(&self) -> Option<&str> {
        Some(self.0.repository.as_str())
    }

    /// Its target branch.
    async fn base(&self) -> Option<&str> {
        Some(self.0.base.as_str())
    }

    /// The commit of that branch that it was computed from.
    async fn commit(&self) -> Option<&str> {
        Some(self.0.commit.as_str())
    }

    /// Its title.
    async fn title(&self) -> Option<&str> {
        Some(self.0.title.as_str())
    }

    /// Its text.
    async fn message(&self) -> Option<&str> {
        Some(self.0.message.as_str())
    }

    /// The files that it would change.
    async fn files(&self) -> List<PullRequestFile> {
        list(self.0.files.iter().cloned().map(PullRequestFile))
    }

    /// All differences, as `git apply` takes them.
    async fn patch(&self) -> Option<String> {
        Some(self.0.files.iter().map(|file| file.diff.as_str()).collect())
    }

    /// Files that are not created, because their condition does not hold.
    async fn skipped(&self) -> List<&str> {
        list(self.0.skipped.iter().map(String::as_str))
    }

    /// What a person should check.
    async fn warnings(&self) -> List<&str> {
        list(self.0.warnings.iter().map(String::as_str))
    }

    /// If generated files change: the conflicts that a person has to resolve, one line per file. The warnings include them.
    async fn conflicts(&self) -> List<&str> {
        list(self.0.conflicts.iter().map(String::as_str))
    }
}

/// The change of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum PullRequestFileChange {
    /// It would be created.
    Created,
    /// It would be changed.
    Changed,
    /// It would be deleted.
    Deleted,
}

/// A file that a pull request would change.
pub(crate) struct PullRequestFile(PreviewedFile);

/// A file that a pull request would change.
#[Object]
impl PullRequestFile {
    /// Its path.
    async fn path(&self) -> Option<&str> {
        Some(self.0.path.as_str())
    }

    /// Its change.
    async fn change(&self) -> Option<PullRequestFileChange> {
        Some(match &self.0 {
            PreviewedFile { is_gone: true, .. } => PullRequestFileChange::Deleted,
            PreviewedFile { is_new: true, .. } => PullRequestFileChange::Created,
            PreviewedFile { .. } => PullRequestFileChange::Changed,
        })
    }

    /// The difference, as `git diff` shows it.
    async fn diff(&self) -> Option<&str> {
        Some(self.0.diff.as_str())
    }
}

/// Opening pull requests.
#[derive(Default)]
pub(crate) struct PullRequestMutation;

/// Opening pull requests.
#[Object]
impl PullRequestMutation {
    /// Opens a pull request with an automation; needs the right to create some with it. Returns its record once it is open, or after
    /// 20 seconds: it is opened in any case.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn create_pull_request(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id", desc = "The automation.")] automation: ID,
        #[graphql(
            desc = "Another repository than the automation's: one of those that its connection may touch."
        )]
        identifier: Option<String>,
        #[graphql(desc = "The branch of the pull request; else it has one of its own.")] branch: Option<
            String,
        >,
        #[graphql(desc = "Answers to the automation's questions.")] context: Option<Json>,
        #[graphql(desc = "false: answer at once, with what is recorded.")] wait: Option<bool>,
        #[graphql(
            desc = "1 to 128 printable characters of your own: asked once more with the same within 24 hours, there is one pull request."
        )]
        idempotency_key: Option<String>,
        #[graphql(
            desc = "Values of the Secret that the automation asks for, by name: an object of texts. Those that the console generates may be left out."
        )]
        secrets: Option<Json>,
    ) -> Nullable<PullRequest> {
        nullable(async {
            let request = request(ctx);
            let key = key_in(idempotency_key).into_graphql(ctx)?;
            let ask = ask(&automation, identifier, branch, context).into_graphql(ctx)?;
            let secrets = object_in("secrets", secrets).into_graphql(ctx)?;
            let ask = PullRequestAsk { key, secrets, ..ask };
            let wait = wait.unwrap_or(true);
            let made = Box::pin(request.app.pull_request_create(&request.op, ask, wait)).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// What a pull request would change; needs the right to create one. Nothing is written.
    async fn preview_pull_request(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id", desc = "The automation.")] automation: ID,
        #[graphql(
            desc = "Another repository than the automation's: one of those that its connection may touch."
        )]
        identifier: Option<String>,
        #[graphql(desc = "Answers to the automation's questions.")] context: Option<Json>,
    ) -> Nullable<PullRequestPreview> {
        nullable(async {
            let request = request(ctx);
            let ask = ask(&automation, identifier, None, context).into_graphql(ctx)?;
            let made = Box::pin(request.app.pull_request_preview(&request.op, ask)).await;
            Ok(Some(PullRequestPreview(made.into_graphql(ctx)?)))
        })
        .await
    }

    /// Starts a fleet plan of a pull request without opening it; needs the right to create one. Returns at once: the plan
    /// fills while the agents answer. Only you and administrators see it, for an hour; it supersedes an earlier one of yours with the same
    /// automation. Nothing is written, and nothing is applied.
    async fn plan_pull_request_preview(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id", desc = "The automation.")] automation: ID,
        #[graphql(
            desc = "Another repository than the automation's: one of those that its connection may touch."
        )]
        identifier: Option<String>,
        #[graphql(desc = "Answers to the automation's questions.")] context: Option<Json>,
    ) -> Nullable<FleetPlan> {
        nullable(async {
            let request = request(ctx);
            let ask = ask(&automation, identifier, None, context).into_graphql(ctx)?;
            let made = Box::pin(request.app.pull_request_preview_plan(&request.op, ask)).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }
}

fn ask(
    automation: &ID,
    identifier: Option<String>,
    branch: Option<String>,
    context: Option<Json>,
) -> plural_core::Result<PullRequestAsk> {
    let automation: PrAutomationId = id(automation)?;
    let context = given_answers(context)?;
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    Ok(PullRequestAsk {
        automation,
        identifier: given(identifier),
        branch: given(branch),
        context,
        key: None,
        secrets: serde_json::Map::new(),
    })
}

/// The idempotency key of a request, if any.
pub(super) fn key_in(given: Option<String>) -> plural_core::Result<Option<IdempotencyKey>> {
    given.map(|text| text.parse()).transpose()
}

/// The answers: an object, or nothing.
pub(super) fn given_answers(context: Option<Json>) -> plural_core::Result<serde_json::Map<String, Value>> {
    object_in("context", context)
}

/// An object, or nothing.
pub(super) fn object_in(
    field: &str,
    json: Option<Json>,
) -> plural_core::Result<serde_json::Map<String, Value>> {
    Ok(json.map_or(Ok(None), |json| json.object(field))?.unwrap_or_default())
}
