//! What services' objects say of themselves.

use std::collections::HashMap;

use async_trait::async_trait;
use plural_core::Result;
use plural_core::ids::ServiceId;
use plural_core::service::Service;
use plural_core::service_metadata::ServiceMetadata;

use crate::access::{Authorized, Read};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::masking;

/// Images and host names.
#[async_trait]
pub trait ServiceMetadataStore: Send + Sync + 'static {
    /// What the objects of services say of themselves; a service whose agent has not told is left out.
    async fn services_metadata(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, ServiceMetadata>>;
}

impl App {
    /// Images and host names of services, as their agents last read them from what was rendered; a service whose agent has
    /// not told is left out.
    pub async fn services_metadata(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, ServiceMetadata>> {
        let mut found =
            self.store.services_metadata(&self.authorized_many::<Service, _>(ctx, ids).await?).await?;
        let masks = self.masks(ctx, found.keys().copied()).await?;
        for (id, metadata) in &mut found {
            masks.apply(*id, metadata, masking::metadata);
        }
        Ok(found)
    }
}
