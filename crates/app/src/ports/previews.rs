//! What use cases need of a renderer.

use async_trait::async_trait;
use plural_core::Result;
use plural_core::service_error::ServiceError;
use plural_core::service_file::ServiceFile;

use crate::agent_poll::{ClusterData, ServiceSpec};

/// What a service renders to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Preview {
    /// Its objects, in the order in which the renderers give them. Values of Secrets are masked.
    pub objects: Vec<PreviewObject>,
    /// Warnings; or, when nothing could be rendered, why not.
    pub errors: Vec<ServiceError>,
}

/// One object.
#[derive(Debug, Clone, PartialEq)]
pub struct PreviewObject {
    /// The whole of it.
    pub value: serde_json::Value,
    /// The file that it was written in, from the artifact's root.
    pub path: String,
    /// 1-based line in it; absent where none is known.
    pub line: Option<u32>,
}

/// Renders services without a cluster.
#[async_trait]
pub trait Previews: Send + Sync + 'static {
    /// What the service renders to, by the same code as in an agent. What only a cluster knows is missing: `lookup`
    /// finds nothing, and its APIs are those that every cluster serves.
    ///
    /// # Errors
    /// `Unavailable` when too many are rendered already, `NotFound` when its artifact is gone. What is wrong with the
    /// service is part of the answer.
    async fn render(&self, spec: ServiceSpec, cluster: Option<ClusterData>) -> Result<Preview>;

    /// The files of an artifact, named as if its root were `root` of the repository: all of them, or what is at and below `path`,
    /// which is empty or has no slash at its ends.
    ///
    /// # Errors
    /// `Unavailable` when too many are looked at already, `NotFound` when the artifact or the path is gone.
    async fn files(&self, digest: &str, root: &str, path: &str) -> Result<Vec<ServiceFile>>;

    /// All files of an artifact as a `tar.gz`, named in the same way.
    ///
    /// # Errors
    /// As of [`Previews::files`].
    async fn archive(&self, digest: &str, root: &str) -> Result<Vec<u8>>;
}
