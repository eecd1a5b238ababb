//! How many of something there may be: counted in the transaction that makes one more.

use chrono::{DateTime, Utc};
use plural_core::{Error, Result};
use sea_orm::sea_query::Query;
use sea_orm::{ColumnTrait, Condition, EntityTrait, PaginatorTrait, QueryFilter, QuerySelect};
use uuid::Uuid;

use crate::error::db;
use crate::transaction::Write;
use crate::{cluster, project, repository, service, token, user};

/// Limits of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Git repositories of one project.
    pub repositories: u64,
    /// Services on the clusters of one project that people make; copies of global services count, and are made all the same.
    pub services: u64,
    /// Access tokens of one user, without the sessions of sign-ins.
    pub tokens: u64,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { repositories: 1_000, services: 10_000, tokens: 100 }
    }
}

impl Write<'_> {
    /// Room for one more git repository in a project.
    pub(crate) async fn check_repositories(&self, project: Uuid) -> Result<()> {
        self.lock_project(project).await?;
        let limit = self.quotas().repositories;
        let there = repository::row::Entity::find()
            .filter(repository::row::Column::ProjectId.eq(project))
            .count(&self.tx)
            .await
            .map_err(db("counting repositories"))?;
        check(there, limit, "the project", "git repositories", "--max-repositories")
    }

    /// Room for one more service on the clusters of the project that a cluster is in.
    pub(crate) async fn check_services(&self, of: Uuid) -> Result<()> {
        let home =
            cluster::row::Entity::find_by_id(of).one(&self.tx).await.map_err(db("reading a cluster"))?;
        let project = home.ok_or(Error::not_found("cluster"))?.project_id;
        self.lock_project(project).await?;
        let mut clusters = Query::select();
        clusters
            .column(cluster::row::Column::Id)
            .from(cluster::row::Entity)
            .and_where(cluster::row::Column::ProjectId.eq(project));
        let limit = self.quotas().services;
        let there = service::row::Entity::find()
            .filter(service::row::Column::ClusterId.in_subquery(clusters))
            .count(&self.tx)
            .await
            .map_err(db("counting services"))?;
        check(there, limit, "the project", "services", "--max-services")
    }

    /// Room for one more access token of a user.
    pub(crate) async fn check_tokens(&self, of: Uuid, now: DateTime<Utc>) -> Result<()> {
        let found = user::row::Entity::find_by_id(of).lock_exclusive().one(&self.tx).await;
        found.map_err(db("reading a user"))?;
        let limit = self.quotas().tokens;
        let expires = token::row::Column::ExpiresAt;
        let valid = Condition::any().add(expires.is_null()).add(expires.gte(now));
        let there = token::row::Entity::find()
            .filter(token::row::Column::UserId.eq(of))
            .filter(token::row::Column::Session.eq(false))
            // Those are bounded by their credential.
            .filter(token::row::Column::FederatedCredentialId.is_null())
            .filter(valid)
            .count(&self.tx)
            .await
            .map_err(db("counting access tokens"))?;
        check(there, limit, "the user", "access tokens", "--max-tokens")
    }

    /// Two who make something in a project at once must both be counted.
    async fn lock_project(&self, project: Uuid) -> Result<()> {
        let found = project::row::Entity::find_by_id(project).lock_exclusive().one(&self.tx).await;
        found.map(drop).map_err(db("reading a project"))
    }
}

fn check(there: u64, limit: u64, whose: &str, what: &str, setting: &str) -> Result<()> {
    if there < limit {
        return Ok(());
    }
    Err(Error::conflict(format!(
        "{whose} has {there} {what}, and may have {limit} (quota, {setting} of the console): delete some, or \
         ask the console's operator for a higher quota"
    )))
}
