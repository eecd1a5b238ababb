//! Personas.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use plural_app::access::{Audited, Installation, Write};
use plural_app::persona::{PersonaSelector, PersonaStore};
use plural_app::records::Search;
use plural_core::access::Scope;
use plural_core::ids::{GroupId, PersonaId, UserId};
use plural_core::persona::{MOST, NewPersona, Persona, PersonaChange, PersonaRole};
use plural_core::policy::BindingSubject;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter,
    QueryOrder, Select,
};
use uuid::Uuid;

use crate::convert::{json, parse, to_json, word};
use crate::database::{Database, corrupt};
use crate::error::{db, gone_or, is_foreign_key, unique};
use crate::group;
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::{self, set};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "personas")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub name: String,
        pub description: Option<String>,
        pub role: Option<String>,
        pub configuration: Json,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

mod subject {
    use sea_orm::entity::prelude::*;

    /// A user or a group.
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "persona_subjects")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub persona_id: Uuid,
        pub user_id: Option<Uuid>,
        pub group_id: Option<Uuid>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("personas_name_key", "a persona with this name already exists; choose another")];

impl TryFrom<row::Model> for Persona {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, name, description, role, configuration, created_at, updated_at } = row;
        let role = role.map(|text| word(PersonaRole::parse(&text), "a persona's role")).transpose()?;
        Ok(Self {
            id: PersonaId::from_uuid(id),
            name: parse(&name, "a persona's name")?,
            description,
            role,
            configuration: json(configuration, "what a persona is shown")?,
            subjects: Vec::new(),
            created_at,
            updated_at,
        })
    }
}

async fn with_subjects(connection: &impl ConnectionTrait, found: &mut [&mut Persona]) -> Result<()> {
    let ids = found.iter().map(|persona| persona.id.uuid());
    let rows = subject::Entity::find()
        .filter(subject::Column::PersonaId.is_in(ids))
        .order_by_asc(subject::Column::Id)
        .all(connection)
        .await
        .map_err(db("reading whom a persona is for"))?;
    let mut subjects: HashMap<Uuid, Vec<BindingSubject>> = HashMap::new();
    for row in rows {
        let subject = match (row.user_id, row.group_id) {
            (Some(user), None) => BindingSubject::User(UserId::from_uuid(user)),
            (None, Some(group)) => BindingSubject::Group(GroupId::from_uuid(group)),
            (Some(_), Some(_)) | (None, None) => return Err(corrupt("whom a persona is for")),
        };
        subjects.entry(row.persona_id).or_default().push(subject);
    }
    for persona in found {
        persona.subjects = subjects.remove(&persona.id.uuid()).unwrap_or_default();
    }
    Ok(())
}

async fn insert_subjects_in_tx(
    write: &transaction::Write<'_>,
    id: PersonaId,
    subjects: &[BindingSubject],
) -> Result<()> {
    let mut seen = HashSet::new();
    let rows: Vec<subject::ActiveModel> = subjects
        .iter()
        .filter(|subject| seen.insert(**subject))
        .map(|subject| {
            let (user, group) = match subject {
                BindingSubject::User(user) => (Some(user.uuid()), None),
                BindingSubject::Group(group) => (None, Some(group.uuid())),
            };
            subject::ActiveModel {
                id: set(Uuid::now_v7()),
                persona_id: set(id.uuid()),
                user_id: set(user),
                group_id: set(group),
            }
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    subject::Entity::insert_many(rows).exec_without_returning(&write.tx).await.map(drop).map_err(|cause| {
        if is_foreign_key(&cause) {
            Error::invalid("attributes.bindings", "names a user or group that does not exist")
        } else {
            db("writing whom a persona is for")(cause)
        }
    })
}

#[async_trait]
impl Table for Persona {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a persona";

    fn find(rows: Select<row::Entity>, by: &PersonaSelector) -> Select<row::Entity> {
        match by {
            PersonaSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            PersonaSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Name], q.as_deref())
    }

    fn guard(&self) -> Guard {
        Guard::Scope(Scope::AdminOnly)
    }

    async fn complete(database: &Database, found: &mut [&mut Self]) -> Result<()> {
        with_subjects(&database.reader, found).await
    }
}

#[async_trait]
impl PersonaStore for Database {
    async fn persona_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: PersonaId,
        new: &NewPersona,
    ) -> Result<Persona> {
        let NewPersona { name, description, role, configuration, subjects } = new;
        let at = by.entry().at;
        let write = self.write().await?;
        if row::Entity::find().count(&write.tx).await.map_err(db("counting personas"))? >= MOST {
            let told = format!("there are {MOST} personas, which is the limit: delete one first");
            return Err(Error::conflict(told));
        }
        let row = row::ActiveModel {
            id: set(id.uuid()),
            name: set(name.to_string()),
            description: set(description.clone()),
            role: set(role.map(|role| role.as_str().to_owned())),
            configuration: set(to_json(configuration, "what a persona is shown")?),
            created_at: set(at),
            updated_at: set(at),
        };
        let row = row.insert(&write.tx).await.map_err(unique("making a persona", UNIQUE))?;
        insert_subjects_in_tx(&write, id, subjects).await?;
        let mut made = Persona::try_from(row)?;
        with_subjects(&write.tx, &mut [&mut made]).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(made)
    }

    async fn persona_update(
        &self,
        by: Audited<'_, Persona, Write>,
        change: &PersonaChange,
    ) -> Result<Persona> {
        let PersonaChange { name, description, role, configuration, subjects } = change;
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
        if let Some(role) = role {
            row.role = set(Some(role.as_str().to_owned()));
        }
        if let Some(configuration) = configuration {
            row.configuration = set(to_json(configuration, "what a persona is shown")?);
        }
        // Of two who change whom it is for, the second waits here.
        let gone = gone_or("persona", unique("changing a persona", UNIQUE));
        let row = row.update(&write.tx).await.map_err(gone)?;
        if let Some(subjects) = subjects {
            subject::Entity::delete_many()
                .filter(subject::Column::PersonaId.eq(id.uuid()))
                .exec(&write.tx)
                .await
                .map_err(db("replacing whom a persona is for"))?;
            insert_subjects_in_tx(&write, id, subjects).await?;
        }
        let mut changed = Persona::try_from(row)?;
        with_subjects(&write.tx, &mut [&mut changed]).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(changed)
    }

    async fn persona_delete(&self, by: Audited<'_, Persona, Write>) -> Result<()> {
        let write = self.write().await?;
        let gone = row::Entity::delete_by_id(by.target().id.uuid()).exec(&write.tx).await;
        if gone.map_err(db("deleting a persona"))?.rows_affected == 0 {
            return Err(Error::not_found("persona"));
        }
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn personas_of(&self, user: UserId) -> Result<Vec<Persona>> {
        let mut member = Query::select();
        member
            .column(group::member::Column::GroupId)
            .from(group::member::Entity)
            .and_where(Expr::col(group::member::Column::UserId).eq(user.uuid()));
        let mut global = Query::select();
        global
            .column(group::row::Column::Id)
            .from(group::row::Entity)
            .and_where(Expr::col(group::row::Column::Global).eq(true));
        let mut own = Query::select();
        own.column(subject::Column::PersonaId).from(subject::Entity).cond_where(
            Condition::any()
                .add(Expr::col(subject::Column::UserId).eq(user.uuid()))
                .add(subject::Column::GroupId.in_subquery(member))
                .add(subject::Column::GroupId.in_subquery(global)),
        );
        let rows = row::Entity::find()
            .filter(row::Column::Id.in_subquery(own))
            .order_by_asc(row::Column::Name)
            .all(&self.reader)
            .await
            .map_err(db("reading personas"))?;
        let mut found: Vec<Persona> = rows.into_iter().map(TryInto::try_into).collect::<Result<_>>()?;
        with_subjects(&self.reader, &mut found.iter_mut().collect::<Vec<_>>()).await?;
        Ok(found)
    }
}
