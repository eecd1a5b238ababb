//! PR automations: what somebody is asked, and which files of a repository a pull request then changes.

use async_trait::async_trait;
use plural_core::cluster::Cluster;
use plural_core::ids::{PrAutomationId, ProjectId};
use plural_core::policy::Policy;
use plural_core::pr_automation::{
    NewPrAutomation, PrAutomation, PrAutomationChange, PrAutomationLinks, PrAutomationLinksChange,
    target_allowed,
};
use plural_core::pr_automation_spec::{PrAutomationSpec, PrRole};
use plural_core::pr_governance::PrGovernance;
use plural_core::project::Project;
use plural_core::repository::Repository;
use plural_core::scm_connection::ScmConnection;
use plural_core::service::Service;
use plural_core::{Error, Result};

use crate::access::{Admin, Audited, Bindable, CreatePr, Grant, Read, Write, noun};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::policy;
use crate::pr_governance::PrGovernanceSelector;
use crate::project::ProjectSelector;
use crate::records::record;
use crate::repository::RepositorySelector;
use crate::scm_connection::ScmConnectionSelector;
use crate::service::ServiceSelector;
use crate::stack::stack_limits;

/// Which automation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrAutomationSelector {
    /// By id.
    Id(PrAutomationId),
    /// By exact name.
    Name(String),
}

/// Which automations of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrAutomationFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// For this.
    pub role: Option<PrRole>,
    /// Name contains this.
    pub q: Option<String>,
}

noun!(PrAutomation, "pr automation", a => Some(a.id.uuid()), a.name.to_string(), project: a.project_id);
record!(PrAutomation, PrAutomationId, PrAutomationSelector, PrAutomationFilter);

impl Bindable for PrAutomation {
    fn policy(&self) -> Policy {
        self.id.into()
    }
}

/// Writing automations.
#[async_trait]
pub trait PrAutomationStore: Send + Sync + 'static {
    /// A new automation with its policy; [`Error::Conflict`] for a name that another one has.
    async fn pr_automation_create(
        &self,
        by: Audited<'_, Project, Write>,
        automation: &PrAutomation,
        grant: Option<&Grant>,
    ) -> Result<()>;
    /// A changed automation; [`Error::Conflict`] where somebody else changed it since it was read.
    async fn pr_automation_update(
        &self,
        by: Audited<'_, PrAutomation, Write>,
        after: &PrAutomation,
        grant: Option<&Grant>,
    ) -> Result<()>;
    /// Removes an automation with its policy.
    async fn pr_automation_delete(&self, by: Audited<'_, PrAutomation, Write>) -> Result<()>;
}

impl App {
    /// A new automation; needs write access to its project and read access to what it uses, and admin access to the project where it
    /// comes with bindings of its own. Connections of the whole installation are readable for administrators only, so they decide
    /// which repositories are changed through one.
    pub async fn pr_automation_create(&self, ctx: &OpCtx, new: NewPrAutomation) -> Result<PrAutomation> {
        let NewPrAutomation { name, project_id, role, links, spec, merge_windows, bindings } = new;
        let PrAutomationLinksChange { connection_id, repository_id, cluster_id, service_id, governance_id } =
            links;
        let governance_id = governance_id.over(None);
        let connection_id = connection_id.ok_or_else(|| {
            Error::invalid("attributes.connectionId", "must be given: with it pull requests are opened")
        })?;
        let links = PrAutomationLinks { connection_id, repository_id, cluster_id, service_id, governance_id };
        let mut spec = spec.over(PrAutomationSpec::default());
        spec.check(links.repository_id.is_some())?;
        let selector = project_id.map_or(ProjectSelector::Default, ProjectSelector::Id);
        let project = self.authorized::<Project, Write>(ctx, &selector).await;
        let project = project.map_err(|error| error.named_in("attributes.projectId"))?;
        spec.identifier = self.pr_target_allowed(ctx, project.id, &links, spec.identifier.as_deref()).await?;
        self.pr_links_allowed(ctx, &project, None, &links).await?;
        let (id, at) = (PrAutomationId::new(), ctx.now());
        let grant = if bindings.is_empty() {
            None
        } else {
            Some(policy::grant(ctx, self.authorized::<Project, Admin>(ctx, &selector).await, id, &bindings)?)
        };
        let automation = PrAutomation {
            id,
            project_id: project.id,
            name,
            role,
            links,
            spec,
            merge_windows: merge_windows.unwrap_or_default(),
            revision: 1,
            created_at: at,
            updated_at: at,
        };
        let by = project.audited_new(ctx, "prAutomation.create", "pr automation", id, &automation.name);
        self.store.pr_automation_create(by, &automation, grant.as_ref()).await?;
        Ok(automation)
    }

    /// A changed automation; its bindings need admin access to it. Where the connection or the repository changes, both are checked as
    /// for a new one. Where everything is so already, nothing is written.
    pub async fn pr_automation_update(
        &self,
        ctx: &OpCtx,
        id: PrAutomationId,
        change: PrAutomationChange,
    ) -> Result<PrAutomation> {
        let selector = PrAutomationSelector::Id(id);
        let PrAutomationChange { name, project_id, role, links, spec, merge_windows, bindings } = change;
        let grant = if bindings.is_empty() {
            None
        } else {
            let automation = self.authorized::<PrAutomation, Admin>(ctx, &selector).await?;
            Some(Grant::on(&automation, ctx, &bindings)?)
        };
        let automation = self.authorized::<PrAutomation, Write>(ctx, &selector).await?;
        if project_id.is_some_and(|project| project != automation.project_id) {
            return Err(Error::invalid(
                "attributes.projectId",
                "cannot change: make another automation there",
            ));
        }
        let links = links.over(automation.links);
        let mut spec = spec.over(automation.spec.clone());
        spec.check(links.repository_id.is_some())?;
        let same_target = links.connection_id == automation.links.connection_id
            && spec.identifier == automation.spec.identifier;
        if !same_target {
            let project = automation.project_id;
            spec.identifier =
                self.pr_target_allowed(ctx, project, &links, spec.identifier.as_deref()).await?;
        }
        if links != automation.links {
            // Whoever may change the automation need not see its project.
            let by = ProjectSelector::Id(automation.project_id);
            let project = self.get::<Project>(&self.system_ctx(), &by).await?;
            self.pr_links_allowed(ctx, &project, Some(&automation.links), &links).await?;
        }
        let is_new_version = spec.digest()? != automation.spec.digest()?;
        let after = PrAutomation {
            revision: automation.revision + i64::from(is_new_version),
            name: name.unwrap_or_else(|| automation.name.clone()),
            role: role.or(automation.role),
            links,
            spec,
            merge_windows: merge_windows.unwrap_or_else(|| automation.merge_windows.clone()),
            updated_at: ctx.now(),
            ..(*automation).clone()
        };
        let as_before = PrAutomation { updated_at: automation.updated_at, ..after.clone() };
        if grant.is_none() && as_before == *automation {
            return Ok(automation.into_inner());
        }
        let by = automation.audited(ctx, "prAutomation.update");
        self.store.pr_automation_update(by, &after, grant.as_ref()).await?;
        Ok(after)
    }

    /// Removes an automation; pull requests that it opened stay.
    pub async fn pr_automation_delete(&self, ctx: &OpCtx, id: PrAutomationId) -> Result<PrAutomation> {
        let automation = self.authorized::<PrAutomation, Write>(ctx, &PrAutomationSelector::Id(id)).await?;
        self.store.pr_automation_delete(automation.audited(ctx, "prAutomation.delete")).await?;
        Ok(automation.into_inner())
    }

    /// Whether the caller may open pull requests with an automation.
    pub async fn pr_automation_may_create(&self, ctx: &OpCtx, id: PrAutomationId) -> Result<bool> {
        match self.authorized::<PrAutomation, CreatePr>(ctx, &PrAutomationSelector::Id(id)).await {
            Ok(_) => Ok(true),
            Err(Error::Forbidden { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The slug of the repository that is changed, for whoever may read the connection.
    async fn pr_target_allowed(
        &self,
        ctx: &OpCtx,
        project: ProjectId,
        links: &PrAutomationLinks,
        identifier: Option<&str>,
    ) -> Result<Option<String>> {
        let by = ScmConnectionSelector::Id(links.connection_id);
        let connection = self.authorized::<ScmConnection, Read>(ctx, &by).await;
        let connection = connection.map_err(|error| error.named_in("attributes.connectionId"))?;
        target_allowed(project, &connection, identifier)
    }

    /// Refuses another repository than the automation's, through a connection that the caller may not see: administrators decide which repositories
    /// are changed through one of the whole installation. Of an automation that names none, whoever opens pull requests does.
    pub(crate) async fn pr_target_given(
        &self,
        ctx: &OpCtx,
        automation: &PrAutomation,
        connection: &ScmConnection,
        repository: &str,
    ) -> Result<()> {
        let Some(named) = automation.spec.identifier.as_deref() else { return Ok(()) };
        if connection.project_id.is_some() || named.eq_ignore_ascii_case(repository) {
            return Ok(());
        }
        let by = ScmConnectionSelector::Id(connection.id);
        match self.authorized::<ScmConnection, Read>(ctx, &by).await {
            Ok(_) => Ok(()),
            Err(Error::NotFound { .. } | Error::Forbidden { .. }) => Err(Error::forbidden(format!(
                "identifier: the automation is for {named}, and its connection is of the whole installation: leave the identifier out, or ask an \
                 administrator for an automation of the other repository"
            ))),
            Err(error) => Err(error),
        }
    }

    /// What else an automation uses is there for whoever names it, and templates come from where the project's services may.
    async fn pr_links_allowed(
        &self,
        ctx: &OpCtx,
        project: &Project,
        before: Option<&PrAutomationLinks>,
        links: &PrAutomationLinks,
    ) -> Result<()> {
        let PrAutomationLinks { connection_id: _, repository_id, cluster_id, service_id, governance_id } =
            *links;
        if let Some(id) =
            repository_id.filter(|_| before.and_then(|before| before.repository_id) != repository_id)
        {
            let repository = self.authorized::<Repository, Read>(ctx, &RepositorySelector::Id(id)).await;
            let repository = repository.map_err(|error| error.named_in("attributes.repositoryId"))?;
            if let Some(problem) = stack_limits(project).problem(&repository.url.to_string()) {
                return Err(Error::forbidden(problem));
            }
        }
        if let Some(id) = cluster_id.filter(|_| before.and_then(|before| before.cluster_id) != cluster_id) {
            let cluster = self.authorized::<Cluster, Read>(ctx, &ClusterSelector::Id(id)).await;
            cluster.map_err(|error| error.named_in("attributes.clusterId"))?;
        }
        if let Some(id) = service_id.filter(|_| before.and_then(|before| before.service_id) != service_id) {
            let service = self.authorized::<Service, Read>(ctx, &ServiceSelector::Id(id)).await;
            service.map_err(|error| error.named_in("attributes.serviceId"))?;
        }
        let known = before.and_then(|before| before.governance_id);
        if let Some(id) = governance_id.filter(|id| Some(*id) != known) {
            let by = PrGovernanceSelector::Id(id);
            let governance = self.authorized::<PrGovernance, Read>(ctx, &by).await;
            let governance = governance.map_err(|error| error.named_in("attributes.governanceId"))?;
            if governance.project_id.is_some_and(|owner| owner != project.id) {
                return Err(Error::invalid(
                    "attributes.governanceId",
                    "belongs to another project: name one of the automation's project, or of the whole installation",
                ));
            }
        }
        Ok(())
    }
}
