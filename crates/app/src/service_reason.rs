//! Why services are not as they should be: what their errors, pins, windows, syncs and agents come to in one line.

use std::collections::HashMap;

use plural_core::Result;
use plural_core::cluster::Cluster;
use plural_core::ids::{ClusterId, ServiceId};
use plural_core::service::{PinUntil, Service};
use plural_core::service_error::ServiceError;
use plural_core::service_reason::{ReasonInput, ServiceReason, service_reason};
use plural_core::sync::ServiceSync;
use plural_core::sync_window::{WindowHold, window_hold};

use crate::access::{Authorized, Read};
use crate::app::App;
use crate::ctx::OpCtx;

impl App {
    /// The cause to tell first of each service; one that is as it should be is left out.
    pub async fn services_reasons(
        &self,
        ctx: &OpCtx,
        ids: &[ServiceId],
    ) -> Result<HashMap<ServiceId, ServiceReason>> {
        let services = self.authorized_many::<Service, Read>(ctx, ids).await?;
        let clusters: Vec<ClusterId> = services.iter().map(|one| one.cluster_id).collect();
        let clusters = self.get_many::<Cluster>(ctx, &clusters).await?;
        let presence = self.agents_presence(clusters.values()).await?;
        let holds = self.window_holds(&services).await?;
        let errors = self.services_errors(ctx, ids).await?;
        let syncs = self.services_syncs(ctx, ids).await?;
        // Of one that is healthy, or fails for an error, components say nothing that counts.
        let open = services.iter().filter(|one| one.status != plural_core::status::ServiceStatus::Healthy);
        let open: Vec<ServiceId> = open.map(|one| one.id).collect();
        let components = self.services_components(ctx, &open).await?;
        let (no_errors, no_components, no_sync) = (Vec::new(), Vec::new(), ServiceSync::default());
        let reason = |service: &Authorized<Service, Read>| {
            let id = service.id;
            let input = ReasonInput {
                service,
                errors: errors.get(&id).unwrap_or(&no_errors),
                components: components.get(&id).unwrap_or(&no_components),
                sync: syncs.get(&id).unwrap_or(&no_sync),
                agent: presence.get(&service.cluster_id),
                hold: holds.get(&id),
            };
            Some((id, service_reason(&input)?))
        };
        Ok(services.iter().filter_map(reason).collect())
    }

    /// What windows say of those services that one holds back.
    async fn window_holds(
        &self,
        services: &[Authorized<Service, Read>],
    ) -> Result<HashMap<ServiceId, WindowHold>> {
        let is_held = |pin: &plural_core::service::Pin| pin.until == PinUntil::Window;
        let held: Vec<_> = services.iter().filter(|one| one.pin.as_ref().is_some_and(is_held)).collect();
        if held.is_empty() {
            return Ok(HashMap::new());
        }
        let now = self.clock.now();
        let windows = self.store.services_windows(&held).await?;
        let holds = windows.into_iter().filter_map(|(id, windows)| Some((id, window_hold(&windows, now)?)));
        Ok(holds.collect())
    }

    /// Puts first what a sync window holds back, and until when.
    pub(crate) async fn with_windows(
        &self,
        services: &[Authorized<Service, Read>],
        mut errors: HashMap<ServiceId, Vec<ServiceError>>,
    ) -> Result<HashMap<ServiceId, Vec<ServiceError>>> {
        for (id, hold) in self.window_holds(services).await? {
            errors.entry(id).or_default().insert(0, ServiceError::note("window", hold.words()));
        }
        Ok(errors)
    }
}
