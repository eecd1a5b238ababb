//! Plans of runs of stacks.

use async_graphql::{Context, Object};
use chrono::{DateTime, Utc};
use plural_core::ids::StackRunId;
use plural_core::stack_run::RunPlan;

use super::{
    error::{IntoGraphql, Nullable, nullable},
    page::counted,
    request::request,
};

/// The plan of a run.
pub(crate) struct StackRunPlan {
    run: StackRunId,
    plan: RunPlan,
}

impl StackRunPlan {
    /// The plan of this run.
    pub(super) fn of(run: StackRunId, plan: RunPlan) -> Self {
        Self { run, plan }
    }
}

/// The plan of a run.
#[Object]
impl StackRunPlan {
    /// SHA-256 over the plan's file, JSON and text: what people approve.
    async fn digest(&self) -> &str {
        &self.plan.digest
    }

    /// Number of resources that it creates.
    async fn add(&self) -> i32 {
        counted(self.plan.summary.add)
    }

    /// Number of resources that it updates in place.
    async fn change(&self) -> i32 {
        counted(self.plan.summary.change)
    }

    /// Number of resources that it destroys; replaced ones count here and as created.
    async fn destroy(&self) -> i32 {
        counted(self.plan.summary.destroy)
    }

    /// Number of resources that it replaces.
    async fn replace(&self) -> i32 {
        counted(self.plan.summary.replace)
    }

    /// Values of outputs change, or the tool cannot tell what it would change.
    async fn other(&self) -> bool {
        self.plan.summary.other
    }

    /// When it was stored.
    async fn at(&self) -> Option<DateTime<Utc>> {
        Some(self.plan.at)
    }

    /// Its text, as the tool printed it; the values of secret variables are masked.
    async fn text(&self, ctx: &Context<'_>) -> Nullable<String> {
        nullable(async {
            let request = request(ctx);
            request.app.stack_run_plan_text(&request.op, self.run).await.into_graphql(ctx)
        })
        .await
    }
}
