//! The kinds of documents, their names, and the order in which they are applied.

use super::{
    cluster, git_repository, global_service, helm_repository, managed_namespace, project, schema::Field,
    service, service_context, stack, stack_definition, sync_window,
};

/// The group and version of all documents.
pub(super) const API_VERSION: &str = "deployments.plural.sh/v1alpha1";

/// A kind, in the order in which kinds are applied where nothing else decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Project,
    Cluster,
    GitRepository,
    HelmRepository,
    StackDefinition,
    InfrastructureStack,
    ServiceContext,
    ServiceDeployment,
    GlobalService,
    ManagedNamespace,
    SyncWindow,
}

/// What is known of a kind.
pub(super) struct Info {
    pub(super) name: &'static str,
    /// Lower case, as in `servicedeployment/blue/web`.
    pub(super) singular: &'static str,
    pub(super) plural: &'static str,
    pub(super) short: &'static [&'static str],
    /// What commands that name one call it.
    pub(super) named_by: &'static str,
    pub(super) docs: &'static str,
    pub(super) fields: &'static [Field],
}

impl Kind {
    pub(super) const ALL: [Self; 11] = [
        Self::Project,
        Self::Cluster,
        Self::GitRepository,
        Self::HelmRepository,
        Self::StackDefinition,
        Self::InfrastructureStack,
        Self::ServiceContext,
        Self::ServiceDeployment,
        Self::GlobalService,
        Self::ManagedNamespace,
        Self::SyncWindow,
    ];

    pub(super) const fn info(self) -> &'static Info {
        match self {
            Self::Project => &project::INFO,
            Self::Cluster => &cluster::INFO,
            Self::GitRepository => &git_repository::INFO,
            Self::HelmRepository => &helm_repository::INFO,
            Self::StackDefinition => &stack_definition::INFO,
            Self::InfrastructureStack => &stack::INFO,
            Self::ServiceContext => &service_context::INFO,
            Self::ServiceDeployment => &service::INFO,
            Self::GlobalService => &global_service::INFO,
            Self::ManagedNamespace => &managed_namespace::INFO,
            Self::SyncWindow => &sync_window::INFO,
        }
    }

    /// What `plural get` takes, in the words that are shortest to read.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.into_iter().map(|kind| kind.info().plural).chain([
            "all",
            "services",
            "repositories",
            "contexts",
            "stacks",
        ])
    }

    /// The kind of a document.
    pub(super) fn of_document(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.info().name == name)
    }

    fn is_called(self, word: &str) -> bool {
        let Info { singular, plural, short, .. } = self.info();
        word == *singular || word == *plural || short.contains(&word)
    }

    /// A name without the kind that `-o name` prints before it: `cluster/blue` is `blue`.
    pub(crate) fn bare(self, text: &str) -> &str {
        match text.split_once('/') {
            Some((word, name)) if !name.is_empty() && self.is_called(&word.to_lowercase()) => name,
            _ => text,
        }
    }

    /// The kind that a person names: in full, in the plural, or short.
    pub(crate) fn parse(word: &str) -> Result<Self, String> {
        let word = word.to_lowercase();
        Self::ALL.into_iter().find(|kind| kind.is_called(&word)).ok_or_else(|| {
            let all: Vec<&str> = Self::ALL.iter().map(|kind| kind.info().plural).collect();
            format!("there is no kind {word:?}; the kinds are {}", all.join(", "))
        })
    }
}
