//! PR automations: what somebody is asked, and which files of a repository a pull request then changes.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::ids::{
    ClusterId, PrAutomationId, PrGovernanceId, ProjectId, RepositoryId, ScmConnectionId, ServiceId,
};
use crate::merge_window::MergeWindows;
use crate::page::Keyed;
use crate::policy::BindingsChange;
use crate::pr_automation_spec::{PrAutomationSpec, PrAutomationSpecChange, PrRole};
use crate::scm_connection::ScmConnection;
use crate::specs::{Change, Name};

/// What opens pull requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrAutomation {
    /// Id.
    pub id: PrAutomationId,
    /// Where it belongs. It stays there.
    pub project_id: ProjectId,
    /// Unique in the installation.
    pub name: Name,
    /// What it is for.
    pub role: Option<PrRole>,
    /// Where it belongs besides, and what it uses.
    pub links: PrAutomationLinks,
    /// What it asks and does.
    pub spec: PrAutomationSpec,
    /// When the pull requests that are opened with it may be merged. No script changes them, and they make no new version.
    pub merge_windows: MergeWindows,
    /// Counts the versions of what it asks and does, from one.
    pub revision: i64,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last changed.
    pub updated_at: DateTime<Utc>,
}

impl Keyed for PrAutomation {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// Where an automation belongs besides its project, and what it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrAutomationLinks {
    /// With which pull requests are opened: of its project, or of the whole installation.
    pub connection_id: ScmConnectionId,
    /// The repository of external templates.
    pub repository_id: Option<RepositoryId>,
    /// The cluster that it is about.
    pub cluster_id: Option<ClusterId>,
    /// The service that it is about.
    pub service_id: Option<ServiceId>,
    /// Who confirms the pull requests that it opens.
    pub governance_id: Option<PrGovernanceId>,
}

/// What a new automation is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPrAutomation {
    /// Unique in the installation.
    pub name: Name,
    /// Where it belongs; else in the default project.
    pub project_id: Option<ProjectId>,
    /// What it is for.
    pub role: Option<PrRole>,
    /// What it uses, and what it is about.
    pub links: PrAutomationLinksChange,
    /// What it asks and does.
    pub spec: PrAutomationSpecChange,
    /// When its pull requests may be merged; pull requests that are there keep theirs.
    pub merge_windows: Option<MergeWindows>,
    /// Who may do what with it, besides those who may in its project.
    pub bindings: BindingsChange,
}

/// What changes of an automation; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrAutomationChange {
    /// A new name.
    pub name: Option<Name>,
    /// Where it belongs; elsewhere than where it is, is refused.
    pub project_id: Option<ProjectId>,
    /// What it is for.
    pub role: Option<PrRole>,
    /// What it uses, and what it is about.
    pub links: PrAutomationLinksChange,
    /// What it asks and does.
    pub spec: PrAutomationSpecChange,
    /// When its pull requests may be merged; pull requests that are there keep theirs.
    pub merge_windows: Option<MergeWindows>,
    /// Who may do what with it.
    pub bindings: BindingsChange,
}

/// What changes of what an automation uses and is about; `None` leaves a part as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrAutomationLinksChange {
    /// With which pull requests are opened; of a new one without: the default one of its project, or of the installation.
    pub connection_id: Option<ScmConnectionId>,
    /// The repository of external templates.
    pub repository_id: Option<RepositoryId>,
    /// The cluster that it is about.
    pub cluster_id: Option<ClusterId>,
    /// The service that it is about.
    pub service_id: Option<ServiceId>,
    /// Who confirms the pull requests that it opens from then on.
    pub governance_id: Change<PrGovernanceId>,
}

impl PrAutomationLinksChange {
    /// What `before` becomes.
    #[must_use]
    pub fn over(self, before: PrAutomationLinks) -> PrAutomationLinks {
        let Self { connection_id, repository_id, cluster_id, service_id, governance_id } = self;
        PrAutomationLinks {
            connection_id: connection_id.unwrap_or(before.connection_id),
            repository_id: repository_id.or(before.repository_id),
            cluster_id: cluster_id.or(before.cluster_id),
            service_id: service_id.or(before.service_id),
            governance_id: governance_id.over(before.governance_id),
        }
    }
}

/// The slug of the repository that an automation of this project changes through this connection.
///
/// # Errors
/// [`Error::Invalid`] for the connection of another project, for what is no slug, and for a repository that the connection may not touch.
pub fn target_allowed(
    project: ProjectId,
    connection: &ScmConnection,
    identifier: Option<&str>,
) -> Result<Option<String>> {
    const FIELD: &str = "attributes.identifier";
    if connection.project_id.is_some_and(|owner| owner != project) {
        return Err(Error::invalid(
            "attributes.connectionId",
            "belongs to another project: name one of the automation's project, or of the whole installation",
        ));
    }
    let Some(identifier) = identifier else { return Ok(None) };
    if identifier == "mgmt" {
        return Err(Error::invalid(
            FIELD,
            "mgmt is a management repository that is in settings elsewhere; there is none here: name the repository, as acme/infra",
        ));
    }
    let slug = connection.spec.slug(identifier).map_err(|error| Error::invalid(FIELD, error.to_string()))?;
    if !connection.spec.allows(&slug) {
        return Err(Error::invalid(
            FIELD,
            format!(
                "{slug} is no repository that the connection {} may touch: name another one, or have it added to the connection",
                connection.name
            ),
        ));
    }
    Ok(Some(slug))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scm_connection::{ScmHeld, ScmSpec, ScmType};

    fn connection(project: Option<ProjectId>, owner: Option<&str>) -> ScmConnection {
        ScmConnection {
            id: ScmConnectionId::new(),
            project_id: project,
            name: "github".parse().unwrap(),
            kind: ScmType::Github,
            is_default: false,
            spec: ScmSpec {
                owner: owner.map(str::to_owned),
                repositories: vec!["acme/*".parse().unwrap()],
                ..ScmSpec::default()
            },
            held: ScmHeld::default(),
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn a_repository_is_one_that_the_connection_may_touch() {
        let project = ProjectId::new();
        let of = |connection: &ScmConnection, name| target_allowed(project, connection, Some(name));
        let ours = connection(Some(project), Some("acme"));
        assert_eq!(of(&ours, "acme/shop").unwrap().as_deref(), Some("acme/shop"));
        assert_eq!(of(&ours, "shop").unwrap().as_deref(), Some("acme/shop"), "the owner is the connection's");
        assert_eq!(target_allowed(project, &ours, None).unwrap(), None);
        for bad in
            ["evil/shop", "acme/group/shop", "../shop", "acme/..", "-x/shop", "https://a/b", "mgmt", ""]
        {
            let error = of(&ours, bad).unwrap_err().to_string();
            assert!(error.contains("attributes.identifier"), "{bad}: {error}");
        }
        // Without an owner, one has to be named.
        assert!(of(&connection(None, None), "shop").is_err());
        assert!(of(&connection(None, None), "acme/shop").is_ok(), "of the installation");
    }

    #[test]
    fn a_connection_of_another_project_is_refused() {
        let theirs = connection(Some(ProjectId::new()), None);
        let error = target_allowed(ProjectId::new(), &theirs, Some("acme/shop")).unwrap_err().to_string();
        assert!(error.contains("attributes.connectionId"), "{error}");
    }
}
