//! Chart repositories with credentials, and what charts were resolved to.

use std::collections::HashSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Authorized, Installation, Read, Write};
use plural_app::helm_repository::{HelmRepositoryRow, HelmRepositoryStore, HelmRepositoryUpsert};
use plural_app::ports::charts::ChartPin;
use plural_app::seal::Sealed;
use plural_core::access::Visibility;
use plural_core::helm_repository::{HelmAuthProvider, HelmRepository, HelmUrl};
use plural_core::ids::{HelmRepositoryId, ProjectId};
use plural_core::policy::PolicyNoun;
use plural_core::repository::GitHealth;
use plural_core::{Error, Page, PageRequest, Result};
use sea_orm::sea_query::{Condition, Expr, OnConflict};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect};
use uuid::Uuid;

use crate::convert::word;
use crate::database::Database;
use crate::error::db;
use crate::page::page;
use crate::policy;
use crate::transaction::set;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "helm_repositories")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub url: String,
        pub provider: Option<String>,
        pub access: Vec<u8>,
        pub health: Option<String>,
        pub error: Option<String>,
        pub pulled_at: Option<DateTimeUtc>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
        pub project_id: Option<Uuid>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod pin {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "chart_pins")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub key: String,
        pub version: String,
        pub digest: String,
        pub at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for HelmRepository {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            url,
            provider,
            access: _,
            health,
            error,
            pulled_at,
            created_at,
            updated_at,
            project_id,
        } = row;
        let provider =
            provider.map(|text| word(HelmAuthProvider::parse(&text), "a helm repository's provider"));
        let health = health.map(|text| word(GitHealth::parse(&text), "a helm repository's health"));
        Ok(Self {
            id: HelmRepositoryId::from_uuid(id),
            url: HelmUrl::stored(&url),
            project_id: project_id.map(ProjectId::from_uuid),
            provider: provider.transpose()?,
            health: health.transpose()?,
            error,
            pulled_at,
            created_at,
            updated_at,
        })
    }
}

impl TryFrom<row::Model> for HelmRepositoryRow {
    type Error = Error;

    fn try_from(mut row: row::Model) -> Result<Self> {
        let access = Sealed::from_bytes(std::mem::take(&mut row.access));
        Ok(Self { repository: row.try_into()?, access })
    }
}

/// Projects that have chart repositories of their own.
pub(crate) async fn owners_on(connection: &impl ConnectionTrait) -> Result<HashSet<Uuid>> {
    let rows: Vec<Uuid> = row::Entity::find()
        .select_only()
        .column(row::Column::ProjectId)
        .distinct()
        .filter(row::Column::ProjectId.is_not_null())
        .into_tuple()
        .all(connection)
        .await
        .map_err(db("reading whose chart repositories there are"))?;
    Ok(rows.into_iter().collect())
}

impl Database {
    async fn helm_repository_model(&self, url: &HelmUrl) -> Result<Option<row::Model>> {
        let query = row::Entity::find().filter(row::Column::Url.eq(url.as_str()));
        let exact = query.one(&self.reader).await.map_err(db("reading a helm repository"))?;
        if exact.is_some() || url.address().is_none() {
            return Ok(exact);
        }
        // An earlier release may have stored another text for the same address.
        let rows = row::Entity::find().all(&self.reader).await.map_err(db("listing helm repositories"))?;
        Ok(rows.into_iter().find(|row| HelmUrl::stored(&row.url).address() == url.address()))
    }
}

#[async_trait]
impl HelmRepositoryStore for Database {
    async fn helm_repository(
        &self,
        _by: &Authorized<Installation, Read>,
        url: &HelmUrl,
    ) -> Result<Option<HelmRepository>> {
        self.helm_repository_model(url).await?.map(TryInto::try_into).transpose()
    }

    async fn helm_repository_list(
        &self,
        visibility: &Visibility,
        request: &PageRequest,
    ) -> Result<Page<HelmRepository>> {
        let seen = match visibility {
            Visibility::All => Condition::all(),
            Visibility::Bound { .. } => Condition::any()
                .add(row::Column::ProjectId.is_null())
                .add(policy::visible(visibility, &[row::Column::ProjectId], PolicyNoun::Project)),
        };
        let query = row::Entity::find().filter(seen);
        page(&self.reader, query, row::Column::Id, request, HelmRepository::try_from).await
    }

    async fn helm_repository_row(&self, url: &HelmUrl) -> Result<Option<HelmRepositoryRow>> {
        self.helm_repository_model(url).await?.map(TryInto::try_into).transpose()
    }

    async fn helm_repository_rows(&self) -> Result<Vec<HelmRepositoryRow>> {
        let rows = row::Entity::find().all(&self.reader).await.map_err(db("listing helm repositories"))?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    async fn helm_repository_upsert(
        &self,
        by: Audited<'_, Installation, Write>,
        upsert: &HelmRepositoryUpsert,
    ) -> Result<HelmRepository> {
        let HelmRepositoryUpsert { id, url, project_id, provider, access, before, dropped } = upsert;
        let at = by.entry().at;
        let write = self.write().await?;
        // Whether credentials may stay was decided from what was stored.
        let stored = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
        let stored = stored.map_err(db("reading a helm repository"))?.map(|row| row.access);
        if stored.as_deref() != before.as_ref().map(Sealed::as_bytes) {
            return Err(Error::conflict(
                "how the repository is read was changed at the same time: look at it and try again",
            ));
        }
        let row = row::ActiveModel {
            id: set(id.uuid()),
            url: set(url.to_string()),
            provider: set(provider.map(|provider| provider.as_str().to_owned())),
            access: set(access.as_bytes().to_vec()),
            health: set(dropped.as_ref().map(|_| GitHealth::Failed.as_str().to_owned())),
            error: set(dropped.clone()),
            pulled_at: set(None),
            created_at: set(at),
            updated_at: set(at),
            project_id: set(project_id.map(ProjectId::uuid)),
        };
        // By id: of two that make the same address at once the second fails, and what it sealed is for its own id.
        let mut changed =
            vec![row::Column::Provider, row::Column::Access, row::Column::UpdatedAt, row::Column::ProjectId];
        if dropped.is_some() {
            changed.extend([row::Column::Health, row::Column::Error]);
        }
        let conflict = OnConflict::column(row::Column::Id).update_columns(changed).to_owned();
        row::Entity::insert(row)
            .on_conflict(conflict)
            .exec_without_returning(&write.tx)
            .await
            .map_err(crate::error::unique("registering a helm repository", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        let row = self.helm_repository_model(url).await?.ok_or(Error::not_found("helm repository"))?;
        row.try_into()
    }

    async fn helm_repository_delete(
        &self,
        by: Audited<'_, Installation, Write>,
        id: HelmRepositoryId,
    ) -> Result<()> {
        let write = self.write().await?;
        row::Entity::delete_by_id(id.uuid())
            .exec(&write.tx)
            .await
            .map_err(db("deleting a helm repository"))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn helm_repository_read(
        &self,
        id: HelmRepositoryId,
        health: GitHealth,
        error: Option<String>,
        now: DateTime<Utc>,
    ) -> Result<()> {
        let write = self.write().await?;
        let mut update = row::Entity::update_many()
            .col_expr(row::Column::Health, Expr::value(health.as_str()))
            .col_expr(row::Column::Error, Expr::value(error))
            .filter(row::Column::Id.eq(id.uuid()));
        if health == GitHealth::Pullable {
            update = update.col_expr(row::Column::PulledAt, Expr::value(now));
        }
        update.exec(&write.tx).await.map_err(db("recording how a helm repository was read"))?;
        write.commit().await
    }

    async fn chart_pin(&self, key: &str) -> Result<Option<ChartPin>> {
        let row =
            pin::Entity::find_by_id(key).one(&self.reader).await.map_err(db("reading a chart's pin"))?;
        Ok(row.map(|pin::Model { key: _, version, digest, at: _ }| ChartPin { version, digest }))
    }

    async fn chart_pin_put(&self, key: &str, chart: &ChartPin, now: DateTime<Utc>) -> Result<()> {
        if self.chart_pin(key).await?.as_ref() == Some(chart) {
            return Ok(());
        }
        let ChartPin { version, digest } = chart;
        let write = self.write().await?;
        let row = pin::ActiveModel {
            key: set(key.to_owned()),
            version: set(version.clone()),
            digest: set(digest.clone()),
            at: set(now),
        };
        let conflict = OnConflict::column(pin::Column::Key)
            .update_columns([pin::Column::Version, pin::Column::Digest, pin::Column::At])
            .to_owned();
        pin::Entity::insert(row)
            .on_conflict(conflict)
            .exec_without_returning(&write.tx)
            .await
            .map_err(db("remembering a chart's version"))?;
        write.commit().await
    }
}

const UNIQUE: &[(&str, &str)] =
    &[("helm_repositories_url_key", "this repository was registered at the same time; try again")];
