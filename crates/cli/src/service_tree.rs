//! `plural cd services tree`: a service's objects, what they own, and what is wrong with them.

use std::fmt::Write as _;

use clap::Args;
use plural_wire::{
    Client, ComponentState, ComponentTree, GetServiceTree, ServiceComponentChild, ServiceTree,
};

use crate::{
    args::OutputArgs,
    error::CliError,
    key::ServiceKey,
    output::{self, or_dash},
    terminal::Terminal,
};

/// Show a service's objects and what they own, down to Pods
///
/// An object that is not running says why: the container's exit code and reason, an image that cannot be pulled, why no
/// node takes a Pod, the last warning event.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  plural cd services tree blue/web
  plural cd services tree blue/web --failing
  plural cd services tree @blue/web -o json")]
pub(crate) struct ServiceTreeArgs {
    /// The service: CLUSTER/NAME or its id
    #[arg(value_name = "SERVICE")]
    pub(crate) service: ServiceKey,

    /// Only objects that are not running, with what they belong to
    #[arg(long)]
    pub(crate) failing: bool,

    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

pub(crate) async fn run(
    args: ServiceTreeArgs,
    client: &Client,
    terminal: &mut Terminal<'_>,
) -> Result<(), CliError> {
    let (id, cluster, name) = args.service.variables(client).await?;
    let mut tree = client
        .send(&GetServiceTree { id, cluster, name })
        .await
        .map_err(|error| CliError::absent(error, || args.service.missing()))?;
    if args.failing {
        only_failing(&mut tree);
    }
    output::described(&tree, &tree.service, &args.output.output, terminal, || drawn(&tree))
}

fn runs(state: Option<ComponentState>) -> bool {
    state == Some(ComponentState::Running)
}

/// Leaves out what runs, except what something that does not run belongs to.
fn only_failing(tree: &mut ServiceTree) {
    tree.components.retain_mut(|tree| {
        loop {
            let owners: Vec<Option<String>> =
                tree.children.iter().map(|child| child.parent_uid.clone()).collect();
            let before = tree.children.len();
            tree.children.retain(|child| !runs(child.state) || owners.contains(&child.uid));
            if tree.children.len() == before {
                break;
            }
        }
        !runs(tree.component.state) || !tree.component.synced || !tree.children.is_empty()
    });
}

fn drawn(tree: &ServiceTree) -> String {
    let mut text =
        format!("{} ({})\n", or_dash(Some(&tree.service.name)), word_of(tree.service.status.as_str()));
    let last = tree.components.len().saturating_sub(1);
    for (at, component) in tree.components.iter().enumerate() {
        draw_component(&mut text, component, at == last);
    }
    if tree.components.is_empty() {
        text.push_str("  no objects\n");
    }
    text
}

fn draw_component(text: &mut String, tree: &ComponentTree, last: bool) {
    let ComponentTree { component, uid, message, children } = tree;
    let place = place(component.namespace.as_deref(), &component.name);
    let synced = if component.synced { "" } else { ", not synced" };
    let _ = writeln!(
        text,
        "{}{} {place} ({}{synced}){}",
        if last { "└─ " } else { "├─ " },
        or_dash(Some(&component.kind)),
        state(component.state),
        why(component.state, message.as_deref())
    );
    let below = if last { "   " } else { "│  " };
    draw_children(text, children, uid.as_deref(), below, 0);
}

fn draw_children(
    text: &mut String,
    children: &[ServiceComponentChild],
    owner: Option<&str>,
    indent: &str,
    depth: usize,
) {
    // Nothing that a cluster says may make this go round in a circle.
    if depth > 8 {
        return;
    }
    let known = |uid: Option<&str>| uid.is_some() && children.iter().any(|child| child.uid.as_deref() == uid);
    let of_owner: Vec<&ServiceComponentChild> = children
        .iter()
        .filter(|child| {
            let parent = child.parent_uid.as_deref();
            // What stands between may not be told: such a child hangs at the component.
            parent == owner || (depth == 0 && !known(parent))
        })
        .collect();
    let last = of_owner.len().saturating_sub(1);
    for (at, child) in of_owner.into_iter().enumerate() {
        let _ = writeln!(
            text,
            "{indent}{}{} {} ({}){}",
            if at == last { "└─ " } else { "├─ " },
            or_dash(Some(&child.kind)),
            or_dash(Some(&child.name)),
            state(child.state),
            why(child.state, child.message.as_deref())
        );
        let below = format!("{indent}{}", if at == last { "   " } else { "│  " });
        if child.uid.as_deref() != owner {
            draw_children(text, children, child.uid.as_deref(), &below, depth + 1);
        }
    }
}

fn place(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) => or_dash(Some(&format!("{namespace}/{name}"))),
        None => or_dash(Some(name)),
    }
}

fn state(state: Option<ComponentState>) -> &'static str {
    match state {
        Some(ComponentState::Running) => "Running",
        Some(ComponentState::Pending) => "Pending",
        Some(ComponentState::Failed) => "Failed",
        Some(ComponentState::Paused) => "Paused",
        Some(ComponentState::Unknown) | None => "Unknown",
    }
}

fn word_of(status: &str) -> String {
    let mut letters = status.chars();
    letters.next().map_or_else(String::new, |first| first.to_string() + &letters.as_str().to_lowercase())
}

fn why(state: Option<ComponentState>, message: Option<&str>) -> String {
    match message {
        Some(message) if !message.is_empty() && !runs(state) => format!(": {}", or_dash(Some(message))),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tree() -> ServiceTree {
        let child = |uid: &str, parent: &str, kind: &str, name: &str, state: &str, message: Option<&str>| {
            json!({"uid": uid, "parentUid": parent, "group": "", "version": "v1", "kind": kind, "namespace": "shop",
                "name": name, "state": state, "message": message})
        };
        serde_json::from_value(json!({
            "id": "1", "name": "web", "namespace": "shop", "status": "FAILED", "sha": null, "protect": null,
            "deletedAt": null, "git": null, "repository": null, "cluster": null, "revision": null,
            "components": [
                {"id": "a", "uid": "d1", "group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop",
                    "name": "web", "state": "FAILED", "synced": true, "message": "took too long\u{1b}[2J",
                    "children": [
                        child("r1", "d1", "ReplicaSet", "web-5d9", "PENDING", Some("0 of 2 replicas are available")),
                        child("p1", "r1", "Pod", "web-5d9-a", "FAILED", Some("container web: ImagePullBackOff")),
                        child("p2", "r1", "Pod", "web-5d9-b", "RUNNING", Some("a remark")),
                        child("r0", "d1", "ReplicaSet", "web-4c8", "RUNNING", None),
                        child("p0", "gone", "Pod", "stray", "RUNNING", None),
                    ]},
                {"id": "b", "uid": "c1", "group": "", "version": "v1", "kind": "ConfigMap", "namespace": null,
                    "name": "settings", "state": "RUNNING", "synced": false, "message": null, "children": null},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn a_tree_is_drawn() {
        let expected = "\
web (Failed)
├─ Deployment shop/web (Failed): took too long [2J
│  ├─ ReplicaSet web-5d9 (Pending): 0 of 2 replicas are available
│  │  ├─ Pod web-5d9-a (Failed): container web: ImagePullBackOff
│  │  └─ Pod web-5d9-b (Running)
│  ├─ ReplicaSet web-4c8 (Running)
│  └─ Pod stray (Running)
└─ ConfigMap settings (Running, not synced)
";
        assert_eq!(drawn(&tree()), expected);
    }

    #[test]
    fn only_what_fails_and_its_owners_stay() {
        let mut tree = tree();
        only_failing(&mut tree);
        let names: Vec<&str> = tree.components[0].children.iter().map(|child| child.name.as_str()).collect();
        assert_eq!(names, ["web-5d9", "web-5d9-a"]);
        assert_eq!(tree.components.len(), 2);
    }

    #[test]
    fn a_circle_ends() {
        let mut tree = tree();
        tree.components[0].children[0].parent_uid = Some("p1".to_owned());
        assert!(drawn(&tree).contains("stray"));
    }
}
