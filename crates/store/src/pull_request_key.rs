//! Keys of requests for pull requests.

use chrono::{DateTime, Utc};
use plural_app::pull_request_key::{PrRequestKey, PrRequestKnown};
use plural_app::seal::Sealed;
use plural_core::Result;
use plural_core::idempotency_key::{IdempotencyKey, KEPT};
use plural_core::ids::{PullRequestId, UserId};
use plural_core::pull_request::PullRequest;
use sea_orm::sea_query::OnConflict;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter};

use crate::error::db;
use crate::transaction::set;

mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "pr_request_keys")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Uuid,
        pub user_id: Uuid,
        pub key: String,
        pub asked: Vec<u8>,
        pub created_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const READING: &str = "reading the key of a request";
const WRITING: &str = "recording the key of a request";

/// What a request of a user with this key began after `since`.
pub(crate) async fn known_on(
    connection: &impl ConnectionTrait,
    user: UserId,
    key: &IdempotencyKey,
    since: DateTime<Utc>,
) -> Result<Option<PrRequestKnown>> {
    let found = row::Entity::find()
        .filter(row::Column::UserId.eq(user.uuid()))
        .filter(row::Column::Key.eq(key.as_str()))
        .filter(row::Column::CreatedAt.gt(since))
        .one(connection)
        .await
        .map_err(db(READING))?;
    Ok(found.map(|found| PrRequestKnown {
        id: PullRequestId::from_uuid(found.id),
        asked: Sealed::from_bytes(found.asked),
    }))
}

/// Records the key of a request with what it begins, which is recorded already. False: there is one, and what it begins must not be.
pub(crate) async fn record_in_tx(
    tx: &impl ConnectionTrait,
    begun: &PullRequest,
    PrRequestKey { user, key, asked }: &PrRequestKey,
) -> Result<bool> {
    // Everybody's: there is no other time when old ones go.
    row::Entity::delete_many()
        .filter(row::Column::CreatedAt.lte(begun.created_at - KEPT))
        .exec(tx)
        .await
        .map_err(db(WRITING))?;
    let new = row::ActiveModel {
        id: set(begun.id.uuid()),
        project_id: set(begun.project_id.uuid()),
        user_id: set(user.uuid()),
        key: set(key.as_str().to_owned()),
        asked: set(asked.as_bytes().to_vec()),
        created_at: set(begun.created_at),
    };
    // Whoever is first is waited for.
    let or_leave = OnConflict::columns([row::Column::UserId, row::Column::Key]).do_nothing().to_owned();
    let written = row::Entity::insert(new).on_conflict(or_leave).exec_without_returning(tx).await;
    Ok(written.map_err(db(WRITING))? == 1)
}
