//! Deploy tokens: joins, and the next one of each cluster. The token in use stays in the cluster's own row.

use std::collections::HashMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Audited};
use plural_app::deploy_token::{DeployTokenStore, Joined, NextToken};
use plural_app::ports::agents::{ClusterCredential, FeedSubject};
use plural_app::secret::TokenHash;
use plural_core::cluster::Cluster;
use plural_core::ids::ClusterId;
use plural_core::{Error, Result};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QuerySelect,
};
use uuid::Uuid;

use crate::cluster;
use crate::convert::{bytes32, parse};
use crate::database::Database;
use crate::error::{db, unique};
use crate::transaction::{Write, set};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "deploy_tokens")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: Uuid,
        /// Accepted beside the cluster's token, until it is used.
        pub next_hash: Option<Vec<u8>>,
        /// Since when the cluster has its token; absent: since it was made.
        pub rotated_at: Option<DateTimeUtc>,
        /// Somebody asked for another token.
        pub asked: bool,
        pub join_hash: Option<Vec<u8>>,
        pub join_expires_at: Option<DateTimeUtc>,
        /// Of the deploy token that the join token was used for.
        pub joined_hash: Option<Vec<u8>>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const TAKEN: &str = "this token is another cluster's: draw another one";
const UNIQUE: &[(&str, &str)] = &[("deploy_tokens_next_hash_key", TAKEN), ("clusters_token_hash_key", TAKEN)];

type Known = (Uuid, String, Vec<u8>, DateTime<Utc>);

/// How the agents of these clusters are recognised; of all without ids.
pub(crate) async fn credentials_on(
    connection: &impl ConnectionTrait,
    ids: Option<&[ClusterId]>,
) -> Result<Vec<ClusterCredential>> {
    use cluster::row::{Column, Entity};
    let doing = "reading clusters' tokens";
    let mut clusters = Entity::find().select_only().columns([
        Column::Id,
        Column::Handle,
        Column::TokenHash,
        Column::CreatedAt,
    ]);
    let mut tokens = row::Entity::find();
    if let Some(ids) = ids {
        let ids: Vec<Uuid> = ids.iter().map(|id| id.uuid()).collect();
        clusters = clusters.filter(Column::Id.is_in(ids.clone()));
        tokens = tokens.filter(row::Column::ClusterId.is_in(ids));
    }
    // Clusters last: a cluster that goes in between takes its row along, never the other way round.
    let tokens: Vec<row::Model> = tokens.all(connection).await.map_err(db(doing))?;
    let clusters: Vec<Known> = clusters.into_tuple().all(connection).await.map_err(db(doing))?;
    let mut tokens: HashMap<Uuid, row::Model> = tokens.into_iter().map(|row| (row.cluster_id, row)).collect();
    clusters.into_iter().map(|known| credential(&known, tokens.remove(&known.0))).collect()
}

fn credential(
    (id, handle, hash, created_at): &Known,
    token: Option<row::Model>,
) -> Result<ClusterCredential> {
    let mut credential = ClusterCredential {
        id: ClusterId::from_uuid(*id),
        handle: parse(handle, "a cluster's handle")?,
        token_hash: hash_of(hash)?,
        next_hash: None,
        join_hash: None,
        rotated_at: *created_at,
        asked: false,
    };
    if let Some(row) = token {
        let row::Model { cluster_id: _, next_hash, rotated_at, asked, join_hash, .. } = row;
        credential.next_hash = next_hash.as_deref().map(hash_of).transpose()?;
        credential.join_hash = join_hash.as_deref().map(hash_of).transpose()?;
        credential.rotated_at = rotated_at.unwrap_or(*created_at);
        credential.asked = asked;
    }
    Ok(credential)
}

fn hash_of(bytes: &[u8]) -> Result<TokenHash> {
    Ok(TokenHash::from_bytes(bytes32(bytes, "a token's hash")?))
}

/// What is known of a cluster's token, to be changed; the cluster's row is locked.
async fn row_in_tx(write: &Write<'_>, id: ClusterId) -> Result<row::ActiveModel> {
    let known =
        row::Entity::find_by_id(id.uuid()).one(&write.tx).await.map_err(db("reading a deploy token"))?;
    if let Some(known) = known {
        return Ok(known.into_active_model());
    }
    let fresh = row::Model {
        cluster_id: id.uuid(),
        next_hash: None,
        rotated_at: None,
        asked: false,
        join_hash: None,
        join_expires_at: None,
        joined_hash: None,
    };
    let row = fresh.into_active_model().reset_all();
    Ok(row.insert(&write.tx).await.map_err(db("writing a deploy token"))?.into_active_model())
}

/// Whether a token is to be replaced: somebody asked, or it has been the cluster's since `before` or longer.
fn is_due(row: &row::ActiveModel, created_at: DateTime<Utc>, before: Option<DateTime<Utc>>) -> bool {
    let rotated_at = row.rotated_at.try_as_ref().copied().flatten().unwrap_or(created_at);
    row.asked == ActiveValue::Unchanged(true) || before.is_some_and(|before| rotated_at <= before)
}

/// Makes `hash` the cluster's one token: what was accepted beside it ends, and its age begins anew.
pub(crate) async fn replace_in_tx(
    write: &Write<'_>,
    id: ClusterId,
    hash: &TokenHash,
    at: DateTime<Utc>,
) -> Result<cluster::row::Model> {
    let mut row = row_in_tx(write, id).await?;
    row.next_hash = set(None);
    row.rotated_at = set(Some(at));
    row.asked = set(false);
    row.update(&write.tx).await.map_err(db("writing a deploy token"))?;
    let cluster = cluster::row::ActiveModel {
        id: ActiveValue::Unchanged(id.uuid()),
        token_hash: set(hash.as_bytes().to_vec()),
        updated_at: set(at),
        ..Default::default()
    };
    cluster.update(&write.tx).await.map_err(unique("replacing a deploy token", UNIQUE))
}

/// A join token, in place of the one before. The cluster's row is locked.
pub(crate) async fn join_in_tx(
    write: &Write<'_>,
    id: ClusterId,
    hash: &TokenHash,
    expires_at: DateTime<Utc>,
) -> Result<()> {
    let mut row = row_in_tx(write, id).await?;
    row.join_hash = set(Some(hash.as_bytes().to_vec()));
    row.join_expires_at = set(Some(expires_at));
    row.joined_hash = set(None);
    row.update(&write.tx).await.map(drop).map_err(db("making a join token"))
}

/// Whether an agent ever joined the cluster.
pub(crate) async fn is_joined_in_tx(write: &Write<'_>, id: Uuid) -> Result<bool> {
    let known = row::Entity::find_by_id(id).one(&write.tx).await.map_err(db("reading a join token"))?;
    Ok(known.is_some_and(|row| row.joined_hash.is_some()))
}

/// Takes a join token back, used or not.
pub(crate) async fn join_forget_in_tx(write: &Write<'_>, id: ClusterId) -> Result<()> {
    let mut row = row_in_tx(write, id).await?;
    row.join_hash = set(None);
    row.join_expires_at = set(None);
    row.joined_hash = set(None);
    row.update(&write.tx).await.map(drop).map_err(db("writing a deploy token"))
}

/// Refuses a hash that another cluster's next token has.
async fn is_nobodys_next_in_tx(write: &Write<'_>, id: ClusterId, hash: &[u8]) -> Result<()> {
    let taken = row::Entity::find()
        .filter(row::Column::NextHash.eq(hash.to_vec()))
        .filter(row::Column::ClusterId.ne(id.uuid()))
        .count(&write.tx)
        .await
        .map_err(db("looking for a deploy token"))?;
    if taken > 0 { Err(Error::conflict(TAKEN)) } else { Ok(()) }
}

#[async_trait]
impl DeployTokenStore for Database {
    async fn join_token_create(
        &self,
        by: Audited<'_, Cluster, Admin>,
        hash: &TokenHash,
        expires_at: DateTime<Utc>,
    ) -> Result<Cluster> {
        let (id, at) = (by.target().id, by.entry().at);
        let mut write = self.write().await?;
        let cluster = cluster::lock_in_tx(&write, id).await?;
        join_in_tx(&write, id, hash, expires_at).await?;
        write.audit(by.entry()).await?;
        write.publish(FeedSubject::Cluster { cluster_id: id }, at).await?;
        write.commit().await?;
        cluster.try_into()
    }

    async fn agent_join(
        &self,
        by: Audited<'_, Cluster, Admin>,
        join: &TokenHash,
        token: &TokenHash,
    ) -> Result<Joined> {
        let (id, at) = (by.target().id, by.entry().at);
        let token_bytes = token.as_bytes().to_vec();
        let mut write = self.write().await?;
        let cluster = cluster::lock_in_tx(&write, id).await?;
        let known = row::Entity::find_by_id(id.uuid()).one(&write.tx).await;
        let known = known.map_err(db("reading a join token"))?;
        let Some(known) = known.filter(|row| row.join_hash.as_deref() == Some(join.as_bytes().as_slice()))
        else {
            return Ok(Joined::Unknown);
        };
        match &known.joined_hash {
            Some(used) if *used == token_bytes && cluster.token_hash == token_bytes => {
                return Ok(Joined::Already);
            }
            Some(_) => return Ok(Joined::Used),
            None if known.join_expires_at.is_none_or(|end| end <= at) => return Ok(Joined::Expired),
            None => {}
        }
        is_nobodys_next_in_tx(&write, id, &token_bytes).await?;
        let mut row = known.into_active_model();
        row.joined_hash = set(Some(token_bytes));
        row.update(&write.tx).await.map_err(db("using a join token"))?;
        replace_in_tx(&write, id, token, at).await?;
        write.audit(by.entry()).await?;
        write.publish(FeedSubject::Cluster { cluster_id: id }, at).await?;
        write.commit().await?;
        Ok(Joined::Done)
    }

    async fn deploy_token_ask(&self, by: Audited<'_, Cluster, Admin>) -> Result<Cluster> {
        let (id, at) = (by.target().id, by.entry().at);
        let mut write = self.write().await?;
        let cluster = cluster::lock_in_tx(&write, id).await?;
        let mut row = row_in_tx(&write, id).await?;
        row.asked = set(true);
        row.update(&write.tx).await.map_err(db("asking for a deploy token"))?;
        write.audit(by.entry()).await?;
        write.publish(FeedSubject::Cluster { cluster_id: id }, at).await?;
        write.commit().await?;
        cluster.try_into()
    }

    async fn deploy_token_next(
        &self,
        by: Audited<'_, Cluster, Admin>,
        current: &TokenHash,
        next: &TokenHash,
        before: Option<DateTime<Utc>>,
    ) -> Result<NextToken> {
        let (id, at) = (by.target().id, by.entry().at);
        let next = next.as_bytes().to_vec();
        let mut write = self.write().await?;
        let cluster = cluster::lock_in_tx(&write, id).await?;
        if cluster.token_hash != current.as_bytes() {
            return Err(Error::Unauthenticated);
        }
        let mut row = row_in_tx(&write, id).await?;
        if row.next_hash == ActiveValue::Unchanged(Some(next.clone())) {
            return Ok(NextToken::Accepted);
        }
        // The replica that asks may not have heard that the token was replaced since.
        if !is_due(&row, cluster.created_at, before) {
            return Ok(NextToken::NotDue);
        }
        is_nobodys_next_in_tx(&write, id, &next).await?;
        let taken = cluster::row::Entity::find()
            .filter(cluster::row::Column::TokenHash.eq(next.clone()))
            .count(&write.tx)
            .await
            .map_err(db("looking for a deploy token"))?;
        if taken > 0 {
            return Err(Error::conflict(TAKEN));
        }
        row.next_hash = set(Some(next));
        row.update(&write.tx).await.map_err(unique("keeping the next deploy token", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.publish(FeedSubject::Cluster { cluster_id: id }, at).await?;
        write.commit().await?;
        Ok(NextToken::Accepted)
    }

    async fn deploy_token_promote(&self, by: Audited<'_, Cluster, Admin>, next: &TokenHash) -> Result<()> {
        let (id, at) = (by.target().id, by.entry().at);
        let mut write = self.write().await?;
        let cluster = cluster::lock_in_tx(&write, id).await?;
        if cluster.token_hash == next.as_bytes() {
            return Ok(());
        }
        let row = row_in_tx(&write, id).await?;
        if row.next_hash != ActiveValue::Unchanged(Some(next.as_bytes().to_vec())) {
            return Err(Error::Unauthenticated);
        }
        replace_in_tx(&write, id, next, at).await?;
        write.audit(by.entry()).await?;
        write.publish(FeedSubject::Cluster { cluster_id: id }, at).await?;
        write.commit().await
    }
}
