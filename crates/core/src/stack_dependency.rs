//! Dependencies between stacks: outputs of one are variables of another. They form a graph without cycles.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::ops::Range;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::ids::{StackId, StackRunId};
use crate::run_call::InputVariable;
use crate::stack::StackTool;
use crate::stack_checks::check_variable_name;
use crate::stack_run::{RunStatus, StackRun};

/// Limit of direct dependencies of a stack.
pub const MAX_DEPENDENCIES: usize = 16;
/// Limit of outputs that it takes from one of them.
const MAX_OUTPUTS: usize = 64;
/// Limit of stacks on the longest path through the graph.
pub const MAX_DEPTH: usize = 16;
/// The attribute.
const FIELD: &str = "attributes.dependencies";

/// A stack that another one depends on, and the outputs that it takes from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StackDependency {
    /// The stack.
    pub stack_id: StackId,
    /// The outputs; empty: only the order counts.
    #[serde(default)]
    pub outputs: Vec<OutputReference>,
    /// Whoever saved it may read the state of that stack: sensitive outputs need that.
    #[serde(default)]
    pub reads_state: bool,
}

/// An output that becomes a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputReference {
    /// Name of the output.
    pub output: String,
    /// Name of the variable.
    #[serde(rename = "variable")]
    pub name: String,
}

/// What a run takes from other stacks. The run waits until all of that is settled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Upstream {
    /// The run of another stack whose new outputs triggered this one.
    pub run: Option<StackRunId>,
    /// When its values were settled; absent while it waits.
    pub settled_at: Option<DateTime<Utc>>,
    /// 32 bytes, in hex, over all values. Only the installation can compute them.
    pub digest: Option<String>,
}

impl Upstream {
    /// Whether it waits for other stacks.
    pub const fn is_held(&self) -> bool {
        self.settled_at.is_none()
    }
}

/// Checks the dependencies of a stack on their own.
///
/// # Errors
/// [`Error::Invalid`], which names the variable or output.
pub fn check_dependencies(dependencies: &[StackDependency], variables: &Map<String, Value>) -> Result<()> {
    if dependencies.len() > MAX_DEPENDENCIES {
        return Err(Error::invalid(FIELD, format!("must be at most {MAX_DEPENDENCIES} stacks")));
    }
    let (mut stacks, mut names) = (BTreeSet::new(), BTreeSet::new());
    for StackDependency { stack_id, outputs, reads_state: _ } in dependencies {
        if !stacks.insert(*stack_id) {
            return Err(Error::invalid(
                FIELD,
                format!("stack {stack_id} is there twice: name all outputs at once"),
            ));
        }
        if outputs.len() > MAX_OUTPUTS {
            return Err(Error::invalid(FIELD, format!("must be at most {MAX_OUTPUTS} outputs of one stack")));
        }
        for OutputReference { output, name } in outputs {
            if output.is_empty() || output.len() > 255 || output.chars().any(char::is_control) {
                return Err(Error::invalid(FIELD, "an output must be a name of at most 255 bytes"));
            }
            check_variable_name(FIELD, name)?;
            if !names.insert(name.as_str()) {
                return Err(Error::invalid(FIELD, format!("the variable {name} is given twice")));
            }
            if variables.contains_key(name) {
                return Err(Error::invalid(
                    FIELD,
                    format!("the variable {name} is among `variables`, too: take it out of one of them"),
                ));
            }
        }
    }
    Ok(())
}

/// The graph of dependencies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackGraph {
    upstream: BTreeMap<StackId, BTreeSet<StackId>>,
    downstream: BTreeMap<StackId, BTreeSet<StackId>>,
}

impl FromIterator<(StackId, StackId)> for StackGraph {
    /// From pairs of a stack and one that it depends on.
    fn from_iter<I: IntoIterator<Item = (StackId, StackId)>>(edges: I) -> Self {
        let mut graph = Self::default();
        for (stack, upstream) in edges {
            graph.upstream.entry(stack).or_default().insert(upstream);
            graph.downstream.entry(upstream).or_default().insert(stack);
        }
        graph
    }
}

impl StackGraph {
    /// The graph with other dependencies of one stack.
    #[must_use]
    pub fn with(&self, stack: StackId, upstream: &[StackId]) -> Self {
        let others = self.edges().filter(|(of, _)| *of != stack);
        others.chain(upstream.iter().map(|upstream| (stack, *upstream))).collect()
    }

    /// All pairs of a stack and one that it depends on.
    pub fn edges(&self) -> impl Iterator<Item = (StackId, StackId)> {
        self.upstream.iter().flat_map(|(stack, all)| all.iter().map(move |upstream| (*stack, *upstream)))
    }

    /// The direct dependencies of a stack.
    pub fn upstream(&self, stack: StackId) -> impl Iterator<Item = StackId> {
        self.upstream.get(&stack).into_iter().flatten().copied()
    }

    /// The direct dependents of a stack.
    pub fn downstream(&self, stack: StackId) -> impl Iterator<Item = StackId> {
        self.downstream.get(&stack).into_iter().flatten().copied()
    }

    /// All direct and indirect dependencies of a stack.
    pub fn ancestors(&self, stack: StackId) -> BTreeSet<StackId> {
        reached(stack, &self.upstream)
    }

    /// All direct and indirect dependents of a stack.
    pub fn descendants(&self, stack: StackId) -> BTreeSet<StackId> {
        reached(stack, &self.downstream)
    }

    /// A cycle through a stack: the path starts and ends there.
    pub fn cycle(&self, stack: StackId) -> Option<Vec<StackId>> {
        let mut came: BTreeMap<StackId, StackId> = BTreeMap::new();
        let mut next = vec![stack];
        while let Some(one) = next.pop() {
            for upstream in self.upstream(one) {
                if upstream == stack {
                    // The path was built from its end.
                    let (mut path, mut at) = (vec![one], one);
                    while let Some(before) = came.get(&at) {
                        path.push(*before);
                        at = *before;
                    }
                    path.reverse();
                    path.push(stack);
                    return Some(path);
                }
                if let Entry::Vacant(new) = came.entry(upstream) {
                    new.insert(one);
                    next.push(upstream);
                }
            }
        }
        None
    }

    /// Number of stacks on the longest path through this one. Assumes that there is no cycle.
    pub fn depth(&self, stack: StackId) -> usize {
        longest(stack, &self.upstream) + longest(stack, &self.downstream) - 1
    }

    /// These stacks, dependencies first, and otherwise in the given order. Assumes that there is no cycle.
    #[must_use]
    pub fn upstream_first<T>(&self, mut stacks: Vec<T>, id: impl Fn(&T) -> StackId) -> Vec<T> {
        // Depths are computed once, and not in each comparison.
        stacks.sort_by_cached_key(|stack| longest(id(stack), &self.upstream));
        stacks
    }
}

/// All stacks that can be reached from one, without itself.
fn reached(from: StackId, along: &BTreeMap<StackId, BTreeSet<StackId>>) -> BTreeSet<StackId> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(one) = next.pop() {
        next.extend(along.get(&one).into_iter().flatten().copied().filter(|other| found.insert(*other)));
    }
    found
}

/// Number of stacks on the longest path from one, including itself. Breadth first, so a cycle ends it, too.
fn longest(from: StackId, along: &BTreeMap<StackId, BTreeSet<StackId>>) -> usize {
    let (mut wave, mut count) = (BTreeSet::from([from]), 0);
    while !wave.is_empty() && count <= along.len() + 1 {
        count += 1;
        wave = wave.iter().filter_map(|one| along.get(one)).flatten().copied().collect();
    }
    count
}

/// The current state of a stack that a run depends on.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamNow<'a> {
    /// Its name, or a placeholder.
    pub name: &'a str,
    /// The run depends on it directly.
    pub is_direct: bool,
    /// It was applied.
    pub is_applied: bool,
    /// Its newest run other than a dry run.
    pub newest: Option<&'a StackRun>,
}

/// Whether a run may proceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// It may.
    Goes,
    /// It waits, for this reason.
    Waits(String),
    /// It ends, for this reason: its dependency failed.
    Skipped(String),
}

/// Whether a run that was created at this time may proceed.
pub fn hold(made: DateTime<Utc>, upstream: &[UpstreamNow<'_>]) -> Hold {
    let mut waits = None;
    for UpstreamNow { name, is_direct, is_applied, newest } in upstream.iter().copied() {
        match newest {
            Some(run) if !run.status.is_over() => {
                waits.get_or_insert_with(|| format!("waits for run {} of stack {name}", run.number));
            }
            Some(run)
                if is_direct
                    && run.status != RunStatus::Successful
                    && run.finished_at.is_some_and(|at| at > made) =>
            {
                let ended = run.status.as_str();
                return Hold::Skipped(format!(
                    "skipped: run {} of stack {name}, which it waited for, is {ended}",
                    run.number
                ));
            }
            _ if is_direct && !is_applied => {
                waits.get_or_insert_with(|| format!("waits for stack {name}, which was not applied yet"));
            }
            Some(_) | None => {}
        }
    }
    waits.map_or(Hold::Goes, Hold::Waits)
}

/// The placeholder for the name of a stack in the text of a run: readers of the run may not be allowed to see that stack.
pub fn stand_in(id: StackId) -> String {
    format!("<{id}>")
}

/// The placeholders of a text: their ranges, and their stacks.
pub fn stand_ins(text: &str) -> Vec<(Range<usize>, StackId)> {
    let mut found = Vec::new();
    for (begin, _) in text.match_indices('<') {
        let Some(length) = text[begin..].find('>') else { break };
        let end = begin + length;
        if let Ok(id) = text[begin + 1..end].parse::<StackId>() {
            found.push((begin..end + 1, id));
        }
    }
    found
}

/// A text with names instead of placeholders, for a reader who may see these stacks.
pub fn with_names(text: &str, names: &BTreeMap<StackId, String>) -> String {
    let (mut told, mut at) = (String::with_capacity(text.len()), 0);
    for (place, id) in stand_ins(text) {
        told.push_str(&text[at..place.start]);
        told.push_str(names.get(&id).map_or("(one that you may not see)", String::as_str));
        at = place.end;
    }
    told.push_str(&text[at..]);
    told
}

/// A value that a run takes from another stack.
#[derive(Clone, PartialEq, Eq)]
pub struct TakenValue {
    /// Name of the variable.
    pub name: String,
    /// Its value.
    pub value: Value,
    /// The tool marks it as sensitive.
    pub secret: bool,
}

// Values may be secret.
impl std::fmt::Debug for TakenValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, value: _, secret } = self;
        f.debug_struct("TakenValue").field("name", name).field("secret", secret).finish_non_exhaustive()
    }
}

/// Adds values to the variables and the environment of a run. A value that is not secret becomes a variable. A secret one goes into the
/// environment, which is sealed and masked in logs; for a tool without variables, so do all others.
pub fn lay_values(
    tool: StackTool,
    values: Vec<TakenValue>,
    variables: &mut Map<String, Value>,
    environment: &mut Vec<InputVariable>,
) {
    for TakenValue { name, value, secret } in values {
        if !secret && tool != StackTool::Custom {
            variables.insert(name, value);
            continue;
        }
        let name = match tool {
            StackTool::Terraform | StackTool::Terragrunt => format!("TF_VAR_{name}"),
            StackTool::Ansible | StackTool::Pulumi | StackTool::Custom => name,
        };
        let value = match value {
            Value::String(text) => text,
            value => value.to_string(),
        };
        environment.retain(|variable| variable.name != name);
        environment.push(InputVariable { name, value, secret });
    }
}

#[cfg(test)]
mod tests;
