//! The audit log.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};

use super::{
    error::{IntoGraphql, Nullable, nullable},
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
        nullable(async {
            match self.0.entry.user_id {
                Some(user) => by_id::<plural_core::user::User, _>(ctx, user).await,
                None => Ok(None),
            }
        })
        .await
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
    async fn audits(
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
            Ok(Some(request.app.audit_list(&request.op, &page).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
