//! Checks the plan of a stack against rules in Rego.
//!
//! # Convention
//! Rules are those of the packages `plural.stacks` and `main` (as conftest has them) that are called `deny`, `violation`, `warn`, or begin
//! with one of these and `_`. Each is a set; an entry is a text, or an object with `msg` (or `message`) and, if it likes, `resource`,
//! `rule`, `severity`, `url` and `resolution`. `input` is the plan as `tofu show -json` prints it.
//!
//! # Guarantees
//! - What cannot be checked is an error, never an empty answer: a file that does not compile, a set without such a rule, an entry that
//!   says nothing readable, more findings than are kept, an evaluation that takes too long or panics.
//! - Rules read nothing but `input` and each other: no file, no environment, no network.
//!
//! # Assumptions
//! Memory is not bounded here, and a function that calls itself without an end ends the process: a console runs this in a process of its
//! own, see [`child()`].

mod child;

use std::{num::NonZeroU32, thread, time::Duration};

use plural_core::stack_policy_rules::{
    MAX_VIOLATIONS, RuleFile, RuleFinding, check_rule_files, rule_findings,
};
use regorus::{Engine, Value, utils::limits::ExecutionTimerConfig};

pub use child::{ANSWER_BYTES, PLAN_FILE, RULES_FILE, child, read_answer};

/// Packages whose rules count, by the parts of their names.
const PACKAGES: [&[&str]; 2] = [&["plural", "stacks"], &["main"]];
/// How rules that count are called.
const NAMES: [&str; 3] = ["deny", "violation", "warn"];
/// How long one set of rules may take.
pub const TIME: Duration = Duration::from_secs(10);
/// Bytes of the plan's JSON.
const MAX_PLAN: usize = 64 << 20;
/// Bytes of what one rule says, as JSON.
const MAX_SAID: usize = 4 << 20;
/// Bytes of a stack: expressions nest.
const STACK: usize = 64 << 20;

/// Why a plan could not be checked: then it is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RulesError(pub String);

/// What the rules say of a plan, which is JSON. Blocks, for at most `time` and a moment.
///
/// # Errors
/// Why it could not be checked.
pub fn check(rules: &[RuleFile], plan: &str, time: Duration) -> Result<Vec<RuleFinding>, RulesError> {
    check_rule_files(rules).map_err(RulesError)?;
    if plan.len() > MAX_PLAN {
        return Err(RulesError(format!("the plan is larger than {} MiB", MAX_PLAN >> 20)));
    }
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("rules".to_owned()).stack_size(STACK);
        let worker = worker
            .spawn_scoped(scope, || evaluate(rules, plan, time))
            .map_err(|error| RulesError(format!("the rules cannot be run: {error}")))?;
        worker
            .join()
            .unwrap_or_else(|_| Err(RulesError("the rules could not be evaluated: it panicked".to_owned())))
    })
}

fn evaluate(rules: &[RuleFile], plan: &str, time: Duration) -> Result<Vec<RuleFinding>, RulesError> {
    let mut engine = Engine::new();
    // As conftest has it: a function that is given what it cannot take makes its expression undefined.
    engine.set_strict_builtin_errors(false);
    for RuleFile { path, text } in rules {
        add(&mut engine, path, text)?;
    }
    engine.set_execution_timer_config(ExecutionTimerConfig {
        limit: time,
        check_interval: NonZeroU32::new(256).unwrap_or(NonZeroU32::MIN),
    });
    // What is wrong with it is not said: the words would hold parts of it.
    engine
        .set_input_json(plan)
        .map_err(|_| RulesError("the plan is no JSON that rules can read".to_owned()))?;
    let all = engine.eval_modules(false).map_err(|error| {
        let told = error.to_string();
        if told.contains("time limit") {
            RulesError(format!("the rules took longer than {} seconds", time.as_secs()))
        } else {
            RulesError(format!("the rules could not be evaluated: {}", first_lines(&told)))
        }
    })?;
    let mut findings = Vec::new();
    let mut is_any = false;
    for package in PACKAGES {
        let Some(package) = package.iter().try_fold(&all, |value, name| member(value, name)) else {
            continue;
        };
        let Ok(rules) = package.as_object() else { continue };
        for (name, said) in rules {
            let Ok(name) = name.as_string() else { continue };
            if !counts(name) {
                continue;
            }
            is_any = true;
            let said = said
                .to_json_str()
                .map_err(|_| RulesError(format!("what the rule {name} says has no JSON")))?;
            if said.len() > MAX_SAID {
                return Err(RulesError(format!("the rule {name} says more than {} MiB", MAX_SAID >> 20)));
            }
            let said = serde_json::from_str(&said)
                .map_err(|_| RulesError(format!("what the rule {name} says has no JSON")))?;
            findings.extend(rule_findings(name, &said).map_err(RulesError)?);
        }
    }
    if !is_any {
        return Err(RulesError(
            "no rule is called deny, violation or warn in package plural.stacks or main: nothing would be checked"
                .to_owned(),
        ));
    }
    if findings.len() > MAX_VIOLATIONS {
        return Err(RulesError(format!("the rules have more than {MAX_VIOLATIONS} findings")));
    }
    Ok(findings)
}

/// Adds a file: in today's Rego, or in that of before OPA 1.0.
fn add(engine: &mut Engine, path: &str, text: &str) -> Result<(), RulesError> {
    engine.set_rego_v0(false);
    let Err(error) = engine.add_policy(path.to_owned(), text.to_owned()) else { return Ok(()) };
    engine.set_rego_v0(true);
    match engine.add_policy(path.to_owned(), text.to_owned()) {
        Ok(_) => Ok(()),
        Err(_) => Err(RulesError(format!("{path} does not compile: {}", first_lines(&error.to_string())))),
    }
}

fn counts(name: &str) -> bool {
    NAMES
        .iter()
        .any(|known| name.strip_prefix(known).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')))
}

fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.as_object().ok()?.get(&Value::from(name))
}

/// The beginning of a message of the evaluator, which shows the line at fault.
fn first_lines(text: &str) -> String {
    let text: String = text.trim().chars().filter(|c| *c == '\n' || !c.is_control()).take(600).collect();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
