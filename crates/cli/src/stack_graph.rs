//! `plural cd stacks graph`: which stacks depend on which.

use std::{collections::BTreeSet, fmt::Write as _};

use clap::{Args, ValueEnum};
use plural_wire::{Client, GetStackGraph, StackGraph, StackGraphEdge, StackNode};

use crate::{
    error::CliError,
    output::{self, or_dash},
    terminal::Terminal,
};

const NOTHING: &str =
    "no stack depends on another; `plural cd stacks update NAME --depends-on OTHER` says that one does";

/// Show dependencies between stacks, in the order in which they run
///
/// With a stack: that one, all that it depends on, and all that depends on it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd stacks graph
  plural cd stacks graph network -o json
  plural cd stacks graph -o dot | dot -Tsvg -o stacks.svg")]
pub(crate) struct StackGraphArgs {
    /// The stack: its name or id
    #[arg(value_name = "STACK")]
    pub(crate) stack: Option<String>,

    /// Format
    #[arg(short, long, value_enum, default_value_t = GraphFormat::Table, value_name = "FORMAT")]
    pub(crate) output: GraphFormat,
}

/// How a graph is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphFormat {
    /// A line for each stack.
    Table,
    /// Stacks and edges.
    Json,
    /// For Graphviz.
    Dot,
}

pub(crate) async fn run(
    StackGraphArgs { stack, output }: StackGraphArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let mut graph = client.send(&GetStackGraph {}).await?;
    if let Some(stack) = stack {
        let Some(id) = graph.stacks.iter().find(|node| node.id == stack || node.name == stack) else {
            return Err(CliError::new(format!(
                "stack {stack:?} depends on no other one that you may see, and none depends on it"
            )));
        };
        let id = id.id.clone();
        graph = around(graph, &id);
    }
    match output {
        GraphFormat::Json => output::json(&graph, terminal),
        GraphFormat::Dot => Ok(write!(terminal.out, "{}", dot(&graph))?),
        GraphFormat::Table if graph.stacks.is_empty() => {
            terminal.say(NOTHING);
            Ok(())
        }
        GraphFormat::Table => Ok(write!(terminal.out, "{}", table(&graph))?),
    }
}

/// What is reached from a stack, in either direction.
fn around(graph: StackGraph, id: &str) -> StackGraph {
    let up = |edge: &StackGraphEdge| (edge.stack_id.clone(), edge.upstream_id.clone());
    let down = |edge: &StackGraphEdge| (edge.upstream_id.clone(), edge.stack_id.clone());
    let mut kept = reached(&graph.edges.iter().map(up).collect::<Vec<_>>(), id);
    kept.extend(reached(&graph.edges.iter().map(down).collect::<Vec<_>>(), id));
    let StackGraph { mut stacks, mut edges } = graph;
    stacks.retain(|node| kept.contains(&node.id));
    edges.retain(|edge| kept.contains(&edge.stack_id) && kept.contains(&edge.upstream_id));
    StackGraph { stacks, edges }
}

fn reached(edges: &[(String, String)], from: &str) -> BTreeSet<String> {
    let (mut found, mut next) = (BTreeSet::from([from.to_owned()]), vec![from.to_owned()]);
    while let Some(one) = next.pop() {
        for (_, to) in edges.iter().filter(|(at, _)| *at == one) {
            if found.insert(to.clone()) {
                next.push(to.clone());
            }
        }
    }
    found
}

/// How a stack stands.
fn state(node: &StackNode) -> &'static str {
    match (node.deleted_at, node.status) {
        (Some(_), _) => "being deleted",
        (None, Some(status)) => status.as_str(),
        (None, None) => "never run",
    }
}

/// The names of those at the other end of the edges of a stack.
fn names<'a>(graph: &'a StackGraph, ends: impl Iterator<Item = &'a str>) -> String {
    let name = |id: &str| {
        let known = graph.stacks.iter().find(|node| node.id == id);
        or_dash(known.map(|node| node.name.as_str()))
    };
    let names: Vec<String> = ends.map(name).collect();
    if names.is_empty() { "-".to_owned() } else { names.join(", ") }
}

fn table(graph: &StackGraph) -> String {
    let mut lines = vec![["STACK", "STATUS", "NEEDS", "NEEDED BY"].map(str::to_owned).to_vec()];
    for node in &graph.stacks {
        let up = graph.edges.iter().filter(|edge| edge.stack_id == node.id);
        let down = graph.edges.iter().filter(|edge| edge.upstream_id == node.id);
        lines.push(vec![
            or_dash(Some(&node.name)),
            state(node).to_owned(),
            names(graph, up.map(|edge| edge.upstream_id.as_str())),
            names(graph, down.map(|edge| edge.stack_id.as_str())),
        ]);
    }
    output::columns(&lines, 4)
}

/// A text of Graphviz.
fn quoted(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn dot(graph: &StackGraph) -> String {
    let mut text = "digraph stacks {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
    for node in &graph.stacks {
        let label = quoted(&format!("{} ({})", node.name, state(node)));
        let _ = writeln!(text, "  {} [label={label}];", quoted(&node.id));
    }
    for StackGraphEdge { stack_id, upstream_id } in &graph.edges {
        let of = graph.stacks.iter().find(|node| node.id == *stack_id);
        let taken = of.and_then(|node| node.dependencies.iter().find(|taken| taken.stack_id == *upstream_id));
        let outputs: Vec<&str> = taken
            .map(|taken| taken.outputs.iter().map(|output| output.output.as_str()).collect())
            .unwrap_or_default();
        let label = quoted(&outputs.join(", "));
        let _ = writeln!(text, "  {} -> {} [label={label}];", quoted(upstream_id), quoted(stack_id));
    }
    text.push_str("}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> StackGraph {
        let node = |id: &str, name: &str, upstream: &[&str]| {
            let taken = |id: &&str| serde_json::json!({"stackId": id, "outputs": [{"output": "vpc", "variable": "vpc_id"}]});
            let dependencies: Vec<_> = upstream.iter().map(taken).collect();
            serde_json::json!({"id": id, "name": name, "status": null, "deletedAt": null, "dependencies": dependencies})
        };
        let edge =
            |stack: &str, upstream: &str| serde_json::json!({"stackId": stack, "upstreamId": upstream});
        serde_json::from_value(serde_json::json!({
            "stacks": [node("1", "net", &[]), node("2", "db", &["1"]), node("3", "a\"pp", &["2"]), node("4", "dns", &["1"])],
            "edges": [edge("2", "1"), edge("3", "2"), edge("4", "1")],
        }))
        .unwrap()
    }

    #[test]
    fn around_a_stack_is_what_it_needs_and_what_needs_it() {
        let names =
            |id| -> Vec<String> { around(graph(), id).stacks.into_iter().map(|node| node.name).collect() };
        assert_eq!(names("2"), ["net", "db", "a\"pp"]);
        assert_eq!(names("4"), ["net", "dns"]);
        assert_eq!(around(graph(), "4").edges.len(), 1);
    }

    #[test]
    fn a_graph_is_a_table_and_a_text_of_graphviz() {
        let text = table(&graph());
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["net", "never", "run", "-", "db,", "dns"]);
        let text = dot(&graph());
        assert!(text.contains(r#""1" -> "2" [label="vpc"];"#), "{text}");
        assert!(text.contains(r#""3" [label="a\"pp (never run)"];"#), "{text}");
    }
}
