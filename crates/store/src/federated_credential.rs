//! Federated credentials of service accounts.

use std::collections::HashSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Admin, Audited, Authorized, Read};
use plural_app::federated_credential::{ClaimedToken, FederatedCredentialStore};
use plural_app::user::Proof;
use plural_core::cluster_issuer::ClusterKey;
use plural_core::federated_credential::{FederatedCredential, FederationTerms, LONGEST, MOST, TokenIssuer};
use plural_core::ids::{ClusterId, FederatedCredentialId, MachineAccountId};
use plural_core::machine_account::MachineAccount;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Expr, ExprTrait, Func, Query};
use sea_orm::{
    ActiveModelTrait, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel as _, PaginatorTrait,
    QueryFilter, QueryOrder, QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::parse;
use crate::database::{Database, corrupt};
use crate::error::{db, gone_or};
use crate::transaction;
use crate::{cluster_issuer, token, user};

/// Tokens that are given for one credential within their hour.
const MOST_TOKENS: u64 = 1_000;

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    /// A credential.
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "federated_credentials")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        /// The service account.
        pub user_id: Uuid,
        pub issuer: String,
        pub audience: String,
        /// An object of patterns by claim.
        pub claims: String,
        pub scopes: String,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
        /// The cluster that signs the tokens, in place of an issuer.
        pub cluster_id: Option<Uuid>,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// What the release before this one reads as the issuer of a cluster's tokens: an address that nobody can have.
fn nobodys(cluster: Uuid) -> String {
    format!("https://{cluster}.clusters.invalid")
}

/// A credential, and what its cluster reports.
fn credential(row: row::Model, reported: Option<String>) -> Result<FederatedCredential> {
    let row::Model { id, user_id, issuer, audience, claims, scopes, created_at, updated_at, cluster_id } =
        row;
    let claims =
        serde_json::from_str(&claims).map_err(|_| corrupt("the claims of a federated credential"))?;
    let issuer = match cluster_id {
        Some(id) => TokenIssuer::Cluster { id: ClusterId::from_uuid(id), reported },
        None => TokenIssuer::Address(parse(&issuer, "an issuer")?),
    };
    Ok(FederatedCredential {
        id: FederatedCredentialId::from_uuid(id),
        account: MachineAccountId::from_uuid(user_id),
        issuer,
        terms: FederationTerms { audience, claims, scopes: parse(&scopes, "a token's scopes")? },
        created_at,
        updated_at,
    })
}

/// Credentials, with what their clusters report.
async fn credentials(
    connection: &impl ConnectionTrait,
    rows: Vec<row::Model>,
) -> Result<Vec<FederatedCredential>> {
    let clusters: Vec<Uuid> = rows.iter().filter_map(|row| row.cluster_id).collect();
    let reported = cluster_issuer::reported_on(connection, &clusters).await?;
    let told = |row: row::Model| {
        let reported = row.cluster_id.and_then(|cluster| reported.get(&cluster).cloned());
        credential(row, reported)
    };
    rows.into_iter().map(told).collect()
}

/// Ends the tokens that were given for tokens of a cluster. What names the cluster goes with it.
pub(crate) async fn end_of_cluster_in_tx(write: &transaction::Write<'_>, cluster: Uuid) -> Result<()> {
    let mut named = Query::select();
    named.column(row::Column::Id).from(row::Entity).and_where(Expr::col(row::Column::ClusterId).eq(cluster));
    token::row::Entity::delete_many()
        .filter(token::row::Column::FederatedCredentialId.in_subquery(named))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db("ending the tokens of a federated credential"))
}

/// Makes sure that a credential is as it was when a token was held against it, and that one more may be given for it: the oldest go.
pub(crate) async fn make_room_in_tx(
    write: &transaction::Write<'_>,
    (id, as_of): (FederatedCredentialId, DateTime<Utc>),
) -> Result<()> {
    let doing = "counting the tokens of a federated credential";
    let found = row::Entity::find_by_id(id.uuid()).lock_shared().one(&write.tx).await.map_err(db(doing))?;
    if found.is_none_or(|row| row.updated_at != as_of) {
        return Err(Error::Unauthenticated);
    }
    let surplus: Vec<Uuid> = token::row::Entity::find()
        .select_only()
        .column(token::row::Column::Id)
        .filter(token::row::Column::FederatedCredentialId.eq(id.uuid()))
        .order_by_desc(token::row::Column::Id)
        .offset(MOST_TOKENS - 1)
        .limit(MOST_TOKENS)
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db(doing))?;
    token::row::Entity::delete_many()
        .filter(token::row::Column::Id.is_in(surplus))
        .exec(&write.tx)
        .await
        .map(drop)
        .map_err(db(doing))
}

fn stored(credential: &FederatedCredential) -> Result<row::Model> {
    let FederatedCredential { id, account, issuer, terms, created_at, updated_at } = credential;
    let FederationTerms { audience, claims, scopes } = terms;
    let claims = serde_json::to_string(claims).map_err(|cause| Error::internal("writing claims", cause))?;
    Ok(row::Model {
        id: id.uuid(),
        user_id: account.uuid(),
        issuer: match issuer {
            TokenIssuer::Address(issuer) => issuer.to_string(),
            TokenIssuer::Cluster { id, reported: _ } => nobodys(id.uuid()),
        },
        audience: audience.clone(),
        claims,
        scopes: scopes.to_string(),
        created_at: *created_at,
        updated_at: *updated_at,
        cluster_id: match issuer {
            TokenIssuer::Address(_) => None,
            TokenIssuer::Cluster { id, reported: _ } => Some(id.uuid()),
        },
    })
}

impl Database {
    /// Of these credentials, those whose subject is this, and those whose pattern begins as this does: at most `limit` of each.
    async fn that_may_fit(
        &self,
        of: Select<row::Entity>,
        subject: &str,
        limit: u64,
    ) -> Result<Vec<FederatedCredential>> {
        let doing = "reading federated credentials";
        // The expressions are those of the indexes.
        let of_claims = |postgres: &'static str, sqlite: &'static str| {
            Expr::cust(if self.is_postgres() { postgres } else { sqlite })
        };
        let whole = of_claims("(claims::jsonb ->> 'sub')", "json_extract(claims, '$.sub')");
        let exact = of.clone().filter(whole.eq(subject)).order_by_asc(row::Column::Id).limit(limit);
        let mut rows = exact.all(&self.reader).await.map_err(db(doing))?;
        let prefix = of_claims(
            "split_part(claims::jsonb ->> 'sub', '*', 1)",
            "substr(json_extract(claims, '$.sub'), 1, instr(json_extract(claims, '$.sub'), '*') - 1)",
        );
        let is_pattern = of_claims(
            "position('*' in claims::jsonb ->> 'sub') > 0",
            "instr(json_extract(claims, '$.sub'), '*') > 0",
        );
        // No pattern is longer than that.
        let ends = (0..=std::cmp::min(subject.len(), LONGEST)).filter(|end| subject.is_char_boundary(*end));
        let beginnings = ends.filter_map(|end| subject.get(..end));
        let patterns = of
            .filter(is_pattern)
            .filter(prefix.clone().is_in(beginnings))
            // Many short beginnings do not crowd out the one that is meant.
            .order_by_desc(Expr::expr(Func::char_length(prefix)))
            .order_by_asc(row::Column::Id)
            .limit(limit)
            .all(&self.reader)
            .await
            .map_err(db(doing))?;
        let known: HashSet<Uuid> = rows.iter().map(|row| row.id).collect();
        rows.extend(patterns.into_iter().filter(|row| !known.contains(&row.id)));
        rows.into_iter().map(|row| credential(row, None)).collect()
    }
}

#[async_trait]
impl FederatedCredentialStore for Database {
    async fn federated_credential_create(
        &self,
        by: Audited<'_, MachineAccount, Admin>,
        credential: &FederatedCredential,
        proof: Option<&Proof>,
    ) -> Result<()> {
        let doing = "keeping a federated credential";
        let write = self.write().await?;
        // The account must not go meanwhile, and of two that make the last one, one waits.
        user::proven_in_tx(&write, Some(by.target().user_id()), proof, by.entry().at).await?;
        let there = row::Entity::find().filter(row::Column::UserId.eq(by.target().id.uuid()));
        if there.count(&write.tx).await.map_err(db(doing))? >= MOST {
            return Err(Error::conflict(format!(
                "a service account has at most {MOST} federated credentials"
            )));
        }
        stored(credential)?.into_active_model().insert(&write.tx).await.map_err(db(doing))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn federated_credential_update(
        &self,
        by: Audited<'_, MachineAccount, Admin>,
        credential: &FederatedCredential,
        proof: Option<&Proof>,
    ) -> Result<()> {
        let write = self.write().await?;
        // Whoever exchanges a token at this moment waits, or has done so by now.
        user::proven_in_tx(&write, Some(by.target().user_id()), proof, by.entry().at).await?;
        let row = stored(credential)?.into_active_model().reset_all();
        let gone = gone_or("federated credential", db("changing a federated credential"));
        row.update(&write.tx).await.map_err(gone)?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn federated_credential_delete(
        &self,
        by: Audited<'_, MachineAccount, Admin>,
        id: FederatedCredentialId,
    ) -> Result<()> {
        let write = self.write().await?;
        user::proven_in_tx(&write, Some(by.target().user_id()), None, by.entry().at).await?;
        token::row::Entity::delete_many()
            .filter(token::row::Column::FederatedCredentialId.eq(id.uuid()))
            .exec(&write.tx)
            .await
            .map_err(db("ending the tokens of a federated credential"))?;
        let gone = row::Entity::delete_by_id(id.uuid()).exec(&write.tx).await;
        if gone.map_err(db("removing a federated credential"))?.rows_affected == 0 {
            return Err(Error::not_found("federated credential"));
        }
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn federated_credentials_of(
        &self,
        account: &Authorized<MachineAccount, Read>,
    ) -> Result<Vec<FederatedCredential>> {
        let rows = row::Entity::find()
            .filter(row::Column::UserId.eq(account.id.uuid()))
            .order_by_asc(row::Column::Id)
            .all(&self.reader)
            .await;
        credentials(&self.reader, rows.map_err(db("reading federated credentials"))?).await
    }

    async fn federated_credential_row(
        &self,
        id: FederatedCredentialId,
    ) -> Result<Option<FederatedCredential>> {
        let row = row::Entity::find_by_id(id.uuid()).one(&self.reader).await;
        let row = row.map_err(db("reading a federated credential"))?;
        Ok(credentials(&self.reader, row.into_iter().collect()).await?.pop())
    }

    async fn federated_credentials_for(
        &self,
        claimed: &ClaimedToken,
        limit: u64,
    ) -> Result<Vec<FederatedCredential>> {
        let of = row::Entity::find()
            .filter(row::Column::ClusterId.is_null())
            .filter(row::Column::Issuer.eq(&claimed.issuer))
            .filter(row::Column::Audience.eq(&claimed.audience));
        self.that_may_fit(of, &claimed.subject, limit).await
    }

    async fn federated_credentials_of_cluster(
        &self,
        cluster: ClusterId,
        claimed: &ClaimedToken,
        limit: u64,
    ) -> Result<Vec<FederatedCredential>> {
        let of = row::Entity::find()
            .filter(row::Column::ClusterId.eq(cluster.uuid()))
            .filter(row::Column::Audience.eq(&claimed.audience));
        self.that_may_fit(of, &claimed.subject, limit).await
    }

    async fn cluster_keys_for(
        &self,
        claimed: &ClaimedToken,
        since: DateTime<Utc>,
        limit: u64,
    ) -> Result<Vec<ClusterKey>> {
        let mut named = Query::select();
        named
            .column(row::Column::ClusterId)
            .from(row::Entity)
            .and_where(Expr::col(row::Column::ClusterId).is_not_null())
            .and_where(Expr::col(row::Column::Audience).eq(claimed.audience.as_str()));
        cluster_issuer::keys_on(&self.reader, claimed, named, since, limit).await
    }
}
