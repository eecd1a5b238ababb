//! Definitions of stacks.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

fn definition() -> Value {
    json!({
        "id": ID, "name": "dns", "description": "names of machines", "insertedAt": null, "updatedAt": null,
        "configuration": {
            "image": "registry.example.com/dns", "version": null, "tag": "v1",
            "hooks": [{"cmd": "./dns", "args": ["login"], "afterStage": "INIT"}],
        },
        "steps": [{"cmd": "./dns", "args": ["diff"], "stage": "PLAN"}, {"cmd": "./dns", "args": ["push"], "stage": "APPLY"}],
        "deleteSteps": [{"cmd": "./dns", "args": ["clear"], "stage": "DESTROY"}],
    })
}

async fn server() -> Server {
    let page =
        json!({"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": [{"node": definition()}]});
    Server::start()
        .await
        .data("ListStackDefinitions", "stackDefinitions", &page)
        .data("GetStackDefinition", "stackDefinition", &definition())
        .data("CreateStackDefinition", "createStackDefinition", &definition())
        .data("UpdateStackDefinition", "updateStackDefinition", &definition())
        .data("DeleteStackDefinition", "deleteStackDefinition", &json!({"id": ID}))
}

#[tokio::test]
async fn an_update_keeps_what_is_left_out() {
    let server = server().await;
    let person = Person::of(&server.url);
    let renamed = person.run("cd stack-definitions update dns --name names").await;
    assert_eq!(renamed.code, 0, "{renamed:?}");
    let is = definition();
    let mut expected = json!({
        "name": "names", "description": is["description"], "configuration": is["configuration"],
        "steps": is["steps"], "deleteSteps": is["deleteSteps"],
    });
    let since = is["updatedAt"].clone();
    let sent = json!({"id": ID, "attributes": expected, "unchangedSince": since});
    assert_eq!(server.asked("UpdateStackDefinition"), [sent]);

    // A version would lose against a tag; commands of both stages are replaced together.
    let command = "cd stack-definitions update stack-definition/dns --tool-version v2 --apply-command make --hook apply=tell";
    let changed = person.run(command).await;
    assert_eq!(changed.code, 0, "{changed:?}");
    expected["name"] = json!("dns");
    expected["configuration"] = json!({
        "image": "registry.example.com/dns", "version": "v2",
        "hooks": [{"afterStage": "APPLY", "cmd": "sh", "args": ["-c", "tell"]}],
    });
    expected["steps"] = json!([{"stage": "APPLY", "cmd": "sh", "args": ["-c", "make"]}]);
    let asked = server.asked("UpdateStackDefinition");
    assert_eq!(asked.last(), Some(&json!({"id": ID, "attributes": expected, "unchangedSince": since})));

    let bare = person.run("cd stack-definitions update dns --no-hooks").await;
    assert_eq!(bare.code, 0, "{bare:?}");
    let asked = server.asked("UpdateStackDefinition");
    let hooks = asked.last().map(|sent| &sent["attributes"]["configuration"]["hooks"]);
    assert_eq!(hooks, Some(&json!([])), "{asked:?}");

    let nothing = person.run("cd stack-definitions update dns").await;
    assert!(nothing.code == 2 && nothing.err.contains("nothing to change"), "{nothing:?}");
    let wrong = person.run("cd stack-definitions update dns --hook later=tell").await;
    assert!(wrong.code == 2 && wrong.err.contains("STAGE=COMMAND"), "{wrong:?}");
    assert_eq!(server.asked("UpdateStackDefinition").len(), 3);
}

#[tokio::test]
async fn a_definition_is_made_shown_and_deleted() {
    let server = server().await;
    let person = Person::of(&server.url);
    let made = person.run("cd stack-definitions create dns --tool-image a.b/c --apply-command make").await;
    assert_eq!(made.code, 0, "{made:?}");
    let expected = json!({
        "name": "dns", "configuration": {"image": "a.b/c"},
        "steps": [{"stage": "APPLY", "cmd": "sh", "args": ["-c", "make"]}],
    });
    assert_eq!(server.asked("CreateStackDefinition"), [json!({"attributes": expected})]);
    let listed = person.run("cd stack-definitions list").await;
    assert!(listed.out.contains("registry.example.com/dns:v1"), "{listed:?}");
    let described = person.run("cd stack-definitions describe dns").await;
    for line in ["plan: ./dns diff", "destroy: ./dns clear", "after init: ./dns login"] {
        assert!(described.out.contains(line), "{line}: {described:?}");
    }
    let json = person.run("cd stack-definitions describe dns -o json").await;
    assert!(json.out.contains("\"afterStage\": \"INIT\""), "{json:?}");
    let declined = Person::of(&server.url).answering("n\n").run("cd stack-definitions delete dns").await;
    assert!(declined.code == 1 && server.asked("DeleteStackDefinition").is_empty(), "{declined:?}");
    let deleted = person.run("cd stack-definitions delete dns --yes").await;
    assert_eq!(deleted.code, 0, "{deleted:?}");
    assert_eq!(server.asked("DeleteStackDefinition"), [json!({"id": ID})]);
}
