//! Global services.

pub(crate) mod generation;

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Authorized, Guarded, Home, Read, Write};
use plural_app::global_service::{
    GlobalServiceCreate, GlobalServiceSelector, GlobalServiceStore, GlobalServiceWork, NewGeneration,
    TemplateRequest,
};
use plural_app::records::Search;
use plural_core::access::{Actor, Scope, Visibility};
use plural_core::cluster::Cluster;
use plural_core::cluster_tags::TagLevel;
use plural_core::global_service::{
    Cascade, GlobalService, GlobalServiceSpec, GlobalServiceSpecChange, TemplateSecrets,
};
use plural_core::ids::{GlobalServiceId, ManagedNamespaceId, PolicyId, ProjectId, ServiceId};
use plural_core::policy::PolicyNoun;
use plural_core::rollout::Rollout;
use plural_core::service::Service;
use plural_core::specs::{Change, without_nul};
use plural_core::{Error, Result};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, Condition, ConnectionTrait, EntityTrait, JsonValue,
    PaginatorTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::{json, parse, to_json};
use crate::database::Database;
use crate::error::{db, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::set;
use crate::{cluster, instance, managed_namespace, policy, secret_backend, service, service_context};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "global_services")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub name: String,
        pub project_id: Option<Uuid>,
        pub service_id: Option<Uuid>,
        pub managed_namespace_id: Option<Uuid>,
        pub spec: Json,
        pub template: Json,
        pub generation: i64,
        pub rollout: Option<Json>,
        pub error: Option<String>,
        pub looked_at: Option<DateTimeUtc>,
        pub deleted_at: Option<DateTimeUtc>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("global_services_name_key", "a global service with this name already exists; choose another")];

impl TryFrom<row::Model> for GlobalService {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            name,
            project_id,
            service_id,
            managed_namespace_id: _,
            spec,
            template,
            generation,
            rollout,
            error,
            looked_at,
            deleted_at,
            created_at,
            updated_at,
        } = row;
        Ok(Self {
            id: GlobalServiceId::from_uuid(id),
            name: parse(&name, "a global service's name")?,
            project_id: project_id.map(ProjectId::from_uuid),
            service_id: service_id.map(ServiceId::from_uuid),
            spec: json(spec, "a global service's spec")?,
            template: json(template, "a global service's template")?,
            generation: generation.cast_unsigned(),
            rollout: rollout.map(|rollout| json(rollout, "a rollout")).transpose()?,
            error,
            spread: looked_at == Some(updated_at),
            deleted_at,
            created_at,
            updated_at,
        })
    }
}

/// Who may do what with a global service: its project decides, or only administrators.
pub(crate) async fn scope(
    connection: &impl ConnectionTrait,
    actor: &Actor,
    project: Option<ProjectId>,
) -> Result<Scope> {
    match project {
        None => Ok(Scope::AdminOnly),
        Some(project) => policy::scope(connection, actor, &[project.into()]).await,
    }
}

impl Database {}

impl Table for GlobalService {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a global service";

    fn find(rows: Select<row::Entity>, by: &GlobalServiceSelector) -> Select<row::Entity> {
        match by {
            GlobalServiceSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            GlobalServiceSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn nameable(rows: Select<row::Entity>, actor: &Actor) -> Select<row::Entity> {
        match actor {
            // It looks after those that belong to managed namespaces, too; nobody else may know of these.
            Actor::System => rows,
            Actor::Nobody | Actor::User(_) | Actor::Cluster(_) | Actor::Registration(_) | Actor::Run(_) => {
                rows.filter(row::Column::ManagedNamespaceId.is_null())
            }
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Name], q.as_deref()).filter(row::Column::ManagedNamespaceId.is_null())
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project)
    }

    /// Without a project, others than administrators may not even know of it.
    fn guard(&self) -> Guard {
        Guard::Policies(self.project_id.map(PolicyId::from).into_iter().collect())
    }
}

#[async_trait]
impl GlobalServiceStore for Database {
    async fn global_service_home(&self, actor: &Actor, project: Option<ProjectId>) -> Result<Guarded<Home>> {
        if let Some(id) = project {
            let known = crate::project::row::Entity::find_by_id(id.uuid()).one(&self.reader).await;
            known.map_err(db("reading a project"))?.ok_or(Error::not_found("project"))?;
        }
        Ok(Guarded::new(Home(project), scope(&self.reader, actor, project).await?))
    }

    async fn tags_selected(&self, project: ProjectId) -> Result<BTreeMap<String, TagLevel>> {
        let specs: Vec<(Option<Uuid>, JsonValue)> = row::Entity::find()
            .select_only()
            .columns([row::Column::ProjectId, row::Column::Spec])
            .filter(
                Condition::any()
                    .add(row::Column::ProjectId.is_null())
                    .add(row::Column::ProjectId.eq(project.uuid())),
            )
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("reading what chooses clusters by tags"))?;
        let mut selected: BTreeMap<String, TagLevel> = BTreeMap::new();
        for (project, spec) in specs {
            let spec: GlobalServiceSpec = json(spec, "a global service's spec")?;
            let level = if project.is_some() { TagLevel::Project } else { TagLevel::Installation };
            for name in spec.tag_names() {
                let needed = selected.entry(name.to_owned()).or_insert(level);
                *needed = level.max(*needed);
            }
        }
        Ok(selected)
    }

    async fn global_service_create(
        &self,
        by: Audited<'_, Home, Write>,
        create: &GlobalServiceCreate,
    ) -> Result<GlobalService> {
        let GlobalServiceCreate { id, new, service_id, template } = create;
        let at = by.entry().at;
        let write = self.write().await?;
        let new = NewRow {
            id: *id,
            name: new.name.to_string(),
            project_id: by.target().0,
            service_id: *service_id,
            managed_namespace_id: None,
            spec: &new.spec,
            template,
        };
        let row = insert_in_tx(&write.tx, new, at).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn global_service_update(
        &self,
        by: Audited<'_, GlobalService, Write>,
        spec: &GlobalServiceSpecChange,
        template: Option<&TemplateRequest>,
    ) -> Result<GlobalService> {
        let at = by.entry().at;
        let write = self.write().await?;
        let row = change_in_tx(&write.tx, by.target().id, spec, template, at).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn global_service_delete(&self, by: Audited<'_, GlobalService, Write>) -> Result<GlobalService> {
        let write = self.write().await?;
        if mark_in_tx(&write.tx, by.target().id, by.entry().at).await? {
            write.audit(by.entry()).await?;
        }
        let row = lock_in_tx(&write.tx, by.target().id).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn global_service_steer(
        &self,
        by: Audited<'_, GlobalService, Write>,
        rollout: &Rollout,
    ) -> Result<GlobalService> {
        let write = self.write().await?;
        let old: GlobalService = lock_in_tx(&write.tx, by.target().id).await?.try_into()?;
        if old.rollout != by.target().rollout {
            return Err(Error::conflict("the rollout moved on meanwhile: look at it again"));
        }
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(old.id.uuid()),
            rollout: set(Some(to_json(rollout, "a rollout")?)),
            updated_at: set(by.entry().at),
            ..Default::default()
        };
        let row = row.update(&write.tx).await.map_err(db("steering a rollout"))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn global_services_copying(
        &self,
        actor: &Actor,
        service: &Authorized<Service, Read>,
    ) -> Result<Vec<Guarded<GlobalService>>> {
        let rows = row::Entity::find()
            .filter(row::Column::ServiceId.eq(service.id.uuid()))
            .filter(row::Column::DeletedAt.is_null())
            .order_by_asc(row::Column::Name)
            .all(&self.reader)
            .await
            .map_err(db("reading the global services of a service"))?;
        let found = rows.into_iter().map(GlobalService::try_from).collect::<Result<Vec<_>>>()?;
        self.guarded(actor, found).await
    }

    async fn global_service_ids(&self) -> Result<Vec<GlobalServiceId>> {
        let ids: Vec<Uuid> = row::Entity::find()
            .select_only()
            .column(row::Column::Id)
            .order_by_asc(row::Column::Id)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("listing global services"))?;
        Ok(ids.into_iter().map(GlobalServiceId::from_uuid).collect())
    }

    async fn global_service_work(&self, id: GlobalServiceId) -> Result<Option<GlobalServiceWork>> {
        let doing = "reading a global service";
        let snapshot = self.snapshot().await?;
        let Some(row) = row::Entity::find_by_id(id.uuid()).one(&snapshot).await.map_err(db(doing))? else {
            return Ok(None);
        };
        let global = GlobalService::try_from(row)?;
        let generations = generation::row::Entity::find()
            .filter(generation::row::Column::GlobalServiceId.eq(id.uuid()))
            .order_by_asc(generation::row::Column::Generation)
            .all(&snapshot)
            .await
            .map_err(db(doing))?;
        let mut clusters = cluster::row::Entity::find().filter(cluster::row::Column::DeletedAt.is_null());
        if let Some(project) = global.project_id {
            clusters = clusters.filter(cluster::row::Column::ProjectId.eq(project.uuid()));
        }
        let clusters = clusters.all(&snapshot).await.map_err(db(doing))?;
        let generations = generations.into_iter().map(|row| generation::of_row(row, &global.spec));
        Ok(Some(GlobalServiceWork {
            generations: generations.collect::<Result<_>>()?,
            global,
            clusters: clusters.into_iter().map(Cluster::try_from).collect::<Result<_>>()?,
            instances: instance::list_on(&snapshot, id.uuid()).await?,
        }))
    }

    async fn global_service_generation(
        &self,
        by: Audited<'_, GlobalService, Write>,
        new: &NewGeneration,
    ) -> Result<u64> {
        let NewGeneration { after, template, secrets, sha, closure_digest } = new;
        let doing = "making a generation";
        let at = by.entry().at;
        let write = self.write().await?;
        let old = lock_in_tx(&write.tx, by.target().id).await?;
        if old.generation.cast_unsigned() != *after {
            return Ok(old.generation.cast_unsigned());
        }
        let known = GlobalService::try_from(old.clone())?;
        let newest = generation::newest_on(&write.tx, &old).await?;
        let was = generation::of_row(newest.clone(), &known.spec)?;
        if was.closure_digest.is_none() && secrets.is_none() && was.template == *template {
            // It was made without a commit to stand at: what it is now is what that commit holds.
            let row = generation::row::ActiveModel {
                global_service_id: ActiveValue::Unchanged(old.id),
                generation: ActiveValue::Unchanged(old.generation),
                sha: set(sha.clone()),
                closure_digest: set(closure_digest.clone()),
                ..Default::default()
            };
            row.update(&write.tx).await.map_err(db(doing))?;
            let given = service::row::Entity::find()
                .filter(service::row::Column::OwnerId.eq(old.id))
                .filter(service::row::Column::OwnerGeneration.eq(old.generation))
                .count(&write.tx)
                .await
                .map_err(db(doing))?;
            if given == 0 {
                generation::prune_on(&write.tx, old.id, old.generation, known.rollout.as_ref()).await?;
                write.commit().await?;
                return Ok(old.generation.cast_unsigned());
            }
            // Those that have it already follow a branch, and are to stand still: that is another generation.
        }
        let number = old.generation + 1;
        let secrets = secrets.as_ref().map_or(newest.secrets, |sealed| sealed.as_bytes().to_vec());
        secret_backend::name_on(&write.tx, secret_backend::objects_of([secrets.as_slice()])).await?;
        let mut row = generation::row_of(old.id, number, (template, &was.context), secrets, at)?;
        row.sha = set(sha.clone());
        row.closure_digest = set(closure_digest.clone());
        row.insert(&write.tx).await.map_err(db(doing))?;
        let global = row::ActiveModel {
            id: ActiveValue::Unchanged(old.id),
            generation: set(number),
            template: set(to_json(template, "a template")?),
            updated_at: set(at),
            ..Default::default()
        };
        global.update(&write.tx).await.map_err(db(doing))?;
        generation::prune_on(&write.tx, old.id, number, known.rollout.as_ref()).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(number.cast_unsigned())
    }

    async fn global_service_reconciled(
        &self,
        id: GlobalServiceId,
        seen: Option<DateTime<Utc>>,
        error: Option<&str>,
    ) -> Result<()> {
        let write = self.write().await?;
        let row = row::ActiveModel {
            error: set(error.map(without_nul)),
            looked_at: set(seen),
            ..Default::default()
        };
        row::Entity::update_many()
            .set(row)
            .filter(row::Column::Id.eq(id.uuid()))
            .exec(&write.tx)
            .await
            .map_err(db("recording a look at a global service"))?;
        write.commit().await
    }

    async fn global_service_progress(
        &self,
        id: GlobalServiceId,
        before: Option<&Rollout>,
        rollout: Option<&Rollout>,
    ) -> Result<bool> {
        let write = self.write().await?;
        let old = match lock_in_tx(&write.tx, id).await {
            Ok(old) => GlobalService::try_from(old)?,
            Err(Error::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        // A person's word came in between: it counts.
        if old.rollout.as_ref() != before {
            return Ok(false);
        }
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(id.uuid()),
            rollout: set(rollout.map(|rollout| to_json(rollout, "a rollout")).transpose()?),
            ..Default::default()
        };
        row.update(&write.tx).await.map_err(db("recording a rollout"))?;
        write.commit().await?;
        Ok(true)
    }

    async fn global_service_remove(&self, by: Audited<'_, GlobalService, Write>) -> Result<()> {
        let write = self.write().await?;
        let removed = row::Entity::delete_many()
            .filter(row::Column::Id.eq(by.target().id.uuid()))
            .filter(row::Column::DeletedAt.is_not_null())
            .exec(&write.tx)
            .await
            .map_err(db("removing a global service"))?;
        if removed.rows_affected > 0 {
            write.audit(by.entry()).await?;
        }
        managed_namespace::remove_empty_in_tx(&write.tx).await?;
        write.commit().await
    }
}

/// A global service to make.
pub(crate) struct NewRow<'a> {
    pub(crate) id: GlobalServiceId,
    pub(crate) name: String,
    pub(crate) project_id: Option<ProjectId>,
    pub(crate) service_id: Option<ServiceId>,
    pub(crate) managed_namespace_id: Option<ManagedNamespaceId>,
    pub(crate) spec: &'a GlobalServiceSpec,
    pub(crate) template: &'a TemplateRequest,
}

/// Makes a global service with its first generation.
pub(crate) async fn insert_in_tx(
    connection: &impl ConnectionTrait,
    new: NewRow<'_>,
    at: DateTime<Utc>,
) -> Result<row::Model> {
    let NewRow { id, name, project_id, service_id, managed_namespace_id, spec, template } = new;
    let TemplateRequest { template, secrets, contexts } = template;
    service_context::still_plain_in_tx(connection, std::iter::once(contexts)).await?;
    let row = row::ActiveModel {
        id: set(id.uuid()),
        name: set(name),
        project_id: set(project_id.map(ProjectId::uuid)),
        service_id: set(service_id.map(ServiceId::uuid)),
        managed_namespace_id: set(managed_namespace_id.map(ManagedNamespaceId::uuid)),
        spec: set(to_json(spec, "a global service's spec")?),
        template: set(to_json(template, "a template")?),
        generation: set(1),
        rollout: set(None::<JsonValue>),
        error: set(None),
        looked_at: set(None),
        deleted_at: set(None),
        created_at: set(at),
        updated_at: set(at),
    };
    let row = row.insert(connection).await.map_err(unique("making a global service", UNIQUE))?;
    secret_backend::name_on(connection, secret_backend::objects_of([secrets.as_bytes()])).await?;
    generation::row_of(row.id, 1, (template, &spec.context), secrets.as_bytes().to_vec(), at)?
        .insert(connection)
        .await
        .map_err(db("making a generation"))?;
    Ok(row)
}

/// Changes how a global service spreads, or what it is made from, which makes a generation.
pub(crate) async fn change_in_tx(
    connection: &impl ConnectionTrait,
    id: GlobalServiceId,
    spec: &GlobalServiceSpecChange,
    template: Option<&TemplateRequest>,
    at: DateTime<Utc>,
) -> Result<row::Model> {
    // Before its row, as everybody does who locks both.
    service_context::still_plain_in_tx(connection, template.iter().map(|wish| &wish.contexts)).await?;
    let old = lock_in_tx(connection, id).await?;
    if old.deleted_at.is_some() {
        return Err(Error::conflict("the global service is being deleted"));
    }
    let known = GlobalService::try_from(old.clone())?;
    let mut row =
        row::ActiveModel { id: ActiveValue::Unchanged(old.id), updated_at: set(at), ..Default::default() };
    let dropped = spec.rollout == Change::Clear;
    // Over what others have made of it by now.
    let spec = spec.clone().over(known.spec.clone());
    spec.check()?;
    if spec != known.spec {
        row.spec = set(to_json(&spec, "a global service's spec")?);
    }
    let context = &spec.context;
    let next = match template {
        Some(wish) => Some((&wish.template, wish.secrets.as_bytes().to_vec())),
        // The same texts, which now say something else.
        None if *context != known.spec.context => {
            Some((&known.template, generation::newest_on(connection, &old).await?.secrets))
        }
        None => None,
    };
    if let (None, Some((template, _))) = (context, &next) {
        // Somebody took the data away, or wrote templates into it, since this change was checked: each is valid without the other.
        template.instance(&known.name, &TemplateSecrets::default())?.rendering.checked()?;
    }
    if dropped && next.is_none() {
        let newest = |rollout: &&Rollout| rollout.generation == known.generation;
        known.rollout.as_ref().filter(newest).map_or(Ok(()), Rollout::can_be_dropped)?;
    }
    if let Some((template, secrets)) = next {
        let number = old.generation + 1;
        row.generation = set(number);
        row.template = set(to_json(template, "a template")?);
        secret_backend::name_on(connection, secret_backend::objects_of([secrets.as_slice()])).await?;
        generation::row_of(old.id, number, (template, context), secrets, at)?
            .insert(connection)
            .await
            .map_err(db("making a generation"))?;
        generation::prune_on(connection, old.id, number, known.rollout.as_ref()).await?;
    }
    row.update(connection).await.map_err(db("changing a global service"))
}

/// From now on its instances are let go; `false` where that is so already. Refused where they would have to be deleted and are
/// protected: that would never come to an end.
pub(crate) async fn mark_in_tx(
    connection: &impl ConnectionTrait,
    id: GlobalServiceId,
    at: DateTime<Utc>,
) -> Result<bool> {
    let known = GlobalService::try_from(lock_in_tx(connection, id).await?)?;
    if known.deleted_at.is_some() {
        return Ok(false);
    }
    if known.spec.cascade == Cascade::Delete {
        let protected = service::row::Entity::find()
            .filter(service::row::Column::OwnerId.eq(id.uuid()))
            .filter(service::row::Column::Protect.eq(true))
            .filter(service::row::Column::DeletedAt.is_null())
            .count(connection)
            .await
            .map_err(db("counting protected instances"))?;
        if protected > 0 {
            return Err(Error::conflict(format!(
                "{protected} of its instances are protected, and would have to be deleted: set protect to false first, or \
                 let it keep or detach them"
            )));
        }
    }
    let row = row::ActiveModel {
        id: ActiveValue::Unchanged(id.uuid()),
        deleted_at: set(Some(at)),
        updated_at: set(at),
        ..Default::default()
    };
    row.update(connection).await.map(|_| true).map_err(db("deleting a global service"))
}

async fn lock_in_tx(connection: &impl ConnectionTrait, id: GlobalServiceId) -> Result<row::Model> {
    row::Entity::find_by_id(id.uuid())
        .lock_exclusive()
        .one(connection)
        .await
        .map_err(db("reading a global service"))?
        .ok_or(Error::not_found("global service"))
}
