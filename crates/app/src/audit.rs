//! The audit log.

use plural_core::access::Scope;
use plural_core::{AuditRow, Page, PageArgs, Result};

use crate::access::{Read, authorize_installation};
use crate::app::App;
use crate::ctx::OpCtx;

impl App {
    /// Who did what; administrators only.
    pub async fn audit_list(&self, ctx: &OpCtx, page: &PageArgs) -> Result<Page<AuditRow>> {
        let by = authorize_installation::<Read>(ctx, Scope::AdminOnly)?;
        self.store.audit_list(&by, &page.request()?).await
    }
}
