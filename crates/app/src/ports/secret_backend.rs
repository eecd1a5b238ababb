//! Places outside of the database that keep secret values of projects, as data keys sealed them: none of them sees a value in clear.

use std::fmt;

use async_trait::async_trait;
use plural_core::ids::ProjectId;
use plural_core::secret_backend::SecretBackend;
use uuid::Uuid;

pub use super::key_encryption::KeyError as KeeperError;

/// The name of an object in a backend: `PROJECT/ID`. Each is put once, and its content never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// Whose value it is.
    pub project: ProjectId,
    /// Its own.
    pub id: Uuid,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { project, id } = self;
        write!(f, "{project}/{id}")
    }
}

/// A backend. Texts of its errors are for the log, and hold no credential.
#[async_trait]
pub trait SecretKeeper: Send + Sync + 'static {
    /// Which one it is.
    fn backend(&self) -> SecretBackend;
    /// Bytes of the largest object that it takes.
    fn largest(&self) -> usize;
    /// Puts an object of a new name. The same once more is no failure.
    async fn put(&self, name: &ObjectName, sealed: &[u8]) -> Result<(), KeeperError>;
    /// An object; nothing when there is none of this name.
    async fn get(&self, name: &ObjectName) -> Result<Option<Vec<u8>>, KeeperError>;
    /// There is no object of this name, nor a former version of it, from now on.
    async fn delete(&self, name: &ObjectName) -> Result<(), KeeperError>;
}
