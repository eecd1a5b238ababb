//! Definitions of stacks: named steps and an image that many stacks use.

use async_graphql::{Context, ID, InputObject, Object};
use chrono::{DateTime, Utc};
use plural_app::records::Search;
use plural_app::stack_definition::StackDefinitionSelector;
use plural_core::stack_definition::{NewStackDefinition, StackDefinition as Core};
use plural_core::stack_spec::{StackCommand, StackConfiguration as CoreConfiguration, Stage};

use super::{
    error::{IntoGraphql, List, Nullable, id, id_or_name, list, nullable, parse},
    page::{connection, page_args},
    record::{one, page_of},
    request::request,
    stack_spec::{CustomRunStep, StackConfiguration},
    stack_spec_input::{CustomStepAttributes, StackConfigurationAttributes, steps},
};

/// Named steps and an image that `CUSTOM` stacks use instead of their own commands.
pub(crate) struct StackDefinition(Core);

impl From<Core> for StackDefinition {
    fn from(definition: Core) -> Self {
        Self(definition)
    }
}

connection!(StackDefinitionConnection, StackDefinitionEdge, StackDefinition);

/// Named steps and an image that `CUSTOM` stacks use instead of their own commands.
#[Object]
impl StackDefinition {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique name.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// What it is for.
    async fn description(&self) -> Option<&str> {
        self.0.description.as_deref()
    }

    /// Settings of its stacks that have no setting of their own.
    async fn configuration(&self) -> StackConfiguration {
        self.0.configuration.clone().into()
    }

    /// The commands of its stacks.
    async fn steps(&self) -> List<CustomRunStep> {
        list(self.0.steps.iter().cloned().map(CustomRunStep::from))
    }

    /// The commands that undo them.
    async fn delete_steps(&self) -> List<CustomRunStep> {
        list(self.0.delete_steps.iter().cloned().map(CustomRunStep::from))
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

/// All settings of a definition, also in an update.
#[derive(Debug, InputObject)]
pub(crate) struct StackDefinitionAttributes {
    /// Unique name.
    name: String,
    /// What it is for.
    description: Option<String>,
    /// The commands of its stacks.
    steps: List<CustomStepAttributes>,
    /// The commands that undo them.
    delete_steps: List<CustomStepAttributes>,
    /// Image, version, tag and hooks of its stacks.
    configuration: Option<StackConfigurationAttributes>,
}

impl StackDefinitionAttributes {
    /// The new settings. Commands that do not say whether they wait for approval keep the setting in `was`.
    fn parse(self, was: Option<&Core>) -> plural_core::Result<NewStackDefinition> {
        let Self { name, description, steps: given, delete_steps, configuration: settings } = self;
        let mut configuration = CoreConfiguration::default();
        if let Some(settings) = settings {
            settings.over(&mut configuration)?;
        }
        Ok(NewStackDefinition {
            name: parse("attributes.name", &name)?,
            description: description.filter(|text| !text.is_empty()),
            configuration,
            steps: staged(steps(given, was.map_or(&[][..], |was| was.steps.as_slice()))),
            delete_steps: staged(steps(delete_steps, was.map_or(&[][..], |was| was.delete_steps.as_slice()))),
        })
    }
}

/// Commands with their default stage filled in: sending back what was read changes nothing.
fn staged(steps: Option<Vec<StackCommand>>) -> Vec<StackCommand> {
    let mut steps = steps.unwrap_or_default();
    for step in &mut steps {
        step.stage.get_or_insert(Stage::Apply);
    }
    steps
}

/// Reading definitions of stacks.
#[derive(Default)]
pub(crate) struct StackDefinitionQuery;

/// Reading definitions of stacks.
#[Object]
impl StackDefinitionQuery {
    /// One definition of stacks, by id or by name.
    async fn stack_definition(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] definition: Option<ID>,
        name: Option<String>,
    ) -> Nullable<StackDefinition> {
        let by = id_or_name(definition, name, StackDefinitionSelector::Id, StackDefinitionSelector::Name);
        one::<Core, _>(ctx, by).await
    }

    /// The definitions of stacks.
    async fn stack_definitions(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<StackDefinitionConnection> {
        page_of::<Core, _>(ctx, Ok(Search { q }), page_args(after, first, before, last)).await
    }
}

/// Changing definitions of stacks.
#[derive(Default)]
pub(crate) struct StackDefinitionMutation;

/// Changing definitions of stacks.
#[Object]
impl StackDefinitionMutation {
    /// Creates a definition of stacks.
    async fn create_stack_definition(
        &self,
        ctx: &Context<'_>,
        attributes: StackDefinitionAttributes,
    ) -> Nullable<StackDefinition> {
        nullable(async {
            let request = request(ctx);
            let new = attributes.parse(None).into_graphql(ctx)?;
            let made = request.app.stack_definition_create(&request.op, &new).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Replaces the settings of a definition. Its stacks that are not paused plan again.
    async fn update_stack_definition(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] definition: ID,
        attributes: StackDefinitionAttributes,
        #[graphql(
            desc = "What its `updatedAt` was when you read it: where it was changed since, nothing is."
        )]
        unchanged_since: Option<DateTime<Utc>>,
    ) -> Nullable<StackDefinition> {
        nullable(async {
            let request = request(ctx);
            let definition = id(&definition).into_graphql(ctx)?;
            let was = request.app.get::<Core>(&request.op, &StackDefinitionSelector::Id(definition)).await;
            let is = attributes.parse(Some(&was.into_graphql(ctx)?)).into_graphql(ctx)?;
            let changed = request.app.stack_definition_update(&request.op, definition, &is, unchanged_since);
            let changed = Box::pin(changed).await;
            Ok(Some(changed.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes a definition that no stack uses.
    async fn delete_stack_definition(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] definition: ID,
    ) -> Nullable<StackDefinition> {
        nullable(async {
            let request = request(ctx);
            let definition = id(&definition).into_graphql(ctx)?;
            let gone = request.app.stack_definition_delete(&request.op, definition).await;
            Ok(Some(gone.into_graphql(ctx)?.into()))
        })
        .await
    }
}
