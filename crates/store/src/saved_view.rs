//! Saved views.

use async_trait::async_trait;
use plural_app::access::{Admin, Audited, Grant, Installation, Read, Write};
use plural_app::saved_view::{SavedViewFilter, SavedViewStore};
use plural_core::access::Visibility;
use plural_core::ids::{SavedViewId, UserId};
use plural_core::policy::PolicyNoun;
use plural_core::saved_view::{MAX_SAVED_VIEWS, SavedView, SavedViewChange};
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::parse;
use crate::database::Database;
use crate::error::{db, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::set;
use crate::{policy, transaction, user};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "saved_views")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub owner_id: Uuid,
        pub name: String,
        pub page: String,
        pub query: String,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] = &[(
    "saved_views_owner_id_page_name_key",
    "the owner has a view of this name for the page already; choose another name",
)];

impl TryFrom<row::Model> for SavedView {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, owner_id, name, page, query, created_at, updated_at } = row;
        Ok(Self {
            id: SavedViewId::from_uuid(id),
            owner_id: UserId::from_uuid(owner_id),
            name: parse(&name, "a saved view's name")?,
            page: parse(&page, "a saved view's page")?,
            query,
            created_at,
            updated_at,
        })
    }
}

impl Table for SavedView {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading saved views";

    fn find(rows: Select<row::Entity>, by: &SavedViewId) -> Select<row::Entity> {
        rows.filter(row::Column::Id.eq(by.uuid()))
    }

    fn filter(mut rows: Select<row::Entity>, filter: &SavedViewFilter) -> Select<row::Entity> {
        let SavedViewFilter { page, q } = filter;
        if let Some(page) = page {
            rows = rows.filter(row::Column::Page.eq(page.as_str()));
        }
        search(rows, &[row::Column::Name], q.as_deref())
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::Id], PolicyNoun::SavedView)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.id.into()])
    }
}

/// Removes the views of a user that goes, with their policies. The user's row is locked.
pub(crate) async fn forget_of_in_tx(write: &transaction::Write<'_>, owner: UserId) -> Result<()> {
    let doing = "forgetting the saved views of a user";
    // Before their policies, as whoever changes a view locks the two.
    let owned: Vec<Uuid> = row::Entity::find()
        .select_only()
        .column(row::Column::Id)
        .filter(row::Column::OwnerId.eq(owner.uuid()))
        .order_by_asc(row::Column::Id)
        .lock_exclusive()
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db(doing))?;
    if owned.is_empty() {
        return Ok(());
    }
    policy::row::Entity::delete_many()
        .filter(policy::row::Column::Id.is_in(owned))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db(doing))
}

#[async_trait]
impl SavedViewStore for Database {
    async fn saved_view_create(
        &self,
        by: Audited<'_, Installation, Read>,
        view: &SavedView,
        grant: &Grant,
    ) -> Result<()> {
        let SavedView { id, owner_id, name, page, query, created_at, updated_at } = view;
        let write = self.write().await?;
        // Two views that are made at once must not both be the last one.
        user::row::Entity::find_by_id(owner_id.uuid())
            .lock(LockType::NoKeyUpdate)
            .one(&write.tx)
            .await
            .map_err(db("reading a user"))?
            .ok_or(Error::not_found("user"))?;
        let owned = row::Entity::find().filter(row::Column::OwnerId.eq(owner_id.uuid())).count(&write.tx);
        if owned.await.map_err(db("counting saved views"))? >= MAX_SAVED_VIEWS {
            let text = format!("you own {MAX_SAVED_VIEWS} saved views, which is the limit: delete one first");
            return Err(Error::conflict(text));
        }
        policy::make_in_tx(&write, &[((*id).into(), None)]).await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            owner_id: set(owner_id.uuid()),
            name: set(name.to_string()),
            page: set(page.to_string()),
            query: set(query.clone()),
            created_at: set(*created_at),
            updated_at: set(*updated_at),
        };
        row.insert(&write.tx).await.map_err(unique("making a saved view", UNIQUE))?;
        policy::grant_in_tx(&write, Some(grant)).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn saved_view_update(
        &self,
        by: Audited<'_, SavedView, Write>,
        change: &SavedViewChange,
        grant: Option<&Grant>,
    ) -> Result<SavedView> {
        let SavedViewChange { name, query, bindings: _ } = change;
        let write = self.write().await?;
        if grant.is_some() {
            // A binding may name the owner, whose row is locked before their views when the owner is deleted.
            let owner = user::row::Entity::find_by_id(by.target().owner_id.uuid());
            owner.lock(LockType::KeyShare).one(&write.tx).await.map_err(db("reading a user"))?;
        }
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(by.target().id.uuid()),
            updated_at: set(by.entry().at),
            ..Default::default()
        };
        if let Some(name) = name {
            row.name = set(name.to_string());
        }
        if let Some(query) = query {
            row.query = set(query.clone());
        }
        let row = row.update(&write.tx).await.map_err(|cause| match cause {
            sea_orm::DbErr::RecordNotUpdated => Error::not_found("saved view"),
            cause => unique("changing a saved view", UNIQUE)(cause),
        })?;
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn saved_view_delete(&self, by: Audited<'_, SavedView, Admin>) -> Result<()> {
        let write = self.write().await?;
        // Before its policy, as whoever changes a view locks the two.
        row::Entity::find_by_id(by.target().id.uuid())
            .lock_exclusive()
            .one(&write.tx)
            .await
            .map_err(db("reading a saved view"))?
            .ok_or(Error::not_found("saved view"))?;
        // The row goes with its policy.
        policy::forget_in_tx(&write, by.target().id).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }
}
