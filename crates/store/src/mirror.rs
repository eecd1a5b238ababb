//! Mirrors that a replica put where the others find them.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::mirror::{MirrorStore, SharedMirror};
use plural_app::ports::git::MirrorBundle;
use plural_core::Result;
use plural_core::ids::RepositoryId;
use plural_core::repository::RepositoryUrl;
use sea_orm::sea_query::{Expr, OnConflict};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QuerySelect};
use uuid::Uuid;

use crate::convert::bytes32;
use crate::database::Database;
use crate::error::{db, is_foreign_key};
use crate::transaction::set;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "shared_mirrors")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub repository_id: Uuid,
        pub url: String,
        pub reference_digest: String,
        /// Digests, one behind the other.
        pub pieces: Vec<u8>,
        pub size: i64,
        pub shared_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

#[async_trait]
impl MirrorStore for Database {
    async fn mirrors_shared(&self) -> Result<Vec<SharedMirror>> {
        let rows: Vec<(Uuid, DateTime<Utc>)> = row::Entity::find()
            .select_only()
            .columns([row::Column::RepositoryId, row::Column::SharedAt])
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("listing shared mirrors"))?;
        Ok(rows
            .into_iter()
            .map(|(id, at)| SharedMirror { repository_id: RepositoryId::from_uuid(id), at })
            .collect())
    }

    async fn mirror_shared(&self, id: RepositoryId, url: &RepositoryUrl) -> Result<Option<MirrorBundle>> {
        let row = row::Entity::find_by_id(id.uuid())
            .filter(row::Column::Url.eq(url.as_str()))
            .one(&self.reader)
            .await
            .map_err(db("reading a shared mirror"))?;
        let Some(row) = row else { return Ok(None) };
        let row::Model { repository_id: _, url: _, reference_digest, pieces, size, shared_at: _ } = row;
        Ok(Some(MirrorBundle {
            references: reference_digest,
            pieces: digests(&pieces)?,
            bytes: size.cast_unsigned(),
        }))
    }

    async fn mirror_share(
        &self,
        id: RepositoryId,
        url: &RepositoryUrl,
        bundle: Option<&MirrorBundle>,
        at: DateTime<Utc>,
    ) -> Result<()> {
        let doing = "remembering a shared mirror";
        let write = self.write().await?;
        let Some(MirrorBundle { references, pieces, bytes }) = bundle else {
            row::Entity::update_many()
                .col_expr(row::Column::SharedAt, Expr::value(at))
                .filter(row::Column::RepositoryId.eq(id.uuid()))
                .exec(&write.tx)
                .await
                .map_err(db(doing))?;
            return write.commit().await;
        };
        let row = row::ActiveModel {
            repository_id: set(id.uuid()),
            url: set(url.as_str().to_owned()),
            reference_digest: set(references.clone()),
            pieces: set(pieces.concat()),
            size: set(bytes.cast_signed()),
            shared_at: set(at),
        };
        let newer = OnConflict::column(row::Column::RepositoryId)
            .update_columns([
                row::Column::Url,
                row::Column::ReferenceDigest,
                row::Column::Pieces,
                row::Column::Size,
                row::Column::SharedAt,
            ])
            .to_owned();
        match row::Entity::insert(row).on_conflict(newer).exec_without_returning(&write.tx).await {
            // The repository went meanwhile.
            Err(cause) if is_foreign_key(&cause) => return Ok(()),
            done => done.map(drop).map_err(db(doing))?,
        }
        write.commit().await
    }
}

/// Digests that stand one behind the other.
pub(crate) fn digests(pieces: &[u8]) -> Result<Vec<[u8; 32]>> {
    pieces.chunks(32).map(|piece| bytes32(piece, "a piece of a shared mirror")).collect()
}
