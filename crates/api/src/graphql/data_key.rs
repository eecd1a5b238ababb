//! Data keys, and what they seal of a project.

use async_graphql::{Context, Enum, ID, Object};
use chrono::{DateTime, Utc};
use plural_core::data_key::KeyPurpose;
use plural_core::ids::ProjectId;

use super::{
    error::{IntoGraphql, Nullable, id, nullable},
    request::request,
    secret_backend::SecretBackend,
};

/// What a data key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::data_key::KeyPurpose")]
pub(crate) enum DataKeyPurpose {
    /// Secret values.
    Secrets,
    /// Recordings of shells.
    Recordings,
    /// Addresses that nobody guesses.
    Addresses,
}

/// A key that seals secrets at rest. The key itself is never told.
pub(crate) struct DataKey(plural_core::data_key::DataKey);

impl From<plural_core::data_key::DataKey> for DataKey {
    fn from(key: plural_core::data_key::DataKey) -> Self {
        Self(key)
    }
}

/// A key that seals secrets at rest. The key itself is never told.
#[Object]
impl DataKey {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// What it is for.
    async fn purpose(&self) -> DataKeyPurpose {
        let purpose: KeyPurpose = self.0.owner.parts().1;
        purpose.into()
    }

    /// The key-encryption key that opens it, by its name.
    async fn encrypted_by(&self) -> &str {
        &self.0.encrypted_by
    }

    /// The version of that key, where it has versions.
    async fn version(&self) -> Option<&str> {
        self.0.version.as_deref()
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// Since when another one seals in its place.
    async fn retired_at(&self) -> Option<DateTime<Utc>> {
        self.0.retired_at
    }

    /// Since when nothing opens what it sealed.
    async fn destroyed_at(&self) -> Option<DateTime<Utc>> {
        self.0.destroyed_at
    }
}

/// What a secret value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
#[graphql(remote = "plural_core::secret_holding::SecretKind")]
pub(crate) enum SecretKind {
    /// Configuration of services, in the revisions that are kept.
    Configuration,
    /// Helm values of services.
    HelmValues,
    /// Values of services' renderers.
    RendererValues,
    /// Secrets of templates of global services and managed namespaces.
    TemplateSecrets,
    /// Secrets of contexts.
    ContextSecrets,
    /// Credentials of git repositories.
    RepositoryCredentials,
    /// Proxies, certificates and host keys of git repositories.
    RepositoryReach,
    /// Secrets of repositories' webhooks.
    RepositoryWebhook,
    /// Credentials of chart repositories.
    ChartCredentials,
    /// Secrets of connections to git hosts, and of their webhooks.
    ScmCredentials,
    /// Recordings of shells.
    Recordings,
    /// Versions of stacks' state.
    StackStates,
    /// Environments and files of stacks and of their runs.
    StackInputs,
    /// Plans of stacks' runs, and what they found to have drifted.
    StackPlans,
    /// Outputs of stacks.
    StackOutputs,
    /// What random values of templates are made from.
    Seeds,
}

/// Secret values of one kind in one backend that the console holds of a project. The values are not told.
pub(crate) struct SecretHolding(plural_core::secret_holding::SecretHolding);

/// Secret values of one kind in one backend that the console holds of a project. The values are not told.
#[Object]
impl SecretHolding {
    /// What they are.
    async fn kind(&self) -> SecretKind {
        self.0.kind.into()
    }

    /// Where they are kept, sealed. The console opens them wherever that is.
    async fn backend(&self) -> SecretBackend {
        self.0.backend.into()
    }

    /// How many, in all revisions that are kept.
    async fn values(&self) -> i64 {
        i64::try_from(self.0.values).unwrap_or(i64::MAX)
    }

    /// How many things have them.
    async fn things(&self) -> i64 {
        i64::try_from(self.0.things).unwrap_or(i64::MAX)
    }

    /// The names of these things; of more than 100 in one answer the first.
    async fn names(&self) -> &[String] {
        &self.0.names
    }
}

/// What secret values of a project the console holds.
pub(crate) struct SecretHoldings(plural_core::secret_holding::SecretHoldings);

/// What secret values of a project the console holds.
#[Object]
impl SecretHoldings {
    /// The console holds no secret of the project, in its database or in another backend; null while nothing was found in an answer that
    /// is not about all of it. Seeds of services are none of its users': the console drew them.
    async fn holds_none(&self) -> Option<bool> {
        self.0.holds_none()
    }

    /// Where the next answer goes on; null when there is none.
    async fn end_cursor(&self) -> Option<&str> {
        self.0.end_cursor.as_deref()
    }

    /// By kind and backend. Where it holds nothing is left out. Values and things of several answers add up: each thing is in one of them.
    async fn holdings(&self) -> Vec<SecretHolding> {
        self.0.holdings.iter().cloned().map(SecretHolding).collect()
    }
}

/// The data keys of a project.
pub(super) async fn keys_of(
    ctx: &Context<'_>,
    project: ProjectId,
) -> async_graphql::Result<Option<Vec<DataKey>>> {
    let request = request(ctx);
    let keys = request.app.project_keys(&request.op, project).await.into_graphql(ctx)?;
    Ok(Some(keys.into_iter().map(DataKey::from).collect()))
}

/// What the console holds of a project.
pub(super) async fn holdings_of(
    ctx: &Context<'_>,
    project: ProjectId,
    after: Option<&str>,
) -> async_graphql::Result<Option<SecretHoldings>> {
    let request = request(ctx);
    let holdings = request.app.secret_holdings(&request.op, project, after).await.into_graphql(ctx)?;
    Ok(Some(SecretHoldings(holdings)))
}

/// Reading data keys.
#[derive(Default)]
pub(crate) struct DataKeyQuery;

/// Reading data keys.
#[Object]
impl DataKeyQuery {
    /// The data keys of what belongs to no project; for administrators.
    async fn installation_data_keys(&self, ctx: &Context<'_>) -> Nullable<Vec<DataKey>> {
        nullable(async {
            let request = request(ctx);
            let keys = request.app.installation_keys(&request.op).await.into_graphql(ctx)?;
            Ok(Some(keys.into_iter().map(DataKey::from).collect()))
        })
        .await
    }
}

/// Changing data keys.
#[derive(Default)]
pub(crate) struct DataKeyMutation;

/// Changing data keys.
#[Object]
impl DataKeyMutation {
    /// Other data keys for a project: its secrets are sealed anew in the background. Answers with all of its keys.
    async fn rotate_project_data_keys(&self, ctx: &Context<'_>, project_id: ID) -> Nullable<Vec<DataKey>> {
        nullable(async {
            let request = request(ctx);
            let project = id(&project_id).into_graphql(ctx)?;
            let keys = request.app.project_keys_rotate(&request.op, project).await.into_graphql(ctx)?;
            Ok(Some(keys.into_iter().map(DataKey::from).collect()))
        })
        .await
    }

    /// Another data key for what belongs to no project; for administrators. Answers with all of its keys.
    async fn rotate_installation_data_key(&self, ctx: &Context<'_>) -> Nullable<Vec<DataKey>> {
        nullable(async {
            let request = request(ctx);
            let keys = request.app.installation_keys_rotate(&request.op).await.into_graphql(ctx)?;
            Ok(Some(keys.into_iter().map(DataKey::from).collect()))
        })
        .await
    }
}
