//! The audit log.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};
use plural_core::audit::AuditFilter;

use super::{
    error::{IntoGraphql, Nullable, id_in, nullable},
    page::{connection, page_args},
    record::by_id,
    request::request,
    user::User,
};

/// Who did what to what, and when.
pub(crate) struct Audit(plural_core::audit::AuditRow);

impl From<plural_core::audit::AuditRow> for Audit {
    fn from(row: plural_core::audit::AuditRow) -> Self {
        Self(row)
    }
}

fn hexadecimal(digest: [u8; 32]) -> String {
    hex::encode(digest)
}

connection!(AuditConnection, AuditEdge, Audit);

/// Who did what to what, and when.
#[Object]
impl Audit {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// What was done.
    async fn action(&self) -> &str {
        &self.0.entry.action
    }

    /// The user that did it, as long as it exists.
    async fn actor(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.0.entry.user_id)).await
    }

    /// Who did it, as it was called then.
    async fn actor_name(&self) -> &str {
        &self.0.entry.actor
    }

    /// To what kind of thing.
    async fn noun(&self) -> &str {
        &self.0.entry.target.noun
    }

    /// The thing's id.
    async fn target_id(&self) -> Option<ID> {
        self.0.entry.target.id.map(|id| id.to_string().into())
    }

    /// The thing's name then.
    async fn target_name(&self) -> &str {
        &self.0.entry.target.name
    }

    /// The address that it was asked from; told in the audit log of the installation only.
    async fn address(&self) -> Option<String> {
        self.0.entry.address.map(|address| address.to_string())
    }

    /// The access token that it was done with; told in the audit log of the installation only.
    async fn token_id(&self) -> Option<ID> {
        self.0.entry.token_id.map(|id| id.to_string().into())
    }

    /// The digest of what the console keeps of the thing itself before it, where it is known: the line before about the same
    /// thing ends with the same unless it was changed otherwise in between.
    async fn state_before(&self) -> Option<String> {
        self.0.entry.before.map(hexadecimal)
    }

    /// The same after it; absent when the thing is gone.
    async fn state_after(&self) -> Option<String> {
        self.0.entry.after.map(hexadecimal)
    }

    /// In which request.
    async fn request_id(&self) -> ID {
        self.0.entry.request_id.to_string().into()
    }

    /// How often: reading secrets, sign-ins that failed and requests that were refused are counted where they come again within a
    /// while.
    async fn times(&self) -> Option<u32> {
        Some(self.0.entry.times)
    }

    /// When; the last time of several.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.entry.at)
    }
}

/// Reading the audit log.
#[derive(Default)]
pub(crate) struct AuditQuery;

/// Reading the audit log.
#[Object]
impl AuditQuery {
    /// The audit log, for administrators.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn audits(
        &self,
        ctx: &Context<'_>,
        #[graphql(desc = "Only of this actor: as it was called then, or a user's id.")] actor: Option<String>,
        #[graphql(desc = "Only of this action; `cluster.*` for all that begin so.")] action: Option<String>,
        #[graphql(desc = "Only about this kind of thing.")] noun: Option<String>,
        #[graphql(desc = "Only about this thing: its id, or its name then.")] target: Option<String>,
        #[graphql(desc = "Only of this request.")] request_id: Option<ID>,
        #[graphql(desc = "Only from then on.")] since: Option<DateTime<Utc>>,
        #[graphql(desc = "Only before then.")] until: Option<DateTime<Utc>>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
    ) -> Nullable<AuditConnection> {
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            let request_id =
                id_in("requestId", request_id.map(|id| id.to_string()).as_ref()).into_graphql(ctx)?;
            let filter = AuditFilter { actor, action, noun, target, request_id, since, until };
            Ok(Some(request.app.audit_find(&request.op, &filter, &page).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
