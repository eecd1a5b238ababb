//! PR automations: the questions that they ask, and the files of a repository that a pull request then changes.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::pr_automation::{PrAutomationFilter, PrAutomationSelector};
use plural_core::ids::{PrGovernanceId, ProjectId};
use plural_core::merge_window::MergeWindows;
use plural_core::policy::{BindingsChange, Role};
use plural_core::pr_automation::{NewPrAutomation, PrAutomationChange, PrAutomationLinksChange};
use plural_core::pr_automation_spec::{PrAutomationSpecChange, PrCreates, PrUpdates};
use plural_core::specs::{Change, Name};

use super::{
    binding::{PolicyBinding, bindings_of},
    cluster::Cluster,
    error::{
        IntoGraphql, List, Nullable, id, id_in, id_or_name, items, list, nullable, parse_option, unsupported,
    },
    form::{PrConfiguration, PrConfigurationAttributes, questions},
    git_repository::GitRepository,
    helm_repository::HttpProxyAttributes,
    page::{connection, page_args},
    pr_automation_spec::{
        PrAiSpecAttributes, PrAutomationCreateSpec, PrAutomationCreateSpecAttributes, PrAutomationDeleteSpec,
        PrAutomationUpdateSpec, PrAutomationUpdateSpecAttributes, PrConfirmation, PrLuaSpec, PrRole,
        PrSecrets, PrVendorSpec,
    },
    pr_governance::PrGovernance,
    project::Project,
    pull_request_merge::{MergeWindow, MergeWindowAttributes, given_windows, shown_windows},
    record::{by_id, one, page_of},
    request::request,
    scm_connection::ScmConnection,
    service::{GitRef, ServiceDeployment},
    service_input::GitRefAttributes,
    shared::{PolicyBindingAttributes, subjects},
};

/// The questions that users are asked, and the files of a repository that a pull request then changes.
pub(crate) struct PrAutomation(plural_core::pr_automation::PrAutomation);

impl From<plural_core::pr_automation::PrAutomation> for PrAutomation {
    fn from(automation: plural_core::pr_automation::PrAutomation) -> Self {
        Self(automation)
    }
}

connection!(PrAutomationConnection, PrAutomationEdge, PrAutomation);

/// The questions that users are asked, and the files of a repository that a pull request then changes.
#[Object]
impl PrAutomation {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// What it is for.
    async fn role(&self) -> Option<PrRole> {
        self.0.role.map(Into::into)
    }

    /// What it is for, in Markdown.
    async fn documentation(&self) -> Option<&str> {
        self.0.spec.documentation.as_deref()
    }

    /// URL of an icon.
    async fn icon(&self) -> Option<&str> {
        self.0.spec.icon.as_deref()
    }

    /// URL of an icon for a dark background.
    async fn dark_icon(&self) -> Option<&str> {
        self.0.spec.dark_icon.as_deref()
    }

    /// The add-on that it is about.
    async fn addon(&self) -> Option<&str> {
        self.0.spec.addon.as_deref()
    }

    /// Labels of its pull requests.
    async fn labels(&self) -> List<&str> {
        list(self.0.spec.labels.iter().map(String::as_str))
    }

    /// The repository to change, as `acme/shop`; absent: whoever opens a pull request names it.
    async fn identifier(&self) -> Option<&str> {
        self.0.spec.identifier.as_deref()
    }

    /// The target branch of its pull requests; absent: `main`.
    async fn branch(&self) -> Option<&str> {
        self.0.spec.branch.as_deref()
    }

    /// Prefix of the branches of pull requests.
    async fn branch_prefix(&self) -> Option<&str> {
        self.0.spec.branch_prefix.as_deref()
    }

    /// Title of a pull request, a template.
    async fn title(&self) -> Option<&str> {
        Some(self.0.spec.title.as_str())
    }

    /// Its body, and the message of its commit: a template.
    async fn message(&self) -> Option<&str> {
        Some(self.0.spec.message.as_str())
    }

    /// It creates a patch, and no pull request.
    async fn patch(&self) -> Option<bool> {
        Some(self.0.spec.patch)
    }

    /// Counts the versions of its questions and actions, from one.
    async fn revision(&self) -> Option<i64> {
        Some(self.0.revision)
    }

    /// The questions.
    async fn configuration(&self) -> List<PrConfiguration> {
        list(self.0.spec.configuration.iter().cloned().map(PrConfiguration::from))
    }

    /// What users confirm before a pull request is opened.
    async fn confirmation(&self) -> Option<PrConfirmation> {
        self.0.spec.confirmation.clone().map(Into::into)
    }

    /// The Secret that comes with a pull request.
    async fn secrets(&self) -> Option<PrSecrets> {
        self.0.spec.secrets.clone().map(Into::into)
    }

    /// Where external templates are in `repository`.
    async fn git(&self) -> Option<GitRef> {
        self.0.spec.git.clone().map(Into::into)
    }

    /// Files to create.
    async fn creates(&self) -> Option<PrAutomationCreateSpec> {
        Some(self.0.spec.creates.clone().into())
    }

    /// Files to change.
    async fn updates(&self) -> Option<PrAutomationUpdateSpec> {
        Some(self.0.spec.updates.clone().into())
    }

    /// Files to delete.
    async fn deletes(&self) -> Option<PrAutomationDeleteSpec> {
        Some(self.0.spec.deletes.clone().into())
    }

    /// Charts to unpack.
    async fn vendor(&self) -> Option<PrVendorSpec> {
        Some(self.0.spec.vendor.clone().into())
    }

    /// A script that may change answers and automation first.
    async fn lua(&self) -> Option<PrLuaSpec> {
        self.0.spec.lua.clone().map(Into::into)
    }

    /// Merge windows of its pull requests; none: at any time.
    async fn merge_windows(&self) -> List<MergeWindow> {
        shown_windows(&self.0.merge_windows)
    }

    /// The connection that opens pull requests; absent if you may not see it: those of the whole installation are for administrators.
    async fn connection(&self, ctx: &Context<'_>) -> Nullable<ScmConnection> {
        let id = self.0.links.connection_id;
        nullable(by_id::<plural_core::scm_connection::ScmConnection, _>(ctx, id)).await
    }

    /// The repository of external templates; absent if there is none, or you may not see it.
    async fn repository(&self, ctx: &Context<'_>) -> Nullable<GitRepository> {
        nullable(by_id::<plural_core::repository::Repository, _>(ctx, self.0.links.repository_id)).await
    }

    /// The cluster that it is about; absent if there is none, or you may not see it.
    async fn cluster(&self, ctx: &Context<'_>) -> Nullable<Cluster> {
        nullable(by_id::<plural_core::cluster::Cluster, _>(ctx, self.0.links.cluster_id)).await
    }

    /// The service that it is about; absent if there is none, or you may not see it.
    async fn service(&self, ctx: &Context<'_>) -> Nullable<ServiceDeployment> {
        nullable(by_id::<plural_core::service::Service, _>(ctx, self.0.links.service_id)).await
    }

    /// The governance that confirms its pull requests; absent if there is none, or you may not see it.
    async fn governance(&self, ctx: &Context<'_>) -> Nullable<PrGovernance> {
        nullable(by_id::<plural_core::pr_governance::PrGovernance, _>(ctx, self.0.links.governance_id)).await
    }

    /// Its project; absent if you may see the automation but not its project.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// You may open pull requests with it.
    async fn may_create(&self, ctx: &Context<'_>) -> Nullable<bool> {
        nullable(async {
            let request = request(ctx);
            let may = request.app.pr_automation_may_create(&request.op, self.0.id).await;
            may.into_graphql(ctx).map(Some)
        })
        .await
    }

    /// Who may read it, besides those of its project.
    async fn read_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Read)).await
    }

    /// Who may change it, besides those of its project.
    async fn write_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Write)).await
    }

    /// Who may open pull requests with it, besides those who may change it.
    async fn create_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(bindings_of(ctx, self.0.id.into(), Role::Create)).await
    }

    /// When it was created.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// The settings of an automation. What is absent stays as it is; an empty text, list or part removes it.
#[derive(InputObject)]
pub(crate) struct PrAutomationAttributes {
    /// Unique name; a new one needs it.
    name: Option<String>,
    /// What it is for.
    role: Option<PrRole>,
    /// The repository to change, as `acme/shop`: one that the connection may touch. Absent: whoever opens a pull request names it.
    identifier: Option<String>,
    /// What it is for, in Markdown.
    documentation: Option<String>,
    /// Title of a pull request, a template; a new one needs it.
    title: Option<String>,
    /// Its body, and the message of its commit: a template; a new one needs it.
    message: Option<String>,
    /// The target branch of its pull requests; absent: `main`.
    branch: Option<String>,
    /// It creates a patch, and no pull request.
    patch: Option<bool>,
    /// Prefix of the branches of pull requests.
    branch_prefix: Option<String>,
    /// Refused: the connection has the proxy.
    proxy: Option<HttpProxyAttributes>,
    /// Files to change.
    updates: Option<PrAutomationUpdateSpecAttributes>,
    /// Files to create.
    creates: Option<PrAutomationCreateSpecAttributes>,
    /// Files to delete.
    deletes: Option<PrAutomationDeleteSpec>,
    /// Charts to unpack.
    vendor: Option<PrVendorSpec>,
    /// Refused: no file here is written by a model.
    ai: Option<PrAiSpecAttributes>,
    /// A script that may change answers and automation first.
    lua: Option<PrLuaSpec>,
    /// Where external templates are in the repository.
    git: Option<GitRefAttributes>,
    /// Labels of its pull requests.
    labels: List<String>,
    /// URL of an icon, http or https.
    icon: Option<String>,
    /// URL of an icon for a dark background.
    dark_icon: Option<String>,
    /// The add-on that it is about.
    addon: Option<String>,
    /// The cluster that it is about.
    cluster_id: Option<ID>,
    /// The service that it is about.
    service_id: Option<ID>,
    /// The connection that opens pull requests: of the automation's project, or, for administrators, of the whole installation. A new
    /// one needs it.
    connection_id: Option<ID>,
    /// Refused: there are no catalogs.
    catalog_id: Option<ID>,
    /// Its project; for a new one, the default project if absent. It cannot be changed.
    project_id: Option<ID>,
    /// The repository of external templates.
    repository_id: Option<ID>,
    /// The governance that confirms its future pull requests: of its project, or, for administrators, of the whole installation; an empty
    /// text removes it.
    governance_id: Option<ID>,
    /// The questions.
    configuration: List<PrConfigurationAttributes>,
    /// The Secret that comes with a pull request: names of its values, never the values.
    secrets: Option<PrSecrets>,
    /// What users confirm before a pull request is opened.
    confirmation: Option<PrConfirmation>,
    /// Merge windows of its future pull requests; none: at any time.
    merge_windows: List<MergeWindowAttributes>,
    /// Instead of windows: a schedule in cron's five fields, in UTC, that opens for an hour; empty for none.
    merge_cron: Option<String>,
    /// Who may read it, besides those of its project; replaces the list.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change it, besides those of its project; replaces the list.
    write_bindings: List<PolicyBindingAttributes>,
    /// Who may open pull requests with it, besides those who may change it; replaces the list.
    create_bindings: List<PolicyBindingAttributes>,
}

/// The input, in the types of the use cases.
struct Given {
    name: Option<Name>,
    project_id: Option<ProjectId>,
    role: Option<plural_core::pr_automation_spec::PrRole>,
    links: PrAutomationLinksChange,
    spec: PrAutomationSpecChange,
    merge_windows: Option<MergeWindows>,
    bindings: BindingsChange,
}

impl PrAutomationAttributes {
    fn parse(self) -> plural_core::Result<Given> {
        let Self {
            name,
            role,
            identifier,
            documentation,
            title,
            message,
            branch,
            patch,
            branch_prefix,
            proxy,
            updates,
            creates,
            deletes,
            vendor,
            ai,
            lua,
            git,
            labels,
            icon,
            dark_icon,
            addon,
            cluster_id,
            service_id,
            connection_id,
            catalog_id,
            project_id,
            repository_id,
            governance_id,
            configuration,
            secrets,
            confirmation,
            merge_windows,
            merge_cron,
            read_bindings,
            write_bindings,
            create_bindings,
        } = self;
        unsupported(
            "attributes.ai",
            ai.is_some(),
            "is not built: no model writes files here. Leave it out, and say what is done in creates, updates, deletes or lua",
        )?;
        unsupported(
            "attributes.proxy",
            proxy.is_some(),
            "is not taken: a host is reached through the proxy of its connection. Set it there",
        )?;
        unsupported(
            "attributes.catalogId",
            catalog_id.is_some(),
            "is not built: there are no catalogs yet. Leave it out",
        )?;
        let spec = PrAutomationSpecChange {
            documentation,
            icon,
            dark_icon,
            addon,
            labels: items(labels),
            identifier,
            branch,
            branch_prefix,
            title,
            message,
            patch,
            configuration: questions(configuration)?,
            confirmation: confirmation.map(Into::into),
            secrets: secrets.map(Into::into),
            git: git.map(GitRefAttributes::parse).transpose()?,
            creates: creates.map(PrCreates::try_from).transpose()?,
            updates: updates.map(PrUpdates::try_from).transpose()?,
            deletes: deletes.map(Into::into),
            vendor: vendor.map(Into::into),
            lua: lua.map(Into::into),
        };
        Ok(Given {
            name: parse_option("attributes.name", name.as_deref())?,
            project_id: id_in("attributes.projectId", project_id.as_deref())?,
            role: role.map(Into::into),
            links: PrAutomationLinksChange {
                connection_id: id_in("attributes.connectionId", connection_id.as_deref())?,
                repository_id: id_in("attributes.repositoryId", repository_id.as_deref())?,
                cluster_id: id_in("attributes.clusterId", cluster_id.as_deref())?,
                service_id: id_in("attributes.serviceId", service_id.as_deref())?,
                governance_id: governance_change(governance_id.as_ref())?,
            },
            spec,
            merge_windows: given_windows(merge_windows, merge_cron.as_deref())?,
            bindings: BindingsChange {
                read: subjects("readBindings", read_bindings)?,
                write: subjects("writeBindings", write_bindings)?,
                admin: None,
                create: subjects("createBindings", create_bindings)?,
            },
        })
    }
}

/// The change of the governance; an empty text removes it.
fn governance_change(given: Option<&ID>) -> plural_core::Result<Change<PrGovernanceId>> {
    match given {
        None => Ok(Change::Keep),
        Some(id) if id.is_empty() => Ok(Change::Clear),
        Some(given) => id(given).map(Change::Set).map_err(|error| error.named_in("attributes.governanceId")),
    }
}

/// Reading PR automations.
#[derive(Default)]
pub(crate) struct PrAutomationQuery;

/// Reading PR automations.
#[Object]
impl PrAutomationQuery {
    /// One automation, by id or name.
    async fn pr_automation(
        &self,
        ctx: &Context<'_>,
        id: Option<ID>,
        name: Option<String>,
    ) -> Nullable<PrAutomation> {
        let by = id_or_name(id, name, PrAutomationSelector::Id, PrAutomationSelector::Name);
        one::<plural_core::pr_automation::PrAutomation, _>(ctx, by).await
    }

    /// The automations that you may see.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn pr_automations(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only those for this.")] role: Option<PrRole>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<PrAutomationConnection> {
        let filter = id_in("projectId", project_id.as_deref()).map(|project_id| PrAutomationFilter {
            project_id,
            role: role.map(Into::into),
            q,
        });
        page_of::<plural_core::pr_automation::PrAutomation, _>(
            ctx,
            filter,
            page_args(after, first, before, last),
        )
        .await
    }
}

/// Changing PR automations.
#[derive(Default)]
pub(crate) struct PrAutomationMutation;

/// Changing PR automations.
#[Object]
impl PrAutomationMutation {
    /// Creates an automation; needs write access to its project, and to see the connection.
    async fn create_pr_automation(
        &self,
        ctx: &Context<'_>,
        attributes: PrAutomationAttributes,
    ) -> Nullable<PrAutomation> {
        nullable(async {
            let request = request(ctx);
            let Given { name, project_id, role, links, spec, merge_windows, bindings } =
                attributes.parse().into_graphql(ctx)?;
            let name = name
                .ok_or_else(|| plural_core::Error::invalid("attributes.name", "must be given"))
                .into_graphql(ctx)?;
            let new = NewPrAutomation { name, project_id, role, links, spec, merge_windows, bindings };
            let made = Box::pin(request.app.pr_automation_create(&request.op, new)).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Updates an automation: what is absent stays as it is.
    async fn update_pr_automation(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] automation: ID,
        attributes: PrAutomationAttributes,
    ) -> Nullable<PrAutomation> {
        nullable(async {
            let request = request(ctx);
            let Given { name, project_id, role, links, spec, merge_windows, bindings } =
                attributes.parse().into_graphql(ctx)?;
            let automation = id(&automation).into_graphql(ctx)?;
            let change = PrAutomationChange { name, project_id, role, links, spec, merge_windows, bindings };
            let changed = Box::pin(request.app.pr_automation_update(&request.op, automation, change)).await;
            Ok(Some(changed.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes an automation; pull requests that it opened stay.
    async fn delete_pr_automation(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] automation: ID,
    ) -> Nullable<PrAutomation> {
        nullable(async {
            let request = request(ctx);
            let automation = id(&automation).into_graphql(ctx)?;
            let gone = request.app.pr_automation_delete(&request.op, automation).await;
            Ok(Some(gone.into_graphql(ctx)?.into()))
        })
        .await
    }
}
