//! What runs of stacks planned.

use async_graphql::{Context, Object};
use chrono::{DateTime, Utc};
use plural_core::ids::StackRunId;
use plural_core::stack_run::RunPlan;

use super::{
    error::{IntoGraphql, Nullable, nullable},
    page::counted,
    request::request,
};

/// What a run planned.
pub(crate) struct StackRunPlan {
    run: StackRunId,
    plan: RunPlan,
}

impl StackRunPlan {
    /// That of this run.
    pub(super) fn of(run: StackRunId, plan: RunPlan) -> Self {
        Self { run, plan }
    }
}

/// What a run planned.
#[Object]
impl StackRunPlan {
    /// SHA-256 over the plan's file, JSON and text: what people approve.
    async fn digest(&self) -> &str {
        &self.plan.digest
    }

    /// Resources that it makes.
    async fn add(&self) -> i32 {
        counted(self.plan.summary.add)
    }

    /// Resources that it changes in their place.
    async fn change(&self) -> i32 {
        counted(self.plan.summary.change)
    }

    /// Resources that it destroys; those that are replaced count here and among the made ones.
    async fn destroy(&self) -> i32 {
        counted(self.plan.summary.destroy)
    }

    /// Resources that it replaces.
    async fn replace(&self) -> i32 {
        counted(self.plan.summary.replace)
    }

    /// Values of outputs change, or the tool cannot say what it would do.
    async fn other(&self) -> bool {
        self.plan.summary.other
    }

    /// When it was stored.
    async fn at(&self) -> Option<DateTime<Utc>> {
        Some(self.plan.at)
    }

    /// What the tool printed of it; the values of secret variables are hidden in it.
    async fn text(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            let request = request(ctx);
            request.app.stack_run_plan_text(&request.op, self.run).await.into_graphql(ctx)
        })
        .await
    }
}
