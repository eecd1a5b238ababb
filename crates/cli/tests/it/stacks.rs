//! Stacks and their state.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";
const LOCK: &str = "6b0f5c4e-1f0e-7a5e-9b0a-0123456789ab";

fn version(id: &str, serial: i64, rejected: Option<&str>) -> Value {
    json!({
        "id": id, "serial": serial, "lineage": "a", "digest": "00", "size": 180, "resources": 2, "rejected": rejected,
        "acceptedAt": null, "author": "ada@example.com", "requestId": "r", "fence": 1, "insertedAt": null,
    })
}

fn stack(resources: &Value) -> Value {
    let mut state = version("0190b8a2-7c11-7def-8000-000000000042", 42, None);
    state["resources"] = resources.clone();
    json!({
        "id": ID, "name": "network", "type": "TERRAFORM", "protect": false, "insertedAt": null,
        "project": {"id": ID, "name": "shop"}, "stateVersion": state,
        "lock": {
            "id": LOCK, "operation": "OperationTypeApply", "who": "ada@box", "author": "ada@example.com", "fence": 7,
            "insertedAt": null,
        },
    })
}

async fn server(resources: Value) -> Server {
    let versions = json!({"stateVersions": [
        version("0190b8a2-7c11-7def-8000-000000000043", 41, Some("its serial is lower than that of the state")),
        version("0190b8a2-7c11-7def-8000-000000000042", 42, None),
        version("0190b8a2-7c11-7def-8000-000000000041", 41, None),
    ]});
    let stack = stack(&resources);
    Server::start()
        .await
        .data("GetInfrastructureStack", "infrastructureStack", &stack)
        .data("ListStackStateVersions", "infrastructureStack", &versions)
        .data("RestoreStackState", "restoreStackState", &stack)
        .data("ForceUnlockStack", "forceUnlockStack", &stack)
        .data("DeleteStack", "deleteStack", &json!({"id": ID}))
}

#[tokio::test]
async fn a_backend_is_written_without_a_secret() {
    let server = server(json!(2)).await;
    let person = Person::of(&server.url);
    let shown = person.run("cd stacks gen-backend network").await;
    let address = format!("\"{}/v1/stacks/{ID}/state\"", server.url);
    assert_eq!(shown.out.matches(&address).count(), 3, "{}", shown.out);
    assert!(shown.out.contains("TF_HTTP_PASSWORD") && !shown.out.contains("console-test"), "{}", shown.out);
    let path = person.home().join("plural_backend_override.tf");
    let command = format!("cd stacks gen-backend stack/network --file {}", path.display());
    let written = person.run(&command).await;
    assert_eq!((written.code, written.out.as_str()), (0, ""), "{written:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), shown.out);
    let again = person.run(&command).await;
    assert!(again.code == 1 && again.err.contains("cannot write"), "what is there stays: {again:?}");
    assert_eq!(server.asked("GetInfrastructureStack")[1], json!({"id": null, "name": "network"}));
}

#[tokio::test]
async fn a_deletion_says_what_it_forgets() {
    let full = server(json!(2)).await;
    let refused = Person::of(&full.url).run("cd stacks delete network").await;
    assert!(refused.code == 2 && refused.err.contains("2 resources"), "{refused:?}");
    assert!(full.asked("DeleteStack").is_empty());
    let asked = Person::of(&full.url).answering("y\n").run("cd stacks delete network").await;
    assert!(asked.code == 0 && asked.err.contains("stays where it is"), "{asked:?}");
    let forget = "0190b8a2-7c11-7def-8000-000000000042";
    assert_eq!(full.asked("DeleteStack"), [json!({"id": ID, "forget": forget})]);

    let empty = server(json!(0)).await;
    let done = Person::of(&empty.url).run("cd stacks delete network --yes").await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(empty.asked("DeleteStack"), [json!({"id": ID, "forget": null})]);
}

#[tokio::test]
async fn versions_are_named_by_serial_or_id() {
    let server = server(json!(2)).await;
    let person = Person::of(&server.url);
    // Of two with a serial, the one that was taken.
    for (named, meant) in [("41", "000000000041"), ("0190b8a2-7c11-7def-8000-000000000043", "000000000043")] {
        let done = person.run(&format!("cd stacks state accept network {named} --yes")).await;
        assert_eq!(done.code, 0, "{done:?}");
        let asked = server.asked("RestoreStackState");
        let version = format!("0190b8a2-7c11-7def-8000-{meant}");
        assert_eq!(asked.last(), Some(&json!({"stackId": ID, "version": version})));
    }
    let missing = person.run("cd stacks state restore network 7 --yes").await;
    assert!(missing.code == 1 && missing.err.contains("state list"), "{missing:?}");
    let listed = person.run("cd stacks state list network -o json").await;
    assert!(listed.out.contains("its serial is lower"), "{}", listed.out);
}

#[tokio::test]
async fn a_lock_is_ended_after_a_question_that_says_whose_it_is() {
    let server = server(json!(2)).await;
    let declined = Person::of(&server.url).answering("n\n").run("cd stacks state unlock network").await;
    assert!(declined.code == 1 && declined.err.contains("ada@box"), "{declined:?}");
    assert!(server.asked("ForceUnlockStack").is_empty());
    let done = Person::of(&server.url).run("cd stacks state unlock network --yes").await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(server.asked("ForceUnlockStack"), [json!({"stackId": ID, "lock": LOCK})]);
    let described = Person::of(&server.url).run("cd stacks describe network").await;
    assert!(
        described.out.contains("serial 42, 2 resources") && described.out.contains(LOCK),
        "{}",
        described.out
    );
}
