//! Connections to git hosts.

use async_trait::async_trait;
use plural_app::access::{Audited, Authorized, Home, Write};
use plural_app::records::Search;
use plural_app::scm_connection::{ScmConnectionSelector, ScmConnectionStore, ScmConnectionUpdate};
use plural_app::seal::Sealed;
use plural_core::access::Visibility;
use plural_core::ids::{PolicyId, ProjectId, ScmConnectionId};
use plural_core::policy::PolicyNoun;
use plural_core::scm_connection::{ScmConnection, ScmHeld, ScmSpec, ScmType};
use plural_core::specs::Change;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, LockType};
use sea_orm::{ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QuerySelect, Select};

use crate::convert::{json, parse, to_json, word};
use crate::database::Database;
use crate::error::{db, is_foreign_key, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::set;
use crate::{policy, project, transaction};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "scm_connections")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Option<Uuid>,
        pub name: String,
        pub kind: String,
        pub is_default: bool,
        pub spec: Json,
        pub held: Json,
        pub secrets: Option<Vec<u8>>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] = &[
    ("scm_connections_name_key", "a connection with this name already exists; choose another"),
    ("scm_connections_project_id_key", DEFAULTS),
    ("scm_connections_is_default_key", DEFAULTS),
];
const DEFAULTS: &str = "another connection was made the default at the same time: try again";

impl TryFrom<row::Model> for ScmConnection {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            project_id,
            name,
            kind,
            is_default,
            spec,
            held,
            secrets: _,
            created_at,
            updated_at,
        } = row;
        let spec: ScmSpec = json(spec, "how a git host is reached")?;
        let held: ScmHeld = json(held, "which secrets a connection has")?;
        Ok(Self {
            id: ScmConnectionId::from_uuid(id),
            project_id: project_id.map(ProjectId::from_uuid),
            name: parse(&name, "a connection's name")?,
            kind: word(ScmType::parse(&kind), "a connection's type")?,
            is_default,
            spec,
            held,
            created_at,
            updated_at,
        })
    }
}

impl Table for ScmConnection {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a connection to a git host";

    fn find(rows: Select<row::Entity>, by: &ScmConnectionSelector) -> Select<row::Entity> {
        match by {
            ScmConnectionSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            ScmConnectionSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Name], q.as_deref())
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project)
    }

    /// Without a project, others than administrators may not even know of it.
    fn guard(&self) -> Guard {
        Guard::Policies(self.project_id.map(PolicyId::from).into_iter().collect())
    }
}

/// The default one of a project, or of the installation, is it no longer: another one becomes it in this write.
async fn forget_default_in_tx(
    write: &transaction::Write<'_>,
    project: Option<ProjectId>,
    besides: ScmConnectionId,
) -> Result<()> {
    let of = match project {
        Some(id) => row::Column::ProjectId.eq(id.uuid()),
        None => row::Column::ProjectId.is_null(),
    };
    row::Entity::update_many()
        .col_expr(row::Column::IsDefault, Expr::value(false))
        .filter(of)
        .filter(row::Column::IsDefault.eq(true))
        .filter(row::Column::Id.ne(besides.uuid()))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db("changing the default connection"))
}

#[async_trait]
impl ScmConnectionStore for Database {
    async fn scm_connection_create(
        &self,
        by: Audited<'_, Home, Write>,
        connection: &ScmConnection,
        secrets: Option<&Sealed>,
    ) -> Result<()> {
        let ScmConnection { id, project_id, name, kind, is_default, spec, held, created_at, updated_at } =
            connection;
        let write = self.write().await?;
        if let Some(project_id) = project_id {
            // It must not go while something is made in it.
            let known = project::row::Entity::find_by_id(project_id.uuid());
            let known = known.lock(LockType::KeyShare).one(&write.tx).await;
            known.map_err(db("reading a project"))?.ok_or(Error::not_found("project"))?;
        }
        if *is_default {
            forget_default_in_tx(&write, *project_id, *id).await?;
        }
        let row = row::ActiveModel {
            id: set(id.uuid()),
            project_id: set(project_id.map(ProjectId::uuid)),
            name: set(name.to_string()),
            kind: set(kind.as_str().to_owned()),
            is_default: set(*is_default),
            spec: set(to_json(spec, "how a git host is reached")?),
            held: set(to_json(held, "which secrets a connection has")?),
            secrets: set(secrets.map(|sealed| sealed.as_bytes().to_vec())),
            created_at: set(*created_at),
            updated_at: set(*updated_at),
        };
        row.insert(&write.tx).await.map_err(unique("making a connection", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn scm_connection_update(
        &self,
        by: Audited<'_, ScmConnection, Write>,
        update: &ScmConnectionUpdate,
    ) -> Result<()> {
        let ScmConnectionUpdate { after, secrets, before } = update;
        let ScmConnection {
            id,
            project_id,
            name,
            kind: _,
            is_default,
            spec,
            held,
            created_at: _,
            updated_at,
        } = after;
        let write = self.write().await?;
        let stored = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
        let stored = stored.map_err(db("reading a connection"))?.ok_or(Error::not_found("scm connection"))?;
        // Whether secrets may stay was decided from these: another address or other secrets by now could send the one to the other.
        let same_secrets = stored.secrets.as_deref() == before.as_ref().map(Sealed::as_bytes);
        let found = ScmConnection::try_from(stored)?;
        if !same_secrets || found.spec != by.target().spec {
            return Err(Error::conflict(
                "the connection was changed at the same time: look at it and try again",
            ));
        }
        if *is_default {
            forget_default_in_tx(&write, *project_id, *id).await?;
        }
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(id.uuid()),
            name: set(name.to_string()),
            is_default: set(*is_default),
            spec: set(to_json(spec, "how a git host is reached")?),
            held: set(to_json(held, "which secrets a connection has")?),
            secrets: match secrets {
                Change::Keep => ActiveValue::NotSet,
                Change::Clear => set(None),
                Change::Set(sealed) => set(Some(sealed.as_bytes().to_vec())),
            },
            updated_at: set(*updated_at),
            ..Default::default()
        };
        row.update(&write.tx).await.map_err(unique("changing a connection", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn scm_connection_delete(&self, by: Audited<'_, ScmConnection, Write>) -> Result<()> {
        let write = self.write().await?;
        row::Entity::delete_by_id(by.target().id.uuid())
            .exec(&write.tx)
            .await
            .map_err(|cause| {
                if is_foreign_key(&cause) {
                    // Whoever asks may not know of them, so none is named.
                    Error::conflict("automations open pull requests with the connection, governances approve with it, or stacks plan pull requests through it: delete them, or give them another one, first")
                } else {
                    db("deleting a connection")(cause)
                }
            })?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn scm_connection_sealed(
        &self,
        connection: &Authorized<ScmConnection, Write>,
    ) -> Result<Option<Sealed>> {
        let row = row::Entity::find_by_id(connection.id.uuid()).one(&self.reader).await;
        let row = row.map_err(db("reading a connection"))?.ok_or(Error::not_found("scm connection"))?;
        Ok(row.secrets.map(Sealed::from_bytes))
    }
}
