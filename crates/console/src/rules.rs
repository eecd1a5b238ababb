//! Rules in Rego: evaluated in a process of their own that reaches nothing, where this program can start one.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use plural_app::ports::rules::Rules;
use plural_core::stack_policy_rules::{RuleFile, RuleFinding};
use plural_core::{Error, Result};
use plural_rules::{ANSWER_BYTES, PLAN_FILE, RULES_FILE, RulesError, TIME};
use plural_sandbox::Limits;
use tokio::sync::Semaphore;

use crate::{ChildProgram, child_program::fresh_folder};

/// Plans that are checked at once: each takes a processor, and many times the memory of the plan.
const AT_ONCE: usize = 2;
/// How long one waits for its turn.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between the end of the time of rules and the end of their process: a plan is read, and an answer written.
const GRACE: Duration = Duration::from_secs(5);
/// Writable memory of the process.
const MEMORY: u64 = 1 << 30;

/// The adapter.
pub(crate) struct Evaluator {
    program: Option<ChildProgram>,
    /// Inputs lie here while a process runs.
    folder: PathBuf,
    turns: Arc<Semaphore>,
}

impl Evaluator {
    /// Removes what an earlier console left.
    pub(crate) fn open(folder: PathBuf, program: Option<ChildProgram>) -> io::Result<Self> {
        fresh_folder(&folder)?;
        Ok(Self { program, folder, turns: Arc::new(Semaphore::new(AT_ONCE)) })
    }
}

#[async_trait]
impl Rules for Evaluator {
    async fn check(
        &self,
        rules: Vec<RuleFile>,
        plan: String,
    ) -> Result<std::result::Result<Vec<RuleFinding>, String>> {
        let busy = || Error::unavailable("too many plans are checked already; retry in a few seconds");
        let turn = tokio::time::timeout(PATIENCE, Arc::clone(&self.turns).acquire_owned())
            .await
            .map_err(|_| busy())?
            .map_err(|_| busy())?;
        let (program, folder) = (self.program.clone(), self.folder.clone());
        let checked = tokio::task::spawn_blocking(move || {
            // Given back when the work ends, also where nobody waits for it any more.
            let _turn = turn;
            match program {
                Some(program) => confined(&program, &folder, &rules, &plan),
                None => plural_rules::check(&rules, &plan, TIME),
            }
        });
        let checked = checked.await.map_err(|cause| Error::internal("checking a plan", cause))?;
        Ok(checked.map_err(|RulesError(why)| why))
    }
}

/// The same in a process of its own.
fn confined(
    program: &ChildProgram,
    folder: &Path,
    rules: &[RuleFile],
    plan: &str,
) -> std::result::Result<Vec<RuleFinding>, RulesError> {
    let input = tempfile::tempdir_in(folder)
        .and_then(|input| {
            fs::write(input.path().join(RULES_FILE), serde_json::to_vec(rules)?)?;
            fs::write(input.path().join(PLAN_FILE), plan)?;
            Ok(input)
        })
        .map_err(|error| RulesError(format!("the rules cannot be laid out: {error}")))?;
    let limits = Limits {
        deadline: TIME + GRACE,
        cpu: TIME + GRACE,
        memory_bytes: MEMORY,
        output_bytes: ANSWER_BYTES,
    };
    let printed = program
        .run(input.path(), &limits)
        .map_err(|error| RulesError(format!("the rules could not be evaluated: {error}")))?;
    plural_rules::read_answer(&printed)
}
