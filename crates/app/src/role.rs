//! Roles that administrators of the installation make, beside the built-in ones.

use async_trait::async_trait;
use plural_core::Result;
use plural_core::access::Scope;
use plural_core::ids::RoleId;
use plural_core::role::{CustomRole, NewRole, RoleAlteration, check_role_name};

use crate::access::{Audited, Installation, Write, authorize_installation, noun};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::records::{Search, record};

/// Which role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleSelector {
    /// By id.
    Id(RoleId),
    /// By exact name.
    Name(String),
}

noun!(CustomRole, "role", r => Some(r.id.uuid()), r.name.to_string());
record!(CustomRole, RoleId, RoleSelector, Search, under: Scope::Installation);

/// Writing roles.
#[async_trait]
pub trait RoleStore: Send + Sync + 'static {
    /// A new role.
    async fn role_create(
        &self,
        by: Audited<'_, Installation, Write>,
        id: RoleId,
        new: &NewRole,
    ) -> Result<CustomRole>;
    /// A changed role.
    async fn role_update(
        &self,
        by: Audited<'_, CustomRole, Write>,
        change: &RoleAlteration,
    ) -> Result<CustomRole>;
    /// Removes a role; [`plural_core::Error::Conflict`] while it is bound, which names the bindings.
    async fn role_delete(&self, by: Audited<'_, CustomRole, Write>) -> Result<()>;
}

impl App {
    /// A new role; administrators only.
    pub async fn role_create(&self, ctx: &OpCtx, new: &NewRole) -> Result<CustomRole> {
        let by = authorize_installation::<Write>(ctx, Scope::Installation)?;
        check_role_name(&new.name)?;
        let id = RoleId::new();
        self.store.role_create(by.audited_new(ctx, "role.create", "role", id, &new.name), id, new).await
    }

    /// A changed role, wherever it is bound; administrators only.
    pub async fn role_update(&self, ctx: &OpCtx, id: RoleId, change: &RoleAlteration) -> Result<CustomRole> {
        let role = self.authorized::<CustomRole, Write>(ctx, &RoleSelector::Id(id)).await?;
        change.name.as_ref().map_or(Ok(()), check_role_name)?;
        let role = self.store.role_update(role.audited(ctx, "role.update"), change).await?;
        if change.rights.is_some() {
            self.proxy.access_changed();
        }
        Ok(role)
    }

    /// Removes a role that nobody has; administrators only.
    pub async fn role_delete(&self, ctx: &OpCtx, id: RoleId) -> Result<CustomRole> {
        let role = self.authorized::<CustomRole, Write>(ctx, &RoleSelector::Id(id)).await?;
        self.store.role_delete(role.audited(ctx, "role.delete")).await?;
        Ok(role.into_inner())
    }
}
