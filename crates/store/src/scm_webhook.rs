//! Webhooks of git hosts.

use async_trait::async_trait;
use plural_app::access::{Audited, Write};
use plural_app::records::Search;
use plural_app::scm_webhook::{ScmWebhookRow, ScmWebhookSelector, ScmWebhookStore};
use plural_app::seal::Sealed;
use plural_core::access::Visibility;
use plural_core::ids::{PolicyId, ProjectId, RepositoryId, ScmConnectionId, ScmWebhookId};
use plural_core::policy::PolicyNoun;
use plural_core::repository::RepositoryUrl;
use plural_core::scm_connection::{ScmConnection, ScmType};
use plural_core::scm_webhook::ScmWebhook;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait as _, Func, LockType};
use sea_orm::{ActiveModelTrait, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select};
use uuid::Uuid;

use crate::convert::word;
use crate::database::Database;
use crate::error::{db, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::set;
use crate::{policy, pull_request, repository, scm_connection};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "scm_webhooks")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub connection_id: Uuid,
        pub project_id: Option<Uuid>,
        pub external: String,
        pub kind: String,
        pub owner: String,
        pub hmac: Vec<u8>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] = &[(
    "scm_webhooks_connection_id_owner_key",
    "the connection has a webhook for this owner already; delete that one first",
)];

impl TryFrom<row::Model> for ScmWebhook {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            connection_id,
            project_id,
            external,
            kind,
            owner,
            hmac: _,
            created_at,
            updated_at,
        } = row;
        Ok(Self {
            id: ScmWebhookId::from_uuid(id),
            connection_id: ScmConnectionId::from_uuid(connection_id),
            project_id: project_id.map(ProjectId::from_uuid),
            external_id: external,
            kind: word(ScmType::parse(&kind), "a webhook's type")?,
            owner,
            created_at,
            updated_at,
        })
    }
}

impl Table for ScmWebhook {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a webhook of a git host";

    fn find(rows: Select<row::Entity>, by: &ScmWebhookSelector) -> Select<row::Entity> {
        match by {
            ScmWebhookSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            ScmWebhookSelector::ExternalId(text) => rows.filter(row::Column::External.eq(text.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Owner], q.as_deref())
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project)
    }

    /// As its connection: without a project, others than administrators may not even know of it.
    fn guard(&self) -> Guard {
        Guard::Policies(self.project_id.map(PolicyId::from).into_iter().collect())
    }
}

#[async_trait]
impl ScmWebhookStore for Database {
    async fn scm_webhook_create(
        &self,
        by: Audited<'_, ScmConnection, Write>,
        webhook: &ScmWebhook,
        hmac: &Sealed,
    ) -> Result<()> {
        let ScmWebhook { id, connection_id, project_id, external_id, kind, owner, created_at, updated_at } =
            webhook;
        let write = self.write().await?;
        // It must not go while a webhook of it is made.
        let known = scm_connection::row::Entity::find_by_id(connection_id.uuid());
        let known = known.lock(LockType::KeyShare).one(&write.tx).await;
        known.map_err(db("reading a connection"))?.ok_or(Error::not_found("scm connection"))?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            connection_id: set(connection_id.uuid()),
            project_id: set(project_id.map(ProjectId::uuid)),
            external: set(external_id.clone()),
            kind: set(kind.as_str().to_owned()),
            owner: set(owner.clone()),
            hmac: set(hmac.as_bytes().to_vec()),
            created_at: set(*created_at),
            updated_at: set(*updated_at),
        };
        row.insert(&write.tx).await.map_err(unique("making a webhook", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn scm_webhook_acted(&self, by: Audited<'_, ScmConnection, Write>) -> Result<()> {
        let write = self.write().await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn scm_webhook_of(
        &self,
        connection: ScmConnectionId,
        owner: &str,
    ) -> Result<Option<ScmWebhookRow>> {
        let lower = Expr::expr(Func::lower(Expr::col(row::Column::Owner)));
        let found: Option<Uuid> = row::Entity::find()
            .select_only()
            .column(row::Column::Id)
            .filter(row::Column::ConnectionId.eq(connection.uuid()))
            .filter(lower.eq(owner.to_ascii_lowercase()))
            .order_by_asc(row::Column::Id)
            .into_tuple()
            .one(&self.reader)
            .await
            .map_err(db("looking for a webhook of a connection"))?;
        let Some(id) = found else { return Ok(None) };
        self.scm_webhook_row(&ScmWebhookSelector::Id(ScmWebhookId::from_uuid(id))).await
    }

    async fn scm_webhook_delete(&self, by: Audited<'_, ScmWebhook, Write>) -> Result<()> {
        let write = self.write().await?;
        row::Entity::delete_by_id(by.target().id.uuid())
            .exec(&write.tx)
            .await
            .map_err(db("deleting a webhook"))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn scm_webhook_row(&self, by: &ScmWebhookSelector) -> Result<Option<ScmWebhookRow>> {
        let doing = "reading a webhook of a git host";
        let found = ScmWebhook::find(row::Entity::find(), by).one(&self.reader).await.map_err(db(doing))?;
        let Some(mut found) = found else { return Ok(None) };
        let connection = scm_connection::row::Entity::find_by_id(found.connection_id);
        let Some(connection) = connection.one(&self.reader).await.map_err(db(doing))? else {
            return Ok(None);
        };
        let hmac = Sealed::from_bytes(std::mem::take(&mut found.hmac));
        Ok(Some(ScmWebhookRow { webhook: found.try_into()?, connection: connection.try_into()?, hmac }))
    }

    async fn scm_webhook_repositories(
        &self,
        project: Option<ProjectId>,
    ) -> Result<Vec<(RepositoryId, RepositoryUrl)>> {
        use repository::row::{Column, Entity};
        let mut rows = Entity::find().select_only().columns([Column::Id, Column::Url]);
        if let Some(project) = project {
            rows = rows.filter(Column::ProjectId.eq(project.uuid()));
        }
        let rows: Vec<(Uuid, String)> =
            rows.into_tuple().all(&self.reader).await.map_err(db("listing repositories"))?;
        Ok(rows
            .into_iter()
            .map(|(id, url)| (RepositoryId::from_uuid(id), RepositoryUrl::stored(&url)))
            .collect())
    }

    async fn scm_webhook_has_pull_requests(&self, connection: ScmConnectionId, slug: &str) -> Result<bool> {
        use pull_request::row::{Column, Entity};
        let repository = Expr::expr(Func::lower(Expr::col(Column::Repository)));
        let found: Option<Uuid> = Entity::find()
            .select_only()
            .column(Column::Id)
            .filter(Column::ConnectionId.eq(connection.uuid()))
            .filter(repository.eq(slug.to_ascii_lowercase()))
            .into_tuple()
            .one(&self.reader)
            .await
            .map_err(db("looking for pull requests of a repository"))?;
        Ok(found.is_some())
    }
}
