//! Commands of stacks under a name.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const STACK: &str = "0190b8a2-7c11-7def-8000-0123456789ab";
const CUSTOM: &str = "0190b8a2-7c11-7def-8000-000000000021";
const RUN: &str = "0190b8a2-7c11-7def-8000-000000000012";

fn custom(id: &str, name: &str) -> Value {
    json!({
        "id": id, "name": name, "documentation": "Makes it larger.", "stack": {"id": STACK, "name": "network"}, "project": null,
        "insertedAt": null, "updatedAt": null,
        "commands": [{"cmd": "grow", "args": ["-v"], "dir": null, "approve": true}],
        "configuration": [
            {"name": "SIZE", "type": "ENUM", "default": "3", "documentation": "How large", "optional": false, "values": ["3", "5"]},
            {"name": "TOKEN", "type": "PASSWORD", "default": null, "documentation": null, "optional": true, "values": []},
        ],
    })
}

fn page(nodes: &[Value]) -> Value {
    let edges: Vec<Value> = nodes.iter().map(|node| json!({"node": node})).collect();
    json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": edges})
}

async fn server(nodes: &[Value]) -> Server {
    let stack =
        json!({"id": STACK, "name": "network", "type": "TERRAFORM", "protect": false, "paused": false});
    let run = json!({
        "id": RUN, "number": 12, "kind": "COMMANDS", "trigger": "MANUAL", "status": "QUEUED", "phase": "PLAN", "approval": false,
        "requiredApprovals": 0, "cancelAsked": false, "error": null, "sha": null, "message": null, "author": "ada@example.com",
        "stack": {"id": STACK, "name": "network"}, "plan": null, "approvals": [],
    });
    Server::start()
        .await
        .data("GetInfrastructureStack", "infrastructureStack", &stack)
        .data("ListCustomStackRuns", "customStackRuns", &page(nodes))
        .data("GetCustomStackRun", "customStackRun", &custom(CUSTOM, "grow"))
        .data("AddCustomStackRun", "createCustomStackRun", &json!({"id": CUSTOM}))
        .data("ChangeCustomStackRun", "updateCustomStackRun", &json!({"id": CUSTOM}))
        .data("DeleteCustomStackRun", "deleteCustomStackRun", &json!({"id": CUSTOM}))
        .data("StartCustomStackRun", "startCustomStackRun", &run)
}

#[tokio::test]
async fn what_is_stored_comes_from_a_file_or_the_line() {
    let server = server(&[custom(CUSTOM, "grow")]).await;
    let person = Person::of(&server.url);
    let made = person.run("cd stacks commands create look --stack network -o name -- tofu state list").await;
    assert_eq!((made.code, made.out), (0, format!("commands/{CUSTOM}\n")), "{}", made.err);
    let attributes = json!({
        "name": "look", "stackId": STACK, "commands": [{"cmd": "tofu", "args": ["state", "list"]}],
    });
    assert_eq!(server.asked("AddCustomStackRun"), [json!({"attributes": attributes})]);
    let renamed = person.run("cd stacks commands update grow --name enlarge").await;
    assert_eq!(renamed.code, 0, "{}", renamed.err);
    let change = json!({"id": CUSTOM, "attributes": {"name": "enlarge"}});
    assert_eq!(server.asked("ChangeCustomStackRun"), [change]);
    for (line, why) in [
        ("cd stacks commands create look --stack network", "--file"),
        ("cd stacks commands update grow", "nothing to change"),
        ("cd stacks commands update shrink --name a", "not found"),
    ] {
        let refused = person.run(line).await;
        assert!(refused.code != 0 && refused.err.contains(why), "{line}: {}", refused.err);
    }
    let told = person.run("cd stacks commands describe grow").await;
    assert!(told.out.contains("SIZE ENUM of 3, 5, else 3: How large"), "{}", told.out);
    assert!(told.out.contains("TOKEN PASSWORD, optional"), "{}", told.out);
    let gone = person.run("cd stacks commands delete grow --yes").await;
    assert_eq!(gone.code, 0, "{}", gone.err);
}

#[tokio::test]
async fn answers_are_given_by_name() {
    let server = server(&[custom(CUSTOM, "grow")]).await;
    let person = Person::of(&server.url);
    let made = person.run("cd stacks commands run grow --answer SIZE=5 --no-wait -o name").await;
    assert_eq!((made.code, made.out), (0, format!("run/{RUN}\n")), "{}", made.err);
    let asked = json!({"id": CUSTOM, "stackId": null, "answers": {"SIZE": "5"}});
    assert_eq!(server.asked("StartCustomStackRun"), [asked]);
    let refused = person.run("cd stacks commands run grow --secret-answer TOKEN=hunter2 --no-wait").await;
    assert!(refused.code == 2 && !refused.err.contains("hunter2"), "{}", refused.err);
}

/// Names are unique in a project, and somebody may see several.
#[tokio::test]
async fn one_name_of_two_projects_is_none() {
    let other = "0190b8a2-7c11-7def-8000-000000000022";
    let server = server(&[custom(CUSTOM, "grow"), custom(other, "grow")]).await;
    let person = Person::of(&server.url);
    let refused = person.run("cd stacks commands run grow --no-wait").await;
    assert!(refused.code == 2 && refused.err.contains("by id"), "{}", refused.err);
    assert!(server.asked("StartCustomStackRun").is_empty());
}
