//! Registration tokens, and the clusters that are made with them.

use std::collections::BTreeMap;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_app::access::{Audited, Write};
use plural_app::ports::agents::FeedSubject;
use plural_app::registration_token::{
    ClusterRegister, RegistrationTokenCreate, RegistrationTokenFilter, RegistrationTokenStore,
};
use plural_app::secret::TokenHash;
use plural_core::access::{RegistrationActor, UserActor, Visibility};
use plural_core::audit::{AuditEntry, AuditTarget};
use plural_core::cluster::{Cluster, TagsChange};
use plural_core::cluster_tags::{TagAuthority, TagLevel};
use plural_core::ids::{ClusterId, ProjectId, RegistrationTokenId, TokenId, UserId};
use plural_core::policy::PolicyNoun;
use plural_core::project::Project;
use plural_core::registration_token::{MOST, RegistrationTerms, RegistrationToken};
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, IntoActiveModel as _, PaginatorTrait,
    QueryFilter, QuerySelect, Select,
};

use crate::convert::{json, parse, to_json};
use crate::database::Database;
use crate::error::db;
use crate::records::{Guard, Table};
use crate::transaction::{self, set};
use crate::{cluster, deploy_token, group, policy, project, token, user};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "registration_tokens")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub project_id: Uuid,
        /// In whose name it makes clusters.
        pub user_id: Uuid,
        pub name: Option<String>,
        pub hash: Vec<u8>,
        pub hint: String,
        pub terms: Json,
        pub uses: i32,
        pub last_used_at: Option<DateTimeUtc>,
        pub expires_at: DateTimeUtc,
        pub made_with: Option<Uuid>,
        /// The login that it comes from, and ends with.
        pub identity_id: Option<Uuid>,
        pub created_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

/// Which clusters were made with which token.
mod registered {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "registered_clusters")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub cluster_id: Uuid,
        pub registration_token_id: Uuid,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

impl TryFrom<row::Model> for RegistrationToken {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            project_id,
            user_id,
            name,
            hash: _,
            hint,
            terms,
            uses,
            last_used_at,
            expires_at,
            made_with,
            identity_id: _,
            created_at,
        } = row;
        Ok(Self {
            id: RegistrationTokenId::from_uuid(id),
            project_id: ProjectId::from_uuid(project_id),
            user_id: UserId::from_uuid(user_id),
            name: name.map(|name| parse(&name, "a registration token's name")).transpose()?,
            hint,
            terms: terms_of(terms)?,
            uses: uses.cast_unsigned(),
            last_used_at,
            expires_at,
            made_with: made_with.map(TokenId::from_uuid),
            created_at,
        })
    }
}

fn terms_of(terms: sea_orm::JsonValue) -> Result<RegistrationTerms> {
    json(terms, "what a registration token gives")
}

impl Table for RegistrationToken {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a registration token";

    fn find(rows: Select<row::Entity>, by: &RegistrationTokenId) -> Select<row::Entity> {
        rows.filter(row::Column::Id.eq(by.uuid()))
    }

    fn filter(rows: Select<row::Entity>, filter: &RegistrationTokenFilter) -> Select<row::Entity> {
        let RegistrationTokenFilter { project_id } = filter;
        match project_id {
            Some(project) => rows.filter(row::Column::ProjectId.eq(project.uuid())),
            None => rows,
        }
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.project_id.into()])
    }
}

/// The cluster that has a handle already, with other tokens for its agent: if this token made it and no agent was heard of.
async fn again_in_tx(
    write: &mut transaction::Write<'_>,
    known: cluster::row::Model,
    register: &ClusterRegister,
    by: &AuditEntry,
) -> Result<cluster::row::Model> {
    let id = ClusterId::from_uuid(known.id);
    let made = registered::Entity::find_by_id(known.id).one(&write.tx).await;
    let made = made.map_err(db("reading how a cluster was made"))?;
    let is_own = made.is_some_and(|made| made.registration_token_id == register.token.uuid());
    let is_heard = known.pinged_at.is_some() || deploy_token::is_joined_in_tx(write, known.id).await?;
    if !is_own || is_heard || known.deleted_at.is_some() {
        // The same for each: whose a handle is, is not for a machine to know.
        return Err(Error::conflict("a cluster with this handle already exists; choose another"));
    }
    let row = deploy_token::replace_in_tx(write, id, &register.create.token_hash, by.at).await?;
    let target = AuditTarget { id: Some(known.id), ..by.target.clone() };
    write.audit(&AuditEntry { action: "cluster.register".into(), target, ..by.clone() }).await?;
    write.publish(FeedSubject::Cluster { cluster_id: id }, by.at).await?;
    Ok(row)
}

/// A new cluster, if its token makes one more.
async fn make_in_tx(
    write: &mut transaction::Write<'_>,
    token: row::Model,
    register: &ClusterRegister,
    by: &AuditEntry,
) -> Result<cluster::row::Model> {
    let ClusterRegister { create, token: _, terms, join_hash: _, join_expires_at: _ } = register;
    if let Some(limit) = terms.limit
        && token.uses.cast_unsigned() >= limit
    {
        return Err(Error::conflict(format!(
            "the registration token made {} clusters, which is its limit; ask for another token",
            token.uses
        )));
    }
    // What the token gives, its maker gives; the rest is the machine's own wish.
    let given = TagsChange::All(terms.tags.clone());
    let (tags, levels) = create.tags_by.over(&given, &BTreeMap::new(), BTreeMap::new())?;
    let own = TagAuthority { level: TagLevel::Cluster, ..create.tags_by.clone() };
    let wished = TagsChange::Edit { set: create.new.tags.clone(), remove: std::collections::BTreeSet::new() };
    let tags = own.over(&wished, &tags, levels)?;
    let project = ProjectId::from_uuid(token.project_id);
    let row = cluster::make_in_tx(write, project, create, tags, by.at).await?;
    let made = registered::Model { cluster_id: row.id, registration_token_id: token.id };
    made.into_active_model().insert(&write.tx).await.map_err(db("keeping how a cluster was made"))?;
    let used = row::ActiveModel {
        id: ActiveValue::Unchanged(token.id),
        uses: set(token.uses.saturating_add(1)),
        last_used_at: set(Some(by.at)),
        ..Default::default()
    };
    used.update(&write.tx).await.map_err(db("counting the clusters of a registration token"))?;
    write.audit(by).await?;
    Ok(row)
}

#[async_trait]
impl RegistrationTokenStore for Database {
    async fn registration_token_create(
        &self,
        by: Audited<'_, Project, Write>,
        create: &RegistrationTokenCreate,
    ) -> Result<RegistrationToken> {
        let RegistrationTokenCreate { token, hash, proof } = create;
        let RegistrationToken {
            id,
            project_id,
            user_id,
            name,
            hint,
            terms,
            uses: _,
            last_used_at: _,
            expires_at,
            made_with,
            created_at,
        } = token;
        let doing = "making a registration token";
        let at = by.entry().at;
        let write = self.write().await?;
        // Of two that make the last one, one waits. Before the user: whoever deletes the project takes both in this order.
        let known = project::row::Entity::find_by_id(project_id.uuid()).lock(LockType::NoKeyUpdate);
        known.one(&write.tx).await.map_err(db("reading a project"))?.ok_or(Error::not_found("project"))?;
        user::proven_in_tx(&write, Some(*user_id), proof.as_ref(), at).await?;
        let login = token::login_in_tx(&write, user_id.uuid(), None, proof.as_ref()).await?;
        let ends =
            login.as_ref().and_then(|login| login.ends).map_or(*expires_at, |end| end.min(*expires_at));
        row::Entity::delete_many()
            .filter(row::Column::ProjectId.eq(project_id.uuid()))
            .filter(row::Column::ExpiresAt.lt(at - chrono::TimeDelta::days(30)))
            .exec(&write.tx)
            .await
            .map_err(db("removing expired registration tokens"))?;
        let there = row::Entity::find()
            .filter(row::Column::ProjectId.eq(project_id.uuid()))
            .filter(row::Column::ExpiresAt.gte(at));
        if there.count(&write.tx).await.map_err(db(doing))? >= MOST {
            return Err(Error::conflict(format!(
                "the project has {MOST} registration tokens, which is the limit: delete one first"
            )));
        }
        let row = row::ActiveModel {
            id: set(id.uuid()),
            project_id: set(project_id.uuid()),
            user_id: set(user_id.uuid()),
            name: set(name.as_ref().map(ToString::to_string)),
            hash: set(hash.as_bytes().to_vec()),
            hint: set(hint.clone()),
            terms: set(to_json(terms, "what a registration token gives")?),
            uses: set(0),
            last_used_at: set(None),
            expires_at: set(ends),
            made_with: set(made_with.map(TokenId::uuid)),
            identity_id: set(login.map(|login| login.id)),
            created_at: set(*created_at),
        };
        if let Some(parent) = made_with {
            // It may have been revoked a moment ago.
            let parent = token::row::Entity::find_by_id(parent.uuid()).lock_shared().one(&write.tx).await;
            parent.map_err(db("reading a token"))?.ok_or(Error::Unauthenticated)?;
        }
        let row = row.insert(&write.tx).await.map_err(db(doing))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn registration_token_delete(&self, by: Audited<'_, RegistrationToken, Write>) -> Result<()> {
        let write = self.write().await?;
        // A machine that makes a cluster at this moment waits, or has made it by now.
        let gone = row::Entity::delete_by_id(by.target().id.uuid()).exec(&write.tx).await;
        if gone.map_err(db("revoking a registration token"))?.rows_affected == 0 {
            return Err(Error::not_found("registration token"));
        }
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn registration_actor(
        &self,
        hash: &TokenHash,
        now: DateTime<Utc>,
    ) -> Result<Option<RegistrationActor>> {
        let row = row::Entity::find()
            .filter(row::Column::Hash.eq(hash.as_bytes().to_vec()))
            .one(&self.reader)
            .await
            .map_err(db("looking up a registration token"))?;
        let Some(token) = row.filter(|row| row.expires_at > now) else { return Ok(None) };
        let maker = user::row::Entity::find_by_id(token.user_id).one(&self.reader).await;
        let maker = maker.map_err(db("looking up the maker of a registration token"))?;
        let Some(maker) = maker.filter(|maker| maker.suspended_at.is_none()) else { return Ok(None) };
        let groups = group::ids_of_on(&self.reader, maker.id).await?;
        Ok(Some(RegistrationActor {
            token: RegistrationTokenId::from_uuid(token.id),
            hint: token.hint,
            project: ProjectId::from_uuid(token.project_id),
            terms: terms_of(token.terms)?,
            maker: UserActor {
                id: UserId::from_uuid(maker.id),
                email: maker.email,
                admin: maker.admin,
                groups,
                token: None,
            },
        }))
    }

    async fn cluster_register(
        &self,
        by: Audited<'_, Project, Write>,
        register: &ClusterRegister,
    ) -> Result<Cluster> {
        let at = by.entry().at;
        let mut write = self.write().await?;
        // Machines that start at once with one token take turns: the limit counts all of them.
        let token = row::Entity::find_by_id(register.token.uuid()).lock_exclusive().one(&write.tx).await;
        let token = token.map_err(db("reading a registration token"))?.ok_or(Error::Unauthenticated)?;
        if token.expires_at <= at {
            return Err(Error::Unauthenticated);
        }
        let handle = register.create.handle.as_str();
        let known = cluster::row::Entity::find()
            .filter(cluster::row::Column::Handle.eq(handle))
            .lock_exclusive()
            .one(&write.tx)
            .await
            .map_err(db("looking for a cluster of this handle"))?;
        let row = match known {
            Some(known) => again_in_tx(&mut write, known, register, by.entry()).await?,
            None => make_in_tx(&mut write, token, register, by.entry()).await?,
        };
        let id = ClusterId::from_uuid(row.id);
        deploy_token::join_in_tx(&write, id, &register.join_hash, register.join_expires_at).await?;
        write.commit().await?;
        row.try_into()
    }
}
