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

/// Secret values of a project: as much as was looked at. What several answers say of a kind adds up, since none is about half a thing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SecretHoldings {
    /// By kind and backend; where there is nothing is left out.
    pub holdings: Vec<SecretHolding>,
    /// There are answers before this one.
    pub goes_on: bool,
    /// Where the next answer begins; nothing when this one is the last.
    pub end_cursor: Option<String>,
}

impl SecretHoldings {
    /// Whether the console holds no secret of the project, in its database or elsewhere; not known as long as this is only a part of the answer, and nothing is in it.
    pub fn holds_none(&self) -> Option<bool> {
        if self.holdings.iter().any(|holding| holding.kind.is_entered()) {
            return Some(false);
        }
        (!self.goes_on && self.end_cursor.is_none()).then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_an_answer_never_says_that_there_is_nothing() {
        let of = |kind| SecretHolding {
            kind,
            backend: SecretBackend::Database,
            values: 1,
            things: 1,
            names: Vec::new(),
        };
        let whole = SecretHoldings { holdings: vec![of(SecretKind::Seeds)], ..SecretHoldings::default() };
        assert_eq!(whole.holds_none(), Some(true));
        let first = SecretHoldings { end_cursor: Some("0:".to_owned()), ..whole.clone() };
        let last = SecretHoldings { goes_on: true, ..whole };
        for part in [first, last] {
            assert_eq!(part.holds_none(), None);
            let some = SecretHoldings { holdings: vec![of(SecretKind::Configuration)], ..part };
            assert_eq!(some.holds_none(), Some(false));
        }
    }
}
