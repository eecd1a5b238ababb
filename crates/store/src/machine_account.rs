//! Service accounts of the console, which are rows of `users`.

use async_trait::async_trait;
use plural_app::access::{Admin, Assume, Audited, Grant};
use plural_app::machine_account::{MachineAccountCreate, MachineAccountSelector, MachineAccountStore};
use plural_app::records::Search;
use plural_app::token::TokenCreate;
use plural_core::access::Visibility;
use plural_core::ids::{MachineAccountId, ProjectId, UserId};
use plural_core::machine_account::{MachineAccount, MachineAccountChange, NewMachineAccount};
use plural_core::policy::PolicyNoun;
use plural_core::project::Project;
use plural_core::token::AccessToken;
use plural_core::{Error, Result};
use sea_orm::sea_query::{Condition, LockType};
use sea_orm::{
    ActiveModelTrait, ActiveValue, ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect, Select,
};
use uuid::Uuid;

use crate::convert::parse;
use crate::database::{Database, corrupt};
use crate::error::{db, gone_or, unique};
use crate::page::search;
use crate::records::{Guard, Table};
use crate::transaction::{self, set};
use crate::user::{UNIQUE, row};
use crate::{policy, project, saved_view, token, user};

impl TryFrom<row::Model> for MachineAccount {
    type Error = Error;

    fn try_from(row: row::Model) -> Result<Self> {
        let row::Model {
            id,
            email,
            name,
            admin: _,
            password_hash: _,
            created_at,
            updated_at,
            project_id,
            suspended_at,
        } = row;
        Ok(Self {
            id: MachineAccountId::from_uuid(id),
            project_id: ProjectId::from_uuid(project_id.ok_or_else(|| corrupt("a service account"))?),
            email: parse(&email, "a service account's address")?,
            name: parse(&name, "a service account's name")?,
            suspended_at,
            created_at,
            updated_at,
        })
    }
}

impl Table for MachineAccount {
    type Row = row::Entity;
    const ID: row::Column = row::Column::Id;
    const READING: &'static str = "reading a service account";

    fn find(rows: Select<row::Entity>, by: &MachineAccountSelector) -> Select<row::Entity> {
        let rows = rows.filter(row::Column::ProjectId.is_not_null());
        match by {
            MachineAccountSelector::Id(id) => rows.filter(row::Column::Id.eq(id.uuid())),
            MachineAccountSelector::Email(email) => rows.filter(row::Column::Email.eq(email.as_str())),
        }
    }

    fn filter(rows: Select<row::Entity>, Search { q }: &Search) -> Select<row::Entity> {
        let rows = rows.filter(row::Column::ProjectId.is_not_null());
        search(rows, &[row::Column::Email, row::Column::Name], q.as_deref())
    }

    fn visible(to: &Visibility) -> Condition {
        policy::visible(to, &[row::Column::Id, row::Column::ProjectId], PolicyNoun::Project)
    }

    fn guard(&self) -> Guard {
        Guard::Policies(vec![self.id.into(), self.project_id.into()])
    }
}

/// Removes the service accounts of a project that goes, with all that is theirs.
pub(crate) async fn forget_of_in_tx(write: &transaction::Write<'_>, of: ProjectId) -> Result<()> {
    let doing = "removing service accounts";
    let owned: Vec<Uuid> = row::Entity::find()
        .select_only()
        .column(row::Column::Id)
        .filter(row::Column::ProjectId.eq(of.uuid()))
        .order_by_asc(row::Column::Id)
        .lock_exclusive()
        .into_tuple()
        .all(&write.tx)
        .await
        .map_err(db(doing))?;
    for id in owned {
        forget_in_tx(write, id).await?;
    }
    Ok(())
}

/// Removes a service account with its views, tokens and bindings. Its row is locked.
pub(crate) async fn forget_in_tx(write: &transaction::Write<'_>, id: Uuid) -> Result<()> {
    saved_view::forget_of_in_tx(write, UserId::from_uuid(id)).await?;
    row::Entity::delete_by_id(id).exec(&write.tx).await.map_err(db("removing a service account"))?;
    policy::forget_in_tx(write, MachineAccountId::from_uuid(id)).await
}

#[async_trait]
impl MachineAccountStore for Database {
    async fn machine_account_create(
        &self,
        by: Audited<'_, Project, Admin>,
        account: &MachineAccountCreate,
        grant: &Grant,
    ) -> Result<MachineAccount> {
        let MachineAccountCreate { id, email, new } = account;
        let NewMachineAccount { name, email: _, project_id: _, assume: _ } = new;
        let (project, at) = (by.target().id, by.entry().at);
        let write = self.write().await?;
        // It must not go while something is made in it.
        let known = project::row::Entity::find_by_id(project.uuid()).lock(LockType::KeyShare).one(&write.tx);
        known.await.map_err(db("reading a project"))?.ok_or(Error::not_found("project"))?;
        policy::make_in_tx(&write, &[((*id).into(), Some(project.into()))]).await?;
        let row = row::ActiveModel {
            id: set(id.uuid()),
            email: set(email.to_string()),
            name: set(name.to_string()),
            admin: set(false),
            password_hash: set(None),
            suspended_at: set(None),
            created_at: set(at),
            updated_at: set(at),
            project_id: set(Some(project.uuid())),
        };
        let row = row.insert(&write.tx).await.map_err(unique("making a service account", UNIQUE))?;
        policy::grant_in_tx(&write, Some(grant)).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn machine_account_update(
        &self,
        by: Audited<'_, MachineAccount, Admin>,
        change: &MachineAccountChange,
        grant: Option<&Grant>,
    ) -> Result<MachineAccount> {
        let MachineAccountChange { name, assume: _ } = change;
        let write = self.write().await?;
        let mut row = row::ActiveModel {
            id: ActiveValue::Unchanged(by.target().id.uuid()),
            updated_at: set(by.entry().at),
            ..Default::default()
        };
        if let Some(name) = name {
            row.name = set(name.to_string());
        }
        let gone = gone_or("service account", unique("changing a service account", UNIQUE));
        let row = row.update(&write.tx).await.map_err(gone)?;
        policy::grant_in_tx(&write, grant).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        row.try_into()
    }

    async fn machine_account_delete(&self, by: Audited<'_, MachineAccount, Admin>) -> Result<()> {
        let write = self.write().await?;
        user::proven_in_tx(&write, Some(by.target().user_id()), None, by.entry().at).await?;
        forget_in_tx(&write, by.target().id.uuid()).await?;
        write.audit(by.entry()).await?;
        write.commit().await
    }

    async fn machine_account_token(
        &self,
        by: Audited<'_, MachineAccount, Assume>,
        token: &TokenCreate,
    ) -> Result<AccessToken> {
        let write = self.write().await?;
        let made = token::make_in_tx(&write, by.target().user_id(), token, by.entry().at).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(made)
    }

    async fn machine_account_end_tokens(&self, by: Audited<'_, MachineAccount, Admin>) -> Result<u64> {
        let write = self.write().await?;
        // Who makes one at this moment waits, or has made it by now.
        user::proven_in_tx(&write, Some(by.target().user_id()), None, by.entry().at).await?;
        let ended = token::end_in_tx(&write, by.target().id.uuid(), token::Ended::All).await?;
        write.audit(by.entry()).await?;
        write.commit().await?;
        Ok(ended)
    }
}
