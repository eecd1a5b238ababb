//! Rules of a project for the plans of its stacks: set by its administrators, above whatever the writers of a stack say.

use async_trait::async_trait;
use plural_core::Result;
use plural_core::ids::ProjectId;
use plural_core::project::Project;
use plural_core::stack_policy_rules::{RuleFile, check_project_rules};

use crate::access::{Admin, Audited, Read};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::project::ProjectSelector;

/// Rules of projects.
#[async_trait]
pub trait ProjectStackRulesStore: Send + Sync + 'static {
    /// The rules of a project, for whoever may read it and for the console itself.
    async fn project_stack_rules(&self, project: ProjectId) -> Result<Vec<RuleFile>>;
    /// Others, in place of those so far.
    async fn project_stack_rules_set(
        &self,
        by: Audited<'_, Project, Admin>,
        rules: &[RuleFile],
    ) -> Result<()>;
}

impl App {
    /// What the plans of all stacks of a project are checked by.
    pub async fn project_stack_rules(
        &self,
        ctx: &OpCtx,
        selector: &ProjectSelector,
    ) -> Result<Vec<RuleFile>> {
        let project = self.authorized::<Project, Read>(ctx, selector).await?;
        self.store.project_stack_rules(project.id).await
    }

    /// Has the plans of all stacks of a project checked by other rules; none end that. Plans that were checked by those before are not
    /// applied any more.
    pub async fn project_stack_rules_set(
        &self,
        ctx: &OpCtx,
        selector: &ProjectSelector,
        rules: &[RuleFile],
    ) -> Result<()> {
        check_project_rules("attributes.stackRules", rules)?;
        let project = self.authorized::<Project, Admin>(ctx, selector).await?;
        self.store.project_stack_rules_set(project.audited(ctx, "project.stack_rules"), rules).await
    }
}
