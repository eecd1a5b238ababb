//! A service: one named set of manifests on one cluster.

use chrono::{DateTime, Utc};
use plural_specs::{Edit, SyncConfig};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::dependency::ServiceLinks;
use crate::error::{Error, Result};
use crate::ids::{ClusterId, GlobalServiceId, ProjectId, RepositoryId, RevisionId, ServiceId};
use crate::name::KubeName;
use crate::page::Keyed;
use crate::policy::BindingsChange;
use crate::sort::{SortColumn, SortKind};
use crate::status::ServiceStatus;

mod configuration;
mod pin;
mod reference;
mod rendering;
mod rendering_change;

pub use configuration::{Configuration, ConfigurationEdit, ConfigurationValue};
pub use pin::{Pin, PinUntil};
pub use reference::{FileKeyRef, KeyRef, Reference, VaultKeyRef};
pub use rendering::{
    Helm, HelmConfig, HelmSet, HelmValues, HelmVerify, Kustomize, Renderer, RendererConfig, RendererHelm,
    RendererKind, Rendering, SourceRef,
};
pub use rendering_change::RenderingChange;

/// A service.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Id.
    pub id: ServiceId,
    /// Unique on its cluster.
    pub name: KubeName,
    /// Namespace that its objects go to unless they say otherwise.
    pub namespace: KubeName,
    /// Where it runs.
    pub cluster_id: ClusterId,
    /// Where it is read from.
    pub repository_id: Option<RepositoryId>,
    /// What of the repository.
    pub git: Option<GitRef>,
    /// A label for people, semver; starts at 0.0.1.
    pub version: String,
    /// Folder in the repository with documentation.
    pub docs_path: Option<String>,
    /// How it becomes objects.
    pub rendering: Rendering,
    /// How it is applied.
    pub sync_config: SyncConfig,
    /// Refuses deletion while set.
    pub protect: bool,
    /// Computed and reported, never applied.
    pub dry_run: bool,
    /// `.liquid` files are templates.
    pub templated: bool,
    /// Wanted seconds between full checks; the agent's own rhythm when absent.
    pub interval_seconds: Option<u32>,
    /// How it is.
    pub status: ServiceStatus,
    /// "n / m" components running.
    pub component_status: String,
    /// When it began to fail, where it was not healthy since; absent where that is not known.
    pub failing_since: Option<DateTime<Utc>>,
    /// When it was healthy again after it last failed.
    pub recovered_at: Option<DateTime<Utc>>,
    /// The revision that should be.
    pub revision_id: RevisionId,
    /// The commit that should be, once known.
    pub sha: Option<String>,
    /// First line of that commit's message.
    pub message: Option<String>,
    /// Name of that commit's author.
    pub author: Option<String>,
    /// Digest of the artifact that should be applied: lower-case hex SHA-256.
    pub artifact_digest: Option<String>,
    /// Held at that revision.
    pub pin: Option<Pin>,
    /// Nothing of it is written: no apply, no repair, no deletion.
    pub paused: bool,
    /// Grows with each change, kicks included.
    pub sequence: u64,
    /// Its agent has reported since the last change, with what its sources held then.
    pub observed: bool,
    /// The global service whose instance it is.
    pub owner: Option<GlobalServiceId>,
    /// Whose its secrets are, where a global service let it go as it was.
    pub withheld: Option<SecretsHome>,
    /// Nobody asked for its deletion by name: its objects go only when somebody approves.
    pub cascaded: bool,
    /// Set: its objects are being destroyed; the row goes when the agent says they are gone.
    pub deleted_at: Option<DateTime<Utc>>,
    /// It is destroyed only when nothing is left that depends on it.
    pub outlives: bool,
    /// It is the upgrade of its cluster's agent, as an administrator of the installation said: it reaches the agent's
    /// namespace, and only such administrators change it.
    pub agent_upgrade: bool,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

/// What services are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceColumn {
    /// The name.
    Name,
    /// The status, in the order of [`ServiceStatus::WORST_FIRST`].
    Status,
    /// When it was last changed.
    UpdatedAt,
}

impl SortColumn for ServiceColumn {
    fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Status => "status",
            Self::UpdatedAt => "updated",
        }
    }

    fn kind(self) -> SortKind {
        match self {
            Self::Name => SortKind::Text,
            Self::Status => SortKind::Number,
            Self::UpdatedAt => SortKind::Time,
        }
    }
}

/// What the agent should do with a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Make the cluster look like it.
    Apply,
    /// Remove what it owns.
    Destroy,
}

/// What of a repository a service is made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitRef {
    /// Branch, tag, commit, or a semver range of tags.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Folder with the manifests, "" for the root.
    pub folder: String,
    /// Further files of the repository to take along.
    #[serde(default)]
    pub files: Vec<String>,
}

impl GitRef {
    /// Checks and normalises.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty ref, one that the git program could read as an option, or
    /// a path that leaves the repository.
    pub fn new(reference: &str, folder: &str, files: &[String]) -> Result<Self> {
        let reference = reference.trim();
        if reference.is_empty() || reference.len() > 255 || reference.chars().any(char::is_control) {
            return Err(Error::invalid("git.ref", "must name a branch, tag, commit or range of tags"));
        }
        if reference.starts_with('-') {
            return Err(Error::invalid("git.ref", "must not begin with \"-\""));
        }
        if files.len() > 256 {
            return Err(Error::invalid("git.files", "must not name more than 256 files"));
        }
        let folder = inside("git.folder", folder)?;
        let files = files.iter().map(|file| inside("git.files", file)).collect::<Result<_>>()?;
        Ok(Self { reference: reference.to_owned(), folder, files })
    }

    /// The folder of the repository that an artifact's root is, when the service's own folder is `folder` in it.
    pub fn root_of(&self, folder: &str) -> &str {
        match self.folder.strip_suffix(folder) {
            Some(root) if folder.is_empty() || root.is_empty() => root,
            // Otherwise it is not this artifact's: the service is about to move to another folder.
            Some(root) => root.strip_suffix('/').unwrap_or_default(),
            None => "",
        }
    }
}

/// The path without empty and `.` parts.
fn inside(field: &'static str, path: &str) -> Result<String> {
    if path.len() > 1024 || path.chars().any(char::is_control) || path.contains('\\') {
        return Err(Error::invalid(field, "must be a path with \"/\" between its parts"));
    }
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => return Err(Error::invalid(field, format!("{path:?} must not leave the repository"))),
            part => parts.push(part),
        }
    }
    Ok(parts.join("/"))
}

/// Whose a global service was that left its secrets in a service: who may change that may read them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecretsHome {
    /// The installation's.
    Installation,
    /// A project's.
    Project(ProjectId),
}

impl SecretsHome {
    /// That of a global service.
    pub fn of(project: Option<ProjectId>) -> Self {
        project.map_or(Self::Installation, Self::Project)
    }
}

/// What a new service is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct NewService {
    /// Unique on its cluster.
    pub name: KubeName,
    /// Namespace for its objects.
    pub namespace: KubeName,
    /// Where it is read from.
    pub repository_id: Option<RepositoryId>,
    /// What of the repository.
    pub git: Option<GitRef>,
    /// "0.0.1" when absent.
    pub version: Option<String>,
    /// Documentation folder.
    pub docs_path: Option<String>,
    /// How it becomes objects.
    pub rendering: RenderingChange,
    /// How it is applied.
    pub sync_config: SyncConfig,
    /// Refuses deletion.
    pub protect: bool,
    /// Apply nothing.
    pub dry_run: bool,
    /// `.liquid` files are templates.
    pub templated: bool,
    /// Wanted seconds between full checks.
    pub interval_seconds: Option<u32>,
    /// Values for templates.
    pub configuration: Configuration,
    /// What it depends on, and what its templates read.
    pub links: ServiceLinks,
    /// Who may use it, besides those whom its cluster lets.
    pub bindings: BindingsChange,
}

impl NewService {
    /// A service with defaults everywhere else.
    pub fn from_git(name: KubeName, namespace: KubeName, repository_id: RepositoryId, git: GitRef) -> Self {
        Self {
            name,
            namespace,
            repository_id: Some(repository_id),
            git: Some(git),
            version: None,
            docs_path: None,
            rendering: RenderingChange::default(),
            sync_config: SyncConfig::default(),
            protect: false,
            dry_run: false,
            templated: true,
            interval_seconds: None,
            configuration: Configuration::default(),
            links: ServiceLinks::default(),
            bindings: BindingsChange::default(),
        }
    }
}

/// What changes of a service; `None` leaves a field as it is.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServiceChange {
    /// Another namespace for its objects. Those in the one before are pruned like what left git, and so wait for approval.
    pub namespace: Option<KubeName>,
    /// Another repository.
    pub repository_id: Option<RepositoryId>,
    /// Another place in it.
    pub git: Option<GitRef>,
    /// Another way to become objects.
    pub rendering: RenderingChange,
    /// New version label.
    pub version: Option<String>,
    /// How it is applied from now on.
    pub sync_config: Option<Edit<SyncConfig>>,
    /// New protection.
    pub protect: Option<bool>,
    /// New dry run.
    pub dry_run: Option<bool>,
    /// New templating.
    pub templated: Option<bool>,
    /// New wanted seconds between full checks.
    pub interval_seconds: Option<u32>,
    /// Other values for templates.
    pub configuration: Option<ConfigurationEdit>,
    /// What it depends on, and what its templates read.
    pub links: ServiceLinks,
    /// Who may use it from now on, besides those whom its cluster lets.
    pub bindings: BindingsChange,
}

/// What a service is read from and how it is applied: what makes a revision when it changes.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceSettings {
    /// Where it is read from.
    pub repository_id: Option<RepositoryId>,
    /// What of the repository.
    pub git: Option<GitRef>,
    /// How it becomes objects.
    pub rendering: Rendering,
    /// How it is applied.
    pub sync_config: SyncConfig,
    /// Computed and reported, never applied.
    pub dry_run: bool,
    /// `.liquid` files are templates.
    pub templated: bool,
}

impl ServiceSettings {
    /// With a change. What it does not name stays as it is here.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a sync config that makes no sense as a whole.
    pub fn changed(self, change: &ServiceChange) -> Result<Self> {
        let ServiceChange {
            namespace: _,
            repository_id,
            git,
            rendering,
            version: _,
            sync_config: edit,
            protect: _,
            dry_run,
            templated,
            interval_seconds: _,
            configuration: _,
            links: _,
            bindings: _,
        } = change;
        let mut sync_config = self.sync_config;
        if let Some(edit) = edit {
            let edited = edit.clone().over(sync_config);
            let checked = edited.and_then(|config| config.check().map(|()| config));
            sync_config = checked.map_err(|fault| fault.within("syncConfig"))?;
        }
        Ok(Self {
            repository_id: repository_id.or(self.repository_id),
            git: git.clone().or(self.git),
            rendering: rendering.over(self.rendering),
            sync_config,
            dry_run: dry_run.unwrap_or(self.dry_run),
            templated: templated.unwrap_or(self.templated),
        })
    }
}

/// What a change of a service comes to. Clients send whole objects, so what is so already is no change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServiceDifference {
    /// It changes what is applied.
    pub makes_revision: bool,
    /// It changes where the service is read from, so that the console has to look again.
    pub moves_source: bool,
    /// It changes something that the limits of a project may refuse.
    pub asks_for_more: bool,
}

impl ServiceChange {
    /// What it comes to where it led from `old` to `new`. Secrets cannot be compared here: charts and renderers that are
    /// given count, as they have sealed values, and so does a configuration.
    pub fn difference(&self, old: &ServiceSettings, new: &ServiceSettings) -> ServiceDifference {
        let Self {
            namespace,
            repository_id: _,
            git: _,
            rendering,
            version,
            sync_config: _,
            protect: _,
            dry_run: _,
            templated: _,
            interval_seconds: _,
            configuration,
            // A dependency says when, not what; contexts and bindings are of no revision.
            links: _,
            bindings: _,
        } = self;
        let values = !rendering.helm.keeps() || !rendering.renderers.keeps();
        // A rendering names files and charts: which, the console finds out when it looks.
        let moves_source = values
            || old.repository_id != new.repository_id
            || old.git != new.git
            || old.rendering != new.rendering;
        let asks_for_more = moves_source || old.sync_config != new.sync_config || namespace.is_some();
        let makes_revision = asks_for_more
            || version.is_some()
            || old.dry_run != new.dry_run
            || old.templated != new.templated
            || configuration.is_some();
        ServiceDifference { makes_revision, moves_source, asks_for_more }
    }
}

impl Service {
    /// What of it makes a revision when it changes.
    pub fn settings(&self) -> ServiceSettings {
        ServiceSettings {
            repository_id: self.repository_id,
            git: self.git.clone(),
            rendering: self.rendering.clone(),
            sync_config: self.sync_config.clone(),
            dry_run: self.dry_run,
            templated: self.templated,
        }
    }

    /// What the agent should do with it.
    pub fn intent(&self) -> Intent {
        if self.deleted_at.is_some() && !self.outlives { Intent::Destroy } else { Intent::Apply }
    }
}

impl Keyed for Service {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_stay_inside() {
        assert_eq!(GitRef::new("main", "./a//b/", &[]).unwrap().folder, "a/b");
        assert_eq!(GitRef::new("main", "/", &[]).unwrap().folder, "");
        assert!(GitRef::new("main", "a/../../b", &[]).is_err());
        assert!(GitRef::new("main", "", &["../x".into()]).is_err());
        assert!(GitRef::new("--exec", "", &[]).is_err());
        assert!(GitRef::new(" ", "", &[]).is_err());
    }

    #[test]
    fn an_artifacts_root_is_a_folder_of_the_repository() {
        for (folder, in_artifact, root) in [
            ("apps/web", "", "apps/web"),
            ("apps/web", "web", "apps"),
            ("apps/web", "apps/web", ""),
            ("", "", ""),
            // Of another folder than the service has by now.
            ("apps/web", "api", ""),
            ("cobweb", "web", ""),
        ] {
            let git = GitRef::new("main", folder, &[]).unwrap();
            assert_eq!(git.root_of(in_artifact), root, "{folder} {in_artifact}");
        }
    }
}
