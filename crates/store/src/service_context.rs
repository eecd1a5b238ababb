//! Contexts, and the services that use them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use async_trait::async_trait;
use plural_app::access::{Admin, Audited, Authorized, Guarded, Read, Write};
use plural_app::dependency::ContextsRequest;
use plural_app::seal::Sealed;
use plural_app::service_context::{
    ContextUsers, ServiceContextFilter, ServiceContextRow, ServiceContextSave, ServiceContextSelector,
    ServiceContextStore,
};
use plural_core::access::{Actor, Visibility};
use plural_core::ids::{GlobalServiceId, ProjectId, ServiceContextId, ServiceId};
use plural_core::policy::PolicyNoun;
use plural_core::project::Project;
use plural_core::service::Service;
use plural_core::service_context::ServiceContext;
use plural_core::stack::Stack;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType, Query, SelectStatement};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::{json, parse, to_json};
use crate::database::Database;
use crate::error::{db, is_foreign_key, unique};
use crate::global_service::generation;
use crate::page::search;
use crate::records::{Guard, Table};
use crate::service_import::Outputs;
use crate::service_life::renew_in_tx;
use crate::transaction::{self, set};
use crate::{
    agent_upgrade, context_import, dependency, health_change, policy, secret_backend, service, service_import,
};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "service_contexts")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub name: String,
        pub project_id: Uuid,
        pub configuration: Json,
        pub secret_names: Json,
        pub secrets: Option<Vec<u8>>,
        pub imports: Option<Json>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod used {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
    #[sea_orm(table_name = "service_context_uses")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub service_id: Uuid,
        #[sea_orm(primary_key, auto_increment = false)]
        pub context_id: Uuid,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("service_contexts_name_key", "a context with this name already exists; choose another")];

impl TryFrom<row::Model> for ServiceContext {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            name,
            project_id,
            configuration,
            secret_names,
            secrets: _,
            imports,
            created_at,
            updated_at,
        } = row;
        Ok(Self {
            id: ServiceContextId::from_uuid(id),
            name: parse(&name, "a context's name")?,
            project_id: ProjectId::from_uuid(project_id),
            configuration: json(configuration, "a context")?,
            secrets: json(secret_names, "the names of a context's secrets")?,
            imports: context_import::of_kept(imports)?,
            created_at,
            updated_at,
        })
    }
}

/// Locks the contexts of these wishes that may be used because they hide nothing, and refuses when one does since.
///
/// # Assumptions
/// No row of a repository, a cluster or a service is locked yet: who changes a context locks the services that use it afterwards.
pub(crate) async fn still_plain_in_tx(
    connection: &impl ConnectionTrait,
    wishes: impl Iterator<Item = &ContextsRequest>,
) -> Result<()> {
    let plain: BTreeSet<Uuid> = wishes.flat_map(|wish| &wish.plain).map(|id| id.uuid()).collect();
    if plain.is_empty() {
        return Ok(());
    }
    let rows = row::Entity::find()
        .filter(row::Column::Id.is_in(plain))
        .order_by_asc(row::Column::Id)
        .lock_shared()
        .all(connection)
        .await
        .map_err(db("reading contexts"))?;
    for row in rows {
        if ServiceContext::try_from(row)?.hides() {
            return Err(Error::conflict("a context that it uses got secret values meanwhile: try again"));
        }
    }
    Ok(())
}

/// Makes these contexts all that each of these services uses.
pub(crate) async fn replace_in_tx(
    write: &transaction::Write<'_>,
    all: &[(Uuid, &[ServiceContextId])],
) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let doing = "changing a service's contexts";
    let of_these = || used::Column::ServiceId.is_in(all.iter().map(|(service, _)| *service));
    let mut secret = Query::select();
    secret.column(row::Column::Id).from(row::Entity).cond_where(
        Condition::any()
            .add(row::Column::Secrets.is_not_null())
            .add(row::Column::Id.in_subquery(context_import::hiding())),
    );
    let before = used::Entity::find()
        .filter(of_these())
        .filter(used::Column::ContextId.in_subquery(secret))
        .all(&write.tx)
        .await
        .map_err(db(doing))?;
    let wanted: HashSet<(Uuid, Uuid)> = all
        .iter()
        .flat_map(|(service, contexts)| contexts.iter().map(|context| (*service, context.uuid())))
        .collect();
    let less: BTreeSet<Uuid> = before
        .iter()
        .filter(|one| !wanted.contains(&(one.service_id, one.context_id)))
        .map(|one| one.service_id)
        .collect();
    if !less.is_empty() {
        let of = health_change::row::Column::ServiceId.is_in(less);
        health_change::hide_reasons_on(&write.tx, of).await?;
    }
    used::Entity::delete_many().filter(of_these()).exec(&write.tx).await.map_err(db(doing))?;
    add_in_tx(write, all).await
}

/// What services use that use nothing yet.
pub(crate) async fn add_in_tx(
    write: &transaction::Write<'_>,
    all: &[(Uuid, &[ServiceContextId])],
) -> Result<()> {
    let rows: Vec<used::ActiveModel> = all
        .iter()
        .flat_map(|(service, contexts)| {
            contexts.iter().map(|context| used::ActiveModel {
                service_id: set(*service),
                context_id: set(context.uuid()),
            })
        })
        .collect();
    for chunk in rows.chunks(5000) {
        let inserted = used::Entity::insert_many(chunk.to_vec()).exec_without_returning(&write.tx).await;
        inserted.map_err(|cause| {
            // It went between the decision and the write.
            if is_foreign_key(&cause) {
                Error::not_found("service context")
            } else {
                db("changing a service's contexts")(cause)
            }
        })?;
    }
    Ok(())
}

/// The contexts that each of these services uses, with what is sealed of them, and the outputs that they take.
pub(crate) async fn of_services_on(
    connection: &impl ConnectionTrait,
    services: &[Uuid],
    which: Outputs,
) -> Result<HashMap<Uuid, Vec<ServiceContextRow>>> {
    let doing = "reading services' contexts";
    let uses = used::Entity::find()
        .filter(used::Column::ServiceId.is_in(services.iter().copied()))
        .order_by_asc(used::Column::ContextId)
        .all(connection)
        .await
        .map_err(db(doing))?;
    if uses.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = row::Entity::find()
        .filter(row::Column::Id.is_in(uses.iter().map(|one| one.context_id)))
        .all(connection)
        .await
        .map_err(db(doing))?;
    let (mut rows_of, mut imports) = (HashMap::with_capacity(rows.len()), HashMap::new());
    for row in rows {
        let secrets = row.secrets.clone().map(Sealed::from_bytes);
        let context = ServiceContext::try_from(row)?;
        if !context.imports.is_empty() {
            imports.insert(context.id.uuid(), context.imports.clone());
        }
        rows_of.insert(context.id.uuid(), ServiceContextRow { context, secrets, outputs: Arc::default() });
    }
    for (context, outputs) in context_import::outputs_on(connection, &imports, which).await? {
        if let Some(row) = rows_of.get_mut(&context) {
            row.outputs = outputs.into();
        }
    }
    let mut found: HashMap<Uuid, Vec<ServiceContextRow>> = HashMap::new();
    for one in uses {
        if let Some(row) = rows_of.get(&one.context_id).cloned() {
            found.entry(one.service_id).or_default().push(row);
        }
    }
    Ok(found)
}

/// Who reads a context: services, and global services that give it to theirs.
async fn readers_on(connection: &impl ConnectionTrait, context: Uuid) -> Result<ContextUsers> {
    let doing = "reading who uses a context";
    let (mut services, mut globals) = (Vec::new(), BTreeSet::new());
    for chunk in users_on(connection, context).await?.chunks(500) {
        let rows: Vec<(Uuid, Option<Uuid>)> = service::row::Entity::find()
            .select_only()
            .columns([service::row::Column::Id, service::row::Column::OwnerId])
            .filter(service::row::Column::Id.is_in(chunk.iter().copied()))
            .into_tuple()
            .all(connection)
            .await
            .map_err(db(doing))?;
        for (id, owner) in rows {
            match owner {
                Some(owner) => drop(globals.insert(GlobalServiceId::from_uuid(owner))),
                None => services.push(ServiceId::from_uuid(id)),
            }
        }
    }
    // Those without an instance yet, and those that may go back to it.
    globals.extend(generation::reading_on(connection, ServiceContextId::from_uuid(context)).await?);
    Ok(ContextUsers { services, globals: globals.into_iter().collect() })
}

/// The services that use a context.
fn using(id: ServiceContextId) -> Condition {
    let mut users = Query::select();
    users.column(used::Column::ServiceId).from(used::Entity);
    users.and_where(used::Column::ContextId.eq(id.uuid()));
    Condition::all().add(service::row::Column::Id.in_subquery(users))
}

async fn users_on(connection: &impl ConnectionTrait, context: Uuid) -> Result<Vec<Uuid>> {
    let uses = used::Entity::find()
        .filter(used::Column::ContextId.eq(context))
        .order_by_asc(used::Column::ServiceId)
        .all(connection)
        .await
        .map_err(db("reading who uses a context"))?;
    Ok(uses.into_iter().map(|one| one.service_id).collect())
}

/// The ids of the services that use a context.
pub(crate) fn readers_of(context: Uuid) -> SelectStatement {
    let mut users = Query::select();
    users.column(used::Column::ServiceId).from(used::Entity).and_where(used::Column::ContextId.eq(context));
    users
}

/// Has every service that uses the context rendered anew.
async fn publish_users_in_tx(
    write: &mut transaction::Write<'_>,
    context: Uuid,
    at: chrono::DateTime<chrono::Utc>,
) -> Result<()> {
    for chunk in users_on(&write.tx, context).await?.chunks(500) {
        renew_in_tx(write, service::row::Column::Id.is_in(chunk.iter().copied()), at).await?;
    }
    Ok(())
}

impl Table for ServiceContext {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a context";

    fn find(rows: Select<row::Entity>, by: &ServiceContextSelector) -> Select<row::Entity> {
        match by {
            ServiceContextSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            ServiceContextSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, filter: &ServiceContextFilter) -> Select<row::Entity> {
        let ServiceContextFilter { project_id, q } = filter;
        let mut rows = search(rows, &[row::Column::Name], q.as_deref());
        if let Some(id) = project_id {
            rows = rows.filter(row::Column::ProjectId.eq(id.uuid()));
        }
        rows
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.project_id.into()])
    }
}

#[async_trait]
impl ServiceContextStore for Database {
    async fn context_feeds_agent_upgrade(&self, id: ServiceContextId) -> Result<bool> {
        agent_upgrade::is_among_on(&self.reader, using(id)).await
    }

    async fn contexts_for_names(
        &self,
        actor: &Actor,
        names: &[String],
    ) -> Result<Vec<Guarded<ServiceContext>>> {
        let mut rows = Vec::with_capacity(names.len());
        for chunk in names.chunks(500) {
            let query = row::Entity::find().filter(row::Column::Name.is_in(chunk));
            rows.extend(query.all(&self.reader).await.map_err(db("reading contexts"))?);
        }
        let found = rows.into_iter().map(ServiceContext::try_from).collect::<Result<Vec<_>>>()?;
        self.guarded(actor, found).await
    }

    async fn context_create(
        &self,
        by: Audited<'_, Project, Write>,
        id: ServiceContextId,
        save: &ServiceContextSave,
    ) -> Result<ServiceContext> {
        let ServiceContextSave { name, configuration, secrets, imports } = save;
        let imports = imports.as_deref().unwrap_or_default();
        let at = by.entry().at;
        let (names, sealed) = match secrets {
            Some((names, sealed)) => (names.clone(), Some(sealed.as_bytes().to_vec())),
            None => (Vec::new(), None),
        };
        let write = self.write().await?;
        context_import::hold_in_tx(&write, imports).await?;
        secret_backend::name_on(&write.tx, secret_backend::objects_of(sealed.as_deref())).await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            name: set(name.to_string()),
            project_id: set(by.target().id.uuid()),
            configuration: set(to_json(&configuration.clone().unwrap_or_default(), "a context")?),
            secret_names: set(to_json(&names, "the names of a context's secrets")?),
            secrets: set(sealed),
            imports: set(context_import::kept(imports)?),
            created_at: set(at),
            updated_at: set(at),
        };
        let row = row.insert(&write.tx).await.map_err(unique("making a context", UNIQUE))?;
        context_import::replace_in_tx(&write, row.id, imports).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn context_update(
        &self,
        by: Audited<'_, ServiceContext, Write>,
        save: &ServiceContextSave,
        only: Option<&ContextUsers>,
        may_feed: bool,
    ) -> Result<ServiceContext> {
        let ServiceContextSave { name: _, configuration, secrets, imports } = save;
        let at = by.entry().at;
        let mut write = self.write().await?;
        // The services that use it are renewed below.
        dependency::lock_in_tx(&write).await?;
        // As the update locks it: a stronger lock would make those wait who begin to use it, and they may hold services that are
        // told below.
        let old = row::Entity::find_by_id(by.target().id.uuid())
            .lock(LockType::NoKeyUpdate)
            .one(&write.tx)
            .await
            .map_err(db("reading a context"))?
            .ok_or(Error::not_found("service context"))?;
        if let Some(imports) = imports {
            // After the context and before services, as everybody does who locks them.
            context_import::hold_in_tx(&write, imports).await?;
        }
        let old = ServiceContext::try_from(old)?;
        let gets_first = save.hides() && !old.hides();
        if gets_first && only.is_none() {
            // It had some when this was allowed, so nobody was asked who reads it; anybody may have begun to since.
            return Err(Error::conflict("the context lost its secret values meanwhile: try again"));
        }
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(by.target().id.uuid()),
            updated_at: set(at),
            ..Default::default()
        };
        if let Some(configuration) = configuration {
            row.configuration = set(to_json(configuration, "a context")?);
        }
        if let Some((names, sealed)) = secrets {
            row.secret_names = set(to_json(names, "the names of a context's secrets")?);
            secret_backend::name_on(&write.tx, secret_backend::objects_of([sealed.as_bytes()])).await?;
            row.secrets = set(Some(sealed.as_bytes().to_vec()));
        }
        if let Some(imports) = imports {
            row.imports = set(context_import::kept(imports)?);
        }
        let row = row.update(&write.tx).await.map_err(db("changing a context"))?;
        // The row is locked by now: who marks one of its services after this look marks what reads the change.
        agent_upgrade::check_fed_in_tx(&write.tx, using(by.target().id), may_feed, "context").await?;
        if let Some(imports) = imports {
            if !imports.is_empty() && agent_upgrade::is_among_on(&write.tx, using(by.target().id)).await? {
                return Err(service_import::feeds_an_agent());
            }
            context_import::replace_in_tx(&write, row.id, imports).await?;
        }
        if let Some(only) = only {
            // Who begins to use it after this look sees the secrets.
            let readers = readers_on(&write.tx, row.id).await?;
            let is_new = readers.services.iter().any(|id| !only.services.contains(id))
                || readers.globals.iter().any(|id| !only.globals.contains(id));
            if is_new {
                return Err(Error::conflict("a service began to use the context meanwhile: try again"));
            }
        }
        write.audit(by.entry()).await?;
        publish_users_in_tx(&mut write, row.id, at).await?;
        // Sensitive outputs that it does not take any more are hidden no longer.
        let takes_others = imports.as_ref().is_some_and(|imports| old.hides() && *imports != old.imports);
        if secrets.is_some() || takes_others {
            // The services are locked by now.
            let of = health_change::row::Column::ServiceId.in_subquery(readers_of(row.id));
            health_change::hide_reasons_on(&write.tx, of).await?;
        }
        write.commit().await?;
        row.try_into()
    }

    async fn context_delete(&self, by: Audited<'_, ServiceContext, Write>, may_feed: bool) -> Result<()> {
        let id = by.target().id;
        let write = self.write().await?;
        let stored = row::Entity::find_by_id(id.uuid()).lock_exclusive().one(&write.tx).await;
        stored.map_err(db("reading a context"))?;
        agent_upgrade::check_fed_in_tx(&write.tx, using(id), may_feed, "context").await?;
        row::Entity::delete_by_id(id.uuid()).exec(&write.tx).await.map_err(|cause| {
            if is_foreign_key(&cause) {
                Error::conflict("a service uses the context: take it out of that first")
            } else {
                db("deleting a context")(cause)
            }
        })?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn services_contexts(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<ServiceContextId>>> {
        let mut found: HashMap<ServiceId, Vec<ServiceContextId>> = HashMap::new();
        for chunk in services.chunks(500) {
            let uses = used::Entity::find()
                .filter(used::Column::ServiceId.is_in(chunk.iter().map(|service| service.id.uuid())))
                .order_by_asc(used::Column::ContextId)
                .all(&self.reader)
                .await
                .map_err(db("reading services' contexts"))?;
            for one in uses {
                let context = ServiceContextId::from_uuid(one.context_id);
                found.entry(ServiceId::from_uuid(one.service_id)).or_default().push(context);
            }
        }
        Ok(found)
    }

    async fn context_sealed(&self, context: &Authorized<ServiceContext, Write>) -> Result<Option<Sealed>> {
        let row = row::Entity::find_by_id(context.id.uuid()).one(&self.reader).await;
        let row = row.map_err(db("reading a context"))?.ok_or(Error::not_found("service context"))?;
        Ok(row.secrets.map(Sealed::from_bytes))
    }

    async fn stack_contexts(&self, stack: &Authorized<Stack, Admin>) -> Result<Vec<ServiceContextId>> {
        let contexts = context_import::of_stack_on(&self.reader, stack.id).await?;
        Ok(contexts.into_iter().map(ServiceContextId::from_uuid).collect())
    }

    async fn context_users(&self, context: &Authorized<ServiceContext, Write>) -> Result<ContextUsers> {
        readers_on(&self.reader, context.id.uuid()).await
    }

    async fn context_services(&self, context: &Authorized<ServiceContext, Write>) -> Result<Vec<ServiceId>> {
        let users = users_on(&self.reader, context.id.uuid()).await?;
        Ok(users.into_iter().map(ServiceId::from_uuid).collect())
    }
}
