//! Bindings.

use async_trait::async_trait;
use plural_app::{Admin, Audited, Authorized, BindingStore, Grant, Read};
use plural_core::{
    Binding, BindingId, BindingSubject, BindingTarget, ClusterId, Error, GroupId, ProjectId, Result, Role,
    ServiceId, UserId,
};
use sea_orm::sea_query::SimpleExpr;
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};

use crate::convert::word;
use crate::database::{Database, corrupt};
use crate::error::{db, is_foreign_key};
use crate::transaction::{Write, set};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "bindings")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Option<Uuid>,
        pub cluster_id: Option<Uuid>,
        pub service_id: Option<Uuid>,
        pub user_id: Option<Uuid>,
        pub group_id: Option<Uuid>,
        pub role: String,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for Binding {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model { id, project_id, cluster_id, service_id, user_id, group_id, role } = row;
        let target = match (project_id, cluster_id, service_id) {
            (Some(id), None, None) => BindingTarget::Project(ProjectId::from_uuid(id)),
            (None, Some(id), None) => BindingTarget::Cluster(ClusterId::from_uuid(id)),
            (None, None, Some(id)) => BindingTarget::Service(ServiceId::from_uuid(id)),
            _ => return Err(corrupt("a binding")),
        };
        let subject = match (user_id, group_id) {
            (Some(id), None) => BindingSubject::User(UserId::from_uuid(id)),
            (None, Some(id)) => BindingSubject::Group(GroupId::from_uuid(id)),
            _ => return Err(corrupt("a binding")),
        };
        let role = word(Role::parse(&role), "a binding's role")?;
        Ok(Self { id: BindingId::from_uuid(id), target, subject, role })
    }
}

fn on(target: &BindingTarget) -> SimpleExpr {
    match target {
        BindingTarget::Project(id) => row::Column::ProjectId.eq(id.uuid()),
        BindingTarget::Cluster(id) => row::Column::ClusterId.eq(id.uuid()),
        BindingTarget::Service(id) => row::Column::ServiceId.eq(id.uuid()),
    }
}

async fn list_on(connection: &impl ConnectionTrait, target: &BindingTarget) -> Result<Vec<Binding>> {
    row::Entity::find()
        .filter(on(target))
        .order_by_asc(row::Column::Id)
        .all(connection)
        .await
        .map_err(db("reading bindings"))?
        .into_iter()
        .map(Binding::try_from)
        .collect()
}

/// The bindings that a new thing comes with.
pub(crate) async fn grant_in_tx(write: &Write<'_>, target: &BindingTarget, grant: &Grant) -> Result<()> {
    for (role, subjects) in grant.roles() {
        insert_in_tx(write, target, *role, subjects).await?;
    }
    match grant.entry() {
        Some(entry) => write.audit(entry).await,
        None => Ok(()),
    }
}

async fn insert_in_tx(
    write: &Write<'_>,
    target: &BindingTarget,
    role: Role,
    subjects: &[BindingSubject],
) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    for subject in subjects.iter().filter(|subject| seen.insert(**subject)) {
        let (project, cluster, service) = match target {
            BindingTarget::Project(id) => (Some(id.uuid()), None, None),
            BindingTarget::Cluster(id) => (None, Some(id.uuid()), None),
            BindingTarget::Service(id) => (None, None, Some(id.uuid())),
        };
        let (user, group) = match subject {
            BindingSubject::User(id) => (Some(id.uuid()), None),
            BindingSubject::Group(id) => (None, Some(id.uuid())),
        };
        let row = row::ActiveModel {
            id: set(BindingId::new().uuid()),
            project_id: set(project),
            cluster_id: set(cluster),
            service_id: set(service),
            user_id: set(user),
            group_id: set(group),
            role: set(role.as_str().to_owned()),
        };
        row::Entity::insert(row).exec_without_returning(&write.tx).await.map_err(|cause| {
            if is_foreign_key(&cause) {
                Error::invalid("bindings", "name a user or group that does not exist")
            } else {
                db("writing bindings")(cause)
            }
        })?;
    }
    Ok(())
}

#[async_trait]
impl BindingStore for Database {
    async fn binding_list(&self, target: &Authorized<BindingTarget, Read>) -> Result<Vec<Binding>> {
        list_on(&self.reader, target).await
    }

    async fn binding_replace(
        &self,
        by: Audited<'_, BindingTarget, Admin>,
        roles: &[(Role, Vec<BindingSubject>)],
    ) -> Result<Vec<Binding>> {
        let target = by.target();
        let write = self.write().await?;
        for (role, subjects) in roles {
            row::Entity::delete_many()
                .filter(on(target))
                .filter(row::Column::Role.eq(role.as_str()))
                .exec(&write.tx)
                .await
                .map_err(db("replacing bindings"))?;
            insert_in_tx(&write, target, *role, subjects).await?;
        }
        write.audit(by.entry()).await?;
        let bindings = list_on(&write.tx, target).await?;
        write.commit().await?;
        Ok(bindings)
    }
}
