//! Identity providers.

use async_trait::async_trait;
use plural_app::access::{Audited, Installation, Write};
use plural_app::identity_provider::{
    IdentityProviderCreate, IdentityProviderRow, IdentityProviderSelector, IdentityProviderStore,
};
use plural_app::records::Search;
use plural_app::seal::Sealed;
use plural_app::user::Proof;
use plural_core::access::Scope;
use plural_core::identity_provider::{IdentityProvider, MappedGroup, NewIdentityProvider, ProviderSettings};
use plural_core::ids::{GroupId, IdentityProviderId};
use plural_core::{Error, Result};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::convert::parse;
use crate::database::{Database, corrupt};
use crate::error::{db, gone_or, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::set;
use crate::{given_membership, user};

pub(crate) mod row {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "identity_providers")]
    pub(crate) struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Uuid,
        pub name: String,
        pub issuer: String,
        pub client_id: String,
        pub secret: Option<Vec<u8>>,
        pub scopes: String,
        pub groups_claim: Option<String>,
        pub mapped_groups: String,
        pub domains: String,
        pub creates_users: bool,
        pub created_at: DateTimeUtc,
        pub updated_at: DateTimeUtc,
    }

    #[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
    pub(crate) enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}

const UNIQUE: &[(&str, &str)] =
    &[("identity_providers_name_key", "an identity provider with this name already exists; choose another")];
/// Providers that a sign-in page offers.
const OFFERED: u64 = 50;

/// How a mapped group is stored.
#[derive(Serialize, Deserialize)]
struct Mapped {
    claim: String,
    group: Uuid,
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn mapped_text(groups: &[MappedGroup]) -> Result<String> {
    let groups: Vec<Mapped> = groups
        .iter()
        .map(|MappedGroup { claim, group }| Mapped { claim: claim.clone(), group: group.uuid() })
        .collect();
    serde_json::to_string(&groups).map_err(|cause| Error::internal("writing a provider's groups", cause))
}

impl TryFrom<row::Model> for IdentityProvider {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            name,
            issuer,
            client_id,
            secret,
            scopes,
            groups_claim,
            mapped_groups,
            domains,
            creates_users,
            created_at,
            updated_at,
        } = row;
        let groups: Vec<Mapped> =
            serde_json::from_str(&mapped_groups).map_err(|_| corrupt("a provider's groups"))?;
        let groups = groups.into_iter();
        Ok(Self {
            id: IdentityProviderId::from_uuid(id),
            name: parse(&name, "a provider's name")?,
            issuer: parse(&issuer, "a provider's issuer")?,
            client_id,
            has_secret: secret.is_some(),
            scopes: words(&scopes),
            groups_claim,
            groups: groups
                .map(|Mapped { claim, group }| MappedGroup { claim, group: GroupId::from_uuid(group) })
                .collect(),
            domains: words(&domains),
            creates_users,
            created_at,
            updated_at,
        })
    }
}

impl Table for IdentityProvider {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading an identity provider";

    fn find(rows: Select<row::Entity>, by: &IdentityProviderSelector) -> Select<row::Entity> {
        match by {
            IdentityProviderSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            IdentityProviderSelector::Name(name) => rows.filter(row::Column::Name.eq(name.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        search(rows, &[row::Column::Name], q.as_deref())
    }

    fn guard(&self) -> Guard {
        Guard::Scope(Scope::AdminOnly)
    }
}

#[async_trait]
impl IdentityProviderStore for Database {
    async fn identity_provider_create(
        &self,
        by: Audited<'_, Installation, Write>,
        create: IdentityProviderCreate,
    ) -> Result<IdentityProvider> {
        let IdentityProviderCreate { id, new: NewIdentityProvider { name, issuer, settings }, secret, proof } =
            create;
        let ProviderSettings { client_id, scopes, groups_claim, groups, domains, creates_users } = settings;
        let at = by.entry().at;
        let write = self.write().await?;
        user::proven_in_tx(&write, None, proof.as_ref(), at).await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            name: set(name.to_string()),
            issuer: set(issuer.to_string()),
            client_id: set(client_id),
            secret: set(secret.map(Sealed::into_bytes)),
            scopes: set(scopes.join(" ")),
            groups_claim: set(groups_claim),
            mapped_groups: set(mapped_text(&groups)?),
            domains: set(domains.join(" ")),
            creates_users: set(creates_users),
            created_at: set(at),
            updated_at: set(at),
        };
        let row = row.insert(&write.tx).await.map_err(unique("making an identity provider", UNIQUE))?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn identity_provider_update(
        &self,
        by: Audited<'_, IdentityProvider, Write>,
        settings: &ProviderSettings,
        secret: Option<Sealed>,
        proof: Option<&Proof>,
    ) -> Result<IdentityProvider> {
        let ProviderSettings { client_id, scopes, groups_claim, groups, domains, creates_users } = settings;
        let id = by.target().id.uuid();
        let at = by.entry().at;
        let write = self.write().await?;
        user::proven_in_tx(&write, None, proof, at).await?;
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(id),
            client_id: set(client_id.clone()),
            scopes: set(scopes.join(" ")),
            groups_claim: set(groups_claim.clone()),
            mapped_groups: set(mapped_text(groups)?),
            domains: set(domains.join(" ")),
            creates_users: set(*creates_users),
            updated_at: set(at),
            ..Default::default()
        };
        if let Some(secret) = secret {
            row.secret = set(Some(secret.into_bytes()));
        }
        let doing = unique("changing an identity provider", UNIQUE);
        let row = row.update(&write.tx).await.map_err(gone_or("identity provider", doing))?;
        let mapped: Vec<_> = groups.iter().map(|mapped| mapped.group.uuid()).collect();
        given_membership::take_in_tx(&write, id, None, &mapped).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn identity_provider_delete(&self, by: Audited<'_, IdentityProvider, Write>) -> Result<()> {
        let write = self.write().await?;
        given_membership::take_in_tx(&write, by.target().id.uuid(), None, &[]).await?;
        row::Entity::delete_by_id(by.target().id.uuid())
            .exec(&write.tx)
            .await
            .map_err(db("deleting an identity provider"))?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn identity_provider_names(&self) -> Result<Vec<String>> {
        row::Entity::find()
            .select_only()
            .column(row::Column::Name)
            .order_by_asc(row::Column::Name)
            .limit(OFFERED)
            .into_tuple()
            .all(&self.reader)
            .await
            .map_err(db("listing identity providers"))
    }

    async fn identity_provider_row(
        &self,
        by: &IdentityProviderSelector,
    ) -> Result<Option<IdentityProviderRow>> {
        let row = IdentityProvider::find(row::Entity::find(), by).one(&self.reader).await;
        let Some(row) = row.map_err(db("reading an identity provider"))? else { return Ok(None) };
        let secret = row.secret.clone().map(Sealed::from_bytes);
        Ok(Some(IdentityProviderRow { provider: row.try_into()?, secret }))
    }
}
