//! Commands of stacks under a name, which others start with answers.

use async_trait::async_trait;
use plural_core::cluster::Cluster;
use plural_core::custom_stack_run::{CustomStackRun, CustomStackRunChange, NewCustomStackRun, check_custom};
use plural_core::form::{FormAnswer, QuestionType, answers};
use plural_core::group::Group;
use plural_core::ids::{CustomStackRunId, ProjectId, StackId};
use plural_core::project::Project;
use plural_core::stack::Stack;
use plural_core::stack_run::StackRun;
use plural_core::user::User;
use plural_core::{Error, Result};
use serde_json::{Map, Value};

use crate::access::{Audited, Read, Write, noun};
use crate::app::App;
use crate::cluster::ClusterSelector;
use crate::ctx::OpCtx;
use crate::group::GroupSelector;
use crate::project::ProjectSelector;
use crate::records::record;
use crate::stack::StackSelector;
use crate::stack_exec::Stored;
use crate::user::UserSelector;

/// The argument that has the answers.
const ANSWERS: &str = "answers";

/// Which of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomStackRunFilter {
    /// In this project.
    pub project_id: Option<ProjectId>,
    /// Those that can be started for this stack: its own, and those of all stacks of its project.
    pub usable: Option<(ProjectId, StackId)>,
    /// Name contains this.
    pub q: Option<String>,
}

noun!(CustomStackRun, "custom stack run", c => Some(c.id.uuid()), c.name.to_string(), project: c.project_id);
record!(CustomStackRun, CustomStackRunId, CustomStackRunId, CustomStackRunFilter);

/// Writing commands under a name.
#[async_trait]
pub trait CustomStackRunStore: Send + Sync + 'static {
    /// New ones of all stacks of a project; [`Error::Conflict`] for a name that others have there.
    async fn custom_stack_run_create(
        &self,
        by: Audited<'_, Project, Write>,
        custom: &CustomStackRun,
    ) -> Result<()>;
    /// The same of one stack.
    async fn custom_stack_run_create_of(
        &self,
        by: Audited<'_, Stack, Write>,
        custom: &CustomStackRun,
    ) -> Result<()>;
    /// Changed ones.
    async fn custom_stack_run_update(
        &self,
        by: Audited<'_, CustomStackRun, Write>,
        change: &CustomStackRunChange,
    ) -> Result<CustomStackRun>;
    /// Removes them; runs that were started stay.
    async fn custom_stack_run_delete(&self, by: Audited<'_, CustomStackRun, Write>) -> Result<()>;
}

impl App {
    /// New commands under a name; needs write access to the stack that they are of, or else to the project.
    pub async fn custom_stack_run_create(
        &self,
        ctx: &OpCtx,
        new: NewCustomStackRun,
    ) -> Result<CustomStackRun> {
        const ACTION: &str = "customStackRun.create";
        const NOUN: &str = "custom stack run";
        let NewCustomStackRun { name, documentation, stack_id, project_id, commands, questions } = new;
        check_custom(Some(&documentation), Some(&commands), Some(&questions), &[])?;
        let (id, at) = (CustomStackRunId::new(), ctx.now());
        let custom = |project_id, name| CustomStackRun {
            id,
            project_id,
            stack_id,
            name,
            documentation,
            commands,
            questions,
            created_at: at,
            updated_at: at,
        };
        let Some(stack_id) = stack_id else {
            let selector = project_id.map_or(ProjectSelector::Default, ProjectSelector::Id);
            let project = self.authorized::<Project, Write>(ctx, &selector).await;
            let project = project.map_err(|error| error.named_in("attributes.projectId"))?;
            let custom = custom(project.id, name);
            let by = project.audited_new(ctx, ACTION, NOUN, id, &custom.name);
            self.store.custom_stack_run_create(by, &custom).await?;
            return Ok(custom);
        };
        let stack = self.authorized::<Stack, Write>(ctx, &StackSelector::Id(stack_id)).await;
        let stack = stack.map_err(|error| error.named_in("attributes.stackId"))?;
        if project_id.is_some_and(|project| project != stack.project_id) {
            return Err(Error::invalid("attributes.projectId", "must be that of the stack: leave it out"));
        }
        let custom = custom(stack.project_id, name);
        let inputs = self.stack_inputs_of(&stack).await?;
        check_custom(None, Some(&custom.commands), Some(&custom.questions), &inputs.environment)?;
        let by = stack.audited_new(ctx, ACTION, NOUN, id, &custom.name);
        self.store.custom_stack_run_create_of(by, &custom).await?;
        Ok(custom)
    }

    /// Changed commands; needs write access to what they are of.
    pub async fn custom_stack_run_update(
        &self,
        ctx: &OpCtx,
        id: CustomStackRunId,
        change: &CustomStackRunChange,
    ) -> Result<CustomStackRun> {
        let custom = self.authorized::<CustomStackRun, Write>(ctx, &id).await?;
        let CustomStackRunChange { name: _, documentation, commands, questions } = change;
        let environment = match custom.stack_id {
            // Whoever may write the commands of a stack has their words checked, and is told no value.
            Some(stack) => {
                let stack = self.get::<Stack>(&self.system_ctx(), &StackSelector::Id(stack)).await?;
                self.stack_inputs_of(&stack).await?.environment
            }
            None => Vec::new(),
        };
        check_custom(documentation.as_deref(), commands.as_deref(), questions.as_deref(), &environment)?;
        self.store.custom_stack_run_update(custom.audited(ctx, "customStackRun.update"), change).await
    }

    /// Removes commands; needs write access to what they are of.
    pub async fn custom_stack_run_delete(&self, ctx: &OpCtx, id: CustomStackRunId) -> Result<CustomStackRun> {
        let custom = self.authorized::<CustomStackRun, Write>(ctx, &id).await?;
        self.store.custom_stack_run_delete(custom.audited(ctx, "customStackRun.delete")).await?;
        Ok(custom.into_inner())
    }

    /// A run of these commands with answers, in the environment of their stack, or of one of their project; needs the right to run commands
    /// of one's own there. The commands have the rights of whoever starts them, and none of whoever wrote them.
    pub async fn custom_stack_run_start(
        &self,
        ctx: &OpCtx,
        id: CustomStackRunId,
        stack: Option<StackId>,
        given: &Map<String, Value>,
    ) -> Result<StackRun> {
        let custom = self.authorized::<CustomStackRun, Read>(ctx, &id).await?.into_inner();
        let stack = match (custom.stack_id, stack) {
            (Some(own), Some(other)) if own != other => {
                return Err(Error::invalid(
                    "stackId",
                    "must be the stack that the commands are of: leave it out",
                ));
            }
            (Some(own), _) => own,
            (None, Some(given)) => given,
            (None, None) => {
                return Err(Error::invalid(
                    "stackId",
                    "is needed: these commands are of all stacks of their project, so name the one to run them for",
                ));
            }
        };
        let answers = answers(ANSWERS, &custom.questions, given)?;
        for answer in &answers {
            self.answer_is_there(ctx, answer).await?;
        }
        let stored = Stored { project: custom.project_id, name: custom.name.to_string(), answers };
        Box::pin(self.stack_exec_of(ctx, stack, custom.commands, Some(stored))).await
    }

    /// What an answer names is there for whoever gives it.
    async fn answer_is_there(&self, ctx: &OpCtx, answer: &FormAnswer) -> Result<()> {
        let FormAnswer { name, kind, value } = answer;
        let invalid = |what: &str| Error::invalid(ANSWERS, format!("{name} must be {what} that you may see"));
        let found = match kind {
            QuestionType::Cluster => {
                let handle = value.parse().map_err(|_| invalid("the handle of a cluster"))?;
                self.get::<Cluster>(ctx, &ClusterSelector::Handle(handle)).await.map(drop)
            }
            QuestionType::Project => {
                self.get::<Project>(ctx, &ProjectSelector::Name(value.clone())).await.map(drop)
            }
            QuestionType::Group => {
                self.get::<Group>(ctx, &GroupSelector::Name(value.clone())).await.map(drop)
            }
            QuestionType::User => {
                let email = value.parse().map_err(|_| invalid("the e-mail of a user"))?;
                self.get::<User>(ctx, &UserSelector::Email(email)).await.map(drop)
            }
            QuestionType::String
            | QuestionType::Int
            | QuestionType::Bool
            | QuestionType::Json
            | QuestionType::Password
            | QuestionType::Enum => return Ok(()),
        };
        found.map_err(|error| match error {
            Error::NotFound { noun, .. } => invalid(&format!("a {noun}")),
            error => error,
        })
    }
}
