//! What secret values of a project the console holds: how many, and of what, never the values.

use crate::secret_backend::SecretBackend;

/// What a secret value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SecretKind {
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
    /// Recordings of shells.
    Recordings,
    /// What random values of templates are made from.
    Seeds,
}

impl SecretKind {
    /// Somebody entered it, or it was seen in a shell. A seed is neither: the console drew it, and a template that asks for nothing
    /// random makes no secret of it.
    pub const fn is_entered(self) -> bool {
        !matches!(self, Self::Seeds)
    }
}

/// The secret values of one kind in one backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretHolding {
    /// What they are.
    pub kind: SecretKind,
    /// Where they are kept, sealed. The console opens them wherever that is.
    pub backend: SecretBackend,
    /// Values, in all revisions that are kept.
    pub values: u64,
    /// The things that have them.
    pub things: u64,
    /// The names of the first of these things, in order.
    pub names: Vec<String>,
}

/// All secret values of a project.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretHoldings {
    /// By kind and backend; where there is nothing is left out.
    pub holdings: Vec<SecretHolding>,
}

impl SecretHoldings {
    /// The console holds no secret of the project, in its database or elsewhere.
    pub fn holds_none(&self) -> bool {
        !self.holdings.iter().any(|holding| holding.kind.is_entered())
    }
}
