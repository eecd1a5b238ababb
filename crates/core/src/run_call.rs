//! What the harness of a run and the console say to each other, as JSON below `/v1/runs/{id}`. Each call carries
//! `Authorization: Bearer run-…`, the credential of one Job of one run. The harness keeps it to itself: the commands of the run have
//! [`state_token`], which opens the state of the stack and none of these calls.
//!
//! | call | body | answer |
//! |---|---|---|
//! | `GET /v1/runs/{id}/input` | | [`RunInput`]; the run becomes running |
//! | `GET /v1/runs/{id}/artifact` | | the canonical tar as one zstd frame |
//! | `GET /v1/runs/{id}/plan-file` | | the stored plan file, apply phase only |
//! | `POST /v1/runs/{id}/heartbeat` | | [`RunBeat`] |
//! | `POST /v1/runs/{id}/steps/{index}` | [`StepReport`] | [`RunBeat`] |
//! | `POST /v1/runs/{id}/logs?step=INDEX&offset=BYTES` | bytes, at most [`MAX_LOG_CHUNK`] | [`LogsKept`]; what is known already is not kept twice |
//! | `PUT /v1/runs/{id}/plan/{file,json,text}` | bytes | 204; may be repeated until [`PlanReport`] is taken |
//! | `PUT /v1/runs/{id}/findings/{trivy,cost}` | what Trivy or Infracost says of the plan, as JSON | 204 |
//! | `POST /v1/runs/{id}/planned` | [`PlanReport`] | 204 |
//! | `POST /v1/runs/{id}/done` | [`RunReport`] | 204; the credential ends |
//!
//! 401: the credential is not, or no longer, that of a Job that counts: the harness stops and says nothing more. 409: the console
//! has decided otherwise, and the body says how. 5xx and lost connections are tried again.

use std::collections::BTreeMap;

use ring::hmac;
use serde::{Deserialize, Serialize};

use crate::ids::StackRunId;
use crate::stack::StackTool;
use crate::stack_run::{PlanSummary, RunKind, RunPhase, StepStatus};
use crate::stack_spec::{StackSpec, Stage};

/// How the credential of a run begins.
pub const RUN_TOKEN_PREFIX: &str = "run-";
/// How the credential for the state begins that the commands of a run have.
const STATE_TOKEN_PREFIX: &str = "run-state-";
/// How the token of a run's actor begins.
const ACTOR_TOKEN_PREFIX: &str = "run-actor-";
/// Bytes of one piece of a log.
pub const MAX_LOG_CHUNK: usize = 64 << 10;
/// Bytes of the log of a step that are kept; the rest is counted, and the end of it is kept beside the beginning.
pub const MAX_STEP_LOG: u64 = 16 << 20;
/// Bytes of a plan file, of its JSON, and of its text.
pub const MAX_PLAN_PART: usize = 32 << 20;
/// Seconds between two heartbeats.
pub const HEARTBEAT_SECONDS: u64 = 10;

/// The credential for the state that belongs to the credential of a run. The other cannot be computed from it: so code inside a plan
/// cannot speak for the harness.
pub fn state_token(run_token: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, run_token.as_bytes());
    format!("{STATE_TOKEN_PREFIX}{}", hex::encode(hmac::sign(&key, b"plural run state")))
}

/// The token of the actor that belongs to the credential of a run. Nothing keeps it: who asks for it again gets the same one.
pub fn actor_token(run_token: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, run_token.as_bytes());
    format!("{ACTOR_TOKEN_PREFIX}{}", hex::encode(hmac::sign(&key, b"plural run actor")))
}

/// Whether a text says that it is the credential of a run, and none of those that its commands have.
pub fn is_run_token(text: &str) -> bool {
    text.starts_with(RUN_TOKEN_PREFIX) && !is_state_token(text) && !is_actor_token(text)
}

/// Whether a text says that it is the token of a run's actor.
pub fn is_actor_token(text: &str) -> bool {
    text.starts_with(ACTOR_TOKEN_PREFIX)
}

/// Whether a text says that it is the credential for the state of a run's stack.
pub fn is_state_token(text: &str) -> bool {
    text.starts_with(STATE_TOKEN_PREFIX)
}

/// All that a harness needs of its run.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunInput {
    /// Which.
    pub id: StackRunId,
    /// The run's number within its stack.
    pub number: u64,
    /// The stack's name.
    pub stack: String,
    /// What to do.
    pub kind: RunKind,
    /// In which Job.
    pub phase: RunPhase,
    /// The tool.
    pub tool: StackTool,
    /// SHA-256, in hex, of the tar of the artifact.
    pub artifact_digest: String,
    /// Folder of the stack inside the artifact.
    pub folder: String,
    /// The commit.
    pub sha: String,
    /// The tool's settings, commands, variables.
    pub spec: StackSpec,
    /// The commands of this Job, in order. The harness runs these and no others.
    pub steps: Vec<InputStep>,
    /// Variables of the environment.
    pub environment: Vec<InputVariable>,
    /// Files, by path below the folder in which the tool runs. The console refuses absolute paths, and those that lead out of it.
    pub files: BTreeMap<String, String>,
    /// Where the tool's state is, below the console's address: `/v1/stacks/{id}/state`; absent where the console keeps none.
    pub state_path: Option<String>,
    /// The plan that is to be applied; absent in the phase that plans.
    pub plan: Option<InputPlan>,
    /// What the commands say at the console in the name of the stack's actor; absent without one, and in the phase that plans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor_token: Option<String>,
    /// The console takes what a plan would cost. Consoles before that take no findings.
    #[serde(default)]
    pub takes_cost: bool,
}

/// A variable of the environment of a run.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputVariable {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
    /// The value is hidden wherever the run prints it.
    pub secret: bool,
}

/// A command that a harness is to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputStep {
    /// Its place among all steps of the run.
    pub index: u32,
    /// What it is for.
    pub stage: Stage,
    /// "plan".
    pub name: String,
    /// Program: looked up in PATH.
    pub cmd: String,
    /// Its arguments. `$PLAN` stands for the path of the plan file.
    pub args: Vec<String>,
    /// It is a hook or a command of the stack: its exit code alone decides, and the harness reads nothing out of it.
    pub custom: bool,
    /// Folder below the one in which the tool runs; absent for that itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<String>,
}

/// The plan that a Job applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InputPlan {
    /// What was approved.
    pub digest: String,
    /// SHA-256, in hex, of the file; absent for tools that have none.
    pub file_digest: Option<String>,
    /// Of the lock file of the tool's providers: another one after `init` is a refusal.
    pub lock_digest: Option<String>,
}

/// What the console answers to a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunBeat {
    /// Somebody asked for the end of the run: the tool gets SIGTERM, and then its time.
    pub cancel: bool,
}

/// How far a step is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    /// Running, successful or failed.
    pub status: StepStatus,
    /// How the command ended.
    pub exit_code: Option<i32>,
}

/// What is kept of the log of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogsKept {
    /// Bytes that are known: the offset of the next piece.
    pub offset: u64,
}

/// The plan is uploaded: what it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanReport {
    /// What it would do.
    pub summary: PlanSummary,
    /// SHA-256, in hex, of the file that was uploaded; absent where there is none.
    pub file_digest: Option<String>,
    /// Of the JSON.
    pub json_digest: Option<String>,
    /// Of the text.
    pub text_digest: String,
    /// Of the lock file of the tool's providers.
    pub lock_digest: Option<String>,
}

/// How a Job ended.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// All steps ended well.
    pub succeeded: bool,
    /// It ended because it was asked to.
    pub cancelled: bool,
    /// Why not, in words.
    pub error: Option<String>,
    /// The tool may have changed something.
    pub changed: bool,
    /// The outputs, after an apply; absent where they were not read.
    pub outputs: Option<Vec<OutputReport>>,
    /// It ended because its Pod was told to end: deleted, or evicted.
    #[serde(default)]
    pub interrupted: bool,
}

/// One output.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputReport {
    /// Name.
    pub name: String,
    /// Value, as JSON.
    pub value: serde_json::Value,
    /// The tool says that it is sensitive.
    pub secret: bool,
}

/// Of what holds secrets, `Debug` tells no values.
macro_rules! quiet {
    ($($type:ident: $field:ident),+ $(,)?) => {$(
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type)).field(stringify!($field), &self.$field).finish_non_exhaustive()
            }
        }
    )+};
}

quiet!(RunInput: id, InputVariable: name, RunReport: succeeded, OutputReport: name);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_credential_for_the_state_is_another_one() {
        let token = format!("run-{}", "0".repeat(64));
        let state = state_token(&token);
        // HMAC-SHA256 as another program computes it: harness and console may be of different releases.
        assert_eq!(state, "run-state-b625344979ef134d6d6797a86c063bd168b7d44a1d5ac094373b71ae3a0c2994");
        assert_ne!(state, state_token(&format!("run-{}1", "0".repeat(63))));
        assert_ne!(state, state_token(&state));
        let actor = actor_token(&token);
        assert!(is_actor_token(&actor) && !is_run_token(&actor) && !is_state_token(&actor));
        assert_ne!(actor.rsplit('-').next(), state.rsplit('-').next());
        assert!(is_run_token(&token) && !is_state_token(&token));
        assert!(is_state_token(&state) && !is_run_token(&state));
        for other in ["console-0", "", "xrun-0", "xrun-state-0"] {
            assert!(!is_run_token(other) && !is_state_token(other), "{other}");
        }
    }
}
