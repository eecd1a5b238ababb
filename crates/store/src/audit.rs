//! The audit log.

use async_trait::async_trait;
use plural_app::access::{Authorized, Installation, Read};
use plural_app::audit::AuditStore;
use plural_core::audit::{AuditEntry, AuditRow, AuditTarget};
use plural_core::ids::{AuditId, RequestId, UserId};
use plural_core::{Page, PageRequest, Result};
use sea_orm::EntityTrait;

use crate::database::Database;
use crate::page::page;
use crate::transaction::set;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "audit_rows")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub action: String,
        pub user_id: Option<Uuid>,
        pub actor: String,
        pub target_noun: String,
        pub target_id: Option<Uuid>,
        pub target_name: String,
        pub request_id: Uuid,
        pub at: DateTimeUtc,
        pub times: i64,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) fn row_of(id: AuditId, entry: &AuditEntry) -> row::ActiveModel {
    let AuditEntry { action, user_id, actor, target, request_id, at, times } = entry;
    row::ActiveModel {
        id: set(id.uuid()),
        action: set(action.to_string()),
        user_id: set(user_id.map(UserId::uuid)),
        actor: set(actor.clone()),
        target_noun: set(target.noun.to_string()),
        target_id: set(target.id),
        target_name: set(target.name.clone()),
        request_id: set(request_id.uuid()),
        at: set(*at),
        times: set(i64::from(*times)),
    }
}

impl From<row::Model> for AuditRow {
    fn from(row: row::Model) -> Self {
        let row::Model {
            id,
            action,
            user_id,
            actor,
            target_noun,
            target_id,
            target_name,
            request_id,
            at,
            times,
        } = row;
        Self {
            id: AuditId::from_uuid(id),
            entry: AuditEntry {
                action: action.into(),
                user_id: user_id.map(UserId::from_uuid),
                actor,
                target: AuditTarget { noun: target_noun.into(), id: target_id, name: target_name },
                request_id: RequestId::from_uuid(request_id),
                at,
                times: u32::try_from(times).unwrap_or(u32::MAX),
            },
        }
    }
}

/// Lines of one statement.
const AT_ONCE: usize = 500;

#[async_trait]
impl AuditStore for Database {
    async fn audit_note(&self, entries: &[AuditEntry]) -> Result<()> {
        let write = self.write().await?;
        for chunk in entries.chunks(AT_ONCE) {
            write.audit_many(chunk).await?;
        }
        write.commit().await
    }

    async fn audit_list(
        &self,
        _by: &Authorized<Installation, Read>,
        request: &PageRequest,
    ) -> Result<Page<AuditRow>> {
        page(&self.reader, row::Entity::find(), row::Column::Id, request, |row| Ok(row.into())).await
    }
}
