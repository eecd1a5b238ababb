//! A large fleet for benches, written in bulk: copies of one cluster and one of its services, as if each had been
//! made by a request and moved to the same commit. No events, no audit lines: no console may be running.

use plural_app::data_key::DataKeyStore as _;
use plural_app::keyring::OpenKey;
use plural_app::ports::key_encryption::KeyEncryption;
use plural_app::secret::NewToken;
use plural_core::data_key::KeyOwner;
use plural_core::ids::{ClusterId, PolicyId, ProjectId, RevisionId, ServiceId};
use plural_core::policy::Policy;
use plural_core::service::Configuration;
use plural_core::token::DEPLOY_TOKEN_PREFIX;
use plural_core::{Error, Result};
use sea_orm::{ActiveModelBehavior, ActiveModelTrait, ConnectionTrait as _, EntityTrait, IntoActiveModel};
use secrecy::SecretString;

use crate::database::Database;
use crate::error::db;
use crate::transaction::{Write, set};
use crate::{cluster, policy, revision, service};

/// Rows of one statement: SQLite takes some thirty thousand values.
const AT_ONCE: usize = 500;
/// Clusters of one transaction.
const CHUNK: usize = 200;

impl Database {
    /// Makes `clusters` clusters with `services` services each, all copies of `template` and its cluster, without
    /// configuration. The deploy tokens of the new clusters come back, in order.
    ///
    /// # Errors
    /// When there is no such service, or it is not moved to a commit yet.
    pub async fn seed(
        &self,
        key: &dyn KeyEncryption,
        template: ServiceId,
        clusters: usize,
        services: usize,
    ) -> Result<Vec<SecretString>> {
        let missing = || Error::not_found("service");
        let doing = "reading a template";
        let service = service::row::Entity::find_by_id(template.uuid()).one(&self.reader).await;
        let service = service.map_err(db(doing))?.ok_or_else(missing)?;
        let revision = revision::row::Entity::find_by_id(service.revision_id).one(&self.reader).await;
        let revision = revision.map_err(db(doing))?.ok_or_else(missing)?;
        let cluster = cluster::row::Entity::find_by_id(service.cluster_id).one(&self.reader).await;
        let cluster = cluster.map_err(db(doing))?.ok_or_else(missing)?;
        if service.artifact_digest.is_none() {
            return Err(Error::conflict("the template has no artifact yet"));
        }
        let owner = KeyOwner::Project(ProjectId::from_uuid(cluster.project_id));
        let row = self.data_key_current(owner).await?.ok_or_else(missing)?;
        let sealer = OpenKey::of(&row, key).await.map_err(|cause| Error::internal(doing, cause))?;
        let nothing = serde_json::to_vec(&Configuration::default())
            .map_err(|cause| Error::internal("writing a configuration", cause))?;
        let mut tokens = Vec::with_capacity(clusters);
        for first in (0..clusters).step_by(CHUNK) {
            let write = self.write().await?;
            let (mut cluster_rows, mut service_rows, mut revision_rows) =
                (Vec::new(), Vec::new(), Vec::new());
            let mut policies: Vec<(Policy, Option<PolicyId>)> = Vec::new();
            for n in first..(first + CHUNK).min(clusters) {
                let token = NewToken::generate(DEPLOY_TOKEN_PREFIX)?;
                tokens.push(token.text);
                let new_cluster = ClusterId::new();
                policies.push((new_cluster.into(), Some(ProjectId::from_uuid(cluster.project_id).into())));
                let cluster_id = new_cluster.uuid();
                let mut row = all_set(cluster.clone());
                row.id = set(cluster_id);
                row.name = set(format!("seed-{n:06}"));
                row.handle = set(format!("seed-{n:06}"));
                row.token_hash = set(token.hash.as_bytes().to_vec());
                cluster_rows.push(row);
                for n in 0..services {
                    let (id, revision_id) = (ServiceId::new(), RevisionId::new());
                    policies.push((id.into(), Some(new_cluster.into())));
                    let mut row = all_set(service.clone());
                    row.id = set(id.uuid());
                    row.cluster_id = set(cluster_id);
                    row.name = set(format!("{}-{n:04}", service.name));
                    row.revision_id = set(revision_id.uuid());
                    row.seed = set(sealer.seal(&format!("service:{id}:seed"), &[7; 32])?.into_bytes());
                    service_rows.push(row);
                    let mut row = all_set(revision.clone());
                    row.id = set(revision_id.uuid());
                    row.service_id = set(id.uuid());
                    let sealed = sealer.seal(&format!("service:{id}:configuration"), &nothing)?;
                    row.configuration = set(sealed.into_bytes());
                    revision_rows.push(row);
                }
            }
            insert::<cluster::row::Entity, _>(&write, cluster_rows).await?;
            insert::<service::row::Entity, _>(&write, service_rows).await?;
            policy::make_in_tx(&write, &policies).await?;
            insert::<revision::row::Entity, _>(&write, revision_rows).await?;
            write.commit().await?;
        }
        if self.is_postgres() {
            // As its autovacuum does within a minute: plans of a table that was filled at once are none of a fleet that grew.
            let tables = "VACUUM (ANALYZE) clusters, services, policies, revisions";
            self.writer.execute_unprepared(tables).await.map_err(db("seeding"))?;
        }
        Ok(tokens)
    }
}

/// Every column of a row, to be inserted as it is.
fn all_set<M, A>(row: M) -> A
where
    M: IntoActiveModel<A>,
    A: ActiveModelTrait + ActiveModelBehavior,
{
    row.into_active_model().reset_all()
}

async fn insert<E, A>(write: &Write<'_>, rows: Vec<A>) -> Result<()>
where
    E: EntityTrait,
    A: ActiveModelTrait<Entity = E>,
{
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        E::insert_many(rows.by_ref().take(AT_ONCE))
            .exec_without_returning(&write.tx)
            .await
            .map_err(db("seeding"))?;
    }
    Ok(())
}
