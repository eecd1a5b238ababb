//! Many things at once, in as many statements as for one.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use async_trait::async_trait;
use plural_app::access::{Authorized, Installation, Read, Write};
use plural_app::many::{KeptSecrets, ManyStore};
use plural_app::rendering::ServiceSecrets;
use plural_app::seal::Sealed;
use plural_core::Result;
use plural_core::component::Component;
use plural_core::group::Group;
use plural_core::ids::{GroupId, RevisionId, ServiceId, UserId};
use plural_core::revision::Revision;
use plural_core::service::Service;
use plural_core::service_error::ServiceError;
use plural_core::user::User;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};
use uuid::Uuid;

use crate::database::Database;
use crate::error::db;
use crate::records::AT_ONCE;
use crate::service_import::Outputs;
use crate::{component, group, revision, service_context, service_error, service_import, user};

#[async_trait]
impl ManyStore for Database {
    async fn services_components(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<Component>>> {
        let ids: Vec<Uuid> = services.iter().map(|service| service.id.uuid()).collect();
        let mut found = component::list_on(&self.reader, &ids).await?;
        Ok(services
            .iter()
            .map(|service| (service.id, found.remove(&service.id.uuid()).unwrap_or_default()))
            .collect())
    }

    async fn services_errors(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Vec<ServiceError>>> {
        let ids: Vec<Uuid> = services.iter().map(|service| service.id.uuid()).collect();
        let found = service_error::list_on(&self.reader, &ids).await?;
        Ok(services
            .iter()
            .map(|service| {
                (
                    service.id,
                    found.get(&service.id.uuid()).map(service_error::Errors::all).unwrap_or_default(),
                )
            })
            .collect())
    }

    async fn services_revisions(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, Revision>> {
        let ids: Vec<Uuid> = services.iter().map(|service| service.revision_id.uuid()).collect();
        let found = revision::revisions_by_id(&self.reader, &ids).await?;
        let mut found: HashMap<RevisionId, Revision> =
            found.into_iter().map(|revision| (revision.id, revision)).collect();
        Ok(services
            .iter()
            .filter_map(|service| Some((service.id, found.remove(&service.revision_id)?)))
            .collect())
    }

    async fn services_secrets(
        &self,
        services: &[Authorized<Service, Write>],
    ) -> Result<HashMap<ServiceId, ServiceSecrets>> {
        let mut found = HashMap::with_capacity(services.len());
        for chunk in services.chunks(AT_ONCE) {
            let ids: Vec<Uuid> = chunk.iter().map(|service| service.settings_revision().uuid()).collect();
            let mut secrets = revision::secrets_on(&self.reader, &ids).await?;
            found.extend(chunk.iter().filter_map(|service| {
                Some((service.id, secrets.remove(&service.settings_revision().uuid())?))
            }));
        }
        Ok(found)
    }

    async fn services_kept(
        &self,
        services: &[Authorized<Service, Write>],
    ) -> Result<HashMap<ServiceId, KeptSecrets>> {
        let mut found = HashMap::with_capacity(services.len());
        for chunk in services.chunks(AT_ONCE) {
            let ids: Vec<Uuid> = chunk.iter().map(|service| service.id.uuid()).collect();
            let mut revisions = revision::kept_on(&self.reader, &ids).await?;
            let mut contexts =
                service_context::of_services_on(&self.reader, &ids, Outputs::Sensitive).await?;
            let mut imports = service_import::of_services_on(&self.reader, &ids, Outputs::Sensitive).await?;
            found.extend(ids.into_iter().map(|id| {
                let revisions = revisions.remove(&id).unwrap_or_default();
                let contexts = contexts.remove(&id).unwrap_or_default();
                let imports = imports.remove(&id).unwrap_or_default();
                (ServiceId::from_uuid(id), KeptSecrets { revisions, contexts, imports })
            }));
        }
        Ok(found)
    }

    async fn services_configurations(
        &self,
        services: &[Authorized<Service, Write>],
    ) -> Result<HashMap<ServiceId, Sealed>> {
        use revision::row::Column;
        let mut found = HashMap::with_capacity(services.len());
        for chunk in services.chunks(AT_ONCE) {
            let rows: Vec<(Uuid, Vec<u8>)> = revision::row::Entity::find()
                .select_only()
                .column(Column::ServiceId)
                .column(Column::Configuration)
                .filter(Column::Id.is_in(chunk.iter().map(|service| service.settings_revision().uuid())))
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db("reading configurations"))?;
            let rows = rows.into_iter();
            found.extend(rows.map(|(id, bytes)| (ServiceId::from_uuid(id), Sealed::from_bytes(bytes))));
        }
        Ok(found)
    }

    async fn groups_members(
        &self,
        _by: &Authorized<Installation, Read>,
        groups: &[GroupId],
    ) -> Result<Vec<(GroupId, User)>> {
        let groups: Vec<Uuid> = groups.iter().map(|id| id.uuid()).collect();
        let mut pairs = self.memberships(group::member::Column::GroupId, &groups).await?;
        let global: Vec<Uuid> =
            group::global_on(&self.reader).await?.into_iter().filter(|id| groups.contains(id)).collect();
        if !global.is_empty() {
            let all = self.user_ids().await?;
            pairs.retain(|(group, _)| !global.contains(group));
            pairs.extend(global.iter().flat_map(|group| all.iter().map(|user| (*group, *user))));
        }
        let ids: Vec<Uuid> = unique(pairs.iter().map(|(_, user)| *user));
        let users: Vec<User> =
            self.rows::<user::row::Entity, _>(user::row::Column::Id, &ids, "reading members").await?;
        let users: HashMap<Uuid, User> = users.into_iter().map(|user| (user.id.uuid(), user)).collect();
        Ok(pairs
            .into_iter()
            .filter_map(|(group, user)| Some((GroupId::from_uuid(group), users.get(&user)?.clone())))
            .collect())
    }

    async fn users_groups(
        &self,
        _by: &Authorized<Installation, Read>,
        users: &[UserId],
    ) -> Result<Vec<(UserId, Group)>> {
        let users: Vec<Uuid> = users.iter().map(|id| id.uuid()).collect();
        let mut pairs = self.memberships(group::member::Column::UserId, &users).await?;
        let global = group::global_on(&self.reader).await?;
        pairs.retain(|(group, _)| !global.contains(group));
        pairs.extend(global.iter().flat_map(|group| users.iter().map(|user| (*group, *user))));
        let ids: Vec<Uuid> = unique(pairs.iter().map(|(group, _)| *group));
        let groups: Vec<Group> =
            self.rows::<group::row::Entity, _>(group::row::Column::Id, &ids, "reading groups").await?;
        let groups: HashMap<Uuid, Group> = groups.into_iter().map(|group| (group.id.uuid(), group)).collect();
        Ok(pairs
            .into_iter()
            .filter_map(|(group, user)| Some((UserId::from_uuid(user), groups.get(&group)?.clone())))
            .collect())
    }
}

impl Database {
    /// Every user, oldest first.
    async fn user_ids(&self) -> Result<Vec<Uuid>> {
        user::row::Entity::find()
            .select_only()
            .column(user::row::Column::Id)
            .order_by_asc(user::row::Column::Id)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("reading users"))
    }

    /// Group and user of each membership, oldest group and user first.
    async fn memberships(&self, of: group::member::Column, ids: &[Uuid]) -> Result<Vec<(Uuid, Uuid)>> {
        use group::member::Column;
        let mut found = Vec::new();
        for chunk in ids.chunks(AT_ONCE) {
            let rows: Vec<(Uuid, Uuid)> = group::member::Entity::find()
                .select_only()
                .column(Column::GroupId)
                .column(Column::UserId)
                .filter(of.is_in(chunk.iter().copied()))
                .order_by_asc(Column::GroupId)
                .order_by_asc(Column::UserId)
                .into_tuple()
                .all(&self.reader)
                .await
                .map_err(db("reading memberships"))?;
            found.extend(rows);
        }
        Ok(found)
    }
}

fn unique<T: Eq + Hash, C: FromIterator<T>>(items: impl Iterator<Item = T>) -> C {
    items.collect::<HashSet<T>>().into_iter().collect()
}
