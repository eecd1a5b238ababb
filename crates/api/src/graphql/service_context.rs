//! Contexts: named documents that the templates of services read.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::{ServiceContextFilter, ServiceContextSelector};
use plural_core::{Result, ServiceContextChange};
use plural_specs::{Json, Map};

use super::{
    error::{List, Nullable, Told, id, id_option, list, nullable, parse},
    page::{connection, page_args},
    project::Project,
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
            project_id: id_option(project_id.as_deref())?,
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
    pub(super) fn parse(self) -> Result<plural_core::ServiceContextId> {
        let Self { context_id } = self;
        id(&context_id)
    }
}

/// A named document that the templates of services read.
pub(crate) struct ServiceContext(plural_core::ServiceContext);

impl From<plural_core::ServiceContext> for ServiceContext {
    fn from(context: plural_core::ServiceContext) -> Self {
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
        nullable(async { super::project::by_id(ctx, self.0.project_id).await }).await
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
        nullable(async {
            let request = request(ctx);
            let selector = ServiceContextSelector::Name(name);
            Ok(Some(request.app.context_get(&request.op, &selector).await.told(ctx)?.into()))
        })
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
        nullable(async {
            let request = request(ctx);
            let page = page_args(after, first, before, last);
            let filter = ServiceContextFilter { project_id: id_option(project_id.as_deref()).told(ctx)?, q };
            Ok(Some(request.app.context_list(&request.op, &filter, &page).await.told(ctx)?.into()))
        })
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
            let name = parse("name", &name).told(ctx)?;
            let change = attributes.parse().told(ctx)?;
            Ok(Some(request.app.context_save(&request.op, name, change).await.told(ctx)?.into()))
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
            let context = id(&context).told(ctx)?;
            Ok(Some(request.app.context_delete(&request.op, context).await.told(ctx)?.into()))
        })
        .await
    }
}
