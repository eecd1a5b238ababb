//! Named commands of stacks, which users start with answers.

use async_graphql::{Context, ID, InputObject, Object, SimpleObject};
use chrono::{DateTime, Utc};
use plural_app::custom_stack_run::CustomStackRunFilter;
use plural_app::stack::StackSelector;
use plural_core::custom_stack_run::{CustomStackRunChange, NewCustomStackRun};
use plural_core::stack_exec::ExecCommand;
use plural_specs::Map;

use super::{
    error::{IntoGraphql, List, Nullable, id, id_in, items, list, nullable, parse},
    form::{PrConfiguration, PrConfigurationAttributes, questions},
    page::{connection, page_args},
    project::Project,
    record::{by_id, one, page_of},
    request::request,
    stack::InfrastructureStack,
    stack_exec::CommandAttributes,
    stack_run::StackRun,
};

/// Named commands, of a stack or of all stacks of a project.
pub(crate) struct CustomStackRun(plural_core::custom_stack_run::CustomStackRun);

impl From<plural_core::custom_stack_run::CustomStackRun> for CustomStackRun {
    fn from(custom: plural_core::custom_stack_run::CustomStackRun) -> Self {
        Self(custom)
    }
}

connection!(CustomStackRunConnection, CustomStackRunEdge, CustomStackRun);

/// A command that a user runs on demand. It does not go through a shell.
#[derive(Debug, SimpleObject)]
pub(crate) struct StackCommand {
    /// Program.
    cmd: String,
    /// Its arguments.
    args: List<String>,
    /// Folder below the tool's working folder; absent: the working folder.
    dir: Option<String>,
    /// It waits for approval if the stack requires that, and then runs with the rights to apply.
    approve: Option<bool>,
}

impl From<ExecCommand> for StackCommand {
    fn from(ExecCommand { cmd, args, dir, approve }: ExecCommand) -> Self {
        Self { cmd, args: list(args), dir, approve: Some(approve) }
    }
}

/// Named commands, of a stack or of all stacks of a project.
#[Object]
impl CustomStackRun {
    /// Id.
    async fn id(&self) -> ID {
        self.0.id.to_string().into()
    }

    /// Unique in the project.
    async fn name(&self) -> &str {
        self.0.name.as_str()
    }

    /// What it is for, in Markdown.
    async fn documentation(&self) -> Option<&str> {
        Some(self.0.documentation.as_str()).filter(|text| !text.is_empty())
    }

    /// Its stack; absent: any of the project.
    async fn stack(&self, ctx: &Context<'_>) -> Nullable<InfrastructureStack> {
        nullable(by_id::<plural_core::stack::Stack, _>(ctx, self.0.stack_id)).await
    }

    /// Its project.
    async fn project(&self, ctx: &Context<'_>) -> Nullable<Project> {
        nullable(by_id::<plural_core::project::Project, _>(ctx, self.0.project_id)).await
    }

    /// In order; the first one that fails ends the run.
    async fn commands(&self) -> List<StackCommand> {
        list(self.0.commands.iter().cloned().map(StackCommand::from))
    }

    /// The questions to users who start it. Answers are environment variables of the commands, named after the questions.
    async fn configuration(&self) -> List<PrConfiguration> {
        list(self.0.questions.iter().cloned().map(PrConfiguration::from))
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

/// The settings of named commands. In an update, what is absent stays as it is; stack and project cannot be changed.
#[derive(Debug, InputObject)]
pub(crate) struct CustomStackRunAttributes {
    /// Unique in the project.
    name: String,
    /// What it is for, in Markdown.
    documentation: Option<String>,
    /// Its stack; absent: any of the project.
    stack_id: Option<ID>,
    /// Without a stack: the project; absent: the default project.
    project_id: Option<ID>,
    /// In order; the first one that fails ends the run.
    commands: List<CommandAttributes>,
    /// The questions to users who start it.
    configuration: List<PrConfigurationAttributes>,
}

/// Reading named commands.
#[derive(Default)]
pub(crate) struct CustomStackRunQuery;

/// Reading named commands.
#[Object]
impl CustomStackRunQuery {
    /// Named commands.
    async fn custom_stack_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] custom: ID,
    ) -> Nullable<CustomStackRun> {
        one::<plural_core::custom_stack_run::CustomStackRun, _>(ctx, id(&custom)).await
    }

    /// The named commands that you may see.
    #[expect(clippy::too_many_arguments, reason = "the schema's arguments")]
    async fn custom_stack_runs(
        &self,
        ctx: &Context<'_>,
        after: Option<String>,
        first: Option<i32>,
        before: Option<String>,
        last: Option<i32>,
        #[graphql(
            name = "stackId",
            desc = "Only those that can be started for this stack: its own, and those of all stacks of its project."
        )]
        stack: Option<ID>,
        #[graphql(desc = "Only of this project.")] project_id: Option<ID>,
        #[graphql(desc = "Only with this in their name.")] q: Option<String>,
    ) -> Nullable<CustomStackRunConnection> {
        let filter = async {
            let project_id = id_in("projectId", project_id.as_deref())?;
            let usable = match id_in("stackId", stack.as_deref())? {
                Some(stack) => {
                    let request = request(ctx);
                    let by = StackSelector::Id(stack);
                    let stack = request.app.get::<plural_core::stack::Stack>(&request.op, &by).await;
                    let stack = stack.map_err(|error| error.named_in("stackId"))?;
                    Some((stack.project_id, stack.id))
                }
                None => None,
            };
            Ok::<_, plural_core::Error>(CustomStackRunFilter { project_id, usable, q })
        };
        let filter = filter.await;
        page_of::<plural_core::custom_stack_run::CustomStackRun, _>(
            ctx,
            filter,
            page_args(after, first, before, last),
        )
        .await
    }
}

/// Changing and starting named commands.
#[derive(Default)]
pub(crate) struct CustomStackRunMutation;

/// Changing and starting named commands.
#[Object]
impl CustomStackRunMutation {
    /// Creates named commands; needs write access to their stack, or else to the project.
    async fn create_custom_stack_run(
        &self,
        ctx: &Context<'_>,
        attributes: CustomStackRunAttributes,
    ) -> Nullable<CustomStackRun> {
        nullable(async {
            let request = request(ctx);
            let new = attributes.new_run().into_graphql(ctx)?;
            Ok(Some(request.app.custom_stack_run_create(&request.op, new).await.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Updates named commands: what is absent stays as it is.
    async fn update_custom_stack_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] custom: ID,
        attributes: CustomStackRunAttributes,
    ) -> Nullable<CustomStackRun> {
        nullable(async {
            let request = request(ctx);
            let custom = id(&custom).into_graphql(ctx)?;
            let is = request.app.get::<plural_core::custom_stack_run::CustomStackRun>(&request.op, &custom);
            let change = attributes.change(&is.await.into_graphql(ctx)?).into_graphql(ctx)?;
            let changed = request.app.custom_stack_run_update(&request.op, custom, &change).await;
            Ok(Some(changed.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Deletes named commands; runs that were started stay.
    async fn delete_custom_stack_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] custom: ID,
    ) -> Nullable<CustomStackRun> {
        nullable(async {
            let request = request(ctx);
            let custom = id(&custom).into_graphql(ctx)?;
            let gone = request.app.custom_stack_run_delete(&request.op, custom).await;
            Ok(Some(gone.into_graphql(ctx)?.into()))
        })
        .await
    }

    /// Starts named commands: a run of them, in the environment of the stack. Needs the action `stack-exec` on it.
    async fn start_custom_stack_run(
        &self,
        ctx: &Context<'_>,
        #[graphql(name = "id")] custom: ID,
        #[graphql(name = "stackId", desc = "Of those of a project: the stack to run them for.")]
        stack: Option<ID>,
        #[graphql(
            desc = "By the names of the questions. Values are texts, or numbers, booleans and JSON as they are."
        )]
        answers: Option<Map>,
    ) -> Nullable<StackRun> {
        nullable(async {
            let request = request(ctx);
            let custom = id(&custom).into_graphql(ctx)?;
            let stack = id_in("stackId", stack.as_deref()).into_graphql(ctx)?;
            let answers = answers.map(|Map(answers)| answers).unwrap_or_default();
            let made =
                Box::pin(request.app.custom_stack_run_start(&request.op, custom, stack, &answers)).await;
            Ok(Some(made.into_graphql(ctx)?.into()))
        })
        .await
    }
}

fn commands(list: List<CommandAttributes>) -> Option<Vec<ExecCommand>> {
    items(list).map(|commands| commands.into_iter().map(ExecCommand::from).collect())
}

impl CustomStackRunAttributes {
    fn new_run(self) -> plural_core::Result<NewCustomStackRun> {
        let Self { name, documentation, stack_id, project_id, commands: given, configuration } = self;
        Ok(NewCustomStackRun {
            name: parse("attributes.name", &name)?,
            documentation: documentation.unwrap_or_default(),
            stack_id: id_in("attributes.stackId", stack_id.as_deref())?,
            project_id: id_in("attributes.projectId", project_id.as_deref())?,
            commands: commands(given).unwrap_or_default(),
            questions: questions(configuration)?.unwrap_or_default(),
        })
    }

    fn change(
        self,
        is: &plural_core::custom_stack_run::CustomStackRun,
    ) -> plural_core::Result<CustomStackRunChange> {
        let Self { name, documentation, stack_id, project_id, commands: given, configuration } = self;
        let stack: Option<plural_core::ids::StackId> = id_in("attributes.stackId", stack_id.as_deref())?;
        let project: Option<plural_core::ids::ProjectId> =
            id_in("attributes.projectId", project_id.as_deref())?;
        for (field, moves) in [
            ("attributes.stackId", stack.is_some() && stack != is.stack_id),
            ("attributes.projectId", project.is_some_and(|project| project != is.project_id)),
        ] {
            if moves {
                let why = "cannot change: make others there, and delete these";
                return Err(plural_core::Error::invalid(field, why));
            }
        }
        Ok(CustomStackRunChange {
            name: Some(parse("attributes.name", &name)?),
            documentation,
            commands: commands(given),
            questions: questions(configuration)?,
        })
    }
}
