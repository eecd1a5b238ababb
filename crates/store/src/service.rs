//! Services.

mod change;
mod make;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Authorized, Grant, Read, Write};
use plural_app::ports::agents::FeedSubject;
use plural_app::rendering::ServiceSecrets;
use plural_app::service::{
    ServiceCreate, ServiceFilter, ServiceMake, ServiceRemake, ServiceSelector, ServiceStore, ServiceUpdate,
};
use plural_core::access::Visibility;
use plural_core::cluster::Cluster;
use plural_core::component::Component;
use plural_core::ids::{ClusterId, GlobalServiceId, RepositoryId, RevisionId, ServiceId};
use plural_core::policy::PolicyNoun;
use plural_core::repository::Repository;
use plural_core::revision::Revision;
use plural_core::service::{Rendering, SecretsHome, Service, ServiceColumn};
use plural_core::service_error::ServiceError;
use plural_core::status::{ServiceStatus, StatusInput, service_status};
use plural_core::work::{WorkChange, WorkRef};
use plural_core::{Error, Page, PageRequest, Result};
use sea_orm::sea_query::{Condition, Expr, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, JsonValue, QueryFilter,
    QuerySelect, Select,
};
use uuid::Uuid;

use self::change::Edit;
use self::make::Make;
use crate::agent_upgrade::lock_known_in_tx;
use crate::convert::{json, parse, word};
use crate::database::{Database, corrupt};
use crate::error::{db, is_foreign_key, unique};
use crate::managed_namespace::PLACE;
use crate::page::search;
use crate::records::{Guard, Table};
use crate::revision;
use crate::service_error;
use crate::sorted::{SortBy, SortedTable};
use crate::transaction::{self, set};
use crate::{cluster, component, dependency, policy, repository, service_context};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "services")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub cluster_id: Uuid,
        pub name: String,
        pub namespace: String,
        pub repository_id: Option<Uuid>,
        pub git: Option<Json>,
        pub rendering: Option<Json>,
        pub version: String,
        pub docs_path: Option<String>,
        #[sea_orm(column_name = "sync_settings")]
        pub sync_config: Json,
        pub protect: bool,
        pub dry_run: bool,
        pub templated: bool,
        pub interval_seconds: Option<i32>,
        pub status: String,
        pub component_status: String,
        pub failing_since: Option<DateTimeUtc>,
        pub recovered_at: Option<DateTimeUtc>,
        pub revision_id: Uuid,
        pub sha: Option<String>,
        pub message: Option<String>,
        pub author: Option<String>,
        pub closure_digest: Option<String>,
        pub artifact_digest: Option<Vec<u8>>,
        pub artifact_folder: String,
        pub pin: Option<Json>,
        pub paused: bool,
        pub sequence: i64,
        pub seed: Vec<u8>,
        pub applied_revision_id: Option<Uuid>,
        pub applied_sha: Option<String>,
        pub reported_sequence: i64,
        pub owner_id: Option<Uuid>,
        pub owner_generation: Option<i64>,
        pub owner_given_at: Option<DateTimeUtc>,
        pub secrets_home: Option<String>,
        pub cascaded: bool,
        pub deleted_at: Option<DateTimeUtc>,
        pub outlives: bool,
        pub agent_upgrade: bool,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] = &[(
    "services_cluster_id_name_key",
    "a service with this name already exists on the cluster; change that one, or choose another name",
)];

impl TryFrom<row::Model> for Service {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            cluster_id,
            name,
            namespace,
            repository_id,
            git,
            rendering,
            version,
            docs_path,
            sync_config,
            protect,
            dry_run,
            templated,
            interval_seconds,
            status,
            component_status,
            failing_since,
            recovered_at,
            revision_id,
            sha,
            message,
            author,
            closure_digest,
            artifact_digest,
            artifact_folder: _,
            pin,
            paused,
            sequence,
            seed: _,
            applied_revision_id: _,
            applied_sha: _,
            reported_sequence,
            owner_id,
            owner_generation: _,
            owner_given_at: _,
            secrets_home,
            cascaded,
            deleted_at,
            outlives,
            agent_upgrade,
            created_at,
            updated_at,
        } = row;
        Ok(Self {
            id: ServiceId::from_uuid(id),
            name: parse(&name, "a service's name")?,
            namespace: parse(&namespace, "a service's namespace")?,
            cluster_id: ClusterId::from_uuid(cluster_id),
            repository_id: repository_id.map(RepositoryId::from_uuid),
            git: git.map(|git| json(git, "a service's git ref")).transpose()?,
            rendering: rendering_of(rendering)?,
            version,
            docs_path,
            sync_config: json(sync_config, "a service's sync config")?,
            protect,
            dry_run,
            templated,
            interval_seconds: interval_seconds.map(i32::cast_unsigned),
            status: word(ServiceStatus::parse(&status), "a service's status")?,
            component_status,
            failing_since,
            recovered_at,
            revision_id: RevisionId::from_uuid(revision_id),
            sha,
            message,
            author,
            artifact_digest: artifact_digest.map(hex::encode),
            pin: pin.map(|pin| json(pin, "a service's pin")).transpose()?,
            paused,
            sequence: sequence.cast_unsigned(),
            // Until somebody has looked at another place, the agent has only seen what was at the one before.
            observed: reported_sequence >= sequence && closure_digest.is_some(),
            owner: owner_id.map(GlobalServiceId::from_uuid),
            withheld: secrets_home.as_deref().map(home_of).transpose()?,
            cascaded,
            deleted_at,
            outlives,
            agent_upgrade,
            created_at,
            updated_at,
        })
    }
}

const INSTALLATION: &str = "installation";

fn home_of(stored: &str) -> Result<SecretsHome> {
    match stored {
        INSTALLATION => Ok(SecretsHome::Installation),
        project => {
            let id = project.parse().map_err(|_| corrupt("whose a service's secrets are"))?;
            Ok(SecretsHome::Project(id))
        }
    }
}

/// As it is stored whose a service's secrets are.
pub(crate) fn home_text(home: SecretsHome) -> String {
    match home {
        SecretsHome::Installation => INSTALLATION.to_owned(),
        SecretsHome::Project(id) => id.to_string(),
    }
}

/// Locks and reads a service in a write.
pub(crate) async fn lock_in_tx(write: &transaction::Write<'_>, id: ServiceId) -> Result<row::Model> {
    row::Entity::find_by_id(id.uuid())
        .lock_exclusive()
        .one(&write.tx)
        .await
        .map_err(db("reading a service"))?
        .ok_or(Error::not_found("service"))
}

/// The status that follows from a row and what is known of it.
pub(crate) fn status_of(
    row: &row::Model,
    components: &[Component],
    errors: &[ServiceError],
) -> ServiceStatus {
    // A namespace has no files, and so no commit that could be another.
    let sourceless = (row.closure_digest.as_deref() == Some(PLACE)).then_some(PLACE);
    service_status(&StatusInput {
        components,
        errors,
        paused: row.paused,
        revision_id: RevisionId::from_uuid(row.revision_id),
        // A place that nobody has looked at yet has no commit: what runs is still that of the place before.
        sha: sourceless.or_else(|| row.sha.as_deref().filter(|_| row.closure_digest.is_some())),
        applied_revision_id: row.applied_revision_id.map(RevisionId::from_uuid),
        applied_sha: sourceless.or(row.applied_sha.as_deref()),
    })
}

pub(crate) async fn secrets_on(connection: &impl ConnectionTrait, revision: Uuid) -> Result<ServiceSecrets> {
    let row = revision::row::Entity::find_by_id(revision).one(connection).await;
    let row = row.map_err(db("reading a configuration"))?;
    Ok(revision::secrets(row.ok_or_else(|| corrupt("a service's revision"))?))
}

/// What an older release left empty is a rendering without anything set.
pub(crate) fn rendering_of(stored: Option<JsonValue>) -> Result<Rendering> {
    stored.map_or_else(|| Ok(Rendering::default()), |rendering| json(rendering, "a service's rendering"))
}

/// Where a service is before anybody has looked: nowhere, unless there is nothing to look at.
fn place_of(rendering: &Rendering) -> Option<String> {
    rendering.managed_namespace.is_some().then(|| PLACE.to_owned())
}

/// Has the git job look at every repository that services are made from.
async fn tell_repositories<'r>(
    write: &mut transaction::Write<'_>,
    own: impl IntoIterator<Item = Uuid>,
    renderings: impl Iterator<Item = &'r Rendering>,
    at: DateTime<Utc>,
) -> Result<()> {
    let mut all: Vec<RepositoryId> = own.into_iter().map(RepositoryId::from_uuid).collect();
    all.extend(renderings.flat_map(Rendering::repositories));
    all.sort_unstable();
    all.dedup();
    let all: Vec<FeedSubject> =
        all.into_iter().map(|repository_id| FeedSubject::Repository { repository_id }).collect();
    write.publish_many(&all, at).await
}

/// The event of a service's change; `row` is as it was written.
pub(crate) fn event(row: &row::Model, change: WorkChange) -> FeedSubject {
    event_at(row.cluster_id, row.id, row.sequence, change)
}

/// The event of a service of which the row is not at hand; the sequence is 0 where it is gone.
pub(crate) fn event_at(cluster: Uuid, service: Uuid, sequence: i64, change: WorkChange) -> FeedSubject {
    FeedSubject::Work {
        cluster_id: ClusterId::from_uuid(cluster),
        work: WorkRef::service(ServiceId::from_uuid(service)),
        sequence: sequence.cast_unsigned(),
        change,
    }
}

/// The repository went between the decision and the write.
pub(crate) fn gone_repository(doing: &'static str) -> impl FnOnce(sea_orm::DbErr) -> Error {
    move |cause| {
        if is_foreign_key(&cause) { Error::not_found("git repository") } else { unique(doing, UNIQUE)(cause) }
    }
}

/// Which services those are is for the caller to look up, as far as whoever asks may see them.
fn depended_by_now() -> Error {
    Error::conflict("services depend on it by now: try again")
}

impl Table for Service {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a service";
    // `services_list_idx`.
    const IS_LONG: bool = true;

    fn find(rows: Select<row::Entity>, by: &ServiceSelector) -> Select<row::Entity> {
        match by {
            ServiceSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            ServiceSelector::Handle(handle, name) => {
                let mut on = Query::select();
                on.column(cluster::row::Column::Id)
                    .from(cluster::row::Entity)
                    .and_where(cluster::row::Column::Handle.eq(handle.as_str()));
                rows.filter(row::Column::ClusterId.in_subquery(on))
                    .filter(row::Column::Name.eq(name.as_str()))
            }
        }
    }

    fn filter(rows: Select<row::Entity>, filter: &ServiceFilter) -> Select<row::Entity> {
        let ServiceFilter { cluster_id, project_id, repository_id, context_id, status, q } = filter;
        let mut rows = search(rows, &[row::Column::Name], q.as_deref());
        if let Some(id) = cluster_id {
            rows = rows.filter(row::Column::ClusterId.eq(id.uuid()));
        }
        if let Some(id) = project_id {
            let mut of = Query::select();
            of.column(cluster::row::Column::Id)
                .from(cluster::row::Entity)
                .and_where(cluster::row::Column::ProjectId.eq(id.uuid()));
            rows = rows.filter(row::Column::ClusterId.in_subquery(of));
        }
        if let Some(id) = repository_id {
            rows = rows.filter(repository::readers(*id));
        }
        if let Some(status) = status {
            rows = rows.filter(row::Column::Status.eq(status.as_str()));
        }
        if let Some(id) = context_id {
            rows = rows.filter(row::Column::Id.in_subquery(service_context::readers_of(id.uuid())));
        }
        rows
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::Id, row::Column::ClusterId], PolicyNoun::Cluster)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.id.into(), self.cluster_id.into()])
    }
}

impl SortedTable for Service {
    fn sort_by(column: ServiceColumn, postgres: bool) -> SortBy {
        match column {
            // As its index has it.
            ServiceColumn::Name if postgres => SortBy::Value(Expr::cust("services.name COLLATE \"C\"")),
            ServiceColumn::Name => SortBy::Value(Expr::col(row::Column::Name.as_column_ref())),
            ServiceColumn::Status => SortBy::Words(
                Expr::col(row::Column::Status.as_column_ref()),
                ServiceStatus::WORST_FIRST.map(ServiceStatus::as_str).to_vec(),
            ),
            ServiceColumn::UpdatedAt => SortBy::Value(Expr::col(row::Column::UpdatedAt.as_column_ref())),
        }
    }
}

#[async_trait]
impl ServiceStore for Database {
    async fn service_create(
        &self,
        by: Audited<'_, Cluster, Write>,
        repository: Option<&Authorized<Repository, Read>>,
        service: &ServiceCreate,
        grant: Option<&Grant>,
    ) -> Result<Service> {
        let at = by.entry().at;
        let one = Make { cluster: by.target().id.uuid(), by: by.entry(), repository, create: service, grant };
        let mut write = self.write().await?;
        if one.depends() {
            // Before the project's row, which the quota locks.
            dependency::lock_in_tx(&write).await?;
        }
        write.check_services(by.target().id.uuid()).await?;
        let rows = make::make_in_tx(&mut write, &[one], at).await?;
        write.commit().await?;
        rows.into_iter().next().ok_or(Error::not_found("service"))?.try_into()
    }

    async fn service_update(
        &self,
        by: Audited<'_, Service, Write>,
        repository: Option<&Authorized<Repository, Read>>,
        update: &ServiceUpdate,
        grant: Option<&Grant>,
    ) -> Result<Service> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        let one = Edit::new(by.target(), by.entry(), repository, update).with(grant);
        let rows = change::change_in_tx(&mut write, &[one], at).await?;
        write.commit().await?;
        rows.into_iter().next().ok_or(Error::not_found("service"))?.try_into()
    }

    async fn services_create(&self, all: &[ServiceMake<'_>]) -> Result<()> {
        let Some(first) = all.first() else { return Ok(()) };
        let at = first.by.entry().at;
        let makes: Vec<Make<'_>> = all
            .iter()
            .map(|ServiceMake { by, repository, create }| Make {
                cluster: by.target().id.uuid(),
                by: by.entry(),
                repository: repository.as_ref(),
                create,
                grant: None,
            })
            .collect();
        let mut write = self.write().await?;
        make::make_in_tx(&mut write, &makes, at).await?;
        write.commit().await
    }

    async fn services_update(&self, all: &[ServiceRemake<'_>]) -> Result<()> {
        let Some(first) = all.first() else { return Ok(()) };
        let at = first.by.entry().at;
        let edits: Vec<Edit<'_>> = all
            .iter()
            .map(|ServiceRemake { by, repository, update }| {
                Edit::new(by.target(), by.entry(), repository.as_ref(), update)
            })
            .collect();
        let mut write = self.write().await?;
        change::change_in_tx(&mut write, &edits, at).await?;
        write.commit().await
    }

    async fn service_delete(
        &self,
        by: Audited<'_, Service, Write>,
        with: &[Audited<'_, Service, Write>],
    ) -> Result<Service> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        dependency::lock_in_tx(&write).await?;
        let mut leaving = vec![lock_known_in_tx(&write, by.target()).await?];
        for dependent in with {
            leaving.push(lock_known_in_tx(&write, dependent.target()).await?);
        }
        if let Some(row) = leaving.iter().find(|row| row.protect) {
            return Err(Error::conflict(if row.id == by.target().id.uuid() {
                "the service is protected: set protect to false first".to_owned()
            } else {
                format!("{} is protected: set its protect to false first", row.name)
            }));
        }
        let keys: Vec<dependency::Key> = leaving.iter().map(dependency::key_of).collect();
        let dependents = dependency::dependents_all_on(&write.tx, &keys).await?;
        if dependents.iter().any(|one| leaving.iter().all(|row| row.id != one.id)) {
            return Err(depended_by_now());
        }
        let leaving = dependency::destroy_in_tx(&mut write, leaving, at).await?;
        write.audit(by.entry()).await?;
        for dependent in with {
            write.audit(dependent.entry()).await?;
        }
        write.commit().await?;
        leaving.into_iter().next().ok_or(Error::not_found("service"))?.try_into()
    }

    async fn service_detach(&self, by: Audited<'_, Service, Write>) -> Result<Service> {
        let mut write = self.write().await?;
        dependency::lock_in_tx(&write).await?;
        let row = lock_known_in_tx(&write, by.target()).await?;
        if !dependency::dependents_all_on(&write.tx, &[dependency::key_of(&row)]).await?.is_empty() {
            return Err(depended_by_now());
        }
        let depended = dependency::before_gone_on(&write.tx, &[row.id]).await?;
        row::Entity::delete_by_id(row.id).exec(&write.tx).await.map_err(db("detaching a service"))?;
        policy::forget_in_tx(&write, by.target().id).await?;
        dependency::gone_in_tx(&mut write, &depended, by.entry().at).await?;
        write.audit(by.entry()).await?;
        write.publish(event_at(row.cluster_id, row.id, 0, WorkChange::Changed), by.entry().at).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn service_kick(&self, by: Audited<'_, Service, Write>) -> Result<Service> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        let old = lock_known_in_tx(&write, by.target()).await?;
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(old.id),
            sequence: set(old.sequence + 1),
            // What its agent reports from now on is later.
            updated_at: set(at),
            ..Default::default()
        };
        let row = row.update(&write.tx).await.map_err(db("kicking a service"))?;
        write.audit(by.entry()).await?;
        write.publish(event(&row, WorkChange::Kicked), at).await?;
        let rendering = rendering_of(row.rendering.clone())?;
        tell_repositories(&mut write, row.repository_id, [&rendering].into_iter(), at).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn service_components(&self, service: &Authorized<Service, Read>) -> Result<Vec<Component>> {
        let id = service.id.uuid();
        Ok(component::list_on(&self.reader, &[id]).await?.remove(&id).unwrap_or_default())
    }

    async fn service_errors(&self, service: &Authorized<Service, Read>) -> Result<Vec<ServiceError>> {
        let id = service.id.uuid();
        Ok(service_error::list_on(&self.reader, &[id]).await?.remove(&id).unwrap_or_default().all())
    }

    async fn service_revisions(
        &self,
        service: &Authorized<Service, Read>,
        request: &PageRequest,
    ) -> Result<Page<Revision>> {
        let query =
            revision::row::Entity::find().filter(revision::row::Column::ServiceId.eq(service.id.uuid()));
        let by = Expr::col((revision::row::Entity, revision::row::Column::Id));
        revision::revisions_on(&self.reader, query, by, request).await
    }

    async fn service_revision(&self, service: &Authorized<Service, Read>) -> Result<Revision> {
        revision::revision_on(&self.reader, service.revision_id.uuid()).await
    }

    async fn service_secrets(&self, service: &Authorized<Service, Write>) -> Result<ServiceSecrets> {
        secrets_on(&self.reader, service.settings_revision().uuid()).await
    }

    async fn service_newest_secrets(&self, service: &Authorized<Service, Write>) -> Result<ServiceSecrets> {
        let newest = service.pin.as_ref().map_or(service.revision_id, |pin| pin.newest);
        secrets_on(&self.reader, newest.uuid()).await
    }
}
