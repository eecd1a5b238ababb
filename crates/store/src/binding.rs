//! Bindings.

use async_trait::async_trait;
use plural_app::{Admin, Audited, Authorized, Grant, PolicyStore, Read};
use plural_core::{
    Binding, BindingId, BindingSubject, Error, GroupId, Policy, PolicyId, PolicyNoun, Result, Role, UserId,
};
use sea_orm::sea_query::{Condition, SimpleExpr};
use sea_orm::{ColumnTrait, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder};

use crate::convert::word;
use crate::database::{Database, corrupt};
use crate::error::{db, is_foreign_key};
use crate::transaction::{Write, set};

/// Policies of one statement.
const AT_ONCE: usize = 500;

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
        let policy = match (project_id, cluster_id, service_id) {
            (Some(id), None, None) | (None, Some(id), None) | (None, None, Some(id)) => {
                PolicyId::from_uuid(id)
            }
            _ => return Err(corrupt("a binding")),
        };
        let subject = match (user_id, group_id) {
            (Some(id), None) => BindingSubject::User(UserId::from_uuid(id)),
            (None, Some(id)) => BindingSubject::Group(GroupId::from_uuid(id)),
            _ => return Err(corrupt("a binding")),
        };
        let role = word(Role::parse(&role), "a binding's role")?;
        Ok(Self { id: BindingId::from_uuid(id), policy, subject, role })
    }
}

/// The column that names the thing of a policy.
const fn column(noun: PolicyNoun) -> row::Column {
    match noun {
        PolicyNoun::Project => row::Column::ProjectId,
        PolicyNoun::Cluster => row::Column::ClusterId,
        PolicyNoun::Service => row::Column::ServiceId,
    }
}

fn on(policy: Policy) -> SimpleExpr {
    column(policy.noun()).eq(policy.id().uuid())
}

async fn list_on(connection: &impl ConnectionTrait, policy: Policy) -> Result<Vec<Binding>> {
    row::Entity::find()
        .filter(on(policy))
        .order_by_asc(row::Column::Id)
        .all(connection)
        .await
        .map_err(db("reading bindings"))?
        .into_iter()
        .map(Binding::try_from)
        .collect()
}

/// The bindings that a new thing comes with.
pub(crate) async fn grant_in_tx(write: &Write<'_>, policy: Policy, grant: &Grant) -> Result<()> {
    for (role, subjects) in grant.roles() {
        insert_in_tx(write, policy, *role, subjects).await?;
    }
    match grant.entry() {
        Some(entry) => write.audit(entry).await,
        None => Ok(()),
    }
}

async fn insert_in_tx(
    write: &Write<'_>,
    policy: Policy,
    role: Role,
    subjects: &[BindingSubject],
) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    for subject in subjects.iter().filter(|subject| seen.insert(**subject)) {
        let of = |noun| (policy.noun() == noun).then(|| policy.id().uuid());
        let (user, group) = match subject {
            BindingSubject::User(id) => (Some(id.uuid()), None),
            BindingSubject::Group(id) => (None, Some(id.uuid())),
        };
        let row = row::ActiveModel {
            id: set(BindingId::new().uuid()),
            project_id: set(of(PolicyNoun::Project)),
            cluster_id: set(of(PolicyNoun::Cluster)),
            service_id: set(of(PolicyNoun::Service)),
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
impl PolicyStore for Database {
    async fn binding_list(&self, policy: &Authorized<Policy, Read>) -> Result<Vec<Binding>> {
        list_on(&self.reader, **policy).await
    }

    async fn bindings_on(&self, policies: &[Authorized<Policy, Read>]) -> Result<Vec<Binding>> {
        let mut bindings = Vec::new();
        for chunk in policies.chunks(AT_ONCE) {
            let mut on = Condition::any();
            for noun in PolicyNoun::ALL {
                let ids =
                    chunk.iter().filter(|policy| policy.noun() == noun).map(|policy| policy.id().uuid());
                on = on.add(column(noun).is_in(ids));
            }
            let rows = row::Entity::find()
                .filter(on)
                .order_by_asc(row::Column::Id)
                .all(&self.reader)
                .await
                .map_err(db("reading bindings"))?;
            for row in rows {
                bindings.push(row.try_into()?);
            }
        }
        Ok(bindings)
    }

    async fn binding_replace(
        &self,
        by: Audited<'_, Policy, Admin>,
        roles: &[(Role, Vec<BindingSubject>)],
    ) -> Result<Vec<Binding>> {
        let policy = *by.target();
        let write = self.write().await?;
        for (role, subjects) in roles {
            row::Entity::delete_many()
                .filter(on(policy))
                .filter(row::Column::Role.eq(role.as_str()))
                .exec(&write.tx)
                .await
                .map_err(db("replacing bindings"))?;
            insert_in_tx(&write, policy, *role, subjects).await?;
        }
        write.audit(by.entry()).await?;
        let bindings = list_on(&write.tx, policy).await?;
        write.commit().await?;
        Ok(bindings)
    }
}
