//! The check in a process of its own, which a sandbox runs: rules and plan are files of its folder, its answer is JSON on standard output.

use std::{fs, io::Write as _, path::Path};

use plural_core::stack_policy_rules::{RuleFile, RuleFinding};
use serde::{Deserialize, Serialize};

use crate::{RulesError, TIME, check};

/// The rules, `Vec<RuleFile>` as JSON.
pub const RULES_FILE: &str = "rules.json";
/// The plan.
pub const PLAN_FILE: &str = "plan.json";
/// Bytes of an answer.
pub const ANSWER_BYTES: u64 = 8 << 20;

/// What the child answers.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    /// The rules were evaluated.
    Found(Vec<RuleFinding>),
    /// They could not be.
    Refused(String),
}

/// Checks the plan in `folder` against the rules in it, and prints the answer; the exit code.
pub fn child(folder: &Path) -> u8 {
    let checked = read(folder).and_then(|(rules, plan)| check(&rules, &plan, TIME));
    let answer = match checked {
        Ok(found) => Answer::Found(found),
        Err(RulesError(why)) => Answer::Refused(why),
    };
    let Ok(answer) = serde_json::to_vec(&answer) else { return 1 };
    let mut out = std::io::stdout().lock();
    u8::from(out.write_all(&answer).and_then(|()| out.flush()).is_err())
}

fn read(folder: &Path) -> Result<(Vec<RuleFile>, String), RulesError> {
    let failed = |what: &str| RulesError(format!("{what} cannot be read"));
    let rules = fs::read(folder.join(RULES_FILE)).map_err(|_| failed("the rules"))?;
    let rules = serde_json::from_slice(&rules).map_err(|_| failed("the rules"))?;
    let plan = fs::read_to_string(folder.join(PLAN_FILE)).map_err(|_| failed("the plan"))?;
    Ok((rules, plan))
}

/// Reads what [`child`] printed.
///
/// # Errors
/// Why the plan could not be checked.
pub fn read_answer(printed: &[u8]) -> Result<Vec<RuleFinding>, RulesError> {
    match serde_json::from_slice(printed) {
        Ok(Answer::Found(found)) => Ok(found),
        Ok(Answer::Refused(why)) => Err(RulesError(why)),
        Err(_) => Err(RulesError("the rules gave no answer".to_owned())),
    }
}
