//! Saved views: pages of the web console with their filters.

use async_trait::async_trait;
use plural_core::access::{Actor, Scope};
use plural_core::ids::SavedViewId;
use plural_core::saved_view::{NewSavedView, SavedView, SavedViewChange, check_query};
use plural_core::{Error, Result};

use crate::access::{
    Admin, Audited, Bindable, Grant, Installation, Read, Write, authorize_installation, noun,
};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::records::record;

/// Which views a list shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedViewFilter {
    /// Those of this page.
    pub page: Option<String>,
    /// Those with this in their name, in any case.
    pub q: Option<String>,
}

noun!(SavedView, "saved view", v => Some(v.id.uuid()), v.name.to_string());
record!(SavedView, SavedViewId, SavedViewId, SavedViewFilter);

impl Bindable for SavedView {
    fn policy(&self) -> plural_core::policy::Policy {
        self.id.into()
    }
}

/// Writing saved views.
#[async_trait]
pub trait SavedViewStore: Send + Sync + 'static {
    /// A new view with its policy; [`Error::Conflict`] for a name that its owner has for this page already, and for one
    /// too many of an owner.
    async fn saved_view_create(
        &self,
        by: Audited<'_, Installation, Read>,
        view: &SavedView,
        grant: &Grant,
    ) -> Result<()>;
    /// A changed view.
    async fn saved_view_update(
        &self,
        by: Audited<'_, SavedView, Write>,
        change: &SavedViewChange,
        grant: Option<&Grant>,
    ) -> Result<SavedView>;
    /// Removes a view with its policy.
    async fn saved_view_delete(&self, by: Audited<'_, SavedView, Admin>) -> Result<()>;
}

impl App {
    /// A new view of the user who asks, who administers it.
    pub async fn saved_view_create(&self, ctx: &OpCtx, new: NewSavedView) -> Result<SavedView> {
        let NewSavedView { name, page, query, bindings } = new;
        check_query(&query)?;
        let by = authorize_installation::<Read>(ctx, Scope::Installation)?;
        let Actor::User(owner) = ctx.actor() else {
            return Err(Error::forbidden("only users own saved views"));
        };
        let id = SavedViewId::new();
        let at = ctx.now();
        let view = SavedView { id, owner_id: owner.id, name, page, query, created_at: at, updated_at: at };
        let grant = Grant::to_owner(&by, ctx, id.into(), owner.id, &bindings);
        let by = by.audited_new(ctx, "savedView.create", "saved view", id, &view.name);
        self.store.saved_view_create(by, &view, &grant).await?;
        Ok(view)
    }

    /// A changed view; its bindings need admin access to it.
    pub async fn saved_view_update(
        &self,
        ctx: &OpCtx,
        id: SavedViewId,
        change: &SavedViewChange,
    ) -> Result<SavedView> {
        change.query.as_deref().map_or(Ok(()), check_query)?;
        let grant = if change.bindings.is_empty() {
            None
        } else {
            let view = self.authorized::<SavedView, Admin>(ctx, &id).await?;
            Some(Grant::on(&view, ctx, &change.bindings)?.keeping(view.owner_id))
        };
        let view = self.authorized::<SavedView, Write>(ctx, &id).await?;
        self.store.saved_view_update(view.audited(ctx, "savedView.update"), change, grant.as_ref()).await
    }

    /// Removes a view; needs admin access to it.
    pub async fn saved_view_delete(&self, ctx: &OpCtx, id: SavedViewId) -> Result<SavedView> {
        let view = self.authorized::<SavedView, _>(ctx, &id).await?;
        self.store.saved_view_delete(view.audited(ctx, "savedView.delete")).await?;
        Ok(view.into_inner())
    }
}
