//! Revisions of all services: what changed lately.

use async_trait::async_trait;
use plural_core::access::{Visibility, visibility};
use plural_core::revision::Revision;
use plural_core::{Page, PageArgs, PageRequest, Result};

use crate::app::App;
use crate::ctx::OpCtx;

/// Revisions.
#[async_trait]
pub trait RevisionStore: Send + Sync + 'static {
    /// A page of those of visible services.
    async fn revision_list(&self, visible: &Visibility, page: &PageRequest) -> Result<Page<Revision>>;
}

impl App {
    /// A page of the revisions of the services that the caller may see, oldest first. The newest are at its end.
    pub async fn revision_list(&self, ctx: &OpCtx, page: &PageArgs) -> Result<Page<Revision>> {
        self.store.revision_list(&visibility(ctx.actor())?, &page.request()?).await
    }
}
