//! Where the secret values of a project are kept.

use async_graphql::{Context, Enum, ID, Object};
use plural_core::ids::ProjectId;

use super::{
    error::{IntoGraphql, Nullable, id, nullable},
    request::request,
};

/// A place that keeps secret values, as the console sealed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::secret_backend::SecretBackend")]
pub(crate) enum SecretBackend {
    /// The console's own database.
    Database,
    /// The KV engine of Vault or OpenBao.
    Vault,
    /// Secrets of the cluster that the console runs in.
    Kubernetes,
}

/// How many secret values of a project are in a backend.
pub(crate) struct KeptSecrets(plural_core::secret_backend::KeptSecrets);

/// How many secret values of a project are in a backend.
#[Object]
impl KeptSecrets {
    /// The backend.
    async fn backend(&self) -> SecretBackend {
        self.0.backend.into()
    }

    /// Sealed values, in all revisions that are kept.
    async fn values(&self) -> i64 {
        i64::try_from(self.0.values).unwrap_or(i64::MAX)
    }
}

/// Where the secret values of a project are, and where they are to be.
pub(crate) struct SecretStorage(plural_core::secret_backend::SecretStorage);

/// Where the secret values of a project are, and where they are to be.
#[Object]
impl SecretStorage {
    /// Where new values go, and the others move.
    async fn backend(&self) -> SecretBackend {
        self.0.backend.into()
    }

    /// Where the values are. Backends that have none are left out.
    async fn kept(&self) -> Vec<KeptSecrets> {
        self.0.kept.iter().copied().map(KeptSecrets).collect()
    }

    /// Values that have yet to be moved.
    async fn waiting(&self) -> i64 {
        i64::try_from(self.0.waiting()).unwrap_or(i64::MAX)
    }

    /// Why the move does not go on, if its last attempt failed.
    async fn problem(&self) -> Option<&str> {
        self.0.problem.as_deref()
    }
}

/// Where the values of a project are.
pub(super) async fn storage_of(
    ctx: &Context<'_>,
    project: ProjectId,
) -> async_graphql::Result<Option<SecretStorage>> {
    let request = request(ctx);
    let storage = request.app.secret_storage(&request.op, project).await.into_graphql(ctx)?;
    Ok(Some(SecretStorage(storage)))
}

/// Changing where secret values are kept.
#[derive(Default)]
pub(crate) struct SecretBackendMutation;

/// Changing where secret values are kept.
#[Object]
impl SecretBackendMutation {
    /// Keeps the secret values of a project's services, templates and contexts in a backend from now on, and moves those that there are in
    /// the background; for administrators of the installation. The same once more goes on with a move that failed.
    async fn move_project_secrets(
        &self,
        ctx: &Context<'_>,
        project_id: ID,
        backend: SecretBackend,
    ) -> Nullable<SecretStorage> {
        nullable(async {
            let request = request(ctx);
            let project = id(&project_id).into_graphql(ctx)?;
            let storage = request.app.secrets_move(&request.op, project, backend.into()).await;
            Ok(Some(SecretStorage(storage.into_graphql(ctx)?)))
        })
        .await
    }
}
