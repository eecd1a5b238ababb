//! `plural cd managed-namespaces`: what is asked for, what is sent, what is shown.

use serde_json::{Value, json};

use crate::{run::Person, server::Server};

const ID: &str = "0190b8a2-7c11-7def-8000-0123456789ab";

fn managed(counts: [u64; 3]) -> Value {
    let [all, synced, leaving] = counts;
    json!({"id": ID, "name": "team-a", "namespace": "team-a", "description": null, "labels": {"team": "a"},
        "annotations": {}, "pullSecrets": null, "target": {"tags": {"stage": "prod"}, "distro": null},
        "cascade": {"delete": true, "detach": false}, "service": null, "spread": true, "error": null,
        "deletedAt": null, "instanceCounts": {"all": all, "synced": synced, "leaving": leaving}})
}

/// Two pages of one cluster each; the state of the second is not known to this client.
async fn server() -> Server {
    let page = |cluster: &str, state: &str, more: bool| {
        let node = json!({"state": state, "leaving": false, "namespaceId": ID, "namespaceStatus": "HEALTHY",
            "serviceId": null, "serviceStatus": null, "cluster": {"id": ID, "name": cluster, "handle": cluster}});
        json!({"instances": {"pageInfo": {"hasNextPage": more, "endCursor": cluster}, "edges": [{"node": node}]}})
    };
    Server::start()
        .await
        .data("GetManagedNamespace", "managedNamespace", &managed([2, 1, 0]))
        .data("ListManagedNamespaceInstances", "managedNamespace", &page("blue", "SYNCED", true))
        .data("ListManagedNamespaceInstances", "managedNamespace", &page("green", "MELTING", false))
}

#[tokio::test]
async fn an_update_sends_what_was_named_and_no_more() {
    let server = Server::start()
        .await
        .data("GetManagedNamespace", "managedNamespace", &managed([2, 1, 1]))
        .data("UpdateManagedNamespace", "updateManagedNamespace", &managed([2, 1, 0]));
    let person = Person::of(&server.url);
    let done = person.run("cd managed-namespaces update team-a").await;
    assert_eq!(done.code, 2, "{}", done.err);
    assert!(done.err.contains("nothing is changed"), "{}", done.err);
    assert!(server.asked("UpdateManagedNamespace").is_empty());
    let done = person.run("cd managed-namespaces update team-a --distro eks -o name").await;
    assert_eq!((done.code, done.out.as_str()), (0, "managed-namespace/team-a\n"), "{}", done.err);
    // One that has to go from a cluster is not waited for.
    let done = person.run("cd managed-namespaces update team-a --tag stage=test --wait").await;
    assert_eq!(done.code, 0, "{}", done.err);
    let asked = server.asked("UpdateManagedNamespace");
    assert_eq!(asked[0]["attributes"], json!({"name": "team-a", "target": {"distro": "EKS"}}));
    assert_eq!(asked[1]["attributes"], json!({"name": "team-a", "target": {"tags": {"stage": "test"}}}));
}

#[tokio::test]
async fn a_list_counts_and_one_is_shown_with_its_clusters() {
    let all = json!({"pageInfo": {"hasNextPage": false, "endCursor": null},
        "edges": [{"node": managed([2, 1, 0])}, {"node": managed([5, 2, 1])}]});
    let server = server().await.data("ListManagedNamespaces", "managedNamespaces", &all);
    let person = Person::of(&server.url);
    let done = person.run("cd managed-namespaces list").await;
    assert!(done.out.contains("1/2") && done.out.contains("stage=prod"), "{}", done.out);
    assert!(done.out.contains("2/4 (1 leaving)"), "{}", done.out);
    assert!(server.asked("ListManagedNamespaceInstances").is_empty());
    let done = person.run("cd managed-namespaces get team-a").await;
    assert!(done.out.contains("blue") && done.out.contains("SYNCED"), "{}", done.out);
    assert!(done.out.contains("green") && done.out.contains("UNKNOWN"), "{}", done.out);
    assert_eq!(server.asked("ListManagedNamespaceInstances")[1]["after"], "blue");
    let done = person.run("cd managed-namespaces get team-a -o json").await;
    let json: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(json["instanceCounts"]["synced"], 1);
}

#[tokio::test]
async fn a_deletion_is_shown_for_every_cluster() {
    let server = server().await;
    let done = Person::of(&server.url).run("cd managed-namespaces delete team-a --dry-run").await;
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", done.out);
    assert!(lines[0].starts_with("blue: namespace team-a is deleted") && lines[1].starts_with("green: "));
}

#[tokio::test]
async fn one_that_is_not_there_is_named() {
    let server = Server::start().await.error("GetManagedNamespace", "NOT_FOUND", "could not find it");
    let done = Person::of(&server.url).run("cd managed-namespaces get team-b").await;
    assert_eq!(done.code, 1);
    assert!(done.err.contains("managed namespace \"team-b\" not found"), "{}", done.err);
}

#[tokio::test]
async fn more_on_standard_input_than_is_taken_is_refused() {
    let server = server().await;
    // Cut at a mebibyte it would still be a mapping.
    let long = format!("description: ours\n#{}\nlabels: {{team: b}}\n", "x".repeat(1 << 20));
    let person = Person::of(&server.url).piping(&long);
    let done = person.run("cd managed-namespaces update team-a -f -").await;
    assert_eq!(done.code, 2, "{}", done.err);
    assert!(done.err.contains("must not exceed 1 MiB"), "{}", done.err);
}
