//! The clusters' audit log: who asked which cluster's API server for what, through the console.

use async_graphql::{Context, ID, Object};
use chrono::{DateTime, Utc};

use super::{
    error::{Nullable, nullable},
    page::connection,
    record::by_id,
    user::User,
};

/// A request of a person to a cluster's API server.
pub(crate) struct ClusterAuditLog(plural_core::cluster_audit::ClusterAuditRow);

impl From<plural_core::cluster_audit::ClusterAuditRow> for ClusterAuditLog {
    fn from(row: plural_core::cluster_audit::ClusterAuditRow) -> Self {
        Self(row)
    }
}

connection!(ClusterAuditLogConnection, ClusterAuditLogEdge, ClusterAuditLog);

/// A request of a person to a cluster's API server.
#[Object]
impl ClusterAuditLog {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// The user that asked, as long as it exists.
    async fn actor(&self, ctx: &Context<'_>) -> Nullable<User> {
        nullable(by_id::<plural_core::user::User, _>(ctx, self.0.entry.user_id)).await
    }

    /// Who asked, as it was called then.
    async fn actor_name(&self) -> &str {
        &self.0.entry.actor
    }

    /// The user that its RBAC decided about, as `Impersonate-User` named it; absent in lines of earlier releases.
    async fn impersonated_user(&self) -> Option<&str> {
        self.0.entry.impersonated.as_ref().map(|who| who.user.as_str())
    }

    /// The same of groups: of more than a hundred the first ones, and how many others there are.
    async fn impersonated_groups(&self) -> Option<&[String]> {
        self.0.entry.impersonated.as_ref().map(|who| who.groups.as_slice())
    }

    /// The address that it was asked from, where it is known.
    async fn address(&self) -> Option<String> {
        self.0.entry.address.map(|address| address.to_string())
    }

    /// The access token that it was asked with.
    async fn token_id(&self) -> Option<ID> {
        self.0.entry.token_id.map(|id| id.to_string().into())
    }

    /// `GET`.
    async fn method(&self) -> &str {
        &self.0.entry.method
    }

    /// The path, with those parts of its query that cannot be secret.
    async fn path(&self) -> &str {
        &self.0.entry.path
    }

    /// Status of the answer: 101 for a shell or a forwarded port, 0 when there was none.
    async fn response_code(&self) -> i32 {
        i32::from(self.0.entry.response_code)
    }

    /// Milliseconds until the answer had ended; absent in the line that tells of the beginning of a shell or a
    /// forwarded port.
    async fn duration_ms(&self) -> Option<f64> {
        self.0.entry.duration_ms.map(|milliseconds| milliseconds as f64)
    }

    /// Bytes from the client.
    async fn received_bytes(&self) -> f64 {
        self.0.entry.received_bytes as f64
    }

    /// Bytes to the client.
    async fn sent_bytes(&self) -> f64 {
        self.0.entry.sent_bytes as f64
    }

    /// In which request.
    async fn request_id(&self) -> ID {
        self.0.entry.request_id.to_string().into()
    }

    /// The recording that was made of it, when it was a shell that is recorded.
    async fn recording_id(&self) -> Option<ID> {
        self.0.entry.recording_id.map(|id| id.to_string().into())
    }

    /// When it began.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.entry.at)
    }
}
