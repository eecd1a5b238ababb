//! Contexts: named documents that the templates of services read.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::service_context::{ServiceContextFilter, ServiceContextSelector};
use plural_core::Result;
use plural_core::ids::StackId;
use plural_core::service_context::ServiceContextChange;
use plural_specs::{Json, Map};

use super::{
    error::{IntoGraphql, List, Nullable, id, id_in, id_option, items, list, nullable, parse},
    page::{connection, page_args},
    project::Project,
    record::{by_id, one, page_of},
    request::request,
    service_input::{ConfigAttributes, values},
    stack::InfrastructureStack,
};

/// What a context is given. What is absent stays as it is.
#[derive(InputObject)]
pub(crate) struct ServiceContextAttributes {
    /// Where a new one belongs; else the default project.
    project_id: Option<ID>,
    /// The whole document: a JSON object.
    configuration: Option<Json>,
    /// Values that nobody is shown; replaces all of them.
    secrets: List<ConfigAttributes>,
    /// Outputs of stacks that it takes; replaces all of them.
    imports: List<ContextImportAttributes>,
}

/// An output of a stack that a context takes: it comes by itself, and again with each apply that changes it.
#[derive(InputObject)]
pub(crate) struct ContextImportAttributes {
    /// Id of the stack.
    stack_id: ID,
    /// Name of the output.
    output: String,
    /// The name under which templates read it, over a value of the document with that name; else the output's.
    name: Option<String>,
    /// Take it also where the tool calls it sensitive: that needs the right to read the stack's state, and makes the context one with
    /// secret values. Else it is missing as long as it is sensitive.
    sensitive: Option<bool>,
}

impl ContextImportAttributes {
    fn parse(self) -> Result<Option<plural_core::service_context::ContextImport>> {
        let Self { stack_id, output, name, sensitive } = self;
        let stack: Option<StackId> = id_in("attributes.imports.stackId", Some(&stack_id.0))?;
        Ok(stack.map(|stack_id| plural_core::service_context::ContextImport {
            stack_id,
            name: name.unwrap_or_else(|| output.clone()),
            output,
            sensitive: sensitive.unwrap_or(false),
        }))
    }
}

impl ServiceContextAttributes {
    fn parse(self) -> Result<ServiceContextChange> {
        let Self { project_id, configuration, secrets, imports } = self;
        let imports = match items(imports) {
            None => None,
            Some(all) => {
                let mut imports = Vec::with_capacity(all.len());
                for one in all {
                    imports.extend(one.parse()?);
                }
                Some(imports)
            }
        };
        let configuration = configuration.map_or(Ok(None), |json| json.object("attributes.configuration"))?;
        Ok(ServiceContextChange {
            project_id: id_in("attributes.projectId", project_id.as_deref())?,
            configuration,
            secrets: values(secrets)?,
            imports,
        })
    }
}

/// A context that a service's templates read.
#[derive(Debug, InputObject)]
pub(crate) struct ContextBindingAttributes {
    /// Its id.
    context_id: ID,
}

impl ContextBindingAttributes {
    pub(super) fn parse(self) -> Result<plural_core::ids::ServiceContextId> {
        let Self { context_id } = self;
        id(&context_id)
    }
}

/// A named document that the templates of services read.
pub(crate) struct ServiceContext(plural_core::service_context::ServiceContext);

impl From<plural_core::service_context::ServiceContext> for ServiceContext {
    fn from(context: plural_core::service_context::ServiceContext) -> Self {
        Self(context)
    }
}

/// An output of a stack that a context takes.
pub(crate) struct ContextImport(plural_core::service_context::ContextImport);

/// An output of a stack that a context takes.
#[Object]
impl ContextImport {
    /// Id of the stack.
    async fn stack_id(&self) -> ID {
        self.0.stack_id.to_string().into()
    }

    /// The stack; null where you may not see it, or where it is gone.
    async fn stack(&self, ctx: &Context<'_>) -> Nullable<InfrastructureStack> {
        nullable(by_id::<plural_core::stack::Stack, _>(ctx, self.0.stack_id)).await
    }

    /// Name of the output.
    async fn output(&self) -> &str {
        &self.0.output
    }

    /// The name under which templates read it.
    async fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether it is taken also where the tool calls it sensitive: whoever saved the context might read the stack's state.
    async fn sensitive(&self) -> Option<bool> {
        Some(self.0.sensitive)
    }
}

connection!(ServiceContextConnection, ServiceContextEdge, ServiceContext);

/// A named document that the templates of services read.
#[Object]
impl ServiceContext {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name: templates read `contexts.NAME`.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// The document, without secret values.
    async fn configuration(&self) -> Option<Map> {
        Some(Map(self.0.configuration.clone()))
    }

    /// Names of its secret values.
    async fn secret_names(&self) -> List<String> {
        list(self.0.secrets.iter().cloned())
    }

    /// The outputs of stacks that it takes, without their values.
    async fn imports(&self) -> List<ContextImport> {
        list(self.0.imports.iter().cloned().map(ContextImport))
    }

    /// Where it belongs.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// When it was made.
    async fn inserted_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.created_at)
    }

    /// When it was last changed.
    async fn updated_at(&self) -> Option<DateTime<Utc>> {
        Some(self.0.updated_at)
    }
}

/// Reading contexts.
#[derive(Default)]
pub(crate) struct ServiceContextQuery;

/// Reading contexts.
#[Object]
impl ServiceContextQuery {
    /// The context of this name.
    async fn service_context(&self, ctx: &Context<'_>, name: String) -> Nullable<ServiceContext> {
        one::<plural_core::service_context::ServiceContext, _>(ctx, Ok(ServiceContextSelector::Name(name)))
            .await
    }

    /// The contexts that you may see.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn service_contexts(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<ServiceContextConnection> {
        let filter =
            id_option(project_id.as_deref()).map(|project_id| ServiceContextFilter { project_id, q });
        page_of::<plural_core::service_context::ServiceContext, _>(
            ctx,
            filter,
            page_args(after, first, before, last),
        )
        .await
    }
}

/// Changing contexts.
#[derive(Default)]
pub(crate) struct ServiceContextMutation;

/// Changing contexts.
#[Object]
impl ServiceContextMutation {
    /// Makes the context of this name, or changes it; every service that uses it is rendered anew.
    async fn save_service_context(
        &self,
        ctx: &Context<'_>,
        name: String,
        attributes: ServiceContextAttributes,
    ) -> Nullable<ServiceContext> {
        nullable(async {
            let request = request(ctx);
            let name = parse("name", &name).into_graphql(ctx)?;
            let change = attributes.parse().into_graphql(ctx)?;
            Ok(Some(request.app.context_save(&request.op, name, change).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Removes a context that no service uses.
    async fn delete_service_context(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] context: ID,
    ) -> Nullable<ServiceContext> {
        nullable(async {
            let request = request(ctx);
            let context = id(&context).into_graphql(ctx)?;
            Ok(Some(request.app.context_delete(&request.op, context).await.into_graphql(ctx)?.into()))
        })
        .await
    }
}
