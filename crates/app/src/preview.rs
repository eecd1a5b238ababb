//! What a service renders to, before or without an agent.

use plural_core::service::{Configuration, Service};
use plural_core::service_error::ServiceError;
use plural_core::{Error, Result};

use crate::access::Read;
use crate::agent_poll::cluster_data;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::masking;
use crate::ports::previews::{Preview, PreviewObject};
use crate::service::ServiceSelector;
use crate::service_import::OpenedImports;

impl App {
    /// What the service's current revision renders to; needs read access to the service. Its configuration and values
    /// take part; values of Secrets are masked, and its own secrets for callers who may not read them.
    pub async fn service_preview(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Preview> {
        let service = self.authorized::<Service, Read>(ctx, selector).await?;
        let rows = self.store.agent_specs(service.cluster_id, &[service.id]).await?;
        let row = rows.into_iter().next().ok_or(Error::not_found("service"))?;
        let spec = self.service_spec(row, &mut OpenedImports::default()).await?;
        if let Some(content) = &spec.rendering.managed_namespace {
            let objects = content.objects(spec.namespace.as_str()).into_iter();
            let objects = objects.map(|value| PreviewObject { value, path: String::new(), line: None });
            return Ok(Preview { objects: objects.collect(), errors: Vec::new() });
        }
        if spec.artifact_digest.is_none() {
            let message = "the source has not been fetched yet; see the service's errors".to_owned();
            let error = ServiceError {
                source: "source".to_owned(),
                message,
                warning: false,
                terminal: false,
                location: None,
            };
            return Ok(Preview { objects: Vec::new(), errors: vec![error] });
        }
        let cluster = self.store.agent_cluster(service.cluster_id).await?.map(cluster_data);
        let unresolved = unresolved(&spec.configuration);
        let mut preview = self.previews.render(spec, cluster).await?;
        preview.errors.extend(unresolved);
        self.masks(ctx, [service.id]).await?.apply(service.id, &mut preview, masking::preview);
        Ok(preview)
    }
}

/// Says which values are placeholders: only the agent resolves references.
fn unresolved(configuration: &Configuration) -> Option<ServiceError> {
    let all = configuration.references.iter();
    let words: Vec<String> = all.map(|(name, reference)| format!("{name} ({reference})")).collect();
    (!words.is_empty()).then(|| ServiceError {
        source: "render".to_owned(),
        message: format!(
            "placeholders stand for the values of references, which only the agent resolves: {}",
            words.join(", ")
        ),
        warning: true,
        terminal: false,
        location: None,
    })
}
