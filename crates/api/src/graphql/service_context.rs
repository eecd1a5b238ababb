//! Contexts: named documents that the templates of services read.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::service_context::{ServiceContextFilter, ServiceContextSelector};
use plural_core::Result;
use plural_core::service_context::ServiceContextChange;
use plural_specs::{Json, Map};

use super::{
    error::{IntoGraphql, List, Nullable, id, id_in, id_option, list, nullable, parse},
    page::{connection, page_args},
    project::Project,
    record::{by_id, one, page_of},
    request::request,
    service_input::{ConfigAttributes, values},
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
}

impl ServiceContextAttributes {
    fn parse(self) -> Result<ServiceContextChange> {
        let Self { project_id, configuration, secrets } = self;
        let configuration = configuration.map_or(Ok(None), |json| json.object("attributes.configuration"))?;
        Ok(ServiceContextChange {
            project_id: id_in("attributes.projectId", project_id.as_deref())?,
            configuration,
            secrets: values(secrets)?,
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
