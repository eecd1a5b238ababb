//! The plan of a run: stored in sealed pieces, read again, and compared with the world before it is applied.

use bytes::Bytes;
use plural_core::data_key::KeyOwner;
use plural_core::ids::StackRunId;
use plural_core::run_call::{InputVariable, MAX_PLAN_PART};
use plural_core::stack::Stack;
use plural_core::stack_plan::{plan_digest, plan_shown};
use plural_core::stack_run::{RunApproval, RunPlan, StackRun};
use plural_core::stack_spec::StackSpec;
use plural_core::stack_turns::is_approved_by;
use plural_core::{Error, Result};
use sha2::{Digest as _, Sha256};
use tokio::task::spawn_blocking;

use crate::access::Read;
use crate::app::App;
use crate::ctx::OpCtx;
use crate::stack::StackSelector;
use crate::stack_run::{PlanPart, PlanPartWrite};

/// Bytes of a piece of a plan, each of which is sealed by itself: keys are replaced piece by piece.
const PIECE: usize = 256 << 10;
/// What stands before the bytes of a piece: the part and its number.
const HEAD: usize = 1 + 4;

impl App {
    /// What the tool printed of a plan; values of secret variables were hidden by the harness.
    pub async fn stack_run_plan_text(&self, ctx: &OpCtx, id: StackRunId) -> Result<Option<String>> {
        let (_, run) = self.stack_run_for::<Read>(ctx, id).await?;
        let text = self.plan_part(&run, PlanPart::Text).await?;
        Ok(text.map(|text| String::from_utf8_lossy(&text.body).into_owned()))
    }

    /// A plan as JSON, without the values that the tool says are sensitive.
    pub async fn stack_run_plan_json(
        &self,
        ctx: &OpCtx,
        id: StackRunId,
    ) -> Result<Option<serde_json::Value>> {
        let (_, run) = self.stack_run_for::<Read>(ctx, id).await?;
        // All of it is in memory, and takes many times as much as a value.
        let _place = self.state_looks.acquire().await;
        let Some(json) = self.plan_part(&run, PlanPart::Json).await? else { return Ok(None) };
        let shown = spawn_blocking(move || serde_json::from_slice(&json.body).map(plan_shown)).await;
        let shown = shown.map_err(|cause| Error::internal("reading a plan", cause))?;
        // The cause could hold a part of a value.
        shown.map(Some).map_err(|_| Error::conflict("the plan that was uploaded is no JSON"))
    }

    /// Stores a part of a plan.
    pub(crate) async fn plan_part_put(&self, run: &StackRun, part: PlanPart, body: Bytes) -> Result<()> {
        if body.len() > MAX_PLAN_PART {
            let told = format!("must not exceed {} MiB", MAX_PLAN_PART >> 20);
            return Err(Error::invalid(part.as_str(), told));
        }
        let sealing = self.sealer.sealing(KeyOwner::Project(run.project_id)).await?;
        let context = context(run.id);
        let mut pieces = Vec::with_capacity(body.len().div_ceil(PIECE));
        for (number, bytes) in (0_u32..).zip(body.chunks(PIECE)) {
            let mut piece = Vec::with_capacity(HEAD + bytes.len());
            piece.extend_from_slice(&head(part, number));
            piece.extend_from_slice(bytes);
            pieces.push(sealing.seal(&context, &piece)?);
            // A large plan does not hold up the thread.
            tokio::task::yield_now().await;
        }
        let digest = Sha256::digest(&body).into();
        let write = PlanPartWrite { part, digest, size: body.len() as u64, pieces };
        self.store.stack_plan_put(run.id, &write).await
    }

    /// A part of the plan of a run, with the digest of the bytes as they are; none where there is no such part.
    ///
    /// # Errors
    /// [`Error::Internal`] where it was changed in the store.
    pub(crate) async fn plan_part(&self, run: &StackRun, part: PlanPart) -> Result<Option<OpenPart>> {
        let Some(stored) = self.store.stack_plan_get(run.id, part).await? else { return Ok(None) };
        let doing = || format!("opening the {} of the plan of run {}", part.as_str(), run.id);
        let failed = |why: &'static str| Error::internal(doing(), why);
        let context = context(run.id);
        let mut body =
            Vec::with_capacity(usize::try_from(stored.size).unwrap_or_default().min(MAX_PLAN_PART));
        for (number, sealed) in (0_u32..).zip(&stored.pieces) {
            let piece = self.sealer.open(&context, sealed).await?;
            let bytes =
                piece.strip_prefix(&head(part, number)).ok_or_else(|| failed("a piece is missing"))?;
            body.extend_from_slice(bytes);
            tokio::task::yield_now().await;
        }
        if body.len() as u64 != stored.size {
            return Err(failed("its end is missing"));
        }
        let digest: [u8; 32] = Sha256::digest(&body).into();
        if digest != stored.digest {
            return Err(failed("it has another digest"));
        }
        Ok(Some(OpenPart { digest: hex::encode(digest), body }))
    }

    /// What the parts of the plan that are stored make together.
    pub(crate) async fn plan_stored_digest(&self, run: &StackRun) -> Result<String> {
        let mut digests = Vec::new();
        for part in PlanPart::ALL {
            digests.push(self.plan_part(run, part).await?.map(|part| part.digest));
        }
        let [file, json, text] = digests.as_slice() else { return Ok(String::new()) };
        Ok(plan_digest(file.as_deref(), json.as_deref(), text.as_deref().unwrap_or_default()))
    }

    /// What somebody answered who started the commands of a run, in the order in which it was asked.
    async fn run_answered(&self, run: &StackRun) -> Result<Vec<InputVariable>> {
        let Some(exec) = run.snapshot.spec.exec.as_ref().filter(|exec| !exec.answers.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut environment = self.run_inputs_of(run).await?.environment;
        environment.retain(|variable| exec.answers.iter().any(|answer| answer.name == variable.name));
        Ok(environment)
    }

    /// An approval with what tells that it was given here.
    pub(crate) fn approval_signed(&self, run: StackRunId, approval: RunApproval) -> RunApproval {
        let mac = hex::encode(self.sealer.tag(&approval_text(run, &approval)));
        RunApproval { mac, ..approval }
    }

    /// Whether an approval was given here, to this plan of this run.
    fn is_own_approval(&self, run: StackRunId, approval: &RunApproval) -> bool {
        let given = hex::decode(&approval.mac).unwrap_or_default();
        self.sealer.is_tag(&approval_text(run, approval), &given)
    }

    /// Why the plan of a run must not be applied any more, if so: what it was made from has moved.
    pub(crate) async fn plan_refusal(&self, run: &StackRun) -> Result<Option<String>> {
        let (Some(plan), Some(source)) = (&run.plan, &run.source) else {
            return Ok(Some("the run has no plan: plan again".to_owned()));
        };
        let stack = self.get::<Stack>(&self.system_ctx(), &StackSelector::Id(run.stack_id)).await?;
        if let Some(moved) = state_moved(plan, &stack, run) {
            return Ok(Some(moved));
        }
        // Commands that somebody gave it are a part of what the run is made of, and so is what was said of its Job when it was made.
        let defined = match self.stack_spec_defined(&stack.spec).await {
            Ok(spec) => spec,
            Err(Error::Invalid { reason, .. }) => {
                return Ok(Some(format!("the stack's definition {reason}: plan again")));
            }
            Err(error) => return Err(error),
        };
        let spec = StackSpec {
            exec: run.snapshot.spec.exec.clone(),
            job_defaults: run.snapshot.spec.job_defaults.clone(),
            ..defined.made_by(run.kind, run.trigger)
        };
        let made_of = Stack { spec, ..stack };
        let answered = self.run_answered(run).await?;
        let (spec, inputs) = match self.stack_taking(&made_of, run.kind, answered).await? {
            Ok(taking) => taking,
            Err(why) => return Ok(Some(format!("{why}: plan again"))),
        };
        if !self.is_inputs_digest(&made_of, &spec, &inputs, &run.snapshot.inputs_digest)? {
            let what = match run.snapshot.upstream {
                Some(_) => {
                    "the stack, or what it takes from others, was changed since the plan was made: plan again"
                }
                None => "the stack was changed since the plan was made: plan again",
            };
            return Ok(Some(what.to_owned()));
        }
        // The stack's digest says nothing of the run's own row, from which the commands and their environment come.
        if !self.is_own_inputs_digest(run, &self.run_inputs_of(run).await?)? {
            return Ok(Some("the run in the store is not the one that was planned: plan again".to_owned()));
        }
        if run.snapshot.spec.approval.required {
            let approvals: Vec<RunApproval> = run
                .approvals
                .iter()
                .filter(|approval| self.is_own_approval(run.id, approval))
                .cloned()
                .collect();
            if approvals.len() < run.approvals.len() {
                tracing::error!(stack_run.id = %run.id, "an approval in the store was not given here, and does not count");
            }
            if !is_approved_by(run, &approvals) {
                return Ok(Some(
                    "the plan is not approved by as many people as the stack asks for: plan again".to_owned(),
                ));
            }
        }
        if let Some(moved) = self.run_policy_moved(run).await? {
            return Ok(Some(moved));
        }
        let altered = "the plan in the store is not the one that was made: it is not applied; plan again";
        match self.plan_stored_digest(run).await {
            Ok(digest) if digest == plan.digest => {}
            Ok(_) => return Ok(Some(altered.to_owned())),
            // What cannot be opened was changed, or its key is gone.
            Err(Error::Internal { doing, .. }) => {
                tracing::error!(stack_run.id = %run.id, doing = %doing, "a stored plan cannot be opened");
                return Ok(Some(altered.to_owned()));
            }
            Err(error) => return Err(error),
        }
        match self.blobs.open(&source.artifact_digest).await {
            Ok(_) => {}
            Err(Error::NotFound { .. }) => {
                let told = "the code that the plan was made from is not kept any more: plan again";
                return Ok(Some(told.to_owned()));
            }
            Err(error) => return Err(error),
        }
        Box::pin(self.run_code_moved(run, source, &made_of)).await
    }
}

/// A part of a plan, in clear.
pub(crate) struct OpenPart {
    /// SHA-256, in hex.
    pub(crate) digest: String,
    pub(crate) body: Vec<u8>,
}

/// Somebody wrote the state since the plan was made from it.
fn state_moved(plan: &RunPlan, stack: &Stack, run: &StackRun) -> Option<String> {
    if !run.keeps_state() {
        return None;
    }
    let serial = stack.state.as_ref().map(|state| state.serial);
    if serial == plan.state_serial {
        return None;
    }
    let told = |serial: Option<u64>| serial.map_or_else(|| "none".to_owned(), |serial| serial.to_string());
    Some(format!(
        "the state moved since the plan was made (serial {} then, {} now): plan again",
        told(plan.state_serial),
        told(serial)
    ))
}

/// What the tag of an approval is made for. An address ends the text, so that no part of it is read as another.
fn approval_text(run: StackRunId, approval: &RunApproval) -> String {
    let RunApproval { user_id, by, digest, at, mac: _ } = approval;
    format!("stack approval {run} {user_id} {} {} {} {by}", at.timestamp_micros(), digest.len(), digest)
}

/// What the pieces of a plan are sealed for.
fn context(run: StackRunId) -> String {
    format!("stack_plan:{run}")
}

fn head(part: PlanPart, number: u32) -> [u8; HEAD] {
    let [a, b, c, d] = number.to_be_bytes();
    let part = match part {
        PlanPart::File => 0,
        PlanPart::Json => 1,
        PlanPart::Text => 2,
    };
    [part, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_pieces_have_the_same_head() {
        let heads: std::collections::BTreeSet<_> =
            PlanPart::ALL.into_iter().flat_map(|part| [0, 1, 256].map(|number| head(part, number))).collect();
        assert_eq!(heads.len(), 9);
    }
}
