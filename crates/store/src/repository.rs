//! Git repositories.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Noun as _, Write};
use plural_app::job::NewJob;
use plural_app::jobs::{RenewServices, RenewedRepository};
use plural_app::ports::agents::FeedSubject;
use plural_app::records::Search;
use plural_app::repository::{
    CredentialsChange, RepositoryBefore, RepositoryCreate, RepositoryFetched, RepositorySecrets,
    RepositorySelector, RepositoryStore, RepositoryWork,
};
use plural_app::seal::Sealed;
use plural_core::access::Visibility;
use plural_core::ids::{ProjectId, RepositoryId, ServiceId};
use plural_core::policy::PolicyNoun;
use plural_core::project::Project;
use plural_core::repository::{
    AuthMethod, GitHealth, NewRepository, Repository, RepositoryChange, RepositoryUrl,
};
use plural_core::web_address::WebAddress;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, Expr, LockType, Query, SimpleExpr};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::word;
use crate::database::Database;
use crate::error::{db, is_foreign_key, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::service_life::{RENEWED, renew_some_in_tx};
use crate::transaction::set;
use crate::{
    agent_upgrade, cluster, dependency, policy, project, replica, service, service_repository, stack,
    transaction,
};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "git_repositories")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub url: String,
        pub project_id: Uuid,
        pub auth_method: Option<String>,
        pub credentials: Option<Vec<u8>>,
        pub health: Option<String>,
        pub error: Option<String>,
        pub pulled_at: Option<DateTimeUtc>,
        pub reach: Option<Vec<u8>>,
        pub signed: bool,
        pub https_path: Option<String>,
        pub url_format: Option<String>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("git_repositories_url_key", "a repository with this url already exists; use that one")];

impl TryFrom<row::Model> for Repository {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            url,
            project_id,
            auth_method,
            credentials: _,
            health,
            error,
            pulled_at,
            reach: _,
            signed,
            https_path,
            url_format,
            created_at,
            updated_at,
        } = row;
        Ok(Self {
            id: RepositoryId::from_uuid(id),
            url: RepositoryUrl::stored(&url),
            project_id: ProjectId::from_uuid(project_id),
            auth_method: match auth_method {
                None => None,
                Some(text) => Some(word(AuthMethod::parse(&text), "a repository's auth method")?),
            },
            signed,
            web: WebAddress { https_path, url_format },
            health: match health {
                None => None,
                Some(text) => Some(word(GitHealth::parse(&text), "a repository's health")?),
            },
            error,
            pulled_at,
            created_at,
            updated_at,
        })
    }
}

/// The services that are read from a repository: as their own, for their chart, or as a further source.
pub(crate) fn readers(id: RepositoryId) -> Condition {
    use service::row::Column;
    let mut named = Query::select();
    named.column(service_repository::row::Column::ServiceId).from(service_repository::row::Entity);
    named.and_where(service_repository::row::Column::RepositoryId.eq(id.uuid()));
    Condition::any().add(Column::RepositoryId.eq(id.uuid())).add(Column::Id.in_subquery(named))
}

/// The services on clusters whose project limits what services may do: their agents are sent the addresses of the repositories.
fn limited() -> SimpleExpr {
    let mut projects = Query::select();
    projects.column(project::row::Column::Id).from(project::row::Entity);
    projects.and_where(project::row::Column::Limits.is_not_null());
    let mut clusters = Query::select();
    clusters.column(cluster::row::Column::Id).from(cluster::row::Entity);
    clusters.and_where(cluster::row::Column::ProjectId.in_subquery(projects));
    service::row::Column::ClusterId.in_subquery(clusters)
}

/// Keeps these repositories from being changed or removed, as rows that name them do. Who changes or removes a repository locks it
/// before the services that are read from it, and so does who lets services name it.
pub(crate) async fn lock_named_in_tx(write: &transaction::Write<'_>, ids: BTreeSet<Uuid>) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let locked = row::Entity::find()
        .select_only()
        .column(row::Column::Id)
        .filter(row::Column::Id.is_in(ids))
        .order_by_asc(row::Column::Id)
        .lock(LockType::KeyShare)
        .into_tuple::<Uuid>()
        .all(&write.tx)
        .await;
    locked.map(drop).map_err(db("reading repositories"))
}

/// [`RepositoryStore::repository_services_renew`] in an open write.
async fn renew_readers_in_tx(
    write: &mut transaction::Write<'_>,
    id: RepositoryId,
    after: Option<ServiceId>,
    limit: u64,
    at: DateTime<Utc>,
) -> Result<Option<ServiceId>> {
    let which = Condition::all().add(readers(id)).add(limited());
    renew_some_in_tx(write, which, (after, limit), at).await
}

impl Table for Repository {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a repository";

    fn find(rows: Select<row::Entity>, by: &RepositorySelector) -> Select<row::Entity> {
        match by {
            RepositorySelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            RepositorySelector::Url(url) => {
                // The normal form, or what an earlier release stored.
                let normal = url.parse::<RepositoryUrl>().map_or_else(|_| url.clone(), |url| url.to_string());
                rows.filter(row::Column::Url.is_in([url.clone(), normal])).order_by_asc(row::Column::Id)
            }
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Url], q.as_deref())
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.project_id.into()])
    }
}

#[async_trait]
impl RepositoryStore for Database {
    async fn repository_feeds_agent_upgrade(&self, id: RepositoryId) -> Result<bool> {
        agent_upgrade::is_among_on(&self.reader, readers(id)).await
    }

    async fn repository_create(
        &self,
        by: Audited<'_, Project, Write>,
        repository: &RepositoryCreate,
    ) -> Result<Repository> {
        let RepositoryCreate { id, new, auth_method, credentials, reach } = repository;
        let NewRepository { url, project_id: _, web } = new;
        let WebAddress { https_path, url_format } = web.clone();
        let at = by.entry().at;
        let mut write = self.write().await?;
        write.check_repositories(by.target().id.uuid()).await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            url: set(url.to_string()),
            project_id: set(by.target().id.uuid()),
            auth_method: set(auth_method.map(|method| method.as_str().to_owned())),
            credentials: set(credentials.as_ref().map(|sealed| sealed.as_bytes().to_vec())),
            health: set(None),
            error: set(None),
            pulled_at: set(None),
            reach: set(reach.as_ref().map(|(sealed, _)| sealed.as_bytes().to_vec())),
            signed: set(reach.as_ref().is_some_and(|(_, signed)| *signed)),
            https_path: set(https_path),
            url_format: set(url_format),
            created_at: set(at),
            updated_at: set(at),
        };
        let row = row.insert(&write.tx).await.map_err(unique("making a repository", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.publish(FeedSubject::Repository { repository_id: *id }, at).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn repository_update(
        &self,
        by: Audited<'_, Repository, Write>,
        change: &RepositoryChange,
        secrets: RepositorySecrets,
        may_feed: bool,
    ) -> Result<Repository> {
        let RepositorySecrets { credentials, reach, before } = secrets;
        let RepositoryChange { url, web } = change;
        let (id, at) = (by.target().id, by.entry().at);
        let mut write = self.write().await?;
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(id.uuid()),
            updated_at: set(at),
            ..Default::default()
        };
        if let Some(url) = url {
            row.url = set(url.to_string());
        }
        let moves = url.as_ref().is_some_and(|url| *url != before.url);
        if moves {
            // The services that are read from it are renewed below.
            dependency::lock_in_tx(&write).await?;
        }
        // Whether credentials may stay was decided from these: another address or other credentials by now could send the one
        // to the other.
        let stored = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
        let stored = stored.map_err(db("reading a repository"))?.ok_or(Error::not_found("git repository"))?;
        agent_upgrade::check_fed_in_tx(&write.tx, readers(id), may_feed, Repository::NOUN).await?;
        let RepositoryBefore { url: url_before, credentials: credentials_before, reach: reach_before } =
            before;
        if stored.url != url_before.as_str()
            || stored.credentials != credentials_before.map(Sealed::into_bytes)
            || stored.reach != reach_before.map(Sealed::into_bytes)
        {
            return Err(Error::conflict(
                "how the repository is reached was changed at the same time: look at it and try again",
            ));
        }
        if moves || reach.is_some() || matches!(credentials, CredentialsChange::Set(..)) {
            // What is known of it is about how it was reached before.
            row.health = set(None);
            row.error = set(None);
        }
        let before = WebAddress { https_path: stored.https_path, url_format: stored.url_format };
        let WebAddress { https_path, url_format } = web.clone().over(before);
        row.https_path = set(https_path);
        row.url_format = set(url_format);
        match credentials {
            CredentialsChange::Keep => {}
            CredentialsChange::Set(method, sealed) => {
                row.auth_method = set(Some(method.as_str().to_owned()));
                row.credentials = set(Some(sealed.into_bytes()));
            }
            CredentialsChange::Drop(why) => {
                row.auth_method = set(None);
                row.credentials = set(None);
                row.health = set(Some(GitHealth::Failed.as_str().to_owned()));
                row.error = set(Some(why));
            }
        }
        if let Some((sealed, signed)) = reach {
            row.reach = set(Some(sealed.into_bytes()));
            row.signed = set(signed);
        }
        let row = row.update(&write.tx).await.map_err(unique("changing a repository", UNIQUE))?;
        let more = if moves { renew_readers_in_tx(&mut write, id, None, RENEWED, at).await? } else { None };
        write.audit(by.entry()).await?;
        write.publish(FeedSubject::Repository { repository_id: id }, at).await?;
        if let Some(after) = more {
            let others = RenewedRepository { repository_id: id, after };
            write.enqueue(&[NewJob::of::<RenewServices>(&others)?], at).await?;
        }
        write.commit().await?;
        row.try_into()
    }

    async fn repository_delete(
        &self,
        by: Audited<'_, Repository, Write>,
        may_feed: bool,
    ) -> Result<Repository> {
        let id = by.target().id;
        let mut write = self.write().await?;
        replica::forget_lease_on(&write.tx, &format!("repository:{id}")).await?;
        let stored = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
        stored.map_err(db("reading a repository"))?;
        agent_upgrade::check_fed_in_tx(&write.tx, readers(id), may_feed, Repository::NOUN).await?;
        let used =
            "the code of a stack is in the repository: give the stack another one, or delete it, first";
        stack::check_unused_on(&write.tx, stack::row::Column::RepositoryId, id.uuid(), used).await?;
        row::Entity::delete_by_id(id.uuid()).exec(&write.tx).await.map_err(|cause| {
            if is_foreign_key(&cause) {
                // Clients compare this text.
                Error::conflict("could not delete repository")
            } else {
                db("deleting a repository")(cause)
            }
        })?;
        write.audit(by.entry()).await?;
        write.publish(FeedSubject::Repository { repository_id: id }, by.entry().at).await?;
        write.commit().await?;
        Ok(by.target().clone())
    }

    async fn repository_kick(&self, by: Audited<'_, Repository, Write>) -> Result<()> {
        let mut write = self.write().await?;
        write.audit(by.entry()).await?;
        write.publish(FeedSubject::Repository { repository_id: by.target().id }, by.entry().at).await?;
        write.commit().await
    }

    async fn repository_ids(&self) -> Result<Vec<(RepositoryId, RepositoryUrl)>> {
        let rows: Vec<(Uuid, String)> = row::Entity::find()
            .select_only()
            .columns([row::Column::Id, row::Column::Url])
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("listing repositories"))?;
        rows.into_iter()
            .map(|(id, url)| Ok((RepositoryId::from_uuid(id), RepositoryUrl::stored(&url))))
            .collect()
    }

    async fn repository_work(&self, id: RepositoryId) -> Result<Option<RepositoryWork>> {
        let row = row::Entity::find_by_id(id.uuid()).one(&self.reader).await;
        let Some(mut row) = row.map_err(db("reading a repository"))? else { return Ok(None) };
        let credentials = row.credentials.take().map(Sealed::from_bytes);
        let reach = row.reach.take().map(Sealed::from_bytes);
        Ok(Some(RepositoryWork { repository: row.try_into()?, credentials, reach }))
    }

    async fn repository_fetched(&self, fetched: &RepositoryFetched) -> Result<()> {
        let RepositoryFetched { id, health, error, at } = fetched;
        let write = self.write().await?;
        let mut update = row::Entity::update_many()
            .col_expr(row::Column::Health, Expr::value(health.as_str()))
            .col_expr(row::Column::Error, Expr::value(error.clone()))
            .filter(row::Column::Id.eq(id.uuid()))
            // A fetch that began before a change of the repository says nothing of it as it is now.
            .filter(row::Column::UpdatedAt.lte(*at));
        if *health == GitHealth::Pullable {
            update = update.col_expr(row::Column::PulledAt, Expr::value(*at));
        }
        update.exec(&write.tx).await.map_err(db("recording a fetch"))?;
        write.commit().await
    }

    async fn repository_services_renew(
        &self,
        id: RepositoryId,
        after: Option<ServiceId>,
        limit: u64,
        at: DateTime<Utc>,
    ) -> Result<Option<ServiceId>> {
        let mut write = self.write().await?;
        dependency::lock_in_tx(&write).await?;
        let more = renew_readers_in_tx(&mut write, id, after, limit, at).await?;
        write.commit().await?;
        Ok(more)
    }

    async fn repository_moved(&self, id: RepositoryId) -> Result<()> {
        let mut write = self.write().await?;
        write.publish(FeedSubject::RepositoryMoved { repository_id: id }, Utc::now()).await?;
        write.commit().await
    }

    async fn repository_notify(&self, ids: &[RepositoryId]) -> Result<()> {
        let mut write = self.write().await?;
        let subjects: Vec<FeedSubject> =
            ids.iter().map(|id| FeedSubject::Repository { repository_id: *id }).collect();
        write.publish_many(&subjects, Utc::now()).await?;
        write.commit().await
    }
}
