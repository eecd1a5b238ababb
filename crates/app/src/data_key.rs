//! Data keys: one for each project seals its secrets, one for its recordings, one for what belongs to no project.

use std::collections::HashSet;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use plural_core::access::Scope;
use plural_core::data_key::{DataKey, KeyOwner};
use plural_core::ids::{ClusterId, DataKeyId, ProjectId, ServiceId};
use plural_core::project::Project;
use plural_core::secret_holding::{SecretHolding, SecretKind};
use plural_core::{Error, Result};
use uuid::Uuid;

use crate::access::{Admin, Audited, Authorized, Installation, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::job::NewJob;
use crate::jobs::reseal_job;
use crate::project::ProjectSelector;
use crate::rendering::ServiceSecrets;
use crate::seal::Sealed;

/// How long a retired key is kept at least: whoever sealed something with it a moment ago may not have stored that yet.
pub const RETIRED_KEPT: TimeDelta = TimeDelta::hours(1);
/// The action of the audit log's line.
const ROTATE: &str = "project.key.rotate";
/// How often the keys of a project are rotated within an hour: rows of destroyed keys stay.
const HOURLY: usize = 10;

/// A data key as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataKeyRow {
    /// What everybody may know who may see it.
    pub key: DataKey,
    /// What its key-encryption key opens; nothing once it was destroyed.
    pub wrapped: Option<Vec<u8>>,
}

/// A service, with what may be secret in its revisions.
#[derive(Debug, Clone)]
pub struct HeldService {
    /// The service.
    pub id: ServiceId,
    /// What users call it: CLUSTER/NAME.
    pub name: String,
    /// What its random values are made from.
    pub seed: Option<Sealed>,
    /// Values of its revisions.
    pub revisions: Vec<ServiceSecrets>,
}

/// A thing that may have secret values.
#[derive(Debug, Clone)]
pub struct HeldValue {
    /// The thing that they are sealed for.
    pub of: Uuid,
    /// What users call that thing.
    pub name: String,
    /// How many: none where it only may have some.
    pub values: u64,
    /// The value, where only that tells whether there is a secret in it.
    pub sealed: Option<Sealed>,
}

/// Data keys. What seals and opens asks on nobody's behalf.
#[async_trait]
pub trait DataKeyStore: Send + Sync + 'static {
    /// One of them.
    async fn data_key(&self, id: DataKeyId) -> Result<Option<DataKeyRow>>;
    /// The one that seals for an owner.
    async fn data_key_current(&self, owner: KeyOwner) -> Result<Option<DataKeyRow>>;
    /// Stores the first key of an owner, unless somebody else was first: the one that is there.
    async fn data_key_make(&self, row: &DataKeyRow) -> Result<DataKeyRow>;
    /// All keys of these owners, the newest first.
    async fn data_keys_of(&self, owners: &[KeyOwner]) -> Result<Vec<DataKey>>;
    /// Retires the keys of a project; these seal in their place.
    async fn project_keys_replace(
        &self,
        by: Audited<'_, Project, Admin>,
        rows: &[DataKeyRow],
        job: &NewJob,
    ) -> Result<()>;
    /// Retires the key of what belongs to no project; this one seals in its place.
    async fn installation_key_replace(
        &self,
        by: Audited<'_, Installation, Admin>,
        row: &DataKeyRow,
        job: &NewJob,
    ) -> Result<()>;
    /// Keys that are wrapped by another key-encryption key than this one, or by another version of it, after a key in the order of ids.
    async fn data_keys_otherwise(
        &self,
        name: &str,
        version: Option<&str>,
        after: Option<DataKeyId>,
        limit: u64,
    ) -> Result<Vec<DataKeyRow>>;
    /// A key is wrapped anew; one that was destroyed or wrapped anew meanwhile stays.
    async fn data_key_rewrap(&self, before: &DataKeyRow, after: &DataKeyRow) -> Result<()>;
    /// Keys that were retired before this time and are not destroyed.
    async fn data_keys_retired(&self, before: DateTime<Utc>) -> Result<Vec<DataKey>>;
    /// Those of these keys that a stored value is sealed with, as far as places are known that are sealed anew. All are looked for in
    /// one walk through each place.
    async fn data_keys_used(&self, keys: &[DataKey]) -> Result<HashSet<DataKeyId>>;
    /// Nothing opens what these keys sealed from now on.
    async fn data_keys_destroy(&self, ids: &[DataKeyId], at: DateTime<Utc>) -> Result<u64>;
    /// The same for keys of projects that are gone, but for recordings that are kept.
    async fn data_keys_of_gone_destroy(&self, at: DateTime<Utc>) -> Result<u64>;
    /// Since when values are sealed with data keys: from now on at the latest, unless a replica is alive that cannot open them.
    async fn data_keys_begin(&self, at: DateTime<Utc>) -> Result<Option<DateTime<Utc>>>;
    /// Whether everything is known to be sealed with data keys.
    async fn data_keys_everywhere(&self) -> Result<bool>;
    /// Everything is.
    async fn data_keys_are_everywhere(&self, at: DateTime<Utc>) -> Result<()>;
    /// What tells whether a key is the right one, as it was sealed first.
    async fn key_check_kept(&self) -> Result<Option<Sealed>>;
    /// The project of a cluster.
    async fn cluster_project(&self, id: ClusterId) -> Result<Option<ProjectId>>;
    /// Services of a project with all of their revisions, after a service in the order of ids.
    async fn services_held(
        &self,
        project: &Authorized<Project, Admin>,
        after: Option<ServiceId>,
        limit: u64,
    ) -> Result<Vec<HeldService>>;
    /// What else of a project may be secret, of a kind that only its values tell: all of so many things, after a thing in the order of ids.
    async fn values_held(
        &self,
        project: &Authorized<Project, Admin>,
        kind: SecretKind,
        after: Option<Uuid>,
        limit: u64,
    ) -> Result<Vec<HeldValue>>;
    /// How many secret values of a kind there are that needs no look into them, with so many names.
    async fn values_counted(
        &self,
        project: &Authorized<Project, Admin>,
        kind: SecretKind,
        names: u64,
    ) -> Result<SecretHolding>;
}

impl App {
    /// The data keys of a project, those that were destroyed among them; for its administrators.
    pub async fn project_keys(&self, ctx: &OpCtx, id: ProjectId) -> Result<Vec<DataKey>> {
        let project = self.authorized::<Project, Admin>(ctx, &ProjectSelector::Id(id)).await?;
        self.store.data_keys_of(&owners(project.id)).await
    }

    /// Other data keys for a project. What the ones of before sealed is sealed anew in the background; then they are destroyed.
    pub async fn project_keys_rotate(&self, ctx: &OpCtx, id: ProjectId) -> Result<Vec<DataKey>> {
        let project = self.authorized::<Project, Admin>(ctx, &ProjectSelector::Id(id)).await?;
        let known = self.store.data_keys_of(&[KeyOwner::Project(project.id)]).await?;
        // The first one replaced none.
        let first = known.iter().map(|key| key.created_at).min();
        let since = self.now() - TimeDelta::hours(1);
        let fresh = known.iter().filter(|key| key.created_at > since).count();
        let replaced = fresh - usize::from(first.is_some_and(|first| first > since));
        if replaced >= HOURLY {
            return Err(Error::conflict(format!(
                "the project got {HOURLY} other keys within the hour, each of which seals everything anew: try again later"
            )));
        }
        let mut rows = Vec::with_capacity(2);
        for owner in owners(project.id) {
            rows.push(self.sealer.new_key(owner).await?);
        }
        self.keys_replaceable().await?;
        self.store.project_keys_replace(project.audited(ctx, ROTATE), &rows, &reseal_job(self)?).await?;
        for owner in owners(project.id) {
            self.sealer.forget_current(owner);
        }
        self.store.data_keys_of(&owners(project.id)).await
    }

    /// The data keys of what belongs to no project; administrators only.
    pub async fn installation_keys(&self, ctx: &OpCtx) -> Result<Vec<DataKey>> {
        authorize_installation::<Admin>(ctx, Scope::AdminOnly)?;
        self.store.data_keys_of(&[KeyOwner::Installation, KeyOwner::Addresses]).await
    }

    /// Another data key for what belongs to no project; administrators only.
    pub async fn installation_keys_rotate(&self, ctx: &OpCtx) -> Result<Vec<DataKey>> {
        let by = authorize_installation::<Admin>(ctx, Scope::AdminOnly)?;
        let row = self.sealer.new_key(KeyOwner::Installation).await?;
        self.keys_replaceable().await?;
        let by = by.audited_new(ctx, "installation.key.rotate", "data key", row.key.id, &row.key.owner);
        self.store.installation_key_replace(by, &row, &reseal_job(self)?).await?;
        self.sealer.forget_current(KeyOwner::Installation);
        self.store.data_keys_of(&[KeyOwner::Installation, KeyOwner::Addresses]).await
    }

    /// Before values are sealed with data keys there is nothing to rotate.
    async fn keys_replaceable(&self) -> Result<()> {
        if self.sealer.uses_data_keys().await? {
            return Ok(());
        }
        Err(Error::conflict(
            "replicas of the release before data keys are running: replace them first, and try again",
        ))
    }

    /// What seals values of the services of a cluster.
    pub(crate) async fn owner_on(&self, cluster: ClusterId) -> Result<KeyOwner> {
        self.sealer.owner_on(cluster).await
    }
}

/// The owners of the keys of a project.
fn owners(id: ProjectId) -> [KeyOwner; 2] {
    [KeyOwner::Project(id), KeyOwner::Recordings(id)]
}
