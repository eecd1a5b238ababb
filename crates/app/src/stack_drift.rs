//! Drift of stacks: the findings of drift detection, stored sealed beside the address of each resource, for readers of the stack.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use plural_core::access::Actor;
use plural_core::data_key::KeyOwner;
use plural_core::ids::{StackDriftId, StackId, StackRunId};
use plural_core::page::{Edge, Keyed, Page, PageRequest};
use plural_core::run_call::RunReport;
use plural_core::stack::Stack;
use plural_core::stack_drift::{DriftAction, DriftField, DriftFound, DriftedResource, StackDrift};
use plural_core::stack_run::{RunStatus, StackRun};
use plural_core::stack_turns::{Turn, after_job};
use plural_core::{Error, Result};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use crate::access::{Authorized, Read};
use crate::app::App;
use crate::ctx::OpCtx;
use crate::seal::Sealed;
use crate::stack::StackSelector;
use crate::stack_run::{PlanPart, RunMove};
use crate::stack_run_turns::Proof;

/// The findings of one drift detection.
#[derive(Debug, Clone, Default)]
pub struct DriftWrite {
    /// The resources, each address once.
    pub resources: Vec<SealedResource>,
    /// Number of further resources, which are not stored.
    pub left_out: u64,
}

/// A drifted resource to be stored.
#[derive(Debug, Clone)]
pub struct SealedResource {
    /// Its address in the code.
    pub address: String,
    /// Its type.
    pub kind: String,
    /// Its provider.
    pub provider: String,
    /// What happened to it.
    pub action: DriftAction,
    /// Number of fields that differ and are not in `content`.
    pub left_out: u64,
    /// `[address, fields]` as JSON, sealed for `stack_drift:STACK_ID`.
    pub content: Sealed,
}

/// A drifted resource as it was stored.
#[derive(Debug, Clone)]
pub struct StoredDrift {
    /// Id.
    pub id: StackDriftId,
    /// The stack.
    pub stack_id: StackId,
    /// The resource.
    pub resource: SealedResource,
    /// The last run that found it.
    pub run_id: StackRunId,
    /// The number of that run.
    pub run: u64,
    /// When it was first found.
    pub first_seen_at: DateTime<Utc>,
    /// When it was last found.
    pub last_seen_at: DateTime<Utc>,
}

impl Keyed for StoredDrift {
    fn key(&self) -> Uuid {
        self.id.uuid()
    }
}

/// Drift of stacks. It is written with the end of the run that found it: [`RunMove::drift`].
#[async_trait]
pub trait StackDriftStore: Send + Sync + 'static {
    /// The drifted resources of a stack, in the order in which they were first found.
    async fn stack_drift(
        &self,
        stack: &Authorized<Stack, Read>,
        page: &PageRequest,
    ) -> Result<Page<StoredDrift>>;
}

impl App {
    /// The resources of a stack that something other than its tool changed, as of the last successful detection.
    pub async fn stack_drift(
        &self,
        ctx: &OpCtx,
        stack: StackId,
        page: &PageRequest,
    ) -> Result<Page<StackDrift>> {
        let stack = self.authorized::<Stack, Read>(ctx, &StackSelector::Id(stack)).await?;
        let Page { edges, has_next_page, has_previous_page } = self.store.stack_drift(&stack, page).await?;
        let mut opened = Vec::with_capacity(edges.len());
        for Edge { cursor, node } in edges {
            opened.push(Edge { cursor, node: self.drift_opened(node).await? });
        }
        Ok(Page { edges: opened, has_next_page, has_previous_page })
    }

    /// The end of a drift detection's Job. Its findings become visible in the same transaction.
    pub(crate) async fn drift_done(
        &self,
        actor: &Actor,
        run: &StackRun,
        report: RunReport,
    ) -> Result<Option<StackRun>> {
        let looked = Turn::Over(RunStatus::Successful, None);
        let turn = after_job(run, &report);
        if turn != looked {
            return self.run_turns(actor, run, turn, (None, Proof::Ended)).await;
        }
        let found = match self.drift_found(run).await {
            Ok(found) => found,
            // The uploaded plan is invalid, and a retry would not help.
            Err(Error::Conflict { reason }) => {
                let told = format!("{reason}: nothing is known of drift");
                let turn = Turn::Over(RunStatus::Failed, Some(told));
                return self.run_turns(actor, run, turn, (None, Proof::Ended)).await;
            }
            Err(error) => return Err(error),
        };
        let change = RunMove {
            from: vec![run.status],
            of: Some((run.phase, run.attempt)),
            to: Some(RunStatus::Successful),
            ends_credential: true,
            tells_agent: true,
            unlocks: true,
            drift: Some(found),
            ..RunMove::at(self.now())
        };
        let Some(run) = self.store.stack_run_move(actor, run.id, &change).await? else { return Ok(None) };
        Box::pin(self.run_over(&run)).await?;
        Ok(Some(run))
    }

    /// The drift in the plan of a detection.
    async fn drift_found(&self, run: &StackRun) -> Result<DriftWrite> {
        let found = {
            // All of it is in memory, and takes many times as much as a value.
            let _place = self.state_looks.acquire().await;
            let json = self.plan_part(run, PlanPart::Json).await?;
            let text = self.plan_part(run, PlanPart::Text).await?;
            let tool = run.snapshot.tool;
            let read = spawn_blocking(move || {
                let text = text.map(|text| String::from_utf8_lossy(&text.body).into_owned());
                DriftFound::of(
                    tool,
                    json.as_ref().map(|json| json.body.as_slice()),
                    &text.unwrap_or_default(),
                )
            });
            read.await.map_err(|cause| Error::internal("reading what drifted", cause))??
        };
        let DriftFound { resources, left_out } = found;
        let sealing = self.sealer.sealing(KeyOwner::Project(run.project_id)).await?;
        let context = drift_context(run.stack_id);
        let mut sealed = Vec::with_capacity(resources.len());
        for resource in resources {
            let DriftedResource { address, kind, provider, action, fields, left_out } = resource;
            // The cause could contain a part of a value.
            let content = serde_json::to_vec(&(&address, &fields))
                .map_err(|_| Error::internal("sealing what drifted", "it has no JSON"))?;
            let content = sealing.seal(&context, &content)?;
            sealed.push(SealedResource { address, kind, provider, action, left_out, content });
        }
        Ok(DriftWrite { resources: sealed, left_out })
    }

    async fn drift_opened(&self, stored: StoredDrift) -> Result<StackDrift> {
        let StoredDrift { id, stack_id, resource, run_id, run, first_seen_at, last_seen_at } = stored;
        let SealedResource { address, kind, provider, action, left_out, content } = resource;
        let opened = self.sealer.open(&drift_context(stack_id), &content).await?;
        let failed = |why: &'static str| Error::internal("opening what drifted", why);
        // The cause would contain a part of it.
        let (sealed, fields): (String, Vec<DriftField>) =
            serde_json::from_slice(&opened).map_err(|_| failed("it is no address with fields"))?;
        if sealed != address {
            return Err(failed("it is of another resource"));
        }
        let resource = DriftedResource { address, kind, provider, action, fields, left_out };
        Ok(StackDrift { id, stack_id, resource, run_id, run, first_seen_at, last_seen_at })
    }
}

/// The associated data of sealed fields of a stack's drift.
fn drift_context(stack: StackId) -> String {
    format!("stack_drift:{stack}")
}
