//! Roles that administrators make.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_app::access::{Audited, Installation, Write};
use plural_app::records::Search;
use plural_app::role::{RoleSelector, RoleStore};
use plural_core::access::{Action, Scope};
use plural_core::ids::RoleId;
use plural_core::policy::Rights;
use plural_core::role::{CustomRole, NewRole, RoleAlteration};
use plural_core::{Error, Result};
use sea_orm::sea_query::LockType;
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QuerySelect,
    Select,
};
use uuid::Uuid;

use crate::convert::parse;
use crate::database::Database;
use crate::error::{db, gone_or, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::{self, set};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    /// A role.
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "roles")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub name: String,
        pub description: Option<String>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod action {
    use sea_orm::entity::prelude::*;

    /// One of the actions of a role.
    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "role_actions")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub role_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub action: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("roles_name_key", "a role with this name already exists; choose another name")];

/// Bindings that a refusal names at most.
const NAMED: usize = 5;

impl TryFrom<row::Model> for CustomRole {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, name, description, created_at, updated_at } = row;
        let name = parse(&name, "a role's name")?;
        Ok(Self {
            id: RoleId::from_uuid(id),
            name,
            description,
            rights: Rights::NONE,
            created_at,
            updated_at,
        })
    }
}

/// The action of a stored word. One of a later release gives nothing here.
pub(crate) fn rights_of(word: &str) -> Rights {
    Action::parse(word).map_or(Rights::NONE, |action| Rights::of(&[action]))
}

async fn with_rights(connection: &impl ConnectionTrait, found: &mut [&mut CustomRole]) -> Result<()> {
    let ids = found.iter().map(|role| role.id.uuid());
    let rows = action::Entity::find().filter(action::Column::RoleId.is_in(ids)).all(connection).await;
    let mut rights: HashMap<Uuid, Rights> = HashMap::new();
    for row in rows.map_err(db("reading a role's actions"))? {
        let held = rights.entry(row.role_id).or_default();
        *held = held.union(rights_of(&row.action));
    }
    for role in found {
        role.rights = rights.get(&role.id.uuid()).copied().unwrap_or_default();
    }
    Ok(())
}

/// What a role gives at this moment. It does not go before this write is done.
///
/// # Errors
/// [`Error::NotFound`] for one that is gone.
pub(crate) async fn rights_in_tx(write: &transaction::Write<'_>, id: RoleId) -> Result<Rights> {
    let doing = "reading a role's actions";
    // Of two, one of whom changes its actions, the second waits.
    let known = row::Entity::find_by_id(id.uuid()).lock(LockType::Share).one(&write.tx).await;
    known.map_err(db(doing))?.ok_or(Error::not_found("role"))?;
    let rows = action::Entity::find().filter(action::Column::RoleId.eq(id.uuid())).all(&write.tx).await;
    let rows = rows.map_err(db(doing))?;
    Ok(rows.iter().fold(Rights::NONE, |held, row| held.union(rights_of(&row.action))))
}

async fn insert_actions_in_tx(write: &transaction::Write<'_>, id: RoleId, rights: Rights) -> Result<()> {
    if rights == Rights::NONE {
        return Ok(());
    }
    let rows = rights.iter().map(|action| action::ActiveModel {
        role_id: set(id.uuid()),
        action: set(action.as_str().to_owned()),
    });
    action::Entity::insert_many(rows)
        .exec_without_returning(&write.tx)
        .await
        .map(drop)
        .map_err(db("writing a role's actions"))
}

#[async_trait]
impl Table for CustomRole {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a role";

    fn find(rows: Select<row::Entity>, by: &RoleSelector) -> Select<row::Entity> {
        match by {
            RoleSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            RoleSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Name], q.as_deref())
    }

    fn guard(&self) -> Guard {
        Guard::Scope(Scope::Installation)
    }

    async fn complete(database: &Database, found: &mut [&mut Self]) -> Result<()> {
        with_rights(&database.reader, found).await
    }
}

#[async_trait]
impl RoleStore for Database {
    async fn role_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: RoleId,
        new: &NewRole,
    ) -> Result<CustomRole> {
        let NewRole { name, description, rights } = new;
        let at = by.entry().at;
        let write = self.write().await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            name: set(name.to_string()),
            description: set(description.clone()),
            created_at: set(at),
            updated_at: set(at),
        };
        let row = row.insert(&write.tx).await.map_err(unique("making a role", UNIQUE))?;
        insert_actions_in_tx(&write, id, *rights).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(CustomRole { rights: *rights, ..row.try_into()? })
    }

    async fn role_update(
        &self,
        by: Audited<'_, CustomRole, Write>,
        change: &RoleAlteration,
    ) -> Result<CustomRole> {
        let RoleAlteration { name, description, rights } = change;
        let id = by.target().id;
        let write = self.write().await?;
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(id.uuid()),
            updated_at: set(by.entry().at),
            ..Default::default()
        };
        if let Some(name) = name {
            row.name = set(name.to_string());
        }
        if let Some(description) = description {
            row.description = set(Some(description.clone()));
        }
        // Of two who change its actions, the second waits here.
        let row = row.update(&write.tx).await.map_err(gone_or("role", unique("changing a role", UNIQUE)))?;
        if let Some(rights) = rights {
            action::Entity::delete_many()
                .filter(action::Column::RoleId.eq(id.uuid()))
                .exec(&write.tx)
                .await
                .map_err(db("replacing a role's actions"))?;
            insert_actions_in_tx(&write, id, *rights).await?;
            write.rights_changed(by.entry().at);
        }
        let mut changed = CustomRole::try_from(row)?;
        with_rights(&write.tx, &mut [&mut changed]).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(changed)
    }

    async fn role_delete(&self, by: Audited<'_, CustomRole, Write>) -> Result<()> {
        let id = by.target().id.uuid();
        let write = self.write().await?;
        // Whoever binds it meanwhile waits, or has bound it by now.
        row::Entity::find_by_id(id)
            .lock(LockType::Update)
            .one(&write.tx)
            .await
            .map_err(db("reading a role"))?
            .ok_or(Error::not_found("role"))?;
        let bound = self.bound_as(&write.tx, id).await?;
        if !bound.is_empty() {
            let more = if bound.len() > NAMED { " and others" } else { "" };
            let named = bound.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
            return Err(Error::conflict(format!(
                "the role is bound {named}{more}: revoke these bindings first"
            )));
        }
        row::Entity::delete_by_id(id).exec(&write.tx).await.map_err(db("deleting a role"))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }
}

impl Database {
    /// Who has a role on what, in words; one more than are named.
    async fn bound_as(&self, connection: &impl ConnectionTrait, id: Uuid) -> Result<Vec<String>> {
        let doing = "reading the bindings of a role";
        let sql = format!(
            "SELECT p.noun AS noun, COALESCE(j.name, c.handle, s.name, v.name, m.email, k.name, a.name, p.name) AS name, \
             COALESCE(u.email, g.name) AS who FROM role_bindings b JOIN policies p ON p.id = b.policy_id \
             LEFT JOIN projects j ON j.id = p.id LEFT JOIN clusters c ON c.id = p.id \
             LEFT JOIN services s ON s.id = p.id LEFT JOIN saved_views v ON v.id = p.id LEFT JOIN users m ON m.id = p.id \
             LEFT JOIN stacks k ON k.id = p.id LEFT JOIN pr_automations a ON a.id = p.id \
             LEFT JOIN users u ON u.id = b.user_id LEFT JOIN user_groups g ON g.id = b.group_id \
             WHERE b.role_id = $1 ORDER BY b.id LIMIT {}",
            NAMED + 1
        );
        let rows = connection.query_all_raw(self.statement(&sql, [id.into()])).await.map_err(db(doing))?;
        rows.into_iter()
            .map(|row| {
                let text = |column| row.try_get::<Option<String>>("", column).map_err(db(doing));
                let (noun, name, who) = (text("noun")?, text("name")?, text("who")?);
                let words = [noun, name, who].map(Option::unwrap_or_default);
                let [noun, name, who] = words;
                Ok(format!("on {noun} {name} for {who}"))
            })
            .collect()
    }
}
