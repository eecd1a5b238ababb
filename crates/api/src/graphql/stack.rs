//! Infrastructure stacks, and what is known of their state.

use async_graphql::{Context, Enum, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::stack::{StackFilter, StackSelector};
use plural_core::policy::Role;
use plural_core::stack::{NewStack, StackChange, StackTool};
use plural_core::{Error, Result};

use super::{
    binding::{PolicyBinding, bindings_of},
    error::{IntoGraphql, List, Nullable, id, id_in, id_option, id_or_name, nullable, parse, parse_option},
    limited::limited,
    page::{connection, page_args},
    project::Project,
    record::{by_id, one, page_of},
    request::request,
    shared::{PolicyBindingAttributes, RbacAttributes},
    stack_state::{StackLock, StackStateVersion},
};

/// What keeps the infrastructure of a stack. Only `TERRAFORM` stacks are kept yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enum)]
pub(crate) enum StackType {
    /// Terraform, or OpenTofu.
    Terraform,
    /// Terragrunt.
    Terragrunt,
    /// Ansible.
    Ansible,
    /// Pulumi.
    Pulumi,
    /// Other commands.
    Custom,
}

impl StackType {
    fn tool(self) -> Result<StackTool> {
        match self {
            Self::Terraform => Ok(StackTool::Terraform),
            Self::Terragrunt | Self::Ansible | Self::Pulumi | Self::Custom => Err(Error::invalid(
                "attributes.type",
                "must be TERRAFORM, for Terraform and OpenTofu: this console keeps the state of no other tool",
            )),
        }
    }
}

impl From<StackTool> for StackType {
    fn from(tool: StackTool) -> Self {
        match tool {
            StackTool::Terraform => Self::Terraform,
        }
    }
}

/// Infrastructure that a tool keeps, and whose state the console holds at `/v1/stacks/ID/state`.
pub(crate) struct InfrastructureStack(plural_core::stack::Stack);

impl From<plural_core::stack::Stack> for InfrastructureStack {
    fn from(stack: plural_core::stack::Stack) -> Self {
        Self(stack)
    }
}

connection!(InfrastructureStackConnection, InfrastructureStackEdge, InfrastructureStack);

/// Infrastructure that a tool keeps, and whose state the console holds at `/v1/stacks/ID/state`.
#[Object]
impl InfrastructureStack {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// What keeps it.
    #[graphql(name = "type")]
    async fn kind(&self) -> StackType {
        self.0.tool.into()
    }

    /// Where it belongs.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(async { by_id::<plural_core::project::Project, _>(ctx, self.0.project_id).await }).await
    }

    /// It cannot be deleted.
    async fn protect(&self) -> bool {
        self.0.protect
    }

    /// Who holds its state, if anybody does.
    async fn lock(&self) -> Option<StackLock> {
        self.0.lock.clone().map(StackLock::from)
    }

    /// The version of its state that counts; absent before the first one.
    async fn state_version(&self) -> Option<StackStateVersion> {
        self.0.state.clone().map(StackStateVersion::from)
    }

    /// The versions of its state that are kept, rejected ones too, newest first.
    async fn state_versions(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<StackStateVersion>>> {
        nullable(async {
            let request = request(ctx);
            let found = request.app.stack_state_versions(&request.op, self.0.id).await.into_graphql(ctx)?;
            Ok(limited(ctx, found.into_iter().map(StackStateVersion::from)))
        })
        .await
    }

    /// Who may read it, besides those of its project.
    async fn read_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(async { bindings_of(ctx, self.0.id.into(), Role::Read).await }).await
    }

    /// Who may change it and its state, besides those of its project.
    async fn write_bindings(&self, ctx: &Context<'_>) -> Nullable<Vec<Option<PolicyBinding>>> {
        nullable(async { bindings_of(ctx, self.0.id.into(), Role::Write).await }).await
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed; its state changes without this.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// What a new stack is made from.
#[derive(Debug, InputObject)]
pub(crate) struct StackAttributes {
    /// Unique in the installation.
    name: String,
    /// What keeps it.
    #[graphql(name = "type")]
    kind: StackType,
    /// Where it belongs; else the default project.
    project_id: Option<ID>,
    /// It cannot be deleted.
    protect: Option<bool>,
    /// Who may read it, besides those of its project.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change it and its state, besides those of its project.
    write_bindings: List<PolicyBindingAttributes>,
}

impl StackAttributes {
    fn parse(self) -> Result<NewStack> {
        let Self { name, kind, project_id, protect, read_bindings, write_bindings } = self;
        let rbac = RbacAttributes { read_bindings, write_bindings, admin_bindings: None };
        Ok(NewStack {
            name: parse("attributes.name", &name)?,
            tool: kind.tool()?,
            project_id: id_in("attributes.projectId", project_id.as_deref())?,
            protect: protect.unwrap_or_default(),
            bindings: rbac.change()?,
        })
    }
}

/// What changes of a stack; what is absent stays as it is.
#[derive(Debug, InputObject)]
pub(crate) struct StackUpdateAttributes {
    /// A new name.
    name: Option<String>,
    /// New protection.
    protect: Option<bool>,
    /// Who may read it; replaces the list.
    read_bindings: List<PolicyBindingAttributes>,
    /// Who may change it and its state; replaces the list.
    write_bindings: List<PolicyBindingAttributes>,
}

impl StackUpdateAttributes {
    fn parse(self) -> Result<StackChange> {
        let Self { name, protect, read_bindings, write_bindings } = self;
        let rbac = RbacAttributes { read_bindings, write_bindings, admin_bindings: None };
        Ok(StackChange {
            name: parse_option("attributes.name", name.as_deref())?,
            protect,
            bindings: rbac.change()?,
        })
    }
}

/// Reading stacks.
#[derive(Default)]
pub(crate) struct StackQuery;

/// Reading stacks.
#[Object]
impl StackQuery {
    /// One stack, by its id or its name.
    async fn infrastructure_stack(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] stack: Option<ID>,
        name: Option<String>,
    ) -> Nullable<InfrastructureStack> {
        let by = id_or_name(stack, name, StackSelector::Id, StackSelector::Name);
        one::<plural_core::stack::Stack, _>(ctx, by).await
    }

    /// The stacks that you may see.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn infrastructure_stacks(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<InfrastructureStackConnection> {
        let filter = id_option(project_id.as_deref()).map(|project_id| StackFilter { project_id, q });
        page_of::<plural_core::stack::Stack, _>(ctx, filter, page_args(after, first, before, last)).await
    }
}

/// Changing stacks.
#[derive(Default)]
pub(crate) struct StackMutation;

/// Changing stacks.
#[Object]
impl StackMutation {
    /// Makes a stack. Bindings of its own need admin access to its project.
    async fn create_stack(
        &self,
        ctx: &Context<'_>,
        attributes: StackAttributes,
    ) -> Nullable<InfrastructureStack> {
        nullable(async {
            let request = request(ctx);
            let new = attributes.parse().into_graphql(ctx)?;
            Ok(Some(request.app.stack_create(&request.op, new).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Changes a stack; its bindings need admin access to it.
    async fn update_stack(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] stack: ID,
        attributes: StackUpdateAttributes,
    ) -> Nullable<InfrastructureStack> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack).into_graphql(ctx)?;
            let change = attributes.parse().into_graphql(ctx)?;
            Ok(Some(request.app.stack_update(&request.op, stack, &change).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a stack with all versions of its state, for its administrators. What its state knows of is not destroyed: nothing
    /// knows of it any more.
    async fn delete_stack(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] stack: ID,
        #[graphql(
            desc = "Where the state has resources, the id of its version: you know what nothing knows of any more."
        )]
        forget: Option<ID>,
    ) -> Nullable<InfrastructureStack> {
        nullable(async {
            let request = request(ctx);
            let stack = id(&stack).into_graphql(ctx)?;
            let forget = id_in("forget", forget.as_deref()).into_graphql(ctx)?;
            Ok(Some(request.app.stack_delete(&request.op, stack, forget).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
