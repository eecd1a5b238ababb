//! Managed namespaces, and the global services that they spread by.

use std::collections::HashMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Authorized, Home, Read, Write};
use plural_app::dependency::ContextsRequest;
use plural_app::global_service::TemplateRequest;
use plural_app::managed_namespace::{
    ManagedNamespaceCreate, ManagedNamespaceSelector, ManagedNamespaceStore, ManagedNamespaceUpdate,
    NamespaceCounts, NamespaceInstance, Part, ServicePart,
};
use plural_app::records::Search;
use plural_core::access::Visibility;
use plural_core::global_service::{GlobalServiceSpec, ServiceTemplate};
use plural_core::ids::{ClusterId, GlobalServiceId, ManagedNamespaceId, PolicyId, ProjectId};
use plural_core::managed_namespace::{ManagedNamespace, ManagedNamespaceSpec};
use plural_core::policy::PolicyNoun;
use plural_core::status::ServiceStatus;
use plural_core::{Error, Page, PageRequest, Result};
use sea_orm::sea_query::{Condition, Expr, ExprTrait, Func, Query};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, ConnectionTrait, EntityTrait, JoinType, QueryFilter,
    QueryOrder, QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::{json, parse, to_json};
use crate::database::Database;
use crate::error::{db, unique};
use crate::global_service::{self, NewRow};
use crate::instance::{PagedInstance, PagesBy};
use crate::page::{page, search};
use crate::records::{AT_ONCE, Guard, Table};
use crate::transaction::set;
use crate::{instance, policy, service};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "managed_namespaces")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub name: String,
        pub namespace: String,
        pub description: Option<String>,
        pub project_id: Option<Uuid>,
        pub spec: Json,
        pub deleted_at: Option<DateTimeUtc>,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("managed_namespaces_name_key", "a managed namespace with this name already exists; choose another")];

/// Where the console would find what an instance that holds a namespace is made from: nowhere, it is in the service.
pub(crate) const PLACE: &str = "managed-namespace";

impl TryFrom<row::Model> for ManagedNamespace {
    type Error = Error;

    /// Without its parts.
    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            name,
            namespace,
            description,
            project_id,
            spec,
            deleted_at,
            created_at,
            updated_at,
        } = row;
        Ok(Self {
            id: ManagedNamespaceId::from_uuid(id),
            name: parse(&name, "a managed namespace's name")?,
            namespace: parse(&namespace, "a managed namespace's namespace")?,
            description,
            project_id: project_id.map(ProjectId::from_uuid),
            spec: json(spec, "a managed namespace's spec")?,
            holder: None,
            service: None,
            error: None,
            spread: true,
            deleted_at,
            created_at,
            updated_at,
        })
    }
}

/// Completes managed namespaces by their parts.
async fn with_parts(connection: &impl ConnectionTrait, found: &mut [&mut ManagedNamespace]) -> Result<()> {
    use global_service::row::Column;
    let ids = found.iter().map(|managed| managed.id.uuid());
    let rows = global_service::row::Entity::find()
        .filter(Column::ManagedNamespaceId.is_in(ids))
        .order_by_asc(Column::Id)
        .all(connection)
        .await
        .map_err(db("reading the parts of managed namespaces"))?;
    let mut parts: HashMap<Uuid, Vec<global_service::row::Model>> = HashMap::new();
    for row in rows {
        if let Some(managed) = row.managed_namespace_id {
            parts.entry(managed).or_default().push(row);
        }
    }
    for managed in found {
        let mut errors = Vec::new();
        for row in parts.remove(&managed.id.uuid()).unwrap_or_default() {
            managed.spread &= row.looked_at == Some(row.updated_at);
            errors.extend(row.error);
            if row.deleted_at.is_some() && managed.deleted_at.is_none() {
                // A service that it had.
                continue;
            }
            let id = GlobalServiceId::from_uuid(row.id);
            let template: ServiceTemplate = json(row.template, "a template")?;
            if template.rendering.managed_namespace.is_some() {
                managed.holder = Some(id);
            } else {
                managed.service = Some((id, template));
            }
        }
        managed.error = (!errors.is_empty()).then(|| errors.join("; "));
    }
    Ok(())
}

async fn page_of(
    database: &Database,
    query: Select<row::Entity>,
    request: &PageRequest,
) -> Result<Page<ManagedNamespace>> {
    let mut found =
        page(&database.reader, query, row::Column::Id, request, ManagedNamespace::try_from).await?;
    let mut all: Vec<&mut ManagedNamespace> = found.edges.iter_mut().map(|edge| &mut edge.node).collect();
    with_parts(&database.reader, &mut all).await?;
    Ok(found)
}

async fn whole(connection: &impl ConnectionTrait, row: row::Model) -> Result<ManagedNamespace> {
    let mut managed = ManagedNamespace::try_from(row)?;
    with_parts(connection, &mut [&mut managed]).await?;
    Ok(managed)
}

async fn lock_in_tx(connection: &impl ConnectionTrait, id: ManagedNamespaceId) -> Result<row::Model> {
    row::Entity::find_by_id(id.uuid())
        .lock_exclusive()
        .one(connection)
        .await
        .map_err(db("reading a managed namespace"))?
        .ok_or(Error::not_found("managed namespace"))
}

/// Changes the service in a managed namespace, which is locked: as it was, and how it is from now on.
async fn service_part_in_tx(
    connection: &impl ConnectionTrait,
    row: &row::Model,
    (known, spec): (&ManagedNamespace, &ManagedNamespaceSpec),
    change: &ServicePart,
    at: DateTime<Utc>,
) -> Result<()> {
    let there = known.service.as_ref().map(|(id, _)| *id);
    let (id, template) = match (change, there) {
        (ServicePart::Keep | ServicePart::Drop, None) => return Ok(()),
        (ServicePart::Drop, Some(id)) => {
            return global_service::mark_in_tx(connection, id, at).await.map(drop);
        }
        (ServicePart::Keep, Some(id)) => (id, None),
        (ServicePart::Change { id, template }, Some(there)) if *id == there => (there, template.as_ref()),
        (ServicePart::Make { id, template }, None) => {
            return make_part_in_tx(connection, row, (*id, &spec.of_service(), template), at).await;
        }
        (ServicePart::Change { .. } | ServicePart::Make { .. }, _) => {
            return Err(Error::conflict(
                "the service of the managed namespace was made or taken away meanwhile: look at it again",
            ));
        }
    };
    let spreads = spec.of_service().into();
    global_service::change_in_tx(connection, id, &spreads, template, at).await.map(drop)
}

async fn make_part_in_tx(
    connection: &impl ConnectionTrait,
    managed: &row::Model,
    (id, spec, template): (GlobalServiceId, &GlobalServiceSpec, &TemplateRequest),
    at: DateTime<Utc>,
) -> Result<()> {
    let new = NewRow {
        id,
        // Nobody is shown it; only its like must not be.
        name: format!("managed-namespace:{id}"),
        project_id: managed.project_id.map(ProjectId::from_uuid),
        service_id: None,
        managed_namespace_id: Some(ManagedNamespaceId::from_uuid(managed.id)),
        spec,
        template,
    };
    global_service::insert_in_tx(connection, new, at).await.map(drop)
}

#[async_trait]
impl Table for ManagedNamespace {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a managed namespace";

    fn find(rows: Select<row::Entity>, by: &ManagedNamespaceSelector) -> Select<row::Entity> {
        match by {
            ManagedNamespaceSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            ManagedNamespaceSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Name], q.as_deref())
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project)
    }

    /// Without a project, others than administrators may not even know of it.
    fn guard(&self) -> Guard {
        Guard::Policies(self.project_id.map(PolicyId::from).into_iter().collect())
    }

    async fn complete(database: &Database, found: &mut [&mut Self]) -> Result<()> {
        with_parts(&database.reader, found).await
    }
}

#[async_trait]
impl ManagedNamespaceStore for Database {
    async fn managed_namespace_list_of(
        &self,
        cluster: ClusterId,
        request: &PageRequest,
    ) -> Result<Page<ManagedNamespace>> {
        use global_service::row::Column as Global;
        use service::row::Column as Instance;
        let mut owners = Query::select();
        owners
            .column(Instance::OwnerId)
            .from(service::row::Entity)
            .and_where(Instance::ClusterId.eq(cluster.uuid()))
            .and_where(Instance::OwnerId.is_not_null())
            .and_where(Instance::DeletedAt.is_null());
        let mut here = Query::select();
        here.column(Global::ManagedNamespaceId)
            .from(global_service::row::Entity)
            .and_where(Global::ManagedNamespaceId.is_not_null())
            .and_where(Global::Id.in_subquery(owners));
        page_of(self, row::Entity::find().filter(row::Column::Id.in_subquery(here)), request).await
    }

    async fn managed_namespace_create(
        &self,
        by: Audited<'_, Home, Write>,
        create: &ManagedNamespaceCreate,
    ) -> Result<ManagedNamespace> {
        let ManagedNamespaceCreate { id, name, namespace, description, spec, parts } = create;
        let at = by.entry().at;
        let write = self.write().await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            name: set(name.to_string()),
            namespace: set(namespace.to_string()),
            description: set(description.clone()),
            project_id: set(by.target().0.map(ProjectId::uuid)),
            spec: set(to_json(spec, "a managed namespace's spec")?),
            deleted_at: set(None),
            created_at: set(at),
            updated_at: set(at),
        };
        let row = row.insert(&write.tx).await.map_err(unique("making a managed namespace", UNIQUE))?;
        for Part { id, spec, template } in parts {
            make_part_in_tx(&write.tx, &row, (*id, spec, template), at).await?;
        }
        let managed = whole(&write.tx, row).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(managed)
    }

    async fn managed_namespace_update(
        &self,
        by: Audited<'_, ManagedNamespace, Write>,
        update: &ManagedNamespaceUpdate,
    ) -> Result<ManagedNamespace> {
        let ManagedNamespaceUpdate { description, spec: change, holder, holder_secrets, service } = update;
        let at = by.entry().at;
        let write = self.write().await?;
        let old = lock_in_tx(&write.tx, by.target().id).await?;
        if old.deleted_at.is_some() {
            return Err(Error::conflict("the managed namespace is being deleted"));
        }
        let known = whole(&write.tx, old.clone()).await?;
        // Over what others have made of it by now.
        let spec = change.clone().over(known.spec.clone());
        spec.check()?;
        let template = (spec.content != known.spec.content).then(|| TemplateRequest {
            template: spec.content.clone().template(&known.namespace),
            secrets: holder_secrets.clone(),
            contexts: ContextsRequest::default(),
        });
        let of_holder = spec.of_holder().into();
        global_service::change_in_tx(&write.tx, *holder, &of_holder, template.as_ref(), at).await?;
        service_part_in_tx(&write.tx, &old, (&known, &spec), service, at).await?;
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(old.id),
            description: description.clone().map_or(ActiveValue::NotSet, |text| set(Some(text))),
            spec: set(to_json(&spec, "a managed namespace's spec")?),
            updated_at: set(at),
            ..Default::default()
        };
        let row = row.update(&write.tx).await.map_err(db("changing a managed namespace"))?;
        let managed = whole(&write.tx, row).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(managed)
    }

    async fn managed_namespace_delete(
        &self,
        by: Audited<'_, ManagedNamespace, Write>,
    ) -> Result<ManagedNamespace> {
        let at = by.entry().at;
        let write = self.write().await?;
        let old = lock_in_tx(&write.tx, by.target().id).await?;
        if old.deleted_at.is_some() {
            return whole(&write.tx, old).await;
        }
        let parts: Vec<Uuid> = global_service::row::Entity::find()
            .select_only()
            .column(global_service::row::Column::Id)
            .filter(global_service::row::Column::ManagedNamespaceId.eq(old.id))
            .into_tuple()
            .all(&write.tx)
            .await
            .map_err(db("reading the parts of a managed namespace"))?;
        for part in parts {
            global_service::mark_in_tx(&write.tx, GlobalServiceId::from_uuid(part), at).await?;
        }
        let row = row::ActiveModel {
            id: ActiveValue::Unchanged(old.id),
            deleted_at: set(Some(at)),
            updated_at: set(at),
            ..Default::default()
        };
        let row = row.update(&write.tx).await.map_err(db("deleting a managed namespace"))?;
        let managed = whole(&write.tx, row).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(managed)
    }

    async fn managed_namespaces_counts(
        &self,
        all: &[Authorized<ManagedNamespace, Read>],
    ) -> Result<HashMap<ManagedNamespaceId, NamespaceCounts>> {
        use service::row::Column;
        // A cluster counts once, though it has two parts.
        let clusters = |which| Func::count_distinct(Expr::case(which, Expr::col(Column::ClusterId)));
        let healthy = Column::Status.eq(ServiceStatus::Healthy.as_str());
        let unwell = Column::DeletedAt.is_not_null().or(healthy.not());
        let mut found = HashMap::new();
        for chunk in all.chunks(AT_ONCE) {
            let rows: Vec<(Uuid, i64, i64, i64)> = service::row::Entity::find()
                .select_only()
                .column(global_service::row::Column::ManagedNamespaceId)
                .expr_as(Func::count_distinct(Expr::col(Column::ClusterId)), "all")
                .expr_as(clusters(unwell.clone()), "unwell")
                .expr_as(clusters(Column::DeletedAt.is_not_null()), "leaving")
                .join(
                    JoinType::InnerJoin,
                    service::row::Entity::belongs_to(global_service::row::Entity)
                        .from(Column::OwnerId)
                        .to(global_service::row::Column::Id)
                        .into(),
                )
                .filter(Column::OwnerId.is_in(chunk.iter().flat_map(|managed| parts_of(managed))))
                .group_by(global_service::row::Column::ManagedNamespaceId)
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db("counting the instances of managed namespaces"))?;
            found.extend(rows.into_iter().map(|(id, all, unwell, leaving)| {
                let counts = NamespaceCounts {
                    all: all.cast_unsigned(),
                    synced: (all - unwell).cast_unsigned(),
                    leaving: leaving.cast_unsigned(),
                };
                (ManagedNamespaceId::from_uuid(id), counts)
            }));
        }
        Ok(found)
    }

    async fn managed_namespaces_instances_pages(
        &self,
        all: &[Authorized<ManagedNamespace, Read>],
        request: &PageRequest,
    ) -> Result<HashMap<ManagedNamespaceId, Page<NamespaceInstance>>> {
        let mut found: HashMap<Uuid, Vec<PagedInstance>> = HashMap::with_capacity(all.len());
        for chunk in all.chunks(AT_ONCE) {
            let parts: Vec<Uuid> = chunk.iter().flat_map(|managed| parts_of(managed)).collect();
            for one in instance::pages_on(&self.reader, PagesBy::ManagedNamespace, &parts, request).await? {
                found.entry(one.page).or_default().push(one);
            }
        }
        let page = |managed: &Authorized<ManagedNamespace, Read>| {
            let rows = found.remove(&managed.id.uuid()).unwrap_or_default();
            (managed.id, Page::from_rows(request, on_clusters(managed, rows)))
        };
        Ok(all.iter().map(page).collect())
    }
}

/// The parts of a managed namespace by their clusters, in the order in which they come.
fn on_clusters(managed: &ManagedNamespace, parts: Vec<PagedInstance>) -> Vec<NamespaceInstance> {
    let mut rows: Vec<NamespaceInstance> = Vec::new();
    for PagedInstance { page: _, owner, instance } in parts {
        let cluster_id = instance.cluster_id;
        if rows.last().is_none_or(|last| last.cluster_id != cluster_id) {
            rows.push(NamespaceInstance { cluster_id, holder: None, service: None });
        }
        let Some(row) = rows.last_mut() else { continue };
        if managed.holder.is_some_and(|id| id.uuid() == owner) {
            row.holder = Some(instance);
        } else {
            row.service = Some(instance);
        }
    }
    rows
}

/// What it spreads by.
fn parts_of(managed: &ManagedNamespace) -> Vec<Uuid> {
    let service = managed.service.as_ref().map(|(id, _)| *id);
    managed.holder.into_iter().chain(service).map(GlobalServiceId::uuid).collect()
}

/// Removes those that were deleted and have no part left.
pub(crate) async fn remove_empty_in_tx(connection: &impl ConnectionTrait) -> Result<()> {
    use global_service::row::Column as Global;
    let mut alive = Query::select();
    alive
        .column(Global::ManagedNamespaceId)
        .from(global_service::row::Entity)
        .and_where(Global::ManagedNamespaceId.is_not_null());
    row::Entity::delete_many()
        .filter(row::Column::DeletedAt.is_not_null())
        .filter(row::Column::Id.not_in_subquery(alive))
        .exec(connection)
        .await
        .map(drop)
        .map_err(db("removing a managed namespace"))
}
