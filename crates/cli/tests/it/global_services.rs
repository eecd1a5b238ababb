use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

fn global(state: &str) -> Value {
    json!({"id": ID, "name": "web", "distro": null, "generation": "2", "spread": true, "error": null,
        "deletedAt": null, "tags": [{"name": "stage", "value": "prod"}],
        "rollout": {"state": state, "generation": "2", "previous": "1", "cohort": "canary", "message": "halted"},
        "instanceCounts": {"all": 3, "healthy": 2, "newest": 1, "leaving": 0}})
}

fn instances() -> Value {
    let one = json!({"generation": "2", "status": "HEALTHY", "serviceId": ID,
        "cluster": {"id": ID, "name": "Blue", "handle": "blue"}});
    json!({"instances": {"pageInfo": {"hasNextPage": false, "endCursor": null}, "edges": [{"node": one}]}})
}

#[tokio::test]
async fn a_rollout_that_was_paused_as_asked_is_no_failure() {
    let server = Server::start()
        .await
        .data("GetGlobalService", "globalService", &global("PROGRESSING"))
        .data("GetGlobalService", "globalService", &global("HALTED"))
        .data("SteerRollout", "steerRollout", &global("HALTED"))
        .data("ListGlobalServiceInstances", "globalService", &instances());
    let person = Person::of(&server.url);
    let done = person.run("cd global-services rollout pause web --wait").await;
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("HALTED") && done.out.contains("2/3"), "{}", done.out);
    // Whoever waits for it to get anywhere is told that it does not.
    let done = person.run("cd global-services rollout status web --wait").await;
    assert_eq!(done.code, 1, "{}", done.out);
    assert!(done.err.contains("rollout resume web"), "{}", done.err);
}

#[tokio::test]
async fn an_update_sends_what_was_named_and_no_more() {
    let server = Server::start().await.data("GetGlobalService", "globalService", &global("UNDONE")).data(
        "UpdateGlobalService",
        "updateGlobalService",
        &global("UNDONE"),
    );
    let person = Person::of(&server.url);
    let done = person.run("cd global-services update web").await;
    assert_eq!(done.code, 2, "{}", done.err);
    assert!(done.err.contains("nothing is changed"), "{}", done.err);
    let done = person.run("cd global-services update web --cascade delete -o name").await;
    assert_eq!((done.code, done.out.as_str()), (0, "global-service/web\n"), "{}", done.err);
    let asked = server.asked("UpdateGlobalService");
    assert_eq!(asked[0]["attributes"], json!({"name": "web", "cascade": {"delete": true}}));
    // What was undone is neither resumed nor undone.
    let done = person.run("cd global-services update web --cascade delete --wait").await;
    assert_eq!(done.code, 1);
    assert!(done.err.contains("stays undone until") && !done.err.contains("rollout resume"), "{}", done.err);
}

#[tokio::test]
async fn an_instance_that_has_to_go_is_not_waited_for() {
    let mut everywhere = global("COMPLETE");
    everywhere["instanceCounts"] = json!({"all": 3, "healthy": 2, "newest": 2, "leaving": 1});
    let server = Server::start().await.data("GetGlobalService", "globalService", &everywhere).data(
        "UpdateGlobalService",
        "updateGlobalService",
        &everywhere,
    );
    let done = Person::of(&server.url).run("cd global-services update web --tag a=b --wait").await;
    assert_eq!(done.code, 0, "{}", done.err);
}

#[tokio::test]
async fn a_global_service_is_described_with_its_instances() {
    let server = Server::start().await.data("GetGlobalService", "globalService", &global("COMPLETE")).data(
        "ListGlobalServiceInstances",
        "globalService",
        &instances(),
    );
    let person = Person::of(&server.url);
    let done = person.run("cd global-services describe web").await;
    assert!(done.out.contains("blue") && done.out.contains("COMPLETE"), "{}", done.out);
    let done = person.run("cd global-services describe web -o json").await;
    let json: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(json["instances"][0]["cluster"]["handle"], "blue");
    assert_eq!((&json["name"], &json["instanceCounts"]["newest"]), (&json!("web"), &json!(1)));
}
