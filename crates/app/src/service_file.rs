//! The files that a service is made of.

use plural_core::service_file::ServiceFile;
use plural_core::{Error, Result};

use crate::agent_poll::source_root;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::service::ServiceSelector;

/// Bytes of a path that is asked for.
const LONGEST_PATH: usize = 4096;

/// Where a service's files are.
struct Artifact {
    digest: String,
    /// The folder of the repository that the artifact's root is.
    root: String,
}

impl App {
    /// The files of the service's current artifact, all or those at and below a path; needs what its configuration
    /// needs. Values that are kept secret are no part of an artifact.
    ///
    /// # Errors
    /// `Conflict` when nothing was made of its source yet; `NotFound` when there is no such path.
    pub async fn service_files(
        &self,
        ctx: &OpCtx,
        selector: &ServiceSelector,
        path: Option<&str>,
    ) -> Result<Vec<ServiceFile>> {
        let path = path.unwrap_or_default().trim_matches('/');
        if path.len() > LONGEST_PATH {
            return Err(Error::invalid("path", format!("must have at most {LONGEST_PATH} bytes")));
        }
        let Artifact { digest, root } = self.artifact_read(ctx, selector).await?;
        self.previews.files(&digest, &root, path).await
    }

    /// The same files as a `tar.gz`.
    ///
    /// # Errors
    /// As of [`App::service_files`].
    pub async fn service_archive(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Vec<u8>> {
        let Artifact { digest, root } = self.artifact_read(ctx, selector).await?;
        self.previews.archive(&digest, &root).await
    }

    /// The current artifact of a service whose files are about to be read.
    async fn artifact_read(&self, ctx: &OpCtx, selector: &ServiceSelector) -> Result<Artifact> {
        let service = self.service_unsealed(ctx, selector).await?;
        let rows = self.store.agent_specs(service.cluster_id, &[service.id]).await?;
        let row = rows.into_iter().next().ok_or(Error::not_found("service"))?;
        let Some(digest) = row.service.artifact_digest.clone() else {
            return Err(Error::conflict(
                "the service's source has not been fetched yet; see its errors, or retry later",
            ));
        };
        self.audit_read(ctx, &service, "service.files.read").await?;
        let root = source_root(&row.service, &row.artifact_folder).to_owned();
        Ok(Artifact { digest, root })
    }
}
