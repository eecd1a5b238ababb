//! What stacks take from each other: outputs of one are variables of another. Together they are a graph without cycles.

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

/// Stacks that one may depend on by itself.
pub const MAX_DEPENDENCIES: usize = 16;
/// Outputs that it may take from one of them.
const MAX_OUTPUTS: usize = 64;
/// Stacks on the longest way through the graph.
pub const MAX_DEPTH: usize = 16;
/// The attribute.
const FIELD: &str = "attributes.dependencies";

/// A stack that another one depends on, and what it takes from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StackDependency {
    /// The stack.
    pub stack_id: StackId,
    /// What is taken from it; nothing: only the order counts.
    #[serde(default)]
    pub outputs: Vec<OutputReference>,
    /// Whoever saved it may read the state of that stack: only then are sensitive outputs given.
    #[serde(default)]
    pub reads_state: bool,
}

/// An output that is taken as a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputReference {
    /// Name of the output.
    pub output: String,
    /// Name of the variable.
    #[serde(rename = "variable")]
    pub name: String,
}

/// What a run takes from other stacks. It waits for them until all of that is settled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Upstream {
    /// The run of another stack whose outputs made this one.
    pub run: Option<StackRunId>,
    /// Since when its values are those that it has; absent while it waits.
    pub settled_at: Option<DateTime<Utc>>,
    /// 32 bytes, in hex, of all values. Only the installation can make them.
    pub digest: Option<String>,
}

impl Upstream {
    /// It waits for other stacks.
    pub const fn is_held(&self) -> bool {
        self.settled_at.is_none()
    }
}

/// Checks what a stack takes from others, by itself.
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

/// Which stacks depend on which.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StackGraph {
    upstream: BTreeMap<StackId, BTreeSet<StackId>>,
    downstream: BTreeMap<StackId, BTreeSet<StackId>>,
}

impl FromIterator<(StackId, StackId)> for StackGraph {
    /// Of pairs: a stack, and one that it depends on.
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
    /// With other dependencies of one stack.
    #[must_use]
    pub fn with(&self, stack: StackId, upstream: &[StackId]) -> Self {
        let others = self.edges().filter(|(of, _)| *of != stack);
        others.chain(upstream.iter().map(|upstream| (stack, *upstream))).collect()
    }

    /// All pairs: a stack, and one that it depends on.
    pub fn edges(&self) -> impl Iterator<Item = (StackId, StackId)> {
        self.upstream.iter().flat_map(|(stack, all)| all.iter().map(move |upstream| (*stack, *upstream)))
    }

    /// What a stack depends on by itself.
    pub fn upstream(&self, stack: StackId) -> impl Iterator<Item = StackId> {
        self.upstream.get(&stack).into_iter().flatten().copied()
    }

    /// What depends on a stack by itself.
    pub fn downstream(&self, stack: StackId) -> impl Iterator<Item = StackId> {
        self.downstream.get(&stack).into_iter().flatten().copied()
    }

    /// All that a stack depends on, also through others.
    pub fn ancestors(&self, stack: StackId) -> BTreeSet<StackId> {
        reached(stack, &self.upstream)
    }

    /// All that depends on a stack, also through others.
    pub fn descendants(&self, stack: StackId) -> BTreeSet<StackId> {
        reached(stack, &self.downstream)
    }

    /// A way from a stack to itself, beginning and ending there.
    pub fn cycle(&self, stack: StackId) -> Option<Vec<StackId>> {
        let mut came: BTreeMap<StackId, StackId> = BTreeMap::new();
        let mut next = vec![stack];
        while let Some(one) = next.pop() {
            for upstream in self.upstream(one) {
                if upstream == stack {
                    // It was walked from its end.
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

    /// Stacks on the longest way through this one. Without a cycle.
    pub fn depth(&self, stack: StackId) -> usize {
        longest(stack, &self.upstream) + longest(stack, &self.downstream) - 1
    }

    /// Of these stacks, those that others depend on first. Without a cycle, and else in the order that they have.
    #[must_use]
    pub fn upstream_first<T>(&self, mut stacks: Vec<T>, id: impl Fn(&T) -> StackId) -> Vec<T> {
        // Each way is walked once, and not with each comparison.
        stacks.sort_by_cached_key(|stack| longest(id(stack), &self.upstream));
        stacks
    }
}

/// All that is reached from a stack, without itself.
fn reached(from: StackId, along: &BTreeMap<StackId, BTreeSet<StackId>>) -> BTreeSet<StackId> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(one) = next.pop() {
        next.extend(along.get(&one).into_iter().flatten().copied().filter(|other| found.insert(*other)));
    }
    found
}

/// Stacks on the longest way from one, with itself. By waves: a graph with a cycle ends it, too.
fn longest(from: StackId, along: &BTreeMap<StackId, BTreeSet<StackId>>) -> usize {
    let (mut wave, mut count) = (BTreeSet::from([from]), 0);
    while !wave.is_empty() && count <= along.len() + 1 {
        count += 1;
        wave = wave.iter().filter_map(|one| along.get(one)).flatten().copied().collect();
    }
    count
}

/// A stack that a run takes something from, as it is now.
#[derive(Debug, Clone, Copy)]
pub struct UpstreamNow<'a> {
    /// Its name, or what stands for it.
    pub name: &'a str,
    /// The run depends on it by itself, and not only through others.
    pub is_direct: bool,
    /// It was applied.
    pub is_applied: bool,
    /// Its newest run that is no dry run.
    pub newest: Option<&'a StackRun>,
}

/// Whether a run goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// It does.
    Goes,
    /// It waits, for this reason.
    Waits(String),
    /// It ends, for this reason: what it waited for did not come.
    Skipped(String),
}

/// Whether a run that was made then goes on.
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

/// What stands for the name of a stack in what a run says of others: not all who read the run may see these.
pub fn stand_in(id: StackId) -> String {
    format!("<{id}>")
}

/// Each stand-in of a text: where it begins and ends, and for which stack it stands.
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

/// A text with the names of stacks, for one who may see these.
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
    /// What it is.
    pub value: Value,
    /// The tool says that it is sensitive.
    pub secret: bool,
}

// Values may be secret.
impl std::fmt::Debug for TakenValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, value: _, secret } = self;
        f.debug_struct("TakenValue").field("name", name).field("secret", secret).finish_non_exhaustive()
    }
}

/// Lays values over the variables that a run takes and over its environment: what is no secret goes in as variables do. What is goes into the
/// environment, which is sealed and hidden from logs; so does all of a tool that has no variables.
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
