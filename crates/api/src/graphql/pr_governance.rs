//! Governances of pull requests.

use async_graphql::{Context, Enum, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::pr_governance::PrGovernanceSelector;
use plural_app::records::Search;
use plural_core::Error;
use plural_core::pr_governance::{NewPrGovernance, PrGoverned, PrReview};
use plural_specs::Json;
use secrecy::SecretString;

use super::{
    error::{IntoGraphql as _, Nullable, id, id_in, id_or_name, nullable, parse, unsupported},
    page::{connection, page_args},
    project::Project,
    record::{by_id, one, page_of},
    request::request,
    scm_connection::ScmConnection,
};

/// How the console asks a governance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum PrGovernanceType {
    /// By a change request of ServiceNow. Not implemented.
    ServiceNow,
    /// By calls of a webhook.
    Webhook,
}

/// Who confirms pull requests before a merge, and whose account then approves them. Its secret is never shown.
pub(crate) struct PrGovernance(plural_core::pr_governance::PrGovernance);

impl From<plural_core::pr_governance::PrGovernance> for PrGovernance {
    fn from(governance: plural_core::pr_governance::PrGovernance) -> Self {
        Self(governance)
    }
}

connection!(PrGovernanceConnection, PrGovernanceEdge, PrGovernance);

/// Who confirms pull requests before a merge, and whose account then approves them. Its secret is never shown.
#[Object]
impl PrGovernance {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// How the console asks it.
    #[graphql(name = "type")]
    async fn kind(&self) -> Option<PrGovernanceType> {
        Some(PrGovernanceType::Webhook)
    }

    /// The connection whose account approves; absent if you may not see it.
    async fn connection(&self, ctx: &Context<'_>) -> Nullable<ScmConnection> {
        nullable(by_id::<plural_core::scm_connection::ScmConnection, _>(ctx, self.0.connection_id)).await
    }

    /// Its webhook.
    async fn configuration(&self) -> Option<PrGovernanceConfiguration> {
        let webhook = GovernanceWebhook { url: self.0.url.clone(), signed: Some(self.0.is_signed) };
        Some(PrGovernanceConfiguration { webhook: Some(webhook) })
    }

    /// Its project; absent for one of the whole installation, and if you may see the governance but not its project.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// When it was created.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// How the console reaches a governance.
#[derive(SimpleObject)]
pub(crate) struct PrGovernanceConfiguration {
    /// The webhook.
    webhook: Option<GovernanceWebhook>,
}

/// The webhook of a governance.
#[derive(SimpleObject)]
pub(crate) struct GovernanceWebhook {
    /// Base URL of `/v1/open`, `/v1/confirm` and `/v1/close`.
    url: String,
    /// Calls are signed with a secret.
    signed: Option<bool>,
}

/// The next or last step of the console for a pull request with a governance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::pr_governance::PrReviewPhase")]
pub(crate) enum PrReviewPhase {
    /// It reports the head to the governance.
    Open,
    /// It asks the governance to confirm the head.
    Confirm,
    /// The head is confirmed: it approves the pull request at its host.
    Approve,
    /// The head is confirmed, and approved at the host.
    Approved,
    /// The pull request has ended: it reports that to the governance.
    Close,
    /// The end was reported to the governance.
    Closed,
}

/// The state of a pull request at its governance.
pub(crate) struct PullRequestGovernance(PrGoverned);

impl From<PrGoverned> for PullRequestGovernance {
    fn from(governed: PrGoverned) -> Self {
        Self(governed)
    }
}

impl PullRequestGovernance {
    fn review(&self) -> &PrReview {
        &self.0.review
    }
}

/// The state of a pull request at its governance.
#[Object]
impl PullRequestGovernance {
    /// Its governance; absent if you may not see it.
    async fn governance(&self, ctx: &Context<'_>) -> Nullable<PrGovernance> {
        nullable(by_id::<plural_core::pr_governance::PrGovernance, _>(ctx, self.0.governance_id)).await
    }

    /// The next step.
    async fn phase(&self) -> Option<PrReviewPhase> {
        Some(self.review().phase.into())
    }

    /// The commit under review; absent before the pull request was read back.
    async fn head(&self) -> Option<&str> {
        self.review().head.as_deref()
    }

    /// The confirmed commit: this one may be merged, and no other.
    async fn confirmed(&self) -> Option<&str> {
        self.review().confirmed.as_deref()
    }

    /// It refused, for now.
    async fn refused(&self) -> Option<bool> {
        Some(self.review().refused)
    }

    /// Its message, or why the call failed.
    async fn message(&self) -> Option<&str> {
        self.review().said.as_deref()
    }
}

/// The settings of a governance.
#[derive(InputObject)]
pub(crate) struct PrGovernanceAttributes {
    /// How the console asks it: `WEBHOOK`.
    #[graphql(name = "type")]
    kind: PrGovernanceType,
    /// Unique name: an existing governance with it is updated.
    name: String,
    /// The connection whose account approves.
    connection_id: ID,
    /// Its webhook. A new one needs it; absent: unchanged.
    configuration: Option<PrGovernanceConfigurationAttributes>,
    /// Its project; absent: that of its connection. It cannot be changed.
    project_id: Option<ID>,
}

/// How the console reaches a governance.
#[derive(InputObject)]
pub(crate) struct PrGovernanceConfigurationAttributes {
    /// The webhook.
    webhook: Option<GovernanceWebhookAttributes>,
    /// Refused: not implemented.
    service_now: Option<GovernanceServiceNowAttributes>,
}

/// The webhook of a governance.
#[derive(InputObject)]
pub(crate) struct GovernanceWebhookAttributes {
    /// Base URL of `/v1/open`, `/v1/confirm` and `/v1/close`: https.
    url: String,
    /// The secret that signs calls: at least 16 characters. Absent: unchanged; an empty text removes it.
    secret: Option<String>,
}

/// Refused: governance by ServiceNow is not implemented.
#[derive(InputObject)]
pub(crate) struct GovernanceServiceNowAttributes {
    /// Refused.
    url: String,
    /// Refused.
    change_model: Option<String>,
    /// Refused.
    username: String,
    /// Refused.
    password: String,
    /// Refused.
    attributes: Option<Json>,
}

impl PrGovernanceAttributes {
    fn parse(self) -> plural_core::Result<(NewPrGovernance, Option<SecretString>)> {
        const SERVICE_NOW: &str = "is not built: there are no changes of ServiceNow here. Use a governance of type WEBHOOK, \
                                   and have what it calls make the change";
        let Self { kind, name, connection_id, configuration, project_id } = self;
        unsupported("attributes.type", kind == PrGovernanceType::ServiceNow, SERVICE_NOW)?;
        let (webhook, service_now) = match configuration {
            None => (None, None),
            Some(PrGovernanceConfigurationAttributes { webhook, service_now }) => (webhook, service_now),
        };
        unsupported("attributes.configuration.serviceNow", service_now.is_some(), SERVICE_NOW)?;
        let (url, secret) = match webhook {
            None => (None, None),
            Some(GovernanceWebhookAttributes { url, secret }) => (Some(url), secret),
        };
        let connection_id =
            id(&connection_id).map_err(|error: Error| error.named_in("attributes.connectionId"))?;
        let project_id = id_in("attributes.projectId", project_id.as_deref())?;
        let new = NewPrGovernance { name: parse("attributes.name", &name)?, project_id, connection_id, url };
        Ok((new, secret.map(SecretString::from)))
    }
}

/// Reading governances of pull requests.
#[derive(Default)]
pub(crate) struct PrGovernanceQuery;

/// Reading governances of pull requests.
#[Object]
impl PrGovernanceQuery {
    /// One governance, by id or name.
    async fn pr_governance(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        name: Option<String>,
    ) -> Nullable<PrGovernance> {
        let by = id_or_name(id, name, PrGovernanceSelector::Id, PrGovernanceSelector::Name);
        one::<plural_core::pr_governance::PrGovernance, _>(ctx, by).await
    }

    /// The governances that you may see: those of your projects, and for administrators those of the whole installation.
    async fn pr_governances(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<PrGovernanceConnection> {
        page_of::<plural_core::pr_governance::PrGovernance, _>(
            ctx,
            Ok(Search { q }),
            page_args(after, first, before, last),
        )
        .await
    }
}

/// Changing governances of pull requests.
#[derive(Default)]
pub(crate) struct PrGovernanceMutation;

/// Changing governances of pull requests.
#[Object]
impl PrGovernanceMutation {
    /// Creates a governance, or updates the one with this name; needs write access to its project, and to see the connection.
    async fn upsert_pr_governance(
        &self,
        ctx: &Context<'_>,
        attributes: PrGovernanceAttributes,
    ) -> Nullable<PrGovernance> {
        nullable(async {
            let request = request(ctx);
            let (new, secret) = attributes.parse().into_graphql(ctx)?;
            let made = Box::pin(request.app.pr_governance_upsert(&request.op, new, secret)).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a governance with its secret; refused while an automation or an open pull request uses it.
    async fn delete_pr_governance(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] governance: ID,
    ) -> Nullable<PrGovernance> {
        nullable(async {
            let request = request(ctx);
            let governance = id(&governance).into_graphql(ctx)?;
            let gone = request.app.pr_governance_delete(&request.op, governance).await;
            Ok(Some(gone.into_graphql(ctx)?.into()))
        })
        .await
    }
}
